"""The everyday sentences are sentences, in two languages, each once."""

from attentively.data.everyday import EVERYDAY
from attentively.data.pairs import tidy


def test_the_sentences_are_whole_and_distinct():
    assert len(EVERYDAY) == 28
    assert len({pair.src for pair in EVERYDAY}) == len({pair.tgt for pair in EVERYDAY}) == 28
    for sentence in (text for pair in EVERYDAY for text in pair):
        assert sentence == tidy(sentence)
        assert sentence[0].isupper()
        assert sentence[-1] in ".?"
