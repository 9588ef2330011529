"""Checks of the assignment on multiplicative attention: scores, decoder, window, examination.

Parts 1, 2 and 4 rebuild what the package has, part 3 builds more than it has; all four are put
into the package's own translator at last. The answers to parts 3, 5 and 6 stand nowhere: costs
are measured, a design is judged by what it does, and the decoders to be examined were made faulty
on purpose.
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
    print(f"has {number:,} parameters and has learned nothing yet. Ready.")


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
    """Return an untrained model of 13 words, whose scores are far from equal."""
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
    """Refuse a translator that a student's part has changed."""
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
            "  With your part the package's translator writes other words, step by step, although "
            "it reads a given target as before. Does a call leave something behind?\n"
            f"  got         {show(after)}\n  expected    {show(before)}"
        )


class _Attending(nn.Module):
    """An attention of which a student's function gives the weights."""

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
"""What to say of a mistake, and what it answers; several, where it is made in several ways."""


def _twins(part: str, mistakes: _Known) -> list[Twin]:
    """Say of each mistake in which part it is made."""
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
        "these are weights: the softmax has been taken already. "
        "Return the scores before it.": lambda *inputs: right(*inputs).softmax(dim=-1),
        "the scores are divided by √d. That comes with the Transformer; none of these three "
        "scores is scaled.": lambda q, *rest: right(q, *rest) / q.size(1) ** 0.5,
        "every sentence got the query of the first one.": lambda q, *rest: right(
            q[:1].expand_as(q), *rest
        ),
        "key j got the query of sentence j instead of its own sentence's: broadcasting lined "
        "up the batch with the keys. Give the query an axis "
        "for the keys: .unsqueeze(1).": lambda q, k, *rest: torch.stack(
            [right(q, k[b].unsqueeze(1), *rest)[:, 0] for b in range(len(k))]
        ),
    }


_DOT_WRONG: _Known = {
    **_common_mistakes(_dot),
    "the products are not summed yet: one number for each key.": lambda q, k: q.unsqueeze(1) * k,
    "the products are averaged. A dot product is their sum.": lambda q, k: _dot(q, k) / q.size(1),
    "each query was compared with the keys of every sentence. "
    "Its own sentence's are meant.": lambda q, k: q @ k.mT,
    "this is the cosine. A dot product keeps the lengths of the vectors.": lambda q, k: (
        F.cosine_similarity(q.unsqueeze(1), k, dim=-1)
    ),
}
_GENERAL_WRONG: _Known = {
    **_common_mistakes(_general),
    "W is used the wrong way round. Its shape is (query_dim, key_dim): first `query @ W`, or "
    "`keys @ W.T`.": lambda q, k, W: _general(q, k, W.T),
    "W is not used: this is dot.": lambda q, k, W: _dot(q, k),
    "there is a tanh around W h̄; general is two products and nothing else.": lambda q, k, W: _dot(
        q, torch.tanh(k @ W.T)
    ),
    "the products with W h̄ are not summed yet: one number for each key.": lambda q, k, W: (
        q.unsqueeze(1) * (k @ W.T)
    ),
}
_CONCAT_WRONG: _Known = {
    **_common_mistakes(_concat),
    "the key stands before the query. W belongs to [h; "
    "h̄]: the query comes first.": lambda q, k, W, v: (
        torch.tanh(_both(q, k).roll(k.size(2), dims=-1) @ W.T) @ v
    ),
    "the tanh is missing.": lambda q, k, W, v: _both(q, k) @ W.T @ v,
    "the tanh stands around everything; v belongs "
    "outside it: v·tanh(W [h; h̄]).": lambda q, k, W, v: torch.tanh(_both(q, k) @ W.T @ v),
    "there are two tanh, one for the query's half and one for the key's. First add, then take "
    "one tanh.": lambda q, k, W, v: (
        (torch.tanh(q @ W[:, : q.size(1)].T).unsqueeze(1) + torch.tanh(k @ W[:, q.size(1) :].T)) @ v
    ),
    "the tanh stands around one half only. First add, then take the tanh.": (
        lambda q, k, W, v: (
            (torch.tanh(q @ W[:, : q.size(1)].T).unsqueeze(1) + k @ W[:, q.size(1) :].T) @ v
        ),
        lambda q, k, W, v: (
            ((q @ W[:, : q.size(1)].T).unsqueeze(1) + torch.tanh(k @ W[:, q.size(1) :].T)) @ v
        ),
    ),
    "the tanh stands inside: v·tanh(W [h; h̄]), not v·W tanh([h; h̄]).": lambda q, k, W, v: (
        _both(q, k).tanh() @ W.T @ v
    ),
    "v is not used: each component is counted once.": lambda q, k, W, v: torch.tanh(
        _both(q, k) @ W.T
    ).sum(-1),
    "the query has no part in this: only the key's half of W is used.": lambda q, k, W, v: (
        torch.tanh(k @ W[:, q.size(1) :].T) @ v
    ),
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


@_parts.part("scores", *_SCORED)
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
            hint = "One number for each key of each sentence: (batch, src_len)."
            what = f"what {name} returns"
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
    """A cell small enough for paper: its new state is the input plus half of the old state."""

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the new state."""
        return inputs + 0.5 * state


class _Layers(NamedTuple):
    """What a decoder is made of."""

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
        "this is the state before the token was read. The "
        "next step needs the new one.": lambda e, s, *_: s,
        "the cell reads the state as its input and the token as its state: "
        "cell(embedded, state).": lambda e, s, *_: layers.cell(s, e),
        "the attentional vector is handed on as the state. It makes the prediction; the state "
        "goes on without it.": lambda *inputs: _step(*inputs, layers=layers)[1],
        "the context is handed on as the state.": lambda *inputs: layers.attention(
            _step(*inputs, layers=layers)[0], *inputs[2:]
        )[0],
    }


def _weight_mistakes(layers: _Layers) -> _Known:
    return {
        "the state before the token asks, as in Bahdanau's decoder. Luong's asks with the "
        "current state, the one that the cell has just returned.": lambda e, s, k, m: (
            layers.attention(s, k, m)[1]
        ),
        "the embedded token asks. The state after it is the query.": lambda e, s, k, m: (
            layers.attention(e, k, m)[1]
        ),
        "the mask is not passed on: padding gets weight.": lambda e, s, k, m: layers.attention(
            layers.cell(e, s), k, None
        )[1],
        "the mask is the wrong way round: it is True at words.": lambda e, s, k, m: (
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
        "state and context have changed places. The paper has W_c [c; h]: the context first.": of(
            lambda context, new, **_: _vector(combine, new, context)
        ),
        "the tanh is missing.": of(
            lambda context, new, **_: combine(torch.cat([context, new], dim=-1))
        ),
        "the tanh stands inside: tanh(W_c [c; h]), not W_c tanh([c; h]).": of(
            lambda context, new, **_: combine(torch.cat([context, new], dim=-1).tanh())
        ),
        "this is the context. The attentional vector is made of it and of the state: "
        "tanh(W_c [c; h]).": of(lambda context, **_: context),
        "this is the state: neither context nor W_c have a part in it.": of(lambda new, **_: new),
        "the state before the token stands beside the context. The current one is meant.": of(
            lambda context, old, **_: _vector(combine, context, old)
        ),
        "the embedded token stands beside the context. The current state is meant.": of(
            lambda context, embedded, **_: _vector(combine, context, embedded)
        ),
        "this is [c; h] itself, without W_c and tanh.": of(
            lambda context, new, **_: torch.cat([context, new], dim=-1)
        ),
    }


_STEP_RESULTS = ("state", "attentional", "weights")


@_parts.part("attentional vector", "decoder_step")
def attentional(candidate: object, thorough: bool = False) -> None:
    """Check one step of Luong's decoder, at last inside the package's translator."""
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
                "  The three results are right, but they have changed places: return "
                f"{', '.join(_STEP_RESULTS)}, in this order.\n{describe(inputs)}"
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
    """The package's decoder, whose step a student has written."""

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
        """Read one token; the attentional vector takes the place of the context."""
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
            old = now[i - 1] if i and fault == "states rise" else before[i]
            now[i] = cell(below, old)
            below = before[i] if fault == "old states rise" else now[i]
            below = bottom if fault == "all read the token" else below
        query = before[-1] if fault == "previous asks" else now[-1]
        query = now[0] if fault == "bottom asks" else query
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
    "no feeding": "nothing is fed back: every step reads zeros beside its token. From the second "
    "step on it reads the attentional vector of the step before.",
    "feeds the context": "the context is fed back. The attentional vector is, tanh(W_c [c; h]).",
    "feeds the state": "the state is fed back, which the cell has already. The attentional vector "
    "is meant.",
    "no tanh": "the tanh is missing.",
    "feeds without tanh": "what is fed back has not been through the tanh.",
    "vector first": "the fed vector stands before the token. A step reads [token; vector].",
    "starts with a vector": "the first step reads an attentional vector, and none has been made "
    "yet. It reads zeros.",
    "two steps late": "a step reads the attentional vector of two steps before. That of the last "
    "step is meant.",
    "one step late": "this is what each step has read. The vector that it makes is meant.",
    "forgets its states": "every step starts from the states that were given. A cell goes on from "
    "its own last state.",
    "previous asks": "the top state before the token asks. Luong's decoder asks with the current "
    "one.",
    "state first": "state and context have changed places: W_c [c; h], the context first.",
    "bottom asks": "the bottom cell's state asks. The top cell's does, which has been through the "
    "whole stack.",
    "bottom predicts": "the bottom cell's state stands beside the context. The top cell's is "
    "meant.",
    "old states rise": "a cell reads the state that the cell below had before this token. It reads "
    "the new one.",
    "states rise": "a cell goes on from the state of the cell below. It reads that one, and goes "
    "on from its own last state.",
    "no mask": "the mask is not passed on: padding gets weight.",
    "all read the token": "every cell reads the token and the fed vector. Only the bottom one "
    "does; the others read the new state of the cell below.",
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
    """Check a decoder of several cells that reads what it said last."""
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
            raise CheckFailed(f"  Return {', '.join(names)}, in this order.\n{describe(inputs)}")
        # What is fed back shows in the vectors first, who asks in the weights.
        for which, what in enumerate(("the attentional vectors", "the weights")):
            hint = "The axes are batch, target, then numbers: stack the steps along dim=1."
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
            "  The numbers are right, but their gradient is not"
            + (
                ": none flows back through the vectors that are fed. Is there .detach(), .data or "
                "torch.no_grad()?"
                if _close(got, detached)
                else ": a way back is cut. Are states detached between the steps?"
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
    "this is between 0 and 1. Times the length of the "
    "sentence it is a position.": lambda h, S, W, v: torch.sigmoid(_position_score(h, W, v)),
    "every sentence is taken to be as long as the longest. Its own length counts, or its "
    "translation depends on its neighbours.": lambda h, S, W, v: _position(h, S.max(), W, v),
    "the length less 1 is used. The paper's p_t lies between 0 and S.": lambda h, S, W, v: (
        _position(h, S - 1, W, v)
    ),
    "the sigmoid is missing: without it a position may "
    "lie outside the sentence.": lambda h, S, W, v: S * _position_score(h, W, v),
    "the tanh is missing.": lambda h, S, W, v: S * torch.sigmoid(h @ W.T @ v),
    "the tanh stands around everything; v_p belongs outside it.": lambda h, S, W, v: (
        S * torch.sigmoid(torch.tanh(h @ W.T @ v))
    ),
    "the length stands inside the sigmoid, which makes a "
    "number below 1 of everything.": lambda h, S, W, v: torch.sigmoid(S * _position_score(h, W, v)),
    "the position is held back at the last word. It may lie up to S.": lambda h, S, W, v: (
        torch.minimum(_position(h, S, W, v), S - 1.0)
    ),
    "the position is rounded. It is a real number; rounded, it has no gradient and W_p and "
    "v_p never learn.": lambda *inputs: _position(*inputs).round(),
    "the position is rounded down. It is a real number; rounded, it has no gradient and "
    "W_p and v_p never learn.": lambda *inputs: _position(*inputs).floor(),
    "W_p is used the wrong way round: row k of W_p makes "
    "component k, `query @ W_p.T`.": lambda h, S, W, v: _position(h, S, W.T, v),
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
    return F.normalize(weights, 1, dim=-1) if fault == "shared out anew" else weights


_WINDOW_WRONG = {
    "shared out anew": "the weights are shared out anew after the Gaussian. Equation 10 ends with "
    "the product: the weights sum to less than 1.",
    "Gaussian first": "the Gaussian multiplies the scores. It multiplies the weights, after the "
    "softmax.",
    "no Gaussian": "the Gaussian is missing: inside the window every place counts alike.",
    "no window": "there is no window: places further away than D get weight.",
    "softmax first": "the softmax runs over the whole sentence and the window cuts afterwards. It "
    "runs over the window alone: what stands outside takes no share.",
    "no mask": "padding inside the window gets weight.",
    "mask last": "padding inside the window takes its share of the softmax, and is taken out only "
    "afterwards.",
    "too high a number": "the number that replaces scores outside the window is not low enough: "
    "here every other score is lower still. Take torch.finfo(scores.dtype).min.",
    "zeros as scores": "scores outside the window are set to 0 before the softmax, and 0 is a "
    "score like others.",
    "leaves edges out": "a place exactly D away is left out: |s − p| ≤ D.",
    "sigma is D": "the Gaussian is too wide: σ is D / 2.",
    "lacks the 2": "the Gaussian is too narrow: (s − p)² is divided by 2σ².",
    "sigma is not squared": "σ is not squared: (s − p)² is divided by 2σ².",
    "is a density": "the Gaussian is divided by σ√(2π), as a density is. Here it is 1 in the "
    "middle.",
    "holds p in": "the position is held back at the last word. It may lie up to S.",
    "rounds": "the window stands around the rounded position. It stands around p itself, a real "
    "number.",
    "rounds p": "the position is rounded, and both window and Gaussian stand around that. It is a "
    "real number.",
    "floors": "the window stands around the position rounded down. It stands around p itself, a "
    "real number.",
    "counts from one": "places are counted from 1; the first word is at 0.",
    "looks one way": "the window begins at p. It reaches D to either side.",
    "is half as wide": "the window is half as wide: D to either side.",
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


@_parts.part("local-p", "predicted_position", "local_weights")
def local(predicted_position: object, local_weights: object, thorough: bool = False) -> None:
    """Check where local-p stands and what it sees there, at last inside the translator."""
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
        {  # a position behind the last word
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
    what, hint = "what predicted_position returns", "One position for each sentence: (batch,)."
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
        case([1.0, 2.0, 0.5, 1.5, 3.0, 2.5], 1.6, 6, 2),  # places 0 to 3; around 2 there are five
        case([1.0, 2.0, 0.5], 1.0, 3, 1),
        case([0.5, 2.0, 1.0, 3.0, 0.0, 1.0], 2.75, 6, 2),
        case([1.0, 0.5, 2.0, 0.0, 1.0], 0.3, 5, 2),  # the window begins before the sentence
        case([1.0, 0.5, 2.0, 5.0, 4.0], 2.4, 3, 2),  # and ends after it, where padding stands
        case([0.0, 1.0, 60.0, 0.0, 0.0, 60.0], 3.9, 5, 1),  # outside are scores that take all
        case([1.0, 2.0, 0.0, 1.0], 3.0, 3, 1),  # as far to the right as p can be
        case([-150.0, -149.0, -151.0, -150.0], 1.0, 4, 1),  # hard to be lower than
        _window_inputs(2, 7, 2),
    ]
    if thorough:
        sizes = [(3, 5, 1), (5, 13, 3), (1, 1, 2), (7, 11, 5), (3, 17, 2)]
        cases += [_window_inputs(*each) for each in sizes]
    what, hint = "what local_weights returns", "One weight for each place: (batch, src_len)."
    for inputs in cases:
        expected = _windowed(**inputs)
        answer = call_twice(candidate, inputs)
        if type(answer) is Tensor and answer.isnan().any():
            raise CheckFailed(
                "  local_weights: there is NaN in the weights: a softmax over only -inf, or a "
                f"division by a sum of 0.\n{describe(inputs)}"
            )
        expect_equal(answer, expected, what, inputs, _WINDOW_TWINS, hint)
    empty = dict(_window_inputs(2, 5, 2))
    empty["mask"] = torch.tensor([[True] * 5, [False] * 5])
    row = plain_tensor(call(candidate, empty), what, empty)[-1]
    if row.isnan().any() or row.count_nonzero():
        raise CheckFailed(
            "  local_weights: the last sentence has no word at all (its mask is all False); its "
            f"weights are zeros.\n{describe(empty)}\n  got         {show(row)}"
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
    """Let the package score a whole target, and count; general in the cheaper of two orders."""
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
    """Return what a mistake answers, by the score, from the sizes that follow it.

    A score without a formula is a `KeyError`, by which the kit knows that it cannot be made there.
    """
    return lambda score, *sizes: formulas[score](*sizes)


_PARAMETER_WRONG: _Known = {
    "dot has none: nothing is learned in it.": (
        *(_only(dot=lambda q, k, h, n=n: n * q) for n in (1, 2)),
        _only(dot=lambda q, k, h: q * k),
        _only(dot=lambda q, k, h: 1),
    ),
    "W of general stands between h and h̄: (query_dim, key_dim).": (
        _only(general=lambda q, k, h: h * k),
        _only(general=lambda q, k, h: q + k),
        _only(general=lambda q, k, h: h * (q + k)),
    ),
    "v of concat is missing, hidden_dim numbers.": _only(concat=lambda q, k, h: h * (q + k)),
    "W of concat is missing. It meets [h; h̄].": _only(concat=lambda q, k, h: h),
    "W of concat meets [h; h̄], which has query_dim + key_dim numbers.": _only(
        concat=lambda q, k, h: h * q * k + h
    ),
    "none of these layers has a bias.": _only(
        general=lambda q, k, h: q * k + q,
        concat=lambda q, k, h: h * (q + k) + 2 * h,
    ),
}
_PAIR_BY_PAIR = (
    "W is applied anew for each pair of words. W h̄ depends on the source word alone, and "
    "hᵀ W on the target word alone"
)
_W_ALONE = "these are the products with W alone. The dot product of each pair comes after it"
_COST_WRONG: _Known = {
    "this is one target word. Every one of them scores all source words anew.": _only(
        dot=lambda S, T, q, k, h: S * q,
        general=lambda S, T, q, k, h: q * k + S * k,
        concat=lambda S, T, q, k, h: S * h * (q + k) + S * h,
    ),
    "a dot product of d numbers takes d multiplications.": (
        _only(dot=lambda S, T, q, k, h: S * T),
        _only(dot=lambda S, T, q, k, h: S * T * (2 * q - 1)),
    ),
    "each of the tgt_len words meets each of the src_len words.": _only(
        dot=lambda S, T, q, k, h: (S + T) * q
    ),
    "W meets one of the two, h or h̄, not both.": (
        _only(general=lambda S, T, q, k, h: (S + T) * q * k + S * T * q),
        _only(general=lambda S, T, q, k, h: (S + T) * q * k + S * T * k),
    ),
    f"{_PAIR_BY_PAIR}.": _only(general=lambda S, T, q, k, h: S * T * (q * k + q)),
    f"{_PAIR_BY_PAIR}, so it is computed once for each.": _only(
        general=lambda S, T, q, k, h: S * T * (q * k + k)
    ),
    "here fewer are possible. W may meet each source word once, or each target word once.": _only(
        general=lambda S, T, q, k, h: max(S * q * k + S * T * q, T * q * k + S * T * k)
    ),
    f"{_W_ALONE}.": _only(general=lambda S, T, q, k, h: S * q * k),
    f"{_W_ALONE}, for every pair.": _only(general=lambda S, T, q, k, h: T * q * k),
    "after hᵀ W the vectors have key_dim numbers, after W h̄ they have query_dim.": _only(
        general=lambda S, T, q, k, h: min(S * q * k + S * T * k, T * q * k + S * T * q)
    ),
    "W [h; h̄] is computed anew for each pair of words. It is the sum of two halves, one of h and "
    "one of h̄: each word meets its half once.": (
        _only(concat=lambda S, T, q, k, h: S * T * h * (q + k) + S * T * h),
        _only(concat=lambda S, T, q, k, h: h * (S * k + S * T * q + S * T)),
        _only(concat=lambda S, T, q, k, h: h * (S * T * k + T * q + S * T)),
    ),
    "the product with v is missing, hidden_dim multiplications for each pair.": (
        _only(concat=lambda S, T, q, k, h: h * (T * q + S * k)),
        *(
            _only(concat=lambda S, T, q, k, h, of=of: h * (T * q + S * k + (1, S, T)[of]))
            for of in range(3)
        ),
    ),
    "these are the products with v alone. W comes before them.": _only(
        concat=lambda S, T, q, k, h: S * T * h
    ),
    "there are tgt_len vectors h of query_dim numbers, and src_len vectors h̄ of key_dim.": _only(
        concat=lambda S, T, q, k, h: h * (S * q + T * k + S * T)
    ),
}


@_parts.part("what W buys", "parameters", "multiplications", "each_finds_the_next")
def what_w_buys(
    parameters: object,
    multiplications: object,
    each_finds_the_next: object,
    thorough: bool = False,
) -> None:
    """Check predicted costs, and a design that no dot product could do."""
    # In the third the cheaper order is not that of the shorter side.
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
            what, hint = "the number of parameters", "The package's module has another."
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
            hint = "The package, as it runs, takes another."
            got = call(multiplications, asked)
            expect_value(got, expected, what, asked, _twins("multiplications", _COST_WRONG), hint)
    _check_next(each_finds_the_next)


def _check_next(candidate: object) -> None:
    answer = call(candidate, {})
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise CheckFailed(f"  each_finds_the_next: expected `return X, W`, got {show(answer)}.")
    X = _expect_matrix(answer[0], (3, 2), "X", "Three vectors of two numbers.")
    W = _expect_matrix(answer[1], (2, 2), "W", "It stands between two vectors of two numbers.")
    scored = X @ W @ X.T
    weights = scored.softmax(dim=-1)
    found = weights.argmax(dim=-1).tolist()
    share = weights[[0, 1, 2], [1, 2, 0]]
    if bool((share >= 0.9).all()):
        return
    if found == [1, 2, 0]:
        why = (
            "each vector finds the next, but not with a weight of 0.9: the scores are too close "
            "together. What makes all differences of scores larger?"
        )
    elif found == [2, 0, 1]:
        why = "each vector finds the one before it. The score is x_i W x_j: which way does W turn?"
    elif found == [0, 1, 2]:
        why = "each vector finds itself. Turn it before it is compared."
    elif torch.allclose(W, W.T):
        why = (
            "W is its own transpose, so x_i W x_j = x_j W x_i: i scores j as j scores i. Then not "
            "all three can prefer the next one, whatever the vectors are; with dot it is the same."
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
    """Return a matrix of any numbers, lists too; nothing was given whose kind it could take."""
    if type(value) in (list, tuple, Tensor):
        with suppress(TypeError, ValueError):  # where it is no matrix, the next line says so
            value = torch.as_tensor(value, dtype=torch.float32)
    return expect_tensor(value, shape, what, {}, hint)


# Part 6

EMBEDDING_DIM, KEY_DIM = 5, 7
SYMPTOMS = ("future", "late", "neighbours", "padding", "sum")


class _Patient:
    """A decoder of a whole target, faulty in the named ways, if in any."""

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
                f"decode takes (batch, tgt_len, {EMBEDDING_DIM}), (batch, src_len, {KEY_DIM}) and "
                f"a Bool mask (batch, src_len); it got {', '.join(map(str, shapes))}"
            )
        W_in, W_state, W_a, W_c = self.weights
        states = [embedded.new_zeros(batch, 11)]
        for token in embedded.unbind(dim=1):
            states.append(torch.tanh(token @ W_in + states[-1] @ W_state))
        before, now = torch.stack(states[:-1], dim=1), torch.stack(states[1:], dim=1)
        if "mixes states" in self.faults:
            now = now + now.mean(dim=0)
        following = torch.cat([now[:, 1:], now[:, -1:]], dim=1)
        queries = before if "previous asks" in self.faults else now
        queries = following if "next asks" in self.faults else queries
        if "mean asks" in self.faults:
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


# What a decoder does, its faults, and what an examination finds.
_PATIENTS: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("is right", (), set()),
    ("asks with the state before the token", ("previous asks",), {"late"}),
    ("ignores the mask", ("no mask",), {"padding"}),
    ("asks with the state after the next token", ("next asks",), {"future"}),
    ("gives each weight by itself, with a sigmoid", ("sigmoid",), {"sum"}),
    ("adds the batch's mean to each state", ("mixes states",), {"neighbours"}),
    ("masks after the softmax", ("mask last",), {"padding", "sum"}),
    ("runs its softmax over the target", ("softmax over the target",), {"future", "sum"}),
    ("runs its softmax over the batch", ("softmax over the batch",), {"neighbours", "sum"}),
    (
        "has right weights, but averages all keys into the context, padding too",
        ("padding in the context",),
        {"padding"},
    ),
    (
        "has right weights, but predicts with the state after the next token",
        ("next predicts",),
        {"future"},
    ),
    (
        "has right weights, but takes the batch's mean away from its contexts",
        ("mixes contexts",),
        {"neighbours"},
    ),
    (
        "has right vectors, but returns the weights before the mask",
        ("shows unmasked weights",),
        {"padding"},
    ),
    (
        "has right vectors, but returns the weights of the next step",
        ("shows the next weights",),
        {"future"},
    ),
    (
        "has right vectors, but adds the batch's mean to what asks for the weights that it returns",
        ("shows mixed weights",),
        {"neighbours"},
    ),
    ("doubles the weights of every step but the first", ("doubles later",), {"sum"}),
]
_FURTHER_PATIENTS: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("asks with the mean of all states too", ("mean asks",), {"future"}),
    (
        "asks with the state before the token and ignores the mask",
        ("previous asks", "no mask"),
        {"late", "padding"},
    ),
    (
        "asks with the state before the token and predicts with the one after the next",
        ("previous asks", "next predicts"),
        {"late", "future"},
    ),
    (
        "adds the batch's mean to each state and masks after the softmax",
        ("mixes states", "mask last"),
        {"neighbours", "padding", "sum"},
    ),
    ("is right", (), set()),
]

_MISSED = {
    "future": "Other tokens at the end must leave all that comes before as it is, weights and "
    "vectors.",
    "late": "Another token at a step, those before it left alone, must change the weights of this "
    "very step.",
    "neighbours": "A sentence must get the same alone as beside others, weights and vectors.",
    "padding": "Other keys where the mask is False must leave all as it is: the weights there and "
    "at the words, and the vectors.",
    "sum": "The weights of every step must sum to 1 over the source, to no less and no more, where "
    "there is padding too.",
}
_SEEN_WRONGLY = {
    "future": "What comes before a changed token stays as it is here. Are only the steps before it "
    "compared, and nearly equal numbers taken for equal, as torch.allclose does?",
    "late": "A step's token changes the step's own weights here. Is there more than one word to "
    "look at, is the token much changed, and is its step the one compared? The state before the "
    "first token is given; the token is read after it.",
    "neighbours": "A sentence gets the same alone and beside others here. Are nearly equal numbers "
    "taken for equal, as torch.allclose does? Sums of a larger batch are rounded differently.",
    "padding": "What stands at masked positions has no influence here. Are only keys changed where "
    "the mask is False, and to ordinary numbers? 0 times infinity is no number.",
    "sum": "The weights of a step sum to 1 over the source here, but for rounding: over the last "
    "axis. A sentence without any word has no weights at all.",
}


@_parts.part("examine a decoder", "symptoms")
def examine(candidate: object, thorough: bool = False) -> None:
    """Check an examination on decoders whose faults are known."""
    patients = _PATIENTS + (_FURTHER_PATIENTS if thorough else [])
    for number, (what, faults, expected) in enumerate(patients):
        decode = _Patient(*faults, seed=number)
        answer = call(_examining(candidate, decode), {})
        said = _expect_symptoms(answer)
        wrong = [name for name in SYMPTOMS if (name in said) != (name in expected)]
        if not wrong:
            continue
        first = wrong[0]
        why = (
            f"“{first}” is missed. {_MISSED[first]}"
            if first in expected
            else f"“{first}” is seen where it is not. {_SEEN_WRONGLY[first]}"
        )
        raise CheckFailed(
            f"  {why}\n  The decoder examined {what}.\n"
            f"  got         {show(sorted(said))}\n  expected    {show(sorted(expected))}"
        )


def _examining(candidate: object, decode: _Patient) -> object:
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
            f"  {show(unknown[0])} is no symptom. The names are {', '.join(SYMPTOMS)}."
        )
    return set(answer)
