"""Zygotes and their children as seen from outside the sandbox."""

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from attentively_grader.outcome import Limits
from attentively_grader.passing import Gone, receive, send
from attentively_grader.sandbox import Sandbox
from attentively_grader.watchdog import tree

START = (
    "import sys; sys.path[:0] = {paths!r}; import socket; from attentively_grader.zygote import main; "
    "main(socket.socket(fileno={file}))"
)
SECONDS_TO_START = 180
SECONDS_TO_END = 10


class Broken(Exception):
    """A zygote or a child of it did not do its part, whatever the job is."""


class Child:
    """One job's process with all that it starts, known by its keeper."""

    def __init__(self, report: socket.socket, process: int, home: "Nursery") -> None:
        self.report = report
        self.process = process
        """A file that stands for the keeper: readable when nothing of the job is left."""
        self.home = home
        self.pid = _pid(process)
        self.status: int | None = None
        """How the worker ended, as `os.wait` says it; None while it runs or when it was killed."""
        self.failure = ""
        """Why the worker could not begin."""

    def listen(self) -> None:
        """Read what the keeper says about the worker's end; call it when `report` is readable."""
        try:
            message, _ = receive(self.report)
        except Gone:
            return
        self.status = message.get("status", self.status)
        self.failure = message.get("failed", self.failure)

    def ended(self, seconds: float = 0) -> bool:
        """Wait at most so long for the end of the whole job; return whether it came."""
        return bool(select.select([self.process], [], [], seconds)[0])

    def end(self) -> None:
        """Kill all that belongs to the job, and wait until it is gone."""
        if self.process < 0:
            return
        if self.home.sandbox.shell == "single":
            self.home.close_zygote()
        elif self.home.sandbox.shell == "none":
            _kill_tree(self.pid)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)
        gone = self.ended(SECONDS_TO_END)
        os.close(self.process)
        self.process = -1
        self.report.close()
        if not gone:
            raise Broken(f"process {self.pid} could not be killed")


class Nursery:
    """One zygote, started when it is first needed and again when it has died."""

    def __init__(self, sandbox: Sandbox, preload: Sequence[str], paths: Sequence[Path]) -> None:
        self.sandbox = sandbox
        self.preload = list(preload)
        self.paths = [str(path) for path in (*paths, Path(__file__).parent.parent)]
        self.zygote: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()
        self.closed = False

    def start(self) -> None:
        """Start the zygote and wait until it has imported everything."""
        with self.lock:
            self._start()

    def _start(self) -> None:
        self._stop()
        if self.closed:
            raise Broken("the workforce is closing")
        self.control, theirs = socket.socketpair()
        program = START.format(paths=self.paths, file=theirs.fileno())
        with tempfile.TemporaryFile() as errors, theirs:
            self.zygote = subprocess.Popen(
                self.sandbox.command([sys.executable, "-I", "-c", program]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            theirs.close()
            try:
                send(self.control, {"preload": self.preload, "shell": self.sandbox.shell})
                self.control.settimeout(SECONDS_TO_START)
                receive(self.control)
                self.control.settimeout(None)
            except Gone as error:
                self._stop()
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()[-2000:]
                raise Broken(f"a worker did not start: {said or error}") from error

    def child(self, function: str, limits: Limits, sockets: Sequence[int], archive: int) -> Child:
        """Fork a child that calls ``module:function`` with these sockets."""
        report, theirs = socket.socketpair()
        request = {"call": function, "limits": asdict(limits), "user": self._user()}
        with theirs, self.lock:
            if self.zygote is None or self.zygote.poll() is not None:
                self._start()
            try:
                send(self.control, request, [theirs.fileno(), *sockets, archive])
            except Gone as error:
                self._stop()
                raise Broken(f"the zygote has died: {error}") from error
        report.settimeout(60)
        try:
            message, files = receive(report)
            report.settimeout(None)
            if "failed" in message:
                raise Gone(message["failed"])
        except Gone as error:
            report.close()
            self.close_zygote()
            raise Broken(f"a child did not start: {error}") from error
        return Child(report, files[0], self)

    def _user(self) -> int | None:
        """Return the number of a user that nobody is, where this process may become another."""
        return random.randint(10**9, 2 * 10**9) if os.geteuid() == 0 else None

    def close_zygote(self) -> None:
        """End the zygote and all its children; the next child gets a new one."""
        with self.lock:
            self._stop()

    def _stop(self) -> None:
        if self.zygote is not None:
            self.control.close()
            self.zygote.kill()
            self.zygote.wait()
            self.zygote = None

    def close(self) -> None:
        """End the zygote and all its children, for good."""
        self.closed = True
        zygote = self.zygote
        if zygote is not None:
            zygote.kill()
        self.close_zygote()


def _pid(process: int) -> int:
    """Return the number, here, of the process that a descriptor stands for."""
    with open(f"/proc/self/fdinfo/{process}") as file:
        for line in file:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    raise Broken("a child ended before it began")


def _kill_tree(root: int) -> None:
    """Kill a process and all below it, from the top, as far as they can be seen."""
    for process in list(tree(root)):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
