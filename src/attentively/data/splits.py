"""Training, validation and test splits that never share a sentence."""

import hashlib
from collections.abc import Iterable
from typing import Literal, get_args

Split = Literal["train", "validation", "test"]
SPLITS = get_args(Split)


def split_of(text: str, percent: int = 1) -> Split:
    """Return the split of a sentence, which depends only on its text.

    The split is a hash of its letters and digits, ignoring case. `percent` of all sentences are
    for validation, as many for testing, and the others for training.
    """
    letters = "".join(character for character in text.casefold() if character.isalnum())
    share = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:4]) % 100
    return "test" if share < percent else "validation" if share < 2 * percent else "train"


def check_split(split: str, known: Iterable[str] = SPLITS) -> None:
    """Raise `ValueError` for a split that is not `known`, with the known ones."""
    known = list(known)
    if split not in known:
        raise ValueError(
            f"split={split!r} is unknown: choose {', '.join(known[:-1])} or {known[-1]}"
        )
