"""The title of a part: the heading above its test, the same for students and instructors."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebook_tools import flags, small_notebook

from attentively_grader.course.notebooks import headings, part_titles, with_cell


def notebook(*cells):
    """Return a notebook: a text is a Markdown cell, a pair is a test with this id."""
    return new_notebook(
        cells=[
            new_markdown_cell(each)
            if isinstance(each, str)
            else new_code_cell(metadata={"nbgrader": flags(each[0], grade=True, points=5)})
            for each in cells
        ]
    )


def test_the_title_is_the_heading_without_its_points():
    assert part_titles(small_notebook()) == {
        "check-1": "Part 1 · Number",
        "check-2": "Part 2 · Number",
    }


@pytest.mark.parametrize(
    ("cells", "titles"),
    [
        ([("a",)], {"a": "a"}),
        (["# Course", ("a",)], {"a": "a"}),
        (["## One (5 points)", "### Hint", ("a",)], {"a": "One"}),
        (["## Words (and subwords)", ("a",)], {"a": "Words (and subwords)"}),
        (["## One\n\n## Two", ("a",)], {"a": "Two"}),
        (
            ["## One", ("a",), ("b",), "## Two", ("c",)],
            {"a": "One (a)", "b": "One (b)", "c": "Two"},
        ),
    ],
)
def test_titles_are_different_whatever_the_headings(cells, titles):
    assert part_titles(notebook(*cells)) == titles


def test_a_cell_without_an_nbgrader_id_has_a_title_too():
    cells = notebook(("a",))
    del cells.cells[0].metadata["nbgrader"]["grade_id"]
    assert list(part_titles(cells)) == [cells.cells[0].id]


def test_an_answer_cell_has_the_heading_of_its_part():
    assert headings(small_notebook()) == {
        f"{kind}-{number}": f"Part {number} · Number"
        for number in (1, 2)
        for kind in ("part", "check")
    }


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Part 1 · Lookup", "Part 1 · Lookup (cell a)"),
        ("One (a)", "One (cell a)"),
        ("Words (and subwords)", "Words (and subwords) (cell a)"),
        ("a", "cell a"),
        ("", "cell a"),
    ],
)
def test_a_title_with_the_cell_names_the_cell_once(title, shown):
    assert with_cell(title, "a") == shown
