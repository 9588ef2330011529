"""One encoder, and the output layers that different tasks put on top of it."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import WIDTH, Edge, Node, diagram, text_size


class _Task(NamedTuple):
    title: str
    tokens: Sequence[str]
    head: str
    """The text in the box of the head."""
    outputs: Sequence[str]
    """One for each token, empty where there is none; a single one is for the whole text."""
    causal: bool = False


_TASKS = (
    _Task("text classification", ("we", "loved", "it"), "mean, $W$", ("positive",)),
    _Task("token classification", ("in", "New", "York"), "$W$", ("O", "B-LOC", "I-LOC")),
    _Task("span prediction", ("who?", "the", "king"), "$s, e$", ("", "start", "end")),
    _Task("masked language model", ("the", "<mask>", "drank"), "$E$", ("", "cat", "")),
    _Task("language model", ("<start>", "the", "cat"), "$E$", ("the", "cat", "drank"), True),
)
_PANEL = 128.0  # height of a panel, in points
_GAP = 12.0  # between the two columns


def task_heads() -> Figure:
    """Draw five heads: what the model reads, the encoder with its mask, the head, the output.

    Attention in both directions is blue, attention to earlier positions only is magenta.
    """
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    width = (WIDTH - 8 - _GAP) / 2
    for number, task in enumerate(_TASKS):
        row, column = divmod(number, 2)
        left, bottom = column * (width + _GAP), -_PANEL * row
        middle, step = left + width / 2, width / len(task.tokens)
        role = "decoder" if task.causal else "query"
        mask = "causal mask" if task.causal else "both directions"
        found = {
            "title": Node(
                task.title,
                (left + text_size(task.title, bold=True)[0] / 2, bottom + 98),
                shape="text",
                bold=True,
            ),
            "encoder": Node(mask, (middle, bottom + 26), role, size=(width, 18)),
        }
        arrows = []
        for j, token in enumerate(task.tokens):
            x = left + (j + 0.5) * step
            found[f"token {j}"] = Node(token, (x, bottom), shape="text")
            arrows.append(Edge(f"token {j}", "encoder"))
        whole = len(task.outputs) == 1
        for j, output in enumerate(task.outputs):
            if not output:
                continue
            x = middle if whole else left + (j + 0.5) * step
            size = (width if whole else step - 8, 16.0)
            found[f"head {j}"] = Node(task.head, (x, bottom + 54), "value", size=size)
            found[f"output {j}"] = Node(output, (x, bottom + 79), role, "text", bold=True)
            arrows += [Edge("encoder", f"head {j}"), Edge(f"head {j}", f"output {j}")]
        if whole:  # an arrow from each position to the mean
            found |= {
                f"from {j}": Node("", (left + (j + 0.5) * step, bottom + 37), shape="text")
                for j in range(len(task.tokens))
            }
            arrows = [edge for edge in arrows if edge.start != "encoder"]
            arrows += [Edge(f"from {j}", "head 0") for j in range(len(task.tokens))]
        nodes |= {f"{task.title}: {name}": node for name, node in found.items()}
        edges += [
            Edge(f"{task.title}: {edge.start}", f"{task.title}: {edge.end}") for edge in arrows
        ]
    return diagram(nodes, edges)
