"""Right answers to 16_training_the_transformer, written in different ways."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from attentively.losses import cross_entropy
from attentively.vocabulary import PAD_ID

# Part 1


def smoothed_targets(targets, vocab_size, smoothing):
    one_hot = F.one_hot(targets, vocab_size).float()
    return (1 - smoothing) * one_hot + smoothing / vocab_size


def smoothed_loss(logits, targets, pad_id, smoothing):
    taught = smoothed_targets(targets, logits.size(-1), smoothing)
    losses = -(taught * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[targets != pad_id].mean()


def targets_by_scatter(targets, vocab_size, smoothing):
    taught = torch.full((*targets.shape, vocab_size), smoothing / vocab_size)
    right = 1 - smoothing + smoothing / vocab_size
    return taught.scatter(-1, targets.unsqueeze(-1), right)


def targets_by_comparing(targets, vocab_size, smoothing):
    rest = smoothing / vocab_size
    return torch.where(torch.arange(vocab_size) == targets[..., None], 1 - smoothing + rest, rest)


def loss_by_logsumexp(logits, targets, pad_id, smoothing):
    log_p = logits - logits.logsumexp(dim=-1, keepdim=True)
    taught = targets_by_comparing(targets, logits.shape[-1], smoothing)
    real = targets.ne(pad_id)
    return -torch.einsum("btk,btk,bt->", taught, log_p, real.float()) / real.sum()


def targets_by_loops(targets, vocab_size, smoothing):
    rows = []
    for word in targets.flatten().tolist():
        row = [smoothing / vocab_size] * vocab_size
        row[word] += 1 - smoothing
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64).reshape(*targets.shape, vocab_size)


def loss_by_loops(logits, targets, pad_id, smoothing):
    losses = []
    for sentence, words in zip(logits.log_softmax(-1), targets.tolist(), strict=True):
        for log_p, word in zip(sentence, words, strict=True):
            if word != pad_id:
                losses.append(-(1 - smoothing) * log_p[word] - smoothing * log_p.mean())
    return sum(losses) / len(losses)


def loss_by_mask(logits, targets, pad_id, smoothing):
    real = (targets != pad_id).double()
    taught = targets_by_loops(targets, logits.size(-1), smoothing)
    return -(taught * logits.double().log_softmax(-1) * real.unsqueeze(-1)).sum() / real.sum()


# Part 2


def learning_rate(step, d_model, warm_up_steps):
    return d_model**-0.5 * min(step**-0.5, step * warm_up_steps**-1.5)


def rate_in_two_phases(step, d_model, warm_up_steps):
    peak = torch.tensor(float(d_model * warm_up_steps)).rsqrt()
    if step <= warm_up_steps:
        return peak * step / warm_up_steps
    return peak * math.sqrt(warm_up_steps / step)


# Part 3


def token_batches(sizes, limit):
    batches = []
    for index in sorted(range(len(sizes)), key=lambda index: max(sizes[index])):
        if not batches or (len(batches[-1]) + 1) * max(sizes[index]) > limit:
            batches.append([])
        batches[-1].append(index)
    return batches


def padding_share(batches, sizes):
    positions = real = 0
    for batch in batches:
        for side in (0, 1):
            lengths = [sizes[index][side] for index in batch]
            positions += len(lengths) * max(lengths)
            real += sum(lengths)
    return 1 - real / positions


def batches_by_pairs(sizes, limit):
    """The current batch is handed over when the next sentence would not fit."""
    found, now = [], []
    for length, index in sorted((max(size), index) for index, size in enumerate(sizes)):
        if now and length * (len(now) + 1) > limit:
            found.append(tuple(now))
            now = []
        now = [*now, index]
    return (*found, tuple(now))


def batches_one_by_one(sizes, limit):
    yield from token_batches(sizes, limit)


def batches_of_arrays(sizes, limit):
    longest = np.array(sizes).max(axis=1)
    order = np.argsort(longest, kind="stable")
    cuts, first = [], 0
    for place, index in enumerate(order):
        if (place - first + 1) * longest[index] > limit:
            cuts.append(place)
            first = place
    return np.split(order, cuts)


def share_of_tensors(batches, sizes):
    padding = positions = torch.tensor(0)
    for batch in batches:
        inside = torch.tensor([sizes[index] for index in batch])
        wide = inside.max(dim=0).values.expand_as(inside)
        positions = positions + wide.sum()
        padding = padding + (wide - inside).sum()
    return padding / positions


# Part 4


def update(model, optimizer, parts, rate, clip_norm, smoothing):
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = rate
    words = sum(int((tgt[:, 1:] != PAD_ID).sum()) for _, tgt in parts)
    optimizer.zero_grad()
    total = 0.0
    for src, tgt in parts:
        logits = model.decode(tgt[:, :-1], model.encode(src)).logits
        labels = tgt[:, 1:]
        share = int((labels != PAD_ID).sum()) / words
        loss = share * cross_entropy(logits, labels, PAD_ID, smoothing)
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return total


def update_from_the_last(model, optimizer, parts, rate, clip_norm, smoothing):
    """The last part first: a sum does not depend on the order."""
    return update(model, optimizer, parts[::-1], rate, clip_norm, smoothing)


def mean_weights(states):
    return {name: sum(state[name] for state in states) / len(states) for name in states[0]}


def update_at_once(model, optimizer, parts, rate, clip_norm, smoothing):
    """One backward for all parts, and the clipping by hand."""
    optimizer.zero_grad(set_to_none=False)
    model.train()
    losses, words = [], 0
    for src, tgt in parts:
        scores = model.decode(tgt[:, :-1], model.encode(src)).logits
        real = tgt[:, 1:] != PAD_ID
        taught = smoothed_targets(tgt[:, 1:], scores.size(-1), smoothing)
        losses.append(-(taught * scores.log_softmax(-1)).sum(-1)[real].sum())
        words += real.sum()
    loss = torch.stack(losses).sum() / words
    loss.backward()
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    length = torch.sqrt(sum(gradient.square().sum() for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(min(1.0, clip_norm / float(length)))
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def update_by_sums(model, optimizer, parts, rate, clip_norm, smoothing):
    """It forgets the gradients after the step too, and clips what the optimizer holds."""
    optimizer.zero_grad()
    model.train()
    counts = [(tgt[:, 1:] != PAD_ID).sum() for _, tgt in parts]
    losses = []
    for src, tgt in parts:
        logits = model(src, tgt[:, :-1])
        flat = logits.flatten(0, 1), tgt[:, 1:].flatten()
        losses.append(
            F.cross_entropy(*flat, None, ignore_index=PAD_ID, reduction="sum",
                            label_smoothing=smoothing) / sum(counts)
        )  # fmt: skip
        losses[-1].backward()
    for group in optimizer.param_groups:
        group["lr"] = rate
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    nn.utils.clip_grad_norm_(held, clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    model.eval()
    return sum(losses).detach()


def mean_in_place(states):
    found = {name: value.clone() for name, value in states[0].items()}
    for state in states[1:]:
        for name in found:
            found[name] += state[name]
    for name in found:
        found[name] /= len(states)
    return found


def mean_by_stack(states):
    return {name: torch.stack([s[name] for s in states]).double().mean(0) for name in states[-1]}


# Part 5


def diagnose(log):
    first, last = log[2], log[-1]
    if last["gradient_norm"] > 10:
        return "gradients not zeroed"
    if last["accuracy"] > 0.85 and last["exact"] < 0.1:
        return "no causal mask"
    if last["accuracy"] < 0.1:
        return "no target shift"
    if last["accuracy"] < 0.5:
        stuck = last["train_loss"] > 0.5 * last["validation_loss"]
        return "learning rate too high" if stuck else "overfitting"
    if first["train_loss"] < 0.95 * first["validation_loss"]:
        return "padding in the loss"
    return "none"


def diagnose_by_columns(log):
    """Look at whole columns, and first whether the model has learned anything."""
    train, held_out, accuracy, exact, norms = (
        [row[name] for row in log]
        for name in ("train_loss", "validation_loss", "accuracy", "exact", "gradient_norm")
    )
    if max(accuracy) > 0.6:
        if max(exact) < 0.1:
            return "no causal mask"
        rows = zip(train, held_out, accuracy, strict=True)
        early = [t / v for t, v, a in rows if 0.35 < a < 0.85]
        return "padding in the loss" if sum(early) / len(early) < 0.97 else "none"
    if norms[-1] > 3 * norms[0]:
        return "gradients not zeroed"
    if train[-1] > 2:
        return "learning rate too high"
    return "no target shift" if accuracy[-1] < 0.05 else "overfitting"


# Part 6


def at_best(smoothing, vocab_size):
    other = smoothing / vocab_size
    right = 1 - smoothing + other
    loss = -right * math.log(right)
    if smoothing > 0:
        loss -= (vocab_size - 1) * other * math.log(other)
    return loss, 1 / right


def steps_at(rate, d_model, warm_up_steps):
    scaled = rate * d_model**0.5
    if scaled > warm_up_steps**-0.5:
        return 0
    return math.floor(scaled**-2) - math.ceil(scaled * warm_up_steps**1.5) + 1


def best_by_tensors(smoothing, vocab_size):
    taught = torch.full((vocab_size,), smoothing / vocab_size, dtype=torch.float64)
    taught[0] += 1 - smoothing
    loss = torch.special.entr(taught).sum()
    return [loss, torch.exp(-taught[0].log())]


def steps_by_counting(rate, d_model, warm_up_steps):
    number = sum(learning_rate(n, d_model, warm_up_steps) >= rate for n in range(1, warm_up_steps))
    step = warm_up_steps
    while learning_rate(step, d_model, warm_up_steps) >= rate:
        number, step = number + 1, step + 1
    return number


RIGHT = {
    "smoothing": [
        (smoothed_targets, smoothed_loss),
        (targets_by_comparing, loss_by_logsumexp),
        (targets_by_loops, loss_by_loops),
        (targets_by_scatter, loss_by_mask),
    ],
    "schedule": [learning_rate, rate_in_two_phases],
    "batching": [
        (token_batches, padding_share),
        (batches_by_pairs, share_of_tensors),
        (batches_of_arrays, padding_share),
        (batches_one_by_one, padding_share),
    ],
    "training": [
        (update, mean_weights),
        (update_at_once, mean_by_stack),
        (update_by_sums, mean_in_place),
        (update_from_the_last, mean_weights),
    ],
    "diagnosis": [diagnose, diagnose_by_columns],
    "prediction": [(at_best, steps_at), (best_by_tensors, steps_by_counting)],
}
