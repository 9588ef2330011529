"""The checks of 00_tools, beyond what its bank of answers proves."""

import re

import pytest
import right_answers_00 as right
import torch
import wrong_answers_00 as wrong

from attentively.checks import CheckFailed
from attentively.checks import tools as checks
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.scoring.metrics import perplexity
from attentively.training.losses import cross_entropy


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_translates_and_shows_what_a_check_says(capsys):
    checks.ready()
    shown = capsys.readouterr().out
    assert "“le chat boit le lait”" in shown
    assert "The exp is missing" in shown


# The answers that the checks take for known, worked out again


def largest(scores, upstream, temperature):
    """Return the largest entry of the gradient, as autograd finds it."""
    return checks._by_autograd(scores, upstream, temperature).abs().max()


MISTAKES = {
    "none": wrong.empty_list,
    "dead": wrong.dead_ones,
    "signed": wrong.with_sign,
    "negative": wrong.only_the_negative,
    "norm": wrong.norm_of_a_row,
    "summed": wrong.sum_of_entries,
    "mean": wrong.mean_of_entries,
    "weights at 1": wrong.weights_at_one,
    "scores": wrong.no_softmax,
    "gradient at 1": wrong.gradient_at_one,
    "every row": wrong.every_row_alive,
    "sorted": wrong.sorted_ones,
    "multiplied": wrong.multiplied_scores,
    "above": wrong.above_the_bound,
}


@pytest.mark.parametrize("case", [*checks._ALIVE, *checks._FURTHER_ALIVE])
def test_the_planted_temperatures_are_those_of_autograd(case):
    inputs, expected, mistakes = case
    scores, upstream, temperatures, bound = inputs.values()
    sizes = {t: largest(scores, upstream, t) for t in temperatures}
    assert [t for t in temperatures if sizes[t] >= bound] == expected
    # No rounding decides: an entry is far from the bound, or exactly it.
    assert all(size == bound or abs(size - bound) > 0.02 * bound for size in sizes.values())
    for name, found in mistakes.items():
        assert MISTAKES[name](*inputs.values()) == found
    assert len({tuple(found) for found in [expected, *mistakes.values()]}) == 1 + len(mistakes)


def test_every_known_mistake_has_its_words():
    named = {name for _, _, mistakes in checks._ALIVE for name in mistakes}
    assert named == {*checks._SAID_OF_ALIVE} == {*MISTAKES}


def test_a_gradient_dies_at_both_ends():
    """What part 3 finds: too cold, the softmax is saturated; too hot, 1 / temperature is small."""
    scores, upstream = torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    cold, warm, hot = (largest(scores, upstream, t) for t in (0.1, 1.0, 100.0))
    assert cold < 0.01 < warm
    assert hot < 0.01


@pytest.mark.parametrize("cases", [checks._SUMS, checks._PRODUCTS])
def test_each_mistake_is_planted_where_no_right_answer_makes_it(cases):
    predict = right.sum_shape if cases is checks._SUMS else right.product_shape
    for a, b, mistakes in cases:
        assert predict(a, b) not in mistakes


def test_the_paper_sized_sentence_has_perplexity_four():
    probabilities = checks._DE_RIEN.softmax(dim=-1)[0]
    assert probabilities[[0, 1, 2], checks._DE_RIEN_END[0]].tolist() == pytest.approx(
        [1 / 2, 1 / 4, 1 / 8]
    )
    loss = cross_entropy(checks._DE_RIEN, checks._DE_RIEN_END, pad_id=0)
    assert perplexity(float(loss)) == pytest.approx(4)


# The trained translator


@pytest.mark.parametrize("sentence", checks.SENTENCES)
def test_the_translator_writes_as_ever_with_a_right_softmax(sentence):
    words = [word for word, _ in checks.write(right.softmax, sentence)]
    (translation,) = translate(load_pretrained(checks.MODEL), [sentence], beam_size=1)
    assert words == translation.tgt_tokens
    probabilities = [probability for _, probability in checks.write(right.softmax, sentence)]
    assert all(0.5 < probability <= 1 for probability in probabilities)


def test_writing_ends_whatever_the_softmax():
    assert len(checks.write(lambda scores: -scores, "the cat drinks the milk", most=5)) <= 5


def test_a_softmax_that_is_wrong_only_for_many_words_is_caught():
    def limited(scores):
        return right.softmax(scores[..., :100]) if scores.size(-1) > 100 else right.softmax(scores)

    with pytest.raises(CheckFailed, match=r"The shape of the weights is \(1, 100\)"):
        checks.softmax(limited)


def test_a_wrong_word_has_a_large_negative_log_likelihood():
    wrong_article = {"the cat drinks the milk": "le chat boit la lait"}
    reading = checks.read(wrong_article)
    assert reading.words == [["le", "chat", "boit", "la", "lait", "<end>"]]
    nll = right.negative_log_likelihoods(reading.logits, reading.targets)[0]
    assert nll.argmax() == 3
    assert nll[3] > 5 > nll[:3].max()


def test_the_students_perplexity_is_the_packages():
    readings = checks.readings(num_pairs=20)
    found = []
    for logits, targets, _, pad_id in readings.values():
        assert (targets == pad_id).any()
        yours = right.perplexity(right.negative_log_likelihoods(logits, targets), targets, pad_id)
        assert float(yours) == pytest.approx(
            perplexity(float(cross_entropy(logits, targets, pad_id))), rel=1e-4
        )
        found.append(float(yours))
    assert found[0] < 1.1
    assert found[1] > 100


# What is not right in other ways


def test_an_error_says_how_to_take_the_values():
    with pytest.raises(CheckFailed) as caught:
        checks.softmax(wrong.values_forgotten)
    assert re.search(r"in values_forgotten, line \d+: .*\n.*use \.values", str(caught.value))


def test_autograd_is_off_where_a_gradient_is_to_be_written():
    with pytest.raises(CheckFailed, match="does not require grad"):
        checks.gradient(wrong.by_autograd, right.alive)
