"""A page is visited again when anything changes that a visit can depend on."""

import os

import pytest
from site_visits import Visits
from stamps import VARIABLE, build_book

PAGE = """<link href="_static/look.css"><img src="_images/figure.svg">
<a href="other.html#here">x</a><a href="page.ipynb">Open as notebook</a><a href="#own">y</a>
<a href="https://example.org/">z</a><p id="own">words</p>"""
FILES = {
    "page.html": PAGE,
    "other.html": "<p id='there'>",
    "page.ipynb": "{}",
    "_images/figure.svg": "<svg/>",
    "_images/unused.svg": "<svg/>",
    "_static/look.css": "",
    "_static/search/index.js": "",
}


@pytest.fixture
def site(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


class Cache(dict):
    set = dict.__setitem__


def is_same(site, cache, browser="1"):
    build_book().look_again()
    return Visits(site, browser, cache).is_same(site / "page.html")


@pytest.fixture
def cache(site):
    """Return the cache after a visit."""
    cache = Cache()
    assert not is_same(site, cache)
    Visits(site, "1", cache).keep(site / "page.html")
    assert is_same(site, cache)
    return cache


@pytest.mark.parametrize(
    ("name", "text", "same"),
    [
        ("page.html", PAGE + " ", False),
        ("page.ipynb", "{ }", False),
        ("_images/figure.svg", "<svg />", False),
        ("_images/unused.svg", "<svg />", True),
        ("_static/look.css", "p {}", False),
        ("_static/new.js", "", False),
        ("_static/search/index.js", "words", True),
        ("other.html", '<p id="there">more words', True),
        ("other.html", '<p id="here">', False),
        ("third.html", "", True),
    ],
)
def test_a_page_is_visited_again_after_a_change_that_it_can_show(site, cache, name, text, same):
    (site / name).write_text(text)
    assert is_same(site, cache) == same


def test_a_link_that_leads_nowhere_now_is_seen(site, cache):
    (site / "other.html").unlink()
    assert not is_same(site, cache)


def test_another_browser_visits_all_pages(site, cache):
    assert not is_same(site, cache, browser="2")


def test_without_a_cache_and_without_stamps_all_pages_are_visited(site, cache, monkeypatch):
    assert not is_same(site, None)
    Visits(site, "1", None).keep(site / "page.html")
    monkeypatch.setitem(os.environ, VARIABLE, "0")
    assert not is_same(site, cache)
