"""The experiment on positions: sentences are moved as it says, and scored in groups that fit."""

import pytest
import torch

from attentively.attention.positional import SinusoidalPositionalEncoding, sinusoids
from attentively.data import toy
from attentively.experiments import positions
from attentively.experiments.toy_translation import new_transformer


@pytest.fixture(scope="module")
def pairs():
    return toy.load("test", 5, clauses=(1,))


def test_a_shift_tells_every_word_a_later_place():
    x = torch.randn(2, 7, 6)
    told = positions.Shifted(SinusoidalPositionalEncoding(6), 3)(x)
    torch.testing.assert_close(told, x + sinusoids(7, 6, first=3))
    piece = positions.Shifted(SinusoidalPositionalEncoding(6), 3)(x[:, 5:], first=5)
    torch.testing.assert_close(piece, told[:, 5:])


@pytest.mark.parametrize(
    ("parts", "moved"),
    [(("encoder",), {"encoder"}), (("encoder", "decoder"), {"encoder", "decoder"})],
)
def test_only_the_named_parts_are_moved_and_the_model_stays_as_it_was(parts, moved):
    checkpoint = new_transformer(0)
    ids = torch.tensor([[5, 7, 11]])

    def entries(given):
        return {name: getattr(given.model, name).input.eval() for name in ("encoder", "decoder")}

    before = {name: entry(ids) for name, entry in entries(checkpoint).items()}
    after = entries(positions.shifted(checkpoint, 2, parts))
    for name, entry in after.items():
        later = entries(checkpoint)[name](ids, first=2)
        torch.testing.assert_close(entry(ids), later if name in moved else before[name])
    for name, entry in entries(checkpoint).items():
        assert torch.equal(entry(ids), before[name])


def test_what_is_told_no_places_cannot_be_moved(pairs):
    checkpoint = new_transformer(0, positions="none")
    moved = positions.shifted(checkpoint, 4, ("encoder", "decoder"))
    assert positions.written(moved, pairs) == positions.written(checkpoint, pairs)


def test_right_words_in_another_order_are_no_exact_match(pairs):
    right = [pair.tgt_text for pair in pairs]
    turned = [" ".join(reversed(pair.tgt)) for pair in pairs]
    assert positions.scores(pairs, right)["exact_match"] == 1
    assert positions.scores(pairs, right)["same_words"] == 1
    mixed = positions.scores(pairs, [*right[:2], *turned[2:4], right[4] + " le"])
    assert mixed["exact_match"] == 0.4
    assert mixed["same_words"] == 0.8
    assert mixed["sentences"] == 5


def test_every_sentence_falls_into_one_group_and_has_a_place_of_its_own():
    tests = [toy.load("test", 200, clauses=(clauses,)) for clauses in positions.CLAUSES]
    lengths = [len(pair.src) for pairs in tests for pair in pairs]
    for length in lengths:
        assert sum(low <= length <= high for low, high in positions.LENGTHS) == 1
    assert max(lengths) + max(positions.SHIFTS) + 1 <= positions.MAX_LEN
