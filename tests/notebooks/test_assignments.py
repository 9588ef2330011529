"""Every assignment through the grader: release, submit, grade in the sandbox, feedback.

A course is graded once for each: the solution, the empty release, and the first wrong notebook
that the bank of answers hands in. The others of the bank, nbval and nbgrader's own command are
slow tests.
"""

import ast
import functools
import html
import shutil
import subprocess
import sys

import nbformat
import pytest
from assignments import ASSIGNMENTS, faults_of_scores
from grader.stub_pool import HAVE, REASON
from notebook_tools import ROOT, execute, outputs, small_notebook, with_source, write

from attentively.coursework import progress
from attentively_grader.coordinator import grade
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course, Scores
from attentively_grader.course.release import generate, release, secret_lines

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
# What is a matter of the tools and not of an assignment is tried on one.
one_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS[:1], ids=str)
STUDENTS = [
    pytest.param(assignment, student, id=f"{assignment}-{student}")
    for assignment in ASSIGNMENTS
    for student in ["solution", *assignment.students[:1]]
]
FURTHER = [
    pytest.param(assignment, student, id=f"{assignment}-{student}")
    for assignment in ASSIGNMENTS
    for student in assignment.students[1:]
]


def answered(released, solution, changed):
    """Return the released notebook with the solution's answers, some of them changed."""
    answers = {cell.id: cell.source for cell in solution.cells}
    for cell in released.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            released = with_source(released, cell.id, changed.get(cell.id, answers[cell.id]))
    return released


def grade_class(root, name, source, released, students):
    """Grade each student's changes to the solution; None hands in the release as it is."""
    if HAVE is None:
        pytest.skip(REASON)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    (root / "src").mkdir()  # which is named there
    write(source, root / "solutions" / name / f"{name}.ipynb")
    for student, changed in students.items():
        notebook = released if changed is None else answered(released, source, changed)
        write(notebook, root / "submitted" / student / name / f"{name}.ipynb")
    assert grade(root) == 0
    return Course(root)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Return a function that gives an assignment's course, graded once."""

    @functools.cache
    def course_of(assignment, further=False):
        source, released = (notebooks.read(p) for p in (assignment.source, assignment.released))
        wrong = [(student, cells) for student, (cells, _, _) in assignment.handed_in.items()]
        students = wrong[1:] if further else [("solution", {}), ("untouched", None), *wrong[:1]]
        root = tmp_path_factory.mktemp("course")
        return grade_class(root, assignment.name, source, released, dict(students))

    return course_of


def scores(course, name, student):
    return course.scores(name)[student]


def see_points_and_feedback(course, assignment, student):
    _, lost, words = assignment.handed_in.get(student, ({}, [], "right on further inputs too"))
    found = scores(course, assignment.name, student)
    assert faults_of_scores(found, lost) == []
    folder = course.root / "feedback" / student / assignment.name
    page = html.unescape((folder / f"{assignment.name}.html").read_text(encoding="utf-8"))
    assert words in page
    assert f"{found.total:.1f} / 100.0" in page


@pytest.mark.parametrize(("assignment", "student"), STUDENTS)
def test_a_wrong_part_loses_its_points_and_no_others(graded, assignment, student):
    see_points_and_feedback(graded(assignment), assignment, student)


@pytest.mark.slow
@pytest.mark.parametrize(("assignment", "student"), FURTHER)
def test_further_wrong_parts_lose_theirs(graded, assignment, student):
    see_points_and_feedback(graded(assignment, further=True), assignment, student)


@every_assignment
def test_a_wrong_answer_is_handed_in(assignment):
    assert [lost for _, lost, _ in assignment.handed_in.values() if lost]
    assert all(cells for cells, _, _ in assignment.handed_in.values())


@every_assignment
def test_the_untouched_release_scores_nothing(graded, assignment):
    found = scores(graded(assignment), assignment.name, "untouched")
    assert found.total == 0
    assert faults_of_scores(found, [*found.maximum]) == []
    assert len(found.maximum) == len(assignment.parts)


# The release


@every_assignment
def test_the_release_is_what_the_solutions_give(assignment):
    first, second = release(ROOT, assignment.name), release(ROOT, assignment.name)
    assert first == second
    folder = assignment.released.parent
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert there == first


@pytest.mark.slow
@one_assignment
def test_nbgraders_own_command_gives_the_same(assignment, tmp_path):
    name, released = assignment.name, assignment.released
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(assignment.source.parent, tmp_path / "solutions" / name)
    (tmp_path / "solutions" / name / "solution.md").write_text("the answer to every part\n")
    generate(tmp_path, name)
    there, made = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for folder in (released.parent, tmp_path / "exercises" / name)
    )
    assert made == there


@every_assignment
def test_no_line_of_a_solution_is_released(assignment):
    source, released = notebooks.read(assignment.source), notebooks.read(assignment.released)
    secrets = secret_lines(source)
    assert len(secrets) >= 3 * len(assignment.parts)
    lines = [line.strip() for cell in released.cells for line in cell.source.splitlines()]
    assert not secrets & set(lines)
    # The broken twin: the line of a solution is found.
    assert secrets & {line.strip() for cell in source.cells for line in cell.source.splitlines()}


# The student's side


@pytest.fixture(scope="module")
def unsolved(tmp_path_factory):
    """Return a function that gives an assignment's release as it runs, run once."""

    @functools.cache
    def run(assignment):
        path = tmp_path_factory.mktemp("work") / assignment.name / assignment.released.name
        path.parent.mkdir()
        shutil.copy(assignment.released, path)
        return execute(path)

    return run


@every_assignment
def test_the_release_runs_to_its_end_and_each_part_says_one_line(unsolved, assignment):
    ran = unsolved(assignment)
    checks = [c for c in ran.cells if c.metadata.get("nbgrader", {}).get("grade")]
    number_of_parts = len(assignment.parts)
    assert len(checks) == number_of_parts
    for number, cell in enumerate(checks, start=1):
        ((name, _, shown),) = outputs(ran, cell.id)
        assert name == "NotImplementedYet"
        assert shown.startswith(f"Part {number} (")
        assert "not implemented yet" in shown
        assert "\n" not in shown
        assert "Traceback" not in shown
    code = [cell for cell in ran.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    others = [cell for cell in code if cell not in checks]
    assert not [cell.id for cell in others for o in cell.outputs if o.output_type == "error"]
    table = "".join(outputs(ran, "progress-code"))  # a slow cell comes in several streams
    assert table.count("not yet") == number_of_parts
    assert f"0 of {number_of_parts} solved" in table


@every_assignment
def test_progress_reads_the_same_from_its_outputs(unsolved, assignment):
    results = list(progress._results(unsolved(assignment), ""))
    assert [result.state for result in results] == ["not yet"] * len(assignment.parts)
    assert sum(result.points for result in results) == 100
    for number, result in enumerate(results, start=1):
        assert result.title.startswith(f"Part {number} · ")


def is_taken(node):
    """Tell whether a statement takes a part of an earlier assignment, which has its own name."""
    return isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(
        "earlier_parts.take("
    )


def bound_by_locked_cells(notebook):
    """Return the names that the cells which students do not write leave behind.

    Imports are left out, and so is what is taken from earlier assignments.
    """
    taken = set()
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.nbgrader.get("locked"):
            for node in ast.parse(cell.source).body:
                if is_taken(node):
                    continue
                # What a function or class binds inside stays there.
                defined = (ast.FunctionDef, ast.ClassDef)
                inner = [node] if isinstance(node, defined) else list(ast.walk(node))
                taken |= {n.name for n in inner if isinstance(n, defined)}
                taken |= {
                    n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
    return taken


def common(names):
    """Return those that an answer could use too: not show_x, faulty_x, FaultyX or a CONSTANT."""
    own = ("show_", "faulty_", "Faulty")
    return {name for name in names if not name.startswith(own) and not name.isupper()}


@every_assignment
def test_locked_cells_bind_no_common_names(assignment):
    assert common(bound_by_locked_cells(notebooks.read(assignment.source))) == set()


# nbval ignores errors in cells tagged raises-exception, so it reads copies without the tag


def nbval(notebook, folder):
    for cell in notebook.cells:
        cell.metadata.pop("tags", None)
    path = write(notebook, folder / "solution.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", folder, "-c", "/dev/null", path],
        capture_output=True,
        text=True,
        cwd=folder,
    )


@pytest.mark.slow
@every_assignment
def test_nbval_is_green_over_the_solution(assignment, tmp_path):
    good = nbval(notebooks.read(assignment.source), tmp_path)
    assert good.returncode == 0, good.stdout[-3000:]


@pytest.mark.slow
@one_assignment
def test_nbval_is_red_over_a_broken_solution(assignment, tmp_path):
    changed, lost, words = next(iter(assignment.handed_in.values()))
    broken = notebooks.read(assignment.source)
    for cell_id, source in changed.items():
        broken = with_source(broken, cell_id, source)
    place = [cell.id for cell in broken.cells].index(lost[0])
    broken.cells = broken.cells[: place + 1]
    bad = nbval(nbformat.from_dict(broken), tmp_path)
    assert bad.returncode == 1
    assert words in bad.stdout


# Broken twins: what these tests must see


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


def test_a_solution_that_fails_its_own_hidden_tests_is_seen(tmp_path):
    source = small_notebook()
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    write(source, tmp_path / "solutions" / "small" / "small.ipynb")
    path = tmp_path / "small.ipynb"
    path.write_bytes(release(tmp_path, "small")["small.ipynb"])
    broken = {"part-1": "def part_1():\n    return 7"}  # right for the visible test only
    students = {"solution": {}, "broken": broken, "untouched": None}
    course = grade_class(tmp_path, "small", source, notebooks.read(path), students)
    assert faults_of_scores(scores(course, "small", "solution")) == []
    found = faults_of_scores(scores(course, "small", "broken"))
    assert found == ["'check-1' got 0, expected 60"]
    assert scores(course, "small", "untouched").total == 0


def test_a_common_name_in_a_locked_cell_is_seen():
    cell = nbformat.v4.new_code_cell(
        "RATE = 1\nfor rate in []:\n    pass\ndef show_it():\n    inside = 1\ndef links(): ...\n"
        "class FaultyOne:\n    def inside(self): ...\nclass Tokenizer: ...\n"
        "own = earlier_parts.take('02_small', part, reference)",
        metadata={"nbgrader": {"locked": True}},
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    functions_and_others = {"RATE", "rate", "show_it", "links"}
    assert bound_by_locked_cells(notebook) == functions_and_others | {"FaultyOne", "Tokenizer"}
    assert common(bound_by_locked_cells(notebook)) == {"rate", "links", "Tokenizer"}
