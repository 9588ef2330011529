"""The process that renders feedback pages: what ends it, or takes too long, costs one page."""

import os
import threading
import time

import pytest

from attentively_grader.course.course import Submission
from attentively_grader.reports import feedback_process
from attentively_grader.reports.feedback_process import Pages


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Return pages whose renderer does what the name of the student says, and notes it."""

    def serve(root, line, _):
        while True:
            student = line.recv().student
            with open(root / student, "a") as tries:
                tries.write("tried\n")
            if student == "ends" or (
                student == "ends-once" and len((root / student).read_text().split()) == 1
            ):
                os._exit(139)
            if student == "slow":
                time.sleep(60)
            line.send("no such page" * (student == "wrong"))

    monkeypatch.setattr(threading, "active_count", lambda: 1)  # a fork, which knows `serve`
    monkeypatch.setattr(feedback_process, "_serve", serve)
    monkeypatch.setattr(feedback_process, "FIRST_SECONDS", 10.0)
    return Pages(tmp_path)


def rendered(pages, *students):
    """Return what is missing, and how often each page was tried."""
    with pages:
        for student in students:
            pages.ask(Submission(student, "08", pages.root))
    missed = {submission.student: why for submission, why in pages.missed.items()}
    tries = {student: len((pages.root / student).read_text().split()) for student in students}
    return missed, tries


def test_a_page_on_which_the_process_ends_is_rendered_again(pages):
    missed, tries = rendered(pages, "ada", "ends-once", "ben")
    assert missed == {}
    assert tries == {"ada": 1, "ends-once": 2, "ben": 1}


def test_a_page_on_which_the_process_always_ends_is_missing(pages):
    missed, tries = rendered(pages, "ends", "ada", "ends-once", "wrong")
    assert missed == {
        "ends": "rendering the page ended the process twice (too little memory?)",
        "wrong": "no such page",
    }
    assert tries == {"ends": 2, "ada": 1, "ends-once": 2, "wrong": 1}


def test_a_page_that_takes_too_long_is_missing(pages, monkeypatch):
    monkeypatch.setattr(feedback_process, "FIRST_SECONDS", 2.0)
    missed, tries = rendered(pages, "slow", "ada")
    assert missed == {"slow": "the page took longer than 2 s"}
    assert tries == {"slow": 1, "ada": 1}
