"""Atomic files: a file is replaced completely or not at all."""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_replaceable(path: Path | str) -> None:
    """Create the folder of `path`; raise `OSError` if `replacing` could not write there.

    A long computation calls this first, so that its result is not lost at the end.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file, so it cannot be replaced")
    path = _target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"cannot write to {path.parent}: {error.strerror}") from error


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary file to write, which replaces `path` if no error occurred.

    A full disk, an error or an interrupt leaves the earlier file unchanged. Its permissions are
    kept; a symbolic link is kept, and its target is replaced.
    """
    check_replaceable(path)
    path = _target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.touch(exist_ok=False)
    try:
        mode = stat.S_IMODE((path if path.exists() else temporary).stat().st_mode)
        temporary.chmod(0o600)  # private until it is complete
        yield temporary
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _target(path: Path | str) -> Path:
    """Return the file itself if `path` is a link to it."""
    return Path(os.path.realpath(path))
