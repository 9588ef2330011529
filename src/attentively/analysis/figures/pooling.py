"""Attention pooling: where its outputs can lie, and kernel regression in one dimension."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.plots import COLOURS, WEIGHTS_MAP

_WIDTH = 3.9  # inches: the text has 11 pixels or more on a phone
_MARKERS = "XoDsP"


def convex_combinations(
    values: Float[Tensor, "3 2"], outputs: Mapping[str, Float[Tensor, "2"]]
) -> Figure:
    """Draw three values in the plane, their convex cone, their convex hull, and named outputs.

    Non-negative weights reach the cone; weights that also sum to one reach the triangle. Raises
    `ValueError` for another number of values, for negative entries, and for more than five outputs.
    """
    if tuple(values.shape) != (3, 2) or (values < 0).any():
        raise ValueError(f"three values (x, y) of 0 or more are needed, not {values.tolist()}")
    if len(outputs) > len(_MARKERS):
        raise ValueError(f"{len(outputs)} outputs are too many: at most {len(_MARKERS)} are drawn")
    corners = values.detach().cpu().double()
    tips = torch.stack([*corners, *(output.detach().cpu().double() for output in outputs.values())])
    limit = 1.2 * tips.max(dim=0).values
    angles = torch.atan2(corners[:, 1], corners[:, 0])
    figure = Figure(figsize=(_WIDTH, 0.85 * _WIDTH), layout="constrained")
    ax = figure.add_subplot()
    far = 3 * float(limit.max())
    sides = [corners[i] / corners[i].norm() * far for i in (angles.argmin(), angles.argmax())]
    cone = torch.stack([torch.zeros_like(sides[0]), *sides])
    ax.fill(*cone.T.numpy(), color=COLOURS["value"], alpha=0.12, linewidth=0)
    ax.fill(*corners.T.numpy(), color=COLOURS["value"], alpha=0.35, linewidth=0)
    arrow = {"arrowstyle": "->", "color": COLOURS["value"], "lw": 1.8, "shrinkA": 0, "shrinkB": 0}
    middle = corners.mean(dim=0)
    for j, corner in enumerate(corners, start=1):
        ax.annotate("", corner.tolist(), (0, 0), arrowprops=arrow)
        outwards = (corner - middle) / (corner - middle).norm()
        ax.annotate(
            f"$v_{{{j}}}$",
            corner.tolist(),
            (14 * outwards).tolist(),
            textcoords="offset points",
            ha="center",
            va="center",
        )
    for (name, output), marker in zip(outputs.items(), _MARKERS, strict=False):
        x, y = output.detach().cpu().tolist()
        ax.plot(
            x,
            y,
            marker=marker,
            markersize=8,
            linestyle="none",
            color=COLOURS["query"],
            markeredgecolor="white",
            zorder=3,
            label=name,
        )
    ax.set(xlim=(0, float(limit[0])), ylim=(0, float(limit[1])))
    figure.legend(loc="outside upper left", ncols=2, fontsize=FONT_SIZE, handletextpad=0.3)
    return figure


def kernel_regression(
    keys: Float[Tensor, "k 1"],
    values: Float[Tensor, "k 1"],
    queries: Float[Tensor, "q 1"],
    truth: Float[Tensor, "q 1"],
    fits: Mapping[str, tuple[Float[Tensor, "q 1"], Float[Tensor, "q k"]]],
) -> Figure:
    """Draw, for each name in `fits`, the outputs of all queries and their weights as a heat map.

    A fit is a pair (outputs, weights). On the left are the stored pairs, the true curve and the
    outputs; on the right a row for each query and a column for each key, sorted by key. The darkest
    shade is the largest weight of the figure. Raises `ValueError` without fits, and where weights
    do not fit queries and keys.
    """
    if not fits:
        raise ValueError("kernel_regression needs an output with its weights, and got none")
    for name, (_, weights) in fits.items():
        if tuple(weights.shape) != (len(queries), len(keys)):
            raise ValueError(
                f"{name!r}: weights of shape {tuple(weights.shape)} do not fit {len(queries)} "
                f"queries and {len(keys)} keys"
            )
    order = keys.squeeze(1).argsort().cpu()
    top = max(float(weights.max()) for _, weights in fits.values())
    first, last = float(queries.min()), float(queries.max())
    grey = COLOURS["neutral"]
    figure = Figure(figsize=(_WIDTH, 0.5 + 1.6 * len(fits)), layout="constrained")
    axes = figure.subplots(len(fits), 2, squeeze=False)
    for row, (name, (outputs, weights)) in enumerate(fits.items()):
        left, right = axes[row]
        for drawn, (x, y), options in (
            (
                "pairs",
                (keys, values),
                {"marker": ".", "linestyle": "none", "color": COLOURS["key"]},
            ),
            ("true curve", (queries, truth), {"linestyle": "--", "linewidth": 1.3, "color": grey}),
            ("output", (queries, outputs), {"linestyle": "-", "color": COLOURS["value"]}),
        ):
            left.plot(
                x.squeeze(1).detach().cpu(), y.squeeze(1).detach().cpu(), label=drawn, **options
            )
        left.set_ylabel("value")
        left.set_title(name, loc="left", fontsize=FONT_SIZE)
        right.imshow(
            weights.detach().float().cpu()[:, order].numpy(),
            aspect="auto",
            cmap=WEIGHTS_MAP,
            vmin=0,
            vmax=top,
            extent=(0.5, len(keys) + 0.5, last, first),
            interpolation="nearest",
        )
        right.set_ylabel("query")
        right.grid(visible=False)
        if row < len(fits) - 1:
            left.tick_params(labelbottom=False)
            right.tick_params(labelbottom=False)
    axes[-1][0].set_xlabel("query")
    axes[-1][1].set_xlabel("key (sorted)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=3,
        fontsize=FONT_SIZE,
        handlelength=1.8,
        columnspacing=1.0,
    )
    return figure
