"""A sentence is in one split, always the same, and the shares are as asked."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.data.splits import SPLITS, check_split, split_of


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
    assert split_of(english) == split


def test_capitals_marks_and_spaces_decide_nothing():
    for english in ("Wait!", "Who is it?", "I'm here.", "Straße 7"):
        variants = [english.upper(), english.lower(), f" {english}...", english.replace("'", "’")]
        assert {split_of(variant) for variant in variants} == {split_of(english)}


def test_letters_and_digits_do():
    assert len({split_of(f"This is sentence {n}.") for n in range(1000)}) == 3
    assert len({split_of("voilà" + "à" * n) for n in range(1000)}) == 3


@pytest.mark.parametrize("percent", [1, 10])
def test_shares_are_as_asked(percent):
    counts = Counter(split_of(f"This is sentence {n}.", percent) for n in range(20_000))
    assert counts["validation"] == pytest.approx(200 * percent, rel=0.3)
    assert counts["test"] == pytest.approx(200 * percent, rel=0.3)
    assert counts["train"] == 20_000 - counts["validation"] - counts["test"]


@given(st.text())
def test_any_text_has_a_split(text):
    assert split_of(text) in SPLITS


@given(st.text())
def test_a_larger_share_to_test_keeps_what_was_for_testing(text):
    if split_of(text, 1) == "test":
        assert split_of(text, 10) == "test"


def test_an_unknown_split_lists_those_there_are():
    check_split("test")
    check_split("extra", ["train", "extra"])
    with pytest.raises(ValueError, match="split='dev' is unknown: choose train, validation or te"):
        check_split("dev")
    with pytest.raises(ValueError, match="split='test' is unknown: choose train or extra"):
        check_split("test", ["train", "extra"])
