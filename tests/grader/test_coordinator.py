"""A class is graded: new work is run and recorded, the rest is left alone, whatever happens."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import weakref
from dataclasses import replace

import nbformat
import pytest
from grader.classroom import RIGHT_1, Classroom, Stub, cell
from nbformat.v4 import new_notebook
from notebook_tools import ROOT, small_notebook, small_part, write

from attentively_grader import coordinator
from attentively_grader.__main__ import main
from attentively_grader.coordinator import grade
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course, CourseError
from attentively_grader.course.release import release
from attentively_grader.gradebook import recording
from attentively_grader.intake import result_store, tasks
from attentively_grader.intake.tasks import Options, TaskPlanner
from attentively_grader.jobs import CellOutcome, Outcome
from attentively_grader.reports import gradesheets
from attentively_grader.workforce import local_pool

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]


def hostile_outputs(outcome):
    """As a student's code may show: cases 24, 35, 36."""
    html = "<img src=x onerror=alert(1)><script>alert('outputs')</script><b>kept</b>"
    data = {"text/plain": "60", "text/html": html, "application/javascript": "alert(1)"}
    shown = [
        {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1},
        {"output_type": "stream", "name": "stdout", "text": "\x1b[31m<script>\ud800\0\u202e"},
    ]
    return replace(outcome, cells=[replace(c, outputs=shown + c.outputs) for c in outcome.cells])


def stopped(outcome):
    return replace(
        outcome, cells=outcome.cells[:1], end="timeout", reason="your code took more than 5 s"
    )


def broken(_):
    return Outcome([], "died", "the grader could not run this notebook: no processes")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class in which much goes wrong; `alone` is a course with the innocent one only."""
    room = Classroom(tmp_path_factory.mktemp("course"))
    room.hand_in("innocent")
    room.hand_in("half", room.answered(second="def part_2():\n    return 'wrong'"))
    room.hand_in("untouched", json.loads(nbformat.writes(room.released)))
    skip = room.answered(first="def part_1():\n    return 1")
    for each in skip["cells"]:
        each["metadata"]["tags"] = ["skip-execution"]
    room.hand_in("skips", skip)
    right_skip = room.answered()
    for each in right_skip["cells"]:
        each["metadata"]["tags"] = ["skip-execution"]
    room.hand_in("right-skips", right_skip)
    edits = room.answered(first="def part_1():\n    return 1")
    cell(edits, "check-1")["source"] = "pass"
    cell(edits, "check-1")["metadata"]["nbgrader"]["points"] = 1000
    edits["cells"] = [each for each in edits["cells"] if each["id"] != "check-2"]
    room.hand_in("edits", edits)
    room.hand_in("shows", room.answered(first="def part_1():\n    return 1"))
    markdown = room.answered()
    script = "<script>alert('markdown')</script> [x](javascript:alert(1)) <b onclick=alert(1)>b</b>"
    text = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": script}
    markdown["cells"].append(text)
    room.hand_in("writes", markdown)
    room.hand_in("slow")
    room.hand_in("unlucky")
    room.hand_in("binary", bytes(range(256)))
    room.hand_in("misnamed", name="Small (1).ipynb")
    room.hand_in("further")
    room.hand_in("further", name="scratch.ipynb")
    room.folder("empty").mkdir(parents=True)
    room.folder("links").mkdir(parents=True)
    (room.folder("links") / "small.ipynb").symlink_to(room.folder("innocent") / "small.ipynb")
    room.folder("pipe").mkdir(parents=True)
    os.mkfifo(room.folder("pipe") / "small.ipynb")
    room.hand_in("cannot+be")
    room.stub = Stub({"shows": hostile_outputs, "slow": stopped, "unlucky": broken})
    room.status = room.grade(stub=room.stub)
    return room


def test_points(graded):
    """Cases 24 to 27: Z or N, part by part."""
    assert graded.points("innocent") == [60, 40]
    assert graded.points("half") == [60, 0]
    assert graded.points("untouched") == [0, 0]
    assert graded.points("skips") == [0, 40]
    assert graded.points("right-skips") == [60, 40]
    assert graded.points("edits") == [0, 40]
    assert graded.points("shows") == [0, 40]
    assert graded.points("writes") == [60, 40]
    assert graded.points("slow") == [0, 0]
    assert graded.points("further") == [60, 40]


SET_ASIDE = {
    "binary": "not a readable notebook",
    "misnamed": "expected small.ipynb, found Small (1).ipynb",
    "empty": "the folder is empty",
    "links": "small.ipynb is a symbolic link",
    "pipe": "small.ipynb is a named pipe",
    "cannot+be": "use letters",
    "unlucky": "could not run",
}


@pytest.mark.parametrize("student", SET_ASIDE)
def test_what_cannot_be_graded_is_set_aside(graded, student):
    """Cases 32, 33, 37."""
    assert graded.status == 1
    assert graded.points(student) is None
    assert not (graded.root / "autograded" / student).exists()


def test_what_is_set_aside_is_said_with_the_reason(graded, capsys):
    stub = Stub({"unlucky": broken})
    assert graded.grade(stub=stub) == 1
    assert stub.ran == ["small, unlucky: small"]  # all else is known
    printed = capsys.readouterr().out
    assert f"Set aside, not graded ({len(SET_ASIDE)}):" in printed
    for student, words in SET_ASIDE.items():
        (line,) = [x for x in printed.splitlines() if x.startswith(f"  small, {student}:")]
        assert words in line
        assert str(graded.root) not in line
    assert "small, innocent: already graded, 100 of 100" in printed
    assert "scratch.ipynb is not a notebook of this assignment" in printed
    assert "hardest part: Part 1 · Number" in printed


def test_the_earlier_grade_of_what_is_set_aside_is_said(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("anna", room.answered(second="def part_2():\n    return 'wrong'"))
    room.hand_in("bert")
    assert room.grade() == 0
    for student in ("anna", "cleo"):
        room.hand_in(student, b"{")
    assert room.grade() == 1
    printed = capsys.readouterr().out
    assert re.search(
        r"small, anna: SET ASIDE: .*; the earlier result remains: 60 of 100\n", printed
    )
    assert re.search(r"small, cleo: SET ASIDE: (?!.*earlier).*\n", printed)
    assert room.points("anna") == [60, 0]
    page = (tmp_path / "reports" / "small.html").read_text(encoding="utf-8")
    assert "the earlier result remains: 60 of 100" in page


def test_who_and_what_is_missing_is_said(tmp_path, capsys):
    """Case 33: nothing submitted, or under another name."""
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.hand_in("bert")
    room.grade()
    capsys.readouterr()
    room.folder("bert").rename(tmp_path / "submitted" / "bert" / "Small\x1b[2J")
    assert room.grade() == 0
    printed = capsys.readouterr().out
    assert "no submission: bert" in printed
    assert "submitted/bert/Small\ufffd[2J" in printed
    assert "\x1b" not in printed


def test_pages_are_inert(graded):
    """Case 35."""
    for student in ("shows", "writes"):
        page = graded.page(student)
        body = page[page.index("<body>") :]
        assert "<script>alert" not in body
        assert "onerror=" not in body
        assert "<b onclick" not in body
        assert 'href="javascript' not in body
        assert "\x1b" not in body
    assert "<b>kept</b>" in graded.page("shows")
    assert "application/javascript" not in str(graded.autograded("shows"))


def test_a_page_says_how_the_run_ended(graded):
    page = graded.page("slow")
    assert "your code took more than 5 s" in page
    assert "0.0 / 100.0" in page
    assert "60.0 / 100.0" in graded.page("half")


def test_an_instructor_is_told_of_the_code_and_not_of_theirs(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("slow")
    room.grade(stub=Stub({"slow": stopped}))
    report = (tmp_path / "reports" / "small.html").read_text(encoding="utf-8")
    for told in (capsys.readouterr().out, report):
        assert "the code took more than 5 s" in told
        assert "your code" not in told
    assert "your code took more than 5 s" in room.page("slow")


def test_the_same_work_is_run_once(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna", room.answered())
    room.grade()
    room.hand_in("bert", room.answered())
    stub = Stub()
    room.grade(stub=stub)
    assert stub.ran == []
    assert room.points("bert") == [60, 40]


def test_neighbours_change_nothing(graded, tmp_path):
    alone = Classroom(tmp_path)
    alone.hand_in("innocent")
    assert alone.grade() == 0
    assert alone.points("innocent") == graded.points("innocent")
    assert alone.autograded("innocent") == graded.autograded("innocent")
    assert alone.page("innocent") == graded.page("innocent")


def test_parts_of_one_name_in_two_notebooks_are_two_parts(tmp_path, capsys):
    room = Classroom(tmp_path)
    first = room.answered()
    further = new_notebook(
        cells=small_part(1, 7, "return 1", "assert part_1()", "")
        + small_part(3, 5, "return 1", "assert part_3()", ""),
        metadata=notebooks.KERNEL,
    )
    path = write(further, tmp_path / "solutions" / "small" / "further.ipynb")
    room.hand_in("anna", first)
    room.hand_in("anna", json.loads(path.read_text()), name="further.ipynb")
    room.hand_in("bert", first)
    sheet = tmp_path / "sheet.csv"
    assert room.grade() == 0
    printed = capsys.readouterr().out
    assert "small, anna: 112 of 112" in printed
    assert "small, bert: 100 of 112" in printed
    rows = [line.split() for line in printed.splitlines()]
    parts = ["further/Part 1 · Number", "Part 3 · Number", "small/Part 1 · Number"]
    assert [*Course(tmp_path).parts("small").values()] == [*parts, "Part 2 · Number"]
    assert ["anna", "7", "5", "60", "40", "112"] in rows
    assert ["bert", "0", "0", "60", "40", "100"] in rows
    assert "hardest part: further/Part 1 · Number, mean 50%" in printed
    report = (tmp_path / "reports" / "small.html").read_text(encoding="utf-8")
    assert "Mean: 106.0 of 112 points." in report
    assert "<strong>small/Part 1 · Number</strong> mean 60.0 of 60 points (100%)" in report
    gradesheets.write(Course(tmp_path), "small", "canvas", sheet)
    assert [line.split(",")[-1] for line in sheet.read_text().splitlines()[1:]] == [
        *("112", "112", "100")
    ]


def test_a_changed_answer_is_graded_anew(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna", room.answered(first="def part_1():\n    return 1"))
    room.hand_in("bert")
    room.grade()
    room.hand_in("anna")
    stub = Stub()
    room.grade(stub=stub)
    assert stub.ran == ["small, anna: small"]
    assert room.points("anna") == [60, 40]


def test_a_mended_test_and_a_mended_package_grade_all_anew(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    (tmp_path / "src" / "checks.py").write_text("LIMIT = 1\n")
    room.grade()
    (tmp_path / "src" / "__pycache__").mkdir()
    (tmp_path / "src" / "__pycache__" / "checks.pyc").write_text("of no account")
    stub = Stub()
    room.grade(stub=stub)
    assert stub.ran == []
    (tmp_path / "src" / "checks.py").write_text("LIMIT = 2\n")
    room.grade(stub=stub)
    assert len(stub.ran) == 1
    source = tmp_path / "solutions" / "small" / "small.ipynb"
    source.write_text(source.read_text().replace("not forty-one", "not quite"))
    room.grade(stub=stub)
    assert len(stub.ran) == 2


def test_code_that_is_too_long_to_compare_is_said(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna", room.answered(first=RIGHT_1 + "\n# mine" * 20_000))
    room.hand_in("bert")
    assert room.grade() == 0
    report = (tmp_path / "reports" / "small.html").read_text(encoding="utf-8")
    assert "<strong>anna</strong>: wrote 140,0" in report
    assert "characters of code; only the first 100,000 are compared" in report
    assert "<strong>bert</strong>" not in report


# Case 43: the run is ended


class Ended(Stub):
    """Ends the run after some notebooks."""

    def __init__(self, after, error):
        super().__init__()
        self.after, self.error = after, error

    def run(self, jobs):
        for number, ran in enumerate(super().run(jobs)):
            if number == self.after:
                raise self.error
            yield ran


def test_a_run_that_is_stopped_goes_on(tmp_path, capsys, monkeypatch):
    room = Classroom(tmp_path)
    for student in "abcd":
        room.hand_in(student)
    monkeypatch.setattr(local_pool, "pool_factory", lambda *_: Ended(2, KeyboardInterrupt()))
    assert main(["--course", str(tmp_path), "--canvas", str(tmp_path / "sheet.csv")]) == 130
    assert not (tmp_path / "sheet.csv").exists()  # of half a class
    assert "All results so far are kept" in capsys.readouterr().err
    assert [room.points(student) for student in "abcd"] == [[60, 40], [60, 40], None, None]
    stub = Stub()
    assert room.grade(stub=stub) == 0
    assert stub.ran == ["small, c: small", "small, d: small"]
    assert all(room.points(student) == [60, 40] for student in "abcd")
    assert all("100.0 / 100.0" in room.page(student) for student in "abcd")


WAITING = """
import contextlib, sys, time
from pathlib import Path
from attentively_grader import __main__ as command
from attentively_grader.workforce import local_pool

class Waiting:
    def run(self, jobs):
        print("running", next(iter(jobs)).files.is_dir(), flush=True)
        time.sleep(60)

local_pool.pool_factory = lambda *_: lambda *_: contextlib.nullcontext(Waiting())
sys.exit(command.main(["--course", sys.argv[1], *sys.argv[2:]]))
"""


@pytest.mark.parametrize("shard", [[], ["--shard", "1/1"]])
def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path, shard):
    """As `kill` and a machine that shuts down end it."""
    room = Classroom(tmp_path)
    room.hand_in("anna")
    scratch = Course(tmp_path).kept / "scratch"
    run = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(tmp_path), *shard],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout.readline() == "running True\n"
    assert any(each.is_dir() for each in scratch.iterdir())
    os.killpg(run.pid, signal.SIGTERM)  # the process that renders pages too
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said == "\nInterrupted. All results so far are kept. To resume, repeat the command.\n"
    assert [each.name for each in scratch.iterdir()] == ["lock"]


def test_a_run_that_is_killed_at_any_moment_goes_on(tmp_path):
    room = Classroom(tmp_path)
    students = [f"s{number}" for number in range(8)]
    for student in students:
        room.hand_in(student)
    context = multiprocessing.get_context("fork")
    for moment in (0.4, 0.9, 0.6):
        run = context.Process(target=room.grade)
        run.start()
        time.sleep(moment)
        os.kill(run.pid, signal.SIGKILL)
        run.join()
    stub = Stub()
    assert room.grade(stub=stub) == 0
    assert all(room.points(student) == [60, 40] for student in students)
    assert all("100.0 / 100.0" in room.page(student) for student in students)
    for begun in room.root.rglob("*.writing"):  # by a run that was killed at that moment
        os.utime(begun, (0, 0))
    again = Stub()
    assert room.grade(stub=again) == 0
    assert again.ran == []
    assert not list(room.root.rglob("*.writing"))


def test_what_a_killed_run_was_writing_is_removed(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    begun = tmp_path / "reports" / "half.writing"
    begun.parent.mkdir()
    begun.write_text("<html>")
    os.utime(begun, (0, 0))
    assert room.grade(stub=Stub()) == 0
    assert not begun.exists()


def test_two_runs_do_not_record_at_once(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")

    class Second(Stub):
        def run(self, jobs):
            with pytest.raises(CourseError, match="another run is grading this course"):
                grade(room.root, options=Options(), pool_factory=Stub())
            yield from super().run(jobs)

    assert room.grade(stub=Second()) == 0


# Case 44: the gradebook is locked, the disk is full


def test_a_locked_gradebook_is_said_and_nothing_is_lost(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(recording, "TRIES", 1)
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.grade()
    room.hand_in("bert")
    room.hand_in("carl")
    other = sqlite3.connect(tmp_path / "gradebook.db")

    class Locking(Stub):
        def run(self, jobs):
            other.execute("BEGIN EXCLUSIVE")
            yield from super().run(jobs)

    monkeypatch.setattr(Course, "scores", lambda *_: {})  # the table at the end
    assert room.grade("bert", "carl", stub=Locking()) == 1
    printed = capsys.readouterr().out
    assert "the gradebook is locked. Close other programs" in printed
    other.rollback()
    other.close()
    monkeypatch.undo()
    assert room.points("bert") is None
    stub = Stub()
    assert room.grade(stub=stub) == 0
    assert stub.ran == []
    assert room.points("bert") == room.points("carl") == [60, 40]


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path, capsys, monkeypatch):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.hand_in("bert")
    keep = result_store.Results.keep

    def full(self, name, outcome):
        if outcome.cells:
            raise CourseError("result.json cannot be written: No space left on device")
        keep(self, name, outcome)

    monkeypatch.setattr(result_store.Results, "keep", full)

    def refuse(*_):
        raise OSError(28, "No space left on device", "autograded/bert")

    monkeypatch.setattr(
        "attentively_grader.gradebook.recording._Recording.write_single_notebook", refuse
    )
    assert room.grade() == 1
    assert "No space left on device" in capsys.readouterr().out
    assert room.points("anna") in (None, [0, 0])
    monkeypatch.undo()
    assert room.grade() == 0
    assert room.points("anna") == room.points("bert") == [60, 40]


def test_a_file_that_vanishes_stops_nobody_else(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("bert")
    room.grade()  # the solution too
    room.hand_in("anna")
    room.hand_in("bert", room.answered())
    notes = room.folder("anna") / "notes.txt"
    notes.write_text("mine")

    class Vanishing(Stub):
        def run(self, jobs):
            notes.unlink()
            yield from super().run(jobs)

    assert room.grade(stub=Vanishing()) == 1
    assert "small, anna: SET ASIDE: notes.txt cannot be read" in capsys.readouterr().out
    assert room.points("bert") == [60, 40]


# The command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["large"], "no assignment 'large' in solutions/. Assignments there: small"),
        (["smal"], "no assignment 'smal' in solutions/. Did you mean small?"),
        (["small/", "--student", "nobody"], "'nobody' has submitted nothing for small"),
        (["--canvas", "/nowhere/at/all.csv"], "the folder /nowhere/at does not exist"),
        (["small", "--student", "nobody"], "'nobody' has submitted nothing for small"),
        (["--course", "/nowhere/at/all"], "has no nbgrader_config.py"),
    ],
)
def test_what_is_not_there_is_said(graded, capsys, arguments, words):
    course = [] if "--course" in arguments else ["--course", str(graded.root)]
    assert main([*arguments, *course]) == 2
    assert words in capsys.readouterr().err


def test_a_course_where_nbgrader_finds_nothing_is_refused(tmp_path, capsys):
    root = tmp_path / "CS [2026]"
    root.mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", root)
    write(small_notebook(), root / "solutions" / "small" / "small.ipynb")
    assert main(["--course", str(root)]) == 2
    said = capsys.readouterr().err
    assert (
        f"error: {root}: nbgrader finds no notebooks in a folder whose path contains *, ? or ["
        in said
    )


@pytest.mark.parametrize("setting", ["depends_on", "importable"])
def test_a_folder_that_is_not_there_is_said(tmp_path, capsys, setting):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    with open(tmp_path / "nbgrader_config.py", "a") as file:
        file.write(f'\nc.Grading.{setting} = ["src", "scr"]\n')
    assert main(["--course", str(tmp_path), "--unsafe-no-sandbox"]) == 2
    expected = f"error: nbgrader_config.py: c.Grading.{setting} lists 'scr', but {tmp_path}/scr is"
    assert expected in capsys.readouterr().err
    assert room.points("anna") is None


def test_too_little_memory_is_refused(graded, capsys):
    with pytest.raises(SystemExit):
        main(["--course", str(graded.root), "--memory", "100"])
    assert (
        "100 MiB is too little for the libraries; expected at least 256 MiB"
        in capsys.readouterr().err
    )


def test_whoever_reads_the_output_may_stop_reading(graded):
    """As `head` does: no traceback, and what was recorded is."""
    call = [sys.executable, "-m", "attentively_grader", "--course", str(graded.root)]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as broken:
        done = subprocess.run(call, stdout=broken, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_course_may_leave_its_folders_to_nbgrader(tmp_path):
    """nbgrader's own names for them are not in its configuration file then."""
    room = Classroom(tmp_path)
    (tmp_path / "solutions").rename(tmp_path / "source")
    config = "c = get_config()\nc.CourseDirectory.course_id = 'mine'\n"
    (tmp_path / "nbgrader_config.py").write_text(config)
    room.hand_in("anna")
    assert room.grade() == 0
    assert room.points("anna") == [60, 40]
    assert sorted(release(tmp_path, "small")) == ["small.ipynb"]


def test_a_date_that_nobody_can_read_sets_one_submission_aside(tmp_path, capsys):
    room = Classroom(tmp_path)
    for student, said in (
        ("anna", b"2026-11-20 10:00:00 UTC"), ("bert", b"yesterday-ish??"), ("carl", b""),
        ("dora", b"\xff\xfe"), ("emil", b"99999999999999999999"),
    ):  # fmt: skip
        room.hand_in(student)
        (room.folder(student) / "timestamp.txt").write_bytes(said)
    assert room.grade() == 1
    said = capsys.readouterr().out
    assert (
        "small, bert: SET ASIDE: timestamp.txt contains 'yesterday-ish??', expected a date" in said
    )
    points = {name: room.points(name) for name in ("anna", "bert", "carl", "dora", "emil")}
    both = [60, 40]
    assert points == {"anna": both, "bert": None, "carl": both, "dora": None, "emil": None}
    assert not (tmp_path / "autograded" / "bert").exists()


def test_a_gradebook_that_is_locked_from_the_beginning_is_said(tmp_path, capsys, monkeypatch):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.grade()
    room.hand_in("bert")
    capsys.readouterr()
    with sqlite3.connect(tmp_path / "gradebook.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        assert main(["--course", str(tmp_path), "--unsafe-no-sandbox"]) == 2
        other.rollback()
    captured = capsys.readouterr()
    assert "error: the gradebook is locked. Close other programs" in captured.err
    assert "SET ASIDE" not in captured.out
    assert room.grade() == 0
    assert room.points("bert") == [60, 40]


@pytest.mark.parametrize(
    ("asked", "configured", "expected"),
    [(600, None, 120), (30, None, 6), (30, 10, 6), (600, 300, 300), (300, 300, 60), (30, 2, 2)],
)
def test_a_cell_that_never_ends_leaves_time_for_the_others(tmp_path, asked, configured, expected):
    room = Classroom(tmp_path)
    if configured:
        with open(tmp_path / "nbgrader_config.py", "a") as file:
            file.write(f"\nc.Execute.timeout = {configured}\n")
    planner = TaskPlanner(Course(room.root), Options(seconds=asked), lambda *_: None)
    assert (planner.limits.seconds, planner.limits.cell_seconds) == (asked, expected)


def test_nothing_submitted_says_where_it_is_expected(tmp_path, capsys):
    Classroom(tmp_path)
    assert main(["--course", str(tmp_path)]) == 2
    assert "submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb" in capsys.readouterr().err
    assert not (tmp_path / "gradebook.db").exists()


def test_without_a_sandbox_it_refuses(tmp_path, capsys, monkeypatch):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["--course", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "bubblewrap" in said
    assert "--unsafe-no-sandbox" in said
    assert room.points("anna") is None


def test_without_a_sandbox_by_choice_is_loud_and_recorded(tmp_path, capsys, monkeypatch):
    room = Classroom(tmp_path)
    room.hand_in("anna")

    def unsafe(outcome):
        return replace(outcome, sandboxed=False)

    pools = []
    stub = Stub({"anna": unsafe})
    monkeypatch.setattr(local_pool, "pool_factory", lambda *given: pools.append(given) or stub)
    assert main(["--course", str(tmp_path), "--unsafe-no-sandbox"]) == 0
    assert pools == [(None, False)]
    assert "with YOUR rights" in capsys.readouterr().err
    assert room.autograded("anna").metadata.attentively.sandboxed is False
    assert "without a sandbox" in room.page("anna")
    stub = Stub()
    room.grade(stub=stub)
    assert stub.ran  # with a sandbox it is another run


def test_a_broken_assignment_does_not_stop_the_others(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    broken = tmp_path / "solutions" / "broken" / "broken.ipynb"
    broken.parent.mkdir()
    broken.write_text("{")
    (tmp_path / "submitted" / "anna" / "broken").mkdir()
    assert room.grade() == 1
    printed = capsys.readouterr().out
    assert "small, anna: 100 of 100" in printed
    assert "broken, anna: SET ASIDE: nbgrader cannot release broken" in printed


def test_cells_that_are_not_in_an_outcome_earn_nothing(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    empty = Stub({"anna": lambda outcome: Outcome([CellOutcome("check-2")], "died", "exit 0")})
    room.grade(stub=empty)
    assert room.points("anna") == [0, 40]


def test_a_class_is_held_in_memory_by_portions(tmp_path, capsys, monkeypatch):
    """Each is run and recorded before the next is read; an assignment is prepared once."""
    monkeypatch.setattr(coordinator, "AT_ONCE", 2)
    first = Classroom(tmp_path)
    second = Classroom(tmp_path, name="later")
    for name in ("anna", "bert", "cora"):
        first.hand_in(name)
        second.hand_in(name)
    prepared, held = [], []
    prepare, work = tasks.prepare, tasks.TaskPlanner._task

    def counted(course, name, *given, **named):
        prepared.append(name)
        return prepare(course, name, *given, **named)

    def watched(planner, *given):
        task = work(planner, *given)
        held.append(weakref.ref(task))
        alive.append(sum(each() is not None for each in held))
        return task

    alive = []
    monkeypatch.setattr(tasks, "prepare", counted)
    monkeypatch.setattr(tasks.TaskPlanner, "_task", watched)
    stub = Stub()
    assert first.grade(stub=stub) == 0
    assert sorted(prepared) == ["later", "small"]
    assert len(stub.ran) == 6
    assert first.points("cora") == second.points("cora") == [60, 40]
    printed = capsys.readouterr().out
    assert "[1/6]" in printed
    assert "[6/6]" in printed
    assert max(alive) <= 2 * 2  # those of the last portion may wait to be collected
