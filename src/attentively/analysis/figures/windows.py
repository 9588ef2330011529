"""The windows of local attention, with the gold links of a sentence pair."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from attentively.analysis.figures.diagram import FONT_SIZE
from attentively.analysis.plots import COLOURS

_WIDTH = 278.0  # points
_MARGIN = 26.0  # points left of the first panel, for the positions and their label


def attention_windows(
    panels: Mapping[str, Float[Tensor, "tgt_len src_len"]],
    links: AbstractSet[tuple[int, int]],
) -> Figure:
    """Draw the window of each target position, and the gold links inside and outside of it.

    `panels` are by title the factors, from 0 to 1, by which a window multiplies the weights; 0 is
    outside. They are drawn next to each other. `links` are pairs (source, target), counted from 0.

    Raises `ValueError` where there is no panel, the panels differ in shape, or a link lies outside
    the sentences.
    """
    if not panels:
        raise ValueError("attention_windows needs the window of an attention, and got none")
    shapes = {title: tuple(factors.shape) for title, factors in panels.items()}
    shape = next(iter(shapes.values()))
    if other := [f"{title!r} of {found}" for title, found in shapes.items() if found != shape]:
        raise ValueError(f"{other[0]} differs in shape from the first panel, {shape}")
    tgt_len, src_len = shape
    for source, target in links:
        if not (0 <= source < src_len and 0 <= target < tgt_len):
            raise ValueError(
                f"link {(source, target)} lies outside {src_len} source and {tgt_len} target words"
            )
    cell = (_WIDTH - _MARGIN - 12 * len(panels)) / (len(panels) * src_len)
    height = cell * tgt_len + 6.5 * FONT_SIZE
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    for number, (title, factors) in enumerate(panels.items()):
        ax = figure.add_subplot(1, len(panels), number + 1)
        shown = factors.detach().float().cpu()
        ax.imshow(0.4 * shown.numpy(), cmap="Greys", vmin=0, vmax=1, aspect="equal")
        for inside, (role, marker) in _MARKS.items():
            points = [link for link in sorted(links) if (shown[link[1], link[0]] > 0) == inside]
            ax.plot(
                [source for source, _ in points],
                [target for _, target in points],
                marker,
                color=COLOURS[role],
                markersize=min(5.0, cell if not inside else 0.8 * cell),
                markeredgewidth=1.0 if not inside else 0.0,
                linestyle="none",
            )
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set_xlabel("source position")
        ax.grid(visible=False)
        ax.spines[:].set(visible=True, color=COLOURS["neutral"])
        if number == 0:
            ax.set_ylabel("target position")
        else:
            ax.tick_params(labelleft=False)
    figure.legend(
        handles=[
            Line2D([], [], color=COLOURS[role], marker=marker, linestyle="none", label=text)
            for (role, marker), text in zip(
                (_MARKS[True], _MARKS[False]), ("link in the window", "link outside"), strict=True
            )
        ],
        loc="outside lower left",
        ncols=2,
        fontsize=FONT_SIZE,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    return figure


_MARKS = {True: ("key", "s"), False: ("gold", "x")}
"""Role and marker of a link, by whether it is in the window."""
