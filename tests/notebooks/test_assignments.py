"""Every assignment: its release, and the names that its locked cells bind.

How it runs is in test_grading.py, for every assignment, and in test_jupyter.py, for one.
"""

import ast

import nbformat
import pytest
from assignments import ASSIGNMENTS
from notebook_tools import ROOT

from attentively_grader.course import notebooks
from attentively_grader.course.release import release, secret_lines

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)


@every_assignment
def test_a_wrong_answer_is_handed_in(assignment):
    assert [lost for _, lost, _ in assignment.handed_in.values() if lost]
    assert all(cells for cells, _, _ in assignment.handed_in.values())


@every_assignment
def test_the_release_is_what_the_solutions_give(assignment):
    """Byte for byte, though it was made at another time and perhaps on another machine."""
    folder = assignment.released.parent
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert there == release(ROOT, assignment.name)


@every_assignment
def test_no_line_of_a_solution_is_released(assignment):
    source, released = notebooks.read(assignment.source), notebooks.read(assignment.released)
    secrets = secret_lines(source)
    assert len(secrets) >= 3 * len(assignment.parts)
    lines = [line.strip() for cell in released.cells for line in cell.source.splitlines()]
    assert not secrets & set(lines)
    # The broken twin: the line of a solution is found.
    assert secrets & {line.strip() for cell in source.cells for line in cell.source.splitlines()}


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
