"""Limits of one process, enforced by the kernel: memory, time, processes, files.

They hold for each process by itself. What all the processes of a job use together is for
`watchdog` to see.
"""

import math
import os

from attentively_grader.jobs import Limits

MIB = 1 << 20
MOST_OPEN_FILES = 512


def apply(limits: Limits, *, processes: bool = True) -> None:
    """Bind this process and those that it starts, for good.

    The kernel counts the processes of a user; with `processes` false it does not.
    """
    import resource  # here and below: other systems than Linux read this module too

    memory = address_space() + limits.memory_mib * MIB
    seconds = math.ceil(limits.seconds)
    for kind, soft, hard in (
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CPU, seconds, seconds + 2),
        (resource.RLIMIT_FSIZE, limits.file_mib * MIB, limits.file_mib * MIB),
        (resource.RLIMIT_NOFILE, MOST_OPEN_FILES, MOST_OPEN_FILES),
        (resource.RLIMIT_CORE, 0, 0),
        *[(resource.RLIMIT_NPROC, limits.processes, limits.processes)] * processes,
    ):
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def address_space() -> int:
    """Return the bytes of address space that this process has now, used or not.

    torch reserves much and uses little of it, so that the limit counts from here.
    """
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
