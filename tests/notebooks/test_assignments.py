"""Every assignment: what it releases, and how the release runs in Jupyter.

What the grader makes of it is in test_grading.py. What takes a Jupyter kernel is a matter of the
tools and is tried on one assignment; every notebook runs, cell by cell, when it is graded.
"""

import ast
import shutil
import subprocess
import sys

import nbformat
import pytest
from assignments import ASSIGNMENTS
from notebook_tools import ROOT, execute, faults_of_release, with_source, write

from attentively.coursework import progress
from attentively_grader.course import notebooks
from attentively_grader.course.release import generate, release, secret_lines

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
# What is a matter of the tools and not of an assignment is tried on one.
one_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS[:1], ids=str)


@every_assignment
def test_a_wrong_answer_is_handed_in(assignment):
    assert [lost for _, lost, _ in assignment.handed_in.values() if lost]
    assert all(cells for cells, _, _ in assignment.handed_in.values())


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


@one_assignment
def test_the_release_runs_to_its_end_in_jupyter(assignment, tmp_path):
    """As a student runs it: in a kernel, with the file where it was released."""
    path = tmp_path / assignment.name / assignment.released.name
    path.parent.mkdir()
    shutil.copy(assignment.released, path)
    ran = execute(path)
    assert faults_of_release(ran) == []
    results = progress._results(ran, "")
    assert [result.state for result in results] == ["not yet"] * len(assignment.parts)


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
@one_assignment
def test_nbval_is_green_over_a_solution_and_red_over_a_broken_one(assignment, tmp_path):
    good = nbval(notebooks.read(assignment.source), tmp_path)
    assert good.returncode == 0, good.stdout[-3000:]
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
