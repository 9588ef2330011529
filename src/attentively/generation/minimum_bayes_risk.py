r"""Minimum-Bayes-risk decoding: the sample that is most similar to all samples.

Search looks for the most probable output. Minimum-Bayes-risk decoding looks for the output with
the highest expected similarity to what the model would generate. Kumar & Byrne (2004),
https://aclanthology.org/N04-1022; with samples of a neural model: Eikema & Aziz (2020),
https://arxiv.org/abs/2005.10283.
"""

from collections import Counter
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]
"""The similarity of a hypothesis to a reference, such as sentence-level chrF."""


def expected_utilities(samples: Sequence[str], utility: Utility) -> dict[str, float]:
    r"""Return the mean utility of each distinct sample, with all samples as references.

    .. math:: \bar u(h) = \frac{1}{N} \sum_{n=1}^{N} u(h, y^{(n)})

    The best hypotheses come first. Raises `ValueError` if there are no samples.
    """
    if not samples:
        raise ValueError("samples=[] is empty: at least one sample is needed")
    counts = Counter(samples)  # equal samples are compared once
    means = {}
    for hypothesis in counts:
        total = sum(n * utility(hypothesis, other) for other, n in counts.items())
        means[hypothesis] = total / len(samples)
    return dict(sorted(means.items(), key=lambda item: item[1], reverse=True))


def minimum_bayes_risk(samples: Sequence[str], utility: Utility) -> str:
    """Return the sample with the highest mean utility; of equal ones, the first."""
    return next(iter(expected_utilities(samples, utility)))
