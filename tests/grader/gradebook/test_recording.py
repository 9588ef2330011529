"""What is recorded is what nbgrader would have recorded, and the verdict alone decides."""

import copy
import csv
import html
import json
import math
import re

import nbformat
import pytest
from grader.classroom import Classroom, Stub, cell
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.plugins import CsvExportPlugin, ExportPlugin
from notebook_tools import flags, small_part
from sqlalchemy.exc import OperationalError

from attentively_grader.course import notebooks
from attentively_grader.course.course import Course, converting, course_directory
from attentively_grader.course.preparation import prepare
from attentively_grader.gradebook import recording
from attentively_grader.gradebook.recording import judged
from attentively_grader.jobs import CellOutcome, Outcome
from attentively_grader.reports.feedback import _with_titles
from attentively_grader.reports.gradesheets import write

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]


def full_notebook():
    """Two tests, one of them with partial credit, a written answer, a coded one, a task."""
    written = flags("essay", grade=True, solution=True, points=7)
    coded = flags("free", grade=True, solution=True, points=5)
    task = flags("task", locked=True) | {"task": True, "points": 3}
    partial = small_part(2, 40, "return 1", "assert part_2()", "10 if part_2() == 1 else 40.0")
    return new_notebook(
        cells=[
            new_code_cell("import math", id="imports"),
            *small_part(1, 60, "return 41", "assert part_1() > 0", "assert part_1() == 41"),
            *partial,
            new_markdown_cell("Why?", id="essay", metadata={"nbgrader": written}),
            new_code_cell("# Your own", id="free", metadata={"nbgrader": coded}),
            new_markdown_cell("Draw it.", id="task", metadata={"nbgrader": task}),
        ],
        metadata=notebooks.KERNEL,
    )


def work(room, **answers):
    """Return the release with these answers, by the cell's name."""
    content = json.loads(nbformat.writes(room.released))
    for name, source in answers.items():
        cell(content, name.replace("_", "-"))["source"] = source
    return content


RIGHT = {"part_1": "def part_1():\n    return 41", "part_2": "def part_2():\n    return 1"}


def hand_in_all(room):
    late = {"essay": "Because.", "free": "math.pi"}
    room.hand_in("right", work(room, **RIGHT, **late))
    room.hand_in("wrong", work(room, part_1="def part_1():\n    return 7"))
    own = work(room, **RIGHT)
    own["cells"].insert(1, {"cell_type": "code", "id": "helper", "metadata": {}, "source": "x = 1"})
    room.hand_in("own", own)
    for student in ("right", "wrong"):
        (room.folder(student) / "timestamp.txt").write_text("2026-11-22 10:00:00 UTC")
        (room.folder(student) / "notes.txt").write_text("my notes")


LATE = """
from nbgrader.plugins import LateSubmissionPlugin


class Two(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 2.0


c.AssignLatePenalties.plugin_class = Two
"""


def late_course(root):
    room = Classroom(root, full_notebook())
    with open(root / "nbgrader_config.py", "a") as file:
        file.write(LATE)
    hand_in_all(room)
    prepare(Course(root), "small", root / "prepared")  # which makes the gradebook
    with Gradebook(f"sqlite:///{root}/gradebook.db", "attentively") as gradebook:
        gradebook.update_or_create_assignment("small", duedate="2026-11-21 10:00:00 UTC")
    return room


def database(room):
    """Return what the gradebook holds of every submission, without ids."""
    found = {}
    url = Course(room.root).directory.db_url
    with Gradebook(url, "attentively") as gradebook:
        for entry in gradebook.assignment_submissions("small"):
            (book,) = entry.notebooks
            grades = {
                g.name: (g.auto_score, g.manual_score, g.needs_manual_grade, g.max_score, g.score)
                for g in book.grades
            }
            comments = {c.name: (c.auto_comment, c.manual_comment) for c in book.comments}
            more = (entry.timestamp, book.late_submission_penalty, entry.score, entry.max_score)
            found[entry.student.id] = (grades, comments, more, book.needs_manual_grade)
    return found


class Partial(Stub):
    """As the examiner does, takes the number that a test's last line gives."""

    def run(self, jobs):
        for job, outcome in super().run(jobs):
            cells = []
            for each in outcome.cells:
                part = each.id == "check-2" and not each.failed and not job.solution
                points = 10.0 if part else None
                cells.append(CellOutcome(each.id, each.outputs, each.failed, points))
            yield job, Outcome(cells)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    room = late_course(tmp_path_factory.mktemp("ours"))
    assert room.grade(stub=Partial()) == 0
    return room


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The same class, graded by nbgrader alone."""
    room = late_course(tmp_path_factory.mktemp("theirs"))
    course = Course(room.root)
    for student in ("right", "wrong", "own"):
        directory = course_directory(room.root, course.config)
        directory.student_id, directory.assignment_id = student, "small"
        converter = Autograde(coursedir=directory, config=course.config)
        converter.force = True
        with converting(converter):
            converter.start()
    return room


def test_the_gradebook_is_as_nbgrader_fills_it(ours, theirs):
    assert database(ours) == database(theirs)
    found = database(ours)
    assert found["right"][0]["check-1"][0] == 60
    assert found["right"][0]["check-2"][0] == 10
    assert found["right"][0]["essay"][2]  # waits for somebody to read it
    assert found["right"][2][1] == 2.0
    assert found["wrong"][1]["essay"][0] == "No response."


def without_outputs(notebook):
    kept = []
    for each in notebook.cells:
        metadata = {k: v for k, v in each.metadata.items() if k in ("nbgrader", "tags")}
        kept.append((each.cell_type, each.source, metadata))
    return kept


@pytest.mark.parametrize("student", ["right", "wrong", "own"])
def test_the_notebook_is_as_nbgrader_writes_it(ours, theirs, student):
    one, other = ours.autograded(student), theirs.autograded(student)
    assert without_outputs(one) == without_outputs(other)
    assert one.metadata.kernelspec == other.metadata.kernelspec
    folders = [room.root / "autograded" / student / "small" for room in (ours, theirs)]
    there = [{p.name: p.stat().st_mode for p in folder.iterdir()} for folder in folders]
    assert there[0] == there[1]


def test_cells_are_counted_as_in_the_tracebacks(ours):
    """Among those with code, whatever was written between them."""
    cells = ours.autograded("own").cells
    counts = [each.execution_count for each in cells if each.cell_type == "code"]
    assert len(counts) < len(cells)
    assert counts == [*range(1, len(counts) + 1)]
    assert "In&nbsp;[2]:" in ours.page("own")


def test_a_second_recording_changes_nothing(ours):
    before, state = database(ours), ours.state()
    stub = Partial()
    assert ours.grade(stub=stub) == 0
    assert stub.ran == []
    assert ours.grade(stub=stub, force=True) == 0
    assert len(stub.ran) == 3
    assert database(ours) == before
    assert ours.state() == state


def test_a_grade_by_hand_is_kept(tmp_path):
    room = Classroom(tmp_path, full_notebook())
    room.hand_in("anna", work(room, **RIGHT, essay="Because."))
    room.grade(stub=Partial())
    url = Course(room.root).directory.db_url
    with Gradebook(url, "attentively") as gradebook:
        grade = gradebook.find_grade("essay", "small", "small", "anna")
        grade.manual_score, grade.needs_manual_grade = 6, False
        gradebook.find_comment("essay", "small", "small", "anna").manual_comment = "Well said."
        gradebook.db.commit()
    room.grade(stub=Partial())
    assert database(room)["anna"][0]["essay"] == (None, 6, False, 7, 6)
    room.grade(stub=Partial(), force=True)
    # As with nbgrader, what is graded anew is looked at again.
    assert database(room)["anna"][0]["essay"] == (None, 6, True, 7, 6)
    assert "Well said." in room.page("anna")


def graded_again(room, capsys):
    """Grade by the same command; return what is said of anna, and whether anything was run."""
    capsys.readouterr()
    stub = Stub()
    assert room.grade(stub=stub) == 0
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "small, anna: " in line]
    return said.partition("anna: ")[2], stub.ran


def test_a_date_that_is_set_later_counts_at_the_next_run(tmp_path, capsys):
    """So does an extension, and another penalty; what a person has graded stays so."""
    room = Classroom(tmp_path, full_notebook())
    room.hand_in("anna", work(room, **RIGHT, essay="Because."))
    (room.folder("anna") / "timestamp.txt").write_text("2026-11-22 10:00:00 UTC")
    room.hand_in("bert", work(room, **RIGHT))
    assert room.grade() == 0
    url = Course(room.root).directory.db_url

    def change(**changes):
        with Gradebook(url, "attentively") as gradebook:
            if "duedate" in changes:
                gradebook.update_or_create_assignment("small", **changes)
            else:
                gradebook.grant_extension("small", "anna", **changes)

    with Gradebook(url, "attentively") as gradebook:
        for part in ("essay", "free", "task"):
            grade = gradebook.find_grade(part, "small", "small", "anna")
            grade.manual_score, grade.needs_manual_grade = 1, False
        gradebook.db.commit()
    before = database(room)
    change(duedate="2026-11-21 10:00:00 UTC")
    assert graded_again(room, capsys) == ("already graded, 103 of 115", [])  # nothing is taken off
    with open(tmp_path / "nbgrader_config.py", "a") as file:
        file.write(LATE)
    late = "already graded, 101 of 115, late penalty 2"
    assert graded_again(room, capsys) == (late, [])
    assert "Score: -2.0" in room.page("anna")
    assert graded_again(room, capsys) == (late, [])
    change(days=7)
    assert graded_again(room, capsys) == ("already graded, 103 of 115", [])
    change(days=0)
    assert graded_again(room, capsys) == (late, [])
    change(duedate="2026-11-23 10:00:00 UTC")
    assert graded_again(room, capsys) == ("already graded, 103 of 115", [])
    assert "Score: -2.0" not in room.page("anna")
    assert database(room) == before


def test_a_penalty_is_reckoned_from_the_new_score(tmp_path):
    room = Classroom(tmp_path, full_notebook())
    with open(tmp_path / "nbgrader_config.py", "a") as file:
        file.write(LATE.replace("2.0", "score / 2"))
    prepare(Course(tmp_path), "small", tmp_path / "prepared")
    url = Course(tmp_path).directory.db_url
    with Gradebook(url, "attentively") as gradebook:
        gradebook.update_or_create_assignment("small", duedate="2026-11-21 10:00:00 UTC")
    wrong = {**RIGHT, "part_1": "def part_1():\n    return 7"}
    for answers, points in ((wrong, 40), (RIGHT, 100), (wrong, 40)):
        room.hand_in("anna", work(room, **answers))
        (room.folder("anna") / "timestamp.txt").write_text("2026-11-22 10:00:00 UTC")
        assert room.grade() == 0
        assert sum(room.points("anna")[:2]) == points
        assert Course(tmp_path).scores("small")["anna"].penalty == points / 2


def test_after_a_change_the_gradebook_finds_the_new_score(tmp_path):
    """Also of what is still in use."""
    room = Classroom(tmp_path, full_notebook())
    room.hand_in("anna", work(room, **RIGHT))
    assert room.grade() == 0
    book = recording.SharedGradebook(Course(tmp_path).directory.db_url, "attentively")
    try:
        with book.in_use():
            kept = book.find_submission("small", "anna")
            assert kept.score == 100
            book.find_grade("check-1", "small", "small", "anna").auto_score = 20
            book.db.commit()
            assert book.find_submission("small", "anna") is kept
            assert kept.score == 60
    finally:
        book.finish()


def test_a_gradebook_that_is_locked_at_the_end_is_written_at_the_next_try(tmp_path, monkeypatch):
    """What the first try has read is not used by the second one."""
    room = Classroom(tmp_path, full_notebook())
    room.hand_in("anna", work(room, **RIGHT))
    write, tries = recording._Deferred.write, []

    def locked_once(session):
        tries.append(session)
        if len(tries) == 1:
            raise OperationalError("COMMIT", {}, Exception("database is locked"))
        write(session)

    monkeypatch.setattr(recording._Deferred, "write", locked_once)
    monkeypatch.setattr(recording.time, "sleep", lambda seconds: None)
    assert room.grade() == 0
    assert len(tries) > 1
    assert room.points("anna")[:2] == [60, 40]


def test_a_penalty_that_cannot_be_reckoned_stops_nobody_else(tmp_path, capsys):
    room = late_course(tmp_path)
    assert room.grade(stub=Partial()) == 0
    config = tmp_path / "nbgrader_config.py"
    sound = config.read_text()
    config.write_text(sound.replace("return 2.0", "return 1 / 0"))
    capsys.readouterr()
    assert room.grade(stub=Partial()) == 1
    printed = capsys.readouterr().out
    assert (
        "small, right: NOT RECORDED: the late penalty cannot be computed: division by zero"
        in printed
    )
    assert "small, own: already graded, 70 of 115" in printed
    assert Course(tmp_path).scores("small")["right"].penalty == 2
    config.write_text(sound.replace("return 2.0", "return 3.0"))
    assert room.grade(stub=Partial()) == 0
    assert Course(tmp_path).scores("small")["right"].penalty == 3


def test_export_works_on_it(ours, tmp_path):
    course = Course(ours.root)
    with Gradebook(course.directory.db_url, "attentively") as gradebook:
        plugin = CsvExportPlugin(to=str(tmp_path / "grades.csv"))
        assert isinstance(plugin, ExportPlugin)
        plugin.export(gradebook)
    rows = (tmp_path / "grades.csv").read_text().splitlines()
    assert len(rows) == 4


def test_totals_are_those_that_nbgrader_exports(ours, tmp_path):
    """With what is taken off for coming late, on every sheet."""
    course = Course(ours.root)
    with Gradebook(course.directory.db_url, "attentively") as gradebook:
        CsvExportPlugin(to=str(tmp_path / "grades.csv")).export(gradebook)
    with open(tmp_path / "grades.csv", newline="") as file:
        exported = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    scores = course.scores("small")
    assert {student: row.total for student, row in scores.items()} == exported
    assert exported["right"] == 68
    assert scores["right"].penalty == 2
    titles = {name: title for (_, name), title in course.parts("small").items()}
    assert scores["right"].by_hand >= {titles["essay"], titles["free"]}
    report = (ours.root / "reports" / "small.html").read_text(encoding="utf-8")
    needing = re.findall(
        r"<strong>(\w+)</strong>: has answers that wait for manual grading", report
    )
    assert sorted(needing) == sorted(name for name, row in scores.items() if row.by_hand)
    waiting = write(course, "small", "canvas", tmp_path / "canvas.csv")
    assert waiting == sum(len(row.by_hand) for row in scores.values()) > 0
    with open(tmp_path / "canvas.csv", newline="") as file:
        _, _, *rows = csv.reader(file)
    assert {row[3]: float(row[5]) for row in rows} == exported


def test_nbgraders_own_tools_work_on_it(ours):
    """What Formgrader asks for, and feedback made once more by nbgrader alone."""
    course = Course(ours.root)
    api = NbGraderAPI(course_directory(ours.root, course.config))
    (assignment,) = api.get_assignments()
    assert assignment["num_submissions"] == 3
    submission = api.get_submission("small", "right")
    assert submission["autograded"]
    assert submission["needs_manual_grade"]
    assert submission["score"] == 70
    (book,) = api.get_student_notebook_submissions("right", "small")
    assert book["needs_manual_grade"]
    before = ours.page("right")
    directory = course_directory(ours.root, course.config)
    directory.student_id, directory.assignment_id = "right", "small"
    converter = GenerateFeedback(coursedir=directory, config=course.config)
    converter.force = True
    with converting(converter):
        converter.start()
    titles = notebooks.part_titles(ours.autograded("right"))
    assert said(_with_titles(ours.page("right"), titles)) == said(before)


def said(page):
    """Return the words of a page, without the markers of hidden tests."""
    body = re.sub(r"<[^>]+>|### (?:BEGIN|END) HIDDEN TESTS", " ", page[page.index("<body>") :])
    return html.unescape(body).split()


# The verdict


TEST = {
    "cell_type": "code", "metadata": {"nbgrader": flags("t", grade=True, points=60)},
    "source": "", "outputs": [],
}  # fmt: skip


def score(outputs, outcome, most=60.0):
    """Return what nbgrader reads from a test cell."""
    from nbgrader.utils import determine_grade

    tested = nbformat.from_dict(copy.deepcopy(TEST))
    tested.outputs = nbformat.from_dict(judged(outputs, outcome, most, "it was stopped"))
    return determine_grade(tested)[0]


def result(text):
    return {"output_type": "execute_result", "data": {"text/plain": text}, "metadata": {}}


FORGED = ["nan", "inf", "-1", "1e999", "tensor(0.)", "60", "100", "[60, 60]", ""]


@pytest.mark.parametrize("forged", FORGED)
def test_no_printed_number_is_a_score(forged):
    """Case 24."""
    assert score([result(forged)], CellOutcome("t", failed=True)) == 0
    assert score([result(forged)], CellOutcome("t")) == 60
    assert score([result(forged)], None) == 0
    assert score([result(forged)], CellOutcome("t", points=20.0)) == 20


@pytest.mark.parametrize("points", [math.nan, math.inf, -math.inf, -0.1, 60.1, 1e300])
def test_no_score_is_beyond_its_limits(points):
    assert score([], CellOutcome("t", points=points)) == 0


@pytest.mark.parametrize("points", [0.0, 0.5, 60.0])
def test_partial_credit_is_kept(points):
    assert score([], CellOutcome("t", points=points)) == points


def test_a_warning_costs_nothing():
    """Case 45."""
    warning = {"output_type": "stream", "name": "stderr", "text": "careful"}
    assert score([warning], CellOutcome("t")) == 60
    assert judged([warning], CellOutcome("t"), 60, "")[0]["text"] == "careful"


def test_an_error_that_a_student_shows_is_none():
    forged = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
    assert score([forged], CellOutcome("t")) == 60
    assert score([], CellOutcome("t", failed=True)) == 0


def test_a_test_that_was_not_reached_says_why():
    (shown,) = judged([], None, 60, "your code ended the process (exit 0)")
    assert "your code ended the process" in shown["traceback"][0]


def test_files_that_act_stay_out_of_autograded(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    for name in ("page.html", "data/plot.SVG", "notes.txt"):
        path = room.folder("anna") / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("<script>alert(1)</script>")
    assert room.grade() == 0
    folder = tmp_path / "autograded" / "anna" / "small"
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert files == {"small.ipynb", "notes.txt"}
    assert (room.folder("anna") / "page.html").is_file()


def test_what_is_not_released_reaches_neither_autograded_nor_feedback(tmp_path):
    """nbgrader copies each file next to the source notebook to both."""
    room = Classroom(tmp_path)
    config = tmp_path / "nbgrader_config.py"
    listed = "\nc.Release.side_files = {'small': ['data/given.csv']}\n"
    config.write_text(config.read_text() + listed)
    source = tmp_path / "solutions" / "small"
    for name in ("answers.py", "questions.py", "data/given.csv", "data/hidden.csv"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("the instructor's")
    room.hand_in("anna")
    (room.folder("anna") / "answers.py").write_text("anna's")
    assert room.grade() == 0
    for step, page in (("autograded", "small.ipynb"), ("feedback", "small.html")):
        folder = tmp_path / step / "anna" / "small"
        files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        assert files == {page, "answers.py", "data/given.csv"}
        assert (folder / "answers.py").read_text() == "anna's"
