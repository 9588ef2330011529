"""Checks of the assignment on multiplicative attention: scores, decoder, window, examination.

Parts 1, 2 and 4 rebuild code of the package, and part 3 extends it. The answers to these four
parts are also run inside the package's translator. The solutions of parts 3, 5 and 6 are not given
in the book or the package: costs are measured, matrices are tested by their effect, and the
decoders to be tested have known faults.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attentively.attention.masks import masked_softmax
from attentively.attention.multiplicative import LocalAttention, LuongAttention, Score
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
    expect_value,
    known,
    once_solved,
    plain_tensor,
    show,
)
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.generation.search import greedy_search
from attentively.models.interface import DecoderOutput
from attentively.models.seq2seq import (
    AttentionKind,
    LuongDecoder,
    RecurrentState,
    Seq2Seq,
    Seq2SeqConfig,
)
from attentively.tokens.vocabulary import END_ID, START_ID, Vocabulary, WordTokenizer

__all__ = [
    "attentional",
    "examine",
    "input_feeding",
    "local",
    "once_solved",
    "progress",
    "ready",
    "scores",
    "sentences",
    "untrained",
    "what_w_buys",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package and these checks work."""
    _parts.explain_undefined_names()
    model = untrained()
    number = sum(parameter.numel() for parameter in model.parameters())
    print(f"PyTorch {torch.__version__}. The package's translator with Luong's decoder")
    print(f"has {number:,} parameters and is untrained. The set-up is complete.")


# The package's translator, and sentences


def _tokenizers() -> tuple[WordTokenizer, WordTokenizer]:
    src, tgt = (WordTokenizer(Vocabulary(toy.words(side))) for side in ("src", "tgt"))
    return src, tgt


def untrained(seed: int = 0) -> Seq2Seq:
    """Return the package's model for the toy language, with Luong's decoder and input feeding."""
    src, tgt = _tokenizers()
    config = Seq2SeqConfig(
        *(len(src), len(tgt), 32, 32, 64),
        attention="general",
        decoder="luong",
        input_feeding=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Seq2Seq(config)


def sentences(split: str, number: int) -> tuple[Tensor, Tensor]:
    """Return toy sentences of one clause: sources and targets, START and END included."""
    pairs = [Pair(pair.src_text, pair.tgt_text) for pair in toy.load(split, number, clauses=(1,))]
    batch = collate(encode_pairs(pairs, *_tokenizers()))
    return batch.src, batch.tgt


def _small_model(attention: AttentionKind, seed: int = 1, input_feeding: bool = False) -> Seq2Seq:
    """Return an untrained model with 13 words, whose scores are far from equal."""
    config = Seq2SeqConfig(
        *(13, 13, 5, 3, 6, 7),
        attention=attention,
        decoder="luong",
        input_feeding=input_feeding,
        window=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Seq2Seq(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0)
    return model


_SRC = torch.tensor([[5, 9, 4, 11, 7, END_ID], [6, 12, END_ID, 0, 0, 0], [8, 8, 10, 4, END_ID, 0]])
_TGT = torch.tensor([[START_ID, 4, 7, 12, 9], [START_ID, 10, 5, 6, 11], [START_ID, 8, 4, 4, 10]])


def _written(model: Seq2Seq) -> list[list[int]]:
    with torch.no_grad():
        found = greedy_search(model, _SRC, 8)
    return [hypothesis.ids for hypothesis in found]


def _expect_same_model(right: Seq2Seq, changed: Seq2Seq) -> None:
    """Reject a translator whose outputs a student's part has changed."""
    where = {"src": _SRC, "tgt": _TGT}

    def read(model: Seq2Seq) -> DecoderOutput:
        with torch.no_grad():
            return model.decode(_TGT, model.encode(_SRC), need_weights=True)

    expected = read(right)
    got = cast(DecoderOutput, call(lambda *_: read(changed), where))
    assert expected.weights is not None
    inside = "inside the package's translator"
    expect_equal(got.weights, expected.weights, f"the weights {inside}", where)
    expect_equal(got.logits, expected.logits, f"the logits {inside}", where)
    before, after = _written(right), _written(changed)
    if after != before:
        raise CheckFailed(
            "  Inside the package's translator, your code gives the expected logits with teacher "
            "forcing, but greedy search outputs other tokens. Does a call store values that affect "
            "the next call?\n"
            f"  got         {show(after)}\n  expected    {show(before)}"
        )


class _Attending(nn.Module):
    """An attention whose weights a student's function computes."""

    def __init__(self, weigh: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weigh = weigh

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the context and the weights."""
        weights = self.weigh(query, keys, mask)
        return torch.einsum("bs,bsd->bd", weights, keys), weights


def _random(*sizes: int) -> Tensor:
    return torch.randn(*sizes)


def _ragged(batch: int, src_len: int) -> Tensor:
    """Return a padding mask: sentences of different lengths, each of at least one word."""
    lengths = torch.tensor([1 + (3 * row + src_len - 1) % src_len for row in range(batch)])
    return torch.arange(src_len) < lengths.unsqueeze(1)


_Wrong = Callable[..., object]
_Known = Mapping[str, _Wrong | tuple[_Wrong, ...]]
"""The message for a mistake, and its answer; several answers if it has several forms."""


def _twins(part: str, mistakes: _Known) -> list[Twin]:
    """Name the function or the result in the message of each mistake."""
    several = {
        said: wrong if isinstance(wrong, tuple) else (wrong,) for said, wrong in mistakes.items()
    }
    return [twin for said, wrong in several.items() for twin in known(f"{part}: {said}", *wrong)]


def _with_layers(candidate: object, *layers: object) -> object:
    """Return a function of the tensors alone; the layers come after them."""
    if not callable(candidate):
        return candidate

    def with_layers(*tensors: Tensor) -> object:
        return candidate(*tensors, *layers)

    with_layers.__name__ = getattr(candidate, "__name__", "")
    return with_layers


# Part 1


def _dot(query: Tensor, keys: Tensor) -> Tensor:
    return torch.einsum("bd,bsd->bs", query, keys)


def _general(query: Tensor, keys: Tensor, W: Tensor) -> Tensor:
    return torch.einsum("bq,qk,bsk->bs", query, W, keys)


def _concat(query: Tensor, keys: Tensor, W: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(_both(query, keys) @ W.T) @ v


def _both(query: Tensor, keys: Tensor) -> Tensor:
    return torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)


def _common_mistakes(right: Callable[..., Tensor]) -> _Known:
    return {
        (
            "these values are attention weights: a softmax is already applied. Return the "
            "scores before the softmax."
        ): lambda *inputs: right(*inputs).softmax(dim=-1),
        (
            "the scores are divided by √d. Only the Transformer scales its scores; none of "
            "these three scores is scaled."
        ): lambda q, *rest: right(q, *rest) / q.size(1) ** 0.5,
        (
            "every sentence is scored with the query of the first sentence (index 0)."
        ): lambda q, *rest: right(q[:1].expand_as(q), *rest),
        (
            "key j is scored with the query of sentence j instead of the query of its own "
            "sentence: broadcasting aligns the batch dimension of the query with the key "
            "dimension (src_len). Insert a dimension of size 1 for the keys: "
            "query.unsqueeze(1)."
        ): lambda q, k, *rest: torch.stack(
            [right(q, k[b].unsqueeze(1), *rest)[:, 0] for b in range(len(k))]
        ),
    }


_DOT_WRONG: _Known = {
    **_common_mistakes(_dot),
    (
        "the products of the entries are not summed. Sum them over the last dimension, so "
        "that each key has one score."
    ): lambda q, k: q.unsqueeze(1) * k,
    "the products of the entries are averaged. A dot product is their sum.": lambda q, k: (
        _dot(q, k) / q.size(1)
    ),
    (
        "each query is compared with the keys of all sentences. Compare it with the keys of "
        "its own sentence only."
    ): lambda q, k: q @ k.mT,
    (
        "these values are cosines. A dot product is not divided by the lengths of the vectors."
    ): lambda q, k: F.cosine_similarity(q.unsqueeze(1), k, dim=-1),
}
_GENERAL_WRONG: _Known = {
    **_common_mistakes(_general),
    (
        "W must be transposed. In hᵀ W h̄ the rows of W belong to the query and its columns to "
        "the key."
    ): lambda q, k, W: _general(q, k, W.T),
    "W is missing: these values are the dot scores.": lambda q, k, W: _dot(q, k),
    "a tanh is applied to W h̄. The general score has no tanh.": lambda q, k, W: _dot(
        q, torch.tanh(k @ W.T)
    ),
    (
        "the products of the entries of h and W h̄ are not summed. Sum them over the last "
        "dimension, so that each key has one score."
    ): lambda q, k, W: q.unsqueeze(1) * (k @ W.T),
}
_CONCAT_WRONG: _Known = {
    **_common_mistakes(_concat),
    (
        "the key comes before the query in the concatenation. W multiplies [h; h̄], the query first."
    ): lambda q, k, W, v: torch.tanh(_both(q, k).roll(k.size(2), dims=-1) @ W.T) @ v,
    "the tanh is missing.": lambda q, k, W, v: _both(q, k) @ W.T @ v,
    (
        "the tanh is applied to the whole expression. Multiply by v after the tanh: "
        "v·tanh(W [h; h̄])."
    ): lambda q, k, W, v: torch.tanh(_both(q, k) @ W.T @ v),
    (
        "the tanh is applied twice, to the query's part and to the key's part. Add the two "
        "parts first, then apply one tanh to the sum."
    ): lambda q, k, W, v: (
        (torch.tanh(q @ W[:, : q.size(1)].T).unsqueeze(1) + torch.tanh(k @ W[:, q.size(1) :].T)) @ v
    ),
    (
        "the tanh is applied to only one of the two parts. Add the two parts first, then "
        "apply one tanh to the sum."
    ): (
        lambda q, k, W, v: (
            (torch.tanh(q @ W[:, : q.size(1)].T).unsqueeze(1) + k @ W[:, q.size(1) :].T) @ v
        ),
        lambda q, k, W, v: (
            ((q @ W[:, : q.size(1)].T).unsqueeze(1) + torch.tanh(k @ W[:, q.size(1) :].T)) @ v
        ),
    ),
    (
        "the tanh is applied before the product with W. The score is v·tanh(W [h; h̄]), not "
        "v·W tanh([h; h̄])."
    ): lambda q, k, W, v: _both(q, k).tanh() @ W.T @ v,
    (
        "v is missing: the outputs of the tanh are summed without weights. Multiply by v instead."
    ): lambda q, k, W, v: torch.tanh(_both(q, k) @ W.T).sum(-1),
    (
        "the query is missing: only the columns of W that multiply the key are used."
    ): lambda q, k, W, v: torch.tanh(k @ W[:, q.size(1) :].T) @ v,
}


def _score_inputs(
    name: str, batch: int, src_len: int, query_dim: int, key_dim: int, hidden: int
) -> Inputs:
    inputs = {"query": _random(batch, query_dim), "keys": _random(batch, src_len, key_dim)}
    if name == "dot_scores":
        return inputs | {"keys": _random(batch, src_len, query_dim)}
    if name == "general_scores":
        return inputs | {"W": _random(query_dim, key_dim)}
    return inputs | {"W": _random(hidden, query_dim + key_dim), "v": _random(hidden)}


_SCORED: dict[str, tuple[Score, Callable[..., Tensor], _Known]] = {
    "dot_scores": ("dot", _dot, _DOT_WRONG),
    "general_scores": ("general", _general, _GENERAL_WRONG),
    "concat_scores": ("concat", _concat, _CONCAT_WRONG),
}


@_parts.part(
    "scores",
    *_SCORED,
    rebuilds=("attentively.attention.multiplicative:LuongAttention.scores",),
    refuses=("attentively.attention.multiplicative:LuongAttention",),
)
def scores(dot: object, general: object, concat: object, thorough: bool = False) -> None:
    """Check three functions that score every key of a sentence against its query."""
    query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 1.5], [0.0, 1.0], [2.0, -1.0]]])
    by_hand: dict[str, Inputs] = {
        "dot_scores": {},
        "general_scores": {"W": torch.tensor([[0.0, 1.0], [0.5, 3.0]])},
        "concat_scores": {
            "W": torch.tensor([[0.5, 0.0, 0.2, 0.0], [0.0, -0.2, 0.0, 0.4]]),
            "v": torch.tensor([2.0, -1.0]),
        },
    }
    sizes = [(3, 3, 2, 2, 2), (2, 3, 5, 7, 11)]
    if thorough:
        sizes += [(7, 5, 3, 2, 13), (1, 1, 2, 3, 5), (5, 2, 13, 11, 3), (3, 17, 7, 5, 2)]
    for (name, (score, right, mistakes)), candidate in zip(
        _SCORED.items(), (dot, general, concat), strict=True
    ):
        cases: list[Inputs] = [{"query": query, "keys": keys, **by_hand[name]}]
        cases += [_score_inputs(name, *each) for each in sizes]
        for inputs in cases:
            hint = "Return one score for each key of each sentence: (batch, src_len)."
            what = f"the result of {name}"
            expected = right(*inputs.values())
            answer = call_twice(candidate, inputs)
            expect_equal(answer, expected, what, inputs, _twins(name, mistakes), hint)
        tensors = {n: value.requires_grad_() for n, value in _score_inputs(name, *sizes[1]).items()}
        expect_gradients_through(candidate, tensors, tensors)
        _expect_scores_in_model(score, candidate)


def _matrices(attention: LuongAttention) -> tuple[Tensor, ...]:
    """Return W and v of the package's attention, as the assignment gives them."""
    weights = [parameter.detach() for parameter in attention.parameters()]
    if attention.score == "concat":
        return torch.cat(weights[:2], dim=1), weights[2][0]
    return tuple(weights)


def _expect_scores_in_model(score: Score, candidate: object) -> None:
    right, changed = _small_model(score), _small_model(score)
    matrices = _matrices(cast(LuongAttention, right.decoder.attention))

    def weigh(query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        return masked_softmax(candidate(query, keys, *matrices), mask)  # type: ignore[operator]

    changed.decoder.attention = _Attending(weigh)
    _expect_same_model(right, changed)


# Part 2


class _Adding(nn.Module):
    """A cell for calculation by hand: the new state is the input plus half of the old state."""

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the new state."""
        return inputs + 0.5 * state


class _Layers(NamedTuple):
    """The layers of a decoder."""

    cell: nn.Module
    attention: LuongAttention
    combine: nn.Linear


def _vector(combine: nn.Module, context: Tensor, state: Tensor) -> Tensor:
    return torch.tanh(combine(torch.cat([context, state], dim=-1)))


def _step(
    embedded: Tensor, state: Tensor, keys: Tensor, mask: Tensor, *, layers: _Layers
) -> tuple[Tensor, Tensor, Tensor]:
    new = layers.cell(embedded, state)
    context, weights = layers.attention(new, keys, mask)
    return new, _vector(layers.combine, context, new), weights


def _state_mistakes(layers: _Layers) -> _Known:
    return {
        (
            "this is the state before the token is read. Return the new state, which the cell "
            "computes."
        ): lambda e, s, *_: s,
        "the arguments of the cell are exchanged. Call cell(embedded, state).": lambda e, s, *_: (
            layers.cell(s, e)
        ),
        (
            "the attentional vector is returned as the state. It is used for the prediction "
            "only; return the cell's new state."
        ): lambda *inputs: _step(*inputs, layers=layers)[1],
        (
            "the context vector is returned as the state. Return the cell's new state."
        ): lambda *inputs: layers.attention(_step(*inputs, layers=layers)[0], *inputs[2:])[0],
    }


def _weight_mistakes(layers: _Layers) -> _Known:
    return {
        (
            "the query is the state before the token, as in Bahdanau's decoder. In Luong's "
            "decoder the query is the current state, which the cell returns."
        ): lambda e, s, k, m: layers.attention(s, k, m)[1],
        (
            "the query is the embedded token. The query must be the cell's new state."
        ): lambda e, s, k, m: layers.attention(e, k, m)[1],
        "the mask is not passed to the attention: padding receives weight.": lambda e, s, k, m: (
            layers.attention(layers.cell(e, s), k, None)[1]
        ),
        "the mask is inverted. It is True at words; pass it unchanged.": lambda e, s, k, m: (
            layers.attention(layers.cell(e, s), k, ~m)[1]
        ),
    }


def _vector_mistakes(layers: _Layers) -> _Known:
    def of(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def answer(embedded: Tensor, state: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
            new = layers.cell(embedded, state)
            context, _ = layers.attention(new, keys, mask)
            return make(context=context, new=new, old=state, embedded=embedded)

        return answer

    combine = layers.combine
    return {
        (
            "state and context vector are exchanged in the concatenation. In the paper it is "
            "W_c [c; h]: the context vector first."
        ): of(lambda context, new, **_: _vector(combine, new, context)),
        "the tanh is missing.": of(
            lambda context, new, **_: combine(torch.cat([context, new], dim=-1))
        ),
        (
            "the tanh is applied before W_c. The vector is tanh(W_c [c; h]), not W_c tanh([c; h])."
        ): of(lambda context, new, **_: combine(torch.cat([context, new], dim=-1).tanh())),
        (
            "this is the context vector. The attentional vector also depends on the state: "
            "tanh(W_c [c; h])."
        ): of(lambda context, **_: context),
        (
            "this is the state. The attentional vector also depends on the context vector: "
            "tanh(W_c [c; h])."
        ): of(lambda new, **_: new),
        (
            "the context vector is concatenated with the state before the token. Use the "
            "current state."
        ): of(lambda context, old, **_: _vector(combine, context, old)),
        ("the context vector is concatenated with the embedded token. Use the current state."): of(
            lambda context, embedded, **_: _vector(combine, context, embedded)
        ),
        "this is [c; h] itself. Apply W_c and the tanh to it.": of(
            lambda context, new, **_: torch.cat([context, new], dim=-1)
        ),
    }


_STEP_RESULTS = ("state", "attentional", "weights")


@_parts.part(
    "attentional vector",
    "decoder_step",
    rebuilds=("attentively.models.seq2seq:LuongDecoder",),
    step=True,
)
def attentional(candidate: object, thorough: bool = False) -> None:
    """Check one step of Luong's decoder, also inside the package's translator."""
    small = _Layers(_Adding(), LuongAttention(2, 2, "dot"), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        small.combine.weight.copy_(torch.tensor([[0.5, 0.0, 0.2, 0.0], [0.0, 0.1, -0.3, 0.4]]))
    by_hand = {
        "embedded": torch.tensor([[1.0, 0.0]]),
        "state": torch.tensor([[0.0, 2.0]]),
        "keys": torch.tensor([[[1.0, 0.5], [0.0, -1.0], [0.5, 0.5]]]),
        "mask": torch.tensor([[True, True, False]]),
    }
    _compare_step(candidate, small, by_hand)
    sizes = [(2, 5, 3, 7, 11, 13)]
    if thorough:
        sizes += [(1, 1, 2, 3, 5, 7), (7, 5, 13, 2, 3, 11), (3, 17, 3, 11, 7, 2)]
    for batch, src_len, embedding_dim, decoder_dim, key_dim, vector_dim in sizes:
        layers = _Layers(
            nn.GRUCell(embedding_dim, decoder_dim),
            LuongAttention(decoder_dim, key_dim, "general"),
            nn.Linear(key_dim + decoder_dim, vector_dim),
        )
        inputs = {
            "embedded": _random(batch, embedding_dim),
            "state": _random(batch, decoder_dim),
            "keys": _random(batch, src_len, key_dim),
            "mask": _ragged(batch, src_len),
        }
        _compare_step(candidate, layers, inputs)
        tensors = {n: v if n == "mask" else v.requires_grad_() for n, v in inputs.items()}
        sources = {n: tensors[n] for n in ("embedded", "state", "keys")}
        expect_gradients_through(
            _with_layers(candidate, *layers), tensors, sources, lambda answer: answer[1]
        )
    right, changed = _small_model("general"), _small_model("general")
    changed.decoder = _StudentsDecoder(cast(LuongDecoder, changed.decoder), candidate)
    _expect_same_model(right, changed)


def _compare_step(candidate: object, layers: _Layers, inputs: Inputs) -> None:
    with torch.no_grad():
        answer = call_twice(_with_layers(candidate, *layers), inputs)
        expected = _step(*inputs.values(), layers=layers)
        if not isinstance(answer, tuple | list) or len(answer) != len(_STEP_RESULTS):
            raise CheckFailed(
                f"  Expected three results, `return {', '.join(_STEP_RESULTS)}`, got "
                f"{show(answer) if answer is not None else 'None: is there a `return`?'}"
                f"\n{describe(inputs)}"
            )
        tensors = [value for value in answer if isinstance(value, Tensor)]
        if (
            len(tensors) == len(expected)
            and not all(_close(a, b) for a, b in zip(tensors, expected, strict=True))
            and all(any(_close(value, other) for other in expected) for value in tensors)
            and all(any(_close(value, other) for value in tensors) for other in expected)
        ):
            raise CheckFailed(
                "  The three results are correct, but in the wrong order. Return "
                f"{', '.join(_STEP_RESULTS)}.\n{describe(inputs)}"
            )
        known = (_state_mistakes(layers), _vector_mistakes(layers), _weight_mistakes(layers))
        named = dict(zip(_STEP_RESULTS, zip(answer, expected, known, strict=True), strict=True))
        for name in ("state", "weights", "attentional"):
            got, wanted, mistakes = named[name]
            what = "attentional vector" if name == "attentional" else name
            twins = _twins(what.capitalize(), mistakes)
            expect_equal(got, wanted, f"the {what}", inputs, twins)


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, 1e-4, 1e-5)


def _context_first(readout: nn.Linear, decoder_dim: int) -> nn.Linear:
    """Return the package's W_c, which reads the state first, with the paper's order of columns."""
    combine = nn.Linear(readout.in_features, readout.out_features)
    with torch.no_grad():
        state, context = readout.weight.split([decoder_dim, readout.in_features - decoder_dim], 1)
        combine.weight.copy_(torch.cat([context, state], dim=1))
        combine.bias.copy_(readout.bias)
    return combine


class _StudentsDecoder(LuongDecoder):
    """The package's decoder with a student's step."""

    def __init__(self, right: LuongDecoder, candidate: object) -> None:
        size = right.cell.hidden_size
        key_dim = right.readout.in_features - size
        super().__init__(right.embedding, right.attention, right.bridge.in_features, key_dim, size)
        self.load_state_dict(right.state_dict())
        self.combine = _context_first(right.readout, size)
        self.candidate = candidate

    def advance(
        self, embedded: Tensor, state: RecurrentState
    ) -> tuple[RecurrentState, Tensor, Tensor]:
        """Read one token; return the attentional vector in place of the context."""
        inputs = (embedded, state.hidden, state.encoder_outputs, state.src_mask)
        layers = (self.cell, self.attention, self.combine)
        hidden, vector, weights = self.candidate(*inputs, *layers)  # type: ignore[operator]
        return replace(state, hidden=hidden), vector, weights

    def predict(self, hidden: Tensor, context: Tensor) -> Tensor:
        """Return the logits of the next token."""
        return cast(Tensor, self.output(context))


# Part 3

_Stack = tuple[list[nn.GRUCell], LuongAttention, nn.Linear]


def _fed(
    embedded: Tensor,
    states: Tensor,
    keys: Tensor,
    mask: Tensor,
    *,
    layers: _Stack,
    fault: str = "",
) -> tuple[Tensor, Tensor]:
    """Read a whole target and feed each attentional vector back, with a fault if one is named."""
    cells, attention, combine = layers
    now = list(states)
    nothing = embedded.new_zeros(len(embedded), combine.out_features)
    fed = [nothing, nothing]  # to be read one step later, and two
    if fault == "starts with a vector":
        fed[0] = _vector(combine, attention(now[-1], keys, mask)[0], now[-1])
    vectors, rows = [], []
    for token in embedded.unbind(dim=1):
        before = list(states) if fault == "forgets its states" else list(now)
        read = fed[1] if fault == "two steps late" else fed[0]
        bottom = torch.cat([read, token] if fault == "vector first" else [token, read], dim=-1)
        below = bottom
        for i, cell in enumerate(cells):
            old = now[i - 1] if i and fault == "continues from below" else before[i]
            now[i] = cell(below, old)
            below = before[i] if fault == "reads the old state" else now[i]
            below = bottom if fault == "all read the token" else below
        query = before[-1] if fault == "previous query" else now[-1]
        query = now[0] if fault == "bottom query" else query
        context, weights = attention(query, keys, None if fault == "no mask" else mask)
        beside = now[0] if fault == "bottom predicts" else now[-1]
        pair = (beside, context) if fault == "state first" else (context, beside)
        vector = _vector(combine, *pair)
        if fault == "no tanh":
            vector = combine(torch.cat(pair, dim=-1))
        others = {"no feeding": nothing, "feeds the context": context, "feeds the state": now[-1]}
        others["feeds without gradient"] = vector.detach()
        others["feeds without tanh"] = combine(torch.cat(pair, dim=-1))
        vectors.append(fed[0] if fault == "one step late" else vector)
        fed = [others.get(fault, vector), fed[0]]
        rows.append(weights)
    return torch.stack(vectors, dim=1), torch.stack(rows, dim=1)


_FED_WRONG = {
    "no feeding": (
        "there is no input feeding: every step reads zeros together with its token. From "
        "the second step on, it must read the attentional vector of the previous step."
    ),
    "feeds the context": (
        "the context vector is fed to the next step. Feed the attentional vector, tanh(W_c [c; h])."
    ),
    "feeds the state": (
        "the top state is fed to the next step. Feed the attentional vector, tanh(W_c [c; h])."
    ),
    "no tanh": "the tanh is missing.",
    "feeds without tanh": (
        "the vector that is fed to the next step has no tanh. Feed tanh(W_c [c; h])."
    ),
    "vector first": (
        "the fed vector comes before the token in the input of the bottom cell. The input "
        "is [token; vector]."
    ),
    "starts with a vector": (
        "the first step reads an attentional vector, but there is no previous step. It must "
        "read zeros."
    ),
    "two steps late": (
        "a step reads the attentional vector from two steps before. It must read that of "
        "the previous step."
    ),
    "one step late": (
        "the result contains the vector that each step reads. Return the vector that each "
        "step computes."
    ),
    "forgets its states": (
        "every step starts from the initial states. A cell must continue from its own "
        "previous state."
    ),
    "previous query": (
        "the query is the top state before the token. In Luong's decoder the query is the "
        "current top state."
    ),
    "state first": (
        "state and context vector are exchanged in the concatenation. It is W_c [c; h]: the "
        "context vector first."
    ),
    "bottom query": (
        "the query is the state of the bottom cell. It must be the state of the top cell."
    ),
    "bottom predicts": (
        "the context vector is concatenated with the state of the bottom cell. Use the "
        "state of the top cell."
    ),
    "reads the old state": (
        "a cell reads the previous state of the cell below it. It must read the new state "
        "of that cell."
    ),
    "continues from below": (
        "a cell continues from the state of the cell below it. It must read that state as "
        "its input and continue from its own previous state."
    ),
    "no mask": ("the mask is not passed to the attention: padding receives weight."),
    "all read the token": (
        "every cell reads the token and the fed vector. Only the bottom cell does; each "
        "other cell reads the new state of the cell below it."
    ),
}


def _stack(
    number: int, embedding_dim: int, decoder_dim: int, key_dim: int, vector_dim: int
) -> _Stack:
    sizes = [embedding_dim + vector_dim] + [decoder_dim] * (number - 1)
    return (
        [nn.GRUCell(size, decoder_dim) for size in sizes],
        LuongAttention(decoder_dim, key_dim, "general"),
        nn.Linear(key_dim + decoder_dim, vector_dim),
    )


# Cells, batch, target and source lengths, then the sizes of `_stack`. In the third and fourth,
# token and fed vector are together as long as a state, so that more mistakes run.
_FED_CASES = [
    (1, 1, 1, 2, 2, 2, 2, 2),
    (1, 1, 3, 2, 2, 2, 2, 2),
    (2, 1, 2, 2, 2, 4, 2, 2),
    (2, 2, 3, 4, 1, 2, 1, 1),
    (3, 2, 5, 4, 7, 11, 5, 13),
]
_FURTHER_FED_CASES = [
    (1, 3, 7, 5, 3, 2, 11, 5),
    (4, 1, 3, 1, 2, 5, 3, 7),
    (2, 5, 2, 7, 13, 3, 3, 3),
]


def _fed_inputs(case: tuple[int, ...]) -> tuple[_Stack, Inputs]:
    number, batch, tgt_len, src_len, *sizes = case
    layers = _stack(number, *sizes)
    with torch.no_grad():
        for parameter in nn.ModuleList([*layers[0], *layers[1:]]).parameters():
            parameter.mul_(2.0)
    return layers, {
        "embedded": _random(batch, tgt_len, sizes[0]),
        "states": _random(number, batch, sizes[1]),
        "keys": _random(batch, src_len, sizes[2]),
        "mask": _ragged(batch, src_len),
    }


@_parts.part("input feeding", "decode_fed")
def input_feeding(candidate: object, thorough: bool = False) -> None:
    """Check a decoder of stacked cells with input feeding."""
    cases = _FED_CASES + (_FURTHER_FED_CASES if thorough else [])
    for case in cases:
        _compare_fed(candidate, *_fed_inputs(case))
    _expect_gradient_of_feeding(candidate)
    _expect_fed_in_model(candidate)


def _compare_fed(candidate: object, layers: _Stack, inputs: Inputs) -> None:
    def twins(which: int) -> list[Twin]:
        def wrong(fault: str) -> Callable[..., Tensor]:
            return lambda *tensors: _fed(*tensors, layers=layers, fault=fault)[which]

        mistakes = {said: wrong(fault) for fault, said in _FED_WRONG.items()}
        return _twins("Input feeding", mistakes)

    with torch.no_grad():
        names = ("vectors", "weights")
        answer = call_twice(_with_layers(candidate, *layers), inputs)
        got = expect_pair(answer, names, inputs)
        expected = _fed(*inputs.values(), layers=layers)
        given = [value for value in got if isinstance(value, Tensor)]
        if len(given) == 2 and all(map(_close, given, reversed(expected))):
            raise CheckFailed(
                "  The two results are correct, but in the wrong order. Return "
                f"{', '.join(names)}.\n{describe(inputs)}"
            )
        # A wrong input changes the vectors first, a wrong query the weights.
        for which, what in enumerate(("the attentional vectors", "the weights")):
            hint = (
                "The dimensions are batch, target position and entries, in this order: stack the "
                "steps along dim=1."
            )
            expect_equal(got[which], expected[which], what, inputs, twins(which), hint)


def _expect_gradient_of_feeding(candidate: object) -> None:
    layers = _stack(2, 3, 5, 2, 7)
    inputs = {
        "embedded": _random(2, 3, 3),
        "states": _random(2, 2, 5),
        "keys": _random(2, 4, 2).requires_grad_(),
        "mask": _ragged(2, 4),
    }

    def gradient(vectors: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(vectors[:, -1].square().sum(), inputs["keys"])
        return found

    bound = _with_layers(candidate, *layers)
    sources = {"keys": inputs["keys"]}
    expect_gradients_through(bound, inputs, sources, lambda answer: answer[0])
    got = gradient(bound(*inputs.values())[0])  # type: ignore[operator]
    if not _close(got, gradient(_fed(*inputs.values(), layers=layers)[0])):
        detached = gradient(
            _fed(*inputs.values(), layers=layers, fault="feeds without gradient")[0]
        )
        raise CheckFailed(
            "  The values are correct, but their gradient is not"
            + (
                (
                    ": no gradient flows back through the vectors that are fed to the next step. "
                    "Does the code use .detach(), .data or torch.no_grad()?"
                )
                if _close(got, detached)
                else (": another path is interrupted. Are the states detached between the steps?")
            )
            + f"\n{describe(inputs)}"
        )


def _expect_fed_in_model(candidate: object) -> None:
    """One cell with input feeding is the package's decoder."""
    model = _small_model("general", input_feeding=True)
    decoder = model.decoder
    where = {"src": _SRC, "tgt": _TGT}
    combine = _context_first(decoder.readout, decoder.cell.hidden_size)
    with torch.no_grad():
        memory = model.encode(_SRC)
        expected = model.decode(_TGT, memory).logits
        inputs = (
            decoder.embedding(_TGT),
            decoder.start(memory).hidden.unsqueeze(0),
            memory.outputs,
            memory.mask[:, 0],
        )
        bound = cast(
            Callable[..., Any], _with_layers(candidate, [decoder.cell], decoder.attention, combine)
        )
        vectors, _ = cast(tuple[Tensor, Tensor], call(lambda *_: bound(*inputs), where))
        what = "the logits of the package's translator"
        expect_equal(decoder.output(vectors), expected, what, where)


# Part 4


def _position(query: Tensor, lengths: Tensor, W_p: Tensor, v_p: Tensor) -> Tensor:
    return lengths * torch.sigmoid(_position_score(query, W_p, v_p))


def _position_score(query: Tensor, W_p: Tensor, v_p: Tensor) -> Tensor:
    return torch.tanh(query @ W_p.T) @ v_p


_POSITION_WRONG: _Known = {
    (
        "the length is missing: these values lie between 0 and 1. Multiply them by the "
        "length of the sentence."
    ): lambda h, S, W, v: torch.sigmoid(_position_score(h, W, v)),
    (
        "every sentence is treated as if it were as long as the longest one. Use its own "
        "length; otherwise its translation depends on the other sentences of the batch."
    ): lambda h, S, W, v: _position(h, S.max(), W, v),
    (
        "the length minus 1 is used. p_t lies between 0 and S, the length itself."
    ): lambda h, S, W, v: _position(h, S - 1, W, v),
    (
        "the sigmoid is missing: without it, a position may lie outside the sentence."
    ): lambda h, S, W, v: S * _position_score(h, W, v),
    "the tanh is missing.": lambda h, S, W, v: S * torch.sigmoid(h @ W.T @ v),
    (
        "the tanh is applied to the whole expression. Multiply by v_p after the tanh."
    ): lambda h, S, W, v: S * torch.sigmoid(torch.tanh(h @ W.T @ v)),
    (
        "the length is inside the sigmoid, so every result is below 1. Multiply by the "
        "length after the sigmoid."
    ): lambda h, S, W, v: torch.sigmoid(S * _position_score(h, W, v)),
    "the position is limited to the last word. It may be as large as S.": lambda h, S, W, v: (
        torch.minimum(_position(h, S, W, v), S - 1.0)
    ),
    (
        "the position is rounded. It is a real number; rounding has no gradient, so W_p and "
        "v_p would not learn."
    ): lambda *inputs: _position(*inputs).round(),
    (
        "the position is rounded down. It is a real number; rounding has no gradient, so "
        "W_p and v_p would not learn."
    ): lambda *inputs: _position(*inputs).floor(),
    (
        "W_p must be transposed. Its shape is (hidden_dim, query_dim) and each query is a "
        "row: use `query @ W_p.T`."
    ): lambda h, S, W, v: _position(h, S, W.T, v),
}


def _windowed(
    scores: Tensor, position: Tensor, mask: Tensor, window: int, *, fault: str = ""
) -> Tensor:
    """Return the weights of local-p, with a fault if one is named."""
    places = torch.arange(scores.size(1)) + (fault == "counts from one")
    position = position.round() if fault == "rounds p" else position
    if fault == "holds p in":
        position = torch.minimum(position, mask.sum(dim=1) - 1.0)
    middle = {"rounds": position.round(), "floors": position.floor()}.get(fault, position)
    distance = places - middle.unsqueeze(1)
    near = distance.abs() < window if fault == "leaves edges out" else distance.abs() <= window
    if fault == "looks one way":
        near = near & (distance >= 0)
    if fault == "is half as wide":
        near = distance.abs() <= window / 2
    sigma = window if fault == "sigma is D" else window / 2
    gaussian = torch.exp(-((places - position.unsqueeze(1)) ** 2) / (2 * sigma**2))
    if fault == "lacks the 2":
        gaussian = gaussian**2
    if fault == "sigma is not squared":
        gaussian = gaussian**sigma
    if fault == "is a density":
        gaussian = gaussian / (sigma * (2 * torch.pi) ** 0.5)
    inside = near & mask
    if fault == "softmax first":
        return masked_softmax(scores, mask) * inside * gaussian
    if fault == "mask last":
        return masked_softmax(scores, near) * mask * gaussian
    if fault == "too high a number":
        return scores.masked_fill(~inside, -30.0).softmax(dim=-1) * inside * gaussian
    if fault == "zeros as scores":
        return (scores * inside).softmax(dim=-1) * inside * gaussian
    allowed = {"no mask": near, "no window": mask}.get(fault, inside)
    if fault == "Gaussian first":
        return masked_softmax(scores * gaussian, allowed)
    weights = masked_softmax(scores, allowed)
    if fault == "no Gaussian":
        return weights
    weights = weights * gaussian
    return F.normalize(weights, 1, dim=-1) if fault == "normalises again" else weights


_WINDOW_WRONG = {
    "normalises again": (
        "the weights are normalised again after the Gaussian. Equation (10) ends with the "
        "product, so the weights sum to at most 1."
    ),
    "Gaussian first": (
        "the Gaussian multiplies the scores. It must multiply the weights, after the softmax."
    ),
    "no Gaussian": (
        "the Gaussian is missing: inside the window, the distance from the centre has no effect."
    ),
    "no window": (
        "the window is missing: positions farther than D from the centre receive weight."
    ),
    "softmax first": (
        "the softmax is computed over the whole sentence, and the window is applied "
        "afterwards. Compute the softmax over the window only, so that positions outside "
        "have no influence."
    ),
    "no mask": "padding inside the window receives weight.",
    "mask last": (
        "padding inside the window is included in the softmax and only removed afterwards. "
        "Exclude it before the softmax."
    ),
    "too high a number": (
        "the value that replaces scores outside the window is not low enough: on this "
        "input, the scores inside are even lower. Use torch.finfo(scores.dtype).min."
    ),
    "zeros as scores": (
        "scores outside the window are set to 0 before the softmax, but 0 is an ordinary "
        "score. Use torch.finfo(scores.dtype).min."
    ),
    "leaves edges out": (
        "a position at a distance of exactly D is excluded. The window contains all "
        "positions with |s − p| ≤ D."
    ),
    "sigma is D": "the Gaussian is too wide: σ is D / 2.",
    "lacks the 2": "the Gaussian is too narrow: (s − p)² is divided by 2σ².",
    "sigma is not squared": "σ is not squared: (s − p)² is divided by 2σ².",
    "is a density": (
        "the Gaussian is divided by σ√(2π), like a probability density. Here its value at "
        "the centre is 1."
    ),
    "holds p in": ("the position is limited to the last word. It may be as large as S."),
    "rounds": ("the centre of the window is rounded. The centre is p itself, a real number."),
    "rounds p": (
        "the position is rounded, for the window and for the Gaussian. The centre of both "
        "is p itself, a real number."
    ),
    "floors": ("the centre of the window is rounded down. The centre is p itself, a real number."),
    "counts from one": ("positions are counted from 1. The first word is at position 0."),
    "looks one way": ("the window starts at p. It must extend D positions to each side of p."),
    "is half as wide": (
        "the window is only half as wide as it should be. It must extend D positions to "
        "each side of p."
    ),
}


def _window_mistake(fault: str) -> Callable[..., Tensor]:
    return lambda *inputs: _windowed(*inputs, fault=fault)


_WINDOW_TWINS = _twins(
    "local_weights", {said: _window_mistake(fault) for fault, said in _WINDOW_WRONG.items()}
)


def _window_inputs(batch: int, src_len: int, window: int) -> Inputs:
    mask = _ragged(batch, src_len)
    return {
        "scores": 2.0 * _random(batch, src_len),
        "position": mask.sum(dim=1) * torch.rand(batch),
        "mask": mask,
        "window": window,
    }


@_parts.part(
    "local-p",
    "predicted_position",
    "local_weights",
    rebuilds=("attentively.attention.multiplicative:LocalAttention",),
)
def local(predicted_position: object, local_weights: object, thorough: bool = False) -> None:
    """Check the centre and the weights of local-p, also inside the package's translator."""
    _check_position(predicted_position, thorough)
    _check_window(local_weights, thorough)
    right, changed = _small_model("local-p"), _small_model("local-p")
    theirs = cast(LocalAttention, right.decoder.attention)
    W_p, v_p = theirs.position_projection.weight.detach(), theirs.position_energy.weight[0].detach()

    def weigh(query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        found = theirs.content.scores(query, theirs.project_keys(keys))
        position = predicted_position(query, mask.sum(dim=1), W_p, v_p)  # type: ignore[operator]
        return local_weights(found, position, mask, theirs.window)  # type: ignore[operator]

    changed.decoder.attention = _Attending(weigh)
    _expect_same_model(right, changed)


def _check_position(candidate: object, thorough: bool) -> None:
    cases = [
        {
            "query": torch.tensor([[1.0, -1.0]]),
            "lengths": torch.tensor([8]),
            "W_p": torch.tensor([[0.5, 0.0], [1.0, -0.5]]),
            "v_p": torch.tensor([1.0, -2.0]),
        },
        {  # a position after the last word
            "query": torch.tensor([[2.0, 2.0]]),
            "lengths": torch.tensor([3]),
            "W_p": torch.eye(2),
            "v_p": torch.tensor([2.0, 2.0]),
        },
    ]
    for batch, query_dim, hidden in [(2, 3, 5)] + [(5, 7, 2), (1, 2, 2), (7, 3, 13)] * thorough:
        cases.append(
            {
                "query": _random(batch, query_dim),
                "lengths": torch.arange(batch) * 4 + 3,
                "W_p": _random(hidden, query_dim),
                "v_p": _random(hidden),
            }
        )
    what, hint = (
        "the result of predicted_position",
        "Return one position for each sentence: (batch,).",
    )
    for inputs in cases:
        expected = _position(*inputs.values())
        answer = call_twice(candidate, inputs)
        expect_equal(
            answer, expected, what, inputs, _twins("predicted_position", _POSITION_WRONG), hint
        )
    inputs = {n: v if n == "lengths" else v.requires_grad_() for n, v in cases[2].items()}
    sources = {n: v for n, v in inputs.items() if n != "lengths"}
    expect_gradients_through(candidate, inputs, sources)


def _check_window(candidate: object, thorough: bool) -> None:
    def case(scores: Sequence[float], position: float, words: int, window: int) -> Inputs:
        return {
            "scores": torch.tensor([scores]),
            "position": torch.tensor([position]),
            "mask": (torch.arange(len(scores)) < words).unsqueeze(0),
            "window": window,
        }

    cases = [
        case(
            [1.0, 2.0, 0.5, 1.5, 3.0, 2.5], 1.6, 6, 2
        ),  # positions 0 to 3; around 2 there are five
        case([1.0, 2.0, 0.5], 1.0, 3, 1),
        case([0.5, 2.0, 1.0, 3.0, 0.0, 1.0], 2.75, 6, 2),
        case([1.0, 0.5, 2.0, 0.0, 1.0], 0.3, 5, 2),  # the window begins before the sentence
        case([1.0, 0.5, 2.0, 5.0, 4.0], 2.4, 3, 2),  # and ends after it, where padding stands
        case([0.0, 1.0, 60.0, 0.0, 0.0, 60.0], 3.9, 5, 1),  # outside are scores that take all
        case([1.0, 2.0, 0.0, 1.0], 3.0, 3, 1),  # as far to the right as p can be
        case([-150.0, -149.0, -151.0, -150.0], 1.0, 4, 1),  # a low value must be lower still
        _window_inputs(2, 7, 2),
    ]
    if thorough:
        sizes = [(3, 5, 1), (5, 13, 3), (1, 1, 2), (7, 11, 5), (3, 17, 2)]
        cases += [_window_inputs(*each) for each in sizes]
    what, hint = (
        "the result of local_weights",
        ("Return one weight for each source position: (batch, src_len)."),
    )
    for inputs in cases:
        expected = _windowed(**inputs)
        answer = call_twice(candidate, inputs)
        if type(answer) is Tensor and answer.isnan().any():
            raise CheckFailed(
                "  local_weights: the weights contain NaN. The softmax of a row that is -inf "
                "everywhere is NaN, and so is a division by a sum of 0.\n"
                f"{describe(inputs)}"
            )
        expect_equal(answer, expected, what, inputs, _WINDOW_TWINS, hint)
    empty = dict(_window_inputs(2, 5, 2))
    empty["mask"] = torch.tensor([[True] * 5, [False] * 5])
    row = plain_tensor(call(candidate, empty), what, empty)[-1]
    if row.isnan().any() or row.count_nonzero():
        raise CheckFailed(
            "  local_weights: the last sentence has no words (its mask is all False), so its "
            f"weights must be 0.\n{describe(empty)}\n  got         {show(row)}"
        )
    inputs = dict(_window_inputs(2, 7, 2))
    sources = {name: inputs[name].requires_grad_() for name in ("scores", "position")}
    expect_gradients_through(candidate, inputs, sources)


# Part 5

_COSTED: tuple[Score, ...] = ("dot", "general", "concat")


def _parameters(score: Score, query_dim: int, key_dim: int, hidden_dim: int) -> int:
    attention = LuongAttention(query_dim, key_dim, score, hidden_dim)
    return sum(parameter.numel() for parameter in attention.parameters())


def _multiplications(
    score: Score, src_len: int, tgt_len: int, query_dim: int, key_dim: int, hidden_dim: int
) -> int:
    """Count while the package scores a whole target; general in the cheaper of two orders."""
    attention = LuongAttention(query_dim, key_dim, score, hidden_dim)
    queries, keys = _random(tgt_len, 1, query_dim), _random(1, src_len, key_dim)

    def keys_first() -> None:
        projected = attention.project_keys(keys)
        for query in queries:
            attention.scores(query, projected)

    def queries_first() -> None:
        for query in queries:
            _dot(query @ attention.key_projection.weight, keys)

    found = []
    for run in (keys_first, queries_first) if score == "general" else (keys_first,):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run()
        found.append(counter.get_total_flops() // 2)  # a multiplication and an addition each
    return min(found)


def _only(**formulas: Callable[..., int]) -> Callable[..., int]:
    """Return a mistaken formula for each score, as a function of the score and the sizes.

    A score without a formula is a `KeyError`: the mistake does not apply to it.
    """
    return lambda score, *sizes: formulas[score](*sizes)


_PARAMETER_WRONG: _Known = {
    "dot has no parameters.": (
        *(_only(dot=lambda q, k, h, n=n: n * q) for n in (1, 2)),
        _only(dot=lambda q, k, h: q * k),
        _only(dot=lambda q, k, h: 1),
    ),
    (
        "W of general multiplies h from one side and h̄ from the other: its shape is "
        "(query_dim, key_dim)."
    ): (
        _only(general=lambda q, k, h: h * k),
        _only(general=lambda q, k, h: q + k),
        _only(general=lambda q, k, h: h * (q + k)),
    ),
    "v of concat is missing. It has hidden_dim entries.": _only(concat=lambda q, k, h: h * (q + k)),
    "W of concat is missing. It multiplies [h; h̄].": _only(concat=lambda q, k, h: h),
    ("W of concat multiplies [h; h̄], which has query_dim + key_dim entries."): _only(
        concat=lambda q, k, h: h * q * k + h
    ),
    "a bias is counted. None of these layers has a bias.": _only(
        general=lambda q, k, h: q * k + q,
        concat=lambda q, k, h: h * (q + k) + 2 * h,
    ),
}
_PAIR_BY_PAIR = (
    "W is applied again for each pair of positions. W h̄ depends on the source position "
    "only, and hᵀ W on the target position only"
)
_W_ALONE = "these are only the products with W. Add the dot products of all pairs"
_COST_WRONG: _Known = {
    (
        "this is the number for one target position. Each of the tgt_len target positions "
        "scores all source positions."
    ): _only(
        dot=lambda S, T, q, k, h: S * q,
        general=lambda S, T, q, k, h: q * k + S * k,
        concat=lambda S, T, q, k, h: S * h * (q + k) + S * h,
    ),
    ("a dot product of two vectors of dimension d takes d multiplications."): (
        _only(dot=lambda S, T, q, k, h: S * T),
        _only(dot=lambda S, T, q, k, h: S * T * (2 * q - 1)),
    ),
    (
        "the lengths are added. Each of the tgt_len target positions is compared with each "
        "of the src_len source positions."
    ): _only(dot=lambda S, T, q, k, h: (S + T) * q),
    ("W is applied to both vectors. Apply it to one of them, h or h̄."): (
        _only(general=lambda S, T, q, k, h: (S + T) * q * k + S * T * q),
        _only(general=lambda S, T, q, k, h: (S + T) * q * k + S * T * k),
    ),
    f"{_PAIR_BY_PAIR}.": _only(general=lambda S, T, q, k, h: S * T * (q * k + q)),
    f"{_PAIR_BY_PAIR}, so it is computed once per position.": _only(
        general=lambda S, T, q, k, h: S * T * (q * k + k)
    ),
    (
        "fewer multiplications are possible for these sizes. W can be applied once per "
        "source position or once per target position: return the smaller number."
    ): _only(general=lambda S, T, q, k, h: max(S * q * k + S * T * q, T * q * k + S * T * k)),
    f"{_W_ALONE}.": _only(general=lambda S, T, q, k, h: S * q * k),
    f"{_W_ALONE}, once for every pair.": _only(general=lambda S, T, q, k, h: T * q * k),
    (
        "the dot products have the wrong dimension: after hᵀ W the vectors have dimension "
        "key_dim, after W h̄ they have dimension query_dim."
    ): _only(general=lambda S, T, q, k, h: min(S * q * k + S * T * k, T * q * k + S * T * q)),
    (
        "W [h; h̄] is computed again for each pair of positions. It is the sum of a part "
        "that depends on h and a part that depends on h̄: compute each part once per "
        "position."
    ): (
        _only(concat=lambda S, T, q, k, h: S * T * h * (q + k) + S * T * h),
        _only(concat=lambda S, T, q, k, h: h * (S * k + S * T * q + S * T)),
        _only(concat=lambda S, T, q, k, h: h * (S * T * k + T * q + S * T)),
    ),
    ("the product with v is missing. It takes hidden_dim multiplications for each pair."): (
        _only(concat=lambda S, T, q, k, h: h * (T * q + S * k)),
        *(
            _only(concat=lambda S, T, q, k, h, of=of: h * (T * q + S * k + (1, S, T)[of]))
            for of in range(3)
        ),
    ),
    ("these are only the products with v. The products with W are missing."): _only(
        concat=lambda S, T, q, k, h: S * T * h
    ),
    (
        "the dimensions are exchanged: there are tgt_len vectors h of dimension query_dim, "
        "and src_len vectors h̄ of dimension key_dim."
    ): _only(concat=lambda S, T, q, k, h: h * (S * q + T * k + S * T)),
}


@_parts.part("matrix of general", "parameters", "multiplications", "each_finds_the_next")
def what_w_buys(
    parameters: object,
    multiplications: object,
    each_finds_the_next: object,
    thorough: bool = False,
) -> None:
    """Check predicted costs, and vectors with a matrix that no dot product can replace."""
    # In the third case, the cheaper order is not the one that projects the shorter side.
    sizes = [(3, 5, 7), (11, 2, 3), (13, 2, 5)] + [(5, 13, 2), (7, 3, 17)] * thorough
    for query_dim, key_dim, hidden_dim in sizes:
        for score in _COSTED:
            asked: dict[str, Any] = {
                "score": score,
                "query_dim": query_dim,
                "key_dim": query_dim if score == "dot" else key_dim,
                "hidden_dim": hidden_dim,
            }
            expected = _parameters(*asked.values())
            what, hint = "the number of parameters", "The package's module has a different number."
            got = call(parameters, asked)
            expect_value(got, expected, what, asked, _twins("parameters", _PARAMETER_WRONG), hint)
    for (query_dim, key_dim, hidden_dim), lengths in zip(
        sizes, ((13, 2), (2, 13), (5, 7), (5, 5), (11, 3)), strict=False
    ):
        for score in _COSTED:
            asked = {
                "score": score,
                **dict(zip(("src_len", "tgt_len"), lengths, strict=True)),
                "query_dim": query_dim,
                "key_dim": query_dim if score == "dot" else key_dim,
                "hidden_dim": hidden_dim,
            }
            expected = _multiplications(*asked.values())
            what = "the number of multiplications"
            hint = "The package needs a different number when it runs."
            got = call(multiplications, asked)
            expect_value(got, expected, what, asked, _twins("multiplications", _COST_WRONG), hint)
    _check_next(each_finds_the_next)


def _check_next(candidate: object) -> None:
    answer = call(candidate, {})
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise CheckFailed(f"  each_finds_the_next: expected `return X, W`, got {show(answer)}.")
    X = _expect_matrix(answer[0], (3, 2), "X", "X consists of three vectors of dimension 2.")
    W = _expect_matrix(answer[1], (2, 2), "W", "W multiplies vectors of dimension 2 on both sides.")
    scored = X @ W @ X.T
    weights = scored.softmax(dim=-1)
    found = weights.argmax(dim=-1).tolist()
    share = weights[[0, 1, 2], [1, 2, 0]]
    if bool((share >= 0.9).all()):
        return
    if found == [1, 2, 0]:
        why = (
            "each vector finds the next one, but with a weight below 0.9: the scores are too "
            "close together. What increases all differences between scores?"
        )
    elif found == [2, 0, 1]:
        why = (
            "each vector finds the previous one. The score is x_iᵀ W x_j: in which direction "
            "does W rotate?"
        )
    elif found == [0, 1, 2]:
        why = (
            "each vector finds itself. Let W rotate one of the two vectors before they are "
            "compared."
        )
    elif torch.allclose(W, W.T):
        why = (
            "W is symmetric, so x_iᵀ W x_j = x_jᵀ W x_i: the score of j for query i equals the "
            "score of i for query j. Then the three vectors cannot all find the next one, "
            "whatever they are. The dot product has the same property."
        )
    else:
        missed = next(i for i in range(3) if found[i] != (i + 1) % 3)
        why = f"vector {missed} finds vector {found[missed]}, not vector {(missed + 1) % 3}."
    raise CheckFailed(
        f"  each_finds_the_next: {why}\n  got         weights, one row for each query:\n"
        + "\n".join(f"              {show(row)}" for row in weights)
        + "\n  expected    0.9 or more at [0, 1], [1, 2] and [2, 0]"
    )


def _expect_matrix(value: object, shape: tuple[int, int], what: str, hint: str) -> Tensor:
    """Return a matrix of 32-bit floats; lists and integers are accepted."""
    if type(value) in (list, tuple, Tensor):
        with suppress(TypeError, ValueError):  # where it is no matrix, the next line says so
            value = torch.as_tensor(value, dtype=torch.float32)
    return expect_tensor(value, shape, what, {}, hint)


# Part 6

EMBEDDING_DIM, KEY_DIM = 5, 7
SYMPTOMS = ("future", "late", "neighbours", "padding", "sum")


class _TestedDecoder:
    """A decoder of a whole target, with the named faults, if any."""

    def __init__(self, *faults: str, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        sizes = ((EMBEDDING_DIM, 11), (11, 11), (11, KEY_DIM), (KEY_DIM + 11, 6))
        self.weights = [torch.randn(*size, generator=generator) / 2 for size in sizes]
        self.faults = faults

    def __call__(self, embedded: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the attentional vectors and the weights of every step."""
        shapes = [tuple(value.shape) for value in (embedded, keys, mask)]
        batch, src_len = tuple(keys.shape[:2]) if keys.dim() == 3 else (0, 0)
        fits = embedded.dim() == 3 and keys.dim() == 3 and mask.dtype == torch.bool
        if not fits or shapes != [
            (batch, embedded.size(1), EMBEDDING_DIM),
            (batch, src_len, KEY_DIM),
            (batch, src_len),
        ]:
            raise ValueError(
                f"decode expects (batch, tgt_len, {EMBEDDING_DIM}), (batch, src_len, {KEY_DIM}) "
                f"and a Bool mask (batch, src_len), but got {', '.join(map(str, shapes))}"
            )
        W_in, W_state, W_a, W_c = self.weights
        states = [embedded.new_zeros(batch, 11)]
        for token in embedded.unbind(dim=1):
            states.append(torch.tanh(token @ W_in + states[-1] @ W_state))
        before, now = torch.stack(states[:-1], dim=1), torch.stack(states[1:], dim=1)
        if "mixes states" in self.faults:
            now = now + now.mean(dim=0)
        following = torch.cat([now[:, 1:], now[:, -1:]], dim=1)
        queries = before if "previous query" in self.faults else now
        queries = following if "next query" in self.faults else queries
        if "mean query" in self.faults:
            queries = queries + 2 * now.mean(dim=1, keepdim=True)
        weights = self._weigh(queries @ W_a @ keys.mT, mask.unsqueeze(1))
        if "doubles later" in self.faults:
            later = torch.arange(weights.size(1)) > 0
            weights = weights * torch.where(later, 2.0, 1.0).unsqueeze(1)
        contexts = weights @ keys
        if "shows unmasked weights" in self.faults:
            weights = (queries @ W_a @ keys.mT).softmax(dim=-1)
        if "shows the next weights" in self.faults:
            weights = self._weigh(following @ W_a @ keys.mT, mask.unsqueeze(1))
        if "shows mixed weights" in self.faults:
            mixed = queries + queries.mean(dim=0)
            weights = self._weigh(mixed @ W_a @ keys.mT, mask.unsqueeze(1))
        if "padding in the context" in self.faults:
            contexts = contexts + keys.mean(dim=1, keepdim=True)
        if "mixes contexts" in self.faults:
            contexts = contexts - contexts.mean(dim=0)
        beside = following if "next predicts" in self.faults else now
        return torch.tanh(torch.cat([contexts, beside], dim=-1) @ W_c), weights

    def _weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        mask = mask.expand_as(scores)
        if "sigmoid" in self.faults:
            return torch.sigmoid(scores) * mask
        if "no mask" in self.faults:
            return scores.softmax(dim=-1)
        if "mask last" in self.faults:
            return scores.softmax(dim=-1) * mask
        axis = 1 if "softmax over the target" in self.faults else 2
        axis = 0 if "softmax over the batch" in self.faults else axis
        return masked_softmax(scores.transpose(axis, 2), mask.transpose(axis, 2)).transpose(axis, 2)


# What a decoder does, its faults, and its symptoms.
_DECODERS: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("is correct", (), set()),
    ("uses the state before the token as the query", ("previous query",), {"late"}),
    ("ignores the mask", ("no mask",), {"padding"}),
    ("uses the state after the next token as the query", ("next query",), {"future"}),
    ("computes each weight separately, with a sigmoid", ("sigmoid",), {"sum"}),
    ("adds the mean over the batch to each state", ("mixes states",), {"neighbours"}),
    ("applies the mask after the softmax", ("mask last",), {"padding", "sum"}),
    (
        "computes its softmax over the target positions",
        ("softmax over the target",),
        {"future", "sum"},
    ),
    ("computes its softmax over the batch", ("softmax over the batch",), {"neighbours", "sum"}),
    (
        (
            "returns correct weights, but adds the mean of all keys, padding included, to its "
            "context vectors"
        ),
        ("padding in the context",),
        {"padding"},
    ),
    (
        ("returns correct weights, but predicts with the state after the next token"),
        ("next predicts",),
        {"future"},
    ),
    (
        ("returns correct weights, but subtracts the mean over the batch from its context vectors"),
        ("mixes contexts",),
        {"neighbours"},
    ),
    (
        "returns correct vectors, but weights that ignore the mask",
        ("shows unmasked weights",),
        {"padding"},
    ),
    (
        "returns correct vectors, but the weights of the next step",
        ("shows the next weights",),
        {"future"},
    ),
    (
        (
            "returns correct vectors, but weights of a query to which the mean over the batch "
            "is added"
        ),
        ("shows mixed weights",),
        {"neighbours"},
    ),
    ("doubles the weights of every step except the first", ("doubles later",), {"sum"}),
]
_FURTHER_DECODERS: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("adds the mean of all states to the query", ("mean query",), {"future"}),
    (
        ("uses the state before the token as the query and ignores the mask"),
        ("previous query", "no mask"),
        {"late", "padding"},
    ),
    (
        (
            "uses the state before the token as the query and predicts with the state after the "
            "next token"
        ),
        ("previous query", "next predicts"),
        {"late", "future"},
    ),
    (
        ("adds the mean over the batch to each state and applies the mask after the softmax"),
        ("mixes states", "mask last"),
        {"neighbours", "padding", "sum"},
    ),
    ("is correct", (), set()),
]

_MISSED = {
    "future": (
        "Other tokens at the end of the target must not change the weights or the vectors "
        "of earlier steps."
    ),
    "late": (
        "If only the token of one step changes and the earlier tokens stay the same, the "
        "weights of this step must change."
    ),
    "neighbours": (
        "A sentence must have the same weights and vectors alone as in a batch with other "
        "sentences."
    ),
    "padding": (
        "Other keys at masked positions must not change anything: neither the weights "
        "(at words or at padding) nor the vectors."
    ),
    "sum": (
        "The weights of every step must sum to 1 over the source positions, no less and no "
        "more, also in sentences with padding."
    ),
}
_SEEN_WRONGLY = {
    "future": (
        "In this decoder, a changed token does not affect earlier steps. Compare only the "
        "steps before the changed token, and allow for rounding, as torch.allclose does."
    ),
    "late": (
        "In this decoder, the token of a step changes the weights of the same step. Does "
        "the source have at least two words, is the token changed clearly, and are the "
        "weights of the step compared that reads this token?"
    ),
    "neighbours": (
        "In this decoder, a sentence has the same results alone and in a batch. Compare the "
        "same sentence in both results, and allow for rounding, as torch.allclose does: "
        "sums in a larger batch are rounded differently."
    ),
    "padding": (
        "In this decoder, keys at masked positions have no influence. Change only keys "
        "where the mask is False, and use finite values: 0 times infinity is NaN."
    ),
    "sum": (
        "In this decoder, the weights of a step sum to 1 over the source positions, up to "
        "rounding. Sum over the last dimension. In a sentence without any words, all "
        "weights are 0."
    ),
}


@_parts.part("decoder tests", "symptoms")
def examine(candidate: object, thorough: bool = False) -> None:
    """Check the tests of a decoder on decoders whose faults are known."""
    decoders = _DECODERS + (_FURTHER_DECODERS if thorough else [])
    for number, (what, faults, expected) in enumerate(decoders):
        decode = _TestedDecoder(*faults, seed=number)
        answer = call(_examining(candidate, decode), {})
        said = _expect_symptoms(answer)
        wrong = [name for name in SYMPTOMS if (name in said) != (name in expected)]
        if not wrong:
            continue
        first = wrong[0]
        why = (
            f"“{first}” is missing from your result. {_MISSED[first]}"
            if first in expected
            else f"“{first}” is in your result, but the decoder does not have this symptom. "
            f"{_SEEN_WRONGLY[first]}"
        )
        raise CheckFailed(
            f"  {why}\n  The tested decoder {what}.\n"
            f"  got         {show(sorted(said))}\n  expected    {show(sorted(expected))}"
        )


def _examining(candidate: object, decode: _TestedDecoder) -> object:
    if not callable(candidate):
        return candidate

    def examining() -> object:
        return candidate(decode)

    examining.__name__ = getattr(candidate, "__name__", "")
    return examining


def _expect_symptoms(answer: object) -> set[str]:
    if not isinstance(answer, set | frozenset | list | tuple):
        got = "None: is there a `return`?" if answer is None else show(answer)
        raise CheckFailed(f"  Expected a set of symptoms, got {got}")
    unknown = [name for name in answer if name not in SYMPTOMS]
    if unknown:
        raise CheckFailed(
            f"  {show(unknown[0])} is not the name of a symptom. The names are "
            f"{', '.join(SYMPTOMS)}."
        )
    return set(answer)
