"""Images with outlines or attention weights, and the model that captions them."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, zeros

from attentively.analysis.figures.diagram import FONT_SIZE, Edge, Node, diagram
from attentively.analysis.plots import COLOURS, LINES, WEIGHTS_MAP

_WIDTH = 278.0  # points
_TITLE = 22.0  # points above an image, for its title
_PALEST_DARK = 1.3  # a weight of 1 is not so dark that black ink disappears on it

Box = tuple[int, int, int, int]
"""Top, left, bottom and right in pixels; the last row and column are outside, as in a slice."""


def image_panels(
    panels: Mapping[str, Float[Tensor, "height width"]],
    *,
    cell: int,
    across: int = 2,
    outlines: Mapping[str, Sequence[Box]] | None = None,
) -> Figure:
    """Draw grey images by their titles: 0 is white and 1 is black.

    Thin lines mark a grid with `cell` pixels between neighbouring lines, and `outlines` are
    rectangles on the image of that title. Raises `ValueError` where there is no image, and for the
    outlines of a title without one.
    """
    if not panels:
        raise ValueError("image_panels needs an image, and got none")
    if unknown := [title for title in outlines or {} if title not in panels]:
        raise ValueError(f"there is no image {unknown[0]!r}; there are {', '.join(panels)}")
    figure, all_axes = _grid([tuple(image.shape) for image in panels.values()], across)
    for ax, (title, image) in zip(all_axes, panels.items(), strict=True):
        height, width = image.shape
        shown = image.detach().float().cpu().numpy()
        ax.imshow(
            shown,
            cmap="gray_r",
            vmin=0,
            vmax=1,
            extent=(0, width, height, 0),
            interpolation="nearest",
        )
        dashes = (0, (2, 2))
        grid: dict[str, Any] = {"color": COLOURS["neutral"], "lw": 0.8, "linestyle": dashes}
        ax.hlines(range(cell, height, cell), 0, width, **grid)
        ax.vlines(range(cell, width, cell), 0, height, **grid)
        for (top, left, bottom, right), (role, _, line) in zip(
            (outlines or {}).get(title, ()), LINES, strict=False
        ):
            box = Rectangle((left, top), right - left, bottom - top, label="outline")
            box.set(fill=False, edgecolor=COLOURS[role], linewidth=2.4, linestyle=line)
            ax.add_patch(box)
        finish(ax, title)
    return figure


def attention_on_image(
    image: Float[Tensor, "height width"],
    weights: Float[Tensor, "tgt_len places"],
    words: Sequence[str],
    *,
    rows: int,
    across: int = 4,
) -> Figure:
    """Draw the attention weights of each word on the image: the darker, the larger the weight.

    The weights of a word are those of a grid with so many `rows`, row by row. Raises `ValueError`
    where words and weights differ in number, and where the locations do not fill the rows.
    """
    if len(words) != len(weights):
        raise ValueError(f"{len(words)} words do not fit weights of shape {tuple(weights.shape)}")
    if weights.shape[1] % rows:
        raise ValueError(f"{weights.shape[1]} locations do not fill {rows} rows")
    height, width = image.shape
    maps = weights.detach().float().cpu().reshape(len(words), rows, -1).numpy()
    figure, all_axes = _grid([(height, width)] * len(words), across)
    for ax, word, shown in zip(all_axes, words, maps, strict=True):
        extent = (0, width, height, 0)
        ax.imshow(shown, cmap=WEIGHTS_MAP, vmin=0, vmax=_PALEST_DARK, extent=extent)
        ax.imshow(ink_layer(image).numpy(), extent=extent, interpolation="nearest")
        finish(ax, word)
    return figure


def captioner() -> Figure:
    """Draw a captioner with attention, from the image at the bottom to the next word at the top."""
    left, right = 66.0, 196.0
    nodes = {
        "image": Node("image\n24 × 36 pixels", (left, 0), "neutral"),
        "cnn": Node("convolutions,\nmax pooling", (left, 58), "encoder"),
        "map": Node("feature map\n2 × 3 locations", (left, 116), "encoder"),
        "keys": Node("annotation vectors\n$a_1, …, a_6$", (left, 174), "key"),
        "attention": Node("attention", (left, 228), "key"),
        "context": Node("context vector\n" r"$\hat{z}_t$", (left, 284), "value"),
        "state": Node("hidden state\n$h_{t-1}$", (right, 174), "query"),
        "word": Node("previous\nword", (right + 62, 228), "decoder"),
        "new": Node("new state\n$h_t$", (right, 284), "decoder"),
        "next": Node("next word", (right, 338), "decoder"),
    }
    edges = [
        Edge("image", "cnn"),
        Edge("cnn", "map", "encoder"),
        Edge("map", "keys", "encoder"),
        Edge("keys", "attention", "key"),
        Edge("state", "attention", "query", label="query"),
        Edge("attention", "context", "value"),
        Edge("context", "new", "value"),
        Edge("state", "new", "decoder"),
        Edge("word", "new", "decoder"),
        Edge("new", "next", "decoder"),
    ]
    return diagram(nodes, edges)


def _grid(shapes: Sequence[tuple[int, ...]], across: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes for images of these shapes, `across` of them in each row."""
    cell = _WIDTH / across
    tallest = max(height / width for height, width in shapes)
    down = -(-len(shapes) // across)
    height = down * ((cell - 10) * tallest + _TITLE)
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    return figure, [figure.add_subplot(down, across, i + 1) for i in range(len(shapes))]


def ink_layer(
    image: Float[Tensor, "height width"], opacity: float = 1.0
) -> Float[Tensor, "height width 4"]:
    """Return an image as a layer: black, and transparent where there is no ink."""
    layer = zeros(*image.shape, 4)
    layer[..., 3] = opacity * image.detach().float().cpu()
    return layer


def finish(ax: Axes, title: str) -> None:
    """Write the title of an image, and frame it without ticks."""
    ax.set_title(title, fontsize=FONT_SIZE)
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    ax.spines[:].set(visible=True, color=COLOURS["neutral"])
