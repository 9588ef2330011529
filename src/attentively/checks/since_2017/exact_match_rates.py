"""Token accuracy, exact match, a scaling law of the loss, and common mistakes."""

import math
from collections.abc import Iterable, Sequence

from attentively.checks import Twin, known

Sentences = Sequence[Sequence[str]]


def _right_places(output: Sequence[str], reference: Sequence[str]) -> int:
    return sum(a == b for a, b in zip(output, reference, strict=False))


def shares_of(outputs: Sentences, references: Sentences) -> tuple[float, float, float]:
    places = sum(map(len, references))
    tokens = sum(map(_right_places, outputs, references)) / places
    exact = sum(list(a) == list(b) for a, b in zip(outputs, references, strict=True))
    expected = sum(tokens ** len(each) for each in references)
    return tokens, exact / len(references), expected / len(references)


def _mean(numbers: Iterable[float]) -> float:
    found = list(numbers)
    return sum(found) / len(found)


def _by_sentence(outputs: Sentences, references: Sentences) -> float:
    return _mean(_right_places(a, b) / len(b) for a, b in zip(outputs, references, strict=True))


SHARES_TWINS: list[list[Twin]] = [
    [
        *known(
            "shares, tokens: This is the mean over the sentences. Count the positions of all "
            "references together, so that a long one counts more.",
            _by_sentence,
        ),
        *known(
            "shares, tokens: The positions of the outputs are counted. Count those of the "
            "references: a token that is missing at the end of an output is wrong.",
            lambda o, r: sum(map(_right_places, o, r)) / sum(map(len, o)),
            lambda o, r: sum(map(_right_places, o, r))
            / sum(min(len(a), len(b)) for a, b in zip(o, r, strict=True)),
        ),
        *known(
            "shares, tokens: A token is correct only at the same position as in the reference.",
            lambda o, r: sum(sum(t in a for t in b) for a, b in zip(o, r, strict=True))
            / sum(map(len, r)),
        ),
        *known("shares, tokens: The positions of the longer of the two are counted. Additional "
               "tokens at the end of an output are not positions of the reference.",
               lambda o, r: sum(map(_right_places, o, r))
               / sum(max(len(a), len(b)) for a, b in zip(o, r, strict=True))),
    ],
    [
        *known(
            "shares, exact: An output that is longer or shorter than the reference is not equal "
            "to it.",
            lambda o, r: _mean(_right_places(a, b) == len(b) for a, b in zip(o, r, strict=True)),
            lambda o, r: _mean(_right_places(a, b) == len(a) for a, b in zip(o, r, strict=True)),
            lambda o, r: _mean(
                _right_places(a, b) == min(len(a), len(b)) for a, b in zip(o, r, strict=True)
            ),
        ),
        *known(
            "shares, exact: The order of the tokens matters.",
            lambda o, r: _mean(sorted(a) == sorted(b) for a, b in zip(o, r, strict=True)),
            lambda o, r: _mean(set(a) == set(b) for a, b in zip(o, r, strict=True)),
        ),
        *known("shares, exact: Expected the share of the sentences, not their number.",
               lambda o, r: float(sum(list(a) == list(b) for a, b in zip(o, r, strict=True)))),
    ],
    [
        *known(
            "shares, expected: The mean length is used as the exponent. Compute the power for each "
            "reference, then the mean of the powers.",
            lambda o, r: shares_of(o, r)[0] ** _mean(map(len, r)),
        ),
        *known("shares, expected: This is `exact`. Expected its value if every token were correct "
               "independently with probability `tokens`.",
               lambda o, r: shares_of(o, r)[1]),
        *known("shares, expected: The lengths of the outputs are used, not those of the "
               "references.", lambda o, r: _mean(shares_of(o, r)[0] ** len(a) for a in o)),
        *known("shares, expected: The share of each sentence is used as its base. The base is "
               "`tokens` for all sentences.",
               lambda o, r: _mean((_right_places(a, b) / len(b)) ** len(b)
                                  for a, b in zip(o, r, strict=True))),
        *known("shares, expected: All n tokens of a reference must be correct. The probability is "
               "p to the power n, not p · n or p / n.",
               lambda o, r: _mean(shares_of(o, r)[0] / len(b) for b in r),
               lambda o, r: _mean(shares_of(o, r)[0] * len(b) for b in r)),
    ],
]  # fmt: skip


def needed(law: tuple[float, float], length: int, share: float) -> float:
    c, alpha = law
    return float(c * (length / -math.log(share)) ** (1 / alpha))


NEEDED_TWINS = [
    *known(
        "size_needed: The length is ignored. All tokens must be correct, so their losses add up.",
        lambda law, n, s: needed(law, 1, s),
    ),
    *known(
        "size_needed: The size decreases with the length, but a longer answer needs a larger "
        "model.",
        lambda law, n, s: law[0] * (1 / (n * -math.log(s))) ** (1 / law[1]),
    ),
    *known(
        "size_needed: The exponent is alpha. Solving loss = (c / N)^alpha for N gives 1 / alpha.",
        lambda law, n, s: law[0] * (n / -math.log(s)) ** law[1],
    ),
    *known("size_needed: The size is multiplied by the length. The length multiplies the loss, "
           "inside the power 1 / alpha.",
           lambda law, n, s: n * needed(law, 1, s)),
    *known("size_needed: 1 − share is used as the loss; the loss is −ln(share).",
           lambda law, n, s: law[0] * (n / (1 - s)) ** (1 / law[1]),
           lambda law, n, s: law[0] * (1 / (1 - s)) ** (1 / law[1])),
    *known("size_needed: The result is divided by c; it must be multiplied by c.",
           lambda law, n, s: (n / -math.log(s)) ** (1 / law[1]) / law[0]),
    *known("size_needed: The factor c is missing.",
           lambda law, n, s: (n / -math.log(s)) ** (1 / law[1])),
    *known(
        "size_needed: The logarithm has base 2 or 10. The loss is in nats: use the natural one.",
        lambda law, n, s: law[0] * (n / -math.log2(s)) ** (1 / law[1]),
        lambda law, n, s: law[0] * (n / -math.log10(s)) ** (1 / law[1]),
    ),
    *known(
        "size_needed: 1 − share^(1/length) is the probability of an error at one position. The "
        "loss "
        "is −ln of the probability of the correct token; they are close only where both are small.",
        lambda law, n, s: law[0] * (1 / (1 - s ** (1 / n))) ** (1 / law[1]),
    ),
    *known("size_needed: `share` itself is used as the loss; the loss is −ln(share).",
           lambda law, n, s: law[0] * (n / s) ** (1 / law[1]),
           lambda law, n, s: law[0] * (1 / s) ** (1 / law[1])),
    *known("size_needed: The ratio of the length and −ln(share) is inverted.",
           lambda law, n, s: law[0] * (-math.log(s) / n) ** (1 / law[1])),
]  # fmt: skip


def times(law: tuple[float, float], low: float, high: float) -> float:
    return float((math.log(low) / math.log(high)) ** (1 / law[1]))


TIMES_TWINS = [
    *known("times_larger: The ratio is inverted: divide the size for `high` by that for `low`.",
           lambda law, a, b: 1 / times(law, a, b)),
    *known("times_larger: This is the ratio of the shares. Expected the ratio of the sizes.",
           lambda law, a, b: b / a, lambda law, a, b: (b / a) ** (1 / law[1])),
    *known("times_larger: The exponent must be 1 / alpha.",
           lambda law, a, b: math.log(a) / math.log(b),
           lambda law, a, b: (math.log(a) / math.log(b)) ** law[1]),
    *known("times_larger: This is a difference of sizes; expected their ratio.",
           lambda law, a, b: needed(law, 1, b) - needed(law, 1, a)),
    *known("times_larger: The ratio does not depend on c, which cancels.",
           lambda law, a, b: law[0] * times(law, a, b)),
]  # fmt: skip
