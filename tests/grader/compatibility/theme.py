"""A theme of the compatibility suite: one notebook, and the answers of a small class to it.

The students are "solution", "variant-1" and so on with right answers that are written differently,
and "wrong-1" and so on. A student who has no answer of their own to a part hands in the solution.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from textwrap import dedent

from nbformat.v4 import new_code_cell, new_notebook
from notebook_tools import flags

from attentively_grader.course import notebooks

SOLUTION = "solution"


@dataclass(frozen=True)
class Cell:
    name: str
    source: str
    points: float | None = None
    """Maximum of a test, None for all other cells."""
    answers: dict[str, str] | None = None
    """What students hand in, by student; None for the instructor's cells."""


@dataclass(frozen=True)
class Theme:
    name: str
    cells: tuple[Cell, ...]
    needs: tuple[str, ...] = ()
    """Libraries that the notebook imports and that may be missing."""

    @property
    def students(self):
        names = {name: None for cell in self.cells for name in cell.answers or ()}
        return [SOLUTION, *sorted(names)]

    @property
    def missing(self):
        return [name for name in self.needs if find_spec(name) is None]

    def notebook(self, student=None):
        """Return the instructor's source, or what one student hands in."""
        return new_notebook(
            cells=[self._cell(cell, student) for cell in self.cells], metadata=notebooks.KERNEL
        )

    def _cell(self, cell, student):
        source = cell.source
        if cell.answers is not None:
            magic, line, rest = (
                source.partition("\n") if source.startswith("%%") else ("", "", source)
            )
            source = f"{magic}{line}### BEGIN SOLUTION\n{rest}\n### END SOLUTION"
            if student is not None:
                source = cell.answers.get(student, cell.source)
        marks = flags(
            cell.name,
            solution=cell.answers is not None,
            grade=cell.points is not None,
            locked=cell.answers is None,
            points=cell.points,
        )
        return new_code_cell(source, id=cell.name, metadata={"nbgrader": marks})


def theme(name, *cells, needs=()):
    return Theme(name, cells, needs)


def given(name, source):
    """Return a cell of the instructor without points."""
    return Cell(name, _text(source))


def answer(name, right, *, variants=(), wrong=()):
    """Return an answer cell with the solution, and with other right and wrong answers."""
    kinds = {"variant": variants, "wrong": wrong}
    answers = {
        f"{kind}-{number}": _text(source)
        for kind, sources in kinds.items()
        for number, source in enumerate(sources, start=1)
    }
    return Cell(name, _text(right), answers=answers)


def check(name, points, source):
    """Return a test cell."""
    return Cell(name, _text(source), points=points)


def _text(source):
    return dedent(source).strip("\n")
