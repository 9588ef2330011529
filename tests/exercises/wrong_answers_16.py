"""Plausible wrong answers to 16_training_the_transformer, with words of the message of each."""

import inspect
import math

import torch
from answer_sources import source
from right_answers_16 import (
    at_best,
    diagnose,
    learning_rate,
    mean_weights,
    padding_share,
    smoothed_loss,
    smoothed_targets,
    steps_at,
    token_batches,
    update,
)
from torch import nn
from torch.nn import functional as F

from attentively.checkpoints import mean_weights as mean_weights_of_the_package
from attentively.losses import cross_entropy
from attentively.schedules import inverse_square_root, paper_learning_rate
from attentively.vocabulary import PAD_ID

# Part 1


def taught_by(kept, spread, right_too=True, without=()):
    """A distribution: what the right word keeps, and what each word gets of the rest."""

    def targets_of(targets, vocab_size, smoothing):
        one_hot = F.one_hot(targets, vocab_size).float()
        rest = torch.full(one_hot.shape, spread(smoothing, vocab_size))
        for word in without:
            rest[..., word] = 0
        return kept(smoothing) * one_hot + (rest if right_too else rest * (1 - one_hot))

    return targets_of


def less(s):
    return 1 - s


over_others = taught_by(less, lambda s, k: s / (k - 1), right_too=False)
without_right = taught_by(less, lambda s, k: s / k, right_too=False)
all_and_more = taught_by(lambda s: 1.0, lambda s, k: s / k)
all_to_each = taught_by(less, lambda s, k: s)
exchanged = taught_by(lambda s: s, lambda s, k: (1 - s) / k)
one_hot = taught_by(lambda s: 1.0, lambda s, k: 0.0)
of_one_less = taught_by(less, lambda s, k: s / (k - 1))
annotated = taught_by(less, lambda s, k: s / (k - 2), right_too=False, without=[PAD_ID])
without_pad = taught_by(less, lambda s, k: s / (k - 1), without=[PAD_ID])
pad_dropped = taught_by(less, lambda s, k: s / k, without=[PAD_ID])


given_away = taught_by(less, lambda s, k: 0.0)


def nothing_at_padding(targets, vocab_size, smoothing):
    taught = smoothed_targets(targets, vocab_size, smoothing)
    return taught * (targets != PAD_ID).unsqueeze(-1)


def flattened(targets, vocab_size, smoothing):
    return smoothed_targets(targets, vocab_size, smoothing).flatten(0, -2)


def targets_in_place(targets, vocab_size, smoothing):
    taught = smoothed_targets(targets, vocab_size, smoothing)
    targets += 0 * targets + 1
    return taught


def loss_by(over=None, surprise=None, targets_of=smoothed_targets, pad=None):
    """A loss one of whose steps is another."""

    def loss(logits, targets, pad_id, smoothing):
        taught = targets_of(targets, logits.size(-1), smoothing)
        said = surprise(logits, smoothing) if surprise else -logits.log_softmax(-1)
        losses = (taught * said).sum(dim=-1)
        real = targets != (pad_id if pad is None else pad)
        return over(losses, real) if over else losses[real].mean()

    return loss


def over_all_dimensions(logits, targets, pad_id, smoothing):
    taught = smoothed_targets(targets, logits.size(-1), smoothing)
    return -(taught * logits.log_softmax(-1))[targets != pad_id].mean()


def naive(logits, targets, pad_id, smoothing):
    taught = smoothed_targets(targets, logits.size(-1), smoothing)
    return -(taught * logits.softmax(-1).log()).sum(-1)[targets != pad_id].mean()


def smoothed_prediction(logits, targets, pad_id, smoothing):
    said = (1 - smoothing) * logits.softmax(-1) + smoothing / logits.size(-1)
    right = said.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -right.log()[targets != pad_id].mean()


def plain_loss(logits, targets, pad_id, smoothing):
    return smoothed_loss(logits, targets, pad_id, 0.0)


def as_number(logits, targets, pad_id, smoothing):
    return smoothed_loss(logits, targets, pad_id, smoothing).item()


def detached(logits, targets, pad_id, smoothing):
    return smoothed_loss(logits.detach(), targets, pad_id, smoothing)


def partly_detached(logits, targets, pad_id, smoothing):
    def surprise(scores, _):
        return -(scores - scores.logsumexp(-1, keepdim=True).detach())

    return loss_by(surprise=surprise)(logits, targets, pad_id, smoothing)


def each_loss(logits, targets, pad_id, smoothing):
    return loss_by(over=lambda losses, real: losses)(logits, targets, pad_id, smoothing)


def with_small_number(logits, targets, pad_id, smoothing):
    taught = smoothed_targets(targets, logits.size(-1), smoothing)
    return -(taught * (logits.softmax(-1) + 1e-9).log()).sum(-1)[targets != pad_id].mean()


def divergence(logits, targets, pad_id, smoothing):
    taught, real = smoothed_targets(targets, logits.size(-1), smoothing), targets != pad_id
    return F.kl_div(logits.log_softmax(-1)[real], taught[real], reduction="batchmean")


def of_pytorch_with_padding(logits, targets, pad_id, smoothing):
    return (
        -(smoothed_targets(targets, logits.size(-1), smoothing) * logits.log_softmax(-1))
        .sum(-1)
        .mean()
    )


def loss_of_pytorch(logits, targets, pad_id, smoothing):
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, label_smoothing=smoothing
    )


SMOOTHING = [
    ((over_others, smoothed_loss), "smoothed_targets: The smoothing is spread over the other"),
    ((without_right, smoothed_loss), "the correct token receives no share"),
    ((all_and_more, smoothed_loss), "the correct token keeps 1. It keeps"),
    ((all_to_each, smoothed_loss), "Every token receives the whole smoothing"),
    ((exchanged, smoothed_loss), "smoothed_targets: smoothing and 1 - smoothing are exchanged"),
    ((one_hot, smoothed_loss), "smoothed_targets: Nothing is smoothed"),
    ((of_one_less, smoothed_loss), "The smoothing is divided by vocab_size - 1"),
    ((annotated, smoothed_loss), "The padding token receives no share"),
    ((without_pad, smoothed_loss), "The padding token receives no share"),
    ((pad_dropped, smoothed_loss), "The padding token receives no share"),
    ((given_away, smoothed_loss), "that the correct token loses is given to no"),
    ((nothing_at_padding, smoothed_loss), "The distribution at padding is 0"),
    ((flattened, smoothed_loss), "The shape of the distributions is (6, 5), expected (2, 3, 5)"),
    ((targets_in_place, smoothed_loss), "Your code changes its input targets"),
    ((lambda *given: None, smoothed_loss), "None: is there a `return`?"),
    ((smoothed_targets, of_pytorch_with_padding), "Padding is included in the mean"),
    ((smoothed_targets, loss_by(over=lambda losses, real: losses[real].sum() / real.numel())),
     "but included in the divisor"),
    ((smoothed_targets, loss_by(over=lambda losses, real: losses[real].sum())), "This is a sum"),
    ((smoothed_targets,
      loss_by(over=lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean())),
     "This is the mean of the sentences' means"),
    ((smoothed_targets, loss_by(over=lambda losses, real: losses[real].sum() / len(losses))),
     "divided by the number of sentences"),
    ((smoothed_targets, loss_by(pad=0)), "Padding is recognised by the id 0"),
    ((smoothed_targets, loss_by(surprise=lambda x, _: x.log_softmax(-1))), "The sign is missing"),
    ((smoothed_targets, loss_by(surprise=lambda x, _: -x.softmax(-1))), "The logarithm is missing"),
    ((smoothed_targets, loss_by(surprise=lambda x, _: -x)), "The softmax is missing"),
    ((smoothed_targets, loss_by(surprise=lambda x, _: -x.softmax(-1).log_softmax(-1))),
     "The softmax is applied twice"),
    ((smoothed_targets, smoothed_prediction), "The predicted distribution is smoothed"),
    ((smoothed_targets, over_all_dimensions), "The mean is taken over the vocabulary too"),
    ((smoothed_targets, plain_loss), "smoothed_loss: Nothing is smoothed"),
    ((smoothed_targets, loss_by(targets_of=over_others)),
     "smoothed_loss: The smoothing is spread over the other tokens only"),
    ((smoothed_targets, loss_by(targets_of=annotated)),
     "smoothed_loss: The padding token receives no share"),
    ((smoothed_targets, naive), "For logits that are far apart, softmax returns 0"),
    ((smoothed_targets, with_small_number), "adding a small constant gives a wrong loss"),
    ((smoothed_targets, divergence), "This is F.kl_div"),
    ((smoothed_targets, loss_by(surprise=lambda x, _: -x.log_softmax(1))), "over the positions"),
    ((smoothed_targets, loss_by(surprise=lambda x, _: -x.log_softmax(-1) / math.log(2))),
     "so the loss is in bits"),
    ((smoothed_targets, as_number), "Expected the loss as a torch.Tensor, got a float"),
    ((smoothed_targets, detached), "no gradient flows through them"),
    ((smoothed_targets, partly_detached), "the gradient of logits is not: a part"),
    ((smoothed_targets, each_loss), "The shape of the loss is (1, 1), expected ()"),
    ((smoothed_targets, loss_of_pytorch), "not accepted. Your code uses"),
    ((smoothed_targets, cross_entropy), "not accepted. Your code uses"),
]  # fmt: skip

# Part 2


def rate_by(left=-0.5, right=-1.5, model=-0.5, choose=min, shift=0):
    """A schedule whose exponents are others."""

    def rate(step, d_model, warm_up_steps):
        n = step + shift
        return d_model**model * choose(n**left, n * warm_up_steps**right)

    return rate


def flat_after(step, d_model, warm_up_steps):
    return d_model**-0.5 * min(warm_up_steps**-0.5, step * warm_up_steps**-1.5)


def from_zero(step, d_model, warm_up_steps):
    n = step - 1
    return 0.0 if n == 0 else learning_rate(n, d_model, warm_up_steps)


def share(step, d_model, warm_up_steps):
    return min(step / warm_up_steps, (warm_up_steps / step) ** 0.5)


def left_side_alone(step, d_model, warm_up_steps):
    return min(d_model**-0.5 * step**-0.5, step * warm_up_steps**-1.5)


def falling_in_a_line(step, d_model, warm_up_steps):
    highest = (d_model * warm_up_steps) ** -0.5
    return highest * min(step / warm_up_steps, warm_up_steps / step)


def whole(step, d_model, warm_up_steps):
    return round(learning_rate(step, d_model, warm_up_steps), 4)


def rate_by_share(step, d_model, warm_up_steps):
    share = inverse_square_root(step - 1, 10**9, warm_up_steps)
    return paper_learning_rate(d_model, warm_up_steps) * share


SCHEDULE = [
    (rate_by(choose=max), "The larger of the two values is taken"),
    (rate_by(choose=lambda one, other: other), "The rate only rises"),
    (rate_by(choose=lambda one, other: one), "There is no warm-up"),
    (flat_after, "After the warm-up the rate is constant"),
    (rate_by(model=0), "The factor d_model^(-0.5) is missing"),
    (rate_by(model=0.5), "Its exponent is negative"),
    (rate_by(model=-1), "The factor is 1 / d_model"),
    (rate_by(shift=1), "The step is shifted by one"),
    (from_zero, "The step is shifted by one"),
    (rate_by(right=-1), "the step is divided by warm_up_steps"),
    (share, "This is the rate relative to its peak"),
    (rate_by(right=-0.5), "The exponent of warm_up_steps is -0.5"),
    (left_side_alone, "multiplies the first value only"),
    (falling_in_a_line, "After the warm-up the rate decays as 1 / step"),
    (whole, "This is not the expected value of the learning rate"),
    (lambda *given: None, "None: is there a `return`?"),
    (lambda *given: 1 / 0, "Your code raises ZeroDivisionError"),
    (rate_by_share, "not accepted. Your code uses"),
]

# Part 3


def cut_by(key=max, reverse=False, length=max, fits=lambda needed, limit: needed <= limit):
    """Batches of which one rule is another."""

    def batches_of(sizes, limit):
        order = list(range(len(sizes)))
        if key:
            order.sort(key=lambda index: key(sizes[index]), reverse=reverse)
        batches = []
        for index in order:
            inside = [length(sizes[i]) for i in [*batches[-1], index]] if batches else []
            if not batches or not fits(len(inside) * max(inside), limit):
                batches.append([])
            batches[-1].append(index)
        return batches

    return batches_of


def newest_by(key=max, length=max):
    """Batches in which the pair at hand is taken for the longest one, whatever the order."""

    def batches_of(sizes, limit):
        order = list(range(len(sizes)))
        if key:
            order.sort(key=lambda index: key(sizes[index]))
        batches = []
        for index in order:
            if not batches or (len(batches[-1]) + 1) * length(sizes[index]) > limit:
                batches.append([])
            batches[-1].append(index)
        return batches

    return batches_of


def without_padding(sizes, limit):
    batches, held = [], 0
    for index in sorted(range(len(sizes)), key=lambda index: max(sizes[index])):
        if not batches or held + max(sizes[index]) > limit:
            batches.append([])
            held = 0
        batches[-1].append(index)
        held += max(sizes[index])
    return batches


def of_lengths(sizes, limit):
    return [[sizes[index] for index in batch] for batch in token_batches(sizes, limit)]


def without_last(sizes, limit):
    return token_batches(sizes, limit)[:-1]


def with_empty(sizes, limit):
    return [[], *token_batches(sizes, limit)]


def equal_numbers(sizes, limit):
    order = sorted(range(len(sizes)), key=lambda index: max(sizes[index]))
    number = limit // max(max(size) for size in sizes)
    return [order[i : i + number] for i in range(0, len(order), number)]


def forgetful(sizes, limit):
    batches = [[]]
    for index in sorted(range(len(sizes)), key=lambda index: max(sizes[index])):
        if (len(batches[-1]) + 1) * max(sizes[index]) <= limit:
            batches[-1].append(index)
        else:
            batches.append([])
    return batches


def sorting_the_input(sizes, limit):
    sizes.sort(key=max)
    return token_batches(sizes, limit)


def as_it_comes(sizes, limit):
    return [[index] for index in range(len(sizes))]


def one_batch(sizes, limit):
    return [sorted(range(len(sizes)), key=lambda index: max(sizes[index]))]


def share_by(sides=(0, 1), of=lambda padding, n: padding / n, width=None, total=True):
    """A share of padding of which one step is another."""

    def share_of(batches, sizes):
        counted = []
        for batch in batches:
            inside = [sizes[index] for index in batch]
            wide = [width(inside)] * 2 if width else [max(each) for each in zip(*inside)]  # noqa: B905
            positions = sum(len(inside) * wide[side] for side in sides)
            counted.append((positions - sum(s[i] for s in inside for i in sides), positions))
        if not total:
            return sum(p / n for p, n in counted) / len(counted)
        return of(sum(p for p, _ in counted), sum(n for _, n in counted))

    return share_of


def turned(sizes, limit):
    """The longest first, then turned round: equals come in the wrong order."""
    order = sorted(range(len(sizes)), key=lambda index: -max(sizes[index]))[::-1]
    batches = token_batches([sizes[index] for index in order], limit)
    return [[order[place] for place in batch] for batch in batches]


def mean_of_all_shares(batches, sizes):
    """A mean over the batches and their two sides."""
    shares = [share_by(sides=[side])([batch], sizes) for batch in batches for side in (0, 1)]
    return sum(shares) / len(shares)


def mean_by_pairs(batches, sizes):
    """A mean over the batches, weighted by their numbers of pairs."""
    shares = [len(batch) * padding_share([batch], sizes) for batch in batches]
    return sum(shares) / sum(map(len, batches))


def mean_of_sides(batches, sizes):
    return (share_by(sides=[0])(batches, sizes) + share_by(sides=[1])(batches, sizes)) / 2


def share_of_width(width):
    """A share of padding that takes both widths of a batch from one pair."""

    def share_of(batches, sizes):
        inside = [[sizes[index] for index in batch] for batch in batches]
        positions = sum(len(batch) * sum(width(batch)) for batch in inside)
        return 1 - sum(sum(map(sum, batch)) for batch in inside) / positions

    return share_of


def of_longest_of_all(batches, sizes):
    return padding_share([[index for batch in batches for index in batch]], sizes)


BATCHING = [
    ((cut_by(key=None), padding_share), "The pairs are not sorted"),
    ((cut_by(reverse=True), padding_share), "The longest pairs come first"),
    ((cut_by(key=lambda size: size[0]), padding_share), "sorted by the source length only"),
    ((cut_by(key=lambda size: size[1]), padding_share), "sorted by the target length only"),
    ((cut_by(key=sum), padding_share), "sorted by the sum of both lengths"),
    ((cut_by(key=lambda size: size), padding_share), "sorted by the source length first"),
    ((cut_by(fits=lambda needed, limit: needed < limit), padding_share),
     "A batch that reaches the limit exactly is refused"),
    ((without_padding, padding_share), "The tokens are counted without padding"),
    ((cut_by(length=sum), padding_share), "Both sides are added."),
    ((cut_by(length=lambda size: size[0]), padding_share), "Only the source length is counted"),
    ((cut_by(length=lambda size: size[1]), padding_share), "Only the target length is counted"),
    ((of_lengths, padding_share), "The lengths are returned"),
    ((cut_by(key=lambda size: (max(size), size)), padding_share), "Pairs of equal length are not"),
    ((turned, padding_share), "Pairs of equal length are not in their original"),
    ((without_last, padding_share), "The last batch is missing"),
    ((with_empty, padding_share), "The first batch is empty"),
    ((equal_numbers, padding_share), "All batches have the same number of pairs"),
    ((forgetful, padding_share), "A pair that does not fit is lost"),
    ((sorting_the_input, padding_share), "Your code changes its input sizes"),
    ((as_it_comes, padding_share), "Begin with the shortest pair"),
    ((one_batch, padding_share), "The batch [0, 2, 1] needs 15 positions; the limit is 6"),
    ((lambda *given: [[0, 0], [1]], padding_share), "Each index must be in exactly one batch"),
    ((lambda *given: 3, padding_share), "Expected the batches as a list, got an int"),
    ((token_batches, share_by(sides=[0])), "padding_share: Only the sources are counted"),
    ((token_batches, share_by(sides=[1])), "padding_share: Only the targets are counted"),
    ((token_batches, share_by(of=lambda p, n: 1 - p / n)), "This is the share of real tokens"),
    ((token_batches, share_by(of=lambda p, n: p / (n - p))),
     "The padding is divided by the number of real tokens"),
    ((token_batches, share_by(of=lambda p, n: p)), "This is the number of padding positions"),
    ((token_batches, share_by(of=lambda p, n: 100 * p / n)), "The result is in percent"),
    ((token_batches, share_by(total=False)), "This is a mean of the batches' shares"),
    ((token_batches, share_by(width=lambda inside: max(map(max, inside)))),
     "Both sides are padded to one length here"),
    ((token_batches, mean_of_sides), "This is the mean of the shares of the two sides"),
    ((token_batches, share_of_width(max)), "The width of a batch is taken from one of its pairs"),
    ((token_batches, share_of_width(lambda batch: batch[-1])), "taken from one of its pairs"),
    ((token_batches, of_longest_of_all), "All batches are padded to the longest pair of all"),
    ((token_batches, lambda *given: None), "None: is there a `return`?"),
    # as one would write them: the pair at hand is taken for the longest one
    ((newest_by(key=None), padding_share), "The pairs are not sorted"),
    ((newest_by(key=lambda size: size[0]), padding_share), "sorted by the source length only"),
    ((newest_by(key=lambda size: size[1]), padding_share), "sorted by the target length only"),
    ((newest_by(key=sum), padding_share), "sorted by the sum of both lengths"),
    ((newest_by(key=min), padding_share), "sorted by the length of the shorter side"),
    ((newest_by(key=lambda size: size), padding_share), "sorted by the source length first"),
    ((newest_by(lambda size: size[0], lambda size: size[0]), padding_share),
     "sorted and counted by the source length only"),
    ((newest_by(lambda size: size[1], lambda size: size[1]), padding_share),
     "sorted and counted by the target length only"),
    ((newest_by(sum, sum), padding_share), "sorted and counted by the sum of both lengths"),
    ((token_batches, mean_of_all_shares), "This is a mean of the batches' shares"),
    ((token_batches, mean_by_pairs), "This is a mean of the batches' shares"),
]  # fmt: skip

# Part 4


def changed(*changes):
    """The right step with some of its words replaced."""
    text = inspect.getsource(update)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    namespace = dict(globals())
    exec(text, namespace)
    return namespace["update"]


CLIP = "    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)\n"
BACKWARD = "        loss.backward()\n"
FORGET = "    optimizer.zero_grad()\n"
STEP = "    optimizer.step()\n"
SHARE = "share = int((labels != PAD_ID).sum()) / words"
RATE = '    for group in optimizer.param_groups:\n        group["lr"] = rate\n'


def clamping(parameters, most):
    for each in parameters:
        if each.grad is not None:
            each.grad.clamp_(-most, most)


def one_by_one(parameters, most):
    for each in parameters:
        nn.utils.clip_grad_norm_([each], most)


def to_exactly(parameters, most):
    gradients = [each.grad for each in parameters if each.grad is not None]
    length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(most / length)


def adding_in_place(states):
    total = states[0]
    for state in states[1:]:
        for name in total:
            total[name] += state[name]
    return {name: tensor / len(states) for name, tensor in total.items()}


def adding_in_a_shallow_copy(states):
    return adding_in_place([dict(state) for state in states])


def mixed(how):
    def mean(states):
        return {name: how(torch.stack([s[name] for s in states])) for name in states[0]}

    return mean


def halving(states):
    found = states[0]
    for state in states[1:]:
        found = {name: (found[name] + state[name]) / 2 for name in found}
    return found


def as_list(states):
    return list(mean_weights(states).values())


def one_name(states):
    name = next(iter(states[0]))
    return {name: mean_weights(states)[name]}


TRAINING = [
    ((changed(("    model.train()\n", "")), mean_weights), "Mode: the model is in evaluation"),
    ((changed(("    model.train()\n", "    model.eval()\n")), mean_weights), "Mode: the model"),
    ((changed(("model.decode(tgt[:, :-1]", "model.decode(tgt[:, 1:]")), mean_weights),
     "The target leaks"),
    ((changed(("model.decode(tgt[:, :-1]", "model.decode(tgt"), ("labels = tgt[:, 1:]",
       "labels = F.pad(tgt[:, 1:], (0, 1), value=PAD_ID)")), mean_weights),
     "The decoder reads <end>"),
    ((changed(("model.encode(src)",
       "model.encode(src, torch.ones_like(model.source_mask(src)))")), mean_weights),
     "Mask: the encoder or the decoder reads"),
    ((changed(("in parts:\n        logits", "in parts[:1]:\n        logits")), mean_weights),
     "decode is called 1 times in one training step; expected once for each of the 2"),
    ((changed(("    total = 0.0\n", "    total = 0.0\n    parts = parts * 2\n")), mean_weights),
     "decode is called 2 times in one training step; expected once"),
    ((changed(("labels = tgt[:, 1:]", "labels = tgt[:, :-1]")), mean_weights),
     "Loss: this is not the mean smoothed loss over all labels"),
    ((changed(("(tgt[:, 1:] != PAD_ID).sum()", "(tgt != PAD_ID).sum()")), mean_weights),
     "tgt[:, 1:] without PAD_ID"),
    ((changed(("    return total", "    return [total]")), mean_weights), "as a float, got a list"),
    ((changed((BACKWARD, f"{BACKWARD}        optimizer.step()\n    {FORGET}"),
              ("    optimizer.step()\n    return", "    return")), mean_weights),
     "optimizer.step() is called 2 times in one training step"),
    ((changed((SHARE, "share = 1 / len(parts)")), mean_weights), "the mean of the parts' means"),
    ((changed((SHARE, "share = len(src) / sum(len(each) for each, _ in parts)")), mean_weights),
     "Loss: the parts are weighted by their numbers of sentences"),
    ((changed((SHARE, "share = labels.numel() / sum(t[:, 1:].numel() for _, t in parts)")),
      mean_weights), "Loss: the parts are weighted by their numbers of positions"),
    ((changed((SHARE, "share = 1")), mean_weights), "the means of the parts are added."),
    ((changed((SHARE, "share = int((labels != PAD_ID).sum())")), mean_weights),
     "this is the sum over all labels"),
    ((changed(("total += loss.item()", "total = loss.item() / share")), mean_weights),
     "Loss: only the last part counts"),
    ((changed(("total += loss.item()", "total = loss.item()")), mean_weights),
     "Loss: only the last part counts, with its share"),
    ((changed(("total += loss.item()", "total = total or loss.item() / share")), mean_weights),
     "Loss: only the first part counts"),
    ((changed(("cross_entropy(logits, labels, PAD_ID, smoothing)",
       "cross_entropy(logits, labels, PAD_ID)")), mean_weights), "Loss: the loss is not smoothed"),
    ((changed(("cross_entropy(logits, labels, PAD_ID, smoothing)",
       "cross_entropy(logits, labels, -1, smoothing)"),
      ("(labels != PAD_ID).sum()", "labels.numel()"),
      ("(tgt[:, 1:] != PAD_ID).sum()", "tgt[:, 1:].numel()")), mean_weights),
     "Loss: padding is included like real tokens"),
    ((changed(("total += loss.item()", "total = total + loss")), mean_weights),
     "still holds the computation graph"),
    ((changed(("    return total", "    return None")), mean_weights),
     "Expected the loss as a float, got None"),
    ((changed((RATE, "")), mean_weights), "Rate: the parameters are not updated with `rate`"),
    ((changed((RATE, '    optimizer.param_groups[0]["lr"] = rate\n')), mean_weights),
     "Rate: only some parameters are updated"),
    ((changed((RATE, ""), ("    return total", f"{RATE}    return total")), mean_weights),
     "Rate: the parameters are not updated with `rate`"),
    ((changed((FORGET, "")), mean_weights), "gradients of the previous step or of other code"),
    ((changed((FORGET, ""), (STEP, f"{STEP}{FORGET}")), mean_weights),
     "gradients of the previous step or of other code"),
    ((changed((BACKWARD, f"    {FORGET}{BACKWARD}")), mean_weights),
     "Update: only the last part counts"),
    ((changed((CLIP, f"{CLIP}{FORGET}")), mean_weights), "the parameters do not change: there"),
    ((changed((CLIP, "")), mean_weights), "the gradients are not clipped when"),
    ((changed((BACKWARD, f"{BACKWARD}    {CLIP}"), (f"\n{CLIP}", "\n")), mean_weights),
     "the gradients are clipped after each part"),
    ((changed((BACKWARD, f"{BACKWARD}    {CLIP}"), (f"\n{CLIP}", "\n")), mean_weights),
     "gradient norm 0.05, as expected, but other entries"),
    ((changed((CLIP, "    clamping(model.parameters(), clip_norm)\n")), mean_weights),
     "each entry of the gradients is clipped separately"),
    ((changed((CLIP, "    one_by_one(model.parameters(), clip_norm)\n")), mean_weights),
     "each parameter is clipped separately"),
    ((changed((CLIP, "    to_exactly(model.parameters(), clip_norm)\n")), mean_weights),
     "gradients with a norm below clip_norm are enlarged"),
    ((changed((BACKWARD, f"{BACKWARD}        optimizer.step()\n")), mean_weights),
     "optimizer.step() is called 2 times"),
    ((changed(("    optimizer.step()\n", "")), mean_weights), "optimizer.step() is called 0 times"),
    ((changed((BACKWARD, "        (2 * loss).backward()\n")), mean_weights),
     "these are not the gradients of the mean loss"),
    ((update, mixed(lambda each: each.sum(0))), "mean_weights: This is the sum, not the mean"),
    ((update, lambda states: states[-1]), "mean_weights: These are the parameters of the last"),
    ((update, lambda states: states[0]), "mean_weights: These are the parameters of the first"),
    ((update, halving), "Each state is averaged with the mean so far"),
    ((update, mixed(torch.mean)), "One value is returned for a whole tensor"),
    ((update, mixed(lambda each: each.sum(0) / (len(each) - 1))), "The divisor is too small"),
    ((update, mixed(lambda each: each.sum(0) / 5)), "The sum is divided by 5"),
    ((update, mixed(lambda each: each[:2].mean(0))), "Only the first two states are averaged"),
    ((update, mixed(lambda each: each.median(0).values)), "This is the median, not the mean"),
    ((update, adding_in_place), "Your code changes its input states"),
    ((update, adding_in_a_shallow_copy), "clone the tensors in it"),
    ((update, as_list), "Expected a dict from names to tensors, got list"),
    ((update, one_name), "The names differ from those of the states"),
    ((update, mean_weights_of_the_package), "not accepted. Your code uses"),
]  # fmt: skip

# Part 5


def instead(changes):
    """The right diagnosis, except for some faults, which are given another name."""

    def diagnosis(log):
        found = diagnose(log)
        return changes.get(found, found)

    return diagnosis


def by_last_loss(log):
    """It takes a high training loss at the end for a learning rate that is too high."""
    return "learning rate too high" if log[-1]["train_loss"] > 0.2 else diagnose(log)


def by_gap(log):
    """It takes every gap between the two losses for overfitting."""
    gap = log[-1]["validation_loss"] > 1.3 * log[-1]["train_loss"]
    return "overfitting" if gap else diagnose(log)


def by_the_losses_at_the_end(log):
    """It takes a training loss that ends below the validation loss for padding in the loss."""
    found = diagnose(log)
    if found in ("none", "padding in the loss"):
        below = log[-1]["train_loss"] < log[-1]["validation_loss"]
        return "padding in the loss" if below else "none"
    return found


def by_words(log):
    """It looks at accuracy alone."""
    return "none" if log[-1]["accuracy"] > 0.9 else diagnose(log)


def by_the_middle(log):
    """It takes the middle of the runs that are shown, of which the healthy one is smoothed."""
    found = diagnose(log)
    if found == "none" and log[2]["train_loss"] < 1.223 * log[2]["validation_loss"]:
        return "padding in the loss"
    return found


DIAGNOSIS = [
    (instead({"no causal mask": "none"}),
     "returns 'none' for a run whose fault is 'no causal mask'"),
    (instead({"no target shift": "overfitting"}), "for a run whose fault is 'no target shift'"),
    (instead({"overfitting": "no target shift"}), "for a run whose fault is 'overfitting'"),
    (instead({"learning rate too high": "gradients not zeroed"}),
     "for a run whose fault is 'learning rate too high'"),
    (instead({"gradients not zeroed": "learning rate too high"}),
     "the gradient norm grows far above that of all other runs"),
    (instead({"padding in the loss": "none"}),
     "returns 'none' for a run whose fault is 'padding in the loss'"),
    (instead({"none": "padding in the loss"}),
     "returns 'padding in the loss' for a run whose fault is 'none'"),
    (by_the_middle, "returns 'padding in the loss' for a run whose fault is 'none'"),
    (by_the_losses_at_the_end, "Compare the two losses early"),
    (by_words, "returns 'none' for a run whose fault is 'no causal mask'"),
    (by_gap, "returns 'overfitting' for a run whose fault is 'no target shift'"),
    (by_last_loss, "returns 'learning rate too high' for a run whose fault is 'none'"),
    (lambda log: "no shift", "Expected one of 'none', 'no causal mask'"),
    (lambda log: None, "got None"),
    (lambda log: log["train_loss"], "Your code raises TypeError"),
]  # fmt: skip

# Part 6


def best_by(loss=None, perplexity=None):
    """Both numbers, one of them another."""

    def best(smoothing, vocab_size):
        found = at_best(smoothing, vocab_size)
        return (
            loss(smoothing, vocab_size) if loss else found[0],
            perplexity(smoothing, vocab_size) if perplexity else found[1],
        )

    return best


def right_of(s, k):
    return 1 - s + s / k


def spread_over_others(s, k):
    return -(1 - s) * math.log(1 - s) - s * math.log(s / (k - 1))


def steps_by(first=math.ceil, last=math.floor, more=1, root=0.5, least=0):
    def steps(rate, d_model, warm_up_steps):
        scaled = rate * d_model**root
        found = last(scaled**-2) - first(scaled * warm_up_steps**1.5) + more
        return max(found, least)

    return steps


def from_the_first(rate, d_model, warm_up_steps):
    return math.floor((rate * d_model**0.5) ** -2)


def in_warm_up(rate, d_model, warm_up_steps):
    return warm_up_steps - math.ceil(rate * d_model**0.5 * warm_up_steps**1.5) + 1


def after_warm_up(rate, d_model, warm_up_steps):
    return math.floor((rate * d_model**0.5) ** -2) - warm_up_steps


def as_fraction(rate, d_model, warm_up_steps):
    return max(0, (rate * d_model**0.5) ** -2 - rate * d_model**0.5 * warm_up_steps**1.5)


def dividing_by_zero(smoothing, vocab_size):
    other = smoothing / vocab_size
    right = 1 - smoothing + other
    return -right * math.log(right) - (vocab_size - 1) * other * math.log(other), 1 / right


PREDICTION = [
    ((best_by(loss=lambda s, k: 0.0), steps_at), "The loss cannot fall to 0"),
    ((best_by(loss=lambda s, k: -math.log(right_of(s, k))), steps_at),
     "Only the correct token is counted"),
    ((best_by(loss=lambda s, k: -right_of(s, k) * math.log(right_of(s, k))), steps_at),
     "Only the correct token is counted"),
    ((best_by(loss=spread_over_others), steps_at),
     "The correct token has the probability 1 - smoothing"),
    ((best_by(loss=lambda s, k: math.log(k)), steps_at), "all tokens are equally probable"),
    ((best_by(loss=lambda s, k: at_best(s, k)[0] + (k - 2) * s / k * math.log(s / k)), steps_at),
     "Only one other token is counted"),
    ((best_by(loss=lambda s, k: at_best(s, k)[0] - s / k * math.log(s / k)), steps_at),
     "vocab_size other tokens are counted"),
    ((best_by(loss=lambda s, k: at_best(s, k)[0] / math.log(2)), steps_at), "has base 2"),
    ((best_by(loss=lambda s, k: -at_best(s, k)[0]), steps_at), "The sign of the loss is wrong"),
    ((lambda s, k: at_best(s, k)[::-1], steps_at), "The two results are exchanged"),
    ((best_by(loss=lambda s, k: -math.log(1 - s)), steps_at), "Only the correct token is counted"),
    ((best_by(perplexity=lambda s, k: math.exp(at_best(s, k)[0])), steps_at),
     "This is e to the smoothed loss"),
    ((best_by(perplexity=lambda s, k: 1.0), steps_at), "A perplexity of 1 requires"),
    ((best_by(perplexity=lambda s, k: 1 / (1 - s)), steps_at),
     "The correct token receives a share of the smoothing too"),
    ((best_by(perplexity=right_of), steps_at), "This is the probability of the correct token"),
    ((best_by(perplexity=lambda s, k: -math.log(right_of(s, k))), steps_at),
     "This is the negative log-probability of the correct"),
    ((dividing_by_zero, steps_at), "Your code raises ValueError"),
    ((lambda s, k: at_best(s, k)[0], steps_at), "Expected a pair"),
    ((at_best, from_the_first), "All steps of the warm-up are counted"),
    ((at_best, in_warm_up), "Only steps of the warm-up are counted"),
    ((at_best, after_warm_up), "Only the steps after the warm-up are counted"),
    ((at_best, steps_by(more=0)), "This is one step too few"),
    ((at_best, steps_by(first=math.floor)), "This is one step too many"),
    ((at_best, steps_by(last=math.ceil)), "This is one step too many"),
    ((at_best, lambda *given: round(as_fraction(*given))), "The length of the interval is rounded"),
    ((at_best, lambda *given: int(as_fraction(*given))), "The length of the interval is rounded"),
    ((at_best, steps_by(root=0)), "d_model is ignored"),
    ((at_best, steps_by(root=1)), "d_model is used without its square root"),
    ((at_best, steps_by(least=-(10**9))), "The learning rate never reaches"),
    ((at_best, as_fraction), "Expected the number of steps as an int, got a float"),
]  # fmt: skip

WRONG = {
    "smoothing": SMOOTHING,
    "schedule": SCHEDULE,
    "batching": BATCHING,
    "training": TRAINING,
    "diagnosis": DIAGNOSIS,
    "prediction": PREDICTION,
}


HANDED_IN = {
    "every_part_alike": (
        {"training": source(update, mean_weights, share=(SHARE, "share = 1 / len(parts)"))},
        ["training-check"],
        "the mean of the parts' means is taken",
    ),
    "spread_over_the_others": (
        {
            "smoothing": source(
                smoothed_targets, smoothed_loss,
                rest=("+ smoothing / vocab_size", "+ (1 - one_hot) * smoothing / (vocab_size - 1)"),
            )
        },
        ["smoothing-check"],
        "The smoothing is spread over the other tokens only",
    ),
    "no_trust_in_early_losses": (
        {"diagnosis": source(diagnose, early=('return "padding in the loss"', 'return "none"'))},
        ["diagnosis-check"],
        "the training loss is well below",
    ),
}  # fmt: skip
