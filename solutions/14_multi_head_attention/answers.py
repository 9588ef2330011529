"""Answers to the parts of multi-head attention, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from attentively.attention.masks import causal_mask, masked_softmax, padding_mask
from attentively.attention.multi_head import MultiHeadAttention as OfThePackage
from attentively.attention.scaled_dot_product import scaled_dot_product_attention
from attentively.checks.edits import edited

# Part 1


def split_by_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_by_loops(x, num_heads):
    d_head = x.size(-1) // num_heads
    slices = [x[..., head * d_head : (head + 1) * d_head] for head in range(num_heads)]
    return torch.cat([each.unsqueeze(1) for each in slices], dim=1).double()


def merge_by_concatenating(x):
    return torch.cat(list(x.unbind(dim=1)), dim=-1)


def merge_by_reshaping(x):
    batch, heads, length, d_head = x.size()
    return x.permute(0, 2, 1, 3).contiguous().view(batch, length, heads * d_head)


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
        queries = split_by_chunks(self.query_projection(query), self.num_heads)
        keys = split_by_chunks(self.key_projection(key), self.num_heads)
        values = split_by_chunks(self.value_projection(value), self.num_heads)
        if mask is not None:
            mask = mask.unsqueeze(1)
        context, weights = scaled_dot_product_attention(queries, keys, values, mask)
        return self.output_projection(merge_by_concatenating(context)), weights


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


class NoModule:
    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads


# Part 3


def in_the_encoder_square(attention, x, src_mask):
    return attention(x, x, x, mask=src_mask[:, None, :].expand(-1, x.size(1), -1))


def in_the_encoder_of_ids(attention, x, src_mask):
    """Padding finds nothing: what it finds is not asked for."""
    mask = padding_mask(src_mask.long(), 0)
    return attention(x, x, x, mask & mask.transpose(1, 2))


def in_the_decoder_by_places(attention, y, tgt_mask):
    place = torch.arange(y.shape[1])
    mask = (place.unsqueeze(0) <= place.unsqueeze(1)).unsqueeze(0).repeat(len(y), 1, 1)
    return attention(query=y, key=y, value=y, mask=mask)


def across_square(attention, y, x, tgt_mask, src_mask):
    return attention(y, x, x, tgt_mask.unsqueeze(2) & src_mask.unsqueeze(1))


def across_in_a_list(attention, y, x, tgt_mask, src_mask):
    return list(attention(y, x, x, mask=src_mask[:, None]))


def in_the_decoder_causal(attention, y, tgt_mask):
    return attention(y, y, y, causal_mask(y.size(1)))


# Part 4


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


# Part 5


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


def importance_by_backward(loss_of, num_heads):
    total = torch.zeros(num_heads)
    for example in range(len(loss_of(torch.ones(num_heads)))):
        gates = torch.ones(num_heads).requires_grad_()
        loss_of(gates)[example].backward()
        total += gates.grad.abs()
    return [number / (example + 1) for number in total.tolist()]


def importance_in_one_batch(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    losses = loss_of(gates)
    (found,) = torch.autograd.grad(losses, gates, torch.eye(len(losses)), is_grads_batched=True)
    return list(found.abs().mean(dim=0))


def importance_by_autograd(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    losses = loss_of(gates)
    gradients = [torch.autograd.grad(loss, gates, retain_graph=True)[0] for loss in losses]
    return torch.stack(gradients).abs().mean(dim=0)


def importance_in_64_bits(loss_of, num_heads):
    ones = torch.ones(num_heads)
    return torch.autograd.functional.jacobian(loss_of, ones).abs().mean(0).double()


def pruned_by_zeros(weights, num_heads, keep):
    found = {name: tensor.clone() for name, tensor in weights.items()}
    gone = [head for head in range(num_heads) if head not in keep]
    d_head = len(weights["output_projection.bias"]) // num_heads
    for head in gone:
        rows = torch.arange(d_head) + head * d_head
        found["output_projection.weight"][:, rows] = 0
    return found


# Part 6


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


def reordered_but_the_key_bias(weights, num_heads, order):
    """The key bias does nothing, so it may stay."""
    found = reordered_by_blocks(weights, num_heads, order)
    return found | {"key_projection.bias": weights["key_projection.bias"]}


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


def folded_with_larger_values(weights):
    """Values may grow while W^O shrinks: the function is the same."""
    found = folded_by_a_layer(weights)
    found["value_projection.weight"] *= 2
    found["output_projection.weight"] /= 2
    return found


BIAS = '_projection.bias"][rows]'
COLUMNS = "these tensors differ: output_projection.weight."
BIASES = "tensors differ: query_projection.bias, key_projection.bias, value_projection.bias."
OUTPUT = "self.output_projection = nn.Linear(d_model, d_model)"

RIGHT = {
    "split_heads": [split_by_chunks, split_by_loops],
    "merge_heads": [merge_by_concatenating, merge_by_reshaping],
    "MultiHeadAttention": [MultiHeadAttention, OneHeadAfterTheOther, HeadsInTheBatch],
    "in_the_encoder": [in_the_encoder_square, in_the_encoder_of_ids],
    "in_the_decoder": [in_the_decoder_causal, in_the_decoder_by_places],
    "across": [across_square, across_in_a_list],
    "look_ups": [look_ups_by_blocks, look_ups_in_64_bits],
    "pruned": [pruned_by_chunks],
    "importance": [
        importance_by_autograd,
        importance_by_backward,
        importance_in_one_batch,
        importance_in_64_bits,
    ],
    "reordered": [reordered_by_blocks, reordered_but_the_key_bias],
    "folded": [folded_by_a_layer, folded_with_larger_values],
}

WRONG = {
    "split_heads": {
        "Expected the output of split_heads as a torch.Tensor": (
            "parts.transpose(1, 2) -> list(x.chunk(num_heads, dim=-1))"
        ),
    },
    "MultiHeadAttention": {
        "must be a subclass of nn.Module": NoModule,
        "Your code raises AttributeError": "super().__init__() -> pass",
        "There is no parameter query_projection.weight": (
            "self.query_projection = -> self.query = ",
            "self.query_projection(query) -> self.query(query)",
        ),
        "There is no parameter key_projection.bias": (
            "self.key_projection = nn.Linear(d_model, d_model) -> "
            "self.key_projection = nn.Linear(d_model, d_model, bias=False)"
        ),
        "Each layer computes the projections of all heads": (
            "self.query_projection = nn.Linear(d_model, d_model) -> "
            "self.query_projection = nn.Linear(d_model, d_model // num_heads)"
        ),
        "an additional parameter or buffer scale": (
            "self.num_heads = num_heads -> "
            "self.num_heads, self.scale = num_heads, nn.Parameter(torch.ones(()))"
        ),
        "but __init__ raises no ValueError": [
            "if d_model % num_heads -> if False",
            "raise ValueError( -> raise AssertionError(",
        ],
        "unexpected keyword argument 'mask'": (
            "value, mask=None): -> value, allowed=None):\n        mask = allowed"
        ),
        "no gradient reaches query_projection.weight": (
            "self.query_projection(query) -> "
            "F.linear(query, self.query_projection.weight.data, self.query_projection.bias)"
        ),
        "by d_head, which is √d_head twice": edited(
            MultiHeadAttention, "attention(queries, -> attention(queries / queries.size(3) ** 0.5,"
        ),
        "query_projection.weight.requires_grad is False": (
            f"{OUTPUT} -> {OUTPUT}\n        self.requires_grad_(False)"
        ),
        "output_projection.bias.requires_grad is False": (
            f"{OUTPUT} -> {OUTPUT}\n        self.output_projection.bias.requires_grad = False"
        ),
        "no gradient reaches key": "projection(key) -> projection(key.detach())",
        "no gradient flows through them": (
            "return context, weights -> return context, weights.detach()"
        ),
        "Does it use dropout or other random numbers": (
            "return context, weights -> "
            "return F.dropout(context, 0.1, training=self.training), weights"
        ),
        "Expected a pair, `return context, weights`": "return context, weights -> return context",
        "in the wrong order: return context, weights": (
            "return context, weights -> return weights, context"
        ),
        "The values of context are not the expected ones": [
            "self.output_projection(merged) -> merged + self.output_projection(merged)",
            (
                "scores.masked_fill(~allowed, torch.finfo(scores.dtype).min) -> scores + allowed",
                " * allowed -> ",
            ),
        ],
        "Masked keys have the score 0": (
            "torch.finfo(scores.dtype).min -> -1e-9",
            " * allowed -> ",
        ),
        # It is right up to the sizes that the check tries.
        "the trained model's": (
            "return context, weights -> return context * (-1) ** (query.size(-1) > 21), weights"
        ),
        "not accepted. Your code uses": OfThePackage,
    },
    "in_the_encoder": {
        "in_the_encoder: The mask is on the axis of the queries": (
            "src_mask.unsqueeze(1) -> src_mask.unsqueeze(2)"
        ),
        "Expected a pair, `return context, weights`": "x, x, mask) -> x, x, mask)[0]",
        "a mask of shape (2, 5) does not fit scores": "src_mask.unsqueeze(1) -> src_mask",
    },
    "in_the_decoder": {
        "A causal mask is needed": "causal & -> causal |",
    },
    "look_ups": {
        "The shape of W_O is (3, 6), expected (6, 6)": "W_V, W_O -> W_V, W_O[:n]",
        "Expected four matrices": "W_K, W_V, W_O -> W_K, W_V",
        "The dtype of W_Q is torch.int64": "return W_Q -> return W_Q.long()",
        "at position 0 are not the word at step -1": "W_V, W_O -> W_V, 2 * W_O",
        "The scores must differ more": (
            "return W_Q, W_K -> return W_Q / W_Q.max() * 20, W_K / W_K.max()"
        ),
    },
    "pruned": {
        COLUMNS: [
            "columns = rows -> "
            "columns = slice(len(weights['output_projection.bias']) - len(rows), None)",
            "columns = rows -> "
            "columns = torch.cat([torch.arange(d_head) + head * d_head for head in sorted(keep)])",
            "[:, columns] -> [:, columns] * num_heads / len(keep)",
        ],
        BIASES: f'{BIAS} -> _projection.bias"][: len(rows)]',
        "The bias of W^O keeps its shape": "[:, columns] -> [rows]",
        "The shape of query_projection.weight is (8, 8), expected (4, 8)": pruned_by_zeros,
        "Your code changes its input weights": "found = dict(weights) -> found = weights",
        "The dict lacks 'output_projection.bias'": (
            'return found -> del found["output_projection.bias"]\n    return found'
        ),
        "Expected a dict with the eight parameter names": (
            'return found -> return found["output_projection.weight"]'
        ),
    },
    "importance": {
        "The shape of the importance of the heads is (2, 2)": ".mean(dim=0) -> ",
        "of the importance of the heads are not the expected ones": (
            ".mean(dim=0) -> .mean(dim=0) / 2"
        ),
        "got a list": ".mean(dim=0) -> .tolist()",
    },
    "reordered": {
        BIASES: f'{BIAS} -> _projection.bias"]',
        "differ: value_projection.weight, value_projection.bias, output_projection.weight.": (
            '("query", "key", "value") -> ("query", "key")',
            "[:, rows] -> ",
        ),
        "these tensors differ: value_projection.weight, value_projection.bias.": (
            '("query", "key", "value") -> ("query", "key")'
        ),
        COLUMNS: "[:, rows] -> [:, rows.argsort()]",
        "Expected a dict with the eight parameter names": (
            "return found -> return [*found.values()]"
        ),
        "The dict has an unknown name, 'order'": (
            'return found -> return found | {"order": torch.tensor(order)}'
        ),
        "Your code changes its input weights": "found = dict(weights) -> found = weights",
    },
    "folded": {
        "these tensors differ: output_projection.bias.": "+ added -> + 2 * added",
        "folded: key_projection.bias is not 0 everywhere": [
            'found["key_projection.bias"] = zero -> pass',
            "return found -> return dict(weights)",
        ],
        "The dict lacks 'key_projection.bias'": (
            'found["key_projection.bias"] = zero -> del found["key_projection.bias"]'
        ),
        "Your code changes its input weights": (
            'found["key_projection.bias"] = zero -> weights["key_projection.bias"].zero_()'
        ),
    },
}

OF_THE_MEAN = """def pruned(weights, num_heads, keep):
    d_head = len(weights["output_projection.bias"]) // num_heads
    rows = torch.cat([torch.arange(d_head) + head * d_head for head in keep])
    smaller = dict(weights)
    for name in ("query_projection", "key_projection", "value_projection"):
        smaller[f"{name}.weight"] = weights[f"{name}.weight"][rows]
        smaller[f"{name}.bias"] = weights[f"{name}.bias"][rows]
    smaller["output_projection.weight"] = weights["output_projection.weight"][:, rows]
    return smaller


def importance(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    loss_of(gates).mean().backward()
    return gates.grad.abs()
"""

WITHOUT_EXCHANGE = """def split_heads(x, num_heads):
    return x.reshape(len(x), num_heads, x.size(1), -1)


def merge_heads(x):
    return x.reshape(len(x), x.size(2), -1)
"""

HANDED_IN = {
    "of_the_mean": (
        {"pruning": OF_THE_MEAN},
        ["pruning-check"],
        "The absolute value is taken after the mean",
    ),
    # Part 2 uses the functions of part 1.
    "first_mistake": (
        {"heads": WITHOUT_EXCHANGE},
        ["heads-check", "multi-head-check"],
        "The tensor is reshaped without exchanging axes",
    ),
}
