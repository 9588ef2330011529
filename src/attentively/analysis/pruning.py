r"""Pruning: remove attention heads, and measure their contributions.

The outputs of the heads are concatenated and multiplied by :math:`W^O`, so the output is a sum
with one term per head, and a head can be removed from it (Michel, Levy & Neubig 2019,
https://arxiv.org/abs/1905.10650, section 2).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
from torch import nn

from attentively.attention.multi_head import MultiHeadAttention


class Head(NamedTuple):
    """One head of a model."""

    attention: str
    """The module name of its attention."""
    number: int
    """The index of the head in that attention, from 0."""


def find_heads(model: nn.Module) -> list[Head]:
    """Return every head of every multi-head attention in `model`, in order."""
    return [
        Head(name, number)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
        for number in range(module.query_projection.out_features // module.d_head)
    ]


def by_attention(
    model: nn.Module, heads: Iterable[Head]
) -> dict[str, tuple[MultiHeadAttention, list[Head]]]:
    """Return the attentions of the given heads by module name, each with its heads.

    A head that the model does not have raises `ValueError`.
    """
    heads = list(heads)
    unknown = set(heads) - set(find_heads(model))
    if unknown:
        raise ValueError(
            f"the model does not have these heads: {', '.join(map(str, sorted(unknown)))}"
        )
    return {
        name: (
            cast(MultiHeadAttention, model.get_submodule(name)),
            [head for head in heads if head.attention == name],
        )
        for name in {head.attention: None for head in heads}
    }


@contextmanager
def silenced(model: nn.Module, heads: Iterable[Head]) -> Iterator[None]:
    """Remove the outputs of `heads` inside the ``with`` block.

    Their columns of :math:`W^O` are set to zero and restored afterwards. A head that
    the model does not have raises `ValueError`.
    """
    attentions = by_attention(model, heads)
    modules = {name: module for name, (module, _) in attentions.items()}
    matrices = {name: modules[name].output_projection.weight for name in modules}
    kept = {name: matrix.detach().clone() for name, matrix in matrices.items()}
    try:
        with torch.no_grad():
            for name, (module, of_it) in attentions.items():
                d_head = module.d_head
                for _, number in of_it:
                    matrices[name][:, number * d_head : (number + 1) * d_head] = 0
        yield
    finally:
        with torch.no_grad():
            for name, matrix in matrices.items():
                matrix.copy_(kept[name])
