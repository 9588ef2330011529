"""The time limit of an offer ends a call, and is no error of the test that sets it."""

import sys
import time

import offers
import pytest


class Slow:
    """Uses CPU time when it is deleted, where Python ignores exceptions."""

    def __del__(self):
        _use_cpu_time(0.2)


class Faulty:
    def __del__(self):
        raise ValueError("an error of its own")


def _use_cpu_time(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.fixture
def reported(monkeypatch):
    """Return a list of the exceptions that Python ignores: pytest would make errors of them."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: found.append(args.exc_type))
    return found


def test_a_limit_that_is_reached_in_a_finalizer_is_no_error_of_the_test(reported):
    def call():
        Slow()
        _use_cpu_time(5)

    with pytest.raises(offers._TooLongError), offers.within_the_time(0.05):
        call()
    assert reported == []


def test_other_exceptions_in_a_finalizer_are_still_reported(reported):
    with offers.within_the_time(5):
        Faulty()
    assert reported == [ValueError]
