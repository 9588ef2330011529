"""The notebooks that readers download: what they show, and that one of them runs alone.

A reader has an empty folder and the installed package. That the code of every page runs there is
tested in `book/test_on_a_device.py`; here, that the code of the notebook is the page's.
"""

import os
import subprocess
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, new_output
from on_pretend_device import cells_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "book").glob("[0-9][0-9]_*.md"))
CHEAP = "02_subwords"
"""Loads results and a checkpoint, and takes seconds."""


def code_of(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def run_alone(notebook, installed: Path, folder: Path) -> list[str]:
    """Execute a notebook in an empty folder; return the names of the files that this leaves."""
    where = new_code_cell("import attentively\nprint(attentively.__file__)")
    client = NotebookClient(
        new_notebook(cells=[where, *code_of(notebook)]),
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
    code = code_of(notebook)
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
def test_a_notebook_runs_alone(site, installed, tmp_path):
    assert run_alone(offered(site, CHEAP), installed, tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_code_is_that_of_the_page(site, name):
    code = [cell.source for cell in code_of(offered(site, name))]
    assert code == cells_of(ROOT / "book" / f"{name}.md")


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
    notebook = new_notebook(cells=[new_code_cell("x = 1"), new_code_cell(code)])
    with pytest.raises(Exception, match=error):
        run_alone(notebook, installed, tmp_path)


def test_a_first_cell_that_prints_is_seen():
    said = new_output("stream", text="computing on cpu\n")
    loud = new_code_cell("print('computing on cpu')", outputs=[said], execution_count=1)
    assert shown_at_first(new_notebook(cells=[loud])) == [said]
    with pytest.raises(AssertionError, match="not executed"):
        shown_at_first(new_notebook(cells=[new_code_cell("x")]))
