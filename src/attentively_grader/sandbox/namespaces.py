"""Linux system calls that isolate a process, called through the C library.

Python has `os.unshare` only since 3.12, and neither `mount` nor `prctl` nor `capset`.
"""

import ctypes
import os
import socket
import struct
from functools import cache
from typing import Any

NEW_MOUNTS = 0x00020000
NEW_CGROUP = 0x02000000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

READ_ONLY = 1
NO_SETUID = 2
NO_DEVICES = 4
NO_EXECUTION = 8
REMOUNT = 32
BIND = 4096
RECURSIVE = 16384
PRIVATE = 1 << 18

_SET_PARENT_DEATH_SIGNAL = 1
_SET_DUMPABLE = 4
_SET_SECCOMP = 22
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVILEGES = 38
_CAPABILITY_VERSION_3 = 0x20080522


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Create new namespaces for this process (NEW_PIDS: for its next children)."""
    _check(_libc().unshare(flags), "unshare")


def enter(namespace: int, kind: int) -> None:
    """Enter the namespace of the open file `namespace`."""
    _check(_libc().setns(namespace, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount; see mount(2)."""
    result = _libc().mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _check(result, f"mount {kind or source} on {target}")


def _prctl(option: int, *arguments: Any) -> None:
    numbers = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc().prctl(option, *numbers), f"prctl {option}")


def gain_nothing() -> None:
    """Forbid this process and its children to gain privileges (no_new_privs)."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)


def filter_calls(address: int) -> None:
    """Install the seccomp program described at `address`."""
    _prctl(_SET_SECCOMP, 2, address)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def end_with_parent(signal: int) -> None:
    """Have the kernel send `signal` when the parent ends."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal)


def may_be_inspected(yes: bool) -> None:
    """Set whether other processes of this user may inspect this one."""
    _prctl(_SET_DUMPABLE, int(yes))


def drop_capabilities() -> None:
    """Drop all capabilities, also those in this process's own namespaces."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc().capset(header, bytes(24)), "capset")


def become(user: int) -> None:
    """Become the unprivileged user and group `user`, irreversibly."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    may_be_inspected(
        True
    )  # otherwise /proc/self belongs to root, and the next step cannot write there


def own_user_namespace(user: int, proc: int) -> None:
    """Enter a user namespace in which this process is `user`.

    The kernel then counts its processes separately from others of the same real user, and it has
    no privileges in its former namespaces. `proc` is a writable /proc.
    """
    uid, gid = os.geteuid(), os.getegid()
    unshare(NEW_USER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {uid} 1"),
        ("gid_map", f"{user} {gid} 1"),
    ):
        file = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)


def loopback_up() -> None:
    """Enable 127.0.0.1 in a new network namespace, which has no other interface."""
    import fcntl  # imported here, because systems other than Unix lack it

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up = struct.pack("16sH22x", b"lo", 1)
        fcntl.ioctl(control, 0x8914, up)  # SIOCSIFFLAGS, IFF_UP
