"""Tatoeba: short everyday sentences in English with translations into French or Spanish.

The sentences are by the contributors of tatoeba.org, collected by manythings.org/anki, and
licensed CC BY 2.0.
"""

from functools import cache

from attentively.data import download
from attentively.data.pairs import Pair, parse_pairs
from attentively.data.splits import SPLITS, check_split, split_of

NAME = "tatoeba-en-fr"


def load(split: str, name: str = NAME) -> list[Pair]:
    """Return one split: 98 % of the pairs for training, 1 % for validation, 1 % for testing.

    `name` is ``tatoeba-en-fr`` or ``tatoeba-en-es``; the source is English. The split depends on
    the English sentence, ignoring case and punctuation, so that no English sentence occurs in two
    splits. Raises `ValueError` for an unknown split, and `DataError` if the data is not available.
    """
    check_split(split)
    return list(_by_split(name)[split])


@cache
def _by_split(name: str) -> dict[str, list[Pair]]:
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    (file,) = download.files_of(name)
    for pair in parse_pairs(download.read(file.path).split("\n"), name):
        splits[split_of(pair.src)].append(pair)
    return splits
