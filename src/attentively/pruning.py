r"""Pruning: take heads out of multi-head attention, for a while or for good.

What the heads say is concatenated and multiplied by :math:`W^O`, so the output is a sum with
a term for each head, and a head can be left out of it (Michel, Levy & Neubig 2019,
https://arxiv.org/abs/1905.10650, section 2).
"""

import copy
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
from torch import nn

from attentively.multi_head import MultiHeadAttention


class Head(NamedTuple):
    """One head of a model."""

    attention: str
    """The name of its attention among the model's modules."""
    number: int
    """Its place in that attention, from 0."""


def find_heads(model: nn.Module) -> list[Head]:
    """Return every head of every multi-head attention in `model`, in their order."""
    return [
        Head(name, number)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
        for number in range(count_heads(module))
    ]


def count_heads(attention: MultiHeadAttention) -> int:
    """Return how many heads `attention` has, those that were pruned not counted."""
    return attention.query_projection.out_features // attention.d_head


@contextmanager
def silenced(model: nn.Module, heads: Iterable[Head]) -> Iterator[None]:
    """While the context lasts, add nothing of what `heads` say.

    Their columns of :math:`W^O` are zero and come back afterwards. A head that the model does
    not have raises `ValueError`.
    """
    heads = list(heads)
    unknown = set(heads) - set(find_heads(model))
    if unknown:
        raise ValueError(f"the model has no {', '.join(map(str, sorted(unknown)))}")
    attentions = {name: cast(MultiHeadAttention, model.get_submodule(name)) for name, _ in heads}
    matrices = {name: module.output_projection.weight for name, module in attentions.items()}
    kept = {name: matrix.detach().clone() for name, matrix in matrices.items()}
    try:
        with torch.no_grad():
            for name, number in heads:
                d_head = attentions[name].d_head
                matrices[name][:, number * d_head : (number + 1) * d_head] = 0
        yield
    finally:
        with torch.no_grad():
            for name, matrix in matrices.items():
                matrix.copy_(kept[name])


def prune(attention: MultiHeadAttention, numbers: Collection[int]) -> MultiHeadAttention:
    """Return a copy of `attention` without the heads of these numbers, and without their weights.

    It says what `attention` says with them `silenced`. Raises `ValueError` if a number is not
    that of a head, if none would be left, and where heads are not independent: if they share
    keys and values, or have a `position`.
    """
    total = count_heads(attention)
    if attention.group_size != 1 or attention.position is not None:
        raise ValueError("heads that share keys and values, or a position, cannot be pruned alone")
    if not set(numbers) <= set(range(total)):
        raise ValueError(f"heads {sorted(numbers)} are not all among 0 to {total - 1}")
    left = [number for number in range(total) if number not in numbers]
    if not left:
        raise ValueError(f"an attention needs a head, but all {total} are to be pruned")
    d_head = attention.d_head
    rows = torch.tensor([number * d_head + i for number in left for i in range(d_head)])
    smaller = copy.deepcopy(attention)
    for name in ("query_projection", "key_projection", "value_projection"):
        projection = getattr(smaller, name)
        projection.weight = nn.Parameter(projection.weight[rows].detach())
        projection.bias = nn.Parameter(projection.bias[rows].detach())
        projection.out_features = len(rows)
    output = smaller.output_projection
    output.weight = nn.Parameter(output.weight[:, rows].detach())
    output.in_features = len(rows)
    return smaller
