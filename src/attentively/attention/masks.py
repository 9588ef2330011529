"""Padding and causal masks, and the masked softmax that turns scores into attention weights.

True means *may attend*, everywhere in this project, as in
:func:`torch.nn.functional.scaled_dot_product_attention`. The masks of
:class:`torch.nn.MultiheadAttention` mean the opposite.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def padding_mask(
    ids: Int[Tensor, "batch len"],
    pad_id: int,
) -> Bool[Tensor, "batch 1 len"]:
    """Return True at real tokens, False at padding; the middle axis is the query's."""
    return (ids != pad_id).unsqueeze(1)


def causal_mask(size: int, device: torch.device | None = None) -> Bool[Tensor, "1 size size"]:
    """Return True where the key's position is not after the query's."""
    return torch.ones(1, size, size, dtype=torch.bool, device=device).tril()


def masked_softmax(
    scores: Float[Tensor, "*axes keys"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*axes keys"]:
    r"""Convert scores into weights over the last axis, zero where `mask` is False.

    .. math:: \alpha_j = \frac{m_j \exp e_j}{\sum_k m_k \exp e_k}

    A row without a True entry gets zeros, not NaN. `mask` has as many axes as `scores`,
    each of the same size or 1; anything else raises `ValueError`.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    check_mask(mask, scores.shape)
    # The lowest finite number rather than -inf: a row of -inf has no softmax.
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def check_mask(mask: Bool[Tensor, "..."], scores_shape: tuple[int, ...]) -> None:
    """Raise `ValueError` if `mask` does not fit scores of that shape, quoting both shapes.

    Another type than Bool raises `TypeError`: PyTorch would add such a mask to the scores.
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"a mask must be Bool (True = may attend), but this one is {mask.dtype}")
    if len(mask.shape) != len(scores_shape) or any(
        size not in (1, full) for size, full in zip(mask.shape, scores_shape, strict=True)
    ):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not fit scores of shape "
            f"{tuple(scores_shape)}: every axis must have the same size, or 1"
        )
