"""The course that `nbgrader quickstart` creates: its official solution gets full points."""

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


def faults(root):
    """Return the automatically graded cells of the solution that do not have all points."""
    scores = Course(root).scores("ps1")["instructor"]
    automatic = [part for part in scores.points if part not in scores.by_hand]
    assert sum(scores.maximum[part] for part in automatic) == 3
    return {
        part: scores.points[part]
        for part in automatic
        if scores.points[part] != scores.maximum[part]
    }


def test_the_solution_gets_all_automatic_points(tmp_path):
    """The course is laid out as the command does, without its five processes."""
    leave_out = shutil.ignore_patterns("*.html", "autotests.yml", "ps1_autotest")
    shutil.copytree(EXAMPLE, tmp_path / "source", ignore=leave_out)
    (tmp_path / "nbgrader_config.py").write_text(CONFIG)
    hand_in_the_solution(tmp_path)
    assert grade(tmp_path) == 0
    assert faults(tmp_path) == {}


@pytest.mark.slow
def test_the_command_s_course_is_equal_to_nbgrader(tmp_path, capsys):
    command = [sys.executable, "-m", "nbgrader", "quickstart", "course"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    root = tmp_path / "course"
    hand_in_the_solution(root)
    status = main(["ps1", "--compare", "--course", str(root)])
    assert status == 0, capsys.readouterr().out
