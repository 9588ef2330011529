"""Checks of the assignment on encoder and decoder: targets, loss, free running, exposure bias.

Parts 1 to 3 rebuild functions of the package and are compared with the package, in the last stage
with a trained model. Parts 4 to 6 are original problems, and this module contains no solution to
them: in part 4 the expected losses are constructed, in part 5 the expected values are measured,
and in part 6 the check records what a model reads and which gradients its optimizer receives.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy as averaged

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients,
    expect_pair,
    expect_value,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.checks.recording_model import (
    RecordingModel,
    RecordingOptimizer,
    examine_reading,
    examine_update,
    refused,
)
from attentively.data import toy
from attentively.data.batches import Batch, collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.generation.generate import translate
from attentively.generation.search import greedy_search
from attentively.models.checkpoints import load_pretrained
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.models.seq2seq import Seq2Seq, Seq2SeqConfig
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID
from attentively.training import objectives
from attentively.training.losses import cross_entropy

__all__ = [
    "bug_hunt",
    "exposure",
    "free_running",
    "loss",
    "once_solved",
    "own_words",
    "predictions",
    "progress",
    "ready",
    "sentences",
    "targets",
    "tokens",
    "translator",
    "untrained",
]

MODEL = "toy-fixed"
"""The trained model: an encoder, one fixed context vector, a decoder."""

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Translate one sentence, to show that the package, its trained model and the checks work."""
    _parts.explain_undefined_names()
    sentence = "the cat drinks the milk"
    text = translate(load_pretrained(MODEL), [sentence], beam_size=1)[0].text
    print(f"PyTorch {torch.__version__}. The trained model translates “{sentence}”")
    print(f"to “{text}”. The set-up is complete.")
    print(f"Ids of the special tokens: <pad> {PAD_ID}, <start> {START_ID}, <end> {END_ID}.")


# The trained model and its sentences


def translator() -> Seq2Seq:
    """Return the trained model in evaluation mode."""
    return cast(Seq2Seq, load_pretrained(MODEL).model.eval())


def sentences(number: int, clauses: int, split: str = "validation") -> tuple[Tensor, Tensor]:
    """Return sources and targets of this number of clauses that the model was not trained on."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    pairs = toy.load(split, number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    batch = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer))
    return batch.src, batch.tgt


def tokens(ids: Iterable[int], side: str = "tgt") -> list[str]:
    """Return the tokens of the ids, special tokens included."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    return list((tgt_tokenizer if side == "tgt" else src_tokenizer).tokens(ids))


def own_words(src: Tensor, max_len: int = 60) -> list[list[int]]:
    """Return the trained model's greedy outputs, without the ids of <start> and <end>."""
    model = translator()
    with torch.no_grad():
        found = greedy_search(model, src, max_len)
    return [hypothesis.ids for hypothesis in found]


def untrained(seed: int = 0) -> Seq2Seq:
    """Return a small untrained model with the vocabularies of the trained one."""
    config = translator().config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Seq2Seq(replace(config, embedding_dim=32, encoder_dim=32, decoder_dim=64))


def _small_model(seed: int = 1, dropout: float = 0.0) -> Seq2Seq:
    """Return an untrained model with 13 tokens on each side, whose logits differ clearly."""
    config = Seq2SeqConfig(13, 13, 5, 3, 7, attention="fixed", dropout=dropout)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Seq2Seq(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0)
    return model


def _with_model(candidate: object, model: object) -> object:
    """Return a function that calls the candidate with the model before its other inputs."""
    if not callable(candidate):
        return candidate

    def with_model(*inputs: object) -> object:
        return candidate(model, *inputs)

    with_model.__name__ = getattr(candidate, "__name__", "")
    return with_model


def _batch(src_lengths: Sequence[int], tgt_lengths: Sequence[int], seed: int = 0) -> Batch:
    """Return random sentences with these numbers of words, with special tokens, of 13 tokens."""
    generator = torch.Generator().manual_seed(seed)

    def row(length: int) -> list[int]:
        return torch.randint(4, 13, (length,), generator=generator).tolist()

    src = [[*row(length), END_ID] for length in src_lengths]
    tgt = [[START_ID, *row(length), END_ID] for length in tgt_lengths]
    return Batch(_stacked(src), _stacked(tgt))


def _stacked(rows: Sequence[Sequence[int]], pad_id: int = PAD_ID) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows])


# Part 1

_ID_NAMES = "Use the arguments start_id, end_id and pad_id: other vocabularies have other ids."


def _rows(
    sentences: Sequence[Sequence[int]], start: Sequence[int], end: Sequence[int], pad: int
) -> list[list[int]]:
    return _stacked([[*start, *ids, *end] for ids in sentences], pad).tolist()


def _padded_in_front(s: Sequence[Sequence[int]], start: int, end: int, pad: int) -> object:
    rows = _rows(s, [start], [end], pad)
    return [[i for i in row if i == pad] + [i for i in row if i != pad] for row in rows]


_TARGET_TWINS = (
    Twin(
        "The end token is missing. Without it the decoder would not learn to end its output.",
        lambda s, start, end, pad: _rows(s, [start], [], pad),
    ),
    Twin(
        "The start token is missing. Without it there is no input for the first word.",
        lambda s, start, end, pad: _rows(s, [], [end], pad),
    ),
    Twin(
        "Start token and end token are missing: the rows contain only words and padding.",
        lambda s, start, end, pad: _rows(s, [], [], pad),
    ),
    Twin(
        "The end token is after the padding. It must follow the last word directly.",
        lambda s, start, end, pad: [[start, *row, end] for row in _rows(s, [], [], pad)],
    ),
    Twin(
        "The padding is on the left of the sentence. It must be on the right.",
        _padded_in_front,
    ),
    Twin(
        "Rows are padded with the end token. Pad them with pad_id, which the loss leaves out.",
        lambda s, start, end, pad: _rows(s, [start], [end], end),
    ),
    Twin(
        "Sentences are cut to the length of the shortest one. Pad all rows to the longest one.",
        lambda s, start, end, pad: [[start, *ids[: min(map(len, s))], end] for ids in s],
    ),
    Twin(
        "Start token and end token are exchanged.",
        lambda s, start, end, pad: _rows(s, [end], [start], pad),
    ),
    Twin(
        f"These are the ids of the package's vocabulary. {_ID_NAMES}",
        lambda s, start, end, pad: _rows(s, [START_ID], [END_ID], PAD_ID),
    ),
    Twin(
        f"Rows are padded with 0. {_ID_NAMES}",
        lambda s, start, end, pad: _rows(s, [start], [end], 0),
    ),
)

_SHIFTS: list[tuple[str, Callable[[Tensor], tuple[Tensor, Tensor]]]] = [
    (
        "inputs and labels are exchanged, so that the target is shifted left: each input is the "
        "token that has to be predicted.",
        lambda tgt: (tgt[:, 1:], tgt[:, :-1]),
    ),
    (
        "the labels equal the inputs, so the decoder would learn to copy its input. The label is "
        "the token one position later.",
        lambda tgt: (tgt[:, :-1], tgt[:, :-1]),
    ),
    (
        "the target is not shifted: the start token is a label, and each label is its own input.",
        lambda tgt: (tgt, tgt),
    ),
    (
        "the inputs have one column too many. Nothing has to be predicted after the end token of "
        "the longest sentence, so this end token is not an input.",
        lambda tgt: (tgt, tgt[:, 1:]),
    ),
    (
        "the start token is a label. It is never predicted, so the labels begin with the first "
        "word and are one column shorter than the targets.",
        lambda tgt: (tgt[:, :-1], tgt),
    ),
    (
        "the inputs equal the labels, which the decoder has to predict. The inputs begin with the "
        "start token.",
        lambda tgt: (tgt[:, 1:], tgt[:, 1:]),
    ),
    (
        "the labels lack the last column, and with it the end token of the longest sentence. The "
        "decoder must learn to predict it.",
        lambda tgt: (tgt[:, :-1], tgt[:, 1:-1]),
    ),
    (
        "torch.roll moves the tokens that leave on one side to the other side. Remove a column "
        "instead.",
        lambda tgt: (tgt, tgt.roll(-1, dims=1)),
    ),
    (
        "torch.roll moves the tokens that leave on one side to the other side. Remove a column "
        "instead.",
        lambda tgt: (tgt.roll(1, dims=1), tgt),
    ),
    (
        "a second start token is added. tgt begins with one already: the inputs are tgt without "
        "its last column, and the labels are tgt without its first column.",
        lambda tgt: (torch.cat([tgt[:, :1], tgt[:, :-1]], dim=1), tgt),
    ),
    (
        "a sentence is removed instead of a column. The first axis is the batch, so use tgt[:, "
        "1:].",
        lambda tgt: (tgt[:-1], tgt[1:]),
    ),
    (
        "the columns are shifted by two positions, not by one.",
        lambda tgt: (tgt[:, :-2], tgt[:, 2:]),
    ),
]


def _expect_ids(answer: object, what: str, inputs: Mapping[str, object]) -> list[object]:
    """Return rows of ids as a list, if they are given as a tensor of integers."""
    if type(answer) is not Tensor:
        kind = type(answer).__name__
        said = f"a {kind}" if answer is not None else "None: is there a `return`?"
        raise CheckFailed(f"  Expected {what} as a torch.Tensor, got {said}\n{describe(inputs)}")
    if answer.is_floating_point() or answer.dtype == torch.bool:
        raise CheckFailed(
            f"  {what.capitalize()} have the type {answer.dtype}. Ids are integers: torch.tensor "
            f"of "
            f"lists of ints gives torch.int64.\n{describe(inputs)}"
        )
    return cast(list[object], answer.tolist())


@_parts.part(
    "targets, shifted right",
    "make_targets",
    "shift_right",
    rebuilds=(
        "attentively.tokens.vocabulary:target_ids",
        "attentively.data.batches:pad",
    ),
)
def targets(make_targets: object, shift_right: object, thorough: bool = False) -> None:
    """Check the targets of a batch, and the inputs and labels that are made from them."""
    cases: list[tuple[list[list[int]], int, int, int]] = [
        ([[5, 6]], START_ID, END_ID, PAD_ID),
        ([[5, 6, 7], [8]], START_ID, END_ID, PAD_ID),
        ([[5], [6, 7, 8], []], 1, 2, 9),
    ]
    if thorough:
        cases += [([[3] * n for n in (2, 11, 7, 1, 5)], 0, 2, 1), ([[]], 7, 5, 3)]
    for case in cases:
        inputs = dict(zip(("sentences", "start_id", "end_id", "pad_id"), case, strict=True))
        what = "the targets"
        got = _expect_ids(call_twice(make_targets, inputs), what, inputs)
        s, start, end, pad = case
        twins = [Twin(f"make_targets: {said}", wrong) for said, wrong in _TARGET_TWINS]
        expect_value(got, _rows(s, [start], [end], pad), what, inputs, twins)
    batches = [
        torch.tensor([[START_ID, 5, 6, END_ID]]),
        torch.tensor([[START_ID, 5, 6, 7, END_ID], [START_ID, 8, END_ID, PAD_ID, PAD_ID]]),
    ]
    if thorough:
        batches += [_batch((1,), lengths).tgt for lengths in [(7, 3, 2, 11, 5), (1,), (0, 3)]]
    for tgt in batches:
        _expect_shift(shift_right, tgt)


def _expect_shift(candidate: object, tgt: Tensor) -> None:
    asked = {"tgt": tgt}
    answer = expect_pair(call_twice(candidate, asked), ("inputs", "labels"), asked)
    names = ("the inputs", "the labels")
    got = [_expect_ids(part, what, asked) for part, what in zip(answer, names, strict=True)]
    expected = [tgt[:, :-1].tolist(), tgt[:, 1:].tolist()]
    if _unread_blanked(got, tgt) == _unread_blanked(expected, tgt):
        return
    diagnosis = "the inputs or the labels differ from the expected ones."
    for said, wrong in _SHIFTS:
        if got == [part.tolist() for part in wrong(tgt)]:
            diagnosis = said
            break
    raise CheckFailed(
        f"  shift_right: {diagnosis}\n{describe(asked)}"
        f"\n  got         inputs {show(got[0])}, labels {show(got[1])}"
        f"\n  expected    inputs {show(expected[0])}, labels {show(expected[1])}"
    )


def _unread_blanked(pair: Sequence[Any], tgt: Tensor) -> object:
    """Return inputs and labels, without the inputs at positions where the label is padding."""
    inputs, labels = pair
    if torch.tensor(inputs).shape != tgt[:, 1:].shape:
        return pair
    real = (tgt[:, 1:] != PAD_ID).tolist()
    rows = zip(inputs, real, strict=True)
    return [[i if r else None for i, r in zip(*row, strict=True)] for row in rows], labels


# Part 2


class _Asked(NamedTuple):
    """Inputs, labels and logits of a batch, from which the known mistakes compute their loss."""

    inputs: Tensor
    labels: Tensor
    logits: Tensor


def _asked(model: Any, src: Tensor, tgt: Tensor) -> _Asked:
    inputs, labels = tgt[:, :-1], tgt[:, 1:]
    return _Asked(inputs, labels, _logits(model, src, inputs))


def _logits(model: Any, src: Tensor, inputs: Tensor, look_at_all: bool = False) -> Tensor:
    src_mask = torch.ones_like(model.source_mask(src)) if look_at_all else None
    return cast(Tensor, model.decode(inputs, model.encode(src, src_mask)).logits)


def _surprises(logits: Tensor, labels: Tensor) -> Tensor:
    log_probabilities = logits.log_softmax(dim=-1)
    return -log_probabilities.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


_PADDING_COUNTED = (
    "Padding is included in the loss. Leave out the positions where the label is padding."
)


def _loss_twins(model: Any) -> list[Twin]:
    def of(src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
        _, labels, logits = _asked(model, src, tgt)
        return _surprises(logits, labels), labels != PAD_ID

    def sentence_means(src: Tensor, tgt: Tensor) -> Tensor:
        surprises, real = of(src, tgt)
        return ((surprises * real).sum(dim=1) / real.sum(dim=1)).mean()

    def below_too(src: Tensor, tgt: Tensor) -> Tensor:
        surprises, real = of(src, tgt)
        return (surprises * real).sum() / real.numel()

    def summed(src: Tensor, tgt: Tensor) -> Tensor:
        surprises, real = of(src, tgt)
        return surprises[real].sum()

    def against(read: slice, said: slice) -> Callable[[Tensor, Tensor], Tensor]:
        def answer(src: Tensor, tgt: Tensor) -> Tensor:
            inputs, labels = tgt[:, read], tgt[:, said]
            return cross_entropy(_logits(model, src, inputs), labels, PAD_ID)

        return answer

    all_but_last, all_but_first, every = slice(None, -1), slice(1, None), slice(None)

    def without_end(src: Tensor, tgt: Tensor) -> Tensor:
        _, labels, logits = _asked(model, src, tgt)
        return _surprises(logits, labels)[(labels != PAD_ID) & (labels != END_ID)].mean()

    def twice_softmaxed(src: Tensor, tgt: Tensor) -> Tensor:
        _, labels, logits = _asked(model, src, tgt)
        return cross_entropy(logits.softmax(dim=-1), labels, PAD_ID)

    def reshaped(src: Tensor, tgt: Tensor) -> Tensor:
        _, labels, logits = _asked(model, src, tgt)
        batch, length, vocab = logits.shape
        return averaged(logits.reshape(batch, vocab, length), labels, ignore_index=PAD_ID)

    def shifted_twice(src: Tensor, tgt: Tensor) -> Tensor:
        return cross_entropy(_logits(model, src, tgt)[:, 1:], tgt[:, 1:], PAD_ID)

    def own_words_read(src: Tensor, tgt: Tensor) -> Tensor:
        state, token, said = model.start(model.encode(src)), tgt[:, 0], []
        for _ in range(tgt.size(1) - 1):
            logits, state = model.step(token, state)
            token = logits.argmax(dim=-1)
            said.append(logits)
        return cross_entropy(torch.stack(said, dim=1), tgt[:, 1:], PAD_ID)

    def padding_read(src: Tensor, tgt: Tensor) -> Tensor:
        inputs, labels = tgt[:, :-1], tgt[:, 1:]
        return cross_entropy(_logits(model, src, inputs, look_at_all=True), labels, PAD_ID)

    return [
        *known(
            "The logits are compared with the inputs instead of the labels. This loss is small for "
            "a decoder that copies its input.",
            against(all_but_last, all_but_last),
        ),
        *known(
            "Inputs and labels are the same columns: <start> is a label, and every label is its "
            "own input. Shift them by one position.",
            against(every, every),
        ),
        *known(
            "The inputs are the labels: at each step the decoder reads the token that it has to "
            "predict, and would learn to copy it.",
            against(all_but_first, all_but_first),
        ),
        *known(
            "Inputs and labels are exchanged.",
            against(all_but_first, all_but_last),
        ),
        Twin(_PADDING_COUNTED, lambda s, t: of(s, t)[0].mean()),
        Twin(
            "Padding is left out of the sum, but the sum is divided by the number of all "
            "positions, "
            "padding included. Divide it by the number of labels without padding.",
            below_too,
        ),
        Twin(
            "The sum is divided by the number of entries of tgt, with <start> and padding. Divide "
            "it by the number of labels without padding.",
            lambda s, t: summed(s, t) / t.numel(),
        ),
        Twin(
            "This is the mean of the means of the sentences, in which a label of a short sentence "
            "has a larger weight. Sum over the whole batch, then divide once.",
            sentence_means,
        ),
        *known(
            "This is a sum, or a sum divided by the number of sentences. Divide it by the number "
            "of labels without padding.",
            summed,
            lambda s, t: summed(s, t) / len(s),
        ),
        Twin(
            "The label <end> is left out. Without it the decoder would not learn to end its "
            "output.",
            without_end,
        ),
        Twin(
            "With this mask the encoder reads padding of the source like words. model.encode(src) "
            "uses the correct mask.",
            padding_read,
        ),
        Twin(
            "The softmax is applied twice: cross_entropy expects logits, not probabilities.",
            twice_softmaxed,
        ),
        Twin(
            "reshape mixes the logits of different positions, because it does not exchange axes. "
            "logits.transpose(1, 2) has the shape (batch, vocab, length).",
            reshaped,
        ),
        Twin(
            "The logits are shifted a second time. The logits at a position already belong to the "
            "next token: the first ones predict the first word.",
            shifted_twice,
        ),
        Twin(
            "The decoder reads its own outputs. With teacher forcing it reads the reference "
            "tokens, "
            "in one call of decode.",
            own_words_read,
        ),
        Twin(
            "This is minus the mean of the probabilities. The loss is the mean of -log p.",
            lambda s, t: -(-of(s, t)[0][of(s, t)[1]]).exp().mean(),
        ),
        Twin(
            "This is the perplexity, which is e to the power of the loss.",
            lambda s, t: of(s, t)[0][of(s, t)[1]].mean().exp(),
        ),
        Twin(
            "The sign is wrong: log p is negative, and the loss is minus its mean.",
            lambda s, t: -of(s, t)[0][of(s, t)[1]].mean(),
        ),
        Twin(
            "The loss is in bits (log2). Compute it in nats, with the natural logarithm.",
            lambda s, t: of(s, t)[0][of(s, t)[1]].mean() / math.log(2),
        ),
    ]


@_parts.part(
    "loss with teacher forcing",
    "teacher_forced_loss",
    rebuilds=("attentively.training.objectives:teacher_forced_loss",),
    refuses=("attentively.training.losses:cross_entropy",),
)
def loss(candidate: object, thorough: bool = False) -> None:
    """Check the mean negative log-likelihood of the labels, with small and trained models."""
    small = _small_model()
    stages: list[tuple[Seq2Seq, Tensor, Tensor]] = [
        (small, *_batch((2,), (2,))),
        (small, *_batch((3, 3), (4, 1))),
        (small, *_batch((5, 2), (3, 3))),
        (small, *_batch((2, 7, 3), (5, 2, 1))),
    ]
    if thorough:
        stages += [(_small_model(2), *_batch((11, 1, 3, 5), (3, 7, 2, 5), seed=3))]
        stages += [(_small_model(3), *_batch((1,), (13,), seed=4))]
    stages.append((translator(), *sentences(11 if thorough else 3, 2)))
    for model, src, tgt in stages:
        _expect_loss(candidate, model, src, tgt)
    model = _small_model()
    src, tgt = _batch((2, 3), (3, 2))
    answer = call(_with_model(candidate, model), {"src": src, "tgt": tgt})
    sources = {
        "the decoder's parameters": model.decoder.output.weight,
        "the encoder's parameters": cast(Tensor, model.encoder.gru.weight_ih_l0),
    }
    expect_gradients(cast(Tensor, answer), sources)


def _expect_loss(candidate: object, model: Seq2Seq, src: Tensor, tgt: Tensor) -> None:
    inputs = {"src": src, "tgt": tgt}
    answer = call_twice(_with_model(candidate, model), inputs)
    if isinstance(answer, float):
        raise CheckFailed(
            "  The loss is a plain number, which has no gradient. Return the tensor, without "
            ".item() or float()."
        )
    if isinstance(answer, DecoderOutput) or answer is None:
        said = "None: is there a `return`?" if answer is None else "the output of decode."
        raise CheckFailed(f"  Expected the loss, a tensor without axes, but got {said}")
    with torch.no_grad():
        expected = objectives.teacher_forced_loss(model, Batch(src, tgt))
        hint = "Expected one number: the mean over all labels of the batch, without padding."
        expect_equal(answer, expected, "the loss", inputs, _loss_twins(model), hint)


# Part 3

_JUNK, _LOST = 9, 10
"""Outputs of a scripted model after its <end>, and after inputs that are not its own outputs."""


@dataclass(frozen=True)
class _Script:
    """The state of a scripted model."""

    which: list[int]
    read: list[list[int]]

    def select(self, rows: Tensor) -> Self:
        """Return the state of the chosen rows."""
        chosen = rows.tolist()
        which, read = [self.which[row] for row in chosen], [self.read[row] for row in chosen]
        return replace(self, which=which, read=read)


class ScriptedModel(EncoderDecoder[_Script]):
    """A model that outputs given texts: the first text for a source that begins with 11.

    It does so only if its inputs are <start> and then its own outputs. After <end> it outputs 9.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.texts = texts
        self.calls = 0

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> _Script:
        """Return the state before the first input."""
        which = [int(row) - 11 for row in memory.outputs[:, 0, 0]]
        return _Script(which, [[] for _ in which])

    def step(self, token: Tensor, state: _Script) -> tuple[Tensor, _Script]:
        """Read one token."""
        if token.shape != (len(state.which),):
            raise ValueError(
                f"token has the shape {tuple(token.shape)}; expected one token per sentence, "
                f"{(len(state.which),)}"
            )
        self.calls += 1
        return self._read(token, state)

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Read a whole target."""
        self.calls += 1
        state, columns = self.start(memory), []
        for token in tgt.unbind(dim=1):
            logits, state = self._read(token, state)
            columns.append(logits)
        return DecoderOutput(torch.stack(columns, dim=1))

    def _read(self, token: Tensor, state: _Script) -> tuple[Tensor, _Script]:
        read = [[*row, index] for row, index in zip(state.read, token.tolist(), strict=True)]
        logits = torch.zeros(len(read), 13)
        for row, which in enumerate(state.which):
            logits[row, self._next(which, read[row])] = 1.0
        return logits, replace(state, read=read)

    def _next(self, which: int, read: list[int]) -> int:
        whole = [START_ID, *self.texts[which], END_ID]
        said = len(read)
        if said >= len(whole) and read[: len(whole)] == whole:
            return _JUNK
        if read == whole[:said]:
            return whole[said]
        return _LOST + (read[-1] == START_ID)


def _free_run(
    model: Any, src: Tensor, max_len: int, *faults: str, look_at_all: bool = False
) -> list[list[int]]:
    """Return greedy outputs with the faults that are named."""
    src_mask = torch.ones_like(model.source_mask(src)) if look_at_all else None
    state = model.start(model.encode(src, src_mask))
    token = torch.full((len(src),), START_ID)
    texts: list[list[int]] = [[START_ID] if "start kept" in faults else [] for _ in src]
    ended = [False] * len(src)
    for _ in range(max_len + ("one more" in faults) - ("one fewer" in faults)):
        logits, after = model.step(token, state)
        state = state if "no state" in faults else after
        choice = logits.argmin(dim=-1) if "argmin" in faults else logits.argmax(dim=-1)
        token = torch.full_like(choice, START_ID) if "start again" in faults else choice
        for row, index in enumerate(choice.tolist()):
            if index == END_ID and "never" not in faults:
                if not ended[row] and "end kept" in faults:
                    texts[row].append(index)
                ended[row] = True
            elif not (ended[row] and "on" not in faults) and not (
                index == END_ID and "drop" in faults
            ):
                texts[row].append(index)
        if all(ended) or ("any" in faults and any(ended)):
            break
    if "padded" in faults:
        longest = max(map(len, texts))
        texts = [[*text, *[PAD_ID] * (longest - len(text))] for text in texts]
    return texts


_FREE_FAULTS: list[tuple[str, str]] = [
    (
        "<start> is included in the output. It is the first input, and not an output.",
        "start kept",
    ),
    ("<end> is included in the output. Return the words only.", "end kept"),
    (
        "<start> and <end> are included in the output. Return the words only.",
        "start kept, end kept",
    ),
    (
        "The output does not end at <end>: tokens are added until max_len. Ignore all tokens after "
        "the first <end> of a sentence.",
        "never",
    ),
    (
        "The output does not end at <end>: <end> is left out, but the tokens after it are "
        "included.",
        "never, drop",
    ),
    (
        "The whole batch stops at the first <end>. The other sentences have not ended yet.",
        "any",
    ),
    (
        "The whole batch stops at the first <end>, and <end> is included in the output.",
        "any, end kept",
    ),
    (
        "A sentence that has ended receives further tokens while the others continue. Ignore all "
        "tokens after the first <end> of a sentence.",
        "on",
    ),
    (
        "A sentence that has ended receives further tokens while the others continue, and its "
        "<end> is included.",
        "on, end kept",
    ),
    (
        "The outputs are padded to one length. Return lists without padding.",
        "padded",
    ),
    (
        "The state is not updated: each step starts from the first state. Pass the state that "
        "step returns to the next step.",
        "no state",
    ),
    (
        "The input of each step is <start>. From step 2 on, the input is the previous output.",
        "start again",
    ),
    ("The least probable token is chosen. The most probable one has the largest logit.", "argmin"),
    (
        "There is one step too many: max_len is the number of steps, including that of <end>.",
        "one more",
    ),
    (
        "There is one step too few: max_len is the number of steps, including that of <end>.",
        "one fewer",
    ),
]


def _free_twins(model: Any) -> list[Twin]:
    def twin(said: str, names: str) -> Twin:
        faults = names.split(", ")
        return Twin(said, lambda src, max_len: _free_run(model, src, max_len, *faults))

    twins = [twin(said, names) for said, names in _FREE_FAULTS]
    for faults in ("", "any"):
        said = (
            "All sentences share one list: [[]] * n contains the same list n times. Create one "
            "list "
            "for each sentence: [[] for _ in range(n)]."
        )
        twins.append(Twin(said, lambda src, m, f=faults: _shared(_free_run(model, src, m, f))))
    said = (
        "With this mask the model reads padding of the source. model.encode(src) uses the "
        "right mask."
    )
    twins.append(Twin(said, lambda src, m: _free_run(model, src, m, look_at_all=True)))
    return twins


def _shared(texts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the texts if all of them are one list, to which each word is added."""
    longest = max(map(len, texts))
    words = [text[t] for t in range(longest) for text in texts if t < len(text)]
    return [words for _ in texts]


_TEXTS = [[5, 6], [7], [5, 7, 6, 8], [], [8, 8, 5, 5, 8, 5]]


@_parts.part(
    "free running",
    "write",
    rebuilds=("attentively.generation.search:greedy_search",),
    refuses=(
        "attentively.generation.search:beam_search",
        "attentively.generation.search:generate",
        "attentively.generation.generate:translate",
    ),
)
def free_running(candidate: object, thorough: bool = False) -> None:
    """Check greedy search with scripted models, then with the trained model."""
    stages = [
        ([0], 5),
        ([0], 3),
        ([2], 3),
        ([0, 2], 7),
        ([1, 2, 3], 8),
        ([2, 0, 4], 5),
        ([0, 1], 50),
    ]
    if thorough:
        stages += [([4, 3, 2, 1, 0], 7), ([3], 1), ([4, 4, 0, 2], 2), ([3, 3], 9)]
    for texts, max_len in stages:
        model = ScriptedModel(_TEXTS)
        src = torch.tensor([[11 + which, END_ID] for which in texts])
        _expect_texts(candidate, model, src, max_len)
    model = ScriptedModel(_TEXTS)
    inputs = {"src": torch.tensor([[11, END_ID], [12, END_ID]]), "max_len": 50}
    call(_with_model(candidate, model), inputs)
    if model.calls > 5:  # 3 for the batch, or 3 and 2 for one sentence after the other
        raise CheckFailed(
            f"  The outputs are correct, but the loop does not stop when the last sentence has "
            f"ended: "
            f"the decoder was called {model.calls} times for outputs of 2 and 1 words. Expected 3 "
            f"calls.\n{describe(inputs)}"
        )
    for clauses in (1, 2, 3) if thorough else (2,):
        src, _ = sentences(7, clauses)
        _expect_texts(candidate, translator(), src, 60)


def _expect_texts(candidate: object, model: Any, src: Tensor, max_len: int) -> None:
    inputs = {"src": src, "max_len": max_len}
    with torch.no_grad():
        found = greedy_search(model, src, max_len, forbidden_ids=())
        answer = call_twice(_with_model(candidate, model), inputs)
        if isinstance(answer, list | tuple):
            answer = [row.tolist() if type(row) is Tensor else row for row in answer]
        elif type(answer) is Tensor:
            raise CheckFailed(
                "  Expected a list with one list of ids per sentence, but got a tensor. The "
                "outputs "
                f"differ in length.\n{describe(inputs)}"
            )
        expected = [hypothesis.ids for hypothesis in found]
        hint = "Expected one list of ids per sentence, without <start> and <end>."
        expect_value(answer, expected, "the outputs", inputs, _free_twins(model), hint)


# Part 4


class PlantedLossModel:
    """A model with a fixed negative log-likelihood of each label.

    It is `surprises[row][t]` nats at label t of the reference, and one nat more for every input so
    far that is not that of the reference. Sources that begin with 11 belong to the first row.
    """

    def __init__(self, tgt: Tensor, surprises: Sequence[Sequence[float]]) -> None:
        self.tgt = tgt.tolist()
        self.surprises = surprises

    def __call__(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Encode, decode and return the logits, as every model does."""
        return self.decode(tgt, self.encode(src)).logits

    def source_mask(self, src: Tensor) -> Tensor:
        """Return the mask of every model."""
        return (src != PAD_ID).unsqueeze(1)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> tuple[Memory, Tensor]:
        """Return the state before the first input."""
        return memory, torch.zeros(len(memory.outputs), 0, dtype=torch.long)

    def step(
        self, token: Tensor, state: tuple[Memory, Tensor]
    ) -> tuple[Tensor, tuple[Memory, Tensor]]:
        """Read one token."""
        memory, read = state
        read = torch.cat([read, token.unsqueeze(1)], dim=1)
        return self.decode(read, memory).logits[:, -1], (memory, read)

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Return logits that give the fixed negative log-likelihoods."""
        rows = [int(row) - 11 for row in memory.outputs[:, 0, 0]]
        logits = torch.zeros(*tgt.shape, 23)
        for row, (which, read) in enumerate(zip(rows, tgt.tolist(), strict=True)):
            gold, others = self.tgt[which], 0
            for t, token in enumerate(read):
                others += token != gold[t]
                label = gold[t + 1] if t + 1 < len(gold) else PAD_ID
                probability = math.exp(-self.surprises[which][min(t, len(gold) - 2)] - others)
                logits[row, t] = math.log((1 - probability) / 22)
                logits[row, t, label] = math.log(probability)
        return DecoderOutput(logits)


_SAID_OF_MIXED = {
    "start overwritten": "the first own word replaces <start>. <start> must stay in column 0.",
    "k ignored": "all own words are used. Use the first k of them, and then the reference.",
    "turned": "the first k words are the reference and the others are own words. Exchange the two.",
    "k counts start": "k - 1 words are replaced instead of k. <start> is not one of the k words.",
    "one more": "k + 1 words are replaced instead of k.",
    "filled": "there is padding where the own output has no more words. Keep the reference "
    "words there.",
    "ended": "<end> is inserted where the own output has no more words. Keep the reference words "
    "there.",
    "uncut": "the result has as many columns as tgt. The inputs lack its last column.",
    "first row": "every sentence has the own words of the first sentence.",
    "stretched": "the own output has fewer than k words, and PyTorch broadcasts its only word to k "
    "positions. Replace only as many words as there are, and keep the reference elsewhere.",
    "gold": "no word is replaced: these are the reference inputs.",
    "put in": "the own words are inserted before the reference words. They must replace them.",
}
_MixedCase = tuple[dict[str, object], list[list[int]], dict[str, list[list[int]]]]
# <start> is 2, <end> 3 and <pad> 0. After the name of a mistake comes its result.
_MIXED: list[_MixedCase] = [
    (
        {"tgt": torch.tensor([[2, 4, 5, 6, 7, 3]]), "own": [[8, 9, 8, 9]], "k": 2},
        [[2, 8, 9, 6, 7]],
        {
            "start overwritten": [[8, 9, 5, 6, 7]],
            "k ignored": [[2, 8, 9, 8, 9]],
            "turned": [[2, 4, 5, 8, 9]],
            "k counts start": [[2, 8, 5, 6, 7]],
            "one more": [[2, 8, 9, 8, 7]],
            "uncut": [[2, 8, 9, 6, 7, 3]],
            "gold": [[2, 4, 5, 6, 7]],
            "put in": [[2, 8, 9, 4, 5]],
        },
    ),
    (
        {
            "tgt": torch.tensor([[2, 4, 5, 6, 7, 3], [2, 8, 9, 3, 0, 0]]),
            "own": [[4, 9, 9, 7], [9, 4]],
            "k": 2,
        },
        [[2, 4, 9, 6, 7], [2, 9, 4, 3, 0]],
        {
            "start overwritten": [[4, 9, 5, 6, 7], [9, 4, 9, 3, 0]],
            "k ignored": [[2, 4, 9, 9, 7], [2, 9, 4, 3, 0]],
            "turned": [[2, 4, 5, 9, 7], [2, 8, 9, 3, 0]],
            "k counts start": [[2, 4, 5, 6, 7], [2, 9, 9, 3, 0]],
            "uncut": [[2, 4, 9, 6, 7, 3], [2, 9, 4, 3, 0, 0]],
            "first row": [[2, 4, 9, 6, 7], [2, 4, 9, 3, 0]],
            "gold": [[2, 4, 5, 6, 7], [2, 8, 9, 3, 0]],
        },
    ),
    (
        {
            "tgt": torch.tensor([[2, 4, 5, 6, 3], [2, 8, 3, 0, 0]]),
            "own": [[7, 9, 9], [9, 4, 5]],
            "k": 2,
        },
        [[2, 7, 9, 6], [2, 9, 3, 0]],
        {
            "start overwritten": [[7, 9, 5, 6], [9, 8, 3, 0]],
            "k ignored": [[2, 7, 9, 9], [2, 9, 3, 0]],
            "turned": [[2, 4, 5, 9], [2, 8, 3, 0]],
            "k counts start": [[2, 7, 5, 6], [2, 9, 3, 0]],
            "uncut": [[2, 7, 9, 6, 3], [2, 9, 3, 0, 0]],
            "first row": [[2, 7, 9, 6], [2, 7, 3, 0]],
            "gold": [[2, 4, 5, 6], [2, 8, 3, 0]],
        },
    ),
    (
        {"tgt": torch.tensor([[2, 4, 5, 6, 7, 3]]), "own": [[9]], "k": 3},
        [[2, 9, 5, 6, 7]],
        {
            "start overwritten": [[9, 4, 5, 6, 7]],
            "turned": [[2, 4, 5, 6, 7]],
            "stretched": [[2, 9, 9, 9, 7]],
            "filled": [[2, 9, 0, 0, 7]],
            "ended": [[2, 9, 3, 3, 7]],
            "uncut": [[2, 9, 5, 6, 7, 3]],
        },
    ),
    (
        {
            "tgt": torch.tensor([[2, 4, 5, 6, 7, 3], [2, 8, 9, 3, 0, 0]]),
            "own": [[5, 5, 5, 5, 5, 5], [6]],
            "k": 4,
        },
        [[2, 5, 5, 5, 5], [2, 6, 9, 3, 0]],
        {
            "start overwritten": [[5, 5, 5, 5, 7], [6, 8, 9, 3, 0]],
            "turned": [[2, 4, 5, 6, 7], [2, 8, 9, 3, 0]],
            "k counts start": [[2, 5, 5, 5, 7], [2, 6, 9, 3, 0]],
            "filled": [[2, 5, 5, 5, 5], [2, 6, 0, 3, 0]],
            "ended": [[2, 5, 5, 5, 5], [2, 6, 3, 3, 0]],
            "uncut": [[2, 5, 5, 5, 5, 3], [2, 6, 9, 3, 0, 0]],
            "first row": [[2, 5, 5, 5, 5], [2, 5, 5, 3, 0]],
        },
    ),
]
_FURTHER_MIXED: list[_MixedCase] = [
    (
        {
            "tgt": torch.tensor([[2, 4, 5, 6, 7, 3], [2, 8, 9, 3, 0, 0]]),
            "own": [[5, 6, 7, 8], [9, 8]],
            "k": 0,
        },
        [[2, 4, 5, 6, 7], [2, 8, 9, 3, 0]],
        {},
    ),
    (
        {
            "tgt": torch.tensor(
                [[2, 4, 5, 6, 7, 8, 9, 3], [2, 5, 3, 0, 0, 0, 0, 0], [2, 6, 7, 8, 3, 0, 0, 0]]
            ),
            "own": [[10, 11], [12, 12, 12], [10, 11, 12, 10]],
            "k": 3,
        },
        [[2, 10, 11, 6, 7, 8, 9], [2, 12, 3, 0, 0, 0, 0], [2, 10, 11, 12, 3, 0, 0]],
        {},
    ),
    (
        {"tgt": torch.tensor([[2, 4, 5, 3], [2, 6, 7, 3]]), "own": [[], [9, 9]], "k": 1},
        [[2, 4, 5], [2, 9, 7]],
        {},
    ),
]

_SAID_OF_AFTER = {
    "all labels": "all labels are included. Include only those from index k on.",
    "too early": "the first label that is included is one too early. The label with index k, "
    "counted "
    "from 0, is the first one that is predicted after all k words.",
    "too late": "the first label that is included is one too late. The label with index k, counted "
    "from 0, is the first one that is predicted after all k words.",
    "before": "these are the labels before index k. Include the labels from index k on.",
    "turned": "the two losses are exchanged. Return the loss after reference inputs first.",
    "padding": "padding is included. Leave out the positions where the label is padding.",
    "sentence means": "this is the mean of the means of the sentences. Take one mean over all "
    "labels.",
    "own labels": "the labels are own words. The labels are always the reference, whatever the "
    "inputs "
    "are.",
    "unshifted": "the logits are compared with the inputs. The label with index k is in column k "
    "+ 1 of tgt.",
    "summed": "this is a sum. Return the mean.",
    "own throughout": "all own words are inputs. Use only the first k of them, and then the "
    "reference.",
    "gold twice": "both losses are after reference inputs: the mixed inputs are not used.",
    "own twice": "both losses are after mixed inputs. The first one is after reference inputs.",
    "rest": "the first k inputs are the reference and the others are own words. Exchange the two.",
    "one label": "only the label with index k is included. Include all labels from index k on.",
    "without end": "the label <end> is left out. It is a label like a word.",
    "other divisor": "the sum is divided by the number of all labels. Divide it by the number of "
    "the "
    "labels from index k on.",
}
_AfterCase = tuple[
    dict[str, object], list[list[float]], tuple[float, float], dict[str, tuple[float, float]]
]
_AFTER: list[_AfterCase] = [
    (
        {
            "src": torch.tensor([[11, 3]]),
            "tgt": torch.tensor([[2, 4, 5, 6, 7, 3]]),
            "own": [[4, 9, 9, 7]],
            "k": 2,
        },
        [[1.0, 2.0, 4.0, 8.0, 3.0]],
        (5.0, 6.0),
        {
            "all labels": (3.6, 4.2),
            "too early": (4.25, 5.0),
            "too late": (5.5, 6.5),
            "before": (1.5, 1.5),
            "turned": (6.0, 5.0),
            "own labels": (3.6, 4.44729),
            "unshifted": (3.11434, 3.0995),
            "summed": (15.0, 18.0),
            "own throughout": (5.0, 6.66667),
            "gold twice": (5.0, 5.0),
            "own twice": (6.0, 6.0),
            "rest": (5.0, 5.66667),
            "one label": (4.0, 5.0),
            "without end": (6.0, 7.0),
            "other divisor": (3.0, 3.6),
        },
    ),
    (
        {
            "src": torch.tensor([[11, 3], [12, 3]]),
            "tgt": torch.tensor([[2, 4, 5, 6, 3], [2, 8, 9, 3, 0]]),
            "own": [[9, 9, 6], [8, 4]],
            "k": 1,
        },
        [[1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 9.0, 12.0]],
        (5.6, 6.2),
        {
            "all labels": (4.57143, 5.0),
            "too late": (7.0, 7.66667),
            "before": (2.0, 2.0),
            "turned": (6.2, 5.6),
            "padding": (6.66667, 7.16667),
            "sentence means": (5.83333, 6.33333),
            "own labels": (4.57143, 5.36425),
            "summed": (28.0, 31.0),
            "own throughout": (5.6, 6.8),
            "gold twice": (5.6, 5.6),
            "own twice": (6.2, 6.2),
        },
    ),
    (
        {
            "src": torch.tensor([[11, 3], [12, 3]]),
            "tgt": torch.tensor([[2, 4, 5, 6, 7, 3], [2, 8, 9, 3, 0, 0]]),
            "own": [[9, 9, 6, 9, 9], [4, 9]],
            "k": 2,
        },
        [[1.0, 2.0, 4.0, 3.0, 7.0], [6.0, 5.0, 9.0, 12.0, 11.0]],
        (5.75, 7.5),
        {
            "all labels": (4.625, 5.75),
            "too early": (5.0, 6.5),
            "too late": (5.0, 7.0),
            "before": (3.5, 4.0),
            "turned": (7.5, 5.75),
            "padding": (7.66667, 9.16667),
            "sentence means": (6.83333, 8.33333),
            "own labels": (4.625, 5.72317),
            "summed": (23.0, 30.0),
            "own throughout": (5.75, 7.75),
            "gold twice": (5.75, 5.75),
            "own twice": (7.5, 7.5),
            "rest": (5.75, 6.0),
        },
    ),
]
_FURTHER_AFTER: list[_AfterCase] = [
    (
        {
            "src": torch.tensor([[11, 3], [12, 3], [13, 3]]),
            "tgt": torch.tensor(
                [[2, 4, 5, 6, 7, 8, 3], [2, 9, 3, 0, 0, 0, 0], [2, 10, 11, 12, 3, 0, 0]]
            ),
            "own": [[4, 10, 6, 7, 8], [12], [9, 9]],
            "k": 3,
        },
        [
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            [7.0, 7.0, 7.0, 7.0, 7.0, 7.0],
            [2.0, 4.0, 6.0, 8.0, 10.0, 12.0],
        ],
        (5.75, 7.0),
        {},
    ),
    (
        {
            "src": torch.tensor([[11, 3]]),
            "tgt": torch.tensor([[2, 4, 5, 3]]),
            "own": [[9, 9]],
            "k": 0,
        },
        [[2.0, 3.0, 5.0]],
        (3.33333, 3.33333),
        {},
    ),
    (
        {
            "src": torch.tensor([[11, 3], [12, 3]]),
            "tgt": torch.tensor([[2, 4, 5, 6, 7, 3], [2, 8, 9, 3, 0, 0]]),
            "own": [[9, 9, 9, 9], [9, 9]],
            "k": 4,
        },
        [[1.0, 2.0, 4.0, 3.0, 7.0], [6.0, 5.0, 9.0, 12.0, 11.0]],
        (7.0, 11.0),
        {},
    ),
]


@_parts.part("exposure bias", "mixed_inputs", "loss_after")
def exposure(mixed_inputs: object, loss_after: object, thorough: bool = False) -> None:
    """Check constructed inputs and losses, then two properties with the trained model."""
    for asked, expected, mistakes in _MIXED + _FURTHER_MIXED * thorough:
        got = _expect_ids(call_twice(mixed_inputs, asked), "the mixed inputs", asked)
        twins = [
            Twin(f"mixed_inputs: {_SAID_OF_MIXED[name]}", lambda *_, w=wrong: w)
            for name, wrong in mistakes.items()
        ]
        tgt = cast(Tensor, asked["tgt"])
        blank = [_unread(rows, tgt) for rows in (got, expected)]
        if blank[0] != blank[1]:
            expect_value(got, expected, "the mixed inputs", asked, twins)
    for asked, surprises, after, mistaken in _AFTER + _FURTHER_AFTER * thorough:
        model = PlantedLossModel(cast(Tensor, asked["tgt"]), surprises)
        twins = [
            Twin(f"loss_after: {_SAID_OF_AFTER[name]}", lambda *_, w=losses: w)
            for name, losses in mistaken.items()
        ]
        answer = call_twice(_with_model(loss_after, model), asked)
        pair = expect_pair(
            answer, ("the loss after reference inputs", "the loss after mixed inputs"), asked
        )
        given = tuple(_short(plain_number(each)) for each in pair)
        expect_value(
            given, after, "the two losses", asked | {"losses of the labels": surprises}, twins
        )
    _examine_exposure(loss_after, thorough)


def _short(number: int | float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def _unread(rows: object, tgt: Tensor) -> object:
    """Return the inputs, without those at positions where the label is padding."""
    blanked = _unread_blanked((rows, None), tgt)
    return cast(tuple[object, object], blanked)[0]


def _examine_exposure(loss_after: object, thorough: bool) -> None:
    """Check that the losses are equal at k = 0, and where the own words are the reference."""
    model = translator()
    src, tgt = sentences(13 if thorough else 5, 2)
    gold = [[i for i in row if i not in (PAD_ID, START_ID, END_ID)] for row in tgt.tolist()]
    own = own_words(src)
    with torch.no_grad():
        expected = float(objectives.teacher_forced_loss(model, Batch(src, tgt)))
    for k, texts, why in [
        (0, own, "At k = 0 no word is replaced, so both losses are that of teacher forcing."),
        (3, gold, "The own words equal the reference here, so both losses must be equal."),
    ]:
        asked = {"src": src, "tgt": tgt, "own": texts, "k": k}
        with torch.no_grad():
            answer = call(_with_model(loss_after, model), asked)
        pair = expect_pair(
            answer, ("the loss after reference inputs", "the loss after mixed inputs"), asked
        )
        first, second = (plain_number(each) for each in pair)
        wanted = (expected, expected) if k == 0 else (first, first)
        expect_value((first, second), wanted, "the two losses", asked, hint=f"loss_after: {why}")


# Part 5

_Known = dict[str, list[tuple[str, object]]]
"""For each key the known mistakes: the diagnosis, and the value to which the mistake leads."""


@_parts.part("calls, counts and shapes", "counts", "shapes")
def predictions(counts: object, shapes: object, thorough: bool = False) -> None:
    """Compare the predicted counts and shapes with those of a model of the package."""
    cases: list[tuple[list[int], int]] = [([2], 10), ([5, 2, 3], 10), ([7, 1, 2, 4], 5)]
    if thorough:
        cases += [([11, 13, 3, 2, 5, 1], 20), ([3] * 7, 4), ([1], 1)]
    for lengths, max_len in cases:
        asked: dict[str, object] = {"lengths": lengths, "max_len": max_len}
        _expect_table(counts, "counts", asked, _counted(lengths, max_len), _counted_wrong(**asked))  # type: ignore[arg-type]
    names = ("batch", "src_len", "tgt_len", "embedding_dim", "encoder_dim", "decoder_dim", "vocab")
    for sizes in [
        (2, 3, 5, 7, 11, 13, 17),
        *[(7, 2, 3, 5, 4, 19, 23), (1, 1, 2, 3, 6, 5, 11)] * thorough,
    ]:
        given = dict(zip(names, sizes, strict=True))
        _expect_table(shapes, "shapes", given, _shapes(**given), _shapes_wrong(**given))


def _expect_table(
    candidate: object,
    what: str,
    asked: Mapping[str, object],
    expected: Mapping[str, object],
    known: _Known,
) -> None:
    answer = call_twice(candidate, asked)
    if not isinstance(answer, dict):
        said = "None: is there a `return`?" if answer is None else show(answer)
        raise CheckFailed(f"  {what}: expected a dict, but got {said}")
    missing = [key for key in expected if key not in answer]
    if missing:
        keys = ", ".join(map(repr, missing))
        raise CheckFailed(f"  {what}: the dict has no key {keys}.\n{describe(asked)}")
    for key, measured in expected.items():
        got = answer[key]
        if isinstance(got, torch.Size):
            got = tuple(got)
        twins = [Twin(f"{what}, {key}: {s}", lambda *_, w=wrong: w) for s, wrong in known[key]]
        hint = "The expected value was measured with a model of the package."
        expect_value(got, measured, f"{what}, {key}", asked, twins, hint)


def _counted(lengths: Sequence[int], max_len: int) -> dict[str, object]:
    """Decode a batch with targets of these lengths in both modes, and count."""
    batch = _batch([2] * len(lengths), lengths)
    model, runs = _small_model(), []
    model.decoder.cell.register_forward_hook(lambda *_: runs.append(1))
    script = ScriptedModel([[5] * length for length in lengths])
    src = torch.tensor([[11 + row, END_ID] for row in range(len(lengths))])
    with torch.no_grad():
        memory = model.encode(batch.src)
        logits = model.decode(batch.tgt[:, :-1], memory).logits
        greedy_search(script, src, max_len)
    return {
        "decode_calls": 1,
        "step_calls": script.calls,
        "cell_runs": len(runs),
        "positions": logits[..., 0].numel(),
        "labels": objectives.Translation().count(batch),
    }


def _counted_wrong(lengths: Sequence[int], max_len: int) -> _Known:
    longest, total, batch = max(lengths), sum(lengths), len(lengths)
    words_only = "the label <end> of each sentence is missing. It is predicted after the last word."
    start_too = "<start> is never a label: the labels of a sentence are its words and <end>."
    side_by_side = (
        "the sentences of a batch are processed together, so the longest sentence determines it."
    )
    return {
        "decode_calls": [
            ("one call decodes all positions of all sentences.", longest),
            ("one call decodes all positions of all sentences.", longest + 1),
            ("one call decodes the whole batch.", batch),
        ],
        "step_calls": [
            (
                "the loop stops after max_len calls, however long the outputs would be.",
                longest + 1,
            ),
            ("one call is missing: the output <end> also needs a call of step.", longest),
            ("the loop stops when the last sentence has ended, before max_len.", max_len),
            (side_by_side, total + batch),
            (side_by_side, batch * (longest + 1)),
            (side_by_side, total),
            ("each input is the previous output, so one call cannot decode all positions.", 1),
            ("the first call already reads <start> and predicts the first word.", longest + 2),
        ],
        "cell_runs": [
            (
                "decode is called once, but inside it each state needs the previous state, so the "
                "cell runs once per column. With teacher forcing, a recurrent "
                "decoder still needs as many steps.",
                1,
            ),
            ("one run is missing: the last word must be read in order to predict <end>.", longest),
            (
                "there is one run per column of the inputs, which contain <start> but not the "
                "last <end>.",
                longest + 2,
            ),
            (side_by_side, total + batch),
            (side_by_side, batch * (longest + 1)),
            (
                "max_len limits free running only. With teacher forcing the whole target is read.",
                max_len,
            ),
        ],
        "positions": [
            (
                "logits are also computed at padding: the batch is a rectangular tensor.",
                total + batch,
            ),
            ("one column is missing: <end> is predicted as well.", batch * longest),
            (
                "there is one column too many: the inputs are one column shorter than the targets.",
                batch * (longest + 2),
            ),
            ("this is the number for one sentence. Count all sentences of the batch.", longest + 1),
        ],
        "labels": [
            (words_only, total),
            (
                "padding is included. The loss leaves out labels that are padding.",
                batch * (longest + 1),
            ),
            (start_too, total + 2 * batch),
            ("this is the number for one sentence. Count all sentences of the batch.", longest + 1),
        ],
    }


def _shapes(
    batch: int,
    src_len: int,
    tgt_len: int,
    embedding_dim: int,
    encoder_dim: int,
    decoder_dim: int,
    vocab: int,
) -> dict[str, object]:
    """Measure the shapes of the tensors inside a model of the package."""
    sizes = (embedding_dim, encoder_dim, decoder_dim)
    model = Seq2Seq(Seq2SeqConfig(29, vocab, *sizes, attention="fixed")).eval()
    seen: dict[str, Tensor] = {}

    def watch(name: str, module: nn.Module, look: Callable[[Any, Any], Tensor]) -> None:
        def note(_: nn.Module, inputs: Any, output: Any) -> None:
            seen[name] = look(inputs, output)

        module.register_forward_hook(note)

    watch("src_embedded", model.src_embedding, lambda _, output: output)
    watch("encoder_outputs", model.encoder, lambda _, output: output[0])
    watch("first_state", model.decoder.bridge, lambda _, output: output)
    watch("context", model.decoder.attention, lambda _, output: output[0])
    watch("cell_input", model.decoder.cell, lambda inputs, _: inputs[0])
    src, tgt = (torch.ones(batch, length, dtype=torch.long) for length in (src_len, tgt_len))
    with torch.no_grad():
        memory = model.encode(src)
        logits = model.decode(tgt[:, :-1], memory).logits
        step_logits, _ = model.step(tgt[:, 0], model.start(memory))
    found = {**seen, "logits": logits, "step_logits": step_logits}
    return {name: tuple(value.shape) for name, value in found.items()}


def _shapes_wrong(
    batch: int,
    src_len: int,
    tgt_len: int,
    embedding_dim: int,
    encoder_dim: int,
    decoder_dim: int,
    vocab: int,
) -> _Known:
    both = "the outputs of the forward and the backward GRU are concatenated."
    every_word = "there is one vector for each token of the source."
    return {
        "src_embedded": [
            ("each token has a vector, so the last axis is embedding_dim.", (batch, src_len)),
            ("the batch is the first axis.", (src_len, batch, embedding_dim)),
            (
                "an embedding looks up one vector per token; its result has no vocabulary axis.",
                (batch, src_len, vocab),
            ),
        ],
        "encoder_outputs": [
            (both, (batch, src_len, encoder_dim)),
            (f"{every_word} The single vector is the context.", (batch, 2 * encoder_dim)),
            (f"{every_word} {both}", (batch, encoder_dim)),
        ],
        "context": [
            (
                "it is one vector for the whole source, so there is no axis src_len.",
                (batch, src_len, 2 * encoder_dim),
            ),
            ("it contains the last states of both GRUs.", (batch, encoder_dim)),
            (
                "no layer maps it to decoder_dim: it consists of the last states of both GRUs.",
                (batch, decoder_dim),
            ),
        ],
        "first_state": [
            ("the bridge maps the last backward state to decoder_dim.", (batch, encoder_dim)),
            ("the bridge maps the last backward state to decoder_dim.", (batch, 2 * encoder_dim)),
            (
                "it is a single state, before the first input is read.",
                (batch, tgt_len - 1, decoder_dim),
            ),
        ],
        "cell_input": [
            ("the cell also reads the context, at every step.", (batch, embedding_dim)),
            ("the context contains the states of both GRUs.", (batch, embedding_dim + encoder_dim)),
            (
                "the cell reads one token per sentence at a time.",
                (batch, tgt_len - 1, embedding_dim + 2 * encoder_dim),
            ),
            (
                "the state is a separate argument of the cell, not a part of its input.",
                (batch, embedding_dim + 2 * encoder_dim + decoder_dim),
            ),
        ],
        "logits": [
            (
                "tgt_len includes <start> and <end>; the inputs are one column shorter.",
                (batch, tgt_len, vocab),
            ),
            (
                "the inputs are only one column shorter than the targets, not two: <end> is "
                "predicted.",
                (batch, tgt_len - 2, vocab),
            ),
            (
                "there is one logit for each token of the vocabulary, so the last axis is vocab.",
                (batch, tgt_len - 1),
            ),
            (
                "there is one logit for each token of the vocabulary, so the last axis is vocab.",
                (batch, tgt_len - 1, decoder_dim),
            ),
            (
                "there is one position for each target token; the length of the source has no "
                "influence.",
                (batch, src_len, vocab),
            ),
        ],
        "step_logits": [
            (
                "step predicts one token per sentence, so there is no axis of positions.",
                (batch, 1, vocab),
            ),
            (
                "step predicts one token per sentence, so there is no axis of positions.",
                (batch, tgt_len - 1, vocab),
            ),
            ("step returns logits, not the chosen token.", (batch,)),
        ],
    }


# Part 6


@_parts.part("debugging", "training_step")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check a training step: what the model reads, the loss, and the update of the parameters."""
    cases: list[tuple[Sequence[int], Sequence[int], float]] = [
        ((2, 3), (1, 3), 0.1),
        ((1,), (2,), 100.0),
    ]
    if thorough:
        cases += [((5, 2, 1), (2, 5, 3), 0.03), ((3, 7), (7, 1), 0.5)]
    for src_lengths, tgt_lengths, clip_norm in cases:
        _watch(candidate, src_lengths, tgt_lengths, clip_norm)


def _watch(
    candidate: object, src_lengths: Sequence[int], tgt_lengths: Sequence[int], clip_norm: float
) -> None:
    inside = _small_model(dropout=0.0)
    model, optimizer = RecordingModel(inside), RecordingOptimizer([inside.parameters()], 0.5)
    model.eval()  # as after a validation

    def step(src: Tensor, tgt: Tensor, clip_norm: float) -> object:
        return candidate(model, optimizer, src, tgt, clip_norm)  # type: ignore[operator]

    step.__name__ = getattr(candidate, "__name__", "")
    for number in (1, 2):
        before: list[Tensor] = []
        if number == 2:  # something else has left gradients
            before = [torch.ones_like(parameter) for parameter in inside.parameters()]
            for parameter, gradient in zip(inside.parameters(), before, strict=True):
                parameter.grad = gradient.clone()
        src, tgt = _batch(src_lengths, tgt_lengths, seed=number)
        asked = {"src": src, "tgt": tgt, "clip_norm": clip_norm}
        twin = _small_model()
        twin.load_state_dict(inside.state_dict())
        twin.train()
        expected = objectives.teacher_forced_loss(twin, Batch(src, tgt))
        gradients = list(torch.autograd.grad(expected, list(twin.parameters())))
        model.forget()
        optimizer.seen.clear()
        answer = call(step if callable(candidate) else candidate, asked, trains=True)
        examine_reading(model, [(src, tgt)], asked)
        _examine_loss(answer, model, twin, src, tgt, float(expected.detach()), asked)
        examine_update(optimizer, gradients, before, clip_norm, asked)


def _examine_loss(
    answer: object,
    model: RecordingModel,
    twin: Seq2Seq,
    src: Tensor,
    tgt: Tensor,
    expected: float,
    asked: Mapping[str, object],
) -> None:
    if type(answer) is Tensor and answer.requires_grad:
        raise refused(
            "Loss: the returned tensor still refers to the computation graph of the step, which "
            "stays in memory with it. Return a plain number: loss.item().",
            asked,
        )
    given = plain_number(answer)
    with torch.no_grad():
        inputs, labels, logits = _asked(twin, src, tgt)
        surprises = _surprises(logits, labels)
        start_too = averaged(logits.flatten(0, 1), inputs.flatten(), ignore_index=PAD_ID)
    hint = "Loss: expected the mean negative log-likelihood of the labels, before the update."
    twins = [
        Twin(f"Loss: {_PADDING_COUNTED}", lambda *_: float(surprises.mean())),
        Twin(
            "Loss: the logits are compared with the inputs instead of the labels.",
            lambda *_: float(start_too),
        ),
        Twin(
            "Loss: this is a sum, whose gradient grows with the batch. Return the mean.",
            lambda *_: float(surprises[labels != PAD_ID].sum()),
        ),
    ]
    expect_value(given, expected, "the loss", asked, twins, hint)
