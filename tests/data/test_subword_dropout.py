"""Cut anew: the same text in other pieces, which depend on the seed alone."""

import pytest

from attentively.data import toy
from attentively.data.batches import Renewable, encode_pairs
from attentively.data.pairs import Pair
from attentively.data.subword_dropout import CutAnew
from attentively.tokens.vocabulary import UNK_ID, BPETokenizer

PAIRS = [Pair(pair.src_text, pair.tgt_text) for pair in toy.load("train", 60, clauses=(1, 2))]


@pytest.fixture(scope="module")
def tokenizer():
    return BPETokenizer.train([text for pair in PAIRS for text in pair], 200)


def renewed(tokenizer, dropout, seed="0"):
    examples = CutAnew(PAIRS, tokenizer, dropout)
    examples.renew(seed)
    return examples


def test_the_text_stays_the_same(tokenizer):
    for found, (src, tgt) in zip(renewed(tokenizer, 0.5), PAIRS, strict=True):
        assert tokenizer.decode(found.src) == src
        assert tokenizer.decode(found.tgt) == tgt
        assert UNK_ID not in found.src + found.tgt


def test_ends_stand_where_a_pair_has_them(tokenizer):
    [usual] = encode_pairs(PAIRS[:1], tokenizer, tokenizer)
    found = renewed(tokenizer, 0.5)[0]
    assert (found.src[-1], found.tgt[0], found.tgt[-1]) == (
        usual.src[-1],
        usual.tgt[0],
        usual.tgt[-1],
    )


def test_each_time_it_is_cut_in_another_way_and_on_average_in_more_pieces(tokenizer):
    examples = CutAnew(PAIRS, tokenizer, 0.3)
    cuts = set()
    for seed in range(40):
        examples.renew(str(seed))
        cuts.add(tuple(examples[0].src))
    assert len(cuts) > 10
    usual = encode_pairs(PAIRS, tokenizer, tokenizer)
    pieces = sum(len(example.src) for example in examples)
    assert pieces > 1.1 * sum(len(example.src) for example in usual)


def test_before_it_is_renewed_it_is_the_usual_cut(tokenizer):
    examples = CutAnew(PAIRS, tokenizer, 0.5)
    assert list(examples) == encode_pairs(PAIRS, tokenizer, tokenizer)
    assert len(examples) == len(PAIRS)


def test_read_twice_it_is_the_same_so_that_batches_can_be_planned(tokenizer):
    examples = renewed(tokenizer, 0.5)
    assert [examples[index] for index in range(len(PAIRS))] == list(examples)


def test_the_seed_alone_says_how_so_that_a_run_can_be_resumed(tokenizer):
    first = renewed(tokenizer, 0.5, "7/3")
    again = renewed(tokenizer, 0.5, "7/2")
    assert list(again) != list(first)  # the broken twin: chance that stands still
    again.renew("7/3")
    assert list(again) == list(first)


def test_a_trainer_knows_that_they_change(tokenizer):
    examples = CutAnew(PAIRS, tokenizer, 0.5)
    assert isinstance(examples, Renewable)
    assert not isinstance(list(examples), Renewable)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"dropout": 0.0}, "dropout=0.0"), ({"dropout": 1.0}, "dropout=1.0")]
    + [({"dropout": 0.1, "variety": 0}, "variety=0 must be at least 1")],
)
def test_what_cannot_be_is_refused(tokenizer, given, message):
    with pytest.raises(ValueError, match=message):
        CutAnew(PAIRS, tokenizer, **given)
