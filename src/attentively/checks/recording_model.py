"""Witnesses of a training step: a model and an optimizer that note what reaches them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attentively.checks import CheckFailed, describe, show
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory


class RecordingModel(nn.Module):
    """A model of the package that notes what it reads, and whether it is being trained."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model
        self.read: list[Tensor] = []
        self.masks: list[Tensor] = []
        self.trained: list[bool] = []

    def source_mask(self, src: Tensor) -> Tensor:
        """Return the mask of every model."""
        return self.model.source_mask(src)

    def forward(self, src: Tensor, tgt: Tensor) -> DecoderOutput:
        """Encode and decode, as every model does."""
        return self.decode(tgt, self.encode(src))

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Read the source, and note its mask."""
        memory = self.model.encode(src, src_mask)
        self.masks.append(memory.mask.clone())
        self.trained.append(self.model.training)
        return memory

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Decode a target, and record it."""
        self.read.append(tgt.clone())
        self.masks.append(memory.mask.clone())
        self.trained.append(self.model.training)
        return self.model.decode(tgt, memory, need_weights)

    def forget(self) -> None:
        """Discard what was recorded."""
        for notes in (self.read, self.masks, self.trained):
            notes.clear()


class RecordingOptimizer(torch.optim.SGD):
    """Gradient descent that notes the gradients with which it moves the weights, and its rates."""

    def __init__(self, groups: Sequence[Iterable[nn.Parameter]], learning_rate: float) -> None:
        super().__init__([{"params": [*group]} for group in groups], lr=learning_rate)
        self.seen: list[list[Tensor]] = []
        self.rates: list[list[float]] = []

    def step(self, closure: Any = None) -> Any:
        """Note, and move."""
        parameters = [each for group in self.param_groups for each in group["params"]]
        self.seen.append([_gradient(parameter).clone() for parameter in parameters])
        self.rates.append([float(group["lr"]) for group in self.param_groups])
        return super().step(closure)


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def norm(gradients: Sequence[Tensor]) -> float:
    """Return the length of all gradients together."""
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())


def shortened(gradients: Sequence[Tensor], longest: float) -> list[Tensor]:
    """Return the gradients, by one factor, such that they are together no longer than this."""
    length = norm(gradients)
    return [gradient * min(1.0, longest / length) if length else gradient for gradient in gradients]


def close(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Tell whether two lists of gradients are the same."""
    return all(torch.allclose(a, b, 1e-3, 1e-6) for a, b in zip(some, others, strict=True))


def refused(why: str, asked: Mapping[str, object], measured: str = "") -> CheckFailed:
    """Return what is wrong with a step, and what was measured of it."""
    lines = [f"  {why}", describe(asked)]
    return CheckFailed("\n".join([*lines, f"  measured    {measured}"] if measured else lines))


def examine_reading(
    model: RecordingModel, parts: Sequence[tuple[Tensor, Tensor]], asked: Mapping[str, object]
) -> None:
    """See that each part is read once, in training, with its mask and without its last column."""
    if len(model.read) != len(parts):
        once = "once a step" if len(parts) == 1 else f"once for each of the {len(parts)} parts"
        raise refused(f"decode is called {len(model.read)} times; expected {once}.", asked)
    unread = [tgt for _, tgt in parts]  # the order in which they are read does not matter
    for read in model.read:
        before_each_label = [torch.equal(read, tgt[:, :-1]) for tgt in unread]
        if any(before_each_label):
            unread.pop(before_each_label.index(True))
            continue
        why = "The decoder does not read what comes before each label."
        if any(torch.equal(read, tgt[:, 1:]) for tgt in unread):
            why = (
                "The target leaks: the decoder reads the labels, and each is the very word that it "
                "is to predict."
            )
        elif any(torch.equal(read, tgt) for tgt in unread):
            why = "The decoder reads END, after which nothing comes. The inputs are tgt[:, :-1]."
        raise refused(f"Inputs: {why}", asked, f"the decoder reads {show(read)}")
    right = [model.source_mask(src) for src, _ in parts]
    if not all(any(torch.equal(mask, each) for each in right) for mask in model.masks):
        raise refused(
            "Mask: the encoder or the decoder reads padding of the source like words. "
            "model.encode(src) makes the right mask, and the memory carries it to the decoder.",
            asked,
        )
    if not all(model.trained):
        raise refused(
            "Mode: the model reads in evaluation mode, in which dropout is off. A step of "
            "training begins with model.train().",
            asked,
        )


def examine_number(optimizer: RecordingOptimizer, asked: Mapping[str, object]) -> None:
    """See that the weights move once."""
    if len(optimizer.seen) != 1:
        raise refused(
            f"Update: optimizer.step() is called {len(optimizer.seen)} times a step of training, "
            "expected once.",
            asked,
        )


def examine_update(
    optimizer: RecordingOptimizer,
    gradients: Sequence[Tensor],
    before: Sequence[Tensor],
    clip_norm: float,
    asked: Mapping[str, object],
    mistaken: Mapping[str, Sequence[Tensor]] | None = None,
) -> None:
    """See that the weights move once, by these gradients, shortened together to `clip_norm`.

    `before` are the gradients that are there when the step begins, if there are any; `mistaken`
    those that a mistake leads to, by what is to be said of it.
    """
    examine_number(optimizer, asked)
    seen, length = optimizer.seen[0], norm(gradients)
    if close(seen, shortened(gradients, clip_norm)):
        return
    of_mistakes = {said: shortened(other, clip_norm) for said, other in (mistaken or {}).items()}
    if norm(seen) == 0:
        why = (
            "the weights do not move: when the optimizer steps, there are no gradients. Does "
            "zero_grad stand between backward and step?"
        )
    elif close(seen, gradients):
        why = (
            "the gradients are not shortened when the weights move. Clipping stands between "
            "backward and optimizer.step(): before it is too early, after it too late."
        )
    elif length < clip_norm and close(seen, [each * clip_norm / length for each in gradients]):
        why = "gradients that are short enough are made longer. Clipping leaves them as they are."
    elif any(close(seen, other) for other in of_mistakes.values()):
        why = next(said for said, other in of_mistakes.items() if close(seen, other))
    elif before:
        why = (
            "the gradients of the step before are still there, or others left by something else, "
            "and backward adds to them. Call optimizer.zero_grad() before backward."
        )
    elif close(seen, [shortened([each], clip_norm)[0] for each in gradients]):
        why = (
            "each gradient is shortened by itself, which turns the direction. Their common norm is "
            "what counts: clip_grad_norm_ of all parameters at once."
        )
    elif close(seen, [each.clamp(-clip_norm, clip_norm) for each in gradients]):
        why = (
            "each number of the gradients is cut off by itself, which turns the direction. All are "
            "to be shortened by one factor: clip_grad_norm_."
        )
    else:
        why = "these are not the gradients of the mean loss, shortened together to clip_norm."
    raise refused(
        f"Update: {why}",
        asked,
        f"a norm of {norm(seen):.3g}; the batch's own gradient has {length:.3g}, shortened to "
        f"{min(length, clip_norm):.3g}",
    )


def examine_rate(optimizer: RecordingOptimizer, rate: float, asked: Mapping[str, object]) -> None:
    """See that every group of weights moves at this rate."""
    rates = [each for rates in optimizer.rates for each in rates]
    right = [math.isclose(each, rate, rel_tol=1e-6) for each in rates]
    if all(right):
        return
    why = "the weights do not move at `rate`. Set it before the optimizer steps"
    if any(right):
        why = "only some of the weights move at `rate`. An optimizer may have several groups"
    raise refused(
        f'Rate: {why}: for group in optimizer.param_groups: group["lr"] = rate.',
        asked,
        f"the rates are {rates}",
    )
