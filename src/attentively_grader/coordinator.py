"""Grade a class: find new submissions, run their notebooks, record the results.

Running and recording are separate. A worker pool runs notebooks in parallel, and each result is
stored in a file. Only this process writes to the gradebook. Therefore an interrupted run can be
resumed, and a second run has nothing to do.
"""

import contextlib
import fcntl
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from tqdm import tqdm

from attentively_grader.course.course import Course, CourseError, LockedError, Scores, Submission
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.gradebook.recording import Recorder
from attentively_grader.intake import result_store, submissions
from attentively_grader.intake.self_test import report_lines
from attentively_grader.intake.tasks import JobRunner, Options, PoolFactory, Task, TaskPlanner
from attentively_grader.reports import hidden_tests
from attentively_grader.reports.class_report import FOLDER as REPORTS
from attentively_grader.reports.class_report import write_reports
from attentively_grader.reports.feedback_process import Pages
from attentively_grader.reports.summary import summary
from attentively_grader.workforce import local_pool

AT_ONCE = 1_000
"""Number of submissions that are held in memory at a time."""


class _Bar(tqdm):
    monitor_interval = 0  # no monitor thread, because a process with threads may not fork


class Coordinator:
    """Grades submissions of one course; the single writer of its gradebook."""

    def __init__(self, course: Course, options: Options, pool_factory: PoolFactory) -> None:
        self.course = course
        self.pool_factory = pool_factory
        self.planner = TaskPlanner(course, options, self._put_aside)
        self.set_aside: dict[Submission, str] = {}
        self.remarks: dict[Submission, tuple[str, ...]] = {}
        self.unrecorded: dict[Submission, str] = {}
        self.graded: list[Submission] = []
        self.missed: dict[Submission, str] = {}
        self.ends: dict[Submission, str] = {}
        """Why a graded notebook did not run to its end, or had to be restarted."""
        self.answers: dict[Submission, str] = {}
        """The code that each student wrote."""
        self.given: dict[str, str] = {}
        """The code of the answer cells in the release, by assignment."""
        self.weaker: dict[str, dict[str, str]] = {}
        """The parts that run next to the student's code, with the reason, by assignment."""
        self.unverified: dict[str, list[str]] = {}
        """What the self-test says of a solution that misses points, by assignment."""
        self._before: dict[str, Mapping[str, Scores]] = {}
        """Earlier scores, by assignment, where a submission was set aside."""
        self._locked_out: list[Task] = []
        self._total = self._told = 0

    def grade(self, chosen: Sequence[Submission]) -> None:
        """Grade what has not been graded, and print one line per submission."""
        self._total = len(chosen)
        with ExitStack() as stack:
            # Its process is a fork of this one, so it starts before there are locks and threads.
            self.pages = stack.enter_context(Pages(self.course.root))
            stack.enter_context(_alone(self.course))
            scratch = stack.enter_context(result_store.scratch_folder(self.course.kept))
            self.bar = stack.enter_context(
                _Bar(total=len(chosen), unit="submission", disable=not sys.stderr.isatty())
            )
            for first in range(0, len(chosen), AT_ONCE):
                part = chosen[first : first + AT_ONCE]
                self.planner.prepare(part, scratch)
                with self.planner.pool(self.pool_factory) as pool:
                    self._self_test(pool, scratch)
                    self._grade(part, pool, scratch)
        self.missed = self.pages.missed
        for assignment, prepared in self.planner.prepared.items():
            self.given[assignment] = written(prepared.notebooks.values())

    def _self_test(self, pool: JobRunner, scratch: Path) -> None:
        """Grade the solutions of new assignments, before any student."""
        for test in self.planner.self_tests(pool, scratch):
            lines = [*report_lines(test, self.planner.options.even_so)]
            tqdm.write("\n".join(lines), file=sys.stdout)
            sys.stdout.flush()
            if test.missed():
                self.unverified[test.assignment] = lines
            weaker = [*test.weaker()]
            if weaker and test.assignment not in self.planner.stopped:
                parts = self.course.parts(test.assignment)
                self.weaker[test.assignment] = {
                    parts[notebook, cell]: why for notebook, cell, why in weaker
                }

    def _grade(self, chosen: Sequence[Submission], pool: JobRunner, scratch: Path) -> None:
        tasks = [*self.planner.tasks(chosen)]
        left_out = len([each for each in chosen if each.assignment in self.planner.stopped])
        self._told += left_out
        self.bar.update(left_out)
        for task in tasks:
            self.answers[task.submission] = written(task.merged.values(), "student")
            if task.handed_in.remarks:
                self.remarks[task.submission] = task.handed_in.remarks
        self.recorder = Recorder(self.course)  # reads the assignments that are prepared by now
        with closing(self.recorder):
            waiting = [task for task in tasks if not self._is_done(task)]
            for task in waiting:
                if not task.missing:
                    self._finish(task)
            for task, why in self.planner.run(waiting, pool, scratch, self._put_aside):
                if why is not None:
                    self.unrecorded[task.submission] = why
                if not task.missing:
                    self._finish(task)
                self.pages.look()
            self._record_again()

    def _mark(self, submission: Submission) -> Path:
        return self.course.kept / "recorded" / submission.student / f"{submission.assignment}.json"

    def _is_done(self, task: Task) -> bool:
        """Return whether this version of a submission is already recorded; if so, report it."""
        submission = task.submission
        if self.planner.options.force:
            return False
        try:
            kept = self._mark(submission).read_text(encoding="utf-8")
        except OSError:
            return False
        if not kept.startswith(task.mark):
            return False
        where = (submission.student, submission.assignment)
        autograded = self.course.place("autograded", *where)
        if not all((autograded / f"{name}.ipynb").is_file() for name in task.merged):
            return False
        known = self.recorder.scores(submission)
        if known is None:
            return False
        try:
            if self._reckon_lateness(task, kept):
                known = self.recorder.scores(submission)
        except CourseError as error:
            self._fail(submission, str(error))
            return True
        feedback = self.course.place("feedback", *where)
        if not all((feedback / f"{name}.html").is_file() for name in task.merged):
            self.pages.ask(submission)
        self._tell(submission, f"already graded, {known}")
        self.graded.append(submission)
        return True

    def _reckon_lateness(self, task: Task, kept: str) -> bool:
        """Update the late penalty if a date or the configuration has changed; return whether.

        `kept` is the mark that was stored at the last update. The feedback is rendered again too,
        also if the setting for hidden tests has changed.
        """
        submission = task.submission
        mark = self._remembered(task)
        if mark == kept:
            return False
        self.recorder.take_off(submission, task.merged)
        result_store.write_whole(self._mark(submission), mark)
        self.pages.ask(submission)
        return True

    def _remembered(self, task: Task) -> str:
        """Return the mark that is stored for a recorded submission."""
        hides = hidden_tests.wanted(self.course.config)
        return (
            task.mark
            + self.recorder.lateness(task.submission)
            + "hidden tests are hidden\n" * hides
        )

    # Recording

    def _finish(self, task: Task) -> None:
        """Record a submission; if the gradebook is locked, try once more at the end."""
        submission = task.submission
        if self._locked_out:
            self._locked_out.append(task)
            return
        try:
            self._record(task)
        except LockedError:
            self._locked_out.append(task)
        except CourseError as error:
            self._fail(submission, str(error))

    def _record(self, task: Task) -> None:
        submission = task.submission
        done = {
            name: (explained(task.merged[name], task.test.beside[name]), task.outcomes[name])
            for name in task.merged
        }
        self.recorder.record(submission, done)
        result_store.write_whole(self._mark(submission), self._remembered(task))
        self.unrecorded.pop(submission, None)
        self.graded.append(submission)
        self.pages.ask(submission)
        seconds = sum(outcome.seconds for outcome in task.outcomes.values())
        # Feedback addresses the student, the report the instructor.
        reasons = {each.reason for each in task.outcomes.values() if each.reason}
        ends = {reason.replace("your code", "the code") for reason in reasons}
        if ends:
            self.ends[submission] = submissions.printable("; ".join(sorted(ends)))
        why = f"; {self.ends[submission]}" if ends else ""
        self._tell(submission, f"{self.recorder.scores(submission)} ({seconds:.1f} s{why})")

    def _record_again(self) -> None:
        """Try again to record what found the gradebook locked; stop at the first failure."""
        locked = ""
        locked_out, self._locked_out = self._locked_out, []
        for task in locked_out:
            try:
                if locked:
                    raise CourseError(locked)
                self._record(task)
            except CourseError as error:
                locked = str(error) if isinstance(error, LockedError) else locked
                self._fail(task.submission, str(error))

    # Progress lines

    def _fail(self, submission: Submission, why: str) -> None:
        self.unrecorded[submission] = why
        self._tell(submission, f"NOT RECORDED: {why}")

    def _put_aside(self, submission: Submission, why: str) -> None:
        why = why.replace(f"{self.course.root}/", "")
        self.set_aside[submission] = f"{why}{self._earlier(submission)}"
        self._tell(submission, f"SET ASIDE: {self.set_aside[submission]}")

    def _earlier(self, submission: Submission) -> str:
        """Return a note on the earlier result in the gradebook, which remains valid."""
        name = submission.assignment
        if name not in self._before:
            self._before[name] = {}
            with contextlib.suppress(SQLAlchemyError):  # a locked gradebook only costs the note
                if name not in self.planner.refused:  # their parts cannot be read
                    self._before[name] = self.course.scores(name)
        known = self._before[name].get(submission.student)
        return (
            f"; the earlier result remains: {known}" if known is not None and known.points else ""
        )

    def _tell(self, submission: Submission, what: str) -> None:
        self._told += 1
        self.bar.update()
        self.bar.set_postfix(graded=len(self.graded), aside=len(self.set_aside), refresh=False)
        line = f"[{self._told}/{self._total}] {submissions.printable(str(submission))}: {what}"
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()


def written(notebooks: Iterable[Mapping[str, Any]], author: str | None = None) -> str:
    """Return the code of all cells, or of those that `author` wrote."""
    return "\n\n".join(
        str(cell["source"])
        for notebook in notebooks
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
        and author in (None, cell["metadata"].get(METADATA_KEY, {}).get("author"))
    )


def explained(notebook: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return a merged notebook that says in its cells why they run next to the student's code."""
    cells = []
    for cell in notebook["cells"]:
        if cell["id"] in reasons:
            ours = {**cell["metadata"].get(METADATA_KEY, {}), "beside": reasons[cell["id"]]}
            cell = {**cell, "metadata": {**cell["metadata"], METADATA_KEY: ours}}
        cells.append(cell)
    return {**notebook, "cells": cells}


@contextmanager
def _alone(course: Course) -> Iterator[None]:
    """Lock the course, so that no other run records into it."""
    course.kept.mkdir(parents=True, exist_ok=True)
    with open(course.kept / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CourseError("another run is grading this course. Wait until it ends") from None
        for folder in (course.kept, course.root / REPORTS):
            result_store.remove_leftovers(folder)
        yield


def grade(
    root: Path,
    assignment: str | None = None,
    students: Sequence[str] = (),
    *,
    options: Options | None = None,
    pool_factory: PoolFactory | None = None,
) -> int:
    """Grade new submissions, print a summary of all, and return the exit status.

    0: every submission is graded. 1: a submission was set aside or could not be recorded, or the
    solution of an assignment does not earn every point, so its students are not graded.
    """
    options = options or Options()
    course = Course(root)
    chosen = course.submissions(assignment, students)
    coordinator = Coordinator(
        course, options, pool_factory or local_pool.pool_factory(None, options.sandboxed)
    )
    coordinator.grade(chosen)
    line = ""
    for line in summary(course, coordinator, whole_class=not students):
        print(line)
    if not students:
        if not line.startswith("Feedback"):
            print()
        for path in write_reports(course, coordinator):
            print(f"Report: {path.relative_to(course.root)}")
    failed = coordinator.set_aside or coordinator.unrecorded or coordinator.planner.stopped
    return 1 if failed else 0
