"""The course that `nbgrader quickstart` creates: its official solution gets full points."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbgrader
import pytest
from grader.stub_pool import needs_sandbox

from attentively_grader.__main__ import main
from attentively_grader.coordinator import grade
from attentively_grader.course.course import Course

pytestmark = [pytest.mark.notebook, needs_sandbox]

EXAMPLE = Path(nbgrader.__file__).parent / "docs" / "source" / "user_guide" / "source"
CONFIG = "c = get_config()\nc.IncludeHeaderFooter.header = 'source/header.ipynb'\n"


def hand_in_the_solution(root):
    shutil.copytree(root / "source" / "ps1", root / "submitted" / "instructor" / "ps1")


def hand_in_a_wrong_answer(root):
    """Write the solution with a function that no longer calls the one that it should call."""
    folder = root / "submitted" / "student" / "ps1"
    shutil.copytree(root / "source" / "ps1", folder)
    path = folder / "problem1.ipynb"
    content = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = [c for c in content["cells"] if "return sum(squares(n))" in "".join(c["source"])]
    cell["source"] = "def sum_of_squares(n):\n    return sum(i * i for i in range(n + 1))"
    path.write_text(json.dumps(content), encoding="utf-8")


def lost(root, student):
    """Return the names of the automatically graded cells that do not have all points."""
    course = Course(root)
    scores = course.scores("ps1")[student]
    names = {title: name for (_, name), title in course.parts("ps1").items()}
    automatic = [part for part in scores.points if part not in scores.by_hand]
    assert sum(scores.maximum[part] for part in automatic) == 3
    return [names[part] for part in automatic if scores.points[part] != scores.maximum[part]]


def test_the_solution_gets_all_automatic_points_and_a_wrong_part_loses_its_own(tmp_path, capsys):
    """The course is laid out as the command does, without its five processes."""
    leave_out = shutil.ignore_patterns("*.html", "autotests.yml", "ps1_autotest")
    shutil.copytree(EXAMPLE, tmp_path / "source", ignore=leave_out)
    (tmp_path / "nbgrader_config.py").write_text(CONFIG)
    hand_in_the_solution(tmp_path)
    hand_in_a_wrong_answer(tmp_path)
    assert grade(tmp_path) == 0
    assert "ps1: the solution earns 3 of 3 points" in capsys.readouterr().out
    assert lost(tmp_path, "instructor") == []
    assert lost(tmp_path, "student") == ["sum_of_squares_uses_squares"]
    assert Course(tmp_path).scores("ps1")["student"].total == 2.5


@pytest.mark.slow
def test_the_command_s_course_is_equal_to_nbgrader(tmp_path, capsys):
    command = [sys.executable, "-m", "nbgrader", "quickstart", "course"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    root = tmp_path / "course"
    hand_in_the_solution(root)
    status = main(["ps1", "--compare", "--course", str(root)])
    assert status == 0, capsys.readouterr().out
