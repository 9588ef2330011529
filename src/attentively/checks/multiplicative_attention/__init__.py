"""Checks of the assignment on multiplicative attention: scores, decoder, window, examination.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. Those of parts 1 to 4 are also run inside the package's translator. The vectors of part 5 are
tested by the weights that they lead to, and the tests of part 6 on decoders with known faults.
"""

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from attentively.attention.masks import masked_softmax
from attentively.attention.multiplicative import LocalAttention, LuongAttention, Score
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_equal,
    expect_tensor,
    once_solved,
    open_call,
    plain_tensor,
    show,
)
from attentively.checks.compare import as_plain
from attentively.checks.question import Results
from attentively.checks.recordings import Topic
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.models.configs import AttentionKind, Seq2SeqConfig
from attentively.models.interface import DecoderOutput, Memory
from attentively.models.seq2seq import LuongDecoder, RecurrentState, Seq2Seq
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
_topic = Topic(__file__)
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
_TGT = torch.tensor([[START_ID, 4, 7], [START_ID, 10, 5], [START_ID, 8, 4]])


@torch.no_grad()
def _read(model: Seq2Seq, memory: Memory) -> DecoderOutput:
    return model.decode(_TGT, memory, need_weights=True)


@functools.cache
def _right_outputs(attention: AttentionKind) -> tuple[Memory, DecoderOutput]:
    """Return what the package's model encodes and outputs."""
    model = _small_model(attention)
    with torch.no_grad():
        memory = model.encode(_SRC)
    return memory, _read(model, memory)


def _expect_same_model(attention: AttentionKind, changed: Seq2Seq) -> None:
    """Reject a translator whose outputs a student's part has changed."""
    where = {"src": _SRC, "tgt": _TGT}
    memory, expected = _right_outputs(attention)
    got = cast(DecoderOutput, call(lambda *_: _read(changed, memory), where))
    assert expected.weights is not None
    inside = "inside the package's translator"
    expect_equal(got.weights, expected.weights, f"the weights {inside}", where)
    expect_equal(got.logits, expected.logits, f"the logits {inside}", where)


class _Attending(nn.Module):
    """An attention whose weights a student's function computes."""

    def __init__(self, weigh: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weigh = weigh

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the context and the weights."""
        weights = self.weigh(query, keys, mask)
        return torch.einsum("bs,bsd->bd", weights, keys), weights


# Part 1


_SCORES: dict[str, Score] = {
    "dot_scores": "dot",
    "general_scores": "general",
    "concat_scores": "concat",
}


@_parts.part(
    "scores",
    *_SCORES,
    rebuilds=("attentively.attention.multiplicative:LuongAttention.scores",),
    refuses=("attentively.attention.multiplicative:LuongAttention",),
)
def scores(dot: object, general: object, concat: object, thorough: bool = False) -> None:
    """Check three functions that score every key of a sentence against its query."""
    for (name, score), candidate in zip(_SCORES.items(), (dot, general, concat), strict=True):
        _topic.examine(name, candidate, thorough)
        open_call.once(_expect_scores_in_model, score, candidate)


def _matrices(attention: LuongAttention) -> tuple[Tensor, ...]:
    """Return W and v of the package's attention, as the assignment gives them."""
    weights = [parameter.detach() for parameter in attention.parameters()]
    if attention.score == "concat":
        return torch.cat(weights[:2], dim=1), weights[2][0]
    return tuple(weights)


def _expect_scores_in_model(score: Score, candidate: object) -> None:
    changed = _small_model(score)
    matrices = _matrices(cast(LuongAttention, changed.decoder.attention))

    def weigh(query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        return masked_softmax(candidate(query, keys, *matrices), mask)  # type: ignore[operator]

    changed.decoder.attention = _Attending(weigh)
    _expect_same_model(score, changed)


# Part 2


class Adding(nn.Module):
    """A cell for calculation by hand: the new state is the input plus half of the old state."""

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the new state."""
        return inputs + 0.5 * state


LAYERS = {
    "adding": Adding,
    "GRUCell": nn.GRUCell,
    "attention": LuongAttention,
    "Linear": nn.Linear,
}


def layer(kind: str, sizes: tuple[Any, ...], state: Mapping[str, Tensor]) -> nn.Module:
    """Return a layer of a decoder with these parameters."""
    made: nn.Module = LAYERS[kind](*sizes)
    made.load_state_dict(state)
    return made


@_parts.part(
    "attentional vector",
    "decoder_step",
    rebuilds=("attentively.models.seq2seq:LuongDecoder",),
    step=True,
)
def attentional(candidate: object, thorough: bool = False) -> None:
    """Check one step of Luong's decoder, also inside the package's translator."""
    _topic.examine("decoder_step", candidate, thorough)
    open_call.once(_expect_step_in_model, candidate)


def _expect_step_in_model(candidate: object) -> None:
    changed = _small_model("general")
    changed.decoder = _StudentsDecoder(cast(LuongDecoder, changed.decoder), candidate)
    _expect_same_model("general", changed)


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


@_parts.part("input feeding", "decode_fed")
def input_feeding(candidate: object, thorough: bool = False) -> None:
    """Check a decoder of stacked cells with input feeding."""
    _topic.examine("decode_fed", candidate, thorough)
    open_call.once(_expect_fed_in_model, candidate)


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
        layers = ([decoder.cell], decoder.attention, combine)
        vectors, _ = cast(
            tuple[Tensor, Tensor],
            call(lambda *_: candidate(*inputs, *layers), where),  # type: ignore[operator]
        )
        what = "the logits of the package's translator"
        expect_equal(decoder.output(vectors), expected, what, where)


# Part 4


@_parts.part(
    "local-p",
    "predicted_position",
    "local_weights",
    rebuilds=("attentively.attention.multiplicative:LocalAttention",),
)
def local(predicted_position: object, local_weights: object, thorough: bool = False) -> None:
    """Check the centre and the weights of local-p, also inside the package's translator."""
    _topic.examine("predicted_position", predicted_position, thorough)
    _topic.examine("local_weights", local_weights, thorough, properties={"": _expect_nothing})
    open_call.once(_expect_window_in_model, predicted_position, local_weights)


def _expect_window_in_model(predicted_position: object, local_weights: object) -> None:
    changed = _small_model("local-p")
    theirs = cast(LocalAttention, changed.decoder.attention)
    W_p, v_p = theirs.position_projection.weight.detach(), theirs.position_energy.weight[0].detach()

    def weigh(query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        found = theirs.content.scores(query, theirs.project_keys(keys))
        position = predicted_position(query, mask.sum(dim=1), W_p, v_p)  # type: ignore[operator]
        return local_weights(found, position, mask, theirs.window)  # type: ignore[operator]

    changed.decoder.attention = _Attending(weigh)
    _expect_same_model("local-p", changed)


def _expect_nothing(results: Results, inputs: Inputs) -> None:
    """Reject weights in a sentence without words."""
    ((what, weights),) = results.items()
    weights = plain_tensor(weights, what, inputs)
    if weights.shape != inputs["scores"].shape:
        return
    row = weights[-1]
    if not inputs["mask"][-1].any() and (row.isnan().any() or row.count_nonzero()):
        raise CheckFailed(
            "  local_weights: the last sentence has no words (its mask is all False), so its "
            f"weights must be 0.\n{describe(inputs)}\n  got         {show(row)}"
        )


# Part 5


@_parts.part("matrix of general", "parameters", "multiplications", "each_finds_the_next")
def what_w_buys(
    parameters: object,
    multiplications: object,
    each_finds_the_next: object,
    thorough: bool = False,
) -> None:
    """Check predicted costs, and vectors with a matrix that no dot product can replace."""
    _topic.examine("parameters", parameters, thorough)
    _topic.examine("multiplications", multiplications, thorough)
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
    if weights.isnan().any():
        why = "the scores are too large for 32-bit floats, so the weights are NaN."
    elif found == [1, 2, 0]:
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
    """Return a matrix of 32-bit floats; lists, arrays and integers are accepted."""
    if type(value) in (list, tuple, Tensor, np.ndarray):
        with suppress(TypeError, ValueError):  # where it is no matrix, the next line says so
            value = torch.as_tensor(as_plain(value, [[]]), dtype=torch.float32)
    return expect_tensor(value, shape, what, {}, hint)


# Part 6

EMBEDDING_DIM, KEY_DIM = 5, 7
SYMPTOMS = ("future", "late", "neighbours", "padding", "sum")


class _TestedDecoder:
    """A decoder of a whole target, with the named faults, if any."""

    def __init__(self, faults: str = "", seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        sizes = ((EMBEDDING_DIM, 11), (11, 11), (11, KEY_DIM), (KEY_DIM + 11, 6))
        self.weights = [torch.randn(*size, generator=generator) / 2 for size in sizes]
        self.faults = faults.split(", ")

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
        faults, (W_in, W_state, W_a, W_c) = self.faults, self.weights
        whole = mask.all(dim=1)[:, None, None]
        only = {"only with padding": ~whole, "only without padding": whole}
        some = next((each for name, each in only.items() if name in faults), None)
        if "long mask" in faults:
            mask = mask | mask.roll(1, dims=1) & mask[:, :1]
        states = [embedded.new_zeros(batch, 11)]
        for token in (embedded @ W_in).unbind(dim=1):
            states.append(torch.tanh(token + states[-1] @ W_state))
        now = torch.stack(states[1:], dim=1)
        if "mixed states" in faults:
            now = now + now.mean(dim=0)
        if "slightly mixed states" in faults:
            now = now + 0.01 * now.mean(dim=0)
        if "first state of another" in faults:
            now = torch.cat([now[:1], now[1:] + now[:-1, :1]])
        following = torch.cat([now[:, 1:], now[:, -1:]], dim=1)
        queries = torch.stack(states[:-1], dim=1) if "previous query" in faults else now
        queries = following if "next query" in faults else queries
        if "next query later" in faults:
            queries = torch.cat([now[:, :1], following[:, 1:]], dim=1)
        if "mean query" in faults:
            queries = queries + 2 * now.mean(dim=1, keepdim=True)
        if "next token alone" in faults:
            later = torch.tanh(embedded[:, 1:] @ W_in)
            queries = torch.cat([later, torch.zeros_like(now[:, :1])], dim=1)
        if some is not None:
            queries = torch.where(some, queries, now)

        def weigh(queries: Tensor) -> Tensor:
            return self._weigh(queries @ W_a @ keys.mT, mask.unsqueeze(1))

        weights = weigh(queries)
        if "doubled later" in faults:
            weights = weights * (1 + (torch.arange(weights.size(1)) > 0)).unsqueeze(1)
        if "doubled first" in faults:
            weights = weights * (1 + (torch.arange(weights.size(1)) == 0)).unsqueeze(1)
        if "doubled without padding" in faults:
            weights = torch.where(whole, 2 * weights, weights)
        if "slightly smaller" in faults:
            weights = 0.98 * weights
        contexts = weights @ keys
        if "padding in the context" in faults:
            contexts = contexts + keys.mean(dim=1, keepdim=True)
        if "mixed contexts" in faults:
            contexts = contexts - contexts.mean(dim=0)
        if "mixed keys" in faults:
            contexts = contexts + keys[mask].mean(dim=0)
        if "unmasked shown" in faults:
            weights = (queries @ W_a @ keys.mT).softmax(dim=-1)
        if "next shown" in faults:
            weights = weigh(following)
        if "mixed shown" in faults:
            weights = weigh(queries + queries.mean(dim=0))
        beside = following if "next predicts" in faults else now
        return torch.tanh(torch.cat([contexts, beside], dim=-1) @ W_c), weights

    def _weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        mask = mask.expand_as(scores)
        if "no mask" in self.faults:
            return scores.softmax(dim=-1)
        if "mask last" in self.faults:
            return scores.softmax(dim=-1) * mask
        if "softmax over all steps" in self.faults:
            weights = masked_softmax(scores.flatten(1), mask.flatten(1))
            return scores.size(1) * weights.view_as(scores)
        axis = 0 if "softmax over the batch" in self.faults else 2
        return masked_softmax(scores.transpose(axis, 2), mask.transpose(axis, 2)).transpose(axis, 2)


# What a decoder does, its faults, and its symptoms
_DECODERS = [
    ("is correct", "", set()),
    ("uses the state before the token as the query", "previous query", {"late"}),
    ("applies the mask after the softmax", "mask last", {"padding", "sum"}),
    ("computes its softmax over the batch", "softmax over the batch", {"neighbours", "sum"}),
    (
        "returns correct weights, but adds the mean of all keys, padding included, to its context "
        "vectors",
        "padding in the context",
        {"padding"},
    ),
    (
        "returns correct weights, but predicts with the state after the next token",
        "next predicts",
        {"future"},
    ),
    (
        "returns correct weights, but subtracts the mean over the batch from its context vectors",
        "mixed contexts",
        {"neighbours"},
    ),
    ("returns correct vectors, but weights that ignore the mask", "unmasked shown", {"padding"}),
    ("returns correct vectors, but the weights of the next step", "next shown", {"future"}),
    (
        "returns correct vectors, but weights of a query to which the mean over the batch is added",
        "mixed shown",
        {"neighbours"},
    ),
    ("doubles the weights of every step except the first", "doubled later", {"sum"}),
    ("doubles the weights of the first step", "doubled first", {"sum"}),
    ("attends to the first key after the words too", "long mask", {"padding"}),
    (
        "uses the state after the next token as the query, except at the first step",
        "next query later",
        {"future"},
    ),
    ("reduces every weight by 2 %", "slightly smaller", {"sum"}),
    (
        "adds 1 % of the mean over the batch to each state",
        "slightly mixed states",
        {"neighbours"},
    ),
    (
        "adds the mean of the words of all sentences to each context vector",
        "mixed keys",
        {"neighbours"},
    ),
    (
        "computes one softmax over all source positions of all steps, times the number of steps",
        "softmax over all steps",
        {"future", "sum"},
    ),
    ("computes the query from the next token alone", "next token alone", {"late", "future"}),
    (
        "adds the first state of a sentence to all states of the next sentence in the batch",
        "first state of another",
        {"neighbours"},
    ),
    (
        "uses the state after the next token as the query, but only in sentences with padding",
        "next query, only with padding",
        {"future"},
    ),
    (
        "uses the state after the next token as the query, but only in sentences without padding",
        "next query, only without padding",
        {"future"},
    ),
    (
        "doubles the weights, but only in sentences without padding",
        "doubled without padding",
        {"sum"},
    ),
]
_FURTHER_DECODERS = [
    ("adds the mean of all states to the query", "mean query", {"future"}),
    (
        "uses the state before the token as the query and ignores the mask",
        "previous query, no mask",
        {"late", "padding"},
    ),
    (
        "adds the mean over the batch to each state and applies the mask after the softmax",
        "mixed states, mask last",
        {"neighbours", "padding", "sum"},
    ),
    ("is correct", "", set()),
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
    for number, (what, faults, expected) in open_call.new("decoders", enumerate(decoders)):
        decode = _TestedDecoder(faults, seed=number)
        answer = call(_examining(candidate, decode), {})
        said = _expect_symptoms(answer)
        wrong = [name for name in SYMPTOMS if (name in said) != (name in expected)]
        if not wrong:
            continue
        first = wrong[0]
        why = (
            f"“{first}” is missing from your result. {_MISSED[first]} Examine every sentence of a "
            "batch, with padding and without."
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
