"""Tools as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. The
equation of part 1 is examined by code in `attentively.checks.tools`.
"""

import math  # noqa: F401  for the edits
from collections.abc import Iterator

import torch
from torch import Tensor

from attentively.checks.question import Case, Question, cases_of
from attentively.checks.tools import read

# Part 1


def sum_shape(a, b):
    left = (1,) * (len(b) - len(a)) + a
    right = (1,) * (len(a) - len(b)) + b
    pairs = list(zip(left, right, strict=True))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        return None
    shape = tuple(n if m == 1 else m for m, n in pairs)
    return shape


def sum_cases(thorough: bool) -> Iterator[Case]:
    shapes = [((2, 3), (2, 3)), ((2, 3), (5, 3)), ((2, 3), (2, 1)), ((2, 3), (2,)), ((2, 3), (3,))]
    shapes += [((3,), (2, 3)), ((2, 1, 5), (3, 1)), ((7, 3, 11), (7, 1, 5))]
    shapes += [((0,), (1,)), ((0,), (3,)), ((), (3,)), ((), ())]
    if thorough:
        shapes += [((1,), (1,)), ((5, 1, 7, 1), (11, 1, 13)), ((3, 5, 7), (3, 5))]
        shapes += [((13,), (2, 1, 1, 13))]
    return cases_of(("a", "b"), shapes)


SIZE = "n if m == 1 else m"
ALL_FIT = "if any(m != n and 1 not in (m, n) for m, n in pairs): -> if False:"
ZERO_FITS = "1 not in (m, n) -> not {0, 1} & {m, n}"
LARGER = "two different sizes fit only if one of them is 1. The larger size is not enough."
BOTH = "these are the axes of a followed by those of b."

SUM = Question(
    sum_shape,
    {"sum_shape": ""},
    sum_cases,
    {
        "the axes are in reverse order. If you start from the last axis, reverse the result at the "
        "end.": "return shape -> return shape[::-1]",
        BOTH: "return shape -> return a + b",
        "the sizes are added. A sum adds the values; its shape stays the same.": f"{SIZE} -> m + n",
        LARGER: (ALL_FIT, f"{SIZE} -> max(m, n)"),
        "the axis of size 1 is expanded to the other size; the other one stays as it is.": (
            f"{SIZE} -> min(m, n)"
        ),
        "the shapes are aligned at their first axes. Broadcasting aligns them at the last: here 3 "
        "is compared with 2.": (
            "(1,) * (len(b) - len(a)) + a -> a + (1,) * (len(b) - len(a))",
            "(1,) * (len(a) - len(b)) + b -> b + (1,) * (len(a) - len(b))",
        ),
        "only the axes that both shapes have are here. The other axes of the longer shape stay.": (
            "list(zip(left, right, strict=True)) -> list(zip(a[::-1], b[::-1]))[::-1]"
        ),
        "this is the longer shape unchanged. Where its size is 1, the size of the other shape is "
        "used.": "return shape -> return max(a, b, key=len)",
        "a size of 1 is expanded to the other size, here 0. The larger size is not enough.": (
            f"{SIZE} -> max(m, n)"
        ),
        "a size of 0 is not 1: it fits only 0 and 1.": [
            ZERO_FITS,
            (ZERO_FITS, f"{SIZE} -> m * n if 1 in (m, n) else max(m, n)"),
        ],
    },
    named=True,
)


def product_shape(a, b):
    front = sum_shape(a[:-2], b[:-2])
    if front is None or a[-1] != b[-2]:
        return None
    shape = (*front, a[-2], b[-1])
    return shape


def product_cases(thorough: bool) -> Iterator[Case]:
    shapes = [((2, 3), (3, 5)), ((2, 3), (2, 5)), ((2, 3, 4, 5), (2, 3, 5, 6))]
    shapes += [((2, 3, 5), (7, 5, 11)), ((7, 2, 3), (3, 5)), ((2, 3), (7, 3, 5))]
    shapes += [((5, 1, 2, 3), (7, 3, 11)), ((2, 1), (3, 5)), ((3, 3), (3, 3))]
    if thorough:
        shapes += [((13, 5, 3), (13, 3, 2)), ((2, 3, 5, 7), (3, 7, 11)), ((5, 3), (1, 2))]
        shapes += [((3, 1, 7), (5, 1, 7, 2)), ((2, 3, 5), (3, 2, 5, 7))]
    return cases_of(("a", "b"), shapes)


FRONT = "(*front, a[-2], b[-1])"
FRONTS = "sum_shape(a[:-2], b[:-2])"

PRODUCT = Question(
    product_shape,
    {"product_shape": ""},
    product_cases,
    {
        "the inner axis is still there. The product sums over it, so it disappears.": (
            f"{FRONT} -> (*front, *a[-2:], b[-1])"
        ),
        BOTH: "return shape -> return a + b",
        "the last two axes are exchanged: first the rows of a, then the columns of b.": (
            "a[-2], b[-1]) -> b[-1], a[-2])"
        ),
        "the rows of a have 3 entries, but the columns of b have 2. This product does not exist, "
        "so the expected answer is None.": " or a[-1] != b[-2] -> ",
        "the axes before the last two appear twice. They are shared: matrix i of a is multiplied "
        "by matrix i of b only.": f"{FRONT} -> (*a[:-1], *b[:-2], b[-1])",
        "the axes before the last two are missing. The result contains one product for each pair "
        "of matrices.": f"{FRONT} -> (a[-2], b[-1])",
        "the axes before the last two are those of a alone. They are broadcast as in a sum, so "
        "those of b count as well.": [
            f"{FRONTS} -> a[:-2]",
            f"{FRONT} -> (*a[:-1], b[-1])",
            f"{FRONT} -> (*max(a[:-2], b[:-2], key=len), a[-2], b[-1])",
        ],
        LARGER: f"{FRONTS} -> tuple(map(max, a[:-2], b[:-2]))",
        "the first axis of a is missing. The axes before the last two are broadcast.": (
            f"{FRONT} -> (*front[: len(b) - 2], a[-2], b[-1])"
        ),
        "only the axes before the last two are broadcast. The two inner sizes must be equal.": (
            "a[-1] != b[-2] -> sum_shape(a[-1:], b[-2:-1]) is None"
        ),
    },
    named=True,
)


def equation():
    return "bis,bjs->bji"


EQUATION = Question(
    equation,
    mistakes={
        "the axes of the result are in another order": '"bis,bjs->bji" -> "bis,bjs->bij"',
        "one axis too many": '"bis,bjs->bji" -> "bis,bjs->bjis"',
        "an axis is missing": '"bis,bjs->bji" -> "bis,bjs->ji"',
        "has the same letter in both": '"bis,bjs->bji" -> "bis,cjs->bji"',
        "there is no arrow": '"bis,bjs->bji" -> "bis,bjs"',
        "each needs three letters": '"bis,bjs->bji" -> "is,js->ji"',
        "PyTorch rejects it": [
            '"bis,bjs->bji" -> "bis,bjs->bjk"',
            '"bis,bjs->bji" -> "bis,bis->bs"',
        ],
        "expected a string": '"bis,bjs->bji" -> torch.einsum',
    },
)


# Part 2


def softmax(scores):
    largest = scores.max(dim=-1, keepdim=True).values
    exponentials = (scores - largest).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    weights = exponentials / total
    return weights


def softmax_cases(thorough: bool) -> Iterator[Case]:
    by_hand = [
        [2.0, 1.0, -1.0],
        [[0.0, 1.0], [2.0, -1.0]],
        [[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]],
        [[1000.0, 1001.0, 1003.0]],
        [[-1000.0, -1001.0, -1003.0]],
        [[1000.0, 999.0], [1.0, 0.0]],
        [[0.0, 0.0, 500.0]],
    ]
    yield from cases_of(("scores",), [(torch.tensor(scores),) for scores in by_hand])
    yield from cases_of(("scores",), [(torch.randn(size),) for size in [(2, 3, 5), (3, 2, 5, 7)]])
    yield Case({"scores": torch.randn(2, 3, 5, requires_grad=True)})
    yield Case({"scores": torch.tensor([[1000.0, 999.0, 500.0]], requires_grad=True)})
    if thorough:
        further = [torch.randn(size) for size in [(1,), (13, 1), (7, 11), (5, 2, 3, 1)]]
        further += [200 * torch.randn(11, 7), torch.full((3, 5), -900.0)]
        yield from cases_of(("scores",), [(scores,) for scores in further])


LARGEST = "scores.max(dim=-1, keepdim=True).values"
OF_ALL = f"{LARGEST} -> scores.max()"
UNSTABLE = "(scores - largest).exp() -> scores.exp()"
MAX_NOT_KEPT = "max(dim=-1, keepdim=True) -> max(dim=-1)"
SUM_NOT_KEPT = "sum(dim=-1, keepdim=True) -> sum(dim=-1)"
OVER_SECOND = "dim=min(1, scores.dim() - 1),"

SOFTMAX = Question(
    softmax,
    {"the weights": "Return one weight for each score."},
    softmax_cases,
    {
        "The exp is missing: a negative score gives a negative weight.": (
            "(scores - largest).exp() -> scores"
        ),
        "The exponentials are not divided by their sum, so the weights do not sum to 1.": [
            (UNSTABLE, "exponentials / total -> exponentials"),
            "exponentials / total -> exponentials",
        ],
        "These are the logarithms of the weights. Return the weights themselves.": (
            "return weights -> return weights.log()"
        ),
        "This is the sigmoid of each score. The weights of each row must sum to 1.": (
            "return weights -> return scores.sigmoid()"
        ),
        "The weights contain NaN: every exp of a row is rounded to 0, and 0 / 0 gives NaN. Do you "
        "subtract a constant? Subtract the largest score of each row, so that each row contains "
        "exp(0) = 1.": [
            "scores - largest -> scores - 1000",
            "scores.max -> scores.abs().max",
        ],
        "The sums of the rows are broadcast along the wrong axis: column 1 is divided by the sum "
        "of row 1, and so on. Keep the axis that is summed over: keepdim=True.": [
            SUM_NOT_KEPT,
            (OF_ALL, SUM_NOT_KEPT),
        ],
        "The largest scores of the rows are broadcast along the wrong axis. Keep the axis that is "
        "reduced: keepdim=True, in max as well as in sum.": [
            MAX_NOT_KEPT,
            (MAX_NOT_KEPT, SUM_NOT_KEPT),
        ],
        "The largest score is taken over the first axis, so that different values are subtracted "
        "from the scores of a row. Take it over the last: dim=-1.": "max(dim=-1, -> max(dim=0,",
        "The weights sum to 1 over the whole tensor. Each row must sum to 1: dim=-1.": [
            (OF_ALL, "sum(dim=-1, keepdim=True) -> sum()"),
            "sum(dim=-1, keepdim=True) -> sum()",
        ],
        "The weights sum to 1 over the first axis. They must sum to 1 over the last: dim=-1.": [
            ("max(dim=-1, -> max(dim=0,", "sum(dim=-1, -> sum(dim=0,"),
            "sum(dim=-1, -> sum(dim=0,",
        ],
        "The weights sum to 1 over the second axis, which is the last one only if there are two. "
        "Use dim=-1.": [
            (f"max(dim=-1, -> max({OVER_SECOND}", f"sum(dim=-1, -> sum({OVER_SECOND}"),
            f"sum(dim=-1, -> sum({OVER_SECOND}",
        ],
        "The scores are divided by the largest score. This changes their differences, and "
        "therefore the weights. Subtract the largest score instead.": (
            "scores - largest -> scores / largest"
        ),
        "The weights contain NaN: exp(1000) overflows to infinity, exp(-1000) is rounded to 0, and "
        "both inf / inf and 0 / 0 give NaN. Subtract the largest score of each row before exp. "
        "This changes no weight.": UNSTABLE,
        "NaN seems to be replaced afterwards, as by nan_to_num, so the row no longer sums to 1. "
        "Avoid NaN: subtract the largest score of each row before exp.": (
            UNSTABLE,
            "return weights -> return weights.nan_to_num(0.0)",
        ),
        "exp(1000) overflows to infinity, and so does the logarithm of the sum. Subtract the "
        "largest score of each row before exp. This changes no weight.": (
            "return weights -> return (scores - scores.exp().sum(-1, keepdim=True).log()).exp()"
        ),
        "All weights are equal although the scores are not. Are large scores clamped? This changes "
        "their differences. Subtract the largest score instead.": (
            "scores - largest -> scores.clamp(-50, 50)"
        ),
        "One row contains NaN: the largest score of the whole tensor is subtracted, so every exp "
        "of a row with much lower scores is rounded to 0. Subtract the largest score of each row "
        "(hint 2).": OF_ALL,
        "The weights contain NaN: the value that is subtracted is not the largest score of the "
        "row, so exp can still overflow. After the subtraction, the largest score must be 0.": [
            f"{LARGEST} -> {other}"
            for other in (
                "scores.mean(dim=-1, keepdim=True)",
                "scores.min(dim=-1, keepdim=True).values",
                "scores.mean()",
                "scores.min()",
            )
        ],
    },
    either_precision=True,
)


# Part 3


def softmax_gradient(weights, upstream, temperature):
    shared = (weights * upstream).sum(dim=-1, keepdim=True)
    gradient = weights * (upstream - shared) / temperature
    return gradient


NO_GRADIENT = (
    "here the loss is the sum of the weights, which is 1 for all scores, so the gradient must be 0."
)


def gradient_cases(thorough: bool) -> Iterator[Case]:
    def case(weights: Tensor, upstream: Tensor, temperature: float) -> Case:
        general = "this is not the gradient that autograd computes."
        if (upstream == 1).all():
            general = NO_GRADIENT
        inputs = {"weights": weights, "upstream": upstream, "temperature": temperature}
        return Case(inputs, general=general)

    row, first = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[4.0, 0.0, 0.0]])
    yield case(row, torch.ones(1, 3), 1.0)
    yield case(row, first, 1.0)
    yield case(row, first, 2.0)
    yield case(row, torch.tensor([[0.0, 1.0, -3.0]]), 0.5)
    rows = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    yield case(rows, torch.tensor([[4.0, 0.0], [0.0, 8.0]]), 1.0)
    saturated = torch.tensor([[1.0, 0.0, 0.0]])
    yield case(saturated, torch.tensor([[1.0, 2.0, 3.0]]), 1.0)
    sizes = [(3, 5, 0.7)]
    sizes += [(7, 2, 1.9), (1, 13, 0.11), (5, 5, 5.0), (2, 1, 3.0)] if thorough else []
    for batch, size, temperature in sizes:
        yield case(torch.randn(batch, size).softmax(-1), torch.randn(batch, size), temperature)


SLOPES = "(torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)) / temperature"

GRADIENT = Question(
    softmax_gradient,
    {"the answer of softmax_gradient": "Return one value for each score: (batch, n)."},
    gradient_cases,
    {
        f"{NO_GRADIENT} Yours is p_l alone. A higher score also lowers all other weights.": (
            "upstream - shared -> upstream"
        ),
        f"{NO_GRADIENT} Yours contains only ∂p_k/∂z_k. For k ≠ l, ∂p_k/∂z_l is -p_k p_l.": (
            "upstream - shared -> upstream - weights * upstream"
        ),
        f"{NO_GRADIENT} Yours is the upstream gradient itself, so the softmax is ignored.": (
            "weights * (upstream - shared) -> upstream"
        ),
        f"{NO_GRADIENT} Is upstream summed without the weights? Multiply it by the weights "
        "first.": "(weights * upstream).sum -> upstream.sum",
        f"{NO_GRADIENT} Is the sum over the rows of the batch? Sum over the last axis: dim=-1, "
        "keepdim=True.": "dim=-1, keepdim=True -> dim=0",
        "this looks like the whole Jacobian. Multiply each ∂p_k/∂z_l by upstream_k, and sum over "
        "k.": f"return gradient -> return {SLOPES}",
        "the products upstream_k ∂p_k/∂z_l are not summed over k. Sum over this axis.": [
            f"return gradient -> return {SLOPES} * upstream.unsqueeze({axis})" for axis in (-1, -2)
        ],
        "the mean of upstream is subtracted. Subtract the sum Σ_k p_k upstream_k, in which each "
        "entry has its weight.": "(weights * upstream).sum( -> upstream.mean(",
        "the sign is wrong.": "return gradient -> return -gradient",
        "the factor 1 / temperature is missing. The softmax is applied to score / temperature, and "
        "this inner function has a derivative, too.": " / temperature -> ",
        "the gradient is multiplied by the temperature. Divide by it instead.": (
            "/ temperature -> * temperature"
        ),
        "the gradient is divided by the temperature twice. Divide once.": (
            "/ temperature -> / temperature**2"
        ),
        "each row alone is right, but both together are not. No row may depend on another row. "
        "Sum over the last axis and keep it: dim=-1, keepdim=True.": [
            "dim=-1, keepdim=True -> ",
            "dim=-1, keepdim=True -> dim=-1",
        ],
    },
    named=True,
    either_precision=True,
)


def alive(scores, upstream, temperatures, bound):
    found = []
    for temperature in temperatures:
        weights = torch.softmax(scores / temperature, dim=-1)
        gradient = softmax_gradient(weights, upstream, temperature)
        largest = gradient.abs().max()
        if largest >= bound:
            found.append(temperature)
    return found


def alive_cases(thorough: bool) -> Iterator[Case]:
    scores = [[2.0, 1.0, 0.0], [0.25, 0.0, 0.0]]
    upstream = [[0.0, 0.0, 3.0], [0.0, -0.2, 0.0]]
    temperatures = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    unsorted = [10.0, 0.1, 1.0, 0.3, 100.0, 0.05]
    calls = [
        (scores[:1], [[-1.0, 0.0, 0.0]], temperatures, 0.03),
        # Each row has a large entry at temperatures at which the other has none.
        (scores, upstream, unsorted, 0.02),
        # Halves and doubles, so that the entry equals the bound without rounding.
        ([[0.0, 0.0]], [[4.0, 0.0]], [0.5, 1.0, 2.0], 1.0),
        # At 1 the entries of a row are -1/3, 2/3 and -1/3: only their sum reaches the bound.
        ([[0.0] * 3] * 2, [[0.0, 3.0, 0.0]] * 2, [0.5, 1.0, 2.0], 0.7),
    ]
    if thorough:
        three = [[5.0, 0.0], [0.0, 0.5], [1.0, 3.0]], [[1.0, 0.0], [0.0, 1.0], [-4.0, 1.0]]
        calls += [(scores, upstream, unsorted, 5.0), (*three, [0.02, 0.3, 3.0, 30.0, 300.0], 0.06)]
    for z, u, *rest in calls:
        inputs = (torch.tensor(z), torch.tensor(u), *rest)
        yield from cases_of(("scores", "upstream", "temperatures", "bound"), [inputs])


MEASURE = "gradient.abs().max()"
WEIGHTS = "torch.softmax(scores / temperature, dim=-1)"

ALIVE = Question(
    alive,
    {"alive": "Return the temperatures themselves at which the gradient does not vanish."},
    alive_cases,
    {
        "the list is empty, but at some of these temperatures the gradient does not vanish.": (
            "found.append(temperature) -> pass"
        ),
        "these are the temperatures at which the gradient vanishes. Return the others.": (
            ">= bound -> < bound"
        ),
        "negative entries are ignored, but -0.3 is as large as 0.3 here. Use .abs() before "
        ".max().": f"{MEASURE} -> gradient.max()",
        "several entries seem to be combined, as in a norm. Use the largest single entry.": [
            f"{MEASURE} -> gradient.norm(dim=-1).max()",
            f"{MEASURE} -> gradient.abs().sum(dim=0).max()",
        ],
        "only negative entries are used. Use .abs() before .max().": (
            f"{MEASURE} -> -gradient.min()"
        ),
        "the entries seem to be summed. Use the largest entry.": (
            f"{MEASURE} -> gradient.abs().sum()"
        ),
        "the mean of the entries seems to be used. Use the largest entry.": (
            f"{MEASURE} -> gradient.abs().mean()"
        ),
        "the weights are those of temperature 1. Compute softmax(scores / temperature).": (
            "scores / temperature -> scores"
        ),
        "these are all the temperatures. Does softmax_gradient receive scores? It needs weights: "
        "softmax(scores / temperature).": f"{WEIGHTS} -> scores",
        "softmax_gradient receives scores / temperature. It needs weights: softmax(scores / "
        "temperature).": f"{WEIGHTS} -> scores / temperature",
        "softmax_gradient does not receive the temperature. Pass it as the third argument.": (
            "upstream, temperature) -> upstream, 1.0)"
        ),
        "every row seems to need a large entry. Use the largest entry of all rows.": (
            f"{MEASURE} -> gradient.abs().amax(dim=-1).min()"
        ),
        "only one row is used. Use the largest entry of all rows.": [
            f"{MEASURE} -> gradient[{row}].abs().max()" for row in (0, -1)
        ],
        "the temperatures are sorted. Return them in the given order.": (
            "return found -> return sorted(found)"
        ),
        "the scores are multiplied by the temperature before the softmax. Divide them.": (
            "scores / temperature -> scores * temperature"
        ),
        "at temperature 1 the largest entry equals the bound. At least `bound` means >=.": (
            ">= bound -> > bound"
        ),
    },
    named=True,
)


# Part 4


def negative_log_likelihoods(logits, targets):
    shifted = logits - logits.max(dim=-1, keepdim=True).values
    log_sums = shifted.exp().sum(dim=-1, keepdim=True).log()
    log_probabilities = shifted - log_sums
    chosen = log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -chosen


# "de rien <end>" in the vocabulary <pad>, de, rien, merci, <end>: probabilities 1/2, 1/4, 1/8.
DE_RIEN = torch.tensor([[[1, 8, 4, 2, 1], [2, 4, 4, 4, 2], [4, 6, 2, 2, 2]]]).div(16).log() + 3
DE_RIEN_END = torch.tensor([[1, 2, 4]])


def nll_cases(thorough: bool) -> Iterator[Case]:
    def random(batch: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
        return torch.randn(batch, length, vocab), torch.randint(vocab, (batch, length))

    calls = [
        (DE_RIEN, DE_RIEN_END),
        (torch.tensor([[[1000.0, 999.0, 998.0]]]), torch.tensor([[1]])),
        (torch.tensor([[[1000.0, 0.0, -1000.0]]]), torch.tensor([[1]])),
        (torch.tensor([[[1000.0, 999.0], [1.0, 0.0]]]), torch.tensor([[1, 1]])),
        random(2, 3, 5),
    ]
    calls.append(read()[:2])
    logits, targets = random(2, 3, 5)
    calls.append((logits.requires_grad_(), targets))
    if thorough:
        calls += [random(*size) for size in [(7, 2, 3), (1, 1, 13), (3, 11, 2), (5, 5, 5)]]
        logits, targets = random(2, 7, 11)
        calls.append((300 * logits, targets))
    return cases_of(("logits", "targets"), calls)


LOSSES = "the negative log-likelihoods"
ONE_FOR_EACH = "Return one value for each target, (batch, len)"
SHIFTED = "logits - logits.max(dim=-1, keepdim=True).values"

NLL = Question(
    negative_log_likelihoods,
    {LOSSES: f"{ONE_FOR_EACH}, without a mean."},
    nll_cases,
    {
        "The result is in bits (log2). Use the natural logarithm, so that it is in nats.": (
            "return -chosen -> return -chosen / math.log(2)"
        ),
        "The sign is wrong: these are log-likelihoods. Return minus the logarithm.": (
            "return -chosen -> return chosen"
        ),
        "These are the probabilities of the targets. Return minus the logarithm of them.": (
            "return -chosen -> return chosen.exp()"
        ),
        "The logits are used as if they were log-probabilities. Subtract the logarithm of the sum "
        "of all exp(logit) from them first.": "shifted - log_sums -> logits",
        "The largest logit is subtracted, but the logarithm of the sum of the exponentials is "
        "not.": "shifted - log_sums -> shifted",
        "The softmax runs over the positions. It must run over the words of the vocabulary, the "
        "last axis.": ("max(dim=-1, -> max(dim=1,", "sum(dim=-1, -> sum(dim=1,"),
        "The softmax runs over the sentences of the batch. It must run over the words of the "
        "vocabulary, the last axis.": ("max(dim=-1, -> max(dim=0,", "sum(dim=-1, -> sum(dim=0,"),
        "This is the negative log-likelihood of the most probable word. Use the target.": (
            "gather(-1, targets.unsqueeze(-1)).squeeze(-1) -> max(dim=-1).values"
        ),
        "This is the entropy, an average over all words of the vocabulary. Use only the target.": (
            "return -chosen -> return -(log_probabilities.exp() * log_probabilities).sum(dim=-1)"
        ),
        f"The shape of {LOSSES} is (batch, len, vocab). {ONE_FOR_EACH}, not one for each word: "
        "select the target with gather.": "return -chosen -> return -log_probabilities",
        f"The shape of {LOSSES} is (batch, len, 1). {ONE_FOR_EACH}: remove the last axis, which "
        "gather needs, with .squeeze(-1).": ".squeeze(-1) -> ",
        f"{ONE_FOR_EACH}, without a mean or a sum.": [
            f"return -chosen -> return -chosen.{each}" for each in ("mean()", "sum()")
        ],
        f"{ONE_FOR_EACH}: .squeeze() removes every axis of size 1, whereas squeeze(-1) removes "
        "only the last one.": ".squeeze(-1) -> .squeeze()",
        "The targets of the first sentence are used for every sentence.": (
            "targets.unsqueeze -> targets[:1].expand_as(targets).unsqueeze"
        ),
        "The largest logit is subtracted inside the exp, but not from the logit of the target. "
        "Subtract it from all logits once, and use the result in both terms.": (
            "shifted - log_sums -> logits - log_sums"
        ),
        "The largest logit is subtracted from the logit of the target, but not inside the exp. "
        "Subtract it from all logits once, and use the result in both terms.": (
            "shifted.exp() -> logits.exp()"
        ),
        "The result contains infinity: the softmax rounds a small probability to 0, and log(0) is "
        "-infinity. Compute the logarithm without the probability (hint 1).": (
            "shifted - log_sums -> (shifted - log_sums).exp().log()"
        ),
        "exp(1000) overflows to infinity. Subtract the largest logit of each position before "
        "exp.": [
            f"{SHIFTED} -> logits",
            (
                f"{SHIFTED} -> logits",
                "shifted - log_sums -> (shifted.exp() / log_sums.exp()).log()",
            ),
        ],
        "Large logits seem to be clamped, which changes their differences. Subtract the largest "
        "logit of each position instead.": f"{SHIFTED} -> logits.clamp(-80, 80)",
        "The largest logit of the whole tensor is subtracted, so every exp of a position with much "
        "lower logits is rounded to 0. Subtract the largest logit of each position.": (
            f"{SHIFTED} -> logits - logits.max()"
        ),
    },
    either_precision=True,
)


# Part 5


def mean_nll(nll, targets, pad_id):
    real = targets != pad_id
    total = nll[real].sum()
    num_tokens = real.sum()
    mean = total / num_tokens
    return mean


def perplexity(nll, targets, pad_id):
    real = targets != pad_id
    total = nll[real].sum()
    num_tokens = real.sum()
    mean = total / num_tokens
    return mean.exp()


def perplexity_cases(thorough: bool) -> Iterator[Case]:
    def padded(batch: int, length: int, pad_id: int) -> tuple[Tensor, Tensor, int]:
        """Return values and targets of sentences of different lengths, padded with `pad_id`."""
        nll = 9 * torch.rand(batch, length)
        targets = pad_id + 1 + torch.randint(5, (batch, length))
        lengths = torch.tensor([1 + (2 * row + 1) % length for row in range(batch)])
        targets[torch.arange(length) >= lengths.unsqueeze(1)] = pad_id
        return nll, targets, pad_id

    de_rien = negative_log_likelihoods(DE_RIEN, DE_RIEN_END)
    two = torch.cat([de_rien, torch.tensor([[0.5, 3.0, 3.0]])])
    calls = [
        (de_rien, DE_RIEN_END, 0),
        (two, torch.tensor([[1, 2, 4], [4, 0, 0]]), 0),
        (two, torch.tensor([[0, 1, 2], [2, 3, 3]]), 3),
        (torch.tensor([[0.0, 1.0, 2.0, 0.5]]), torch.tensor([[1, 2, 3, 0]]), 0),
        padded(7, 13, 5),
    ]
    if thorough:
        calls += [padded(*each) for each in [(7, 2, 0), (2, 11, 3), (1, 1, 5), (13, 3, 1)]]
    return cases_of(("nll", "targets", "pad_id"), calls)


def mean_cases(thorough: bool) -> Iterator[Case]:
    cases = [*perplexity_cases(thorough)]
    inputs = cases[4].inputs
    yield from cases[:5]
    yield Case({**inputs, "nll": inputs["nll"].clone().requires_grad_()})
    yield from cases[5:]


MEAN = "mean = total / num_tokens"
REAL = "real = targets != pad_id"
SENTENCE_MEANS = "(nll * real).sum(dim=1) / real.sum(dim=1)"
OF_SENTENCE_MEANS = f"{MEAN} -> mean = ({SENTENCE_MEANS}).mean()"
SHARED = {
    "Padding is included in the mean. Exclude it.": (f"{REAL} -> real = torch.ones_like(nll) > 0"),
    "Padding is excluded from the sum, but not from the number of tokens by which it is divided.": (
        "num_tokens = real.sum() -> num_tokens = real.numel()"
    ),
    "Padding is excluded from the number of tokens, but not from the sum above it.": (
        "nll[real].sum() -> nll.sum()"
    ),
    "This is the mean over the padding. The comparison must be !=.": [
        f"{REAL} -> real = targets == pad_id",
        f"{REAL} -> real = (targets == pad_id) | (targets != pad_id).all()",
    ],
    "The id 0 is treated as padding, but here pad_id has another value. Compare with pad_id.": (
        f"{REAL} -> real = targets != 0"
    ),
    "Tokens with the value 0 are excluded. The value of a real token is 0 if its probability is "
    "1. Compare the targets with pad_id instead.": (
        f"{REAL} -> real = (targets != pad_id) & (nll != 0)"
    ),
}
"""Mistakes that both functions may have."""

MEAN_NLL = Question(
    mean_nll,
    {"the answer of mean_nll": "Return one value: sum over both axes."},
    mean_cases,
    {
        **SHARED,
        "This is the mean of the sentence means, in which a token of a short sentence has a larger "
        "weight. Sum over the whole batch, then divide once.": OF_SENTENCE_MEANS,
        "This is the sum, or the sum divided by the number of sentences. Divide it by the number "
        "of real tokens.": [f"{MEAN} -> mean = total", f"{MEAN} -> mean = total / len(nll)"],
    },
    named=True,
    either_precision=True,
)

PERPLEXITY = Question(
    perplexity,
    {"the answer of perplexity": "Return one value: sum over both axes."},
    perplexity_cases,
    {
        **SHARED,
        "This is e to the power of the sum. Use the mean, so that the length does not matter.": (
            f"{MEAN} -> mean = total"
        ),
        "This is the mean of the exponentials. Compute the mean first, then exp.": (
            "nll[real].sum() -> nll[real].exp().sum()",
            "return mean.exp() -> return mean",
        ),
        "This is 2 to the power of the mean. The values are in nats, so the base is e.": (
            "return mean.exp() -> return 2**mean"
        ),
        "This is e to the power of minus the mean, a probability. The perplexity is 1 divided by "
        "it.": "mean.exp() -> (-mean).exp()",
        "The product over all tokens exceeds the range of 32-bit floats. Compute the mean first, "
        "then exp.": ("return mean.exp() -> return nll[real].exp().prod() ** (1 / num_tokens)"),
        "This is the mean itself. The perplexity is e to the power of it.": (
            "return mean.exp() -> return mean"
        ),
        "This uses the mean of the sentence means. Sum over the whole batch, then divide once.": (
            OF_SENTENCE_MEANS
        ),
        "This is the mean of the perplexities of the sentences. Compute the mean over all tokens, "
        "then exp.": f"{MEAN} -> mean = ({SENTENCE_MEANS}).exp().mean().log()",
    },
    named=True,
    either_precision=True,
)


PARTS = {
    "shapes": [SUM, PRODUCT, EQUATION],
    "softmax": [SOFTMAX],
    "gradient": [GRADIENT, ALIVE],
    "nll": [NLL],
    "perplexity": [MEAN_NLL, PERPLEXITY],
}
"""The questions of each check, in the order of its arguments."""
