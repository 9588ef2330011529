"""Pack a student's notebook into the folder or the file that an instructor collects."""

import json
import re
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nbformat import NotebookNode

from attentively.atomic_files import replacing
from attentively.coursework import earlier_parts
from attentively.coursework.progress import read
from attentively.coursework.work_folder import find

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_UNWRITTEN = re.compile(r"^\s*raise NotImplementedError\b|^YOUR ANSWER HERE$", re.M)
"""What nbgrader writes into a released answer cell: of code in this course, and of text."""
_STAMP = "%Y-%m-%d %H:%M:%S UTC"


@dataclass(frozen=True)
class Receipt:
    """The files of a submission, and where an earlier submission is kept."""

    folder: Path
    timestamp: str
    files: list[str]
    parts: int
    unwritten: int
    """Number of parts in which a cell still raises `NotImplementedError`, as in the release."""
    earlier: Path | None
    archive: Path | None = None
    """The same files as one zip file, if it was asked for."""


def is_blank(notebook: NotebookNode) -> bool:
    """Return whether a notebook with graded parts contains no answer to any of them."""
    parts = _parts_written(notebook)
    return bool(parts) and not any(parts)


def submit(
    work: Path,
    assignment: str,
    student: str,
    to: Path,
    now: datetime | None = None,
    archive: bool = False,
) -> Receipt:
    """Pack a submission in nbgrader's layout, STUDENT/ASSIGNMENT/.

    With `archive`, also write these folders into one file for upload, ASSIGNMENT-STUDENT.zip. An
    earlier submission is moved to STUDENT/.earlier/. Raises `ValueError` if the student's name is
    not valid for a folder, or the notebook is missing, unreadable or has no graded parts.
    """
    if not _NAME.fullmatch(student):
        raise ValueError(
            f"student={student!r}: use letters without accents, digits, _ . and -, and start "
            "with a letter, a digit or _. Your instructor gave you such a name"
        )
    path = find(work, assignment)[0]
    notebook = read(path)
    parts = _parts_written(notebook)
    if not parts:
        raise ValueError(f"{path} has no graded parts. Submit the notebook of the assignment")
    now = now or datetime.now(UTC)
    target = to / student / path.stem
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=".packing-"))
    try:
        shutil.copyfile(path, fresh / path.name)
        if code := earlier_parts.packed(path.parent.parent, notebook):
            text = json.dumps(code, indent=1, ensure_ascii=False)
            (fresh / earlier_parts.FILE).write_text(text + "\n", encoding="utf-8")
        timestamp = now.strftime(_STAMP)
        (fresh / "timestamp.txt").write_text(timestamp + "\n", encoding="utf-8")
        fresh.chmod(0o755)
        earlier = _set_aside(target) if target.exists() else None
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    files = sorted(file.name for file in target.iterdir())
    packed = _packed(target, to / f"{path.stem}-{student}.zip") if archive else None
    return Receipt(target, timestamp, files, len(parts), parts.count(False), earlier, packed)


def _packed(folder: Path, archive: Path) -> Path:
    """Write STUDENT/ASSIGNMENT/ into a zip file; one from before is replaced as a whole."""
    with replacing(archive) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for path in sorted(folder.iterdir()):
            name = path.relative_to(folder.parents[1]).as_posix()
            file.write(path, name, zipfile.ZIP_DEFLATED)
    return archive


def _parts_written(notebook: NotebookNode) -> list[bool]:
    """Return for each part whether it is implemented. A part ends with its graded cell."""
    parts, written = [], True
    for cell in notebook.cells:
        flags = cell.metadata.get("nbgrader", {})
        if flags.get("solution") and _UNWRITTEN.search(cell.source):
            written = False
        if flags.get("grade"):
            parts.append(written)
            written = True
    return parts


def _set_aside(target: Path) -> Path:
    """Move an earlier submission to a hidden folder, which nbgrader ignores; return its path."""
    stamp = target / "timestamp.txt"
    when = stamp.read_text(encoding="utf-8") if stamp.exists() else "undated"
    name = f"{target.name}-{re.sub(r'[^0-9A-Za-z]+', '', when)}"
    folder = target.parent / ".earlier"
    folder.mkdir(exist_ok=True)
    kept, number = folder / name, 2
    while kept.exists():
        kept, number = folder / f"{name}-{number}", number + 1
    return target.rename(kept)
