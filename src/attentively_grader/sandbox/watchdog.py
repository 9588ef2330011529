"""Watch all processes of one job together, and report the limit that they exceed.

The kernel's process limits apply to each process separately: 64 processes of one gigabyte each
exceed none of them. Therefore the process tree is read from /proc several times per second. A
process that leaves its session or its parent stays in the tree, because the job's keeper adopts it.

Memory is what the processes own, what the files on the private disk occupy, and for each socket of
the job as much as its buffers can hold. No other memory can be shared (see `seccomp`).
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from attentively_grader.jobs import End, Limits

MIB = 1 << 20
HALF_A_SECOND = 0.5
MOST_CORES = 1.5
"""A job that uses more cores slows down the others."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


Passed = tuple[End, str]
"""The exceeded limit, and a text that completes "your code stopped here: ..."."""


def too_much(limits: Limits) -> Passed:
    """Return the message for too much memory."""
    return "memory", f"it used more than {limits.memory_mib} MiB of memory"


def too_many(limits: Limits) -> Passed:
    """Return the message for too many processes."""
    return "processes", f"it reached the limit of {limits.processes} processes and threads"


class Watchdog:
    """Checks the process tree below a keeper."""

    def __init__(self, root: int, limits: Limits, start: float | None = None) -> None:
        self.root = root
        self.limits = limits
        self.start = time.monotonic() if start is None else start
        self.peak_mib = 0
        self.seen_at, self.cpu = time.monotonic(), 0.0
        self.held = False

    def look(self) -> Passed | None:
        """Return the limit that is exceeded now, or None."""
        limits = self.limits
        if time.monotonic() - self.start > limits.seconds:
            return "timeout", f"it ran longer than {limits.seconds:g} seconds"
        family = [process for process in tree(self.root) if process != self.root]
        cpu = sum(map(cpu_seconds, family))
        self._hold(family, cpu)
        common = disk(self.root) + sockets(self.root) * _SOCKET_BYTES
        used = sum(map(resident, family)) + common
        if used > limits.memory_mib * MIB and len(family) > 1:
            used = sum(map(proportional, family)) + common  # memory shared by forking counts once
        self.peak_mib = max(self.peak_mib, used // MIB)
        if used > limits.memory_mib * MIB:
            return too_much(limits)
        if sum(map(threads, family)) >= limits.processes:  # the kernel refuses any more
            return too_many(limits)
        if cpu > limits.seconds:
            return "timeout", f"it used more than {limits.seconds:g} seconds of CPU time"
        return None

    def _hold(self, family: list[int], cpu: float) -> None:
        """Restrict a job that uses more than one core to one core."""
        now = time.monotonic()
        if now - self.seen_at >= HALF_A_SECOND:
            if cpu - self.cpu > MOST_CORES * (now - self.seen_at):
                self.held = True
            self.seen_at, self.cpu = now, cpu
        cores = sorted(os.sched_getaffinity(0))
        if not self.held or len(cores) == 1:
            return
        for process in family:
            with contextlib.suppress(OSError):  # it has ended
                for thread in os.listdir(f"/proc/{process}/task"):
                    os.sched_setaffinity(int(thread), {cores[self.root % len(cores)]})


def tree(root: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield root
    try:
        for thread in os.listdir(f"/proc/{root}/task"):
            for child in Path(f"/proc/{root}/task/{thread}/children").read_text().split():
                yield from tree(int(child))
    except OSError:
        return  # it has ended


def _status(process: int, *names: str) -> int:
    """Return the sum of these fields of /proc/PID/status; 0 for a process that has ended."""
    total = 0
    try:
        with open(f"/proc/{process}/status") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in names:
                    total += int(value.split()[0])
    except OSError:
        pass
    return total


def resident(process: int) -> int:
    """Return the bytes that a process owns: resident or swapped, and the tables for them."""
    return _status(process, "RssAnon", *_OWN) << 10


def threads(process: int) -> int:
    """Return the number of threads of a process."""
    return _status(process, "Threads")


def proportional(process: int) -> int:
    """Return the same, but of each page that several processes own only its share."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss_Anon:"):
                    return (int(line.split()[1]) + _status(process, *_OWN)) << 10
    except OSError:
        pass
    return 0


def disk(root: int) -> int:
    """Return the bytes of all files on the private disk of a job, also of deleted open files.

    A folder that this process has too is not private.
    """
    used = {}
    for folder in ("/tmp", "/dev/shm", "/home/student"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            inside = f"/proc/{root}/root{folder}"
            device = os.stat(inside).st_dev
            if not os.path.exists(folder) or device != os.stat(folder).st_dev:
                sizes = os.statvfs(inside)
                used[device] = (sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize
    return sum(used.values())


def sockets(root: int) -> int:
    """Return the number of sockets of a job, also of those that no process has open.

    Without a network namespace of its own, they cannot be distinguished from others.
    """
    with contextlib.suppress(OSError, IndexError, ValueError):
        if os.stat(f"/proc/{root}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino:
            first = Path(f"/proc/{root}/net/sockstat").read_text().split(maxsplit=3)
            return int(first[2])  # sockets: used N
    return 0


def _socket_bytes() -> int:
    """Return how much the two buffers of a socket hold."""
    sizes = (Path(f"/proc/sys/net/core/{kind}mem_default") for kind in "rw")
    try:
        return sum(int(size.read_text()) for size in sizes)
    except OSError:
        return 2 * 212992  # Linux's default


_SOCKET_BYTES = _socket_bytes()
_OWN = ("VmSwap", "HugetlbPages", "VmPTE")
"""Fields of /proc/PID/status, besides RssAnon."""


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and of its ended children, in seconds."""
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
