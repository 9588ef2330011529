"""Checks of the assignment on scores and the bottleneck: BLEU, bootstrap, faults, probes.

What rebuilds BLEU is compared with sacreBLEU. The answers to parts 4 and 5 stand nowhere here: the
faults of part 4 were planted, and of part 5 it is counted what is still matched. Those of part 6
are found anew by another way.
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
    "contexts",
    "count",
    "diagnosis",
    "draws",
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
    """Say that the package, sacreBLEU and these checks work."""
    _parts.explain_undefined_names()
    print(f"PyTorch {torch.__version__}, sacreBLEU {sacrebleu.__version__}. Ready.")
    print(f"BLEU of “le chat boit le lait” against itself: {sacrebleu_score(*[[_CAT]] * 2):.0f}.")


_CAT = "le chat boit le lait"


def sacrebleu_score(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return sacreBLEU's score of words between spaces, without smoothing."""
    bleu = sacrebleu.BLEU(tokenize="none", smooth_method="none")
    return float(bleu.corpus_score(list(hypotheses), [list(references)]).score)


# The trained translators and their sentences


@cache
def outputs(number: int, clauses: int, model: str = "toy-fixed") -> tuple[list[str], list[str]]:
    """Return what a trained translator writes of new sentences, and their references."""
    translator, src_tokenizer, tgt_tokenizer = load_pretrained(model).translator()
    pairs = toy.load("validation", number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    src = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer)).src
    with torch.no_grad():
        found = greedy_search(translator.eval(), src, 60)
    hypotheses = [" ".join(tgt_tokenizer.tokens(each.ids)) for each in found]
    return hypotheses, [pair.tgt_text for pair in pairs]


def count(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """Return for each sentence the ten whole numbers of which BLEU is made."""
    pairs = zip(hypotheses, references, strict=True)
    return [bleu_counts(hypothesis, reference, str.split) for hypothesis, reference in pairs]


def bleu_of_counts(items: Sequence[Sequence[int]]) -> float:
    """Return BLEU of the sentences that these counts belong to, in any order and number."""
    return bleu_from_counts([sum(column) for column in zip(*items, strict=True)]).score


def draws(number: int, size: int, seed: int = 0) -> list[list[int]]:
    """Return random draws: each has as many indices as there are sentences, some repeated."""
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
    "Each kind of n-gram counts once here. Clipped means: as often as the reference has it, at "
    "most."
)

_MATCH_TWINS = [
    Twin(
        "Nothing is clipped: an n-gram that the hypothesis repeats is matched every time. It is "
        "matched at most as often as the reference has it.",
        _found,
    ),
    *known(
        _KINDS_COUNTED,
        _kinds,
        lambda h, r, n: (_kinds(h, r, n)[0], len(_grams(h, n))),
        lambda h, r, n: (_clipped(h, r, n)[0], _kinds(h, r, n)[1]),
    ),
    Twin(
        "The text is searched, so a word is found inside other words too. Compare whole words.",
        _searched,
    ),
    Twin(
        "The words of an n-gram are run together: “la mie” is not “l amie”. A tuple keeps them "
        "apart.",
        _run_together,
    ),
    Twin(
        "The n-grams of the reference are the total here; that would be recall. BLEU divides by "
        "those of the hypothesis.",
        lambda h, r, n: (_clipped(h, r, n)[0], len(_grams(r, n))),
    ),
    Twin(
        "Every time that the reference has it, it is counted, even if the hypothesis has it less "
        "often: take the smaller of both counts.",
        lambda h, r, n: (sum(gram in _grams(h, n) for gram in _grams(r, n)), len(_grams(h, n))),
    ),
    Twin(
        "Only n-grams at the same place are matched. Where in the sentence one stands does not "
        "matter.",
        lambda h, r, n: (
            sum(a == b for a, b in zip(_grams(h, n), _grams(r, n), strict=False)),
            len(_grams(h, n)),
        ),
    ),
    Twin("Single words are counted, whatever n is.", lambda h, r, n: _clipped(h, r, 1)),
    Twin(
        "n-grams overlap: one begins at every word that has n − 1 words after it.",
        _apart,
    ),
    Twin(
        "The last n-gram is missing: m words have m − n + 1 of them.",
        lambda h, r, n: _clipped(h[:-1], r[:-1], n) if len(h) > n else (0, 0),
    ),
    Twin(
        "All n-grams up to n are counted together; only those of n words are asked for.",
        lambda h, r, n: tuple(
            map(sum, zip(*(_clipped(h, r, m) for m in range(1, n + 1)), strict=True))
        ),
    ),
    Twin(
        "The words of an n-gram are compared in any order. “chat le” is not “le chat”.",
        lambda h, r, n: (
            (
                Counter(tuple(sorted(g)) for g in _grams(h, n))
                & Counter(tuple(sorted(g)) for g in _grams(r, n))
            ).total(),
            len(_grams(h, n)),
        ),
    ),
    Twin(
        "The total is the number of words, whatever n is. It is the number of n-grams.",
        lambda h, r, n: (_clipped(h, r, n)[0], len(h)),
    ),
    Twin(
        "Less than nothing: a sentence shorter than n has no n-gram at all, so 0.",
        lambda h, r, n: (_clipped(h, r, n)[0], len(h) - n + 1),
    ),
    Twin(
        "The two have changed places: first the matches, then the total.",
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


@_parts.part("clipped matches", "clipped_matches")
def matches(candidate: object, thorough: bool = False) -> None:
    """Check how many n-grams of a sentence its reference has too."""
    cases = [(pair, n) for pair in _SENTENCE_PAIRS for n in (1, 2, 3)]
    if thorough:
        pairs = zip(*outputs(7, 2), strict=True)
        cases += [(pair, n) for pair in pairs for n in (1, 2, 3, 4)]
        cases += [(("", "oui"), 1), (("oui", ""), 1), (("a b a b a b a", "a b a a b"), 2)]
    for (hypothesis, reference), n in cases:
        words = {"hypothesis": hypothesis.split(), "reference": reference.split(), "n": n}
        answer = expect_pair(call_twice(candidate, words), ("matches", "total"), words)
        expected = _clipped(hypothesis.split(), reference.split(), n)
        hint = "Expected are the number of matches and of n-grams of the hypothesis."
        expect_value(_whole(answer), expected, "the pair", words, _MATCH_TWINS, hint)


def _whole(pair: Iterable[object]) -> tuple[object, ...]:
    """Return numbers of tensors or NumPy as Python's, and 2.0 as 2."""
    plain = (plain_number(each) for each in pair)
    return tuple(
        int(each) if isinstance(each, float) and each.is_integer() else each for each in plain
    )


# Part 2

_PENALTY_TWINS = [
    Twin(
        "brevity_penalty: // leaves the fraction out. The exponent is 1 − r / c.",
        lambda c, r: 1.0 if c >= r else math.exp(1 - r // c),
    ),
    Twin(
        "brevity_penalty: r and c have changed places: translations that are too long are "
        "punished, and short ones are not.",
        lambda c, r: 1.0 if c <= r else math.exp(1 - c / r),
    ),
    Twin(
        "brevity_penalty: longer translations are rewarded. From c = r on it is 1.",
        lambda c, r: math.exp(1 - r / c),
    ),
    Twin(
        "brevity_penalty: this is c / r. The penalty is e to the power 1 − r / c.",
        lambda c, r: min(1.0, c / r),
    ),
    Twin(
        "brevity_penalty: the exponent is 1 − r / c, not 1 − c / r, which is positive where c < r.",
        lambda c, r: 1.0 if c >= r else math.exp(1 - c / r),
    ),
]

_CORPORA = [
    (["le chat boit le lait"], ["le chat boit le lait"]),
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
    """Return BLEU with the faults named."""
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
    return penalty * mean * (1 if "fraction" in faults else 100)


def _mean_of_sentences(score: Callable[..., float]) -> Callable[..., float]:
    def mean(hypotheses: Sequence[str], references: Sequence[str]) -> float:
        pairs = zip(hypotheses, references, strict=True)
        return sum(score([h], [r]) for h, r in pairs) / len(hypotheses)

    return mean


def _smoothed(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return corpus_bleu(hypotheses, references, str.split).score


_MEAN = (
    "This is the mean of the sentences' scores. BLEU is a score of the corpus: add up matches and "
    "totals over all sentences, then divide once."
)

_BLEU_TWINS = [
    Twin("The score is to be from 0 to 100.", lambda h, r: _bleu(h, r, "fraction")),
    *known(
        _MEAN,
        _mean_of_sentences(_bleu),
        _mean_of_sentences(_smoothed),
        _mean_of_sentences(lambda h, r: _bleu(h, r, "skipping")),
    ),
    Twin(
        "The precisions are means over the sentences. A short sentence would count as much as a "
        "long one: add up matches and totals first.",
        lambda h, r: _bleu(h, r, "averaged"),
    ),
    Twin("The brevity penalty is missing.", lambda h, r: _bleu(h, r, "no penalty")),
    Twin(
        "Each sentence has its own brevity penalty here. There is one, from the words of the "
        "whole corpus.",
        lambda h, r: _bleu(h, r, "each penalised"),
    ),
    Twin("Nothing is clipped: see part 1.", lambda h, r: _bleu(h, r, "unclipped")),
    Twin("Each kind of n-gram counts once: see part 1.", lambda h, r: _bleu(h, r, "kinds")),
    Twin(
        "All sentences are counted together before anything is clipped, so a word is matched in "
        "the reference of another sentence. Clip sentence by sentence, then add up.",
        lambda h, r: _bleu(h, r, "pooled"),
    ),
    Twin(
        "A sentence without n-grams of some length has a total of 1 here. It has none: add 0.",
        lambda h, r: _bleu(h, r, "one at least"),
    ),
    Twin(
        "Hypotheses and references have changed places: BLEU divides by the hypotheses' n-grams.",
        lambda h, r: _bleu(r, h),
    ),
    Twin(
        "This is the arithmetic mean of the precisions. The geometric one is asked for: the "
        "fourth root of their product.",
        lambda h, r: _bleu(h, r, "arithmetic"),
    ),
    Twin(
        "This is the product of the four precisions; their fourth root is asked for.",
        lambda h, r: _bleu(h, r, "product"),
    ),
    Twin("This is the precision of 4-grams alone.", lambda h, r: _bleu(h, r, "last")),
    Twin("n goes up to 4, and 4-grams are missing.", lambda h, r: _bleu(h, r, "to three")),
    Twin("n begins at 1, and single words are missing.", lambda h, r: _bleu(h, r, "from two")),
    Twin(
        "The corpus is read as one long sentence: n-grams reach across its borders, and a word is "
        "matched in the reference of another sentence.",
        lambda h, r: _bleu(h, r, "joined"),
    ),
    Twin(
        "This is recall: matches are divided by the n-grams of the references.",
        lambda h, r: _bleu(h, r, "recall"),
    ),
    Twin(
        "An order without any match is left out, so the score is too good. Then a factor of the "
        "product is 0, and the score too.",
        lambda h, r: _bleu(h, r, "skipping"),
    ),
    Twin(
        "An order without any match is smoothed here, as the package does. Without smoothing the "
        "score is 0.",
        _smoothed,
    ),
    Twin("These are n-grams of letters. Cut at spaces.", lambda h, r: _bleu(h, r, "letters")),
]


@_parts.part("BLEU", "brevity_penalty", "bleu")
def bleu(brevity_penalty: object, score: object, thorough: bool = False) -> None:
    """Check the penalty, and the score of a corpus against sacreBLEU's."""
    if score in (corpus_bleu, sacrebleu.corpus_bleu):
        raise CheckFailed("  This is a library's own score; write yours.")
    lengths = [(5, 5), (4, 8), (9, 5), (7, 11)]
    for c, r in [*lengths, *[(23, 29), (1, 13), (31, 29)] * thorough]:
        asked = {"c": c, "r": r}
        expected = 1.0 if c >= r else math.exp(1 - r / c)
        answer = plain_number(call_twice(brevity_penalty, asked))
        hint = "brevity_penalty: it is 1 where c ≥ r, else e to the power 1 − r / c."
        expect_value(answer, expected, "the brevity penalty", asked, _PENALTY_TWINS, hint)
    corpora = [*_CORPORA, outputs(7, 2)]
    if thorough:
        corpora += [outputs(23, 3), outputs(11, 1, "toy-additive")]
    for hypotheses, references in corpora:
        given = {"hypotheses": hypotheses, "references": references}
        number = plain_number(call_twice(score, given))
        expected = sacrebleu_score(hypotheses, references)
        hint = "sacreBLEU gives another score to these sentences."
        if number is None:
            raise CheckFailed(f"  bleu: expected a number.\n{describe(given)}")
        expect_value(number, expected, "BLEU", given, _BLEU_TWINS, hint)


# Part 3


def _mean(items: Sequence[float]) -> float:
    return sum(items) / len(items)


def _rate(items: Sequence[tuple[int, int]]) -> float:
    return 100 * sum(m for m, _ in items) / sum(t for _, t in items)


_SCORES: dict[str, Callable[..., float]] = {
    "the mean": _mean,
    "matches of all items, divided by the total of all": _rate,
    "BLEU": bleu_of_counts,
}
"""How a list of items is scored, by the words that a message says of it."""


def _resampled(items: Any, draws: Any, score: str, once: bool = False) -> list[float]:
    chosen = ([items[i] for i in (sorted(set(draw)) if once else draw)] for draw in draws)
    return [_SCORES[score](each) for each in chosen]


def _between(scores: Iterable[float], left_out: int) -> tuple[float, float]:
    ordered = sorted(scores)
    return ordered[left_out], ordered[-1 - left_out]


def _interval(items: Any, draws: Any, score: str) -> tuple[float, float]:
    return _between(_resampled(items, draws, score), len(draws) // 40)


def _spread(items: Any, draws: Any, score: str) -> tuple[float, float]:
    scores = torch.tensor(_resampled(items, draws, score), dtype=torch.float64)
    middle, width = float(scores.mean()), 1.96 * float(scores.std())
    return middle - width, middle + width


def _quantiles(items: Any, draws: Any, score: str) -> tuple[float, float]:
    scores = torch.tensor(_resampled(items, draws, score), dtype=torch.float64)
    return float(scores.quantile(0.025)), float(scores.quantile(0.975))


def _of_each(items: Any, draws: Any, score: str) -> tuple[float, float]:
    each = [_SCORES[score]([item]) for item in items]
    return _between([_mean([each[i] for i in draw]) for draw in draws], len(draws) // 40)


def _unsorted(items: Any, draws: Any, score: str) -> tuple[float, float]:
    scores, left_out = _resampled(items, draws, score), len(draws) // 40
    return scores[left_out], scores[-1 - left_out]


_ONCE = (
    "A sentence that is drawn twice counts once here. That it may come more often is the whole "
    "point: take it as often as it stands in the draw."
)

_INTERVAL_TWINS = [
    Twin(f"interval: {said}", wrong)
    for said, wrong in [
        (
            "these are means of the items' own scores. Hand all drawn items to score at once: a "
            "corpus score is no mean of sentence scores.",
            _of_each,
        ),
        (
            _ONCE,
            lambda i, d, s: _between(_resampled(i, d, s, once=True), len(d) // 40),
        ),
        (
            "the lowest and the highest of all scores stand here. n // 40 are left out at each "
            "end.",
            lambda i, d, s: _between(_resampled(i, d, s), 0),
        ),
        (
            "5 % are left out at each end, 10 % in all. For 95 % it is n // 40 at each end.",
            lambda i, d, s: _between(_resampled(i, d, s), len(d) // 20),
        ),
        ("the scores are not sorted before their ends are left out.", _unsorted),
        (
            "one score too many is left out at the upper end: as many as at the lower one.",
            lambda i, d, s: (
                _interval(i, d, s)[0],
                sorted(_resampled(i, d, s))[-2 - len(d) // 40],
            ),
        ),
        (
            "one score too few is left out at the upper end: -k is the place of the k-th score "
            "from the top, and k are to be left out.",
            lambda i, d, s: (_interval(i, d, s)[0], sorted(_resampled(i, d, s))[-(len(d) // 40)]),
        ),
        (
            "the two have changed places: first the low end.",
            lambda i, d, s: _interval(i, d, s)[::-1],
        ),
        (
            "this is the mean and 1.96 standard deviations on either side. The scores themselves "
            "are asked for: which of them stand at the ends?",
            _spread,
        ),
        (
            "a quantile between two scores is worked out. Leave out n // 40 scores at each end; "
            "the ends are two of the scores.",
            _quantiles,
        ),
    ]
]


def _wins(a: Any, b: Any, draws: Any, score: str) -> float:
    return _share(_resampled(a, draws, score), _resampled(b, draws, score))


def _share(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(x > y for x, y in zip(first, second, strict=True)) / len(first)


def _wins_by(compare: Callable[[list[float], list[float]], float]) -> Callable[..., float]:
    def wins(a: Any, b: Any, draws: Any, score: str) -> float:
        return compare(_resampled(a, draws, score), _resampled(b, draws, score))

    return wins


_WIN_TWINS = [
    Twin(f"share_of_wins: {said}", wrong)
    for said, wrong in [
        (
            "a draw in which both score the same counts as a win here. A wins where it scores "
            "more.",
            _wins_by(lambda x, y: 1 - _share(y, x)),
        ),
        (
            "a draw in which both score the same counts as half a win here; it is none.",
            _wins_by(lambda x, y: (_share(x, y) + 1 - _share(y, x)) / 2),
        ),
        (
            "draws in which both score the same are left out. Divide by the number of all draws.",
            _wins_by(lambda x, y: _share(x, y) / ((_share(x, y) + _share(y, x)) or 1)),
        ),
        ("these are the wins of B.", _wins_by(lambda x, y: _share(y, x))),
        (
            "this is the number of wins; divide it by the number of draws.",
            _wins_by(lambda x, y: _share(x, y) * len(x)),
        ),
        ("a share is from 0 to 1, no percentage.", _wins_by(lambda x, y: 100 * _share(x, y))),
        (
            "A and B are not scored on the same draw. One draw is a test set: both take it, as "
            "two pupils sit the same examination.",
            _wins_by(lambda x, y: _share(x, y[1:] + y[:1])),
        ),
        (
            "the scores are sorted before they are compared, so that each of A meets one of B on "
            "another draw.",
            _wins_by(lambda x, y: _share(sorted(x), sorted(y))),
        ),
        (
            "the sentences are compared one by one, and the draws are not used.",
            lambda a, b, d, s: _share(*([_SCORES[s]([i]) for i in each] for each in (a, b))),
        ),
        (
            "this is the mean difference of the scores. How often is A ahead?",
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
_SEVEN_DRAWS = [
    [1, 1, 1],
    [0, 2, 2],
    [0, 0, 1],
    [0, 2, 0],
    [1, 0, 0],
    [0, 1, 2],
    [2, 0, 1],
]


def _with_score(candidate: object) -> object:
    """Return a function that takes the words for a score, and hands on the score itself."""
    if not callable(candidate):
        return candidate

    def with_score(*inputs: object) -> object:
        return candidate(*inputs[:-1], _SCORES[cast(str, inputs[-1])])

    with_score.__name__ = getattr(candidate, "__name__", "")
    return with_score


@_parts.part("bootstrap", "interval", "share_of_wins")
def bootstrap(interval: object, share_of_wins: object, thorough: bool = False) -> None:
    """Check an interval and a comparison of two systems on draws that are given."""
    mean, rate, score = _SCORES
    cases: list[tuple[list[Any], list[list[int]], str]] = [
        ([1.0, 2.0, 6.0], [[2, 1, 2], [0, 0, 1], [0, 1, 2], [1, 1, 0], [2, 2, 2]], mean),
        (_RATES, draws(3, 6), rate),
        (_RATES, draws(79, 6, seed=1), rate),
        (count(*outputs(7, 2)), draws(43, 7, seed=2), score),
    ]
    if thorough:
        cases.append((count(*outputs(23, 3)), draws(211, 23, seed=3), score))
    for items, drawn, how in cases:
        asked = {"items": items, "draws": drawn, "score": how}
        answer = call_twice(_with_score(interval), asked)
        ends = tuple(map(_short, expect_pair(answer, ("low", "high"), asked)))
        hint = "interval: score every draw, sort, leave n // 40 out at each end."
        expected = tuple(map(_short, _interval(items, drawn, how)))
        expect_value(ends, expected, "the interval", asked, _INTERVAL_TWINS, hint)
    first, second = (count(*outputs(7, 2, m)) for m in ("toy-additive", "toy-fixed"))
    rivals: list[tuple[list[Any], list[Any], list[list[int]], str]] = [
        ([2.0, 1.0, 1.0], [1.0, 1.0, 2.0], _SEVEN_DRAWS, mean),
        (_RATES, _OTHER_RATES, draws(17, 6, seed=1), rate),
        (first, second, draws(13, 7, seed=5), score),
    ]
    if thorough:
        rivals += [(second, first, draws(17, 7, seed=6), score)]
        rivals += [(_OTHER_RATES, _RATES, draws(101, 6, seed=7), rate)]
    for a, b, drawn, how in rivals:
        asked = {"a": a, "b": b, "draws": drawn, "score": how}
        answer = call_twice(_with_score(share_of_wins), asked)
        number = plain_number(answer)
        share = answer if number is None else number
        hint = "share_of_wins: in what share of the draws does A score more than B?"
        expect_value(share, _wins(a, b, drawn, how), "the share", asked, _WIN_TWINS, hint)


# Part 4

_LONG_ENOUGH = 4
"""From so many letters on a word is spoilt where words or their endings are."""


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
    """Return the texts of a system with a fault in every n-th sentence, and the references.

    It is good but for that: one word of every sixth sentence is another one.
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
    """Return the reports of the three systems that nobody has read yet."""
    return {name: _report(*system, seed=5) for name, system in _SYSTEMS.items()}


def sentence_of(name: str) -> tuple[str, str]:
    """Return a spoilt sentence of one of the three systems, and its reference."""
    hypotheses, references = spoilt(*_SYSTEMS[name], seed=5)
    return hypotheses[2], references[2]


FAULTS = ("omission", "repetition", "order", "endings", "words")

_PLANTED = [(1, 0, 2), (2, 0, 2)]
_FURTHER_PLANTED = [(1, 1, 3), (2, 2, 2), (2, 3, 3)]
"""A fault is in every which sentence, the seed of the sentences, and their clauses."""

_WOULD_SHOW = {
    "omission": "Where words are left out, the length ratio is well below 1.",
    "repetition": "Where words are said twice, the length ratio is well above 1.",
    "order": "Where only the order is wrong, the words are right: the precision of single words is "
    "near 100.",
    "endings": "Where endings are wrong, letters are right that make no right word: chrF is above "
    "the precision of single words.",
    "words": "Where words are others altogether, their letters are wrong too: chrF is below the "
    "precision of single words.",
}
_SHOWS = {
    "omission": "the length ratio is {length_ratio}, and the precisions are high: what is there is "
    "right, but not all is there.",
    "repetition": "the length ratio is {length_ratio}: the system says too much, and what it says "
    "twice is matched once.",
    "order": "single words are nearly all right ({precisions[0]} of 100), and longer n-grams are "
    "not: they stand in the wrong order.",
    "endings": "the length is right, single words are not ({precisions[0]} of 100), and chrF is "
    "higher, {chrf}: of the wrong words many letters are right.",
    "words": "the length is right, single words are not ({precisions[0]} of 100), and chrF is "
    "still lower, {chrf}: the wrong words have little in common with the right ones.",
}


@_parts.part("diagnosis", "diagnose")
def diagnosis(candidate: object, thorough: bool = False) -> None:
    """Check the faults read from the reports of systems in which they were planted."""
    for every, seed, clauses in [*_PLANTED, *_FURTHER_PLANTED * thorough]:
        for fault in FAULTS:
            report = _report(fault, every, seed, clauses)
            asked = {"report": report}
            said = call_twice(candidate, asked)
            if not isinstance(said, str) or said != fault:
                raise CheckFailed(_misread(said, fault, report, asked, every, seed, clauses))


def _misread(
    said: object,
    fault: str,
    report: Mapping[str, object],
    asked: Mapping[str, object],
    every: int,
    seed: int,
    clauses: int,
) -> str:
    if not isinstance(said, str) or said not in FAULTS:
        names = ", ".join(map(repr, FAULTS))
        return f"  Expected one of {names}; got {show(said)}.\n{describe(asked)}"
    hypotheses, references = spoilt(fault, every, seed, clauses)
    return (
        f"  This is no case of {said}. {_WOULD_SHOW[said]}\n"
        f"  Here {_SHOWS[fault].format(**report)}\n"
        "  A system with one great fault makes a few small errors besides: compare with room to "
        f"spare.\n{describe(asked)}\n"
        f"  sentence    {hypotheses[2 * every]}\n  sentence    {references[2 * every]} (reference)"
    )


# Part 5


def _kept(order: Sequence[str], reference: Sequence[str]) -> list[int]:
    return [_clipped(order, reference, n)[0] for n in range(1, MAX_ORDER + 1)]


def _pieces_reversed(hypothesis: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the words, cut wherever it costs nothing, the pieces in the reverse order."""
    theirs = count_ngrams(reference, 2)
    pieces: list[list[str]] = []
    for place, word in enumerate(hypothesis):
        if not place or (hypothesis[place - 1], word) not in theirs:
            pieces.append([])
        pieces[-1].append(word)
    return [word for piece in reversed(pieces) for word in piece]


_NONSENSE_TWINS = [
    Twin(
        "The words stand in the reverse order, and so do the words of every n-gram that was "
        "matched.",
        lambda h, r: h[::-1],
    ),
    Twin("The words are sorted, and n-grams that were matched are torn.", lambda h, r: sorted(h)),
    *known(
        "The sentence is cut in the middle, whatever stands there. Ask where a cut costs nothing.",
        lambda h, r: [*h[len(h) // 2 :], *h[: len(h) // 2]],
        lambda h, r: [*h[(len(h) + 1) // 2 :], *h[: (len(h) + 1) // 2]],
    ),
    *known(
        "The first word is moved to the end, or the last one to the front, whatever it is "
        "matched with.",
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
    """Check that the same words stand in another order, and that no match is lost."""
    cases = _NONSENSE_CASES
    if thorough:
        cases = [*cases, *zip(*outputs(19, 3), strict=True)]
    for hypothesis, reference in cases:
        _expect_nonsense(candidate, hypothesis.split(), reference.split())


def _expect_nonsense(candidate: object, hypothesis: list[str], reference: list[str]) -> None:
    asked = {"hypothesis": hypothesis, "reference": reference}
    answer = call(candidate, asked)
    if not isinstance(answer, list | tuple) or not all(isinstance(w, str) for w in answer):
        said = "None: is there a `return`?" if answer is None else show(answer)
        raise CheckFailed(f"  Expected a list of words, got {said}\n{describe(asked)}")
    order = [str(word) for word in answer]
    got = f"{describe(asked)}\n  got         {' '.join(order)}"
    missing, extra = Counter(hypothesis) - Counter(order), Counter(order) - Counter(hypothesis)
    if missing or extra:
        what = f"lacks {show(next(iter(missing)))}" if missing else f"has {show(next(iter(extra)))}"
        raise CheckFailed(
            f"  The answer {what}{'' if missing else ' too often'}. Keep every word, as often as "
            f"it stands in the hypothesis: only the order may change.\n{got}"
        )
    before, after = _kept(hypothesis, reference), _kept(order, reference)
    for n, (had, has) in enumerate(zip(before, after, strict=True), start=1):
        if has < had:
            twins = (
                t.diagnosis for t in _NONSENSE_TWINS if t.answer(hypothesis, reference) == order
            )
            why = next(twins, "The sentence is cut inside a run of words that the reference has.")
            theirs = count_ngrams(reference, n)
            lost = (count_ngrams(hypothesis, n) & theirs) - (count_ngrams(order, n) & theirs)
            raise CheckFailed(
                f"  {why} BLEU falls: “{' '.join(next(iter(lost)))}” was matched, and is no "
                f"more.\n{got}"
            )
    free = _free_cuts(hypothesis, reference)
    if order == hypothesis and free:
        left, right = hypothesis[free[0] - 1], hypothesis[free[0]]
        why = f"What would it cost, for example, to cut between “{left}” and “{right}”?"
        if _pieces_reversed(hypothesis, reference) == order:
            why += " In the reverse order the pieces read as before: try another."
        raise CheckFailed(
            "  This is the hypothesis as it was, and there is another order that loses nothing. "
            f"{why}\n{got}"
        )


def _free_cuts(hypothesis: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Return the places between words that are no neighbours in the reference."""
    theirs = count_ngrams(reference, 2)
    return [
        place
        for place, pair in enumerate(_grams(hypothesis, 2), start=1)
        if pair not in theirs and [*hypothesis[place:], *hypothesis[:place]] != [*hypothesis]
    ]


# Part 6


def contexts(number: int, clauses: int, split: str = "train") -> tuple[Tensor, list[list[int]]]:
    """Return the fixed context of each sentence, and of each its nouns, by their numbers."""
    model, src_tokenizer, tgt_tokenizer = load_pretrained("toy-fixed").translator()
    pairs = toy.load(split, number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    src = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer)).src
    with torch.no_grad():
        memory = cast(Seq2Seq, model.eval()).encode(src)
        query = torch.zeros(len(src), 1)  # which a fixed context does not look at
        context, _ = FixedContext()(query, memory.outputs, memory.mask.squeeze(1))
    numbers = {form: index for index, noun in enumerate(NOUNS) for form in noun.english.split()}
    return context, [[numbers[word] for word in pair.src if word in numbers] for pair in pairs]


def _fitted(contexts: Tensor, targets: Tensor, new: Tensor, ridge: float, ones: float) -> Tensor:
    """Return what ridge regression says of `new`, by singular values, in 64 bits."""
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
    """Answer with the label of the nearest context: a probe that learns everything by heart."""
    return cast(list[int], labels[torch.cdist(new, contexts).argmin(dim=1)].tolist())


def _nearest_mean(contexts: Tensor, labels: Tensor, new: Tensor) -> Tensor:
    """Answer with the class whose contexts have the nearest mean: a probe that may be wrong."""
    classes = labels.unique()
    means = torch.stack([contexts[labels == each].mean(dim=0) for each in classes])
    return classes[torch.cdist(new, means).argmin(dim=1)]


_PROBE_TWINS = [
    Twin(
        "probe: the column of ones is missing, so each class's line goes through the origin.",
        lambda x, y, n, r: _predicted(x, y, n, r, ones=0.0),
    ),
    Twin(
        "probe: the labels are fitted as numbers. Class 2 does not lie between 1 and 3: give each "
        "class a column of its own, one-hot.",
        _by_number,
    ),
    Twin(
        "probe: the contexts are brought to one scale first. Take them as they are.",
        _standardised,
    ),
    Twin(
        "probe: ridge is not added for the column of ones. I is as large as XᵀX, ones on all of "
        "its diagonal.",
        lambda x, y, n, r: _predicted(x, y, n, r, ones=1e4),  # so large, ridge is nothing to it
    ),
    Twin(
        "probe: ridge is not used.",
        lambda x, y, n, r: _predicted(x, y, n, 1e-9),
    ),
    Twin(
        "probe: the class with the lowest score is chosen.",
        lambda x, y, n, r: _scores(x, y, n, r).argmin(dim=1).tolist(),
    ),
    Twin(
        "probe: these are the labels that the contexts of the training get. Answer for `new`.",
        lambda x, y, n, r: _predicted(x, y, x, r),
    ),
    Twin(
        "probe: the label of the nearest context is answered. Fit one matrix to all of them.",
        _nearest,
    ),
    Twin(
        "probe: the best context of each class is chosen, not the best class of each context: "
        "argmax runs along dim=1.",
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
            "the probe is examined on what it was trained on, and may know it by heart. Examine it "
            "on the new contexts.",
            _evidence_with(0, lambda x, y, n, z, o: _right(_nearest_mean(x, y, x), y)),
        ),
        (
            "the probe is trained on the new contexts too, and has seen the answers.",
            _evidence_with(0, lambda x, y, n, z, o: _right(_nearest_mean(n, z, n), z)),
        ),
        (
            "the commonest label is taken from the new labels, which nobody knows beforehand. "
            "Take that of the training.",
            _evidence_with(
                1, lambda x, y, n, z, o: _right(torch.full_like(z, int(z.bincount().argmax())), z)
            ),
        ),
        (
            "one over the number of classes is chance only if all are equally common. How often "
            "is the commonest label right?",
            _evidence_with(1, lambda x, y, n, z, o: 1 / len(set(y.tolist()))),
        ),
        (
            "this is how common the commonest label is in training. How often is it right for "
            "the new ones?",
            _evidence_with(1, lambda x, y, n, z, o: float(y.bincount().max() / len(y))),
        ),
        (
            "nothing is shuffled, or the contexts along with their labels, so every pair stays a "
            "pair. Shuffle the labels alone.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x, y, n), z)),
        ),
        (
            "the probe with the shuffled labels is examined on what it was trained on: it only "
            "shows how well it learns by heart.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x, y[o], x), y[o])),
        ),
        (
            "with the shuffled labels, the contexts of the training are examined; take the new "
            "ones.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x, y[o], x), y)),
        ),
        (
            "the contexts are rearranged, not the labels: labels[order] is asked for.",
            _evidence_with(2, lambda x, y, n, z, o: _right(_nearest_mean(x[o], y, n), z)),
        ),
        (
            "the second and the third have changed places.",
            lambda *inputs: tuple(_evidence(*inputs)[i] for i in (0, 2, 1)),
        ),
        (
            "these are percentages; shares are from 0 to 1.",
            lambda *inputs: tuple(100 * share for share in _evidence(*inputs)),
        ),
        (
            "these are numbers of right answers; divide them by how many there are.",
            lambda *inputs: tuple(len(inputs[3]) * share for share in _evidence(*inputs)),
        ),
    ]
]


def _planted(sizes: Sequence[int], dim: int, seed: int, spread: float = 1.0) -> tuple[Tensor, ...]:
    """Return contexts around one point for each class, of which so many; and shuffled labels."""
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
    """Check a linear probe, and how its accuracy is set beside two others."""
    for x, labels, new, ridge in [*_PROBED, *_FURTHER_PROBED * thorough]:
        asked: dict[str, object] = {"contexts": x, "labels": labels, "new": new, "ridge": ridge}
        got = _labels_of(call_twice(fit, asked), asked)
        expected = _predicted(x, labels, new, ridge)
        hint = "probe: ridge regression on one-hot labels chooses others."
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
                "  evidence: expected three numbers, `return accuracy, commonest, shuffled`\n"
                + describe(given)
            )
        shares = tuple(map(_short, answer))
        hint = "evidence: the probe that is handed in gives other shares."
        expected_shares = tuple(map(_short, _evidence(x, labels, new, new_labels, order)))
        expect_value(shares, expected_shares, "the three shares", given, _EVIDENCE_TWINS, hint)


def _labels_of(answer: object, asked: Mapping[str, object]) -> list[object]:
    values = answer.tolist() if isinstance(answer, Tensor | np.ndarray) else answer
    if not isinstance(values, list | tuple):
        said = "None: is there a `return`?" if answer is None else show(answer)
        raise CheckFailed(
            f"  probe: expected a label for each new context, got {said}\n{describe(asked)}"
        )
    labels = list(_whole(values))
    if not all(isinstance(label, int) for label in labels):
        raise CheckFailed(
            "  probe: a label is a whole number, one for each new context. Are these the scores? "
            f"Take argmax of each row.\n{describe(asked)}"
        )
    return labels


def _with_probe(candidate: object) -> object:
    """Return a function that hands on a probe before its other inputs."""
    if not callable(candidate):
        return candidate

    def predict(contexts: Tensor, labels: Tensor, new: Tensor) -> Tensor:
        return _nearest_mean(contexts, labels, new)

    def with_probe(*inputs: object) -> object:
        return candidate(predict, *inputs)

    with_probe.__name__ = getattr(candidate, "__name__", "")
    return with_probe
