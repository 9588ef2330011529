r"""The Transformer: an encoder–decoder model built from attention.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3. Encoder-only and decoder-only
models use the same parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Self, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import (
    ALiBi,
    AttentionPosition,
    LearnedPositionalEmbedding,
    RelativePositionalEmbedding,
    RotaryPositionalEmbedding,
    SinusoidalPositionalEncoding,
)
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.feed_forward import FeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.transformer_layers import DecoderCache, DecoderLayer, EncoderLayer
from attentively.models.configs import StackConfig, TransformerConfig
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.tokens.vocabulary import PAD_ID

MAX_DISTANCE = 16
"""Maximum relative distance: k of Shaw et al. (2018), section 4.1."""


def self_attention(config: StackConfig) -> MultiHeadAttention:
    """Return a self-attention module, with the positional encoding of `config`."""
    d_head = config.d_model // config.num_heads
    position: AttentionPosition | None = None
    if config.positions == "relative":
        position = RelativePositionalEmbedding(d_head, MAX_DISTANCE)
    elif config.positions == "rotary":
        position = RotaryPositionalEmbedding(d_head)
    elif config.positions == "alibi":
        position = ALiBi(config.num_heads)
    return MultiHeadAttention(
        config.d_model, config.num_heads, num_kv_heads=config.num_kv_heads, position=position
    )


def cross_attention(config: StackConfig) -> MultiHeadAttention:
    """Return a cross-attention module; relative positions do not apply between two sequences."""
    return MultiHeadAttention(config.d_model, config.num_heads, num_kv_heads=config.num_kv_heads)


def feed_forward(config: StackConfig) -> FeedForward:
    """Return the feed-forward network of a layer."""
    return FeedForward(config.d_model, config.d_ff, activation=config.activation)


class InputEmbedding(nn.Module):
    r"""Add positional encodings to the scaled token embeddings.

    .. math:: x_p = \sqrt{d_\text{model}} \, E_{w_p} + P_p

    Entries of :math:`E` are initialised with variance :math:`1/d_\text{model}`, which suits a
    matrix that is also the output layer; the factor brings embeddings to the scale of the
    positional encodings.

    Source: Vaswani et al. (2017), section 3.4.
    """

    def __init__(self, embedding: TokenEmbedding, config: StackConfig) -> None:
        super().__init__()
        self.embedding = embedding
        self.scale = math.sqrt(config.d_model)
        self.positions: nn.Module | None = None
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositionalEncoding(config.d_model)
        elif config.positions == "learned":
            self.positions = LearnedPositionalEmbedding(config.d_model, config.max_len)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch len"], first: int = 0
    ) -> Float[Tensor, "batch len d_model"]:
        """Return one vector per token; the first token is at position `first`."""
        x = self.scale * self.embedding(ids)
        if self.positions is not None:
            x = self.positions(x, first)
        return self.dropout(x)


def last_norm(config: StackConfig) -> nn.Module:
    """Return the normalisation after the last layer.

    With pre-norm the last sum is not normalised yet; with post-norm it is.
    """
    return LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class TokenEncoder(nn.Module):
    """An input embedding and a stack of encoder layers.

    With a causal mask and one cache per layer, it is also the stack of a decoder-only model.
    """

    def __init__(self, embedding: TokenEmbedding, config: StackConfig) -> None:
        super().__init__()
        self.input = InputEmbedding(embedding, config)
        self.layers = nn.ModuleList(
            EncoderLayer(
                config.d_model,
                self_attention(config),
                feed_forward(config),
                config.dropout,
                config.norm,
            )
            for _ in range(config.num_layers)
        )
        self.last_norm = last_norm(config)

    def forward(
        self,
        ids: Int[Tensor, "batch len"],
        mask: Bool[Tensor, "..."] | None = None,
        caches: Sequence[KeyValueCache] | None = None,
        need_weights: bool = False,
    ) -> (
        tuple[
            Float[Tensor, "batch len d_model"],
            Float[Tensor, "layers batch heads len keys"] | None,
        ]
        | tuple[
            Float[Tensor, "batch len d_model"],
            Float[Tensor, "layers batch heads len keys"] | None,
            tuple[KeyValueCache, ...],
        ]
    ):
        """Return one vector per token, and the attention weights of each layer on request.

        With `caches`, one per layer, `ids` are the tokens after the cached ones, and
        the new caches are returned as well.
        """
        x = self.input(ids, first=caches[0].length if caches else 0)
        maps, new_caches = [], []
        for index, layer in enumerate(self.layers):
            cache = caches[index] if caches else None
            x, weights, *new_cache = layer(x, mask, cache, need_weights)
            maps.append(weights)
            new_caches += new_cache
        x, all_maps = self.last_norm(x), torch.stack(maps) if need_weights else None
        return (x, all_maps, tuple(new_caches)) if caches else (x, all_maps)


class TokenDecoder(nn.Module):
    """An input embedding and a stack of decoder layers."""

    def __init__(self, embedding: TokenEmbedding, config: StackConfig) -> None:
        super().__init__()
        self.input = InputEmbedding(embedding, config)
        self.layers = nn.ModuleList(
            DecoderLayer(
                config.d_model,
                self_attention(config),
                cross_attention(config),
                feed_forward(config),
                config.dropout,
                config.norm,
            )
            for _ in range(config.num_layers)
        )
        self.last_norm = last_norm(config)

    def forward(
        self,
        ids: Int[Tensor, "batch tgt_len"],
        memory: Float[Tensor, "batch src_len d_model"] | None = None,
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: Sequence[DecoderCache] | None = None,
        need_weights: bool = False,
    ) -> (
        tuple[
            Float[Tensor, "batch tgt_len d_model"],
            Float[Tensor, "layers batch heads tgt_len keys"] | None,
            Float[Tensor, "layers batch heads tgt_len src_len"] | None,
        ]
        | tuple[
            Float[Tensor, "batch tgt_len d_model"],
            Float[Tensor, "layers batch heads tgt_len keys"] | None,
            Float[Tensor, "layers batch heads tgt_len src_len"] | None,
            tuple[DecoderCache, ...],
        ]
    ):
        """Return one vector per token; the weights of each layer on the target and the source.

        Give either `memory`, or the `caches` that `start` computed from it: then `ids` are the
        tokens after the cached ones, and the new caches are returned as well.
        """
        x = self.input(ids, first=caches[0].target.length if caches else 0)
        self_maps, cross_maps, new_caches = [], [], []
        for index, layer in enumerate(self.layers):
            cache = caches[index] if caches else None
            x, self_weights, cross_weights, *new_cache = layer(
                x, memory, tgt_mask, memory_mask, cache, need_weights
            )
            self_maps.append(self_weights)
            cross_maps.append(cross_weights)
            new_caches += new_cache
        x = self.last_norm(x)
        maps = (torch.stack(self_maps), torch.stack(cross_maps)) if need_weights else (None, None)
        return (x, *maps, tuple(new_caches)) if caches else (x, *maps)

    def start(self, memory: Float[Tensor, "batch src_len d_model"]) -> tuple[DecoderCache, ...]:
        """Return the cache of each layer before the first token."""
        return tuple(cast(DecoderLayer, layer).start(memory) for layer in self.layers)


def initialise(model: nn.Module) -> None:
    r"""Initialise the parameters: weights by Glorot & Bengio (2010), biases zero.

    This keeps the variance of signals and gradients about the same from layer to layer.
    Embeddings are sampled with variance :math:`1/d_\text{model}`. The Transformer paper
    does not state its initialisation.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, TokenEmbedding):
            table = module.table.weight
            nn.init.normal_(table, std=table.shape[1] ** -0.5)
            nn.init.zeros_(table[PAD_ID])


def refuse_empty(mask: Bool[Tensor, "batch 1 len"]) -> None:
    """Raise `ValueError` if a sentence of the batch has no token, with its index."""
    filled = mask.any(dim=2).squeeze(1)
    if not filled.all():
        empty = (~filled).nonzero().flatten().tolist()
        raise ValueError(f"sentences {empty} of the batch have no token to encode")


@dataclass(frozen=True)
class TransformerState:
    """The cached keys and values of the target prefix and of the source."""

    caches: tuple[DecoderCache, ...]
    src_mask: Bool[Tensor, "sentences 1 src_len"]
    width: int = 1
    """Number of hypotheses per sentence; those of a sentence are consecutive rows."""

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen hypotheses, in that order; a row may repeat.

        The keys and values of a source are kept once for all its hypotheses.
        """
        sentences = [row // self.width for row in rows.tolist()]
        runs = [(sentence, len(list(run))) for sentence, run in groupby(sentences)]
        width = runs[0][1] if len({length for _, length in runs}) == 1 else 1
        if width > 1:
            sentences = [sentence for sentence, _ in runs]
        if sentences == list(range(len(self.src_mask))):  # as before: the memory is shared
            caches = tuple(cache.select(rows) for cache in self.caches)
            return replace(self, caches=caches, width=width)
        kept = rows.new_tensor(sentences)
        caches = tuple(cache.select(rows, kept) for cache in self.caches)
        return replace(self, caches=caches, src_mask=self.src_mask[kept], width=width)


class AttentionMaps(NamedTuple):
    """The attention weights of every head of every layer."""

    encoder: Float[Tensor, "layers batch heads src_len src_len"]
    """Self-attention of the encoder: from source to source."""
    decoder: Float[Tensor, "layers batch heads tgt_len tgt_len"]
    """Masked self-attention of the decoder: from target to the target prefix."""
    cross: Float[Tensor, "layers batch heads tgt_len src_len"]
    """Cross-attention: from target to source."""


class Transformer(EncoderDecoder[TransformerState]):
    """Encode the source in parallel; generate the target with attention to both.

    Source: Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, figure 1.
    """

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        src_embedding = TokenEmbedding(config.src_vocab_size, config.d_model)
        if config.share_embeddings:
            tgt_embedding = src_embedding
        else:
            tgt_embedding = TokenEmbedding(config.tgt_vocab_size, config.d_model)
        self.encoder = TokenEncoder(src_embedding, config)
        self.decoder = TokenDecoder(tgt_embedding, config)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        initialise(self)
        if config.share_embeddings:
            self.output.weight = tgt_embedding.table.weight

    def encode(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "batch 1 src_len"] | None = None,
    ) -> Memory:
        """Return one vector per source token; an empty source raises `ValueError`."""
        src_mask = self.source_mask(src) if src_mask is None else src_mask
        refuse_empty(src_mask)
        outputs, _ = self.encoder(src, src_mask)
        return Memory(outputs, src_mask)

    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Memory,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Predict the token after each token of `tgt`, all in parallel.

        The causal mask suffices: padding comes last, so no real token attends to it,
        and the loss ignores the predictions at padding. The weights are those on the
        source, averaged over layers and heads; `attention_maps` returns them
        separately.
        """
        tgt_mask = causal_mask(tgt.shape[1], tgt.device)
        outputs, _, cross_weights = self.decoder(
            tgt, memory.outputs, tgt_mask, memory.mask, need_weights=need_weights
        )
        weights = None if cross_weights is None else cross_weights.mean(dim=(0, 2))
        return DecoderOutput(self.output(outputs), weights)

    def start(self, memory: Memory) -> TransformerState:
        """Return the state before the first token."""
        return TransformerState(self.decoder.start(memory.outputs), memory.mask)

    def step(
        self, token: Int[Tensor, " batch"], state: TransformerState
    ) -> tuple[Float[Tensor, "batch vocab"], TransformerState]:
        """Read one token; return the logits of the next one, and the new state.

        One token needs no causal mask: everything in the cache precedes it.
        """
        outputs, _, _, caches = self.decoder(
            token.unsqueeze(1), memory_mask=state.src_mask, caches=state.caches
        )
        return self.output(outputs.squeeze(1)), replace(state, caches=caches)

    def attention_maps(
        self, src: Int[Tensor, "batch src_len"], tgt: Int[Tensor, "batch tgt_len"]
    ) -> AttentionMaps:
        """Return the attention weights of every head and layer for `src` and `tgt`."""
        src_mask = self.source_mask(src)
        refuse_empty(src_mask)
        memory, encoder = self.encoder(src, src_mask, need_weights=True)
        _, decoder, cross = self.decoder(
            tgt,
            memory,
            causal_mask(tgt.shape[1], tgt.device),
            src_mask,
            need_weights=True,
        )
        return AttentionMaps(encoder, decoder, cross)
