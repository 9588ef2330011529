"""Right answers to 20_faster, each written differently."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# Part 1


def one_pass(chunks):
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


# Part 2


def one_pass_by_merging(chunks):
    """Keep the mean so far and the log of its sum."""
    mean, log = 0.0, torch.tensor(-math.inf)
    for scores, values in chunks:
        part, of_part = scores.softmax(0).nan_to_num(0.0) @ values, scores.logsumexp(0)
        shares = torch.stack([log, of_part]).softmax(0).nan_to_num(0.0)
        mean = shares[0] * mean + shares[1] * part
        log = torch.logaddexp(log, of_part)
    return mean


def blockwise_attention(query, key, value, mask=None, block_size=128):
    lowest = torch.finfo(query.dtype).min
    largest = torch.full((*query.shape[:-1], 1), lowest)
    total = torch.zeros_like(largest)
    weighted = torch.zeros(*query.shape[:-1], value.shape[-1])
    for first in range(0, key.shape[-2], block_size):
        block = slice(first, first + block_size)
        scores = query @ key[..., block, :].transpose(-2, -1) / math.sqrt(query.shape[-1])
        if mask is not None:
            seen = mask if mask.shape[-1] == 1 else mask[..., block]
            scores = scores.masked_fill(~seen, -math.inf)
        new = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(largest - new)
        powers = torch.exp(scores - new)
        total = shrink * total + powers.sum(dim=-1, keepdim=True)
        weighted = shrink * weighted + powers @ value[..., block, :]
        largest = new
    return weighted / torch.where(total == 0, 1.0, total)


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


def blockwise_with_the_past_as_a_key(query, key, value, mask=None, block_size=128):
    """Let the blocks so far stand as one more key, in double precision."""
    query, key, value = query.double(), key.double(), value.double()
    log = query.new_full((*query.shape[:-1], 1), -1e30)
    context = query.new_zeros(*query.shape[:-1], value.shape[-1])
    for place, block in enumerate(key.split(block_size, dim=-2)):
        scores = query @ block.mT / query.shape[-1] ** 0.5
        cut = slice(place * block_size, place * block_size + block.shape[-2])
        if mask is not None:
            seen = mask if mask.shape[-1] == 1 else mask[..., cut]
            scores = scores.masked_fill(~seen, -math.inf)
        scores = torch.cat([log, scores], dim=-1)
        weights = scores.softmax(dim=-1)
        context = weights[..., :1] * context + weights[..., 1:] @ value[..., cut, :]
        log = scores.logsumexp(dim=-1, keepdim=True)
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


def accumulate(model, inputs, targets, counted, rows):
    model.zero_grad()
    number = counted.sum()
    mean = 0.0
    for first in range(0, len(inputs), rows):
        part = slice(first, first + rows)
        logits = model(inputs[part])
        seen = counted[part]
        loss = F.cross_entropy(logits[seen], targets[part][seen], reduction="sum") / number
        loss.backward()
        mean += loss.item()
    return mean


def factor(counts, worker):
    return len(counts) * counts[worker] / sum(counts)


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


def factor_as_fraction(counts, worker):
    return float(Fraction(counts[worker], sum(counts)) * len(counts))


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


def accumulate_and_divide(model, inputs, targets, counted, rows):
    """Add up gradients of sums, and divide them in the end."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    loss, number = 0.0, 0
    for first in range(0, len(inputs), rows):
        part = slice(first, first + rows)
        if counted[part].any():
            logs = model(inputs[part]).log_softmax(dim=-1)
            of_targets = logs.gather(-1, targets[part].unsqueeze(-1)).squeeze(-1)
            whole = -of_targets[counted[part]].sum()
            whole.backward()
            loss, number = loss + whole.item(), number + counted[part].sum().item()
    for parameter in model.parameters():
        parameter.grad /= number
    return loss / number


def factor_in_a_tensor(counts, worker):
    counts = torch.tensor(counts, dtype=torch.float64)
    return counts[worker] / counts.mean()


# Part 4


def mended_part(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - largest)
    total = powers.sum(dim=-1, keepdim=True)
    context = powers @ value / torch.where(total == 0, 1.0, total)
    return context, (largest + total.log()).squeeze(-1)


def mended_merge(one, other):
    (first, first_log), (second, second_log) = one, other
    largest = torch.maximum(first_log, second_log)
    largest = largest.clamp(min=torch.finfo(largest.dtype).min)
    a, b = torch.exp(first_log - largest), torch.exp(second_log - largest)
    total = a + b
    share = torch.where(total == 0, 0.0, a / total).unsqueeze(-1)
    return share * first + (1 - share) * second, largest + total.log()


def part_by_softmax(query, key, value, mask):
    scores = torch.where(mask, query @ key.T / query.size(1) ** 0.5, -math.inf)
    weights = scores.softmax(dim=-1)
    return [torch.nan_to_num(weights) @ value, scores.logsumexp(-1)]


def merge_by_logaddexp(one, other):
    log = torch.logaddexp(one[1], other[1])
    context = torch.zeros_like(one[0])
    for values, part in (one, other):
        context += torch.nan_to_num((part - log).exp()).unsqueeze(-1) * values
    return context, log


def part_row_by_row(query, key, value, mask):
    """In 64 bits, over the keys that may be seen alone."""
    context, logs = torch.zeros(len(query), value.size(1)).double(), []
    for row, (q, seen) in enumerate(zip(query.double(), mask, strict=True)):
        scores = key[seen].double() @ q / math.sqrt(len(q))
        logs.append(scores.logsumexp(0) if seen.any() else torch.tensor(-math.inf).double())
        context[row] = scores.softmax(0) @ value[seen].double()
    return context, torch.stack(logs)


def merge_by_sigmoid(one, other):
    nobody = (one[1] == -math.inf) & (other[1] == -math.inf)
    share = torch.sigmoid(one[1] - other[1]).masked_fill(nobody, 0.0).unsqueeze(-1)
    return share * one[0] + (1 - share) * other[0], torch.stack([one[1], other[1]]).logsumexp(0)


# Part 5


def memory(parameters, layers, inside, edge, batch, every=None):
    if every is None:
        numbers = layers * (inside + edge)
    else:
        numbers = 0
        for place, first in enumerate(range(0, layers, every), start=1):
            length = min(every, layers - first)
            numbers = max(numbers, place * edge + length * inside + (length - 1) * edge)
    return {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "moments": 8 * parameters,
        "activations": 4 * batch * numbers,
    }


def largest_batch(parameters, layers, inside, edge, every, budget):
    needed = memory(parameters, layers, inside, edge, 1, every)
    activations = needed.pop("activations")
    return max(0, (budget - sum(needed.values())) // activations)


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


def largest_by_trying(parameters, layers, inside, edge, every, budget):
    batch = 0
    while sum(memory(parameters, layers, inside, edge, batch + 1, every).values()) <= budget:
        batch += 1
    return batch


def memory_of_two(parameters, layers, inside, edge, batch, every=None):
    """Only the last two segments can be at their most; floats."""
    w = np.float64(4 * parameters)
    k = every or layers
    whole, rest = divmod(layers, k)
    peaks = [whole * edge + k * (inside + edge) - edge] if whole else []
    peaks += [(whole + 1) * edge + rest * (inside + edge) - edge] if rest else []
    return {"weights": w, "gradients": w, "moments": 2 * w, "activations": 4.0 * batch * max(peaks)}


def largest_by_dividing(parameters, layers, inside, edge, every, budget):
    one = memory_of_two(parameters, layers, inside, edge, 1, every)["activations"]
    return max(math.floor((budget - 16 * parameters) / one), 0)


# Part 6


def own_times(events):
    found = {"idle": 0.0}
    around = []
    free_from = min(begin for _, begin, _ in events)
    for name, begin, end in sorted(events, key=lambda event: (event[1], -event[2])):
        while around and around[-1][1] <= begin:
            around.pop()
        found[name] = found.get(name, 0.0) + end - begin
        if around:
            found[around[-1][0]] -= end - begin
        else:
            found["idle"] += begin - free_from
            free_from = end
        around.append((name, end))
    return found


def bottleneck(events, factor):
    times = own_times(events)
    name = max(times, key=times.get)
    whole = sum(times.values())
    return name, whole / (whole - times[name] + times[name] / factor)


def own_times_by_slices(events):
    """Between two borders, the innermost event runs: the one that began last."""
    borders = sorted({at for _, *times in events for at in times})
    found = dict.fromkeys([name for name, *_ in events] + ["idle"], 0.0)
    for begin, end in itertools.pairwise(borders):
        running = [each for each in events if each[1] <= begin and each[2] >= end]
        inner = max(running, key=lambda each: (each[1], -each[2]), default=("idle",))
        found[inner[0]] += end - begin
    return found


def bottleneck_by_share(events, factor):
    times = own_times_by_slices(events)
    longest = sorted(times.items(), key=lambda item: item[1])[-1]
    share = longest[1] / sum(times.values())
    return [longest[0], 1 / (1 - share + share / factor)]


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


def bottleneck_in_a_tensor(events, factor):
    times = own_times(events)
    lengths = torch.tensor(list(times.values()), dtype=torch.float64)
    place = int(lengths.argmax())
    after = lengths.clone()
    after[place] /= factor
    return list(times)[place], lengths.sum() / after.sum()


RIGHT = {
    "one_pass_over": [
        one_pass,
        one_pass_in_tensors,
        one_pass_score_by_score,
        one_pass_by_merging,
    ],
    "blocks": [
        blockwise_attention,
        blockwise_by_splitting,
        blockwise_in_both_directions,
        blockwise_with_the_past_as_a_key,
        blockwise_axis_by_axis,
    ],
    "accumulation": [
        (accumulate, factor),
        (accumulate_by_means, factor_as_fraction),
        (accumulate_row_by_row, factor_in_a_tensor),
        (accumulate_and_divide, factor),
    ],
    "merging": [
        (mended_part, mended_merge),
        (part_by_softmax, merge_by_logaddexp),
        (part_row_by_row, merge_by_sigmoid),
    ],
    "budget": [
        (memory, largest_batch),
        (memory_by_playing, largest_by_trying),
        (memory_of_two, largest_by_dividing),
    ],
    "bottlenecks": [
        (own_times, bottleneck),
        (own_times_by_slices, bottleneck_by_share),
        (own_times_by_parents, bottleneck_in_a_tensor),
    ],
}
