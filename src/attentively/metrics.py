"""How good is it? BLEU, perplexity, exact match and alignment error rate, by hand."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

MAX_ORDER = 4
"""The longest n-gram that BLEU counts."""

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
    """Count every run of `order` neighbouring tokens."""
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenize: Callable[[str], Sequence[str]] = tokenize_13a,
) -> BLEU:
    r"""Score a corpus of translations against one reference, or several, for each.

    .. math::

        \mathrm{BLEU} = 100 \cdot \min\!\left(1, e^{1 - r/c}\right)
            \cdot \Bigl(\prod_{n=1}^{4} p_n\Bigr)^{1/4},
        \qquad
        p_n = \frac{\sum_{\text{n-grams}} \min(\text{count in hypothesis},
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
    matches = [0] * MAX_ORDER
    totals = [0] * MAX_ORDER
    hypothesis_length = reference_length = 0
    for hypothesis, given in zip(hypotheses, references, strict=True):
        alternatives = [given] if isinstance(given, str) else given
        if not alternatives:
            raise ValueError(f"the hypothesis {hypothesis!r} has no reference")
        hypothesis_tokens = tokenize(hypothesis)
        reference_tokens = [tokenize(reference) for reference in alternatives]
        hypothesis_length += len(hypothesis_tokens)
        reference_length += _nearest_length(len(hypothesis_tokens), reference_tokens)
        for n in range(1, MAX_ORDER + 1):
            counts = count_ngrams(hypothesis_tokens, n)
            allowed: Counter[tuple[str, ...]] = Counter()
            for tokens in reference_tokens:
                allowed |= count_ngrams(tokens, n)  # the highest count in any one reference
            clipped = counts & allowed  # the lower of both counts
            matches[n - 1] += clipped.total()
            totals[n - 1] += counts.total()
    precisions = _smoothed_precisions(matches, totals)
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
