"""Answers to the parts of training the Transformer, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from attentively.checkpoints import mean_weights as mean_weights_of_the_package
from attentively.checks.edits import edited_source, source_of
from attentively.checks.recordings import load_questions
from attentively.losses import cross_entropy
from attentively.schedules import inverse_square_root, paper_learning_rate
from attentively.vocabulary import PAD_ID

questions = load_questions(Path(__file__).with_name("questions.py"))
token_batches = questions.token_batches

# Part 1


def targets_by_scatter(targets, vocab_size, smoothing):
    distributions = torch.full((*targets.shape, vocab_size), smoothing / vocab_size)
    correct = 1 - smoothing + smoothing / vocab_size
    return distributions.scatter(-1, targets.unsqueeze(-1), correct)


def targets_by_comparing(targets, vocab_size, smoothing):
    rest = smoothing / vocab_size
    return torch.where(torch.arange(vocab_size) == targets[..., None], 1 - smoothing + rest, rest)


def targets_by_loops(targets, vocab_size, smoothing):
    rows = []
    for token in targets.flatten().tolist():
        row = [smoothing / vocab_size] * vocab_size
        row[token] += 1 - smoothing
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64).reshape(*targets.shape, vocab_size)


def loss_by_logsumexp(logits, targets, pad_id, smoothing):
    log_p = logits - logits.logsumexp(dim=-1, keepdim=True)
    distributions = targets_by_comparing(targets, logits.shape[-1], smoothing)
    real = targets.ne(pad_id)
    return -torch.einsum("btk,btk,bt->", distributions, log_p, real.float()) / real.sum()


def loss_by_loops(logits, targets, pad_id, smoothing):
    losses = []
    for sentence, tokens in zip(logits.log_softmax(-1), targets.tolist(), strict=True):
        for log_p, token in zip(sentence, tokens, strict=True):
            if token != pad_id:
                losses.append(-(1 - smoothing) * log_p[token] - smoothing * log_p.mean())
    return sum(losses) / len(losses)


def loss_by_mask(logits, targets, pad_id, smoothing):
    real = (targets != pad_id).double()
    distributions = targets_by_loops(targets, logits.size(-1), smoothing)
    return (
        -(distributions * logits.double().log_softmax(-1) * real.unsqueeze(-1)).sum() / real.sum()
    )


def targets_in_place(targets, vocab_size, smoothing):
    targets += 0 * targets + 1
    return questions.smoothed_targets(targets - 1, vocab_size, smoothing)


def loss_of_pytorch(logits, targets, pad_id, smoothing):
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, label_smoothing=smoothing
    )


# Part 2


def rate_in_two_phases(step, d_model, warm_up_steps):
    peak = torch.tensor(float(d_model * warm_up_steps)).rsqrt()
    if step <= warm_up_steps:
        return peak * step / warm_up_steps
    return peak * math.sqrt(warm_up_steps / step)


def rate_of_the_package(step, d_model, warm_up_steps):
    share = inverse_square_root(step - 1, 10**9, warm_up_steps)
    return paper_learning_rate(d_model, warm_up_steps) * share


# Part 3


def batches_by_pairs(sizes, limit):
    """The current batch is stored when the next pair would not fit."""
    found, now = [], []
    for length, index in sorted((max(size), index) for index, size in enumerate(sizes)):
        if now and length * (len(now) + 1) > limit:
            found.append(tuple(now))
            now = []
        now = [*now, index]
    return (*found, tuple(now))


def batches_in_tuples(sizes, limit):
    return tuple(map(tuple, token_batches(sizes, limit)))


def batches_of_arrays(sizes, limit):
    longest = np.array(sizes).max(axis=1)
    order = np.argsort(longest, kind="stable")
    cuts, first = [], 0
    for place, index in enumerate(order):
        if (place - first + 1) * longest[index] > limit:
            cuts.append(place)
            first = place
    return np.split(order, cuts)


def share_of_real_tokens(batches, sizes):
    sides = [[[sizes[i][side] for i in batch] for side in (0, 1)] for batch in batches]
    lengths = [side for batch in sides for side in batch]
    return 1 - sum(map(sum, sizes)) / sum(len(each) * max(each) for each in lengths)


def share_of_tensors(batches, sizes):
    padding = positions = torch.tensor(0)
    for batch in batches:
        inside = torch.tensor([sizes[index] for index in batch])
        wide = inside.max(dim=0).values.expand_as(inside)
        positions = positions + wide.sum()
        padding = padding + (wide - inside).sum()
    return padding / positions


def sorting_the_input(sizes, limit):
    sizes.sort(key=max)
    return token_batches(sizes, limit)


# Part 4


def update_from_the_last(model, optimizer, parts, rate, clip_norm, smoothing):
    """The last part first: a sum does not depend on the order."""
    return questions.update(model, optimizer, parts[::-1], rate, clip_norm, smoothing)


def update_by_sums(model, optimizer, parts, rate, clip_norm, smoothing):
    """It forgets the gradients after the step too, and clips what the optimizer holds."""
    optimizer.zero_grad()
    model.train()
    number = sum((tgt[:, 1:] != PAD_ID).sum() for _, tgt in parts)
    losses = []
    for src, tgt in parts:
        flat = model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten()
        options = {"ignore_index": PAD_ID, "reduction": "sum", "label_smoothing": smoothing}
        losses.append(F.cross_entropy(*flat, **options) / number)
        losses[-1].backward()
    for group in optimizer.param_groups:
        group["lr"] = rate
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    torch.nn.utils.clip_grad_norm_(held, clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    model.eval()
    return sum(losses).detach()


def update_by_hand(model, optimizer, parts, rate, clip_norm, smoothing):
    """Loss, accumulation and clipping by hand; the sums are divided by the labels at the end."""
    optimizer.zero_grad(set_to_none=False)
    model.train()
    parameters = [*model.parameters()]
    loss, number = torch.zeros(()), 0
    for src, tgt in parts:
        logits = model.decode(tgt[:, :-1], model.encode(src)).logits
        real = tgt[:, 1:] != PAD_ID
        distributions = targets_by_scatter(tgt[:, 1:], logits.size(-1), smoothing)
        of_part = -(distributions * logits.log_softmax(-1)).sum(-1)[real].sum()
        found = torch.autograd.grad(of_part, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                parameter.grad += gradient
        loss, number = loss + of_part.detach(), number + real.sum()
    gradients = [each.grad.div_(number) for each in parameters]
    length = torch.sqrt(sum(gradient.square().sum() for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(min(1.0, clip_norm / float(length)))
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return loss / number


def mean_in_place(states):
    found = {name: value.clone() for name, value in states[0].items()}
    for state in states[1:]:
        for name in found:
            found[name] += state[name]
    for name in found:
        found[name] /= len(states)
    return found


def mean_by_stack(states):
    names = reversed(states[-1])
    return {name: torch.stack([s[name] for s in states]).double().mean(0) for name in names}


def adding_in_place(states):
    total = states[0]
    for state in states[1:]:
        for name in total:
            total[name] += state[name]
    return {name: tensor / len(states) for name, tensor in total.items()}


def adding_in_a_shallow_copy(states):
    return adding_in_place([dict(state) for state in states])


# Part 5


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


def best_by_tensors(smoothing, vocab_size):
    distribution = torch.full((vocab_size,), smoothing / vocab_size, dtype=torch.float64)
    distribution[0] += 1 - smoothing
    return torch.stack([torch.special.entr(distribution).sum(), 1 / distribution[0]])


def steps_by_counting(rate, d_model, warm_up_steps):
    def high_enough(step):
        return questions.learning_rate(step, d_model, warm_up_steps) >= rate

    number, step = sum(map(high_enough, range(1, warm_up_steps))), warm_up_steps
    while high_enough(step):
        number, step = number + 1, step + 1
    return number


RIGHT = {
    "smoothed_targets": [targets_by_scatter, targets_by_comparing, targets_by_loops],
    "smoothed_loss": [loss_by_logsumexp, loss_by_loops, loss_by_mask],
    "learning_rate": [rate_in_two_phases],
    "token_batches": [batches_by_pairs, batches_in_tuples, batches_of_arrays],
    "padding_share": [share_of_real_tokens, share_of_tensors],
    "update": [update_from_the_last, update_by_sums, update_by_hand],
    "mean_weights": [mean_in_place, mean_by_stack],
    "diagnose": [diagnose_by_columns],
    "at_best": [best_by_tensors],
    "steps_at": [steps_by_counting],
}

MEAN = "losses[real].mean()"
BACKWARD = "loss.backward()"
STEP = "optimizer.step()"
RATE = '    for group in optimizer.param_groups:\n        group["lr"] = rate\n'
AT_ONCE = (f"        {BACKWARD}\n -> ", "total += loss.item() -> total += loss")
INPUTS = "model.decode(tgt[:, :-1],"

RECORDS = "early, last = log[2], log[-1]"


def at_first(condition, fault):
    """Return an edit that diagnoses a fault on a condition before all others."""
    return f'{RECORDS} -> {RECORDS}\n    if {condition}:\n        return "{fault}"'


WRONG = {
    "smoothed_targets": {
        "The shape of the distributions is (6, 5), expected (2, 3, 5)": (
            "return distributions -> return distributions.flatten(0, -2)"
        ),
        "Your code changes its input targets": targets_in_place,
    },
    "smoothed_loss": {
        "Expected the loss as a torch.Tensor, got a float": f"{MEAN} -> {MEAN}.item()",
        "the gradient of logits is not: a part": (
            "logits.log_softmax(dim=-1) -> logits - logits.logsumexp(-1, keepdim=True).detach()"
        ),
        "The shape of the loss is (1, 1), expected ()": f"{MEAN} -> losses",
        "adding a small constant gives a wrong loss": [
            "logits.log_softmax(dim=-1) -> (logits.softmax(dim=-1) + 1e-12).log()",
            "logits.log_softmax(dim=-1) -> logits.softmax(dim=-1).clamp(min=1e-8).log()",
        ],
        "not accepted. Your code uses": [loss_of_pytorch, cross_entropy],
    },
    "learning_rate": {
        "This is not the expected value of the learning rate": [
            "return scale * min(falling, rising) -> return round(scale * min(falling, rising), 4)",
            "return scale * min(falling, rising) -> return scale * min(falling, rising) + 1e-6",
        ],
        "Your code raises ZeroDivisionError": "scale = -> step -= 1\n    scale =",
        "not accepted. Your code uses": rate_of_the_package,
    },
    "token_batches": {
        "Your code changes its input sizes": sorting_the_input,
        "Begin with the shortest pair": lambda sizes, limit: [[i] for i in range(len(sizes))],
        "The batch [0, 2, 1] needs 15 positions; the limit is 6": "> limit -> > limit + 100",
        "Each index must be in exactly one batch": lambda sizes, limit: [[0, 0], [1]],
        "Expected the batches as a list, got an int": lambda sizes, limit: 3,
    },
    "update": {
        "Mode: the model is in evaluation": [
            "    model.train()\n -> ",
            "model.train() -> model.eval()",
        ],
        "The target leaks": f"{INPUTS} -> model.decode(tgt[:, 1:],",
        "The decoder reads <end>": (
            f"{INPUTS} -> model.decode(tgt,",
            "labels = tgt[:, 1:] -> labels = F.pad(tgt[:, 1:], (0, 1), value=PAD_ID)",
        ),
        "Mask: the encoder or the decoder reads": (
            "model.encode(src) -> model.encode(src, torch.ones_like(model.source_mask(src)))"
        ),
        "decode is called 1 times in one training step; expected once for each of the 2": (
            "zip(parts, counts, strict=True) -> zip(parts[:1], counts)"
        ),
        "decode is called 2 times in one training step; expected once": (
            "total = 0.0 -> total = 0.0\n    parts, counts = parts * 2, counts * 2"
        ),
        "Memory: the computation graph of an earlier part is still stored": [
            (*AT_ONCE, "nn.utils -> total.backward()\n    total = total.item()\n    nn.utils"),
            "loss.backward() -> loss.backward(retain_graph=True)",
        ],
        "Loss: this is not the mean smoothed loss over all labels, tgt[:, 1:] without PAD_ID": (
            "labels = tgt[:, 1:] -> labels = tgt[:, :-1]"
        ),
        "as a float, got a list": "return total -> return [total]",
        "Expected the loss as a float, got None": "return total -> return None",
        "still holds the computation graph": "total += loss.item() -> total = total + loss",
        "optimizer.step() is called 2 times": [
            f"{BACKWARD} -> {BACKWARD}\n        {STEP}",
            (f"    {STEP}\n -> ", f"{BACKWARD} -> {BACKWARD}\n        optimizer.step()"),
        ],
        "optimizer.step() is called 0 times": f"    {STEP}\n -> ",
        "Rate: the parameters are not updated with `rate`": [
            f"{RATE} -> ",
            (f"{RATE} -> ", f"    return total -> {RATE}    return total"),
        ],
        "Rate: only some parameters are updated": (
            f'{RATE} ->     optimizer.param_groups[0]["lr"] = rate\n'
        ),
        "these are not the gradients of the mean loss": [
            f"{BACKWARD} -> (2 * loss).backward()",
            f"{BACKWARD} -> (-loss).backward()",
        ],
    },
    "mean_weights": {
        "Your code changes its input states": adding_in_place,
        "clone the tensors in it": adding_in_a_shallow_copy,
        "Expected a dict from names to tensors, got list": (
            lambda states: [*questions.mean_weights(states).values()]
        ),
        "The values of scale of the mean are not": (
            lambda states: {n: (states[0][n] + states[-1][n]) / 2 for n in states[0]}
        ),
        "The names differ from those of the states": lambda states: {},
        "not accepted. Your code uses": mean_weights_of_the_package,
    },
    "diagnose": {
        "returns 'none' for a run whose fault is 'no causal mask'": [
            'return "no causal mask" -> return "none"',
            at_first('last["accuracy"] > 0.9', "none"),
        ],
        "for a run whose fault is 'no target shift'": (
            'return "no target shift" -> return "overfitting"'
        ),
        "for a run whose fault is 'overfitting'": 'else "overfitting" -> else "no target shift"',
        "for a run whose fault is 'learning rate too high'": (
            '"learning rate too high" if -> "gradients not zeroed" if'
        ),
        "the gradient norm grows far above that of all other runs": (
            'return "gradients not zeroed" -> return "learning rate too high"'
        ),
        "returns 'none' for a run whose fault is 'padding in the loss'": (
            'return "padding in the loss" -> return "none"'
        ),
        "returns 'padding in the loss' for a run whose fault is 'none'": [
            'return "none" -> return "padding in the loss"',
            # the middle of the runs that are shown, of which the healthy one is smoothed
            '0.95 * early["validation_loss"] -> 1.223 * early["validation_loss"]',
        ],
        "Compare the two losses early": (
            'early["train_loss"] < 0.95 * early["validation_loss"] -> '
            'last["train_loss"] < last["validation_loss"]'
        ),
        "returns 'overfitting' for a run whose fault is 'no target shift'": (
            at_first('last["validation_loss"] > 1.3 * last["train_loss"]', "overfitting")
        ),
        "returns 'learning rate too high' for a run whose fault is 'none'": (
            at_first('last["train_loss"] > 0.2', "learning rate too high")
        ),
        "Expected one of 'none', 'no causal mask'": lambda log: "no shift",
        "got None": lambda log: None,
        "Your code raises TypeError": lambda log: log["train_loss"],
    },
    "at_best": {
        "Your code raises ValueError": "math.log(other) if smoothing else 0.0 -> math.log(other)",
        "`return the lowest loss, the perplexity`": "return loss, perplexity -> return loss",
    },
    "steps_at": {
        # leaves out step 1; stops at the first step whose learning rate is too low
        "not the expected value of the number of steps": [
            "math.ceil(scaled * warm_up_steps**1.5) -> "
            "max(2, math.ceil(scaled * warm_up_steps**1.5))",
            "max(0, last - first + 1) -> (last if first == 1 else 0)",
        ],
        "Expected the number of steps as an int, got a float": (
            "math.ceil(scaled * warm_up_steps**1.5) -> scaled * warm_up_steps**1.5"
        ),
    },
}

HANDED_IN = {
    "every_part_alike": (
        {
            "training": edited_source(
                questions.update, "count / sum(counts) * mean -> mean / len(parts)"
            )
            + "\n\n"
            + source_of(questions.mean_weights)
        },
        ["training-check"],
        "the mean of the parts' means is taken",
    ),
}
