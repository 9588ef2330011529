"""Grade a class: find what is new, have it run, record what came of it.

Running and recording are apart. A workforce runs notebooks, several at once, and each result is
kept in a file; this process alone writes to the gradebook. So a run that is killed goes on where
it was, and a second run has nothing to do.
"""

import fcntl
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attentively_grader import results, submissions
from attentively_grader.course import Course, CourseError, Submission
from attentively_grader.hiring import Hire, hiring
from attentively_grader.merging import OURS, merge
from attentively_grader.outcome import Job, Limits, Outcome
from attentively_grader.pages import Pages
from attentively_grader.preparing import Prepared, prepare
from attentively_grader.recording import LockedError, Recorder
from attentively_grader.reporting import write_reports
from attentively_grader.results import Results
from attentively_grader.summary import summary

NO_SANDBOX = """\
!! --unsafe-no-sandbox: the students' code runs on this machine with YOUR rights.
!! It can read and delete your files and change the gradebook. Grade only the work of
!! people whom you would let use this account, or grade in a container made for it.
!! Each notebook that is graded so carries a note of it.
"""


class _Bar(tqdm):
    monitor_interval = 0  # without a thread of its own, after which no process may fork


@dataclass
class _Task:
    """A submission that can be graded, and how far it is."""

    submission: Submission
    prepared: Prepared
    handed_in: submissions.HandedIn
    merged: dict[str, dict[str, Any]]
    keys: dict[str, str]
    """Names of the results, by notebook."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def released(self) -> dict[str, Path]:
        """Files of the assignment that replace the student's."""
        return self.prepared.files

    @property
    def missing(self) -> list[str]:
        return [name for name in self.merged if name not in self.outcomes]

    @property
    def mark(self) -> str:
        """What is remembered of a submission when it is recorded."""
        return json.dumps({"content": self.handed_in.content, "results": self.keys}) + "\n"


@dataclass(frozen=True)
class Options:
    """How to grade."""

    force: bool = False
    """Run anew what was run before."""
    seconds: float = Limits.seconds
    memory_mib: int = Limits.memory_mib
    sandboxed: bool = True


class Coordinator:
    """Grades submissions of one course; the only one to write to its gradebook."""

    def __init__(self, course: Course, options: Options, hire: Hire) -> None:
        self.course = course
        self.options = options
        self.hire = hire
        self.limits = _limits(course, options)
        self.results = Results(course.kept / "results")
        self.set_aside: dict[Submission, str] = {}
        self.remarks: dict[Submission, tuple[str, ...]] = {}
        self.unrecorded: dict[Submission, str] = {}
        self.graded: list[Submission] = []
        self.missed: dict[Submission, str] = {}
        self.ends: dict[Submission, str] = {}
        """Why a notebook that was graded did not run to its end."""
        self.answers: dict[Submission, str] = {}
        """What each student wrote."""
        self.given: dict[str, str] = {}
        """What the cells for answers hold when they are handed out, by assignment."""
        self._locked_out: list[_Task] = []
        self._total = self._told = 0

    def grade(self, chosen: Sequence[Submission]) -> None:
        """Grade what has not been graded, and tell of each."""
        self._total = len(chosen)
        with ExitStack() as stack:
            # Its process begins as a copy of this one, so before there are locks and threads.
            self.pages = stack.enter_context(Pages(self.course.root))
            stack.enter_context(_alone(self.course))
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grading-")))
            prepared = self._prepare(chosen, scratch)
            self.bar = stack.enter_context(
                _Bar(total=len(chosen), unit="submission", disable=not sys.stderr.isatty())
            )
            tasks = self._tasks(chosen, prepared)
            self.recorder = Recorder(self.course)
            stack.callback(self.recorder.close)
            waiting = [task for task in tasks if not self._is_done(task)]
            for task in [task for task in waiting if not task.missing]:
                self._finish(task)
            self._run([task for task in waiting if task.missing], list(prepared.values()), scratch)
            self._record_again()
        self.missed = self.pages.missed

    # What there is to do

    def _prepare(self, chosen: Sequence[Submission], scratch: Path) -> dict[str, Prepared]:
        prepared = {}
        for name in sorted({each.assignment for each in chosen}):
            try:
                prepared[name] = prepare(self.course, name, scratch / "released")
            except Exception as error:  # whatever it is, the other assignments go on
                for each in chosen:
                    if each.assignment == name:
                        self.set_aside[each] = str(error)
        return prepared

    def _tasks(
        self, chosen: Sequence[Submission], prepared: Mapping[str, Prepared]
    ) -> Iterator[_Task]:
        environment = self._environment()
        for submission in chosen:
            try:
                if submission in self.set_aside:
                    raise CourseError(self.set_aside[submission])
                task = self._task(submission, prepared[submission.assignment], environment)
                if task.handed_in.remarks:
                    self.remarks[submission] = task.handed_in.remarks
                self.answers[submission] = written(task.merged.values(), "student")
                if submission.assignment not in self.given:
                    self.given[submission.assignment] = written(
                        prepared[submission.assignment].notebooks.values()
                    )
            except Exception as error:  # whatever it is, the rest of the class goes on
                self._put_aside(submission, str(error))
            else:
                yield task

    def _task(
        self, submission: Submission, prepared: Prepared, environment: Mapping[str, str]
    ) -> _Task:
        ignore = self.course.directory.ignore
        handed_in = submissions.read(submission, prepared.notebooks, ignore)
        merged = {
            name: merge(prepared.notebooks[name], cells)
            for name, cells in handed_in.notebooks.items()
        }
        depends_on = {**environment, "source": prepared.content}
        if handed_in.files:
            depends_on["files"] = handed_in.content
        keys = {
            name: results.key(notebook, self.limits, self.options.sandboxed, depends_on)
            for name, notebook in merged.items()
        }
        task = _Task(submission, prepared, handed_in, merged, keys)
        if not self.options.force:
            found = {name: self.results.find(key) for name, key in keys.items()}
            task.outcomes = {name: each for name, each in found.items() if each is not None}
        return task

    def _environment(self) -> dict[str, str]:
        """Return what the results depend on besides the submission: packages, folders."""
        found = results.environment()
        for name in self.course.config.Grading.get("depends_on", []):
            found[f"folder {name}"] = results.fingerprint(self.course.root / name)
        return found

    def _mark(self, submission: Submission) -> Path:
        return self.course.kept / "recorded" / submission.student / f"{submission.assignment}.json"

    def _is_done(self, task: _Task) -> bool:
        """Tell whether a submission is recorded as it is, and note it if so."""
        if self.options.force:
            return False
        submission = task.submission
        try:
            if self._mark(submission).read_text(encoding="utf-8") != task.mark:
                return False
        except OSError:
            return False
        where = (submission.student, submission.assignment)
        autograded = self.course.place("autograded", *where)
        if not all((autograded / f"{name}.ipynb").is_file() for name in task.merged):
            return False
        known = self.recorder.scores(submission)
        if known is None:
            return False
        feedback = self.course.place("feedback", *where)
        if not all((feedback / f"{name}.html").is_file() for name in task.merged):
            self.pages.ask(submission)
        self._tell(submission, f"graded before, {known}")
        self.graded.append(submission)
        return True

    # Running

    def _run(self, tasks: Sequence[_Task], prepared: Sequence[Prepared], scratch: Path) -> None:
        if not tasks:
            return
        jobs = {
            f"{task.submission}: {name}": (task, name) for task in tasks for name in task.missing
        }

        def staged() -> Iterator[Job]:
            for key, (task, name) in jobs.items():
                files = scratch / "jobs" / hashlib.sha256(key.encode()).hexdigest()
                try:
                    _stage(task, files)
                except (CourseError, OSError) as error:  # changed since, or no room to copy it
                    if task.submission not in self.set_aside:
                        self._put_aside(task.submission, str(error))
                    continue
                yield Job(key, task.merged[name], files, self.limits)

        with self.hire(self.course, prepared) as workforce:
            for job, outcome in workforce.run(staged()):
                if job.files is not None:
                    shutil.rmtree(job.files, ignore_errors=True)
                task, name = jobs[job.key]
                self._take(task, name, outcome)
                self.pages.look()

    def _take(self, task: _Task, name: str, outcome: Outcome) -> None:
        """Keep an outcome; record the submission when it was the last that was missing."""
        # Without a single cell nothing was run: that is the grader's failure, not the student's.
        if outcome.end == "set aside" or (outcome.end == "died" and not outcome.cells):
            if task.submission not in self.set_aside:
                self._put_aside(task.submission, outcome.reason)
            return
        task.outcomes[name] = outcome
        try:
            self.results.keep(task.keys[name], outcome)
        except CourseError as error:
            self.unrecorded[task.submission] = str(error)
        if not task.missing and task.submission not in self.set_aside:
            self._finish(task)

    # Recording

    def _finish(self, task: _Task) -> None:
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

    def _record(self, task: _Task) -> None:
        submission = task.submission
        done = {name: (task.merged[name], task.outcomes[name]) for name in task.merged}
        self.recorder.record(submission, done)
        results.write_whole(self._mark(submission), task.mark)
        self.unrecorded.pop(submission, None)
        self.graded.append(submission)
        self.pages.ask(submission)
        seconds = sum(outcome.seconds for outcome in task.outcomes.values())
        ends = {each.reason for each in task.outcomes.values() if each.end != "complete"}
        if ends:
            self.ends[submission] = submissions.printable("; ".join(sorted(ends)))
        why = f"; {self.ends[submission]}" if ends else ""
        self._tell(submission, f"{self.recorder.scores(submission)} ({seconds:.1f} s{why})")

    def _record_again(self) -> None:
        """Try once more what was locked out; when it still is, none of it is recorded."""
        locked = ""
        for task in self._locked_out:
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
        self.set_aside[submission] = why.replace(f"{self.course.root}/", "")
        self._tell(submission, f"SET ASIDE: {self.set_aside[submission]}")

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
        and author in (None, cell["metadata"].get(OURS, {}).get("author"))
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
        yield


def _limits(course: Course, options: Options) -> Limits:
    """Return what one notebook may use; the time of one cell is the one set for nbgrader."""
    cell = course.config.Execute.get("timeout")
    seconds = float(cell) if isinstance(cell, int | float) and cell > 0 else Limits.cell_seconds
    return Limits(
        seconds=options.seconds,
        cell_seconds=min(seconds, options.seconds),
        memory_mib=options.memory_mib,
    )


def _stage(task: _Task, folder: Path) -> None:
    """Copy what lies beside the notebook, for one job alone; what was released wins."""
    folder.mkdir(parents=True)
    for name, path in task.handed_in.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(submissions.read_file(path, name))
    for name, path in task.released.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def grade(
    root: Path,
    assignment: str | None = None,
    students: Sequence[str] = (),
    *,
    options: Options | None = None,
    hire: Hire | None = None,
    workers: int | None = None,
) -> int:
    """Grade what is new, print a table of all; return the exit status.

    0: all is graded. 1: something was set aside, or could not be recorded.
    """
    options = options or Options()
    course = Course(root)
    chosen = course.submissions(assignment, students)
    if not options.sandboxed:
        print(NO_SANDBOX, file=sys.stderr, flush=True)
    coordinator = Coordinator(course, options, hire or hiring(workers, options.sandboxed))
    try:
        coordinator.grade(chosen)
    except KeyboardInterrupt:
        print("\nstopped; what was run is kept: the same command goes on", file=sys.stderr)
        return 130
    for line in summary(course, coordinator, whole_class=not students):
        print(line)
    if not students:
        for path in write_reports(course, coordinator):
            print(f"Report: {path.relative_to(course.root)}")
    return 1 if coordinator.set_aside or coordinator.unrecorded else 0
