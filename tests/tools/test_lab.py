"""`make lab` gives a student the exercises, and never takes an answer away."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("lab", ROOT / "tools" / "lab.py")
lab = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lab)


def test_answers_are_kept_and_new_files_come(tmp_path):
    exercises, work = tmp_path / "exercises", tmp_path / "work"
    (exercises / "08_x").mkdir(parents=True)
    (exercises / "08_x" / "x.ipynb").write_text("release")
    assert lab.copy_new(exercises, work) == ([Path("08_x/x.ipynb")], [])
    (work / "08_x" / "x.ipynb").write_text("my answer")
    (exercises / "08_x" / "table.csv").write_text("1,2")
    (exercises / "09_y").mkdir()
    (exercises / "09_y" / "y.ipynb").write_text("release")
    copied, kept = lab.copy_new(exercises, work)
    assert copied == [Path("08_x/table.csv"), Path("09_y/y.ipynb")]
    assert kept == [Path("08_x/x.ipynb")]
    assert (work / "08_x" / "x.ipynb").read_text() == "my answer"


def test_hidden_files_stay_behind(tmp_path):
    exercises, work = tmp_path / "exercises", tmp_path / "work"
    for name in [".ipynb_checkpoints/x.ipynb", "__pycache__/x.pyc", ".DS_Store"]:
        (exercises / name).parent.mkdir(parents=True, exist_ok=True)
        (exercises / name).write_text("")
    assert lab.copy_new(exercises, work) == ([], [])
    assert not work.exists()


def test_nothing_to_copy(tmp_path):
    assert lab.copy_new(tmp_path / "none", tmp_path / "work") == ([], [])


def test_jupyterlab_serves_the_book_where_it_is_built(tmp_path):
    without = lab.lab(tmp_path)
    assert without[1:] == ["-m", "jupyterlab", str(tmp_path / "work")]
    (tmp_path / "_build" / "html").mkdir(parents=True)
    assert lab.lab(tmp_path) == without  # a build that failed has no index
    (tmp_path / "_build" / "html" / "index.html").touch()
    served = f"--ServerApp.extra_static_paths={tmp_path / '_build/html'}"
    assert lab.lab(tmp_path) == [*without, served]


def test_only_copy_opens_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    monkeypatch.setattr(lab.subprocess, "run", None)
    (tmp_path / "exercises" / "08_x").mkdir(parents=True)
    (tmp_path / "exercises" / "08_x" / "x.ipynb").write_text("release")
    assert lab.main(["--only-copy"]) == 0
    assert capsys.readouterr().out == "copied  work/08_x/x.ipynb\n"


def test_a_book_that_is_not_built_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    given = {}

    def run(command, **options):
        given.update(options)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(lab.subprocess, "run", run)
    assert lab.main([]) == 0
    first = given["env"]["PATH"].split(os.pathsep)[0]  # for terminals in JupyterLab
    assert first == str(Path(sys.executable).parent)
    assert "Build it: make book" in capsys.readouterr().out
