"""The unigram language model of subwords: learn their probabilities, and segment a word with them.

Kudo (2018), https://arxiv.org/abs/1804.10959, section 3.2. A segmentation is as probable as the
product of its subwords' probabilities; the vocabulary starts large and is pruned.
"""

import math
from collections import Counter
from collections.abc import Mapping

SEEDS = 10
"""Number of subwords at the start, as a multiple of the size of the vocabulary."""

KEPT = 0.8
"""Share of the vocabulary that each pruning keeps; the paper's example."""

LONGEST = 16
"""Maximum length of a subword, in characters."""

_FLOOR = 1e-6  # expected count of a subword that no segmentation uses


def best_segmentation(word: str, probabilities: Mapping[str, float]) -> list[str]:
    """Return the most probable segmentation of `word` (the Viterbi algorithm).

    A segmentation has the product of the `probabilities` of its subwords. Raises
    `ValueError` if the word has a character that is in no subword.
    """
    best = [0.0] + [-math.inf] * len(word)  # log-probability of each prefix
    start = [0] * (len(word) + 1)  # where the last subword of this prefix starts
    for end in range(1, len(word) + 1):
        for begin in range(end):
            probability = probabilities.get(word[begin:end], 0.0)
            if probability and best[begin] + math.log(probability) > best[end]:
                best[end] = best[begin] + math.log(probability)
                start[end] = begin
    if best[-1] == -math.inf:
        raise ValueError(f"{word!r} cannot be spelled with the subwords given")
    pieces: list[str] = []
    end = len(word)
    while end:
        pieces.insert(0, word[start[end] : end])
        end = start[end]
    return pieces


def learn_unigram(word_counts: Mapping[str, int], size: int) -> dict[str, float]:
    """Return the probabilities of at most `size` subwords, all characters included.

    The first vocabulary has the characters and the substrings with the largest count times length.
    Then, until it has `size` subwords: estimate the probabilities by two steps of expectation
    maximisation, and remove the subwords without which the likelihood of the words falls least
    (approximately). The result differs from that of SentencePiece. Raises `ValueError` where `size`
    is less than the number of characters.
    """
    counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for begin in range(len(word)):
            for end in range(begin + 1, min(len(word), begin + LONGEST) + 1):
                counts[word[begin:end]] += count
    characters = {subword for subword in counts if len(subword) == 1}
    if len(characters) > size:
        raise ValueError(f"size={size} must be at least {len(characters)}, one for each character")
    longer = [subword for subword in counts if len(subword) > 1]
    longer.sort(key=lambda subword: (-counts[subword] * len(subword), subword))
    kept = [*sorted(characters), *longer[: SEEDS * size]]
    probabilities = _shares({subword: float(counts[subword]) for subword in kept})
    while True:
        for _ in range(2):
            probabilities = _shares(_expected_counts(word_counts, probabilities))
        if len(probabilities) <= size:
            return probabilities
        losses = _losses(word_counts, probabilities)
        ranked = sorted(losses, key=lambda subword: (-losses[subword], subword))
        number = max(size, int(KEPT * len(probabilities))) - len(characters)
        probabilities = {s: probabilities[s] for s in [*sorted(characters), *ranked[:number]]}


def _shares(counts: Mapping[str, float]) -> dict[str, float]:
    total = sum(counts.values())
    return {subword: count / total for subword, count in counts.items()}


def _expected_counts(
    word_counts: Mapping[str, int], probabilities: Mapping[str, float]
) -> dict[str, float]:
    """Return how often each subword is expected, over all segmentations of all words."""
    logs = {subword: math.log(share) for subword, share in probabilities.items()}
    expected = dict.fromkeys(probabilities, _FLOOR)
    for word, count in word_counts.items():
        # In logarithms, because the probability of a long word is below the smallest float.
        forward = [0.0] + [-math.inf] * len(word)  # log-probability of each prefix
        found = []
        for begin in range(len(word)):
            for end in range(begin + 1, min(len(word), begin + LONGEST) + 1):
                if (log := logs.get(word[begin:end])) is not None:
                    forward[end] = _log_add(forward[end], forward[begin] + log)
                    found.append((begin, end, log))
        backward = [-math.inf] * len(word) + [0.0]  # log-probability of each suffix
        for begin, end, log in reversed(found):
            backward[begin] = _log_add(backward[begin], log + backward[end])
        for begin, end, log in found:
            share = math.exp(forward[begin] + log + backward[end] - forward[-1])
            expected[word[begin:end]] += count * share
    return expected


def _log_add(one: float, two: float) -> float:
    """Return log(exp(one) + exp(two))."""
    low, high = min(one, two), max(one, two)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _losses(word_counts: Mapping[str, int], probabilities: Mapping[str, float]) -> dict[str, float]:
    """Return how much the log-likelihood falls without each subword of several characters.

    Approximately: in the most probable segmentations, the subword is replaced by its own second
    best segmentation.
    """
    used: Counter[str] = Counter()
    for word, count in word_counts.items():
        for subword in best_segmentation(word, probabilities):
            used[subword] += count
    losses = {}
    for subword, probability in probabilities.items():
        if len(subword) > 1:
            parts = {
                subword[i:j]: probabilities.get(subword[i:j], 0.0)
                for i in range(len(subword))
                for j in range(i + 1, len(subword) + 1)
            }
            without = best_segmentation(subword, parts | {subword: 0.0})
            other = sum(math.log(probabilities[part]) for part in without)
            losses[subword] = used[subword] * (math.log(probability) - other)
    return losses
