"""The feed-forward network of a Transformer layer: the same small network at every position.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.3. The gated variant is by
Shazeer (2020), https://arxiv.org/abs/2002.05202.
"""

from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attentively.config import Activation


class FeedForward(nn.Module):
    r"""Apply the same two-layer network to each position separately.

    .. math:: \operatorname{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2

    Positions share the weights and do not interact, as in two convolutions with kernel
    size 1. `activation` is the paper's ``relu`` or the ``gelu`` of Hendrycks & Gimpel
    (2016), https://arxiv.org/abs/1606.08415. `dropout` acts between the two layers; the
    paper has none there. An unknown activation raises `ValueError`.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout: float = 0.0,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"{activation=} is unknown: choose relu or gelu")
        self.inner = nn.Linear(d_model, d_ff)  # W_1, b_1
        self.outer = nn.Linear(d_ff, d_model)  # W_2, b_2
        # In place: the hidden layer is the largest tensor.
        self.activation = torch.relu_ if activation == "relu" else F.gelu
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*shape d_model"],
    ) -> Float[Tensor, "*shape d_model"]:
        """Return the new vector of each position."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    r"""A gated feed-forward network (SwiGLU): one linear layer gates another.

    .. math:: \operatorname{FFN}_\text{SwiGLU}(x) =
        \bigl(\operatorname{Swish}(x W) \odot x V\bigr) W_2, \qquad
        \operatorname{Swish}(z) = z \cdot \sigma(z)

    It has three matrices instead of two, and no biases. For the same number of parameters as a
    `FeedForward`, `d_ff` must be two thirds as large. `dropout` acts between the layers.

    Source: Shazeer (2020), https://arxiv.org/abs/2002.05202, section 2.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)  # W
        self.inner = nn.Linear(d_model, d_ff, bias=False)  # V
        self.outer = nn.Linear(d_ff, d_model, bias=False)  # W_2
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*shape d_model"],
    ) -> Float[Tensor, "*shape d_model"]:
        """Return the new vector of each position."""
        return self.outer(self.dropout(F.silu(self.gate(x)) * self.inner(x)))
