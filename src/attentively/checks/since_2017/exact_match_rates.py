"""Two measures of the same outputs, a law of surprises, and the mistakes made with them."""

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
            "shares, tokens: This is the mean of the sentences' shares. Count the places of all "
            "references together, so that a long one counts more.",
            _by_sentence,
        ),
        *known(
            "shares, tokens: The places of the outputs are counted. Those of the references are: "
            "what is missing at an output's end is wrong.",
            lambda o, r: sum(map(_right_places, o, r)) / sum(map(len, o)),
            lambda o, r: sum(map(_right_places, o, r))
            / sum(min(len(a), len(b)) for a, b in zip(o, r, strict=True)),
        ),
        *known(
            "shares, tokens: A token counts only at its own place.",
            lambda o, r: sum(sum(t in a for t in b) for a, b in zip(o, r, strict=True))
            / sum(map(len, r)),
        ),
        *known("shares, tokens: The places of the longer of the two are counted. A token too many "
               "at an output's end makes the sentence wrong, but is no place of the reference.",
               lambda o, r: sum(map(_right_places, o, r))
               / sum(max(len(a), len(b)) for a, b in zip(o, r, strict=True))),
    ],
    [
        *known(
            "shares, exact: An output that goes on after the reference's end, or stops before it, "
            "is not the same.",
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
        *known("shares, exact: A share of all sentences is asked for, not their number.",
               lambda o, r: float(sum(list(a) == list(b) for a, b in zip(o, r, strict=True)))),
    ],
    [
        *known(
            "shares, expected: The mean length is put into the power. Short sentences are right "
            "far more often: take the power for each sentence, and then the mean.",
            lambda o, r: shares_of(o, r)[0] ** _mean(map(len, r)),
        ),
        *known("shares, expected: This is the share of exact ones. What is asked is what it would "
               "be if errors fell on all places alike, each by itself.",
               lambda o, r: shares_of(o, r)[1]),
        *known("shares, expected: The lengths of the outputs are taken, not those of the "
               "references.", lambda o, r: _mean(shares_of(o, r)[0] ** len(a) for a in o)),
        *known("shares, expected: Each sentence has its own share in the power. All have the same "
               "chance at every place, that of `tokens`.",
               lambda o, r: _mean((_right_places(a, b) / len(b)) ** len(b)
                                  for a, b in zip(o, r, strict=True))),
        *known("shares, expected: For a sentence of n tokens all n have to be right: p to the "
               "power n, not p times n or p / n.",
               lambda o, r: _mean(shares_of(o, r)[0] / len(b) for b in r),
               lambda o, r: _mean(shares_of(o, r)[0] * len(b) for b in r)),
    ],
]  # fmt: skip


def needed(law: tuple[float, float], length: int, share: float) -> float:
    c, alpha = law
    return float(c * (length / -math.log(share)) ** (1 / alpha))


NEEDED_TWINS = [
    *known(
        "size_needed: The length is left out. All tokens have to be right: their surprises add up.",
        lambda law, n, s: needed(law, 1, s),
    ),
    *known(
        "size_needed: The length stands in the wrong place: a longer answer needs a larger model.",
        lambda law, n, s: law[0] * (1 / (n * -math.log(s))) ** (1 / law[1]),
    ),
    *known(
        "size_needed: The exponent is alpha. Solve loss = (c / N)^alpha for N: alpha goes under 1.",
        lambda law, n, s: law[0] * (n / -math.log(s)) ** law[1],
    ),
    *known("size_needed: The length multiplies the surprise, and goes under the power 1 / alpha.",
           lambda law, n, s: n * needed(law, 1, s)),
    *known("size_needed: 1 − share is taken for the surprise of the share, which is −ln share.",
           lambda law, n, s: law[0] * (n / (1 - s)) ** (1 / law[1]),
           lambda law, n, s: law[0] * (1 / (1 - s)) ** (1 / law[1])),
    *known("size_needed: c divides; it is a factor: N is measured in units of c.",
           lambda law, n, s: (n / -math.log(s)) ** (1 / law[1]) / law[0]),
    *known("size_needed: c is left out.", lambda law, n, s: (n / -math.log(s)) ** (1 / law[1])),
    *known(
        "size_needed: The logarithm has base 2 or 10. The loss is in nats: p = e^(−loss).",
        lambda law, n, s: law[0] * (n / -math.log2(s)) ** (1 / law[1]),
        lambda law, n, s: law[0] * (n / -math.log10(s)) ** (1 / law[1]),
    ),
    *known(
        "size_needed: 1 − share^(1/length) is the chance of an error at a place. The loss is the "
        "surprise, −ln of the chance of the right token; they are close where both are small.",
        lambda law, n, s: law[0] * (1 / (1 - s ** (1 / n))) ** (1 / law[1]),
    ),
    *known("size_needed: `share` itself is taken for the loss.",
           lambda law, n, s: law[0] * (n / s) ** (1 / law[1]),
           lambda law, n, s: law[0] * (1 / s) ** (1 / law[1])),
    *known("size_needed: This is how much smaller, not how large.",
           lambda law, n, s: law[0] * (-math.log(s) / n) ** (1 / law[1])),
]  # fmt: skip


def times(law: tuple[float, float], low: float, high: float) -> float:
    return float((math.log(low) / math.log(high)) ** (1 / law[1]))


TIMES_TWINS = [
    *known("times_larger: This is the other way round: how many times smaller.",
           lambda law, a, b: 1 / times(law, a, b)),
    *known("times_larger: This is the ratio of the shares. Asked is that of the sizes they need.",
           lambda law, a, b: b / a, lambda law, a, b: (b / a) ** (1 / law[1])),
    *known("times_larger: The exponent is 1 / alpha.",
           lambda law, a, b: math.log(a) / math.log(b),
           lambda law, a, b: (math.log(a) / math.log(b)) ** law[1]),
    *known("times_larger: This is a difference of sizes; asked is the ratio.",
           lambda law, a, b: needed(law, 1, b) - needed(law, 1, a)),
    *known("times_larger: The ratio does not depend on c: both sizes are measured in it.",
           lambda law, a, b: law[0] * times(law, a, b)),
]  # fmt: skip
