"""The interface of all models, through which one trainer and one search serve every model."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attentively.attention.masks import padding_mask
from attentively.config import ModelConfig
from attentively.tokens.vocabulary import PAD_ID


class Memory(NamedTuple):
    """What the encoder hands over."""

    outputs: Float[Tensor, "batch src_len memory_dim"]
    """One vector per source position."""
    mask: Bool[Tensor, "batch 1 src_len"]
    """True at the source positions that may be attended to."""
    state: Float[Tensor, "batch state_dim"] | None = None
    """For recurrent models, what starts the decoder."""


class DecoderOutput(NamedTuple):
    """What the decoder says of a whole target."""

    logits: Float[Tensor, "batch tgt_len vocab"]
    """Scores of the next token at every position."""
    weights: Float[Tensor, "batch tgt_len src_len"] | None = None
    """Where each position looked; None where nobody asked or the model does not attend."""


@runtime_checkable
class DecoderState(Protocol):
    """All that decoding one more token needs, for a batch of hypotheses."""

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen hypotheses, in that order; a row may repeat."""


State = TypeVar("State", bound=DecoderState)


class Model(nn.Module):
    """A network that says what it is made of."""

    config: ModelConfig


class Autoregressive(Model, ABC, Generic[State]):
    """A model that writes one token after the other."""

    @abstractmethod
    def step(
        self, token: Int[Tensor, " batch"], state: State
    ) -> tuple[Float[Tensor, "batch vocab"], State]:
        """Read one token; return the scores of the next one, and the state after it.

        The state that was given stays as it was, so that another token may be tried.
        """


class DecoderOnly(Autoregressive[State]):
    """A model that continues a text, as a language model does."""

    @abstractmethod
    def start(self, prompt: Int[Tensor, "batch prompt_len"]) -> State:
        """Return the state after `prompt`, which may have no token."""


class EncoderDecoder(Autoregressive[State]):
    """A model that reads a source and writes a target."""

    def forward(
        self, src: Shaped[Tensor, "batch ..."], tgt: Int[Tensor, "batch tgt_len"]
    ) -> DecoderOutput:
        """Encode `src`, and predict, at every position of `tgt`, the token after it."""
        return self.decode(tgt, self.encode(src))

    def source_mask(self, src: Shaped[Tensor, "batch ..."]) -> Bool[Tensor, "batch 1 src_len"]:
        """True where there is something to look at: at real tokens, not at padding."""
        return padding_mask(src, PAD_ID)

    @abstractmethod
    def encode(
        self,
        src: Shaped[Tensor, "batch ..."],
        src_mask: Bool[Tensor, "batch 1 src_len"] | None = None,
    ) -> Memory:
        """Encode the source: the ids of sentences, or whatever else the model reads.

        `src_mask` is True at the positions that may be attended to, by default `source_mask`.
        The memory carries it, so the decoder sees the same positions.
        """

    @abstractmethod
    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Memory,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Predict, at every position of `tgt`, the token after it."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """Return the state before the first token."""


class ModelKindError(ValueError):
    """A model asked for what only models of another kind do."""

    def __init__(self, model: nn.Module, does: str) -> None:
        """`does` is what was asked for, as in "fill gaps"."""
        super().__init__(f"a {type(model).__name__} does not {does}")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients for a while; then every part is as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
