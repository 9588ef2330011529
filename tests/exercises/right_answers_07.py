"""Right answers to 07_queries_keys_and_values, each part written in several ways."""

import math

import numpy as np
import torch
from torch.nn.functional import softmax

from attentively.kernels import KernelPooling
from attentively.masks import masked_softmax

# Part 1


def pool(query, keys, values, alpha):
    return alpha(query, keys) @ values


def pool_by_loops(query, keys, values, alpha):
    contexts = []
    for one in query:
        weights = alpha(one.unsqueeze(0), keys)[0]
        contexts.append(sum(weight * value for weight, value in zip(weights, values, strict=True)))
    return torch.stack(contexts)


def pool_by_einsum(query, keys, values, alpha):
    return torch.einsum("qk,kv->qv", alpha(query, keys).double(), values.double())


def lookup(query, keys):
    return (query.unsqueeze(1) == keys).all(dim=-1).float()


def lookup_by_loops(query, keys):
    return torch.tensor([[1.0 if torch.equal(q, k) else 0.0 for k in keys] for q in query])


def lookup_by_distance(query, keys):
    distances = (query[:, None] - keys[None]).abs().sum(dim=2)
    return torch.where(distances == 0, 1.0, 0.0).double()


def average(query, keys):
    return torch.full((len(query), len(keys)), 1 / len(keys))


def average_by_softmax(query, keys):
    return torch.zeros(query.size(0), keys.size(0)).softmax(dim=-1)


def average_by_ones(query, keys):
    ones = torch.ones(query.size(0), keys.size(0))
    return ones / ones.sum(dim=1, keepdim=True)


def lookup_by_products(query, keys):
    return (query[:, None] == keys[None]).prod(dim=-1).float()


def average_expanded(query, keys):
    return torch.tensor(1 / len(keys)).expand(len(query), len(keys))


POOLINGS = [
    (pool, lookup, average),
    (pool, lookup_by_products, average_expanded),
    (pool_by_loops, lookup_by_loops, average_by_softmax),
    (pool_by_einsum, lookup_by_distance, average_by_ones),
]

# Part 2


def kernel_weights(query, keys, kernel, width):
    squared = (query.unsqueeze(1) - keys).square().sum(dim=-1) / width**2
    if kernel == "gaussian":
        return (-squared / 2).softmax(dim=-1)
    closeness = (squared <= 1).float() if kernel == "boxcar" else (1 - squared).clamp(min=0)
    total = closeness.sum(dim=-1, keepdim=True)
    return closeness / total.masked_fill(total == 0, 1.0)


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
        return kernel_weights(query, keys, kernel, width)
    scores = -torch.cdist(query, keys).square() / (2 * width**2)
    return (scores - scores.logsumexp(dim=1, keepdim=True)).exp()


KERNELS = [
    kernel_weights,
    kernel_weights_by_logarithms,
    kernel_weights_by_loops,
    kernel_weights_by_cdist,
]

# Part 3


def leave_one_out(keys, values, log_width):
    u = (keys.unsqueeze(1) - keys).norm(dim=-1) / log_width.exp()
    own = torch.eye(len(keys), dtype=torch.bool)
    weights = (-u.square() / 2).masked_fill(own, -math.inf).softmax(dim=-1)
    return (weights @ values - values).square().mean()


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


def learn_width(keys, values, width):
    log_width = torch.tensor(math.log(width), requires_grad=True)
    optimizer = torch.optim.Adam([log_width], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        leave_one_out(keys, values, log_width).backward()
        optimizer.step()
    return log_width.exp().item()


def learn_width_by_trying(keys, values, width):
    """No gradient: the loss of a row of widths."""
    tried = torch.linspace(-4, 2, 121)
    losses = [leave_one_out(keys, values, each) for each in tried]
    return tried[torch.stack(losses).argmin()].exp()


def learn_width_as_an_array(keys, values, width):
    return np.array(learn_width(keys, values, width))


def learn_width_by_newton(keys, values, width):
    log_width = torch.nn.Parameter(torch.tensor(float(width)).log())
    optimizer = torch.optim.LBFGS([log_width], max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = leave_one_out(keys, values, log_width)
        loss.backward()
        return loss

    optimizer.step(closure)
    return log_width.exp()


WIDTHS = [
    (leave_one_out, learn_width),
    (leave_one_out, learn_width_as_an_array),
    (leave_one_out_by_loops, learn_width_by_trying),
    (leave_one_out_by_the_package, learn_width_by_newton),
]

# Part 4


def both(first, second):
    return first + second


def both_by_logarithms(first, second):
    return torch.stack([first, second]).double().sum(dim=0)


def either(first, second):
    return torch.logaddexp(first, second)


def either_by_softplus(first, second):
    """ln(e^a + e^b) = a + ln(1 + e^(b - a)), the larger one taken out."""
    largest, least = torch.maximum(first, second), torch.minimum(first, second)
    return largest + torch.log1p((least - largest).exp())


def either_by_their_middle(first, second):
    apart = (first - second).abs()
    return (first + second + apart) / 2 + torch.log1p((-apart).exp())


def either_by_logsumexp(first, second):
    return torch.stack([first, second]).logsumexp(dim=0)


def answer(scores, excluded, values):
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(excluded, lowest).softmax(dim=-1).masked_fill(excluded, 0.0)
    return weights @ values, weights


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


def answer_mended_late(scores, excluded, values):
    weights = scores.masked_fill(excluded, -math.inf).softmax(dim=-1).nan_to_num(0.0)
    return weights @ values, weights


ANSWERS = [
    (both, either, answer_mended_late),
    (both, either, answer),
    (both_by_logarithms, either_by_softplus, answer_by_closeness),
    (both, either_by_logsumexp, answer_by_loops),
    (both, either_by_their_middle, answer),
]

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
        "values_scaled": c * context,
    }


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
        "something else": None,
    }


def predict_by_tuples(weights, values, i, c):
    found = predict_by_running(weights, values, i, c)
    return {key: tuple(v.tolist()) if getattr(v, "ndim", 0) else v for key, v in found.items()}


def predict_by_arrays(weights, values, i, c):
    return {key: np.array(answer) for key, answer in predict(weights, values, i, c).items()}


PREDICTIONS = [predict, predict_by_running, predict_by_tuples, predict_by_arrays]

# Part 6


def corrected_pooling(query, keys, values, mask, widths):
    squared = (query.unsqueeze(2) - keys.unsqueeze(1)).square().sum(dim=-1)
    scores = -squared / (2 * widths.unsqueeze(1) ** 2)
    mask = mask.unsqueeze(1)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=2).masked_fill(~mask, 0.0)
    return weights @ values, weights


def mended_by_the_package(query, keys, values, mask, widths):
    u = torch.cdist(query, keys) / widths[:, None]
    weights = masked_softmax(-(u**2) / 2, mask[:, None])
    return weights @ values, weights


def mended_by_expansion(query, keys, values, mask, widths):
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


def mended_by_loops(query, keys, values, mask, widths):
    weights = torch.zeros(query.size(0), query.size(1), keys.size(1))
    for row, real in enumerate(mask):
        for place, one in enumerate(query[row]):
            if real.any():
                u = (one - keys[row, real]) / widths[row, real].unsqueeze(-1)
                weights[row, place, real] = torch.softmax(-(u**2).sum(-1) / 2, dim=-1)
    return torch.stack([w @ v for w, v in zip(weights, values, strict=True)]), weights


MENDED = [corrected_pooling, mended_by_the_package, mended_by_expansion, mended_by_loops]

# Each part's right answers, by the name of its check
RIGHT = {
    "pooling": POOLINGS,
    "kernels": KERNELS,
    "learned_width": WIDTHS,
    "answers": ANSWERS,
    "predictions": PREDICTIONS,
    "bug_hunt": MENDED,
}
