"""Minimum-Bayes-risk decoding returns the sample that is most similar to all others."""

import pytest

from attentively.generation.minimum_bayes_risk import expected_utilities, minimum_bayes_risk

# Word overlap, worked by hand: "a b" shares a word with three of the four other samples.
SAMPLES = ["c c", "c c", "a b", "a d", "b d"]


def overlap(hypothesis, reference):
    ours, theirs = set(hypothesis.split()), set(reference.split())
    return len(ours & theirs) / len(ours | theirs)


def test_expected_utilities_are_means_over_all_samples():
    third = 1 / 3
    expected = {"c c": 2 / 5, **dict.fromkeys(("a b", "a d", "b d"), (1 + 2 * third) / 5)}
    assert expected_utilities(SAMPLES, overlap) == pytest.approx(expected)


def test_the_most_similar_sample_wins_and_not_the_most_frequent_one():
    samples = ["c c", "c c", "a b", "a b d", "b d a e"]
    assert minimum_bayes_risk(samples, overlap) == "a b d"
    assert max(samples, key=samples.count) == "c c"


def test_with_exact_match_as_utility_the_most_frequent_sample_wins():
    assert minimum_bayes_risk(SAMPLES, lambda one, other: float(one == other)) == "c c"


def test_the_utility_receives_hypothesis_then_reference():
    """A utility that counts only what the hypothesis has too much prefers short hypotheses."""

    def precision(hypothesis, reference):
        return float(set(hypothesis.split()) <= set(reference.split()))

    assert minimum_bayes_risk(["a b c", "a b", "a"], precision) == "a"


def test_the_order_is_from_best_to_worst_and_ties_keep_the_first():
    found = expected_utilities(SAMPLES, overlap)
    assert list(found) == ["c c", "a b", "a d", "b d"] or list(found.values()) == sorted(
        found.values(), reverse=True
    )
    assert minimum_bayes_risk(["x", "y"], overlap) == "x"


def test_without_samples_there_is_nothing_to_choose():
    with pytest.raises(ValueError, match="at least one sample is needed"):
        expected_utilities([], overlap)
