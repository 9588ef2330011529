"""The checks of 11_what_attention_explains, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import Assignment

from attentively.analysis import explanations
from attentively.checks import CheckFailed
from attentively.checks import what_attention_explains as checks
from attentively.checks.recordings import load_questions
from attentively.data import digits

questions = load_questions(Assignment("11_what_attention_explains").questions)


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("Ready.\n")


# Part 1


def test_the_captioner_names_the_digit_that_the_square_in_the_corner_holds():
    model, image, words = checks.naming()
    predicted = model(image.unsqueeze(0)).argmax().item()
    assert words[predicted] == "one"
    assert digits.load("test", 12)[11].cells[5] == 1
    falls = questions.occlusion(model, image, predicted, 12, 0.0)
    assert falls.argmax() == 5
    assert falls[1, 2] > 0.9


# Parts 2 and 4: the package's own functions answer alike


def test_the_distances_are_the_packages():
    p, q = torch.rand(2, 5, 7).softmax(dim=-1)
    assert torch.allclose(explanations.total_variation(p, q), questions.total_variation(p, q))
    found = [questions.jensen_shannon(one, other) for one, other in zip(p, q, strict=True)]
    assert torch.allclose(explanations.jensen_shannon(p, q), torch.tensor(found), atol=1e-6)


# Part 3


@pytest.mark.parametrize("rule", questions.RULES + questions.FURTHER_RULES, ids=lambda r: r[0])
def test_no_smaller_set_flips_an_answer_and_each_of_these_does(rule):
    _, options, predicts = rule
    given = {name: each for name, each in questions.of_rule(*rule).items() if name != "options"}
    for scene in questions.some_scenes(options, 5):
        made = [each.make() for each in given.values()]
        found = questions.smallest(*made, options, scene)
        size = len(found[0]) if found else len(options) + 1
        for other in questions.all_scenes(options):
            moved = {factor for factor in options if other[factor] != scene[factor]}
            if predicts(other) != predicts(scene):
                assert len(moved) >= size
                assert len(moved) > size or moved in found


def test_a_model_predicts_the_class_of_each_scene():
    scenes = questions.all_scenes(questions.MORE)
    studio = checks.Studio(questions.MORE)
    model = checks.Follower(questions.MORE, range(len(scenes)), "a model")
    images = torch.stack([studio(scene) for scene in scenes])
    assert model(images).argmax(dim=1).tolist() == [*range(len(scenes))]
    with pytest.raises(ValueError, match="must contain a value for each of"):
        studio({"animal": "wolf"})


def test_the_suspects_cannot_be_told_apart_on_their_scenes():
    render, _, scenes, suspects = checks.studio()
    said = [[questions.predicted(model, render, scene) for scene in scenes] for model in suspects]
    assert said[0] == said[1] == said[2]
    assert [bool(each) for each in said[0]] == [scene["animal"] == "wolf" for scene in scenes]


# Part 4


def test_nothing_at_the_end_of_a_random_direction_is_farther():
    """All directions in which the sum and the logit stay the same are followed to a zero weight."""
    for case in questions.weights_cases(thorough=True):
        weights, scores = case.inputs.values()
        best = questions.jensen_shannon(weights, questions.other_weights(weights, scores))
        kept = torch.stack([torch.ones(len(scores)), scores])
        directions = torch.randn(200, len(scores) - 2) @ torch.linalg.svd(kept)[2][2:]
        for direction in directions:
            steps = (-weights / direction)[direction < 0]
            found = weights + steps.min() * direction
            assert found @ scores == pytest.approx(float(weights @ scores), abs=1e-4)
            assert questions.jensen_shannon(weights, found.clamp(min=0)) <= best + 1e-5


def test_weights_that_fail_only_inside_the_classifier_are_caught():
    checks._inside_the_classifier(questions.other_weights)
    with pytest.raises(CheckFailed, match="the prediction of the package's classifier"):
        checks._inside_the_classifier(lambda weights, scores: weights.flip(0))


# Part 5


def test_the_readers_agree_and_show_different_maps():
    readers, texts = checks.readers(), checks.reviews()
    for words in texts:
        answers = [reader(words) for reader in readers.values()]
        assert len({probability for probability, _ in answers}) == 1
        for _, weights in answers:
            assert sum(weights) == pytest.approx(1)
            assert len(set(weights)) == len(weights)
    shown = [reader(texts[2])[1] for reader in readers.values()]
    assert shown[0] != shown[1] != shown[2] != shown[0]


def test_the_second_reader_is_exposed_whatever_k_is():
    texts = checks.reviews()
    for k in (1, 2, 3):
        assert questions.exposed(checks.readers(), texts, k) == ["second"]
