"""A pytest plugin: what passed here, and of which nothing has changed since, is not run again.

Tests are stamped in groups: those of the site, else those of one file, or those of one assignment
in one file; slow tests are groups of their own. A stamp is a hash of all that the group's outcome
can depend on: the test file and the helpers in tests/, every module that these import, the data
files that the modules name, and the files and folders of the repository that the test names. It
is written when every test of the group that was collected has passed, and kept in pytest's own
cache. ATTENTIVELY_STAMPS=0 runs everything.

The hashes are computed before the first test. Where there are no stamps yet, they are computed at
the end, and none is written if a file of the repository was edited during the run.
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
from side_by_side import OWN_PAGES, assignment_of

VARIABLE = "ATTENTIVELY_STAMPS"
REASON = f"unchanged since it passed ({VARIABLE}=0 runs it)"
ALWAYS = {"tests/test_project.py", "tests/test_told_commands.py"}
"""Test files that read the whole repository."""
EVERY_GROUP = ["constraints.txt", "nbgrader_config.py", "pyproject.toml"]
CONFTESTS = ["tests/conftest.py", "tests/shape_checks.py"]
SITE = "tests/site"
BY_ASSIGNMENT = ("tests/exercises", "tests/notebooks")
COURSES = ("solutions", "exercises")
MADE = (".git", ".venv", "_build", "..")
"""Folders that commands create, and the step out of the repository."""
GRADER = "src/attentively_grader"
LOADER = "assignments.py"
"""The helper that loads what belongs to an assignment by a name that is computed."""
ONE_ASSIGNMENT = re.compile(r"\b\d\d_[a-z]\w*")
ALL_ASSIGNMENTS = re.compile(r"\bASSIGNMENTS\b")
STAMPED = "stamped"
"""The entry of the cache that says that there are stamps."""
PATIENCE = 120
"""Seconds that a worker waits for the hashes; then it computes them itself."""
WHOLE_PACKAGE = re.compile(r"\battentively\w*\.__(file|path)__|pkgutil|find_spec\(\W*attentively")
OTHER_PACKAGE = re.compile(r"(import|from|-m\W+)\s*attentively\b(?!_)")
"""Where the grader's tests use it, all of src counts for those that start programs."""
IMPORT = re.compile(r"(?:from|import) +(attentively[\w.]*)(?: +import +(\([^)]*|[\w, ]+))?")
OWN_PROGRAM = re.compile(r"-m\W+attentively|[\"']attentively\b[^/._\"']*[\"']|[\"']make[\"' ]")
"""A program that can import all of src; of others, the text of a test holds the imports."""


def group_of(nodeid, slow=False):
    """Return the name of the group that a test belongs to; nothing for one that always runs."""
    path, _, test = nodeid.partition("::")
    folder = path.rpartition("/")[0]
    name = path
    if path in ALWAYS:
        return None
    if folder == SITE and not OWN_PAGES.match(path):
        name = folder
    elif folder in BY_ASSIGNMENT and (found := assignment_of(test)):
        name = f"{path} {found}"
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


def fingerprints(root, groups):
    """Return the fingerprint of each group; `groups` maps their names to the files of tests."""
    build_book().look_again()
    return {group: fingerprint(root, group, files) for group, files in groups.items()}


def fingerprint(root, group, files):
    """Return a hash of all that the tests of a group can depend on; `files` are what holds them."""
    book = build_book()
    common = [*files, Path(book.__file__), Path(__file__)]
    common += [path for each in EVERY_GROUP + CONFTESTS for path in book.files_of(root / each)]
    path, _, assignment = group.removesuffix(" slow").partition(" ")
    if path == SITE:
        fixtures = of_the_folder(root, SITE)
        needed = [*fixtures, *helpers(root / "tests", [*files, *fixtures])]
        needed += book.files_of(root / GRADER)
        return book.fingerprint(root, [*common, *needed], json.dumps(book.fingerprints(root)))
    folder = path.rpartition("/")[0]
    return book.fingerprint(root, [*common, *needed_by(root, folder, files, assignment)])


def needed_by(root, folder, files, assignment):
    """Return what the tests of a file need, or those of one assignment in it."""
    shared = helpers(root / "tests", files)
    read, topics = {*files} | shared, []
    if loader := {path for path in shared if path.name == LOADER}:
        text = "".join(texts(files))
        topics = [assignment] if assignment else ONE_ASSIGNMENT.findall(text)
        # Its tests read the checks of known assignments, whatever helper loads them.
        if assignment or not ALL_ASSIGNMENTS.search(text):
            read -= loader
    code, needed = [], []
    for name in topics:
        of_it, its_code = of_the_assignment(root, name)
        needed += of_it
        code += its_code
    alone = folder.startswith("tests/grader")
    left_out = COURSES if assignment else ()
    named = reached(root, [*code, *texts(read)], left_out=left_out, alone=alone)
    return [*needed, *shared, *named, *of_the_folder(root, folder)]


def of_the_assignment(root, name):
    """Return the files of an assignment, and its code: its notebooks, its bank and its checks."""
    book, topic = build_book(), name.partition("_")[2]
    files = book.files_of(root / "src" / "attentively" / "checks" / topic)  # recordings too
    code = [f"import attentively.checks.{topic}"]
    for course in COURSES:
        files = [*files, *book.files_of(root / course / name)]
        code += map(code_of, (root / course / name).glob("*.ipynb"))
        code += texts((root / course / name).glob("*.py"))  # questions and answers
    return files, code


def of_the_folder(root, folder):
    """Return what all tests of a folder need."""
    needed = {"tests/notebooks": GRADER, "tests/experiments": "book/results"}.get(folder)
    fixtures = build_book().files_of(root / folder / "conftest.py")
    return [*fixtures, *build_book().files_of(root / needed)] if needed else fixtures


def texts(files):
    return [*map(build_book().text_of, sorted(files))]


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
            needed |= book.modules(src, started(text) if book.PROGRAMS.search(text) else text)
        return [*found, *needed, *book.data_files(src, [*code, *needed.values()])]
    except (SyntaxError, LookupError):
        grader = alone and not any(map(OTHER_PACKAGE.search, code))
        return [*found, *book.files_of(root / GRADER if grader else src)]


def started(code):
    """Return the imports of code and of the programs in its strings, where these are known."""
    book = build_book()
    if any(each.search(code) for each in (OWN_PROGRAM, book.COMPUTED, book.BY_NAME)):
        return code
    nodes = ast.walk(ast.parse(code))
    strings = [node.value for node in nodes if isinstance(node, ast.Constant)]
    found = [*book.imported(code)]
    for text in filter(lambda each: isinstance(each, str), strings):
        for module, names in IMPORT.findall(text):
            found += [f"{module}.{name}" for name in re.findall(r"\w+", names)] or [module]
    lines = [f"import {name}" for name in found if name.startswith("attentively")]
    # Which of the package's names are read is not known here, so any may be.
    return "\n".join([*lines, *["attentively"] * ("attentively" in found)])


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
        new = _helpers_of(tests, waiting.pop()) - found - {*files}
        found |= new
        waiting += new
    return found


@build_book().looked_up
def _helpers_of(tests, path):
    names = [each.split(".") for each in build_book().imported(build_book().text_of(path))]
    paths = {Path(*name[:length]) for name in names for length in range(1, len(name) + 1)}
    folders = (tests, tests / "exercises", path.parent)
    files = {(folder / each).with_suffix(".py") for folder in folders for each in paths}
    return {*filter(Path.is_file, files)}


def code_of(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


# The plugin


class Stamps:
    """Skips the tests that a stamp covers, and writes stamps of groups that passed."""

    def __init__(self, config, fingerprints=fingerprints):
        self.config = config
        self.root = config.rootpath
        self.fingerprints = fingerprints
        self.started = time.time()
        self.skips = os.environ.get(VARIABLE) != "0"
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
        hashes = {}
        if self.skips and self.config.cache.get(STAMPED, False):
            named = {name: files[name] for name in names}
            hashes = self.once(lambda: self.fingerprints(self.root, named))
        stamps = {
            name: {
                "group": name,
                "hash": hashes.get(name),
                "size": sizes[name],
                "files": [str(path) for path in files[name]],
            }
            for name in names
        }
        for each in items:
            if (stamp := stamps.get(group[each])) is None:
                continue
            kept = self.kept(stamp["group"])
            covered = kept["hash"] == stamp["hash"] and each.nodeid in kept["tests"]
            self.of[each.nodeid] = {**stamp, "covered": covered}
            if covered:
                each.add_marker(pytest.mark.skip(reason=REASON))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        """Let the report tell of the group: another process may write the stamp."""
        report = yield
        report.stamp = self.of.get(item.nodeid)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        """Count covered tests as unchanged, so that the list of skipped tests leaves them out."""
        stamp = getattr(report, "stamp", None)
        if report.skipped and stamp and stamp["covered"]:
            return "unchanged", "", "UNCHANGED"
        return None

    def pytest_terminal_summary(self, terminalreporter):
        """Print the number of covered tests, and how to run them."""
        if unchanged := terminalreporter.stats.get("unchanged"):
            terminalreporter.write_line(f"{len(unchanged)} tests: {REASON}")

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
        good = {
            group: (stamp, passed)
            for group, (stamp, passed) in self.good.items()
            if group not in self.bad and len(passed) == stamp["size"]
        }
        files = {group: [*map(Path, stamp["files"])] for group, (stamp, _) in good.items()}
        hashes = {group: stamp["hash"] for group, (stamp, _) in good.items()}
        edited = is_edited(self.root, self.started)
        if edited or not all(hashes.values()):
            hashes = self.fingerprints(self.root, files)
        for group, (stamp, passed) in good.items():
            if edited and hashes[group] != stamp["hash"]:
                continue  # what was edited meanwhile may have been seen by some tests only
            kept = self.kept(group)
            before = kept["tests"] if kept["hash"] == hashes[group] else []
            tests = sorted({*before, *passed} - self.tried)  # what could not run is tried again
            self.config.cache.set(f"stamps/{group}", {"hash": hashes[group], "tests": tests})
        if good:
            self.config.cache.set(STAMPED, True)


def is_edited(root, since):
    """Tell whether a file of the repository has changed since a time."""
    waiting = [root]
    while waiting:
        for each in os.scandir(waiting.pop()):
            if each.name.startswith((".", "__pycache__")) or each.name in MADE:
                continue
            if each.is_dir(follow_symlinks=False):
                waiting.append(each)
            elif each.stat(follow_symlinks=False).st_ctime > since:
                return True
    return False
