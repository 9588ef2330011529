"""Jobs of the grader: the notebook to run, its limits, and the outcome.

All of it is plain data that JSON can hold, so that an outcome can be kept in a file and recorded
later by another process.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

End = Literal["complete", "timeout", "memory", "processes", "output", "died", "set aside"]
"""How the run of a notebook ended: to its last cell, or by a limit, or by the code itself."""


@dataclass(frozen=True)
class Limits:
    """What the code of one submission may use."""

    seconds: float = 600.0
    """Wall time of the whole notebook."""
    cell_seconds: float = 120.0
    """Wall time of one cell."""
    memory_mib: int = 4096
    """Of all its processes together, and for one of them."""
    processes: int = 64
    """Processes and threads together."""
    file_mib: int = 256
    """Of its private disk, and of one file."""
    output_kib: int = 1024
    """Text that one cell may print; what is beyond is cut, and said."""
    wire_mib: int = 256
    """One message between the student's process and the examiner's."""


@dataclass(frozen=True)
class CellOutcome:
    """What came of one cell of the merged notebook."""

    id: str
    """The cell's id in the merged notebook."""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """As nbformat 4 holds them, within the limits."""
    failed: bool = False
    """Whether it ended in an error."""
    points: float | None = None
    """The number that an instructor's test gave as partial credit, else None."""
    weaker: bool = False
    """Whether the test ran beside the student's code, which could have tampered with it."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came of one notebook."""

    cells: list[CellOutcome]
    end: End = "complete"
    reason: str = ""
    """In plain words, why it did not run to its end."""
    seconds: float = 0.0
    peak_memory_mib: int = 0
    sandboxed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Read back what `to_dict` gave."""
        return cls(**{**content, "cells": [CellOutcome(**cell) for cell in content["cells"]]})


@dataclass(frozen=True)
class Job:
    """One notebook to run and examine."""

    key: str
    """Names it in logs and results."""
    notebook: dict[str, Any]
    """The merged notebook, nbformat 4: the instructor's source with the student's answers.

    Each cell's metadata has ``"attentively": {"author": "instructor" | "student"}``.
    """
    files: Path | None = None
    """A folder with the files that lay beside the notebook, copied for this job alone."""
    limits: Limits = field(default_factory=Limits)
