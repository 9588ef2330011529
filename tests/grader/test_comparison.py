"""Grading a class with this grader and with nbgrader: differences, failures, and what stays."""

import json

import pytest
from grader.classroom import RIGHT_2, Classroom, Stub
from nbformat.v4 import new_code_cell, new_output
from notebook_tools import small_notebook, with_source

from attentively_grader.__main__ import main
from attentively_grader.comparison import (
    Results,
    Verdict,
    compare,
    compared,
    copy_course,
    error_of,
)
from attentively_grader.course.course import Course
from attentively_grader.intake.tasks import Options

ADA = ("small", "ada", "small", "check-1")
BO = ("small", "bo", "small", "check-1")
PARTS = {"small": {("small", "check-1"): "Part 1 · Number"}}


def results(failed=(), **verdicts):
    cells = {"ada": ADA, "bo": BO}
    return Results({cells[name]: each for name, each in verdicts.items()}, dict(failed))


def test_equal_points_are_no_difference():
    ours = results(ada=Verdict(2.0, 2.0), bo=Verdict(0.0, 2.0, "AssertionError: x", weaker=True))
    theirs = results(ada=Verdict(2.0, 2.0), bo=Verdict(0.0, 2.0, "NameError: y"))
    found = compared(2, ours, theirs, PARTS)
    assert found.equal
    assert (found.cells, found.weaker) == (2, 1)
    assert "2 equal, 0 with fewer" in list(found.lines())[-1]


def test_a_difference_names_the_cell_and_both_errors():
    ours = results(ada=Verdict(0.0, 2.0, "AssertionError: x"), bo=Verdict(2.0, 2.0))
    theirs = results(ada=Verdict(1.5, 2.0), bo=Verdict(0.0, 2.0, "text on standard error: w"))
    found = compared(2, ours, theirs, PARTS)
    assert not found.equal
    assert found.weaker == 0
    first, second, last = found.lines()
    where = "ada, small, notebook small, Part 1 · Number (cell check-1)"
    assert first.splitlines() == [
        f"{where}: 0 here, 1.5 with nbgrader, of 2",
        "    here:     AssertionError: x",
        "    nbgrader: no error",
    ]
    assert "bo, small" in second
    assert "text on standard error: w" in second
    assert "0 equal, 1 with fewer points than with nbgrader, 1 with more" in last


def test_a_cell_that_one_side_lacks_is_a_difference():
    found = compared(1, results(), results(ada=Verdict(1.0, 2.0)), {"small": {}})
    [only] = found.differences
    assert only.ours == Verdict(None, 0.0, "no such cell")
    assert "small, cell check-1: not graded here, 1 with nbgrader, of 2" in str(only)


def test_a_submission_that_one_side_cannot_grade_is_not_compared():
    ours = results(failed={("small", "ada"): "a link"}, bo=Verdict(1.0, 2.0))
    theirs = results(ada=Verdict(1.0, 2.0), bo=Verdict(1.0, 2.0))
    found = compared(2, ours, theirs, PARTS)
    assert found.differences == []
    assert found.not_compared == ["small, ada: a link"]
    assert not found.equal


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            new_output("error", ename="ValueError", evalue="a\nb", traceback=[]),
            "ValueError: a\N{REPLACEMENT CHARACTER}b",
        ),
        (new_output("error", ename="X", evalue="", traceback=[]), "X: no message"),
        (new_output("stream", name="stderr", text="w\n"), "text on standard error: w"),
        (new_output("stream", name="stdout", text="w\n"), ""),
        (new_output("execute_result", data={"text/plain": "1.5"}), "the cell returned 1.5"),
    ],
)
def test_what_a_cell_shows_is_told_in_one_line(output, said):
    assert error_of(new_code_cell(outputs=[output])) == said


def test_a_cell_that_was_not_run_says_so():
    assert error_of(None) == "the cell was not run"


@pytest.fixture
def classroom(tmp_path):
    (tmp_path / "course").mkdir()
    return Classroom(tmp_path / "course")


def test_a_copy_has_its_own_gradebook_and_folders(classroom, tmp_path):
    config = classroom.root / "nbgrader_config.py"
    real = tmp_path / "elsewhere.db"
    with config.open("a") as file:
        file.write(f"c.CourseDirectory.db_url = 'sqlite:///{real}'\n")
        file.write(f"c.CourseDirectory.submitted_directory = '{classroom.root / 'submitted'}'\n")
    (classroom.root / "gradebook.db").write_bytes(b"real")
    classroom.hand_in("ada")
    classroom.hand_in("bo")
    course = Course(classroom.root)
    [ada, _] = course.submissions()
    folder = tmp_path / "copy"
    copy, copied, failed = copy_course(course, [ada], folder, Options(seconds=50))
    assert failed == {}
    assert [each.student for each in copied] == ["ada"]
    assert [each.student for each in copy.submissions()] == ["ada"]
    assert copy.directory.db_url == f"sqlite:///{folder / 'gradebook.db'}"
    assert copy.folder("submitted") == folder / "submitted"
    assert not (folder / "gradebook.db").exists()
    assert copy.config.Execute.timeout == 10  # a fifth of 50 s, as this grader has it


def test_a_submission_that_cannot_be_copied_is_named(classroom, tmp_path):
    notebook = classroom.hand_in("ada")
    (notebook.parent / "data.txt").write_text("x")
    (notebook.parent / "data.txt").chmod(0)
    course = Course(classroom.root)
    chosen = course.submissions()
    for each in notebook.parent.iterdir():
        each.unlink()
    notebook.parent.rmdir()  # gone since it was listed
    _, copied, failed = copy_course(course, chosen, tmp_path / "copy", Options())
    assert copied == []
    assert "it cannot be copied" in failed["small", "ada"]


@pytest.mark.notebook
def test_a_class_is_graded_in_both_ways(classroom, tmp_path, capsys):
    dies = "import os\nif os.environ.get('NBGRADER_EXECUTION'):\n    os._exit(1)"
    lost = "if 'get_ipython' in globals():\n    part_1 = lambda: 41\nelse:\n    part_1 = None"
    classroom.hand_in("ada")
    classroom.hand_in("bo", classroom.answered(first="def part_1():\n    return 7"))
    classroom.hand_in("cy", classroom.answered(second=f"{RIGHT_2}\n{dies}"))
    classroom.hand_in("di", classroom.answered(first=lost))
    classroom.hand_in("eve", b"no notebook")
    before = sorted(classroom.root.rglob("*"))
    report = tmp_path / "comparison.json"

    def run(*students):
        options = {"options": Options(), "pool_factory": Stub(), "report": report}
        status = compare(classroom.root, None, students, **options)
        return status, capsys.readouterr()

    status, said = run("ada", "bo")
    assert status == 0, said.out
    assert "WITHOUT isolation" in said.err
    assert "Compared 4 cells of 2 submissions: 4 equal" in said.out
    status, said = run()
    assert status == 1
    assert "[5/5] nbgrader: small, eve: FAILED" in said.out
    where = "di, small, notebook small, Part 1 · Number (cell check-1)"
    assert f"{where}: 0 here, 60 with nbgrader, of 60" in said.out
    assert "TypeError" in said.out
    assert "not compared: small, cy: nbgrader failed" in said.out
    assert "not compared: small, eve: " in said.out
    content = json.loads(report.read_text())
    assert [each["student"] for each in content["differences"]] == ["di"]
    assert content["differences"][0]["nbgrader"]["points"] == 60
    assert sorted(classroom.root.rglob("*")) == before


@pytest.mark.notebook
def test_an_assignment_whose_solution_misses_points_is_not_compared(tmp_path, capsys):
    (tmp_path / "course").mkdir()
    wrong = "def part_1():\n    ### BEGIN SOLUTION\n    return 7\n    ### END SOLUTION"
    classroom = Classroom(tmp_path / "course", with_source(small_notebook(), "part-1", wrong))
    classroom.hand_in("ada")
    arguments = {"options": Options(), "pool_factory": Stub()}
    assert compare(classroom.root, None, [], **arguments) == 1
    said = capsys.readouterr().out
    assert "not compared: small, ada: the solution of the assignment does not earn" in said
    assert "Compared 0 cells" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--compare", "--canvas", "x.csv"], "--compare and --canvas cannot be combined"),
        (["--compare", "--shard", "1/2"], "--compare and --shard cannot be combined"),
        (["--compare-report", "x.json"], "--compare-report needs --compare"),
        (["--compare", "--compare-report", "no/x.json"], "the folder no does not exist"),
    ],
)
def test_options_that_make_no_sense_are_refused(classroom, capsys, options, said):
    assert main([*options, "--course", str(classroom.root)]) == 2
    assert said in capsys.readouterr().err


def test_the_help_says_what_the_option_confirms(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "WITHOUT isolation" in capsys.readouterr().out
