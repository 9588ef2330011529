"""Heat maps next to one another, with the same colours and labels on both sides."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE, text_size
from attentively.analysis.plots import COLOURS, WEIGHTS_MAP, WHITE_INK_FROM

_WIDTH = 278.0  # points
_APART = 10.0  # from the labels of one map to the title of the next, in points


def heat_maps(
    panels: Mapping[str, Float[Tensor, "rows columns"]],
    rows: Mapping[str, Sequence[str]] | Sequence[str],
    columns: Mapping[str, Sequence[str]] | Sequence[str],
    *,
    across: int = 1,
    values: bool = False,
    gold: AbstractSet[tuple[int, int]] = frozenset(),
    xlabel: str = "",
    ylabel: str = "",
) -> Figure:
    """Draw matrices of values from 0 to 1 by their titles, `across` of them next to one another.

    `rows` and `columns` are the labels of all panels, or by title of each. With `values` each cell
    shows its value. `gold` links, pairs (column, row) counted from 0, are outlined in every panel,
    and the columns, which are then words, are labelled vertically. Raises `ValueError` where labels
    and cells differ in number, and for a link outside a matrix.
    """
    if not panels:
        raise ValueError("heat_maps needs a matrix, and got none")
    sides = {
        title: tuple(
            list(side[title]) if isinstance(side, Mapping) else list(side)
            for side in (rows, columns)
        )
        for title in panels
    }
    for title, matrix in panels.items():
        expected = tuple(map(len, sides[title]))
        if tuple(matrix.shape) != expected:
            raise ValueError(
                f"{title!r} of shape {tuple(matrix.shape)} does not fit {expected[0]} row labels "
                f"and {expected[1]} column labels"
            )
        for column, row in gold:
            if not (0 <= column < expected[1] and 0 <= row < expected[0]):
                raise ValueError(f"gold link {(column, row)} lies outside {title!r} of {expected}")
    down = -(-len(panels) // across)
    margin = max(text_size(label)[0] for side in sides.values() for label in side[0]) + 20
    cell = (_WIDTH / across - margin) / max(matrix.shape[1] for matrix in panels.values())
    line = 19.0 if values else cell
    if gold:
        line = min(cell, 1.5 * FONT_SIZE)
    heights = [line * matrix.shape[0] for matrix in panels.values()]
    labels = [label for side in sides.values() for label in side[1]]
    below = 13.0 * max(label.count("\n") + 1 for label in labels)
    if gold:
        below = max(text_size(label)[0] for label in labels)
    apart = (down - 1) * _APART
    height = sum(heights[::across]) + down * (34 + below) + apart + 14
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    figure.set_layout_engine("constrained", hspace=apart / height)
    for number, (title, matrix) in enumerate(panels.items()):
        ax = figure.add_subplot(down, across, number + 1)
        shown = matrix.detach().float().cpu()
        ax.imshow(shown.numpy(), cmap=WEIGHTS_MAP, vmin=0, vmax=1, aspect="auto")
        for i, row in enumerate(shown.tolist() if values else []):
            for j, value in enumerate(row):
                colour = "white" if value > WHITE_INK_FROM else "black"
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour)
        names, heads = sides[title]
        ax.set_yticks(range(len(names)), names)
        ax.set_xticks(range(len(heads)), heads, rotation=90 if gold else 0)
        for link in sorted(gold):
            box = Rectangle((link[0] - 0.5, link[1] - 0.5), 1, 1, fill=False, zorder=3)
            box.set(edgecolor=COLOURS["gold"], linewidth=1.4)
            box.set_path_effects([withStroke(linewidth=2.8, foreground="white")])
            ax.add_patch(box)
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.tick_params(length=0)
        ax.grid(visible=False)
        ax.spines[:].set(visible=True, color=COLOURS["neutral"])
        if number % across == 0:
            ax.set_ylabel(ylabel)
        if number >= len(panels) - across:
            ax.set_xlabel(xlabel)
    return figure
