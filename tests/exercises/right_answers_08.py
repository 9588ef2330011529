"""Right answers to 08_additive_attention, each part written in several ways."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attentively.metrics import alignment_error_rate

# Part 1


def energies_by_broadcasting(query, keys, W, U, v):
    return torch.tanh((query @ W.T)[:, None, :] + keys @ U.T) @ v


def energies_by_loops(query, keys, W, U, v):
    rows = []
    for s, sentence in zip(query, keys, strict=True):
        rows.append(torch.stack([torch.dot(v, torch.tanh(W.mv(s) + U.mv(h))) for h in sentence]))
    return torch.stack(rows)


def energies_by_einsum(query, keys, W, U, v):
    ws = torch.einsum("hq,bq->bh", W, query)
    uh = torch.einsum("hk,bsk->bsh", U, keys)
    return torch.einsum("h,bsh->bs", v, torch.tanh(ws.unsqueeze(1).expand_as(uh) + uh))


def energies_by_concatenation(query, keys, W, U, v):
    both = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)
    return F.linear(torch.tanh(F.linear(both, torch.cat([W, U], dim=1))), v[None]).squeeze(-1)


def energies_by_exponentials(query, keys, W, U, v):
    x = torch.clamp(torch.matmul(query, W.t()).unsqueeze(1) + torch.matmul(keys, U.t()), -15, 15)
    return ((1 - 2 / (torch.exp(2 * x) + 1)) * v).sum(-1)


ENERGIES = [
    energies_by_broadcasting,
    energies_by_loops,
    energies_by_einsum,
    energies_by_concatenation,
    energies_by_exponentials,
]


# Part 2


class Base(nn.Module):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)

    def scores(self, query, keys):
        hidden = torch.tanh(self.query_projection(query)[:, None] + self.key_projection(keys))
        return self.energy(hidden).squeeze(-1)


class WithFiniteMinimum(Base):
    def forward(self, query, keys, mask=None):
        scores = self.scores(query, keys)
        if mask is None:
            mask = torch.ones_like(scores, dtype=torch.bool)
        weights = F.softmax(torch.where(mask, scores, scores.new_tensor(-1e30)), dim=1) * mask
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


class WithGuardedInfinity(Base):
    """Masks with -inf, and gives a row that would be all -inf something to stand on."""

    def forward(self, query, keys, mask=None):
        scores = self.scores(query, keys)
        if mask is not None:
            nothing = ~mask.any(dim=1, keepdim=True)
            scores = scores.masked_fill(~(mask | nothing), float("-inf"))
        weights = F.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0)
        return (weights.unsqueeze(-1) * keys).sum(dim=1), weights


class WithNaNReplaced(Base):
    """The gradient of masked_fill is zero where it filled in, so no NaN comes back through it."""

    def forward(self, query, keys, mask=None):
        scores = self.scores(query, keys)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        return torch.matmul(weights[:, None], keys)[:, 0], weights


class ByExponentials(Base):
    def forward(self, query, keys, mask=None):
        scores = self.scores(query, keys)
        exponentials = torch.exp(scores - scores.max(dim=1, keepdim=True).values.detach())
        if mask is not None:
            exponentials = exponentials * mask
        weights = exponentials / exponentials.sum(dim=1, keepdim=True).clamp_min(1e-30)
        return torch.einsum("bs,bsd->bd", weights, keys), weights


class ByLoops(Base):
    """Sentence by sentence, and only over the words that may be attended to."""

    def forward(self, query, keys, mask=None):
        contexts, rows = [], []
        for b in range(len(keys)):
            allowed = torch.arange(keys.size(1)) if mask is None else mask[b].nonzero()[:, 0]
            weights = keys.new_zeros(keys.size(1))
            if len(allowed):
                s, h = query[b], keys[b, allowed]
                scores = self.energy((self.query_projection(s) + self.key_projection(h)).tanh())
                weights = weights.index_put((allowed,), scores[:, 0].softmax(0))
            rows.append(weights)
            contexts.append(weights @ keys[b])
        return torch.stack(contexts), torch.stack(rows)


class WithParameters(nn.Module):
    """No nn.Linear in forward, and plain matrices."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        sizes = {
            "query_projection": (hidden_dim, query_dim),
            "key_projection": (hidden_dim, key_dim),
        }
        for name, size in {**sizes, "energy": (1, hidden_dim)}.items():
            holder = nn.Module()
            holder.weight = nn.Parameter(torch.randn(size) / math.sqrt(size[1]))
            self.add_module(name, holder)

    def forward(self, query, keys, mask=None):
        W, U, v = self.query_projection.weight, self.key_projection.weight, self.energy.weight[0]
        scores = torch.tanh(torch.einsum("hq,bq->bh", W, query)[:, None] + keys @ U.T) @ v
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, -1e20)
        weights = scores.softmax(1)
        if mask is not None:
            weights = torch.where(mask, weights, torch.zeros(()))
        return (weights[:, None] @ keys)[:, 0], weights


class ReturnsAList(WithFiniteMinimum):
    def forward(self, query, keys, mask=None):
        return list(super().forward(query, keys, mask))


ATTENTIONS = [
    ReturnsAList,
    WithFiniteMinimum,
    WithGuardedInfinity,
    WithNaNReplaced,
    ByExponentials,
    ByLoops,
    WithParameters,
]


# Part 3


def numbers_kept(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return batch * tgt_len * src_len * hidden_dim


def numbers_kept_by_shape(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return torch.empty(batch, tgt_len, src_len, hidden_dim, device="meta").numel()


def multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    keys = src_len * key_dim * hidden_dim
    step = query_dim * hidden_dim + src_len * hidden_dim + src_len * key_dim
    return batch * (tgt_len * step + (keys if keys_once else tgt_len * keys))


def multiplications_by_loops(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    total = 0
    for _, step in itertools.product(range(batch), range(tgt_len)):
        total += query_dim * hidden_dim
        for _ in range(src_len):
            total += hidden_dim + key_dim
            if step == 0 or not keys_once:
                total += key_dim * hidden_dim
    return total


PREDICTIONS = [
    (numbers_kept, multiplications),
    (numbers_kept_by_shape, multiplications_by_loops),
]


# Part 4


def mended_by_broadcasting(queries, keys, mask, W, U, v):
    scores = torch.tanh((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    mask = mask[:, None]
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask
    return weights @ keys, weights


def mended_query_by_query(queries, keys, mask, W, U, v):
    rows = []
    for t in range(queries.size(1)):
        scores = energies_by_einsum(queries[:, t], keys, W, U, v)
        nothing = ~mask.any(1, keepdim=True)
        weights = scores.masked_fill(~(mask | nothing), -math.inf).softmax(1).masked_fill(~mask, 0)
        rows.append((torch.einsum("bs,bsd->bd", weights, keys), weights))
    contexts, weights = zip(*rows, strict=True)
    return torch.stack(contexts, 1), torch.stack(weights, 1)


def mended_renormalising(queries, keys, mask, W, U, v):
    inside = torch.einsum("btq,hq->bth", queries, W)[:, :, None]
    inside = inside + torch.einsum("bsk,hk->bsh", keys, U)[:, None]
    raw = torch.einsum("btsh,h->bts", inside.tanh(), v).softmax(2) * mask[:, None]
    weights = raw / raw.sum(2, keepdim=True).clamp_min(1e-30)
    return torch.bmm(weights, keys), weights


def mended_in_a_list(*inputs):
    return list(mended_by_broadcasting(*inputs))


def true_statements():
    return {"B", "D", "H"}


def true_statements_in_a_list():
    return ["H", "D", "B"]


MENDED = [
    (true_statements, mended_by_broadcasting),
    (true_statements_in_a_list, mended_query_by_query),
    (true_statements, mended_renormalising),
    (true_statements, mended_in_a_list),
]


# Part 5


def by_hand():
    W = torch.tensor([[2.0], [2.0]])
    U = torch.tensor([[2.0, -2.0], [2.0, 2.0]])
    v = torch.tensor([3.0, -3.0])
    return W, U, v


def by_hand_saturated():
    W = torch.tensor([[-50.0], [50.0]])
    U = torch.tensor([[50.0, -50.0], [50.0, -50.0]])
    return W, U, torch.tensor([-10.0, 10.0])


def by_hand_other_way():
    W = torch.tensor([[9.0], [-9.0]])
    U = torch.tensor([[9.0, -9.0], [-9.0, -9.0]])
    return W, U, torch.tensor([7.0, 7.0])


def query_dependence(scores):
    weights = scores.softmax(dim=-1)
    return (weights.max(dim=0).values - weights.min(dim=0).values).max()


def query_dependence_pair_by_pair(scores):
    rows = [torch.softmax(row, 0).tolist() for row in scores]
    return max(abs(x - y) for a in rows for b in rows for x, y in zip(a, b, strict=True))


def by_hand_in_a_list():
    return [torch.from_numpy(each.numpy().astype(float)) for each in by_hand()]


def query_dependence_by_numpy(scores):
    return np.ptp(scores.softmax(-1).numpy(), axis=0).max()


WHY_TANH = [
    (by_hand, query_dependence),
    (by_hand_other_way, query_dependence_pair_by_pair),
    (by_hand_in_a_list, query_dependence_by_numpy),
]


# Part 6


def links(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(dim=1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def links_by_loops(weights, threshold):
    found = set()
    for i, row in enumerate(weights.tolist()[:-1]):
        row.pop()
        for j, weight in enumerate(row):
            if weight >= threshold * max(row):
                found.add((j, i))
    return found


def experiment(validation, test, thresholds):
    def rate(examples, threshold):
        predicted = [links(weights, threshold) for weights, _ in examples]
        return alignment_error_rate(predicted, [gold for _, gold in examples])

    best = min(thresholds, key=lambda threshold: rate(validation, threshold))
    return best, rate(test, best)


def experiment_by_counting(validation, test, thresholds):
    def rate(examples, threshold):
        common = total = 0
        for weights, gold in examples:
            found = links_by_loops(weights, threshold)
            common += 2 * len(found & gold)
            total += len(found) + len(gold)
        return 1 - common / total

    rates = torch.tensor([rate(validation, threshold) for threshold in thresholds])
    chosen = thresholds[int(rates.argmin())]
    return chosen, torch.tensor(rate(test, chosen))


def least_looked_at(weights):
    return int(weights[:-1, :-1].sum(dim=0).argmin())


def least_looked_at_by_loops(weights):
    rows = weights.tolist()[:-1]
    sums = [sum(column) for column in zip(*rows, strict=True)][:-1]
    return sums.index(min(sums))


def links_by_numpy(weights, threshold):
    words = weights.numpy()[:-1, :-1]
    return set(zip(*np.nonzero((words >= threshold * words.max(1, keepdims=True)).T), strict=True))


def experiment_in_a_list(*data):
    best, rate = experiment(*data)
    return [best, np.float64(float(rate))]


def least_looked_at_by_numpy(weights):
    return weights.numpy()[:-1, :-1].sum(0).argmin()


ALIGNMENT = [
    (links_by_numpy, experiment_in_a_list, least_looked_at_by_numpy),
    (links, experiment, least_looked_at),
    (links_by_loops, experiment_by_counting, least_looked_at_by_loops),
]

# Each part's right answers, by the name of its check
RIGHT = {
    "energies": ENERGIES,
    "attention": ATTENTIONS,
    "predictions": PREDICTIONS,
    "bug_hunt": MENDED,
    "why_tanh": WHY_TANH,
    "alignment": ALIGNMENT,
}
