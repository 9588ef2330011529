"""Checks of the assignment on scoring and the bottleneck: BLEU, bootstrap, diagnosis, probes.

Part 2 is compared with sacreBLEU. This module contains no solution to parts 4 and 5: the faults of
part 4 are planted, and for part 5 the remaining matches are counted. The predictions of part 6 are
computed with a singular value decomposition instead.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import sacrebleu
import torch
from torch import Tensor

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_pair,
    expect_value,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.data.toy.lexicon import NOUNS
from attentively.generation.search import greedy_search
from attentively.models.checkpoints import load_pretrained
from attentively.models.seq2seq import FixedContext, Seq2Seq
from attentively.scoring.metrics import (
    MAX_ORDER,
    bleu_counts,
    bleu_from_counts,
    chrf,
    corpus_bleu,
    count_ngrams,
    word_error_rate,
)

__all__ = [
    "bleu",
    "bleu_of_counts",
    "bootstrap",
    "bootstrap_samples",
    "contexts",
    "count",
    "diagnosis",
    "matches",
    "nonsense",
    "once_solved",
    "outputs",
    "probe",
    "progress",
    "ready",
    "reports",
    "sacrebleu_score",
    "sentence_of",
    "spoilt",
]

_parts = Parts()
progress = _parts.progress

Ngram = tuple[str, ...]


def ready() -> None:
    """Score one sentence, to show that the package, sacreBLEU and the checks work."""
    _parts.explain_undefined_names()
    print(f"PyTorch {torch.__version__}, sacreBLEU {sacrebleu.__version__}.")
    print(f"BLEU of “{_CAT}” against itself: {sacrebleu_score(*[[_CAT]] * 2):.0f}.")
    print("The set-up is complete.")


_CAT = "le chat boit le lait"


def sacrebleu_score(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return sacreBLEU's score of text split at spaces, without smoothing."""
    bleu = sacrebleu.BLEU(tokenize="none", smooth_method="none")
    return float(bleu.corpus_score(list(hypotheses), [list(references)]).score)


# The trained models and their outputs


@cache
def outputs(number: int, clauses: int, model: str = "toy-fixed") -> tuple[list[str], list[str]]:
    """Return the outputs of a trained model for new sentences, and the references."""
    translator, src_tokenizer, tgt_tokenizer = load_pretrained(model).translator()
    pairs = toy.load("validation", number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    src = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer)).src
    with torch.no_grad():
        found = greedy_search(translator.eval(), src, 60)
    hypotheses = [" ".join(tgt_tokenizer.tokens(each.ids)) for each in found]
    return hypotheses, [pair.tgt_text for pair in pairs]


def count(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """Return the ten counts of each sentence from which BLEU is computed."""
    pairs = zip(hypotheses, references, strict=True)
    return [bleu_counts(hypothesis, reference, str.split) for hypothesis, reference in pairs]


def bleu_of_counts(items: Sequence[Sequence[int]]) -> float:
    """Return the BLEU of the sentences with these counts."""
    return bleu_from_counts([sum(column) for column in zip(*items, strict=True)]).score


def bootstrap_samples(number: int, size: int, seed: int = 0) -> list[list[int]]:
    """Return bootstrap samples, each a list of `size` indices of sentences."""
    generator = torch.Generator().manual_seed(seed)
    return cast(list[list[int]], torch.randint(size, (number, size), generator=generator).tolist())


def _short(value: object) -> float | None:
    number = plain_number(value)
    return None if number is None else float(f"{number:.6g}")


# Part 1


def _grams(words: Sequence[str], n: int) -> list[Ngram]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _clipped(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int]:
    ours, theirs = count_ngrams(hypothesis, n), count_ngrams(reference, n)
    return (ours & theirs).total(), ours.total()


def _found(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int]:
    ours, theirs = _grams(hypothesis, n), _grams(reference, n)
    return sum(gram in theirs for gram in ours), len(ours)


def _apart(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int]:
    ours, theirs = (
        Counter(tuple(w[i : i + n]) for i in range(0, len(w) - n + 1, n))
        for w in (hypothesis, reference)
    )
    return (ours & theirs).total(), ours.total()


def _kinds(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int]:
    ours, theirs = set(_grams(hypothesis, n)), set(_grams(reference, n))
    return len(ours & theirs), len(ours)


def _searched(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int]:
    ours, theirs, grams = " ".join(hypothesis), " ".join(reference), _grams(hypothesis, n)
    each = (" ".join(gram) for gram in set(grams))
    return sum(min(ours.count(gram), theirs.count(gram)) for gram in each), len(grams)


def _run_together(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int]:
    ours, theirs = (Counter(map("".join, _grams(w, n))) for w in (hypothesis, reference))
    return (ours & theirs).total(), ours.total()


_KINDS_COUNTED = (
    "Each distinct n-gram is counted only once. Count repeated n-grams every time; a clipped count "
    "is the smaller of the counts in the hypothesis and in the reference."
)

_MATCH_TWINS = [
    Twin(
        "The matches are not clipped: an n-gram that the hypothesis repeats is counted every time. "
        "Count it at most as often as it occurs in the reference.",
        _found,
    ),
    *known(
        _KINDS_COUNTED,
        _kinds,
        lambda h, r, n: (_kinds(h, r, n)[0], len(_grams(h, n))),
        lambda h, r, n: (_clipped(h, r, n)[0], _kinds(h, r, n)[1]),
    ),
    Twin(
        "The sentences are searched as strings, so a word is also found inside other words. "
        "Compare whole words.",
        _searched,
    ),
    Twin(
        "The words of an n-gram are joined without a space, so “la mie” equals “l amie”. Represent "
        "an n-gram by a tuple of words.",
        _run_together,
    ),
    Twin(
        "The total is the number of n-grams of the reference, as for recall. Return the number of "
        "n-grams of the hypothesis.",
        lambda h, r, n: (_clipped(h, r, n)[0], len(_grams(r, n))),
    ),
    Twin(
        "An n-gram is counted as often as it occurs in the reference, even if it occurs less often "
        "in the hypothesis. Take the smaller of the two counts.",
        lambda h, r, n: (sum(gram in _grams(h, n) for gram in _grams(r, n)), len(_grams(h, n))),
    ),
    Twin(
        "Only n-grams at the same position are matched. The position in the sentence does not "
        "matter.",
        lambda h, r, n: (
            sum(a == b for a, b in zip(_grams(h, n), _grams(r, n), strict=False)),
            len(_grams(h, n)),
        ),
    ),
    Twin(
        "Single words are counted for every n. Count n-grams of n words.",
        lambda h, r, n: _clipped(h, r, 1),
    ),
    Twin(
        "The n-grams do not overlap. An n-gram starts at every word that is followed by at least "
        "n − 1 words.",
        _apart,
    ),
    Twin(
        "The last n-gram is missing: a sentence of m words has m − n + 1 n-grams.",
        lambda h, r, n: _clipped(h[:-1], r[:-1], n) if len(h) > n else (0, 0),
    ),
    Twin(
        "The n-grams of all lengths up to n are counted together. Count only those of exactly n "
        "words.",
        lambda h, r, n: tuple(
            map(sum, zip(*(_clipped(h, r, m) for m in range(1, n + 1)), strict=True))
        ),
    ),
    Twin(
        "The words of an n-gram are compared without their order: “chat le” is not “le chat”.",
        lambda h, r, n: (
            (
                Counter(tuple(sorted(g)) for g in _grams(h, n))
                & Counter(tuple(sorted(g)) for g in _grams(r, n))
            ).total(),
            len(_grams(h, n)),
        ),
    ),
    Twin(
        "The total is the number of words for every n. Return the number of n-grams of n words.",
        lambda h, r, n: (_clipped(h, r, n)[0], len(h)),
    ),
    Twin(
        "The total is negative for a sentence of fewer than n words. It has no n-grams: return 0.",
        lambda h, r, n: (_clipped(h, r, n)[0], len(h) - n + 1),
    ),
    Twin(
        "The two results are exchanged: return first the matches, then the total.",
        lambda h, r, n: _clipped(h, r, n)[::-1],
    ),
]

_SENTENCE_PAIRS = [
    ("un chat boit le lait", "un chat boit le lait"),
    ("le le le le le le", "le chat boit le lait"),
    ("le lait chat boit le", "le chat boit le lait"),
    ("chat le boit", "le chat boit le lait"),
    ("la fille voit la fille", "la fille et la femme et la fille"),
    ("deux filles dansent", "les deux filles dansent et deux garçons dansent"),
    ("oui", "oui oui"),
    ("elle a vu la mie", "elle a vu l amie"),
]


@_parts.part(
    "clipped matches",
    "clipped_matches",
    rebuilds=("attentively.scoring.metrics:bleu_counts",),
    refuses=(
        "attentively.scoring.metrics:corpus_bleu",
        "sacrebleu:corpus_bleu",
        "sacrebleu:sentence_bleu",
        "sacrebleu.metrics:BLEU",
    ),
    step=True,
)
def matches(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(hypothesis, reference, n) -> (matches, total)``."""
    cases = [(pair, n) for pair in _SENTENCE_PAIRS for n in (1, 2, 3)]
    if thorough:
        pairs = zip(*outputs(7, 2), strict=True)
        cases += [(pair, n) for pair in pairs for n in (1, 2, 3, 4)]
        cases += [(("", "oui"), 1), (("oui", ""), 1), (("a b a b a b a", "a b a a b"), 2)]
    for (hypothesis, reference), n in cases:
        words = {"hypothesis": hypothesis.split(), "reference": reference.split(), "n": n}
        answer = expect_pair(call_twice(candidate, words), ("matches", "total"), words)
        expected = _clipped(hypothesis.split(), reference.split(), n)
        hint = "Return the number of clipped matches and the number of n-grams of the hypothesis."
        expect_value(_whole(answer), expected, "the pair", words, _MATCH_TWINS, hint)


def _whole(pair: Iterable[object]) -> tuple[object, ...]:
    """Return tensors and NumPy scalars as Python numbers, and 2.0 as 2."""
    plain = (plain_number(each) for each in pair)
    return tuple(
        int(each) if isinstance(each, float) and each.is_integer() else each for each in plain
    )


# Part 2

_PENALTY_TWINS = [
    Twin(
        "brevity_penalty: the integer division // drops the fraction. The exponent is 1 − r / c.",
        lambda c, r: 1.0 if c >= r else math.exp(1 - r // c),
    ),
    Twin(  # lengths with c > r come first, so that exchanged arguments are not taken for it
        "brevity_penalty: the result is 1 although the hypotheses are shorter than the references. "
        "For c < r, return e to the power 1 − r / c.",
        lambda c, r: 1.0,
    ),
    Twin(
        "brevity_penalty: c and r are exchanged. Hypotheses that are too long are penalised, and "
        "short ones are not.",
        lambda c, r: 1.0 if c <= r else math.exp(1 - c / r),
    ),
    Twin(
        "brevity_penalty: the result is above 1 for hypotheses that are longer than the "
        "references. For c ≥ r, return 1.",
        lambda c, r: math.exp(1 - r / c),
    ),
    Twin(
        "brevity_penalty: the result is c / r. For c < r, return e to the power 1 − r / c.",
        lambda c, r: min(1.0, c / r),
    ),
    Twin(
        "brevity_penalty: the exponent is 1 − c / r, which is positive for c < r. It must be "
        "1 − r / c.",
        lambda c, r: 1.0 if c >= r else math.exp(1 - c / r),
    ),
]

_CORPORA = [
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
    (["le chat dort", "le chat dort bien ici"], ["le chat ne dort pas", "le chat dort bien ici"]),
    (["le lait boit le chat", "il dort ici"], ["le chat boit le lait", "il dort bien"]),
    (["oui", "non"], ["oui", "oui"]),
    (
        ["le chat boit le lait", "il dort tout le jour"],
        ["il boit le lait", "le chat dort tout le jour"],
    ),
]


def _bleu(hypotheses: Sequence[str], references: Sequence[str], *faults: str) -> float:
    """Return BLEU with the named faults."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    if "joined" in faults:
        pairs = [([w for h, _ in pairs for w in h], [w for _, r in pairs for w in r])]
    if "letters" in faults:
        pairs = [(list(" ".join(h)), list(" ".join(r))) for h, r in pairs]
    lengths = [(len(h), len(r)) for h, r in pairs]
    orders = range(2 if "from two" in faults else 1, 4 if "to three" in faults else 5)
    precisions: list[float] = []
    for n in orders:
        count = _found if "unclipped" in faults else _kinds if "kinds" in faults else _clipped
        counted = [count(h, r, n) for h, r in pairs]
        if "recall" in faults:
            counted = [
                (m, max(0, len(r) - n + 1)) for (m, _), (_, r) in zip(counted, pairs, strict=True)
            ]
        if "one at least" in faults:
            counted = [(m, max(1, t)) for m, t in counted]
        if "pooled" in faults:
            ours, theirs = (
                sum((count_ngrams(pair[side], n) for pair in pairs), Counter[Ngram]())
                for side in (0, 1)
            )
            counted = [((ours & theirs).total(), ours.total())]
        if "averaged" in faults:
            precisions.append(sum(m / t if t else 0.0 for m, t in counted) / len(counted))
        else:
            matched, total = map(sum, zip(*counted, strict=True))
            precisions.append(matched / total if total else 0.0)
    if "skipping" in faults:
        precisions = [p for p in precisions if p]
    if "arithmetic" in faults:
        mean = sum(precisions) / len(precisions)
    elif "last" in faults:
        mean = precisions[-1]
    elif not all(precisions) or not precisions:
        mean = 0.0
    else:
        logs = [math.log(p) for p in precisions]
        mean = math.exp(sum(logs) / (1 if "product" in faults else len(logs)))
    c, r = map(sum, zip(*lengths, strict=True))
    penalty = min(1.0, math.exp(1 - r / c)) if c else 0.0
    if "each penalised" in faults:
        penalty = sum(min(1.0, math.exp(1 - r / c)) for c, r in lengths) / len(lengths)
    if "no penalty" in faults:
        penalty = 1.0
    if "exchanged lengths" in faults:
        penalty = min(1.0, math.exp(1 - c / r)) if r else 0.0
    return penalty * mean * (1 if "fraction" in faults else 100)


def _mean_of_sentences(score: Callable[..., float]) -> Callable[..., float]:
    def mean(hypotheses: Sequence[str], references: Sequence[str]) -> float:
        pairs = zip(hypotheses, references, strict=True)
        return sum(score([h], [r]) for h, r in pairs) / len(hypotheses)

    return mean


def _smoothed(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return corpus_bleu(hypotheses, references, str.split).score


_MEAN = (
    "The result is the mean of the scores of single sentences. BLEU is a corpus score: add up "
    "matches and n-grams over all sentences first, then divide once for each n."
)

_BLEU_TWINS = [
    Twin(
        "bleu: the score is a fraction. Multiply it by 100, so that it is from 0 to 100.",
        lambda h, r: _bleu(h, r, "fraction"),
    ),
    *known(
        _MEAN,
        _mean_of_sentences(_bleu),
        _mean_of_sentences(_smoothed),
        _mean_of_sentences(lambda h, r: _bleu(h, r, "skipping")),
    ),
    Twin(
        "The precisions are means over the sentences, so a short sentence counts as much as a long "
        "one. Add up matches and n-grams over all sentences first.",
        lambda h, r: _bleu(h, r, "averaged"),
    ),
    Twin(  # a corpus with c > r comes first, so that exchanged lengths are not taken for it
        "The brevity penalty is missing: multiply by `brevity_penalty(c, r)`.",
        lambda h, r: _bleu(h, r, "no penalty"),
    ),
    Twin(
        "The lengths of the brevity penalty are exchanged: c is the number of words in the "
        "hypotheses, and r the number of words in the references.",
        lambda h, r: _bleu(h, r, "exchanged lengths"),
    ),
    Twin(
        "The brevity penalty is computed for each sentence. Compute it once, from the numbers of "
        "words in the whole corpus.",
        lambda h, r: _bleu(h, r, "each penalised"),
    ),
    Twin(
        "The matches are not clipped: count an n-gram at most as often as it occurs in the "
        "reference, as in part 1.",
        lambda h, r: _bleu(h, r, "unclipped"),
    ),
    Twin(
        "Each distinct n-gram is counted only once. Count repeated n-grams every time, as in part "
        "1.",
        lambda h, r: _bleu(h, r, "kinds"),
    ),
    Twin(
        "The counts of all sentences are added before they are clipped, so a word can match the "
        "reference of another sentence. Clip sentence by sentence, then add up the matches.",
        lambda h, r: _bleu(h, r, "pooled"),
    ),
    Twin(
        "A sentence without n-grams of some length adds 1 to the total. It has none: add 0.",
        lambda h, r: _bleu(h, r, "one at least"),
    ),
    Twin(
        "Hypotheses and references are exchanged. BLEU divides by the number of n-grams of the "
        "hypotheses.",
        lambda h, r: _bleu(r, h),
    ),
    Twin(
        "The precisions are combined by their arithmetic mean. Use the geometric mean, the fourth "
        "root of their product.",
        lambda h, r: _bleu(h, r, "arithmetic"),
    ),
    Twin(
        "The fourth root is missing: the result contains the product of the four precisions.",
        lambda h, r: _bleu(h, r, "product"),
    ),
    Twin(
        "Only the precision of 4-grams is used. Combine the precisions of n = 1, 2, 3 and 4.",
        lambda h, r: _bleu(h, r, "last"),
    ),
    Twin("The 4-grams are missing: n runs from 1 to 4.", lambda h, r: _bleu(h, r, "to three")),
    Twin("The single words are missing: n runs from 1 to 4.", lambda h, r: _bleu(h, r, "from two")),
    Twin(
        "The corpus is treated as one long sentence: n-grams extend over sentence ends, and a word "
        "can match the reference of another sentence. Count sentence by sentence.",
        lambda h, r: _bleu(h, r, "joined"),
    ),
    Twin(
        "The matches are divided by the number of n-grams of the references, which is recall. "
        "Divide by those of the hypotheses.",
        lambda h, r: _bleu(h, r, "recall"),
    ),
    Twin(
        "A precision of 0 is left out of the product, so the score is too high. If there is no "
        "match for some n, return 0.",
        lambda h, r: _bleu(h, r, "skipping"),
    ),
    Twin(
        "A precision of 0 is smoothed, as in the package. This function does not smooth: if there "
        "is no match for some n, return 0.",
        _smoothed,
    ),
    Twin(
        "The n-grams consist of characters instead of words. Split the strings at spaces.",
        lambda h, r: _bleu(h, r, "letters"),
    ),
]


@_parts.part(
    "BLEU",
    "brevity_penalty",
    "bleu",
    rebuilds=("attentively.scoring.metrics:corpus_bleu",),
    refuses=(
        "attentively.scoring.metrics:bleu_counts",
        "attentively.scoring.metrics:bleu_from_counts",
        "sacrebleu:corpus_bleu",
        "sacrebleu:sentence_bleu",
        "sacrebleu.metrics:BLEU",
        "attentively.checks.scoring_and_the_bottleneck:sacrebleu_score",
    ),
)
def bleu(brevity_penalty: object, score: object, thorough: bool = False) -> None:
    """Check the brevity penalty, and the corpus score against sacreBLEU."""
    lengths = [(5, 5), (9, 5), (4, 8), (7, 11)]
    for c, r in [*lengths, *[(23, 29), (1, 13), (31, 29)] * thorough]:
        asked = {"c": c, "r": r}
        expected = 1.0 if c >= r else math.exp(1 - r / c)
        penalty = plain_number(call_twice(brevity_penalty, asked))
        hint = "brevity_penalty: for c ≥ r return 1, otherwise e to the power 1 − r / c."
        expect_value(penalty, expected, "the brevity penalty", asked, _PENALTY_TWINS, hint)
    corpora = [*_CORPORA, outputs(7, 2)]
    if thorough:
        corpora += [outputs(23, 3), outputs(11, 1, "toy-additive")]
    for hypotheses, references in corpora:
        given = {"hypotheses": hypotheses, "references": references}
        answer = call_twice(score, given)
        number = plain_number(answer)
        expected = sacrebleu_score(hypotheses, references)
        hint = "bleu: sacreBLEU gives these sentences another score."
        if number is None:
            raise CheckFailed(f"  bleu: expected a number, got {show(answer)}.\n{describe(given)}")
        expect_value(number, expected, "BLEU", given, _BLEU_TWINS, hint)


# Part 3


def _mean(items: Sequence[float]) -> float:
    return sum(items) / len(items)


def _rate(items: Sequence[tuple[int, int]]) -> float:
    return 100 * sum(m for m, _ in items) / sum(t for _, t in items)


_SCORES: dict[str, Callable[..., float]] = {
    "the mean": _mean,
    "the matches of all items, divided by the total of all": _rate,
    "BLEU": bleu_of_counts,
}
"""Score functions, by their description in a message."""


def _resampled(items: Any, samples: Any, score: str, once: bool = False) -> list[float]:
    chosen = ([items[i] for i in (sorted(set(each)) if once else each)] for each in samples)
    return [_SCORES[score](each) for each in chosen]


def _between(scores: Iterable[float], left_out: int) -> tuple[float, float]:
    ordered = sorted(scores)
    return ordered[left_out], ordered[-1 - left_out]


def _interval(items: Any, samples: Any, score: str) -> tuple[float, float]:
    return _between(_resampled(items, samples, score), len(samples) // 40)


def _spread(items: Any, samples: Any, score: str) -> tuple[float, float]:
    scores = torch.tensor(_resampled(items, samples, score), dtype=torch.float64)
    middle, width = float(scores.mean()), 1.96 * float(scores.std())
    return middle - width, middle + width


def _quantiles(items: Any, samples: Any, score: str) -> tuple[float, float]:
    scores = torch.tensor(_resampled(items, samples, score), dtype=torch.float64)
    return float(scores.quantile(0.025)), float(scores.quantile(0.975))


def _of_each(items: Any, samples: Any, score: str) -> tuple[float, float]:
    each = [_SCORES[score]([item]) for item in items]
    return _between([_mean([each[i] for i in sample]) for sample in samples], len(samples) // 40)


def _unsorted(items: Any, samples: Any, score: str) -> tuple[float, float]:
    scores, left_out = _resampled(items, samples, score), len(samples) // 40
    return scores[left_out], scores[-1 - left_out]


_ONCE = (
    "a sentence that occurs twice in a sample is used once. Use it as often as its index occurs in "
    "the sample."
)

_INTERVAL_TWINS = [
    Twin(f"interval: {said}", wrong)
    for said, wrong in [
        (
            "the score of a sample is computed as the mean of the scores of its items. Pass all "
            "items of the sample to score in one call, because a corpus score is not a mean of "
            "sentence scores.",
            _of_each,
        ),
        (
            _ONCE,
            lambda i, d, s: _between(_resampled(i, d, s, once=True), len(d) // 40),
        ),
        (
            "the result is the lowest and the highest of all scores. Leave out n // 40 scores at "
            "each end first.",
            lambda i, d, s: _between(_resampled(i, d, s), 0),
        ),
        (
            "5 % of the scores are left out at each end, 10 % in total. Leave out n // 40 at each "
            "end, so that 95 % remain.",
            lambda i, d, s: _between(_resampled(i, d, s), len(d) // 20),
        ),
        ("the scores are not sorted. Sort them before you leave out both ends.", _unsorted),
        (
            "one score too many is left out at the upper end. Leave out equally many at both ends.",
            lambda i, d, s: (
                _interval(i, d, s)[0],
                sorted(_resampled(i, d, s))[-2 - len(d) // 40],
            ),
        ),
        (
            "one score too few is left out at the upper end. The index -k is the k-th highest "
            "score; after k scores are left out, the highest one has the index -1 - k.",
            lambda i, d, s: (_interval(i, d, s)[0], sorted(_resampled(i, d, s))[-(len(d) // 40)]),
        ),
        (
            "the two ends are exchanged: return first the low end.",
            lambda i, d, s: _interval(i, d, s)[::-1],
        ),
        (
            "the result is the mean plus and minus 1.96 standard deviations. Return two of the "
            "sorted scores, after leaving out n // 40 at each end.",
            _spread,
        ),
        (
            "the ends are quantiles, interpolated between two scores. Leave out n // 40 scores at "
            "each end; the ends are two of the scores.",
            _quantiles,
        ),
    ]
]


def _wins(a: Any, b: Any, samples: Any, score: str) -> float:
    return _share(_resampled(a, samples, score), _resampled(b, samples, score))


def _share(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(x > y for x, y in zip(first, second, strict=True)) / len(first)


def _wins_by(compare: Callable[[list[float], list[float]], float]) -> Callable[..., float]:
    def wins(a: Any, b: Any, samples: Any, score: str) -> float:
        return compare(_resampled(a, samples, score), _resampled(b, samples, score))

    return wins


_WIN_TWINS = [
    Twin(f"share_of_wins: {said}", wrong)
    for said, wrong in [
        (
            "a tie is counted as a win. A wins a sample only if it scores higher than B.",
            _wins_by(lambda x, y: 1 - _share(y, x)),
        ),
        (
            "a tie is counted as half a win. A tie is not a win.",
            _wins_by(lambda x, y: (_share(x, y) + 1 - _share(y, x)) / 2),
        ),
        (
            "samples with a tie are left out. Divide by the number of all samples.",
            _wins_by(lambda x, y: _share(x, y) / ((_share(x, y) + _share(y, x)) or 1)),
        ),
        (
            "the result is the share of the wins of B. Return that of A.",
            _wins_by(lambda x, y: _share(y, x)),
        ),
        (
            "the result is the number of wins. Divide it by the number of samples.",
            _wins_by(lambda x, y: _share(x, y) * len(x)),
        ),
        (
            "the result is a percentage. Return a share from 0 to 1.",
            _wins_by(lambda x, y: 100 * _share(x, y)),
        ),
        (
            "A and B are scored on different samples. Score both on the same sample, and compare "
            "these two scores.",
            _wins_by(lambda x, y: _share(x, y[1:] + y[:1])),
        ),
        (
            "the scores are sorted before they are compared, so a score of A is compared with a "
            "score of B on another sample.",
            _wins_by(lambda x, y: _share(sorted(x), sorted(y))),
        ),
        (
            "the sentences are compared one by one, and the samples are not used.",
            lambda a, b, d, s: _share(*([_SCORES[s]([i]) for i in each] for each in (a, b))),
        ),
        (
            "the result is the mean difference of the scores. Return the share of the samples in "
            "which A scores higher.",
            _wins_by(lambda x, y: _mean(x) - _mean(y)),
        ),
        (
            _ONCE,
            lambda a, b, d, s: _share(
                _resampled(a, d, s, once=True), _resampled(b, d, s, once=True)
            ),
        ),
    ]
]

_RATES = [(1, 1), (0, 9), (2, 3), (5, 5), (1, 7), (3, 4)]
_OTHER_RATES = [(1, 1), (1, 9), (1, 3), (5, 5), (2, 7), (3, 4)]
_SEVEN_SAMPLES = [
    [1, 1, 1],
    [0, 2, 2],
    [0, 0, 1],
    [0, 2, 0],
    [1, 0, 0],
    [0, 1, 2],
    [2, 0, 1],
]


def _with_score(candidate: object) -> object:
    """Return a function that takes the description of a score and passes on the score."""
    if not callable(candidate):
        return candidate

    def with_score(*inputs: object) -> object:
        return candidate(*inputs[:-1], _SCORES[cast(str, inputs[-1])])

    with_score.__name__ = getattr(candidate, "__name__", "")
    return with_score


@_parts.part(
    "bootstrap",
    "interval",
    "share_of_wins",
    rebuilds=(
        "attentively.scoring.bootstrap:interval",
        "attentively.scoring.bootstrap:compare",
    ),
)
def bootstrap(interval: object, share_of_wins: object, thorough: bool = False) -> None:
    """Check a bootstrap interval, and a comparison of two systems on the same samples."""
    mean, rate, score = _SCORES
    cases: list[tuple[list[Any], list[list[int]], str]] = [
        ([1.0, 2.0, 6.0], [[2, 1, 2], [0, 0, 1], [0, 1, 2], [1, 1, 0], [2, 2, 2]], mean),
        (_RATES, bootstrap_samples(3, 6), rate),
        (_RATES, bootstrap_samples(79, 6, seed=1), rate),
        (count(*outputs(7, 2)), bootstrap_samples(43, 7, seed=2), score),
    ]
    if thorough:
        cases.append((count(*outputs(23, 3)), bootstrap_samples(211, 23, seed=3), score))
    for items, samples, how in cases:
        asked = {"items": items, "samples": samples, "score": how}
        answer = call_twice(_with_score(interval), asked)
        ends = tuple(map(_short, expect_pair(answer, ("low", "high"), asked)))
        hint = "interval: score every sample, sort the scores, leave out n // 40 at each end."
        expected = tuple(map(_short, _interval(items, samples, how)))
        expect_value(ends, expected, "the interval", asked, _INTERVAL_TWINS, hint)
    first, second = (count(*outputs(7, 2, m)) for m in ("toy-additive", "toy-fixed"))
    rivals: list[tuple[list[Any], list[Any], list[list[int]], str]] = [
        ([2.0, 1.0, 1.0], [1.0, 1.0, 2.0], _SEVEN_SAMPLES, mean),
        (_RATES, _OTHER_RATES, bootstrap_samples(17, 6, seed=1), rate),
        (first, second, bootstrap_samples(13, 7, seed=5), score),
    ]
    if thorough:
        rivals += [(second, first, bootstrap_samples(17, 7, seed=6), score)]
        rivals += [(_OTHER_RATES, _RATES, bootstrap_samples(101, 6, seed=7), rate)]
    for a, b, samples, how in rivals:
        asked = {"a": a, "b": b, "samples": samples, "score": how}
        answer = call_twice(_with_score(share_of_wins), asked)
        number = plain_number(answer)
        share = answer if number is None else number
        hint = "share_of_wins: return the share of the samples in which A scores higher than B."
        expect_value(share, _wins(a, b, samples, how), "the share", asked, _WIN_TWINS, hint)


# Part 4

_LONG_ENOUGH = 4
"""Minimum number of letters of a word that the faults "words" and "endings" change."""


def _other_ending(word: str) -> str:
    if len(word) < _LONG_ENOUGH:
        return word
    return word[:-1] if word[-1] in "es" else f"{word}e"


def _spoil(words: list[str], fault: str, vocabulary: list[str], dice: random.Random) -> list[str]:
    half = len(words) // 2
    if fault == "omission":
        return words[:half]
    if fault == "repetition":
        return words + words[half:]
    if fault == "order":
        return dice.sample(words, len(words))
    if fault == "endings":
        return [_other_ending(word) for word in words]
    return [dice.choice(vocabulary) if len(word) >= _LONG_ENOUGH else word for word in words]


@cache
def spoilt(
    fault: str, every: int, seed: int = 0, clauses: int = 2, number: int = 24
) -> tuple[list[str], list[str]]:
    """Return the outputs of a system with a fault in every n-th sentence, and the references.

    In addition, one word is wrong in every sixth sentence.
    """
    dice = random.Random(f"{fault}-{seed}")
    vocabulary = [word for word in toy.words("tgt") if len(word) >= _LONG_ENOUGH]
    hypotheses, references = [], []
    for row, pair in enumerate(_toy_pairs(number, clauses, seed)):
        words = list(pair)
        if row % 6 == 0:
            words[dice.randrange(len(words) // 2)] = dice.choice(vocabulary)
        if row % every == 0:
            words = _spoil(words, fault, vocabulary, dice)
        hypotheses.append(" ".join(words))
        references.append(" ".join(pair))
    return hypotheses, references


@cache
def _toy_pairs(number: int, clauses: int, seed: int) -> list[tuple[str, ...]]:
    pairs = toy.load("test", number, seed=seed, clauses=(clauses,))
    return [tuple(pair.tgt) for pair in pairs]


@cache
def _report(
    fault: str, every: int, seed: int = 0, clauses: int = 2, number: int = 24
) -> dict[str, object]:
    hypotheses, references = spoilt(fault, every, seed, clauses, number)
    found = corpus_bleu(hypotheses, references, str.split)
    return {
        "bleu": round(found.score, 1),
        "precisions": [round(precision, 1) for precision in found.precisions],
        "brevity_penalty": round(found.brevity_penalty, 3),
        "length_ratio": round(found.hypothesis_length / found.reference_length, 3),
        "chrf": round(chrf(hypotheses, references), 1),
        "wer": round(word_error_rate(hypotheses, references), 3),
    }


_SYSTEMS = {"A": ("endings", 2), "B": ("order", 2), "C": ("omission", 2)}


def reports() -> dict[str, dict[str, object]]:
    """Return the reports of the three systems of the notebook."""
    return {name: _report(*system, seed=5) for name, system in _SYSTEMS.items()}


def sentence_of(name: str) -> tuple[str, str]:
    """Return a faulty output of one of the three systems, and its reference."""
    hypotheses, references = spoilt(*_SYSTEMS[name], seed=5)
    return hypotheses[2], references[2]


FAULTS = ("omission", "repetition", "order", "endings", "words")

_PLANTED = [(1, 0, 2), (2, 0, 2)]
_FURTHER_PLANTED = [(1, 1, 3), (2, 2, 2), (2, 3, 3)]
"""The fault occurs in every n-th sentence: n, the seed of the sentences, and their clauses."""


@_parts.part("diagnosis", "diagnose")
def diagnosis(candidate: object, thorough: bool = False) -> None:
    """Check the diagnoses of systems with planted faults."""
    for every, seed, clauses in [*_PLANTED, *_FURTHER_PLANTED * thorough]:
        for fault in FAULTS:
            report = _report(fault, every, seed, clauses)
            asked = {"report": report}
            said = call_twice(candidate, asked)
            if not isinstance(said, str) or said != fault:
                raise CheckFailed(_misread(said, fault, asked, every, seed, clauses))


def _misread(
    said: object,
    fault: str,
    asked: Mapping[str, object],
    every: int,
    seed: int,
    clauses: int,
) -> str:
    if not isinstance(said, str) or said not in FAULTS:
        names = ", ".join(map(repr, FAULTS))
        return f"  diagnose: expected one of {names}; got {show(said)}.\n{describe(asked)}"
    hypotheses, references = spoilt(fault, every, seed, clauses)
    other = _report(said, every, seed, clauses)
    return (
        f"  The diagnosis {said!r} is wrong for the report below: the fault is {fault!r}.\n"
        f"{describe(asked)}\n"
        f"  output      {hypotheses[2 * every]}\n  reference   {references[2 * every]}\n"
        f"  A system with the fault {said!r} has another report:\n  {show(other)}\n"
        "  Both systems have a few other errors in addition to their fault. Which values of the "
        "two reports differ most?"
    )


# Part 5


def _kept(order: Sequence[str], reference: Sequence[str]) -> list[int]:
    return [_clipped(order, reference, n)[0] for n in range(1, MAX_ORDER + 1)]


def _pieces_reversed(hypothesis: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the words with the pieces between all safe cuts in reverse order."""
    theirs = count_ngrams(reference, 2)
    pieces: list[list[str]] = []
    for place, word in enumerate(hypothesis):
        if not place or (hypothesis[place - 1], word) not in theirs:
            pieces.append([])
        pieces[-1].append(word)
    return [word for piece in reversed(pieces) for word in piece]


_NONSENSE_TWINS = [
    Twin(
        "The words are in reverse order, so the words inside every matching n-gram are reversed as "
        "well.",
        lambda h, r: h[::-1],
    ),
    Twin(
        "The words are sorted, which separates the words of matching n-grams.",
        lambda h, r: sorted(h),
    ),
    *known(
        "The sentence is always cut in the middle. Cut only where no match is lost.",
        lambda h, r: [*h[len(h) // 2 :], *h[: len(h) // 2]],
        lambda h, r: [*h[(len(h) + 1) // 2 :], *h[: (len(h) + 1) // 2]],
    ),
    *known(
        "The first word is always moved to the end, or the last word to the front, even if it is "
        "part of a matching n-gram.",
        lambda h, r: [*h[1:], *h[:1]],
        lambda h, r: [*h[-1:], *h[:-1]],
    ),
]


_NONSENSE_CASES = [
    ("le chat dort bien ici", "le chat dort"),
    ("le lait boit le chat", "le chat boit le lait"),
    ("le chat", "une belle chatte dort"),
    ("chat le", "le chat dort"),
    ("deux filles voient un oiseau", "deux filles voient un oiseau"),
    ("oui", "non"),
    (
        "une vieille femme a vu le petit cheval et cette maison rouge est belle",
        "la vieille femme a entendu le petit cheval mais cette maison est très belle",
    ),
    (
        "la fille a dansé et le chat a bu le lait dans la cuisine",
        "le chat a bu le lait et la fille a dansé dans la cuisine",
    ),
    ("oui non oui", "bien"),
    ("la reine et la reine", "la reine dort"),
]


@_parts.part("nonsense", "nonsense")
def nonsense(candidate: object, thorough: bool = False) -> None:
    """Check that the words are the same, in another order, and that no match is lost."""
    cases = _NONSENSE_CASES
    if thorough:
        cases = [*cases, *zip(*outputs(19, 3), strict=True)]
    for hypothesis, reference in cases:
        _expect_nonsense(candidate, hypothesis.split(), reference.split())


def _expect_nonsense(candidate: object, hypothesis: list[str], reference: list[str]) -> None:
    asked = {"hypothesis": hypothesis, "reference": reference}
    answer = call(candidate, asked)
    if not isinstance(answer, list | tuple) or not all(isinstance(w, str) for w in answer):
        said = "None. Is a `return` missing?" if answer is None else show(answer)
        raise CheckFailed(f"  nonsense: expected a list of words, got {said}\n{describe(asked)}")
    order = [str(word) for word in answer]
    got = f"{describe(asked)}\n  got         {' '.join(order)}"
    missing, extra = Counter(hypothesis) - Counter(order), Counter(order) - Counter(hypothesis)
    if missing or extra:
        what = f"lacks {show(next(iter(missing)))}" if missing else f"has {show(next(iter(extra)))}"
        raise CheckFailed(
            f"  The answer {what}{'' if missing else ' too often'}. Return every word as often as "
            f"it occurs in the hypothesis: only the order may change.\n{got}"
        )
    before, after = _kept(hypothesis, reference), _kept(order, reference)
    for n, (had, has) in enumerate(zip(before, after, strict=True), start=1):
        if has < had:
            twins = (
                t.diagnosis for t in _NONSENSE_TWINS if t.answer(hypothesis, reference) == order
            )
            why = next(twins, "The sentence is cut inside an n-gram that occurs in the reference.")
            theirs = count_ngrams(reference, n)
            lost = (count_ngrams(hypothesis, n) & theirs) - (count_ngrams(order, n) & theirs)
            raise CheckFailed(
                f"  {why} A match is lost: “{' '.join(next(iter(lost)))}” matches in the "
                f"hypothesis and no longer in the answer.\n{got}"
            )
    free = _free_cuts(hypothesis, reference)
    if order == hypothesis and free:
        left, right = hypothesis[free[0] - 1], hypothesis[free[0]]
        why = f"For example, which match would be lost by a cut between “{left}” and “{right}”?"
        if _pieces_reversed(hypothesis, reference) == order:
            why += " Reversing the order of the pieces gives the same sentence: try another order."
        raise CheckFailed(
            "  The answer is the unchanged hypothesis, although another order loses no match. "
            f"{why}\n{got}"
        )


def _free_cuts(hypothesis: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Return the cuts between words that are not neighbours in the reference."""
    theirs = count_ngrams(reference, 2)
    return [
        place
        for place, pair in enumerate(_grams(hypothesis, 2), start=1)
        if pair not in theirs and [*hypothesis[place:], *hypothesis[:place]] != [*hypothesis]
    ]


# Part 6


def contexts(number: int, clauses: int, split: str = "train") -> tuple[Tensor, list[list[int]]]:
    """Return the fixed context vector of each sentence, and the indices of its nouns."""
    model, src_tokenizer, tgt_tokenizer = load_pretrained("toy-fixed").translator()
    pairs = toy.load(split, number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    src = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer)).src
    with torch.no_grad():
        memory = cast(Seq2Seq, model.eval()).encode(src)
        query = torch.zeros(len(src), 1)  # a fixed context ignores it
        context, _ = FixedContext()(query, memory.outputs, memory.mask.squeeze(1))
    numbers = {form: index for index, noun in enumerate(NOUNS) for form in noun.english.split()}
    return context, [[numbers[word] for word in pair.src if word in numbers] for pair in pairs]


def _fitted(contexts: Tensor, targets: Tensor, new: Tensor, ridge: float, ones: float) -> Tensor:
    """Return the predictions of ridge regression for `new`, by singular values, in float64."""
    x, read = (
        torch.cat([each.double(), torch.full((len(each), 1), ones)], dim=1)
        for each in (contexts, new)
    )
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return cast(Tensor, read @ v.T @ ((s / (s**2 + ridge)).unsqueeze(1) * (u.T @ targets.double())))


def _scores(
    contexts: Tensor, labels: Tensor, new: Tensor, ridge: float, ones: float = 1.0
) -> Tensor:
    return _fitted(contexts, torch.nn.functional.one_hot(labels), new, ridge, ones)


def _predicted(
    contexts: Tensor, labels: Tensor, new: Tensor, ridge: float, ones: float = 1.0
) -> list[int]:
    return cast(list[int], _scores(contexts, labels, new, ridge, ones).argmax(dim=1).tolist())


def _standardised(contexts: Tensor, labels: Tensor, new: Tensor, ridge: float) -> list[int]:
    mean, spread = contexts.mean(dim=0), contexts.std(dim=0)
    return _predicted((contexts - mean) / spread, labels, (new - mean) / spread, ridge)


def _by_number(contexts: Tensor, labels: Tensor, new: Tensor, ridge: float) -> list[int]:
    values = _fitted(contexts, labels.unsqueeze(1), new, ridge, ones=1.0).squeeze(1).tolist()
    return [min(max(round(y), 0), int(labels.max())) for y in values]


def _nearest(contexts: Tensor, labels: Tensor, new: Tensor, *_: object) -> list[int]:
    """Predict the label of the nearest context: a probe that memorises its training data."""
    return cast(list[int], labels[torch.cdist(new, contexts).argmin(dim=1)].tolist())


def _nearest_mean(contexts: Tensor, labels: Tensor, new: Tensor) -> Tensor:
    """Predict the class with the nearest mean: a simple probe that makes errors."""
    classes = labels.unique()
    means = torch.stack([contexts[labels == each].mean(dim=0) for each in classes])
    return classes[torch.cdist(new, means).argmin(dim=1)]


_PROBE_TWINS = [
    Twin(
        "probe: the column of ones is missing, so the scores have no constant term. Append a 1 to "
        "each context.",
        lambda x, y, n, r: _predicted(x, y, n, r, ones=0.0),
    ),
    Twin(
        "probe: the labels are fitted as numbers, as if class 2 were between 1 and 3. Use one-hot "
        "labels, with one column for each class.",
        _by_number,
    ),
    Twin(
        "probe: the contexts are standardised first. Use them unchanged.",
        _standardised,
    ),
    Twin(
        "probe: ridge is not added for the column of ones. I has the shape of XᵀX and ones on its "
        "whole diagonal.",
        lambda x, y, n, r: _predicted(x, y, n, r, ones=1e4),  # so large, ridge is nothing to it
    ),
    Twin(
        "probe: ridge is not used. Add ridge · I to XᵀX.",
        lambda x, y, n, r: _predicted(x, y, n, 1e-9),
    ),
    Twin(
        "probe: the class with the lowest score is chosen. Choose the highest score.",
        lambda x, y, n, r: _scores(x, y, n, r).argmin(dim=1).tolist(),
    ),
    Twin(
        "probe: the labels are predicted for the training contexts. Predict them for `new`.",
        lambda x, y, n, r: _predicted(x, y, x, r),
    ),
    Twin(
        "probe: the result is the label of the nearest training context. Fit one matrix W to all "
        "contexts.",
        _nearest,
    ),
    Twin(
        "probe: the best context of each class is chosen instead of the best class of each "
        "context. Use argmax with dim=1.",
        lambda x, y, n, r: _scores(x, y, n, r).argmax(dim=0).tolist(),
    ),
]

_Shares = tuple[float, float, float]


def _right(predicted: Tensor, labels: Tensor) -> float:
    return float((predicted == labels).double().mean())


def _evidence(x: Tensor, labels: Tensor, new: Tensor, new_labels: Tensor, order: Tensor) -> _Shares:
    commonest = int(labels.bincount().argmax())
    return (
        _right(_nearest_mean(x, labels, new), new_labels),
        _right(torch.full_like(new_labels, commonest), new_labels),
        _right(_nearest_mean(x, labels[order], new), new_labels),
    )


def _evidence_with(
    place: int, wrong: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], float]
) -> Callable[..., _Shares]:
    def answer(*inputs: Tensor) -> _Shares:
        shares = [*_evidence(*inputs)]
        shares[place] = wrong(*inputs)
        return cast(_Shares, tuple(shares))

    return answer


_EVIDENCE_TWINS = [
    Twin(f"evidence: {said}", wrong)
    for said, wrong in [
        (
            "accuracy: the probe is evaluated on its training data, which it may have memorised. "
            "Evaluate it on the new contexts.",
            _evidence_with(0, lambda x, y, n, z, o: _right(_nearest_mean(x, y, x), y)),
        ),
        (
            "accuracy: the probe is also trained on the new contexts and has seen their labels. "
            "Train it on contexts and labels.",
            _evidence_with(0, lambda x, y, n, z, o: _right(_nearest_mean(n, z, n), z)),
        ),
        (
            "most frequent: the label is chosen from the new labels, which are unknown to a "
            "prediction. Choose it from the training labels.",
            _evidence_with(
                1, lambda x, y, n, z, o: _right(torch.full_like(z, int(z.bincount().argmax())), z)
            ),
        ),
        (
            "most frequent: the result is 1 / number of classes, which assumes equally frequent "
            "classes. Return how often the most frequent training label is correct.",
            _evidence_with(1, lambda x, y, n, z, o: 1 / len(set(y.tolist()))),
        ),
        (
            "most frequent: the result is the share of this label in the training data. Return "
            "its share among the new labels.",
            _evidence_with(1, lambda x, y, n, z, o: float(y.bincount().max() / len(y))),
        ),
        (
            "shuffled: nothing is shuffled, or contexts and labels are shuffled together, so each "
            "context keeps its label. Shuffle only the labels.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x, y, n), z)),
        ),
        (
            "shuffled: the probe is evaluated on its training data, so the result shows only how "
            "well it memorises. Evaluate it on the new contexts.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x, y[o], x), y[o])),
        ),
        (
            "shuffled: the labels are predicted for the training contexts. Predict them for the "
            "new contexts.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x, y[o], x), y)),
        ),
        (
            "shuffled: the contexts are shuffled instead of the labels. Use labels[order].",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x[o], y, n), z)),
        ),
        (
            "the second and the third result are exchanged.",
            lambda *inputs: tuple(_evidence(*inputs)[i] for i in (0, 2, 1)),
        ),
        (
            "the results are percentages. Return shares from 0 to 1.",
            lambda *inputs: tuple(100 * share for share in _evidence(*inputs)),
        ),
        (
            "the results are numbers of correct predictions. Divide them by the number of new "
            "labels.",
            lambda *inputs: tuple(len(inputs[3]) * share for share in _evidence(*inputs)),
        ),
    ]
]


def _planted(sizes: Sequence[int], dim: int, seed: int, spread: float = 1.0) -> tuple[Tensor, ...]:
    """Return contexts around one centre for each class, their labels, and a random order."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    centres = 2 * torch.randn(len(sizes), dim, generator=generator)
    x = centres[labels] + spread * torch.randn(len(labels), dim, generator=generator)
    return x, labels, torch.randperm(len(labels), generator=generator)


def _halves(*planted: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, labels, order = planted
    x, labels, half = x[order], labels[order], len(x) // 2
    return x[:half], labels[:half], x[half:], labels[half:]


_LINE = torch.tensor([[5.0], [6.0], [8.0], [9.0]])
_CORNERS = 1.0 * torch.tensor([[3, 0], [4, 0], [-3, 0], [-4, 0], [0, 4], [0, 5], [0, -3], [0, -5]])

_PROBED: list[tuple[Tensor, Tensor, Tensor, float]] = [
    (_LINE, torch.tensor([0, 0, 1, 1]), torch.tensor([[4.0], [10.0], [6.5]]), 0.1),
    (_CORNERS, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]), 1.5 * _CORNERS, 0.1),
    (*_halves(*_planted((5, 17, 11), 2, seed=5))[:3], 30.0),
]
_FURTHER_PROBED = [
    (*_halves(*_planted((23, 13, 7, 19), 5, seed=5))[:3], 3.0),
    (*_halves(*_planted((31, 17), 3, seed=3))[:3], 1.0),
]


@_parts.part("probe", "probe", "evidence")
def probe(fit: object, evidence: object, thorough: bool = False) -> None:
    """Check a linear probe, and the comparison of an accuracy with two baselines."""
    for x, labels, new, ridge in [*_PROBED, *_FURTHER_PROBED * thorough]:
        asked: dict[str, object] = {"contexts": x, "labels": labels, "new": new, "ridge": ridge}
        got = _labels_of(call_twice(fit, asked), asked)
        expected = _predicted(x, labels, new, ridge)
        hint = "probe: ridge regression on one-hot labels predicts other labels."
        expect_value(got, expected, "the predicted labels", asked, _PROBE_TWINS, hint)
    examined = [((9, 15, 7, 12), 6, 1), *[((19, 7, 11, 13), 16, 0)] * thorough]
    for sizes, seed, shuffle in examined:
        x, labels, new, new_labels = _halves(*_planted(sizes, 2, seed=seed, spread=2.0))
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(shuffle))
        given = dict(
            zip(
                ("contexts", "labels", "new", "new_labels", "order"),
                (x, labels, new, new_labels, order),
                strict=True,
            )
        )
        answer = call_twice(_with_probe(evidence), given)
        if not isinstance(answer, list | tuple) or len(answer) != 3:
            raise CheckFailed(
                "  evidence: expected three numbers, `return accuracy, most_frequent, shuffled`\n"
                + describe(given)
            )
        shares = tuple(map(_short, answer))
        hint = "evidence: the function predict gives other shares. Use it for both probes."
        expected_shares = tuple(map(_short, _evidence(x, labels, new, new_labels, order)))
        expect_value(shares, expected_shares, "the three shares", given, _EVIDENCE_TWINS, hint)


def _labels_of(answer: object, asked: Mapping[str, object]) -> list[object]:
    values = answer.tolist() if isinstance(answer, Tensor | np.ndarray) else answer
    if not isinstance(values, list | tuple):
        said = "None. Is a `return` missing?" if answer is None else show(answer)
        raise CheckFailed(
            f"  probe: expected one label for each new context, got {said}\n{describe(asked)}"
        )
    labels = list(_whole(values))
    if not all(isinstance(label, int) for label in labels):
        raise CheckFailed(
            "  probe: expected one integer label for each new context. If these are the scores, "
            f"take the argmax of each row.\n{describe(asked)}"
        )
    return labels


def _with_probe(candidate: object) -> object:
    """Return a function that passes on a probe before its other inputs."""
    if not callable(candidate):
        return candidate

    def predict(contexts: Tensor, labels: Tensor, new: Tensor) -> Tensor:
        return _nearest_mean(contexts, labels, new)

    def with_probe(*inputs: object) -> object:
        return candidate(predict, *inputs)

    with_probe.__name__ = getattr(candidate, "__name__", "")
    return with_probe
