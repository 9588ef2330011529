r"""Interventions: attention knockout and activation patching, to measure what a head causes.

Where a head looks says what it could have used. What it did use shows when the edge along which
it looked is cut, or when it is made to say what it said of another sentence. Both are among the
interventions that Vig et al. (2020), https://arxiv.org/abs/2004.12265, and Geva et al. (2023),
https://arxiv.org/abs/2304.14767, read causes from. `attentively.analysis.pruning` takes heads out
altogether.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.analysis.pruning import Head, by_attention
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import AttentionPosition

Said = dict[Head, Float[Tensor, "batch queries d_head"]]
"""What heads say: the context of each query, before :math:`W^O`."""


@contextmanager
def recorded(model: nn.Module, heads: Iterable[Head]) -> Iterator[Said]:
    """Record the outputs of `heads` in the last pass made while the context lasts.

    The dictionary that it gives is empty before the first pass. A head that the model
    does not have raises `ValueError`.
    """
    said: Said = {}

    def listen(
        attention: MultiHeadAttention,
        heads: list[Head],
        context: Tensor,
    ) -> Tensor:
        for head in heads:
            said[head] = context[..., _columns(attention, head)].detach().clone()
        return context

    with _between_heads_and_output(model, heads, listen):
        yield said


@contextmanager
def transplanted(
    model: nn.Module,
    said: Mapping[Head, Float[Tensor, "batch queries d_head"]],
    at: Bool[Tensor, "batch queries"] | None = None,
) -> Iterator[None]:
    """While the context lasts, let heads say what they `said` elsewhere.

    `at` is True at the queries whose answer is replaced; without it all are. Heads that
    the model does not have, and answers of another shape than its own, raise
    `ValueError`.
    """

    def replace(
        attention: MultiHeadAttention,
        heads: list[Head],
        context: Tensor,
    ) -> Tensor:
        context = context.clone()
        for head in heads:
            columns = _columns(attention, head)
            own, other = context[..., columns], said[head]
            if other.shape != own.shape:
                raise ValueError(
                    f"{head} says something of shape {tuple(own.shape)}, and what is "
                    f"to stand in its place has {tuple(other.shape)}"
                )
            if at is not None:
                other = other.where(at.unsqueeze(-1), own)
            context[..., columns] = other
        return context

    with _between_heads_and_output(model, said, replace):
        yield


@contextmanager
def cut(
    model: nn.Module,
    heads: Iterable[Head],
    edges: Bool[Tensor, "batch queries keys"],
) -> Iterator[None]:
    """While the context lasts, let no query of `heads` look along the `edges` that are True.

    The weight that an edge had goes to the other keys of its query; where a mask hides all of
    these, the query gets zeros. Edges to every key of a query, another shape than that of the
    heads' weights, and heads that the model does not have raise `ValueError`.
    """
    if edges.all(dim=-1).any():
        raise ValueError("edges leave a query nothing to look at: silence the head instead")
    attentions = by_attention(model, heads)
    kept = {name: attention.position for name, (attention, _) in attentions.items()}
    try:
        for attention, of_it in attentions.values():
            attention.position = _Cut(attention.position, [head.number for head in of_it], edges)
        yield
    finally:
        for name, (attention, _) in attentions.items():
            attention.position = kept[name]


class _Cut(AttentionPosition):
    """Add minus infinity to the scores of some edges, and whatever `position` does."""

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
                f"edges of shape {tuple(self.edges.shape)} do not fit weights of "
                f"{batch} sentences, {queries} queries and {key_len} keys"
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
    """Let `change` see, and return anew, what each attention's heads say side by side."""
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
