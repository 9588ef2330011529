"""Release an assignment: generate the student version with nbgrader, reproducibly.

Only notebooks and the side files listed in the course's configuration are released. The conversion
runs in a temporary course without a gradebook. A release that contains a line of a solution is
rejected.
"""

import ast
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions
from traitlets.config import Config

from attentively_grader.course import notebooks
from attentively_grader.course.cell_names import described
from attentively_grader.course.course import (
    CONFIG,
    CourseError,
    check_assignment,
    converting,
    course_directory,
    load_config,
    raise_if_locked,
    reason,
)
from attentively_grader.course.notebooks import METADATA_KEY

Keep = Callable[[str, NotebookNode], None]
"""Called with the name and the content of a notebook."""
REGION = re.compile(r"^\s*### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")


def side_files(config: Config, assignment: str) -> set[str]:
    """Return the side files that may be released, relative to the assignment's folder."""
    return set(config.Release.get("side_files", {}).get(assignment, []))


def unreleased(config: Config, source: Path, assignment: str) -> set[str]:
    """Return the files next to the source notebooks that no student receives."""
    files = {
        path.relative_to(source).as_posix() for path in source.rglob("*") if path.suffix != ".ipynb"
    }
    if isinstance(config.Release.get("side_files"), dict):
        return files - side_files(config, assignment)
    return files.intersection(config.Grading.get("test_files", []))  # nbgrader releases the others


def release(root: Path, assignment: str) -> dict[str, bytes]:
    """Convert one assignment and return the released files by their relative path.

    Raises `CourseError` if nbgrader rejects it or a solution would leak.
    """
    config = load_config(root)
    check_assignment(root, config, assignment)
    folders = course_directory(root, config)
    source = root / folders.source_directory / assignment
    allowed = side_files(config, assignment)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        stage = Path(folder)
        shutil.copyfile(root / CONFIG, stage / CONFIG)
        staged = stage / folders.source_directory / assignment
        staged.mkdir(parents=True)
        for path in sorted(source.glob("*.ipynb")):
            text = notebooks.tidy(notebooks.read(path))
            (staged / path.name).write_text(text, encoding="utf-8")
        for name in sorted(allowed):
            if not (source / name).is_file():
                raise CourseError(f"{source / name} is listed as a side file, but does not exist")
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, staged / name)
        generate(stage, assignment, gradebook=False)
        target = stage / folders.release_directory / assignment
        files = {
            path.relative_to(target).as_posix(): path.read_bytes()
            for path in sorted(target.rglob("*"))
            if path.is_file()
        }
    _check_for_leaks(source, files)
    return files


def generate(
    root: Path,
    assignment: str,
    elsewhere: Path | None = None,
    gradebook: bool = True,
    keep: Keep | None = None,
    keep_solution: Keep | None = None,
) -> None:
    """Run nbgrader's conversion in the course at `root`, which also fills its gradebook.

    The files are written to the course's release directory, or to `elsewhere`. Without
    `gradebook`, no gradebook is written, which is faster. `keep` is called with the name and
    content of each notebook without solutions, but with all tests; `keep_solution` with those that
    contain the solutions too. The metadata of each answer cell list the names that the model
    solution binds.
    """
    config = load_config(root)
    if not gradebook:
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False
    if elsewhere is not None:
        config.CourseDirectory.release_directory = str(elsewhere)
        config.GenerateAssignment.post_convert_hook = None
    course = course_directory(root, config)
    course.assignment_id = assignment
    converter = GenerateAssignment(coursedir=course, config=config)
    converter.force = True
    steps = [*converter.preprocessors]
    if keep_solution is not None:
        steps = _before(ClearSolutions, 0, keep_solution, steps)
    if keep is not None:
        steps = [_note_names, *_before(ClearHiddenTests, len(steps), keep, steps)]
    converter.preprocessors = steps
    with converting(converter) as messages:
        try:
            converter.start()
        except NbGraderException as error:
            raise_if_locked(error)
            why = reason(messages, error)
            raise CourseError(f"nbgrader cannot release {assignment}: {why}") from None


def _note_names(notebook: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
    """Record the names that the model solutions bind."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            cell.metadata[METADATA_KEY] = described(cell.source)
    return notebook, resources


def _before(step: Any, place: int, keep: Keep, steps: Sequence[Any]) -> list[Any]:
    """Return nbgrader's steps with one before `step` that passes on the notebook.

    In a course without `step`, it is inserted at `place`.
    """

    def look(notebook: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        keep(resources["nbgrader"]["notebook"], deepcopy(notebook))
        return notebook, resources

    place = steps.index(step) if step in steps else place
    return [*steps[:place], look, *steps[place:]]


def tidy_released(assignment: str, **_: object) -> None:
    """Make a release reproducible: nbgrader calls this after the conversion of an assignment.

    It runs in the folder of the course. It removes side files that are not listed.
    """
    config = load_config(Path.cwd())
    target = Path(course_directory(Path.cwd(), config).release_directory) / assignment
    allowed = side_files(config, assignment)
    for path in sorted(target.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.suffix == ".ipynb":
            text = notebooks.tidy(notebooks.read(path), checksums=True)
            path.write_text(text, encoding="utf-8")
        elif path.relative_to(target).as_posix() not in allowed:
            path.unlink()


def _check_for_leaks(source: Path, files: dict[str, bytes]) -> None:
    secret: set[str] = set()
    for path in source.glob("*.ipynb"):
        secret |= secret_lines(notebooks.read(path))
    for name, content in files.items():
        text = content.decode("utf-8", errors="replace")
        if name.endswith(".ipynb"):
            text = "\n".join(cell.source for cell in _parse(content).cells)
        lines = {line.strip() for line in text.splitlines()}
        leaked = sorted(secret & lines)
        if leaked:
            raise CourseError(f"{name} would be released with a line of a solution: {leaked[0]}")


def _parse(content: bytes) -> NotebookNode:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notebook.ipynb"
        path.write_bytes(content)
        return notebooks.read(path)


def secret_lines(notebook: NotebookNode) -> set[str]:
    """Return the lines that occur only in solutions and hidden tests."""
    inside: set[str] = set()
    outside: set[str] = set()
    for cell in notebook.cells:
        for line, secret in _marked(cell.source):
            (inside if secret else outside).add(line.strip())
    return {line for line in inside - outside if _is_distinctive(line)}


def _marked(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is between BEGIN and END."""
    secret = False
    for line in source.splitlines():
        region = REGION.match(line)
        if region:
            secret = region[1] == "BEGIN"
        else:
            yield line, secret


def _is_distinctive(line: str) -> bool:
    """Return whether a line is more than a bracket, ``return`` or ``else:``."""
    if not line or line.startswith("#"):
        return len(line) > 12
    try:
        statements = ast.parse(line).body
    except SyntaxError:
        return len(line) > 12
    return bool(statements) and len(line) > 6
