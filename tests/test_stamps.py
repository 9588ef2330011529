"""What passed here and has not changed is skipped, and nothing else is."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from assignments import ASSIGNMENTS
from stamps import REASON, VARIABLE, build_book, fingerprints, group_of

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ANSWERS = "tests/exercises/test_answers.py"
GROUP = f"{ANSWERS} 08_new"


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        (f"{ANSWERS}::test_right[08_new-energies]", GROUP),
        (f"{ANSWERS}::test_part[True-08_new]", GROUP),
        (f"{ANSWERS}::test_bank", ANSWERS),
        ("tests/notebooks/test_all.py::test_it[08_new-one]", "tests/notebooks/test_all.py 08_new"),
        ("tests/experiments/test_recall.py::test_it[3]", "tests/experiments/test_recall.py"),
        ("tests/site/test_site.py::test_pages", "tests/site"),
        ("tests/site/test_exercise_map.py::test_links[dark]", "tests/site"),
        ("tests/site/test_widgets.py::test_keys[beam]", "tests/site/test_widgets.py"),
        ("tests/test_masks.py::test_it[08_new]", "tests/test_masks.py"),
        ("tests/grader/test_run.py::test_it", "tests/grader/test_run.py"),
        ("tests/test_project.py::test_it", None),
    ],
)
def test_groups(nodeid, group):
    assert group_of(nodeid) == group
    assert group_of(nodeid, slow=True) == (group and f"{group} slow")


# What a stamp depends on

FILES = {
    "constraints.txt": "torch==2",
    "nbgrader_config.py": "c = get_config()",
    "pyproject.toml": "[project]",
    "book/results/small.json": "{}",
    "src/attentively/__init__.py": "EXPORTS = {'asked': ('Model',)}\n",
    "src/attentively/checks/__init__.py": "",
    "src/attentively/checks/new.py": "from attentively import deep\nload_pretrained('toy')\n",
    "src/attentively/checks/other.py": "",
    "src/attentively/deep.py": "def value():\n    from attentively import deeper\n",
    "src/attentively/deeper.py": "",
    "src/attentively/shown.py": "",
    "src/attentively/asked.py": "",
    "src/attentively/unasked.py": "",
    "src/attentively/experiment.py": "",
    "src/attentively/pretrained/toy.safetensors": "numbers",
    "src/attentively/pretrained/other.safetensors": "numbers",
    "src/attentively_grader/grade.py": "",
    "solutions/08_new/08_new.ipynb": json.dumps(
        {"cells": [{"cell_type": "code", "source": ["from attentively import ", "shown\n"]}]}
    ),
    "solutions/09_other/09_other.ipynb": '{"cells": []}',
    "solutions/08_new/questions.py": "import attentively.asked\n",
    "solutions/09_other/questions.py": "import attentively.unasked\n",
    "exercises/08_new/08_new.ipynb": '{"cells": []}',
    "tests/conftest.py": "",
    "tests/exercises/conftest.py": "",
    "tests/site/conftest.py": "",
    "tests/assignments.py": "import importlib\nimportlib.import_module(name)\n",
    "tests/exercises/sources.py": "",
    "tests/exercises/unused.py": "",
    "tests/exercises/test_answers.py": "import assignments, sources\n",
    "tests/exercises/test_other.py": "",
    "tests/experiments/test_experiment.py": "import attentively.experiment\n",
    "book/page.md": "# A page\n",
    "tests/site/test_site.py": "",
}


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def tree(tmp_path):
    for path, text in FILES.items():
        write(tmp_path, path, text)
    return tmp_path


def fingerprint(root, group, files):
    return fingerprints(root, {group: files})[group]


def changes(root, group, file):
    """Return the files whose change alone changes the stamp of a group."""
    files = [root / file]
    before = fingerprint(root, group, files)
    found = set()
    for path, text in FILES.items():
        write(root, path, text + " ")
        if fingerprint(root, group, files) != before:
            found.add(path)
        write(root, path, text)
    assert fingerprint(root, group, files) == before
    return found


EVERY_GROUP = {"constraints.txt", "nbgrader_config.py", "pyproject.toml", "tests/conftest.py"}


ONE = "import assignments, sources\nASSIGNMENT = assignments.Assignment('08_new')\n"


@pytest.mark.parametrize(
    ("file", "code", "group"),
    [
        (ANSWERS, "import assignments, sources\nASSIGNMENTS\n", GROUP),
        ("tests/notebooks/test_all.py", "import assignments, sources\n", "{} 08_new"),
        ("tests/exercises/test_new.py", ONE, "{}"),
    ],
)
def test_an_assignment_depends_on_all_that_it_imports_names_and_shares(
    tree, monkeypatch, file, code, group
):
    """Another assignment, its questions and checks, and checkpoints of other names do not count."""
    monkeypatch.setitem(FILES, file, code)
    write(tree, file, code)
    found = changes(tree, group.format(file), file)
    folder = {
        "notebooks": {"src/attentively_grader/grade.py"},
        "exercises": {"tests/exercises/conftest.py"},
    }[Path(file).parent.name]
    assert found == EVERY_GROUP | folder | {
        file,
        "tests/assignments.py",
        "tests/exercises/sources.py",
        "src/attentively/__init__.py",
        "src/attentively/checks/__init__.py",
        "src/attentively/checks/new.py",
        "src/attentively/deep.py",
        "src/attentively/deeper.py",
        "src/attentively/shown.py",
        "src/attentively/asked.py",
        "src/attentively/pretrained/toy.safetensors",
        "solutions/08_new/08_new.ipynb",
        "solutions/08_new/questions.py",
        "exercises/08_new/08_new.ipynb",
    }


def test_a_file_that_loads_all_assignments_depends_on_all_of_src(tree, monkeypatch):
    code = "from assignments import ASSIGNMENTS, Assignment\nAssignment('08_new')\n"
    monkeypatch.setitem(FILES, ANSWERS, code)
    write(tree, ANSWERS, code)
    assert changes(tree, ANSWERS, ANSWERS) >= {each for each in FILES if each.startswith("src")}


def test_where_imports_are_computed_all_of_src_counts(tree):
    write(tree, "src/attentively/deeper.py", "import importlib\nimportlib.import_module(name)\n")
    files = [tree / ANSWERS]
    before = fingerprint(tree, GROUP, files)
    write(tree, "src/attentively/checks/other.py", "changed = 1\n")
    assert fingerprint(tree, GROUP, files) != before


def test_an_experiment_depends_on_what_its_test_imports_and_on_the_results(tree):
    file = "tests/experiments/test_experiment.py"
    assert changes(tree, file, file) == EVERY_GROUP | {
        file,
        "book/results/small.json",
        "src/attentively/__init__.py",
        "src/attentively/experiment.py",
    }


def test_the_site_depends_on_what_is_built(tree):
    file = "tests/site/test_site.py"
    expected = EVERY_GROUP | {file, "book/page.md", "src/attentively_grader/grade.py"}
    expected |= {"tests/site/conftest.py"}
    assert changes(tree, "tests/site", file) >= expected


MIRRORED = "tests/test_deep.py"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import attentively.deep", {"src/attentively/deep.py", "src/attentively/deeper.py"}),
        ("import own_helper", {"tests/own_helper.py", "src/attentively/shown.py"}),
        (
            "import attentively.shown\nTEXT = (ROOT / 'book' / 'results' / name).read_text()",
            {"src/attentively/shown.py", "book/results/small.json"},
        ),
        ("import attentively.shown\nROOT.glob('book/*.md')", {"src/attentively/shown.py", "book"}),
        ("import attentively.shown\nroot / 'book' / 'page.md'", {"src/attentively/shown.py"}),
        ("import attentively.shown\nprint('book/page.md')", {"src/attentively/shown.py"}),
        (
            "run(Path(__file__).parents[1] / 'tools' / 'tool.py')",
            {"tools/tool.py", "src/attentively/deep.py", "src/attentively/deeper.py"},
        ),
        ("import subprocess", set()),
        (
            "import subprocess\nrun([sys.executable, '-c', 'from attentively import deep, shown'])",
            {"src/attentively/deep.py", "src/attentively/deeper.py", "src/attentively/shown.py"},
        ),
        (
            "import subprocess\nCODE = 'from attentively import (\\n    deep,\\n    shown,\\n)'",
            {"src/attentively/deep.py", "src/attentively/deeper.py", "src/attentively/shown.py"},
        ),
        (
            "import subprocess\nCODE = 'import attentively\\nattentively.Model()'",
            {"src/attentively/asked.py"},
        ),
        ("import subprocess\nrun([sys.executable, '-m', 'attentively'])", {"src"}),
        ("import subprocess\nrun(['attentively', 'models'])", {"src"}),
        ("import subprocess\nimport importlib\nimportlib.import_module(name)", {"src"}),
        ("import subprocess\nrun(['make', 'book'])", {"src"}),
        ("import attentively\nattentively.shown", {"src/attentively/shown.py"}),
        (
            "import attentively\nattentively.shown\nlist(attentively)",
            {"src/attentively/asked.py", "src/attentively/shown.py"},
        ),
        ("import attentively as package\npackage.Model()", {"src/attentively/asked.py"}),
        ("import attentively\nattentively.__file__", {"src"}),
    ],
)
def test_a_file_depends_on_what_it_imports_starts_and_names(tree, monkeypatch, code, found):
    for path, text in [
        (MIRRORED, code),
        ("tests/own_helper.py", "from attentively import shown\n"),
        ("tools/tool.py", "from attentively import deep\n"),
    ]:
        monkeypatch.setitem(FILES, path, text)
        write(tree, path, text)
    expected = {path for path in FILES if {path, *map(str, Path(path).parents)} & found}
    if any("attentively/" in path for path in expected):
        expected |= {"src/attentively/__init__.py"}
    assert changes(tree, MIRRORED, MIRRORED) == EVERY_GROUP | {MIRRORED} | expected


def test_the_graders_tests_depend_on_the_grader_alone_where_they_start_programs(tree):
    file = "tests/grader/test_run.py"
    started = "import subprocess\nrun([sys.executable, '-m', '{}'])\n"
    write(tree, file, started.format("attentively_grader"))
    assert changes(tree, file, file) == EVERY_GROUP | {"src/attentively_grader/grade.py"}
    write(tree, file, started.format("attentively"))
    assert changes(tree, file, file) >= EVERY_GROUP | {"src/attentively/checks/other.py"}


@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
def test_of_no_assignment_all_of_src_counts(assignment):
    """That would run its tests after every change."""
    topic = assignment.name.partition("_")[2]
    needed = build_book().modules(ROOT / "src", f"import attentively.checks.{topic}")
    for path in assignment.source.parent.glob("*.py"):
        needed |= build_book().modules(ROOT / "src", path.read_text(encoding="utf-8"))
    assert len(needed) < len([*(ROOT / "src").rglob("*.py")]) / 2


# The plugin, in a project of its own

CONFTEST = """
import sys
from pathlib import Path

sys.path.insert(0, {tests!r})
from stamps import Stamps


def content(root, groups):
    return dict.fromkeys(groups, (root / "needed.txt").read_text())


def pytest_configure(config):
    config.pluginmanager.register(Stamps(config, content), "stamps")
"""
PASSING = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("name", ["08_new", "09_other"])
def test_one(name):
    assert not Path(f"{name}.fails").exists()

@pytest.fixture
def left():
    yield
    assert not Path("teardown.fails").exists()

@pytest.mark.parametrize("name", ["08_new"])
def test_two(name, left):
    if Path("skips").exists():
        pytest.skip("no sandbox")
    if Path("edits").exists():
        Path("needed.txt").write_text("edited meanwhile")

@pytest.mark.slow
@pytest.mark.parametrize("name", ["08_new"])
def test_three(name): pass

"""
ALWAYS_RUN = "def test_no_group(): pass\n"


@pytest.fixture
def project(tmp_path):
    write(tmp_path, "pytest.ini", "[pytest]\nmarkers = slow\naddopts = -m 'not slow'\n")
    write(tmp_path, "conftest.py", CONFTEST.format(tests=str(TESTS)))
    write(tmp_path, "tests/exercises/test_all.py", PASSING)
    write(tmp_path, "tests/test_project.py", ALWAYS_RUN)
    write(tmp_path, "needed.txt", "content")

    def run(*options, stamps=None):
        """Run the tests; return the names of those that ran and of those that were covered."""
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
        for name in (VARIABLE, "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
            environment.pop(name, None)
        if stamps is not None:
            environment[VARIABLE] = stamps
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-rs", *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        said = re.findall(r"::(\S+) (?=PASSED|FAILED|ERROR|SKIPPED|UNCHANGED)(\w+)", done.stdout)
        said += [(name, how) for how, name in re.findall(r"\] (\w+) \S+::(\S+)", done.stdout)]
        covered = {name for name, how in said if how == "UNCHANGED"}
        # One line for all: a line for each would hide what failed.
        assert done.stdout.count(REASON) == bool(covered)
        assert (f"{len(covered)} tests: {REASON}" in done.stdout) == bool(covered)
        skipped = covered | {name for name, how in said if how == "SKIPPED"}
        return {name for name, _ in said} - skipped, skipped

    run.root = tmp_path
    return run


NEW = {"test_one[08_new]", "test_two[08_new]"}
OTHER = {"test_one[09_other]"}
ALWAYS = {"test_no_group"}


def test_what_passed_is_skipped_until_something_changes(project):
    assert project() == (NEW | OTHER | ALWAYS, set())
    assert project() == (ALWAYS, NEW | OTHER)
    assert project(stamps="0") == (NEW | OTHER | ALWAYS, set())
    write(project.root, "needed.txt", "other content")
    assert project() == (NEW | OTHER | ALWAYS, set())
    assert project() == (ALWAYS, NEW | OTHER)


def test_processes_side_by_side_stamp_too(project):
    side_by_side = ["-p", "xdist", "-n", "2"]
    assert project(*side_by_side) == (NEW | OTHER | ALWAYS, set())
    assert project(*side_by_side) == (ALWAYS, NEW | OTHER)
    assert project() == (ALWAYS, NEW | OTHER)


def test_slow_tests_are_a_group_of_their_own(project):
    project()
    slow = {"test_three[08_new]"}
    assert project("-m", "") == (slow | ALWAYS, NEW | OTHER)
    assert project("-m", "") == (ALWAYS, slow | NEW | OTHER)


@pytest.mark.parametrize("fault", ["08_new.fails", "teardown.fails", "skips", "edits"])
def test_a_group_with_a_fault_gets_no_stamp(project, fault):
    """A test failed, or its end; or what it needs was edited. A skipped test is tried again."""
    write(project.root, fault, "")
    project()
    (project.root / fault).unlink()
    write(project.root, "needed.txt", "content")
    ran, skipped = project()
    assert ran >= (NEW if fault != "skips" else {"test_two[08_new]"})
    stamped = {"08_new.fails": OTHER, "teardown.fails": OTHER, "edits": set()}
    assert skipped == stamped.get(fault, OTHER | {"test_one[08_new]"})


@pytest.mark.parametrize("options", [["-k", "one"], ["-x", "--deselect=x", "-k", "two"]])
def test_a_part_of_a_group_gets_no_stamp(project, options):
    project(*options)
    ran, _ = project()
    assert ran >= NEW


def test_one_test_by_its_id_stamps_no_other(project):
    project("tests/exercises/test_all.py::test_one[08_new]")
    one = {"test_one[08_new]"}
    assert project() == ((NEW | OTHER | ALWAYS) - one, one)
