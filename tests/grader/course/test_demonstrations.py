"""Cells that the course names as demonstrations: locked, without points and without an answer."""

from grader.classroom import Classroom
from nbformat.v4 import new_code_cell
from notebook_tools import flags, small_notebook

from attentively_grader.course.course import Course
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.course.preparation import prepare


def marked(room, patterns):
    """Return the ids of the marked cells."""
    with open(room.root / "nbgrader_config.py", "a") as file:
        file.write(f"\nc.Grading.demonstrations = {patterns}\n")
    folder = room.root / f"released-{len(patterns[0])}"
    (notebook,) = prepare(Course(room.root), room.name, folder, gradebook=False).notebooks.values()
    return [
        cell["id"]
        for cell in notebook["cells"]
        if cell["metadata"].get(METADATA_KEY, {}).get("demonstration")
    ]


def test_patterns_name_locked_cells_without_points(tmp_path):
    notebook = small_notebook()
    notebook.cells += [
        new_code_cell("1", id="part-1-use", metadata={"nbgrader": flags("u", locked=True)}),
        new_code_cell("2", id="progress", metadata={"nbgrader": flags("p", locked=True)}),
        new_code_cell("3", id="free-use"),
    ]
    room = Classroom(tmp_path, notebook)
    assert marked(room, ["*"]) == ["part-1-use", "progress"]
    assert marked(room, ["*-use"]) == ["part-1-use"]
