"""Control groups: the machine's own where it lets them be made, else a kernel of files."""

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from grader.stub_pool import job, needs_sandbox, pool, texts, wait_for_the_end

from attentively_grader.jobs import Limits
from attentively_grader.sandbox import control_groups
from attentively_grader.sandbox.bubblewrap import NO_SANDBOX
from attentively_grader.sandbox.control_groups import Groups

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="groups are Linux's")

LIMITS = Limits(memory_mib=300, file_mib=20, processes=7)
FILES = {
    "cgroup.procs": "",
    "cgroup.kill": "",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.oom.group": "0",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n",
    "pids.max": "max",
    "pids.events": "max 0\n",
}


class Kernel:
    """Folders that behave as the kernel's: a new one has files, the last word kills."""

    def __init__(self, root, monkeypatch, missing=()):
        self.root = root
        self.files = {name: text for name, text in FILES.items() if name not in missing}
        root.mkdir()
        (root / "cgroup.procs").write_text("")
        mkdir, rmdir, write = Path.mkdir, Path.rmdir, Path.write_text

        def make(path, *given, **named):
            mkdir(path, *given, **named)
            if path.is_relative_to(root):
                for name, text in self.files.items():
                    write(path / name, text)

        def remove(path):
            if not path.is_relative_to(root):
                return rmdir(path)
            if not path.exists():
                raise FileNotFoundError(path)
            if (path / "cgroup.procs").read_text():
                raise OSError(16, "busy")
            return shutil.rmtree(path)

        def say(path, text, *given, **named):
            if path.is_relative_to(root) and path.name == "cgroup.kill":
                for process in (path.parent / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(process), signal.SIGKILL)
                return write(path.parent / "cgroup.procs", "")
            return write(path, text, *given, **named)

        monkeypatch.setattr(Path, "mkdir", make)
        monkeypatch.setattr(Path, "rmdir", remove)
        monkeypatch.setattr(Path, "write_text", say)

    def seen(self, tmp_path, place):
        """Return the files that tell a process where it is."""
        mounts, own = tmp_path / "mounts", tmp_path / "own"
        mounts.write_text(f"proc /proc proc rw 0 0\nnone {self.root} cgroup2 rw 0 0\n")
        own.write_text(f"4:memory:/other\n0::/{place}\n")
        return {"mounts": mounts, "own": own}


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    return Kernel(tmp_path / "cgroup", monkeypatch)


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """The groups of this machine, or made-up ones where it has none for us."""
    return control_groups.find() or Groups(Kernel(tmp_path / "cgroup", monkeypatch).root)


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_the_processes_of_a_group_end_with_it(groups, sleeper):
    group = groups.holding(sleeper.pid, LIMITS)
    assert str(sleeper.pid) in (group.folder / "cgroup.procs").read_text().split()
    assert sleeper.poll() is None
    group.end()
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not group.folder.exists()
    group.end()  # once more is no harm


def test_a_group_gets_the_limits_of_its_job(kernel, sleeper):
    group = Groups(kernel.root).holding(sleeper.pid, LIMITS)
    said = {file.name: file.read_text() for file in group.folder.iterdir()}
    assert said["memory.max"] == str(300 * 2**20)  # the private disk is memory too
    assert said["memory.swap.max"] == "0"
    assert said["memory.oom.group"] == "1"
    assert said["pids.max"] == "8"  # the keeper is one of them
    assert said["cgroup.procs"] == str(sleeper.pid)


def test_the_group_says_what_the_kernel_refused(kernel, sleeper):
    group = Groups(kernel.root).holding(sleeper.pid, LIMITS)
    assert group.passed() is None
    (group.folder / "pids.events").write_text("max 2\n")
    assert group.passed() == ("processes", "it reached the limit of 7 processes and threads")
    (group.folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.passed() == ("memory", "it used more than 300 MiB of memory")
    group.end()
    assert group.passed() is None


def test_where_the_kernel_refuses_there_is_no_group(kernel, sleeper, monkeypatch):
    say = Path.write_text

    def refuse(path, text, *given, **named):
        if path.name == "cgroup.procs" and text:
            raise OSError(95, "not supported")
        return say(path, text, *given, **named)

    monkeypatch.setattr(Path, "write_text", refuse)
    assert Groups(kernel.root).holding(sleeper.pid, LIMITS) is None
    assert [path.name for path in kernel.root.iterdir()] == ["cgroup.procs"]
    assert sleeper.poll() is None


def test_the_place_with_more_limits_is_found(kernel, tmp_path):
    """A service's own group gives none to those below it; the one above, its user's, does."""
    (kernel.root / "user" / "app").mkdir(parents=True)
    seen = kernel.seen(tmp_path, "user/app")
    assert control_groups.find(**seen) == Groups(kernel.root / "user" / "app")
    files = dict(kernel.files)
    make = Path.mkdir

    def strict(path, *given, **named):
        limited = path.parent.name != "app"
        kernel.files = {name: files[name] for name in files if limited or "cgroup" in name}
        make(path, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", strict)
        assert control_groups.find(**seen) == Groups(kernel.root / "user")


def test_no_place_is_found(kernel, tmp_path, monkeypatch):
    seen = kernel.seen(tmp_path, "")
    assert control_groups.find(**seen) == Groups(kernel.root)
    nowhere = tmp_path / "nowhere"
    assert control_groups.find(nowhere, seen["own"]) is None
    seen["own"].write_text("4:memory:/version/one/only\n")
    assert control_groups.find(**seen) is None
    kernel.files = {"cgroup.procs": ""}  # a kernel that cannot end a group
    assert control_groups.find(**kernel.seen(tmp_path, "")) is None
    assert [path.name for path in kernel.root.iterdir()] == ["cgroup.procs"]
    kernel.files = FILES
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert control_groups.find(**seen) is None


def test_empty_groups_of_those_that_are_gone_are_removed(kernel, tmp_path, sleeper):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    folders = [kernel.root / f"attentively-{number}-0" for number in (gone.pid, os.getpid())]
    full = kernel.root / f"attentively-{gone.pid}-1"
    for folder in (*folders, full):
        folder.mkdir()
    (full / "cgroup.procs").write_text(str(sleeper.pid))
    control_groups.find(**kernel.seen(tmp_path, ""))
    assert [folder.exists() for folder in (*folders, full)] == [False, True, True]
    assert sleeper.poll() is None


@needs_sandbox
@pytest.mark.parametrize("walls", [True, False])
def test_what_a_job_starts_is_in_its_group(groups, tmp_path, walls):
    """A child that leaves session and parent is there too, and ends with the job."""
    held, done = {}, threading.Event()

    def watch():
        while not done.wait(0.01):
            for listed in groups.folder.glob(f"attentively-{os.getpid()}-*/cgroup.procs"):
                with contextlib.suppress(OSError):  # it has ended since
                    for process in listed.read_text().split():
                        held[process] = Path("/proc", process, "comm").read_text().strip()

    leaver = (
        "import subprocess, pathlib, time\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "name = pathlib.Path(f'/proc/{child.pid}/comm')\n"
        "while name.read_text().strip() != 'sleep':\n"
        "    time.sleep(0.01)  # Popen may return before the child has its name\n"
        "time.sleep(0.5)\n"
        "r = 1"
    )
    watching = threading.Thread(target=watch)
    watching.start()
    with pool(tmp_path, workers=1, sandbox=None if walls else NO_SANDBOX) as workers:
        workers.groups = groups
        [(_, outcome)] = workers.run([job("leaver", leaver)])
    done.set()
    watching.join()
    assert texts(outcome) == ["1"], outcome
    if not groups.folder.is_relative_to(tmp_path):  # made-up ones hold the keeper alone
        assert "sleep" in held.values()
    assert held
    wait_for_the_end(held)
    assert list(groups.folder.glob(f"attentively-{os.getpid()}-*")) == []
