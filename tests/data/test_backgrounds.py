"""Scenes with a planted background: what agrees with what, and what a move leaves alone."""

import pytest
import torch

from attentively.data import backgrounds, digits


@pytest.fixture(scope="module")
def sampled():
    return backgrounds.load("train", 400, agreement=0.9)


def share_that_agrees(scenes):
    agrees = [backgrounds.BACKGROUNDS[scene.label] == scene.background for scene in scenes]
    return sum(agrees) / len(agrees)


def test_the_background_agrees_as_often_as_was_asked(sampled):
    assert share_that_agrees(sampled) == pytest.approx(0.9, abs=0.05)
    for agreement in (0.0, 1.0):
        assert share_that_agrees(backgrounds.load("test", 50, agreement=agreement)) == agreement
    assert share_that_agrees(backgrounds.load("test", 400, agreement=0.5)) == pytest.approx(
        0.5, abs=0.08
    )


def test_labels_and_places_are_as_frequent_as_each_other(sampled):
    eights = sum(scene.label for scene in sampled) / len(sampled)
    assert eights == pytest.approx(0.5, abs=0.08)
    counts = torch.tensor([scene.place for scene in sampled]).bincount(minlength=6)
    assert counts.min() > len(sampled) / 6 * 0.6


def test_the_digit_stands_in_its_square_alone_and_on_paper():
    everywhere = {
        split: {image.numpy().tobytes() for digit in (3, 8) for image in by_digit[digit]}
        for split, by_digit in digits.images().items()
    }
    for split in ("train", "test"):
        for scene in backgrounds.load(split, 30, agreement=0.5, seed=1):
            square = scene.squares[scene.place]
            windows = square.unfold(0, 8, 1).unfold(1, 8, 1).reshape(-1, 8, 8)
            found = [w for w in windows if w.contiguous().numpy().tobytes() in everywhere[split]]
            assert any(torch.isclose(w.sum(), square.sum()) for w in found)  # paper around it


def test_the_two_backgrounds_are_told_apart_by_their_columns(sampled):
    """Blades stand in one column of three; specks stand anywhere."""
    for scene in sampled[:50]:
        for place, square in enumerate(scene.squares):
            if place != scene.place:
                bare = (square == 0).all(dim=0).sum().item()
                assert (bare == 8) if scene.background == "grass" else (bare < 8)


def test_a_move_leaves_the_digit_and_covers_the_rest_anew(sampled):
    scene = sampled[0]
    before = scene.squares.clone()
    other = next(name for name in backgrounds.BACKGROUNDS if name != scene.background)
    moved = backgrounds.move(scene, other, seed=3)
    assert moved.background == other
    assert (moved.label, moved.place) == (scene.label, scene.place)
    same = [torch.equal(one, two) for one, two in zip(moved.squares, before, strict=True)]
    assert same == [place == scene.place for place in range(6)]
    assert torch.equal(scene.squares, before)  # what was given is as it was
    assert torch.equal(backgrounds.move(scene, other, seed=3).squares, moved.squares)


def test_another_agreement_changes_the_backgrounds_and_no_digit(sampled):
    for one, other in zip(sampled[:50], backgrounds.load("train", 50, agreement=0.0), strict=True):
        assert (one.label, one.place) == (other.label, other.place)
        assert torch.equal(one.squares[one.place], other.squares[other.place])


def test_the_image_is_the_squares_in_their_grid(sampled):
    scene = sampled[0]
    assert scene.image.shape == (24, 36)
    assert torch.equal(scene.image[:12, 24:], scene.squares[2])
    assert torch.equal(scene.image[12:, :12], scene.squares[3])


def test_collate_stacks(sampled):
    squares, labels = backgrounds.collate(sampled[:7])
    assert squares.shape == (7, 6, 12, 12)
    assert labels.tolist() == [scene.label for scene in sampled[:7]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dev", 3, 0.5), "'dev'"),
        (("test", -1, 0.5), "num_scenes=-1"),
        (("test", 3, 1.5), "agreement=1.5"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    split, number, agreement = arguments
    with pytest.raises(ValueError, match=message):
        backgrounds.load(split, number, agreement=agreement)


def test_an_unknown_background_is_refused(sampled):
    with pytest.raises(ValueError, match="'sand'"):
        backgrounds.move(sampled[0], "sand")
