"""Training, validation and test splits that never share a sentence."""

import hashlib
from collections.abc import Iterable
from typing import Literal, get_args

Split = Literal["train", "validation", "test"]
SPLITS = get_args(Split)


def split_of(text: str, percent: int = 1) -> Split:
    """Return the split that a sentence belongs to, wherever it stands and however often.

    Its letters and digits alone decide, capitals aside. `percent` of all sentences are to
    validate with, as many to test, and the others to train on.
    """
    letters = "".join(character for character in text.casefold() if character.isalnum())
    share = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:4]) % 100
    return "test" if share < percent else "validation" if share < 2 * percent else "train"


def check_split(split: str, known: Iterable[str] = SPLITS) -> None:
    """Raise `ValueError`, naming those there are, for a split that is not `known`."""
    known = list(known)
    if split not in known:
        raise ValueError(
            f"split={split!r} is unknown: choose {', '.join(known[:-1])} or {known[-1]}"
        )
