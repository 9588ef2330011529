"""The map of the Transformer in the built site: by keyboard, in the dark, on a telephone."""

from pathlib import Path

import nbformat
import pytest
from legibility import PAIRS, contrast

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
