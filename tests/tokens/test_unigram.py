"""The unigram language model: values worked by hand, and properties of what is learned."""

import itertools
import math
import random

import pytest

from attentively.tokens import unigram
from attentively.tokens.unigram import best_segmentation, learn_unigram

BY_HAND = {"th": 0.3, "at": 0.2, "t": 0.2, "a": 0.1, "h": 0.1, "hat": 0.1}
TEN_WORDS = {"the": 4, "cat": 2, "at": 2, "hat": 1, "that": 1}


def every_segmentation(word):
    """Yield all ways to split a word."""
    for size in range(len(word)):
        for cuts in itertools.combinations(range(1, len(word)), size):
            ends = [0, *cuts, len(word)]
            yield [word[a:b] for a, b in itertools.pairwise(ends)]


def probability(pieces, probabilities):
    return math.prod(probabilities.get(piece, 0) for piece in pieces)


def test_the_example_of_chapter_02():
    assert best_segmentation("that", BY_HAND) == ["th", "at"]
    possible = [s for s in every_segmentation("that") if probability(s, BY_HAND)]
    assert len(possible) == 5
    assert probability(["th", "at"], BY_HAND) == pytest.approx(0.06)
    assert sum(BY_HAND.values()) == pytest.approx(1)


def test_the_best_segmentation_is_the_best_of_all():
    generator = random.Random(2)
    for _ in range(20):
        parts = {"".join(generator.choices("abc", k=n)) for n in (1, 1, 2, 2, 3) for _ in range(2)}
        shares = {part: generator.random() for part in sorted(parts | {*"abc"})}
        word = "".join(generator.choices("abc", k=7))
        best = max(every_segmentation(word), key=lambda s: probability(s, shares))
        found = best_segmentation(word, shares)
        assert probability(found, shares) == pytest.approx(probability(best, shares))


def test_an_empty_word_has_no_subwords_and_an_unknown_character_no_segmentation():
    assert best_segmentation("", BY_HAND) == []
    with pytest.raises(ValueError, match="'tax' cannot be spelled"):
        best_segmentation("tax", BY_HAND)


def test_expected_counts_weigh_all_segmentations():
    shares = {"a": 0.5, "b": 0.25, "ab": 0.25}  # ab as one: 0.25, as two: 0.125
    expected = unigram._expected_counts({"ab": 3}, shares)
    assert expected == pytest.approx({"a": 1, "b": 1, "ab": 2}, abs=1e-5)


def test_a_long_word_does_not_underflow():
    shares = {"a": 0.01, "b": 0.01}  # 0.01 ** 1000 is below the smallest float
    expected = unigram._expected_counts({"ab" * 500: 2}, shares)
    assert expected == pytest.approx({"a": 1000, "b": 1000})
    learned = learn_unigram({"abc" * 400: 1, "ab": 3}, 4)
    assert len(learned) == 4
    assert sum(learned.values()) == pytest.approx(1)


def test_a_loss_is_the_fall_of_the_likelihood():
    shares = {"a": 0.5, "b": 0.25, "ab": 0.25}
    losses = unigram._losses({"ab": 3, "a": 1}, shares)
    assert losses == pytest.approx({"ab": 3 * math.log(0.25 / 0.125)})


@pytest.mark.parametrize("size", [5, 7, 11])
def test_the_vocabulary_has_the_size_and_every_character(size):
    learned = learn_unigram(TEN_WORDS, size)
    assert len(learned) == size
    assert {*"theca"} <= learned.keys()
    assert sum(learned.values()) == pytest.approx(1)
    for word in TEN_WORDS:
        assert "".join(best_segmentation(word, learned)) == word


def test_frequent_words_stay_whole():
    learned = learn_unigram(TEN_WORDS, 7)
    assert best_segmentation("the", learned) == ["the"]


def test_steps_raise_the_likelihood():
    shares = unigram._shares(dict.fromkeys(["t", "h", "e", "c", "a", "at", "th", "the"], 1.0))

    def log_likelihood(shares):
        return sum(
            n * math.log(sum(probability(s, shares) for s in every_segmentation(word)))
            for word, n in TEN_WORDS.items()
        )

    for _ in range(3):
        better = unigram._shares(unigram._expected_counts(TEN_WORDS, shares))
        assert log_likelihood(better) > log_likelihood(shares)
        shares = better


def test_too_small_a_size_is_refused():
    with pytest.raises(ValueError, match="size=4 must be at least 5"):
        learn_unigram(TEN_WORDS, 4)
