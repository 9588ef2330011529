"""A sentence and its translation, and files full of them."""

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
    """Read ``source<TAB>target`` lines; columns after the second are left aside.

    Raises `ValueError` naming the line that has no tab or lacks a side, the byte that is not
    UTF-8, or an empty file.
    """
    return parse_pairs(read_lines(path), str(path))


def parse_pairs(lines: Sequence[str], name: str) -> list[Pair]:
    """Read pairs from lines of ``source<TAB>target``; `name` is for messages."""
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
                raise ValueError(f"line {number} of {name} has a tab, but no {side}")
        pairs.append(pair)
    return pairs


def read_parallel(src_path: Path | str, tgt_path: Path | str) -> list[Pair]:
    """Read two files of which each line of one is the translation of that line of the other.

    Raises `ValueError` for files that differ in their number of lines, naming a line that is
    empty, the byte that is not UTF-8, or an empty file.
    """
    names = str(src_path), str(tgt_path)
    return pair_up(read_lines(src_path), read_lines(tgt_path), names)


def pair_up(src: Sequence[str], tgt: Sequence[str], names: tuple[str, str]) -> list[Pair]:
    """Make each line of `src` a pair with that line of `tgt`; `names` are for messages."""
    if len(src) != len(tgt):
        raise ValueError(
            f"{names[0]} has {len(src)} lines and {names[1]} has {len(tgt)}: "
            "the same line of both should hold one sentence and its translation"
        )
    pairs = []
    rows = when_slow(zip(src, tgt, strict=True), names[0], total=len(src))
    for number, lines in enumerate(rows, start=1):
        pair = Pair(*map(tidy, lines))
        for name, text in zip(names, pair, strict=True):
            if not text:
                raise ValueError(f"line {number} of {name} is empty: take it out of both files")
        pairs.append(pair)
    return pairs


def translations_by_source(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """Return every translation of each source, both in the order in which they come."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.src, []).append(pair.tgt)
    return found


def tidy(text: str) -> str:
    """Write every space as one plain space; French puts no-break ones before ``?`` and ``!``."""
    return " ".join(text.split())
