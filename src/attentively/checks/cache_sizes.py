"""How many bytes a cache of keys and values takes, how long a text fits, and what goes wrong.

`fault` names what a mistake has changed; without one the answer is right.
"""

from collections.abc import Mapping
from typing import Any

Model = Mapping[str, Any]


def _places(model: Model, length: int, fault: str = "") -> list[int]:
    """Return how many places each layer holds."""
    window, every = model["window"], model["global_every"]
    if window is None or fault == "no window":
        return [length] * model["num_layers"]
    near_ones = window if fault == "always full" else min(length, window)
    if fault == "one more":
        near_ones = min(length, window + 1)
    if every is None or fault == "all windowed":
        return [near_ones] * model["num_layers"]
    far = 1 if fault == "first too" else 0
    layers = range(1, model["num_layers"] + 1)
    exchanged = fault == "exchanged"
    return [length if ((n % every == far % every) != exchanged) else near_ones for n in layers]


def weighed(model: Model, length: int, rows: int, *, fault: str = "") -> int:
    heads = model["num_heads"] if fault == "all heads" else model["num_kv_heads"]
    if fault == "one group":
        heads = 1
    if fault == "per group":
        heads = model["num_heads"] // model["num_kv_heads"]
    twice = {"once": 1, "queries too": 3}.get(fault, 2)
    size = {"no bytes": 1, "bits": 8 * model["bytes_per_number"]}.get(
        fault, model["bytes_per_number"]
    )
    held = sum(_places(model, length, fault))
    if fault == "one layer":
        held //= model["num_layers"]
    return int(twice * heads * model["d_head"] * held * (fault == "one row" or rows) * size)


WEIGHT_FAULTS = {
    "once": "Keys and values are both held: twice as many numbers.",
    "queries too": "Queries are not held: nothing looks at an old query again.",
    "all heads": "Heads of a group share their keys and values: num_kv_heads are held.",
    "one group": "Every one of the num_kv_heads has keys and values of its own.",
    "per group": "num_kv_heads is how many heads are held, not how many share one.",
    "no bytes": "These are numbers. Each takes bytes_per_number bytes.",
    "bits": "These are bits; bytes are asked for.",
    "one row": "Each of the rows has a cache of its own.",
    "one layer": "Each layer has a cache of its own.",
    "no window": "A layer with a window holds the last `window` places only.",
    "always full": "A text shorter than the window fills only a part of it.",
    "one more": "A window of w places holds w places, the newest included.",
    "all windowed": "Each global_every-th layer has no window, and holds all places.",
    "first too": "Layers count from 1: the first with all places is layer number global_every.",
    "exchanged": "Layers whose number is a multiple of global_every hold all places; the others "
    "have the window.",
}


def longest(model: Model, memory: int, rows: int, *, fault: str = "") -> int | None:
    def fits(length: int) -> bool:
        taken = weighed(model, length, rows, fault=fault)
        return taken < memory if fault == "less" else taken <= memory

    most = 1 << 60
    if fits(most):
        return {"endless": most, "window's": model["window"], "zero": 0}.get(fault)
    low = 0
    while low < most - 1:
        middle = (low + most) // 2
        low, most = (middle, most) if fits(middle) else (low, middle)
    return low + (fault == "first too long")


LONGEST_FAULTS = {
    "first too long": "This is the first length that does not fit any more.",
    "less": "What fills the memory exactly still fits.",
    "window's": "Where every layer has a window and all windows fit, no text is too long: None.",
    "zero": "Where every layer has a window and all windows fit, no text is too long: None.",
    "one row": "Each of the rows has a cache of its own.",
    "no window": "A layer with a window stops growing once the window is full.",
    "all windowed": "The layers without a window go on growing with the text.",
    "always full": "A text shorter than the window fills only a part of it.",
    "all heads": "Heads of a group share their keys and values: num_kv_heads are held.",
    "once": "Keys and values are both held.",
    "no bytes": "The memory is in bytes, and each number takes bytes_per_number of them.",
}


def cache_model(
    num_layers: int, num_heads: int, num_kv_heads: int, d_head: int, bytes_per_number: int = 2,
    window: int | None = None, global_every: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "d_head": d_head,
        "bytes_per_number": bytes_per_number,
        "window": window,
        "global_every": global_every,
    }
