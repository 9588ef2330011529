"""Progress is kept until the notebook or something that its results depend on changes."""

import pytest
from nbformat.v4 import new_output
from notebook_tools import small_notebook, with_source, write

import attentively
from attentively import coursework
from attentively.coursework import progress, progress_cache
from attentively.coursework.part_result import PartResult
from attentively_grader.course import notebooks

FOUND = [PartResult("Part 1", 60.0, "solved"), PartResult("Part 2", 40.0, "wrong", "  too small")]


class Runs:
    """Stands in for the kernel; counts how often a notebook runs."""

    def __init__(self):
        self.count, self.results, self.during = 0, FOUND, lambda: None

    def __call__(self, path, show_progress=False):
        self.count += 1
        self.during()
        return self.results


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(progress, "run", runs := Runs())
    return runs


@pytest.fixture
def path(tmp_path):
    """A notebook that uses 02_middle, which uses 01_first; 04_other has nothing to do with it."""
    work = tmp_path / "work"
    for name, uses in {"01_first": "", "02_middle": "01_first", "04_other": ""}.items():
        answer = f'def part_1():\n    return "{uses}"'
        write(with_source(small_notebook(), "part-1", answer), work / name / f"{name}.ipynb")
    answer = "def part_1():\n    return earlier_parts.take('02_middle', part, reference)"
    notebook = with_source(small_notebook(), "part-1", answer)
    return write(notebook, work / "03_last" / "03_last.ipynb")


def change(path, cell, source):
    write(with_source(notebooks.read(path), cell, source), path)


def near(path, name):
    return path.parents[1] / name / f"{name}.ipynb"


def saved_in_jupyterlab(path):
    notebook = notebooks.read(path)
    notebook.cells[2].outputs = [new_output("stream", text="3")]
    notebook.cells[2].execution_count = 7
    write(notebook, path)


CHANGES = {
    "nothing": (0, lambda path: None),
    "outputs": (0, saved_in_jupyterlab),
    "an assignment that is not used": (
        0,
        lambda path: change(near(path, "04_other"), "part-1", "0"),
    ),
    "a checkpoint": (0, lambda path: write(small_notebook(), path.parent / ".ipynb_checkpoints/a")),
    "an answer": (1, lambda path: change(path, "part-2", "def part_2():\n    return 2")),
    "a title": (1, lambda path: change(path, "text-1", "## Part 1: Another title")),
    "the points": (1, lambda path: path.write_text(path.read_text().replace("60", "61"))),
    "an earlier part": (1, lambda path: change(near(path, "02_middle"), "part-2", "0")),
    "a part that this one uses": (1, lambda path: change(near(path, "01_first"), "part-1", "0")),
    "an earlier notebook is gone": (1, lambda path: near(path, "02_middle").unlink()),
    "a file next to it": (1, lambda path: (path.parent / "data.csv").write_text("1")),
}


@pytest.mark.parametrize(("runs", "edit"), CHANGES.values(), ids=CHANGES)
def test_a_notebook_runs_again_only_after_a_change(path, kernel, runs, edit):
    assert coursework.results(path) == FOUND
    edit(path)
    assert coursework.results(path) == FOUND
    assert kernel.count == 1 + runs


def test_the_checks_the_packages_and_the_settings_count(path, kernel, tmp_path, monkeypatch):
    package = tmp_path / "attentively"
    (package / "checks").mkdir(parents=True)
    (package / "checks" / "small.py").write_text("1", encoding="utf-8")
    monkeypatch.setattr(attentively, "__file__", str(package / "__init__.py"))
    coursework.results(path)
    coursework.results(path)
    assert kernel.count == 1
    (package / "checks" / "small.py").write_text("12", encoding="utf-8")
    coursework.results(path)
    coursework.results(path)
    assert kernel.count == 2
    monkeypatch.setattr(progress_cache, "_installed", lambda: ["torch-9.dist-info"])
    coursework.results(path)
    assert kernel.count == 3
    monkeypatch.setenv("ATTENTIVELY_DATA", "elsewhere")
    coursework.results(path)
    assert kernel.count == 4
    coursework.results(path, again=True)
    assert kernel.count == 5


def test_a_run_that_was_cut_short_is_repeated(path, kernel):
    kernel.results = [*FOUND, PartResult("Part 3", 5.0, "wrong", "  died", stopped=True)]
    coursework.results(path)
    coursework.results(path)
    assert kernel.count == 2


def test_a_notebook_that_is_saved_during_the_run_is_run_again(path, kernel):
    kernel.during = lambda: change(path, "part-2", f"def part_2():\n    return {kernel.count}")
    coursework.results(path)
    kernel.during = lambda: None
    coursework.results(path)
    coursework.results(path)
    assert kernel.count == 2


def test_a_file_that_the_run_writes_does_not_repeat_it(path, kernel):
    kernel.during = lambda: (path.parent / "model.pt").write_bytes(b"weights")
    coursework.results(path)
    coursework.results(path)
    assert kernel.count == 1


@pytest.mark.parametrize("kept", ["{", "[]", "{}", '{"cells": 1, "surroundings": 2}'])
def test_a_damaged_cache_only_costs_a_run(path, kernel, kept):
    coursework.results(path)
    (path.parents[1] / ".progress" / "03_last.json").write_text(kept, encoding="utf-8")
    assert coursework.results(path) == FOUND
    assert kernel.count == 2


def test_a_folder_that_is_not_writable_only_costs_time(path, kernel):
    (path.parents[1] / ".progress").write_text("a file", encoding="utf-8")
    assert coursework.results(path) == coursework.results(path) == FOUND
    assert kernel.count == 2
