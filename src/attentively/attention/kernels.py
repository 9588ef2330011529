r"""Attention pooling: a weighted mean of the values, with weights from a kernel of the distance.

Given pairs of keys and values, the output for a query :math:`q` is the mean of the values,
weighted by the distance of each key:

.. math::
    f(q) = \sum_j \alpha(q, k_j) \, v_j, \qquad
    \alpha(q, k_j) = \frac{K(u_j)}{\sum_i K(u_i)}, \qquad
    u_j = \frac{\lVert q - k_j \rVert}{\text{width}}.

The kernel :math:`K` determines how the weight decreases with distance. The code is the same for
any number of pairs.

Sources: Nadaraya (1964), https://doi.org/10.1137/1109020; Watson (1964),
https://www.jstor.org/stable/25049340.
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.attention.masks import check_mask, masked_softmax

KernelName = Literal["gaussian", "boxcar", "epanechnikov"]


def gaussian(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return :math:`\exp(-u^2 / 2)`: positive for every key, tiny for distant ones."""
    return torch.exp(-u.square() / 2)


def boxcar(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return 1 where :math:`|u| \le 1`, else 0: equal weights within the width."""
    return (u.abs() <= 1).to(u.dtype)


def epanechnikov(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return :math:`\max(0, 1 - u^2)`: decreasing, and zero beyond the width.

    The usual factor 3/4, which makes the area 1, cancels in the weights.
    """
    return (1 - u.square()).clamp(min=0)


KERNELS: dict[KernelName, Callable[[Tensor], Tensor]] = {
    "gaussian": gaussian,
    "boxcar": boxcar,
    "epanechnikov": epanechnikov,
}
"""The kernels, by name."""


def kernel_weights(
    u: Float[Tensor, "*batch q k"],
    kernel: KernelName,
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch q k"]:
    r"""Convert distances into weights over the keys, :math:`K(u_j) / \sum_i K(u_i)`.

    `mask` has as many axes as `u` and is True where a key may be attended to. A query
    with no key within the width gets zeros. Raises `ValueError` for an unknown kernel
    and for a mask that does not fit.
    """
    _check_kernel(kernel)
    if kernel == "gaussian":
        # The same weights as a softmax of log K. Far from every key each exp(-u²/2)
        # would round to zero; the softmax depends on differences only.
        return masked_softmax(-u.square() / 2, mask)
    unnormalised = KERNELS[kernel](u)
    if mask is not None:
        check_mask(mask, u.shape)
        unnormalised = unnormalised * mask
    total = unnormalised.sum(dim=-1, keepdim=True)
    return unnormalised / total.where(total > 0, 1.0)


def _check_kernel(kernel: KernelName) -> None:
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is unknown: choose one of {get_args(KernelName)}")


class KernelPooling(nn.Module):
    """Predict by a kernel-weighted mean of the values, with a learnable width.

    The width is the exponential of a parameter, so it stays positive. The gradient of a boxcar
    kernel with respect to its width is zero: that width is chosen, not learned.

    Raises `ValueError` for an unknown kernel and for a width that is not positive.
    """

    def __init__(self, kernel: KernelName = "gaussian", width: float = 1.0) -> None:
        super().__init__()
        _check_kernel(kernel)
        if not width > 0:
            raise ValueError(f"width={width} must be positive")
        self.kernel: KernelName = kernel
        self.log_width = nn.Parameter(torch.tensor(math.log(width)))

    @property
    def width(self) -> Float[Tensor, ""]:
        """The kernel width; for a Gaussian, its standard deviation."""
        return self.log_width.exp()

    def forward(
        self,
        query: Float[Tensor, "*batch q key_dim"],
        key: Float[Tensor, "*batch k key_dim"],
        value: Float[Tensor, "*batch k value_dim"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch q value_dim"], Float[Tensor, "*batch q k"]]:
        r"""Return the context of each query and the attention weights.

        `mask`, with as many axes as the weights, is True where a query may attend.
        """
        steps = query.unsqueeze(-2) - key.unsqueeze(-3)  # (…, q, k, key_dim)
        distances = steps.norm(dim=-1)
        weights = kernel_weights(distances / self.width, self.kernel, mask)
        context = weights @ value
        return context, weights
