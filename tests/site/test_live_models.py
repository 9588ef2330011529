"""The live models in a browser translate as PyTorch does, from a folder."""

import pytest
from live_pages import COMPARE, SENTENCES, differences

from attentively.data import tatoeba


@pytest.fixture(scope="module", params=["tatoeba-en-fr-transformer", "tatoeba-en-fr-additive"])
def name(request) -> str:
    return request.param


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(5, 1.0), (1, 1.0), (3, 0.0)])
def test_translations_and_logits_are_those_of_pytorch(
    window, name, translator, beam_size, length_penalty
):
    results = window.page.evaluate(COMPARE, [name, SENTENCES, beam_size, length_penalty])
    for sentence, got in zip(SENTENCES, results, strict=True):
        assert differences(translator, sentence, got, beam_size, length_penalty) == []
    assert window.complaints == []


MILLISECONDS = """
(name) => Attentively.load("live", name).then(({model, subwords}) => {
  const memory = model.encode(subwords.encode("I have never seen such a beautiful garden."));
  const target = Array.from({length: 20}, (_, id) => 2 + id);
  const times = Array.from({length: 5}, () => {
    const before = performance.now();
    model.decode(target, memory);
    return (performance.now() - before) / target.length;
  });
  return Math.min(...times);
})
"""


def test_a_token_takes_at_most_thirty_milliseconds(window, name):
    assert 0 < window.page.evaluate(MILLISECONDS, name) <= 30


@pytest.mark.slow
@pytest.mark.real_data("tatoeba-en-fr")
def test_two_hundred_held_out_sentences(window, name, translator):
    sentences = list(dict.fromkeys(pair.src for pair in tatoeba.load("test")))[:200]
    assert len(sentences) == 200
    for first in range(0, 200, 20):
        some = sentences[first : first + 20]
        results = window.page.evaluate(COMPARE, [name, some, 5, 1.0])
        for sentence, got in zip(some, results, strict=True):
            assert differences(translator, sentence, got) == []
