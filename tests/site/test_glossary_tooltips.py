"""Definitions of terms in a browser: on hover, on focus and on a tap, without a network."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "book"))
import test_glossary_tooltips as tooltips  # noqa: E402

DEFINITION = "A weighted average of values, one for each query."
SCRIPT = "_static/glossary.js"


@pytest.fixture(scope="module")
def small_site(browser, tmp_path_factory) -> Path:
    """Return a book of two pages, with the theme and its scripts."""
    return tooltips.build(tmp_path_factory.mktemp("book"), theme="sphinx_book_theme")


def opened(visit, folder: Path, **options):
    window = visit(**options)
    window.page.goto((folder / "03_chapter.html").as_uri())
    window.page.set_default_timeout(5_000)
    return window.page, window.page.locator("strong a.glossary-term")


def shown(page) -> list[str]:
    """Return the definitions that are visible a second later."""
    page.wait_for_timeout(1_000)
    return page.locator("[role=tooltip]:visible").all_inner_texts()


def test_hover_shows_the_definition_and_escape_hides_it(small_site, visit):
    page, link = opened(visit, small_site)
    assert shown(page) == []
    link.hover()
    assert shown(page) == [DEFINITION]
    page.keyboard.press("Escape")
    assert shown(page) == []


def test_focus_shows_the_definition_and_enter_leads_to_the_entry(small_site, visit):
    page, link = opened(visit, small_site)
    page.locator("a.glossary-term").nth(1).focus()
    page.keyboard.press("Tab")
    assert link.evaluate("e => e === document.activeElement")
    assert shown(page) == [DEFINITION]
    described = link.get_attribute("aria-describedby")
    assert page.locator(f"#{described}").inner_text() == DEFINITION
    page.keyboard.press("Enter")
    page.wait_for_url("**/notation.html#term-attention")


def test_a_tap_shows_the_definition_and_a_second_one_follows_the_link(small_site, visit):
    page, link = opened(visit, small_site, width=390, has_touch=True, is_mobile=True)
    link.tap()
    assert shown(page) == [DEFINITION]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("article h1").tap()
    assert shown(page) == []
    link.tap()
    assert shown(page) == [DEFINITION]
    link.tap()
    page.wait_for_url("**/notation.html#term-attention")


def test_without_scripts_the_link_and_its_title_remain(small_site, visit):
    page, link = opened(visit, small_site, java_script_enabled=False)
    assert link.get_attribute("title") == DEFINITION
    link.click()
    page.wait_for_url("**/notation.html#term-attention")


@pytest.mark.parametrize(
    ("broken", "by", "test"),
    [
        ('"Escape"', '"End"', test_hover_shows_the_definition_and_escape_hides_it),
        ('"touch"', '"pen"', test_a_tap_shows_the_definition_and_a_second_one_follows_the_link),
        ("tapped = link", "", test_a_tap_shows_the_definition_and_a_second_one_follows_the_link),
    ],
)
def test_a_broken_script_is_seen(small_site, visit, tmp_path, broken, by, test):
    folder = shutil.copytree(small_site, tmp_path / "html")
    source = (folder / SCRIPT).read_text()
    assert broken in source
    (folder / SCRIPT).write_text(source.replace(broken, by))
    timeout = pytest.importorskip("playwright.sync_api").TimeoutError
    with pytest.raises((AssertionError, timeout)):
        test(folder, visit)
