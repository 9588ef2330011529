"""Code and outputs on the page: letters large enough to read, and no line to scroll along."""

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


def test_code_and_outputs_are_read_without_scrolling(site, visit):
    """In folded cells and boxes too; a line that scrolls and small letters are seen."""
    page = visit(1440).page
    for name in PAGES:
        page.goto((site / "book" / f"{name}.html").as_uri())
        page.evaluate(UNFOLD)
        assert page.locator("article pre").count() > 20
        for width in (1440, 1200):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SCROLLING, WIDEST) == [], (name, width)
            assert page.evaluate(SMALL, SMALLEST) == [], (name, width)
    code = page.locator("div.cell_input pre").first
    code.evaluate(LINE, WIDEST)
    assert page.evaluate(SCROLLING, WIDEST) == []
    code.evaluate("e => e.style.fontSize = '16px'")
    assert len(page.evaluate(SCROLLING, WIDEST)) == 1
    code.evaluate("e => e.style.fontSize = '13.5px'")
    assert len(page.evaluate(SMALL, SMALLEST)) == 1
