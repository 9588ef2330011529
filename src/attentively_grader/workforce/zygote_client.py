"""Start zygotes and request child processes from them, from outside the sandbox."""

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attentively_grader.jobs import Limits
from attentively_grader.sandbox.bubblewrap import Sandbox, environment, python_folders
from attentively_grader.sandbox.control_groups import Group, Groups
from attentively_grader.sandbox.process_channel import GoneError, receive, send
from attentively_grader.sandbox.watchdog import tree

START = (
    "import socket, sys; sys.path[:0] = {paths!r}; "
    "from attentively_grader.sandbox.zygote import main; main(socket.socket(fileno={file}))"
)
SECONDS_TO_START = 180
SECONDS_TO_FORK = 60
SECONDS_TO_END = 10


class BrokenError(Exception):
    """A zygote or its child failed, independently of the job."""


class Child:
    """One process of a job with all its descendants, identified by its keeper."""

    def __init__(self, report: socket.socket, process: int, client: "ZygoteClient") -> None:
        self.report = report
        self.process = process
        """A pidfd of the keeper; readable when no process of the job is left."""
        self.client = client
        self.group: Group | None = None
        """The control group of the job, if there is one."""
        self.pid = _pid(process)
        self.status: int | None = None
        """The worker's wait status; None while it runs or if it was killed with the keeper."""
        self.failure = ""
        """Why the worker could not start."""

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the worker, at most so long; return whether it has ended."""
        self.report.settimeout(seconds)
        try:
            while self.status is None:
                message, _ = receive(self.report)
                self.status = message.get("status")
                self.failure = message.get("failed", self.failure)
        except GoneError:
            pass  # the keeper was killed, or the time is up
        return self.status is not None or self.ended()

    def killed(self) -> bool:
        """Return whether the worker, which has ended, was killed by SIGKILL.

        `seccomp` lets no process of the job do that, so it came from outside.
        """
        return self.status is None or (
            os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL
        )

    def ended(self, seconds: float = 0) -> bool:
        """Wait for the end of the whole job, at most so long; return whether it has ended."""
        return _readable(self.process, seconds)

    def end(self) -> None:
        """Kill all processes of the job, and wait until they have ended."""
        if self.process < 0:
            return
        if self.group is not None:
            self.group.end()
        if self.client.sandbox.shell == "single":
            self.client.close_zygote()
        elif self.client.sandbox.shell == "none" and self.group is None:
            _kill_below(self.pid)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)
        gone = self.ended(SECONDS_TO_END)
        os.close(self.process)
        self.process = -1
        self.report.close()
        if not gone:
            raise BrokenError(f"process {self.pid} could not be killed")


class Forked:
    """A zygote that another zygote forked; it has what is used of `subprocess.Popen`."""

    def __init__(self, process: int) -> None:
        self.process = process
        """A pidfd."""
        self.pid = _pid(process)

    def poll(self) -> int | None:
        """Return None while it runs."""
        return 0 if _readable(self.process, 0) else None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def wait(self) -> None:
        _readable(self.process, SECONDS_TO_END)
        os.close(self.process)


class ZygoteClient:
    """Starts one zygote when it is needed, and a new one when it has died.

    With a `source`, the zygote is forked from that one, which has imported most of its modules.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        preload: Sequence[str],
        paths: Sequence[Path],
        source: "ZygoteClient | None" = None,
    ) -> None:
        self.sandbox = sandbox
        self.preload = list(preload)
        self.paths = [str(path) for path in (*paths, Path(__file__).parents[2])]
        self.source = source
        self.zygote: subprocess.Popen[bytes] | Forked | None = None
        self.lock = threading.Lock()
        self.closed = False
        self.told: set[str] = set()
        """What the zygote was later told to import or to prepare; a replacement is not told."""

    def start(self) -> None:
        """Start the zygote; it imports its modules while others start."""
        with self.lock:
            if self.source is None:
                self._start()

    def wait(self) -> None:
        """Wait until the zygote has imported its modules."""
        with self.lock:
            self._wait()

    def _start(self) -> None:
        self._stop()
        if self.closed:
            raise BrokenError("the worker pool is closing")
        self.ready = False
        if self.source is not None:
            self.control, self.zygote = self.source.fork()
            return
        self.control, theirs = socket.socketpair()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the zygote ends)
        program = START.format(paths=self.paths, file=theirs.fileno())
        home = None
        if not self.sandbox.walls:
            self.home = tempfile.TemporaryDirectory()
            home = {**environment(), "HOME": self.home.name, "TMPDIR": self.home.name}
        with theirs:
            self.zygote = subprocess.Popen(
                self.sandbox.command([sys.executable, "-I", "-c", program]),
                env=home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _wait(self) -> None:
        if self.zygote is None or self.zygote.poll() is not None:
            self._start()
        if self.ready:
            return
        if self.source is not None:
            with contextlib.suppress(GoneError):  # the next request will notice
                send(self.control, {"preload": self.preload})
            self.ready = True
            return
        folders = [str(folder) for folder in (*python_folders(), *self.sandbox.folders)]
        order = {"preload": self.preload, "shell": self.sandbox.shell, "folders": folders}
        try:
            send(self.control, order)
            self.control.settimeout(SECONDS_TO_START)
            receive(self.control)
            self.control.settimeout(None)
        except GoneError as error:
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip()[-2000:]
            self._stop()
            raise BrokenError(f"a worker did not start: {said or error}") from error
        self.ready = True

    def fork(self) -> tuple[socket.socket, Forked]:
        """Fork a zygote from this one; return the socket that controls it, and its process."""
        control, process = self._forked({"fork": True})
        return control, Forked(process)

    def child(
        self,
        function: str,
        limits: Limits,
        files: Sequence[int],
        *,
        local: bool = False,
        groups: Groups | None = None,
    ) -> Child:
        """Fork a child that calls ``module:function`` with these files as sockets.

        The last file is an archive of its working directory. With `local`, it may import modules
        from there. If `groups` is given, the child gets its own control group.
        """
        request = {
            "call": function,
            "limits": asdict(limits),
            "user": self._user(),
            "local": local,
        }
        report, process = self._forked(request, files)
        child = Child(report, process, self)
        if groups is not None:
            child.group = groups.holding(child.pid, limits)
        with contextlib.suppress(OSError):  # it has ended
            # If the machine runs out of memory, the kernel kills this process first. Written
            # from outside: in the sandbox, /proc is read-only.
            Path(f"/proc/{child.pid}/oom_score_adj").write_text("1000")
        send(report, {"go": True})
        return child

    def _forked(
        self, request: dict[str, Any], files: Sequence[int] = ()
    ) -> tuple[socket.socket, int]:
        """Let the zygote fork; return the socket of the new process, and its pidfd."""
        line, theirs = socket.socketpair()
        with theirs, self.lock:
            self._wait()
            zygote = self.zygote
            try:
                send(self.control, request, [theirs.fileno(), *files])
            except GoneError as error:
                line.close()
                self._stop()
                raise BrokenError(f"the zygote has died: {error}") from error
        line.settimeout(SECONDS_TO_FORK)
        try:
            message, passed = receive(line)
        except GoneError as error:
            line.close()
            with self.lock:
                # It hangs, and no other worker has replaced it yet.
                if isinstance(error.__cause__, TimeoutError) and self.zygote is zygote:
                    self._stop()
            raise BrokenError(f"a child did not start: {error}") from error
        line.settimeout(None)
        if "failed" in message:
            line.close()
            raise BrokenError(f"a child did not start: {message['failed']}")
        return line, passed[0]

    def learn(self, modules: Sequence[str]) -> None:
        """Let the zygote import the modules that the tests of a job imported.

        Later jobs then find these modules already imported.
        """
        new = [name for name in modules if name not in self.told]
        with self.lock:
            if not new or self.zygote is None or self.closed:
                return
            self.told.update(new)
            with contextlib.suppress(GoneError):  # the next request will notice
                send(self.control, {"preload": new})

    def prepare(self, function: str, *arguments: Any) -> None:
        """Let the zygote call a function once; later children have what it leaves in memory."""
        call = json.dumps([function, arguments], sort_keys=True)
        with self.lock:
            if call in self.told:
                return
            self._wait()
            self.told.add(call)
            try:
                send(self.control, {"prepare": function, "arguments": arguments})
                self.control.settimeout(SECONDS_TO_START)
                receive(self.control)
                self.control.settimeout(None)
            except GoneError:
                self._stop()  # the next request starts a new one

    def _user(self) -> int | None:
        """Return a random unused user id if this process may change its user, else None."""
        own = self.sandbox.shell == "nested"
        return random.randint(10**9, 2 * 10**9) if own and os.geteuid() == 0 else None

    def close_zygote(self) -> None:
        """End the zygote and all its children; the next request starts a new one."""
        with self.lock:
            self._stop()

    def _stop(self) -> None:
        if self.zygote is None:
            return
        self.control.close()
        if self.zygote.poll() is None:
            _kill_with_all_below(self.zygote.pid)
        self.zygote.wait()
        self.zygote = None
        if self.source is None:
            self.errors.close()
            if not self.sandbox.walls:
                self.home.cleanup()

    def close(self) -> None:
        """End the zygote and all its children, for good."""
        self.closed = True
        zygote = self.zygote
        if zygote is not None and zygote.poll() is None:
            _kill_with_all_below(zygote.pid)  # the thread that holds the lock waits for it
        self.close_zygote()


def _readable(file: int, seconds: float) -> bool:
    """Wait until a file is readable, at most so long; return whether it is."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def _pid(process: int) -> int:
    """Return the process id of a pidfd in this namespace."""
    with open(f"/proc/self/fdinfo/{process}") as file:
        for line in file:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    raise BrokenError("a child ended before it started")


def _kill_with_all_below(root: int) -> None:
    """Kill a process and wait until its descendants, which end with it, have ended."""
    below = []
    for process in tree(root):
        with contextlib.suppress(OSError):  # it has ended
            below.append(os.pidfd_open(process))
    with contextlib.suppress(ProcessLookupError):
        os.kill(root, signal.SIGKILL)
    for process in below:
        _readable(process, SECONDS_TO_END)
        os.close(process)


def _kill_below(root: int) -> None:
    """Kill all descendants of a process that adopts orphans, until there are none."""
    for _ in range(1000):
        below = [process for process in tree(root) if process != root]
        if not below:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in below:
                with contextlib.suppress(OSError):
                    os.kill(process, number)
        time.sleep(0.001)
