"""Right answers to 21_since_2017, each written differently."""

import itertools
import math

import numpy as np
import torch
from torch import nn

from attentively.scaled_dot_product import scaled_dot_product_attention

# Part 1


def rotate(x, first=0):
    d_head = x.shape[-1]
    places = torch.arange(first, first + x.shape[2])
    angles = places.unsqueeze(1) / 10000 ** (torch.arange(0, d_head, 2) / d_head)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def rotate_halves(x, first=0):
    """As Llama has it: the second half, with a minus, beside the first; in 64 bits."""
    d = x.shape[-1]
    theta = 10000.0 ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = torch.outer(torch.arange(x.shape[-2]) + first, theta).repeat(1, 2)
    turned = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos() + turned * angles.sin()


def rotate_complex(x, first=0):
    """A pair is a complex number, and a turn a product."""
    d = x.shape[-1]
    theta = 10000 ** (-torch.arange(0, d, 2) / d)
    angles = torch.outer(torch.arange(first, first + x.shape[2]).float(), theta)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def rotate_in_loops(x, first=0):
    words = []
    for place in range(x.shape[2]):
        numbers = []
        for i in range(0, x.shape[3], 2):
            angle = (first + place) / 10000 ** (i / x.shape[3])
            a, b = x[:, :, place, i], x[:, :, place, i + 1]
            numbers.append(a * math.cos(angle) - b * math.sin(angle))
            numbers.append(a * math.sin(angle) + b * math.cos(angle))
        words.append(torch.stack(numbers, dim=-1))
    return torch.stack(words, dim=2)


# Part 2


def slopes(num_heads):
    return 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)


def alibi(num_heads, queries, keys):
    places = torch.arange(keys)
    distances = places[keys - queries :].unsqueeze(1) - places
    bias = -slopes(num_heads).reshape(-1, 1, 1) * distances
    return bias.masked_fill(distances < 0, -math.inf)


def slopes_as_a_list(num_heads):
    factor = 0.5 ** (8 / num_heads)
    return [factor**head for head in range(1, num_heads + 1)]


def alibi_in_loops(num_heads, queries, keys):
    bias = torch.full((num_heads, queries, keys), float("-inf"))
    for head, slope in enumerate(slopes_as_a_list(num_heads)):
        for row in range(queries):
            for j in range(keys - queries + row + 1):
                bias[head, row, j] = -slope * (keys - queries + row - j)
    return bias


def slopes_in_turn(num_heads):
    return torch.full((num_heads,), 2 ** (-8 / num_heads), dtype=torch.float64).cumprod(0)


def alibi_with_a_large_number(num_heads, queries, keys):
    """What is hidden gets the least number that there is, and the rest a table of all places."""
    whole = -(torch.arange(keys)[:, None] - torch.arange(keys)[None, :])
    bias = whole * slopes_in_turn(num_heads)[:, None, None]
    bias = bias + torch.triu(torch.full((keys, keys), torch.finfo(torch.float32).min), 1)
    return bias[:, -queries:]


# Part 3


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        mean_square = x.square().mean(dim=-1, keepdim=True)
        return self.gain * x / torch.sqrt(mean_square + self.eps)


class RMSNormBySums(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.full((d_model,), 1.0))
        self.epsilon = eps

    def forward(self, x):
        x = x.double()
        size = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
        return (x * (size + self.epsilon).rsqrt()[..., None]) * self.gain


# Part 4


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"{d_model=} {num_heads=} {num_kv_heads=} do not divide")
        self.d_head = d_model // num_heads
        self.group_size = num_heads // num_kv_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, num_kv_heads * self.d_head)
        self.value_projection = nn.Linear(d_model, num_kv_heads * self.d_head)
        self.output_projection = nn.Linear(d_model, d_model)

    def cut(self, x):
        return x.unflatten(2, (-1, self.d_head)).transpose(1, 2)

    def shared(self, x):
        return x.repeat_interleave(self.group_size, dim=1)

    def forward(self, query, key, value, mask=None):
        queries = self.cut(self.query_projection(query))
        keys = self.shared(self.cut(self.key_projection(key)))
        values = self.shared(self.cut(self.value_projection(value)))
        if mask is not None:
            mask = mask.unsqueeze(1)
        context, weights = scaled_dot_product_attention(queries, keys, values, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2)), weights


class GroupsAsAnAxis(GroupedQueryAttention):
    """Nothing is repeated: queries get an axis for the groups."""

    def forward(self, query, key, value, mask=None):
        q = self.query_projection(query).unflatten(2, (-1, self.group_size, self.d_head))
        k = self.key_projection(key).unflatten(2, (-1, self.d_head))
        v = self.value_projection(value).unflatten(2, (-1, self.d_head))
        scores = torch.einsum("bqgsd,bkgd->bgsqk", q, k) / math.sqrt(self.d_head)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -1e9)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bgsqk,bkgd->bqgsd", weights, v).flatten(2)
        return [self.output_projection(context), weights.flatten(1, 2)]


class HeadByHead(GroupedQueryAttention):
    """One head after the other, each with slices of what was projected."""

    def forward(self, query, key, value, mask=None):
        q = self.query_projection(query)
        k, v = self.key_projection(key), self.value_projection(value)
        d, said, looked = self.d_head, [], []
        for head in range(q.shape[2] // d):
            group = head // self.group_size
            one, other = slice(head * d, head * d + d), slice(group * d, group * d + d)
            context, weights = scaled_dot_product_attention(
                q[..., one], k[..., other], v[..., other], mask
            )
            said.append(context)
            looked.append(weights)
        return self.output_projection(torch.cat(said, dim=-1)), torch.stack(looked, dim=1)


# Part 5


def verdict(scores, d_head, longest):
    found = "nothing"
    places = torch.arange(longest)
    steps = places.unsqueeze(1) - places
    for _ in range(3):
        q, k = torch.randn(2, d_head)
        table = scores(q, k, places)
        of_distance = torch.cat([table[0].flip(0), table[1:, 0]])
        if (table - of_distance[steps + longest - 1]).abs().max() > 0.01:
            return "position"
        for some in (places[: longest // 2], places[:: longest // 7]):
            if (scores(q, k, some) - table[some][:, some]).abs().max() > 0.01:
                return "position"
        if (table - table[0, 0]).abs().max() > 0.01:
            found = "distance"
    return found


def verdict_by_diagonals(scores, d_head, longest):
    """The spread of every diagonal; then a list without its last places, and one with gaps."""
    q, k = torch.randn(2, d_head)

    def table(places):
        return scores(q, k, places).numpy()

    whole = table(torch.arange(longest))
    spread = max(np.ptp(np.diagonal(whole, step)) for step in range(1 - longest, longest))
    part, third = table(torch.arange(longest - 50)), table(torch.arange(0, longest, 3))
    if spread > 0.01 or abs(part - whole[:-50, :-50]).max() > 0.01:
        return "position"
    if abs(third - whole[::3, ::3]).max() > 0.01:
        return "position"
    return "distance" if np.ptp(whole) > 0.01 else "nothing"


def verdict_by_steps(scores, d_head, longest):
    """What changes from each place to the next, and to the place furthest on; and pairs alone."""
    q, k = torch.randn(2, d_head).double()
    table = scores(q, k, torch.arange(longest))
    for step in (1, 7, 64, longest // 2):
        if (table[step:, step:] - table[:-step, :-step]).abs().max() > 0.009:
            return "position"
    for m, n in itertools.combinations((0, 1, 9, 100, longest - 1), 2):
        alone = scores(q, k, torch.tensor([m, n]))
        if abs(alone[0, 1] - table[m, n]) > 0.009:
            return "position"
    return "distance" if table.max() - table.min() > 0.009 else "nothing"


# Part 6


def cache_bytes(model, length, rows):
    layers, window = model["num_layers"], model["window"]
    whole = layers if window is None else layers // (model["global_every"] or layers + 1)
    places = whole * length
    if window is not None:
        places += (layers - whole) * min(length, window)
    return 2 * model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"] * places * rows


def longest_text(model, memory, rows):
    low, high = 0, 1
    while cache_bytes(model, high, rows) <= memory:
        if cache_bytes(model, 2 * high, rows) == cache_bytes(model, high, rows):
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if cache_bytes(model, middle, rows) <= memory:
            low = middle
        else:
            high = middle
    return low


def bytes_layer_by_layer(model, length, rows):
    total = 0
    for number in range(1, model["num_layers"] + 1):
        held = length
        if model["window"] is not None:
            every = model["global_every"]
            if every is None or number % every:
                held = min(length, model["window"])
        total += held * 2 * model["d_head"] * model["num_kv_heads"] * model["bytes_per_number"]
    return torch.tensor(total * rows)


def longest_by_formula(model, memory, rows):
    """Up to the window every layer grows; beyond it, only those without."""
    layers, window, every = model["num_layers"], model["window"], model["global_every"]
    place = 2 * model["d_head"] * model["num_kv_heads"] * model["bytes_per_number"] * rows
    length = memory // (place * layers)
    if window is None or length < window:
        return length
    whole = 0 if every is None else layers // every
    if whole == 0:
        return None
    return (memory - place * (layers - whole) * window) // (place * whole)


def longest_word_by_word(model, memory, rows):
    """Slow, and ends: where one place more weighs nothing, no place ever will."""
    length = 0
    while cache_bytes(model, length + 1, rows) <= memory:
        length += 1
        grown = cache_bytes(model, length + 1, rows) - cache_bytes(model, length, rows)
        if grown == 0:
            return None
    return length


# Part 7


def shares(outputs, references):
    right = places = same = 0
    for output, reference in zip(outputs, references, strict=True):
        right += sum(a == b for a, b in zip(output, reference, strict=False))
        places += len(reference)
        same += list(output) == list(reference)
    tokens = right / places
    expected = sum(tokens ** len(reference) for reference in references)
    return tokens, same / len(references), expected / len(references)


def size_needed(law, length, share):
    c, alpha = law
    return c * (length / -math.log(share)) ** (1 / alpha)


def times_larger(law, low, high):
    return size_needed(law, 1, high) / size_needed(law, 1, low)


def shares_in_arrays(outputs, references):
    right = [
        [place < len(o) and o[place] == token for place, token in enumerate(r)]
        for o, r in zip(outputs, references, strict=True)
    ]
    tokens = np.mean(np.concatenate(right))
    exact = np.mean([all(p) and len(o) == len(p) for o, p in zip(outputs, right, strict=True)])
    return [tokens, exact, np.mean(tokens ** np.array([len(p) for p in right]))]


def size_by_bisection(law, length, share):
    """Halve the span, in logarithms, until the share is met."""
    low, high = -50.0, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        surprise = (law[0] / math.exp(middle)) ** law[1]
        low, high = (middle, high) if length * surprise > -math.log(share) else (low, middle)
    return torch.tensor(math.exp(low), dtype=torch.float64)


def times_by_logarithms(law, low, high):
    return math.exp((math.log(-math.log(low)) - math.log(-math.log(high))) / law[1])


RIGHT = {
    "rotation": [rotate, rotate_halves, rotate_complex, rotate_in_loops],
    "alibi_bias": [
        (slopes, alibi),
        (slopes_as_a_list, alibi_in_loops),
        (slopes_in_turn, alibi_with_a_large_number),
    ],
    "norm": [RMSNorm, RMSNormBySums],
    "grouped": [GroupedQueryAttention, GroupsAsAnAxis, HeadByHead],
    "distance": [verdict, verdict_by_diagonals, verdict_by_steps],
    "cache": [
        (cache_bytes, longest_text),
        (bytes_layer_by_layer, longest_by_formula),
        (cache_bytes, longest_word_by_word),
    ],
    "abrupt": [
        (shares, size_needed, times_larger),
        (shares_in_arrays, size_by_bisection, times_by_logarithms),
    ],
}
