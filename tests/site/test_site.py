"""The built book, opened in a browser as a reader opens it."""

import functools
import gzip
import http.server
import json
import random
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import accessibility
import pytest
from site_visits import Visits, targets

WIDE, NARROW = 1400, 390
HEAVIEST = 1_000_000
"""Most bytes that a page may load, compressed: less than ten seconds on a slow connection."""
PIXEL = "R0lGODlhAQABAIAAAAUEBAAAACwAAAAAAQABAAACAkQBADs="


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    """Serve the site on this machine; return its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def executed_pages(site: Path) -> list[Path]:
    """Return the pages that were executed: they come with a notebook."""
    notebooks = site.glob("_sources/book/*.ipynb")
    return [site / "book" / notebook.with_suffix(".html").name for notebook in sorted(notebooks)]


def chapters(site: Path) -> list[Path]:
    """Return the executed pages with a number: they have a quiz."""
    return [page for page in executed_pages(site) if page.name[:2].isdigit()]


# What is to be seen on a page: each is asked of a window in which the page is open. All of it
# is seen on one visit, since a page with many equations takes seconds to draw.


def see_no_complaints(window, page: Path) -> None:
    """Nothing is fetched, nothing complains."""
    assert window.complaints == []


def see_width_and_scheme(window, width: int, scheme: str) -> None:
    """Nothing is wider than the window, and the page is as light or dark as the system."""
    needed = window.page.evaluate("document.documentElement.scrollWidth")
    assert needed <= width, f"{needed} pixels wide, in a window of {width}"
    assert window.page.evaluate("document.documentElement.dataset.theme") == scheme


def see_wide_and_light(window, page: Path) -> None:
    see_width_and_scheme(window, WIDE, "light")


def see_narrow_and_dark(window, page: Path) -> None:
    """The same page on a telephone in the evening."""
    window.page.set_viewport_size({"width": NARROW, "height": 900})
    window.page.emulate_media(color_scheme="dark")
    for _ in range(100):  # the page hears of it a moment later
        if window.page.evaluate("document.documentElement.dataset.theme") == "dark":
            break
        window.page.wait_for_timeout(100)
    see_width_and_scheme(window, NARROW, "dark")


def see_no_violations(window, page: Path) -> None:
    """Axe finds no violation of WCAG 2.2."""
    faults = list(accessibility.violations(window.page))
    assert not faults, "\n".join(faults)


def see_language_and_title(window, page: Path) -> None:
    assert window.page.evaluate("document.documentElement.lang") == "en"
    if page.parent.name == "book":
        assert window.page.locator("article h1").count() == 1


def see_images(window, page: Path) -> None:
    """Each image is drawn and described; a figure's version for the other mode is not loaded."""
    faults = []
    for image in window.page.query_selector_all("img"):
        source, alt, drawn = image.evaluate(
            "e => [e.src, e.getAttribute('alt'), e.complete && e.naturalWidth > 0 ||"
            " e.matches('.figure-box .only-dark') && !e.checkVisibility()]"
        )
        if not drawn:
            faults.append(f"image {source} is not drawn")
        if not alt or alt.startswith(("_images", "../_images", source)) or ".png" in alt:
            faults.append(f"image {source} has no description, alt={alt!r}")
    assert faults == []


MARKUP = r"""() => {
    const markup = /^\|.*\|$|\*\*|\$[^$]+\$|^#+ |\]\(|:::|\{(numref|eq|ref|cite|doc|term)\b/s;
    const words = (e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data);
    return [...document.querySelectorAll('article :is(p, li, dd, td, figcaption, caption)')]
        .map((e) => words(e).join(' ').trim()).filter((text) => markup.test(text));
}"""


def see_no_markup(window, page: Path) -> None:
    """What was meant as a table, as emphasis, as a formula or as a link has become one."""
    assert window.page.evaluate(MARKUP) == []


LINKS = """() => [...document.querySelectorAll('a[href]')].map(  // in SVG, e.href is no text
    e => new URL(e.getAttribute('href'), document.baseURI).href)"""


def see_links(window, page: Path) -> None:
    """The file of each internal link exists and contains the id that the link names."""
    faults = []
    links = {href for href in window.page.evaluate(LINKS) if href.startswith("file:")}
    for href in sorted(links):
        target, place = urldefrag(href)
        file = Path(unquote(urlsplit(target).path))
        if not file.is_file():
            faults.append(f"{href} leads nowhere")
        elif place and file.suffix == ".html" and unquote(place) not in targets(file):
            faults.append(f"{href} leads to no such place")
    assert faults == []


def weight(files: Iterable[Path]) -> int:
    """Return the bytes of some files as a server sends them, compressed."""
    return sum(len(gzip.compress(file.read_bytes(), 6)) for file in files)


def see_weight(window, page: Path) -> None:
    """Only what is shown at first is loaded."""
    window.page.wait_for_load_state("networkidle")
    urls = {urlsplit(url) for url in window.requested}
    files = {Path(unquote(url.path)) for url in urls if url.scheme == "file"}
    assert not [file for file in files if file.parent.name == "webfonts"]
    loaded = weight(file for file in files if file.is_file())
    assert loaded <= HEAVIEST, f"{loaded:,} bytes, more than {HEAVIEST:,}"


def see_notebook(window, page: Path) -> None:
    """The button leads to a notebook that holds the page's code, and its answers folded."""
    button = window.page.locator("a.btn-open-as-notebook")
    assert "Open as notebook" in button.inner_text()
    path = Path(unquote(urlsplit(button.evaluate("e => e.href")).path))
    text = path.read_text()
    notebook = json.loads(text)
    kinds = {cell["cell_type"] for cell in notebook["cells"]}
    assert kinds == {"markdown", "code"}
    assert "{literalinclude}" not in text
    assert "{quiz}" not in text


def see_copy_buttons(window, page: Path) -> None:
    blocks = window.page.locator("div.cell_input div.highlight").count()
    assert blocks > 0
    assert window.page.locator("button.copybtn").count() >= blocks


def see_larger_views(window, page: Path) -> None:
    """Each figure has its button."""
    figures = window.page.locator(".figure-box").count()
    assert (
        window.page.locator(".enlarge-frame:has(> .figure-box) > .enlarge").count() == figures > 0
    )


# Of a page without equations and code, each key press is drawn much sooner.
NOTHING_BUT_QUIZZES = "body :not(:has(.quiz), .quiz, .quiz *) { display: none !important }"
CLOSED = """option => [option.querySelector('summary') === document.activeElement,
    option.querySelector('.quiz-why').checkVisibility()]"""
OPEN = """option => {
    const why = option.querySelector('.quiz-why');
    const said = why.checkVisibility() && why.innerText.split('.')[0];
    option.open = false;
    return said;
}"""


def see_quiz_by_keyboard(window, page: Path) -> None:
    """Each option is reached by Tab, opened by Enter, and says right or not so."""
    quizzes = window.page.query_selector_all("div.quiz")
    assert 3 <= len(quizzes) <= 6, f"{len(quizzes)} quiz questions"
    style = window.page.add_style_tag(content=NOTHING_BUT_QUIZZES)
    for quiz in quizzes:
        label = quiz.get_attribute("aria-labelledby")
        assert window.page.locator(f"#{label}").inner_text().strip()
        said = []
        quiz.query_selector("details.quiz-option summary").focus()
        for number, option in enumerate(quiz.query_selector_all("details.quiz-option"), 1):
            focused, visible = option.evaluate(CLOSED)
            assert focused, f"Tab does not reach option {number} of {label}"
            assert not visible
            window.page.keyboard.press("Enter")
            said.append(option.evaluate(OPEN))
            window.page.keyboard.press("Tab")
        assert set(said) == {"Right", "Not so"}, (label, said)
    style.evaluate("e => e.remove()")


EVERY_PAGE = (see_language_and_title, see_wide_and_light, see_images, see_no_markup, see_links)
EXECUTED = (see_weight, see_notebook, see_copy_buttons)
CHAPTER = (see_larger_views, see_quiz_by_keyboard)


def faults_of(window, page: Path, sights) -> list[str]:
    """Open a page in a wide and light window; return what is wrong with it."""
    faults = []
    window.page.goto("about:blank")
    window.page.emulate_media(color_scheme="light")
    window.page.set_viewport_size({"width": WIDE, "height": 900})
    window.complaints.clear()
    window.requested.clear()
    window.open(page.as_uri())
    for see in sights:
        try:
            see(window, page)
        except AssertionError as error:
            faults.append(f"{page.name}: {see.__name__}: {error}")
    return faults


@pytest.mark.parametrize("part", range(3))
def test_every_page_from_a_folder(site, pages, browser, visit, pytestconfig, part):
    """A page that was without a fault before, and is the same since, is not visited again."""
    visits = Visits(site, browser.version, getattr(pytestconfig, "cache", None))
    assert chapters(site), "no page of the book was executed"
    window = visit(WIDE)
    faults = []
    executed, numbered = executed_pages(site), chapters(site)
    for page in pages[part::3]:
        if visits.is_same(page):
            continue
        sights = EXECUTED if page in executed else (see_weight,) if page.stem == "index" else ()
        sights += EVERY_PAGE
        sights += CHAPTER if page in numbered else ()
        sights += (see_narrow_and_dark, see_no_complaints, see_no_violations)
        found = faults_of(window, page, sights)
        faults += found
        if not found:
            visits.keep(page)
    assert not faults, "\n".join(faults)


BAD = """<!doctype html><html lang="{lang}" data-theme="{theme}"><p style="width: {width}px">x</p>
{more}
<script>
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => {{
    if (!{stays}) document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  }});
</script>"""
GOOD = {"lang": "en", "theme": "light", "width": 300, "more": "", "stays": "false"}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"lang": "de"}, "see_language_and_title"),
        ({"theme": "dark"}, "see_wide_and_light"),
        ({"width": 600}, "see_narrow_and_dark"),
        ({"stays": "true"}, "see_narrow_and_dark"),
        ({"more": "<img alt='A map' src='data:image/gif;base64,none'>"}, "see_images"),
        ({"more": f"<img src='data:image/gif;base64,{PIXEL}'>"}, "see_images"),
        ({"more": "<script>undefined.x</script>"}, "see_no_complaints"),
        ({"more": '<a id="here" href="#here">x</a>'}, ""),
        ({"more": "<a href='page.html#there'>x</a>"}, "see_links"),
        ({"more": "<a href='none.html'>x</a>"}, "see_links"),
        ({"more": "<article><p>costs $5</p></article>"}, ""),
        ({"more": "<article><p>| <i>x</i> | y |</p></article>"}, "see_no_markup"),
        ({"more": "<article><p>needs $O(n^2)$ memory</p></article>"}, "see_no_markup"),
    ],
)
def test_each_fault_of_a_page_is_seen(visit, tmp_path, change, fault):
    page = tmp_path / "page.html"
    page.write_text(BAD.format(**GOOD | change))
    sights = (*EVERY_PAGE, see_narrow_and_dark, see_no_complaints)
    faults = faults_of(visit(WIDE), page, sights)
    assert [each.split(": ")[1] for each in faults] == [fault] * bool(fault)


@pytest.mark.parametrize(
    ("content", "heavy"),
    [(b"x" * HEAVIEST * 3, False), (random.Random(0).randbytes(HEAVIEST), True)],
    ids=["text", "noise"],
)
def test_a_heavy_page_is_seen(visit, tmp_path, content, heavy):
    page = tmp_path / "page.html"
    page.write_text("<img src='image'>")
    (tmp_path / "image").write_bytes(content)
    assert bool(faults_of(visit(WIDE), page, [see_weight])) == heavy


def test_pages_over_http(site, served, visit):
    """Nothing is missing."""
    window = visit()
    for page in [site / "book" / "index.html", executed_pages(site)[0]]:
        window.open(f"{served}/{page.relative_to(site).as_posix()}")
        window.page.wait_for_load_state("networkidle")
    assert len(window.requested) > 20
    assert window.complaints == []


def test_the_first_file_leads_to_the_preface(site, visit):
    window = visit()
    window.page.goto((site / "index.html").as_uri())
    window.page.wait_for_url("**/book/index.html")
    assert window.complaints == []


def test_a_complaint_is_heard(site, visit, tmp_path):
    """The tests above can fail: a page with each fault is caught."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<p style='width: 3000px'>x</p><img src='none.png'>"
        "<script src='http://example.invalid/x.js'></script><script>undefined.x</script>"
    )
    window = visit(390)
    window.open(page.as_uri())
    heard = " ".join(window.complaints)
    for fault in ["none.png", "example.invalid", "error: "]:
        assert fault in heard
    assert window.page.evaluate("document.documentElement.scrollWidth") > 390


def test_equations_need_no_script(site, visit):
    window = visit(java_script_enabled=False)
    window.open((site / "book" / "notation.html").as_uri())
    equations = window.page.locator("span.math, div.math")
    assert equations.count() > 5
    for equation in equations.all()[::20]:
        size = equation.locator("svg").bounding_box()
        assert size["width"] > 3
        assert size["height"] > 3
        # What a screen reader reads is there too.
        assert equation.locator("mjx-assistive-mml math").count() == 1


@pytest.mark.parametrize("how", ["folder", "http"])
def test_search(site, served, visit, how):
    window = visit()
    base = site.as_uri() if how == "folder" else served
    window.open(f"{base}/book/index.html")
    window.page.locator("button.search-button-field").first.click()
    window.page.keyboard.type("Bahdanau")
    window.page.locator('#search-list a[href*="bibliography"]').first.click()
    window.page.wait_for_url("**/bibliography.html#*")
    window.open(f"{base}/search.html?q=Bahdanau")
    window.page.locator('#search-results li a[href*="bibliography"]').first.wait_for()
    assert window.complaints == []


def test_reader_chooses_light_or_dark(site, visit):
    window = visit(scheme="light")
    window.open((site / "book" / "notation.html").as_uri())
    seen = set()
    for _ in range(3):
        window.page.locator("button.theme-switch-button").first.click()
        seen.add(window.page.evaluate("document.documentElement.dataset.theme"))
    assert seen == {"light", "dark"}


def test_on_a_phone_a_tap_on_a_section_closes_the_side_bar(site, visit):
    window = visit(390)
    window.open((site / "book" / "notation.html").as_uri())
    page = window.page
    over = page.locator("#pst-secondary-sidebar-modal")
    page.locator("button.secondary-toggle").first.click()
    assert over.evaluate("each => each.open")
    over.locator('a[href^="#"]').first.click()
    page.wait_for_function("() => location.hash")
    assert not over.evaluate("each => each.open")


def test_skip_link_comes_first(site, visit):
    window = visit()
    window.open((site / "book" / "notation.html").as_uri())
    window.page.keyboard.press("Tab")
    first = window.page.evaluate("document.activeElement.innerText")
    assert "Skip to main content" in first


def test_chapters_show_no_warnings_and_no_machine(site, pages):
    """What a cell wrote to stderr, or a path of the machine that built it, is not for readers."""
    root = str(site.parents[1])
    for page in pages:
        text = page.read_text()
        assert "output stderr" not in text, page.name
        assert root not in text, page.name


def test_quiz_without_scripts(site, visit):
    """An option opens without a script, and each quiz consists of such options."""
    window = visit(java_script_enabled=False)
    pages = chapters(site)
    window.page.goto(pages[0].as_uri())
    option = window.page.locator("details.quiz-option").first
    option.locator("summary").click()
    assert option.locator(".quiz-why").is_visible()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        options = re.findall(r'<details class="quiz-option.*?</details>', text, re.S)
        assert len(options) > 3, page.name
        assert all('class="quiz-why' in each for each in options), page.name
