"""A small course that needs no model: graded in the sandbox, and released without its secrets."""

import shutil

import pytest
from grader.stub_pool import HAVE, REASON, needs_sandbox
from notebook_tools import ROOT, small_notebook, with_source, write

from attentively_grader.__main__ import main
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course, CourseError
from attentively_grader.course.release import release, secret_lines

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(600)]

UNREADABLE = {
    "truncated": b'{"cells": [',
    "binary": bytes(range(256)),
    "empty": b"",
    "no-cells": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": null}',
    "deep": b'{"nbformat": 4, "cells": ' + b"[" * 100_000,
    "minor": b'{"nbformat": 4, "nbformat_minor": "x", "metadata": {}, "cells": []}',
    "flags": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"id": "one", '
    b'"cell_type": "markdown", "metadata": {"nbgrader": []}, "source": ""}]}',
}

RIGHT_1 = "def part_1():\n    return 41"
RIGHT_2 = "def part_2():\n    return 'another secret'"
EQUAL_TO_ALL = """\
class Equal:
    def __eq__(self, other):
        return True

    def __gt__(self, other):
        return True


def part_1():
    return Equal()
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    (root / "src").mkdir()  # which is named there
    write(small_notebook(), root / "solutions" / "small" / "small.ipynb")
    return root


@pytest.fixture(scope="module")
def released(course):
    return notebooks.read(
        write_bytes(course / "released.ipynb", release(course, "small")["small.ipynb"])
    )


def write_bytes(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def answered(released, first=RIGHT_1, second=RIGHT_2):
    return with_source(with_source(released, "part-1", first), "part-2", second)


@pytest.fixture(scope="module")
def graded(course, released):
    """Grade a class in which much goes wrong, in the sandbox; return the course and the status."""
    if HAVE is None:
        pytest.skip(REASON)
    submitted = course / "submitted"

    def hand_in(student, notebook):
        write(notebook, submitted / student / "small" / "small.ipynb")

    hand_in("right", answered(released))
    hand_in("untouched", released)
    hand_in("half", answered(released, second="def part_2():\n    return 'wrong'"))
    warning = "def part_1():\n    import sys, warnings\n    warnings.warn('old')\n"
    warning += "    print('careful', file=sys.stderr)\n    return 41"
    hand_in("warned", answered(released, first=warning))
    hand_in("exits", answered(released, first="def part_1():\n    raise SystemExit(0)"))
    hand_in("dies", answered(released, first="def part_1():\n    import os\n    os._exit(0)"))
    edited = with_source(answered(released, first="def part_1():\n    return 1"), "check-1", "pass")
    hand_in("edits", edited)
    hand_in("equals", answered(released, first=EQUAL_TO_ALL))
    hand_in("cannot+be", answered(released))
    write_bytes(submitted / "truncated" / "small" / "small.ipynb", b'{"cells": [')
    return course, main(["small", "--course", str(course), "--workers", "2"])


def total(course, student):
    scores = Course(course).scores("small").get(student)
    return None if scores is None else scores.total


@pytest.mark.parametrize(
    ("student", "points"),
    [
        ("right", 100),
        ("untouched", 0),
        ("half", 60),
        ("warned", 100),
        ("exits", 40),
        ("dies", 40),
        ("edits", 40),
        ("equals", 40),
        ("truncated", None),
        ("cannot+be", None),
    ],
)
def test_points(graded, student, points):
    course, status = graded
    assert status == 1  # two were set aside
    assert total(course, student) == points


def test_feedback_is_written_for_all_that_were_graded(graded):
    course, _ = graded
    page = (course / "feedback" / "half" / "small" / "small.html").read_text(encoding="utf-8")
    assert "60.0 / 100.0" in page
    page = (course / "feedback" / "dies" / "small" / "small.html").read_text(encoding="utf-8")
    assert "it ended its own process (exit 0)" in page
    assert not (course / "feedback" / "truncated").exists()


def test_a_second_run_grades_only_what_is_new(graded, capsys):
    course, _ = graded
    assert main(["small", "--student", "right", "--course", str(course)]) == 0
    assert "already graded, 100 of 100" in capsys.readouterr().out


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_notebook_is_one_kind_of_error(tmp_path, content):
    with pytest.raises(ValueError, match=r"is not a readable notebook: .") as caught:
        notebooks.read(write_bytes(tmp_path / "some.ipynb", content))
    assert "\n" not in str(caught.value)


def test_the_release_keeps_its_secrets(course, released):
    secrets = secret_lines(small_notebook())
    assert "secret_answer = 41" in secrets
    assert "assert part_2() == 'another secret'" in secrets
    text = "\n".join(cell.source for cell in released.cells)
    assert not [line for line in secrets if line in text]
    assert "raise NotImplementedError" in text
    assert not (course / "gradebook.db").exists() or (course / "submitted").exists()


def test_a_leak_is_refused(tmp_path):
    """The broken twin: told of another mark, nbgrader leaves the hidden tests in the release."""
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    config += '\nc.ClearHiddenTests.begin_test_delimeter = "NO SUCH MARK"\n'
    (tmp_path / "nbgrader_config.py").write_text(config, encoding="utf-8")
    write(small_notebook(), tmp_path / "solutions" / "small" / "small.ipynb")
    with pytest.raises(CourseError, match="would be released with a line of a solution"):
        release(tmp_path, "small")


def test_side_files_are_released_only_if_listed(tmp_path):
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    config += '\nc.Release.side_files = {"small": ["data.csv"]}\n'
    (tmp_path / "nbgrader_config.py").write_text(config, encoding="utf-8")
    folder = tmp_path / "solutions" / "small"
    write(small_notebook(), folder / "small.ipynb")
    (folder / "data.csv").write_text("1,2\n")
    (folder / "solution.md").write_text("secret_answer = 41\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "answers.txt").write_text("41\n")
    assert set(release(tmp_path, "small")) == {"small.ipynb", "data.csv"}
    (folder / "data.csv").unlink()
    with pytest.raises(CourseError, match="is listed as a side file, but does not exist"):
        release(tmp_path, "small")


@needs_sandbox
def test_a_page_about_the_class_and_sheets_for_platforms(tmp_path, released, capsys):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    (tmp_path / "src").mkdir()
    write(small_notebook(), tmp_path / "solutions" / "small" / "small.ipynb")
    half = answered(released, second="def part_2():\n    return 'wrong'")
    for student, content in {"ada": answered(released), "bo": half}.items():
        write(content, tmp_path / "submitted" / student / "small" / "small.ipynb")
    broken = tmp_path / "submitted" / "cy" / "small" / "small.ipynb"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"{")
    sheet = tmp_path / "grades.csv"
    status = main(["small", "--course", str(tmp_path), "--canvas", str(sheet)])
    assert status == 1  # cy is set aside
    printed = capsys.readouterr().out
    assert "Report: reports/small.html" in printed
    assert f"Grades: {sheet}" in printed
    page = (tmp_path / "reports" / "small.html").read_text(encoding="utf-8")
    assert "Submissions graded: 2. Mean: 80.0 of 100 points." in page
    assert "bo</th><td>60</td><td>0</td><td>60</td>" in page
    assert "<strong>cy</strong>: set aside" in page
    lines = sheet.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Student,ID,SIS User ID,SIS Login ID,Section,small"
    assert lines[1].endswith(",100")
    assert [line for line in lines if line.startswith("bo,")] == ["bo,,,bo,,60"]
