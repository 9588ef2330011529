"""Every assignment's bank: right answers pass however they are written, wrong ones hear why not."""

from types import SimpleNamespace

import pytest
import torch
from assignments import (
    ASSIGNMENTS,
    call,
    faults_of_bank,
    faults_of_message,
    message,
    title,
)

from attentively.checks import CheckFailed, NotImplementedYet, Parts, Verdict

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)

RIGHT = [
    pytest.param(assignment, name, answer, id=f"{assignment}-{name}-{title(answer)}")
    for assignment in ASSIGNMENTS
    for name, answers in assignment.right.items()
    for answer in answers
]
WRONG = [
    pytest.param(assignment, name, answer, words, id=f"{assignment}-{name}-{title(answer)}")
    for assignment in ASSIGNMENTS
    for name, answers in assignment.wrong.items()
    for answer, words in answers
]
PARTS = [
    pytest.param(assignment, name, id=f"{assignment}-{name}")
    for assignment in ASSIGNMENTS
    for name in assignment.parts
]


@every_assignment
def test_each_part_has_enough_answers_of_both_kinds(assignment):
    assert faults_of_bank(assignment.parts, assignment.right, assignment.wrong) == []
    assert [*assignment.parts.values()] == assignment.checks._parts.all


@pytest.mark.parametrize(("assignment", "name", "answer"), RIGHT)
@pytest.mark.parametrize("thorough", [False, True])
def test_right_answers_pass_however_they_are_written(assignment, name, answer, thorough, capsys):
    part = assignment.parts[name]
    call(part, answer, thorough=thorough)
    assert capsys.readouterr().out.startswith(f"{part.label}: right")


@pytest.mark.parametrize(("assignment", "name", "answer", "words"), WRONG)
def test_wrong_answers_hear_their_own_mistake(assignment, name, answer, words):
    """And the message depends on the mistake alone, not on the random numbers of the notebook."""
    part = assignment.parts[name]
    said = message(part, answer)
    assert faults_of_message(part, said, words) == []
    torch.manual_seed(1)
    assert message(part, answer) == said or "two different answers" in words


def unwritten(*_):
    raise NotImplementedError


@pytest.mark.parametrize(("assignment", "name"), PARTS)
def test_what_is_not_written_is_said_in_one_line(assignment, name):
    part = assignment.parts[name]
    with pytest.raises(NotImplementedYet) as caught:
        part(*[unwritten] * len(part.names))
    assert str(caught.value).startswith(f"{part.label}: not implemented yet")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("assignment", "name"), PARTS)
@pytest.mark.parametrize("candidate", [None, 3, "an answer", torch], ids=repr)
def test_what_cannot_be_called_is_refused(assignment, name, candidate):
    part = assignment.parts[name]
    with pytest.raises(Verdict):
        part(*[candidate] * len(part.names))


@pytest.mark.parametrize(("assignment", "name"), PARTS)
def test_a_check_leaves_the_random_numbers_of_the_notebook_alone(assignment, name):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    call(assignment.parts[name], assignment.right[name][0])
    assert torch.equal(torch.rand(3), expected)


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
