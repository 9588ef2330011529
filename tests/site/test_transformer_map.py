"""The map of the Transformer in the built site: by keyboard, in the dark, on a telephone."""

import sys
from itertools import combinations
from pathlib import Path

import nbformat
import pytest
from legibility import PAIRS, contrast

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "book" / "_ext"))
import transformer_map as tmap

PAGE = "00_tools"
MAPS = "svg.transformer-map"


@pytest.fixture(scope="module")
def page(site) -> Path:
    return site / "book" / f"{PAGE}.html"


def test_links_lead_to_chapters(site, visit, page):
    """A part is a link if, and only if, its chapter is in the book."""
    window = visit()
    window.open(page.as_uri())
    there = {path.name[:2] for path in (site / "book").glob("[0-9][0-9]_*.html")}
    linked = set()
    parts = window.page.locator(f"{MAPS} .part")
    assert parts.count() > 30
    for part in parts.all():
        number = part.locator(".number").text_content()
        href = part.get_attribute("href")
        assert (href is not None) == (number in there), part.locator("title").text_content()
        if href:
            assert (page.parent / href).is_file()
            assert href.startswith(number)
            linked.add(number)
    assert "08" in linked


def test_by_keyboard(visit, page):
    """Tab reaches a part, which shows that it has the focus; Enter follows it."""
    window = visit()
    window.open(page.as_uri())
    part = window.page.locator(f"{MAPS} a[data-part=cross-attention]").first
    part.focus()
    window.page.keyboard.press("Shift+Tab")
    window.page.keyboard.press("Tab")
    assert part.evaluate("e => e === document.activeElement")
    assert part.locator(".ring").evaluate("e => getComputedStyle(e).stroke") != "none"
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/08_additive_attention.html*")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_words_are_legible(visit, page, scheme):
    """Text stands out from its box, lit and unlit, on a telephone too."""
    window = visit(390, scheme)
    window.open(page.as_uri())
    lit = 0
    for drawn in window.page.locator(MAPS).all():
        assert drawn.bounding_box()["width"] <= 390
        for name, ink, fill in drawn.evaluate(PAIRS):
            if fill:  # a frame's title stands on the page's own colour
                assert contrast(ink, fill) > 4.5, (name, ink, fill)
        lit += drawn.locator(".lit").count()
        scale = drawn.bounding_box()["width"] / 464
        assert 14 * scale > 10, "the words are too small to read"
    assert lit > 0


WORDS = """svg => [...svg.querySelectorAll('text')].map(text => {
    const { x, y, width, height } = text.getBoundingClientRect();
    return [text.textContent, parseFloat(getComputedStyle(text).fontSize), x, y, width, height];
})"""


def faults_of_words(page, svg: str) -> list[str]:
    """Return the words of a map that touch others, or are too small to read on a telephone."""
    page.set_content(f"<div style='width: 464px'>{svg}</div>")
    words = page.locator("svg").evaluate(WORDS)
    assert len(words) > 2
    faults = [f"{text} is small" for text, size, *_ in words if size * 342 / 464 < 9]
    for (one, _, x, y, width, height), (other, _, left, top, *more) in combinations(words, 2):
        across = min(x + width, left + more[0]) - max(x, left)
        if across > -4 and min(y + height, top + more[1]) - max(y, top) > 4:
            faults.append(f"{one} touches {other}")
    return faults


@pytest.mark.parametrize("view", tmap.VIEWS)
def test_words_are_large_enough_and_apart(visit, view):
    """Every view, on a page of its own."""
    assert faults_of_words(visit().page, tmap.draw(view)) == []


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        (
            "COLUMNS",
            {"encoder": (8, 206), "decoder": (240, 170)},
            "masked self-attention touches 12",
        ),
        ("STYLE", tmap.STYLE.replace("font-size: 13px", "font-size: 12px"), "15 is small"),
    ],
)
def test_words_that_touch_or_are_small_would_be_seen(visit, monkeypatch, name, value, fault):
    monkeypatch.setattr(tmap, name, value)
    assert fault in faults_of_words(visit().page, tmap.draw())


def test_the_notebook_has_it_as_a_picture(site):
    """And what the page folds away is folded away there too."""
    notebook = nbformat.read(site / "_sources" / "book" / f"{PAGE}.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    for directive in ("transformer-map", "dropdown", "admonition"):
        assert f"{{{directive}}}" not in text
    assert text.count("](data:image/svg+xml;base64,") == 4
    folded = text[text.index("<summary>losses.cross_entropy") :]
    assert "def cross_entropy(" in folded[: folded.index("</details>")]
    [softmax] = [cell for cell in notebook.cells if "def softmax(" in cell.source]
    assert softmax.metadata["jupyter"]["source_hidden"]
