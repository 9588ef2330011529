"""Code and outputs on the page: letters large enough to read, and no line to scroll along."""

import pytest

PAGES = ["00_tools", "15_building_the_transformer", "17_translating_with_it"]
SMALLEST = 14
"""Pixels."""
UNFOLD = "document.querySelectorAll('details').forEach(each => each.open = true)"
SCROLLING = """() => [...document.querySelectorAll("article pre")]
  .filter(each => each.scrollWidth > each.clientWidth)
  .map(each => `${each.scrollWidth} in ${each.clientWidth}: ${each.innerText.slice(0, 60)}`)"""
SMALL = """smallest => [...document.querySelectorAll("article pre, article .results-table *")]
  .filter(each => each.innerText && parseFloat(getComputedStyle(each).fontSize) < smallest)
  .map(each => `${getComputedStyle(each).fontSize}: ${each.innerText.slice(0, 60)}`)"""
WIDE = "e => e.innerText += '\\n' + '#'.repeat(101)"


@pytest.mark.parametrize("width", [1200, 1440])
def test_code_and_outputs_are_read_without_scrolling(site, visit, width):
    """Folded cells and boxes too. Lines of code are 88 characters at most (tests/book)."""
    window = visit(width)
    for name in PAGES:
        window.open((site / "book" / f"{name}.html").as_uri())
        window.page.evaluate(UNFOLD)
        assert window.page.locator("article pre").count() > 20
        assert window.page.evaluate(SCROLLING) == [], name
        assert window.page.evaluate(SMALL, SMALLEST) == [], name


def test_a_line_that_scrolls_and_small_letters_are_seen(site, visit):
    window = visit(1200)
    window.open((site / "book" / f"{PAGES[0]}.html").as_uri())
    code = window.page.locator("div.cell_input pre").first
    window.page.evaluate(UNFOLD)
    code.evaluate(WIDE)
    assert len(window.page.evaluate(SCROLLING)) == 1
    code.evaluate("e => e.style.fontSize = '13.5px'")
    assert len(window.page.evaluate(SMALL, SMALLEST)) == 1
