r"""Attention pooling: a weighted mean of the values, with weights from a kernel of the distance.

Given pairs of keys and values, the answer to a query :math:`q` is the mean of the values,
weighted by how close each key is:

.. math::
    f(q) = \sum_i \alpha(q, k_i) \, v_i, \qquad
    \alpha(q, k_i) = \frac{K(u_i)}{\sum_j K(u_j)}, \qquad
    u_i = \frac{\lVert q - k_i \rVert}{\text{width}}.

The kernel :math:`K` says how closeness falls with distance. Nothing here depends on how many
pairs there are: a database of ten and one of a million are asked by the same code.

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
    r"""Return :math:`\exp(-u^2 / 2)`: every key counts, far ones next to nothing."""
    return torch.exp(-u.square() / 2)


def boxcar(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return 1 where :math:`|u| \le 1`, else 0: keys within reach count the same."""
    return (u.abs() <= 1).to(u.dtype)


def epanechnikov(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return :math:`\max(0, 1 - u^2)`: less and less, and nothing beyond reach.

    Some write 3/4 before it, so that its area is 1; among weights such a factor
    cancels.
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
    r"""Turn distances into weights over the keys, :math:`K(u_i) / \sum_j K(u_j)`.

    `mask` has as many axes as `u` and is True where a key takes part. A query that
    reaches no key gets zeros. Raises `ValueError` for an unknown kernel and for a mask
    that does not fit.
    """
    _check_kernel(kernel)
    if kernel == "gaussian":
        # The same values: a softmax of log K. Far from every key, each exp(-u²/2) alone
        # would round to zero; a softmax uses the differences, and finds the nearest.
        return masked_softmax(-u.square() / 2, mask)
    closeness = KERNELS[kernel](u)
    if mask is not None:
        check_mask(mask, u.shape)
        closeness = closeness * mask
    total = closeness.sum(dim=-1, keepdim=True)
    return closeness / total.where(total > 0, 1.0)


def _check_kernel(kernel: KernelName) -> None:
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is unknown: choose one of {get_args(KernelName)}")


class KernelPooling(nn.Module):
    """Answer a query by the values whose keys are near, with a width that can be learned.

    The width is the exponential of a parameter, so it stays positive. A boxcar's weights jump
    from one width to the next and have no slope between: its width is set, not learned.

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
        """How far a key reaches; for a Gaussian, its standard deviation."""
        return self.log_width.exp()

    def forward(
        self,
        query: Float[Tensor, "*batch q key_dim"],
        key: Float[Tensor, "*batch k key_dim"],
        value: Float[Tensor, "*batch k value_dim"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch q value_dim"], Float[Tensor, "*batch q k"]]:
        r"""Return the context of each query, and the weights that made it.

        `mask`, of as many axes as the weights, is True where a query may look.
        """
        steps = query.unsqueeze(-2) - key.unsqueeze(-3)  # from every key to every query
        distances = steps.norm(dim=-1)
        weights = kernel_weights(distances / self.width, self.kernel, mask)
        context = weights @ value
        return context, weights
