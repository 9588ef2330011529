"""Write grades in the import formats of learning platforms: CSV for Canvas and for Moodle.

Canvas identifies students by its own id or by their login, Moodle by the user name, ID number or
e-mail address that is selected in its form. A sheet contains everything that the gradebook has.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attentively_grader.course.course import Course, Scores, assignments
from attentively_grader.intake import students_table
from attentively_grader.intake.platforms import Who
from attentively_grader.intake.result_store import write_whole

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("username", "idnumber", "firstname", "lastname", "email")


@dataclass(frozen=True)
class Person:
    """A student as listed in the gradebook; unknown fields are empty."""

    name: str
    """The name of the submitted folder, which is the login on the platform."""
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    platform_id: str = ""
    """The id on the learning platform, `lms_user_id` in the gradebook."""

    @property
    def listed(self) -> str:
        """The full name, last name first."""
        return ", ".join(filter(None, [self.last_name, self.first_name])) or self.name


def people(course: Course) -> list[Person]:
    """Return all students in the gradebook, sorted by name.

    Where the gradebook has no name, it is that of the platform from which a student was collected.
    """
    collected = {row.student: row.who for row in students_table.read(course.root)}
    unknown = Who("", "")
    with course.gradebook() as gradebook:
        found = [
            Person(
                student.id,
                student.first_name or "",
                student.last_name or ("" if student.first_name else who.name),
                student.email or "",
                # The number of Moodle is not the id that its import of grades asks for.
                student.lms_user_id or (who.number if who.platform == "canvas" else ""),
            )
            for student in gradebook.students
            for who in [collected.get(student.id, unknown)]
        ]
    return sorted(found, key=lambda person: person.name)


def canvas(people: Sequence[Person], scores: Mapping[str, Mapping[str, Scores]]) -> str:
    """Return a sheet for Canvas: one column per assignment, its maximum points in the second row.

    A student without a submission has an empty cell; Canvas then keeps the present grade.
    """
    rows = [[*CANVAS, *scores]]
    rows.append(["    Points Possible", "", "", "", "", *map(_points, scores.values())])
    for person in people:
        row = [person.listed, person.platform_id, "", person.name, ""]
        rows.append([*row, *(_total(of_all, person) for of_all in scores.values())])
    return _csv(rows)


def moodle(people: Sequence[Person], scores: Mapping[str, Mapping[str, Scores]]) -> str:
    """Return a sheet for Moodle: one column per assignment."""
    rows = [[*MOODLE, *scores]]
    for person in people:
        row = [person.name, person.platform_id, person.first_name, person.last_name, person.email]
        rows.append([*row, *(_total(of_all, person) for of_all in scores.values())])
    return _csv(rows)


FORMATS = {"canvas": canvas, "moodle": moodle}


def write(course: Course, assignment: str | None, kind: str, path: Path) -> int:
    """Write the grades of one assignment, or of all with a submission, in the format `kind`.

    Returns the number of answers that wait for manual grading. `kind` is one of `FORMATS`. Raises
    `CourseError` if the file cannot be written; an existing file is then left unchanged.
    """
    names = [assignment] if assignment else assignments(course.root, course.config)
    scores = {name: course.scores(name) for name in names}
    found = {name: of_all for name, of_all in scores.items() if of_all or assignment}
    text = FORMATS[kind](people(course), found)
    write_whole(path, text)
    return sum(len(row.by_hand) for of_all in found.values() for row in of_all.values())


def _points(scores: Mapping[str, Scores]) -> str:
    """Return the maximum points of an assignment."""
    return next((f"{sum(row.maximum.values()):g}" for row in scores.values()), "")


def _total(scores: Mapping[str, Scores], person: Person) -> str:
    return f"{scores[person.name].total:g}" if person.name in scores else ""


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()
