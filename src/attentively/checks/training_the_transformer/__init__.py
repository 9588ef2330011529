"""Checks of the assignment on training: loss, schedule, batches, training step, and two problems.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. Parts 1 to 4 rebuild the training code of the package, and a student's step must train a small
Transformer of the package. Parts 5 and 6 are original problems: part 5 asks for the faults of
recorded training runs, part 6 for two values that are known before any training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

from attentively.checks import (
    CheckFailed,
    Parts,
    call_twice,
    describe,
    once_solved,
    open_call,
    plain_number,
)
from attentively.checks.given_models import copy_of
from attentively.checks.question import Recorded
from attentively.checks.recording_model import (
    RecordingModel,
    RecordingOptimizer,
    examine_number,
    examine_rate,
    examine_reading,
    norm,
    refused,
)
from attentively.checks.recordings import Topic
from attentively.checks.training_the_transformer.recorded_runs import (
    CHECKED,
    SIGNS,
    fault_of,
    logs,
    runs_of,
    show_log,
    table,
)
from attentively.data import toy
from attentively.data.batches import Example, collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.models.configs import TransformerConfig
from attentively.models.interface import evaluating
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary, WordTokenizer
from attentively.training.losses import cross_entropy

__all__ = [
    "batching",
    "diagnosis",
    "fault_of",
    "logs",
    "loss_on_new_sentences",
    "once_solved",
    "prediction",
    "progress",
    "ready",
    "schedule",
    "sentences",
    "show_log",
    "smoothing",
    "training",
    "untrained",
]

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Report that the package, its toy sentences and these checks work."""
    _parts.explain_undefined_names()
    count = sum(each.numel() for each in untrained().parameters())
    print(f"PyTorch {torch.__version__}. The small Transformer has {count:,} parameters.")
    print(f"Ids: <pad> {PAD_ID}, <start> {START_ID}, <end> {END_ID}. Ready.")


@cache
def _tokenizers() -> tuple[WordTokenizer, WordTokenizer]:
    src, tgt = (WordTokenizer(Vocabulary(toy.words(side))) for side in ("src", "tgt"))
    return src, tgt


def sentences(split: str, number: int, clauses: tuple[int, ...] = (1,)) -> list[Example]:
    """Return toy sentence pairs as token ids: `.src` and `.tgt`."""
    pairs = toy.load(split, number, clauses=clauses)
    return encode_pairs([Pair(pair.src_text, pair.tgt_text) for pair in pairs], *_tokenizers())


def untrained(seed: int = 0, d_model: int = 32) -> Transformer:
    """Return a small untrained Transformer with the vocabulary of the toy language."""
    src, tgt = _tokenizers()
    config = TransformerConfig(
        src_vocab_size=len(src), tgt_vocab_size=len(tgt), d_model=d_model, num_heads=4,
        d_ff=2 * d_model, num_layers=1, dropout=0.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)


def loss_on_new_sentences(model: Transformer) -> float:
    """Return the cross-entropy of 200 validation sentences, in nats per token."""
    batch = collate(sentences("validation", 200))
    with evaluating(model):
        logits = model(batch.src, batch.tgt[:, :-1])
    return float(cross_entropy(logits, batch.tgt[:, 1:], PAD_ID))


# Part 1


@_parts.part(
    "label smoothing",
    "smoothed_targets",
    "smoothed_loss",
    rebuilds=("attentively.training.losses:cross_entropy",),
    refuses=("torch.nn.functional:cross_entropy",),
)
def smoothing(smoothed_targets: object, smoothed_loss: object, thorough: bool = False) -> None:
    """Check the smoothed target distribution, and the smoothed loss without padding."""
    _topic.examine("smoothed_targets", smoothed_targets, thorough)
    _topic.examine("smoothed_loss", smoothed_loss, thorough)


# Part 2


@_parts.part(
    "learning-rate schedule",
    "learning_rate",
    rebuilds=(
        "attentively.training.schedules:inverse_square_root",
        "attentively.training.schedules:paper_learning_rate",
    ),
)
def schedule(learning_rate: object, thorough: bool = False) -> None:
    """Check the learning rate of single steps: worked by hand, during the warm-up and after it."""
    _topic.examine("learning_rate", learning_rate, thorough)


# Part 3


@_parts.part(
    "batches by tokens",
    "token_batches",
    "padding_share",
    rebuilds=("attentively.data.batches:shuffled",),
    step=True,
)
def batching(token_batches: object, padding_share: object, thorough: bool = False) -> None:
    """Check batches with a token limit, and the share of padding in given batches."""
    _topic.examine("token_batches", token_batches, thorough, explain=_what_is_off)
    _topic.examine("padding_share", padding_share, thorough)


def _what_is_off(answer: object, recorded: Recorded) -> str:
    """Return which property of the batches is violated, if no known mistake explains them."""
    sizes, limit = recorded.case.inputs["sizes"], recorded.case.inputs["limit"]
    try:
        batches = [[int(index) for index in batch] for batch in cast(Any, answer)]
        found = sorted(index for batch in batches for index in batch)
        if found != list(range(len(sizes))):
            return "Each index must be in exactly one batch."
        for batch in batches:
            needed = len(batch) * max(max(sizes[index]) for index in batch)
            if needed > limit:
                return f"The batch {batch} needs {needed} positions; the limit is {limit}."
    except (TypeError, ValueError, IndexError):
        return "Expected a list of lists of indices."
    return (
        "Begin with the shortest pair; pairs of equal length keep their order. A new batch begins "
        "only if the next pair does not fit."
    )


# Part 4

VOCAB_SIZE = 13


@cache
def _small_model() -> Transformer:
    """Return an untrained Transformer whose logits are far from equal."""
    config = TransformerConfig(
        src_vocab_size=VOCAB_SIZE, tgt_vocab_size=VOCAB_SIZE, d_model=8, num_heads=2, d_ff=11,
        num_layers=1, dropout=0.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Transformer(config)
        with torch.no_grad():
            model.output.weight.mul_(3.0)
        for parameter in model.parameters():  # of something that came before the first step
            parameter.grad = torch.randn_like(parameter)
    return model


@dataclass(frozen=True)
class _Step:
    """What a training step returned, and what the model and the optimizer recorded."""

    loss: Any
    model: RecordingModel
    optimizer: RecordingOptimizer


def stepped(update: object) -> Any:
    """Return a function that performs training steps with the candidate on a small model."""
    if not callable(update):
        return update

    def run(
        parts: list[tuple[Tensor, Tensor]], rate: float, clip_norm: float, smoothing: float,
        steps: int = 1,
    ) -> _Step:  # fmt: skip
        inside = copy_of(_small_model())
        model = RecordingModel(inside)
        first, *others = inside.parameters()
        optimizer = RecordingOptimizer([[first], others], 0.5)  # two groups
        for _ in range(steps):
            model.eval()  # as a validation leaves it
            model.forget()
            optimizer.forget()
            with torch.enable_grad():
                loss = update(model, optimizer, parts, rate, clip_norm, smoothing)
        return _Step(loss, model, optimizer)

    run.__name__ = getattr(update, "__name__", "")
    return run


def results_of(step: _Step) -> tuple[Any, dict[str, float]]:
    """Return the loss of the last step, the norm of its gradients and some of their entries."""
    number = plain_number(step.loss)
    gradients = step.optimizer.seen[0]
    names = [name for name, _ in step.model.model.named_parameters()]
    found = {"gradient norm": norm(gradients)}
    for name, gradient in [*zip(names, gradients, strict=True)][::4]:
        middle = gradient.numel() // 2
        found[f"{name}, entry {middle}"] = float(gradient.flatten()[middle])
    rounded = {name: float(f"{value:.6g}") for name, value in found.items()}
    return step.loss if number is None else number, rounded


def _examined(step: _Step, inputs: Inputs) -> tuple[Any, dict[str, float]]:
    """Return the results of a step that uses the model and the optimizer in the right way."""
    examine_reading(step.model, inputs["parts"], inputs)
    if any(step.model.held):
        raise refused(
            "Memory: the computation graph of an earlier part is still stored when the next part "
            "is decoded, so all parts need as much memory as the whole batch. Call backward for "
            "each part before the next one is decoded, and without retain_graph.",
            inputs,
        )
    examine_number(step.optimizer, inputs)
    if type(step.loss) is Tensor and step.loss.requires_grad:
        raise refused(
            "Loss: the returned tensor still holds the computation graph of the step, so a list of "
            "such losses would fill the memory. Return a number: .item().",
            inputs,
        )
    examine_rate(step.optimizer, inputs["rate"], inputs)
    return results_of(step)


def _explain_step(got: object, recorded: Recorded) -> str:
    if isinstance(got, dict):
        return (
            "Update: these are not the gradients of the mean loss, clipped together to clip_norm."
        )
    return "Loss: this is not the mean smoothed loss over all labels, tgt[:, 1:] without PAD_ID."


@_parts.part(
    "training step",
    "update",
    "mean_weights",
    rebuilds=("attentively.models.checkpoints:mean_weights",),
    refuses=("attentively.training.trainer:Trainer",),
)
def training(update: object, mean_weights: object, thorough: bool = False) -> None:
    """Check training steps on a small model, and an average of states."""
    _topic.examine("update", stepped(update), thorough, tidy=_examined, explain=_explain_step)
    _topic.examine("mean_weights", mean_weights, thorough, tidy=_as_state)


def _as_state(answer: object, inputs: Inputs) -> dict[str, object]:
    names = [*inputs["states"][0]]
    if not isinstance(answer, dict):
        raise CheckFailed(
            f"  mean_weights: Expected a dict from names to tensors, got {type(answer).__name__}\n"
            + describe(inputs)
        )
    if set(answer) != set(names):
        raise CheckFailed(
            "  mean_weights: The names differ from those of the states.\n"
            f"{describe(inputs)}\n  got         {list(answer)}\n  expected    {names}"
        )
    return {name: answer[name] for name in names}


# Part 5


@_parts.part("diagnosing training faults", "diagnose")
def diagnosis(diagnose: object, thorough: bool = False) -> None:
    """Check the diagnosis of recorded runs that are not shown; grading uses all runs."""
    for fault, log in open_call.new("runs", runs_of(0 if thorough else CHECKED)):
        answer = call_twice(diagnose, {"log": log})
        if answer == fault and isinstance(answer, str):
            continue
        if not isinstance(answer, str) or answer not in SIGNS:
            names = ", ".join(map(repr, SIGNS))
            raise CheckFailed(f"  diagnose: Expected one of {names}; got {answer!r}")
        lines = [
            f"  diagnose returns {answer!r} for a run whose fault is {fault!r}. In its log, "
            f"{SIGNS[fault]}",
            *table(log)[:: 1 if len(log) < 6 else 3],
        ]
        raise CheckFailed("\n".join(lines))


# Part 6


@_parts.part("predictions before training", "at_best", "steps_at")
def prediction(at_best: object, steps_at: object, thorough: bool = False) -> None:
    """Check the lowest smoothed loss, its perplexity, and the steps above a learning rate."""
    _topic.examine("at_best", at_best, thorough)
    _topic.examine("steps_at", steps_at, thorough)
