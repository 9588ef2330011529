"""Files of the instructor that tests read: only the process that runs the tests receives them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from grader.classroom import Classroom
from grader.stub_pool import job, needs_sandbox, pool, texts

from attentively_grader.course.course import Course, CourseError
from attentively_grader.course.preparation import prepare
from attentively_grader.examination.examiner_process import SOLUTIONS, provide

FOUND = f"""
import os
from pathlib import Path
place = os.environ.get({SOLUTIONS!r})
there = place and [path.read_text() for path in Path(place).rglob("*.py")]
r = there, [str(path) for path in Path().rglob("*.py")]
"""


@needs_sandbox
def test_tests_find_them_and_students_do_not(tmp_path):
    own = tmp_path / "own" / "solutions" / "small"
    own.mkdir(parents=True)
    (own / "questions.py").write_text("the student's")
    with pool(tmp_path) as workers:
        asked = job("one", FOUND, ("here", FOUND), files=tmp_path / "own")
        given = replace(asked, test_files={"small/questions.py": "the instructor's"})
        ((_, outcome),) = workers.run([given])
        mine = ["solutions/small/questions.py"]
        assert texts(outcome) == [repr((None, mine)), repr((["the instructor's"], mine))]
        # Without any, tests are not led to the student's.
        ((_, outcome),) = workers.run([asked])
        assert texts(outcome) == [repr((None, mine)), repr(([], mine))]


def test_the_folder_is_named_even_if_there_are_no_files(monkeypatch, tmp_path):
    monkeypatch.setenv(SOLUTIONS, "/elsewhere")
    provide({}, tmp_path)
    assert [*Path(os.environ[SOLUTIONS]).iterdir()] == []


LOOK = "import sys; r = getattr(sys.modules.get('course_tests'), 'ready', None)"


@needs_sandbox
def test_a_function_of_the_course_prepares_the_tests_once(tmp_path):
    """What it leaves in memory is there for every test, and in no student's process."""
    with pool(tmp_path, workers=1) as workers:
        (tmp_path / "stub" / "course_tests.py").write_text(
            "ready = []\n"
            "def prepare(folder):\n"
            "    ready.append([path.read_text() for path in folder.rglob('*.py')])\n"
        )
        asked = replace(
            job("one", LOOK, ("here", LOOK)),
            test_files={"small/questions.py": "one"},
            prepare_tests="course_tests:prepare",
        )
        other = replace(asked, test_files={"small/questions.py": "two"})
        ran = [texts(outcome) for _, outcome in workers.run([asked, asked, other])]
    assert ran == [["None", each] for each in ("[['one']]", "[['one']]", "[['one'], ['two']]")]


@needs_sandbox
@pytest.mark.parametrize("name", ["no_such_module:prepare", "course_tests:ends"])
def test_a_preparation_that_fails_costs_no_job(tmp_path, name):
    with pool(tmp_path, workers=1) as workers:
        own = tmp_path / "stub" / "course_tests.py"
        own.write_text("import os\ndef ends(folder):\n    os._exit(1)\n")
        asked = replace(job("one", "r = 1", ("here", "r = 2")), prepare_tests=name)
        ran = [outcome for _, outcome in workers.run([asked, asked])]
    assert [texts(outcome) for outcome in ran] == [["1", "2"]] * 2


def prepared(room, folder):
    return prepare(Course(room.root), room.name, room.root / folder, gradebook=False)


def test_a_change_of_them_is_a_change_of_the_assignment_and_they_are_not_released(tmp_path):
    room = Classroom(tmp_path)
    without = prepared(room, "one")
    assert without.test_files == {}
    path = room.root / "solutions" / "small" / "questions.py"
    path.write_text("one")
    first = prepared(room, "two")
    path.write_text("two")
    second = prepared(room, "three")
    assert first.test_files == {"small/questions.py": "one"}
    assert len({each.content for each in (without, first, second)}) == 3
    config = room.root / "nbgrader_config.py"
    text = config.read_text()
    config.write_text(text.replace("c.Release.side_files = {}", ""))  # then nbgrader copies all
    assert prepared(room, "four").files == {}
    config.write_text(text + "\nc.Release.side_files = {'small': ['questions.py']}\n")
    with pytest.raises(CourseError, match="and a side file"):
        prepared(room, "five")
