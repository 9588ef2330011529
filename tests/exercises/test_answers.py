"""Every assignment's bank: right answers pass however they are written, wrong ones hear why not.

One test goes through all answers of a part and lists every fault that it finds.
"""

import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from assignments import (
    ASSIGNMENTS,
    call,
    faults_of_bank,
    faults_of_message,
    message,
)
from examination import examine, examined, unwritten
from remembered import Remembered

from attentively.checks import CheckFailed, NotImplementedYet, Part, Parts
from attentively.checks.recordings import Topic

# Shapes are checked in the package's own tests; a student's code runs without these checks.
pytestmark = pytest.mark.usefixtures("unchecked")

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
PARTS = [
    pytest.param(assignment, name, id=f"{assignment}-{name}")
    for assignment in ASSIGNMENTS
    for name in assignment.part_names
]


@every_assignment
def test_each_part_has_enough_answers_of_both_kinds(assignment):
    assert faults_of_bank(assignment.parts, assignment.right, assignment.wrong) == []
    assert [*assignment.parts.values()] == assignment.checks._parts.all


@every_assignment
def test_names_read_from_the_text_are_those_of_the_modules(assignment):
    assert assignment.part_names == [*assignment.parts]
    assert assignment.students == [*assignment.handed_in]


@pytest.mark.timeout(400)  # a part has up to eighty answers
@pytest.mark.parametrize(("assignment", "name"), PARTS)
def test_answers_of_a_part_get_what_they_should(assignment, name):
    faults = examined(assignment, name).faults
    if faults:
        title = f"{assignment}, {name}: {len(faults)} of its answers did not get what they should"
        pytest.fail("\n".join([title, *faults]), pytrace=False)


@every_assignment
def test_progress_counts_what_is_solved(assignment, capsys):
    answers = {}
    for name, part in assignment.parts.items():
        first = assignment.right[name][0]
        given = first if isinstance(first, tuple) else (first,)
        answers |= dict(zip(part.names, given, strict=True))
    assignment.checks.progress(answers)
    number = len(assignment.parts)
    assert capsys.readouterr().out.splitlines()[-1].strip() == f"{number} of {number} solved"
    assignment.checks.progress(dict.fromkeys(answers, unwritten))
    table = capsys.readouterr().out
    assert table.count("not yet") == number
    assert table.splitlines()[-1].strip() == f"0 of {number} solved"


# Broken twins: what these tests must see


def half(answer):
    if not callable(answer):
        raise CheckFailed("  This cannot be called.")
    if answer is unwritten:
        raise NotImplementedYet("")
    if answer() != 41:
        raise CheckFailed("  This is not forty-one.")


parts = Parts()
forty_one = parts.part("number", "answer")(lambda answer, thorough=False: half(answer))


def right_answer():
    return 41


def wrong_answer():
    return 40


def test_a_wrong_answer_that_passes_is_seen():
    assert faults_of_message(forty_one, message(forty_one, wrong_answer), "not forty-one") == []
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        message(forty_one, right_answer)


def test_a_right_answer_that_fails_is_seen():
    call(forty_one, right_answer)
    with pytest.raises(CheckFailed, match="not forty-one"):
        call(forty_one, wrong_answer)


def faults_of(part, right=(), wrong=()):
    return examine(part, right, wrong).faults


def test_an_examination_lists_every_fault():
    right, wrong = [right_answer] * 2, [(wrong_answer, "not forty-one")] * 2
    assert faults_of(forty_one, right, wrong) == []
    assert (
        examine(forty_one, right, wrong).messages
        == ["Part 1 (number): not right yet.\n  This is not forty-one."] * 2
    )
    found = faults_of(forty_one, [wrong_answer], [(right_answer, "x"), (wrong_answer, "forty-two")])
    assert [fault.splitlines()[0] for fault in found] == [
        "right answer wrong_answer",
        "right answer wrong_answer (thorough)",
        "wrong answer right_answer",
        "wrong answer wrong_answer",
        "wrong answer right_answer (again)",
        "right answer wrong_answer",
    ]
    assert "expected 'Part 1 (number): right'; the check said\n    CheckFailed: Part 1" in found[0]
    assert "it lacks 'forty-two'" in found[3]


def test_a_right_answer_that_fails_only_when_thorough_is_seen():
    def check(answer, thorough):
        half((lambda: 40) if thorough else answer)

    (fault,) = faults_of(Part(1, "number", ("answer",), check), [right_answer])
    assert fault.startswith("right answer right_answer (thorough)")


def test_an_error_of_the_check_is_seen_with_its_traceback():
    def check(answer, thorough):
        return answer() + {}["no such key"]

    part = Part(1, "number", ("answer",), check)
    found = faults_of(part, wrong=[(wrong_answer, "forty-one")])
    assert all("the check said\n    Traceback" in fault for fault in found[:1])
    assert "KeyError: 'no such key'" in found[0]


def test_a_check_that_runs_what_is_not_written_or_not_callable_is_seen():
    def silent(answer, thorough):
        pass

    def strict(answer, thorough):
        if answer is unwritten:
            raise NotImplementedYet("\n  in two lines")
        raise TypeError(answer)

    found = faults_of(Part(1, "number", ("answer",), silent))
    assert [fault.split()[0] for fault in found] == ["unwritten"] + ["uncallable"] * 4
    found = faults_of(Part(1, "number", ("answer",), strict))
    assert [fault.split()[0] for fault in found] == ["unwritten"] + ["uncallable"] * 4


class Careless(Part):
    """A part that neither seeds PyTorch's generator nor puts it back."""

    def __call__(self, *candidates, thorough=False):
        self.check(*candidates, thorough=thorough)
        print(f"{self.label}: right")


def test_a_check_that_uses_the_random_numbers_of_the_notebook_is_seen():
    def check(answer, thorough):
        if not callable(answer) or answer is unwritten:
            return forty_one(answer)
        raise CheckFailed(f"Part 1 (number): not right yet. This is not {torch.rand(1).item()}.")

    found = faults_of(Careless(1, "number", ("answer",), check), wrong=[(wrong_answer, "not")] * 2)
    for words in ("to be left alone", "random numbers of its own", "the same message"):
        assert any(words in fault for fault in found)


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_a_message_that_depends_on_random_numbers_is_seen(draw):
    def drawn():
        raise CheckFailed(f"  This is not {draw()}.")

    part = Part(1, "number", ("answer",), lambda answer, thorough: half(answer))
    found = faults_of(part, wrong=[(wrong_answer, "forty-one"), (drawn, "This is not")])
    assert [fault.splitlines()[0] for fault in found] == ["wrong answer drawn (again)"]


def test_an_answer_whose_mistake_is_to_be_random_may_get_another_message():
    def drawn():
        raise CheckFailed(f"  These are two different answers: {random.random()}.")

    part = Part(1, "number", ("answer",), lambda answer, thorough: half(answer))
    assert faults_of(part, wrong=[(drawn, "two different answers")]) == []


def test_an_answer_that_changes_what_the_check_says_of_another_is_seen():
    expected = [41]

    def check(answer, thorough):
        if callable(answer) and answer() != expected[0]:
            raise CheckFailed(f"  This is not {expected[0]}.")
        half(answer)

    def changes_it():
        expected[0] = 42
        return 40

    part = Part(1, "number", ("answer",), check)
    found = faults_of(part, [right_answer], [(wrong_answer, "This is"), (changes_it, "This is")])
    assert [fault.splitlines()[0] for fault in found[:2]] == [
        "wrong answer wrong_answer (again)",
        "right answer right_answer",
    ]


def test_a_message_that_names_another_mistake_is_seen():
    said = message(forty_one, wrong_answer)
    for words in ("not forty-two", "", " "):
        (fault,) = faults_of_message(forty_one, said, words)
        assert fault.startswith("it lacks")
    (fault,) = faults_of_message(SimpleNamespace(label="Part 2 (other)"), said, "forty-one")
    assert fault.startswith("it begins")
    (fault,) = faults_of_message(forty_one, said + "." * 200, "forty-one")
    assert "longer than 200" in fault


def test_a_bank_with_too_few_answers_or_unknown_parts_is_seen():
    known = {"number": forty_one}
    right = {"number": [right_answer] * 2}
    wrong = {"number": [(wrong_answer, "forty-one")] * 3}
    assert faults_of_bank(known, right, wrong) == []
    assert faults_of_bank(known, {}, wrong) == ["'number' has 0 right answers, and needs 2"]
    few = {"number": wrong["number"][:2]}
    assert faults_of_bank(known, right, few) == ["'number' has 2 wrong answers, and needs 3"]
    assert faults_of_bank(known, right, wrong | {"gone": []}) == ["'gone' is no check"]


# What is left out


def first(answer):
    return answer


def second(answer):
    return answer


@pytest.fixture
def compared(monkeypatch):
    """The names compared so far, and the state of the generator before; each samples one number."""
    made = []

    def examine(topic, name, candidate, thorough, **rules):
        made.append((name, torch.get_rng_state().tolist()))
        torch.rand(1)
        if getattr(candidate, "samples", False):
            random.random()
        half(lambda: candidate(41))
        return name

    monkeypatch.setattr(Topic, "examine", examine)
    return made


def names(compared):
    return [name for name, _ in compared]


def test_a_right_answer_is_compared_once_from_each_state(compared):
    topic = Topic(__file__)
    with Remembered([first]).left_out():
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            assert topic.examine("first", first, thorough=False) == "first"
            assert topic.examine("second", second, thorough=False) == "second"
        torch.manual_seed(1)
        topic.examine("first", first, thorough=True)
        topic.examine("other name", first, thorough=True)
    assert names(compared) == ["first", "second"] * 2 + ["second", "first", "other name"]
    assert compared[1] == compared[4]  # as if the first had been compared again


def test_what_may_change_a_verdict_is_not_left_out(compared, monkeypatch):
    topic = Topic(__file__)
    with Remembered([first]).left_out():
        for rules in ({"tidy": closing_over(second)}, {"quotes": {"": closing_over([])}}):
            for _ in range(2):
                torch.manual_seed(1)
                topic.examine("first", first, thorough=False, **rules)
        assert len(compared) == 4
        for _ in range(2):
            torch.manual_seed(2)
            topic.examine("first", first, thorough=False, tidy=partial(closing_over("text"), "x"))
        assert len(compared) == 5
        monkeypatch.setattr(first, "samples", True, raising=False)
        for _ in range(2):
            torch.manual_seed(3)
            topic.examine("first", first, thorough=False)
        assert len(compared) == 7


def closing_over(held):
    return lambda *_: held


def test_a_right_answer_that_another_makes_wrong_is_seen(compared):
    topic, expected = Topic(__file__), [41]

    def changed(answer):
        return expected[0]

    def changes_it(answer):
        expected[0] = 42
        return 40

    def check(*answers, thorough):
        for answer in answers:
            if not callable(answer) or answer is unwritten:
                half(answer)
            topic.examine(answer.__name__, answer, thorough)

    part = Part(1, "number", ("first", "second"), check)
    wrong = [((changed, lambda _: 40), "not forty-one"), ((changed, changes_it), "not forty-one")]
    found = faults_of(part, [(changed, second)], wrong)
    assert names(compared).count("changed") == 4  # right and thorough; at the end, two more
    assert [fault.splitlines()[0] for fault in found] == ["right answer changed-second"]
