"""The experiment on captions: what is hidden, and how a focus is scored."""

import math

import pytest
import torch

from attentively.data import digits
from attentively.experiments import captions
from attentively.experiments.captions import Naming


@pytest.fixture(scope="module")
def scenes():
    return digits.load("test", 60)


@pytest.fixture(scope="module")
def pair(scenes):
    """A scene of two different digits."""
    return next(
        scene
        for scene in scenes
        if captions.count_digits(scene) == 2 and len(set(scene.cells)) == 3
    )


def test_every_digit_that_a_caption_names_is_found_at_its_word(scenes):
    for naming in captions.find_namings(scenes):
        scene = scenes[naming.scene]
        digit = digits.DIGITS.index(scene.caption[naming.step])
        assert {scene.cells[place] for place in naming.named} == {digit}
    words = [word for scene in scenes for word in scene.caption if word in digits.DIGITS]
    assert len(list(captions.find_namings(scenes))) == len(words)


def test_what_is_hidden_is_one_place_and_no_pixel_more(scenes):
    image = torch.rand_like(scenes[0].image) + 0.1
    hidden = [captions.hide(image, place) for place in range(6)]
    assert torch.equal(sum((one == 0).int() for one in hidden), torch.ones_like(image).int())
    down, right = (hidden[5][0] == 0).nonzero().unbind(dim=1)
    assert (down.min(), down.max(), right.min(), right.max()) == (12, 23, 24, 35)
    assert all((one == image)[one != 0].all() for one in hidden)
    assert (image > 0).all()  # the image that was given is as it was


def test_a_focus_is_scored_by_hand(pair):
    """Two namings, each on the digit itself with 0.6, and on the other with 0.3 or none."""
    first, second = (place for place, cell in enumerate(pair.cells) if cell is not None)
    paper = next(place for place, cell in enumerate(pair.cells) if cell is None)
    namings = [Naming(0, 1, frozenset([first])), Naming(0, 5, frozenset([second]))]
    looks = torch.zeros(2, 6)
    looks[0, first], looks[0, second], looks[0, paper] = 0.6, 0.3, 0.1
    looks[1, second], looks[1, paper] = 0.4, 0.6
    found = captions.score_looks([pair], namings, looks)
    assert found["pointing"] == 0.5
    assert found["chance"] == pytest.approx(1 / 6)
    assert found["chance_on_ink"] == 0.5
    assert found["weight_on_named"] == pytest.approx(0.5)
    assert found["weight_on_ink"] == pytest.approx(0.65)
    entropy = -sum(p * math.log(p) for p in (0.6, 0.3, 0.1, 0.4, 0.6)) / 2
    assert found["entropy"] == pytest.approx(entropy)


def test_a_digit_that_stands_twice_may_be_looked_at_in_either_place(pair):
    looks = torch.eye(6)[[0, 4]]
    namings = [Naming(0, 1, frozenset([0, 4]))] * 2
    assert captions.score_looks([pair], namings, looks)["pointing"] == 1.0


def rigged(monkeypatch, scenes, place_of):
    """Have the model look at one place for each naming, and be sure if it is there to see."""
    given = {tuple(scene.image.flatten().tolist()): scene for scene in scenes}

    def read(model, examples):
        longest = max(len(example.tgt) for example in examples) - 1
        weights = torch.zeros(len(examples), longest, 6)
        probabilities = torch.zeros(len(examples), longest, 40)
        for row, example in enumerate(examples):
            whole = tuple(example.image.flatten().tolist()) in given
            for step, word in enumerate(example.tgt[1:]):
                weights[row, step, place_of(scenes[row % len(scenes)], step)] = 1.0
                probabilities[row, step, word] = 0.9 if whole else 0.2
        return probabilities, weights

    monkeypatch.setattr(captions, "read", read)


def test_the_place_looked_at_most_is_the_one_made_blank(monkeypatch, pair):
    """With ink there the picture changes; with paper it stays as it was."""
    ink = next(place for place, cell in enumerate(pair.cells) if cell is not None)
    paper = next(place for place, cell in enumerate(pair.cells) if cell is None)
    for place, probability in ((ink, 0.2), (paper, 0.9)):
        rigged(monkeypatch, [pair], lambda scene, step, place=place: place)
        found = captions.focus(captions.new_checkpoint(0), [pair])
        assert (found["probability"], found["probability_hidden"]) == (0.9, probability)
        assert found["names_right"] == 1.0
        words = len(pair.caption) + 1  # all on one place, none on five
        assert found["unevenness"] == pytest.approx((words - 1) ** 2 + 5)


def test_what_is_read_is_what_teacher_forcing_gives(scenes):
    checkpoint = captions.new_checkpoint(0)
    model = checkpoint.model.eval()
    examples = captions.encode_scenes(scenes[:3], checkpoint.tgt_tokenizer)
    probabilities, weights = captions.read(model, examples)
    src = scenes[1].image.unsqueeze(0)
    with torch.no_grad():
        tgt = torch.tensor([examples[1].tgt[:-1]])
        output = model.decode(tgt, model.encode(src), need_weights=True)
    length = tgt.size(1)
    torch.testing.assert_close(probabilities[1, :length], output.logits[0].softmax(dim=-1))
    torch.testing.assert_close(weights[1, :length], output.weights[0])


def test_the_settings_reach_the_model():
    assert captions.new_checkpoint(0, mixing=5).model.config.receptive_field == 66
