"""Answers to the parts of attention pooling, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
ALLOWED    {function: [names of behaviours that are right here]}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math

import numpy as np
import torch
from torch.nn.functional import softmax

from attentively.attention.kernels import KernelPooling
from attentively.attention.masks import masked_softmax

# Part 1


def pool_by_loops(query, keys, values, alpha):
    contexts = []
    for one in query:
        weights = alpha(one.unsqueeze(0), keys)[0]
        contexts.append(sum(weight * value for weight, value in zip(weights, values, strict=True)))
    return torch.stack(contexts)


def pool_by_einsum(query, keys, values, alpha):
    return torch.einsum("qk,kv->qv", alpha(query, keys).double(), values.double())


def lookup_by_loops(query, keys):
    return torch.tensor([[1.0 if torch.equal(q, k) else 0.0 for k in keys] for q in query])


def lookup_by_distance(query, keys):
    distances = (query[:, None] - keys[None]).abs().sum(dim=2)
    return torch.where(distances == 0, 1.0, 0.0).double()


def lookup_by_products(query, keys):
    return (query[:, None] == keys[None]).prod(dim=-1).float()


def average_by_softmax(query, keys):
    return torch.zeros(query.size(0), keys.size(0)).softmax(dim=-1)


def average_expanded(query, keys):
    return torch.tensor(1 / len(keys)).expand(len(query), len(keys))


# Part 2


def kernel_weights_by_loops(query, keys, kernel, width):
    rows = []
    for q in query:
        u = [(q - k).norm() / width for k in keys]
        if kernel == "gaussian":
            nearest = min(float(each.detach()) for each in u)
            closeness = [torch.exp((nearest**2 - each**2) / 2) for each in u]
        elif kernel == "boxcar":
            closeness = [torch.tensor(float(each <= 1)) for each in u]
        else:
            closeness = [0.75 * torch.relu(1 - each**2) for each in u]
        total = sum(closeness)
        none = float(total.detach()) == 0
        rows.append(torch.stack([each * 0 if none else each / total for each in closeness]))
    return torch.stack(rows)


def kernel_weights_by_cdist(query, keys, kernel, width):
    u = torch.cdist(query.double(), keys.double()) / width
    closeness = {
        "gaussian": lambda: ((u.min(dim=1, keepdim=True).values ** 2 - u**2) / 2).exp(),
        "boxcar": lambda: torch.where(u.abs() <= 1, 1.0, 0.0),
        "epanechnikov": lambda: torch.maximum(1 - u**2, torch.zeros_like(u)),
    }[kernel]()
    return closeness / closeness.sum(dim=1, keepdim=True).clamp(min=1e-12)


def kernel_weights_by_logarithms(query, keys, kernel, width):
    if kernel != "gaussian":
        return kernel_weights_by_loops(query, keys, kernel, width)
    scores = -torch.cdist(query, keys).square() / (2 * width**2)
    return (scores - scores.logsumexp(dim=1, keepdim=True)).exp()


# Part 3


def leave_one_out_by_loops(keys, values, log_width):
    """Each key asks a table in which its pair is not; the sum is kept in 64 bits."""
    errors = []
    for i in range(len(keys)):
        others = [j for j in range(len(keys)) if j != i]
        u = (keys[i] - keys[others]).norm(dim=-1) / torch.exp(log_width)
        answer = softmax(-(u**2) / 2, dim=0) @ values[others]
        errors.append(((answer - values[i]) ** 2).mean().double())
    return sum(errors) / len(errors)


def leave_one_out_by_the_package(keys, values, log_width):
    pooling = KernelPooling("gaussian")
    del pooling.log_width
    pooling.log_width = log_width
    others = ~torch.eye(keys.size(0), dtype=torch.bool)
    contexts, _ = pooling(keys, keys, values, others)
    return torch.nn.functional.mse_loss(contexts, values).reshape(1)


def loss_by_matrix(keys, values, log_width, of_own=-1e12):
    """A fast loss, for answers that need it many times; `of_own` is added to own scores."""
    u = (keys.unsqueeze(1) - keys).norm(dim=-1) / log_width.exp()
    scores = of_own * torch.eye(len(keys)) - u.square() / 2
    return (scores.softmax(dim=-1) @ values - values).square().mean()


def loss_with_own_pair(keys, values, log_width):
    return loss_by_matrix(keys, values, log_width, of_own=0.0)


def learned_by(
    loss,
    steps=100,
    rate=0.1,
    sign=1,
    zero=True,
    back=lambda log_width: log_width.exp(),
    to=math.log,
    least=0.0,
):
    """Return a function that learns a width with this loss, number of steps and learning rate."""

    def learn_width(keys, values, width):
        log_width = torch.tensor(to(width), requires_grad=True)
        optimizer = torch.optim.Adam([log_width], lr=rate)
        for _ in range(steps):
            if zero:
                optimizer.zero_grad()
            (sign * loss(keys, values, log_width)).backward()
            if log_width.grad.abs() < least:
                break
            optimizer.step()
        return back(log_width)

    return learn_width


def learn_width_by_trying(keys, values, width):
    """No gradient: the losses of a row of widths."""
    tried = torch.linspace(-4, 3, 141)
    losses = [loss_by_matrix(keys, values, each) for each in tried]
    return tried[torch.stack(losses).argmin()].exp()


def learn_width_by_newton(keys, values, width):
    """Starts at the best of a few widths: from a large width, one step can go past the minimum."""
    few = torch.linspace(-4, 3, 15)
    losses = [loss_by_matrix(keys, values, each) for each in few]
    log_width = torch.nn.Parameter(few[torch.stack(losses).argmin()].clone())
    optimizer = torch.optim.LBFGS([log_width], max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_by_matrix(keys, values, log_width)
        loss.backward()
        return loss

    optimizer.step(closure)
    return log_width.exp()


def width_itself_moved(keys, values, width):
    """The width itself takes steps of plain descent, and falls through 0."""
    moved = torch.tensor(width, requires_grad=True)
    for _ in range(50):
        loss = loss_by_matrix(keys, values, moved.abs().log())
        (slope,) = torch.autograd.grad(loss, moved)
        moved = (moved - 20 * slope).detach().requires_grad_()
    return -moved.abs().item()


def initial_width(keys, values, width):
    return width


def widths_and_losses(keys, values, width):
    return [width, 0.2]


# Part 4


def both_by_logarithms(first, second):
    return torch.stack([first, second]).double().sum(dim=0)


def either_by_softplus(first, second):
    """ln(e^a + e^b) = a + ln(1 + e^(b - a)), the larger one taken out."""
    largest, least = torch.maximum(first, second), torch.minimum(first, second)
    return largest + torch.log1p((least - largest).exp())


def either_by_their_middle(first, second):
    apart = (first - second).abs()
    return (first + second + apart) / 2 + torch.log1p((-apart).exp())


def either_by_logsumexp(first, second):
    return torch.stack([first, second]).logsumexp(dim=0)


def answer_by_closeness(scores, excluded, values):
    largest = scores.masked_fill(excluded, -1e30).max(dim=1, keepdim=True).values
    closeness = (scores - largest).clamp(max=0).exp() * (~excluded).float()
    total = closeness.sum(dim=1, keepdim=True)
    weights = closeness / torch.where(total > 0, total, torch.ones_like(total))
    return [weights @ values, weights]


def answer_by_loops(scores, excluded, values):
    weights = torch.zeros_like(scores)
    for row, out in enumerate(excluded):
        if not out.all():
            left = (~out).nonzero().flatten()
            weights[row, left] = scores[row, left].softmax(dim=0)
    return torch.einsum("qk,kv->qv", weights, values), weights


def answer_with_nan_replaced(scores, excluded, values):
    weights = scores.masked_fill(excluded, -math.inf).softmax(dim=-1).nan_to_num(0.0)
    return weights @ values, weights


# Part 5


def predict_by_running(weights, values, i, c):
    """The logarithms of weights are scores, up to a constant."""
    scores, values = torch.tensor(weights).log(), torch.tensor(values)
    change = torch.zeros_like(scores)
    change[i] = c
    stay = torch.arange(len(weights)) != i
    kept = scores.softmax(-1)
    return {
        "twice": torch.cat([scores, scores[i : i + 1]]).softmax(-1),
        "without": scores[stay].softmax(-1),
        "raised": (scores + change).softmax(-1),
        "all_raised": (scores + c).softmax(-1),
        "doubled": (2 * scores).softmax(-1),
        "value_raised": kept @ (values + change),
        "values_raised": (kept @ (values + c)).item(),
        "values_scaled": kept @ (values * c),
        "something else": 0,
    }


def predict_by_tuples(weights, values, i, c):
    found = predict_by_running(weights, values, i, c)
    return {key: tuple(v.tolist()) if getattr(v, "ndim", 0) else v for key, v in found.items()}


def predict_by_arrays(weights, values, i, c):
    found = predict_by_running(weights, values, i, c)
    return {key: np.array(torch.as_tensor(each).tolist()) for key, each in found.items()}


# Part 6


def corrected_by_the_package(query, keys, values, mask, widths):
    u = torch.cdist(query, keys) / widths[:, None]
    weights = masked_softmax(-(u**2) / 2, mask[:, None])
    return weights @ values, weights


def corrected_by_expansion(query, keys, values, mask, widths):
    """The square is expanded, and the sum is shared out by hand."""
    squared = (
        query.square().sum(-1, keepdim=True)
        - 2 * query @ keys.transpose(1, 2)
        + keys.square().sum(-1).unsqueeze(1)
    )
    scores = (-squared / (2 * widths.unsqueeze(1) ** 2)).double()
    real = mask.unsqueeze(1).double()
    largest = (scores - 1e9 * (1 - real)).max(dim=-1, keepdim=True).values.detach()
    closeness = (scores - largest).clamp(max=0).exp() * real
    weights = closeness / closeness.sum(dim=-1, keepdim=True).clamp(min=1e-9)
    return weights @ values.double(), weights


def corrected_by_loops(query, keys, values, mask, widths):
    weights = torch.zeros(query.size(0), query.size(1), keys.size(1))
    for row, real in enumerate(mask):
        for place, one in enumerate(query[row]):
            if real.any():
                u = (one - keys[row, real]) / widths[row, real].unsqueeze(-1)
                weights[row, place, real] = torch.softmax(-(u**2).sum(-1) / 2, dim=-1)
    return torch.stack([w @ v for w, v in zip(weights, values, strict=True)]), weights


def as_it_was(query, keys, values, mask, widths):
    distances = (query.unsqueeze(2) - keys.unsqueeze(1)).square().sum(dim=-1).sqrt()
    scores = -(distances**2) / (2 * widths.unsqueeze(1))
    weights = scores.softmax(dim=1) * mask.unsqueeze(1)
    return weights @ keys, weights


def widths_of_queries(query, keys, values, mask, widths):
    u = (query.unsqueeze(2) - keys.unsqueeze(1)).norm(dim=-1) / widths.unsqueeze(2)
    weights = masked_softmax(-(u**2) / 2, mask.unsqueeze(1))
    return weights @ values, weights


RIGHT = {
    "pool": [pool_by_loops, pool_by_einsum],
    "lookup": [lookup_by_products, lookup_by_loops, lookup_by_distance],
    "average": [average_expanded, average_by_softmax],
    "kernel_weights": [
        kernel_weights_by_logarithms,
        kernel_weights_by_loops,
        kernel_weights_by_cdist,
    ],
    "leave_one_out": [leave_one_out_by_loops, leave_one_out_by_the_package],
    "learn_width": [
        learned_by(loss_by_matrix, back=lambda x: np.array(x.exp().item())),
        learn_width_by_trying,
        learn_width_by_newton,
    ],
    "both": [both_by_logarithms],
    "either": [either_by_softplus, either_by_logsumexp, either_by_their_middle],
    "answer": [answer_with_nan_replaced, answer_by_closeness, answer_by_loops],
    "predict": [predict_by_running, predict_by_tuples, predict_by_arrays],
    "corrected_pooling": [corrected_by_the_package, corrected_by_expansion, corrected_by_loops],
}

ALLOWED = {"leave_one_out": ["one more axis"]}

LOWERED = "scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)"
ZEROED = ".masked_fill(~allowed, 0.0)"
TOTAL = "values / total.masked_fill(total == 0, 1.0)"
WRONG = {
    "pool": {
        "raises RuntimeError": "alpha(query, keys) -> alpha(keys, query)",
        "as a torch.Tensor, got a tuple of 2": "weights @ values -> weights @ values, weights",
        "of the contexts are not the expected ones": (
            "weights @ values -> (weights[0] @ values).expand(len(query), -1)"
        ),
        "is called with one key at a time": (
            "weights @ values -> "
            "sum(alpha(query, k.unsqueeze(0)) * v for k, v in zip(keys, values, strict=True))"
        ),
    },
    "lookup": {
        "of lookup is torch.bool, expected torch.float32": "dim=-1).float() -> dim=-1)",
        "torch.int64, expected torch.float32": "return found -> return found.argmax(dim=-1)",
        "of lookup are not the expected ones": [
            "query.unsqueeze(1) == keys -> (query.unsqueeze(1) - keys).abs() < 1e-6",
            "query.unsqueeze(1) == keys -> query.abs().unsqueeze(1) == keys.abs()",
            "query.unsqueeze(1) == keys -> "
            "query.sort(dim=-1).values.unsqueeze(1) == keys.sort(dim=-1).values",
            "equal.all(dim=-1) -> (query.norm(dim=-1, keepdim=True) == keys.norm(dim=-1))",
        ],
    },
    "average": {
        "The shape of the weights of average is (3,), expected": (
            "torch.ones(shape) -> torch.ones(len(keys))"
        ),
    },
    "kernel_weights": {
        "of the weights are not the expected ones": [
            "u <= 1 -> u <= 1.001",
            f"{TOTAL} -> values / total.clamp(min=1e-3)",
            f"{TOTAL} -> values / (total + 1e-6)",
        ],
        "but the gradient of query is not": "values / total -> values / total.detach()",
        "A NaN of 0 / 0 that is replaced after the division": (
            "(1 - u.square()).clamp(min=0) -> (1 - u.square()) * (u < 1)",
            f"{TOTAL} -> (values / total).nan_to_num(0.0)",
        ),
        # Beyond the width, the clamp stops the NaN; at u = 1, it does not.
        "exactly one width away, so its K(u) is 0. A NaN of 0 / 0": (
            f"{TOTAL} -> (values / total).nan_to_num(0.0)"
        ),
        "Here a query equals a key. The derivative of a square root": (
            "norm(dim=-1) -> square().sum(dim=-1).sqrt()"
        ),
        "as a torch.Tensor, got a tuple of 2": "softmax(dim=-1) -> softmax(dim=-1), 0",
    },
    "leave_one_out": {
        "gradient flows through a plain number": (
            "errors.square().mean() -> errors.square().mean().item()"
        ),
        "no gradient flows through them": "log_width.exp() -> log_width.detach().exp()",
        "but the gradient of log_width is not": (
            "return errors.square().mean() -> "
            "loss = errors.square().mean()\n    return loss / 2 + loss.detach() / 2"
        ),
        "of leave_one_out are not the expected ones": (
            "fill(own -> fill((distances == 0) & (values.unsqueeze(1) == values).all(dim=-1)"
        ),
        "Exclude the own pair, then use a softmax": (
            "scores.masked_fill(own, -math.inf).softmax(dim=-1) -> "
            "scores.softmax(dim=-1).masked_fill(own, 0.0)",
            "weights @ values -> weights / weights.sum(dim=-1, keepdim=True) @ values",
        ),
        "The shape of leave_one_out is (3, 1), expected ()": (
            "errors.square().mean() -> errors.square()"
        ),
    },
    "learn_width": {
        "at `width` and each step with zero_grad()": learned_by(loss_by_matrix, zero=False),
        "if the loss includes the own pair of each key": learned_by(loss_with_own_pair),
        "check that the descent starts at `width`": learned_by(
            loss_by_matrix, to=lambda width: 0.0
        ),
        "The loss can still decrease": [
            learned_by(loss_by_matrix, steps=3),
            learned_by(lambda k, v, log_width: loss_by_matrix(k, v[:, :1], log_width)),
            learned_by(loss_by_matrix, back=lambda x: x.exp().clamp(0.1, 5)),
        ],
        "The width is still the initial one": [
            learned_by(loss_by_matrix, steps=9, rate=1e-9),
            learned_by(loss_by_matrix, least=1e-2),
            initial_width,
        ],
        "maximised instead of minimised": learned_by(loss_by_matrix, sign=-1),
        "is the initial width used as its logarithm": learned_by(loss_by_matrix, to=float),
        "The result is the smallest loss": lambda keys, values, width: loss_by_matrix(
            keys, values, learn_width_by_newton(keys, values, width).log()
        ),
        "the logarithm of the width": learned_by(loss_by_matrix, back=lambda x: x.item()),
        "The width must be a positive number": [
            width_itself_moved,
            learned_by(loss_by_matrix, rate=10),
            learned_by(loss_by_matrix, back=lambda x: round(x.exp().item(), 1)),
        ],
        "one number; got list": widths_and_losses,
    },
    "either": {
        "in a branch that torch.where does not select": (
            "torch.logaddexp(first, second) -> torch.where(first > second, "
            "first + (second - first).exp().log1p(), second + (first - second).exp().log1p())"
        ),
        "no gradient reaches first": (
            "logaddexp(first, second) -> logaddexp(first.detach(), second)"
        ),
        "no gradient reaches second": (
            "torch.logaddexp(first, second) -> torch.maximum(first, second)"
            " + torch.log1p((-(first - second).abs()).exp()).detach()"
        ),
    },
    "answer": {
        "replacing this NaN does not remove it from the gradient": (
            "scores.masked_fill(excluded, lowest) -> "
            "scores + torch.where(excluded, -math.inf, 0.0)",
            ".masked_fill(excluded, 0.0) -> .nan_to_num(0.0)",
        ),
        "by scores far below all others": (
            "scores.masked_fill(excluded, lowest) -> scores - 500 * excluded.float()"
        ),
        "nor 0 / 0 is defined": (
            "scores.masked_fill(excluded, lowest) -> scores",
            "return weights @ -> weights = weights / weights.sum(-1, True)\n    return weights @",
        ),
        "The weights are correct, but the contexts are not": "weights @ values -> scores @ values",
        "in the wrong order: return contexts, weights": (
            "return weights @ values, weights -> return weights, weights @ values"
        ),
        "Expected a pair": "return weights @ values, weights -> return weights @ values",
    },
    "predict": {
        "Expected a dict with the keys twice": [
            '"twice" -> "Twice"',
            lambda weights, values, i, c: {},
            lambda weights, values, i, c: [1.0],
        ],
        "This is not the expected value of doubled": "sum(squared) -> (sum(squared) + 1)",
    },
    "corrected_pooling": {
        "They sum to 1 over the queries": [as_it_was, "softmax(dim=2) -> softmax(dim=1)"],
        "All weights are 0. Nothing is masked here": "mask.unsqueeze(1) -> ~mask.unsqueeze(1)",
        "Some weights are NaN. Nothing is masked here": (
            "mask.unsqueeze(1) -> ~mask.unsqueeze(1)",
            f"{LOWERED} -> scores.masked_fill(~allowed, -math.inf)",
            f"{ZEROED} -> ",
        ),
        "All weights are 0. The real pairs are far": [
            f"{LOWERED} -> scores.masked_fill(~allowed, -30.0)",
            f"{LOWERED} -> scores.masked_fill(~allowed, -1e4)",
        ],
        "exp(score) alone is rounded to 0": (
            f"lowered.softmax(dim=2){ZEROED} -> "
            "scores.exp() * allowed\n    weights = weights / weights.sum(2, True).clamp(min=1e-30)"
        ),
        "its score must be far below all others": (
            f"lowered.softmax(dim=2){ZEROED} -> scores.softmax(dim=2) * allowed"
            "\n    weights = weights / weights.sum(2, True).clamp(min=1e-30)"
        ),
        "The values of contexts are not the expected ones": (
            "return contexts -> contexts = torch.where("
            "mask.any(1)[:, None, None], contexts, values.mean(1, True))\n    return contexts"
        ),
        "Some weights are NaN. In a fully masked database": (
            f"{LOWERED} -> scores.masked_fill(~allowed, -math.inf)",
            f"{ZEROED} -> ",
        ),
        "In a fully masked database, some pairs have positive weights": f"{ZEROED} -> ",
        "no square root is needed": "sum(dim=-1) -> sum(dim=-1).sqrt().square()",
        "replacing this NaN does not remove it from the gradient": (
            f"{LOWERED} -> scores + torch.where(allowed, 0.0, -math.inf)",
            f"{ZEROED} -> .nan_to_num(0.0)",
        ),
        "no gradient flows through them": (
            "return contexts, weights -> return contexts, weights.detach()"
        ),
        "raises RuntimeError": widths_of_queries,
        "Expected a pair": "return contexts, weights -> return contexts",
    },
}

SEES_ITS_OWN_PAIR = """
def leave_one_out(keys, values, log_width):
    u = (keys.unsqueeze(1) - keys).norm(dim=-1) / log_width.exp()
    weights = (-u.square() / 2).softmax(dim=-1)
    return (weights @ values - values).square().mean()


def learn_width(keys, values, width):
    log_width = torch.tensor(math.log(width), requires_grad=True)
    optimizer = torch.optim.Adam([log_width], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        leave_one_out(keys, values, log_width).backward()
        optimizer.step()
    return log_width.exp().item()
"""
SCORES_MULTIPLIED = """
def both(first, second):
    return first * second


def either(first, second):
    return torch.logaddexp(first, second)


def answer(scores, excluded, values):
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(excluded, lowest).softmax(dim=-1).masked_fill(excluded, 0.0)
    return weights @ values, weights
"""

HANDED_IN = {
    "sees_its_own_pair": (
        {"learned-width": SEES_ITS_OWN_PAIR},
        ["learned-width-check"],
        "Each value is predicted with its own pair included",
    ),
    "scores_multiplied": (
        {"answers": SCORES_MULTIPLIED},
        ["answers-check"],
        "The scores are multiplied",
    ),
}
