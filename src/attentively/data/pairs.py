"""A sentence and its translation, and files full of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """A source sentence and its translation, as text."""

    src: str
    tgt: str


def read_pairs(path: Path | str) -> list[Pair]:
    """Read ``source<TAB>target`` lines; columns after the second are left aside.

    Raises `ValueError` naming the line that has no tab, or an empty file.
    """
    pairs = parse_pairs(Path(path).read_text(encoding="utf-8").split("\n"), str(path))
    if not pairs:
        raise ValueError(f"{path} holds no sentence pair")
    return pairs


def parse_pairs(lines: Iterable[str], name: str) -> list[Pair]:
    """Read pairs from lines of ``source<TAB>target``; `name` is for messages."""
    pairs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise ValueError(f"line {number} of {name} has no tab between source and target")
        pairs.append(Pair(tidy(columns[0]), tidy(columns[1])))
    return pairs


def tidy(text: str) -> str:
    """Write every space as one plain space; French puts no-break ones before ``?`` and ``!``."""
    return " ".join(text.split())
