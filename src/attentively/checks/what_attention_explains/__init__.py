"""Checks of the assignment on what attention explains: five tests of explanations.

Parts 1 and 2 rebuild code of the package. Parts 3, 4 and 5 are original problems. In part 3, scenes
are rendered from their factors, and a rule defines the predictions of a model. In part 4, the most
distant weights are searched among the vertices of the polytope of all weights with the same logit.
The models of part 5 are defined here.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call_twice,
    describe,
    expect_equal,
    expect_tensor,
    expect_value,
    in_32_bits,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.checks.named_cases import expect_all, named_cases
from attentively.data import digits
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models.attentive_classifier import AttentiveClassifier, SquareEncoder
from attentively.models.captioning import Captioner
from attentively.models.checkpoints import load_pretrained
from attentively.tokens.vocabulary import START_ID

__all__ = [
    "audit",
    "forger",
    "naming",
    "occlusion",
    "once_solved",
    "other_weights",
    "permutations",
    "progress",
    "readers",
    "ready",
    "reviews",
    "studio",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Report that the package, its classifier and these checks work."""
    _parts.explain_undefined_names()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        answer = _of_texts(reader=True)(*_three_texts())
    texts, words = answer.weights.shape
    print(f"PyTorch {torch.__version__}. Attention weights of {texts} texts, up to {words} words.")
    print("Ready.")


def _tensor(answer: object) -> object:
    """Return lists, arrays and 64-bit tensors as 32-bit tensors: none of them is a mistake here."""
    if isinstance(answer, np.ndarray):
        return in_32_bits(torch.from_numpy(answer))
    if isinstance(answer, list | tuple) and answer:
        try:
            rows = [_tensor(each) for each in answer]
            if all(isinstance(row, Tensor) for row in rows):
                return torch.stack(cast(list[Tensor], rows))
            return torch.tensor(answer, dtype=torch.float32)
        except (RuntimeError, TypeError, ValueError):  # not a table of numbers
            return answer
    return in_32_bits(answer)


def _number(answer: object) -> object:
    number = plain_number(answer.tolist() if isinstance(answer, np.ndarray) else answer)
    return answer if number is None else number


# The package's classifier


class _OnSquares(nn.Module):
    """The package's classifier, called with whole images of 8 × 8 pixels."""

    def __init__(self, classifier: AttentiveClassifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        squares = images[:, 0].unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2)
        return self.classifier(squares).logits

    def __repr__(self) -> str:
        return "the package's classifier of images"


def _sharpened(model: AttentiveClassifier) -> AttentiveClassifier:
    """Scale the parameters of an untrained classifier, so that its predictions differ clearly."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model.eval()


def _of_images() -> _OnSquares:
    return _OnSquares(_sharpened(AttentiveClassifier(SquareEncoder(6), 6, 2)))


def _of_texts(reader: bool) -> AttentiveClassifier:
    embedding = nn.Embedding(23, 6)
    return _sharpened(
        AttentiveClassifier(embedding, 6, 2, reader=BidirectionalEncoder(6, 3) if reader else None)
    )


def naming() -> tuple[Callable[[Tensor], Tensor], Tensor, list[str]]:
    """Return a model that names a digit, an image with several digits, and the vocabulary.

    The model is the pretrained captioner; its prediction is the word after "a".
    """
    checkpoint = load_pretrained("digits-captioner")
    captioner = cast(Captioner, checkpoint.model).eval()
    assert checkpoint.tgt_tokenizer is not None  # a captioner writes words
    words = checkpoint.tgt_tokenizer.tokens(range(captioner.config.tgt_vocab_size))
    start = [START_ID, words.index("a")]

    def next_word(images: Tensor) -> Tensor:
        tgt = torch.tensor([start] * len(images))
        with torch.no_grad():
            return captioner(images, tgt)[:, -1]

    return next_word, digits.load("test", 12)[11].image, words


# Part 1

_Model = Callable[[Tensor], Tensor]


class _Looker(nn.Module):
    """A small classifier of images whose description fits on one line of a message."""

    def __init__(self, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.read = nn.Sequential(
            nn.Flatten(), nn.Linear(height * width, 5), nn.Tanh(), nn.Linear(5, classes)
        )
        self.classes = classes
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn_like(parameter))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        return cast(Tensor, self.read(images))

    def __repr__(self) -> str:
        return f"a model with {self.classes} classes"


def _probability(logits: Tensor, label: int) -> Tensor:
    return logits.softmax(dim=-1)[:, label]


def _hide(copies: Tensor, image: Tensor, cell: int, fill: float) -> Tensor:
    """Fill one square of each copy; the squares are in row-major order."""
    filled = copies.clone()
    columns = image.size(2) // cell
    for place, copy in enumerate(filled):
        top, left = place // columns * cell, place % columns * cell
        copy[:, top : top + cell, left : left + cell] = fill
    return filled


def _keep(copies: Tensor, image: Tensor, cell: int, fill: float) -> Tensor:
    kept = _hide(torch.zeros_like(copies), image, cell, 1.0)
    return torch.where(kept == 1, copies, fill)


def _pile_up(copies: Tensor, image: Tensor, cell: int, fill: float) -> Tensor:
    hidden = _hide(torch.zeros_like(copies), image, cell, 1.0).cumsum(dim=0)
    return torch.where(hidden > 0, fill, copies)


def _occluded(
    hide: Callable[[Tensor, Tensor, int, float], Tensor] = _hide,
    score: Callable[[Tensor, int], Tensor] = _probability,
    combine: Callable[[Tensor, Tensor], Tensor] = torch.sub,
) -> Callable[..., Tensor]:
    """Return an occlusion map with another way to hide, to score or to combine."""

    def occlude(model: _Model, image: Tensor, label: int, cell: int, fill: float) -> Tensor:
        rows, columns = image.size(1) // cell, image.size(2) // cell
        copies = image.expand(rows * columns, *image.shape)
        with torch.no_grad():
            before = score(model(image.unsqueeze(0)), label)
            after = score(model(hide(copies, image, cell, fill)), label)
        return combine(before, after).reshape(rows, columns)

    return occlude


_occlude = _occluded()


def _of_the_likeliest(model: _Model, image: Tensor, label: int, cell: int, fill: float) -> Tensor:
    return _occlude(model, image, int(model(image.unsqueeze(0)).argmax()), cell, fill)


def _by_columns(*asked: Any) -> Tensor:
    found = _occlude(*asked)
    return found.T.reshape(found.shape)


_OCCLUSION_TWINS = [
    *known(
        "The values are differences of logits. Apply the softmax first: the map contains "
        "differences of probabilities.",
        _occluded(score=lambda logits, label: logits[:, label]),
    ),
    *known(
        "The sign is reversed. Subtract the probability with the square occluded from the "
        "probability of the whole image: a square that supports the label has a positive value.",
        _occluded(combine=lambda before, after: after - before),
    ),
    *known(
        "The negative values are missing: absolute values were taken, or the values were clamped "
        "at 0. A square may also be evidence against the label.",
        _occluded(combine=lambda before, after: (before - after).abs()),
        _occluded(combine=lambda before, after: (before - after).clamp(min=0)),
    ),
    *known(
        "This is a relative decrease, or a decrease of the logarithm. Return the difference of "
        "the two probabilities.",
        _occluded(combine=lambda before, after: (before - after) / before),
        _occluded(combine=lambda before, after: (before / after).log()),
    ),
    *known(
        "These are the probabilities with a square occluded. Subtract them from the probability "
        "of the whole image.",
        _occluded(combine=lambda before, after: after),
    ),
    *known(
        "Everything except the square is occluded. Occlude only the square.",
        _occluded(hide=_keep),
    ),
    *known(
        "Squares occluded earlier are still occluded. Start with a new copy of the image for "
        "each square: image.clone().",
        _occluded(hide=_pile_up),
    ),
    *known(
        "The squares are filled with 0 instead of the value of fill.",
        _occluded(hide=lambda copies, image, cell, fill: _hide(copies, image, cell, 0.0)),
    ),
    *known(
        "This is the probability of the most probable class, which may change with the occluded "
        "square. Use the probability of the given label.",
        _occluded(score=lambda logits, label: logits.softmax(dim=-1).amax(dim=-1)),
    ),
    *known(
        "This explains the predicted class instead of the given label. The label may be a class "
        "that the model does not predict.",
        _of_the_likeliest,
    ),
    *known(
        "The values are in column order. Fill the map row by row, from left to right.",
        _by_columns,
    ),
    *known(
        "The map is transposed: rows and columns are exchanged.",
        lambda *asked: _occlude(*asked).T,
    ),
]


@_parts.part(
    "occlusion",
    "occlusion",
    rebuilds=("attentively.analysis.explanations:occlusion",),
)
def occlusion(candidate: object, thorough: bool = False) -> None:
    """Check the decrease of a label's probability for each occluded square."""
    # Height, width, classes, label, cell, fill.
    sizes = [(2, 3, 3, 1, 1, 0.0), (4, 4, 3, 0, 2, 0.5), (2, 6, 3, 2, 2, -1.0)]
    sizes += [(9, 6, 5, 0, 3, 0.5), (9, 6, 5, 3, 3, 0.5)]
    if thorough:
        sizes += [(5, 7, 2, 1, 1, 0.25), (14, 21, 7, 4, 7, 1.0), (3, 3, 3, 2, 3, 0.0)]
    for height, width, classes, label, cell, fill in sizes:
        model = _Looker(height, width, classes)
        asked = {"model": model, "image": torch.rand(1, height, width), "label": label}
        _compare_occlusion(candidate, {**asked, "cell": cell, "fill": fill})
    classifier, image = _of_images(), torch.rand(1, 8, 8)
    for label in (0, 1):
        inside = {"model": classifier, "image": image, "label": label, "cell": 2, "fill": 0.0}
        _compare_occlusion(candidate, inside)


def _compare_occlusion(candidate: object, inputs: Inputs) -> None:
    expected = _occlude(*inputs.values())
    answer = _tensor(call_twice(candidate, inputs))
    hint = "The map has one value for each square: (height / cell, width / cell)."
    expect_equal(answer, expected, "the map", inputs, _OCCLUSION_TWINS, hint)


# Part 2


def _variation(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).abs().sum(dim=-1) / 2


_VARIATION_TWINS = [
    *known(
        "total_variation: The sum is not halved. Probability that one class loses is gained by "
        "another and must be counted once.",
        lambda p, q: 2 * _variation(p, q),
    ),
    *known(
        "total_variation: This is the mean over the classes. Return half the sum.",
        lambda p, q: (p - q).abs().mean(dim=-1),
    ),
    *known(
        "total_variation: Differences with opposite signs cancel. Take absolute values before "
        "the sum.",
        lambda p, q: (p - q).sum(dim=-1) / 2,
    ),
    *known(
        "total_variation: The differences are squared. Take absolute values.",
        lambda p, q: (p - q).square().sum(dim=-1) / 2,
        lambda p, q: (p - q).square().sum(dim=-1),
        lambda p, q: (p - q).norm(dim=-1),
    ),
    *known(
        "total_variation: This is the largest difference of a single class. Return half the sum "
        "over all classes.",
        lambda p, q: (p - q).abs().amax(dim=-1),
    ),
    *known(
        "total_variation: The texts of the batch are summed or averaged. Return one distance for "
        "each text.",
        lambda p, q: _variation(p, q).sum(),
        lambda p, q: _variation(p, q).mean(),
    ),
    *known(
        "total_variation: This is a Kullback–Leibler divergence. Return half the sum of the "
        "absolute differences.",
        lambda p, q: (p * (p / q).log()).sum(dim=-1),
        lambda p, q: (q * (q / p).log()).sum(dim=-1),
    ),
]


def _dealt(weights: Tensor, mask: Tensor, order: Tensor) -> Tensor:
    new = torch.zeros_like(weights)
    for row, real in enumerate(mask):
        new[row, real] = weights[row, order[real[order]]]
    return new


def _dealt_back(weights: Tensor, mask: Tensor, order: Tensor) -> Tensor:
    new = torch.zeros_like(weights)
    for row, real in enumerate(mask):
        new[row, order[real[order]]] = weights[row, real]
    return new


_SHUFFLED_TWINS = [
    *known(
        "shuffled: The permutation is inverted. The first word receives the weight of the word "
        "that order lists first; here the word that order lists first receives the weight of the "
        "first word.",
        _dealt_back,
    ),
    *known(
        "shuffled: Padding takes part in the permutation, so that some of the weight is lost to "
        "it. Skip the positions where the mask is False.",
        lambda w, mask, order: w[:, order],
        lambda w, mask, order: w[:, order] * mask,
    ),
    *known(
        "shuffled: The words of a text receive the weights of another text of the batch.",
        lambda w, mask, order: _dealt(w.flip(0), mask, order) * mask,
    ),
    *known(
        "shuffled: The code assumes that the words are at the first positions of a text. Padding "
        "may precede them; use the mask.",
        lambda w, mask, order: _dealt(w, mask.sort(dim=1, descending=True).values, order),
    ),
    *known(
        "shuffled: Positions with weight 0 are treated as padding. A word may have the weight 0; "
        "use the mask.",
        lambda w, mask, order: _dealt(w, w > 0, order),
    ),
    *known("shuffled: The weights are unchanged.", lambda w, mask, order: w),
    *known(
        "shuffled: A second softmax changes the values. Permute the weights without changing them.",
        lambda w, mask, order: _dealt(w, mask, order).masked_fill(~mask, -math.inf).softmax(-1),
    ),
]

_Classify = Callable[[Tensor], Tensor]


def _softmax(logits: Tensor) -> Tensor:
    return logits.softmax(dim=-1)


def _tested(
    summary: Callable[[Tensor], Tensor] = lambda distances: distances.median(dim=0).values,
    distance: Callable[[Tensor, Tensor], Tensor] = _variation,
    deal: Callable[[Tensor, Tensor, Tensor], Tensor] = _dealt,
    by: Callable[[Tensor], Tensor] = _softmax,
    pile_up: bool = False,
) -> Callable[..., Tensor]:
    """Return a permutation test with another summary, distance, permutation, or softmax."""

    def test(
        values: Tensor, weights: Tensor, mask: Tensor, classify: _Classify, orders: Tensor
    ) -> Tensor:
        def answers(given: Tensor) -> Tensor:
            return by(classify(torch.einsum("bs,bsd->bd", given, values)))

        found, dealt = [], weights
        for order in orders:
            dealt = deal(dealt if pile_up else weights, mask, order)
            found.append(distance(answers(weights), answers(dealt)))
        return summary(torch.stack(found))

    return test


def _classified_first(
    values: Tensor, weights: Tensor, mask: Tensor, classify: _Classify, orders: Tensor
) -> Tensor:
    return _tested()(classify(values), weights, mask, lambda logits: logits, orders)


_TEST_TWINS = [
    *known(
        "permutation_test: classify is applied to each value, and the logits are averaged. Apply "
        "classify to the weighted sum of the values.",
        _classified_first,
    ),
    *known(
        "permutation_test: The values are permuted together with their weights, so the weighted "
        "sum cannot change. Permute only the weights.",
        _tested(deal=lambda weights, mask, order: weights),
    ),
    *known(
        "permutation_test: Each order is applied to the result of the previous one. Apply each "
        "order to the model's own weights.",
        _tested(pile_up=True),
    ),
    *known(
        "permutation_test: This is the mean over the orders. Return the median.",
        _tested(lambda distances: distances.mean(dim=0)),
    ),
    *known(
        "permutation_test: This is the maximum or the minimum over the orders. Return the median.",
        _tested(lambda distances: distances.amax(dim=0)),
        _tested(lambda distances: distances.amin(dim=0)),
    ),
    *known(
        "permutation_test: The softmax normalises over the texts. It must normalise over the "
        "classes, the last dimension.",
        _tested(by=lambda logits: logits.softmax(dim=0)),
    ),
    *known(
        "permutation_test: The median is taken over the whole batch. Return one median for each "
        "text.",
        _tested(lambda distances: distances.median()),
    ),
    *known(
        "permutation_test: The median is taken over the texts, for each order. Take it over the "
        "orders, for each text.",
        _tested(lambda distances: distances.median(dim=1).values),
    ),
    *known(
        "permutation_test: These are distances between logits. Apply the softmax first.",
        _tested(by=lambda logits: logits),
    ),
    *known(
        "permutation_test: This is the share of orders that change the predicted class. Return "
        "the median distance between the distributions.",
        _tested(
            lambda distances: distances.mean(dim=0),
            lambda p, q: (p.argmax(dim=-1) != q.argmax(dim=-1)).float(),
        ),
    ),
    *known(
        "permutation_test: Padding takes part in the permutation. Use shuffled with the mask.",
        _tested(deal=lambda weights, mask, order: weights[:, order]),
        _tested(deal=lambda weights, mask, order: weights[:, order] * mask),
    ),
]


class _Linear(nn.Linear):
    """A linear layer whose description fits on one line of a message."""

    def __repr__(self) -> str:
        return f"a linear layer from dimension {self.in_features} to {self.out_features}"


class _Bent(nn.Sequential):
    """A small nonlinear network: its output for a sum is not the sum of its outputs."""

    def __repr__(self) -> str:
        return "a small nonlinear network"


def _orders(number: int, length: int) -> Tensor:
    return torch.stack([torch.randperm(length) for _ in range(number)])


def _weights(mask: Tensor) -> Tensor:
    scores = torch.randn(mask.shape)
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)


def _mask(lengths: Sequence[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


@_parts.part(
    "permutation test",
    "total_variation",
    "shuffled",
    "permutation_test",
    rebuilds=(
        "attentively.analysis.explanations:total_variation",
        "attentively.analysis.explanations:permuted_weights",
    ),
)
def permutations(
    total_variation: object, shuffled: object, permutation_test: object, thorough: bool = False
) -> None:
    """Check a distance, permuted weights, and the change of the prediction that they cause."""
    inputs: Inputs
    by_hand = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.4, 0.5, 0.1]])
    pairs = [by_hand, *(_distributions(*shape) for shape in [(2, 3), (3, 5), (5, 2)])]
    pairs += [_distributions(7, 11), _distributions(1, 13)] * thorough
    for p, q in pairs:
        inputs = {"p": p, "q": q}
        answer = _tensor(call_twice(total_variation, inputs))
        what = "the total variation"
        expect_equal(answer, _variation(p, q), what, inputs, _VARIATION_TWINS)
    lengths = [[3], [4, 3], [3, 5, 2], [7, 1, 5]] + thorough * [[11], [2, 13, 7, 13]]
    dealt = []
    for mask in [*map(_mask, lengths), _mask([4, 2, 3]).flip(1)]:  # the last: padding in front
        order = torch.tensor([1, 2, 0]) if mask.shape == (1, 3) else _moved(mask)
        dealt.append((_weights(mask), mask, order))
    dealt.append((torch.tensor([[0.5, 0.5, 0.0]]), _mask([3]), torch.tensor([1, 2, 0])))
    for asked in dealt:
        inputs = dict(zip(("weights", "mask", "order"), asked, strict=True))
        answer = _tensor(call_twice(shuffled, inputs))
        what = "the permuted weights"
        expect_equal(answer, _dealt(*inputs.values()), what, inputs, _SHUFFLED_TWINS)
    classify: nn.Module = _Linear(3, 3, bias=False)
    with torch.no_grad():
        cast(Tensor, classify.weight).copy_(3 * torch.eye(3))
    weights, mask = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.7, 0.2]]), _mask([3, 3])
    orders = torch.tensor([[0, 2, 1], [2, 1, 0], [1, 0, 2]])
    values = torch.eye(3).repeat(2, 1, 1)
    _compare_test(permutation_test, values, weights, mask, classify, orders)
    for place, (number, each) in enumerate(zip((3, 7, 5, 9, 1), lengths[1:], strict=False)):
        mask = _mask(each)
        classes = 2 + number % 3
        if place % 2:
            classify = _scaled(_Bent(_Linear(3, 5), nn.Tanh(), _Linear(5, classes)), 4.0)
        else:
            classify = _scaled(_Linear(3, classes), 9.0)
        values, orders = torch.randn(*mask.shape, 3), _orders(number, mask.size(1))
        _compare_test(permutation_test, values, _weights(mask), mask, classify, orders)
    _inside_the_classifier(permutation_test)


def _scaled(layer: nn.Module, factor: float) -> nn.Module:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(factor)
    return layer


def _moved(mask: Tensor) -> Tensor:
    """Return an order in which padding, if there is any, precedes a word."""
    while True:
        order = torch.randperm(mask.size(1))
        if mask.all() or not mask[mask.sum(dim=1).argmin()][order[0]]:
            return order


def _distributions(number: int, classes: int) -> tuple[Tensor, Tensor]:
    p, q = (2 * torch.randn(2, number, classes)).softmax(dim=-1)
    return p, q


def _compare_test(
    permutation_test: object,
    values: Tensor,
    weights: Tensor,
    mask: Tensor,
    classify: nn.Module,
    orders: Tensor,
) -> None:
    inputs = {
        "values": values,
        "weights": weights,
        "mask": mask,
        "classify": classify,
        "orders": orders,
    }
    with torch.no_grad():
        expected = _tested()(*inputs.values())
        answer = _tensor(call_twice(permutation_test, inputs))
        hint = "There is one median for each text; .median(dim=0) returns indices too: use .values."
        expect_equal(answer, expected, "the medians", inputs, _TEST_TWINS, hint)


def _three_texts() -> tuple[Tensor, Tensor]:
    mask = _mask([5, 2, 7])
    return torch.randint(23, mask.shape), mask


def _inside_the_classifier(permutation_test: object) -> None:
    """Let the student's function permute the weights of the package's classifier."""
    model = _of_texts(reader=True)
    ids, mask = _three_texts()
    with torch.no_grad():
        keys = model.read(model.embedding(ids), mask)
        weights = model(ids, mask).weights
    orders = _orders(5, mask.size(1))
    _compare_test(permutation_test, keys, weights, mask, _linear(model.output), orders)


def _linear(layer: nn.Linear) -> _Linear:
    """Return the same layer, with a name for messages."""
    named = _Linear(layer.in_features, layer.out_features)
    named.load_state_dict(layer.state_dict())
    return named


# Part 3

_Scene = Mapping[str, str]
_Options = Mapping[str, list[str]]
_Rule = Callable[[_Scene], object]


class _Studio:
    """Renders scenes: one row of pixels for each factor, whose brightness encodes the value."""

    def __init__(self, options: _Options) -> None:
        self.options = options

    def __call__(self, scene: _Scene) -> Tensor:
        """Return the image of a scene that gives each factor a value."""
        for factor, values in self.options.items():
            if set(scene) != set(self.options) or scene[factor] not in values:
                raise ValueError(
                    f"scene={dict(scene)} must contain a value for each of {list(self.options)}"
                )
        places = [values.index(scene[factor]) for factor, values in self.options.items()]
        return torch.tensor(places).reshape(1, -1, 1).expand(1, -1, 3) / 4

    def __repr__(self) -> str:
        return "a function that renders scenes"

    def read(self, image: Tensor) -> _Scene:
        """Return the scene that was drawn."""
        places = (4 * image[0, :, 0]).round().long().tolist()
        values = zip(self.options.items(), places, strict=True)
        return {factor: options[place] for (factor, options), place in values}


class _Follower:
    """A model that follows a rule; factors outside the rule still change its logits slightly."""

    def __init__(self, studio: _Studio, rule: _Rule, name: str) -> None:
        self.studio, self.rule, self.name = studio, rule, name
        every = [dict(zip(studio.options, v, strict=True)) for v in _every(studio.options)]
        self.answers = sorted({str(rule(scene)) for scene in every})

    def __call__(self, images: Tensor) -> Tensor:
        """Return the logits (n, classes) of images (n, 1, height, width)."""
        found = [self.answers.index(str(self.rule(self.studio.read(image)))) for image in images]
        likeliest = nn.functional.one_hot(torch.tensor(found), max(2, len(self.answers)))
        return likeliest * (3 + images.mean(dim=(1, 2, 3), keepdim=False).unsqueeze(-1))

    def __repr__(self) -> str:
        return self.name


def _every(options: _Options) -> Iterable[tuple[str, ...]]:
    return itertools.product(*options.values())


def _answer(model: Any, render: Any, scene: _Scene) -> int:
    return int(model(render(scene).unsqueeze(0)).argmax())


def _changed(scene: _Scene, factors: Iterable[str], options: _Options) -> list[dict[str, str]]:
    """Return every scene in which exactly these factors have another value."""
    factors = list(factors)
    others = [[value for value in options[f] if value != scene[f]] for f in factors]
    return [
        {**scene, **dict(zip(factors, values, strict=True))}
        for values in itertools.product(*others)
    ]


def _audited(
    changed: Callable[..., list[dict[str, str]]] = lambda scene, factor, options: _changed(
        scene, [factor], options
    ),
    share: Callable[[list[list[bool]]], float] = lambda found: _mean(itertools.chain(*found)),
    moved: Callable[[Tensor, Tensor], bool] = lambda own, other: _unlike(own, other),
    base: Callable[[_Scene, Sequence[_Scene]], _Scene] = lambda scene, scenes: scene,
) -> Callable[..., dict[str, float]]:
    """Return an audit with other changes, or another way to count what they flip."""

    def flips(
        model: Any, render: Any, options: _Options, scenes: Sequence[_Scene]
    ) -> dict[str, float]:
        def logits(scene: _Scene) -> Tensor:
            return cast(Tensor, model(render(scene).unsqueeze(0)))

        found: dict[str, float] = {}
        for factor in options:
            flipped = []
            for scene in scenes:
                own = logits(base(scene, scenes))
                copies = changed(scene, factor, options)
                flipped.append([moved(own, logits(copy)) for copy in copies])
            found[factor] = share(flipped)
        return found

    return flips


def _unlike(own: Tensor, other: Tensor) -> bool:
    return bool(own.argmax() != other.argmax())


def _mean(numbers: Iterable[float | bool]) -> float:
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def _as_it_comes(
    model: Any, render: Any, options: _Options, scenes: Sequence[_Scene]
) -> dict[str, float]:
    """Compare scenes of the data that differ in a factor, and possibly in other factors."""
    found = {}
    for factor in options:
        pairs = [
            (_answer(model, render, one), _answer(model, render, other))
            for one, other in itertools.permutations(scenes, 2)
            if one[factor] != other[factor]
        ]
        found[factor] = _mean([one != other for one, other in pairs] or [0.0])
    return found


def _left_changed(
    model: Any, render: Any, options: _Options, scenes: Sequence[_Scene]
) -> dict[str, float]:
    counts: dict[str, list[bool]] = {factor: [] for factor in options}
    for scene in scenes:
        own, moving = _answer(model, render, scene), dict(scene)
        for factor, values in options.items():
            for value in values:
                if value != scene[factor]:
                    moving[factor] = value
                    counts[factor].append(_answer(model, render, moving) != own)
    return {factor: _mean(flipped) for factor, flipped in counts.items()}


_FLIPS_TWINS = [
    *known(
        "flips: This is the share of scenes with at least one copy that flips the prediction. "
        "Return the share of copies.",
        _audited(share=lambda found: _mean(any(each) for each in found)),
    ),
    *known(
        "flips: This is the share of scenes in which every copy flips the prediction. Return the "
        "share of copies.",
        _audited(share=lambda found: _mean(all(each) for each in found)),
    ),
    *known(
        "flips: This is the share of copies that leave the prediction unchanged. Return the "
        "share of those that flip it.",
        _audited(share=lambda found: 1 - _mean(itertools.chain(*found))),
    ),
    *known(
        "flips: The denominator is wrong. Divide by the number of all copies; a scene has one "
        "copy for each other value.",
        _audited(share=lambda found: float(sum(itertools.chain(*found)))),
        _audited(share=lambda found: sum(itertools.chain(*found)) / len(found)),
    ),
    *known(
        "flips: The scene itself is counted among its copies. Make copies only with *other* "
        "values.",
        _audited(lambda s, f, options: [{**s, f: value} for value in options[f]]),
    ),
    *known(
        "flips: These are percentages. Return shares from 0 to 1.",
        _audited(share=lambda found: 100 * _mean(itertools.chain(*found))),
    ),
    *known(
        "flips: Only one other value is tested for each scene. Make a copy for each other value.",
        _audited(lambda s, f, options: _changed(s, [f], options)[:1]),
        _audited(lambda s, f, options: _changed(s, [f], options)[-1:]),
    ),
    *known(
        "flips: All factors except this one are changed. Change only this one.",
        _audited(
            lambda s, f, options: _changed(s, [each for each in options if each != f], options)
        ),
    ),
    *known(
        "flips: Earlier changes are still present in later copies. Start each copy from the "
        "scene itself: dict(scene).",
        _left_changed,
    ),
    *known(
        "flips: This compares scenes of the data with each other. Scenes that differ in this "
        "factor may differ in other factors too, so this measures a correlation in the data and "
        "not what the model uses. Change the factor yourself.",
        _as_it_comes,
    ),
    *known(
        "flips: Every copy is compared with the prediction for the first scene. Compare it with "
        "the prediction for the scene that it was made from.",
        _audited(base=lambda scene, scenes: scenes[0]),
    ),
    *known(
        "flips: Any change of the logits is counted. The prediction is flipped only if another "
        "class has the largest logit.",
        _audited(moved=lambda own, other: not torch.equal(own, other)),
    ),
]

_Sets = list[frozenset[str]]


def _sets(
    model: Any,
    render: Any,
    options: _Options,
    scene: _Scene,
    tries: int | None = None,
    enough: Callable[[Iterable[bool]], bool] = any,
) -> _Sets:
    """Return every set of factors for which some choice (or `enough`) flips the prediction."""
    own = _answer(model, render, scene)
    return [
        frozenset(factors)
        for size in range(1, len(options) + 1)
        for factors in itertools.combinations(options, size)
        if enough(
            _answer(model, render, copy) != own
            for copy in _changed(scene, factors, options)[:tries]
        )
    ]


def _fewest(found: _Sets) -> _Sets:
    return [each for each in found if len(each) == len(found[0])]


def _minimal(found: _Sets) -> _Sets:
    return [each for each in found if not any(other < each for other in found)]


def _smallest(*asked: Any) -> _Sets:
    return _fewest(_sets(*asked))


_SMALLEST_TWINS = [
    *known(
        "smallest: Only one other value is tested for each factor. Test every combination of "
        "other values.",
        lambda m, render, options, s: _fewest(_sets(m, render, options, s, tries=1)),
    ),
    *known(
        "smallest: The code requires that every combination of other values flips the "
        "prediction. One combination is enough.",
        lambda m, render, options, s: _fewest(_sets(m, render, options, s, enough=all)),
    ),
    *known(
        "smallest: Larger sets are not tested. If no set of one size flips the prediction, test "
        "all sets of the next size, up to the set of all factors.",
        lambda *asked: [each for each in _smallest(*asked) if len(each) == 1],
        lambda *asked: [each for each in _smallest(*asked) if len(each) < 3],
        lambda *asked: [each for each in _smallest(*asked) if len(each) < 4],
    ),
    *known(
        "smallest: The list also contains larger sets. Stop at the first size with a set that "
        "flips the prediction.",
        lambda *asked: _sets(*asked),
    ),
    *known(
        "smallest: These are all sets of which no subset flips the prediction. Return only those "
        "with the smallest number of factors.",
        lambda *asked: _minimal(_sets(*asked)),
    ),
    *known(
        "smallest: This is only one of the sets. Return all sets of the smallest size.",
        lambda *asked: _smallest(*asked)[:1],
        lambda *asked: _smallest(*asked)[-1:],
    ),
    *known(
        "smallest: These are factors that do not flip the prediction. Return those that do.",
        lambda *asked: [
            frozenset([factor]) for factor in asked[2] if frozenset([factor]) not in _sets(*asked)
        ],
    ),
]

_WOLVES: _Options = {
    "animal": ["husky", "wolf"],
    "ground": ["grass", "snow"],
    "collar": ["none", "red"],
}
_MORE: _Options = {
    "animal": ["husky", "wolf"],
    "ground": ["grass", "sand", "snow"],
    "light": ["day", "dusk"],
    "collar": ["none", "red", "blue"],
}


def _has(scene: _Scene, *values: str) -> int:
    return sum(each in values for each in scene.values())


# What a model detects, the options, and the rule.
_RULES: list[tuple[str, _Options, _Rule]] = [
    ("a wolf or snow", _WOLVES, lambda s: _has(s, "wolf", "snow") > 0),
    ("snow", _WOLVES, lambda s: _has(s, "snow")),
    ("a wolf on sand", _MORE, lambda s: _has(s, "wolf", "sand") == 2),
    ("the ground and the collar", _MORE, lambda s: (s["ground"], s["collar"])),
    ("two of wolf, snow, dusk", _MORE, lambda s: _has(s, "wolf", "snow", "dusk") > 1),
    ("a wolf, snow, dusk or red", _MORE, lambda s: _has(s, "wolf", "snow", "dusk", "red") > 0),
    ("dusk, or wolf and snow", _MORE, lambda s: 2 * _has(s, "dusk") + _has(s, "wolf", "snow") > 1),
]
_FURTHER_RULES: list[tuple[str, _Options, _Rule]] = [
    ("a wolf or dusk, not both", _MORE, lambda s: _has(s, "wolf", "dusk") == 1),
    ("a blue collar", _MORE, lambda s: _has(s, "blue")),
    ("nothing", _WOLVES, lambda s: "always the same"),
]
_THREE_SCENES = [
    {"animal": animal, "ground": ground, "collar": "none"}
    for animal, ground in (("wolf", "snow"), ("husky", "grass"), ("husky", "snow"))
]


def _scenes(options: _Options, number: int) -> list[dict[str, str]]:
    """Return scenes, of which no two are the same."""
    every = list(_every(options))
    chosen = torch.randperm(len(every))[:number].tolist()
    return [dict(zip(options, every[place], strict=True)) for place in chosen]


@_parts.part("counterfactual audit", "flips", "smallest")
def audit(flips: object, smallest: object, thorough: bool = False) -> None:
    """Check which factors flip a model's prediction, alone and together."""
    rules = _RULES + _FURTHER_RULES * thorough
    cases = [(*rules[0], _THREE_SCENES)]
    cases += [(name, options, rule, _scenes(options, 8)) for name, options, rule in rules]
    asked: list[dict[str, Any]] = []
    for name, options, rule, scenes in cases:
        studio = _Studio(options)
        model = _Follower(studio, rule, f"a model that detects {name}")
        of_model = {"model": model, "render": studio, "options": dict(options)}
        asked.append({**of_model, "scenes": scenes})
    expect_all(
        flips, asked, _audited(), "flips", _FLIPS_TWINS, _same_shares,
        pick=lambda found, _: _shares(found),
    )  # fmt: skip
    for name, options, rule in rules:
        studio = _Studio(options)
        model = _Follower(studio, rule, f"a model that detects {name}")
        of_model = {"model": model, "render": studio, "options": dict(options)}
        ends = [{factor: values[end] for factor, values in options.items()} for end in (0, -1)]
        for scene in ends + _scenes(options, 3):
            _compare_smallest(smallest, {**of_model, "scene": scene})


def _shares(found: object) -> object:
    if isinstance(found, dict):
        return {factor: _number(share) for factor, share in found.items()}
    return found


def _same_shares(found: object, right: Mapping[str, float]) -> bool:
    """Compare as `expect_value` does."""
    try:
        expect_value(found, right, "flips", {})
    except CheckFailed:
        return False
    return True


def _compare_smallest(smallest: object, inputs: Inputs) -> None:
    expected = _sorted(_smallest(*inputs.values()))
    found = call_twice(smallest, inputs)
    if not isinstance(found, list | tuple | set | frozenset) or not all(
        isinstance(each, list | tuple | set | frozenset) for each in found
    ):
        raise CheckFailed(
            "  smallest: Expected a list of sets of factors, such as [{'ground'}], but got "
            f"{show(found)}\n{describe(inputs)}"
        )
    given = [frozenset(cast(Iterable[str], each)) for each in found]
    if len(set(given)) < len(given):
        raise CheckFailed(
            "  smallest: The list contains a set twice. The factors of a set have no order, and "
            f"the set counts once, however many values flip the prediction.\n{describe(inputs)}\n"
            f"  got         {show(found)}"
        )
    twins = [
        Twin(said, lambda *asked, wrong=wrong: _sorted(wrong(*asked)))
        for said, wrong in _SMALLEST_TWINS
    ]
    expect_value(_sorted(given), expected, "smallest", inputs, twins)


def _sorted(found: Iterable[Iterable[str]]) -> list[list[str]]:
    return sorted((sorted(each) for each in found), key=lambda each: (len(each), each))


def studio() -> tuple[_Studio, _Options, list[dict[str, str]], list[_Follower]]:
    """Return a renderer, its options, scenes with a spurious correlation, and three models."""
    drawn = _Studio(_WOLVES)
    pairs = (("wolf", "snow"), ("husky", "grass"))
    scenes = [
        {"animal": animal, "ground": ground, "collar": collar}
        for animal, ground in pairs
        for collar in _WOLVES["collar"]
    ]
    rules: dict[str, _Rule] = {
        "first": lambda s: s["animal"] == "wolf",
        "second": lambda s: s["ground"] == "snow",
        "third": lambda s: s["animal"] == "wolf" or s["ground"] == "snow",
    }
    options = {factor: [*values] for factor, values in _WOLVES.items()}
    return drawn, options, scenes, [_Follower(drawn, rule, name) for name, rule in rules.items()]


# Part 4


def _divergence(p: Tensor, q: Tensor, halved: bool = True) -> float:
    """Return the Jensen–Shannon divergence, in nats."""
    p, q = p.double(), q.double()
    middle = (p + q) / 2
    both = sum(float(torch.xlogy(each, each / middle.where(each > 0, 1)).sum()) for each in (p, q))
    return max(both, 0.0) / (2 if halved else 1)


def _kullback_leibler(p: Tensor, q: Tensor) -> float:
    return float((p * (p / q).log()).nan_to_num().sum())


_DIVERGENCE_TWINS = [
    *known(
        "jensen_shannon: The two divergences are added without the factor ½.",
        lambda p, q: _divergence(p, q, halved=False),
    ),
    *known(
        "jensen_shannon: This is the square root of the divergence (SciPy's jensenshannon "
        "returns it as a distance). Return the divergence.",
        lambda p, q: math.sqrt(_divergence(p, q)),
    ),
    *known(
        "jensen_shannon: The logarithm has base 2. Use the natural logarithm.",
        lambda p, q: _divergence(p, q) / math.log(2),
    ),
    *known(
        "jensen_shannon: This is a Kullback–Leibler divergence between p and q. Compare each of "
        "them with their mean m.",
        _kullback_leibler,
        lambda p, q: _kullback_leibler(q, p),
        lambda p, q: (_kullback_leibler(p, q) + _kullback_leibler(q, p)) / 2,
    ),
    *known(
        "jensen_shannon: Only one of the two distributions is compared with the mean m.",
        lambda p, q: _kullback_leibler(p, (p + q) / 2),
        lambda p, q: _kullback_leibler(q, (p + q) / 2),
        lambda p, q: _kullback_leibler(p, (p + q) / 2) / 2,
        lambda p, q: _kullback_leibler(q, (p + q) / 2) / 2,
    ),
    *known(
        "jensen_shannon: This is the total variation distance.",
        lambda p, q: float(_variation(p, q)),
    ),
]


def _corners(weights: Tensor, scores: Tensor) -> list[Tensor]:
    """Return the vertices of the set of weights with the same logit: each has two words."""
    logit = float(weights.double() @ scores.double())
    found = []
    for low, high in itertools.permutations(range(len(weights)), 2):
        below, above = float(scores[low]), float(scores[high])
        if below <= logit <= above and below < above:
            corner = torch.zeros(len(weights))
            corner[high] = (logit - below) / (above - below)
            corner[low] = 1 - corner[high]
            found.append(corner)
    return found


def _farthest(weights: Tensor, scores: Tensor) -> Tensor:
    return max(_corners(weights, scores), key=lambda corner: _divergence(weights, corner))


def _what_is_wrong(found: Tensor, weights: Tensor, scores: Tensor) -> str:
    """Return what is wrong with the weights, or an empty text if none are more distant."""
    if (found < -1e-5).any():
        return "A weight is negative. The logit must lie between the scores of the two words."
    if abs(float(found.sum()) - 1) > 1e-4:
        return f"The weights sum to {float(found.sum()):.4g}, but they must sum to 1."
    logit, got = float(weights @ scores), float(found @ scores)
    if abs(logit - got) > 1e-4 * (1 + float(scores.max() - scores.min())):
        why = ""
        if (found > 1 - 1e-4).any():
            why = " A single word rarely has exactly this score; use a pair of words."
        elif _is_mixed_the_wrong_way(found, weights, scores):
            why = " The weights of the two words may be exchanged."
        elif torch.allclose(found.sort().values, weights.sort().values, atol=1e-4):
            why = " These are the given weights in another order."
        return f"These weights change the prediction: the logit is {got:.4g}, not {logit:.4g}.{why}"
    far, best = _divergence(weights, found), _divergence(weights, _farthest(weights, scores))
    if far < 1e-6:
        return "These are the given weights. Return other weights with the same logit."
    if far < best - 1e-3:
        why = "They are a mixture of several pairs of words; compare single pairs."
        corners = _corners(weights, scores)
        if any(torch.allclose(corner, found, atol=1e-4) for corner in corners):
            why = "They belong to one pair of words; compare all pairs."
        if float(_farthest(weights, scores).max()) == 1:
            why = "One word has exactly this score, so it can receive all of the weight."
        widest = max(corners, key=lambda corner: float(_variation(weights, corner)))
        if torch.allclose(widest, found, atol=1e-4):
            why = "They maximise the total variation distance; maximise the divergence."
        return (
            f"These weights have the correct logit, but others are more distant: their divergence "
            f"is {far:.4g}, and the largest possible is {best:.4g}. {why}"
        )
    return ""


def _is_mixed_the_wrong_way(found: Tensor, weights: Tensor, scores: Tensor) -> bool:
    swapped = [corner.clone() for corner in _corners(weights, scores)]
    for corner in swapped:
        two = corner.nonzero().flatten()
        corner[two] = corner[two].flip(0)
    return any(torch.allclose(each, found, atol=1e-4) for each in swapped)


@_parts.part(
    "adversarial weights",
    "jensen_shannon",
    "other_weights",
    rebuilds=("attentively.analysis.explanations:jensen_shannon",),
    refuses=("attentively.analysis.explanations:adversarial_weights",),
)
def other_weights(jensen_shannon: object, candidate: object, thorough: bool = False) -> None:
    """Check a divergence, and the most distant weights with the same prediction."""
    by_hand = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.25, 0.5])
    half = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.0, 0.625, 0.375])
    apart = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    unseen = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.75, 0.0])
    pairs = [by_hand, half, apart, unseen, *(_two(size) for size in (3, 5, 7))]
    pairs += [_two(size) for size in (2, 11, 13)] * thorough
    for p, q in pairs:
        inputs: Inputs = {"p": p, "q": q}
        found = _number(call_twice(jensen_shannon, inputs))
        hint = "Where a distribution is 0, its term is 0: 0 · log 0 is defined as 0."
        if plain_number(found) is not None and math.isnan(cast(float, found)):
            raise CheckFailed(f"  jensen_shannon: The result is NaN. {hint}\n{describe(inputs)}")
        expect_value(found, _divergence(p, q), "the divergence", inputs, _DIVERGENCE_TWINS, hint)
    texts = [(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([1.0, 2.0, -2.0]))]
    texts += [_read(size) for size in (3, 3, 4, 5, 5, 7, 7)]
    texts += [_read(size) for size in (11, 13, 3, 6)] * thorough
    texts.append((torch.tensor([0.375, 0.25, 0.375]), torch.tensor([1.0, 2.0, 3.0])))
    for weights, scores in texts:
        _compare_weights(candidate, weights, scores)
    _inside_the_two_labels(candidate)


def _two(size: int) -> tuple[Tensor, Tensor]:
    p, q = (2 * torch.randn(2, size)).softmax(dim=-1)
    return p, q


def _read(size: int) -> tuple[Tensor, Tensor]:
    return (2 * torch.randn(size)).softmax(dim=-1), 2 * torch.randn(size)


def _compare_weights(candidate: object, weights: Tensor, scores: Tensor) -> Tensor:
    inputs = {"weights": weights, "scores": scores}
    answer = _tensor(call_twice(candidate, inputs))
    found = expect_tensor(answer, weights.shape, "the other weights", inputs)
    wrong = _what_is_wrong(found, weights, scores)
    if wrong:
        raise CheckFailed(f"  {wrong}\n{describe(inputs)}\n  got         {show(found)}")
    return found


def _inside_the_two_labels(candidate: object) -> None:
    """Use the student's weights in the package's classifier: its prediction must not change."""
    model = _of_texts(reader=False)
    with torch.no_grad():
        keys = model.read(model.embedding(torch.arange(5).unsqueeze(0)))
        weights = model(torch.arange(5).unsqueeze(0)).weights
        logits = model.output(keys[0])  # those of each word alone
        found = _compare_weights(candidate, weights[0], logits[:, 1] - logits[:, 0])
        before, after = (model.judge(keys, w).softmax(-1) for w in (weights, found.unsqueeze(0)))
    what = "the prediction of the package's classifier"
    expect_equal(after, before, what, {"weights": weights[0]})


# Part 5


class _Reader:
    """A sentiment model with attention, which negates the value of a word after "not".

    The logit is the average of the words' values, weighted by the softmax of their scores. The
    weights that it returns may be the softmax of other scores.
    """

    def __init__(
        self,
        name: str,
        values: Mapping[str, float],
        scores: Mapping[str, float],
        shown: Mapping[str, float] | None = None,
    ) -> None:
        self.name, self.values, self.scores = name, dict(values), dict(scores)
        self.shown = dict(scores if shown is None else shown)

    def __call__(self, words: Sequence[str]) -> tuple[float, list[float]]:
        """Return the probability of a positive review, and the weights shown."""
        if not words:
            raise ValueError("the text is empty: at least one word is needed")
        values = []
        for place, word in enumerate(words):
            turned = place > 0 and words[place - 1] == "not"
            values.append((-1 if turned else 1) * self.values.get(word, 0.0))
        weights = self._weights(self.scores, words)
        logit = sum(weight * value for weight, value in zip(weights, values, strict=True))
        return 1 / (1 + math.exp(-logit)), self._weights(self.shown, words)

    def _weights(self, scores: Mapping[str, float], words: Sequence[str]) -> list[float]:
        # More after "not", and slightly less at each later word: no two weights are equal.
        found = [
            scores.get(word, 0.0) + (before == "not") - place / 50
            for place, (before, word) in enumerate(zip(["", *words], words, strict=False))
        ]
        return torch.tensor(found, dtype=torch.float64).softmax(dim=0).tolist()

    def __repr__(self) -> str:
        return self.name


_VALUES = {"good": 6.0, "wonderful": 9.0, "bad": -6.0, "dull": -8.0, "warm": 4.0, "slow": -3.0}
_MEANING = {"good": 2.0, "wonderful": 3.0, "bad": 2.0, "dull": 2.5, "warm": 1.5, "slow": 1.0}
_STYLE = {"the": 2.5, "a": 2.0, "film": 3.0, "was": 1.5, "and": 1.0, "it": 2.0}
_REVIEWS = [
    "the film was good and warm",
    "it was a dull and slow film",
    "a wonderful film and it was not slow",
    "the film was not good and not warm",
    "it was bad and the end was bad",
    "good and good and slow",
]


def readers() -> dict[str, _Reader]:
    """Return three models with the same predictions and different explanations."""
    return {
        "first": _Reader("first", _VALUES, _MEANING),
        "second": _Reader("second", _VALUES, _MEANING, shown=_STYLE),
        "third": _Reader("third", _VALUES, _MEANING, shown={"not": 3.0, **_MEANING}),
    }


def reviews() -> list[list[str]]:
    """Return texts, each a list of words."""
    return [text.split() for text in _REVIEWS]


_Drop = Callable[[Any, list[str], Sequence[int]], float]


def _of_the_answer(model: Any, words: Sequence[str], positive: bool) -> float:
    probability = model(list(words))[0]
    return probability if positive else 1 - probability


def _drop(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    """Return the decrease of the prediction's probability without these words."""
    positive = model(words)[0] >= 0.5
    rest = [word for place, word in enumerate(words) if place not in left_out]
    return _of_the_answer(model, words, positive) - _of_the_answer(model, rest, positive)


def _drop_of_praise(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    rest = [word for place, word in enumerate(words) if place not in left_out]
    return cast(float, model(words)[0] - model(rest)[0])


def _drop_of_blame_at_one_half(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    drop = _drop(model, words, left_out)
    return -drop if model(words)[0] == 0.5 else drop


def _drop_without_sign(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    return abs(_drop(model, words, left_out))


def _drop_of_any_answer(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    """Use the prediction for the remaining text instead of that for the whole text."""
    rest = [word for place, word in enumerate(words) if place not in left_out]
    before, after = (float(model(each)[0]) for each in (words, rest))
    return max(before, 1 - before) - max(after, 1 - after)


def _drop_when_kept(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    return _drop(model, words, [p for p in range(len(words)) if p not in left_out])


def _drop_of_every_copy(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    gone = {words[place] for place in left_out}
    return _drop(model, words, [p for p, word in enumerate(words) if word in gone])


def _drop_by_blanks(model: Any, words: list[str], left_out: Sequence[int]) -> float:
    blanked = ["" if place in left_out else word for place, word in enumerate(words)]
    positive = model(words)[0] >= 0.5
    return _of_the_answer(model, words, positive) - _of_the_answer(model, blanked, positive)


def _top(model: Any, words: list[str], k: int) -> list[int]:
    weights = model(words)[1]
    return sorted(range(len(words)), key=lambda place: -weights[place])[:k]


def _bottom(model: Any, words: list[str], k: int) -> list[int]:
    weights = model(words)[1]
    return sorted(range(len(words)), key=lambda place: weights[place])[:k]


def _one_by_one(model: Any, words: list[str], k: int) -> list[int]:
    """Compute the weights again after each removed word."""
    places = list(range(len(words)))
    for _ in range(k):
        del places[_top(model, [words[place] for place in places], 1)[0]]
    return [place for place in range(len(words)) if place not in places]


def _chosen_sets(model: Any, words: list[str], k: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(len(words)), k))


def _erased(
    drop: _Drop = _drop,
    top: Callable[[Any, list[str], int], list[int]] = _top,
    sets: Callable[[Any, list[str], int], list[tuple[int, ...]]] = _chosen_sets,
    sign: int = 1,
) -> Callable[..., list[float]]:
    """Return the two decreases, with another way to remove, to choose or to compare words."""

    def erase(model: Any, words: list[str], k: int) -> list[float]:
        shown = sign * drop(model, words, top(model, words, k))
        return [shown, sign * _mean(drop(model, words, each) for each in sets(model, words, k))]

    return erase


_ERASED_TWINS = [
    *known(
        "erased: A probability of exactly 0.5 must count as positive (at least 0.5).",
        _erased(_drop_of_blame_at_one_half),
    ),
    *known(
        "erased: This is the decrease of the positive probability. If the prediction is "
        "negative, its probability is 1 minus that.",
        _erased(_drop_of_praise),
    ),
    *known(
        "erased: An absolute value was taken. If the prediction becomes more probable without "
        "some words, the decrease is negative.",
        _erased(_drop_without_sign),
    ),
    *known(
        "erased: The remaining text is scored with its own prediction. Use the prediction for "
        "the whole text, even if it is now the less probable one.",
        _erased(_drop_of_any_answer),
    ),
    *known(
        "erased: The selected words are kept and all others removed. Remove the selected words.",
        _erased(_drop_when_kept),
    ),
    *known(
        "erased: Other occurrences of a removed word are removed too. Remove positions, not words.",
        _erased(_drop_of_every_copy),
        lambda m, w, k: [_erased(_drop_of_every_copy)(m, w, k)[0], _erased()(m, w, k)[1]],
    ),
    *known(
        "erased: The words are replaced by blanks, which the model still receives. Pass the "
        "shorter text.",
        _erased(_drop_by_blanks),
    ),
    *known("erased: The words with the *smallest* weights are removed.", _erased(top=_bottom)),
    *known(
        "erased: The weights are computed again after each removed word. Select all k words by "
        "the weights of the whole text.",
        _erased(top=_one_by_one),
    ),
    *known(
        "erased: The sign is reversed. If the prediction becomes less probable, the decrease is "
        "positive.",
        _erased(sign=-1),
    ),
    *known(
        "erased: The mean is taken over single words. Take it over all sets of k words.",
        _erased(sets=lambda model, words, k: [(place,) for place in range(len(words))]),
    ),
    *known(
        "erased: The mean excludes the set with the largest weights. Take it over all sets of k "
        "words.",
        _erased(
            sets=lambda m, w, k: [
                each for each in _chosen_sets(m, w, k) if set(each) != set(_top(m, w, k))
            ],
        ),
    ),
    *known(
        "erased: The two values are exchanged. The first is the decrease without the k words "
        "with the largest weights.",
        lambda *asked: _erased()(*asked)[::-1],
    ),
]


def _no_better_than_chance(found: list[list[float]]) -> bool:
    shown, chance = zip(*found, strict=True)
    return _mean(shown) <= _mean(chance)


def _exposed(
    models: Mapping[str, Any],
    texts: Sequence[list[str]],
    k: int,
    compare: Callable[[list[list[float]]], bool] = _no_better_than_chance,
) -> list[str]:
    return [
        name
        for name, model in models.items()
        if compare([_erased()(model, words, k) for words in texts])
    ]


def _pooled(models: Mapping[str, Any], texts: Sequence[list[str]], k: int) -> list[str]:
    """Weight the chance level of each text by the number of its sets."""

    def compare(found: list[list[float]]) -> bool:
        sets = [math.comb(len(words), k) for words in texts]
        pooled = sum(n * chance for n, (_, chance) in zip(sets, found, strict=True)) / sum(sets)
        return _mean(shown for shown, _ in found) <= pooled

    return _exposed(models, texts, k, compare)


_COUNTED = (
    "exposed: Texts are counted. Compare the means over all texts: one text with a large "
    "decrease may outweigh two others."
)
_EXPOSED_TWINS = [
    Twin(said, lambda models, texts, k, compare=compare: _exposed(models, texts, k, compare))
    for said, compare in cast(
        list[tuple[str, Callable[[list[list[float]]], bool]]],
        [
            (
                "exposed: These are the models whose weights do better than chance. Return the "
                "others.",
                lambda found: not _no_better_than_chance(found),
            ),
            (
                "exposed: The decrease is compared with 0. Removing any words may change the "
                "prediction; compare with the mean over all sets.",
                lambda found: _mean(s for s, _ in found) <= 0,
            ),
            (_COUNTED, lambda found: sum(s <= c for s, c in found) * 2 >= len(found)),
            (_COUNTED, lambda found: sum(s <= c for s, c in found) * 2 > len(found)),
            (
                "exposed: A model is returned only if it does no better than chance on every "
                "text. Compare the means over all texts.",
                lambda found: all(s <= c for s, c in found),
            ),
            (
                "exposed: A model is returned because of a single text on which it does no "
                "better than chance. Compare the means over all texts.",
                lambda found: any(s <= c for s, c in found),
            ),
            (
                "exposed: A model whose means are equal does no better than chance. Return it too.",
                lambda found: _mean(s for s, _ in found) < _mean(c for _, c in found),
            ),
        ],
    )
]
_EXPOSED_TWINS += known(
    "exposed: Only one word is removed, whatever k is.",
    lambda models, texts, k: _exposed(models, texts, 1),
)
_EXPOSED_TWINS += known(
    "exposed: The sets of all texts are pooled, so that long texts count more. Average over the "
    "sets of each text first, then over the texts.",
    _pooled,
)


@_parts.part("erasure test", "erased", "exposed")
def forger(erased: object, exposed: object, thorough: bool = False) -> None:
    """Check the decrease without the words of largest weight, and which models it exposes."""
    even = _Reader("even", {"good": 6.0, "bad": -6.0}, {"bad": 1 / 50}, shown={"good": 1.0})
    there = {**readers(), "even": even}  # its probability for "good bad" is 0.5
    texts = ["a good film", "a bad film", *_REVIEWS]
    asked = [(name, text, k) for text in texts for name in ("first", "second") for k in (1, 2)]
    asked += [("third", _REVIEWS[3], 2), ("first", _REVIEWS[2], 3), ("even", "good bad", 1)]
    if thorough:
        asked += [(name, _REVIEWS[place], 3) for place in (0, 4) for name in readers()]
    for name, text, k in asked:
        words = text.split()
        if k < len(words):
            inputs = {"model": deepcopy(there[name]), "words": words, "k": k}
            expected = _erased()(*inputs.values())
            found = call_twice(erased, inputs)
            if isinstance(found, Tensor | np.ndarray):
                found = found.tolist()
            if isinstance(found, list | tuple):
                found = [_number(each) for each in found]
            expect_value(found, expected, "erased", inputs, _ERASED_TWINS)
    line_ups = [
        (suspects, [text.split() for text in chosen], k)
        for suspects, chosen, k in _line_ups(thorough)
    ]
    expect_all(
        exposed,
        named_cases(("models", "texts", "k"), line_ups),
        lambda *asked: sorted(_exposed(*asked)),
        "exposed",
        [Twin(said, lambda *a, wrong=wrong: sorted(wrong(*a))) for said, wrong in _EXPOSED_TWINS],
        operator.eq,
        lambda names, *_: "" if _are_names(names) else "Return a list of names.",
        lambda names, _: _in_order(names),
    )


def _in_order(names: object) -> object:
    if isinstance(names, list | tuple | set | frozenset | dict):
        return sorted(names, key=str)
    return names


def _are_names(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _line_ups(thorough: bool) -> list[tuple[dict[str, _Reader], list[str], int]]:
    """Return models, texts, and the number of words to remove."""
    there = readers()
    maps = {
        "fourth": {"dull": 3.0, "the": 2.0, "wonderful": 1.0},
        "fifth": {"wonderful": 3.0, "film": 2.0, "good": 1.0},
        "sixth": {"slow": 3.0, "was": 2.0},
        "seventh": {"warm": 3.0, "it": 2.0},
    }  # chosen so that means, counts, one text and every text expose different models
    more = {name: _Reader(name, _VALUES, _MEANING, shown) for name, shown in maps.items()}
    found = [(there, _REVIEWS, 1), (more, [_REVIEWS[place] for place in (0, 2, 3)], 2)]
    unmoved = {"eighth": _Reader("eighth", {}, _MEANING)}  # its prediction depends on no word
    found.append((there | unmoved, _REVIEWS[:2], 1))
    found.append(({"fifth": more["fifth"]}, ["a good film", _REVIEWS[2]], 1))  # of unlike lengths
    found += thorough * [(there, _REVIEWS[1:5], 2), ({"second": there["second"]}, _REVIEWS, 3)]
    return found
