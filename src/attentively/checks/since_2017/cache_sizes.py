"""The size of a key–value cache, the longest text that fits, and common mistakes.

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
    """Return how many positions each layer stores."""
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
    "once": "Keys and values are both stored, so there are twice as many values.",
    "queries too": "Queries are not stored: only the newest query is needed.",
    "all heads": "The heads of a group share keys and values: num_kv_heads heads are stored.",
    "one group": "Each of the num_kv_heads heads has its own keys and values.",
    "per group": "num_kv_heads is the number of stored heads, not the number that share one.",
    "no bytes": "This is the number of values. Each value takes bytes_per_number bytes.",
    "bits": "This is the number of bits; expected the number of bytes.",
    "one row": "Each of the `rows` texts has its own cache.",
    "one layer": "Each layer has its own cache.",
    "no window": "A layer with a window stores only the last `window` positions.",
    "always full": "A text that is shorter than the window fills only a part of it.",
    "one more": "A window of w stores w positions, including the newest.",
    "one less": "A window of w stores w positions, including the newest.",
    "all windowed": "Every global_every-th layer has no window and stores all positions.",
    "first too": "Layers are numbered from 1: the first without a window is number global_every.",
    "exchanged": "Layers whose number is a multiple of global_every store all positions; the "
    "others have the window.",
    "global alone": "If window is None, global_every has no meaning: all layers store all "
    "positions.",
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
"""Lines and calls that a search may take where a few dozen tokens fit."""


class _NoEnd(BaseException):
    """Raised in a search that has run for too long; `except Exception` does not catch it."""


def with_an_end(candidate: object) -> object:
    """Return the function, so that an endless search is stopped and reported.

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
    """Refuse the value that `with_an_end` returns if it had to stop a search."""
    if answer is _NoEnd:
        raise CheckFailed(
            f"  longest_text: The search was stopped after {_STEPS:,} lines. If no layer grows any "
            "more, every longer text fits; and doubling 0 gives 0."
            f"\n{describe(inputs)}"
        )


LONGEST_FAULTS = {
    "first too long": "This is the first length that does not fit; expected the last that fits.",
    "less": "A cache that fills the memory exactly still fits.",
    "window's": "If every layer has a window and all full windows fit, any length fits: expected "
    "None.",
    "zero": "If every layer has a window and all full windows fit, any length fits: expected None.",
    "one row": "Each of the `rows` texts has its own cache.",
    "no window": "A layer with a window stops growing when the window is full.",
    "all windowed": "The layers without a window keep growing with the text.",
    "global alone": "If window is None, global_every has no meaning: all layers store all "
    "positions.",
    "always full": "A text that is shorter than the window fills only a part of it.",
    "all heads": "The heads of a group share keys and values: num_kv_heads heads are stored.",
    "once": "Keys and values are both stored.",
    "no bytes": "The memory is given in bytes, and each value takes bytes_per_number bytes.",
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
