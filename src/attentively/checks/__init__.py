"""Checks of the assignments: a failed check names the likely mistake.

There is one folder per assignment, named by its topic. A check calls the candidate (the student's
function or class) with plain tensors and examines the result. It never reads the source, so every
correct implementation passes. A check has stages: first inputs that fit on paper, then odd sizes,
one mechanism at a time. It stops at the first stage that fails. If the answer equals that of a
known mistake, the message names the mistake.

A failed check shows one readable message instead of a traceback.
"""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch

from attentively.checks import open_call, own_functions
from attentively.checks.calls import call, call_twice, expect_gradients, expect_gradients_through
from attentively.checks.compare import (
    ATOL,
    RTOL,
    CheckFailed,
    NotImplementedYet,
    Twin,
    Verdict,
    describe,
    expect_equal,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    known,
    plain_number,
    plain_tensor,
    show,
    wrapped,
)
from attentively.checks.undefined_names import explain_undefined_names

__all__ = [
    "ATOL",
    "RTOL",
    "CheckFailed",
    "NotImplementedYet",
    "Part",
    "Parts",
    "Twin",
    "Verdict",
    "call",
    "call_twice",
    "describe",
    "expect_equal",
    "expect_gradients",
    "expect_gradients_through",
    "expect_pair",
    "expect_tensor",
    "expect_value",
    "in_32_bits",
    "in_turn",
    "known",
    "once_solved",
    "plain_number",
    "plain_tensor",
    "show",
]


class Part:
    """One graded part of an assignment: call it with the student's functions or classes.

    With `thorough`, it also checks further inputs of other sizes. It prints one line if the
    answer is right, and raises a `Verdict` otherwise.
    """

    def __init__(
        self,
        number: int,
        title: str,
        names: tuple[str, ...],
        check: Callable[..., None],
        rebuilds: tuple[str, ...] = (),
        refuses: tuple[str, ...] = (),
        step: bool = False,
    ) -> None:
        self.number = number
        self.title = title
        self.names = names
        """The names of the candidates in the notebook, in the order of the arguments."""
        self.rebuilds = rebuilds
        """Import paths of the functions and classes that the part rebuilds."""
        self.refuses = refuses
        """Import paths of others that do the same, which are not accepted either."""
        self.step = step
        """Whether the part rebuilds only a step of what `rebuilds` names."""
        self.check = check
        self.__doc__ = check.__doc__

    @property
    def label(self) -> str:
        return f"Part {self.number} ({self.title})"

    @property
    def policy(self) -> str:
        """The sentence that tells readers of the notebook what this part rebuilds; else ""."""
        return self._policy("`") if self.rebuilds else ""

    def _policy(self, mark: str = "") -> str:
        return own_functions.policy(self.rebuilds, self.refuses, self.step, mark)

    def _examine(self, candidates: tuple[object, ...], thorough: bool) -> None:
        refused = (*self.rebuilds, *self.refuses)
        try:
            # Candidates may use random numbers; later cells must not be affected.
            with (
                torch.random.fork_rng(devices=[]),
                own_functions.refusing(refused, candidates),
                open_call.examining(self, candidates, thorough),
            ):
                torch.manual_seed(0)
                self.check(*candidates, thorough=thorough)
        except own_functions.OwnFunctionUsed as error:
            raise CheckFailed(
                f"  {self._policy()} Your code uses "
                f"{str(error).replace(':', '.')}. Write the computation yourself."
            ) from None

    def __call__(self, *candidates: object, thorough: bool = False) -> None:
        """Check the candidates, one for each of `names`."""
        try:
            self._examine(candidates, thorough)
        except NotImplementedYet as verdict:
            raise NotImplementedYet(f"{self.label}: not implemented yet{verdict}") from None
        except CheckFailed as verdict:
            lines = [wrapped(line) for line in str(verdict).splitlines()]
            raise CheckFailed("\n".join([f"{self.label}: not right yet.", *lines])) from None
        print(f"{self.label}: right{' on further inputs too' * thorough}.")

    def state(self, *candidates: object) -> str:
        """Return the result of the check in one line: solved, not yet, or what is wrong."""
        try:
            self._examine(candidates, thorough=False)
        except NotImplementedYet:
            return "not yet"
        except CheckFailed as verdict:
            return f"wrong: {textwrap.shorten(str(verdict).strip().splitlines()[0], 100)}"
        return "solved"


class Parts:
    """The parts of one assignment, in their order."""

    def __init__(self) -> None:
        self.all: list[Part] = []

    def explain_undefined_names(self) -> None:
        """In a notebook, say which cell to run where a check is called before its answer exists.

        Each `ready()` calls this, so that it holds in the process that runs the notebook.
        """
        explain_undefined_names(self.undefined)

    def undefined(self, name: str) -> Verdict | None:
        """Return what to show if a candidate of this name is not defined; None for other names."""
        labels = [part.label for part in self.all if name in part.names]
        if not labels:
            return None
        return CheckFailed(
            f"{labels[0]}: `{name}` is not defined.\n"
            f"  Run the cell that defines `{name}` first. If that cell shows an error, correct\n"
            "  the error and run the cell again."
        )

    def part(
        self,
        title: str,
        *names: str,
        rebuilds: Iterable[str] = (),
        refuses: Iterable[str] = (),
        step: bool = False,
    ) -> Callable[[Callable[..., None]], Part]:
        """Add the decorated check as the next part; `names` are the names of its candidates.

        What the part `rebuilds`, and what it `refuses` besides, is turned down as an answer. The
        notebook says what it rebuilds, and with `step` that it is only a step of it.
        """

        def add(check: Callable[..., None]) -> Part:
            number = len(self.all) + 1
            refused = tuple(rebuilds), tuple(refuses)
            self.all.append(Part(number, title, names, check, *refused, step))
            return self.all[-1]

        return add

    def progress(self, namespace: Mapping[str, object]) -> None:
        """Check every part again and print a table: solved, not yet, or wrong.

        `namespace` contains the answers: ``globals()`` in a notebook.
        """
        width = max(len(part.label) for part in self.all)
        solved = 0
        for part in self.all:
            missing = [name for name in part.names if name not in namespace]
            if missing:
                state = f"not yet: run the cell that defines {' and '.join(missing)}"
            else:
                state = part.state(*(namespace[name] for name in part.names))
            solved += state == "solved"
            print(f"{part.label:{width}}  {state}")
        print(f"{'':{width}}  {solved} of {len(self.all)} solved")


@contextmanager
def once_solved(what: str) -> Iterator[None]:
    """Run the block; if it raises because `what` is missing or wrong, print one line instead."""
    try:
        yield
    except Exception as error:  # the check of that part explains the error better
        written = not isinstance(error, NotImplementedError) or str(error)
        why = f" ({type(error).__name__}: {error})" if written else ""
        print(f"This runs once {what} is {'right' if written else 'written'}{why}.")


def in_turn(symptoms: Mapping[str, Callable[..., object]], *arguments: object) -> None:
    """Examine one symptom after the other; a failure also lists those that were right."""
    examined: list[str] = []
    for symptom, examine in symptoms.items():
        try:
            examine(*arguments)
        except CheckFailed as failed:
            right = f"\n  Right so far: {', '.join(examined)}." if examined else ""
            raise CheckFailed(f"{failed}{right}") from None
        examined.append(symptom)
