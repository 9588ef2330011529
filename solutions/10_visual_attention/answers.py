"""Answers to the parts of visual attention, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
ALLOWED    {function: [names of behaviours that are right here]}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from pathlib import Path

import torch
from torch.nn import functional as F

from attentively.captioning import doubly_stochastic_penalty
from attentively.checks.edits import edited_source, source_of
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
inside, pixels_seen, penalty = questions.inside, questions.pixels_seen, questions.penalty

# Part 1


def keys_by_permuting(feature_map):
    batch, channels, rows, columns = feature_map.shape
    return feature_map.permute(0, 2, 3, 1).reshape(batch, rows * columns, channels)


def keys_by_loops(feature_map):
    rows, columns = feature_map.shape[2:]
    places = [feature_map[:, :, row, column] for row in range(rows) for column in range(columns)]
    return torch.stack(places, dim=1)


def map_by_unflattening(weights, rows):
    return weights.unflatten(2, (rows, weights.size(2) // rows)).double()


def map_by_chunks(weights, rows):
    return torch.stack(weights.chunk(rows, dim=-1), dim=2)


# Part 2


def first_state_by_summing(annotations, bridge):
    mean = torch.zeros_like(annotations[:, 0])
    for place in range(annotations.size(1)):
        mean = mean + annotations[:, place] / annotations.size(1)
    return F.linear(mean, bridge.weight, bridge.bias).tanh()


def step_by_weights(word, state, annotations, attention, gate, cell):
    """The weights sum the annotations again, and the gate is written out."""
    _, weights = attention(state, annotations)
    beta = 1 / (1 + torch.exp(-gate(state)))
    context = beta * (weights.unsqueeze(-1) * annotations).sum(dim=1)
    return [cell(torch.hstack((word, context)), state), context, weights]


def step_with_a_mask(word, state, annotations, attention, gate, cell):
    everywhere = torch.ones(annotations.shape[:2], dtype=torch.bool)
    context, weights = attention(state, annotations, everywhere)
    beta = gate(state).exp() / (1 + gate(state).exp())
    gated = torch.einsum("b,bd->bd", beta.squeeze(-1), context)
    return cell(torch.cat((word, gated), 1), state), gated, weights


# Part 3


def penalty_by_loops(weights, tgt_mask):
    total = 0.0
    for image, real in zip(weights, tgt_mask, strict=True):
        total = total + ((image[real].sum(dim=0) - 1) ** 2).sum()
    return total / len(weights)


def penalty_by_einsum(weights, tgt_mask):
    looked_at = torch.einsum("btp,bt->bp", weights.double(), tgt_mask.double())
    return ((1 - looked_at) ** 2).sum(1).mean().reshape(1)


def least_of_equal_weights(words, locations):
    return penalty(torch.full((1, words, locations), 1 / locations), torch.ones(1, words).bool())


def most_of_one_location(words, locations):
    weights = torch.zeros(1, words, locations)
    weights[:, :, 0] = 1.0
    return int(penalty(weights, torch.ones(1, words).bool()))


# Part 4


def pixels_by_sets(layers, length, location):
    seen = [[pixel] for pixel in range(length)]
    for kernel, stride, padding in layers:
        seen = [[]] * padding + seen + [[]] * padding
        ends = range(kernel, len(seen) + 1, stride)
        seen = [[pixel for each in seen[end - kernel : end] for pixel in each] for end in ends]
    return [min(seen[location]), max(seen[location])]


def pixels_by_convolutions(layers, length, location):
    """Each pixel in turn is passed through convolutions of ones."""
    found = []
    for pixel in range(length):
        line = torch.zeros(1, 1, length)
        line[0, 0, pixel] = 1.0
        for kernel, stride, padding in layers:
            line = F.conv1d(line, torch.ones(1, 1, kernel), stride=stride, padding=padding)
        if line[0, 0, location] > 0:
            found.append(pixel)
    return torch.tensor([found[0], found[-1]])


def reached_value_by_value(network, images, row, column):
    images = images.clone().requires_grad_()
    found = torch.zeros(images.shape[2:], dtype=torch.bool)
    for value in network(images)[:, :, row, column].flatten():
        (gradient,) = torch.autograd.grad(value, images, retain_graph=True)
        found |= (gradient != 0).any(dim=0)[0]
    return found


def reached_by_random_weights(network, images, row, column):
    """Channels with random weights do not cancel."""
    images.requires_grad_()
    place = network(images)[:, :, row, column]
    (gradient,) = torch.autograd.grad(place, images, torch.rand(place.shape) + 0.5)
    return gradient[:, 0].abs().sum(dim=0) > 0


def reached_by_jacobians(network, images, row, column):
    def place(image):
        return network(image.unsqueeze(0))[0, :, row, column]

    each = [torch.autograd.functional.jacobian(place, image) for image in images]
    return (torch.stack(each).abs().amax(dim=(0, 1, 2)) > 0).int()


def reached_backwards(network, images, row, column):
    found = [[False] * images.size(3) for _ in range(images.size(2))]
    for image in images:
        channels = network(image.unsqueeze(0)).size(1)
        for channel in range(channels):
            given = image.unsqueeze(0).clone().requires_grad_(True)
            network(given)[0, channel, row, column].backward()
            for y, x in given.grad[0, 0].nonzero().tolist():
                found[y][x] = True
    return found


def reached_in_an_array(*asked):
    return reached_by_jacobians(*asked).bool().numpy()


def reached_by_the_sum_of_all(network, images, row, column):
    images = images.clone().requires_grad_()
    network(images).sum().backward()
    return (images.grad != 0).any(dim=0)[0]


# Part 5


def inside_by_pixels(weights, box, cell):
    top, left, bottom, right = box
    pixels = weights.repeat_interleave(cell, dim=0).repeat_interleave(cell, dim=1) / cell**2
    return pixels[top:bottom, left:right].sum()


def inside_by_overlaps(weights, box, cell):
    top, left, bottom, right = box
    share = 0.0
    for row in range(weights.size(0)):
        for column in range(weights.size(1)):
            down = min(bottom, (row + 1) * cell) - max(top, row * cell)
            across = min(right, (column + 1) * cell) - max(left, column * cell)
            share += weights[row, column].item() * max(down, 0) * max(across, 0) / cell**2
    return share


def inside_by_products(weights, box, cell):
    starts = [torch.arange(size) * cell for size in weights.shape]
    shares = [
        ((start + cell).clamp(max=last) - start.clamp(min=first)).clamp(min=0) / cell
        for start, first, last in zip(starts, box[:2], box[2:], strict=True)
    ]
    return (shares[0] @ weights @ shares[1]).double()


def pointing_with_tensors(weights, boxes, cell):
    numbered = [i for i, box in enumerate(boxes) if box is not None]
    pairs = [(i, j) for i in numbered for j in numbered if boxes[i] != boxes[j]]
    equal = torch.ones_like(weights[0]) / weights[0].numel()

    def mean(shares):
        return torch.stack([*shares]).mean()

    return {
        "inside": mean(inside_by_pixels(weights[i], boxes[i], cell) for i in numbered),
        "chance": mean(inside_by_pixels(equal, boxes[i], cell) for i in numbered),
        "other": mean(inside_by_pixels(weights[i], boxes[j], cell) for i, j in pairs)
        if pairs
        else None,
    }


def pointing_by_areas(weights, boxes, cell):
    found = {"own": [], "chance": [], "other": []}
    for i, box in enumerate(boxes):
        if box is None:
            continue
        pixels = weights[i].numel() * cell * cell
        found["own"].append(float(inside(weights[i], box, cell)))
        found["chance"].append((box[2] - box[0]) * (box[3] - box[1]) / pixels)
        for j, another in enumerate(boxes):
            if j != i and another is not None and another != box:
                found["other"].append(float(inside(weights[i], another, cell)))
    means = {key: math.fsum(each) / len(each) if each else None for key, each in found.items()}
    return {"other": means["other"], "inside": means["own"], "chance": means["chance"]}


# Part 6


def corrected_by_interpolating(weights, mask, rows, cell):
    maps = weights.unflatten(-1, (rows, -1))
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear")
    heat = heat / heat.sum(dim=(2, 3), keepdim=True)
    return torch.where(mask[..., None, None], heat, torch.zeros_like(heat)).double()


def corrected_by_hats(weights, mask, rows, cell):
    """The heat of each location along one direction, limited at the borders, as two matrices."""

    def hats(size):
        at = ((torch.arange(size * cell) + 0.5) / cell - 0.5).clamp(min=0, max=size - 1)
        return (1 - (at.unsqueeze(1) - torch.arange(size)).abs()).clamp(min=0) / cell

    columns = weights.size(-1) // rows
    maps = weights.view(*weights.shape[:2], rows, columns) * mask.float()[:, :, None, None]
    return hats(rows) @ maps @ hats(columns).T


def corrected_by_loops(weights, mask, rows, cell):
    batch, words, places = weights.shape
    columns = places // rows
    heat = torch.zeros(batch, words, rows * cell, columns * cell)
    for y in range(rows * cell):
        for x in range(columns * cell):
            down = min(max((y - (cell - 1) / 2) / cell, 0), rows - 1)
            across = min(max((x - (cell - 1) / 2) / cell, 0), columns - 1)
            for row in {math.floor(down), math.ceil(down)}:
                for column in {math.floor(across), math.ceil(across)}:
                    share = (1 - abs(down - row)) * (1 - abs(across - column))
                    heat[:, :, y, x] += share * weights[:, :, row * columns + column] / cell**2
    heat[~mask] = 0
    return heat


def heat_in_blocks(weights, mask, rows, cell):
    maps = weights.unflatten(-1, (rows, -1)) * mask[:, :, None, None] / cell**2
    return maps.repeat_interleave(cell, dim=2).repeat_interleave(cell, dim=3)


def heat_between_corners(weights, mask, rows, cell):
    maps = weights.unflatten(-1, (rows, -1))
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear", align_corners=True)
    return heat / heat.sum(dim=(2, 3), keepdim=True) * mask[:, :, None, None]


def heat_that_fades(weights, mask, rows, cell):
    """Interpolate with zeros outside the outermost centres."""
    maps = F.pad(weights.unflatten(-1, (rows, -1)), (1, 1, 1, 1))
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear") / cell**2
    return heat[:, :, cell:-cell, cell:-cell] * mask[:, :, None, None]


RIGHT = {
    "keys_of": [keys_by_permuting, keys_by_loops],
    "map_of": [map_by_unflattening, map_by_chunks],
    "first_state": [first_state_by_summing],
    "step": [step_by_weights, step_with_a_mask],
    "penalty": [penalty_by_loops, penalty_by_einsum],
    "least": [least_of_equal_weights],
    "most": [most_of_one_location],
    "pixels_seen": [pixels_by_sets, pixels_by_convolutions],
    "reached": [
        reached_value_by_value,
        reached_by_random_weights,
        reached_by_jacobians,
        reached_backwards,
        reached_in_an_array,
    ],
    "inside": [inside_by_pixels, inside_by_overlaps, inside_by_products],
    "pointing": [pointing_with_tensors, pointing_by_areas],
    "mended_heat": [corrected_by_interpolating, corrected_by_hats, corrected_by_loops],
}

COLUMN_ORDER = "(rows, columns)) -> (columns, rows)).transpose(2, 3)"
WRAPPED = (
    "at = at.clamp(0, size - 1) -> pass",
    "(first + 1).clamp(max=size - 1) -> (first + 1) % size",
)
BY_THE_LARGEST = "/ cell**2 -> / heat.amax(dim=(2, 3), keepdim=True)"
NO_MASK = "return heat * mask[:, :, None, None] -> return heat"
FAULTS = [
    COLUMN_ORDER,
    questions.FIRST_PIXEL,
    questions.EXCHANGED[1],
    *WRAPPED,
    BY_THE_LARGEST,
    NO_MASK,
]
"""The faults of the notebook's function."""

WRONG = {
    "keys_of": {
        "The shape of the keys is (1, 2), expected (1, 6, 2)": (
            f"{questions.KEYS_RETURNED} -> flat.mean(dim=2)"
        ),
    },
    "map_of": {
        "The shape of the map of weights is (1, 2, 3)": "reshape(batch, words, -> reshape(-1,",
    },
    "first_state": {
        "no gradient reaches the layer `bridge`": (
            "bridge(mean) -> mean @ bridge.weight.detach().T + bridge.bias"
        ),
    },
    "step": {
        "Expected 3 results, `return new_state, context, weights`; got a tuple of 2": (
            f"{questions.RETURNED} -> return new_state, context"
        ),
        "no gradient reaches the layer `gate`": "gate(state) -> gate(state).detach()",
        "This concerns the returned context": (
            f"{questions.RETURNED} -> return new_state, context.detach(), weights"
        ),
    },
    "penalty": {"not accepted. Your code uses": doubly_stochastic_penalty},
    "pixels_seen": {
        "Expected the first and the last pixel as a tuple, got an int": (
            f"{questions.BOTH} -> return last"
        ),
        "the sizes of the layers are too large, for example because they are rounded up": [
            "padding - kernel) // stride + 1 -> padding - kernel + stride - 1) // stride + 1",
            "padding - kernel) // stride + 1 -> padding - kernel) // stride + 2",
        ],
    },
    "reached": {
        "gradients of opposite sign cancel": [
            f"{questions.OF_LOCATION}. -> {questions.OF_LOCATION}.abs().sum(dim=1, keepdim=True).",
            reached_by_the_sum_of_all,
        ],
        "Is it the gradient itself?": "return found.any(dim=0).any -> return gradients.abs().sum",
    },
    "pointing": {
        "got a dict without the key 'other'": ', "other": mean(other)} -> }',
        "Expected a dict with the keys inside, chance and other, got (": (
            'return {"inside": mean(own), "chance": mean(chance), "other": mean(other)} -> '
            "return mean(own), mean(chance), mean(other)"
        ),
    },
    "mended_heat": {
        "None: is there a `return`?": "return heat * -> heat *",
        "Expected the heat as a torch.Tensor, got a list": (
            "return heat * mask[:, :, None, None] -> return heat.tolist()"
        ),
        "Are the locations ordered column by column?": [COLUMN_ORDER, tuple(FAULTS)],
        "0.50 pixels too high. Does the weight belong to the first pixel": tuple(FAULTS[1:]),
        "the heat is drawn 0.50 pixels too low": "(cell - 1) / 2) / cell -> cell / 2) / cell",
        "the two neighbours of a pixel are exchanged from column to column": tuple(FAULTS[2:]),
        "the heat is not interpolated linearly between centres from row to row": [
            heat_in_blocks,
            heat_between_corners,
            "maps = weights.unflatten -> maps = weights.softmax(dim=2).unflatten",
        ],
        "there is heat at the opposite border": tuple(FAULTS[3:]),
        "the heat is not constant between the centres of its squares and": heat_that_fades,
        "It is divided by the largest heat of the word": tuple(FAULTS[5:]),
        "The heat of padding is not 0": NO_MASK,
        "There is NaN in the heat": "/ cell**2 -> / heat.sum(dim=(2, 3), keepdim=True)",
        "The shape of the heat is (1, 6, 6), expected (1, 1, 6, 6)": (
            "return heat * mask[:, :, None, None] -> return heat[mask]"
        ),
        "The heat of a word that is not padding is 0": "heat * mask -> heat * ~mask",
        "The values of the heat are not the expected ones": (
            "maps = weights.unflatten -> maps = weights[:1].expand_as(weights).unflatten"
        ),
    },
}

ALLOWED = {"penalty": ["one more axis"], "reached": ["a list"]}

HANDED_IN = {
    "cut_at_the_end": (
        {
            "pixels": f"{edited_source(pixels_seen, questions.AT_THE_END)}\n\n"
            + source_of(questions.reached)
        },
        ["pixels-check"],
        "The range is limited only at the image",
    ),
}
