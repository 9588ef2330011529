"""Grading a small course that needs no model: every way in which a submission can go wrong."""

import shutil
from pathlib import Path

import pytest
from notebook_tools import ROOT, small_notebook, with_source, write

from attentively_grader import notebooks
from attentively_grader.__main__ import main
from attentively_grader.course import CourseError
from attentively_grader.grading import Course, grade
from attentively_grader.release import release, secret_lines

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


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
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
    """Grade a class in which much goes wrong; return the course and what was printed."""
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
    hand_in("cannot+be", answered(released))
    for student, content in UNREADABLE.items():
        write_bytes(submitted / student / "small" / "small.ipynb", content)
    write_bytes(submitted / "old" / "small" / "small.ipynb", b'{"nbformat": 3, "worksheets": []}')
    write_bytes(submitted / "misnamed" / "small" / "Small (1).ipynb", b"{}")
    status = grade(course)
    return course, status


def total(course, student):
    graded = Course(course)
    (submission,) = graded.submissions("small", [student])
    scores = graded.scores(submission)
    return None if scores is None else scores.total


@pytest.mark.parametrize(
    ("student", "points"),
    [
        ("right", 100),
        ("untouched", 0),
        ("half", 60),
        ("warned", 100),
        ("exits", 40),
        ("edits", 40),
    ],
)
def test_points(graded, student, points):
    assert total(graded[0], student) == points


def test_what_cannot_be_graded_does_not_stop_the_class(graded):
    course, status = graded
    assert status == 1
    for student in ("dies", *UNREADABLE, "old", "misnamed"):
        assert not (course / "autograded" / student / "small").exists()
        assert total(course, student) in (None, 0)


def test_feedback_is_written_for_all_that_were_graded(graded):
    course, _ = graded
    page = (course / "feedback" / "half" / "small" / "small.html").read_text(encoding="utf-8")
    assert "60.0 / 100.0" in page
    assert not (course / "feedback" / "truncated").exists()


def test_a_second_run_grades_only_what_is_new(graded, capsys):
    course, _ = graded
    assert main(["small", "--student", "right", "--course", str(course)]) == 0
    printed = capsys.readouterr()
    assert "graded before, 100 of 100" in printed.out
    assert "no sandbox" in printed.err
    assert "right" in printed.out.splitlines()[-3]


def test_reasons_are_said_in_words(graded):
    course = Course(graded[0])
    reasons = {
        **dict.fromkeys(UNREADABLE, "not a readable notebook"),
        "old": "its format is 3",
        "misnamed": "there is no small.ipynb, but Small (1).ipynb",
        "cannot+be": "use letters",
        "dies": "Kernel died",
    }
    for student, words in reasons.items():
        (submission,) = course.submissions("small", [student])
        with pytest.raises(CourseError) as caught:
            course.grade(submission)
        assert words in str(caught.value), student
        assert str(graded[0]) not in str(caught.value)


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_notebook_is_one_kind_of_error(tmp_path, content):
    with pytest.raises(ValueError, match=r"is not a readable notebook: .") as caught:
        notebooks.read(write_bytes(tmp_path / "some.ipynb", content))
    assert "\n" not in str(caught.value)


@pytest.fixture
def class_of_one(tmp_path, released):
    """A course whose only student is right, and whose checks lie in src/."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    write(small_notebook(), tmp_path / "solutions" / "small" / "small.ipynb")
    write_bytes(tmp_path / "src" / "checks.py", b"LIMIT = 1\n")
    write(answered(released), tmp_path / "submitted" / "anna" / "small" / "small.ipynb")
    return tmp_path


def test_a_mended_check_grades_all_anew(class_of_one, capsys):
    def second_run():
        capsys.readouterr()
        assert grade(class_of_one) == 0
        return "graded before" in capsys.readouterr().out

    grade(class_of_one)
    write_bytes(class_of_one / "src" / "__pycache__" / "checks.pyc", b"of no account")
    assert second_run()
    write_bytes(class_of_one / "src" / "checks.py", b"LIMIT = 2\n")
    assert not second_run()
    assert second_run()
    kept = class_of_one / "autograded" / ".graded" / "anna"
    assert [path.name for path in kept.iterdir()] == ["small.json"]


def test_a_broken_assignment_or_file_does_not_stop_the_others(
    class_of_one, released, capsys, monkeypatch
):
    write_bytes(class_of_one / "solutions" / "broken" / "broken.ipynb", b"{")
    submitted = class_of_one / "submitted"
    write(answered(released), submitted / "anna" / "broken" / "broken.ipynb")
    write(answered(released), submitted / "locked" / "small" / "small.ipynb")
    write_bytes(submitted / "locked" / "small" / "notes.txt", b"mine alone")
    write_bytes(class_of_one / "autograded" / ".graded" / "locked" / "small.json", b"{}")
    read_bytes = Path.read_bytes

    def locked(path):
        if path.name == "notes.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", locked)
    assert grade(class_of_one) == 1
    printed = capsys.readouterr()
    assert "small, anna: 100 of 100" in printed.out
    assert "broken, anna: SET ASIDE: nbgrader cannot release broken" in printed.out
    assert ": submitted/locked/small/notes.txt cannot be read: Permission" in printed.err
    assert "Not graded, 2 of 3" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["large"], "there is no assignment 'large' in solutions/; there are: small"),
        (["small", "--student", "nobody"], "'nobody' has submitted nothing for small"),
        (["--course", "/nowhere/at/all"], "has no nbgrader_config.py"),
    ],
)
def test_what_is_not_there_is_said(graded, capsys, arguments, words):
    course = [] if "--course" in arguments else ["--course", str(graded[0])]
    assert main([*arguments, *course]) == 2
    assert words in capsys.readouterr().err


def test_nothing_submitted_says_where_it_is_expected(tmp_path, capsys):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    write(small_notebook(), tmp_path / "solutions" / "small" / "small.ipynb")
    assert main(["--course", str(tmp_path)]) == 2
    assert "submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb" in capsys.readouterr().err
    assert not (tmp_path / "gradebook.db").exists()


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
    with pytest.raises(CourseError, match="is listed as a side file, but is not there"):
        release(tmp_path, "small")
