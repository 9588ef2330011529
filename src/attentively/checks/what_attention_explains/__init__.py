"""Checks of the assignment on what attention explains: five tests of explanations.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. The weights of part 4 are examined by their properties: the sum, the logit and the divergence.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from attentively.analysis import explanations
from attentively.checks import (
    CheckFailed,
    Parts,
    call_twice,
    describe,
    expect_equal,
    expect_tensor,
    in_32_bits,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.compare import equal
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
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
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Report that the package, its classifier and these checks work."""
    _parts.explain_undefined_names()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AttentiveClassifier(nn.Embedding(23, 6), 6, 2, reader=BidirectionalEncoder(6, 3))
        mask = torch.arange(7) < torch.tensor([[5], [2], [7]])
        answer = model(torch.randint(23, mask.shape), mask)
    texts, words = answer.weights.shape
    print(f"PyTorch {torch.__version__}. Attention weights of {texts} texts, up to {words} words.")
    print("Ready.")


def _tensor(answer: object, inputs: Inputs) -> object:
    """Return lists, arrays and 64-bit tensors as 32-bit tensors: none of them is a mistake here."""
    if isinstance(answer, np.ndarray):
        return in_32_bits(torch.from_numpy(answer))
    if isinstance(answer, list | tuple) and answer:
        try:
            rows = [_tensor(each, inputs) for each in answer]
            if all(isinstance(row, Tensor) for row in rows):
                return torch.stack(cast(list[Tensor], rows))
            return torch.tensor(answer, dtype=torch.float32)
        except (RuntimeError, TypeError, ValueError):  # not a table of numbers
            return answer
    return in_32_bits(answer)


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


# Parts 1 and 2


class OnSquares(nn.Module):
    """The package's classifier, called with whole images of 8 × 8 pixels."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.classifier = AttentiveClassifier(SquareEncoder(6), 6, 2)
        self.classifier.load_state_dict(state)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        squares = images[:, 0].unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2)
        return self.classifier(squares).logits


def network(layers: Sequence[tuple[Tensor, Tensor]], images: bool = False) -> nn.Module:
    """Return linear layers with these weights and biases, and a tanh between them."""
    modules: list[nn.Module] = [nn.Flatten()] * images
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({"weight": weight, "bias": bias})
        modules += [linear, nn.Tanh()]
    return nn.Sequential(*modules[:-1])


@_parts.part(
    "occlusion",
    "occlusion",
    rebuilds=("attentively.analysis.explanations:occlusion",),
)
def occlusion(candidate: object, thorough: bool = False) -> None:
    """Check the decrease of a label's probability for each occluded square."""
    _topic.examine("occlusion", candidate, thorough, tidy=_tensor)


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
    _topic.examine("total_variation", total_variation, thorough, tidy=_tensor)
    _topic.examine("shuffled", shuffled, thorough, tidy=_tensor)
    _topic.examine("permutation_test", permutation_test, thorough, tidy=_tensor)


# Part 3

Scene = Mapping[str, str]
Options = Mapping[str, list[str]]


class Studio:
    """Renders scenes: one row of pixels for each factor, whose brightness encodes the value."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def __call__(self, scene: Scene) -> Tensor:
        """Return the image of a scene that gives each factor a value."""
        for factor, values in self.options.items():
            if set(scene) != set(self.options) or scene[factor] not in values:
                raise ValueError(
                    f"scene={dict(scene)} must contain a value for each of {list(self.options)}"
                )
        places = [values.index(scene[factor]) for factor, values in self.options.items()]
        return torch.tensor([[[place / 4] * 3 for place in places]])

    def __repr__(self) -> str:
        return "a function that renders scenes"


class Follower:
    """A model that predicts a given class for each scene.

    Factors on which the class does not depend still change its logits slightly.
    """

    def __init__(self, options: Options, classes: Sequence[int], name: str) -> None:
        """Take the classes of all scenes, in the order of `itertools.product`."""
        found = torch.tensor(classes).reshape(*map(len, options.values()))
        self.predicted = nn.functional.one_hot(found, max(2, int(found.max()) + 1))
        self.name = name

    def __call__(self, images: Tensor) -> Tensor:
        """Return the logits (n, classes) of images (n, 1, height, width)."""
        places = (4 * images[:, 0, :, 0]).round().long()
        predicted = self.predicted[places.unbind(1)]
        return predicted * (1 + images.mean(dim=(1, 2, 3)).unsqueeze(-1))

    def __repr__(self) -> str:
        return self.name


WOLVES: Options = {
    "animal": ["husky", "wolf"],
    "ground": ["grass", "snow"],
    "collar": ["none", "red"],
}


@_parts.part("counterfactual audit", "flips", "smallest")
def audit(flips: object, smallest: object, thorough: bool = False) -> None:
    """Check which factors flip a model's prediction, alone and together."""
    _topic.examine("flips", flips, thorough)
    _topic.examine("smallest", smallest, thorough, tidy=_sets)


def _sets(found: object, inputs: Inputs) -> object:
    if not isinstance(found, list | tuple | set | frozenset):
        return found
    if not all(map(_is_set, found)):
        raise CheckFailed(
            "  smallest: Expected a list of sets of factors, such as [{'ground'}], but got "
            f"{show(found)}\n{describe(inputs)}"
        )
    if len({frozenset(each) for each in found}) < len(found):
        raise CheckFailed(
            "  smallest: The list contains a set twice. The factors of a set have no order, and "
            f"the set counts once, however many values flip the prediction.\n{describe(inputs)}\n"
            f"  got         {show(found)}"
        )
    return in_order(found)


def _is_set(value: object) -> bool:
    kinds = list, tuple, set, frozenset
    return isinstance(value, kinds) and all(isinstance(each, str) for each in value)


def in_order(sets: Iterable[Iterable[str]]) -> list[list[str]]:
    """Return sets of factors, and the factors of each, in an order that is always the same."""
    return sorted((sorted({*each}) for each in sets), key=lambda each: (len(each), each))


def studio() -> tuple[Studio, Options, list[dict[str, str]], list[Follower]]:
    """Return a renderer, its options, scenes with a spurious correlation, and three models."""
    pairs = (("wolf", "snow"), ("husky", "grass"))
    scenes = [
        {"animal": animal, "ground": ground, "collar": collar}
        for animal, ground in pairs
        for collar in WOLVES["collar"]
    ]
    detected = {"first": {"wolf"}, "second": {"snow"}, "third": {"wolf", "snow"}}
    models = []
    for name, words in detected.items():
        classes = [int(not words.isdisjoint(scene)) for scene in product(*WOLVES.values())]
        models.append(Follower(WOLVES, classes, name))
    options = {factor: [*values] for factor, values in WOLVES.items()}
    return Studio(WOLVES), options, scenes, models


# Part 4


@_parts.part(
    "adversarial weights",
    "jensen_shannon",
    "other_weights",
    rebuilds=("attentively.analysis.explanations:jensen_shannon",),
    refuses=("attentively.analysis.explanations:adversarial_weights",),
)
def other_weights(jensen_shannon: object, candidate: object, thorough: bool = False) -> None:
    """Check a divergence, and the most distant weights with the same prediction."""
    _topic.examine("jensen_shannon", jensen_shannon, thorough, explain=_no_number)
    recording = _topic.recording("other_weights", thorough)
    for recorded in open_call.new_cases("other_weights", recording.cases):
        _compare_weights(candidate, recorded, recording.diagnoses)
    open_call.once(_inside_the_classifier, candidate)


def _no_number(got: Any, recorded: Recorded) -> str:
    if plain_number(got) is None or not math.isnan(got):
        return ""
    return "The result is NaN. Where a distribution is 0, its term is 0: 0 · log 0 is defined as 0."


def _weights_of(candidate: object, inputs: Inputs) -> Tensor:
    answer = _tensor(call_twice(candidate, inputs), inputs)
    return expect_tensor(answer, inputs["weights"].shape, "the other weights", inputs)


def _compare_weights(candidate: object, recorded: Recorded, diagnoses: list[str]) -> None:
    """Compare properties: several weights may be equally distant, and nearly."""
    inputs = recorded.case.inputs
    found = _weights_of(candidate, inputs)
    wrong = _fault(found, **inputs) or _nearer(found, recorded, diagnoses)
    if wrong:
        raise CheckFailed(f"  {wrong}\n{describe(inputs)}\n  got         {show(found)}")


def _fault(found: Tensor, weights: Tensor, scores: Tensor) -> str:
    """Return why these are not other weights with the same logit; "" if they are."""
    if (found < -1e-5).any():
        return "A weight is negative. The logit must lie between the scores of the two words."
    if abs(float(found.sum()) - 1) > 1e-4:
        return f"The weights sum to {float(found.sum()):.4g}, but they must sum to 1."
    logit, got = float(weights @ scores), float(found @ scores)
    most = 1e-4 * (1 + float(scores.max() - scores.min()))
    if abs(logit - got) > most:
        why = ""
        exchanged = found.clone()
        two = (found > 1e-4).nonzero().flatten()
        exchanged[two] = found[two].flip(0)
        if (found > 1 - 1e-4).any():
            why = " A single word rarely has exactly this score; use a pair of words."
        elif len(two) == 2 and abs(logit - float(exchanged @ scores)) <= most:
            why = " The weights of the two words may be exchanged."
        elif torch.allclose(found.sort().values, weights.sort().values, atol=1e-4):
            why = " These are the given weights in another order."
        return f"These weights change the prediction: the logit is {got:.4g}, not {logit:.4g}.{why}"
    return ""


def _nearer(found: Tensor, recorded: Recorded, diagnoses: list[str]) -> str:
    """Return how much more distant the right weights are; "" if they are not."""
    weights, (farthest,) = recorded.case.inputs["weights"], recorded.expected.values()
    far, best = (float(explanations.jensen_shannon(weights, w)) for w in (found, farthest))
    if far >= best - 1e-3:
        return ""
    if far < 1e-6:
        return "These are the given weights. Return other weights with the same logit."
    why = "They are a mixture of several pairs of words; compare single pairs."
    if (found > 1e-4).sum() <= 2:
        why = "They belong to one pair of words; compare the divergence of all pairs."
    if float(farthest.max()) == 1 and (found < 1 - 1e-4).all():
        why = "One word has exactly this score, so it can receive all of the weight."
    for said, wrong in zip(diagnoses, recorded.wrong, strict=True):
        if wrong and all(equal(found, each) for each in wrong.values()):
            why = said
    return (
        f"These weights have the correct logit, but others are more distant: their divergence is "
        f"{far:.4g}, and the largest possible is {best:.4g}. {why}"
    )


def _inside_the_classifier(candidate: object) -> None:
    """Use the student's weights in the package's classifier: its prediction must not change."""
    model, ids = AttentiveClassifier(nn.Embedding(23, 6), 6, 2).eval(), torch.arange(5).unsqueeze(0)
    with torch.no_grad():
        keys, weights = model.read(model.embedding(ids)), model(ids).weights
        logits = model.output(keys[0])  # those of each word alone
        inputs = {"weights": weights[0], "scores": logits[:, 1] - logits[:, 0]}
        other = _weights_of(candidate, inputs).unsqueeze(0)
        before, after = (model.judge(keys, each).softmax(-1) for each in (weights, other))
    expect_equal(after, before, "the prediction of the package's classifier", inputs)


# Part 5


class Reader:
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


VALUES = {"good": 6.0, "wonderful": 9.0, "bad": -6.0, "dull": -8.0, "warm": 4.0, "slow": -3.0}
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


def readers() -> dict[str, Reader]:
    """Return three models with the same predictions and different explanations."""
    return {
        "first": Reader("first", VALUES, _MEANING),
        "second": Reader("second", VALUES, _MEANING, shown=_STYLE),
        "third": Reader("third", VALUES, _MEANING, shown={"not": 3.0, **_MEANING}),
    }


def reviews() -> list[list[str]]:
    """Return texts, each a list of words."""
    return [text.split() for text in _REVIEWS]


@_parts.part("erasure test", "erased", "exposed")
def forger(erased: object, exposed: object, thorough: bool = False) -> None:
    """Check the decrease without the words of largest weight, and which models it exposes."""
    _topic.examine("erased", erased, thorough)
    _topic.examine("exposed", exposed, thorough, tidy=_in_order, explain=_no_names)


def _in_order(names: object, inputs: Inputs) -> object:
    if isinstance(names, list | tuple | set | frozenset | dict):
        return sorted(names, key=str)
    return names


def _no_names(got: Any, recorded: Recorded) -> str:
    names = isinstance(got, list) and all(isinstance(each, str) for each in got)
    return "" if names else "Return a list of names."
