"""Sentence pairs: a sentence and its translation, and the files that contain them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from attentively.data.progress_bar import when_slow
from attentively.data.text import read_lines


class Pair(NamedTuple):
    """A source sentence and its translation, as text."""

    src: str
    tgt: str


def read_pairs(path: Path | str) -> list[Pair]:
    """Read ``source<TAB>target`` lines; columns after the second are ignored.

    Raises `ValueError` for a line without a tab or with an empty side, a byte that is not UTF-8,
    and an empty file, with the location.
    """
    return parse_pairs(read_lines(path), str(path))


def parse_pairs(lines: Sequence[str], name: str) -> list[Pair]:
    """Parse lines of ``source<TAB>target``; `name` is for messages."""
    pairs = []
    for number, line in enumerate(when_slow(lines, name), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise ValueError(f"line {number} of {name} has no tab between source and target")
        pair = Pair(tidy(columns[0]), tidy(columns[1]))
        for side, text in zip(("source", "target"), pair, strict=True):
            if not text:
                raise ValueError(f"line {number} of {name} has an empty {side}")
        pairs.append(pair)
    return pairs


def read_parallel(src_path: Path | str, tgt_path: Path | str) -> list[Pair]:
    """Read two parallel files, whose lines are translations of each other.

    Raises `ValueError` for different numbers of lines, an empty line, a byte that is not UTF-8,
    and an empty file, with the location.
    """
    names = str(src_path), str(tgt_path)
    return pair_up(read_lines(src_path), read_lines(tgt_path), names)


def pair_up(src: Sequence[str], tgt: Sequence[str], names: tuple[str, str]) -> list[Pair]:
    """Pair the lines of `src` and `tgt`; `names` are for messages."""
    if len(src) != len(tgt):
        raise ValueError(
            f"{names[0]} has {len(src)} lines but {names[1]} has {len(tgt)}: "
            "line n of one must be the translation of line n of the other"
        )
    pairs = []
    rows = when_slow(zip(src, tgt, strict=True), names[0], total=len(src))
    for number, lines in enumerate(rows, start=1):
        pair = Pair(*map(tidy, lines))
        for name, text in zip(names, pair, strict=True):
            if not text:
                raise ValueError(f"line {number} of {name} is empty: remove it from both files")
        pairs.append(pair)
    return pairs


def translations_by_source(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """Return all translations of each source, in their original order."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.src, []).append(pair.tgt)
    return found


def tidy(text: str) -> str:
    """Replace all white space by single spaces, such as the no-break spaces of French."""
    return " ".join(text.split())
