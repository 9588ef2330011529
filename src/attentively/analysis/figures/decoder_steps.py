"""One step of a decoder with attention."""

from dataclasses import replace

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attentively.analysis.figures.diagram import (
    Edge,
    Node,
    diagram,
    text_size,
)
from attentively.analysis.plots import COLOURS

_COLUMN = 48.0
_BAR = 46.0  # height of a weight of 1


def attention_step(weights: Float[Tensor, "src_len"]) -> Figure:
    """Draw one decoder step of additive attention, from bottom to top.

    The previous state is the query. It is scored against every encoder output, a softmax converts
    the scores into weights, drawn as bars, and the weighted sum of the encoder outputs is the
    context vector. The new state is computed from it, the previous word and the previous state.
    Raises `ValueError` where the weights are not those of one query, or do not sum to one.
    """
    if weights.dim() != 1 or len(weights) < 2:
        raise ValueError(
            f"weights of shape {tuple(weights.shape)}: give those of one query, shape (src_len,)"
        )
    values = weights.detach().cpu().double().tolist()
    if min(values) < 0 or abs(sum(values) - 1) > 1e-3:
        raise ValueError(f"weights must be 0 or more and sum to 1, not to {sum(values):.3g}")
    labels = {"encoder\noutputs": 12.0, "scores": 76.0, "softmax": 112.0, "weights": 150.0,
              "context": 236.0}  # fmt: skip
    first = max(text_size(label)[0] for label in labels) + 28
    columns = [first + _COLUMN * j for j in range(len(values))]
    middle = (columns[0] + columns[-1]) / 2
    side = columns[-1] + 61
    nodes = {
        label: Node(label, (text_size(label)[0] / 2, y), "neutral", "text")
        for label, y in labels.items()
    }
    del nodes["softmax"]
    nodes |= {
        "softmax": Node("softmax", (middle, labels["softmax"]), "neutral",
                        size=(columns[-1] - columns[0] + 40, 20)),
        "c": Node(r"$c_i = \sum_j\, \alpha_{ij} h_j$", (middle, labels["context"]), "value"),
        "query": Node("query\n$s_{i-1}$", (side, 22), "query"),
        "s": Node("new state\n$s_i$", (side, labels["context"]), "decoder"),
        "word": Node("previous word\n$E y_{i-1}$", (side, 288), "decoder"),
    }  # fmt: skip
    edges = [Edge("query", "s", "query"), Edge("c", "s", "value"), Edge("word", "s", "decoder")]
    base = labels["softmax"] + 16
    for j, (x, value) in enumerate(zip(columns, values, strict=True), start=1):
        nodes[f"h{j}"] = Node(f"$h_{{{j}}}$", (x, labels["encoder\noutputs"]), "encoder")
        nodes[f"e{j}"] = Node(f"$e_{{i{j}}}$", (x, labels["scores"]), "key")
        nodes[f"a{j}"] = Node(f"{value:.2f} $h_{{{j}}}$", (x, base + _BAR * value + 8), "key",
                              "text")  # fmt: skip
        edges += [
            Edge(f"h{j}", f"e{j}", "encoder"),
            Edge("query", f"e{j}", "query"),
            Edge(f"e{j}", "softmax", "key"),
            Edge(f"a{j}", "c", "key"),
        ]
    figure = diagram(nodes, edges)
    for x, value in zip(columns, values, strict=True):
        bar = Rectangle((x - 14, base), 28, _BAR * value, label="weight")
        bar.set(facecolor=COLOURS["key"], edgecolor="none")
        figure.axes[0].add_patch(bar)
    return figure


def query_states() -> Figure:
    """Draw which decoder state is the query: the previous one (Bahdanau) or the current (Luong).

    Input feeding, which Luong's decoder may have, is dashed.
    """
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for top, paper, text in (
        (190.0, "bahdanau", "Bahdanau: the previous state is the query"),
        (0.0, "luong", "Luong: the current state is the query"),
    ):
        luong = paper == "luong"
        found = {
            "title": Node(text, (text_size(text, bold=True)[0] / 2, 156), None, "text", bold=True),
            "old": Node("$s_{i-1}$", (24, 50), "decoder"),
            "new": Node("$s_i$", (140, 50), "decoder"),
            "word": Node("$E y_{i-1}$", (140, 0), "decoder"),
            "scores": Node("score each $h_j$", (52, 116), "key"),
            "context": Node("$c_i$", (140, 116), "value"),
            "output": Node(r"$\tilde{h}_i$", (200, 83), "value")
            if luong
            else Node("tanh", (200, 83), "neutral"),
            "logits": Node("logits", (260, 83), "neutral"),
        }
        arrows = [
            Edge("old", "new", "decoder"),
            Edge("word", "new", "decoder"),
            Edge("scores", "context", "value"),
            Edge("new" if luong else "old", "scores", "query", label="query"),
            Edge("context", "output", "value"),
            Edge("new", "output", "decoder"),
            Edge("output", "logits"),
        ]
        if luong:
            found["fed"] = Node(r"$\tilde{h}_{i-1}$", (24, 0), "value")
            arrows.append(Edge("fed", "new", "value", label="feeding", dashed=True))
        else:
            arrows.append(Edge("context", "new", "value"))
        nodes |= {
            f"{paper} {name}": replace(node, at=(node.at[0], node.at[1] + top))
            for name, node in found.items()
        }
        edges += [
            replace(edge, start=f"{paper} {edge.start}", end=f"{paper} {edge.end}")
            for edge in arrows
        ]
    return diagram(nodes, edges)
