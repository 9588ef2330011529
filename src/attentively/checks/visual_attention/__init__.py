"""Checks of the assignment on visual attention.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. The keys are also put into the package's image encoder, the first state and the step into the
trained captioner. Of the heat of part 6, one property after the other is compared.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from attentively.attention.additive import AdditiveAttention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_tensor,
    expect_value,
    in_32_bits,
    once_solved,
    open_call,
)
from attentively.checks.compare import copied
from attentively.checks.question import Afterwards, Recorded
from attentively.checks.recordings import Topic
from attentively.generation.search import greedy_search
from attentively.models.captioning import Captioner
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import CaptionerConfig
from attentively.models.interface import DecoderOutput, Memory
from attentively.models.seq2seq import AttentiveDecoder, RecurrentState
from attentively.tokens.vocabulary import START_ID

__all__ = [
    "bug_hunt",
    "described",
    "inside",
    "keys",
    "once_solved",
    "penalty",
    "pixels",
    "progress",
    "ready",
    "steps",
]

Inputs = Mapping[str, Any]
Box = tuple[int, int, int, int]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Encode three images, to show that the package, its captioner and these checks work."""
    _parts.explain_undefined_names()
    with torch.no_grad():
        model = layer("captioner", 1)
        memory = cast(Captioner, model).encode(_IMAGES)
    images, locations, dimension = memory.outputs.shape
    print(f"PyTorch {torch.__version__}. {images} images of 24 × 36 pixels are encoded as")
    print(f"{locations} annotation vectors of dimension {dimension} each. The set-up is complete.")


# Models and layers


MODEL = "digits-captioner"
"""The name of the trained captioner into which a student's step is put."""


def _trained() -> Captioner:
    return cast(Captioner, load_pretrained(MODEL).model).eval()


def _captioner() -> nn.Module:
    config = CaptionerConfig(13, feature_dim=8, embedding_dim=5, decoder_dim=7, attention_dim=3)
    return Captioner(config)


def _convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.MaxPool2d(2))


_LAYERS: dict[str, Callable[..., nn.Module]] = {
    "attention": AdditiveAttention,
    "captioner": _captioner,
    "cell": nn.GRUCell,
    "convolutions": _convolutions,
    "deep": lambda: nn.Sequential(_convolutions(), nn.ReLU(), nn.Conv2d(3, 2, 3, padding=1)),
    "linear": nn.Linear,
}


def layer(kind: str, seed: int, sizes: tuple[int, ...] = ()) -> nn.Module:
    """Return a layer or model with random parameters, large so that its outputs differ."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = _LAYERS[kind](*sizes).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2.0)
    return made


def features(seed: int) -> nn.Module:
    """Return the layers of the package's image encoder that make the feature map."""
    encoder = cast(Captioner, layer("captioner", seed)).encoder
    return nn.Sequential(*encoder.look, encoder.combine)


_IMAGES = torch.rand(3, 1, 24, 36, generator=torch.Generator().manual_seed(2))
_CAPTIONS = torch.tensor([[START_ID, 4, 7, 12], [START_ID, 10, 5, 6], [START_ID, 8, 4, 4]])


# Part 1


@_parts.part(
    "keys and maps",
    "keys_of",
    "map_of",
    rebuilds=("attentively.models.captioning:ImageEncoder",),
    step=True,
)
def keys(keys_of: object, map_of: object, thorough: bool = False) -> None:
    """Check the keys of a feature map, and the maps of attention weights."""
    _topic.examine("keys_of", keys_of, thorough)
    _topic.examine("map_of", map_of, thorough)
    open_call.once(_expect_same_annotations, keys_of)


def _expect_same_annotations(keys_of: object) -> None:
    """Put the student's keys into the package's image encoder."""
    encoder = cast(Captioner, layer("captioner", 1)).encoder
    with torch.no_grad():
        seen = encoder.combine(encoder.look(_IMAGES))
        given = cast(Tensor, in_32_bits(call(keys_of, {"feature_map": seen})))
        annotations = encoder.norm(given) + encoder.place
        expected = encoder(_IMAGES)
    expect_equal(
        annotations,
        expected,
        "the annotation vectors inside the package's encoder",
        {"feature_map": seen},
    )


# Part 2


@_parts.part(
    "captioning step",
    "first_state",
    "step",
    rebuilds=("attentively.models.captioning:Captioner",),
    step=True,
)
def steps(first_state: object, step: object, thorough: bool = False) -> None:
    """Check the first state and one step, by themselves and inside the trained captioner."""
    _topic.examine("first_state", first_state, thorough, afterwards=_learning("bridge"))
    _topic.examine("step", step, thorough, afterwards=_learning("gate"))
    open_call.once(_expect_same_captions, first_state, step)


def _learning(name: str) -> Afterwards:
    """Return a rule by which gradients reach the given layer, examined for a single image."""

    def expect_learning(candidate: object, results: Inputs, inputs: Inputs) -> None:
        if len(next(iter(inputs.values()))) > 1:
            return
        given: dict[str, Any] = {key: copied(value) for key, value in inputs.items()}
        sources = {f"the layer `{name}`": given[name].weight}
        expect_gradients_through(candidate, given, sources, _first)

    return expect_learning


def _first(answer: Any) -> Tensor:
    result: Tensor = answer if isinstance(answer, Tensor) else answer[0]
    return result


class _OpenGate(nn.Module):
    """A gate with the value 1, because the package's decoder has none."""

    def forward(self, state: Tensor) -> Tensor:
        """Return a number whose sigmoid is 1 in 32 bits, and whose exponential is not infinite."""
        return torch.full((*state.shape[:-1], 1), 30.0)


class _StudentsDecoder(AttentiveDecoder):
    """The package's decoder, with a student's first state and step."""

    def __init__(self, right: AttentiveDecoder, first_state: object, step: object) -> None:
        nn.Module.__init__(self)
        for name, module in right.named_children():
            self.add_module(name, module)
        self.given = (first_state, step)

    def start(self, memory: Memory) -> RecurrentState:
        """Compute the first state with the student's function."""
        first_state = cast(Callable[..., Tensor], self.given[0])
        hidden = cast(Tensor, in_32_bits(first_state(memory.outputs, self.bridge)))
        return RecurrentState(hidden, memory.outputs, memory.mask.squeeze(1))

    def advance(
        self, embedded: Tensor, state: RecurrentState
    ) -> tuple[RecurrentState, Tensor, Tensor | None]:
        """Compute the step with the student's function."""
        step = cast(Callable[..., tuple[Tensor, Tensor, Tensor]], self.given[1])
        layers = (self.attention, _OpenGate(), self.cell)
        results = step(embedded, state.hidden, state.encoder_outputs, *layers)
        hidden, context, weights = (cast(Tensor, in_32_bits(each)) for each in results)
        return replace(state, hidden=hidden), context, weights


def _expect_same_captions(first_state: object, step: object) -> None:
    right, changed = _trained(), _trained()
    changed.decoder = _StudentsDecoder(cast(AttentiveDecoder, changed.decoder), first_state, step)
    where = {"images": _IMAGES, "captions": _CAPTIONS}

    def read(model: Captioner) -> DecoderOutput:
        with torch.no_grad():
            return model.decode(_CAPTIONS, model.encode(_IMAGES), need_weights=True)

    def written(model: Captioner) -> list[list[int]]:
        with torch.no_grad():
            found = greedy_search(model, _IMAGES, 4)
        return [hypothesis.ids for hypothesis in found]

    expected, got = read(right), cast(DecoderOutput, call(lambda *_: read(changed), where))
    assert expected.weights is not None  # a captioner attends
    inside_it = "inside the trained captioner, with a gate that is always 1"
    expect_equal(in_32_bits(got.weights), expected.weights, f"the weights {inside_it}", where)
    expect_equal(in_32_bits(got.logits), expected.logits, f"the logits {inside_it}", where)
    after = cast(list[list[int]], call(lambda *_: written(changed), where))
    expect_value(after, written(right), f"the generated captions {inside_it}", where)


# Part 3


@_parts.part(
    "penalty and bounds",
    "penalty",
    "least",
    "most",
    rebuilds=("attentively.models.captioning:doubly_stochastic_penalty",),
)
def penalty(candidate: object, least: object, most: object, thorough: bool = False) -> None:
    """Check the doubly stochastic penalty, and its smallest and largest value."""
    _topic.examine("penalty", candidate, thorough, tidy=lambda answer, _: one_value(answer))
    _topic.examine("least", least, thorough)
    _topic.examine("most", most, thorough)


def one_value(answer: object) -> object:
    """Return a tensor of shape (1,) without its dimension, and anything else unchanged."""
    if type(answer) is Tensor and answer.shape == (1,):
        return answer.reshape(())
    return answer


# Part 4


class Edges(nn.Module):
    """Two channels of a horizontal difference, whose gradients cancel in a sum or in squares."""

    def __init__(self, turning: bool) -> None:
        super().__init__()
        self.turning = turning

    def forward(self, images: Tensor) -> Tensor:
        """Return two channels with a constant sum, or with a constant sum of their squares."""
        edge = images[..., 2:] - images[..., :-2]
        both = [edge.cos(), edge.sin()] if self.turning else [9 + edge, 9 - edge]
        return torch.cat(both, dim=1)


class Absolute(nn.Module):
    """One channel: the absolute sum of each pixel and the one below, times a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, images: Tensor) -> Tensor:
        """Return the channel."""
        return self.factor * (images[..., 1:, :] + images[..., :-1, :]).abs()


@_parts.part("receptive fields", "pixels_seen", "reached")
def pixels(pixels_seen: object, reached: object, thorough: bool = False) -> None:
    """Check the receptive field of a location, from the layers and from gradients."""
    _topic.examine("pixels_seen", pixels_seen, thorough)
    _topic.examine("reached", reached, thorough, tidy=_zeros_and_ones)


def _zeros_and_ones(answer: object, inputs: Inputs) -> object:
    """Accept zeros and ones, a nested list or an array instead of False and True."""
    if isinstance(answer, list | np.ndarray):
        with suppress(TypeError, ValueError):  # an answer that is no tensor is refused later
            answer = torch.tensor(answer)
    if type(answer) is not Tensor or answer.layout != torch.strided:
        return answer
    answer = answer.detach().float()
    if not ((answer == 0) | (answer == 1)).all():
        raise CheckFailed(
            "  reached: The result contains values other than True and False. Is it the gradient "
            f"itself? Return where it is != 0.\n{describe(inputs)}"
        )
    return answer


# Part 5


@_parts.part("attention in a box", "inside", "pointing")
def inside(candidate: object, pointing: object, thorough: bool = False) -> None:
    """Check the share of the weight inside a box, and the comparison with other boxes."""
    _topic.examine("inside", candidate, thorough)
    _topic.examine("pointing", pointing, thorough)


# Recorded from the shipped model for three test scenes of 24 × 36 pixels: for each word the
# weights of the 2 × 3 locations in hundredths, and the box of the digit that it names.
_RECORDED: list[tuple[str, list[list[int]], dict[int, Box]]] = [
    (
        "a one right of a seven and a seven below an eight <end>",
        [
            [5, 1, 1, 6, 1, 85],
            [1, 0, 0, 1, 0, 98],
            [13, 2, 2, 76, 2, 5],
            [18, 7, 6, 54, 6, 10],
            [20, 5, 4, 53, 3, 15],
            [1, 1, 0, 92, 0, 5],
            [63, 8, 8, 12, 7, 2],
            [29, 13, 12, 20, 14, 12],
            [2, 1, 1, 95, 1, 2],
            [79, 3, 3, 9, 3, 2],
            [81, 4, 4, 5, 4, 2],
            [49, 15, 13, 9, 12, 3],
            [30, 20, 20, 10, 18, 3],
        ],
        {1: (15, 29, 23, 35), 5: (13, 3, 21, 9), 8: (13, 3, 21, 9), 11: (2, 2, 10, 8)},
    ),
    (
        "a three left of a four <end>",
        [
            [5, 7, 6, 45, 32, 5],
            [1, 1, 1, 76, 22, 1],
            [7, 6, 5, 17, 59, 5],
            [20, 15, 12, 20, 22, 10],
            [9, 8, 8, 30, 38, 7],
            [0, 0, 0, 25, 74, 0],
            [27, 23, 22, 5, 4, 18],
        ],
        {1: (13, 2, 21, 9), 5: (14, 15, 22, 21)},
    ),
    (
        "a nine left of a nine <end>",
        [
            [56, 6, 7, 6, 5, 20],
            [67, 3, 3, 2, 3, 22],
            [45, 7, 7, 7, 5, 28],
            [40, 6, 5, 6, 6, 36],
            [46, 4, 4, 6, 5, 35],
            [51, 8, 6, 6, 6, 23],
            [20, 16, 17, 16, 15, 16],
        ],
        {1: (1, 5, 9, 11), 5: (12, 27, 20, 33)},
    ),
]


def described() -> list[tuple[list[str], Tensor, list[Box | None]]]:
    """Return three captions: words, weights (words, 2, 3), and the box of each word's digit."""
    found = []
    for said, hundredths, boxes in _RECORDED:
        weights = torch.tensor(hundredths, dtype=torch.float32).reshape(-1, 2, 3)
        words = said.split()
        placed = [boxes.get(location) for location in range(len(words))]
        found.append((words, weights / weights.sum(dim=(1, 2), keepdim=True), placed))
    return found


# Part 6


DOWN, ACROSS = "the heat from top to bottom", "the heat from left to right"


@_parts.part("debugging", "mended_heat")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Examine a function that draws attention weights on an image."""
    quotes = {"line": _line, "moved": _moved, "direction": _direction}
    _topic.examine(
        "mended_heat", candidate, thorough, quotes=quotes, explain=_explain, tidy=_measured
    )


def _measured(answer: object, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the measures of a heat of the right shape."""
    batch, words, locations = inputs["weights"].shape
    rows, cell = inputs["rows"], inputs["cell"]
    shape = (batch, words, rows * cell, locations // rows * cell)
    heat = expect_tensor(in_32_bits(answer), shape, "the heat", inputs)
    if not (heat.sum(dim=(2, 3))[inputs["mask"]] > 0).all():
        raise CheckFailed(
            "  The heat of a word that is not padding is 0. Is the mask inverted? It is True at "
            f"words.\n{describe(inputs)}"
        )
    return measures(heat)


def measures(heat: Tensor) -> tuple[Tensor, ...]:
    """Return how the heat of the first word goes down and across, the sums, and the heat.

    The heat across is returned with its borders and without; each of them has the sum 1.
    """
    down, across = heat[0, 0].sum(dim=1), heat[0, 0].sum(dim=0)
    border = -(-len(across) // 6)  # at least half a square, for three columns or more
    profiles = (across[border:-border], down, across)
    return *(each / each.sum() for each in profiles), heat.sum(dim=(2, 3)), heat


def _of_line(recorded: Recorded) -> tuple[int, int, int]:
    """Return the axis of a case that has all weight on one row or column, and which, of how many.

    The axis is 0 for rows and 1 for columns.
    """
    axis = int(recorded.case.results == (ACROSS,))
    inputs = recorded.case.inputs
    along = inputs["weights"][0, 0].reshape(inputs["rows"], -1).sum(dim=1 - axis)
    return axis, int(along.argmax()), len(along)


def _line(got: Tensor, recorded: Recorded) -> str:
    axis, location, size = _of_line(recorded)
    which = ("row", "column")[axis]
    return f"All weight is on {which} {location} of the {size} {which}s (counted from 0)"


def _shift(got: Tensor, recorded: Recorded) -> float:
    """Return by how many pixels a profile lies too low, or too far to the right."""
    assert recorded.case.results is not None  # cases with a line name one result
    right = recorded.expected[recorded.case.results[0]]
    return float((got - right) @ torch.arange(float(len(got))))


def _moved(got: Tensor, recorded: Recorded) -> str:
    sides = (("too high", "too low"), ("too far to the left", "too far to the right"))
    shift = _shift(got, recorded)
    return f"{abs(shift):.2f} pixels {sides[_of_line(recorded)[0]][shift > 0]}"


def _direction(got: Tensor, recorded: Recorded) -> str:
    return f"from {' to '.join([('row', 'column')[_of_line(recorded)[0]]] * 2)}"


def _explain(got: Tensor, recorded: Recorded) -> str:
    """Return what is wrong with a profile that is no known mistake's."""
    if recorded.case.results not in ((DOWN,), (ACROSS,)):
        return ""
    axis, location, size = _of_line(recorded)
    which = ("row", "column")[axis]
    if 0 < location < size - 1:
        why = f"is not interpolated linearly between centres {_direction(got, recorded)}"
        if abs(_shift(got, recorded)) > 1e-3:
            why = f"is drawn {_moved(got, recorded)}"
        return f"{_line(got, recorded)}, but the heat {why}."
    far = recorded.expected[(DOWN, ACROSS)[axis]] == 0
    why = "the heat is not constant between the centres of its squares and the border of the image."
    if (got[far].abs() > 1e-5).any():
        why = (
            f"there is heat at the opposite border. The first {which} does not follow the last "
            "one: between the last centre and the border, the heat is constant."
        )
    return f"All weight is on {which} {location}, at the border of the map, but {why}"
