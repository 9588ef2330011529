"""Copy new exercises to work/, without changing existing files, and open JupyterLab there.

    python tools/lab.py                copy, and open JupyterLab
    python tools/lab.py --only-copy    copy only

JupyterLab also serves the built book, at /static/book/: the notebooks link their chapters there.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOK = "_build/html"


def copy_new(source: Path, target: Path) -> tuple[list[Path], list[Path]]:
    """Copy each file of `source` that `target` lacks; return the copied and the kept ones."""
    copied, kept = [], []
    for file in sorted(source.rglob("*")):
        relative = file.relative_to(source)
        if not file.is_file() or any(part.startswith((".", "__")) for part in relative.parts):
            continue
        if (target / relative).exists():
            kept.append(relative)
            continue
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / relative)
        copied.append(relative)
    return copied, kept


def lab(root: Path) -> list[str]:
    """Return the command that opens JupyterLab in work/, with the book if it is built."""
    served = [f"--ServerApp.extra_static_paths={root / BOOK}"]
    built = (root / BOOK / "index.html").is_file()
    return [sys.executable, "-m", "jupyterlab", str(root / "work"), *(served if built else [])]


def environment() -> dict[str, str]:
    """Return the variables for JupyterLab, whose terminals find the command `attentively`."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(folders)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Copy new exercises, print one line per file, and open JupyterLab."""
    given = sys.argv[1:] if arguments is None else arguments
    copied, kept = copy_new(ROOT / "exercises", ROOT / "work")
    (ROOT / "work").mkdir(exist_ok=True)
    for file in copied:
        print(f"copied  work/{file.as_posix()}")
    for file in kept:
        print(f"kept    work/{file.as_posix()} (already there)")
    if not copied and not kept:
        print("No exercises to copy: exercises/ is empty. To generate them, run `make release`.")
    if "--only-copy" in given:
        return 0
    if not (ROOT / BOOK / "index.html").is_file():
        print("The book is not built, so the notebooks' links to it fail. Build it: make book")
    return subprocess.run(lab(ROOT), env=environment()).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
