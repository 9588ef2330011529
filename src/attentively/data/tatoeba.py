"""Real sentences: English–French pairs from Tatoeba, short and everyday.

The sentences are by the contributors of tatoeba.org, collected by manythings.org/anki, and
licensed CC BY 2.0.
"""

import hashlib
from functools import cache
from typing import Literal, get_args

from attentively.data import download
from attentively.data.pairs import Pair, parse_pairs

NAME = "tatoeba-en-fr"
Split = Literal["train", "validation", "test"]
SPLITS = get_args(Split)


def load(split: str) -> list[Pair]:
    """Return the pairs of one split: 98 % to train on, 1 % to validate with, 1 % to test.

    The English side decides which, capitals and punctuation aside, so no English sentence of
    one split occurs in another, however often it is translated. Raises `ValueError` for an
    unknown split, and `DataError` where the data cannot be had.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is unknown: choose train, validation or test")
    return list(_by_split()[split])


def split_of(english: str) -> Split:
    """Return the split that an English sentence belongs to."""
    letters = "".join(character for character in english.casefold() if character.isalnum())
    share = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:4]) % 100
    return "test" if share == 0 else "validation" if share == 1 else "train"


@cache
def _by_split() -> dict[str, list[Pair]]:
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for pair in parse_pairs(download.read(NAME).split("\n"), NAME):
        splits[split_of(pair.src)].append(pair)
    return splits
