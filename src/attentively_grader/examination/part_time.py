"""The time of the parts of a notebook.

A part is a graded cell with the cells before it. Half of the time of a notebook is divided equally
among its parts and reserved for them; the other half is for any of them. Therefore a part that
wastes its time takes none of the time that is reserved for later parts.
"""

import time

from attentively_grader.jobs import Limits


class PartTime:
    """The time that is left for the present part."""

    def __init__(self, limits: Limits, parts: int) -> None:
        self.started = time.monotonic()
        self.limits = limits
        self.later = parts
        """The number of later parts."""
        self._reserved = limits.seconds / 2 / (parts + 1)
        self.again = limits.seconds / 4
        """Time for repeating cells in new processes."""

    def next(self) -> None:
        """Begin the next part."""
        self.later = max(0, self.later - 1)

    def left(self) -> float:
        """Return the time that is left for this part."""
        until = self.started + self.limits.seconds - self._reserved * self.later
        return max(0.0, until - time.monotonic())

    def of_cell(self) -> float:
        """Return the time limit of a cell that begins now."""
        return min(self.left(), self.limits.cell_seconds)
