"""Jobs and outcomes as plain data."""

import json

from attentively_grader.jobs import CellOutcome, Job, Limits, Outcome


def test_a_job_is_the_same_after_a_message(tmp_path):
    limits = Limits(seconds=3, memory_mib=99)
    job = Job(
        "ada",
        {"cells": []},
        None,
        limits,
        solution=True,
        returned={"f()": ["plain"]},
        beside=("a",),
    )
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    assert Job.from_dict(job.to_dict(), files=tmp_path).files == tmp_path


def test_an_outcome_is_the_same_after_a_message():
    outcome = Outcome([CellOutcome("a", points=2.5, weaker=True)], returned={"f()": ["plain"]})
    assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome
