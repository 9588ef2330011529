"""Positional encodings: as clock hands, as a heat map, and as curves over the positions."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE, text_size
from attentively.analysis.plots import COLOURS, LINES, WEIGHTS_MAP
from attentively.attention.positional import position_angles

_WIDTH = 278.0  # points
_LEFT = 44.0  # points for the names of the hands
_SIZE = (3.9, 2.7)  # inches: the text has 11 pixels or more on a phone


def clock_hands(positions: Sequence[int], d_model: int) -> Figure:
    """Draw the pairs of sinusoidal encodings as clock hands, a row for each pair.

    Each column is a position. A hand points to (sine, cosine) of its angle: upwards at position 0,
    and it turns clockwise. Raises `ValueError` without positions and for an odd `d_model`.
    """
    if not positions:
        raise ValueError("clock_hands needs a position, and got none")
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model={d_model} does not split into pairs: it must be even")
    pairs = d_model // 2
    cell = (_WIDTH - _LEFT) / len(positions)
    height = cell * pairs + 34
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    figure.set_layout_engine("none")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, _WIDTH), ylim=(height, 0), aspect="equal")
    ax.axis("off")
    radius = 0.42 * cell
    middle = _LEFT + cell * len(positions) / 2
    ax.text(middle, 8, "position", ha="center", va="center", fontsize=FONT_SIZE)
    for pair in range(pairs):
        y = 34 + cell * (pair + 0.5)
        ax.text(0, y, f"hand {pair}", ha="left", va="center", fontsize=FONT_SIZE)
    for column, position in enumerate(positions):
        x = _LEFT + cell * (column + 0.5)
        ax.text(x, 24, f"{position}", ha="center", va="center", fontsize=FONT_SIZE)
        for pair, angle in enumerate(position_angles(1, d_model, first=position)[0]):
            y = 34 + cell * (pair + 0.5)
            tip = (x + radius * float(angle.sin()), y - radius * float(angle.cos()))
            face = Circle((x, y), radius, fill=False, color=COLOURS["neutral"], linewidth=1)
            ax.add_patch(face)
            blue = COLOURS["query"]
            ax.plot((x, tip[0]), (y, tip[1]), color=blue, linestyle="-", linewidth=2.2)
            ax.plot(x, y, "o", color=blue, markersize=3)
    return figure


def encoding_heat_map(encodings: Float[Tensor, "length d_model"]) -> Figure:
    """Draw encodings with entries from -1 to 1 as a heat map: a row for each position."""
    figure = Figure(figsize=(_WIDTH / 72, 3.6), layout="constrained")
    ax = figure.add_subplot()
    image = ax.imshow(
        encodings.detach().float().cpu().numpy(),
        aspect="auto",
        cmap=WEIGHTS_MAP,
        vmin=-1,
        vmax=1,
        interpolation="nearest",
    )
    ax.set(xlabel="component", ylabel="position")
    ax.grid(visible=False)
    ax.spines[:].set(visible=True, color=COLOURS["neutral"])
    figure.colorbar(image, ax=ax, label="value", ticks=[-1, 0, 1], location="top", aspect=30)
    return figure


def position_curves(
    curves: Mapping[str, Float[Tensor, " length"]],
    *,
    first: int = 0,
    marked: Sequence[int] = (),
    xlabel: str = "position",
    ylabel: str = "",
) -> Figure:
    """Draw a line for each name over the positions from `first` on.

    The lines have a marker at the positions in `marked`. Raises `ValueError` without lines, for
    more lines than there are styles, and for a marked position that a line does not have.
    """
    if not 0 < len(curves) <= len(LINES):
        raise ValueError(f"1 to {len(LINES)} lines can be drawn, not {len(curves)}")
    figure = Figure(figsize=_SIZE, layout="constrained")
    ax = figure.add_subplot()
    for (name, values), (role, marker, style) in zip(curves.items(), LINES, strict=False):
        at = torch.arange(first, first + len(values))
        if missing := [position for position in marked if position not in at]:
            raise ValueError(f"{name!r} has no value at the marked position {missing[0]}")
        points = [position - first for position in marked]
        shown = values.detach().float().cpu()
        ax.plot(at, shown, color=COLOURS[role], linestyle=style, label=name)
        ax.plot(at[points], shown[points], marker, color=COLOURS[role], linestyle="none")
    if marked:
        ax.set_xticks([first, *marked])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    entry = max(text_size(name)[0] for name in curves) + 40
    figure.legend(
        loc="outside upper left",
        ncols=max(1, int(250 // entry)),
        fontsize=FONT_SIZE,
        handlelength=2.6,
    )
    return figure
