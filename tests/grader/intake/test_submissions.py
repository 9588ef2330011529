"""Reading what students hand in: whatever it is, it does no harm and is set aside in words."""

import io
import json
import os
import socket
import subprocess
import sys
import time
import zipfile

import pytest

from attentively_grader.course.course import Submission
from attentively_grader.intake import submissions
from attentively_grader.intake.submissions import SubmissionError, parse, printable, read

IGNORE = [".ipynb_checkpoints", "*.pyc", "__pycache__"]
CELL = {"cell_type": "code", "id": "one", "metadata": {}, "source": "1", "outputs": []}
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [CELL]}


@pytest.fixture
def handed_in(tmp_path):
    folder = tmp_path / "submitted" / "anna" / "small"
    folder.mkdir(parents=True)
    (folder / "small.ipynb").write_text(json.dumps(NOTEBOOK))
    return Submission("anna", "small", folder)


def refused(submission):
    with pytest.raises(SubmissionError) as caught:
        read(submission, ["small"], IGNORE)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    return str(caught.value)


def test_a_plain_submission_is_read(handed_in):
    (handed_in.folder / "data").mkdir()
    (handed_in.folder / "data" / "points.csv").write_text("1,2\n")
    (handed_in.folder / "__pycache__").mkdir()
    (handed_in.folder / "__pycache__" / "helper.pyc").write_bytes(b"of no account")
    found = read(handed_in, ["small"], IGNORE)
    assert [cell.source for cell in found.notebooks["small"]] == ["1"]
    assert list(found.files) == ["data/points.csv"]
    assert found.remarks == ()


def test_the_fingerprint_sees_every_file_and_no_cache(handed_in):
    first = read(handed_in, ["small"], IGNORE).content
    (handed_in.folder / "helper.pyc").write_bytes(b"of no account")
    assert read(handed_in, ["small"], IGNORE).content == first
    (handed_in.folder / "notes.txt").write_text("mine")
    second = read(handed_in, ["small"], IGNORE).content
    (handed_in.folder / "notes.txt").write_text("yours")
    assert len({first, second, read(handed_in, ["small"], IGNORE).content}) == 3


# Case 37: links, pipes, devices, archives


def links_to_a_file(folder):
    (folder / "notes.txt").symlink_to("/etc/passwd")


def is_a_link(folder):
    (folder / "small.ipynb").rename(folder / "real.ipynb")
    (folder / "small.ipynb").symlink_to("real.ipynb")


def links_to_a_folder(folder):
    (folder / "data").symlink_to("/etc")


def links_to_nothing(folder):
    (folder / "data").symlink_to("/nowhere")


def has_a_pipe(folder):
    os.mkfifo(folder / "data.csv")


def is_a_pipe(folder):
    (folder / "small.ipynb").unlink()
    os.mkfifo(folder / "small.ipynb")


def has_a_socket(folder):
    before = os.getcwd()
    os.chdir(folder)  # a socket's path must be short
    try:
        socket.socket(socket.AF_UNIX).bind("s")
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (links_to_a_file, "notes.txt is a symbolic link"),
        (is_a_link, "small.ipynb is a symbolic link"),
        (links_to_a_folder, "data is a symbolic link"),
        (links_to_nothing, "data is a symbolic link"),
        (has_a_pipe, "data.csv is a named pipe"),
        (is_a_pipe, "small.ipynb is a named pipe"),
        (has_a_socket, "s is a socket"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_only_plain_files_are_opened(handed_in, harm, words):
    harm(handed_in.folder)
    started = time.monotonic()
    assert words in refused(handed_in)
    assert time.monotonic() - started < 5


def test_a_device_is_refused(handed_in):
    try:
        os.mknod(handed_in.folder / "disk", 0o60600, os.makedev(7, 0))
    except PermissionError:
        pytest.skip("only the superuser makes devices")
    assert "disk is a device" in refused(handed_in)


def test_a_folder_that_is_a_link_to_anothers_work_is_refused(handed_in):
    student = handed_in.folder.parent
    (student.parent / "bert").symlink_to(student)
    theirs = Submission("bert", "small", student.parent / "bert" / "small")
    assert "the folder bert is a symbolic link" in refused(theirs)
    (student / "copy").symlink_to(handed_in.folder)
    assert "the folder copy is" in refused(Submission("anna", "copy", student / "copy"))


def test_a_pipe_put_in_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SubmissionError, match="is a named pipe"):
        submissions.read_file(tmp_path / "pipe", "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(SubmissionError, match="cannot be read"):
        submissions.read_file(tmp_path / "link", "link")


def zipped(name, content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def test_archives_are_not_opened(handed_in):
    bomb = zipped("small.ipynb", b"\0" * 50_000_000)
    (handed_in.folder / "small.ipynb").write_bytes(bomb)
    assert "not a readable notebook" in refused(handed_in)
    (handed_in.folder / "small.ipynb").unlink()
    (handed_in.folder / "work.zip").write_bytes(zipped("../../../escaped.ipynb", b"{}"))
    assert "found work.zip. Archives are not opened" in refused(handed_in)
    assert not list(handed_in.folder.parent.parent.parent.rglob("escaped*"))


def test_what_is_too_large_is_not_read(handed_in, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_FILES", 3)
    for number in range(4):
        (handed_in.folder / f"{number}.txt").write_text("1")
    assert "more than 3 files" in refused(handed_in)
    monkeypatch.undo()
    with open(handed_in.folder / "huge.bin", "wb") as file:
        file.truncate(submissions.LARGEST_FILE + 1)  # holds nothing, takes no room
    assert "huge.bin is larger than 64 MiB" in refused(handed_in)
    (handed_in.folder / "huge.bin").unlink()
    monkeypatch.setattr(submissions, "LARGEST_SUBMISSION", 10)
    assert "together" in refused(handed_in)


def test_folders_in_folders_come_to_an_end(handed_in):
    deep = handed_in.folder
    for _ in range(30):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert "more than 20 deep" in refused(handed_in)


@pytest.mark.parametrize("date", ["1." * 160_000, "1 " * 160_000, "9" * 320_000])
def test_no_date_takes_for_ever(handed_in, date):
    """Milliseconds each; were it quadratic, a minute."""
    (handed_in.folder / "timestamp.txt").write_text(date)
    started = time.process_time()
    assert "timestamp.txt contains '" in refused(handed_in)
    assert time.process_time() - started < 5


# Case 33: wrong names


def test_a_wrong_name_is_said(handed_in):
    (handed_in.folder / "small.ipynb").rename(handed_in.folder / "Small (1).ipynb")
    assert refused(handed_in) == "expected small.ipynb, found Small (1).ipynb"


def test_an_empty_folder_and_a_file_instead_are_said(handed_in):
    (handed_in.folder / "small.ipynb").unlink()
    assert "the folder is empty" in refused(handed_in)
    handed_in.folder.rmdir()
    handed_in.folder.write_text("my work")
    assert "small is a file" in refused(handed_in)


def test_a_further_notebook_is_passed_over_and_said(handed_in):
    (handed_in.folder / "scratch\x1b[2J.ipynb").write_text("not even a notebook")
    found = read(handed_in, ["small", "second"], IGNORE)
    assert list(found.notebooks) == ["small"]
    assert found.remarks[0] == "second.ipynb is missing"
    assert "is not a notebook of this assignment" in found.remarks[1]
    assert "\x1b" not in found.remarks[1]


@pytest.mark.parametrize("name", ["cannot+be", "-rf", "a b", "..", "é", "a\n"])
def test_a_name_that_is_a_path_or_a_pattern_is_refused(handed_in, name):
    assert "use letters" in refused(Submission(name, "small", handed_in.folder))


# Case 32: what is no notebook


def changed(**fields):
    return json.dumps(NOTEBOOK | fields).encode()


UNREADABLE = {
    "truncated": b'{"cells": [',
    "binary": bytes(range(256)),
    "empty": b"",
    "a list": b"[]",
    "format 3": b'{"nbformat": 3, "worksheets": []}',
    "format 5": changed(nbformat=5),
    "no cells": changed(cells=None),
    "none at all": changed(cells=[]),
    "cell is text": changed(cells=["1"]),
    "unknown kind": changed(cells=[CELL | {"cell_type": "heading"}]),
    "source is a number": changed(cells=[CELL | {"source": 1}]),
    "source holds numbers": changed(cells=[CELL | {"source": [1]}]),
    "cell is huge": changed(cells=[CELL | {"source": "a" * (submissions.LARGEST_CELL + 1)}]),
    "many cells": changed(cells=[CELL] * (submissions.MOST_CELLS + 1)),
    "deep": b'{"nbformat": 4, "cells": ' + b"[" * 100_000,
    "long number": b'{"nbformat": ' + b"9" * 100_000 + b"}",
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_notebook_is_one_kind_of_error(content):
    with pytest.raises(SubmissionError, match=r"^small is not a readable notebook: .") as caught:
        parse(content, "small")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


ODD_BUT_READABLE = {
    "byte order mark": b"\xef\xbb\xbf" + changed(),
    "lines": changed(cells=[CELL | {"source": ["1"]}]),
    "no id": changed(cells=[{"cell_type": "code", "source": "1"}]),
    "marks are a list": changed(cells=[CELL | {"metadata": {"nbgrader": []}}]),
    "metadata is text": changed(cells=[CELL | {"metadata": "1"}]),
    "mark is a number": changed(cells=[CELL | {"metadata": {"nbgrader": {"grade_id": 1}}}]),
    "outputs are anything": changed(cells=[CELL | {"outputs": {"a": float("nan")}}]),
}


@pytest.mark.parametrize("content", ODD_BUT_READABLE.values(), ids=ODD_BUT_READABLE)
def test_what_an_editor_leaves_behind_does_not_matter(content):
    (cell,) = parse(content, "small")
    assert (cell.kind, cell.source, cell.mark) == ("code", "1", None)


def test_half_a_character_is_replaced():
    """Case 36."""
    (cell,) = parse(changed(cells=[CELL | {"source": "a\ud800b\0"}]), "small")
    assert cell.source == "a\N{REPLACEMENT CHARACTER}b\0"
    cell.source.encode()


def test_what_is_told_on_a_terminal_commands_nothing():
    assert printable("a\x1b[2J\r\n\u202eb\ud800") == "a\ufffd[2J\ufffd\ufffd\ufffdb\ufffd"
    assert len(printable("a" * 10_000)) < 400


def test_only_pictures_are_taken_of_attachments():
    attachments = {
        "good.png": {"image/png": "QUJD"},
        "bad.png": {"image/png": '"><script>'},
        "page.html": {"text/html": "QUJD"},
        "wrong": 1,
    }
    kept = parse(changed(cells=[CELL | {"attachments": attachments}]), "small")[0].attachments
    assert kept == {"good.png": {"image/png": "QUJD"}}


# Limits before parsing

MIB = 2**20
MEASURED = """
import resource, sys
from attentively_grader.intake.submissions import SubmissionError, parse
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for text in map(str.encode, sys.argv[1:]):
    try:
        parse(text[:1] + text[1:] * (31 * 2**20 // len(text[1:])), "small.ipynb")
    except SubmissionError as error:
        print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
BOMBS = {
    "[{},": "more than 1000000 values",
    "[[],": "more than 1000000 values",
    "[1.5,": "more than 1000000 values",
    '["",': "more than 1000000 values",
    "[[": "nested more than 50 deep",
    '"\\"': "truncated or damaged",
}


def test_a_notebook_of_many_small_values_takes_no_memory():
    """62 MiB of empty objects took 2.2 GiB."""
    command = [sys.executable, "-c", MEASURED, *BOMBS]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout
    *reasons, grown = said.splitlines()
    assert len(reasons) == len(BOMBS)
    assert all(words in reason for words, reason in zip(BOMBS.values(), reasons, strict=True))
    assert int(grown) < 200


def test_a_large_notebook_is_refused_with_the_limit():
    with pytest.raises(SubmissionError, match="larger than 32 MiB, the limit"):
        parse(b" " * (32 * MIB + 1), "small.ipynb")


def test_brackets_in_a_text_do_not_count():
    cell = {**CELL, "source": '[{"\\' * 1000}
    content = json.dumps({**NOTEBOOK, "cells": [cell]}).encode()
    assert parse(content, "small.ipynb")[0].source == cell["source"]


# Files that a browser executes


@pytest.mark.parametrize(
    "name",
    [
        "page.html",
        "PAGE.HTM",
        "a.xhtml",
        "plot.svg",
        "plot.svgz",
        "a.xml",
        "x.js",
        "a.rss",
        "a.mht",
    ],
)
def test_a_remark_names_files_that_act(handed_in, name):
    (handed_in.folder / name).write_text("<script>alert(1)</script>")
    (remark,) = read(handed_in, ["small"], IGNORE).remarks
    assert remark.startswith(f"{name} can act in a browser")
    assert read(handed_in, ["small"], IGNORE, [name]).remarks == ()


@pytest.mark.parametrize("name", ["notes.txt", "data.csv", "plot.png", "model.pt", "html", "a.py"])
def test_other_files_do_not_act(name):
    assert not submissions.is_active(name)
