"""Scoring and the bottleneck as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Parts 4
and 5 are examined by code in `attentively.checks.scoring_and_the_bottleneck`.
"""

import math
import statistics  # noqa: F401  for the edits
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np  # noqa: F401  for the edits
import torch
from torch import Tensor
from torch.nn import functional as F

from attentively.checks import scoring_and_the_bottleneck as checks
from attentively.checks.compare import Fresh
from attentively.checks.edits import edited
from attentively.checks.question import Case, Question, cases_of

# Part 1


def clipped_matches(hypothesis, reference, n):
    def ngrams(words):
        return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]

    ours, theirs = Counter(ngrams(hypothesis)), Counter(ngrams(reference))
    matches = (ours & theirs).total()
    total = ours.total()
    return matches, total


SENTENCE_PAIRS = [
    ("un chat boit le lait", "un chat boit le lait"),
    ("le le le le le le", "le chat boit le le lait"),
    ("le lait chat boit le", "le chat boit le lait"),
    ("chat le boit", "le chat boit le lait"),
    ("la fille voit la fille", "la fille et la femme et la fille"),
    ("Deux filles dansent", "les deux filles dansent et deux garçons dansent"),
    ("oui", "oui oui"),
    ("elle a vu la mie", "elle a vu l amie"),
]


def match_cases(thorough: bool) -> Iterator[Case]:
    asked = [(pair, n) for pair in SENTENCE_PAIRS for n in (1, 2, 3)]
    if thorough:
        pairs = zip(*checks.outputs(7, 2), strict=True)
        asked += [(pair, n) for pair in pairs for n in (1, 4, 5)]
        asked += [(("", "oui"), 1), (("oui", ""), 1), (("a b a b a b a", "a b a a b"), 2)]
    for (hypothesis, reference), n in asked:
        yield Case({"hypothesis": hypothesis.split(), "reference": reference.split(), "n": n})


MATCHES = "matches = (ours & theirs).total()"
TOTAL = "total = ours.total()"
STARTS = "range(len(words) - n + 1)"
NGRAM = "tuple(words[i : i + n])"

CLIPPED_MATCHES = Question(
    clipped_matches,
    {
        "the pair": "Return the number of clipped matches and the number of n-grams of the "
        "hypothesis."
    },
    match_cases,
    {
        "The matches are not clipped: an n-gram that the hypothesis repeats is counted every time. "
        "Count it at most as often as it occurs in the reference.": (
            f"{MATCHES} -> matches = sum(gram in theirs for gram in ngrams(hypothesis))"
        ),
        "Each distinct n-gram is counted only once. Count repeated n-grams every time; a clipped "
        "count is the smaller of the counts in the hypothesis and in the reference.": [
            (f"{MATCHES} -> matches = len(ours & theirs)", f"{TOTAL} -> total = len(ours)"),
            f"{MATCHES} -> matches = len(ours & theirs)",
            f"{TOTAL} -> total = len(ours)",
        ],
        "The sentences are searched as strings, so a word is also found inside other words. "
        "Compare whole words.": (
            f"{MATCHES} -> strings = ' '.join(hypothesis), ' '.join(reference)\n"
            "    matches = sum(min(s.count(' '.join(gram)) for s in strings) for gram in ours)"
        ),
        "The words of an n-gram are joined without a space, so “la mie” equals “l amie”. Represent "
        "an n-gram by a tuple of words.": f"{NGRAM} -> ''.join(words[i : i + n])",
        "The total is the number of n-grams of the reference, as for recall. Return the number of "
        "n-grams of the hypothesis.": f"{TOTAL} -> total = theirs.total()",
        "An n-gram is counted as often as it occurs in the reference, even if it occurs less often "
        "in the hypothesis. Take the smaller of the two counts.": (
            f"{MATCHES} -> matches = sum(theirs[gram] for gram in ours)"
        ),
        "Only n-grams at the same position are matched. The position in the sentence does not "
        "matter.": (
            f"{MATCHES} -> matches = sum(map(tuple.__eq__, ngrams(hypothesis), ngrams(reference)))"
        ),
        "Single words are counted for every n. Count n-grams of n words.": (
            "def ngrams(words) -> def ngrams(words, n=1)"
        ),
        "The slices at the end of the sentence have fewer than n words. Count only n-grams of "
        "exactly n words.": f"{STARTS} -> range(len(words))",
        "The n-grams do not overlap. An n-gram starts at every word that is followed by at least "
        "n − 1 words.": f"{STARTS} -> range(0, len(words) - n + 1, n)",
        "The last n-gram is missing: a sentence of m words has m − n + 1 n-grams.": (
            f"{STARTS} -> range(len(words) - n)"
        ),
        "The n-grams of all lengths up to n are counted together. Count only those of exactly n "
        "words.": f"for i in {STARTS} -> for n in range(1, n + 1) for i in {STARTS}",
        "The words of an n-gram are compared without their order: “chat le” is not “le chat”.": (
            f"{NGRAM} -> tuple(sorted(words[i : i + n]))"
        ),
        "The total is the number of words for every n. Return the number of n-grams of n words.": (
            f"{TOTAL} -> total = len(hypothesis)"
        ),
        "The total is negative for a sentence of fewer than n words. It has no n-grams: return "
        "0.": f"{TOTAL} -> total = len(hypothesis) - n + 1",
        "The two results are exchanged: return first the matches, then the total.": (
            "return matches, total -> return total, matches"
        ),
    },
)


# Part 2


def brevity_penalty(c, r):
    if c >= r:
        return 1.0
    exponent = 1 - r / c
    return math.exp(exponent)


def penalty_cases(thorough: bool) -> Iterator[Case]:
    lengths = [(5, 5), (9, 5), (4, 8), (7, 11)]
    for c, r in [*lengths, *[(23, 29), (1, 13), (31, 29)] * thorough]:
        yield Case({"c": c, "r": r})


PENALTY = Question(
    brevity_penalty,
    {"the brevity penalty": "For c ≥ r return 1, otherwise e to the power 1 − r / c."},
    penalty_cases,
    {
        "the integer division // drops the fraction. The exponent is 1 − r / c.": "r / c -> r // c",
        "the result is 1 although the hypotheses are shorter than the references. For c < r, "
        "return e to the power 1 − r / c.": "math.exp(exponent) -> 1.0",
        "c and r are exchanged. Hypotheses that are too long are penalised, and short ones are "
        "not.": ("c >= r -> c <= r", "r / c -> c / r"),
        "the result is above 1 for hypotheses that are longer than the references. For c ≥ r, "
        "return 1.": "c >= r -> False",
        "the result is c / r. For c < r, return e to the power 1 − r / c.": (
            "math.exp(exponent) -> c / r"
        ),
        "the exponent is 1 − c / r, which is positive for c < r. It must be 1 − r / c.": (
            "r / c -> c / r"
        ),
    },
    named=True,
)


def bleu(hypotheses, references):
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    precisions = []
    for n in range(1, 5):
        counted = [clipped_matches(h, r, n) for h, r in pairs]
        matches = sum(m for m, _ in counted)
        total = sum(t for _, t in counted)
        precisions.append(matches / total if total else 0)
    mean = math.prod(precisions) ** (1 / len(precisions))
    c = sum(len(h) for h, _ in pairs)
    r = sum(len(r) for _, r in pairs)
    score = 100 * brevity_penalty(c, r) * mean
    return score


CORPORA = [
    (["le chat boit le lait"], ["le chat boit le lait"]),
    (["le chat boit le lait froid ici"], ["le chat boit le lait"]),  # too long: no penalty
    (
        ["le chat boit le lait et le lait le lait"],
        ["le chat boit le lait et il dort tout le jour"],
    ),
    (["le chat boit le"], ["le chat boit le lait"]),
    (
        ["le chat boit le lait froid", "une fille danse"],
        ["le chat boit le lait froid", "une fille a dansé hier"],
    ),
    (
        ["oui", "la reine a construit cette grande maison rouge"],
        ["oui et non", "la reine a construit cette petite maison"],
    ),
    (
        ["le chat dort", "le chat dort bien ici", "", "le chat dort"],
        ["le chat ne dort pas", "le chat dort bien ici", "oui", "Le chat dort"],
    ),
    (["le lait boit le chat", "il dort ici"], ["le chat boit le lait", "il dort bien"]),
    (["oui", "non"], ["oui", "oui"]),
    (
        ["le chat boit le lait", "il dort tout le jour"],
        ["il boit le lait", "le chat dort tout le jour"],
    ),
]


def bleu_cases(thorough: bool) -> Iterator[Case]:
    corpora = [*CORPORA, checks.outputs(7, 2)]
    if thorough:
        corpora += [checks.outputs(23, 3), checks.outputs(11, 1, "toy-additive")]
    for hypotheses, references in corpora:
        yield Case({"hypotheses": hypotheses, "references": references})


def mean_of_sentences(score):
    def mean(hypotheses, references):
        pairs = zip(hypotheses, references, strict=True)
        return sum(score([h], [r]) for h, r in pairs) / len(hypotheses)

    return mean


def smoothed(hypotheses, references):
    """A precision without a match gets half of the credit of the one before, as in sacreBLEU."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    credit, product = 1.0, 1.0
    for n in (1, 2, 3, 4):
        counted = [clipped_matches(h, r, n) for h, r in pairs]
        matches, total = (sum(each[side] for each in counted) for side in (0, 1))
        if matches == 0:
            credit /= 2
        product *= max(matches, credit * (matches == 0)) / total if total else 0
        if n == 1 and matches == 0:
            return 0.0
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * brevity_penalty(c, r) * product**0.25


def pooled(pairs, n):
    """Return the counts of a corpus that are clipped after they are added up."""
    ours, theirs = (
        Counter(
            tuple(pair[side][i : i + n]) for pair in pairs for i in range(len(pair[side]) - n + 1)
        )
        for side in (0, 1)
    )
    return (ours & theirs).total(), ours.total()


COUNT = "clipped_matches(h, r, n)"
PRECISION = "precisions.append(matches / total if total else 0)"
MEAN = "math.prod(precisions) ** (1 / len(precisions))"
BREVITY = "brevity_penalty(c, r)"
SKIPPING = f"{PRECISION} -> precisions += [matches / total] if matches else []"
UNCLIPPED, KINDS = (
    edited(clipped_matches, edits)
    for edits in (
        f"{MATCHES} -> matches = sum(gram in theirs for gram in ngrams(hypothesis))",
        (f"{MATCHES} -> matches = len(ours & theirs)", f"{TOTAL} -> total = len(ours)"),
    )
)

BLEU = Question(
    bleu,
    {"BLEU": "sacreBLEU gives these sentences another score."},
    bleu_cases,
    {
        "the score is a fraction. Multiply it by 100, so that it is from 0 to 100.": (
            "100 * brevity_penalty -> brevity_penalty"
        ),
        "The result is the mean of the scores of single sentences. BLEU is a corpus score: add up "
        "matches and n-grams over all sentences first, then divide once for each n.": [
            mean_of_sentences(bleu),
            mean_of_sentences(smoothed),
            mean_of_sentences(edited(bleu, SKIPPING)),
        ],
        "The precisions are means over the sentences, so a short sentence counts as much as a long "
        "one. Add up matches and n-grams over all sentences first.": (
            f"{PRECISION} -> "
            "precisions.append(sum(m / t if t else 0 for m, t in counted) / len(counted))"
        ),
        "The brevity penalty is missing: multiply by `brevity_penalty(c, r)`.": f"{BREVITY} -> 1",
        "The lengths of the brevity penalty are exchanged: c is the number of words in the "
        "hypotheses, and r the number of words in the references.": (
            f"{BREVITY} -> brevity_penalty(r, c)"
        ),
        "The brevity penalty is computed for each sentence. Compute it once, from the numbers of "
        "words in the whole corpus.": (
            f"{BREVITY} -> statistics.mean(brevity_penalty(len(h), len(r)) for h, r in pairs)"
        ),
        "The matches are not clipped: count an n-gram at most as often as it occurs in the "
        "reference, as in part 1.": f"{COUNT} -> UNCLIPPED(h, r, n)",
        "Each distinct n-gram is counted only once. Count repeated n-grams every time, as in part "
        "1.": f"{COUNT} -> KINDS(h, r, n)",
        "The counts of all sentences are added before they are clipped, so a word can match the "
        "reference of another sentence. Clip sentence by sentence, then add up the matches.": (
            f"[{COUNT} for h, r in pairs] -> [pooled(pairs, n)]"
        ),
        "A sentence without n-grams of some length adds 1 to the total. It has none: add 0.": (
            "sum(t for -> sum(max(1, t) for"
        ),
        "Hypotheses and references are exchanged. BLEU divides by the number of n-grams of the "
        "hypotheses.": "(h.split(), r.split()) -> (r.split(), h.split())",
        "The precisions are combined by their arithmetic mean. Use the geometric mean, the fourth "
        "root of their product.": f"{MEAN} -> statistics.mean(precisions)",
        "The fourth root is missing: the result contains the product of the four precisions.": (
            f"{MEAN} -> math.prod(precisions)"
        ),
        "Only the precision of 4-grams is used. Combine the precisions of n = 1, 2, 3 and 4.": (
            "range(1, 5) -> range(4, 5)"
        ),
        "The 4-grams are missing: n runs from 1 to 4.": "range(1, 5) -> range(1, 4)",
        "The single words are missing: n runs from 1 to 4.": "range(1, 5) -> range(2, 5)",
        "The corpus is treated as one long sentence: n-grams extend over sentence ends, and a word "
        "can match the reference of another sentence. Count sentence by sentence.": (
            "zip(hypotheses, references, strict=True) -> "
            "[(' '.join(hypotheses), ' '.join(references))]"
        ),
        "The matches are divided by the number of n-grams of the references, which is recall. "
        "Divide by those of the hypotheses.": f"{COUNT} -> clipped_matches(r, h, n)",
        "A precision of 0 is left out of the product, so the score is too high. If there is no "
        "match for some n, return 0.": SKIPPING,
        "A precision of 0 is smoothed, as in the package. This function does not smooth: if there "
        "is no match for some n, return 0.": smoothed,
        "The n-grams consist of characters instead of words. Split the strings at spaces.": (
            "(h.split(), r.split()) -> (list(h), list(r))"
        ),
        "`split(' ')` makes a word of an empty sentence. Use `split()`: then it has no words.": (
            "(h.split(), r.split()) -> (h.split(' '), r.split(' '))"
        ),
        "An empty hypothesis is left out, and its reference too. The words of all references "
        "count in r.": "strict=True)] -> strict=True) if h]",
    },
    named=True,
)


# Part 3


def interval(items, samples, score):
    scores = sorted(score([items[i] for i in sample]) for sample in samples)
    left_out = len(samples) // 40
    low, high = scores[left_out], scores[-1 - left_out]
    return low, high


MEAN_SCORE, RATE, BLEU_SCORE = (Fresh(checks.Score, {"name": name}) for name in checks.SCORES)
RATES, OTHER_RATES = (
    [{"matches": m, "total": t} for m, t in zip(matches, (1, 9, 3, 5, 7, 4), strict=True)]
    for matches in ((1, 0, 2, 5, 1, 3), (1, 1, 1, 5, 2, 3))
)


def counts_of(number: int, clauses: int, model: str = "toy-fixed") -> list[list[int]]:
    return checks.count(*checks.outputs(number, clauses, model))


def interval_cases(thorough: bool) -> Iterator[Case]:
    samples = checks.bootstrap_samples
    asked: list[tuple[Any, Any, Fresh]] = [
        ([1.0, -2.0, 6.0], [[2, 1, 2], [0, 0, 1], [0, 1, 2], [1, 1, 0], [2, 2, 2]], MEAN_SCORE),
        (RATES, samples(3, 6), RATE),
        (RATES, samples(80, 6, seed=1996), RATE),
        (counts_of(7, 2), samples(39, 7, seed=2), BLEU_SCORE),
    ]
    if thorough:
        asked.append((counts_of(23, 3), samples(211, 23, seed=3), BLEU_SCORE))
    yield from cases_of(("items", "samples", "score"), asked)


ONCE = (
    "a sentence that occurs twice in a sample is used once. Use it as often as its index occurs in "
    "the sample."
)
ENDS = "low, high = scores[left_out], scores[-1 - left_out]"

INTERVAL = Question(
    interval,
    {"the interval": "Score every sample, sort the scores, leave out n // 40 at each end."},
    interval_cases,
    {
        "the score of a sample is computed as the mean of the scores of its items. Pass all items "
        "of the sample to score in one call, because a corpus score is not a mean of sentence "
        "scores.": (
            "score([items[i] for i in sample]) -> "
            "statistics.mean(score([items[i]]) for i in sample)"
        ),
        ONCE: "for i in sample] -> for i in set(sample)]",
        "the result is the lowest and the highest of all scores. Leave out n // 40 scores at each "
        "end first.": "len(samples) // 40 -> 0",
        "5 % of the scores are left out at each end, 10 % in total. Leave out n // 40 at each end, "
        "so that 95 % remain.": "// 40 -> // 20",
        "the scores are not sorted. Sort them before you leave out both ends.": [
            "sorted(score( -> list(score(",
            (
                "sorted(score( -> list(score(",
                f"{ENDS} -> kept = scores[left_out : len(scores) - left_out]\n"
                "    low, high = min(kept), max(kept)",
            ),
        ],
        "one score too many is left out at the upper end. Leave out equally many at both ends.": (
            "scores[-1 - -> scores[-2 -"
        ),
        "one score too few is left out at the upper end. The index -k is the k-th highest score; "
        "after k scores are left out, the highest one has the index -1 - k.": (
            "scores[-1 - left_out] -> scores[-left_out]"
        ),
        "the two ends are exchanged: return first the low end.": (
            "return low, high -> return high, low"
        ),
        "the result is the mean plus and minus 1.96 standard deviations. Return two of the sorted "
        "scores, after leaving out n // 40 at each end.": (
            f"{ENDS} -> middle, width = statistics.mean(scores), 1.96 * statistics.stdev(scores)\n"
            "    low, high = middle - width, middle + width"
        ),
        "the ends are quantiles, interpolated between two scores. Leave out n // 40 scores at each "
        "end; the ends are two of the scores.": (
            f"{ENDS} -> low, high = np.quantile(scores, [0.025, 0.975]).tolist()"
        ),
    },
    named=True,
)


def share_of_wins(a, b, samples, score):
    first, second = ([score([items[i] for i in sample]) for sample in samples] for items in (a, b))
    wins = sum(x > y for x, y in zip(first, second, strict=True))
    return wins / len(samples)


SEVEN_SAMPLES = [
    [1, 1, 1],
    [0, 2, 2],
    [0, 0, 1],
    [0, 2, 0],
    [1, 0, 0],
    [0, 1, 2],
    [2, 0, 1],
]


def win_cases(thorough: bool) -> Iterator[Case]:
    first, second = (counts_of(7, 2, model) for model in ("toy-additive", "toy-fixed"))
    samples = checks.bootstrap_samples
    rivals: list[tuple[Any, Any, Any, Fresh]] = [
        ([2.0, 1.0, 1.0], [1.0, 1.0, 2.0], SEVEN_SAMPLES, MEAN_SCORE),
        (RATES, OTHER_RATES, samples(17, 6, seed=1), RATE),
        (first, second, samples(13, 7, seed=5), BLEU_SCORE),
    ]
    if thorough:
        rivals += [(second, first, samples(17, 7, seed=6), BLEU_SCORE)]
        rivals += [(OTHER_RATES, RATES, samples(101, 6, seed=7), RATE)]
        rivals += [([1.0002, 1.0], [1.0, 1.0001], samples(13, 2), MEAN_SCORE)]
    yield from cases_of(("a", "b", "samples", "score"), rivals)


WINS = "sum(x > y for"
SHARE = "wins / len(samples)"

SHARE_OF_WINS = Question(
    share_of_wins,
    {"the share": "Return the share of the samples in which A scores higher than B."},
    win_cases,
    {
        "a tie is counted as a win. A wins a sample only if it scores higher than B.": (
            f"{WINS} -> sum(x >= y for"
        ),
        "a tie is counted as half a win. A tie is not a win.": (
            f"{WINS} -> sum((x > y) + (x == y) / 2 for"
        ),
        "samples with a tie are left out. Divide by the number of all samples.": (
            f"{SHARE} -> wins / (sum(map(float.__ne__, first, second)) or 1)"
        ),
        "the result is the share of the wins of B. Return that of A.": f"{WINS} -> sum(x < y for",
        "the result is the number of wins. Divide it by the number of samples.": f"{SHARE} -> wins",
        "the result is a percentage. Return a share from 0 to 1.": f"{SHARE} -> 100 * {SHARE}",
        "A and B are scored on different samples. Score both on the same sample, and compare these "
        "two scores.": "zip(first, second -> zip(first, second[1:] + second[:1]",
        "the scores are sorted before they are compared, so a score of A is compared with a score "
        "of B on another sample.": "zip(first, second -> zip(sorted(first), sorted(second)",
        "the sentences are compared one by one, and the samples are not used.": (
            "score([items[i] for i in sample]) for sample in samples] -> "
            "score([item]) for item in items]",
            "len(samples) -> len(a)",
        ),
        "the result is the mean difference of the scores. Return the share of the samples in which "
        "A scores higher.": f"{SHARE} -> statistics.mean(first) - statistics.mean(second)",
        ONCE: "for i in sample] -> for i in set(sample)]",
    },
    named=True,
    in_all_cases=True,
)


# Part 4


def diagnose(report):
    single_words = report["precisions"][0]
    if report["length_ratio"] < 0.95:
        return "omission"
    if report["length_ratio"] > 1.05:
        return "repetition"
    if single_words > 90:
        return "order"
    return "endings" if report["chrf"] > single_words else "words"


# Part 5


def nonsense(hypothesis, reference):
    together = set(pairwise(reference))
    pieces = []
    for i, word in enumerate(hypothesis):
        if i and (hypothesis[i - 1], word) in together:
            pieces[-1].append(word)
        else:
            pieces.append([word])
    order = pieces[1:] + pieces[:1]
    return [word for piece in order for word in piece]


# Part 6


def probe(contexts, labels, new, ridge):
    x, asked = (F.pad(each, (0, 1), value=1.0) for each in (contexts, new))
    y = F.one_hot(labels).float()
    penalty = ridge * torch.eye(x.shape[1])
    weights = torch.linalg.solve(x.T @ x + penalty, x.T @ y)
    scores = asked @ weights
    return scores.argmax(dim=1)


def planted(sizes: tuple[int, ...], dim: int, seed: int, spread: float = 1.0) -> list[Tensor]:
    """Return contexts around one centre for each class and their labels, in two halves."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    centres = 2 * torch.randn(len(sizes), dim, generator=generator)
    x = centres[labels] + spread * torch.randn(len(labels), dim, generator=generator)
    order = torch.randperm(len(labels), generator=generator)
    x, labels, half = x[order], labels[order], len(x) // 2
    return [x[:half], labels[:half], x[half:], labels[half:]]


LINE = torch.tensor([[5.0], [6.0], [8.0], [9.0]])
CORNERS = 1.0 * torch.tensor([[3, 0], [4, 0], [-3, 0], [-4, 0], [0, 4], [0, 5], [0, -3], [0, -5]])


def probe_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[Any, ...]] = [
        (LINE, torch.tensor([0, 0, 1, 1]), torch.tensor([[4.0], [10.0], [6.5]]), 0.1),
        (CORNERS, torch.tensor([0, 0, 1, 1, 2, 2, 4, 4]), 1.5 * CORNERS, 0.1),
        (*planted((5, 17, 11), 2, seed=5)[:3], 30.0),
    ]
    if thorough:
        asked.append((*planted((23, 13, 7, 19), 5, seed=5)[:3], 3.0))
        asked.append((*planted((31, 17), 3, seed=3)[:3], 1.0))
    yield from cases_of(("contexts", "labels", "new", "ridge"), asked)


CHOICE = "scores.argmax(dim=1)"

PROBE = Question(
    probe,
    {"the predicted labels": "Ridge regression on one-hot labels predicts other labels."},
    probe_cases,
    {
        "the column of ones is missing, so the scores have no constant term. Append a 1 to each "
        "context.": "value=1.0 -> value=0.0",
        "the labels are fitted as numbers, as if class 2 were between 1 and 3. Use one-hot labels, "
        "with one column for each class.": (
            "F.one_hot(labels).float() -> labels.float().unsqueeze(1)",
            f"{CHOICE} -> scores.squeeze(1).round().clamp(0, labels.max()).long()",
        ),
        "the contexts are standardised first. Use them unchanged.": (
            "F.pad(each, -> F.pad((each - contexts.mean(dim=0)) / contexts.std(dim=0),"
        ),
        "ridge is not added for the column of ones. I has the shape of XᵀX and ones on its whole "
        "diagonal.": "torch.eye(x.shape[1]) -> torch.diag(F.pad(torch.ones(len(x.T) - 1), (0, 1)))",
        "ridge is not used. Add ridge · I to XᵀX.": (
            "torch.linalg.solve(x.T @ x + penalty, x.T @ y) -> torch.linalg.lstsq(x, y).solution"
        ),
        "the class with the lowest score is chosen. Choose the highest score.": (
            f"{CHOICE} -> scores.argmin(dim=1)"
        ),
        "the labels are predicted for the training contexts. Predict them for `new`.": (
            "asked @ weights -> x @ weights"
        ),
        "the result is the label of the nearest training context. Fit one matrix W to all "
        "contexts.": f"{CHOICE} -> labels[torch.cdist(new, contexts).argmin(dim=1)]",
        "the best context of each class is chosen instead of the best class of each context. Use "
        "argmax with dim=1.": f"{CHOICE} -> scores.argmax(dim=0)",
    },
    named=True,
    tidy=torch.Tensor.tolist,
    in_all_cases=True,
)


def share(predicted, labels):
    return float((predicted == labels).double().mean())


def evidence(predict, contexts, labels, new, new_labels, order):
    accuracy = share(predict(contexts, labels, new), new_labels)
    most_frequent = share(labels.bincount().argmax(), new_labels)
    shuffled = share(predict(contexts, labels[order], new), new_labels)
    return accuracy, most_frequent, shuffled


def evidence_cases(thorough: bool) -> Iterator[Case]:
    names = ("predict", "contexts", "labels", "new", "new_labels", "order")
    asked = [((9, 15, 7, 12), 6, 1), ((19, 7, 11, 13), 16, 0)]
    for sizes, seed, shuffle in [*asked, *[((5, 17, 11), 26, 2)] * thorough]:
        data = planted(sizes, 2, seed, spread=2.0)
        order = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(shuffle))
        yield Case(dict(zip(names, (Fresh(checks.NearestMean), *data, order), strict=True)))


ACCURACY = "accuracy = share(predict(contexts, labels, new), new_labels)"
MOST_FREQUENT = "share(labels.bincount().argmax(), new_labels)"
SHUFFLED = "share(predict(contexts, labels[order], new), new_labels)"
SHARES = "return accuracy, most_frequent, shuffled"

EVIDENCE = Question(
    evidence,
    {"the three shares": "The function predict gives other shares. Use it for both probes."},
    evidence_cases,
    {
        "accuracy: the probe is evaluated on its training data, which it may have memorised. "
        "Evaluate it on the new contexts.": (
            f"{ACCURACY} -> accuracy = share(predict(contexts, labels, contexts), labels)"
        ),
        "accuracy: the probe is also trained on the new contexts and has seen their labels. Train "
        "it on contexts and labels.": [
            f"{ACCURACY} -> accuracy = share(predict(new, new_labels, new), new_labels)",
            f"{ACCURACY} -> both = torch.cat([contexts, new]), torch.cat([labels, new_labels])\n"
            "    accuracy = share(predict(*both, new), new_labels)",
        ],
        "most frequent: the label is chosen from the new labels, which are unknown to a "
        "prediction. Choose it from the training labels.": (
            "share(labels.bincount -> share(new_labels.bincount"
        ),
        "most frequent: the result is 1 / number of classes, which assumes equally frequent "
        "classes. Return how often the most frequent training label is correct.": (
            f"{MOST_FREQUENT} -> 1 / len(labels.unique())"
        ),
        "most frequent: the result is the share of this label in the training data. Return its "
        "share among the new labels.": (
            f"{MOST_FREQUENT} -> share(labels.bincount().argmax(), labels)"
        ),
        "shuffled: nothing is shuffled, or contexts and labels are shuffled together, so each "
        "context keeps its label. Shuffle only the labels.": "labels[order] -> labels",
        "shuffled: the probe is evaluated on its training data, so the result shows only how well "
        "it memorises. Evaluate it on the new contexts.": (
            f"{SHUFFLED} -> share(predict(contexts, labels[order], contexts), labels[order])"
        ),
        "shuffled: the labels are predicted for the training contexts. Predict them for the new "
        "contexts.": f"{SHUFFLED} -> share(predict(contexts, labels[order], contexts), labels)",
        "shuffled: the contexts are shuffled instead of the labels. Use labels[order].": (
            "predict(contexts, labels[order], new) -> predict(contexts[order], labels, new)"
        ),
        "the second and the third result are exchanged.": (
            f"{SHARES} -> return accuracy, shuffled, most_frequent"
        ),
        "the results are percentages. Return shares from 0 to 1.": (
            f"{SHARES} -> return 100 * accuracy, 100 * most_frequent, 100 * shuffled"
        ),
        "the results are numbers of correct predictions. Divide them by the number of new "
        "labels.": f"{SHARES} -> return tuple(len(new) * x for x in (accuracy, most_frequent, "
        "shuffled))",
    },
    named=True,
    in_all_cases=True,
)


PARTS = {
    "matches": [CLIPPED_MATCHES],
    "bleu": [PENALTY, BLEU],
    "bootstrap": [INTERVAL, SHARE_OF_WINS],
    "diagnosis": [Question(diagnose)],
    "nonsense": [Question(nonsense)],
    "probe": [PROBE, EVIDENCE],
}
"""The questions of each check, in the order of its arguments."""
