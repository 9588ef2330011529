"""A course: a folder with an nbgrader_config.py, and the folders that it names."""

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
"""What an assignment or a student may be called; the name becomes a folder and a pattern."""
Parts = Mapping[tuple[str, str], str]
"""How each part is called, by its notebook and its name there."""


class CourseError(Exception):
    """Something in the course's folders is not as it should be; the message says what."""


class LockedError(CourseError):
    """Another program holds the gradebook; what was run is kept, and can be recorded later."""


def raise_if_locked(error: BaseException | None) -> None:
    """Raise `LockedError` if an error, or one that it came of, is that the gradebook is locked."""
    while error is not None:
        if "locked" in str(error) and isinstance(error, sqlalchemy.exc.OperationalError):
            raise LockedError(
                "the gradebook is locked: close what else is writing to it and run this again; "
                "what was run so far is kept"
            ) from None
        error = error.__context__


def load_config(root: Path) -> Config:
    """Read the course's nbgrader_config.py, as nbgrader itself does."""
    if not (root / CONFIG).is_file():
        raise CourseError(f"{root} is not a course: it has no {CONFIG}")
    path = str(root.resolve())
    if glob.escape(path) != path:
        raise CourseError(
            f"{path}: nbgrader finds no notebooks where a folder's name has *, ? or [ in it, "
            "since it reads these as patterns; rename the folder"
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
    """Refuse the name of an assignment that is not there, and list those that are."""
    known = assignments(root, config)
    if name not in known:
        folder = course_directory(root, config).source_directory
        close = difflib.get_close_matches(name, known, 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        there_are = ", ".join(known) or "none at all"
        raise CourseError(
            f"there is no assignment {name!r} in {folder}/{meant}; there are: {there_are}"
        )


def check_name(name: str, what: str) -> None:
    """Refuse a name that would be a path or a pattern."""
    if not NAME.fullmatch(name):
        raise CourseError(
            f"{what} {name!r}: use letters without accents, digits, _ . and -, and start with a "
            "letter, a digit or _"
        )


@contextmanager
def converting(converter: BaseConverter) -> Iterator[list[str]]:
    """Run a converter inside: what it logs is kept from the terminal and given as a list."""
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
    """Return the version of a new gradebook; nbgrader starts a program that says it, slowly."""
    head = ScriptDirectory(str(Path(api.__file__).parent / "alembic")).get_current_head()
    if head is None:
        raise CourseError("nbgrader does not say which version its gradebooks have")
    return head


def reason(messages: list[str], error: BaseException) -> str:
    """Return the line of nbgrader's log that says why a conversion failed."""
    for message in messages:
        if message.startswith("Traceback"):
            lines = [line for line in message.splitlines() if re.match(r"[A-Za-z_][\w.]*: ", line)]
            return lines[-1] if lines else message.strip().splitlines()[-1]
    return messages[0].strip().splitlines()[0] if messages else str(error)


@dataclass(frozen=True)
class Submission:
    """What one student handed in for one assignment."""

    student: str
    assignment: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.assignment}, {self.student}"


@dataclass(frozen=True)
class Scores:
    """A student's points, part by part, as they stand in the gradebook."""

    points: dict[str, float]
    maximum: dict[str, float]
    """In the order of the notebook, as `points`."""
    penalty: float = 0.0
    """What is taken off for coming late."""
    by_hand: frozenset[str] = frozenset()
    """The parts that wait for a person: an answer not read yet, or graded anew since."""

    @property
    def total(self) -> float:
        return max(0.0, sum(self.points.values()) - self.penalty)

    def __str__(self) -> str:
        said = [f"{self.total:g} of {sum(self.maximum.values()):g}"]
        if self.penalty:
            said.append(f"{self.penalty:g} off for coming late")
        if self.by_hand:
            said.append(f"{len(self.by_hand)} to grade by hand")
        return ", ".join(said)


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
        """Return where one of these folders holds one student's work."""
        name = getattr(self.directory, f"{step}_directory")
        return Path(self.directory.format_path(name, student, assignment))

    def named(self, setting: str) -> dict[str, Path]:
        """Return the folders that ``c.Grading`` names for a purpose, by what they are called there.

        Raises `CourseError` for one that is not there: nobody would see that it has no effect.
        """
        folders = {name: self.root / name for name in self.config.Grading.get(setting, [])}
        for name, folder in folders.items():
            if not folder.is_dir():
                raise CourseError(
                    f"{CONFIG}: c.Grading.{setting} names {name!r}, and {folder} is no folder"
                )
        return folders

    @cached_property
    def kept(self) -> Path:
        """The folder for what the grader itself remembers; nbgrader does not look into it."""
        return self.folder("autograded") / ".graded"

    def submissions(
        self, assignment: str | None = None, students: Sequence[str] = ()
    ) -> list[Submission]:
        """Return what there is to grade, by assignment and student.

        Raises `CourseError` for an unknown assignment, and where nothing was submitted.
        """
        if assignment is not None:
            check_assignment(self.root, self.config, assignment)
        wanted = [assignment] if assignment else assignments(self.root, self.config)
        found = [each for name in wanted for each in self._submissions_of(name)]
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
            submitted = self.directory.submitted_directory
            raise CourseError(
                f"nothing was submitted{f' for {assignment}' if assignment else ''}: expected "
                f"{submitted}/STUDENT/{what}/{what}.ipynb, as `attentively submit` packs it"
            )
        return found

    def strays(self) -> list[str]:
        """Return the folders of what was submitted for no assignment of this course."""
        known = assignments(self.root, self.config)
        strays = []
        for student in self.folder("submitted").glob("[!.]*"):
            expected = {self.place("submitted", student.name, name) for name in known}
            there = self.place("submitted", glob.escape(student.name), "*")
            strays += [Path(path) for path in glob.glob(str(there)) if Path(path) not in expected]
        return sorted(str(path.relative_to(self.root)) for path in strays)

    def absent(self, assignment: str) -> list[str]:
        """Return the students in the gradebook who have handed in nothing for an assignment."""
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
        """Return the cells that earn points, in the order of the notebooks, and their names.

        The same name in a second notebook is another part; both then begin with the notebook's.
        """
        found = [
            (path.stem, cell.metadata.nbgrader.grade_id)
            for path in sorted((self.folder("source") / assignment).glob("*.ipynb"))
            for cell in notebooks.read(path).cells
            if has_points(cell.metadata)
        ]
        often = Counter(name for _, name in found)
        return {
            (notebook, name): f"{notebook}/{name}" if often[name] > 1 else name
            for notebook, name in found
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


def has_points(metadata: Mapping[str, object]) -> bool:
    """Tell whether nbgrader gives points for a cell: a test, a written answer or a task."""
    marks = metadata.get("nbgrader")
    return isinstance(marks, Mapping) and bool(marks.get("grade") or marks.get("task"))


def scores_in(
    gradebook: Gradebook, assignment: str, parts: Parts, student: str | None = None
) -> dict[str, Scores]:
    """Return the scores of all submissions or of one student's, by one question to the database."""
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
