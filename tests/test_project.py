"""What holds for the whole repository."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import attentively

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Written so that this file does not hold what it looks for.
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "deb" + "ian.org",
    "npm" + "js.",
    "registry." + "npm",
    "jsd" + "elivr.net",
    "unp" + "kg.com",
]
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
# A path of somebody's machine; the home that the grader's sandbox makes up is nobody's.
MACHINE = re.compile(r"(?<![\w.~/])/(home|root|Users|work)/(?!student\b)\w")
# Modules for those who work on notebooks or compare with papers, with what they need of extras.
OPTIONAL = {
    "colab.py": {"google", "nbformat"},
    "dask_cluster.py": {"distributed"},
    "progress.py": {"nbclient", "nbformat"},
    "submission.py": {"nbformat"},
    "earlier_parts.py": {"nbformat"},
    "real_ladder.py": {"sacremoses"},
}
LARGEST = 4 * 2**20


@cache
def files() -> list[Path]:
    """Return every file of the repository, the ones not yet added among them."""
    if not (ROOT / ".git").exists():
        pytest.fail(f"{ROOT} is not a git repository, so its files cannot be listed")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


@cache
def texts() -> dict[str, str]:
    """Return the text of every file that is text, by its name."""
    found = {}
    for path in files():
        try:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def holding(pattern: str | re.Pattern) -> list[str]:
    """Return where a text holds `pattern`, as file:line."""
    pattern = re.compile(pattern)
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts().items()
        for match in pattern.finditer(text)
    ]


def run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )


def test_ruff():
    done = run("ruff", "check", "--output-format", "concise", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_format():
    done = run("ruff", "format", "--check", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mypy():
    done = run("mypy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_registry_is_named():
    """Packages come from wherever the reader's pip is set to look."""
    assert holding("|".join(re.escape(host) for host in REGISTRIES)) == []


def test_no_machine_is_named():
    assert holding(MACHINE) == []
    assert MACHINE.search("in /home/" + "ann/x")
    assert not MACHINE.search("work/08_additive_attention")


def test_nothing_is_left_undone():
    assert holding(UNFINISHED) == []
    assert UNFINISHED.search("# TO" + "DO: later")


def test_files_are_small():
    large = {path.name: size for path in files() if (size := path.stat().st_size) > LARGEST}
    assert large == {}


def test_the_version_is_one():
    version = PYPROJECT["project"]["version"]
    assert attentively.__version__ == version
    assert f"## {version}" in texts()["CHANGELOG.md"]
    assert f'version: "{version}"' in texts()["CITATION.cff"]


def test_the_readme_names_the_two_commands():
    readme = texts()["README.md"]
    for command in ["make book", "make test", "TORCH_INDEX="]:
        assert command in readme


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_what_a_file_links_there_is(name):
    links = set(re.findall(r"\]\(([^)#:]+)\)", texts()[name]))
    assert len(links) > 2
    assert {link for link in links if not (ROOT / link).exists()} == set()


def requirement_names(requirements: list[str]) -> set[str]:
    """Return the names of `requirements`, in the one spelling that pip compares."""
    names = (re.match(r"[\w.-]+", requirement)[0] for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


def test_every_requirement_is_pinned():
    lines = texts()["constraints.txt"].splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert "torch==2.13.0" in pins
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    wanted = requirement_names(PYPROJECT["project"]["dependencies"]).union(
        *(requirement_names(extra) for extra in extras)
    )
    assert wanted - requirement_names(pins) - {"attentively"} == set()


def test_every_pin_runs_on_the_oldest_python():
    """By the metadata of the packages that are installed here in the pinned version."""
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    pins = re.findall(r"^([\w.-]+)==([\w.]+)$", texts()["constraints.txt"], re.M)
    asked = {}
    for name, pinned in pins:
        try:
            found = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if Version(found["Version"]).public == Version(pinned).public:
            asked[name] = SpecifierSet(found.get("Requires-Python", ""))
    assert len(asked) > len(pins) / 2
    assert {name: str(one) for name, one in asked.items() if not one.contains(f"{oldest}.0")} == {}


@pytest.mark.parametrize(
    ("package", "extra"), [("attentively", None), ("attentively_grader", "grading")]
)
def test_every_import_is_required(package, extra):
    """What the package imports it also asks for, so that an installed copy works alone."""
    requirements = list(PYPROJECT["project"]["dependencies"])
    if extra:
        requirements += PYPROJECT["project"]["optional-dependencies"][extra]
    own = {"attentively", "attentively_grader"}
    asked = requirement_names(requirements)
    asked |= {"cycler"}  # comes with matplotlib
    asked |= {"ipython", "matplotlib-inline"}  # are there wherever there is a notebook
    asked |= {"sklearn"} & {name.replace("scikit-learn", "sklearn") for name in asked}
    missing = {}
    for file in (ROOT / "src" / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = {(node.module or "").partition(".")[0]}
            else:
                continue
            for name in names - own - sys.stdlib_module_names:
                if requirement_names([name]) - asked - OPTIONAL.get(file.name, set()):
                    missing[name] = file.name
    assert missing == {}


def test_every_page_is_in_the_table_of_contents():
    listed = set(re.findall(r"(?:root|file): (book/[\w/]+)", texts()["_toc.yml"]))
    pages = {path.removesuffix(".md") for path in texts() if re.fullmatch(r"book/[\w/]+\.md", path)}
    assert pages == listed


def test_the_map_links_the_chapters_that_exist():
    chapters = {Path(name).name for name in texts() if re.fullmatch(r"book/\d\d_\w+\.md", name)}
    assert set(re.findall(r"\]\((\d\d_\w+\.md)\)", texts()["book/index.md"])) == chapters


def test_the_makefile_is_for_old_make():
    """macOS has GNU make 3.81."""
    makefile = texts()["Makefile"]
    for newer in [".ONESHELL", "::=", "!=", "$(file", "&:", "undefine", ".RECIPEPREFIX"]:
        assert newer not in makefile
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    for target in targets - {"help", "setup"}:
        assert f"make {target}" in makefile, f"`make` does not explain {target}"


@pytest.mark.parametrize("name", ["nope", "/bin/false"])
def test_a_missing_or_wrong_python_is_named(tmp_path, name):
    (tmp_path / "Makefile").write_text(texts()["Makefile"])
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    done = subprocess.run(
        ["make", "setup", f"PYTHON={name}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"needs Python 3.11 or later; '{name}' is" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_no_line_of_a_page_is_a_comment_by_accident():
    """MyST drops a line that begins with a percent sign, be it the end of "32 %."."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")}
    dropped = {
        name: lines
        for name, text in pages.items()
        if (lines := [line for line in text.splitlines() if line.startswith("%")])
    }
    assert len(pages) > 19
    assert dropped == {}
