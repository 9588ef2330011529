"""Grade a class twice, with this grader and with nbgrader's own autograde, and compare the points.

Both work in copies of the course in a temporary folder, so the course and its gradebook remain as
they are. nbgrader runs students' code without isolation, with the rights of the caller.
"""

import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nbgrader import api
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException

from attentively_grader.coordinator import Coordinator
from attentively_grader.course import notebooks
from attentively_grader.course.course import (
    CONFIG,
    Course,
    Parts,
    Submission,
    converting,
    reason,
)
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.course.release import generate
from attentively_grader.gradebook.recording import in_folder
from attentively_grader.intake.submissions import printable
from attentively_grader.intake.tasks import Options, PoolFactory, TaskPlanner

NO_ISOLATION = """\
!! --compare: nbgrader runs students' code on this machine WITHOUT isolation, with YOUR rights.
!! It can read and delete your files and change the gradebook. Compare only the work of people
!! whom you trust with this account, or compare in a container for this purpose.
"""
STOPPED = "the solution of the assignment does not earn every point; see above"
STEPS = ("source", "release", "submitted", "autograded", "feedback", "solution")
"""nbgrader's folders."""

Cell = tuple[str, str, str, str]
"""A graded cell: assignment, student, notebook, name of the cell."""


@dataclass(frozen=True)
class Verdict:
    """What one grader says about a cell."""

    points: float | None
    """Automatic points; None if the cell waits for manual grading or was not graded."""
    maximum: float
    error: str = ""
    """The error, in one line; empty if there is none."""
    weaker: bool = False
    """Whether the cell ran in the student process of this grader."""


@dataclass
class Results:
    """What one grader says about a class."""

    cells: dict[Cell, Verdict] = field(default_factory=dict)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    """The submissions that could not be graded, by assignment and student, with the reason."""


@dataclass(frozen=True)
class Difference:
    """A cell for which the two graders give different points."""

    assignment: str
    student: str
    notebook: str
    cell: str
    part: str
    """The title of the part."""
    ours: Verdict
    nbgrader: Verdict

    def __str__(self) -> str:
        ours, theirs = self.ours, self.nbgrader
        weaker = "; it ran in the student process" if ours.weaker else ""
        part = notebooks.with_cell(self.part, self.cell)
        where = f"{self.assignment}, notebook {self.notebook}, {part}"
        return (
            f"{self.student}, {where}: {_shown(ours.points)} here, {_shown(theirs.points)} with "
            f"nbgrader, of {max(ours.maximum, theirs.maximum):g}{weaker}\n"
            f"    here:     {ours.error or 'no error'}\n"
            f"    nbgrader: {theirs.error or 'no error'}"
        )


@dataclass(frozen=True)
class Comparison:
    """The points of a class from both graders, compared cell by cell."""

    submissions: int
    cells: int
    """Number of cells that were compared."""
    weaker: int
    """Number of cells that this grader ran in the student process."""
    differences: list[Difference]
    not_compared: list[str]
    """The submissions that one of the graders could not grade, with the reason."""

    @property
    def equal(self) -> bool:
        """Whether both graders graded every submission with the same points."""
        return not self.differences and not self.not_compared

    def lines(self) -> Iterator[str]:
        """Yield every difference, every submission that was not compared, and a summary."""
        yield from map(str, self.differences)
        yield from (f"not compared: {line}" for line in self.not_compared)
        fewer = sum(_low(each.ours) < _low(each.nbgrader) for each in self.differences)
        yield (
            f"Compared {self.cells} cells of {self.submissions} submissions: "
            f"{self.cells - len(self.differences)} equal, {fewer} with fewer points than with "
            f"nbgrader, {len(self.differences) - fewer} with more. {self.weaker} cells ran in the "
            f"student process. {len(self.not_compared)} submissions were not compared."
        )


def _low(verdict: Verdict) -> float:
    return -1.0 if verdict.points is None else verdict.points


def _shown(points: float | None) -> str:
    return "not graded" if points is None else f"{points:g}"


def compare(
    root: Path,
    assignment: str | None,
    students: Sequence[str],
    *,
    options: Options,
    pool_factory: PoolFactory,
    report: Path | None = None,
) -> int:
    """Grade with both graders, print every difference, and return the exit status.

    0: the points are equal. 1: they differ, or a submission was not graded by both graders.
    With `report`, the comparison is also written to this file as JSON.
    """
    print(NO_ISOLATION, file=sys.stderr, flush=True)
    course = Course(root)
    chosen = course.submissions(assignment, students)
    with tempfile.TemporaryDirectory(prefix="comparing-") as folder:
        ours = grade_here(course, chosen, Path(folder) / "ours", options, pool_factory)
        theirs = grade_with_nbgrader(course, chosen, Path(folder) / "nbgrader", options)
    parts = {name: course.parts(name) for name in {each.assignment for each in chosen}}
    found = compared(len(chosen), ours, theirs, parts)
    for line in found.lines():
        print(line)
    if report is not None:
        report.write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
        print(f"Comparison: {report}")
    return 0 if found.equal else 1


def compared(
    submissions: int, ours: Results, theirs: Results, parts: Mapping[str, Parts]
) -> Comparison:
    """Compare two gradings of the same submissions; `parts` has the titles by assignment."""
    ungraded = {*ours.failed, *theirs.failed}
    cells = [cell for cell in {**ours.cells, **theirs.cells} if cell[:2] not in ungraded]
    missing = Verdict(None, 0.0, "no such cell")
    pairs = {
        cell: (ours.cells.get(cell, missing), theirs.cells.get(cell, missing)) for cell in cells
    }
    return Comparison(
        submissions=submissions,
        cells=len(pairs),
        weaker=sum(mine.weaker for mine, _ in pairs.values()),
        differences=[
            Difference(*cell, parts[cell[0]].get(cell[2:], cell[3]), mine, other)
            for cell, (mine, other) in pairs.items()
            if mine.points != other.points
        ],
        not_compared=[
            f"{', '.join(submission)}: {who}{printable(why)}"
            for who, side in (("", ours), ("nbgrader failed: ", theirs))
            for submission, why in side.failed.items()
        ],
    )


# The two graders


def grade_here(
    course: Course,
    chosen: Sequence[Submission],
    folder: Path,
    options: Options,
    pool_factory: PoolFactory,
) -> Results:
    """Grade a copy of these submissions in `folder` with this grader."""
    copy, copied, failed = copy_course(course, chosen, folder, options)
    coordinator = Coordinator(copy, options, pool_factory)
    print(f"Grading {len(copied)} submissions", flush=True)
    coordinator.grade(copied)
    for submission, why in {**coordinator.set_aside, **coordinator.unrecorded}.items():
        failed[submission.assignment, submission.student] = why
    for submission in copied:
        if submission.assignment in coordinator.planner.stopped:
            failed[submission.assignment, submission.student] = STOPPED
    return Results(verdicts(copy, copied), failed)


def grade_with_nbgrader(
    course: Course, chosen: Sequence[Submission], folder: Path, options: Options
) -> Results:
    """Grade a copy of these submissions in `folder` with nbgrader, one after the other.

    A submission that nbgrader cannot grade does not stop the others.
    """
    copy, copied, failed = copy_course(course, chosen, folder, options)
    print(f"Grading {len(copied)} submissions with nbgrader, one at a time", flush=True)
    for assignment in sorted({each.assignment for each in copied}):
        generate(copy.root, assignment, elsewhere=folder / "released")  # fills the gradebook
    converter = Autograde(coursedir=copy.directory, config=copy.config)
    converter.force = True
    for number, submission in enumerate(copied, start=1):
        copy.directory.assignment_id = submission.assignment
        copy.directory.student_id = submission.student
        started = time.monotonic()
        said = ""
        with converting(converter) as messages, in_folder(converter):
            try:
                converter.start()
            except (NbGraderException, SystemExit) as error:
                said = reason(messages, error)
                failed[submission.assignment, submission.student] = said
        seconds = time.monotonic() - started
        what = f"FAILED: {printable(said)}" if said else f"graded ({seconds:.1f} s)"
        name = printable(str(submission))
        print(f"[{number}/{len(copied)}] nbgrader: {name}: {what}", flush=True)
    return Results(verdicts(copy, copied), failed)


def copy_course(
    course: Course, chosen: Sequence[Submission], folder: Path, options: Options
) -> tuple[Course, list[Submission], dict[tuple[str, str], str]]:
    """Copy what grading needs into `folder`: no gradebook, no results, only these submissions.

    Returns the copy, its submissions, and those that could not be copied, with the reason. All
    folders and the gradebook of the copy are inside it, and nbgrader gets our time limit of a cell.
    """
    folder.mkdir(parents=True)
    for path in course.root.iterdir():
        if path.is_file() and path.suffix != ".db":
            shutil.copy(path, folder)
    for name, path in course.named("depends_on").items():
        shutil.copytree(path, folder / name, symlinks=True)
    source = course.folder("source")
    names = {step: Path(getattr(course.directory, f"{step}_directory")) for step in STEPS}
    names = {step: Path(path.name) if path.is_absolute() else path for step, path in names.items()}
    wanted = {each.assignment for each in chosen}
    (folder / names["source"]).mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, folder / names["source"])
        elif path.name in wanted:
            shutil.copytree(path, folder / names["source"] / path.name)
    seconds = TaskPlanner(course, options, lambda *_: None).limits.cell_seconds
    with (folder / CONFIG).open("a", encoding="utf-8") as config:
        config.write(f"\n\nc = get_config()\nc.Execute.timeout = {math.ceil(seconds)}\n")
        if "extra_arguments" not in course.config.Execute:
            config.write("c.Execute.extra_arguments = ['--log-level=40']\n")  # only errors
        config.write(f"c.CourseDirectory.db_url = 'sqlite:///{folder / 'gradebook.db'}'\n")
        for step, place in names.items():
            config.write(f"c.CourseDirectory.{step}_directory = {str(place)!r}\n")
    copy = Course(folder)
    copied, failed = [], dict[tuple[str, str], str]()
    for submission in chosen:
        target = copy.place("submitted", submission.student, submission.assignment)
        try:
            shutil.copytree(submission.folder, target, symlinks=True)
        except (OSError, shutil.Error) as error:
            failed[submission.assignment, submission.student] = f"it cannot be copied: {error}"
        else:
            copied.append(Submission(submission.student, submission.assignment, target))
    return copy, copied, failed


# Results


def verdicts(course: Course, graded: Sequence[Submission]) -> dict[Cell, Verdict]:
    """Return the automatic points of every cell from the gradebook, and its error."""
    wanted = {(each.assignment, each.student) for each in graded}
    cells: dict[tuple[str, str, str], dict[str, Any]] = {}
    found: dict[Cell, Verdict] = {}
    with course.gradebook() as gradebook:
        for grade in gradebook.db.query(api.Grade):
            notebook = grade.notebook
            submission = notebook.assignment.assignment.name, notebook.assignment.student.id
            if submission not in wanted:
                continue
            place = (*submission, notebook.name)
            if place not in cells:
                cells[place] = _executed(course, *place)
            cell = cells[place].get(grade.name)
            found[*place, grade.name] = Verdict(
                None if grade.auto_score is None else float(grade.auto_score),
                float(grade.max_score or 0),
                error_of(cell),
                bool(cell and cell.metadata.get(METADATA_KEY, {}).get("weaker")),
            )
    return dict(sorted(found.items()))


def _executed(course: Course, assignment: str, student: str, notebook: str) -> dict[str, Any]:
    """Return the cells of an executed notebook by their name in nbgrader."""
    path = course.place("autograded", student, assignment) / f"{notebook}.ipynb"
    if not path.is_file():
        return {}
    marked = ((cell.metadata.get("nbgrader", {}), cell) for cell in notebooks.read(path).cells)
    return {marks["grade_id"]: cell for marks, cell in marked if "grade_id" in marks}


def error_of(cell: Any) -> str:
    """Return, in one line, what an executed cell shows that costs points; empty if nothing."""
    if cell is None:
        return "the cell was not run"
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            return printable(f"{output.ename}: {output.evalue.strip() or 'no message'}")
        if output.output_type == "stream" and output.name == "stderr":
            return printable(f"text on standard error: {output.text.strip()}")
        if output.output_type == "execute_result":
            return printable(f"the cell returned {output.data.get('text/plain', '')}")
    return ""
