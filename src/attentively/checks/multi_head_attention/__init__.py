"""Checks of the assignment on multi-head attention.

Parts 1 to 3 rebuild functions of the package, and the whole module is put into the pretrained
Transformer. Parts 4 to 6 are original problems. Their checks test which function the returned
parameters compute, so all parameters that compute it are right.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import causal_mask, masked_softmax
from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_tensor,
    in_32_bits,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.checks.replaceable_attention import (
    Losses,
    State,
    attentions,
    losses_of,
    put_in,
    weights_of,
    with_heads_of,
)
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations

__all__ = [
    "attend",
    "attentions",
    "heads",
    "look_ups",
    "losses_of",
    "multi_head",
    "once_solved",
    "progress",
    "pruning",
    "ready",
    "same_function",
    "uses",
    "weights_of",
    "with_heads_of",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Show that the package, its trained Transformer and these checks work."""
    _parts.explain_undefined_names()
    found = attentions()
    sizes = {len(each.query_projection.weight) // each.d_head for each in found.values()}
    print(
        f"PyTorch {torch.__version__}. The trained Transformer has {len(found)} attention modules"
    )
    print(f"of {sizes.pop()} heads each. The set-up is complete.")


# Multi-head attention as a function of its weights


def _split(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(2, (num_heads, -1)).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(scores, None if mask is None else mask.unsqueeze(1))


def _project(state: State, name: str, x: Tensor) -> Tensor:
    return F.linear(x, state[f"{name}_projection.weight"], state[f"{name}_projection.bias"])


def attend(
    state: State,
    num_heads: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the context and the weights of the attention that has these eight tensors.

    The heads share out the rows of the projections, which may be fewer than d_model.
    """
    return _attend(state, num_heads, query, key, value, mask)


def _attend(
    state: State,
    num_heads: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    split: Callable[[Tensor, int], Tensor] = _split,
    join: Callable[[Tensor], Tensor] = _join,
    weigh: Callable[[Tensor, Tensor | None], Tensor] = _weigh,
    factor: Callable[[int, int], float] = lambda d_head, _: 1 / math.sqrt(d_head),
    gates: Tensor | None = None,
    last: bool = True,
) -> tuple[Tensor, Tensor]:
    """Compute `attend`; each keyword is one step, which a mistake may have changed."""
    queries, keys, values = (
        split(_project(state, name, x), num_heads)
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    d_head = state["query_projection.weight"].size(0) // num_heads
    scores = queries @ keys.transpose(2, 3) * factor(d_head, query.size(2))
    weights = weigh(scores, mask)
    context = weights @ values
    if gates is not None:
        context = context * gates.reshape(-1, 1, 1)
    joined = join(context)
    return _project(state, "output", joined) if last else joined, weights


class _Attention(MultiHeadAttention):
    """An attention that a message can show in a line."""

    def __repr__(self) -> str:
        return "multi-head attention"


def _attention(d_model: int, num_heads: int) -> _Attention:
    """Return an attention whose weights are far from equal, with biases."""
    attention = _Attention(d_model, num_heads)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(2.0)
    return attention


def _strided(x: Tensor, num_heads: int) -> Tensor:
    """Give head i every num_heads-th entry, starting at the i-th."""
    return x.unflatten(2, (-1, num_heads)).permute(0, 3, 1, 2)


def _cut_anew(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(len(x), num_heads, x.size(1), -1)


# Part 1

_SPLIT_TWINS = [
    *known(
        "split_heads: The tensor is reshaped without exchanging axes, so a head receives the "
        "entries of whole words. Split the last axis first, then exchange the axes of words and "
        "heads.",
        _cut_anew,
        lambda x, n: x.reshape(len(x), n, -1, x.size(1)).transpose(2, 3),
    ),
    *known(
        "split_heads: Each head receives every num_heads-th entry. The entries of a head are "
        "adjacent: head 0 has the first d_head entries of each word.",
        _strided,
        lambda x, n: x.unflatten(2, (-1, n)).transpose(2, 3),
    ),
    *known(
        "split_heads: num_heads and d_head are exchanged. The last axis must be split into "
        "(num_heads, d_head).",
        lambda x, n: x.unflatten(2, (-1, n)).transpose(1, 2),
    ),
    *known(
        "split_heads: The axis of the words comes before the axis of the heads. Exchange the two:"
        " (batch, num_heads, length, d_head).",
        lambda x, n: x.unflatten(2, (n, -1)),
    ),
    *known(
        "split_heads: The last two axes are exchanged. They must be (length, d_head).",
        lambda x, n: x.unflatten(2, (n, -1)).permute(0, 2, 3, 1),
    ),
    *known(
        "split_heads: The axis of the heads comes before the batch. The batch must be the first "
        "axis.",
        lambda x, n: x.unflatten(2, (n, -1)).permute(2, 0, 1, 3),
        lambda x, n: torch.cat(x.chunk(n, dim=-1)),
    ),
]

_MERGE_TWINS = [
    *known(
        "merge_heads: The tensor is reshaped without exchanging axes, so the entries of different"
        " words are mixed. Exchange the axes of heads and words first, then flatten the last two "
        "axes.",
        lambda x: x.reshape(len(x), x.size(2), -1),
    ),
    *known(
        "merge_heads: The entries of the heads alternate. The heads must be concatenated: first "
        "all entries of head 0, then those of head 1.",
        lambda x: x.permute(0, 2, 3, 1).flatten(2),
    ),
    *known(
        "merge_heads: The heads are still an axis of their own. Flatten the axes (num_heads, "
        "d_head) into one axis of size d_model.",
        lambda x: x.transpose(1, 2),
        lambda x: x,
    ),
    *known(
        "merge_heads: The heads are averaged or summed. They must be concatenated, so that every "
        "entry is kept.",
        lambda x: x.mean(dim=1),
        lambda x: x.sum(dim=1),
    ),
    *known(
        "merge_heads: All words of a head are concatenated. The heads of each word must be "
        "concatenated.",
        lambda x: x.flatten(2),
    ),
]


@_parts.part(
    "splitting and merging",
    "split_heads",
    "merge_heads",
    rebuilds=("attentively.attention.multi_head:MultiHeadAttention",),
    refuses=(
        "attentively.attention.plain_multi_head:MultiHeadAttention",
        "torch.nn:MultiheadAttention",
    ),
    step=True,
)
def heads(split_heads: object, merge_heads: object, thorough: bool = False) -> None:
    """Check the splitting into heads and the merging of heads."""
    by_hand = torch.arange(1.0, 19.0).reshape(1, 3, 6)
    asked = [(by_hand, 2), (torch.randn(2, 5, 12), 3), (torch.randn(3, 2, 20), 4)]
    if thorough:
        asked += [(torch.randn(1, 1, 3), 1), (torch.randn(2, 7, 10), 5), (torch.randn(5, 3, 7), 7)]
    inputs: Inputs
    for x, num_heads in asked:
        inputs = {"x": x, "num_heads": num_heads}
        answer = in_32_bits(call_twice(split_heads, inputs))
        what = "the output of split_heads"
        expect_equal(answer, _split(x, num_heads), what, inputs, _SPLIT_TWINS)
    for x, num_heads in asked:
        inputs = {"x": _split(x, num_heads).contiguous()}
        answer = in_32_bits(call_twice(merge_heads, inputs))
        expect_equal(answer, x, "the output of merge_heads", inputs, _MERGE_TWINS)
    inputs = {"x": torch.randn(2, 3, 4, requires_grad=True), "num_heads": 2}
    expect_gradients_through(split_heads, inputs, {"x": inputs["x"]})
    inputs = {"x": torch.randn(2, 3, 5, 4, requires_grad=True)}
    expect_gradients_through(merge_heads, inputs, inputs)


# Part 2

_SENTENCES = (
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
    "the dogs eat the bread",
)


def _weigh_inverted(scores: Tensor, mask: Tensor | None) -> Tensor:
    return _weigh(scores, None if mask is None else ~mask)


def _weigh_heads_as_batch(scores: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(scores, None if mask is None else mask.unsqueeze(0))


def _weigh_nothing_evenly(scores: Tensor, mask: Tensor | None) -> Tensor:
    return (scores if mask is None else scores.masked_fill(~mask.unsqueeze(1), -1e9)).softmax(-1)


def _weigh_hidden_as_zero(scores: Tensor, mask: Tensor | None) -> Tensor:
    return (scores if mask is None else scores * mask.unsqueeze(1)).softmax(-1)


def _weigh_then_hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores.softmax(-1) * (1.0 if mask is None else mask.unsqueeze(1))


def _weigh_minus_infinity(scores: Tensor, mask: Tensor | None) -> Tensor:
    lowest = -math.inf
    return (scores if mask is None else scores.masked_fill(~mask.unsqueeze(1), lowest)).softmax(-1)


def _block_diagonal(state: State, num_heads: int) -> State:
    """Return projections through which each head reads only its own slice of the inputs."""
    d_model = len(state["output_projection.bias"])
    head = torch.arange(d_model) // (d_model // num_heads)
    own = head.unsqueeze(1) == head
    names = [f"{name}_projection.weight" for name in ("query", "key", "value")]
    return state | {name: state[name] * own for name in names}


_HEADS_MIXED = (
    "The projections are split differently than in part 1. Head 0 has the first d_head rows of "
    "each projection, and the head outputs are concatenated in the order of the heads."
)

_WAYS: dict[str, dict[str, Any]] = {
    "The output projection W^O is missing. Apply output_projection to the concatenated head "
    "outputs.": {"last": False},
    "The scores are divided by √d_model. Queries and keys of a head have dimension d_head, so "
    "divide by √d_head.": {"factor": lambda _, d_model: 1 / math.sqrt(d_model)},
    "The scores are not divided by √d_head.": {"factor": lambda *_: 1.0},
    "The scores are divided by d_head instead of √d_head.": {"factor": lambda d, _: 1 / d},
    "The head outputs are merged without exchanging axes, so the entries of different words are "
    "mixed.": {"join": lambda x: x.reshape(len(x), x.size(2), -1)},
    "The projections are reshaped without exchanging axes, so a head receives the entries of "
    "whole words.": {"split": _cut_anew},
    "The mask is inverted: True means that a query may attend to the key. (In "
    "nn.MultiheadAttention, True has the opposite meaning.)": {"weigh": _weigh_inverted},
    "The mask is not used. Where it is False, the weight must be 0.": {
        "weigh": lambda scores, _: scores.softmax(dim=-1)
    },
    "The batch axis of the mask is aligned with the heads. Add an axis for the heads after the "
    "batch: mask.unsqueeze(1).": {"weigh": _weigh_heads_as_batch},
    "A query that may attend to no key has equal weights for all keys. Its weights must be 0.": {
        "weigh": _weigh_nothing_evenly
    },
    "A query that may attend to no key has NaN as weights. They must be 0. The softmax of a row "
    "of -inf is NaN; masked_softmax returns 0.": {"weigh": _weigh_minus_infinity},
    "Masked keys have the score 0 and take part in the softmax. Their scores must be very low "
    "before the softmax, such as -1e9.": {"weigh": _weigh_hidden_as_zero},
    "The mask is applied after the softmax, so the remaining weights do not sum to 1. Apply it to"
    " the scores, before the softmax.": {"weigh": _weigh_then_hide},
    "The softmax is taken over the queries. It must be taken over the keys, the last axis.": {
        "weigh": lambda scores, _: scores.softmax(dim=-2)
    },
    _HEADS_MIXED: {"split": _strided},
    "num_heads and d_head are exchanged: there are d_head heads of dimension num_heads.": {
        "split": lambda x, n: _split(x, x.size(2) // n),
        "factor": lambda d_head, d_model: math.sqrt(d_head / d_model),
    },
}

_Answer = tuple[Tensor, Tensor]


def _tried(way: Callable[..., _Answer], *given: Any) -> _Answer:
    """Make a mistake; where the package refuses its shapes, it cannot be made."""
    try:
        return way(*given)
    except ValueError as error:
        raise RuntimeError from error


def _layers_taken(state: State, **taken: str) -> State:
    """Return projections of which some are those of another name."""
    return state | {
        f"{name}_projection.{kind}": state[f"{other}_projection.{kind}"]
        for name, other in taken.items()
        for kind in ("weight", "bias")
    }


def _without_layer(state: State, name: str) -> State:
    bias = f"{name}_projection.bias"
    nothing = {f"{name}_projection.weight": torch.eye(len(state[bias]))}
    return state | nothing | {bias: torch.zeros_like(state[bias])}


def _multi_head_ways(state: State, num_heads: int) -> list[tuple[str, Callable[..., _Answer]]]:
    """Return the known mistakes of an attention with these weights, each as a function."""
    right = partial(_attend, state, num_heads)
    exchanged = _layers_taken(state, query="key", key="query")
    ways: list[tuple[str, Callable[..., _Answer]]] = [
        (said, partial(_attend, state, num_heads, **way)) for said, way in _WAYS.items()
    ]
    return [
        *ways,
        (
            _HEADS_MIXED,
            partial(_attend, state, num_heads, join=lambda x: x.permute(0, 2, 3, 1).flatten(2)),
        ),
        (
            "There is only one head: the projections are not split.",
            partial(_attend, state, 1),
        ),
        (
            "The inputs are split, so a head reads only a part of each vector. Every head must "
            "project the whole vectors; the projections are split.",
            partial(_attend, _block_diagonal(state, num_heads), num_heads),
        ),
        ("The values are projected from `key`. They must be projected from `value`.",
         lambda q, k, v, m=None: right(q, k, k, m)),
        ("`key` and `value` are exchanged.", lambda q, k, v, m=None: right(q, v, k, m)),
        ("Keys and values are projected from `query`. They must be projected from `key` and "
         "`value`.",
         lambda q, k, v, m=None: right(q, q, q, m)),
        ("query_projection and key_projection are exchanged.",
         partial(_attend, exchanged, num_heads)),
        *(
            ("One projection is used twice. Queries, keys and values need a projection of their "
             "own each.", partial(_attend, _layers_taken(state, **taken), num_heads))
            for taken in ({"value": "key"}, {"key": "query"}, {"key": "query", "value": "query"})
        ),
        *(
            (f"The {name}_projection is not used.",
             partial(_attend, _without_layer(state, name), num_heads))
            for name in ("query", "key", "value")
        ),
    ]  # fmt: skip


_WEIGHTS_TWINS = known(
    "The weights are averaged over the heads. Return the weights of each head: (batch, num_heads,"
    " q, k).",
    lambda weights: weights.mean(dim=1),
    lambda weights: weights.mean(dim=1, keepdim=True),
) + known(
    "The weights are summed over the heads. Return the weights of each head: (batch, num_heads, "
    "q, k).",
    lambda weights: weights.sum(dim=1),
)


def _made(candidate: object, d_model: int, num_heads: int) -> tuple[nn.Module, State]:
    """Return the student's attention with weights of ours, and the weights."""
    asked = {"d_model": d_model, "num_heads": num_heads}
    made = call(candidate, asked)
    if not isinstance(made, nn.Module):
        raise CheckFailed(
            "  MultiHeadAttention must be a subclass of nn.Module, so that its parameters are "
            f"registered.\n{describe(asked)}"
        )
    state = weights_of(_attention(d_model, num_heads))
    found = {name: tuple(tensor.shape) for name, tensor in made.state_dict().items()}
    for name, tensor in state.items():
        if name not in found:
            where = f", only {', '.join(found)}" if found else ""
            raise CheckFailed(
                f"  There is no parameter {name}{where}. The four layers must be named "
                "query_projection, key_projection, value_projection and output_projection, each "
                f"nn.Linear(d_model, d_model) with a bias.\n{describe(asked)}"
            )
        if found[name] != tensor.shape:
            raise CheckFailed(
                f"  The shape of {name} is {found[name]}, expected {tuple(tensor.shape)}. Each "
                "layer computes the projections of all heads: it maps d_model dimensions to "
                f"num_heads · d_head, which is d_model again.\n{describe(asked)}"
            )
    more = [name for name in found if name not in state]
    if more:
        raise CheckFailed(
            f"  The module has an additional parameter or buffer {more[0]}, so the trained "
            f"parameters cannot be loaded. It must have only the four layers.\n{describe(asked)}"
        )
    made.load_state_dict(state)
    return made.eval(), state


def _compare_attention(made: nn.Module, state: State, num_heads: int, inputs: Inputs) -> None:
    answer = call_twice(made, inputs)
    context, weights = map(in_32_bits, expect_pair(answer, ("context", "weights"), inputs))
    expected, expected_weights = _attend(state, num_heads, *inputs.values())
    ways = _multi_head_ways(state, num_heads)
    first = [
        Twin(
            "The weights are returned first. Return the context, then the weights.",
            lambda *_: expected_weights,
        )
    ]
    first += [Twin(said, lambda *given, way=way: _tried(way, *given)[0]) for said, way in ways]
    expect_equal(context, expected, "the context", inputs, first)
    other = [Twin(said, lambda *given, way=way: _tried(way, *given)[1]) for said, way in ways]
    other += [
        Twin(twin.diagnosis, lambda *_, twin=twin: twin.answer(expected_weights))
        for twin in _WEIGHTS_TWINS
    ]
    expect_equal(weights, expected_weights, "the weights", inputs, other)


@_parts.part(
    "multi-head attention",
    "MultiHeadAttention",
    rebuilds=("attentively.attention.multi_head:MultiHeadAttention",),
    refuses=(
        "attentively.attention.plain_multi_head:MultiHeadAttention",
        "torch.nn:MultiheadAttention",
    ),
)
def multi_head(candidate: object, thorough: bool = False) -> None:
    """Check a multi-head attention, by itself and in the trained Transformer."""
    welcome = torch.randn(1, 3, 6).mul(10).round() / 10
    made, state = _made(candidate, 6, 2)
    _compare_attention(made, state, 2, {"query": welcome, "key": welcome, "value": welcome})
    _expect_refusal(candidate)
    sizes = [(2, 2, 4, 5, 8), (3, 4, 2, 5, 12)]
    if thorough:
        sizes += [(1, 1, 3, 2, 5), (2, 7, 1, 4, 7), (3, 3, 5, 5, 21)]
    for batch, num_heads, queries, keys, d_model in sizes:
        made, state = _made(candidate, d_model, num_heads)
        inputs: dict[str, Any] = {
            "query": torch.randn(batch, queries, d_model),
            "key": torch.randn(batch, keys, d_model),
            "value": torch.randn(batch, keys, d_model),
        }
        _compare_attention(made, state, num_heads, inputs)
        mask = torch.rand(batch, queries, keys) < 0.5
        mask[..., 0] = True
        _compare_attention(made, state, num_heads, {**inputs, "mask": mask})
        mask = mask.clone()
        mask[0, 0] = False  # nothing to attend to
        _compare_attention(made, state, num_heads, {**inputs, "mask": mask})
        padding = torch.arange(keys).expand(batch, 1, keys) < keys - 1
        _compare_attention(made, state, num_heads, {**inputs, "mask": padding})
        _compare_attention(made, state, num_heads, {**inputs, "mask": padding[:1]})
        _compare_attention(made.train(), state, num_heads, inputs)  # nobody asked for dropout
    made, _ = _made(candidate, 8, 2)
    learned = {name: each for name, each in made.named_parameters() if name != _KEY_BIAS}
    lengths = {"query": 3, "key": 5, "value": 5}
    inputs = {name: torch.randn(2, n, 8, requires_grad=True) for name, n in lengths.items()}
    expect_gradients_through(made, inputs, {**inputs, **learned}, lambda answer: answer[0])
    looking = {name: inputs[name] for name in ("query", "key")}
    expect_gradients_through(made, inputs, looking, lambda answer: answer[1])
    expect_same_translations(
        partial(put_in, candidate), _SENTENCES, "multi-head attention", TRANSFORMER
    )


_KEY_BIAS = "key_projection.bias"


def _expect_refusal(candidate: object) -> None:
    asked = {"d_model": 6, "num_heads": 4}

    def refuses(d_model: int, num_heads: int) -> bool:
        try:
            cast(Any, candidate)(d_model, num_heads)
        except ValueError:
            return True
        except AssertionError:
            return False
        return False

    if not call(refuses, asked):
        raise CheckFailed(
            "  d_model=6 does not split into 4 equal heads, but __init__ raises no ValueError."
            f"\n{describe(asked)}"
        )


# Part 3

_Use = Callable[..., _Answer]


def _keys(padding: Tensor) -> Tensor:
    return padding.unsqueeze(1)


def _in_the_encoder(attention: Any, x: Tensor, src_mask: Tensor) -> _Answer:
    return cast(_Answer, attention(x, x, x, mask=_keys(src_mask)))


def _in_the_decoder(attention: Any, y: Tensor, tgt_mask: Tensor) -> _Answer:
    return cast(_Answer, attention(y, y, y, mask=causal_mask(y.size(1))))


def _across(attention: Any, y: Tensor, x: Tensor, tgt_mask: Tensor, src_mask: Tensor) -> _Answer:
    return cast(_Answer, attention(y, x, x, mask=_keys(src_mask)))


_ENCODER_WAYS: dict[str, list[_Use]] = {
    "A source word attends to padding. The mask must hide the keys that are padding from every "
    "query: (batch, 1, src_len).": [
        lambda a, x, s: a(x, x, x),
        lambda a, x, s: a(*[x * s.unsqueeze(2)] * 3),
    ],
    "A source word cannot attend to later words. The encoder reads the complete source, so it "
    "needs no causal mask.": [
        lambda a, x, s: a(x, x, x, causal_mask(x.size(1))),
        lambda a, x, s: a(x, x, x, causal_mask(x.size(1)) & _keys(s)),
    ],
    "The mask is inverted: True means that a query may attend to the key.": [
        lambda a, x, s: a(x, x, x, ~_keys(s)),
    ],
}  # fmt: skip

_QUERIES_HIDDEN = (
    "The mask is on the axis of the queries, (batch, src_len, 1), so the source words still attend "
    "to padding. It must be on the axis of the keys: (batch, 1, src_len)."
)

_DECODER_WAYS: dict[str, list[_Use]] = {
    "A target word attends to later words, which are not known yet. A causal mask is needed.": [
        lambda a, y, t: a(y, y, y, _keys(t)),
        lambda a, y, t: a(y, y, y),
    ],
    "The causal mask has the wrong direction: a word attends to later words instead of earlier "
    "ones.": [
        lambda a, y, t: a(y, y, y, causal_mask(y.size(1)).transpose(1, 2)),
        lambda a, y, t: a(y, y, y, causal_mask(y.size(1)).transpose(1, 2) & _keys(t)),
        lambda a, y, t: a(y, y, y, ~causal_mask(y.size(1))),
        lambda a, y, t: a(y, y, y, ~causal_mask(y.size(1)) & _keys(t)),
    ],
    "A word cannot attend to itself. The decoder has read this word, so the diagonal of the mask "
    "must be True.": [
        lambda a, y, t: a(y, y, y, causal_mask(y.size(1)).tril(-1)),
        lambda a, y, t: a(y, y, y, causal_mask(y.size(1)).tril(-1) & _keys(t)),
    ],
    "A word attends to the next word, which it must predict. Above the diagonal, the mask must be"
    " False.": [
        lambda a, y, t: a(y, y, y, torch.ones_like(causal_mask(y.size(1))).tril(1)),
        lambda a, y, t: a(y, y, y, torch.ones_like(causal_mask(y.size(1))).tril(1) & _keys(t)),
    ],
}  # fmt: skip


def _earlier(y: Tensor, x: Tensor) -> Tensor:
    return torch.ones(1, y.size(1), x.size(1), dtype=torch.bool).tril()


_ACROSS_WAYS: dict[str, list[_Use]] = {
    "A target word attends to the padding of the source.": [lambda a, y, x, t, s: a(y, x, x)],
    "A causal mask hides later source words. The complete source is known before the first target"
    " word is predicted; only the self-attention of the decoder needs a causal mask.": [
        lambda a, y, x, t, s: a(y, x, x, _earlier(y, x)),
        lambda a, y, x, t, s: a(y, x, x, _earlier(y, x) & _keys(s)),
    ],
    "The mask is that of the target's padding. The keys are source words, so the mask must be "
    "src_mask.": [
        lambda a, y, x, t, s: a(y, x, x, _keys(t)),
    ],
    "The mask is inverted: True means that a query may attend to the key.": [
        lambda a, y, x, t, s: a(y, x, x, ~_keys(s)),
    ],
    "Source and target are exchanged: the queries must come from the target, the keys and values "
    "from the source.": [
        lambda a, y, x, t, s: a(x, y, y),
        lambda a, y, x, t, s: a(x, y, y, _keys(t)),
        lambda a, y, x, t, s: a(x, y, y, _keys(s)),
    ],
    "The target attends to itself. Keys and values must come from the source.": [
        lambda a, y, x, t, s: a(y, y, y, _keys(t)),
        lambda a, y, x, t, s: a(y, y, y, _keys(s)),
        lambda a, y, x, t, s: a(y, y, y, causal_mask(y.size(1))),
        lambda a, y, x, t, s: a(y, y, y),
    ],
    "The source attends to itself. The queries must come from the target.": [
        lambda a, y, x, t, s: a(x, x, x, _keys(s)),
    ],
    "The values come from the target. Keys and values must come from the source.": [
        lambda a, y, x, t, s: a(y, x, y, _keys(s)),
    ],
    "The keys come from the target. Keys and values must come from the source.": [
        lambda a, y, x, t, s: a(y, y, x, _keys(s)),
    ],
}  # fmt: skip


def _compare_use(
    candidate: object, name: str, right: _Use, ways: dict[str, list[_Use]], inputs: Inputs
) -> None:
    """Compare the outputs of real queries; those of padding are not compared."""
    real = inputs["tgt_mask" if "tgt_mask" in inputs else "src_mask"]

    def of_words(answer: Sequence[Tensor], which: int) -> Tensor:
        rows = real.unsqueeze(2) if which == 0 else real[:, None, :, None]
        return torch.where(rows, answer[which], 0.0)

    def mistake(use: _Use, which: int) -> Callable[..., Tensor]:
        return lambda *given: of_words(_tried(use, *given), which)

    expected = right(*inputs.values())
    answer = expect_pair(call_twice(candidate, inputs), ("context", "weights"), inputs)
    weights = answer[1]
    if (
        name == "in_the_encoder"
        and isinstance(weights, Tensor)
        and weights.shape == expected[1].shape
    ):
        of_padding = weights.transpose(1, 2)[~real]
        if len(of_padding) and not of_padding.any():
            ways = {_QUERIES_HIDDEN: [lambda a, x, s: a(x, x, x)], **ways}
    for which, what in enumerate((f"{name}: the context", f"{name}: the weights")):
        got = expect_tensor(in_32_bits(answer[which]), expected[which].shape, what, inputs)
        twins = [
            Twin(f"{name}: {said}", mistake(use, which))
            for said, uses in ways.items()
            for use in uses
        ]
        expect_equal(
            of_words((got, got), which), of_words(expected, which).detach(), what, inputs, twins
        )


@_parts.part(
    "three uses",
    "in_the_encoder",
    "in_the_decoder",
    "across",
    rebuilds=("attentively.models.transformer:Transformer",),
    refuses=("attentively.models.plain_transformer:Transformer",),
    step=True,
)
def uses(
    in_the_encoder: object, in_the_decoder: object, across: object, thorough: bool = False
) -> None:
    """Check the three attentions of a Transformer: their queries, keys and masks."""
    sizes = [(2, 5, 5), (3, 5, 4)]
    if thorough:
        sizes += [(1, 3, 7), (4, 6, 6)]
    for batch, src_len, tgt_len in sizes:
        attention = _attention(6, 2).requires_grad_(False)
        x, y = torch.randn(batch, src_len, 6), torch.randn(batch, tgt_len, 6)
        src_mask = torch.arange(src_len) < src_len - torch.arange(batch).unsqueeze(1)
        tgt_mask = torch.arange(tgt_len) < tgt_len - torch.arange(batch).flip(0).unsqueeze(1)
        inputs: Inputs = {"attention": attention, "x": x, "src_mask": src_mask}
        _compare_use(in_the_encoder, "in_the_encoder", _in_the_encoder, _ENCODER_WAYS, inputs)
        inputs = {"attention": attention, "y": y, "tgt_mask": tgt_mask}
        _compare_use(in_the_decoder, "in_the_decoder", _in_the_decoder, _DECODER_WAYS, inputs)
        inputs = {
            "attention": attention, "y": y, "x": x, "tgt_mask": tgt_mask, "src_mask": src_mask
        }  # fmt: skip
        _compare_use(across, "across", _across, _ACROSS_WAYS, inputs)


# Part 4

_NAMES = ("W_Q", "W_K", "W_V", "W_O")
_Matrices = Sequence[Tensor]


def _sentences(n: int) -> Tensor:
    """Return sentences of n words, as indices: all words different, and with repeated words."""
    return torch.stack([torch.arange(n), torch.arange(n).flip(0), torch.randint(n, (n,))])


def _found(matrices: _Matrices, words: Tensor, n: int) -> Tensor:
    """Return the output of two heads with these matrices and without biases."""
    place = torch.eye(n).expand(len(words), n, n)
    x = torch.cat([F.one_hot(words, n).float(), place], dim=-1)
    state = {}
    for name, matrix in zip(("query", "key", "value", "output"), matrices, strict=True):
        state[f"{name}_projection.weight"] = matrix
        state[f"{name}_projection.bias"] = torch.zeros(2 * n)
    return attend(state, 2, x, x, x)[0]


def _wanted(words: Tensor, n: int, steps: Sequence[int]) -> Tensor:
    places = [(torch.arange(n) + step).clamp(0, n - 1) for step in steps]
    return torch.cat([F.one_hot(words[:, place], n).float() for place in places], dim=-1)


def _wrapped_round(words: Tensor, n: int, steps: Sequence[int]) -> Tensor:
    return torch.cat([F.one_hot(words.roll(-step, dims=1), n).float() for step in steps], dim=-1)


def _places(words: Tensor, n: int, steps: Sequence[int]) -> Tensor:
    return _wanted(torch.arange(n).expand(len(words), n), n, steps)


def _repairs(m: _Matrices) -> Iterator[tuple[str, _Matrices]]:
    """Yield possible mistakes in the four matrices, each with the corrected matrices."""
    blunt = (
        "The right words have the largest entries, but other words have a share too. The scores "
        "must differ more: after the division by √d_head, the right score should exceed the "
        "others by 10 or more."
    )
    exchanged = (
        "W_Q and W_K are exchanged, or rows and columns are exchanged in W_Q: its columns belong "
        "to the position of the query, its rows to the position that the query looks up."
    )
    turned = (
        "Transposed: {}. As in nn.Linear, where y = W x, a matrix has one row for each output "
        "entry and one column for each input entry."
    )
    half = (
        "The wrong half of x is read: {}. The first n entries of x are the word, the last n are "
        "its position. Which position is looked up depends on positions only."
    )
    yield blunt, [1e3 * m[0], *m[1:]]
    yield exchanged, [m[1], m[0], *m[2:]]
    for some in itertools.chain(*(itertools.combinations(range(4), size) for size in (1, 2, 3, 4))):
        names = ", ".join(_NAMES[i] for i in some)
        yield turned.format(names), [w.T if i in some else w for i, w in enumerate(m)]
        rolled = [w.roll(len(w) // 2, 1) if i in some else w for i, w in enumerate(m)]
        yield half.format(names), rolled


def _is_found(output: Tensor, wanted: Tensor) -> bool:
    return bool((output - wanted).abs().max() < _NEAR)


_NEAR = 0.01
"""Largest error of a look-up: a softmax never gives exactly 0 to the other words."""


def _why_not_found(
    matrices: _Matrices, words: Tensor, n: int, steps: Sequence[int], output: Tensor
) -> str:
    if output.isnan().any():
        return (
            "The output is NaN: the scores are too large for 32-bit floating-point numbers. A "
            "few hundred are enough."
        )
    wanted = _wanted(words, n, steps)
    others = {
        "The two look-ups are exchanged: the first step belongs to the first n entries of the "
        "output.": _wanted(words, n, steps[::-1]),
        "The steps have the wrong sign. Step -1 finds the word before, step 1 the word after.":
            _wanted(words, n, [-step for step in steps]),
        "At the ends of the sentence, the look-up continues at the other end. A step beyond the "
        "end must find the first or the last word.": _wrapped_round(words, n, steps),
        "The output is the *position* that was looked up instead of its word. The word is in the "
        "first n entries of x, which the values must contain.": _places(words, n, steps),
    }  # fmt: skip
    if any(_is_found(output, _wanted(words, n, [step, step])) for step in (*steps, 0)):
        return (
            "Both heads use the same step. Each head has its own: the first step belongs to "
            "head 0, the second to head 1."
        )
    for said, other in others.items():
        if _is_found(output, other):
            return said
    for said, repaired in _repairs(matrices):
        if _is_found(_found(repaired, words, n), wanted):
            return said
    for half, which in ((output[..., :n], "first"), (output[..., n:], "last")):
        if not half.any():
            return (
                f"The {which} n entries of the output are all 0. Do both heads have values, and "
                "does W_O pass them on?"
            )
    inside = torch.ones(n, dtype=torch.bool)
    for step in steps:
        place = torch.arange(n) + step
        inside &= (place >= 0) & (place < n)
    if inside.any() and _is_found(output[:, inside], wanted[:, inside]):
        return (
            "Inside the sentence, every word is right. Where a step leads beyond the end, the "
            "first or the last word must be found."
        )
    even = torch.cat([F.one_hot(words, n).float().mean(dim=1)] * 2, dim=-1).unsqueeze(1)
    if _is_found(output, even.expand_as(output)):
        return "All positions have the same weight, because all scores are equal."
    return ""


@_parts.part("two look-ups", "look_ups")
def look_ups(candidate: object, thorough: bool = False) -> None:
    """Check matrices set by hand by the output of two heads with them."""
    asked: list[tuple[int, tuple[int, int]]] = [
        (3, (-1, 0)),
        (5, (-2, 1)),
        (4, (-1, 1)),
        (23, (-1, 2)),
    ]
    if thorough:
        asked += [(7, (3, -3)), (2, (1, 1)), (6, (-5, 2))]
    for n, steps in asked:
        inputs = {"n": n, "steps": steps}
        answer = call_twice(candidate, inputs)
        if not isinstance(answer, tuple | list) or len(answer) != 4:
            kind = f"{len(answer)}" if isinstance(answer, tuple | list) else type(answer).__name__
            raise CheckFailed(
                f"  Expected four matrices, `return W_Q, W_K, W_V, W_O`; got {kind}"
                f"\n{describe(inputs)}"
            )
        matrices = [
            expect_tensor(in_32_bits(each), (2 * n, 2 * n), name, inputs)
            for name, each in zip(_NAMES, answer, strict=True)
        ]
        words = _sentences(n)
        output, wanted = _found(matrices, words, n), _wanted(words, n, steps)
        if _is_found(output, wanted):
            continue
        far = ~((output - wanted).abs() < _NEAR)  # not a number is far
        sentence, place, number = far.nonzero()[0].tolist()
        half = slice(0, n) if number < n else slice(n, 2 * n)
        why = _why_not_found(matrices, words, n, steps, output)
        why = f"  {why}\n" if why else ""
        raise CheckFailed(
            f"{why}  For the words {words[sentence].tolist()}, the "
            f"{'first' if number < n else 'last'} {n} entries of the output at position {place} "
            f"are not the word at step {steps[number >= n]:+d}.\n{describe(inputs)}\n"
            f"  got         {show(output[sentence, place, half])}\n"
            f"  expected    {show(wanted[sentence, place, half])}"
        )


# Part 5


def _expect_state(
    answer: object, shapes: Mapping[str, tuple[int, ...]], inputs: Inputs, hint: str = ""
) -> State:
    """Return the answer if it is a dict of eight tensors of these shapes."""
    if not isinstance(answer, dict):
        raise CheckFailed(
            f"  Expected a dict with the eight parameter names, got {type(answer).__name__}"
            f"\n{describe(inputs)}"
        )
    for name in answer:
        if name not in shapes:
            raise CheckFailed(f"  The dict has an unknown name, {name!r}.\n{describe(inputs)}")
    state = {}
    for name, shape in shapes.items():
        if name not in answer:
            raise CheckFailed(f"  The dict lacks {name!r}.\n{describe(inputs)}")
        state[name] = expect_tensor(in_32_bits(answer[name]), shape, name, inputs, hint)
    return state


def _rows(num_heads: int, d_model: int, keep: Sequence[int]) -> Tensor:
    """Return the indices of the rows of a projection that belong to these heads, in this order."""
    return torch.arange(d_model).reshape(num_heads, -1)[torch.tensor(keep)].flatten()


def _pick(state: State, rows: Tensor, columns: Tensor | None = None) -> State:
    """Return the weights with these rows of the projections, and these columns of W^O."""
    picked = dict(state)
    for name in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            picked[f"{name}_projection.{kind}"] = state[f"{name}_projection.{kind}"][rows]
    weight = state["output_projection.weight"]
    return picked | {"output_projection.weight": weight[:, rows if columns is None else columns]}


def _pruned(state: State, num_heads: int, keep: Sequence[int]) -> State:
    return _pick(state, _rows(num_heads, len(state["output_projection.bias"]), keep))


def _without_biases(state: State, names: Sequence[str]) -> State:
    return state | {
        f"{name}_projection.bias": torch.zeros_like(state[f"{name}_projection.bias"])
        for name in names
    }


def _wrong_cut(kind: str) -> Callable[[State, int, Sequence[int]], State]:
    """Return a function that keeps the wrong rows or columns."""

    def cut(state: State, num_heads: int, keep: Sequence[int]) -> State:
        d_model = len(state["output_projection.bias"])
        right = _rows(num_heads, d_model, keep)
        first = torch.arange(len(right))
        if kind == "dropped":
            return _pruned(state, num_heads, [h for h in range(num_heads) if h not in keep])
        if kind == "strided":
            return _pick(state, (right % (d_model // num_heads)) * num_heads
                         + right // (d_model // num_heads))  # fmt: skip
        if kind == "first columns":
            return _pick(state, right, first)
        return _pick(state, first)

    return cut


_PRUNED_WAYS: dict[str, Callable[[State, int, Sequence[int]], State]] = {
    "pruned: The heads in `keep` are removed and the others are kept. `keep` names the heads that"
    " stay.":
        _wrong_cut("dropped"),
    "pruned: Head i consists of every num_heads-th row. The rows of a head are adjacent and start"
    " at i · d_head.": _wrong_cut("strided"),
    "pruned: W^O keeps the wrong columns, so the outputs of the remaining heads are multiplied by"
    " columns of other heads.": _wrong_cut("first columns"),
    "pruned: The first len(keep) heads are kept, whatever `keep` contains.": _wrong_cut("first"),
    "pruned: The heads are in their old order. Head i of the new attention must be head keep[i] "
    "of the old one.":
        lambda state, n, keep: _pruned(state, n, sorted(keep)),
    "pruned: The output bias is set to 0. It belongs to no head and must stay unchanged.":
        lambda state, n, keep: _without_biases(_pruned(state, n, keep), ["output"]),
    "pruned: The biases of the remaining heads are missing. Keep the same entries of the biases "
    "as rows of the matrices.":
        lambda state, n, keep: _without_biases(_pruned(state, n, keep), ["query", "key", "value"]),
    "pruned: The output bias is scaled down. It belongs to no head and must stay unchanged.":
        lambda state, n, keep: _pruned(state, n, keep)
        | {"output_projection.bias": state["output_projection.bias"] * len(keep) / n},
}  # fmt: skip


def _expect_same_attention(
    got: State,
    expected: State,
    num_heads: int,
    twins: Mapping[str, Callable[..., State]],
    inputs: Inputs,
    name: str,
) -> None:
    """Compare the attention that two sets of parameters compute for the same inputs."""
    d_model = len(expected["output_projection.bias"])
    query, memory = torch.randn(2, 3, d_model), torch.randn(2, 5, d_model)
    mask = torch.rand(2, 3, 5) < 0.7
    mask[..., 0] = True

    def run(which: int, weights: State) -> Tensor:
        return attend(weights, num_heads, query, memory, memory, mask)[which]

    unlike = [key for key in got if not torch.allclose(got[key], expected[key], 1e-4, 1e-5)]

    def twin(which: int, make: Callable[..., State]) -> Callable[..., Tensor]:
        return lambda *given: run(which, make(*given))

    for which, what in enumerate(("context", "weights")):
        expect_equal(
            run(which, got),
            run(which, expected),
            f"the {what} with the parameters that {name} returns",
            inputs,
            [
                *(Twin(said, twin(which, make)) for said, make in twins.items()),
                Twin(
                    f"{name}: Attention with these parameters computes a different function. "
                    f"Compared with one right answer, these tensors differ: {', '.join(unlike)}.",
                    lambda *_, which=which: run(which, got),
                ),
            ],
        )


def _gradients(loss_of: Callable[[Tensor], Tensor], num_heads: int) -> Tensor:
    """Return the gradient of each example's loss, (examples, num_heads), with all gates open."""
    return _gradients_at(loss_of, torch.ones(num_heads))


def _gradients_at(loss_of: Callable[[Tensor], Tensor], gates: Tensor) -> Tensor:
    found = torch.autograd.functional.jacobian(loss_of, gates)
    return cast(Tensor, found).detach()


def _costs(loss_of: Callable[[Tensor], Tensor], num_heads: int) -> Tensor:
    """Return the increase of each example's loss when a head is removed, (examples, num_heads)."""
    ones = torch.ones(num_heads)
    shut = [loss_of(ones - each) - loss_of(ones) for each in torch.eye(num_heads)]
    return torch.stack(shut, dim=-1).detach()


_IMPORTANCE_TWINS = [
    *known(
        "importance: The absolute value is taken after the mean, so gradients of opposite sign "
        "cancel. Take the absolute value for each example, then the mean.",
        lambda f, n: _gradients(f, n).mean(dim=0).abs(),
    ),
    *known(
        "importance: The absolute value is missing. Take it for each example, before the mean.",
        lambda f, n: _gradients(f, n).mean(dim=0),
    ),
    *known(
        "importance: The result is the sum over the examples. It must be the mean.",
        lambda f, n: _gradients(f, n).abs().sum(dim=0),
        lambda f, n: _gradients(f, n).sum(dim=0),
        lambda f, n: _gradients(f, n).sum(dim=0).abs(),
    ),
    *known(
        "importance: The gradient is computed with all gates at 0. All gates must be 1.",
        lambda f, n: _gradients_at(f, torch.zeros(n)).abs().mean(dim=0),
    ),
    *known(
        "importance: The result is the increase of the loss when a head is removed. It must be "
        "the gradient with respect to the gates, with all gates at 1.",
        lambda f, n: _costs(f, n).mean(dim=0),
        lambda f, n: _costs(f, n).abs().mean(dim=0),
        lambda f, n: -_costs(f, n).mean(dim=0),
        lambda f, n: _costs(f, n).mean(dim=0).abs(),
    ),
    *known(
        "importance: The gradients of the examples accumulate, because backward() adds to .grad. "
        "Set .grad to None before each example, or use torch.autograd.grad.",
        lambda f, n: _gradients(f, n).cumsum(dim=0).abs().mean(dim=0),
    ),
    *known(
        "importance: The gradient of each gate is computed with the other gates at 0. All gates "
        "must be 1.",
        lambda f, n: torch.stack(
            [_gradients_at(f, gates)[:, h].abs().mean() for h, gates in enumerate(torch.eye(n))]
        ),
    ),
    *known(
        "importance: The sum is divided by the number of heads. Divide it by the number of "
        "examples.",
        lambda f, n: _gradients(f, n).abs().sum(dim=0) / n,
    ),
    *known(
        "importance: The gradients are squared. Take their absolute values.",
        lambda f, n: _gradients(f, n).square().mean(dim=0),
        lambda f, n: _gradients(f, n).square().mean(dim=0).sqrt(),
    ),
    *known(
        "importance: The values are normalised to sum to 1. Return them without this "
        "normalisation.",
        lambda f, n: F.normalize(_gradients(f, n).abs().mean(dim=0), p=1, dim=0),
    ),
]


def _squares(factors: Tensor) -> Losses:
    """Return losses that can be computed by hand: the squares of sums of gates."""
    rows = [" + ".join(f"({w:g})·g{h}" for h, w in enumerate(row)) for row in factors.tolist()]
    shown = " and ".join(f"({row})²" for row in rows)
    what = shown if len(shown) < 80 else f"squares of {len(rows)} sums of gates"
    return Losses(lambda gates: (factors @ gates).square(), what)


def _losses(attention: MultiHeadAttention, num_heads: int, examples: int) -> Losses:
    """Return losses that depend on the output of an attention."""
    state = weights_of(attention)
    x, goal = torch.randn(2, examples, 4, len(state["output_projection.bias"]))

    def losses(gates: Tensor) -> Tensor:
        context, _ = _attend(state, num_heads, x, x, x, gates=gates)
        return (context - goal).square().mean(dim=(1, 2))

    return Losses(losses, f"losses of {examples} examples")


@_parts.part("pruning", "pruned", "importance")
def pruning(pruned: object, importance: object, thorough: bool = False) -> None:
    """Check the pruned parameters, and the importance of each head."""
    asked: list[tuple[int, int, list[int]]] = [(8, 4, [0, 3]), (6, 3, [1]), (15, 5, [3, 1, 2])]
    if thorough:
        asked += [(5, 1, [0]), (14, 7, [6, 0]), (12, 3, [2, 0, 1])]
    inputs: Inputs
    for d_model, num_heads, keep in asked:
        state = weights_of(_attention(d_model, num_heads))
        inputs = {"weights": state, "num_heads": num_heads, "keep": keep}
        expected = _pruned(state, num_heads, keep)
        shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
        got = _expect_state(
            call_twice(pruned, inputs), shapes, inputs,
            "Keep the rows of the remaining heads in the projections and their biases, and the "
            "columns of these heads in W^O. The bias of W^O keeps its shape.",
        )  # fmt: skip
        _expect_same_attention(got, expected, len(keep), _PRUNED_WAYS, inputs, "pruned")
    by_hand = torch.tensor([[3.0, -4.0], [1.0, 1.0]])
    losses = [(_squares(by_hand), 2), (_squares(torch.randn(5, 3)), 3)]
    losses += [(_losses(_attention(8, 4), 4, 3), 4)]
    if thorough:
        losses += [(_squares(torch.randn(1, 1)), 1), (_losses(_attention(6, 2), 2, 7), 2)]
    for loss_of, num_heads in losses:
        inputs = {"loss_of": loss_of, "num_heads": num_heads}
        answer = call_twice(importance, inputs)
        if isinstance(answer, list | tuple):
            numbers = [plain_number(each) for each in answer]
            answer = answer if None in numbers else torch.tensor(numbers, dtype=torch.float32)
        expected_gradient = _gradients(loss_of, num_heads).abs().mean(dim=0)
        what = "the importance of the heads"
        expect_equal(in_32_bits(answer), expected_gradient, what, inputs, _IMPORTANCE_TWINS)


# Part 6


def _columns_stay(state: State, num_heads: int, order: Sequence[int]) -> State:
    weight = {"output_projection.weight": state["output_projection.weight"]}
    return _pruned(state, num_heads, order) | weight


def _rows_of_output(state: State, num_heads: int, order: Sequence[int]) -> State:
    rows = _rows(num_heads, len(state["output_projection.bias"]), order)
    weight = state["output_projection.weight"][rows]
    return _pruned(state, num_heads, order) | {"output_projection.weight": weight}


def _backwards(order: Sequence[int]) -> list[int]:
    return [list(order).index(head) for head in range(len(order))]


_REORDERED_WAYS: dict[str, Callable[[State, int, Sequence[int]], State]] = {
    "reordered: The order of the heads has not changed.": lambda state, n, order: state,
    "reordered: The columns of W^O are not reordered, so each head output is multiplied by the "
    "columns of another head.": _columns_stay,
    "reordered: The rows of W^O are reordered. Reorder its columns: they are multiplied by the "
    "head outputs.": _rows_of_output,
    "reordered: The permutation is inverted. Head i of the new attention must be head order[i] of"
    " the old one.": lambda state, n, order: _pruned(state, n, _backwards(order)),
    "reordered: Head i consists of every num_heads-th row. The rows of a head are adjacent and "
    "start at i · d_head.": _wrong_cut("strided"),
}  # fmt: skip


def _folded(state: State) -> State:
    weight, bias = state["output_projection.weight"], state["output_projection.bias"]
    both = _without_biases(state, ["key", "value"])
    return both | {"output_projection.bias": bias + weight @ state["value_projection.bias"]}


def _folded_with(more: Callable[[State], Tensor]) -> Callable[[State], State]:
    """Return a function that adds something else to the output bias."""

    def fold(state: State) -> State:
        bias = state["output_projection.bias"] + more(state)
        return _without_biases(state, ["key", "value"]) | {"output_projection.bias": bias}

    return fold


_FOLDED_WAYS: dict[str, Callable[[State], State]] = {
    "folded: The value bias is removed without a replacement. It is added to every value, and the"
    " weights of a query sum to 1. What does it add to the output?":
        lambda state: _without_biases(state, ["key", "value"]),
    "folded: The value bias is added to the output bias directly. Values reach the output through"
    " W^O.":
        _folded_with(lambda state: state["value_projection.bias"]),
    "folded: The value bias is multiplied by W^O transposed. nn.Linear computes W x + b.":
        _folded_with(
            lambda state: state["output_projection.weight"].T @ state["value_projection.bias"]
        ),
    "folded: The contribution of the value bias is subtracted from the output bias. It must be "
    "added.":
        _folded_with(
            lambda state: -state["output_projection.weight"] @ state["value_projection.bias"]
        ),
    "folded: The key bias is added to the output bias. It influences only the scores, and it adds"
    " the same value to all scores of a query. What is the effect on the softmax?":
        _folded_with(
            lambda state: state["output_projection.weight"]
            @ (state["value_projection.bias"] + state["key_projection.bias"])
        ),
    "folded: The output bias contains only the contribution of the value bias. The old output "
    "bias must be added.":
        _folded_with(
            lambda state: state["output_projection.weight"] @ state["value_projection.bias"]
            - state["output_projection.bias"]
        ),
    "folded: The query bias is set to 0, which changes the weights. It adds a different value to "
    "the score of each key, so it must stay.":
        lambda state: _without_biases(_folded(state), ["query"]),
    "folded: The key bias is moved to the query bias, which changes the weights. It must be "
    "removed.":
        lambda state: _folded(state)
        | {
            "query_projection.bias": state["query_projection.bias"]
            + state["key_projection.bias"]
        },
}  # fmt: skip


@_parts.part("different parameters", "reordered", "folded")
def same_function(reordered: object, folded: object, thorough: bool = False) -> None:
    """Check different parameters that compute the same function."""
    asked: list[tuple[int, int, list[int]]] = [(6, 3, [1, 2, 0]), (12, 4, [3, 1, 0, 2])]
    if thorough:
        asked += [(10, 2, [1, 0]), (15, 5, [4, 2, 0, 1, 3]), (3, 1, [0])]
    for d_model, num_heads, order in asked:
        state = weights_of(_attention(d_model, num_heads))
        shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        inputs: Inputs = {"weights": state, "num_heads": num_heads, "order": order}
        got = _expect_state(call_twice(reordered, inputs), shapes, inputs)
        expected = _pruned(state, num_heads, order)
        _expect_same_attention(got, expected, num_heads, _REORDERED_WAYS, inputs, "reordered")
        inputs = {"weights": state}
        got = _expect_state(call_twice(folded, inputs), shapes, inputs)
        for name in ("key_projection.bias", "value_projection.bias"):
            if got[name].count_nonzero():
                raise CheckFailed(f"  folded: {name} is not 0 everywhere.\n{describe(inputs)}")
        _expect_same_attention(got, _folded(state), num_heads, _FOLDED_WAYS, inputs, "folded")
