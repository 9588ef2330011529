"""Plausible wrong answers to 07_queries_keys_and_values, with words of the message of each."""

import math

import torch
from right_answers_07 import (
    answer,
    average,
    both,
    corrected_pooling,
    either,
    kernel_weights,
    learn_width,
    leave_one_out,
    lookup,
    pool,
    predict,
)

from attentively.masks import masked_softmax

# Part 1


def keys_for_values(query, keys, values, alpha):
    return alpha(query, keys) @ keys


def pool_normalised(query, keys, values, alpha):
    weights = alpha(query, keys)
    return weights / weights.sum(dim=-1, keepdim=True) @ values


def pool_softmaxed(query, keys, values, alpha):
    return alpha(query, keys).softmax(dim=-1) @ values


def pool_exchanged(query, keys, values, alpha):
    return alpha(keys, query).T @ values


def pool_exchanged_plainly(query, keys, values, alpha):
    return alpha(keys, query) @ values


def pool_mean(query, keys, values, alpha):
    return (alpha(query, keys).unsqueeze(-1) * values).mean(dim=1)


def pool_hard(query, keys, values, alpha):
    return values[alpha(query, keys).argmax(dim=1)]


def pool_key_by_key(query, keys, values, alpha):
    return sum(alpha(query, k.unsqueeze(0)) * v for k, v in zip(keys, values, strict=True))


def pool_weights(query, keys, values, alpha):
    return alpha(query, keys)


def pool_without_weights(query, keys, values, alpha):
    return values.sum(dim=0).repeat(len(query), 1)


def pool_pair(query, keys, values, alpha):
    return alpha(query, keys) @ values, alpha(query, keys)


def lookup_any(query, keys):
    return (query.unsqueeze(1) == keys).any(dim=-1).float()


def lookup_nearest(query, keys):
    nearest = (query.unsqueeze(1) - keys).norm(dim=-1).argmin(dim=1)
    return torch.nn.functional.one_hot(nearest, len(keys)).float()


def lookup_normalised(query, keys):
    found = lookup(query, keys)
    return found / found.sum(dim=-1, keepdim=True)


def lookup_all_if_none(query, keys):
    return lookup_normalised(query, keys).nan_to_num(nan=1 / len(keys))


def lookup_turned(query, keys):
    return lookup(keys, query)


def lookup_inverted(query, keys):
    return 1 - lookup(query, keys)


def lookup_softmaxed(query, keys):
    return lookup(query, keys).softmax(dim=-1)


def lookup_truth(query, keys):
    return (query.unsqueeze(1) == keys).all(dim=-1)


def lookup_places(query, keys):
    return lookup(query, keys).argmax(dim=-1)


def lookup_first_component(query, keys):
    return (query[:, None, 0] == keys[None, :, 0]).float()


def lookup_share(query, keys):
    return (query.unsqueeze(1) == keys).float().mean(dim=-1)


def lookup_by_sums(query, keys):
    return (query.unsqueeze(1).sum(dim=-1) == keys.sum(dim=-1)).float()


def lookup_by_dot_products(query, keys):
    return (query @ keys.T == (keys * keys).sum(dim=-1)).float()


def pool_detached(query, keys, values, alpha):
    return torch.tensor((alpha(query, keys) @ values).tolist())


def average_ones(query, keys):
    return torch.ones(len(query), len(keys))


def average_by_queries(query, keys):
    return torch.ones(len(query), len(keys)) / len(query)


def average_turned(query, keys):
    return torch.ones(len(keys), len(query)) / len(keys)


def average_one_row(query, keys):
    return torch.ones(len(keys)) / len(keys)


POOLINGS = [
    ((keys_for_values, lookup, average), "The keys are summed instead of the values"),
    ((pool_normalised, lookup, average), "The weights are divided by their sum"),
    ((pool_softmaxed, lookup, average), "A softmax is applied to the weights"),
    ((pool_exchanged, lookup, average), "is called with queries and keys exchanged"),
    ((pool_exchanged_plainly, lookup, average), "raises RuntimeError"),
    ((pool_mean, lookup, average), "The weighted values are averaged over the pairs"),
    ((pool_hard, lookup, average), "Each context is the value of a single key"),
    ((pool_key_by_key, lookup, average), "is called with one key at a time"),
    ((pool_weights, lookup, average), "These values are the weights"),
    ((pool_without_weights, lookup, average), "The weights are not used"),
    ((pool_pair, lookup, average), "as a torch.Tensor, got a tuple of 2"),
    ((pool, lookup_any, average), "lookup: A key counts as found if a single component"),
    ((pool_detached, lookup, average), "no gradient flows through them"),
    ((pool, lookup_first_component, average), "lookup: A key counts as found if a single"),
    ((pool, lookup_share, average), "lookup: A key counts as found if a single component"),
    ((pool, lookup_by_sums, average), "can have the same sum"),
    ((pool, lookup_by_dot_products, average), "the same dot product with a third"),
    (
        (pool, lookup_nearest, average),
        "lookup: A query that equals no key receives the nearest key",
    ),
    ((pool, lookup_normalised, average), "has the weights 0 / 0, which are NaN"),
    ((pool, lookup_all_if_none, average), "receives equal weights for all pairs"),
    ((pool, lookup_turned, average), "lookup: The axes are exchanged"),
    ((pool, lookup_inverted, average), "lookup: The weights are inverted"),
    ((pool, lookup_softmaxed, average), "so every pair has a positive weight"),
    ((pool, lookup_truth, average), "of lookup is torch.bool, expected torch.float32"),
    ((pool, lookup_places, average), "torch.int64, expected torch.float32"),
    ((pool, lookup, average_ones), "average: Every pair has the weight 1"),
    ((pool, lookup, average_by_queries), "divided by the number of queries"),
    ((pool, lookup, average_turned), "average: The axes are exchanged"),
    ((pool, lookup, average_one_row), "The shape of the weights of average is (3,), expected"),
]

# Part 2


def weights_with(u_of=None, gaussian=None, boxcar=None, epanechnikov=None, share=None):
    """The plain way with another u, another closeness, or another sum."""

    def kernel_weights(query, keys, kernel, width):
        distances = (query.unsqueeze(1) - keys).norm(dim=-1)
        u = distances / width if u_of is None else u_of(distances, width)
        closeness = {
            "gaussian": gaussian or (lambda u: (-u.square() / 2).exp()),
            "boxcar": boxcar or (lambda u: (u <= 1).float()),
            "epanechnikov": epanechnikov or (lambda u: (1 - u.square()).clamp(min=0)),
        }[kernel](u)
        return (share or shared)(closeness)

    return kernel_weights


def shared(closeness):
    total = closeness.sum(dim=-1, keepdim=True)
    return closeness / torch.where(total == 0, 1.0, total)


def plainly_divided(closeness):
    return closeness / closeness.sum(dim=-1, keepdim=True)


def over_the_queries(closeness):
    return closeness / closeness.sum(dim=0, keepdim=True)


def over_everything(closeness):
    return closeness / closeness.sum()


def nan_to_equal(closeness):
    return plainly_divided(closeness).nan_to_num(1 / closeness.size(1))


def nan_to_zero(closeness):
    return plainly_divided(closeness).nan_to_num(0.0)


def gaussian_always(query, keys, kernel, width):
    return kernel_weights(query, keys, "gaussian", width)


def or_the_nearest(closeness_of):
    """Where nothing is left of the closeness, the nearest key gets everything."""

    def kernel_weights(query, keys, kernel, width):
        weights = closeness_of(query, keys, kernel, width)
        nearest = torch.cdist(query, keys).argmin(dim=1)
        one_hot = torch.nn.functional.one_hot(nearest, len(keys)).float()
        return torch.where(weights.sum(dim=1, keepdim=True) > 0, weights, one_hot)

    return kernel_weights


def kernel_weights_turned(query, keys, kernel, width):
    return kernel_weights(query, keys, kernel, width).T


def taxi_distance(query, keys, kernel, width):
    u = (query.unsqueeze(1) - keys).abs().sum(dim=-1, keepdim=True)
    return torch.cat([kernel_weights(torch.zeros(1, 1), row, kernel, width) for row in u])


def root_of_squares(query, keys, kernel, width):
    """The derivative of this root is infinite where a query equals a key."""
    u = (query.unsqueeze(1) - keys).square().sum(dim=-1).sqrt() / width
    if kernel == "gaussian":
        return torch.softmax(-u.square() / 2, dim=-1)
    return shared((u <= 1).float() if kernel == "boxcar" else (1 - u.square()).clamp(min=0))


def weights_detached(query, keys, kernel, width):
    return kernel_weights(query, keys, kernel, width).detach()


def contexts_too(query, keys, kernel, width):
    weights = kernel_weights(query, keys, kernel, width)
    return weights @ keys, weights


NEAREST = {"gaussian": lambda u: ((u.min(dim=1, keepdim=True).values ** 2 - u**2) / 2).exp()}
NAN_HIDDEN = weights_with(**NEAREST, epanechnikov=lambda u: (1 - u**2) * (u < 1), share=nan_to_zero)
# Beyond the width, the clamp stops the NaN; at u = 1, it does not.
NAN_AT_THE_BOUNDARY = weights_with(**NEAREST, share=nan_to_zero)
PLAIN_GAUSSIAN = or_the_nearest(weights_with(share=shared))


def gaussian_or_the_nearest(query, keys, kernel, width):
    return (PLAIN_GAUSSIAN if kernel == "gaussian" else kernel_weights)(query, keys, kernel, width)


KERNELS = [
    (weights_with(u_of=lambda d, width: d), "The width is not used"),
    (weights_with(u_of=lambda d, width: d * width), "The distance is multiplied by the width"),
    (weights_with(u_of=lambda d, width: d / width**0.5), "The width is not squared"),
    (weights_with(u_of=lambda d, width: d**2 / width), "The distance is squared before"),
    (weights_with(gaussian=lambda u: (-(u**2)).exp()), "The factor 1/2 is missing"),
    (weights_with(gaussian=lambda u: (-u / 2).exp()), "u is not squared"),
    (weights_with(gaussian=lambda u: (-u).exp()), "The kernel is exp(-u)."),
    (weights_with(gaussian=lambda u: (u**2 / 2).exp()), "The sign of the exponent is wrong"),
    (weights_with(epanechnikov=lambda u: 1 - u**2), "is negative for u > 1"),
    (weights_with(epanechnikov=lambda u: (1 - u).clamp(min=0)), "The kernel is the triangular one"),
    (weights_with(boxcar=lambda u: (u < 1).float()), "A key at distance u = 1 has weight 0"),
    (weights_with(boxcar=lambda u: (u <= 0.5).float()), "The boxcar kernel ends at |u| = 1/2"),
    (weights_with(u_of=lambda d, width: d / width**2), "is divided by the width twice"),
    (or_the_nearest(kernel_weights), "a single nearest key receives the whole weight"),
    (gaussian_or_the_nearest, "equally near keys must have equal weights"),
    (gaussian_always, "The argument `kernel` is not used"),
    (weights_with(share=lambda closeness: closeness), "The weights are not normalised"),
    (
        weights_with(share=lambda closeness: closeness.softmax(-1)),
        "which exponentiates once too often",
    ),
    (weights_with(share=over_the_queries), "are normalised over the queries"),
    (weights_with(share=over_everything), "The weights of all queries together"),
    (taxi_distance, "It must be the Euclidean distance"),
    (kernel_weights_turned, "The axes are exchanged"),
    (weights_with(share=plainly_divided), "because K(u) is 0 for all keys"),
    (weights_with(share=nan_to_equal), "receives equal weights for all keys"),
    (weights_with(share=shared), "Far from all keys, every exp(-u²/2) is rounded to 0"),
    (weights_with(share=nan_to_zero), "Far from all keys, every exp(-u²/2) is rounded to 0"),
    (NAN_HIDDEN, "The NaN of 0 / 0 is replaced after the division"),
    (NAN_AT_THE_BOUNDARY, "exactly one width away, so its K(u) is 0. The NaN of 0 / 0"),
    (root_of_squares, "Here a query equals a key. The derivative of a square root"),
    (weights_detached, "no gradient flows through them"),
    (contexts_too, "as a torch.Tensor, got a tuple of 2"),
]

# Part 3


def loss_with(weigh=None, error=None, width_of=torch.exp, half=0.5):
    """The plain way with other weights, another width, or another error."""

    def leave_one_out(keys, values, log_width):
        squared = (keys.unsqueeze(1) - keys).square().sum(dim=-1)
        scores = -half * squared / width_of(log_width) ** 2
        own = torch.eye(len(keys), dtype=torch.bool)
        if weigh is None:
            weights = scores.masked_fill(own, -math.inf).softmax(dim=-1)
        else:
            weights = weigh(scores, own)
        difference = weights @ values - values
        return difference.square().mean() if error is None else error(difference)

    return leave_one_out


def unweighted(scores, own):
    closeness = scores.exp().masked_fill(own, 0.0)
    return closeness / closeness.sum(dim=-1, keepdim=True)


def weighted_with_a_grain(scores, own):
    closeness = scores.exp().masked_fill(own, 0.0)
    return closeness / (closeness.sum(dim=-1, keepdim=True) + 1e-10)


def loss_as_a_number(keys, values, log_width):
    return leave_one_out(keys, values, log_width).item()


def loss_of_a_detached_width(keys, values, log_width):
    return leave_one_out(keys, values, log_width.detach())


def loss_half_detached(keys, values, log_width):
    """The slope of one half of the loss alone."""
    loss = leave_one_out(keys, values, log_width)
    return loss / 2 + loss.detach() / 2


def errors_of_each(keys, values, log_width):
    return loss_with(error=lambda difference: difference.square())(keys, values, log_width)


def learned_by(loss, steps=100, rate=0.1, sign=1, back=lambda log_width: log_width.exp().item()):
    """The plain way of learning, with another loss, or steps, or what is returned."""

    def learn_width(keys, values, width):
        log_width = torch.tensor(math.log(width), requires_grad=True)
        optimizer = torch.optim.Adam([log_width], lr=rate)
        for _ in range(steps):
            optimizer.zero_grad()
            (sign * loss(keys, values, log_width)).backward()
            optimizer.step()
        return back(log_width)

    return learn_width


def width_itself_moved(keys, values, width):
    """The width itself takes steps of plain descent, and falls through 0."""
    moved = torch.tensor(width, requires_grad=True)
    for _ in range(50):
        loss = leave_one_out(keys, values, moved.abs().log())
        (slope,) = torch.autograd.grad(loss, moved)
        moved = (moved - 20 * slope).detach().requires_grad_()
    return -moved.abs().item()


def start_given_back(keys, values, width):
    return width


def widths_and_losses(keys, values, width):
    return [learn_width(keys, values, width), 0.2]


def softmax_over_questions(scores, own):
    return scores.masked_fill(own, -math.inf).softmax(dim=0)


def not_squared(scores, own):
    return (-(-2 * scores).sqrt()).masked_fill(own, -math.inf).softmax(dim=1)


def gradients_added_up(keys, values, width):
    """No zero_grad: each step goes by the sum of all gradients so far."""
    log_width = torch.tensor(math.log(width), requires_grad=True)
    optimizer = torch.optim.Adam([log_width], lr=0.1)
    for _ in range(100):
        leave_one_out(keys, values, log_width).backward()
        optimizer.step()
    return log_width.exp().item()


SEEN = loss_with(weigh=lambda scores, own: scores.softmax(-1))
WIDTHS = [
    ((SEEN, learn_width), "contains the value to be predicted"),
    (
        (loss_with(weigh=lambda s, own: s.softmax(-1).masked_fill(own, 0)), learn_width),
        "set to 0 after the softmax",
    ),
    (
        (loss_with(weigh=lambda s, own: s.masked_fill(own, 0).softmax(-1)), learn_width),
        "contains the value to be predicted",
    ),
    (
        (loss_with(weigh=lambda s, own: s.masked_fill(~own, -1e30).softmax(-1)), learn_width),
        "Only the own pair is used",
    ),
    (
        (loss_with(weigh=lambda s, own: s.masked_fill(s == 0, -1e30).softmax(-1)), learn_width),
        "All pairs with the same key are excluded",
    ),
    ((loss_with(width_of=lambda log_width: log_width), learn_width), "`log_width` is used as"),
    ((loss_with(width_of=lambda x: x.exp().sqrt()), learn_width), "The width is not squared"),
    ((loss_with(half=1), learn_width), "The factor 1/2 is missing"),
    ((loss_with(weigh=softmax_over_questions), learn_width), "is applied over the predictions"),
    ((loss_with(width_of=lambda x: (-x).exp()), learn_width), "multiplied by the width"),
    ((loss_with(weigh=not_squared), learn_width), "leave_one_out: The distance is not squared"),
    ((leave_one_out, gradients_added_up), "starts with zero_grad()"),
    ((loss_with(error=lambda d: d.square().sum()), learn_width), "The squared errors are summed"),
    ((loss_with(error=lambda d: d.abs().mean()), learn_width), "the mean absolute error"),
    ((loss_with(error=lambda d: d.mean()), learn_width), "positive and negative errors cancel"),
    (
        (loss_with(error=lambda d: d.square().mean().sqrt()), learn_width),
        "The square root of the mean squared error is returned",
    ),
    ((loss_with(weigh=unweighted), learn_width), "The loss is NaN"),
    ((loss_with(weigh=weighted_with_a_grain), learn_width), "so the prediction is 0"),
    ((loss_as_a_number, learn_width), "the loss is a plain number"),
    ((loss_of_a_detached_width, learn_width), "no gradient flows through them"),
    ((loss_half_detached, learn_width), "but its gradient is not"),
    ((errors_of_each, learn_width), "The shape of leave_one_out is (3, 1), expected ()"),
    ((leave_one_out, learned_by(SEEN)), "if the loss includes the own pair of each key"),
    ((leave_one_out, learned_by(leave_one_out, steps=3)), "The loss can still decrease"),
    ((leave_one_out, learned_by(leave_one_out, rate=1e-9)), "The width is still the initial one"),
    ((leave_one_out, learned_by(leave_one_out, sign=-1)), "maximised instead of minimised"),
    (
        (leave_one_out, learned_by(leave_one_out, back=lambda x: x.item())),
        "the logarithm of the width",
    ),
    ((leave_one_out, width_itself_moved), "The width must be a positive number"),
    ((leave_one_out, start_given_back), "The width is still the initial one"),
    ((leave_one_out, widths_and_losses), "one number; got list"),
]

# Part 4


def both_product(first, second):
    return first * second


def both_min(first, second):
    return torch.minimum(first, second)


def both_mean(first, second):
    return (first + second) / 2


def both_closeness(first, second):
    return first.exp() * second.exp()


def both_weights(first, second):
    return (first + second).softmax(dim=-1)


def both_by_exponentials(first, second):
    return (first.exp() * second.exp()).log()


def either_max(first, second):
    return torch.maximum(first, second)


def either_mean(first, second):
    return (first + second) / 2


def either_closeness(first, second):
    return first.exp() + second.exp()


def either_halved(first, second):
    return ((first.exp() + second.exp()) / 2).log()


def either_of_weights(first, second):
    return (first.softmax(-1) + second.softmax(-1)).log()


def either_weights(first, second):
    return torch.logaddexp(first, second).softmax(-1)


def either_by_exponentials(first, second):
    return (first.exp() + second.exp()).log()


def either_first_out(first, second):
    return first + torch.log1p((second - first).exp())


def either_detached(first, second):
    return torch.logaddexp(first.detach(), second)


def answer_by_exponentials(scores, excluded, values):
    closeness = scores.exp() * ~excluded
    weights = closeness / closeness.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return weights @ values, weights


def answer_not_low_enough(scores, excluded, values):
    weights = scores.masked_fill(excluded, -100.0).softmax(dim=-1) * ~excluded
    return weights @ values, weights


def answer_renormalised(scores, excluded, values):
    weights = scores.softmax(dim=-1) * ~excluded
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return weights @ values, weights


def answer_turned(scores, excluded, values):
    return answer(scores, ~excluded, values)


def answer_late(scores, excluded, values):
    weights = scores.softmax(dim=-1) * ~excluded
    return weights @ values, weights


def answer_times_zero(scores, excluded, values):
    weights = (scores * ~excluded).softmax(dim=-1)
    return weights @ values, weights


def answer_of_all(scores, excluded, values):
    weights = scores.softmax(dim=-1)
    return weights @ values, weights


def answer_with_nan(scores, excluded, values):
    weights = scores.masked_fill(excluded, -math.inf).softmax(dim=-1)
    return weights @ values, weights


def answer_shared(scores, excluded, values):
    weights = scores.masked_fill(excluded, -1e9).softmax(dim=-1)
    return weights @ values, weights


def answer_over_queries(scores, excluded, values):
    weights = scores.masked_fill(excluded, -1e9).softmax(dim=0).masked_fill(excluded, 0.0)
    return weights @ values, weights


def answer_hidden_nan(scores, excluded, values):
    """Added, the infinity lets the NaN of its softmax back into the gradient."""
    weights = scores + torch.where(excluded, -math.inf, 0.0)
    weights = weights.softmax(dim=-1).nan_to_num(0.0)
    return weights @ values, weights


def answer_of_scores(scores, excluded, values):
    return scores @ values, answer(scores, excluded, values)[1]


def answer_exchanged(scores, excluded, values):
    contexts, weights = answer(scores, excluded, values)
    return weights, contexts


def contexts_only(scores, excluded, values):
    return answer(scores, excluded, values)[0]


ANSWERS = [
    ((both_product, either, answer), "both: The scores are multiplied"),
    ((both_min, either, answer), "both: The result is the smaller of the two scores"),
    ((either, either, answer), "both: This is OR"),
    ((both_mean, either, answer), "both: The result is the mean"),
    ((both_closeness, either, answer), "both: The result is the unnormalised weight"),
    ((both_weights, either, answer), "both: A softmax is already applied"),
    ((both_by_exponentials, either, answer), "both: exp(score) overflows"),
    ((both, either_max, answer), "either: The result is the larger of the two scores"),
    ((both, both, answer), "either: This is AND"),
    ((both, either_mean, answer), "either: The result is the mean of the two scores"),
    ((both, either_closeness, answer), "either: The result is the unnormalised weight"),
    ((both, either_halved, answer), "the logarithm of the mean of the two unnormalised weights"),
    ((both, either_of_weights, answer), "Each condition is normalised by a softmax before the sum"),
    ((both, either_weights, answer), "either: A softmax is already applied"),
    ((both, either_by_exponentials, answer), "either: exp(score) overflows"),
    ((both, either_first_out, answer), "Factor out the larger of the two scores at each position"),
    ((both, either_detached, answer), "no gradient reaches first"),
    ((both, either, answer_by_exponentials), "exp(score) itself is then infinite or 0"),
    ((both, either, answer_not_low_enough), "must be far below all others"),
    ((both, either, answer_renormalised), "are set to 0 after the softmax"),
    ((both, either, answer_turned), "answer: The excluded pairs have the weights"),
    ((both, either, answer_late), "are set to 0 after the softmax"),
    ((both, either, answer_times_zero), "are set to 0, but exp(0) = 1"),
    ((both, either, answer_of_all), "`excluded` is not used"),
    ((both, either, answer_with_nan), "the weights are NaN"),
    ((both, either, answer_shared), "they have equal weights"),
    ((both, either, answer_over_queries), "is applied over the queries"),
    ((both, either, answer_hidden_nan), "replacing this NaN does not remove it from the gradient"),
    ((both, either, answer_of_scores), "The weights are correct, but the contexts are not"),
    ((both, either, answer_exchanged), "The shape of the weights is (1, 1), expected (1, 3)"),
    ((both, either, contexts_only), "Expected a pair"),
]

# Part 5


def foretold(**wrong):
    """The right predictions with some keys answered in another way."""

    def predict_wrongly(weights, values, i, c):
        found = predict(weights, values, i, c)
        return found | {key: answer(weights, values, i, c) for key, answer in wrong.items()}

    return predict_wrongly


def moved(w, i, by):
    return [x + by if j == i else x for j, x in enumerate(w)]


def over_sum(w):
    return [x / sum(w) for x in w]


def softmax_of(w):
    return torch.tensor(w).softmax(-1).tolist()


def context_of(w, v):
    return sum(a * b for a, b in zip(w, v, strict=True))


def without_pair(w, i):
    return [x for j, x in enumerate(w) if j != i]


def no_keys(weights, values, i, c):
    return {}


def a_list(weights, values, i, c):
    return [*predict(weights, values, i, c).values()]


E = math.e
PREDICTIONS = [
    (foretold(twice=lambda w, v, i, c: [*w, w[i]]), "twice: These weights do not sum to 1"),
    (
        foretold(twice=lambda w, v, i, c: [*moved(w, i, -w[i] / 2), w[i] / 2]),
        "The pair and its copy share the previous weight",
    ),
    (foretold(twice=lambda w, v, i, c: w), "The copy has no weight"),
    (foretold(twice=lambda w, v, i, c: over_sum(moved(w, i, w[i]))), "have one weight in common"),
    (
        foretold(twice=lambda w, v, i, c: [x / (1 + w[i]) for x in w]),
        "The weight of the copy, at the end of the list, is missing",
    ),
    (
        foretold(twice=lambda w, v, i, c: over_sum([*w[: i + 1], *w[i:]])),
        "The weight of the copy is at the wrong position",
    ),
    (
        foretold(twice=lambda w, v, i, c: softmax_of([*w, w[i]])),
        "twice: A softmax is applied to the weights",
    ),
    (foretold(without=lambda w, v, i, c: without_pair(w, i)), "The weight of pair i is lost"),
    (
        foretold(without=lambda w, v, i, c: [x + w[i] / (len(w) - 1) for x in without_pair(w, i)]),
        "is distributed in equal parts",
    ),
    (
        foretold(without=lambda w, v, i, c: over_sum(moved(w, i, -w[i]))),
        "without an entry for pair i",
    ),
    (
        foretold(without=lambda w, v, i, c: softmax_of(without_pair(w, i))),
        "without: A softmax is applied to the remaining weights",
    ),
    (foretold(raised=lambda w, v, i, c: moved(w, i, c)), "A score is increased, not a weight"),
    (
        foretold(raised=lambda w, v, i, c: moved(w, i, w[i] * (E**c - 1))),
        "and the sum has changed",
    ),
    (
        foretold(raised=lambda w, v, i, c: over_sum(moved(w, i, w[i] * (c - 1)))),
        "It neither multiplies it by c",
    ),
    (foretold(raised=lambda w, v, i, c: over_sum(moved(w, i, c))), "nor adds c to it"),
    (
        foretold(raised=lambda w, v, i, c: softmax_of(moved(w, i, c))),
        "raised: A softmax is applied to weights",
    ),
    (foretold(raised=lambda w, v, i, c: w), "They change if one score changes"),
    (foretold(all_raised=lambda w, v, i, c: [x + c for x in w]), "No weight changes"),
    (foretold(all_raised=lambda w, v, i, c: [x * E**c for x in w]), "No weight changes"),
    (foretold(all_raised=lambda w, v, i, c: softmax_of(w)), "No weight changes"),
    (foretold(all_raised=lambda w, v, i, c: [x * c for x in w]), "No weight changes"),
    (foretold(doubled=lambda w, v, i, c: [2 * x for x in w]), "Doubling a score does not double"),
    (foretold(doubled=lambda w, v, i, c: w), "as if a constant were added to all scores"),
    (
        foretold(doubled=lambda w, v, i, c: [x**2 for x in w]),
        "Doubling the scores squares the unnormalised weights",
    ),
    (
        foretold(doubled=lambda w, v, i, c: softmax_of([2 * x for x in w])),
        "A softmax is applied to doubled weights",
    ),
    (
        foretold(value_raised=lambda w, v, i, c: context_of(w, v) + c),
        "increases by c times weight i",
    ),
    (
        foretold(value_raised=lambda w, v, i, c: context_of(w, v)),
        "value i is part of the weighted sum",
    ),
    (
        foretold(value_raised=lambda w, v, i, c: context_of(w, moved(v, i, v[i] * (c - 1)))),
        "Value i is multiplied by c",
    ),
    (
        foretold(values_raised=lambda w, v, i, c: context_of(w, v) + len(w) * c),
        "The context increases by n · c",
    ),
    (
        foretold(values_raised=lambda w, v, i, c: context_of(w, v)),
        "but here it is added to the values",
    ),
    (
        foretold(values_raised=lambda w, v, i, c: context_of(w, moved(v, i, c))),
        "Only value i is increased. All values",
    ),
    (foretold(values_scaled=lambda w, v, i, c: context_of(w, v)), "A factor of all values"),
    (foretold(values_scaled=lambda w, v, i, c: context_of(w, v) + c), "c is added to the values"),
    (
        foretold(values_scaled=lambda w, v, i, c: context_of(w, moved(v, i, v[i] * (c - 1)))),
        "Only value i is multiplied",
    ),
    (no_keys, "The key 'twice' is missing"),
    (a_list, "Expected the answer as a dict, got a list"),
]

# Part 6


def pooling_with(*faults):
    """The corrected function with faults, each by its name."""

    def corrected_pooling(query, keys, values, mask, widths):
        squared = (query.unsqueeze(2) - keys.unsqueeze(1)).square().sum(dim=-1)
        if "root" in faults:
            squared = squared.sqrt().square()
        width = widths.unsqueeze(1)
        divisor = {"width": 2 * width, "no width": 2, "no half": width**2, "": 2 * width**2}
        scores = -squared / divisor[next((f for f in faults if f in divisor), "")]
        if "not squared" in faults:
            scores = -squared.sqrt() / (2 * width**2)
        if "sign" in faults:
            scores = -scores
        real = mask.unsqueeze(1)
        if "turned" in faults:
            real = ~real
        dim = 1 if "axis" in faults else 2
        if "late" in faults:
            weights = scores.softmax(dim) * real
        elif "not low enough" in faults:
            weights = scores.masked_fill(~real, -30.0).softmax(dim) * real
        elif "unstable" in faults:
            weights = scores.exp() * real
            weights = weights / weights.sum(dim, keepdim=True).clamp(min=1e-30)
        elif "renormalised" in faults:
            weights = scores.softmax(dim) * real
            weights = weights / weights.sum(dim, keepdim=True).clamp(min=1e-30)
        elif "times zero" in faults:
            weights = (scores * real).softmax(dim)
        elif "unmasked" in faults:
            weights = scores.softmax(dim)
        elif "infinity" in faults:
            weights = scores.masked_fill(~real, -math.inf).softmax(dim)
        else:
            weights = scores.masked_fill(~real, -1e9).softmax(dim)
            if "equal" not in faults:
                weights = weights.masked_fill(~real, 0.0)
        if "hidden" in faults:
            weights = (scores + torch.where(real, 0.0, -math.inf)).softmax(dim).nan_to_num(0.0)
        contexts = weights @ (keys if "keys" in faults else values)
        if "mean" in faults:
            contexts = contexts / keys.size(1)
        if "never nothing" in faults:
            contexts = torch.where(real.any(2, keepdim=True), contexts, values.mean(1, True))
        return contexts, weights.detach() if "cut" in faults else weights

    return corrected_pooling


def as_it_was(query, keys, values, mask, widths):
    distances = (query.unsqueeze(2) - keys.unsqueeze(1)).square().sum(dim=-1).sqrt()
    scores = -(distances**2) / (2 * widths.unsqueeze(1))
    weights = scores.softmax(dim=1) * mask.unsqueeze(1)
    return weights @ keys, weights


def widths_of_queries(query, keys, values, mask, widths):
    u = (query.unsqueeze(2) - keys.unsqueeze(1)).norm(dim=-1) / widths.unsqueeze(2)
    weights = masked_softmax(-(u**2) / 2, mask.unsqueeze(1))
    return weights @ values, weights


def contexts_alone(query, keys, values, mask, widths):
    return corrected_pooling(query, keys, values, mask, widths)[0]


MENDED = [
    (as_it_was, "They sum to 1 over the queries"),
    (pooling_with("axis"), "They sum to 1 over the queries"),
    (pooling_with("width"), "The widths are not squared"),
    (pooling_with("no width"), "The widths are not used"),
    (pooling_with("no half"), "The factor 1/2 is missing"),
    (pooling_with("not squared"), "The distance is not squared"),
    (pooling_with("sign"), "The sign of the exponent is wrong"),
    (pooling_with("late"), "are set to 0 after the softmax"),
    (pooling_with("turned"), "All weights are 0. Nothing is masked here"),
    (pooling_with("turned", "equal"), "All keys have the same weight. Nothing is masked here"),
    (pooling_with("turned", "infinity"), "Some weights are NaN. Nothing is masked here"),
    (pooling_with("not low enough"), "All weights are 0. The real pairs are far"),
    (pooling_with("unstable"), "exp(score) alone is rounded to 0"),
    (pooling_with("renormalised"), "its score must be far below all others"),
    (pooling_with("never nothing"), "The values of the contexts are not the expected ones"),
    (pooling_with("times zero"), "which is the highest possible score here"),
    (pooling_with("unmasked"), "masked pairs have positive weights"),
    (pooling_with("infinity"), "Some weights are NaN. In a fully masked database"),
    (pooling_with("equal"), "In a fully masked database, some pairs have positive weights"),
    (pooling_with("keys"), "The keys are averaged instead of the values"),
    (pooling_with("mean"), "The weighted values are averaged over the pairs"),
    (pooling_with("root"), "no square root is needed"),
    (pooling_with("hidden"), "replacing this NaN does not remove it from the gradient"),
    (pooling_with("cut"), "no gradient flows through them"),
    (widths_of_queries, "raises RuntimeError"),
    (contexts_alone, "Expected a pair"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "pooling": POOLINGS,
    "kernels": KERNELS,
    "learned_width": WIDTHS,
    "answers": ANSWERS,
    "predictions": PREDICTIONS,
    "bug_hunt": MENDED,
}

# Whole notebooks handed in
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

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
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
