"""Links to the previous and the next page show the question of that chapter."""

import sys
from pathlib import Path

import pytest
import small_book
from bs4 import BeautifulSoup

sys.path.insert(0, str(small_book.EXTENSIONS))
import chapter_questions

BOOK = Path(__file__).resolve().parents[2] / "book"


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    return small_book.build(tmp_path_factory.mktemp("book"))


def questions_on(page: Path) -> dict[str, str]:
    """Return title and question of each neighbour."""
    soup = BeautifulSoup(page.read_text(), "lxml")
    return {
        side: " ".join(soup.select_one(f".prev-next-area .{side} .prev-next-title").text.split())
        for side in ("left-prev", "right-next")
        if soup.select_one(f".prev-next-area .{side}")
    }


def test_both_neighbours_show_their_question(html):
    assert questions_on(html / "book" / "01_scores.html") == {
        "left-prev": "A small book",  # not a chapter
        "right-next": "02 Weights What do weights & values do?",
    }
    assert questions_on(html / "book" / "02_weights.html") == {
        "left-prev": '01 Scores Which "score" is best?',
        "right-next": "Glossary",
    }


def test_the_page_has_no_markup_in_the_titles_of_its_head(html):
    soup = BeautifulSoup((html / "book" / "01_scores.html").read_text(), "lxml")
    assert soup.select_one("head link[rel=next]")["title"] == "02 Weights"


def missing(text: str) -> set[str]:
    """Return the chapters without a question."""
    return {path.stem for path in BOOK.glob("[0-9]*.md")} - set(
        chapter_questions.read_questions(text)
    )


def test_every_chapter_has_its_question_in_the_table():
    text = (BOOK / "index.md").read_text()
    assert missing(text) == set()
    without = text.replace("](08_additive_attention.md) | How", "](08_additive_attention.md) How")
    assert missing(without) == {"08_additive_attention"}
