"""The sandbox is found, or refused with a reason; without namespaces in it, it still isolates."""

import os
import platform
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from grader.stub_pool import job, needs_sandbox, pool, texts, wait_for_the_end

from attentively_grader.jobs import Limits
from attentively_grader.sandbox import bubblewrap, seccomp
from attentively_grader.sandbox.bubblewrap import NO_SANDBOX, NoSandboxError, Sandbox, find_sandbox
from attentively_grader.sandbox.watchdog import Watchdog, tree
from attentively_grader.workforce.worker_pool import WorkerPool

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open("daemon", "w").write("alive")
    time.sleep(1000)
while not os.path.exists("daemon"):
    time.sleep(0.01)
r = os.getcwd()
"""


def pretend(monkeypatch, folder, script):
    """Put a `bwrap` of our own first on the path, and nothing else there."""
    if script:
        program = folder / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_without_bubblewrap_there_is_a_refusal_that_says_what_to_do(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "")
    with pytest.raises(NoSandboxError, match=r"not installed.*apt install bubblewrap.*--unsafe"):
        find_sandbox()


def test_a_bubblewrap_that_does_not_work_is_quoted(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "echo 'No permissions to create new namespace' >&2; exit 1")
    with pytest.raises(NoSandboxError, match=r"does not work here: No permissions to create"):
        find_sandbox()


def test_another_system_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NoSandboxError, match=r"needs Linux.*darwin"):
        find_sandbox()


@needs_sandbox
def test_where_namespaces_do_not_nest_each_job_has_a_sandbox_to_itself(monkeypatch):
    monkeypatch.setattr(
        bubblewrap, "complaint", lambda shell: "not allowed" if shell == "nested" else None
    )
    found = find_sandbox([Path("/usr")])
    assert (found.walls, found.shell, found.folders) == (True, "single", (Path("/usr"),))
    assert found.for_examiners().shell == "none"


@needs_sandbox
@pytest.mark.parametrize("shell", ["single", "none"])
def test_the_poorer_shells_end_everything_too(tmp_path, shell):
    folders = (tmp_path / "stub",)
    kind = Sandbox(True, shell, folders) if shell == "single" else NO_SANDBOX
    with pool(tmp_path, sandbox=kind) as workers:
        jobs = [
            job("daemon", DAEMON, "r = 1"),
            job("loop", "while True: pass", "r = 2", cell_seconds=0.3),
            job("exit", "import os; os._exit(4)", "r = 3"),
        ]
        ran = {one.key: outcome for one, outcome in workers.run(jobs)}
        left = {
            process
            for zygote_client in (*workers.students, *workers.examiners)
            if zygote_client.zygote is not None
            for process in tree(zygote_client.zygote.pid)
        }
        # The zygotes; those of a sandbox have two processes round them.
        assert len(left) == 2 if shell == "none" else len(left) % 3 == 0
    assert texts(ran["daemon"])[1] == "1"
    assert [cell.failed for cell in ran["loop"].cells] == [True, False]
    assert texts(ran["exit"]) == ["it ended its own process (exit 4)", "3"]
    assert all(outcome.sandboxed == (shell == "single") for outcome in ran.values())
    wait_for_the_end(left)


@needs_sandbox
def test_modules_beside_the_notebook_are_the_students_alone(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "helper.py").write_text("value = 7")
    (files / "json.py").write_text("raise SystemExit")
    (files / "more").mkdir()
    (files / "more" / "deep.txt").write_text("deep")
    (files / "link").symlink_to("/etc/passwd")
    trusted = """
    try:
        import helper
        r = "imported"
    except ImportError:
        r = sorted(os.listdir("."))
    """
    with pool(tmp_path) as workers:
        one = job(
            "files",
            "import helper; r = helper.value, open('more/deep.txt').read()",
            ("here", textwrap.dedent(trusted)),
        )
        ((_, outcome),) = workers.run([replace(one, files=files)])
    assert texts(outcome) == ["(7, 'deep')", "['helper.py', 'json.py', 'more']"]


def test_the_environment_inside_is_not_the_one_outside(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_INSTRUCTOR", "1")
    command = bubblewrap.bubblewrap("nested", [])
    assert "--clearenv" in command
    assert "SECRET_OF_THE_INSTRUCTOR" not in command
    assert {"--unshare-net", "--unshare-pid", "--die-with-parent", "--new-session"} <= set(command)
    writable = [word for word in command if word in ("--bind", "--share-net")]
    assert writable == []
    bound = [command[at + 1] for at, word in enumerate(command) if word == "--dev-bind"]
    assert bound == ["/dev/full"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_allows_what_it_does_not_name(machine):
    """A small interpreter of the program: what does the kernel answer to a call?"""
    steps = [
        (int.from_bytes(s[:2], sys.byteorder), s[2], s[3], int.from_bytes(s[4:], sys.byteorder))
        for s in (
            seccomp.program(machine, 7)[i : i + 8]
            for i in range(0, len(seccomp.program(machine, 7)), 8)
        )
    ]
    architecture, numbers = seccomp._MACHINES[machine]

    def answer(call, *arguments, architecture=architecture):
        words = {0: call, 4: architecture}
        for number, argument in enumerate((*arguments, *[0] * 6)[:6]):
            words[16 + 8 * number] = argument & 0xFFFFFFFF
            words[20 + 8 * number] = argument >> 32 & 0xFFFFFFFF
        at, value = 0, 0
        while True:
            code, if_true, if_false, operand = steps[at]
            at += 1
            if code == 0x20:
                value = words[operand]
            elif code == 0x06:
                return operand
            else:
                test = {0x15: value == operand, 0x35: value >= operand, 0x45: value & operand}
                at += if_true if test[code] else if_false

    allowed, refused = 0x7FFF0000, 0x00050001
    assert answer(0) == allowed
    assert answer(numbers["ptrace"]) == refused
    assert answer(numbers["clone3"]) == 0x00050026  # ENOSYS: the C library then uses clone
    assert answer(numbers["clone"], 0x00010F00) == allowed  # a thread
    assert answer(numbers["clone"], 0x10000000) == refused  # a user namespace
    assert answer(numbers["clone"], 17) == allowed  # a child whose end sends SIGCHLD
    assert answer(numbers["clone"], 9) == refused  # a child whose end sends SIGKILL
    assert answer(numbers["mmap"], 0, 4096, 3, 0x22) == allowed  # private memory
    assert answer(numbers["mmap"], 0, 4096, 3, 0x01) == allowed  # a shared file
    assert answer(numbers["mmap"], 0, 4096, 3, 0x21) == refused  # shared memory without a file
    assert answer(numbers["setsockopt"], 3, 1, 7) == 0x00050000  # the size of a buffer: ignored
    assert answer(numbers["setsockopt"], 3, 1, 8) == 0x00050000
    assert answer(numbers["setsockopt"], 3, 1, 2) == allowed
    assert answer(numbers["setsockopt"], 3, 6, 7) == allowed  # of TCP
    assert answer(numbers["fcntl"], 3, 1031) == refused
    assert answer(numbers["fcntl"], 3, 10, 9) == refused
    assert answer(numbers["fcntl"], 3, 4) == allowed
    assert answer(numbers["splice"]) == answer(numbers["msgget"]) == 0x00050026
    for call in ("kill", "rt_sigqueueinfo"):
        for target in (7, -7, 0, -1):
            assert answer(numbers[call], target, 9) == 0x80000000
            assert answer(numbers[call], target, 15) == allowed
        assert answer(numbers[call], 8, 9) == answer(numbers[call], -8, 9) == allowed
    assert answer(numbers["tgkill"], 7, 8, 9) == answer(numbers["tkill"], 8, 9) == 0x80000000
    assert answer(numbers["tgkill"], 7, 8, 6) == allowed
    assert answer(numbers["prlimit64"], 0, 0, 1) == refused  # the limit of CPU time
    assert answer(numbers["prlimit64"], 0, 0, 1 << 40) == refused
    assert answer(numbers["prlimit64"], 0, 0, 0) == answer(numbers["prlimit64"], 0, 7, 1) == allowed
    assert answer(numbers["socket"], 1) == allowed
    assert answer(numbers["socket"], 2) == allowed
    assert answer(numbers["socket"], 40) == refused  # of virtual machines
    assert answer(0x40000000) == refused
    assert answer(0, architecture=3) == 0x80000000


@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc")
def test_the_watchdog_counts_what_is_below_a_process():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        while len(list(tree(process.pid))) < 2:
            pass
        assert Watchdog(process.pid, Limits()).look() is None
        assert Watchdog(process.pid, Limits(processes=1)).look()[0] == "processes"
        assert Watchdog(process.pid, Limits(seconds=0)).look()[0] == "timeout"
        while (passed := Watchdog(process.pid, Limits(memory_mib=2)).look()) is None:
            pass
        assert passed == ("memory", "it used more than 2 MiB of memory")
        process.communicate(b"\n")
    assert list(tree(process.pid)) == [process.pid]
    assert Watchdog(process.pid, Limits()).look() is None
    assert os.getpid() in tree(os.getpid())


def test_other_systems_refuse_also_without_a_sandbox(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(NoSandboxError, match="win32"):
        WorkerPool(1, sandbox=NO_SANDBOX)


@needs_sandbox
@pytest.mark.parametrize("walls", [True, False])
def test_the_looks_that_find_nothing_inside_find_it_outside(tmp_path, walls):
    """The twin of what test_workforce.py holds: without a sandbox, all is there to be found."""
    (tmp_path / "gradebook.db").touch()
    name = f"\0attentively-{os.getpid()}"
    looks = f"""
    import os, socket
    r = [os.path.exists({str(tmp_path / "gradebook.db")!r}), os.path.exists("/proc/{os.getpid()}")]
    with socket.socket(socket.AF_UNIX) as ours:
        r.append(ours.connect_ex({name!r}) == 0)
    r.append(os.path.exists("/etc/shadow"))
    """
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        with pool(tmp_path, workers=1, sandbox=None if walls else NO_SANDBOX) as workers:
            ((_, outcome),) = workers.run([job("looks", textwrap.dedent(looks))])
    assert texts(outcome) == [repr([not walls] * 4)]


@needs_sandbox
def test_a_child_that_cannot_begin_does_not_end_its_zygote(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "large").write_bytes(bytes(3 << 20))
    with pool(tmp_path, workers=1) as workers:
        zygote = workers.students[0].zygote.pid
        one = replace(job("large", "r = 1", file_mib=1), files=files)
        ran = {each.key: outcome for each, outcome in workers.run([one, job("next", "r = 2")])}
        assert workers.students[0].zygote.pid == zygote
    assert ran["large"].end == "died"
    assert "could not" in ran["large"].reason or "too large" in ran["large"].reason
    assert texts(ran["next"]) == ["2"]
