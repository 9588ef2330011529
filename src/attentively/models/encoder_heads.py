r"""Output heads on a Transformer encoder: classification and masked language modelling.

An encoder gives a vector for every token. What is set on top, its head, decides what the whole
learns: one label for a text, or the tokens that have been hidden in it. A `MaskedLanguageModel`
learns from text alone; its encoder can then begin where another head has few labels::

    classifier.encoder.load_state_dict(masked.encoder.state_dict())

Source: Devlin et al. (2019), https://arxiv.org/abs/1810.04805, section 3. There a text begins
with a token whose vector is classified; here the vectors of all its tokens are averaged.
"""

from dataclasses import dataclass
from typing import Any, Self

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.config import VocabSizes
from attentively.layers.embedding import TokenEmbedding
from attentively.models.interface import Model
from attentively.models.transformer import StackConfig, TokenEncoder, initialise, refuse_empty


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(StackConfig):
    """The sizes of an encoder under a head."""

    vocab_size: int

    @property
    def vocab_sizes(self) -> VocabSizes:
        """It reads text and writes none."""
        return VocabSizes(self.vocab_size, None)


def token_encoder(config: EncoderConfig) -> TokenEncoder:
    """Return an encoder that knows every token and one more, the mask.

    The mask's row stands after the last token's. Every head has it, used or not, so that
    what one has learned fits another.
    """
    return TokenEncoder(TokenEmbedding(config.vocab_size + 1, config.d_model), config)


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(EncoderConfig):
    """The sizes of a `Classifier`, and what it tells apart."""

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ValueError(f"labels={self.labels} must be two or more, all different")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from `values`, where the labels may stand in a list, as JSON has it."""
        if "labels" in values:
            values = values | {"labels": tuple(values["labels"])}
        return super().from_dict(values)


class Classifier(Model):
    r"""Tell which label a text deserves, from the mean of its tokens' vectors.

    .. math:: \text{logits} = W \left( \frac{1}{n} \sum_{t=1}^{n} h_t \right) + b
    """

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = token_encoder(config)
        self.output = nn.Linear(config.d_model, len(config.labels))  # W, b
        initialise(self)

    def forward(
        self, ids: Int[Tensor, "batch len"], mask: Bool[Tensor, "batch 1 len"]
    ) -> Float[Tensor, "batch classes"]:
        """Return a score for each label, in the order of ``config.labels``.

        `mask` is the padding mask: what is False is neither looked at nor averaged. A text
        without a token raises `ValueError`.
        """
        refuse_empty(mask)
        outputs, _ = self.encoder(ids, mask)
        real = mask.transpose(1, 2)  # (batch, len, 1): the same for every component
        mean = (outputs * real).sum(dim=1) / real.sum(dim=1)
        return self.output(mean)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(EncoderConfig):
    """The sizes of a `MaskedLanguageModel`."""


class MaskedLanguageModel(Model):
    """Tell which tokens are hidden, from what stands before and after them.

    A hidden token is replaced by `mask_id`, the one id that is read and never predicted. As in a
    language model, a token is scored by its own row of the embedding's table.
    """

    config: MaskedLanguageModelConfig

    def __init__(self, config: MaskedLanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = token_encoder(config)
        self.mask_id = config.vocab_size
        initialise(self)

    def forward(
        self, ids: Int[Tensor, "batch len"], mask: Bool[Tensor, "batch 1 len"]
    ) -> Float[Tensor, "batch len vocab"]:
        """Return, for every position, a score for each token of the vocabulary.

        `mask` is the padding mask: what is False is not looked at. A text without a token
        raises `ValueError`.
        """
        refuse_empty(mask)
        outputs, _ = self.encoder(ids, mask)
        tokens = self.encoder.input.embedding.table.weight[: self.mask_id]
        return F.linear(outputs, tokens)
