"""Distributions of a score over bootstrap samples."""

from collections.abc import Mapping

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.plots import COLOURS
from attentively.scoring.bootstrap import interval

_SIZE = (3.9, 4.3)  # inches: the text has 11 pixels or more on a phone
_BINS = 30
_STYLES = (("key", "-"), ("query", "--"))
"""Role and outline of the first and of the second system."""


def bootstrap_distributions(
    scores: Mapping[str, Float[Tensor, " samples"]], level: float = 0.95, xlabel: str = "score"
) -> Figure:
    """Draw the scores of two systems on the same bootstrap samples, and their difference.

    The upper panel has a histogram of each system, the lower one a histogram of the second score
    minus the first on the same sample. A bar above each histogram marks the percentile interval of
    that `level`. Raises `ValueError` where there are not two systems with equally many scores.
    """
    if len(scores) != 2:
        raise ValueError(f"expected the scores of two systems, not of {len(scores)}")
    (first, ours), (second, theirs) = scores.items()
    if ours.shape != theirs.shape:
        raise ValueError(
            f"{first!r} has {len(ours)} scores and {second!r} {len(theirs)}: paired scores belong "
            "to the same samples"
        )
    figure = Figure(figsize=_SIZE, layout="constrained")
    upper, lower = (figure.add_subplot(2, 1, i) for i in (1, 2))
    for (name, values), (role, outline) in zip(scores.items(), _STYLES, strict=True):
        _draw(upper, values, COLOURS[role], name, outline)
    _mark_intervals(upper, [(ours, "key"), (theirs, "query")], level)
    upper.set(xlabel=xlabel, ylabel="samples")
    _draw(lower, theirs - ours, COLOURS["value"], f"{second} − {first}")
    _mark_intervals(lower, [(theirs - ours, "value")], level)
    lower.axvline(0, color=COLOURS["neutral"], linestyle=(0, (4, 3)), linewidth=1.2)
    lower.set(xlabel=f"difference in {xlabel}", ylabel="samples")
    for ax in (upper, lower):
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=FONT_SIZE,
                  borderaxespad=0.2, handlelength=1.6, columnspacing=1.2)  # fmt: skip
    return figure


def _draw(ax: Axes, values: Tensor, colour: str, name: str, outline: str = "-") -> None:
    ax.hist(values.tolist(), bins=_BINS, histtype="stepfilled", facecolor=(colour, 0.25),
            edgecolor=colour, linestyle=outline, label=name)  # fmt: skip


def _mark_intervals(ax: Axes, drawn: list[tuple[Tensor, str]], level: float) -> None:
    """Draw a bar for the interval of each histogram, above all histograms."""
    top = ax.get_ylim()[1]
    for i, (values, role) in enumerate(drawn):
        low, high = interval(values, level)
        height = top * (1.02 + 0.1 * i)
        ax.plot([low, high], [height, height], color=COLOURS[role], linewidth=3, linestyle="-",
                marker="|", markersize=9, markeredgewidth=1.8)  # fmt: skip
    ax.set_ylim(0, top * (1.06 + 0.1 * len(drawn)))
