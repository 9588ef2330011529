"""Visual attention as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Of the
heat of part 6, one property after the other is compared.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  for the edits
from torch import Tensor

from attentively.checks import visual_attention as checks
from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question, cases_of
from attentively.checks.visual_attention import ACROSS, DOWN, Box

# Part 1


def keys_of(feature_map):
    flat = feature_map.flatten(2)
    return flat.transpose(1, 2)


def key_cases(thorough: bool) -> Iterator[Case]:
    small = torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[10.0, 20, 30], [40, 50, 60]]]])
    maps = [small, torch.randn(2, 3, 3, 3), torch.randn(2, 5, 3, 7)]
    maps.append(torch.randn(2, 3, 2, 5, requires_grad=True))
    if thorough:
        maps += [torch.randn(1, 7, 1, 5), torch.randn(5, 1, 7, 2), torch.randn(3, 2, 1, 1)]
    return cases_of(["feature_map"], [[each] for each in maps])


KEYS_RETURNED = "flat.transpose(1, 2)"
FROM_MIXED = "reshape(len(flat), -1, flat.size(1))"

KEYS = Question(
    keys_of,
    {"the keys": ""},
    key_cases,
    {
        "reshape alone does not change the order of the values, so each key mixes locations and "
        "channels. Flatten rows and columns first, then transpose.": (
            f"{KEYS_RETURNED} -> flat.{FROM_MIXED}"
        ),
        "The locations are ordered column by column. Order them row by row, from left to right: "
        "location = row · columns + column.": (
            "feature_map.flatten -> feature_map.transpose(2, 3).flatten"
        ),
        "The last two dimensions are exchanged. The keys have one row for each location and one "
        "column for each channel: transpose.": f"{KEYS_RETURNED} -> flat",
        "Rows and columns are still two dimensions. Attention needs one dimension for all "
        "locations.": [
            f"{KEYS_RETURNED} -> feature_map.permute(0, 2, 3, 1)",
            f"{KEYS_RETURNED} -> feature_map",
        ],
        "The images of the batch are mixed. Keep the batch as the first dimension.": [
            f"{KEYS_RETURNED} -> feature_map.permute(1, 0, 2, 3).{FROM_MIXED}",
            f"{KEYS_RETURNED} -> feature_map.permute(2, 3, 0, 1).{FROM_MIXED}",
        ],
    },
    named=True,
    either_precision=True,
)


def map_of(weights, rows):
    batch, words, locations = weights.shape
    columns = locations // rows
    return weights.reshape(batch, words, rows, columns)


def map_cases(thorough: bool) -> Iterator[Case]:
    asked = [(torch.arange(6.0).reshape(1, 1, 6), 2), (torch.randn(2, 3, 9), 3)]
    asked += [(torch.randn(2, 5, 21), 7)]
    if thorough:
        asked += [(torch.randn(3, 2, 5), 1), (torch.randn(1, 7, 11), 11)]
    return cases_of(("weights", "rows"), asked)


CUT = "reshape(batch, words, rows, columns)"
CUT_INTO_COLUMNS = "reshape(batch, words, columns, rows)"

MAP = Question(
    map_of,
    {"the map of weights": ""},
    map_cases,
    {
        "The map is filled column by column. The first locations are the first row, from left to "
        "right.": f"{CUT} -> {CUT_INTO_COLUMNS}.transpose(2, 3)",
        "Rows and columns are exchanged. `rows` is the size of the second-to-last dimension.": [
            f"{CUT} -> {CUT_INTO_COLUMNS}",
            f"{CUT} -> {CUT}.transpose(2, 3)",
        ],
        "The order of the rows is reversed. The first row is at the top, as in an image.": (
            f"{CUT} -> {CUT}.flip(2)"
        ),
        "Words and locations are mixed. Each word has a map of its own.": (
            f"{CUT} -> transpose(1, 2).{CUT}"
        ),
    },
    named=True,
    either_precision=True,
)


# Part 2


def first_state(annotations, bridge):
    mean = annotations.mean(dim=1)
    state = torch.tanh(bridge(mean))
    return state


SIZES = [(1, 2, 2, 2, 2), (2, 3, 2, 3, 3)]
"""Batch, locations, key_dim, embedding_dim, decoder_dim."""
FURTHER_SIZES = [(5, 1, 7, 3, 2)]
LEARNING = (2, 5, 3, 2, 4)


def layer(kind: str, seed: int, *sizes: int) -> Fresh:
    said = {
        "linear": "a linear layer from dimension {} to {}",
        "cell": "a GRU cell with input dimension {}",
        "attention": "additive attention",
    }
    given = {"kind": kind, "seed": seed, "sizes": sizes}
    return Fresh(checks.layer, given, said[kind].format(*sizes))


def state_cases(thorough: bool) -> Iterator[Case]:
    for sizes in [*SIZES, LEARNING, *FURTHER_SIZES * thorough]:
        batch, locations, key_dim, _, decoder_dim = sizes
        annotations = torch.randn(batch, locations, key_dim, requires_grad=sizes == LEARNING)
        bridge = layer("linear", batch, key_dim, decoder_dim)
        yield Case({"annotations": annotations, "bridge": bridge})


MEAN = "annotations.mean(dim=1)"

STATE = Question(
    first_state,
    {"the first state": ""},
    state_cases,
    {
        "The tanh is missing. Apply it to the output of the layer.": "torch.tanh( -> (",
        "The bias of the layer is missing. Call the layer: bridge(mean).": (
            "bridge(mean) -> mean @ bridge.weight.T"
        ),
        "The annotation vectors are summed. Compute their mean.": (
            f"{MEAN} -> annotations.sum(dim=1)"
        ),
        "The sum over the locations is divided by the number of images. Divide it by the number of "
        "locations: .mean(dim=1).": f"{MEAN} -> annotations.sum(dim=1) / len(annotations)",
        "The maximum over the locations is used. Compute the mean.": (
            f"{MEAN} -> annotations.amax(dim=1)"
        ),
        "Only one location is used. Compute the mean over all locations.": [
            f"{MEAN} -> annotations[:, 0]",
            f"{MEAN} -> annotations[:, -1]",
        ],
        "The mean is computed after the tanh. Compute the mean of the annotation vectors first, "
        "then apply the layer and the tanh.": (
            f"{MEAN} -> annotations",
            "return state -> return state.mean(dim=1)",
        ),
        "The mean is also computed over the images of the batch. Each image has its own first "
        "state: .mean(dim=1).": (
            f"{MEAN} -> annotations.mean(dim=(0, 1)).expand(len(annotations), -1)"
        ),
    },
    named=True,
    either_precision=True,
)


def step(word, state, annotations, attention, gate, cell):
    seen, weights = attention(state, annotations)
    beta = torch.sigmoid(gate(state))
    context = beta * seen
    inputs = torch.cat([word, context], dim=-1)
    new_state = cell(inputs, state)
    return new_state, context, weights


def step_inputs(sizes: tuple[int, ...], learned: bool = False) -> dict[str, Any]:
    batch, locations, key_dim, embedding_dim, decoder_dim = sizes
    return {
        "word": torch.randn(batch, embedding_dim, requires_grad=learned),
        "state": torch.randn(batch, decoder_dim, requires_grad=learned),
        "annotations": torch.randn(batch, locations, key_dim, requires_grad=learned),
        "attention": layer("attention", batch, decoder_dim, key_dim, 5),
        "gate": layer("linear", batch, decoder_dim, 1),
        "cell": layer("cell", batch, embedding_dim + key_dim, decoder_dim),
    }


def step_cases(thorough: bool) -> Iterator[Case]:
    for sizes in SIZES:
        yield Case(step_inputs(sizes))
    learning = step_inputs(LEARNING, learned=True)
    yield Case(learning, results=("new_state",))
    # Each path to the other results also leads to the new state.
    learning = learning | {name: learning[name].detach() for name in ("word", "state")}
    yield Case(learning, results=("context",))
    yield Case(learning, results=("weights",))
    for sizes in FURTHER_SIZES * thorough:
        yield Case(step_inputs(sizes))


GATED = "context = beta * seen"
JOINED = "[word, context]"
RETURNED = "return new_state, context, weights"

STEP = Question(
    step,
    {"new_state": "", "context": "", "weights": ""},
    step_cases,
    {
        "The gate is missing. Multiply the weighted sum by β.": f"{GATED} -> context = seen",
        "The sigmoid of the gate is missing. β is between 0 and 1.": "torch.sigmoid( -> (",
        "The gate is computed with a tanh. Use a sigmoid, so that β is between 0 and 1.": (
            "torch.sigmoid( -> torch.tanh("
        ),
        "The weighted sum is multiplied by 1 - β. Multiply it by β.": (
            f"{GATED} -> context = (1 - beta) * seen"
        ),
        "The gate of image k multiplies entry k of every context vector: without its last "
        "dimension, β is broadcast over the entries. Keep the shape (batch, 1).": (
            f"{GATED} -> context = beta.squeeze(-1) * seen"
        ),
        "β is the same for all images. Each image has its own.": [
            f"{GATED} -> context = {same} * seen" for same in ("beta.mean()", "beta[0]")
        ],
        "`attention` returns the weighted sum first, then the weights.": (
            "seen, weights = -> weights, seen ="
        ),
        "β is added to the weighted sum. Multiply by β.": f"{GATED} -> context = beta + seen",
        "The cell receives the weighted sum without the gate. Concatenate the embedding of the "
        "word with the context vector after the gate.": f"{JOINED} -> [word, seen]",
        "The returned context vector is the weighted sum without the gate. Return the one that the "
        "cell receives.": f"{RETURNED} -> return new_state, seen, weights",
        "The gate is computed from the new state. Compute β from the old state, before the cell, "
        "because the cell receives the context vector after the gate.": (
            f"{JOINED} -> [word, seen]",
            f"{RETURNED} -> return new_state, torch.sigmoid(gate(new_state)) * seen, weights",
        ),
        "The query of the attention is the new state. The query is the old state, before the word "
        "is processed.": (
            f"{RETURNED} -> seen, weights = attention(new_state, annotations)\n"
            "    return new_state, beta * seen, weights"
        ),
        "The input of the cell is [context; word]. The order is [word; context].": (
            f"{JOINED} -> [context, word]"
        ),
        "The returned state is the old one. Return the output of the cell.": (
            f"{RETURNED} -> return state, context, weights"
        ),
        "The cell does not receive the old state, so it uses zeros: cell(inputs, state).": (
            "cell(inputs, state) -> cell(inputs)"
        ),
        "The returned weights are multiplied by β. The gate applies to the context vector only; "
        "the weights sum to 1.": f"{RETURNED} -> return new_state, context, beta * weights",
        "The context vector contains only the location with the largest weight (hard attention). "
        "Soft attention sums over all locations.": (
            f"{GATED} -> best = weights.argmax(dim=1)\n"
            "    context = beta * annotations[torch.arange(len(best)), best]"
        ),
        "The three results are right, but in the wrong order: return new_state, context, "
        "weights.": [
            f"{RETURNED} -> return {order}"
            for order in (
                "new_state, weights, context",
                "context, new_state, weights",
                "context, weights, new_state",
                "weights, new_state, context",
                "weights, context, new_state",
            )
        ],
    },
    look=("weights", "context", "new_state"),
    named=True,
    either_precision=True,
)


# Part 3


def penalty(weights, tgt_mask):
    real = weights * tgt_mask.unsqueeze(-1)
    sums = real.sum(dim=1)
    squares = (1 - sums).square()
    return squares.sum(dim=-1).mean()


def penalty_cases(thorough: bool) -> Iterator[Case]:
    weights = torch.tensor([[[0.5, 0.5], [0.0, 1.0], [0.25, 0.75]]])
    asked = [(weights, torch.tensor([[True, True, last]])) for last in (True, False)]
    shapes = [([3], 2), ([3, 2, 5], 3), ([2, 1], 3)]
    if thorough:
        shapes += [([7, 1, 4, 2, 5], 11), ([1], 1), ([5, 5], 2)]
    for lengths, locations in shapes:
        mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
        asked.append(((3 * torch.randn(*mask.shape, locations)).softmax(dim=-1), mask))
    first_only = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    asked.append((first_only, torch.tensor([[True, True, False]])))
    weights, mask = asked[3]
    asked.append((weights.clone().requires_grad_(), mask))
    return cases_of(("weights", "tgt_mask"), asked)


REAL = "weights * tgt_mask.unsqueeze(-1)"
SUMS = "real.sum(dim=1)"
SQUARES = "(1 - sums).square()"
MEAN_OF_SUMS = "squares.sum(dim=-1).mean()"

PENALTY = Question(
    penalty,
    {"the penalty": ""},
    penalty_cases,
    {
        "The weights of padding are included. Ignore the positions where tgt_mask is False.": (
            f"{REAL} -> weights"
        ),
        "The mask is inverted. It is True at words and False at padding.": (
            "* tgt_mask -> * ~tgt_mask"
        ),
        "The weights are summed over the locations, which gives 1 for every word. Sum over the "
        "words, for each location.": [
            (f"{SUMS} -> weights.sum(dim=2)", f"{SQUARES} -> (1 - sums).square() * tgt_mask"),
            f"{SUMS} -> real.sum(dim=2)",
        ],
        "The differences from 1 are not squared.": [
            f"{SQUARES} -> (1 - sums).abs()",
            f"{SQUARES} -> 1 - sums",
        ],
        "Each weight is compared with 1 separately. Sum over the words first, then subtract the "
        "sum from 1.": (
            f"{SUMS} -> weights",
            f"{MEAN_OF_SUMS} -> (squares * tgt_mask.unsqueeze(-1)).sum(dim=(1, 2)).mean()",
        ),
        "The weights are averaged over the words. Sum them.": [
            f"{SUMS} -> weights.mean(dim=1)",
            f"{SUMS} -> real.mean(dim=1)",
            f"{SUMS} -> real.sum(dim=1) / tgt_mask.sum(dim=1, keepdim=True)",
        ],
        "The squares are averaged over the locations. Sum them, and compute the mean only over the "
        "images of the batch.": f"{MEAN_OF_SUMS} -> squares.mean()",
        "This is the square root of the sum of squares. Return the sum.": (
            f"{MEAN_OF_SUMS} -> squares.sum(dim=-1).sqrt().mean()"
        ),
        "Only the first image is used. Compute the mean over all images.": (
            f"{MEAN_OF_SUMS} -> squares[0].sum()"
        ),
        "The penalties of the images are summed. Compute their mean.": (
            f"{MEAN_OF_SUMS} -> squares.sum()"
        ),
        "There is one value for each image. Compute their mean.": (
            f"{MEAN_OF_SUMS} -> squares.sum(dim=-1)"
        ),
    },
    named=True,
    either_precision=True,
    tidy=checks.one_value,
)


def least(words, locations):
    difference = locations - words
    return difference**2 / locations


def most(words, locations):
    attended = (words - 1) ** 2
    others = locations - 1
    return float(attended + others)


def bound_cases(thorough: bool) -> Iterator[Case]:
    asked = [(4, 4), (2, 6), (6, 2), (1, 5), (7, 1), *[(14, 6), (3, 196), (7, 7)] * thorough]
    return cases_of(("words", "locations"), asked)


LEAST_VALUE = "difference**2 / locations"
ATTENDED = "(words - 1) ** 2"

LEAST = Question(
    least,
    {"the result of least": ""},
    bound_cases,
    {
        "The penalty can be 0 only if there are as many words as locations. The weights of all "
        "words sum to the number of words, however they are distributed.": [
            f"{LEAST_VALUE} -> 0",
            f"{LEAST_VALUE} -> max(difference, 0) ** 2 / locations",
        ],
        "Here each word has all of its weight on one location. A word can distribute its weight "
        "over several locations, which gives a smaller penalty.": [
            f"{LEAST_VALUE} -> max(difference, 0)",
            f"{LEAST_VALUE} -> abs(difference)",
        ],
        "This is the contribution of one location. Sum over all locations.": (
            f"{LEAST_VALUE} -> (difference / locations) ** 2"
        ),
        "This value is too large by the factor `locations`. The total difference from 1 is "
        "locations - words; distribute it over the locations before squaring.": (
            f"{LEAST_VALUE} -> difference**2"
        ),
        "The integer division // drops the fraction. Divide with /.": (
            f"{LEAST_VALUE} -> difference**2 // locations"
        ),
    },
    named=True,
)

MOST = Question(
    most,
    {"the result of most": ""},
    bound_cases,
    {
        "The other locations are missing. A location without any weight contributes 1.": (
            "attended + others -> attended"
        ),
        "The contribution of the location with all of the weight is missing.": (
            "attended + others -> others"
        ),
        "One location too many is counted. There are locations - 1 without any weight.": (
            "locations - 1 -> locations"
        ),
        "The sum of the location with all of the weight is the number of words. Subtract 1 from it "
        "before squaring.": f"{ATTENDED} -> words**2",
        "There are two mistakes. Subtract 1 from the number of words before squaring, and add 1 "
        "for each location without any weight.": "attended + others -> words**2",
        "The difference of the location with all of the weight is not squared.": (
            f"{ATTENDED} -> abs(words - 1)"
        ),
        "Here every location has a weight of 1 at every word. The weights of a word sum to 1, so "
        "only one location can.": "attended + others -> locations * attended",
        "Here the words have their weight on different locations. The penalty is largest if all "
        "words have all of their weight on the same location.": [
            "attended + others -> abs(locations - words)",
            "attended + others -> max(locations - words, 0)",
        ],
    },
    named=True,
)


# Part 4


def pixels_seen(layers, length, location):
    sizes = [length]
    for kernel, stride, padding in layers:
        sizes.append((sizes[-1] + 2 * padding - kernel) // stride + 1)
    first = last = location
    for (kernel, stride, padding), size in zip(layers[::-1], sizes[-2::-1], strict=True):
        first = stride * first - padding
        last = stride * last - padding + kernel - 1
        first, last = max(first, 0), min(last, size - 1)
    return first, last


Layers = list[tuple[int, int, int]]
CONVOLUTION, POOL = (3, 1, 1), (2, 2, 0)
PACKAGE: Layers = [CONVOLUTION, POOL, CONVOLUTION, (6, 6, 0)]
"""Those of the package's encoder of images: (kernel, stride, padding)."""
STACKS: list[tuple[Layers, int, list[int]]] = [
    ([(3, 1, 0)], 5, [2]),
    ([(3, 2, 0)], 7, [1]),
    ([CONVOLUTION], 4, [0, 2, 3]),
    ([(3, 1, 0), (2, 2, 0)], 8, [1]),
    ([(2, 2, 0), (3, 1, 0)], 8, [1]),
    ([CONVOLUTION, POOL, CONVOLUTION], 8, [2, 1]),
    ([POOL, CONVOLUTION], 5, [1]),
    ([(3, 2, 0), CONVOLUTION], 6, [1]),
    (PACKAGE, 36, [1]),
    (PACKAGE, 36, [0, 2]),
    ([(3, 2, 1)], 7, [1]),
]
FURTHER_STACKS: list[tuple[Layers, int, list[int]]] = [
    ([], 3, [2]),
    ([(1, 1, 0)], 3, [1]),
    ([(5, 3, 2), (3, 2, 1), CONVOLUTION], 29, [0, 2, 4]),
    ([(3, 3, 0), (5, 1, 2)], 11, [0, 1, 2]),
    ([(7, 2, 3), (3, 2, 1), *[CONVOLUTION] * 4], 56, [0, 6, 13]),
    ([(2, 2, 0), (2, 2, 0), CONVOLUTION], 15, [1, 2]),
]


def stack_cases(thorough: bool) -> Iterator[Case]:
    stacks = STACKS + FURTHER_STACKS * thorough
    asked = [(layers, length, each) for layers, length, locations in stacks for each in locations]
    return cases_of(("layers", "length", "location"), asked)


LIMITED = "first, last = max(first, 0), min(last, size - 1)"
BOTH = "return first, last"
UNLIMITED = f"{LIMITED} -> pass"
AT_THE_END = (UNLIMITED, f"{BOTH} -> return max(first, 0), min(last, length - 1)")
FORWARDS = "zip(layers[::-1], sizes[-2::-1], -> zip(layers, sizes[:-1],"
NO_STRIDES = ("stride * first -> first", "stride * last -> last")
NO_PADDING = ("stride * first - padding -> stride * first", "last - padding -> last")
NO_KERNELS = "kernel - 1 -> stride - 1"

PIXELS = Question(
    pixels_seen,
    {"the first and the last pixel": ""},
    stack_cases,
    {
        "The padding is not subtracted. With padding p, the first window starts p positions before "
        "position 0.": NO_PADDING,
        "The range contains padding. It must end at the border of the image.": UNLIMITED,
        "The sizes of the layers are wrong, because the kernel is ignored. For n positions, a "
        "layer has (n + 2 * padding - kernel) // stride + 1 outputs.": (
            "2 * padding - kernel -> 2 * padding - stride"
        ),
        "The range is limited only at the image, or the sizes of the layers are too large, for "
        "example because they are rounded up. For n positions, a layer has (n + 2 * padding - "
        "kernel) // stride + 1 outputs, and the range must be limited at each layer: positions "
        "outside an inner layer are padding and depend on no pixel, even if the strided layer uses "
        "none of the last pixels of the image.": AT_THE_END,
        "The layers are processed from the first to the last. Start with the last layer, from the "
        "location back to the pixels.": [(*AT_THE_END, FORWARDS), (UNLIMITED, FORWARDS)],
        "Window i starts at stride · i - padding, not at stride · (i - padding).": (
            "stride * first - padding -> stride * (first - padding)",
            "stride * last - padding -> stride * (last - padding)",
        ),
        "The strides are ignored. With stride s, window i starts at s · i - padding.": [
            NO_STRIDES,
            (*AT_THE_END, *NO_STRIDES),
        ],
        "Only the strides are used, which give the distance between neighbouring locations. The "
        "receptive field is larger: use the sizes of the kernels.": [
            (*NO_PADDING, f"+ {NO_KERNELS.replace('-> ', '-> + ')}"),
            NO_KERNELS,
        ],
        "The range is limited with the number of outputs of each layer. Limit it with the number "
        "of its inputs, of which the first layer has `length`.": "sizes[-2::-1] -> sizes[:0:-1]",
        "The last position of each window is too large by 1. A window of k positions ends k - 1 "
        "positions after its first one.": [
            "+ kernel - 1 -> + kernel",
            (*AT_THE_END, "+ kernel - 1 -> + kernel"),
        ],
        "The last pixel is too large by 1. Return the last pixel inside the receptive field, not "
        "the first one after it.": f"{BOTH} -> {BOTH} + 1",
        "These are the first pixel and the number of pixels. Return the first and the last "
        "pixel.": f"{BOTH} -> return first, last - first + 1",
        "This is the list of all pixels of the receptive field. Return only the first and the "
        "last.": f"{BOTH} -> return [*range(first, last + 1)]",
        "The padding of an inner layer is subtracted in pixels. It is counted in positions of this "
        "layer, and the strides before it determine how many pixels a position is.": (
            *NO_PADDING,
            UNLIMITED,
            f"{BOTH} -> paddings = sum(padding for *_, padding in layers)\n"
            "    return max(first - paddings, 0), min(last - paddings, length - 1)",
        ),
    },
    named=True,
    in_all_cases=True,
)


def reached(network, images, row, column):
    with torch.enable_grad():  # a recording is made without
        images = images.clone().requires_grad_()
        channels = network(images)[:, :, row, column].unbind(1)
        sums = [each.sum() for each in channels]
        each = [torch.autograd.grad(one, images, retain_graph=True)[0] for one in sums]
    gradients = torch.stack(each).squeeze(2)  # (channels, images, height, width)
    found = gradients != 0
    return found.any(dim=0).any(dim=0)


def network(maker: Any, text: str, **given: Any) -> Fresh:
    return Fresh(maker, given, text)


def network_cases(thorough: bool) -> Iterator[Case]:
    mirrored = torch.randn(1, 1, 4, 3)
    cancelling = "two edge detectors whose outputs have a constant sum"
    turning = "the cosine and the sine of an edge detector"
    absolute = "the absolute sum of each pixel and the one below"
    faint = f"{absolute}, times 1e-12"
    convolutions = network(checks.layer, "Conv2d → MaxPool2d", kind="convolutions", seed=1)
    asked: list[tuple[Fresh, Tensor, int, int]] = [
        (network(checks.Edges, cancelling, turning=False), torch.rand(1, 1, 2, 4), 0, 1),
        (network(checks.Absolute, absolute), torch.cat([mirrored, -mirrored]), 2, 1),
        (network(checks.Edges, turning, turning=True), torch.rand(1, 1, 2, 4), 1, 0),
        (convolutions, torch.rand(1, 1, 6, 6), 1, 2),
        (convolutions, torch.randn(5, 1, 6, 8), 0, 2),
        (network(checks.Absolute, faint, factor=1e-12), torch.randn(1, 1, 3, 2), 1, 1),
    ]
    if thorough:
        deep = "Conv2d → MaxPool2d → ReLU → Conv2d"
        features = network(checks.features, "the package's convolutions", seed=1)
        asked += [
            (network(checks.layer, deep, kind="deep", seed=2), torch.randn(7, 1, 8, 10), 2, 1),
            (features, torch.rand(2, 1, 24, 36), 0, 2),
        ]
    return cases_of(("network", "images", "row", "column"), asked)


NONZERO = "gradients != 0"
OF_LOCATION = "[:, :, row, column]"
ANY_IMAGE = "found.any(dim=0).any(dim=0)"

REACHED = Question(
    reached,
    {"the result of reached": ""},
    network_cases,
    {
        "The gradients of the channels are summed before they are compared with 0, so gradients of "
        "opposite sign cancel. Test each channel separately.": (
            f"{NONZERO} -> gradients.sum(dim=0, keepdim=True) != 0"
        ),
        "This is the gradient of the sum of the squared channels, in which the channels can cancel "
        "as well. Test each channel separately.": (
            f"{OF_LOCATION}.unbind(1) -> {OF_LOCATION}.square().sum(dim=1, keepdim=True).unbind(1)"
        ),
        "Only the first channel is tested. Test all channels.": f"{NONZERO} -> gradients[:1] != 0",
        "Only the last channel or the last image counts. Does it overwrite the results of the "
        "others? A pixel counts if any of them is True.": [
            f"{NONZERO} -> gradients[-1:] != 0",
            f"{NONZERO} -> gradients[:, -1:] != 0",
        ],
        "Small gradients are not counted. A pixel counts if its gradient is not 0, however small "
        "it is.": f"{NONZERO} -> gradients.abs() > 1e-4",
        "Only positive gradients are counted. A negative gradient also shows that the pixel has an "
        "influence.": [f"{NONZERO} -> gradients > 0", f"{NONZERO} -> gradients[:1] > 0"],
        "The gradients of the images are summed before they are compared with 0, so they can "
        "cancel. A pixel counts if the gradient for one of the images is not 0.": [
            f"{NONZERO} -> gradients.sum(dim=1, keepdim=True) != 0",
            f"{NONZERO} -> gradients.sum(dim=(0, 1), keepdim=True) != 0",
        ],
        "Only the first image is tested. Max pooling passes its gradient only to the position with "
        "the maximum, which differs from image to image. Test all images.": (
            f"{NONZERO} -> gradients[:, :1] != 0"
        ),
        "A pixel is counted only if its gradient is not 0 for every image. One image is enough.": (
            f"{ANY_IMAGE} -> found.any(dim=0).all(dim=0)"
        ),
        "A pixel is counted only if its gradient is not 0 for every channel. One channel is "
        "enough.": f"{ANY_IMAGE} -> found.all(dim=0).any(dim=0)",
        "These are the pixels that influence any location. Compute the gradient of one location, "
        "[:, :, row, column].": f"{OF_LOCATION} -> .sum(dim=(2, 3))",
        "Row and column are exchanged.": f"{OF_LOCATION} -> [:, :, column, row]",
        "There is one result for each image. Combine them: True where any of them is True.": (
            f"{ANY_IMAGE} -> found.any(dim=0)"
        ),
        "The result is inverted. It is True where the gradient is not 0.": (
            f"{ANY_IMAGE} -> ~{ANY_IMAGE}"
        ),
    },
    named=True,
    either_precision=True,
    tidy=Tensor.float,
)


# Part 5


def inside(weights, box, cell):
    top, left, bottom, right = box
    within = torch.zeros(weights.size(0) * cell, weights.size(1) * cell)
    within[top:bottom, left:right] = 1
    pixels = within.unfold(0, cell, cell).unfold(1, cell, cell).sum(dim=(2, 3))
    share = pixels / cell**2
    return (weights * share).sum().item()


def random_weights(rows: int, columns: int, *words: int) -> Tensor:
    """Return weights that sum to 1 over the locations."""
    scores = 2 * torch.randn(*words, rows * columns)
    return scores.softmax(dim=-1).reshape(*words, rows, columns)


def box_cases(thorough: bool) -> Iterator[Case]:
    by_hand = torch.tensor([[0.5, 0.25], [0.25, 0.0]])
    asked: list[tuple[Tensor, Box, int]] = [
        (by_hand, (0, 0, 2, 2), 2),
        (torch.tensor([[0.1, 0.6, 0.3]]), (1, 2, 4, 11), 4),
        (by_hand, (0, 1, 1, 4), 2),
        (by_hand, (1, 1, 4, 3), 2),
        (random_weights(2, 3), (2, 3, 7, 12), 4),
    ]
    if thorough:
        asked += [
            (random_weights(3, 5), (1, 0, 2, 35), 7),
            (random_weights(5, 2), (0, 0, 15, 6), 3),
            (random_weights(1, 1), (2, 1, 3, 4), 5),
            (random_weights(7, 3), (4, 2, 5, 3), 1),
        ]
    return cases_of(("weights", "box", "cell"), asked)


SHARE = "share = pixels / cell**2"
SUMMED = "(weights * share).sum()"
AVERAGED = "The pixels of the box are averaged. Sum them."

INSIDE = Question(
    inside,
    {"the result of inside": ""},
    box_cases,
    {
        "A location that overlaps the box counts with all of its weight. Count only the share of "
        "its pixels that are inside the box.": f"{SHARE} -> share = pixels > 0",
        "A location counts only if all of its pixels are inside the box. Count the share of its "
        "pixels that are inside.": f"{SHARE} -> share = pixels == cell**2",
        "A location counts if its centre is inside the box. Count the share of its pixels that are "
        "inside.": (
            [
                f"{SHARE} -> down, across = ((torch.arange(n) + 0.5) * cell for n in weights.shape)"
                f"\n    rows = (down {after} top) & (down < bottom)\n"
                f"    columns = (across {after} left) & (across < right)\n"
                "    share = rows.unsqueeze(1) & columns"
                for after in (">", ">=")
            ]
        ),
        "Each pixel counts with the whole weight of its location. Divide the weight by the number "
        "of pixels, cell · cell.": f"{SHARE} -> share = pixels",
        "The weight is divided by cell. A location has cell · cell pixels.": (
            f"{SHARE} -> share = pixels / cell"
        ),
        AVERAGED: [f"{SHARE} -> {share} / pixels.sum()" for share in ("share = pixels", SHARE)],
        "The whole map is repeated, so a pixel receives the weight of another location. Repeat "
        "each weight in both directions, as repeat_interleave does.": (
            f"{SUMMED} -> (weights.repeat(cell, cell) * within / cell**2).sum()"
        ),
        "The borders of the box are rounded down to whole locations. Count the share of each "
        "location's pixels that are inside.": (
            f"{SUMMED} -> weights[top // cell : bottom // cell, left // cell : right // cell].sum()"
        ),
        "Only the location with the largest weight is counted. Count the share of every "
        "location.": "(weights * share) -> (share * (weights == weights.max()))",
        "Rows and columns are exchanged. A box is (top, left, bottom, right).": (
            "top, left, bottom, right = box -> left, top, right, bottom = box"
        ),
        "The last two numbers are read as height and width. A box is (top, left, bottom, right).": (
            "[top:bottom, left:right] -> [top : top + bottom, left : left + right]"
        ),
        "Row `bottom` and column `right` are included. They are outside the box.": (
            "[top:bottom, left:right] -> [top : bottom + 1, left : right + 1]"
        ),
        "The last row and the last column of the box are left out. The box contains the rows up to "
        "and including bottom - 1, as the slice top:bottom does.": (
            "[top:bottom, left:right] -> [top : bottom - 1, left : right - 1]"
        ),
        "This is the share outside the box.": f"{SUMMED} -> (1 - {SUMMED})",
        "The weights are not used. This is the area of the box divided by that of the image.": (
            f"{SUMMED} -> share.mean()"
        ),
    },
    named=True,
    in_all_cases=True,
)


def mean(shares):
    return sum(shares) / len(shares) if shares else None


def pointing(weights, boxes, cell):
    named = [(one, box) for one, box in zip(weights, boxes, strict=True) if box is not None]
    equal = torch.full_like(weights[0], 1 / weights[0].numel())
    own = [inside(one, box, cell) for one, box in named]
    chance = [inside(equal, box, cell) for _, box in named]
    other = [inside(one, box, cell) for one, mine in named for _, box in named if box != mine]
    return {"inside": mean(own), "chance": mean(chance), "other": mean(other)}


CAPTIONS: list[tuple[int, int, list[Box | None]]] = [
    (2, 3, [None, (0, 0, 4, 4), None, (3, 5, 7, 10)]),
    (2, 3, [(1, 1, 7, 3), (1, 1, 7, 3), (4, 6, 8, 12), None, (2, 8, 3, 11)]),
    (2, 2, [None, (0, 2, 8, 6)]),
    (3, 2, [(2, 2, 6, 6), (2, 2, 6, 6), None]),
    (3, 3, [(1, 1, 5, 5), None, (1, 1, 7, 9), (3, 2, 7, 9)]),
]
"""Rows, columns and boxes, for squares of 4 × 4 pixels."""


def caption_cases(thorough: bool) -> Iterator[Case]:
    asked = [(random_weights(*size, len(boxes)), boxes, 4) for *size, boxes in CAPTIONS]
    if thorough:
        asked.append((random_weights(3, 5, 5), [None, *CAPTIONS[0][2]], 5))
        asked.append((*checks.described()[0][1:], 12))
    return cases_of(("weights", "boxes", "cell"), asked)


OWN, CHANCE, OTHER = "mean(own)", "mean(chance)", "mean(other)"
PAIRS = "for one, mine in named for _, box in named if box != mine"
NUMBERED = "for i, (one, mine) in enumerate(named)"
EVERY_WORD = "Words without a box are counted as 0. Ignore them."
EVEN = "Chance is the result for equal weights: the area of the box divided by that of the image."
HIGHEST = "F.one_hot(one.argmax(), one.numel()).view_as(one)"

POINTING = Question(
    pointing,
    {"inside": "", "chance": "", "other": ""},
    caption_cases,
    {
        f"pointing, inside: {EVERY_WORD}": f"{OWN} -> sum(own) / len(boxes)",
        "pointing, inside: The words are summed. Compute their mean.": f"{OWN} -> sum(own)",
        "pointing, inside: The weights belong to other words than the boxes. Remove the words "
        "without a box from both.": (
            "[(one, box) for one, box in zip(weights, boxes, strict=True) if box is not None] -> "
            "[*zip(weights, (box for box in boxes if box is not None))]"
        ),
        "pointing, inside: This is how often the location with the largest weight overlaps the "
        "box. Compute the share of the weight inside the box.": (
            f"{OWN} -> mean([float(inside({HIGHEST}, box, cell) > 0) for one, box in named])"
        ),
        f"pointing, chance: {EVERY_WORD}": f"{CHANCE} -> sum(chance) / len(boxes)",
        f"pointing, chance: This is 1 divided by the number of locations. {EVEN}": (
            f"{CHANCE} -> 1 / equal.numel()"
        ),
        "pointing, chance: This is the value of one box. Compute the mean over the words with a "
        "box.": f"{CHANCE} -> chance[0]",
        "pointing, chance: Each box is counted once. Compute the mean over the words; several of "
        "them may name the same box.": (
            "inside(equal, box, cell) for _, box in named -> "
            "inside(equal, box, cell) for box in {box for _, box in named}"
        ),
        f"pointing, chance: This is 1 divided by the number of boxes. {EVEN}": (
            f"{CHANCE} -> 1 / len(named)"
        ),
        f"pointing, chance: This is the area of the boxes in pixels. {EVEN}": (
            f"{CHANCE} -> mean(chance) * equal.numel() * cell**2"
        ),
        "pointing, other: Pairs of words with the same box are included. Ignore them, because the "
        "second word's box is then also the first word's own box.": (
            f"{PAIRS} -> {NUMBERED} for j, (_, box) in enumerate(named) if i != j"
        ),
        "pointing, other: Each box is counted once. Pair each word with all other words; several "
        "may name the same box.": (
            f"{PAIRS} -> for one, mine in named for box in {{box for _, box in named}} "
            "if box != mine"
        ),
        "pointing, other: Two boxes are different if any of their four numbers differ.": [
            f"if box != mine -> if box{of} != mine{of}" for of in ("[0]", "[1]", "[:2]", "[2:]")
        ],
        "pointing, other: Each word is also paired with its own box. Use only the boxes of other "
        "words.": " if box != mine -> ",
        "pointing, other: This is a mean over words of means over boxes. Compute one mean over all "
        "pairs.": (
            f"[inside(one, box, cell) {PAIRS}] -> "
            "[[inside(one, box, cell) for _, box in named if box != mine] for one, mine in named]",
            f"{OTHER} -> mean([mean(each) for each in other if each])",
        ),
        "pointing, other: This is all of the weight outside the word's own box, including empty "
        "parts of the image. Use the boxes of the other words.": f"{OTHER} -> 1 - mean(own)",
        "pointing, other: Each pair is counted in one direction only. Count both: the weight of "
        "the first word in the box of the second, and the reverse.": (
            f"{PAIRS} -> {NUMBERED} for _, box in named[i + 1 :] if box != mine"
        ),
        "pointing, other: The pairs are summed. Compute their mean.": f"{OTHER} -> sum(other)",
        "pointing, other: There is no such pair. The value is then None.": (
            f"{OTHER} -> mean(other) or 0.0"
        ),
    },
    keyed=True,
)


# Part 6


def mended_heat(weights, mask, rows, cell):
    columns = weights.size(2) // rows
    maps = weights.unflatten(2, (rows, columns))

    def between(size):
        at = (torch.arange(size * cell) - (cell - 1) / 2) / cell
        at = at.clamp(0, size - 1)
        first = at.floor().long()
        second = (first + 1).clamp(max=size - 1)
        return first, second, at - first

    above, below, down = between(rows)
    left, right, across = between(columns)
    lines = torch.lerp(maps[:, :, above], maps[:, :, below], down.unsqueeze(1))
    heat = torch.lerp(lines[..., left], lines[..., right], across)
    heat = heat / cell**2
    return heat * mask[:, :, None, None]


MIDDLE = "the heat from left to right, without the borders"
SUM, HEAT = "the sums", "the heat"
BY_COLUMN = (
    "The weight is distributed equally over the first two rows of the map, but the heat is not "
    "constant from left to right. Are the locations ordered column by column? Order them row by "
    "row."
)
OF_PADDING = "The heat of padding is not 0. Where the mask is False, it must be 0 everywhere."
NOT_ONE = "The heat of a word does not sum to 1 over the image."


def line(size: int, location: int, other: int) -> Tensor:
    """Return a map whose weight is distributed equally over one row."""
    weights = torch.zeros(1, 1, size, other)
    weights[:, :, location] = 1 / other
    return weights


def heat_case(stage: str, maps: Tensor, cell: int, result: str, *real: int, general="") -> Case:
    """Return a case with maps (batch, words, rows, columns), of which one result is compared.

    `real` are the numbers of words of the captions, if there is padding.
    """
    batch, words, rows, _ = maps.shape
    lengths = torch.tensor(real or [words] * batch).unsqueeze(1)
    inputs = {"weights": maps.flatten(2), "mask": torch.arange(words) < lengths}
    inputs |= {"rows": rows, "cell": cell}
    return Case(inputs, stage=stage, results=(result,), general=general)


def heat_cases(thorough: bool) -> Iterator[Case]:
    sizes = [([(3, 3, 2), (3, 5, 3)], [(2, 3, 4), (1, 2, 3)])]
    sizes += [([(5, 3, 4), (3, 4, 1), (4, 3, 5)], [(2, 1, 1), (1, 1, 2)])] * thorough
    for large, small in sizes:
        for of_one_stage in zip(*(stages(*each) for each in large), strict=True):
            yield from of_one_stage
        for rows, columns, cell in small:
            yield heat_case("small maps", random_weights(rows, columns, 2, 2), cell, HEAT)


def stages(rows: int, columns: int, cell: int) -> Iterator[Case]:
    """Yield the cases of all stages for maps of one size."""
    first_two = (line(rows, 0, columns) + line(rows, 1, columns)) / 2
    yield heat_case("the order of the locations", first_two, cell, MIDDLE, general=BY_COLUMN)
    down = [line(rows, location, columns) for location in (rows // 2, 0, rows - 1)]
    across = [line(columns, location, rows).mT for location in (columns // 2, 0, columns - 1)]
    yield heat_case("the interpolation between rows", down[0], cell, DOWN)
    yield heat_case("the interpolation between columns", across[0], cell, ACROSS)
    for result, lines in ((DOWN, down), (ACROSS, across)):
        for maps in lines[1:]:
            yield heat_case("the borders", maps, cell, result)
    maps = random_weights(rows, columns, 2, 3)
    yield heat_case("the sums", maps, cell, SUM, general=NOT_ONE)
    yield heat_case("padding", maps, cell, SUM, 3, 1, general=OF_PADDING)
    unattended = torch.cat([maps[:, :1], torch.zeros_like(maps[:, 1:])], dim=1)
    yield heat_case("padding", unattended, cell, SUM, 1, 1, general=OF_PADDING)
    yield heat_case("all values", maps, cell, HEAT, 3, 2)


FIRST_PIXEL = " - (cell - 1) / 2 -> "
INDICES = (  # limited instead of the positions
    "at = at.clamp(0, size - 1) -> pass",
    "return first, second -> return first.clamp(min=0), second",
)
LEFT_TO_RIGHT = "lines[..., left], lines[..., right]"
ABOVE_TO_BELOW = "maps[:, :, above], maps[:, :, below]"
EXCHANGED = [
    f"{ABOVE_TO_BELOW} -> maps[:, :, below], maps[:, :, above]",
    f"{LEFT_TO_RIGHT} -> lines[..., right], lines[..., left]",
]

CORRECTED = Question(
    mended_heat,
    dict.fromkeys((MIDDLE, DOWN, ACROSS, SUM, HEAT), ""),
    heat_cases,
    {
        "{line}, but the heat is drawn {moved}. Does the weight belong to the first pixel of the "
        "square? It belongs to the centre, (cell - 1) / 2 pixels further: the position of pixel p, "
        "in locations, is (p - (cell - 1) / 2) / cell.": FIRST_PIXEL,
        "{line}, but the two neighbours of a pixel are exchanged {direction}. The nearer centre "
        "has the larger share.": [
            (*other, each) for other in ((), INDICES, (FIRST_PIXEL,)) for each in EXCHANGED
        ],
        f"{NOT_ONE} It is divided by the largest heat of the word, so equal weights look like "
        "concentrated ones. Divide by cell · cell.": (
            "/ cell**2 -> / heat.amax(dim=(2, 3), keepdim=True)"
        ),
        f"{NOT_ONE} The weight of a location is distributed over cell · cell pixels: divide by "
        "it.": "heat / cell**2 -> heat",
    },
    runner=lambda answer: lambda *inputs: checks.measures(answer(*inputs)),
)


PARTS = {
    "keys": [KEYS, MAP],
    "steps": [STATE, STEP],
    "penalty": [PENALTY, LEAST, MOST],
    "pixels": [PIXELS, REACHED],
    "inside": [INSIDE, POINTING],
    "bug_hunt": [CORRECTED],
}
"""The questions of each check, in the order of its arguments."""
