"""Answers to the parts of embeddings, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attentively.checks.edits import edited_source, source_of
from attentively.checks.recordings import load_questions
from attentively.embedding import TokenEmbedding
from attentively.skip_gram import context_pairs
from attentively.word_vectors import WordVectors

questions = load_questions(Path(__file__).with_name("questions.py"))
Embedding = questions.Embedding

# Part 1


def one_hot_by_scatter(ids, vocab_size):
    return torch.zeros(*ids.shape, vocab_size).scatter(-1, ids.unsqueeze(-1), 1.0)


def one_hot_for_one_sentence(ids, vocab_size):
    vectors = torch.zeros(len(ids), vocab_size)
    vectors[range(len(ids)), ids] = 1
    return vectors


class WithADetachedRow(Embedding):
    def forward(self, ids):
        padding = torch.zeros_like(self.weight[:1])
        return torch.cat([padding, self.weight[1:]])[ids]


class WithAHook(Embedding):
    """The gradient of row 0 is set to zero on its way."""

    def __init__(self, vocab_size, embedding_dim):
        super().__init__(vocab_size, embedding_dim)
        self.weight.register_hook(self.without_padding)

    @staticmethod
    def without_padding(gradient):
        gradient = gradient.clone()
        gradient[0] = 0
        return gradient

    def forward(self, ids):
        rows = [self.weight[word] for word in ids.flatten().tolist()]
        return torch.stack(rows).view(*ids.shape, -1)


class WithPyTorchsInside(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.table = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)


class OfPyTorch(nn.Embedding):
    pass


class ByPyTorch(Embedding):
    def forward(self, ids):
        return F.embedding(ids, self.weight, padding_idx=0)


class ByPyTorchsBag(Embedding):
    def forward(self, ids):
        rows = F.embedding_bag(ids.reshape(-1, 1), self.weight, padding_idx=0, mode="sum")
        return rows.view(*ids.shape, -1)


class Sparse(Embedding):
    def forward(self, ids):
        rows = F.embedding(ids.reshape(-1), self.weight, padding_idx=0, sparse=True)
        return rows.view(*ids.shape, -1)


class NoModule:
    def __init__(self, vocab_size, embedding_dim):
        pass


# Part 2


def gradient_by_one_hot(ids, upstream, vocab_size):
    positions = F.one_hot(ids.reshape(-1), vocab_size).float()
    positions[:, 0] = 0
    return positions.T @ upstream.reshape(-1, upstream.size(-1))


def gradient_by_loops(ids, upstream, vocab_size):
    gradient = torch.zeros(vocab_size, upstream.size(-1))
    rows = upstream.reshape(-1, upstream.size(-1))
    for position, word in enumerate(ids.flatten().tolist()):
        if word != 0:
            gradient[word] += rows[position]
    return gradient


def gradient_by_autograd(ids, upstream, vocab_size):
    table = torch.zeros(vocab_size, upstream.size(-1), requires_grad=True)
    (F.embedding(ids, table, padding_idx=0) * upstream).sum().backward()
    return table.grad


def gradient_by_autograd_turned_on_again(*inputs):
    with torch.inference_mode(False), torch.enable_grad():
        return gradient_by_autograd(*(each + 0 for each in inputs))


def gradient_by_a_transformation(ids, upstream, vocab_size):
    def loss(table):
        return (table[ids] * (ids != 0).unsqueeze(-1) * upstream).sum()

    return torch.func.grad(loss)(torch.zeros(vocab_size, upstream.size(-1)))


def rows_by_a_dict(ids, upstream):
    sums = defaultdict(lambda: torch.zeros(upstream.size(-1)))
    incoming = upstream.reshape(-1, upstream.size(-1))
    for word, row in zip(ids.flatten().tolist(), incoming, strict=True):
        if word:
            sums[word] = sums[word] + row
    rows = sorted(sums)
    gradients = torch.zeros(len(rows), upstream.size(-1))
    for position, word in enumerate(rows):
        gradients[position] = sums[word]
    return torch.tensor(rows, dtype=torch.long), gradients


def rows_by_comparison(ids, upstream):
    flat = ids.reshape(-1)
    rows = torch.tensor(sorted({*flat.tolist()} - {0}), dtype=torch.long)
    return [rows, (rows[:, None] == flat).float() @ upstream.reshape(-1, upstream.size(-1))]


def rows_of_the_whole_table(ids, upstream):
    gradient = questions.table_gradient(ids, upstream, int(ids.max()) + 1)
    rows = gradient.abs().sum(1).nonzero().flatten()
    return rows, gradient[rows]


# Part 3


def pairs_by_slices(sentence, window):
    found = []
    for i in range(len(sentence)):
        near = sentence[max(0, i - window) : i] + sentence[i + 1 : i + 1 + window]
        found.extend([sentence[i], context] for context in near)
    return found


def pairs_by_distance(sentence, window):
    found = []
    for distance in range(1, window + 1):
        for left, right in zip(sentence, sentence[distance:], strict=False):
            found += [(left, right), (right, left)]
    return found


def pairs_in_a_tensor(sentence, window):
    return torch.tensor(questions.pairs(sentence, window))


def pairs_by_the_package(sentence, window):
    return [*context_pairs(sentence, window)]


def negative_indices(sentence, window):
    """A slice with a negative start is empty."""
    found = []
    for i, centre in enumerate(sentence):
        near = sentence[i - window : i] + sentence[i + 1 : i + 1 + window]
        found += [(centre, context) for context in near]
    return found


def negative_positions(sentence, window):
    """A negative index counts from the end."""
    found = []
    for i, centre in enumerate(sentence):
        for j in range(i - window, i + window + 1):
            if j != i and j < len(sentence):
                found.append((centre, sentence[j]))
    return found


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


# Part 4


def nearest_by_sorting(words, vectors, word, count):
    x = vectors[words.index(word)]
    cosines = {
        other: float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
        for other, y in zip(words, vectors, strict=True)
        if other != word
    }
    return sorted(cosines, key=cosines.get, reverse=True)[:count]


def nearest_by_numpy(words, vectors, word, count):
    """The words are NumPy's strings."""
    E = vectors.numpy()
    E = E / np.linalg.norm(E, axis=1, keepdims=True)
    order = np.argsort(-(E @ E[words.index(word)]))
    known = np.array(words)[order]
    return tuple(known[known != word][:count])


def nearest_by_the_package(words, vectors, word, count):
    return [each.word for each in WordVectors(words, vectors).nearest(word, count)]


def half_a_cosine(words, vectors, word, count):
    """Only the vector of the word itself is normalised."""
    scores = vectors @ F.normalize(vectors[words.index(word)], dim=0)
    order = scores.argsort(descending=True).tolist()
    return [words[i] for i in order if words[i] != word][:count]


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


def analogy_by_the_package(words, vectors, a, b, c, count, exclude):
    return [each.word for each in WordVectors(words, vectors).analogy(a, b, c, count, exclude)]


# Part 5


def questions_by_permutations(pairs):
    return [[*one, *other] for one, other in permutations(pairs, 2)]


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


def anatomy_by_numpy(*inputs):
    return {name: np.int64(count) for name, count in questions.anatomy(*inputs).items()}


# Part 6


def step_by_loops(v, u, centre, context, negatives, learning_rate):
    new_v, new_u = v.clone(), u.clone()
    rate = learning_rate / len(centre)
    for c, o, drawn in zip(centre.tolist(), context.tolist(), negatives.tolist(), strict=True):
        for word, wanted in [(o, 1.0), *((n, 0.0) for n in drawn)]:
            error = torch.sigmoid(v[c] @ u[word]) - wanted
            new_v[c] -= rate * error * u[word]
            new_u[word] -= rate * error * v[c]
    return [new_v, new_u]


def step_by_autograd(v, u, centre, context, negatives, learning_rate):
    v, u = v.clone().requires_grad_(), u.clone().requires_grad_()
    questions.loss(v, u, centre, context, negatives).backward()
    return v - learning_rate * v.grad, u - learning_rate * u.grad


RIGHT = {
    "one_hot": [one_hot_by_scatter, lambda ids, size: torch.eye(size)[ids]],
    "Embedding": [WithADetachedRow, WithAHook],
    "table_gradient": [gradient_by_one_hot, gradient_by_loops],
    "touched_rows": [rows_by_a_dict, rows_by_comparison],
    "pairs": [pairs_by_slices, pairs_by_distance, pairs_in_a_tensor],
    "loss": [loss_as_a_classification, loss_by_softplus],
    "nearest": [nearest_by_sorting, nearest_by_numpy],
    "analogy": [analogy_by_sorting, analogy_by_sums_of_cosines],
    "questions_from": [questions_by_permutations],
    "anatomy": [anatomy_by_the_package, anatomy_by_numpy],
    "mended_step": [step_by_loops],
}

LOOKED_UP = "self.weight[ids] * is_word"
PARAMETER = "self.weight = nn.Parameter(table)"
OWN_ONE_HOT = "(ids.unsqueeze(-1) == torch.arange(len(self.weight))).float()"
FAULTS = questions.FAULTS
# Fails if two of the words are the same.
IN_TURN = "[others.remove(each) for each in (a, b, c)]"
NOT_ACCEPTED = "not accepted. Your code uses"

WRONG = {
    "one_hot": {
        "cannot be multiplied by a table of 32-bit floats": "is_word.float() -> is_word.long()",
        "Expected the shape of ids, followed by one axis of size": one_hot_for_one_sentence,
        NOT_ACCEPTED: lambda ids, vocab_size: F.one_hot(ids, vocab_size).float(),
    },
    "Embedding": {
        "the row of padding receives a gradient": [
            f"{LOOKED_UP} -> self.weight[ids]",
            # Zero in every lookup, and yet a gradient flows into the row
            f"{LOOKED_UP} -> self.weight[ids]\n        self.weight.data[0] = 0",
        ],
        "row 0, is not zero at initialisation": "table[0] = 0 -> pass",
        "all words have the same initial vector": "torch.randn -> torch.zeros",
        "some initial values are not finite": "torch.randn( -> torch.inf * torch.ones(",
        "computed by a matrix product": [
            f"{LOOKED_UP} -> {OWN_ONE_HOT}[..., 1:] @ self.weight[1:]",
            f'{LOOKED_UP} -> torch.einsum("...v,vd->...d", {OWN_ONE_HOT}, self.weight) * is_word',
        ],
        "two instances have the same initial values": (
            "super().__init__() -> super().__init__()\n        torch.manual_seed(0)"
        ),
        "but not a parameter, so an optimiser does not find it": (
            f"{PARAMETER} -> self.weight = table"
        ),
        "The shape of weight is (2, 4), expected a row for each word": (
            f"{PARAMETER} -> self.weight = nn.Parameter(table.T)"
        ),
        "The class has more than the parameter weight: scale": (
            f"{PARAMETER} -> {PARAMETER}\n        self.scale = nn.Parameter(torch.ones(()))"
        ),
        "weight; the parameters are ['table.weight']": WithPyTorchsInside,
        "no gradient flows through them": "self.weight[ids] -> self.weight.data[ids]",
        "no gradient reaches weight": (
            "self.weight[ids] -> self.weight.detach().clone().requires_grad_()[ids]"
        ),
        "the gradient of weight is not. Does your code use": [
            "self.weight[ids] -> (self.weight[ids] + self.weight.detach()[ids]) / 2",
            "is_word = (ids != 0).unsqueeze(-1) -> is_word = self.weight[ids] != 0",
        ],
        "the lookup changes the table": (
            "return vectors -> self.weight.data[1] += 1\n        return vectors"
        ),
        "Your code raises": (
            "vectors = -> vectors = torch.stack([self.weight[int(i)] * bool(i) for i in ids])  #"
        ),
        "Expected the vectors as a torch.Tensor, got a list": (
            "return vectors -> return vectors.tolist()"
        ),
        "got None: is there a `return`?": "return vectors -> vectors",
        # Right by itself; inside a model, the sizes are others.
        "after two training steps": (
            "vectors = -> is_word = is_word | (len(self.weight) == 11)\n        vectors ="
        ),
        "the trained model's weights": (
            "return vectors -> return vectors * (0.5 if len(self.weight) > 100 else 1)"
        ),
        "derives from torch.nn.Module": NoModule,
        "this is an instance. Pass the class": Embedding(5, 2),
        NOT_ACCEPTED: [OfPyTorch, ByPyTorch, ByPyTorchsBag, Sparse, TokenEmbedding],
    },
    "table_gradient": {
        "because a second assignment to a row overwrites the first": (
            f"{questions.ADDED} -> gradient[flat] += incoming"
        ),
        "The check turns autograd off": [
            gradient_by_autograd,
            gradient_by_autograd_turned_on_again,
            gradient_by_a_transformation,
        ],
        "changes its input upstream": "dim = -> upstream[ids == 0] = 0\n    dim =",
    },
    "touched_rows": {
        "as long as the largest id": rows_of_the_whole_table,
        "padding, id 0, is among the rows": "flat != 0 -> flat >= 0",
        "contain no padding to leave out": (
            "flat[used].unique(return_inverse=True) -> flat.unique(return_inverse=True)",
            "index_add_(0, numbers, incoming[used]) -> index_add_(0, numbers, incoming)",
            "return rows, gradients -> return rows[1:], gradients[1:]",
        ),
        "Here all ids are padding": (
            "return rows, gradients -> return rows, torch.stack([*gradients])"
        ),
        "a row occurs twice": "return rows, gradients -> return flat[used], incoming[used]",
        "not in ascending order": (
            "return rows, gradients -> return rows.flip(0), gradients.flip(0)"
        ),
        "gradients sum to 0": (
            "return rows, gradients -> kept = gradients.any(dim=1)\n"
            "    return rows[kept], gradients[kept]"
        ),
        "these are not the words that occur": "flat != 0 -> (flat != 0) & (flat < 5)",
        "expected rows as a torch.Tensor of ids": [
            "return rows, -> return rows.tolist(),",
            "return rows, gradients -> return gradients, rows",
        ],
        "Expected a pair": "return rows, gradients -> return gradients",
    },
    "pairs": {
        "the words before the centre are missing": negative_indices,
        "the first words are paired with the last ones": negative_positions,
        "Return a list": "return found -> return (pair for pair in found)",
        "a pair must contain two ids": "(centre, context) -> (centre, [context])",
        NOT_ACCEPTED: [context_pairs, pairs_by_the_package],
    },
    "loss": {
        "F.logsigmoid computes log σ in one step": (
            "F.logsigmoid(seen) -> (seen.sigmoid() + 1e-9).log()",
            "F.logsigmoid(-drawn) -> ((-drawn).sigmoid() + 1e-9).log()",
        ),
        "the vectors of the negatives receive no gradient": "u[negatives] -> u[negatives].detach()",
        "no gradient reaches v": "v[centre], -> v[centre].detach(),",
        "the gradient of v is not: a part of it is missing": (
            "at_centre, at_negatives) -> at_centre.detach(), at_negatives)"
        ),
        "no gradient flows through them": "losses.mean() -> torch.tensor(losses.mean().item())",
        "the package's model, trained for three steps": (
            "losses.mean() -> losses.mean() * (1 if len(v) != 11 or len(centre) < 6 else 2)"
        ),
    },
    "nearest": {
        "the word itself is among its neighbours": [
            "cosines[at] = -torch.inf -> pass",
            "cosines[at] = -torch.inf -> cosines[at] = 0",
            "cosines[at] = -torch.inf -> cosines[at] = -1",
        ],
        "those of the others do": half_a_cosine,
        "Return the words": "[words[index] for index in best.tolist()] -> best.tolist()",
        "without their cosines": "return [words[index] for -> return [(words[index], 0.5) for",
        NOT_ACCEPTED: nearest_by_the_package,
    },
    "analogy": {
        "b of the question is among the answers although exclude is True": (
            "cosines[asked] = -> cosines[asked[2]] ="
        ),
        "although exclude is True. Exclude all three words": "if exclude -> if False",
        "expected a list of words, even": (
            "return [words[index] for index in best.tolist()] -> return words[best[0]]"
        ),
        "list.remove(x): x not in list": f"best = -> others = [*words]; {IN_TURN}; best =",
        NOT_ACCEPTED: analogy_by_the_package,
    },
    "questions_from": {
        "expected a list of questions (a, b, c, d)": "(*one, *other) -> (one, other)",
        "the result can be read only once": (
            "[(*one, *other) for one in pairs for other in pairs if one != other] -> iter(pairs)"
        ),
    },
    "anatomy": {
        "Your code raises KeyError": [
            "if not all(word in ids for word in question) -> if False",
            "for word in question): -> for word in question[2:]):",
        ],
        "list.remove(x): x not in list": (
            f"wanted = -> others = [*ids.values()]; {IN_TURN}; wanted ="
        ),
        "anatomy, 'asked': the count is wrong": (
            "return counts -> "
            "return {n: count / max(1, counts['asked']) for n, count in counts.items()}"
        ),
        "expected a dict of counts": "return counts -> return [*counts.values()]",
        "the dict lacks the counts earned": (
            "return counts -> del counts['earned']\n    return counts"
        ),
        "anatomy, 'skipped': the count is wrong. Explanation: duke and duchess": (
            'counts["skipped"] += 1 -> pass'
        ),
        "anatomy, 'right_let_in': the count is wrong. Explanation: The nearest to girl": (
            "let_in == d -> 0"
        ),
    },
    "mended_step": {
        "The vector of the negative moves towards that of the centre": (
            *(FAULTS[name] for name in ("labels", "order", "table", "mean")),
            *FAULTS["repeats"],
        ),
        "a word is the centre of two pairs, and v is wrong": FAULTS["repeats"],
        "a word is the context word of two pairs, and u is wrong": FAULTS["repeats"][1],
        "The step is wrong for one pair and one negative": (
            f"{questions.ERRORS} -> errors = (torch.sigmoid(scores) - wanted) ** 3"
        ),
        "for two pairs without a common word it is wrong": (
            "/ len(centre)\n    new_v -> / len(centre) ** 3\n    new_v"
        ),
        "The check turns autograd off": step_by_autograd,
        "changes its input v": f"{questions.RETURN} -> v.copy_(new_v)\n    {questions.RETURN}",
        "Expected a pair": f"{questions.RETURN} -> pass",
    },
}

LAST_ONE_WINS = edited_source(
    questions.table_gradient, f"{questions.ADDED} -> gradient[flat] = incoming"
)
PADDING_LEARNS = edited_source(Embedding, f"{LOOKED_UP} -> self.weight[ids]")
# Right, and with a warning on stderr, which costs nothing
WARNED = edited_source(
    questions.nearest, "at = -> import warnings\n    warnings.warn('a warning')\n    at ="
)
BY_AUTOGRAD = """def table_gradient(ids, upstream, vocab_size):
    with torch.enable_grad():
        table = torch.zeros(vocab_size, upstream.size(-1), requires_grad=True)
        (table[ids] * (ids != 0).unsqueeze(-1) * upstream).sum().backward()
    return table.grad
"""

HANDED_IN = {
    "last_one_wins": (
        {
            "backward": f"{LAST_ONE_WINS}\n\n{source_of(questions.touched_rows)}",
            "neighbours": f"{WARNED}\n\n{source_of(questions.analogy)}",
        },
        ["backward-check"],
        "table_gradient: the row of a word that occurs twice",
    ),
    "by_autograd": (
        {
            "lookup": f"{source_of(questions.one_hot)}\n\n{PADDING_LEARNS}",
            "backward": f"{BY_AUTOGRAD}\n\n{source_of(questions.touched_rows)}",
        },
        ["lookup-check", "backward-check"],
        "Compute the gradient yourself in this part",
    ),
}
