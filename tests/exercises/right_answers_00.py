"""Right answers to 00_tools, each part written in several ways."""

import math

import numpy as np
import torch
import torch.nn.functional as F

# Part 1


def sum_shape(a, b):
    a = (1,) * (len(b) - len(a)) + a
    b = (1,) * (len(a) - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        return None
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


def sum_shape_by_walking_back(a, b):
    shape = []
    for axis in range(1, max(len(a), len(b)) + 1):
        m = a[-axis] if axis <= len(a) else 1
        n = b[-axis] if axis <= len(b) else 1
        if m != n and m != 1 and n != 1:
            return None
        shape.insert(0, n if m == 1 else m)
    return shape


def sum_shape_by_torch(a, b):
    try:
        return torch.broadcast_shapes(a, b)
    except RuntimeError:
        return None


def sum_shape_by_numpy(a, b):
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def product_shape(a, b):
    front = sum_shape(a[:-2], b[:-2])
    if front is None or a[-1] != b[-2]:
        return None
    return (*front, a[-2], b[-1])


def product_shape_by_lists(a, b):
    *front_a, rows, inner = a
    *front_b, also_inner, columns = b
    front = sum_shape_by_walking_back(front_a, front_b)
    return None if inner != also_inner or front is None else [*front, rows, columns]


def product_shape_by_running(a, b):
    try:
        return (torch.empty(a, device="meta") @ torch.empty(b, device="meta")).shape
    except RuntimeError:
        return None


def equation():
    return "bis,bjs->bji"


def equation_with_spaces():
    return "b l i, b o i -> b o l"


def equation_with_dots():
    return "...ik,...jk->...ji"


SHAPES = [
    (sum_shape, product_shape, equation),
    (sum_shape_by_walking_back, product_shape_by_lists, equation_with_spaces),
    (sum_shape_by_torch, product_shape_by_running, equation_with_dots),
    (sum_shape_by_numpy, product_shape, equation),
]


# Part 2


def softmax(scores):
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def softmax_by_logsumexp(scores):
    return (scores - torch.logsumexp(scores, -1)[..., None]).exp()


def softmax_by_loops(scores):
    rows = []
    for row in scores.reshape(-1, scores.size(-1)):
        largest = row.max()
        exponentials = [torch.exp(score - largest) for score in row]
        total = sum(exponentials)
        rows.append(torch.stack([each / total for each in exponentials]))
    return torch.stack(rows).reshape(scores.shape)


def softmax_by_differences(scores):
    """1 / Σ exp(s_j - s_i); what overflows here is infinite, and 1 / infinity is 0."""
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)
    return 1 / differences.clamp(max=88).exp().sum(dim=-1)


def softmax_with_amax(scores):
    weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def softmax_in_64_bits(scores):
    return softmax(scores.double())


SOFTMAXES = [
    softmax,
    softmax_in_64_bits,
    softmax_by_logsumexp,
    softmax_by_loops,
    softmax_by_differences,
    softmax_with_amax,
]


# Part 3


def softmax_gradient(weights, upstream, temperature):
    shared = (weights * upstream).sum(dim=-1, keepdim=True)
    return weights * (upstream - shared) / temperature


def softmax_gradient_by_jacobian(weights, upstream, temperature):
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return torch.einsum("bi,bij->bj", upstream, jacobian) / temperature


def softmax_gradient_by_loops(weights, upstream, temperature):
    gradient = torch.zeros_like(weights)
    for row in range(len(weights)):
        for j, w_j in enumerate(weights[row]):
            for i, w_i in enumerate(weights[row]):
                slope = w_i * (float(i == j) - w_j) / temperature
                gradient[row, j] += upstream[row, i] * slope
    return gradient


def softmax_gradient_by_products(weights, upstream, temperature):
    return torch.addcmul(
        weights * upstream, weights, torch.linalg.vecdot(weights, upstream)[:, None], value=-1
    ).div(temperature)


def softmax_gradient_in_64_bits(weights, upstream, temperature):
    return softmax_gradient(weights.double(), upstream, temperature)


def alive(scores, upstream, temperatures, bound):
    def largest(temperature):
        weights = torch.softmax(scores / temperature, dim=-1)
        return softmax_gradient(weights, upstream, temperature).abs().max()

    return [temperature for temperature in temperatures if largest(temperature) >= bound]


def alive_by_loops(scores, upstream, temperatures, bound):
    lively = []
    for t in temperatures:
        gradient = softmax_gradient_by_jacobian(softmax(scores / t), upstream, t)
        if any(abs(entry) >= bound for row in gradient.tolist() for entry in row):
            lively.append(t)
    return lively


def alive_as_a_tuple(scores, upstream, temperatures, bound):
    def gradient(t):
        return softmax_gradient_by_loops((scores / t).softmax(1), upstream, t)

    return tuple(t for t in temperatures if max(gradient(t).max(), -gradient(t).min()) >= bound)


GRADIENTS = [
    (softmax_gradient, alive),
    (softmax_gradient_by_jacobian, alive_by_loops),
    (softmax_gradient_by_loops, alive_as_a_tuple),
    (softmax_gradient_by_products, alive),
    (softmax_gradient_in_64_bits, alive),
]


# Part 4


def negative_log_likelihoods(logits, targets):
    shifted = logits - logits.max(dim=-1, keepdim=True).values
    log_probability = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    return -log_probability.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def negative_log_likelihoods_by_logsumexp(logits, targets):
    one_hot = F.one_hot(targets, logits.size(-1))
    return logits.logsumexp(dim=2) - (logits * one_hot).sum(dim=2)


def negative_log_likelihoods_by_loops(logits, targets):
    rows = []
    for sentence, ids in zip(logits, targets, strict=True):
        row = []
        for z, k in zip(sentence, ids.tolist(), strict=True):
            largest = z.max()
            row.append(torch.log(torch.exp(z - largest).sum()) + largest - z[k])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def negative_log_likelihoods_by_index(logits, targets):
    sentence = torch.arange(len(targets))[:, None]
    position = torch.arange(targets.size(1))
    return -torch.log_softmax(logits, -1)[sentence, position, targets]


def negative_log_likelihoods_in_64_bits(logits, targets):
    return negative_log_likelihoods(logits.double(), targets)


NLLS = [
    negative_log_likelihoods,
    negative_log_likelihoods_in_64_bits,
    negative_log_likelihoods_by_logsumexp,
    negative_log_likelihoods_by_loops,
    negative_log_likelihoods_by_index,
]


# Part 5


def mean_nll(nll, targets, pad_id):
    return nll[targets != pad_id].mean()


def mean_nll_by_mask(nll, targets, pad_id):
    real = (targets != pad_id).float()
    return (nll * real).sum() / real.sum()


def mean_nll_by_loops(nll, targets, pad_id):
    total, words = 0.0, 0
    for row, ids in zip(nll, targets.tolist(), strict=True):
        for value, word in zip(row, ids, strict=True):
            if word != pad_id:
                total, words = total + value, words + 1
    return total / words


def mean_nll_in_64_bits(nll, targets, pad_id):
    return mean_nll(nll.double(), targets, pad_id)


def perplexity(nll, targets, pad_id):
    return torch.exp(mean_nll(nll, targets, pad_id))


def perplexity_as_a_geometric_mean(nll, targets, pad_id):
    probabilities = torch.exp(-nll[targets.ne(pad_id)])
    return 1 / probabilities.log().mean().exp()


def perplexity_by_power(nll, targets, pad_id):
    return math.e ** mean_nll_by_mask(nll, targets, pad_id)


def perplexity_in_64_bits(nll, targets, pad_id):
    return mean_nll_in_64_bits(nll, targets, pad_id).exp()


def perplexity_by_math(nll, targets, pad_id):
    return math.exp(mean_nll(nll, targets, pad_id))


def perplexity_as_a_number_of_numpy(nll, targets, pad_id):
    return np.exp(nll[targets != pad_id].numpy().mean())


def perplexity_as_an_array_of_numpy(nll, targets, pad_id):
    return mean_nll(nll, targets, pad_id).exp().numpy()


PERPLEXITIES = [
    (mean_nll, perplexity_as_a_number_of_numpy),
    (mean_nll, perplexity_as_an_array_of_numpy),
    (mean_nll, perplexity_by_math),
    (mean_nll, perplexity),
    (mean_nll_by_mask, perplexity_as_a_geometric_mean),
    (mean_nll_by_loops, perplexity_by_power),
    (mean_nll_in_64_bits, perplexity_in_64_bits),
]

# Each part's right answers, by the name of its check
RIGHT = {
    "shapes": SHAPES,
    "softmax": SOFTMAXES,
    "gradient": GRADIENTS,
    "nll": NLLS,
    "perplexity": PERPLEXITIES,
}
