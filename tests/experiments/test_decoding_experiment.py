"""Ever wider beams, on languages small enough to know what is to be found."""

import math

import pytest
import torch
from search_models import VOCAB, A, B, C, Markov, markov

from attentively.data.pairs import Pair
from attentively.experiments import decoding
from attentively.experiments.decoding import best_of_beam, target_log_probabilities
from attentively.generation.search import power
from attentively.tokens.vocabulary import END_ID, START_ID, Vocabulary, WordTokenizer

TOKENIZER = WordTokenizer(Vocabulary(["a", "b", "c"]))

# Greedy goes by "a" to 0.6 × 0.4; "b c" has 0.4 × 0.9; nothing at all has no chance.
GREEDY_LOSES = {
    (START_ID, START_ID): {A: 0.6, B: 0.4},
    (START_ID, A): {A: 0.4, B: 0.3, C: 0.3},
    (START_ID, B): {C: 0.9, A: 0.1},
}


def test_the_words_of_the_tokenizer_are_the_tests():
    assert TOKENIZER.encode("a b c") == [A, B, C, END_ID]
    assert len(TOKENIZER) == VOCAB


def test_every_source_gets_its_best_hypothesis_in_order():
    """One language for each source: its first word says which."""
    logits = torch.stack(
        [markov({(START_ID, START_ID): {word: 1.0}}).logits[0] for word in (C, A, B)]
    )
    sources = ["a", "b", "c", "a"]  # 4, 5, 6, modulo 3 languages: 1, 2, 0
    best = best_of_beam(Markov(logits.detach()), TOKENIZER, sources, 2, power(0.0), batch_size=3)
    assert [hypothesis.ids for hypothesis in best] == [[A], [B], [C], [A]]


def test_targets_have_the_probability_of_their_tokens_and_their_end():
    model = markov(GREEDY_LOSES)
    pairs = [Pair("a", "b c"), Pair("a b", "a a"), Pair("a b c", "b a")]
    found = target_log_probabilities(model, pairs, TOKENIZER, TOKENIZER)
    assert [math.exp(value) for value in found] == pytest.approx([0.36, 0.24, 0.04])
    ((nothing),) = target_log_probabilities(model, [Pair("a", "")], TOKENIZER, TOKENIZER)
    assert nothing == -math.inf


def test_what_is_as_likely_as_one_over_the_width_is_found():
    """The claim behind "proven": a sentence of probability p has room in a beam of 1 / p."""
    generator = torch.Generator().manual_seed(0)
    checked = 0
    for _ in range(15):
        model = Markov(torch.randn(1, *[VOCAB] * 3, generator=generator) * 2)
        (likeliest,) = best_of_beam(model, TOKENIZER, ["a"], 50, power(0.0))
        for beam_size in range(1, 20):
            if likeliest.log_probability >= -math.log(beam_size):
                (found,) = best_of_beam(model, TOKENIZER, ["a"], beam_size, power(0.0))
                assert found.ids == likeliest.ids
                checked += 1
    assert checked > 50


def test_what_the_model_thinks_beside_what_was_found():
    """The reference has 0.24, the likeliest 0.36: proven by a width of 3, not by one of 2."""
    items = [decoding.Item("a", ["a a"])]

    def beside(model, likeliest, widest):
        return decoding._beside(model, TOKENIZER, TOKENIZER, items, [math.log(likeliest)], widest)

    model = markov(GREEDY_LOSES)
    row = beside(model, 0.36, 3)
    assert row["log_probability_reference"] == pytest.approx(math.log(0.24), abs=1e-4)
    assert (row["proven"], beside(model, 0.36, 2)["proven"]) == (1, 0)
    assert (row["reference_is_likeliest"], beside(model, 0.24, 3)["reference_is_likeliest"]) == (
        0,
        1,
    )
    assert (row["empty_beats_reference"], row["empty_is_likeliest"]) == (0, 0)
    quiet = markov({(START_ID, START_ID): {END_ID: 0.7, A: 0.3}, (START_ID, A): {A: 1.0}})
    silence = beside(quiet, 0.7, 3)
    assert (silence["empty_beats_reference"], silence["empty_is_likeliest"]) == (1, 1)


def test_each_seed_takes_other_sentences():
    first, second = (decoding.sentences_of(3, seed, quick=False) for seed in (0, 1))
    assert len(first) == len(second) == 100
    assert not {item.src for item in first} & {item.src for item in second}
