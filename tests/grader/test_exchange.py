"""nbgrader's exchange: an assignment goes out and comes back by nbgrader's own commands."""

import json
import os
import subprocess
import sys

import pytest
from grader.classroom import Classroom

from attentively_grader.collect import collect
from attentively_grader.course.release import release

WRONG_2 = "def part_2():\n    return 2"


@pytest.mark.slow
def test_an_assignment_goes_out_and_comes_back(tmp_path):
    for name in ("course", "second", "exchange", "ada", "ben"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777 if name == "exchange" else 0o755)
    room = Classroom(tmp_path / "course")

    def nbgrader(command, folder="course", *options):
        options = (*options, "--course=attentively", f"--Exchange.root={tmp_path / 'exchange'}")
        command = [sys.executable, "-m", "nbgrader", command, "small", *options]
        own = {"HOME": str(tmp_path / folder), "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
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
