"""`make bundle`: what a class is handed holds the release and the package, and no solution."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from notebook_tools import ROOT, small_notebook, with_source, write

from attentively.models import checkpoints
from attentively_grader.course import notebooks
from attentively_grader.course.course import CourseError
from attentively_grader.course.release import release, secret_lines

spec = importlib.util.spec_from_file_location("make_bundle", ROOT / "tools" / "make_bundle.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

ASSIGNMENT = "08_additive_attention"


PAGE = f"_build/html/book/{ASSIGNMENT}.html"
CHAPTER = (
    '<a href="../_sources/book/08.md">source</a> <a href="../_sources/book/08.ipynb">notebook</a>'
)
BOOK = {
    "_build/html/index.html": "the first page",
    PAGE: CHAPTER,
    "_build/html/_static/live/tatoeba-en-fr-additive.0.js": "parameters",
    "_build/html/_static/live/live.js": "code",
    "_build/html/_static/scripts/bootstrap.js.map": "for developers",
    "_build/html/_sources/book/08.md": "the source",
    "_build/html/_sources/book/08.ipynb": "the notebook",
    "_build/html/.buildinfo": "a hash",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return this project with a small built book."""
    root = tmp_path_factory.mktemp("project")
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv", "_build", "dist", "work"}:
            (root / path.name).symlink_to(path)
    for name, text in BOOK.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def packed(project, tmp_path_factory):
    target = tmp_path_factory.mktemp("bundle") / "class.zip"
    assert tool.main([ASSIGNMENT, "--output", str(target)], project) == 0
    return target


@pytest.fixture(scope="module")
def unpacked(packed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    return folder / tool.NAME


def test_the_exercise_is_the_release_and_holds_no_solution(unpacked):
    there = list((unpacked / "exercises").rglob("*"))
    assert [path.name for path in there if path.is_file()] == [f"{ASSIGNMENT}.ipynb"]
    source = notebooks.read(ROOT / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")
    secrets = secret_lines(source)
    assert len(secrets) > 10
    for path in (unpacked / "exercises").rglob("*.ipynb"):
        text = json.dumps([cell["source"] for cell in notebooks.read(path).cells])
        assert "BEGIN HIDDEN" not in text
        assert "BEGIN SOLUTION" not in text
        assert not [line for line in secrets if json.dumps(line)[1:-1] in text]


def test_nothing_that_grades_and_nothing_of_the_instructors(unpacked):
    files = [path for path in unpacked.rglob("*") if path.is_file()]
    names = {path.relative_to(unpacked).as_posix() for path in files}
    assert not {name for name in names if name.startswith(("solutions", "tests", "gradebook"))}
    assert not {name for name in names if name.endswith(("questions.py", "answers.py"))}
    grader = {name for name in names if name.startswith("src/attentively_grader/")}
    assert {name.removeprefix("src/attentively_grader/") for name in grader} == {
        "__init__.py",
        "course/__init__.py",
        "course/notebooks.py",
    }
    assert {"start.py", "README.md", "LICENSE-TEXT", "tools/lab.py"} <= names
    assert "book/results/bottleneck.json" in names  # the package loads it by its name
    assert not {name for name in names if "__pycache__" in name or name.endswith(".pyc")}


def test_its_readme_is_about_the_bundle(unpacked):
    text = (unpacked / "README.md").read_text(encoding="utf-8")
    assert "python3 start.py" in text
    assert "make" not in text.split()
    assert "](" not in text  # no link to what is not inside


def attentively(unpacked, here, *commands):
    """Run commands of the bundle's package, one after the other; each tells its exit status."""
    code = (
        "import attentively, attentively_grader\n"
        f"assert attentively.__file__.startswith({str(unpacked)!r}), attentively.__file__\n"
        "from attentively.cli import main\nimport sys\n"
        f"for command in {commands}:\n"
        "    sys.argv = ['attentively', *command]\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        print('exit', end.code)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env={"PYTHONPATH": str(unpacked / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_the_package_in_it_works_by_itself(unpacked, tmp_path):
    """What a student runs after setting up, with the libraries of this environment."""
    work = tmp_path / "work" / ASSIGNMENT
    work.mkdir(parents=True)
    shutil.copy(unpacked / "exercises" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", work)
    ran = attentively(unpacked, tmp_path, ["submit", "8", "--student", "ada", "--zip", "--yes"])
    assert "Packed submitted/ada" in ran.stdout, ran.stderr
    assert (tmp_path / "submitted" / f"{ASSIGNMENT}-ada.zip").is_file()
    assert (tmp_path / "submitted" / "ada" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").is_file()


def test_what_it_has_not_is_said(unpacked, tmp_path):
    ran = attentively(unpacked, tmp_path, ["grade"], ["collect", "a.zip"], ["progress"])
    assert ran.stdout.splitlines() == ["exit 1", "exit 1", "exit 1"]
    for line, words in zip(
        ran.stderr.splitlines(),
        [
            "this archive does not contain the grader. Grade in a clone of the project",
            "this archive does not contain the grader. Grade in a clone of the project",
            "in a class archive: `python3 start.py`",
        ],
        strict=True,
    ):
        assert words in line


def names(archive):
    with zipfile.ZipFile(archive) as packed:
        return {name.removeprefix(f"{tool.NAME}/") for name in packed.namelist()}


def test_the_book_is_there_and_the_notebook_links_its_chapter(unpacked):
    """JupyterLab serves _build/html at /static (tests/tools/test_lab.py)."""
    assert (unpacked / PAGE).read_text() == CHAPTER
    links = re.findall(r'href="([^"]+)"', CHAPTER)
    assert [link for link in links if not (unpacked / PAGE).parent.joinpath(link).is_file()] == []
    notebook = notebooks.read(unpacked / "exercises" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")
    [link] = re.findall(r"\]\(/static/([^)]+)\)", notebook.cells[0].source)
    assert (unpacked / "_build" / "html" / link).is_file()
    [file] = re.findall(r"`(_build/[^`]+)`", notebook.cells[0].source)
    assert file == PAGE
    assert "url=_build/html/index.html" in (unpacked / "book.html").read_text()


def test_what_no_reader_opens_stays_behind(packed):
    there = {name for name in names(packed) if name.startswith("_build/")}
    assert there == {name for name in BOOK if not name.endswith((".map", ".buildinfo"))}


def test_the_light_archive_has_the_book_and_no_pretrained_models(project, packed, tmp_path, capsys):
    target = tmp_path / "light.zip"
    tool.main([ASSIGNMENT, "--light", "--output", str(target)], project)
    assert "no address to download the pretrained models from" in capsys.readouterr().out
    absent = names(packed) - names(target)
    assert names(target) < names(packed)
    assert {name for name in absent if not name.endswith(".safetensors")} == {
        "_build/html/_static/live/tatoeba-en-fr-additive.0.js"
    }
    models = {f"src/attentively/pretrained/{n}.safetensors" for n in checkpoints.pretrained_names()}
    assert models < absent
    assert "src/attentively/pretrained/vectors/tatoeba-english.safetensors" in absent
    recordings = "src/attentively/checks/additive_attention/recordings.safetensors"
    assert recordings in names(target)  # checks cannot be downloaded
    assert PAGE in names(target)
    assert target.stat().st_size < 0.3 * packed.stat().st_size


def test_the_sizes_of_the_parts_are_those_of_the_archive(project, packed, tmp_path, capsys):
    parts = tool.sizes(packed)
    assert sum(count for count, _ in parts.values()) == len(names(packed))
    assert parts["exercises"][0] == 1
    assert parts["book"][0] == 6
    assert parts["pretrained models"][1] > 5 * parts["package"][1]
    assert 0 <= packed.stat().st_size - sum(size for _, size in parts.values()) < 3e5
    tool.main([ASSIGNMENT, "--output", str(tmp_path / "class.zip")], project)
    said = capsys.readouterr().out
    assert re.search(r"^  pretrained models +\d+ files +\d+\.\d MB$", said, re.M)
    assert "may be out of date: its last build did not finish" in said


def test_a_book_that_is_not_built_is_refused_or_left_out(tmp_path):
    with pytest.raises(CourseError, match=r"the book is not built.* Run `make book` first"):
        tool.built_book(tmp_path)
    (tmp_path / "_build" / "html").mkdir(parents=True)
    with pytest.raises(CourseError, match="the book is not built"):
        tool.built_book(tmp_path)  # an interrupted build


def test_without_the_book(project, tmp_path, capsys):
    target = tmp_path / "class.zip"
    tool.main([ASSIGNMENT, "--no-book", "--output", str(target)], project)
    assert not {name for name in names(target) if name.startswith(("_build", "book.html"))}
    assert "does not contain the book" in capsys.readouterr().out


def test_a_book_that_is_older_than_its_sources_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(tool.build_book, "fingerprints", lambda root: {"page": ["now"]})
    assert tool.not_current(tmp_path) == "its last build did not finish"
    stamp = tmp_path / "_build" / tool.build_book.STAMP
    stamp.parent.mkdir()
    stamp.write_text('{"page": ["now"]}')
    assert tool.not_current(tmp_path) == ""
    stamp.write_text('{"page": ["before"]}')
    assert tool.not_current(tmp_path) == "files changed after it was built"


def test_the_same_content_is_the_same_archive(project, packed, tmp_path):
    again = tmp_path / "again.zip"
    tool.main([ASSIGNMENT, "--output", str(again)], project)
    assert again.read_bytes() == packed.read_bytes()


def test_an_exercise_that_is_not_the_release_is_refused(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    write(small_notebook(), tmp_path / "solutions" / "small" / "small.ipynb")
    path = tmp_path / "exercises" / "small" / "small.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(release(tmp_path, "small")["small.ipynb"])
    leaking = with_source(notebooks.read(path), "part-1", "def part_1():\n    return 41")
    write(leaking, path)
    with pytest.raises(
        CourseError, match="exercises/small differs from the release of solutions/small"
    ):
        tool.contents(tmp_path, ["small"])


def test_an_unknown_assignment_is_refused_and_leaves_what_was_there(tmp_path):
    target = tmp_path / "class.zip"
    target.write_bytes(b"the one before")
    with pytest.raises(CourseError, match="no assignment '99_more'"):
        tool.main(["99_more", "--output", str(target)])
    assert target.read_bytes() == b"the one before"


def test_a_full_disk_leaves_the_archive_before(tmp_path, monkeypatch):
    target = tmp_path / "class.zip"
    target.write_bytes(b"the one before")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space left"):
        tool.pack({"a": b"b"}, target)
    assert [path.name for path in tmp_path.iterdir()] == ["class.zip"]
    assert target.read_bytes() == b"the one before"
