"""Batches: sentences of similar length side by side, padded to the longest."""

import math
import random
from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from jaxtyping import Int
from torch import Tensor

from attentively.data.pairs import Pair
from attentively.vocabulary import PAD_ID, Tokenizer, target_ids

Size = tuple[int, ...]
"""How many tokens an example has on each side that it has."""


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
    """Return one epoch: every index once, neighbours of similar size, batches in any order.

    A batch holds at most `batch_size` examples; or, with `tokens_per_batch`, as many as keep
    its longer side, padding counted, within so many tokens. The order depends on the sizes,
    `seed` and `epoch` alone, so that an interrupted run finds its place again. Raises
    `ValueError` for an example that is larger than a batch may be.
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
            batches += [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
        else:
            batches += _filled(indices, sizes, tokens_per_batch)
    generator.shuffle(batches)
    return batches


def _filled(indices: Sequence[int], sizes: Sequence[Size], limit: int) -> list[list[int]]:
    """Cut `indices` into batches of at most `limit` tokens on their longer side."""
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
        raise ValueError("there is no example to make a batch of: is the corpus empty?")


def _check_fits(sizes: Sequence[Size], limit: int) -> None:
    largest = max(range(len(sizes)), key=lambda index: max(sizes[index]))
    if max(sizes[largest]) > limit:
        raise ValueError(
            f"example {largest} has {max(sizes[largest])} tokens, more than "
            f"tokens_per_batch={limit}"
        )
