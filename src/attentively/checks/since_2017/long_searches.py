"""Stop a student's search for the longest text if it does not end."""

import functools
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, cast

from attentively.checks import CheckFailed, describe
from attentively.checks.question import Results

_STEPS = 50_000
"""Lines and calls that a search may take where a few dozen tokens fit."""
_MOST_MEMORY = 10**6
"""With more memory, more tokens fit, and a search is not stopped."""


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
    def searched(model: object, memory: int, rows: int) -> object:
        nonlocal stopped
        if memory > _MOST_MEMORY:
            return candidate(model, memory, rows)
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
            return candidate(model, memory, rows)
        except _NoEnd:
            stopped = True
            return _NoEnd
        finally:
            sys.settrace(before)

    return searched


def expect_an_end(results: Results, inputs: Mapping[str, Any]) -> None:
    """Refuse the value that `with_an_end` returns if it had to stop a search."""
    if any(each is _NoEnd for each in results.values()):
        raise CheckFailed(
            f"  longest_text: The search was stopped after {_STEPS:,} lines. If no layer grows any "
            f"more, every longer text fits; and doubling 0 gives 0.\n{describe(inputs)}"
        )
