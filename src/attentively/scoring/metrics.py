"""Metrics: BLEU, chrF, word error rate, exact match, perplexity, alignment error rate."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

MAX_ORDER = 4
"""Maximum n-gram order of BLEU, in words."""
CHRF_ORDER = 6
"""Maximum n-gram order of chrF, in characters."""
CHRF_BETA = 2
"""Weight of recall relative to precision in chrF."""

Link = tuple[int, int]
"""An alignment link: the indices of a source word and of a target word, counted from 0."""


class BLEU(NamedTuple):
    """A BLEU score and its components."""

    score: float
    """From 0 to 100."""
    precisions: list[float]
    """Precisions of n-grams of 1, 2, 3 and 4 words, from 0 to 100, after smoothing."""
    brevity_penalty: float
    """From 0 to 1; 1 if the hypotheses are at least as long as the references."""
    hypothesis_length: int
    """Number of tokens in all hypotheses."""
    reference_length: int
    """Number of tokens in all references; of several, the one nearest in length counts."""


# Split off: all ASCII punctuation except the apostrophe, the comma, the hyphen and the full stop.
_MARK = re.compile("([" + re.escape("".join(set(string.punctuation) - set("',-."))) + "])")
_MARK_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_MARK_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")


def tokenize_13a(text: str) -> list[str]:
    """Split a sentence into words and punctuation as sacreBLEU does by default (``tok:13a``).

    Only ASCII punctuation is split off: ``l'animal``, ``«oui»`` and ``3,14`` stay whole. The
    rules and the name are those of the NIST script mteval-v13a.
    """
    text = text.rstrip().replace("<skipped>", "")
    text = text.replace("-\n", "").replace("\n", " ")  # a word hyphenated at a line's end
    for entity, mark in [("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")]:
        text = text.replace(entity, mark)
    text = _MARK.sub(r" \1 ", f" {text} ")
    text = _MARK_AFTER_NON_DIGIT.sub(r"\1 \2 ", text)
    text = _MARK_BEFORE_NON_DIGIT.sub(r" \1 \2", text)
    text = _DASH_AFTER_DIGIT.sub(r"\1 \2 ", text)
    return text.split()


def count_ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """Count the n-grams of `order` tokens; the tokens of a string are its characters."""
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenize: Callable[[str], Sequence[str]] = tokenize_13a,
) -> BLEU:
    r"""Return the corpus BLEU of translations with one or several references each.

    .. math::

        \mathrm{BLEU} &= 100 \cdot \min\!\left(1, e^{1 - r/c}\right)
            \cdot \Bigl(\prod_{n=1}^{4} p_n\Bigr)^{1/4} \\
        p_n &= \frac{\sum_{\text{n-grams}} \min(\text{count in hypothesis},
            \text{count in reference})}{\sum_{\text{n-grams}} \text{count in hypothesis}}

    with :math:`c` tokens in the hypotheses and :math:`r` in the references. The sums run
    over the whole corpus: the score is not a mean of sentence scores. The first :math:`p_n`
    without a match is replaced by half a match, the next by a quarter, and so on. Papineni et
    al. (2002), https://aclanthology.org/P02-1040; details that the paper leaves open are those
    of sacreBLEU (Post 2018, https://aclanthology.org/W18-6319), with the signature
    ``case:mixed|eff:no|tok:13a|smooth:exp``.

    `tokenize` splits a sentence into tokens; use ``str.split`` for text that is already
    tokenized. Raises `ValueError` for an empty corpus and for different numbers of hypotheses
    and references.
    """
    _check_corpus(hypotheses=hypotheses, references=references)
    counted = [
        bleu_counts(hypothesis, given, tokenize)
        for hypothesis, given in zip(hypotheses, references, strict=True)
    ]
    return bleu_from_counts([sum(column) for column in zip(*counted, strict=True)])


def bleu_counts(
    hypothesis: str,
    given: str | Sequence[str],
    tokenize: Callable[[str], Sequence[str]] = tokenize_13a,
) -> list[int]:
    """Return the statistics of one sentence for BLEU: ten counts to be summed.

    They are the lengths of the hypothesis and of its reference, the numbers of matching
    n-grams of 1, 2, 3 and 4 words, and the numbers of n-grams of the hypothesis.
    `given` is one reference or several.
    """
    tokens = tokenize(hypothesis)
    references = [tokenize(reference) for reference in _alternatives(hypothesis, given)]
    matches, totals = [], []
    for n in range(1, MAX_ORDER + 1):
        counts = count_ngrams(tokens, n)
        allowed: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            allowed |= count_ngrams(reference, n)  # the highest count in any reference
        clipped = counts & allowed  # the lower of both counts
        matches.append(clipped.total())
        totals.append(counts.total())
    return [len(tokens), _nearest_length(len(tokens), references), *matches, *totals]


def bleu_from_counts(counts: Sequence[int]) -> BLEU:
    """Return the BLEU of a corpus from the sums of its sentences' `bleu_counts`."""
    hypothesis_length, reference_length, *ngrams = counts
    precisions = _smoothed_precisions(ngrams[:MAX_ORDER], ngrams[MAX_ORDER:])
    brevity_penalty = _brevity_penalty(hypothesis_length, reference_length)
    score = brevity_penalty * _geometric_mean(precisions)
    return BLEU(score, precisions, brevity_penalty, hypothesis_length, reference_length)


def _nearest_length(length: int, references: Sequence[Sequence[str]]) -> int:
    return min((len(tokens) for tokens in references), key=lambda n: (abs(n - length), n))


def _smoothed_precisions(matches: Sequence[int], totals: Sequence[int]) -> list[float]:
    if not any(matches):
        return [0.0] * MAX_ORDER
    precisions = []
    credit = 1.0
    for match, total in zip(matches, totals, strict=True):
        if total == 0:  # every hypothesis is shorter than n tokens
            precisions.append(0.0)
        elif match == 0:
            credit /= 2
            precisions.append(100 * credit / total)
        else:
            precisions.append(100 * match / total)
    return precisions


def _brevity_penalty(hypothesis_length: int, reference_length: int) -> float:
    if hypothesis_length >= reference_length:
        return 1.0
    return math.exp(1 - reference_length / hypothesis_length) if hypothesis_length else 0.0


def _geometric_mean(values: Sequence[float]) -> float:
    if 0 in values:
        return 0.0
    return math.exp(sum(math.log(value) for value in values) / len(values))


class _Overlap(NamedTuple):
    """Numbers of n-grams of one order in two texts, and of those they share."""

    shared: int
    hypothesis: int
    reference: int


def chrf(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    r"""Return the corpus chrF, an F-score of character n-grams, from 0 to 100.

    .. math::

        \mathrm{chrF} &= 100 \cdot \frac{(1 + \beta^2) \, P R}{\beta^2 P + R} \\
        P &= \frac{1}{6} \sum_{n=1}^{6} \frac{\text{shared n-grams}}
            {\text{n-grams of the hypotheses}} \\
        R &= \frac{1}{6} \sum_{n=1}^{6} \frac{\text{shared n-grams}}
            {\text{n-grams of the references}}

    with :math:`\beta = 2`: recall counts more than precision, so omissions cost more than
    additions. N-grams are of characters without white space, counted over the whole corpus, with
    the lower count of the two texts as the shared count. A wrong ending costs only a few n-grams,
    so chrF is less strict than BLEU for morphologically rich languages. Popović (2015),
    https://aclanthology.org/W15-3049; details that the paper leaves open are those of sacreBLEU,
    with the signature ``case:mixed|eff:yes|nc:6|nw:0|space:no``: orders longer than all
    hypotheses or all references are ignored, and of several references the best-scoring one
    counts.

    Raises `ValueError` for an empty corpus and for different numbers of hypotheses and
    references.
    """
    _check_corpus(hypotheses=hypotheses, references=references)
    totals = [_Overlap(0, 0, 0)] * CHRF_ORDER
    for hypothesis, given in zip(hypotheses, references, strict=True):
        alternatives = _alternatives(hypothesis, given)
        best = max((_overlaps(hypothesis, reference) for reference in alternatives), key=_f_score)
        totals = [
            _Overlap(*map(sum, zip(total, found, strict=True)))
            for total, found in zip(totals, best, strict=True)
        ]
    return 100 * _f_score(totals)


def _overlaps(hypothesis: str, reference: str) -> list[_Overlap]:
    """Return the overlaps of two texts in n-grams of 1, 2, …, 6 characters."""
    ours, theirs = ("".join(text.split()) for text in (hypothesis, reference))
    overlaps = []
    for n in range(1, CHRF_ORDER + 1):
        counts, wanted = count_ngrams(ours, n), count_ngrams(theirs, n)
        # N-grams longer than the reference do not count against a hypothesis.
        total = counts.total() if wanted else 0
        overlaps.append(_Overlap((counts & wanted).total(), total, wanted.total()))
    return overlaps


def _f_score(overlaps: Sequence[_Overlap]) -> float:
    counted = [overlap for overlap in overlaps if overlap.hypothesis and overlap.reference]
    if not any(overlap.shared for overlap in counted):
        return 0.0
    precision = sum(overlap.shared / overlap.hypothesis for overlap in counted) / len(counted)
    recall = sum(overlap.shared / overlap.reference for overlap in counted) / len(counted)
    weight = CHRF_BETA**2
    return (1 + weight) * precision * recall / (weight * precision + recall)


def edit_distance(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """Return the Levenshtein distance: the minimum number of edits between two sequences.

    Edits are insertions, deletions and substitutions of the tokens of a list or the characters of
    a string. Dynamic programming over prefixes, row by row: Wagner & Fischer (1974),
    https://doi.org/10.1145/321796.321811.
    """
    above = list(range(len(reference) + 1))  # from an empty sequence: one insertion per token
    for row, token in enumerate(hypothesis, start=1):
        current = [row]
        for column, wanted in enumerate(reference, start=1):
            substituted = above[column - 1] + (token != wanted)
            current.append(min(substituted, above[column] + 1, current[-1] + 1))
        above = current
    return above[-1]


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    r"""Return the word error rate: edits per word of the references; 0 is perfect.

    .. math:: \mathrm{WER} = \frac{\text{substitutions} + \text{deletions} +
        \text{insertions}}{\text{words of the references}}

    counted over the whole corpus, with the minimum number of edits of each sentence
    (`edit_distance`). It is the standard metric of speech recognition, where there is one correct
    output; hypotheses that are too long can raise it above 1. Words are separated by white space.

    Raises `ValueError` for an empty corpus, for lists of different lengths, and for references
    without any word.
    """
    _check_corpus(hypotheses=hypotheses, references=references)
    edits = words = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        edits += edit_distance(hypothesis.split(), reference.split())
        words += len(reference.split())
    if words == 0:
        raise ValueError("the word error rate is undefined: all references are empty")
    return edits / words


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the fraction of hypotheses, from 0 to 1, that equal their reference.

    Raises `ValueError` for an empty corpus and for lists of different lengths.
    """
    _check_corpus(hypotheses=hypotheses, references=references)
    matches = [
        hypothesis == given for hypothesis, given in zip(hypotheses, references, strict=True)
    ]
    return sum(matches) / len(matches)


def perplexity(mean_loss: float) -> float:
    r"""Return :math:`e^L` for a mean cross-entropy :math:`L` in nats per token.

    A model with perplexity 8 is as uncertain as a uniform distribution over 8 tokens. The loss
    is the teacher-forced one; only models with the same tokenization are comparable. Raises
    `ValueError` for a loss that is negative or NaN.
    """
    if not mean_loss >= 0:  # also true for NaN
        raise ValueError(f"mean_loss={mean_loss} must be a cross-entropy of at least 0 nats")
    try:
        return math.exp(mean_loss)
    except OverflowError:
        return math.inf


def strongest_links(weights: Float[Tensor, "tgt_len src_len"]) -> set[Link]:
    """Link each target word to the source word with the largest attention weight.

    Returns one link (source, target) for every row of `weights`, as `alignment_error_rate`
    expects. Of equal weights the first counts. Remove the rows and columns of end tokens and
    padding first if they should not be linked.
    """
    return {(source, target) for target, source in enumerate(weights.argmax(dim=-1).tolist())}


def alignment_error_rate(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> float:
    r"""Return the alignment error rate (AER); 0 is perfect, 1 means no agreement.

    .. math:: \mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    for predicted links :math:`A`, sure gold links :math:`S` and possible gold links
    :math:`P \supseteq S`, counted over the whole corpus, with one set of links per sentence
    pair. Sure links always count as possible; without `possible`, :math:`P = S` and the rate is
    one minus the F-score. Och & Ney (2003), https://aclanthology.org/J03-1002.

    Raises `ValueError` for an empty corpus, for lists of different lengths, and if there is no
    predicted and no sure link.
    """
    if possible is None:
        possible = sure
    _check_corpus(predicted=predicted, sure=sure, possible=possible)
    agreed = links = 0
    for a, s, p in zip(predicted, sure, possible, strict=True):
        agreed += len(a & s) + len(a & (p | s))
        links += len(a) + len(s)
    if links == 0:
        raise ValueError("the alignment error rate is undefined: all sets of links are empty")
    return 1 - agreed / links


def _alternatives(hypothesis: str, given: str | Sequence[str]) -> Sequence[str]:
    """Return the references of one hypothesis as a list, which must not be empty."""
    alternatives = [given] if isinstance(given, str) else given
    if not alternatives:
        raise ValueError(f"the hypothesis {hypothesis!r} has no reference")
    return alternatives


def _check_corpus(**lists: Sequence[object]) -> None:
    for name, given in lists.items():
        if isinstance(given, str):
            raise ValueError(
                f"{name} must be a list of sentences, but it is one string: {given[:40]!r}"
            )
    lengths = {name: len(given) for name, given in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"all lists must have the same length, one entry per sentence, but got {lengths}"
        )
    if not all(lengths.values()):
        raise ValueError("the corpus is empty, so it has no score")
