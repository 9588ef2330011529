"""A pytest plugin: what passed here, and of which nothing has changed since, is not run again.

Tests are stamped in groups: those of one assignment in one folder, those of the site, else those
of one file; slow tests are groups of their own. A stamp is a hash of all that the group's outcome
can depend on: the test file and the helpers in tests/, every module that these import, the data
files that the modules name, and the files and folders of the repository that the test names. It
is written when every test of the group that was collected has passed, and kept in pytest's own
cache. ATTENTIVELY_STAMPS=0 runs everything.
"""

import ast
import functools
import importlib.util
import json
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from side_by_side import assignment_of

VARIABLE = "ATTENTIVELY_STAMPS"
REASON = f"unchanged since it passed ({VARIABLE}=0 runs it)"
ALWAYS = {"tests/test_project.py", "tests/test_told_commands.py"}
"""Test files that read the whole repository."""
EVERY_GROUP = ["constraints.txt", "nbgrader_config.py", "pyproject.toml"]
CONFTESTS = ["tests/conftest.py", "tests/exercises/conftest.py", "tests/shape_checks.py"]
SITE = "tests/site"
BY_ASSIGNMENT = ("tests/exercises", "tests/notebooks")
COURSES = ("solutions", "exercises")
MADE = (".git", ".venv", "_build", "..")
"""Folders that commands create, and the step out of the repository."""
GRADER = "src/attentively_grader"
LOADERS = {"assignments.py"}
"""Helpers that load what belongs to an assignment by a name that is computed."""
PATIENCE = 120
"""Seconds that a worker waits for the hashes; then it computes them itself."""
WHOLE_PACKAGE = re.compile(r"\battentively\w*\.__file__|pkgutil|find_spec")
OTHER_PACKAGE = re.compile(r"(import|from|-m\W+)\s*attentively\b(?!_)")
"""Where the grader's tests use it, all of src counts for those that start programs."""


def group_of(nodeid, slow=False):
    """Return the name of the group that a test belongs to; nothing for one that always runs."""
    path, _, test = nodeid.partition("::")
    folder = path.rpartition("/")[0]
    name = path
    if path in ALWAYS:
        return None
    if folder == SITE:
        name = folder
    elif folder in BY_ASSIGNMENT and (found := assignment_of(test)):
        name = f"{folder}/{found}"
    return f"{name} slow" if slow else name


# What a group depends on


@functools.cache
def build_book():
    """Return tools/build_book.py, which tells what code needs; imported when it is first used."""
    place = Path(__file__).resolve().parents[1] / "tools" / "build_book.py"
    spec = importlib.util.spec_from_file_location("build_book", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fingerprint(root, group, files):
    """Return a hash of all that the tests of a group can depend on; `files` are what holds them."""
    book = build_book()
    common = [*files, Path(book.__file__), Path(__file__)]
    common += [path for each in EVERY_GROUP + CONFTESTS for path in book.files_of(root / each)]
    group = group.removesuffix(" slow")
    folder, _, name = group.rpartition("/")
    if group == SITE:
        needed = [*helpers(root / "tests", files), *book.files_of(root / GRADER)]
        return book.fingerprint(
            root, sorted({*common, *needed}), json.dumps(book.fingerprints(root))
        )
    if folder in BY_ASSIGNMENT and not name.startswith("test_"):
        needed = needed_by_assignment(root, folder, name, files)
    else:
        needed = needed_by_file(root, folder, files)
    return book.fingerprint(root, sorted({*common, *needed}))


def needed_by_assignment(root, folder, name, files):
    """Return what the tests of one assignment need: its notebooks, its bank and its checks."""
    book, tests = build_book(), root / "tests"
    topic = name.partition("_")[2]
    code = [f"import attentively.checks.{topic}"]
    needed = []
    for course in COURSES:
        needed += book.files_of(root / course / name)
        code += map(code_of, (root / course / name).glob("*.ipynb"))
        code += texts((root / course / name).glob("*.py"))  # questions and answers
    needed += book.files_of(root / "src" / "attentively" / "checks" / topic)  # recordings too
    shared = helpers(tests, files)
    # Its tests read its own checks, whatever helper loads them by a computed name.
    read = {path for path in shared if path.name not in LOADERS}
    named = reached(root, [*code, *texts({*files} | read)], left_out=COURSES)
    return [*needed, *shared, *named, *of_the_folder(root, folder)]


def needed_by_file(root, folder, files):
    """Return what the tests of one file need."""
    shared = helpers(root / "tests", files)
    named = reached(root, texts({*files} | shared), alone=folder.startswith("tests/grader"))
    return [*shared, *named, *of_the_folder(root, folder)]


def of_the_folder(root, folder):
    """Return what all tests of a folder need."""
    needed = {"tests/notebooks": GRADER, "tests/experiments": "book/results"}.get(folder)
    return build_book().files_of(root / needed) if needed else []


def texts(files):
    return [path.read_text(encoding="utf-8") for path in sorted(files)]


def reached(root, waiting, left_out=(), alone=False):
    """Return the files that code names, and the modules and data that it imports, at any remove.

    Where the imports are unknown, all of src counts; `alone`: only the grader, if it alone is used.
    """
    book = build_book()
    src, tests = root / "src", root / "tests"
    code, named = [], set()
    while waiting:
        if (text := waiting.pop()) in code:
            continue
        code.append(text)
        for path in {*named_paths(root, text)} - named:
            if path.relative_to(root).parts[0] in left_out:
                continue
            named.add(path)
            waiting += texts(
                file
                for file in book.files_of(path)
                if file.suffix == ".py" and not {src, tests} & {*file.parents}
            )
    found = [file for path in named for file in book.files_of(path)]
    try:
        if any(map(WHOLE_PACKAGE.search, code)):
            raise LookupError("the package is read as files")
        needed = {}
        for text in code:
            needed |= book.modules(src, text)
        return [*found, *needed, *book.data_files(src, [*code, *needed.values()])]
    except (SyntaxError, LookupError):
        grader = alone and not any(map(OTHER_PACKAGE.search, code))
        return [*found, *book.files_of(root / GRADER if grader else src)]


def named_paths(root, code):
    """Yield the files and folders of the repository that code names, as in ROOT / "a" / "b.py"."""
    for names in _written_paths(code):
        place = root
        for name in names:
            if "\0" in name or name in MADE or not (place / name).exists():
                break
            place /= name
        if place != root:
            yield place


@functools.cache
def _written_paths(code):
    """Return the components of each path that code writes, as in ROOT / "a" / "b.py".

    The path must start at a constant or at `__file__`, because a test's own temporary folders do
    not count. If a later component is computed, the components before it count.
    """
    found, inside = set(), set()
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except SyntaxError:
        return found
    for node in nodes:
        parts = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts, node = node.args[:1], node.func.value  # ROOT.glob("a/*.py")
        elif node in inside:
            continue
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            inside.add(node)
            parts[:0] = [node.right]
            node = node.left
        if parts and any(map(_is_of_the_repository, ast.walk(node))):
            names = "/".join(map(_written, parts)).split("/")
            found.add(tuple(name for name in names if name))
    return found


def _is_of_the_repository(node):
    return isinstance(node, ast.Name) and (node.id.isupper() or node.id == "__file__")


def _written(node):
    """Return the literal start of a string; a null character stands for a computed rest."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _written(node.values[0]) + "\0"
    known = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if known and "\n" not in node.value else "\0"


def helpers(tests, files):
    """Return the files of tests/ that these import, at any remove; a name may be in any folder."""
    found, waiting = set(), [*files]
    while waiting:
        path = waiting.pop()
        for name in build_book().imported(path.read_text(encoding="utf-8")):
            for place in (tests, tests / "exercises", path.parent):
                for length in range(1, name.count(".") + 2):
                    file = place.joinpath(*name.split(".")[:length]).with_suffix(".py")
                    if file.is_file() and file not in found and file not in files:
                        found.add(file)
                        waiting.append(file)
    return found


def code_of(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


# The plugin


class Stamps:
    """Skips the tests that a stamp covers, and writes stamps of groups that passed."""

    def __init__(self, config, fingerprint=fingerprint):
        self.config = config
        self.root = config.rootpath
        self.fingerprint = fingerprint
        self.of = {}
        """What is known of each test: its group, and whether a stamp covers it."""
        self.shared = None
        """The folder in which workers share the hashes."""
        self.good, self.bad, self.tried = {}, set(), set()

    def kept(self, group):
        """Return the stamp of a group: its hash, and the tests that it covers."""
        return self.config.cache.get(f"stamps/{group}", {"hash": "", "tests": []})

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """Tell a worker where the workers share the hashes, which one of them computes."""
        if self.shared is None:
            self.shared = tempfile.TemporaryDirectory(prefix="stamps-")
        node.workerinput["stamps"] = self.shared.name

    def once(self, compute):
        """Return what `compute` returns; of several workers the first computes it for all."""
        worker = getattr(self.config, "workerinput", {})
        if "stamps" not in worker:
            return compute()
        result = Path(worker["stamps"]) / "hashes.json"
        try:
            (result.parent / "computing").mkdir()
        except FileExistsError:
            until = time.monotonic() + PATIENCE
            while not result.exists() and time.monotonic() < until:
                time.sleep(0.1)
            return json.loads(result.read_text()) if result.exists() else compute()
        found = compute()
        part = result.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(result)
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        """Note the groups before tests are left out by name or marker; skip what is covered."""
        group = {
            each: group_of(each.nodeid, bool(each.get_closest_marker("slow"))) for each in items
        }
        sizes = Counter(group.values())
        files = {
            name: sorted({each.path for each in items if group[each] == name})
            for name in {*group.values()} - {None}
        }
        yield
        names = sorted({group[each] for each in items} - {None})
        hashes = self.once(
            lambda: {name: self.fingerprint(self.root, name, files[name]) for name in names}
        )
        stamps = {
            name: {
                "group": name,
                "hash": hashes[name],
                "size": sizes[name],
                "files": [str(path) for path in files[name]],
            }
            for name in names
        }
        skips = os.environ.get(VARIABLE) != "0"
        for each in items:
            if (stamp := stamps.get(group[each])) is None:
                continue
            kept = self.kept(stamp["group"])
            covered = skips and kept["hash"] == stamp["hash"] and each.nodeid in kept["tests"]
            self.of[each.nodeid] = {**stamp, "covered": covered}
            if covered:
                each.add_marker(pytest.mark.skip(reason=REASON))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        """Let the report tell of the group: another process may write the stamp."""
        report = yield
        report.stamp = self.of.get(item.nodeid)
        return report

    def pytest_runtest_logreport(self, report):
        """Take note of what passed."""
        if not (stamp := getattr(report, "stamp", None)):
            return
        group = stamp["group"]
        if report.failed:
            self.bad.add(group)
        elif report.skipped and not stamp["covered"]:
            self.tried.add(report.nodeid)
        elif report.when == "teardown":
            _, passed = self.good.setdefault(group, (stamp, set()))
            passed.add(report.nodeid)

    def pytest_sessionfinish(self):
        """Write the stamps of the groups of which each test has passed, now or before."""
        if hasattr(self.config, "workerinput"):  # the process that started this one writes them
            return
        for group, (stamp, passed) in self.good.items():
            files = [Path(path) for path in stamp["files"]]
            if (
                group in self.bad
                or len(passed) < stamp["size"]
                # What was edited meanwhile may have been seen by some tests only.
                or self.fingerprint(self.root, group, files) != stamp["hash"]
            ):
                continue
            kept = self.kept(group)
            before = kept["tests"] if kept["hash"] == stamp["hash"] else []
            tests = sorted({*before, *passed} - self.tried)  # what could not run is tried again
            self.config.cache.set(f"stamps/{group}", {"hash": stamp["hash"], "tests": tests})
