"""Computation graphs of layers.

A node is (level, position). The nodes of level 0 are the inputs, which read nothing; the nodes of
the highest level are the outputs.
"""

import random
from collections.abc import Iterable

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


def unread(n: int) -> Graph:
    """Return attention in which no output reads the recurrent layer below it."""
    return recurrent(n) | {(2, t): [*words(n)] for t in range(n)}


def stirred(graph: Graph, seed: int) -> Graph:
    """Return the graph with its nodes, and what each reads, in random order."""
    mixed = random.Random(seed)
    nodes = mixed.sample(sorted(graph), len(graph))
    return {node: mixed.sample(graph[node], len(graph[node])) for node in nodes}
