"""Plots: attention heat maps, learning curves, and scores by source length.

Figures are drawn on white; the build of the book makes a dark version of each, in which a role has
the same hue. Nothing is said by colour alone.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import cycle
from typing import Any, NamedTuple

import matplotlib as mpl
from cycler import cycler
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

COLOURS = {
    "query": "#1562f9",  # blue
    "key": "#b06107",  # ochre
    "value": "#09884d",  # green
    "encoder": "#316781",  # slate
    "decoder": "#b107b5",  # magenta
    "gold": "#b1362e",  # red
    "neutral": "#737373",  # grey
}
"""One colour for each role, throughout the book.

Legible as text on white, visible on black, and distinguishable with colour blindness; tests check
all three.
"""

WEIGHTS_MAP = "Blues"
"""The colour map of attention weights: pale is 0 and dark is 1, in greyscale too."""
WHITE_INK_FROM = 0.715
"""From this value on, white has a higher contrast with the colour of a cell than black."""

LINES = (
    ("query", "o", "-"),
    ("key", "s", "--"),
    ("value", "^", "-."),
    ("decoder", "D", ":"),
)
"""Role, marker and dashes of the first line of a plot, the second, ..."""


def use_book_style() -> None:
    """Set Matplotlib's defaults to those of the book, for every figure after.

    In a notebook, figures come as SVG: sharp at any size.
    """
    mpl.rcParams.update(
        {
            "figure.figsize": (6.4, 3.6),
            "figure.dpi": 120,
            "figure.facecolor": "white",
            "figure.constrained_layout.use": True,
            "savefig.dpi": 200,
            "savefig.facecolor": "white",
            "savefig.bbox": "tight",
            "svg.hashsalt": "attentively",  # the same figure gives the same file
            "font.family": "DejaVu Sans",  # comes with Matplotlib and has every accent
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.labelsize": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.prop_cycle": cycler(
                color=[COLOURS[role] for role, _, _ in LINES],
                linestyle=[linestyle for _, _, linestyle in LINES],
            ),
            "grid.color": "#e4e4e4",
            "grid.linewidth": 0.8,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
            "legend.frameon": False,
        }
    )
    if "ipykernel" in sys.modules:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # Without a date, the same figure gives the same output.
        set_matplotlib_formats("svg", metadata={"Date": None})


def alignment_heat_map(
    weights: Float[Tensor, "tgt_len src_len"],
    src_tokens: Sequence[str],
    tgt_tokens: Sequence[str],
    gold: AbstractSet[tuple[int, int]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw attention weights: a row for each target token, a column for each source token.

    `gold` links, (source, target) counted from 0, are outlined. Without `ax` the figure is made
    as large as the sentences need, with a scale next to it. Raises `ValueError` where tokens and
    weights differ in number, and for a link outside the sentences.
    """
    expected = (len(tgt_tokens), len(src_tokens))
    if tuple(weights.shape) != expected:
        hint = ": transpose them" if tuple(weights.shape) == expected[::-1] else ""
        raise ValueError(
            f"weights of shape {tuple(weights.shape)} do not fit {expected[0]} target and "
            f"{expected[1]} source tokens, which need {expected}{hint}"
        )
    for src_index, tgt_index in gold or ():
        if not (0 <= src_index < len(src_tokens) and 0 <= tgt_index < len(tgt_tokens)):
            raise ValueError(
                f"gold link {(src_index, tgt_index)} lies outside {len(src_tokens)} source and "
                f"{len(tgt_tokens)} target tokens"
            )
    own_figure = ax is None
    if ax is None:
        longest = max(map(len, [*src_tokens, *tgt_tokens]), default=1)
        margin = 0.8 + 0.08 * longest  # inches for the tokens, next to squares of 0.32
        size = (margin + 0.8 + 0.32 * len(src_tokens), margin + 0.32 * len(tgt_tokens))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    image = ax.imshow(weights.detach().float().cpu().numpy(), cmap=WEIGHTS_MAP, vmin=0, vmax=1)
    for src_index, tgt_index in sorted(gold or ()):
        _outline(ax, src_index, tgt_index)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    ax.set_xticks(
        range(len(src_tokens)), src_tokens, rotation=55, rotation_mode="anchor", ha="left"
    )
    ax.set_yticks(range(len(tgt_tokens)), tgt_tokens)
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("source")
    ax.set_ylabel("target")
    ax.grid(visible=False)
    ax.spines[:].set(visible=True, color=COLOURS["neutral"])
    if own_figure:
        ax.figure.colorbar(image, ax=ax, label="weight", shrink=0.8, ticks=[0, 0.5, 1])
    return ax


def _outline(ax: Axes, column: int, row: int) -> None:
    box = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, zorder=3)
    box.set(edgecolor=COLOURS["gold"], linewidth=1.8)
    box.set_path_effects([withStroke(linewidth=3.4, foreground="white")])  # seen on dark blue
    ax.add_patch(box)


def learning_curve(records: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """Draw the training and the validation loss of a training log.

    `records` are the lines of a trainer's ``log.jsonl``, or what its ``fit`` returns. Raises
    `ValueError` where none of them holds a loss.
    """
    curves = {
        "training": ("key", ":", "train_loss"),
        "validation": ("query", "-", "validation_loss"),
    }
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ends: list[_End] = []
    for label, (role, linestyle, key) in curves.items():
        points = [(record["step"], record[key]) for record in records if key in record]
        if points:
            steps, losses = zip(*points, strict=True)
            ax.plot(steps, losses, color=COLOURS[role], linestyle=linestyle, label=label)
            ends.append(_End(label, steps[-1], losses[-1], COLOURS[role]))
    if not ends:
        raise ValueError(
            f"none of the {len(records)} records holds a train_loss or a validation_loss"
        )
    ax.set_ylim(bottom=0)
    ax.set_xlabel("step")
    ax.set_ylabel("loss (nats per token)")
    _label_ends(ax, ends)
    return ax


def by_length(
    results: Mapping[str, Mapping[int, Sequence[float]]],
    ylabel: str = "exact match",
    longest_seen: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a score against sentence length, a line for each system.

    `results` maps a system's name to a mapping of length to its scores, one for each seed. The
    line is the mean, the band reaches from the worst seed to the best. `longest_seen`, the
    longest sentence in training, is marked. Raises `ValueError` where there is nothing to draw.
    """
    if not results:
        raise ValueError("by_length needs the results of a system, and got none")
    for name, scores in results.items():
        if not scores or not all(len(seeds) for seeds in scores.values()):
            raise ValueError(f"{name!r} needs a score, of one seed at least, for every length")
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ends: list[_End] = []
    for (name, scores), (role, marker, linestyle) in zip(results.items(), cycle(LINES)):
        lengths = sorted(scores)
        means = [sum(scores[length]) / len(scores[length]) for length in lengths]
        colour = COLOURS[role]
        ax.fill_between(
            lengths,
            [min(scores[length]) for length in lengths],
            [max(scores[length]) for length in lengths],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        ax.plot(lengths, means, color=colour, marker=marker, linestyle=linestyle, label=name)
        ends.append(_End(name, lengths[-1], means[-1], colour))
    if longest_seen is not None:
        ax.axvline(longest_seen, color=COLOURS["neutral"], linestyle=(0, (4, 3)), linewidth=1.2)
        above = ax.get_xaxis_transform()  # lengths across, the height of the axes upwards
        ax.text(
            longest_seen,
            1.02,
            "longest in training",
            transform=above,
            ha="center",
            color=COLOURS["neutral"],
            fontsize="small",
        )
    ax.set_ylim(bottom=0)
    ax.set_xlabel("source length (tokens)")
    ax.set_ylabel(ylabel)
    _label_ends(ax, ends)
    return ax


class _End(NamedTuple):
    """The last point of a line."""

    name: str
    x: float
    y: float
    colour: str


def _label_ends(ax: Axes, ends: Sequence[_End]) -> None:
    """Write each line's name next to its last point, one above the other where they meet."""
    low, high = ax.get_ylim()
    free = -math.inf
    for end in sorted(ends, key=lambda end: end.y):
        height = max(end.y, free)
        free = height + 0.08 * (high - low)
        ax.annotate(
            end.name,
            (end.x, height),
            (7, 0),
            textcoords="offset points",
            va="center",
            color=end.colour,
            annotation_clip=False,
        )
