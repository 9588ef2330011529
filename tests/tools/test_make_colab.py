"""The notebooks for Colab: two more cells, which do nothing elsewhere, and the same points."""

import re
import subprocess
import sys
import types
from pathlib import Path

import addresses
import make_colab
import nbformat
import pytest
from notebook_tools import ROOT

from attentively_grader.course import notebooks

NAME = "08_additive_attention"


@pytest.fixture
def project(tmp_path):
    """Return a function that makes a project with one exercise, one chapter and an address."""

    def make(address):
        exercise = Path("exercises", NAME, f"{NAME}.ipynb")
        (tmp_path / exercise).parent.mkdir(parents=True)
        (tmp_path / exercise).symlink_to(ROOT / exercise)
        book = tmp_path / "_build" / "html" / "_sources" / "book"
        book.mkdir(parents=True)
        chapter = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
        nbformat.write(chapter, book / f"{NAME}.ipynb")
        (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
        config = f'repository:\n  url: "{address}"\nhtml:\n  baseurl: ""\n'
        (tmp_path / "_config.yml").write_text(config)
        return tmp_path

    return make


def test_an_exercise_has_two_more_cells_and_is_otherwise_the_release(project):
    written = make_colab.write(project("https://github.com/ada/attentively/"))
    assert [path.parent.name for path in written] == ["exercises", "book"]
    exercise = notebooks.read(written[0])
    original = notebooks.read(ROOT / "exercises" / NAME / f"{NAME}.ipynb")
    assert [cell.source for cell in exercise.cells[1:-1]] == [c.source for c in original.cells]
    assert [cell.metadata for cell in exercise.cells[1:-1]] == [c.metadata for c in original.cells]
    assert "nbgrader" not in exercise.cells[0].metadata
    assert f'colab.hand_in("{NAME}"' in exercise.cells[-1].source
    chapter = notebooks.read(written[1])
    assert [cell.source for cell in chapter.cells[1:]] == ["1 + 1"]


def test_the_wheel_is_that_of_the_release(project, wheel):
    exercise = notebooks.read(make_colab.write(project("https://github.com/ada/attentively"))[0])
    [address] = re.findall(r'"(https://[^"]+\.whl)"', exercise.cells[0].source)
    assert address.startswith("https://github.com/ada/attentively/releases/download/v")
    assert address.endswith(f"/{wheel.name}")  # the file that the build writes


def test_without_an_address_there_are_none(project, capsys):
    root = project("")
    assert make_colab.main(root) == 0
    assert not (root / "_build" / "colab").exists()
    assert "set repository.url" in capsys.readouterr().out


def test_the_project_has_the_settings():
    assert isinstance(addresses.repository(ROOT), str)
    assert isinstance(addresses.book(ROOT), str)


def test_the_cells_do_nothing_elsewhere_and_install_in_colab(monkeypatch):
    calls = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: calls.append(command))
    install = make_colab.INSTALL.format(wheel="https://x.org/a.whl")
    exec(install, {})
    exec(make_colab.HAND_IN.format(name=NAME), {})
    assert calls == []
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    exec(install, {})
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "https://x.org/a.whl"]
    assert calls == [pip]
