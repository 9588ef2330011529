"""The real corpus falls into three splits, and no English sentence into two."""

from collections import Counter

import pytest

from attentively.data import tatoeba
from attentively.data.tatoeba import SPLITS


# The shipped checkpoints were trained on the split as it is: it must never change.
@pytest.mark.parametrize(
    ("english", "split"),
    [
        ("Go.", "train"),
        ("I do not like milk.", "train"),
        ("Run!", "validation"),
        ("We won.", "validation"),
        ("Trust me.", "test"),
        ("Here I am.", "test"),
    ],
)
def test_the_split_of_a_sentence_never_changes(english, split):
    assert tatoeba.split_of(english) == split


def test_capitals_marks_and_spaces_decide_nothing():
    for english in ("Wait!", "Who is it?", "I'm here.", "Straße 7"):
        variants = [english.upper(), english.lower(), f" {english}...", english.replace("'", "’")]
        assert {tatoeba.split_of(variant) for variant in variants} == {tatoeba.split_of(english)}


def test_shares_are_98_1_1():
    counts = Counter(tatoeba.split_of(f"This is sentence {n}.") for n in range(20_000))
    assert counts["validation"] == pytest.approx(200, rel=0.3)
    assert counts["test"] == pytest.approx(200, rel=0.3)
    assert counts["train"] == 20_000 - counts["validation"] - counts["test"]


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split='dev' is unknown: choose train, validation or"):
        tatoeba.load("dev")


@pytest.mark.real_data
def test_counts():
    counts = {split: len(tatoeba.load(split)) for split in SPLITS}
    assert counts == {"train": 163_775, "validation": 1_702, "test": 1_653}
    assert sum(counts.values()) == 167_130


@pytest.mark.real_data
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


@pytest.mark.real_data
def test_no_english_sentence_is_in_two_splits():
    pairs = [(pair, split) for split in SPLITS for pair in tatoeba.load(split)]
    assert in_two_splits(pairs) == 0
    by_line = [(pair, SPLITS[number % 3]) for number, (pair, _) in enumerate(pairs)]
    assert in_two_splits(by_line) > 10_000  # a split by line leaks


@pytest.mark.real_data
def test_pairs_are_tidy():
    for split in ("validation", "test"):
        for pair in tatoeba.load(split):
            assert pair.src
            assert pair.tgt
            assert not {"\u00a0", "\u202f", "\t"} & set("".join(pair))
