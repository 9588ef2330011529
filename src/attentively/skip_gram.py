r"""Skip-gram: vectors for words, learned from the company that the words keep.

A word's vector is to predict the words around it. Asking the right word to win against the
whole vocabulary is dear; with *negative sampling* it has to win against a few drawn at random.
Then the vectors are asked: which words are near, and what completes an analogy.

Sources: Mikolov, Chen, Corrado & Dean (2013), https://arxiv.org/abs/1301.3781, section 3.2;
Mikolov, Sutskever, Chen, Corrado & Dean (2013), https://arxiv.org/abs/1310.4546, sections 2.2
and 2.3.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attentively.embedding import TokenEmbedding
from attentively.vocabulary import PAD_ID

# What is learned


class SkipGram(nn.Module):
    r"""Tell the words around a word from words drawn at random.

    Every word has two vectors: :math:`v_w` as the centre and :math:`u_w` as part of a context.
    For a centre :math:`c`, a word :math:`o` seen near it and drawn words
    :math:`n_1, \dots, n_k`, the loss is

    .. math:: -\log \sigma(u_o \cdot v_c) - \sum_{i=1}^{k} \log \sigma(-u_{n_i} \cdot v_c)

    (paper of October 2013, equation 4, with the sign of a loss). What is kept in the end are the
    centre vectors. As in the authors' program these begin small and the context vectors at zero.
    """

    def __init__(self, vocab_size: int, embedding_dim: int) -> None:
        super().__init__()
        self.centre = TokenEmbedding(vocab_size, embedding_dim)  # v
        self.context = TokenEmbedding(vocab_size, embedding_dim)  # u
        nn.init.uniform_(self.centre.table.weight, -0.5 / embedding_dim, 0.5 / embedding_dim)
        nn.init.zeros_(self.centre.table.weight[PAD_ID])  # padding means nothing
        nn.init.zeros_(self.context.table.weight)

    def forward(
        self,
        centre: Int[Tensor, " batch"],
        context: Int[Tensor, " batch"],
        negatives: Int[Tensor, "batch drawn"],
    ) -> Float[Tensor, ""]:
        """Return the loss, a mean over the pairs (centre, context)."""
        v = self.centre(centre)
        seen = torch.einsum("bd,bd->b", self.context(context), v)
        drawn = torch.einsum("bnd,bd->bn", self.context(negatives), v)
        losses = -F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(dim=1)
        return losses.mean()

    @property
    def vectors(self) -> Float[Tensor, "vocab embedding_dim"]:
        """The centre vectors, one row per word."""
        return self.centre.table.weight.detach()


# What it is learned from


def context_pairs(
    sentence: Sequence[int], window: int, chance: random.Random | None = None
) -> Iterator[tuple[int, int]]:
    """Yield every word of `sentence` with each of its neighbours, up to `window` steps away.

    With `chance`, the reach is drawn anew for every word, from 1 to `window`, so that near
    neighbours are seen more often than far ones (paper of January 2013, section 3.2).
    """
    if window < 1:
        raise ValueError(f"window={window} must be positive: how many neighbours on each side")
    for place, centre in enumerate(sentence):
        reach = window if chance is None else chance.randint(1, window)
        before = sentence[max(0, place - reach) : place]
        after = sentence[place + 1 : place + 1 + reach]
        for context in (*before, *after):
            yield centre, context


def word_counts(sentences: Iterable[Sequence[int]], vocab_size: int) -> list[int]:
    """Return how often each word of the vocabulary occurs."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return [counts[word] for word in range(vocab_size)]


def keep_probabilities(counts: Sequence[int], threshold: float = 1e-5) -> list[float]:
    r"""Return how likely each word is to be kept when frequent ones are thinned out.

    .. math:: P_\text{keep}(w) = \min\left(1, \sqrt{t / f(w)}\right)

    for a word that makes up the share :math:`f(w)` of the text; the paper gives the rest,
    :math:`1 - \sqrt{t / f(w)}`, as the probability to be discarded (equation 5). Its threshold
    :math:`t` of about 1e-5 is for billions of words: in a small text, where every word is a
    larger share, it leaves little.
    """
    total = sum(counts)
    return [min(1.0, (threshold * total / count) ** 0.5) if count else 1.0 for count in counts]


def subsample(sentence: Sequence[int], keep: Sequence[float], chance: random.Random) -> list[int]:
    """Return the words of `sentence` that stay, each with its probability to be kept."""
    return [word for word in sentence if chance.random() < keep[word]]


def noise_distribution(counts: Sequence[int], power: float = 0.75) -> Float[Tensor, " vocab"]:
    r"""Return how likely each word is to be drawn as a negative.

    .. math:: P_n(w) = \frac{\text{count}(w)^{3/4}}{\sum_{w'} \text{count}(w')^{3/4}}

    The power lies between 1, where words are drawn as often as they occur, and 0, where all are
    drawn alike; 3/4 did best in the paper (section 2.2). Counts that are all zero raise
    `ValueError`.
    """
    weights = torch.tensor(counts, dtype=torch.float).pow(power)
    weights[torch.tensor(counts) == 0] = 0  # 0^0 is 1: a word that never occurs is not drawn
    if weights.sum() == 0:
        raise ValueError("no word has been counted, so there is none to draw")
    return weights / weights.sum()


def draw_negatives(
    noise: Float[Tensor, " vocab"],
    pairs: int,
    negatives: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "pairs negatives"]:
    """Return `negatives` words for each of `pairs`, drawn from `noise`.

    The word that was seen may be among them, as in the paper; with many words it rarely is.
    """
    drawn = torch.multinomial(noise, pairs * negatives, replacement=True, generator=generator)
    return drawn.view(pairs, negatives)


# What it is asked


class Neighbour(NamedTuple):
    """A word, and the cosine of the angle between its vector and what was asked."""

    word: str
    cosine: float


class AnalogyScore(NamedTuple):
    """How many analogies were answered right."""

    correct: int
    asked: int
    skipped: int
    """Questions with a word that has no vector: they are not asked."""

    @property
    def accuracy(self) -> float:
        """The share of right answers among the questions asked."""
        if self.asked == 0:
            raise ValueError(f"none of {self.skipped} questions could be asked")
        return self.correct / self.asked


Analogy = tuple[str, str, str, str]


class WordVectors:
    r"""Ask vectors about words, whoever made them.

    Vectors are compared by the cosine of the angle between them,
    :math:`x \cdot y / (\lVert x \rVert \lVert y \rVert)`, which does not see their lengths.

    An analogy, :math:`a` is to :math:`b` as :math:`c` is to what?, is answered by

    .. math:: \operatorname*{argmax}_{d} \; \cos(d, \; b - a + c)

    over vectors made of length 1 (Mikolov, Yih & Zweig 2013, https://aclanthology.org/N13-1090,
    section 4; called 3CosAdd by Levy & Goldberg 2014, https://aclanthology.org/W14-1618).
    By custom :math:`a`, :math:`b` and :math:`c` are no answers. Let in, :math:`c` itself was the
    nearest in 93 cases of 100 (Linzen 2016, https://aclanthology.org/W16-2503, section 4), so a
    score should say whether the custom was kept.
    """

    def __init__(self, words: Sequence[str], vectors: Float[Tensor, "words embedding_dim"]) -> None:
        """Raise `ValueError` unless there is one vector for each word, and each word once."""
        self.words = list(words)
        self.ids = {word: index for index, word in enumerate(self.words)}
        if len(self.words) != len(vectors) or len(self.ids) != len(self.words):
            raise ValueError(
                f"{len(self.words)} words, {len(self.ids)} of them distinct, "
                f"came with {len(vectors)} vectors"
            )
        self.directions = F.normalize(vectors.detach(), dim=-1)  # of length 1

    def __contains__(self, word: str) -> bool:
        return word in self.ids

    def similarity(self, one: str, other: str) -> float:
        """Return the cosine between two words; a word without a vector raises `ValueError`."""
        return float(self._direction(one) @ self._direction(other))

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """Return the words nearest to `word`, itself left out, the nearest first."""
        return self._nearest(self._direction(word), count, left_out=[word])

    def analogy(
        self, a: str, b: str, c: str, count: int = 1, exclude: bool = True
    ) -> list[Neighbour]:
        """Answer "`a` is to `b` as `c` is to …", the best answer first.

        With `exclude`, the three words of the question are no answers.
        """
        wanted = self._direction(b) - self._direction(a) + self._direction(c)
        return self._nearest(F.normalize(wanted, dim=0), count, [a, b, c] if exclude else [])

    def score_analogies(self, questions: Iterable[Analogy], exclude: bool = True) -> AnalogyScore:
        """Ask every question (a, b, c, d); right is what answers exactly d."""
        correct = asked = skipped = 0
        for a, b, c, d in questions:
            if not all(word in self for word in (a, b, c, d)):
                skipped += 1
                continue
            asked += 1
            correct += self.analogy(a, b, c, exclude=exclude)[0].word == d
        return AnalogyScore(correct, asked, skipped)

    def _direction(self, word: str) -> Float[Tensor, " embedding_dim"]:
        if word not in self.ids:
            raise ValueError(f"there is no vector for {word!r} among {len(self.words)} words")
        return self.directions[self.ids[word]]

    def _nearest(
        self, wanted: Float[Tensor, " embedding_dim"], count: int, left_out: Sequence[str]
    ) -> list[Neighbour]:
        cosines = self.directions @ wanted
        cosines[[self.ids[word] for word in left_out]] = -torch.inf
        count = min(count, len(self.words) - len(set(left_out)))
        best = cosines.topk(count)
        return [
            Neighbour(self.words[index], cosine)
            for index, cosine in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
