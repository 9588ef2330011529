"""The same points as nbgrader, on notebooks with the idioms of public nbgrader courses.

nbgrader's points are recorded in nbgrader_points.json; grader/compatibility/record.py names the
command. The quick tests grade all themes in one course and compare each cell with the recording.
The slow test runs nbgrader again and checks the recording.
"""

import pytest
from grader.compatibility.course import THEMES, make_course, recorded
from grader.compatibility.record import points_of_nbgrader
from grader.stub_pool import needs_sandbox

from attentively_grader.comparison import verdicts
from attentively_grader.coordinator import grade
from attentively_grader.course.course import Course
from attentively_grader.intake.tasks import Options

pytestmark = [pytest.mark.notebook, needs_sandbox, pytest.mark.timeout(900)]

DIFFERENT = {
    ("standard-error", "wrong-2", "share-of-the-tests"): "a warning of the answer costs no points",
}
"""Cells with other points than nbgrader's on purpose, by theme, student and cell: the reason."""


@pytest.fixture(scope="module")
def graded(request, tmp_path_factory):
    """Return the verdict on each cell of the themes that the chosen tests ask for."""
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path
        and "graded" in item.fixturenames
        and not item.get_closest_marker("skip")
    ]
    themes = [theme for theme in THEMES.values() if theme.name in wanted and not theme.missing]
    root = tmp_path_factory.mktemp("course")
    make_course(root, themes)
    grade(root, options=Options(even_so=True))  # a fault in one cell must not hide the others
    course = Course(root)
    return verdicts(course, course.submissions())


@pytest.mark.parametrize("name", THEMES)
def test_points_equal_those_of_nbgrader(graded, name):
    if THEMES[name].missing:
        pytest.skip(f"not installed: {', '.join(THEMES[name].missing)}")
    expected = recorded()[name]
    found = {cell: verdict for cell, verdict in graded.items() if cell[0] == name}
    assert {cell[1] for cell in found} == {*expected}
    faults = [
        f"{student}, {cell}: {verdict.points:g} here, {expected[student][cell]:g} with nbgrader"
        f"{', in the student process' * verdict.weaker}: {verdict.error}"
        for (_, student, _, cell), verdict in found.items()
        if verdict.points != expected[student][cell] and (name, student, cell) not in DIFFERENT
    ]
    assert faults == []


@pytest.mark.parametrize("name", THEMES)
def test_the_answers_are_what_they_are_called(name):
    """By nbgrader's points: the solution earns all of them, a wrong answer loses some."""
    points = recorded()[name]
    assert set(points) == {*THEMES[name].students}
    full = {cell.name: cell.points for cell in THEMES[name].cells if cell.points is not None}
    assert points["solution"] == full
    for student, found in points.items():
        assert set(found) == set(full)
        if student.startswith("wrong"):
            assert sum(found.values()) < sum(full.values()), student


def test_the_cells_that_differ_on_purpose_exist():
    points = recorded()
    assert all(cell in points[theme][student] for theme, student, cell in DIFFERENT)


@pytest.mark.slow
@pytest.mark.parametrize("name", THEMES)
def test_nbgrader_gives_the_recorded_points(name, tmp_path):
    assert points_of_nbgrader([THEMES[name]], tmp_path) == {name: recorded()[name]}
