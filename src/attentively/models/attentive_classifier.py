r"""A classifier with one attention step: a learned query attends to the input, then one label.

The positions of an input (words, or squares of an image) become keys, additive attention weights
them, and a linear layer classifies the context. It is the smallest model for the question whether
attention weights explain a prediction.

As in Jain & Wallace (2019), https://arxiv.org/abs/1902.10186, section 2, where the encoder is a
bidirectional recurrent network.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from attentively.attention.additive import AdditiveAttention


class Answer(NamedTuple):
    """The output of a classifier."""

    logits: Float[Tensor, "batch labels"]
    """Scores of the labels."""
    weights: Float[Tensor, "batch places"]
    """Attention weights, which sum to one over the positions."""


class AttentiveClassifier(nn.Module):
    r"""Classify an input with one attention step over its positions.

    .. math:: h_1, \dots, h_n = \text{encoder}(x_1, \dots, x_n), \qquad
              \alpha = \operatorname{softmax}\bigl(v^\top \tanh(W q + U h_j)\bigr), \qquad
              \text{logits} = V \sum_j \alpha_j h_j + b

    The query :math:`q` is a parameter, the same for every input. `embedding` computes a vector
    :math:`x_j` for each position by itself. `reader` is an encoder that contextualises them:
    `recurrent.BidirectionalEncoder`, or any module that is called as ``reader(embedded, mask)``
    and returns the keys first. Without an encoder, :math:`h_j = x_j`.
    """

    def __init__(
        self,
        embedding: nn.Module,
        key_dim: int,
        num_labels: int,
        hidden_dim: int = 32,
        reader: nn.Module | None = None,
    ) -> None:
        """`key_dim` is the size of the keys and the query; `hidden_dim` that of the score."""
        super().__init__()
        self.embedding = embedding
        self.reader = reader
        self.query = nn.Parameter(torch.randn(key_dim))  # q
        self.attention = AdditiveAttention(key_dim, key_dim, hidden_dim)
        self.output = nn.Linear(key_dim, num_labels)  # V, b

    def forward(
        self,
        inputs: Shaped[Tensor, "batch places *features"],
        mask: Bool[Tensor, "batch places"] | None = None,
    ) -> Answer:
        """Classify token ids or the squares of images.

        `mask` is False at padding, which is not attended to; an encoder (`reader`) needs a mask.
        """
        return self.answer(self.embedding(inputs), mask)

    def answer(
        self,
        embedded: Float[Tensor, "batch places embedding_dim"],
        mask: Bool[Tensor, "batch places"] | None = None,
    ) -> Answer:
        """Classify inputs that are already embedded, for gradients at the embeddings."""
        keys = self.read(embedded, mask)
        _, weights = self.attention(self.query.expand(len(keys), -1), keys, mask)
        return Answer(self.judge(keys, weights), weights)

    def read(
        self,
        embedded: Float[Tensor, "batch places embedding_dim"],
        mask: Bool[Tensor, "batch places"] | None = None,
    ) -> Float[Tensor, "batch places key_dim"]:
        """Return the keys, which are also the values."""
        if self.reader is None:
            return embedded
        keys, *_ = self.reader(embedded, mask)
        return keys

    def judge(
        self,
        keys: Float[Tensor, "batch places key_dim"],
        weights: Float[Tensor, "batch places"],
    ) -> Float[Tensor, "batch labels"]:
        """Return the logits for the given weights, the model's own or others."""
        context = torch.einsum("bp,bpd->bd", weights, keys)
        return self.output(context)


class SquareEncoder(nn.Module):
    """Encode each square of an image as a vector, by itself.

    A square is cut out before the network reads it. So its vector depends on no other square, and
    a weight on it is a weight on exactly these pixels.
    """

    def __init__(self, feature_dim: int, hidden_dim: int = 8) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(1, hidden_dim, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(hidden_dim, feature_dim, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(1),  # the strongest response anywhere in the square
        )

    def forward(
        self, squares: Float[Tensor, "batch places size size"]
    ) -> Float[Tensor, "batch places feature_dim"]:
        """Return one vector per square."""
        each = squares.flatten(0, 1).unsqueeze(1)  # every square is an image by itself
        return self.look(each).flatten(1).unflatten(0, squares.shape[:2])
