"""Curves over seeds, from the rows of a results file."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.plots import COLOURS, LINES
from attentively.analysis.tables import Condition, Key, Row, _expanded, _values

_SIZE = (3.9, 3.0)  # inches: the text has 11 pixels or more on a phone


def seed_curves(
    rows: Iterable[Row],
    *,
    x: Key,
    y: Key,
    by: Key,
    each: str = "",
    names: Mapping[Any, str] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    seen: Key | None = None,
    mark: float | int | None = None,
    mark_text: str = "longer than\nin training",
    xscale: str = "linear",
    yscale: str = "linear",
) -> Figure:
    """Draw a quantity against another: for each condition the mean of its seeds and their range.

    The line is the mean, the band reaches from the worst seed to the best. `x`, `y` and `by` are
    keys of the rows, or functions of a row; `each` names a key that holds a list of rows, as in
    `tables.show`. `names` gives the label for each value of `by`, and their order; rows with other
    values are left out.

    `mark` is a value of x to the right of which `mark_text` holds. With `seen`, a key that is true
    of the rows whose x occurs in training, the mark is halfway between these and the others.

    Raises `ValueError` where there are no rows, a row lacks a key, one condition has several
    values of a seed at one x, or the values that were seen do not lie left of the others.
    """
    given = _expanded(list(rows), each)
    if not given:
        raise ValueError("there are no rows to draw")
    read = {
        what: _values(given, Condition(key, what))
        for what, key in (("x", x), ("y", y), ("by", by), ("seen", seen))
        if key is not None
    }
    if seen is not None:
        mark = _boundary(read["x"], read["seen"])
    curves: dict[Any, dict[float, dict[Any, float]]] = {name: {} for name in names or ()}
    for row, at, value, name in zip(given, read["x"], read["y"], read["by"], strict=True):
        if names is not None and name not in names:
            continue
        seeds = curves.setdefault(name, {}).setdefault(at, {})
        seed = row.get("seed")
        if seeds.setdefault(seed, value) != value:
            raise ValueError(
                f"{name!r} has several values for seed {seed} at x={at}, such as {seeds[seed]} and "
                f"{value}: choose rows, or another by="
            )
    if empty := [name for name, curve in curves.items() if not curve]:
        raise ValueError(f"no row belongs to {empty[0]!r}; there are {set(read['by'])}")

    figure = Figure(figsize=_SIZE, layout="constrained")
    ax = figure.add_subplot()
    ax.set(xscale=xscale, yscale=yscale, xlabel=xlabel, ylabel=ylabel)
    for (name, curve), (role, marker, line) in zip(curves.items(), cycle(LINES)):
        label = str(name) if names is None else names[name]
        at = sorted(curve)
        seeds_at = [list(curve[x].values()) for x in at]
        ax.plot(
            at,
            [sum(seeds) / len(seeds) for seeds in seeds_at],
            color=COLOURS[role],
            marker=marker if len(at) <= 12 else None,
            linestyle=line,
            label=label,
        )
        low, high = [min(seeds) for seeds in seeds_at], [max(seeds) for seeds in seeds_at]
        ax.fill_between(at, low, high, color=COLOURS[role], alpha=0.2, linewidth=0)
    if yscale == "linear" and min(read["y"]) >= 0:
        ax.set_ylim(bottom=0)
    lines = 0
    if mark is not None:
        _draw_mark(ax, mark, mark_text)
        lines = mark_text.count("\n") + 1
    above = ScaledTranslation(0, (4 + lines * 1.25 * FONT_SIZE) / 72, figure.dpi_scale_trans)
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=ax.transAxes + above,
        ncols=2,
        fontsize=FONT_SIZE,
        borderaxespad=0,
        handlelength=2.6,
        columnspacing=1.4,
    )
    return figure


def _boundary(at: Sequence[float | int], seen: Sequence[bool]) -> float:
    """Return the value halfway between what was seen in training and what was not."""
    known = [x for x, was in zip(at, seen, strict=True) if was]
    unknown = [x for x, was in zip(at, seen, strict=True) if not was]
    if not known or not unknown or max(known) >= min(unknown):
        raise ValueError("a mark needs rows that were seen in training and, right of them, others")
    return (max(known) + min(unknown)) / 2


def _draw_mark(ax: Axes, mark: float | int, text: str) -> None:
    grey = COLOURS["neutral"]
    ax.axvline(mark, color=grey, linestyle=(0, (4, 3)), linewidth=1.2)
    ax.annotate(
        text,
        (mark, 1),
        (0, 3),
        xycoords=ax.get_xaxis_transform(),
        textcoords="offset points",
        color=grey,
        fontsize=FONT_SIZE,
        va="bottom",
    )
