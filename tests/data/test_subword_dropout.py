"""Cut anew: the same text in other pieces, and lengths to plan with that do not change."""

import pytest
import torch

from attentively.data import toy
from attentively.data.batches import encode_pairs
from attentively.data.pairs import Pair
from attentively.data.subword_dropout import CutAnew
from attentively.vocabulary import UNK_ID, BPETokenizer

PAIRS = [Pair(pair.src_text, pair.tgt_text) for pair in toy.load("train", 60, clauses=(1, 2))]


@pytest.fixture(scope="module")
def tokenizer():
    return BPETokenizer.train([text for pair in PAIRS for text in pair], 200)


def test_the_text_stays_the_same(tokenizer):
    examples = CutAnew(PAIRS, tokenizer, 0.5)
    for index, (src, tgt) in enumerate(PAIRS):
        found = examples[index]
        assert tokenizer.decode(found.src) == src
        assert tokenizer.decode(found.tgt) == tgt
        assert UNK_ID not in found.src + found.tgt


def test_ends_stand_where_a_pair_has_them(tokenizer):
    [usual] = encode_pairs(PAIRS[:1], tokenizer, tokenizer)
    found = CutAnew(PAIRS, tokenizer, 0.5)[0]
    assert (found.src[-1], found.tgt[0], found.tgt[-1]) == (
        usual.src[-1],
        usual.tgt[0],
        usual.tgt[-1],
    )


def test_each_time_it_is_cut_in_another_way_and_on_average_in_more_pieces(tokenizer):
    examples = CutAnew(PAIRS, tokenizer, 0.3)
    cuts = {tuple(examples[0].src) for _ in range(40)}
    assert len(cuts) > 10
    usual = encode_pairs(PAIRS, tokenizer, tokenizer)
    pieces = sum(len(examples[index].src) for index in range(len(PAIRS)))
    assert pieces > 1.1 * sum(len(example.src) for example in usual)


def test_in_a_row_it_is_the_usual_cut(tokenizer):
    """So the batches can be planned: the lengths do not change from epoch to epoch."""
    examples = CutAnew(PAIRS, tokenizer, 0.5)
    assert list(examples) == encode_pairs(PAIRS, tokenizer, tokenizer)
    assert len(examples) == len(PAIRS)


def test_the_chance_is_pytorchs_so_that_a_run_can_be_resumed(tokenizer):
    examples = CutAnew(PAIRS, tokenizer, 0.5)
    torch.manual_seed(3)
    first = [examples[index] for index in range(10)]
    torch.manual_seed(3)
    assert [CutAnew(PAIRS, tokenizer, 0.5)[index] for index in range(10)] == first
    assert examples[:10] != first  # the broken twin: chance that stands still


@pytest.mark.parametrize(
    ("given", "message"),
    [({"dropout": 0.0}, "dropout=0.0"), ({"dropout": 1.0}, "dropout=1.0")]
    + [({"dropout": 0.1, "variety": 0}, "variety=0 must be at least 1")],
)
def test_what_cannot_be_is_refused(tokenizer, given, message):
    with pytest.raises(ValueError, match=message):
        CutAnew(PAIRS, tokenizer, **given)
