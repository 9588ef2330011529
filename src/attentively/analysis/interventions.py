r"""Interventions: attention knockout and activation patching, to measure causal effects of heads.

Attention weights show which positions a head could have used. Interventions show which it did use:
attention knockout blocks the edge from a query to a key, and activation patching replaces the
output of a head by its output for another sentence. See Vig et al. (2020),
https://arxiv.org/abs/2004.12265, and Geva et al. (2023), https://arxiv.org/abs/2304.14767.
`attentively.analysis.pruning` removes whole heads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.analysis.pruning import Head, by_attention
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import AttentionPosition

HeadOutputs = dict[Head, Float[Tensor, "batch queries d_head"]]
"""The outputs of heads: the context of each query, before :math:`W^O`."""


@contextmanager
def record_outputs(model: nn.Module, heads: Iterable[Head]) -> Iterator[HeadOutputs]:
    """Record the outputs of `heads` in the last forward pass inside the ``with`` block.

    The returned dictionary is empty before the first pass. A head that the model does
    not have raises `ValueError`.
    """
    outputs: HeadOutputs = {}

    def record(
        attention: MultiHeadAttention,
        heads: list[Head],
        context: Tensor,
    ) -> Tensor:
        for head in heads:
            outputs[head] = context[..., _columns(attention, head)].detach().clone()
        return context

    with _between_heads_and_output(model, heads, record):
        yield outputs


@contextmanager
def patch_outputs(
    model: nn.Module,
    outputs: Mapping[Head, Float[Tensor, "batch queries d_head"]],
    at: Bool[Tensor, "batch queries"] | None = None,
) -> Iterator[None]:
    """Replace the outputs of heads by recorded ones inside the ``with`` block.

    This is activation patching. `at` is True at the queries whose output is replaced,
    by default at all. Heads that the model does not have, and outputs of another shape
    than the model's own, raise `ValueError`.
    """

    def replace(
        attention: MultiHeadAttention,
        heads: list[Head],
        context: Tensor,
    ) -> Tensor:
        context = context.clone()
        for head in heads:
            columns = _columns(attention, head)
            own, other = context[..., columns], outputs[head]
            if other.shape != own.shape:
                raise ValueError(
                    f"the output of {head} has shape {tuple(own.shape)}, "
                    f"but its replacement has shape {tuple(other.shape)}"
                )
            if at is not None:
                other = other.where(at.unsqueeze(-1), own)
            context[..., columns] = other
        return context

    with _between_heads_and_output(model, outputs, replace):
        yield


@contextmanager
def knock_out(
    model: nn.Module,
    heads: Iterable[Head],
    edges: Bool[Tensor, "batch queries keys"],
) -> Iterator[None]:
    """Block the attention `edges` that are True in `heads` inside the ``with`` block.

    This is attention knockout. The weight of a blocked edge is redistributed over the other
    keys of its query; if a mask hides all of these, the query gets zeros. Blocking every key of
    a query, edges of another shape than the heads' weights, and heads that the model does not
    have raise `ValueError`.
    """
    if edges.all(dim=-1).any():
        raise ValueError("edges block every key of a query: use pruning.silenced instead")
    attentions = by_attention(model, heads)
    kept = {name: attention.position for name, (attention, _) in attentions.items()}
    try:
        for attention, of_it in attentions.values():
            attention.position = _Knockout(
                attention.position, [head.number for head in of_it], edges
            )
        yield
    finally:
        for name, (attention, _) in attentions.items():
            attention.position = kept[name]


class _Knockout(AttentionPosition):
    """Add minus infinity to the scores of some edges, and apply `position`."""

    def __init__(
        self,
        position: AttentionPosition | None,
        numbers: list[int],
        edges: Bool[Tensor, "batch queries keys"],
    ) -> None:
        super().__init__()
        self.position = AttentionPosition() if position is None else position
        self.numbers = numbers
        self.edges = edges

    def turn(
        self, x: Float[Tensor, "batch heads len d_head"], first: int
    ) -> Float[Tensor, "batch heads len d_head"]:
        return self.position.turn(x, first)

    def bias(
        self, query: Float[Tensor, "batch heads q d_head"], key_len: int
    ) -> Float[Tensor, "batch heads q key_len"]:
        batch, heads, queries, _ = query.shape
        if self.edges.shape != (batch, queries, key_len):
            raise ValueError(
                f"edges have shape {tuple(self.edges.shape)}, "
                f"but expected (batch, queries, keys) = {(batch, queries, key_len)}"
            )
        bias = query.new_zeros(batch, heads, queries, key_len)
        bias[:, self.numbers] = bias[:, self.numbers].masked_fill(
            self.edges.unsqueeze(1), -torch.inf
        )
        given = self.position.bias(query, key_len)
        return bias if given is None else bias + given


def _columns(attention: MultiHeadAttention, head: Head) -> slice:
    return slice(head.number * attention.d_head, (head.number + 1) * attention.d_head)


@contextmanager
def _between_heads_and_output(
    model: nn.Module,
    heads: Iterable[Head],
    change: Callable[[MultiHeadAttention, list[Head], Tensor], Tensor],
) -> Iterator[None]:
    """Apply `change` to the concatenated head outputs of each attention, before :math:`W^O`."""
    with ExitStack() as hooks:
        for attention, of_it in by_attention(model, heads).values():

            def before(
                _: nn.Module,
                inputs: tuple[Tensor],
                attention: MultiHeadAttention = attention,
                of_it: list[Head] = of_it,
            ) -> tuple[Tensor]:
                return (change(attention, of_it, inputs[0]),)

            handle = attention.output_projection.register_forward_pre_hook(before)
            hooks.callback(handle.remove)
        yield
