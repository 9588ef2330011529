"""Diagrams: nodes joined by arrows, described by data.

Positions and sizes are in points (1/72 inch), as font sizes are, so the geometry of a diagram is
known before it is drawn: nodes do not overlap, and an arrow ends at the border of its node.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Patch
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from attentively.analysis.plots import COLOURS

FONT_SIZE = 10.0
"""Size of the text in figures, in points."""

WIDTH = 290.0
"""Width, in points, up to which the text of a figure has 11 pixels or more on a phone."""

INK, PAPER = "black", "white"
_RISE = 0.36 * FONT_SIZE  # from the baseline of a line to the middle of its tall letters
_LINE, _BOLD_LINE = 1.2, 3.0
_PADDING = 5.0  # between the text of a box and its border
_GAP = 2.0  # between the border of a node and the tip of an arrow
_MARGIN = 4.0
_CORNER = 4.0  # radius of the corners of a box

Point = tuple[float | int, float | int]
Shape = Literal["box", "circle", "text", "frame"]


@dataclass(frozen=True)
class Node:
    """A box, a circle or a plain text, centred at a point.

    `role` is a key of `plots.COLOURS`; without it the node is black. A ``"frame"`` is a dashed
    rectangle behind other nodes, with its text in the upper left corner; it needs a `size`, and
    the other shapes get theirs from the text unless one is given. Raises `ValueError` for an
    unknown role or shape, and for a frame without a size.
    """

    text: str
    at: Point
    role: str | None = None
    shape: Shape = "box"
    filled: bool = False
    bold: bool = False
    size: Point | None = None

    def __post_init__(self) -> None:
        _check_role(self.role)
        if self.shape not in get_args(Shape):
            raise ValueError(f"shape={self.shape!r} is unknown: choose of {get_args(Shape)}")
        if self.shape == "frame" and self.size is None:
            raise ValueError(f"the frame {self.text!r} needs a size")

    @property
    def extent(self) -> Point:
        """Width and height of the node."""
        if self.size is not None:
            return self.size
        width, height = text_size(self.text, bold=self.bold)
        if self.shape == "text":
            return width, height
        if self.shape == "circle":
            diameter = max(16.0, math.hypot(width, height) if self.text else 0.0)
            return diameter, diameter
        return width + 2 * _PADDING, height + 2 * _PADDING

    def border(self, towards: Point) -> Point:
        """Return where the line from the centre towards a point leaves the node, and a gap more.

        A box whose width or height reaches as far as the point is left at a right angle.
        """
        (x, y), (width, height) = self.at, self.extent
        dx, dy = towards[0] - x, towards[1] - y
        length = math.hypot(dx, dy)
        if length == 0:
            raise ValueError(f"an arrow has no direction: it leads from {self.at} to itself")
        if self.shape == "circle":
            reach = width / 2 + _GAP
            return x + dx / length * reach, y + dy / length * reach
        across, up = width / 2 + _GAP, height / 2 + _GAP
        if abs(dx) <= width / 2 - _CORNER and abs(dy) > up:
            return towards[0], y + math.copysign(up, dy)
        if abs(dy) <= height / 2 - _CORNER and abs(dx) > across:
            return x + math.copysign(across, dx), towards[1]
        share = min(reach / abs(step) for reach, step in ((across, dx), (up, dy)) if step)
        return x + dx * share, y + dy * share


@dataclass(frozen=True)
class Edge:
    """An arrow from one node to another, named by their keys.

    `bend` curves it: the middle is moved to the left of its direction by this share of its length.
    `via` are points where it turns. `both` puts a head on each end, ``head=False`` on none. `width`
    is that of the line, in points. Raises `ValueError` for an
    unknown role, and where an arrow has both `bend` and `via`.
    """

    start: str
    end: str
    role: str | None = "neutral"
    label: str = ""
    bend: float = 0.0
    via: Sequence[Point] = ()
    bold: bool = False
    dashed: bool = False
    both: bool = False
    head: bool = True
    width: float | None = None

    def __post_init__(self) -> None:
        _check_role(self.role)
        if self.bend and self.via:
            raise ValueError(f"the arrow from {self.start!r} to {self.end!r} has bend and via")


def text_size(text: str, size: float = FONT_SIZE, bold: bool = False) -> Point:
    """Return the width and height of a text of one or more lines, in points."""
    return _text_size(text, size, bold, tuple(mpl.rcParams["font.family"]))


@functools.cache
def _text_size(text: str, size: float, bold: bool, family: tuple[str, ...]) -> Point:
    font = FontProperties(family=list(family), size=size, weight="bold" if bold else "normal")
    lines = text.split("\n")
    drawn = [TextPath((0, 0), line, prop=font).get_extents() for line in lines if line]
    heights = [max(1.2 * size, extent.height + 0.2 * size) for extent in drawn]
    return max((extent.width for extent in drawn), default=0.0), sum(heights)


def diagram(nodes: Mapping[str, Node], edges: Sequence[Edge] = ()) -> Figure:
    """Draw nodes and the arrows between them, in a figure as large as they need.

    Raises `ValueError` for an arrow to a node that is not there, and where two nodes overlap.
    """
    if not nodes:
        raise ValueError("a diagram needs a node, and got none")
    for edge in edges:
        for name in (edge.start, edge.end):
            if name not in nodes:
                raise ValueError(
                    f"an arrow leads from {edge.start!r} to {edge.end!r}, but there is no node "
                    f"{name!r}; there are {', '.join(map(repr, nodes))}"
                )
    _check_apart(nodes)
    lines = [_line(nodes[edge.start], nodes[edge.end], edge) for edge in edges]
    ax = canvas(
        [corner for node in nodes.values() for corner in _corners(node)]
        + [(x, y) for line in lines for x, y in line]
    )
    for name, node in nodes.items():
        _draw_node(ax, name, node)
    for edge, line in zip(edges, lines, strict=True):
        _draw_edge(ax, edge, line)
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return figure


def canvas(points: Sequence[Point]) -> Axes:
    """Return axes without frame or ticks, in points, that hold these points and a margin."""
    left, bottom = (min(p[i] for p in points) - _MARGIN for i in (0, 1))
    right, top = (max(p[i] for p in points) + _MARGIN for i in (0, 1))
    figure = Figure(figsize=((right - left) / 72, (top - bottom) / 72), layout="constrained")
    figure.set_layout_engine("none")  # without one, saving would bring the default back
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(left, right), ylim=(bottom, top))
    ax.axis("off")
    return ax


def _check_role(role: str | None) -> None:
    if role is not None and role not in COLOURS:
        raise ValueError(f"role={role!r} is unknown: choose of {', '.join(COLOURS)}")


def _corners(node: Node) -> tuple[Point, Point]:
    """Return the lower left and the upper right corner."""
    (x, y), (width, height) = node.at, node.extent
    return (x - width / 2, y - height / 2), (x + width / 2, y + height / 2)


def _check_apart(nodes: Mapping[str, Node]) -> None:
    solid = {name: _corners(node) for name, node in nodes.items() if node.shape != "frame"}
    for (one, a), (other, b) in itertools.combinations(solid.items(), 2):
        if all(a[0][i] < b[1][i] and b[0][i] < a[1][i] for i in (0, 1)):
            raise ValueError(
                f"the nodes {one!r} at {nodes[one].at} and {other!r} at {nodes[other].at} overlap"
            )


def _line(start: Node, end: Node, edge: Edge) -> list[Point]:
    """Return the points of an arrow, from border to border; the middle one pulls a bent arrow."""
    if edge.via:
        return [start.border(edge.via[0]), *edge.via, end.border(edge.via[-1])]
    (x0, y0), (x1, y1) = start.at, end.at
    if edge.bend:
        pull = (
            (x0 + x1) / 2 - 2 * edge.bend * (y1 - y0),
            (y0 + y1) / 2 + 2 * edge.bend * (x1 - x0),
        )
        return [start.border(pull), pull, end.border(pull)]
    # The wider node first: where it is left at a right angle, the other is met there.
    if start.extent[0] >= end.extent[0]:
        leave = start.border(end.at)
        return [leave, end.border(leave)]
    meet = end.border(start.at)
    return [start.border(meet), meet]


def _draw_node(ax: Axes, name: str, node: Node) -> None:
    colour = INK if node.role is None else COLOURS[node.role]
    (x, y), (width, height) = node.at, node.extent
    corner = (x - width / 2, y - height / 2)
    patch: Patch
    if node.shape == "circle":
        patch = Circle(node.at, width / 2)
    else:
        style = "square,pad=0" if node.shape == "frame" else f"round,pad=0,rounding_size={_CORNER}"
        patch = FancyBboxPatch(corner, width, height, boxstyle=style)
    face = colour if node.filled else PAPER
    patch.set(edgecolor=colour, facecolor=face, linewidth=1.6, label=name, zorder=3)
    if node.shape == "frame":
        patch.set(facecolor="none", linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
        at = (corner[0] + 5, corner[1] + height - 4)
        ax.text(*at, node.text, color=colour, fontsize=FONT_SIZE, va="top")
    if node.shape != "text":
        ax.add_patch(patch)
    if node.shape == "frame":
        return
    # Words in a row have one baseline, whatever their letters.
    one_line = "\n" not in node.text
    ax.text(
        x,
        y - _RISE if one_line else y,
        node.text,
        color=PAPER if node.filled else colour,
        fontsize=FONT_SIZE,
        fontweight="bold" if node.bold else "normal",
        linespacing=1.2,
        ha="center",
        va="baseline" if one_line else "center",
        zorder=4,
    )


def _draw_edge(ax: Axes, edge: Edge, line: Sequence[Point]) -> None:
    colour = INK if edge.role is None else COLOURS[edge.role]
    arrow = FancyArrowPatch(
        path=Path(line, [Path.MOVETO, Path.CURVE3, Path.CURVE3] if edge.bend else None),
        arrowstyle="<|-|>" if edge.both else "-|>" if edge.head else "-",
        mutation_scale=10 if edge.bold else 7,
        color=colour,
        linewidth=edge.width or (_BOLD_LINE if edge.bold else _LINE),
        linestyle=(0, (3, 2)) if edge.dashed else "-",
        fill=True,
        joinstyle="miter",
        capstyle="butt",
        label=f"{edge.start} → {edge.end}",
        zorder=2.5 if edge.bold else 2,
    )
    ax.add_patch(arrow)
    if edge.label:
        x, y = _middle(line, edge.bend != 0)
        box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}
        ax.text(x, y, edge.label, color=colour, fontsize=FONT_SIZE, ha="center", va="center",
                bbox=box, zorder=2.8)  # fmt: skip


def _middle(line: Sequence[Point], bent: bool) -> Point:
    """Return the point halfway along an arrow."""
    if bent:
        (x0, y0), (x1, y1), (x2, y2) = line
        return (x0 + 2 * x1 + x2) / 4, (y0 + 2 * y1 + y2) / 4
    left = sum(itertools.starmap(math.dist, itertools.pairwise(line))) / 2
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        step = math.hypot(x1 - x0, y1 - y0)
        if step >= left:
            return x0 + left / step * (x1 - x0), y0 + left / step * (y1 - y0)
        left -= step
    raise AssertionError("half of a length is within it")
