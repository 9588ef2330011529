"""Batches: sentences of similar length, padded to the longest."""

import math
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attentively.data.digits import DigitScene
from attentively.data.pairs import Pair
from attentively.data.sentiment import Labelled
from attentively.tokens.vocabulary import PAD_ID, START_ID, Tokenizer, target_ids

Size = tuple[int, ...]
"""Number of tokens of an example on each of its sides."""


class Example(NamedTuple):
    """One sentence pair as ids: both end with ``END_ID``, the target starts with ``START_ID``."""

    src: list[int]
    tgt: list[int]


class LabelledExample(NamedTuple):
    """A sentence as ids, and the index of its label."""

    ids: list[int]
    label: int


class ImageExample(NamedTuple):
    """An image, and its caption as ids from ``START_ID`` to ``END_ID``."""

    image: Float[Tensor, "channels height width"]
    tgt: list[int]


@runtime_checkable
class Renewable(Protocol):
    """Examples that change from epoch to epoch."""

    def renew(self, seed: str) -> None:
        """Change all examples at random, depending on `seed` alone."""


class Batch(NamedTuple):
    """Several examples, padded at the end."""

    src: Shaped[Tensor, "batch ..."]
    """The inputs of the model."""
    tgt: Int[Tensor, "batch ..."]
    """The targets."""

    def to(self, device: torch.device | str) -> Self:
        """Return the batch on `device`."""
        return type(self)(self.src.to(device), self.tgt.to(device))


def encode_pairs(
    pairs: Sequence[Pair], src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer
) -> list[Example]:
    """Encode both sides of every pair as ids."""
    return [
        Example(src_tokenizer.encode(src), target_ids(tgt_tokenizer, tgt)) for src, tgt in pairs
    ]


def encode_labelled(
    items: Iterable[Labelled], tokenizer: Tokenizer, labels: Sequence[str]
) -> list[LabelledExample]:
    """Encode texts as ids and labels as indices; an unknown label raises `ValueError`."""
    numbers = {label: number for number, label in enumerate(labels)}
    examples = []
    for text, label in items:
        if label not in numbers:
            raise ValueError(
                f"label {label!r} of {text!r} is unknown: expected one of {list(labels)}"
            )
        examples.append(LabelledExample(tokenizer.encode(text), numbers[label]))
    return examples


def encode_lines(lines: Iterable[str], tokenizer: Tokenizer) -> list[list[int]]:
    """Encode every non-empty line as ids from ``START_ID`` to ``END_ID``."""
    return [target_ids(tokenizer, line) for line in lines if line.strip()]


def encode_running_text(text: str, tokenizer: Tokenizer, length: int) -> list[list[int]]:
    """Split a text into chunks of `length` tokens, each after a ``START_ID``.

    Consecutive chunks overlap by half, so that all tokens except the first few are predicted
    from a context of at least half a chunk.
    """
    if length < 2:
        raise ValueError(f"length={length} must be at least 2: a chunk needs context and a target")
    ids = tokenizer.encode(text)[:-1]  # without the end token: a chunk is not the end of a text
    overlap = length // 2
    starts = range(0, max(1, len(ids) - overlap), length - overlap)
    return [[START_ID, *ids[start : start + length]] for start in starts]


def encode_scenes(scenes: Iterable[DigitScene], tokenizer: Tokenizer) -> list[ImageExample]:
    """Encode the caption of every scene as ids."""
    return [
        ImageExample(scene.image, target_ids(tokenizer, " ".join(scene.caption)))
        for scene in scenes
    ]


def pad(
    sentences: Sequence[Sequence[int]],
    pad_id: int = PAD_ID,
) -> Int[Tensor, "batch longest"]:
    """Stack sentences of ids, padding the shorter ones at the end."""
    if not sentences:
        raise ValueError("the batch is empty: there is no sentence to pad")
    longest = max(len(sentence) for sentence in sentences)
    missing = [longest - len(sentence) for sentence in sentences]
    rows = [[*ids, *[pad_id] * n] for ids, n in zip(sentences, missing, strict=True)]
    return torch.tensor(rows, dtype=torch.long).reshape(len(sentences), longest)


def collate(examples: Sequence[Example]) -> Batch:
    """Pad `examples` into one batch."""
    return Batch(pad([example.src for example in examples]), pad([e.tgt for e in examples]))


def in_order(count: int, batch_size: int) -> list[list[int]]:
    """Return the indices 0, …, `count` - 1, batch by batch."""
    _check(count, batch_size)
    return [
        list(range(first, min(first + batch_size, count))) for first in range(0, count, batch_size)
    ]


def shuffled(
    sizes: Sequence[Size],
    seed: int,
    epoch: int,
    batch_size: int,
    tokens_per_batch: int | None = None,
) -> list[list[int]]:
    """Return the batches of one epoch: every index once, similar sizes together.

    A batch contains at most `batch_size` examples or, with `tokens_per_batch`, at most
    that many tokens on its longer side, padding included. The order depends only on the
    sizes, `seed` and `epoch`, so that an interrupted run can be resumed. Raises
    `ValueError` for an example that exceeds the limit of a batch.
    """
    _check(len(sizes), batch_size)
    per_batch = batch_size
    if tokens_per_batch is not None:
        _check_fits(sizes, tokens_per_batch)
        per_batch = math.ceil(tokens_per_batch * len(sizes) / sum(map(max, sizes)))
    generator = random.Random(f"{seed}/{epoch}")
    order = list(range(len(sizes)))
    generator.shuffle(order)
    chunk = 50 * per_batch  # long enough to sort by length, short enough to stay random
    batches = []
    for first in range(0, len(order), chunk):
        indices = sorted(order[first : first + chunk], key=lambda index: sizes[index])
        if tokens_per_batch is None:
            starts = range(0, len(indices), batch_size)
            batches += [indices[start : start + batch_size] for start in starts]
        else:
            batches += _filled(indices, sizes, tokens_per_batch)
    generator.shuffle(batches)
    return batches


def _filled(
    indices: Sequence[int],
    sizes: Sequence[Size],
    limit: int,
) -> list[list[int]]:
    """Split `indices` into batches of at most `limit` tokens on their longer side."""
    batches: list[list[int]] = []
    longest = 0
    for index in indices:
        longest = max(longest, *sizes[index])
        if not batches or (len(batches[-1]) + 1) * longest > limit:
            batches.append([])
            longest = max(sizes[index])
        batches[-1].append(index)
    return batches


def _check(count: int, batch_size: int) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    if count < 1:
        raise ValueError("there are no examples for a batch: is the corpus empty?")


def _check_fits(sizes: Sequence[Size], limit: int) -> None:
    largest = max(range(len(sizes)), key=lambda index: max(sizes[index]))
    if max(sizes[largest]) > limit:
        raise ValueError(
            f"example {largest} has {max(sizes[largest])} tokens, more than "
            f"tokens_per_batch={limit}"
        )
