"""Bootstrap resampling: confidence intervals of a score, and comparisons of two systems.

A test set is a sample. A bootstrap sample consists of as many of its sentences, sampled with
replacement, and imitates another test set. Each has a score, and the distribution of these scores
estimates the uncertainty of one of them. Koehn (2004), https://aclanthology.org/W04-3250.

A corpus score is not a mean of sentence scores, but most are functions of sums. So each sentence
is represented by a row of counts, and a score is a function of their sums: for BLEU
`metrics.bleu_counts` and `metrics.bleu_from_counts`; for the word error rate the numbers of edits
and words; for exact match 1 or 0, and 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from attentively.config import check_at_least_one

Score = Callable[[Sequence[float]], float]
"""A function from the sums of all sentences' counts to the score of the corpus."""


class Interval(NamedTuple):
    """A percentile interval of the resampled scores."""

    low: float
    high: float


class Comparison(NamedTuple):
    """The result of paired bootstrap resampling for two systems."""

    difference: float
    """Score of the first system minus score of the second, on the test set itself."""
    interval: Interval
    """Interval of that difference over the bootstrap samples."""
    wins: float
    """Fraction of the bootstrap samples in which the first system scores higher."""
    p_value: float
    """Two-sided p-value of the difference."""


def draw(sentences: int, samples: int = 1000, seed: int = 0) -> Int[Tensor, "samples sentences"]:
    """Return the sentence indices of each bootstrap sample, sampled with replacement."""
    check_at_least_one(sentences=sentences, samples=samples)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(sentences, (samples, sentences), generator=generator)


def resampled_scores(
    counts: Num[Tensor, "sentences counts"],
    score: Score,
    samples: Int[Tensor, "samples drawn"],
) -> Float[Tensor, " samples"]:
    """Return the score of each bootstrap sample, from the sums of its counts."""
    if samples.shape[1] != len(counts):
        sizes = f"{samples.shape[1]} sentences, but counts has {len(counts)}"
        raise ValueError(f"each sample has {sizes}")
    sums = [counts[chosen].sum(dim=0).tolist() for chosen in samples]
    return torch.tensor([score(total) for total in sums], dtype=torch.float64)


def interval(scores: Float[Tensor, " samples"], level: float = 0.95) -> Interval:
    """Return the interval of the middle fraction `level` of the scores.

    With 1,000 scores and a level of 0.95, the lowest 25 and the highest 25 are
    excluded.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must be between 0 and 1")
    ordered = scores.sort().values
    cut = int(len(ordered) * round((1 - level) / 2, 12))  # (1 - 0.9) / 2 is 0.04999…
    return Interval(ordered[cut].item(), ordered[len(ordered) - 1 - cut].item())


def compare(
    first: Num[Tensor, "sentences counts"],
    second: Num[Tensor, "sentences counts"],
    score: Score,
    samples: Int[Tensor, "samples drawn"],
    level: float = 0.95,
) -> Comparison:
    """Compare two systems on the same bootstrap samples (paired bootstrap resampling).

    The null hypothesis is that both systems are equally good. The p-value is that of
    sacreBLEU: count the samples in which the absolute difference, minus its mean over
    all samples, is at least the observed absolute difference; then
    p = (count + 1) / (samples + 1). The mean is subtracted because the resampled
    differences are centred at the observed one, whereas under the null hypothesis they
    would be centred at zero. `wins` is another quantity: it counts the differences
    above zero, so 1 - wins is not the p-value. (A system compared with itself gets
    p = 1.)
    """
    ours = resampled_scores(first, score, samples)
    theirs = resampled_scores(second, score, samples)
    difference = score(first.sum(dim=0).tolist()) - score(second.sum(dim=0).tolist())
    sizes = (ours - theirs).abs()
    larger = int((sizes - sizes.mean() >= abs(difference)).sum())
    return Comparison(
        difference=difference,
        interval=interval(ours - theirs, level),
        wins=(ours > theirs).double().mean().item(),
        p_value=(larger + 1) / (len(samples) + 1),
    )
