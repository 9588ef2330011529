"""Segmentations of one text into subwords, as rows of boxes."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from attentively.analysis.figures.diagram import FONT_SIZE, INK, PAPER, WIDTH, canvas, text_size
from attentively.analysis.plots import COLOURS

_ROW, _BOX = 26.0, 19.0  # height of a row, and of a box in it
_GAP = 8.0  # between the boxes and the texts on both sides


def segmentations(
    rows: Mapping[str, Sequence[str]], *, label: str = "", count: str = "tokens"
) -> Figure:
    """Draw segmentations of one text, a row of boxes for each, with their number on the right.

    `rows` gives the subwords by the label of the row; `label` and `count` are the headings of the
    labels and of the numbers. A subword that starts a word, with the mark ``▁``, is blue, and the
    others are grey. Raises `ValueError` without rows, and where rows spell different texts.
    """
    if not rows:
        raise ValueError("segmentations needs a row, and got none")
    spelled = {"".join(subwords): name for name, subwords in rows.items()}
    if len(spelled) > 1:
        raise ValueError(f"all rows must spell one text, but they spell {', '.join(spelled)}")
    (text,) = spelled
    left = max(text_size(name)[0] for name in [*rows, label]) + _GAP
    right = text_size(count)[0] + _GAP
    widest = max(text_size(character)[0] for character in text) + 2
    cell = max(widest, (WIDTH - 2 * _GAP - left - right) / len(text))
    end = left + cell * len(text)
    ax = canvas([(0, -_ROW / 2), (end + right, _ROW * (len(rows) + 0.5))])
    style: dict[str, Any] = {"fontsize": FONT_SIZE, "va": "center", "color": INK}
    grey = style | {"color": COLOURS["neutral"]}
    ax.text(left - _GAP, _ROW * len(rows), label, ha="right", **grey)
    ax.text(end + right, _ROW * len(rows), count, ha="right", **grey)
    for y, (name, subwords) in enumerate(reversed(list(rows.items()))):
        ax.text(left - _GAP, _ROW * y, name, ha="right", **style)
        ax.text(end + right, _ROW * y, str(len(subwords)), ha="right", **style)
        x = left
        for subword in subwords:
            width = cell * len(subword)
            role = "query" if subword.startswith("▁") else "neutral"
            box = FancyBboxPatch(
                (x + 1, _ROW * y - _BOX / 2),
                width - 2,
                _BOX,
                boxstyle="round,pad=0,rounding_size=3",
                label=subword,
            )
            box.set(edgecolor=COLOURS[role], facecolor=PAPER, linewidth=1.4)
            ax.add_patch(box)
            for i, character in enumerate(subword):
                ax.text(x + cell * (i + 0.5), _ROW * y, character, ha="center", **style)
            x += width
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return figure
