"""The feed-forward network of a Transformer layer: the same small network at every position.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.3. The one with a gate is from
Shazeer (2020), https://arxiv.org/abs/2002.05202.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Activation = Literal["relu", "gelu"]


class FeedForward(nn.Module):
    r"""Think about each position by itself, after attention has gathered what it needs.

    .. math:: \operatorname{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2

    Every position meets the same weights, and none sees another: two convolutions with
    kernel size 1. `activation` is the paper's ``relu`` or the ``gelu`` of Hendrycks &
    Gimpel (2016), https://arxiv.org/abs/1606.08415. `dropout` acts between the two
    layers; the paper has none there. An unknown activation raises `ValueError`.
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
            raise ValueError(
                f"activation={activation!r} is unknown: choose relu or gelu",
            )
        self.inner = nn.Linear(d_model, d_ff)  # W_1, b_1
        self.outer = nn.Linear(d_ff, d_model)  # W_2, b_2
        # In place: what the ReLU overwrites is the largest tensor of a layer, and not
        # needed again.
        self.activation = torch.relu_ if activation == "relu" else F.gelu
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*shape d_model"],
    ) -> Float[Tensor, "*shape d_model"]:
        """Return what the network makes of each position."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    r"""A feed-forward network in which one half decides how much of the other passes.

    .. math:: \operatorname{FFN}_\text{SwiGLU}(x) =
        \bigl(\operatorname{Swish}(x W) \odot x V\bigr) W_2, \qquad
        \operatorname{Swish}(z) = z \cdot \sigma(z)

    There are three matrices in the place of two, and no biases. To have as many parameters as
    a `FeedForward`, `d_ff` has to be two thirds of that one's. `dropout` acts between the layers.

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
        """Return what the network makes of each position."""
        return self.outer(self.dropout(F.silu(self.gate(x)) * self.inner(x)))
