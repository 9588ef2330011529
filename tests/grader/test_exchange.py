"""nbgrader's exchange: an assignment goes out and comes back by nbgrader's own commands."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
from grader.classroom import Classroom
from notebook_tools import ROOT

from attentively_grader.collect import collect
from attentively_grader.course.release import release

PAGE = ROOT / "book" / "routes.md"
"""The page that contains the configuration for all accounts."""
WRONG_2 = "def part_2():\n    return 2"


@pytest.mark.slow
def test_an_assignment_goes_out_and_comes_back(tmp_path):
    for name in ("etc", "course", "second", "exchange", "ada", "ben"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777 if name == "exchange" else 0o755)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    configuration = textwrap.dedent(block).replace("/srv/nbgrader", str(tmp_path))
    (tmp_path / "etc" / "nbgrader_config.py").write_text(configuration)
    room = Classroom(tmp_path / "course")

    def nbgrader(command, folder="course", *options):
        command = [sys.executable, "-m", "nbgrader", command, "small", *options]
        own = {"HOME": str(tmp_path / folder), "JUPYTER_CONFIG_PATH": str(tmp_path / "etc")}
        own["PATH"] = f"{sys.prefix}/bin:{os.environ['PATH']}"  # for alembic
        subprocess.run(command, cwd=tmp_path / folder, env=os.environ | own, check=True)

    for name, content in release(room.root, "small").items():
        path = room.root / "exercises" / "small" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    nbgrader("release_assignment")
    answers = {"ada": room.answered(), "ben": room.answered(second=WRONG_2)}
    for student, answered in answers.items():
        nbgrader("fetch_assignment", student)
        path = tmp_path / student / "small" / "small.ipynb"
        assert path.read_bytes() == (room.root / "exercises" / "small" / path.name).read_bytes()
        path.write_text(json.dumps(answered))
        nbgrader("submit", student, f"--CourseDirectory.student_id={student}")
    nbgrader("collect")
    second = Classroom(tmp_path / "second")  # collects with our own command
    assert collect(second.root, [tmp_path / "exchange" / "attentively" / "inbound"]) == 0
    for each in (room, second):
        assert each.grade() == 0
        assert (each.points("ada"), each.points("ben")) == ([60, 40], [60, 0])
    nbgrader("release_feedback")
    nbgrader("fetch_feedback", "ada", "--CourseDirectory.student_id=ada")
    (page,) = (tmp_path / "ada" / "small" / "feedback").rglob("small.html")
    assert page.read_text(encoding="utf-8") == room.page("ada")
