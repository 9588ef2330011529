"""Build the book into _build/html, so that old outputs never stand beside new code.

Jupyter Book executes a chapter again when its own cells change; it does not notice that the
package which those cells import has changed. So the fingerprints of what a page shows are kept
in _build, and what is stale goes before anything is built:

- the code that chapters run (src, book/results, the pins): forget every execution;
- the look of pages (configuration, extensions, bibliography): write every page anew.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ["src", "book/results", "constraints.txt", "tools/build_book.py"]
LOOK = ["_config.yml", "_toc.yml", "book/_ext", "book/references.bib"]


def fingerprint(paths: Iterable[Path]) -> str:
    """Return one hash of every file's name and content; caches do not count."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(path.parent)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def drop_stale(root: Path, build: Path) -> str:
    """Remove what no longer matches the sources from `build`; return why, or nothing.

    What is left is consistent at once, so an interrupted build needs no repair.
    """
    stamp = build / ".fingerprints.json"
    new = {
        "code": fingerprint(root / path for path in CODE),
        "look": fingerprint(root / path for path in LOOK),
    }
    old = json.loads(stamp.read_text()) if stamp.exists() else {}
    if old == new:
        return ""
    stamp.unlink(missing_ok=True)
    stale = ["html", ".doctrees"]
    reason = "the pages' configuration changed: every page is written anew"
    if old.get("code") != new["code"]:
        stale += [".jupyter_cache", "jupyter_execute"]
        reason = "src/, book/results/ or the pins changed: every chapter is executed anew"
    for name in stale:
        shutil.rmtree(build / name, ignore_errors=True)
    build.mkdir(exist_ok=True)
    stamp.write_text(json.dumps(new, indent=1) + "\n")
    return reason if old else ""


def own_kernel_settings(build: Path) -> Path:
    """Write the settings under which every chapter runs, instead of the reader's own; say where.

    Figures are SVG, sharp at any size. The kernel's remarks about itself are left out.
    """
    profile = build / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(
        'c = get_config()\nc.IPKernelApp.log_level = 40\nc.InlineBackend.figure_formats = {"svg"}\n'
    )
    return profile.parent


def build_book(root: Path) -> int:
    """Run Jupyter Book with warnings as errors; return its exit status."""
    started = time.monotonic()
    build = root / "_build"
    if reason := drop_stale(root, build):
        print(f"Note: {reason}.", flush=True)
    environment = os.environ | {
        "IPYTHONDIR": str(own_kernel_settings(build)),
        "JUPYTER_PREFER_ENV_PATH": "1",  # this environment's kernel, not the user's own
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    jupyter_book = Path(sys.executable).parent / "jupyter-book"
    command = [str(jupyter_book), "build", ".", "-W", "--keep-going"]
    status = subprocess.run(command, cwd=root, env=environment).returncode
    seconds = time.monotonic() - started
    if status:
        # A page once read is not read again, and then its warning would not come back.
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
        print(f"\nThe book was not built: see the warnings above ({seconds:.0f} s).")
        for report in sorted(build.glob("html/reports/**/*.err.log")):
            print(f"The traceback of a failing cell: {report.relative_to(root)}")
        return 1
    index = build / "html" / "index.html"
    print(f"\nThe book is built ({seconds:.0f} s). Open {index.relative_to(root)}")
    print(f"or paste this into a browser: {index.as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(build_book(ROOT))
