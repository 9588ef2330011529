"""Prepare an assignment for grading: its notebooks with all tests, and the files next to them.

nbgrader's own conversion generates both and enters the cells and points into the gradebook.
"""

import fnmatch
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.utils import find_all_files

from attentively_grader.course.course import CONFIG, Course, CourseError
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.course.release import generate, side_files


@dataclass(frozen=True)
class Prepared:
    """One assignment, ready to be graded."""

    notebooks: dict[str, dict[str, Any]]
    """The instructor's notebooks by name, without solutions, with all tests."""
    solutions: dict[str, dict[str, Any]]
    """The same notebooks with the solutions; the cells have the same ids."""
    files: dict[str, Path]
    """Released side files, by their path relative to the folder."""
    test_files: dict[str, str]
    """The instructor's files that graded cells read, by their path below the solutions.

    ``c.Grading.test_files`` lists their names. They are not released.
    """
    prepare_tests: str
    """The function, as ``module:function``, that prepares the tests with these files, or "".

    ``c.Grading.prepare_tests`` names it. It is called with the folder of the files, once, before
    the first submission is examined; what it leaves in memory is there for every submission.
    """
    content: str
    """A hash of all notebooks without solutions, and of all files."""


def prepare(course: Course, assignment: str, folder: Path, *, gradebook: bool = True) -> Prepared:
    """Convert the source of an assignment into `folder`, and enter its cells into the gradebook.

    Without `gradebook`, the gradebook is not touched. Raises `CourseError` if nbgrader rejects the
    source.
    """
    notebooks: dict[str, dict[str, Any]] = {}
    solutions: dict[str, dict[str, Any]] = {}

    demonstrations = course.config.Grading.get("demonstrations", [])

    def keep(name: str, notebook: NotebookNode) -> None:
        notebooks[name] = _with_ids(json.loads(json.dumps(notebook)))
        _mark_demonstrations(notebooks[name], demonstrations)

    def keep_solution(name: str, notebook: NotebookNode) -> None:
        solutions[name] = _with_ids(json.loads(json.dumps(notebook)))

    generate(
        course.root,
        assignment,
        elsewhere=folder,
        gradebook=gradebook,
        keep=keep,
        keep_solution=keep_solution,
    )
    step = str(folder)
    released = Path(course.directory.format_path(step, ".", assignment))
    listed = course.config.Release.get("side_files")
    files = {
        os.path.relpath(path, released): Path(path)
        for path in sorted(find_all_files(str(released), [*course.directory.ignore, "*.ipynb"]))
    }
    if isinstance(listed, dict):
        allowed = set(listed.get(assignment, []))
        files = {name: path for name, path in files.items() if name in allowed}
    tests = test_files(course, assignment)
    files = {name: path for name, path in files.items() if f"{assignment}/{name}" not in tests}
    content = _fingerprint([notebooks, tests], files)
    prepare_tests = str(course.config.Grading.get("prepare_tests", ""))
    return Prepared(notebooks, solutions, files, tests, prepare_tests, content)


def test_files(course: Course, assignment: str) -> dict[str, str]:
    """Return the files of an assignment that ``c.Grading.test_files`` lists, as far as it has any.

    Raises `CourseError` if one is also released.
    """
    source = course.folder("source")
    listed = course.config.Grading.get("test_files", [])
    for name in side_files(course.config, assignment).intersection(listed):
        raise CourseError(f"{CONFIG}: {name} is both in c.Grading.test_files and a side file")
    paths = [source / assignment / name for name in listed]
    return {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if path.is_file()
    }


def _with_ids(notebook: dict[str, Any]) -> dict[str, Any]:
    """Give each cell an id that is the same in every run."""
    used: set[str] = set()
    for place, cell in enumerate(notebook["cells"], start=1):
        name = cell.get("id") if notebook.get("nbformat_minor", 0) >= 5 else None
        if not name or name in used:
            mark = cell["metadata"].get("nbgrader", {}).get("grade_id")
            name = re.sub(r"[^A-Za-z0-9_-]", "-", mark or f"cell-{place}")[:56]
            while name in used:
                name += "-"
        used.add(name)
        cell["id"] = name
    return notebook


def _mark_demonstrations(notebook: dict[str, Any], patterns: list[str]) -> None:
    """Mark the locked cells without points whose ids match: grading does not need their output."""
    for cell in notebook["cells"]:
        flags = cell["metadata"].get("nbgrader", {})
        is_given = flags.get("locked") and not flags.get("grade") and not flags.get("solution")
        matches = any(fnmatch.fnmatchcase(cell["id"], pattern) for pattern in patterns)
        if cell["cell_type"] == "code" and is_given and matches:
            cell["metadata"][METADATA_KEY] = {"demonstration": True}


def _fingerprint(content: list[Any], files: dict[str, Path]) -> str:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, path in sorted(files.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
