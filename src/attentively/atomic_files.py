"""Atomic files: a file is replaced whole or not at all."""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_replaceable(path: Path | str) -> None:
    """Make the folder of `path`; raise `OSError` where `replacing` could not write.

    Long work asks this first, so that it is not lost in the end.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file that another could replace")
    path = _target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"nothing can be written to {path.parent}: {error.strerror}") from error


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary file to write, which takes the place of `path` if all went well.

    A full disk, an error or an interrupt leaves what stood at `path` before. Who may read and
    write the file stays as it was; a link stays one, and what it leads to is replaced.
    """
    check_replaceable(path)
    path = _target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.touch(exist_ok=False)
    try:
        mode = stat.S_IMODE((path if path.exists() else temporary).stat().st_mode)
        temporary.chmod(0o600)  # until it is whole, nobody else need read it
        yield temporary
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _target(path: Path | str) -> Path:
    """Return the file itself, where `path` may be a link to it."""
    return Path(os.path.realpath(path))
