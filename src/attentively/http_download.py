"""Download a file by HTTP: resume what was interrupted, and explain what failed."""

import hashlib
from pathlib import Path

import requests
from filelock import FileLock
from requests.exceptions import ChunkedEncodingError, HTTPError, RequestException
from tqdm.auto import tqdm


def key(url: str) -> str:
    """Return a short file name for a download from `url`."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def download(url: str, output_file: str, _: object = None) -> None:
    """Download for pooch, resuming from the part that an earlier attempt left.

    The part is kept next to `output_file`. A second process waits until the first has finished.
    """
    part = Path(output_file).with_name(f"{key(url)}.part")
    with FileLock(part.with_suffix(".part.lock")):
        _resume(url, part)
        part.replace(output_file)


def _resume(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    # "identity": a range counts the bytes of the file, not of a compressed transfer.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=30) as response:
        if have and response.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()  # it is not a part of this file
            return _resume(url, part)
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
                leave=False,  # no bar next to the message of an error
                delay=0.5,
            ) as bar,
        ):
            for block in response.iter_content(1 << 16):
                file.write(block)
                bar.update(len(block))


def explanation(url: str, error: RequestException) -> str:
    """Say why a download failed, and what to do."""
    if isinstance(error, HTTPError) and error.response is not None:
        reason = f"the server answers {error.response.status_code} {error.response.reason}"
    elif isinstance(error, ChunkedEncodingError):
        reason = "the connection was interrupted"
    else:
        reason = "there is no connection to the server"
    return f"cannot download {url}: {reason}. Check the network connection and try again"


def wrong_checksum(url: str) -> str:
    """Say that the server sent another file than the one that is listed."""
    return (
        f"the checksum of {url} is wrong: the server sent another file, or the network sent its "
        "login page. Nothing was kept"
    )
