"""Copy new exercises to work/, without changing existing files, and open JupyterLab there."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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


def main() -> int:
    """Copy new exercises, print one line per file, and open JupyterLab."""
    copied, kept = copy_new(ROOT / "exercises", ROOT / "work")
    (ROOT / "work").mkdir(exist_ok=True)
    for file in copied:
        print(f"copied  work/{file}")
    for file in kept:
        print(f"kept    work/{file} (already there)")
    if not copied and not kept:
        print("No exercises to copy: exercises/ is empty. To generate them, run `make release`.")
    return subprocess.run([sys.executable, "-m", "jupyterlab", ROOT / "work"]).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
