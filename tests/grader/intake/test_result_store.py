"""Results in files: found again, whole or not there, whoever writes and whatever ends it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from attentively_grader.course.course import CourseError
from attentively_grader.intake import result_store
from attentively_grader.intake.result_store import Results, write_whole
from attentively_grader.jobs import CellOutcome, Limits, Outcome

OUTCOME = Outcome(
    [
        CellOutcome(
            "check-1", [{"output_type": "stream", "name": "stdout", "text": "a\ud800"}], True
        )
    ],
    end="timeout",
    reason="too slow",
)


def test_a_result_is_found_again(tmp_path):
    kept = Results(tmp_path)
    assert kept.find("abc") is None
    kept.keep("abc", OUTCOME)
    assert kept.find("abc") == OUTCOME
    assert kept.find("abd") is None
    assert [path.name for path in tmp_path.rglob("*.json")] == ["abc.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"key": "other", "outcome": {}}'])
def test_what_is_no_result_counts_as_none(tmp_path, content):
    kept = Results(tmp_path)
    kept.keep("abc", OUTCOME)
    kept.path("abc").write_bytes(content)
    assert kept.find("abc") is None


def test_the_name_says_all_that_matters():
    notebook = {"cells": [{"source": "1"}]}
    names = {
        result_store.key(notebook, Limits(), True, {"source": "a"}),
        result_store.key({"cells": [{"source": "2"}]}, Limits(), True, {"source": "a"}),
        result_store.key(notebook, Limits(seconds=1), True, {"source": "a"}),
        result_store.key(notebook, Limits(), False, {"source": "a"}),
        result_store.key(notebook, Limits(), True, {"source": "b"}),
    }
    assert len(names) == 5
    assert result_store.key(notebook, Limits(), True, {"source": "a"}) in names


def test_the_environment_is_named():
    found = result_store.environment()
    assert found["python"].startswith("3.")
    assert len(found["packages"]) == 64


def test_a_folder_changes_with_its_files_and_not_with_caches(tmp_path):
    first = result_store.fingerprint(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"1")
    assert result_store.fingerprint(tmp_path) == first
    (tmp_path / "a.py").write_text("1")
    assert result_store.fingerprint(tmp_path) != first


def write_for_ever(path, letter):
    while True:
        write_whole(path, letter * 100_000)


def test_several_writers_that_are_killed_leave_a_whole_file(tmp_path):
    """Cases 43 and 44: kill -9 at a random moment, two runs at once."""
    path = tmp_path / "result.json"
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        writers = [context.Process(target=write_for_ever, args=(path, each)) for each in "ab"]
        for each in writers:
            each.start()
        time.sleep(0.1)
        for each in writers:
            os.kill(each.pid, signal.SIGKILL)
            each.join()
        if path.exists():
            content = path.read_text()
            assert len(content) == 100_000
            assert len({*content}) == 1
    assert path.exists()


def test_a_full_disk_is_said_and_leaves_no_piece(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CourseError, match=r"cannot be written: No space left.*repeat the command"):
        Results(tmp_path).keep("abc", OUTCOME)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_a_killed_run_had_begun_to_write_is_removed(tmp_path):
    kept = Results(tmp_path)
    kept.keep("abc", OUTCOME)
    begun = [tmp_path / "ab" / f"{name}.writing" for name in ("old", "new")]
    for path in begun:
        path.touch()
    os.utime(begun[0], (0, 0))
    result_store.remove_leftovers(tmp_path)
    assert [path.exists() for path in begun] == [False, True]
    assert kept.find("abc") == OUTCOME


def test_the_copies_of_a_killed_run_are_removed_at_the_next_start(tmp_path):
    """A killed run cannot remove them itself; a running one keeps its own."""
    kept = tmp_path / ".graded"
    code = (
        "import os, sys; from pathlib import Path\n"
        "from attentively_grader.intake.result_store import scratch_folder\n"
        "with scratch_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'answer.py').write_text('secret')\n"
        "    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(kept)], check=False, timeout=120)
    assert len([*kept.rglob("answer.py")]) == 1
    with result_store.scratch_folder(kept) as first:
        assert not [*kept.rglob("answer.py")]
        (first / "answer.py").write_text("mine")
        with result_store.scratch_folder(kept) as second:
            assert second != first
            assert (first / "answer.py").is_file()
        for folder in (first, first.parent):
            assert folder.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in (kept / "scratch").iterdir()] == ["lock"]
