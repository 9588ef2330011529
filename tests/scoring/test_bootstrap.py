"""Resampling agrees with sacreBLEU's, with paper and pencil, and with chance itself."""

import math

import numpy as np
import pytest
import sacrebleu
import torch
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from attentively.scoring import bootstrap
from attentively.scoring.bootstrap import Interval, compare, draw, interval, resampled_scores
from attentively.scoring.metrics import bleu_counts, bleu_from_counts, corpus_bleu

REFERENCES = [
    "le chat boit le lait .",
    "la reine n'aime pas le petit chien .",
    "elle a traversé la rue hier soir .",
    "de rien",
    "l'animal était trop fatigué pour traverser la rue .",
    "ils ont souhaité la bienvenue à la reine .",
    "où est la gare ?",
]
GOOD = [
    "le chat boit le lait .",
    "la reine n'aime pas le chien .",
    "elle a traversé la rue hier .",
    "de rien",
    "l'animal était très fatigué pour traverser la rue .",
    "ils ont salué la reine .",
    "où est la gare ?",
]
POOR = [
    "le chat a le lait .",
    "la reine aime le petit chat .",
    "elle traverse la rue .",
    "rien",
    "un animal est fatigué .",
    "ils ont souhaité la bienvenue à la reine .",
    "la gare est où ?",
]
SEVEN = len(REFERENCES)


def bleu(sums):
    return bleu_from_counts(sums).score


def counted(hypotheses):
    return torch.tensor([bleu_counts(h, r) for h, r in zip(hypotheses, REFERENCES, strict=True)])


def share(sums):
    """Return the score of rows that hold matches and tries."""
    return sums[0] / sums[1]


# --- draws ---


def test_a_draw_is_with_replacement_and_of_full_size():
    samples = draw(SEVEN, samples=500, seed=3)
    assert samples.shape == (500, SEVEN)
    assert samples.min() == 0
    assert samples.max() == SEVEN - 1
    repeated = [len(set(row.tolist())) < SEVEN for row in samples]
    assert sum(repeated) / 500 == pytest.approx(1 - math.factorial(7) / 7**7, abs=0.02)


def test_the_seed_settles_the_draws():
    assert torch.equal(draw(SEVEN, seed=5), draw(SEVEN, seed=5))
    assert not torch.equal(draw(SEVEN, seed=5), draw(SEVEN, seed=6))


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="sentences=0"):
        draw(0)
    with pytest.raises(ValueError, match="samples=0"):
        draw(3, samples=0)


# --- scores of the samples ---


def test_a_sample_is_scored_as_a_corpus_of_its_own():
    """Not a mean of sentence scores: drawing sentences and scoring their texts is the same."""
    samples = draw(SEVEN, samples=11)
    found = resampled_scores(counted(GOOD), bleu, samples)
    for row, score in zip(samples.tolist(), found.tolist(), strict=True):
        texts = [GOOD[i] for i in row], [REFERENCES[i] for i in row]
        assert score == pytest.approx(corpus_bleu(*texts).score)
        assert score == pytest.approx(sacrebleu.corpus_bleu(texts[0], [texts[1]]).score)


def test_samples_of_another_corpus_are_refused():
    with pytest.raises(ValueError, match=r"each sample has 5 sentences, but counts has 7"):
        resampled_scores(counted(GOOD), bleu, draw(5))


# --- intervals ---


def test_interval_by_hand():
    """Of 40 scores, one in forty goes at either end."""
    scores = torch.arange(40.0)[torch.randperm(40)]
    assert interval(scores) == Interval(1.0, 38.0)
    assert interval(scores, level=0.9) == Interval(2.0, 37.0)
    assert interval(torch.tensor([5.0, 3.0])) == Interval(3.0, 5.0)  # nothing to cut off


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, -0.5])
def test_a_level_is_a_share(level):
    with pytest.raises(ValueError, match=f"level={level} "):
        interval(torch.arange(5.0), level=level)


def test_the_interval_is_as_wide_as_theory_says():
    """The share of right answers among 400: twice 1.96 standard errors."""
    right = torch.arange(400) % 5 > 0  # four in five
    counts = torch.stack([right.double(), torch.ones(400)], dim=1)
    low, high = interval(resampled_scores(counts, share, draw(400, samples=4000)))
    expected = 1.96 * math.sqrt(0.8 * 0.2 / 400)
    assert low == pytest.approx(0.8 - expected, abs=0.006)
    assert high == pytest.approx(0.8 + expected, abs=0.006)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """200 test sets of 60 sentences from a system that is right seven times in ten."""
    generator = torch.Generator().manual_seed(0)
    held = 0
    for seed in range(200):
        right = torch.rand(60, generator=generator) < 0.7
        counts = torch.stack([right.double(), torch.ones(60)], dim=1)
        low, high = interval(resampled_scores(counts, share, draw(60, samples=200, seed=seed)))
        held += low <= 0.7 <= high
    assert 0.90 <= held / 200 <= 0.98


# --- two systems ---


def test_equals_sacrebleu_on_its_own_draws(monkeypatch):
    """Their generator, our arithmetic: the same interval and the same p-value."""
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    test = PairedTest(
        [("poor", POOR), ("good", GOOD)], {"BLEU": BLEU()}, [REFERENCES], "bs", n_samples=500
    )
    _, results = test()
    baseline, system = results["BLEU"]
    samples = torch.from_numpy(np.random.default_rng(12345).choice(SEVEN, size=(500, SEVEN)))

    for hypotheses, theirs in [(POOR, baseline), (GOOD, system)]:
        scores = resampled_scores(counted(hypotheses), bleu, samples)
        low, high = interval(scores)
        assert theirs.mean == pytest.approx(scores.mean().item(), abs=1e-4)
        assert theirs.ci == pytest.approx((high - low) / 2, abs=1e-4)
    found = compare(counted(GOOD), counted(POOR), bleu, samples)
    assert found.difference == pytest.approx(system.score - baseline.score)
    assert found.p_value == pytest.approx(system.p_value)


def test_comparison_by_hand():
    """The first wins where sentence 0 is drawn at all: in all samples but one of the four."""
    first = torch.tensor([[1, 1], [0, 1]])
    second = torch.tensor([[0, 1], [0, 1]])
    samples = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    found = compare(first, second, share, samples)
    assert found.difference == 0.5
    assert found.wins == 0.75
    assert found.interval == Interval(0.0, 1.0)
    # differences 1, .5, .5, 0; less their mean: .5, 0, 0, -.5; one is as large as 0.5
    assert found.p_value == 2 / 5


def test_the_other_way_round():
    samples = draw(SEVEN)
    one = compare(counted(GOOD), counted(POOR), bleu, samples)
    other = compare(counted(POOR), counted(GOOD), bleu, samples)
    assert one.difference == -other.difference
    assert one.p_value == other.p_value
    assert one.interval.low == pytest.approx(-other.interval.high)
    assert one.wins == pytest.approx(1 - other.wins)


def test_a_system_does_not_beat_itself():
    found = compare(counted(GOOD), counted(GOOD), bleu, draw(SEVEN))
    assert (found.difference, found.wins, found.interval) == (0, 0, Interval(0, 0))
    assert found.p_value == 1  # in sacreBLEU, which does not count ties, nearly 0


def test_pairing_takes_the_luck_of_the_draw_out():
    """One right answer more on 100 sentences of very mixed difficulty."""
    generator = torch.Generator().manual_seed(1)
    second = (torch.rand(100, generator=generator) < 0.5).double()
    first = second.clone()
    first[(second == 0).nonzero()[:5]] = 1  # better in five sentences, worse in none
    rows = [torch.stack([right, torch.ones(100)], dim=1) for right in (first, second)]
    samples = draw(100, seed=2)
    alone = [interval(resampled_scores(counts, share, samples)) for counts in rows]
    assert alone[0].low < alone[1].high  # apart they overlap
    paired = compare(*rows, share, samples)
    assert paired.interval.low > 0
    assert paired.wins > 0.95


def test_unpaired_draws_would_hide_it():
    """The broken twin of the test before: other sentences for either system."""
    generator = torch.Generator().manual_seed(1)
    second = (torch.rand(100, generator=generator) < 0.5).double()
    first = second.clone()
    first[(second == 0).nonzero()[:5]] = 1
    rows = [torch.stack([right, torch.ones(100)], dim=1) for right in (first, second)]
    scores = [
        resampled_scores(counts, share, bootstrap.draw(100, seed=seed))
        for seed, counts in enumerate(rows)
    ]
    assert interval(scores[0] - scores[1]).low < 0
