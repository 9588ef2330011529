"""Data files by name: from a folder of yours, from the cache, or from the network.

Every file is checked against the SHA-256 of its text before it is used. A folder named in the
environment variable ``ATTENTIVELY_DATA`` is looked at first; it must be there.
"""

import gzip
import hashlib
import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pooch
import requests
from filelock import FileLock
from tqdm.auto import tqdm

from attentively.files import replacing

VARIABLE = "ATTENTIVELY_DATA"

pooch.get_logger().setLevel("WARNING")  # its notes on checksums are for programmers


@dataclass(frozen=True)
class DataFile:
    """One text file that can be had."""

    name: str
    path: str
    """Where it lies in a data folder; ``.gz`` beside it will do too."""
    sha256: str
    """Checksum of the text itself, whatever archive it came in."""
    url: str
    member: str
    """Its name inside the zip archive at `url`."""
    licence: str
    attribution: str


FILES = {
    file.name: file
    for file in [
        DataFile(
            name="tatoeba-en-fr",
            path="tatoeba/fra.txt",
            sha256="0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104",
            url="https://raw.githubusercontent.com/modelexlab/data/"
            "adddaf33ac35572bcfeb421efec29435e7ea9332/fra-eng.zip",
            member="fra-eng/fra.txt",
            licence="CC BY 2.0",
            attribution="tatoeba.org, by way of www.manythings.org/anki",
        ),
    ]
}


class DataError(RuntimeError):
    """Data that is not there, cannot be fetched, or is not what it should be."""


def find(name: str) -> Path | None:
    """Return where the file called `name` lies on this machine, or None."""
    file = _known(name)
    return _in_folder(_own_folder(), file) or _in_folder(cache_folder(), file)


def read(name: str) -> str:
    """Return the text of the file called `name`, fetching it if it is not at hand.

    A damaged copy in your own folder is refused, and left alone. Raises `DataError`.
    """
    file = _known(name)
    path = _in_folder(_own_folder(), file)
    if path is None:
        return fetch(name)
    content = _unpack(path, file)
    if content is None:
        raise DataError(f"{path} is damaged: its text does not have the checksum of {name}")
    return content


def fetch(name: str) -> str:
    """Return the text of the file called `name` from the cache, after downloading it if need be.

    An interrupted download goes on where it stopped; a corrupted one is refused and fetched
    once more from the beginning; a damaged copy in the cache is replaced. Raises `DataError`.
    """
    file = _known(name)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / f"{name}.lock"):  # a second process waits, then finds it
        cached = _in_folder(cache_folder(), file)
        if cached is not None:
            content = _unpack(cached, file)
            if content is not None:
                return content
            cached.unlink()
        for _ in range(2):
            archive = _download(file)
            content = _unpack(archive, file)
            archive.unlink()
            if content is not None:
                with replacing(cache_folder() / f"{file.path}.gz") as temporary:
                    temporary.write_bytes(gzip.compress(content.encode(), mtime=0))
                return content
    raise DataError(f"{file.url} does not hold what it should: the checksum of {name} is wrong")


def cache_folder() -> Path:
    """Return the folder where downloads are kept."""
    return Path(pooch.os_cache("attentively"))


def _known(name: str) -> DataFile:
    if name not in FILES:
        raise DataError(f"no data set is called {name!r}; there are {', '.join(sorted(FILES))}")
    return FILES[name]


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
        elif path.suffix == ".gz":
            content = gzip.decompress(content)
    except Exception:  # a damaged archive fails in any of a dozen ways
        return None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return None
    return content.decode("utf-8")


def _download(file: DataFile) -> Path:
    try:
        archive = pooch.retrieve(
            file.url,
            known_hash=None,  # the text inside is checked, not the archive around it
            fname=f"{file.name}.zip",
            path=cache_folder(),
            downloader=_resuming_downloader,
        )
    except requests.RequestException as error:
        raise DataError(
            f"{file.name} could not be fetched ({type(error).__name__}). Without a network, put "
            f"{file.path} (from {file.url}) into a folder and name it in {VARIABLE}."
        ) from error
    return Path(archive)


def _resuming_downloader(url: str, output_file: str, _: object) -> None:
    """Download for pooch, going on from a part that an earlier attempt left behind."""
    part = cache_folder() / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"
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
