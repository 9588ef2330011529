"""The thorough call of a check does not repeat what its open call has found right."""

import pytest
import torch

from attentively.checks import CheckFailed, open_call
from attentively.checks import recurrent_networks as checks
from attentively.checks.compare import Fresh
from attentively.checks.question import Case
from attentively.checks.recordings import find_questions, load_questions, questions_in

OPEN, ALL = 6, 9
"""Numbers of cases of `parameters`; the open ones have the same inputs in both recordings."""


@pytest.fixture
def right():
    """Return the right answers of the part, and the list of the calls of the first one."""
    questions = questions_in(load_questions(find_questions("recurrent_networks")))
    answers = {each.name: each.answer for each in questions}
    first, second = answers["parameters"], answers["sequential_steps"]
    calls = []

    def parameters(*inputs):
        calls.append(inputs)
        return first(*inputs)

    return parameters, second, calls


def test_cases_of_the_open_call_are_not_examined_again(right, capsys):
    parameters, steps, calls = right
    checks.predictions(parameters, steps)
    assert len(calls) == 1 + OPEN  # the first case is called twice
    checks.predictions(parameters, steps, thorough=True)
    assert len(calls) == 1 + ALL
    assert capsys.readouterr().out.count("right") == 2


def test_without_an_open_call_of_these_candidates_all_cases_are_examined(right):
    parameters, steps, calls = right
    checks.predictions(parameters, steps, thorough=True)
    assert len(calls) == 1 + ALL
    checks.predictions(lambda *inputs: parameters(*inputs), steps)
    calls.clear()
    checks.predictions(parameters, steps, thorough=True)
    assert len(calls) == 1 + ALL


def test_a_thorough_call_is_not_known_to_the_next_one(right):
    parameters, steps, calls = right
    checks.predictions(parameters, steps)
    checks.predictions(parameters, steps, thorough=True)
    calls.clear()
    checks.predictions(parameters, steps, thorough=True)
    assert len(calls) == 1 + ALL


def test_an_open_call_that_fails_is_not_known(right):
    parameters, _, calls = right
    with pytest.raises(CheckFailed):
        checks.predictions(parameters, lambda *inputs: 0)
    calls.clear()
    with pytest.raises(CheckFailed):
        checks.predictions(parameters, lambda *inputs: 0, thorough=True)
    assert len(calls) == 1 + ALL


def test_an_answer_that_is_wrong_in_a_further_case_is_refused(right):
    parameters, steps, calls = right
    checks.predictions(parameters, steps)
    known = {*calls}

    def wrong(*inputs):
        return parameters(*inputs) if inputs in known else 0

    checks.predictions(wrong, steps)
    with pytest.raises(CheckFailed):
        checks.predictions(wrong, steps, thorough=True)


def test_loops_of_a_check():
    part, found = object(), []

    def examine(items, thorough):
        with open_call.examining(part, (examine,), thorough):
            for item in open_call.new("kind", items):
                found.append(item)
                if item == "wrong":
                    raise CheckFailed(item)
            open_call.once(found.append, "the same")

    examine(["a", "b", "a"], thorough=False)
    examine(["a", "b", "a", "a", "c"], thorough=True)
    assert found == ["a", "b", "a", "the same", "a", "c"]
    found.clear()
    with pytest.raises(CheckFailed):
        examine(["a", "wrong"], thorough=False)
    with pytest.raises(CheckFailed):
        examine(["a", "wrong"], thorough=True)
    assert found == ["a", "wrong", "a", "wrong"]


VALUES = [
    *(1, 1.5, True, "1", None, [1], (1,), {1: 2}, {1}, Case({"x": 1}), Case({"x": 2})),
    *(torch.ones(2), torch.zeros(2), torch.ones(2, 1), torch.ones(2).double()),
    *(torch.ones(2, requires_grad=True), [torch.ones(2)], torch.ones(2) + 1e-3),
    *(Fresh(torch.ones, {"size": (2,)}), Fresh(torch.ones, {"size": (3,)}), torch.tensor(1.0)),
    *(torch.eye(2).to_sparse(), Fresh(torch.zeros, {"size": (2,)})),
]


def test_only_the_same_inputs_are_the_same():
    for number, one in enumerate(VALUES):
        for place, other in enumerate(VALUES):
            assert open_call.identical(one, other) == (number == place), (one, other)


def test_inputs_that_differ_by_rounding_are_the_same():
    assert open_call.identical([torch.ones(2), 0.1 + 0.2], [torch.ones(2) + 1e-7, 0.3])
    nan = torch.tensor([float("nan"), 1.0])
    assert open_call.identical(nan, nan.clone())
