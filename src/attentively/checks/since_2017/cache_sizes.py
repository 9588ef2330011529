"""How many bytes a cache of keys and values takes, how long a text fits, and what goes wrong.

`fault` names what a mistake has changed; without one the answer is right.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, cast

from attentively.checks import CheckFailed, describe

Model = Mapping[str, Any]


def _places(model: Model, length: int, fault: str = "") -> list[int]:
    """Return how many places each layer holds."""
    window, every = model["window"], model["global_every"]
    if window is None and every and fault == "global alone":
        return [length] * (model["num_layers"] // every)
    if window is None or fault == "no window":
        return [length] * model["num_layers"]
    near_ones = window if fault == "always full" else min(length, window)
    if fault in ("one more", "one less"):
        near_ones = min(length, window + (1 if fault == "one more" else -1))
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
    "one less": "A window of w places holds w places, the newest included.",
    "all windowed": "Each global_every-th layer has no window, and holds all places.",
    "first too": "Layers count from 1: the first with all places is layer number global_every.",
    "exchanged": "Layers whose number is a multiple of global_every hold all places; the others "
    "have the window.",
    "global alone": "Without a window, global_every means nothing: every layer holds all places.",
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


_STEPS = 50_000
"""Lines and calls that a search may take where a few dozen words fit."""


class _NoEnd(BaseException):
    """Raised in a search that has run for too long; no `except Exception` holds it up."""


def with_an_end(candidate: object) -> object:
    """Return the function such that a search without an end is stopped and told.

    Lines of Python and calls are counted, so how fast the machine is does not matter.
    """
    if not callable(candidate):
        return candidate

    stopped = False

    @functools.wraps(cast(Callable[..., object], candidate))
    def searched(*given: object) -> object:
        nonlocal stopped
        left = _STEPS * (not stopped)  # asked again, it need not search again

        def count(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _NoEnd
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            return candidate(*given)
        except _NoEnd:
            stopped = True
            return _NoEnd
        finally:
            sys.settrace(before)

    return searched


def expect_an_end(answer: object, inputs: Mapping[str, object]) -> None:
    """Refuse what `with_an_end` returns where it had to stop a search."""
    if answer is _NoEnd:
        raise CheckFailed(
            f"  longest_text: The search has not ended after {_STEPS:,} lines. Where no layer "
            "grows any more, every longer text fits too; and 0 doubled stays 0."
            f"\n{describe(inputs)}"
        )


LONGEST_FAULTS = {
    "first too long": "This is the first length that does not fit any more.",
    "less": "What fills the memory exactly still fits.",
    "window's": "Where every layer has a window and all windows fit, no text is too long: None.",
    "zero": "Where every layer has a window and all windows fit, no text is too long: None.",
    "one row": "Each of the rows has a cache of its own.",
    "no window": "A layer with a window stops growing once the window is full.",
    "all windowed": "The layers without a window go on growing with the text.",
    "global alone": "Without a window, global_every means nothing: every layer holds all places.",
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
