"""The real corpora fall into three splits, and no English sentence into two."""

import pytest

from attentively.data import tatoeba
from attentively.data.splits import SPLITS

COUNTS = {
    "tatoeba-en-fr": {"train": 163_775, "validation": 1_702, "test": 1_653},
    "tatoeba-en-es": {"train": 116_630, "validation": 1_193, "test": 1_141},
}
EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.real_data(name)) for name in COUNTS]
)


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split='dev' is unknown: choose train, validation or"):
        tatoeba.load("dev")


@EVERY
def test_counts(name):
    assert {split: len(tatoeba.load(split, name)) for split in SPLITS} == COUNTS[name]


@pytest.mark.real_data("tatoeba-en-fr")
def test_a_split_may_be_changed_without_harm():
    tatoeba.load("test").clear()
    assert len(tatoeba.load("test")) == 1_653


def in_two_splits(pairs):
    """Return how many English sentences, by letters and digits, two splits hold."""
    splits = {}
    for pair, split in pairs:
        letters = "".join(c for c in pair.src.casefold() if c.isalnum())
        splits.setdefault(letters, set()).add(split)
    return sum(len(found) > 1 for found in splits.values())


@pytest.mark.real_data("tatoeba-en-fr")
def test_no_english_sentence_is_in_two_splits():
    pairs = [(pair, split) for split in SPLITS for pair in tatoeba.load(split)]
    assert in_two_splits(pairs) == 0
    by_line = [(pair, SPLITS[number % 3]) for number, (pair, _) in enumerate(pairs)]
    assert in_two_splits(by_line) > 10_000  # a split by line leaks


@EVERY
def test_pairs_are_tidy(name):
    for split in ("validation", "test"):
        for pair in tatoeba.load(split, name):
            assert pair.src
            assert pair.tgt
            assert not {"\u00a0", "\u202f", "\t"} & set("".join(pair))
