"""Tell which notebook of which assignment a file is: by its name, its cells, or as it was said."""

import json
import re
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path

from attentively_grader.course.course import Course, assignments
from attentively_grader.intake.submissions import SubmissionError, check_size, parse

COPY = re.compile(r"[-_ ]*(?:copy|kopie|copie|copia)?[-_ ]*(?:\d+|\(\d+\))?", re.IGNORECASE)
"""What browsers, JupyterLab and Canvas add to the name of a file that exists already."""


class Recognition:
    """Knows the notebooks of a course."""

    def __init__(self, course: Course) -> None:
        self.source = course.folder("source")
        self.assignments = assignments(course.root, course.config)
        self.notebooks: Mapping[str, list[Path]] = {
            name: sorted((self.source / name).glob("*.ipynb")) for name in self.assignments
        }

    @cached_property
    def _marks(self) -> dict[tuple[str, str], set[str]]:
        """The nbgrader ids of each notebook's cells."""
        return {
            (name, path.stem): _ids(path.read_bytes())
            for name, paths in self.notebooks.items()
            for path in paths
        }

    def recognise(
        self, file: str, content: bytes, said: str = ""
    ) -> tuple[str, str, str] | SubmissionError:
        """Return assignment, name of the notebook and a remark, or why it is not recognised.

        `said` is the assignment that the path or the instructor names, if either does.
        """
        stem = file.rsplit("/", 1)[-1].removesuffix(".ipynb")
        try:
            parse(content, file)
            damaged = ""
        except SubmissionError as error:
            damaged = f"{error}; collected, so that the grader reports it"
        named = self._named(stem, said)
        if named is None and not damaged:
            named = self._by_cells(content)
        if named is None and damaged and len(self.notebooks.get(said, [])) == 1:
            named = said, self.notebooks[said][0].stem
        if named is None:
            return SubmissionError(self._unknown(said, damaged))
        assignment, notebook = named
        if said and assignment != said:
            return SubmissionError(f"a notebook of {assignment}, expected {said}")
        renamed = f"was named {stem}.ipynb" if stem != notebook else ""
        return assignment, notebook, "; ".join(filter(None, [renamed, damaged]))

    def _named(self, stem: str, said: str) -> tuple[str, str] | None:
        """Return the notebook of this name, or of the name without what a copy adds to it."""
        found = []
        for name in [said] if said in self.notebooks else self.assignments:
            for path in self.notebooks[name]:
                start, rest = stem[: len(path.stem)], stem[len(path.stem) :]
                if start.casefold() == path.stem.casefold() and COPY.fullmatch(rest):
                    found.append((len(rest), name, path.stem))
        return min(found)[1:] if found else None

    def _by_cells(self, content: bytes) -> tuple[str, str] | None:
        """Return the one notebook with which most cells are shared, if these are the half."""
        ids = _ids(content)
        shared = sorted(
            ((len(ids & marks), key) for key, marks in self._marks.items()), reverse=True
        )
        if not shared or 2 * shared[0][0] < max(1, len(self._marks[shared[0][1]])):
            return None
        if len(shared) > 1 and shared[1][0] == shared[0][0]:
            return None
        return shared[0][1]

    def _unknown(self, said: str, damaged: str) -> str:
        if damaged and not said:
            return (
                "not a readable notebook, and its name is that of no assignment: give the "
                "assignment with --assignment"
            )
        expected = [f"{path.name}" for path in self.notebooks.get(said, [])]
        if expected:
            return f"neither its name nor its cells are those of {' or '.join(expected)}"
        return "neither its name nor its cells are those of an assignment"


def _ids(content: bytes) -> set[str]:
    """Return the nbgrader ids of the cells of a notebook."""
    try:
        check_size(content)
        cells: Collection[object] = json.loads(content.decode("utf-8-sig"))["cells"]
        marks = [cell["metadata"].get("nbgrader", {}) for cell in cells]  # type: ignore[index]
        return {mark["grade_id"] for mark in marks if isinstance(mark.get("grade_id"), str)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
