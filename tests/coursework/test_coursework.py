"""A student's progress and submission, on a small notebook."""

import io
import os
import re
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.utils import parse_utc
from notebook_tools import flags, small_notebook, small_part, with_source, write

from attentively import coursework
from attentively.cli import app, main
from attentively.coursework import progress_cache

READABLE = "small.ipynb is not a readable notebook. Save it again .*start.py.* copies the original$"
TAGS = ("raises-exception",)


@pytest.fixture
def work(tmp_path):
    """A work/ folder whose notebook has a part in every state."""
    notebook = small_notebook()
    notebook.cells += small_part(3, 5, "return 1", "raise ZeroDivisionError('oh')", "", TAGS)
    notebook.cells += small_part(4, 7, "return 1", "part_4", "", TAGS)
    notebook.cells[0].source = "# Small"
    verdicts = "class NotImplementedYet(Exception): pass\nclass CheckFailed(Exception): pass\n"
    notebook = with_source(notebook, "part-1", verdicts + "def part_1():\n    return 41")
    unwritten = "raise NotImplementedYet('Part 4: not implemented yet')"
    notebook = with_source(notebook, "check-4", unwritten)
    failed = "raise CheckFailed('Part 2: not right yet.\\n  It is too small.')"
    notebook = with_source(notebook, "check-2", failed)
    write(notebook, tmp_path / "work" / "small" / "small.ipynb")
    return tmp_path / "work"


@pytest.mark.notebook
def test_progress_shows_the_state_of_each_part(work):
    before = (work / "small" / "small.ipynb").read_bytes()
    (path,) = coursework.find(work, "small")
    results = coursework.run(path)
    assert [(r.state, r.earned, r.points) for r in results] == [
        ("solved", 60, 60),
        ("wrong", 0, 40),
        ("wrong", 0, 5),
        ("not yet", 0, 7),
    ]
    assert results[0].title == "Part 1 · Number"
    text = coursework.report("small", results)
    assert [line.split()[-1] for line in text.splitlines()[1:7]] == [
        *("points", "60/60", "0/40", "0/5", "0/7", "60/112")
    ]
    assert "It is too small." in text
    assert "ZeroDivisionError: oh" in text
    assert (work / "small" / "small.ipynb").read_bytes() == before


@pytest.mark.notebook
def test_a_kernel_that_dies_is_told(work):
    notebook = with_source(small_notebook(), "part-2", "import os\nos._exit(3)")
    path = write(notebook, work / "small" / "small.ipynb")
    first, second = coursework.run(path)
    assert first.state == "solved"
    assert "Python kernel died" in second.message


@pytest.mark.notebook
@pytest.mark.parametrize(("error", "kept"), [("DownloadError", False), ("OSError", True)])
def test_a_part_that_lacks_a_download_is_run_again(work, error, kept):
    """A model is downloaded at first use, perhaps without a network: the answer is not at fault."""
    code = f"from attentively.pretrained_files import DownloadError\nraise {error}('no connection')"
    path = write(with_source(small_notebook(), "part-2", code), work / "small" / "small.ipynb")
    first, second = coursework.results(path, environment="same")
    assert (first.state, second.state) == ("solved", "wrong")
    assert (progress_cache.find(path, "same") is not None) == kept


@pytest.mark.notebook
def test_what_was_saved_with_the_notebook_is_not_taken_for_solved(work):
    """All passed in JupyterLab; then Python stops in the first part, and no part is solved."""
    notebook = with_source(small_notebook(), "part-1", "import os\nos._exit(3)")
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.execution_count = number
    results = coursework.run(write(notebook, work / "small" / "small.ipynb"))
    assert [result.state for result in results] == ["wrong", "wrong"]
    assert coursework.report("small", results).count("Python kernel died") == 1


@pytest.mark.notebook
def test_a_python_that_does_not_start_is_one_line(work, monkeypatch, capsys):
    def dead(self):
        raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(NotebookClient, "execute", dead)
    monkeypatch.setattr("sys.argv", ["attentively", "progress", "--work", str(work)])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert error.startswith("error: no Python kernel starts for ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "extra"), [("submit", "student"), ("progress", "student"), ("grade", "grading")]
)
def test_a_package_that_is_not_installed_says_how_to_have_it(command, extra, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "attentively_grader.__main__", raising=False)
    for module in ("nbformat", "nbgrader.api"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "attentively_grader.course.course", raising=False)
    given = ["small", "--student", "anna"] if command == "submit" else []
    monkeypatch.setattr("sys.argv", ["attentively", command, *given])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert "in the project's folder, `make setup`" in error
    assert error.endswith(f"install the wheel with its extra {extra}\n")
    assert "attentively[" not in error  # an index may have another package of this name


def test_a_notebook_without_parts_is_told():
    assert "no graded part" in coursework.report("small", [])


BLANK = "def part():\n    raise NotImplementedError  # replace this line with your code"


@pytest.mark.parametrize("typed", [None, "n\n", "y\n"])
def test_a_notebook_without_answers_is_packed_only_on_purpose(work, monkeypatch, capsys, typed):
    blank = with_source(with_source(small_notebook(), "part-1", BLANK), "part-2", BLANK)
    write(blank, work / "small" / "small.ipynb")
    monkeypatch.setattr("sys.stdin", io.StringIO(typed or "y\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: typed is not None, raising=False)
    given = ["attentively", "submit", "small", "--student", "anna", "--work", str(work)]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert (work.parent / "submitted").exists() == (typed == "y\n")
    assert (end.value.code == 0) == (typed == "y\n")
    if typed is None:
        assert "small.ipynb contains no answer" in printed.err
        assert "add --yes" in printed.err
    else:
        assert "contains no answer" in printed.out


def test_one_answer_or_a_written_one_is_not_blank():
    blank = with_source(with_source(small_notebook(), "part-1", BLANK), "part-2", BLANK)
    assert coursework.is_blank(blank)
    assert not coursework.is_blank(with_source(blank, "part-2", "def part():\n    return 2"))
    marked = flags("why", grade=True, solution=True, points=5)
    essay = new_markdown_cell("YOUR ANSWER HERE", metadata={"nbgrader": marked})
    blank.cells.append(essay)
    assert coursework.is_blank(blank)
    essay.source = "Because the weights sum to one."
    assert not coursework.is_blank(blank)
    assert not coursework.is_blank(new_notebook())


def test_one_file_for_upload_holds_what_the_folder_holds(work, tmp_path, capsys):
    given = ["submit", "small", "--student", "anna", "--work", str(work), "--zip"]
    for _ in range(2):
        app(given, standalone_mode=False)
    archive = tmp_path / "submitted" / "small-anna.zip"
    folder = tmp_path / "submitted" / "anna" / "small"
    with zipfile.ZipFile(archive) as file:
        packed = {name: file.read(name) for name in file.namelist()}
    assert packed == {f"anna/small/{path.name}": path.read_bytes() for path in folder.iterdir()}
    assert {path.name for path in archive.parent.iterdir()} == {"anna", "small-anna.zip"}
    assert re.search(r"Upload this file: .*small-anna\.zip$", capsys.readouterr().out, re.M)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course with two numbered assignments; work/08_small/data/ is the current folder."""
    for name in ("08_small", "12_large_steps"):
        write(small_notebook(), tmp_path / "work" / name / f"{name}.ipynb")
    write(small_notebook(), tmp_path / "work" / "08_small" / "08_small-Copy1.ipynb")
    (tmp_path / "work" / "08_small" / "data").mkdir()
    (tmp_path / "exercises").mkdir()
    monkeypatch.chdir(tmp_path / "work" / "08_small" / "data")
    return tmp_path


@pytest.mark.parametrize("here", [".", "work", "work/08_small/data", "exercises"])
@pytest.mark.parametrize(
    "given", ["8", "08", "008", "08_small", "08_SMALL", "08_small.ipynb", "08_small/"]
)
def test_a_name_or_a_number_is_understood_anywhere_in_the_course(course, monkeypatch, here, given):
    monkeypatch.chdir(course / here)
    work = coursework.locate(course / here)
    assert work == course / "work"
    (path,) = coursework.find(work, given)
    assert path.resolve() == course / "work" / "08_small" / "08_small.ipynb"


@pytest.mark.parametrize(
    "given", ["..", "../", "../08_small.ipynb", "../../08_small", "{work}/08_small/"]
)
def test_a_path_is_understood(course, given):
    (path,) = coursework.find(course / "work", given.format(work=course / "work"))
    assert path == Path("../08_small.ipynb")


def test_a_file_in_the_current_folder_is_understood(course, monkeypatch):
    monkeypatch.chdir(course / "work" / "08_small")
    for given in (".", "08_small.ipynb"):
        assert coursework.find(course / "work", given) == [Path("08_small.ipynb")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "08_smal",
            r"no assignment '08_smal' in .*\. Did you mean 08_small\? Assignments there: 0",
        ),
        ("small", r"Did you mean 08_small\?"),
        ("large steps", r"Did you mean 12_large_steps\?"),
        ("9", r"no assignment '9' in .*work/\. Assignments there: 08_small, 12_large_steps$"),
        ("../../12_large_step/", r"12_large_step does not exist\. Did you mean 12_large_steps\?"),
        ("../08_small-Copy1.ipynb", r"not the notebook of an assignment.* Did you mean 08_small\?"),
        ("../../..", r"is not the folder of an assignment: it has no "),
    ],
)
def test_a_near_miss_names_what_may_be_meant(course, given, words):
    with pytest.raises(ValueError, match=words):
        coursework.find(course / "work", given)


def test_a_number_of_two_assignments_is_refused(course):
    write(small_notebook(), course / "work" / "8_other" / "8_other.ipynb")
    with pytest.raises(ValueError, match=r"'8' can be 08_small and 8_other in .*whole name"):
        coursework.find(course / "work", "8")


def test_a_path_decides_where_the_submission_lies(course, tmp_path, monkeypatch, capsys):
    elsewhere = tmp_path / "copy"
    write(small_notebook(), elsewhere / "mine" / "08_small" / "08_small.ipynb")
    app(["submit", "../../../copy/mine/08_small", "--student", "anna"], standalone_mode=False)
    assert (elsewhere / "submitted" / "anna" / "08_small" / "08_small.ipynb").is_file()


def test_in_a_home_folder_the_submission_lies_inside(tmp_path, monkeypatch, capsys):
    """The folder around it, such as /home, belongs to the administrator."""
    home = tmp_path / "anna"
    write(small_notebook(), home / "08_small" / "08_small.ipynb")
    writable = os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path and writable(path, mode))
    app(["submit", str(home / "08_small"), "--student", "anna"], standalone_mode=False)
    assert (home / "submitted" / "anna" / "08_small" / "08_small.ipynb").is_file()
    assert not (tmp_path / "submitted").exists()


@pytest.mark.notebook
def test_all_assignments_have_a_total_and_one_that_is_unreadable_stops_no_other(
    work, monkeypatch, capsys
):
    broken = work / "broken" / "broken.ipynb"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    write(small_notebook(), work / "second" / "second.ipynb")
    monkeypatch.setattr("sys.argv", ["attentively", "progress", "--work", str(work)])
    with pytest.raises(SystemExit, match="1"):
        main()
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "course total: 160/212 points in 2 assignments"
    assert re.fullmatch(r"error: \S*broken.ipynb is not a readable notebook.*\n", printed.err)


@pytest.mark.parametrize("name", ["small/", "small\\"])
def test_a_name_may_end_as_a_shell_completes_it(work, tmp_path, name):
    receipt = coursework.submit(work, name, "anna", tmp_path / "submitted")
    assert receipt.folder == tmp_path / "submitted" / "anna" / "small"


def test_what_is_not_there_lists_what_is(work):
    with pytest.raises(ValueError, match=r"no assignment 'large' in .*\. Assignments there: small"):
        coursework.find(work, "large")
    with pytest.raises(ValueError, match=r"make lab.*python3 start\.py"):
        coursework.find(work / "nowhere", None)


def test_a_submission_has_the_layout_that_nbgrader_collects(work, tmp_path):
    now = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    receipt = coursework.submit(work, "small", "anna", tmp_path / "submitted", now)
    folder = tmp_path / "submitted" / "anna" / "small"
    assert receipt.folder == folder
    assert receipt.files == ["small.ipynb", "timestamp.txt"]
    assert (receipt.parts, receipt.unwritten) == (4, 0)
    assert receipt.earlier is None
    assert (folder / "small.ipynb").read_bytes() == (work / "small" / "small.ipynb").read_bytes()
    stamp = (folder / "timestamp.txt").read_text(encoding="utf-8").strip()
    assert parse_utc(stamp) == now.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("unsolved", "line"),
    [
        ([], None),
        (["part-1"], "1 of 2 parts is not implemented yet"),
        (["part-1", "part-2"], "2 of 2 parts are not implemented yet"),
    ],
)
def test_parts_without_an_answer_are_counted(work, capsys, unsolved, line):
    notebook = with_source(small_notebook(), "part-2", "# raise NotImplementedError was here")
    for name in unsolved:
        body = "    raise NotImplementedError  # replace this line with your code\n"
        notebook = with_source(notebook, name, "def part():\n" + 2 * body)
    write(notebook, work / "small" / "small.ipynb")
    given = ["submit", "small", "--student", "anna", "--work", str(work), "--yes"]
    app(given, standalone_mode=False)
    printed = capsys.readouterr().out
    assert (line in printed) if line else ("not implemented" not in printed)


def test_an_earlier_submission_is_kept(work, tmp_path):
    to = tmp_path / "submitted"
    first = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    coursework.submit(work, "small", "anna", to, first)
    old = (to / "anna" / "small" / "small.ipynb").read_bytes()
    write(small_notebook(), work / "small" / "small.ipynb")
    kept = [coursework.submit(work, "small", "anna", to, first).earlier for _ in range(2)]
    assert (kept[0] / "small.ipynb").read_bytes() == old
    assert kept[0].name == "small-20260203040506UTC"
    assert len(set(kept)) == 2
    # nbgrader sees one submission: what is kept lies where it does not look.
    assert [path.name for path in to.glob("*/*") if not path.name.startswith(".")] == ["small"]


@pytest.mark.parametrize("student", ["", "../anna", "an na", "a/b", ".anna", "*", "änna"])
def test_a_name_that_is_no_folder_is_refused(work, tmp_path, student):
    with pytest.raises(ValueError, match="use letters"):
        coursework.submit(work, "small", student, tmp_path / "submitted")
    assert not (tmp_path / "submitted").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", READABLE),
        (b"\xff\xfe\x00", READABLE),
        (b"[]", READABLE),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}', "no graded part"),
    ],
)
def test_what_is_no_notebook_is_refused(work, tmp_path, content, words):
    (work / "small" / "small.ipynb").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        coursework.submit(work, "small", "anna", tmp_path / "submitted")
    assert not list(tmp_path.glob("submitted/*/*"))


def test_the_folder_is_found_from_inside_it(work, tmp_path, monkeypatch, capsys):
    for number, here in enumerate([tmp_path, work, work / "small"]):
        assert coursework.locate(here) == work
        monkeypatch.chdir(here)
        app(["submit", "small", "--student", f"anna{number}"], standalone_mode=False)
    students = {path.parent.name for path in tmp_path.glob("submitted/anna*/small")}
    assert students == {"anna0", "anna1", "anna2"}
    assert "Packed ../../submitted/anna2/small/" in capsys.readouterr().out
    (work / "small" / "small.ipynb").unlink()
    assert coursework.locate(tmp_path) == work


def test_the_command_line(work, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        app(["submit", "small", "--student", "anna"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "Packed submitted/anna/small/ at " in printed
    assert "your earlier submission is kept in submitted/anna/.earlier/small-" in printed
    monkeypatch.setattr("sys.argv", ["attentively", "submit", "large", "--student", "anna"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "error: no assignment 'large'" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["attentively", "grade"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "has no nbgrader_config.py" in capsys.readouterr().err
