"""Curves, dots and points over seeds, from the rows of a results file."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from attentively.analysis.figures.diagram import FONT_SIZE, text_size
from attentively.analysis.plots import COLOURS, LINES
from attentively.analysis.tables import Condition, Key, Row, expanded_rows, values_of

_SIZE = (3.9, 3.0)  # inches: the text has 11 pixels or more on a phone


def seed_curves(
    rows: Iterable[Row],
    *,
    x: Key,
    y: Key,
    by: Key,
    each: str = "",
    names: Mapping[Any, str] | None = None,
    panel: Key | None = None,
    xlabel: str = "",
    ylabel: str = "",
    seen: Key | None = None,
    mark: float | int | None = None,
    mark_text: str = "longer than\nin training",
    xscale: str = "linear",
    yscale: str = "linear",
) -> Figure:
    """Draw a quantity against another: for each condition the mean of its seeds and their range.

    The line is the mean, the geometric one where `yscale` is ``"log"``; the band reaches from the
    lowest seed to the highest. `x`, `y` and `by` are keys of the rows, or functions of a row;
    `each` names a key that holds a list of rows, as in `tables.show`. `names` gives the label for
    each value of `by`, and their order; rows with other values are left out. Rows that differ in
    `panel` are drawn in panels of their own, one below the other.

    `mark` is a value of x to the right of which `mark_text` holds. With `seen`, a key that is true
    of the rows whose x occurs in training, the mark is halfway between these and the others.

    Raises `ValueError` where there are no rows, a row lacks a key, one condition has several
    values of a seed at one x, or the values that were seen do not lie left of the others.
    """
    given = expanded_rows(list(rows), each)
    if not given:
        raise ValueError("there are no rows to draw")
    read = {
        what: values_of(given, Condition(key, what))
        for what, key in (("x", x), ("y", y), ("by", by), ("seen", seen), ("panel", panel))
        if key is not None
    }
    if seen is not None:
        mark = _boundary(read["x"], read["seen"])
    panels = read.get("panel", [None] * len(given))
    titles = list(dict.fromkeys(panels))
    width, height = _SIZE
    figure = Figure(figsize=(width, height * (0.2 + 0.8 * len(titles))), layout="constrained")
    for title, ax in zip(titles, _stack(figure, len(titles)), strict=True):
        points = [
            (name, at, row.get("seed"), value)
            for row, at, value, name, where in zip(
                given, read["x"], read["y"], read["by"], panels, strict=True
            )
            if where == title and (names is None or name in names)
        ]
        ax.set(xscale=xscale, yscale=yscale, ylabel=ylabel)
        for (name, curve), (role, marker, line) in zip(
            _curves(points, names).items(), cycle(LINES), strict=False
        ):
            _draw_curve(ax, curve, COLOURS[role], marker, line, yscale == "log")
            ax.get_lines()[-1].set_label(str(name) if names is None else names[name])
        values = [value for *_, value in points]
        if yscale == "linear" and min(values) >= 0:
            ax.set_ylim(bottom=0)
        if yscale == "log" and max(values) < 5 * min(values):  # no two powers of ten
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter(NullFormatter())
        first = ax is figure.axes[0]
        said = mark_text if first and mark is not None else ""
        above = 4 + 1.25 * FONT_SIZE * (said.count("\n") + 1 if said else 0)
        if title is not None:
            ax.set_title(title, loc="left", pad=above)
            above += 1.8 * FONT_SIZE
        if mark is not None:
            _draw_mark(ax, mark, said)
        if first:
            _add_legend(ax, above)
    figure.axes[-1].set_xlabel(xlabel)
    return figure


def seed_dots(
    rows: Iterable[Row],
    *,
    x: Key,
    by: Key,
    each: str = "",
    where: Mapping[str, Any] | None = None,
    names: Mapping[Any, str] | None = None,
    roles: Mapping[Any, str] | None = None,
    xlabel: str = "",
    marks: Mapping[str, float] | None = None,
) -> Figure:
    """Draw a line for each condition, with a dot for each seed and a bar at their mean.

    `x` is the measured quantity; `by`, `each` and `names` are as in `seed_curves`. `where` chooses
    the rows that have these values, and `roles` gives the colour of a condition by its value of
    `by`. `marks` are values for comparison, such as chance, drawn as dashed lines with their names;
    the axis then starts at 0. Raises `ValueError` where no row is left, and for an unknown role.
    """
    given = [
        row
        for row in expanded_rows(list(rows), each)
        if all(row.get(key) == wanted for key, wanted in (where or {}).items())
    ]
    if not given:
        raise ValueError(f"there are no rows to draw with {dict(where or {})}")
    measured, conditions = (values_of(given, Condition(key, "x")) for key in (x, by))
    groups: dict[Any, list[float]] = {name: [] for name in names or ()}
    for name, value in zip(conditions, measured, strict=True):
        if names is None or name in names:
            groups.setdefault(name, []).append(value)
    if empty := [name for name, values in groups.items() if not values]:
        raise ValueError(f"no row belongs to {empty[0]!r}; there are {set(conditions)}")
    height = 0.8 + 0.3 * len(groups) + (0.3 if marks else 0)
    figure = Figure(figsize=(_SIZE[0], height), layout="constrained")
    ax = figure.add_subplot()
    for y, (name, values) in enumerate(groups.items()):
        role = (roles or {}).get(name, "query")
        if role not in COLOURS:
            raise ValueError(f"role={role!r} is unknown: choose of {', '.join(COLOURS)}")
        mean = sum(values) / len(values)
        ax.plot([mean, mean], [y - 0.3, y + 0.3], color=COLOURS[role], linewidth=3, linestyle="-")
        ax.plot(values, [y] * len(values), "o", color=COLOURS[role], linestyle="none")
    labels = [str(name) if names is None else names[name] for name in groups]
    ax.set_yticks(range(len(groups)), labels)
    ax.invert_yaxis()
    ax.set_xlabel(xlabel)
    for text, at in (marks or {}).items():
        _draw_mark(ax, at, text)
    if marks:
        ax.set_xlim(left=0)
    return figure


def run_points(
    rows: Iterable[Row],
    *,
    x: Key,
    y: Key,
    by: Key,
    names: Mapping[Any, str] | None = None,
    xlabel: str = "",
    ylabel: str = "",
) -> Figure:
    """Draw a point for each row: one quantity across, another one up.

    `x`, `y`, `by` and `names` are as in `seed_curves`; each value of `by` has a colour and a marker
    of its own. Raises `ValueError` where there are no rows, and where no row belongs to a name.
    """
    given = list(rows)
    if not given:
        raise ValueError("there are no rows to draw")
    across, up, groups = (values_of(given, Condition(key, "x")) for key in (x, y, by))
    figure = Figure(figsize=_SIZE, layout="constrained")
    ax = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    for name, (role, marker, _) in zip(names or dict.fromkeys(groups), cycle(LINES), strict=False):
        chosen = [(a, b) for a, b, group in zip(across, up, groups, strict=True) if group == name]
        if not chosen:
            raise ValueError(f"no row belongs to {name!r}; there are {set(groups)}")
        label = str(name) if names is None else names[name]
        ax.plot(*zip(*chosen, strict=True), marker, color=COLOURS[role], label=label, ls="none")
    _add_legend(ax, 4.0)
    return figure


def _stack(figure: Figure, number: int) -> list[Axes]:
    """Return panels below one another, with one x axis."""
    first = figure.add_subplot(number, 1, 1)
    panels = [first]
    panels += [figure.add_subplot(number, 1, i + 1, sharex=first) for i in range(1, number)]
    for panel in panels[:-1]:
        panel.tick_params(labelbottom=False)
    return panels


def _curves(
    points: Sequence[tuple[Any, float | int, Any, float | int]], names: Mapping[Any, str] | None
) -> dict[Any, dict[float | int, dict[Any, float | int]]]:
    """Return for each condition, and each x, the value of each seed."""
    curves: dict[Any, dict[float | int, dict[Any, float | int]]]
    curves = {name: {} for name in names or ()}
    for name, at, seed, value in points:
        seeds = curves.setdefault(name, {}).setdefault(at, {})
        if seeds.setdefault(seed, value) != value:
            raise ValueError(
                f"{name!r} has several values for seed {seed} at x={at}, such as {seeds[seed]} and "
                f"{value}: choose rows, or another by="
            )
    if empty := [name for name, curve in curves.items() if not curve]:
        there = {name for name, *_ in points}
        raise ValueError(f"no row belongs to {empty[0]!r}; there are {there}")
    return curves


def _draw_curve(
    ax: Axes,
    curve: Mapping[float | int, Mapping[Any, float | int]],
    colour: str,
    marker: str,
    line: str,
    geometric: bool,
) -> None:
    """Draw the mean of the seeds, and the band from the lowest to the highest."""
    at = sorted(curve)
    seeds_at = [list(curve[x].values()) for x in at]
    if geometric:
        means = [statistics.geometric_mean(seeds) for seeds in seeds_at]
    else:
        means = [statistics.fmean(seeds) for seeds in seeds_at]
    low, high = [min(seeds) for seeds in seeds_at], [max(seeds) for seeds in seeds_at]
    ax.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.plot(at, means, color=colour, marker=marker if len(at) <= 12 else None, linestyle=line)


def _add_legend(ax: Axes, above: float) -> None:
    """Name the lines above the first panel, so many points above its frame."""
    entry = max(text_size(str(line.get_label()))[0] for line in ax.get_lines()) + 40
    shift = ScaledTranslation(0, above / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=ax.transAxes + shift,
        ncols=max(1, min(4, int(250 // entry))),
        fontsize=FONT_SIZE,
        borderaxespad=0,
        handlelength=2.6,
        columnspacing=1.2,
    )


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
