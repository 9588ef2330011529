"""Run one job: start its two processes, watch them, and report how they ended."""

import contextlib
import io
import os
import selectors
import signal
import socket
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

from attentively_grader.jobs import CellOutcome, End, Job, Outcome
from attentively_grader.sandbox.control_groups import Groups
from attentively_grader.sandbox.process_channel import GoneError, receive, send
from attentively_grader.sandbox.watchdog import Watchdog
from attentively_grader.workforce.zygote_client import BrokenError, Child, ZygoteClient

LOOK_EVERY = 0.1
SECONDS_TO_SETTLE = 0.3
"""Time from the end of a connection to the end of its process."""
MOST_ENDED = 8
"""Number of tests that may end the examiner process; then the rest is not run."""
PREPARE = "attentively_grader.examination.examiner_process:prepare_tests"
ENDED = "this test ended the process that runs the tests: {}"
GRACE = 30.0
"""Additional time limit of the examiner, in seconds."""


class KilledError(Exception):
    """A process of a job was killed from outside: by the kernel or an administrator."""


class JobRun:
    """Starts the processes of one job, watches them, and ends them."""

    def __init__(
        self,
        job: Job,
        examiners: ZygoteClient,
        students: ZygoteClient,
        examine: str,
        serve: str,
        groups: Groups | None = None,
    ) -> None:
        self.job = job
        self.examiners = examiners
        self.students = students
        self.examine = examine
        self.serve = serve
        self.groups = groups
        self.student: Child | None = None
        self.watchdog: Watchdog | None = None
        self.verdict: tuple[End, str] | None = None
        """The first limit that a student process exceeded."""
        self.passed = ""
        """The message of the limit that the last student process exceeded."""
        self.peak_mib = 0
        self.at: str | None = None
        """The id of the cell that the examiner runs."""
        self.done: dict[str, CellOutcome] = {}
        """The outcomes of the cells that are finished."""
        self.over = ""
        """The limit that the examiner exceeded."""
        self.killed = ""
        """The cell at which the examiner was killed and then started again."""
        self.imported: list[str] = []
        """Modules that the tests imported and the zygote had not."""
        self.start = time.monotonic()
        seconds = job.limits.seconds + GRACE
        self.examiner_limits = replace(job.limits, seconds=seconds)

    def __enter__(self) -> Self:
        """Start the examiner, which later requests the student process."""
        with contextlib.ExitStack() as undo:
            self.archive = in_memory(archive(self.job.files))
            undo.callback(os.close, self.archive)
            self._start_examiner()
            undo.callback(self._end_examiner)
            undo.callback(self._end_student)
            self.undo = undo.pop_all()
        return self

    def _start_examiner(self) -> None:
        if self.job.prepare_tests:
            self.examiners.prepare(PREPARE, self.job.prepare_tests, self.job.test_files)
        self.line, theirs = socket.socketpair()
        try:
            with theirs:
                self.examiner = self.examiners.child(
                    "attentively_grader.examination.examiner_process:examine",
                    self.examiner_limits,
                    [theirs.fileno(), self.archive],
                )
        except BaseException:
            self.line.close()
            raise
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.line, selectors.EVENT_READ)
        self.ready.register(self.examiner.process, selectors.EVENT_READ)

    def _end_examiner(self) -> None:
        self.ready.close()
        self.line.close()
        self.examiner.end()

    def __exit__(self, *_: object) -> None:
        """End all remaining processes."""
        self.undo.close()

    def outcome(self) -> Outcome:
        """Return the outcome of the job; raise `BrokenError` if the grader itself failed.

        Raises `KilledError` if a process was killed although no limit was exceeded.
        A test that ends the examiner process fails, and the notebook is run again without it.
        """
        while True:
            try:
                return self._outcome()
            except GoneError as error:
                self.examiner.wait(1.0)
                status = self.examiner.status
                if not (self.over or self.examiner.failure) and self.examiner.killed():
                    raise KilledError("the examiner process was killed from outside") from error
                how = self.examiner.failure or describe(status)
                if self.at is None:
                    raise BrokenError(f"the examiner process ended: {how}") from error
            how = self.over or how
            killed = not self.over and (status is None or os.WIFSIGNALED(status))
            if killed and self.killed != self.at and not self._is_late():
                self.killed = self.at  # perhaps from outside
            else:
                self.job = replace(self.job, ended={**self.job.ended, self.at: ENDED.format(how)})
            if len(self.job.ended) > MOST_ENDED or self._is_late():
                return self._complete(self._partial())
            self.at, self.over = None, ""
            self._end_student()
            self._end_examiner()
            self._start_examiner()

    def _is_late(self) -> bool:
        return time.monotonic() - self.start > self.job.limits.seconds

    def _partial(self) -> Outcome:
        """Return the outcome of a job whose examiner did not reach the end."""
        why = "the tests of your code were stopped before the end"
        error = {"output_type": "error", "ename": "Ended", "evalue": why, "traceback": [why]}
        cells = [
            self.done.get(cell["id"], CellOutcome(cell["id"], [error], failed=True))
            for cell in self.job.notebook["cells"]
            if cell["cell_type"] == "code"
        ]
        for number, cell in enumerate(cells):
            if cell.id in self.job.ended:
                said = self.job.ended[cell.id]
                output = {**error, "evalue": said, "traceback": [said]}
                cells[number] = CellOutcome(cell.id, [output], failed=True)
        return Outcome(cells, "timeout", why)

    def _outcome(self) -> Outcome:
        send(self.line, {"job": self.job.to_dict(), "examine": self.examine})
        examiner_watch = Watchdog(self.examiner.pid, self.examiner_limits, self.start)
        while True:
            # Checked before the line is read: a last message may still be in it.
            ended = self.examiner.ended()
            if self.line in [key.fileobj for key, _ in self.ready.select(LOOK_EVERY)]:
                message, _ = receive(self.line)
                if "outcome" in message:
                    self.imported = message["imported"]
                    return self._complete(Outcome.from_dict(message["outcome"]))
                if "failed" in message:
                    raise BrokenError(message["failed"])
                if "at" in message:
                    self.at = message["at"]
                elif "cell" in message:
                    self.done[message["cell"]["id"]] = CellOutcome(**message["cell"])
                else:
                    self._renew()
                continue
            self._look()
            if ended:
                raise GoneError("closed")
            passed = examiner_watch.look()
            if passed is not None:
                end, why = self.verdict or passed
                if self.at is None:
                    return self._complete(
                        Outcome([], end, f"the tests of your code were stopped: {why}")
                    )
                self.over = why
                raise GoneError(why)

    def _look(self) -> None:
        """Check the student process; end it if it exceeds a limit."""
        if self.student is None or self.watchdog is None or self.student.ended():
            return
        passed = self.watchdog.look()
        if passed is not None:
            self.verdict = self.verdict or passed
            self.passed = passed[1]
            self._end_student()

    def _renew(self) -> None:
        """Send the examiner a new student process, and how the last one ended."""
        self._look()
        why = self._why()
        self._end_student()
        if time.monotonic() - self.start > self.job.limits.seconds:
            send(self.line, {"why": why})
            return
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                self.student = self.students.child(
                    self.serve,
                    self.job.limits,
                    [theirs.fileno(), self.archive],
                    local=True,
                    groups=self.groups,
                )
                self.watchdog = Watchdog(self.student.pid, self.job.limits, self.start)
                self.passed = ""
                send(self.line, {"why": why}, [ours.fileno()])
        except BrokenError as error:
            send(self.line, {"failed": str(error)})

    def _why(self) -> str:
        """Return how the student process ended; an empty text while it runs."""
        if self.passed or self.student is None:
            return self.passed
        if not self.student.wait(SECONDS_TO_SETTLE):
            return ""
        if self.student.failure:
            return f"it could not start: {self.student.failure}"
        group = self.student.group
        if group is not None and (passed := group.passed()) is not None:
            self.verdict = self.verdict or passed
            return passed[1]
        if self.student.killed():
            raise KilledError("the student process was killed from outside")
        return describe(self.student.status)

    def _end_student(self) -> None:
        student, self.student = self.student, None
        if student is not None:
            if self.watchdog is not None:
                self.watchdog.look()
                self.peak_mib = max(self.peak_mib, self.watchdog.peak_mib)
            student.end()

    def _complete(self, outcome: Outcome) -> Outcome:
        """Add the time, the memory and the exceeded limit to an outcome."""
        self._end_student()
        if self.verdict is not None and outcome.end in ("complete", "died"):
            end, why = self.verdict
            outcome = replace(outcome, end=end, reason=f"your code was stopped: {why}")
        return replace(
            outcome,
            seconds=round(time.monotonic() - self.start, 3),
            peak_memory_mib=max(outcome.peak_memory_mib, self.peak_mib),
            sandboxed=self.students.sandbox.walls,
        )


def describe(status: int | None) -> str:
    """Return how a process ended, as a text that completes "your code stopped here: ..."."""
    if status is None:
        return "its process was killed"
    if os.WIFEXITED(status):
        return f"it ended its own process (exit {os.WEXITSTATUS(status)})"
    number = os.WTERMSIG(status)
    if number == signal.SIGSYS:
        return "it killed its own process, or made a system call that the sandbox forbids"
    if number == signal.SIGXCPU:
        return "it used too much CPU time"
    name = signal.strsignal(number) or "signal"
    return f"its process was killed by signal {number} ({name.lower()})"


def archive(folder: Path | None) -> bytes:
    """Return a tar archive of the regular files in a folder; empty without a folder."""
    if folder is None:
        return b""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                tar.add(path, path.relative_to(folder), recursive=False)
    return stream.getvalue()


def in_memory(content: bytes) -> int:
    """Return the descriptor of a new file in memory."""
    file = os.memfd_create("files")
    with open(file, "wb", closefd=False) as stream:
        stream.write(content)
    return file
