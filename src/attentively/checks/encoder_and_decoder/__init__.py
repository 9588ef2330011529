"""Checks of the assignment on encoder and decoder: targets, loss, free running, exposure.

What rebuilds the package is compared with it, at last inside a trained translator. The answers to
parts 4, 5 and 6 stand nowhere here: those of part 4 were planted, those of part 5 are measured,
and of part 6 it is recorded what a model reads and what its optimizer sees.
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
"""The trained translator: an encoder, one fixed context vector, a decoder."""

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its trained translator and these checks work."""
    _parts.explain_undefined_names()
    sentence = "the cat drinks the milk"
    text = translate(load_pretrained(MODEL), [sentence], beam_size=1)[0].text
    print(f"PyTorch {torch.__version__}. The trained translator makes “{text}” of “{sentence}”.")
    print(f"The ids: PAD {PAD_ID}, START {START_ID}, END {END_ID}. Ready.")


# The trained translator and its sentences


def translator() -> Seq2Seq:
    """Return the trained model, ready to be asked."""
    return cast(Seq2Seq, load_pretrained(MODEL).model.eval())


def sentences(number: int, clauses: int, split: str = "validation") -> tuple[Tensor, Tensor]:
    """Return sentences of so many clauses that the translator never saw: sources and targets."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    pairs = toy.load(split, number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    batch = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer))
    return batch.src, batch.tgt


def tokens(ids: Iterable[int], side: str = "tgt") -> list[str]:
    """Return the words of ids, special tokens too."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    return list((tgt_tokenizer if side == "tgt" else src_tokenizer).tokens(ids))


def own_words(src: Tensor, max_len: int = 60) -> list[list[int]]:
    """Return the ids that the trained translator writes by itself, START and END left out."""
    model = translator()
    with torch.no_grad():
        found = greedy_search(model, src, max_len)
    return [hypothesis.ids for hypothesis in found]


def untrained(seed: int = 0) -> Seq2Seq:
    """Return a small model with the translator's vocabularies that has learned nothing yet."""
    config = translator().config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Seq2Seq(replace(config, embedding_dim=32, encoder_dim=32, decoder_dim=64))


def _small_model(seed: int = 1, dropout: float = 0.0) -> Seq2Seq:
    """Return an untrained model of 13 words on either side, whose scores are far from equal."""
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
    """Return random sentences of 13 words with so many words a side, special tokens added."""
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

_ID_NAMES = "start_id, end_id and pad_id are given, and another vocabulary has others: use them."


def _rows(
    sentences: Sequence[Sequence[int]], start: Sequence[int], end: Sequence[int], pad: int
) -> list[list[int]]:
    return _stacked([[*start, *ids, *end] for ids in sentences], pad).tolist()


def _padded_in_front(s: Sequence[Sequence[int]], start: int, end: int, pad: int) -> object:
    rows = _rows(s, [start], [end], pad)
    return [[i for i in row if i == pad] + [i for i in row if i != pad] for row in rows]


_TARGET_TWINS = (
    Twin(
        "The END is missing: a decoder that is never told to end does not.",
        lambda s, start, end, pad: _rows(s, [start], [], pad),
    ),
    Twin(
        "The START is missing: the first word would have nothing before it.",
        lambda s, start, end, pad: _rows(s, [], [end], pad),
    ),
    Twin(
        "START and END are missing: only words and padding are here.",
        lambda s, start, end, pad: _rows(s, [], [], pad),
    ),
    Twin(
        "The END stands after the padding. It comes right after the last word, then padding.",
        lambda s, start, end, pad: [[start, *row, end] for row in _rows(s, [], [], pad)],
    ),
    Twin(
        "The padding stands in front. It fills the rows up at their ends.",
        _padded_in_front,
    ),
    Twin(
        "Rows are filled up with END. Padding is another token, and it counts as nothing.",
        lambda s, start, end, pad: _rows(s, [start], [end], end),
    ),
    Twin(
        "Longer sentences are cut to the shortest one. The longest settles the length.",
        lambda s, start, end, pad: [[start, *ids[: min(map(len, s))], end] for ids in s],
    ),
    Twin(
        "START and END have changed places.",
        lambda s, start, end, pad: _rows(s, [end], [start], pad),
    ),
    Twin(
        f"These are the package's ids. {_ID_NAMES}",
        lambda s, start, end, pad: _rows(s, [START_ID], [END_ID], PAD_ID),
    ),
    Twin(
        f"Rows are filled up with 0. {_ID_NAMES}",
        lambda s, start, end, pad: _rows(s, [start], [end], 0),
    ),
)

_SHIFTS: list[tuple[str, Callable[[Tensor], tuple[Tensor, Tensor]]]] = [
    (
        "inputs and labels have changed places: shifted left, each input is the very word that is "
        "to be predicted.",
        lambda tgt: (tgt[:, 1:], tgt[:, :-1]),
    ),
    (
        "the labels are the inputs themselves: the decoder would learn to repeat what it has just "
        "read. A label is the token one place further.",
        lambda tgt: (tgt[:, :-1], tgt[:, :-1]),
    ),
    (
        "nothing is shifted: START is a label here, and each label is its own input.",
        lambda tgt: (tgt, tgt),
    ),
    (
        "the inputs are not cut. Nothing comes after the END of the longest sentence, so its END "
        "is not fed in.",
        lambda tgt: (tgt, tgt[:, 1:]),
    ),
    (
        "START is a label here. It is given and never predicted, so the labels begin with the "
        "first word, and are one column shorter than the targets.",
        lambda tgt: (tgt[:, :-1], tgt),
    ),
    (
        "the START is not fed in: the inputs are the labels, the answers themselves.",
        lambda tgt: (tgt[:, 1:], tgt[:, 1:]),
    ),
    (
        "the last column is gone from the labels too, and with it the END of the longest sentence: "
        "nothing would teach the decoder to end.",
        lambda tgt: (tgt[:, :-1], tgt[:, 1:-1]),
    ),
    (
        "roll carries what leaves at one side in at the other. Cut a column off instead.",
        lambda tgt: (tgt, tgt.roll(-1, dims=1)),
    ),
    (
        "roll carries what leaves at one side in at the other. Cut a column off instead.",
        lambda tgt: (tgt.roll(1, dims=1), tgt),
    ),
    (
        "a second START is put in front. tgt begins with one: the inputs are tgt without its last "
        "column, the labels tgt without its first.",
        lambda tgt: (torch.cat([tgt[:, :1], tgt[:, :-1]], dim=1), tgt),
    ),
    (
        "a sentence is cut off, not a column: the first axis is that of the batch, so tgt[:, 1:].",
        lambda tgt: (tgt[:-1], tgt[1:]),
    ),
    (
        "the columns are shifted by two places, not by one.",
        lambda tgt: (tgt[:, :-2], tgt[:, 2:]),
    ),
]


def _expect_ids(answer: object, what: str, inputs: Mapping[str, object]) -> list[object]:
    """Return rows of ids as a list, if they came as a tensor of whole numbers."""
    if type(answer) is not Tensor:
        kind = type(answer).__name__
        said = f"a {kind}" if answer is not None else "None: is there a `return`?"
        raise CheckFailed(f"  Expected {what} as a torch.Tensor, got {said}\n{describe(inputs)}")
    if answer.is_floating_point() or answer.dtype == torch.bool:
        raise CheckFailed(
            f"  The numbers of {what} are {answer.dtype}. Ids are whole numbers: torch.tensor of "
            f"lists of ints makes torch.int64.\n{describe(inputs)}"
        )
    return cast(list[object], answer.tolist())


@_parts.part("targets", "make_targets", "shift_right")
def targets(make_targets: object, shift_right: object, thorough: bool = False) -> None:
    """Check the batch that a decoder is taught, and what of it is read and what predicted."""
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
    diagnosis = "this is not the pair that is expected."
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
    """Return inputs and labels; what is fed in where the label is padding does not matter."""
    inputs, labels = pair
    if torch.tensor(inputs).shape != tgt[:, 1:].shape:
        return pair
    real = (tgt[:, 1:] != PAD_ID).tolist()
    rows = zip(inputs, real, strict=True)
    return [[i if r else None for i, r in zip(*row, strict=True)] for row in rows], labels


# Part 2


class _Asked(NamedTuple):
    """What the twins of the loss have to say of a batch."""

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
    "Padding is counted like a word. Where the label is PAD nothing is predicted: leave it out."
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
            "The scores are compared with the inputs instead of the labels: the loss would be "
            "small for a decoder that repeats what it has just read.",
            against(all_but_last, all_but_last),
        ),
        *known(
            "START is a label here, and every label is its own input: read and predicted are the "
            "same columns. Shift them by one place.",
            against(every, every),
        ),
        *known(
            "The labels are fed in: the decoder reads the very word that it is to predict, and "
            "would learn to copy it.",
            against(all_but_first, all_but_first),
        ),
        *known(
            "Inputs and labels have changed places.",
            against(all_but_first, all_but_last),
        ),
        Twin(_PADDING_COUNTED, lambda s, t: of(s, t)[0].mean()),
        Twin(
            "Padding is left out of the sum, but still counted in the number that it is divided "
            "by.",
            below_too,
        ),
        Twin(
            "The sum is divided by the number of tokens of tgt, START and padding among them. "
            "Divide it by the number of real labels.",
            lambda s, t: summed(s, t) / t.numel(),
        ),
        Twin(
            "This is the mean of the sentences' means: a word in a short sentence counts more than "
            "one in a long sentence. Sum over the whole batch, then divide once.",
            sentence_means,
        ),
        *known(
            "This is a sum, or a sum divided by the number of sentences. Divide it by the number "
            "of real labels.",
            summed,
            lambda s, t: summed(s, t) / len(s),
        ),
        Twin(
            "The END is left out. It is a label like a word: without it the decoder would not "
            "learn to end.",
            without_end,
        ),
        Twin(
            "The mask lets the encoder read padding of the source as if it were words. "
            "model.encode(src) makes the right one.",
            padding_read,
        ),
        Twin(
            "The softmax is taken twice: cross_entropy expects the scores, decode(...).logits.",
            twice_softmaxed,
        ),
        Twin(
            "reshape has mixed the scores of different places: it moves no axis. "
            "logits.transpose(1, 2) is (batch, vocab, length).",
            reshaped,
        ),
        Twin(
            "The scores are shifted once more. Those at a position are for the token after it: "
            "the first ones are for the first word.",
            shifted_twice,
        ),
        Twin(
            "The decoder reads its own words here. Teacher forced it reads the true ones, in one "
            "call of decode.",
            own_words_read,
        ),
        Twin(
            "The mean of the probabilities is taken. The loss is the mean of -log p.",
            lambda s, t: -(-of(s, t)[0][of(s, t)[1]]).exp().mean(),
        ),
        Twin(
            "This is the perplexity, e to the loss.",
            lambda s, t: of(s, t)[0][of(s, t)[1]].mean().exp(),
        ),
        Twin(
            "The sign is turned: log p is negative, a loss is not.",
            lambda s, t: -of(s, t)[0][of(s, t)[1]].mean(),
        ),
        Twin(
            "The loss is measured in bits, by log2. Nats are asked for.",
            lambda s, t: of(s, t)[0][of(s, t)[1]].mean() / math.log(2),
        ),
    ]


@_parts.part("loss", "teacher_forced_loss")
def loss(candidate: object, thorough: bool = False) -> None:
    """Check the mean surprise at the true next token, at last of the trained translator."""
    if candidate is objectives.teacher_forced_loss:
        raise CheckFailed("  This is the package's own teacher_forced_loss; write yours.")
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
        "the decoder's weights": model.decoder.output.weight,
        "the encoder's weights": cast(Tensor, model.encoder.gru.weight_ih_l0),
    }
    expect_gradients(cast(Tensor, answer), sources)


def _expect_loss(candidate: object, model: Seq2Seq, src: Tensor, tgt: Tensor) -> None:
    inputs = {"src": src, "tgt": tgt}
    answer = call_twice(_with_model(candidate, model), inputs)
    if isinstance(answer, float):
        raise CheckFailed(
            "  This is a plain number, which carries no gradient, so nothing could be learned "
            "from it. Return the tensor, without .item() or float()."
        )
    if isinstance(answer, DecoderOutput) or answer is None:
        said = "None: is there a `return`?" if answer is None else "what decode returns"
        raise CheckFailed(f"  Expected the loss, a tensor without axes; got {said}.")
    with torch.no_grad():
        expected = objectives.teacher_forced_loss(model, Batch(src, tgt))
        hint = "One number: the mean over all real labels of the batch."
        expect_equal(answer, expected, "the loss", inputs, _loss_twins(model), hint)


# Part 3

_JUNK, _LOST = 9, 10
"""What a scripted model says after its END, and where what it is fed makes no sense."""


@dataclass(frozen=True)
class _Script:
    """Where a scripted model stands."""

    which: list[int]
    read: list[list[int]]

    def select(self, rows: Tensor) -> Self:
        """Return the state of the chosen rows."""
        chosen = rows.tolist()
        which, read = [self.which[row] for row in chosen], [self.read[row] for row in chosen]
        return replace(self, which=which, read=read)


class ScriptedModel(EncoderDecoder[_Script]):
    """A model that writes texts known beforehand: of a source that begins with 11 the first.

    It does so only if it is fed START and then its own words. After its END it babbles.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.texts = texts
        self.calls = 0

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> _Script:
        """Return the state in which nothing is read yet."""
        which = [int(row) - 11 for row in memory.outputs[:, 0, 0]]
        return _Script(which, [[] for _ in which])

    def step(self, token: Tensor, state: _Script) -> tuple[Tensor, _Script]:
        """Read one token."""
        if token.shape != (len(state.which),):
            raise ValueError(
                f"token has the shape {tuple(token.shape)}, expected one a sentence, "
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
    """Write greedily with the faults named."""
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
        "START is kept in the text. It is fed in to begin with, and nobody wrote it.",
        "start kept",
    ),
    ("END is kept in the text. It says that the words are over, and is none.", "end kept"),
    ("START and END are kept in the text; only words are asked for.", "start kept, end kept"),
    (
        "It does not stop: after END it goes on writing until max_len, and what a model says after "
        "END means nothing.",
        "never",
    ),
    (
        "It does not stop: END is left out of the text, and what comes after it is not.",
        "never, drop",
    ),
    (
        "The whole batch stops at the first END. The other sentences are not over yet.",
        "any",
    ),
    (
        "The whole batch stops at the first END, and END is kept.",
        "any, end kept",
    ),
    (
        "A sentence that has ended goes on writing while the others are written. What it says "
        "after its END does not count.",
        "on",
    ),
    (
        "A sentence that has ended goes on writing while the others are written, and its END is "
        "kept.",
        "on, end kept",
    ),
    (
        "The texts are filled up to one length. Return lists that are as long as their texts.",
        "padded",
    ),
    (
        "The state is not carried on: each step begins from the first state, as if nothing had "
        "been read. Pass on the state that step returns.",
        "no state",
    ),
    (
        "Each step is fed START again. From the second step on the model reads its own last word.",
        "start again",
    ),
    ("The least likely word is taken; the likeliest has the largest score.", "argmin"),
    ("One word too many: max_len counts every word that is asked for, END too.", "one more"),
    ("It stops one word early: max_len words may be asked for, END among them.", "one fewer"),
]


def _free_twins(model: Any) -> list[Twin]:
    def twin(said: str, names: str) -> Twin:
        faults = names.split(", ")
        return Twin(said, lambda src, max_len: _free_run(model, src, max_len, *faults))

    twins = [twin(said, names) for said, names in _FREE_FAULTS]
    for faults in ("", "any"):
        said = (
            "All sentences share one list: [[]] * n holds the same list n times. Make a list for "
            "each: [[] for _ in range(n)]."
        )
        twins.append(Twin(said, lambda src, m, f=faults: _shared(_free_run(model, src, m, f))))
    said = (
        "The mask lets the model read padding of the source. model.encode(src) makes the right one."
    )
    twins.append(Twin(said, lambda src, m: _free_run(model, src, m, look_at_all=True)))
    return twins


def _shared(texts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return what stands in each text if all are one list, written word by word."""
    longest = max(map(len, texts))
    words = [text[t] for t in range(longest) for text in texts if t < len(text)]
    return [words for _ in texts]


_TEXTS = [[5, 6], [7], [5, 7, 6, 8], [], [8, 8, 5, 5, 8, 5]]


@_parts.part("free running", "write")
def free_running(candidate: object, thorough: bool = False) -> None:
    """Check the greedy loop, on models that follow a script, then on the trained translator."""
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
            f"  The texts are right, but the loop does not stop when the last one has ended: the "
            f"decoder was asked {model.calls} times for texts of 2 and 1 words, and 3 times are "
            f"enough.\n{describe(inputs)}"
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
                "  Expected a list of lists of ids, one list a sentence; got a tensor. Texts "
                f"differ in length.\n{describe(inputs)}"
            )
        expected = [hypothesis.ids for hypothesis in found]
        hint = "One list of ids a sentence, without START and END."
        expect_value(answer, expected, "the texts", inputs, _free_twins(model), hint)


# Part 4


class PlantedReader:
    """A model whose surprise at each label was settled beforehand.

    It is `surprises[row][t]` nats at label t of the gold target, and one nat more for every word
    read so far that is not the gold one. Sources that begin with 11 belong to the first row.
    """

    def __init__(self, tgt: Tensor, surprises: Sequence[Sequence[float]]) -> None:
        self.tgt = tgt.tolist()
        self.surprises = surprises

    def __call__(self, src: Tensor, tgt: Tensor) -> DecoderOutput:
        """Encode and decode, as every model does."""
        return self.decode(tgt, self.encode(src))

    def source_mask(self, src: Tensor) -> Tensor:
        """Return the mask of every model."""
        return (src != PAD_ID).unsqueeze(1)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> tuple[Memory, Tensor]:
        """Return the state in which nothing is read yet."""
        return memory, torch.zeros(len(memory.outputs), 0, dtype=torch.long)

    def step(
        self, token: Tensor, state: tuple[Memory, Tensor]
    ) -> tuple[Tensor, tuple[Memory, Tensor]]:
        """Read one token."""
        memory, read = state
        read = torch.cat([read, token.unsqueeze(1)], dim=1)
        return self.decode(read, memory).logits[:, -1], (memory, read)

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Return scores whose surprises are the planted ones."""
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
    "start overwritten": "the first own word takes START's place. START stays in column 0.",
    "k ignored": "all of the model's words are here. Take its first k, then gold again.",
    "turned": "the first k words are gold and the rest the model's; it is the other way round.",
    "k counts start": "one word too few is the model's: k counts its words, START is none.",
    "one more": "one word too many is the model's: k words, then gold.",
    "filled": "the model's text has ended, and padding stands where it has no word. There gold "
    "stays.",
    "ended": "the model's text has ended, and END stands where it has no word. There gold stays.",
    "uncut": "this has as many columns as tgt. As inputs the last column goes.",
    "first row": "every sentence got the words of the first one.",
    "stretched": "the model wrote fewer than k words, and PyTorch stretched the only one over k "
    "places. Ask how many there are; elsewhere gold stays.",
    "gold": "nothing is the model's: this is gold throughout.",
    "put in": "the model's words are put in before the gold ones. They take their places.",
}
_MixedCase = tuple[dict[str, object], list[list[int]], dict[str, list[list[int]]]]
# START is 2, END 3 and PAD 0. What a mistake gives stands beside its name.
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
    "all labels": "all labels are counted. Only those after the first k words tell the two apart.",
    "too early": "the counting begins one label too early. Label k, counted from 0, is the first "
    "one that is predicted after all k words.",
    "too late": "the counting begins one label too late. Label k, counted from 0, is the first one "
    "that is predicted after all k words.",
    "before": "these are the labels before k. Those after the first k words are asked for.",
    "turned": "the two have changed places: first after gold, then after the model's own words.",
    "padding": "padding is counted. Where the label is PAD nothing is predicted.",
    "sentence means": "this is the mean of the sentences' means. Take one mean over all labels.",
    "own labels": "the labels have become the model's own words. The labels stay gold, whatever is "
    "read.",
    "unshifted": "the scores are compared with the inputs. Label k stands in column k + 1 of tgt.",
    "summed": "this is the sum, not the mean.",
    "own throughout": "all of the model's words are fed in; only its first k are, then gold.",
    "gold twice": "both are after gold words: the model's own were not fed in.",
    "own twice": "both are after the model's own words.",
    "rest": "the first k words are gold and the rest the model's; it is the other way round.",
    "one label": "only label k is counted; all from label k on are.",
    "without end": "the label END is left out. It is predicted like a word.",
    "other divisor": "the sum is divided by the number of all labels. Divide it by that of the "
    "labels from k on.",
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


@_parts.part("exposure", "mixed_inputs", "loss_after")
def exposure(mixed_inputs: object, loss_after: object, thorough: bool = False) -> None:
    """Check planted prefixes and planted losses, then what must hold of the trained translator."""
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
        model = PlantedReader(cast(Tensor, asked["tgt"]), surprises)
        twins = [
            Twin(f"loss_after: {_SAID_OF_AFTER[name]}", lambda *_, w=losses: w)
            for name, losses in mistaken.items()
        ]
        answer = call_twice(_with_model(loss_after, model), asked)
        pair = expect_pair(answer, ("after_gold", "after_own"), asked)
        given = tuple(_short(plain_number(each)) for each in pair)
        expect_value(
            given, after, "the two losses", asked | {"planted surprises": surprises}, twins
        )
    _examine_exposure(loss_after, thorough)


def _short(number: int | float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def _unread(rows: object, tgt: Tensor) -> object:
    """Return the inputs, blank where the label is padding: what is read there does not matter."""
    blanked = _unread_blanked((rows, None), tgt)
    return cast(tuple[object, object], blanked)[0]


def _examine_exposure(loss_after: object, thorough: bool) -> None:
    """See that nothing changes at k = 0, and nothing where the model's own words are gold."""
    model = translator()
    src, tgt = sentences(13 if thorough else 5, 2)
    gold = [[i for i in row if i not in (PAD_ID, START_ID, END_ID)] for row in tgt.tolist()]
    own = own_words(src)
    with torch.no_grad():
        expected = float(objectives.teacher_forced_loss(model, Batch(src, tgt)))
    for k, texts, why in [
        (0, own, "At k = 0 no word is the model's own: both are the teacher-forced loss."),
        (3, gold, "The model's own words are the gold ones here, so both losses are the same."),
    ]:
        asked = {"src": src, "tgt": tgt, "own": texts, "k": k}
        with torch.no_grad():
            answer = call(_with_model(loss_after, model), asked)
        pair = expect_pair(answer, ("after_gold", "after_own"), asked)
        first, second = (plain_number(each) for each in pair)
        wanted = (expected, expected) if k == 0 else (first, first)
        expect_value((first, second), wanted, "the two losses", asked, hint=f"loss_after: {why}")


# Part 5

_Known = dict[str, list[tuple[str, object]]]
"""For each key what mistakes answer there: what to say of it, and the answer."""


@_parts.part("predictions", "counts", "shapes")
def predictions(counts: object, shapes: object, thorough: bool = False) -> None:
    """Check the numbers and shapes foretold against what a model of the package does."""
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
        raise CheckFailed(f"  {what}: expected a dict, got {said}")
    missing = [key for key in expected if key not in answer]
    if missing:
        keys = ", ".join(map(repr, missing))
        raise CheckFailed(f"  {what}: the dict lacks {keys}.\n{describe(asked)}")
    for key, measured in expected.items():
        got = answer[key]
        if isinstance(got, torch.Size):
            got = tuple(got)
        twins = [Twin(f"{what}, {key}: {s}", lambda *_, w=wrong: w) for s, wrong in known[key]]
        hint = "It is measured on a model of the package, which differs."
        expect_value(got, measured, f"{what}, {key}", asked, twins, hint)


def _counted(lengths: Sequence[int], max_len: int) -> dict[str, object]:
    """Let models read a batch with targets of these lengths, and write texts of them; count."""
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
    words_only = "END is missing: it is predicted like a word, after the last one is read."
    start_too = "START is read and never predicted, so it adds nothing: one for each word and END."
    side_by_side = "the sentences of a batch go side by side, so the longest one settles it."
    return {
        "decode_calls": [
            ("one call reads the whole target, all words of all sentences.", longest),
            ("one call reads the whole target, all words of all sentences.", longest + 1),
            ("one call reads the whole batch.", batch),
        ],
        "step_calls": [
            (
                "the loop gives up after max_len calls, however long the texts would be.",
                longest + 1,
            ),
            ("END is missing: it takes a call to be told that the text is over.", longest),
            ("the loop stops when the last text has ended, long before max_len.", max_len),
            (side_by_side, total + batch),
            (side_by_side, batch * (longest + 1)),
            (side_by_side, total),
            ("each word needs the one before it, so one call for all cannot do.", 1),
            ("START is fed in by the first call, which predicts the first word.", longest + 2),
        ],
        "cell_runs": [
            (
                "decode is one call, but inside it the state passes from word to word: the cell "
                "runs once a column. Teacher forcing spares a recurrent decoder no step.",
                1,
            ),
            ("END is missing: the last word has to be read to predict it.", longest),
            ("START is read and END is not: one run for each column of the inputs.", longest + 2),
            (side_by_side, total + batch),
            (side_by_side, batch * (longest + 1)),
            ("max_len limits free running only; gold is read to its end.", max_len),
        ],
        "positions": [
            ("padding has scores too: the batch is a full rectangle.", total + batch),
            ("one column is missing: END is predicted as well.", batch * longest),
            (
                "one column too many: the inputs are one shorter than START … END.",
                batch * (longest + 2),
            ),
            ("this is one sentence; the batch has more.", longest + 1),
        ],
        "labels": [
            (words_only, total),
            ("padding is no label that counts.", batch * (longest + 1)),
            (start_too, total + 2 * batch),
            ("this is one sentence; the batch has more.", longest + 1),
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
    """Send a batch through a model of the package and look at what passes by."""
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
    both = "two readers read the source, and what they say is put side by side."
    every_word = "there is one vector for each word of the source."
    return {
        "src_embedded": [
            ("one vector for each word: the embedding size is the last axis.", (batch, src_len)),
            ("the batch comes first.", (src_len, batch, embedding_dim)),
            (
                "an embedding looks rows up; no axis as long as the vocabulary is left.",
                (batch, src_len, vocab),
            ),
        ],
        "encoder_outputs": [
            (both, (batch, src_len, encoder_dim)),
            (f"{every_word} One vector for all is the context.", (batch, 2 * encoder_dim)),
            (f"{every_word} {both}", (batch, encoder_dim)),
        ],
        "context": [
            (
                "it is one vector for the whole source, whose words have no axis any more.",
                (batch, src_len, 2 * encoder_dim),
            ),
            ("it holds the last state of both readers.", (batch, encoder_dim)),
            (
                "nothing turns it to the decoder's size: it is the readers' last states.",
                (batch, decoder_dim),
            ),
        ],
        "first_state": [
            ("the bridge makes the decoder's size of it.", (batch, encoder_dim)),
            ("the bridge makes the decoder's size of it.", (batch, 2 * encoder_dim)),
            (
                "it is one state, before any word of the target is read.",
                (batch, tgt_len - 1, decoder_dim),
            ),
        ],
        "cell_input": [
            ("beside the word the cell reads the context, at every step.", (batch, embedding_dim)),
            ("the context has the states of both readers.", (batch, embedding_dim + encoder_dim)),
            (
                "the cell reads one word at a time.",
                (batch, tgt_len - 1, embedding_dim + 2 * encoder_dim),
            ),
            (
                "the state goes in beside it, not as a part of it.",
                (batch, embedding_dim + 2 * encoder_dim + decoder_dim),
            ),
        ],
        "logits": [
            (
                "tgt_len counts START and END; the inputs are one column shorter.",
                (batch, tgt_len, vocab),
            ),
            (
                "START is read and END is predicted: one column is lost, not two.",
                (batch, tgt_len - 2, vocab),
            ),
            (
                "a score for every word of the vocabulary, so its size is the last axis.",
                (batch, tgt_len - 1),
            ),
            (
                "a score for every word of the vocabulary, so its size is the last axis.",
                (batch, tgt_len - 1, decoder_dim),
            ),
            (
                "the labels are target words: the source's length has no part in it.",
                (batch, src_len, vocab),
            ),
        ],
        "step_logits": [
            (
                "step predicts one token for each sentence, so there is no axis of positions.",
                (batch, 1, vocab),
            ),
            (
                "step predicts one token for each sentence, so there is no axis of positions.",
                (batch, tgt_len - 1, vocab),
            ),
            ("scores come out of it, not the chosen word.", (batch,)),
        ],
    }


# Part 6


@_parts.part("bug hunt", "training_step")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Watch a training step: what the model reads, what is averaged, what moves the weights."""
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
    model.eval()  # as a validation leaves it

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
            "Loss: what is returned still holds the whole graph of its step, and a log of such "
            "losses fills the memory. Return a number: .item().",
            asked,
        )
    given = plain_number(answer)
    with torch.no_grad():
        inputs, labels, logits = _asked(twin, src, tgt)
        surprises = _surprises(logits, labels)
        start_too = averaged(logits.flatten(0, 1), inputs.flatten(), ignore_index=PAD_ID)
    hint = "Loss: it is not the mean surprise at the labels, before the weights move."
    twins = [
        Twin(f"Loss: {_PADDING_COUNTED}", lambda *_: float(surprises.mean())),
        Twin(
            "Loss: the scores are compared with the inputs instead of the labels; START would be "
            "one.",
            lambda *_: float(start_too),
        ),
        Twin(
            "Loss: this is a sum. Its gradient would grow with the batch; take the mean.",
            lambda *_: float(surprises[labels != PAD_ID].sum()),
        ),
    ]
    expect_value(given, expected, "the loss", asked, twins, hint)
