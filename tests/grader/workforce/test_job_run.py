"""One job under way, without its processes: what the examiner says is heard, whenever it comes."""

import os
import socket
from types import SimpleNamespace

import pytest

from attentively_grader.jobs import CellOutcome, Job, Limits, Outcome
from attentively_grader.sandbox.process_channel import send
from attentively_grader.sandbox.zygote import unpack
from attentively_grader.workforce.job_run import JobRun, KilledError, archive, in_memory
from attentively_grader.workforce.zygote_client import BrokenError


class Examiner:
    """A process of which a test says when it ends."""

    pid, status, failure = 1, 0, ""
    has_ended = False

    def ended(self):
        return self.has_ended

    def wait(self, seconds):
        return True

    def killed(self):
        return self.status == 9


@pytest.fixture
def run(monkeypatch):
    """A run whose examiner is there and passes no limit; it has no student's process."""
    watchdog = SimpleNamespace(look=lambda: None)
    monkeypatch.setattr("attentively_grader.workforce.job_run.Watchdog", lambda *_: watchdog)
    made = object.__new__(JobRun)
    made.job, made.examine, made.examiner_limits = Job("x", {}), "a:b", Limits()
    made.examiner, made.student, made.watchdog, made.verdict = Examiner(), None, None, None
    made.students = SimpleNamespace(sandbox=SimpleNamespace(walls=True))
    made.peak_mib, made.start = 0, 0.0
    made.at, made.done, made.killed, made.over = None, {}, "", ""
    made.line, made.theirs = socket.socketpair()
    with made.line, made.theirs:
        yield made


def test_an_outcome_that_comes_just_after_a_look_is_heard(run):
    """The examiner sends it and ends before anybody asks whether it has ended."""
    looks = []

    def select(seconds):
        looks.append(seconds)
        if len(looks) > 1:
            return [(SimpleNamespace(fileobj=run.line), 1)]
        outcome = Outcome([CellOutcome("c")])
        send(run.theirs, {"outcome": outcome.to_dict(), "imported": ["torch"]})
        run.examiner.has_ended = True
        return []

    run.ready = SimpleNamespace(select=select)
    assert run.outcome().cells == [CellOutcome("c")]
    assert run.imported == ["torch"]


def test_an_examiner_that_ends_without_a_word_is_said(run):
    run.examiner.has_ended = True
    run.ready = SimpleNamespace(select=lambda seconds: [])
    with pytest.raises(BrokenError, match=r"the examiner process ended: .*\(exit 0\)"):
        run.outcome()


def test_an_examiner_that_was_killed_is_no_fault_of_the_grader(run):
    run.examiner.has_ended, run.examiner.status = True, 9
    run.ready = SimpleNamespace(select=lambda seconds: [])
    with pytest.raises(KilledError, match="killed from outside"):
        run.outcome()


def test_the_files_are_unpacked_wherever_another_process_has_read_to(tmp_path, monkeypatch):
    """The two processes of a job share one position in the archive and read it side by side."""
    folder = tmp_path / "next to the notebook"
    folder.mkdir()
    (folder / "counts.csv").write_text("word,count")
    shared = in_memory(archive(folder))
    os.lseek(shared, 100, os.SEEK_SET)
    monkeypatch.chdir(tmp_path)
    unpack(os.dup(shared))
    assert (tmp_path / "counts.csv").read_text() == "word,count"
    assert os.lseek(shared, 0, os.SEEK_CUR) == 100, "the other process would read from here"
    os.close(shared)
