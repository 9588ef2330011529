"""The interface that all models share, so that one trainer and one search serve every model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attentively.attention.masks import padding_mask
from attentively.config import ModelConfig
from attentively.tokens.vocabulary import PAD_ID


class Memory(NamedTuple):
    """The output of the encoder."""

    outputs: Float[Tensor, "batch src_len memory_dim"]
    """One vector per source position."""
    mask: Bool[Tensor, "batch 1 src_len"]
    """True at the source positions that may be attended to."""
    state: Float[Tensor, "batch state_dim"] | None = None
    """For recurrent models, the vector from which the decoder's initial state is computed."""


class DecoderOutput(NamedTuple):
    """The output of the decoder for a whole target."""

    logits: Float[Tensor, "batch tgt_len vocab"]
    """Scores of the next token at every position."""
    weights: Float[Tensor, "batch tgt_len src_len"] | None = None
    """Attention weights of each position; None if not requested or without attention."""


@runtime_checkable
class DecoderState(Protocol):
    """Everything that decoding the next token needs, for a batch of hypotheses."""

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen hypotheses, in that order; a row may repeat."""


State = TypeVar("State", bound=DecoderState)


class Model(nn.Module):
    """A network with the configuration from which it was built; called, it returns logits."""

    config: ModelConfig
    __call__: Callable[..., Tensor]


class Autoregressive(Model, ABC, Generic[State]):
    """A model that generates one token at a time."""

    @abstractmethod
    def step(
        self, token: Int[Tensor, " batch"], state: State
    ) -> tuple[Float[Tensor, "batch vocab"], State]:
        """Read one token; return the logits of the next one, and the new state.

        The given state is not modified, so that other tokens can be tried from it.
        """


class DecoderOnly(Autoregressive[State]):
    """A model that continues a text, such as a language model."""

    @abstractmethod
    def start(self, prompt: Int[Tensor, "batch prompt_len"]) -> State:
        """Return the state after `prompt`, which may be empty."""


class EncoderDecoder(Autoregressive[State]):
    """A model that encodes a source and generates a target."""

    def forward(
        self, src: Shaped[Tensor, "batch ..."], tgt: Int[Tensor, "batch tgt_len"]
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Encode `src`; return, at every position of `tgt`, the logits of the token after it.

        `decode` also returns attention weights.
        """
        return self.decode(tgt, self.encode(src)).logits

    def source_mask(self, src: Shaped[Tensor, "batch ..."]) -> Bool[Tensor, "batch 1 src_len"]:
        """Return True at the positions that may be attended to: real tokens, not padding."""
        return padding_mask(src, PAD_ID)

    @abstractmethod
    def encode(
        self,
        src: Shaped[Tensor, "batch ..."],
        src_mask: Bool[Tensor, "batch 1 src_len"] | None = None,
    ) -> Memory:
        """Encode the source: the ids of sentences, or another input such as images.

        `src_mask` is True at the positions that may be attended to, by default `source_mask`.
        The memory contains it, so the decoder attends to the same positions.
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
    """The model does not support the requested task."""

    def __init__(self, model: nn.Module, does: str) -> None:
        """`does` is the requested task, as in "fill gaps"."""
        super().__init__(f"a {type(model).__name__} cannot {does}")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients inside the block; restore the modes afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
