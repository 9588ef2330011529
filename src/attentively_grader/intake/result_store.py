"""Keep the result of each run in a file whose name is a hash of everything that was run.

So a second run finds the result, unless a test, an answer, a package or a limit has changed. A
file appears whole or not at all; several runs may write at once, since they write the same.
"""

import contextlib
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attentively_grader.course.course import CourseError
from attentively_grader.jobs import Limits, Outcome

WRITING = ".writing"
"""How the name of a file ends that is not written yet."""
OLD = 60.0
"""Seconds after which nobody is writing it any more."""
FORMAT = 2
"""Counted up when what is kept, or how a notebook is run, changes its meaning."""


def fingerprint(folder: Path) -> str:
    """Return a hash of every file in a folder, but for what Python leaves there as it runs."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def environment() -> dict[str, str]:
    """Return what is installed, in few words: Python, and a hash of all packages' versions."""
    installed = sorted(
        path.name
        for folder in {Path(each) for each in sys.path if each}
        if folder.is_dir()
        for path in folder.glob("*.dist-info")
    )
    packages = hashlib.sha256("\n".join(installed).encode()).hexdigest()
    return {"python": platform.python_version(), "packages": packages}


def key(
    notebook: Mapping[str, Any],
    limits: Limits,
    sandboxed: bool,
    depends_on: Mapping[str, str],
) -> str:
    """Return the name of the result of running this notebook under these conditions.

    `depends_on` has the hashes of whatever it uses besides: files, packages, folders.
    """
    everything = {
        "format": FORMAT,
        "notebook": notebook,
        "limits": asdict(limits),
        "sandboxed": sandboxed,
        "depends on": dict(depends_on),
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


class Results:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return where a result lies."""
        return self.folder / name[:2] / f"{name}.json"

    def find(self, name: str) -> Outcome | None:
        """Return a result; None if there is none, or it is not as this version writes it."""
        try:
            content = json.loads(self.path(name).read_text(encoding="utf-8"))
            if content["key"] == name:
                return Outcome.from_dict(content["outcome"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def keep(self, name: str, outcome: Outcome) -> None:
        """Keep a result. Raises `CourseError` where it cannot be written."""
        content = {"key": name, "outcome": outcome.to_dict()}
        write_whole(self.path(name), json.dumps(content))


def remove_leftovers(folder: Path) -> None:
    """Remove what runs that were killed had begun to write; what is being written stays."""
    for path in folder.rglob(f"*{WRITING}"):
        with contextlib.suppress(OSError):  # another run may do the same
            if time.time() - path.stat().st_mtime > OLD:
                path.unlink()


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whoever else writes it.

    Raises `CourseError` where the disk is full or may not be written to.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # JSON may hold halves of characters, which UTF-8 has no way to write.
        content = text.encode("utf-8", "replace")
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=WRITING, delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise CourseError(
            f"{path.name} cannot be written: {error.strerror}. What was graded so far is kept; "
            "make room and run this again"
        ) from None
