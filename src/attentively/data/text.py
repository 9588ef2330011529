"""Plain text for language models: any UTF-8 file, and the plays of Shakespeare."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from attentively.data import download
from attentively.data.splits import check_split

SHAKESPEARE = "shakespeare"


def shakespeare(split: str) -> str:
    """Return one split of the plays: 90 % for training, 5 % for validation, 5 % for testing.

    Raises `ValueError` for an unknown split, and `DataError` if the data is not available.
    """
    check_split(split)  # before anything is downloaded
    (file,) = download.files_of(SHAKESPEARE)
    return part_of(download.read(file.path), split, SHAKESPEARE)


def part_of(text: str, split: str, name: str) -> str:
    """Return the first 90 % of a text as ``train``, the next 5 % as ``validation``, the rest as
    ``test``.

    The text is not shuffled, because a language model needs long contexts. `name` is for messages.
    Raises `ValueError` for an unknown split and for a text that is too short.
    """
    check_split(split)
    first, second = len(text) * 90 // 100, len(text) * 95 // 100
    if not 0 < first < second < len(text):
        raise ValueError(f"{name} has {len(text)} characters, too few to split into three parts")
    parts = {"train": text[:first], "validation": text[first:second], "test": text[second:]}
    return parts[split]


def read_text(path: Path | str) -> str:
    """Return the text of a UTF-8 file, without a byte-order mark.

    Carriage returns, alone or before a line feed, are line ends and become line feeds.

    Raises `ValueError` for a byte that is not UTF-8, with its location, and for an empty file.
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
        raise ValueError(f"{path} is empty")
    return text


def read_lines(path: Path | str) -> list[str]:
    """Return the lines of a UTF-8 file; reads and raises as `read_text`."""
    return read_text(path).removesuffix("\n").split("\n")


def lines_of(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of an open UTF-8 file as they arrive, without a byte-order mark.

    `name` is for messages. Raises `ValueError` for a byte that is not UTF-8, with its location.
    """
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} is not UTF-8: byte {line[error.start]:#04x} in line {number}"
            ) from None
        yield text.removeprefix("\ufeff") if number == 1 else text
