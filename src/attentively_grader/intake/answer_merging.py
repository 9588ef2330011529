"""Merge a student's answers into the instructor's notebook.

The submission determines only the text and the order of the student's own cells and answers.
Everything else comes from the instructor: tests, locked cells, points, tags, kernel, and the order
of these cells. (A test that ran before its set-up cell would use the student's names instead.)

- A cell that was deleted, or lost or changed its nbgrader metadata, is restored at its position.
- Of two copies of an answer, the last one counts, as in nbgrader, unless it is not filled in.
- A cell that the student added stays after the cell that it followed, without nbgrader metadata.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.intake.submissions import Cell

Notebook = dict[str, Any]
_Placed = tuple[int | None, dict[str, Any]]
"""A cell and its position in the source, or None if the student added it."""
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def merge(source: Mapping[str, Any], submitted: Sequence[Cell]) -> Notebook:
    """Return the notebook to run: `source` with the answers from `submitted`.

    `source` is the instructor's notebook without solutions, but with all tests.
    """
    places = {cell["id"]: place for place, cell in enumerate(source["cells"])}
    known = _recognised(source["cells"], submitted)
    merged: list[_Placed] = []
    for number, cell in enumerate(submitted):
        name = known.get(number)
        if name is None:
            merged.append((None, _own(cell)))
        else:
            place = places[name]
            merged.append((place, _answered(source["cells"][place], cell)))
    for place, cell in enumerate(source["cells"]):
        needed = is_marked(cell) or cell["cell_type"] == "code"
        if needed and place not in {each for each, _ in merged}:
            merged.insert(_gap(merged, place), (place, _restored(cell)))
    merged = _in_order(merged, source["cells"])
    _name([cell for place, cell in merged if place is None], set(places))
    cells = [cell for _, cell in merged]
    metadata = {
        key: copy.deepcopy(source["metadata"][key])
        for key in ("kernelspec", "language_info")
        if key in source["metadata"]
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def mark(cell: Mapping[str, Any]) -> str | None:
    """Return the nbgrader id of a cell."""
    name = cell["metadata"].get("nbgrader", {}).get("grade_id")
    return name if isinstance(name, str) else None


def is_answer(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of the instructor is an answer cell."""
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def is_marked(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell has nbgrader metadata; all but answer cells are the instructor's."""
    marks = cell["metadata"].get("nbgrader", {})
    return any(marks.get(flag) for flag in ("grade", "solution", "locked", "task"))


def _recognised(cells: Sequence[Mapping[str, Any]], submitted: Sequence[Cell]) -> dict[int, str]:
    """Map the number of each recognised cell in the submission to the id in the source.

    A cell is recognised by its nbgrader id, else by its notebook id, else, without nbgrader
    metadata, by its text. A cell without metadata whose type has changed counts as the student's
    own, and the instructor's cell is restored.
    """
    by_mark = {mark(cell): cell["id"] for cell in cells if is_marked(cell)}
    by_id = {cell["id"]: cell["id"] for cell in cells}
    by_text = {(c["cell_type"], c["source"].strip()): c["id"] for c in cells if not is_marked(c)}
    keys: list[tuple[dict[Any, str], Any]] = [
        (by_mark, lambda cell: cell.mark),
        (by_id, lambda cell: cell.id),
        (by_text, lambda cell: (cell.kind, cell.source.strip())),
    ]
    kinds = {cell["id"]: cell["cell_type"] for cell in cells if not is_marked(cell)}
    stubs = {cell["source"].strip() for cell in cells if is_answer(cell)}
    last_first = reversed(range(len(submitted)))
    order = sorted(last_first, key=lambda number: submitted[number].source.strip() in stubs)
    found: dict[int, str] = {}
    taken: set[str] = set()
    for names, key in keys:
        for number in order:
            name = names.get(key(submitted[number]))
            if name is None or number in found or name in taken:
                continue
            if kinds.get(name, submitted[number].kind) == submitted[number].kind:
                found[number] = name
                taken.add(name)
    return found


def _answered(cell: Mapping[str, Any], submitted: Cell) -> dict[str, Any]:
    """Return the instructor's cell, with the student's text if the student may change it."""
    if is_answer(cell):
        return _with_text(_instructors(cell), submitted)
    if is_marked(cell) or _same(cell, submitted):
        return _instructors(cell)
    merged = _with_text(_instructors(cell), submitted)
    if cell["cell_type"] == "code":
        merged["metadata"][METADATA_KEY]["original"] = cell["source"]
    return merged


def _same(cell: Mapping[str, Any], submitted: Cell) -> bool:
    text = submitted.source.strip()
    return cell["cell_type"] == submitted.kind and bool(cell["source"].strip() == text)


def _with_text(cell: dict[str, Any], submitted: Cell) -> dict[str, Any]:
    cell["source"] = submitted.source
    cell["metadata"].setdefault(METADATA_KEY, {})["author"] = "student"
    cell.pop("attachments", None)
    if submitted.attachments and cell["cell_type"] == "markdown":
        cell["attachments"] = submitted.attachments
    return cell


def _own(submitted: Cell) -> dict[str, Any]:
    """Return a cell that the student added."""
    cell: dict[str, Any] = {"cell_type": submitted.kind, "id": submitted.id or "", "metadata": {}}
    if submitted.kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return _with_text(cell, submitted)


def _instructors(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the instructor's cell from the source."""
    merged: dict[str, Any] = copy.deepcopy(dict(cell))
    if merged["cell_type"] == "code":
        merged |= {"execution_count": None, "outputs": []}
    solution = merged["metadata"].get(METADATA_KEY, {})
    merged["metadata"][METADATA_KEY] = {**solution, "author": "instructor"}
    return merged


def _restored(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell of the instructor that the submission lacks."""
    merged = _instructors(cell)
    if not is_marked(cell):
        # The student deleted this cell, but tests may need its imports.
        merged["metadata"][METADATA_KEY] = {
            "author": "student",
            "original": cell["source"],
            "absent": True,
        }
        merged["source"] = ""
    elif is_answer(cell):
        merged["metadata"][METADATA_KEY]["author"] = "student"
    return merged


def _in_order(merged: Sequence[_Placed], cells: Sequence[Mapping[str, Any]]) -> list[_Placed]:
    """Return the cells with those of the instructor in the order of the source.

    Answers keep the student's order. Each cell of the instructor comes after the answers that it
    follows in the source, and a student's own cell after the cell that it followed.
    """
    head: list[_Placed] = []
    answers: list[tuple[int, list[_Placed]]] = []
    others: list[tuple[int, list[_Placed]]] = []
    group = head
    for place, cell in merged:
        if place is not None:
            group = []
            (answers if is_answer(cells[place]) else others).append((place, group))
        group.append((place, cell))
    ordered = head
    for place, group in sorted(others, key=lambda other: other[0]):
        follows = [number for number, (answer, _) in enumerate(answers) if answer < place]
        until = max(follows, default=-1) + 1
        ordered += [each for _, answer in answers[:until] for each in answer]
        del answers[:until]
        ordered += group
    return ordered + [each for _, answer in answers for each in answer]


def _gap(merged: Sequence[tuple[int | None, Any]], place: int) -> int:
    """Return the index of a missing cell: after the one that it follows in the source."""
    before = [each for each, _ in merged if each is not None and each < place]
    if not before:
        return 0
    return [each for each, _ in merged].index(max(before)) + 1


def _name(own: Sequence[dict[str, Any]], reserved: set[str]) -> None:
    """Give each of the student's own cells a unique id."""
    used = set(reserved)
    for number, cell in enumerate(own, start=1):
        if cell["id"] in used or not SAFE_ID.fullmatch(cell["id"]):
            cell["id"] = f"own-{number}"
            while cell["id"] in used:
                cell["id"] += "-"
        used.add(cell["id"])
