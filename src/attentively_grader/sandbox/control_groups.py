"""Control groups (version 2): limits that the kernel enforces for all processes of a job together.

The watchdog checks ten times per second, so a job may exceed a limit for a moment. If the kernel
lets this user create control groups, each student process starts in its own group: the kernel then
refuses memory and processes beyond the limit at once, and kills the whole job in one step.
Otherwise the watchdog and the limits of each process apply.

The files are described in the kernel's documentation, `Control Group v2
<https://docs.kernel.org/admin-guide/cgroup-v2.html>`_.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attentively_grader.jobs import Limits
from attentively_grader.sandbox.watchdog import MIB, Passed, too_many, too_much

PREFIX = "attentively-"
KEEPER = 1
"""Number of processes of the grader in the group of a job."""
SECONDS_TO_END = 10
_numbers = itertools.count()


@dataclass(frozen=True)
class Groups:
    """A folder of the hierarchy in which this process may create groups."""

    folder: Path

    def _next(self) -> Path:
        return self.folder / f"{PREFIX}{os.getpid()}-{next(_numbers)}"

    def holding(self, process: int, limits: Limits) -> "Group | None":
        """Put a process into a new group with these limits; return None if the kernel refuses.

        The private disk of a job is in memory too, and counts towards the limit.
        """
        group = Group(self._next(), limits)
        try:
            group.folder.mkdir()
            for name, value in (
                ("memory.max", limits.memory_mib * MIB),
                ("memory.swap.max", 0),
                ("memory.oom.group", 1),  # the kernel kills all processes of the job together
                ("pids.max", limits.processes + KEEPER),
                ("cgroup.procs", process),
            ):
                if (group.folder / name).exists():  # otherwise this limit is not available here
                    _write(group.folder / name, value)
        except OSError:
            group.end()
            return None
        return group

    def sweep(self) -> None:
        """Remove the empty groups of graders that have ended."""
        for folder in self.folder.glob(f"{PREFIX}*-*"):
            process = folder.name.removeprefix(PREFIX).partition("-")[0]
            if process.isdecimal() and not Path("/proc", process).exists():
                with contextlib.suppress(
                    OSError
                ):  # it contains processes, so it belongs to something else
                    folder.rmdir()


@dataclass(frozen=True)
class Group:
    """The processes of one job."""

    folder: Path
    limits: Limits

    def passed(self) -> Passed | None:
        """Return the limit that the kernel has enforced, or None."""
        if _events(self.folder / "memory.events").get("oom_kill"):
            return too_much(self.limits)
        if _events(self.folder / "pids.events").get("max"):
            return too_many(self.limits)
        return None

    def end(self) -> None:
        """Kill all processes in the group, and remove it."""
        latest = time.monotonic() + SECONDS_TO_END
        with contextlib.suppress(FileNotFoundError):
            while time.monotonic() < latest:
                with contextlib.suppress(OSError):
                    _write(self.folder / "cgroup.kill", 1)
                with contextlib.suppress(OSError):  # one of them has not ended yet
                    self.folder.rmdir()
                    return
                time.sleep(0.002)


def find(
    mounts: Path = Path("/proc/self/mounts"), own: Path = Path("/proc/self/cgroup")
) -> Groups | None:
    """Return where this process may create groups: in its own group or next to it, or None.

    If both are possible, the one with more limits is chosen. A group has a limit only if its parent
    enables it, as systemd does for the services of each user.
    """
    limits = {folder: _limits(folder) for folder in _candidates(mounts, own)}
    found = max(limits, key=lambda folder: limits[folder], default=None)
    if found is None or limits[found] < 0:
        return None
    groups = Groups(found)
    groups.sweep()
    return groups


def _candidates(mounts: Path, own: Path) -> Iterator[Path]:
    try:
        mounted = [line.split() for line in mounts.read_text().splitlines()]
        lines = own.read_text().splitlines()
    except OSError:
        return
    roots = [Path(fields[1]) for fields in mounted if fields[2] == "cgroup2"]
    places = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    for root, place in itertools.product(roots, places):
        yield root / place
        if place:
            yield (root / place).parent


def _limits(folder: Path) -> int:
    """Return the number of limits of a group in this folder; -1 if none can be created."""
    trial = Groups(folder)._next()
    try:
        if not os.access(folder / "cgroup.procs", os.W_OK):
            return -1
        trial.mkdir()
        try:
            if not (trial / "cgroup.kill").exists():  # the kernel is older than 5.14
                return -1
            return sum((trial / name).exists() for name in ("memory.max", "pids.max"))
        finally:
            trial.rmdir()
    except OSError:
        return -1


def _write(file: Path, value: int) -> None:
    file.write_text(str(value))


def _events(file: Path) -> dict[str, int]:
    """Return the counters in an events file; empty if there is no such file."""
    try:
        pairs = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {name: int(number) for name, number in pairs}
