"""Plausible wrong answers to 01_embeddings, each with words of the message it must get."""

import torch
import torch.nn.functional as F
from right_answers_01 import (
    ByTheLibrary,
    Table,
    TimesTheMask,
    WithADetachedRow,
    analogy,
    anatomy,
    gradient_by_index_add,
    gradient_by_one_hot,
    loss,
    nearest,
    pairs,
    questions_from,
    rows_by_unique,
    step,
)
from right_answers_01 import one_hot_by_comparison as one_hot
from torch import nn

from attentively.embedding import TokenEmbedding
from attentively.skip_gram import context_pairs
from attentively.word_vectors import WordVectors

# Part 1


def as_long_as_the_largest_id(ids, vocab_size):
    return one_hot(ids, int(ids.max()) + 1)


def of_whole_numbers(ids, vocab_size):
    return one_hot(ids, vocab_size).long()


def shifted(ids, vocab_size):
    return torch.eye(vocab_size)[ids - 1]


def vocabulary_first(ids, vocab_size):
    return torch.eye(vocab_size)[ids].movedim(-1, 0)


def bag_of_words(ids, vocab_size):
    return one_hot(ids, vocab_size).sum(-2)


def flattened(ids, vocab_size):
    return one_hot(ids.flatten(), vocab_size)


def without_padding(ids, vocab_size):
    return one_hot(ids, vocab_size) * (ids != 0).unsqueeze(-1)


def for_one_sentence(ids, vocab_size):
    vectors = torch.zeros(len(ids), vocab_size)
    vectors[range(len(ids)), ids] = 1
    return vectors


class PaddingLearns(Table):
    def forward(self, ids):
        return self.weight[ids]


class PaddingNotZero(Table):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__(vocab_size, embedding_dim)
        nn.init.normal_(self.weight)

    def forward(self, ids):
        return self.weight[ids]


class AllAlike(TimesTheMask):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__(vocab_size, embedding_dim)
        nn.init.zeros_(self.weight)


class NoParameter(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.weight = torch.randn(vocab_size, embedding_dim)


class Turned(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(embedding_dim, vocab_size))


class WithTheLibrarysInside(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.table = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)

    def forward(self, ids):
        return self.table(ids)


class TheLibrarysInDisguise(nn.Embedding):
    pass


class CutOff(Table):
    def forward(self, ids):
        return self.weight.data[ids]


class Copied(Table):
    """The gradient reaches a copy."""

    def forward(self, ids):
        return self.weight.detach().clone().requires_grad_()[ids]


class Scaled(TimesTheMask):
    def forward(self, ids):
        return super().forward(ids) * self.weight.size(1) ** 0.5


class Averaged(TimesTheMask):
    def forward(self, ids):
        vectors = super().forward(ids)
        return vectors.mean(dim=-2) if ids.dim() else vectors


class OneHotOnly(Table):
    def forward(self, ids):
        return one_hot(ids, len(self.weight))


class ForOneSentence(Table):
    def forward(self, ids):
        return torch.stack([self.weight[int(word)] * bool(word) for word in ids])


class StruckOutAfterwards(Table):
    """Zero at every look, and yet a gradient flows into the row."""

    def forward(self, ids):
        with torch.no_grad():
            self.weight[0] = 0
        return self.weight[ids]


class ForgetsTheMode(TimesTheMask):
    """Right wherever it is tried alone; on the sizes of the translator it is not."""

    def forward(self, ids):
        vectors = super().forward(ids)
        return vectors * 0.5 if len(self.weight) > 100 else vectors


class OneHotTimesMatrix(Table):
    def forward(self, ids):
        return one_hot(ids, len(self.weight))[..., 1:] @ self.weight[1:]


class OneHotByEinsum(TimesTheMask):
    def forward(self, ids):
        is_word = (ids != 0).unsqueeze(-1)
        return torch.einsum("...v,vd->...d", one_hot(ids, len(self.weight)), self.weight) * is_word


class OnceForAll(TimesTheMask):
    """With a seed of its own every table begins alike."""

    def __init__(self, vocab_size, embedding_dim):
        torch.manual_seed(0)
        super().__init__(vocab_size, embedding_dim)


class NotAModule:
    def __init__(self, vocab_size, embedding_dim):
        pass


def one_hot_by_the_library(ids, vocab_size):
    return F.one_hot(ids, num_classes=vocab_size).float()


class WithSparseGradients(Table):
    def forward(self, ids):
        rows = F.embedding(ids.reshape(-1), self.weight, padding_idx=0, sparse=True)
        return rows.view(*ids.shape, -1)


LOOKUPS = [
    ((as_long_as_the_largest_id, TimesTheMask), "depends on the largest id in this call"),
    ((of_whole_numbers, TimesTheMask), "cannot be multiplied by a table of 32-bit floats"),
    ((shifted, TimesTheMask), "one position too far to the left"),
    ((vocabulary_first, TimesTheMask), "the vocabulary is the first axis"),
    ((bag_of_words, TimesTheMask), "the order of the words is lost"),
    ((flattened, TimesTheMask), "the axes of ids are lost"),
    ((without_padding, TimesTheMask), "the vector of id 0 is all zeros"),
    ((for_one_sentence, TimesTheMask), "the shape of ids, followed by one axis of size vocab_size"),
    ((one_hot, PaddingLearns), "the row of padding receives a gradient"),
    ((one_hot, StruckOutAfterwards), "the row of padding receives a gradient"),
    ((one_hot, PaddingNotZero), "row 0, is not zero at initialisation"),
    ((one_hot, AllAlike), "all words have the same initial vector"),
    ((one_hot, OneHotTimesMatrix), "computed by a matrix product"),
    ((one_hot, OneHotByEinsum), "computed by a matrix product"),
    ((one_hot, OnceForAll), "two instances have the same initial values"),
    ((one_hot, NoParameter), "but not a parameter, so an optimiser does not find it"),
    ((one_hot, Turned), "The shape of weight is (2, 4), expected a row for each word"),
    (
        (one_hot, WithTheLibrarysInside),
        "weight; the parameters are ['table.weight']",
    ),
    ((one_hot, TheLibrarysInDisguise), "not accepted. Your code uses"),
    ((one_hot, TokenEmbedding), "not accepted. Your code uses"),
    ((one_hot, CutOff), "no gradient flows through them"),
    ((one_hot, Copied), "no gradient reaches weight"),
    ((one_hot, Scaled), "multiplied by √embedding_dim"),
    ((one_hot, Averaged), "the rows of several words were averaged"),
    ((one_hot, OneHotOnly), "these are one-hot vectors"),
    ((one_hot, ForOneSentence), "Your code raises"),
    ((one_hot, ForgetsTheMode), "the trained model's weights"),
    ((one_hot, NotAModule), "derives from torch.nn.Module"),
    ((one_hot, TimesTheMask(5, 2)), "this is an instance. Pass the class"),
    ((one_hot_by_the_library, WithADetachedRow), "not accepted. Your code uses"),
    ((one_hot, ByTheLibrary), "not accepted. Your code uses"),
    ((one_hot, WithSparseGradients), "not accepted. Your code uses"),
]


# Part 2


def last_one_wins(ids, upstream, vocab_size):
    gradient = torch.zeros(vocab_size, upstream.size(-1))
    gradient[ids] = upstream
    gradient[0] = 0
    return gradient


def plus_equals(ids, upstream, vocab_size):
    gradient = torch.zeros(vocab_size, upstream.size(-1))
    gradient[ids] += upstream
    gradient[0] = 0
    return gradient


def first_one_wins(ids, upstream, vocab_size):
    return last_one_wins(ids.flip(-1), upstream.flip(-2), vocab_size)


def mean_of_places(ids, upstream, vocab_size):
    counts = ids.flatten().bincount(minlength=vocab_size).clamp(min=1)
    return gradient_by_index_add(ids, upstream, vocab_size) / counts[:, None]


def mean_of_all(ids, upstream, vocab_size):
    return gradient_by_index_add(ids, upstream, vocab_size) / ids.numel()


def mean_of_sentences(ids, upstream, vocab_size):
    many = len(ids) if ids.dim() > 1 else 1
    return gradient_by_index_add(ids, upstream, vocab_size) / many


def with_padding(ids, upstream, vocab_size):
    places = F.one_hot(ids.reshape(-1), vocab_size).float()
    return places.T @ upstream.reshape(-1, upstream.size(-1))


def first_sentence_only(ids, upstream, vocab_size):
    if ids.dim() > 1:
        ids, upstream = ids[0], upstream[0]
    return gradient_by_index_add(ids, upstream, vocab_size)


def downhill(ids, upstream, vocab_size):
    return -gradient_by_index_add(ids, upstream, vocab_size)


def counts_only(ids, upstream, vocab_size):
    return gradient_by_index_add(ids, torch.ones_like(upstream), vocab_size)


def turned(ids, upstream, vocab_size):
    return gradient_by_index_add(ids, upstream, vocab_size).T


def by_autograd(ids, upstream, vocab_size):
    table = torch.zeros(vocab_size, upstream.size(-1), requires_grad=True)
    (F.embedding(ids, table, padding_idx=0) * upstream).sum().backward()
    return table.grad


def by_autograd_turned_on_again(*inputs):
    with torch.enable_grad():
        return by_autograd(*inputs)


def adds_into_its_input(ids, upstream, vocab_size):
    upstream[ids == 0] = 0
    return gradient_by_one_hot(ids, upstream, vocab_size)


def what_came_in(ids, upstream, vocab_size):
    return upstream


def rows_of_the_whole_table(ids, upstream):
    gradient = gradient_by_index_add(ids, upstream, int(ids.max()) + 1)
    rows = gradient.abs().sum(1).nonzero().flatten()
    return rows, gradient[rows]


def rows_with_padding(ids, upstream):
    rows, places = ids.reshape(-1).unique(return_inverse=True)
    gradients = torch.zeros(len(rows), upstream.size(-1))
    return rows, gradients.index_add(0, places, upstream.reshape(-1, upstream.size(-1)))


def rows_without_the_first(ids, upstream):
    rows, gradients = rows_with_padding(ids, upstream)
    return rows[1:], gradients[1:]


def rows_of_some_words(ids, upstream):
    totals = {}
    for place, word in enumerate(ids.flatten().tolist()):
        if word:
            totals[word] = totals.get(word, 0) + upstream.reshape(-1, upstream.size(-1))[place]
    return torch.tensor(sorted(totals)), torch.stack([totals[word] for word in sorted(totals)])


def rows_twice(ids, upstream):
    kept = ids != 0
    return ids[kept], upstream[kept]


def rows_in_order_of_the_text(ids, upstream):
    rows, gradients = rows_by_unique(ids, upstream)
    order = [*dict.fromkeys(word for word in ids.flatten().tolist() if word)]
    places = [rows.tolist().index(word) for word in order]
    return rows[places], gradients[places]


def only_rows_sorted(ids, upstream):
    rows, gradients = rows_in_order_of_the_text(ids, upstream)
    return rows.sort().values, gradients


def rows_overwritten(ids, upstream):
    flat, incoming = ids.reshape(-1), upstream.reshape(-1, upstream.size(-1))
    rows, places = flat[flat != 0].unique(return_inverse=True)
    gradients = torch.zeros(len(rows), upstream.size(-1))
    gradients[places] = incoming[flat != 0]
    return rows, gradients


def rows_averaged(ids, upstream):
    rows, gradients = rows_by_unique(ids, upstream)
    times = torch.tensor([(ids == row).sum() for row in rows]).clamp(min=1)
    return rows, gradients / times[:, None]


def rows_that_are_not_zero(ids, upstream):
    rows, gradients = rows_by_unique(ids, upstream)
    kept = gradients.abs().sum(1) > 0
    return rows[kept], gradients[kept]


def rows_in_a_list(ids, upstream):
    rows, gradients = rows_by_unique(ids, upstream)
    return rows.tolist(), gradients


def gradients_first(ids, upstream):
    return rows_by_unique(ids, upstream)[::-1]


def gradients_alone(ids, upstream):
    return rows_by_unique(ids, upstream)[1]


right = gradient_by_index_add
BACKWARDS = [
    ((last_one_wins, rows_by_unique), "because a second assignment to a row overwrites the first"),
    ((plus_equals, rows_by_unique), "index_add adds all of them"),
    ((first_one_wins, rows_by_unique), "the gradient of its first position only"),
    ((mean_of_places, rows_by_unique), "has the mean of the gradients of its positions"),
    ((mean_of_all, rows_by_unique), "divided by the number of ids"),
    ((mean_of_sentences, rows_by_unique), "divided by the number of sentences"),
    ((with_padding, rows_by_unique), "the row of padding, row 0, receives a gradient"),
    ((first_sentence_only, rows_by_unique), "only the first sentence of the batch contributes"),
    ((downhill, rows_by_unique), "the sign is wrong. This is the direction of a descent step"),
    ((counts_only, rows_by_unique), "The upstream gradient is not used"),
    ((turned, rows_by_unique), "the axes are exchanged"),
    ((by_autograd, rows_by_unique), "The check turns autograd off"),
    ((by_autograd_turned_on_again, rows_by_unique), "The check turns autograd off"),
    ((adds_into_its_input, rows_by_unique), "changes its input upstream"),
    ((what_came_in, rows_by_unique), "this is the upstream gradient"),
    ((right, rows_of_the_whole_table), "as long as the largest id"),
    ((right, rows_with_padding), "padding, id 0, is among the rows"),
    ((right, rows_without_the_first), "contain no padding to leave out"),
    ((right, rows_of_some_words), "here all ids are padding"),
    ((right, rows_twice), "a row occurs twice"),
    ((right, rows_in_order_of_the_text), "not in ascending order"),
    ((right, only_rows_sorted), "the rows are sorted, but the gradients are not"),
    ((right, rows_overwritten), "because a second assignment to a row overwrites the first"),
    ((right, rows_averaged), "has the mean of the gradients of its positions"),
    ((right, rows_that_are_not_zero), "gradients sum to 0"),
    ((right, rows_in_a_list), "expected rows as a torch.Tensor of ids"),
    ((right, gradients_first), "expected rows as a torch.Tensor of ids"),
    ((right, gradients_alone), "Expected a pair"),
]


# Part 3


def with_itself(sentence, window):
    places = range(len(sentence))
    return [(sentence[i], sentence[j]) for i in places for j in places if abs(i - j) <= window]


def only_after(sentence, window):
    found = []
    for place, centre in enumerate(sentence):
        found += [(centre, other) for other in sentence[place + 1 : place + 1 + window]]
    return found


def end_of_range_forgotten(sentence, window):
    found = []
    for i, centre in enumerate(sentence):
        for j in range(max(0, i - window), min(len(sentence), i + window)):
            if i != j:
                found.append((centre, sentence[j]))
    return found


def halved(sentence, window):
    return pairs(sentence, window // 2)


def negative_indices(sentence, window):
    found = []
    for i, centre in enumerate(sentence):
        company = sentence[i - window : i] + sentence[i + 1 : i + 1 + window]
        found += [(centre, other) for other in company]
    return found


def reaches_back_round(sentence, window):
    found = []
    for i, centre in enumerate(sentence):
        for j in range(i - window, i + window + 1):
            if j != i and j < len(sentence):
                found.append((centre, sentence[j]))
    return found


def places_by_index(sentence, window):
    found = []
    for centre in sentence:
        i = sentence.index(centre)
        company = sentence[max(0, i - window) : i] + sentence[i + 1 : i + 1 + window]
        found += [(centre, other) for other in company]
    return found


def as_a_tensor(sentence, window):
    return torch.tensor(pairs(sentence, window))


def pairs_of_tensors(sentence, window):
    return [torch.tensor(pair) for pair in pairs(sentence, window)]


def edges_left_out(sentence, window):
    found = []
    for i in range(window, len(sentence) - window):
        found += [(sentence[i], sentence[j]) for j in range(i - window, i + window + 1) if j != i]
    return found


def same_word_left_out(sentence, window):
    return [pair for pair in with_itself(sentence, window) if pair[0] != pair[1]]


def without_repeats(sentence, window):
    return [*dict.fromkeys(pairs(sentence, window))]


def places_instead_of_words(sentence, window):
    return pairs([*range(len(sentence))], window)


def a_generator(sentence, window):
    yield from pairs(sentence, window)


def centres_with_lists(sentence, window):
    return [
        (centre, sentence[max(0, i - window) : i] + sentence[i + 1 : i + 1 + window])
        for i, centre in enumerate(sentence)
    ]


def scores(v, u, centre, context, negatives):
    seen = torch.einsum("bd,bd->b", v[centre], u[context])
    return seen, torch.einsum("bd,bnd->bn", v[centre], u[negatives])


def sign_of_the_negatives(*inputs):
    seen, drawn = scores(*inputs)
    return (-F.logsigmoid(seen) - F.logsigmoid(drawn).sum(1)).mean()


def to_grow(*inputs):
    return -loss(*inputs)


def negatives_averaged(*inputs):
    seen, drawn = scores(*inputs)
    return (-F.logsigmoid(seen) - F.logsigmoid(-drawn).mean(1)).mean()


def mean_of_all_words(v, u, centre, context, negatives):
    words = torch.cat([context[:, None], negatives], 1)
    logits = torch.einsum("bd,bwd->bw", v[centre], u[words])
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    return F.binary_cross_entropy_with_logits(logits, labels)


def without_logarithm(*inputs):
    seen, drawn = scores(*inputs)
    return (-seen.sigmoid() - (-drawn).sigmoid().sum(1)).mean()


def without_sigma(*inputs):
    seen, drawn = scores(*inputs)
    return (drawn.sum(1) - seen).mean()


def softmax_of_all(*inputs):
    seen, drawn = scores(*inputs)
    logits = torch.cat([seen[:, None], drawn], 1)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def without_negatives(*inputs):
    return -F.logsigmoid(scores(*inputs)[0]).mean()


def summed(v, u, centre, context, negatives):
    return loss(v, u, centre, context, negatives) * len(centre)


def one_for_each_pair(*inputs):
    seen, drawn = scores(*inputs)
    return -F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(1)


def tables_swapped(v, u, centre, context, negatives):
    return loss(u, v, centre, context, negatives)


def one_table(v, u, centre, context, negatives):
    return loss(v, v, centre, context, negatives)


def negatives_in_v(v, u, centre, context, negatives):
    seen, _ = scores(v, u, centre, context, negatives)
    _, drawn = scores(v, v, centre, context, negatives)
    return (-F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(1)).mean()


def first_negatives(v, u, centre, context, negatives):
    return loss(v, u, centre, context, negatives[:1].expand_as(negatives))


def unstable(*inputs):
    seen, drawn = scores(*inputs)
    return (-torch.log(seen.sigmoid()) - torch.log(1 - drawn.sigmoid()).sum(1)).mean()


def bounded(*inputs):
    seen, drawn = scores(*inputs)
    return (-torch.log(seen.sigmoid() + 1e-9) - torch.log((-drawn).sigmoid() + 1e-9).sum(1)).mean()


def drawn_detached(v, u, centre, context, negatives):
    seen, _ = scores(v, u, centre, context, negatives)
    drawn = torch.einsum("bd,bnd->bn", v[centre], u[negatives].detach())
    return (-F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(1)).mean()


def cut_off(*inputs):
    return torch.tensor(loss(*inputs).item())


def cosines(v, u, centre, context, negatives):
    return loss(F.normalize(v, dim=1), F.normalize(u, dim=1), centre, context, negatives)


def pairs_by_the_package(sentence, window):
    return [*context_pairs(sentence, window)]


SKIP_GRAMS = [
    ((with_itself, loss), "the centre is paired with itself"),
    ((only_after, loss), "only the words after the centre are used"),
    ((end_of_range_forgotten, loss), "ends one position too early on the right"),
    ((halved, loss), "It is the number of positions on each side"),
    ((negative_indices, loss), "the words before the centre are missing"),
    ((reaches_back_round, loss), "the first words are paired with the last ones"),
    ((places_by_index, loss), "the context of its first position"),
    ((as_a_tensor, loss), "expected a list of pairs, got the tensor"),
    ((pairs_of_tensors, loss), "expected pairs (centre, context), got the tensor"),
    ((context_pairs, loss), "not accepted. Your code uses"),
    ((edges_left_out, loss), "extends beyond an end of the sentence"),
    ((same_word_left_out, loss), "a context word that equals the centre word is missing"),
    ((without_repeats, loss), "how often two words occur together"),
    ((places_instead_of_words, loss), "these are positions in the sentence"),
    ((a_generator, loss), "Return a list"),
    ((centres_with_lists, loss), "a pair must contain two ids"),
    ((pairs, sign_of_the_negatives), "the sign of the scores of the negatives"),
    ((pairs, to_grow), "the sign of the loss is wrong"),
    ((pairs, negatives_averaged), "the terms of the negatives are averaged"),
    ((pairs, mean_of_all_words), "divided by 1 + k"),
    ((pairs, without_logarithm), "the logarithm is missing"),
    ((pairs, without_sigma), "the σ is missing"),
    ((pairs, softmax_of_all), "this is a softmax"),
    ((pairs, without_negatives), "the terms of the negatives are missing"),
    ((pairs, summed), "are summed. Return their mean"),
    ((pairs, one_for_each_pair), "this is the loss of each pair"),
    ((pairs, tables_swapped), "v and u are exchanged"),
    ((pairs, one_table), "all vectors are taken from v"),
    ((pairs, negatives_in_v), "the negatives are looked up in v"),
    ((pairs, first_negatives), "every pair uses the negatives of the first pair"),
    ((pairs, unstable), "F.logsigmoid computes log σ in one step"),
    ((pairs, bounded), "F.logsigmoid computes log σ in one step"),
    ((pairs, drawn_detached), "the vectors of the negatives receive no gradient"),
    ((pairs, cut_off), "no gradient flows through them"),
    ((pairs, cosines), "the scores are cosines"),
    ((pairs_by_the_package, loss), "not accepted. Your code uses"),
]


# Part 4


def ranked(words, scores, left_out, count):
    order = scores.argsort(descending=True).tolist()
    return [words[i] for i in order if words[i] not in left_out][:count]


def itself_too(words, vectors, word, count):
    E = F.normalize(vectors, dim=1)
    return ranked(words, E @ E[words.index(word)], [], count)


def first_dropped(words, vectors, word, count):
    return itself_too(words, vectors, word, count + 1)[1:]


def dot_products(words, vectors, word, count):
    return ranked(words, vectors @ vectors[words.index(word)], [word], count)


def half_a_cosine(words, vectors, word, count):
    x = F.normalize(vectors[words.index(word)], dim=0)
    return ranked(words, vectors @ x, [word], count)


def distances(words, vectors, word, count):
    return ranked(words, -(vectors - vectors[words.index(word)]).norm(dim=1), [word], count)


def farthest(words, vectors, word, count):
    E = F.normalize(vectors, dim=1)
    return ranked(words, -(E @ E[words.index(word)]), [word], count)


def by_columns(words, vectors, word, count):
    E = F.normalize(vectors, dim=0)
    return ranked(words, E @ E[words.index(word)], [word], count)


def without_sign(words, vectors, word, count):
    E = F.normalize(vectors, dim=1)
    return ranked(words, (E @ E[words.index(word)]).abs(), [word], count)


def one_too_few(words, vectors, word, count):
    return nearest(words, vectors, word, count)[: count - 1]


def indices(words, vectors, word, count):
    return [words.index(each) for each in nearest(words, vectors, word, count)]


def with_cosines(words, vectors, word, count):
    return [(each, 0.5) for each in nearest(words, vectors, word, count)]


def by(wanted=lambda a, b, c: b - a + c, prepare=lambda E: F.normalize(E, dim=1), leave="abc"):
    def answer(words, vectors, a, b, c, count, exclude):
        E = prepare(vectors)
        x = wanted(*(E[words.index(word)] for word in (a, b, c)))
        asked = {"a": a, "b": b, "c": c}
        left_out = [asked[name] for name in leave] if exclude else []
        return ranked(words, F.normalize(E, dim=1) @ x, left_out, count)

    return answer


def not_excluded(words, vectors, a, b, c, count, exclude):
    return analogy(words, vectors, a, b, c, count, False)


def always_excluded(words, vectors, a, b, c, count, exclude):
    return analogy(words, vectors, a, b, c, count, True)


def turned_round(*question):
    return by(wanted=lambda a, b, c: a - b + c)(*question)


def sum_of_all(*question):
    return by(wanted=lambda a, b, c: a + b + c)(*question)


def c_alone(*question):
    return by(wanted=lambda a, b, c: c)(*question)


def vectors_as_they_are(*question):
    return by(prepare=lambda E: E)(*question)


def only_c_left_out(*question):
    return by(leave="c")(*question)


def dot_products_all_the_way(words, vectors, a, b, c, count, exclude):
    x, y, z = (vectors[words.index(word)] for word in (a, b, c))
    return ranked(words, vectors @ (y - x + z), [a, b, c] if exclude else [], count)


def distance_all_the_way(words, vectors, a, b, c, count, exclude):
    x, y, z = (vectors[words.index(word)] for word in (a, b, c))
    far = (vectors - (y - x + z)).norm(dim=1)
    return ranked(words, -far, [a, b, c] if exclude else [], count)


def one_word(words, vectors, a, b, c, count, exclude):
    return analogy(words, vectors, a, b, c, count, exclude)[0]


def nearest_by_the_package(words, vectors, word, count):
    return [each.word for each in WordVectors(words, vectors).nearest(word, count)]


def analogy_by_the_package(words, vectors, a, b, c, count, exclude):
    return [each.word for each in WordVectors(words, vectors).analogy(a, b, c, count, exclude)]


NEIGHBOURS = [
    ((itself_too, analogy), "the word itself is among its neighbours"),
    ((first_dropped, analogy), "Exclude it by its index, not as the first"),
    ((dot_products, analogy), "the words are ordered by the dot product"),
    ((half_a_cosine, analogy), "those of the others do"),
    ((distances, analogy), "ordered by distance"),
    ((farthest, analogy), "the words with the smallest cosine"),
    ((by_columns, analogy), "A word is a row, so use dim=1"),
    ((without_sign, analogy), "the sign of the cosine is lost"),
    ((one_too_few, analogy), "one word too few"),
    ((indices, analogy), "Return the words"),
    ((with_cosines, analogy), "without their cosines"),
    ((nearest, not_excluded), "although exclude is True"),
    ((nearest, always_excluded), "although exclude is False"),
    ((nearest, turned_round), "the answer for a − b + c"),
    ((nearest, sum_of_all), "the answer for a + b + c"),
    ((nearest, c_alone), "this is the word nearest to c alone"),
    ((nearest, vectors_as_they_are), "computed from vectors of different lengths"),
    ((nearest, only_c_left_out), "Exclude all three words"),
    ((nearest, dot_products_all_the_way), "the answer is chosen by the dot product"),
    ((nearest, distance_all_the_way), "chosen by the distance between vectors"),
    ((nearest, one_word), "expected a list of words, even"),
    ((nearest_by_the_package, analogy), "not accepted. Your code uses"),
    ((nearest, analogy_by_the_package), "not accepted. Your code uses"),
]


# Part 5


def one_order_only(pairs):
    return [(*one, *other) for i, one in enumerate(pairs) for other in pairs[i + 1 :]]


def with_themselves(pairs):
    return [(*one, *other) for one in pairs for other in pairs]


def sharing_no_word(pairs):
    return [(a, b, c, d) for a, b in pairs for c, d in pairs if a != c and b != d]


def with_other_answers(pairs):
    return [(a, b, c, d) for a, b in pairs for c, d in pairs if b != d]


def turned_pairs(pairs):
    return [(a, b, d, c) for a, b, c, d in questions_from(pairs)]


def nested(pairs):
    return [(one, other) for one in pairs for other in pairs if one != other]


def counting(**change):
    """Return an anatomy with some steps changed."""

    def answer(words, vectors, questions):
        E = vectors if "raw" in change else F.normalize(vectors, dim=1)
        ids = {word: index for index, word in enumerate(words)}
        asked = [q for q in questions if all(word in ids for word in q[: change.get("known", 4)])]

        def first(scores, left_out):
            scores = scores.clone()
            scores[left_out] = -torch.inf
            return words[int(scores.argmax())]

        rows = []
        for *abc, d in asked:
            a, b, c = three = [ids[word] for word in abc]
            terms = vectors if "raw_sum" in change else E
            target = terms[b] - terms[a] + terms[c]
            if "turned" in change:
                target = E[a] - E[b] + E[c]
            left_out = first(E @ target, three if "only_c" not in change else [c])
            let_in = first(E @ target, three if "never_let_in" in change else [])
            alone = first(E @ E[c], change.get("alone", lambda *abc: [*abc])(a, b, c))
            rows.append((abc, d, left_out, let_in, alone))
        said = change.get("said", lambda abc, left_out, let_in: let_in == abc[2])
        earned = change.get("earned", lambda d, left_out, alone: left_out == d != alone)
        right = sum(left_out == d for _, d, left_out, _, _ in rows)
        by_c = sum(alone == d for _, d, _, _, alone in rows)
        return {
            "asked": len(questions) if "asks_all" in change else len(asked),
            "skipped": len(questions) - len(asked),
            "right": right,
            "right_let_in": sum(let_in == d for _, d, _, let_in, _ in rows),
            "said_c": sum(said(abc, left_out, let_in) for abc, _, left_out, let_in, _ in rows),
            "right_by_c": by_c,
            "earned": right - by_c
            if "difference" in change
            else sum(earned(d, left_out, alone) for _, d, left_out, _, alone in rows),
        }

    return answer


def skipped_counted_as_asked(*given):
    return counting(asks_all=True)(*given)


def only_abc_must_be_known(*given):
    return counting(known=3)(*given)


def never_skips(words, vectors, questions):
    return counting(known=0)(words, vectors, questions)


def let_in_is_left_out(*given):
    return counting(never_let_in=True)(*given)


def only_c_excluded(*given):
    return counting(only_c=True)(*given)


def said_with_exclusion(*given):
    return counting(said=lambda abc, left_out, let_in: left_out == abc[2])(*given)


def said_any_of_three(*given):
    return counting(said=lambda abc, left_out, let_in: let_in in abc)(*given)


def baseline_lets_c_in(*given):
    return counting(alone=lambda a, b, c: [])(*given)


def baseline_leaves_out_c_only(*given):
    return counting(alone=lambda a, b, c: [c])(*given)


def baseline_leaves_b_in(*given):
    return counting(alone=lambda a, b, c: [a, c])(*given)


def earned_as_a_difference(*given):
    return counting(difference=True)(*given)


def earned_wherever_c_fails(*given):
    return counting(earned=lambda d, left_out, alone: alone != d)(*given)


def turned_analogy(*given):
    return counting(turned=True)(*given)


def raw_vectors(*given):
    return counting(raw=True)(*given)


def sum_of_raw_vectors(*given):
    """The answers are compared by the cosine, but b − a + c is not normalised."""
    return counting(raw_sum=True)(*given)


def shares(words, vectors, questions):
    counts = anatomy(words, vectors, questions)
    return {name: count / max(1, counts["asked"]) for name, count in counts.items()}


def in_a_row(words, vectors, questions):
    return [*anatomy(words, vectors, questions).values()]


def one_missing(words, vectors, questions):
    counts = anatomy(words, vectors, questions)
    del counts["earned"]
    return counts


ANATOMIES = [
    ((one_order_only, anatomy), "one in each order"),
    ((with_themselves, anatomy), "it contains its own answer"),
    ((sharing_no_word, anatomy), "for two pairs that share a word"),
    ((with_other_answers, anatomy), "for two pairs that share a word"),
    ((turned_pairs, anatomy), "a question must join two pairs"),
    ((nested, anatomy), "expected a list of questions (a, b, c, d)"),
    ((questions_from, skipped_counted_as_asked), "is skipped, not asked"),
    ((questions_from, only_abc_must_be_known), "the correct answer d has no vector"),
    ((questions_from, never_skips), "Your code raises KeyError"),
    ((questions_from, let_in_is_left_out), "all words are allowed as answers here"),
    ((questions_from, only_c_excluded), "only c is excluded, so the answer is a"),
    ((questions_from, said_with_exclusion), "not about the one with the words excluded"),
    ((questions_from, said_any_of_three), "boy, which is a and not c"),
    ((questions_from, baseline_lets_c_in), "is always c itself"),
    ((questions_from, baseline_leaves_out_c_only), "otherwise the two cannot be compared"),
    ((questions_from, baseline_leaves_b_in), "b is not excluded"),
    ((questions_from, earned_as_a_difference), "It is not a difference of two counts"),
    ((questions_from, earned_wherever_c_fails), "so is the analogy. This question does not count"),
    ((questions_from, turned_analogy), "those of a − b + c"),
    ((questions_from, raw_vectors), "the vectors are not normalised before they are added"),
    (
        (questions_from, sum_of_raw_vectors),
        "b − a + c is computed from vectors of different lengths",
    ),
    ((questions_from, shares), "expected a count, which is an integer"),
    ((questions_from, in_a_row), "expected a dict of counts"),
    ((questions_from, one_missing), "the dict lacks the counts earned"),
]


# Part 6


def faulty(fixed="", climb=False, half=False):
    """Return the faulty step with some of its five faults fixed, and other slips on demand."""

    def take(v, u, centre, context, negatives, learning_rate):
        old_v, old_u = v, u
        v, u = v.clone(), u.clone()
        words = torch.cat([context.unsqueeze(1), negatives], dim=1)
        wanted = torch.zeros(words.shape)
        if "labels" in fixed:
            wanted[:, 0] = 1.0
        else:
            wanted[0] = 1.0
        table = old_u if "table" in fixed else old_v
        scores = torch.einsum("bd,bwd->bw", old_v[centre], table[words])
        errors = torch.sigmoid(scores) - wanted
        if climb:
            errors = -errors
        to_v = torch.einsum("bw,bwd->bd", errors, old_u[words]) / len(centre)
        if "repeats" in fixed:
            v.index_add_(0, centre, -learning_rate * to_v)
        else:
            v[centre] -= learning_rate * to_v
        along = old_v if "order" in fixed else v
        to_u = errors.unsqueeze(-1) * along[centre].unsqueeze(1)
        if "mean" in fixed:
            to_u = to_u / len(centre)
        if "repeats" in fixed and not half:
            u.index_add_(0, words.flatten(), -learning_rate * to_u.flatten(0, 1))
        else:
            u[words] -= learning_rate * to_u
        return v, u

    return take


def as_it_was(*inputs):
    return faulty()(*inputs)


def labels_mended(*inputs):
    return faulty("labels")(*inputs)


def order_mended_too(*inputs):
    return faulty("labels order")(*inputs)


def table_mended_too(*inputs):
    return faulty("labels order table")(*inputs)


def all_but_repeats(*inputs):
    return faulty("labels order table mean")(*inputs)


def repeats_in_v_only(*inputs):
    return faulty("labels order table mean repeats", half=True)(*inputs)


def climbing(*inputs):
    return faulty("labels order table mean repeats", climb=True)(*inputs)


def all_but_order(*inputs):
    return faulty("labels table mean repeats")(*inputs)


def all_but_the_table(*inputs):
    return faulty("labels order mean repeats")(*inputs)


def context_words_first(v, u, centre, context, negatives, learning_rate):
    _, new_u = step(v, u, centre, context, negatives, learning_rate)
    words = torch.cat([context.unsqueeze(1), negatives], dim=1)
    errors = torch.sigmoid(torch.einsum("bd,bwd->bw", v[centre], u[words]))
    errors[:, 0] -= 1
    to_v = torch.einsum("bw,bwd->bd", errors, new_u[words]) / len(centre)
    return v.index_add(0, centre, -learning_rate * to_v), new_u


def centre_ignores_drawn_words(v, u, centre, context, negatives, learning_rate):
    _, new_u = step(v, u, centre, context, negatives, learning_rate)
    seen = torch.sigmoid((v[centre] * u[context]).sum(1)) - 1
    to_v = seen[:, None] * u[context] / len(centre)
    return v.index_add(0, centre, -learning_rate * to_v), new_u


def without_the_rate(v, u, centre, context, negatives, learning_rate):
    return step(v, u, centre, context, negatives, 1.0)


def without_sigma_in_the_errors(v, u, centre, context, negatives, learning_rate):
    words = torch.cat([context.unsqueeze(1), negatives], dim=1)
    errors = torch.einsum("bd,bwd->bw", v[centre], u[words]) - F.one_hot(
        torch.zeros(len(centre), dtype=torch.long), words.size(1)
    )
    to_v = torch.einsum("bw,bwd->bd", errors, u[words]) * learning_rate / len(centre)
    to_u = errors.unsqueeze(-1) * v[centre].unsqueeze(1) * learning_rate / len(centre)
    return (
        v.index_add(0, centre, -to_v),
        u.index_add(0, words.flatten(), -to_u.flatten(0, 1)),
    )


def mean_over_words(v, u, centre, context, negatives, learning_rate):
    return step(v, u, centre, context, negatives, learning_rate / (1 + negatives.size(1)))


def step_by_autograd(v, u, centre, context, negatives, learning_rate):
    v, u = v.clone().requires_grad_(), u.clone().requires_grad_()
    loss(v, u, centre, context, negatives).backward()
    return v - learning_rate * v.grad, u - learning_rate * u.grad


def writes_into_v(v, u, centre, context, negatives, learning_rate):
    new_v, new_u = step(v, u, centre, context, negatives, learning_rate)
    v.copy_(new_v)
    return v, new_u


def tables_turned_round(*inputs):
    return step(*inputs)[::-1]


def nothing_returned(*inputs):
    step(*inputs)


STEPS = [
    (as_it_was, "The vector of the negative moves towards that of the centre"),
    (labels_mended, "the vector of the centre after its own update"),
    (order_mended_too, "the score uses two vectors of v"),
    (table_mended_too, "The change of u is too large by the factor 2"),
    (all_but_repeats, "a word is the centre of two pairs, and v is wrong"),
    (repeats_in_v_only, "a word is the context word of two pairs, and u is wrong"),
    (climbing, "The sign of the step is wrong"),
    (all_but_order, "the vector of the centre after its own update"),
    (all_but_the_table, "the score uses two vectors of v"),
    (context_words_first, "its gradient is computed with vectors u that are already updated"),
    (centre_ignores_drawn_words, "the negatives do not contribute to it"),
    (without_the_rate, "the learning rate is not used"),
    (without_sigma_in_the_errors, "the σ is missing"),
    (mean_over_words, "divided by the number of scores of a pair"),
    (step_by_autograd, "The check turns autograd off"),
    (writes_into_v, "changes its input v"),
    (tables_turned_round, "v and u are exchanged in the result"),
    (nothing_returned, "is there a `return`?"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "lookup": LOOKUPS,
    "backward": BACKWARDS,
    "skip_gram": SKIP_GRAMS,
    "neighbours": NEIGHBOURS,
    "anatomy": ANATOMIES,
    "bug_hunt": STEPS,
}


# Through nbgrader: cells as a student would write them

LAST_ONE_WINS = """
def table_gradient(ids, upstream, vocab_size):
    gradient = torch.zeros(vocab_size, upstream.size(-1))
    gradient[ids] = upstream
    gradient[0] = 0
    return gradient


def touched_rows(ids, upstream):
    rows = ids[ids != 0].unique()
    return rows, table_gradient(ids, upstream, int(ids.max()) + 1)[rows]
"""
PADDING_LEARNS = """
def one_hot(ids, vocab_size):
    return torch.eye(vocab_size)[ids]


class Embedding(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, embedding_dim))
        self.weight.data[0] = 0

    def forward(self, ids):
        return self.weight[ids]
"""
# Right, and with a warning on stderr, which must cost nothing.
WARNED = """
import warnings


def nearest(words, vectors, word, count):
    warnings.warn("this is only a warning")
    cosines = F.cosine_similarity(vectors, vectors[words.index(word)].expand_as(vectors))
    cosines[words.index(word)] = -2
    return [words[index] for index in cosines.topk(count).indices]


def analogy(words, vectors, a, b, c, count, exclude):
    E = vectors / vectors.norm(dim=1, keepdim=True)
    cosines = E @ (E[words.index(b)] - E[words.index(a)] + E[words.index(c)])
    order = [words[index] for index in cosines.argsort(descending=True)]
    return [word for word in order if not (exclude and word in (a, b, c))][:count]
"""
AVERAGED = """
def pairs(sentence, window):
    found = []
    for i, centre in enumerate(sentence):
        for j, context in enumerate(sentence):
            if 0 < abs(i - j) <= window:
                found.append((centre, context))
    return found


def loss(v, u, centre, context, negatives):
    seen = (v[centre] * u[context]).sum(-1)
    drawn = (v[centre].unsqueeze(1) * u[negatives]).sum(-1)
    return -(F.logsigmoid(seen) + F.logsigmoid(-drawn).mean(dim=1)).mean()
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "last_one_wins": (
        {"backward": LAST_ONE_WINS, "neighbours": WARNED},
        ["backward-check"],
        "table_gradient: the row of a word that occurs twice",
    ),
    "padding_learns": (
        {"lookup": PADDING_LEARNS},
        ["lookup-check"],
        "the row of padding receives a gradient",
    ),
    "averaged": (
        {"skip-gram": AVERAGED},
        ["skip-gram-check"],
        "loss: the terms of the negatives are averaged",
    ),
}
