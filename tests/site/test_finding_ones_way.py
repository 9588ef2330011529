"""Search, reading progress and quiz score in a browser, from a folder and without a network."""

import csv
import io
import json
from pathlib import Path

import pytest
import small_book
from search_queries import QUERIES

ROOT = Path(__file__).resolve().parents[2]
PROGRESS = "JSON.parse(localStorage.getItem('attentively.reading'))"


@pytest.fixture(scope="module")
def book(browser, tmp_path_factory) -> Path:
    return small_book.build(tmp_path_factory.mktemp("book"))


@pytest.fixture
def page(book, visit):
    """Return the first chapter in a window."""
    window = visit()
    window.page.set_default_timeout(10_000)
    window.page.route("**/none.js*", lambda route: route.fulfill(body=""))  # no MathJax here
    window.page.goto((book / "book" / "01_scores.html").as_uri())
    yield window.page
    assert window.complaints == []


def type_query(page, text: str) -> None:
    """Write a query into the open field, and wait for what is said about it."""
    page.locator("#pst-search-dialog input").fill(text)
    page.wait_for_function("document.querySelector('.search-status').textContent !== ''")


def options(page) -> list[str]:
    return page.locator("#search-list [role=option] .search-heading").all_inner_texts()


def test_search_by_keyboard(page):
    """The slash opens the field, arrows move, Enter opens the section, Escape closes."""
    page.keyboard.press("/")
    field = page.locator("#pst-search-dialog input")
    assert field.evaluate("e => e === document.activeElement")
    assert field.input_value() == ""
    type_query(page, "sofmax")
    assert "Results for “softmax”: " in page.locator(".search-status").inner_text()
    assert options(page)[:2] == ["Softmax of the scores", "softmax"]
    first = page.locator("#search-option-0")
    assert first.locator(".search-where").inner_text() == (
        "01 Scores › The dot product of a query and a key"
    )
    assert first.locator(".search-excerpt mark").all_inner_texts() == ["softmax"]
    assert field.get_attribute("aria-activedescendant") == "search-option-0"
    page.keyboard.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") == "search-option-1"
    assert page.locator("#search-list [aria-selected=true]").count() == 1
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")  # from the first to the last
    last = page.locator("#search-list [role=option]").count() - 1
    assert field.get_attribute("aria-activedescendant") == f"search-option-{last}"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/book/glossary.html#term-softmax")


def test_enter_opens_the_first_result_on_the_same_page(page):
    page.keyboard.press("Control+k")
    type_query(page, "check yourself")
    page.keyboard.press("Enter")
    page.wait_for_url("**/01_scores.html#check-yourself")
    assert not page.locator("#pst-search-dialog").is_visible()


def test_a_search_for_nothing_suggests(page):
    page.keyboard.press("/")
    type_query(page, "softpax")  # one letter off: corrected
    assert options(page)[0] == "Softmax of the scores"
    type_query(page, "xentroqi")
    page.wait_for_selector(".search-advice")
    assert page.locator(".search-status").inner_text() == "No section has “xentroqi”."
    advice = page.locator(".search-advice").inner_text()
    assert "Similar words in the book: entropy" in advice
    assert page.locator(".search-advice a").last.get_attribute("href") == "../book/index.html"
    assert options(page) == []


def test_a_slash_in_a_field_is_a_slash(page):
    page.keyboard.press("/")
    page.keyboard.type("a/b")
    assert page.locator("#pst-search-dialog input").input_value() == "a/b"


def test_nothing_is_loaded_before_the_field_is_opened(page):
    assert page.evaluate("typeof BookSearch") == "undefined"
    page.keyboard.press("/")
    page.wait_for_function("typeof BookSearch !== 'undefined'")


def test_a_missing_index_is_reported(book, visit, tmp_path):
    window = visit()
    window.page.route("**/search/index.js", lambda route: route.abort())
    window.page.goto((book / "search.html").as_uri() + "?q=softmax")
    status = window.page.locator("#search-results [role=status]")
    status.filter(has_text="The search does not work: index.js is missing").wait_for()


def test_page_of_results_on_a_phone(book, visit):
    window = visit(width=390, scheme="dark")
    window.page.goto((book / "search.html").as_uri() + "?q=residual%20connection")
    first = window.page.locator("#search-results li a").first
    assert first.locator(".search-heading").inner_text() == "Residual connection"
    assert first.get_attribute("href").endswith("/book/02_weights.html#residual-connection")
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert window.complaints == []


def test_progress_is_kept_shown_and_cleared(page, book):
    """A chapter is read when all its sections and its end were on the screen."""
    mark = page.locator(".bd-sidebar-primary .read-mark")
    assert chapters_read_after_the_end_alone(page) == 0
    for section in ["the-dot-product-of-a-query-and-a-key", "check-yourself"]:
        page.evaluate("id => document.getElementById(id).scrollIntoView()", section)
        page.wait_for_function(f"{PROGRESS}?.pages['01_scores'].seen.includes('{section}')")
    mark.wait_for()
    assert mark.locator("xpath=..").inner_text().startswith("01 Scores")
    assert "read" in mark.text_content()
    page.goto((book / "book" / "index.html").as_uri())
    box = page.locator(".continue-reading")
    assert "Chapters read: 1 ·" in box.inner_text()
    link = box.locator("a")
    assert link.inner_text() == "01 Scores: Check yourself"
    assert link.get_attribute("href") == "01_scores.html#check-yourself"
    box.get_by_role("button", name="Clear reading progress").click()
    assert mark.count() == 0
    page.reload()
    assert not box.is_visible()


def test_quiz_score_is_kept_exported_and_cleared(page):
    score = page.locator(".quiz-score [role=status]")
    assert "The first option that you open counts" in score.inner_text()
    assert page.locator(".quiz-score button:visible").count() == 0
    quizzes = page.locator("div.quiz")
    quizzes.nth(0).locator("summary").nth(0).click()  # wrong
    score.filter(has_text="0 of 1 right").wait_for()
    quizzes.nth(0).locator("summary").nth(1).click()  # right, but the second answer
    quizzes.nth(1).locator("summary").nth(0).click()
    score.filter(has_text="1 of 2 right at the first try").wait_for()
    page.reload()
    assert "1 of 2 right" in score.inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save all my answers").click()
    text = Path(download.value.path()).read_bytes().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["chapter"], row["number"], row["right"]) for row in rows] == [
        ("01_scores", "1", "no"),
        ("01_scores", "2", "yes"),
    ]
    assert rows[0]["answer"] == "the number of keys"
    assert rows[1]["question"] == "What is d_k, in “quotes”?"
    assert rows[1]["answer"] == "a dimension, of keys"
    page.get_by_role("button", name="Clear the answers").click()
    assert "The first option that you open counts" in score.inner_text()
    assert page.locator("details.quiz-option[open]").count() == 0


def test_an_answer_to_another_question_does_not_count(page):
    """A question that was changed after it was answered is open again."""
    stored = {"01_scores": {"quiz-1": {"question": "An old question", "right": True}}}
    page.evaluate("text => localStorage.setItem('attentively.quiz', text)", json.dumps(stored))
    page.reload()
    score = page.locator(".quiz-score [role=status]")
    assert "The first option that you open counts" in score.inner_text()


def test_without_storage_nothing_appears(book, visit):
    window = visit()
    window.page.add_init_script(
        "Storage.prototype.getItem = Storage.prototype.setItem = () => { throw new Error('no') }"
    )
    window.page.route(
        "**/*.js*",
        lambda route: (
            route.continue_()
            if any(name in route.request.url for name in ("quiz", "reading"))
            else route.fulfill(body="")
        ),
    )  # the theme itself does not work without storage
    window.page.goto((book / "book" / "01_scores.html").as_uri())
    window.page.locator("summary").first.click()
    assert window.page.locator(".quiz-why").first.is_visible()
    assert window.page.locator(".quiz-score").count() == 0
    assert all("no" in each for each in window.complaints)
    assert not any("quiz.js" in each or "reading.js" in each for each in window.complaints)


def test_without_scripts_nothing_is_promised(book, visit):
    window = visit(java_script_enabled=False)
    window.page.goto((book / "book" / "01_scores.html").as_uri())
    assert window.page.locator(".quiz-score, .read-mark").count() == 0
    window.page.goto((book / "book" / "index.html").as_uri())
    assert not window.page.locator(".continue-reading").is_visible()
    window.page.goto((book / "search.html").as_uri())
    assert "needs JavaScript" in window.page.locator(".bd-search-container").inner_text()


def test_links_to_places_appear_on_focus(page):
    for place in ["h2", ".eqno", "figcaption", ".results-table caption"]:
        thing = page.locator(f"article {place}").first
        link = thing.locator("a.headerlink")
        page.mouse.move(0, 0)
        assert link.evaluate("e => getComputedStyle(e).opacity") == "0", place
        link.focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        assert link.evaluate("e => e === document.activeElement"), place
        assert link.evaluate("e => getComputedStyle(e).opacity") == "1", place
        page.locator("body").click(position={"x": 1, "y": 1})
        thing.hover()
        assert link.evaluate("e => getComputedStyle(e).opacity") == "1", place


# Each property has a broken variant of its script


def answer_twice(page) -> str:
    """Open a wrong option, then the right one; return the score."""
    for number in (0, 1):
        page.locator("div.quiz").first.locator("summary").nth(number).click()
    page.wait_for_timeout(500)
    return page.locator(".quiz-score [role=status]").inner_text()[:24]


def headings_for_a_slip(page) -> list[str]:
    page.keyboard.press("/")
    type_query(page, "sofmax")
    return options(page)[:1]


def chapters_read_after_the_end_alone(page) -> int:
    page.set_viewport_size({"width": 1400, "height": 160})
    page.evaluate("localStorage.clear()")
    page.reload()
    page.locator(".prev-next-area").scroll_into_view_if_needed()
    page.wait_for_function(f"{PROGRESS}?.pages['01_scores'].seen.includes('end')")
    return page.locator(".read-mark").count()


@pytest.mark.parametrize(
    ("see", "right", "script", "line", "change"),
    [
        (
            answer_twice,
            "Your score: 0 of 1 right",
            "quiz.js",
            "if (here[id]?.question === text) return;",
            "",
        ),
        (
            headings_for_a_slip,
            ["Softmax of the scores"],
            "engine.js",
            "small.length < 4 ? 0 : small.length < 8 ? 1 : 2",
            "0",
        ),
        (chapters_read_after_the_end_alone, 0, "reading.js", "all.every", "all.some"),
    ],
)
def test_a_broken_variant_is_seen(page, see, right, script, line, change):
    assert see(page) == right
    path = next((ROOT / "book" / "_static").rglob(script))
    text = path.read_text()
    assert line in text
    page.route(f"**/{script}*", lambda route: route.fulfill(body=text.replace(line, change)))
    page.evaluate("localStorage.clear()")
    page.reload()
    assert see(page) != right


# Quality, on the real book


def rates(page, queries: dict[str, str]) -> tuple[float, float, list[str]]:
    """Return how often the expected section is first, how often among three, and what is not."""
    first = three = 0
    missed = []
    for query, expected in queries.items():
        found = page.evaluate(
            "query => BookSearch.search(query, 3).results.map(({section}) =>"
            " section.page.url.replace(/^book.|.html$/g, '') + '#' + section.anchor)",
            query,
        )
        first += found[:1] == [expected]
        three += expected in found
        if expected not in found:
            missed.append(f"{query}: {found}")
    return first / len(queries), three / len(queries), missed


def test_hit_rates(site, visit):
    """Of the queries, 75 % have the expected section first, and 90 % among the first three."""
    window = visit()
    window.page.goto((site / "book" / "index.html").as_uri())
    window.page.keyboard.press("/")
    ready = "typeof BookSearch !== 'undefined' && BookSearch.search('softmax').count > 0"
    window.page.wait_for_function(ready)
    first, three, missed = rates(window.page, QUERIES)
    print(f"expected section first: {first:.0%}, among three: {three:.0%}, of {len(QUERIES)}")
    assert first >= 0.75, missed
    assert three >= 0.90, missed
    shuffled = dict(
        zip(QUERIES, [*list(QUERIES.values())[7:], *list(QUERIES.values())[:7]], strict=True)
    )
    assert rates(window.page, shuffled)[1] < 0.2  # wrong expectations are seen
    count = "BookSearch.search('xylophone').count"
    assert window.page.evaluate(count) == 0
    assert window.complaints == []
