"""A class is graded: new work is run and recorded, the rest is left alone."""

import pytest
from grader.classroom import Classroom, Stub


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    room = Classroom(tmp_path_factory.mktemp("course"))
    room.hand_in("right")
    room.hand_in("half", room.answered(second="def part_2():\n    return 'wrong'"))
    room.stub = Stub()
    room.status = room.grade(stub=room.stub)
    return room


def test_first(classroom, capsys):
    assert classroom.status == 0
    assert classroom.points("right") == [60, 40]
    assert classroom.points("half") == [60, 0]
    assert "60.0 / 100.0" in classroom.page("half")
