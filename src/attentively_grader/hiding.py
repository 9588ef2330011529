"""Feedback that does not show the hidden tests, for instructors who keep them to themselves.

With ``c.Grading.hide_hidden_tests = True`` in the course's configuration the page that a student
gets has a line in their place, and of an error in one of them what it says, but not where.
"""

from typing import Any

import nbformat
from nbgrader.preprocessors import ClearHiddenTests
from traitlets.config import Config

IN_PLACE = "# Hidden tests ran here."
WHERE = "(in a hidden test)"
SHORTEST = 4
"""A line of fewer characters, such as a bracket, tells nothing."""


def wanted(config: Config) -> bool:
    """Tell whether a course hides its hidden tests."""
    return bool(config.Grading.get("hide_hidden_tests", False))


def without_hidden_tests(notebook: Any, config: Config) -> Any:
    """Return an executed notebook without the hidden tests' lines in its sources and tracebacks."""
    marks = ClearHiddenTests(config=config)
    hidden = nbformat.from_dict(notebook)
    for cell in hidden.cells:
        if cell.cell_type != "code" or not cell.metadata.get("nbgrader", {}).get("grade"):
            continue
        cell.source, lines = _apart(
            cell.source, marks.begin_test_delimeter, marks.end_test_delimeter
        )
        secret = {line.strip() for line in lines if len(line.strip()) >= SHORTEST}
        for output in cell.get("outputs", []):
            if output.output_type == "error" and secret:
                output.traceback = [_told(part, secret) for part in output.traceback]
    return hidden


def _apart(source: str, begin: str, end: str) -> tuple[str, list[str]]:
    """Return a source with a line in place of each region, and the regions' lines."""
    kept: list[str] = []
    secret: list[str] = []
    inside = False
    for line in source.splitlines():
        if begin in line:
            inside = True
            kept.append(line[: len(line) - len(line.lstrip())] + IN_PLACE)
        elif end in line:
            inside = False
        else:
            (secret if inside else kept).append(line)
    return "\n".join(kept), secret


def _told(part: str, secret: set[str]) -> str:
    """Return a part of a traceback, unless it shows a secret line."""
    return WHERE if any(line in part for line in secret) else part
