"""The API pages name every module, folder by folder."""

import importlib.util
import re
from pathlib import Path

import typer
from docutils import nodes
from docutils.core import publish_doctree
from test_floors import FLOORS, SRC

from attentively.cli import app

PAGE = Path(__file__).resolve().parents[2] / "book" / "api.md"
# The command line explains itself; so do single experiments, and the checks of an assignment.
ELSEWHERE = {"__main__", "cli"}
SHARED = {"checks", "experiments"}


spec = importlib.util.spec_from_file_location("api", PAGE.parent / "_ext" / "api.py")
api = importlib.util.module_from_spec(spec)
spec.loader.exec_module(api)


def folders():
    """Return the text on each folder of the package by its name, in the order of the pages.

    A folder is a page that the API page links, or a section of the API page.
    """
    head, *sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)
    linked = re.findall(r"\(api/(\w+)\.md\)", head)
    first, *last = (section.partition("\n")[::2] for section in sections)
    return dict(
        [
            first,
            *((name, PAGE.with_suffix("").joinpath(f"{name}.md").read_text()) for name in linked),
            *last,
        ]
    )


def listed():
    return re.findall(r"automodule:: attentively\.([\w.]+)", "\n".join(folders().values()))


def test_every_module_is_listed_once():
    modules = {
        path.relative_to(SRC / "attentively").with_suffix("").as_posix().replace("/", ".")
        for path in (SRC / "attentively").rglob("*.py")
    }
    wanted = {name.removesuffix(".__init__") for name in modules if name != "__init__"}
    packages = {name.removesuffix(".__init__") for name in modules if name.endswith(".__init__")}
    inside = {name for name in wanted if name.startswith("data.toy.")}
    inside |= {name for name in wanted if name.split(".")[0] in {*SHARED, *ELSEWHERE}}
    assert sorted(listed()) == sorted((wanted - inside - packages) | SHARED | {"data.toy"})


def test_each_folder_says_what_it_is_for():
    """Words stand between a folder's heading and its first module."""
    there = {
        path.name for path in (SRC / "attentively").iterdir() if (path / "__init__.py").exists()
    }
    assert set(folders()) == {"The package itself", *there}
    assert {path.stem for path in PAGE.with_suffix("").iterdir()} <= there
    for name, text in folders().items():
        said = re.sub(r"\A---.*?^# API: \w+$", "", text, flags=re.M | re.S).partition("\n##")[0]
        assert len(said.split()) > 8, name


def test_every_command_is_named():
    last = folders()["cli"].partition("`: `")
    named = {"data", *re.findall(r"`([a-z]+)`", f"`{last[2]}")}
    assert named == {*typer.main.get_command(app).commands}


def test_the_folders_come_in_import_order():
    floors = [FLOORS["attentively"].index(name.split(".")[0]) for name in listed()]
    assert floors == sorted(floors)


TEXT = """
Package
=======
First folder
------------
For both. Nothing else.

one
~~~
The first module: it
counts. It does more.

.. _module-one:

Its members.

two
~~~
The second.

.. _module-two:

Its members.

Other words
-----------
No module here.

three
~~~~~
Nor here.
"""


def test_each_folder_lists_its_modules_with_their_first_sentence():
    doctree = publish_doctree(TEXT, settings_overrides={"report_level": 5})
    api.add_overviews(None, doctree)
    [found] = doctree.findall(nodes.bullet_list)
    said = [item.astext() for item in found]
    assert said == ["one · The first module: it counts", "two · The second"]
    assert [link["refid"] for link in found.findall(nodes.reference)] == ["one", "two"]
    assert isinstance(found.parent[found.parent.index(found) + 1], nodes.section)
