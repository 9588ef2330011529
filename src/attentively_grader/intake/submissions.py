"""Read a submission without trusting its content.

Only regular files up to a size limit are opened. Of a notebook, only the text of its cells is used;
outputs, tags and everything else that could influence grading is ignored. A submission that cannot
be read is set aside, with a reason that an instructor can act on.
"""

import fnmatch
import hashlib
import json
import mimetypes
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.utils import parse_utc

from attentively_grader.course.course import CourseError, Submission, check_name

TIMESTAMP = "timestamp.txt"
"""The time of submission, as nbgrader's exchange and `attentively submit` write it."""
LONGEST_DATE = 100
"""Maximum characters; parsing a much longer text as a date is very slow."""
MOST_FILES = 2_000
LARGEST_FILE = 64 * 2**20
LARGEST_SUBMISSION = 256 * 2**20
LARGEST_NOTEBOOK = 32 * 2**20
MOST_VALUES = 1_000_000
"""Maximum number of strings, commas and brackets in a notebook."""
DEEPEST_NOTEBOOK = 50
MOST_CELLS = 2_000
LARGEST_CELL = 2**20
"""Maximum characters of one cell."""
DEEPEST = 20
KINDS = ("code", "markdown", "raw")
SURROGATES = re.compile("[\ud800-\udfff]")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[][{},]', re.DOTALL)
"""A string, a bracket or a comma of JSON; every byte is read once."""
ACTIVE = {"text/html", "text/xml", "text/xsl", "application/xml", "application/wasm"}
ACTIVE |= {"text/javascript", "application/javascript", "application/x-javascript"}
ACTIVE |= {"message/rfc822", "application/x-shockwave-flash", "application/hta"}
"""Kinds of files that a browser executes, with all whose kind ends in +xml."""
ACTIVE_SUFFIXES: tuple[str, ...] = (
    ".htm",
    ".html",
    ".mht",
    ".mhtml",
    ".shtml",
    ".svg",
    ".svgz",
    ".swf",
    ".xht",
)
ACTIVE_SUFFIXES += (".xhtml", ".xml", ".xsl", ".xslt", ".js", ".mjs", ".cjs", ".hta")


class SubmissionError(CourseError):
    """This submission cannot be graded and is set aside; the message states the reason."""


@dataclass(frozen=True)
class Cell:
    """The text of a cell and the ids by which it is recognised."""

    kind: str
    source: str
    mark: str | None = None
    """The nbgrader id."""
    id: str | None = None
    """The id in the notebook format."""
    attachments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HandedIn:
    """The content of a submission."""

    notebooks: dict[str, list[Cell]]
    """The notebooks of the assignment, by name without suffix."""
    files: dict[str, Path]
    """All other files, by their path relative to the folder."""
    content: str
    """A hash of all files."""
    remarks: tuple[str, ...] = ()
    """Remarks for the instructor on a submission that can be graded."""


def read(
    submission: Submission,
    expected: Collection[str],
    ignore: Sequence[str],
    released: Collection[str] = (),
) -> HandedIn:
    """Read a submission for an assignment with the `expected` notebooks.

    Files and folders that match a pattern of `ignore` are skipped, as in nbgrader. `released` are
    the names of the files that the instructor gave with the assignment. Raises
    `SubmissionError`.
    """
    try:
        check_name(submission.student, "the student's name")
    except CourseError as error:
        raise SubmissionError(printable(str(error))) from None
    files = dict(_files(submission.folder, ignore))
    wanted = {f"{name}.ipynb" for name in expected}
    contents = _contents(files, wanted)
    _check_timestamp(files)
    found = {name for name in files if name.endswith(".ipynb") and "/" not in name}
    if not found & wanted:
        raise SubmissionError(_without_notebook(wanted, files))
    return HandedIn(
        notebooks={
            name.removesuffix(".ipynb"): parse(contents[name], name)
            for name in sorted(found & wanted)
        },
        files={name: path for name, path in files.items() if not name.endswith(".ipynb")},
        content=_fingerprint(contents),
        remarks=(*_remarks(found, wanted), *_active(files, released)),
    )


def is_active(name: str) -> bool:
    """Return whether a browser would execute a file of this name, such as HTML and SVG."""
    name = name.lower().rstrip(". ")
    kind = mimetypes.guess_type(f"file:{name}", strict=False)[0] or ""
    return name.endswith(ACTIVE_SUFFIXES) or kind in ACTIVE or kind.endswith("+xml")


def printable(text: str, most: int = 300) -> str:
    """Return text without control characters and line breaks, safe for a terminal."""
    clean = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", without_surrogates(text))
    return clean if len(clean) <= most else f"{clean[:most]}..."


def without_surrogates(text: str) -> str:
    """Return text that UTF-8 can encode; lone surrogates become the replacement character."""
    return SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


# The files


def _files(folder: Path, ignore: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the relative and the full path of each file; reject links and special files."""
    for part in (folder.parent, folder):
        _refuse_unless_plain(part.lstat().st_mode, part.name, folder=part)
    if not folder.is_dir():
        raise SubmissionError(f"{printable(folder.name)} is a file, expected a folder")
    seen = 0
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        if len(current.relative_to(folder).parts) > DEEPEST:
            raise SubmissionError(f"its folders are nested more than {DEEPEST} deep")
        try:
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except OSError as error:
            raise _unreadable(current, error) from None
        for entry in entries:
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in ignore):
                continue
            path = Path(entry.path)
            name = path.relative_to(folder).as_posix()
            mode = entry.stat(follow_symlinks=False).st_mode
            _refuse_unless_plain(mode, name)
            if stat.S_ISDIR(mode):
                waiting.append(path)
                continue
            seen += 1
            if seen > MOST_FILES:
                raise SubmissionError(f"it has more than {MOST_FILES} files")
            yield name, path


def _refuse_unless_plain(mode: int, name: str, folder: Path | None = None) -> None:
    kinds = {
        stat.S_ISLNK: "a symbolic link",
        stat.S_ISFIFO: "a named pipe",
        stat.S_ISSOCK: "a socket",
        stat.S_ISBLK: "a device",
        stat.S_ISCHR: "a device",
    }
    for test, kind in kinds.items():
        if test(mode):
            what = "the folder " if folder else ""
            raise SubmissionError(
                f"{what}{printable(name)} is {kind}, expected a regular file: ask for plain files"
            )


def _contents(files: Mapping[str, Path], wanted: Collection[str]) -> dict[str, bytes]:
    """Return the content of the wanted notebooks and a hash of each other file."""
    contents = {}
    total = 0
    for name, path in files.items():
        content = read_file(path, name)
        total += len(content)
        if total > LARGEST_SUBMISSION:
            most = LARGEST_SUBMISSION // 2**20
            raise SubmissionError(f"its files are larger than {most} MiB together")
        contents[name] = content if name in wanted else hashlib.sha256(content).digest()
    return contents


def read_file(path: Path, name: str, most: int = LARGEST_FILE) -> bytes:
    """Return the content of a regular file; do not open links or pipes."""
    # Without O_NONBLOCK, opening a pipe without a writer would block forever.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            _refuse_unless_plain(os.fstat(descriptor).st_mode, name)
            content = file.read(most + 1)
    except OSError as error:
        raise _unreadable(Path(name), error) from None
    if len(content) > most:
        raise SubmissionError(f"{printable(name)} is larger than {most // 2**20} MiB")
    return content


def _unreadable(path: Path, error: OSError) -> SubmissionError:
    return SubmissionError(f"{printable(path.name)} cannot be read: {error.strerror}")


def _check_timestamp(files: Mapping[str, Path]) -> None:
    """Reject a date that nbgrader cannot parse, because it determines the late penalty."""
    if TIMESTAMP not in files:
        return
    text = read_file(files[TIMESTAMP], TIMESTAMP).decode("utf-8", "replace").strip()
    try:
        if len(text) > LONGEST_DATE:
            raise ValueError("not a date")
        if text:
            parse_utc(text)
    except Exception:  # the parser may raise anything
        raise SubmissionError(
            f"{TIMESTAMP} contains {printable(text, 40)!r}, expected a date such as "
            "2026-03-31 23:59:00 UTC. Correct or delete the file"
        ) from None


def _fingerprint(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(hashlib.sha256(contents[name]).digest())
    return digest.hexdigest()


def _without_notebook(wanted: Collection[str], files: Mapping[str, Path]) -> str:
    reason = f"expected {' or '.join(sorted(wanted))}"
    notebooks = sorted(name for name in files if name.endswith(".ipynb"))
    archives = sorted(name for name in files if name.endswith((".zip", ".tar", ".gz", ".7z")))
    if notebooks:
        return f"{reason}, found {printable(', '.join(notebooks))}"
    if archives:
        return f"{reason}, found {printable(', '.join(archives))}. Archives are not opened"
    return f"{reason}, but the folder {'is empty' if not files else 'contains only other files'}"


def _remarks(found: set[str], wanted: set[str]) -> Iterator[str]:
    for name in sorted(wanted - found):
        yield f"{name} is missing"
    for name in sorted(found - wanted):
        yield f"{printable(name)} is not a notebook of this assignment and was ignored"


def _active(files: Collection[str], released: Collection[str]) -> Iterator[str]:
    for name in sorted(files):
        if is_active(name) and name not in released:
            yield (
                f"{printable(name)} can act in a browser: it stays in submitted/ and is not "
                "copied to autograded/"
            )


# The notebook


def parse(content: bytes, name: str) -> list[Cell]:
    """Return the cells of a notebook; raise `SubmissionError` if it cannot be read."""
    try:
        check_size(content)
        notebook = json.loads(content.decode("utf-8-sig"))
        if not isinstance(notebook, dict):
            raise ValueError("it contains no cells")
        if notebook.get("nbformat") != 4:
            raise ValueError(f"its format is {notebook.get('nbformat')!r}, expected 4")
        cells = notebook.get("cells")
        if not isinstance(cells, list) or not cells:
            raise ValueError("it contains no cells")
        if len(cells) > MOST_CELLS:
            raise ValueError(f"it has more than {MOST_CELLS} cells")
        return [_cell(cell, place) for place, cell in enumerate(cells, start=1)]
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise SubmissionError(
            f"{name} is not a readable notebook: it is truncated or damaged at {where}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise SubmissionError(f"{name} is not a readable notebook: {printable(lines[0])}") from None


def check_size(
    content: bytes,
    largest: int = LARGEST_NOTEBOOK,
    most: int = MOST_VALUES,
    deepest: int = DEEPEST_NOTEBOOK,
) -> None:
    """Raise `ValueError` for JSON that is too large to parse; build no object of it."""
    if len(content) > largest:
        raise ValueError(f"it is larger than {largest // 2**20} MiB, the limit of a notebook")
    depth = 0
    for number, token in enumerate(TOKEN.finditer(content), start=1):
        if number > most:
            raise ValueError(f"it has more than {most} values, the limit of a notebook")
        first = content[token.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > deepest:
            raise ValueError(f"it is nested more than {deepest} deep, the limit of a notebook")


def _cell(cell: object, place: int) -> Cell:
    if not isinstance(cell, dict) or cell.get("cell_type") not in KINDS:
        raise ValueError(f"cell {place} is not a code, Markdown or raw cell")
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise ValueError(f"cell {place} has no text")
    if len(source) > LARGEST_CELL:
        raise ValueError(f"cell {place} has more than {LARGEST_CELL} characters")
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    mark = marks.get("grade_id") if isinstance(marks, dict) else None
    name = cell.get("id")
    return Cell(
        kind=cell["cell_type"],
        source=without_surrogates(source),
        mark=mark if isinstance(mark, str) else None,
        id=name if isinstance(name, str) else None,
        attachments=_attachments(cell.get("attachments")),
    )


def _attachments(attachments: object) -> dict[str, Any]:
    """Return the images attached to a Markdown cell: by name and MIME type, in base64."""
    if not isinstance(attachments, dict):
        return {}
    kept: dict[str, Any] = {}
    for name, kinds in attachments.items():
        if isinstance(kinds, dict):
            pictures = {
                kind: data
                for kind, data in kinds.items()
                if kind in ("image/png", "image/jpeg", "image/gif")
                and isinstance(data, str)
                and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data)
            }
            if pictures:
                kept[without_surrogates(name)] = pictures
    return kept
