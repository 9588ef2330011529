"""The checks of 10_visual_attention, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import Assignment, call, message
from torch.nn import functional as F

from attentively.checks import CheckFailed
from attentively.checks import visual_attention as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.data import digits
from attentively.generation.generate import caption
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import RECEPTIVE_FIELD, STRIDE

ASSIGNMENT = Assignment("10_visual_attention")
questions = load_questions(ASSIGNMENT.questions)
right = load_questions(ASSIGNMENT.source.with_name("answers.py"))


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in ASSIGNMENT.wrong.values()) >= 10


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("The set-up is complete.\n")


# Part 2


def test_a_step_that_fails_only_inside_the_captioner_is_caught():
    """It is right for batches smaller than the captioner's, which describes three images."""

    def step(word, state, *given):
        new_state, context, weights = questions.step(word, state, *given)
        return (new_state if len(word) < 3 else -new_state), context, weights

    checks._expect_same_captions(questions.first_state, questions.step)
    with pytest.raises(CheckFailed, match="inside the trained captioner"):
        checks._expect_same_captions(questions.first_state, step)


# Part 3


@pytest.mark.parametrize(("words", "locations"), [(1, 1), (2, 5), (7, 3), (5, 5)])
def test_no_penalty_is_below_the_least_or_above_the_most(words, locations):
    least, most = (bound(words, locations) for bound in (questions.least, questions.most))
    for sharpness in (0.1, 1.0, 30.0):
        weights = (sharpness * torch.randn(200, words, locations)).softmax(dim=-1)
        for one in weights:
            found = questions.penalty(one.unsqueeze(0), torch.ones(1, words).bool()).item()
            assert least - 1e-4 <= found <= most + 1e-4
    assert right.least_of_equal_weights(words, locations).item() == pytest.approx(least, abs=1e-4)
    assert right.most_of_one_location(words, locations) == most


# Part 4


def test_the_packages_layers_see_what_the_package_says():
    first, last = questions.pixels_seen(questions.PACKAGE, 36, 1)
    assert last - first + 1 == RECEPTIVE_FIELD
    assert questions.pixels_seen(questions.PACKAGE, 48, 2)[0] - first == STRIDE


# Part 5


@pytest.mark.parametrize(("place", "number"), [(0, 11), (1, 1), (2, 23)])
def test_what_was_recorded_belongs_to_held_out_scenes(place, number):
    words, weights, boxes = checks.described()[place]
    scene = digits.load("test", number + 1)[number]
    model = load_pretrained(checks.MODEL)
    (described,) = caption(model, scene.image.unsqueeze(0), beam_size=1, need_weights=True)
    assert described.tgt_tokens == words
    assert described.weights is not None  # they were asked for
    assert torch.allclose(described.weights.reshape(weights.shape), weights, atol=0.02)
    focus = digits.ground(scene.cells, words[:-1])  # without <end>
    assert focus is not None
    assert weights.shape == (len(words), digits.ROWS, digits.COLUMNS)
    for word, places, box in zip(words, [*focus, frozenset()], boxes, strict=True):
        assert (box is not None) == (word in digits.DIGITS)
        if box is not None:
            (place,) = places
            assert box == ink(scene.image[0], *divmod(place, digits.COLUMNS))


def ink(image, row, column):
    """Return the box around what is drawn in a cell of the grid."""
    cell = digits.CELL_SIZE
    drawn = image[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell] > 0
    down, across = (drawn.any(dim=axis).nonzero().flatten().tolist() for axis in (1, 0))
    top, left = row * cell, column * cell
    return top + down[0], left + across[0], top + down[-1] + 1, left + across[-1] + 1


# Part 6

NAMED = [
    "ordered column by column",
    "It belongs to the centre",
    "neighbours of a pixel are exchanged",
    "opposite border",
    "It is divided by the largest heat",
    "The heat of padding is not 0",
]


def test_the_faults_are_named_one_by_one_as_they_are_corrected():
    """Two edits of the six faults belong to one of them: the wrap at the borders."""
    for corrected, named in zip((0, 1, 2, 3, 5, 6), NAMED, strict=True):
        answer = edited(questions.mended_heat, tuple(right.FAULTS[corrected:]))
        said = " ".join(message(checks.bug_hunt, answer).split())
        assert named in said
        assert said.count("Correct so far") == (corrected > 0)
    call(checks.bug_hunt, questions.mended_heat)


def test_bilinear_heat_keeps_the_weight_of_every_place():
    """Why the heat sums to 1 when it is divided by the pixels of a square."""
    for rows, columns, cell in ((2, 3, 12), (3, 5, 2), (1, 1, 7)):
        places = torch.eye(rows * columns).reshape(1, -1, rows, columns)
        heat = F.interpolate(places, scale_factor=cell, mode="bilinear", align_corners=False)
        assert torch.allclose(heat.sum(dim=(2, 3)), torch.tensor(float(cell**2)))
