"""Every assignment through the grader: release, submit, grade in the sandbox, feedback.

All submissions that the chosen tests ask for are graded in one course by one call, so that the
processes of the grader start and import once. Of each assignment these are the empty release and
the wrong notebooks of its bank of answers, in which the other parts are the solution's. Those that
change different cells are handed in as one. The solution itself is graded by the self-test.
"""

import contextlib
import copy
import html
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from assignments import ASSIGNMENTS, faults_of_scores
from grader.stub_pool import HAVE, REASON
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, new_output
from notebook_tools import (
    ROOT,
    failed,
    faults_of_progress,
    faults_of_release,
    outputs,
    small_notebook,
    with_source,
    write,
)

from attentively.checks.recordings import QUESTIONS
from attentively.coursework import progress
from attentively_grader.coordinator import Coordinator
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course, Scores
from attentively_grader.course.release import release
from attentively_grader.intake.tasks import Options
from attentively_grader.workforce import local_pool

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(1800)]


ALWAYS = "08_additive_attention"
"""The assignment whose wrong notebooks and demonstrations run in each run of the tests.

Those of the others run in CI. Each wrong answer is examined in tests/exercises, too.
"""


def assignments(student):
    """Return a parameter for each assignment, with this student of it."""
    params = []
    for each in ASSIGNMENTS:
        slow = student in ("wrong", "demonstrations") and each.name != ALWAYS
        marks = [pytest.mark.slow] * slow
        params.append(pytest.param(each, student, id=f"{each}-{student}", marks=marks))
    return pytest.mark.parametrize(("assignment", "student"), params)


def wrong_notebooks(assignment):
    """Return {student: (changed cells, lost checks, words)}; no cell has two wrong answers."""
    together = []
    for cells, lost, words in assignment.handed_in.values():
        for group in together:
            if not {*group[0]} & {*cells}:
                break
        else:
            together.append(group := ({}, [], []))
        group[0].update(cells)
        group[1].extend(lost)
        group[2].append(words)
    return {f"wrong-{number}": group for number, group in enumerate(together, start=1)}


SMALL = "small"
"""An assignment of two parts, whose students are known to be right and wrong."""
SMALL_STUDENTS = {
    "solution": {},
    "broken": {"part-1": "def part_1():\n    return 7"},  # right for the visible test only
    "raises": {"part-2": "def part_2():\n    return 'another secret'\n1 / 0"},
    "untouched": None,
}


def answered(released, solution, changed):
    """Return the released notebook with the solution's answers, some of them changed."""
    answers = {cell.id: cell.source for cell in solution.cells}
    for cell in released.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            released = with_source(released, cell.id, changed.get(cell.id, answers[cell.id]))
    return released


def hand_in(root, name, source, released, students):
    """Write each student's changes to the solution; None hands in the release as it is."""
    for student, changed in students.items():
        notebook = released if changed is None else answered(released, source, changed)
        write(notebook, root / "submitted" / student / name / f"{name}.ipynb")


def demonstrating_pool(demonstrated):
    """Return a pool factory; its workers run the demonstrations of releases and some solutions."""

    @contextlib.contextmanager
    def pool(course, prepared):
        def changed(job):
            solved = job.solution and job.key.partition(", ")[0] in demonstrated
            return demonstrating(job) if solved or ", untouched" in job.key else job

        with local_pool.pool_factory(None, sandboxed=True)(course, prepared) as workers:
            yield SimpleNamespace(run=lambda jobs: workers.run(map(changed, jobs)))

    return pool


def demonstrating(job):
    """Return a job that runs the demonstrations, too."""
    notebook = copy.deepcopy(job.notebook)
    for cell in notebook["cells"]:
        cell["metadata"].get(notebooks.METADATA_KEY, {}).pop("demonstration", None)
    return replace(job, notebook=notebook)


@pytest.fixture(scope="module")
def graded(request, tmp_path_factory):
    """Return the coordinator that has graded every submission that a chosen test asks for."""
    if HAVE is None:
        pytest.skip(REASON)
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    (root / "src").mkdir()  # which is named there
    wanted = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path  # other files have fixtures of this name
        and "graded" in item.fixturenames
        and hasattr(item, "callspec")
        and not item.get_closest_marker("skip")
    ]
    for each in wanted:
        assignment, student = each["assignment"], each["student"]
        source, released = (notebooks.read(p) for p in (assignment.source, assignment.released))
        place = root / "solutions" / assignment.name / assignment.source.name
        if not place.exists():
            write(source, place)
            for path in assignment.source.parent.glob(QUESTIONS):
                shutil.copy(path, place.parent)
        students = {"untouched": None}
        if student == "wrong":
            students = {name: cells for name, (cells, _, _) in wrong_notebooks(assignment).items()}
        hand_in(root, assignment.name, source, released, students)
    small = small_notebook()
    write(small, root / "solutions" / SMALL / f"{SMALL}.ipynb")
    path = root / "released.ipynb"
    path.write_bytes(release(root, SMALL)[f"{SMALL}.ipynb"])
    hand_in(root, SMALL, small, notebooks.read(path), SMALL_STUDENTS)
    course = Course(root)
    demonstrated = {
        each["assignment"].name for each in wanted if each["student"] == "demonstrations"
    }
    coordinator = Coordinator(course, Options(), demonstrating_pool(demonstrated))
    coordinator.grade(course.submissions())
    assert (coordinator.set_aside, coordinator.unrecorded) == ({}, {})
    return coordinator


def scores(graded, name, student):
    return graded.course.scores(name)[student]


def ran(graded, name, student):
    """Return a graded notebook, with what each cell showed."""
    return notebooks.read(graded.course.place("autograded", student, name) / f"{name}.ipynb")


def solved(graded, name):
    """Return the code cells of the solution as the self-test ran them."""
    outcome = graded.planner.tested[name].outcomes[name]
    cells = {cell["id"]: cell for cell in graded.planner.prepared[name].notebooks[name]["cells"]}
    return from_dict(
        {"cells": [cells[each.id] | {"outputs": each.outputs} for each in outcome.cells]}
    )


@assignments("solution")
def test_the_solution_earns_all_points_and_no_cell_fails(graded, assignment, student):
    test = graded.planner.tested[assignment.name]
    assert (test.earned, test.missed(), [*test.weaker()]) == (100, [], [])
    notebook = solved(graded, assignment.name)
    assert [cell.id for cell in notebook.cells if failed(cell)] == []
    checks = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    shown = ["".join(map(str, outputs(notebook, cell.id))) for cell in checks]
    assert [each for each in shown if "right on further inputs too" not in each] == []


@assignments("demonstrations")
def test_no_cell_fails_that_shows_what_the_answers_do(graded, assignment, student):
    """There are no points for these cells, so grading leaves them out."""
    notebook = solved(graded, assignment.name)
    assert "It is not run in grading." not in str(notebook)
    assert [cell.id for cell in notebook.cells if failed(cell)] == []
    assert faults_of_progress(notebook, len(assignment.parts)) == []


@assignments("wrong")
def test_wrong_parts_lose_their_points_and_no_others(graded, assignment, student):
    titles = notebooks.part_titles(notebooks.read(assignment.source))
    for name, (_, lost, words) in wrong_notebooks(assignment).items():
        found = scores(graded, assignment.name, name)
        assert faults_of_scores(found, [titles[each] for each in lost]) == []
        folder = graded.course.place("feedback", name, assignment.name)
        page = html.unescape((folder / f"{assignment.name}.html").read_text(encoding="utf-8"))
        page = " ".join(page.split())  # a message is wrapped
        words = [*words, "right on further inputs too", f"{found.total:.1f} / 100.0"]
        assert [each for each in words if each not in page] == []


@assignments("untouched")
def test_the_untouched_release_scores_nothing_and_each_part_says_one_line(
    graded, assignment, student
):
    found = scores(graded, assignment.name, student)
    assert found.total == 0
    assert faults_of_scores(found, [*found.maximum]) == []
    assert len(found.maximum) == len(assignment.parts)
    unsolved = ran(graded, assignment.name, student)
    assert faults_of_release(unsolved) == []
    results = list(progress._results(unsolved, ""))
    assert [result.state for result in results] == ["not yet"] * len(assignment.parts)
    assert sum(result.points for result in results) == 100
    for number, result in enumerate(results, start=1):
        assert result.title.startswith(f"Part {number} · ")


# Broken variants: what these tests must see


def test_scores_other_than_expected_are_seen():
    most = {"one": 60.0, "two": 40.0}
    assert faults_of_scores(Scores(most, most)) == []
    assert faults_of_scores(Scores({"one": 0, "two": 40}, most), ["one"]) == []
    # A solution with 99 points
    assert faults_of_scores(Scores(most | {"one": 59}, most)) == ["'one' got 59, expected 60"]
    # A wrong answer that costs nothing, and one that takes another part along
    assert faults_of_scores(Scores(most, most), ["one"]) == ["'one' got 60, expected 0"]
    both = Scores({"one": 0, "two": 0}, most)
    assert faults_of_scores(both, ["one"]) == ["'two' got 0, expected 40"]
    assert faults_of_scores(Scores(most, most), ["none"]) == ["'none' is no check"]
    (fault,) = faults_of_scores(Scores({"one": 60}, {"one": 60}))
    assert fault == "the points sum to 60, not to 100"


def test_a_solution_that_fails_its_own_hidden_tests_is_seen(graded):
    assert faults_of_scores(scores(graded, SMALL, "solution")) == []
    found = faults_of_scores(scores(graded, SMALL, "broken"))
    assert found == ["'Part 1 · Number' got 0, expected 60"]
    assert scores(graded, SMALL, "untouched").total == 0


def test_a_cell_without_points_that_fails_is_seen(graded):
    """Its part earns its points all the same."""
    assert faults_of_scores(scores(graded, SMALL, "raises")) == []
    cells = {name: ran(graded, SMALL, name).cells for name in ("solution", "raises")}
    assert [cell.id for cell in cells["solution"] if failed(cell)] == []
    assert [cell.id for cell in cells["raises"] if failed(cell)] == ["part-2"]


def unsolved_release():
    """Return a released notebook of one part as it is after a run."""
    line = "Part 1 (number): not implemented yet."
    error = {"ename": "NotImplementedYet", "evalue": line, "traceback": [line]}
    check = new_code_cell(id="check-1", execution_count=1, metadata={"nbgrader": {"grade": True}})
    check.outputs = [new_output("error", **error)]
    progress = new_code_cell(id="progress-code", execution_count=2)
    progress.outputs = [
        new_output("stream", text="Part 1  not yet\n"),
        new_output("stream", text="0 of 1 solved\n"),
    ]
    return new_notebook(cells=[check, progress])


@pytest.mark.parametrize(
    ("cell", "output", "change", "fault"),
    [
        (0, 0, {"ename": "NameError"}, "check-1 shows"),
        (0, 0, {"evalue": "Part 2 (number): not implemented yet."}, "check-1 says"),
        (0, 0, {"traceback": ["Part 1 (number): wrong."]}, "check-1 says"),
        (0, 0, {"traceback": ["Part 1 (number): not implemented yet.", "more"]}, "more than"),
        (0, 0, {"traceback": ["Part 1 (a): not implemented yet. Traceback"]}, "more than"),
        (1, 0, {"text": "Part 1  wrong\n"}, "does not say 'not yet' 1 times"),
        (1, 1, {"text": "1 of 1 solved\n"}, "does not say 0 of 1 solved"),
    ],
)
def test_a_release_that_says_something_else_is_seen(cell, output, change, fault):
    ran = unsolved_release()
    assert faults_of_release(ran) == []
    ran.cells[cell].outputs[output].update(change)
    (found,) = faults_of_release(ran)
    assert fault in found


def test_a_release_with_a_cell_that_fails_or_does_not_run_is_seen():
    ran = unsolved_release()
    ran.cells[0].outputs *= 2
    assert "check-1 shows" in faults_of_release(ran)[0]
    ran = unsolved_release()
    ran.cells.insert(0, new_code_cell(id="show"))
    assert faults_of_release(ran) == ["show did not run"]
    ran.cells[0].execution_count = 1
    assert faults_of_release(ran) == []
    ran.cells[0].outputs = [new_output("error", ename="NameError", evalue="", traceback=[])]
    assert faults_of_release(ran) == ["show fails"]
