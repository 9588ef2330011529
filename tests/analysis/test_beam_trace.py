"""A trace contains the hypotheses of every step, and leaves the search as it is."""

import math

import pytest
import torch

from attentively.analysis.beam_trace import trace_beam
from attentively.checks.decoding import TableModel
from attentively.generation.search import beam_search
from attentively.tokens.vocabulary import END_ID

A, B = 4, 5
TABLE = {
    "": {"a": 0.6, "b": 0.4},
    "a": {"a": 0.55, "b": 0.35, "END": 0.1},
    "b": {"b": 0.9, "a": 0.1},
}
SRC = torch.tensor([[END_ID]])


def steps(trace):
    return [
        [(prefix.ids, prefix.parent, round(math.exp(prefix.log_probability), 3)) for prefix in step]
        for step in trace.steps
    ]


def test_each_step_has_its_hypotheses_with_parent_and_probability():
    trace = trace_beam(TableModel(TABLE), SRC, 5, 2, 0.0)
    assert steps(trace) == [
        [([], None, 1.0)],
        [([A], 0, 0.6), ([B], 0, 0.4)],
        [([B, B], 1, 0.36), ([A, A], 0, 0.33)],  # the order has turned
    ]


@pytest.mark.parametrize("beam_size", [1, 2, 3, 7])
def test_the_search_finds_what_it_finds_without_a_trace(beam_size):
    found = beam_search(TableModel(TABLE), SRC, 5, beam_size, 0.7)
    assert trace_beam(TableModel(TABLE), SRC, 5, beam_size, 0.7).finished == found[0]


def test_finished_hypotheses_extend_one_of_the_trace():
    trace = trace_beam(TableModel(TABLE), SRC, 5, 3, 0.0)
    for hypothesis in trace.finished:
        assert hypothesis.ids in [prefix.ids for prefix in trace.steps[len(hypothesis.ids)]]


def test_one_source_at_a_time(unchecked):
    with pytest.raises(ValueError, match="contains 2 sources"):
        trace_beam(TableModel(TABLE), SRC.repeat(2, 1), 5, 2)
