"""Grade what was submitted into nbgrader's gradebook, one submission at a time.

Execution is nbgrader's own: a student's code runs with the rights of whoever grades. A
submission that cannot be graded is set aside with the reason, and the others go on.
"""

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from attentively_grader import notebooks
from attentively_grader.course import (
    CourseError,
    assignments,
    check_assignment,
    check_name,
    converting,
    course_directory,
    load_config,
    reason,
)
from attentively_grader.release import generate

WARNING = """\
!! Grading runs the students' code on this machine with YOUR rights and no sandbox.
!! It can read and delete your files and change the gradebook. Grade only the work of
!! people whom you would let use this account, or grade in a container made for it.
"""


@dataclass(frozen=True)
class Submission:
    """What one student handed in for one assignment."""

    student: str
    assignment: str
    folder: Path

    def content(self) -> str:
        """Return a fingerprint of every file."""
        return fingerprint(self.folder)


def fingerprint(folder: Path) -> str:
    """Return a hash of every file in a folder, but for what Python leaves there as it runs."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Scores:
    """A student's points, part by part, as they stand in the gradebook."""

    points: dict[str, float]
    maximum: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.points.values())

    def __str__(self) -> str:
        return f"{self.total:g} of {sum(self.maximum.values()):g}"


class Course:
    """The folders and the gradebook of one course."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.config: Config = load_config(self.root)
        self.directory: CourseDirectory = course_directory(self.root, self.config)

    def folder(self, step: str) -> Path:
        """Return one of nbgrader's folders: source, submitted, autograded, feedback."""
        return self.root / str(getattr(self.directory, f"{step}_directory"))

    def submissions(
        self, assignment: str | None = None, students: Sequence[str] = ()
    ) -> list[Submission]:
        """Return what there is to grade, by assignment and student.

        Raises `CourseError` for an unknown assignment, and where nothing was submitted.
        """
        if assignment is not None:
            check_assignment(self.root, self.config, assignment)
        wanted = [assignment] if assignment else assignments(self.root, self.config)
        submitted = self.folder("submitted")
        found = [
            Submission(path.parent.name, path.name, path)
            for path in sorted(submitted.glob("*/*"))
            if path.is_dir() and path.name in wanted and not path.parent.name.startswith(".")
        ]
        for student in students:
            if student not in {each.student for each in found}:
                handed_in = ", ".join(sorted({each.student for each in found})) or "nobody"
                raise CourseError(
                    f"{student!r} has submitted nothing"
                    + (f" for {assignment}" if assignment else "")
                    + f"; there is work of: {handed_in}"
                )
        if students:
            found = [each for each in found if each.student in students]
        if not found:
            what = assignment or "ASSIGNMENT"
            raise CourseError(
                f"nothing was submitted{f' for {assignment}' if assignment else ''}: expected "
                f"{submitted.name}/STUDENT/{what}/{what}.ipynb, as `attentively submit` packs it"
            )
        return sorted(found, key=lambda each: (each.assignment, each.student))

    def scores(self, submission: Submission) -> Scores | None:
        """Return the scores in the gradebook, in the order of the parts."""
        order = self._parts(submission.assignment)
        with Gradebook(self.directory.db_url, self.directory.course_id) as gradebook:
            try:
                entry = gradebook.find_submission(submission.assignment, submission.student)
            except MissingEntry:
                return None
            grades = {grade.name: grade for book in entry.notebooks for grade in book.grades}
            known = [name for name in order if name in grades]
            return Scores(
                {name: float(grades[name].score or 0) for name in known},
                {name: float(grades[name].max_score or 0) for name in known},
            )

    def _parts(self, assignment: str) -> list[str]:
        return [
            cell.metadata.nbgrader.grade_id
            for path in sorted((self.folder("source") / assignment).glob("*.ipynb"))
            for cell in notebooks.read(path).cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        ]

    def prepare(self, assignment: str) -> None:
        """Tell the gradebook what the assignment's cells and points are."""
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            generate(self.root, assignment, elsewhere=Path(folder))

    def grade(self, submission: Submission) -> None:
        """Execute and score one submission, and write its feedback.

        Raises `CourseError` with a reason that an instructor can act on.
        """
        check_name(submission.student, "the student's name")
        self._check_files(submission)
        try:
            key = self._key(submission)
        except OSError as error:
            name = str(error.filename).replace(f"{self.root}/", "")
            raise CourseError(f"{name} cannot be read: {error.strerror}") from None
        directory = course_directory(self.root, self.config)
        directory.student_id, directory.assignment_id = submission.student, submission.assignment
        for converter_class in (Autograde, GenerateFeedback):
            converter = converter_class(coursedir=directory, config=self.config)
            converter.force = True
            with converting(converter) as messages:
                try:
                    converter.start()
                except Exception as error:  # whatever it is, the rest of the class goes on
                    raise CourseError(reason(messages, error)) from None
        self._remember(submission, key)

    def _check_files(self, submission: Submission) -> None:
        expected = {
            path.name for path in (self.folder("source") / submission.assignment).glob("*.ipynb")
        }
        there = {path.name for path in submission.folder.glob("*.ipynb")}
        if not expected & there:
            raise CourseError(
                f"there is no {' or '.join(sorted(expected))}"
                + (f", but {', '.join(sorted(there))}" if there else "")
            )
        for name in sorted(expected & there):
            try:
                notebooks.read(submission.folder / name)
            except ValueError as error:
                raise CourseError(str(error).replace(f"{self.root}/", "")) from None

    # What was graded already is known by its content, so that a second run is quick.

    def _key(self, submission: Submission) -> dict[str, str]:
        return {
            "submission": submission.content(),
            "source": fingerprint(self.folder("source") / submission.assignment),
            **self._dependencies,
        }

    @cached_property
    def _dependencies(self) -> dict[str, str]:
        """Fingerprints of the folders that the course's notebooks import from."""
        folders = self.config.Grading.get("depends_on", [])
        return {f"folder {name}": fingerprint(self.root / name) for name in folders}

    def _memory(self, submission: Submission) -> Path:
        folder = self.folder("autograded") / ".graded" / submission.student
        return folder / f"{submission.assignment}.json"

    def _remember(self, submission: Submission, key: dict[str, str]) -> None:
        path = self._memory(submission)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".writing")
        temporary.write_text(json.dumps(key) + "\n", encoding="utf-8")
        temporary.replace(path)

    def is_graded(self, submission: Submission) -> bool:
        """Tell whether this very work was graded against these very tests and checks."""
        try:
            known = json.loads(self._memory(submission).read_text(encoding="utf-8"))
            same = bool(known == self._key(submission))
        except (OSError, ValueError):  # `grade` says what cannot be read
            return False
        return same and self.scores(submission) is not None


def grade(
    root: Path, assignment: str | None = None, students: Sequence[str] = (), again: bool = False
) -> int:
    """Grade what is new, print a table of all; return the exit status."""
    course = Course(root)
    submissions = course.submissions(assignment, students)
    print(WARNING, file=sys.stderr, flush=True)
    set_aside: dict[Submission, str] = {}
    broken = _prepare(course, submissions)
    for number, submission in enumerate(submissions, start=1):
        place = f"[{number}/{len(submissions)}] {submission.assignment}, {submission.student}"
        if submission.assignment in broken:
            set_aside[submission] = broken[submission.assignment]
            print(f"{place}: SET ASIDE: {broken[submission.assignment]}", flush=True)
            continue
        if not again and course.is_graded(submission):
            print(f"{place}: graded before, {course.scores(submission)}", flush=True)
            continue
        print(f"{place}: ", end="", flush=True)
        started = time.monotonic()
        try:
            course.grade(submission)
        except CourseError as error:
            set_aside[submission] = str(error)
            print(f"SET ASIDE: {error}", flush=True)
            continue
        print(f"{course.scores(submission)} ({time.monotonic() - started:.0f} s)", flush=True)
    graded = [each for each in submissions if each not in set_aside]
    for name in sorted({each.assignment for each in graded}):
        print("\n".join(["", *_table(course, name, graded)]))
    if graded:
        print(f"\nFeedback: {course.folder('feedback').name}/STUDENT/ASSIGNMENT/*.html")
    if set_aside:
        print(f"\nNot graded, {len(set_aside)} of {len(submissions)}:", file=sys.stderr)
        for submission, why in set_aside.items():
            print(f"  {submission.folder.relative_to(course.root)}: {why}", file=sys.stderr)
    return 1 if set_aside else 0


def _prepare(course: Course, submissions: Sequence[Submission]) -> dict[str, str]:
    """Prepare each assignment; return those that cannot be, with the reason."""
    broken: dict[str, str] = {}
    for name in sorted({each.assignment for each in submissions}):
        try:
            course.prepare(name)
        except Exception as error:  # whatever it is, the other assignments go on
            broken[name] = str(error)
    return broken


def _table(course: Course, assignment: str, graded: Sequence[Submission]) -> Iterator[str]:
    rows = {each.student: course.scores(each) for each in graded if each.assignment == assignment}
    scores = {student: row for student, row in rows.items() if row is not None}
    parts = list(next(iter(scores.values())).maximum) if scores else []
    width = max([len(assignment), *map(len, scores)])
    yield f"{assignment:{width}}  " + "  ".join([*parts, "total"])
    most = next(iter(scores.values())).maximum if scores else {}
    yield _row("of", most, parts, width)
    for student, row in scores.items():
        yield _row(student, row.points, parts, width)


def _row(name: str, points: dict[str, float], parts: Sequence[str], width: int) -> str:
    cells = [f"{points[part]:{len(part)}g}" for part in parts]
    return f"{name:{width}}  " + "  ".join([*cells, f"{sum(points.values()):5g}"])
