"""What a page is on paper, and the larger views of its figures and tables."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from playwright.sync_api import expect
from pypdf import PdfReader

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
PAPER = 657  # pixels between the margins of A4
HIDDEN = ["SIDEBAR", "FOLDED", "FIELD", "Show code", "TRY", "DRAWN", "Static version"]
SHOWN = ["BOXED", "https://example.org/paper", "WIDGET", "STATIC", "QUESTION", "verylongword11"]
WIDE_ROW = "".join(f"<td>verylongword{n}</td>" for n in range(12))
DRAWING = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 40 20'><rect width='9' height='9'/></svg>"
)
PAGE = """<!doctype html><html lang="en" data-theme="dark"><meta charset="utf-8"><title>x</title>
<link rel="stylesheet" href="attentively.css"><link rel="stylesheet" href="enlarge.css">
<link rel="stylesheet" href="print.css" media="print">
<script defer src="enlarge.js"></script><script defer src="print.js"></script>
<div class="bd-sidebar-primary bd-sidebar">SIDEBAR</div><article class="bd-article"><h1>Title</h1>
<p><a class="external" href="https://example.org/paper">paper</a></p>
<details class="hide"><summary>Show code</summary><pre>FOLDED</pre></details>
<details class="sd-dropdown"><summary>Box</summary><p>BOXED</p></details>
<pre>{code}</pre>
<div class="figure-box" style="--least-width: 500px" tabindex="0" role="group" aria-label="Figure">
<img class="only-light" alt="light" src="drawing.svg" width="300">
<img class="only-dark" alt="dark" src="drawing.svg" width="300"></div>
<div class="pst-scrollable-table-container" tabindex="0" style="overflow-x: auto">
<table id="wide"><caption>About words</caption><tbody><tr>{row}</tr></tbody></table></div>
<div class="pst-scrollable-table-container" style="overflow-x: auto">
<table id="small"><tbody><tr><td>small</td></tr></tbody></table></div>
<div class="widget widget-built"><p class="widget-title">WIDGET</p>
<div class="widget-trial">TRY</div><div class="widget-body">DRAWN</div>
<details class="widget-details"><summary>Static version</summary>
<div class="widget-static">STATIC</div></details></div>
<div class="quiz"><div class="quiz-question"><p>QUESTION</p></div>
<details class="quiz-option quiz-right"><summary>yes</summary>
<div class="quiz-why"><p>RIGHT</p></div></details>
<details class="quiz-option quiz-wrong" open><summary>no</summary>
<div class="quiz-why"><p>WRONG</p></div></details></div>
<details class="sd-dropdown solution"><summary>PANELS</summary><p>SOLVED</p></details>
<form class="bd-search">FIELD</form>
<p>LAST</p></article></html>"""


@pytest.fixture
def page(tmp_path) -> Path:
    """Write a page with everything that printing and the larger views change."""
    for name in ["attentively.css", "enlarge.css", "enlarge.js", "print.css", "print.js"]:
        shutil.copy(STATIC / name, tmp_path)
    (tmp_path / "drawing.svg").write_text(DRAWING)
    path = tmp_path / "page.html"
    path.write_text(PAGE.format(row=WIDE_ROW, code="x" * 300), encoding="utf-8")
    return path


def faults_on_paper(window, page: Path) -> list[str]:
    """Print a page; return what is wrong with it on paper and afterwards."""
    window.open(page.as_uri())
    window.page.wait_for_timeout(200)  # the buttons of tables appear after the first layout
    before = window.page.locator("html").evaluate("e => e.outerHTML")
    file = page.with_suffix(".pdf")
    window.page.pdf(path=file, format="A4", prefer_css_page_size=True)
    text = "\n".join(each.extract_text() for each in PdfReader(file).pages)
    faults = [f"{word} is printed" for word in HIDDEN if word in text]
    for word in SHOWN:
        if word not in text:
            faults.append(f"{word} is not printed")
    if text.find("LAST") > text.find("RIGHT") or text.count("WRONG") != 1:
        faults.append("the answers are not only at the end")
    if text.find("RIGHT") > text.find("PANELS") or text.count("SOLVED") != 1:
        faults.append("the solution is not only at the end")
    if window.page.locator("html").evaluate("e => e.outerHTML") != before:
        faults.append("the page is not restored")
    # The same widths as on paper
    window.page.set_viewport_size({"width": PAPER, "height": 900})
    window.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    window.page.emulate_media(media="print")
    if (needed := window.page.evaluate("document.documentElement.scrollWidth")) > PAPER:
        faults.append(f"{needed} pixels wide")
    if window.page.locator("img[alt=dark]").is_visible():
        faults.append("a dark figure is printed")
    return faults


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("print.css", "", "", ""),
        ("print.css", ":is(.hide, .solution)", ".solution", "Show code is printed"),
        ("print.css", ":is(.hide, .solution)", ".hide", "the solution"),
        ("print.css", "form.bd-search, ", "", "FIELD is printed"),
        ("print.css", ":not(.widget-title, .widget-details), ", ", ", "DRAWN is printed"),
        ("print.css", ":not(.widget-title, .widget-details)", "*", "STATIC is not printed"),
        ("print.css", "white-space: pre-wrap !important;", "white-space: pre;", "pixels wide"),
        ("print.css", "zoom: var(--print-zoom, 1);", "", "pixels wide"),
        ("print.css", ".only-dark { display: none !important; }", "", "dark figure"),
        ("print.js", "answers(article);\n  }", "}", "the answers"),
        ("print.js", "of solutions", "of []", "the solution"),
        ("print.js", "undo.push(() => section.remove());", "", "not restored"),
    ],
)
def test_on_paper(visit, page, file, old, new, fault):
    script = page.with_name(file)
    assert old in script.read_text()
    script.write_text(script.read_text().replace(old, new, 1))
    faults = faults_on_paper(visit(), page)
    assert bool(faults) == bool(fault), faults
    assert not fault or any(fault in each for each in faults), faults


ROWS = "".join(f"<tr><td>row {n}</td></tr>" for n in range(30))
TABLE = f"""<div class="pst-scrollable-table-container"><table><thead><tr><th>HEAD</th></tr></thead>
<tbody>{ROWS}</tbody></table></div>"""
LINES = "\n".join(f"line {n}" for n in range(40))
TALL = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='9' height='90'/>"
BLOCKS = {
    "LISTING": f'<div class="highlight"><pre>{LINES}</pre></div>',
    "LEAD": '<p>LEAD</p><div class="cell"><div class="cell_input" style="border: 1px solid">'
    f"<div class='highlight'><pre>{LINES}</pre></div></div></div>",
    "SNIPPET": '<div class="highlight"><pre>SNIPPET\n1\n2\n3\n4\n5\n6\n7\n8\n9</pre></div>',
    "FIGURE": f'<figure><div class="figure-box"><img alt="" src="{TALL}" style="height: 230mm">'
    "</div><figcaption>FIGURE</figcaption></figure>",
    "HEADING": "<h2>HEADING</h2><section><span id='x'></span><h3>THEN</h3><p>text</p></section>",
    "INTRODUCTION": f"<p>INTRODUCTION</p>{TABLE}",
    "LIST": "<p>LIST</p><ul><li>item</li><li>item</li></ul>",
    "CODE": f'<p>CODE</p><div class="highlight-python"><div><pre>{LINES[:80]}</pre></div></div>',
    "EQUATION": '<p>EQUATION</p><div class="math">a<br>b</div>',
    "BOX": '<details class="sd-dropdown"><summary>BOX</summary><pre>in\nthe\nbox</pre></details>',
    "NOTE": '<div class="results-table"><table><tbody><tr><td>1</td></tr></tbody></table>'
    "<p>NOTE</p><p>last</p></div>",
    "TERM": "<dl><dt>TERM</dt><dd>text<br>text</dd></dl>",
}
SHEET = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>x</title>
<style>p {{ margin: 0 }} .bd-main .bd-content table {{ break-inside: avoid }}
div:is(.cell_input, .highlight) {{ display: flex; flex-direction: column }}
div.highlight {{ break-inside: avoid }}</style>
<link rel="stylesheet" href="print.css" media="print"><script defer src="print.js"></script>
<div class="bd-main"><div class="bd-content"><article class="bd-article">{copies}</article>
</div></div></html>"""
COPY = """<section style="break-before: page">
<div style="height: {space}px">START</div>{block}</section>"""


def sheets(window, page: Path, name: str, *spaces: int) -> list[list[list[str]]]:
    """Print a block after each of these numbers of pixels; return the lines of each sheet."""
    copies = "".join(COPY.format(space=space, block=BLOCKS[name]) for space in spaces)
    page.write_text(SHEET.format(copies=copies), encoding="utf-8")
    window.open(page.as_uri())
    file = page.with_suffix(".pdf")
    window.page.pdf(path=file, format="A4", prefer_css_page_size=True)
    printed: list[list[list[str]]] = []
    for sheet in PdfReader(file).pages:
        lines = [line.strip() for line in sheet.extract_text().split("\n") if line.strip()]
        if lines[0] == "START":
            printed.append([])
        printed[-1].append(lines)
    assert len(printed) == len(spaces)
    return printed


def parted(window, page: Path, name: str) -> bool:
    """Return whether a block is parted after its name, wherever on a sheet it is."""
    printed = sheets(window, page, name, *range(780, 980, 8))
    assert any(len(each) > 1 for each in printed)
    return any(each[0][-1] == name for each in printed)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("HEADING", "section > span[id]:empty { position: absolute; }", ""),
        ("INTRODUCTION", ".pst-scrollable-table-container, ul", ".x, ul"),
        ("LIST", ", ul, ol,", ","),
        ("CODE", ', [class*="highlight-"]', ""),
        ("LEAD", ".cell_input, ", ""),
        ("EQUATION", ", div.math,", ","),
        ("BOX", "details.sd-dropdown > summary { break-after: avoid; }", ""),
        ("NOTE", ".results-table p { break-before: avoid; }", ""),
        ("TERM", "tbody tr:first-child, dt) {", "tbody tr:first-child) {"),
    ],
)
def test_what_belongs_together_is_on_one_sheet(visit, page, name, old, new):
    window, style = visit(), page.with_name("print.css")
    assert not parted(window, page, name)
    assert old in style.read_text()
    style.write_text(style.read_text().replace(old, new, 1))
    assert parted(window, page, name)


def test_a_listing_is_parted_and_a_snippet_is_not(visit, page):
    window, style = visit(), page.with_name("print.css")
    assert "line 1" in sheets(window, page, "LISTING", 600)[0][0]
    assert "9" not in sheets(window, page, "SNIPPET", 850)[0][0]
    text = style.read_text()
    rules = (
        '[class*="highlight"]) { break-inside: auto; display: block; }',
        "orphans: 7; widows: 7;",
    )
    assert all(rule in text for rule in rules)
    style.write_text(text.replace(rules[0], ") {}"))
    assert "line 1" not in sheets(window, page, "LISTING", 600)[0][0]
    style.write_text(text.replace(rules[1], ""))
    assert "1" in sheets(window, page, "SNIPPET", 850)[0][0]


def test_a_tall_figure_is_made_smaller(visit, page):
    window, style = visit(), page.with_name("print.css")
    assert "FIGURE" in sheets(window, page, "FIGURE", 330)[0][0]
    style.write_text(style.read_text().replace("max-height: 150mm", "max-height: 230mm"))
    assert "FIGURE" not in sheets(window, page, "FIGURE", 330)[0][0]


def test_a_long_table_begins_where_it_belongs(visit, page):
    window, script = visit(), page.with_name("print.js")
    assert "row 1" in sheets(window, page, "INTRODUCTION", 500)[0][0]
    script.write_text(script.read_text().replace('"break-inside: auto"', '""'))
    assert "row 1" not in sheets(window, page, "INTRODUCTION", 500)[0][0]


def test_the_last_row_of_a_table_is_not_alone(visit, page):
    def fewest_rows():
        printed = sheets(window, page, "INTRODUCTION", *range(100, 400, 12))
        assert any(len(each) > 1 for each in printed)
        return min(sum("row" in line for line in each[-1]) for each in printed)

    window, style = visit(), page.with_name("print.css")
    assert fewest_rows() >= 3
    text = style.read_text()
    style.write_text(text.replace("tr:nth-last-child(-n + 3):not(:last-child)", "x"))
    assert fewest_rows() == 1


@pytest.mark.parametrize("key", ["Enter", " "])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_by_keyboard(visit, page, key, scheme):
    """It opens in its version for the mode, closes with Escape and gives the focus back."""
    window = visit(390, scheme)
    window.open(page.as_uri())
    window.page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
    box = window.page.locator(".figure-box").first  # the other one is in the dialog until it closes
    for opener in [box, window.page.get_by_role("button", name="Larger view of this figure")]:
        opener.focus()
        window.page.keyboard.press(key)
        dialog = window.page.locator("dialog.enlarged")
        assert dialog.is_visible()
        assert dialog.get_by_role("img").first.get_attribute("alt") == scheme
        assert dialog.locator("img").first.bounding_box() or scheme == "dark"
        window.page.keyboard.press("Escape")
        assert not dialog.is_visible()
        expect(opener).to_be_focused()  # once the dialog has heard that it is closed
    assert window.complaints == []


def test_a_figure_by_tap(visit, page):
    window = visit(390, has_touch=True)
    window.open(page.as_uri())
    window.page.evaluate("document.documentElement.dataset.theme = 'light'")
    window.page.locator("img[alt=light]").tap()
    dialog = window.page.locator("dialog.enlarged")
    assert dialog.locator("img[alt=light]").bounding_box()["width"] > 390
    dialog.get_by_role("button", name="Close").tap()
    assert not dialog.is_visible()


def covered(window, page: Path) -> bool:
    """Return whether the button for a larger view lies on its figure."""
    window.open(page.as_uri())
    window.page.evaluate("document.documentElement.dataset.theme = 'light'")
    button = window.page.get_by_role("button", name="Larger view of this figure").bounding_box()
    figure = window.page.locator("img[alt=light]").bounding_box()
    assert button["width"] > 20
    return button["y"] + button["height"] > figure["y"]


@pytest.mark.parametrize("touch", [False, True])
def test_the_button_covers_no_figure(visit, page, touch):
    assert not covered(visit(390, has_touch=touch, is_mobile=touch), page)
    if touch:
        assert not covered(visit(1024, has_touch=True, is_mobile=True), page)
    style = page.with_name("enlarge.css")
    style.write_text(style.read_text().replace("padding-top: 2.4rem;", ""))
    assert covered(visit(390, has_touch=touch, is_mobile=touch), page)


EQUATION = """<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title>
<link rel="stylesheet" href="enlarge.css"><script defer src="enlarge.js"></script>
<article class="bd-article"><mjx-container tabindex="0" style="display: block; overflow-x: auto">
<div style="width: {width}px">long</div></mjx-container></article></html>"""


@pytest.mark.parametrize(
    ("width", "place", "sides"),
    [(300, 0, []), (900, 0, ["more-after"]), (900, 9999, ["more-before"])],
)
def test_an_equation_fades_where_it_goes_on(visit, page, width, place, sides):
    window = visit(390)
    page.write_text(EQUATION.format(width=width))
    window.open(page.as_uri())
    equation = window.page.locator("mjx-container")
    equation.evaluate(f"(box) => {{ box.scrollLeft = {place}; }}")
    window.page.evaluate(FRAMES)
    assert equation.evaluate("(box) => [...box.classList]") == sides
    assert (equation.evaluate("(box) => getComputedStyle(box).maskImage") != "none") == bool(sides)


FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


GIVEN_BACK = "() => document.activeElement.title === 'Larger view of this figure'"


def faults_of_larger_views(window, page: Path) -> list[str]:
    """Open larger views by pointer and by keyboard; return what is wrong with them."""
    faults = []
    window.open(page.as_uri())
    page = window.page
    page.evaluate(FRAMES)
    dialog = page.locator("dialog.enlarged")
    page.locator("img[alt=dark]").click()
    if dialog.locator(".figure-box").count() != 1:
        faults.append("a click does not open the figure")
    page.mouse.click(2, 2)
    if dialog.is_visible():
        faults.append("a click outside does not close")
        page.keyboard.press("Escape")
    try:  # the dialog hears a moment later that it is closed
        page.wait_for_function(GIVEN_BACK, timeout=3000)
    except PlaywrightTimeoutError:
        faults.append("the focus is not given back")
    for key in ("Enter", " "):
        page.locator(".figure-box").first.focus()
        page.keyboard.press(key)
        if not dialog.is_visible():
            faults.append(f"{key!r} does not open the figure")
        elif dialog.locator(".figure-box").count() != 1:
            faults.append("an earlier view is still there")
        page.keyboard.press("Escape")
    button = page.get_by_role("button", name="Larger view of this table")
    if button.count() != 1:
        faults.append(f"{button.count()} tables have a button")
    box = page.locator(".pst-scrollable-table-container").first
    for place, classes in ((0, ["more-after"]), (99, ["more-after", "more-before"])):
        box.evaluate(f"(box) => {{ box.scrollLeft = {place}; }}")
        page.evaluate(FRAMES)
        if box.evaluate("(box) => [...box.classList].slice(1).sort()") != classes:
            faults.append(f"no fade at {place}")
    box.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
    page.evaluate(FRAMES)
    if box.evaluate("(box) => [...box.classList].slice(1)") != ["more-before"]:
        faults.append("a fade at the end")
    button.first.click()
    copy = dialog.locator("table")
    if box.evaluate("b => b.style.getPropertyValue('--caption-height')") != box.locator(
        "caption"
    ).evaluate("e => `${e.offsetHeight}px`"):
        faults.append("the caption fades")
    if "verylongword11" not in copy.inner_text():
        faults.append("the table is not whole")
    if copy.get_attribute("id"):
        faults.append("an id is there twice")
    page.keyboard.press("Escape")
    box.evaluate("(box) => { box.scrollLeft = 0; }")
    page.evaluate(FRAMES)
    page.set_viewport_size({"width": 3000, "height": 900})
    page.evaluate(FRAMES)
    if button.count():
        faults.append("a table that fits has a button")
    return faults + window.complaints


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", ""),
        ('event.target.localName === "img"', "false", "a click does not open"),
        ("event.target === dialog", "false", "a click outside"),
        ("opener?.focus();", "", "given back"),
        ('[" ", "Enter"]', '["Enter"]', "' ' does not"),
        ("content.replaceChildren();", "", "an earlier view"),
        ("!always && !hidden", "false", "2 tables"),
        ("hidden - box.scrollLeft > 1", "hidden > 1", "at the end"),
        ('"more-before", box.scrollLeft > 1', '"more-before", false', "no fade at 99"),
        ('box.addEventListener("scroll", mark, { passive: true });', "", "no fade at 99"),
        ('copy.removeAttribute("id");', "", "twice"),
        ("if (caption) box", "if (!caption) box", "the caption fades"),
        ("new ResizeObserver(mark).observe(box);", "mark();", "that fits"),
    ],
)
def test_larger_views(visit, page, old, new, fault):
    script = page.with_name("enlarge.js")
    assert old in script.read_text()
    script.write_text(script.read_text().replace(old, new, 1))
    faults = faults_of_larger_views(visit(390), page)
    assert bool(faults) == bool(fault), faults
    assert not fault or any(fault in each for each in faults), faults


LONG_TEXT = "the animal did not cross the street because it was tired"


def faults_of_columns(window, page: Path) -> list[str]:
    """Show a long and a short text next to others on a phone; return which of them is narrow."""
    cells = f"<td>{LONG_TEXT}</td><td>β = 0.1</td>" + "<td>verylongword</td>" * 6
    page.write_text(page.read_text().replace("<td>small</td>", cells), encoding="utf-8")
    window.open(page.as_uri())
    long, short = map(window.page.get_by_text, [LONG_TEXT, "β = 0.1"])
    wraps = short.evaluate("e => getComputedStyle(e).whiteSpace !== 'nowrap'")
    return ["long"] * (long.bounding_box()["width"] < 120) + ["short"] * wraps


@pytest.mark.parametrize(
    ("file", "old", "new", "faults"),
    [
        ("enlarge.js", "", "", []),
        ("enlarge.js", "LONG = 18", "LONG = 999", ["long"]),
        ("enlarge.js", "letters <= SHORT", "false", ["short"]),
        ("attentively.css", "td.long:not(:last-child)", "td.none", ["long"]),
        ("attentively.css", "tbody .short", "tbody .none", ["short"]),
    ],
)
def test_columns_of_tables_are_wide_enough(visit, page, file, old, new, faults):
    changed = page.with_name(file)
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, new, 1))
    assert faults_of_columns(visit(390), page) == faults
