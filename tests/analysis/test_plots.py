"""Figures say what they were given: tokens, links, numbers and names are read off the artists."""

import itertools
import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from legibility import EYES, contrast, nearest
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from attentively.analysis.plots import (
    COLOURS,
    WEIGHTS_MAP,
    alignment_heat_map,
    by_length,
    learning_curve,
    use_book_style,
)

SRC = ["I", "do", "not", "like", "milk", ".", "<end>"]
TGT = ["Je", "n'", "aime", "pas", "<end>"]


@pytest.fixture(autouse=True)
def _fresh_figures():
    with mpl.rc_context():
        yield
    plt.close("all")


def weights(tgt_len=5, src_len=7):
    return torch.rand(tgt_len, src_len).softmax(dim=-1)


def outlines(ax):
    """The outlined cells as (column, row)."""
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert all((box.get_width(), box.get_height()) == (1, 1) for box in boxes)
    return {(box.get_x() + 0.5, box.get_y() + 0.5) for box in boxes}


def labels(ticks):
    return [label.get_text() for label in ticks]


# --- heat map ---


def test_heat_map_shows_every_token_and_weight():
    given = weights()
    ax = alignment_heat_map(given, SRC, TGT)
    assert labels(ax.get_xticklabels()) == SRC
    assert labels(ax.get_yticklabels()) == TGT
    assert ax.get_xticks().tolist() == list(range(7))
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), given.numpy())
    assert image.get_clim() == (0, 1)  # two maps side by side mean the same


def test_heat_map_reads_from_the_top():
    ax = alignment_heat_map(weights(), SRC, TGT)
    ax.figure.canvas.draw()
    tick = ax.xaxis.get_major_ticks()[0]
    assert tick.label2.get_visible()  # the source on top
    assert not tick.label1.get_visible()
    assert ax.xaxis.get_label_position() == "top"
    bottom, top = ax.get_ylim()
    assert bottom > top  # the target downwards
    # Tokens stand above the map, not across it.
    above = ax.get_window_extent().y1
    assert all(label.get_window_extent().y0 >= above for label in ax.get_xticklabels())


def test_gold_links_are_outlined():
    gold = {(0, 0), (2, 1), (3, 2), (2, 3)}
    ax = alignment_heat_map(weights(), SRC, TGT, gold=gold)
    assert outlines(ax) == gold  # x is the source, y the target
    assert colors.to_hex(ax.patches[0].get_edgecolor()) == COLOURS["gold"]
    assert not ax.patches[0].get_fill()
    assert outlines(alignment_heat_map(weights(), SRC, TGT)) == set()
    assert outlines(alignment_heat_map(weights(), SRC, TGT, gold=frozenset())) == set()


def test_heat_map_fits_long_sentences_with_accents():
    src = [f"mot{i}" for i in range(29)]
    tgt = ["extraordinairement", *["évêché"] * 22]
    ax = alignment_heat_map(weights(23, 29), src, tgt)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0
    assert max(label.get_window_extent().y1 for label in ax.get_xticklabels()) <= (
        ax.figure.get_window_extent().y1
    )


def test_heat_map_draws_where_it_is_told():
    _, (left, right) = plt.subplots(1, 2)
    assert alignment_heat_map(weights(), SRC, TGT, ax=right) is right
    assert not left.get_images()
    assert len(right.figure.axes) == 2  # no scale squeezed in between


def test_heat_map_takes_weights_as_a_model_gives_them():
    given = weights().half().requires_grad_()
    (image,) = alignment_heat_map(given, SRC, TGT).get_images()
    np.testing.assert_allclose(image.get_array(), given.detach().float())


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((7, 5), r"shape \(7, 5\) do not fit 5 target and 7 source .* \(5, 7\): transpose them"),
        ((5, 6), r"shape \(5, 6\) do not fit 5 target and 7 source tokens, which need \(5, 7\)$"),
        ((4, 7), r"shape \(4, 7\) do not fit"),
    ],
)
def test_heat_map_refuses_other_shapes(shape, message):
    with pytest.raises(ValueError, match=message):
        alignment_heat_map(weights(*shape), SRC, TGT)


@pytest.mark.parametrize("link", [(7, 0), (0, 5), (-1, 0), (6, 6)])
def test_heat_map_refuses_links_outside(link):
    with pytest.raises(ValueError, match=r"gold link .* outside 7 source and 5 target tokens"):
        alignment_heat_map(weights(), SRC, TGT, gold={(0, 0), link})


# --- learning curve ---

RECORDS = [
    {"step": 100, "train_loss": 3.0, "validation_loss": 3.5, "seconds": 1.0},
    {"step": 200, "train_loss": 2.0, "validation_loss": 2.5, "seconds": 2.0},
    {"step": 300, "train_loss": 1.5, "validation_loss": 2.25, "seconds": 3.0},
]


def drawn(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}


def test_learning_curve():
    ax = learning_curve(RECORDS)
    assert drawn(ax) == {
        "training": [[100, 3], [200, 2], [300, 1.5]],
        "validation": [[100, 3.5], [200, 2.5], [300, 2.25]],
    }
    assert ax.get_xlabel() == "step"
    assert "nats per token" in ax.get_ylabel()
    assert ax.get_ylim()[0] == 0


def test_learning_curve_with_rare_validation():
    records = [{"step": 50, "train_loss": 4.0}, *RECORDS]
    assert drawn(learning_curve(records))["training"][0] == [50, 4]
    assert drawn(learning_curve(records))["validation"][0] == [100, 3.5]
    assert set(drawn(learning_curve([{"step": 1, "train_loss": 2.0}]))) == {"training"}


@pytest.mark.parametrize("records", [[], [{"step": 3}]])
def test_learning_curve_refuses_nothing(records):
    with pytest.raises(ValueError, match=f"none of the {len(records)} records holds a train_loss"):
        learning_curve(records)


# --- score by length ---

RESULTS = {
    "fixed": {20: [0.1, 0.3, 0.2], 5: [0.9, 1.0, 0.8], 10: [0.5, 0.5, 0.8]},
    "additive": {5: [1.0, 1.0], 10: [0.9, 1.0], 20: [0.75, 0.25]},
}


def bands(ax):
    """For each band, (length, lowest, highest) of its corners."""
    found = []
    for band in ax.collections:
        assert isinstance(band, PolyCollection)
        (path,) = band.get_paths()
        corners = {}
        for x, y in path.vertices:
            corners.setdefault(x, []).append(y)
        found.append([(x, min(ys), max(ys)) for x, ys in sorted(corners.items())])
    return found


def test_by_length_draws_means_and_extremes():
    ax = by_length(RESULTS)
    lines = drawn(ax)
    assert list(lines) == ["fixed", "additive"]
    np.testing.assert_allclose(lines["fixed"], [[5, 0.9], [10, 0.6], [20, 0.2]])
    np.testing.assert_allclose(lines["additive"], [[5, 1], [10, 0.95], [20, 0.5]])
    np.testing.assert_allclose(bands(ax)[0], [(5, 0.8, 1.0), (10, 0.5, 0.8), (20, 0.1, 0.3)])
    np.testing.assert_allclose(bands(ax)[1], [(5, 1.0, 1.0), (10, 0.9, 1.0), (20, 0.25, 0.75)])


def test_lines_differ_in_more_than_colour():
    lines = by_length({name: {1: [0.5]} for name in "abcd"}).get_lines()
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert len({getattr(line, look)() for line in lines}) == 4


@pytest.mark.parametrize("ends", [(0.9, 0.1), (0.5, 0.5), (0.50, 0.51), (1.0, 1.0)])
def test_names_stand_beside_their_lines_and_apart(ends):
    results = {f"system {i}": {5: [0.7], 10: [end]} for i, end in enumerate(ends)}
    ax = by_length(results)
    ax.figure.canvas.draw()
    texts = {text.get_text(): text for text in ax.texts}
    assert set(texts) == set(results)
    boxes = [text.get_window_extent() for text in texts.values()]
    assert not boxes[0].overlaps(boxes[1])
    for line in ax.get_lines():
        text = texts[line.get_label()]
        assert text.get_color() == line.get_color()
        x, y = ax.transData.transform(line.get_xydata()[-1])
        box = text.get_window_extent()
        assert x < box.x0 < x + 40
        assert abs((box.y0 + box.y1) / 2 - y) < 2.5 * box.height


def test_the_longest_seen_length_is_marked():
    ax = by_length(RESULTS, longest_seen=12.0)
    marks = [line for line in ax.get_lines() if line.get_label() not in RESULTS]
    assert [list(line.get_xdata()) for line in marks] == [[12, 12]]
    assert "longest in training" in [text.get_text() for text in ax.texts]
    assert "longest in training" not in [text.get_text() for text in by_length(RESULTS).texts]


def test_the_score_is_named():
    assert by_length(RESULTS, ylabel="BLEU").get_ylabel() == "BLEU"


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({}, "got none"),
        ({"fixed": {}}, "'fixed' needs a score"),
        ({"fixed": {5: [0.5], 10: []}}, "'fixed' needs a score"),
    ],
)
def test_by_length_refuses(results, message):
    with pytest.raises(ValueError, match=message):
        by_length(results)


# --- style ---


def test_book_style_draws_on_white_and_reproducibly(tmp_path):
    use_book_style()
    assert mpl.rcParams["figure.facecolor"] == "white"
    files = []
    for name in ("one.svg", "two.svg"):
        torch.manual_seed(3)
        ax = alignment_heat_map(weights(), SRC, TGT, gold={(0, 0)})
        ax.figure.savefig(tmp_path / name, metadata={"Date": None})
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


def test_importing_plots_changes_no_style():
    """A style is asked for, never a side effect."""
    assert "attentively.analysis.plots" in sys.modules
    assert mpl.rcParams["svg.hashsalt"] is None


@pytest.mark.parametrize("role", COLOURS)
def test_colours_are_seen_on_white_and_on_black(role):
    assert contrast(COLOURS[role], "#ffffff") >= 4.5
    assert contrast(COLOURS[role], "#121212") >= 3


@pytest.mark.parametrize("eye", EYES)
def test_colours_are_told_apart_by_every_eye(eye):
    assert nearest(COLOURS.values(), eye) > 12


def test_a_palette_of_red_and_green_would_be_seen():
    red_and_green = ["#a04020", "#607000"]
    assert nearest(red_and_green, "usual") > 30
    assert nearest(red_and_green, "deuteranopia") < 12


def test_weights_are_readable_in_greyscale():
    shades = [contrast(colors.to_hex(mpl.colormaps[WEIGHTS_MAP](w)), "#fff") for w in range(0, 256)]
    assert all(darker >= lighter for lighter, darker in itertools.pairwise(shades))
    assert shades[0] < 1.1
    assert shades[-1] > 10
