"""Word vectors: the lookup, the words that skip-gram trains on, and a map of words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Affine2D, Bbox
from torch import Tensor

from attentively.analysis.figures.diagram import (
    FONT_SIZE,
    PAPER,
    Edge,
    Node,
    canvas,
    diagram,
    text_size,
)
from attentively.analysis.plots import COLOURS

_ROW = 21.0  # height of a row of a matrix, in points
_ONE_HOT, _WIDE = 14.0, 22.0  # width of a column of one-hot vectors, and of other values
_BESIDE = 6.0  # between a matrix and the labels of its rows
_ROLES = ("query", "key", "value", "decoder", "encoder", "gold", "neutral")
_MARKERS = "os^DvPX"
_FAR = 12.0  # distance from which a line joins a label and its point
_STRAIGHT = ((1, 0), (-1, 0), (0, 1.4), (0, -1.4))
_SLANTED = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_BETWEEN = tuple((x, y) for x in (-1, 1) for y in (-0.5, 0.5))


# The lookup


def embedding_lookup(
    words: Sequence[str], ids: Int[Tensor, " len"], table: Float[Tensor, "vocab embedding_dim"]
) -> Figure:
    """Draw one-hot vectors times an embedding table, with a colour for each word.

    `words` are the vocabulary, `ids` those of a sentence. Raises `ValueError` where words and rows
    differ in number, for more words than there are colours, and for an id outside the vocabulary.
    """
    sentence = ids.tolist()
    if len(words) != len(table):
        raise ValueError(f"{len(words)} words do not fit a table of {len(table)} rows")
    if len(words) > len(_ROLES):
        raise ValueError(f"{len(words)} words, but there are {len(_ROLES)} colours")
    if not all(0 <= one < len(words) for one in sentence):
        raise ValueError(f"the ids {sentence} do not all belong to {len(words)} words")
    roles = ("neutral", *(role for role in _ROLES if role != "neutral"))  # padding is grey
    colours = [COLOURS[role] for role in roles[: len(words)]]
    rows = [[f"{value:g}".replace("-", "−") for value in row] for row in table.tolist()]
    one_hot = [["1" if i == one else "0" for i in range(len(words))] for one in sentence]
    labels = [words[one] for one in sentence]
    own = [colours[one] for one in sentence]
    dim = table.size(1)

    margin = max(text_size(word)[0] for word in words) + _BESIDE
    first = margin
    second = first + _ONE_HOT * len(words) + 18 + margin
    third = second + _WIDE * dim + 22
    height = _ROW * max(len(words), len(sentence))
    ax = canvas([(0, 22), (third + _WIDE * dim, -height)])
    _draw_matrix(ax, first, _ONE_HOT, one_hot, own, labels, "one-hot vectors $X$", fill="1")
    _draw_matrix(ax, second, _WIDE, rows, colours, words, "table $E$")
    _draw_matrix(ax, third, _WIDE, [rows[one] for one in sentence], own, (), "$X E$")
    middle = -height / 2
    for sign, x in (("×", first + _ONE_HOT * len(words) + 9), ("=", third - 11)):
        ax.text(x, middle, sign, fontsize=14, ha="center", va="center")
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return figure


def _draw_matrix(
    ax: Axes,
    left: float,
    width: float,
    rows: Sequence[Sequence[str]],
    colours: Sequence[str],
    labels: Sequence[str],
    title: str,
    fill: str = "",
) -> None:
    """Draw a matrix with a colour for each row; cells with the text `fill` are filled."""
    for i, (row, colour) in enumerate(zip(rows, colours, strict=True)):
        y = -_ROW * (i + 0.5)
        if labels:
            ax.text(left - _BESIDE, y, labels[i], color=colour, ha="right", va="center")
        for j, text in enumerate(row):
            filled = text == fill
            corner = (left + width * j, y - _ROW / 2 + 1)
            cell = Rectangle(corner, width, _ROW - 2, linewidth=1.2)
            cell.set(facecolor=colour if filled else PAPER, edgecolor=colour)
            ax.add_patch(cell)
            ink = PAPER if filled else colour
            ax.text(left + width * (j + 0.5), y, text, color=ink, ha="center", va="center")
    ax.text(left + width * len(rows[0]) / 2, 12, title, ha="center", va="center")


# The words of one step of skip-gram


def skip_gram_window(
    words: Sequence[str], centre: int, window: int, negatives: Sequence[str]
) -> Figure:
    """Draw a sentence with the context words of one centre word, and its negative samples.

    The centre is joined to each word up to `window` positions away, and by dashed arrows to the
    negative samples. Raises `ValueError` for a centre outside the sentence.
    """
    if not 0 <= centre < len(words):
        raise ValueError(f"centre={centre} lies outside a sentence of {len(words)} words")
    nodes: dict[str, Node] = {}
    edges = []
    right = 0.0
    for i, word in enumerate(words):
        near = 0 < abs(i - centre) <= window
        role = "query" if i == centre else "value" if near else "neutral"
        shape = Node(word, (0, 0), role, bold=i == centre)
        right += shape.extent[0] / 2
        nodes[f"word {i}"] = Node(word, (right, 0), role, filled=i == centre, bold=i == centre)
        right += shape.extent[0] / 2 + 9
    at = nodes[f"word {centre}"].at[0]
    step = (nodes[f"word {centre}"].extent[0] / 2 - 6) / window
    for i in range(len(words)):
        if 0 < abs(i - centre) <= window:
            near_x, far = nodes[f"word {i}"].at[0], abs(i - centre)
            height = 18.0 + 12 * far
            # Arrows to words on one side leave the centre at different points.
            start = at + math.copysign(step * (window + 1 - far), i - centre)
            edges.append(Edge(f"word {centre}", f"word {i}", "value",
                              via=[(start, height), (near_x, height)]))  # fmt: skip
    total = sum(Node(word, (0, 0)).extent[0] + 12 for word in negatives) - 12
    left = at - total / 2
    for i, word in enumerate(negatives):
        box = Node(word, (0, 0), "gold")
        nodes[f"negative {i}"] = Node(word, (left + box.extent[0] / 2, -52), "gold")
        left += box.extent[0] + 12
        edges.append(Edge(f"word {centre}", f"negative {i}", "gold", dashed=True))
    ends = (min(node.at[0] - node.extent[0] / 2 for node in nodes.values()),
            max(node.at[0] + node.extent[0] / 2 for node in nodes.values()))  # fmt: skip
    top = 18.0 + 12 * window + 12
    for name, text, role, y in (
        ("above", "context words: the score should be high", "value", top),
        ("below", "negative samples: the score should be low", "gold", -76.0),
    ):
        nodes[name] = Node(text, ((ends[0] + ends[1]) / 2, y), role, "text")
    return diagram(nodes, edges)


# The map


def word_map(
    points: Float[Tensor, "words 2"], groups: Mapping[str, Sequence[str]], axes: str = "axis"
) -> Figure:
    """Draw words as labelled points in a plane, with a colour and a marker for each group.

    `groups` has the words by the name of their group, in the order of `points`; `axes` names both
    axes. Each label is put at the nearest free location next to its point. Raises `ValueError`
    where points and words differ in number, and for more groups than there are colours.
    """
    words = [word for group in groups.values() for word in group]
    if len(words) != len(points):
        raise ValueError(f"{len(points)} points do not fit {len(words)} words")
    if len(groups) > len(_ROLES):
        raise ValueError(f"{len(groups)} groups, but there are {len(_ROLES)} colours")
    figure = Figure(figsize=(3.9, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    places = [(float(x), float(y)) for x, y in points.tolist()]
    colours: list[str] = []
    start = 0
    for (name, group), role, marker in zip(
        groups.items(), cycle(_ROLES), cycle(_MARKERS), strict=False
    ):
        own = places[start : start + len(group)]
        start += len(group)
        x, y = zip(*own, strict=True)
        ax.scatter(x, y, s=22, color=COLOURS[role], marker=marker, label=name)
        colours += [COLOURS[role]] * len(group)
    ax.set(xlabel=f"{axes} 1", ylabel=f"{axes} 2")
    ax.margins(0.14, 0.06)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=FONT_SIZE,
              borderaxespad=0.2, handletextpad=0.2, columnspacing=1.0)  # fmt: skip
    figure.canvas.draw()  # settles where the points are
    figure.set_layout_engine("none")
    scale = figure.dpi / 72  # pixels of a point
    spots = ax.transData.transform(places) / scale
    frame = ax.get_window_extent().transformed(Affine2D().scale(1 / scale)).padded(-3)
    sizes = np.array([text_size(word) for word in words])
    for i, shift in enumerate(_label_shifts(spots, sizes, frame)):
        across = "center" if shift[0] == 0 else "left" if shift[0] > 0 else "right"
        ax.annotate(words[i], places[i], shift, textcoords="offset points", ha=across,
                    va="center", color=colours[i])  # fmt: skip
        if math.hypot(*shift) > _FAR:  # a line says to which point it belongs
            line = {"arrowstyle": "-", "color": colours[i], "linewidth": 0.7, "shrinkA": 7.0}
            ax.annotate("", places[i], shift, textcoords="offset points", arrowprops=line)
    return figure


def _label_shifts(spots: np.ndarray, sizes: np.ndarray, frame: Bbox) -> np.ndarray:
    """Return where each label is put, relative to its point.

    Every label in turn moves to the nearest location where it and its line meet the fewest other
    labels, lines and markers, until no label moves. All values are in points.
    """
    shifts = np.array([*_shifts()])
    far = np.hypot(*shifts.T)
    half = sizes / 2
    middle = spots[:, None] + shifts + np.sign(shifts) * [1, 0] * half[:, None]
    boxes = np.concatenate([middle - half[:, None], middle + half[:, None]], axis=-1)
    steps = np.linspace(0, 1, 16)[:, None]
    grown = boxes + [-2, -1, 2, 1]  # labels keep a small distance
    lines = spots[:, None, None] + shifts[:, None] * steps * (far > _FAR)[:, None, None]
    markers = np.concatenate([spots - 4, spots + 4], axis=-1)
    outside = np.any((boxes[..., :2] < frame.min) | (boxes[..., 2:] > frame.max), axis=-1)
    chosen = np.zeros(len(spots), dtype=int)
    everyone = np.arange(len(spots))
    for _ in range(20):
        before = chosen.copy()
        for i in everyone:
            others = everyone != i
            labels, paths = boxes[everyone, chosen][others], lines[everyone, chosen][others]
            passed = markers[~_overlap(markers, markers[i])]
            met = (
                6 * outside[i]
                + 3 * _overlap(grown[i][:, None], np.concatenate([labels, markers])).sum(axis=1)
                + _contains(boxes[i][:, None], paths).sum(axis=1)
                + _contains(np.concatenate([labels, passed]), lines[i][:, None]).sum(axis=1)
            )
            chosen[i] = np.argmin(1000 * met + far)
        if (chosen == before).all():
            break
    return shifts[chosen]


def _overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return whether boxes (left, bottom, right, top) have a common area."""
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1)


def _contains(box: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return whether boxes contain any point of a line."""
    box = box[..., None, :]
    return np.all((box[..., :2] < points) & (points < box[..., 2:]), axis=-1).any(axis=-1)


def _shifts() -> Iterator[tuple[float, float]]:
    """Yield the positions of a label relative to its point, in points, the nearest first."""
    for far in (6.0, 9.0, 13.0, 18.0, 24.0, 30.0, 38.0, 46.0, 56.0, 68.0):
        for x, y in (*_STRAIGHT, *_SLANTED, *(_BETWEEN if far > _FAR else ())):
            yield far * x, far * y
