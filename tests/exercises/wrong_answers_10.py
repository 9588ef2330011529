"""Plausible wrong answers to 10_visual_attention, with words of the message of each."""

import torch
from right_answers_10 import (
    first_state,
    inside,
    keys_of,
    least,
    map_of,
    mended_heat,
    most,
    penalty,
    pixels_seen,
    pointing,
    reached,
    step,
)
from torch.nn import functional as F

# Part 1


def keys_cut_anew(feature_map):
    batch, channels, rows, columns = feature_map.shape
    return feature_map.reshape(batch, rows * columns, channels)


def keys_by_columns(feature_map):
    return feature_map.permute(0, 3, 2, 1).flatten(1, 2)


def keys_channels_first(feature_map):
    return feature_map.flatten(2)


def keys_with_two_axes(feature_map):
    return feature_map.permute(0, 2, 3, 1)


def keys_of_a_mixed_batch(feature_map):
    batch, channels, _, _ = feature_map.shape
    return feature_map.permute(2, 3, 0, 1).reshape(batch, -1, channels)


def keys_averaged(feature_map):
    return feature_map.mean(dim=(2, 3))


def keys_without_a_way_back(feature_map):
    return torch.tensor(feature_map.flatten(2).transpose(1, 2).tolist())


def map_by_columns(weights, rows):
    return weights.unflatten(2, (-1, rows)).transpose(2, 3)


def map_turned(weights, rows):
    return weights.unflatten(2, (-1, rows))


def map_on_its_head(weights, rows):
    return weights.unflatten(2, (rows, -1)).flip(2)


def map_of_mixed_words(weights, rows):
    batch, words, places = weights.shape
    return weights.transpose(1, 2).reshape(batch, words, rows, places // rows)


def map_without_words(weights, rows):
    return weights.reshape(-1, rows, weights.size(2) // rows)


KEYS = [
    ((keys_cut_anew, map_of), "each key mixes locations and channels"),
    ((keys_by_columns, map_of), "keys_of: The locations are ordered column by column"),
    ((keys_channels_first, map_of), "keys_of: The last two dimensions are exchanged"),
    ((keys_with_two_axes, map_of), "Rows and columns are still two dimensions"),
    ((keys_of_a_mixed_batch, map_of), "keys_of: The images of the batch are mixed"),
    ((keys_averaged, map_of), "The shape of the keys is (1, 2), expected (1, 6, 2)"),
    ((keys_without_a_way_back, map_of), "no gradient flows through them"),
    ((keys_of, map_by_columns), "map_of: The map is filled column by column"),
    ((keys_of, map_turned), "map_of: Rows and columns are exchanged"),
    ((keys_of, map_on_its_head), "map_of: The order of the rows is reversed"),
    ((keys_of, map_of_mixed_words), "map_of: Words and locations are mixed"),
    ((keys_of, map_without_words), "The shape of the map of weights is (1, 2, 3)"),
]

# Part 2


def start_without_tanh(annotations, bridge):
    return bridge(annotations.mean(dim=1))


def start_from_the_sum(annotations, bridge):
    return torch.tanh(bridge(annotations.sum(dim=1)))


def start_from_the_largest(annotations, bridge):
    return torch.tanh(bridge(annotations.max(dim=1).values))


def start_from_one_place(annotations, bridge):
    return torch.tanh(bridge(annotations[:, 0]))


def start_averaged_late(annotations, bridge):
    return torch.tanh(bridge(annotations)).mean(dim=1)


def start_of_the_batch(annotations, bridge):
    mean = annotations.flatten(0, 1).mean(dim=0)
    return torch.tanh(bridge(mean)).repeat(len(annotations), 1)


def step_with(gate_of=torch.sigmoid, let_through=torch.mul, ask_new=False):
    """Return the right step with another gate."""

    def step(word, state, annotations, attention, gate, cell):
        context, weights = attention(state, annotations)
        context = let_through(gate_of(gate(state)), context)
        return cell(torch.cat([word, context], dim=-1), state), context, weights

    return step


step_without_gate = step_with(let_through=lambda beta, context: context)
step_without_sigmoid = step_with(gate_of=lambda number: number)
step_with_tanh = step_with(gate_of=torch.tanh)
step_turned_round = step_with(gate_of=lambda number: 1 - number.sigmoid())
step_squeezed = step_with(gate_of=lambda number: number.sigmoid().squeeze(-1))
step_adding = step_with(let_through=torch.add)


def step_reads_ungated(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    new_state = cell(torch.cat([word, context], dim=-1), state)
    return new_state, torch.sigmoid(gate(state)) * context, weights


def step_returns_ungated(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    gated = torch.sigmoid(gate(state)) * context
    return cell(torch.cat([word, gated], dim=-1), state), context, weights


def step_gates_late(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    state = cell(torch.cat([word, context], dim=-1), state)
    return state, torch.sigmoid(gate(state)) * context, weights


def step_looks_late(word, state, annotations, attention, gate, cell):
    new_state, _, _ = step(word, state, annotations, attention, gate, cell)
    context, weights = attention(new_state, annotations)
    return new_state, torch.sigmoid(gate(state)) * context, weights


def step_context_first(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    context = torch.sigmoid(gate(state)) * context
    return cell(torch.cat([context, word], dim=-1), state), context, weights


def step_stands_still(word, state, annotations, attention, gate, cell):
    _, context, weights = step(word, state, annotations, attention, gate, cell)
    return state, context, weights


def step_forgets(word, state, annotations, attention, gate, cell):
    _, context, weights = step(word, state, annotations, attention, gate, cell)
    return cell(torch.cat([word, context], dim=-1)), context, weights


def step_gates_weights(word, state, annotations, attention, gate, cell):
    _, weights = attention(state, annotations)
    weights = torch.sigmoid(gate(state)) * weights
    context = torch.einsum("bp,bpd->bd", weights, annotations)
    return cell(torch.cat([word, context], dim=-1), state), context, weights


def step_hard(word, state, annotations, attention, gate, cell):
    _, weights = attention(state, annotations)
    best = annotations[torch.arange(len(annotations)), weights.argmax(dim=-1)]
    context = torch.sigmoid(gate(state)) * best
    return cell(torch.cat([word, context], dim=-1), state), context, weights


def step_in_another_order(word, state, annotations, attention, gate, cell):
    new_state, context, weights = step(word, state, annotations, attention, gate, cell)
    return context, weights, new_state


def step_of_two(word, state, annotations, attention, gate, cell):
    return step(word, state, annotations, attention, gate, cell)[:2]


def step_of_nothing(word, state, annotations, attention, gate, cell):
    step(word, state, annotations, attention, gate, cell)


def step_cut_off(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    context = torch.sigmoid(gate(state)).detach() * context
    return cell(torch.cat([word, context], dim=-1), state), context, weights


STEPS = [
    ((start_without_tanh, step), "first_state: The tanh is missing"),
    ((start_from_the_sum, step), "first_state: The annotation vectors are summed"),
    ((start_from_the_largest, step), "first_state: The maximum over the locations is used"),
    ((start_from_one_place, step), "first_state: Only one location is used"),
    ((start_averaged_late, step), "first_state: The mean is computed after the tanh"),
    ((start_of_the_batch, step), "also computed over the images of the batch"),
    ((first_state, step_without_gate), "step: The gate is missing"),
    ((first_state, step_without_sigmoid), "The sigmoid of the gate is missing"),
    ((first_state, step_with_tanh), "The gate is computed with a tanh"),
    ((first_state, step_turned_round), "The weighted sum is multiplied by 1 - β"),
    (
        (first_state, step_squeezed),
        "The gate of image k multiplies entry k",
    ),
    ((first_state, step_adding), "β is added to the weighted sum"),
    ((first_state, step_reads_ungated), "The cell receives the weighted sum without the gate"),
    (
        (first_state, step_returns_ungated),
        "The returned context vector is the weighted sum",
    ),
    ((first_state, step_gates_late), "The gate is computed from the new state"),
    ((first_state, step_looks_late), "The query of the attention is the new state"),
    ((first_state, step_context_first), "The input of the cell is [context; word]"),
    ((first_state, step_stands_still), "The returned state is the old one"),
    ((first_state, step_forgets), "The cell does not receive the old state"),
    ((first_state, step_gates_weights), "The returned weights are multiplied by β"),
    ((first_state, step_hard), "only the location with the largest weight (hard attention)"),
    ((first_state, step_in_another_order), "The three results are right, but in the wrong order"),
    ((first_state, step_of_two), "Expected three results, `return new_state, context, weights`"),
    ((first_state, step_of_nothing), "None: is there a `return`?"),
    ((first_state, step_cut_off), "no gradient reaches the gate's layer"),
]

# Part 3


def penalty_with(looked_at, error=torch.square):
    """Return the right penalty with another sum over the words or another error."""

    def penalty(weights, tgt_mask):
        return error(1 - looked_at(weights, tgt_mask.unsqueeze(-1))).sum(dim=-1).mean()

    return penalty


def real_sum(weights, real):
    return (weights * real).sum(dim=1)


penalty_with_padding = penalty_with(lambda weights, real: weights.sum(dim=1))
penalty_of_padding = penalty_with(lambda weights, real: (weights * ~real).sum(dim=1))
penalty_over_places = penalty_with(lambda weights, real: weights.sum(dim=-1) * real[..., 0])
penalty_not_squared = penalty_with(real_sum, error=torch.abs)
penalty_with_signs = penalty_with(real_sum, error=lambda difference: difference)
penalty_of_means = penalty_with(lambda weights, real: (weights * real).mean(dim=1))


def penalty_word_by_word(weights, tgt_mask):
    return ((1 - weights).square() * tgt_mask.unsqueeze(-1)).sum(dim=(1, 2)).mean()


def penalty_mean_over_places(weights, tgt_mask):
    return (1 - real_sum(weights, tgt_mask.unsqueeze(-1))).square().mean()


def penalty_of_the_batch(weights, tgt_mask):
    return (1 - real_sum(weights, tgt_mask.unsqueeze(-1))).square().sum()


def penalty_of_each(weights, tgt_mask):
    return (1 - real_sum(weights, tgt_mask.unsqueeze(-1))).square().sum(dim=-1)


def penalty_as_a_number(weights, tgt_mask):
    return torch.tensor(penalty(weights, tgt_mask).item())


def penalty_written_over(weights, tgt_mask):
    weights[~tgt_mask] = 0
    return (1 - weights.sum(dim=1)).square().sum(dim=-1).mean()


def least_of_hard_words(words, places):
    return max(places - words, 0)


def least_nothing_if_enough(words, places):
    return 0 if words >= places else (places - words) ** 2 / places


def least_of_one_place(words, places):
    return (1 - words / places) ** 2


def least_not_shared_out(words, places):
    return (places - words) ** 2


def most_of_one_place_alone(words, places):
    return (words - 1) ** 2


def most_of_the_others(words, places):
    return places - 1


def most_of_one_too_many(words, places):
    return (words - 1) ** 2 + places


def most_without_one(words, places):
    return words**2 + places - 1


def most_of_all_words(words, places):
    return words * words


def most_not_squared(words, places):
    return abs(1 - words) + places - 1


def most_of_different_locations(words, locations):
    return abs(locations - words)


def most_everywhere(words, places):
    return places * (words - 1) ** 2


PENALTIES = [
    ((penalty_with_padding, least, most), "The weights of padding are included"),
    ((penalty_of_padding, least, most), "penalty: The mask is inverted"),
    ((penalty_over_places, least, most), "which gives 1 for every word"),
    ((penalty_not_squared, least, most), "The differences from 1 are not squared"),
    ((penalty_with_signs, least, most), "The differences from 1 are not squared"),
    ((penalty_of_means, least, most), "The weights are averaged over the words"),
    ((penalty_word_by_word, least, most), "Each weight is compared with 1 separately"),
    ((penalty_mean_over_places, least, most), "The squares are averaged over the locations"),
    ((penalty_of_the_batch, least, most), "The penalties of the images are summed"),
    ((penalty_of_each, least, most), "There is one value for each image"),
    ((penalty_as_a_number, least, most), "no gradient flows through them"),
    ((penalty_written_over, least, most), "changes its input weights"),
    (
        (penalty, least_of_hard_words, most),
        "least: Here each word has all of its weight",
    ),
    (
        (penalty, least_nothing_if_enough, most),
        "least: The penalty can be 0 only if there are",
    ),
    ((penalty, least_of_one_place, most), "least: This is the contribution of one location"),
    (
        (penalty, least_not_shared_out, most),
        "least: This value is too large by the factor",
    ),
    ((penalty, least, most_of_one_place_alone), "most: The other locations are missing"),
    ((penalty, least, most_of_all_words), "most: There are two mistakes"),
    ((penalty, least, most_not_squared), "the location with all of the weight is not squared"),
    (
        (penalty, least, most_of_the_others),
        "most: The contribution of the location with",
    ),
    ((penalty, least, most_of_one_too_many), "most: One location too many is counted"),
    ((penalty, least, most_without_one), "Subtract 1 from it before squaring"),
    (
        (penalty, least, most_of_different_locations),
        "most: Here the words have their weight on different locations",
    ),
    (
        (penalty, least, most_everywhere),
        "most: Here every location has a weight of 1",
    ),
]

# Part 4


def walking(pads=1, strides=1, kernels=1, clip="each", forwards=False, fitted=True):
    """Return the right function with something left out."""

    def pixels_seen(layers, length, place):
        sizes = [length]
        for kernel, stride, padding in layers:
            sizes.append((sizes[-1] + 2 * padding - (kernel if fitted else stride)) // stride + 1)
        first = last = place
        way = list(zip(layers, sizes[:-1], strict=True))
        for (kernel, stride, padding), size in way if forwards else way[::-1]:
            stride = stride if strides else 1
            first = first * stride - padding * pads
            last = last * stride - padding * pads + (kernel if kernels else stride) - 1
            if clip == "each":
                first, last = max(first, 0), min(last, size - 1)
        if clip == "end":
            first, last = max(first, 0), min(last, length - 1)
        return first, last

    return pixels_seen


pixels_without_padding = walking(pads=0)
pixels_beyond_the_border = walking(clip="never")
pixels_cut_at_the_end = walking(clip="end")
pixels_forwards = walking(clip="end", forwards=True)
pixels_without_strides = walking(strides=0, clip="end")
pixels_without_fitting = walking(fitted=False)
pixels_without_kernels = walking(kernels=0, pads=0, clip="end")


def pixels_one_too_far(layers, length, place):
    first, last = pixels_seen(layers, length, place)
    return first, last + 1


def pixels_counted(layers, length, place):
    first, last = pixels_seen(layers, length, place)
    return first, last - first + 1


def pixels_padded_once(layers, length, place):
    size, jump, start = 1, 1, 0
    for kernel, stride, padding in layers:
        size, start, jump = size + (kernel - 1) * jump, start - padding, jump * stride
    first = start + place * jump
    return max(first, 0), min(first + size - 1, length - 1)


def pixels_all(layers, length, place):
    first, last = pixels_seen(layers, length, place)
    return list(range(first, last + 1))


def gradients(network, images, row, column):
    """Return the gradients (channels, images, height, width)."""
    images = images.clone().requires_grad_()
    place = network(images)[:, :, row, column]
    found = [torch.autograd.grad(c.sum(), images, retain_graph=True)[0] for c in place.unbind(1)]
    return torch.stack(found)[:, :, 0]


def reached_by_the_sum(network, images, row, column):
    images = images.clone().requires_grad_()
    network(images)[:, :, row, column].sum().backward()
    return (images.grad != 0).any(dim=0)[0]


def reached_by_the_length(network, images, row, column):
    images = images.clone().requires_grad_()
    network(images)[:, :, row, column].square().sum().backward()
    return (images.grad != 0).any(dim=0)[0]


def reached_by_the_size(network, images, row, column):
    images = images.clone().requires_grad_()
    network(images)[:, :, row, column].abs().sum().backward()
    return (images.grad != 0).any(dim=0)[0]


def reached_by_one_channel(*asked):
    return (gradients(*asked)[0] != 0).any(dim=0)


def reached_upwards(*asked):
    return (gradients(*asked) > 0).any(dim=0).any(dim=0)


def reached_by_summed_images(*asked):
    return (gradients(*asked).sum(dim=1) != 0).any(dim=0)


def reached_in_one_image(*asked):
    return (gradients(*asked)[:, 0] != 0).any(dim=0)


def reached_in_all_images(*asked):
    return (gradients(*asked) != 0).any(dim=0).all(dim=0)


def reached_in_all_channels(*asked):
    return (gradients(*asked) != 0).all(dim=0).any(dim=0)


def reached_of_everything(network, images, row, column):
    images = images.clone().requires_grad_()
    network(images).sum().backward()
    return (images.grad != 0).any(dim=0)[0]


def reached_of_the_whole_map(network, images, row, column):
    images = images.clone().requires_grad_()
    found = torch.zeros(images.shape[2:], dtype=torch.bool)
    for channel in network(images).sum(dim=(0, 2, 3)):
        (gradient,) = torch.autograd.grad(channel, images, retain_graph=True)
        found |= (gradient != 0).any(dim=0)[0]
    return found


def reached_exchanged(network, images, row, column):
    return reached(network, images, column, row)


def reached_each_image(*asked):
    return (gradients(*asked) != 0).any(dim=0)


def reached_inverted(*asked):
    return ~reached(*asked)


def reached_as_gradients(*asked):
    return gradients(*asked).abs().sum(dim=(0, 1))


PIXELS = [
    ((pixels_without_padding, reached), "The padding is not subtracted"),
    ((pixels_beyond_the_border, reached), "The range contains padding"),
    ((pixels_cut_at_the_end, reached), "The range is limited only at the image"),
    ((pixels_forwards, reached), "The layers are processed from the first to the last"),
    ((pixels_without_strides, reached), "The strides are ignored"),
    (
        (pixels_without_fitting, reached),
        "because the kernel is ignored",
    ),
    ((pixels_without_kernels, reached), "Only the strides are used"),
    ((pixels_one_too_far, reached), "The last pixel is too large by 1"),
    ((pixels_counted, reached), "These are the first pixel and the number of pixels"),
    ((pixels_padded_once, reached), "The padding of an inner layer is subtracted in pixels"),
    ((pixels_all, reached), "This is the list of all pixels of the receptive field"),
    ((pixels_seen, reached_by_the_sum), "so gradients of opposite sign cancel"),
    ((pixels_seen, reached_by_the_length), "the gradient of the sum of the squared channels"),
    ((pixels_seen, reached_by_the_size), "so gradients of opposite sign cancel"),
    ((pixels_seen, reached_by_one_channel), "Only the first channel is tested"),
    ((pixels_seen, reached_upwards), "Only positive gradients are counted"),
    ((pixels_seen, reached_by_summed_images), "The gradients of the images are summed"),
    ((pixels_seen, reached_in_one_image), "Only the first image is tested"),
    ((pixels_seen, reached_in_all_images), "only if its gradient is not 0 for every image"),
    ((pixels_seen, reached_in_all_channels), "only if its gradient is not 0 for every channel"),
    ((pixels_seen, reached_of_the_whole_map), "These are the pixels that influence any location"),
    ((pixels_seen, reached_of_everything), "so gradients of opposite sign cancel"),
    ((pixels_seen, reached_exchanged), "Row and column are exchanged"),
    ((pixels_seen, reached_each_image), "There is one result for each image"),
    ((pixels_seen, reached_inverted), "reached: The result is inverted"),
    ((pixels_seen, reached_as_gradients), "Is it the gradient itself?"),
]

# Part 5


def overlaps(weights, box, cell):
    top, left, bottom, right = box
    within = torch.zeros(weights.size(0) * cell, weights.size(1) * cell)
    within[top:bottom, left:right] = 1
    return within.unfold(0, cell, cell).unfold(1, cell, cell).sum(dim=(2, 3))


def inside_touched(weights, box, cell):
    return weights[overlaps(weights, box, cell) > 0].sum()


def inside_altogether(weights, box, cell):
    return weights[overlaps(weights, box, cell) == cell**2].sum()


def inside_by_centres(weights, box, cell):
    top, left, bottom, right = box
    share = 0.0
    for row, line in enumerate(weights.tolist()):
        for column, weight in enumerate(line):
            y, x = (row + 0.5) * cell, (column + 0.5) * cell
            share += weight * (top < y < bottom and left < x < right)
    return share


def inside_not_spread(weights, box, cell):
    return (weights * overlaps(weights, box, cell)).sum()


def inside_spread_once(weights, box, cell):
    return (weights * overlaps(weights, box, cell)).sum() / cell


def inside_on_average(weights, box, cell):
    spread = torch.kron(weights, torch.ones(cell, cell))
    top, left, bottom, right = box
    return spread[top:bottom, left:right].mean()


def inside_exchanged(weights, box, cell):
    left, top, right, bottom = box
    return inside(weights, (top, left, bottom, right), cell)


def inside_one_more(weights, box, cell):
    top, left, bottom, right = box
    return inside(weights, (top, left, bottom + 1, right + 1), cell)


def inside_outside(weights, box, cell):
    return 1 - inside(weights, box, cell)


def inside_even(weights, box, cell):
    return overlaps(weights, box, cell).sum() / (weights.numel() * cell**2)


def pointing_changed(**changes):
    """Return the right answer with some other values."""

    def pointing_otherwise(weights, boxes, cell):
        named = [(w, box) for w, box in zip(weights, boxes, strict=True) if box is not None]
        made = {key: change(named, boxes, cell) for key, change in changes.items()}
        return pointing(weights, boxes, cell) | made

    return pointing_otherwise


def mean(shares):
    shares = list(shares)
    return sum(shares) / len(shares) if shares else None


pointing_all_words = pointing_changed(
    inside=lambda named, boxes, cell: sum(inside(w, b, cell) for w, b in named) / len(boxes)
)
pointing_sum = pointing_changed(
    inside=lambda named, boxes, cell: sum(inside(w, b, cell) for w, b in named)
)
pointing_hits = pointing_changed(
    inside=lambda named, boxes, cell: mean(
        float(overlaps(w, b, cell).flatten()[w.argmax()] > 0) for w, b in named
    )
)
pointing_chance_of_a_place = pointing_changed(
    chance=lambda named, boxes, cell: 1 / named[0][0].numel()
)
pointing_chance_of_a_box = pointing_changed(chance=lambda named, boxes, cell: 1 / len(named))
pointing_chance_in_pixels = pointing_changed(
    chance=lambda named, boxes, cell: mean(float((b[2] - b[0]) * (b[3] - b[1])) for _, b in named)
)
pointing_other_same = pointing_changed(
    other=lambda named, boxes, cell: mean(
        inside(w, b, cell)
        for i, (w, _) in enumerate(named)
        for j, (_, b) in enumerate(named)
        if i != j
    )
)
pointing_other_one_way = pointing_changed(
    other=lambda named, boxes, cell: mean(
        inside(w, other, cell)
        for i, (w, box) in enumerate(named)
        for _, other in named[i + 1 :]
        if box != other
    )
)
pointing_other_own = pointing_changed(
    other=lambda named, boxes, cell: mean(inside(w, b, cell) for w, _ in named for _, b in named)
)
pointing_other_by_words = pointing_changed(
    other=lambda named, boxes, cell: mean(
        mean(each)
        for each in ([inside(w, b, cell) for _, b in named if b != own] for w, own in named)
        if each
    )
)
pointing_other_outside = pointing_changed(
    other=lambda named, boxes, cell: 1 - mean(inside(w, b, cell) for w, b in named)
)
pointing_other_zero = pointing_changed(
    other=lambda named, boxes, cell: (
        mean(inside(w, b, cell) for w, own in named for _, b in named if b != own) or 0.0
    )
)


def pointing_without_other(weights, boxes, cell):
    return {key: pointing(weights, boxes, cell)[key] for key in ("inside", "chance")}


def pointing_three_numbers(weights, boxes, cell):
    return tuple(pointing(weights, boxes, cell).values())


INSIDE = [
    ((inside_touched, pointing), "A location that overlaps the box counts with all of its weight"),
    ((inside_altogether, pointing), "only if all of its pixels are inside the box"),
    ((inside_by_centres, pointing), "A location counts if its centre is inside the box"),
    ((inside_not_spread, pointing), "Each pixel counts with the whole weight of its location"),
    ((inside_spread_once, pointing), "The weight is divided by cell. A location has"),
    ((inside_on_average, pointing), "The pixels of the box are averaged"),
    ((inside_exchanged, pointing), "inside: Rows and columns are exchanged"),
    ((inside_one_more, pointing), "Row `bottom` and column `right` are included"),
    ((inside_outside, pointing), "This is the share outside the box"),
    ((inside_even, pointing), "The weights are not used"),
    ((inside, pointing_all_words), "pointing, inside: Words without a box are counted as 0"),
    ((inside, pointing_sum), "pointing, inside: The words are summed"),
    ((inside, pointing_hits), "how often the location with the largest weight overlaps the box"),
    (
        (inside, pointing_chance_of_a_place),
        "This is 1 divided by the number of locations",
    ),
    ((inside, pointing_chance_of_a_box), "This is 1 divided by the number of boxes"),
    ((inside, pointing_chance_in_pixels), "This is the area of the boxes in pixels"),
    ((inside, pointing_other_same), "Pairs of words with the same box are included"),
    ((inside, pointing_other_own), "Each word is also paired with its own box"),
    ((inside, pointing_other_one_way), "Each pair is counted in one direction only"),
    ((inside, pointing_other_by_words), "This is a mean over words of means over boxes"),
    ((inside, pointing_other_outside), "This is all of the weight outside the word's own box"),
    ((inside, pointing_other_zero), "There is no such pair. The value is then None"),
    ((inside, pointing_without_other), "The key 'other' is missing"),
    ((inside, pointing_three_numbers), "as a dict, got a tuple of 3"),
]

# Part 6


def to_the_middle(cell):
    return (cell - 1) / 2


def heat_with(order=True, shift=to_the_middle, wrap=False, mirror=False, share=True, pad=True):
    """Return the corrected function with some of its faults."""

    def heat_of(weights, mask, rows, cell):
        batch, words, places = weights.shape
        columns = places // rows
        maps = weights.reshape(batch, words, rows, columns)
        if not order:
            maps = weights.reshape(batch, words, columns, rows).transpose(2, 3)

        def between(size):
            at = (torch.arange(size * cell) - shift(cell)) / cell
            first = at.floor().long()
            part = at - first
            if wrap:
                return first % size, (first + 1) % size, part
            return first.clamp(0, size - 1), (first + 1).clamp(0, size - 1), part

        above, below, down = between(rows)
        left, right, across = between(columns)
        lines = torch.lerp(maps[:, :, above], maps[:, :, below], down.unsqueeze(1))
        if mirror:
            left, right = right, left
        heat = torch.lerp(lines[..., left], lines[..., right], across)
        heat = heat / (cell**2 if share else heat.amax(dim=(2, 3), keepdim=True))
        return heat * mask[:, :, None, None] if pad else heat

    return heat_of


heat_by_columns = heat_with(order=False)
heat_at_the_corner = heat_with(shift=lambda cell: 0)
heat_half_a_pixel_off = heat_with(shift=lambda cell: cell / 2)
heat_wrapped = heat_with(wrap=True)
heat_mirrored = heat_with(mirror=True)
heat_of_the_largest = heat_with(share=False)
heat_of_padding = heat_with(pad=False)
heat_with_all_faults = heat_with(False, lambda cell: 0, True, True, False, False)


def heat_in_blocks(weights, mask, rows, cell):
    maps = weights.unflatten(-1, (rows, -1)) * mask[:, :, None, None] / cell**2
    return maps.repeat_interleave(cell, dim=2).repeat_interleave(cell, dim=3)


def heat_by_interpolating(weights, mask, rows, cell, **options):
    maps = weights.unflatten(-1, (rows, -1))
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear", **options)
    return heat * mask[:, :, None, None]


def heat_between_corners(weights, mask, rows, cell):
    heat = heat_by_interpolating(weights, mask, rows, cell, align_corners=True)
    return heat / heat.sum(dim=(2, 3), keepdim=True).clamp(min=1e-9)


def heat_not_shared_out(weights, mask, rows, cell):
    return heat_by_interpolating(weights, mask, rows, cell)


def heat_that_fades(weights, mask, rows, cell):
    """Interpolate with zeros outside the outermost centres."""
    maps = F.pad(weights.unflatten(-1, (rows, -1)), (1, 1, 1, 1))
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear") / cell**2
    return heat[:, :, cell:-cell, cell:-cell] * mask[:, :, None, None]


def heat_of_a_softmax(weights, mask, rows, cell):
    return mended_heat(weights.softmax(dim=-1), mask, rows, cell)


def heat_of_real_words_alone(weights, mask, rows, cell):
    return mended_heat(weights, mask, rows, cell)[mask]


def heat_of_no_word(weights, mask, rows, cell):
    return mended_heat(weights, ~mask, rows, cell)


HEATS = [
    (heat_with_all_faults, "Are the locations ordered column by column?"),
    (heat_by_columns, "Are the locations ordered column by column?"),
    (heat_at_the_corner, "0.50 pixels too high. Does the weight belong to the first pixel"),
    (heat_half_a_pixel_off, "the heat is drawn 0.50 pixels too low"),
    (heat_mirrored, "the two neighbours of a pixel are exchanged from column to column"),
    (heat_in_blocks, "the heat is not interpolated linearly between centres from row to row"),
    (heat_between_corners, "the heat is not interpolated linearly between centres from row to row"),
    (heat_wrapped, "there is heat at the opposite border"),
    (heat_that_fades, "the heat is not constant between the centres of its squares and"),
    (heat_of_the_largest, "It is divided by the largest heat of the word"),
    (heat_not_shared_out, "The weight of a location is distributed over cell · cell pixels"),
    (heat_of_padding, "The heat of padding is not 0"),
    (heat_of_a_softmax, "the heat is not interpolated linearly between centres"),
    (heat_of_real_words_alone, "The shape of the heat is (1, 6, 6), expected (1, 1, 6, 6)"),
    (heat_of_no_word, "The heat of a word that is not padding is 0"),
]

WRONG = {
    "keys": KEYS,
    "steps": STEPS,
    "penalty": PENALTIES,
    "pixels": PIXELS,
    "inside": INSIDE,
    "bug_hunt": HEATS,
}

CUT_AT_THE_END = """def pixels_seen(layers, length, place):
    first = last = place
    for kernel, stride, padding in reversed(layers):
        first = first * stride - padding
        last = last * stride - padding + kernel - 1
    return max(first, 0), min(last, length - 1)


def reached(network, images, row, column):
    images = images.clone().requires_grad_()
    found = torch.zeros(images.shape[2:], dtype=torch.bool)
    for value in network(images)[:, :, row, column].flatten():
        (gradient,) = torch.autograd.grad(value, images, retain_graph=True)
        found |= (gradient != 0).any(dim=0)[0]
    return found
"""

WITHOUT_GATE = """def first_state(annotations, bridge):
    return torch.tanh(bridge(annotations.mean(dim=1)))


def step(word, state, annotations, attention, gate, cell):
    context, weights = attention(state, annotations)
    return cell(torch.cat([word, context], dim=-1), state), context, weights
"""

HANDED_IN = {
    "cut_at_the_end": (
        {"pixels": CUT_AT_THE_END},
        ["pixels-check"],
        "The range is limited only at the image",
    ),
    "without_gate": ({"steps": WITHOUT_GATE}, ["steps-check"], "The gate is missing"),
}
