"""Parts of earlier assignments: a student's own where they are right, the reference elsewhere."""

import json
import re

import pytest
from nbformat.v4 import new_code_cell
from notebook_tools import small_notebook, with_source, write

from attentively import coursework
from attentively.checks import CheckFailed, Parts, call
from attentively.coursework import earlier_parts

parts = Parts()


@parts.part("Double", "double")
def double(candidate, thorough=False):
    if call(candidate, {"x": 3}) != 6:
        raise CheckFailed("  3 is not doubled")


@parts.part("Both", "double", "half")
def both(first, second, thorough=False):
    for candidate, expected in ((first, 8), (second, 2)):
        if call(candidate, {"x": 4}) != expected:
            raise CheckFailed("  4 is expected to become 8 and 2")


def reference(x):
    return 2 * x


OWN = "def double(x):\n    return x + x"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A work/ folder with two assignments; the kernel runs in that of the later one."""
    notebook = with_source(small_notebook(), "part-1", OWN)
    write(notebook, tmp_path / "work" / "02_small" / "02_small.ipynb")
    later = small_notebook()
    later.cells.insert(1, new_code_cell('own = earlier_parts.take("02_small", part, reference)'))
    write(later, tmp_path / "work" / "05_later" / "05_later.ipynb")
    write(small_notebook(), tmp_path / "work" / "03_other" / "03_other.ipynb")
    monkeypatch.chdir(tmp_path / "work" / "05_later")
    return tmp_path / "work"


def rewrite(work, *cells, name="02_small"):
    """Let the earlier assignment hold these cells, and no others."""
    notebook = small_notebook()
    notebook.cells = [new_code_cell(cell) for cell in cells]
    write(notebook, work / name / f"{name}.ipynb")


def test_what_the_student_made_is_taken(work, capsys):
    own = earlier_parts.take("02_small", double, reference)
    assert own is not reference
    assert own(7) == 14
    assert capsys.readouterr().out == "double: using your answer from 02_small\n"


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (
            "def double(x):\n    raise NotImplementedError",
            "your answer in 02_small is not implemented yet",
        ),
        ("def double(x):\n    return x", "your answer in 02_small is wrong: 3 is not doubled"),
        ("def twice(x):\n    return 2 * x", "02_small does not define double"),
        (
            "class Double(Number):\n    pass",
            "02_small does not define double; code cell 1 raises NameError: "
            "name 'Number' is not defined",
        ),
        ("def double(x)\n    return 2 * x", "02_small does not define double; code cell 1"),
    ],
    ids=["not written", "wrong", "missing", "name unknown", "syntax"],
)
def test_the_reference_stands_in_and_says_why(work, capsys, cell, why):
    rewrite(work, cell)
    assert earlier_parts.take("02_small", double, reference) is reference
    said = capsys.readouterr().out
    assert said.startswith("double: using the reference, because " + why)


def test_without_a_notebook_the_reference_stands_in(work, capsys):
    assert earlier_parts.take("01_none", double, reference) is reference
    assert "../01_none/01_none.ipynb does not exist" in capsys.readouterr().out
    (work / "02_small" / "02_small.ipynb").write_text("{", encoding="utf-8")
    assert earlier_parts.take("02_small", double, reference) is reference
    assert "02_small.ipynb is not a readable notebook" in capsys.readouterr().out


def test_all_that_a_part_needs_comes_along(work):
    """Imports, helpers in cells of their own, constants, magics; the last definition counts."""
    rewrite(
        work,
        "%matplotlib inline\nimport operator\nTWO = 2\nNO_LESS: int = 0\nunset: int",
        "def double(x):\n    return 0",
        "def helper(x):\n    return operator.mul(x, TWO) + NO_LESS",
        "def double(x):\n    return helper(x)",
    )
    own = earlier_parts.take("02_small", double, reference)
    assert own is not reference
    assert own(5) == 10


def test_nothing_else_is_run(work, capsys):
    marks = work / "was-run"
    touch = f"open({str(marks)!r}, 'w').close()"
    rewrite(work, touch, f"for _ in range(2):\n    {touch}", f"seen = {touch}", OWN)
    assert earlier_parts.take("02_small", double, reference) is not reference
    assert not marks.exists()
    assert capsys.readouterr().out.count("\n") == 1


def test_graded_cells_are_not_run(work):
    notebook = with_source(small_notebook(), "part-1", OWN)
    notebook = with_source(notebook, "check-1", "def double(x):\n    return 0")
    write(notebook, work / "02_small" / "02_small.ipynb")
    assert earlier_parts.take("02_small", double, reference)(2) == 4


def test_a_part_of_several_names_gives_them_in_order(work):
    rewrite(work, OWN, "def half(x):\n    return x // 2")
    first, second = earlier_parts.take("02_small", both, reference, lambda x: x / 2)
    assert (first(10), second(10)) == (20, 5)
    with pytest.raises(ValueError, match="got 1 references for double, half"):
        earlier_parts.take("02_small", both, reference)


def test_a_part_that_was_taken_before_works_inside_the_next(work, capsys):
    rewrite(work, "from operator import add\n" + OWN.replace("x + x", "add(x, x)"))
    given = []

    def add(*numbers):
        given.append(numbers)
        return sum(numbers)

    own = earlier_parts.take("02_small", double, reference, using={"add": add})
    assert capsys.readouterr().out == "double: using your answer from 02_small, with add replaced\n"
    assert own(7) == 14
    assert given == [(3, 3), (7, 7)]  # in the check, and here
    # What it is used with counts for its check, and the reference is left as it is.
    taken = earlier_parts.take("02_small", double, reference, using={"add": lambda *_: 0})
    assert taken is reference
    said = capsys.readouterr().out
    assert "using the reference, because your answer in 02_small is wrong: 3 is not doubled" in said
    assert "replaced" not in said


def test_an_error_in_a_part_shows_the_students_line(work):
    rewrite(work, "def double(x):\n    return x + missing if x > 3 else 6")
    own = earlier_parts.take("02_small", double, reference)
    with pytest.raises(CheckFailed, match="missing if x > 3"):
        call(own, {"x": 4})


def test_a_submission_carries_the_parts_that_it_names(work, tmp_path, monkeypatch, capsys):
    receipt = coursework.submit(work, "05_later", "ada", tmp_path / "submitted")
    assert earlier_parts.FILE in receipt.files
    code = json.loads((receipt.folder / earlier_parts.FILE).read_text(encoding="utf-8"))
    assert list(code) == ["02_small"]
    # Elsewhere, and whatever became of the notebook since.
    rewrite(work, "def double(x):\n    return 0")
    monkeypatch.chdir(receipt.folder)
    assert earlier_parts.take("02_small", double, reference)(4) == 8
    capsys.readouterr()
    assert earlier_parts.take("03_other", double, reference) is reference
    assert "this submission does not contain 03_other" in capsys.readouterr().out


def test_a_submission_that_names_none_has_no_such_file(work, tmp_path):
    receipt = coursework.submit(work, "03_other", "ada", tmp_path / "submitted")
    assert receipt.files == ["03_other.ipynb", "timestamp.txt"]


@pytest.mark.parametrize("content", ["", "[]", "3", '{"02_small": 3}', "\xff"])
def test_a_spoiled_file_is_no_reason_to_stop(work, capsys, content):
    (work / "05_later" / earlier_parts.FILE).write_text(content, encoding="latin-1")
    assert earlier_parts.take("02_small", double, reference) is reference
    assert re.search("using the reference, because .*cannot be read", capsys.readouterr().out)
