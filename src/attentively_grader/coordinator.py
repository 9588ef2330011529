"""Grade a class: find what is new, have it run, record what came of it.

Running and recording are apart. A worker pool runs notebooks, several at once, and each result is
kept in a file; this process alone writes to the gradebook. So a run that is killed goes on where
it was, and a second run has nothing to do.
"""

import contextlib
import fcntl
import sys
import tempfile
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
from attentively_grader.intake.tasks import Options, PoolFactory, Task, TaskPlanner
from attentively_grader.reports import hidden_tests
from attentively_grader.reports.class_report import write_reports
from attentively_grader.reports.feedback_process import Pages
from attentively_grader.reports.summary import summary
from attentively_grader.workforce import local_pool

AT_ONCE = 1_000
"""Submissions that are held in memory together."""


class _Bar(tqdm):
    monitor_interval = 0  # without a thread of its own, after which no process may fork


class Coordinator:
    """Grades submissions of one course; the only one to write to its gradebook."""

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
        """Why a notebook that was graded did not run to its end, or not in one piece."""
        self.answers: dict[Submission, str] = {}
        """What each student wrote."""
        self.given: dict[str, str] = {}
        """What the cells for answers hold when they are handed out, by assignment."""
        self._before: dict[str, Mapping[str, Scores]] = {}
        """Of an assignment of which something was set aside, the scores of before."""
        self._locked_out: list[Task] = []
        self._total = self._told = 0

    def grade(self, chosen: Sequence[Submission]) -> None:
        """Grade what has not been graded, and tell of each."""
        self._total = len(chosen)
        with ExitStack() as stack:
            # Its process begins as a copy of this one, so before there are locks and threads.
            self.pages = stack.enter_context(Pages(self.course.root))
            stack.enter_context(_alone(self.course))
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grading-")))
            self.bar = stack.enter_context(
                _Bar(total=len(chosen), unit="submission", disable=not sys.stderr.isatty())
            )
            for first in range(0, len(chosen), AT_ONCE):
                self._grade(chosen[first : first + AT_ONCE], scratch)
        self.missed = self.pages.missed
        for assignment, prepared in self.planner.prepared.items():
            self.given[assignment] = written(prepared.notebooks.values())

    def _grade(self, chosen: Sequence[Submission], scratch: Path) -> None:
        tasks = [*self.planner.tasks(chosen, scratch)]
        for task in tasks:
            self.answers[task.submission] = written(task.merged.values(), "student")
            if task.handed_in.remarks:
                self.remarks[task.submission] = task.handed_in.remarks
        self.recorder = Recorder(self.course)  # knows the assignments that are prepared now
        with closing(self.recorder):
            waiting = [task for task in tasks if not self._is_done(task)]
            for task in waiting:
                if not task.missing:
                    self._finish(task)
            for task, why in self.planner.run(waiting, self.pool_factory, scratch):
                if why is not None:
                    self.unrecorded[task.submission] = why
                if not task.missing:
                    self._finish(task)
                self.pages.look()
            self._record_again()

    def _mark(self, submission: Submission) -> Path:
        return self.course.kept / "recorded" / submission.student / f"{submission.assignment}.json"

    def _is_done(self, task: Task) -> bool:
        """Tell whether a submission is recorded as it is, and note it if so."""
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
        self._tell(submission, f"graded before, {known}")
        self.graded.append(submission)
        return True

    def _reckon_lateness(self, task: Task, kept: str) -> bool:
        """Take off anew what coming late costs, where a date or the configuration is another.

        `kept` is what was remembered when that was last done. Return whether it was done. The
        page is made anew too, also where the hidden tests are to be hidden now, or shown.
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
        """Return what is remembered of a submission that is recorded."""
        hides = hidden_tests.wanted(self.course.config)
        return (
            task.mark
            + self.recorder.lateness(task.submission)
            + "hidden tests are hidden\n" * hides
        )

    # Recording

    def _finish(self, task: Task) -> None:
        """Record a submission; what cannot be recorded now is tried once more at the end."""
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
        done = {name: (task.merged[name], task.outcomes[name]) for name in task.merged}
        self.recorder.record(submission, done)
        result_store.write_whole(self._mark(submission), self._remembered(task))
        self.unrecorded.pop(submission, None)
        self.graded.append(submission)
        self.pages.ask(submission)
        seconds = sum(outcome.seconds for outcome in task.outcomes.values())
        # The page speaks to the student, the report of them.
        reasons = {each.reason for each in task.outcomes.values() if each.reason}
        ends = {reason.replace("your code", "the code") for reason in reasons}
        if ends:
            self.ends[submission] = submissions.printable("; ".join(sorted(ends)))
        why = f"; {self.ends[submission]}" if ends else ""
        self._tell(submission, f"{self.recorder.scores(submission)} ({seconds:.1f} s{why})")

    def _record_again(self) -> None:
        """Try once more what was locked out; when it still is, none of it is recorded."""
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

    # Telling

    def _fail(self, submission: Submission, why: str) -> None:
        self.unrecorded[submission] = why
        self._tell(submission, f"NOT RECORDED: {why}")

    def _put_aside(self, submission: Submission, why: str) -> None:
        why = why.replace(f"{self.course.root}/", "")
        self.set_aside[submission] = f"{why}{self._earlier(submission)}"
        self._tell(submission, f"SET ASIDE: {self.set_aside[submission]}")

    def _earlier(self, submission: Submission) -> str:
        """Say what the gradebook has of an earlier submission, which nothing changes here."""
        name = submission.assignment
        if name not in self._before:
            self._before[name] = {}
            with contextlib.suppress(SQLAlchemyError):  # a locked gradebook stops nobody here
                if name not in self.planner.refused:  # of which the parts cannot be read
                    self._before[name] = self.course.scores(name)
        known = self._before[name].get(submission.student)
        return f"; the earlier {known} stands" if known is not None and known.points else ""

    def _tell(self, submission: Submission, what: str) -> None:
        self._told += 1
        self.bar.update()
        self.bar.set_postfix(graded=len(self.graded), aside=len(self.set_aside), refresh=False)
        line = f"[{self._told}/{self._total}] {submissions.printable(str(submission))}: {what}"
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()


def written(notebooks: Iterable[Mapping[str, Any]], author: str | None = None) -> str:
    """Return the code of all cells, or of those that one side wrote."""
    return "\n\n".join(
        str(cell["source"])
        for notebook in notebooks
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
        and author in (None, cell["metadata"].get(METADATA_KEY, {}).get("author"))
    )


@contextmanager
def _alone(course: Course) -> Iterator[None]:
    """See to it that no other run records into this course."""
    course.kept.mkdir(parents=True, exist_ok=True)
    with open(course.kept / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CourseError("another run is grading this course: wait until it ends") from None
        result_store.remove_leftovers(course.kept)
        yield


def grade(
    root: Path,
    assignment: str | None = None,
    students: Sequence[str] = (),
    *,
    options: Options | None = None,
    pool_factory: PoolFactory | None = None,
) -> int:
    """Grade what is new, print a table of all; return the exit status.

    0: all is graded. 1: something was set aside, or could not be recorded.
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
    return 1 if coordinator.set_aside or coordinator.unrecorded else 0
