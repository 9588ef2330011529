"""Answers to the parts of faster training, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attentively import blockwise
from attentively.scaled_dot_product import scaled_dot_product_attention

# Part 1


def one_pass_in_numbers(chunks):
    largest, total, weighted = -math.inf, 0.0, 0.0
    for scores, values in chunks:
        new = max(largest, scores.max().item())
        if new == -math.inf:
            weighted = weighted + torch.zeros(values.shape[1])
            continue
        shrink = math.exp(largest - new)
        powers = torch.exp(scores - new)
        total = shrink * total + powers.sum()
        weighted = shrink * weighted + powers @ values
        largest = new
    return weighted / total if total > 0 else weighted


def one_pass_in_tensors(chunks):
    """From the lowest finite number; hidden scores are powers of 0."""
    lowest = torch.finfo(torch.float32).min
    largest, total, weighted = torch.tensor(lowest), torch.tensor(0.0), None
    for scores, values in chunks:
        new = torch.maximum(largest, scores.amax())
        powers = torch.where(scores.isinf(), 0.0, (scores - new).exp())
        shrink = (largest - new).exp()
        total = total * shrink + powers.sum()
        added = (powers.unsqueeze(1) * values).sum(dim=0)
        weighted = added if weighted is None else weighted * shrink + added
        largest = new
    return weighted / total.clamp(min=1e-30)


def one_pass_score_by_score(chunks):
    """In 64 bits, and in the space of logarithms: the mean itself moves."""
    log_total, mean = -math.inf, None
    for scores, values in chunks:
        if mean is None:
            mean = torch.zeros(values.shape[1], dtype=torch.float64)
        for score, value in zip(scores.tolist(), values.double(), strict=True):
            if score == -math.inf:
                continue
            log_total = float(np.logaddexp(log_total, score))
            mean = mean + math.exp(score - log_total) * (value - mean)
    return mean


def one_pass_by_merging(chunks):
    """Keep the mean so far and the log of its sum."""
    mean, log = 0.0, torch.tensor(-math.inf)
    for scores, values in chunks:
        part, of_part = scores.softmax(0).nan_to_num(0.0) @ values, scores.logsumexp(0)
        shares = torch.stack([log, of_part]).softmax(0).nan_to_num(0.0)
        mean = shares[0] * mean + shares[1] * part
        log = torch.logaddexp(log, of_part)
    return mean


# Part 2


def blockwise_by_splitting(query, key, value, mask=None, block_size=128):
    """In 64 bits; contexts that are divided already are mixed, as in part 4."""
    query = query.double() / query.shape[-1] ** 0.5
    context = query.new_zeros(*query.shape[:-1], value.shape[-1])
    logs = query.new_full(query.shape[:-1], -1e300)
    blocks = len(key.split(block_size, -2))
    masks = [mask] * blocks
    if mask is not None and mask.shape[-1] > 1:
        masks = mask.split(block_size, -1)
    pieces = zip(key.split(block_size, -2), value.split(block_size, -2), masks, strict=True)
    for keys, values, seen in pieces:
        scores = torch.einsum("...qd,...kd->...qk", query, keys.double())
        if seen is not None:
            scores = torch.where(seen, scores, -1e300)
        both = torch.logaddexp(logs, scores.logsumexp(dim=-1))
        powers = (scores - both.unsqueeze(-1)).exp()
        if seen is not None:
            powers = powers * seen
        context = context * (logs - both).exp().unsqueeze(-1) + powers @ values.double()
        logs = both
    return context.float()


def blockwise_axis_by_axis(query, key, value, mask=None, block_size=128):
    """One entry of the first axis after the other, so maximum and total are (q,)."""
    if query.dim() > 2:
        masks = [None] * len(query)
        if mask is not None:
            masks = mask.expand(len(query), *mask.shape[1:])
        pieces = zip(query, key, value, masks, strict=True)
        return torch.stack([blockwise_axis_by_axis(*piece, block_size) for piece in pieces])
    largest = torch.full((len(query),), torch.finfo(query.dtype).min)
    total = torch.zeros(len(query))
    weighted = torch.zeros(len(query), value.shape[1])
    for first in range(0, len(key), block_size):
        scores = query @ key[first : first + block_size].T / math.sqrt(query.shape[1])
        if mask is not None:
            seen = mask if mask.shape[1] == 1 else mask[:, first : first + block_size]
            scores = scores.masked_fill(~seen, -math.inf)
        new = torch.maximum(largest, scores.max(dim=1).values)
        shrink, powers = (largest - new).exp(), (scores - new.unsqueeze(1)).exp()
        total = shrink * total + powers.sum(dim=1)
        weighted = shrink.unsqueeze(1) * weighted + powers @ value[first : first + block_size]
        largest = new
    return weighted / torch.where(total == 0, 1.0, total).unsqueeze(1)


def blockwise_in_both_directions(query, key, value, mask=None, block_size=128):
    """Blocks of queries too, a causal mask or not; each computed anew for the gradient."""

    def of_queries(queries, first):
        largest = total = weighted = None
        for at in range(0, key.size(-2), block_size):
            keys, values = (x[..., at : at + block_size, :] for x in (key, value))
            scores = queries @ keys.mT * queries.size(-1) ** -0.5
            if mask is not None:
                seen = mask
                if seen.size(-2) > 1:
                    seen = seen[..., first : first + block_size, :]
                if seen.size(-1) > 1:
                    seen = seen[..., at : at + block_size]
                scores = scores.masked_fill(seen.logical_not(), torch.finfo(torch.float32).min)
            top = scores.detach().max(dim=-1, keepdim=True).values
            new = top if largest is None else torch.maximum(largest, top)
            powers = (scores - new).exp()
            if mask is not None:
                powers = powers.masked_fill(seen.logical_not(), 0.0)
            if largest is None:
                total, weighted = powers.sum(-1, keepdim=True), powers @ values
            else:
                shrink = (largest - new).exp()
                total = total * shrink + powers.sum(-1, keepdim=True)
                weighted = weighted * shrink + powers @ values
            largest = new
        return weighted / total.clamp(min=1e-20)

    contexts = [
        checkpoint(of_queries, queries, place * block_size, use_reentrant=False)
        for place, queries in enumerate(query.split(block_size, -2))
    ]
    return torch.cat(contexts, dim=-2)


# Part 3


def accumulate_by_means(model, inputs, targets, counted, rows):
    """The mean of each part by its share; parts in which nothing counts are not read."""
    for parameter in model.parameters():
        parameter.grad = None
    losses = []
    for x, y, c in zip(*(t.split(rows) for t in (inputs, targets, counted)), strict=True):
        if not c.any():
            continue
        surprises = -model(x).log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)
        loss = surprises[c].mean() * (c.sum() / counted.sum())
        loss.backward()
        losses.append(loss.detach())
    return sum(losses)


def accumulate_row_by_row(model, inputs, targets, counted, rows):
    """One row at a time, and the gradients divided at the end; ignored targets are -100."""
    model.zero_grad(set_to_none=False)
    total = torch.tensor(0.0)
    for x, y in zip(inputs, targets.masked_fill(~counted, -100), strict=True):
        loss = F.cross_entropy(model(x[None])[0], y, reduction="sum")
        loss.backward()
        total += loss.detach()
    number = int(counted.sum())
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= number
    return total / number


def factor_as_fraction(counts, worker):
    return float(Fraction(counts[worker], sum(counts)) * len(counts))


def factor_in_a_tensor(counts, worker):
    counts = torch.tensor(counts, dtype=torch.float64)
    return counts[worker] / counts.mean()


# Part 4


def part_by_softmax(query, key, value, mask):
    scores = torch.where(mask, query @ key.T / query.size(1) ** 0.5, -math.inf)
    weights = scores.softmax(dim=-1)
    return [torch.nan_to_num(weights) @ value, scores.logsumexp(-1)]


def part_row_by_row(query, key, value, mask):
    """In 64 bits, over the keys that may be seen alone."""
    context, logs = torch.zeros(len(query), value.size(1)).double(), []
    for row, (q, seen) in enumerate(zip(query.double(), mask, strict=True)):
        scores = key[seen].double() @ q / math.sqrt(len(q))
        logs.append(scores.logsumexp(0) if seen.any() else torch.tensor(-math.inf).double())
        context[row] = scores.softmax(0) @ value[seen].double()
    return context, torch.stack(logs)


def merge_by_logaddexp(one, other):
    log = torch.logaddexp(one[1], other[1])
    context = torch.zeros_like(one[0])
    for values, part in (one, other):
        context += torch.nan_to_num((part - log).exp()).unsqueeze(-1) * values
    return context, log


def merge_by_sigmoid(one, other):
    nobody = (one[1] == -math.inf) & (other[1] == -math.inf)
    share = torch.sigmoid(one[1] - other[1]).masked_fill(nobody, 0.0).unsqueeze(-1)
    return share * one[0] + (1 - share) * other[0], torch.stack([one[1], other[1]]).logsumexp(0)


# Part 5


def memory_by_playing(parameters, layers, inside, edge, batch, every=None):
    """Go forward and back, and look how much lies there."""
    every_ = every or layers
    starts = list(range(0, layers, every_))
    held = len(starts) * edge
    most = held
    for first in reversed(starts):
        length = min(every_, layers - first)
        inner = length * inside + (length - 1) * edge
        most = max(most, held + inner)
        held -= edge
    four = torch.tensor(4)
    sizes = (parameters, parameters, 2 * parameters, batch * most)
    names = ("weights", "gradients", "moments", "activations")
    return {name: four * size for name, size in zip(names, sizes, strict=True)}


def memory_of_two(parameters, layers, inside, edge, batch, every=None):
    """Only the last two segments can be at their most; NumPy integers."""
    w = np.int64(4 * parameters)
    k = every or layers
    whole, rest = divmod(layers, k)
    peaks = [whole * edge + k * (inside + edge) - edge] if whole else []
    peaks += [(whole + 1) * edge + rest * (inside + edge) - edge] if rest else []
    return {"weights": w, "gradients": w, "moments": 2 * w, "activations": 4 * batch * max(peaks)}


def largest_by_trying(parameters, layers, inside, edge, every, budget):
    batch = 0
    while (
        sum(memory_by_playing(parameters, layers, inside, edge, batch + 1, every).values())
        <= budget
    ):
        batch += 1
    return batch


def largest_by_dividing(parameters, layers, inside, edge, every, budget):
    one = memory_of_two(parameters, layers, inside, edge, 1, every)["activations"]
    return max(math.floor((budget - 16 * parameters) / one), 0)


# Part 6


def own_times_by_slices(events):
    """Between two borders, the innermost event runs: the one that began last."""
    borders = sorted({at for _, *times in events for at in times})
    found = dict.fromkeys([name for name, *_ in events] + ["idle"], 0.0)
    for begin, end in itertools.pairwise(borders):
        running = [each for each in events if each[1] <= begin and each[2] >= end]
        inner = max(running, key=lambda each: (each[1], -each[2]), default=("idle",))
        found[inner[0]] += end - begin
    return found


def own_times_by_parents(events):
    """Of each event its innermost holder, found by looking at all."""
    times = defaultdict(float)
    first, last = min(e[1] for e in events), max(e[2] for e in events)
    times["idle"] = last - first
    for event in events:
        length = event[2] - event[1]
        times[event[0]] += length
        holders = [e for e in events if e is not event and e[1] <= event[1] and e[2] >= event[2]]
        if holders:
            times[min(holders, key=lambda e: e[2] - e[1])[0]] -= length
        else:
            times["idle"] -= length
    return dict(times)


def bottleneck_by_share(events, factor):
    times = own_times_by_slices(events)
    longest = sorted(times.items(), key=lambda item: item[1])[-1]
    share = longest[1] / sum(times.values())
    return [longest[0], 1 / (1 - share + share / factor)]


def bottleneck_in_a_tensor(events, factor):
    times = own_times_by_parents(events)
    lengths = torch.tensor(list(times.values()), dtype=torch.float64)
    place = int(lengths.argmax())
    after = lengths.clone()
    after[place] /= factor
    return list(times)[place], lengths.sum() / after.sum()


RIGHT = {
    "one_pass": [
        one_pass_in_numbers,
        one_pass_in_tensors,
        one_pass_score_by_score,
        one_pass_by_merging,
    ],
    "blockwise_attention": [
        blockwise_by_splitting,
        blockwise_axis_by_axis,
        blockwise_in_both_directions,
    ],
    "accumulate": [accumulate_by_means, accumulate_row_by_row],
    "factor": [factor_as_fraction, factor_in_a_tensor],
    "mended_part": [part_by_softmax, part_row_by_row],
    "mended_merge": [merge_by_logaddexp, merge_by_sigmoid],
    "memory": [memory_by_playing, memory_of_two],
    "largest_batch": [largest_by_trying, largest_by_dividing],
    "own_times": [own_times_by_slices, own_times_by_parents],
    "bottleneck": [bottleneck_by_share, bottleneck_in_a_tensor],
}


# Wrong answers whose message is not a diagnosis of questions.py, or that make its mistake otherwise


def one_pass_in_a_list(chunks):
    scores, values = zip(*chunks, strict=True)
    return torch.cat(scores).softmax(0).nan_to_num(0.0) @ torch.cat(values)


def one_pass_of_copies(chunks):
    kept = [(scores.clone(), values.clone()) for scores, values in chunks]
    return one_pass_in_a_list(kept)


def one_pass_twice(chunks):
    largest = max(scores.max() for scores, _ in chunks)
    total, weighted = 0.0, 0.0
    for scores, values in chunks:
        powers = (scores - largest).exp()
        total, weighted = total + powers.sum(), weighted + powers @ values
    return torch.as_tensor(weighted / max(total, 1.0))


def one_pass_twice_from_nothing(chunks):
    scores = torch.cat([scores.clone() for scores, _ in chunks])
    return scores.softmax(0) @ torch.cat([values for _, values in chunks])


def plain_attention(query, key, value, mask=None, block_size=128):
    return scaled_dot_product_attention(query, key, value, mask)[0]


def fused_attention(query, key, value, mask=None, block_size=128):
    return F.scaled_dot_product_attention(query, key, value, mask).nan_to_num(0.0)


def attention_of_the_package(query, key, value, mask=None, block_size=128):
    return blockwise.blockwise_attention(query, key, value, mask, block_size=block_size)


def blocks_of_queries(query, key, value, mask=None, block_size=128):
    """Each query by itself, and all keys at once."""
    rows = []
    for place in range(query.shape[-2]):
        seen = mask
        if mask is not None and mask.shape[-2] > 1:
            seen = mask[..., place : place + 1, :]
        one = query[..., place : place + 1, :]
        rows.append(scaled_dot_product_attention(one, key, value, seen)[0])
    return torch.cat(rows, dim=-2)


def blocks_in_a_list(query, key, value, mask=None, block_size=128):
    """Every block's scores are kept until the largest is known."""
    kept, largest = [], torch.full((*query.shape[:-1], 1), torch.finfo(query.dtype).min)
    for first in range(0, key.shape[-2], block_size):
        block = slice(first, first + block_size)
        scores = query @ key[..., block, :].mT / math.sqrt(query.shape[-1])
        if mask is not None:
            seen = mask if mask.shape[-1] == 1 else mask[..., block]
            scores = scores.masked_fill(~seen, -math.inf)
        kept.append(scores)
        largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
    powers = [(scores - largest).exp() for scores in kept]
    total = sum(each.sum(dim=-1, keepdim=True) for each in powers)
    pieces = zip(powers, value.split(block_size, -2), strict=True)
    return sum(each @ values for each, values in pieces) / torch.where(total == 0, 1.0, total)


def graphs_kept(model, inputs, targets, counted, rows):
    model.zero_grad()
    loss = 0.0
    for x, y, c in zip(*(t.split(rows) for t in (inputs, targets, counted)), strict=True):
        loss = loss + F.cross_entropy(model(x)[c], y[c], reduction="sum") / counted.sum()
    loss.backward()
    return loss.item()


def memory_in_a_list(*asked):
    return list(memory_of_two(*asked).values())


def times_by_neighbours(events):
    """Take every event that follows for one inside: a stack that is never emptied."""
    found, before = {}, None
    for name, begin, end in sorted(events, key=lambda event: (event[1], -event[2])):
        found[name] = found.get(name, 0.0) + end - begin
        if before is not None and begin < before[2]:
            found[before[0]] -= end - begin
        before = (name, begin, end)
    return {"idle": own_times_by_slices(events)["idle"], **found}


START = "start = torch.finfo(torch.float32).min -> start = -math.inf"

WRONG = {
    "one_pass": {
        "each chunk overwrites the one before": [
            one_pass_in_a_list,
            (
                "new = torch.maximum(largest, scores.amax(dim=-1, keepdim=True)) -> "
                "at = scores.argmax()\n        new = scores[at : at + 1]",
                "shrink = -> new = new if new > largest else largest\n        shrink =",
            ),
        ],
        "no copies of the chunks": one_pass_of_copies,
        "gives each chunk only once": [one_pass_twice, one_pass_twice_from_nothing],
        "Expected the mean as a torch.Tensor": "return mean -> return mean, 0.0",
    },
    "blockwise_attention": {
        "not accepted. Your code uses": [
            blockwise.blockwise_attention,
            attention_of_the_package,
            fused_attention,
        ],
        "an entry for each pair of query and key": [
            plain_attention,
            "    for first -> \n    mask = None if mask is None else ~~mask\n    for first",
        ],
        "the block size is 8 keys": "total, weighted = -> block_size *= 3\n    total, weighted =",
        "holds the scores of all 131 keys": blocks_of_queries,
        "Are the blocks stored in a list?": blocks_in_a_list,
        "Expected only the context, got 2 results": "return context -> return context, query",
        "no gradient flows": "return context -> return context.detach()",
        "The mask's key axis has the size 1": (
            "mask if mask.shape[-1] == 1 else mask[..., block] -> mask[..., block]"
        ),
        "The context is right, but the gradient of": [
            "torch.exp(scores - new) -> torch.exp(scores.detach() - new)",
            "torch.exp(largest - new) -> torch.exp(largest - new).detach()",
        ],
        "contains NaN or infinity": (
            START,
            "torch.exp(largest - new) -> torch.exp(largest - new).nan_to_num(0.0)",
            "torch.exp(scores - new) -> torch.exp(scores - new).nan_to_num(0.0)",
            "scores.masked_fill(~seen, -math.inf) -> scores + torch.where(seen, 0.0, -math.inf)",
        ),
    },
    "accumulate": {
        "The parameters have changed": (
            "return mean -> torch.optim.SGD(model.parameters(), lr=0.1).step()\n    return mean"
        ),
        "The mean of a part without counted tokens": (
            "(losses * seen).sum() / number -> losses[seen].mean() * seen.sum() / number"
        ),
        "rows at once": "mean = 0.0 -> mean, rows = 0.0, len(inputs)",
        "graphs of 3 parts exist at once": graphs_kept,
        "still holds the graph": "loss.item() -> loss",
        "Read each row once": "loss.backward() -> loss.backward()\n        model(inputs[part])",
        "Expected the loss as a float, got None": "return mean -> ",
        "Gradients: these are not": "loss.backward() -> (loss / 2).backward()",
        "Loss: this is not the mean over all": "return mean -> return mean / 3",
    },
    "factor": {
        "This is not the expected value of the factor": [
            f"len(counts) * share -> {wrong}"
            for wrong in (
                "len(counts) * counts[worker] // sum(counts)",
                "counts[worker] / max(counts)",
            )
        ],
    },
    "mended_part": {
        "in the wrong order: return context, logs": "return context, logs -> return logs, context",
        "Expected a pair, `return context, logs`": "return context, logs -> return context",
    },
    "mended_merge": {
        "Expected a pair, `return context, logs`": "return context, logs -> return context",
        "The values of context are not the expected ones": (
            "total = first_sum + second_sum -> "
            "first_sum, second_sum = (each * (each > 0.01) for each in (first_sum, second_sum))\n"
            "    total = first_sum + second_sum"
        ),
    },
    "memory": {
        "moments and activations, got [": memory_in_a_list,
        "Expected a dict with the keys": '        "gradients": 4 * parameters,\n -> ',
    },
    "largest_batch": {
        "not the expected value of the largest batch": "left // one -> min(1000, left // one)",
    },
    "own_times": {
        "Expected the self times as a dict": "return times -> return list(times.items())",
        "only the first is subtracted": times_by_neighbours,
    },
    "bottleneck": {
        "Expected a pair, `return name, speedup`": "return name, speedup -> return name",
    },
}


PLAIN = """
def blockwise_attention(query, key, value, mask=None, block_size=128):
    return scaled_dot_product_attention(query, key, value, mask)[0]
"""
AS_GIVEN = "mended_part, mended_merge = faulty_part, faulty_merge\n"
HANDED_IN = {
    "plain": ({"blockwise": PLAIN}, ["blockwise-check"], "an entry for each pair of query and key"),
    "as_given": (
        {"merge": AS_GIVEN},
        ["merge-check"],
        "the exponential of a large score overflows",
    ),
}
