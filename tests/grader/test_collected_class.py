"""A Moodle archive of 30 students: collected, graded, reported, and returned to their names."""

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser

import pytest
from grader.classroom import Classroom
from grader.moodle_class import NAMES, moodle_class
from grader.stub_pool import needs_sandbox

from attentively_grader.collect import collect
from attentively_grader.course.course import Course
from attentively_grader.intake import students_table
from attentively_grader.reports import feedback_archive, gradesheets

NAME = "08_small"
ROWS = {
    "Zoë Ångström 04": "zoe_angstrom_04",
    "José-María O'Student 07": "jose_maria_o_student_07",
    "Ｓtudent 10 ﬁ": "student_10_fi",
    "Łukasz Ørsted 15": "lukasz_orsted_15",
    "学生 22": "student_22",
}


@pytest.fixture
def classroom(tmp_path):
    return Classroom(tmp_path, name=NAME)


def downloaded(classroom):
    """Write the archive; return its path and the points of each name."""
    blank = json.loads(json.dumps(classroom.answered()))
    for cell in blank["cells"]:
        if cell["id"] in ("part-1", "part-2"):
            cell["source"] = "def part():\n    raise NotImplementedError"
    wrong = classroom.answered(second="def part_2():\n    return 2")
    content, shares = moodle_class(NAME, classroom.answered(), wrong, blank)
    path = classroom.root / "Attention-Homework 8-4711.zip"
    path.write_bytes(content)
    return path, {name: share and 100 * share for name, share in shares.items()}


def check(classroom, points, printed):
    """Compare what was collected and graded with what the class handed in."""
    rows = {row.who.name: row.student for row in students_table.read(classroom.root)}
    without = {"Student 14", "Student 25"}
    assert rows.keys() == set(NAMES) - without
    assert {name: rows[name] for name in ROWS} == ROWS
    assert rows["Student 01"] == "student_01"
    assert len({row.casefold() for row in rows.values()}) == 28
    scores = Course(classroom.root).scores(NAME)
    graded = {name: scores[rows[name]].total for name in rows if rows[name] in scores}
    expected = {name: total for name, total in points.items() if total is not None}
    assert graded == expected
    assert len(expected) == 26
    assert "Student 14: no notebook; found essay.pdf" in printed
    assert "Student 25: a text that was entered on the platform" in printed
    assert "escaped.ipynb: its path leads out of the archive" in printed
    assert printed.count("truncated or damaged") == 2
    assert "an older version (2026-03-30 11:00:00 UTC) than Student 16_4016_assign" in printed
    assert "was named Untitled (3).ipynb" in printed
    assert "Submissions: 28 new" in printed
    assert not list(classroom.root.parent.glob("escaped*"))


def returned(path):
    """Check that Moodle could tell from each name whose page it is."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        pages = {name: archive.read(name) for name in names}
    assert len(pages) == len(names) == 26
    found = {}
    for name, page in pages.items():
        # As Moodle reads it: full name, number, type and name of the plugin.
        folder, _, file = name.partition("/")
        full, number, kind, plugin = folder.split("_")
        assert (kind, plugin, file) == ("assignsubmission", "file", f"{NAME}.html")
        assert NAMES[int(number) - 4001] == full
        found[full] = page
    return found


def test_a_class_is_collected_graded_and_returned(classroom, capsys):
    path, points = downloaded(classroom)
    assert collect(classroom.root, [path], NAME) == 1
    printed = capsys.readouterr().out
    assert classroom.grade() == 1
    check(classroom, points, printed)
    archive = classroom.root / "feedback.zip"
    assert feedback_archive.write(Course(classroom.root), NAME, archive) == 26
    assert returned(archive).keys() == {name for name, each in points.items() if each is not None}
    # A second run collects nothing new and names everything again.
    assert collect(classroom.root, [path], NAME) == 1
    assert "Submissions: 28 unchanged" in capsys.readouterr().out
    sheet = gradesheets.moodle(gradesheets.people(Course(classroom.root)), {})
    assert "zoe_angstrom_04,,,Zoë Ångström 04," in sheet


def test_a_page_of_a_submission_that_was_not_collected_has_its_own_name(classroom, tmp_path):
    classroom.hand_in("ada")
    classroom.grade()
    archive = tmp_path / "feedback.zip"
    assert feedback_archive.write(Course(classroom.root), None, archive) == 1
    with zipfile.ZipFile(archive) as file:
        assert file.namelist() == [f"ada/{NAME}/{NAME}.html"]
    before = archive.read_bytes()
    (tmp_path / "feedback" / "ada" / NAME / f"{NAME}.html").unlink()
    assert feedback_archive.write(Course(classroom.root), None, archive) == 0
    assert archive.read_bytes() != before


class Text(HTMLParser):
    """The text of a page."""

    def __init__(self):
        super().__init__()
        self.text = []

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.timeout(1800)
@needs_sandbox
def test_the_commands_do_the_same_in_sandboxes(classroom):
    """As an instructor types them; the report names what needs attention."""
    path, points = downloaded(classroom)

    def attentively(*given):
        command = [sys.executable, "-m", "attentively", *map(str, given)]
        ran = subprocess.run(
            command, cwd=classroom.root, capture_output=True, text=True, env={**os.environ}
        )
        assert "Traceback" not in ran.stderr
        return ran

    ran = attentively("collect", path, "--assignment", NAME)
    assert ran.returncode == 1, ran.stderr
    graded = attentively("grade", NAME, "--feedback-zip", "feedback.zip", "--moodle", "grades.csv")
    assert graded.returncode == 1, graded.stderr
    check(classroom, points, ran.stdout)
    assert graded.stdout.count("SET ASIDE") == 2
    assert "Feedback pages: 26, in feedback.zip" in graded.stdout
    assert b"part_2" in returned(classroom.root / "feedback.zip")["Zoë Ångström 04"]
    with (classroom.root / "grades.csv").open(encoding="utf-8") as file:
        totals = {row["lastname"]: row[NAME] for row in csv.DictReader(file)}
    assert totals == {name: f"{each:g}" for name, each in points.items() if each is not None}
    text = Text()
    text.feed((classroom.root / "reports" / f"{NAME}.html").read_text(encoding="utf-8"))
    report = " ".join(" ".join(text.text).split())
    for student in ("student_05", "lukasz_orsted_15"):
        assert re.search(rf"{student}\W.{{0,80}}truncated or damaged", report)
