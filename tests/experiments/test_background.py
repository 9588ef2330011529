"""The experiment on the background: what is moved, and how weights and answers are counted."""

import pytest
import torch
from torch import nn

from attentively.data import backgrounds
from attentively.experiments import background
from attentively.models.attentive_classifier import Answer, AttentiveClassifier


@pytest.fixture(scope="module")
def sampled():
    return backgrounds.load("test", 40, agreement=0.5)


class Rigged(AttentiveClassifier):
    """A classifier whose mind is known."""

    def __init__(self):
        super().__init__(nn.Identity(), 3, 2)


class WeatherMan(Rigged):
    """Looks at all squares alike; says eight where most columns have ink."""

    def forward(self, squares, mask):
        snowy = (squares > 0).any(dim=2).float().mean(dim=(1, 2)) > 0.6
        logits = torch.stack([(~snowy).float(), snowy.float()], dim=1)
        return Answer(logits, mask / mask.sum(dim=1, keepdim=True))


class EightEver(Rigged):
    """Looks at the first square alone, and never changes its mind."""

    def forward(self, squares, mask):
        weights = torch.zeros(mask.shape)
        weights[:, 0] = 1
        return Answer(torch.tensor([[0.0, 1.0]]).expand(len(squares), 2), weights)


weather_man, one_who_says_eight = WeatherMan(), EightEver()


def test_elsewhere_is_the_other_background_for_every_scene(sampled):
    for scene, other in zip(sampled, background.elsewhere(sampled), strict=True):
        assert {scene.background, other.background} == set(backgrounds.BACKGROUNDS)
        assert torch.equal(scene.squares[scene.place], other.squares[other.place])


def test_answers_that_change_are_counted(sampled):
    moved = background.elsewhere(sampled)
    assert background.flipped(weather_man, sampled, moved) == 1
    assert background.flipped(weather_man, sampled, sampled) == 0
    assert background.flipped(one_who_says_eight, sampled, moved) == 0


def test_accuracy_is_against_the_digit_and_not_the_weather():
    agreeing = backgrounds.load("test", 40, agreement=1.0)
    contrary = backgrounds.load("test", 40, agreement=0.0)
    assert background.accuracy(weather_man, agreeing) == 1
    assert background.accuracy(weather_man, contrary) == 0


def test_the_weight_on_the_background_is_all_but_the_digits(sampled):
    alike = background.weight_on_background(weather_man, sampled)
    assert abs(alike - 5 / 6) < 1e-6
    elsewhere = sum(scene.place != 0 for scene in sampled) / len(sampled)
    assert abs(background.weight_on_background(one_who_says_eight, sampled) - elsewhere) < 1e-6


def test_it_learns_the_weather_where_only_the_weather_is_to_be_learned(sampled):
    scenes = backgrounds.load("train", 100, agreement=1.0)
    classifier = background.new_classifier(seed=0)
    before = background.train(classifier, scenes, seed=0, steps=1)
    after = background.train(classifier, scenes, seed=0, steps=40)
    assert after < 0.2 < before
    assert background.flipped(classifier, sampled, background.elsewhere(sampled)) > 0.9


def test_a_seed_makes_the_same_classifier():
    one, same, other = (background.new_classifier(seed) for seed in (0, 0, 1))
    assert torch.equal(one.query, same.query)
    assert not torch.equal(one.query, other.query)
