"""Real sentences from Tatoeba, short and everyday: English with French or with Spanish.

The sentences are by the contributors of tatoeba.org, collected by manythings.org/anki, and
licensed CC BY 2.0.
"""

from functools import cache

from attentively.data import download
from attentively.data.pairs import Pair, parse_pairs
from attentively.data.splits import SPLITS, check_split, split_of

NAME = "tatoeba-en-fr"


def load(split: str, name: str = NAME) -> list[Pair]:
    """Return the pairs of one split: 98 % to train on, 1 % to validate with, 1 % to test.

    `name` is ``tatoeba-en-fr`` or ``tatoeba-en-es``; the source is English. The English side
    decides which split, capitals and punctuation aside, so no English sentence of
    one split occurs in another, however often it is translated. Raises `ValueError` for an
    unknown split, and `DataError` where the data cannot be had.
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
