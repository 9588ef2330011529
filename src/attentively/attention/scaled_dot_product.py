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

    The dot product of two vectors of :math:`d` independent components with mean 0 and
    variance 1 has variance :math:`d`; divided by :math:`\sqrt d` it has variance 1 for
    every :math:`d`.

    `mask` has as many axes as the scores, (\*batch, q, k), and is True where a query
    may attend; a query without any such key gets zeros. `bias` is added to the scaled
    scores; each query needs an allowed key with finite bias. `dropout` is the
    probability with which a weight is dropped before the sum over the values; the
    returned weights are without dropout. A mask of another shape, or keys and values
    that do not match, raise `ValueError`.
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
    """Return the context of `scaled_dot_product_attention`, faster and in less memory.

    :func:`torch.nn.functional.scaled_dot_product_attention` computes it in one kernel, which
    does not store the weights and therefore cannot return them.
    """
    check_shapes(query, key, value)
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]))
    allowed: Tensor | None = mask
    if bias is not None:  # the kernel accepts a mask or a bias: -inf in the bias masks
        allowed = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(query, key, value, allowed, dropout)


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `ValueError` if queries, keys and values do not match, quoting their shapes."""
    # PyTorch would silently broadcast an axis of size 1.
    if query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-1]:
        problem = "queries and keys must agree on every axis except their number (axis -2)"
    elif key.shape[:-1] != value.shape[:-1]:
        problem = "keys and values must agree on every axis except the last"
    else:
        return
    shapes = [tuple(tensor.shape) for tensor in (query, key, value)]
    raise ValueError(f"{problem}: query {shapes[0]}, key {shapes[1]}, value {shapes[2]}")
