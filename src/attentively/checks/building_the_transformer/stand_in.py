"""The package's Transformer, called as the one that assignment 15 builds.

There a model is made of plain arguments, its layers return one tensor, and a way around is called
with a sub-layer. Where a student has no such model of their own, this one stands in; the names of
its parameters are the package's.
"""

import math
from collections.abc import Callable

from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import sinusoids
from attentively.layers import transformer_layers
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.feed_forward import FeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.transformer_layers import Norm


class Residual(transformer_layers.Residual):
    """The way around a sub-layer, and the sub-layer."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.leave(x, sublayer(self.enter(x)))


class EncoderLayer(nn.Module):
    """Look around, then think."""

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm: Norm = "pre"
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.around_attention(x, lambda h: self.self_attention(h, h, h, mask)[0])
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Look back at the target, look at the source, then think."""

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm: Norm = "pre"
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
        y: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        src_mask: Tensor | None = None,
    ) -> Tensor:
        y = self.around_self_attention(y, lambda h: self.self_attention(h, h, h, tgt_mask)[0])
        y = self.around_cross_attention(
            y, lambda h: self.cross_attention(h, memory, memory, src_mask)[0]
        )
        return self.around_feed_forward(y, self.feed_forward)


class InputEmbedding(nn.Module):
    """What the first layer reads: each word, and where it stands."""

    def __init__(self, vocab_size: int, d_model: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids)
        length, d_model = words.shape[1:]
        return self.dropout(math.sqrt(d_model) * words + sinusoids(length, d_model).to(words))


class Encoder(nn.Module):
    """Read the source."""

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
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm) for _ in range(num_layers)
        )
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        x = self.input(src)
        for layer in self.layers:
            x = layer(x, src_mask)
        return self.last_norm(x)


class Decoder(nn.Module):
    """Read the target so far, and look at the source."""

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
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm) for _ in range(num_layers)
        )
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(self, tgt: Tensor, memory: Tensor, src_mask: Tensor) -> Tensor:
        y = self.input(tgt)
        tgt_mask = causal_mask(tgt.size(1), tgt.device)
        for layer in self.layers:
            y = layer(y, memory, tgt_mask, src_mask)
        return self.last_norm(y)


class Transformer(nn.Module):
    """Read the source all at once; score the word after each one of the target."""

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

    def forward(self, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
        return self.output(self.decoder(tgt, self.encoder(src, src_mask), src_mask))
