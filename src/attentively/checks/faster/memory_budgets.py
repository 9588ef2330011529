"""The memory of a training step, and the known mistakes in computing it.

`fault` names a mistake; without one, the answer is right.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attentively.checks import Twin, known

Inputs = Mapping[str, Any]
Number = int | float


def _lengths(layers: int, every: int | None) -> list[int]:
    """Return the number of layers in each segment."""
    if every is None:
        return [layers]
    return [min(every, layers - first) for first in range(0, layers, every)]


def _activations(layers: int, inside: int, edge: int, every: int | None, fault: str = "") -> Number:
    """Return the number of values that are stored at once for one sentence."""
    if every is None:
        if fault == "one edge":
            return layers * inside + edge
        return layers * (inside + edge * (fault != "no edges"))
    lengths = _lengths(layers, every)
    segments, whole = len(lengths), [every] * len(lengths)
    if fault == "no checkpoints":
        return layers * (inside + edge)
    if fault == "edges alone":
        return segments * edge
    if fault == "one layer":
        return segments * edge + inside
    if fault == "no inner edges":
        return max((j + 1) * edge + n * inside for j, n in enumerate(lengths))
    if fault == "own edge twice":
        return max((j + 1) * edge + n * (inside + edge) for j, n in enumerate(lengths))
    if fault == "layer edges":
        return layers * edge + min(every, layers) * inside
    if fault == "rounded down":
        lengths = [every] * max(1, layers // every)
    if fault == "last whole":
        lengths = whole
    if fault == "all edges":
        return max(segments * edge + n * inside + (n - 1) * edge for n in lengths)
    if fault == "divided":
        return layers / every * edge + every * inside + (every - 1) * edge
    if fault == "own edge missing":
        return max(j * edge + n * inside + (n - 1) * edge for j, n in enumerate(lengths))
    peaks = [(j + 1) * edge + n * inside + (n - 1) * edge for j, n in enumerate(lengths)]
    return {"first": peaks[0], "last": peaks[-1], "sum": sum(peaks)}.get(fault, max(peaks))


_ACTIVATION_FAULTS = {
    "no edges": "activations: Without checkpointing, each layer stores its input too (`edge` "
    "values).",
    "one edge": "activations: Every layer stores its input, not only the first one.",
    "own edge missing": "activations: The checkpoint of the segment in its backward pass is still "
    "stored.",
    "no checkpoints": "activations: `every` is ignored.",
    "edges alone": "activations: A recomputed segment also stores the `inside` values of its "
    "layers during its backward pass.",
    "one layer": "activations: The recomputed segment has several layers, and the values of all "
    "of them are stored during its backward pass.",
    "no inner edges": "activations: In the recomputed segment the inputs of the layers are stored "
    "too, except the first, which is the checkpoint.",
    "own edge twice": "activations: The input of the segment's first layer is counted twice: it "
    "is the checkpoint, which is already stored.",
    "layer edges": "activations: Only the inputs of segments are stored, not those of all layers.",
    "rounded down": "activations: The number of segments is rounded up: the last one can be "
    "shorter.",
    "last whole": "activations: The last segment can have fewer than `every` layers.",
    "all edges": "activations: In the backward pass of an earlier segment, the checkpoints after "
    "it are already released. Which segment needs most, and with how many checkpoints?",
    "divided": "activations: The number of segments is an integer: the last one has a checkpoint "
    "too, even if it is shorter.",
    "first": "activations: This is the memory of the first segment, which has the fewest "
    "checkpoints. Which segment needs most?",
    "last": "activations: This is the memory of the last segment. It can be so short that the one "
    "before it needs more.",
    "sum": "activations: The segments have their backward passes one after another: take the "
    "maximum, not the sum.",
}
_BYTES = 4


def memory(
    parameters: int, layers: int, inside: int, edge: int, batch: int, every: int | None,
    *, fault: str = "",
) -> dict[str, Number]:  # fmt: skip
    weights = _BYTES * parameters
    held = _BYTES * batch * _activations(layers, inside, edge, every, fault)
    return {"weights": weights, "gradients": weights, "moments": 2 * weights, "activations": held}


def _scaled(name: str, by: Callable[[Inputs], float]) -> Callable[..., float]:
    def answer(*asked: Any) -> Number:
        inputs = dict(zip(MEMORY_INPUTS, asked, strict=True))
        return by(inputs) * memory(*asked)[name]

    return answer


MEMORY_INPUTS = ("parameters", "layers", "inside", "edge", "batch", "every")
_SIMPLE_TWINS = {
    name: [
        *known(f"{name}: The result is in values. Return bytes: each value has "
        f"four.", _scaled(name, lambda i: 1 / _BYTES)),
        *known(
            f"{name}: A value of 32 bits has four bytes.",
            _scaled(name, lambda i: 2), _scaled(name, lambda i: 8),
        ),
    ]
    for name in ("weights", "gradients", "activations")
}  # fmt: skip
MEMORY_TWINS = {
    **_SIMPLE_TWINS,
    "moments": [
        *known(
            "moments: Adam stores two values for each parameter: averages of its gradient and of "
            "the squared gradient.",
            _scaled("moments", lambda i: 1 / 2),
        ),
        *known("moments: The result is in values. Return bytes: each value has four.",
               _scaled("moments", lambda i: 1 / 4), _scaled("moments", lambda i: 1 / 8)),
    ],
    "activations": [
        *known(
            "activations: They are proportional to the batch: each sentence has its own.",
            _scaled("activations", lambda i: 1 / i["batch"]),
        ),
        *_SIMPLE_TWINS["activations"],
        *(
            Twin(said, lambda *asked, fault=fault: memory(*asked, fault=fault)["activations"])
            for fault, said in _ACTIVATION_FAULTS.items()
        ),
    ],
}  # fmt: skip


def largest(
    parameters: int, layers: int, inside: int, edge: int, every: int | None, budget: int,
    *, fixed: int = 16, least: Number = 0, rounded: Callable[[float], float] = math.floor,
) -> Number:  # fmt: skip
    one = _BYTES * _activations(layers, inside, edge, every)
    return max(least, rounded((budget - fixed * parameters) / one))


LARGEST_INPUTS = ("parameters", "layers", "inside", "edge", "every", "budget")
LARGEST_TWINS = [
    *known(
        "largest_batch: Round down to an integer: a sentence must fit completely.",
        partial(largest, rounded=math.ceil),
        partial(largest, rounded=round),
        partial(largest, rounded=float),
        lambda *asked: largest(*asked) + 1,
    ),
    *known(
        "largest_batch: A sum of exactly `budget` bytes is allowed.",
        lambda p, layers, inside, edge, every, b: largest(p, layers, inside, edge, every, b - 1),
    ),
    *known(
        "largest_batch: Weights, gradients and moments need memory too: 16 bytes per parameter.",
        partial(largest, fixed=0),
    ),
    *known(
        "largest_batch: Weights, gradients and both moments together need 16 bytes per parameter.",
        *(partial(largest, fixed=fixed) for fixed in (4, 8, 12)),
    ),
    *known(
        "largest_batch: Weights, gradients and moments are stored once, whatever the size of the "
        "batch.",
        lambda p, layers, inside, edge, every, b: (
            b // (16 * p + _BYTES * _activations(layers, inside, edge, every))
        ),
    ),
    *known(
        "largest_batch: If not even one sentence fits, return 0.",
        partial(largest, least=-math.inf),
        partial(largest, least=1),
    ),
    *known(
        "largest_batch: `every` is ignored.",
        lambda p, layers, inside, edge, every, b: largest(p, layers, inside, edge, None, b),
    ),
]
