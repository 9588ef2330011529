"""The index of the search: one entry for each section, with an anchor that exists."""

import json
import re
import sys
from pathlib import Path

import pytest
import small_book
from bs4 import BeautifulSoup

sys.path.insert(0, str(small_book.EXTENSIONS))
import section_search


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    return small_book.build(tmp_path_factory.mktemp("book"))


@pytest.fixture(scope="module")
def index(html) -> dict:
    text = (html / "_static" / "search" / "index.js").read_text()
    return json.loads(re.fullmatch(r"BookSearch\.receive\((.*)\);\n", text, re.S)[1])


def section(index: dict, heading: str) -> section_search.Section:
    (found,) = [entry for entry in index["sections"] if entry[3] == heading]
    return section_search.Section(*found[1:])


def dangling(index: dict, html: Path) -> list[str]:
    """Return the entries that lead to no place of their page."""
    pages = [BeautifulSoup((html / url).read_text(), "lxml") for url, _, _ in index["pages"]]
    return [
        anchor for page, _, anchor, *_ in index["sections"] if pages[page].find(id=anchor) is None
    ]


def test_every_section_is_an_entry_with_its_level(index):
    pages = [title for _, title, _ in index["pages"]]
    assert pages == ["A small book", "01 Scores", "02 Weights", "Glossary", "API"]
    levels = {heading: level for page, level, _, heading, *_ in index["sections"] if page == 1}
    assert levels == {
        "01 Scores": 1,
        "The dot product of a query and a key": 2,
        "Softmax of the scores": 3,
        "Check yourself": 2,
    }


def test_pages_have_their_kind(index):
    kinds = {title: kind for _, title, kind in index["pages"]}
    assert kinds == {
        "A small book": "reference",
        "01 Scores": "chapter",
        "02 Weights": "reference",  # it has no cell
        "Glossary": "glossary",
        "API": "api",
    }


def test_every_entry_leads_to_a_place_of_its_page(index, html):
    assert dangling(index, html) == []
    wrong = index | {"sections": [[1, 2, "nowhere", "A heading", "", []]]}
    assert dangling(wrong, html) == ["nowhere"]


def test_text_has_prose_formulas_and_captions_of_its_own_section_only(index):
    text = section(index, "The dot product of a query and a key").text
    assert "how well a query and a key agree, here √d_k and α." in text
    assert "Scores of two keys." in text
    assert "A dot as a figure." in text
    assert "turns scores into weights" not in text  # of the section inside


def test_code_gives_names_and_no_text(index):
    found = section(index, "The dot product of a query and a key")
    assert found.names == ["masked_scores"]
    assert "hidden_in_code" not in found.text


def test_answers_of_a_quiz_are_left_out(index, monkeypatch):
    text = section(index, "Check yourself").text
    assert "What do the weights sum to?" in text
    assert "parrots" not in json.dumps(index)
    node = section_search.option_node("", section_search.nodes.paragraph("", "parrots"))
    assert section_search.text_of(node) == ""
    monkeypatch.setattr(section_search, "LEFT_OUT", ())
    assert section_search.text_of(node) == "parrots"


def test_terms_and_functions_are_entries(index):
    assert section(index, "entropy").anchor == "term-entropy"
    assert section(index, "entropy").text == "The expected surprise of a distribution."
    found = section(index, "apply_mask")
    assert found.anchor == "attentively.masks.apply_mask"
    assert found.text.startswith("Set the scores of masked positions")


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\sqrt{d_k}", "√d_k"),
        (r"\alpha_{ij} \times \Delta", "α_ij × Δ"),
        (r"d_\text{model} = 512", "d_model = 512"),
        (r"\frac{1}{2} (p + q)", "1/2 (p + q)"),
        (r"(y_1, \dots, y_{\lvert y \rvert})", "(y_1, …, y_| y |)"),
        (r"\ln p(y \mid x)", "ln p(y | x)"),
        (r"v^\top \tanh(W s)", "vᵀ tanh(W s)"),
    ],
)
def test_formulas_become_text(latex, text):
    assert " ".join(section_search.plain_formula(latex).split()) == text


def scripts_of(page: Path) -> list[str]:
    soup = BeautifulSoup(page.read_text(), "lxml")
    return [script["src"].split("?")[0].rsplit("/", 1)[1] for script in soup.select("script[src]")]


def test_a_page_loads_no_index(html):
    """The search script alone is on every page; Sphinx' index is not even written."""
    heavy = {"index.js", "engine.js", "searchindex.js", "searchtools.js", "language_data.js"}
    for page in [html / "book" / "01_scores.html", html / "search.html"]:
        assert "search.js" in scripts_of(page)
        assert heavy.isdisjoint(scripts_of(page))
    assert not (html / "searchindex.js").exists()


def test_the_page_of_results_needs_scripts_and_says_so(html):
    soup = BeautifulSoup((html / "search.html").read_text(), "lxml")
    links = {link["href"] for link in soup.select(".bd-search-container noscript a")}
    assert links == {"book/glossary.html", "genindex.html"}
    assert soup.select_one("#search-results") is not None
