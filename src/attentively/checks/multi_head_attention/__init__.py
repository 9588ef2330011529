"""Checks of the assignment on multi-head attention.

The answers of parts 1 to 3 are compared with the recordings in this folder, and the whole module is
put into the pretrained Transformer. In parts 4 to 6, the check tests which function the returned
parameters compute, so all parameters that compute it are right. No function here is the answer of a
part.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import masked_softmax
from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_gradients_through,
    expect_pair,
    expect_tensor,
    in_32_bits,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
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
_topic = Topic(__file__)
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


def attend(
    state: State,
    num_heads: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    gates: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the context and the weights of the attention that has these eight tensors.

    The heads share out the rows of the projections, which may be fewer than d_model. A gate is a
    factor of the output of its head.
    """
    queries, keys, values = (
        _project(state, name, x).unflatten(2, (num_heads, -1)).transpose(1, 2)
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    scores = queries @ keys.mT * queries.size(3) ** -0.5
    weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(1))
    context = weights @ values
    if gates is not None:
        context = context * gates.reshape(-1, 1, 1)
    return _project(state, "output", context.transpose(1, 2).flatten(2)), weights


def _project(state: State, name: str, x: Tensor) -> Tensor:
    return F.linear(x, state[f"{name}_projection.weight"], state[f"{name}_projection.bias"])


# Part 1


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
    _topic.examine("split_heads", split_heads, thorough)
    _topic.examine("merge_heads", merge_heads, thorough)


# Part 2

_SENTENCES = ("the dogs eat the bread", "she sleeps")


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
    open_call.once(_expect_layers, candidate, 6, 2)
    _topic.examine("MultiHeadAttention", candidate, thorough)
    open_call.once(_expect_refusal, candidate)
    open_call.once(_expect_gradients, candidate)
    expect_same_translations(
        partial(put_in, candidate), _SENTENCES, "multi-head attention", TRANSFORMER
    )


def _expect_layers(candidate: object, d_model: int, num_heads: int) -> nn.Module:
    """Return an instance of the student's class, if it has the parameters of the four layers."""
    asked = {"d_model": d_model, "num_heads": num_heads}
    made = call(candidate, asked)
    if not isinstance(made, nn.Module):
        raise CheckFailed(
            "  MultiHeadAttention must be a subclass of nn.Module, so that its parameters are "
            f"registered.\n{describe(asked)}"
        )
    state = MultiHeadAttention(d_model, num_heads).state_dict()
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
    return made


def _expect_gradients(candidate: object) -> None:
    """Require the gradients of the inputs and of the parameters, and no dropout in training.

    That of the key bias is 0: it adds the same value to all scores of a query.
    """
    made = _expect_layers(candidate, 8, 2)
    learned = {n: each for n, each in made.named_parameters() if n != "key_projection.bias"}
    lengths = {"query": 3, "key": 5, "value": 5}
    inputs = {name: torch.randn(2, n, 8, requires_grad=True) for name, n in lengths.items()}
    call_twice(made.train(), inputs)
    context, weights = itemgetter(0), itemgetter(1)
    expect_gradients_through(made, inputs, {**inputs, **learned}, context, slopes=False)
    looking = {name: inputs[name] for name in ("query", "key")}
    expect_gradients_through(made, inputs, looking, weights, slopes=False)
    x = inputs["key"]
    expect_gradients_through(made, dict.fromkeys(inputs, x), {"query, key and value": x}, context)


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


class _Attention(MultiHeadAttention):
    """An attention that a message can show in a line."""

    def __repr__(self) -> str:
        return "multi-head attention"


def given_attention(weights: State, num_heads: int) -> nn.Module:
    """Return the attention that a student's function receives."""
    attention = _Attention(len(weights["output_projection.bias"]), num_heads)
    attention.load_state_dict(weights)
    return attention.requires_grad_(False)


def of_words(results: Sequence[Tensor], real: Tensor) -> tuple[Tensor, Tensor]:
    """Return context and weights with 0 for the queries that are padding."""
    context, weights = results
    return (
        torch.where(real.unsqueeze(2), context, 0.0),
        torch.where(real[:, None, :, None], weights, 0.0),
    )


def _of_words(answer: Any, inputs: Inputs) -> Any:
    """Return the results for real queries; those of padding are not compared."""
    real = inputs["tgt_mask" if "tgt_mask" in inputs else "src_mask"]
    results = expect_pair(answer, ("context", "weights"), inputs)
    if not all(type(each) is Tensor for each in results):
        return results
    context, weights = cast(tuple[Tensor, Tensor], results)
    if context.shape[:2] != real.shape or weights.shape[::2] != real.shape:
        return results
    if "y" not in inputs and weights.size(3) == real.size(1):
        of_padding, to_padding = weights.transpose(1, 2)[~real], weights.transpose(1, 3)[~real]
        if len(of_padding) and not of_padding.any() and to_padding.any():
            raise CheckFailed(
                "  in_the_encoder: The mask is on the axis of the queries, (batch, src_len, 1), so "
                "the source words still attend to padding. It must be on the axis of the keys: "
                f"(batch, 1, src_len).\n{describe(inputs)}"
            )
    return of_words((context, weights), real)


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
    _topic.examine("in_the_encoder", in_the_encoder, thorough, tidy=_of_words)
    _topic.examine("in_the_decoder", in_the_decoder, thorough, tidy=_of_words)
    _topic.examine("across", across, thorough, tidy=_of_words)


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


FOLDED_HEADS = 3
"""The heads of the attention in the cases of `folded`."""


def attended(weights: State, num_heads: int) -> tuple[Tensor, Tensor]:
    """Return context and weights of the attention with these parameters, for fixed inputs."""
    d_model = len(weights["output_projection.bias"])
    query = torch.arange(6.0 * d_model).mul(0.7).sin().reshape(2, 3, d_model)
    memory = torch.arange(10.0 * d_model).mul(1.3).cos().reshape(2, 5, d_model)
    mask = torch.arange(30).remainder(4).ne(2).reshape(2, 3, 5)
    mask[..., 0] = True
    return attend(weights, num_heads, query, memory, memory, mask)


def _examine_parameters(
    name: str,
    candidate: object,
    thorough: bool,
    heads_of: Callable[[Inputs], int],
    hint: str = "",
    zero: Sequence[str] = (),
) -> None:
    """Compare the attention that the returned parameters compute; those in `zero` must be 0."""
    found: State = {}

    def tidy(answer: Any, inputs: Inputs) -> Any:
        found.update(_expect_state(answer, heads_of(inputs), inputs, hint))
        for each in zero:
            if found[each].count_nonzero():
                raise CheckFailed(f"  {name}: {each} is not 0 everywhere.\n{describe(inputs)}")
        return *attended(found, heads_of(inputs)), dict(found)

    def explain(got: Any, recorded: Recorded) -> str:
        right = recorded.expected["parameters"]
        unlike = [n for n in found if not torch.allclose(found[n], right[n], 1e-4, 1e-5)]
        return (
            "Attention with these parameters computes a different function. Compared with one "
            f"right answer, these tensors differ: {', '.join(unlike)}."
        )

    _topic.examine(name, candidate, thorough, tidy=tidy, explain=explain)


def _expect_state(answer: object, num_heads: int, inputs: Inputs, hint: str = "") -> State:
    """Return the answer if it is a dict of eight tensors with the shapes of so many heads."""
    old = inputs["weights"]
    d_model = len(old["output_projection.bias"])
    size = d_model // inputs.get("num_heads", num_heads) * num_heads
    shapes = {n: (size, d_model) if n.endswith("weight") else (size,) for n in old}
    shapes["output_projection.weight"] = (d_model, size)
    shapes["output_projection.bias"] = (d_model,)
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


def squares(factors: Tensor) -> Losses:
    """Return losses that can be computed by hand: the squares of sums of gates."""
    rows = [" + ".join(f"({w:g})·g{h}" for h, w in enumerate(row)) for row in factors.tolist()]
    shown = " and ".join(f"({row})²" for row in rows)
    what = shown if len(shown) < 80 else f"squares of {len(rows)} sums of gates"
    return Losses(lambda gates: (factors @ gates).square(), what)


def attention_losses(weights: State, num_heads: int, x: Tensor, goal: Tensor) -> Losses:
    """Return losses that depend on the output of an attention."""

    def losses(gates: Tensor) -> Tensor:
        context, _ = attend(weights, num_heads, x, x, x, gates=gates)
        return (context - goal).square().mean(dim=(1, 2))

    return Losses(losses, f"losses of {len(x)} examples")


def _in_a_tensor(answer: Any, inputs: Inputs) -> Any:
    if not isinstance(answer, list | tuple):
        return answer
    numbers = [plain_number(each) for each in answer]
    return answer if None in numbers else torch.tensor(numbers, dtype=torch.float32)


@_parts.part("pruning", "pruned", "importance")
def pruning(pruned: object, importance: object, thorough: bool = False) -> None:
    """Check the pruned parameters, and the importance of each head."""
    hint = (
        "Keep the rows of the remaining heads in the projections and their biases, and the "
        "columns of these heads in W^O. The bias of W^O keeps its shape."
    )
    _examine_parameters("pruned", pruned, thorough, lambda inputs: len(inputs["keep"]), hint)
    _topic.examine("importance", importance, thorough, tidy=_in_a_tensor)


# Part 6


@_parts.part("different parameters", "reordered", "folded")
def same_function(reordered: object, folded: object, thorough: bool = False) -> None:
    """Check different parameters that compute the same function."""
    _examine_parameters("reordered", reordered, thorough, lambda inputs: inputs["num_heads"])
    zero = ("key_projection.bias", "value_projection.bias")
    _examine_parameters("folded", folded, thorough, lambda inputs: FOLDED_HEADS, zero=zero)
