"""Right answers to 12_self_attention, each written differently."""

import math

import torch
from torch.nn import functional as F

# Part 1


def scores_of(x, word, w_q, w_k):
    query = x[word] @ w_q
    keys = x @ w_k
    return keys @ query / math.sqrt(w_q.size(-1))


def look(scores, x, w_v):
    weights = scores.softmax(dim=-1)
    return weights, weights @ (x @ w_v)


def scores_by_loops(x, word, w_q, w_k):
    query = x[word] @ w_q
    return torch.stack([(query * (each @ w_k)).sum() / w_k.shape[1] ** 0.5 for each in x])


def look_by_loops(scores, x, w_v):
    powers = (scores - scores.max()).exp()
    weights = powers / powers.sum()
    output = torch.zeros(w_v.shape[1])
    for weight, each in zip(weights, x, strict=True):
        output = output + weight * (each @ w_v)
    return [weights, output]


def scores_of_all_and_one_row(x, word, w_q, w_k):
    return torch.einsum("id,jd->ij", x @ w_q, x @ w_k).double()[word] / math.sqrt(len(w_k[0]))


def look_values_last(scores, x, w_v):
    weights = torch.softmax(scores, 0)
    return weights, torch.einsum("j,jd,de->e", weights, x, w_v).double()


ONE_WORD = [
    (scores_of, look),
    (scores_by_loops, look_by_loops),
    (scores_of_all_and_one_row, look_values_last),
]

# Part 2


def mask_for(ids, pad_id, causal):
    size = ids.size(1)
    mask = (ids != pad_id).unsqueeze(1).expand(-1, size, size)
    return mask & torch.ones(size, size, dtype=torch.bool).tril() if causal else mask


def blind(mask):
    return ~mask.any(dim=-1)


def mask_by_loops(ids, pad_id, causal):
    batch, size = ids.shape
    mask = torch.zeros(batch, size, size, dtype=torch.bool)
    for sentence in range(batch):
        for query in range(size):
            for key in range(size):
                seen = ids[sentence, key] != pad_id and (key <= query or not causal)
                mask[sentence, query, key] = bool(seen)
    return mask


def blind_by_counting(mask):
    return mask.sum(dim=2) == 0


def mask_by_places(ids, pad_id, causal):
    at = torch.arange(ids.shape[1])
    hidden = (ids == pad_id)[:, None, :].repeat(1, ids.shape[1], 1)
    if causal:
        hidden = hidden | (at[None, :] > at[:, None])
    return hidden.logical_not()


def mask_as_lists(ids, pad_id, causal):
    return [
        [
            [token != pad_id and (key <= query or not causal) for key, token in enumerate(sentence)]
            for query in range(len(sentence))
        ]
        for sentence in ids.tolist()
    ]


def blind_as_lists(mask):
    return [[not any(row) for row in sentence] for sentence in mask.tolist()]


MASKS = [
    (mask_for, blind),
    (mask_by_loops, blind_by_counting),
    (mask_by_places, blind_as_lists),
    (mask_as_lists, blind),
]

# Part 3


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


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


def attention_mended_afterwards(query, key, value, mask=None):
    scores = torch.matmul(query, key.swapaxes(-1, -2)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    weights = F.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights.double() @ value.double(), weights


ATTENTION = [
    scaled_dot_product_attention,
    attention_by_einsum,
    attention_with_infinity,
    attention_mended_afterwards,
]

# Part 4


def leaked(scores, mask, d_k, fill, before):
    root = math.sqrt(d_k)
    low = torch.where(mask, 0.0, fill)
    scores = (scores - low) / root if before else scores / root - low
    return (scores.softmax(dim=-1) * ~mask).sum(dim=-1)


def enough(bound, d_k, seen, hidden, share, before):
    root = math.sqrt(d_k)
    number = 2 * bound / root + math.log(hidden * (1 - share) / (seen * share))
    return max(0.0, number * root if before else number)


def leaked_by_odds(scores, mask, d_k, fill, before):
    """The share is what a sigmoid makes of the difference of two logarithms."""
    scores = scores / d_k**0.5
    hidden = scores.masked_fill(mask, -torch.inf).logsumexp(-1)
    seen = scores.masked_fill(~mask, -torch.inf).logsumexp(-1)
    return torch.sigmoid(hidden - fill / (d_k**0.5 if before else 1) - seen).double()


def enough_by_trying(bound, d_k, seen, hidden, share, before):
    """Halve the interval, on the worst scores that the bound allows."""
    root = d_k**0.5

    def worst(number):
        apart = (2 * bound - number) / root if before else 2 * bound / root - number
        return hidden / (hidden + seen * math.exp(min(-apart, 700)))

    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if worst(middle) > share else (low, middle)
    return torch.tensor(high)


FINITE = [(leaked, enough), (leaked_by_odds, enough_by_trying)]

# Part 5


def reached(model, ids, real, vocab_size):
    size = len(ids)
    before = model(ids.unsqueeze(0), real.unsqueeze(0))[0]
    found = torch.zeros(size, size, dtype=torch.bool)
    for place in range(size):
        changed = ids.repeat(vocab_size, 1)
        changed[:, place] = torch.arange(vocab_size)
        after = model(changed, real.repeat(vocab_size, 1))
        found[:, place] = ((after - before).abs() > 1e-4).any(dim=-1).any(dim=0)
    return found


def faults(reached, real):
    size = len(real)
    may = torch.ones(size, size, dtype=torch.bool).tril() & real
    asked = real.unsqueeze(1)
    leaks = reached & ~may & asked
    missing = ~reached & may & asked
    return {
        "leaks": [tuple(pair) for pair in leaks.nonzero().tolist()],
        "missing": [tuple(pair) for pair in missing.nonzero().tolist()],
    }


def reached_by_loops(model, ids, real, vocab_size):
    before = model(ids[None], real[None])
    rows = [[False] * len(ids) for _ in ids]
    for place in range(len(ids)):
        for token in range(vocab_size):
            changed = ids.clone()
            changed[place] = token
            difference = (model(changed[None], real[None]) - before)[0]
            for output, vector in enumerate(difference):
                rows[output][place] |= bool(vector.abs().max() > 1e-4)
    return rows


def faults_by_loops(reached, real):
    found = {"missing": [], "leaks": []}
    for output in range(len(real)):
        if not real[output]:
            continue
        for place in range(len(real)):
            allowed = place <= output and bool(real[place])
            if bool(reached[output][place]) and not allowed:
                found["leaks"].append([output, place])
            elif allowed and not reached[output][place]:
                found["missing"].append([output, place])
    return found


def reached_all_at_once(model, ids, real, vocab_size):
    size = len(ids)
    swap = torch.eye(size, dtype=torch.bool)[:, None, :]
    changed = torch.where(swap, torch.arange(vocab_size)[None, :, None], ids).flatten(0, 1)
    outputs = model(torch.cat([ids[None], changed]), real.expand(len(changed) + 1, size))
    apart = (outputs[1:] - outputs[:1]).abs().amax(dim=-1).unflatten(0, (size, vocab_size))
    return (apart.amax(dim=1) > 1e-4).T


def faults_as_tensors(reached, real):
    found = faults(reached, real)
    return {name: torch.tensor(pairs).reshape(-1, 2) for name, pairs in found.items()}


LEAKS = [(reached, faults), (reached_by_loops, faults_by_loops)]
LEAKS += [(reached_all_at_once, faults_as_tensors)]

# Part 6


def aim(x, target, share):
    words = len(target)
    strength = math.log((words - 1) * share / (1 - share)) * math.sqrt(words)
    turn = torch.linalg.pinv(x)  # (d_model, words): x @ turn is the identity
    return turn @ (strength * torch.eye(words)[target]), turn


def aim_with_padded_queries(x, target, share):
    """A longer d_k has a larger root."""
    words = len(target)
    w_k = torch.cat([torch.linalg.pinv(x), torch.zeros(x.shape[1], 3)], dim=1).double()
    aimed = torch.zeros(words, words + 3)
    for word, other in enumerate(target):
        aimed[word, other] = math.log(share) - math.log((1 - share) / (words - 1))
    return torch.linalg.lstsq(x, aimed * (words + 3) ** 0.5).solution, w_k


def aim_from_the_scores(x, target, share):
    """Take the scores apart, after a number was added to each row, which changes no weight."""
    words = len(target)
    weights = torch.full((words, words), (1 - share) / (words - 1))
    weights[range(words), target] = share
    inverse = x.T @ torch.linalg.inv(x @ x.T)
    left, sizes, right = torch.linalg.svd(weights.log() * words**0.5 + 1.0)
    return inverse @ left * sizes.sqrt(), inverse @ right.T * sizes.sqrt()


AIMS = [aim, aim_with_padded_queries, aim_from_the_scores]

RIGHT = {
    "one_word": ONE_WORD,
    "masks": MASKS,
    "attention": ATTENTION,
    "finite": FINITE,
    "leaks": LEAKS,
    "aim": AIMS,
}
