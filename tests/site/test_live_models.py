"""The live models in a browser translate as PyTorch does, from a folder."""

import pytest
from live_pages import COMPARE, SENTENCES, differences

from attentively.data import tatoeba


@pytest.fixture(scope="module", params=["tatoeba-en-fr-transformer", "tatoeba-en-fr-additive"])
def name(request) -> str:
    return request.param


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(5, 1.0), (1, 1.0), (3, 0.0)])
def test_translations_and_logits_are_those_of_pytorch(
    computing, name, translator, beam_size, length_penalty
):
    results = computing.page.evaluate(COMPARE, [name, SENTENCES, beam_size, length_penalty])
    for sentence, got in zip(SENTENCES, results, strict=True):
        assert differences(translator, sentence, got, beam_size, length_penalty) == []
    assert computing.complaints == []


@pytest.mark.slow
@pytest.mark.real_data("tatoeba-en-fr")
def test_held_out_sentences(computing, name, translator):
    sentences = list(dict.fromkeys(pair.src for pair in tatoeba.load("test")))[:60]
    assert len(sentences) == 60
    for first in range(0, 60, 20):
        some = sentences[first : first + 20]
        results = computing.page.evaluate(COMPARE, [name, some, 5, 1.0])
        for sentence, got in zip(some, results, strict=True):
            assert differences(translator, sentence, got) == []
