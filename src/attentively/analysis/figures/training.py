"""Learning curves of several training runs, and the padding of several batches."""

from collections.abc import Mapping, Sequence

from jaxtyping import Bool
from matplotlib.figure import Figure
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.plots import COLOURS, WEIGHTS_MAP
from attentively.analysis.tables import Row

_WIDTH = 3.9  # inches: the text has 11 pixels or more on a phone
_LOSSES = {"training": ("train_loss", "query", "-"), "validation": ("validation_loss", "key", "--")}
"""Key, role and dashes of each curve."""


def loss_panels(
    panels: Mapping[str, Sequence[Sequence[Row]]],
    reference: Sequence[Row] = (),
    *,
    across: int = 2,
    xlabel: str = "step",
    ylabel: str = "loss (nats)",
) -> Figure:
    """Draw the training and the validation loss of several runs in each panel, on the same axes.

    `panels` maps a title to the logs of its runs; a log is a list of records with the keys
    ``step``, ``train_loss`` and ``validation_loss``. The validation loss of the log `reference` is
    drawn in every panel, in grey. The axis of the loss is logarithmic. Raises `ValueError` where a
    panel has no records.
    """
    if not panels:
        raise ValueError("loss_panels needs a panel, and got none")
    for title, logs in panels.items():
        if not logs or not all(logs):
            raise ValueError(f"a log of the panel {title!r} has no records")
    down = -(-len(panels) // across)
    figure = Figure(figsize=(_WIDTH, 0.9 + 1.7 * down), layout="constrained")
    first = None
    for number, (title, logs) in enumerate(panels.items()):
        ax = figure.add_subplot(down, across, number + 1, sharex=first, sharey=first)
        first = first or ax
        if reference:
            ax.plot(*_points(reference, "validation_loss"), color=COLOURS["neutral"],
                    linestyle=":", label="validation, no fault")  # fmt: skip
        for log in logs:
            for name, (key, role, dashes) in _LOSSES.items():
                label = name if log is logs[0] else None
                ax.plot(*_points(log, key), color=COLOURS[role], linestyle=dashes, linewidth=1.3,
                        label=label)  # fmt: skip
        ax.set_yscale("log")
        ax.set_title(title, loc="left", fontsize=FONT_SIZE)
        ax.tick_params(labelleft=number % across == 0, labelbottom=number >= len(panels) - across)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, fontsize=FONT_SIZE,
                  handlelength=2.4)  # fmt: skip
    figure.supxlabel(xlabel, fontsize=FONT_SIZE)
    figure.supylabel(ylabel, fontsize=FONT_SIZE)
    return figure


def _points(records: Sequence[Row], key: str) -> tuple[list[float | int], list[float | int]]:
    return [record["step"] for record in records], [record[key] for record in records]


def batch_padding(
    batches: Mapping[str, Bool[Tensor, "_batch _longest"]],
    *,
    xlabel: str = "position",
    ylabel: str = "sentence of the batch",
) -> Figure:
    """Draw batches next to one another: a row for each sentence, tokens dark and padding light.

    A batch is a mask that is True at tokens and False at padding. Raises `ValueError` where there
    is no batch.
    """
    if not batches:
        raise ValueError("batch_padding needs a batch, and got none")
    figure = Figure(figsize=(_WIDTH, 2.9), layout="constrained")
    longest = max(real.shape[1] for real in batches.values())
    most = max(len(real) for real in batches.values())
    for number, (title, real) in enumerate(batches.items()):
        ax = figure.add_subplot(1, len(batches), number + 1)
        ax.imshow(real.float().cpu().numpy(), cmap=WEIGHTS_MAP, vmin=-0.25, vmax=1.15,
                  aspect="auto", interpolation="none")  # fmt: skip
        ax.set(xlim=(-0.5, longest - 0.5), ylim=(most - 0.5, -0.5))
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.locator_params(nbins=3, integer=True)
        ax.tick_params(labelleft=number == 0)
        ax.grid(visible=False)
        ax.set_xlabel(xlabel)
    figure.axes[0].set_ylabel(ylabel)
    return figure
