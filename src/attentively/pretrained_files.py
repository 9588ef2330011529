"""The files of pretrained models and word vectors: in the package, or downloaded.

``pretrained/registry.txt`` lists each file with its SHA-256 checksum, in the format of pooch. A
small wheel leaves the files out; each is then downloaded at first use.
"""

import os
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).parent / "pretrained"
# The rows of `attentively models`, so that listing the models needs none of their files.
TABLE = FOLDER / "models.json"
VARIABLE = "ATTENTIVELY_DATA"


class DownloadError(OSError):
    """The file is not part of this installation, and it cannot be downloaded now."""


def names(folder: str) -> list[str]:
    """Return the names, without suffixes, of the files in "vectors/" or, for "", of the models."""
    paths = (line.partition(" ")[0] for line in _registry().read_text().splitlines())
    found = (path.removesuffix(".safetensors").rpartition("/") for path in paths)
    return sorted(name for parent, slash, name in found if parent + slash == folder)


def find(path: str) -> Path:
    """Return the location of a file, downloading it if it is not in the package.

    The folder ``pretrained`` inside the one that ``ATTENTIVELY_DATA`` names is searched too. A
    download is kept in pooch's cache and verified by its checksum; an interrupted one is resumed.
    Raises `DownloadError` if the file is neither here nor can be downloaded.
    """
    own = Path(os.environ.get(VARIABLE) or os.devnull) / "pretrained" / path
    for place in (FOLDER / path, own):
        if place.is_file():
            return place
    return _downloaded(path)


def without_network(path: str, what: str = "the file") -> str:
    """Say where a file that cannot be downloaded is looked for."""
    return (
        f"Without a network, copy {what} to {path} in a folder, and set {VARIABLE} to that folder"
    )


def _downloaded(path: str) -> Path:
    import pooch  # takes a tenth of a second, and most installations contain the files
    from requests import RequestException

    from attentively import http_download

    address = _address()
    files = pooch.create(pooch.os_cache("attentively") / "pretrained", address)
    files.load_registry(_registry())
    help_offline = without_network(f"pretrained/{path}")
    if not address and not (files.abspath / path).is_file():
        raise DownloadError(
            f"{path} is not part of this installation, and the package names no address to "
            f"download it from. {help_offline}"
        )
    url = files.get_url(path)
    try:
        return Path(files.fetch(path, downloader=http_download.download))
    except RequestException as error:
        raise DownloadError(f"{http_download.explanation(url, error)}. {help_offline}") from None
    except ValueError:  # pooch keeps no file whose checksum is wrong
        raise DownloadError(f"{http_download.wrong_checksum(url)}. {help_offline}") from None


def _address() -> str:
    """Return the address of the folder of this version's files; empty if none is known."""
    about = metadata.metadata("attentively")
    urls = dict(each.split(", ", 1) for each in about.get_all("Project-URL") or ())
    if "Repository" not in urls:
        return ""
    return f"{urls['Repository']}/raw/v{about['Version']}/src/attentively/pretrained/"


def _registry() -> Path:
    return FOLDER / "registry.txt"
