"""Set up this folder once, and open JupyterLab on your copy of the exercises.

    python3 start.py                  set up if needed, then open JupyterLab
    python3 start.py --only-set-up    set up only

Needs Python 3.11 or later. The first run needs a network connection, because PyTorch is a large
download. Your answers are in work/ and are never overwritten.
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
    """Return the Python of the virtual environment."""
    folder = "Scripts" if os.name == "nt" else "bin"
    return ENVIRONMENT / folder / ("python.exe" if os.name == "nt" else "python")


def set_up(index: str | None) -> None:
    """Create .venv and install the packages; the stamp is written last."""
    print(
        "Setting up .venv. This happens once and takes several minutes, mostly for PyTorch.",
        flush=True,
    )
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
    """Set up if needed, then open JupyterLab; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only-set-up", action="store_true", help="set up, but do not open JupyterLab"
    )
    parser.add_argument(
        "--torch-index",
        metavar="URL",
        help="additional package index for torch, for example that of builds without GPU support",
    )
    options = parser.parse_args()
    if sys.version_info < OLDEST:
        print(f"Python 3.11 or later is needed, but this is Python {sys.version.split()[0]}.")
        return 2
    if not READY.exists():
        try:
            set_up(options.torch_index)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            print(f"\nThe set-up failed: {error}", file=sys.stderr)
            print("Check the network connection. On Debian and Ubuntu: apt install python3-venv")
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
