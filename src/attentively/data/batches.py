"""Batches: sentences of similar length side by side, padded to the longest."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import torch
from jaxtyping import Int
from torch import Tensor

from attentively.data.pairs import Pair
from attentively.vocabulary import PAD_ID, Tokenizer, target_ids


class Example(NamedTuple):
    """One sentence pair as ids, both ending in ``END_ID``, the target beginning with
    ``START_ID``.
    """

    src: list[int]
    tgt: list[int]


class Batch(NamedTuple):
    """Several examples, padded at the end."""

    src: Int[Tensor, "batch src_len"]
    tgt: Int[Tensor, "batch tgt_len"]

    def to(self, device: torch.device | str) -> Self:
        """Return the batch on `device`."""
        return type(self)(self.src.to(device), self.tgt.to(device))


def encode_pairs(
    pairs: Sequence[Pair], src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer
) -> list[Example]:
    """Turn the text of every pair into ids."""
    return [
        Example(src_tokenizer.encode(src), target_ids(tgt_tokenizer, tgt)) for src, tgt in pairs
    ]


def pad(sentences: Sequence[Sequence[int]], pad_id: int = PAD_ID) -> Int[Tensor, "batch longest"]:
    """Stack sentences of ids, filling the shorter ones at the end."""
    if not sentences:
        raise ValueError("there is no sentence to pad")
    longest = max(len(sentence) for sentence in sentences)
    rows = [[*sentence, *[pad_id] * (longest - len(sentence))] for sentence in sentences]
    return torch.tensor(rows, dtype=torch.long).reshape(len(sentences), longest)


def collate(examples: Sequence[Example]) -> Batch:
    """Pad `examples` into one batch."""
    return Batch(pad([example.src for example in examples]), pad([e.tgt for e in examples]))


def in_order(examples: Sequence[Example], batch_size: int) -> Iterator[Batch]:
    """Yield every example once, in the order given."""
    _check(examples, batch_size)
    for first in range(0, len(examples), batch_size):
        yield collate(examples[first : first + batch_size])


def shuffled(
    examples: Sequence[Example], batch_size: int, seed: int, epoch: int, skip: int = 0
) -> Iterator[Batch]:
    """Yield one epoch: every example once, neighbours of similar length, batches in any order.

    The order depends on `seed` and `epoch` alone, so that an interrupted run can `skip` the
    batches it has seen.
    """
    _check(examples, batch_size)
    generator = random.Random(f"{seed}/{epoch}")
    order = list(range(len(examples)))
    generator.shuffle(order)
    chunk = 50 * batch_size  # long enough to sort by length, short enough to stay random
    batches = []
    for first in range(0, len(order), chunk):
        indices = sorted(order[first : first + chunk], key=lambda index: _length(examples[index]))
        batches += [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
    generator.shuffle(batches)
    for batch in batches[skip:]:
        yield collate([examples[index] for index in batch])


def _length(example: Example) -> tuple[int, int]:
    return len(example.src), len(example.tgt)


def _check(examples: Sequence[Example], batch_size: int) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    if not examples:
        raise ValueError("there is no example to make a batch of: is the corpus empty?")
