"""Bar charts of probability distributions, one below the other."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import FONT_SIZE, text_size
from attentively.analysis.plots import COLOURS

_WIDTH = 278.0  # points
_LEFT = 46.0  # points for the labels of the probability axis
_PANEL, _BARS = 74.0, 48.0  # heights of a panel with its title, and of its bars


def probability_bars(
    panels: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    *,
    role: str = "decoder",
    xlabel: str = "",
) -> Figure:
    """Draw a bar for each probability, in one panel for each title, on the same axes.

    `labels` are the outcomes, the same in all panels; a dot marks a probability of 0. Raises
    `ValueError` where labels and probabilities differ in number, and for an unknown role.
    """
    if not panels:
        raise ValueError("probability_bars needs a distribution, and got none")
    if role not in COLOURS:
        raise ValueError(f"role={role!r} is unknown: choose of {', '.join(COLOURS)}")
    for title, values in panels.items():
        if len(values) != len(labels):
            raise ValueError(
                f"{title!r} has {len(values)} probabilities, but there are {len(labels)} labels"
            )
    below = max(text_size(label)[0] for label in labels) + (30 if xlabel else 12)
    height = _PANEL * len(panels) + below
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    figure.set_layout_engine("none")
    highest = max(map(max, panels.values()))
    at = range(len(labels))
    for number, (title, values) in enumerate(panels.items()):
        bottom = height - _PANEL * (number + 1)
        box = (_LEFT / _WIDTH, bottom / height, 1 - (_LEFT + 4) / _WIDTH, _BARS / height)
        ax = figure.add_axes(box)
        ax.bar(at, values, color=COLOURS[role])
        zeros = [i for i, value in enumerate(values) if value == 0]
        ax.plot(zeros, [0] * len(zeros), ".", color=COLOURS["neutral"], clip_on=False)
        ax.set_title(title, loc="left", fontsize=FONT_SIZE)
        ax.set_ylim(0, highest * 1.05)
        last = number == len(panels) - 1
        ax.set_xticks(at, labels if last else [""] * len(labels), rotation=90)
        ax.tick_params(axis="x", length=0)
        ax.locator_params(axis="y", nbins=3)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel(xlabel if last else "")
    figure.supylabel("probability", fontsize=FONT_SIZE, x=0)
    return figure
