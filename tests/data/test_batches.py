"""Batches hold every example once, padded at the end, in an order that a seed settles."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentively.data import digits
from attentively.data.batches import (
    Batch,
    Example,
    LabelledExample,
    collate,
    encode_labelled,
    encode_lines,
    encode_pairs,
    encode_running_text,
    encode_scenes,
    in_order,
    pad,
    shuffled,
)
from attentively.data.pairs import Pair
from attentively.data.sentiment import Labelled
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary, WordTokenizer


def examples(count=101):
    """Examples of many lengths, each recognisable by the number in its source."""
    return [
        Example([4 + index, *[4] * (index * 7 % 13), END_ID], [START_ID, 4 + index, END_ID])
        for index in range(count)
    ]


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


def test_lines_become_texts_and_empty_ones_are_left_out():
    words = WordTokenizer.train(["a b"])
    assert encode_lines(["b a", "", "  ", "a"], words) == [
        [START_ID, 5, 4, END_ID],
        [START_ID, 4, END_ID],
    ]


def test_a_running_text_is_cut_into_pieces_that_overlap_by_half():
    words = WordTokenizer.train(["a b c d e f g"])
    pieces = encode_running_text("a b c d e f g", words, length=4)
    assert pieces == [[START_ID, 4, 5, 6, 7], [START_ID, 6, 7, 8, 9], [START_ID, 8, 9, 10]]
    assert encode_running_text("a b", words, length=4) == [[START_ID, 4, 5]]
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        encode_running_text("a b", words, length=1)


@given(st.integers(1, 53), st.integers(2, 11))
def test_every_token_of_a_running_text_is_in_a_piece(count, length):
    text = " ".join(f"w{index}" for index in range(count))
    words = WordTokenizer(Vocabulary(text.split()))
    pieces = encode_running_text(text, words, length)
    assert all(len(piece) <= length + 1 for piece in pieces)
    assert {i for piece in pieces for i in piece[1:]} == set(range(4, 4 + count))
    read = [i for piece in pieces for i in piece[1:]]
    assert len(read) < 2 * count + length


def test_labels_become_numbers_and_an_unknown_one_is_named():
    words = WordTokenizer.train(["a b"])
    items = [Labelled("a b", "yes"), Labelled("b", "no")]
    assert encode_labelled(items, words, ("no", "yes")) == [
        LabelledExample([4, 5, END_ID], 1),
        LabelledExample([5, END_ID], 0),
    ]
    with pytest.raises(
        ValueError, match=r"label 'yes' of 'a b' is unknown: expected one of \['no', 'maybe'\]"
    ):
        encode_labelled(items, words, ("no", "maybe"))


def test_scenes_become_images_with_captions():
    words = WordTokenizer(Vocabulary(digits.words()))
    scenes = digits.load("train", 3)
    examples = encode_scenes(scenes, words)
    for scene, example in zip(scenes, examples, strict=True):
        assert torch.equal(example.image, scene.image)
        assert example.tgt[0] == START_ID
        assert words.decode(example.tgt) == " ".join(scene.caption)


def test_collating_pads_each_side_by_itself():
    batch = collate([Example([4, 5, 3], [2, 3]), Example([4, 3], [2, 4, 5, 6, 3])])
    assert batch.src.tolist() == [[4, 5, 3], [4, 3, 0]]
    assert batch.tgt.tolist() == [[2, 3, 0, 0, 0], [2, 4, 5, 6, 3]]


def test_a_batch_moves_whole():
    batch = collate(examples(3)).to("meta")
    assert isinstance(batch, Batch)
    assert batch.src.device.type == batch.tgt.device.type == "meta"


def sizes(count=101):
    """Sizes of many kinds, some of them longer on the target's side."""
    return [(index * 7 % 13 + 2, index * 5 % 11 + 2) for index in range(count)]


@pytest.mark.parametrize("batch_size", [1, 7, 101, 103])
def test_in_order(batch_size):
    batches = in_order(101, batch_size)
    assert [index for batch in batches for index in batch] == list(range(101))
    assert all(len(batch) == batch_size for batch in batches[:-1])


@given(st.integers(1, 211), st.integers(1, 23), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_holds_every_example_once(count, batch_size, seed, epoch):
    batches = shuffled(sizes(count), seed, epoch, batch_size)
    assert Counter(index for batch in batches for index in batch) == Counter(range(count))
    assert len(batches) == -(-count // batch_size)
    assert all(len(batch) <= batch_size for batch in batches)


def cost(batch, given):
    return len(batch) * max(max(given[index]) for index in batch)


@given(st.integers(1, 211), st.integers(14, 97), st.integers(0, 3))
def test_batches_by_tokens_hold_every_example_once_and_no_more_than_fits(count, limit, epoch):
    batches = shuffled(sizes(count), 0, epoch, batch_size=1, tokens_per_batch=limit)
    assert Counter(index for batch in batches for index in batch) == Counter(range(count))
    assert all(cost(batch, sizes(count)) <= limit for batch in batches)


def test_batches_by_tokens_are_filled():
    many = sizes(997)
    batches = shuffled(many, 0, 0, batch_size=1, tokens_per_batch=97)
    assert sum(cost(batch, many) for batch in batches) > 0.8 * 97 * len(batches)
    by_hand = shuffled([(5, 3), (5, 2), (1, 5)], 0, 0, 1, tokens_per_batch=10)
    assert sorted(map(len, by_hand)) == [1, 2]
    after_a_long_one = shuffled([(1, 9), *[(2, 2)] * 5], 0, 0, 1, tokens_per_batch=10)
    assert sorted(map(len, after_a_long_one)) == [1, 5]


def test_batches_by_tokens_do_not_ask_how_many_examples():
    one, many = (shuffled(sizes(997), 0, 0, size, tokens_per_batch=97) for size in (1, 64))
    assert one == many


def test_every_epoch_has_other_neighbours():
    different = [(length, length) for length in range(1, 998)]
    one, other = ({frozenset(batch) for batch in shuffled(different, 0, n, 7)} for n in (0, 1))
    assert one != other


def test_seed_and_epoch_settle_the_order():
    def order(seed, epoch):
        return shuffled(sizes(), seed, epoch, 7)

    assert order(1, 2) == order(1, 2)
    assert len({str(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@pytest.mark.parametrize("choice", [{"batch_size": 7}, {"batch_size": 1, "tokens_per_batch": 89}])
def test_neighbours_are_of_similar_length(choice):
    many = sizes(499)

    def padding(batches):
        rows = [[many[index][0] for index in batch] for batch in batches]
        return sum(max(row) * len(row) - sum(row) for row in rows)

    batches = shuffled(many, 0, 0, **choice)
    assert padding(batches) < 0.2 * padding(in_order(499, 7))
    first = [many[batch[0]] for batch in batches]
    assert first != sorted(first)  # the batches themselves come in any order


def test_of_sources_of_one_length_the_targets_are_similar():
    lengths = [tgt for _, tgt in sizes(499)]

    def padding(batches):
        rows = [[lengths[index] for index in batch] for batch in batches]
        return sum(max(row) * len(row) - sum(row) for row in rows)

    batches = shuffled([(5, length) for length in lengths], 0, 0, 7)
    assert padding(batches) < 0.2 * padding(in_order(499, 7))


def test_refused():
    for make in (lambda size: in_order(5, size), lambda size: shuffled(sizes(), 0, 0, size)):
        with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
            make(0)
    for make in (lambda: in_order(0, 7), lambda: shuffled([], 0, 0, 7)):
        with pytest.raises(ValueError, match="is the corpus empty"):
            make()
    with pytest.raises(ValueError, match=r"example 1 has 9 tokens, more than tokens_per_batch=8"):
        shuffled([(3, 2), (4, 9)], 0, 0, 1, tokens_per_batch=8)
