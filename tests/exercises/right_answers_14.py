"""Right answers to 14_multi_head_attention, each written differently."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from attentively.masks import causal_mask, masked_softmax, padding_mask
from attentively.scaled_dot_product import scaled_dot_product_attention

# Part 1


def split_heads(x, num_heads):
    batch, length, d_model = x.shape
    return x.reshape(batch, length, num_heads, d_model // num_heads).transpose(1, 2)


def split_by_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_by_loops(x, num_heads):
    d_head = x.size(-1) // num_heads
    slices = [x[..., head * d_head : (head + 1) * d_head] for head in range(num_heads)]
    return torch.cat([each.unsqueeze(1) for each in slices], dim=1).double()


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


def merge_by_concatenating(x):
    return torch.cat(list(x.unbind(dim=1)), dim=-1)


def merge_by_reshaping(x):
    batch, heads, length, d_head = x.size()
    return x.permute(0, 2, 1, 3).contiguous().view(batch, length, heads * d_head)


HEADS = [
    (split_heads, merge_heads),
    (split_by_chunks, merge_by_concatenating),
    (split_by_loops, merge_by_reshaping),
]

# Part 2


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} does not split into {num_heads} equal heads")
        self.num_heads = num_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        queries = split_heads(self.query_projection(query), self.num_heads)
        keys = split_heads(self.key_projection(key), self.num_heads)
        values = split_heads(self.value_projection(value), self.num_heads)
        if mask is not None:
            mask = mask.unsqueeze(1)
        context, weights = scaled_dot_product_attention(queries, keys, values, mask)
        return self.output_projection(merge_heads(context)), weights


class OneHeadAfterTheOther(nn.Module):
    """A loop over heads, each with its own rows; the layers are made in another order."""

    def __init__(self, d_model, num_heads):
        if d_model % num_heads != 0:
            raise ValueError("these heads are not equal")
        super().__init__()
        for name in ("output", "value", "key", "query"):
            setattr(self, f"{name}_projection", nn.Linear(d_model, d_model))
        self.d_head = d_model // num_heads

    def forward(self, query, key, value, mask=None):
        contexts, weights = [], []
        for start in range(0, query.size(-1), self.d_head):
            own = slice(start, start + self.d_head)
            q = F.linear(query, self.query_projection.weight[own], self.query_projection.bias[own])
            k = F.linear(key, self.key_projection.weight[own], self.key_projection.bias[own])
            v = F.linear(value, self.value_projection.weight[own], self.value_projection.bias[own])
            scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(self.d_head)
            if mask is not None:
                scores = scores.masked_fill(~mask, -1e9)
            each = scores.softmax(dim=-1)
            if mask is not None:
                each = each * mask
            contexts.append(each @ v)
            weights.append(each)
        return [self.output_projection(torch.cat(contexts, dim=-1)), torch.stack(weights, dim=1)]


class HeadsInTheBatch(MultiHeadAttention):
    """The heads become rows of the batch, as in nn.MultiheadAttention."""

    def forward(self, query, key, value, mask=None):
        def rows(x):
            return split_by_chunks(x, self.num_heads).flatten(0, 1)

        queries = rows(self.query_projection(query)) * (len(rows(query)[0, 0]) ** -0.5)
        keys, values = rows(self.key_projection(key)), rows(self.value_projection(value))
        scores = torch.bmm(queries, keys.transpose(1, 2))
        if mask is not None:
            full = mask.expand(len(query), query.size(1), key.size(1))
            mask = full.repeat_interleave(self.num_heads, dim=0)
        weights = masked_softmax(scores, mask)
        context = (weights @ values).unflatten(0, (-1, self.num_heads))
        context = self.output_projection(merge_by_concatenating(context))
        return context, weights.unflatten(0, (-1, self.num_heads))


MULTI_HEAD = [MultiHeadAttention, OneHeadAfterTheOther, HeadsInTheBatch]

# Part 3


def in_the_encoder(attention, x, src_mask):
    return attention(x, x, x, src_mask.unsqueeze(1))


def in_the_encoder_square(attention, x, src_mask):
    return attention(x, x, x, mask=src_mask[:, None, :].expand(-1, x.size(1), -1))


def in_the_encoder_of_ids(attention, x, src_mask):
    """Padding finds nothing: what it finds is not asked for."""
    mask = padding_mask(src_mask.long(), 0)
    return attention(x, x, x, mask & mask.transpose(1, 2))


def in_the_decoder(attention, y, tgt_mask):
    return attention(y, y, y, causal_mask(y.size(1)))


def in_the_decoder_both(attention, y, tgt_mask):
    return attention(y, y, y, causal_mask(y.size(1)) & tgt_mask.unsqueeze(1))


def in_the_decoder_by_places(attention, y, tgt_mask):
    place = torch.arange(y.shape[1])
    mask = (place.unsqueeze(0) <= place.unsqueeze(1)).unsqueeze(0).repeat(len(y), 1, 1)
    return attention(query=y, key=y, value=y, mask=mask)


def across(attention, y, x, tgt_mask, src_mask):
    return attention(y, x, x, src_mask.unsqueeze(1))


def across_square(attention, y, x, tgt_mask, src_mask):
    return attention(y, x, x, tgt_mask.unsqueeze(2) & src_mask.unsqueeze(1))


def across_in_a_list(attention, y, x, tgt_mask, src_mask):
    return list(attention(y, x, x, mask=src_mask[:, None]))


USES = [
    (in_the_encoder, in_the_decoder, across),
    (in_the_encoder_square, in_the_decoder_both, across_square),
    (in_the_encoder_of_ids, in_the_decoder_by_places, across_in_a_list),
]

# Part 4


def look_ups(n, steps):
    place = torch.arange(n)
    W_Q, W_K, W_V = torch.zeros(3, 2 * n, 2 * n)
    for head, step in enumerate(steps):
        rows = head * n
        target = (place + step).clamp(0, n - 1)
        W_Q[rows + target, n + place] = 30 * n**0.5
        W_K[rows + place, n + place] = 1.0
        W_V[rows + place, place] = 1.0
    return W_Q, W_K, W_V, torch.eye(2 * n)


def look_ups_by_blocks(n, steps):
    """The keys carry the step, and the heads stand the other way round."""
    zero, one = torch.zeros(n, n), torch.eye(n)
    moved = [one[(torch.arange(n) + step).clamp(0, n - 1)] for step in reversed(steps)]
    W_Q = torch.cat([torch.cat([zero, 1000 * one], dim=1)] * 2)
    W_K = torch.cat([torch.cat([zero, each], dim=1) for each in moved])
    W_V = torch.cat([torch.cat([one, zero], dim=1)] * 2)
    W_O = torch.cat([torch.cat([zero, one], dim=1), torch.cat([one, zero], dim=1)])
    return [W_Q, W_K, W_V, W_O]


def look_ups_in_64_bits(n, steps):
    """Large scores fall with the distance; small values grow again in W_O."""
    sharp, place = 20.0 * math.sqrt(n), torch.arange(n)
    W_Q, W_K, W_V = (torch.zeros(2 * n, 2 * n, dtype=torch.float64) for _ in range(3))
    for head, step in enumerate(steps):
        block = slice(head * n, (head + 1) * n)
        target = (place + step).clamp(0, n - 1)
        W_Q[block, n:] = -sharp * (place.unsqueeze(1) - target.unsqueeze(0)).abs().double()
        W_K[block, n:] = torch.eye(n)
        W_V[block, :n] = torch.eye(n) / 4
    return W_Q, W_K, W_V, 4 * torch.eye(2 * n)


LOOK_UPS = [look_ups, look_ups_by_blocks, look_ups_in_64_bits]

# Part 5


def rows_of(weights, num_heads, heads):
    d_head = len(weights["output_projection.bias"]) // num_heads
    return torch.cat([torch.arange(d_head) + head * d_head for head in heads])


def pruned(weights, num_heads, keep):
    rows = rows_of(weights, num_heads, keep)
    smaller = dict(weights)
    for name in ("query_projection", "key_projection", "value_projection"):
        smaller[f"{name}.weight"] = weights[f"{name}.weight"][rows]
        smaller[f"{name}.bias"] = weights[f"{name}.bias"][rows]
    smaller["output_projection.weight"] = weights["output_projection.weight"][:, rows]
    return smaller


def pruned_by_chunks(weights, num_heads, keep):
    found = {}
    for name, tensor in weights.items():
        if name == "output_projection.bias":
            found[name] = tensor
            continue
        axis = 1 if name == "output_projection.weight" else 0
        parts = tensor.chunk(num_heads, dim=axis)
        found[name] = torch.cat([parts[head] for head in keep], dim=axis)
    return found


def importance(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    losses = loss_of(gates)
    gradients = [torch.autograd.grad(loss, gates, retain_graph=True)[0] for loss in losses]
    return torch.stack(gradients).abs().mean(dim=0)


def importance_by_backward(loss_of, num_heads):
    total = torch.zeros(num_heads)
    for example in range(len(loss_of(torch.ones(num_heads)))):
        gates = torch.ones(num_heads).requires_grad_()
        loss_of(gates)[example].backward()
        total += gates.grad.abs()
    return [number / (example + 1) for number in total.tolist()]


def importance_by_jacobian(loss_of, num_heads):
    ones = torch.ones(num_heads)
    return torch.autograd.functional.jacobian(loss_of, ones).abs().mean(0).double()


def importance_in_one_batch(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    losses = loss_of(gates)
    (found,) = torch.autograd.grad(losses, gates, torch.eye(len(losses)), is_grads_batched=True)
    return list(found.abs().mean(dim=0))


PRUNING = [
    (pruned, importance_in_one_batch),
    (pruned, importance),
    (pruned_by_chunks, importance_by_backward),
    (pruned, importance_by_jacobian),
]

# Part 6


def reordered(weights, num_heads, order):
    return pruned(weights, num_heads, order)


def reordered_by_blocks(weights, num_heads, order):
    """All seven tensors in turn, as blocks of d_head."""
    found = {name: tensor.clone() for name, tensor in weights.items()}
    d_head = len(weights["output_projection.bias"]) // num_heads
    for new, old in enumerate(order):
        to, source = (slice(head * d_head, (head + 1) * d_head) for head in (new, old))
        for name, tensor in weights.items():
            if name == "output_projection.weight":
                found[name][:, to] = tensor[:, source]
            elif not name.startswith("output"):
                found[name][to] = tensor[source]
    return found


def folded(weights):
    said = weights["output_projection.weight"] @ weights["value_projection.bias"]
    return {
        **weights,
        "key_projection.bias": torch.zeros_like(weights["key_projection.bias"]),
        "value_projection.bias": torch.zeros_like(weights["value_projection.bias"]),
        "output_projection.bias": weights["output_projection.bias"] + said,
    }


def folded_by_a_layer(weights):
    """What the output projection makes of the value bias is the new output bias."""
    found = {name: tensor.clone() for name, tensor in weights.items()}
    found["output_projection.bias"] = F.linear(
        found["value_projection.bias"],
        found["output_projection.weight"],
        found["output_projection.bias"],
    )
    found["value_projection.bias"] *= 0
    found["key_projection.bias"].zero_()
    return found


def reordered_but_the_key_bias(weights, num_heads, order):
    """It does nothing, so it may stay."""
    found = reordered(weights, num_heads, order)
    return found | {"key_projection.bias": weights["key_projection.bias"]}


SAME_FUNCTION = [
    (reordered, folded),
    (reordered_but_the_key_bias, folded),
    (reordered_by_blocks, folded_by_a_layer),
]

RIGHT = {
    "heads": HEADS,
    "multi_head": MULTI_HEAD,
    "uses": USES,
    "look_ups": LOOK_UPS,
    "pruning": PRUNING,
    "same_function": SAME_FUNCTION,
}
