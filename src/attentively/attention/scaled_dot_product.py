"""Scaled dot-product attention: the attention of the Transformer, readable and fused.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.2.1.
"""

import math

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attentively.attention.masks import check_mask, masked_softmax


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch q d_head"],
    key: Float[Tensor, "*batch k d_head"],
    value: Float[Tensor, "*batch k d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*batch q d_value"], Float[Tensor, "*batch q k"]]:
    r"""Return a weighted mean of the values for each query, and the weights.

    .. math:: \operatorname{Attention}(Q, K, V) =
              \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d}}\right) V

    The dot product of two vectors of :math:`d` independent numbers of mean 0 and
    variance 1 has variance :math:`d`; divided by :math:`\sqrt d` it has variance 1,
    whatever :math:`d`.

    `mask` has as many axes as the scores, (\*batch, q, k), and is True where a query
    may look; a query with nothing to attend to gets zeros. `bias` is added to the
    scaled scores; it must be finite for some key of each query. `dropout` is the share
    of the weights that do not reach the values; those returned are all there, and sum
    to one. A mask of another shape, or keys without their values, raise `ValueError`.
    """
    check_shapes(query, key, value)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask)
    context = F.dropout(weights, dropout) @ value
    return context, weights


def fused_attention(
    query: Float[Tensor, "*batch q d_head"],
    key: Float[Tensor, "*batch k d_head"],
    value: Float[Tensor, "*batch k d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*batch q d_value"]:
    """Return the context of `scaled_dot_product_attention`, sooner and in less memory.

    :func:`torch.nn.functional.scaled_dot_product_attention` does it all in one kernel, which
    need not keep the weights, and so does not return them.
    """
    check_shapes(query, key, value)
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]))
    allowed: Tensor | None = mask
    if bias is not None:  # the kernel takes one or the other: a bias of -inf masks
        allowed = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(query, key, value, allowed, dropout)


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `ValueError` where queries, keys and values do not fit, quoting their shapes."""
    # PyTorch would stretch an axis of 1, silently.
    if query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-1]:
        problem = "queries and keys may differ in their number alone"
    elif key.shape[:-1] != value.shape[:-1]:
        problem = "every key needs its value"
    else:
        return
    shapes = [tuple(tensor.shape) for tensor in (query, key, value)]
    raise ValueError(f"{problem}: query {shapes[0]}, key {shapes[1]}, value {shapes[2]}")
