"""Computation graphs of layers, and what can be computed from them.

A node is (level, position). The nodes of level 0 are the inputs, which read nothing; the nodes of
the highest level are the outputs.
"""

import random
from collections.abc import Callable, Iterable

Node = tuple[int, int]
Graph = dict[Node, list[Node]]
"""The nodes that each node reads."""


def words(n: int) -> Graph:
    """Return the graph of inputs that nothing reads yet."""
    return {(0, place): [] for place in range(n)}


def recurrent(n: int) -> Graph:
    """Return the graph of a recurrent layer: a state reads its input and the previous state."""
    return words(n) | {(1, t): [(0, t), *[(1, t - 1)] * (t > 0)] for t in range(n)}


def bidirectional(n: int) -> Graph:
    """Return a forward (1) and a backward (2) recurrent layer, and outputs that read both (3)."""
    back: Graph = {(2, t): [(0, t), *[(2, t + 1)] * (t < n - 1)] for t in range(n)}
    return recurrent(n) | back | {(3, t): [(1, t), (2, t)] for t in range(n)}


def convolution(n: int, k: int, steps: Iterable[int]) -> Graph:
    """Return a stack of convolutions; `steps` has the dilation of each layer."""
    graph = words(n)
    for layer, step in enumerate(steps, start=1):
        for t in range(n):
            graph[layer, t] = [(layer - 1, t - j * step) for j in range(k) if j * step <= t]
    return graph


def attention(n: int, causal: bool = False) -> Graph:
    """Return the graph of self-attention."""
    return words(n) | {(1, t): [(0, j) for j in range(t + 1 if causal else n)] for t in range(n)}


def with_a_hub(n: int, layers: int) -> Graph:
    """Return attention to neighbours and to the first position, which attends to all."""
    graph = words(n)
    for layer in range(1, layers + 1):
        for t in range(n):
            read = range(n) if t == 0 else sorted({0, t - 1, t, min(t + 1, n - 1)})
            graph[layer, t] = [(layer - 1, j) for j in read]
    return graph


def backward(n: int) -> Graph:
    """Return the graph of a recurrent layer that reads from the last input to the first."""
    return words(n) | {(1, t): [(0, t), *[(1, t + 1)] * (t < n - 1)] for t in range(n)}


def backward_over(n: int) -> Graph:
    """Return a recurrent layer that reads backwards, and all earlier inputs at each position."""
    graph = backward(n)
    return graph | {(1, t): [*graph[1, t], *((0, j) for j in range(t))] for t in range(n)}


def leaping(n: int) -> Graph:
    """Return a recurrent layer that reads the state before, and the one before that."""
    graph = recurrent(n)
    return graph | {(1, t): [*graph[1, t], (1, t - 2)] for t in range(2, n)}


def back_and_forth(n: int) -> Graph:
    """Return a recurrent layer that reads backwards, and one on top of it that reads forwards."""
    return backward(n) | {(2, t): [(1, t), *[(2, t - 1)] * (t > 0)] for t in range(n)}


def from_the_first(n: int) -> Graph:
    """Return a recurrent layer in which every state also reads the first input."""
    graph = recurrent(n)
    return graph | {(1, t): [*graph[1, t], (0, 0)] for t in range(1, n)}


def to_the_last(n: int) -> Graph:
    """Return a recurrent layer whose last state also reads every input."""
    return recurrent(n) | {(1, n - 1): [(1, n - 2), *words(n)]}


def skipping(n: int, layers: int) -> Graph:
    """Return a stack of convolutions in which a layer also reads the inputs."""
    graph = convolution(n, 2, [1] * layers)
    for layer in range(2, layers + 1):
        for t in range(n):
            graph[layer, t] = [*graph[layer, t], (0, t)]
    return graph


def stirred(graph: Graph, seed: int) -> Graph:
    """Return the graph with its nodes, and what each reads, in random order."""
    mixed = random.Random(seed)
    nodes = mixed.sample(sorted(graph), len(graph))
    return {node: mixed.sample(graph[node], len(graph[node])) for node in nodes}


def levels(graph: Graph, choose: Callable[..., int] = max) -> dict[Node, int]:
    """Return the longest (or shortest) chain of arrows from an input to each node."""
    found: dict[Node, int] = {}
    while len(found) < len(graph):
        for node, read in graph.items():
            if node not in found and all(each in found for each in read):
                found[node] = choose(found[each] for each in read) + 1 if read else 0
    return found


def steps_of(graph: Graph) -> int:
    """Return the number of steps until the whole graph is computed."""
    return max(levels(graph).values())


def in_sweeps(graph: Graph) -> int:
    """Return the number of passes in which a computed node is available to the next node."""
    there, sweeps = set(words(last(graph) + 1)), 0
    while len(there) < len(graph):
        for node, read in graph.items():
            if there.issuperset(read):
                there.add(node)
        sweeps += 1
    return sweeps


def layer_by_layer(graph: Graph) -> int:
    """Return the sum, over the layers, of the longest chain within the layer."""
    chains = levels({node: [each for each in graph[node] if each[0] == node[0]] for node in graph})
    return sum(
        1 + max(length for node, length in chains.items() if node[0] == layer)
        for layer in range(1, top(graph) + 1)
    )


def top(graph: Graph) -> int:
    """Return the highest level."""
    return max(layer for layer, _ in graph)


def last(graph: Graph) -> int:
    """Return the last position."""
    return max(place for _, place in graph)


def ways(graph: Graph, start: Node, longest: bool = False) -> dict[Node, int]:
    """Return the length of the shortest (or longest) path from an input to each node it reaches.

    The nodes of the graph come after those that they read.
    """
    found = {start: 0}
    for node in graph:
        here = [found[each] + 1 for each in graph[node] if each in found]
        if here:
            found[node] = max(here) if longest else min(here)
    return found


def way_of_pairs(
    graph: Graph,
    asked: Callable[[int, int], bool] = lambda i, j: i <= j,
    choose: Callable[[list[int]], int] = max,
    longest: bool = False,
    none: int | None = None,
) -> int | None:
    """Return the largest path length from inputs i to outputs j, over all pairs in `asked`.

    If a pair is not connected it is `none`; with `none` = 0 such pairs are left out.
    """
    highest, places = top(graph), range(last(graph) + 1)
    ready = levels(graph)
    graph = {node: graph[node] for node in sorted(graph, key=ready.__getitem__)}
    found = []
    for i in places:
        arrows = ways(graph, (0, i), longest)
        for j in places:
            if not asked(i, j):
                continue
            if (highest, j) in arrows:
                found.append(arrows[highest, j])
            elif none != 0:
                return none
    return choose(found) if found else None
