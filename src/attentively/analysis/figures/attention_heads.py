"""Multi-head attention: its steps as grids of values, and what is lost when heads are removed."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attentively.analysis.figures.curves import _SIZE, _add_legend
from attentively.analysis.figures.diagram import FONT_SIZE, INK, PAPER, canvas, text_size
from attentively.analysis.plots import COLOURS, LINES, WEIGHTS_MAP, WHITE_INK_FROM

_LINE = 15.0  # height of a row, in points
_GAP = 13.0  # between heads, and between steps


def multi_head_steps(
    inputs: Float[Tensor, "words d_model"],
    steps: Mapping[str, Float[Tensor, "heads words _columns"]],
    output: Float[Tensor, "words d_model"],
    words: Sequence[str],
    *,
    weights: str = "weights",
) -> Figure:
    """Draw the steps of multi-head attention from top to bottom, with a column for each head.

    `steps` are the values of each head, such as its queries, by the title of the step. The cells
    of the step called `weights` are shaded. The inputs and the output belong to no head. Raises
    `ValueError` where a tensor does not fit the words or the heads.
    """
    heads = len(next(iter(steps.values())))
    for title, values in {"inputs": inputs[None], **steps, "output": output[None]}.items():
        expected = heads if title in steps else 1
        if values.shape[:2] != (expected, len(words)):
            raise ValueError(
                f"{title!r} of shape {tuple(values.shape)} does not fit {expected} heads and "
                f"{len(words)} words"
            )
    texts = [text for part in (inputs, *steps.values(), output) for text in _texts(part)]
    cell = max(text_size(text)[0] for text in texts) + 5
    left = max(text_size(word)[0] for word in words) + 8
    d_head = max(values.shape[2] for values in steps.values())
    starts = [left + head * (d_head * cell + _GAP) for head in range(heads)]
    right = starts[-1] + d_head * cell
    centre = left + (right - left - inputs.shape[1] * cell) / 2
    height, title_height = len(words) * _LINE, 1.3 * FONT_SIZE
    number = len(steps) + 2
    ax = canvas([(0, 0), (right, -number * (height + title_height + _GAP) - title_height + _GAP)])

    def write(
        text: str, x: float, y: float, role: str | None = None, align: str = "center"
    ) -> None:
        ax.text(x, y, text, color=INK if role is None else COLOURS[role], ha=align, va="center",
                fontsize=FONT_SIZE)  # fmt: skip

    def draw(matrices: Sequence[Tensor], at: Sequence[float], y: float, roles: Sequence[str],
             shaded: bool = False) -> None:  # fmt: skip
        for matrix, x, role in zip(matrices, at, roles, strict=True):
            _draw_grid(ax, matrix, (x, y), cell, COLOURS[role], shaded)
        for i, word in enumerate(words):
            write(word, left - 6, y - (i + 0.5) * _LINE, "neutral", "right")

    y = 0.0
    write("inputs, read by both heads" if heads == 2 else "inputs, read by all heads",
          (left + right) / 2, y - title_height / 2)  # fmt: skip
    draw([inputs], [centre], y - title_height, ["neutral"])
    y -= height + title_height + _GAP
    roles = [LINES[head % len(LINES)][0] for head in range(heads)]
    for head, (start, role) in enumerate(zip(starts, roles, strict=True)):
        write(f"head {head + 1}", start + d_head * cell / 2, y - title_height / 2, role)
    y -= title_height
    for title, values in steps.items():
        write(title, 0.0, y - title_height / 2, align="left")
        draw([*values], starts, y - title_height, roles, shaded=title == weights)
        y -= height + title_height + _GAP
    write("output", (left + right) / 2, y - title_height / 2)
    draw([output], [centre], y - title_height, ["neutral"])
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return figure


def _texts(values: Tensor) -> list[str]:
    """Return the text of each entry, in order: whole numbers, or two decimals."""
    shown = values.detach().cpu().double().flatten().tolist()
    form = "{:.0f}" if all(float(value).is_integer() for value in shown) else "{:.2f}"
    return [form.format(value).replace("-", "−") for value in shown]


def _draw_grid(
    ax: Axes,
    matrix: Float[Tensor, "rows columns"],
    corner: tuple[float, float],
    width: float,
    colour: str,
    shaded: bool,
) -> None:
    """Draw the entries of a matrix in cells of this width, from its upper left corner."""
    matrix = matrix.detach().cpu().double()
    rows, columns = matrix.shape
    (left, top), face = corner, PAPER
    if shaded:  # an image, whose colours and numbers stay the same in dark mode
        extent = (left, left + columns * width, top - rows * _LINE, top)
        ax.imshow(matrix.numpy(), cmap=WEIGHTS_MAP, vmin=0, vmax=1, aspect="auto", extent=extent)
        face = "none"
    entries = matrix.flatten().tolist()
    for number, (value, text) in enumerate(zip(entries, _texts(matrix), strict=True)):
        row, column = divmod(number, columns)
        x, y = left + column * width, top - (row + 1) * _LINE
        ax.add_patch(Rectangle((x, y), width, _LINE, facecolor=face, edgecolor=colour))
        ink = PAPER if shaded and value > WHITE_INK_FROM else INK
        ax.text(x + width / 2, y + _LINE / 2, text, color=ink, ha="center", va="center",
                fontsize=FONT_SIZE)  # fmt: skip


def removal_curve(
    values: Sequence[float],
    kinds: Sequence[str],
    roles: Mapping[str, str],
    *,
    xlabel: str = "",
    ylabel: str = "",
) -> Figure:
    """Draw a score against the number of removed parts, with a mark for the kind of each part.

    `values` starts with the score before the first removal, so it has one value more than `kinds`;
    otherwise raises `ValueError`. `roles` gives the colour of each kind, and their order.
    """
    if len(values) != len(kinds) + 1:
        raise ValueError(f"{len(kinds)} removals need {len(kinds) + 1} values, not {len(values)}")
    figure = Figure(figsize=_SIZE, layout="constrained")
    ax = figure.add_subplot()
    markers = dict(zip(roles, (marker for _, marker, _ in LINES), strict=False))
    for kind, role in roles.items():
        at = [i + 1 for i, found in enumerate(kinds) if found == kind]
        ax.plot(at, [values[i] for i in at], markers[kind], color=COLOURS[role], linestyle="none",
                label=kind, zorder=3)  # fmt: skip
    _add_legend(ax, 6.0)
    ax.plot(range(len(values)), values, color=COLOURS["neutral"], linewidth=1, linestyle="-")
    ax.set(xlabel=xlabel, ylabel=ylabel, ylim=(-0.03, 1.05 * max(values)))
    return figure
