"""Submissions are collected from archives of learning platforms; each skip has a reason."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from grader.classroom import RIGHT_1, Classroom
from grader.moodle_class import submit_zip, zipped

from attentively.cli import main
from attentively_grader.collect import collect
from attentively_grader.course.course import CourseError
from attentively_grader.intake import archives, collection, students_table
from attentively_grader.intake.platforms import Who
from attentively_grader.intake.students_table import Row, safe_id, with_ids

NAME = "08_small"
FILE = f"{NAME}.ipynb"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Classroom(tmp_path_factory.mktemp("course"), name=NAME)


@pytest.fixture
def classroom(made, tmp_path):
    """A course of one's own, with a second assignment."""
    root = tmp_path / "course"
    shutil.copytree(made.root, root)
    text = (root / "solutions" / NAME / FILE).read_text(encoding="utf-8")
    other = root / "solutions" / "09_other" / "09_other.ipynb"
    other.parent.mkdir()
    other.write_text(text.replace("part-", "other-").replace("check-", "o-"), encoding="utf-8")
    made_here = object.__new__(Classroom)
    made_here.__dict__ = {**made.__dict__, "root": root}
    return made_here


def notebook(classroom, answer=RIGHT_1):
    return json.dumps(classroom.answered(first=answer)).encode()


def archive(classroom, files, name="downloads.zip", **given):
    path = classroom.root.parent / name
    path.write_bytes(zipped(files, **given))
    return path


def run(classroom, source, capsys, **given):
    """Collect; return the exit status and what was printed."""
    capsys.readouterr()
    status = collect(classroom.root, [source], **given)
    return status, capsys.readouterr().out


def submitted(classroom):
    """Return every collected file that nbgrader sees, by its path."""
    root = classroom.root / "submitted"
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    }


MOODLE = "Zoë Ångström_123_assignsubmission_file"
LAYOUTS = {
    "Moodle 4.1 and later": ([f"{MOODLE}/{FILE}"], "zoe_angstrom"),
    "Moodle before 4.1": ([f"{MOODLE}_/{FILE}"], "zoe_angstrom"),
    "Moodle without folders": ([f"{MOODLE}_{FILE}"], "zoe_angstrom"),
    "Moodle, blind": ([f"Participant_123_assignsubmission_file/{FILE}"], "participant"),
    "Moodle, a team": ([f"Default group_assignsubmission_file_/{FILE}"], "default_group"),
    "Moodle, unpacked again": ([f"all/{MOODLE}_/{FILE}"], "zoe_angstrom"),
    "Canvas": ([f"ångströmzoë_123_456_{FILE}"], "angstromzoe"),
    "Canvas, late": ([f"ångströmzoë_LATE_123_456_{NAME}-1.ipynb"], "angstromzoe"),
    "Canvas, anonymous": ([f"anon_Ab1cD_456_{FILE}"], "anon_ab1cd"),
    "Canvas, anonymous, late": ([f"LATE_anon_Ab1cD_456_{FILE}"], "anon_ab1cd"),
    "Canvas, a group": ([f"team_seven_LATE_123_456_{FILE}"], "team_seven"),
    "exchange": ([f"ada+{NAME}+2026-03-31 10:00:00 UTC/{FILE}"], "ada"),
    "exchange, random": ([f"ada+{NAME}+2026-03-31 10:00:00.123456 UTC+xyz/{FILE}"], "ada"),
    "nbgrader's folders": ([f"ada/{NAME}/{FILE}", f"ada/{NAME}/data/x.csv"], "ada"),
    "a folder around": ([f"submitted/ada/{NAME}/{FILE}"], "ada"),
    "a folder for each": ([f"Ada Lovelace/{FILE}"], "ada_lovelace"),
    "backslashes": ([f"ada\\{NAME}\\{FILE}"], "ada"),
    "decomposed accents": ([f"Zoe\u0308/{FILE}"], "zoe"),
}


@pytest.mark.parametrize(("paths", "student"), LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_of_each_platform_is_understood(classroom, capsys, paths, student):
    content = notebook(classroom)
    source = archive(classroom, dict.fromkeys(paths, content))
    status, printed = run(classroom, source, capsys)
    assert status == 0, printed
    expected = {f"{student}/{NAME}/{FILE}": content}
    expected |= {f"{student}/{NAME}/data/x.csv": content for path in paths if "data" in path}
    assert submitted(classroom) == expected
    # A folder with the same files gives the same.
    shutil.rmtree(classroom.root / "submitted")
    (classroom.root / "students.csv").unlink()
    folder = classroom.root.parent / "unpacked"
    for path in paths:
        file = folder / path.replace("\\", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert run(classroom, folder, capsys)[0] == 0
    assert submitted(classroom) == expected


@pytest.mark.parametrize(
    ("path", "back"),
    [
        (f"{MOODLE}_/{FILE}", f"{MOODLE}_/"),
        (f"all/{MOODLE}/{NAME}-zoe.zip", f"{MOODLE}/"),
        (f"{MOODLE}_{FILE}", f"{MOODLE}_"),
        (f"ångströmzoë_LATE_123_456_{NAME}-1.ipynb", "ångströmzoë_LATE_123_456_"),
        (f"anon_Ab1_456_{NAME}.zip", "anon_Ab1_456_"),
        (f"LATE_anon_Ab1_456_{FILE}", "LATE_anon_Ab1_456_"),
        (f"zoe/{FILE}", ""),
    ],
)
def test_what_is_returned_has_the_name_that_the_platform_expects(classroom, capsys, path, back):
    inside = submit_zip("zoe", NAME, notebook(classroom))
    content = inside if path.endswith(".zip") else notebook(classroom)
    run(classroom, archive(classroom, {path: content}), capsys)
    (note,) = classroom.root.glob(f"submitted/*/.collected/{NAME}.json")
    assert json.loads(note.read_text(encoding="utf-8"))["back"] == back


@pytest.mark.parametrize(
    "path",
    [
        f"{MOODLE}/{NAME}-zoe.zip",
        f"{MOODLE}_{NAME}-zoe.zip",
        f"ångströmzoë_123_456_{NAME}-zoe.zip",
        f"{NAME}-zoe.zip",
        f"zoe/{NAME}.zip",
    ],
)
def test_the_file_of_submit_is_opened(classroom, capsys, path):
    inside = submit_zip("zoe", NAME, notebook(classroom))
    status, printed = run(classroom, archive(classroom, {path: inside}), capsys)
    assert status == 0, printed
    assert {path.partition("/")[2] for path in submitted(classroom)} == {
        f"{NAME}/{FILE}",
        f"{NAME}/timestamp.txt",
    }


@pytest.mark.parametrize(
    "name", ["Untitled7.ipynb", f"{NAME} (1).ipynb", f"{NAME}-Copy1.ipynb", "08_SMALL.ipynb"]
)
def test_a_misnamed_notebook_is_recognised(classroom, capsys, name):
    source = archive(classroom, {f"ada/{name}": notebook(classroom)})
    status, printed = run(classroom, source, capsys)
    assert (status, [*submitted(classroom)]) == (0, [f"ada/{NAME}/{FILE}"])
    assert f"was named {name}" in printed


def test_a_broken_notebook_is_collected_and_said(classroom, capsys):
    broken = notebook(classroom)[:100]
    source = archive(classroom, {f"ada/{FILE}": broken, "ben/my.ipynb": broken})
    status, printed = run(classroom, source, capsys)
    assert submitted(classroom) == {f"ada/{NAME}/{FILE}": broken}
    assert "truncated or damaged" in printed
    assert "collected, so that the grader reports it" in printed
    assert "ben/my.ipynb: not a readable notebook, and its name is that of no assignm" in printed
    assert status == 1
    _, printed = run(classroom, source, capsys, assignment=NAME)
    assert submitted(classroom)[f"ben/{NAME}/{FILE}"] == broken


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"ada/essay.pdf": b"%PDF"}, "ada: no notebook; found essay.pdf"),
        (
            {"Ada_1_assignsubmission_onlinetext/onlinetext.html": b"<p>"},
            "Ada: a text that was entered on the platform, and no file",
        ),
        ({"lovelaceada_12_text.html": b"<p>"}, "a text or a link that was entered on the platform"),
        ({FILE: b"{}"}, f"{FILE}: no folder names the student"),
        ({"ada/notes.ipynb": b'{"nbformat":4,"cells":[{"cell_type":"code","source":""}]}'},
         "neither its name nor its cells are those of an assignment"),
        ({f"ada/../../{FILE}": b"{}"}, f"ada/../../{FILE}: its path leads out of the archive"),
        ({f"/etc/{FILE}": b"{}"}, "its path leads out of the archive"),
        ({f"C:\\ada\\{FILE}": b"{}"}, "its path leads out of the archive"),
        ({f"ada/{FILE}": ("/etc/passwd",)}, "a symbolic link, expected a regular file"),
        ({f"a\x1bda/{FILE}": b"{}"}, "its name contains control characters"),
        ({"ada/work.zip": b"PK not"}, "ada/work.zip: not a readable zip archive"),
        ({f"ada+07_gone+2026-03-31 10:00:00 UTC/{FILE}": b"{}"},
         "of the assignment 07_gone, which this course does not have"),
    ],
)  # fmt: skip
def test_what_is_skipped_is_listed_with_the_reason(classroom, capsys, files, words):
    status, printed = run(classroom, archive(classroom, files), capsys)
    assert status == 1
    assert words in printed
    assert submitted(classroom) == {}
    assert not list(classroom.root.parent.rglob("passwd"))


def test_what_systems_add_is_ignored_in_silence(classroom, capsys):
    extra = ["__MACOSX/ada/._x.ipynb", "ada/.DS_Store", "ada/.ipynb_checkpoints/08_small.ipynb"]
    files = {f"ada/{FILE}": notebook(classroom), **dict.fromkeys(extra, b"x")}
    status, printed = run(classroom, archive(classroom, files), capsys)
    assert (status, [*submitted(classroom)]) == (0, [f"ada/{NAME}/{FILE}"])
    assert "Skipped" not in printed


def test_a_zip_bomb_costs_only_a_line(classroom, capsys, monkeypatch):
    monkeypatch.setattr(archives, "LARGEST_SUBMISSION", 2**20)
    bomb = zipped({FILE: bytes(2**20 + 1)})
    deep = zipped({"a.zip": zipped({"b.zip": zipped({"c.zip": zipped({FILE: b"{}"})})})})
    many = zipped({f"{number}.txt": b"" for number in range(archives.MOST_FILES + 1)})
    files = {"a/bomb.zip": bomb, "b/deep.zip": deep, "c/many.zip": many}
    files[f"d/{FILE}"] = notebook(classroom)
    status, printed = run(classroom, archive(classroom, files), capsys)
    assert status == 1
    assert "a/bomb.zip: the archive unpacks to 1 MiB; the limit is 1 MiB" in printed
    assert "archives are nested more than 3 deep" in printed
    assert "c/many.zip: the archive has 2001 files; the limit is 2000" in printed
    assert [*submitted(classroom)] == [f"d/{NAME}/{FILE}"]


def test_an_entry_that_lies_about_its_size_or_needs_a_password_is_said(classroom, capsys):
    content = bytearray(zipped({f"ada/{FILE}": notebook(classroom)}))
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = (100).to_bytes(4, "little")  # the size in the directory
    locked = bytearray(zipped({f"ben/{FILE}": notebook(classroom)}))
    at = locked.index(b"PK\x01\x02")
    locked[at + 8] |= 1  # encrypted
    locked[6] |= 1
    for name, data in {"lies": content, "locked": locked}.items():
        path = classroom.root.parent / f"{name}.zip"
        path.write_bytes(data)
        status, printed = run(classroom, path, capsys)
        assert status == 1
        assert "cannot be unpacked" in printed
    assert submitted(classroom) == {}


def test_links_of_a_folder_are_not_followed(classroom, capsys, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / FILE).write_bytes(notebook(classroom))
    (tmp_path / "down" / "ada").mkdir(parents=True)
    (tmp_path / "down" / "ada" / FILE).symlink_to(tmp_path / "secret" / FILE)
    (tmp_path / "down" / "ben").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "down" / "ada" / "pipe.ipynb")
    status, printed = run(classroom, tmp_path / "down", capsys)
    assert (status, submitted(classroom)) == (1, {})
    assert printed.count("a symbolic link, expected a regular file") == 2
    assert "pipe.ipynb: a special file" in printed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Canvas: the number of the file.
        (f"a_1_98_{FILE}", f"a_1_99_{NAME}-1.ipynb"),
        # Two folders of the exchange.
        (f"a+{NAME}+2026-03-31 23:00:00 UTC/{FILE}", f"a+{NAME}+2026-04-01 01:00:00 UTC/{FILE}"),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_of_two_versions_the_newest_wins(classroom, capsys, old, new, turn):
    first, second = notebook(classroom), notebook(classroom, "def part_1():\n    return 2")
    files = [(old, first), (new, second)][::turn]
    status, printed = run(classroom, archive(classroom, files), capsys)
    assert submitted(classroom) == {f"a/{NAME}/{FILE}": second}
    assert f"{old}: an older version" in printed
    assert status == 1
    status, printed = run(classroom, archive(classroom, [(old, first), (new, first)]), capsys)
    assert f"{old}: the same as {new}" in printed


def test_moodle_does_not_say_which_of_two_files_is_newer(classroom, capsys):
    """Its archive states the time of the download, so the exact name is taken and told."""
    first, second = notebook(classroom), notebook(classroom, "def part_1():\n    return 2")
    files = {f"{MOODLE}/{FILE}": first, f"{MOODLE}/{NAME} (1).ipynb": second}
    for each in (files, dict(reversed(files.items()))):
        status, printed = run(classroom, archive(classroom, each), capsys)
        assert (status, submitted(classroom)) == (1, {f"zoe_angstrom/{NAME}/{FILE}": first})
        assert "(1).ipynb: another version; which one is newer is unknown. Coll" in printed
    early = submit_zip("zoe", NAME, second, "2026-03-30 10:00 UTC")
    late = submit_zip("zoe", NAME, first, "2026-03-31 10:00 UTC")
    _, printed = run(
        classroom, archive(classroom, {f"{MOODLE}/b.zip": early, f"{MOODLE}/a.zip": late}), capsys
    )
    assert "an older version (2026-03-30 10:00:00 UTC)" in printed


def stamped(classroom, time, answer=RIGHT_1):
    files = {FILE: notebook(classroom, answer), "timestamp.txt": time.encode()}
    return {f"ada/{NAME}/{name}": content for name, content in files.items()}


def test_a_newer_submission_is_never_replaced_by_an_older_one(classroom, capsys):
    two = "def part_1():\n    return 2"
    new = stamped(classroom, "2026-04-02 10:00 UTC")
    old = stamped(classroom, "2026-04-01 10:00 UTC", two)
    assert " new " in run(classroom, archive(classroom, new), capsys)[1]
    status, printed = run(classroom, archive(classroom, old), capsys)
    assert status == 1
    assert "kept " in printed
    assert "not newer (2026-04-01 10:00:00 UTC) than what is there (2026-04-02 10:00:00" in printed
    assert submitted(classroom) == new
    status, printed = run(classroom, archive(classroom, new), capsys)
    assert (status, "1 unchanged" in printed) == (0, True)
    status, printed = run(classroom, archive(classroom, old), capsys, force=True)
    assert (status, submitted(classroom)) == (0, old)
    assert "the earlier one is kept in .earlier/08_small-1" in printed
    kept = classroom.root / "submitted" / "ada" / ".earlier" / "08_small-1" / FILE
    assert kept.read_bytes() == new[f"ada/{NAME}/{FILE}"]
    newest = stamped(classroom, "2026-04-03 10:00 UTC")
    assert "updated" in run(classroom, archive(classroom, newest), capsys)[1]
    assert submitted(classroom) == newest


def test_without_a_time_of_submission_the_archive_decides(classroom, capsys):
    two = notebook(classroom, "def part_1():\n    return 2")
    first, later = {f"ada/{FILE}": notebook(classroom)}, {f"ada/{FILE}": two}
    run(classroom, archive(classroom, first), capsys)
    earlier = archive(classroom, later, time=(2026, 3, 30, 12, 0, 0))
    assert "kept " in run(classroom, earlier, capsys)[1]
    newer = archive(classroom, later, time=(2026, 4, 1, 12, 0, 0))
    assert "updated " in run(classroom, newer, capsys)[1]
    assert submitted(classroom) == {f"ada/{NAME}/{FILE}": two}
    dated = archive(classroom, stamped(classroom, "2027-01-01"))
    _, printed = run(classroom, dated, capsys)
    assert "their times cannot be compared" in printed
    assert submitted(classroom) == {f"ada/{NAME}/{FILE}": two}


def test_what_the_instructor_corrected_by_hand_stays(classroom, capsys):
    source = archive(classroom, {f"ada/{FILE}": b"broken"})
    run(classroom, source, capsys)
    (classroom.root / "submitted" / "ada" / NAME / FILE).write_bytes(notebook(classroom))
    assert "1 unchanged" in run(classroom, source, capsys)[1]
    assert submitted(classroom) == {f"ada/{NAME}/{FILE}": notebook(classroom)}


def test_a_dry_run_writes_nothing(classroom, capsys):
    before = sorted(classroom.root.rglob("*"))
    source = archive(classroom, {f"{MOODLE}/{FILE}": notebook(classroom)})
    status, printed = run(classroom, source, capsys, dry_run=True)
    assert sorted(classroom.root.rglob("*")) == before
    assert (status, "Nothing was written" in printed) == (0, True)
    assert "zoe_angstrom  Zoë Ångström" in printed


def test_a_failing_disk_leaves_the_earlier_submission(classroom, capsys, monkeypatch):
    old = stamped(classroom, "2026-04-01 10:00 UTC")
    run(classroom, archive(classroom, old), capsys)
    new = stamped(classroom, "2026-04-02 10:00 UTC")
    write = collection.Path.write_bytes

    def full(self, content):
        if self.name == FILE:
            raise OSError(28, "No space left on device")
        return write(self, content)

    source = archive(classroom, new)
    monkeypatch.setattr(collection.Path, "write_bytes", full)
    status, printed = run(classroom, source, capsys)
    monkeypatch.undo()
    assert (status, "No space left" in printed) == (1, True)
    assert submitted(classroom) == old
    assert not list((classroom.root / "submitted" / "ada").glob(".collecting*"))
    assert run(classroom, source, capsys)[0] == 0  # the same command goes on
    assert submitted(classroom) == new


def test_files_that_differ_in_case_only_collide(classroom, capsys):
    files = {f"ada/{FILE}": notebook(classroom), "ada/Data.csv": b"1", "ada/data.csv": b"2"}
    _, printed = run(classroom, archive(classroom, files), capsys)
    assert "ada/data.csv: its name differs from Data.csv only in case" in printed
    assert submitted(classroom)[f"ada/{NAME}/Data.csv"] == b"1"


def test_a_folder_inside_that_names_another_student_is_said(classroom, capsys):
    mine, theirs = notebook(classroom), notebook(classroom, "def part_1():\n    return 2")
    files = {
        f"Ada_1_assignsubmission_file/{FILE}": mine,
        "Ben_2_assignsubmission_file/x.zip": submit_zip("ada", NAME, theirs),
    }
    _, printed = run(classroom, archive(classroom, files), capsys)
    assert submitted(classroom)[f"ada/{NAME}/{FILE}"] == mine
    assert submitted(classroom)[f"ben/{NAME}/{FILE}"] == theirs
    assert "the folder inside names another student, ada" in printed


def test_the_assignment_that_is_given_counts(classroom, capsys):
    source = archive(classroom, {f"ada/{FILE}": notebook(classroom)})
    status, printed = run(classroom, source, capsys, assignment="09_other")
    assert (status, submitted(classroom)) == (1, {})
    assert "a notebook of 08_small, expected 09_other" in printed
    with pytest.raises(CourseError, match="Did you mean 08_small"):
        collect(classroom.root, [source], "08_smal")


@pytest.mark.parametrize("content", [b"text", b"PK\x05\x06" + bytes(18) + b"x"])
def test_what_is_no_archive_is_refused(classroom, content, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.zip").write_bytes(content)
    given = ["attentively", "collect", str(tmp_path / "a.zip"), "--course", str(classroom.root)]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as end:
        main()
    if content == b"text":
        assert end.value.code == 1
        assert "neither a folder nor a zip archive" in capsys.readouterr().err
    with pytest.raises(CourseError, match="does not exist"):
        collect(classroom.root, [tmp_path / "b.zip"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("José-María O'Student 07", "jose_maria_o_student_07"),
        ("Łukasz Ørsted", "lukasz_orsted"),
        ("Straße", "strasse"),
        ("学生", ""),
        ("../x", "x"),
        ("a" * 99, "a" * 60),
    ],
)
def test_names_become_ids(name, expected):
    assert safe_id(name) == expected


def test_ids_are_stable_and_differ():
    """Moodle's numbers change with each assignment, Canvas's do not."""
    first = [Who("moodle", "Zoë", "11"), Who("moodle", "Ada B", "1"), Who("moodle", "Ada B", "2")]
    first += [Who("canvas", "zoe", "7"), Who("folder", "ZOE"), Who("moodle", "学生", "5")]
    rows, ids = with_ids([], first)
    assert len({each.casefold() for each in ids.values()}) == 6
    assert {ids[who] for who in first[1:3]} == {"ada_b", "ada_b_2"}
    assert ids[first[5]] == "student_5"
    later = [Who("moodle", "zoë", "21"), Who("canvas", "zoemarried", "7"), first[4]]
    again, new = with_ids(rows, later)
    assert [new[who] for who in later] == [ids[first[0]], ids[first[3]], ids[first[4]]]
    assert again == rows
    # Of two students with one name, none may get the submission of the other.
    _, new = with_ids(rows, [Who("moodle", "Ada B", "30")])
    assert new[Who("moodle", "Ada B", "30")] not in ids.values()


def test_the_table_can_be_edited_and_is_checked(classroom, capsys):
    row = Row("ada", Who("moodle", "Zoë Ångström", "1"))
    students_table.write(classroom.root, [row])
    assert students_table.read(classroom.root) == [row]
    run(classroom, archive(classroom, {f"{MOODLE}/{FILE}": notebook(classroom)}), capsys)
    assert [*submitted(classroom)] == [f"ada/{NAME}/{FILE}"]
    for text, words in {"a,b\n1,2\n": "Expected the columns", "../x": "is not valid"}.items():
        table = text if "," in text else f"student,name,platform,number\n{text},a,moodle,1\n"
        (classroom.root / "students.csv").write_text(table, encoding="utf-8")
        with pytest.raises(CourseError, match=words):
            students_table.read(classroom.root)


def test_two_rows_with_one_id_do_not_mix_submissions(classroom, capsys):
    rows = [Row("ada", Who("moodle", name, "")) for name in ("Ada", "Ben")]
    students_table.write(classroom.root, rows)
    files = {
        f"{name}_{number}_assignsubmission_file/{FILE}": notebook(classroom, f"# {name}")
        for number, name in enumerate(["Ada", "Ben"])
    }
    status, printed = run(classroom, archive(classroom, files), capsys)
    assert status == 1
    assert "another student of students.csv has the same id" in printed
    assert submitted(classroom) == {f"ada/{NAME}/{FILE}": notebook(classroom, "# Ada")}


def test_nbgrader_collects_the_same_downloads_with_our_configuration(classroom, capsys):
    """Nbgrader's own command: ids are the numbers of the platform, or the folder inside."""
    mine = notebook(classroom)
    inside = submit_zip("zoe", NAME, mine)
    release = classroom.root / "exercises" / NAME / FILE
    release.parent.mkdir(parents=True)
    release.write_bytes(mine)
    files = {
        f"Zoë Ångström_101_assignsubmission_file/{FILE}": mine,
        f"Zoë 08 Ångström_102_assignsubmission_file_/{FILE}": mine,
        f"Zoë Ångström_103_assignsubmission_file_{FILE}": mine,
        f"Zoë Ångström_104_assignsubmission_file/{NAME}-zoe.zip": inside,
        f"ångströmzoë_105_9001_{FILE}": mine,
        f"ångströmzoë_LATE_106_9002_{NAME}-1.ipynb": mine,
        f"ångströmzoë_107_9003_{NAME}-zoe.zip": inside,
        f"{NAME}-ada.zip": submit_zip("ada", NAME, mine),
        f"ben/{NAME}/{FILE}": mine,
        f"Zoë Ångström_108_assignsubmission_file/my {FILE}.txt": b"not a notebook",
        f"Zoë_109_assignsubmission_onlinetext/{FILE}": mine,
    }
    folder = classroom.root / "downloaded" / NAME / "archive"
    folder.mkdir(parents=True)
    (folder / "class 1.zip").write_bytes(zipped(files))
    command = [sys.executable, "-m", "nbgrader", "zip_collect", NAME]
    ran = subprocess.run(command, cwd=classroom.root, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    students = [*map(str, range(101, 108)), "ada", "ben"]
    assert submitted(classroom) == {f"{student}/{NAME}/{FILE}": mine for student in students}
