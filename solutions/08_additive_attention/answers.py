"""Answers to the parts of additive attention, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attentively.additive import AdditiveAttention

# Part 1


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


# Part 3


def numbers_kept_by_shape(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return torch.empty(batch, tgt_len, src_len, hidden_dim, device="meta").numel()


def multiplications_by_loops(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    total = 0
    for _, step in itertools.product(range(batch), range(tgt_len)):
        total += query_dim * hidden_dim
        for _ in range(src_len):
            total += hidden_dim + key_dim
            if step == 0 or not keys_once:
                total += key_dim * hidden_dim
    return total


# Part 4


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
    return list(mended_renormalising(*inputs))


def true_statements_in_a_list():
    return ["H", "D", "B"]


# Part 5


def by_hand_saturated():
    W = torch.tensor([[-50.0], [50.0]])
    U = torch.tensor([[50.0, -50.0], [50.0, -50.0]])
    return W, U, torch.tensor([-10.0, 10.0])


def by_hand_other_way():
    W = torch.tensor([[9.0], [-9.0]])
    U = torch.tensor([[9.0, -9.0], [-9.0, -9.0]])
    return W, U, torch.tensor([7.0, 7.0])


def query_dependence_pair_by_pair(scores):
    rows = [torch.softmax(row, 0).tolist() for row in scores]
    return max(abs(x - y) for a in rows for b in rows for x, y in zip(a, b, strict=True))


def by_hand_in_float64():
    return [torch.from_numpy(each.numpy().astype(float)) for each in by_hand_other_way()]


def by_hand_in_lists():
    return [[2], [2]], [[2, -2], [2, 2]], [3, -3]


def by_hand_in_integers():
    return tuple(each.long() for each in by_hand_other_way())


def query_dependence_by_numpy(scores):
    return np.ptp(scores.softmax(-1).numpy(), axis=0).max()


# Part 6


def links_by_loops(weights, threshold):
    found = set()
    for i, row in enumerate(weights.tolist()[:-1]):
        row.pop()
        for j, weight in enumerate(row):
            if weight >= threshold * max(row):
                found.add((j, i))
    return found


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


def least_looked_at_by_loops(weights):
    rows = weights.tolist()[:-1]
    sums = [sum(column) for column in zip(*rows, strict=True)][:-1]
    return sums.index(min(sums))


def links_by_numpy(weights, threshold):
    words = weights.numpy()[:-1, :-1]
    return set(zip(*np.nonzero((words >= threshold * words.max(1, keepdims=True)).T), strict=True))


def experiment_in_a_list(*data):
    best, rate = experiment_by_counting(*data)
    return [best, np.float64(rate)]


def least_looked_at_by_numpy(weights):
    return weights.numpy()[:-1, :-1].sum(0).argmin()


# Each part's right answers, by the name of its check


RIGHT = {
    "energies": [
        energies_by_loops,
        energies_by_einsum,
        energies_by_concatenation,
        energies_by_exponentials,
    ],
    "AdditiveAttention": [
        ReturnsAList,
        WithFiniteMinimum,
        WithGuardedInfinity,
        WithNaNReplaced,
        ByExponentials,
        ByLoops,
        WithParameters,
    ],
    "numbers_kept": [numbers_kept_by_shape],
    "multiplications": [multiplications_by_loops],
    "true_statements": [true_statements_in_a_list],
    "mended_attention": [mended_query_by_query, mended_renormalising, mended_in_a_list],
    "by_hand": [
        by_hand_saturated,
        by_hand_other_way,
        by_hand_in_float64,
        by_hand_in_lists,
        by_hand_in_integers,
    ],
    "query_dependence": [query_dependence_pair_by_pair, query_dependence_by_numpy],
    "links": [links_by_loops, links_by_numpy],
    "experiment": [experiment_by_counting, experiment_in_a_list],
    "least_looked_at": [least_looked_at_by_loops, least_looked_at_by_numpy],
}


# Wrong answers whose message is not a diagnosis of questions.py, or that make its mistake otherwise

LOWEST = "torch.finfo(scores.dtype).min"
MULTIPLIED = "weights = scores.softmax(dim=-1) * mask"
FILL = f"scores = scores.masked_fill(~mask, {LOWEST})"
ONE_TANH = "scores = torch.tanh(projected_query + projected_keys) @ v"
TWO_TANH = f"{ONE_TANH} -> scores = (projected_query.tanh() + projected_keys.tanh()) @ v"
DETACHED = "contexts = weights @ keys -> contexts = weights.detach() @ keys"
MASK_LATE = f"{FILL} -> pass"
NORMALISED_AGAIN = (
    f"{MULTIPLIED} -> weights = scores.softmax(dim=-1) * mask\n"
    "    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)"
)


def stops_at_the_first_rise(validation, test, thresholds):
    chosen, best = thresholds[0], math.inf
    for threshold in thresholds:
        rate = experiment_by_counting(validation, validation, [threshold])[1]
        if rate > best:
            break
        chosen, best = threshold, rate
    return experiment_by_counting(validation, test, [chosen])


def starts_at_one(validation, test, thresholds):
    chosen, best = None, 1.0
    for threshold in thresholds:
        rate = experiment_by_counting(validation, validation, [threshold])[1]
        if rate < best:
            chosen, best = threshold, rate
    return experiment_by_counting(validation, test, [chosen])


class OtherNames(nn.Module):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.W = nn.Linear(query_dim, hidden_dim, bias=False)
        self.U = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v = nn.Linear(hidden_dim, 1, bias=False)


class NotAModule:
    def __init__(self, query_dim, key_dim, hidden_dim):
        pass


class ThePackagesInDisguise(AdditiveAttention):
    pass


WRONG = {
    "energies": {
        "Return one score for each key": "@ v -> * v",
        # The exponential of a large sum is infinite.
        "There is NaN in scores": (
            "torch.tanh(projected_query + projected_keys) -> (x - 1 / x) / (x + 1 / x)",
            "    scores -> \n    x = torch.exp(projected_query + projected_keys)\n    scores",
        ),
    },
    "AdditiveAttention": {
        "Every weight is 1": (
            "scores.softmax(dim=-1) -> scores.unsqueeze(-1).softmax(dim=-1).squeeze(-1)"
        ),
        "the value that replaces the masked scores is positive": (
            f"{LOWEST} -> 1e9",
            f"{MULTIPLIED} -> weights = scores.softmax(dim=-1)",
        ),
        "close to 0 before the softmax (filled with 0 or 1e-9": f"{LOWEST} -> 1e-9",
        "or multiplied by the mask": f"{FILL} -> scores = scores * mask",
        "In this call mask is None": "if mask is None -> if False",
        "It must receive exactly 0. Use torch.finfo": (
            f"{LOWEST} -> -9.0",
            f"{MULTIPLIED} -> weights = scores.softmax(dim=-1)",
        ),
        "normalised again after the softmax": [
            (MASK_LATE, NORMALISED_AGAIN.replace("\n    ", "\n        ")),
            (
                MASK_LATE,
                f"{MULTIPLIED} -> {MULTIPLIED}\n"
                "        weights = weights / (weights.sum(-1, keepdim=True) + 1e-9)",
            ),
        ],
        "a softmax over -inf only, or a division by a sum of 0": [
            f"{MULTIPLIED} -> {MULTIPLIED}\n"
            "        weights = weights / weights.sum(-1, keepdim=True)",
            f"{LOWEST} -> -float('inf')",
        ],
        # Here NaN comes back with the gradient: adding passes it on, filling in does not.
        "does not remove it from the gradient": (
            f"{FILL} -> scores = scores + mask.float().log()",
            f"{MULTIPLIED} -> weights = scores.softmax(dim=-1).nan_to_num(0.0)",
        ),
        "Its scores are all equal": f"{MULTIPLIED} -> weights = scores.softmax(dim=-1)",
        "no gradient reaches query": "(weights.unsqueeze -> (weights.detach().unsqueeze",
        "This concerns the returned weights": (
            "return context, weights -> return context, weights.detach()"
        ),
        "in the wrong order: return context, weights": (
            "return context, weights -> return weights, context"
        ),
        "Expected a pair": "return context, weights -> return context",
        "Your class has the bias query_projection.bias": (
            "nn.Linear(query_dim, hidden_dim, bias=False) -> nn.Linear(query_dim, hidden_dim)"
        ),
        "nn.Linear(in_features, out_features)": (
            "nn.Linear(query_dim, hidden_dim, bias -> nn.Linear(hidden_dim, query_dim, bias"
        ),
        "raises RuntimeError: The size of tensor a": ".unsqueeze(1) -> ",
        # The tanh twice: the softmax cancels the term of the query.
        "The query has no influence on the weights: it is left out": (
            "torch.tanh(projected_query + projected_keys) -> "
            "(projected_query.tanh() + projected_keys.tanh())"
        ),
        "Your class lacks the parameter(s) energy.weight": OtherNames,
        "must be a subclass of torch.nn.Module": NotAModule,
        "not accepted. Your code uses": [
            AdditiveAttention,
            ThePackagesInDisguise,
        ],
    },
    "mended_attention": {
        "They sum to 1 over the target positions (dim=1)": [
            "softmax(dim=-1) -> softmax(dim=1)",
            (
                TWO_TANH,
                MASK_LATE,
                f"{MULTIPLIED} -> weights = scores.softmax(dim=1) * mask",
                "contexts = weights @ keys -> contexts = weights.detach() @ keys / keys.size(1)",
            ),
        ],
        "They sum to 1 over the sentences of the batch (dim=0)": (
            "softmax(dim=-1) -> softmax(dim=0)"
        ),
        "the weights do not depend on the query": [
            TWO_TANH,
            f"{ONE_TANH} -> scores = (projected_query + projected_keys) @ v",
        ],
        "All weights are 0, although no position is masked": (
            "mask = mask.unsqueeze(1) -> mask = ~mask.unsqueeze(1)"
        ),
        "All weights are equal (1/3), although no position is masked": (
            "masked_fill(~mask -> masked_fill(mask",
            f"{MULTIPLIED} -> weights = scores.softmax(dim=-1)",
        ),
        "Return one vector for each target position": (
            "contexts = weights @ keys -> "
            "contexts = (weights.unsqueeze(-1) * keys.unsqueeze(1)).sum(1)"
        ),
        "they are not the softmax of v·tanh(W s + U h)": "queries @ W.T -> queries @ -W.T",
        "the weight of the masked positions is lost": MASK_LATE,
        "but must receive exactly 0": (
            f"{FILL} -> scores = scores * mask",
            f"{MULTIPLIED} -> weights = scores.softmax(dim=-1)",
        ),
        "no gradient reaches queries": DETACHED,
        "the gradient of keys is not: a part of it is missing": (
            "contexts = weights @ keys -> contexts = weights @ keys.detach()"
        ),
        "A mask may exclude any position, not only the last ones": (
            "mask = mask.unsqueeze(1) -> "
            "mask = (torch.arange(mask.size(1)) < mask.sum(dim=1, keepdim=True)).unsqueeze(1)"
        ),
        "Possible causes: a softmax over -inf only": f"{LOWEST} -> -float('inf')",
        "in the wrong order: return contexts, weights": (
            "return contexts, weights -> return weights, contexts"
        ),
        "This concerns the returned weights": (
            "return contexts, weights -> return contexts, weights.detach()"
        ),
        "normalised again after the softmax": (MASK_LATE, NORMALISED_AGAIN),
        "not low enough: on this input all other scores are lower": f"{LOWEST} -> -100.0",
        "A masked position received weight": "mask.unsqueeze(1) -> mask[:1].unsqueeze(1)",
        "but the contexts are not the sums of the keys": (
            "weights @ keys -> weights @ keys / mask.sum(-1, keepdim=True).clamp(min=1)"
        ),
        "The shape of contexts is (2, 1), expected (2, 2, 1)": (
            "return contexts, weights -> return contexts[:, 0], weights[:, 0]"
        ),
        "Correct so far: weights sum to 1 without a mask": (TWO_TANH, MASK_LATE),
    },
    "numbers_kept": {"a different number of values": "return batch -> return 2 * batch"},
    "query_dependence": {
        "query_dependence must return one number": "changes.max().item() -> changes",
        "the result is not the largest change": [
            "changes.max() -> changes[0]",
            "changes.max().item() -> round(changes.max().item(), 2)",
        ],
    },
    "links": {
        "these links are too many": [
            "words >= -> words + 0.01 >=",
            "words = weights[:-1, :-1] -> words = F.pad(weights[:-1, :-1], (0, 1))",
        ],
        # With threshold 0 a weight of 0 is linked; with 1 each of two largest weights.
        "links are missing": [
            "linked.nonzero() -> (words * linked).nonzero()",
            "return -> if threshold == 1:\n"
            "        return {(j, i) for i, j in enumerate(words.argmax(dim=1).tolist())}\n"
            "    return",
        ],
        "compares tensors by identity": "linked.nonzero().tolist() -> linked.nonzero()",
        "links must return a set of pairs": (
            "{(j, i) for i, j in linked.nonzero().tolist()} -> "
            "[(j, i) for i, j in linked.nonzero().tolist()]"
        ),
    },
    "experiment": {
        "experiment must return two numbers": "return best, rate(test, best) -> return best",
        "is not the one with the lowest alignment error rate": stops_at_the_first_rise,
        "raises TypeError": starts_at_one,
    },
    "least_looked_at": {
        "does not have the smallest total weight": [
            ".sum(dim=0).argmin() -> .sum(dim=0).sub(1).abs().argmax()",
            ".sum(dim=0) -> .prod(dim=0)",
        ],
    },
}


HANDED_IN = {
    # Right, and with a warning on stderr, which costs nothing; and a cell that cannot be run.
    "warned": (
        {
            "energies": "import warnings\n\n\n"
            "def energies(query, keys, W, U, v):\n"
            '    warnings.warn("this is only a warning")\n'
            "    return torch.tanh((query @ W.T).unsqueeze(1) + keys @ U.T) @ v\n",
            "bug-hunt": "def true_statements(:\n    return {1}\n",
        },
        ["bug-hunt-check"],
        "`true_statements` is not defined",
    ),
}
