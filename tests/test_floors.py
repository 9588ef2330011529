"""The import order of both packages: a folder imports only from the folders named before it.

Inside a folder, and in the grader as a whole, no module imports itself by way of others.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from attentively import SHORT_NAMES

SRC = Path(__file__).resolve().parents[1] / "src"

# In import order. What is no folder here is a module of the package's own.
FLOORS = {
    "attentively": [
        "config",
        "device",
        "atomic_files",
        "http_download",
        "pretrained_files",
        "attention",
        "tokens",
        "layers",
        "models",
        "word_vectors",
        "data",
        "training",
        "generation",
        "scoring",
        "analysis",
        "checks",
        "coursework",
        "experiments",
        "cli",
        "__main__",
    ],
    "attentively_grader": [
        "jobs",
        "wire",
        "course",
        "intake",
        "sandbox",
        "examination",
        "workforce",
        "gradebook",
        "reports",
        "coordinator",
        "collect",
        "comparison",
        "shard",
        "gradescope",
        "__main__",
    ],
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of each module, or name in a module, that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def modules(package: Path) -> dict[str, ast.AST]:
    """Return each module of a package by its full name, parsed."""
    return {
        ".".join((package.name, *file.relative_to(package).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(package.rglob("*.py"))
    }


def floor_faults(package: Path) -> list[str]:
    """Return every import of a later folder, every relative import, and every unknown folder."""
    floors = FLOORS[package.name]
    found = []
    for module, tree in modules(package).items():
        if module == package.name:
            continue
        floor = module.split(".")[1]
        if floor not in floors:
            found.append(f"{floor} has no place in the import order: add it to FLOORS")
            continue
        for name in imported(tree):
            if name.startswith("."):
                found.append(f"{module} imports {name}: write the full name")
            first, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if first != package.name or other == floor:
                continue
            if other in SHORT_NAMES and other not in floors:
                found.append(f"{module} imports {name}: write {SHORT_NAMES[other]}")
            elif other in floors and floors.index(other) > floors.index(floor):
                found.append(f"{module} imports {name}, but {other} comes after {floor}")
    return found


def cycle(package: Path) -> list[str]:
    """Return the modules of a circle of imports, or nothing; a folder's own names do not count."""
    trees = modules(package)
    graph = {
        module: {
            target
            for name in imported(tree)
            for target in (name, name.rpartition(".")[0])
            if target in trees and target != module and not _holds(trees, target, module)
        }
        for module, tree in trees.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def _holds(trees: dict[str, ast.AST], folder: str, module: str) -> bool:
    """Tell whether a name is that of the folder which a module lies in."""
    return module.startswith(f"{folder}.") and any(name.startswith(f"{folder}.") for name in trees)


@pytest.mark.parametrize("package", FLOORS)
def test_a_folder_imports_only_from_folders_before_it(package):
    assert floor_faults(SRC / package) == []


@pytest.mark.parametrize("package", FLOORS)
def test_no_modules_import_each_other_in_a_circle(package):
    assert cycle(SRC / package) == []


@pytest.mark.parametrize("package", FLOORS)
def test_the_import_order_names_what_there_is(package):
    there = {name.split(".")[1] for name in modules(SRC / package) if "." in name}
    assert there == {*FLOORS[package]}


def test_the_package_imports_nothing_by_itself():
    """`import attentively` is cheap: names are imported from where they are defined."""
    tree = ast.parse((SRC / "attentively" / "__init__.py").read_text())
    for_type_checkers = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    assert len(for_type_checkers) == 1
    tree.body.remove(for_type_checkers[0])
    names = imported(tree)
    assert not [name for name in names if name.startswith("attentively")]


def test_the_grader_knows_nothing_of_attention():
    guilty = [
        module
        for module, tree in modules(SRC / "attentively_grader").items()
        for name in imported(tree)
        if name.partition(".")[0] == "attentively"
    ]
    assert guilty == []


def test_only_the_command_line_and_coursework_know_the_grader():
    guilty = {
        module.split(".")[1]
        for module, tree in modules(SRC / "attentively").items()
        for name in imported(tree)
        if name.partition(".")[0] == "attentively_grader"
    }
    assert guilty <= {"cli", "coursework"}


def package_of(tmp_path: Path, name: str, **files: str) -> Path:
    """Write a package of files, whose names have two underscores for a slash."""
    for path, text in files.items():
        file = tmp_path / name / f"{path.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return tmp_path / name


@pytest.mark.parametrize(
    ("path", "line", "message"),
    [
        (
            "attention__masks",
            "from attentively.models.seq2seq import Seq2Seq",
            "models comes after attention",
        ),
        (
            "attention__masks",
            "def f():\n    import attentively.training.trainer",
            "training comes after attention",
        ),
        ("config", "from attentively import device", "device comes after config"),
        ("attention__masks", "from attentively.decoding import sample", "write generation.search"),
        (
            "data__toy__grammar",
            "from attentively.generation import search",
            "generation comes after data",
        ),
        ("attention__masks", "from .kernels import boxcar", "write the full name"),
        ("utils", "", "utils has no place in the import order"),
    ],
)
def test_a_broken_import_is_found(tmp_path, path, line, message):
    (fault,) = floor_faults(package_of(tmp_path, "attentively", **{path: line}))
    assert message in fault


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("models__seq2seq", "from attentively.models.interface import Memory"),
        (
            "models__seq2seq",
            "from attentively import config\nimport attentively.attention.masks",
        ),
        ("data__toy__grammar", "from attentively.data.toy import lexicon"),
        ("attention__masks", "import attentively"),
        ("attention__masks", "import torch.masks"),
    ],
)
def test_a_good_import_is_accepted(tmp_path, path, line):
    assert floor_faults(package_of(tmp_path, "attentively", **{path: line})) == []


@pytest.mark.parametrize(
    "second",
    [
        "from attentively_grader.wire.first import One",
        "from attentively_grader.wire import first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from attentively_grader.wire.first import One",
        "def f():\n    import attentively_grader.wire.first",
    ],
)
def test_a_circle_inside_a_folder_is_found(tmp_path, second):
    first = "from attentively_grader.wire.second import Two"
    package = package_of(
        tmp_path, "attentively_grader", wire____init__="", wire__first=first, wire__second=second
    )
    assert {name.rpartition(".")[2] for name in cycle(package)} == {"first", "second"}
    (package / "wire" / "second.py").write_text("")
    assert cycle(package) == []
