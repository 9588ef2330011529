"""The book and students import modules by short names; each gives the module itself."""

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attentively
from attentively import SHORT_NAMES

PACKAGE = Path(attentively.__file__).parent
FOLDERS = ["coursework", "layers", "training", "word_vectors"]


@pytest.mark.parametrize("short", SHORT_NAMES)
def test_a_short_name_gives_the_module_itself(short):
    module = importlib.import_module(f"attentively.{short}")
    assert module is importlib.import_module(f"attentively.{SHORT_NAMES[short]}")
    assert module is getattr(attentively, short)
    assert module.__name__ == module.__spec__.name == f"attentively.{SHORT_NAMES[short]}"
    assert Path(module.__file__).is_relative_to(PACKAGE)


def test_no_short_name_hides_a_module():
    there = {path.stem for path in PACKAGE.iterdir()}
    assert not there & {*SHORT_NAMES}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_exports_the_names_of_the_module_that_it_was(folder):
    module = importlib.import_module(f"attentively.{folder}")
    text = (PACKAGE / folder / "__init__.py").read_text(encoding="utf-8")
    names = [
        name
        for name in re.findall(r'"(\w+)"', text)
        if not (PACKAGE / folder / f"{name}.py").exists()
    ]
    assert len(names) >= 5
    for name in names:
        assert getattr(module, name).__module__.startswith(
            (f"attentively.{folder}.", "typing", "builtins")
        )
    with pytest.raises(
        AttributeError, match=f"module 'attentively.{folder}' has no attribute 'no'"
    ):
        module.no  # noqa: B018


def test_an_unknown_name_is_no_module():
    with pytest.raises(ModuleNotFoundError, match=r"attentively\.nothing"):
        importlib.import_module("attentively.nothing")


def test_short_names_import_only_what_they_stand_for():
    """`import attentively` takes no time: PyTorch is imported when a module needs it."""
    program = "import sys, attentively; print('torch' in sys.modules)"
    program += "; import attentively.masks; print('attentively.models.seq2seq' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


@pytest.mark.parametrize("folder", ["solutions", "book"])
def test_what_pages_and_notebooks_import_is_there(folder):
    """Every module that a notebook or a page names is one of the package, by one of its names."""
    root = PACKAGE.parents[1]
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((root / folder).rglob("*.*"))
        if path.suffix in (".md", ".ipynb")
    ]
    named = {m for text in texts for m in re.findall(r"from (attentively(?:\.\w+)*) import", text)}
    named |= {
        f"attentively.{name.strip()}"
        for text in texts
        for names in re.findall(r"from attentively import ([a-z_, ]+)", text)
        for name in names.split(",")
    }
    assert len(named) > 20
    missing = [name for name in sorted(named) if importlib.util.find_spec(name) is None]
    assert missing == []
