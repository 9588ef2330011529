"""The check kit, where answers are lists, dicts and strings rather than tensors."""

from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from attentively.checks import CheckFailed, Twin, call, call_twice, describe, expect_value, show
from attentively.checks.compare import InRows

ROOT = Path(__file__).parents[2]


def refused(answer, expected, **options):
    with pytest.raises(CheckFailed) as caught:
        expect_value(answer, expected, "the pieces", {"word": "ab"}, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (("a", "b"), ["a", "b"]),
        ([["a", "b"]], [("a", "b")]),
        (Counter("aab"), {"b": 1, "a": 2}),
        ({("a", "b"): np.int64(3)}, {("a", "b"): 3}),
        (torch.tensor(0.5), 0.5),
        (torch.tensor([3]), 3),
        (np.array(3), 3),
        (np.array([0.5, 1.0]), [0.5, 1.0]),
        (torch.tensor([[1, 2], [3, 4]]), [(1, 2), (3, 4)]),
        ([torch.tensor([5]), np.array([])], [[5], []]),
        ({"a": torch.tensor([1])}, {"a": [1]}),
        (torch.Size([2, 3]), (2, 3)),
        (np.bool_(True), True),
        (1 / 3, 0.333333),
        ({1, 2}, frozenset({2, 1})),
        (None, None),
        ("", ""),
        ([], []),
    ],
)
def test_what_is_alike_passes(answer, expected):
    expect_value(answer, expected, "the pieces", {"word": "ab"})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (["b", "a"], ["a", "b"]),
        (["a"], ["a", "b"]),
        (["a", "b", "b"], ["a", "b"]),
        ({"a": 1, "b": 0}, {"a": 1}),
        ({"a": 2}, {"a": 1}),
        ({"b": 1}, {"a": 1}),
        (10_001, 10_000),
        (0.34, 0.333),
        (0.3, float("inf")),
        (float("inf"), 0.3),
        (float("-inf"), float("inf")),
        (True, 1),
        ("1", 1),
        ("e\u0301", "é"),
        (b"a", "a"),
        ([None], [0]),
    ],
)
def test_what_is_not_alike_is_refused(answer, expected):
    said = refused(answer, expected)
    assert "the pieces" in said
    assert "called with word = 'ab'" in said


def test_another_kind_is_named():
    assert "Expected the pieces as a list, got a set" in refused({"a"}, ["a"])
    assert "as a dict, got a list" in refused([], {"a": 1})
    assert "as an int, got a float" in refused(3.5, 3)
    assert "as a list, got None: is there a `return`?" in refused(None, ["a"])
    assert "as a str, got a bytes" in refused(b"a", "a")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (3.0, 3),
        (np.float64(3), 3),
        (torch.tensor(3.0), 3),
        ([1, 2.0], [1, 2]),
        (torch.tensor([1.0, 2.0]), (1, 2)),
        ([[1], [2.0]], [[1], [2]]),
        ({"a": 1, "b": 2.0}, {"a": 1, "b": 2}),
        ({(1, 2.0)}, {(1, 2)}),
        (1e20, 10**20),
    ],
)
def test_a_float_is_no_count_and_no_index(answer, expected):
    assert "a float. A count or an index is exact" in refused(answer, expected)


def test_a_wrong_value_is_named_before_its_type():
    said = refused([1.0, 3.0], [1, 2], general="One index is wrong.")
    assert "One index is wrong." in said
    refused(True, 1)


def test_every_notebook_states_the_types_in_the_same_words():
    names = [each.name for each in (ROOT / "solutions").glob("[0-9][0-9]_*")]
    texts = [nbformat.read(ROOT / f"solutions/{n}/{n}.ipynb", 4).cells[0].source for n in names]
    stated = [line for text in texts for line in text.splitlines() if line.startswith("**Types.**")]
    assert len(stated) == len(names)
    assert len(set(stated)) == 1


def test_one_that_answers_every_comparison_is_refused():
    class Agrees(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return True

    refused(Agrees("b"), "a")
    refused([Agrees("b")], ["a"])


def test_the_first_twin_that_answers_alike_is_named():
    twins = [
        Twin("It cannot be made here.", lambda word: word[7]),
        Twin("It is backwards.", lambda word: list(word[::-1])),
        Twin("It is never reached.", lambda word: list(word[::-1])),
    ]
    assert "It is backwards." in refused(["b", "a"], ["a", "b"], twins=twins)
    said = refused(["c"], ["a", "b"], twins=twins, hint="A list of strings.")
    assert "This is not the expected value of the pieces. A list of strings." in said


def test_of_long_values_the_first_difference_is_shown():
    expected = [(str(i), [i, i + 1]) for i in range(50)]
    wrong = [*expected[:20], ("20", [20, 22]), *expected[21:]]
    said = refused(wrong, expected)
    assert "got         at [20] ('20', [20, 22])" in said
    assert "expected    at [20] ('20', [20, 21])" in said
    said = refused(expected[:30], expected)
    assert "got         at [30] nothing (the end is reached)" in said
    counts = {str(i): i for i in range(50)}
    said = refused(counts | {"7": 8}, counts)
    assert "got         at ['7'] 8" in said
    said = refused({"7": 7}, counts)
    assert "got         at ['0'] nothing (the key is missing)" in said


@pytest.mark.parametrize(
    ("inputs", "spoil"),
    [
        ({"pieces": ["a", "b"]}, lambda pieces: pieces.pop()),
        ({"pieces": ["a", "b"]}, lambda pieces: pieces.sort(reverse=True)),
        ({"counts": {"a": 1}}, lambda counts: counts.update(a=2)),
        ({"counts": {"a": 1}}, lambda counts: counts.update(b=2)),
        ({"found_in": {"a": [1]}}, lambda found_in: found_in["a"].append(2)),
        ({"words": [(["a"], 1)]}, lambda words: words[0][0].append("b")),
        ({"examples": [(torch.ones(2), {1})]}, lambda examples: examples[0][0].zero_()),
        ({"links": {1}}, lambda links: links.add(2)),
    ],
)
def test_inputs_that_are_changed_are_refused(inputs, spoil):
    with pytest.raises(CheckFailed, match=f"changes its input {next(iter(inputs))}"):
        call(spoil, inputs)
    assert call(lambda value: "left alone", inputs) == "left alone"


def test_two_different_answers_are_refused():
    left_behind = []

    def answer(word):
        left_behind.append(word)
        return list(left_behind)

    with pytest.raises(CheckFailed, match="two different answers"):
        call_twice(answer, {"word": "ab"})
    assert call_twice(list, {"word": "ab"}) == ["a", "b"]


def test_a_list_of_tensors_is_shown_in_one_line():
    small = [torch.tensor([1.0, 2.0])]
    assert show(small) == "[tensor([1., 2.])]"
    assert show([*small, torch.zeros(3, 5)]) == "[[1.0, 2.0], a tensor of shape (3, 5)]"
    assert len(show([torch.zeros(99, 99)] * 20)) == 160


def test_a_number_is_shown_as_one_and_with_as_many_digits_as_it_needs():
    assert refused(torch.tensor(0.25), 0.5).endswith("  got         0.25\n  expected    0.5")
    assert refused(2.0004, 2.0).endswith("  got         2.0004\n  expected    2")
    assert "as a str, got a Tensor" in refused(torch.tensor(0.25), "a")


def test_a_table_is_shown_row_by_row():
    table = InRows()
    table.rows = {"": {"a": 0.5}, "a b": [1, 2]}
    lines = ["called with table[''] = {'a': 0.5}", "table['a b'] = [1, 2]", "length = 3"]
    said = describe({"table": table, "length": 3})
    assert [line.strip() for line in said.splitlines()] == lines
