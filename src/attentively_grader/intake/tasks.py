"""Plan the grading: merge submissions with their tests, and find results that are already known.

Nothing here records results in the gradebook, so several runs can share the work.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from attentively_grader.course.course import Course, CourseError, LockedError, Submission
from attentively_grader.course.preparation import Prepared, prepare
from attentively_grader.intake import result_store, submissions
from attentively_grader.intake.answer_merging import merge
from attentively_grader.intake.result_store import Results
from attentively_grader.intake.self_test import SelfTest, tests
from attentively_grader.jobs import Job, Limits, Outcome

SOLUTION = "the solution"
"""Stands for the student in the name of a solution's job; no student has this name."""
PutAside = Callable[[Submission, str], None]
"""Called with a submission that cannot be graded, and the reason."""


class JobRunner(Protocol):
    """Runs jobs: the local worker pool or a cluster."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, in order of completion."""


PoolFactory = Callable[[Course, Sequence[Prepared]], AbstractContextManager[JobRunner]]
"""Creates the job runner of a course; called only if there is a job to run."""


class OnDemand:
    """A job runner that is created for its first job; use it in a ``with`` statement."""

    def __init__(self, create: Callable[[], AbstractContextManager[JobRunner]]) -> None:
        self._create = create
        self._stack = ExitStack()
        self._runner: JobRunner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, in order of completion."""
        if self._runner is None:
            self._runner = self._stack.enter_context(self._create())
        yield from self._runner.run(jobs)


@dataclass(frozen=True)
class Options:
    """Options of a grading run."""

    force: bool = False
    """Whether to run again what has not changed."""
    seconds: float = Limits.seconds
    memory_mib: int = Limits.memory_mib
    sandboxed: bool = True
    even_so: bool = False
    """Whether to grade students although the solution does not earn every point."""


@dataclass
class Task:
    """A submission or a solution that can be graded, and its outcomes so far."""

    submission: Submission
    prepared: Prepared
    handed_in: submissions.HandedIn
    merged: dict[str, dict[str, Any]]
    keys: dict[str, str]
    """The names of the stored results, by notebook."""
    test: SelfTest
    """The self-test of the assignment."""
    solution: bool = False
    """Whether this is the instructor's solution."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The notebooks without an outcome."""
        return [name for name in self.merged if name not in self.outcomes]

    @property
    def mark(self) -> str:
        """The line that identifies a recorded submission and its results."""
        return json.dumps({"content": self.handed_in.content, "results": self.keys}) + "\n"

    def job(self, key: str, name: str, files: Path, limits: Limits) -> Job:
        """Return the job that runs a notebook."""
        return Job(
            key,
            self.merged[name],
            files,
            limits,
            solution=self.solution,
            returned={} if self.solution else self.test.returned(name),
            beside=tuple(self.test.beside.get(name, ())),
            test_files=self.prepared.test_files,
            prepare_tests=self.prepared.prepare_tests,
        )

    def stage(self, folder: Path) -> None:
        """Copy the files next to the notebook for one job; released files take precedence."""
        folder.mkdir(parents=True)
        for name, path in self.handed_in.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(submissions.read_file(path, name))
        for name, path in self.prepared.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


class TaskPlanner:
    """Turns submissions into tasks, and runs them."""

    def __init__(self, course: Course, options: Options, put_aside: PutAside) -> None:
        self.course = course
        self.options = options
        self.put_aside = put_aside
        self.limits = _limits(course, options)
        self.results = Results(course.kept / "results")
        self.prepared: dict[str, Prepared] = {}
        self.refused: dict[str, str] = {}
        """The assignments that cannot be graded, with the reason."""
        self.tested: dict[str, SelfTest] = {}
        self.stopped: set[str] = set()
        """The assignments of which no student is graded, because the solution misses points."""

    def prepare(
        self, chosen: Sequence[Submission], scratch: Path, *, gradebook: bool = True
    ) -> None:
        """Prepare the assignments of these submissions.

        With `gradebook`, their cells and points are entered there.
        """
        known = {*self.prepared, *self.refused}
        for name in sorted({each.assignment for each in chosen} - known):
            folder = scratch / "released"
            try:
                self.prepared[name] = prepare(self.course, name, folder, gradebook=gradebook)
            except LockedError:
                raise
            except Exception as error:  # the other assignments continue
                self.refused[name] = str(error)

    def pool(self, factory: PoolFactory) -> OnDemand:
        """Return the job runner of the assignments that are prepared."""
        return OnDemand(lambda: factory(self.course, list(self.prepared.values())))

    def self_tests(self, pool: JobRunner, scratch: Path) -> Iterator[SelfTest]:
        """Run the solution of each new assignment; yield the self-tests with automatic points.

        A solution that fails tests runs again, with these tests next to its code.
        """
        running = []
        for name, prepared in self.prepared.items():
            if name not in self.tested and name not in self.refused:
                self.tested[name] = test = SelfTest.of(name, prepared)
                if test.most:
                    running.append(test)
        environment = self._environment() if running else {}
        while running:
            tasks = []
            for test in running:
                try:
                    tasks.append(self._solution(test, environment))
                except Exception as error:  # the other assignments continue
                    why = f"the solution of {test.assignment} cannot be run: {error}"
                    self.refused[test.assignment] = why
            failures: dict[Submission, str] = {}
            for task in tasks:
                task.test.stored &= not task.missing
            for _ in self.run(tasks, pool, scratch, failures.__setitem__):
                pass
            running = []
            for task in tasks:
                why = failures.get(task.submission, "")
                ended = {name: Outcome([], "died", why) for name in task.missing}
                task.test.outcomes = task.outcomes | ended
                if task.test.move():
                    running.append(task.test)
                    continue
                if task.test.missed() and not self.options.even_so:
                    self.stopped.add(task.test.assignment)
                yield task.test

    def tasks(self, chosen: Sequence[Submission]) -> Iterator[Task]:
        """Yield the submissions that can be graded; set the others aside.

        Those of an assignment that is stopped are left out.
        """
        environment = self._environment()
        for submission in chosen:
            if submission.assignment in self.stopped:
                continue
            try:
                if submission.assignment in self.refused:
                    raise CourseError(self.refused[submission.assignment])
                task = self._task(submission, environment)
            except Exception as error:  # the rest of the class continues
                self.put_aside(submission, str(error))
            else:
                yield task

    def _task(self, submission: Submission, environment: Mapping[str, str]) -> Task:
        test = self.tested[submission.assignment]
        ignore = self.course.directory.ignore
        handed_in = submissions.read(
            submission, test.prepared.notebooks, ignore, test.prepared.files
        )
        depends_on = dict(environment)
        if handed_in.files:
            depends_on["files"] = handed_in.content
        return self._planned(submission, handed_in, test, depends_on)

    def _solution(self, test: SelfTest, environment: Mapping[str, str]) -> Task:
        """Return the task of the solution, merged like a submission."""
        cells = {
            name: submissions.parse(json.dumps(notebook).encode(), f"{name}.ipynb")
            for name, notebook in test.prepared.solutions.items()
            if tests(test.prepared.notebooks[name])
        }
        where = Submission(SOLUTION, test.assignment, self.course.folder("source"))
        handed_in = submissions.HandedIn(cells, files={}, content="")
        return self._planned(where, handed_in, test, environment, solution=True)

    def _planned(
        self,
        submission: Submission,
        handed_in: submissions.HandedIn,
        test: SelfTest,
        depends_on: Mapping[str, str],
        *,
        solution: bool = False,
    ) -> Task:
        """Return a task with the stored results of its notebooks."""
        prepared = test.prepared
        merged = {
            name: merge(prepared.notebooks[name], cells)
            for name, cells in handed_in.notebooks.items()
        }
        task = Task(submission, prepared, handed_in, merged, {}, test, solution)
        for name, notebook in merged.items():
            how = {
                "solution": solution,
                "returned": {} if solution else test.returned(name),
                "beside": sorted(test.beside.get(name, ())),
            }
            task.keys[name] = result_store.key(
                notebook,
                self.limits,
                self.options.sandboxed,
                {**depends_on, "source": prepared.content, "how": json.dumps(how, sort_keys=True)},
            )
        if not self.options.force:
            found = {name: self.results.find(key) for name, key in task.keys.items()}
            task.outcomes = {name: each for name, each in found.items() if each is not None}
        return task

    def _environment(self) -> dict[str, str]:
        """Return hashes of what results depend on besides the submission: packages, folders."""
        found = result_store.environment()
        for name, folder in self.course.named("depends_on").items():
            found[f"folder {name}"] = result_store.fingerprint(folder)
        return found

    def run(
        self, tasks: Sequence[Task], pool: JobRunner, scratch: Path, put_aside: PutAside
    ) -> Iterator[tuple[Task, str | None]]:
        """Run the missing notebooks of these tasks and store the results.

        Yields a task each time it receives an outcome, with None or the reason why the result
        could not be stored. `put_aside` is called for a task that cannot be run.
        """
        if not any(task.missing for task in tasks):
            return
        refused: set[Submission] = set()
        jobs = {
            f"{task.submission}: {name}": (task, name) for task in tasks for name in task.missing
        }

        def refuse(submission: Submission, why: str) -> None:
            if submission not in refused:
                refused.add(submission)
                put_aside(submission, why)

        def staged() -> Iterator[Job]:
            for key, (task, name) in jobs.items():
                files = scratch / "jobs" / hashlib.sha256(key.encode()).hexdigest()
                try:
                    task.stage(files)
                except (
                    CourseError,
                    OSError,
                ) as error:  # changed in the meantime, or the disk is full
                    refuse(task.submission, str(error))
                    continue
                yield task.job(key, name, files, self.limits)

        for job, outcome in pool.run(staged()):
            if job.files is not None:
                shutil.rmtree(job.files, ignore_errors=True)
            task, name = jobs[job.key]
            # Without any cell, nothing was run: a failure of the grader, not of the student.
            if outcome.end == "set aside" or (outcome.end == "died" and not outcome.cells):
                refuse(task.submission, outcome.reason)
                continue
            task.outcomes[name] = outcome
            why = None
            try:
                self.results.keep(task.keys[name], outcome)
            except CourseError as error:
                why = str(error)
            if task.submission not in refused:
                yield task, why


def _limits(course: Course, options: Options) -> Limits:
    """Return the resource limits of one notebook.

    The time limit of a cell is nbgrader's ``c.Execute.timeout``. If the limit of the notebook is
    below the default, a cell gets at most a fifth of it, so that an endless loop in one cell leaves
    time for the others.
    """
    set_for_nbgrader = course.config.Execute.get("timeout")
    seconds = fifth = options.seconds * Limits.cell_seconds / Limits.seconds
    if isinstance(set_for_nbgrader, int | float) and set_for_nbgrader > 0:
        seconds = float(set_for_nbgrader)
    if options.seconds < Limits.seconds:
        seconds = min(seconds, fifth)
    return Limits(
        seconds=float(options.seconds),  # 600 and 600.0 must give the same name of a result
        cell_seconds=min(seconds, float(options.seconds)),
        memory_mib=options.memory_mib,
    )
