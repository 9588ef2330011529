"""Gradients through a remote call: the end that computes keeps the computation graph.

Tensors that require a gradient arrive as leaves. The answer states the leaves on which its results
depend. At the caller's end, an autograd function connects these leaves with the results, and its
backward pass requests the gradients from the other end.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attentively_grader.wire.conversation import Conversation
from attentively_grader.wire.messages import WireError

Leaves = dict[int, tuple[Tensor, int]]
"""By `id`: the leaf for a computed tensor of the request, and its number there."""


class Graph:
    """The results of an answer, and the leaves on which they depend."""

    def __init__(
        self,
        results: Sequence[Tensor],
        leaves: Sequence[Tensor],
        own: Sequence[Tensor] = (),
        endpoint: Conversation | None = None,
    ) -> None:
        self.results = results
        self.leaves = leaves
        self.own = own
        """Leaves that the other end does not know, and whose gradients stay here."""
        self.endpoint = endpoint

    def backward(self, gradients: Sequence[Any]) -> list[Tensor | None]:
        """Return the gradient for each leaf."""
        if not isinstance(self, Graph) or len(gradients) != len(self.results):
            raise WireError("a request for gradients is malformed")
        pairs = [
            (result, gradient)
            for result, gradient in zip(self.results, gradients, strict=True)
            if gradient is not None
        ]
        if not pairs:
            return [None] * len(self.leaves)
        results, given = zip(*pairs, strict=True)
        wanted = [*self.leaves, *self.own]
        found = torch.autograd.grad(results, wanted, given, retain_graph=True, allow_unused=True)
        collected = self.endpoint.collected if self.endpoint is not None else None
        for leaf, gradient in zip(self.own, found[len(self.leaves) :], strict=True):
            if collected is not None and gradient is not None:
                before = collected.get(id(leaf))
                collected[id(leaf)] = gradient if before is None else before + gradient
        return list(found[: len(self.leaves)])


class Link:
    """A reference to a `Graph` at the other end."""

    def __init__(self, endpoint: Conversation, leaves: int, own: Sequence[Tensor] = ()) -> None:
        self.endpoint = endpoint
        self.leaves = leaves
        self.own = own


def as_leaves(computed: Sequence[Tensor]) -> tuple[Leaves, list[Tensor]]:
    """Return leaves for the computed tensors of a request, and clones that code may overwrite."""
    leaves: Leaves = {}
    shown = []
    with torch.enable_grad():
        for number, tensor in enumerate(computed):
            leaf = tensor.requires_grad_()
            leaves[id(leaf)] = (leaf, number)
            shown.append(leaf.clone())
    return leaves, shown


def reached(results: Sequence[Tensor]) -> list[Tensor]:
    """Return the leaves on which these results depend."""
    found: dict[int, Tensor] = {}
    seen: set[Any] = set()
    waiting = [result.grad_fn for result in results]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            found[id(variable)] = variable
        waiting += [each for each, _ in node.next_functions]
    return [*found.values()]


def record(
    endpoint: Conversation, results: Sequence[Tensor], leaves: Leaves
) -> tuple[int, list[tuple[Tensor, Any]]]:
    """Keep the graph of an answer; return its name, and its leaves with their references."""
    known: list[tuple[Tensor, Any]] = []
    own: list[Tensor] = []
    for leaf in reached(results):
        if id(leaf) in leaves:
            known.append((leaf, ["G", leaves[id(leaf)][1]]))
        elif endpoint.table.name_of(leaf) is not None:
            known.append((leaf, None))
        elif endpoint.trusted:
            own.append(leaf)
    graph = Graph(list(results), [leaf for leaf, _ in known], own, endpoint)
    endpoint.graphs.append(graph)
    return endpoint.table.add(graph, "graph").name, known


class _Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, link: Link, results: list[Tensor], *leaves: Tensor) -> Any:
        ctx.link = link
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        endpoint = ctx.link.endpoint
        before, endpoint.collected = endpoint.collected, {}
        try:
            with torch.no_grad():
                found = endpoint.ask("backward", ctx.link, list(gradients))
            collected = endpoint.collected
        finally:
            endpoint.collected = before
        needed = ctx.needs_input_grad[2:]
        if not isinstance(found, list) or len(found) != ctx.link.leaves:
            raise WireError("received gradients are malformed")
        if not all(each is None or isinstance(each, Tensor) for each in found):
            raise WireError("received gradients are malformed")
        found = [*found, *(collected.get(id(leaf)) for leaf in ctx.link.own)]
        found += [None] * (len(needed) - len(found))
        return (
            None,
            None,
            *(gradient if wanted else None for gradient, wanted in zip(found, needed, strict=True)),
        )


def bridge(
    endpoint: Conversation, name: Any, computed: Sequence[Tensor], leaves: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return the results of an answer, differentiable with respect to the leaves."""
    if not computed:
        return []
    if type(name) is not int:
        raise WireError("computed results have no graph")
    own = {id(leaf): leaf for graph in endpoint.graphs for leaf in graph.own}
    link = Link(endpoint, len(leaves), [*own.values()])
    leaves = [*leaves, *own.values()]
    endpoint.table.add(link, "handle", name)
    if not any(
        leaf.requires_grad for leaf in leaves
    ):  # the results depend only on tensors of the other end
        leaves = [*leaves, torch.zeros((), requires_grad=True)]
    with torch.enable_grad():
        return _Bridge.apply(link, list(computed), *leaves)
