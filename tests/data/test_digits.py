"""Digit scenes: captions are true, other true ones count too, and splits share no image."""

from itertools import pairwise

import pytest
import torch

from attentively.data import digits
from attentively.data.digits import CELL_SIZE, COLUMNS, DIGITS, ROWS, ground, is_well_formed

# Two sevens and a three:
#   7 . 3
#   . 7 .
CELLS = (7, None, 3, None, 7, None)


def scene_of(cells):
    return digits.DigitScene(torch.zeros(1, digits.HEIGHT, digits.WIDTH), cells, (), ())


def said(text, cells=CELLS):
    focus = ground(cells, text.split())
    return focus and [sorted(places) for places in focus]


@pytest.mark.parametrize("split", digits.SPLITS)
def test_every_caption_is_true_and_its_focus_is_where_it_is_true(split):
    for scene in digits.load(split, 211):
        assert digits.is_faithful(scene, scene.caption)
        assert len(scene.focus) == len(scene.caption)
        for word, places in zip(scene.caption, scene.focus, strict=True):
            if word in DIGITS:
                assert {scene.cells[place] for place in places} == {DIGITS.index(word)}
            elif word in ("a", "an", "of", "and"):
                assert places == frozenset()
            else:
                assert len(places) > 1


def test_a_caption_names_the_smaller_digit_first_and_leaves_none_out():
    for scene in digits.load("train", 211):
        for digit, after in pairwise([DIGITS.index(w) for w in scene.caption if w in DIGITS]):
            assert digit <= after
        named = {DIGITS.index(word) for word in scene.caption if word in DIGITS}
        assert named == {cell for cell in scene.cells if cell is not None}
        assert 1 <= sum(cell is not None for cell in scene.cells) <= 3


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a three", [[], [2]]),
        ("a seven", [[], [0, 4]]),
        ("a seven left of a three", [[], [0, 4], [0, 2, 4], [], [], [2]]),
        ("a three above a seven", [[], [2], [2, 4], [], [4]]),
        ("a seven below a three", [[], [4], [2, 4], [], [2]]),
        ("a seven above a seven", [[], [0], [0, 4], [], [4]]),
        ("a seven right of a seven", [[], [4], [0, 4], [], [], [0]]),
        ("a three and a seven left of a three", [[], [2], [], [], [0, 4], [0, 2, 4], [], [], [2]]),
    ],
)
def test_true_captions_and_what_they_speak_of(text, places):
    assert said(text) == places
    assert digits.is_faithful(scene_of(CELLS), text.split())


@pytest.mark.parametrize(
    "text",
    [
        "a four",
        "a three left of a seven",
        "a seven above a three",  # the upper one is in the same row
        "a three below a three",
        "a seven and a four",
        "a four and a seven",
    ],
)
def test_false_captions_are_well_formed_and_unfaithful(text):
    assert is_well_formed(text.split())
    assert said(text) is None
    assert not digits.is_faithful(scene_of(CELLS), text.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "seven",
        "an seven",
        "a eight",
        "a seven left a three",
        "a seven above",
        "a seven above a three and",
        "and a seven",
        "a seven and a seven and a seven",
        "a seven above a three a seven",
        "a cat",
    ],
)
def test_other_words_are_not_well_formed(text):
    assert not is_well_formed(text.split())
    assert not digits.is_faithful(scene_of(CELLS), text.split())


def test_the_caption_of_another_scene_is_seldom_true():
    scenes = digits.load("test", 401)
    true = [digits.is_faithful(one, two.caption) for one, two in pairwise(scenes)]
    assert 0 < sum(true) < len(true) / 7


def test_the_grammar_uses_all_its_words_and_no_other():
    used = {word for scene in digits.load("train", 1_009) for word in scene.caption}
    assert sorted(used) == digits.words()


@pytest.mark.parametrize("digit", DIGITS)
def test_only_eight_is_an_eight(digit):
    assert is_well_formed(("a", digit)) is (digit != "eight")
    assert is_well_formed(("an", digit)) is (digit == "eight")


def test_digits_are_shifted_down_and_right():
    images = torch.stack([scene.image for scene in digits.load("train", 211)])
    cells = images.unflatten(2, (ROWS, CELL_SIZE)).unflatten(4, (COLUMNS, CELL_SIZE))
    ink = cells.amax(dim=(0, 1, 2, 4))  # the darkest of each pixel of a cell
    for axis in (0, 1):  # all in one place, they would cover DIGIT_SIZE pixels at most
        assert (ink.amax(dim=axis) > 0).sum() > digits.DIGIT_SIZE + 1


def test_an_image_shows_its_digits_where_they_stand():
    for scene in digits.load("train", 31):
        assert scene.image.shape == (1, digits.HEIGHT, digits.WIDTH)
        assert scene.image.min() == 0
        assert scene.image.max() == 1
        for place, digit in enumerate(scene.cells):
            row, column = divmod(place, COLUMNS)
            cell = scene.image[
                0,
                row * CELL_SIZE : (row + 1) * CELL_SIZE,
                column * CELL_SIZE : (column + 1) * CELL_SIZE,
            ]
            assert (cell.sum() > 0) == (digit is not None)


def test_every_place_is_used():
    taken = {
        place
        for scene in digits.load("train", 101)
        for place, digit in enumerate(scene.cells)
        if digit is not None
    }
    assert taken == set(range(ROWS * COLUMNS))


def test_no_two_splits_share_an_image_of_a_digit():
    images = {
        split: {image.numpy().tobytes() for drawn in by_digit for image in drawn}
        for split, by_digit in digits.images().items()
    }
    assert sum(len(found) for found in images.values()) == 1797  # all that scikit-learn has
    assert not images["train"] & images["validation"]
    assert not images["train"] & images["test"]
    assert not images["validation"] & images["test"]


def same(one, other):
    return (
        one.caption == other.caption
        and one.cells == other.cells
        and torch.equal(one.image, other.image)
    )


def test_seeds_settle_the_scenes_and_fewer_are_the_first_of_more():
    few, more = digits.load("train", 7, seed=3), digits.load("train", 11, seed=3)
    assert all(same(one, other) for one, other in zip(few, more, strict=False))
    assert not any(
        same(one, other) for one, other in zip(few, digits.load("train", 7), strict=True)
    )
    assert [one.cells for one in few] != [other.cells for other in digits.load("test", 7, seed=3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dev", 1), "split='dev' is unknown: choose train, validation or test"),
        (("train", -1), "num_scenes=-1 must not be negative"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        digits.load(*arguments)
