"""Set up this folder once, and open JupyterLab on your copy of the exercises.

    python3 start.py                  set up if needed, then open JupyterLab
    python3 start.py --only-set-up    set up only
    python3 start.py progress         run the command `attentively progress` here
    python3 start.py submit 08_additive_attention --student YOUR-NAME

On Windows, write `py start.py`. Needs Python 3.11 or later, and for the first run a network
connection, because PyTorch is a large download. Your answers in work/ are never overwritten.
"""

# Older Pythons must be able to read this file, so that they can name the version that is needed.
from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
READY = ENVIRONMENT / ".ready"
OLDEST = (3, 11)
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
LONGEST_FOLDER = 100
"""Characters of this folder's path on Windows, which allows 260: files below it take up to 150."""


class Machine(NamedTuple):
    """What the set-up needs to know of a computer."""

    system: str
    """Linux, Darwin (macOS) or Windows."""
    processor: str
    python: tuple[int, ...]
    bits: int
    gpu: bool
    """Whether the driver of an NVIDIA GPU is installed."""
    free: float
    """Free disk space, in GB."""
    folder: str


def this_machine() -> Machine:
    """Describe this computer."""
    return Machine(
        system=platform.system(),
        processor=platform.machine().lower(),
        python=tuple(sys.version_info[:3]),
        bits=64 if sys.maxsize > 2**32 else 32,
        gpu=shutil.which("nvidia-smi") is not None,
        free=shutil.disk_usage(HERE).free / 1e9,
        folder=str(HERE),
    )


def command(machine: Machine) -> str:
    """Return how this script is called in a terminal."""
    return "py start.py" if machine.system == "Windows" else "python3 start.py"


def reachable(address: str) -> bool:
    """Return whether a package index answers; pip would wait for it once for every package."""
    try:
        urllib.request.urlopen(f"{address}/torch/", timeout=15).close()
    except OSError:
        return False
    return True


def torch_index(machine: Machine, wanted: str | None) -> str:
    """Return the additional package index for PyTorch; empty for none.

    On Linux, the standard builds contain GPU libraries. Without a GPU, those of `CPU_BUILDS` do.
    """
    if wanted is not None:
        return wanted
    on_pc = machine.processor in ("x86_64", "amd64")
    if machine.system != "Linux" or not on_pc or machine.gpu:
        return ""
    if not reachable(CPU_BUILDS):
        print(f"{CPU_BUILDS} does not answer, so PyTorch comes with its GPU libraries.")
        return ""
    return CPU_BUILDS


def sizes(machine: Machine, index: str) -> tuple[float, float]:
    """Return the approximate size of the download and of .venv, in GB."""
    with_gpu_libraries = machine.system == "Linux" and not index
    return (3.5, 8.0) if with_gpu_libraries else (0.5, 2.0)


def problem(machine: Machine) -> str | None:
    """Return why this computer cannot be set up, and what to do; None if it can."""
    if machine.python < OLDEST:
        version = ".".join(map(str, machine.python))
        other = {
            "Windows": "Install it from https://www.python.org, then run: py -3.12 start.py",
            "Darwin": "Install it from https://www.python.org, then run: python3.12 start.py",
        }
        advice = other.get(
            machine.system, "If another version is installed, name it: python3.12 start.py"
        )
        return f"Python 3.11 or later is needed, but this is Python {version}. {advice}"
    if machine.bits == 32:
        return "This is a 32-bit Python, but PyTorch needs a 64-bit one. Install a 64-bit Python."
    if machine.system == "Darwin" and machine.processor == "x86_64":
        return (
            "PyTorch has no builds for Macs with Intel processors. Use another computer, or the "
            "notebooks in a browser if your instructor offers them. On a Mac with Apple silicon, "
            "this Python is one for Intel: install a current one from https://www.python.org"
        )
    if machine.system == "Windows" and len(machine.folder) > LONGEST_FOLDER:
        return (
            f"The path of this folder has {len(machine.folder)} characters, and Windows allows no "
            f"paths over 260: move the folder to a shorter path, such as C:\\attentively"
        )
    return None


def python(system: str) -> Path:
    """Return the Python of the virtual environment."""
    return ENVIRONMENT / ("Scripts/python.exe" if system == "Windows" else "bin/python")


def environment() -> dict[str, str]:
    """Return the variables for the programs that are started: they write UTF-8 everywhere."""
    return {**os.environ, "PYTHONUTF8": "1"}


def archive_state() -> str:
    """Return a hash of what is installed from this folder, which changes with a newer archive."""
    digest = hashlib.sha256()
    files = [HERE / "pyproject.toml", HERE / "constraints.txt"]
    for folder in ("src", "book/results"):
        files += sorted(file for file in (HERE / folder).rglob("*") if file.is_file())
    for file in files:
        digest.update(f"{file.relative_to(HERE).as_posix()}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def set_up(machine: Machine, index: str) -> None:
    """Create .venv if necessary and install the packages; the marker file is written last."""
    if READY.exists():
        print("Updating .venv: this archive is newer.", flush=True)
        READY.unlink()
    else:
        create(machine, index)
    pip = [str(python(machine.system)), "-m", "pip", "install", "--constraint", "constraints.txt"]
    if index:
        print(f"PyTorch: the build without GPU support, from {index}", flush=True)
        pip += ["--extra-index-url", index]
    # "." and not the folder's name, which may contain brackets. Not editable: Python 3.11 would
    # read the folder's name in the system's encoding, and fail to start where that is not UTF-8.
    subprocess.run([*pip, ".[student]"], cwd=HERE, env=environment(), check=True)
    READY.write_text(archive_state(), encoding="ascii")


def create(machine: Machine, index: str) -> None:
    """State the sizes and create .venv; raise `OSError` if the disk is too full."""
    download, disk = sizes(machine, index)
    if machine.free < disk:
        raise OSError(f"{disk:.0f} GB of disk space are needed, but {machine.free:.1f} GB are free")
    print(
        "Setting up .venv, once. pip downloads PyTorch, JupyterLab and about 130 small packages:\n"
        f"about {download} GB, and {disk:.0f} GB on the disk. This takes about\n"
        f"{download * 8000 / 50 / 60 + 2:.0f} minutes at 50 Mbit/s; a slower network takes longer.",
        flush=True,
    )
    # As on the command line: a copied Python does not start on macOS.
    venv.create(ENVIRONMENT, with_pip=True, clear=True, symlinks=machine.system != "Windows")


def explain(machine: Machine, error: Exception) -> str:
    """Return what to do after a set-up that failed."""
    advice = [
        f"The set-up failed: {error}",
        "If pip could not download a package, check the network connection and run the command "
        "again: what was downloaded is kept.",
    ]
    if machine.system == "Linux":
        advice.append("On Debian and Ubuntu, Python needs: sudo apt install python3-venv")
    if machine.system == "Windows":
        advice.append("If a file was in use, close JupyterLab and other terminals first.")
    if machine.python >= (3, 15):
        advice.append("Python 3.11 to 3.14 were tested; a newer one may lack builds of PyTorch.")
    return "\n".join(advice)


def main(arguments: list[str] | None = None) -> int:
    """Set up if needed, then open JupyterLab or run a command; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only-set-up", action="store_true", help="set up, but do not open JupyterLab"
    )
    parser.add_argument(
        "--torch-index",
        metavar="URL",
        help="additional package index for PyTorch; '' for none. By default, on Linux without an "
        f"NVIDIA GPU: {CPU_BUILDS}",
    )
    parser.add_argument(
        "rest",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="a command of attentively, with its options: progress, submit, models, ...",
    )
    options = parser.parse_args(arguments)
    machine = this_machine()
    trouble = problem(machine)
    if not (HERE / "pyproject.toml").exists():
        trouble = "The files next to start.py are missing. Unpack the whole archive first."
    if trouble:
        print(trouble, file=sys.stderr)
        return 2
    if not READY.exists() or READY.read_text(encoding="ascii") != archive_state():
        try:
            set_up(machine, torch_index(machine, options.torch_index))
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            print(f"\n{explain(machine, error)}", file=sys.stderr)
            return 1
        print(f"Ready. Next time: {command(machine)}", flush=True)
    if options.only_set_up:
        return 0
    run = ["-m", "attentively", *options.rest] if options.rest else [str(HERE / "tools/lab.py")]
    return subprocess.run([str(python(machine.system)), *run], env=environment()).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
