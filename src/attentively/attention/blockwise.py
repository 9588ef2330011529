"""Blockwise attention with the online softmax: the same context without the matrix of weights.

A softmax can be computed in one pass over its scores (Milakov and Gimelshein 2018,
https://arxiv.org/abs/1805.02867), and so can attention (Rabe and Staats 2021,
https://arxiv.org/abs/2112.05682). The backward pass recomputes the scores (Dao et al. 2022,
https://arxiv.org/abs/2205.14135, section 3.1 and appendix B).
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentively.attention.masks import check_mask
from attentively.attention.scaled_dot_product import check_shapes


def blockwise_attention(
    query: Float[Tensor, "*batch q d_head"],
    key: Float[Tensor, "*batch k d_head"],
    value: Float[Tensor, "*batch k d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    block_size: int = 128,
) -> Float[Tensor, "*batch q d_value"]:
    r"""Return the context of `scaled_dot_product_attention`, computed block by block of keys.

    After each block of scores :math:`s_j`, with :math:`m` the maximum so far, it keeps

    .. math:: t = \sum_j e^{s_j - m}, \qquad c = \sum_j e^{s_j - m} v_j .

    A new maximum :math:`m'` scales both by :math:`e^{m - m'}`; at the end the context is
    :math:`c / t`. Forward and backward, memory grows with q + k, not with their product.

    `mask` has as many axes as the scores, (\*batch, q, k), and is True where a query may
    attend; a query without any such key gets zeros. `causal` lets the i-th query attend to the
    first i keys, without a mask of all pairs. Inputs of 16 bits are summed in 32 bits. A mask
    of another shape, keys and values that do not match, or a `block_size` below 1 raise
    `ValueError`.
    """
    check_shapes(query, key, value)
    if block_size < 1:
        raise ValueError(f"block_size={block_size} must be at least 1")
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]))
    # t and c, which are divided only at the end, may overflow in 16 bits.
    dtype = torch.promote_types(query.dtype, torch.float32)
    inputs = (tensor.to(dtype) for tensor in (query, key, value))
    return _Blockwise.apply(*inputs, mask, causal, block_size).to(query.dtype)


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        block_size: int,
    ) -> Tensor:
        # The lowest finite number: -inf would make NaN of "largest - new_largest".
        largest = query.new_full((*query.shape[:-1], 1), torch.finfo(query.dtype).min)
        total = torch.zeros_like(largest)
        context = query.new_zeros(*query.shape[:-1], value.shape[-1])
        for block in _blocks(key.shape[-2], block_size):
            scores = _scores(query, key, mask, causal, block)
            new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
            shrink = torch.exp(largest - new_largest)
            weights = torch.exp(scores - new_largest)  # not yet divided by their total
            total = shrink * total + weights.sum(dim=-1, keepdim=True)
            context = shrink * context + weights @ value[..., block, :]
            largest = new_largest
        total = total.clamp(min=1)  # the largest score gives e^0 = 1: below 1, no key
        context = context / total
        ctx.save_for_backward(query, key, value, mask, context, largest + total.log())
        ctx.causal, ctx.block_size = causal, block_size
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask, context, log_total = ctx.saved_tensors
        (d_context,) = gradients
        d_query, d_key, d_value = map(torch.zeros_like, (query, key, value))
        # Softmax gradient: weight times the deviation of d_weights from its mean.
        mean = (d_context * context).sum(dim=-1, keepdim=True)
        for block in _blocks(key.shape[-2], ctx.block_size):
            weights = torch.exp(_scores(query, key, mask, ctx.causal, block) - log_total)
            d_weights = d_context @ value[..., block, :].transpose(-2, -1)
            d_scores = weights * (d_weights - mean) / math.sqrt(query.shape[-1])
            d_query += d_scores @ key[..., block, :]
            d_key[..., block, :] = d_scores.transpose(-2, -1) @ query
            d_value[..., block, :] = weights.transpose(-2, -1) @ d_context
        return d_query, d_key, d_value, None, None, None


def _blocks(keys: int, block_size: int) -> Iterator[slice]:
    for first in range(0, keys, block_size):
        yield slice(first, min(first + block_size, keys))


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, block: slice) -> Tensor:
    """Return the scores of one block of keys, -inf where a query may not attend."""
    scores = query @ key[..., block, :].transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        of_block = mask if mask.shape[-1] == 1 else mask[..., block]
        scores = scores.masked_fill(~of_block, -math.inf)
    if causal:
        positions = torch.arange(block.start, block.stop, device=query.device)
        later = positions > torch.arange(query.shape[-2], device=query.device).unsqueeze(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores
