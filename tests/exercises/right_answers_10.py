"""Right answers to 10_visual_attention, each written differently."""

import math

import torch
from torch.nn import functional as F

# Part 1


def keys_of(feature_map):
    return feature_map.flatten(2).transpose(1, 2)


def keys_by_permuting(feature_map):
    batch, channels, rows, columns = feature_map.shape
    return feature_map.permute(0, 2, 3, 1).reshape(batch, rows * columns, channels)


def keys_by_loops(feature_map):
    rows, columns = feature_map.shape[2:]
    places = [feature_map[:, :, row, column] for row in range(rows) for column in range(columns)]
    return torch.stack(places, dim=1)


def map_of(weights, rows):
    return weights.reshape(*weights.shape[:2], rows, -1)


def map_by_unflattening(weights, rows):
    return weights.unflatten(2, (rows, weights.size(2) // rows)).double()


def map_by_chunks(weights, rows):
    return torch.stack(weights.chunk(rows, dim=-1), dim=2)


KEYS = [
    (keys_of, map_of),
    (keys_by_permuting, map_by_unflattening),
    (keys_by_loops, map_by_chunks),
]

# Part 2


def first_state(annotations, bridge):
    return torch.tanh(bridge(annotations.mean(dim=1)))


def first_state_by_summing(annotations, bridge):
    mean = torch.zeros_like(annotations[:, 0])
    for place in range(annotations.size(1)):
        mean = mean + annotations[:, place] / annotations.size(1)
    return F.linear(mean, bridge.weight, bridge.bias).tanh()


def step(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    context = torch.sigmoid(gate(state)) * context
    new_state = cell(torch.cat([word, context], dim=-1), state)
    return new_state, context, weights


def step_by_weights(word, state, annotations, attention, gate, cell):
    """The weights sum the annotations anew, and the gate is written out."""
    _, weights = attention(state, annotations)
    beta = 1 / (1 + torch.exp(-gate(state)))
    context = beta * (weights.unsqueeze(-1) * annotations).sum(dim=1)
    return [cell(torch.hstack((word, context)), state), context, weights]


def step_with_a_mask(word, state, annotations, attention, gate, cell):
    everywhere = torch.ones(annotations.shape[:2], dtype=torch.bool)
    context, weights = attention(state, annotations, everywhere)
    beta = gate(state).sigmoid().squeeze(-1)
    gated = torch.einsum("b,bd->bd", beta, context)
    return cell(torch.cat((word, gated), 1), state), gated, weights


STEPS = [
    (first_state, step),
    (first_state_by_summing, step_by_weights),
    (first_state, step_with_a_mask),
]

# Part 3


def penalty(weights, tgt_mask):
    looked_at = (weights * tgt_mask.unsqueeze(-1)).sum(dim=1)
    return (1 - looked_at).square().sum(dim=-1).mean()


def penalty_by_loops(weights, tgt_mask):
    total = 0.0
    for image, real in zip(weights, tgt_mask, strict=True):
        total = total + ((image[real].sum(dim=0) - 1) ** 2).sum()
    return total / len(weights)


def penalty_by_einsum(weights, tgt_mask):
    looked_at = torch.einsum("btp,bt->bp", weights.double(), tgt_mask.double())
    return ((1 - looked_at) ** 2).sum(1).mean().reshape(1)


def least(words, places):
    return (places - words) ** 2 / places


def least_of_an_even_focus(words, places):
    return penalty(torch.full((1, words, places), 1 / places), torch.ones(1, words).bool())


def most(words, places):
    return (words - 1) ** 2 + places - 1


def most_of_one_place(words, places):
    weights = torch.zeros(1, words, places)
    weights[:, :, 0] = 1.0
    return penalty(weights, torch.ones(1, words).bool()).item()


PENALTIES = [
    (penalty, least, most),
    (penalty_by_loops, least_of_an_even_focus, most_of_one_place),
    (penalty_by_einsum, least, most),
]

# Part 4


def pixels_seen(layers, length, place):
    sizes = [length]
    for kernel, stride, padding in layers:
        sizes.append((sizes[-1] + 2 * padding - kernel) // stride + 1)
    first = last = place
    for (kernel, stride, padding), size in zip(reversed(layers), reversed(sizes[:-1]), strict=True):
        first, last = first * stride - padding, last * stride - padding + kernel - 1
        first, last = max(first, 0), min(last, size - 1)
    return first, last


def pixels_by_sets(layers, length, place):
    seen = [[pixel] for pixel in range(length)]
    for kernel, stride, padding in layers:
        seen = [[]] * padding + seen + [[]] * padding
        ends = range(kernel, len(seen) + 1, stride)
        seen = [[pixel for each in seen[end - kernel : end] for pixel in each] for end in ends]
    return [min(seen[place]), max(seen[place])]


def pixels_by_trying(layers, length, place):
    """Each pixel in turn goes through convolutions of ones."""
    found = []
    for pixel in range(length):
        line = torch.zeros(1, 1, length)
        line[0, 0, pixel] = 1.0
        for kernel, stride, padding in layers:
            line = F.conv1d(line, torch.ones(1, 1, kernel), stride=stride, padding=padding)
        if line[0, 0, place] > 0:
            found.append(pixel)
    return torch.tensor([found[0], found[-1]])


def reached(network, images, row, column):
    images = images.clone().requires_grad_()
    found = torch.zeros(images.shape[2:], dtype=torch.bool)
    for value in network(images)[:, :, row, column].flatten():
        (gradient,) = torch.autograd.grad(value, images, retain_graph=True)
        found |= (gradient != 0).any(dim=0)[0]
    return found


def reached_by_random_weights(network, images, row, column):
    """Channels that are weighed at random do not cancel."""
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


PIXELS = [
    (pixels_seen, reached),
    (pixels_by_sets, reached_by_random_weights),
    (pixels_by_trying, reached_by_jacobians),
    (pixels_seen, reached_backwards),
]

# Part 5


def inside(weights, box, cell):
    top, left, bottom, right = box
    spread = weights.repeat_interleave(cell, dim=0).repeat_interleave(cell, dim=1) / cell**2
    return spread[top:bottom, left:right].sum()


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


def pointing_with(inside):
    def pointing(weights, boxes, cell):
        named = [(w, box) for w, box in zip(weights, boxes, strict=True) if box is not None]
        even = torch.full_like(weights[0], 1 / weights[0].numel())
        own = [inside(w, box, cell) for w, box in named]
        chance = [inside(even, box, cell) for _, box in named]
        other = [inside(w, b, cell) for w, own_box in named for _, b in named if b != own_box]
        return {
            "inside": sum(own) / len(own),
            "chance": sum(chance) / len(chance),
            "other": sum(other) / len(other) if other else None,
        }

    return pointing


pointing = pointing_with(inside)


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


INSIDE = [
    (inside, pointing),
    (inside_by_overlaps, pointing_by_areas),
    (inside_by_products, pointing_with(inside_by_products)),
]

# Part 6


def mended_heat(weights, mask, rows, cell):
    batch, words, places = weights.shape
    maps = weights.reshape(batch, words, rows, places // rows)

    def between(size):
        at = ((torch.arange(size * cell) - (cell - 1) / 2) / cell).clamp(0, size - 1)
        first = at.floor().long()
        return first, (first + 1).clamp(max=size - 1), at - first

    above, below, down = between(rows)
    left, right, across = between(places // rows)
    lines = torch.lerp(maps[:, :, above], maps[:, :, below], down.unsqueeze(1))
    heat = torch.lerp(lines[..., left], lines[..., right], across)
    return heat / cell**2 * mask[:, :, None, None]


def mended_by_interpolating(weights, mask, rows, cell):
    maps = weights.unflatten(-1, (rows, -1))
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear")
    heat = heat / heat.sum(dim=(2, 3), keepdim=True)
    return torch.where(mask[..., None, None], heat, torch.zeros_like(heat)).double()


def mended_by_hats(weights, mask, rows, cell):
    """Each place's hat, cut off at the borders, as two matrices."""

    def hats(size):
        at = ((torch.arange(size * cell) + 0.5) / cell - 0.5).clamp(min=0, max=size - 1)
        return (1 - (at.unsqueeze(1) - torch.arange(size)).abs()).clamp(min=0) / cell

    columns = weights.size(-1) // rows
    maps = weights.view(*weights.shape[:2], rows, columns) * mask.float()[:, :, None, None]
    return hats(rows) @ maps @ hats(columns).T


def mended_by_loops(weights, mask, rows, cell):
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


MENDED = [mended_heat, mended_by_interpolating, mended_by_hats, mended_by_loops]

# Each part's right answers, by the name of its check
RIGHT = {
    "keys": KEYS,
    "steps": STEPS,
    "penalty": PENALTIES,
    "pixels": PIXELS,
    "inside": INSIDE,
    "bug_hunt": MENDED,
}
