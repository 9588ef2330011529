"""The result of one graded part of a notebook."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PartResult:
    """The result of one graded part."""

    title: str
    points: float
    state: str
    """One of "solved", "not yet", "wrong"."""
    message: str = ""
    stopped: bool = False
    """Whether the notebook did not run to this part: the kernel died or took too long."""

    @property
    def earned(self) -> float:
        return self.points if self.state == "solved" else 0.0
