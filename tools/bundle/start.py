"""Set up this folder, once, and open JupyterLab on your copy of the exercises.

    python3 start.py              everything; a second time only JupyterLab is opened
    python3 start.py --only-set-up

Needs Python 3.11 or later and, the first time, the network: PyTorch alone is a large download.
Your answers lie in work/ and are never overwritten.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
READY = ENVIRONMENT / ".ready"
OLDEST = (3, 11)


def python() -> Path:
    """Return the environment's own Python."""
    folder = "Scripts" if os.name == "nt" else "bin"
    return ENVIRONMENT / folder / ("python.exe" if os.name == "nt" else "python")


def set_up(index: str | None) -> None:
    """Make .venv and install what the exercises need; the stamp is written last."""
    print("Setting up .venv, once: this takes minutes, most of them for PyTorch.", flush=True)
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    command: list[str | Path] = [
        python(),
        "-m",
        "pip",
        "install",
        "--constraint",
        HERE / "constraints.txt",
    ]
    if index:
        command += ["--extra-index-url", index]
    subprocess.run([*command, "--editable", f"{HERE}[book]"], check=True)
    READY.touch()


def main() -> int:
    """Set up if need be, then hand over to JupyterLab; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-set-up", action="store_true", help="do not open JupyterLab")
    parser.add_argument(
        "--torch-index",
        metavar="URL",
        help="a further package index to look for torch in, such as that of builds without a GPU",
    )
    options = parser.parse_args()
    if sys.version_info < OLDEST:
        print("This needs Python 3.11 or later; it runs on", sys.version.split()[0])
        return 2
    if not READY.exists():
        try:
            set_up(options.torch_index)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            print(f"\nCould not set up: {error}", file=sys.stderr)
            print("Is there a network? On Debian and Ubuntu also: apt install python3-venv")
            return 1
    if options.only_set_up:
        print("Ready.")
        return 0
    return subprocess.run([python(), HERE / "tools" / "lab.py"]).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
