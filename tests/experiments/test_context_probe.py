"""The probe finds what is there, and no more than chance where nothing is."""

from functools import partial

import pytest
import torch

from attentively.data import toy
from attentively.experiments import context_probe, toy_translation
from attentively.experiments.context_probe import (
    COLUMN,
    CONTENT_WORDS,
    FUNCTION_WORDS,
    LinearProbe,
    contexts,
    found_words,
    hidden_layer_probe,
    presence,
    recall,
    recall_by_part,
)


@pytest.fixture(scope="module")
def pairs():
    return toy.load("train", 800, clauses=(1,))


@pytest.fixture(scope="module")
def tests():
    return toy.load("test", 97, clauses=(1,))


def test_a_word_is_of_one_kind():
    assert set(toy.words("src")) > FUNCTION_WORDS
    assert FUNCTION_WORDS.isdisjoint(CONTENT_WORDS)
    assert {"milk", "drank", "tired"} <= set(CONTENT_WORDS)


def test_presence_by_hand():
    [row] = presence([toy.translate("the cat drank the milk")])
    assert {CONTENT_WORDS[i] for i in row.nonzero().flatten()} == {"cat", "drank", "milk"}


def test_as_many_words_are_named_as_there_are():
    scores = torch.tensor([[0.3, 0.9, 0.1, 0.5], [0.3, 0.9, 0.1, 0.5]])
    present = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]])
    found = found_words(scores, present)
    assert found.tolist() == [[False, True, False, True], [False, True, False, False]]
    assert recall(found, present) == pytest.approx(2 / 3, abs=1e-4)


def test_recall_by_part_by_hand():
    pair = toy.translate("the cat drank the milk")
    found = torch.zeros(1, len(CONTENT_WORDS), dtype=torch.bool)
    found[0, [COLUMN["cat"], COLUMN["milk"]]] = True
    assert recall_by_part(found, [pair]) == [0, 1, 0, 0, 1]  # of five words one in each fifth


@pytest.mark.parametrize("kind", [LinearProbe, partial(hidden_layer_probe, passes=60)])
def test_a_probe_finds_what_is_there(pairs, tests, kind):
    """A sum of random vectors, one for each word, loses none of them; noise holds nothing."""
    torch.manual_seed(0)
    vectors = torch.randn(len(CONTENT_WORDS), 128)
    known, present = presence(pairs), presence(tests)
    probe = kind(known @ vectors, known)
    assert recall(found_words(probe(present @ vectors), present), present) > 0.9
    blind = kind(torch.randn(len(pairs), 128), known)
    assert recall(found_words(blind(torch.randn(len(tests), 128)), present), present) < 0.2


def test_scale_and_shift_do_not_matter(pairs, tests):
    torch.manual_seed(0)
    vectors = torch.randn(len(CONTENT_WORDS), 13)
    known, present = presence(pairs), presence(tests)
    plain = LinearProbe(known @ vectors, known)(present @ vectors)
    scaled = LinearProbe(7 + 0.01 * known @ vectors, known)(7 + 0.01 * present @ vectors)
    torch.testing.assert_close(plain, scaled, atol=1e-3, rtol=0)


def test_a_context_is_what_the_decoder_gets(tests):
    checkpoint = toy_translation.new_checkpoint("fixed", seed=0)
    together = contexts(checkpoint, tests[:11])
    assert together.shape == (11, context_probe.CONTEXT_DIM)
    alone = torch.cat([contexts(checkpoint, [pair]) for pair in tests[:11]])
    torch.testing.assert_close(together, alone)


def test_what_is_said_is_held_against_what_is_found(monkeypatch):
    """The cat is found and said; the milk is found and not said; drank is neither."""
    pair = toy.translate("the cat drank the milk")

    class Said:
        text = "le chat a aimé"

    monkeypatch.setattr(context_probe, "translate", lambda *_, **__: [Said])
    found = torch.zeros(1, len(CONTENT_WORDS), dtype=torch.bool)
    found[0, [COLUMN["cat"], COLUMN["milk"]]] = True
    checkpoint = toy_translation.new_checkpoint("fixed", seed=0)
    assert context_probe.said(checkpoint, found, [pair]) == {"found": 0.5, "not_found": 0}
