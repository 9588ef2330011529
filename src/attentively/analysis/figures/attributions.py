"""Images with a value for each cell of a grid, such as attention weights or attributions."""

from collections.abc import Collection, Mapping

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.figures.images import finish, ink_layer
from attentively.analysis.plots import WEIGHTS_MAP

_WIDTH = 282.0  # points
_SIGNED_MAP = "RdBu"
_INK = 0.6  # opacity of the image, so that the values stay legible


def attribution_maps(
    images: Mapping[str, Float[Tensor, "height width"]],
    values: Mapping[str, Float[Tensor, "rows columns"]],
    *,
    signed: Collection[str] = (),
    across: int = 2,
) -> Figure:
    """Draw images by their titles, `across` of them in a line, with the value of each cell.

    An image contains ink from 0 (paper) to 1; the cells of `values` divide it evenly. Colours are
    those of attention weights from 0 to 1. For titles in `signed` they are blue above 0 and red
    below, relative to the largest absolute value of all of them. An image without values is drawn
    alone.

    Raises `ValueError` without images, for values without an image, and where the cells do not
    divide their image evenly.
    """
    if not images:
        raise ValueError("attribution_maps needs an image, and got none")
    if unknown := [title for title in [*values, *signed] if title not in images]:
        raise ValueError(f"no image has the title {unknown[0]!r}; there are {list(images)}")
    for title, cells in values.items():
        shape, grid = tuple(images[title].shape), tuple(cells.shape)
        if any(pixels % number for pixels, number in zip(shape, grid, strict=True)):
            raise ValueError(f"{title!r}: values of shape {grid} do not divide an image of {shape}")
    down = -(-len(images) // across)
    tallest = max(image.shape[0] / image.shape[1] for image in images.values())
    lines = 1 + max(title.count("\n") for title in images)
    height = down * (_WIDTH / across * tallest + 8 + 14 * lines)
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    limit = max((values[title].abs().max().item() for title in signed), default=0.0) or 1.0
    for number, (title, image) in enumerate(images.items()):
        ax = figure.add_subplot(down, across, number + 1)
        rows, columns = image.shape
        extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
        if title in values:
            cells = values[title].detach().float().cpu()
            low, high = (-1.3 * limit, 1.3 * limit) if title in signed else (0.0, 1.3)
            colours = _SIGNED_MAP if title in signed else WEIGHTS_MAP
            ax.imshow(cells.numpy(), cmap=colours, vmin=low, vmax=high, extent=extent)
        ax.imshow(ink_layer(image, _INK).numpy(), extent=extent)
        if title in values:
            tall, wide = rows / cells.shape[0], columns / cells.shape[1]
            for i, row in enumerate(cells.tolist()):
                for j, value in enumerate(row):
                    ax.text(
                        (j + 0.5) * wide - 0.5,
                        (i + 1) * tall - 1.2,
                        f"{value:z.2f}".replace("-", "−"),
                        ha="center",
                        va="bottom",
                        fontsize=FONT_SIZE,
                        color="black",
                        path_effects=[withStroke(linewidth=3, foreground="white")],
                    )
        finish(ax, title)
    return figure
