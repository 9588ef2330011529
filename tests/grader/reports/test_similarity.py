"""Answers that read alike are found through renaming; what all have in common says nothing."""

import time

import pytest

from attentively_grader.reports.similarity import LONGEST, Alike, alike, fingerprints, tokens

OWN = """
def weights(scores, mask):
    lowest = min(row for row in scores if row is not None)
    shifted = [[value - lowest for value in row] for row in scores]
    totals = {index: sum(row) * 3 + len(row) for index, row in enumerate(shifted)}
    while totals and max(totals.values()) > 100:
        totals = {index: total / 2 - 1 for index, total in totals.items()}
    return [totals[index] if mask[index] else 0.0 for index in sorted(totals)]
"""
RENAMED = (
    OWN.replace("totals", "xs")
    .replace("shifted", "b")
    .replace("lowest", "floor")
    .replace("total", "x")
    .replace("    while", "    # halve until small\n    while")
)
OTHER = """
def weights(scores, mask):
    import math
    exponentials = []
    for row in scores:
        exponentials.append(tuple(math.exp(value) for value in row))
    result = []
    for keep, row in zip(mask, exponentials):
        if not keep:
            result.append(0.0)
            continue
        result.append(row[0] / sum(row) if sum(row) else 1.0)
    assert len(result) == len(scores), "one for each"
    return result
"""
GIVEN = "def weights(scores, mask):\n    raise NotImplementedError\n"


def test_renaming_and_remarks_hide_nothing():
    assert fingerprints(RENAMED) == fingerprints(OWN)
    assert not fingerprints(OTHER) & fingerprints(OWN)


def test_those_alike_are_named_and_others_are_not():
    found = alike({"ada": OWN, "bo": OTHER, "cy": RENAMED}, GIVEN)
    assert found == [Alike(("ada", "cy"), 1.0)]


def test_groups_with_a_student_in_common_are_one():
    half = OTHER + OWN  # has all of either
    found = alike({"a": OTHER, "b": half, "c": OWN, "d": "x = 1"}, GIVEN)
    assert found == [Alike(("a", "b", "c"), 1.0)]


def test_what_much_of_the_class_has_is_no_sign():
    answers = {f"student-{number}": OWN for number in range(8)}
    assert alike(answers) == []
    answers |= {f"other-{number}": f"{OTHER}\nx = {number}" for number in range(2)}
    assert [group.students for group in alike(answers)] == [("other-0", "other-1")]


@pytest.mark.parametrize(("copies", "others"), [(3, 3), (8, 0), (25, 15)])
def test_long_answers_that_are_the_same_are_told_however_many(copies, others):
    """A whole assignment, as of three among six or of more than half of a class."""

    def long(number):
        lines = [f"x = {' + '.join('abc'[: 1 + (number >> i) % 3])}[{i}]" for i in range(60)]
        return "\n".join(lines)

    answers = {f"copy-{number}": f"{long(12345)}  # mine" for number in range(copies)}
    answers |= {f"other-{number}": long(977**7 + 7919**3 * number) for number in range(others)}
    students = tuple(sorted(name for name in answers if name.startswith("copy")))
    assert alike(answers) == [Alike(students, 1.0)]


def test_what_the_assignment_gives_is_no_sign():
    assert alike({"ada": OWN, "bo": OWN}, given=OWN) == []


def test_a_short_answer_tells_nothing():
    short = "def f(x):\n    return x * 2 + 1\n"
    assert alike({"ada": short, "bo": short}) == []


def test_broken_code_is_read_all_the_same():
    assert list(tokens("def f(:  # a remark\n x = 'open")) == [
        *("def", "name", "(", ":", "name", "=", "string")
    ]
    assert alike({"ada": OWN + "\n)))(", "bo": OWN + "\n'''"})


def test_a_string_that_is_not_closed_ends_with_its_line():
    assert list(tokens("x = 'it\\'s\ny = 1")) == ["name", "=", "string", "name", "=", "1"]
    assert list(tokens("'''a\nb''' + 'c\\\nd'")) == ["string", "+", "string"]


@pytest.mark.parametrize(
    "bomb",
    [
        '"' + '\\"' * 250_000, "'" + "\\'" * 250_000, '"' * 500_001, "'''" + '"' * 500_000,
        "a+" * 250_000, "#" * 500_000, "1." * 250_000, "\\" * 500_000,
    ],
    ids=lambda bomb: f"{bomb[:4]}-{len(bomb)}",
)  # fmt: skip
def test_no_text_takes_for_ever(bomb):
    """A second each; were it quadratic, half an hour."""
    started = time.process_time()
    assert sum(1 for _ in tokens(bomb)) < len(bomb) + 1
    alike({"ada": bomb, "bo": bomb})
    assert time.process_time() - started < 20


def test_what_is_too_long_is_compared_at_its_beginning():
    padding = "x = [1, 2]\n" * (LONGEST // 11 + 1)
    assert alike({"ada": OWN, "bo": OWN + padding}) == [Alike(("ada", "bo"), 1.0)]
    assert alike({"ada": OWN, "bo": padding + OWN}) == []
    assert alike({"ada": OWN, "bo": OWN}, given=padding + OWN) == []


@pytest.mark.parametrize("least", [0, 1.1])
def test_a_share_that_is_none_is_refused(least):
    with pytest.raises(ValueError, match="must be above 0"):
        alike({}, least=least)
