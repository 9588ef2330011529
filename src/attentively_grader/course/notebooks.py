"""Read notebooks, and normalise them for version control: no outputs, counts or random ids."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

KEPT = ("nbgrader", "tags", "deletable", "editable")
"""Cell metadata that are kept; the rest belongs to the editor."""
FLAGS = ("grade", "grade_id", "locked", "points", "schema_version", "solution", "task")

HEADING = re.compile(r"^## +(.+?)(?: \([^()]*points[^()]*\))?$", re.MULTILINE)
"""The heading of a part: its title, and the points and minutes in parentheses."""

KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
METADATA_KEY = "attentively"
"""The key of the grader's metadata in a merged cell:

``author``     "instructor" or "student": the author of the present text
``original``   the instructor's text, in a cell without nbgrader metadata that the student changed
``absent``     true for such a cell that the student deleted; it is not recorded
``binds``      in an answer cell: the names that the model solution binds
``reads``      in an answer cell: the global names that the solution's functions read
``imports``    in an answer cell: the import statements of the solution
``beside``     in a test: why it runs next to the student's code
``weaker``     in a recorded test that ran there: the same reason
"""


def read(path: Path) -> nbformat.NotebookNode:
    """Read a notebook; raise `ValueError` with the reason if it is not readable."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        version = content.get("nbformat") if isinstance(content, dict) else None
        if version != 4:
            raise ValueError(f"its format is {version!r}, expected 4")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of missing cell ids, which nbformat fills in
            notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        for place, cell in enumerate(notebook.cells, start=1):
            flags = cell.metadata.get("nbgrader", {})
            if not isinstance(flags, dict):
                raise ValueError(f"cell {place} has nbgrader metadata {flags!r}, expected a dict")
        return notebook
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # nbformat raises many kinds of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is not a readable notebook: {reason}") from None


def part_titles(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return the title of each cell with points, by its nbgrader id, in the order of the notebook.

    The title is the heading of level 2 above the cell, without its points: "Part 1 · Lookup". If
    several cells with points follow one heading, the id of the cell is appended. Without a heading,
    the title is the id.
    """
    above = headings(notebook)
    names = [grade_id(cell) for cell in notebook.cells if has_points(cell.metadata)]
    often = Counter(above[name] for name in names)
    titles = {name: above[name] or name for name in names}
    return {
        name: f"{title} ({name})" if often[title] > 1 else title for name, title in titles.items()
    }


def headings(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return the heading of the part of each cell with nbgrader metadata, by its nbgrader id."""
    heading, found = "", {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = (HEADING.findall(cell.source) or [heading])[-1]
        if "nbgrader" in cell.metadata:
            found[grade_id(cell)] = heading
    return found


def with_cell(title: str, name: str) -> str:
    """Return the title of a part with the id of its cell, by which a reader finds the cell."""
    title = title.removesuffix(f" ({name})")
    return f"{title} (cell {name})" if title not in ("", name) else f"cell {name}"


def grade_id(cell: nbformat.NotebookNode) -> str:
    """Return the nbgrader id of a cell; if it has none, its own id."""
    return str(cell.metadata.nbgrader.get("grade_id") or cell.get("id", ""))


def has_points(metadata: Mapping[str, object]) -> bool:
    """Return whether a cell has points in nbgrader: a test, a written answer or a task."""
    marks = metadata.get("nbgrader")
    return isinstance(marks, Mapping) and bool(marks.get("grade") or marks.get("task"))


def tidy(notebook: nbformat.NotebookNode, checksums: bool = False) -> str:
    """Return the text of the notebook, which is the same for the same content.

    The id of a cell is its nbgrader id, else its own id unless that is random, else its number.
    With `checksums`, nbgrader's checksums are kept, as a release needs them.
    """
    cells = []
    used: set[str] = set()
    for place, cell in enumerate(notebook.cells):
        metadata = {name: cell.metadata[name] for name in KEPT if name in cell.metadata}
        flags = metadata.get("nbgrader")
        if flags is not None and not checksums:
            metadata["nbgrader"] = {name: flags[name] for name in FLAGS if name in flags}
            metadata.pop("deletable", None)
            metadata.pop("editable", None)
        kept: dict[str, Any] = {
            "cell_type": cell.cell_type,
            "id": _id(cell, place, used),
            "metadata": metadata,
            "source": cell.source.rstrip().splitlines(keepends=True),
        }
        if cell.cell_type == "code":
            kept |= {"execution_count": None, "outputs": []}
        if cell.get("attachments"):
            kept["attachments"] = cell.attachments
        cells.append(kept)
    content = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _id(cell: nbformat.NotebookNode, place: int, used: set[str]) -> str:
    wanted = cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
    # JupyterLab's own ids are eight random hexadecimal digits or a long random string.
    if not wanted or re.fullmatch(r"[0-9a-f]{8}|[0-9a-f-]{36}", wanted):
        wanted = f"cell-{place + 1}"
    wanted = re.sub(r"[^A-Za-z0-9_-]", "-", wanted)[:60]
    name, number = wanted, 2
    while name in used:
        name, number = f"{wanted}-{number}", number + 1
    used.add(name)
    return name
