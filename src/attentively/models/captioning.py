"""Image captioning: generate a caption word by word, with attention on the image regions.

Xu et al. (2015), https://arxiv.org/abs/1502.03044, with soft attention (section 4.2).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.attention.additive import AdditiveAttention
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.layer_norm import LayerNorm
from attentively.models.configs import STRIDE, CaptionerConfig
from attentively.models.interface import Memory
from attentively.models.seq2seq import AttentiveDecoder, RecurrentModel


class ImageEncoder(nn.Module):
    r"""Encode an image as a feature map: one vector for each position of a coarse grid.

    Two 3 × 3 convolutions, each followed by max pooling, give position :math:`i` a receptive field
    from pixel :math:`12i - 3` to :math:`12i + 14` in each direction: `RECEPTIVE_FIELD` pixels,
    with `STRIDE` pixels from one position to the next. So an attention weight refers to this region
    of the image. The paper's network is deeper and pretrained, and its receptive fields are far
    larger. With `mixing` above 1, a last convolution mixes neighbouring positions, and a weight no
    longer identifies the region that was used.

    With so small a receptive field, the features hardly encode where a position is, and "left of"
    would be hard to learn. Therefore a learned vector is added at each position.
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
        """Return the annotation vectors, row by row."""
        seen = self.combine(self.look(image)).flatten(2).transpose(1, 2)
        return self.norm(seen) + self.place


class Captioner(RecurrentModel):
    r"""A small convolutional encoder and the recurrent decoder of a `Seq2Seq`.

    The initial state is computed from the mean annotation,
    :math:`s_0 = \tanh(W_s \frac{1}{L} \sum_i a_i)` (section 3.1.2). The query of its
    `AdditiveAttention` is the previous state, as in the paper. The paper's decoder is an LSTM with
    a gate on the context; ours is the GRU of `AttentiveDecoder`, without such a gate.
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
        """Return True at every position: images have one size and no padding.

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
        """Return one annotation per position, row by row, and their mean.

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
                f"the images have {height} × {width} pixels, but the model expects "
                f"{self.config.height} × {self.config.width}"
            )


def doubly_stochastic_penalty(
    weights: Float[Tensor, "batch tgt_len places"],
    tgt_mask: Bool[Tensor, "batch tgt_len"],
) -> Float[Tensor, ""]:
    r"""Return the doubly stochastic penalty on the attention weights of a caption.

    .. math:: \sum_i \Bigl(1 - \sum_t \alpha_{ti}\Bigr)^2

    for each image, averaged over the batch; padding of the targets, where `tgt_mask` is
    False, is ignored. Added to the loss, it encourages a total weight of about one at
    every position (section 4.2.1). It can be zero only for as many words as positions.
    """
    sums = (weights * tgt_mask.unsqueeze(-1)).sum(dim=1)
    return (1 - sums).square().sum(dim=-1).mean()
