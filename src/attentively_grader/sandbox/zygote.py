"""The zygote: a process that has imported the libraries and forks an isolated child for every job.

It runs inside the sandbox; a socket connects it with the worker pool (`process_channel`). For each
request, it forks two processes:

- The *keeper* is process 1 of new process, mount, network, IPC and hostname namespaces, with a
  private disk in place of /tmp, the home directory and /dev/shm. It only waits: when it ends or is
  killed, the kernel kills everything that is left in its process namespace.
- The *worker* is another user without privileges, under `process_limits` and `seccomp`. It calls
  the requested function, such as `attentively_grader.examination.student_process:serve`, with its
  socket.

A worker cannot affect the zygote, so every worker starts in the same clean state. A zygote can also
fork another zygote, which has the same modules, and its own socket.
"""

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import signal
import socket
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from attentively_grader.jobs import Limits
from attentively_grader.sandbox import namespaces, seccomp
from attentively_grader.sandbox import process_limits as kernel_limits
from attentively_grader.sandbox.process_channel import GoneError, receive, send

USER = 1000
HOME = "/home/student"
WORK = f"{HOME}/work"
SHOWN_COMMAND = "python -m ipykernel_launcher -f kernel.json"
PRIVATE = (HOME, "/dev/shm", "/tmp")
"""Folders that each job has on a private disk."""
MIB = 1 << 20

Shell = Literal["nested", "single", "none"]
"""Isolation of a job: its own namespaces, those of a sandbox that is used once, or none."""


def main(control: socket.socket) -> None:
    """Import the modules in the first message, report, and fork until the socket closes."""
    order, _ = receive(control)
    preload(order["preload"])
    threads = _threads()
    hide_command_line(SHOWN_COMMAND)
    sys.argv = SHOWN_COMMAND.split()[2:]
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended keepers leave no zombies
    private = [Path(place) for place in PRIVATE]
    kept = [path for path in order["folders"] if any(map(Path(path).is_relative_to, private))]
    send(control, {"ready": True})
    while True:
        try:
            request, files = receive(control)
        except GoneError:
            return
        if "preload" in request or "prepare" in request:
            preload(request.get("preload", []))
            if "prepare" in request:
                with contextlib.suppress(Exception):  # the tests will show the error
                    pkgutil.resolve_name(request["prepare"])(*request["arguments"])
            gc.freeze()
            if (
                _threads() > threads
            ):  # a process with threads cannot fork, so a new zygote replaces it
                return
            if "prepare" in request:
                send(control, {"ready": True})
            continue
        if "fork" in request:
            if os.fork() == 0:
                control.close()
                control = socket.socket(fileno=files[0])
                send(control, {"ready": True}, [os.pidfd_open(os.getpid())])
            else:
                os.close(files[0])
            continue
        begin(request, files, order["shell"], kept, control)
        for file in files:
            os.close(file)


def preload(names: list[str]) -> None:
    """Import modules, or from a module ``module:name``; errors appear in the notebook later."""
    for each in names:
        module, _, name = each.partition(":")
        with contextlib.suppress(Exception):
            __import__(module, fromlist=[name] * bool(name))
    if "torch" in sys.modules:
        # After a parallel operation a process cannot fork: the child would wait for threads
        # that it does not have.
        sys.modules["torch"].set_num_threads(1)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def hide_command_line(text: str) -> None:
    """Replace the command line in /proc/self/cmdline, for the zygote and all its children."""
    import ctypes

    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: see proc(5)
    if not 0 < start < end:
        return  # the kernel hides the addresses
    words = "\0".join(text.split()).encode()[: end - start - 1]
    ctypes.memmove(start, words.ljust(end - start, b"\0"), end - start)


def begin(
    request: dict[str, Any],
    files: list[int],
    shell: Shell,
    kept: list[str],
    control: socket.socket,
) -> None:
    """Fork the keeper of one job; it reports on the first of the `files`."""
    try:
        if shell != "nested":
            if os.fork() == 0:
                control.close()
                keep(request, files, shell, kept)
            return
        # The next child is process 1 of a new namespace; then this process returns to its own.
        own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            namespaces.unshare(namespaces.NEW_PIDS)
            if os.fork() == 0:
                control.close()
                keep(request, files, shell, kept)
        finally:
            namespaces.enter(own, namespaces.NEW_PIDS)
            os.close(own)
    except OSError as error:  # no memory or too many processes; a later attempt may succeed
        with socket.socket(fileno=os.dup(files[0])) as report:
            send(report, {"failed": f"{type(error).__name__}: {error}"})


def keep(request: dict[str, Any], files: list[int], shell: Shell, kept: list[str]) -> NoReturn:
    """As the keeper: isolate this process, fork the worker, and report how it ended."""
    report = socket.socket(fileno=files[0])
    try:
        gc.disable()
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        limits = Limits(**request["limits"])
        proc = -1
        if shell == "nested":
            proc = shut_in(limits, kept)
        else:
            namespaces.end_with_parent(signal.SIGKILL)
            namespaces.adopt_orphans()
        send(report, {"started": True}, [os.pidfd_open(os.getpid())])
        receive(report)  # the worker pool has put this process into its control group
        worker = os.fork()
        if worker == 0:
            work(request, files[1:], report, limits, shell, proc)
        if shell == "nested":
            os.close(proc)
            namespaces.drop_capabilities()
        for file in files[1:]:
            os.close(file)
        send(report, {"status": outlive(worker)})
        if shell != "nested":
            # No namespace ends with this process: remain the parent of all others until killed.
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitpid(-1, 0)
            report.recv(1)
    except Exception as error:
        send(report, {"failed": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def outlive(worker: int) -> int:
    """Reap processes until the worker ends; return its wait status."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == worker:
            return status


def shut_in(limits: Limits, kept: Sequence[str] = ()) -> int:
    """Create new namespaces for this process, and a private disk of limited size.

    The folders `kept` stay visible, although they are inside the folders that the private disk
    replaces. /proc is read-only, so that a job cannot tell the kernel to end other processes before
    it; the descriptor of a writable /proc is returned, for the worker to set itself up.
    """
    namespaces.unshare(
        namespaces.NEW_MOUNTS
        | namespaces.NEW_IPC
        | namespaces.NEW_NETWORK
        | namespaces.NEW_HOSTNAME
        | namespaces.NEW_CGROUP
    )
    namespaces.loopback_up()
    namespaces.mount("", "/", flags=namespaces.PRIVATE | namespaces.RECURSIVE)
    safe = namespaces.NO_SETUID | namespaces.NO_DEVICES
    namespaces.mount("proc", "/proc", "proc", safe | namespaces.NO_EXECUTION)
    files = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in kept}
    options = f"size={limits.file_mib * MIB},nr_inodes=65536,mode=0755"
    namespaces.mount("tmpfs", "/tmp", "tmpfs", safe, options)
    for number, target in enumerate(PRIVATE):  # /tmp last, because it hides the other folders
        os.mkdir(f"/tmp/{number}")
        os.chmod(f"/tmp/{number}", 0o777)
        namespaces.mount(f"/tmp/{number}", target, flags=namespaces.BIND)
    for path, file in files.items():
        os.makedirs(path)
        namespaces.mount(f"/proc/self/fd/{file}", path, flags=namespaces.BIND)
        os.close(file)
    limit_connections()
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    namespaces.mount("/proc", "/proc", flags=namespaces.BIND)
    closed = namespaces.READ_ONLY | safe | namespaces.NO_EXECUTION
    namespaces.mount("", "/proc", flags=namespaces.REMOUNT | namespaces.BIND | closed)
    return proc


def limit_connections() -> None:
    """Keep the buffers of TCP connections in this network namespace from growing."""
    for kind in "rw":
        most = Path(f"/proc/sys/net/core/{kind}mem_default").read_text().strip()
        Path(f"/proc/sys/net/ipv4/tcp_{kind}mem").write_text(f"4096 65536 {most}")


def work(
    request: dict[str, Any],
    files: list[int],
    report: socket.socket,
    limits: Limits,
    shell: Shell,
    proc: int,
) -> NoReturn:
    """As the worker: drop all privileges, then call the function named in the request."""
    try:
        try:
            give_up_rights(request, limits, shell, proc)
            keep_only([report.fileno(), *files])
            unpack(files.pop())
        except Exception as error:
            send(report, {"failed": f"{type(error).__name__}: {error}"})
            os._exit(1)
        report.close()
        if request["local"]:
            sys.path.insert(
                0, ""
            )  # for modules next to the notebook; never in the examiner process
        module, _, function = request["call"].partition(":")
        sockets = [socket.socket(fileno=file) for file in files]
        getattr(importlib.import_module(module), function)(*sockets)
    except BaseException:
        os._exit(1)
    finally:
        os._exit(0)


def give_up_rights(request: dict[str, Any], limits: Limits, shell: Shell, proc: int) -> None:
    """Become an unprivileged user under the limits, in an empty folder."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(quiet, standard)
    os.setsid()
    if shell == "nested":
        if request["user"] is not None:
            namespaces.become(request["user"])
        try:
            namespaces.own_user_namespace(USER, proc)
        except OSError:
            if request["user"] is None:  # otherwise the user id alone separates it
                raise
        namespaces.drop_capabilities()
    work = WORK if shell != "none" else tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    os.chdir(work)
    # Outside a user namespace, the kernel would count the grader's own processes too.
    kernel_limits.apply(limits, processes=shell != "none")
    seccomp.install()


def keep_only(files: list[int]) -> None:
    """Close all file descriptors except the standard ones and `files`."""
    wanted = {0, 1, 2, *files}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with contextlib.suppress(
                OSError
            ):  # the descriptor of the listing itself is already closed
                os.close(int(name))


def unpack(archive: int) -> None:
    """Write the files next to the notebook into the working directory."""
    # At a given offset: the student's process and the examiner's share the position in this file.
    content = os.pread(archive, os.fstat(archive).st_size, 0)
    os.close(archive)
    if content:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for member in tar:
                target, stored = Path(member.name), tar.extractfile(member)
                if stored is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(stored.read())
