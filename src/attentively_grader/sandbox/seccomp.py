"""A seccomp filter for system calls that no notebook needs and that could weaken the sandbox.

Namespaces already isolate the student process. The filter also forbids what they leave possible:
new user namespaces, `ptrace`, the key ring, io_uring, virtual machine sockets (which a network
namespace does not cover), memory that belongs to no process and is therefore not counted, and
leaving the CPU core to which `watchdog` restricts a job.
"""

import ctypes
import errno
import platform
import struct

from attentively_grader.sandbox import namespaces

# fmt: off
_X86_64 = {
    "add_key": 248, "bpf": 321, "clone": 56, "clone3": 435, "delete_module": 176,
    "finit_module": 313, "fsconfig": 431, "fsmount": 432, "fsopen": 430, "init_module": 175,
    "io_uring_setup": 425, "kcmp": 312, "kexec_load": 246, "keyctl": 250, "memfd_create": 319,
    "memfd_secret": 447, "mount": 165, "mount_setattr": 442, "move_mount": 429,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "open_tree": 428, "perf_event_open": 298,
    "pidfd_getfd": 438, "pivot_root": 155, "process_vm_readv": 310, "process_vm_writev": 311,
    "ptrace": 101, "reboot": 169, "request_key": 249, "sched_setaffinity": 203, "setns": 308,
    "shmget": 29, "socket": 41, "swapon": 167, "umount2": 166, "unshare": 272, "userfaultfd": 323,
}
_AARCH64 = {
    "add_key": 217, "bpf": 280, "clone": 220, "clone3": 435, "delete_module": 106,
    "finit_module": 273, "fsconfig": 431, "fsmount": 432, "fsopen": 430, "init_module": 105,
    "io_uring_setup": 425, "kcmp": 272, "kexec_load": 104, "keyctl": 219, "memfd_create": 279,
    "memfd_secret": 447, "mount": 40, "mount_setattr": 442, "move_mount": 429,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "open_tree": 428, "perf_event_open": 241,
    "pidfd_getfd": 438, "pivot_root": 41, "process_vm_readv": 270, "process_vm_writev": 271,
    "ptrace": 117, "reboot": 142, "request_key": 218, "sched_setaffinity": 122, "setns": 268,
    "shmget": 194, "socket": 198, "swapon": 224, "umount2": 39, "unshare": 97, "userfaultfd": 282,
}
# fmt: on
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}

_AS_IF_MISSING = {"clone3", "memfd_create", "memfd_secret", "shmget"}
"""Reported as unknown to the kernel; libraries then use alternatives."""
_FAMILIES = (1, 2, 10, 16)
"""The allowed socket families: Unix, IPv4, IPv6 and netlink (to list interfaces)."""
_NEW_NAMESPACES = 0x7E020080

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def program(machine: str) -> bytes:
    """Return the filter as a BPF program, for "x86_64" or "aarch64"."""
    architecture, numbers = _MACHINES[machine]
    refuse = _instruction(_RETURN, _REFUSE | errno.EPERM)
    steps = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_JUMP_IF_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_JUMP_IF_AT_LEAST, 0x40000000, 0, 1),  # the x32 system calls on x86-64
        refuse,
    ]
    for name, number in numbers.items():
        if name in ("clone", "socket"):
            continue
        error = errno.ENOSYS if name in _AS_IF_MISSING else errno.EPERM
        steps += [
            _instruction(_JUMP_IF_EQUAL, number, 0, 1),
            _instruction(_RETURN, _REFUSE | error),
        ]
    steps += [
        _instruction(_JUMP_IF_EQUAL, numbers["clone"], 0, 4),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_JUMP_IF_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        refuse,
        _instruction(_RETURN, _ALLOW),
        _instruction(_JUMP_IF_EQUAL, numbers["socket"], 0, len(_FAMILIES) + 2),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        *(
            _instruction(_JUMP_IF_EQUAL, family, len(_FAMILIES) - position, 0)
            for position, family in enumerate(_FAMILIES)
        ),
        refuse,
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def install() -> bool:
    """Install the filter in this process, irreversibly; return whether there is one here."""
    machine = platform.machine()
    if machine not in _MACHINES:
        return False
    code = program(machine)
    instructions = ctypes.create_string_buffer(code, len(code))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    whole = Filter(len(code) // 8, ctypes.addressof(instructions))
    namespaces.gain_nothing()
    namespaces.filter_calls(ctypes.addressof(whole))
    return True
