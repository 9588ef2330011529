"""Answers to the parts of self-attention, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
ALLOWED    {function: [names of behaviours that are right here]}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math

import torch
from torch.nn import functional as F

from attentively.attention.masks import causal_mask, padding_mask
from attentively.attention.scaled_dot_product import fused_attention, scaled_dot_product_attention

# Part 1


def scores_by_loops(x, word, w_q, w_k):
    query = x[word] @ w_q
    return torch.stack([(query * (each @ w_k)).sum() / w_k.shape[1] ** 0.5 for each in x])


def scores_of_all_and_one_row(x, word, w_q, w_k):
    return torch.einsum("id,jd->ij", x @ w_q, x @ w_k).double()[word] / math.sqrt(len(w_k[0]))


def look_by_loops(scores, x, w_v):
    powers = (scores - scores.max()).exp()
    weights = powers / powers.sum()
    output = torch.zeros(w_v.shape[1])
    for weight, each in zip(weights, x, strict=True):
        output = output + weight * (each @ w_v)
    return [weights, output]


def look_values_last(scores, x, w_v):
    weights = torch.softmax(scores, 0)
    return weights, torch.einsum("j,jd,de->e", weights, x, w_v).double()


def look_with_the_packages(scores, x, w_v):
    keys = torch.eye(len(x), dtype=x.dtype) * len(x) ** 0.5
    output, weights = scaled_dot_product_attention(scores[None], keys, x @ w_v)
    return weights[0], output[0]


def look_with_pytorchs(scores, x, w_v):
    keys = torch.eye(len(x), dtype=x.dtype) * len(x) ** 0.5
    return scores.softmax(-1), F.scaled_dot_product_attention(scores[None], keys, x @ w_v)[0]


# Part 2


def mask_by_loops(ids, pad_id, causal):
    batch, size = ids.shape
    mask = torch.zeros(batch, size, size, dtype=torch.bool)
    for sentence in range(batch):
        for query in range(size):
            for key in range(size):
                seen = ids[sentence, key] != pad_id and (key <= query or not causal)
                mask[sentence, query, key] = bool(seen)
    return mask


def mask_by_positions(ids, pad_id, causal):
    at = torch.arange(ids.shape[1])
    hidden = (ids == pad_id)[:, None, :].repeat(1, ids.shape[1], 1)
    if causal:
        hidden = hidden | (at[None, :] > at[:, None])
    return hidden.logical_not()


def mask_with_the_packages(ids, pad_id, causal):
    mask = padding_mask(ids, pad_id).expand(-1, ids.shape[1], -1)
    return mask & torch.ones_like(mask).tril() if causal else mask


def mask_with_the_packages_causal(ids, pad_id, causal):
    mask = (ids != pad_id).unsqueeze(1).expand(-1, ids.shape[1], -1)
    return mask & causal_mask(ids.shape[1]) if causal else mask


def blind_by_counting(mask):
    return mask.sum(dim=2) == 0


# Part 3


def attention_by_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * key.shape[-1] ** -0.5
    hidden = torch.zeros_like(scores, dtype=torch.bool) if mask is None else ~mask
    lowest = scores.masked_fill(hidden, -1e9)
    powers = (lowest - lowest.amax(dim=-1, keepdim=True)).exp() * ~hidden
    weights = powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("...qk,...kd->...qd", weights, value), weights


def attention_with_infinity(query, key, value, mask=None):
    """A row of -inf is made a row of zeros before the softmax sees it."""
    scores = (query / query.shape[-1] ** 0.5) @ key.mT
    if mask is None:
        weights = scores.softmax(-1)
    else:
        sees = mask.any(-1, keepdim=True)
        scores = scores.masked_fill(~mask & sees, -torch.inf)
        weights = torch.where(sees, scores.softmax(-1), torch.zeros(()))
    return [torch.matmul(weights, value), weights]


def attention_with_nan_replaced(query, key, value, mask=None):
    scores = torch.matmul(query, key.swapaxes(-1, -2)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    weights = F.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights.double() @ value.double(), weights


def attention_in_a_wrapper(query, key, value, mask=None):
    return (lambda *asked: scaled_dot_product_attention(*asked))(query, key, value, mask)


def attention_fused(query, key, value, mask=None, attend=F.scaled_dot_product_attention):
    """The weights are what attention makes of values with a single one each."""
    size = key.shape[-2]
    ones = torch.eye(size, dtype=key.dtype).expand(*key.shape[:-1], size)
    sees = None if mask is None else mask.any(-1, keepdim=True)
    allowed = None if mask is None else mask | ~sees
    both = attend(query, key, torch.cat([value, ones], -1), allowed)
    both = both if sees is None else both * sees
    return both[..., :-size], both[..., -size:]


def attention_with_the_packages_fused(query, key, value, mask=None):
    return attention_fused(query, key, value, mask, fused_attention)


# Part 4


def leaked_by_odds(scores, mask, d_k, fill, before):
    """The share is what a sigmoid makes of the difference of two logarithms."""
    scores = scores / d_k**0.5
    hidden = scores.masked_fill(mask, -torch.inf).logsumexp(-1)
    seen = scores.masked_fill(~mask, -torch.inf).logsumexp(-1)
    return torch.sigmoid(hidden - fill / (d_k**0.5 if before else 1) - seen).double()


def enough_by_trying(bound, d_k, seen, hidden, share, before):
    """Halve the interval, on the worst scores that the bound allows."""
    root = d_k**0.5

    def worst(fill):
        difference = (2 * bound - fill) / root if before else 2 * bound / root - fill
        return hidden / (hidden + seen * math.exp(min(-difference, 700)))

    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if worst(middle) > share else (low, middle)
    return torch.tensor(high)


# Part 5


def reached_by_loops(model, ids, real, vocab_size):
    before = model(ids[None], real[None])
    rows = [[False] * len(ids) for _ in ids]
    for position in range(len(ids)):
        for token in range(vocab_size):
            changed = ids.clone()
            changed[position] = token
            difference = (model(changed[None], real[None]) - before)[0]
            for output, vector in enumerate(difference):
                rows[output][position] |= bool(vector.abs().max() > 1e-4)
    return rows


def reached_all_at_once(model, ids, real, vocab_size):
    size = len(ids)
    swap = torch.eye(size, dtype=torch.bool)[:, None, :]
    changed = torch.where(swap, torch.arange(vocab_size)[None, :, None], ids).flatten(0, 1)
    outputs = model(torch.cat([ids[None], changed]), real.expand(len(changed) + 1, size))
    change = (outputs[1:] - outputs[:1]).abs().amax(dim=-1).unflatten(0, (size, vocab_size))
    return (change.amax(dim=1) > 1e-4).T


def faults_by_loops(reached, real):
    found = {"missing": [], "leaks": []}
    for output in range(len(real)):
        if not real[output]:
            continue
        for position in range(len(real)):
            allowed = position <= output and bool(real[position])
            if bool(reached[output][position]) and not allowed:
                found["leaks"].append([output, position])
            elif allowed and not reached[output][position]:
                found["missing"].append((output, position))
    return found


def faults_as_tensors(reached, real):
    allowed = torch.ones_like(reached).tril() & real
    wrong = (reached ^ allowed) & real[:, None]
    return {"leaks": (wrong & reached).nonzero(), "missing": (wrong & ~reached).nonzero()}


# Part 6


def aim_with_longer_queries(x, target, share):
    """A longer d_k has a larger root."""
    words = len(target)
    w_k = torch.cat([torch.linalg.pinv(x), x.new_zeros(x.shape[1], 3)], dim=1).double()
    aimed = x.new_zeros(words, words + 3)
    for word, other in enumerate(target):
        aimed[word, other] = math.log(share) - math.log((1 - share) / (words - 1))
    return torch.linalg.lstsq(x, aimed * (words + 3) ** 0.5).solution, w_k


def aim_from_the_scores(x, target, share):
    """Factorise the scores, after 1 was added to each entry, which changes no weight."""
    words = len(target)
    weights = x.new_full((words, words), (1 - share) / (words - 1))
    weights[range(words), target] = share
    inverse = x.T @ torch.linalg.inv(x @ x.T)
    left, sizes, right = torch.linalg.svd(weights.log() * words**0.5 + 1.0)
    return inverse @ left * sizes.sqrt(), inverse @ right.T * sizes.sqrt()


def aim_unevenly(x, target, share):
    words = len(target)
    weights = x.new_full((words, words), (1 - share) / (words - 1))
    weights[range(words), target] = share
    other = [each for each in range(words) if each != target[0]]
    if words > 2:
        weights[0, other[0]] /= 2
        weights[0, other[1]] += weights[0, other[0]]
    inverse = torch.linalg.pinv(x)
    return inverse @ weights.log() * math.sqrt(words), inverse


RIGHT = {
    "scores_of": [scores_by_loops, scores_of_all_and_one_row],
    "look": [look_by_loops, look_values_last],
    "mask_for": [mask_by_loops, mask_by_positions],
    "blind": [blind_by_counting],
    "scaled_dot_product_attention": [
        attention_by_einsum,
        attention_with_infinity,
        attention_with_nan_replaced,
    ],
    "leaked": [leaked_by_odds],
    "enough": [enough_by_trying],
    "reached": [reached_by_loops, reached_all_at_once],
    "faults": [faults_by_loops, faults_as_tensors],
    "aim": [aim_with_longer_queries, aim_from_the_scores],
}

ALLOWED = {name: ["a list"] for name in ("mask_for", "blind", "reached")}

FLOAT32 = "is computed in float32"
OWN = "not accepted. Your code uses"
WRONG = {
    "scores_of": {
        "the gradient of x is not: a part of it is missing": "x @ w_k -> x.detach() @ w_k",
        FLOAT32: [
            "return scores -> return scores.float()",
            "x @ w_k -> x.float() @ w_k.float()\n    query = query.float()",
            "return scores -> return scores.float().double()",
        ],
    },
    "look": {
        "no gradient reaches x": "x @ w_v -> x.detach() @ w_v",
        "in the wrong order: return weights, output": "weights, output -> output, weights",
        "Expected a pair, `return weights, output`": "return weights, output -> return output",
        "exp overflows for large scores": (
            "scores.softmax(dim=-1) -> "
            "(scores.double().exp() / scores.double().exp().sum()).to(scores.dtype)"
        ),
        FLOAT32: "scores.softmax(dim=-1) -> scores.float().softmax(dim=-1).to(x.dtype)",
        OWN: [look_with_the_packages, look_with_pytorchs],
    },
    "mask_for": {
        "got torch.float32. A comparison returns": "return mask -> return mask.float()",
        OWN: [mask_with_the_packages, mask_with_the_packages_causal],
    },
    "blind": {
        "got torch.int64. A comparison returns": "~mask.any(dim=-1) -> mask.sum(dim=-1)",
        # Only the first queries can be fully masked; or all queries of a sentence.
        "The values of the fully masked queries": [
            "~mask.any(dim=-1) -> mask.any(dim=-1).long().cumsum(-1) == 0",
            "~mask.any(dim=-1) -> ~mask.flatten(1).any(1, True).expand(-1, mask.shape[1])",
        ],
    },
    "scaled_dot_product_attention": {
        "Your code raises IndexError": "key.transpose(-2, -1) -> key.transpose(1, 2)",
        "the gradient of query contains NaN or infinity. A softmax over a row": (
            "scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min) -> "
            "scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)",
            "scores.softmax(dim=-1) * mask -> scores.softmax(dim=-1).nan_to_num(0.0)",
        ),
        "no gradient flows through them": "weights @ value -> (weights @ value).detach()",
        "two different answers": "weights @ value -> F.dropout(weights @ value)",
        # In the open cases and the trained model: four axes; there alone, more than five keys.
        "The values of weights are not": (
            "scores = query -> if mask is not None and mask.dim() == 4:\n"
            "        mask = mask[:, :1]\n    scores = query"
        ),
        "the trained model's": (
            "weights @ value -> weights @ value\n"
            "    if query.dim() == 4 and key.size(-2) > 5:\n        context = context.flip(-1)"
        ),
        FLOAT32: [
            "return context, weights -> return context.float(), weights.float()",
            "scores.softmax(dim=-1) -> scores.float().softmax(dim=-1).to(value.dtype)",
        ],
        OWN: [
            scaled_dot_product_attention,
            attention_in_a_wrapper,
            attention_fused,
            attention_with_the_packages_fused,
        ],
    },
    "leaked": {
        FLOAT32: "return total -> return total.float()",
        "float32 would round their differences": (
            "lowered.softmax(dim=-1) -> lowered.float().softmax(dim=-1).double()"
        ),
    },
    "enough": {
        "This is not the expected value of the smallest": [
            "math.log(odds) -> math.log10(odds)",
            "math.sqrt -> math.isqrt",
            "max(fill, 0.0) -> max(fill, 0.0) + 1e-4",
            "root = math -> if share >= 0.5:\n        return 0.0\n    root = math",
            "root = math -> if share >= hidden / (hidden + seen):\n        return 0.0\n"
            "    root = math",
        ],
    },
    "reached": {
        "Your code changes its input ids": "return found -> ids[0] = 0\n    return found",
        "got torch.int32. A comparison returns": "return found -> return found.int()",
        "For squared differences": ("change.abs() -> change.square().mean(dim=-1, keepdim=True)"),
        "both arguments of the model have the shape (batch, len)": [
            "real.expand_as(changed) -> real.unsqueeze(0)",
            "real.expand_as(changed) -> real",
        ],
        # A relative tolerance is added.
        "The threshold is not 0.0001": (
            "change.abs() > 1e-4 -> change.abs() > 1e-4 + 1e-5 * before.abs()"
        ),
        # The first token that changes anything decides.
        "Only one other token decides": (
            "(change.abs() > 1e-4).any(dim=-1).any(dim=0) -> "
            "(lambda moved: moved[moved.any(1).int().argmax()])((change.abs() > 1e-4).any(-1))"
        ),
    },
    "faults": {
        "Expected the faults as a dict": "return { -> return 0, {",
        "This is not the expected value": "~allowed & judged -> ~real & judged",
    },
    "aim": {
        "those of the other words are not equal": aim_unevenly,
        "expected (d_model, d_k), where d_model": (
            "return w_q, w_k -> return (w_q, w_k) if len(x) == x.shape[1] else (w_q.T, w_k.T)"
        ),
        "cannot be compared with keys of": "w_k = inverse -> w_k = inverse[:, :-1]",
        "w_q contains NaN or infinity": "* math.sqrt -> / 0 * math.sqrt",
        # Directions of x in which its rows are short are left out.
        "attends most to word": "pinv(x) -> pinv(x, rcond=0.01)",
        "expected exactly 0.75": [
            "pinv(x) -> inv(x.T @ x + 1e-6 * torch.eye(x.shape[1], dtype=x.dtype)) @ x.T",
        ],
        FLOAT32: [
            "return w_q, w_k -> return w_q.float(), w_k.float()",
            "torch.linalg.pinv(x) -> torch.linalg.pinv(x.float()).to(x.dtype)",
        ],
        "Expected a pair, `return w_q, w_k`": "return w_q, w_k -> return w_q @ w_k.T",
    },
}

HANDED_IN = {}
