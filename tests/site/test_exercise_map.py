"""The map of the exercises in the built site: its links, and its words in light and dark."""

import pytest
from legibility import PAIRS, contrast
from notebook_tools import ROOT

MAP = "svg.exercise-map"


@pytest.fixture(scope="module")
def page(site):
    return site / "book" / "exercise_map.html"


def test_every_chapter_is_one_click_away(site, visit, page):
    window = visit()
    window.open(page.as_uri())
    hrefs = window.page.locator(f"{MAP} a").evaluate_all(
        "all => all.map(each => each.getAttribute('href'))"
    )
    there = sorted(path.stem for path in (site / "book").glob("[0-9][0-9]_*.html"))
    assert hrefs == [f"{name}.html" for name in there if (ROOT / "solutions" / name).is_dir()]
    assert len(hrefs) > 18
    window.page.locator(f"{MAP} a").first.focus()
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/00_tools.html*")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_words_are_legible(visit, page, scheme):
    """The numbers of parts stand out, filled or not, on a telephone too."""
    window = visit(390, scheme)
    window.open(page.as_uri())
    drawn = window.page.locator(MAP)
    pairs = drawn.evaluate(PAIRS)
    assert len(pairs) > 100
    for name, ink, fill in pairs:
        assert contrast(ink, fill) > 4.5, (name, ink, fill)
    width = drawn.bounding_box()["width"]
    assert width <= 390
    assert 13 * width / 464 > 9, "the words are too small to read"
    assert drawn.locator(".given").count() > 3
