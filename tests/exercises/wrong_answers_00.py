"""Plausible wrong answers to 00_tools, each with words of the message it must get."""

import math

import torch
import torch.nn.functional as F
from right_answers_00 import (
    alive,
    equation,
    mean_nll,
    negative_log_likelihoods,
    perplexity,
    product_shape,
    softmax,
    softmax_gradient,
    sum_shape,
)

# Part 1: (answer, words of its message)


def lined_up_at_the_front(a, b):
    a = a + (1,) * (len(b) - len(a))
    b = b + (1,) * (len(a) - len(b))
    return sum_shape(a, b)


def larger_wins(a, b):
    a = (1,) * (len(b) - len(a)) + a
    b = (1,) * (len(a) - len(b)) + b
    return tuple(max(sizes) for sizes in zip(a, b, strict=True))


def larger_of_those_that_fit(a, b):
    return None if sum_shape(a, b) is None else larger_wins(a, b)


def equal_shapes_only(a, b):
    return a if a == b else None


def shrunk_to_one(a, b):
    fits = all(m == n or 1 in (m, n) for m, n in zip(a, b, strict=True))
    return tuple(map(min, a, b)) if fits else None


def common_axes_only(a, b):
    pairs = list(zip(a[::-1], b[::-1], strict=False))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        return None
    return tuple(max(pair) for pair in pairs)[::-1]


def left_in_reverse(a, b):
    shape = sum_shape(a, b)
    return shape and shape[::-1]


def longer_given_back(a, b):
    longer = a if len(a) >= len(b) else b
    return longer if sum_shape(a, b) is not None else None


def both_shapes(a, b):
    return a + b


def one_shape_short_refused(a, b):
    return sum_shape(a, b) if len(a) == len(b) else None


def zero_fits_all(a, b):
    zeros = [min(len(a), len(b)) > i and 0 in (a[~i], b[~i]) for i in range(max(len(a), len(b)))]
    shape = larger_wins(a, b)
    if any(zeros):
        return tuple(0 if zero else size for zero, size in zip(zeros[::-1], shape, strict=True))
    return sum_shape(a, b)


def zero_is_stretched(a, b):
    return larger_wins(a, b) if 0 in a + b and 1 not in a + b else sum_shape(a, b)


def sum_shape_raises(a, b):
    return tuple(torch.zeros(a).add(torch.zeros(b)).shape)


def sum_shape_printed(a, b):
    print(sum_shape(a, b))


def inner_axis_kept(a, b):
    return (*a, b[-1]) if product_shape(a, b) else None


def inner_axis_not_compared(a, b):
    front = sum_shape(a[:-2], b[:-2])
    return None if front is None else (*front, a[-2], b[-1])


def front_twice(a, b):
    return a[:-1] + b[:-2] + b[-1:] if a[-1] == b[-2] else None


def front_lost(a, b):
    return (a[-2], b[-1]) if a[-1] == b[-2] else None


def front_of_the_first(a, b):
    return a[:-1] + b[-1:] if a[-1] == b[-2] else None


def front_must_be_equal(a, b):
    return a[:-1] + b[-1:] if a[-1] == b[-2] and a[:-2] == b[:-2] else None


def inner_one_is_stretched(a, b):
    front, inner = sum_shape(a[:-2], b[:-2]), sum_shape(a[-1:], b[-2:-1])
    return None if front is None or inner is None else (*front, a[-2], b[-1])


def without_inner_axis(a, b):
    return sum_shape(a, b)


def turned_product(a, b):
    front = sum_shape(a[:-2], b[:-2])
    return None if front is None or a[-1] != b[-2] else (*front, b[-1], a[-2])


def einsum_not_turned():
    return "bis,bjs->bij"


def einsum_size_left():
    return "bis,bjs->bjis"


def einsum_batch_summed():
    return "bis,bjs->ji"


def einsum_batches_apart():
    return "bis,cjs->bji"


def einsum_without_an_arrow():
    return "bis,bjs"


def einsum_of_two_axes():
    return "is,js->ji"


def einsum_unknown_letter():
    return "bis,bjs->bjk"


def einsum_one_length():
    return "bis,bis->bs"


def einsum_not_a_string():
    return torch.einsum


SHAPES = [
    ((lined_up_at_the_front, product_shape, equation), "aligned at their first axes"),
    ((larger_wins, product_shape, equation), "The larger size is not enough"),
    (
        (larger_of_those_that_fit, product_shape, equation),
        "a size of 1 is expanded to the other size",
    ),
    ((zero_fits_all, product_shape, equation), "a size of 0 is not 1"),
    ((zero_is_stretched, product_shape, equation), "a size of 0 is not 1"),
    ((equal_shapes_only, product_shape, equation), "1 fits every size"),
    ((shrunk_to_one, product_shape, equation), "the other one stays as it is"),
    ((common_axes_only, product_shape, equation), "only the axes that both shapes have"),
    ((left_in_reverse, product_shape, equation), "the axes are in reverse order"),
    ((longer_given_back, product_shape, equation), "the longer shape unchanged"),
    ((both_shapes, product_shape, equation), "the axes of a followed by those of b"),
    ((one_shape_short_refused, product_shape, equation), "a missing axis counts as 1"),
    ((sum_shape_raises, product_shape, equation), "Your code raises RuntimeError"),
    ((sum_shape_printed, product_shape, equation), "Is there a `return`?"),
    ((sum_shape, inner_axis_kept, equation), "the inner axis is still there"),
    ((sum_shape, inner_axis_not_compared, equation), "This product does not exist"),
    ((sum_shape, front_twice, equation), "matrix i of a is multiplied by matrix i of b only"),
    ((sum_shape, front_lost, equation), "the axes before the last two are missing"),
    ((sum_shape, front_of_the_first, equation), "those of b count as well"),
    ((sum_shape, front_must_be_equal, equation), "the axes before them are broadcast"),
    ((sum_shape, inner_one_is_stretched, equation), "The two inner sizes must be equal"),
    (
        (sum_shape, without_inner_axis, equation),
        "the last size of a equals the second to last of b",
    ),
    ((sum_shape, turned_product, equation), "the last two axes are exchanged"),
    ((sum_shape, product_shape, einsum_not_turned), "the axes of the result are in another order"),
    ((sum_shape, product_shape, einsum_size_left), "one axis too many"),
    ((sum_shape, product_shape, einsum_batch_summed), "an axis is missing"),
    ((sum_shape, product_shape, einsum_batches_apart), "has the same letter in both"),
    ((sum_shape, product_shape, einsum_without_an_arrow), "there is no arrow"),
    ((sum_shape, product_shape, einsum_of_two_axes), "each needs three letters"),
    ((sum_shape, product_shape, einsum_unknown_letter), "PyTorch rejects it"),
    ((sum_shape, product_shape, einsum_one_length), "PyTorch rejects it"),
    ((sum_shape, product_shape, einsum_not_a_string), "expected a string"),
]


# Part 2


def without_exp(scores):
    return scores / scores.sum(dim=-1, keepdim=True)


def not_divided(scores):
    return (scores - scores.max(dim=-1, keepdim=True).values).exp()


def not_stable(scores):
    exponentials = scores.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def largest_of_all(scores):
    exponentials = torch.exp(scores - scores.max())
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def mean_subtracted(scores):
    return not_stable(scores - scores.mean(dim=-1, keepdim=True))


def smallest_subtracted(scores):
    return not_stable(scores - scores.min(dim=-1, keepdim=True).values)


def sum_without_keepdim(scores):
    exponentials = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return exponentials / exponentials.sum(dim=-1)


def max_without_keepdim(scores):
    exponentials = (scores - scores.max(dim=-1).values).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def nothing_kept(scores):
    exponentials = (scores - scores.max(dim=-1).values).exp()
    return exponentials / exponentials.sum(dim=-1)


def nothing_but_the_sum(scores):
    exponentials = torch.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def along_the_first_axis(scores):
    return scores.log_softmax(dim=0).exp()


def along_the_second_axis(scores):
    return scores.log_softmax(dim=min(1, scores.dim() - 1)).exp()


def logarithms(scores):
    return scores.log_softmax(dim=-1)


def sigmoids(scores):
    return scores.sigmoid()


def cut_off(scores):
    return not_stable(scores.clamp(-50, 50))


def divided_by_the_largest(scores):
    return not_stable(scores / scores.max(dim=-1, keepdim=True).values)


def in_place(scores):
    scores -= scores.max(dim=-1, keepdim=True).values
    return not_stable(scores)


def over_its_own_exp(scores):
    weights = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    weights /= weights.sum(dim=-1, keepdim=True)
    return weights


def detached(scores):
    return softmax(scores.detach())


def by_numbers(scores):
    return torch.tensor(softmax(scores).tolist())


def nan_replaced(scores):
    return not_stable(scores).nan_to_num(0.0)


def values_forgotten(scores):
    return not_stable(scores - scores.max(dim=-1, keepdim=True))


def as_numpy(scores):
    return softmax(scores).detach().numpy()


def one_too_few(scores):
    return softmax(scores)[..., :-1]


def fixed_number_subtracted(scores):
    return not_stable(scores - 1000)


SOFTMAXES = [
    (without_exp, "The exp is missing"),
    (not_divided, "not divided by their sum"),
    (not_stable, "exp(1000) overflows to infinity, exp(-1000)"),
    (nan_replaced, "NaN seems to be replaced afterwards"),
    (largest_of_all, "the largest score of the whole tensor is subtracted"),
    (mean_subtracted, "is not the largest score of the row"),
    (smallest_subtracted, "is not the largest score of the row"),
    (fixed_number_subtracted, "Do you subtract a constant?"),
    (sum_without_keepdim, "The sums of the rows are broadcast along the wrong axis"),
    (max_without_keepdim, "keepdim=True, in max as well as in sum"),
    (nothing_kept, "keepdim=True, in max as well as in sum"),
    (nothing_but_the_sum, "sum to 1 over the whole tensor"),
    (along_the_first_axis, "over the first axis"),
    (along_the_second_axis, "over the second axis"),
    (logarithms, "the logarithms of the weights"),
    (sigmoids, "the sigmoid of each score"),
    (cut_off, "Are large scores clamped?"),
    (divided_by_the_largest, "divided by the largest score"),
    (in_place, "Your code changes its input scores"),
    (over_its_own_exp, "the backward pass through them fails"),
    (detached, "no gradient flows through them"),
    (by_numbers, "no gradient flows through them"),
    (values_forgotten, "use .values"),
    (as_numpy, "as a torch.Tensor, got a ndarray"),
    (one_too_few, "Return one weight for each score"),
    (lambda scores: scores.softmax(-1), "not accepted. Your code uses"),
]


# Part 3


def temperature_forgotten(w, u, t):
    return softmax_gradient(w, u, 1.0)


def temperature_multiplied(w, u, t):
    return softmax_gradient(w, u, 1.0) * t


def temperature_twice(w, u, t):
    return softmax_gradient(w, u, t) / t


def sum_term_forgotten(w, u, t):
    return w * u / t


def diagonal_only(w, u, t):
    return w * (1 - w) * u / t


def passed_through(w, u, t):
    return u / t


def upstream_summed_unweighted(w, u, t):
    return w * (u - u.sum(-1, keepdim=True)) / t


def mean_of_upstream(w, u, t):
    return w * (u - u.mean(-1, keepdim=True)) / t


def factor_forgotten(w, u, t):
    return (u - (w * u).sum(-1, keepdim=True)) / t


def summed_over_everything(w, u, t):
    return w * (u - (w * u).sum()) / t


def summed_over_the_batch(w, u, t):
    return w * (u - (w * u).sum(0)) / t if len(w) > 1 else softmax_gradient(w, u, t)


def keepdim_forgotten(w, u, t):
    return w * (u - (w * u).sum(-1)) / t


def sign_turned(w, u, t):
    return -softmax_gradient(w, u, t)


def whole_jacobian(w, u, t):
    return (torch.diag_embed(w) - w[:, :, None] * w[:, None]) / t


def jacobian_not_summed(w, u, t):
    return whole_jacobian(w, u, t) * u[:, :, None]


def summed_at_the_end(w, u, t):
    return softmax_gradient(w, u, t).sum(-1)


def by_autograd(w, u, t):
    scores = (w.log() * t).requires_grad_()
    return torch.autograd.grad((scores / t).softmax(-1), scores, u)[0]


def divided_by_the_weights(w, u, t):
    shared = (w * u).sum(-1, keepdim=True)
    return (w * u - w * shared) * w / w / t


def dead_ones(scores, upstream, temperatures, bound):
    lively = alive(scores, upstream, temperatures, bound)
    return [t for t in temperatures if t not in lively]


def alive_by(measure, weigh=lambda s, t: (s / t).softmax(-1), told=lambda t: t):
    def answer(scores, upstream, temperatures, bound):
        def gradient(t):
            return softmax_gradient(weigh(scores, t), upstream, told(t))

        return [t for t in temperatures if measure(gradient(t)) >= bound]

    return answer


def largest(gradient):
    return gradient.abs().max()


with_sign = alive_by(torch.max)
sum_of_entries = alive_by(lambda gradient: gradient.abs().sum())
norm_of_a_row = alive_by(lambda gradient: gradient.norm(dim=-1).max())
sum_over_the_batch = alive_by(lambda gradient: gradient.abs().sum(0).max())
only_the_negative = alive_by(lambda gradient: -gradient.min())
mean_of_entries = alive_by(lambda gradient: gradient.abs().mean())
weights_at_one = alive_by(largest, weigh=lambda s, t: s.softmax(-1))
gradient_at_one = alive_by(largest, told=lambda t: 1.0)
multiplied_scores = alive_by(largest, weigh=lambda s, t: (s * t).softmax(-1))
no_softmax = alive_by(largest, weigh=lambda s, t: s)
scores_for_weights = alive_by(largest, weigh=lambda s, t: s / t)
every_row_alive = alive_by(lambda gradient: gradient.abs().amax(-1).min())


def above_the_bound(scores, upstream, temperatures, bound):
    def size(t):
        return largest(softmax_gradient((scores / t).softmax(-1), upstream, t))

    return [t for t in temperatures if size(t) > bound]


def empty_list(scores, upstream, temperatures, bound):
    return []


def only_the_first(scores, upstream, temperatures, bound):
    return alive(scores, upstream, temperatures, bound)[0]


def yes_or_no(scores, upstream, temperatures, bound):
    lively = alive(scores, upstream, temperatures, bound)
    return [t in lively for t in temperatures]


def sorted_ones(scores, upstream, temperatures, bound):
    return sorted(alive(scores, upstream, temperatures, bound))


GRADIENTS = [
    ((temperature_forgotten, alive), "the factor 1 / temperature is missing"),
    ((temperature_multiplied, alive), "multiplied by the temperature"),
    ((temperature_twice, alive), "divided by the temperature twice"),
    ((sum_term_forgotten, alive), "A higher score also lowers all other weights"),
    ((diagonal_only, alive), "contains only ∂p_k/∂z_k"),
    ((passed_through, alive), "the upstream gradient itself"),
    ((upstream_summed_unweighted, alive), "Is upstream summed without the weights?"),
    ((mean_of_upstream, alive), "Yours sum to"),
    ((factor_forgotten, alive), "Is the factor p_l missing?"),
    ((summed_over_everything, alive), "No row may depend on another row"),
    ((summed_over_the_batch, alive), "No row may depend on another row"),
    ((keepdim_forgotten, alive), "Sum over the last axis and keep it"),
    ((sign_turned, alive), "the sign is wrong"),
    ((whole_jacobian, alive), "Multiply each ∂p_k/∂z_l by upstream_k"),
    ((jacobian_not_summed, alive), "This looks like the whole Jacobian"),
    ((summed_at_the_end, alive), "Return one value for each score"),
    ((by_autograd, alive), "Your code raises RuntimeError"),
    ((divided_by_the_weights, alive), "There is NaN"),
    ((softmax_gradient, empty_list), "the list is empty"),
    ((softmax_gradient, dead_ones), "Return the others"),
    ((softmax_gradient, with_sign), "negative entries are ignored"),
    ((softmax_gradient, sum_of_entries), "the entries seem to be summed"),
    ((softmax_gradient, norm_of_a_row), "several entries seem to be combined"),
    ((softmax_gradient, sum_over_the_batch), "several entries seem to be combined"),
    ((softmax_gradient, only_the_negative), "only negative entries are used"),
    ((softmax_gradient, mean_of_entries), "the mean of the entries seems to be used"),
    ((softmax_gradient, weights_at_one), "Compute softmax(scores / temperature)"),
    ((softmax_gradient, gradient_at_one), "softmax_gradient does not receive the temperature"),
    ((softmax_gradient, multiplied_scores), "multiplied by the temperature before the softmax"),
    ((softmax_gradient, no_softmax), "Does softmax_gradient receive scores?"),
    ((softmax_gradient, scores_for_weights), "Compute softmax(scores / temperature)"),
    ((softmax_gradient, every_row_alive), "every row seems to need a large entry"),
    ((softmax_gradient, only_the_first), "Expected alive as a list, got a float"),
    ((softmax_gradient, yes_or_no), "Return the temperatures themselves"),
    ((softmax_gradient, sorted_ones), "Return them in the given order"),
    ((softmax_gradient, above_the_bound), "At least `bound` means >="),
]


# Part 4


def log_of(probabilities, targets):
    return -probabilities.log().gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def in_bits(logits, targets):
    return negative_log_likelihoods(logits, targets) / math.log(2)


def log_likelihoods(logits, targets):
    return -negative_log_likelihoods(logits, targets)


def probabilities_of_targets(logits, targets):
    return torch.exp(-negative_log_likelihoods(logits, targets))


def logits_of_targets(logits, targets):
    return -logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def over_the_positions(logits, targets):
    return log_of(logits.softmax(dim=1), targets)


def at_the_most_probable(logits, targets):
    return -logits.log_softmax(-1).max(-1).values


def entropies(logits, targets):
    return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)


def softmax_then_log(logits, targets):
    return log_of(softmax(logits), targets)


def unstable_softmax(logits, targets):
    exponentials = logits.exp()
    return log_of(exponentials / exponentials.sum(-1, keepdim=True), targets)


def unstable_sum(logits, targets):
    total = logits.exp().sum(-1).log()
    return total - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def clamped(logits, targets):
    return log_of(logits.softmax(-1).clamp(min=1e-12), targets)


def with_epsilon(logits, targets):
    return log_of(logits.softmax(-1) + 1e-9, targets)


def largest_left_out(logits, targets):
    total = (logits - logits.max(-1, keepdim=True).values).exp().sum(-1).log()
    return total - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def largest_outside_only(logits, targets):
    left = logits - logits.max(-1, keepdim=True).values
    return logits.exp().sum(-1).log() - left.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def every_axis_squeezed(logits, targets):
    return negative_log_likelihoods(logits, targets).squeeze()


def last_axis_kept(logits, targets):
    return negative_log_likelihoods(logits, targets).unsqueeze(-1)


def averaged_already(logits, targets):
    return negative_log_likelihoods(logits, targets).mean()


def every_word(logits, targets):
    return -logits.log_softmax(-1)


def first_sentence_only(logits, targets):
    return negative_log_likelihoods(logits, targets[:1].expand_as(targets))


def nll_detached(logits, targets):
    return negative_log_likelihoods(logits.detach(), targets)


def targets_not_unsqueezed(logits, targets):
    return -logits.log_softmax(-1).gather(-1, targets)


def negative_log_likelihoods_by_library(logits, targets):
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")


NLLS = [
    (in_bits, "The result is in bits"),
    (log_likelihoods, "these are log-likelihoods"),
    (probabilities_of_targets, "the probabilities of the targets"),
    (logits_of_targets, "as if they were log-probabilities"),
    (over_the_positions, "runs over the positions"),
    (at_the_most_probable, "of the most probable word"),
    (entropies, "the entropy"),
    (softmax_then_log, "rounds a small probability to 0"),
    (unstable_softmax, "exp(1000) overflows to infinity"),
    (unstable_sum, "exp(1000) overflows to infinity"),
    (clamped, "Is the probability clamped"),
    (with_epsilon, "Is the probability clamped"),
    (largest_left_out, "inside the exp, but not from the logit of the target"),
    (largest_outside_only, "from the logit of the target, but not inside the exp"),
    (last_axis_kept, "remove the last axis"),
    (every_axis_squeezed, "squeeze(-1) removes only the last one"),
    (averaged_already, "without a mean"),
    (every_word, "not one for each word: select the target"),
    (first_sentence_only, "The targets of the first sentence"),
    (nll_detached, "no gradient flows through them"),
    (targets_not_unsqueezed, "Your code raises RuntimeError"),
    (negative_log_likelihoods_by_library, "not accepted. Your code uses"),
]


# Part 5


def padding_counted(s, y, pad):
    return s.mean()


def padding_in_the_denominator(s, y, pad):
    return (s * (y != pad)).sum() / y.numel()


def padding_in_the_sum(s, y, pad):
    return s.sum() / (y != pad).sum()


def mean_of_sentence_means(s, y, pad):
    real = (y != pad).float()
    return ((s * real).sum(1) / real.sum(1)).mean()


def the_padding_only(s, y, pad):
    return s[y == pad].mean() if (y == pad).any() else s.mean()


def only_summed(s, y, pad):
    return s[y != pad].sum()


def over_the_sentences(s, y, pad):
    return s[y != pad].sum() / len(s)


def pad_is_zero(s, y, pad):
    return s[y != 0].mean()


def zeros_left_out(s, y, pad):
    s = s * (y != pad)
    return s.sum() / (s != 0).sum()


def as_a_number(s, y, pad):
    return mean_nll(s, y, pad).item()


def one_for_each_sentence(s, y, pad):
    real = (y != pad).float()
    return (s * real).sum(1) / real.sum(1)


def exp_of_the_sum(s, y, pad):
    return s[y != pad].sum().exp()


def mean_of_the_exps(s, y, pad):
    return s[y != pad].exp().mean()


def two_to_the_mean(s, y, pad):
    return 2 ** mean_nll(s, y, pad)


def a_probability(s, y, pad):
    return torch.exp(-mean_nll(s, y, pad))


def exp_forgotten(s, y, pad):
    return mean_nll(s, y, pad)


def exp_with_padding(s, y, pad):
    return s.mean().exp()


def exp_with_padding_below(s, y, pad):
    return padding_in_the_denominator(s, y, pad).exp()


def exp_with_padding_above(s, y, pad):
    return padding_in_the_sum(s, y, pad).exp()


def exp_of_sentence_means(s, y, pad):
    return mean_of_sentence_means(s, y, pad).exp()


def mean_of_sentence_perplexities(s, y, pad):
    return one_for_each_sentence(s, y, pad).exp().mean()


def cut_from_the_gradient(s, y, pad):
    return mean_nll(s.detach(), y, pad)


PERPLEXITIES = [
    ((padding_counted, perplexity), "mean_nll: Padding is included in the mean"),
    ((padding_in_the_denominator, perplexity), "mean_nll: Padding is excluded from the sum"),
    ((padding_in_the_sum, perplexity), "mean_nll: Padding is excluded from the number"),
    ((mean_of_sentence_means, perplexity), "This is the mean of the sentence means"),
    ((the_padding_only, perplexity), "The comparison must be !="),
    ((only_summed, perplexity), "This is the sum"),
    ((over_the_sentences, perplexity), "divided by the number of sentences"),
    ((pad_is_zero, perplexity), "The id 0 is treated as padding"),
    ((zeros_left_out, perplexity), "Tokens with the value 0 are excluded"),
    ((as_a_number, perplexity), "a plain number, which carries no gradient"),
    ((one_for_each_sentence, perplexity), "sum over both axes"),
    ((cut_from_the_gradient, perplexity), "no gradient flows through them"),
    ((mean_nll, exp_of_the_sum), "e to the power of the sum"),
    ((mean_nll, mean_of_the_exps), "the mean of the exponentials"),
    ((mean_nll, two_to_the_mean), "2 to the power of the mean"),
    ((mean_nll, a_probability), "e to the power of minus the mean"),
    ((mean_nll, exp_forgotten), "This is the mean itself"),
    ((mean_nll, exp_with_padding), "perplexity: Padding is included in the mean"),
    ((mean_nll, exp_with_padding_below), "perplexity: Padding is excluded from the sum"),
    ((mean_nll, exp_with_padding_above), "perplexity: Padding is excluded from the number"),
    ((mean_nll, exp_of_sentence_means), "This uses the mean of the sentence means"),
    ((mean_nll, mean_of_sentence_perplexities), "the mean of the perplexities of the sentences"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "shapes": SHAPES,
    "softmax": SOFTMAXES,
    "gradient": GRADIENTS,
    "nll": NLLS,
    "perplexity": PERPLEXITIES,
}

# Whole notebooks handed in
NOT_STABLE = """
def softmax(scores):
    exponentials = scores.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)
"""
# Right, although part 2 is not: parts do not need each other.
OWN_SOFTMAX = """
def softmax_gradient(weights, upstream, temperature):
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return (jacobian @ upstream.unsqueeze(-1)).squeeze(-1) / temperature


def alive(scores, upstream, temperatures, bound):
    found = []
    for temperature in temperatures:
        gradient = softmax_gradient(softmax(scores / temperature), upstream, temperature)
        if gradient.abs().max() >= bound:
            found.append(temperature)
    return found
"""
SENTENCE_MEANS = """
def mean_nll(nll, targets, pad_id):
    real = (targets != pad_id).float()
    return ((nll * real).sum(dim=1) / real.sum(dim=1)).mean()


def perplexity(nll, targets, pad_id):
    return mean_nll(nll, targets, pad_id).exp()
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "not_stable": (
        {"softmax": NOT_STABLE, "gradient": OWN_SOFTMAX},
        ["softmax-check"],
        "exp(1000) overflows to infinity",
    ),
    "sentence_means": (
        {"perplexity": SENTENCE_MEANS},
        ["perplexity-check"],
        "This is the mean of the sentence means",
    ),
}
