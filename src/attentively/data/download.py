"""Find data files by name: in your own folder, in the cache, or on the network.

The SHA-256 checksum of every text is verified before use. The folder named in the environment
variable ``ATTENTIVELY_DATA`` is searched first; it must exist.
"""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Literal, NamedTuple

import pooch
from filelock import FileLock
from requests import RequestException

from attentively import http_download
from attentively.atomic_files import replacing
from attentively.data.catalogue import FILES, SETS, DataFile
from attentively.pretrained_files import VARIABLE as VARIABLE
from attentively.pretrained_files import without_network

pooch.get_logger().setLevel("WARNING")  # without its notes on checksums


class DataError(RuntimeError):
    """Data is missing, cannot be downloaded, or is damaged."""


class Found(NamedTuple):
    """A file, its path on this machine, and its state."""

    file: DataFile
    path: Path | None
    state: Literal["present", "damaged", "missing"]


def files_of(name: str) -> tuple[DataFile, ...]:
    """Return the files of the data set called `name`, or the one file of that path."""
    if name in SETS:
        return SETS[name].files
    if name in FILES:
        return (FILES[name],)
    raise DataError(f"no data set is called {name!r}: choose one of {', '.join(sorted(SETS))}")


def find(path: str) -> Path | None:
    """Return the location of the file called `path` on this machine, or None."""
    file = _known(path)
    return _in_folder(_own_folder(), file) or _in_folder(cache_folder(), file)


def check(name: str) -> list[Found]:
    """Find every file of the data set called `name`, and verify its checksum."""
    found = []
    for file in files_of(name):
        path = find(file.path)
        if path is None:
            found.append(Found(file, None, "missing"))
        else:
            damaged = _unpack(path, file) is None
            found.append(Found(file, path, "damaged" if damaged else "present"))
    return found


def read(path: str) -> str:
    """Return the text of the file called `path`, downloading it if necessary.

    A damaged copy in your own folder raises `DataError` and is not modified.
    """
    file = _known(path)
    own = _in_folder(_own_folder(), file)
    if own is None:
        return fetch(path)
    text = _unpack(own, file)
    if text is None:
        raise DataError(
            f"{own} is damaged: its checksum differs from that of {path}; replace the file"
        )
    return text


def fetch(path: str) -> str:
    """Return the text of the file called `path` from the cache, downloading it if necessary.

    An interrupted download is resumed; a corrupted one is downloaded once more; a damaged copy in
    the cache is replaced. Raises `DataError` if this fails.
    """
    file = _known(path)
    cache_folder().mkdir(parents=True, exist_ok=True)
    # A second process waits, then finds the text.
    with FileLock(cache_folder() / f"{http_download.key(file.url)}.lock"):
        cached = _in_folder(cache_folder(), file)
        if cached is not None:
            text = _unpack(cached, file)
            if text is not None:
                return text
            cached.unlink()
        for _ in range(2):
            archive = _download(file)
            text = _unpack(archive, file)
            archive.unlink()
            if text is not None:
                with replacing(cache_folder() / f"{file.path}.gz") as temporary:
                    temporary.write_bytes(gzip.compress(text.encode(), mtime=0))
                return text
    raise DataError(f"{http_download.wrong_checksum(file.url)}. {_offline(file)}")


def cache_folder() -> Path:
    """Return the folder where downloads are kept."""
    return Path(pooch.os_cache("attentively"))


def _known(path: str) -> DataFile:
    if path not in FILES:
        raise DataError(
            f"no data file is called {path!r}: choose one of {', '.join(sorted(FILES))}"
        )
    return FILES[path]


def _own_folder() -> Path | None:
    folder = os.environ.get(VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{VARIABLE}={folder} is not a folder")
    return Path(folder) if folder else None


def _in_folder(folder: Path | None, file: DataFile) -> Path | None:
    if folder is None:
        return None
    candidates = (folder / (file.path + suffix) for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _unpack(path: Path, file: DataFile) -> str | None:
    """Return the text inside `path`, or None if it is damaged."""
    content = path.read_bytes()
    try:
        if path.suffix == ".zip":
            content = zipfile.ZipFile(io.BytesIO(content)).read(file.member)
        elif path.name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                member = archive.extractfile(file.member)
                content = member.read() if member else b""
        elif path.suffix == ".gz":
            content = gzip.decompress(content)
    except Exception:  # a damaged archive can raise many kinds of errors
        return None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return None
    return content.decode("utf-8")


def _download(file: DataFile) -> Path:
    kinds = (kind for kind in (".zip", ".tar.gz", ".gz") if file.url.endswith(kind))
    try:
        archive = pooch.retrieve(
            file.url,
            known_hash=None,  # the text inside is verified, not the archive
            fname=http_download.key(file.url) + next(kinds, ".txt"),
            path=cache_folder(),
            downloader=http_download.download,
        )
    except RequestException as error:
        raise DataError(f"{http_download.explanation(file.url, error)}. {_offline(file)}") from None
    return Path(archive)


def _offline(file: DataFile) -> str:
    what = f"{file.member} of this archive" if file.member else "the file"
    return without_network(file.path, what)
