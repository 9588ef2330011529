"""Plausible wrong answers to 20_faster, with words of the message of each."""

import math

import torch
from answer_sources import source
from right_answers_20 import (
    accumulate,
    blockwise_attention,
    bottleneck,
    factor,
    largest_batch,
    memory,
    mended_merge,
    mended_part,
    one_pass,
    own_times,
)
from torch.nn import functional as F

from attentively import blockwise
from attentively.scaled_dot_product import scaled_dot_product_attention

# Part 1


def changed(answer, *changes):
    """Return an answer with some of its words replaced."""
    text = source(answer, **{str(place): pair for place, pair in enumerate(changes)})
    space = dict(answer.__globals__)
    exec(text, space)
    return space[answer.__name__]


TOTAL = "total = shrink * total + powers.sum("
WEIGHTED = "weighted = shrink * weighted + powers @ values"


def one_pass_in_a_list(chunks):
    chunks = list(chunks)
    scores = torch.cat([scores for scores, _ in chunks])
    return scores.softmax(0).nan_to_num(0.0) @ torch.cat([values for _, values in chunks])


def one_pass_twice(chunks):
    largest = max(scores.max() for scores, _ in chunks)
    total, weighted = 0.0, 0.0
    for scores, values in chunks:
        powers = (scores - largest).exp()
        total, weighted = total + powers.sum(), weighted + powers @ values
    return torch.as_tensor(weighted / max(total, 1.0))


def one_pass_of_means(chunks):
    means = [scores.softmax(0).nan_to_num(0.0) @ values for scores, values in chunks]
    return sum(means) / len(means)


def one_pass_without_maximum(chunks):
    total, weighted = 0.0, 0.0
    for scores, values in chunks:
        powers = scores.exp()
        total, weighted = total + powers.sum(), weighted + powers @ values
    return weighted / total


def one_pass_nan(chunks):
    largest, total, weighted = torch.tensor(-math.inf), 0.0, 0.0
    for scores, values in chunks:
        new = torch.maximum(largest, scores.max())
        shrink, powers = (largest - new).exp(), (scores - new).exp()
        total, weighted = shrink * total + powers.sum(), shrink * weighted + powers @ values
        largest = new
    return weighted / total


def one_pass_of_the_last(chunks):
    for scores, values in chunks:
        answer = scores.softmax(0).nan_to_num(0.0) @ values
    return answer


def one_pass_in_pairs(chunks):
    return one_pass(chunks), 0.0


one_pass_never_shrunk = changed(one_pass, ("math.exp(largest - new)", "1.0"))
one_pass_total_kept = changed(one_pass, ("shrink * total", "total"))
one_pass_context_kept = changed(one_pass, ("shrink * weighted", "weighted"))
one_pass_own_maximum = changed(
    one_pass,
    ("max(largest, scores.max().item())", "scores.max().item()"),
    ("math.exp(largest - new)", "1.0"),
)
one_pass_from_zero = changed(one_pass, ("= -math.inf, 0.0, 0.0", "= 0.0, 0.0, 0.0"))
one_pass_not_divided = changed(
    one_pass, ("weighted / total if total > 0 else weighted", "weighted")
)
one_pass_wrong_way = changed(
    one_pass, ("math.exp(largest - new)", "math.exp(min(700, new - largest)) if total else 0.0")
)
one_pass_without_hidden = changed(
    one_pass, ("if new == -math.inf:", "if False:"), ("largest - new", "max(largest, -1e9) - new")
)


def one_pass_of_copies(chunks):
    kept = [(scores.clone(), values.clone()) for scores, values in chunks]
    scores = torch.cat([scores for scores, _ in kept])
    return scores.softmax(0).nan_to_num(0.0) @ torch.cat([values for _, values in kept])


def one_pass_divided_each_time(chunks):
    largest, total, weighted = torch.finfo(torch.float32).min, 0.0, 0.0
    for scores, values in chunks:
        new = max(largest, scores.max().item())
        shrink, powers = math.exp(largest - new), (scores - new).exp()
        total = shrink * total + powers.sum().item()
        weighted = (shrink * weighted + powers @ values) / max(total, 1.0)
        largest = new
    return weighted


STREAMED = [
    (one_pass_of_copies, "no copies of the chunks"),
    (one_pass_divided_each_time, "Divide once, at the end"),
    (one_pass_in_a_list, "The chunks are stored in a list"),
    (one_pass_twice, "gives each chunk only once"),
    (one_pass_of_means, "Each block has a softmax of its own, and the results are averaged"),
    (one_pass_without_maximum, "Subtract the largest score so far"),
    (one_pass_nan, "-inf is subtracted from -inf"),
    (one_pass_of_the_last, "Only the last block contributes"),
    (one_pass_in_pairs, "Expected the mean as a torch.Tensor"),
    (one_pass_never_shrunk, "still relative to the old maximum"),
    (one_pass_total_kept, "rescaled, but the total is not"),
    (one_pass_context_kept, "rescaled, but the weighted sum is not"),
    (one_pass_own_maximum, "subtracts its own maximum"),
    (one_pass_from_zero, "starts at 0"),
    (one_pass_not_divided, "not divided by the total"),
    (one_pass_wrong_way, "Here they grow"),
    (one_pass_without_hidden, "NaN"),
]

# Part 2


def plain_attention(query, key, value, mask=None, block_size=128):
    return scaled_dot_product_attention(query, key, value, mask)[0]


def fused_attention(query, key, value, mask=None, block_size=128):
    context = F.scaled_dot_product_attention(query, key, value, mask)
    return context.nan_to_num(0.0)


def attention_and_sums(query, key, value, mask=None, block_size=128):
    return blockwise_attention(query, key, value, mask, block_size), query


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


def attention_without_gradient(query, key, value, mask=None, block_size=128):
    with torch.no_grad():
        return blockwise_attention(query, key, value, mask, block_size)


def attention_that_writes(query, key, value, mask=None, block_size=128):
    query /= math.sqrt(query.shape[-1])
    return blockwise_attention(query, key, value, mask, block_size)


attention_of_whole_mask = changed(
    blockwise_attention,
    ("    total = torch", "    mask = None if mask is None else ~~mask\n    total = torch"),
)
attention_unscaled = changed(blockwise_attention, (" / math.sqrt(query.shape[-1])", ""))
attention_scaled_by_d = changed(
    blockwise_attention, ("math.sqrt(query.shape[-1])", "query.shape[-1]")
)
attention_without_mask = changed(blockwise_attention, ("if mask is not None:", "if False:"))
attention_mask_turned = changed(blockwise_attention, ("masked_fill(~seen", "masked_fill(seen"))
attention_of_first_mask = changed(
    blockwise_attention, ("mask[..., block]", "mask[..., : scores.shape[-1]]")
)
attention_cutting_an_axis_of_one = changed(
    blockwise_attention, ("mask if mask.shape[-1] == 1 else mask[..., block]", "mask[..., block]")
)
attention_of_whole_blocks = changed(
    blockwise_attention,
    ("range(0, key.shape[-2], block_size)", "range(0, key.shape[-2] - block_size + 1, block_size)"),
)
attention_never_shrunk = changed(
    blockwise_attention, ("torch.exp(largest - new)", "torch.ones_like(new)")
)
attention_total_kept = changed(blockwise_attention, ("shrink * total", "total"))
attention_context_kept = changed(blockwise_attention, ("shrink * weighted", "weighted"))
attention_not_divided = changed(blockwise_attention, (" / torch.where(total == 0, 1.0, total)", ""))
attention_of_nothing = changed(
    blockwise_attention, ("torch.where(total == 0, 1.0, total)", "total")
)
attention_from_infinity = changed(
    blockwise_attention, ("lowest = torch.finfo(query.dtype).min", "lowest = -math.inf")
)
attention_from_zero = changed(
    blockwise_attention, ("lowest = torch.finfo(query.dtype).min", "lowest = 0.0")
)
attention_uniform = changed(blockwise_attention, ("-math.inf)", "-1e9)"))
attention_of_zeros = changed(blockwise_attention, ("masked_fill(~seen, -math.inf)", "mul(seen)"))
attention_detached = changed(
    blockwise_attention, ("torch.exp(scores - new)", "torch.exp(scores.detach() - new)")
)
attention_mended_late = changed(
    blockwise_attention,
    ("lowest = torch.finfo(query.dtype).min", "lowest = -math.inf"),
    ("torch.exp(largest - new)", "torch.exp(largest - new).nan_to_num(0.0)"),
    ("torch.exp(scores - new)", "torch.exp(scores - new).nan_to_num(0.0)"),
    ("scores.masked_fill(~seen, -math.inf)", "scores + torch.where(seen, 0.0, -math.inf)"),
)


def attention_of_the_package(query, key, value, mask=None, block_size=128):
    return blockwise.blockwise_attention(query, key, value, mask, block_size=block_size)


def attention_in_larger_blocks(query, key, value, mask=None, block_size=128):
    return blockwise_attention(query, key, value, mask, 3 * block_size)


def attention_without_nan(query, key, value, mask=None, block_size=128):
    return attention_from_infinity(query, key, value, mask, block_size).nan_to_num(0.0)


BLOCKS = [
    (blockwise.blockwise_attention, "not accepted. Your code uses"),
    (attention_of_the_package, "not accepted. Your code uses"),
    (attention_in_larger_blocks, "the block size is 8 keys"),
    (attention_without_nan, "the NaN is replaced by 0"),
    (plain_attention, "an entry for each pair of query and key"),
    (fused_attention, "not accepted. Your code uses"),
    (attention_and_sums, "Expected only the context"),
    (blocks_of_queries, "holds the scores of all 251 keys"),
    (blocks_in_a_list, "Are the blocks stored in a list?"),
    (attention_without_gradient, "no gradient flows"),
    (attention_that_writes, "changes its input query"),
    (attention_of_whole_mask, "an entry for each pair of query and key"),
    (attention_unscaled, "not divided by √d"),
    (attention_scaled_by_d, "Divide by its square root"),
    (attention_without_mask, "The mask is ignored"),
    (attention_mask_turned, "The mask is inverted"),
    (attention_of_first_mask, "the mask of the first block"),
    (attention_cutting_an_axis_of_one, "The mask's key axis has the size 1"),
    (attention_of_whole_blocks, "do not fill a block"),
    (attention_never_shrunk, "still relative to the old maximum"),
    (attention_total_kept, "rescaled, but the total is not"),
    (attention_context_kept, "rescaled, but the weighted sum is not"),
    (attention_not_divided, "not divided by the total"),
    (attention_of_nothing, "may attend to no key is 0/0"),
    (attention_from_infinity, "-inf is subtracted from -inf"),
    (attention_from_zero, "starts at 0"),
    (attention_uniform, "gets the mean of all values"),
    (attention_of_zeros, "Masked scores are set to 0"),
    (attention_detached, "The context is right, but the gradient of"),
    (attention_mended_late, "contains NaN or infinity"),
]

# Part 3


def accumulated(loss, before="model.zero_grad()", each="", after=""):
    """Return an accumulation whose loss of a part is computed so."""
    text = f"""
def accumulate(model, inputs, targets, counted, rows):
    {before}
    number, mean, parts = counted.sum(), 0.0, 0
    for first in range(0, len(inputs), rows):
        part = slice(first, first + rows)
        logits, seen, goal = model(inputs[part]), counted[part], targets[part]
        surprises = F.cross_entropy(logits.transpose(1, 2), goal, reduction="none")
        parts = -(-len(inputs) // rows)
        {each or "pass"}
        loss = {loss}
        loss.backward()
        mean += loss.item()
    {after or "pass"}
    return mean
"""
    space = {"F": F, "torch": torch}
    exec(text, space)
    return space["accumulate"]


SUM = "surprises[seen].sum() / number"
mean_of_means = accumulated("surprises[seen].sum() / seen.sum().clamp(min=1) / parts")
sum_of_means = accumulated("surprises[seen].sum() / seen.sum().clamp(min=1)")
nan_of_nothing = accumulated("surprises[seen].mean() * seen.sum() / number")
everything_counted = accumulated("surprises.sum() / counted.numel()")
sum_of_all = accumulated("surprises[seen].sum()")
over_every_token = accumulated("surprises[seen].sum() / counted.numel()")
weighed_by_rows = accumulated(
    "surprises[seen].sum() / seen.sum().clamp(min=1) * len(goal) / len(inputs)"
)
gradients_kept = accumulated(SUM, before="pass")
forgetting_in_the_loop = accumulated(SUM, each="model.zero_grad(); mean = 0.0")
forgetting_at_the_end = accumulated(SUM, after="model.zero_grad()")


def whole_batch_at_once(model, inputs, targets, counted, rows):
    return accumulate(model, inputs, targets, counted, len(inputs))


def graphs_kept(model, inputs, targets, counted, rows):
    model.zero_grad()
    loss = 0.0
    for x, y, c in zip(*(t.split(rows) for t in (inputs, targets, counted)), strict=True):
        loss = loss + F.cross_entropy(model(x)[c], y[c], reduction="sum") / counted.sum()
    loss.backward()
    return loss.item()


def loss_with_its_graph(model, inputs, targets, counted, rows):
    model.zero_grad()
    total = 0.0
    for x, y, c in zip(*(t.split(rows) for t in (inputs, targets, counted)), strict=True):
        loss = F.cross_entropy(model(x)[c], y[c], reduction="sum") / counted.sum()
        loss.backward()
        total = total + loss
    return total


def whole_parts_alone(model, inputs, targets, counted, rows):
    whole = max(rows, len(inputs) // rows * rows)
    return accumulate(model, inputs[:whole], targets[:whole], counted[:whole], rows)


def reading_twice(model, inputs, targets, counted, rows):
    for part in inputs.split(rows):
        model(part)
    return accumulate(model, inputs, targets, counted, rows)


def gradients_alone(model, inputs, targets, counted, rows):
    accumulate(model, inputs, targets, counted, rows)


def gradients_by_half(model, inputs, targets, counted, rows):
    loss = accumulate(model, inputs, targets, counted, rows)
    for parameter in model.parameters():
        parameter.grad /= 2
    return loss


def share_alone(counts, worker):
    return counts[worker] / sum(counts)


def one_for_all(counts, worker):
    return 1.0


def divided_by_workers(counts, worker):
    return counts[worker] / sum(counts) / len(counts)


def upside_down(counts, worker):
    return sum(counts) / (len(counts) * counts[worker]) if counts[worker] else 0.0


def one_for_the_empty(counts, worker):
    return factor(counts, worker) or 1.0


def tokens_alone(counts, worker):
    return counts[worker]


def accumulate_with_a_step(model, inputs, targets, counted, rows):
    loss = accumulate(model, inputs, targets, counted, rows)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return loss


ACCUMULATED = [
    ((accumulate_with_a_step, factor), "The parameters have changed"),
    ((mean_of_means, factor), "this is the mean of the means of the parts"),
    ((sum_of_means, factor), "the means of the parts are added"),
    ((nan_of_nothing, factor), "The mean of a part without counted tokens"),
    ((everything_counted, factor), "all tokens are counted"),
    ((sum_of_all, factor), "the sum over the counted tokens"),
    ((over_every_token, factor), "divided by the number of all tokens"),
    ((weighed_by_rows, factor), "weighted by their rows"),
    ((gradients_kept, factor), "because backward adds to them."),
    ((forgetting_in_the_loop, factor), "only the share of the last part contributes"),
    ((forgetting_at_the_end, factor), "Is backward called, and zero_grad before it"),
    ((whole_batch_at_once, factor), "rows at once"),
    ((graphs_kept, factor), "graphs of 3 parts exist at once"),
    ((loss_with_its_graph, factor), "still holds the graph"),
    ((whole_parts_alone, factor), "rows that do not fill a part are missing"),
    ((reading_twice, factor), "Read each row once"),
    ((gradients_alone, factor), "Expected the loss as a float, got None"),
    ((gradients_by_half, factor), "Gradients: these are not"),
    ((accumulate, share_alone), "they are averaged, which divides"),
    ((accumulate, one_for_all), "gives all workers the same weight"),
    ((accumulate, divided_by_workers), "averaging already divides"),
    ((accumulate, upside_down), "The fraction is inverted"),
    ((accumulate, tokens_alone), "turns the mean into a sum"),
    ((accumulate, one_for_the_empty), "A worker without counted tokens has the factor 0"),
]

# Part 4


def part_as_given(query, key, value, mask):
    powers = (query @ key.mT / math.sqrt(query.shape[-1])).exp() * mask
    total = powers.sum(dim=-1)
    return powers @ value / total.unsqueeze(-1), total.log()


def merge_as_given(one, other):
    (first, first_log), (second, second_log) = one, other
    total = first_log.exp() + second_log.exp()
    share = (first_log.exp() / total).unsqueeze(-1)
    return share * first + (1 - share) * second, total.log()


def part_with_hidden_maximum(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    largest = scores.amax(dim=-1, keepdim=True)
    powers = (scores - largest).exp() * mask
    total = powers.sum(dim=-1)
    context = (powers @ value / total.unsqueeze(-1)).nan_to_num(0.0)
    return context, largest.squeeze(-1) + total.log()


def part_of_nan(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ value, scores.logsumexp(dim=-1)


def part_of_everything(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) @ value, scores.logsumexp(dim=-1)


def part_unscaled(query, key, value, mask):
    return mended_part(query * math.sqrt(query.shape[-1]), key, value, mask)


def part_with_lost_maximum(query, key, value, mask):
    context, logs = mended_part(query, key, value, mask)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return context, logs - scores.masked_fill(~mask, -math.inf).amax(dim=-1)


def part_with_sums(query, key, value, mask):
    context, logs = mended_part(query, key, value, mask)
    return context, logs.exp()


def part_with_zero_log(query, key, value, mask):
    context, logs = mended_part(query, key, value, mask)
    return context, logs.nan_to_num(neginf=0.0)


def part_with_maximum_for_log(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    context, _ = mended_part(query, key, value, mask)
    return context, scores.masked_fill(~mask, -math.inf).amax(dim=-1)


def part_the_wrong_way_round(query, key, value, mask):
    return mended_part(query, key, value, mask)[::-1]


def part_of_context(query, key, value, mask):
    return mended_part(query, key, value, mask)[0]


def merge_by_difference(one, other):
    share = torch.sigmoid(one[1] - other[1]).unsqueeze(-1)
    return share * one[0] + (1 - share) * other[0], torch.logaddexp(one[1], other[1])


def merge_by_half(one, other):
    return (one[0] + other[0]) / 2, torch.logaddexp(one[1], other[1])


def merge_of_limited_logs(one, other):
    logs = [pair[1].clamp(-80, 80) for pair in (one, other)]
    share = torch.sigmoid(logs[0] - logs[1]).unsqueeze(-1)
    return share * one[0] + (1 - share) * other[0], torch.logaddexp(one[1], other[1])


def merge_by_sum(one, other):
    return one[0] + other[0], torch.logaddexp(one[1], other[1])


def merge_crossed(one, other):
    return mended_merge((one[0], other[1]), (other[0], one[1]))


def merge_of_logs(one, other):
    share = (one[1] / (one[1] + other[1])).unsqueeze(-1)
    return share * one[0] + (1 - share) * other[0], torch.logaddexp(one[1], other[1])


def merge_adding_logs(one, other):
    return mended_merge(one, other)[0], one[1] + other[1]


def merge_with_the_larger(one, other):
    return mended_merge(one, other)[0], torch.maximum(one[1], other[1])


def merge_with_plain_log(one, other):
    return mended_merge(one, other)[0], (one[1].exp() + other[1].exp()).log()


def merge_of_nothing(one, other):
    context, log = mended_merge(one, other)
    return context, log.nan_to_num(neginf=0.0)


def part_of_zeros(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1]) * mask
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def merge_of_both_alone(one, other):
    context, logs = mended_merge(one, other)
    silent = (one[1] == -math.inf) | (other[1] == -math.inf)
    return context.masked_fill(silent.unsqueeze(-1), 0.0), logs.masked_fill(silent, -math.inf)


def merge_with_lost_maximum(one, other):
    context, logs = mended_merge(one, other)
    return context, logs - torch.maximum(one[1], other[1])


MERGED = [
    ((part_as_given, merge_as_given), "the exponential of a large score overflows"),
    ((part_of_zeros, mended_merge), "Masked scores are set to 0"),
    ((mended_part, merge_of_both_alone), "the result is the other pair"),
    ((mended_part, merge_with_lost_maximum), "The larger log was subtracted"),
    ((part_with_hidden_maximum, mended_merge), "The maximum includes masked scores"),
    ((part_of_nan, mended_merge), "may attend to no key of this part is 0/0"),
    ((part_of_everything, mended_merge), "the mean of all values"),
    ((part_unscaled, mended_merge), "not divided by √d"),
    ((part_with_lost_maximum, mended_merge), "The largest score was subtracted, and is missing"),
    ((part_with_sums, mended_merge), "This is the sum, which can overflow"),
    ((part_with_zero_log, mended_merge), "whose log is -inf"),
    ((part_with_maximum_for_log, mended_merge), "This is the largest score"),
    ((part_the_wrong_way_round, mended_merge), "Context and logs are swapped"),
    ((part_of_context, mended_merge), "Expected a pair, `return context, logs`"),
    ((mended_part, merge_as_given), "depend only on the difference of the two logs"),
    ((mended_part, merge_by_difference), "Where both logs are -inf, -inf is subtracted"),
    ((mended_part, merge_by_half), "The contexts are averaged"),
    ((mended_part, merge_by_sum), "The contexts are added"),
    ((mended_part, merge_of_limited_logs), "the difference of two large logs is lost"),
    ((mended_part, merge_crossed), "The two shares are swapped"),
    ((mended_part, merge_of_logs), "in place of the sums"),
    ((mended_part, merge_adding_logs), "ln(a + b) is not ln a + ln b"),
    ((mended_part, merge_with_the_larger), "This is the larger of the two logs"),
    ((mended_part, merge_with_plain_log), "because the exponential of a log overflows"),
    ((mended_part, merge_of_nothing), "the log of the sum must be -inf again"),
]

# Part 5


def memory_but(**changes):
    """Return a right memory, but for some of its keys."""

    def answer(parameters, layers, inside, edge, batch, every=None):
        sizes = memory(parameters, layers, inside, edge, batch, every)
        for name, change in changes.items():
            sizes[name] = change(sizes[name])
        return sizes

    return answer


def activations(of):
    """Return a memory whose activations with checkpoints are of so many numbers a sentence."""

    def answer(parameters, layers, inside, edge, batch, every=None):
        sizes = memory(parameters, layers, inside, edge, batch, every)
        if every is not None:
            sizes["activations"] = 4 * batch * of(layers, inside, edge, every)
        return sizes

    return answer


def segments(layers, every):
    return math.ceil(layers / every)


memory_in_numbers = memory_but(weights=lambda n: n // 4)
memory_in_64_bits = memory_but(gradients=lambda n: 2 * n)
one_moment = memory_but(moments=lambda n: n // 2)
activations_in_numbers = memory_but(activations=lambda n: n / 4)


def of_one_sentence(parameters, layers, inside, edge, batch, every=None):
    return memory(parameters, layers, inside, edge, 1, every)


def memory_without_inputs(parameters, layers, inside, edge, batch, every=None):
    sizes = memory(parameters, layers, inside, edge, batch, every)
    return sizes if every else {**sizes, "activations": 4 * batch * layers * inside}


def memory_in_a_list(*asked):
    return list(memory(*asked).values())


def memory_of_all(*asked):
    sizes = memory(*asked)
    return {"weights": sizes["weights"], "activations": sizes["activations"]}


unchecked = activations(lambda n, inside, edge, every: n * (inside + edge))
checkpoints_alone = activations(lambda n, inside, edge, every: segments(n, every) * edge)
one_layer_again = activations(lambda n, inside, edge, every: segments(n, every) * edge + inside)
edges_of_layers = activations(lambda n, inside, edge, every: n * edge + min(n, every) * inside)
last_segment_whole = activations(
    lambda n, inside, edge, every: segments(n, every) * edge + every * inside + (every - 1) * edge
)
segments_rounded_down = activations(
    lambda n, inside, edge, every: max(1, n // every) * edge + every * inside + (every - 1) * edge
)


def peaks(n, inside, edge, every):
    lengths = [min(every, n - first) for first in range(0, n, every)]
    return [
        (place + 1) * edge + each * inside + (each - 1) * edge for place, each in enumerate(lengths)
    ]


first_segment = activations(lambda *of: peaks(*of)[0])
last_segment = activations(lambda *of: peaks(*of)[-1])
sum_of_segments = activations(lambda *of: sum(peaks(*of)))
all_checkpoints = activations(
    lambda n, inside, edge, every: (
        segments(n, every) * edge + min(n, every) * inside + (min(n, every) - 1) * edge
    )
)
checkpoint_twice = activations(
    lambda n, inside, edge, every: max(p + edge for p in peaks(n, inside, edge, every))
)
without_inner_edges = activations(
    lambda n, inside, edge, every: max(
        (place + 1) * edge + min(every, n - place * every) * inside
        for place in range(segments(n, every))
    )
)


def largest_but(fixed=16, rounding=math.floor, least=0, every_used=True):
    def answer(parameters, layers, inside, edge, every, budget):
        one = memory(parameters, layers, inside, edge, 1, every if every_used else None)
        return max(least, rounding((budget - fixed * parameters) / one["activations"]))

    return answer


rounded_up = largest_but(rounding=math.ceil)
not_rounded = largest_but(rounding=lambda number: number)
weights_forgotten = largest_but(fixed=0)
weights_alone = largest_but(fixed=4)
moments_forgotten = largest_but(fixed=8)
below_zero = largest_but(least=-math.inf)
one_at_least = largest_but(least=1)
without_checkpoints = largest_but(every_used=False)


def never_quite_full(*asked):
    return largest_batch(*asked[:-1], asked[-1] - 1)


def memory_with_one_input(parameters, layers, inside, edge, batch, every=None):
    right = memory(parameters, layers, inside, edge, batch, every)
    alone = 4 * batch * (layers * inside + edge)
    return right if every is not None else {**right, "activations": alone}


def memory_without_its_checkpoint(parameters, layers, inside, edge, batch, every=None):
    right = memory(parameters, layers, inside, edge, batch, every)
    if every is None:
        return right
    return {**right, "activations": right["activations"] - 4 * batch * edge}


def weights_in_every_sentence(parameters, layers, inside, edge, every, budget):
    return budget // sum(memory(parameters, layers, inside, edge, 1, every).values())


BUDGETS = [
    ((memory_in_numbers, largest_batch), "weights: The result is in values"),
    ((memory_in_64_bits, largest_batch), "gradients: A value of 32 bits has four bytes"),
    ((one_moment, largest_batch), "Adam stores two values for each parameter"),
    ((activations_in_numbers, largest_batch), "activations: The result is in values"),
    ((of_one_sentence, largest_batch), "They are proportional to the batch"),
    (
        (memory_without_inputs, largest_batch),
        "Without checkpointing, each layer stores its input too",
    ),
    ((memory_with_one_input, largest_batch), "not only the first one"),
    ((memory_without_its_checkpoint, largest_batch), "is still stored"),
    ((memory, weights_in_every_sentence), "are stored once"),
    ((memory_in_a_list, largest_batch), "moments and activations, got ["),
    ((memory_of_all, largest_batch), "Expected a dict with the keys"),
    ((unchecked, largest_batch), "activations: `every` is ignored"),
    ((checkpoints_alone, largest_batch), "also stores the `inside` values"),
    ((one_layer_again, largest_batch), "has several layers, and the values of all of them"),
    ((edges_of_layers, largest_batch), "Only the inputs of segments are stored"),
    ((last_segment_whole, largest_batch), "The last segment can have fewer"),
    ((segments_rounded_down, largest_batch), "is rounded up"),
    ((first_segment, largest_batch), "has the fewest checkpoints"),
    ((last_segment, largest_batch), "the one before it needs more"),
    ((sum_of_segments, largest_batch), "take the maximum, not the sum"),
    ((all_checkpoints, largest_batch), "the checkpoints after it are already released"),
    ((checkpoint_twice, largest_batch), "is counted twice"),
    ((without_inner_edges, largest_batch), "except the first, which is the checkpoint"),
    ((memory, rounded_up), "Round down"),
    ((memory, not_rounded), "Round down"),
    ((memory, weights_forgotten), "need memory too"),
    ((memory, weights_alone), "together need 16 bytes per parameter"),
    ((memory, moments_forgotten), "together need 16 bytes per parameter"),
    ((memory, below_zero), "not even one sentence fits"),
    ((memory, one_at_least), "not even one sentence fits"),
    ((memory, without_checkpoints), "largest_batch: `every` is ignored"),
    ((memory, never_quite_full), "exactly `budget` bytes is allowed"),
]

# Part 6


def idle(events):
    return own_times(events)["idle"]


def times_counted_twice(events):
    found = {"idle": idle(events)}
    for name, begin, end in events:
        found[name] = found.get(name, 0.0) + end - begin
    return found


def inner(event, events):
    return [e for e in events if e is not event and e[1] >= event[1] and e[2] <= event[2]]


def directly(event, events):
    below = inner(event, events)
    return [e for e in below if not any(e in inner(other, below) for other in below)]


def times_by(own, every=lambda before, own: before + own, nothing=idle):
    """Return own times in which an event's is computed so, and those of a name put together so."""

    def answer(events):
        found = {"idle": nothing(events)}
        for event in events:
            time = own(event[2] - event[1], event, events)
            found[event[0]] = every(found[event[0]], time) if event[0] in found else time
        return found

    return answer


def lengths(some):
    return [end - begin for _, begin, end in some]


def right_time(time, event, events):
    return time - sum(lengths(directly(event, events)))


all_below_subtracted = times_by(lambda t, event, events: t - sum(lengths(inner(event, events))))
one_child_subtracted = times_by(
    lambda t, event, events: (
        t - sum(lengths(sorted(directly(event, events), key=lambda e: e[1])[:1]))
    )
)
longest_child_subtracted = times_by(
    lambda t, event, events: t - max(lengths(directly(event, events)), default=0.0)
)
innermost_alone = times_by(lambda t, event, events: 0.0 if inner(event, events) else t)
last_of_a_name = times_by(right_time, lambda before, own: own)
longest_of_a_name = times_by(right_time, max)
from_time_zero = times_by(right_time, nothing=lambda ev: idle(ev) + min(e[1] for e in ev))
never_idle = times_by(right_time, nothing=lambda events: 0.0)


def without_idle(events):
    found = own_times(events)
    del found["idle"]
    return found


def means_of_a_name(events):
    names = [name for name, *_ in events]
    return {name: t / max(1, names.count(name)) for name, t in own_times(events).items()}


def idle_of_nested(events):
    found = own_times(events)
    whole = max(e[2] for e in events) - min(e[1] for e in events)
    return {**found, "idle": whole - sum(lengths(events))}


def neighbours(events):
    """A stack that is never emptied: every event that follows is taken for one inside."""
    found, before = {}, None
    for name, begin, end in sorted(events, key=lambda event: (event[1], -event[2])):
        found[name] = found.get(name, 0.0) + end - begin
        if before is not None and begin < before[2]:
            found[before[0]] -= end - begin
        before = (name, begin, end)
    return {"idle": idle(events), **found}


def times_by_a_stack(order=lambda event: (event[1], -event[2]), over=float.__le__, once=False):
    """Return own times by the events that are open, in an order, and with one way to end them."""

    def answer(events):
        begin, end = min(event[1] for event in events), max(event[2] for event in events)
        times, around = {"idle": end - begin}, []
        for name, begin, end in sorted(events, key=order):
            while around and over(around[-1][1], begin):
                around.pop()
                if once:
                    break
            outer = around[-1][0] if around else "idle"
            times[name] = times.get(name, 0.0) + end - begin
            times[outer] -= end - begin
            around.append((name, end))
        return times

    return answer


times_as_given = times_by_a_stack(order=lambda event: 0)
times_by_begin_alone = times_by_a_stack(order=lambda event: event[1])
times_short_first = times_by_a_stack(order=lambda event: event[1:])
times_touching = times_by_a_stack(over=float.__lt__)
times_one_out = times_by_a_stack(once=True)


def times_in_a_list(events):
    return list(own_times(events).items())


def worst_by(times, gain=None):
    def answer(events, factor):
        own = own_times(events)
        whole = sum(own.values())
        found = times(events)
        name = max(found, key=found.get)
        share = own[name] / whole
        return name, (gain or (lambda s, f: 1 / (1 - s + s / f)))(share, factor)

    return answer


longest_with_others = worst_by(lambda events: {**times_counted_twice(events)})
longest_but_idle = worst_by(without_idle)
longest_mean = worst_by(means_of_a_name)
most_often = worst_by(lambda events: {e[0]: [x[0] for x in events].count(e[0]) for e in events})
gain_of_factor = worst_by(own_times, lambda share, factor: factor)
gain_without_it = worst_by(own_times, lambda share, factor: 1 / (1 - share))
gain_as_share = worst_by(own_times, lambda share, factor: 1 - share + share / factor)
gain_of_mean = worst_by(own_times, lambda share, factor: 1 - share + share * factor)
gain_saved = worst_by(own_times, lambda share, factor: share - share / factor)


def name_alone(events, factor):
    return bottleneck(events, factor)[0]


PROFILED = [
    ((times_counted_twice, bottleneck), "Time is counted twice"),
    ((times_as_given, bottleneck), "sort them by begin"),
    ((times_short_first, bottleneck), "the longer one contains the other"),
    ((times_by_begin_alone, bottleneck), "Here only the begins are compared"),
    ((times_touching, bottleneck), "when another ends is not inside it"),
    ((times_one_out, bottleneck), "remove all of them"),
    ((all_below_subtracted, bottleneck), "Too much is subtracted"),
    ((one_child_subtracted, bottleneck), "only the first is subtracted"),
    ((longest_child_subtracted, bottleneck), "only the longest is subtracted"),
    ((innermost_alone, bottleneck), "the rest of its duration"),
    ((last_of_a_name, bottleneck), "only its last event is counted"),
    ((longest_of_a_name, bottleneck), "only its longest event is counted"),
    ((means_of_a_name, bottleneck), "This is the mean over the events of a name"),
    ((from_time_zero, bottleneck), "not at time 0"),
    ((without_idle, bottleneck), 'under the key "idle"'),
    ((idle_of_nested, bottleneck), "This is not the expected value of the self times"),
    ((never_idle, bottleneck), "in which nothing runs is idle time"),
    ((neighbours, bottleneck), "only the first is subtracted"),
    ((times_in_a_list, bottleneck), "Expected the self times as a dict"),
    ((own_times, longest_with_others), "which includes other events"),
    ((own_times, longest_but_idle), "The idle time can be the largest"),
    ((own_times, longest_mean), "the name with the largest mean"),
    ((own_times, most_often), "This is the most frequent name"),
    ((own_times, gain_of_factor), "the rest takes as long as before"),
    ((own_times, gain_without_it), "if the bottleneck took no time at all"),
    ((own_times, gain_as_share), "the new total time as a share of the old one"),
    ((own_times, gain_of_mean), "averages the speed-ups 1 and `factor`"),
    ((own_times, gain_saved), "the time that is saved"),
    ((own_times, name_alone), "Expected a pair, `return name, speedup`"),
]

WRONG = {
    "one_pass_over": STREAMED,
    "blocks": BLOCKS,
    "accumulation": ACCUMULATED,
    "merging": MERGED,
    "budget": BUDGETS,
    "bottlenecks": PROFILED,
}

HANDED_IN = {
    "plain": (
        {"blockwise": source(plain_attention, name=("plain_attention", "blockwise_attention"))},
        ["blockwise-check"],
        "an entry for each pair of query and key",
    ),
    "as_given": (
        {"merge": source(
            part_as_given, merge_as_given,
            part=("part_as_given", "mended_part"), merge=("merge_as_given", "mended_merge"),
        )},
        ["merge-check"],
        "the exponential of a large score overflows",
    ),
}  # fmt: skip
