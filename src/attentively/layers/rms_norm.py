"""Root mean square normalisation: layer normalisation without the mean.

Zhang & Sennrich (2019), https://arxiv.org/abs/1910.07467.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def rms_norm(
    x: Float[Tensor, "*shape d_model"],
    gain: Float[Tensor, " d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "*shape d_model"]:
    r"""Divide every vector by its root mean square, then apply the gain.

    .. math:: y = g \odot \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}

    There is no mean and no shift, so before the gain the direction of a vector is
    unchanged. :math:`\epsilon`, which the paper does not write, prevents a division by
    zero for a vector of zeros.
    """
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return gain * x / torch.sqrt(mean_square + eps)


class RMSNorm(nn.Module):
    """`rms_norm` with a learned gain, computed in one kernel."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        if d_model < 1:
            raise ValueError(f"d_model={d_model} must be positive")
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        """Return the normalised vectors."""
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)
