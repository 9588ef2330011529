"""Code and outputs on the page: letters large enough to read, and no line to scroll along."""

import pytest

PAGES = ["00_tools", "15_building_the_transformer", "17_translating_with_it"]
SMALLEST = 14
"""Pixels."""
WIDEST = 88
"""Characters in a line of code; that none has more is tested in tests/book."""
UNFOLD = "document.querySelectorAll('details').forEach(each => each.open = true)"
SCROLLING = """widest => [...document.querySelectorAll("article pre")]
  .filter(each => each.scrollWidth > each.clientWidth)
  .filter(each => each.innerText.split("\\n").every(line => line.length <= widest))
  .map(each => `${each.scrollWidth} in ${each.clientWidth}: ${each.innerText.slice(0, 60)}`)"""
SMALL = """smallest => [...document.querySelectorAll("article pre, article .results-table *")]
  .filter(each => each.innerText && parseFloat(getComputedStyle(each).fontSize) < smallest)
  .map(each => `${getComputedStyle(each).fontSize}: ${each.innerText.slice(0, 60)}`)"""
LINE = "(e, length) => e.innerText = '#'.repeat(length)"


@pytest.mark.parametrize("width", [1200, 1440])
def test_code_and_outputs_are_read_without_scrolling(site, visit, width):
    """In folded cells and boxes too."""
    window = visit(width)
    for name in PAGES:
        window.open((site / "book" / f"{name}.html").as_uri())
        window.page.evaluate(UNFOLD)
        assert window.page.locator("article pre").count() > 20
        assert window.page.evaluate(SCROLLING, WIDEST) == [], name
        assert window.page.evaluate(SMALL, SMALLEST) == [], name


def test_a_line_that_scrolls_and_small_letters_are_seen(site, visit):
    window = visit(1200)
    window.open((site / "book" / f"{PAGES[0]}.html").as_uri())
    code = window.page.locator("div.cell_input pre").first
    window.page.evaluate(UNFOLD)
    code.evaluate(LINE, WIDEST)
    assert window.page.evaluate(SCROLLING, WIDEST) == []
    code.evaluate("e => e.style.fontSize = '16px'")
    assert len(window.page.evaluate(SCROLLING, WIDEST)) == 1
    code.evaluate("e => e.style.fontSize = '13.5px'")
    assert len(window.page.evaluate(SMALL, SMALLEST)) == 1
