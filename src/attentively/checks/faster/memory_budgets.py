"""What a training step holds, counted, and the mistakes made in counting.

`fault` names what a mistake has changed; without one the answer is right.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attentively.checks import Twin, known

Inputs = Mapping[str, Any]
Number = int | float


def _lengths(layers: int, every: int | None) -> list[int]:
    """Return how many layers each segment has."""
    if every is None:
        return [layers]
    return [min(every, layers - first) for first in range(0, layers, every)]


def _activations(layers: int, inside: int, edge: int, every: int | None, fault: str = "") -> Number:
    """Return how many numbers are held at once for one sentence."""
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
    "no edges": "activations: Without checkpoints a layer's input is kept too: its edge numbers.",
    "one edge": "activations: Every layer keeps its input, not the first alone.",
    "own edge missing": "activations: The checkpoint of the segment that goes back is still there.",
    "no checkpoints": "activations: `every` is not used.",
    "edges alone": "activations: A segment that is computed again keeps, while it goes back, what "
    "its layers keep inside.",
    "one layer": "activations: The segment that is computed again has several layers, and all of "
    "them are kept until it has gone back.",
    "no inner edges": "activations: Inside the segment that is computed again, the layers' inputs "
    "are kept too, but for the first, which is the checkpoint.",
    "own edge twice": "activations: The input of the segment's first layer is counted twice: it is "
    "the checkpoint, and is there already.",
    "layer edges": "activations: Only the inputs of segments are kept, not those of all layers.",
    "rounded down": "activations: The last layers make a segment too, if a short one: round up.",
    "last whole": "activations: The last segment may be shorter than `every`.",
    "all edges": "activations: When an earlier segment goes back, the checkpoints after it are "
    "gone. Which segment is at its most, and with how many checkpoints?",
    "divided": "activations: Segments are whole: the last one has a checkpoint too, even if it is "
    "shorter.",
    "first": "activations: The first segment has the fewest checkpoints beside it. Which is at its "
    "most?",
    "last": "activations: The last segment may be so short that the one before it needs more.",
    "sum": "activations: One segment goes back at a time: not the sum, but the most at once.",
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
        *known(f"{name}: Asked are bytes; a number has four.", _scaled(name, lambda i: 1 / _BYTES)),
        *known(
            f"{name}: A number of 32 bits has four bytes.",
            _scaled(name, lambda i: 2), _scaled(name, lambda i: 8),
        ),
    ]
    for name in ("weights", "gradients", "activations")
}  # fmt: skip
MEMORY_TWINS = {
    **_SIMPLE_TWINS,
    "moments": [
        *known(
            "moments: Adam keeps two numbers for each parameter: the mean of its gradients, and of "
            "their squares.",
            _scaled("moments", lambda i: 1 / 2),
        ),
        *known("moments: Asked are bytes; a number has four.", _scaled("moments", lambda i: 1 / 4),
               _scaled("moments", lambda i: 1 / 8)),
    ],
    "activations": [
        *known(
            "activations: They grow with the batch: every sentence has its own.",
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
        "largest_batch: Round down: a sentence that fits in part does not fit.",
        partial(largest, rounded=math.ceil),
        partial(largest, rounded=round),
        partial(largest, rounded=float),
        lambda *asked: largest(*asked) + 1,
    ),
    *known(
        "largest_batch: Exactly full is not too full.",
        lambda p, layers, inside, edge, every, b: largest(p, layers, inside, edge, every, b - 1),
    ),
    *known(
        "largest_batch: Weights, gradients and moments take their place too: 16 bytes a parameter.",
        partial(largest, fixed=0),
    ),
    *known(
        "largest_batch: Weights, gradients and both moments are 16 bytes a parameter.",
        *(partial(largest, fixed=fixed) for fixed in (4, 8, 12)),
    ),
    *known(
        "largest_batch: Weights, gradients and moments are there once, however large the batch is.",
        lambda p, layers, inside, edge, every, b: (
            b // (16 * p + _BYTES * _activations(layers, inside, edge, every))
        ),
    ),
    *known(
        "largest_batch: Where not even one sentence fits, the answer is 0.",
        partial(largest, least=-math.inf),
        partial(largest, least=1),
    ),
    *known(
        "largest_batch: `every` is not used.",
        lambda p, layers, inside, edge, every, b: largest(p, layers, inside, edge, None, b),
    ),
]
