"""The map of the Transformer: every part is drawn, lit where asked, and linked where it can be."""

import base64
import importlib.util
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attentively.analysis.figures.diagram import text_size

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"

spec = importlib.util.spec_from_file_location("transformer_map", EXTENSIONS / "transformer_map.py")
tmap = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tmap)

SVG = "{http://www.w3.org/2000/svg}"


def said_of(element):
    """What is said of a part to those who do not see it, and on hover."""
    return element.find(f"{SVG}title").text


def parts(svg):
    """Every drawn part as (name, element)."""
    return [
        (element.get("data-part"), element)
        for element in ElementTree.fromstring(svg).iter()
        if element.get("data-part")
    ]


def is_lit(element):
    return "lit" in element.get("class").split()


def test_the_chapters_are_those_of_the_preface():
    preface = (ROOT / "book" / "index.md").read_text()
    rows = re.findall(r"^\| (\d\d) \| \[?(.+?)(?:\]\(\S+\))? \|", preface, re.M)
    assert rows == [(f"{number:02}", title) for number, title in enumerate(tmap.CHAPTERS)]


def test_the_docstring_lists_the_parts():
    rows = re.findall(r"^`([\w-]+)` +(\d\d)(?: \(([\d, ]+)\))? ", tmap.__doc__, re.M)
    listed = {
        name: (int(chapter), tuple(map(int, re.findall(r"\d\d", again))))
        for name, chapter, again in rows
    }
    assert listed == {name: (part.chapter, part.again) for name, part in tmap.PARTS.items()}


def test_every_part_is_drawn_somewhere():
    drawn = {view: {name for name, _ in parts(tmap.draw(view))} for view in tmap.VIEWS}
    assert drawn["box"] == {"transformer"}
    assert drawn["layers"] == set(tmap.PARTS) - {"transformer"}
    assert drawn["stacks"] == {
        *("subwords", "embedding", "position", "encoder", "decoder", "output", "decoding")
    }


def from_below(view, role):
    """The parts of one side, the lowest first, each with its upper and its lower edge."""
    found = []
    for name, element in parts(tmap.draw(view)):
        if role in element.get("class").split():
            box = element.find(f"{SVG}rect")
            top = float(box.get("y"))
            found.append((name, top, top + float(box.get("height"))))
    return sorted(found, key=lambda drawn: -drawn[1])


BELOW = ["subwords", "embedding", "position"]
ABOVE = ["output", "decoding"]


@pytest.mark.parametrize(
    ("view", "role", "names"),
    [
        ("stacks", "encoder", [*BELOW, "encoder"]),
        ("stacks", "decoder", [*BELOW, "decoder", *ABOVE]),
        (
            "layers",
            "encoder",
            [
                *BELOW,
                *("multi-head", "self-attention", "residual", "feed-forward", "residual"),
                "encoder",
            ],
        ),
        (
            "layers",
            "decoder",
            [
                *BELOW,
                *("multi-head", "masked-attention", "residual"),
                *("multi-head", "cross-attention", "residual", "feed-forward", "residual"),
                "decoder",
                *ABOVE,
            ],
        ),
    ],
)
def test_the_parts_stand_on_one_another_as_in_the_paper(view, role, names):
    drawn = from_below(view, role)
    assert [name for name, _, _ in drawn] == names
    for (_, top, _), (_, _, bottom) in pairwise(drawn):
        assert bottom <= top  # they do not overlap


def test_the_memory_goes_into_the_cross_attention():
    [(top, bottom)] = [
        edges for name, *edges in from_below("layers", "decoder") if name == "cross-attention"
    ]
    ways = re.findall(r'<path class="way" d="([^"]+)"/>', tmap.draw("layers"))
    ends = [tuple(map(float, way.rpartition("L")[2].split())) for way in ways]
    start = tmap.DECODER_X + tmap.INNER - 5  # where the tip of the arrow begins
    assert [y for x, y in ends if x == start] == [(top + bottom) / 2]


def crowded(view):
    """Return the labels that come within 8 pixels of the number of their chapter.

    They are measured in DejaVu Sans, the widest of the fonts that browsers take for `sans-serif`.
    """
    found = []
    for name, element in parts(tmap.draw(view)):
        label, number = element.findall(f"{SVG}text")
        end = float(label.get("x")) + text_size(label.text, 14.0)[0]
        start = float(number.get("x")) - text_size(number.text, 13.0)[0]
        if start - end < 8:
            found.append(name)
    return found


@pytest.mark.parametrize("view", tmap.VIEWS)
def test_a_label_does_not_touch_the_number_of_its_chapter(view, monkeypatch):
    assert crowded(view) == []
    monkeypatch.setattr(tmap, "INNER", tmap.OUTER)
    assert crowded(view) == ["masked-attention"] * (view == "layers")


@pytest.mark.parametrize("view", tmap.VIEWS)
def test_nothing_is_drawn_outside_the_picture(view):
    svg = ElementTree.fromstring(tmap.draw(view))
    left, top, width, height = map(float, svg.get("viewBox").split())
    for box in svg.iter(f"{SVG}rect"):
        x, y, wide, high = (float(box.get(name)) for name in ("x", "y", "width", "height"))
        assert left <= x <= x + wide <= left + width
        assert top <= y <= y + high <= top + height


def test_a_part_names_the_chapters_that_come_back_to_it():
    said = {name: said_of(element) for name, element in parts(tmap.draw("layers"))}
    assert said["decoding"].endswith("(see also 17)")
    assert said["cross-attention"].endswith("(see also 09 and 14)")
    assert "see also" not in said["position"]


@pytest.mark.parametrize("name", [name for name in tmap.PARTS if name != "transformer"])
def test_only_the_lit_part_is_lit(name):
    for drawn, element in parts(tmap.draw("layers", [name])):
        assert is_lit(element) == (drawn == name)
    assert tmap.description(tmap.draw("layers", [name])).endswith(f"Lit: {tmap.PARTS[name].label}.")
    assert not any(is_lit(element) for _, element in parts(tmap.draw("layers")))


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_a_lit_stack_lights_its_frame(name):
    for view in ("stacks", "layers"):
        frames = [
            element.get("class").split()
            for element in ElementTree.fromstring(tmap.draw(view, [name])).iter(f"{SVG}rect")
            if "frame" in element.get("class").split()
        ]
        assert [("lit" in frame) == (name in frame) for frame in frames] == [True, True]


def test_a_part_links_where_there_is_a_page():
    svg = tmap.draw("layers", address={1: "01.html", 13: "13.html#x"}.get)
    for name, element in parts(svg):
        part = tmap.PARTS[name]
        said = said_of(element)
        assert f"{part.chapter:02}: {tmap.CHAPTERS[part.chapter]}" in said
        # The name begins with the visible words, for those who speak to their computer.
        seen = " ".join(text.text for text in element.iter(f"{SVG}text"))
        assert said.startswith(seen)
        if part.chapter in (1, 13):
            assert element.tag == f"{SVG}a"
            assert element.get("href").startswith(f"{part.chapter:02}.html")
            assert "not in the book" not in said
        else:
            assert element.tag == f"{SVG}g"
            assert element.get("href") is None
            assert "not in the book yet" in said


def test_a_page_does_not_link_to_itself():
    svg = tmap.draw("layers", address=lambda chapter: f"{chapter}.html", here=13)
    for name, element in parts(svg):
        assert (element.get("href") is None) == (name == "position")
    assert "<title>+ positions 13: this chapter</title>" in svg


def test_commas_stand_between_parts_with_or_without_spaces():
    assert tmap.parse_lit(" position ,embedding,") == ["position", "embedding"]
    assert tmap.parse_lit("") == []


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"no part .positions.; it has: .*position, encoder"):
        tmap.parse_lit("embedding, positions")
    with pytest.raises(ValueError, match="draws no self-attention; it has: subwords"):
        tmap.draw("stacks", ["self-attention"])
    with pytest.raises(ValueError, match="box, stacks, layers, not as 'heads'"):
        tmap.draw("heads")


def test_a_notebook_shows_it_as_a_picture():
    text = tmap.as_markdown({"lit": "position", "open": "stacks"}, "Where it is.")
    alt, data = re.match(r"!\[(.+?)\]\(data:image/svg\+xml;base64,(\S+)\)", text).groups()
    assert alt.endswith("Lit: + positions.")
    assert text.endswith("*Where it is.*")
    svg = base64.b64decode(data).decode()
    lit = [name for name, element in parts(svg) if is_lit(element)]
    assert lit == ["position", "position"]
    assert "self-attention" not in dict(parts(svg))  # only the stacks are open
    assert "<a " not in svg  # a link would lead out of the notebook's folder


@pytest.fixture
def build(tmp_path):
    """Return a function that builds a small book: by the names of pages, their Markdown."""

    def run(**pages):
        book = tmp_path / "book"
        book.mkdir()
        (tmp_path / "conf.py").write_text(
            f"import sys\nsys.path.insert(0, {str(EXTENSIONS)!r})\n"
            "extensions = ['myst_parser', 'transformer_map']\n"
            "numfig = True\nroot_doc = 'book/chapter_00'\nexclude_patterns = ['site']\n"
        )
        names = "\n".join(name for name in pages if name != "chapter_00")
        pages["chapter_00"] += f"\n\n```{{toctree}}\n{names}\n```\n"
        for name, text in pages.items():
            (book / f"{name}.md").write_text(text)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "sphinx",
                "-q",
                "-W",
                "--keep-going",
                tmp_path,
                tmp_path / "site",
            ],
            capture_output=True,
            text=True,
        )
        return done, tmp_path / "site" / "book"

    return run


MAP = """# Title

```{transformer-map}
:open: stacks
:lit: embedding
:name: fig-map

The *map*.
```
"""


def test_in_a_book_where_chapters_are_missing(build):
    done, site = build(
        chapter_00="# Preface\n\nSee {numref}`fig-map`.",
        **{"13_positional_encoding": "# 13", "01_embeddings": MAP},
    )
    assert done.returncode == 0, done.stderr
    page = (site / "01_embeddings.html").read_text()
    links = re.findall(r'<a class="part[^>]* href="([^"]+)"', page)
    assert links == ["13_positional_encoding.html"] * 2
    assert "embedding 01: this chapter" in page
    assert "<em>map</em>" in page
    [drawn] = re.findall(r"<svg class=.transformer-map.*?</svg>", page, re.S)
    assert {name for name, element in parts(drawn) if is_lit(element)} == {"embedding"}
    assert "self-attention" not in dict(parts(drawn))  # only the stacks are open
    assert "Fig. 1" in (site / "chapter_00.html").read_text()


def test_a_page_with_an_unknown_part_does_not_build(build):
    done, _ = build(chapter_00=MAP.replace("lit: embedding", "lit: embeding"))
    assert done.returncode != 0
    assert "no part 'embeding'; it has: transformer, subwords, embedding" in done.stderr
