r"""The Transformer: an encoder–decoder model built from attention.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3. The parts below the
`Transformer` itself also make encoders and decoders that stand alone.
"""

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self, cast, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import KeyValueCache, MultiHeadAttention
from attentively.attention.positional import (
    ALiBi,
    AttentionPosition,
    LearnedPositionalEmbedding,
    RelativePositionalEmbedding,
    RotaryPositionalEmbedding,
    SinusoidalPositionalEncoding,
)
from attentively.config import ModelConfig, VocabSizes
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.feed_forward import Activation, FeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.transformer_layers import DecoderCache, DecoderLayer, EncoderLayer, Norm
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.tokens.vocabulary import PAD_ID

Positions = Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]

MAX_DISTANCE = 16
"""Beyond so many steps, relative positions look alike: k of Shaw et al. (2018), section 4.1."""


@dataclass(frozen=True, kw_only=True)
class StackConfig(ModelConfig, ABC):
    """The sizes of a stack of layers, and the choices within them."""

    d_model: int = 128
    """Numbers in the vector of a token."""
    num_heads: int = 4
    """Attentions side by side in each layer; they share d_model out evenly."""
    num_kv_heads: int | None = None
    """How many heads have keys and values of their own; None for all of them."""
    d_ff: int = 512
    """Units inside the feed-forward network."""
    num_layers: int = 3
    """Layers of the encoder, and as many of the decoder, where there are both."""
    dropout: float = 0.1
    """On the output of each sub-layer before it is added, and on the embeddings with their
    positions: the places of the paper (section 5.4). `torch.nn.Transformer` also drops attention
    weights and units inside the feed-forward network."""
    norm: Norm = "pre"
    """Where a layer normalises: before each sub-layer, or after it as in the paper."""
    positions: Positions = "sinusoidal"
    """How a token's place is told; the paper's are sinusoidal."""
    activation: Activation = "relu"
    """What the feed-forward network bends its signal with."""
    max_len: int = 512
    """How many positions there are, where they are learned; the others reach any length."""

    def __post_init__(self) -> None:
        if self.positions not in get_args(Positions):
            known = ", ".join(get_args(Positions))
            raise ValueError(f"positions={self.positions!r} is unknown: choose among {known}")
        for name in ("d_model", "num_heads", "d_ff", "num_layers", "max_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} does not split into num_heads={self.num_heads} equal heads"
            )


def self_attention(config: StackConfig) -> MultiHeadAttention:
    """Return an attention of a sequence to itself."""
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
    """Return an attention to another sequence: how far away is no question there."""
    return MultiHeadAttention(config.d_model, config.num_heads, num_kv_heads=config.num_kv_heads)


def feed_forward(config: StackConfig) -> FeedForward:
    """Return the network that follows the attention."""
    return FeedForward(config.d_model, config.d_ff, activation=config.activation)


class InputEmbedding(nn.Module):
    r"""What the first layer reads: the token, and where it stands.

    .. math:: x_p = \sqrt{d_\text{model}} \, E_{w_p} + P_p

    Components of :math:`E` start with variance :math:`1/d_\text{model}`, which suits a table that
    is also an output layer; the factor makes a token about as loud as its position.

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
        """Return one vector per token, the first of them at position `first`."""
        x = self.scale * self.embedding(ids)
        if self.positions is not None:
            x = self.positions(x, first)
        return self.dropout(x)


def last_norm(config: StackConfig) -> nn.Module:
    """Return what stands after the last layer.

    With pre-norm the last sum has not been normalised yet; with post-norm it has.
    """
    return LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class TokenEncoder(nn.Module):
    """Read a sequence of tokens: an input embedding and a stack of encoder layers.

    With a causal mask, and a cache per layer, it is the stack of a model that has no encoder.
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
        """Return one vector per token, and where each layer looked if that is wanted.

        With `caches`, one per layer, `ids` are the tokens after those that they hold,
        and the new caches are returned too.
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
    """Write a sequence of tokens: an input embedding and a stack of decoder layers."""

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

        Give `memory`, or `caches` that `start` made of it: then `ids` are the tokens after
        those that the caches hold, and the new caches are returned too.
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
    """Draw the first weights: matrices as Glorot & Bengio (2010) advise, biases zero.

    A matrix then neither swells a signal nor its gradient. Embeddings are drawn as
    `InputEmbedding` says. The paper does not tell how its own weights began.
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
    """Raise `ValueError` if a sentence of the batch has no token, saying which."""
    filled = mask.any(dim=2).squeeze(1)
    if not filled.all():
        empty = (~filled).nonzero().flatten().tolist()
        raise ValueError(f"sentences {empty} of the batch hold no token to encode")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(StackConfig):
    """The sizes of a `Transformer`; encoder and decoder have `num_layers` each."""

    src_vocab_size: int
    tgt_vocab_size: int
    share_embeddings: bool = False
    """One table for source, target and output layer; needs one joint vocabulary."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                f"share_embeddings needs one vocabulary, but src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}"
            )

    @property
    def vocab_sizes(self) -> VocabSizes:
        """What its source and its target tokenizer must hold."""
        return VocabSizes(self.src_vocab_size, self.tgt_vocab_size)

    @classmethod
    def base(cls, src_vocab_size: int, tgt_vocab_size: int, share_embeddings: bool = True) -> Self:
        """Return the paper's base model (table 3), which shares one vocabulary (section 3.4)."""
        return cls(
            src_vocab_size=src_vocab_size,
            tgt_vocab_size=tgt_vocab_size,
            share_embeddings=share_embeddings,
            d_model=512,
            num_heads=8,
            d_ff=2048,
            num_layers=6,
            dropout=0.1,
            norm="post",
        )


@dataclass(frozen=True)
class TransformerState:
    """What the decoder has read: the target so far, and the source."""

    caches: tuple[DecoderCache, ...]
    src_mask: Bool[Tensor, "batch 1 src_len"]

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen hypotheses, in that order; a row may repeat."""
        caches = tuple(cache.select(rows) for cache in self.caches)
        return replace(self, caches=caches, src_mask=self.src_mask[rows])


class AttentionMaps(NamedTuple):
    """Where every head of every layer looks."""

    encoder: Float[Tensor, "layers batch heads src_len src_len"]
    """From the source to the source."""
    decoder: Float[Tensor, "layers batch heads tgt_len tgt_len"]
    """From the target to the target so far."""
    cross: Float[Tensor, "layers batch heads tgt_len src_len"]
    """From the target to the source."""


class Transformer(EncoderDecoder[TransformerState]):
    """Read the source all at once; write the target, looking at both."""

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
        """Return the encoder's outputs; raise `ValueError` for an empty source."""
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
        """Predict the token after each one of `tgt`, all at once.

        The causal mask is mask enough: padding comes last, so no token sees it, and
        what padding itself says is not asked for. The weights are those on the source,
        the mean of all layers and heads; `attention_maps` has them one by one.
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
        """Read one token; return the logits of the next one, and the state after it.

        One token needs no causal mask: everything in the cache stands before it.
        """
        outputs, _, _, caches = self.decoder(
            token.unsqueeze(1), memory_mask=state.src_mask, caches=state.caches
        )
        return self.output(outputs.squeeze(1)), replace(state, caches=caches)

    def attention_maps(
        self, src: Int[Tensor, "batch src_len"], tgt: Int[Tensor, "batch tgt_len"]
    ) -> AttentionMaps:
        """Return the weights of every head of every layer, given `src` and `tgt`."""
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
