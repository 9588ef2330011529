"""One step of a decoder with additive attention."""

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
    values = weights.detach().double().tolist()
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
