"""Run many jobs in parallel, each in separate processes that end with the job.

A *worker* is a thread that runs one job at a time in two processes, the examiner process and the
student process. They are forked from warm zygotes and connected by a socket. The worker watches
both, starts a new student process when the examiner requests one, and ends both when the outcome is
known or a limit is exceeded.
"""

import itertools
import math
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from attentively_grader.examination import examiner_process
from attentively_grader.jobs import Job, Outcome
from attentively_grader.sandbox import control_groups
from attentively_grader.sandbox.bubblewrap import NoSandboxError, Sandbox, find_sandbox
from attentively_grader.sandbox.process_channel import GoneError
from attentively_grader.workforce.job_run import JobRun, KilledError
from attentively_grader.workforce.zygote_client import BrokenError, ZygoteClient

WARM = (
    "numpy",
    "torch",
    "matplotlib.pyplot",
    "IPython.core.interactiveshell",
    "attentively_grader.workforce.warm_up",
)
SERVE = "attentively_grader.examination.student_process:serve"
SHARE = 8
"""Workers per zygote: it forks about forty times per second, and its imports take seconds."""

ATTEMPTS = 2
"""How often a job is tried if the grader itself fails."""
RUNS_ALONE = 2
"""How often a job that was killed from outside is run again, while no other job runs."""

Ran = tuple[Job, Outcome]


class WorkerPool:
    """Runs jobs on several workers; use it in a ``with`` statement."""

    def __init__(
        self,
        workers: int,
        *,
        sandbox: Sandbox | None = None,
        preload: Sequence[str] = (),
        warm: Sequence[str] = WARM,
        importable: Sequence[Path] = (),
        student: str = SERVE,
        examiner: str = examiner_process.EXAMINE,
    ) -> None:
        """Prepare `workers` workers.

        `importable` lists the folders, besides those of Python, that notebooks import from;
        students' code can read everything in them. `preload` lists modules, and names in them as
        ``module:name``, to import beforehand in addition to `warm`. `student` and `examiner` name
        the functions of the two processes, as ``module:function``.
        """
        if workers < 1:
            raise ValueError(f"workers={workers}; expected at least 1")
        if sys.platform != "linux":
            raise NoSandboxError(
                f"grading needs Linux, with or without a sandbox, but this system is {sys.platform}"
            )
        folders = tuple(folder.resolve() for folder in importable)
        self.sandbox = sandbox if sandbox is not None else find_sandbox(folders)
        self.groups = control_groups.find()
        self.student = student
        self.examiner = examiner
        modules = [*warm, *preload]
        serving, examining = (name.partition(":")[0] for name in (student, examiner))
        shared = math.ceil(workers / SHARE)
        needed = [*modules, serving]
        self.students = [
            ZygoteClient(self.sandbox, needed, folders)
            for _ in range(workers if self.sandbox.shell == "single" else shared)
        ]
        # Zygotes of their own: what the tests prepare in them never reaches a student's process.
        trusted, needed = self.sandbox.for_examiners(), [*modules, examining]
        self.examiners = [
            ZygoteClient(trusted, needed, folders, source if trusted == self.sandbox else None)
            for source in self.students[:shared]
        ]
        self.workers = workers
        self.todo: queue.SimpleQueue[tuple[Job, queue.SimpleQueue[Ran]] | None]
        self.todo = queue.SimpleQueue()
        self.closing = False
        self.turns = Turns()
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Start the workers; return when all zygotes have imported their modules."""
        started: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        try:
            for number in range(self.workers):
                thread = threading.Thread(
                    target=self._work, args=(number, started), name=f"worker {number}", daemon=True
                )
                self.threads.append(thread)
                thread.start()
            for _ in range(self.workers):
                error = started.get()
                if error is not None:
                    raise error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process; unfinished jobs are lost."""
        self.closing = True
        for _ in self.threads:
            self.todo.put(None)
        for zygote_client in (*self.students, *self.examiners):
            zygote_client.close()
        for thread in self.threads:
            thread.join()

    def run(self, jobs: Iterable[Job]) -> Iterator[Ran]:
        """Yield each job with its outcome, in order of completion."""
        done: queue.SimpleQueue[Ran] = queue.SimpleQueue()
        rest = iter(jobs)
        waiting = 0
        for job in itertools.islice(rest, 2 * self.workers):
            self.todo.put((job, done))
            waiting += 1
        while waiting:
            ran = done.get()
            waiting -= 1
            for job in itertools.islice(rest, 1):
                self.todo.put((job, done))
                waiting += 1
            yield ran

    def _work(self, number: int, started: "queue.SimpleQueue[BaseException | None]") -> None:
        """As one worker: run jobs until there are none."""
        try:
            # The kernel ends a sandbox with the thread that started it, so a worker starts it.
            mine = [*self.students[number : number + 1], *self.examiners[number : number + 1]]
            for zygote_client in mine:
                zygote_client.start()
            for zygote_client in mine:
                zygote_client.wait()
            students = self.students[number % len(self.students)]
            examiners = self.examiners[number % len(self.examiners)]
        except BaseException as error:
            started.put(error)
            return
        started.put(None)
        while (task := self.todo.get()) is not None and not self.closing:
            job, done = task
            done.put((job, self._attempt(job, examiners, students)))

    def _attempt(self, job: Job, examiners: ZygoteClient, students: ZygoteClient) -> Outcome:
        """Run a job; try again if the grader itself failed or a process was killed from outside.

        The kernel kills processes when the machine has no memory left. Therefore a job that was
        killed runs again when the others have ended, a bounded number of times.
        """
        failures: list[str] = []
        kills: list[str] = []
        while len(failures) < ATTEMPTS and len(kills) <= RUNS_ALONE:
            try:
                with (
                    self.turns.turn(alone=bool(kills)),
                    JobRun(
                        job, examiners, students, self.examiner, self.student, self.groups
                    ) as run,
                ):
                    if self.closing:
                        break
                    outcome = run.outcome()
                for zygote_client in (examiners, students):
                    zygote_client.learn(run.imported)
                return outcome
            except KilledError as error:
                kills.append(str(error))
            except (BrokenError, GoneError) as error:
                failures.append(str(error))
            except Exception as error:  # no job may end a worker
                failures.append(f"{type(error).__name__}: {error}")
        if len(kills) > RUNS_ALONE:
            return Outcome(
                [],
                "set aside",
                f"{kills[-1]} {len(kills)} times, the last {RUNS_ALONE} times while no other "
                "notebook ran. This is not the student's fault. Probably the machine has too "
                f"little memory for {job.limits.memory_mib} MiB (--memory). Free memory or use a "
                "larger machine, and repeat the command",
            )
        reason = failures[-1] if failures else "the worker pool is closing"
        return Outcome([], "died", f"the grader could not run this notebook: {reason}")


class Turns:
    """Lets jobs run together, or one job alone."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.running = 0
        self.alone = False

    @contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Wait until this job may run; with `alone`, until no other runs."""
        with self.changed:
            self.changed.wait_for(lambda: not self.alone)
            if alone:
                self.alone = True
                self.changed.wait_for(lambda: self.running == 0)
            self.running += 1
        try:
            yield
        finally:
            with self.changed:
                self.running -= 1
                self.alone = self.alone and not alone
                self.changed.notify_all()
