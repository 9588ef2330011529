"""Trees: the hypotheses of a search, and the merges of a tokenizer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import Edge, Node, diagram, text_size


@dataclass(frozen=True)
class Branch:
    """A node of a tree: its text, the label of the line that leads to it, and what follows.

    `note` is written to the right of a leaf. `role` marks the branch and the line that leads to it.
    """

    text: str
    label: str = ""
    children: Sequence["Branch"] = ()
    role: str | None = None
    note: str = ""


def tree(root: Branch) -> Figure:
    """Draw a tree from left to right, a line for each leaf."""
    widths: dict[int, float] = {}
    labels: dict[int, float] = {}
    _measure(root, 0, widths, labels)
    lefts = {0: 0.0}
    for depth in sorted(widths)[1:]:
        gap = 24.0 + labels.get(depth, 0.0)
        lefts[depth] = lefts[depth - 1] + widths[depth - 1] + gap
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    _place(root, "0", 0, 0.0, lefts, widths, nodes, edges)
    return diagram(nodes, edges)


def _measure(
    branch: Branch, depth: int, widths: dict[int, float], labels: dict[int, float]
) -> None:
    widths[depth] = max(widths.get(depth, 0.0), text_size(branch.text)[0] + 12)
    labels[depth] = max(labels.get(depth, 0.0), text_size(branch.label)[0])
    for child in branch.children:
        _measure(child, depth + 1, widths, labels)


def _place(
    branch: Branch,
    name: str,
    depth: int,
    top: float,
    lefts: Mapping[int, float],
    widths: Mapping[int, float],
    nodes: dict[str, Node],
    edges: list[Edge],
) -> tuple[float, float]:
    """Add a branch below a height; return the height of its node, and where the next begins."""
    heights = []
    y = top
    for number, child in enumerate(branch.children):
        height, y = _place(child, f"{name}.{number}", depth + 1, y, lefts, widths, nodes, edges)
        heights.append(height)
    if not branch.children:
        heights, y = [top], top - 34.0
    at = sum(heights) / len(heights)
    role = branch.role or "neutral"
    nodes[name] = Node(branch.text, (lefts[depth] + widths[depth] / 2, at), role)
    if branch.note:
        left = lefts[depth] + widths[depth] + 8
        text = Node(branch.note, (left + text_size(branch.note)[0] / 2, at), branch.role, "text")
        nodes[f"{name} note"] = text
    for number, child in enumerate(branch.children):
        edges.append(
            Edge(
                name,
                f"{name}.{number}",
                child.role or "neutral",
                label=child.label,
                width=2.6 if child.role else None,
            )
        )
    return at, y
