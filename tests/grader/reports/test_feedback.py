"""The feedback page of a student reads offline: titles of parts, MathML, folded hints."""

import re

import pytest
from bs4 import BeautifulSoup
from grader.classroom import Classroom
from nbformat.v4 import new_markdown_cell
from notebook_tools import small_notebook

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]

LOADED = ("script", "link", "iframe", "object", "embed", "base", "audio", "video")


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    notebook = small_notebook()
    notebook.cells.insert(1, new_markdown_cell("The sum $\\sum_i x_i$ grows.", id="formula"))
    return Classroom(tmp_path_factory.mktemp("course"), notebook)


@pytest.fixture(scope="module")
def source(classroom):
    content = classroom.answered(first="def part_1():\n    return 7")
    note = {"cell_type": "markdown", "id": "note", "metadata": {}}
    theirs = "## Mine\n\nI think $\\alpha_i$. ![x](https://example.org/x.png)"
    content["cells"].insert(4, note | {"source": theirs})
    classroom.hand_in("ada", content)
    assert classroom.grade() == 0
    return classroom.page("ada")


@pytest.fixture(scope="module")
def page(source):
    return BeautifulSoup(source, "html.parser")


def test_nothing_is_loaded_from_the_network(source, page):
    assert not page.find_all(LOADED)
    assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", source)
    policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
    assert policy == "default-src 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'"
    # The policy stands before everything that could load something: a student's picture too.
    assert source.index("Content-Security-Policy") < source.index("<body")
    addresses = {tag["src"] for tag in page.find_all(src=True)}
    assert addresses <= {"https://example.org/x.png"}


def test_formulas_of_the_instructor_and_the_student_are_mathml(page):
    assert [each.get_text() for each in page.find_all("math")] == ["∑ixi", "αi"]
    assert "$" not in page.find(id="notebook").get_text()


def test_parts_have_their_titles_in_the_list_and_above_their_tests(page):
    assert [each.get_text() for each in page.select("#toc a")] == [
        "Part 1 · Number",
        "Part 2 · Number",
    ]
    labels = [each.get_text() for each in page.select(".nbgrader-label")]
    assert [label for label in labels if label.startswith("Part")] == [
        "Part 1 · Number",
        "Part 2 · Number",
    ]
    assert "Test cell" not in page.get_text()
    assert "check-1" not in page.get_text()
    anchors = {each["name"] for each in page.find_all("a", attrs={"name": True})}
    assert {each["href"].removeprefix("#") for each in page.select("#toc a")} <= anchors


def test_hints_are_folded_and_can_be_opened(source, page):
    hints = page.find_all("details")
    assert len(hints) == 6
    assert not [hint for hint in hints if hint.has_attr("open")]
    assert all(hint.summary.get_text() == "Hint" for hint in hints)
    # Bootstrap's rule removes the triangle that shows that a hint can be opened.
    assert source.index("summary{display:block}") < source.index("summary { display: list-item")
    # Bootstrap sets the cells of a table without a space between them.
    assert source.index("td,th{padding:0}") < source.index("td, th { padding: 0.2em")


def test_hidden_tests_are_shown_without_their_markers(page):
    text = page.get_text()
    assert "assert part_1() == 41, 'not forty-one'" in text
    assert "HIDDEN TESTS" not in text
