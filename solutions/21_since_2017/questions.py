"""Changes since 2017 as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Part 5 is
examined by code in `attentively.checks.since_2017`; all others are recorded.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from attentively.checks.edits import edited
from attentively.checks.question import Case, Question, cases_of
from attentively.checks.student_modules import shaken, state_of

# Part 1


def rotate(x, first=0):
    d_head = x.shape[-1]
    positions = torch.arange(first, first + x.shape[2])
    exponents = torch.arange(0, d_head, 2) / d_head
    angles = positions.unsqueeze(1) / 10000**exponents
    cos, sin = torch.cos(angles), torch.sin(angles)
    a, b = x[..., 0::2], x[..., 1::2]
    new_a = a * cos - b * sin
    new_b = a * sin + b * cos
    return torch.stack([new_a, new_b], dim=-1).flatten(-2)


def rotate_cases(thorough: bool) -> Iterator[Case]:
    pair = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    yield Case({"x": pair.reshape(1, 2, 2, 2)})
    numbers = torch.arange(1.0, 7.0)
    yield Case({"x": numbers.repeat(2).reshape(1, 1, 2, 6)})
    yield Case({"x": numbers.reshape(1, 1, 1, 6), "first": 2})
    yield Case({"x": torch.randn(2, 3, 5, 8)})
    yield Case({"x": torch.randn(3, 2, 4, 6), "first": 7})
    yield Case({"x": torch.randn(1, 2, 3, 4).requires_grad_()})
    if thorough:
        yield Case({"x": torch.randn(1, 3, 7, 10), "first": 100})
        yield Case({"x": torch.randn(2, 1, 11, 64), "first": 0})
        yield Case({"x": torch.randn(1, 5, 7, 2), "first": 1500})


POSITIONS = "torch.arange(first, first + x.shape[2])"
EXPONENTS = "torch.arange(0, d_head, 2) / d_head"
NEW_A, NEW_B = "new_a = a * cos - b * sin", "new_b = a * sin + b * cos"
CHUNKS = "x[..., 0::2], x[..., 1::2] -> x.chunk(2, dim=-1)"
IN_HALVES = "torch.stack([new_a, new_b], dim=-1).flatten(-2) -> torch.cat([new_a, new_b], dim=-1)"
rotate_halves = edited(rotate, (CHUNKS, IN_HALVES))


def crossed(x, first=0):
    """Return halves, rotated by the angles of neighbours."""
    d = x.shape[-1]
    places = torch.arange(first, first + x.shape[2]).unsqueeze(1)
    angles = (places / 10000 ** (torch.arange(0, d, 2) / d)).repeat_interleave(2, dim=-1)
    partner = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos() + partner * angles.sin()


CROSSED_NEIGHBOURS = (
    "repeat_interleave(2, dim=-1) -> repeat(1, 2)",
    "torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1) -> "
    "torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)",
)


def by_size(usual, other, size):
    """Return a rotation with another pairing for one size."""
    return lambda x, first=0: (other if x.shape[-1] == size else usual)(x, first)


ROTATE = Question(
    rotate,
    {"the rotated vectors": ""},
    rotate_cases,
    {
        "`first` is ignored: the first token of x is at position `first`, not at position 0.": (
            f"{POSITIONS} -> torch.arange(x.shape[2])"
        ),
        "Positions must be counted from 0: the vector at position 0 is not rotated.": (
            f"{POSITIONS} -> {POSITIONS} + 1"
        ),
        "All positions are rotated by the angles of the first position, or not at all. Position p "
        "has the angles p · θ_i.": [
            f"{POSITIONS} -> torch.full((x.shape[2],), first)",
            f"{POSITIONS} -> torch.zeros(x.shape[2])",
        ],
        "The rotation has the opposite direction: the minus sign belongs to the first component, "
        "a cos − b sin.": (
            f"{NEW_A} -> new_a = a * cos + b * sin",
            f"{NEW_B} -> new_b = b * cos - a * sin",
        ),
        "This is not a rotation: exactly one sine has a minus sign, in the first component, a cos "
        "− b sin.": [
            f"{NEW_A} -> new_a = a * cos + b * sin",
            f"{NEW_B} -> new_b = b * cos - a * sin",
        ],
        "Sine and cosine are exchanged.": [
            (f"{NEW_A} -> new_a = a * sin - b * cos", f"{NEW_B} -> new_b = a * cos + b * sin"),
            (f"{NEW_A} -> new_a = a * sin + b * cos", f"{NEW_B} -> new_b = b * sin - a * cos"),
        ],
        "The second component is computed from the rotated first component. Both need the original "
        "a and b.": "new_b = a -> new_b = new_a",
        "The sine terms are missing: each component also receives its partner times the sine.": (
            " - b * sin -> ",
            "a * sin + b * cos -> b * cos",
        ),
        "The exponent is i/d; it must be 2i/d, where i counts the pairs from 0.": (
            f"{EXPONENTS} -> torch.arange(d_head // 2) / d_head"
        ),
        "The exponent is 4i/d; it must be 2i/d. The values 0, 2, 4, … are already 2i.": (
            f"{EXPONENTS} -> 2 * {EXPONENTS}"
        ),
        "All pairs have the same angle. Pair i has the angle position / 10000^(2i/d).": (
            f"{EXPONENTS} -> torch.zeros(d_head // 2)"
        ),
        "The position is multiplied by 10000^(2i/d); it must be divided by it.": "/ 100 -> * 100",
        "The base is not 10000.": [f"10000** -> {base}**" for base in (1000.0, 100000.0)],
        "The angles are converted from degrees, but they are radians already.": (
            f"{POSITIONS} -> {POSITIONS} * math.pi / 180"
        ),
        "The angles depend on the head. They must depend on the position, dimension 2 of x.": (
            "x.shape[2] -> x.shape[1]",
            "torch.cos(angles), torch.sin(angles) -> "
            "torch.cos(angles).unsqueeze(1), torch.sin(angles).unsqueeze(1)",
        ),
        "Two conventions are mixed: the components are paired in one way, and the angles are "
        "arranged for the other. Both components of a pair need the same angle.": [
            crossed,
            edited(crossed, CROSSED_NEIGHBOURS),
        ],
        "The values are correct, but their order is not: each rotated component keeps its index.": [
            edited(rotate, IN_HALVES),
            edited(rotate, CHUNKS),
        ],
        "Sinusoids are added. RoPE rotates a vector, so its length does not change.": (
            f"{NEW_A} -> new_a = a + sin",
            f"{NEW_B} -> new_b = b + cos",
        ),
        "The result has the opposite sign in every component.": (
            f"{NEW_A} -> new_a = b * sin - a * cos",
            f"{NEW_B} -> new_b = -a * sin - b * cos",
        ),
        "The pairing depends on the input: for some sizes neighbours are paired, for others "
        "halves. Use one pairing for all inputs.": [
            by_size(*ways, size)
            for ways in itertools.permutations([rotate, rotate_halves])
            for size in (6, 8)
        ],
    },
    ways={"halves": (CHUNKS, IN_HALVES)},
)


# Part 2


def slopes(num_heads):
    exponents = -8 * torch.arange(1, num_heads + 1) / num_heads
    return 2.0**exponents


def slopes_cases(thorough: bool) -> Iterator[Case]:
    for num_heads in (8, 2, 1, 16, *((4, 32) if thorough else ())):
        yield Case({"num_heads": num_heads})


SLOPES = Question(
    slopes,
    {"the slopes": ""},
    slopes_cases,
    {
        "The exponents start at 0. Head 1 of n has the slope 2^(−8/n), and the last 2^(−8).": (
            "arange(1, num_heads + 1) -> arange(num_heads)"
        ),
        "The factor 1/2 between heads is correct for 8 heads only. For n heads it is 2^(−8/n), so "
        "that the last slope is always 2^(−8).": "/ num_heads -> / 8",
        "The order is reversed: the first head has the largest slope.": (
            "2.0**exponents -> (2.0**exponents).flip(0)"
        ),
        "The slopes must be positive; the minus sign belongs to the bias.": "return  -> return -",
        "They decrease by equal differences. Each is the previous one times 2^(−8/n).": [
            "2.0**exponents -> torch.arange(num_heads, 0, -1) / num_heads",
            "2.0**exponents -> torch.linspace(0.5, 2**-8, num_heads)",
        ],
        "The exponent is wrong; for head h of n it is −8h/n.": [
            "-8 * torch.arange(1, num_heads + 1) / num_heads -> "
            "-8 / torch.arange(1, num_heads + 1)",
            "-8 * torch.arange(1, num_heads + 1) / num_heads -> "
            "-num_heads * torch.arange(1, num_heads + 1) / 8",
        ],
        "The exponent lacks the minus sign, so the slopes are larger than 1.": "-8 -> 8",
    },
    named=True,
)


def alibi(num_heads, queries, keys):
    positions = torch.arange(keys)
    distances = positions[keys - queries :].unsqueeze(1) - positions
    later = distances < 0
    bias = -slopes(num_heads).reshape(-1, 1, 1) * distances
    return bias.masked_fill(later, -math.inf)


def alibi_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(1, 3, 3), (2, 3, 3), (1, 1, 4), (8, 2, 5)]
    yield from cases_of(
        ("num_heads", "queries", "keys"), sizes + [(4, 7, 7), (16, 3, 11), (2, 1, 1)] * thorough
    )


EACH_HEAD = "slopes(num_heads).reshape(-1, 1, 1)"
AS_FIRST = "bias = -> distances = distances - (keys - queries)\n    bias ="

ALIBI = Question(
    alibi,
    {"the bias": ""},
    alibi_cases,
    {
        "The bias has the wrong sign: distant keys receive higher scores than near ones.": (
            "-slopes -> slopes"
        ),
        "The queries are treated as the first positions. They are the last ones, as in generation "
        "with a cache.": [
            AS_FIRST,
            (AS_FIRST, "* distances -> * distances.abs()"),
            (AS_FIRST, "* distances -> * distances.clamp(min=0)"),
        ],
        "All values of a row are shifted by the same amount. A softmax would not change, but here "
        "the bias of a position to itself must be 0.": [
            "* distances -> * -positions.expand(queries, -1)",
            "* distances -> * (keys - 1 - positions).expand(queries, -1)",
            "* distances -> * (distances - 1)",
            "* distances -> * (distances + 1)",
        ],
        "All heads have the same slope; each head must have its own.": [
            f"{EACH_HEAD} -> torch.ones(num_heads, 1, 1)",
            f"{EACH_HEAD} -> torch.full((num_heads, 1, 1), 0.5)",
            f"{EACH_HEAD} -> {EACH_HEAD}[:1].expand(num_heads, 1, 1)",
        ],
        "The distance is squared; the bias must be linear in the distance.": (
            "* distances -> * distances**2"
        ),
        "The slopes are used in reverse order.": f"{EACH_HEAD} -> {EACH_HEAD}.flip(0)",
        "The bias is 0 everywhere; it must be −slope · distance.": "* distances -> * 0 * distances",
        "All distances above 0 have the same bias; it must be −slope · distance.": (
            "* distances -> * (distances != 0)"
        ),
    },
    named=True,
)


# Part 3


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        mean_square = x.square().mean(dim=-1, keepdim=True)
        size = torch.sqrt(mean_square + self.eps)
        normalised = x / size
        return self.gain * normalised


def norm_cases(thorough: bool) -> Iterator[Case]:
    for x in (torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.zeros(1, 2)):
        yield Case({"x": x}, {"d_model": 2}, {"gain": torch.ones(2)})
    settings: list[tuple[float, int, float, tuple[int, ...]]]
    settings = [(1.0, 5, 1e-5, (2, 3, 5)), (0.01, 5, 1e-5, (2, 3, 5)), (1.0, 3, 0.5, (2, 3))]
    further = [(0.01, 64, 1e-6, (2, 3, 7, 64)), (1.0, 7, 1e-3, (11, 7))] * thorough

    def random(size: float, d_model: int, eps: float, shape: tuple[int, ...]) -> Case:
        made, weights = {"d_model": d_model, "eps": eps}, {"gain": torch.randn(d_model)}
        return Case({"x": size * (torch.randn(shape) + 1)}, made, weights)

    yield from [random(*each) for each in settings]
    x = torch.randn(2, 3, 5).requires_grad_()
    note = "The gradient also flows through the square root."
    yield Case({"x": x}, {"d_model": 5}, {"gain": torch.randn(5)}, note=note)
    yield from [random(*each) for each in further]


MEAN_SQUARE = "x.square().mean(dim=-1, keepdim=True)"
SIZE = "torch.sqrt(mean_square + self.eps)"
MEAN = "x.mean(dim=-1, keepdim=True)"

NORM = Question(
    RMSNorm,
    {"the normalised vectors": ""},
    norm_cases,
    {
        "The mean is subtracted. That is layer normalisation; RMSNorm keeps the mean.": [
            f"mean_square = x -> x = x - {MEAN}\n        mean_square = x",
            f"x / size -> (x - {MEAN}) / size",
        ],
        "The variance around the mean is used. RMSNorm needs the mean of the squared entries.": [
            f"{MEAN_SQUARE} -> x.var(dim=-1, keepdim=True, unbiased=False)",
            f"{MEAN_SQUARE} -> x.var(dim=-1, keepdim=True)",
            f"{SIZE} -> x.std(dim=-1, keepdim=True) + self.eps",
        ],
        "The sum of the squares is not divided by d. RMSNorm needs their mean.": [
            ".mean(dim -> .sum(dim",
            f"{SIZE} -> x.norm(dim=-1, keepdim=True) + self.eps",
        ],
        "The square root is missing: the vector is divided by its mean square.": (
            f"{SIZE} -> mean_square + self.eps"
        ),
        "eps is added after the square root; it must be added to the mean square.": (
            f"{SIZE} -> torch.sqrt(mean_square) + self.eps"
        ),
        "The value of eps is not the argument of __init__.": [
            f"self.eps = eps -> self.eps = {other}"
            for other in (1e-5, 1e-6, 1e-8, torch.finfo(torch.float32).eps)
        ],
        "eps is not used, so a vector of zeros becomes NaN.": f"{SIZE} -> torch.sqrt(mean_square)",
        "The entries are not squared before the mean. Square each entry, take the mean, then the "
        "square root.": f"{SIZE} -> x.abs().mean(dim=-1, keepdim=True) + self.eps",
        "The mean is taken over several vectors; it must be taken over the last dimension only.": [
            f"{MEAN_SQUARE} -> x.square().mean({where})"
            for where in ("", "dim=0, keepdim=True", "dim=-2, keepdim=True")
        ],
        "keepdim=True is missing: vectors are divided by the root mean squares of others.": (
            ", keepdim=True -> "
        ),
        "The vector is multiplied by its root mean square; it must be divided by it.": (
            "x / size -> x * size"
        ),
        "gain is not used.": "self.gain * normalised -> normalised",
        "gain is added; it must be multiplied.": "self.gain * -> self.gain +",
        "The factor is 1 + gain, as in some models. Here the factor is gain, initialised to 1.": (
            "self.gain * -> (1 + self.gain) *"
        ),
    },
    named=True,
)


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

    def split(self, x):
        return x.unflatten(2, (-1, self.d_head)).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def forward(self, query, key, value, mask=None):
        queries = self.split(self.query_projection(query))
        keys = self.split(self.key_projection(key))
        values = self.split(self.value_projection(value))
        keys = keys.repeat_interleave(self.group_size, dim=1)
        values = values.repeat_interleave(self.group_size, dim=1)
        scores = queries @ keys.transpose(2, 3) / math.sqrt(self.d_head)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), -math.inf)
        weights = scores.softmax(dim=-1)
        context = self.join(weights @ values)
        return self.output_projection(context), weights


def grouped_cases(thorough: bool) -> Iterator[Case]:
    asked = [(4, 2, 2, "self cross masked"), (4, 2, 1, "self"), (8, 4, 2, "self masked")]
    asked += [(18, 6, 2, "masked")]
    asked += [(24, 12, 3, "cross"), (12, 4, 1, "masked")] if thorough else []
    for d_model, num_heads, num_kv_heads, kinds in asked:
        made = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
        weights = state_of(shaken(GroupedQueryAttention(*made.values())))
        x = torch.randn(1, 2, 4) if d_model == 4 else torch.randn(2, 5, d_model)
        inputs = {"query": torch.randn(2, 3, d_model), "key": torch.randn(2, 5, d_model)}
        inputs["value"] = torch.randn(2, 5, d_model)
        mask = torch.arange(5).reshape(1, 1, 5) < torch.tensor([3, 4]).reshape(2, 1, 1)
        given = {
            "self": {"query": x, "key": x, "value": x},
            "cross": inputs,
            "masked": inputs | {"mask": mask},
        }
        for kind in kinds.split():
            yield Case(given[kind], made, weights)


SPLIT = "x.unflatten(2, (-1, self.d_head)).transpose(1, 2)"
JOIN = "x.transpose(1, 2).flatten(2)"
IN_TURN = {
    name: f"{name}.repeat_interleave(self.group_size, dim=1) -> "
    f"{name}.repeat(1, self.group_size, 1, 1)"
    for name in ("keys", "values")
}
FIRST_FOR_ALL = {
    name: f"{name}.repeat_interleave(self.group_size, dim=1) -> "
    f"{name}[:, :1].expand(-1, queries.shape[1], -1, -1)"
    for name in ("keys", "values")
}
KEYS_OF_QUERY = "self.key_projection(key) -> self.key_projection(query)"
VALUES_OF_QUERY = "self.value_projection(value) -> self.value_projection(query)"
VALUES_OF_KEY = "self.value_projection(value) -> self.value_projection(key)"
SPLIT_BY_COMPONENT = f"{SPLIT} -> x.unflatten(2, (self.d_head, -1)).permute(0, 3, 1, 2)"
JOIN_BY_COMPONENT = f"{JOIN} -> x.permute(0, 2, 3, 1).flatten(2)"
SPLIT_BY_RESHAPE = f"{SPLIT} -> x.reshape(len(x), -1, x.shape[1], self.d_head)"
JOIN_BY_RESHAPE = f"{JOIN} -> x.reshape(len(x), x.shape[2], -1)"
UNMASKED = "if mask is not None -> if False"

GROUPED = Question(
    GroupedQueryAttention,
    {
        "context": "",
        "weights": "Each of the num_heads heads has its own weights: (batch, num_heads, q, k).",
    },
    grouped_cases,
    {
        "Query head i uses key–value head i % num_kv_heads. Neighbouring heads form a group: head "
        "i uses key–value head i // (num_heads // num_kv_heads), as with repeat_interleave.": (
            *IN_TURN.values(),
        ),
        "Keys and values are assigned to the query heads in different ways.": [
            *IN_TURN.values(),
            *FIRST_FOR_ALL.values(),
        ],
        "All query heads use the keys and values of the first key–value head.": (
            *FIRST_FOR_ALL.values(),
        ),
        "The scores are not divided by the square root of d_head = d_model / num_heads.": [
            f"math.sqrt(self.d_head) -> {divisor}"
            for divisor in ("math.sqrt(query.shape[-1])", "1", "self.d_head")
        ],
        "The mask is not used.": UNMASKED,
        "The mask has no dimension for the heads, so masks of sentences are applied to heads. "
        "Insert one of size 1: mask.unsqueeze(1).": "~mask.unsqueeze(1) -> ~mask",
        "The mask is inverted: True means that the query may attend to the key.": "~mask -> mask",
        "The softmax is taken over the queries; it must be taken over the keys, the last "
        "dimension.": "softmax(dim=-1) -> softmax(dim=-2)",
        "The output projection is missing.": "return self.output_projection(context) -> "
        "return context",
        "The heads are concatenated in a different order than they were split.": [
            JOIN_BY_COMPONENT,
            JOIN_BY_RESHAPE,
        ],
        "The features are split as (d_head, heads). In a projection, the features of head 0 come "
        "first: split as (heads, d_head).": [
            SPLIT_BY_COMPONENT,
            (SPLIT_BY_COMPONENT, JOIN_BY_COMPONENT),
        ],
        "The heads are split by view or reshape alone, which mixes positions and heads. Split the "
        "features as (heads, d_head), then exchange the positions and the heads with transpose(1, "
        "2).": [SPLIT_BY_RESHAPE, (SPLIT_BY_RESHAPE, JOIN_BY_RESHAPE)],
        "Keys and values are computed from `query`. They must be computed from `key` and "
        "`value`.": [
            (KEYS_OF_QUERY, VALUES_OF_QUERY),
            (KEYS_OF_QUERY, VALUES_OF_QUERY, UNMASKED),
        ],
        "The values are computed from `key`, not from `value`.": VALUES_OF_KEY,
        "`key` and `value` are exchanged.": (
            "self.key_projection(key) -> self.key_projection(value)",
            VALUES_OF_KEY,
        ),
    },
    named=True,
)


# Part 5, examined by code: the check runs the test on encodings


def verdict(scores, d_head, longest):
    found = "nothing"
    positions = torch.arange(longest)
    steps = positions.unsqueeze(1) - positions
    for _ in range(3):
        q, k = torch.randn(2, d_head)
        table = scores(q, k, positions)
        of_distance = torch.cat([table[0].flip(0), table[1:, 0]])
        apart = table - of_distance[steps + longest - 1]
        if apart.abs().max() > 0.01:
            return "position"
        for some in (positions[: longest // 2], positions[:: longest // 7]):
            if (scores(q, k, some) - table[some][:, some]).abs().max() > 0.01:
                return "position"
        if (table - table[0, 0]).abs().max() > 0.01:
            found = "distance"
    return found


LISTS = "(positions[: longest // 2], positions[:: longest // 7])"

VERDICT = Question(
    verdict,
    mistakes={
        "one list is not enough": f"{LISTS} -> ()",
        "The scores are correct up to position 255": (
            'found = "nothing" -> found, longest = "nothing", 100'
        ),
        "you returned “nothing”; expected “distance”": "torch.randn -> torch.zeros",
        "Only the key at position 0 differs, by 0.05": [
            (
                "positions = torch.arange(longest) -> "
                "positions, longest = torch.arange(1, longest), longest - 1",
                "table[some][:, some] -> table[some - 1][:, some - 1]",
            ),
            "apart.abs().max() > 0.01 -> apart.abs().max() > 0.1",
        ],
        "Within one list all scores are equal": (
            "apart = table -> if (table - table[0, 0]).abs().max() < 0.01:\n"
            "            return found\n        apart = table"
        ),
        "If positions are left out, the same two": f"{LISTS} -> (positions[: longest // 2],)",
        "also compare keys that are far away": "apart.abs() -> apart.diagonal(-1).abs()",
        "which is rounding": "apart.abs().max() > 0.01 -> apart.any()",
        "Every pair of positions has the same score": 'found = "nothing" -> found = "distance"',
        "For the encoding “rotary”, you returned “position”": [
            "apart = table - of_distance[steps + longest - 1] -> apart = table - table.T",
            "scores(q, k, positions) -> scores(q, k, positions).flip(0)",
        ],
        "The same distance at other positions has a different": "apart.abs().max() > 0.01 -> False",
        "also compare keys that come after it": "apart.abs() -> apart.tril().abs()",
        "also compare its middle": ("apart.abs() -> torch.cat([apart[-1], apart[:, -1]]).abs()"),
        "Only the scores of keys before the query": "table - table[0, 0] -> table[0] - table[0, 0]",
        "Only the scores of keys after the query": (
            "table - table[0, 0] -> table[:, 0] - table[0, 0]"
        ),
        "For the encoding “rotary”, you returned “nothing”": (
            'for _ in range(3) -> if str(scores) == "rotary":\n'
            '        return "distance"\n'
            "    for _ in range(0)"
        ),
        "Expected the verdict as a str, got a bool": "return found -> return found == 'distance'",
        "None: is there a `return`?": "return found -> found",
    },
)


# Part 6


def cache_bytes(model, length, rows):
    layers, window, every = model["num_layers"], model["window"], model["global_every"]
    stored = 0
    for number in range(1, layers + 1):
        is_global = every is not None and number % every == 0
        if window is None or is_global:
            stored += length
        else:
            stored += min(length, window)
    per_position = 2 * model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"]
    return per_position * stored * rows


def cache_model(
    num_layers: int, num_heads: int, num_kv_heads: int, d_head: int, bytes_per_number: int = 2,
    window: int | None = None, global_every: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "d_head": d_head,
        "bytes_per_number": bytes_per_number,
        "window": window,
        "global_every": global_every,
    }


SMALL = cache_model(2, 4, 2, 8)
WINDOWED = cache_model(3, 6, 2, 8, 4, window=5)
MIXED = cache_model(7, 8, 4, 16, 2, window=5, global_every=3)
WITHOUT = cache_model(6, 8, 4, 16, global_every=3)
LLAMA = cache_model(80, 64, 8, 128)
MISTRAL = cache_model(32, 32, 8, 128, window=4096)
GEMMA = cache_model(62, 32, 16, 128, window=1024, global_every=6)


def bytes_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (SMALL, 10, 1), (SMALL, 10, 3), (WINDOWED, 3, 1), (WINDOWED, 5, 1), (WINDOWED, 9, 2),
        (MIXED, 4, 1), (MIXED, 11, 3), (cache_model(5, 8, 1, 4, 1), 7, 1), (WITHOUT, 11, 2),
    ]  # fmt: skip
    if thorough:
        asked += [(LLAMA, 4096, 1), (MISTRAL, 10000, 5), (GEMMA, 131072, 1), (MIXED, 1, 1)]
    yield from cases_of(("model", "length", "rows"), asked)


ALL_POSITIONS = "If window is None, global_every has no meaning: all layers store all positions."
PART_OF_IT = "A text that is shorter than the window fills only a part of it."
SHARED = "The heads of a group share keys and values: num_kv_heads heads are stored."
OWN_CACHE = "Each of the `rows` texts has its own cache."
FULL_WINDOW = "min(length, window) -> window"
GLOBAL_ALONE = (
    "stored = 0 -> stored = 0\n    if window is None and every:\n        layers //= every"
)

BYTES = Question(
    cache_bytes,
    {"the bytes": ""},
    bytes_cases,
    {
        "Keys and values are both stored, so there are twice as many values.": "2 * model -> model",
        "Queries are not stored: only the newest query is needed.": "2 * model -> 3 * model",
        SHARED: 'model["num_kv_heads"] -> model["num_heads"]',
        "Each of the num_kv_heads heads has its own keys and values.": (
            'model["num_kv_heads"] * -> '
        ),
        "num_kv_heads is the number of stored heads, not the number that share one.": (
            'model["num_kv_heads"] -> (model["num_heads"] // model["num_kv_heads"])'
        ),
        "This is the number of values. Each value takes bytes_per_number bytes.": (
            ' * model["bytes_per_number"] -> '
        ),
        "This is the number of bits; expected the number of bytes.": (
            "return per_position -> return 8 * per_position"
        ),
        OWN_CACHE: " * rows -> ",
        "Each layer has its own cache.": "* stored * rows -> * (stored // layers) * rows",
        "A layer with a window stores only the last `window` positions.": (
            "min(length, window) -> length"
        ),
        PART_OF_IT: FULL_WINDOW,
        "A window of w stores w positions, including the newest.": [
            f"min(length, window) -> min(length, window {more} 1)" for more in "+-"
        ],
        "Every global_every-th layer has no window and stores all positions.": (
            "window is None or is_global -> window is None"
        ),
        "Layers are numbered from 1: the first without a window is number global_every.": (
            "% every == 0 -> % every == 1"
        ),
        "Layers whose number is a multiple of global_every store all positions; the others have "
        "the window.": "% every == 0 -> % every != 0",
        ALL_POSITIONS: GLOBAL_ALONE,
    },
    named=True,
)


def longest_text(model, memory, rows):
    def fits(length):
        return cache_bytes(model, length, rows) <= memory

    low, high = 0, 2**60
    if fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def longest_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (SMALL, 1280, 1), (SMALL, 1279, 1), (SMALL, 1281, 1), (SMALL, 1279, 3), (SMALL, 127, 1),
        (WINDOWED, 700, 1), (WINDOWED, 1919, 1), (WINDOWED, 1920, 1), (WINDOWED, 10**6, 2),
        (MIXED, 9000, 1), (MIXED, 100_000, 3), (MIXED, 255, 1),
        (cache_model(4, 8, 2, 16, window=3, global_every=9), 4000, 1), (WITHOUT, 20_000, 1),
    ]  # fmt: skip
    if thorough:
        asked += [
            (LLAMA, 24 * 10**9, 1), (LLAMA | {"num_kv_heads": 64}, 24 * 10**9, 7),
            (MISTRAL, 2**29, 1), (MISTRAL, 2**29 - 1, 1), (GEMMA, 10**10, 3),
        ]  # fmt: skip
    yield from cases_of(("model", "memory", "rows"), asked)


bytes_of_full_windows = edited(cache_bytes, FULL_WINDOW)
bytes_of_global_layers = edited(cache_bytes, GLOBAL_ALONE)

LONGEST = Question(
    longest_text,
    {"the longest length": ""},
    longest_cases,
    {
        "This is the first length that does not fit; expected the last that fits.": (
            "return low -> return high"
        ),
        "A cache that fills the memory exactly still fits.": "<= memory -> < memory",
        "If every layer has a window and all full windows fit, any length fits: expected None.": [
            f"return None -> return {other}" for other in ('model["window"]', "0", "high")
        ],
        "None means that every length fits, but here some length is too large.": [
            "return low -> return low or None",
            'fits(high) -> model["window"] and not model["global_every"]',
        ],
        "Expected a whole number, or None if every length fits.": [
            "return None -> return math.inf",
            "return low -> return low + 0.5",
        ],
        OWN_CACHE: "length, rows) -> length, 1)",
        "A layer with a window stops growing when the window is full.": (
            '(model, length -> (model | {"window": None}, length'
        ),
        "The layers without a window keep growing with the text.": (
            '(model, length -> (model | {"global_every": None}, length'
        ),
        ALL_POSITIONS: "cache_bytes -> bytes_of_global_layers",
        PART_OF_IT: "cache_bytes -> bytes_of_full_windows",
        SHARED: '(model, length -> (model | {"num_kv_heads": model["num_heads"]}, length',
        "Keys and values are both stored.": "cache_bytes -> 0.5 * cache_bytes",
        "The memory is given in bytes, and each value takes bytes_per_number bytes.": (
            '(model, length -> (model | {"bytes_per_number": 1}, length'
        ),
    },
    named=True,
)


# Part 7


def shares(outputs, references):
    right = positions = same = 0
    for output, reference in zip(outputs, references, strict=True):
        right += sum(a == b for a, b in zip(output, reference, strict=False))
        positions += len(reference)
        same += list(output) == list(reference)
    tokens = right / positions
    exact = same / len(references)
    expected = sum(tokens ** len(reference) for reference in references) / len(references)
    return tokens, exact, expected


def shares_cases(thorough: bool) -> Iterator[Case]:
    texts = [
        (["a b", "a c"], ["a b", "a b"]),
        (["a b c d", "a"], ["a b c d", "b"]),
        (["a b c", "d e", "f g"], ["a b", "d e f", "f g"]),
        (["b a", "a b c x", "c"], ["a b", "a b c d", "c"]),
        (["le chat boit", "il est fatigué", "", "oui"],
         ["le chat boit le lait", "elle est fatiguée", "non", "oui"]),
    ]  # fmt: skip
    if thorough:
        texts += [(["x"] * 3 + ["x y z"] * 4, ["x"] * 2 + ["y"] + ["x y z"] * 3 + ["x y y"])]
    for outputs, references in texts:
        yield Case(
            {
                "outputs": [each.split() for each in outputs],
                "references": [each.split() for each in references],
            }
        )


HITS = "sum(a == b for a, b in zip(output, reference, strict=False))"
EQUAL = "list(output) == list(reference)"
POWERS = "sum(tokens ** len(reference) for reference in references) / len(references)"
EACH_POWER = "tokens ** len(reference) for reference in references"
ONE_OF_THREE = "It is one of the three values of shares."

SHARES = Question(
    shares,
    dict.fromkeys(("tokens", "exact", "expected"), ONE_OF_THREE),
    shares_cases,
    {
        "shares, tokens: This is the mean over the sentences. Count the positions of all "
        "references together, so that a long one counts more.": (
            f"{HITS} -> {HITS} / len(reference)",
            "positions += len(reference) -> positions += 1",
        ),
        "shares, tokens: The positions of the outputs are counted. Count those of the references: "
        "a token that is missing at the end of an output is wrong.": [
            "positions += len(reference) -> positions += len(output)",
            "positions += len(reference) -> positions += min(len(output), len(reference))",
        ],
        "shares, tokens: A token is correct only at the same position as in the reference.": (
            f"{HITS} -> sum(token in output for token in reference)"
        ),
        "shares, tokens: The positions of the longer of the two are counted. Additional tokens at "
        "the end of an output are not positions of the reference.": (
            "positions += len(reference) -> positions += max(len(output), len(reference))"
        ),
        "shares, exact: An output that is longer or shorter than the reference is not equal to "
        "it.": [
            f"{EQUAL} -> {HITS} == {length}"
            for length in ("len(reference)", "len(output)", "min(len(output), len(reference))")
        ],
        "shares, exact: The order of the tokens matters.": [
            f"{EQUAL} -> sorted(output) == sorted(reference)",
            f"{EQUAL} -> set(output) == set(reference)",
        ],
        "shares, exact: Expected the share of the sentences, not their number.": (
            "same / len(references) -> same"
        ),
        "shares, expected: The mean length is used as the exponent. Compute the power for each "
        "reference, then the mean of the powers.": (
            f"{POWERS} -> tokens ** (positions / len(references))"
        ),
        "shares, expected: This is `exact`. Expected its value if every token were correct "
        "independently with probability `tokens`.": f"{POWERS} -> exact",
        "shares, expected: The lengths of the outputs are used, not those of the references.": (
            f"{EACH_POWER} -> tokens ** len(output) for output in outputs"
        ),
        "shares, expected: The share of each sentence is used as its base. The base is `tokens` "
        "for all sentences.": (
            f"{EACH_POWER} -> ({HITS} / len(reference)) ** len(reference) "
            "for output, reference in zip(outputs, references, strict=True)"
        ),
        "shares, expected: All n tokens of a reference must be correct. The probability is p to "
        "the power n, not p · n or p / n.": ["tokens ** -> tokens /", "tokens ** -> tokens *"],
    },
)


def size_needed(law, length, share):
    c, alpha = law
    return c * (length / -math.log(share)) ** (1 / alpha)


def size_cases(thorough: bool) -> Iterator[Case]:
    asked = [((1.0, 1.0), 1, 0.5), ((1.0, 0.5), 5, 0.5), ((3e6, 0.25), 20, 0.9)]
    asked += [((8.8e13, 0.076), 4, 0.1), ((1e5, 0.3), 3, 0.99)] if thorough else []
    yield from cases_of(("law", "length", "share"), asked)


RATIO = "length / -math.log(share)"
EXPONENT = "** (1 / alpha)"

SIZE_NEEDED = Question(
    size_needed,
    {"the size": ""},
    size_cases,
    {
        "The length is ignored. All tokens must be correct, so their losses add up.": (
            "length / -> 1 /"
        ),
        "The size decreases with the length, but a longer answer needs a larger model.": (
            f"{RATIO} -> 1 / (length * -math.log(share))"
        ),
        "The exponent is alpha. Solving loss = (c / N)^alpha for N gives 1 / alpha.": (
            f"{EXPONENT} -> ** alpha"
        ),
        "The size is multiplied by the length. The length multiplies the loss, inside the power "
        "1 / alpha.": "c * (length / -> length * c * (1 /",
        "1 − share is used as the loss; the loss is −ln(share).": [
            f"{RATIO} -> {length} / (1 - share)" for length in ("length", "1")
        ],
        "The result is divided by c; it must be multiplied by c.": "return c * -> return 1 / c *",
        "The factor c is missing.": "return c * -> return",
        "The logarithm has base 2 or 10. The loss is in nats: use the natural one.": [
            "math.log( -> math.log2(",
            "math.log( -> math.log10(",
        ],
        "1 − share^(1/length) is the probability of an error at one position. The loss is −ln of "
        "the probability of the correct token; they are close only where both are small.": (
            f"{RATIO} -> 1 / (1 - share ** (1 / length))"
        ),
        "`share` itself is used as the loss; the loss is −ln(share).": [
            f"{RATIO} -> {length} / share" for length in ("length", "1")
        ],
        "The ratio of the length and −ln(share) is inverted.": (
            f"{RATIO} -> -math.log(share) / length"
        ),
    },
    named=True,
)


def times_larger(law, low, high):
    _, alpha = law
    return (math.log(low) / math.log(high)) ** (1 / alpha)


def times_cases(thorough: bool) -> Iterator[Case]:
    asked = [((1.0, 1.0), 0.1, 0.9), ((7.0, 0.5), 0.1, 0.9), ((3e6, 0.25), 0.01, 0.5)]
    asked += [((8.8e13, 0.076), 0.25, 0.75), ((1e5, 0.3), 0.5, 0.5)] if thorough else []
    yield from cases_of(("law", "low", "high"), asked)


LOGARITHMS = "math.log(low) / math.log(high)"

TIMES_LARGER = Question(
    times_larger,
    {"the ratio": ""},
    times_cases,
    {
        "The ratio is inverted: divide the size for `high` by that for `low`.": (
            f"{LOGARITHMS} -> math.log(high) / math.log(low)"
        ),
        "This is the ratio of the shares. Expected the ratio of the sizes.": [
            f"({LOGARITHMS}) {EXPONENT} -> high / low",
            f"{LOGARITHMS} -> high / low",
        ],
        "The exponent must be 1 / alpha.": [f" {EXPONENT} -> ", f"{EXPONENT} -> ** alpha"],
        "This is a difference of sizes; expected their ratio.": (
            f"({LOGARITHMS}) {EXPONENT} -> size_needed(law, 1, high) - size_needed(law, 1, low)"
        ),
        "The ratio does not depend on c, which cancels.": "return ( -> return law[0] * (",
    },
    named=True,
)


PARTS = {
    "rotation": [ROTATE],
    "alibi_bias": [SLOPES, ALIBI],
    "norm": [NORM],
    "grouped": [GROUPED],
    "distance": [VERDICT],
    "cache": [BYTES, LONGEST],
    "abrupt": [SHARES, SIZE_NEEDED, TIMES_LARGER],
}
"""The questions of each check, in the order of its arguments."""
