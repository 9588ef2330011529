"""Bootstrap resampling: confidence intervals of a score, and comparisons of two systems.

A test set is a sample. Draw as many sentences from it as it has, with replacement, and it is as
if one had sampled again. Every such draw gives a score, and the spread of the scores tells how
far one of them can be trusted. Koehn (2004), https://aclanthology.org/W04-3250.

A corpus score is no mean of sentence scores, but most are made of sums. So a sentence enters as a
row of counts, and a score is a function of their sums: for BLEU `metrics.bleu_counts` and
`metrics.bleu_from_counts`; for the word error rate edits and words; for exact match 1 or 0, and 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from attentively.config import check_at_least_one

Score = Callable[[Sequence[float]], float]
"""From the sums of all sentences' counts to the score of the corpus."""


class Interval(NamedTuple):
    """Where the middle share of the resampled scores lies."""

    low: float
    high: float


class Comparison(NamedTuple):
    """What resampling says of two systems that translated the same sentences."""

    difference: float
    """The first system's score minus the second's, on the test set itself."""
    interval: Interval
    """Of that difference, over the draws."""
    wins: float
    """The share of draws in which the first scores higher."""
    p_value: float
    """How often chance alone, in either direction, would make a difference as large."""


def draw(sentences: int, samples: int = 1000, seed: int = 0) -> Int[Tensor, "samples sentences"]:
    """Return which sentences each sample holds: as many as there are, with replacement."""
    check_at_least_one(sentences=sentences, samples=samples)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(sentences, (samples, sentences), generator=generator)


def resampled_scores(
    counts: Num[Tensor, "sentences counts"],
    score: Score,
    samples: Int[Tensor, "samples drawn"],
) -> Float[Tensor, " samples"]:
    """Score each sample: add up the counts of its sentences, and score the sums."""
    if samples.shape[1] != len(counts):
        raise ValueError(
            f"each sample holds {samples.shape[1]} sentences, "
            f"but there are counts of {len(counts)} sentences"
        )
    sums = [counts[chosen].sum(dim=0).tolist() for chosen in samples]
    return torch.tensor([score(total) for total in sums], dtype=torch.float64)


def interval(scores: Float[Tensor, " samples"], level: float = 0.95) -> Interval:
    """Return the lowest and the highest score once both tails are cut off equally.

    Of 1,000 scores and a level of 0.95 the lowest 25 and the highest 25 go.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1")
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
    """Compare two systems on the same samples: a hard sample lowers both scores.

    The p-value is sacreBLEU's: were there no true difference, the resampled ones would
    lie as they do, but around zero. So it is the share of draws in which the size of
    the difference exceeds its mean by as much as the one found; the test set itself
    counts as one draw more, so it is never 0. (Here ties count, and a system compared
    with itself gets 1.)
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
