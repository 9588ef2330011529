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
    """Whether another run may end differently: the kernel died or took too long, or a file could
    not be downloaded."""

    @property
    def earned(self) -> float:
        return self.points if self.state == "solved" else 0.0
