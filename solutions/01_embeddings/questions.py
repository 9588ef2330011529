"""Embeddings as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Inside
the package's models, parts 1 and 3 are examined by code in `attentively.checks.embeddings`.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.checks import embeddings as checks
from attentively.checks.question import Case, Question, cases_of


def random_ids(*shape: int, vocab_size: int) -> Tensor:
    """Sample ids; if there are several, one is padding and one the last of the vocabulary."""
    ids = torch.randint(0, vocab_size, shape)
    if ids.numel() > 1:
        ids.view(-1)[:2] = torch.tensor([0, vocab_size - 1])
    return ids


# Part 1


def one_hot(ids, vocab_size):
    is_word = ids.unsqueeze(-1) == torch.arange(vocab_size)
    vectors = is_word.float()
    return vectors


def one_hot_cases(thorough: bool) -> Iterator[Case]:
    asked = [(torch.tensor([2, 0, 1]), 4), (torch.tensor([[1, 1], [0, 2]]), 5)]
    asked += [(random_ids(2, 3, 5, vocab_size=7), 7), (torch.tensor(3), 5)]
    shapes: list[tuple[int, ...]] = [(7,), (3, 1, 2), (5, 2)]
    asked += [(random_ids(*shape, vocab_size=11), 11) for shape in shapes * thorough]
    return cases_of(("ids", "vocab_size"), asked)


ONE_HOT = Question(
    one_hot,
    {"one-hot vectors": "Expected the shape of ids, followed by one axis of size vocab_size."},
    one_hot_cases,
    {
        "the length of the vectors depends on the largest id in this call. Each vector must have "
        "vocab_size entries, one for each word of the vocabulary.": (
            "arange(vocab_size) -> arange(int(ids.max()) + 1)"
        ),
        "the 1 is one position too far to the left: ids are counted from 0.": (
            "ids.unsqueeze(-1) -> (ids.unsqueeze(-1) - 1) % vocab_size"
        ),
        "the 1 is one position too far to the right: ids are counted from 0.": (
            "ids.unsqueeze(-1) -> (ids.unsqueeze(-1) + 1) % vocab_size"
        ),
        "the vocabulary is the first axis. It must be the last axis, after the axes of ids.": (
            "return vectors -> return vectors.movedim(-1, 0)"
        ),
        "the vectors of several words were added, so the order of the words is lost. Return one "
        "vector for each id.": "return vectors -> return vectors.sum(dim=-2)",
        "the axes of ids are lost. Keep them: one vector for each id, at the same position.": (
            "return vectors -> return vectors.reshape(-1, vocab_size)"
        ),
        "the vector of id 0 is all zeros. In one_hot, padding is treated like any other word: its "
        "vector has a 1 as its first entry. Only the row of padding in the table is zero.": (
            "return vectors -> return vectors * (ids != 0).unsqueeze(-1)"
        ),
        "0 and 1 are exchanged. A one-hot vector is 1 at the id and 0 everywhere else.": (
            "is_word.float() -> 1 - is_word.float()"
        ),
        "the entry is the id itself. It must be 1.": (
            "return vectors -> return vectors * ids.unsqueeze(-1)"
        ),
    },
    named=True,
)


class Embedding(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        table = torch.randn(vocab_size, embedding_dim)
        table[0] = 0
        self.weight = nn.Parameter(table)

    def forward(self, ids):
        is_word = (ids != 0).unsqueeze(-1)
        vectors = self.weight[ids] * is_word
        return vectors


def lookup_cases(thorough: bool) -> Iterator[Case]:
    table = torch.tensor([[0.0, 0.0], [0.5, -1.0], [0.0, 0.25], [0.0, 0.0]])
    asked = [(torch.tensor(ids), table) for ids in ([3, 1], [3, 1, 0, 3], [[2, 1], [3, 0]])]
    sizes: list[tuple[tuple[int, ...], int, int]] = [((2, 3), 7, 5), ((), 5, 3)]
    sizes += [((2, 3, 5), 11, 7), ((3, 1), 13, 1)] * thorough
    for shape, vocab_size, embedding_dim in sizes:
        table = torch.randn(vocab_size, embedding_dim)
        table[0] = 0
        asked.append((random_ids(*shape, vocab_size=vocab_size), table))
    return cases_of(("ids", "weight"), asked)


LOOKUP = Question(
    Embedding,
    {"the vectors": "Expected the shape of ids, followed by one axis of size embedding_dim."},
    lookup_cases,
    {
        "these are the rows of the ids minus 1: ids are counted from 0.": (
            "self.weight[ids] * is_word -> self.weight[ids - 1]"
        ),
        "the embedding dimension is the first axis. It must be the last, after the axes of ids.": (
            "return vectors -> return vectors.movedim(-1, 0)"
        ),
        "the axes of ids are lost. Keep them: one row for each id, at the same position.": (
            "return vectors -> return vectors.reshape(-1, vectors.size(-1))"
        ),
        "the rows of several words were added. Return one row for each id.": (
            "return vectors -> return vectors.sum(dim=-2)"
        ),
        "the rows of several words were averaged. Return one row for each id.": (
            "return vectors -> return vectors.mean(dim=-2)"
        ),
        "these are one-hot vectors. Return rows of the table.": (
            "return vectors -> return torch.eye(len(self.weight))[ids]"
        ),
        "the rows are multiplied by √embedding_dim. The Transformer does this later; a lookup "
        "returns the rows unchanged.": (
            "return vectors -> return vectors * self.weight.size(1) ** 0.5"
        ),
        "the rows are normalised to length 1. A lookup returns them unchanged.": (
            "return vectors -> return F.normalize(vectors, dim=-1)"
        ),
        "every sentence received the rows of the first sentence.": (
            "return vectors -> return vectors[:1].expand_as(vectors)"
        ),
    },
    named=True,
    runner=checks.looked_up,
)


# Part 2


def table_gradient(ids, upstream, vocab_size):
    dim = upstream.size(-1)
    flat, incoming = ids.reshape(-1), upstream.reshape(-1, dim)
    gradient = torch.zeros(vocab_size, dim)
    gradient.index_add_(0, flat, incoming)
    gradient[0] = 0
    return gradient


def random_gradients(ids: Tensor, dim: int) -> Tensor:
    return torch.randn(*ids.shape, dim).round(decimals=1) + 0.0  # no -0.0


def gradient_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (torch.tensor([1, 3]), torch.tensor([[1.0, -2.0], [0.5, 4.0]]), 5),
        (torch.tensor([2, 1, 2]), torch.tensor([[1.0, -2.0], [0.5, 4.0], [10.0, 20.0]]), 4),
    ]
    for ids, vocab_size in (([2, 0, 2, 0], 3), ([[1, 2, 2], [3, 2, 0]], 5)):
        asked.append((torch.tensor(ids), random_gradients(torch.tensor(ids), 2), vocab_size))
    shapes: list[tuple[int, ...]] = [(2, 3, 5), *[(), (1,), (7, 11), (2, 3, 2, 2)] * thorough]
    for shape in shapes:
        sampled = random_ids(*shape, vocab_size=7)
        asked.append((sampled, random_gradients(sampled, 3), 7))
    return cases_of(("ids", "upstream", "vocab_size"), asked)


LAST_WINS = (
    "the row of a word that occurs twice has the gradient of its last position only, because a "
    "second assignment to a row overwrites the first. Add the gradients of all positions. (With "
    "repeated indices, += also writes each row once; index_add adds all of them.)"
)
ADDED = "gradient.index_add_(0, flat, incoming)"

TABLE_GRADIENT = Question(
    table_gradient,
    {
        "the gradient of the table": "Expected one row for each word of the vocabulary: "
        "(vocab_size, dim)."
    },
    gradient_cases,
    {
        "the row of padding, row 0, receives a gradient. Its gradient must be zero.": (
            "gradient[0] = 0 -> pass"
        ),
        LAST_WINS: f"{ADDED} -> gradient[flat] = incoming",
        "the row of a word that occurs twice has the gradient of its first position only. Add the "
        "gradients of all positions.": f"{ADDED} -> gradient[flat.flip(0)] = incoming.flip(0)",
        "the row of a word that occurs twice has the mean of the gradients of its positions. The "
        "loss depends on the row through each position, so the gradients are added.": (
            "return gradient -> "
            "return gradient / flat.bincount(minlength=vocab_size).clamp(min=1).unsqueeze(1)"
        ),
        "the gradient is divided by the number of ids. The upstream gradient already contains any "
        "mean in the loss: add, do not divide.": "return gradient -> return gradient / len(flat)",
        "the gradient is divided by the number of sentences. Add, do not divide.": [
            "return gradient -> return gradient / len(ids)",
            "return gradient -> return gradient / (len(ids) if ids.dim() > 1 else 1)",
        ],
        "only the first sentence of the batch contributes. Add the gradients of all sentences.": [
            f"dim = -> ids, upstream = {first}\n    dim ="
            for first in (
                "ids[0], upstream[0]",
                "(ids[0], upstream[0]) if ids.dim() > 1 else (ids, upstream)",
            )
        ],
        "the sign is wrong. This is the direction of a descent step; the gradient points the "
        "opposite way.": "return gradient -> return -gradient",
        "these values count how often each word occurs. The upstream gradient is not used.": (
            f"{ADDED} -> gradient.index_add_(0, flat, torch.ones_like(incoming))"
        ),
        "the axes are exchanged: expected one row for each word, one column for each entry.": (
            "return gradient -> return gradient.T"
        ),
        "each gradient is one row too low: ids are counted from 0.": (
            "return gradient -> return gradient.roll(1, dims=0)"
        ),
        "each gradient is one row too high: ids are counted from 0.": (
            "return gradient -> return gradient.roll(-1, dims=0)"
        ),
        "this is the upstream gradient, with one row for each position of the text. Return one row "
        "for each word of the vocabulary.": "return gradient -> return upstream",
    },
    named=True,
)


def touched_rows(ids, upstream):
    flat, incoming = ids.reshape(-1), upstream.reshape(-1, upstream.size(-1))
    used = flat != 0
    rows, numbers = flat[used].unique(return_inverse=True)
    gradients = torch.zeros(len(rows), upstream.size(-1))
    gradients.index_add_(0, numbers, incoming[used])
    return rows, gradients


HUGE = 10**15
FOR_HUGE = (
    "Ids can be very large here, and a tensor in your code is as long as the largest id. Only the "
    "words that occur may need a row."
)
FOR_PADDING = (
    "Here all ids are padding. Expected empty rows of shape (0,) and empty gradients of shape "
    "(0, dim)."
)


def rows_cases(thorough: bool) -> Iterator[Case]:
    asked = [[2, 5], [3, 1, 3], [2, 0, 4, 0, 2], [[4, 0, 2], [2, 7, 4]], [0, 0], [HUGE, 3, HUGE]]

    def noted(ids: Tensor) -> Case:
        note = FOR_HUGE if ids.max() > 100 else "" if ids.any() else FOR_PADDING
        return Case({"ids": ids, "upstream": random_gradients(ids, 2)}, note=note)

    yield from [noted(torch.tensor(each)) for each in asked]
    # The gradients of word 2 sum to 0.
    upstream = torch.tensor([[1.0, -2.0], [0.5, 4.0], [-1.0, 2.0]])
    yield Case({"ids": torch.tensor([2, 5, 2]), "upstream": upstream})
    if thorough:
        shapes: list[tuple[int, ...]] = [(2, 3, 5), (11,), ()]
        yield from [noted(random_ids(*shape, vocab_size=7)) for shape in shapes]
        yield noted(torch.tensor([[HUGE - 2, 0], [HUGE, HUGE - 2]]))


SUMMED = "gradients.index_add_(0, numbers, incoming[used])"

TOUCHED_ROWS = Question(
    touched_rows,
    {"rows": "", "gradients": "Expected one gradient for each entry of rows."},
    rows_cases,
    {
        LAST_WINS: f"{SUMMED} -> gradients[numbers] = incoming[used]",
        "a repeated word has the gradient of its first position only. Add all positions.": (
            f"{SUMMED} -> gradients[numbers.flip(0)] = incoming[used].flip(0)"
        ),
        "a repeated word has the mean of the gradients of its positions. Add them.": (
            "return rows, gradients -> "
            "return rows, gradients / numbers.bincount(minlength=len(rows)).unsqueeze(1)"
        ),
        "the rows are sorted, but the gradients are not. Both must have the same order.": (
            "return rows, gradients -> return rows, gradients[[*dict.fromkeys(numbers.tolist())]]"
        ),
        "this is the upstream gradient, with one row for each position of the text. Add the rows "
        "of each word.": "return rows, gradients -> return rows, incoming",
    },
    named=True,
    tidy=lambda answer: (answer[0].tolist(), answer[1]),
)


# Part 3


def pairs(sentence, window):
    found = []
    for i, centre in enumerate(sentence):
        for j, context in enumerate(sentence):
            if 0 < abs(i - j) <= window:
                found.append((centre, context))
    return found


def pair_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        ([4, 7, 5], 1),
        ([4, 7, 5, 9, 8, 6], 2),
        ([4, 7, 4, 5, 4, 7], 2),
        ([4, 7], 3),
        ([4], 2),
        ([3, 8, 3, 6, 1, 9, 2, 5, 8, 4], 3),
    ]
    if thorough:
        asked += [([], 1), ([*range(1, 12)], 3), ([5, 5, 5], 1), ([3, 1, 4, 1, 5, 9, 2, 6], 7)]
    return cases_of(("sentence", "window"), asked)


NEAR = "0 < abs(i - j) <= window"


def window_of(before: str, after: str) -> str:
    """Return the edit to so many positions before the centre and after it."""
    return f"{NEAR} -> i != j and -({before}) <= j - i <= {after}"


PAIRS = Question(
    pairs,
    {"the pairs (sorted, since their order does not matter)": ""},
    pair_cases,
    {
        "the centre is paired with itself.": f"{NEAR} -> abs(i - j) <= window",
        "only the words after the centre are used. Those before it are context words too.": (
            f"{NEAR} -> 0 < j - i <= window"
        ),
        "only the words before the centre are used. Those after it are context words too.": (
            f"{NEAR} -> 0 < i - j <= window"
        ),
        "the window ends one position too early on the right. The end of a range or slice is "
        "exclusive.": window_of("window", "window - 1"),
        "the window ends one position too late on the right.": window_of("window", "window + 1"),
        "the window begins one position too late on the left.": window_of("window - 1", "window"),
        "the window begins one position too early on the left.": window_of("window + 1", "window"),
        "only the words at the ends of the window are used. Those between them are context words "
        "too.": f"{NEAR} -> abs(i - j) == window",
        "the window is one position too small on both sides.": (
            window_of("window - 1", "window - 1")
        ),
        "the window is one position too large on both sides.": (
            window_of("window + 1", "window + 1")
        ),
        "window is used for both sides together. It is the number of positions on each side.": (
            f"{NEAR} -> {NEAR} // 2"
        ),
        "at the start of the sentence, the words before the centre are missing: position - "
        "window is negative there, and a negative index counts from the end. Use max(0, ...).": (
            f"{NEAR} -> j in [*range(len(sentence))[i - window : i], *range(i + 1, i + 1 + window)]"
        ),
        "centre words whose window extends beyond an end of the sentence are missing. They also "
        "have context words, only fewer.": (
            f"{NEAR} -> {NEAR} and window <= i < len(sentence) - window"
        ),
        "a window wraps around from one end of the sentence to the other.": (
            f"{NEAR} -> {NEAR} or 0 < len(sentence) - abs(i - j) <= window"
        ),
        "the first words are paired with the last ones: position - window is negative there, and a "
        "negative index counts from the end. Use max(0, ...).": (
            "j, context in enumerate(sentence) -> j, context in "
            "((j, sentence[j]) for j in range(i - window, i + window + 1)"
            " if -len(sentence) <= j < len(sentence))",
            f"{NEAR} -> i != j",
        ),
        "a context word that equals the centre word is missing. Leave out the position of the "
        "centre, not all occurrences of its word.": f"{NEAR} -> {NEAR} and centre != context",
        "repeated pairs are missing. Skip-gram learns from how often two words occur together.": (
            "return found -> return [*{*found}]"
        ),
        "a repeated word has the context of its first position, because list.index returns only "
        "the first one. Use enumerate to visit all positions.": (
            "i, centre in enumerate(sentence) -> "
            "i, centre in [(sentence.index(word), word) for word in sentence]"
        ),
        "these are positions in the sentence. Return the ids at these positions.": (
            "(centre, context) -> (i, j)"
        ),
    },
    named=True,
    tidy=sorted,
    in_all_cases=True,
)


def loss(v, u, centre, context, negatives):
    at_centre, at_context, at_negatives = v[centre], u[context], u[negatives]
    seen = torch.einsum("bd,bd->b", at_centre, at_context)
    drawn = torch.einsum("bd,bnd->bn", at_centre, at_negatives)
    losses = -F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(dim=1)
    return losses.mean()


LOSS_INPUTS = ("v", "u", "centre", "context", "negatives")


def loss_inputs(vocab_size: int, dim: int, batch: int, drawn: int) -> tuple[Tensor, ...]:
    ids = torch.randint(1, vocab_size, (batch, 2 + drawn))
    v, u = torch.randn(vocab_size, dim), torch.randn(vocab_size, dim)
    return v, u, ids[:, 0], ids[:, 1], ids[:, 2:]


FAR_FROM_0 = (
    "the value is wrong for scores far from 0. There, σ is exactly 0 or 1 in 32 bits, so its "
    "logarithm is −∞ or a bound that your code sets. F.logsigmoid computes log σ in one step and "
    "stays exact; 1 − σ(x) is σ(−x)."
)


def loss_cases(thorough: bool) -> Iterator[Case]:
    # σ(ln 3) = 3/4, so the first of these has the loss −ln 3/4 − ln 1/4 = 1.674.
    v = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, -1.0], [2.0, 1.0]])
    u = torch.tensor([[0.0, 0.0], [0.3, 0.7], [1.0986, 5.0], [1.0986, -1.0]])
    asked = [
        (v, u, *map(torch.tensor, ids))
        for ids in (
            ([1], [2], [[3]]),
            ([2], [3], [[1, 2]]),
            ([3, 2], [1, 1], [[2, 3, 1], [3, 3, 2]]),
        )
    ]
    asked.append(loss_inputs(13, 5, 7, 3))
    sizes = [(7, 2, 1, 1), (5, 11, 3, 13)] * thorough
    yield from cases_of(LOSS_INPUTS, asked + [loss_inputs(*each) for each in sizes])
    for seen, drawn in ((-120.0, 0.0), (0.0, 120.0), (-30.0, 30.0)):
        tables = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [seen], [drawn]])
        one, two = torch.tensor([1]), torch.tensor([[2]])
        inputs = dict(zip(LOSS_INPUTS, (*tables, one, one, two), strict=True))
        yield Case(inputs, general=FAR_FROM_0)


LOSSES = "-F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(dim=1)"
VECTORS = "v[centre], u[context], u[negatives]"

LOSS = Question(
    loss,
    {"the loss": "Expected the mean over the pairs, a tensor of shape ()."},
    loss_cases,
    {
        "the sign of the scores of the negatives is wrong. Their term is log σ(−u·v).": (
            "logsigmoid(-drawn) -> logsigmoid(drawn)"
        ),
        "the sign of the score of the context word is wrong. Its term is log σ(+u·v).": (
            "logsigmoid(seen) -> logsigmoid(-seen)"
        ),
        "the signs of both scores are wrong. The term of the context word is log σ(+u·v), that of "
        "a negative is log σ(−u·v).": (
            "logsigmoid(seen) -> logsigmoid(-seen)",
            "logsigmoid(-drawn) -> logsigmoid(drawn)",
        ),
        "the sign of the loss is wrong. This is the log-probability, which training increases; "
        "return minus this value.": "losses.mean() -> -losses.mean()",
        "the terms of the negatives are averaged. The formula sums them.": (
            "sum(dim=1) -> mean(dim=1)"
        ),
        "the loss of a pair is divided by 1 + k, the number of its scores (as the mean in a "
        "library's cross-entropy does). The formula sums over them.": (
            "losses.mean() -> losses.mean() / (1 + drawn.size(1))"
        ),
        "the logarithm is missing: these values are −σ(u·v) − Σ σ(−u·v).": (
            f"{LOSSES} -> -seen.sigmoid() - (-drawn).sigmoid().sum(dim=1)"
        ),
        "the σ is missing: this loss is linear in the scores and has no minimum.": (
            f"{LOSSES} -> -seen + drawn.sum(dim=1)"
        ),
        "this is a softmax over the context word and the negatives. Here each word is a separate "
        "binary classification with its own σ.": (
            f"{LOSSES} -> -torch.cat([seen.unsqueeze(1), drawn], 1).log_softmax(dim=1)[:, 0]"
        ),
        "the terms of the negatives have the wrong sign: each score has a term −log σ.": (
            f"{LOSSES} -> -F.logsigmoid(seen) + F.logsigmoid(-drawn).sum(dim=1)"
        ),
        "the scores of the negatives are summed before σ. Each negative has a term of its own.": (
            "F.logsigmoid(-drawn).sum(dim=1) -> F.logsigmoid(-drawn.sum(dim=1))"
        ),
        "the terms of the negatives are summed over all pairs. Sum over those of each pair, "
        "dim=1.": "sum(dim=1) -> sum()",
        "the terms of the negatives are missing.": f"{LOSSES} -> -F.logsigmoid(seen)",
        "the term of the context word is missing.": (
            f"{LOSSES} -> -F.logsigmoid(-drawn).sum(dim=1)"
        ),
        "the losses of the pairs are summed. Return their mean.": "losses.mean() -> losses.sum()",
        "this is the loss of each pair. Return the mean over the pairs, a tensor of shape ().": (
            "losses.mean() -> losses"
        ),
        "every pair uses the negatives of the first pair. Each pair has negatives of its own.": (
            "u[negatives] -> u[negatives[:1].expand_as(negatives)]"
        ),
        "v and u are exchanged: v contains the vectors of centre words, u those of context words "
        "and negatives.": f"{VECTORS} -> u[centre], v[context], v[negatives]",
        "all vectors are taken from v. Those of context words and negatives are in u.": (
            f"{VECTORS} -> v[centre], v[context], v[negatives]"
        ),
        "all vectors are taken from u. Those of centre words are in v.": (
            f"{VECTORS} -> u[centre], u[context], u[negatives]"
        ),
        "the negatives are looked up in v. Their vectors are in u, like those of context words.": (
            "u[negatives] -> v[negatives]"
        ),
        "the scores of the negatives are computed with the context word. Use the centre word.": (
            "at_centre, at_negatives) -> at_context, at_negatives)"
        ),
        "the scores are cosines, because the vectors are normalised to length 1. The formula uses "
        "dot products of the vectors as they are.": (
            f"{VECTORS} -> (F.normalize(each, dim=-1) for each in ({VECTORS}))"
        ),
        FAR_FROM_0: [
            ("F.logsigmoid(seen) -> seen.sigmoid().log()", f"F.logsigmoid(-drawn) -> {drawn}")
            for drawn in ("(1 - drawn.sigmoid()).log()", "(-drawn).sigmoid().log()")
        ]
        + [
            f"F.logsigmoid(-drawn) -> (1 - drawn{precision}.sigmoid()).log().float()"
            for precision in ("", ".double()")
        ],
    },
    named=True,
    in_all_cases=True,
)


# Part 4


def nearest(words, vectors, word, count):
    directions = F.normalize(vectors, dim=1)
    at = words.index(word)
    cosines = directions @ directions[at]
    cosines[at] = -torch.inf
    best = cosines.topk(count).indices
    return [words[index] for index in best.tolist()]


# Two-dimensional, so that they can be drawn. The longest vector is never a right answer.
WORDS = ["man", "woman", "king", "queen", "prince", "apple", "pear", "rock"]
PLANE = torch.tensor(
    [
        [1.0, 0.9, 3.0, 2.2, 1.5, -0.4, -1.2, -6.0],
        [0.2, 1.1, -0.9, 0.9, -0.5, 1.0, 2.7, -3.0],
    ]
).T
# Two words of the same direction and different lengths: either can be first by cosine.
ALIKE = ["kat", "cat", "dog"], torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.5]])

# Two words of opposite directions: the cosine is -1.
OPPOSITE = ["up", "left", "down"], torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, -1.0]])


def lexicon(num_words: int, dim: int) -> tuple[list[str], Tensor]:
    """Return invented words, and random vectors whose lengths differ widely."""
    lengths = torch.linspace(0.3, 4, num_words)[torch.randperm(num_words)]
    vectors = F.normalize(torch.randn(num_words, dim), dim=1) * lengths.unsqueeze(1)
    return [f"w{number}" for number in range(num_words)], vectors


def nearest_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (WORDS, PLANE, "king", 3),
        (WORDS, PLANE, "man", 2),
        (WORDS, PLANE, "apple", len(WORDS) - 1),
        (*ALIKE, "cat", 2),
        (*ALIKE, "kat", 2),
        (*OPPOSITE, "up", 2),
        (*OPPOSITE, "down", 2),
        (*lexicon(13, 5), "w7", 5),
        (*lexicon(13, 3), "w1", 9),
        (*lexicon(13, 3), "w5", 9),
    ]
    sizes = [(5, 2), (17, 3), (7, 11)] * thorough
    asked += [(*lexicon(*each), "w2", 3) for each in sizes]
    return cases_of(("words", "vectors", "word", "count"), asked)


COSINES = "directions @ directions[at]"

NEAREST = Question(
    nearest,
    {"the answer of nearest": ""},
    nearest_cases,
    {
        "the words are ordered by the dot product, which favours long vectors. Divide by both "
        "lengths: that of the word itself does not change the order, those of the others do.": (
            f"{COSINES} -> vectors @ vectors[at]"
        ),
        "the words are ordered by distance. Use the cosine: vectors of the same direction but "
        "different lengths have a large distance and the cosine 1.": (
            f"{COSINES} -> -(vectors - vectors[at]).norm(dim=1)"
        ),
        "these are the words with the smallest cosine. Start with the largest.": (
            f"{COSINES} -> -({COSINES})"
        ),
        "the columns of vectors are normalised. A word is a row, so use dim=1.": "dim=1 -> dim=0",
        "the sign of the cosine is lost, so opposite directions count as near.": (
            f"{COSINES} -> ({COSINES}).abs()"
        ),
        "there is one word too few. Leave the word itself out first, then take count words.": (
            "topk(count) -> topk(count - 1)"
        ),
        "the order is reversed: the nearest word is the first.": (
            "best.tolist() -> best.tolist()[::-1]"
        ),
        "a word that has the same direction as the word itself is missing. Exclude only the word "
        "itself, by its index.": "cosines[at] = -> cosines[cosines > 0.9999] =",
        "the word itself is in the result. Another word has exactly the same direction here, so "
        "the word need not come first. Exclude it by its index, not as the first.": (
            "cosines[at] = -torch.inf -> pass",
            "topk(count).indices -> topk(count + 1).indices[1:]",
        ),
    },
    named=True,
)


def analogy(words, vectors, a, b, c, count, exclude):
    directions = F.normalize(vectors, dim=1)
    asked = [words.index(word) for word in (a, b, c)]
    at_a, at_b, at_c = directions[asked]
    target = at_b - at_a + at_c
    cosines = directions @ target
    if exclude:
        cosines[asked] = -torch.inf
    best = cosines.topk(count).indices
    return [words[index] for index in best.tolist()]


def analogy_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (WORDS, PLANE, "man", "king", "woman", 1),
        (WORDS, PLANE, "apple", "man", "pear", 3),
        (*lexicon(13, 5), "w1", "w2", "w3", 3),
        (*lexicon(13, 5), "w5", "w9", "w7", 10),
        (*lexicon(13, 3), "w1", "w2", "w3", 9),
        (*lexicon(13, 3), "w5", "w4", "w4", 9),
    ]
    sizes = [(5, 2), (17, 3)] * thorough
    asked += [(*lexicon(*each), "w0", "w4", "w2", 2) for each in sizes]
    names = ("words", "vectors", "a", "b", "c", "count", "exclude")
    return cases_of(names, [(*each, exclude) for each in asked for exclude in (True, False)])


TARGET = "at_b - at_a + at_c"
RAW = "= directions[asked] -> = vectors[asked]"

ANALOGY = Question(
    analogy,
    {"the answer of analogy": ""},
    analogy_cases,
    {
        **{
            f"this is the {what}. Use b − a + c.": f"{TARGET} -> {other}"
            for what, other in (
                ("answer for a − b + c", "at_a - at_b + at_c"),
                ("answer for a + b − c", "at_a + at_b - at_c"),
                ("answer for a + b + c", "at_a + at_b + at_c"),
                ("word nearest to c alone", "at_c"),
                ("word nearest to b alone", "at_b"),
                ("word nearest to b − a", "at_b - at_a"),
            )
        },
        "b − a + c is computed from vectors of different lengths. Normalise them to length 1 "
        "first; otherwise the longest of the three dominates the sum.": RAW,
        "the vectors are not normalised, and the answer is chosen by the dot product, which "
        "favours long vectors.": (RAW, "directions @ target -> vectors @ target"),
        "b − a + c is correct, but the answer is chosen by the dot product with vectors that are "
        "not normalised, which favours long ones.": "directions @ target -> vectors @ target",
        "the answer is chosen by the distance between vectors that are not normalised. Use the "
        "cosine.": (RAW, "directions @ target -> -(vectors - target).norm(dim=1)"),
        "these are the words with the smallest cosine. Start with the largest.": (
            "directions @ target -> -(directions @ target)"
        ),
        "the words of the question are excluded although exclude is False.": (
            "if exclude -> if True"
        ),
        "words are missing, because those of the question are excluded after the best count words "
        "are chosen. Exclude them first.": (
            "cosines[asked] = -torch.inf -> words = ['' if w in (a, b, c) else w for w in words]",
            "for index in best.tolist()] -> for index in best.tolist() if words[index]]",
        ),
    },
    named=True,
)


# Part 5


def questions_from(pairs):
    return [(*one, *other) for one in pairs for other in pairs if one != other]


# The third shares a word with each of the first two, but is a pair of its own.
WORD_PAIRS = [("go", "went"), ("begin", "gone"), ("go", "gone"), ("dog", "dogs"), ("map", "maps")]


def question_cases(thorough: bool) -> Iterator[Case]:
    general = (
        "these are not the questions. Each two pairs give two questions (a, b, c, d), one in each "
        "order."
    )
    for number in (2, 4, *(5, 1, 0) * thorough):
        yield Case({"pairs": WORD_PAIRS[:number]}, general=general)


OTHER = "if one != other"

QUESTIONS_FROM = Question(
    questions_from,
    {"the questions (sorted, since their order does not matter)": ""},
    question_cases,
    {
        "a question combines a pair with itself, so it contains its own answer.": (
            f"{OTHER} -> if True"
        ),
        "questions are missing. Two pairs give two questions, one in each order.": [
            f"{OTHER} -> if pairs.index(one) < pairs.index(other)",
            f"{OTHER} -> if pairs.index(one) == pairs.index(other) - 1",
        ],
        "questions are missing. Each pair is combined with each other pair, not only with the next "
        "one.": f"{OTHER} -> if abs(pairs.index(one) - pairs.index(other)) == 1",
        "questions are missing for two pairs that share a word.": [
            f"{OTHER} -> if {condition}"
            for condition in (
                "not {*one} & {*other}",
                "one[0] != other[0]",
                "one[1] != other[1]",
                "one[0] != other[0] and one[1] != other[1]",
            )
        ],
        "a question occurs twice.": "return -> return 2 *",
        "a question must join two pairs: (a, b) is one of them, (c, d) another.": [
            "(*one, *other) -> (*one, *other[::-1])",
            "(*one, *other) -> (*one[::-1], *other[::-1])",
            "(*one, *other) -> (one[0], other[0], one[1], other[1])",
        ],
    },
    named=True,
    tidy=lambda found: sorted(found, key=repr),
)


def anatomy(words, vectors, questions):
    counts = dict.fromkeys(checks.COUNTS, 0)
    directions = F.normalize(vectors, dim=1)
    ids = {word: index for index, word in enumerate(words)}

    def best(wanted, left_out):
        scores = directions @ wanted
        scores[left_out] = -torch.inf
        return int(scores.argmax())

    for question in questions:
        if not all(word in ids for word in question):
            counts["skipped"] += 1
            continue
        counts["asked"] += 1
        a, b, c, d = (ids[word] for word in question)
        wanted = directions[b] - directions[a] + directions[c]
        answer = best(wanted, [a, b, c])
        let_in = best(wanted, [])
        by_c = best(directions[c], [a, b, c])
        counts["right"] += answer == d
        counts["right_let_in"] += let_in == d
        counts["said_c"] += let_in == c
        counts["right_by_c"] += by_c == d
        counts["earned"] += answer == d and by_c != d
    return counts


FAMILY = ["man", "woman", "king", "queen", "boy", "girl", "dog", "puppy"]
FAMILY_VECTORS = torch.tensor(
    [
        [1.0, -1.2, 1.8, 0.1, 1.8, 0.2, -2.2, -2.9],
        [-0.2, -2.2, 3.0, 0.8, -1.7, -1.4, -0.4, 0.7],
    ]
).T
# Single questions of other words
LETTERS = {
    "a b c d": torch.tensor([[0.0, 1.0], [1.0, 0.1], [1.0, 0.0], [1.0, 0.3]]),
    "e f g h": torch.tensor([[0.0, -1.0], [0.6, 0.8], [0.0, 1.0], [-0.1, -1.0]]),
}
# Single questions, and what happens
SINGLE = {
    "king queen boy girl": "The nearest to queen − king + boy is boy; with the three words "
    "excluded it is girl, which is correct. The nearest to boy alone, the three excluded, is man, "
    "which is wrong.",
    "man woman dog puppy": "The nearest to woman − man + dog is dog; with the three words excluded "
    "it is puppy, which is correct. The nearest to dog alone, the three excluded, is puppy too.",
    "boy girl man woman": "The nearest to girl − boy + man is boy, which is a; with the three "
    "words excluded it is woman, which is correct. The nearest to man alone, the three excluded, "
    "is king.",
    "dog puppy man woman": "The nearest to puppy − dog + man is man; with the three words excluded "
    "it is king, which is wrong. The nearest to man alone, the three excluded, is boy, which is "
    "wrong too.",
    "man woman boy girl": "The nearest to woman − man + boy is woman, which is b; with the three "
    "words excluded it is girl, which is correct. The nearest to boy alone, the three excluded, is "
    "girl too.",
    "man woman king queen": "The nearest to woman − man + king is puppy, allowed or not. The "
    "nearest to king alone, the three words excluded, is queen.",
    "boy girl king queen": "The nearest to girl − boy + king is queen, allowed or not. The nearest "
    "to king alone, the three words left out, is queen too.",
    "man woman duke duchess": "duke and duchess have no vector.",
    "man woman boy lass": "lass has no vector, so the correct answer cannot be given.",
    "a b c d": "The nearest to b − a + c is c; with the three words excluded it is d, which is "
    "correct. The nearest to c alone, the three excluded, is d too; b is nearer, and is one of "
    "them.",
    "e f g h": "The nearest to f − e + g is g; with the three words excluded it is h, the only one "
    "that is left, which is correct. Its score is below −1. The nearest to g alone, the three "
    "excluded, is h too.",
}
TOGETHER = [
    tuple(question.split())
    for question in (
        "horse foal king queen",
        "man woman man king",
        "dog puppy man woman",
        "dog puppy king queen",
        "man woman boy girl",
        "man woman dog puppy",
        "man woman duke duchess",
        "king queen man woman",
        "man woman boy lass",
        "king queen boy girl",
        "boy girl man woman",
        "man woman king queen",
        "boy girl king queen",
    )
]


def anatomy_cases(thorough: bool) -> Iterator[Case]:
    names = ("words", "vectors", "questions")
    for question, story in SINGLE.items():
        asked = tuple(question.split())
        words = [*asked] if question in LETTERS else FAMILY
        given = words, LETTERS.get(question, FAMILY_VECTORS), [asked]
        yield Case(dict(zip(names, given, strict=True)), general=story)
    chosen = [TOGETHER, *[TOGETHER[3:], TOGETHER[::2], []] * thorough]
    yield from cases_of(names, [(FAMILY, FAMILY_VECTORS, questions) for questions in chosen])


def said(words: str) -> str:
    return f"anatomy, {{count}}: {words}.{{story}}"


WANTED = "wanted = directions[b] - directions[a] + directions[c]"
BY_C = "by_c = best(directions[c], [a, b, c])"
EARNED = "answer == d and by_c != d"
OF_LENGTH_1 = "directions = F.normalize(vectors, dim=1)"

ANATOMY = Question(
    anatomy,
    {"the counts": ""},
    anatomy_cases,
    {
        said(words): edits
        for words, edits in {
            "a question that contains a word without a vector is skipped, not asked": (
                'counts["skipped"] += 1 -> counts["skipped"] += 1\n            counts["asked"] += 1'
            ),
            "the correct answer d has no vector, so the question cannot be answered correctly. "
            "Skip it too": (
                "for word in question): -> for word in question[:3]):",
                "(ids[word] for -> (ids.get(word) for",
            ),
            "all words are allowed as answers here, also those of the question": (
                "best(wanted, []) -> best(wanted, [a, b, c])"
            ),
            "only c is excluded, so the answer is a. Exclude all three words": (
                "answer = best(wanted, [a, b, c]) -> answer = best(wanted, [c])"
            ),
            "if all words are allowed, the answer is boy, which is c. This count is about that "
            "answer, not about the one with the words excluded": "let_in == c -> answer == c",
            "if all words are allowed, the answer is boy, which is a and not c": (
                "let_in == c -> let_in in (a, b, c)"
            ),
            "without exclusion, the nearest word to c alone is always c itself. Exclude the words "
            "of the question for c alone too": f"{BY_C} -> by_c = c",
            "only c is excluded, so the answer is man, which is a. Exclude the same three words as "
            "for the analogy; otherwise the two cannot be compared": (
                f"{BY_C} -> by_c = best(directions[c], [c])"
            ),
            "b is not excluded, and it is the nearest word to c alone. Exclude all three words of "
            "the question": f"{BY_C} -> by_c = best(directions[c], [a, c])",
            "the excluded words have the score 0 or −1, and the only other word has a lower one. "
            "Exclude them with −∞": [
                f"scores[left_out] = -torch.inf -> scores[left_out] = {low}" for low in (0, -1)
            ],
            "c alone gives the correct word here, so this question does not count": (
                f"{EARNED} -> answer == d"
            ),
            "c alone is wrong here, but so is the analogy. This question does not count": (
                f"{EARNED} -> by_c != d"
            ),
            "earned counts the questions that the analogy answers correctly and c alone does not. "
            "It is not a difference of two counts: here only c alone is correct": (
                f"{EARNED} -> (answer == d) - (by_c == d)"
            ),
            "the counts are those of a − b + c. Use b − a + c": (
                f"{WANTED} -> wanted = directions[a] - directions[b] + directions[c]"
            ),
            "b − a + c is computed from vectors of different lengths. Normalise all vectors to "
            "length 1 before they are added, as in part 4": (
                f"{WANTED} -> wanted = vectors[b] - vectors[a] + vectors[c]"
            ),
            "the vectors are not normalised before they are added or compared. Normalise them to "
            "length 1 first, as in part 4": f"{OF_LENGTH_1} -> directions = vectors",
            "words are compared by distance, or the vectors are not normalised. Use the cosine, as "
            "in part 4": (
                f"{OF_LENGTH_1} -> directions = vectors",
                "directions @ wanted -> -(directions - wanted).norm(dim=1)",
            ),
        }.items()
    },
    in_all_cases=True,
)


# Part 6


def mended_step(v, u, centre, context, negatives, learning_rate):
    words = torch.cat([context.unsqueeze(1), negatives], dim=1)
    wanted = torch.zeros(words.shape)
    wanted[:, 0] = 1.0
    scores = torch.einsum("bd,bwd->bw", v[centre], u[words])
    errors = torch.sigmoid(scores) - wanted
    to_v = torch.einsum("bw,bwd->bd", errors, u[words]) / len(centre)
    new_v = v.index_add(0, centre, -learning_rate * to_v)
    to_u = errors.unsqueeze(-1) * v[centre].unsqueeze(1) / len(centre)
    new_u = u.index_add(0, words.flatten(), -learning_rate * to_u.flatten(0, 1))
    return new_v, new_u


def pair_by_pair(v, u, centre, context, negatives, learning_rate):
    for pair in zip(centre.split(1), context.split(1), negatives.split(1), strict=True):
        v, u = mended_step(v, u, *pair, learning_rate / len(centre))
    return v, u


def step_cases(thorough: bool) -> Iterator[Case]:
    def case(tables: tuple[Tensor, ...], ids: tuple, rate: float, stage: str, said: str) -> Case:
        given = (*tables, *map(torch.tensor, ids), rate)
        inputs = dict(zip((*LOSS_INPUTS, "learning_rate"), given, strict=True))
        return Case(inputs, stage=stage, general=said)

    def tables(rows: int) -> tuple[Tensor, ...]:
        return tuple(torch.randn(rows, 2).round(decimals=1) + 0.0 for _ in "vu")

    # One pair, one negative and no repeated word: small enough for paper
    small = (
        torch.tensor([[0.0, 0.0], [1.0, 0.5], [-1.5, 1.0], [0.5, -1.5]]),
        torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, -1.0], [0.5, 1.5]]),
    )
    yield case(
        small,
        ([1], [2], [[3]]),
        0.3,
        "one pair and one negative",
        "The step is wrong for one pair and one negative. The gradient of a score u·v with respect "
        "to u is v, and with respect to v it is u; each is multiplied by σ(u·v) − y.",
    )
    yield case(
        tables(9),
        ([1, 2], [3, 4], [[5, 6], [7, 8]]),
        0.5,
        "two pairs without a common word",
        "The step is correct for a single pair, but for two pairs without a common word it is "
        "wrong.",
    )
    for *ids, table, what in (
        ([1, 1], [2, 3], [[4], [5]], "v", "a word is the centre of two pairs"),
        ([1, 2], [3, 3], [[4], [5]], "u", "a word is the context word of two pairs"),
        ([1], [2], [[3, 3]], "u", "a word is a negative of one pair twice"),
        ([1, 2], [3, 4], [[4, 5], [3, 3]], "u", "a word is a context word and also a negative"),
    ):
        yield case(
            tables(6),
            (*ids,),
            0.5,
            "words that occur twice",
            f"The step is correct if no word occurs twice. Here {what}, and {table} is wrong. Add "
            "all changes of a row: if = or -= writes to a row twice, only the last one counts.",
        )
    sizes = [(13, 5, 7, 3), *[(5, 3, 11, 2), (7, 2, 1, 1), (3, 11, 5, 7)] * thorough]
    for number, each in enumerate(sizes):
        inputs = dict(zip(LOSS_INPUTS, loss_inputs(*each), strict=True))
        yield Case({**inputs, "learning_rate": 0.1 + 0.3 * number})


LABELS = "wanted[:, 0] = 1.0"
ERRORS = "errors = torch.sigmoid(scores) - wanted"
OF_PAIRS = "unsqueeze(1) / len(centre)"
TO_V = 'to_v = torch.einsum("bw,bwd->bd", errors, u[words]) / len(centre)'
NEW_V = "new_v = v.index_add(0, centre, -learning_rate * to_v)"
NEW_U = "new_u = u.index_add(0, words.flatten(), -learning_rate * to_u.flatten(0, 1))"
RETURN = "return new_v, new_u"
# The five faults of the notebook
FAULTS = {
    "labels": f"{LABELS} -> wanted[0] = 1.0",
    "order": "* v[centre] -> * new_v[centre]",
    "table": '"bd,bwd->bw", v[centre], u[words] -> "bd,bwd->bw", v[centre], v[words]',
    "mean": f"{OF_PAIRS} -> unsqueeze(1)",
    "repeats": (
        f"{NEW_V} -> new_v = v.clone()\n    new_v[centre] -= learning_rate * to_v",
        f"{NEW_U} -> new_u = u.clone()\n    new_u[words] -= learning_rate * to_u",
    ),
}
SIZE = "The vector u of the context word has the right direction of change, but the wrong size: {}."
OF_V = "The change of v of the centre is wrong: {}."
SUMS = "it is divided by the number of scores of a pair. The formula sums them"


def with_faults(*edits: str) -> list[tuple[str, ...]]:
    """Return a mistake alone, and together with faults that show in one pair after it."""
    order, table = FAULTS["order"], FAULTS["table"]
    return [(*edits, *faults) for faults in ((), (order,), (table,), (order, table))]


CORRECTED_STEP = Question(
    mended_step,
    {"new_v": "", "new_u": ""},
    step_cases,
    {
        "v and u are exchanged in the result. Return v, u in this order.": (
            f"{RETURN} -> return new_u, new_v"
        ),
        "The vector of the negative moves towards that of the centre, as the context word's does. "
        "It must move away. Which words have y = 1 in the step?": with_faults(FAULTS["labels"]),
        "The vector of the context word moves away from that of the centre, as the negative's "
        "does. It must move towards it. Which words have y = 1 in the step?": (
            with_faults(f"{LABELS} -> pass")
        ),
        "The vector of the context word moves away from that of the centre, and that of the "
        "negative towards it. Which words have y = 1 in the step?": (
            with_faults(f"{LABELS} -> wanted[:, 1:] = 1.0")
        ),
        "The sign of the step is wrong: the context word moves away from the centre, and the "
        "negative towards it, so the loss increases.": (
            with_faults(f"{ERRORS} -> errors = wanted - torch.sigmoid(scores)")
        ),
        "The vectors u of the context word and the negative do not change.": (
            f"{RETURN} -> return new_v, u"
        ),
        "The vector of the negative does not change.": (
            "errors.unsqueeze(-1) * -> (errors * wanted).unsqueeze(-1) *"
        ),
        "The gradient of u is computed with the vector of the centre after its own update. Compute "
        "both gradients from the tables as they were passed in, then update.": [
            FAULTS["order"],
            (FAULTS["order"], FAULTS["table"]),
        ],
        "The vector u of the context word does not move along v of the centre. The gradient of u·v "
        "with respect to u is v.": "* v[centre] -> * u[centre]",
        SIZE.format(
            "the score uses two vectors of v. Those of the context word and the negatives are in u"
        ): FAULTS["table"],
        SIZE.format("the score uses two vectors of u. That of the centre is in v"): (
            '"bd,bwd->bw", v[centre], -> "bd,bwd->bw", u[centre],'
        ),
        SIZE.format("the σ is missing"): "torch.sigmoid(scores) -> scores",
        SIZE.format(SUMS): f"{ERRORS} -> errors = (torch.sigmoid(scores) - wanted) / words.size(1)",
        SIZE.format("the learning rate is not used"): [
            ("-learning_rate * to_v -> -to_v", "-learning_rate * to_u -> -to_u"),
            "-learning_rate * to_u -> -to_u",
        ],
        SIZE.format("the learning rate is used twice"): (
            f"{ERRORS} -> errors = learning_rate * (torch.sigmoid(scores) - wanted)"
        ),
        OF_V.format(
            "its gradient is computed with vectors u that are already updated. Compute both "
            "gradients first, then update"
        ): f"{RETURN} -> {TO_V.replace('u[words]', 'new_u[words]')}\n    {NEW_V}\n    {RETURN}",
        OF_V.format(
            "it moves along vectors of v. The gradient of u·v with respect to v is u"
        ): "errors, u[words]) -> errors, v[words])",
        OF_V.format("the negatives do not contribute to it"): (
            "errors, u[words]) -> errors * wanted, u[words])"
        ),
        OF_V.format("the context word does not contribute to it"): (
            "errors, u[words]) -> errors * (1 - wanted), u[words])"
        ),
        OF_V.format("the sign is wrong"): "-learning_rate * to_v -> learning_rate * to_v",
        OF_V.format("it does not change at all"): f"{RETURN} -> return v, new_u",
        OF_V.format(SUMS): "-learning_rate * to_v -> -learning_rate * to_v / words.size(1)",
        "Only the first negative of each pair is used. Use all of them.": (
            "negatives], dim=1) -> negatives[:, :1]], dim=1)"
        ),
        "Each pair seems to use the tables that the pair before it changed. Compute all changes "
        "from the tables as they were passed in, then update.": pair_by_pair,
        "Only the context word of the first pair has y = 1. Each pair has a row in the labels, and "
        "its context word is the first of this row.": f"{LABELS} -> wanted[0, 0] = 1.0",
        "The change of u is too large by the factor 2, the number of pairs. The loss is the mean "
        "over the pairs.": [
            FAULTS["mean"],
            (FAULTS["mean"], "u[words]) / len(centre) -> u[words])"),
        ],
        "The change of v is too large by the factor 2, the number of pairs. The loss is the mean "
        "over the pairs.": "u[words]) / len(centre) -> u[words])",
        "The change of u is too small by the factor 2. Does your code divide by the number of "
        "pairs twice?": [
            f"{OF_PAIRS} -> {OF_PAIRS} / len(centre)",
            f"{ERRORS} -> {ERRORS}\n    errors /= len(centre)",
        ],
        "The change of v is too small by the factor 2. Does your code divide by the number of "
        "pairs twice?": "u[words]) / len(centre) -> u[words]) / len(centre) / len(centre)",
    },
    look=("new_u", "new_v"),
)

PARTS = {
    "lookup": [ONE_HOT, LOOKUP],
    "backward": [TABLE_GRADIENT, TOUCHED_ROWS],
    "skip_gram": [PAIRS, LOSS],
    "neighbours": [NEAREST, ANALOGY],
    "anatomy": [QUESTIONS_FROM, ANATOMY],
    "bug_hunt": [CORRECTED_STEP],
}
"""The questions of each check, in the order of its arguments."""
