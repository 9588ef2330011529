"""Multi30k: captions of photographs in English, German and French.

Elliott et al. (2016), https://aclanthology.org/W16-3210, and (2017),
https://aclanthology.org/W17-4718. For non-commercial research and education only, without
redistribution: see ``attentively data list``.
"""

from attentively.data import download
from attentively.data.pairs import Pair, pair_up
from attentively.data.splits import check_split

LANGUAGES = ("en", "de", "fr")
FILES = {
    "train": "train",
    "validation": "val",
    "test": "test_2016_flickr",
    "test_2017": "test_2017_flickr",
}
"""The file name of each split, without the language suffix."""


def load(split: str, src: str, tgt: str) -> list[Pair]:
    """Return the captions of one split in two languages: ``en``, ``de`` or ``fr``.

    There are 29,000 pairs in ``train``, 1,014 in ``validation``, 1,000 in ``test`` (that of
    2016, which papers report) and 1,000 in ``test_2017``. Raises `ValueError` for an unknown
    split or language, and `DataError` if the data is not available.
    """
    check_split(split, FILES)
    for language in (src, tgt):
        if language not in LANGUAGES:
            raise ValueError(f"language {language!r} is unknown: choose en, de or fr")
    if src == tgt:
        raise ValueError(f"src and tgt are both {src!r}: a translation needs two languages")
    names = f"multi30k/{FILES[split]}.{src}", f"multi30k/{FILES[split]}.{tgt}"
    ours, theirs = (download.read(name).removesuffix("\n").split("\n") for name in names)
    return pair_up(ours, theirs, names)
