"""Put a student's answers into the instructor's notebook.

The submitted notebook decides what the student wrote, and in which order. All else is the
instructor's: every test, every locked cell, points, tags, kernel, and the order of them: a test
that ran before the cell that imports what it needs would take the student's for it. A cell that
was deleted, stripped of its marks or marked as another comes back at its place; one that came
twice counts where it stands last, as in nbgrader, unless nothing is filled in there; a cell that
the student added stays behind the one that it followed, without marks.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.intake.submissions import Cell

Notebook = dict[str, Any]
_Placed = tuple[int | None, dict[str, Any]]
"""A cell, and its place in the source; None for one that the student added."""
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def merge(source: Mapping[str, Any], submitted: Sequence[Cell]) -> Notebook:
    """Return the notebook to run: `source` with the answers of `submitted`.

    `source` is the instructor's notebook as nbgrader knows it: without solutions, with all tests.
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
    """Return nbgrader's id of a cell."""
    name = cell["metadata"].get("nbgrader", {}).get("grade_id")
    return name if isinstance(name, str) else None


def is_answer(cell: Mapping[str, Any]) -> bool:
    """Tell whether a cell of the instructor's is there for the student to fill in."""
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def is_marked(cell: Mapping[str, Any]) -> bool:
    """Tell whether nbgrader knows a cell; all that it knows but answers is the instructor's."""
    marks = cell["metadata"].get("nbgrader", {})
    return any(marks.get(flag) for flag in ("grade", "solution", "locked", "task"))


def _recognised(cells: Sequence[Mapping[str, Any]], submitted: Sequence[Cell]) -> dict[int, str]:
    """Return the ids of the instructor's cells by their number in the submission.

    A cell is known by nbgrader's id, else by the notebook's, else, without marks, by its text.
    One without marks that is of another kind now is the student's own, and the instructor's comes
    back.
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
    """Return the instructor's cell, with the student's text where that is theirs to write."""
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
    """Return a copy of a cell of the instructor's, as it stands in the source."""
    merged: dict[str, Any] = copy.deepcopy(dict(cell))
    if merged["cell_type"] == "code":
        merged |= {"execution_count": None, "outputs": []}
    binds = merged["metadata"].get(METADATA_KEY, {}).get("binds")
    merged["metadata"][METADATA_KEY] = {"author": "instructor"} | (
        {"binds": binds} if binds else {}
    )
    return merged


def _restored(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell of the instructor's that the submission lacks."""
    merged = _instructors(cell)
    if not is_marked(cell):
        # The student has taken it out; but tests may need what it imports.
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
    """Return the cells with the instructor's own in the order of the source.

    Answers keep the order that the student gave them. Each of the instructor's cells stands behind
    the answers that it follows in the source, and a student's own cell behind the one that it
    followed.
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
    """Return where a missing cell belongs: behind the one that it follows in the source."""
    before = [each for each, _ in merged if each is not None and each < place]
    if not before:
        return 0
    return [each for each, _ in merged].index(max(before)) + 1


def _name(own: Sequence[dict[str, Any]], reserved: set[str]) -> None:
    """Give each of the student's own cells an id that no other cell has."""
    used = set(reserved)
    for number, cell in enumerate(own, start=1):
        if cell["id"] in used or not SAFE_ID.fullmatch(cell["id"]):
            cell["id"] = f"own-{number}"
            while cell["id"] in used:
                cell["id"] += "-"
        used.add(cell["id"])
