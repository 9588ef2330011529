"""Memory in the course of a computation."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.plots import COLOURS, LINES

_SIZE = (3.9, 3.3)  # inches: the text has 11 pixels or more on a phone
_POINTS = 240
_MIB = 2**20


def memory_curves(
    histories: Mapping[str, Sequence[int]],
    *,
    xlabel: str = "operations of the step (%)",
    ylabel: str = "memory (MiB)",
) -> Figure:
    """Draw the memory in use during several computations, each over the share that is done.

    `histories` maps a name to the bytes after each operation, as `MemoryMeter.history`. Long
    histories are drawn by the maxima of short intervals. Raises `ValueError` where there is no
    history, and for an empty one.
    """
    if not histories:
        raise ValueError("memory_curves needs a history, and got none")
    figure = Figure(figsize=_SIZE, layout="constrained")
    ax = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    for (name, history), (role, _, dashes) in zip(histories.items(), cycle(LINES), strict=False):
        if not history:
            raise ValueError(f"the history of {name!r} is empty")
        ax.plot(*_curve(history), color=COLOURS[role], linestyle=dashes, label=name)
    ax.set_ylim(bottom=0)
    figure.legend(loc="outside upper left", ncols=2, fontsize=FONT_SIZE, handlelength=2.6)
    return figure


def _curve(history: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return the share of the operations, and the largest memory in MiB of each interval."""
    size = max(1, len(history) // _POINTS)
    starts = range(0, len(history), size)
    shares = [100 * start / max(1, len(history) - 1) for start in starts]
    return shares, [max(history[start : start + size]) / _MIB for start in starts]
