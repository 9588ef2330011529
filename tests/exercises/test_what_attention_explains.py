"""The checks of 11_what_attention_explains, beyond what its bank of answers proves."""

import itertools

import pytest
import right_answers_11 as right
import torch
import wrong_answers_11 as wrong

from attentively.analysis import explanations
from attentively.checks import CheckFailed
from attentively.checks import what_attention_explains as checks
from attentively.data import digits


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("Ready.\n")


# Part 1


def test_the_captioner_names_the_digit_that_the_square_in_the_corner_holds():
    model, image, words = checks.naming()
    likeliest = model(image.unsqueeze(0)).argmax().item()
    assert words[likeliest] == "one"
    assert digits.load("test", 12)[11].cells[5] == 1
    falls = right.occlusion(model, image, likeliest, 12, 0.0)
    assert falls.argmax() == 5
    assert falls[1, 2] > 0.9


# Parts 1, 2 and 4: the package's own functions answer alike


def test_the_distances_are_the_packages():
    p, q = torch.rand(2, 5, 7).softmax(dim=-1)
    assert torch.allclose(explanations.total_variation(p, q), checks._variation(p, q))
    found = [checks._divergence(one, other) for one, other in zip(p, q, strict=True)]
    assert torch.allclose(explanations.jensen_shannon(p, q), torch.tensor(found), atol=1e-6)


# Part 3


@pytest.mark.parametrize(
    ("options", "rule"), [rule[1:] for rule in checks._RULES + checks._FURTHER_RULES]
)
def test_no_smaller_set_flips_an_answer_and_each_of_these_does(options, rule):
    studio = checks._Studio(options)
    model = checks._Follower(studio, rule, "a model")
    for scene in checks._scenes(options, 5):
        found = checks._smallest(model, studio, options, scene)
        size = len(found[0]) if found else len(options) + 1
        for values in itertools.product(*options.values()):
            other = dict(zip(options, values, strict=True))
            moved = frozenset(factor for factor in options if other[factor] != scene[factor])
            if rule(other) != rule(scene):
                assert len(moved) >= size
                assert len(moved) > size or moved in found


def test_a_scene_is_read_as_it_was_drawn():
    studio = checks._Studio(checks._MORE)
    for scene in checks._scenes(checks._MORE, 36):
        assert studio.read(studio(scene)) == scene
    with pytest.raises(ValueError, match="must contain a value for each of"):
        studio({"animal": "wolf"})


def test_the_suspects_cannot_be_told_apart_on_their_scenes():
    render, _, scenes, suspects = checks.studio()
    said = [[right.answer_to(model, render, scene) for scene in scenes] for model in suspects]
    assert said[0] == said[1] == said[2]
    assert [bool(each) for each in said[0]] == [scene["animal"] == "wolf" for scene in scenes]


# Part 4


def test_nothing_found_at_random_is_farther_than_the_best_corner():
    """Weights with the same logit are mixtures of corners, and none is farther away."""
    for size in (3, 5, 7):
        weights, scores = checks._read(size)
        corners = torch.stack(checks._corners(weights, scores))
        best = checks._divergence(weights, checks._farthest(weights, scores))
        for _ in range(200):
            mixture = (3 * torch.randn(len(corners))).softmax(dim=0) @ corners
            assert float(mixture @ scores) == pytest.approx(float(weights @ scores), abs=1e-4)
            assert checks._divergence(weights, mixture) <= best + 1e-6
            assert not checks._what_is_wrong(checks._farthest(weights, scores), weights, scores)


def test_weights_that_are_nearly_the_farthest_pass():
    weights, scores = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([1.0, 2.0, -2.0])
    best, other = torch.tensor([0.0, 0.625, 0.375]), torch.tensor([5 / 6, 0.0, 1 / 6])
    assert not checks._what_is_wrong(0.9999 * best + 0.0001 * other, weights, scores)
    said = checks._what_is_wrong(0.9 * best + 0.1 * other, weights, scores)
    assert "but others are more distant" in said


def test_weights_that_fail_only_inside_the_classifier_are_caught():
    checks._inside_the_two_labels(right.other_weights)
    with pytest.raises(CheckFailed, match="change the prediction"):
        checks._inside_the_two_labels(lambda weights, scores: weights.flip(0))


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
        assert right.exposed(checks.readers(), texts, k) == ["second"]
