"""The hyperparameters of the models, one class for each kind of model.

This module does not import PyTorch, so the command line lists the hyperparameters quickly.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from attentively.config import (
    Activation,
    LocalKind,
    ModelConfig,
    Norm,
    VocabSizes,
    check_at_least_one,
)

AttentionKind = Literal[
    "additive", "fixed", "dot", "general", "concat", "location", "local-m", "local-p"
]
DecoderKind = Literal["bahdanau", "luong"]
Positions = Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]

STRIDE = 12
"""Distance in pixels between neighbouring positions of the feature map, in both directions."""
RECEPTIVE_FIELD = 18
"""Size in pixels of the receptive field of a position, in both directions, without mixing."""


@dataclass(frozen=True)
class Seq2SeqConfig(ModelConfig):
    """The hyperparameters of a `Seq2Seq`."""

    src_vocab_size: int
    tgt_vocab_size: int
    embedding_dim: int = 64
    """Embedding dimension."""
    encoder_dim: int = 64
    """Dimension of the hidden state of the forward and of the backward encoder RNN."""
    decoder_dim: int = 128
    """Dimension of the decoder's hidden state."""
    attention_dim: int = 64
    """Dimension of the hidden layer of the additive and the concat score."""
    attention: AttentionKind = "additive"
    """Attention score; fixed means no attention: one context vector for all steps."""
    dropout: float = 0.0
    """Dropout probability, on embeddings, encoder outputs and the input of the output layer."""
    share_embeddings: bool = False
    """Share one matrix between source embedding, target embedding and output layer; needs one
    vocabulary for both sides."""
    decoder: DecoderKind = "bahdanau"
    """Decoder that computes its attention query before (bahdanau) or after (luong) it reads a
    token."""
    input_feeding: bool = False
    """Input feeding: a luong decoder also reads its previous attentional vector."""
    max_len: int | None = None
    """Maximum source length of the location score."""
    window: int = 3
    """Half-width D of the window of local-m and local-p, in positions."""

    def __post_init__(self) -> None:
        for name, known in (("attention", AttentionKind), ("decoder", DecoderKind)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is unknown: "
                    f"choose one of {', '.join(get_args(known))}"
                )
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                f"share_embeddings needs one vocabulary, but src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}"
            )
        if self.decoder == "bahdanau":
            if self.input_feeding:
                raise ValueError(
                    "input_feeding=True needs decoder='luong': "
                    "a bahdanau decoder already reads its context"
                )
            if self.attention in get_args(LocalKind):
                raise ValueError(
                    f"attention={self.attention!r} needs decoder='luong', whose newest state "
                    "predicts the position of the window"
                )
        if self.attention == "dot" and self.decoder_dim != 2 * self.encoder_dim:
            raise ValueError(
                f"attention='dot' needs decoder_dim={self.decoder_dim} to be twice "
                f"encoder_dim={self.encoder_dim}: the encoder is bidirectional"
            )
        if self.attention == "location" and not self.max_len:
            raise ValueError(
                "attention='location' needs max_len, the maximum source length, "
                f"but max_len={self.max_len}"
            )
        check_at_least_one(
            embedding_dim=self.embedding_dim,
            encoder_dim=self.encoder_dim,
            decoder_dim=self.decoder_dim,
            attention_dim=self.attention_dim,
            window=self.window,
        )

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Vocabulary sizes of the source and the target tokenizer."""
        return VocabSizes(self.src_vocab_size, self.tgt_vocab_size)


@dataclass(frozen=True, kw_only=True)
class StackConfig(ModelConfig, ABC):
    """The hyperparameters of a stack of Transformer layers."""

    d_model: int = 128
    """Model dimension: size of embeddings and hidden states."""
    num_heads: int = 4
    """Number of attention heads; it must divide d_model."""
    num_kv_heads: int | None = None
    """Number of key and value heads (grouped-query attention); by default num_heads."""
    d_ff: int = 512
    """Dimension of the hidden layer of the feed-forward network."""
    num_layers: int = 3
    """Number of layers, in the encoder and in the decoder each."""
    dropout: float = 0.1
    """Dropout probability, on the output of each sub-layer before the residual addition and on
    the sum of embeddings and positional encodings, as in section 5.4 of the Transformer paper.
    `torch.nn.Transformer` also applies it to attention weights and inside the feed-forward
    network."""
    norm: Norm = "pre"
    """Layer normalisation before each sub-layer (pre) or after it (post, as in the Transformer
    paper)."""
    positions: Positions = "sinusoidal"
    """Positional encoding; sinusoidal in the Transformer paper."""
    activation: Activation = "relu"
    """Activation function of the feed-forward network."""
    max_len: int = 512
    """Maximum length of learned positional embeddings; the other encodings have no limit."""

    def __post_init__(self) -> None:
        if self.positions not in get_args(Positions):
            known = ", ".join(get_args(Positions))
            raise ValueError(f"positions={self.positions!r} is unknown: choose one of {known}")
        for name in ("d_model", "num_heads", "d_ff", "num_layers", "max_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} does not split into num_heads={self.num_heads} equal heads"
            )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(StackConfig):
    """The hyperparameters of a `Transformer`; encoder and decoder have `num_layers` each."""

    src_vocab_size: int
    tgt_vocab_size: int
    share_embeddings: bool = False
    """Share one matrix between source embedding, target embedding and output layer; needs one
    vocabulary for both sides."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                f"share_embeddings needs one vocabulary, but src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}"
            )

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Vocabulary sizes of the source and the target tokenizer."""
        return VocabSizes(self.src_vocab_size, self.tgt_vocab_size)

    @classmethod
    def base(cls, src_vocab_size: int, tgt_vocab_size: int, share_embeddings: bool = True) -> Self:
        """Return the paper's base model (table 3), with shared embeddings (section 3.4)."""
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


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(StackConfig):
    """The hyperparameters of a `LanguageModel`."""

    vocab_size: int

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Vocabulary size of its one tokenizer, on the target side."""
        return VocabSizes(None, self.vocab_size)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(StackConfig):
    """The hyperparameters of an encoder with a head."""

    vocab_size: int

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Vocabulary size of its one tokenizer, on the source side."""
        return VocabSizes(self.vocab_size, None)


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(EncoderConfig):
    """The hyperparameters of a `Classifier`, and its labels."""

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ValueError(f"labels={self.labels} must contain at least two different labels")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from `values`, where the labels may be a list, as in JSON."""
        if "labels" in values:
            values = values | {"labels": tuple(values["labels"])}
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(EncoderConfig):
    """The hyperparameters of a `MaskedLanguageModel`."""


@dataclass(frozen=True)
class CaptionerConfig(ModelConfig):
    """The hyperparameters of a `Captioner`, and the size of its images."""

    tgt_vocab_size: int
    height: int = 24
    width: int = 36
    feature_dim: int = 64
    """Dimension of the feature vector of an image position."""
    embedding_dim: int = 32
    """Embedding dimension."""
    decoder_dim: int = 128
    """Dimension of the decoder's hidden state."""
    attention_dim: int = 64
    """Dimension of the hidden layer of the additive score."""
    dropout: float = 0.0
    """Dropout probability, on embeddings, image features and the input of the output layer."""
    mixing: int = 1
    """Kernel size of the last convolution over image positions; 1 mixes none of them."""

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self.height % STRIDE or self.width % STRIDE:
            raise ValueError(
                f"height={self.height} and width={self.width} must be multiples of {STRIDE} pixels"
            )
        if self.mixing < 1 or self.mixing % 2 == 0:
            raise ValueError(
                f"mixing={self.mixing} must be odd and positive: it is a centred kernel size"
            )
        check_at_least_one(
            feature_dim=self.feature_dim,
            embedding_dim=self.embedding_dim,
            decoder_dim=self.decoder_dim,
            attention_dim=self.attention_dim,
        )

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Vocabulary size of its one tokenizer, on the target side."""
        return VocabSizes(None, self.tgt_vocab_size)

    @property
    def feature_map(self) -> tuple[int, int]:
        """Rows and columns of the feature map."""
        return self.height // STRIDE, self.width // STRIDE

    @property
    def receptive_field(self) -> int:
        """Size in pixels of a position's receptive field, away from the border of the image."""
        return RECEPTIVE_FIELD + (self.mixing - 1) * STRIDE


CONFIGS: dict[str, type[ModelConfig]] = {
    "Seq2Seq": Seq2SeqConfig,
    "Transformer": TransformerConfig,
    "LanguageModel": LanguageModelConfig,
    "Classifier": ClassifierConfig,
    "MaskedLanguageModel": MaskedLanguageModelConfig,
    "Captioner": CaptionerConfig,
}
"""The configuration of every kind of model, by the name of the model's class."""
