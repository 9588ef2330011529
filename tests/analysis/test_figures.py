"""Figures say what they were given, nothing overlaps, and arrows lead where they should."""

import itertools
import math
import re
from datetime import date
from io import StringIO

import matplotlib as mpl
import pytest
import torch

mpl.use("Agg")

from legibility import contrast
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from attentively.analysis import figures
from attentively.analysis.beam_trace import Prefix, Trace
from attentively.analysis.figures import Branch, Edge, Node, diagram, pronouns, word_vectors
from attentively.analysis.figures.diagram import text_size
from attentively.analysis.plots import COLOURS, use_book_style
from attentively.attention.positional import sinusoids
from attentively.generation.search import Hypothesis

COLUMN = 342
"""Width of the text on a phone of 390 pixels, in pixels."""

SRC = ["the", "cat", "drank", "the", "milk", "<end>"]
TGT = ["le", "chat", "a", "bu", "le", "lait"]


@pytest.fixture(autouse=True)
def _book_style():
    with mpl.rc_context():
        use_book_style()
        yield


def texts(figure):
    """Return every text of a figure."""
    return [t.get_text() for t in figure.findobj(mpl.text.Text) if t.get_text() and t.get_visible()]


def boxes(figure):
    """Return the extent of every visible text with its words."""
    FigureCanvasAgg(figure).draw()
    outside = {
        label
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    return [
        (text.get_text(), text.get_window_extent())
        for text in figure.findobj(mpl.text.Text)
        if text.get_text() and text.get_visible() and text not in outside
    ]


def overlapping(figure):
    """Return the pairs of texts that overlap by more than a pixel."""
    return [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(boxes(figure), 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def smallest_text(figure):
    """Return the height in pixels of the smallest text of a figure on a phone."""
    file = StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight")
    width = float(re.search(r'width="([\d.]+)pt"', file.getvalue())[1]) * 96 / 72
    sizes = [100 * float(s) for s in re.findall(r"scale\(([\d.]+) -\1\)", file.getvalue())]
    return min(sizes) * 96 / 72 * min(1, COLUMN / width)


def arrows(figure):
    """Return the arrows of a diagram by the keys of the nodes that they join."""
    return {
        tuple(patch.get_label().split(" → ")): patch
        for patch in figure.axes[0].patches
        if isinstance(patch, FancyArrowPatch)
    }


def nodes(figure):
    """Return the shapes of a diagram by their keys."""
    return {
        patch.get_label(): patch
        for patch in figure.axes[0].patches
        if not isinstance(patch, FancyArrowPatch)
    }


def ends(figure, start, end):
    """Return how far the ends of an arrow are from the borders of the two nodes, in points."""
    found = []
    tips = arrows(figure)[start, end]._path_original.vertices[[0, -1]]
    for tip, name in zip(tips, (start, end), strict=True):
        shape = nodes(figure)[name]
        outline = shape.get_path()
        if isinstance(shape, Circle):
            outline = shape.get_transform().transform_path(outline)
            outline = figure.axes[0].transData.inverted().transform_path(outline)
        outline = outline.interpolated(20)
        inside = outline.contains_point(tip)
        nearest = min(math.dist(tip, point) for point in outline.vertices)
        found.append(-1 if inside else nearest)
    return found


def bold(figure):
    """Return the arrows that are drawn bold."""
    return {names for names, arrow in arrows(figure).items() if arrow.get_linewidth() > 2}


ROWS = [
    {"model": model, "seed": seed, "groups": [
        {"words": words, "right": right + seed / 10, "seen": words < 12} for words, right in curve
    ]}
    for model, curve in (("fixed", [(5, 0.5), (11, 0.3), (17, 0.1)]),
                         ("additive", [(5, 0.8), (11, 0.7), (17, 0.4)]))
    for seed in (0, 1, 2)
]  # fmt: skip


def curves(rows=ROWS, **changed):
    options = {"x": "words", "y": "right", "by": "model", "each": "groups",
               "names": {"additive": "attention", "fixed": "fixed context"},
               "xlabel": "length (words)", "ylabel": "exact match", "seen": "seen"}  # fmt: skip
    return figures.seed_curves(rows, **options | changed)


NAMES = ["Bengio", "Cho", "Bahdanau"]
FIRST = ["Yoshua", "Kyunghyun", "Dzmitry"]


def lookup(keys=NAMES, values=FIRST, columns=None):
    weights = torch.tensor([0.72, 0.2, 0.08])
    return figures.attention_lookup("query: Bengyo", keys, weights, values, "0.7 Yoshua", columns)


def laughter():
    leaves = [Branch("ha", "0.55", note="0.33", role="query"), Branch("ho", "0.45", note="0.27")]
    first = Branch("ha", "0.6", leaves, role="query")
    return figures.tree(Branch("<start>", children=[first, Branch("ho", "0.4", note="0.40")]))


def dots(**changed):
    options = {"x": "right", "by": "model", "each": "groups", "where": {"words": 11},
               "names": {"fixed": "fixed context", "additive": "attention"},
               "xlabel": "exact match", "roles": {"fixed": "neutral"}}  # fmt: skip
    return figures.seed_dots(ROWS, **options | changed)


def maps(**changed):
    options = {"rows": ["layer 0, head 0", "layer 0, head 1"], "columns": ["a\n(1)", "b\n(2)", "c"],
               "values": True, "xlabel": "input", "ylabel": "output"}  # fmt: skip
    panels = {name: torch.arange(6).view(2, 3) / 6 for name in ("encoder", "decoder")}
    return figures.heat_maps(**{"panels": panels} | options | changed)


def attributed(**changed):
    values = torch.tensor([[0.1, -0.2, 0.3], [0.0, -12.5, 0.6]])
    given = {
        "images": dict.fromkeys(["integrated gradients", "eight in snow\nP(eight) = 0.98"],
                                torch.eye(24, 36)),
        "values": {"integrated gradients": values},
        "signed": ["integrated gradients"],
    }  # fmt: skip
    return figures.attribution_maps(**given | changed)


def points(**changed):
    options = {"x": "weight", "y": "flips", "by": "gru", "xlabel": "weight on the background",
               "names": {False: "without a GRU", True: "with a GRU"},
               "ylabel": "changed predictions"}  # fmt: skip
    rows = [{"weight": i / 5, "flips": i / 7, "gru": i % 2 == 0, "seed": i} for i in range(6)]
    return figures.run_points(rows, **options | changed)


def windows(**changed):
    near = (torch.arange(9) - torch.arange(11).unsqueeze(1)).abs() <= 2
    panels = {"local-m, D = 2": near.float(), "global": torch.ones(11, 9)}
    return figures.attention_windows(
        **{"panels": panels, "links": {(0, 0), (8, 10), (3, 7)}} | changed
    )


def pictures(**changed):
    images = {"a three left of an eight": torch.eye(24, 36), "mixing": torch.zeros(24, 36)}
    options = {"cell": 12, "outlines": {"mixing": [(0, 9, 15, 27), (9, 9, 24, 27)]}}
    return figures.image_panels(images, **options | changed)


def looks(**changed):
    words = ["a", "two", "left", "of", "a", "seven", "<end>"]
    weights = torch.eye(7, 6) + 0.01
    given = {"image": torch.eye(24, 36), "weights": weights, "words": words, "rows": 2}
    return figures.attention_on_image(**given | changed)


def traced():
    """The beam of size 2 over a language of two words, whose best sentence is "b b"."""
    first = [Prefix([1], 0, math.log(0.6)), Prefix([2], 0, math.log(0.4))]
    second = [Prefix([2, 2], 1, math.log(0.36)), Prefix([1, 1], 0, math.log(0.33))]
    finished = [
        Hypothesis([2, 2], math.log(0.36), 0.0, True),
        Hypothesis([1], math.log(0.1), 0.0, True),
    ]
    return Trace(finished, [[Prefix([], None, 0.0)], first, second])


def beam(**changed):
    options = {"trace": traced(), "name": {1: "a", 2: "b"}.get, "marked": {"value": [2, 2]}}
    return figures.beam(**options | changed)


def bars(**changed):
    panels = {"no change": [0.5, 0.3, 0.2], "top-k, k = 2": [0.6, 0.4, 0.0]}
    return figures.probability_bars(
        **{"panels": panels, "labels": ["one", "two", "three"]} | changed
    )


TABLE = torch.tensor([[0.0, 0], [1, 0], [2, 1], [-1, 3], [0, 2]])
VOCABULARY = ["<pad>", "the", "cat", "drank", "milk"]


def table_lookup(words=VOCABULARY, ids=(1, 2, 3, 1, 4), table=TABLE):
    return figures.embedding_lookup(words, torch.tensor(ids), table)


def window(centre=1):
    return figures.skip_gram_window(SRC[:5], centre, 2, ["street", "because"])


CROWD = {"animals": ["cat", "dog", "mouse"], "drinks": ["milk", "tea", "lemonade"]}


def word_map(points=((0, 0), (0, 0.02), (1, 1), (0.01, 0), (0, -0.02), (-1, 1))):
    return figures.word_map(torch.tensor(points), CROWD, "component")


def merged():
    rows = {"0": list("▁the▁cat"), "2": ["▁t", "he", *"▁cat"], "4,881": ["▁the", "▁cat"]}
    return figures.segmentations(rows, label="merges")


CORNERS = torch.tensor([[4.0, 1.0], [2.0, 3.0], [1.0, 2.0]])


def cone(values=CORNERS, **outputs):
    found = {"non-negative weights": torch.tensor([3.4, 3.8]), "equal weights": CORNERS.mean(0)}
    return figures.convex_combinations(values, outputs or found)


def regression(**changed):
    keys, queries = torch.tensor([[5.0], [1.0], [3.0]]), torch.linspace(0, 6, 5).unsqueeze(1)
    weights = torch.softmax(-((queries - keys.T) ** 2), dim=1)
    fits = {f"{name}, width 0.8": (weights @ keys, weights) for name in ("boxcar", "epanechnikov")}
    return figures.kernel_regression(keys, 2 * keys, queries, 2 * queries, fits | changed)


def distributions(**changed):
    scores = {"greedy": torch.arange(200.0), "beam": torch.arange(200.0) % 50 + 80}
    return figures.bootstrap_distributions(scores | changed, xlabel="BLEU")


LOG = [{"step": 10 * n, "train_loss": 4.0 / n, "validation_loss": 5.0 / n} for n in (1, 2, 3)]


def losses(**changed):
    panels = {letter: [LOG, LOG[1:]] for letter in "ABCD"}
    return figures.loss_panels(**{"panels": panels, "reference": LOG} | changed)


HISTORIES = {"attention": [2**20 * n for n in (1, 5, 2)], "fused": list(range(0, 2**20, 500))}


def memory(**changed):
    return figures.memory_curves(**{"histories": HISTORIES} | changed)


def padded(**changed):
    batches = {
        f"{name},\n64 sentences": torch.arange(9) < torch.tensor([[3], [longest], [5]])
        for name, longest in (("random", 9), ("sorted", 6))
    }
    return figures.batch_padding(**{"batches": batches} | changed)


def pair_of_curves(**changed):
    at = torch.arange(40)
    options = {"curves": {"pair 8": (at / 3).sin(), "pair 24": (at / 30).sin()}}
    return figures.position_curves(**options | changed)


def steps(words=("You", "are", "welcome"), heads=2, **changed):
    values = torch.arange(heads * 9.0).view(heads, 3, 3) - 9
    given = {"queries": values, "weights": values.softmax(dim=-1), "outputs": values / 7}
    return figures.multi_head_steps(torch.eye(3, 6), given | changed, torch.randn(3, 6), words)


def removals(values=(1.0, 0.9, 0.9, 0.2), kinds=("encoder", "cross", "encoder")):
    roles = {"encoder": "encoder", "cross": "key"}
    return figures.removal_curve(values, kinds, roles, xlabel="removed", ylabel="exact match")


def route(**changed):
    effects = dict.fromkeys([*pronouns.USED, *pronouns.UNUSED], 1.0)
    return figures.pronoun_route(effects | {("animal", name): 0.5 for name in changed})


def history(**changed):
    given = {
        "left": {"word2vec": date(2013, 1, 16), "ULMFiT": date(2018, 1, 18)},
        "right": {"GPT": date(2018, 6, 11), "T5": date(2019, 10, 23), "BART": date(2019, 10, 29)},
        "titles": ("RNNs", "Transformers"),
    }
    return figures.timeline(**given | changed)


DIAGRAMS = {
    "context_paths": lambda: figures.context_paths(SRC, TGT),
    "layer_paths": figures.layer_paths,
    "attention_step": lambda: figures.attention_step(torch.tensor([0.21, 0.25, 0.54])),
    "query_states": figures.query_states,
    "captioner": figures.captioner,
    "attention_lookup": lookup,
    "lookup with columns": lambda: lookup(
        ["0 1 1 0"] * 3, ["1 0 1 0"] * 3, {"word": list("abc"), "score": list("123")}
    ),
    "attention_flow": lambda: figures.attention_flow(torch.full((6, 6), 0.1), SRC, TGT),
    "encoder_decoder": lambda: figures.encoder_decoder(
        ["you", "are", "welcome", "<end>"], ["de", "rien", "<end>"], ["tu", "<end>"]
    ),
    "unrolled_network": lambda: figures.unrolled_network(SRC[:4]),
    "bidirectional_batch": lambda: figures.bidirectional_batch([SRC[:3], SRC[:5]]),
    "gru_cell": figures.gru_cell,
    "lstm_cell": figures.lstm_cell,
    "transformer": figures.transformer,
    "transformer_layers": figures.transformer_layers,
    "pronoun_route": route,
    "tree": laughter,
    "beam": beam,
    "skip_gram_window": window,
    "window at the start": lambda: window(0),
    "task_heads": figures.task_heads,
}
EXAMPLES = DIAGRAMS | {
    "seed_curves": curves,
    "embedding_lookup": table_lookup,
    "word_map": word_map,
    "long names": lambda: curves(names={"additive": "with skip connections", "fixed": "attention"}),
    "marked panels": lambda: curves(panel="seed"),
    "panels": lambda: curves(panel="model", by="seed", names=None),
    "seed_dots": dots,
    "convex_combinations": cone,
    "kernel_regression": regression,
    "bootstrap_distributions": distributions,
    "clock_hands": lambda: figures.clock_hands([0, 1, 2, 3, 100, 200, 300], 4),
    "encoding_heat_map": lambda: figures.encoding_heat_map(sinusoids(50, 20)),
    "position_curves": pair_of_curves,
    "marked position_curves": lambda: pair_of_curves(marked=(2, 15, 35), ylabel="value"),
    "marked dots": lambda: dots(marks={"any cell": 0.2, "any digit": 0.5}),
    "heat_maps": maps,
    "attribution_maps": attributed,
    "run_points": points,
    "image_panels": pictures,
    "attention_on_image": looks,
    "probability_bars": bars,
    "segmentations": merged,
    "loss_panels": losses,
    "memory_curves": memory,
    "batch_padding": padded,
    "attention_windows": windows,
    "maps of words": lambda: maps(columns=SRC[:3], values=False, gold={(2, 0), (0, 1)}),
    "multi_head_steps": steps,
    "removal_curve": removals,
    "timeline": history,
    "six maps": lambda: maps(panels={str(i): torch.eye(3) for i in range(6)}, rows=list("123"),
                             columns=list("123"), across=2, values=False),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_text_is_legible_on_a_phone_and_does_not_overlap(name):
    figure = EXAMPLES[name]()
    assert overlapping(figure) == []
    assert smallest_text(figure) >= 11


def crossed(figure):
    """Return the arrows that pass through a node that is not theirs."""
    found = []
    shapes = {
        name: (shape.get_x(), shape.get_y(), shape.get_width(), shape.get_height())
        for name, shape in nodes(figure).items()
        if isinstance(shape, FancyBboxPatch) and shape.get_linestyle() in ("-", "solid")
    }
    shapes |= {
        name: (
            shape.center[0] - shape.radius,
            shape.center[1] - shape.radius,
            *[2 * shape.radius] * 2,
        )
        for name, shape in nodes(figure).items()
        if isinstance(shape, Circle)
    }
    for ends_, arrow in arrows(figure).items():
        points = arrow._path_original.interpolated(50).vertices
        for name, (x, y, width, height) in shapes.items():
            inside = (points > (x, y)) & (points < (x + width, y + height))
            if name not in ends_ and inside.all(axis=1).any():
                found.append((*ends_, name))
    return found


@pytest.mark.parametrize("name", DIAGRAMS)
def test_no_arrow_passes_through_a_node(name):
    assert crossed(DIAGRAMS[name]()) == []


def test_an_arrow_through_a_node_would_be_seen():
    row = {name: Node(name, (60 * i, 0)) for i, name in enumerate("abc")}
    assert crossed(diagram(row, [Edge("a", "c")])) == [("a", "c", "b")]
    assert crossed(diagram(row, [Edge("a", "c", via=[(0, 40), (120, 40)])])) == []


def test_small_and_crowded_text_would_be_seen():
    wide = diagram({"a": Node("left", (0, 0)), "b": Node("right", (400, 0))})
    assert smallest_text(wide) < 11
    wide.axes[0].text(2, 0, "on it")
    assert overlapping(wide) == [("left", "on it")]


def baselines(figure):
    """Return the height of each word's baseline, in points."""
    file = StringIO()
    figure.savefig(file, format="svg")
    drawn = re.findall(r"<!-- (\w+) -->\s*<g [^>]*translate\([\d.]+ ([\d.]+)\)", file.getvalue())
    return {word: float(height) for word, height in drawn}


def test_words_in_a_row_have_one_baseline(monkeypatch):
    words = ["ace", "dog", "lid"]
    row = {word: Node(word, (60 * i, 0), None, "text") for i, word in enumerate(words)}
    heights = baselines(diagram(row))
    assert [*heights] == words
    assert len({*heights.values()}) == 1
    write = Axes.text
    monkeypatch.setattr(Axes, "text", lambda *at, **how: write(*at, **how | {"va": "center"}))
    assert len({*baselines(diagram(row)).values()}) == 3


# --- diagrams ---


def test_a_diagram_has_its_nodes_and_arrows():
    figure = diagram(
        {"q": Node("query", (0, 0), "query"), "k": Node("key", (0, 60), "key", "circle")},
        [Edge("q", "k", "query", label="asks")],
    )
    assert sorted(texts(figure)) == ["asks", "key", "query"]
    assert {*nodes(figure)} == {"q", "k"}
    assert to_hex(nodes(figure)["k"].get_edgecolor()) == COLOURS["key"]
    assert to_hex(arrows(figure)["q", "k"].get_edgecolor()) == COLOURS["query"]
    assert figure.axes[0].get_aspect() == "auto"  # points both ways, as the size of the figure
    width, height = figure.get_size_inches() * 72
    (left, right), (bottom, top) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert (right - left, top - bottom) == pytest.approx((width, height))


@pytest.mark.parametrize("shape", ["box", "circle"])
@pytest.mark.parametrize("at", [(90, 0), (0, 70), (-80, 50), (-90, -90), (60, 8)])
def test_arrows_lead_from_border_to_border(shape, at):
    figure = diagram(
        {"a": Node("one", (0, 0), shape="box"), "b": Node("two", at, shape=shape)}, [Edge("a", "b")]
    )
    found = ends(figure, "a", "b")
    assert all(0 < distance < 5 for distance in found), found


def test_an_arrow_into_its_node_or_away_from_it_would_be_seen(monkeypatch):
    two = {"a": Node("one", (0, 0)), "b": Node("two", (90, 30))}
    monkeypatch.setattr(Node, "border", lambda node, towards: node.at)
    assert ends(diagram(two, [Edge("a", "b")]), "a", "b") == [-1, -1]
    monkeypatch.setattr(Node, "border", lambda node, towards: (45, 15))
    assert min(ends(diagram(two, [Edge("a", "b")]), "a", "b")) > 5


@pytest.mark.parametrize("bend", [-0.3, 0.3])
def test_bent_arrows_and_arrows_with_corners_end_at_their_nodes(bend):
    two = {"a": Node("one", (0, 0)), "b": Node("two", (90, 30))}
    bent = diagram(two, [Edge("a", "b", bend=bend)])
    cornered = diagram(two, [Edge("a", "b", via=[(0, 60), (90, 60)])])
    for figure in (bent, cornered):
        assert all(0 < distance < 5 for distance in ends(figure, "a", "b"))
    middle = arrows(bent)["a", "b"]._path_original.vertices[1]
    assert (middle[1] > 15) == (bend > 0)  # to the left of the direction for more than 0


def test_a_wide_box_is_met_at_a_right_angle():
    figure = diagram(
        {"wide": Node("wide", (100, 50), size=(200, 20)), "a": Node("a", (30, 0))},
        [Edge("a", "wide")],
    )
    start, end = arrows(figure)["a", "wide"]._path_original.vertices
    assert start[0] == end[0] == 30
    assert end[1] == pytest.approx(38)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: diagram({}), "needs a node"),
        (lambda: diagram({"a": Node("a", (0, 0))}, [Edge("a", "b")]), r"no node 'b'; .* 'a'"),
        (
            lambda: diagram({"a": Node("long", (0, 0)), "b": Node("words", (20, 0))}),
            r"'a' at \(0, 0\) and 'b' at \(20, 0\) overlap",
        ),
        (lambda: Node("a", (0, 0), "keys"), "role='keys' is unknown: choose of query, key"),
        (lambda: Node("a", (0, 0), shape="star"), "shape='star' is unknown"),
        (lambda: Node("a", (0, 0), shape="frame"), "frame 'a' needs a size"),
        (lambda: Edge("a", "b", "keys"), "role='keys' is unknown"),
        (lambda: Edge("a", "b", bend=0.1, via=[(0, 0)]), "from 'a' to 'b' has bend and via"),
        (lambda: diagram({"a": Node("a", (0, 0))}, [Edge("a", "a")]), "has no direction"),
    ],
)
def test_a_diagram_refuses(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_text_is_measured_as_it_is_drawn():
    for words in ("annotations", r"$s_{i-1}$", "two\nlines here", "<end>"):
        figure = diagram({"a": Node(words, (0, 0), shape="text"), "b": Node("b", (200, 0))})
        ((_, extent),) = [box for box in boxes(figure) if box[0] == words]
        drawn = extent.width * 72 / figure.dpi
        assert text_size(words)[0] == pytest.approx(drawn, abs=3)


# --- paths ---


def test_the_fixed_context_is_reached_through_all_later_states():
    fixed, direct = "fixed context: ", "attention: "
    figure = figures.context_paths(SRC, TGT, source=2, target=4)
    steps = {(a.removeprefix(fixed), b.removeprefix(fixed)) for a, b in bold(figure)
             if a.startswith(fixed)}  # fmt: skip
    assert steps == {("h2", "h3"), ("h3", "h4"), ("h4", "h5"), ("h5", "c"), ("c", "s4")}
    steps = {(a.removeprefix(direct), b.removeprefix(direct)) for a, b in bold(figure)
             if a.startswith(direct)}  # fmt: skip
    assert steps == {("h2", "c"), ("c", "s4")}


def test_both_diagrams_show_every_word():
    figure = figures.context_paths(SRC, TGT)
    assert all(texts(figure).count(word) == 2 * (SRC + TGT).count(word) for word in {*SRC, *TGT})
    assert {"fixed context", "attention"} <= {*texts(figure)}
    assert "context $c_{6}$" in texts(figure)
    read = {a for a, b in arrows(figure) if b == "attention: c"}
    assert read == {f"attention: h{j}" for j in range(6)}
    written = {b for a, b in arrows(figure) if a == "fixed context: c"}
    assert written == {f"fixed context: s{i}" for i in range(6)}


@pytest.mark.parametrize(("source", "target"), [(5, 0), (0, 5), (0, 0)])
def test_a_path_may_begin_and_end_at_any_word(source, target):
    figure = figures.context_paths(SRC, TGT, source, target)
    assert overlapping(figure) == []
    assert len(bold(figure)) == (6 - source) + 1 + 2


def test_long_sentences_get_a_wider_figure():
    figure = figures.context_paths([*SRC, *SRC], TGT, source=11)
    assert overlapping(figure) == []
    assert figure.get_size_inches()[0] > 5


@pytest.mark.parametrize(("source", "target"), [(6, 0), (-1, 0), (0, 6)])
def test_a_path_ends_at_words_that_are_there(source, target):
    with pytest.raises(ValueError, match=r"(source|target)=\S+ lies outside the 6 \1 words"):
        figures.context_paths(SRC, TGT, source, target)


def test_the_path_through_a_layer_is_as_long_as_its_title_says():
    figure = figures.layer_paths(10, 4)
    lengths = {"self-attention": 1, "recurrent layer": 10, "dilated convolutions": 2,
               "convolutions": 3}  # fmt: skip
    for title, length in lengths.items():
        path = [(a, b) for a, b in bold(figure) if a.startswith(f"{title} ")]
        assert len(path) == length
        assert f"{title}: path length {length}" in texts(figure)
        assert f"{title} 0 0" in {a for a, _ in path}
    reads = {(a, b) for a, b in arrows(figure) if b == "dilated convolutions 2 9"}
    assert {a.split()[-1] for a, _ in reads} == {"9", "5", "1"}
    assert len([a for a, _ in arrows(figure) if a.startswith("self-attention")]) == 100


@pytest.mark.parametrize("sizes", [(1, 3), (9, 1)])
def test_a_path_through_layers_needs_two_positions(sizes):
    with pytest.raises(ValueError, match=r"=1 is too small"):
        figures.layer_paths(*sizes)


# --- encoder and decoder ---


def test_inputs_are_the_labels_shifted_right_or_the_outputs_before():
    figure = figures.encoder_decoder(["a", "b"], ["x", "y"], ["u", "v", "w"])
    shown, joined = texts(figure), {*arrows(figure)}
    assert [shown.count(word) for word in ("x", "y", "u", "v", "w")] == [2, 1, 2, 2, 1]
    assert shown.count("<start>") == 2
    assert {("free out1", "free in2"), ("free out2", "free in3")} <= joined
    assert not any(a.startswith("forced out") for a, _ in joined)
    for panel, steps in (("forced", 2), ("free", 3)):
        assert {b for a, b in joined if a == f"{panel} c"} == {
            f"{panel} s{i}" for i in range(1, steps + 1)
        }
        assert {a for a, b in joined if b == f"{panel} c"} == {f"{panel} h0", f"{panel} h1"}
        assert (f"{panel} h0", f"{panel} s0") in joined


def test_without_own_words_there_is_one_panel():
    figure = figures.encoder_decoder(["a"], ["x"])
    assert {name.split()[0] for name in nodes(figure)} == {"forced"}


def test_the_steps_of_a_long_target_stay_apart():
    figure = figures.encoder_decoder(SRC, [*TGT, "<end>"])
    assert overlapping(figure) == []
    assert crossed(figure) == []


@pytest.mark.parametrize(("src", "tgt", "side"), [([], ["x"], "source"), (["a"], [], "target")])
def test_an_encoder_decoder_needs_words(src, tgt, side):
    with pytest.raises(ValueError, match=f"needs a {side} word"):
        figures.encoder_decoder(src, tgt)


# --- one step of attention ---


def test_an_attention_step_shows_its_weights():
    figure = figures.attention_step(torch.tensor([0.21, 0.25, 0.54]))
    said = texts(figure)
    assert {"0.21 $h_{1}$", "0.25 $h_{2}$", "0.54 $h_{3}$", "softmax"} <= {*said}
    assert {"encoder\noutputs", "scores", "weights", "context"} <= {*said}
    bars = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    heights = torch.tensor([bar.get_height() for bar in bars])
    torch.testing.assert_close(heights / heights.sum(), torch.tensor([0.21, 0.25, 0.54]))
    assert len({bar.get_y() for bar in bars}) == 1
    joined = {*arrows(figure)}
    for j in (1, 2, 3):
        assert {(f"h{j}", f"e{j}"), ("query", f"e{j}"), (f"e{j}", "softmax"),
                (f"a{j}", "c")} <= joined  # fmt: skip
    assert {("query", "s"), ("c", "s"), ("word", "s")} <= joined


def test_an_attention_step_takes_any_number_of_source_words():
    figure = figures.attention_step(torch.full((5,), 0.2))
    assert overlapping(figure) == []


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.tensor([0.5, 0.4]), "sum to 1, not to 0.9"),
        (torch.tensor([1.5, -0.5]), "must be 0 or more"),
        (torch.ones(1), r"shape \(1,\)"),
        (torch.full((2, 2), 0.5), r"shape \(2, 2\): give those of one query"),
    ],
)
def test_an_attention_step_refuses(weights, message, unchecked):
    with pytest.raises(ValueError, match=message):
        figures.attention_step(weights)


# --- curves over seeds ---


def drawn(figure):
    return {
        line.get_label(): line.get_xydata().round(3).tolist()
        for line in figure.axes[0].get_lines()
        if not line.get_label().startswith("_")
    }


def test_curves_are_means_and_bands_reach_from_worst_to_best():
    figure = curves()
    assert drawn(figure) == {
        "attention": [[5, 0.9], [11, 0.8], [17, 0.5]],
        "fixed context": [[5, 0.6], [11, 0.4], [17, 0.2]],
    }
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert sorted({round(y, 3) for x, y in band if x == 11}) == [0.7, 0.9]
    assert figure.axes[0].get_xlabel() == "length (words)"
    assert figure.axes[0].get_ylabel() == "exact match"
    assert {text.get_text() for text in figure.axes[0].get_legend().texts} == {
        "attention",
        "fixed context",
    }


def test_curves_differ_in_more_than_colour():
    lines = [line for line in curves().axes[0].get_lines() if not line.get_label().startswith("_")]
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert len({getattr(line, look)() for line in lines}) == 2


def marks(figure):
    lines = [line.get_xdata() for line in figure.axes[0].get_lines()]
    return [line[0] for line in lines if len(line) == 2]


def test_what_was_not_seen_in_training_is_marked():
    figure = curves()
    assert marks(figure) == [14]
    assert "longer than\nin training" in texts(figure)
    assert marks(curves(seen=None)) == []
    assert marks(curves(seen=None, mark=8, mark_text="here")) == [8]
    text = next(t for t, _ in boxes(figure) if t == "longer than\nin training")
    box = dict(boxes(figure))[text]
    x = figure.axes[0].transData.transform((14, 0))[0]
    assert box.x0 == pytest.approx(x, abs=2)  # to the right of the mark
    assert box.y0 > figure.axes[0].get_window_extent().y1  # no curve is there


def test_names_choose_conditions():
    assert {*drawn(curves(names={"fixed": "one"}))} == {"one"}
    assert {*drawn(curves(names=None))} == {"additive", "fixed"}
    by = curves(by=lambda row: row["model"].upper(), names=None)
    assert {*drawn(by)} == {"ADDITIVE", "FIXED"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": []}, "no rows to draw"),
        ({"y": "wrong"}, "no row has the key 'wrong'"),
        ({"each": "wrong"}, "no row has the key 'wrong'"),
        ({"names": {"dot": "dot"}}, "no row belongs to 'dot'"),
        ({"rows": ROWS + [ROWS[0] | {"groups": [{"words": 5, "right": 0, "seen": True}]}]},
         "several values for seed 0 at x=5"),
        ({"seen": lambda row: row["words"] > 5}, "mark needs rows"),
    ],
)  # fmt: skip
def test_curves_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        curves(**changed)


def test_panels_have_their_rows_alone_and_logarithms_a_geometric_mean():
    rows = [
        {"seed": seed, "x": 1, "y": y, "name": "a", "kind": kind}
        for kind, values in (("one", (1, 100)), ("two", (4, 4)))
        for seed, y in enumerate(values)
    ]
    figure = figures.seed_curves(rows, x="x", y="y", by="name", panel="kind", yscale="log")
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["one", "two"]
    means = [ax.get_lines()[0].get_ydata()[0] for ax in figure.axes]
    assert means == pytest.approx([10, 4])
    linear = figures.seed_curves(rows, x="x", y="y", by="name", panel="kind")
    assert linear.axes[0].get_lines()[0].get_ydata()[0] == pytest.approx(50.5)


def test_a_logarithmic_axis_within_one_power_of_ten_has_plain_numbers():
    rows = [{"seed": 0, "x": x, "y": y, "name": "a"} for x, y in ((1, 2.1), (2, 3.4))]
    (ax,) = figures.seed_curves(rows, x="x", y="y", by="name", yscale="log").axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert {"2.5", "3"} <= set(labels)
    assert not any("times" in label for label in labels)
    assert not any(label.get_text() for label in ax.get_yticklabels(minor=True))


def test_dots_are_seeds_and_bars_their_mean():
    figure = dots()
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fixed context", "attention"]
    bars, seeds = ax.get_lines()[::2], ax.get_lines()[1::2]
    assert [bar.get_xdata()[0] for bar in bars] == pytest.approx([0.4, 0.8])
    assert sorted(seeds[1].get_xdata()) == pytest.approx([0.7, 0.8, 0.9])
    assert [bar.get_color() for bar in bars] == [COLOURS["neutral"], COLOURS["query"]]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # read from the top
    assert ax.get_xlabel() == "exact match"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"where": {"words": 6}}, "no rows to draw with {'words': 6}"),
        ({"names": {"dot": "dot"}}, "no row belongs to 'dot'"),
        ({"roles": {"fixed": "grey"}}, "role='grey' is unknown"),
    ],
)
def test_dots_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        dots(**changed)


def test_values_for_comparison_are_named_lines():
    figure = dots(marks={"any cell": 0.2, "any digit": 0.5})
    lines = [line.get_xdata()[0] for line in figure.axes[0].get_lines()[-2:]]
    assert lines == [0.2, 0.5]
    assert {"any cell", "any digit"} <= {*texts(figure)}
    assert figure.axes[0].get_xlim()[0] == 0


# --- images ---


def test_images_have_a_grid_and_outlines():
    plain, outlined = pictures().axes
    assert [ax.get_title() for ax in (plain, outlined)] == ["a three left of an eight", "mixing"]
    (image,) = plain.get_images()
    assert image.get_array()[3, 3] == 1
    assert image.get_extent() == [0, 36, 24, 0]
    assert [len(lines.get_segments()) for lines in plain.collections] == [1, 2]
    assert not plain.patches
    boxes_ = [(p.get_y(), p.get_x(), p.get_height(), p.get_width()) for p in outlined.patches]
    assert boxes_ == [(0, 9, 15, 18), (9, 9, 15, 18)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"panels": {}}, "needs an image"), ({"outlines": {"x": []}}, "there is no image 'x'")],
)
def test_images_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        figures.image_panels(**{"panels": {"a": torch.zeros(2, 3)}, "cell": 1} | changed)


def test_attention_on_an_image_has_a_map_for_each_word():
    figure = looks()
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["a", "two", "left", "of", "a", "seven", "<end>"]
    weights, ink = figure.axes[4].get_images()
    assert weights.get_array().shape == (2, 3)
    assert weights.get_array()[1, 1] == pytest.approx(1.01)  # location 4 of the fifth word
    assert ink.get_array()[3, 3].tolist() == [0, 0, 0, 1]
    assert ink.get_array()[3, 4, 3] == 0  # paper is transparent


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"words": ["a"]}, "1 words do not fit"), ({"rows": 4}, "6 locations do not fill 4 rows")],
)
def test_attention_on_an_image_refuses(changed, message):
    with pytest.raises(ValueError, match=message):
        looks(**changed)


def test_a_captioner_asks_with_the_state_before_the_word():
    joined = {*arrows(figures.captioner())}
    assert ("state", "attention") in joined
    assert ("new", "attention") not in joined


# --- one query ---


def test_a_lookup_has_a_line_for_each_key_as_wide_as_its_weight():
    figure = lookup(columns={"score": ["3", "2", "1"], "word": ["x", "y", "z"]})
    assert {*NAMES, *FIRST, "0.72", "0.20", "0.08", "3", "x", "score"} <= {*texts(figure)}
    bars = [p.get_width() for p in figure.axes[0].patches if p.get_label() == "weight"]
    assert bars == pytest.approx([0.72 * 22, 0.2 * 22, 0.08 * 22])
    for pairs in ([("query", f"key {i}") for i in range(3)],
                  [(f"value {i}", "context") for i in range(3)]):  # fmt: skip
        widths = [arrows(figure)[pair].get_linewidth() for pair in pairs]
        assert widths == pytest.approx([0.7 + 3 * w for w in (0.72, 0.2, 0.08)])
        for pair in pairs:
            assert all(0 < distance < 5 for distance in ends(figure, *pair))
    heights = [nodes(figure)[f"key {i}"].get_y() for i in range(3)]
    assert heights == [nodes(figure)[f"value {i}"].get_y() for i in range(3)]


@pytest.mark.parametrize("changed", ["keys", "values", "score"])
def test_a_lookup_refuses_other_numbers(changed):
    options = {changed: ["a"]} if changed != "score" else {"columns": {"score": ["a"]}}
    with pytest.raises(ValueError, match=f"3 weights do not fit 1 {changed}"):
        lookup(**options)


def test_a_flow_has_a_line_for_each_large_weight():
    weights = torch.tensor([[0.9, 0.1, 0.0], [0.02, 0.38, 0.6]])
    figure = figures.attention_flow(weights, ["a", "b", "c"], ["d", "e"])
    lines = {
        (int(a[-1]), int(b[-1])): line.get_linewidth() for (a, b), line in arrows(figure).items()
    }
    assert set(lines) == {(0, 0), (1, 0), (1, 1), (2, 1)}
    assert lines[0, 0] == pytest.approx(0.5 + 4 * 0.9)
    assert sorted(texts(figure)) == ["a", "b", "c", "d", "e"]


def test_a_flow_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"shape \(2, 2\) do not fit 1 target and 2 source"):
        figures.attention_flow(torch.ones(2, 2), ["a", "b"], ["c"])


def test_the_query_is_the_previous_state_or_the_current_one():
    joined = {*arrows(figures.query_states())}
    assert ("bahdanau old", "bahdanau scores") in joined
    assert ("bahdanau context", "bahdanau new") in joined
    assert ("luong new", "luong scores") in joined
    assert ("luong context", "luong new") not in joined
    dashed = [pair for pair, arrow in arrows(figures.query_states()).items()
              if arrow.get_linestyle() != "-"]  # fmt: skip
    assert dashed == [("luong fed", "luong new")]


# --- recurrent networks, layers, trees ---


def test_a_backward_rnn_starts_at_the_last_word_of_each_sentence():
    figure = figures.bidirectional_batch([["a", "b"], ["c", "d", "e"]])
    joined = {*arrows(figure)}
    assert {("0: f0", "0: f1"), ("0: b1", "0: b0"), ("0: end", "0: b1"), ("1: end", "1: b2"),
            ("0: start", "0: f0")} <= joined  # fmt: skip
    assert not any("2" in name for pair in joined for name in pair if name.startswith("0: "))
    assert texts(figure).count("<pad>") == 1
    assert {"forward RNN", "backward RNN", "$h_{3}$"} <= {*texts(figure)}


def test_an_unrolled_network_is_the_same_cell_at_every_word():
    figure = figures.unrolled_network(["a", "b", "c"])
    assert texts(figure).count("RNN") == 4
    joined = {*arrows(figure)}
    assert {
        ("cell", "cell"),
        ("cell 0", "cell 1"),
        ("cell 1", "cell 2"),
        ("x 2", "cell 2"),
    } <= joined


@pytest.mark.parametrize("words", [[], [[]]])
def test_recurrent_networks_need_words(words):
    draw = figures.bidirectional_batch if words else figures.unrolled_network
    with pytest.raises(ValueError, match="word"):
        draw(words)


def test_a_gru_cell_is_its_equations():
    joined = {*arrows(figures.gru_cell())}
    for gate in ("reset", "update"):
        assert {("x", gate), ("h", gate)} <= joined
    assert {a for a, b in joined if b == "forgotten"} == {"reset", "h"}  # r * (U h)
    assert {a for a, b in joined if b == "candidate"} == {"forgotten", "x"}
    assert {a for a, b in joined if b == "kept"} == {"update", "h"}  # z * h
    assert {a for a, b in joined if b == "mixed"} == {"update", "candidate"}  # (1 - z) * n
    assert {a for a, b in joined if b == "sum"} == {"kept", "mixed"}


def test_an_lstm_cell_is_its_equations():
    joined = {*arrows(figures.lstm_cell())}
    assert {a for a, b in joined if b == "kept"} == {"forget", "c"}  # f * c
    assert {a for a, b in joined if b == "written"} == {"input", "candidate"}  # i * g
    assert {a for a, b in joined if b == "sum"} == {"kept", "written"}
    assert {a for a, b in joined if b == "read"} == {"output", "tanh"}  # o * tanh(c)
    assert {("sum", "tanh"), ("sum", "memory"), ("read", "new")} <= joined


def test_residual_connections_lead_around_sub_layers():
    figure = figures.transformer_layers()
    drawn_ = nodes(figure)
    around = [pair for pair in arrows(figure) if "fork" in pair[0]]
    assert len(around) == 2 + 2 + 3
    for fork, plus in around:
        line = arrows(figure)[fork, plus]._path_original.vertices
        layer, _, name = plus.partition(": plus of ")
        box, norm = drawn_[f"{layer}: {name}"], drawn_[f"{layer}: norm of {name}"]
        assert line[0][1] < box.get_y() < box.get_y() + box.get_height() < line[-1][1]
        if "pre" in layer:  # the norm is inside the residual connection, otherwise after it
            assert line[0][1] < norm.get_y() < box.get_y()
        else:
            assert norm.get_y() > line[-1][1]
    assert ("memory", "decoder,\npre-norm: cross-\nattention") in arrows(figure)


def test_the_whole_transformer_is_drawn_from_tokens_to_tokens():
    figure = figures.transformer()
    drawn_, lines = nodes(figure), arrows(figure)
    for side, number in (("encoder", 2), ("decoder", 3)):
        around = [plus for fork, plus in lines if f"{side}: fork" in fork]
        assert len(around) == number
        frame = drawn_[f"{side} layer"]
        for name in (plus.replace("plus of ", "") for plus in around):
            box = drawn_[name]
            assert frame.get_y() < box.get_y()
            assert box.get_y() + box.get_height() < frame.get_y() + frame.get_height()
        tokens = "source tokens" if side == "encoder" else "target tokens"
        assert (tokens, f"{side}: input") in lines
    assert ("encoder: output", "decoder: cross-\nattention") in lines
    assert ("decoder: softmax", "decoder: output") in lines


def test_a_tree_has_a_line_for_each_leaf():
    figure = laughter()
    assert {*arrows(figure)} == {("0", "0.0"), ("0", "0.1"), ("0.0", "0.0.0"), ("0.0", "0.0.1")}
    assert {"<start>", "0.6", "0.55", "0.33", "0.40"} <= {*texts(figure)}
    heights = [nodes(figure)[name].get_y() for name in ("0.0.0", "0.0.1", "0.1")]
    assert heights == sorted(heights, reverse=True)
    thick = {pair for pair, arrow in arrows(figure).items() if arrow.get_linewidth() > 2}
    assert thick == {("0", "0.0"), ("0.0", "0.0.0")}


def test_a_beam_joins_each_hypothesis_to_the_one_that_it_extends():
    figure = beam()
    assert {"<start>\n1.000", "a\n0.600", "b\n0.360", "<end>\n0.100"} <= {*texts(figure)}
    assert {*arrows(figure)} == {("0.0", "1.0"), ("0.0", "1.1"), ("1.1", "2.0"), ("1.0", "2.1"),
                                 ("2.0", "end 2"), ("1.0", "end 1")}  # fmt: skip
    thick = {pair for pair, arrow in arrows(figure).items() if arrow.get_linewidth() > 2}
    assert thick == {("0.0", "1.1"), ("1.1", "2.0"), ("2.0", "end 2")}
    heights = [nodes(figure)[name].get_y() for name in ("0.0", "1.0", "2.0", "end 2")]
    assert heights == sorted(heights, reverse=True)
    assert nodes(figure)["end 1"].get_x() == nodes(figure)["end 2"].get_x()


def test_a_beam_needs_a_step():
    with pytest.raises(ValueError, match="needs a step"):
        beam(trace=Trace([], []))


# --- bars ---


def test_bars_are_probabilities_and_dots_are_zeros():
    figure = bars()
    heights = [[patch.get_height() for patch in ax.patches] for ax in figure.axes]
    assert heights == [[0.5, 0.3, 0.2], [0.6, 0.4, 0.0]]
    assert [list(ax.get_lines()[0].get_xdata()) for ax in figure.axes] == [[], [2]]
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    assert [t.get_text() for t in figure.axes[-1].get_xticklabels()] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"panels": {}}, "needs a distribution"),
        ({"labels": ["one"]}, "'no change' has 3 probabilities, but there are 1 labels"),
        ({"role": "grey"}, "role='grey' is unknown"),
    ],
)
def test_bars_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        bars(**changed)


# --- distributions ---


def test_distributions_are_of_both_systems_and_of_their_paired_difference():
    figure = distributions()
    upper, lower = figure.axes
    labels = [[t.get_text() for t in ax.get_legend().get_texts()] for ax in (upper, lower)]
    assert labels == [["greedy", "beam"], ["beam − greedy"]]
    ends = [tuple(line.get_xdata()) for line in upper.get_lines()]
    assert ends == [(5, 194), (81, 128)]  # 5 of 200 scores are left out at each end
    (bar, zero) = lower.get_lines()
    difference = (torch.arange(200.0) % 50 + 80 - torch.arange(200.0)).sort().values
    assert tuple(bar.get_xdata()) == (difference[5], difference[194])
    assert list(zero.get_xdata()) == [0, 0]
    first, second = (str(patch.get_linestyle()) for patch in upper.patches)
    assert first != second  # not colour alone


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"third": torch.arange(200.0)}, "two systems, not of 3"),
        ({"beam": torch.arange(7.0)}, "'greedy' has 200 scores and 'beam' 7"),
    ],
)
def test_distributions_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        distributions(**changed)


# --- training ---


def test_loss_panels_have_a_curve_for_each_run_and_the_reference():
    figure = losses()
    assert [ax.get_title(loc="left") for ax in figure.axes] == list("ABCD")
    for ax in figure.axes:
        reference, *curves_ = ax.get_lines()
        assert list(reference.get_ydata()) == [record["validation_loss"] for record in LOG]
        assert [len(curve.get_xdata()) for curve in curves_] == [3, 3, 2, 2]
        assert curves_[0].get_linestyle() != curves_[1].get_linestyle()  # not colour alone
        assert ax.get_yscale() == "log"
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["validation, no fault", "training", "validation"]
    (lines,) = [len(losses(panels={"A": [LOG]}, reference=[]).axes[0].get_lines())]
    assert lines == 2


@pytest.mark.parametrize(
    ("panels", "message"), [({}, "needs a panel"), ({"A": [LOG], "B": [[]]}, "'B' has no records")]
)
def test_loss_panels_refuse(panels, message):
    with pytest.raises(ValueError, match=message):
        losses(panels=panels)


def test_memory_curves_keep_the_peak_of_every_history():
    (ax,) = memory().axes
    for line, history in zip(ax.get_lines(), HISTORIES.values(), strict=True):
        assert max(line.get_ydata()) == pytest.approx(max(history) / 2**20)
        assert len(line.get_xdata()) <= 300
        assert line.get_xdata()[0] == 0
    first, second = ax.get_lines()
    assert list(first.get_xdata()) == [0, 50, 100]
    assert first.get_linestyle() != second.get_linestyle()  # not colour alone


@pytest.mark.parametrize(
    ("histories", "message"), [({}, "needs a history"), ({"a": [1], "b": []}, "'b' is empty")]
)
def test_memory_curves_refuse(histories, message):
    with pytest.raises(ValueError, match=message):
        memory(histories=histories)


def test_padding_is_light_and_batches_have_the_same_axes():
    figure = padded()
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim() == (-0.5, 8.5)
    assert first.get_ylim() == second.get_ylim() == (2.5, -0.5)
    (image,) = second.get_images()
    assert image.get_array().sum(axis=1).tolist() == [3, 6, 5]
    with pytest.raises(ValueError, match="needs a batch"):
        padded(batches={})


# --- heat maps ---


def test_values_in_a_heat_map_are_legible():
    shades = torch.linspace(0, 1, 41)[None]
    figure = figures.heat_maps({"map": shades}, ["row"], [str(i) for i in range(41)], values=True)
    ax = figure.axes[0]
    (image,) = ax.get_images()
    assert len(ax.texts) == 41
    for text, value in zip(ax.texts, shades[0].tolist(), strict=True):
        cell = to_hex(image.to_rgba(value))
        assert contrast(to_hex(text.get_color()), cell) >= 4.5, value


def test_heat_maps_show_their_labels_and_values():
    figure = maps()
    assert [ax.get_title() for ax in figure.axes] == ["encoder", "decoder"]
    assert {"0.00", "0.17", "0.83", "layer 0, head 1", "a\n(1)"} <= {*texts(figure)}
    for ax in figure.axes:
        (image,) = ax.get_images()
        assert image.get_clim() == (0, 1)
        colours = {text.get_text(): text.get_color() for text in ax.texts}
        assert (colours["0.17"], colours["0.83"]) == ("black", "white")
    own = maps(columns={"encoder": list("xyz"), "decoder": list("uvw")})
    assert [ax.get_xticklabels()[0].get_text() for ax in own.axes] == ["x", "u"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"panels": {}}, "needs a matrix"),
        ({"columns": ["a"]}, r"'encoder' of shape \(2, 3\) does not fit 2 row labels and 1 column"),
        ({"gold": {(1, 2)}}, r"gold link \(1, 2\) lies outside 'encoder' of \(2, 3\)"),
    ],
)
def test_heat_maps_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        maps(**changed)


def test_attributions_stand_on_their_cells_and_a_sign_has_a_colour():
    figure = attributed()
    with_values, alone = figure.axes
    assert [t.get_text() for t in with_values.texts] == [
        "0.10", "−0.20", "0.30", "0.00", "−12.50", "0.60"
    ]  # fmt: skip
    assert [t.get_position()[0] for t in with_values.texts[:3]] == [5.5, 17.5, 29.5]
    cells, ink = with_values.get_images()
    low, high = cells.get_clim()
    assert low == -high == pytest.approx(-1.3 * 12.5)
    assert ink.get_array()[0, 0, 3] > 0 == ink.get_array()[0, 1, 3]
    assert len(alone.get_images()) == 1
    assert not alone.texts
    weights = attributed(signed=[]).axes[0].get_images()[0]
    assert weights.get_clim()[0] == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"images": {}, "values": {}, "signed": []}, "needs an image"),
        ({"values": {"x": torch.eye(3)}}, "no image has the title 'x'"),
        ({"values": {"integrated gradients": torch.ones(5, 3)}}, r"\(5, 3\) do not divide"),
    ],
)
def test_attributions_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        attributed(**changed)


def test_points_are_rows():
    (ax,) = points().axes
    without, with_gru = ax.get_lines()
    assert without.get_xdata().tolist() == pytest.approx([0.2, 0.6, 1.0])
    assert with_gru.get_ydata().tolist() == pytest.approx([0, 2 / 7, 4 / 7])
    assert without.get_marker() != with_gru.get_marker()
    assert without.get_linestyle() == "None"


def test_points_refuse():
    with pytest.raises(ValueError, match="no row belongs to 'a third'"):
        points(names={"a third": "a third"})
    with pytest.raises(ValueError, match="no rows"):
        figures.run_points([], x="x", y="y", by="by")


def test_gold_links_are_outlined_in_every_map():
    figure = maps(gold={(2, 0), (0, 1)}, values=False)
    for ax in figure.axes:
        assert {patch.get_xy() for patch in ax.patches} == {(1.5, -0.5), (-0.5, 0.5)}
        assert {label.get_rotation() for label in ax.get_xticklabels()} == {90.0}


# --- windows ---


def test_links_outside_of_a_window_have_another_mark():
    figure = windows()
    assert [ax.get_title() for ax in figure.axes] == ["local-m, D = 2", "global"]
    marked = [
        {line.get_marker(): {*zip(*line.get_data(), strict=True)} for line in ax.get_lines()}
        for ax in figure.axes
    ]
    assert marked[0] == {"s": {(0, 0), (8, 10)}, "x": {(3, 7)}}
    assert marked[1] == {"s": {(0, 0), (8, 10), (3, 7)}, "x": set()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"panels": {}}, "needs the window of an attention"),
        ({"panels": {"a": torch.ones(2, 3), "b": torch.ones(3, 2)}}, r"'b' of \(3, 2\) differs"),
        ({"links": {(9, 0)}}, r"link \(9, 0\) lies outside 9 source and 11 target words"),
    ],
)
def test_windows_refuse(changed, message):
    with pytest.raises(ValueError, match=message):
        windows(**changed)


# --- word vectors ---


def filled(figure):
    """Return the positions of filled cells, by row from the top and column from the left."""
    cells = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    return [
        (round((-cell.get_y() - cell.get_height()) / 21), to_hex(cell.get_facecolor()))
        for cell in cells
        if to_hex(cell.get_facecolor()) != "#ffffff"
    ]


def test_a_lookup_copies_rows_in_the_colour_of_their_word():
    figure = table_lookup()
    by_row = filled(figure)
    assert [row for row, _ in by_row] == [0, 1, 2, 3, 4]  # one filled cell for each position
    assert by_row[0][1] == by_row[3][1]  # both are "the"
    assert len({colour for _, colour in by_row}) == 4
    shown = texts(figure)
    assert shown.count("the") == 3  # twice in the sentence and once in the table
    assert shown.count("−1") == 2  # in the table and in the result


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"words": ["a"]}, "1 words do not fit a table of 5 rows"),
        ({"ids": (5,)}, "do not all belong to 5 words"),
        ({"words": list("abcdefgh"), "table": torch.zeros(8, 2)}, "8 words, but there are 7"),
    ],
)
def test_a_table_lookup_refuses(changed, message):
    with pytest.raises(ValueError, match=message):
        table_lookup(**changed)


def test_the_centre_is_joined_to_its_window_and_to_negatives():
    assert {*arrows(window())} == {
        *(("word 1", f"word {i}") for i in (0, 2, 3)),
        *(("word 1", f"negative {i}") for i in (0, 1)),
    }
    dashed = {end for (_, end), arrow in arrows(window()).items() if arrow.get_linestyle() != "-"}
    assert dashed == {"negative 0", "negative 1"}
    with pytest.raises(ValueError, match="centre=5 lies outside a sentence of 5 words"):
        window(5)


def test_a_map_labels_every_point():
    figure = word_map()
    assert {word for group in CROWD.values() for word in group} <= {*texts(figure)}
    assert {"animals", "drinks", "component 1", "component 2"} <= {*texts(figure)}
    sizes = [len(points.get_offsets()) for points in figure.axes[0].collections]
    assert sizes == [3, 3]
    colours = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert colours["cat"] == COLOURS["query"]
    assert colours["tea"] == COLOURS["key"]
    with pytest.raises(ValueError, match="1 points do not fit 6 words"):
        word_map([(0.0, 0.0)])
    with pytest.raises(ValueError, match="8 groups, but there are 7 colours"):
        figures.word_map(torch.zeros(8, 2), {str(i): ["x"] for i in range(8)})


def covered(figure):
    """Return the labels of a map that lie on a point."""
    spots = [
        spot
        for points in figure.axes[0].collections
        for spot in figure.axes[0].transData.transform(points.get_offsets())
    ]
    labels = {text.get_text() for text in figure.axes[0].texts}
    return {
        word
        for word, box in boxes(figure)
        if word in labels and any(box.padded(2).contains(*spot) for spot in spots)
    }


CLUSTER = ((0, 0), (0.02, 0.02), (-0.02, 0.03), (0.02, -0.02), (1, 1), (-1, -1))


def test_labels_of_a_cluster_cover_neither_each_other_nor_a_point(monkeypatch):
    assert overlapping(word_map(CLUSTER)) == []
    assert covered(word_map(CLUSTER)) == set()
    monkeypatch.setattr(word_vectors, "_shifts", lambda: [(1.0, 0.0)])
    assert len(overlapping(word_map(CLUSTER))) > 2
    assert {"cat", "mouse"} <= covered(word_map(CLUSTER))


# --- segmentations ---


def test_segmentations_have_a_box_for_each_subword():
    figure = merged()
    labels = [box.get_label() for box in figure.axes[0].patches]
    assert labels[:2] == ["▁the", "▁cat"]  # from below
    assert labels[2:] == ["▁t", "he", *"▁cat", *"▁the▁cat"]
    assert {"merges", "tokens", "0", "2", "4,881", "6", "8"} <= {*texts(figure)}
    blue, grey = COLOURS["query"], COLOURS["neutral"]
    for box in figure.axes[0].patches:
        assert to_hex(box.get_edgecolor()) == (blue if box.get_label()[0] == "▁" else grey)
    for one, other in itertools.pairwise(figure.axes[0].patches[2:8]):
        assert one.get_x() + one.get_width() < other.get_x()


@pytest.mark.parametrize(
    ("rows", "message"), [({}, "needs a row"), ({"0": ["a"], "1": ["b"]}, "spell one text")]
)
def test_segmentations_refuse(rows, message):
    with pytest.raises(ValueError, match=message):
        figures.segmentations(rows)


# --- pooling ---


def test_the_cone_contains_the_triangle_of_the_values():
    figure = cone()
    (ax,) = figure.axes
    cone_, triangle = (patch.get_path() for patch in ax.patches)
    assert cone_.contains_points(0.99 * CORNERS.numpy(), radius=1e-6).all()
    assert triangle.contains_point(CORNERS.mean(0).numpy())
    assert not triangle.contains_point((3.4, 3.8))
    points = {line.get_label(): line.get_xydata()[0].tolist() for line in ax.get_lines()}
    assert points["equal weights"] == pytest.approx(CORNERS.mean(0).tolist())
    assert {"non-negative weights", "$v_{1}$", "$v_{3}$"} <= {*texts(figure)}
    assert min(limit[1] for limit in (ax.get_xlim(), ax.get_ylim())) > 3.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cone(torch.ones(2, 2)), "three values"),
        (lambda: cone(-CORNERS), "of 0 or more"),
        (lambda: cone(**{str(i): CORNERS[0] for i in range(6)}), "6 outputs are too many"),
        (
            lambda: regression(a=(torch.ones(5, 1), torch.ones(3, 5))),
            r"'a': .* \(3, 5\) do not fit 5",
        ),
        (
            lambda: figures.kernel_regression(*[torch.ones(2, 1)] * 4, {}),
            "needs an output with its weights",
        ),
    ],
)
def test_figures_of_pooling_refuse(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_kernel_regression_sorts_its_keys_and_shares_one_scale():
    figure = regression()
    left, right = figure.axes[:2]
    assert {"pairs", "true curve", "output", "boxcar, width 0.8"} <= {*texts(figure)}
    assert [line.get_label() for line in left.get_lines()] == ["pairs", "true curve", "output"]
    (image,) = right.get_images()
    nearest = image.get_array().argmax(axis=1)
    assert nearest.tolist() == sorted(nearest)  # of queries from left to right
    limits = {ax.get_images()[0].get_clim() for ax in figure.axes if ax.get_images()}
    assert limits == {(0, image.get_array().max())}


# --- positional encodings ---


def test_a_hand_points_to_the_sine_and_cosine_of_its_angle():
    figure = figures.clock_hands([0, 1, 100], 4)
    (ax,) = figure.axes
    faces = [patch for patch in ax.patches if isinstance(patch, Circle)]
    hands = [line.get_xydata() for line in ax.get_lines() if len(line.get_xydata()) == 2]
    assert len(faces) == len(hands) == 6
    angles = [0, 0, 1, 0.01, 100, 1]  # radians, by position and then by hand
    for face, hand, angle in zip(faces, hands, angles, strict=True):
        assert hand[0].tolist() == pytest.approx(face.center)
        x, y = (hand[1] - hand[0]) / face.radius
        assert (x, -y) == pytest.approx((math.sin(angle), math.cos(angle)), abs=1e-4)  # y: down
    assert {"hand 0", "hand 1", "0", "1", "100", "position"} <= {*texts(figure)}


def test_encodings_are_drawn_from_minus_one_to_one():
    encodings = sinusoids(50, 20)
    (image,) = figures.encoding_heat_map(encodings).axes[0].get_images()
    assert image.get_clim() == (-1, 1)
    assert torch.equal(torch.tensor(image.get_array().data), encodings)


def test_position_curves_start_at_the_first_position_and_mark_some():
    figure = pair_of_curves(first=-20, marked=(-5, 10))
    line, points, other, _ = figure.axes[0].get_lines()
    assert line.get_xdata()[[0, -1]].tolist() == [-20, 19]
    assert points.get_xydata()[1].tolist() == [10, line.get_ydata()[30]]
    assert (line.get_label(), other.get_label()) == ("pair 8", "pair 24")
    assert line.get_linestyle() != other.get_linestyle()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: figures.clock_hands([], 4), "needs a position"),
        (lambda: figures.clock_hands([1], 3), "d_model=3"),
        (lambda: pair_of_curves(curves={}), "1 to 4 lines"),
        (lambda: pair_of_curves(marked=(40,)), "'pair 8' has no value at the marked position 40"),
    ],
)
def test_figures_of_encodings_refuse(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_multi_head_steps_show_each_head_and_shade_the_weights():
    figure = steps()
    assert {"head 1", "head 2", "queries", "weights", "outputs", "welcome"} <= {*texts(figure)}
    values = [*range(-9, 9)]
    assert {str(value).replace("-", "−") for value in values} <= {*texts(figure)}
    cells = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert len(cells) == 2 * 3 * 6 + 3 * 2 * 9
    shaded = [cell for cell in cells if cell.get_facecolor() != (1, 1, 1, 1)]
    assert len(shaded) == 2 * 9


def test_figures_of_heads_refuse(unchecked):
    with pytest.raises(ValueError, match=r"'outputs' of shape \(1, 3, 3\) does not fit 2 heads"):
        steps(outputs=torch.ones(1, 3, 3))
    with pytest.raises(ValueError, match=r"'inputs' of shape \(1, 3, 6\) does not fit .* 2 words"):
        steps(words=("You", "are"))
    with pytest.raises(ValueError, match="3 removals need 4 values, not 2"):
        removals(values=(1.0, 0.5))


def test_a_removal_curve_marks_each_kind():
    ax = removals().axes[0]
    marks = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    assert marks["encoder"] == [[1, 0.9], [3, 0.2]]
    assert marks["cross"] == [[2, 0.9]]


def test_a_route_has_bold_arrows_where_information_passes_and_its_effects():
    figure = route()
    assert bold(figure) == set(pronouns.USED)
    assert sum("100 %" in text for text in texts(figure)) == 5


def test_a_route_refuses_other_edges():
    with pytest.raises(ValueError, match=r"effects has the edges .*\('animal', 'verb'\)"):
        route(verb=True)


# --- heads and time lines ---


def test_each_head_has_the_outputs_of_its_task():
    figure = figures.task_heads()
    assert {"positive", "B-LOC", "I-LOC", "start", "end", "<mask>"} <= {*texts(figure)}
    assert texts(figure).count("both directions") == 4
    assert texts(figure).count("causal mask") == 1
    read = {a for a, b in arrows(figure) if b == "masked language model: encoder"}
    assert read == {f"masked language model: token {j}" for j in range(3)}
    heads = {b for a, b in arrows(figure) if a == "masked language model: encoder"}
    assert heads == {"masked language model: head 1"}


def test_a_time_line_has_each_event_at_its_date():
    figure = history(highlight=2018)
    assert {"2013", "2019", "ULMFiT", "GPT", "RNNs", "Transformers"} <= {*texts(figure)}
    dots = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert len(dots) == 5
    down = [float(dot.get_ydata()[0]) for dot in dots]
    assert down[0] > down[1] > down[2] > down[3] > down[4]
    (year,) = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    inside = [y for y in down if year.get_y() < y < year.get_y() + year.get_height()]
    assert inside == down[1:3]
    with pytest.raises(ValueError, match="in each of its two columns"):
        history(left={})
    with pytest.raises(ValueError, match="role='red' is unknown"):
        history(roles=("red", "key"))
    with pytest.raises(ValueError, match="too long for its column"):
        history(right={"a name that is far too long": date(2018, 1, 1)})
