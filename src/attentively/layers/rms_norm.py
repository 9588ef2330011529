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
    r"""Divide every vector by the size of its components, then scale each component.

    .. math:: y = g \odot \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}

    Nothing is subtracted and nothing is added: before the gain, the direction of a
    vector stays what it was. The paper writes no :math:`\epsilon`; it keeps a vector of
    zeros from being divided by zero.
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
