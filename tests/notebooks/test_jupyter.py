"""One assignment in Jupyter, through nbval and through nbgrader's own command.

These try the tools. Every assignment is run, cell by cell, when it is graded: test_grading.py.
"""

import shutil
import subprocess
import sys

import nbformat
import pytest
from assignments import ASSIGNMENTS
from notebook_tools import ROOT, execute, faults_of_release, with_source, write

from attentively.coursework import progress
from attentively_grader.course import notebooks
from attentively_grader.course.release import generate

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]

ASSIGNMENT = ASSIGNMENTS[0]


def test_the_release_runs_to_its_end_in_jupyter(tmp_path):
    """As a student runs it: in a kernel, with the file where it was released."""
    path = tmp_path / ASSIGNMENT.name / ASSIGNMENT.released.name
    path.parent.mkdir()
    shutil.copy(ASSIGNMENT.released, path)
    ran = execute(path)
    assert faults_of_release(ran) == []
    results = progress._results(ran, "")
    assert [result.state for result in results] == ["not yet"] * len(ASSIGNMENT.parts)


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
def test_nbval_is_green_over_a_solution_and_red_over_a_broken_one(tmp_path):
    good = nbval(notebooks.read(ASSIGNMENT.source), tmp_path)
    assert good.returncode == 0, good.stdout[-3000:]
    changed, lost, words = next(iter(ASSIGNMENT.handed_in.values()))
    broken = notebooks.read(ASSIGNMENT.source)
    for cell_id, source in changed.items():
        broken = with_source(broken, cell_id, source)
    place = [cell.id for cell in broken.cells].index(lost[0])
    broken.cells = broken.cells[: place + 1]
    bad = nbval(nbformat.from_dict(broken), tmp_path)
    assert bad.returncode == 1
    assert words in " ".join(bad.stdout.split())


@pytest.mark.slow
def test_nbgraders_own_command_gives_the_same(tmp_path):
    name, released = ASSIGNMENT.name, ASSIGNMENT.released
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(ASSIGNMENT.source.parent, tmp_path / "solutions" / name)
    (tmp_path / "solutions" / name / "solution.md").write_text("the answer to every part\n")
    generate(tmp_path, name)
    there, made = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for folder in (released.parent, tmp_path / "exercises" / name)
    )
    assert made == there
