"""Grades for Canvas and Moodle: their columns, their second row, and nothing invented."""

import csv
import io

import pytest
from nbgrader import api
from nbgrader.api import Gradebook

from attentively_grader.course.course import CourseError, Scores, _newest_schema
from attentively_grader.intake import students_table
from attentively_grader.intake.platforms import Who
from attentively_grader.intake.students_table import Row
from attentively_grader.reports.gradesheets import Person, canvas, moodle, people, write

ADA = Person("ada", "Ada", "O'Neil, Jr", "ada@example.org", "4711")
BO = Person("bo")
SCORES = {
    "08_additive": {"ada": Scores({"one": 10.0, "two": 22.5}, {"one": 40.0, "two": 60.0})},
    "09_more": {},
}


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_canvas_gets_its_columns_and_the_points_possible():
    heading, possible, *students = rows(canvas([ADA, BO], SCORES))
    assert heading == [
        *("Student", "ID", "SIS User ID", "SIS Login ID", "Section", "08_additive", "09_more")
    ]
    assert possible[0].strip() == "Points Possible"
    assert possible[5:] == ["100", ""]
    assert students == [
        ["O'Neil, Jr, Ada", "4711", "", "ada", "", "32.5", ""],
        ["bo", "", "", "bo", "", "", ""],  # nothing was handed in: no zero is invented
    ]


def test_moodle_gets_every_way_to_know_a_student():
    heading, *students = rows(moodle([ADA, BO], SCORES))
    assert heading[:5] == ["username", "idnumber", "firstname", "lastname", "email"]
    assert students[0] == ["ada", "4711", "Ada", "O'Neil, Jr", "ada@example.org", "32.5", ""]
    assert students[1] == ["bo", "", "", "", "", "", ""]


class Course:
    """As much of a course as has a gradebook."""

    def __init__(self, folder):
        self.root = folder
        self.url = f"sqlite:///{folder / 'gradebook.db'}"

    def gradebook(self):
        return Gradebook(self.url, "small")

    def scores(self, assignment):
        return SCORES[assignment]


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "get_alembic_version", _newest_schema)  # without starting alembic
    found = Course(tmp_path)
    with found.gradebook() as gradebook:
        gradebook.add_student("bo")
        gradebook.add_student(
            "ada",
            first_name="Ada",
            last_name="O'Neil, Jr",
            email="ada@example.org",
            lms_user_id="4711",
        )
    return found


def test_people_are_those_of_the_gradebook(course):
    assert people(course) == [ADA, BO]


def test_what_the_gradebook_lacks_is_taken_from_the_table_of_students(course):
    """Canvas knows its own number again; Moodle's number is that of one assignment only."""
    rows_of_table = [Row("bo", Who("canvas", "årnebo", "815")), Row("ada", Who("canvas", "x", "1"))]
    students_table.write(course.root, rows_of_table)
    assert people(course) == [ADA, Person("bo", last_name="årnebo", platform_id="815")]
    students_table.write(course.root, [Row("bo", Who("moodle", "Bo Årne", "815"))])
    assert people(course) == [ADA, Person("bo", last_name="Bo Årne")]


def test_the_file_holds_what_the_platform_reads(course, tmp_path):
    path = tmp_path / "grades.csv"
    write(course, "08_additive", "canvas", path)
    assert rows(path.read_text(encoding="utf-8"))[2][5] == "32.5"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["gradebook.db", "grades.csv"]


def test_an_error_leaves_the_file_before(course, tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("the one before")
    with pytest.raises(KeyError):
        write(course, "99", "moodle", path)
    assert path.read_text() == "the one before"
    with pytest.raises(CourseError, match="Is a directory"):
        write(course, "08_additive", "moodle", tmp_path)
