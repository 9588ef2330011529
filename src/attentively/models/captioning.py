"""Image captioning: generate a caption word by word, with attention on the image regions.

Xu et al. (2015), https://arxiv.org/abs/1502.03044, with soft attention (section 4.2).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.attention.additive import AdditiveAttention
from attentively.config import ModelConfig, VocabSizes, check_at_least_one
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.layer_norm import LayerNorm
from attentively.models.interface import Memory
from attentively.models.seq2seq import AttentiveDecoder, RecurrentModel

STRIDE = 12
"""Pixels from one place of the feature map to the next, down and right."""
RECEPTIVE_FIELD = 18
"""Pixels, down and right, that a place of the feature map sees where places are not mixed."""


@dataclass(frozen=True)
class CaptionerConfig(ModelConfig):
    """The sizes of a `Captioner`, and of the images that it describes."""

    tgt_vocab_size: int
    height: int = 24
    width: int = 36
    feature_dim: int = 64
    """Numbers in the vector of a place."""
    embedding_dim: int = 32
    """Numbers in the vector of a token."""
    decoder_dim: int = 128
    """Numbers in the state of the decoder."""
    attention_dim: int = 64
    """The hidden layer of the additive score."""
    dropout: float = 0.0
    """On embeddings, the vectors of places and what the output layer reads."""
    mixing: int = 1
    """Places, down and right, that the last convolution mixes; with 1 each keeps to its own."""

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self.height % STRIDE or self.width % STRIDE:
            raise ValueError(
                f"height={self.height} and width={self.width} must be multiples of {STRIDE} pixels"
            )
        if self.mixing < 1 or self.mixing % 2 == 0:
            raise ValueError(f"mixing={self.mixing} must be odd, so that a place has a middle")
        check_at_least_one(
            feature_dim=self.feature_dim,
            embedding_dim=self.embedding_dim,
            decoder_dim=self.decoder_dim,
            attention_dim=self.attention_dim,
        )

    @property
    def vocab_sizes(self) -> VocabSizes:
        """What its target tokenizer must hold; it reads no text."""
        return VocabSizes(None, self.tgt_vocab_size)

    @property
    def feature_map(self) -> tuple[int, int]:
        """How many places there are, down and right."""
        return self.height // STRIDE, self.width // STRIDE

    @property
    def receptive_field(self) -> int:
        """How many pixels a place sees, down and right, the border of the image left out."""
        return RECEPTIVE_FIELD + (self.mixing - 1) * STRIDE


class ImageEncoder(nn.Module):
    r"""Turn an image into a vector for each place of a coarse map.

    Two 3 × 3 convolutions, each followed by a maximum, make place :math:`i` see the pixels from
    :math:`12i - 3` to :math:`12i + 14`, in either direction: `RECEPTIVE_FIELD` of them, and
    `STRIDE` from one place to the next. So a weight on a place is a weight on that piece of the
    image. The paper's network is deeper, is trained beforehand, and sees far more from each
    place. With `mixing` above 1 so does ours: a last convolution mixes a place with its
    neighbours, and a weight on a place no longer says what was seen.

    A place that sees so little hardly knows where it is, but for what the border of the image gives
    away, and "left of" would be hard to learn. So each adds a learned vector of its own to what it
    sees.
    """

    def __init__(
        self,
        feature_dim: int,
        feature_map: tuple[int, int],
        mixing: int = 1,
    ) -> None:
        super().__init__()
        hidden_dim = max(1, feature_dim // 4)
        self.look = nn.Sequential(
            nn.Conv2d(1, hidden_dim, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(hidden_dim, feature_dim, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(STRIDE // 2),
        )
        self.combine = nn.Conv2d(
            feature_dim,
            feature_dim,
            kernel_size=mixing,
            padding=mixing // 2,
        )
        self.norm = LayerNorm(feature_dim)
        rows, columns = feature_map
        self.place = nn.Parameter(0.5 * torch.randn(rows * columns, feature_dim))

    def forward(
        self, image: Float[Tensor, "batch 1 height width"]
    ) -> Float[Tensor, "batch places feature_dim"]:
        """Return the annotations, row by row."""
        seen = self.combine(self.look(image)).flatten(2).transpose(1, 2)
        return self.norm(seen) + self.place


class Captioner(RecurrentModel):
    r"""A small convolutional encoder, and the decoder that translates in a `Seq2Seq`.

    The decoder starts from the mean annotation, :math:`s_0 = \tanh(W_s \frac{1}{L} \sum_i a_i)`
    (section 3.1.2), and looks with `AdditiveAttention`, with the previous state as in the
    paper. The paper's decoder is an LSTM with a gate on the context; ours is the GRU of
    `AttentiveDecoder`, without one.
    """

    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        feature_dim = config.feature_dim
        self.encoder = ImageEncoder(feature_dim, config.feature_map, config.mixing)
        attention = AdditiveAttention(config.decoder_dim, feature_dim, config.attention_dim)
        self.decoder = AttentiveDecoder(
            TokenEmbedding(config.tgt_vocab_size, config.embedding_dim),
            attention,
            start_dim=feature_dim,
            key_dim=feature_dim,
            decoder_dim=config.decoder_dim,
            dropout=config.dropout,
        )
        self.dropout = nn.Dropout(config.dropout)

    def source_mask(
        self, src: Float[Tensor, "batch 1 height width"]
    ) -> Bool[Tensor, "batch 1 places"]:
        """True at every place: images have one size and no padding.

        Images of another size raise `ValueError`.
        """
        self._check(src)
        rows, columns = self.config.feature_map
        return torch.ones(len(src), 1, rows * columns, dtype=torch.bool, device=src.device)

    def encode(
        self,
        src: Float[Tensor, "batch 1 height width"],
        src_mask: Bool[Tensor, "batch 1 places"] | None = None,
    ) -> Memory:
        """Return an annotation per place, row by row, and their mean.

        Images of another size raise `ValueError`.
        """
        self._check(src)
        src_mask = self.source_mask(src) if src_mask is None else src_mask
        annotations = self.encoder(src)
        return Memory(self.dropout(annotations), src_mask, annotations.mean(dim=1))

    def _check(self, src: Tensor) -> None:
        height, width = src.shape[-2:]
        if (height, width) != (self.config.height, self.config.width):
            raise ValueError(
                f"images of {height} × {width} pixels do not fit a model for "
                f"{self.config.height} × {self.config.width} pixels"
            )


def doubly_stochastic_penalty(
    weights: Float[Tensor, "batch tgt_len places"],
    tgt_mask: Bool[Tensor, "batch tgt_len"],
) -> Float[Tensor, ""]:
    r"""Return how unequally the places were looked at over a whole caption.

    .. math:: \sum_i \Bigl(1 - \sum_t \alpha_{ti}\Bigr)^2

    for each image, and the mean over the batch; padding of the targets, where
    `tgt_mask` is False, looks at nothing. Added to the loss it asks that every place be
    looked at about once (section 4.2.1). With fewer words than places it cannot be
    zero.
    """
    looked_at = (weights * tgt_mask.unsqueeze(-1)).sum(dim=1)
    return (1 - looked_at).square().sum(dim=-1).mean()
