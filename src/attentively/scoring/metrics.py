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
"""The longest n-gram that BLEU counts, in words."""
CHRF_ORDER = 6
"""The longest n-gram that chrF counts, in characters."""
CHRF_BETA = 2
"""How many times recall weighs as much as precision in chrF."""

Link = tuple[int, int]
"""A word of the source and a word of the target that translate each other, counted from 0."""


class BLEU(NamedTuple):
    """A BLEU score and what it is made of."""

    score: float
    """From 0 to 100."""
    precisions: list[float]
    """Of n-grams of 1, 2, 3 and 4 words, from 0 to 100, after smoothing."""
    brevity_penalty: float
    """From 0 to 1; 1 where the hypotheses are at least as long as the references."""
    hypothesis_length: int
    """Tokens in all hypotheses together."""
    reference_length: int
    """Tokens in all references together; of several, the one nearest in length counts."""


# Split off: every ASCII mark but the apostrophe, the comma, the hyphen and the full stop.
_MARK = re.compile("([" + re.escape("".join(set(string.punctuation) - set("',-."))) + "])")
_MARK_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_MARK_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")


def tokenize_13a(text: str) -> list[str]:
    """Cut a sentence into words and marks as sacreBLEU does by default (``tok:13a``).

    Only ASCII marks are split off: ``l'animal`` and ``«oui»`` stay whole, ``3,14`` too.
    The name is that of the NIST script whose rules these are, mteval-v13a.
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
    """Count every run of `order` neighbouring tokens; those of a text are its characters."""
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenize: Callable[[str], Sequence[str]] = tokenize_13a,
) -> BLEU:
    r"""Score a corpus of translations against one reference, or several, for each.

    .. math::

        \mathrm{BLEU} &= 100 \cdot \min\!\left(1, e^{1 - r/c}\right)
            \cdot \Bigl(\prod_{n=1}^{4} p_n\Bigr)^{1/4} \\
        p_n &= \frac{\sum_{\text{n-grams}} \min(\text{count in hypothesis},
            \text{count in reference})}{\sum_{\text{n-grams}} \text{count in hypothesis}}

    with :math:`c` tokens in the hypotheses and :math:`r` in the references. The sums run
    over the whole corpus: the score is no mean of sentence scores. The first
    :math:`p_n` without any match is replaced by half a match, the next by a quarter, and so
    on. Papineni et al. (2002), https://aclanthology.org/P02-1040; the choices left open
    there are those of sacreBLEU (Post 2018, https://aclanthology.org/W18-6319), with the
    signature ``case:mixed|eff:no|tok:13a|smooth:exp``.

    `tokenize` turns a sentence into tokens; ``str.split`` is right for text whose tokens
    stand between spaces already. Raises `ValueError` for an empty corpus and for
    hypotheses and references that differ in number.
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
    """Return what BLEU needs of one sentence: ten counts, added up over a corpus.

    They are the lengths of the hypothesis and of its reference, the matches of 1, 2, 3
    and 4 words, and the n-grams of the hypothesis likewise. The hypothesis has one
    reference, or several.
    """
    tokens = tokenize(hypothesis)
    references = [tokenize(reference) for reference in _alternatives(hypothesis, given)]
    matches, totals = [], []
    for n in range(1, MAX_ORDER + 1):
        counts = count_ngrams(tokens, n)
        allowed: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            # The highest count in any one reference
            allowed |= count_ngrams(reference, n)
        clipped = counts & allowed  # the lower of both counts
        matches.append(clipped.total())
        totals.append(counts.total())
    return [len(tokens), _nearest_length(len(tokens), references), *matches, *totals]


def bleu_from_counts(counts: Sequence[int]) -> BLEU:
    """Return the score of a corpus from the sums of its sentences' `bleu_counts`."""
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
    """How many n-grams of one order two texts have, and share."""

    shared: int
    hypothesis: int
    reference: int


def chrf(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    r"""Score a corpus by the runs of characters that it shares with its references, 0 to 100.

    .. math::

        \mathrm{chrF} &= 100 \cdot \frac{(1 + \beta^2) \, P R}{\beta^2 P + R} \\
        P &= \frac{1}{6} \sum_{n=1}^{6} \frac{\text{shared n-grams}}
            {\text{n-grams of the hypotheses}} \\
        R &= \frac{1}{6} \sum_{n=1}^{6} \frac{\text{shared n-grams}}
            {\text{n-grams of the references}}

    with :math:`\beta = 2`: to leave something out costs more than to say too much. N-grams
    are of characters, white space left out; each is counted over the whole corpus, and shared as
    often as the text has it that has it less often. An ending that is wrong costs a few
    n-grams and not the whole word, so chrF is milder than BLEU where words have many forms.
    Popović (2015), https://aclanthology.org/W15-3049; the choices left open there are those of
    sacreBLEU, with the signature ``case:mixed|eff:yes|nc:6|nw:0|space:no``: an order that all
    hypotheses or all references are too short for does not count, and of several references the
    one with the best score of its own does.

    Raises `ValueError` for an empty corpus and for hypotheses and references that differ in
    number.
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
    """Compare two texts by their n-grams of 1, 2, …, 6 characters."""
    ours, theirs = ("".join(text.split()) for text in (hypothesis, reference))
    overlaps = []
    for n in range(1, CHRF_ORDER + 1):
        counts, wanted = count_ngrams(ours, n), count_ngrams(theirs, n)
        # A hypothesis is not blamed for n-grams longer than its reference.
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
    """Return how few insertions, deletions and substitutions turn one sequence into the other.

    The tokens of two lists are compared, or the characters of two strings. Row by row, each
    cell of the table holds the distance between the first tokens of one and of the other, found
    from its three neighbours: Levenshtein's distance, as Wagner & Fischer (1974) compute it,
    https://doi.org/10.1145/321796.321811.
    """
    above = list(range(len(reference) + 1))  # from nothing: one insertion for every token
    for row, token in enumerate(hypothesis, start=1):
        current = [row]
        for column, wanted in enumerate(reference, start=1):
            substituted = above[column - 1] + (token != wanted)
            current.append(min(substituted, above[column] + 1, current[-1] + 1))
        above = current
    return above[-1]


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    r"""Return how many words must be mended for each word of the references; 0 is perfect.

    .. math:: \mathrm{WER} = \frac{\text{substitutions} + \text{deletions} +
        \text{insertions}}{\text{words of the references}}

    counted over the whole corpus, each sentence mended with the fewest edits possible
    (`edit_distance`). It is the measure of speech recognition, where there is one right
    answer; hypotheses that are too long can bring it above 1. Words stand between white space.

    Raises `ValueError` for an empty corpus, for lists that differ in length, and for references
    without any word.
    """
    _check_corpus(hypotheses=hypotheses, references=references)
    edits = words = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        edits += edit_distance(hypothesis.split(), reference.split())
        words += len(reference.split())
    if words == 0:
        raise ValueError("the word error rate needs a word: every reference given is empty")
    return edits / words


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the fraction of hypotheses, from 0 to 1, that equal their reference.

    Raises `ValueError` for an empty corpus and for lists that differ in length.
    """
    _check_corpus(hypotheses=hypotheses, references=references)
    matches = [
        hypothesis == given for hypothesis, given in zip(hypotheses, references, strict=True)
    ]
    return sum(matches) / len(matches)


def perplexity(mean_loss: float) -> float:
    r"""Return :math:`e^L` for a mean cross-entropy :math:`L` in nats per token.

    A model with perplexity 8 is as unsure as one that guesses among 8 equally likely
    tokens. The loss is the teacher-forced one, and only models that cut text into the same
    tokens compare. Raises `ValueError` for a loss that is negative or not a number.
    """
    if not mean_loss >= 0:  # also true of NaN
        raise ValueError(f"mean_loss={mean_loss}, but a cross-entropy is 0 nats or more")
    try:
        return math.exp(mean_loss)
    except OverflowError:
        return math.inf


def strongest_links(weights: Float[Tensor, "tgt_len src_len"]) -> set[Link]:
    """Link each target word to the source word that has its largest weight.

    The result is what `alignment_error_rate` compares: one link (source, target) for every row
    of `weights`. Of equally large weights the first counts. Give it words only: cut off the
    rows and columns of end tokens and padding, where those are not to be linked.
    """
    return {(source, target) for target, source in enumerate(weights.argmax(dim=-1).tolist())}


def alignment_error_rate(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> float:
    r"""Compare predicted word links with gold ones; 0 is perfect, 1 is all wrong.

    .. math:: \mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    for predicted links :math:`A`, sure gold links :math:`S` and possible gold links
    :math:`P \supseteq S`, counted over the whole corpus: one set of links a sentence pair.
    Sure links are possible too, whether `possible` repeats them or not; without `possible`,
    :math:`P = S` and the rate is one minus the F-score. Och & Ney (2003),
    https://aclanthology.org/J03-1002.

    Raises `ValueError` for an empty corpus, for lists that differ in length, and where
    there is no link at all, predicted or sure.
    """
    if possible is None:
        possible = sure
    _check_corpus(predicted=predicted, sure=sure, possible=possible)
    agreed = links = 0
    for a, s, p in zip(predicted, sure, possible, strict=True):
        agreed += len(a & s) + len(a & (p | s))
        links += len(a) + len(s)
    if links == 0:
        raise ValueError("the alignment error rate needs a link: every set given is empty")
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
                f"{name} must be a list of sentences, but is one string: {given[:40]!r}"
            )
    lengths = {name: len(given) for name, given in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"lists of different lengths do not pair up sentence by sentence: {lengths}"
        )
    if not all(lengths.values()):
        raise ValueError("an empty corpus has no score")
