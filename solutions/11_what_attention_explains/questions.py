"""What attention explains as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. The
weights of part 4 are examined by code in `attentively.checks.what_attention_explains`.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median  # noqa: F401  for the edits
from typing import Any

import torch
from torch import Tensor, nn

from attentively.checks import what_attention_explains as checks
from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question, cases_of
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models.attentive_classifier import AttentiveClassifier, SquareEncoder


def layers_of(*sizes: int, scale: float = 1.0) -> list[tuple[Tensor, Tensor]]:
    """Draw the weights and biases of linear layers."""
    return [
        (scale * torch.randn(size, before), scale * torch.randn(size))
        for before, size in itertools.pairwise(sizes)
    ]


def sharpened(model: AttentiveClassifier) -> AttentiveClassifier:
    """Scale the parameters of an untrained classifier, so that its predictions differ clearly."""
    model.load_state_dict({name: 2 * each for name, each in model.state_dict().items()})
    return model.eval()


# Part 1


def occlusion(model, image, label, cell, fill):
    def probability(pixels):
        return model(pixels.unsqueeze(0)).softmax(dim=-1)[0, label]

    rows, columns = image.size(1) // cell, image.size(2) // cell
    found = torch.zeros(rows, columns)
    before = probability(image)
    for row in range(rows):
        for column in range(columns):
            top, left = row * cell, column * cell
            occluded = image.clone()
            occluded[:, top : top + cell, left : left + cell] = fill
            after = probability(occluded)
            found[row, column] = before - after
    return found


def occlusion_cases(thorough: bool) -> Iterator[Case]:
    # Height, width, classes, label, cell, fill.
    sizes = [(2, 3, 3, 1, 1, 0.25), (4, 4, 3, 0, 2, 0.5), (2, 6, 3, 2, 2, -1.0)]
    sizes += [(9, 6, 5, 0, 3, 0.5), (9, 6, 5, 3, 3, 0.5)]
    names = ("model", "image", "label", "cell", "fill")

    def of_size(height: int, width: int, classes: int, *rest: float) -> Iterator[Case]:
        layers = layers_of(height * width, 5, classes)
        layers[-1][1].add_(100 * (classes == 5))  # the exponentials of such logits overflow
        given = {"layers": layers, "images": True}
        model = Fresh(checks.network, given, f"a model with {classes} classes")
        return cases_of(names, [(model, torch.rand(1, height, width), *rest)])

    for each in sizes:
        yield from of_size(*each)
    state = sharpened(AttentiveClassifier(SquareEncoder(6), 6, 2)).state_dict()
    model = Fresh(checks.OnSquares, {"state": state}, "the package's classifier of images")
    image = torch.rand(1, 8, 8)
    yield from cases_of(names, [(model, image, label, 2, 0.0) for label in (0, 1)])
    for each in [(5, 7, 2, 1, 1, 0.25), (14, 21, 7, 4, 7, 1.0), (3, 3, 3, 2, 3, 0.0)] * thorough:
        yield from of_size(*each)


SOFTMAX = "model(pixels.unsqueeze(0)).softmax(dim=-1)[0, label]"
DECREASE = "found[row, column] = before - after"
SQUARE = "[:, top : top + cell, left : left + cell]"

OCCLUSION = Question(
    occlusion,
    {"the map": "The map has one value for each square: (height / cell, width / cell)."},
    occlusion_cases,
    {
        "The values are differences of logits. Apply the softmax first: the map contains "
        "differences of probabilities.": f"{SOFTMAX} -> model(pixels.unsqueeze(0))[0, label]",
        "The sign is reversed. Subtract the probability with the square occluded from the "
        "probability of the whole image: a square that supports the label has a positive value.": (
            "before - after -> after - before"
        ),
        "The negative values are missing: absolute values were taken, or the values were clamped "
        "at 0. A square may also be evidence against the label.": [
            f"{DECREASE} -> found[row, column] = (before - after).abs()",
            f"{DECREASE} -> found[row, column] = (before - after).clamp(min=0)",
        ],
        "This is a relative decrease, or a decrease of the logarithm. Return the difference of "
        "the two probabilities.": [
            f"{DECREASE} -> found[row, column] = (before - after) / before",
            f"{DECREASE} -> found[row, column] = before.log() - after.log()",
        ],
        "These are the probabilities with a square occluded. Subtract them from the probability "
        "of the whole image.": "before - after -> after",
        "Everything except the square is occluded. Occlude only the square.": (
            "image.clone() -> torch.full_like(image, fill)",
            f"{SQUARE} = fill -> {SQUARE} = image{SQUARE}",
        ),
        "Squares occluded earlier are still occluded. Start with a new copy of the image for "
        "each square: image.clone().": (
            "= image.clone() -> = occluded if row + column else image.clone()"
        ),
        "The squares are filled with 0 instead of the value of fill.": "= fill -> = 0.0",
        "The exponentials of large logits overflow. Use softmax, or subtract the maximum from the "
        "logits first.": (
            f"return {SOFTMAX} -> exponentials = model(pixels.unsqueeze(0)).exp()\n"
            "        return exponentials[0, label] / exponentials.sum()"
        ),
        "This is the probability of the most probable class, which may change with the occluded "
        "square. Use the probability of the given label.": "[0, label] -> .max()",
        "This explains the predicted class instead of the given label. The label may be a class "
        "that the model does not predict.": (
            "rows, columns = -> label = int(model(image[None]).argmax())\n    rows, columns ="
        ),
        "A sigmoid is applied to the logits, so the probabilities do not sum to 1 over the "
        "classes. Use the softmax.": "softmax(dim=-1) -> sigmoid()",
        "fill is added to the pixels of the square. Set the pixels to fill.": "= fill -> += fill",
        "The map is 0: no pixel is changed, or the probability is not computed for the occluded "
        "copy.": ("probability(occluded) -> probability(image)"),
        "Only one pixel of each square is occluded. Occlude cell × cell pixels.": (
            f"{SQUARE} -> [:, top, left]"
        ),
        "The squares overlap: each begins one pixel after the one before. It must begin cell "
        "pixels after it.": "top, left = row * cell, column * cell -> top, left = row, column",
        "The squares are one pixel too large. Slices exclude their end.": (
            f"{SQUARE} -> [:, top : top + cell + 1, left : left + cell + 1]"
        ),
        "The values are in column order. Fill the map row by row, from left to right.": (
            "return found -> return found.T.reshape(found.shape)"
        ),
        "The map is transposed: rows and columns are exchanged.": "return found -> return found.T",
    },
)


# Part 2


def total_variation(p, q):
    differences = (p - q).abs()
    return differences.sum(dim=-1) / 2


def distributions(number: int, classes: int) -> tuple[Tensor, Tensor]:
    p, q = (2 * torch.randn(2, number, classes)).softmax(dim=-1)
    return p, q


def variation_cases(thorough: bool) -> Iterator[Case]:
    by_hand = torch.tensor([[0.35, 0.45, 0.1, 0.1]]), torch.tensor([[0.05, 0.35, 0.35, 0.25]])
    sizes = [(2, 3), (3, 5), (5, 2), *[(7, 11), (1, 13)] * thorough]
    yield from cases_of(("p", "q"), [by_hand, *(distributions(*each) for each in sizes)])


VARIATION = "differences.sum(dim=-1) / 2"

TOTAL_VARIATION = Question(
    total_variation,
    {"the total variation": ""},
    variation_cases,
    {
        "The sum is not halved. Probability that one class loses is gained by another and must be "
        "counted once.": f"{VARIATION} -> differences.sum(dim=-1)",
        "This is the mean over the classes. Return half the sum.": (
            f"{VARIATION} -> differences.mean(dim=-1)"
        ),
        "Differences with opposite signs cancel. Take absolute values before the sum.": (
            "(p - q).abs() -> p - q"
        ),
        "The differences are squared. Take absolute values.": [
            f"{VARIATION} -> differences.square().sum(dim=-1) / 2",
            f"{VARIATION} -> differences.square().sum(dim=-1)",
            f"{VARIATION} -> differences.norm(dim=-1)",
            f"{VARIATION} -> differences.norm(dim=-1) / 2",
        ],
        "This is the largest difference of a single class. Return half the sum over all classes.": (
            f"{VARIATION} -> differences.amax(dim=-1)"
        ),
        "The texts of the batch are summed or averaged. Return one distance for each text.": [
            f"{VARIATION} -> differences.sum() / 2",
            f"{VARIATION} -> differences.sum(dim=-1).mean() / 2",
        ],
        "This is a Kullback–Leibler divergence. Return half the sum of the absolute differences.": [
            f"{VARIATION} -> (p * (p / q).log()).sum(dim=-1)",
            f"{VARIATION} -> (q * (q / p).log()).sum(dim=-1)",
        ],
    },
    named=True,
)


def shuffled(weights, mask, order):
    new = torch.zeros_like(weights)
    for text, real in enumerate(mask):
        source = order[real[order]]
        new[text, real] = weights[text, source]
    return new


def mask_of(lengths: Sequence[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def weights_of(mask: Tensor) -> Tensor:
    return torch.randn(mask.shape).masked_fill(~mask, -math.inf).softmax(dim=-1)


def order_of(mask: Tensor) -> Tensor:
    """Return an order in which padding, if there is any, precedes a word."""
    while True:
        order = torch.randperm(mask.size(1))
        if mask.all() or not mask[mask.sum(dim=1).argmin()][order[0]]:
            return order


LENGTHS = [[4, 3], [3, 5, 2], [7, 1, 5]]
FURTHER_LENGTHS = [[11], [2, 13, 7, 13]]


def shuffle_cases(thorough: bool) -> Iterator[Case]:
    names, first = ("weights", "mask", "order"), torch.tensor([1, 2, 0])
    yield Case(dict(zip(names, (weights_of(mask_of([3])), mask_of([3]), first), strict=True)))
    masks = [mask_of(each) for each in LENGTHS]
    masks.append(mask_of([4, 2, 3]).flip(1))  # padding in front
    yield from cases_of(names, [(weights_of(mask), mask, order_of(mask)) for mask in masks])
    yield from cases_of(names, [(torch.tensor([[0.5, 0.5, 0.0]]), mask_of([3]), first)])
    masks = [mask_of(each) for each in FURTHER_LENGTHS * thorough]
    yield from cases_of(names, [(weights_of(mask), mask, order_of(mask)) for mask in masks])


DEALT = "new[text, real] = weights[text, source]"

SHUFFLED = Question(
    shuffled,
    {"the permuted weights": ""},
    shuffle_cases,
    {
        "The permutation is inverted. The first word receives the weight of the word that order "
        "lists first; here the word that order lists first receives the weight of the first "
        "word.": f"{DEALT} -> new[text, source] = weights[text, real]",
        "Padding takes part in the permutation, so that some of the weight is lost to it. Skip the "
        "positions where the mask is False.": [
            "return new -> return weights[:, order]",
            "return new -> return weights[:, order] * mask",
        ],
        "The words of a text receive the weights of another text of the batch.": (
            f"{DEALT} -> new[text, real] = weights[-1 - text, source]",
            "return new -> return new * mask",
        ),
        "The code assumes that the words are at the first positions of a text. Padding may precede "
        "them; use the mask.": [
            "enumerate(mask) -> enumerate(mask.sort(dim=1, descending=True).values)",
            f"{DEALT} -> new[text, : len(source)] = weights[text, source]",
            "order[real[order]] -> order[order < real.sum()]",
        ],
        "Padding takes part in the permutation, and the weights are normalised again afterwards. "
        "Skip the positions where the mask is False.": (
            "return new -> new = weights[:, order] * mask\n"
            "    return new / new.sum(dim=1, keepdim=True)"
        ),
        "Positions with weight 0 are treated as padding. A word may have the weight 0; use the "
        "mask.": "enumerate(mask) -> enumerate(weights > 0)",
        "The weights are unchanged.": "return new -> return weights",
        "A second softmax changes the values. Permute the weights without changing them.": (
            "return new -> return new.masked_fill(~mask, -math.inf).softmax(dim=-1)"
        ),
    },
    named=True,
)


def permutation_test(values, weights, mask, classify, orders):
    def distribution(used):
        context = torch.einsum("bp,bpd->bd", used, values)
        return classify(context).softmax(dim=-1)

    own = distribution(weights)
    permuted = [shuffled(weights, mask, order) for order in orders]
    distances = torch.stack([total_variation(own, distribution(each)) for each in permuted])
    return distances.median(dim=0).values


def permutation_cases(thorough: bool) -> Iterator[Case]:
    names = ("values", "weights", "mask", "classify", "orders")

    def linear(*layer: Tensor) -> Fresh:
        classes, dim = layer[0].shape
        text = f"a linear layer from dimension {dim} to {classes}"
        return Fresh(checks.network, {"layers": [layer]}, text)

    weights = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.7, 0.2]])
    orders = torch.tensor([[0, 2, 1], [2, 1, 0], [1, 0, 2]])
    identity, mask = torch.eye(3), mask_of([3, 3])
    tripled = linear(3 * identity, torch.zeros(3))
    yield Case(
        dict(zip(names, (identity.repeat(2, 1, 1), weights, mask, tripled, orders), strict=True))
    )

    def orders_of(number: int, mask: Tensor) -> Tensor:
        return torch.stack([torch.randperm(mask.size(1)) for _ in range(number)])

    def of_lengths(lengths: list[int], number: int, is_linear: bool) -> Iterator[Case]:
        mask, classes = mask_of(lengths), 2 + number % 3
        if is_linear:
            classify = linear(*layers_of(3, classes, scale=4.0)[0])
        else:
            layers = layers_of(3, 5, classes, scale=1.5)
            classify = Fresh(checks.network, {"layers": layers}, "a small nonlinear network")
        values, orders = torch.randn(*mask.shape, 3), orders_of(number, mask)
        return cases_of(names, [(values, weights_of(mask), mask, classify, orders)])

    for lengths, number, is_linear in zip(LENGTHS, (3, 7, 5), (True, False, True), strict=True):
        yield from of_lengths(lengths, number, is_linear)
    reader = BidirectionalEncoder(6, 3)
    model = sharpened(AttentiveClassifier(nn.Embedding(23, 6), 6, 2, reader=reader))
    mask = mask_of([5, 2, 7])
    ids = torch.randint(23, mask.shape)
    with torch.no_grad():
        keys, weights = model.read(model.embedding(ids), mask), model(ids, mask).weights
    output = linear(model.output.weight.detach(), model.output.bias.detach())
    yield from cases_of(names, [(keys, weights, mask, output, orders_of(5, mask))])
    for number, lengths in zip((9, 1), FURTHER_LENGTHS * thorough, strict=False):
        yield from of_lengths(lengths, number, number == 1)


MEDIAN = "distances.median(dim=0).values"
EACH_PERMUTED = "shuffled(weights, mask, order) for"

PERMUTATION_TEST = Question(
    permutation_test,
    {
        "the medians": "There is one median for each text; .median(dim=0) returns indices too: use "
        ".values."
    },
    permutation_cases,
    {
        "classify is applied to each value, and the logits are averaged. Apply classify to the "
        "weighted sum of the values.": (
            'einsum("bp,bpd->bd", used, values) -> einsum("bp,bpd->bd", used, classify(values))',
            "classify(context) -> context",
        ),
        "The values are permuted together with their weights, so the weighted sum cannot change. "
        "Permute only the weights.": f"{EACH_PERMUTED} -> weights for",
        "Each order is applied to the result of the previous one. Apply each order to the model's "
        "own weights.": (
            "permuted = [ -> permuted = list(itertools.accumulate(orders, lambda dealt, order: "
            "shuffled(dealt, mask, order), initial=weights))[1:] or ["
        ),
        "The values are averaged, and the sum of the weights is divided by the number of "
        "positions. The context is the weighted sum.": (
            '"bp,bpd->bd", used, values) -> "bp,bpd->bd", used, values) / values.size(1)'
        ),
        "Only one of the orders is used, the first or that in the middle. Return the median over "
        "all orders.": [f"{MEDIAN} -> distances[{place}]" for place in ("0", "len(orders) // 2")],
        "The distance to the median of the permuted distributions is returned. Compute a distance "
        "for each order, and then the median of the distances.": (
            f"return {MEDIAN} -> return total_variation(own, "
            "torch.stack([distribution(each) for each in permuted]).median(dim=0).values)"
        ),
        "The weights are compared with uniform ones. Compare with the prediction of the model's "
        "own weights.": (
            "own = distribution(weights) -> own = distribution(mask / mask.sum(1, keepdim=True))"
        ),
        "This is the mean over the orders. Return the median.": (
            f"{MEDIAN} -> distances.mean(dim=0)"
        ),
        "This is the maximum or the minimum over the orders. Return the median.": [
            f"{MEDIAN} -> distances.amax(dim=0)",
            f"{MEDIAN} -> distances.amin(dim=0)",
        ],
        "The softmax normalises over the texts. It must normalise over the classes, the last "
        "dimension.": "softmax(dim=-1) -> softmax(dim=0)",
        "The median is taken over the whole batch. Return one median for each text.": (
            f"{MEDIAN} -> distances.median()"
        ),
        "The median is taken over the texts, for each order. Take it over the orders, for each "
        "text.": f"{MEDIAN} -> distances.median(dim=1).values",
        "These are distances between logits. Apply the softmax first.": ".softmax(dim=-1) -> ",
        "This is the share of orders that change the predicted class. Return the median distance "
        "between the distributions.": (
            "total_variation(own, distribution(each)) -> "
            "(own.argmax(dim=-1) != distribution(each).argmax(dim=-1)).float()",
            f"{MEDIAN} -> distances.mean(dim=0)",
        ),
        "Padding takes part in the permutation. Use shuffled with the mask.": [
            f"{EACH_PERMUTED} -> weights[:, order] for",
            f"{EACH_PERMUTED} -> weights[:, order] * mask for",
        ],
    },
    named=True,
    in_all_cases=True,
)


# Part 3

Scene = dict[str, str]
Rule = Callable[[Scene], object]


def predicted(model, render, scene):
    return model(render(scene).unsqueeze(0)).argmax().item()


def changed(scene, factors, options):
    """Return every scene in which exactly these factors have another value."""
    others = [[value for value in options[f] if value != scene[f]] for f in factors]
    return [scene | dict(zip(factors, v, strict=True)) for v in itertools.product(*others)]


def flips(model, render, options, scenes):
    shares = {}
    for factor in options:
        found = []
        for scene in scenes:
            own = predicted(model, render, scene)
            copies = changed(scene, [factor], options)
            found.append([predicted(model, render, copy) != own for copy in copies])
        shares[factor] = sum(map(sum, found)) / sum(map(len, found))
    return shares


MORE = {
    "animal": ["husky", "wolf"],
    "ground": ["grass", "sand", "snow"],
    "light": ["day", "dusk"],
    "collar": ["none", "blue", "red"],
}
DRESSED = {"animal": ["husky", "wolf"], "collar": ["none", "red"], "leash": ["none", "red"]}


def has(scene: Scene, *values: str) -> int:
    return sum(each in values for each in scene.values())


# What a model detects, the options, and the rule.
RULES: list[tuple[str, Mapping[str, list[str]], Rule]] = [
    ("a wolf or snow", checks.WOLVES, lambda s: has(s, "wolf", "snow") > 0),
    ("a red collar", DRESSED, lambda s: s["collar"] == "red"),
    ("a wolf on sand", MORE, lambda s: has(s, "wolf", "sand") == 2),
    ("the ground and the collar", MORE, lambda s: (s["ground"], s["collar"])),
    ("two of wolf, snow, dusk", MORE, lambda s: has(s, "wolf", "snow", "dusk") > 1),
    ("a wolf, snow, dusk or red", MORE, lambda s: has(s, "wolf", "snow", "dusk", "red") > 0),
    ("dusk, or wolf and snow", MORE, lambda s: 2 * has(s, "dusk") + has(s, "wolf", "snow") > 1),
    ("nothing", checks.WOLVES, lambda s: 0),
]
FURTHER_RULES: list[tuple[str, Mapping[str, list[str]], Rule]] = [
    ("a wolf or dusk, not both", MORE, lambda s: has(s, "wolf", "dusk") == 1),
    ("a blue collar", MORE, lambda s: has(s, "blue")),
]
THREE_SCENES = [
    {"animal": animal, "ground": ground, "collar": "none"}
    for animal, ground in (("wolf", "snow"), ("husky", "grass"), ("husky", "snow"))
]


def all_scenes(options: Mapping[str, list[str]]) -> list[Scene]:
    return [
        dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())
    ]


def some_scenes(options: Mapping[str, list[str]], number: int) -> list[Scene]:
    """Draw scenes, of which no two are the same."""
    every = all_scenes(options)
    return [every[place] for place in torch.randperm(len(every))[:number].tolist()]


def of_rule(name: str, options: Mapping[str, list[str]], rule: Rule) -> dict[str, Any]:
    """Return a model that follows a rule, with its renderer and options."""
    said = [str(rule(scene)) for scene in all_scenes(options)]
    classes = [sorted({*said}).index(each) for each in said]
    given = {"options": options, "classes": classes, "name": f"a model that detects {name}"}
    render = Fresh(checks.Studio, {"options": options})
    return {"model": Fresh(checks.Follower, given), "render": render, "options": dict(options)}


def flip_cases(thorough: bool) -> Iterator[Case]:
    yield Case({**of_rule(*RULES[0]), "scenes": THREE_SCENES})
    for rule in [*RULES[1:5], RULES[6]] + FURTHER_RULES * thorough:
        yield Case({**of_rule(*rule), "scenes": some_scenes(rule[1], 4)})
    yield Case({**of_rule(*RULES[0]), "scenes": [*THREE_SCENES, THREE_SCENES[0]]})


def left_changed(model, render, options, scenes):
    counts = {factor: [] for factor in options}
    for scene in scenes:
        own, moving = predicted(model, render, scene), dict(scene)
        for factor, values in options.items():
            for value in values:
                if value != scene[factor]:
                    moving[factor] = value
                    counts[factor].append(predicted(model, render, moving) != own)
    return {factor: fmean(flipped) for factor, flipped in counts.items()}


def as_it_comes(model, render, options, scenes):
    """Compare scenes of the data that differ in a factor, and possibly in other factors."""
    said = [(scene, predicted(model, render, scene)) for scene in scenes]
    found = {}
    for factor in options:
        pairs = [
            own != other
            for (one, own), (two, other) in itertools.combinations(said, 2)
            if one[factor] != two[factor]
        ]
        found[factor] = fmean(pairs or [0])
    return found


SHARE = "sum(map(sum, found)) / sum(map(len, found))"
COPIES = "changed(scene, [factor], options)"
OWN = "predicted(model, render, scene)"

FLIPS = Question(
    flips,
    {"flips": ""},
    flip_cases,
    {
        "This is the share of scenes with at least one copy that flips the prediction. Return the "
        "share of copies.": f"{SHARE} -> fmean(map(any, found))",
        "This is the share of scenes in which every copy flips the prediction. Return the share of "
        "copies.": f"{SHARE} -> fmean(map(all, found))",
        "This is the share of copies that leave the prediction unchanged. Return the share of "
        "those that flip it.": f"{SHARE} -> 1 - {SHARE}",
        "The denominator is wrong. Divide by the number of all copies; a scene has one copy for "
        "each other value.": [
            f"{SHARE} -> sum(map(sum, found))",
            f"{SHARE} -> sum(map(sum, found)) / len(found)",
        ],
        "The scene itself is counted among its copies. Make copies only with *other* values.": (
            f"{COPIES} -> [scene | {{factor: value}} for value in options[factor]]"
        ),
        "These are percentages. Return shares from 0 to 1.": f"{SHARE} -> 100 * {SHARE}",
        "The shares are rounded down, as by //. Divide with /.": f"{SHARE} -> {SHARE} // 1",
        "Factors that flip no prediction are missing. Their share is 0.": (
            "return shares -> return {name: share for name, share in shares.items() if share}"
        ),
        "The copies of earlier factors are counted again. Start with no copies for each factor.": (
            "shares = {} -> shares, found = {}, []",
            "        found = []\n -> ",
        ),
        "Only one other value is tested for each scene. Make a copy for each other value.": [
            f"{COPIES} -> {COPIES}[:1]",
            f"{COPIES} -> {COPIES}[-1:]",
        ],
        "All factors except this one are changed. Change only this one.": (
            "changed(scene, [factor], -> changed(scene, [f for f in options if f != factor],"
        ),
        "Earlier changes are still present in later copies. Start each copy from the scene itself: "
        "dict(scene).": left_changed,
        "This compares scenes of the data with each other. Scenes that differ in this factor may "
        "differ in other factors too, so this measures a correlation in the data and not what the "
        "model uses. Change the factor yourself.": as_it_comes,
        "Every copy is compared with the prediction for the first scene. Compare it with the "
        "prediction for the scene that it was made from.": (
            f"own = {OWN} -> own = predicted(model, render, scenes[0])"
        ),
        "Any change of the logits is counted. The prediction is flipped only if another class has "
        "the largest logit.": (
            f"own = {OWN} -> own = model(render(scene).unsqueeze(0)).tolist()",
            "predicted(model, render, copy) != own -> "
            "model(render(copy).unsqueeze(0)).tolist() != own",
        ),
        "Copies that are equal, or scenes that occur twice, are counted once. All copies of all "
        "scenes count equally.": [
            "for scene in scenes: -> for scene in [s for i, s in enumerate(scenes) "
            "if s not in scenes[:i]]:",
            "return shares -> return of_different_copies(model, render, options, scenes)",
        ],
    },
    named=True,
    in_all_cases=True,
)


def of_different_copies(model, render, options, scenes):
    shares = {}
    for factor in options:
        flipped = {
            tuple(copy.values()): predicted(model, render, copy) != predicted(model, render, scene)
            for scene in scenes
            for copy in changed(scene, [factor], options)
        }
        shares[factor] = fmean(flipped.values())
    return shares


def smallest(model, render, options, scene):
    own = predicted(model, render, scene)

    def can_flip(factors):
        copies = changed(scene, factors, options)
        return any(predicted(model, render, copy) != own for copy in copies)

    sizes = range(1, len(options) + 1)
    sets = [{*each} for size in sizes for each in itertools.combinations(options, size)]
    flipping = [each for each in sets if can_flip(each)]
    return [each for each in flipping if len(each) == len(flipping[0])]


def smallest_cases(thorough: bool) -> Iterator[Case]:
    for rule in RULES + FURTHER_RULES * thorough:
        scenes = all_scenes(rule[1])
        middle = some_scenes(MORE, 1) if rule[1] is MORE else []
        for scene in [scenes[0], scenes[-1], *middle]:
            yield Case({**of_rule(*rule), "scene": scene})


FEWEST = "len(each) == len(flipping[0])"

SMALLEST = Question(
    smallest,
    {"smallest": ""},
    smallest_cases,
    {
        "Only one other value is tested for each factor. Test every combination of other values.": [
            f"changed(scene, factors, options) -> changed(scene, factors, options)[{one}]"
            for one in (":1", "-1:")
        ],
        "The code requires that every combination of other values flips the prediction. One "
        "combination is enough.": "return any( -> return all(",
        "Larger sets are not tested. If no set of one size flips the prediction, test all sets of "
        "the next size, up to the set of all factors.": [
            f"{FEWEST} -> {FEWEST} < {size}" for size in (2, 3, 4)
        ],
        "The list also contains larger sets. Stop at the first size with a set that flips the "
        "prediction.": f" if {FEWEST} -> ",
        "These are all sets of which no subset flips the prediction. Return only those with the "
        "smallest number of factors.": f"{FEWEST} -> not any(other < each for other in flipping)",
        "This is only one of the sets. Return all sets of the smallest size.": [
            f"{FEWEST}] -> {FEWEST}][:1]",
            f"{FEWEST}] -> {FEWEST}][-1:]",
        ],
        "The values are paired with zip. Test every combination of other values, as "
        "itertools.product lists them.": (
            "copies = changed(scene, factors, options) -> names, copies = [*factors], "
            "[scene | dict(zip(factors, v)) for v in zip(*([value for value in options[f] "
            "if value != scene[f]] for f in factors))]"
        ),
        "These are factors that do not flip the prediction. Return those that do.": (
            f"for each in flipping if {FEWEST} -> "
            "for each in sets if len(each) == 1 and each not in flipping"
        ),
    },
    named=True,
    tidy=checks.in_order,
    in_all_cases=True,
)


# Part 4


def kullback_leibler(p, q):
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum().item()


def jensen_shannon(p, q):
    mean = (p + q) / 2
    first, second = kullback_leibler(p, mean), kullback_leibler(q, mean)
    return (first + second) / 2


def two_distributions(size: int) -> list[Tensor]:
    return [*(2 * torch.randn(2, size, dtype=torch.float64)).softmax(dim=-1).float()]


def divergence_cases(thorough: bool) -> Iterator[Case]:
    by_hand = [torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.25, 0.5])]
    half = [torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.0, 0.625, 0.375])]
    apart = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]
    unseen = [torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.75, 0.0])]
    sizes = (3, 5, 7, *(2, 11, 13) * thorough)
    pairs = [by_hand, half, apart, unseen, *map(two_distributions, sizes)]
    yield from cases_of(("p", "q"), pairs)


HALVED = "(first + second) / 2"

JENSEN_SHANNON = Question(
    jensen_shannon,
    {
        "the divergence": "It is half the sum of two divergences, of p and of q from "
        "m = ½ (p + q). Terms with p_i = 0 or q_i = 0 are 0."
    },
    divergence_cases,
    {
        "The two divergences are added without the factor ½.": f"{HALVED} -> first + second",
        "m is p + q. It must be half of it.": "(p + q) / 2 -> p + q",
        "The sign is reversed. The divergence is never negative.": f"{HALVED} -> -{HALVED}",
        "The terms are averaged over the words. Sum them.": f"{HALVED} -> {HALVED} / len(p)",
        "This is the square root of the divergence (SciPy's jensenshannon returns it as a "
        "distance). Return the divergence.": f"{HALVED} -> math.sqrt({HALVED})",
        "The logarithm has base 2. Use the natural logarithm.": (
            f"{HALVED} -> {HALVED} / math.log(2)"
        ),
        "This is a Kullback–Leibler divergence between p and q. Compare each of them with their "
        "mean m.": [
            f"{HALVED} -> kullback_leibler(p, q)",
            f"{HALVED} -> kullback_leibler(q, p)",
            f"{HALVED} -> (kullback_leibler(p, q) + kullback_leibler(q, p)) / 2",
        ],
        "Only one of the two distributions is compared with the mean m.": [
            f"{HALVED} -> {one}" for one in ("first", "second", "first / 2", "second / 2")
        ],
        "This is the total variation distance.": f"{HALVED} -> (p - q).abs().sum().item() / 2",
        "All terms of a word are left out where p or q is 0. Only the term of the distribution "
        "that is 0 must be left out.": "mean = -> p, q = p[p * q > 0], q[p * q > 0]\n    mean =",
    },
    named=True,
)


def other_weights(weights, scores):
    logit = weights @ scores
    vertices = []
    for low, high in itertools.permutations(range(len(scores)), 2):
        if scores[low] <= logit <= scores[high] and scores[low] < scores[high]:
            vertex = torch.zeros_like(weights)
            vertex[high] = (logit - scores[low]) / (scores[high] - scores[low])
            vertex[low] = 1 - vertex[high]
            vertices.append(vertex)
    return max(vertices, key=lambda vertex: jensen_shannon(weights, vertex))


def weights_cases(thorough: bool) -> Iterator[Case]:
    texts = [(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([1.0, 2.0, -2.0]))]
    for size in (3, 3, 4, 5, 5, 7, 7, *(11, 13, 3, 6) * thorough):
        texts.append((two_distributions(size)[0], 2 * torch.randn(size)))
    # Two words have the score that is the logit, one of them with the weight 0. Then words with the
    # highest or the lowest score have all the weight: three words, and a single one.
    texts.append((torch.tensor([0.375, 0.25, 0.375, 0.0]), torch.tensor([1.0, 2.0, 3.0, 2.0])))
    for sign in (1, -1):
        scores = sign * torch.tensor([2.0, 2.0, 2.0, 1.0])
        texts.append((torch.tensor([0.75, 0.25, 0.0, 0.0]), scores))
    texts.append((torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1.0, 2.0, -2.0])))
    # The most distant weights by the total variation, or by another divergence, are others.
    texts.append((torch.tensor([0.3, 0.1, 0.3, 0.3]), torch.tensor([3.0, 2.0, 1.0, -1.0])))
    texts.append((torch.tensor([0.15, 0.1, 0.35, 0.4]), torch.tensor([1.0, -1.0, 4.0, -3.0])))
    yield from cases_of(("weights", "scores"), texts)


OTHER_WEIGHTS = Question(
    other_weights,
    {"the other weights": ""},
    weights_cases,
    {
        "They maximise the total variation distance; maximise the divergence.": (
            "jensen_shannon -> total_variation"
        ),
        "They maximise a Kullback–Leibler divergence; maximise the Jensen–Shannon divergence.": (
            "jensen_shannon(weights, vertex) -> kullback_leibler(vertex, weights)"
        ),
    },
)


# Part 5


def erased(model, words, k):
    positive, weights = model(words)

    def decrease(positions):
        rest = [word for i, word in enumerate(words) if i not in positions]
        change = positive - model(rest)[0]
        return change if positive >= 0.5 else -change

    largest = sorted(range(len(words)), key=lambda i: -weights[i])[:k]
    sets = list(itertools.combinations(range(len(words)), k))
    first, second = decrease(largest), fmean(map(decrease, sets))
    return [first, second]


READERS = {name: Fresh(checks.Reader, vars(each)) for name, each in checks.readers().items()}
REVIEWS = checks.reviews()


def reader(name: str, shown: dict[str, float], **others: Any) -> Fresh:
    """Return a model with other weights."""
    return Fresh(checks.Reader, {**READERS["first"].given, "name": name, "shown": shown, **others})


EVEN = reader(
    "even", {"good": 1.0}, values={"good": 6.0, "bad": -6.0}, scores={"bad": 1 / 50}
)  # its probability for "good bad" is 0.5


def erasure_cases(thorough: bool) -> Iterator[Case]:
    first, second, third = READERS.values()
    texts = [["a", "good", "film"], ["a", "bad", "film"], *REVIEWS]
    asked = [(each, words, k) for words in texts for each in (first, second) for k in (1, 2)]
    asked += [(third, REVIEWS[3], 2), (first, REVIEWS[2], 3), (EVEN, ["good", "bad"], 1)]
    asked.append((first, ["good", "and", "not", "good"], 1))  # the second "good" weighs more
    asked += [(each, REVIEWS[n], 3) for n in (0, 4) for each in READERS.values()] * thorough
    yield from cases_of(("model", "words", "k"), asked)


def one_by_one(model, words, k):
    """Compute the weights again after each removed word."""
    places = list(range(len(words)))
    for _ in range(k):
        weights = model([words[place] for place in places])[1]
        del places[weights.index(max(weights))]
    return [place for place in range(len(words)) if place not in places]


def without_first(words, positions):
    """Remove the first occurrence of each word."""
    rest = list(words)
    for i in positions:
        rest.remove(words[i])
    return rest


REST = "[word for i, word in enumerate(words) if i not in positions]"
CHANGE = "change if positive >= 0.5 else -change"
ALL_SETS = "fmean(map(decrease, sets))"
TWO_VALUES = "return [first, second]"

ERASED = Question(
    erased,
    {"erased": ""},
    erasure_cases,
    {
        "A probability of exactly 0.5 must count as positive (at least 0.5).": ">= 0.5 -> > 0.5",
        "This is the decrease of the positive probability. If the prediction is negative, its "
        "probability is 1 minus that.": f"{CHANGE} -> change",
        "An absolute value was taken. If the prediction becomes more probable without some words, "
        "the decrease is negative.": f"{CHANGE} -> abs(change)",
        "The remaining text is scored with its own prediction. Use the prediction for the whole "
        "text, even if it is now the less probable one.": (
            f"{CHANGE} -> abs(positive - 0.5) - abs(model(rest)[0] - 0.5)"
        ),
        "The selected words are kept and all others removed. Remove the selected words.": (
            "i not in positions -> i in positions"
        ),
        "Other occurrences of a removed word are removed too. Remove positions, not words.": [
            "i not in positions -> word not in [words[i] for i in positions]",
            "first, second = decrease(largest) -> first, second = "
            "decrease([i for i, word in enumerate(words) if word in [words[i] for i in largest]])",
        ],
        "The first occurrence of a word is removed instead of the selected one. Remove positions, "
        "not words.": [
            f"{REST} -> without_first(words, positions)",
            "decrease(largest) -> decrease([words.index(words[i]) for i in largest])",
        ],
        "The words are replaced by blanks, which the model still receives. Pass the shorter "
        "text.": f"{REST} -> ['' if i in positions else word for i, word in enumerate(words)]",
        "The words with the *smallest* weights are removed.": "-weights[i] -> weights[i]",
        "The weights are computed again after each removed word. Select all k words by the weights "
        "of the whole text.": "decrease(largest) -> decrease(one_by_one(model, words, k))",
        "The sign is reversed. If the prediction becomes less probable, the decrease is "
        "positive.": f"{TWO_VALUES} -> return [-first, -second]",
        "This is a relative decrease. Return the difference of the two probabilities.": (
            f"{CHANGE} -> change / positive if positive >= 0.5 else -change / (1 - positive)"
        ),
        "This is the median over the sets. Return the mean.": (
            f"{ALL_SETS} -> median(map(decrease, sets))"
        ),
        "The chance level includes smaller sets. Take the mean over the sets of exactly k words.": (
            "sets = list(itertools.combinations(range(len(words)), k)) -> sets = [each for size in "
            "range(1, k + 1) for each in itertools.combinations(range(len(words)), size)]"
        ),
        "The remaining words are in another sequence. Keep that of the text.": (
            f"{REST} -> [words[i] for i in sorted(range(len(words)), key=lambda i: weights[i]) "
            "if i not in positions]"
        ),
        "The mean is taken over single words. Take it over all sets of k words.": (
            "combinations(range(len(words)), k) -> combinations(range(len(words)), 1)"
        ),
        "The mean excludes the set with the largest weights. Take it over all sets of k words.": (
            f"{ALL_SETS} -> fmean(decrease(each) for each in sets if {{*each}} != {{*largest}})"
        ),
        "The two values are exchanged. The first is the decrease without the k words with the "
        "largest weights.": f"{TWO_VALUES} -> return [second, first]",
    },
    named=True,
)


def exposed(models, texts, k):
    found = []
    for name, model in models.items():
        values = [erased(model, words, k) for words in texts]
        first, second = map(fmean, zip(*values, strict=True))
        if first <= second:
            found.append(name)
    return sorted(found)


def exposure_cases(thorough: bool) -> Iterator[Case]:
    more = {
        "fourth": reader("fourth", {"dull": 3.0, "the": 2.0, "wonderful": 1.0}),
        "fifth": reader("fifth", {"wonderful": 3.0, "film": 2.0, "good": 1.0}),
        "sixth": reader("sixth", {"slow": 3.0, "was": 2.0}),
        "seventh": reader("seventh", {"warm": 3.0, "it": 2.0}),
    }  # chosen so that means, counts, one text and every text expose different models
    unmoved = reader("eighth", checks.readers()["first"].shown, values={})  # depends on no word
    asked = [(READERS, REVIEWS, 1), (more, [REVIEWS[place] for place in (0, 2, 3)], 2)]
    asked.append(({**READERS, "eighth": unmoved}, REVIEWS[:2], 1))
    asked.append(({"fifth": more["fifth"]}, [["a", "good", "film"], REVIEWS[2]], 1))
    # Both are slightly better than chance, by their own chance levels only.
    dull, fifths = {"dull": 3.0}, {word: value / 5 for word, value in checks.VALUES.items()}
    both = {"ninth": reader("ninth", dull), "tenth": reader("tenth", dull, values=fifths)}
    asked.append((both, REVIEWS[:3], 2))
    if thorough:
        asked += [(READERS, REVIEWS[1:5], 2), ({"second": READERS["second"]}, REVIEWS, 3)]
    yield from cases_of(("models", "texts", "k"), asked)


RULE = "if first <= second:"

EXPOSED = Question(
    exposed,
    {"exposed": ""},
    exposure_cases,
    {
        "These are the models whose weights do better than chance. Return the others.": (
            f"{RULE} -> if first > second:"
        ),
        "The decrease is compared with 0. Removing any words may change the prediction; compare "
        "with the mean over all sets.": f"{RULE} -> if first <= 0:",
        "Texts are counted. Compare the means over all texts: one text with a large decrease may "
        "outweigh two others.": [
            f"{RULE} -> if sum(s <= c for s, c in values) * 2 {than} len(values):"
            for than in (">=", ">")
        ],
        "A model is returned only if it does no better than chance on every text. Compare the "
        "means over all texts.": f"{RULE} -> if all(s <= c for s, c in values):",
        "A model is returned because of a single text on which it does no better than chance. "
        "Compare the means over all texts.": f"{RULE} -> if any(s <= c for s, c in values):",
        "A model whose means are equal does no better than chance. Return it too.": (
            f"{RULE} -> if first < second:"
        ),
        "Only one word is removed, whatever k is.": "(model, words, k) -> (model, words, 1)",
        "Only one of the texts is used. Compare the means over all texts.": [
            f"in texts] -> in texts[{one}]]" for one in (":1", "-1:")
        ],
        "This is the model with the smallest mean decrease. Compare each model with its own chance "
        "level.": (
            f"{RULE} -> if first == min(fmean(erased(each, words, k)[0] for words in texts) "
            "for each in models.values()):"
        ),
        "Long texts count more, for example because the sets of all texts are pooled. Average over "
        "the sets of each text first, then over the texts.": (
            f"{RULE} -> sets = [math.comb(len(words), k) for words in texts]\n"
            "        if first <= fmean([c for _, c in values], sets):"
        ),
    },
    named=True,
    in_all_cases=True,
)


PARTS = {
    "occlusion": [OCCLUSION],
    "permutations": [TOTAL_VARIATION, SHUFFLED, PERMUTATION_TEST],
    "audit": [FLIPS, SMALLEST],
    "other_weights": [JENSEN_SHANNON, OTHER_WEIGHTS],
    "forger": [ERASED, EXPOSED],
}
"""The questions of each check, in the order of its arguments."""
