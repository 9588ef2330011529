"""Collect submissions from a learning platform's archive into submitted/.

First everything is planned, then each submission is written as a whole. Of several versions, the
newest is taken. A submission that is there already is replaced only by a newer one, and is kept in
STUDENT/.earlier/. What was collected, and from where, is noted in STUDENT/.collected/.
"""

import functools
import hashlib
import json
import posixpath
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.utils import parse_utc

from attentively_grader.course.course import Course, check_assignment
from attentively_grader.intake import students_table
from attentively_grader.intake.archives import Entry, listing
from attentively_grader.intake.platforms import Placed, Who, place
from attentively_grader.intake.recognition import Recognition
from attentively_grader.intake.result_store import write_whole
from attentively_grader.intake.submissions import (
    LARGEST_SUBMISSION,
    LONGEST_DATE,
    MOST_FILES,
    TIMESTAMP,
    SubmissionError,
    printable,
)

EARLIER = ".earlier"
"""Folder of replaced submissions, also of `attentively submit`; nbgrader ignores it."""
COLLECTED = ".collected"
"""Folder of notes on the origin of submissions; nbgrader ignores it."""
WRITTEN = ("new", "updated")
"""The states of submissions that are written."""
Look = Callable[[Iterable[Any]], Iterable[Any]]
"""Wraps what is iterated over in a progress bar."""


@dataclass(frozen=True)
class Version:
    """What tells which of two submissions is newer; each field may be unknown."""

    attachment: int | None = None
    """Canvas's number of the file."""
    time: datetime | None = None
    """The time of submission: timestamp.txt, or the name of a folder of the exchange."""
    modified: float | None = None
    """The time of the file in the archive."""

    def compare(self, other: "Version") -> float | None:
        """Return a positive number if this version is newer, None if that is unknown."""
        if self.attachment is not None and other.attachment is not None:
            return self.attachment - other.attachment
        if self.time is not None and other.time is not None:
            return (self.time - other.time).total_seconds()
        if self.time is None and other.time is None and self.modified and other.modified:
            return self.modified - other.modified
        return None

    def __str__(self) -> str:
        if self.time is not None:
            return f"{self.time:%Y-%m-%d %H:%M:%S} UTC"
        if self.attachment is not None:
            return f"file {self.attachment} of Canvas"
        return f"{datetime.fromtimestamp(self.modified or 0):%Y-%m-%d %H:%M:%S}"


@dataclass
class Collected:
    """One student's submission for one assignment."""

    student: str
    who: Who
    assignment: str
    folder: Path
    files: dict[str, Entry]
    version: Version
    back: str
    remarks: list[str] = field(default_factory=list)
    state: str = ""
    """One of "new", "updated", "unchanged", "kept", "refused"."""
    digest: str = ""
    """A hash of the files."""

    @property
    def note(self) -> Path:
        return note_of(self.folder)


@dataclass
class Plan:
    """The submissions of an archive, and what was skipped, with the reason."""

    submissions: list[Collected] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    without: dict[Who, str] = field(default_factory=dict)
    """Students of whom nothing can be collected, with the reason."""
    rows: list[students_table.Row] = field(default_factory=list)
    """The table of students, with the new ones."""
    same_names: list[str] = field(default_factory=list)
    """Names that several students of Moodle have."""


@dataclass(frozen=True)
class _Candidate:
    placed: Placed
    assignment: str
    notebook: str
    remark: str
    content: bytes
    version: Version


def note_of(folder: Path) -> Path:
    """Return the path of the note on the origin of a submission."""
    return folder.parent / COLLECTED / f"{folder.name}.json"


def plan(
    course: Course,
    source: Path,
    assignment: str | None = None,
    force: bool = False,
    look: Look = iter,
    rows: Sequence[students_table.Row] | None = None,
) -> Plan:
    """Return what would be collected from a zip archive or a folder; write nothing.

    `assignment` is that of all notebooks; otherwise each is recognised. `rows` is the table of
    students, by default that of the course. With `force`, a submission replaces what is there.
    """
    if assignment is not None:
        check_assignment(course.root, course.config, assignment)
    recognition = Recognition(course)
    found = listing(source)
    planned = Plan(skipped=found.skipped)
    of_student: dict[Who, list[Placed]] = defaultdict(list)
    for entry in found.entries:
        placed = place(entry, recognition.assignments)
        if placed is None:
            planned.skipped[entry.path] = "no folder names the student"
        else:
            of_student[placed.who].append(placed)
    known = students_table.read(course.root) if rows is None else rows
    chosen: dict[Who, dict[str, list[_Candidate]]] = {}
    for who, files in look(sorted(of_student.items())):
        chosen[who] = _chosen(files, recognition, assignment, planned)
        if not chosen[who]:
            planned.without[who] = _nothing(files)
    collected = [who for who in chosen if chosen[who]]
    planned.rows, ids = students_table.with_ids(known, collected)
    names = [who.name.casefold() for who in collected if who.platform == "moodle"]
    planned.same_names = sorted({name for name in names if names.count(name) > 1})
    taken: set[tuple[str, str]] = set()
    for who in collected:
        for name, candidates in chosen[who].items():
            one = _submission(
                course, ids[who], who, name, candidates, of_student[who], planned, ids.values()
            )
            if (one.student, name) in taken:  # two rows of the table with one id
                one.state = "refused"
                one.remarks.append(f"another student of {students_table.FILE} has the same id")
            taken.add((one.student, name))
            if not one.state:
                _compare(one, force)
            planned.submissions.append(one)
    return planned


def _chosen(
    files: Sequence[Placed], recognition: Recognition, wanted: str | None, planned: Plan
) -> dict[str, list[_Candidate]]:
    """Return the newest version of each notebook, by assignment."""
    versions: dict[tuple[str, str], list[_Candidate]] = defaultdict(list)
    for placed in files:
        path = placed.entry.path
        if placed.is_text:
            planned.skipped[path] = "a text or a link that was entered on the platform, not a file"
        if placed.is_text or not placed.inside.lower().endswith(".ipynb"):
            continue
        said = placed.assignment or wanted or ""
        if said and (said not in recognition.notebooks or said != (wanted or said)):
            planned.skipped[path] = f"of the assignment {said}" + (
                f", expected {wanted}" if wanted else ", which this course does not have"
            )
            continue
        try:
            content = placed.entry.read()
            found = recognition.recognise(placed.inside, content, said)
            if isinstance(found, SubmissionError):
                raise found
        except SubmissionError as error:
            planned.skipped[path] = str(error)
            continue
        version = Version(
            placed.attachment, placed.time or _time(placed, files), placed.entry.modified
        )
        one = _Candidate(placed, *found, content, version)
        versions[one.assignment, one.notebook].append(one)
    chosen: dict[str, list[_Candidate]] = defaultdict(list)
    for (assignment, _), several in versions.items():
        *older, newest = sorted(several, key=functools.cmp_to_key(_order))
        chosen[assignment].append(newest)
        for one in older:
            path = newest.placed.entry.path
            if one.content == newest.content:
                why = f"the same as {path}"
            elif _newer(newest, one):
                why = f"an older version ({one.version}) than {path}"
            else:
                why = f"another version; which one is newer is unknown. Collected: {path}"
            planned.skipped[one.placed.entry.path] = why
    return chosen


def _newer(one: _Candidate, other: _Candidate) -> float | None:
    """Return a positive number if the first version is newer, None if that is unknown."""
    versions = one.version, other.version
    if one.placed.who.platform == "moodle":  # its archive states the time of the download
        versions = (replace(versions[0], modified=None), replace(versions[1], modified=None))
    return versions[0].compare(versions[1])


def _order(one: _Candidate, other: _Candidate) -> int:
    """Compare two versions by age, or else by whether the name is exact, or else by the path."""
    newer = _newer(one, other) or 0
    keys = [
        (f"{each.notebook}.ipynb" == posixpath.basename(each.placed.inside), each.placed.entry.path)
        for each in (one, other)
    ]
    return (newer > 0) - (newer < 0) or (keys[0] > keys[1]) - (keys[0] < keys[1])


def _time(placed: Placed, files: Sequence[Placed]) -> datetime | None:
    """Return the time in the timestamp.txt next to a notebook."""
    name = posixpath.join(posixpath.dirname(placed.inside), TIMESTAMP)
    for other in files:
        if other.inside == name and other.back == placed.back:
            try:
                return _parsed(other.entry.read())
            except SubmissionError:
                return None
    return None


def _parsed(content: bytes) -> datetime | None:
    text = content.decode("utf-8", "replace").strip()
    try:
        found: datetime = parse_utc(text)
        return found if 0 < len(text) <= LONGEST_DATE else None
    except Exception:  # the parser may raise anything
        return None


def _nothing(files: Sequence[Placed]) -> str:
    names = sorted(placed.inside for placed in files if not placed.is_text)
    if any(name.lower().endswith(".ipynb") for name in names):
        return "no notebook that can be collected; the reasons are below"
    if not names:
        return "a text that was entered on the platform, and no file"
    return f"no notebook; found {printable(', '.join(names))}"


def _submission(
    course: Course,
    student: str,
    who: Who,
    assignment: str,
    candidates: Sequence[_Candidate],
    files: Sequence[Placed],
    planned: Plan,
    students: Collection[str],
) -> Collected:
    """Return the submission with the notebooks and the other files in their folders."""
    newest = max(candidates, key=functools.cmp_to_key(_order))
    one = Collected(
        student,
        who,
        assignment,
        course.place("submitted", student, assignment),
        {},
        newest.version,
        newest.placed.back,
    )
    units = dict.fromkeys(posixpath.dirname(each.placed.inside) for each in candidates)
    for unit in units:
        for placed in files:
            name = posixpath.relpath(placed.inside, unit or ".")
            outside = name.startswith("..") or any(
                p.lower().endswith(".zip") for p in name.split("/")
            )
            if outside or name.lower().endswith(".ipynb") or placed.is_text:
                continue
            same = next((each for each in one.files if each.casefold() == name.casefold()), name)
            if same != name:
                why = f"its name differs from {same} only in case"
                planned.skipped[placed.entry.path] = why
                continue
            one.files[name] = placed.entry
    for candidate in candidates:
        one.files[f"{candidate.notebook}.ipynb"] = candidate.placed.entry
        one.remarks += [text for text in (candidate.remark, candidate.placed.remark) if text]
    total = sum(entry.size for entry in one.files.values())
    if total > LARGEST_SUBMISSION or len(one.files) > MOST_FILES:
        one.state = "refused"
        one.remarks.append(
            f"{len(one.files)} files of {total // 2**20} MiB; the limits are {MOST_FILES} files "
            f"and {LARGEST_SUBMISSION // 2**20} MiB"
        )
        return one
    inside = newest.placed.inside.split("/")
    claimed = inside[inside.index(assignment) - 1] if assignment in inside[1:] else student
    if who.platform != "folder" and claimed != student and claimed in students:
        one.remarks.append(f"the folder inside names another student, {claimed}")
    return one


def _compare(one: Collected, force: bool) -> None:
    """Set the state of a submission, by its files and by what is there already."""
    try:
        contents = {name: entry.read() for name, entry in one.files.items()}
    except SubmissionError as error:
        one.state = "refused"
        one.remarks.append(str(error))
        return
    one.digest = _digest(contents)
    if not one.folder.exists():
        one.state = "new"
        return
    note = _noted(one)
    there = {
        path.relative_to(one.folder).as_posix(): path.read_bytes()
        for path in one.folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    if note.get("digest") == one.digest or there == contents:
        one.state = "unchanged"
        return
    stamp = there.get(TIMESTAMP)
    before = Version(
        note.get("attachment"), _parsed(stamp) if stamp else None, note.get("modified")
    )
    newer = one.version.compare(before)
    if force or (newer or 0) > 0:
        one.state = "updated"
    elif newer is None:
        one.state = "kept"
        one.remarks.append("differs from what is there, and their times cannot be compared")
    else:
        one.state = "kept"
        one.remarks.append(f"not newer ({one.version}) than what is there ({before})")


def _digest(contents: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(name.encode() + b"\0" + hashlib.sha256(contents[name]).digest())
    return digest.hexdigest()


def _noted(one: Collected) -> dict[str, Any]:
    try:
        note = json.loads(one.note.read_text(encoding="utf-8"))
        return note if isinstance(note, dict) else {}
    except (OSError, ValueError):
        return {}


def write(course: Course, planned: Plan, look: Look = iter) -> None:
    """Write the planned submissions, each as a whole.

    An interrupted run is repeated with the same command. Raises `CourseError` if the disk is full.
    """
    students_table.write(course.root, planned.rows)
    for one in planned.submissions:
        if one.state == "unchanged" and not one.note.exists():
            _write_note(one)
    for one in look([each for each in planned.submissions if each.state in WRITTEN]):
        try:
            _write(one)
        except (SubmissionError, OSError) as error:
            one.state = "refused"
            one.remarks.append(f"cannot be written: {printable(str(error))}")


def _write(one: Collected) -> None:
    one.folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=one.folder.parent, prefix=".collecting-"))
    try:
        for name, entry in one.files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.read())
        fresh.chmod(0o755)
        if one.folder.exists():
            one.remarks.append(f"the earlier one is kept in {EARLIER}/{_set_aside(one.folder)}")
        fresh.rename(one.folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    _write_note(one)


def _write_note(one: Collected) -> None:
    note = {
        "platform": one.who.platform,
        "name": one.who.name,
        "number": one.who.number,
        "back": one.back,
        "digest": one.digest,
        "attachment": one.version.attachment,
        "modified": one.version.modified,
    }
    write_whole(one.note, json.dumps(note, ensure_ascii=False, indent=1) + "\n")


def _set_aside(folder: Path) -> str:
    """Move a submission to the hidden folder of earlier ones; return its name there."""
    kept = folder.parent / EARLIER
    kept.mkdir(exist_ok=True)
    number = 1
    while (kept / f"{folder.name}-{number}").exists():
        number += 1
    folder.rename(kept / f"{folder.name}-{number}")
    return f"{folder.name}-{number}"


def report(planned: Plan, dry: bool) -> Iterator[str]:
    """Yield the lines that tell what was collected, and what was not and why."""
    shown = sorted(planned.submissions, key=lambda one: (one.assignment, one.student))
    if shown:
        width = max(len(one.student) for one in shown)
        names = max(len(printable(one.who.name)) for one in shown)
        for one in shown:
            remarks = printable("; ".join(one.remarks), 500)
            name = printable(one.who.name)
            line = f"  {one.state:9}  {one.student:{width}}  {name:{names}}  {one.assignment}"
            yield f"{line}  {remarks}".rstrip()
    if planned.without:
        yield f"\nNothing collected from these students ({len(planned.without)}):"
        for who, why in sorted(planned.without.items()):
            yield f"  {printable(who.name)}: {printable(why, 500)}"
    if planned.skipped:
        yield f"\nSkipped files ({len(planned.skipped)}):"
        for path, why in sorted(planned.skipped.items()):
            yield f"  {printable(path)}: {printable(why, 500)}"
    for name in planned.same_names:
        yield (
            f"\nSeveral students of Moodle are named {name!r}. Their numbers differ in each "
            f"assignment, so compare their rows in {students_table.FILE}"
        )
    yield ""
    counts = dict.fromkeys(("new", "updated", "unchanged", "kept", "refused"), 0)
    for one in shown:
        counts[one.state] += 1
    said = ", ".join(f"{number} {state}" for state, number in counts.items() if number) or "none"
    yield f"Submissions: {said}"
    if counts["kept"]:
        yield "  kept: what is there already stays. To replace it, add --force"
    if dry:
        yield "Nothing was written, because of --dry-run"
    elif shown:
        yield f"Names and ids: {students_table.FILE}"
        assignments = {one.assignment for one in shown}
        only = assignments.pop() if len(assignments) == 1 else ""
        yield f"Next step: attentively grade {only}".rstrip()
