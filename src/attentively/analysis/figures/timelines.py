"""Events on a vertical time line, in two columns."""

from collections.abc import Mapping
from datetime import date

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attentively.analysis.figures.diagram import FONT_SIZE, WIDTH, canvas, text_size
from attentively.analysis.plots import COLOURS

_YEAR = 34.0  # points
_LINE = 1.45 * FONT_SIZE  # smallest distance between two names
_ARM = 30.0  # from the axis to a name


def timeline(
    left: Mapping[str, date],
    right: Mapping[str, date],
    *,
    titles: tuple[str, str],
    highlight: int | None = None,
    roles: tuple[str, str] = ("key", "query"),
) -> Figure:
    """Draw events at their dates on an axis that runs downwards, in a left and a right column.

    `titles` and `roles` are the headings and the colours of the columns; `highlight` is a year in
    a frame. Names that would overlap are moved apart, and a line joins each name to its
    date. Raises `ValueError` where a column is empty, and for an unknown role.
    """
    if not left or not right:
        raise ValueError("a time line needs an event in each of its two columns")
    if unknown := [role for role in roles if role not in COLOURS]:
        raise ValueError(f"role={unknown[0]!r} is unknown: choose of {', '.join(COLOURS)}")
    days = [*left.values(), *right.values()]
    first, last = min(days).year, max(days).year + 1
    length = (last - first) * _YEAR
    half = (WIDTH - 8) / 2
    ax = canvas([(-half, -length - 4), (half, 2.8 * FONT_SIZE)])
    grey = COLOURS["neutral"]
    if highlight is not None:
        corner = (-half, -(highlight + 1 - first) * _YEAR)
        ax.add_patch(Rectangle(corner, 2 * half, _YEAR, edgecolor=grey, fill=False, linewidth=1.2))
    ax.plot([0, 0], [0, -length], color=grey, linewidth=1.2, linestyle="-")
    for year in range(first, last):
        top = -(year - first) * _YEAR
        ax.plot([-half, half], [top, top], color=grey, linewidth=0.5, linestyle="-", alpha=0.8)
        ax.text(half - 3, top - _YEAR / 2, str(year), color=grey, fontsize=FONT_SIZE,
                ha="right", va="center")  # fmt: skip
    for side, events, title, role in zip((-1, 1), (left, right), titles, roles, strict=True):
        align = "right" if side < 0 else "left"
        ax.text(-half if side < 0 else _ARM, 1.9 * FONT_SIZE, title, color=COLOURS[role],
                fontsize=FONT_SIZE, fontweight="bold", va="center")  # fmt: skip
        named = sorted(events, key=events.__getitem__)
        at = [-_year(events[name], first) * _YEAR for name in named]
        for name, y, y_name in zip(named, at, _apart(at), strict=True):
            if text_size(name)[0] > half - _ARM - (side > 0) * (text_size("2000")[0] + 4):
                raise ValueError(f"the name {name!r} is too long for its column")
            ax.plot([0, side * 14, side * (_ARM - 3)], [y, y_name, y_name],
                    color=COLOURS[role], linewidth=1, linestyle="-", zorder=2)  # fmt: skip
            ax.plot([0], [y], "o", color=COLOURS[role], markersize=4, zorder=4)
            ax.text(side * _ARM, y_name, name, color=COLOURS[role], fontsize=FONT_SIZE, ha=align,
                    va="center", bbox={"color": "white", "pad": 1.5}, zorder=3)  # fmt: skip
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return figure


def _year(day: date, first: int) -> float:
    """Return the years from the start of `first` to this day."""
    return day.year - first + (day.timetuple().tm_yday - 1) / 365


def _apart(at: list[float]) -> list[float]:
    """Return heights at least one line apart, near the given ones, from top to bottom.

    Names that are too close form a group, which is centred at the mean of its dates.
    """
    groups: list[tuple[list[float], float]] = []  # the dates, and the height of the first name
    for y in at:
        group, top = [y], y
        while groups and groups[-1][1] - _LINE * len(groups[-1][0]) < top:
            group = groups.pop()[0] + group
            top = sum(group) / len(group) + _LINE * (len(group) - 1) / 2
        groups.append((group, top))
    return [top - _LINE * i for group, top in groups for i in range(len(group))]
