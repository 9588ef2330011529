"""The built book, opened in a browser as a reader opens it."""

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

# Both widths and both schemes, each once: a page with many equations takes seconds to draw.
WINDOWS = {"wide, light": (1400, "light"), "narrow, dark": (390, "dark")}


def pages_of(site: Path) -> list[Path]:
    """Return every page of the book, the search page and the index among them."""
    pages = {path for path in site.rglob("*.html") if "_static" not in path.parts}
    return sorted(pages - {site / "index.html"})  # that one only leads to the preface


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


@pytest.mark.parametrize("name", WINDOWS)
def test_every_page_from_a_folder(site, visit, name):
    """Nothing is fetched, nothing complains, nothing is wider than the window."""
    width, scheme = WINDOWS[name]
    window = visit(width, scheme)
    for page in pages_of(site):
        window.open(page.as_uri())
        assert window.complaints == [], page.name
        needed = window.page.evaluate("document.documentElement.scrollWidth")
        assert needed <= width, f"{page.name} is {needed} pixels wide"
        assert window.page.evaluate("document.documentElement.dataset.theme") == scheme
        assert window.page.evaluate("document.documentElement.lang") == "en"
        if page.parent.name == "book":
            assert window.page.locator("article h1").count() == 1, page.name


def test_pages_over_http(site, served, visit):
    window = visit()
    for page in [site / "book" / "index.html", *chapters(site)]:
        window.open(f"{served}/{page.relative_to(site).as_posix()}")
        window.page.wait_for_load_state("networkidle")
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


def test_links_and_images_lead_somewhere(site, visit):
    """Each internal link finds its file and its place in it; each image is drawn and described."""
    window = visit()
    links: set[tuple[str, str]] = set()
    places: dict[str, set[str]] = {}
    faults = []
    for page in pages_of(site):
        window.open(page.as_uri())
        url = page.as_uri()
        places[url] = set(
            window.page.eval_on_selector_all("[id], a[name]", "es => es.map(e => e.id || e.name)")
        )
        hrefs = window.page.eval_on_selector_all(  # in SVG, e.href is no text
            "a[href]", "es => es.map(e => new URL(e.getAttribute('href'), document.baseURI).href)"
        )
        links |= {(url, href) for href in hrefs if href.startswith("file:")}
        for image in window.page.query_selector_all("img"):
            source, alt, drawn = image.evaluate(
                "e => [e.src, e.getAttribute('alt'), e.complete && e.naturalWidth > 0]"
            )
            if not drawn:
                faults.append(f"{page.name}: image {source} is not drawn")
            if not alt or alt.startswith(("_images", "../_images", source)) or ".png" in alt:
                faults.append(f"{page.name}: image {source} has no description, alt={alt!r}")
    for url, href in sorted(links):
        target, place = urldefrag(href)
        target = target.split("?")[0]
        file = Path(unquote(urlsplit(target).path))
        if not file.is_file():
            faults.append(f"{Path(url).name}: {href} leads nowhere")
        elif place and target in places and unquote(place) not in places[target]:
            faults.append(f"{Path(url).name}: {href} leads to no such place")
    assert len(links) > 20
    assert faults == []


def test_equations_are_drawn(site, visit):
    window = visit()
    window.open((site / "book" / "notation.html").as_uri())
    sources = window.page.locator("span.math, div.math").count()
    assert sources > 5
    assert window.page.locator("mjx-container svg").count() >= sources
    assert window.page.locator("mjx-merror, [data-mjx-error]").count() == 0
    # What a screen reader reads is there too.
    assert window.page.locator("mjx-assistive-mml math").count() >= sources


@pytest.mark.parametrize("how", ["folder", "http"])
def test_search(site, served, visit, how):
    window = visit()
    base = site.as_uri() if how == "folder" else served
    window.open(f"{base}/book/index.html")
    window.page.locator("button.search-button-field").first.click()
    window.page.keyboard.type("Bahdanau")
    window.page.keyboard.press("Enter")
    # Results come one by one: wait for this one, not for the first.
    found = '#search-results ul.search li > a[href*="bibliography"]'
    window.page.wait_for_selector(found, timeout=20_000)
    assert "search.html" in window.page.url
    assert window.complaints == []


def test_reader_chooses_light_or_dark(site, visit):
    window = visit(scheme="light")
    window.open((site / "book" / "notation.html").as_uri())
    seen = set()
    for _ in range(3):
        window.page.locator("button.theme-switch-button").first.click()
        seen.add(window.page.evaluate("document.documentElement.dataset.theme"))
    assert seen == {"light", "dark"}


def test_skip_link_comes_first(site, visit):
    window = visit()
    window.open((site / "book" / "notation.html").as_uri())
    window.page.keyboard.press("Tab")
    first = window.page.evaluate("document.activeElement.innerText")
    assert "Skip to main content" in first


def chapters(site: Path) -> list[Path]:
    """Return the pages that were executed: they come with a notebook."""
    notebooks = site.glob("_sources/book/*.ipynb")
    return [site / "book" / notebook.with_suffix(".html").name for notebook in sorted(notebooks)]


def test_chapters_open_as_notebooks(site, visit):
    """The button leads to a notebook that holds the page's code, and its answers folded."""
    assert chapters(site), "no page of the book was executed"
    window = visit()
    for page in chapters(site):
        window.open(page.as_uri())
        button = window.page.locator("a.btn-open-as-notebook")
        assert "Open as notebook" in button.inner_text()
        path = Path(unquote(urlsplit(button.evaluate("e => e.href")).path))
        text = path.read_text()
        notebook = json.loads(text)
        kinds = {cell["cell_type"] for cell in notebook["cells"]}
        assert kinds == {"markdown", "code"}
        assert "{literalinclude}" not in text
        assert "{quiz}" not in text


def test_chapters_show_no_warnings_and_no_machine(site):
    """What a cell wrote to stderr, or a path of the machine that built it, is not for readers."""
    root = str(site.parents[1])
    for page in pages_of(site):
        text = page.read_text()
        assert "output stderr" not in text, page.name
        assert root not in text, page.name


def test_code_has_copy_buttons(site, visit):
    window = visit()
    for page in chapters(site):
        window.open(page.as_uri())
        blocks = window.page.locator("div.cell_input div.highlight").count()
        assert blocks > 0
        assert window.page.locator("button.copybtn").count() >= blocks


def test_quiz_by_keyboard(site, visit):
    """Each option is reached by Tab, opened by Enter, and says right or not so."""
    window = visit()
    for page in chapters(site):
        window.open(page.as_uri())
        quizzes = window.page.locator("div.quiz")
        assert 3 <= quizzes.count() <= 6, f"{page.name} has {quizzes.count()} quiz questions"
        for quiz in quizzes.all():
            label = quiz.get_attribute("aria-labelledby")
            assert window.page.locator(f"#{label}").inner_text().strip()
            options = quiz.locator("details.quiz-option")
            said = []
            options.first.locator("summary").focus()
            for number in range(options.count()):
                option = options.nth(number)
                focused = option.locator("summary").evaluate("e => e === document.activeElement")
                assert focused, f"Tab does not reach option {number + 1} of {label}"
                why = option.locator(".quiz-why")
                assert not why.is_visible()
                window.page.keyboard.press("Enter")
                assert why.is_visible()
                said.append(why.inner_text().split(".")[0])
                window.page.keyboard.press("Enter")
                window.page.keyboard.press("Tab")
            assert set(said) == {"Right", "Not so"}, (label, said)


def test_quiz_without_scripts(site, visit):
    window = visit(java_script_enabled=False)
    for page in chapters(site):
        window.page.goto(page.as_uri())
        option = window.page.locator("details.quiz-option").first
        option.locator("summary").click()
        assert option.locator(".quiz-why").is_visible()
