"""A figure in dark mode has the same geometry, is legible, and keeps the colours of heat maps."""

import importlib.util
import re
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
import sphinx_book_theme
from docutils import nodes

mpl.use("Agg")

import torch
from legibility import EYES, contrast, nearest
from matplotlib import pyplot as plt

from attentively.analysis.figures import Edge, Node, diagram
from attentively.analysis.plots import COLOURS, alignment_heat_map, use_book_style

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location(
    "dark_figures", ROOT / "book" / "_ext" / "dark_figures.py"
)
dark_figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dark_figures)
PAGE, INK = dark_figures.PAGE, dark_figures.INK


@pytest.fixture(autouse=True)
def _book_style():
    with mpl.rc_context():
        use_book_style()
        yield
    plt.close("all")


def as_svg(figure):
    file = StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    return file.getvalue()


def colours(svg):
    return {*re.findall(r"#[0-9a-fA-F]{6}\b", svg)}


# --- colours ---


def test_page_and_ink_are_the_theme_s():
    folder = Path(sphinx_book_theme.__file__).parent / "theme" / "sphinx_book_theme" / "static"
    style = (folder / "styles" / "sphinx-book-theme.css").read_text(encoding="utf-8")
    rules = re.findall(r"html\[data-theme=dark\]\{([^}]*)\}", style)
    assert f"--pst-color-background:{PAGE}" in ";".join(rules)


def test_white_and_black_are_exchanged():
    assert dark_figures.dark("#ffffff") == dark_figures.dark("#fff") == PAGE
    assert dark_figures.dark("#000000") == INK


@pytest.mark.parametrize("colour", ["#e4e4e4", "#b4b4b4", "#f2f2f2", "#dbe9f6", "#08306b"])
def test_a_colour_keeps_its_contrast(colour):
    found = dark_figures.dark(colour)
    assert contrast(found, PAGE) == pytest.approx(contrast(colour, "#ffffff"), rel=0.04)


def test_every_role_has_a_dark_colour():
    assert {*dark_figures.ROLES} == {*COLOURS.values()}


@pytest.mark.parametrize("role", COLOURS)
def test_roles_are_legible_as_text_on_the_dark_page(role):
    assert contrast(COLOURS[role], PAGE) < 4.5  # as it is, it would not be
    assert contrast(dark_figures.dark(COLOURS[role]), PAGE) >= 4.5


@pytest.mark.parametrize("eye", EYES)
def test_roles_are_distinguished_on_the_dark_page(eye):
    assert nearest([dark_figures.dark(colour) for colour in COLOURS.values()], eye) > 15


# --- the twin of a figure ---


def test_the_twin_has_the_same_geometry():
    nodes_ = {
        "q": Node("query", (0, 0), "query"),
        "k": Node("$k_1$", (90, 40), "key", filled=True),
        "t": Node("t", (0, 60), shape="text"),
    }
    light = as_svg(diagram(nodes_, [Edge("q", "k", "gold")]))
    dark = dark_figures.dark_svg(light)
    places = [
        [(e.tag, e.get(name, "").split()) for e in ElementTree.fromstring(text).iter()]
        for text in (light, dark)
        for name in ("d", "transform", "x", "y", "width", "height", "viewBox", "clip-path")
    ]
    assert places[:8] == places[8:]
    assert len(places[0]) > 40
    wanted = {dark_figures.dark(c) for c in (COLOURS["query"], COLOURS["key"], COLOURS["gold"])}
    assert wanted <= colours(dark)
    assert not {*COLOURS.values(), "#ffffff", "#000000"} & colours(dark)
    assert ElementTree.fromstring(dark).get("fill") == INK  # text without a colour of its own


def drawn(svg, words):
    """Return the colours that texts are drawn in, by the number of their glyphs; None for ink."""
    found = {}
    for group in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        if group.get("id", "").startswith("text_"):
            inner = group.find("{http://www.w3.org/2000/svg}g")
            fill = re.search(r"fill: (#\w+)", inner.get("style", ""))
            glyphs = len(inner.findall("{http://www.w3.org/2000/svg}use"))
            found[glyphs] = fill[1] if fill else inner.get("fill")
    return found


def heat_map():
    ax = alignment_heat_map(torch.eye(9), ["ab"] * 9, ["abcd"] * 9, gold={(0, 0)})
    ax.text(5, 2, "ontopale", ha="center")
    ax.text(4, 4, "ondarks", ha="center", color="white")
    ax.set_title("wholetitle")
    return ax.figure


def test_a_heat_map_and_what_is_on_it_keep_their_colours():
    light = as_svg(heat_map())
    dark = dark_figures.dark_svg(light)
    image = r'xlink:href="data:image/png;base64,\s*([^"\s]+)'
    assert re.findall(image, light) == re.findall(image, dark) != []
    found = drawn(dark, light)
    assert found[len("ontopale")] == "#000"
    assert found[len("ondarks")] == "#ffffff"
    assert found[len("abcd")] is None  # ticks are outside, as ink
    assert found[len("wholetitle")] is None
    assert COLOURS["gold"] in colours(dark)  # outlines


def test_without_the_rule_for_heat_maps_their_text_would_be_lost(monkeypatch):
    monkeypatch.setattr(dark_figures, "_on_images", lambda axes: set())
    found = drawn(dark_figures.dark_svg(as_svg(heat_map())), "")
    assert found[len("ontopale")] is None
    assert found[len("ondarks")] == PAGE


def test_a_figure_shrinks_until_its_smallest_text_has_eleven_pixels():
    figure = diagram({"a": Node("one", (0, 0), size=(280, 20))})
    assert 320 < dark_figures.least_width(as_svg(figure)) <= dark_figures.PHONE
    figure.axes[0].text(0, 0, "small", fontsize=5)
    assert dark_figures.least_width(as_svg(figure)) == pytest.approx(2 * 333, abs=12)
    figure, _ = plt.subplots()
    figure.axes[0].axis("off")
    assert dark_figures.least_width(as_svg(figure)) == 0


# --- the page ---


class App:
    def __init__(self, folder, kind="html"):
        self.srcdir = folder
        self.builder = type("Builder", (), {"format": kind})


def page(folder, mime_type="image/svg+xml"):
    (folder / "out").mkdir()
    (folder / "out" / "one.svg").write_text(as_svg(diagram({"a": Node("a", (0, 0), "query")})))
    image = nodes.image(uri="/out/one.svg", alt="A box")
    figure = nodes.figure("", nodes.container("", image, mime_type=mime_type), names=["fig-one"])
    figure += nodes.caption("", "Said.")
    doctree = nodes.document(None, None)
    doctree += figure
    return doctree


def test_a_figure_gets_a_twin_with_the_same_description(tmp_path):
    doctree = page(tmp_path)
    dark_figures.add_twins(App(tmp_path), doctree)
    (box,) = doctree.findall(dark_figures.figure_box)
    light, dark = box.findall(nodes.image)
    assert light["uri"] == "/out/one.svg"
    assert re.fullmatch(r"/out/one-dark-[0-9a-f]{8}\.svg", dark["uri"])
    assert (light["classes"], dark["classes"]) == (["only-light"], ["only-dark"])
    assert light["alt"] == dark["alt"] == "A box"
    assert dark["loading"] == "lazy"  # and so not loaded by a light page
    assert dark_figures.dark(COLOURS["query"]) in (tmp_path / dark["uri"][1:]).read_text()
    # The theme hides captions that follow a hidden image; the box is between them.
    (figure,) = doctree.findall(nodes.figure)
    assert figure["names"] == ["fig-one"]
    assert not any(isinstance(child, nodes.image) for child in figure.children)


def test_a_twin_of_other_colours_is_another_file(tmp_path, monkeypatch):
    """Sphinx warns, and the build fails, where an image changes under one name."""
    doctrees = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        doctrees.append(page(tmp_path / name))
        dark_figures.add_twins(App(tmp_path / name), doctrees[-1])
        monkeypatch.setattr(dark_figures, "dark", lambda colour: INK)
    first, second = ([*tree.findall(nodes.image)][1]["uri"] for tree in doctrees)
    assert first != second


def test_only_svg_outputs_on_web_pages_get_twins(tmp_path):
    doctree = page(tmp_path, "image/png")
    dark_figures.add_twins(App(tmp_path), doctree)
    assert not [*doctree.findall(dark_figures.figure_box)]
    (tmp_path / "latex").mkdir()
    doctree = page(tmp_path / "latex")
    dark_figures.add_twins(App(tmp_path / "latex", "latex"), doctree)
    assert not [*doctree.findall(dark_figures.figure_box)]


@pytest.mark.parametrize(("least", "reached"), [(300, False), (600, True)])
def test_the_keyboard_reaches_a_box_that_scrolls(least, reached):
    writer = type("Writer", (), {"body": []})()
    dark_figures.visit_box(writer, dark_figures.figure_box("", least_width=least))
    dark_figures.depart_box(writer, None)
    text = "".join(writer.body)
    assert f"--least-width: {least}px" in text
    assert ('tabindex="0"' in text) == reached
    assert text.count("<div") == text.count("</div>") == 1


def test_the_extension_is_registered():
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert "dark_figures: book/_ext" in config
    assert "- dark_figures\n" in config
    style = (ROOT / "book" / "_static" / "attentively.css").read_text(encoding="utf-8")
    assert "min-width: var(--least-width)" in style
