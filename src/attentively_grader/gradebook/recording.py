"""Record outcomes in the gradebook, as its single writer.

nbgrader's own `Autograde` records, so late penalties, manual grades, files and comments are those
of nbgrader. There are two changes. Nothing is executed, because the outcomes are known. And the
database is opened and written once per submission instead of once per cell, so that a submission is
recorded completely or not at all.
"""

import filecmp
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import sqlalchemy.exc
from nbconvert.writers.files import FilesWriter
from nbgrader import api
from nbgrader.converters import Autograde
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    Execute,
    SaveAutoGrades,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from traitlets.utils.importstring import import_item

from attentively_grader.course.course import (
    CONFIG,
    Course,
    CourseError,
    LockedError,
    Parts,
    Scores,
    Submission,
    converting,
    raise_if_locked,
    reason,
    scores_in,
)
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.course.release import unreleased
from attentively_grader.gradebook import safe_output
from attentively_grader.intake.submissions import is_active
from attentively_grader.jobs import CellOutcome, Outcome

MOST_OUTPUTS = 5_000
"""Maximum number of recorded outputs of a notebook."""
MOST_MARKDOWN = 100_000
"""Maximum characters of a student's Markdown that are rendered; the rest is plain text."""
TRIES = 3
"""Number of attempts to write to a locked gradebook; each waits some seconds."""


_SCORED = (api.SubmittedAssignment, api.SubmittedNotebook, api.Grade, api.Comment)


class _Deferred(Session):
    """A database session that delays nbgrader's commits until the end of a submission.

    Changes are sent to the database together, before the next query.
    """

    _changed = False

    def commit(self) -> None:
        self._changed = True

    def execute(self, *args: Any, **options: Any) -> Any:
        if self._changed:
            self._changed = False
            self.flush()
            self.forget_scores()
        return super().execute(*args, **options)

    def forget_scores(self) -> None:
        """Read again what the database computes; the parts of an assignment do not change."""
        for each in self:
            if isinstance(each, _SCORED):
                self.expire(each)

    def write(self) -> None:
        super().commit()
        for each in list(self):
            if isinstance(each, _SCORED):
                self.expunge(each)


class SharedGradebook(api.Gradebook):
    """A gradebook that stays open and writes each submission in one transaction."""

    def __init__(self, url: str, course_id: str) -> None:
        super().__init__(url, course_id)
        self.db.remove()
        self.db: Any = scoped_session(
            sessionmaker(class_=_Deferred, bind=self.engine, expire_on_commit=False)
        )
        self._cells: dict[str, str] = {}
        self._entries: dict[tuple[str, ...], dict[tuple[type, str | None], Any]] = {}

    def find_grade(self, grade_cell: str, *where: str) -> Any:
        return self._entry(api.Grade, grade_cell, where) or super().find_grade(grade_cell, *where)

    def find_comment(self, solution_cell: str, *where: str) -> Any:
        found = self._entry(api.Comment, solution_cell, where)
        return found or super().find_comment(solution_cell, *where)

    def _entry(self, kind: type, cell: str, where: tuple[str, ...]) -> Any:
        """Return the grade or comment of a cell; those of a notebook are read together."""
        if where not in self._entries:
            if not self._cells:
                self._cells = dict(self.db.query(api.BaseCell.id, api.BaseCell.name).all())
            notebook = self.find_submission_notebook(*where)
            self._entries[where] = {
                (type(each), self._cells.get(each.cell_id)): each
                for each in [*notebook.grades, *notebook.comments]
            }
        return self._entries[where].get((kind, cell))

    def close(self) -> None:
        """Do nothing: nbgrader would close the gradebook after every step."""

    def finish(self) -> None:
        """Close the gradebook."""
        super().close()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make nbgrader use this gradebook instead of opening one; write at the end."""
        users = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith(("nbgrader.converters", "nbgrader.preprocessors"))
            and getattr(module, "Gradebook", None) is api.Gradebook
        ]
        for module in users:
            module.Gradebook = lambda *_, **__: self  # type: ignore[attr-defined]
        try:
            yield
            self.db().write()
        except BaseException:
            self.db.remove()  # discards what was not written
            raise
        finally:
            self._entries.clear()
            for module in users:
                module.Gradebook = api.Gradebook  # type: ignore[attr-defined]


class _Recording(Autograde):
    """nbgrader's converter for notebooks that have already been run."""

    exclude_overwriting: dict[str, list[str]]  # nbgrader's option

    def prepare(self) -> None:
        """Create once what nbgrader creates for each submission."""
        self.force = True
        self.writer = FilesWriter(parent=self, config=self.config)
        self.exporter = self.exporter_class(parent=self, config=self.config)
        self.exporter.optimistic_validation = True  # once, at the end
        self.exporter._preprocessors = []
        for step in _steps(self.autograde_preprocessors, self._judge):
            self.exporter.register_preprocessor(step)

    def record(self, submission: Submission, done: Mapping[str, tuple[Any, Outcome]]) -> None:
        self.coursedir.student_id = submission.student
        self.coursedir.assignment_id = submission.assignment
        self._done = done
        self.writer.build_directory = ""  # only a change creates the folder
        self.init_notebooks()
        self.convert_notebooks()

    def take_off(self, submission: Submission, names: Iterable[str]) -> None:
        """Compute only the late penalty."""
        where = {"student": submission.student, "assignment": submission.assignment}
        for step in self.exporter._preprocessors:
            if isinstance(step, AssignLatePenalties):
                for name in names:
                    known = {**where, "notebook": name, "db_url": self.coursedir.db_url}
                    step(nbformat.v4.new_notebook(), {"nbgrader": known})

    def convert_single_notebook(self, notebook_filename: str) -> None:
        resources = self.init_single_notebook_resources(notebook_filename)
        name = resources["nbgrader"]["notebook"]
        if name not in self._done:
            raise CourseError(f"{name} has not been run")
        merged, outcome = self._done[name]
        self._outcome = outcome
        notebook = nbformat.from_dict(filled(merged, outcome))
        output, resources = self.exporter.from_notebook_node(notebook, resources)
        self.write_single_notebook(output, resources)

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy the files next to the notebook, except those that a browser would execute.

        The instructor's files are those of the release: `GenerateFeedback` copies them to feedback.
        """
        source = Path(
            self.coursedir.format_path(self.coursedir.source_directory, ".", assignment_id)
        )
        hidden = unreleased(self.config, source, assignment_id)
        self.exclude_overwriting = {
            **self.exclude_overwriting,
            assignment_id: sorted({*hidden, *self.exclude_overwriting.get(assignment_id, [])}),
        }
        super().init_assignment(assignment_id, student_id)
        folder = Path(self._format_dest(assignment_id, student_id))
        for path in [each for each in folder.rglob("*") if is_active(each.name)]:
            own = source / path.relative_to(folder)
            if path.is_file() and not (own.is_file() and filecmp.cmp(path, own, shallow=False)):
                path.unlink()

    def _judge(self, notebook: Any, resources: Any) -> tuple[Any, Any]:
        """Rewrite the outputs of each test cell so that nbgrader reads our verdict."""
        outcomes = {cell.id: cell for cell in self._outcome.cells}
        for cell in notebook.cells:
            marks = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"):
                found = outcomes.get(cell.id)
                shown = judged(cell.outputs, found, float(marks["points"]), self._outcome.reason)
                cell.outputs = nbformat.from_dict(shown)
        return notebook, resources


def _steps(configured: Sequence[Any], judge: Any) -> list[Any]:
    """Return nbgrader's steps without execution, with `judge` before grades are saved."""
    steps: list[Any] = []
    for step in configured:
        kind = import_item(step) if isinstance(step, str) else step
        # The metadata are those of the source, which nbgrader checked for the release.
        if not isinstance(kind, type) or not issubclass(kind, Execute | CheckCellMetadata):
            steps.append(kind)
    saving = [isinstance(step, type) and issubclass(step, SaveAutoGrades) for step in steps]
    place = saving.index(True) if True in saving else len(steps)
    return [*steps[:place], judge, *steps[place:]]


def filled(merged: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    """Return the merged notebook with its outputs, safe to display."""
    outcomes = {cell.id: cell for cell in outcome.cells}
    cells: list[dict[str, Any]] = []
    number = 0  # the cell number in tracebacks
    reserved = _reserved(merged["cells"])
    rendered = 0  # characters of the student's Markdown
    shown = 0  # outputs
    for cell in merged["cells"]:
        number += cell["cell_type"] == "code"
        ours = cell["metadata"].get(METADATA_KEY, {})
        if ours.get("absent"):
            continue
        metadata = {**cell["metadata"], METADATA_KEY: {"author": ours.get("author", "student")}}
        copy = {**cell, "metadata": metadata}
        if cell["cell_type"] == "code":
            found = outcomes.get(cell["id"])
            copy["outputs"] = safe_output.outputs(found.outputs, reserved) if found else []
            left = max(0, MOST_OUTPUTS - shown)
            copy["outputs"] = copy["outputs"][:left]
            shown += len(copy["outputs"])
            copy["execution_count"] = number if found else None
            if found and found.weaker:
                metadata[METADATA_KEY]["weaker"] = ours.get("beside", True)
        elif metadata[METADATA_KEY]["author"] == "student" and cell["cell_type"] == "raw":
            copy["source"] = safe_output.raw(cell["source"])
        elif metadata[METADATA_KEY]["author"] == "student":
            rendered += len(cell["source"])
            copy["source"] = (
                safe_output.markdown(cell["source"], cell.get("attachments"), reserved)
                if rendered <= MOST_MARKDOWN
                else safe_output.plain_block(cell["source"])
            )
        cells.append(copy)
    how = {"end": outcome.end, "reason": outcome.reason, "sandboxed": outcome.sandboxed}
    return {**merged, "cells": cells, "metadata": {**merged["metadata"], METADATA_KEY: how}}


def _reserved(cells: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids that Formgrader gives to the scores and comments of these cells."""
    names = {cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells} - {None}
    return {f"{name}{end}" for name in names for end in ("", "_extra_credit", "-comment")}


def judged(
    shown: Sequence[Mapping[str, Any]], outcome: CellOutcome | None, most: float, why: str
) -> list[dict[str, Any]]:
    """Return outputs of a test cell from which nbgrader reads exactly the verdict.

    nbgrader reads an error, or text on stderr, as failure and a result as partial credit.
    Therefore an error is kept only if the cell failed, and a result only for partial credit.
    """
    kept: list[dict[str, Any]] = []
    failed = outcome is None or outcome.failed
    for output in shown:
        kind = output["output_type"]
        if kind == "stream":
            kept.append({**output, "name": "stdout"})
        elif kind == "display_data" or (kind == "error" and failed):
            kept.append(dict(output))
    points = None if outcome is None else outcome.points
    if outcome is None:
        kept.append(_error("NotRun", why or "the run of the notebook ended before this cell"))
    elif failed:
        if not any(output["output_type"] == "error" for output in kept):
            kept.append(_error("Failed", why or "this cell raised an error"))
    elif points is not None and not (math.isfinite(points) and 0 <= points <= most):
        said = f"this test returned {points} points, expected 0 to {most:g}. Tell your instructor"
        kept.append(_error("NoScore", said))
    elif points is not None:
        data = {"text/plain": str(float(points))}
        kept.append(
            {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None}
        )
    return kept


def _error(name: str, said: str) -> dict[str, Any]:
    clean = safe_output.text(said)
    return {
        "output_type": "error",
        "ename": name,
        "evalue": clean,
        "traceback": [f"{name}: {clean}"],
    }


class Recorder:
    """Writes to the gradebook and to autograded/; a course has only one at a time."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._parts: dict[str, Parts] = {}
        with _clear_errors():
            self.gradebook = SharedGradebook(course.directory.db_url, course.directory.course_id)
        self._converter = _Recording(coursedir=course.directory, config=course.config)
        self._converter.prepare()

    def record(self, submission: Submission, done: Mapping[str, tuple[Any, Outcome]]) -> None:
        """Record a submission; `done` maps each notebook's name to the merged notebook and outcome.

        Raises `CourseError`; the gradebook is then unchanged.
        """
        self._write(lambda: self._converter.record(submission, done))

    def take_off(self, submission: Submission, names: Iterable[str]) -> None:
        """Compute the late penalty again; the points do not change.

        `names` are the submitted notebooks. Raises `CourseError`, like `record`.
        """

        def reckon() -> None:
            try:
                self._converter.take_off(submission, names)
            except Exception as error:  # a plugin may raise anything
                raise_if_locked(error)
                raise CourseError(f"the late penalty cannot be computed: {error}") from None

        self._write(reckon)

    def _write(self, step: Callable[[], None]) -> None:
        """Let nbgrader write to the gradebook, completely or not at all."""
        for attempt in range(1, TRIES + 1):
            try:
                with _clear_errors(), converting(self._converter) as messages:
                    try:
                        with self.gradebook.in_use(), in_folder(self._converter):
                            step()
                    except (NbGraderException, SystemExit) as error:
                        raise_if_locked(error)
                        raise CourseError(reason(messages, error)) from None
                return
            except LockedError:
                if attempt == TRIES:
                    raise
                time.sleep(attempt)

    def lateness(self, submission: Submission) -> str:
        """Return one line with everything that determines the late penalty; empty if in time."""
        with _clear_errors():
            try:
                name, student = submission.assignment, submission.student
                found = self.gradebook.find_submission(name, student)
                # Without a due date, nbgrader cannot compute an extension.
                seconds = found.total_seconds_late if found.assignment.duedate else 0
            finally:
                self.gradebook.db.remove()
            if not seconds:
                return ""
            config = hashlib.sha256((self.course.root / CONFIG).read_bytes()).hexdigest()
        return json.dumps({"seconds late": seconds, "config": config}) + "\n"

    def scores(self, submission: Submission) -> Scores | None:
        """Return the scores of a submission; None if it is not in the gradebook."""
        with _clear_errors():
            name, student = submission.assignment, submission.student
            try:
                return scores_in(self.gradebook, name, self._parts_of(name), student).get(student)
            finally:
                self.gradebook.db.remove()

    def _parts_of(self, assignment: str) -> Parts:
        if assignment not in self._parts:
            self._parts[assignment] = self.course.parts(assignment)
        return self._parts[assignment]

    def close(self) -> None:
        """Close the gradebook."""
        self.gradebook.finish()


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Turn errors of the database and the disk into a `CourseError` of one line."""
    try:
        yield
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise_if_locked(error)
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise CourseError(f"the gradebook cannot be written: {said}") from None
    except OSError as error:
        raise CourseError(
            f"{error.filename or 'a file'} cannot be written: {error.strerror}"
        ) from None


@contextmanager
def in_folder(converter: BaseConverter) -> Iterator[None]:
    """Work in the folder of the course, as nbgrader does."""

    before = os.getcwd()
    os.chdir(converter.coursedir.root)
    try:
        yield
    finally:
        os.chdir(before)
