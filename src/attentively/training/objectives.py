"""Training objectives: how examples of each task become a batch and a loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attentively.data.batches import (
    Batch,
    Example,
    ImageExample,
    LabelledExample,
    Size,
    collate,
    pad,
)
from attentively.models.captioning import Captioner, doubly_stochastic_penalty
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import EncoderDecoder, Model
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, PAD_ID
from attentively.training.losses import cross_entropy

NO_LABEL = -1

ModelT = TypeVar("ModelT", bound=Model)
ExampleT = TypeVar("ExampleT")


class Task(ABC, Generic[ModelT, ExampleT]):
    """A training objective for one kind of model."""

    @abstractmethod
    def size(self, example: ExampleT) -> Size:
        """Return the number of tokens of the example on each side."""

    @abstractmethod
    def collate(
        self, examples: Sequence[ExampleT], generator: torch.Generator | None = None
    ) -> Batch:
        """Make a batch; `generator` is the source of randomness."""

    @abstractmethod
    def loss(self, model: ModelT, batch: Batch) -> Float[Tensor, ""]:
        """Return the validation loss: the mean loss per target, in nats."""

    def training_loss(self, model: ModelT, batch: Batch) -> Float[Tensor, ""]:
        """Return the training loss; by default `loss`."""
        return self.loss(model, batch)

    def count(self, batch: Batch) -> int:
        """Return the number of targets that the loss is averaged over."""
        return int((batch.tgt != PAD_ID).sum())


class Translation(Task[EncoderDecoder, Example]):
    """Predict each target token from the source and the true prefix (teacher forcing)."""

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
        """Return the mean cross-entropy of the next token."""
        return teacher_forced_loss(model, batch)

    def training_loss(self, model: EncoderDecoder, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy with label smoothing."""
        return teacher_forced_loss(model, batch, self.label_smoothing)

    def count(self, batch: Batch) -> int:
        """Return the number of predicted tokens."""
        return int((batch.tgt[:, 1:] != PAD_ID).sum())


class Captioning(Task[Captioner, ImageExample]):
    """Predict each word of the caption from the image and the true prefix (teacher forcing)."""

    def __init__(self, label_smoothing: float = 0.0, attention_penalty: float = 0.0) -> None:
        self.label_smoothing = label_smoothing
        self.attention_penalty = attention_penalty

    def size(self, example: ImageExample) -> Size:
        """Return the length of the caption; all images have the same size."""
        return (len(example.tgt),)

    def collate(
        self, examples: Sequence[ImageExample], generator: torch.Generator | None = None
    ) -> Batch:
        """Stack the images and pad the captions."""
        images = torch.stack([example.image for example in examples])
        return Batch(images, pad([example.tgt for example in examples]))

    def loss(self, model: Captioner, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy of the next word."""
        return teacher_forced_loss(model, batch)

    def training_loss(self, model: Captioner, batch: Batch) -> Float[Tensor, ""]:
        """Return the cross-entropy with label smoothing, plus the attention penalty."""
        if self.attention_penalty == 0:
            return teacher_forced_loss(model, batch, self.label_smoothing)
        memory = model.encode(batch.src)
        logits, weights = model.decode(batch.tgt[:, :-1], memory, need_weights=True)
        assert weights is not None  # a captioner attends
        targets = batch.tgt[:, 1:]
        loss = cross_entropy(logits.float(), targets, PAD_ID, self.label_smoothing)
        penalty = doubly_stochastic_penalty(weights, targets != PAD_ID)
        return loss + self.attention_penalty * penalty

    def count(self, batch: Batch) -> int:
        """Return the number of predicted words."""
        return int((batch.tgt[:, 1:] != PAD_ID).sum())


class LanguageModelling(Task[LanguageModel, list[int]]):
    """Predict each token of a text from its prefix."""

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def size(self, example: list[int]) -> Size:
        """Return the length of the text."""
        return (len(example),)

    def collate(
        self, examples: Sequence[list[int]], generator: torch.Generator | None = None
    ) -> Batch:
        """Pad; the targets are the inputs shifted by one position."""
        ids = pad(examples)
        return Batch(ids[:, :-1], ids[:, 1:])

    def loss(self, model: LanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy of the next token."""
        return cross_entropy(model(batch.src).float(), batch.tgt, PAD_ID)

    def training_loss(self, model: LanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy with label smoothing."""
        logits = model(batch.src).float()
        return cross_entropy(logits, batch.tgt, PAD_ID, self.label_smoothing)


class MaskedLanguageModelling(Task[MaskedLanguageModel, list[int]]):
    """Predict masked tokens from their left and right context.

    Devlin et al. (2019), https://arxiv.org/abs/1810.04805, section 3.1, task 1.
    """

    def __init__(self, mask_id: int, label_smoothing: float = 0.0) -> None:
        """`mask_id` is that of the model, after the ids of all tokens."""
        self.mask_id = mask_id
        self.label_smoothing = label_smoothing

    def size(self, example: list[int]) -> Size:
        """Return the length of the text."""
        return (len(example),)

    def collate(
        self, examples: Sequence[list[int]], generator: torch.Generator | None = None
    ) -> Batch:
        """Pad, and mask tokens."""
        return Batch(*take_out(pad(examples), self.mask_id, generator))

    def loss(self, model: MaskedLanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy of the masked tokens."""
        return self._loss(model, batch, 0.0)

    def training_loss(self, model: MaskedLanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy with label smoothing."""
        return self._loss(model, batch, self.label_smoothing)

    def _loss(self, model: MaskedLanguageModel, batch: Batch, label_smoothing: float) -> Tensor:
        logits = model(batch.src)
        return cross_entropy(logits.float(), batch.tgt, PAD_ID, label_smoothing)


def take_out(
    ids: Int[Tensor, "batch len"],
    mask_id: int,
    generator: torch.Generator | None = None,
    share: float = 0.15,
) -> tuple[Int[Tensor, "batch len"], Int[Tensor, "batch len"]]:
    """Return the inputs and the targets of a masked language model.

    In each row a `share` of the ordinary tokens is chosen, at least one. Of these, 80 %
    are replaced by `mask_id`, 10 % by a random token, and 10 % are kept, so that the
    model cannot tell which of its input tokens are original. The targets are padding at
    all other positions. A row without ordinary tokens raises `ValueError`.
    """
    ordinary = ids > END_ID
    available = ordinary.sum(dim=1)
    if int(available.min()) == 0:
        raise ValueError("a sentence without ordinary tokens has no token to mask")
    lottery = torch.rand(ids.shape, generator=generator).masked_fill(~ordinary, 2.0)
    place = lottery.argsort(dim=1).argsort(dim=1)
    chosen = place < (share * available).round().clamp(min=1).unsqueeze(1)
    fate = torch.rand(ids.shape, generator=generator)
    others = torch.randint(END_ID + 1, mask_id, ids.shape, generator=generator)
    read = ids.where(~chosen | (fate >= 0.9), others)
    read = read.where(~chosen | (fate >= 0.8), mask_id)
    return read, ids.where(chosen, PAD_ID)


class Classification(Task[Classifier, LabelledExample]):
    """Predict the label of a sentence."""

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def size(self, example: LabelledExample) -> Size:
        """Return the length of the sentence."""
        return (len(example.ids),)

    def collate(
        self, examples: Sequence[LabelledExample], generator: torch.Generator | None = None
    ) -> Batch:
        """Pad the sentences."""
        labels = torch.tensor([example.label for example in examples])
        return Batch(pad([example.ids for example in examples]), labels)

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy of the true label."""
        return self._loss(model, batch, 0.0)

    def training_loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean cross-entropy with label smoothing."""
        return self._loss(model, batch, self.label_smoothing)

    def _loss(self, model: Classifier, batch: Batch, label_smoothing: float) -> Tensor:
        logits = model(batch.src).float()
        # One label per sentence; no label means padding.
        return cross_entropy(logits.unsqueeze(1), batch.tgt.unsqueeze(1), NO_LABEL, label_smoothing)

    def count(self, batch: Batch) -> int:
        """Return the number of sentences."""
        return len(batch.tgt)


def teacher_forced_loss(
    model: EncoderDecoder, batch: Batch, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the mean loss per target token with teacher forcing, in nats."""
    logits = model(batch.src, batch.tgt[:, :-1])
    return cross_entropy(logits.float(), batch.tgt[:, 1:], PAD_ID, label_smoothing)


def find(
    model: Model, label_smoothing: float = 0.0, attention_penalty: float = 0.0
) -> Task[Any, Any]:
    """Return the task of this kind of model; raises `TypeError` for an unknown kind."""
    match model:
        case Captioner():
            return Captioning(label_smoothing, attention_penalty)
        case EncoderDecoder():
            return Translation(label_smoothing)
        case LanguageModel():
            return LanguageModelling(label_smoothing)
        case MaskedLanguageModel():
            return MaskedLanguageModelling(model.mask_id, label_smoothing)
        case Classifier():
            return Classification(label_smoothing)
    raise TypeError(f"no training objective is known for a {type(model).__name__}")
