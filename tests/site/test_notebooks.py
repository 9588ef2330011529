"""The notebooks that readers download: what they show, and that each runs alone.

A reader has an empty folder and the installed package. So the package is built as a wheel and
installed into a folder of its own, and the kernel starts in an empty one.

By default one notebook is executed to its end. To execute the other 21 as well would take as long
as to execute the book again. So the slow tests execute each only as far as the last cell that
loads results or opens a file; what else a notebook could lack is a file of the package, and one
test compares those.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "book").glob("[0-9][0-9]_*.md"))
CHEAP = "02_subwords"
"""Loads results and a checkpoint, and takes seconds."""
READS = re.compile(r"\bpublished\.load\(|\bread_text\(|\bopen\(")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """Return the package, built as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """Return the folder into which the wheel is installed; its libraries are this environment's."""
    folder = tmp_path_factory.mktemp("installed")
    command = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder]
    subprocess.run([sys.executable, *command, wheel], check=True, capture_output=True)
    return folder


def run_alone(notebook, installed: Path, folder: Path, to_the_end: bool) -> list[str]:
    """Execute a notebook in an empty folder; return the names of the files that this leaves."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    reading = [n for n, cell in enumerate(code, start=1) if READS.search(cell.source)]
    code = code if to_the_end else code[: max([1, *reading])]
    where = new_code_cell("import attentively\nprint(attentively.__file__)")
    client = NotebookClient(
        new_notebook(cells=[where, *code]),
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    environment = os.environ | {
        "IPYTHONDIR": str(installed / "ipython"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONPATH": str(installed),
    }
    client.execute(env=environment)
    said = where.outputs[0].text.strip()
    assert Path(said).is_relative_to(installed), f"the package comes from {said}"
    return sorted(path.name for path in folder.iterdir())


def shown_at_first(notebook) -> list:
    """Return what the first code cell shows."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[-1].execution_count, "the notebook was not executed"
    return code[0].outputs


def offered(site: Path, name: str):
    return nbformat.read(site / "_sources" / "book" / f"{name}.ipynb", as_version=4)


def test_the_wheel_holds_every_file_of_the_package_and_the_results(wheel):
    listed = ["git", "ls-files", "-z", "src/attentively", "book/results"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {name for name in found.split("\0") if name and (ROOT / name).is_file()}
    inside = {
        name.removeprefix("src/").replace("book/results/", "attentively/results/") for name in files
    }
    assert len(inside) > 200
    assert inside - set(zipfile.ZipFile(wheel).namelist()) == set()


@pytest.mark.notebook
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] * (each != CHEAP)) for each in NAMES],
)
def test_a_notebook_runs_alone(site, installed, tmp_path, name):
    left = run_alone(offered(site, name), installed, tmp_path, to_the_end=name == CHEAP)
    assert left == []


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cell_shows_nothing_and_others_do(site, name):
    notebook = offered(site, name)
    assert shown_at_first(notebook) == []
    assert sum(bool(cell.get("outputs")) for cell in notebook.cells) > 5


# The tests above can fail


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("open('results/scores.json')", "FileNotFoundError"),
        ("from attentively.experiments import published\npublished.load('scors')", "ValueError"),
        ("import attentively_tests", "ModuleNotFoundError"),
    ],
)
def test_a_notebook_that_needs_more_fails(installed, tmp_path, code, error):
    for cells in ([code], ["x = 1", code, "1 / 0"]):
        notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
        with pytest.raises(Exception, match=error):
            run_alone(notebook, installed, tmp_path, to_the_end="tests" in code)


def test_a_first_cell_that_prints_is_seen():
    said = new_output("stream", text="computing on cpu\n")
    loud = new_code_cell("print('computing on cpu')", outputs=[said], execution_count=1)
    assert shown_at_first(new_notebook(cells=[loud])) == [said]
    with pytest.raises(AssertionError, match="not executed"):
        shown_at_first(new_notebook(cells=[new_code_cell("x")]))
