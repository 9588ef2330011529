"""Jobs of the grader: the notebook to run, its limits, and the outcome.

They are plain data that JSON can represent, so that an outcome can be stored in a file and recorded
later by another process.
"""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

End = Literal["complete", "timeout", "memory", "processes", "output", "died", "set aside"]
"""How a run ended: complete, by a limit ("timeout" to "output"), or by the code itself ("died")."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one submission."""

    seconds: float = 600.0
    """Wall time of the notebook."""
    cell_seconds: float = 120.0
    """Wall time of one cell, in which waiting for a CPU counts only a quarter."""
    memory_mib: int = 4096
    """Memory of all processes together, and of one process."""
    processes: int = 64
    """Number of processes and threads together."""
    file_mib: int = 256
    """Size of the private disk, and of one file."""
    output_kib: int = 1024
    """Text that one cell prints; the rest is cut, with a note. Images may take 8 times as much."""
    outputs: int = 500
    """Number of outputs of one cell."""
    notebook_output_kib: int = 32768
    """Size of all outputs of a notebook."""
    notebook_outputs: int = 5000
    """Number of outputs of a notebook."""
    wire_mib: int = 256
    """Size of one message between the student process and the examiner process."""


@dataclass(frozen=True)
class CellOutcome:
    """The result of one cell of the merged notebook."""

    id: str
    """The cell's id in the merged notebook."""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """The outputs in nbformat 4, within the limits."""
    failed: bool = False
    """Whether the cell raised an error."""
    points: float | None = None
    """Partial credit that the instructor's test returned, or None."""
    weaker: bool = False
    """Whether the test ran in the student process, whose code could tamper with it."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of one notebook."""

    cells: list[CellOutcome]
    end: End = "complete"
    reason: str = ""
    """Why the notebook did not run to its end."""
    seconds: float = 0.0
    peak_memory_mib: int = 0
    sandboxed: bool = True
    returned: dict[str, list[str]] = field(default_factory=dict)
    """The kinds of value that the calls of the instructor's solution returned, by call."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Create an outcome from the result of `to_dict`."""
        return cls(**{**content, "cells": [CellOutcome(**cell) for cell in content["cells"]]})


@dataclass(frozen=True)
class Job:
    """One notebook to run and examine."""

    key: str
    """The name of the job in logs and results."""
    notebook: dict[str, Any]
    """The merged notebook, nbformat 4: the instructor's source with the student's answers.

    Each cell's metadata has ``"attentively": {"author": "instructor" | "student"}``.
    """
    files: Path | None = None
    """A folder with copies of the files next to the notebook, for this job only."""
    limits: Limits = field(default_factory=Limits)
    solution: bool = False
    """Whether this is the instructor's solution: record what its calls return."""
    returned: dict[str, list[str]] = field(default_factory=dict)
    """The kinds of value that the calls of the instructor's solution returned, by call."""
    beside: tuple[str, ...] = ()
    """Ids of graded cells that run next to the student's code, as in nbgrader."""
    test_files: dict[str, str] = field(default_factory=dict)
    """The instructor's files that graded cells read, by their path below the solutions.

    Only the examiner process receives them.
    """
    prepare_tests: str = ""
    """The function, as ``module:function``, that prepares the tests with the `test_files`."""
    ended: dict[str, str] = field(default_factory=dict)
    """Why a cell is not run again, by id: it has ended the examiner process."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the files."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        del content["files"]
        return {**content, "limits": asdict(self.limits)}

    @classmethod
    def from_dict(cls, content: dict[str, Any], files: Path | None = None) -> Self:
        """Create a job from the result of `to_dict`."""
        limits, beside = Limits(**content["limits"]), tuple(content.get("beside", ()))
        return cls(**{**content, "limits": limits, "beside": beside, "files": files})
