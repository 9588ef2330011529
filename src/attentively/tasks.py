"""What a model is taught: how examples make a batch, and what training makes small."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from attentively.data.batches import Batch, Example, Size, collate
from attentively.losses import cross_entropy
from attentively.protocol import EncoderDecoder, Model
from attentively.vocabulary import PAD_ID

ModelT = TypeVar("ModelT", bound=Model)
ExampleT = TypeVar("ExampleT")


class Task(ABC, Generic[ModelT, ExampleT]):
    """A way to learn from examples, for one kind of model."""

    @abstractmethod
    def size(self, example: ExampleT) -> Size:
        """Return how many tokens the example has on each side."""

    @abstractmethod
    def collate(
        self, examples: Sequence[ExampleT], generator: torch.Generator | None = None
    ) -> Batch:
        """Make a batch; what is left to chance comes from `generator`."""

    @abstractmethod
    def loss(self, model: ModelT, batch: Batch) -> Float[Tensor, ""]:
        """Return what is validated by: the mean loss per target (nats)."""

    def training_loss(self, model: ModelT, batch: Batch) -> Float[Tensor, ""]:
        """Return what training makes small; by default `loss`."""
        return self.loss(model, batch)

    def count(self, batch: Batch) -> int:
        """Return how many targets the loss is the mean of."""
        return int((batch.tgt != PAD_ID).sum())


class Translation(Task[EncoderDecoder, Example]):
    """Predict each token of the target from the source and the true tokens before it."""

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def size(self, example: Example) -> Size:
        """Return the lengths of source and target."""
        return len(example.src), len(example.tgt)

    def collate(
        self, examples: Sequence[Example], generator: torch.Generator | None = None
    ) -> Batch:
        """Pad sources and targets."""
        return collate(examples)

    def loss(self, model: EncoderDecoder, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean surprise at the true next token."""
        return teacher_forced_loss(model, batch)

    def training_loss(self, model: EncoderDecoder, batch: Batch) -> Float[Tensor, ""]:
        """Return the same, towards the smoothed labels."""
        return teacher_forced_loss(model, batch, self.label_smoothing)

    def count(self, batch: Batch) -> int:
        """Return the number of predicted tokens."""
        return int((batch.tgt[:, 1:] != PAD_ID).sum())


def teacher_forced_loss(
    model: EncoderDecoder, batch: Batch, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the mean loss per target token when every prefix is the true one (nats)."""
    src_mask = model.source_mask(batch.src)
    memory = model.encode(batch.src, src_mask)
    logits = model.decode(batch.tgt[:, :-1], memory, src_mask).logits
    return cross_entropy(logits.float(), batch.tgt[:, 1:], PAD_ID, label_smoothing)


def find(
    model: Model, label_smoothing: float = 0.0, attention_penalty: float = 1.0
) -> Task[Any, Any]:
    """Return what a model of this kind is taught; raises `TypeError` for one not known."""
    if isinstance(model, EncoderDecoder):
        return Translation(label_smoothing)
    raise TypeError(f"there is no task for a {type(model).__name__}")
