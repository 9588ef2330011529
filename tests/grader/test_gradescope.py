"""Gradescope: the archive, and the results.json of right, wrong and unreadable submissions."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import make_gradescope
import pytest
from grader.classroom import RIGHT_1, Classroom, Stub
from grader.stub_pool import needs_sandbox
from notebook_tools import ROOT, small_notebook, with_source

from attentively_grader import gradescope
from attentively_grader.course.course import CourseError

TITLES = ["Part 1 · Number", "Part 2 · Number"]
WRONG_2 = "def part_2():\n    return 'nearly'"


class Container:
    """Gradescope's folders, with the small course."""

    def __init__(self, root):
        self.root = root
        (root / "course").mkdir()
        self.room = Classroom(root / "course")
        self.results = root / "results" / "results.json"

    def grade(self, content, path="small.ipynb", *options):
        """Hand in one file and grade it; return the exit status and the results, if any."""
        place = self.root / "submission" / path
        place.parent.mkdir(parents=True)
        place.write_text(content if isinstance(content, str) else json.dumps(content))
        folders = [str(self.room.root), "small", str(self.root / "submission"), str(self.results)]
        status = gradescope.main([*folders, *options])
        return status, json.loads(self.results.read_text()) if self.results.exists() else None


@pytest.fixture
def container(tmp_path, monkeypatch):
    monkeypatch.setattr(gradescope, "pool_factory", lambda *_: Stub())
    return Container(tmp_path)


def points(found):
    """Return the points and the maximum of each part."""
    return [(part["score"], part["max_score"]) for part in found["tests"]]


@pytest.mark.parametrize("path", ["small (1).ipynb", "ada/small/small.ipynb", "Untitled.ipynb"])
def test_a_part_has_its_title_its_points_and_its_message(container, path):
    status, found = container.grade(container.room.answered(second=WRONG_2), path)
    assert status == 0
    assert [part["name"] for part in found["tests"]] == TITLES
    assert points(found) == [(60, 60), (0, 40)]
    assert [part["output"] for part in found["tests"]] == ["", "AssertionError"]
    assert "score" not in found  # it would replace the sum of the parts


@pytest.mark.parametrize(("solved", "expected"), [(True, [60, 40]), (False, [0, 0])])
def test_solved_and_unsolved(container, solved, expected):
    unsolved = json.loads(json.dumps(container.room.released))
    _, found = container.grade(container.room.answered() if solved else unsolved)
    assert [part["score"] for part in found["tests"]] == expected
    assert any(part["output"] for part in found["tests"]) == (not solved)


def test_no_line_of_a_hidden_test_or_of_a_solution_is_shown(container, monkeypatch):
    def with_lines(outcome):
        for output in (output for cell in outcome.cells for output in cell.outputs):
            output["traceback"] = ["----> 3 assert part_1() == 41, 'not forty-one'"]
        return outcome

    monkeypatch.setattr(gradescope, "pool_factory", lambda *_: Stub({"student": with_lines}))
    wrong = container.room.answered(first="def part_1():\n    return 7", second=WRONG_2)
    _, found = container.grade(wrong)
    assert found["tests"][0]["output"] == "AssertionError: not forty-one"  # the test's own message
    shown = container.results.read_text()
    for secret in ["assert part_", "== 41", "another secret", "secret_answer", "HIDDEN"]:
        assert secret not in shown


@pytest.mark.parametrize(
    ("content", "path", "reason"),
    [
        ("no notebook", "small.ipynb", "not a readable notebook"),
        ("an essay", "essay.pdf", "no notebook; found essay.pdf"),
    ],
)
def test_what_the_student_can_fix_scores_0_and_says_what_to_do(container, content, path, reason):
    status, found = container.grade(content, path)
    assert (status, found["score"], "tests" in found) == (0, 0, False)
    assert reason in found["output"]
    assert "Upload small.ipynb" in found["output"]


def test_code_that_does_not_end_is_reported(container, monkeypatch):
    ended = "the code was stopped after 300 seconds"
    stub = Stub({"student": lambda outcome: outcome.__class__([], seconds=300, reason=ended)})
    monkeypatch.setattr(gradescope, "pool_factory", lambda *_: stub)
    _, found = container.grade(container.room.answered())
    assert found["output"] == ended
    assert points(found) == [(0, 60), (0, 40)]


def test_a_solution_that_misses_points_gives_no_results(container, capsys):
    source = small_notebook()
    wrong = with_source(source, "part-1", source.cells[2].source.replace("41", "42"))
    shutil.rmtree(container.root / "course")
    (container.root / "course").mkdir()
    container.room = Classroom(container.root / "course", wrong)
    status, found = container.grade(container.room.answered(first=RIGHT_1))
    assert (status, found) == (2, None)
    assert "the solution misses points" in capsys.readouterr().err


def test_an_unknown_assignment_is_named(container, capsys):
    folders = [container.room.root, "smal", container.root, container.results]
    assert gradescope.main([*map(str, folders)]) == 2
    assert "Did you mean small?" in capsys.readouterr().err


@pytest.mark.parametrize("sandbox", [True, False])
def test_without_a_sandbox_there_are_results_only_if_the_instructor_asked(
    tmp_path, monkeypatch, capsys, sandbox
):
    monkeypatch.setenv("PATH", str(tmp_path))  # without the command bwrap
    container = Container(tmp_path)
    options = [] if sandbox else ["--unsafe-no-sandbox"]
    status, found = container.grade(container.room.answered(), "small.ipynb", *options)
    if sandbox:
        assert (status, found) == (2, None)
        assert "--unsafe-no-sandbox" in capsys.readouterr().err
    else:
        assert (status, points(found)) == (0, [(60, 60), (40, 40)])


def test_the_archive_has_both_scripts_at_its_root_and_one_assignment(tmp_path, capsys):
    assert make_gradescope.main(["00_tools", "--output", str(tmp_path / "a.zip")]) == 0
    assert "Do not give it to students" in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
        scripts = {name: archive.read(name).decode() for name in modes if "/" not in name}
    assert scripts.keys() == {"setup.sh", "run_autograder"}
    assert {modes[name] for name in scripts} == {0o755}
    for script in scripts.values():
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    assert "source/course 00_tools submission results/results.json" in scripts["run_autograder"]
    assert "no-sandbox" not in scripts["run_autograder"]
    assert "course/solutions/00_tools/00_tools.ipynb" in modes
    assert {name.split("/")[2] for name in modes if "/solutions/" in name} == {"00_tools"}
    assert {"course/nbgrader_config.py", "course/hatch_build.py"} <= modes.keys()
    again = make_gradescope.contents(ROOT, "00_tools", " --unsafe-no-sandbox")
    assert b"gradescope --unsafe-no-sandbox \\" in again["run_autograder"]


def test_an_unknown_assignment_is_not_packed():
    with pytest.raises(CourseError, match="Did you mean 00_tools"):
        make_gradescope.contents(ROOT, "00_tool")


def lay_out(root):
    """Write the folders of Gradescope's container, with this environment."""
    make_gradescope.main(["00_tools", "--output", str(root / "a.zip")])
    for name in ("source", "submission", "results"):
        (root / name).mkdir()
    with zipfile.ZipFile(root / "a.zip") as archive:
        archive.extractall(root / "source")
    shutil.copy(root / "source" / "run_autograder", root)
    (root / "venv").symlink_to(sys.prefix)


@pytest.mark.slow
@needs_sandbox
def test_run_autograder_with_only_the_files_of_the_archive(tmp_path):
    lay_out(tmp_path)
    path = {"PYTHONPATH": str(tmp_path / "source" / "course" / "src")}
    command = ["bash", "run_autograder"]
    for folder, score in (("exercises", 0), ("solutions", 100)):
        shutil.copy(ROOT / folder / "00_tools" / "00_tools.ipynb", tmp_path / "submission")
        subprocess.run(command, cwd=tmp_path, check=True, env=os.environ | path)
        found = json.loads((tmp_path / "results" / "results.json").read_text())
        assert sum(part["score"] for part in found["tests"]) == score
        assert sum(part["max_score"] for part in found["tests"]) == 100
