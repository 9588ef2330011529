"""Shares of a class, run apart, make one graded class."""

import pytest
from grader.classroom import Classroom, Stub
from grader.stub_pool import needs_sandbox

from attentively_grader import shard
from attentively_grader.__main__ import main
from attentively_grader.course.course import Course, CourseError
from attentively_grader.intake.tasks import Options
from attentively_grader.shard import Shard

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]

STUDENTS = [f"student-{number}" for number in range(12)]


@pytest.fixture
def room(tmp_path):
    room = Classroom(tmp_path)
    for number, student in enumerate(STUDENTS):
        wrong = room.answered(second=f"def part_2():\n    return 'wrong'  # {number}")
        room.hand_in(student, wrong if number % 3 == 0 else None)
    return room


def run(room, number, of, stub=None):
    course = Course(room.root)
    share = Shard(number, of)
    return shard.run(course, course.submissions(), share, Options(), stub or Stub())


def test_all_shares_make_the_whole(room):
    stubs = [Stub() for _ in range(3)]
    assert [run(room, number, 3, stub) for number, stub in enumerate(stubs, 1)] == [0, 0, 0]
    ran = [name for stub in stubs for name in stub.ran]
    assert sorted(ran) == sorted(f"small, {student}: small" for student in STUDENTS)
    assert all(stub.ran for stub in stubs)
    last = Stub()
    assert room.grade(stub=last) == 0
    assert last.ran == []
    assert [room.points(student)[1] for student in STUDENTS] == [0, 40, 40] * 4


def test_a_share_writes_no_gradebook(room):
    assert run(room, 1, 2) == 0
    assert not (room.root / "gradebook.db").exists()
    assert not (room.root / "feedback").exists()


def test_a_share_that_ran_has_nothing_to_do(room, capsys):
    run(room, 2, 2)
    again = Stub()
    assert run(room, 2, 2, again) == 0
    assert again.ran == []
    assert "\n0 run, " in capsys.readouterr().out


def test_who_else_hands_in_moves_nobody_to_another_share(room):
    before = {each.student for each in Course(room.root).submissions() if Shard(1, 4).has(each)}
    room.hand_in("a-newcomer")
    after = {each.student for each in Course(room.root).submissions() if Shard(1, 4).has(each)}
    assert after - {"a-newcomer"} == before


def test_a_missing_share_is_run_by_grading(room):
    run(room, 1, 2)
    rest = Stub()
    assert room.grade(stub=rest) == 0
    assert 0 < len(rest.ran) < len(STUDENTS)
    assert all(room.points(student) for student in STUDENTS)


def test_what_cannot_be_graded_is_said(room, capsys):
    room.hand_in("student-0", b"not a notebook")
    number = 1 if Shard(1, 2).has(Course(room.root).submissions()[0]) else 2
    assert run(room, number, 2) == 1
    assert "small, student-0: SET ASIDE: " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "a/b", "-1/4", "1/4/8", ""])
def test_a_share_is_written_one_way(text):
    with pytest.raises(CourseError, match="expected I/N"):
        Shard.parse(text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--shard", "9/8"], "expected I/N"),
        (["--shard", "1/2", "--canvas", "x.csv"], "--shard and --canvas cannot be combined"),
        (["--scheduler", "tcp://x:1", "--workers", "2"], "--scheduler and --workers"),
        (["--scheduler", "tcp://x:1", "--shard", "1/2"], "--scheduler and --shard"),
    ],
)
def test_options_that_make_no_sense(room, given, said, capsys):
    assert main(["--course", str(room.root), *given]) == 2
    assert said in capsys.readouterr().err


@needs_sandbox
def test_the_command_runs_a_share(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("ada")
    assert main(["--course", str(room.root), "--shard", "1/1"]) == 0
    assert (
        "Share 1/1: 1 of 1 submissions\n1 run, 0 with a known result, 0 failed"
        in capsys.readouterr().out
    )
    last = Stub()
    assert room.grade(stub=last) == 0
    assert last.ran == []
    assert room.points("ada") == [60, 40]
