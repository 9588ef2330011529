"""The layers of a Transformer: sub-layers, residual connections, and where the norm is."""

from dataclasses import replace
from typing import Literal

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import Edge, Node, Shape, diagram

Norm = Literal["pre", "post"]
_GAP = 15.0  # between two nodes
_ENCODER = ("self-\nattention", "feed-\nforward")
_DECODER = ("masked self-\nattention", "cross-\nattention", "feed-\nforward")


def transformer_layers() -> Figure:
    """Draw an encoder layer with post-norm and with pre-norm, and a decoder layer with pre-norm.

    They are read from bottom to top. A grey line is the residual connection around a sub-layer; the
    decoder gets keys and values from the memory, the output of the encoder.
    """
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    _layer(nodes, edges, "encoder,\npost-norm", 52.0, _ENCODER, "post", "encoder")
    _layer(nodes, edges, "encoder,\npre-norm", 142.0, _ENCODER, "pre", "encoder")
    _layer(nodes, edges, "decoder,\npre-norm", 244.0, _DECODER, "pre", "decoder")
    cross = nodes[f"decoder,\npre-norm: {_DECODER[1]}"]
    height = nodes["decoder,\npre-norm: output"].at[1] - 40
    nodes["memory"] = Node("memory:\nkeys, values", (128.0, height), "encoder")
    corners = [(188.0, height), (188.0, cross.at[1])]
    edges.append(Edge("memory", f"decoder,\npre-norm: {_DECODER[1]}", "encoder", via=corners))
    return diagram(nodes, edges)


def _layer(
    nodes: dict[str, Node],
    edges: list[Edge],
    title: str,
    x: float,
    names: tuple[str, ...],
    norm: Norm,
    role: str,
) -> None:
    """Add the sub-layers of a layer, one above the other, and the residual connections."""
    nodes[title] = Node(title, (x, 0), None, "text")
    before, top = title, nodes[title].extent[1] / 2

    def add(name: str, text: str, shape: Shape = "box") -> float:
        nonlocal before, top
        node = Node(text, (x, 0), None if shape == "text" else role, shape)
        y = top + _GAP + node.extent[1] / 2
        key = f"{title}: {name}"
        nodes[key] = replace(node, at=(x, y))
        edges.append(Edge(before, key, role))
        before, top = key, y + node.extent[1] / 2
        return y

    for name in names:
        start, side = top + _GAP / 2 - 2, x - 46
        if norm == "pre":
            add(f"norm of {name}", "norm")
        add(name, name)
        plus = add(f"plus of {name}", "+", "circle")
        if norm == "post":
            add(f"norm of {name}", "norm")
        fork = f"{title}: fork of {name}"
        nodes[fork] = Node("", (x, start), "neutral", "text", size=(0.0, 0.0))
        edges.append(Edge(fork, f"{title}: plus of {name}", via=[(side, start), (side, plus)]))
    add("output", "output", "text")
