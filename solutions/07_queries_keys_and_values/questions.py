"""Attention pooling as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Of a
learned width, the losses at many widths are recorded.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attentively.checks import queries_keys_and_values as checks
from attentively.checks.edits import edited
from attentively.checks.queries_keys_and_values import DOT, HALF, SHARES, Alpha
from attentively.checks.question import Case, Question, cases_of, learning

KEYS_FOR_VALUES = (
    " instead of the values. The keys determine the weights; the weighted sum is that "
)
KEYS_FOR_VALUES += "of the values."
EXCHANGED = "The axes are exchanged. The result has a row for each query and a column for each key."


def rows(*numbers: float) -> Tensor:
    """Return single numbers as vectors of one component."""
    return torch.tensor([[number] for number in numbers])


# Part 1


def pool(query, keys, values, alpha):
    weights = alpha(query, keys)
    return weights @ values


def lookup(query, keys):
    equal = query.unsqueeze(1) == keys
    found = equal.all(dim=-1).float()
    return found


def average(query, keys):
    shape = len(query), len(keys)
    return torch.ones(shape) / len(keys)


def pool_cases(thorough: bool) -> Iterator[Case]:
    names = ("query", "keys", "values", "alpha")
    small = (rows(1.0, 0.5), rows(2.0, 0.5, -1.0), rows(10.0, 20.0, 30.0))
    square = tuple(torch.randn(3, 3, 2))
    stages = [(*small, DOT), (*small, HALF), (*square, DOT), (*square, SHARES)]
    if thorough:
        sizes = [(2, 5, 3, 7), (7, 1, 2, 1), (1, 11, 5, 3)]
        stages += [
            (torch.randn(q, d), torch.randn(n, d), torch.randn(n, m), alpha)
            for q, n, d, m in sizes
            for alpha in (SHARES, DOT)
        ]
    yield from cases_of(names, [(*given, Alpha(text)) for *given, text in stages])
    inputs = dict(zip(names, (*square, Alpha(SHARES)), strict=True))
    yield Case(learning(inputs, "query", "keys", "values"))


def weight_cases(thorough: bool) -> Iterator[Case]:
    # The keys are alike in their sums and in their dot products with the second query; the last
    # queries have the components of the first key in another order, or with another sign.
    query = torch.tensor([[3.0, 1.0], [3.0, 3.0], [0.0, 1.0], [1.0, 3.0], [-3.0, 1.0]])
    keys = torch.tensor([[3.0, 1.0], [2.0, 2.0]])
    many = torch.randn(29, 5)  # the distances that torch.cdist computes of so many are not exact
    asked = [
        (rows(3.0, 1.0), rows(1.0, 2.0, 3.0)),
        (rows(2.75), rows(2.0, 3.0)),
        (query, keys),
        (rows(2.00001, 1e-9), rows(2.0, 0.0, 3.0)),
        (many[::3], many),
    ]
    if thorough:
        asked += [(many.flip(0), many), (many[:11] + 0.25, many[:11]), (many, many[:1])]
    yield from cases_of(("query", "keys"), asked)


WEIGHTS, SUM = "alpha(query, keys)", "weights @ values"
POOL = Question(
    pool,
    {"the contexts": ""},
    pool_cases,
    {
        f"The keys are summed{KEYS_FOR_VALUES}": f"{SUM} -> weights @ keys",
        "The weights are divided by their sum. `pool` must use the weights as `alpha` returns "
        "them, whatever their sum.": f"{SUM} -> weights / weights.sum(-1, keepdim=True) @ values",
        "A softmax is applied to the weights. `pool` must use the weights as `alpha` returns them.":
            f"{SUM} -> weights.softmax(dim=-1) @ values",
        "`alpha` is called with queries and keys exchanged. Call `alpha(query, keys)`.": (
            f"{WEIGHTS} -> alpha(keys, query).T"
        ),
        "The weighted values are averaged over the pairs. Sum them instead.": (
            f"{SUM} -> {SUM} / len(keys)"
        ),
        "Each context is the value of a single key, the one with the largest weight. Sum all "
        "weighted values.": f"{SUM} -> values[weights.argmax(dim=-1)]",
        "`alpha` is called with one key at a time. Call it once with all keys: a softmax, for "
        "example, needs the scores of all keys.": (
            f"{WEIGHTS} -> torch.cat([alpha(query, key.unsqueeze(0)) for key in keys], dim=1)"
        ),
        "These values are the weights. Return the weighted sums of the values.": (
            f"{SUM} -> weights"
        ),
        "The weights are not used: these contexts are the plain sum of all values.": (
            f"{SUM} -> values.sum(dim=0).expand(len(query), -1)"
        ),
    },
    either_precision=True,
)  # fmt: skip

EQUAL, FOUND = "equal.all(dim=-1).float()", "return found -> return"
NOTHING_FOUND = "An exact lookup finds nothing here; all weights must be 0."
LOOKUP = Question(
    lookup,
    {"the weights of lookup": ""},
    weight_cases,
    {
        "A key counts as found if a single component equals that of the query. All components must "
        "be equal: .all(dim=-1).": [
            f"{EQUAL} -> equal.any(dim=-1).float()",
            f"{EQUAL} -> equal[:, :, 0].float()",
            f"{EQUAL} -> equal.float().mean(dim=-1)",
            f"{EQUAL} -> equal.float().sum(dim=-1)",
        ],
        f"A key that nearly equals the query counts as found. {NOTHING_FOUND}": (
            "query.unsqueeze(1) == keys -> torch.isclose(query.unsqueeze(1), keys)"
        ),
        f"A query that equals no key receives the nearest key. {NOTHING_FOUND}": (
            f"{FOUND} torch.eye(len(keys))"
            "[(query.unsqueeze(1) - keys).norm(dim=-1).argmin(dim=-1)]"
        ),
        f"A query that equals no key receives the first key. {NOTHING_FOUND}": (
            f"{FOUND} torch.eye(len(keys))[found.argmax(dim=-1)]"
        ),
        f"A query that equals no key has the weights 0 / 0, which are NaN. {NOTHING_FOUND}": (
            f"{FOUND} found / found.sum(dim=-1, keepdim=True)"
        ),
        f"A query that equals no key receives equal weights for all pairs. {NOTHING_FOUND}": (
            f"{FOUND} torch.where(found.sum(-1, keepdim=True) > 0, found, 1 / len(keys))"
        ),
        EXCHANGED: f"{FOUND} found.T",
        "The weights are inverted: they are 0 where the key equals the query, and must be 1 there.":
            f"{FOUND} 1 - found",
        "Different vectors can have the same sum, or the same dot product with a third vector. "
        "Compare them component by component.": [
            f"{EQUAL} -> (query.sum(-1, keepdim=True) == keys.sum(-1)).float()",
            f"{EQUAL} -> (query @ keys.T == keys.square().sum(-1)).float()",
        ],
        "A softmax is applied to the ones and zeros, so every pair has a positive weight. Return "
        "the ones and zeros themselves.": f"{FOUND} found.softmax(dim=-1)",
    },
    named=True,
    either_precision=True,
)  # fmt: skip

AVERAGE = Question(
    average,
    {"the weights of average": ""},
    weight_cases,
    {
        "Every pair has the weight 1. For the weights of a query to sum to 1, each must be 1/n, "
        "where n is the number of pairs.": " / len(keys) -> ",
        "The weights are divided by the number of queries. Divide by the number of pairs.": (
            "/ len(keys) -> / len(query)"
        ),
        "The weights of all queries together sum to 1. The weights of each query must sum to 1.": (
            "/ len(keys) -> / (len(query) * len(keys))"
        ),
        EXCHANGED: "len(query), len(keys) -> len(keys), len(query)",
    },
    named=True,
    either_precision=True,
)


# Part 2


def kernel_weights(query, keys, kernel, width):
    distances = (query.unsqueeze(1) - keys).norm(dim=-1)
    u = distances / width
    if kernel == "gaussian":
        return (-u.square() / 2).softmax(dim=-1)
    values = (u <= 1).float() if kernel == "boxcar" else (1 - u.square()).clamp(min=0)
    total = values.sum(dim=-1, keepdim=True)
    return values / total.masked_fill(total == 0, 1.0)


def by_sums(query, keys, kernel, width):
    distances = (query.unsqueeze(1) - keys).norm(dim=-1)
    u = distances / width
    values = {
        "gaussian": (-u.square() / 2).exp(),
        "epanechnikov": (1 - u.square()).clamp(min=0),
        "boxcar": (u <= 1).float(),
    }[kernel]
    total = values.sum(dim=-1, keepdim=True)
    weights = values / total.masked_fill(total == 0, 1.0)
    return weights


NAN = (
    " A NaN of 0 / 0 that is replaced after the division has a gradient of NaN. Replace the sum by "
    "1 where it is 0, before the division."
)
ROOT = (
    " Here a query equals a key. The derivative of a square root is infinite at 0; `.norm(dim=-1)` "
    "has the gradient 0 there."
)
BOUNDARY = " Here the nearest key of a query is exactly one width away, so its K(u) is 0."


def kernel_cases(thorough: bool) -> Iterator[Case]:
    names = ("query", "keys", "kernel", "width")
    kernels = ("gaussian", "boxcar", "epanechnikov")
    line = (rows(0.0), rows(0.0, -2.0, 4.0))
    plane = (torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 6.0], [1.0, 0.0]]))
    stages: list[tuple[Tensor, Tensor, str, float]] = [
        (*line, "gaussian", 3.0),
        (*line, "epanechnikov", 3.0),
        (*line, "boxcar", 3.0),
        (rows(0.0), rows(0.0, 2.0, -2.0, 2.001), "boxcar", 2.0),
        (*plane, "gaussian", 4.0),
        (*plane, "epanechnikov", 6.5),
        (rows(0.0, 2.0), rows(0.0, 1.0, 1.5), "gaussian", 1.0),
        (rows(0.0, 9.0), rows(0.0, 1.0, 3.0), "boxcar", 2.0),
        (rows(0.0, 9.0, 4.9999), rows(0.0, 1.0, 3.0), "epanechnikov", 2.0),  # a sum near 0
        (rows(2.0, 200.0), rows(0.0, 2.0, 4.0), "gaussian", 2.0),
        (rows(40.0), rows(0.0, 4.0, 4.0), "gaussian", 2.0),  # two are the nearest
    ]
    if thorough:
        for q, n, d, width in ((7, 5, 3, 1.5), (5, 1, 2, 1.0)):
            pairs = (torch.randn(q, d), torch.randn(n, d))
            stages += [(*pairs, kernel, width) for kernel in kernels]
        stages.append((torch.tensor([[-1000.0, 0.0]]), torch.randn(7, 2), "gaussian", 0.5))
    yield from cases_of(names, stages)
    for kernel in ("gaussian", "epanechnikov"):
        asked = [(rows(0.5, 1.2), 1.7, ""), (rows(1.0, 0.5), 1.7, ROOT)]
        if kernel == "epanechnikov":  # the last query is far from all keys
            asked += [(rows(0.5, 1.2, 50.0), 1.7, NAN), (rows(0.5, 4.0), 2.0, BOUNDARY + NAN)]
        for query, width, nan in asked:
            given = (query, rows(0.0, 1.0, 2.0), kernel, width)
            inputs = dict(zip(names, given, strict=True))
            yield Case(learning(inputs, "query", "keys"), nan=nan)


GAUSSIAN, TRIANGLE = "-u.square() / 2", "(1 - u.square()).clamp(min=0)"
SHARED, TOTAL = "values / total.masked_fill(total == 0, 1.0)", "values.sum(dim=-1, keepdim=True)"
U = "distances / width"
NEAREST = (
    "    nearest = torch.eye(len(keys))[distances.argmin(dim=-1)]\n"
    "    return torch.where(weights.sum(-1, keepdim=True) > 0, weights, nearest)"
)


def sums_with(*edits: str) -> Callable[..., Tensor]:
    """Return a mistake of an answer that divides K(u) by its sum, for all kernels."""
    return edited(by_sums, edits)


KERNEL = Question(
    kernel_weights,
    {"the weights": ""},
    kernel_cases,
    {
        "The factor 1/2 is missing: the Gaussian kernel is exp(-u²/2).": (
            f"{GAUSSIAN} -> -u.square()"
        ),
        "u is not squared: the Gaussian kernel is exp(-u²/2).": f"{GAUSSIAN} -> -u / 2",
        "The kernel is exp(-u). The Gaussian kernel is exp(-u²/2).": f"{GAUSSIAN} -> -u",
        "The sign of the exponent is wrong: the farthest key has the largest weight.": (
            f"{GAUSSIAN} -> u.square() / 2"
        ),
        "The Epanechnikov kernel is negative for u > 1. It must be 0 there: clamp 1 - u² at 0.": (
            f"{TRIANGLE} -> 1 - u.square()"
        ),
        "The kernel is the triangular one, 1 - |u|. The Epanechnikov kernel is 1 - u².": (
            f"{TRIANGLE} -> (1 - u).clamp(min=0)"
        ),
        "A key at distance u = 1 has weight 0. The boxcar kernel includes the boundary: it is 1 "
        "where |u| ≤ 1.": "u <= 1 -> u < 1",
        "The boxcar kernel ends at |u| = 1/2. It must be 1 up to |u| = 1.": "u <= 1 -> u <= 0.5",
        "The width is not used: u is the distance divided by the width.": f"{U} -> distances",
        "The distance is multiplied by the width. Divide it: u is the distance divided by the "
        "width.": f"{U} -> distances * width",
        "The width is not squared: u² is the squared distance divided by width².": (
            f"{U} -> distances / width**0.5"
        ),
        "The distance is squared before it is divided by the width. u is the distance itself, "
        "divided by the width.": f"{U} -> distances.square() / width",
        "The distance is divided by the width twice. u² is the squared distance divided by "
        "width².": f"{U} -> distances / width**2",
        "The argument `kernel` is not used: these are the weights of the Gaussian kernel.": (
            'kernel == "gaussian" -> True'
        ),
        "The weights are not normalised: these values are K(u). Divide them by their sum over the "
        "keys.": [
            sums_with(f"{SHARED} -> values"),
            f"{SHARED} -> values",
            f'{SHARED} -> values if kernel == "boxcar" else {SHARED}',
        ],
        "A softmax is applied to K(u), which exponentiates once too often. Divide K(u) by its sum "
        "over the keys.": [
            sums_with(f"{SHARED} -> values.softmax(dim=-1)"),
            f"{SHARED} -> values.softmax(dim=-1)",
            f'{SHARED} -> values.softmax(dim=-1) if kernel == "boxcar" else {SHARED}',
        ],
        "Far from all keys, every exp(-u²/2) is rounded to 0 and the weights are lost. Use a "
        "softmax of -u²/2, which depends on differences only.": by_sums,
        "The weights are normalised over the queries. Normalise over the keys: dim=-1.": [
            sums_with(f"{TOTAL} -> values.sum(dim=0, keepdim=True)"),
            sums_with(f"{SHARED} -> values / values.sum(dim=0, keepdim=True)"),
            f"{TOTAL} -> values.sum(dim=0, keepdim=True)",
            "softmax(dim=-1) -> softmax(dim=0)",
        ],
        "The weights of all queries together sum to 1. The weights of each query must sum to 1: "
        "dim=-1.": sums_with(f"{SHARED} -> values / values.sum()"),
        "The distance is the sum of the absolute differences. It must be the Euclidean distance, "
        "the root of the sum of the squared differences.": "norm(dim=-1) -> norm(p=1, dim=-1)",
        "Only the first component of queries and keys is used. The distance depends on all.": (
            "norm(dim=-1) -> select(-1, 0).abs()"
        ),
        "The squared differences are averaged over the components. Sum them instead.": (
            "norm(dim=-1) -> square().mean(dim=-1).sqrt()"
        ),
        EXCHANGED: sums_with("return weights -> return weights.T"),
        "The weights are NaN because K(u) is 0 for all keys, and 0 / 0 is NaN. For boxcar and "
        "epanechnikov, the weights must be 0 there. For the Gaussian kernel, exp(-u²/2) is only "
        "rounded to 0; a softmax of -u²/2 avoids this.": [
            sums_with(f"{SHARED} -> values / total"),
            f"{SHARED} -> values / total",
            sums_with(f'{SHARED} -> values / total if kernel == "gaussian" else {SHARED}'),
        ],
        "Where K(u) is 0 for all keys, a single nearest key receives the whole weight. For boxcar "
        "and epanechnikov, the weights must be 0 there; for the Gaussian kernel, equally near keys "
        "must have equal weights.": [
            sums_with(f"    return weights -> {NEAREST}"),
            f"return {SHARED} -> weights = {SHARED}\n{NEAREST}",
            sums_with(
                f"    return weights -> {NEAREST.replace('weights.sum', 'own + weights.sum')}",
                '[kernel] -> [kernel]\n    own = float(kernel != "gaussian")',
            ),
        ],
        "A query without any key within the width receives equal weights for all keys. Its weights "
        "must be 0.": [
            sums_with(f"{SHARED} -> (values / total).nan_to_num(1 / len(keys))"),
            f"{SHARED} -> (values / total).nan_to_num(1 / len(keys))",
        ],
    },
    either_precision=True,
)


# Part 3


def leave_one_out(keys, values, log_width):
    distances = (keys.unsqueeze(1) - keys).norm(dim=-1)
    own = torch.eye(len(keys), dtype=torch.bool)
    u = distances / log_width.exp()
    scores = -u.square() / 2
    weights = scores.masked_fill(own, -math.inf).softmax(dim=-1)
    errors = weights @ values - values
    return errors.square().mean()


def learn_width(keys, values, width):
    log_width = torch.tensor(math.log(width), requires_grad=True)
    optimizer = torch.optim.Adam([log_width], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = leave_one_out(keys, values, log_width)
        loss.backward()
        optimizer.step()
    return log_width.exp().item()


def losses_of_widths(learn: Callable[..., float]) -> Callable[..., Tensor]:
    """Return a function that computes the losses at the widths of the grid."""
    return lambda keys, values, width: torch.stack(
        [leave_one_out(keys, values, log_width) for log_width in checks.GRID]
    )


def loss_cases(thorough: bool) -> Iterator[Case]:
    three, values = rows(0.0, 1.0, 3.0), rows(2.0, 5.0, 1.0)
    stages = [
        (three, values, 0.5),
        (three, values, -0.4),
        (rows(0.0, 1.0, 1.0, 1.0, 3.0), rows(2.0, 5.0, 5.0, 6.0, 1.0), 0.3),
        (rows(0.0, 1.0, 3.0, 500.0), rows(2.0, 5.0, 1.0, 4.0), 0.2),
        (torch.randn(7, 2), torch.randn(7, 3), 0.1),
    ]
    if thorough:
        sizes = [(2, 1, 1, 0.7), (13, 5, 2, 1.1), (5, 2, 1, -1.3)]
        stages += [(torch.randn(n, d), torch.randn(n, m), w) for n, d, m, w in sizes]
    for place, (keys, values, number) in enumerate(stages):
        # The gradient is examined once in general, where a key is far away, and in a hidden case.
        log_width = torch.tensor(number, requires_grad=place in (0, 3, 6))
        yield Case({"keys": keys, "values": values, "log_width": log_width})


def width_cases(thorough: bool) -> Iterator[Case]:
    apart, values = checks.measurements(8)  # at the width 1, the loss of 70 * apart has no slope
    both = torch.cat([values, 2 * apart], dim=1)  # the first component alone has another best width
    small = (each / 10 for each in checks.measurements(20, 3, 0.2))
    problems = [(70 * apart, both, 32.0), (*small, 0.003)]
    if thorough:
        problems.append((*checks.measurements(30, 1), 1.0))
    yield from cases_of(("keys", "values", "width"), problems)


SCORES, LOSS, MASKED = "-u.square() / 2", "errors.square().mean()", "masked_fill(own, -math.inf)"
WIDTH = "log_width.exp()"
BEFORE = "Exclude the own pair, then use a softmax of -u²/2, which depends on differences only."
SHARES_OF_EXP = f"scores.{MASKED}.softmax(dim=-1) -> scores.exp().masked_fill(own, 0.0)"
LOSSES = Question(
    leave_one_out,
    {"leave_one_out": ""},
    loss_cases,
    {
        "Each value is predicted with its own pair included, so the prediction contains the value "
        "to be predicted. Exclude the own pair.": [
            f".{MASKED} -> ",
            f"{MASKED} -> masked_fill(own, 0.0)",
        ],
        "The weight of the own pair is set to 0 after the softmax, so the other weights no longer "
        "sum to 1. Exclude the own pair before the softmax.": (
            f".{MASKED}.softmax(dim=-1) -> .softmax(dim=-1).masked_fill(own, 0.0)"
        ),
        "Only the own pair is used and all others are excluded: the mask is inverted.": (
            "fill(own -> fill(~own"
        ),
        "All pairs with the same key are excluded. Exclude only the own pair; another pair with "
        "the same key must be used.": "fill(own -> fill(distances == 0",
        "The softmax is applied over the predictions. It must be applied over the pairs that are "
        "averaged: dim=-1.": [
            "softmax(dim=-1) -> softmax(dim=-1).T",
            "softmax(dim=-1) -> softmax(dim=0)",
        ],
        "The distance is multiplied by the width. Divide it: u is the distance divided by the "
        "width.": "distances / log -> distances * log",
        "The distance is not squared: the score is -distance² / (2 · width²).": [
            f"{SCORES} -> -u / 2",
            f"{SCORES} -> -u",
        ],
        "`log_width` is used as the width. The width is its exponential.": (
            f"{WIDTH} -> log_width.abs()"
        ),
        "The width is not squared: the score is -distance² / (2 · width²).": (
            f"{WIDTH} -> {WIDTH}.sqrt()"
        ),
        "The factor 1/2 is missing: the score is -distance² / (2 · width²).": (
            f"{SCORES} -> -u.square()"
        ),
        "The squared errors are summed, so the loss grows with the number of pairs. Return their "
        "mean.": f"{LOSS} -> errors.square().sum()",
        "The squared errors of the components are summed. The mean is taken over all pairs and all "
        "components.": f"{LOSS} -> errors.square().sum(dim=-1).mean()",
        "The errors are not squared: this loss is the mean absolute error.": (
            f"{LOSS} -> errors.abs().mean()"
        ),
        "The errors are not squared, so positive and negative errors cancel.": (
            f"{LOSS} -> errors.mean()"
        ),
        "The square root of the mean squared error is returned. Return the mean squared error "
        "itself.": f"{LOSS} -> {LOSS}.sqrt()",
        "Far from all other keys, the own pair is used, because the other scores are even lower "
        "than the one that excludes it. Use -math.inf.": (f"{MASKED} -> masked_fill(own, -1000.0)"),
        "Far from all other keys, every other exp(-u²/2) is rounded to 0, so the prediction is 0. "
        f"{BEFORE}": (
            SHARES_OF_EXP,
            "weights @ values -> weights / (weights.sum(dim=-1, keepdim=True) + 1e-10) @ values",
        ),
        "The loss is NaN: far from all other keys, every other exp(-u²/2) is rounded to 0, and "
        f"0 / 0 is NaN. {BEFORE}": (
            SHARES_OF_EXP,
            "weights @ values -> weights / weights.sum(dim=-1, keepdim=True) @ values",
        ),
    },
    named=True,
    either_precision=True,
)

LEARNED = Question(learn_width, {"the losses": ""}, width_cases, runner=losses_of_widths)


# Part 4


def both(first, second):
    return first + second


def either(first, second):
    result = torch.logaddexp(first, second)
    return result


def answer(scores, excluded, values):
    lowest = torch.finfo(scores.dtype).min
    lowered = scores.masked_fill(excluded, lowest)
    weights = lowered.softmax(dim=-1).masked_fill(excluded, 0.0)
    return weights @ values, weights


UNUSED_BRANCH = (
    " Where exp(b - a) overflows in a branch that torch.where does not select, the gradient is "
    "NaN. Factor out the larger of the two scores at each position."
)


def condition_cases(thorough: bool) -> Iterator[Case]:
    # Of the last scores, e^score is infinity or 0 in 32 bits.
    asked = [
        ([[1.0, 0.0, -2.0]], [[0.5, -1.0, -3.0]]),
        ([[0.0, -1.0], [2.0, 3.0]], [[0.0, -1.0], [-4.0, 3.0]]),
        ([[300.0, 300.0]], [[298.0, 300.0]]),
        ([[-300.0, -300.0]], [[-298.0, -300.0]]),
        ([[300.0, -300.0]], [[-300.0, 300.0]]),
        ([[300.0, -300.0]], [[298.0, -299.0]]),
    ]
    conditions = [(torch.tensor(first), torch.tensor(second)) for first, second in asked]
    if thorough:
        sizes = ((3, 5), (1, 11), (7, 2))
        conditions += [(5 * torch.randn(q, n), 5 * torch.randn(q, n)) for q, n in sizes]
    cases = [*cases_of(("first", "second"), conditions)]
    yield from cases
    for case, nan in ((cases[0], ""), (cases[4], UNUSED_BRANCH)):
        yield Case(learning(case.inputs, "first", "second"), nan=nan)


NAN_OF_ALL = (
    " Here all pairs of one query are excluded. The softmax of only -infinity is NaN, and "
    "replacing this NaN does not remove it from the gradient."
)


def answer_cases(thorough: bool) -> Iterator[Case]:
    names = ("scores", "excluded", "values")
    scores, values = torch.tensor([[2.0, 1.0, 0.0], [-1.0, 0.0, 3.0]]), rows(10.0, 20.0, 40.0)
    none, first, last = [False] * 3, [True, False, False], [False, False, True]
    stages = [
        (scores[:1], [none], values),
        (scores, [none, none], values),
        (scores[:1], [first], values),
        (scores, [last, [True] * 3], values),
        (torch.tensor([[-300.0, -299.0, -301.0]]), [last], rows(1.0, 2.0, 4.0)),
        (torch.tensor([[300.0, -299.0, -300.0]]), [first], rows(1.0, 2.0, 4.0)),
    ]
    made = [(scores, torch.tensor(excluded), values) for scores, excluded, values in stages]
    yield from cases_of(names, made)
    excluded = torch.rand(3, 5) < 0.3
    excluded[1] = True
    inputs = dict(zip(names, (torch.randn(3, 5), excluded, torch.randn(5, 2)), strict=True))
    yield Case(learning(inputs, "scores", "values"), results=("contexts",), nan=NAN_OF_ALL)
    yield Case(learning(inputs, "scores"), results=("weights",), nan=NAN_OF_ALL)
    for q, n, m in [(5, 7, 3), (2, 13, 1), (3, 1, 2)] * thorough:
        excluded = torch.rand(q, n) < 0.4
        excluded[0] = True
        yield from cases_of(names, [(10 * torch.randn(q, n), excluded, torch.randn(n, m))])


ADDED, EITHER_SCORE = "first + second", "torch.logaddexp(first, second)"
BOTH = Question(
    both,
    {"the scores": ""},
    condition_cases,
    {
        "exp(score) overflows or is rounded to 0. What is the logarithm of exp(a) · exp(b)?": (
            f"{ADDED} -> (first.exp() * second.exp()).log()"
        ),
        "The scores are multiplied. Multiply the unnormalised weights exp(score), and return the "
        "logarithm of the product.": f"{ADDED} -> first * second",
        "The result is the smaller of the two scores. The other score counts as well.": (
            f"{ADDED} -> torch.minimum(first, second)"
        ),
        "This is OR: the unnormalised weights are added. For AND they are multiplied.": (
            f"{ADDED} -> {EITHER_SCORE}"
        ),
        "The result is the mean of the two scores, half the score of AND.": (
            f"{ADDED} -> ({ADDED}) / 2"
        ),
        "The result is the unnormalised weight. Return its logarithm, the score.": (
            f"{ADDED} -> first.exp() * second.exp()"
        ),
        "A softmax is already applied. Return scores, so that a further condition can be combined "
        "with them.": f"{ADDED} -> ({ADDED}).softmax(dim=-1)",
    },
    named=True,
    either_precision=True,
)

EITHER = Question(
    either,
    {"the scores": ""},
    condition_cases,
    {
        "exp(score) overflows, or is rounded to 0 and its logarithm is -infinity. Factor the "
        "larger score out first: ln(exp(a) + exp(b)) = a + ln(1 + exp(b - a)).": (
            f"{EITHER_SCORE} -> (first.exp() + second.exp()).log()"
        ),
        "exp(b - a) overflows where b is much larger than a. Factor out the larger of the two "
        "scores at each position.": [
            f"{EITHER_SCORE} -> first + (second - first).exp().log1p()",
            f"{EITHER_SCORE} -> second + (first - second).exp().log1p()",
        ],
        "exp(score) is rounded to 0 where both scores are far below the largest of all. Factor out "
        "the larger of the two scores at each position.": (
            f"{EITHER_SCORE} -> torch.stack([first, second])\n"
            "    largest = result.max()\n"
            "    result = (result - largest).exp().sum(dim=0).log() + largest",
        ),
        "The result is the larger of the two scores. Add the unnormalised weights: a pair that "
        "meets both conditions must have a higher score than a pair that meets only one.": (
            f"{EITHER_SCORE} -> torch.maximum(first, second)"
        ),
        "This is AND: the unnormalised weights are multiplied. For OR they are added.": (
            f"{EITHER_SCORE} -> {ADDED}"
        ),
        "The result is the mean of the two scores. For OR the unnormalised weights are added.": (
            f"{EITHER_SCORE} -> ({ADDED}) / 2"
        ),
        "The result is the unnormalised weight. Return its logarithm, the score.": (
            f"{EITHER_SCORE} -> first.exp() + second.exp()"
        ),
        "The result is the logarithm of the mean of the two unnormalised weights. Return that of "
        "their sum: the factor 1/2 cancels in a softmax, but not in a further OR.": [
            f"{EITHER_SCORE} -> {EITHER_SCORE} - math.log(2)",
            f"{EITHER_SCORE} -> ((first.exp() + second.exp()) / 2).log()",
        ],
        "Each condition is normalised by a softmax before the sum. Add the unnormalised weights; "
        "otherwise a condition that hardly any pair meets counts as much as one that all pairs "
        "meet.": f"{EITHER_SCORE} -> (first.softmax(-1) + second.softmax(-1)).log()",
        "A softmax is already applied. Return scores, so that a further condition can be combined "
        "with them.": f"{EITHER_SCORE} -> {EITHER_SCORE}.softmax(dim=-1)",
    },
    named=True,
    either_precision=True,
)

SOFTMAX, ZERO = "lowered.softmax(dim=-1)", ".masked_fill(excluded, 0.0)"
NOT_LOWERED = "scores.masked_fill(excluded, lowest) -> scores"
ANSWER = Question(
    answer,
    {"contexts": "", "weights": ""},
    answer_cases,
    {
        "The excluded pairs have the weights and the others have none. In `excluded`, True means "
        "excluded, the opposite of a mask.": "lowest = -> excluded = ~excluded\n    lowest =",
        "The weights of excluded pairs are set to 0 after the softmax, so the other weights do not "
        "sum to 1. Exclude the pairs before the softmax, by scores far below all others.": [
            NOT_LOWERED,
            (
                NOT_LOWERED,
                "return weights @ -> weights = weights / weights.sum(-1, True).clamp("
                "min=1e-30)\n    return weights @",
            ),
        ],
        "The scores of excluded pairs are set to 0, but exp(0) = 1, so these pairs keep a positive "
        "weight. Their scores must be far below all others.": (
            "(excluded, lowest) -> (excluded, 0)",
            f"{ZERO} -> ",
        ),
        "`excluded` is not used: excluded pairs have positive weights.": (
            NOT_LOWERED,
            f"{ZERO} -> ",
        ),
        "If all pairs of a query are excluded, the weights are NaN: neither a softmax of only "
        "-infinity nor 0 / 0 is defined. They must be 0.": (
            "torch.finfo(scores.dtype).min -> -math.inf",
            f"{ZERO} -> ",
        ),
        "If all pairs of a query are excluded, they have equal weights. The weights must be 0.": (
            f"{ZERO} -> "
        ),
        "The weights are wrong for scores as large as ±300. exp(score) itself is then infinite or "
        "0, and the scores of excluded pairs must be far below all others.": [
            f"{SOFTMAX} -> ((~excluded) * scores.exp() / ((~excluded) * scores.exp())"
            ".sum(-1, True).clamp(min=1e-30))",
            "torch.finfo(scores.dtype).min -> -100.0",
        ],
        "The softmax is applied over the queries. It must be applied over the pairs: dim=-1.": (
            "softmax(dim=-1) -> softmax(dim=0)"
        ),
    },
    look=("weights", "contexts"),
    named=True,
    either_precision=True,
)


# Part 5


def predict(weights, values, i, c):
    own = weights[i]
    context = sum(w * v for w, v in zip(weights, values, strict=True))
    raised = [w * math.exp(c) if j == i else w for j, w in enumerate(weights)]
    squared = [w**2 for w in weights]
    return {
        "twice": [w / (1 + own) for w in [*weights, own]],
        "without": [w / (1 - own) for j, w in enumerate(weights) if j != i],
        "raised": [w / sum(raised) for w in raised],
        "all_raised": weights,
        "doubled": [w / sum(squared) for w in squared],
        "value_raised": context + own * c,
        "values_raised": context + c,
        "values_scaled": context * c,
    }


def moved(numbers: Sequence[float], i: int, by: float) -> list[float]:
    return [number + by * (j == i) for j, number in enumerate(numbers)]


def over_sum(numbers: Sequence[float]) -> list[float]:
    return [number / sum(numbers) for number in numbers]


def softmax(scores: Sequence[float]) -> list[float]:
    found: list[float] = torch.tensor(scores, dtype=torch.float64).softmax(-1).tolist()
    return found


def predict_cases(thorough: bool) -> Iterator[Case]:
    cases: list[tuple[list[float], list[float], int, float]] = [
        ([math.log(2), math.log(5), math.log(3)], [5.0, 20.0, 30.0], 0, 3.0),
        ([1.5, 0.0, -0.5, 0.7], [4.0, -1.0, 2.5, 0.5], 2, -1.5),
        ([0.5, -1.0, 0.5], [1.0, 7.0, 2.0], 2, 0.8),  # two pairs have the same weight
    ]
    if thorough:
        for n, i, c in ((7, 6, 0.5), (2, 1, 3.0), (11, 4, -0.7)):
            cases.append((torch.randn(n).tolist(), torch.randn(n).tolist(), i, c))
    yield from cases_of(
        ("weights", "values", "i", "c"),
        [([round(weight, 9) for weight in softmax(scores)], *rest) for scores, *rest in cases],
    )


def of_key(key: str, right: str, mistakes: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return mistakes of one key, each an expression in place of the right one."""
    return {
        f"{key}: {said}": [f'"{key}": {right} -> "{key}": {each}' for each in wrong]
        for said, wrong in mistakes.items()
    }


NO_SUM = "These weights do not sum to 1; after the change, all of them must be normalised again."
SAME = (
    "The softmax depends only on differences between scores, and these do not change. No weight "
    "changes."
)
OTHERS_OF = "[w for j, w in enumerate(weights) if j != i]"
PREDICT = Question(
    predict,
    dict.fromkeys(
        (
            "twice",
            "without",
            "raised",
            "all_raised",
            "doubled",
            "value_raised",
            "values_raised",
            "values_scaled",
        ),
        "",
    ),
    predict_cases,
    {
        **of_key("twice", "[w / (1 + own) for w in [*weights, own]]", {
            f"{NO_SUM} The copy adds the same unnormalised weight as the pair.": [
                "[*weights, own]"
            ],
            "The pair and its copy share the previous weight of the pair, and the others are "
            "unchanged. The copy adds an unnormalised weight of its own, so both together receive "
            "more than the pair did.": ["[*moved(weights, i, -own / 2), own / 2]"],
            "The copy has no weight. There are now n + 1 pairs, each with a weight.": ["weights"],
            "The pair and its copy have one weight in common. There are n + 1 pairs, each with its "
            "own weight.": ["over_sum(moved(weights, i, own))"],
            "The weight of the copy, at the end of the list, is missing.": [
                "[w / (1 + own) for w in weights]"
            ],
            "The weight of the copy is at the wrong position. The copy is the last pair.": [
                "over_sum([*weights[:i], own, *weights[i:]])"
            ],
            "A softmax is applied to the weights, which are not scores. Normalise them by their "
            "sum.": ["softmax([*weights, own])"],
        }),
        **of_key("without", "[w / (1 - own) for j, w in enumerate(weights) if j != i]", {
            f"{NO_SUM} The weight of pair i is lost.": [OTHERS_OF],
            "The weight of pair i is distributed in equal parts. The remaining weights keep their "
            "ratios, so each grows by the same factor.": [
                f"[w + own / (len(weights) - 1) for w in {OTHERS_OF}]"
            ],
            "Weights equal to that of pair i are removed. Remove pair i alone, by its index.": [
                "over_sum([w for w in weights if w != own])",
                "over_sum([w for j, w in enumerate(weights) if j != weights.index(own)])",
            ],
            "Pair i is removed, so the list has n - 1 weights, without an entry for pair i.": [
                "over_sum(moved(weights, i, -own))"
            ],
            "A softmax is applied to the remaining weights, which are not scores. Normalise them "
            "by their sum.": [f"softmax({OTHERS_OF})"],
        }),
        **of_key("raised", "[w / sum(raised) for w in raised]", {
            f"{NO_SUM} A score is increased, not a weight.": ["moved(weights, i, c)"],
            f"{NO_SUM} Weight i is multiplied by exp(c), and the sum has changed.": ["raised"],
            "A score that increases by c multiplies the unnormalised weight exp(score) by exp(c). "
            "It neither multiplies it by c nor adds c to it.": [
                "over_sum(moved(weights, i, own * c - own))",
                "over_sum(moved(weights, i, c))",
                "over_sum(moved(weights, i, own * c))",
            ],
            "A softmax is applied to weights, one of them increased. A softmax needs scores; up to "
            "a constant, these are the logarithms of the weights.": [
                "softmax(moved(weights, i, c))"
            ],
            "The weights are unchanged. They change if one score changes.": ["weights"],
        }),
        **of_key("all_raised", "weights", {
            SAME: [
                "[w + c for w in weights]",
                "[w * math.exp(c) for w in weights]",
                "[w * c for w in weights]",
                "softmax(weights)",
            ],
        }),
        **of_key("doubled", "[w / sum(squared) for w in squared]", {
            f"{NO_SUM} Doubling a score does not double its weight.": ["[2 * w for w in weights]"],
            "The weights are unchanged, as if a constant were added to all scores. Doubling the "
            "scores doubles their differences.": ["weights"],
            f"{NO_SUM} Doubling the scores squares the unnormalised weights.": ["squared"],
            "A softmax is applied to doubled weights. A softmax needs scores; up to a constant, "
            "these are the logarithms of the weights.": ["softmax([2 * w for w in weights])"],
        }),
        **of_key("value_raised", "context + own * c", {
            "Only value i is increased, so the context increases by c times weight i.": [
                "context + c",
                "context + c / len(weights)",
            ],
            "The context is unchanged, but value i is part of the weighted sum.": ["context"],
            "Value i is multiplied by c. It must be increased by c.": [
                "context + own * values[i] * (c - 1)"
            ],
        }),
        **of_key("values_raised", "context + c", {
            "The context increases by n · c. Each value increases by c, and the weights sum to 1, "
            "so the context increases by c.": ["context + len(weights) * c"],
            "The context is unchanged. A constant that is added to all scores cancels in the "
            "softmax, but here it is added to the values.": ["context"],
            "Only value i is increased. All values increase by c.": ["context + own * c"],
        }),
        **of_key("values_scaled", "context * c", {
            "The context is unchanged. A factor of all values is a factor of the context.": [
                "context"
            ],
            "c is added to the values. They must be multiplied by c.": ["context + c"],
            "Only value i is multiplied. All values are multiplied by c.": [
                "context + own * values[i] * (c - 1)"
            ],
        }),
    },
    keyed=True,
)  # fmt: skip


# Part 6


def corrected_pooling(query, keys, values, mask, widths):
    squared = (query.unsqueeze(2) - keys.unsqueeze(1)).square().sum(dim=-1)
    scores = -squared / (2 * widths.unsqueeze(1) ** 2)
    allowed = mask.unsqueeze(1)
    lowered = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    weights = lowered.softmax(dim=2).masked_fill(~allowed, 0.0)
    contexts = weights @ values
    return contexts, weights


def batch_of(
    size: tuple[int, ...], lengths: Sequence[int] | None = None, least: float = 0.5
) -> dict[str, Any]:
    """Return a batch, with widths from `least` to 1; `lengths` gives the numbers of real pairs."""
    batch, q, n, d, m = size
    real = torch.tensor(lengths or [n] * batch).unsqueeze(1)
    return {
        "query": torch.randn(batch, q, d),
        "keys": torch.randn(batch, n, d),
        "values": torch.randn(batch, n, m),
        "mask": torch.arange(n).expand(batch, n) < real,
        "widths": least + (1 - least) * torch.rand(batch, n),
    }


SQUARE_ROOT = (
    " Here a query equals a key. Their distance is the square root of 0, whose derivative is "
    "infinite. The score needs the squared distance only, so no square root is needed."
)
NAN_OF_DATABASE = (
    " Here one database is fully masked. The softmax of only -infinity is NaN, and replacing this "
    "NaN does not remove it from the gradient."
)


def corrected_cases(thorough: bool) -> Iterator[Case]:
    # Batch, queries, keys, size of keys and of values.
    sizes = [(1, 2, 3, 1, 1), (2, 3, 5, 2, 2)]
    if thorough:
        sizes += [(3, 7, 7, 5, 1), (1, 1, 2, 1, 3), (5, 7, 1, 3, 2)]
    for place, size in enumerate(sizes):
        batch, _, n, *_ = size
        padded = [max(1, n - 1 - row) for row in range(batch)]  # real pairs: n - 1, n - 2, …
        yield Case(batch_of(size), stage=checks.SUMS, results=())
        for least in (0.5,) if place else (1.0, 2.0, 0.5):
            yield Case(batch_of(size, least=least), stage="the widths", results=("weights",))
        for far in (20.0,) if place else (0.0, 20.0, 1000.0):
            inputs = batch_of(size, padded, 1.5 if far else 0.5)
            inputs["query"][..., 0] += far
            inputs["keys"][..., 0] += far * ~inputs["mask"]  # masked pairs are near
            # Very far away, the weights depend on rounding; only their sum is examined.
            yield Case(inputs, stage=checks.MASK, results=("weights",) if far < 1000 else ())
        nothing = [*padded[:-1], 0]
        yield Case(batch_of(size, nothing), stage=checks.NOTHING, results=("weights",))
        for lengths in (nothing,) if place else (padded, nothing):
            yield Case(batch_of(size, lengths), stage="the values", results=("contexts",))
        if place == 1:
            yield from gradient_cases(size)


def gradient_cases(size: tuple[int, ...]) -> Iterator[Case]:
    batch, _, n, *_ = size
    all_pairs = [n] * batch
    for nan, lengths in (
        ("", all_pairs),
        (SQUARE_ROOT, all_pairs),
        (NAN_OF_DATABASE, [*all_pairs[:-1], 0]),
    ):
        inputs = batch_of(size, lengths)
        if nan == SQUARE_ROOT:
            inputs["query"][0, 0] = inputs["keys"][0, 1]
        asked = learning(inputs, "query", "keys", "widths", "values")
        yield Case(asked, stage="gradients", results=("contexts",), nan=nan)
        if nan:
            asked = learning(inputs, "query", "keys", "widths")
            yield Case(asked, stage="gradients", results=("weights",), nan=nan)


WIDTHS, LOWERED = "(2 * widths.unsqueeze(1) ** 2)", "torch.finfo(scores.dtype).min"
ZEROED, CONTEXTS = ".masked_fill(~allowed, 0.0)", "weights @ values"
UNMASKED = f"scores.masked_fill(~allowed, {LOWERED}) -> scores"
CORRECTED = Question(
    corrected_pooling,
    {"contexts": "", "weights": ""},
    corrected_cases,
    {
        f"All keys have the same weight. {checks.TURNED}": (
            "mask.unsqueeze(1) -> ~mask.unsqueeze(1)",
            f"{ZEROED} -> ",
        ),
        "The widths are not squared: u² is the squared distance divided by width².": (
            f"{WIDTHS} -> (2 * widths.unsqueeze(1))"
        ),
        "The widths are not used.": f"{WIDTHS} -> 2",
        "The factor 1/2 is missing: the score is -u²/2.": f"{WIDTHS} -> widths.unsqueeze(1) ** 2",
        "The distance is not squared: the score is -u²/2.": "-squared / -> -squared.sqrt() /",
        "The squared differences are averaged over the components. Sum them instead.": (
            "square().sum(dim=-1) -> square().mean(dim=-1)"
        ),
        "The sign of the exponent is wrong: the farthest key has the largest weight.": (
            "-squared / -> squared /"
        ),
        "The weights of masked pairs are set to 0 after the softmax, so the other weights do not "
        "sum to 1. Mask the scores, before the softmax.": UNMASKED,
        "The scores of masked pairs are set to 0, which is the highest possible score here: "
        "exp(0) = 1. They must be far below all others.": (f"{LOWERED} -> 0", f"{ZEROED} -> "),
        "The mask is not used: masked pairs have positive weights.": (UNMASKED, f"{ZEROED} -> "),
        f"The keys are averaged{KEYS_FOR_VALUES}": f"{CONTEXTS} -> weights @ keys",
        "The weighted values are averaged over the pairs. The weights already sum to 1, so sum "
        "them instead.": f"{CONTEXTS} -> {CONTEXTS} / keys.size(1)",
    },
    look=("weights", "contexts"),
    either_precision=True,
)


PARTS = {
    "pooling": [POOL, LOOKUP, AVERAGE],
    "kernels": [KERNEL],
    "learned_width": [LOSSES, LEARNED],
    "answers": [BOTH, EITHER, ANSWER],
    "predictions": [PREDICT],
    "bug_hunt": [CORRECTED],
}
"""The questions of each check, in the order of its arguments."""
