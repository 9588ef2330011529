"""Batches hold every example once, padded at the end, in an order that a seed settles."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentively.data.batches import (
    Batch,
    Example,
    collate,
    encode_pairs,
    in_order,
    pad,
    shuffled,
)
from attentively.data.pairs import Pair
from attentively.vocabulary import END_ID, PAD_ID, START_ID, WordTokenizer


def examples(count=101):
    """Examples of many lengths, each recognisable by the number in its source."""
    return [
        Example([4 + index, *[4] * (index * 7 % 13), END_ID], [START_ID, 4 + index, END_ID])
        for index in range(count)
    ]


def numbers(batches):
    return [[row[0] - 4 for row in batch.src.tolist()] for batch in batches]


def test_padding_stands_at_the_end():
    assert pad([[5], [6, 7, 8], []]).tolist() == [[5, 0, 0], [6, 7, 8], [0, 0, 0]]
    assert pad([[5], [6, 7]], pad_id=9).tolist() == [[5, 9], [6, 7]]
    assert pad([[], []]).shape == (2, 0)
    assert pad([[5]]).dtype == torch.long


@given(st.lists(st.lists(st.integers(1, 97)), min_size=1))
def test_padded_rows_hold_their_sentences(rows):
    padded = pad(rows)
    assert padded.shape == (len(rows), max(len(row) for row in rows))
    for row, filled in zip(rows, padded.tolist(), strict=True):
        assert filled[: len(row)] == row
        assert set(filled[len(row) :]) <= {PAD_ID}


def test_nothing_to_pad_is_refused():
    with pytest.raises(ValueError, match="there is no sentence to pad"):
        pad([])


def test_pairs_become_examples():
    words = WordTokenizer.train(["a b c"])
    pairs = [Pair("a b", "c"), Pair("x", "")]
    assert encode_pairs(pairs, words, words) == [
        Example([4, 5, END_ID], [START_ID, 6, END_ID]),
        Example([1, END_ID], [START_ID, END_ID]),
    ]


def test_collating_pads_each_side_by_itself():
    batch = collate([Example([4, 5, 3], [2, 3]), Example([4, 3], [2, 4, 5, 6, 3])])
    assert batch.src.tolist() == [[4, 5, 3], [4, 3, 0]]
    assert batch.tgt.tolist() == [[2, 3, 0, 0, 0], [2, 4, 5, 6, 3]]


def test_a_batch_moves_whole():
    batch = collate(examples(3)).to("meta")
    assert isinstance(batch, Batch)
    assert batch.src.device.type == batch.tgt.device.type == "meta"


@pytest.mark.parametrize("batch_size", [1, 7, 101, 103])
def test_in_order(batch_size):
    batches = numbers(in_order(examples(), batch_size))
    assert [number for batch in batches for number in batch] == list(range(101))
    assert all(len(batch) == batch_size for batch in batches[:-1])


@given(st.integers(1, 211), st.integers(1, 23), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_holds_every_example_once(count, batch_size, seed, epoch):
    batches = numbers(shuffled(examples(count), batch_size, seed, epoch))
    assert Counter(number for batch in batches for number in batch) == Counter(range(count))
    assert len(batches) == -(-count // batch_size)  # which is what the trainer counts on
    assert all(len(batch) <= batch_size for batch in batches)


def test_seed_and_epoch_settle_the_order():
    def order(seed, epoch):
        return numbers(shuffled(examples(), 7, seed, epoch))

    assert order(1, 2) == order(1, 2)
    assert len({str(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@pytest.mark.parametrize("skip", [0, 1, 5, 14, 15, 20])
def test_skipping_goes_on_where_it_stopped(skip):
    whole = numbers(shuffled(examples(), 7, seed=0, epoch=1))
    assert numbers(shuffled(examples(), 7, seed=0, epoch=1, skip=skip)) == whole[skip:]


def test_neighbours_are_of_similar_length():
    def padding(batches):
        return sum(int((batch.src == PAD_ID).sum()) for batch in batches)

    many = examples(499)
    assert padding(shuffled(many, 7, 0, 0)) < 0.2 * padding(in_order(many, 7))
    first = [batch.src.shape[1] for batch in shuffled(many, 7, 0, 0)]
    assert first != sorted(first)  # the batches themselves come in any order


@pytest.mark.parametrize("make", [in_order, lambda *given: shuffled(*given, seed=0, epoch=0)])
def test_refused(make):
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        list(make(examples(), 0))
    with pytest.raises(ValueError, match="is the corpus empty"):
        list(make([], 7))
