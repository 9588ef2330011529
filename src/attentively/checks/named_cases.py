"""Several cases at once: a mistake is named if it explains the answers to all of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attentively.checks import (
    CheckFailed,
    Twin,
    call_twice,
    describe,
    expect_value,
    plain_number,
)


def near(got: object, right: float) -> bool:
    """Compare numbers by their ratio: learning rates are too small for anything else."""
    number = plain_number(got)
    return number is not None and math.isclose(number, right, rel_tol=1e-4, abs_tol=1e-12)


def expect_all(
    candidate: object,
    cases: Sequence[Mapping[str, Any]],
    right: Callable[..., Any],
    what: str,
    twins: Sequence[Twin],
    same: Callable[[Any, Any], bool],
    hint: Callable[..., str] = lambda answer, *_: "",
    pick: Callable[[object, Mapping[str, Any]], object] = lambda answer, _: answer,
) -> None:
    """Call with every case; show the first that fails, and name a mistake that fits them all.

    Compared is what `pick` takes of each answer. `same` compares two, and `hint` says, from an
    answer and the inputs, what to add where no mistake is known.
    """
    rights = [right(*inputs.values()) for inputs in cases]  # a call may change what it is given
    answers: list[object] = []
    failed: CheckFailed | None = None
    for inputs in cases:
        try:
            answers.append(pick(call_twice(candidate, inputs), inputs))
        except CheckFailed as raised:
            failed = raised
            break
    pairs = list(zip(cases, answers, strict=False))
    found = zip(pairs, rights, strict=False)
    wrong = [(*pair, expected) for pair, expected in found if not same(pair[1], expected)]
    if not wrong:
        if failed is not None:
            raise failed
        return
    inputs, got, expected = wrong[0]
    said = [twin.diagnosis for twin in twins if all(_fits(twin, *pair, same) for pair in pairs)]
    agreeing = [Twin(text, lambda *_: got) for text in said]
    number = plain_number(got)
    advice = hint(got, *inputs.values())
    if number is None or not isinstance(expected, float):
        expect_value(got, expected, what, inputs, agreeing, advice)
    why = said[0] if said else f"This is not the expected value of {what}."
    numbers = f"  got         {number:.6g}\n  expected    {expected:.6g}"
    raise CheckFailed(f"  {why}\n{describe(inputs)}\n{numbers}")


def _fits(
    twin: Twin, inputs: Mapping[str, Any], got: object, same: Callable[[Any, Any], bool]
) -> bool:
    """Tell whether a mistake gives this answer, or cannot be made with these inputs."""
    try:
        return same(got, twin.answer(*inputs.values()))
    except (ArithmeticError, ValueError):
        return True


def named_cases(names: Sequence[str], cases: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the inputs of every case by their names."""
    return [dict(zip(names, case, strict=True)) for case in cases]
