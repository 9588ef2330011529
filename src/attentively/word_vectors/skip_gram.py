r"""Skip-gram with negative sampling: learn word vectors from the words around each word.

A word's vector is trained to predict the words around it. A softmax over the whole vocabulary is
expensive; *negative sampling* only separates each context word from a few sampled words.
`attentively.word_vectors.vectors` evaluates and applies the trained vectors.

Sources: Mikolov, Chen, Corrado & Dean (2013), https://arxiv.org/abs/1301.3781, section 3.2;
Mikolov, Sutskever, Chen, Corrado & Dean (2013), https://arxiv.org/abs/1310.4546, sections 2.2
and 2.3.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attentively.layers.embedding import TokenEmbedding
from attentively.tokens.vocabulary import PAD_ID

# The model


class SkipGram(nn.Module):
    r"""Distinguish the context words of a centre word from randomly sampled words.

    Every word has two vectors: :math:`v_w` as the centre and :math:`u_w` as a context word.
    For a centre :math:`c`, a context word :math:`o` and negative samples
    :math:`n_1, \dots, n_k`, the loss is

    .. math:: -\log \sigma(u_o \cdot v_c) - \sum_{i=1}^{k} \log \sigma(-u_{n_i} \cdot v_c)

    (paper of October 2013, equation 4, with the sign of a loss). After training, only the centre
    vectors are kept. As in the authors' program, they are initialised with small random values
    and the context vectors with zeros.
    """

    def __init__(self, vocab_size: int, embedding_dim: int) -> None:
        super().__init__()
        self.centre = TokenEmbedding(vocab_size, embedding_dim)  # v
        self.context = TokenEmbedding(vocab_size, embedding_dim)  # u
        nn.init.uniform_(self.centre.table.weight, -0.5 / embedding_dim, 0.5 / embedding_dim)
        nn.init.zeros_(self.centre.table.weight[PAD_ID])
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


# The training pairs


def context_pairs(
    sentence: Sequence[int], window: int, chance: random.Random | None = None
) -> Iterator[tuple[int, int]]:
    """Yield every word of `sentence` with each neighbour within `window` positions.

    With `chance`, the window size of every word is sampled uniformly from 1 to
    `window`, so that near neighbours are seen more often than distant ones (paper of
    January 2013, section 3.2).
    """
    if window < 1:
        raise ValueError(f"{window=} must be at least 1 (neighbours on each side)")
    for place, centre in enumerate(sentence):
        reach = window if chance is None else chance.randint(1, window)
        before = sentence[max(0, place - reach) : place]
        after = sentence[place + 1 : place + 1 + reach]
        for context in (*before, *after):
            yield centre, context


def word_counts(sentences: Iterable[Sequence[int]], vocab_size: int) -> list[int]:
    """Return the frequency of each word of the vocabulary."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return [counts[word] for word in range(vocab_size)]


def keep_probabilities(counts: Sequence[int], threshold: float = 1e-5) -> list[float]:
    r"""Return the probability that each word is kept in the subsampling of frequent words.

    .. math:: P_\text{keep}(w) = \min\left(1, \sqrt{t / f(w)}\right)

    for a word of relative frequency :math:`f(w)`; the paper states the complement,
    :math:`1 - \sqrt{t / f(w)}`, as the probability to be discarded (equation 5). Its threshold
    :math:`t` of about 1e-5 is for billions of words: in a small text, where every relative
    frequency is larger, it discards almost everything.
    """
    total = sum(counts)
    return [min(1.0, (threshold * total / count) ** 0.5) if count else 1.0 for count in counts]


def subsample(sentence: Sequence[int], keep: Sequence[float], chance: random.Random) -> list[int]:
    """Return a random subset of the words, each kept with its probability in `keep`."""
    return [word for word in sentence if chance.random() < keep[word]]


def noise_distribution(counts: Sequence[int], power: float = 0.75) -> Float[Tensor, " vocab"]:
    r"""Return the probability of each word as a negative sample.

    .. math:: P_n(w) = \frac{\text{count}(w)^{3/4}}{\sum_{w'} \text{count}(w')^{3/4}}

    The power is between 1, the unigram distribution, and 0, the uniform distribution; 3/4 was best
    in the paper (section 2.2). Counts that are all zero raise `ValueError`.
    """
    weights = torch.tensor(counts, dtype=torch.float).pow(power)
    weights[torch.tensor(counts) == 0] = 0  # 0^0 is 1, but absent words are not sampled
    if weights.sum() == 0:
        raise ValueError("all counts are zero, so no word can be sampled")
    return weights / weights.sum()


def draw_negatives(
    noise: Float[Tensor, " vocab"],
    pairs: int,
    negatives: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "pairs negatives"]:
    """Return `negatives` words for each of `pairs`, sampled from `noise`.

    As in the paper, the context word itself may be among them; in a large vocabulary this is rare.
    """
    drawn = torch.multinomial(noise, pairs * negatives, replacement=True, generator=generator)
    return drawn.view(pairs, negatives)
