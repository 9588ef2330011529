"""A captioner looks at places, and a place is a piece of the image."""

import itertools

import pytest
import tiny_models
import torch
from tiny_models import scenes
from torch import nn

from attentively.data import digits
from attentively.data.batches import encode_scenes
from attentively.generation.generate import caption
from attentively.models.captioning import Captioner, ImageEncoder, doubly_stochastic_penalty
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import RECEPTIVE_FIELD, STRIDE, CaptionerConfig
from attentively.tokens.vocabulary import Vocabulary, WordTokenizer
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

FEATURE_DIM = 61
ROWS, COLUMNS = 3, 4  # of a map large enough that a place in the middle sees no border


def encoder():
    torch.manual_seed(0)
    made = ImageEncoder(FEATURE_DIM, (ROWS, COLUMNS))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    return made, torch.rand(1, 1, ROWS * STRIDE, COLUMNS * STRIDE)


def test_a_place_sees_its_receptive_field_and_no_pixel_more():
    made, image = encoder()
    image.requires_grad_()
    for row, column in itertools.product(range(ROWS), range(COLUMNS)):
        annotation = made(image)[0, row * COLUMNS + column]
        # The sum of a normalised vector is constant: weigh its components.
        (seen,) = torch.autograd.grad(annotation @ torch.arange(float(FEATURE_DIM)), image)
        down, right = (seen[0, 0].abs().sum(dim=axis).nonzero().flatten() for axis in (1, 0))
        for pixels, place in ((down, row), (right, column)):
            first = STRIDE * place - (RECEPTIVE_FIELD - STRIDE) // 2
            assert pixels.min() >= first
            assert pixels.max() < first + RECEPTIVE_FIELD


def test_changing_what_a_place_does_not_see_changes_nothing_for_it():
    made, image = encoder()
    margin = (RECEPTIVE_FIELD - STRIDE) // 2
    seen = slice(STRIDE - margin, 2 * STRIDE + margin)  # from place (1, 1), down and right
    before = made(image)[0, COLUMNS + 1]
    other = torch.rand_like(image)
    other[..., seen, seen] = image[..., seen, seen]
    assert torch.equal(made(other)[0, COLUMNS + 1], before)
    for edge in (seen.start, seen.stop - 1):  # and no edge of what it sees is in vain
        for where in ((seen, edge), (edge, seen)):
            other = image.clone()
            other[0, 0, *where] = 5 * torch.rand(RECEPTIVE_FIELD)
            assert not torch.allclose(made(other)[0, COLUMNS + 1], before)


@pytest.mark.parametrize(("mixing", "seen"), [(1, (15, 15)), (3, (24, 27)), (5, (24, 36))])
def test_mixing_lets_a_place_see_its_neighbours(mixing, seen):
    """The first place of a scene, from its top left pixel on, down and right."""
    torch.manual_seed(0)
    config = CaptionerConfig(23, mixing=mixing)
    made = ImageEncoder(config.feature_dim, config.feature_map, mixing)
    image = torch.rand(1, 1, config.height, config.width, requires_grad=True)
    annotation = made(image)[0, 0]
    (reached,) = torch.autograd.grad(annotation @ torch.arange(64.0), image)
    down, right = (reached[0, 0].abs().sum(dim=axis).nonzero().max() + 1 for axis in (1, 0))
    assert (down, right) == seen
    beyond = config.receptive_field - (config.receptive_field - STRIDE) // 2
    assert seen == (min(beyond, config.height), min(beyond, config.width))


def test_an_even_number_of_places_has_no_middle_to_mix_into():
    with pytest.raises(ValueError, match="mixing=2 must be odd"):
        CaptionerConfig(23, mixing=2)


def test_a_place_knows_where_it_is():
    made, image = encoder()
    blank = made(torch.zeros_like(image))[0]
    inner = blank[COLUMNS + 1 : COLUMNS + 3]  # neither sees a border
    assert not torch.allclose(inner[0], inner[1], atol=1e-3)
    nn.init.zeros_(made.place)
    blank = made(torch.zeros_like(image))[0]
    torch.testing.assert_close(blank[COLUMNS + 1], blank[COLUMNS + 2])


def test_places_are_read_row_by_row():
    """A mark in the third piece of the second row changes the vector of place 4 + 2."""
    made, image = encoder()
    middle = STRIDE // 2
    changed = image.clone()
    changed[0, 0, STRIDE + middle, 2 * STRIDE + middle] = 5.0
    difference = (made(changed) - made(image)).abs().amax(dim=-1)[0]
    assert (difference > 0).nonzero().flatten().tolist() == [COLUMNS + 2]


def test_the_places_of_digit_scenes_are_those_of_their_grid():
    config = CaptionerConfig(23)
    assert (config.height, config.width) == (digits.HEIGHT, digits.WIDTH)
    assert config.feature_map == (digits.ROWS, digits.COLUMNS)


def test_the_decoder_starts_from_the_mean_annotation():
    model, given = tiny_models.captioner(), scenes()
    memory = model.encode(given.src)
    torch.testing.assert_close(memory.state, memory.outputs.mean(dim=1))
    expected = torch.tanh(model.decoder.bridge(memory.outputs.mean(dim=1)))
    torch.testing.assert_close(model.start(memory).hidden, expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", [(25, 36), (24, 48), (36, 24)])
def test_images_of_another_size_are_refused_with_both_sizes(size):
    model, images = tiny_models.captioner(), torch.rand(2, 1, *size)
    message = rf"images have {size[0]} × {size[1]} pixels, but the model expects 24 × 36"
    with pytest.raises(ValueError, match=message):
        model.source_mask(images)
    with pytest.raises(ValueError, match=message):
        model.encode(images, torch.ones(2, 1, 6, dtype=torch.bool))


@pytest.mark.parametrize("sizes", [{"height": 25}, {"width": 0}, {"height": 6}])
def test_sizes_that_the_places_do_not_divide_are_refused(sizes):
    with pytest.raises(ValueError, match="must be multiples of 12 pixels"):
        CaptionerConfig(23, **sizes)


@pytest.mark.parametrize("name", ["feature_dim", "embedding_dim", "decoder_dim", "attention_dim"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        CaptionerConfig(23, **{name: 0})


def test_it_reads_no_text():
    assert CaptionerConfig(23).vocab_sizes == (None, 23)


# The penalty


def test_the_penalty_by_hand():
    """Two words, three places: looked at 1.5, 0.5 and 0 times; then a word of padding."""
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    real = torch.tensor([[True, True, False]])
    torch.testing.assert_close(doubly_stochastic_penalty(weights, real), torch.tensor(1.5))
    everything = torch.ones_like(real)
    torch.testing.assert_close(doubly_stochastic_penalty(weights, everything), torch.tensor(0.5))


def test_the_penalty_is_the_mean_over_the_batch_and_padding_changes_nothing():
    weights = torch.rand(3, 5, 7).softmax(dim=-1)
    real = torch.arange(5) < torch.tensor([[5], [2], [3]])
    each = [
        doubly_stochastic_penalty(weights[row : row + 1, :length], torch.ones(1, length).bool())
        for row, length in enumerate((5, 2, 3))
    ]
    torch.testing.assert_close(doubly_stochastic_penalty(weights, real), sum(each) / 3)


def test_looking_at_every_place_once_costs_nothing():
    weights = torch.eye(5).unsqueeze(0)
    assert doubly_stochastic_penalty(weights, torch.ones(1, 5, dtype=torch.bool)) == 0


def test_the_penalty_has_a_gradient_that_evens_the_looks_out():
    scores = torch.zeros(1, 5, 7)
    scores[..., 0] = 2.0
    scores.requires_grad_()
    real = torch.ones(1, 5, dtype=torch.bool)
    doubly_stochastic_penalty(scores.softmax(dim=-1), real).backward()
    assert (scores.grad[..., 0] > 0).all()
    assert (scores.grad[..., 1:] < 0).all()


def share_of_digits_looked_at(scenes, captions):
    """Of the digits in true captions, the share where the heaviest place is one it speaks of."""
    hits = []
    for scene, found in zip(scenes, captions, strict=True):
        words = found.text.split()
        focus = digits.ground(scene.cells, words)
        if focus is not None:
            heaviest = found.weights.argmax(dim=-1).tolist()
            for word, places, place in zip(words, focus, heaviest, strict=False):
                if word in digits.DIGITS:
                    hits.append(place in places)
    return sum(hits) / len(hits)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_learns_to_say_what_is_true_and_to_look_where_it_is():
    tokenizer = WordTokenizer(Vocabulary(digits.words()))
    torch.manual_seed(0)
    checkpoint = Checkpoint(Captioner(CaptionerConfig(len(tokenizer))), None, tokenizer)
    train, validation = (
        encode_scenes(digits.load(split, count), tokenizer)
        for split, count in (("train", 10_000), ("validation", 200))
    )
    config = TrainingConfig(
        steps=1_000, learning_rate=3e-3, attention_penalty=0.0, validate_every=1_000
    )
    Trainer(checkpoint, train, validation, config, progress=False).fit()
    scenes = digits.load("test", 500)
    captions = caption(checkpoint, torch.stack([scene.image for scene in scenes]), beam_size=1)
    texts = [found.text.split() for found in captions]
    faithful, by_chance = (
        sum(digits.is_faithful(scene, text) for scene, text in zip(scenes, said, strict=True)) / 500
        for said in (texts, [*texts[1:], texts[0]])
    )
    looked = share_of_digits_looked_at(scenes, captions)
    print(f"faithful {faithful:.3f}, by chance {by_chance:.3f}, looked at {looked:.3f}")
    assert all(digits.is_well_formed(text) for text in texts)
    assert by_chance < 0.15
    assert faithful > 0.65
    assert looked > 0.8
