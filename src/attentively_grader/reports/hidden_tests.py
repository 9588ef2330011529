"""Feedback that does not show the hidden tests, for instructors who keep them to themselves.

With ``c.Grading.hide_hidden_tests = True`` in the course's configuration the page that a student
gets has a line in their place, and of an error in one of them what it says, but not where.
"""

import re
from typing import Any

import nbformat
from nbgrader.preprocessors import ClearHiddenTests
from traitlets.config import Config

IN_PLACE = "# Hidden tests ran here."
WHERE = "(in a hidden test)"
SHORTEST = 4
"""A line of fewer characters, such as a bracket, tells nothing."""
ARROW = re.compile(r"-+> *[0-9]")
"""Points to the line that failed."""
NUMBERED = re.compile(r"(?:-+>)? *([0-9]{1,6}) ?(.*)")
"""A line of source in a traceback."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")


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
        kept, hidden_lines = _apart(
            cell.source, marks.begin_test_delimeter, marks.end_test_delimeter
        )
        cell.source = kept
        for output in cell.get("outputs", []):
            if output.output_type == "error" and hidden_lines:
                output.traceback = [_told(part, hidden_lines) for part in output.traceback]
    return hidden


def _apart(source: str, begin: str, end: str) -> tuple[str, dict[int, str]]:
    """Return a source with a line in place of each region, and the regions' lines by number."""
    kept: list[str] = []
    hidden: dict[int, str] = {}
    inside = False
    for number, line in enumerate(source.splitlines(), start=1):
        begins, ends = begin in line, end in line
        if begins:
            kept.append(line[: len(line) - len(line.lstrip())] + IN_PLACE)
        if begins or ends or inside:
            hidden[number] = line.strip()
        else:
            kept.append(line)
        inside = begins or (inside and not ends)
    return "\n".join(kept), hidden


def _told(part: str, hidden: dict[int, str]) -> str:
    """Return a part of a traceback without hidden lines; where one of them failed, only that."""
    lines = part.splitlines()
    shown = [line for line in lines if not _tells(line, hidden)]
    if shown == lines:
        return part
    if not any(ARROW.match(COLOUR.sub("", line)) for line in shown):
        return WHERE
    return "\n".join(shown)


def _tells(line: str, hidden: dict[int, str]) -> bool:
    """Tell whether a line of a traceback is a hidden one, or has one in it."""
    line = COLOUR.sub("", line)
    numbered = NUMBERED.fullmatch(line)
    if numbered is not None and hidden.get(int(numbered[1])) == numbered[2].strip():
        return True
    return any(len(each) >= SHORTEST and each in line for each in hidden.values())
