"""The checks of 00_tools, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import Assignment

from attentively.checks import CheckFailed
from attentively.checks import tools as checks
from attentively.checks.recordings import load_questions
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.scoring.metrics import perplexity
from attentively.training.losses import cross_entropy

questions = load_questions(Assignment("00_tools").questions)


def test_ready_translates_and_shows_what_a_check_says(capsys):
    checks.ready()
    shown = capsys.readouterr().out
    assert "“le chat boit le lait”" in shown
    assert "The exp is missing" in shown


# The recorded results are those of PyTorch


@pytest.mark.parametrize(
    ("predict", "cases", "operation"),
    [
        (questions.sum_shape, questions.sum_cases, torch.add),
        (questions.product_shape, questions.product_cases, torch.matmul),
    ],
)
def test_the_shapes_are_those_of_pytorch(predict, cases, operation):
    for case in cases(thorough=True):
        inputs = [torch.zeros(shape) for shape in case.inputs.values()]
        expected = predict(*case.inputs.values())
        if expected is None:
            with pytest.raises(RuntimeError):
                operation(*inputs)
        else:
            assert operation(*inputs).shape == expected


def test_the_weights_are_those_of_pytorch():
    for case in questions.softmax_cases(thorough=True):
        scores = case.inputs["scores"]
        torch.testing.assert_close(questions.softmax(scores), scores.softmax(dim=-1))


def by_autograd(scores, upstream, temperature):
    scores = scores.detach().requires_grad_()
    weights = (scores / temperature).softmax(dim=-1)
    return torch.autograd.grad((weights * upstream).sum(), scores)[0]


def test_the_gradients_are_those_of_autograd():
    for case in questions.gradient_cases(thorough=True):
        weights, upstream, temperature = case.inputs.values()
        expected = by_autograd(temperature * weights.log(), upstream, temperature)
        found = questions.softmax_gradient(weights, upstream, temperature)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def largest(scores, upstream, temperature):
    return by_autograd(scores, upstream, temperature).abs().max()


def test_no_rounding_decides_where_a_gradient_vanishes():
    for case in questions.alive_cases(thorough=True):
        scores, upstream, temperatures, bound = case.inputs.values()
        sizes = {t: largest(scores, upstream, t) for t in temperatures}
        assert questions.alive(*case.inputs.values()) == [t for t in sizes if sizes[t] >= bound]
        assert all(size == bound or abs(size - bound) > 0.02 * bound for size in sizes.values())


def test_a_gradient_vanishes_at_both_ends():
    """What part 3 finds: at low temperatures the softmax is saturated, at high ones 1 / T small."""
    scores, upstream = torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    low, middle, high = (largest(scores, upstream, t) for t in (0.1, 1.0, 100.0))
    assert low < 0.01 < middle
    assert high < 0.01


def test_the_sentence_worked_by_hand_has_perplexity_four():
    probabilities = questions.DE_RIEN.softmax(dim=-1)[0]
    assert probabilities[[0, 1, 2], questions.DE_RIEN_END[0]].tolist() == pytest.approx(
        [1 / 2, 1 / 4, 1 / 8]
    )
    loss = cross_entropy(questions.DE_RIEN, questions.DE_RIEN_END, pad_id=0)
    assert perplexity(float(loss)) == pytest.approx(4)


# The trained translator


@pytest.mark.parametrize("sentence", checks.SENTENCES)
def test_the_translator_outputs_the_same_words_with_a_right_softmax(sentence):
    written = checks.write(questions.softmax, sentence)
    (translation,) = translate(load_pretrained(checks.MODEL), [sentence], beam_size=1)
    assert [word for word, _ in written] == translation.tgt_tokens
    assert all(0.5 < probability <= 1 for _, probability in written)


def test_writing_ends_whatever_the_softmax():
    assert len(checks.write(lambda scores: -scores, "the cat drinks the milk", most=5)) <= 5


def test_a_softmax_that_is_wrong_only_for_many_words_is_caught():
    def limited(scores):
        return questions.softmax(scores[..., :100])

    with pytest.raises(CheckFailed, match=r"The shape of the weights is \(1, 100\)"):
        checks.softmax(limited)


def test_a_wrong_word_has_a_large_negative_log_likelihood():
    wrong_article = {"the cat drinks the milk": "le chat boit la lait"}
    reading = checks.read(wrong_article)
    assert reading.words == [["le", "chat", "boit", "la", "lait", "<end>"]]
    nll = questions.negative_log_likelihoods(reading.logits, reading.targets)[0]
    assert nll.argmax() == 3
    assert nll[3] > 5 > nll[:3].max()


def test_the_students_perplexity_is_the_packages():
    found = []
    for logits, targets, _, pad_id in checks.readings(num_pairs=20).values():
        assert (targets == pad_id).any()
        nll = questions.negative_log_likelihoods(logits, targets)
        found.append(float(questions.perplexity(nll, targets, pad_id)))
        expected = perplexity(float(cross_entropy(logits, targets, pad_id)))
        assert found[-1] == pytest.approx(expected, rel=1e-4)
    assert found[0] < 1.1
    assert found[1] > 100
