"""Find data files by name: in a folder of your own, in the cache, or on the network.

Every file is checked against the SHA-256 of its text before it is used. A folder named in the
environment variable ``ATTENTIVELY_DATA`` is looked at first; it must be there.
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
import requests
from filelock import FileLock
from tqdm.auto import tqdm

from attentively.atomic_files import replacing
from attentively.data.catalogue import FILES, SETS, DataFile

VARIABLE = "ATTENTIVELY_DATA"

pooch.get_logger().setLevel("WARNING")  # its notes on checksums are for programmers


class DataError(RuntimeError):
    """Data that is not there, cannot be fetched, or is not what it should be."""


class Found(NamedTuple):
    """A file, where it lies on this machine, and whether it is what it should be."""

    file: DataFile
    path: Path | None
    state: Literal["present", "damaged", "missing"]


def files_of(name: str) -> tuple[DataFile, ...]:
    """Return the files of the data set called `name`, or the one file of that path."""
    if name in SETS:
        return SETS[name].files
    if name in FILES:
        return (FILES[name],)
    raise DataError(f"no data set is called {name!r}; there are {', '.join(sorted(SETS))}")


def find(path: str) -> Path | None:
    """Return where the file called `path` lies on this machine, or None."""
    file = _known(path)
    return _in_folder(_own_folder(), file) or _in_folder(cache_folder(), file)


def check(name: str) -> list[Found]:
    """Look for every file of the data set called `name`, and read what is there."""
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
    """Return the text of the file called `path`, fetching it if it is not at hand.

    A damaged copy in your own folder is refused, and left alone. Raises `DataError`.
    """
    file = _known(path)
    own = _in_folder(_own_folder(), file)
    if own is None:
        return fetch(path)
    text = _unpack(own, file)
    if text is None:
        raise DataError(f"{own} is damaged: its text does not have the checksum of {path}")
    return text


def fetch(path: str) -> str:
    """Return the text of the file called `path` from the cache, after downloading it if need be.

    An interrupted download goes on where it stopped; a corrupted one is refused and fetched
    once more from the beginning; a damaged copy in the cache is replaced. Raises `DataError`.
    """
    file = _known(path)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with FileLock(
        cache_folder() / f"{_key(file.url)}.lock"
    ):  # a second process waits, then finds it
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
    raise DataError(f"{file.url} does not hold what it should: the checksum of {path} is wrong")


def cache_folder() -> Path:
    """Return the folder where downloads are kept."""
    return Path(pooch.os_cache("attentively"))


def _known(path: str) -> DataFile:
    if path not in FILES:
        raise DataError(f"no data file is called {path!r}; there are {', '.join(sorted(FILES))}")
    return FILES[path]


def _own_folder() -> Path | None:
    folder = os.environ.get(VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{VARIABLE}={folder} is no folder")
    return Path(folder) if folder else None


def _in_folder(folder: Path | None, file: DataFile) -> Path | None:
    if folder is None:
        return None
    candidates = (folder / (file.path + suffix) for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _unpack(path: Path, file: DataFile) -> str | None:
    """Return the text inside `path`, or None where it is damaged."""
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
    except Exception:  # a damaged archive fails in any of a dozen ways
        return None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return None
    return content.decode("utf-8")


def _key(url: str) -> str:
    """Return a short name for what is on its way from `url`."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def _download(file: DataFile) -> Path:
    kinds = (kind for kind in (".zip", ".tar.gz", ".gz") if file.url.endswith(kind))
    try:
        archive = pooch.retrieve(
            file.url,
            known_hash=None,  # the text inside is checked, not the archive around it
            fname=_key(file.url) + next(kinds, ".txt"),
            path=cache_folder(),
            downloader=_resuming_downloader,
        )
    except requests.RequestException as error:
        raise DataError(
            f"{file.path} could not be fetched ({type(error).__name__}). Without a network, put "
            f"{file.path} (from {file.url}) into a folder and name it in {VARIABLE}."
        ) from error
    return Path(archive)


def _resuming_downloader(url: str, output_file: str, _: object) -> None:
    """Download for pooch, going on from a part that an earlier attempt left behind."""
    part = cache_folder() / f"{_key(url)}.part"
    have = part.stat().st_size if part.exists() else 0
    # "identity": a range counts the bytes of the file, not of a form compressed on the way.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=30) as response:
        if have and response.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()  # it is no beginning of this file
            return _resuming_downloader(url, output_file, _)
        response.raise_for_status()
        resumed = response.status_code == requests.codes.partial_content
        length = response.headers.get("Content-Length")
        start = have if resumed else 0
        with (
            part.open("ab" if resumed else "wb") as file,
            tqdm(
                total=start + int(length) if length else None,
                initial=start,
                unit="B",
                unit_scale=True,
                desc=url.rsplit("/", 1)[-1],
            ) as bar,
        ):
            for block in response.iter_content(1 << 16):
                file.write(block)
                bar.update(len(block))
    part.replace(output_file)
