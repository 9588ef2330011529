"""A seccomp filter for system calls that no notebook needs and that could weaken the sandbox.

Namespaces already isolate the student process. The filter also forbids what they leave possible:

- new user namespaces, `ptrace`, the key ring, io_uring, virtual machine sockets (which a network
  namespace does not cover), and leaving the CPU core to which `watchdog` restricts a job;
- memory that `watchdog` cannot see: shared memory without a file, System V and POSIX message
  queues and semaphores, larger buffers of sockets and pipes, file notifications, and pages that
  pipes and sockets keep after their owner has released them (`splice`);
- ending the worker by SIGKILL from inside, so that this signal always means that the worker was
  killed from outside. The caller ends by SIGSYS instead.
"""

import ctypes
import errno
import os
import platform
import signal
import struct

from attentively_grader.sandbox import namespaces

# fmt: off
_X86_64 = {
    "add_key": 248, "bpf": 321, "clone": 56, "clone3": 435, "delete_module": 176,
    "fanotify_init": 300, "fcntl": 72, "finit_module": 313, "fsconfig": 431, "fsmount": 432,
    "fsopen": 430, "init_module": 175, "inotify_init": 253, "inotify_init1": 294,
    "io_uring_setup": 425, "kcmp": 312, "kexec_load": 246, "keyctl": 250, "kill": 62,
    "memfd_create": 319, "memfd_secret": 447, "mmap": 9, "mount": 165, "mount_setattr": 442,
    "move_mount": 429, "mq_open": 240, "msgget": 68, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "open_tree": 428, "perf_event_open": 298, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "pivot_root": 155, "prlimit64": 302, "process_vm_readv": 310,
    "process_vm_writev": 311, "ptrace": 101, "reboot": 169, "request_key": 249,
    "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "sched_setaffinity": 203, "semget": 64,
    "sendfile": 40, "setns": 308, "setrlimit": 160, "setsockopt": 54, "shmget": 29,
    "socket": 41, "splice": 275, "swapon": 167, "tee": 276, "tgkill": 234, "timer_create": 222,
    "tkill": 200, "umount2": 166, "unshare": 272, "userfaultfd": 323, "vmsplice": 278,
}
_AARCH64 = {
    "add_key": 217, "bpf": 280, "clone": 220, "clone3": 435, "delete_module": 106,
    "fanotify_init": 262, "fcntl": 25, "finit_module": 273, "fsconfig": 431, "fsmount": 432,
    "fsopen": 430, "init_module": 105, "inotify_init1": 26, "io_uring_setup": 425, "kcmp": 272,
    "kexec_load": 104, "keyctl": 219, "kill": 129, "memfd_create": 279, "memfd_secret": 447,
    "mmap": 222, "mount": 40, "mount_setattr": 442, "move_mount": 429, "mq_open": 180,
    "msgget": 186, "name_to_handle_at": 264, "open_by_handle_at": 265, "open_tree": 428,
    "perf_event_open": 241, "pidfd_getfd": 438, "pidfd_send_signal": 424, "pivot_root": 41,
    "prlimit64": 261, "process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117,
    "reboot": 142, "request_key": 218, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
    "sched_setaffinity": 122, "semget": 190, "sendfile": 71, "setns": 268, "setrlimit": 164,
    "setsockopt": 208, "shmget": 194, "socket": 198, "splice": 76, "swapon": 224, "tee": 77,
    "tgkill": 131, "timer_create": 107, "tkill": 130, "umount2": 39, "unshare": 97,
    "userfaultfd": 282, "vmsplice": 75,
}
# fmt: on
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}

_AS_IF_MISSING = {
    *("clone3", "fanotify_init", "inotify_init", "inotify_init1", "memfd_create", "memfd_secret"),
    *("mq_open", "msgget", "semget", "sendfile", "shmget", "splice", "tee", "timer_create"),
    "vmsplice",
}
"""Reported as unknown to the kernel; libraries then use alternatives."""
_FAMILIES = (1, 2, 10, 16)
"""The allowed socket families: Unix, IPv4, IPv6 and netlink (to list interfaces)."""
_NEW_NAMESPACES = 0x7E020080
_END_SIGNALS_LIKE_KILL = 0x08
"""A bit of the signal that the end of a child sends; set in SIGKILL, not in SIGCHLD."""
_SHARED, _ANONYMOUS = 0x01, 0x20
_LEVEL_SOCKET, _SEND_BUFFER, _RECEIVE_BUFFER, _ZERO_COPY = 1, 7, 8, 60
_SET_SIGNAL, _SET_PIPE_SIZE = 10, 1031
_LIMIT_OF_CPU = 0

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_IGNORE = _REFUSE  # error number 0: the call does nothing and reports success

Condition = tuple[int, int, int, bool]
"""A word of the call's description, the comparison, the value, and the required result."""
Rule = tuple[str, int, list[Condition]]
"""A call, the answer, and the conditions that must all hold; otherwise the next rule applies."""


def _argument(number: int, half: int = 0) -> int:
    return 16 + 8 * number + 4 * half


def _is(argument: int, value: int) -> Condition:
    return _argument(argument), _EQUAL, value & 0xFFFFFFFF, True


def _has(argument: int, bits: int) -> Condition:
    return _argument(argument), _ANY_BIT, bits, True


def rules(worker: int) -> list[Rule]:
    """Return the rules for calls that are refused only with some arguments.

    `worker` is the process id of the worker, which no process of the job may end by SIGKILL.
    """
    refuse, killing = _REFUSE | errno.EPERM, int(signal.SIGKILL)
    found: list[Rule] = [
        ("clone", refuse, [_has(0, _NEW_NAMESPACES | _END_SIGNALS_LIKE_KILL)]),
        ("socket", refuse, [(_argument(0), _EQUAL, family, False) for family in _FAMILIES]),
        ("mmap", refuse, [_has(3, _SHARED), _has(3, _ANONYMOUS)]),
        ("setsockopt", _IGNORE, [_is(1, _LEVEL_SOCKET), _is(2, _SEND_BUFFER)]),
        ("setsockopt", _IGNORE, [_is(1, _LEVEL_SOCKET), _is(2, _RECEIVE_BUFFER)]),
        ("setsockopt", refuse, [_is(1, _LEVEL_SOCKET), _is(2, _ZERO_COPY)]),
        ("fcntl", refuse, [_is(1, _SET_PIPE_SIZE)]),
        ("fcntl", refuse, [_is(1, _SET_SIGNAL), _is(2, killing)]),
        # The kernel sends SIGKILL at the limit of CPU time, so only the grader sets this limit.
        ("setrlimit", refuse, [_is(0, _LIMIT_OF_CPU)]),
        ("pidfd_send_signal", refuse, [_is(1, killing)]),
        ("tkill", _KILL, [_is(1, killing)]),
        ("tgkill", _KILL, [_is(2, killing)]),
        ("rt_tgsigqueueinfo", _KILL, [_is(2, killing)]),
    ]
    for half in (0, 1):  # of the address of the new limit, which is 0 for a question
        new = (_argument(2, half), _EQUAL, 0, False)
        found.append(("prlimit64", refuse, [_is(1, _LIMIT_OF_CPU), new]))
    for target in (worker, -worker, 0, -1):  # the worker, its group, the caller's group, all
        for call in ("kill", "rt_sigqueueinfo"):
            found.append((call, _KILL, [_is(0, target), _is(1, killing)]))
    return found


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _compiled(number: int, answer: int, conditions: list[Condition]) -> list[bytes]:
    """Return a rule as instructions; they continue after the last one if it does not apply."""
    steps = []
    tests: list[Condition] = [(_NUMBER, _EQUAL, number, True), *conditions]
    for position, (word, code, value, required) in enumerate(tests):
        rest = 2 * (len(tests) - position - 1) + 1
        jumps = (0, rest) if required else (rest, 0)
        steps += [_instruction(_LOAD, word), _instruction(code, value, *jumps)]
    return [*steps, _instruction(_RETURN, answer)]


def program(machine: str, worker: int) -> bytes:
    """Return the filter as a BPF program, for "x86_64" or "aarch64"."""
    architecture, numbers = _MACHINES[machine]
    steps = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, 0x40000000, 0, 1),  # the x32 system calls on x86-64
        _instruction(_RETURN, _REFUSE | errno.EPERM),
    ]
    conditional = rules(worker)
    for name in numbers.keys() - {call for call, _, _ in conditional}:
        error = errno.ENOSYS if name in _AS_IF_MISSING else errno.EPERM
        steps += _compiled(numbers[name], _REFUSE | error, [])
    for name, answer, conditions in conditional:
        steps += _compiled(numbers[name], answer, conditions)
    return b"".join([*steps, _instruction(_RETURN, _ALLOW)])


def install() -> bool:
    """Install the filter in this process, irreversibly; return whether there is one here."""
    machine = platform.machine()
    if machine not in _MACHINES:
        return False
    code = program(machine, os.getpid())
    instructions = ctypes.create_string_buffer(code, len(code))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    whole = Filter(len(code) // 8, ctypes.addressof(instructions))
    namespaces.gain_nothing()
    namespaces.filter_calls(ctypes.addressof(whole))
    return True
