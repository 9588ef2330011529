"""Files that are replaced whole or not at all."""

import os
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"nothing can be written to {path.parent}: {error.strerror}") from error


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary file to write, which takes the place of `path` if all went well.

    A full disk, an error or an interrupt leaves what stood at `path` before.
    """
    path = Path(path)
    check_replaceable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp makes files that only their owner may read
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
