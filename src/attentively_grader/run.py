"""One job under way: its examiner, its student, and what is known of their ends."""

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

from attentively_grader import desk
from attentively_grader.nursery import Broken, Child, Nursery
from attentively_grader.outcome import End, Job, Outcome
from attentively_grader.passing import Gone, receive, send
from attentively_grader.watchdog import Watchdog

LOOK_EVERY = 0.1
GRACE = 30.0
"""How much longer than the student the examiner may take, in seconds."""


class Run:
    """Starts the processes of one job, watches them, and ends them."""

    def __init__(
        self, job: Job, examiners: Nursery, students: Nursery, examine: str, serve: str
    ) -> None:
        self.job = job
        self.examiners = examiners
        self.students = students
        self.examine = examine
        self.serve = serve
        self.student: Child | None = None
        self.watchdog: Watchdog | None = None
        self.verdict: tuple[End, str] | None = None
        self.peak_mib = 0
        self.start = time.monotonic()
        self.ready = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        """Start the examiner; it asks for the student when it wants one."""
        self.archive = pack(self.job.files)
        self.line, theirs = socket.socketpair()
        seconds = self.job.limits.seconds + GRACE
        self.examiner_limits = replace(self.job.limits, seconds=seconds)
        with theirs:
            self.examiner = self.examiners.child(
                "attentively_grader.desk:examine",
                self.examiner_limits,
                [theirs.fileno()],
                self.archive,
            )
        self.ready.register(self.line, selectors.EVENT_READ)
        self.ready.register(self.examiner.process, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        """End all that is left."""
        self.ready.close()
        self.line.close()
        os.close(self.archive)
        with contextlib.suppress(Broken):
            self._end_student()
        self.examiner.end()

    def outcome(self) -> Outcome:
        """Return what came of the job, whatever happens, or raise `Broken`."""
        try:
            return self._outcome()
        except Gone as error:
            self.examiner.ended(1.0)
            self.examiner.listen()
            how = self.examiner.failure or describe(self.examiner.status)
            raise Broken(f"the examiner's process ended: {how}") from error

    def _outcome(self) -> Outcome:
        send(self.line, {"job": desk.job_to(self.job), "examine": self.examine})
        examiner_watch = Watchdog(self.examiner.pid, self.examiner_limits)
        while True:
            if self.line in [key.fileobj for key, _ in self.ready.select(LOOK_EVERY)]:
                message, _ = receive(self.line)
                if "outcome" in message:
                    return self._complete(Outcome.from_dict(message["outcome"]))
                if "failed" in message:
                    raise Broken(message["failed"])
                self._answer(message["ask"])
                continue
            self._look()
            if self.examiner.ended():
                raise Gone("closed")
            passed = examiner_watch.look()
            if passed is not None:
                return self._complete(Outcome([], *(self.verdict or passed)))

    def _look(self) -> None:
        """Look at the student's process; end it where it passed a limit."""
        if self.student is None or self.watchdog is None or self.student.ended():
            return
        passed = self.watchdog.look()
        if passed is not None:
            self.verdict = passed
            self._end_student()

    def _answer(self, question: str) -> None:
        """Do what the examiner asks for."""
        if question == "why":
            end, reason = self._why()
            send(self.line, {"end": end, "reason": reason})
            return
        self._end_student()
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                self.student = self.students.child(
                    self.serve, self.job.limits, [theirs.fileno()], self.archive
                )
                self.watchdog = Watchdog(self.student.pid, self.job.limits, self.start)
                send(self.line, {}, [ours.fileno()])
        except Broken as error:
            send(self.line, {"failed": str(error)})

    def _why(self) -> tuple[End, str]:
        """Return how the student's process ended."""
        if self.verdict is not None:
            return self.verdict
        student = self.student
        if student is None or not student.ended(1.0):
            return "died", "your code closed the connection"
        student.listen()
        if student.failure:
            return "died", f"the notebook could not begin: {student.failure}"
        return "died", describe(student.status)

    def _end_student(self) -> None:
        student, self.student = self.student, None
        if student is not None:
            if self.watchdog is not None:
                self.watchdog.look()
                self.peak_mib = max(self.peak_mib, self.watchdog.peak_mib)
            student.end()

    def _complete(self, outcome: Outcome) -> Outcome:
        """Add what only this side knows."""
        self._end_student()
        if self.verdict is not None and outcome.end in ("complete", "died"):
            outcome = replace(outcome, end=self.verdict[0], reason=self.verdict[1])
        return replace(
            outcome,
            seconds=round(time.monotonic() - self.start, 3),
            peak_memory_mib=max(outcome.peak_memory_mib, self.peak_mib),
            sandboxed=self.students.sandbox.shell != "none",
        )


def describe(status: int | None) -> str:
    """Say in a sentence how a process ended."""
    if status is None:
        return "the process of your code was killed"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            if signal.Signals(number) is signal.SIGXCPU:
                return "your code used too much processor time"
            return f"your code ended the process ({signal.Signals(number).name})"
        return f"your code ended the process (signal {number})"
    return f"your code ended the process (exit {os.WEXITSTATUS(status)})"


def pack(folder: Path | None) -> int:
    """Return a file in memory with the plain files of a folder; empty without a folder."""
    archive = os.memfd_create("files")
    if folder is not None:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    tar.add(path, path.relative_to(folder), recursive=False)
        os.write(archive, stream.getbuffer())
    return archive
