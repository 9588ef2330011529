"""Training the Transformer as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. The mode,
the inputs, the learning rate and the memory of a training step in part 4, and part 5, are examined
by code in `attentively.checks.training_the_transformer`.
"""

import functools  # noqa: F401  for the edits
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attentively.checks import training_the_transformer as checks
from attentively.checks.edits import Answer, Edits, edited
from attentively.checks.question import Case, Question, cases_of
from attentively.data.batches import Example, collate
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

# Part 1


def smoothed_targets(targets, vocab_size, smoothing):
    one_hot = F.one_hot(targets, vocab_size).float()
    rest = torch.full_like(one_hot, smoothing / vocab_size)
    distributions = (1 - smoothing) * one_hot + rest
    return distributions


def target_cases(thorough: bool) -> Iterator[Case]:
    asked = [(torch.tensor([2]), 4, 0.2), (torch.tensor([[4, 1, 0], [3, 3, 2]]), 5, 0.1)]
    asked += [(torch.tensor([[1]]), 3, 0.0)]
    if thorough:
        asked += [(torch.randint(11, (3, 7)), 11, 0.3), (torch.randint(5, (2, 2, 2)), 7, 0.05)]
        asked += [(torch.tensor(3), 5, 0.2)]
    return cases_of(("targets", "vocab_size", "smoothing"), asked)


KEPT = "(1 - smoothing) * one_hot"
NOT_SMOOTHED = f"{KEPT} + rest -> one_hot"
REST = "smoothing / vocab_size)"
NOT_PAD = "(torch.arange(vocab_size) != PAD_ID)"
# Mistakes in the distribution, which both functions have in common
DISTRIBUTIONS: dict[str, Edits | list[Edits]] = {
    "The smoothing is spread over the other tokens only. Spread it over the whole vocabulary, "
    "including the correct token.": f"{REST} -> smoothing / (vocab_size - 1)) * (1 - one_hot)",
    "The probabilities do not sum to 1: the correct token receives no share of the smoothing.": (
        f"{REST} -> {REST} * (1 - one_hot)"
    ),
    "The probabilities do not sum to 1: the correct token keeps 1. It keeps 1 - smoothing, and "
    "receives its share of the smoothing.": f"{KEPT} -> one_hot",
    "Every token receives the whole smoothing. Divide it: smoothing / vocab_size for each token.": [
        f"{REST} -> smoothing)",
        f"{REST} -> smoothing) * (1 - one_hot)",
    ],
    "smoothing and 1 - smoothing are exchanged.": (
        f"{KEPT} -> smoothing * one_hot",
        f"{REST} -> (1 - smoothing) / vocab_size)",
    ),
    "The smoothing is divided by vocab_size - 1, but all vocab_size tokens receive a share.": (
        f"{REST} -> smoothing / (vocab_size - 1))"
    ),
    "The probabilities do not sum to 1: the smoothing that the correct token loses is given to no "
    "token.": f"{KEPT} + rest -> {KEPT}",
    "The padding token receives no share of the smoothing, as in some implementations. Here it is "
    "an ordinary token: spread the smoothing over the whole vocabulary.": [
        f"{REST} -> smoothing / (vocab_size - 2)) * (1 - one_hot) * {NOT_PAD}",
        f"{REST} -> smoothing / (vocab_size - 1)) * {NOT_PAD}",
        f"{REST} -> {REST} * {NOT_PAD}",
    ],
}

TARGETS = Question(
    smoothed_targets,
    {"the distributions": "Return a distribution for each target: a last axis of size vocab_size."},
    target_cases,
    {
        **DISTRIBUTIONS,
        "Nothing is smoothed: the correct token has the probability 1.": NOT_SMOOTHED,
        "The distribution at padding is 0. Padding is an ordinary token here; smoothed_loss "
        "excludes it.": (
            "return distributions -> return distributions * (targets != PAD_ID).unsqueeze(-1)"
        ),
    },
    named=True,
    either_precision=True,
)


def smoothed_loss(logits, targets, pad_id, smoothing):
    vocab_size = logits.size(-1)
    one_hot = F.one_hot(targets, vocab_size).float()
    rest = torch.full_like(one_hot, smoothing / vocab_size)
    distributions = (1 - smoothing) * one_hot + rest
    log_p = logits.log_softmax(dim=-1)
    losses = -(distributions * log_p).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


FAR = (
    "For logits that are far apart, softmax returns 0, whose logarithm is -inf; adding a small "
    "constant gives a wrong loss. log_softmax computes both at once."
)


def loss_cases(thorough: bool) -> Iterator[Case]:
    by_hand = torch.tensor([[[1 / 8, 1 / 2, 1 / 4, 1 / 8]]]).log()
    names = ("logits", "targets", "pad_id", "smoothing")
    asked: list[tuple[Any, ...]] = [
        (by_hand, torch.tensor([[1]]), 3, 0.2),
        (2 * torch.randn(2, 3, 5), torch.tensor([[4, 1, 2], [3, 0, 0]]), 0, 0.1),
        (2 * torch.randn(2, 3, 5), torch.tensor([[4, 2, 2], [0, 1, 2]]), 2, 0.4),
        (2 * torch.randn(1, 2, 5), torch.tensor([[4, 1]]), 0, 0.0),
    ]
    yield from cases_of(names, asked)
    far = (400 * torch.randn(1, 2, 5), torch.tensor([[4, 1]]), 0, 0.1)
    yield Case(dict(zip(names, far, strict=True)), general=FAR)
    last = (torch.randn(2, 3, 5).requires_grad_(), torch.tensor([[3, 1, 4], [2, 0, 0]]), 0, 0.1)
    yield Case(dict(zip(names, last, strict=True)))
    if thorough:
        targets = torch.randint(1, 5, (3, 7)) * (torch.arange(7) < torch.tensor([[7], [2], [4]]))
        yield from cases_of(names, [(torch.randn(3, 7, 5), targets, 0, 0.2)])


LOG_P = "logits.log_softmax(dim=-1)"
MEAN = "losses[real].mean()"
LOSS = Question(
    smoothed_loss,
    {"the loss": ""},
    loss_cases,
    {
        "Padding is included in the mean. Exclude the positions whose target is pad_id.": (
            f"{MEAN} -> losses.mean()"
        ),
        "Padding is excluded from the sum, but included in the divisor. Divide by the number of "
        "targets that are not padding.": f"{MEAN} -> losses[real].sum() / real.numel()",
        "This is a sum, so its gradient would grow with the batch. Return the mean.": (
            f"{MEAN} -> losses[real].sum()"
        ),
        "This is the mean of the sentences' means. Take one mean over all targets of the batch.": (
            f"{MEAN} -> ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()"
        ),
        "The sum is divided by the number of sentences. Divide by the number of targets that are "
        "not padding.": f"{MEAN} -> losses[real].sum() / len(real)",
        f"Padding is recognised by the id {PAD_ID}. Use the id that is given: pad_id.": (
            "!= pad_id -> != PAD_ID"
        ),
        "The sign is missing: the loss is *minus* the sum, and positive.": (
            "-(distributions -> (distributions"
        ),
        "The logarithm is missing: the loss contains the logarithms of the probabilities.": (
            f"{LOG_P} -> logits.softmax(dim=-1)"
        ),
        "The softmax is missing: these are logits, not log-probabilities.": f"{LOG_P} -> logits",
        "The softmax is taken over the positions. Take it over the vocabulary: dim=-1.": [
            f"{LOG_P} -> logits.log_softmax(dim=1)",
            f"{LOG_P} -> logits.log_softmax(dim=0)",
        ],
        "The logarithm has base 2, so the loss is in bits. Use the natural logarithm.": (
            f"{LOG_P} -> {LOG_P} / math.log(2)"
        ),
        "The softmax is applied twice.": f"{LOG_P} -> logits.softmax(dim=-1).log_softmax(dim=-1)",
        "The predicted distribution is smoothed. Smooth the target distribution instead.": (
            NOT_SMOOTHED,
            f"{LOG_P} -> ((1 - smoothing) * logits.softmax(dim=-1) + smoothing / logits.size(-1))"
            ".log()",
        ),
        "The mean is taken over the vocabulary too. Sum over the vocabulary, then take the mean "
        "over the targets.": ".sum(dim=-1) -> .mean(dim=-1)",
        "Nothing is smoothed: this is the cross-entropy without label smoothing.": NOT_SMOOTHED,
        **DISTRIBUTIONS,
        "This is F.kl_div, the Kullback-Leibler divergence, which subtracts a constant from the "
        "cross-entropy. Return the cross-entropy.": (
            "-(distributions * log_p) -> "
            "(torch.xlogy(distributions, distributions) - distributions * log_p)"
        ),
        FAR: [
            f"{LOG_P} -> logits.softmax(dim=-1).log()",
            f"{LOG_P} -> (logits.softmax(dim=-1) + 1e-9).log()",
            f"{LOG_P} -> logits - logits.exp().sum(dim=-1, keepdim=True).log()",
            f"{LOG_P} -> logits - logits.max() - "
            "(logits - logits.max()).exp().sum(dim=-1, keepdim=True).log()",
            f"{LOG_P} -> (logits.exp() / logits.exp().sum(dim=-1, keepdim=True)).log()",
        ],
    },
    named=True,
    either_precision=True,
)


# Part 2


def learning_rate(step, d_model, warm_up_steps):
    scale = d_model**-0.5
    falling = step**-0.5
    rising = step * warm_up_steps**-1.5
    return scale * min(falling, rising)


def rate_cases(thorough: bool) -> Iterator[Case]:
    asked = [(step, 4, 4) for step in (1, 4, 16)]
    asked += [(step, 512, 4000) for step in (1, 100, 3999, 4000, 4001, 100_000)]
    if thorough:
        asked += [(step, 7, w) for w in (1, 11, 300) for step in (1, 5, 11, 299, 1000)]
    return cases_of(("step", "d_model", "warm_up_steps"), asked, by_ratio=True)


RATE = "scale * min(falling, rising)"

SCHEDULE = Question(
    learning_rate,
    {"the learning rate": ""},
    rate_cases,
    {
        "The larger of the two values is taken. The rate rises and then decays: take the smaller "
        "one.": "min( -> max(",
        "The rate only rises. After the warm-up, step^(-0.5) is the smaller value.": (
            f"{RATE} -> scale * rising"
        ),
        "There is no warm-up. During it, step * warm_up_steps^(-1.5) is the smaller value.": (
            f"{RATE} -> scale * falling"
        ),
        "After the warm-up the rate is constant. It must decay with step^(-0.5).": (
            "falling = step -> falling = warm_up_steps"
        ),
        "The factor d_model^(-0.5) is missing.": f"{RATE} -> min(falling, rising)",
        "The factor is the square root of d_model. Its exponent is negative: d_model^(-0.5).": (
            "d_model**-0.5 -> d_model**0.5"
        ),
        "The factor is 1 / d_model. The exponent is -0.5: d_model^(-0.5).": (
            "d_model**-0.5 -> 1 / d_model"
        ),
        "The step is shifted by one. Steps are counted from 1: use `step` as it is.": [
            "scale = -> step += 1\n    scale =",
            "scale = -> step -= 1\n    if step == 0:\n        return 0.0\n    scale =",
        ],
        "The factor d_model^(-0.5) multiplies the first value only. It multiplies the minimum.": (
            f"{RATE} -> min(scale * falling, rising)"
        ),
        "After the warm-up the rate decays as 1 / step. It decays as 1 / sqrt(step).": [
            "step**-0.5 -> warm_up_steps**0.5 / step",
            f"{RATE} -> scale * (rising if step < warm_up_steps else 1 / step)",
        ],
        "During the warm-up, the step is divided by warm_up_steps. The exponent is -1.5, so that "
        "the two values are equal at the end of the warm-up.": "**-1.5 -> **-1",
        "This is the rate relative to its peak. Multiply it by the peak, the rate at the last step "
        "of the warm-up.": f"{RATE} -> min(falling, rising) * warm_up_steps**0.5",
        "The exponent of warm_up_steps is -0.5. It must be -1.5, so that the two values are equal "
        "at the end of the warm-up.": "**-1.5 -> **-0.5",
    },
    in_all_cases=True,
)


# Part 3

Sizes = list[tuple[int, int]]


def token_batches(sizes, limit):
    lengths = [max(size) for size in sizes]
    order = sorted(range(len(sizes)), key=lambda i: max(sizes[i]))
    batches = [[]]
    for index in order:
        batch = [*batches[-1], index]
        longest = max(lengths[i] for i in batch)
        if batches[-1] and len(batch) * longest > limit:
            batches.append([])
        batches[-1].append(index)
    return batches


def random_sizes(number: int, longest: int, seed: int) -> Sizes:
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(1, longest + 1, (number, 2), generator=generator).tolist()
    return [(src, tgt) for src, tgt in pairs]


def batch_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[Sizes, int]] = [
        ([(2, 3), (5, 4), (3, 2)], 6),
        ([(3, 3), (3, 3), (3, 3)], 6),
        ([(2, 7), (6, 3), (4, 4), (1, 2), (5, 5), (2, 2)], 14),
        (random_sizes(13, 9, seed=3), 20),
        ([(9, 9), (1, 1)], 9),
        ([(1, 4), (1, 4), (4, 1), (4, 1)], 4),
    ]
    if thorough:
        asked += [(random_sizes(101, 30, seed=limit), limit) for limit in (30, 97, 10_000)]
        asked += [([(4, 1)], 4)]
    return cases_of(("sizes", "limit"), asked)


KEY = "key=lambda i: max(sizes[i])"
# Students take the pair at hand for the longest one of the batch, also where it is not.
NEWEST = "max(lengths[i] for i in batch) -> lengths[index]"


def either_rule(*edits: str) -> list[Edits]:
    return [edits, (*edits, NEWEST)]


def sorted_by(key: str) -> list[Edits]:
    return either_rule(f"{KEY} -> key=lambda i: {key}")


def counted_by(length: str) -> list[Edits]:
    return either_rule(f"max(size) for size -> {length} for size")


def sorted_and_counted_by(length: str) -> str:
    return f"{KEY} -> key=lambda i: lengths[i]", f"max(size) for size -> {length} for size"


OF_LONGER_SIDE = "The length of a pair is that of its longer side."

BATCHES = Question(
    token_batches,
    {"the batches": ""},
    batch_cases,
    {
        "The pairs are not sorted, so short sentences are padded to the length of long ones.": (
            sorted_by("0")
        ),
        "The longest pairs come first. Begin with the shortest.": [
            *either_rule(f"{KEY} -> {KEY}, reverse=True"),
            *either_rule("in order: -> in order[::-1]:"),
        ],
        f"The pairs are sorted by the source length only. {OF_LONGER_SIDE}": (
            sorted_by("sizes[i][0]")
        ),
        f"The pairs are sorted by the target length only. {OF_LONGER_SIDE}": (
            sorted_by("sizes[i][1]")
        ),
        f"The pairs are sorted by the sum of both lengths. {OF_LONGER_SIDE}": (
            sorted_by("sum(sizes[i])")
        ),
        f"The pairs are sorted by the length of the shorter side. {OF_LONGER_SIDE}": (
            sorted_by("min(sizes[i])")
        ),
        "The pairs are sorted by the source length first, then by the target length. "
        f"{OF_LONGER_SIDE} Pairs of equal length keep their order.": sorted_by("sizes[i]"),
        "A batch that reaches the limit exactly is refused. `limit` positions are allowed.": (
            "> limit -> >= limit"
        ),
        "The tokens are counted without padding. A batch needs its number of pairs times its "
        "longest pair.": "len(batch) * longest -> sum(lengths[i] for i in batch)",
        "Both sides are added. The limit applies to the longer side.": counted_by("sum(size)"),
        "Only the source length is counted. The longer side of a pair counts.": (
            counted_by("size[0]")
        ),
        "Only the target length is counted. The longer side of a pair counts.": (
            counted_by("size[1]")
        ),
        f"The pairs are sorted and counted by the source length only. {OF_LONGER_SIDE}": (
            sorted_and_counted_by("size[0]")
        ),
        f"The pairs are sorted and counted by the target length only. {OF_LONGER_SIDE}": (
            sorted_and_counted_by("size[1]")
        ),
        f"The pairs are sorted and counted by the sum of both lengths. {OF_LONGER_SIDE}": (
            sorted_and_counted_by("sum(size)")
        ),
        "The lengths are returned. A batch is a list of indices into sizes.": (
            "return batches -> return [[sizes[i] for i in batch] for batch in batches]"
        ),
        "The last batch is missing. The remaining pairs form a batch too.": (
            "return batches -> return batches[:-1]"
        ),
        "Pairs of equal length are not in their original order. Keep the order in which they "
        "came.": [
            f"{KEY} -> key=lambda i: (max(sizes[i]), sizes[i])",
            f"{KEY} -> key=lambda i: (max(sizes[i]), sizes[i][0])",
            "sorted(range(len(sizes)), -> sorted(range(len(sizes))[::-1],",
        ],
        "The first batch is empty.": "return batches -> return [[], *batches]",
        "All batches have the same number of pairs. Short pairs need less room.": (
            "len(batch) * longest -> len(batch) * max(lengths)"
        ),
        "A pair that does not fit is lost. It begins the next batch.": (
            "batches.append([]) -> batches.append([])\n            continue"
        ),
    },
    named=True,
    in_all_cases=True,
)


def padding_share(batches, sizes):
    padding = positions = 0
    for batch in batches:
        for side in (0, 1):
            lengths = [sizes[i][side] for i in batch]
            width = max(lengths)
            positions += len(lengths) * width
            padding += sum(width - length for length in lengths)
    share = padding / positions
    return share


def share_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[list[list[int]], Sizes]] = [
        ([[0, 2], [1]], [(2, 3), (5, 4), (3, 2)]),
        ([[0, 1, 2], [3]], [(2, 7), (6, 3), (4, 4), (1, 2)]),
        ([[2, 0], [3, 1]], [(1, 9), (8, 2), (3, 3), (2, 6)]),
    ]
    if thorough:
        sizes = random_sizes(40, 17, seed=7)
        fixed = [[*range(first, min(first + 3, 40))] for first in range(0, 40, 3)]
        asked += [(token_batches(sizes, 60), sizes), (fixed, sizes), ([[0], [1]], sizes[:2])]
    return cases_of(("batches", "sizes"), asked)


def mean_of_batches(share: Answer, weight: Answer = lambda batch: 1) -> Answer:
    def mean(batches, sizes):
        shares = [weight(batch) * share([batch], sizes) for batch in batches]
        return sum(shares) / sum(map(weight, batches))

    return mean


def mean_of_sides(batches, sizes):
    return (sources_only(batches, sizes) + targets_only(batches, sizes)) / 2


SIDES = "in (0, 1):"
WIDTH = "max(lengths)"
SHARE = "padding / positions"
sources_only, targets_only = (
    edited(padding_share, f"{SIDES} -> in {side}:") for side in ("(0,)", "(1,)")
)

PADDING = Question(
    padding_share,
    {"the share": ""},
    share_cases,
    {
        "Only the sources are counted. The targets are padded too.": sources_only,
        "Only the targets are counted. The sources are padded too.": targets_only,
        "This is the share of real tokens. The share of padding is 1 minus it.": (
            f"{SHARE} -> 1 - {SHARE}"
        ),
        "The padding is divided by the number of real tokens. Divide it by that of all "
        "positions.": f"{SHARE} -> padding / (positions - padding)",
        "This is the number of padding positions. Divide it by the number of all positions.": (
            f"{SHARE} -> padding"
        ),
        "The result is in percent. Return a share, from 0 to 1.": f"{SHARE} -> 100 * {SHARE}",
        "This is a mean of the batches' shares. Add up padding and positions over all batches, "
        "then divide once.": [
            mean_of_batches(padding_share),
            mean_of_batches(padding_share, len),
            mean_of_batches(mean_of_sides),
        ],
        "This is the mean of the shares of the two sides. Add up the padding and the positions of "
        "both sides, then divide once.": mean_of_sides,
        "Both sides are padded to one length here. Sources and targets are two tensors, each as "
        "wide as its own longest row.": f"{WIDTH} -> max(max(sizes[i]) for i in batch)",
        "The width of a batch is taken from one of its pairs. The longest source and the longest "
        "target can belong to different pairs.": [
            f"{WIDTH} -> lengths[-1]",
            f"{WIDTH} -> max(sizes[i] for i in batch)[side]",
            f"{WIDTH} -> max((sizes[i] for i in batch), key=sum)[side]",
            f"{WIDTH} -> max((sizes[i] for i in batch), key=max)[side]",
        ],
        "All batches are padded to the longest pair of all. A batch is only as wide as its own "
        "longest row.": f"{WIDTH} -> max(sizes[i][side] for each in batches for i in each)",
    },
    named=True,
    in_all_cases=True,
)


# Part 4


def update(model, optimizer, parts, rate, clip_norm, smoothing):
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = rate
    counts = [int((tgt[:, 1:] != PAD_ID).sum()) for _, tgt in parts]
    optimizer.zero_grad()
    total = 0.0
    for (src, tgt), count in zip(parts, counts, strict=True):
        logits = model.decode(tgt[:, :-1], model.encode(src)).logits
        labels = tgt[:, 1:]
        mean = smoothed_loss(logits, labels, PAD_ID, smoothing)
        loss = count / sum(counts) * mean
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return total


def part_of(*lengths: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return random sentences with these numbers of words on each side, plus special tokens."""

    def row(length: int) -> list[int]:
        return torch.randint(4, checks.VOCAB_SIZE, (length,)).tolist()

    pairs = [Example([*row(s), END_ID], [START_ID, *row(t), END_ID]) for s, t in lengths]
    batch = collate(pairs)
    return batch.src, batch.tgt


def update_cases(thorough: bool) -> Iterator[Case]:
    names = ("parts", "rate", "clip_norm", "smoothing")
    two = [part_of((2, 5)), part_of((3, 1), (1, 2), (2, 2))]
    three = [part_of((5, 2)), part_of((2, 5), (1, 1)), part_of((7, 3))]
    asked: list[tuple[Any, ...]] = [([part_of((2, 3), (3, 1))], 0.25, 100.0, 0.1)]
    asked += [(two, 0.25, 0.05, 0.2)]
    if thorough:
        asked += [([part_of((1, 1))], 0.5, 0.01, 0.4)]
    yield from cases_of(names, asked)
    several = [(two, 0.02, 100.0, 0.1, 2), *[(three, 0.125, 0.3, 0.0, 2)] * thorough]
    yield from cases_of((*names, "calls of update"), several)


COUNT = "int((tgt[:, 1:] != PAD_ID).sum())"
WEIGHT = "count / sum(counts) * mean"
BACKWARD = "loss.backward()"
TOTAL = "total += loss.item()"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)"
ZERO_GRAD = "optimizer.zero_grad()"
PADDING_COUNTED = "labels, PAD_ID, smoothing -> labels, -1, smoothing"

WEIGHTS = {
    "the mean of the parts' means is taken, so a part with few labels counts as much as one with "
    "many. Weight each part by its share of all labels.": "1 / len(parts)",
    "the parts are weighted by their numbers of sentences. Weight each part by its share of all "
    "labels that are not padding.": "len(src) / sum(len(each) for each, _ in parts)",
    "the parts are weighted by their numbers of positions, padding included. Weight each part by "
    "its share of all labels that are not padding.": (
        "labels.numel() / sum(each[:, 1:].numel() for _, each in parts)"
    ),
    "the parts are weighted by their numbers of target tokens, <start> included. Weight each part "
    "by its share of all labels.": (
        "(tgt != PAD_ID).sum() / sum((each != PAD_ID).sum() for _, each in parts)"
    ),
    "the means of the parts are added. Weight each part by its share of all labels.": "1",
    "this is the sum over all labels, not their mean.": "count",
}
"""Weights of the mean loss of a part, by what to say of them."""


def each_clipped(parameters, most):
    for parameter in parameters:
        nn.utils.clip_grad_norm_([parameter], most)


def to_exactly(parameters, most):
    gradients = [each.grad for each in parameters if each.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    for gradient in gradients:
        gradient.mul_(most / norm)


UPDATE = Question(
    update,
    {"the loss": "", "the gradients": ""},
    update_cases,
    {
        **{f"Loss: {said}": f"{WEIGHT} -> {weight} * mean" for said, weight in WEIGHTS.items()},
        "Loss: only the last part counts. Is the loss reset, or zero_grad called, for every "
        "part?": (f"{TOTAL} -> total = mean.item()"),
        "Loss: only the last part counts, with its share. Is the loss reset, or zero_grad called, "
        "for every part?": f"{TOTAL} -> total = loss.item()",
        "Loss: only the first part counts.": f"{TOTAL} -> total = total or mean.item()",
        "Loss: padding is included like real tokens.": [
            (PADDING_COUNTED, f"{COUNT} -> tgt[:, 1:].numel()"),
            PADDING_COUNTED,
            (PADDING_COUNTED, f"{WEIGHT} -> mean / len(parts)"),
        ],
        "Loss: the loss is not smoothed. Pass `smoothing` as the last argument of the loss.": (
            "PAD_ID, smoothing) -> PAD_ID, 0.0)"
        ),
        **{
            f"Update: {said}": f"{BACKWARD} -> ({weight} * mean).backward()"
            for said, weight in WEIGHTS.items()
        },
        "Update: only the last part counts, with its share. Is the loss reset, or zero_grad "
        "called, for every part?": f"{BACKWARD} -> {ZERO_GRAD}\n        {BACKWARD}",
        "Update: the gradients are clipped after each part. Accumulate the gradients of all parts "
        "first, then clip them once.": (
            f"{CLIP} -> pass",
            f"{BACKWARD} -> {BACKWARD}\n        {CLIP}",
        ),
        "Update: gradients of the previous step or of other code are still stored, and backward "
        "adds the new ones to them. Call optimizer.zero_grad() before backward.": [
            f"{ZERO_GRAD} -> pass",
            (f"{ZERO_GRAD} -> pass", f"return total -> {ZERO_GRAD}\n    return total"),
        ],
        "Update: the parameters do not change: there are no gradients when optimizer.step() is "
        "called. Is zero_grad called between backward and step?": (
            f"optimizer.step() -> {ZERO_GRAD}\n    optimizer.step()"
        ),
        "Update: the gradients are not clipped when the parameters are updated. Clip them after "
        "backward and before optimizer.step().": f"{CLIP} -> pass",
        "Update: gradients with a norm below clip_norm are enlarged. Clipping must not change "
        "them.": f"{CLIP} -> to_exactly(model.parameters(), clip_norm)",
        "Update: the gradient of each parameter is clipped separately, which changes the direction "
        "of the update. Call clip_grad_norm_ once, with all parameters.": (
            f"{CLIP} -> each_clipped(model.parameters(), clip_norm)"
        ),
        "Update: each entry of the gradients is clipped separately, which changes the direction of "
        "the update. Rescale all gradients by one factor: clip_grad_norm_.": (
            f"{CLIP} -> nn.utils.clip_grad_value_(model.parameters(), clip_norm)"
        ),
    },
    runner=checks.stepped,
    tidy=checks.results_of,
)


def mean_weights(states):
    stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    return {name: each.mean(dim=0) for name, each in stacked.items()}


def mean_cases(thorough: bool) -> Iterator[Case]:
    paper = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 8.0]), torch.tensor([5.0, 2.0])]
    yield Case({"states": [{"scale": each} for each in paper]})
    names: dict[str, tuple[int, ...]] = {
        "output.weight": (3, 2),
        "layers.0.bias": (5,),
        "scale": (),
    }

    def random(number: int) -> Case:
        states = [{n: torch.randn(s) for n, s in names.items()} for _ in range(number)]
        return Case({"states": states})

    yield random(4)
    # The names of the second state are in another order.
    gain, bias, other_bias, other_gain = torch.randn(4, 5)
    yield Case({"states": [{"gain": gain, "bias": bias}, {"bias": other_bias, "gain": other_gain}]})
    yield from [random(number) for number in (1, 7) * thorough]


OF_ALL = "each.mean(dim=0)"
STATES = "in states]"

MEAN_WEIGHTS = Question(
    mean_weights,
    {"the mean": ""},
    mean_cases,
    {
        "This is the sum, not the mean.": f"{OF_ALL} -> each.sum(dim=0)",
        "These are the parameters of the last state only.": f"{STATES} -> in states[-1:]]",
        "These are the parameters of the first state only.": f"{STATES} -> in states[:1]]",
        "Each state is averaged with the mean so far, so the last one counts most. Add all states, "
        "then divide by their number.": (
            f"{OF_ALL} -> functools.reduce(lambda mean, tensor: (mean + tensor) / 2, each)"
        ),
        "One value is returned for a whole tensor. Average the states entry by entry: dim=0 of the "
        "stack.": f"{OF_ALL} -> each.mean()",
        "The divisor is too small by one.": f"{OF_ALL} -> each.sum(dim=0) / (len(each) - 1)",
        "The sum is divided by 5. Divide it by the number of states.": (
            f"{OF_ALL} -> each.sum(dim=0) / 5"
        ),
        "Only the first two states are averaged.": f"{STATES} -> in states[:2]]",
        "This is the median, not the mean.": f"{OF_ALL} -> each.median(dim=0).values",
        "The tensors are paired by their order in the states. Pair them by their names.": (
            "state[name] for -> [*state.values()][[*states[0]].index(name)] for"
        ),
    },
    named=True,
    either_precision=True,
    in_all_cases=True,
)


# Part 5


def diagnose(log):
    early, last = log[2], log[-1]
    if last["gradient_norm"] > 10:
        return "gradients not zeroed"
    if last["accuracy"] > 0.85 and last["exact"] < 0.1:
        return "no causal mask"
    if last["accuracy"] < 0.1:
        return "no target shift"
    if last["accuracy"] < 0.5:
        stuck = last["train_loss"] > 0.5 * last["validation_loss"]
        return "learning rate too high" if stuck else "overfitting"
    if early["train_loss"] < 0.95 * early["validation_loss"]:
        return "padding in the loss"
    return "none"


# Part 6


def at_best(smoothing, vocab_size):
    other = smoothing / vocab_size
    correct = 1 - smoothing + other
    others = (vocab_size - 1) * other * math.log(other) if smoothing else 0.0
    loss = -correct * math.log(correct) - others
    perplexity = 1 / correct
    return loss, perplexity


def best_cases(thorough: bool) -> Iterator[Case]:
    asked = [(0.5, 2), (0.1, 5000), (0.1, 37000), (0.0, 7)]
    asked += [(0.9, 11), (0.3, 3), (0.01, 10**6)] if thorough else []
    return cases_of(("smoothing", "vocab_size"), asked)


LOWEST = "-correct * math.log(correct) - others"
PERPLEXITY = "1 / correct"

AT_BEST = Question(
    at_best,
    {"the lowest loss": "", "the perplexity": ""},
    best_cases,
    {
        "The loss cannot fall to 0. With the probability 1 for the correct token, the other tokens "
        "have 0, and each of them has a positive target probability.": f"{LOWEST} -> 0.0",
        "Only the correct token is counted. Each other token has the target probability smoothing "
        "/ vocab_size and contributes to the loss too.": [
            f"{LOWEST} -> -math.log(correct)",
            f"{LOWEST} -> -correct * math.log(correct)",
            f"{LOWEST} -> -math.log(1 - smoothing)",
        ],
        "The correct token has the probability 1 - smoothing here, and the others share the rest. "
        "The smoothing is spread over all tokens, including the correct one.": (
            "correct = 1 - smoothing + other -> correct = 1 - smoothing + other\n"
            "    other, kept = smoothing / (vocab_size - 1), 1 - smoothing",
            f"{LOWEST} -> -kept * math.log(kept) - others",
        ),
        "This is the loss of a model for which all tokens are equally probable. The best model "
        "predicts the target distribution.": f"{LOWEST} -> math.log(vocab_size)",
        "Only one other token is counted. There are vocab_size - 1 of them.": (
            "(vocab_size - 1) * other -> other"
        ),
        "vocab_size other tokens are counted. There are vocab_size - 1 of them.": (
            "(vocab_size - 1) * other -> vocab_size * other"
        ),
        "The logarithm has base 2, so the loss is in bits. Return nats.": (
            "return loss -> return loss / math.log(2)"
        ),
        "The sign of the loss is wrong.": "return loss -> return -loss",
        "The two results are exchanged.": "return loss, perplexity -> return perplexity, loss",
        "This is e to the smoothed loss. The perplexity is measured without smoothing: it depends "
        "on the probability of the correct token only.": f"{PERPLEXITY} -> math.exp(loss)",
        "A perplexity of 1 requires the probability 1 for the correct token, and this model "
        "predicts less.": f"{PERPLEXITY} -> 1.0",
        "The correct token receives a share of the smoothing too: 1 - smoothing + smoothing / "
        "vocab_size.": f"{PERPLEXITY} -> 1 / (1 - smoothing)",
        "This is the probability of the correct token. The perplexity is its inverse.": (
            f"{PERPLEXITY} -> correct"
        ),
        "This is the negative log-probability of the correct token. The perplexity is e to this "
        "value.": f"{PERPLEXITY} -> -math.log(correct)",
    },
    named=True,
    in_all_cases=True,
)


def steps_at(rate, d_model, warm_up_steps):
    scaled = rate * d_model**0.5
    first = math.ceil(scaled * warm_up_steps**1.5)
    last = math.floor(scaled**-2)
    return max(0, last - first + 1)


def step_cases(thorough: bool) -> Iterator[Case]:
    """None of these rates is that of a step itself, but for rounding."""
    asked = [(0.2, 4, 4), (0.3, 4, 4), (5e-4, 512, 4000), (2e-4, 512, 4000), (7.1e-4, 512, 4000)]
    asked += [(0.011, 7, 300), (0.11, 2, 3)]  # the last one from step 1 on
    if thorough:
        asked += [(2e-3, 128, 1000), (2e-4, 1024, 8000), (0.4, 1, 3), (1.0, 2, 5)]
        asked += [(1e-4, 512, 4000)]  # long after the hundred thousandth step
    return cases_of(("rate", "d_model", "warm_up_steps"), asked)


NUMBER = "max(0, last - first + 1)"
FIRST, LAST = "math.ceil(", "math.floor("


def numbers(*counts: str) -> list[Edits]:
    """Return mistakes in the number, which may be negative or not."""
    return [f"{NUMBER} -> {each}" for count in counts for each in (count, f"max(0, {count})")]


STEPS_AT = Question(
    steps_at,
    {"the number of steps": ""},
    step_cases,
    {
        "All steps of the warm-up are counted. The first ones have a lower learning rate.": (
            f"{NUMBER} -> last"
        ),
        "Only steps of the warm-up are counted. After the warm-up, the learning rate decays and is "
        "still high enough for some steps.": (
            numbers("warm_up_steps - first + 1", "warm_up_steps - first")
        ),
        "Only the steps after the warm-up are counted. The last steps of the warm-up have a "
        "sufficient learning rate too.": numbers(
            "last - warm_up_steps", "last - warm_up_steps + 1"
        ),
        "This is one step too few: from step 3 to step 5 there are three steps.": (
            numbers("last - first")
        ),
        "This is one step too many. A step with a lower learning rate does not count: round up "
        "where the rate rises and down where it falls.": [
            f"{FIRST} -> math.floor(",
            f"{LAST} -> math.ceil(",
            *numbers("last - first + 2"),
        ],
        "The length of the interval is rounded. Round each of its ends: up where the rate rises, "
        "down where it falls.": [
            f"{NUMBER} -> max(0, {how}(scaled**-2 - scaled * warm_up_steps**1.5))"
            for how in ("round", "int")
        ],
        "d_model is ignored. It multiplies every learning rate by d_model^(-0.5).": (
            "d_model**0.5 -> 1.0"
        ),
        "d_model is used without its square root.": "d_model**0.5 -> d_model",
        "The learning rate never reaches `rate`, so there are 0 such steps.": (
            f"{NUMBER} -> last - first + 1"
        ),
    },
    named=True,
    in_all_cases=True,
)


PARTS = {
    "smoothing": [TARGETS, LOSS],
    "schedule": [SCHEDULE],
    "batching": [BATCHES, PADDING],
    "training": [UPDATE, MEAN_WEIGHTS],
    "diagnosis": [Question(diagnose)],
    "prediction": [AT_BEST, STEPS_AT],
}
"""The questions of each check, in the order of its arguments."""
