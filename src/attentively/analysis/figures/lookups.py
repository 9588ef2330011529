"""One query of an attention: keys, scores, weights, values, and the context."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attentively.analysis.figures.diagram import Edge, Node, diagram, text_size
from attentively.analysis.plots import COLOURS

_LINE = 26.0  # from one key to the next
_BAR = 22.0  # length of a weight of 1
_GAP = 8.0  # between columns


def attention_lookup(
    query: str,
    keys: Sequence[str],
    weights: Float[Tensor, "src_len"],
    values: Sequence[str],
    context: str,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Draw one query: a line for each key with its weight, as a bar, and its value.

    The arrows to the keys and from the values are as wide as the weights are large. `columns` are
    further texts for each key, such as the scores, by their header; they come before the weights,
    and the header ``"word"`` before the keys. Raises `ValueError` where these differ in number.
    """
    texts = {name: list(column) for name, column in (columns or {}).items()}
    for name, column in {"keys": keys, "values": values, **texts}.items():
        if len(column) != len(weights):
            raise ValueError(f"{len(weights)} weights do not fit {len(column)} {name}")
    shares = weights.detach().cpu().double().tolist()
    table: dict[str, Sequence[str]] = {}
    if "word" in texts:
        table["word"] = texts.pop("word")
    table |= {"key": keys, **texts, "weight": [f"{share:.2f}" for share in shares], "value": values}

    boxes = {"key": "key", "value": "value"}
    lines = [-_LINE * (i + 1.9) for i in range(len(keys))]
    nodes: dict[str, Node] = {}
    right, left, bars = 0.0, 8.0, 0.0
    for header, column in table.items():
        if header == "key":
            left, right = right + 8.0, right + 22.0
        bold = header == "word"
        width = max(text_size(text, bold=bold)[0] for text in [header, *column])
        head = right + text_size(header)[0] / 2
        if header in boxes:
            width += 10.0
        if header == "weight":
            bars = right
            right += _BAR + 3
        role = None if header in ("weight", "word") else boxes.get(header, "neutral")
        nodes[header] = Node(header, (head, -0.95 * _LINE), role, "text")
        for i, (text, y) in enumerate(zip(column, lines, strict=True)):
            if header in boxes:
                box = Node(text, (right + width / 2, y), boxes[header], size=(width, 20.0))
            else:
                start = right + text_size(text, bold=bold)[0] / 2
                box = Node(text, (start, y), None, "text", bold=bold)
            nodes[f"{header} {i}"] = box
        right += width + _GAP
    trunk = right + 6
    asks, answers = Node(query, (0, 0), "query"), Node(context, (0, 0), "value")
    nodes["query"] = replace(asks, at=(left - 8 + asks.extent[0] / 2, 0.0))
    bottom = lines[-1] - 1.4 * _LINE
    nodes["context"] = replace(answers, at=(trunk + 8 - answers.extent[0] / 2, bottom))
    edges = []
    for i, (share, y) in enumerate(zip(shares, lines, strict=True)):
        wide = 0.7 + 3 * share
        edges += [
            Edge("query", f"key {i}", "query", via=[(left, y)], width=wide),
            Edge(f"value {i}", "context", "value", via=[(trunk, y)], width=wide),
        ]
    figure = diagram(nodes, edges)
    for share, y in zip(shares, lines, strict=True):
        bar = Rectangle((bars, y - 5), _BAR * share, 10, label="weight")
        bar.set(facecolor=COLOURS["neutral"], edgecolor="none")
        figure.axes[0].add_patch(bar)
    return figure
