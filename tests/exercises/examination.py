"""Examine every answer of a part, once, and list all the faults found."""

import contextlib
import functools
import io
import random
import traceback
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch
from assignments import Assignment, call, each_of, faults_of_message, title
from remembered import Remembered, other_generators

from attentively.checks import CheckFailed, NotImplementedYet, Part, Verdict

UNCALLABLE = (None, 3, "an answer", torch)


def unwritten(*_):
    raise NotImplementedError


@dataclass(frozen=True)
class Examination:
    """What is wrong with a part or its answers, and what the check says of the wrong answers."""

    faults: list[str]
    messages: list[str]


@functools.cache
def examined(assignment: Assignment, name: str) -> Examination:
    """Examine a part with its answers in the bank; a process does so once."""
    return examine(
        assignment.parts[name], assignment.right.get(name, []), assignment.wrong.get(name, [])
    )


def examine(part: Part, right, wrong) -> Examination:
    """Check right, wrong, unwritten and uncallable answers; list everything unexpected.

    That a message does not depend on the random numbers of the notebook is seen without a second
    run of each answer, because a message can depend on three generators only. Of PyTorch's, the
    check must start in the same state whatever state the notebook is in, which `_Session` sees in
    every run. Where Python's or NumPy's moves during a check, the answer is checked again with
    other seeds. So is the first wrong answer, after all others and with nothing left out: no answer
    may change what the check says of another.
    """
    session = _Session(part)
    remembered = Remembered(each for answer in right for each in each_of(answer))
    with remembered.left_out():
        for answer in right:
            for thorough in (False, True):
                session.run_right(answer, thorough)
        messages = [session.run_wrong(answer, words) for answer, words in wrong]
    if wrong:
        session.repeat(*wrong[0], messages[0])
    if right:
        session.run_right(right[0], thorough=False)
    session.run_unwritten()
    for candidate in UNCALLABLE:
        session.run_uncallable(candidate)
    return Examination(session.faults, messages)


@dataclass(frozen=True)
class _Run:
    """How one call of a check ended."""

    verdict: Exception | None
    printed: str
    moved: bool
    """Whether Python's or NumPy's generator was used."""

    @property
    def said(self):
        if self.verdict is None:
            return f"nothing but {self.printed!r}"
        if isinstance(self.verdict, Verdict):
            return f"{type(self.verdict).__name__}: {self.verdict}"
        return "".join(traceback.format_exception(self.verdict)).rstrip()


class _Session:
    """The runs of one part: each from another state of the notebook's random numbers."""

    def __init__(self, part):
        self.part = part
        self.faults = []
        self.runs = 0
        self.starts = []
        """The states of PyTorch's generator in which the check started."""

    def fault(self, answer, expected, said):
        text = "\n".join(f"    {line}" for line in str(said).splitlines())
        self.faults.append(f"{answer}\n  expected {expected}; the check said\n{text}")

    def run(self, what, answer, **options):
        """Check an answer; list it as a fault if the random numbers are not left alone."""
        self.runs += 1
        torch.manual_seed(self.runs)
        random.seed(self.runs)
        np.random.seed(self.runs)
        before = torch.get_rng_state()
        others, started = other_generators(), []
        check = self.part.check

        def watched(*candidates, thorough):
            started.append(torch.get_rng_state())
            check(*candidates, thorough=thorough)

        verdict, printed = None, io.StringIO()
        with mock.patch.object(self.part, "check", watched), contextlib.redirect_stdout(printed):
            try:
                call(self.part, answer, **options)
            except Exception as error:
                verdict = error
        run = _Run(verdict, printed.getvalue(), other_generators() != others)
        if not torch.equal(torch.get_rng_state(), before):
            self.fault(what, "the random numbers of the notebook to be left alone", run.said)
        self.starts += started
        if not all(torch.equal(state, self.starts[0]) for state in started):
            expected = "the check to start from random numbers of its own, not of the notebook"
            self.fault(what, expected, run.said)
        return run

    def run_right(self, answer, thorough):
        what = f"right answer {title(answer)}{' (thorough)' * thorough}"
        run = self.run(what, answer, thorough=thorough)
        expected = f"{self.part.label}: right"
        if run.verdict is not None or not run.printed.startswith(expected):
            self.fault(what, repr(expected), run.said)

    def run_wrong(self, answer, words):
        """Return the message that a wrong answer gets, or nothing if it gets none."""
        what = f"wrong answer {title(answer)}"
        run = self.run(what, answer)
        if not isinstance(run.verdict, CheckFailed):
            self.fault(what, f"a message with {words!r}", run.said)
            return ""
        said = str(run.verdict)
        found = faults_of_message(self.part, said, words)
        if found:
            self.fault(what, f"a message with {words!r}, but {' and '.join(found)}", said)
        if run.moved:
            self.repeat(answer, words, said)
        return said

    def repeat(self, answer, words, said):
        """Check a wrong answer again, which must get the same message."""
        what = f"wrong answer {title(answer)} (again)"
        run = self.run(what, answer)
        if str(run.verdict) != said and "two different answers" not in words:
            self.fault(what, f"the same message, which was\n{said}\n  but this time", run.said)

    def run_unwritten(self):
        run = self.run("unwritten answer", (unwritten,) * len(self.part.names))
        expected = f"{self.part.label}: not implemented yet"
        said = str(run.verdict)
        if (
            not isinstance(run.verdict, NotImplementedYet)
            or not said.startswith(expected)
            or "\n" in said
        ):
            self.fault("unwritten answer", f"one line, {expected!r}", run.said)

    def run_uncallable(self, candidate):
        what = f"uncallable answer {candidate!r}"
        run = self.run(what, (candidate,) * len(self.part.names))
        if not isinstance(run.verdict, Verdict):
            self.fault(what, "a message that refuses it", run.said)
