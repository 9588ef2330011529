"""A course: the folder with nbgrader_config.py, and the folders that it names."""

import difflib
import glob
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import sqlalchemy.exc
from alembic.script import ScriptDirectory
from nbgrader import api
from nbgrader.api import Gradebook
from nbgrader.converters.base import BaseConverter
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from attentively_grader.course import notebooks

CONFIG = "nbgrader_config.py"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Valid names of assignments and students; a name becomes a folder and a pattern."""
Parts = Mapping[tuple[str, str], str]
"""The title of each part, by its notebook and the nbgrader id of its cell."""


class CourseError(Exception):
    """An error in the folders of the course; the message says what to do."""


class LockedError(CourseError):
    """Another program has locked the gradebook; results are kept and can be recorded later."""


def raise_if_locked(error: BaseException | None) -> None:
    """Raise `LockedError` if an error or one of its causes is a locked gradebook."""
    while error is not None:
        if "locked" in str(error) and isinstance(error, sqlalchemy.exc.OperationalError):
            raise LockedError(
                "the gradebook is locked. Close other programs that write to it, then repeat the "
                "command. All results so far are kept"
            ) from None
        error = error.__context__


def load_config(root: Path) -> Config:
    """Read the course's nbgrader_config.py, as nbgrader itself does."""
    if not (root / CONFIG).is_file():
        raise CourseError(f"{root} is not a course folder: it has no {CONFIG}")
    path = str(root.resolve())
    if glob.escape(path) != path:
        raise CourseError(
            f"{path}: nbgrader finds no notebooks in a folder whose path contains *, ? or [, "
            "because it reads these as patterns. Rename the folder"
        )
    return PyFileConfigLoader(CONFIG, path=str(root)).load_config()


def course_directory(root: Path, config: Config) -> CourseDirectory:
    """Return nbgrader's view of the course."""
    return CourseDirectory(config=config, root=str(root.resolve()))


def assignments(root: Path, config: Config) -> list[str]:
    """Return the names of the assignments that have a source notebook."""
    source = root / course_directory(root, config).source_directory
    return sorted({path.parent.name for path in source.glob("*/*.ipynb")})


def check_assignment(root: Path, config: Config, name: str) -> None:
    """Raise `CourseError` for an unknown assignment; the message lists the known ones."""
    known = assignments(root, config)
    if name not in known:
        folder = course_directory(root, config).source_directory
        close = difflib.get_close_matches(name, known, 1)
        meant = f" Did you mean {close[0]}?" if close else ""
        listed = ", ".join(known) or "none"
        raise CourseError(
            f"no assignment {name!r} in {folder}/.{meant} Assignments there: {listed}"
        )


def check_name(name: str, what: str) -> None:
    """Raise `CourseError` for a name that could be a path or a pattern."""
    if not NAME.fullmatch(name):
        raise CourseError(
            f"{what} {name!r} is not valid: use letters without accents, digits, _ . and -, and "
            "start with a letter, a digit or _"
        )


@contextmanager
def converting(converter: BaseConverter) -> Iterator[list[str]]:
    """Collect the log messages of nbgrader's converter in a list instead of the terminal."""
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Keep(logging.WARNING)
    log = converter.log
    before = log.handlers[:], log.propagate
    log.handlers[:], log.propagate = [handler], False
    version = api.get_alembic_version
    api.get_alembic_version = _newest_schema
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of SQLAlchemy, about how nbgrader uses it
            yield messages
    finally:
        api.get_alembic_version = version
        log.handlers[:], log.propagate = before


def _newest_schema() -> str:
    """Return the schema version of a new gradebook without nbgrader's slow subprocess."""
    head = ScriptDirectory(str(Path(api.__file__).parent / "alembic")).get_current_head()
    if head is None:
        raise CourseError(
            "the schema version of nbgrader's gradebook is unknown. Reinstall nbgrader"
        )
    return head


def reason(messages: list[str], error: BaseException) -> str:
    """Return the line of nbgrader's log that states why a conversion failed."""
    for message in messages:
        if message.startswith("Traceback"):
            lines = [line for line in message.splitlines() if re.match(r"[A-Za-z_][\w.]*: ", line)]
            return lines[-1] if lines else message.strip().splitlines()[-1]
    return messages[0].strip().splitlines()[0] if messages else str(error)


@dataclass(frozen=True)
class Submission:
    """The submission of one student for one assignment."""

    student: str
    assignment: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.assignment}, {self.student}"


@dataclass(frozen=True)
class Scores:
    """A student's points by part, from the gradebook."""

    points: dict[str, float]
    maximum: dict[str, float]
    """Maximum points by part; like `points`, in the order of the notebook."""
    penalty: float = 0.0
    """Late penalty in points."""
    by_hand: frozenset[str] = frozenset()
    """The parts that wait for manual grading, also after a later automatic grading."""

    @property
    def total(self) -> float:
        return max(0.0, sum(self.points.values()) - self.penalty)

    def __str__(self) -> str:
        text = f"{self.total:g} of {sum(self.maximum.values()):g}"
        if self.penalty:
            text += f", late penalty {self.penalty:g}"
        if self.by_hand:
            text += f", answers that wait for manual grading: {len(self.by_hand)}"
        return text


class Course:
    """The folders and the gradebook of one course."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.config: Config = load_config(self.root)
        self.directory: CourseDirectory = course_directory(self.root, self.config)

    def folder(self, step: str) -> Path:
        """Return one of nbgrader's folders: source, submitted, autograded, feedback."""
        return self.root / str(getattr(self.directory, f"{step}_directory"))

    def place(self, step: str, student: str, assignment: str) -> Path:
        """Return the folder of one student's work in one of these folders."""
        name = getattr(self.directory, f"{step}_directory")
        return Path(self.directory.format_path(name, student, assignment))

    def named(self, setting: str) -> dict[str, Path]:
        """Return the folders that a setting of ``c.Grading`` lists, by their names there.

        Raises `CourseError` for a missing folder, because the setting would have no effect.
        """
        folders = {name: self.root / name for name in self.config.Grading.get(setting, [])}
        for name, folder in folders.items():
            if not folder.is_dir():
                raise CourseError(
                    f"{CONFIG}: c.Grading.{setting} lists {name!r}, but {folder} is not a folder"
                )
        return folders

    @cached_property
    def kept(self) -> Path:
        """The folder for the grader's own data, which nbgrader ignores."""
        return self.folder("autograded") / ".graded"

    def submissions(
        self, assignment: str | None = None, students: Sequence[str] = ()
    ) -> list[Submission]:
        """Return the submissions to grade, sorted by assignment and student.

        Raises `CourseError` for an unknown assignment, and if nothing was submitted.
        """
        if assignment is not None:
            check_assignment(self.root, self.config, assignment)
        wanted = [assignment] if assignment else assignments(self.root, self.config)
        found = [each for name in wanted for each in self._submissions_of(name)]
        for student in students:
            if student not in {each.student for each in found}:
                handed_in = ", ".join(sorted({each.student for each in found})) or "none"
                raise CourseError(
                    f"{student!r} has submitted nothing"
                    + (f" for {assignment}" if assignment else "")
                    + f". Students with a submission: {handed_in}"
                )
        if students:
            found = [each for each in found if each.student in students]
        if not found:
            what = assignment or "ASSIGNMENT"
            submitted = self.directory.submitted_directory
            raise CourseError(
                f"nothing was submitted{f' for {assignment}' if assignment else ''}. Expected "
                f"{submitted}/STUDENT/{what}/{what}.ipynb, as `attentively submit` packs it"
            )
        return found

    def strays(self) -> list[str]:
        """Return the submitted folders that belong to no assignment of this course."""
        known = assignments(self.root, self.config)
        strays = []
        for student in self.folder("submitted").glob("[!.]*"):
            expected = {self.place("submitted", student.name, name) for name in known}
            there = self.place("submitted", glob.escape(student.name), "*")
            strays += [Path(path) for path in glob.glob(str(there)) if Path(path) not in expected]
        return sorted(str(path.relative_to(self.root)) for path in strays)

    def absent(self, assignment: str) -> list[str]:
        """Return the students in the gradebook without a submission for an assignment."""
        there = {each.student for each in self._submissions_of(assignment)}
        with self.gradebook() as gradebook:
            return sorted({student.id for student in gradebook.students} - there)

    def _submissions_of(self, assignment: str) -> Iterator[Submission]:
        step = self.directory.submitted_directory
        escaped = re.escape(assignment)
        pattern = self.directory.format_path(step, "(?P<student>[^/]+)", escaped, escape=True)
        for path in sorted(
            glob.glob(self.directory.format_path(step, "*", glob.escape(assignment)))
        ):
            match = re.fullmatch(pattern, path)
            if match is not None:
                yield Submission(match["student"], assignment, Path(path))

    def parts(self, assignment: str) -> Parts:
        """Return the titles of the cells with points, in the order of the notebooks.

        If two notebooks use the same title, both displayed titles start with the notebook's name.
        """
        found = [
            (path.stem, name, title)
            for path in sorted((self.folder("source") / assignment).glob("*.ipynb"))
            for name, title in notebooks.part_titles(notebooks.read(path)).items()
        ]
        often = Counter(title for _, _, title in found)
        return {
            (notebook, name): f"{notebook}/{title}" if often[title] > 1 else title
            for notebook, name, title in found
        }

    def scores(self, assignment: str) -> dict[str, Scores]:
        """Return every student's scores in the gradebook."""
        with self.gradebook() as gradebook:
            return scores_in(gradebook, assignment, self.parts(assignment))

    def gradebook(self) -> Gradebook:
        """Open the gradebook; use it in a ``with`` statement."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of SQLAlchemy, about how nbgrader uses it
            return Gradebook(self.directory.db_url, self.directory.course_id)


def scores_in(
    gradebook: Gradebook, assignment: str, parts: Parts, student: str | None = None
) -> dict[str, Scores]:
    """Return the scores of all students or of one, with a single database query."""
    asked = (
        gradebook.db.query(
            api.Student.id,
            api.SubmittedNotebook.id,
            api.SubmittedNotebook.late_submission_penalty,
            api.Notebook.name,
            api.BaseCell.name,
            api.Grade.score,
            api.Grade.max_score,
            api.Grade.needs_manual_grade,
        )
        .select_from(api.SubmittedAssignment)
        .join(api.Student, api.SubmittedAssignment.student_id == api.Student.id)
        .join(api.Assignment, api.SubmittedAssignment.assignment_id == api.Assignment.id)
        .outerjoin(
            api.SubmittedNotebook,
            api.SubmittedNotebook.assignment_id == api.SubmittedAssignment.id,
        )
        .outerjoin(api.Notebook, api.SubmittedNotebook.notebook_id == api.Notebook.id)
        .outerjoin(api.Grade, api.Grade.notebook_id == api.SubmittedNotebook.id)
        .outerjoin(api.BaseCell, api.Grade.cell_id == api.BaseCell.id)
        .filter(api.Assignment.name == assignment)
    )
    if student is not None:
        asked = asked.filter(api.Student.id == student)
    grades: dict[str, dict[str, tuple[float, float, bool]]] = {}
    penalties: dict[str, dict[str, float]] = {}
    for name, submitted, penalty, notebook, part, score, most, waits in asked:
        of_one = grades.setdefault(name, {})
        penalties.setdefault(name, {})[submitted] = float(penalty or 0)
        if (notebook, part) in parts:
            of_one[parts[notebook, part]] = float(score or 0), float(most or 0), bool(waits)
    return {
        name: _ordered(grades[name], [*parts.values()], sum(penalties[name].values()))
        for name in sorted(grades)
    }


def _ordered(
    grades: Mapping[str, tuple[float, float, bool]], order: Sequence[str], penalty: float
) -> Scores:
    known = [part for part in order if part in grades]
    return Scores(
        points={part: grades[part][0] for part in known},
        maximum={part: grades[part][1] for part in known},
        penalty=penalty,
        by_hand=frozenset(part for part in known if grades[part][2]),
    )
