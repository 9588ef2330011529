"""The experiment on explanations: what is counted, and that the weights are really replaced."""

import pytest
import torch
from scipy.stats import kendalltau

from attentively.analysis.explanations import kullback_leibler, total_variation
from attentively.attention.additive import AdditiveAttention
from attentively.data.sentiment import Labelled
from attentively.experiments import explanations
from attentively.experiments.explanations import OtherWeights, Sentences
from attentively.tokens.vocabulary import WordTokenizer


def test_texts_become_words_and_those_without_any_go():
    texts = [Labelled("The milk -- was GOOD!", "positive"), Labelled(":-)", "positive")]
    assert explanations.tidied(texts) == [("the milk was good", "positive")]


def test_sentences_are_ids_without_end_tokens_and_labels():
    texts = [Labelled("good milk", "positive"), Labelled("bad", "negative")]
    tokenizer = WordTokenizer.train(text for text, _ in texts)
    sentences = explanations.encode(texts, tokenizer)
    assert [tokenizer.decode(ids.tolist()) for ids in sentences.ids] == ["good milk", "bad"]
    assert sentences.mask.tolist() == [[True, True], [True, False]]
    assert sentences.labels.tolist() == [1, 0]


def test_some_sentences_need_less_padding():
    sentences = Sentences(torch.tensor([[5, 6, 7], [8, 0, 0], [9, 4, 0]]), torch.tensor([0, 1, 0]))
    some = sentences.only(torch.tensor([2, 1, 2]))
    assert some.ids.tolist() == [[9, 4], [8, 0], [9, 4]]
    assert some.labels.tolist() == [0, 1, 0]


def test_equal_weights_are_equal_on_words_alone():
    mask = torch.tensor([[True, True, True, True], [True, False, False, False]])
    assert explanations.uniform(mask).tolist() == [[0.25] * 4, [1, 0, 0, 0]]


def test_kendall_is_scipys():
    torch.manual_seed(0)
    one, other = torch.rand(17), torch.rand(17)
    expected = kendalltau(one.numpy(), other.numpy()).statistic
    assert explanations.kendall(one, other) == pytest.approx(expected, abs=1e-6)
    assert explanations.kendall(one, one) == pytest.approx(1)
    assert explanations.kendall(one, -one) == pytest.approx(-1)
    assert explanations.kendall(one, torch.ones(17)) == 0  # all ties


def test_other_weights_make_the_context():
    torch.manual_seed(0)
    attention = AdditiveAttention(5, 7, 3)
    query, keys = torch.rand(2, 5), torch.rand(2, 11, 7)
    mask = torch.arange(11) < torch.tensor([[11], [4]])
    context, weights = attention(query, keys, mask)

    unchanged = OtherWeights(attention, lambda given, _: given)
    torch.testing.assert_close(unchanged(query, keys, mask), (context, weights))

    last = OtherWeights(attention, lambda given, _: given.flip(-1))
    torch.testing.assert_close(
        last(query, keys, mask)[0], torch.einsum("bs,bsd->bd", weights.flip(-1), keys)
    )


def test_a_forger_is_measured_against_the_original_and_the_original_does_not_learn():
    ids = torch.tensor([[5, 6, 7, 0], [8, 9, 4, 4]])
    sentences = Sentences(ids, torch.tensor([0, 1]))
    original, copy, forger = (
        explanations.new_classifier(30, seed, reader=True) for seed in (0, 0, 1)
    )
    loss = explanations.forgery(original, sentences)
    assert loss(copy, torch.tensor([0, 1])).item() == pytest.approx(0, abs=1e-6)

    def distances(sentence, length):
        shown = ids[sentence : sentence + 1, :length]
        one, other = (made(shown, shown != 0) for made in (original, forger))
        return (
            total_variation(other.logits.softmax(dim=-1), one.logits.softmax(dim=-1)).item(),
            kullback_leibler(other.weights, one.weights).item(),
        )

    moved, divergence = distances(0, 3)
    for weight in (0.0, 0.5):
        loss = explanations.forgery(original, sentences, weight)
        found = loss(forger, torch.tensor([0]))
        assert found.item() == pytest.approx(moved - weight * divergence, abs=1e-5)
    found.backward()
    assert forger.query.grad is not None
    assert all(parameter.grad is None for parameter in original.parameters())
