"""The Transformer in the order of the paper's figure 1, with the shape after each line.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3. The full
`transformer.Transformer` computes the same from the same parameters, and adds a cache, other
positional encodings, tied embeddings and the interface that training and search use.
"""

import math
from collections.abc import Callable
from typing import get_args

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.attention.plain_multi_head import MultiHeadAttention
from attentively.attention.positional import sinusoids
from attentively.config import Norm
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.feed_forward import FeedForward
from attentively.layers.layer_norm import LayerNorm


class InputEmbedding(nn.Module):
    r"""Add the positional encoding :math:`P` to the scaled token embedding :math:`E`.

    .. math:: x_p = \sqrt{d_\text{model}} \, E_{w_p} + P_p

    Source: Vaswani et al. (2017), sections 3.4 and 3.5; dropout as in section 5.4.
    """

    def __init__(self, vocab_size: int, d_model: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        ids: Int[Tensor, "batch len"],
    ) -> Float[Tensor, "batch len d_model"]:
        """Return one vector per token."""
        x = self.embedding(ids)  # (batch, len, d_model)
        length, d_model = x.shape[1:]
        positions = sinusoids(length, d_model, device=x.device)  # (len, d_model)
        positions = positions.to(x.dtype)
        x = math.sqrt(d_model) * x + positions  # (batch, len, d_model)
        return self.dropout(x)  # (batch, len, d_model)


class Residual(nn.Module):
    r"""Add a residual connection and layer normalisation to a sub-layer :math:`f`.

    .. math::
        \text{post:}\quad y &= \operatorname{LayerNorm}(x + f(x)) \\
        \text{pre:}\quad y &= x + f(\operatorname{LayerNorm}(x))

    Post-norm is "Add & Norm" of the paper's figure 1. Dropout acts on the output of
    the sub-layer, before the addition. An unknown `norm` raises `ValueError`.

    Sources: Vaswani et al. (2017), sections 3.1 and 5.4; Xiong et al. (2020),
    https://arxiv.org/abs/2002.04745.
    """

    def __init__(
        self,
        d_model: int,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        if norm not in get_args(Norm):
            raise ValueError(f"norm={norm!r} is unknown: choose pre or post")
        self.norm = norm
        self.layer_norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "batch len d_model"]:
        """Return `x` plus the output of the sub-layer, with layer normalisation."""
        if self.norm == "pre":
            return x + self.dropout(sublayer(self.layer_norm(x)))
        return self.layer_norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual connection.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        mask: Bool[Tensor, "#batch #len len"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        """Return the new vector of each position."""
        x = self.around_attention(
            x, lambda h: self.self_attention(h, h, h, mask)[0]
        )  # (batch, len, d_model)
        return self.around_feed_forward(x, self.feed_forward)  # (batch, len, d_model)


class Encoder(nn.Module):
    """The input embedding and a stack of `num_layers` encoder layers.

    With pre-norm, the output of the last layer is a sum that is not normalised, so the
    stack ends with one more layer normalisation.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.input = InputEmbedding(vocab_size, d_model, dropout)
        sizes = d_model, num_heads, d_ff, dropout, norm
        self.layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(num_layers))
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "#batch #src_len src_len"],
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Return the memory: one vector per source token."""
        x = self.input(src)  # (batch, src_len, d_model)
        for layer in self.layers:
            x = layer(x, src_mask)  # (batch, src_len, d_model)
        return self.last_norm(x)  # (batch, src_len, d_model)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, then a feed-forward network.

    Each has a residual connection. The queries of the cross-attention come from the
    target, its keys and values from the memory.

    Source: Vaswani et al. (2017), sections 3.1 and 3.2.3.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_self_attention = Residual(d_model, dropout, norm)
        self.around_cross_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(
        self,
        y: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "#batch #tgt_len tgt_len"] | None = None,
        src_mask: Bool[Tensor, "#batch #tgt_len src_len"] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Return the new vector of each target position."""
        y = self.around_self_attention(
            y, lambda h: self.self_attention(h, h, h, tgt_mask)[0]
        )  # (batch, tgt_len, d_model)
        y = self.around_cross_attention(
            y, lambda h: self.cross_attention(h, memory, memory, src_mask)[0]
        )  # (batch, tgt_len, d_model)
        return self.around_feed_forward(y, self.feed_forward)


class Decoder(nn.Module):
    """The input embedding and a stack of decoder layers, which all read one memory."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.input = InputEmbedding(vocab_size, d_model, dropout)
        sizes = d_model, num_heads, d_ff, dropout, norm
        self.layers = nn.ModuleList(DecoderLayer(*sizes) for _ in range(num_layers))
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Float[Tensor, "batch src_len d_model"],
        src_mask: Bool[Tensor, "#batch 1 src_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Return one vector per target token, which depends on no later token."""
        y = self.input(tgt)  # (batch, tgt_len, d_model)
        tgt_mask = causal_mask(tgt.shape[1], tgt.device)  # (1, tgt_len, tgt_len)
        for layer in self.layers:
            y = layer(y, memory, tgt_mask, src_mask)  # (batch, tgt_len, d_model)
        return self.last_norm(y)  # (batch, tgt_len, d_model)


class Transformer(nn.Module):
    """Encode the source, decode the target, and predict each next target token.

    Source: Vaswani et al. (2017), figure 1.
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        sizes = d_model, num_heads, d_ff, num_layers, dropout, norm
        self.encoder = Encoder(src_vocab_size, *sizes)
        self.decoder = Decoder(tgt_vocab_size, *sizes)
        self.output = nn.Linear(d_model, tgt_vocab_size, bias=False)

    def forward(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "#batch 1 src_len"],
        tgt: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Return the logits of the token after each target token."""
        memory = self.encoder(src, src_mask)  # (batch, src_len, d_model)
        y = self.decoder(tgt, memory, src_mask)  # (batch, tgt_len, d_model)
        return self.output(y)  # (batch, tgt_len, vocab)
