"""A model and an optimizer that record the inputs, modes and gradients of a training step."""

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attentively.checks import CheckFailed, describe, show
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory


class RecordingModel(nn.Module):
    """A model of the package that records its inputs, and whether it is in training mode."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model
        self.read: list[Tensor] = []
        self.masks: list[Tensor] = []
        self.trained: list[bool] = []
        self.held: list[bool] = []
        """For each target: whether the graph of an earlier one is still stored."""

    def source_mask(self, src: Tensor) -> Tensor:
        """Return the padding mask of the source."""
        return self.model.source_mask(src)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Encode the source and decode the target; return the logits."""
        return self.decode(tgt, self.encode(src)).logits

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Encode the source, and record its mask."""
        memory = self.model.encode(src, src_mask)
        self.masks.append(memory.mask.clone())
        self.trained.append(self.model.training)
        return memory

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Decode a target, and record it."""
        self.read.append(tgt.clone())
        self.masks.append(memory.mask.clone())
        self.trained.append(self.model.training)
        self.held.append(any(saved.owner == id(self) for saved in _saved))

        def pack(tensor: Tensor) -> _Saved:
            return _Saved(tensor.detach(), id(self))

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
            return self.model.decode(tgt, memory, need_weights)

    def start(self, memory: Memory) -> None:
        """Refuse to decode one token at a time."""
        raise RuntimeError(
            "with teacher forcing, a training step calls decode once, for the whole target, and "
            "neither start nor step"
        )

    def forget(self) -> None:
        """Discard what was recorded."""
        for notes in (self.read, self.masks, self.trained, self.held):
            notes.clear()


class _Saved:
    """A tensor that a graph stores for its backward pass, which then frees it."""

    def __init__(self, tensor: Tensor, owner: int) -> None:
        self.tensor, self.owner = tensor, owner
        _saved.add(self)


_saved: weakref.WeakSet[_Saved] = weakref.WeakSet()


class RecordingOptimizer(torch.optim.SGD):
    """Gradient descent that records the gradients of each update, and its learning rates."""

    def __init__(self, groups: Sequence[Iterable[nn.Parameter]], learning_rate: float) -> None:
        super().__init__([{"params": [*group]} for group in groups], lr=learning_rate)
        self.seen: list[list[Tensor]] = []
        self.rates: list[list[float]] = []

    def forget(self) -> None:
        """Discard what was recorded."""
        self.seen.clear()
        self.rates.clear()

    def step(self, closure: Any = None) -> Any:
        """Record the gradients, and update the parameters."""
        parameters = [each for group in self.param_groups for each in group["params"]]
        self.seen.append([_gradient(parameter).clone() for parameter in parameters])
        self.rates.append([float(group["lr"]) for group in self.param_groups])
        return super().step(closure)


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def norm(gradients: Sequence[Tensor]) -> float:
    """Return the norm of all gradients together."""
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())


def shortened(gradients: Sequence[Tensor], longest: float) -> list[Tensor]:
    """Return the gradients, rescaled by one factor so that their norm is at most `longest`."""
    length = norm(gradients)
    return [gradient * min(1.0, longest / length) if length else gradient for gradient in gradients]


def close(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Return whether two lists of gradients are equal."""
    return all(torch.allclose(a, b, 1e-3, 1e-6) for a, b in zip(some, others, strict=True))


def refused(why: str, asked: Mapping[str, object], measured: str = "") -> CheckFailed:
    """Return the error with its message, the inputs, and what was measured."""
    lines = [f"  {why}", describe(asked)]
    return CheckFailed("\n".join([*lines, f"  measured    {measured}"] if measured else lines))


def examine_reading(
    model: RecordingModel, parts: Sequence[tuple[Tensor, Tensor]], asked: Mapping[str, object]
) -> None:
    """Check that each part is read once, in training mode, with the right mask and inputs."""
    if len(model.read) != len(parts):
        once = "once" if len(parts) == 1 else f"once for each of the {len(parts)} parts"
        raise refused(
            f"decode is called {len(model.read)} times in one training step; expected {once}.",
            asked,
        )
    unread = [tgt for _, tgt in parts]  # the order in which they are read does not matter
    for read in model.read:
        before_each_label = [torch.equal(read, tgt[:, :-1]) for tgt in unread]
        if any(before_each_label):
            unread.pop(before_each_label.index(True))
            continue
        why = "The decoder does not read the tokens before the labels."
        if any(torch.equal(read, tgt[:, 1:]) for tgt in unread):
            why = (
                "The target leaks: the decoder reads the labels, which are the tokens that it must "
                "predict."
            )
        elif any(torch.equal(read, tgt) for tgt in unread):
            why = "The decoder reads <end> of the longest sentence. The inputs are tgt[:, :-1]."
        raise refused(f"Inputs: {why}", asked, f"the decoder reads {show(read)}")
    right = [model.source_mask(src) for src, _ in parts]
    if not all(any(torch.equal(mask, each) for each in right) for mask in model.masks):
        raise refused(
            "Mask: the encoder or the decoder reads padding of the source like tokens. "
            "model.encode(src) uses the correct mask, and the memory passes it to the decoder.",
            asked,
        )
    if not all(model.trained):
        raise refused(
            "Mode: the model is in evaluation mode, in which dropout is switched off. Call "
            "model.train() at the beginning of a training step.",
            asked,
        )


def examine_number(optimizer: RecordingOptimizer, asked: Mapping[str, object]) -> None:
    """Check that the parameters are updated once."""
    if len(optimizer.seen) != 1:
        raise refused(
            f"Update: optimizer.step() is called {len(optimizer.seen)} times in one training step; "
            "expected once.",
            asked,
        )


def examine_update(
    optimizer: RecordingOptimizer,
    gradients: Sequence[Tensor],
    before: Sequence[Tensor],
    clip_norm: float,
    asked: Mapping[str, object],
) -> None:
    """Check that the parameters are updated once, with these gradients, clipped to `clip_norm`.

    `before` are the gradients that are stored when the step begins, if there are any.
    """
    examine_number(optimizer, asked)
    seen, length = optimizer.seen[0], norm(gradients)
    if close(seen, shortened(gradients, clip_norm)):
        return
    if norm(seen) == 0:
        why = (
            "the parameters do not change: there are no gradients when optimizer.step() is called. "
            "Is zero_grad called between backward and step?"
        )
    elif close(seen, gradients):
        why = (
            "the gradients are not clipped when the parameters are updated. Clip them after "
            "backward and before optimizer.step()."
        )
    elif length < clip_norm and close(seen, [each * clip_norm / length for each in gradients]):
        why = "gradients with a norm below clip_norm are enlarged. Clipping must not change them."
    elif before:
        why = (
            "gradients of an earlier step or of other code are still stored, and backward adds the "
            "new ones to them. Call optimizer.zero_grad() before backward."
        )
    elif close(seen, [shortened([each], clip_norm)[0] for each in gradients]):
        why = (
            "the gradient of each parameter is clipped separately, which changes the direction of "
            "the update. Call clip_grad_norm_ once, with all parameters."
        )
    elif close(seen, [each.clamp(-clip_norm, clip_norm) for each in gradients]):
        why = (
            "each entry of the gradients is clipped separately, which changes the direction of the "
            "update. Rescale all gradients by one factor: clip_grad_norm_."
        )
    else:
        why = "these are not the gradients of the mean loss, clipped together to clip_norm."
    raise refused(f"Update: {why}", asked, _difference(seen, gradients, clip_norm))


def _difference(seen: Sequence[Tensor], gradients: Sequence[Tensor], clip_norm: float) -> str:
    """Return both gradient norms or, if these are equal, the entries that differ most."""
    got, length = f"{norm(seen):.3g}", norm(gradients)
    expected = f"{min(length, clip_norm):.3g}"
    if got != expected:
        return f"gradient norm {got}; expected {expected} (before clipping {length:.3g})"
    pairs = zip(seen, shortened(gradients, clip_norm), strict=True)
    entries = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in pairs], dim=1)
    one, other = entries[:, (entries[0] - entries[1]).abs().argmax()].tolist()
    return (
        f"gradient norm {got}, as expected, but other entries: one entry is {one:.3g} instead of "
        f"{other:.3g}"
    )


def examine_rate(optimizer: RecordingOptimizer, rate: float, asked: Mapping[str, object]) -> None:
    """Check that every parameter group is updated with this learning rate."""
    rates = [each for rates in optimizer.rates for each in rates]
    right = [math.isclose(each, rate, rel_tol=1e-6) for each in rates]
    if all(right):
        return
    why = "the parameters are not updated with `rate`. Set it before optimizer.step()"
    if any(right):
        why = "only some parameters are updated with `rate`. An optimizer may have several groups"
    raise refused(
        f'Rate: {why}: for group in optimizer.param_groups: group["lr"] = rate.',
        asked,
        f"the learning rates are {rates}",
    )
