"""Remove hidden tests from feedback, for courses whose hidden tests are secret.

Other courses show the hidden tests, without the markers around them.
With ``c.Grading.hide_hidden_tests = True`` in the configuration of the course, feedback shows one
line instead of the hidden tests. For an error in a hidden test, it shows the message but not the
location. Lines of hidden tests are removed from printed text and from the tracebacks of all cells,
because a test may call a function of another test's hidden lines.
"""

import re
from typing import Any

import nbformat
from nbgrader.preprocessors import ClearHiddenTests
from traitlets.config import Config

IN_PLACE = "# Hidden tests ran here."
WHERE = "(in a hidden test)"
SHORTEST = 4
"""A line with fewer characters, such as a bracket, reveals nothing."""
TELLING = 12
"""A hidden line of this length is found inside a longer line of another cell, too."""
ARROW = re.compile(r"-+> *[0-9]")
"""The arrow to the failing line in a traceback."""
NUMBERED = re.compile(r"(?:-+>)? *([0-9]{1,6}) ?(.*)")
"""A numbered source line in a traceback."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def wanted(config: Config) -> bool:
    """Return whether a course hides its hidden tests."""
    return bool(config.Grading.get("hide_hidden_tests", False))


def without_hidden_tests(notebook: Any, config: Config) -> Any:
    """Return an executed notebook without lines of hidden tests in sources and tracebacks."""
    marks = ClearHiddenTests(config=config)
    hidden = nbformat.from_dict(notebook)
    lines_of: dict[int, dict[int, str]] = {}
    for place, cell in enumerate(hidden.cells):
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source, lines_of[place] = _split(
                cell.source, marks.begin_test_delimeter, marks.end_test_delimeter
            )
    texts = {line for lines in lines_of.values() for line in lines.values()}
    texts = {line for line in texts if len(line) >= SHORTEST}
    for place, cell in enumerate(hidden.cells if texts else ()):
        own = lines_of.get(place, {})
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                output.traceback = [_without_hidden(part, own, texts) for part in output.traceback]
            elif output.output_type == "stream":
                lines = output.text.splitlines(keepends=True)
                output.text = "".join(line for line in lines if not _tells(line, texts))
    return hidden


def without_markers(notebook: Any, config: Config) -> Any:
    """Return a notebook without the markers of hidden tests in sources and tracebacks."""
    marks = ClearHiddenTests(config=config)

    def unmarked(text: str) -> str:
        lines = text.splitlines(keepends=True)
        delimiters = (marks.begin_test_delimeter, marks.end_test_delimeter)
        return "".join(line for line in lines if not any(mark in line for mark in delimiters))

    shown = nbformat.from_dict(notebook)
    for cell in shown.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = unmarked(cell.source).rstrip("\n")
            for output in cell.outputs:
                if output.output_type == "error":
                    output.traceback = [unmarked(part) for part in output.traceback]
    return shown


def _split(source: str, begin: str, end: str) -> tuple[str, dict[int, str]]:
    """Return the source with each hidden region replaced, and the hidden lines by line number."""
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


def _without_hidden(part: str, hidden: dict[int, str], texts: set[str]) -> str:
    """Return a frame of a traceback without hidden lines; if one of them failed, only a note."""
    lines = part.splitlines()
    shown = [line for line in lines if not (_reveals(line, hidden) or _tells(line, texts))]
    if shown == lines:
        return part
    if not any(ARROW.match(COLOUR.sub("", line)) for line in shown):
        return WHERE
    return "\n".join(shown)


def _reveals(line: str, hidden: dict[int, str]) -> bool:
    """Return whether a line of a traceback is a hidden line or contains one."""
    line = COLOUR.sub("", line)
    numbered = NUMBERED.fullmatch(line)
    if numbered is not None and hidden.get(int(numbered[1])) == numbered[2].strip():
        return True
    return any(len(each) >= SHORTEST and each in line for each in hidden.values())


def _tells(line: str, texts: set[str]) -> bool:
    """Return whether a line is a hidden line of any cell, or contains a long one."""
    line = COLOUR.sub("", line).strip()
    numbered = NUMBERED.fullmatch(line)
    bare = line if numbered is None else numbered[2].strip()
    return bare in texts or any(len(each) >= TELLING and each in line for each in texts)
