"""Self-test of an assignment: what the instructor's solution earns, and how each test must run.

The solution is graded before any student. A test that the solution passes only next to its own code
runs next to the student's code for everybody. A test that the solution fails in both ways stops the
assignment, because it would take points from correct answers.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import nbformat

from attentively_grader.course import notebooks
from attentively_grader.course.cell_names import tree_of
from attentively_grader.course.preparation import Prepared
from attentively_grader.course.weaker_tests import reason_beside
from attentively_grader.intake.submissions import printable
from attentively_grader.jobs import CellOutcome, Outcome

BESIDE = "beside-the-student"
"""The tag of a test that runs next to the student's code."""
TAGGED = f"the instructor gave it the tag {BESIDE}"
ONLY_THERE = "the instructor's solution passes it only there"
FAILED = "the instructor's solution does not earn its points in any way"
"""Reasons why a test runs next to the student's code; they quote no test."""
CAUSES = (
    (r"ModuleNotFoundError|ImportError", "a package is missing in the grader's environment"),
    (r"FileNotFoundError", "the test or the solution reads a file that is not released"),
    (r"gaierror|URLError|ConnectionError|ConnectionRefused", "it needs the network, which a "
     "submission does not have"),
    (r"NotImplementedError|NotImplementedYet", "the source contains no solution of this part"),
    (r"NameError", "a name is not defined when the test runs, next to the solution's code either"),
    (r"TimeoutError|longer than|time limit", "it exceeds the time limit; see --timeout"),
    (r"MemoryError|memory", "it exceeds the memory limit; see --memory"),
)  # fmt: skip
"""Likely causes of a failed test, by a pattern in its error."""
EITHER_WAY = "the test rejects the solution in nbgrader too, so one of the two is wrong"


@dataclass(frozen=True)
class Missed:
    """A test from which the solution does not earn every point."""

    notebook: str
    part: str
    """The title of the part, and the nbgrader id of the test."""
    earned: float
    most: float
    error: str
    cause: str
    """The likely cause."""

    def __str__(self) -> str:
        return (
            f"{self.notebook}.ipynb, {self.part}: {self.earned:g} of {self.most:g} points. "
            f"{self.error}. Likely cause: {self.cause}"
        )


@dataclass
class SelfTest:
    """The result of the self-test of one assignment, complete or between two runs."""

    assignment: str
    prepared: Prepared
    beside: dict[str, dict[str, str]]
    """The reason why a test runs next to the student's code, by notebook and id of the cell."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """The outcomes of the last run of the solution, by notebook."""
    errors: dict[tuple[str, str], str] = field(default_factory=dict)
    """The error of each moved test in the separate process, by notebook and id of the cell."""
    stored: bool = True
    """Whether each outcome was known from an earlier run."""

    @classmethod
    def of(cls, assignment: str, prepared: Prepared) -> "SelfTest":
        """Return a self-test before its first run; tests with the tag run next to the solution."""
        tagged = {
            name: {
                cell["id"]: TAGGED
                for cell in tests(notebook)
                if BESIDE in cell["metadata"].get("tags", ())
            }
            for name, notebook in prepared.notebooks.items()
        }
        return cls(assignment, prepared, tagged)

    @property
    def most(self) -> float:
        """The automatic points of the assignment."""
        return sum(_most(cell) for _, cell in self._tests())

    @property
    def earned(self) -> float:
        """The points that the solution earned."""
        return sum(self._earned(name, cell) for name, cell in self._tests())

    @property
    def seconds(self) -> float:
        """The time that the solution took in the last run."""
        return sum(outcome.seconds for outcome in self.outcomes.values())

    def returned(self, notebook: str) -> dict[str, list[str]]:
        """Return the kinds of value that the calls of the solution returned, by call."""
        outcome = self.outcomes.get(notebook)
        return {} if outcome is None else outcome.returned

    def move(self) -> bool:
        """Let tests that the solution failed run next to its code; return whether there are any."""
        failed = [*self._failed()]
        moved = [(name, cell) for name, cell in failed if cell["id"] not in self.beside[name]]
        if not moved:
            for name, cell in failed:
                self.beside[name][cell["id"]] = FAILED
        for name, cell in moved:
            self.errors[name, cell["id"]] = self._error(name, cell)
            self.beside[name][cell["id"]] = reason_beside(cell["source"]) or ONLY_THERE
        for name in {name for name, _ in moved}:
            for cell in tests(self.prepared.notebooks[name]):
                why = reason_beside(cell["source"])
                if why is not None:
                    self.beside[name].setdefault(cell["id"], why)
        return bool(moved)

    def weaker(self) -> Iterator[tuple[str, str, str]]:
        """Yield notebook, nbgrader id and reason of each test that runs next to students' code.

        The reason includes the error of the separate process, which may quote hidden tests.
        """
        for name, cell in self._tests():
            why = self.beside[name].get(cell["id"])
            error = self.errors.get((name, cell["id"]))
            if why is not None:
                yield name, _mark(cell), why if error is None else f"{why} (elsewhere: {error})"

    def missed(self) -> list[Missed]:
        """Return the tests from which the solution does not earn every point."""
        return [
            Missed(
                name,
                self._part(name, cell),
                self._earned(name, cell),
                _most(cell),
                self._error(name, cell),
                self._cause(name, cell),
            )
            for name, cell in self._failed()
        ]

    def unanswered(self) -> list[str]:
        """Return the parts and ids of the answer cells for which the source has no solution."""
        found = []
        for name, notebook in self.prepared.notebooks.items():
            solved = self.prepared.solutions[name]["cells"]
            for cell, source in zip(notebook["cells"], solved, strict=False):
                flags = cell["metadata"].get("nbgrader", {})
                if cell["cell_type"] != "code" or not flags.get("solution") or flags.get("grade"):
                    continue
                same = cell["source"].strip() == source["source"].strip()
                if same or _is_empty(source["source"]):
                    found.append(self._part(name, cell))
        return found

    def _part(self, name: str, cell: Mapping[str, Any]) -> str:
        """Return the title of the part of a cell, and the nbgrader id of the cell."""
        titles = notebooks.headings(nbformat.from_dict(self.prepared.notebooks[name]))
        return notebooks.with_cell(titles[_mark(cell)], _mark(cell))

    def _tests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, notebook in self.prepared.notebooks.items():
            for cell in tests(notebook):
                yield name, cell

    def _failed(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, cell in self._tests():
            if self._earned(name, cell) < _most(cell) - 1e-9:
                yield name, cell

    def _found(self, name: str, cell: Mapping[str, Any]) -> CellOutcome | None:
        outcome = self.outcomes.get(name)
        cells = outcome.cells if outcome is not None else ()
        return next((each for each in cells if each.id == cell["id"]), None)

    def _earned(self, name: str, cell: Mapping[str, Any]) -> float:
        found = self._found(name, cell)
        if found is None or found.failed:
            return 0.0
        return _most(cell) if found.points is None else found.points

    def _error(self, name: str, cell: Mapping[str, Any]) -> str:
        found = self._found(name, cell)
        if found is not None and not found.failed:
            return f"It returned {self._earned(name, cell):g} points"
        for output in reversed(found.outputs if found is not None else []):
            if output["output_type"] == "error":
                lines = f"{output['ename']}: {output['evalue']}".strip().splitlines()
                return printable(lines[0]).rstrip(".: ")
        outcome = self.outcomes.get(name)
        why = outcome.reason if outcome is not None else ""
        return printable(why.replace("your code", "the solution") or "It was not run").rstrip(".")

    def _cause(self, name: str, cell: Mapping[str, Any]) -> str:
        found = self._found(name, cell)
        if found is not None and not found.failed:
            return (
                "the last expression of the test is a number, which nbgrader takes for the points "
                "(partial credit)"
            )
        error = self._error(name, cell)
        for pattern, cause in CAUSES:
            if re.search(pattern, error):
                return cause
        return reason_beside(cell["source"]) or EITHER_WAY


def tests(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of a notebook that are graded automatically."""
    found = []
    for cell in notebook["cells"]:
        flags = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and flags.get("grade") and not flags.get("solution"):
            found.append(cell)
    return found


def report_lines(test: SelfTest, even_so: bool) -> Iterator[str]:
    """Yield the result of a self-test and, if the solution misses points, what to do."""
    missed = test.missed()
    how = "known from an earlier run" if test.stored else f"{test.seconds:.1f} s"
    says = f"the solution earns {test.earned:g} of {test.most:g} points ({how})"
    stop = "" if not missed else ". GRADED EVEN SO" if even_so else ". NO STUDENT IS GRADED"
    yield f"{test.assignment}: {says}{stop}"
    for each in missed:
        yield f"  {each}"
    if missed and not even_so:
        yield from remedies(test)


def remedies(test: SelfTest) -> Iterator[str]:
    """Yield what an instructor can do about an assignment whose solution misses points."""
    empty = test.unanswered()
    if empty:
        yield f"  The source contains no solution of: {', '.join(empty)}"
    yield "  Do one of the following, then repeat the command:"
    if empty:
        yield (
            "  - Write the solutions into the source notebook, between ### BEGIN SOLUTION and "
            "### END SOLUTION."
        )
    else:
        yield "  - Correct the solution or the test."
        yield (
            "  - If the test needs what only the process of the student's code has, give its cell "
            f"the tag {BESIDE}."
        )
    yield (
        "  - Use --even-so. These tests then run next to the student's code, as in nbgrader, and "
        "are marked as weaker."
    )


def _mark(cell: Mapping[str, Any]) -> str:
    return str(cell["metadata"]["nbgrader"].get("grade_id", cell["id"]))


def _most(cell: Mapping[str, Any]) -> float:
    return float(cell["metadata"]["nbgrader"].get("points") or 0)


def _is_empty(source: str) -> bool:
    """Return whether code does nothing, or only defines functions that do nothing."""
    tree = tree_of(source)
    return tree is not None and all(map(_does_nothing, tree.body))


def _does_nothing(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return all(map(_does_nothing, node.body))
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Pass | ast.Raise)
