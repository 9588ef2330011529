r"""Output heads on a Transformer encoder: classification and masked language modelling.

An encoder computes a vector for every token. The output layer on top of it, the head, determines
the task: one label for a text, or the tokens that were masked in it. A `MaskedLanguageModel` is
trained on text alone (pre-training); its encoder then initialises a model with few labels::

    classifier.encoder.load_state_dict(masked.encoder.state_dict())

Source: Devlin et al. (2019), https://arxiv.org/abs/1810.04805, section 3. BERT classifies the
vector of a special first token; here the vectors of all tokens are averaged.
"""

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.masks import padding_mask
from attentively.layers.embedding import TokenEmbedding
from attentively.models.configs import ClassifierConfig, EncoderConfig, MaskedLanguageModelConfig
from attentively.models.interface import Model
from attentively.models.transformer import TokenEncoder, initialise, refuse_empty
from attentively.tokens.vocabulary import PAD_ID


def token_encoder(config: EncoderConfig) -> TokenEncoder:
    """Return an encoder with one more embedding than tokens, for the mask token.

    The row of the mask token is the last. Every head has it, used or not, so that the parameters
    of one encoder fit another.
    """
    return TokenEncoder(TokenEmbedding(config.vocab_size + 1, config.d_model), config)


class Classifier(Model):
    r"""Classify a text from the mean of its token vectors.

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
        self, ids: Int[Tensor, "batch len"], mask: Bool[Tensor, "batch 1 len"] | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Return a score for each label, in the order of ``config.labels``.

        Positions where `mask` is False are neither attended to nor averaged. Without a
        mask, these are the padding positions. A text without a token raises `ValueError`.
        """
        mask = padding_mask(ids, PAD_ID) if mask is None else mask
        refuse_empty(mask)
        outputs, _ = self.encoder(ids, mask)
        real = mask.transpose(1, 2)  # (batch, len, 1): the same for every component
        mean = (outputs * real).sum(dim=1) / real.sum(dim=1)
        return self.output(mean)


class MaskedLanguageModel(Model):
    """Predict masked tokens from the tokens before and after them.

    A masked token is replaced by `mask_id`, the one id that is never predicted. As in a language
    model, the output layer shares the embedding matrix.
    """

    config: MaskedLanguageModelConfig

    def __init__(self, config: MaskedLanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = token_encoder(config)
        self.mask_id = config.vocab_size
        initialise(self)

    def forward(
        self, ids: Int[Tensor, "batch len"], mask: Bool[Tensor, "batch 1 len"] | None = None
    ) -> Float[Tensor, "batch len vocab"]:
        """Return, for every position, a score for each token of the vocabulary.

        Positions where `mask` is False are not attended to; without a mask, these are the padding
        positions. A text without a token raises `ValueError`.
        """
        mask = padding_mask(ids, PAD_ID) if mask is None else mask
        refuse_empty(mask)
        outputs, _ = self.encoder(ids, mask)
        tokens = self.encoder.input.embedding.table.weight[: self.mask_id]
        return F.linear(outputs, tokens)
