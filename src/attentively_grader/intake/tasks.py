"""Plan the grading: merge submissions with their tests, and find results that are already known.

Nothing here records results in the gradebook, so several runs can share the work.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from attentively_grader.course.course import Course, CourseError, LockedError, Submission
from attentively_grader.course.preparation import Prepared, prepare
from attentively_grader.intake import result_store, submissions
from attentively_grader.intake.answer_merging import merge
from attentively_grader.intake.result_store import Results
from attentively_grader.jobs import Job, Limits, Outcome

PutAside = Callable[[Submission, str], None]
"""Called with a submission that cannot be graded, and the reason."""


class JobRunner(Protocol):
    """Runs jobs: the local worker pool or a cluster."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, in order of completion."""


PoolFactory = Callable[[Course, Sequence[Prepared]], AbstractContextManager[JobRunner]]
"""Creates the job runner of a course; called only if there is a job to run."""


@dataclass(frozen=True)
class Options:
    """Options of a grading run."""

    force: bool = False
    """Whether to run again what has not changed."""
    seconds: float = Limits.seconds
    memory_mib: int = Limits.memory_mib
    sandboxed: bool = True


@dataclass
class Task:
    """A submission that can be graded, and its outcomes so far."""

    submission: Submission
    prepared: Prepared
    handed_in: submissions.HandedIn
    merged: dict[str, dict[str, Any]]
    keys: dict[str, str]
    """The names of the stored results, by notebook."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The notebooks without an outcome."""
        return [name for name in self.merged if name not in self.outcomes]

    @property
    def mark(self) -> str:
        """The line that identifies a recorded submission and its results."""
        return json.dumps({"content": self.handed_in.content, "results": self.keys}) + "\n"

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

    def tasks(
        self, chosen: Sequence[Submission], scratch: Path, *, gradebook: bool = True
    ) -> Iterator[Task]:
        """Yield the submissions that can be graded; set the others aside.

        With `gradebook`, the cells and points of the assignments are entered there.
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
        environment = self._environment()
        for submission in chosen:
            try:
                if submission.assignment in self.refused:
                    raise CourseError(self.refused[submission.assignment])
                task = self._task(submission, environment)
            except Exception as error:  # the rest of the class continues
                self.put_aside(submission, str(error))
            else:
                yield task

    def _task(self, submission: Submission, environment: Mapping[str, str]) -> Task:
        prepared = self.prepared[submission.assignment]
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
            name: result_store.key(notebook, self.limits, self.options.sandboxed, depends_on)
            for name, notebook in merged.items()
        }
        task = Task(submission, prepared, handed_in, merged, keys)
        if not self.options.force:
            found = {name: self.results.find(key) for name, key in keys.items()}
            task.outcomes = {name: each for name, each in found.items() if each is not None}
        return task

    def _environment(self) -> dict[str, str]:
        """Return hashes of what results depend on besides the submission: packages, folders."""
        found = result_store.environment()
        for name, folder in self.course.named("depends_on").items():
            found[f"folder {name}"] = result_store.fingerprint(folder)
        return found

    def run(
        self, tasks: Sequence[Task], pool_factory: PoolFactory, scratch: Path
    ) -> Iterator[tuple[Task, str | None]]:
        """Run the missing notebooks of these tasks and store the results.

        Yields a task each time it receives an outcome, with None or the reason why the result
        could not be stored. A task that cannot be run is set aside.
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
                self.put_aside(submission, why)

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
                yield Job(key, task.merged[name], files, self.limits)

        with pool_factory(self.course, list(self.prepared.values())) as pool:
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
