"""No function that a student can import answers a part."""

import offers as offering
import pytest
import torch
from assignments import ASSIGNMENTS, each_of
from offers import Call, Offer, leaks_of, may_answer, offers

from attentively.checks import CheckFailed, Parts
from attentively.checks import call as call_candidate

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.timeout(200)]


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
def test_no_function_answers_a_part(assignment):
    said = []
    for name, part in assignment.parts.items():
        for asked, found in leaks_of(part, each_of(assignment.right[name][0]), offers()).items():
            said += [f"{name}: {asked} is answered by {each}" for each in found]
    assert said == []


# Broken variants: planted leaks


def two_sums(add, add_twice, thorough=False):
    for answer, expected in ((add, 5), (add_twice, 8)):
        if call_candidate(answer, {"one": 2, "other": 3}) != expected:
            raise CheckFailed("  This is another sum.")


PLANTED = Parts().part("sums", "add", "add_twice")(two_sums)


def plus(one, other):
    return one + other


def plus_twice(one, other):
    return one + 2 * other


def times(one, other):
    return one * other


def test_a_planted_leak_is_seen_and_a_wrong_function_is_not():
    planted = [Offer(each.__name__, each) for each in (plus, times, plus_twice)]
    right = (lambda one, other: one + other, lambda one, other: one + 2 * other)
    found = leaks_of(PLANTED, right, planted)
    assert found == {"add": ["plus"], "add_twice": ["plus_twice"]}


def test_an_offer_that_does_not_end_for_one_part_is_offered_to_the_next(monkeypatch):
    """What is found must not depend on the parts that were examined before in this process."""
    monkeypatch.setattr(offering, "FEW_SECONDS", 0.05)

    def ends_for_small_numbers(one, other):
        while one > 3:
            pass
        return one + other

    offer = Offer("sum", ends_for_small_numbers)
    found = [may_answer(offer, Call((one, 3), {}, one + 3)) for one in (2, 4, 2)]
    assert found == [True, False, True]


def test_an_offer_that_is_interrupted_leaves_gradients_on(monkeypatch):
    """As if the signal came while `torch.no_grad` is entered."""
    monkeypatch.setattr(offering, "FEW_SECONDS", 0.05)

    def interrupted(one):
        torch.set_grad_enabled(False)
        while True:
            pass

    try:
        assert not may_answer(Offer("sum", interrupted), Call((2,), {}, 3))
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_private_functions_of_the_checks_are_offered_and_nothing_twice():
    names = [each.name for each in offers()]
    assert {
        "checks.queries_keys_and_values._scalar",
        "attention.blockwise.blockwise_attention",
    } <= {*names}
    assert len({id(each.value) for each in offers()}) == len(names) > 1000
    assert not [name for name in names if name.startswith("attention.blockwise._")]
