"""Store the result of each run in a file whose name is a hash of all inputs of the run.

A second run finds the result, unless a test, an answer, a package or a limit has changed. Files are
written atomically. Several runs may write at the same time, because they write the same content.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attentively_grader.course.course import CourseError
from attentively_grader.jobs import Limits, Outcome

WRITING = ".writing"
"""Suffix of a file that is being written."""
OLD = 60.0
"""Seconds after which such a file is abandoned."""
FORMAT = 2
"""Version of the stored results; increased when their meaning changes."""


def fingerprint(folder: Path) -> str:
    """Return a hash of all files in a folder except ``__pycache__``."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def environment() -> dict[str, str]:
    """Return Python's version and a hash of the versions of all installed packages."""
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
    """Return the name of the result for this notebook under these conditions.

    `depends_on` maps further inputs (files, packages, folders) to their hashes.
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
    """A folder of stored results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a result."""
        return self.folder / name[:2] / f"{name}.json"

    def find(self, name: str) -> Outcome | None:
        """Return a result; None if there is none in the present format."""
        try:
            content = json.loads(self.path(name).read_text(encoding="utf-8"))
            if content["key"] == name:
                return Outcome.from_dict(content["outcome"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def keep(self, name: str, outcome: Outcome) -> None:
        """Store a result; raise `CourseError` if it cannot be written."""
        content = {"key": name, "outcome": outcome.to_dict()}
        write_whole(self.path(name), json.dumps(content))


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files of killed runs, but not files that are being written."""
    for path in folder.rglob(f"*{WRITING}"):
        with contextlib.suppress(OSError):  # another run may do the same
            if time.time() - path.stat().st_mtime > OLD:
                path.unlink()


@contextmanager
def scratch_folder(kept: Path) -> Iterator[Path]:
    """Create a private folder for copies of submissions; remove those of killed runs.

    Each run holds a lock on its folder, because several may use the same course.
    """
    folder = kept / "scratch"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    with ExitStack() as stack:
        with open(folder / "lock", "w") as changing:
            fcntl.flock(changing, fcntl.LOCK_EX)
            for left in [each for each in folder.iterdir() if each.is_dir()]:
                _remove_if_left(left)
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            file = stack.enter_context(open(own.with_suffix(".lock"), "w"))
            stack.callback(own.with_suffix(".lock").unlink, missing_ok=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield own


def _remove_if_left(folder: Path) -> None:
    """Remove the folder of a run that has ended."""
    lock = folder.with_suffix(".lock")
    with open(lock, "w") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically, also if another process writes the same file.

    Raises `CourseError` if the disk is full or not writable.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # JSON may contain lone surrogates, which UTF-8 cannot encode.
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
            f"{path.name} cannot be written: {error.strerror}. All results so far are kept. Free "
            "disk space or correct the permissions, then repeat the command"
        ) from None
