"""The sandbox of a zygote: bubblewrap with separate namespaces for processes, network and files.

Inside, the system, Python with its packages and the folders that notebooks import from are visible
read-only. The course, the gradebook, other submissions and the network are not accessible, and the
environment does not reveal that a notebook is being graded.
"""

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attentively_grader.sandbox.zygote import HOME, WORK, Shell

SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/sys/devices/system/cpu",
)
REMEDY = (
    "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap) "
    "and allow user namespaces, or grade as a user for whom `bwrap --ro-bind / / true` works. "
    "With --unsafe-no-sandbox, students' code runs with your own rights."
)


class NoSandboxError(Exception):
    """No sandbox is available for students' code; the message says why and what to do."""


@dataclass(frozen=True)
class Sandbox:
    """The kind of a sandbox and the folders visible inside."""

    walls: bool
    """Whether there is any sandbox."""
    shell: Shell
    """How one job is isolated inside the sandbox."""
    folders: tuple[Path, ...] = ()
    """Folders that are mounted read-only at the same paths."""

    def command(self, program: Sequence[str]) -> list[str]:
        """Return the command line that runs `program` inside the sandbox."""
        if not self.walls:
            return list(program)
        return [*bubblewrap(self.shell, self.folders), *program]

    def for_examiners(self) -> "Sandbox":
        """Return the sandbox of the examiners, which may serve several jobs in turn."""
        return self if self.shell == "nested" else replace(self, shell="none")


NO_SANDBOX = Sandbox(walls=False, shell="none")
"""No sandbox: students' code runs with the rights of the user who grades."""


def find_sandbox(folders: Sequence[Path] = ()) -> Sandbox:
    """Return the best sandbox that works here; raise `NoSandboxError` if none does."""
    if sys.platform != "linux":
        raise NoSandboxError(
            f"grading needs Linux because of its sandbox, but this system is {sys.platform}. Grade "
            "on a Linux machine or in a Linux virtual machine."
        )
    if shutil.which("bwrap") is None:
        raise NoSandboxError(f"bubblewrap (the command bwrap) is not installed. {REMEDY}")
    nested = complaint("nested")
    if nested is None:
        return Sandbox(True, "nested", tuple(folders))
    single = complaint("single")
    if single is None:
        return Sandbox(True, "single", tuple(folders))
    raise NoSandboxError(f"bubblewrap is installed but does not work here: {single}. {REMEDY}")


def complaint(shell: Shell) -> str | None:
    """Try a sandbox; return None if it works, else the error message."""
    test = "import os"
    if shell == "nested":
        own = "n.own_user_namespace(z.USER, proc)" if os.geteuid() != 0 else "True"
        test = (
            "import os; from attentively_grader.sandbox import namespaces as n, zygote as z; "
            "from attentively_grader.jobs import Limits; "
            "n.unshare(n.NEW_PIDS); child = os.fork(); "
            f"proc = child or z.shut_in(Limits()); child or {own}; "
            "child and os._exit(os.waitpid(child, 0)[1] != 0)"
        )
    package = Path(__file__).parents[2]
    start = f"import sys; sys.path.insert(0, {str(package)!r}); "
    command = [*bubblewrap(shell, ()), sys.executable, "-I", "-c", start + test]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"it ended with exit status {done.returncode}"])[
        -1
    ]


def bubblewrap(shell: Shell, folders: Sequence[Path]) -> list[str]:
    """Return bubblewrap's command line without the program."""
    command = ["bwrap", "--die-with-parent", "--new-session"]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--hostname", "localhost"]
    if os.geteuid() != 0 or shell != "nested":
        command += ["--unshare-user"]
        user = "0" if shell == "nested" else "1000"
        command += ["--uid", user, "--gid", user]
    if shell == "nested":
        command += ["--cap-add", "ALL"]  # in its own namespaces, to create those of each job
    command += ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for setting in SETTINGS:
        command += ["--ro-bind-try", setting, setting]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", HOME]
    # Both read as zeros, but a shared mapping of /dev/zero is memory that belongs to no file.
    command += ["--dev-bind", "/dev/full", "/dev/zero"]
    for folder in dict.fromkeys([*python_folders(), *folders]):
        for parent in reversed(folder.parents[:-1]):
            command += ["--dir", str(parent)]  # bubblewrap itself would create them for root only
        command += ["--ro-bind", str(folder), str(folder)]
    command += ["--dir", WORK, "--remount-ro", "/dev", "--remount-ro", "/"]
    if shell == "single":  # otherwise each job has its own /proc, see `zygote.shut_in`
        command += ["--remount-ro", "/proc"]
    command += ["--chdir", WORK, "--clearenv"]
    for name, value in environment().items():
        command += ["--setenv", name, value]
    return command


def python_folders() -> list[Path]:
    """Return the folders of this Python, of its packages and of this package."""
    places = [sys.base_prefix, sys.prefix, *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        places.append(site.getusersitepackages())
    places.append(str(Path(__file__).parents[2]))
    folders: list[Path] = []
    for place in map(Path, places):
        covered = [Path("/usr"), *folders]
        if place.is_dir() and not any(place.is_relative_to(other) for other in covered):
            folders.append(place)
    return folders


def environment() -> dict[str, str]:
    """Return the environment variables inside: those of a notebook, none of this process."""
    return {
        "CLICOLOR": "1",
        "GIT_PAGER": "cat",
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "LOGNAME": "student",
        "MALLOC_ARENA_MAX": "2",  # otherwise every thread reserves 64 MiB of address space
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PAGER": "cat",
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "TERM": "xterm-color",
        "USER": "student",
    }
