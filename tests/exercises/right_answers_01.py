"""Right answers to 01_embeddings, each part written in several ways."""

import math
from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attentively.word_vectors import WordVectors

# Part 1


def one_hot_by_comparison(ids, vocab_size):
    return (ids.unsqueeze(-1) == torch.arange(vocab_size)).float()


def one_hot_by_the_identity(ids, vocab_size):
    return torch.eye(vocab_size)[ids]


def one_hot_by_scatter(ids, vocab_size):
    return torch.zeros(*ids.shape, vocab_size).scatter(-1, ids.unsqueeze(-1), 1.0)


def one_hot_by_loops(ids, vocab_size):
    flat = torch.zeros(ids.numel(), vocab_size)
    for place, word in enumerate(ids.flatten().tolist()):
        flat[place, word] = 1
    return flat.reshape(*ids.shape, vocab_size)


class Table(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        weight = torch.randn(vocab_size, embedding_dim)
        weight[0] = 0
        self.weight = nn.Parameter(weight)


class TimesTheMask(Table):
    def forward(self, ids):
        return self.weight[ids] * (ids != 0).unsqueeze(-1)


class ByTheLibrary(Table):
    def forward(self, ids):
        return F.embedding(ids, self.weight, padding_idx=0)


class WithADetachedRow(Table):
    def forward(self, ids):
        padding = torch.zeros_like(self.weight[:1])
        return torch.cat([padding, self.weight[1:]])[ids]


class WithAHook(Table):
    """The gradient of row 0 is struck out on its way."""

    def __init__(self, vocab_size, embedding_dim):
        super().__init__(vocab_size, embedding_dim)
        self.weight.register_hook(self.without_padding)

    @staticmethod
    def without_padding(gradient):
        gradient = gradient.clone()
        gradient[0] = 0
        return gradient

    def forward(self, ids):
        return torch.stack([self.weight[word] for word in ids.flatten().tolist()]).view(
            *ids.shape, -1
        )


class BySelecting(Table):
    def forward(self, ids):
        rows = self.weight.index_select(0, ids.reshape(-1))
        return torch.where((ids == 0)[..., None], 0.0, rows.reshape(*ids.shape, -1))


LOOKUPS = [
    (one_hot_by_comparison, TimesTheMask),
    (one_hot_by_the_identity, BySelecting),
    (one_hot_by_scatter, WithADetachedRow),
    (one_hot_by_loops, WithAHook),
]


# Part 2


def gradient_by_index_add(ids, upstream, vocab_size):
    dim = upstream.size(-1)
    gradient = torch.zeros(vocab_size, dim)
    gradient.index_add_(0, ids.reshape(-1), upstream.reshape(-1, dim))
    gradient[0] = 0
    return gradient


def gradient_by_one_hot(ids, upstream, vocab_size):
    places = F.one_hot(ids.reshape(-1), vocab_size).float()
    places[:, 0] = 0
    return places.T @ upstream.reshape(-1, upstream.size(-1))


def gradient_by_loops(ids, upstream, vocab_size):
    gradient = torch.zeros(vocab_size, upstream.size(-1))
    rows = upstream.reshape(-1, upstream.size(-1))
    for place, word in enumerate(ids.flatten().tolist()):
        if word != 0:
            gradient[word] += rows[place]
    return gradient


def gradient_by_einsum(ids, upstream, vocab_size):
    places = (ids.unsqueeze(-1) == torch.arange(vocab_size)) & (ids != 0).unsqueeze(-1)
    return torch.einsum("...v,...d->vd", places.float(), upstream)


def gradient_by_index_put(ids, upstream, vocab_size):
    kept = upstream * (ids != 0).unsqueeze(-1)
    gradient = torch.zeros(vocab_size, upstream.size(-1))
    return gradient.index_put((ids,), kept, accumulate=True)


def rows_by_unique(ids, upstream):
    flat, incoming = ids.reshape(-1), upstream.reshape(-1, upstream.size(-1))
    rows, places = flat[flat != 0].unique(return_inverse=True)
    gradients = torch.zeros(len(rows), upstream.size(-1))
    return rows, gradients.index_add(0, places, incoming[flat != 0])


def rows_by_a_dict(ids, upstream):
    sums = defaultdict(lambda: torch.zeros(upstream.size(-1)))
    incoming = upstream.reshape(-1, upstream.size(-1))
    for word, row in zip(ids.flatten().tolist(), incoming, strict=True):
        if word:
            sums[word] = sums[word] + row
    rows = sorted(sums)
    gradients = torch.zeros(len(rows), upstream.size(-1))
    for place, word in enumerate(rows):
        gradients[place] = sums[word]
    return torch.tensor(rows, dtype=torch.long), gradients


def rows_by_comparison(ids, upstream):
    flat = ids.reshape(-1)
    rows = torch.tensor(sorted({*flat.tolist()} - {0}), dtype=torch.long)
    return [rows, (rows[:, None] == flat).float() @ upstream.reshape(-1, upstream.size(-1))]


BACKWARDS = [
    (gradient_by_index_add, rows_by_unique),
    (gradient_by_one_hot, rows_by_a_dict),
    (gradient_by_loops, rows_by_comparison),
    (gradient_by_einsum, rows_by_unique),
    (gradient_by_index_put, rows_by_comparison),
]


# Part 3


def pairs(sentence, window):
    found = []
    for place, centre in enumerate(sentence):
        for other in range(max(0, place - window), min(len(sentence), place + window + 1)):
            if other != place:
                found.append((centre, sentence[other]))
    return found


def pairs_by_slices(sentence, window):
    found = []
    for place in range(len(sentence)):
        company = sentence[max(0, place - window) : place]
        company += sentence[place + 1 : place + 1 + window]
        found.extend([sentence[place], context] for context in company)
    return found


def pairs_by_distance(sentence, window):
    found = []
    for distance in range(1, window + 1):
        for left, right in zip(sentence, sentence[distance:], strict=False):
            found += [(left, right), (right, left)]
    return found


def loss(v, u, centre, context, negatives):
    seen = (v[centre] * u[context]).sum(dim=1)
    drawn = (u[negatives] @ v[centre].unsqueeze(2)).squeeze(2)
    return (-F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(dim=1)).mean()


def loss_as_a_classification(v, u, centre, context, negatives):
    words = torch.cat([context[:, None], negatives], dim=1)
    scores = torch.einsum("bd,bwd->bw", v[centre], u[words])
    labels = torch.zeros_like(scores)
    labels[:, 0] = 1
    total = F.binary_cross_entropy_with_logits(scores, labels, reduction="sum")
    return total / len(centre)


def loss_by_softplus(v, u, centre, context, negatives):
    total = 0
    for c, o, drawn in zip(centre, context, negatives, strict=True):
        total = total + F.softplus(-torch.dot(u[o], v[c]))
        for n in drawn:
            total = total + F.softplus(torch.dot(u[n], v[c]))
    return total / len(centre)


def loss_by_logaddexp(v, u, centre, context, negatives):
    zero = torch.zeros(())
    seen = torch.einsum("bd,bd->b", v[centre], u[context])
    drawn = torch.einsum("bd,bnd->bn", v[centre], u[negatives])
    losses = torch.logaddexp(zero, -seen) + torch.logaddexp(zero, drawn).sum(1)
    return torch.mean(losses)


SKIP_GRAMS = [
    (pairs, loss),
    (pairs_by_slices, loss_as_a_classification),
    (pairs_by_distance, loss_by_softplus),
    (pairs, loss_by_logaddexp),
]


# Part 4


def nearest(words, vectors, word, count):
    directions = F.normalize(vectors, dim=1)
    cosines = directions @ directions[words.index(word)]
    cosines[words.index(word)] = -torch.inf
    return [words[index] for index in cosines.topk(count).indices.tolist()]


def nearest_by_sorting(words, vectors, word, count):
    x = vectors[words.index(word)]
    cosines = {
        other: float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
        for other, y in zip(words, vectors, strict=True)
        if other != word
    }
    return sorted(cosines, key=cosines.get, reverse=True)[:count]


def nearest_by_numpy(words, vectors, word, count):
    E = vectors.numpy()
    E = E / np.linalg.norm(E, axis=1, keepdims=True)
    order = np.argsort(-(E @ E[words.index(word)]))
    return tuple(words[i] for i in order if words[i] != word)[:count]


def nearest_by_distance_of_directions(words, vectors, word, count):
    """Among vectors of length 1, the nearest are those of the largest cosine."""
    directions = F.normalize(vectors, dim=1)
    distances = torch.cdist(directions[[words.index(word)]], directions)[0]
    return [words[i] for i in distances.argsort().tolist() if words[i] != word][:count]


def analogy(words, vectors, a, b, c, count, exclude):
    directions = F.normalize(vectors, dim=1)
    x, y, z = (directions[words.index(word)] for word in (a, b, c))
    cosines = directions @ (y - x + z)
    if exclude:
        cosines[[words.index(word) for word in (a, b, c)]] = -torch.inf
    return [words[index] for index in cosines.topk(count).indices.tolist()]


def analogy_by_sorting(words, vectors, a, b, c, count, exclude):
    E = dict(zip(words, vectors / vectors.norm(dim=1, keepdim=True), strict=True))
    goal = E[b] - E[a] + E[c]
    candidates = [word for word in words if not (exclude and word in (a, b, c))]
    candidates.sort(key=lambda word: -F.cosine_similarity(E[word], goal, dim=0).item())
    return candidates[:count]


def analogy_by_sums_of_cosines(words, vectors, a, b, c, count, exclude):
    E = F.normalize(vectors, dim=-1)
    cosines = E @ E.T
    total = cosines[words.index(b)] - cosines[words.index(a)] + cosines[words.index(c)]
    order = total.argsort(descending=True).tolist()
    return [words[i] for i in order if not exclude or words[i] not in {a, b, c}][:count]


NEIGHBOURS = [
    (nearest, analogy),
    (nearest_by_sorting, analogy_by_sorting),
    (nearest_by_numpy, analogy_by_sums_of_cosines),
    (nearest_by_distance_of_directions, analogy),
]


# Part 5


def questions_from(pairs):
    return [(a, b, c, d) for a, b in pairs for c, d in pairs if (a, b) != (c, d)]


def questions_by_permutations(pairs):
    return [[*one, *other] for one, other in permutations(pairs, 2)]


def anatomy(words, vectors, questions):
    counts = dict.fromkeys(
        ("asked", "skipped", "right", "right_let_in", "said_c", "right_by_c", "earned"), 0
    )
    directions = F.normalize(vectors, dim=1)
    ids = {word: index for index, word in enumerate(words)}
    for question in questions:
        if any(word not in ids for word in question):
            counts["skipped"] += 1
            continue
        counts["asked"] += 1
        a, b, c, d = (ids[word] for word in question)
        scores = directions @ (directions[b] - directions[a] + directions[c])
        let_in = int(scores.argmax())
        scores[[a, b, c]] = -torch.inf
        left_out = int(scores.argmax())
        alone = directions @ directions[c]
        alone[[a, b, c]] = -torch.inf
        by_c = int(alone.argmax())
        counts["right"] += left_out == d
        counts["right_let_in"] += let_in == d
        counts["said_c"] += let_in == c
        counts["right_by_c"] += by_c == d
        counts["earned"] += left_out == d != by_c
    return counts


def anatomy_by_the_package(words, vectors, questions):
    known = WordVectors(words, vectors)
    asked = [question for question in questions if {*question} <= {*words}]
    left_out, let_in = known.answers(asked), known.answers(asked, exclude=False)
    alone = known.answers(asked, only_c=True)
    right = [answer == d for answer, (*_, d) in zip(left_out, asked, strict=True)]
    by_c = [answer == d for answer, (*_, d) in zip(alone, asked, strict=True)]
    return Counter(
        asked=len(asked),
        skipped=len(questions) - len(asked),
        right=sum(right),
        right_let_in=sum(answer == d for answer, (*_, d) in zip(let_in, asked, strict=True)),
        said_c=sum(answer == c for answer, (_, _, c, _) in zip(let_in, asked, strict=True)),
        right_by_c=sum(by_c),
        earned=sum(one and not other for one, other in zip(right, by_c, strict=True)),
    )


def anatomy_by_other_parts(words, vectors, questions):
    asked = [each for each in questions if all(word in words for word in each)]

    def first(exclude, a, b, c):
        return analogy_by_sorting(words, vectors, a, b, c, 1, exclude)[0]

    def by_c(a, b, c):
        others = nearest_by_sorting(words, vectors, c, len(words) - 1)
        return next(word for word in others if word not in (a, b, c))

    rows = [
        (first(True, *abc) == d, first(False, *abc) == d, first(False, *abc) == abc[2], by_c(*abc))
        for *abc, d in asked
    ]
    goals = [question[3] for question in asked]
    return {
        "asked": np.int64(len(asked)),
        "skipped": len(questions) - len(asked),
        "right": sum(row[0] for row in rows),
        "right_let_in": sum(row[1] for row in rows),
        "said_c": sum(row[2] for row in rows),
        "right_by_c": sum(row[3] == d for row, d in zip(rows, goals, strict=True)),
        "earned": sum(row[0] and row[3] != d for row, d in zip(rows, goals, strict=True)),
    }


ANATOMIES = [
    (questions_from, anatomy),
    (questions_by_permutations, anatomy_by_the_package),
    (questions_from, anatomy_by_other_parts),
]


# Part 6


def step(v, u, centre, context, negatives, learning_rate):
    words = torch.cat([context.unsqueeze(1), negatives], dim=1)
    wanted = torch.zeros(words.shape)
    wanted[:, 0] = 1.0
    scores = torch.einsum("bd,bwd->bw", v[centre], u[words])
    errors = (torch.sigmoid(scores) - wanted) * learning_rate / len(centre)
    to_v = torch.einsum("bw,bwd->bd", errors, u[words])
    to_u = errors.unsqueeze(-1) * v[centre].unsqueeze(1)
    new_v = v.index_add(0, centre, -to_v)
    return new_v, u.index_add(0, words.flatten(), -to_u.flatten(0, 1))


def step_by_loops(v, u, centre, context, negatives, learning_rate):
    new_v, new_u = v.clone(), u.clone()
    rate = learning_rate / len(centre)
    for c, o, drawn in zip(centre.tolist(), context.tolist(), negatives.tolist(), strict=True):
        for word, wanted in [(o, 1.0), *((n, 0.0) for n in drawn)]:
            error = torch.sigmoid(v[c] @ u[word]) - wanted
            new_v[c] -= rate * error * u[word]
            new_u[word] -= rate * error * v[c]
    return [new_v, new_u]


def step_by_one_hot(v, u, centre, context, negatives, learning_rate):
    """Seen and drawn words apart, each gradient by a product with one-hot vectors."""
    at_centre = F.one_hot(centre, len(v)).float()
    seen = torch.sigmoid((v[centre] * u[context]).sum(1)) - 1
    drawn = torch.sigmoid(torch.einsum("bd,bnd->bn", v[centre], u[negatives]))
    to_v = seen[:, None] * u[context] + torch.einsum("bn,bnd->bd", drawn, u[negatives])
    to_u = F.one_hot(context, len(u)).float().T @ (seen[:, None] * v[centre])
    to_u = to_u + torch.einsum(
        "bnw,bn,bd->wd", F.one_hot(negatives, len(u)).float(), drawn, v[centre]
    )
    rate = learning_rate / len(centre)
    return v - rate * at_centre.T @ to_v, u - rate * to_u


STEPS = [step, step_by_loops, step_by_one_hot]

# Each part's right answers, by the name of its check
RIGHT = {
    "lookup": LOOKUPS,
    "backward": BACKWARDS,
    "skip_gram": SKIP_GRAMS,
    "neighbours": NEIGHBOURS,
    "anatomy": ANATOMIES,
    "bug_hunt": STEPS,
}
