"""A pytest plugin: what passed here, and of which nothing has changed since, is not run again.

Tests are stamped in groups: those of one assignment in one folder, those of one file of
tests/experiments, those of the site; slow tests are groups of their own. A stamp is a hash of all
that the group's outcome can depend on. It is written when every test of the group that was
collected has passed, and kept in pytest's own cache. ATTENTIVELY_STAMPS=0 runs everything.
"""

import functools
import importlib.util
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from side_by_side import assignment_of

VARIABLE = "ATTENTIVELY_STAMPS"
REASON = f"unchanged since it passed ({VARIABLE}=0 runs it)"
EVERY_GROUP = ["constraints.txt", "nbgrader_config.py", "pyproject.toml", "src/attentively_grader"]
BANK = re.compile(r"(right|wrong)_answers_\w+\.py")


def group_of(nodeid, slow=False):
    """Return the name of the group that a test belongs to; nothing for one that always runs."""
    path, _, test = nodeid.partition("::")
    folder = path.rpartition("/")[0]
    name = None
    if folder in ("tests/exercises", "tests/notebooks") and (found := assignment_of(test)):
        name = f"{folder}/{found}"
    elif folder == "tests/experiments":
        name = path
    elif folder == "tests/site":
        name = folder
    return f"{name} slow" if name and slow else name


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
    src, tests = root / "src", root / "tests"
    folder, _, name = group.removesuffix(" slow").rpartition("/")
    counted = [*files, Path(book.__file__)]
    counted += [path for each in EVERY_GROUP for path in book.files_of(root / each)]
    counted += [path for path in tests.rglob("*.py") if is_helper(path)]
    if group.startswith("tests/site"):
        return book.fingerprint(root, sorted({*counted}), json.dumps(book.fingerprints(root)))
    texts = [path.read_text(encoding="utf-8") for path in files]
    if folder in ("tests/exercises", "tests/notebooks"):
        number, _, topic = name.partition("_")
        texts.append(f"import attentively.checks.{topic}")
        for course in ("solutions", "exercises"):
            counted += book.files_of(root / course / name)
            texts += map(code_of, (root / course / name).glob("*.ipynb"))
        bank = [*(tests / "exercises").glob(f"*_answers_{number}.py")]
        counted += needed_by(tests / "exercises", bank)
        texts += [path.read_text(encoding="utf-8") for path in bank]
    else:
        counted += book.files_of(root / "book" / "results")
    try:
        needed = {}
        for text in texts:
            needed |= book.modules(src, text)
        counted += [*needed, *book.data_files(src, [*texts, *needed.values()])]
    except (SyntaxError, LookupError):
        counted += book.files_of(src)
    return book.fingerprint(root, sorted({*counted}))


def is_helper(path):
    """Tell whether a file of tests/ holds what tests share: neither tests nor one bank."""
    return not path.name.startswith("test_") and not BANK.fullmatch(path.name)


def code_of(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def needed_by(folder, files):
    """Return these files and those of their folder that they import; all if that is not known."""
    found = {*files}
    try:
        for path in files:
            found |= {*build_book().modules(folder, path.read_text(encoding="utf-8"))}
    except (SyntaxError, LookupError):
        found |= {*folder.glob("*.py")}
    return found


# The plugin


def _is_slow(item):
    return item.get_closest_marker("slow") is not None


class Stamps:
    """Skips the tests that a stamp covers, and writes stamps of groups that passed."""

    def __init__(self, config, fingerprint=fingerprint):
        self.config = config
        self.root = config.rootpath
        self.fingerprint = fingerprint
        self.of = {}
        """What is known of each test: its group, and whether a stamp covers it."""
        self.good, self.bad = {}, set()

    def kept(self, group):
        """Return the stamp of a group: its hash, and the tests that it covers."""
        return self.config.cache.get(f"stamps/{group}", {"hash": "", "tests": []})

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
        stamps = {}
        for name in {group[each] for each in items} - {None}:
            stamps[name] = {
                "group": name,
                "hash": self.fingerprint(self.root, name, files[name]),
                "size": sizes[name],
                "files": [str(path) for path in files[name]],
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
        if report.failed or (report.skipped and not stamp["covered"]):
            self.bad.add(group)
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
            tests = sorted({*before, *passed})
            self.config.cache.set(f"stamps/{group}", {"hash": stamp["hash"], "tests": tests})
