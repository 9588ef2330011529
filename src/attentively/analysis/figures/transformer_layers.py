"""The layers of a Transformer: sub-layers, residual connections, and where the norm is."""

from dataclasses import replace

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import Edge, Node, Shape, diagram
from attentively.config import Norm

_GAP = 15.0  # between two nodes
_FRAME = 122.0  # width of the frame around a layer
_ENCODER = ("self-\nattention", "feed-\nforward")
_DECODER = ("masked self-\nattention", "cross-\nattention", "feed-\nforward")


def transformer() -> Figure:
    """Draw the whole Transformer with post-norm, in the order of the paper's figure 1.

    It is read from bottom to top: the encoder on the left, the decoder on the right, each with the
    input embedding below its stack of N layers. Grey lines are residual connections. Every decoder
    layer gets keys and values from the memory, the output of the encoder.
    """
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for side, x, names in (("encoder", 76.0, _ENCODER), ("decoder", 216.0, _DECODER)):
        tokens = "source tokens" if side == "encoder" else "target tokens"
        nodes[tokens] = Node(tokens, (x, 0), None, "text")
        column = _Column(nodes, edges, side, tokens, x, side)
        column.add("input", "input\nembedding")
        bottom = column.top + _GAP / 2
        column.top += _GAP + 4  # room for the name of the frame
        for name in names:
            column.sublayer(name, "post", norm_text="add & norm")
        top = column.top + 23
        nodes[f"{side} layer"] = Node(
            "N layers",
            (x - 6, (bottom + top) / 2),
            side,
            "frame",
            size=(_FRAME, top - bottom),
        )
        column.top = top
        if side == "decoder":
            column.add("logits", "output layer")
            column.add("softmax", "softmax")
            column.add("output", "next token", "text")
        else:
            column.add("output", "memory", "text")
    memory, cross = nodes["encoder: output"], nodes[f"decoder: {_DECODER[1]}"]
    turn = 146.0  # between the columns
    corners = [(turn, memory.at[1]), (turn, cross.at[1])]
    edges.append(Edge("encoder: output", f"decoder: {_DECODER[1]}", "encoder", via=corners))
    return diagram(nodes, edges)


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
    column = _Column(nodes, edges, title, title, x, role)
    for name in names:
        column.sublayer(name, norm)
    column.add("output", "output", "text")


class _Column:
    """Nodes one above the other, each joined to the one below it."""

    def __init__(
        self,
        nodes: dict[str, Node],
        edges: list[Edge],
        title: str,
        lowest: str,
        x: float,
        role: str,
    ) -> None:
        self.nodes, self.edges = nodes, edges
        self.title, self.x, self.role = title, x, role
        self.before, self.top = lowest, nodes[lowest].extent[1] / 2

    def add(self, name: str, text: str, shape: Shape = "box") -> float:
        """Add a node above the others; return its height."""
        node = Node(text, (self.x, 0), None if shape == "text" else self.role, shape)
        y = self.top + _GAP + node.extent[1] / 2
        key = f"{self.title}: {name}"
        self.nodes[key] = replace(node, at=(self.x, y))
        self.edges.append(Edge(self.before, key, self.role))
        self.before, self.top = key, y + node.extent[1] / 2
        return y

    def sublayer(self, name: str, norm: Norm, norm_text: str = "") -> None:
        """Add a sub-layer with its residual connection and normalisation.

        With `norm_text`, the sum and the normalisation are one node.
        """
        start, side = self.top + _GAP / 2 - 2, self.x - 46
        if norm == "pre":
            self.add(f"norm of {name}", "norm")
        self.add(name, name)
        if norm_text:
            plus = self.add(f"plus of {name}", norm_text)
        else:
            plus = self.add(f"plus of {name}", "+", "circle")
        if norm == "post" and not norm_text:
            self.add(f"norm of {name}", "norm")
        fork = f"{self.title}: fork of {name}"
        self.nodes[fork] = Node("", (self.x, start), "neutral", "text", size=(0.0, 0.0))
        corners = [(side, start), (side, plus)]
        self.edges.append(Edge(fork, f"{self.title}: plus of {name}", via=corners))
