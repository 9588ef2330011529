"""`make bundle`: what a class is handed holds the release and the package, and no solution."""

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile

import pytest
from notebook_tools import ROOT, small_notebook, with_source, write

from attentively_grader.course import notebooks
from attentively_grader.course.course import CourseError
from attentively_grader.course.release import release, secret_lines

spec = importlib.util.spec_from_file_location("make_bundle", ROOT / "tools" / "make_bundle.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

ASSIGNMENT = "08_additive_attention"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    target = tmp_path_factory.mktemp("bundle") / "class.zip"
    assert tool.main([ASSIGNMENT, "--output", str(target)]) == 0
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
    for path in unpacked.rglob("*.ipynb"):
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


def test_the_same_content_is_the_same_archive(packed, tmp_path):
    again = tmp_path / "again.zip"
    tool.main([ASSIGNMENT, "--output", str(again)])
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
