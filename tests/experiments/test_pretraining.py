"""The experiment on pre-training: both classifiers differ in where the encoder begins alone."""

import torch

from attentively.data import toy
from attentively.experiments import pretraining
from attentively.experiments.pretraining import classifier, fewer, pretrained, sentences


def test_the_fewer_labels_are_among_the_more():
    found = sentences("toy", True)
    few, many = fewer(found.train, 7, seed=3), fewer(found.train, 29, seed=3)
    assert few == many[:7]
    assert len(set(many)) == 29
    assert few != fewer(found.train, 7, seed=4)


def test_a_sentence_out_of_order_is_one_exchange_from_one_in_order():
    items = sentences("toy", True).test
    assert [item.label for item in items] == ["right", "swapped"] * (len(items) // 2)
    true = [pair.src_text for pair in toy.load("test", len(items), seed=1, clauses=(1,))]
    for item, text in zip(items, true, strict=True):
        words, expected = item.text.split(), text.split()
        wrong = [place for place in range(len(words)) if words[place] != expected[place]]
        if item.label == "right":
            assert not wrong
        else:
            first, second = wrong
            assert second == first + 1
            assert words[first : second + 1] == [expected[second], expected[first]]


def test_no_held_out_sentence_is_learned_from():
    for data in pretraining.DATA:
        found = sentences(data, True)
        held_out = {text for text, _ in [*found.validation, *found.test]}
        assert held_out.isdisjoint(found.texts)
        assert held_out.isdisjoint(text for text, _ in found.train)


def test_the_heads_begin_alike_and_the_encoders_do_not(tmp_path):
    found = sentences("toy", True)
    filler = pretrained("toy", seed=0, quick=True, directory=tmp_path)
    fresh, taught = (
        classifier(0, found.tokenizer, found.labels, beginning).model.state_dict()
        for beginning in (None, filler)
    )
    before = filler.model.state_dict()
    for name, value in taught.items():
        if name.startswith("encoder."):
            assert torch.equal(value, before[name])
        else:
            assert torch.equal(value, fresh[name])
    assert any(not torch.equal(value, fresh[name]) for name, value in taught.items())
