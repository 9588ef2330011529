"""Answers to the parts of tools, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
ALLOWED    {function: [behaviours that are right here]}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from attentively.checks.edits import edited_source, source_of
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
softmax, softmax_gradient = questions.softmax, questions.softmax_gradient
negative_log_likelihoods = questions.negative_log_likelihoods
mean_nll, perplexity = questions.mean_nll, questions.perplexity

# Part 1


def sum_shape_from_the_last_axis(a, b):
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


def product_shape_by_lists(a, b):
    *front_a, rows, inner = a
    *front_b, also_inner, columns = b
    front = sum_shape_from_the_last_axis(front_a, front_b)
    return None if inner != also_inner or front is None else [*front, rows, columns]


def product_shape_by_running(a, b):
    try:
        return (torch.empty(a, device="meta") @ torch.empty(b, device="meta")).shape
    except RuntimeError:
        return None


# Part 2


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


# Part 3


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


# Part 4


def nll_by_logsumexp(logits, targets):
    one_hot = F.one_hot(targets, logits.size(-1))
    return logits.logsumexp(dim=2) - (logits * one_hot).sum(dim=2)


def nll_by_loops(logits, targets):
    rows = []
    for sentence, ids in zip(logits, targets, strict=True):
        row = []
        for z, k in zip(sentence, ids.tolist(), strict=True):
            largest = z.max()
            row.append(torch.log(torch.exp(z - largest).sum()) + largest - z[k])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def nll_by_index(logits, targets):
    sentence = torch.arange(len(targets))[:, None]
    position = torch.arange(targets.size(1))
    return -torch.log_softmax(logits, -1)[sentence, position, targets]


# Part 5


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


def perplexity_as_a_geometric_mean(nll, targets, pad_id):
    probabilities = torch.exp(-nll[targets.ne(pad_id)])
    return 1 / probabilities.log().mean().exp()


def perplexity_by_power(nll, targets, pad_id):
    return math.e ** mean_nll_by_mask(nll, targets, pad_id)


RIGHT = {
    "sum_shape": [sum_shape_from_the_last_axis, sum_shape_by_torch],
    "product_shape": [product_shape_by_lists, product_shape_by_running],
    "equation": [lambda: "b l i, b o i -> b o l", lambda: "...ik,...jk->...ji"],
    "softmax": [
        lambda scores: softmax(scores.double()),
        lambda scores: (scores - torch.logsumexp(scores, -1)[..., None]).exp(),
        softmax_by_loops,
        softmax_by_differences,
        softmax_with_amax,
    ],
    "softmax_gradient": [
        lambda w, u, t: softmax_gradient(w.double(), u, t),
        softmax_gradient_by_jacobian,
        softmax_gradient_by_loops,
        softmax_gradient_by_products,
    ],
    "alive": [alive_by_loops, alive_as_a_tuple],
    "negative_log_likelihoods": [
        lambda logits, targets: negative_log_likelihoods(logits.double(), targets),
        nll_by_logsumexp,
        nll_by_loops,
        nll_by_index,
    ],
    "mean_nll": [
        lambda nll, targets, pad_id: mean_nll(nll.double(), targets, pad_id),
        mean_nll_by_mask,
        mean_nll_by_loops,
    ],
    "perplexity": [
        lambda nll, targets, pad_id: perplexity(nll.double(), targets, pad_id),
        perplexity_as_a_geometric_mean,
        perplexity_by_power,
        lambda nll, targets, pad_id: math.exp(mean_nll(nll, targets, pad_id)),
        lambda nll, targets, pad_id: np.exp(nll[targets != pad_id].numpy().mean()),
        lambda nll, targets, pad_id: perplexity(nll, targets, pad_id).numpy(),
    ],
}


def by_autograd(w, u, t):
    with torch.enable_grad():
        scores = (w.log() * t).requires_grad_()
        return torch.autograd.grad((scores / t).softmax(-1), scores, u)[0]


def by_a_transformation(w, u, t):
    return torch.func.vjp(lambda scores: (scores / t).softmax(-1), w.log() * t)[1](u)[0]


OVERWRITTEN = "weights = exponentials / total -> weights = exponentials\n    weights /= total"
FROM_PROBABILITIES = "shifted - log_sums -> ((shifted - log_sums).exp()"

WRONG = {
    "sum_shape": {
        "1 fits every size": [
            "return shape -> return a if a == b else None",
            "return shape -> return shape or None",
        ],
        "a missing axis counts as 1": "return shape -> return shape if len(a) == len(b) else None",
        "Your code raises RuntimeError": lambda a, b: (torch.zeros(a) + torch.zeros(b)).shape,
        "This is not the expected value of sum_shape": "return shape -> return shape[1:]",
        "PyTorch says: The size of tensor a": "return None -> return ()",
    },
    "product_shape": {
        "the last size of a equals the second to last of b": (
            "return shape -> return sum_shape(a, b)"
        ),
        "the axes before them are broadcast": (
            "front is None -> front is None or a[:-2] != b[:-2]"
        ),
    },
    "softmax": {
        "the backward pass through them fails": OVERWRITTEN,
        "no gradient flows": "return weights -> return torch.tensor(weights.tolist())",
        "use .values": "keepdim=True).values -> keepdim=True)",
        "as a torch.Tensor, got a ndarray": "return weights -> return weights.detach().numpy()",
        "Return one weight for each score": "return weights -> return weights[..., :-1]",
        "not accepted. Your code uses": lambda scores: scores.softmax(-1),
    },
    "softmax_gradient": {
        "Yours sum to": "weights * (upstream - shared) -> (upstream - shared)",
        "this is not the gradient that autograd computes": (
            "return gradient -> return gradient.flip(-1)"
        ),
        "so the gradient must be 0": "return gradient -> return gradient + weights - 1 / 3",
        "Return one value for each score": "return gradient -> return gradient.sum(-1)",
        "The check turns autograd off": [by_autograd, by_a_transformation],
        "There is NaN": "weights * (upstream -> weights**2 / weights * (upstream",
    },
    "alive": {
        "Expected alive as a list, got a float": "return found -> return found[0]",
        "Return the temperatures themselves": (
            "return found -> return [each in found for each in temperatures]"
        ),
    },
    "negative_log_likelihoods": {
        "Is the probability clamped": [
            f"{FROM_PROBABILITIES}.clamp(min=1e-12)).log()",
            f"{FROM_PROBABILITIES} + 1e-9).log()",
        ],
        "without a mean": "return -chosen -> return -chosen.mean(dim=-1)",
        "Your code raises RuntimeError": "targets.unsqueeze(-1) -> targets",
        "not accepted. Your code uses": lambda logits, targets: F.cross_entropy(
            logits.transpose(1, 2), targets, reduction="none"
        ),
    },
    "mean_nll": {
        "a plain number. It carries no gradient": "return mean -> return mean.item()",
        "sum over both axes": ("total / num_tokens -> (nll * real).sum(dim=1) / real.sum(dim=1)"),
    },
}

ALLOWED = {"perplexity": ["a list"]}

OWN_SOFTMAX = f"{questions.WEIGHTS} -> softmax(scores / temperature)"
ALIVE_BY_OWN_SOFTMAX = edited_source(questions.alive, OWN_SOFTMAX)

HANDED_IN = {
    # The answer to part 3 is right, although it uses that to part 2: parts do not need each other.
    "not_stable": (
        {
            "softmax": edited_source(softmax, questions.UNSTABLE),
            "gradient": f"{source_of(softmax_gradient)}\n\n{ALIVE_BY_OWN_SOFTMAX}",
        },
        ["softmax-check"],
        "exp(1000) overflows to infinity",
    ),
}
