"""Files that are replaced whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary file to write, which takes the place of `path` if all went well.

    A full disk, an error or an interrupt leaves what stood at `path` before.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
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
