"""Layer normalisation: scale each vector to mean 0 and variance 1, then apply a gain and a shift.

Ba, Kiros & Hinton (2016), https://arxiv.org/abs/1607.06450, section 3.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def layer_norm(
    x: Float[Tensor, "*shape d_model"],
    gain: Float[Tensor, " d_model"],
    shift: Float[Tensor, " d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "*shape d_model"]:
    r"""Normalise every vector to mean 0 and variance 1, then apply gain and shift.

    .. math:: y = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b, \qquad
              \mu = \frac{1}{d} \sum_i x_i, \qquad
              \sigma^2 = \frac{1}{d} \sum_i (x_i - \mu)^2

    Batch normalisation computes :math:`\mu` and :math:`\sigma` over the batch in
    training. Here they belong to one vector, so a sentence is normalised independently
    of the others. :math:`\epsilon` prevents a division by zero for a vector of equal
    components.
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return gain * (x - mean) / torch.sqrt(variance + eps) + shift


class LayerNorm(nn.Module):
    """`layer_norm` with a learned gain and shift, computed in one kernel."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        if d_model < 1:
            raise ValueError(f"d_model={d_model} must be positive")
        self.gain = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        """Return the normalised vectors."""
        return F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)
