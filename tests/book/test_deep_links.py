"""Every heading, numbered equation, figure and table of results has a link to itself."""

import re
import sys

import pytest
import small_book
from bs4 import BeautifulSoup

sys.path.insert(0, str(small_book.EXTENSIONS))
import deep_links

TABLE = '<div class="results-table"><table><caption><span>{}</span></caption></table></div>'


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    html = small_book.build(tmp_path_factory.mktemp("book"))
    return (html / "book" / "01_scores.html").read_text()


def unlinked(page: str) -> list[str]:
    """Return what lacks a link, or has one that leads nowhere or has no name."""
    soup = BeautifulSoup(page, "lxml")
    found = []
    article = soup.select_one("article")
    for thing in article.select("h1, h2, h3, .eqno, figcaption, .results-table caption"):
        link = thing.select_one("a.headerlink")
        if not (link and soup.find(id=link["href"][1:]) and link["title"].startswith("Link to")):
            found.append(thing.text.strip())
    return found


def test_everything_has_its_link(page):
    assert len(BeautifulSoup(page, "lxml").select("article a.headerlink")) == 7
    assert unlinked(page) == []


@pytest.mark.parametrize(
    ("pattern", "change", "left"),
    [
        (r'id="fig-dot"', "", "A dot as a figure.#"),
        (r'<a class="headerlink" href="#table[^>]*>.*?</a>', "", "Scores of two keys."),
        (r'title="Link to this equation"', 'title=""', "(1)#"),
    ],
)
def test_a_missing_link_is_seen(page, pattern, change, left):
    broken = re.sub(pattern, change, page)
    assert broken != page
    assert unlinked(broken) == [left]


def test_the_sign_is_hidden_from_screen_readers(page):
    for link in BeautifulSoup(page, "lxml").select("article a.headerlink"):
        assert link.select_one("[aria-hidden=true]").text == link.text == "#"


def test_tables_with_the_same_caption_have_different_anchors():
    used = {"table-loss"}
    text = TABLE.format("Loss") + TABLE.format("<i>Loss</i>") + TABLE.format("Accuracy, in %")
    linked = deep_links.TABLE.sub(lambda match: deep_links.linked(match, used), text)
    anchors = [div["id"] for div in BeautifulSoup(linked, "lxml").select(".results-table")]
    assert anchors == ["table-loss-2", "table-loss-3", "table-accuracy-in"]
