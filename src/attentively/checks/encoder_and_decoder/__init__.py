"""Checks of the assignment on encoder and decoder: targets, loss, free running, exposure bias.

The answers of parts 1 to 5 are compared with the recordings in this folder; no function here is the
answer of a part. In part 6 the check records what a model reads and which gradients its optimizer
receives.
"""

import copy
import functools
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_gradients,
    expect_pair,
    expect_value,
    once_solved,
    open_call,
    plain_number,
)
from attentively.checks.compare import alike, kind_of, listed
from attentively.checks.recording_model import (
    RecordingModel,
    RecordingOptimizer,
    examine_reading,
    examine_update,
    refused,
)
from attentively.checks.recordings import Topic
from attentively.data import toy
from attentively.data.batches import Batch, collate, encode_pairs, pad
from attentively.data.pairs import Pair
from attentively.generation.generate import translate
from attentively.generation.search import greedy_search
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import Seq2SeqConfig
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID
from attentively.training import objectives

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

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
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


# Other models and batches


def untrained(seed: int = 0) -> Seq2Seq:
    """Return a small untrained model with the vocabularies of the trained one."""
    config = translator().config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Seq2Seq(replace(config, embedding_dim=32, encoder_dim=32, decoder_dim=64))


def small_model(seed: int = 1) -> Seq2Seq:
    """Return an untrained model with 13 tokens on each side, whose logits differ clearly."""
    return copy.deepcopy(_small_model(seed))


@functools.cache
def _small_model(seed: int) -> Seq2Seq:
    config = Seq2SeqConfig(13, 13, 5, 3, 7, attention="fixed", dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Seq2Seq(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0)
    return model


def random_batch(src_lengths: Sequence[int], tgt_lengths: Sequence[int], seed: int = 0) -> Batch:
    """Return random sentences with these numbers of words, with special tokens, of 13 tokens."""
    generator = torch.Generator().manual_seed(seed)

    def row(length: int) -> list[int]:
        return torch.randint(4, 13, (length,), generator=generator).tolist()

    src = [[*row(length), END_ID] for length in src_lengths]
    tgt = [[START_ID, *row(length), END_ID] for length in tgt_lengths]
    return Batch(pad(src), pad(tgt))


@dataclass(frozen=True)
class _Read:
    """The state of a scripted model: for each row its source and the tokens read so far."""

    which: list[int]
    tokens: list[list[int]]

    def select(self, rows: Tensor) -> Self:
        """Return the state of the chosen rows."""
        chosen = rows.tolist()
        return type(self)([self.which[row] for row in chosen], [self.tokens[row] for row in chosen])


class _Scripted(EncoderDecoder[_Read]):
    """A model whose logits follow from the tokens that it has read.

    A source that begins with 11 is the first one, a source that begins with 12 the second one.
    """

    calls = 0
    """How often the model has decoded."""

    @abstractmethod
    def logits_after(self, which: int, read: list[int]) -> Tensor:
        """Return the logits of the next token for a source."""

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> _Read:
        """Return the state before the first input."""
        which = [int(row) - 11 for row in memory.outputs[:, 0, 0]]
        return _Read(which, [[] for _ in which])

    def step(self, token: Tensor, state: _Read) -> tuple[Tensor, _Read]:
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

    def _read(self, token: Tensor, state: _Read) -> tuple[Tensor, _Read]:
        read = [[*row, index] for row, index in zip(state.tokens, token.tolist(), strict=True)]
        logits = [self.logits_after(*row) for row in zip(state.which, read, strict=True)]
        return torch.stack(logits), replace(state, tokens=read)


_JUNK, _LOST = 9, 10
"""Outputs of a scripted model after its <end>, and after inputs that are not its own outputs."""


class ScriptedModel(_Scripted):
    """A model that outputs given texts, one for each source.

    It does so only if its inputs are <start> and then its own outputs. After <end> it outputs 9.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.texts = texts

    def __repr__(self) -> str:
        return f"a model that outputs {', '.join(map(str, self.texts))}"

    def logits_after(self, which: int, read: list[int]) -> Tensor:
        """Return the logits of the next token of the text."""
        whole, said = [START_ID, *self.texts[which], END_ID], len(read)
        following = _LOST + (read[-1] == START_ID)
        if read[: len(whole)] == whole:
            following = _JUNK
        elif read == whole[:said]:
            following = whole[said]
        return F.one_hot(torch.tensor(following), 13).float()


class PlantedLossModel(_Scripted):
    """A model with a fixed negative log-likelihood of each label.

    It is `surprises[row][t]` nats at label t of the reference, and one nat more for every input so
    far that is not that of the reference.
    """

    def __init__(self, tgt: Tensor, surprises: Sequence[Sequence[float]]) -> None:
        super().__init__()
        self.tgt = tgt.tolist()
        self.surprises = surprises

    def __repr__(self) -> str:
        return f"a model with the losses {self.surprises} of the labels"

    def logits_after(self, which: int, read: list[int]) -> Tensor:
        """Return logits that give the negative log-likelihood of the label after these inputs."""
        gold, t = self.tgt[which], len(read) - 1
        others = sum(one != other for one, other in zip(read, gold, strict=False))
        probability = math.exp(-self.surprises[which][min(t, len(gold) - 2)] - others)
        logits = torch.full((23,), math.log((1 - probability) / 22))
        logits[gold[t + 1] if t + 1 < len(gold) else PAD_ID] = math.log(probability)
        return logits


# Part 1


def _ids(answer: object, what: str, inputs: Inputs) -> Tensor:
    """Return the answer if it is a tensor."""
    if type(answer) is not Tensor:
        raise CheckFailed(
            f"  Expected {what} as a torch.Tensor, got {kind_of(answer)}\n{describe(inputs)}"
        )
    return answer


def _read_ids(answer: object, what: str, inputs: Inputs) -> object:
    """Return the inputs of a decoder as lists; where the label is padding, any id is right."""
    ids, tgt = _ids(answer, what, inputs), inputs["tgt"]
    if ids.shape == tgt[:, 1:].shape:
        ids = ids.where(tgt[:, 1:] != PAD_ID, tgt[:, :-1])
    return ids.tolist()


def _shifted(answer: object, inputs: Inputs) -> dict[str, object]:
    read, labels = expect_pair(answer, ("inputs", "labels"), inputs)
    return {
        "inputs": _read_ids(read, "the inputs", inputs),
        "labels": _ids(labels, "the labels", inputs).tolist(),
    }


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
    _topic.examine(
        "make_targets",
        make_targets,
        thorough,
        tidy=lambda answer, inputs: _ids(answer, "the targets", inputs).tolist(),
    )
    _topic.examine("shift_right", shift_right, thorough, tidy=_shifted)


# Part 2


@_parts.part(
    "loss with teacher forcing",
    "teacher_forced_loss",
    rebuilds=("attentively.training.objectives:teacher_forced_loss",),
    refuses=("attentively.training.losses:cross_entropy",),
)
def loss(candidate: object, thorough: bool = False) -> None:
    """Check the mean negative log-likelihood of the labels, with small and trained models."""
    _topic.examine("teacher_forced_loss", candidate, thorough, tidy=_expect_loss)
    open_call.once(_expect_gradients, candidate)


def _expect_gradients(candidate: object) -> None:
    model = small_model()
    batch = random_batch((2, 3), (3, 2))
    answer = call(candidate, {"model": model, "src": batch.src, "tgt": batch.tgt})
    sources = {
        "the decoder's parameters": model.decoder.output.weight,
        "the encoder's parameters": cast(Tensor, model.encoder.gru.weight_ih_l0),
    }
    found = expect_gradients(cast(Tensor, answer), sources)
    right = expect_gradients(objectives.teacher_forced_loss(model, batch), sources)
    for name in sources:
        if not torch.allclose(found[name], right[name], rtol=1e-3, atol=1e-5):
            raise CheckFailed(
                f"  The loss is right, but the gradient of {name} is not: a part of it is missing. "
                "Does .detach(), .data, .item() or torch.no_grad() interrupt the path from some of "
                "the labels?"
            )


def _expect_loss(answer: object, inputs: Inputs) -> object:
    if isinstance(answer, float):
        raise CheckFailed(
            "  Expected the loss as a torch.Tensor, got a float: a plain number, which has no "
            "gradient. Return the tensor, without .item() or float()."
        )
    if isinstance(answer, DecoderOutput):
        raise CheckFailed(
            "  Expected the loss, a tensor without axes, but got the output of decode."
        )
    return answer


# Part 3


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
    with torch.no_grad():
        _topic.examine("write", candidate, thorough, tidy=_in_lists)
    open_call.once(_expect_end, candidate)


def _expect_end(candidate: object) -> None:
    both = torch.tensor([[11, END_ID], [12, END_ID]])
    # 3 calls for the batch, or 3 and 2 for one sentence after the other
    _count_calls(
        candidate,
        {"model": ScriptedModel([[5, 6], [7]]), "src": both, "max_len": 50},
        5,
        "when the last sentence has ended: the decoder was called {calls} times for outputs of "
        "2 and 1 words. Expected 3 calls.",
    )
    _count_calls(
        candidate,
        {"model": ScriptedModel([[5, 7, 6, 8]]), "src": both[:1], "max_len": 3},
        3,
        "after max_len steps: the decoder was called {calls} times, and max_len is 3.",
    )


def _count_calls(candidate: object, inputs: Inputs, most: int, said: str) -> None:
    with torch.no_grad():
        call(candidate, inputs)
    calls = inputs["model"].calls
    if calls > most:
        raise CheckFailed(
            "  The outputs are correct, but the loop does not stop "
            f"{said.format(calls=calls)}\n{describe(inputs)}"
        )


def _in_lists(answer: object, inputs: Inputs) -> object:
    if type(answer) is Tensor and ((answer == PAD_ID) | (answer == END_ID)).any():
        raise CheckFailed(
            "  Expected a list with one list of ids per sentence, but got a tensor. The outputs "
            f"differ in length.\n{describe(inputs)}"
        )
    return answer


# Part 4


@_parts.part("exposure bias", "mixed_inputs", "loss_after")
def exposure(mixed_inputs: object, loss_after: object, thorough: bool = False) -> None:
    """Check the mixed inputs, then the losses of models with given losses and the trained one."""
    _topic.examine(
        "mixed_inputs",
        mixed_inputs,
        thorough,
        tidy=lambda answer, inputs: _read_ids(answer, "the mixed inputs", inputs),
    )
    with torch.no_grad():
        _topic.examine("loss_after", loss_after, thorough, tidy=_two_losses)


def _two_losses(answer: object, inputs: Inputs) -> tuple[object, ...]:
    names = "the loss after reference inputs", "the loss after mixed inputs"
    return rounded(expect_pair(listed(answer), names, inputs))


def rounded(values: Iterable[object]) -> tuple[object, ...]:
    """Return numbers with six digits, as messages show them, and other values unchanged."""
    numbers = ((value, plain_number(value)) for value in values)
    return tuple(each if n is None else float(f"{n:.6g}") for each, n in numbers)


# Part 5


@_parts.part("calls, counts and shapes", "counts", "shapes")
def predictions(counts: object, shapes: object, thorough: bool = False) -> None:
    """Compare the predicted counts and shapes with those of a model of the package."""
    _topic.examine("counts", counts, thorough)
    _topic.examine("shapes", shapes, thorough)


# Part 6


@_parts.part("debugging", "training_step")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check a training step: what the model reads, the loss, and the update of the parameters."""
    cases: list[tuple[Sequence[int], Sequence[int], float, Sequence[bool]]] = [
        ((2, 3), (1, 3), 0.1, (False, True)),
        ((1,), (2,), 100.0, (False,)),
    ]
    if thorough:
        cases.append(((5, 2, 1), (2, 5, 3), 0.03, (False,)))
    for case in open_call.new("step", cases):
        _watch(candidate, *case)


def _watch(
    candidate: object,
    src_lengths: Sequence[int],
    tgt_lengths: Sequence[int],
    clip_norm: float,
    steps: Sequence[bool],
) -> None:
    """Watch one step after the other, each with or without gradients of something else."""
    inside, twin = small_model(), small_model()
    model, optimizer = RecordingModel(inside), RecordingOptimizer([inside.parameters()], 0.5)
    model.eval()  # as after a validation

    def step(src: Tensor, tgt: Tensor, clip_norm: float) -> object:
        return candidate(model, optimizer, src, tgt, clip_norm)  # type: ignore[operator]

    step.__name__ = getattr(candidate, "__name__", "")
    for number, stored in enumerate(steps, start=1):
        before: list[Tensor] = []
        if stored:
            before = [torch.ones_like(parameter) for parameter in inside.parameters()]
            for parameter, gradient in zip(inside.parameters(), before, strict=True):
                parameter.grad = gradient.clone()
        batch = random_batch(src_lengths, tgt_lengths, seed=number)
        asked = {"src": batch.src, "tgt": batch.tgt, "clip_norm": clip_norm}
        twin.load_state_dict(inside.state_dict())
        expected = objectives.teacher_forced_loss(twin, batch)
        gradients = list(torch.autograd.grad(expected, list(twin.parameters())))
        model.forget()
        optimizer.seen.clear()
        answer = call(step if callable(candidate) else candidate, asked, trains=True)
        examine_reading(model, [(batch.src, batch.tgt)], asked)
        _examine_loss(answer, twin, batch, expected, asked)
        examine_update(optimizer, gradients, before, clip_norm, asked)


def _examine_loss(
    answer: object, twin: Seq2Seq, batch: Batch, expected: Tensor, asked: Inputs
) -> None:
    if type(answer) is Tensor and answer.requires_grad:
        raise refused(
            "Loss: the returned tensor still refers to the computation graph of the step, which "
            "stays in memory with it. Return a plain number: loss.item().",
            asked,
        )

    def diagnose(got: object) -> str:
        read, labels = batch.tgt[:, :-1], batch.tgt[:, 1:]
        with torch.no_grad():
            scores = twin(batch.src, read).transpose(1, 2)
        real: dict[str, Any] = {"ignore_index": PAD_ID}
        known = {
            "Padding is included in the loss. Leave out the positions where the label is "
            "padding.": (labels, {}),
            "the logits are compared with the inputs instead of the labels.": (read, real),
            "this is a sum, whose gradient grows with the batch. Return the mean.": (
                labels,
                real | {"reduction": "sum"},
            ),
        }
        for said, (compared, how) in known.items():
            if alike(got, float(F.cross_entropy(scores, compared, **how))):
                return f"Loss: {said}"
        return ""

    hint = "Loss: expected the mean negative log-likelihood of the labels, before the update."
    given = plain_number(answer)
    expect_value(given, float(expected.detach()), "the loss", asked, hint=hint, diagnose=diagnose)
