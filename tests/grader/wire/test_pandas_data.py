"""Objects of pandas on the wire: what arrives, what is refused, and what stays an object."""

import copy
import random

import numpy as np
import pandas as pd
import pytest

from attentively_grader.wire import pandas_data
from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.encoder import Encoder
from attentively_grader.wire.messages import UnexpectedValue, WireError

FRAMES = {
    "columns of many types": pd.DataFrame(
        {
            "float": [1.0, np.nan],
            "text": ["x", None],
            "truth": [True, False],
            "time": pd.to_datetime(["2020-01-01", None]),
            "duration": pd.to_timedelta([1, 2], "s"),
            "objects": np.array([[1], "a"], dtype=object),
            "texts as objects": pd.Series(["a", "b"], dtype=object),
            "category": pd.Categorical(["u", "v"], ["v", "u"], ordered=True),
            "nullable": pd.array([1, None], dtype="Int16"),
            "nullable truth": pd.array([True, None], dtype="boolean"),
            "string": pd.array(["q", None], dtype="string"),
        }
    ),
    "nothing": pd.DataFrame(),
    "no columns": pd.DataFrame(index=[3, 5]),
    "no rows": pd.DataFrame(columns=["a", "b"]),
    "the same name twice": pd.DataFrame([[1, 2.0]], columns=["a", "a"]),
    "two levels": pd.DataFrame(
        {("a", "b"): [1, 2]}, index=pd.MultiIndex.from_product([[1], [*"xy"]])
    ),
    "dates": pd.DataFrame({"x": [1, 2, 3]}, index=pd.date_range("2020", periods=3)),
    "a named index": pd.DataFrame({"x": [1]}, index=pd.Index(["k"], name="key")),
}
SERIES = {
    "numbers": pd.Series([2, 3, 5], name="n", dtype="float32"),
    "sizes of groups": pd.DataFrame({"a": [1, 2, 2]}).groupby("a").size(),
    "no elements": pd.Series([], dtype=float),
}
INDEXES = {
    "a range": pd.RangeIndex(2, 11, 3, name="r"),
    "categories": pd.CategoricalIndex(["a", "b"]),
    "an array of text": pd.Series(["b", "a", "b"]).unique(),
}


def sent(value):
    encoder = Encoder(lambda encoder, value, depth: encoder.pandas(value, depth))
    return encoder.encode(value), encoder.buffers


def arrived(value):
    node, buffers = sent(value)
    return Decoder(buffers).decode(node)


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_arrives_as_it_is(name):
    pd.testing.assert_frame_equal(arrived(FRAMES[name]), FRAMES[name])


@pytest.mark.parametrize("name", SERIES)
def test_a_series_arrives_as_it_is(name):
    pd.testing.assert_series_equal(arrived(SERIES[name]), SERIES[name])


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_or_array_arrives_as_it_is(name):
    found = arrived(INDEXES[name])
    assert type(found) is type(INDEXES[name])
    assert found.equals(INDEXES[name]) if isinstance(found, pd.Index) else [*found] == list("ba")


def test_the_same_frame_twice_is_one_frame():
    one, other = arrived([FRAMES["dates"]] * 2)
    assert one is other


@pytest.mark.parametrize(
    "value",
    [
        pd.Series(pd.period_range("2020", periods=2)),
        pd.DataFrame({"x": pd.cut(pd.Series([1, 2]), 2)}),
        pd.interval_range(0, 2),
        pd.Series([0, 1], dtype="Sparse[int]"),
        type("Own", (pd.Series,), {})([1]),
        [1],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_other_columns_or_another_class_is_not_plain(value):
    assert not pandas_data.is_plain(value)


FORGED = {
    "a column that is too short": [["t", ["range", 0, 2, 1, None]], ["t", ["range", 0, 1, 1, None]],
                                   ["t", [["t", ["numbers", "<i8", ["b", 0]]]]]],
    "an endless index": [["t", ["range", 0, 10**15, 1, None]], ["t", ["range", 0, 0, 1, None]],
                         ["t", []]],
    "codes beyond the categories": [
        ["t", ["range", 0, 1, 1, None]], ["t", ["range", 0, 1, 1, None]],
        ["t", [["t", ["categories", ["t", ["range", 0, 1, 1, None]], False, ["b", 1]]]]]],
    "objects as numbers": [["t", ["range", 0, 1, 1, None]], ["t", ["range", 0, 1, 1, None]],
                           ["t", [["t", ["numbers", "|O", ["b", 0]]]]]],
    "text that is no text": [["t", ["range", 0, 1, 1, None]], ["t", ["range", 0, 1, 1, None]],
                             ["t", [["t", ["text", "str", ["t", [1]], ["b", 2]]]]]],
    "a dtype of a library": [["t", ["range", 0, 1, 1, None]], ["t", ["range", 0, 1, 1, None]],
                             ["t", [["t", ["text", "category", ["t", ["a"]], ["b", 2]]]]]],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_frame_is_refused(name):
    buffers = [bytes(8), np.int64(7).tobytes(), b"\0"]
    with pytest.raises(WireError):
        Decoder(buffers).decode(["DataFrame", FORGED[name]])


WORDS = [None, -1, 0, 7, 2**40, 0.5, "", "x", "range", "numbers", "text", "multi", "<i8", "|b1",
         "<U9", "<M8[s]", "<c16", [], ["t", []], ["t", ["range", 0, 5, 1, None]], ["b", 0],
         ["l", []], ["d", []], ["=", 0]]  # fmt: skip


def mutated(wheel, value):
    if wheel.random() < 0.04:
        return copy.deepcopy(wheel.choice(WORDS))
    if isinstance(value, list):
        found = [mutated(wheel, each) for each in value]
        return found[:-1] if found and wheel.random() < 0.02 else found
    return value


def test_a_mutated_frame_is_refused_or_is_a_frame():
    values = [*FRAMES.values(), *SERIES.values(), *INDEXES.values()]
    refused = 0
    for seed in range(1500):
        wheel = random.Random(seed)
        node, buffers = sent(wheel.choice(values))
        buffers = [each[: len(each) - wheel.choice([0, 0, 0, 1, 8])] for each in buffers]
        try:
            value = Decoder(buffers).decode(mutated(wheel, node))
        except (WireError, UnexpectedValue):
            refused += 1
        else:
            repr(value)
    assert 300 < refused < 1300
