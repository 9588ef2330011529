"""The same points as nbgrader, on notebooks with the idioms of public nbgrader courses.

nbgrader's points are recorded in nbgrader_points.json; grader/compatibility/record.py names the
command. One slow test grades all themes in one course and compares each cell with the recording.
The other runs nbgrader again where the notebooks, the recorded points or the versions are not
those of the recording.
"""

import copy
import shutil
from dataclasses import replace

import pytest
from grader.compatibility import course as compatibility
from grader.compatibility.course import CONFIG, THEMES, inputs, make_course, recorded, recording
from grader.compatibility.record import points_of_nbgrader
from grader.compatibility.theme import SOLUTION
from grader.stub_pool import needs_sandbox

from attentively_grader.comparison import verdicts
from attentively_grader.coordinator import Coordinator
from attentively_grader.course.course import Course
from attentively_grader.intake.tasks import Options
from attentively_grader.workforce import local_pool

pytestmark = [pytest.mark.notebook, needs_sandbox, pytest.mark.timeout(900)]

DIFFERENT = {
    ("standard-error", "wrong-2", "share-of-the-tests"): "a warning of the answer costs no points",
}
"""Cells with other points than nbgrader's on purpose, by theme, student and cell: the reason."""


@pytest.fixture(scope="module")
def graded(request, tmp_path_factory):
    """Return the self-tests of the themes that the chosen tests ask for, and each cell's verdict.

    The solution is no student of the course, because the self-test grades it.
    """
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
    config = root / "nbgrader_config.py"
    short = CONFIG.replace("timeout = 60", "timeout = 15")  # one answer never ends
    assert short != CONFIG
    config.write_text(short)
    shutil.rmtree(root / "submitted" / SOLUTION)
    course = Course(root)
    options = Options(even_so=True)  # a fault in one cell must not hide the others
    coordinator = Coordinator(course, options, local_pool.pool_factory(None, sandboxed=True))
    coordinator.grade(course.submissions())
    return coordinator.planner.tested, verdicts(course, course.submissions())


@pytest.mark.slow
@pytest.mark.parametrize("name", THEMES)
def test_points_equal_those_of_nbgrader(graded, name):
    if THEMES[name].missing:
        pytest.skip(f"not installed: {', '.join(THEMES[name].missing)}")
    tested, graded = graded
    assert [str(each) for each in tested[name].missed()] == []
    expected = recorded()[name]
    found = {cell: verdict for cell, verdict in graded.items() if cell[0] == name}
    assert {SOLUTION, *(cell[1] for cell in found)} == {*expected}
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


def changed():
    """Return the themes whose recording has other inputs than these."""
    return [
        THEMES[name] for name, each in recording().items()
        if each["inputs"] != inputs(THEMES[name], each["points"])
    ]  # fmt: skip


@pytest.mark.slow
def test_nbgrader_gives_the_recorded_points(tmp_path):
    themes = changed()
    expected = {theme.name: recorded()[theme.name] for theme in themes}
    assert not themes or points_of_nbgrader(themes, tmp_path) == expected


def test_what_has_changed_since_the_recording_runs_again(monkeypatch):
    """An answer, a test, recorded points, or a version."""
    theme = THEMES["printed"]
    points = recorded()["printed"]
    known = inputs(theme, points)
    for cell in theme.cells:
        others = [replace(cell, source=f"{cell.source}\n")]
        others += [
            replace(cell, answers={**cell.answers, student: "pass"})
            for student in cell.answers or ()
        ]
        for other in others:
            cells = tuple(other if each is cell else each for each in theme.cells)
            assert inputs(replace(theme, cells=cells), points) != known
    for student in points:
        for name in points[student]:
            other = copy.deepcopy(points)
            other[student][name] += 0.5
            assert inputs(theme, other) != known
    monkeypatch.setattr(compatibility, "VERSIONS", compatibility.VERSIONS[1:])
    assert inputs(theme, points) != known
    assert changed() == [*THEMES.values()]
