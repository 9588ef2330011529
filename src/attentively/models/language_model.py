r"""A decoder-only language model: predict the next token from all tokens before it.

It is the decoder of a Transformer by itself. Without an encoder there is only the text so far to
attend to, so a decoder layer without cross-attention is an encoder layer with a causal mask.

Sources: Liu et al. (2018), https://arxiv.org/abs/1801.10198, section 4.2.3; Radford et al.
(2018), https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf,
section 3.1. Normalising before each sub-layer and after the last one, the default here, came
with their next model, GPT-2 (2019).
"""

from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import causal_mask
from attentively.layers.embedding import TokenEmbedding
from attentively.models.configs import LanguageModelConfig
from attentively.models.interface import DecoderOnly, DecoderOutput
from attentively.models.transformer import TokenEncoder, initialise


@dataclass(frozen=True)
class LanguageModelState:
    """The cached keys and values of the text so far, one cache per layer."""

    caches: tuple[KeyValueCache, ...]

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen texts, in that order; a row may repeat."""
        return replace(self, caches=tuple(cache.select(rows) for cache in self.caches))


class LanguageModel(DecoderOnly[LanguageModelState]):
    r"""Predict the probability distribution of the next token.

    .. math:: p(w_1, \dots, w_n) = \prod_t p(w_t \mid w_1, \dots, w_{t-1})

    The output layer shares the embedding matrix (weight tying): the logit of a token is
    the dot product of its embedding and the last hidden state.
    """

    config: LanguageModelConfig

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        embedding = TokenEmbedding(config.vocab_size, config.d_model)
        self.decoder = TokenEncoder(embedding, config)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        initialise(self)
        self.output.weight = embedding.table.weight

    def forward(
        self,
        ids: Int[Tensor, "batch len"],
    ) -> Float[Tensor, "batch len vocab"]:
        """Return, at every position of `ids`, the logits of the token after it.

        `decode` also returns attention weights.
        """
        return self.decode(ids).logits

    def decode(
        self,
        ids: Int[Tensor, "batch len"],
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Predict, at every position of `ids`, the token after it.

        Padding comes last, so the causal mask hides it. The weights are those of the
        self-attention, averaged over layers and heads.
        """
        mask = causal_mask(ids.shape[1], ids.device)
        outputs, maps = self.decoder(ids, mask, need_weights=need_weights)
        weights = None if maps is None else maps.mean(dim=(0, 2))
        return DecoderOutput(self.output(outputs), weights)

    def start(self, prompt: Int[Tensor, "batch prompt_len"]) -> LanguageModelState:
        """Return the state after `prompt`, which may be empty.

        `step` predicts the next token: to continue a text, start with all but its last
        token and call `step` with that one. All texts of a batch have the same length.
        """
        nothing = [KeyValueCache() for _ in self.decoder.layers]
        mask = causal_mask(prompt.shape[1], prompt.device)
        _, _, caches = self.decoder(prompt, mask, nothing)
        return LanguageModelState(caches)

    def step(
        self, token: Int[Tensor, " batch"], state: LanguageModelState
    ) -> tuple[Float[Tensor, "batch vocab"], LanguageModelState]:
        """Read one token; return the logits of the next one, and the new state.

        One token needs no causal mask: everything in the cache precedes it.
        """
        outputs, _, caches = self.decoder(token.unsqueeze(1), caches=state.caches)
        return self.output(outputs.squeeze(1)), replace(state, caches=caches)
