"""Answers to the parts of changes since 2017, besides those in questions.py.

RIGHT      {function: [other right answers]}
ALLOWED    {function: [names of behaviours that are right here]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import itertools
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from attentively.checks.edits import edited_source
from attentively.checks.recordings import load_questions
from attentively.multi_head import MultiHeadAttention
from attentively.scaled_dot_product import scaled_dot_product_attention

questions = load_questions(Path(__file__).with_name("questions.py"))
cache_bytes = questions.cache_bytes

# Part 1


def rotate_halves_in_64_bits(x, first=0):
    d = x.shape[-1]
    theta = 10000.0 ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = torch.outer(torch.arange(x.shape[-2]) + first, theta).repeat(1, 2)
    partner = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos() + partner * angles.sin()


def rotate_complex(x, first=0):
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


def slopes_in_turn(num_heads):
    return torch.full((num_heads,), 2 ** (-8 / num_heads), dtype=torch.float64).cumprod(0)


def slopes_as_a_tuple(num_heads):
    return tuple(0.5 ** (8 / num_heads * head) for head in range(1, num_heads + 1))


def alibi_in_loops(num_heads, queries, keys):
    bias = torch.full((num_heads, queries, keys), float("-inf"))
    for head, slope in enumerate(slopes_as_a_tuple(num_heads)):
        for row in range(queries):
            for j in range(keys - queries + row + 1):
                bias[head, row, j] = -slope * (keys - queries + row - j)
    return bias


def alibi_with_a_large_number(num_heads, queries, keys):
    whole = -(torch.arange(keys)[:, None] - torch.arange(keys)[None, :])
    bias = whole * slopes_in_turn(num_heads)[:, None, None]
    bias = bias + torch.triu(torch.full((keys, keys), torch.finfo(torch.float32).min), 1)
    return bias[:, -queries:]


# Part 3


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


class WithThePackagesFunction(questions.GroupedQueryAttention):
    def forward(self, query, key, value, mask=None):
        queries = self.split(self.query_projection(query))
        keys, values = (
            self.split(project(x)).repeat_interleave(self.group_size, dim=1)
            for project, x in ((self.key_projection, key), (self.value_projection, value))
        )
        mask = None if mask is None else mask.unsqueeze(1)
        context, weights = scaled_dot_product_attention(queries, keys, values, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2)), weights


class GroupsAsAnAxis(questions.GroupedQueryAttention):
    """Nothing is repeated: queries have an axis for the groups."""

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


class HeadByHead(questions.GroupedQueryAttention):
    def forward(self, query, key, value, mask=None):
        q = self.query_projection(query)
        k, v = self.key_projection(key), self.value_projection(value)
        d, contexts, weights = self.d_head, [], []
        for head in range(q.shape[2] // d):
            group = head // self.group_size
            one, other = slice(head * d, head * d + d), slice(group * d, group * d + d)
            found = scaled_dot_product_attention(q[..., one], k[..., other], v[..., other], mask)
            contexts.append(found[0])
            weights.append(found[1])
        return self.output_projection(torch.cat(contexts, dim=-1)), torch.stack(weights, dim=1)


# Part 5


def verdict_by_diagonals(scores, d_head, longest):
    """The range of every diagonal; then a list without its last positions, and one with gaps."""
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
    """Steps of several sizes along the diagonals, and pairs of positions alone."""
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


def bytes_by_formula(model, length, rows):
    layers, window = model["num_layers"], model["window"]
    whole = layers if window is None else layers // (model["global_every"] or layers + 1)
    places = whole * length
    if window is not None:
        places += (layers - whole) * min(length, window)
    each = model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"]
    return torch.tensor(2 * each * places * rows)


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
    length, needed = 0, cache_bytes(model, 1, rows)
    while needed <= memory:
        length, before = length + 1, needed
        needed = cache_bytes(model, length + 1, rows)
        if needed == before:
            return None
    return length


# Part 7


def shares_in_arrays(outputs, references):
    right = [
        [place < len(o) and o[place] == token for place, token in enumerate(r)]
        for o, r in zip(outputs, references, strict=True)
    ]
    tokens = np.mean(np.concatenate(right))
    exact = np.mean([all(p) and len(o) == len(p) for o, p in zip(outputs, right, strict=True)])
    return [tokens, exact, np.mean(tokens ** np.array([len(p) for p in right]))]


def size_by_bisection(law, length, share):
    low, high = -50.0, 200.0  # logarithms
    for _ in range(200):
        middle = (low + high) / 2
        loss = (law[0] / math.exp(middle)) ** law[1]
        low, high = (middle, high) if length * loss > -math.log(share) else (low, middle)
    return torch.tensor(math.exp(low), dtype=torch.float64)


def times_by_sizes(law, low, high):
    return size_by_bisection(law, 1, high) / size_by_bisection(law, 1, low)


RIGHT = {
    "rotate": [rotate_halves_in_64_bits, rotate_complex, rotate_in_loops],
    "slopes": [slopes_in_turn, slopes_as_a_tuple],
    "alibi": [alibi_in_loops, alibi_with_a_large_number],
    "RMSNorm": [RMSNormBySums],
    "GroupedQueryAttention": [WithThePackagesFunction, GroupsAsAnAxis, HeadByHead],
    "verdict": [verdict_by_diagonals, verdict_by_steps],
    "cache_bytes": [bytes_by_formula],
    "longest_text": [longest_by_formula, longest_word_by_word],
    "shares": [shares_in_arrays],
    "size_needed": [size_by_bisection],
    "times_larger": [times_by_sizes],
}

ALLOWED = {
    "rotate": ["float64"],
    "slopes": ["float64", "a list"],
    "alibi": ["float64"],
    "RMSNorm": ["float64"],
}


# Wrong answers whose message is not a diagnosis of questions.py, or that make its mistake otherwise


def rotate_in_place(x, first=0):
    x[..., 0] = x[..., 0] * 1.5
    return x


def changed_init(base, **attributes):
    """Return a class whose instances get further attributes, as functions of the first size."""

    class Changed(base):
        def __init__(self, *sizes, **named):
            super().__init__(*sizes, **named)
            for name, make in attributes.items():
                setattr(self, name, make(*sizes))

    return Changed


class GainAsBuffer(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_buffer("gain", torch.ones(d_model))


class WithoutSuper(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        self.eps = eps


class RMSNormOfPyTorch(questions.RMSNorm):
    def forward(self, x):
        return F.rms_norm(x, (len(self.gain),), self.gain, self.eps)


class Inheriting(MultiHeadAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__(d_model, num_heads, num_kv_heads=num_kv_heads)


def longest_by_doubling(model, memory, rows):
    """Do not end where nothing grows any more."""
    low, high = 0, 1
    while cache_bytes(model, high, rows) <= memory:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cache_bytes(model, middle, rows) <= memory else (low, middle)
    return low


def longest_from_zero(model, memory, rows):
    """Do not end, because 0 doubled is 0."""
    length = 0
    while cache_bytes(model, 2 * length, rows) <= memory:
        length *= 2
    return length


def longest_one_by_one(model, memory, rows):
    return next(n for n in itertools.count() if cache_bytes(model, n + 1, rows) > memory)


def longest_up_to_a_limit(model, memory, rows):
    return max(n for n in range(300) if cache_bytes(model, n, rows) <= memory)


CHECK_OF_SIZES = "if d_model % num_heads or num_heads % num_kv_heads"
HEADS_OF_KEYS = "nn.Linear(d_model, num_kv_heads * self.d_head)"

WRONG = {
    "rotate": {
        "changes its input x": rotate_in_place,
        "The shape of the rotated vectors is": ".flatten(-2) -> ",
        # One sine is limited; the last exponent is 1; exponents are rounded up
        "The values of the rotated vectors are not the expected ones": [
            "new_b = a * sin -> new_b = a * sin.clamp(max=0.9)",
            f"{questions.EXPONENTS} -> torch.linspace(0, 1, d_head // 2)",
            f"{questions.EXPONENTS} -> -(-torch.arange(0, d_head, 2) // d_head)",
        ],
    },
    "slopes": {
        "Expected the slopes as a torch.Tensor, got a list": "2.0**exponents -> ['1/2']",
        "The shape of the slopes is": "return 2.0**exponents -> return (2.0**exponents)[:, None]",
    },
    "alibi": {
        "A later position is not masked": [
            "later, -math.inf -> later, 0.0",
            ("* distances -> * distances.abs()", "bias.masked_fill(later, -math.inf) -> bias"),
        ],
        "A position up to the query is masked": [
            "positions[keys - queries :].unsqueeze(1) -> torch.arange(queries).unsqueeze(1)",
            "return bias.masked_fill(later, -math.inf) -> "
            "return bias.masked_fill(later, -math.inf).transpose(1, 2)",
        ],
        "the queries are the last positions, not the first": (
            "positions[keys - queries :].unsqueeze(1) -> torch.arange(queries).unsqueeze(1)"
        ),
        "A query may attend to itself and all earlier ones": "distances < 0 -> distances <= 0",
        "The bias contains NaN": (
            "bias.masked_fill(later, -math.inf) -> bias + later.float() * -math.inf"
        ),
        "The shape of the bias is (1, 1, 3, 3)": "return bias -> return bias.unsqueeze(0)",
        "The values of the bias are not the expected ones": (
            "* distances -> * distances.clamp(max=2)"
        ),
    },
    "RMSNorm": {
        "The gradient also flows through the square root": (
            "mean_square + self.eps -> (mean_square + self.eps).detach()"
        ),
        "The entries are not squared before the mean": (
            "x.square().mean(dim=-1, keepdim=True) -> x.mean(dim=-1, keepdim=True) ** 2"
        ),
        "gain must be initialised to ones": "torch.ones(d_model) -> torch.zeros(d_model)",
        "has no parameter gain": "self.gain = nn -> self.weight = nn",
        "gain is a tensor, not a parameter": (
            "nn.Parameter(torch.ones(d_model)) -> torch.ones(d_model)"
        ),
        "has a parameter or buffer shift": changed_init(
            questions.RMSNorm, shift=lambda d, eps=0: nn.Parameter(torch.zeros(d))
        ),
        "gain is a buffer": GainAsBuffer,
        "the shape of gain is (1,), expected (2,)": "torch.ones(d_model) -> torch.ones(1)",
        "super().__init__() comes first in __init__": WithoutSuper,
        "not accepted. Your code uses": [nn.RMSNorm, RMSNormOfPyTorch],
    },
    "GroupedQueryAttention": {
        "Expected a pair, `return context, weights`": (
            "return self.output_projection(context), weights -> "
            "return self.output_projection(context)"
        ),
        "in the wrong order: return context, weights": (
            "return self.output_projection(context), weights -> "
            "return weights, self.output_projection(context)"
        ),
        "Each of the num_heads heads has its own weights": (
            "(context), weights -> (context), weights.mean(dim=1, keepdim=True)"
        ),
        "The key and value projections have num_kv_heads · d_head": [
            f"key_projection = {HEADS_OF_KEYS} -> key_projection = nn.Linear(d_model, d_model)",
            f"value_projection = {HEADS_OF_KEYS} -> value_projection = nn.Linear(d_model, d_model)",
            "self.d_head = -> num_kv_heads = num_heads // num_kv_heads\n        self.d_head =",
        ],
        "has no parameter query_projection.bias": (
            "query_projection = nn.Linear(d_model, d_model) -> "
            "query_projection = nn.Linear(d_model, d_model, bias=False)"
        ),
        "Expected a ValueError, because d_model": [
            f"{CHECK_OF_SIZES} -> if d_model % num_heads",
            f"{CHECK_OF_SIZES} -> if num_heads % num_kv_heads",
        ],
        "Your class raises AssertionError": f"{CHECK_OF_SIZES} -> "
        "assert num_heads % num_kv_heads == 0\n        if False",
        "no gradient reaches attention.key_projection.weight": (
            "scores = queries @ keys -> scores = queries @ keys.detach()"
        ),
        "not accepted. Your code uses": Inheriting,
    },
    "cache_bytes": {
        "Expected the bytes as an int, got a float": (
            "return per_position -> return 1e-9 * per_position"
        ),
        "Your code raises TypeError": "if window is None -> if every is None and window is None",
        "This is not the expected value of the bytes": (
            "* stored * rows -> * stored * rows + length // 11"
        ),
    },
    "longest_text": {
        "longest_text: The search was stopped": [
            longest_by_doubling,
            longest_from_zero,
            longest_one_by_one,
        ],
        "All full windows fit and every layer has one": longest_up_to_a_limit,
        "8 positions take 1,024 bytes, and 1,280 are available": "return low -> return low - 2",
        "Expected a whole number, or None if every length fits": ("return None -> return -1"),
    },
    "shares": {
        "Expected 3 results, `return tokens, exact, expected`": (
            "return tokens, exact, expected -> return tokens, exact"
        ),
        "This is not the expected value of exact. It is one of the three values": (
            "exact = same / len(references) -> exact = same / positions"
        ),
    },
    "size_needed": {
        "This is not the expected value of the size": "return c * -> return c**2 + c *",
    },
    "times_larger": {
        "Expected the ratio as a float, got a str": "return ( -> return str(math.pi) or (",
        "This is not the expected value of the ratio": "return ( -> return 1 + (",
    },
}


HANDED_IN = {
    "in_turn": (
        {"grouped": edited_source(questions.GroupedQueryAttention, (*questions.IN_TURN.values(),))},
        ["grouped-check"],
        "Query head i uses key–value head i %",
    ),
    "one_list": (
        {"distance": edited_source(questions.verdict, f"{questions.LISTS} -> ()")},
        ["distance-check"],
        "one list is not enough",
    ),
}
