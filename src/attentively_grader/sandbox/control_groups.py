"""Control groups, version 2: limits that the kernel keeps for all processes of a job together.

The watchdog looks ten times a second; between two looks a job may pass its limit. Where the
kernel lets this user make control groups, each student's process begins in one of its own: the
kernel then refuses memory and processes beyond the limit at once, and ends all that belongs to
the job by one word. Where it does not, there are the watchdog and the limits of each process.

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
"""Processes of the grader in a job's group."""
SECONDS_TO_END = 10
_numbers = itertools.count()


@dataclass(frozen=True)
class Groups:
    """A place in the hierarchy where this process may make groups."""

    folder: Path

    def _next(self) -> Path:
        return self.folder / f"{PREFIX}{os.getpid()}-{next(_numbers)}"

    def holding(self, process: int, limits: Limits) -> "Group | None":
        """Put a process into a new group with these limits; None where the kernel refuses.

        A job's private disk is memory too, so that the group has room for it beside the job's
        own.
        """
        group = Group(self._next(), limits)
        try:
            group.folder.mkdir()
            for name, value in (
                ("memory.max", (limits.memory_mib + limits.file_mib) * MIB),
                ("memory.swap.max", 0),
                ("memory.oom.group", 1),  # no half of a job goes on
                ("pids.max", limits.processes + KEEPER),
                ("cgroup.procs", process),
            ):
                if (group.folder / name).exists():  # else this is not limited here
                    _write(group.folder / name, value)
        except OSError:
            group.end()
            return None
        return group

    def sweep(self) -> None:
        """Remove the empty groups of graders that are gone."""
        for folder in self.folder.glob(f"{PREFIX}*-*"):
            process = folder.name.removeprefix(PREFIX).partition("-")[0]
            if process.isdecimal() and not Path("/proc", process).exists():
                with contextlib.suppress(OSError):  # it holds processes: it is not what it seems
                    folder.rmdir()


@dataclass(frozen=True)
class Group:
    """The processes of one job."""

    folder: Path
    limits: Limits

    def passed(self) -> Passed | None:
        """Return the limit at which the kernel has refused something, or None."""
        if _events(self.folder / "memory.events").get("oom_kill"):
            return too_much(self.limits)
        if _events(self.folder / "pids.events").get("max"):
            return too_many(self.limits)
        return None

    def end(self) -> None:
        """Kill all that is in the group, and remove it."""
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
    """Return where this process may make groups: in its own or beside it; None if nowhere.

    Of the two the one with more limits. A group has a limit only where the one above it allows
    it, as systemd does for the services of each user.
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
    """Return how many limits a group in this folder would have, -1 where none can be made."""
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
    """Return the counters of a file of events; none where there is no such file."""
    try:
        pairs = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {name: int(number) for name, number in pairs}
