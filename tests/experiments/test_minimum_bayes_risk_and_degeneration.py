"""The experiments on sampling: what they measure, on texts small enough to count by hand."""

from pathlib import Path

import pytest

from attentively.experiments import degeneration, minimum_bayes_risk
from attentively.experiments.degeneration import repeated
from attentively.models.checkpoints import load_pretrained


def test_repetition_is_the_share_of_ngrams_that_occurred_before():
    assert repeated("a b c d e f") == 0
    assert repeated("a b a b a b a") == pytest.approx(1 / 2)  # abab, baba, abab, baba
    assert repeated("a b a b a b a", order=2) == pytest.approx(4 / 6)
    assert repeated("a b c") == 0  # too short for a 4-gram


def test_words_are_counted_without_the_unfinished_last_one():
    assert degeneration._words("O, Romeo's heart!\nGood nig") == ["o", "romeo's", "heart", "good"]


def test_every_seed_continues_other_passages_of_the_same_length():
    one, other = (degeneration._passages(seed, quick=True) for seed in (0, 1))
    assert len({len(passage) for passage in one + other}) == 1
    assert len(one) == len(other) == 2


def test_samples_are_those_of_the_seed():
    checkpoint = load_pretrained("tatoeba-en-fr-additive")
    sources = ["Someone is knocking.", "I do not like milk."]
    first, again, other = (
        minimum_bayes_risk.sampled(checkpoint, sources, 1.0, 5, seed) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert [len(texts) for texts in first] == [5, 5]


def test_all_methods_translate_the_same_sentences():
    row = minimum_bayes_risk.measure(0.5, 0, True, Path())
    assert [(one["method"], one["number"]) for one in row["outputs"]] == [
        ("sample", 1),
        ("minimum Bayes risk", 2),
        ("minimum Bayes risk", 3),
        ("greedy", 1),
        ("beam", 5),
    ]
    assert 1 <= row["distinct"] <= 3
