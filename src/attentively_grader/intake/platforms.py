"""Read from the path of a file whose submission it is, as learning platforms name their downloads.

- Moodle: ``Full Name_12345_assignsubmission_file/FILE`` (before 4.1 with ``_`` at the end of the
  folder), or ``Full Name_12345_assignsubmission_file_FILE`` where it downloads without folders. The
  number belongs to the student in this assignment only.
- Canvas: ``name_12345_67890_FILE``, with ``LATE_`` before the first number if it is late. The
  numbers are those of the user, in all assignments, and of the file; a later file has a greater
  number. Instead of name and user, an anonymous assignment has ``anon_`` and a code.
- nbgrader's exchange: ``STUDENT+ASSIGNMENT+TIME``, and a random text.
- Plain folders: ``STUDENT/ASSIGNMENT/FILE`` or ``STUDENT/FILE``.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from nbgrader.utils import parse_utc

from attentively_grader.intake.archives import Entry

MOODLE = re.compile(
    r"(?P<name>.+?)(?:_(?P<number>[0-9]+))?_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<file>.*))?"
)
CANVAS = re.compile(
    r"(?:(?!(?:LATE_)?anon_)(?P<name>\w+?)_)?(?P<late>LATE_)?(?P<number>[0-9]+|anon_[A-Za-z0-9]+)_"
    r"(?:(?P<attachment>[0-9]+)_(?P<file>.+)|(?P<text>text|link)\.html)"
)
EXCHANGE = re.compile(
    r"(?P<student>[^+]+)\+(?P<assignment>[^+]+)\+"
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d[:_-]\d\d[:_-]\d\d[^+]*)(?:\+.*)?"
)


@dataclass(frozen=True, order=True)
class Who:
    """A student as a platform names them."""

    platform: str
    """One of "moodle", "canvas", "folder"; the exchange of nbgrader consists of folders."""
    name: str
    number: str = ""


@dataclass(frozen=True)
class Placed:
    """A file of a student's submission."""

    entry: Entry
    who: Who
    inside: str
    """The path of the file inside the student's part of the archive."""
    back: str = ""
    """What the platform expects before the name of a file that is returned to the student."""
    assignment: str = ""
    """The assignment, where the path names it."""
    attachment: int | None = None
    """Canvas's number of the file."""
    time: datetime | None = None
    """The time of submission in the name of a folder of the exchange."""
    remark: str = ""
    is_text: bool = False
    """Whether the student wrote into a text field of the platform instead of handing in a file."""


def place(entry: Entry, assignments: Collection[str]) -> Placed | None:
    """Return whose file this is; None if its path names no student."""
    parts = entry.path.split("/")
    for number, part in enumerate(parts):
        rest = parts[number + 1 :]
        if match := MOODLE.fullmatch(part):
            return _from_moodle(entry, match, rest)
        if rest and (match := EXCHANGE.fullmatch(part)):
            return _from_exchange(entry, match, rest)
        if (not rest or part.lower().endswith(".zip")) and (match := CANVAS.fullmatch(part)):
            return _from_canvas(entry, match, rest)
    return _from_folders(entry, parts, assignments)


def _from_moodle(entry: Entry, match: re.Match[str], rest: list[str]) -> Placed:
    file = match["file"] or ""
    whole = match[0]
    return Placed(
        entry,
        Who("moodle", match["name"].strip(), match["number"] or ""),
        "/".join([*([file] if file else []), *rest]),
        back=whole[: len(whole) - len(file)] if file else f"{whole}/",
        is_text=match["kind"] != "file",
    )


def _from_canvas(entry: Entry, match: re.Match[str], rest: list[str]) -> Placed:
    file = match["file"] or match["text"]
    return Placed(
        entry,
        Who("canvas", match["name"] or match["number"], match["number"]),
        "/".join([file, *rest]),
        back=match[0].removesuffix(file) if match["file"] else "",
        attachment=int(match["attachment"]) if match["attachment"] else None,
        remark="late on Canvas" if match["late"] else "",
        is_text=match["text"] is not None,
    )


def _from_exchange(entry: Entry, match: re.Match[str], rest: list[str]) -> Placed:
    time = re.sub(r"(?<=\d)[_-](?=\d\d\b)", ":", match["time"][10:])
    try:
        when = parse_utc(match["time"][:10] + time)
    except Exception:  # the parser may raise anything
        when = None
    who = Who("folder", match["student"])
    return Placed(entry, who, "/".join(rest), assignment=match["assignment"], time=when)


def _from_folders(entry: Entry, parts: list[str], assignments: Collection[str]) -> Placed | None:
    folders = parts[:-1]
    known = {name.casefold(): name for name in assignments}
    for number in range(len(folders) - 1, 0, -1):
        assignment = known.get(folders[number].casefold())
        if assignment and not folders[number - 1].lower().endswith(".zip"):
            inside = "/".join(parts[number + 1 :])
            who = Who("folder", folders[number - 1])
            return Placed(entry, who, inside, assignment=assignment)
    archives = [n for n, part in enumerate(folders) if part.lower().endswith(".zip")]
    owner = (archives[0] if archives else len(folders)) - 1
    if owner < 0 or folders[owner].casefold() in known:
        return None
    return Placed(entry, Who("folder", folders[owner]), "/".join(parts[owner + 1 :]))
