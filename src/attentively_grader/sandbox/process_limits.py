"""Limits of one process, enforced by the kernel: memory, time, processes, files.

They apply to each process separately. `watchdog` checks what all processes of a job use together.
"""

import math
import os

from attentively_grader.jobs import Limits

MIB = 1 << 20
MOST_OPEN_FILES = 512


def apply(limits: Limits, *, processes: bool = True) -> None:
    """Limit this process and its children, irreversibly.

    The kernel limits the number of processes per user; with ``processes=False``, this limit is not
    set.
    """
    import resource  # imported here, because other systems import this module too

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
    """Return the size of this process's address space in bytes.

    torch reserves much address space and uses little of it, so the limit is added to this size.
    """
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
