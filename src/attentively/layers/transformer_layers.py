"""Encoder and decoder layers: sub-layers with residual connections, in pre-norm or post-norm.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, sections 3.1 and 5.4. Pre-norm and
post-norm are compared by Xiong et al. (2020), https://arxiv.org/abs/2002.04745.
"""

from typing import NamedTuple, Self, cast, get_args

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.multi_head import MultiHeadAttention
from attentively.config import Norm
from attentively.layers.layer_norm import LayerNorm


class Residual(nn.Module):
    r"""A residual connection with layer normalisation around a sub-layer :math:`f`.

    .. math::
        \text{post:}\quad y &= \operatorname{LayerNorm}(x + f(x)) \\
        \text{pre:}\quad y &= x + f(\operatorname{LayerNorm}(x))

    The paper uses post-norm. With pre-norm, residual connections alone link the first
    layer to the last, and training depends less on a warm-up, which Xiong et al. omit.
    Dropout acts on the output of the sub-layer before the addition (paper, section
    5.4). An unknown `norm` raises `ValueError`.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, norm: Norm = "pre") -> None:
        super().__init__()
        if norm not in get_args(Norm):
            raise ValueError(f"norm={norm!r} is unknown: choose pre or post")
        self.norm = norm
        self.layer_norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def enter(
        self,
        x: Float[Tensor, "batch len d_model"],
    ) -> Float[Tensor, "batch len d_model"]:
        """Return the input of the sub-layer."""
        return self.layer_norm(x) if self.norm == "pre" else x

    def leave(
        self,
        x: Float[Tensor, "batch len d_model"],
        said: Float[Tensor, "batch len d_model"],
    ) -> Float[Tensor, "batch len d_model"]:
        """Return `x` plus the sub-layer's output, normalised for post-norm."""
        x = x + self.dropout(said)
        return x if self.norm == "pre" else self.layer_norm(x)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual connection.

    With a causal mask, this is also a layer of a decoder-only model.
    """

    def __init__(
        self,
        d_model: int,
        self_attention: nn.Module,
        feed_forward: nn.Module,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> (
        tuple[
            Float[Tensor, "batch len d_model"],
            Float[Tensor, "batch heads len keys"] | None,
        ]
        | tuple[
            Float[Tensor, "batch len d_model"],
            Float[Tensor, "batch heads len keys"] | None,
            KeyValueCache,
        ]
    ):
        """Return the new vector of each position, and the attention weights on request.

        With a `cache`, `x` contains only the positions after the cached ones, and the
        new cache is returned as well.
        """
        h = self.around_attention.enter(x)
        attended, weights, *new_cache = self.self_attention(
            h, h, h, mask=mask, cache=cache, need_weights=need_weights
        )
        x = self.around_attention.leave(x, attended)

        h = self.around_feed_forward.enter(x)
        x = self.around_feed_forward.leave(x, self.feed_forward(h))
        return (x, weights) if cache is None else (x, weights, *new_cache)


class DecoderCache(NamedTuple):
    """The caches of one decoder layer during generation."""

    target: KeyValueCache
    """Keys and values of the target prefix, extended at every step."""
    memory: KeyValueCache
    """Keys and values of the encoder's output, constant.

    One row per sentence: its hypotheses, consecutive rows of `target`, share it.
    """

    def select(
        self,
        rows: Int[Tensor, " chosen"],
        sentences: Int[Tensor, " sentences"] | None = None,
    ) -> Self:
        """Return the cache of the chosen hypotheses and sentences, in that order.

        An entry may repeat. Without `sentences`, the memory is shared, not copied.
        """
        memory = self.memory if sentences is None else self.memory.select(sentences)
        return type(self)(self.target.select(rows), memory)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, then a feed-forward network.

    Each has a residual connection. Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        self_attention: nn.Module,
        cross_attention: nn.Module,
        feed_forward: nn.Module,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_self_attention = Residual(d_model, dropout, norm)
        self.around_cross_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"] | None = None,
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
    ) -> (
        tuple[
            Float[Tensor, "batch tgt_len d_model"],
            Float[Tensor, "batch heads tgt_len keys"] | None,
            Float[Tensor, "batch heads tgt_len src_len"] | None,
        ]
        | tuple[
            Float[Tensor, "batch tgt_len d_model"],
            Float[Tensor, "batch heads tgt_len keys"] | None,
            Float[Tensor, "batch heads tgt_len src_len"] | None,
            DecoderCache,
        ]
    ):
        """Return the new vector of each position; its weights on target and source.

        Give either `memory`, or a `cache` that `start` computed from it: then `x`
        contains only the positions after the cached ones, and the new cache is returned
        as well. Both or neither raises `ValueError`.
        """
        if (memory is None) == (cache is None):
            raise ValueError("give either the memory or a cache made by start")
        target_cache, memory_cache = (None, None) if cache is None else cache
        h = self.around_self_attention.enter(x)
        attended, self_weights, *target = self.self_attention(
            h, h, h, mask=tgt_mask, cache=target_cache, need_weights=need_weights
        )
        x = self.around_self_attention.leave(x, attended)

        h = self.around_cross_attention.enter(x)
        if memory_cache is not None and memory_cache.keys is not None:
            # The hypotheses of a sentence are queries of one attention to its memory.
            sentences, d_model = len(memory_cache.keys), h.shape[2]
            h = h.reshape(sentences, h.numel() // max(sentences * d_model, 1), d_model)
        attended, cross_weights, *_ = self.cross_attention(
            h,
            memory,
            memory,
            mask=memory_mask,
            cache=memory_cache,
            need_weights=need_weights,
        )
        x = self.around_cross_attention.leave(x, attended.reshape(x.shape))
        if cross_weights is not None:
            by_hypothesis = cross_weights.unflatten(2, (-1, x.shape[1])).transpose(1, 2)
            cross_weights = by_hypothesis.flatten(0, 1)  # (batch, heads, tgt_len, src_len)

        h = self.around_feed_forward.enter(x)
        x = self.around_feed_forward.leave(x, self.feed_forward(h))
        if cache is None:
            return x, self_weights, cross_weights
        return x, self_weights, cross_weights, DecoderCache(target[0], cache.memory)

    def start(self, memory: Float[Tensor, "batch src_len d_model"]) -> DecoderCache:
        """Return the cache before the first token: no target, and the memory projected once."""
        attention = cast(MultiHeadAttention, self.cross_attention)  # or a replacement of it
        return DecoderCache(KeyValueCache(), attention.remember(memory, memory))
