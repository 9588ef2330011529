"""Plain text for language models: any UTF-8 file, and the plays of Shakespeare."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from attentively.data import download
from attentively.data.splits import check_split

SHAKESPEARE = "shakespeare"


def shakespeare(split: str) -> str:
    """Return 90 % of the plays to train on, or 5 % to validate with or to test, by `part_of`.

    Raises `ValueError` for an unknown split, and `DataError` where the data cannot be had.
    """
    check_split(split)  # before anything is fetched
    (file,) = download.files_of(SHAKESPEARE)
    return part_of(download.read(file.path), split, SHAKESPEARE)


def part_of(text: str, split: str, name: str) -> str:
    """Return the first 90 % of a text as ``train``, the next 5 % as ``validation``, the rest.

    A text is cut in two places and never shuffled, since a model of language reads on and on.
    `name` is for messages. Raises `ValueError` for an unknown split and for a text too short
    to be cut.
    """
    check_split(split)
    first, second = len(text) * 90 // 100, len(text) * 95 // 100
    if not 0 < first < second < len(text):
        raise ValueError(f"{name} has {len(text)} characters: too few to cut into three parts")
    parts = {"train": text[:first], "validation": text[first:second], "test": text[second:]}
    return parts[split]


def read_text(path: Path | str) -> str:
    """Return the text of a UTF-8 file, without a byte-order mark.

    Carriage returns, alone or before a line feed, are line ends and become line feeds.

    Raises `ValueError` naming the first byte that is not UTF-8, or an empty file.
    """
    content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte {content[error.start]:#04x} at offset {error.start}, "
            f"in line {line}"
        ) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise ValueError(f"{path} holds no text: it is empty")
    return text


def read_lines(path: Path | str) -> list[str]:
    """Return the lines of a UTF-8 file, which line feeds end. Reads and raises as `read_text`."""
    return read_text(path).removesuffix("\n").split("\n")


def lines_of(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of an open UTF-8 file as they come, without a byte-order mark.

    `name` is for messages. Raises `ValueError` naming the first byte that is not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} is not UTF-8: byte {line[error.start]:#04x} in line {number}"
            ) from None
        yield text.removeprefix("\ufeff") if number == 1 else text
