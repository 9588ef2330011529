"""`start.py`, the set-up command of a class archive, on simulated Linux, macOS and Windows.

The computer is described by a `Machine`, and pip, venv and JupyterLab are recorded instead of run.
"""

import ast
import importlib.util
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath, PureWindowsPath
from threading import Thread

import make_bundle
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "bundle" / "start.py"

spec = importlib.util.spec_from_file_location("start", SCRIPT)
start = importlib.util.module_from_spec(spec)
sys.modules["start"] = start  # where NamedTuple looks for its annotations
spec.loader.exec_module(start)

LINUX = start.Machine("Linux", "x86_64", (3, 12, 1), 64, False, 100.0, "/srv/ada/attentively-class")
MACOS = LINUX._replace(system="Darwin", processor="arm64")
WINDOWS = LINUX._replace(system="Windows", processor="amd64", folder=r"C:\Kurs\attentively-class")
SYSTEMS = pytest.mark.parametrize("machine", [LINUX, MACOS, WINDOWS], ids=lambda m: m.system)


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """Return a function that runs start.py on a machine; it returns the recorded calls."""
    folder = tmp_path / "Kurs [Übung] 1"
    folder.mkdir()
    (folder / "src").mkdir()
    for name in ("pyproject.toml", "constraints.txt", "src/code.py"):
        (folder / name).touch()
    monkeypatch.setattr(start, "HERE", folder)
    monkeypatch.setattr(start, "ENVIRONMENT", folder / ".venv")
    monkeypatch.setattr(start, "READY", folder / ".venv" / ".ready")

    def run(machine, *arguments, fails=None, answers=True):
        calls = []

        def create(where, **options):
            where.mkdir(exist_ok=True)
            calls.append(("venv", options))

        def called(command, check=False, **options):
            calls.append((command, options))
            if fails and fails in command:
                raise subprocess.CalledProcessError(1, command)
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(start, "this_machine", lambda: machine)
        monkeypatch.setattr(start, "reachable", lambda address: answers)
        monkeypatch.setattr(start.venv, "create", create)
        monkeypatch.setattr(start.subprocess, "run", called)
        return start.main(list(arguments)), calls

    run.folder = folder
    return run


@SYSTEMS
def test_the_first_run_sets_up_and_opens_jupyterlab(simulated, machine, capsys):
    status, calls = simulated(machine)
    assert status == 0
    (_, venv), (pip, options), (lab, opened) = calls
    assert venv["symlinks"] == (machine.system != "Windows")
    assert pip[1:6] == ["-m", "pip", "install", "--constraint", "constraints.txt"]
    assert pip[-1] == ".[student]"  # no folder name, in which [1] is an extra
    assert "--editable" not in pip  # Python 3.11 reads its .pth file in the system's encoding
    assert options["cwd"] == simulated.folder
    assert lab[0] == pip[0]
    assert lab[1:] == [str(simulated.folder / "tools" / "lab.py")]
    assert options["env"]["PYTHONUTF8"] == opened["env"]["PYTHONUTF8"] == "1"
    said = capsys.readouterr().out
    assert "GB" in said
    assert "minutes" in said
    assert ("py start.py" if machine is WINDOWS else "python3 start.py") in said


@pytest.mark.parametrize(
    ("machine", "inside", "flavour"),
    [
        (LINUX, ".venv/bin/python", PurePosixPath),
        (MACOS, ".venv/bin/python", PurePosixPath),
        (WINDOWS, r".venv\Scripts\python.exe", PureWindowsPath),
    ],
    ids=["Linux", "macOS", "Windows"],
)
def test_the_python_of_each_system(simulated, machine, inside, flavour):
    _, calls = simulated(machine, "--only-set-up")
    relative = Path(calls[-1][0][0]).relative_to(simulated.folder)
    assert flavour(relative.as_posix()) == flavour(inside)


@SYSTEMS
def test_the_second_run_sets_up_nothing(simulated, machine):
    simulated(machine, "--only-set-up")
    _, calls = simulated(machine)
    assert [Path(command[-1]).name for command, _ in calls] == ["lab.py"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "src/code.py"])
def test_a_newer_archive_updates_the_environment_and_keeps_it(simulated, name, capsys):
    simulated(MACOS, "--only-set-up")
    (simulated.folder / name).write_text("newer")
    status, calls = simulated(MACOS, "--only-set-up")
    assert status == 0
    assert [command[1:4] for command, _ in calls] == [["-m", "pip", "install"]]
    assert "this archive is newer" in capsys.readouterr().out
    assert simulated(MACOS, "--only-set-up") == (0, [])


@SYSTEMS
def test_a_command_of_attentively_with_its_options(simulated, machine):
    simulated(machine, "--only-set-up")
    _, calls = simulated(machine, "submit", "08_additive_attention", "--student", "ada")
    expected = ["-m", "attentively", "submit", "08_additive_attention", "--student", "ada"]
    assert calls[0][0][1:] == expected


@pytest.mark.parametrize(
    ("machine", "wanted", "index"),
    [
        (LINUX, None, start.CPU_BUILDS),
        (LINUX._replace(gpu=True), None, ""),
        (LINUX._replace(processor="aarch64"), None, ""),
        (MACOS, None, ""),
        (WINDOWS, None, ""),
        (LINUX, "", ""),
        (WINDOWS, "https://example.org/whl", "https://example.org/whl"),
    ],
)
def test_builds_of_pytorch_without_gpu_libraries(simulated, machine, wanted, index):
    given = [] if wanted is None else ["--torch-index", wanted]
    _, calls = simulated(machine, *given, "--only-set-up")
    pip = calls[1][0]
    assert pip[pip.index("--extra-index-url") + 1 :][:1] == [index] if index else True
    assert ("--extra-index-url" in pip) == bool(index)


def test_an_index_that_does_not_answer_is_left_out(simulated, capsys):
    """A firewall or an old list: pip would retry for each of 130 packages."""
    _, calls = simulated(LINUX, "--only-set-up", answers=False)
    assert "--extra-index-url" not in calls[1][0]
    said = capsys.readouterr().out
    assert "does not answer" in said
    assert "3.5 GB" in said


def test_whether_an_index_answers(tmp_path):
    (tmp_path / "whl" / "torch").mkdir(parents=True)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert start.reachable(f"{address}/whl")
        assert not start.reachable(f"{address}/other")
        server.shutdown()
    assert not start.reachable(f"{address}/whl")


def test_the_stated_sizes_are_those_of_the_builds():
    assert start.sizes(LINUX, start.CPU_BUILDS) == start.sizes(WINDOWS, "") == (0.5, 2.0)
    assert start.sizes(LINUX, "") == (3.5, 8.0)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (LINUX._replace(python=(3, 10, 2)), "this is Python 3.10.2"),
        (WINDOWS._replace(python=(3, 9, 0)), "then run: py -3.12 start.py"),
        (MACOS._replace(python=(3, 9, 6)), "then run: python3.12 start.py"),
        (WINDOWS._replace(bits=32), "64-bit"),
        (MACOS._replace(processor="x86_64"), "Intel"),
        (WINDOWS._replace(folder="C:\\" + 101 * "x"), "has 104 characters"),
    ],
)
def test_a_computer_that_cannot_be_set_up(simulated, machine, said, capsys):
    status, calls = simulated(machine)
    assert (status, calls) == (2, [])
    assert said in capsys.readouterr().err


def test_a_long_path_matters_on_windows_only():
    assert start.problem(LINUX._replace(folder="/" + 150 * "x")) is None
    assert start.problem(WINDOWS) is None


def test_an_archive_that_was_not_unpacked(simulated, capsys):
    (simulated.folder / "pyproject.toml").unlink()
    assert simulated(WINDOWS) == (2, [])
    assert "Unpack the whole archive first" in capsys.readouterr().err


def test_a_full_disk_is_named_before_the_download(simulated, capsys):
    status, calls = simulated(WINDOWS._replace(free=1.4))
    assert (status, calls) == (1, [])
    assert "2 GB of disk space are needed, but 1.4 GB are free" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("machine", "advice"), [(LINUX, "apt install python3-venv"), (WINDOWS, "close JupyterLab")]
)
def test_a_failed_set_up_leaves_nothing_and_advises(simulated, machine, advice, capsys):
    status, _ = simulated(machine, fails="pip")
    assert status == 1
    assert not (simulated.folder / ".venv").exists()
    said = capsys.readouterr().err
    assert "check the network connection" in said
    assert advice in said
    assert ("apt" in said) == (machine is LINUX)


def test_an_unknown_python_is_named_as_a_possible_cause():
    error = OSError("no builds")
    assert "3.11 to 3.14" in start.explain(LINUX._replace(python=(3, 15, 0)), error)
    assert "3.11 to 3.14" not in start.explain(LINUX, error)


def test_every_text_is_ascii():
    """An old Windows console has a code page without dashes and typographic quotes."""
    assert SCRIPT.read_bytes().isascii()
    assert (ROOT / "tools" / "lab.py").read_bytes().isascii()


def newer_than_3_7(text: str) -> str:
    """Return why Python 3.7, which must be told which version it needs, would fail."""
    try:
        tree = ast.parse(text, feature_version=(3, 7))
    except SyntaxError as error:
        return error.msg
    lazy = any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body
    )
    unions = "|" in text.replace('"|"', "") and not lazy
    return "a union in an annotation" if unions else ""


def test_an_older_python_reads_the_script():
    text = SCRIPT.read_text(encoding="utf-8")
    assert newer_than_3_7(text) == ""
    assert newer_than_3_7(text.replace("from __future__ import annotations", "")) != ""
    assert newer_than_3_7("match x:\n    case 1: pass") != ""


def test_this_computer_is_described():
    here = start.this_machine()
    assert here.python == sys.version_info[:3]
    assert here.bits == 64
    assert here.free > 0


MODULES_OF_POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}
NAMES_OF_POSIX = {"fork", "getuid", "geteuid", "killpg", "sched_getaffinity", "setsid", "SIGKILL"}


def not_on_windows(code: str) -> set[str]:
    """Return the modules and names that a file uses and Windows does not have."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= MODULES_OF_POSIX & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= MODULES_OF_POSIX & {node.module}
        elif isinstance(node, ast.Attribute):
            found |= NAMES_OF_POSIX & {node.attr}
    return found


def test_what_a_student_runs_uses_nothing_that_windows_lacks():
    grader = [ROOT / "src" / "attentively_grader" / name for name in make_bundle.GRADER]
    files = [*(ROOT / "src" / "attentively").rglob("*.py"), *grader, ROOT / "tools" / "lab.py"]
    assert len(files) > 150
    found = {file.name: not_on_windows(file.read_text(encoding="utf-8")) for file in files}
    assert {name: what for name, what in found.items() if what} == {}


def test_a_use_of_posix_is_found():
    code = "import os, pwd\nfrom resource import getrlimit\nos.killpg(1, 9)\n"
    assert not_on_windows(code) == {"pwd", "resource", "killpg"}
