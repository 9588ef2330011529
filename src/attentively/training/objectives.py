"""Training objectives: how examples of each task become a batch and a loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attentively.attention.masks import padding_mask
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


class Captioning(Task[Captioner, ImageExample]):
    """Predict each word of the caption from the image and the true words before it."""

    def __init__(self, label_smoothing: float = 0.0, attention_penalty: float = 0.0) -> None:
        self.label_smoothing = label_smoothing
        self.attention_penalty = attention_penalty

    def size(self, example: ImageExample) -> Size:
        """Return the length of the caption; images are all of one size."""
        return (len(example.tgt),)

    def collate(
        self, examples: Sequence[ImageExample], generator: torch.Generator | None = None
    ) -> Batch:
        """Stack the images and pad the captions."""
        images = torch.stack([example.image for example in examples])
        return Batch(images, pad([example.tgt for example in examples]))

    def loss(self, model: Captioner, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean surprise at the true next word."""
        return teacher_forced_loss(model, batch)

    def training_loss(self, model: Captioner, batch: Batch) -> Float[Tensor, ""]:
        """Return the same, and what it costs to look unevenly at the places of the image."""
        if self.attention_penalty == 0:
            return teacher_forced_loss(model, batch, self.label_smoothing)
        memory = model.encode(batch.src)
        logits, weights = model.decode(batch.tgt[:, :-1], memory, need_weights=True)
        assert weights is not None  # a captioner attends
        targets = batch.tgt[:, 1:]
        surprise = cross_entropy(logits.float(), targets, PAD_ID, self.label_smoothing)
        penalty = doubly_stochastic_penalty(weights, targets != PAD_ID)
        return surprise + self.attention_penalty * penalty

    def count(self, batch: Batch) -> int:
        """Return the number of predicted words."""
        return int((batch.tgt[:, 1:] != PAD_ID).sum())


class LanguageModelling(Task[LanguageModel, list[int]]):
    """Predict each token of a text from those before it."""

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def size(self, example: list[int]) -> Size:
        """Return the length of the text."""
        return (len(example),)

    def collate(
        self, examples: Sequence[list[int]], generator: torch.Generator | None = None
    ) -> Batch:
        """Pad; what is read ends one token sooner than what is predicted."""
        ids = pad(examples)
        return Batch(ids[:, :-1], ids[:, 1:])

    def loss(self, model: LanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean surprise at the true next token."""
        return cross_entropy(model(batch.src).logits.float(), batch.tgt, PAD_ID)

    def training_loss(self, model: LanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the same, towards the smoothed labels."""
        logits = model(batch.src).logits.float()
        return cross_entropy(logits, batch.tgt, PAD_ID, self.label_smoothing)


class MaskedLanguageModelling(Task[MaskedLanguageModel, list[int]]):
    """Predict tokens that were taken out, from both sides.

    Devlin et al. (2019), https://arxiv.org/abs/1810.04805, section 3.1, task 1.
    """

    def __init__(self, mask_id: int, label_smoothing: float = 0.0) -> None:
        """`mask_id` is the model's, which comes after those of all tokens."""
        self.mask_id = mask_id
        self.label_smoothing = label_smoothing

    def size(self, example: list[int]) -> Size:
        """Return the length of the text."""
        return (len(example),)

    def collate(
        self, examples: Sequence[list[int]], generator: torch.Generator | None = None
    ) -> Batch:
        """Pad, and take tokens out."""
        return Batch(*take_out(pad(examples), self.mask_id, generator))

    def loss(self, model: MaskedLanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean surprise at what was taken out."""
        return self._loss(model, batch, 0.0)

    def training_loss(self, model: MaskedLanguageModel, batch: Batch) -> Float[Tensor, ""]:
        """Return the same, towards the smoothed labels."""
        return self._loss(model, batch, self.label_smoothing)

    def _loss(self, model: MaskedLanguageModel, batch: Batch, label_smoothing: float) -> Tensor:
        logits = model(batch.src, padding_mask(batch.src, PAD_ID))
        return cross_entropy(logits.float(), batch.tgt, PAD_ID, label_smoothing)


def take_out(
    ids: Int[Tensor, "batch len"],
    mask_id: int,
    generator: torch.Generator | None = None,
    share: float = 0.15,
) -> tuple[Int[Tensor, "batch len"], Int[Tensor, "batch len"]]:
    """Return what a masked language model reads, and what it should say.

    Of each row a `share` of the ordinary tokens is chosen, one at least. Four in five
    of them become `mask_id`, one in ten some other token, and one in ten stays, so that
    the model never knows which of the tokens that it reads are true. What it should say
    is padding wherever nothing was chosen. A row without ordinary tokens raises
    `ValueError`.
    """
    ordinary = ids > END_ID
    available = ordinary.sum(dim=1)
    if int(available.min()) == 0:
        raise ValueError("a sentence without ordinary tokens has none to take out")
    lottery = torch.rand(ids.shape, generator=generator).masked_fill(~ordinary, 2.0)
    place = lottery.argsort(dim=1).argsort(dim=1)
    chosen = place < (share * available).round().clamp(min=1).unsqueeze(1)
    fate = torch.rand(ids.shape, generator=generator)
    others = torch.randint(END_ID + 1, mask_id, ids.shape, generator=generator)
    read = ids.where(~chosen | (fate >= 0.9), others)
    read = read.where(~chosen | (fate >= 0.8), mask_id)
    return read, ids.where(chosen, PAD_ID)


class Classification(Task[Classifier, LabelledExample]):
    """Say which label a sentence has."""

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
        """Return the mean surprise at the true label."""
        return self._loss(model, batch, 0.0)

    def training_loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """Return the same, towards the smoothed labels."""
        return self._loss(model, batch, self.label_smoothing)

    def _loss(self, model: Classifier, batch: Batch, label_smoothing: float) -> Tensor:
        logits = model(batch.src, padding_mask(batch.src, PAD_ID)).float()
        # One label a sentence; none of them stands for padding.
        return cross_entropy(logits.unsqueeze(1), batch.tgt.unsqueeze(1), NO_LABEL, label_smoothing)

    def count(self, batch: Batch) -> int:
        """Return the number of sentences."""
        return len(batch.tgt)


def teacher_forced_loss(
    model: EncoderDecoder, batch: Batch, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the mean loss per target token when every prefix is the true one (nats)."""
    logits = model(batch.src, batch.tgt[:, :-1]).logits
    return cross_entropy(logits.float(), batch.tgt[:, 1:], PAD_ID, label_smoothing)


def find(
    model: Model, label_smoothing: float = 0.0, attention_penalty: float = 0.0
) -> Task[Any, Any]:
    """Return what a model of this kind is taught; raises `TypeError` for one not known."""
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
    raise TypeError(f"there is no task for a {type(model).__name__}")
