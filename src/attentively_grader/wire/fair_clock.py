"""A clock for time limits that runs more slowly while processes wait for a CPU.

On a busy machine, correct code takes longer. Linux reports how long processes had to wait for a CPU
(pressure stall information). Three quarters of this time do not count, so a limit of 120 seconds
ends a cell after 120 to 480 seconds. Where the kernel reports nothing, all time counts.
"""

import time

_PRESSURE = "/proc/pressure/cpu"
_NOT_COUNTED = 0.75


def fair_time() -> float:
    """Return a time in seconds that never runs faster than real time; only differences count."""
    return time.monotonic() - _NOT_COUNTED * _waited()


def _waited() -> float:
    """Return the seconds in which at least one process of the machine waited for a CPU."""
    try:
        with open(_PRESSURE, encoding="ascii") as file:
            return int(file.readline().rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return 0.0


class _Clock:
    """Reads the kernel's report only when a limit may be reached."""

    def __init__(self) -> None:
        self._real, self._fair = time.monotonic(), fair_time()

    def left(self, until: float) -> float:
        """Return at most the seconds until a fair time; not positive only if it is reached."""
        least = until - self._fair - (time.monotonic() - self._real)
        if least > 0:
            return least
        self._real, self._fair = time.monotonic(), fair_time()
        return until - self._fair


left = _Clock().left
