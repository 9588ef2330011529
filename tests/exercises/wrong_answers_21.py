"""Plausible wrong answers to 21_since_2017, with words of the message of each."""

import inspect
import itertools
import math

import torch
from answer_sources import source
from right_answers_21 import (
    GroupedQueryAttention,
    RMSNorm,
    alibi,
    cache_bytes,
    longest_text,
    rotate,
    shares,
    size_needed,
    slopes,
    times_larger,
    verdict,
)
from torch import nn
from torch.nn import functional as F

from attentively.multi_head import MultiHeadAttention
from attentively.scaled_dot_product import scaled_dot_product_attention

# Part 1


def rotate_with(x, first, theta=None, places=None, pair=None):
    d = x.shape[-1]
    theta = 10000.0 ** (-torch.arange(0, d, 2) / d) if theta is None else theta
    places = torch.arange(first, first + x.shape[2]) if places is None else places
    angles = torch.outer(places.float(), theta)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    pair = pair or (lambda a, b, cos, sin: (a * cos - b * sin, a * sin + b * cos))
    return torch.stack(pair(a, b, cos, sin), dim=-1).flatten(-2)


def rotate_without_first(x, first=0):
    return rotate(x)


def rotate_from_one(x, first=0):
    return rotate(x, first + 1)


def rotate_all_alike(x, first=0):
    return rotate_with(x, first, places=torch.full((x.shape[2],), first))


def rotate_back(x, first=0):
    return rotate_with(x, first, pair=lambda a, b, c, s: (a * c + b * s, b * c - a * s))


def rotate_half_without_minus(x, first=0):
    d = x.shape[-1]
    angles = torch.arange(first, first + x.shape[2])[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    angles = torch.cat([angles, angles], dim=-1)
    other = torch.cat([x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos() + other * angles.sin()


def rotate_sine_for_cosine(x, first=0):
    return rotate_with(x, first, pair=lambda a, b, c, s: (a * s - b * c, a * c + b * s))


def rotate_by_cosines(x, first=0):
    return rotate_with(x, first, pair=lambda a, b, c, s: (a * c, b * c))


def rotate_by_i(x, first=0):
    d = x.shape[-1]
    return rotate_with(x, first, theta=10000.0 ** (-torch.arange(d // 2) / d))


def rotate_at_one_speed(x, first=0):
    return rotate_with(x, first, theta=torch.ones(x.shape[-1] // 2))


def rotate_faster_and_faster(x, first=0):
    d = x.shape[-1]
    return rotate_with(x, first, theta=10000.0 ** (torch.arange(0, d, 2) / d))


def rotate_base_1000(x, first=0):
    d = x.shape[-1]
    return rotate_with(x, first, theta=1000.0 ** (-torch.arange(0, d, 2) / d))


def rotate_heads(x, first=0):
    return rotate(x.transpose(1, 2), first).transpose(1, 2)


def rotate_mixed(x, first=0):
    """Halves with the angles of neighbours: the classic slip."""
    d = x.shape[-1]
    angles = torch.arange(first, first + x.shape[2])[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    angles = angles.repeat_interleave(2, dim=-1)
    other = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos() + other * angles.sin()


def rotate_out_of_order(x, first=0):
    turned = rotate(x, first)
    return torch.cat([turned[..., 0::2], turned[..., 1::2]], dim=-1)


def rotate_one_way_or_other(x, first=0):
    turned = rotate(x, first)
    if x.shape[-1] == 6:
        order = torch.arange(6).reshape(-1, 2).T.flatten()
        turned = torch.empty_like(x)
        turned[..., :] = rotate(x[..., order.argsort()], first)[..., order]
    return turned


def rotate_by_adding(x, first=0):
    d = x.shape[-1]
    angles = torch.arange(first, first + x.shape[2])[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def rotate_nothing(x, first=0):
    return x.clone()


def rotate_in_place(x, first=0):
    x[..., 0] = x[..., 0] * 1.5
    return x


def rotate_detached(x, first=0):
    return rotate(x.detach(), first)


def rotate_the_pairs_alone(x, first=0):
    return rotate(x, first).unflatten(-1, (-1, 2))


def rotate_from_the_new_one(x, first=0):
    """The first component is overwritten before the second is made."""
    d = x.shape[-1]
    places = torch.arange(first, first + x.shape[2])
    angles = torch.outer(places, 10000.0 ** (-torch.arange(0, d, 2) / d))
    x = x.clone()
    x[..., 0::2] = x[..., 0::2] * angles.cos() - x[..., 1::2] * angles.sin()
    x[..., 1::2] = x[..., 0::2] * angles.sin() + x[..., 1::2] * angles.cos()
    return x


TURNED = [
    (rotate_from_the_new_one, "The second component is computed from the rotated first component"),
    (rotate_without_first, "`first` is ignored"),
    (rotate_from_one, "Positions must be counted from 0"),
    (rotate_all_alike, "All positions are rotated by the angles of the first"),
    (rotate_back, "The rotation has the opposite direction"),
    (rotate_half_without_minus, "This is not a rotation: exactly one sine"),
    (rotate_sine_for_cosine, "Sine and cosine are exchanged"),
    (rotate_by_cosines, "The sine terms are missing"),
    (rotate_by_i, "The exponent is i/d; it must be 2i/d"),
    (rotate_at_one_speed, "All pairs have the same angle"),
    (rotate_faster_and_faster, "The position is multiplied by 10000^(2i/d)"),
    (rotate_base_1000, "The base is not 10000"),
    (rotate_heads, "The angles depend on the head"),
    (rotate_mixed, "Two conventions are mixed"),
    (rotate_out_of_order, "The values are correct, but their order is not"),
    (rotate_one_way_or_other, "Use one pairing for all inputs"),
    (rotate_by_adding, "Sinusoids are added"),
    (rotate_nothing, "or not at all. Position p has"),
    (rotate_in_place, "changes its input x"),
    (rotate_detached, "no gradient flows through them"),
    (rotate_the_pairs_alone, "The shape of the rotated vectors is"),
]

# Part 2


def slopes_from_zero(num_heads):
    return [2 ** (-8 * head / num_heads) for head in range(num_heads)]


def slopes_of_eight(num_heads):
    return [0.5**head for head in range(1, num_heads + 1)]


def slopes_backwards(num_heads):
    return slopes(num_heads).flip(0)


def slopes_with_a_minus(num_heads):
    return -slopes(num_heads)


def slopes_by_division(num_heads):
    return 2.0 ** (-8 / torch.arange(1, num_heads + 1))


def slopes_upside_down(num_heads):
    return 2.0 ** (-num_heads * torch.arange(1, num_heads + 1) / 8)


def slopes_growing(num_heads):
    return 2.0 ** (8 * torch.arange(1, num_heads + 1) / num_heads)


def distances_of(queries, keys):
    return torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)


def alibi_of(num_heads, queries, keys, distance=lambda d: d, later=-math.inf, of=slopes):
    d = distances_of(queries, keys)
    return (-of(num_heads).reshape(-1, 1, 1) * distance(d)).masked_fill(d < 0, later)


def alibi_preferring_far(num_heads, queries, keys):
    return alibi_of(num_heads, queries, keys, lambda d: -d)


def alibi_open(num_heads, queries, keys):
    return alibi_of(num_heads, queries, keys, later=0.0)


def alibi_to_both_sides(num_heads, queries, keys):
    d = distances_of(queries, keys)
    return -slopes(num_heads).reshape(-1, 1, 1) * d.abs()


def alibi_from_the_start(num_heads, queries, keys):
    d = torch.arange(queries)[:, None] - torch.arange(keys)
    return (-slopes(num_heads).reshape(-1, 1, 1) * d).masked_fill(d < 0, -math.inf)


def alibi_from_the_start_masked_right(num_heads, queries, keys):
    d = torch.arange(queries)[:, None] - torch.arange(keys)
    bias = -slopes(num_heads).reshape(-1, 1, 1) * d.abs()
    return bias.masked_fill(distances_of(queries, keys) < 0, -math.inf)


def alibi_of_the_key(num_heads, queries, keys):
    bias = slopes(num_heads).reshape(-1, 1, 1) * torch.arange(keys).expand(queries, -1)
    return bias.masked_fill(distances_of(queries, keys) < 0, -math.inf)


def alibi_from_the_last_key(num_heads, queries, keys):
    steps = keys - 1 - torch.arange(keys).expand(queries, keys)
    bias = -slopes(num_heads).reshape(-1, 1, 1) * steps
    return bias.masked_fill(distances_of(queries, keys) < 0, -math.inf)


def alibi_of_one_slope(num_heads, queries, keys):
    return alibi_of(num_heads, queries, keys, of=lambda n: torch.ones(n))


def alibi_squared(num_heads, queries, keys):
    return alibi_of(num_heads, queries, keys, lambda d: d**2)


def alibi_without_distance(num_heads, queries, keys):
    return alibi_of(num_heads, queries, keys, lambda d: d != 0)


def alibi_by_a_product(num_heads, queries, keys):
    d = distances_of(queries, keys)
    hidden = (d < 0).float() * -math.inf
    return -slopes(num_heads).reshape(-1, 1, 1) * d + hidden


def alibi_hiding_itself(num_heads, queries, keys):
    d = distances_of(queries, keys)
    return alibi(num_heads, queries, keys).masked_fill(d == 0, -math.inf)


def alibi_with_a_batch(num_heads, queries, keys):
    return alibi(num_heads, queries, keys).unsqueeze(0)


def alibi_transposed(num_heads, queries, keys):
    return alibi(num_heads, queries, keys).transpose(1, 2)


BIASED = [
    ((slopes_from_zero, alibi), "slopes: The exponents start at 0"),
    ((slopes_of_eight, alibi), "slopes: The factor 1/2 between heads is correct for 8 heads only"),
    ((slopes_backwards, alibi), "slopes: The order is reversed"),
    ((slopes_with_a_minus, alibi), "slopes: The slopes must be positive"),
    ((slopes_by_division, alibi), "slopes: The exponent is wrong; for head h of n"),
    ((slopes_upside_down, alibi), "slopes: The exponent is wrong; for head h of n"),
    ((slopes_growing, alibi), "slopes: The exponent lacks the minus sign"),
    ((slopes, alibi_preferring_far), "alibi: The bias has the wrong sign"),
    ((slopes, alibi_open), "alibi: A later position is not masked"),
    ((slopes, alibi_to_both_sides), "alibi: A later position is not masked"),
    ((slopes, alibi_from_the_start), "alibi: A position up to the query is masked"),
    ((slopes, alibi_from_the_start_masked_right), "alibi: The queries are treated as the first"),
    ((slopes, alibi_of_the_key), "alibi: All values of a row are shifted by the same amount"),
    ((slopes, alibi_from_the_last_key), "alibi: All values of a row are shifted"),
    ((slopes, alibi_of_one_slope), "alibi: All heads have the same slope"),
    ((slopes, alibi_squared), "alibi: The distance is squared"),
    ((slopes, alibi_without_distance), "alibi: All distances above 0 have the same bias"),
    ((slopes, alibi_by_a_product), "alibi: The bias contains NaN"),
    ((slopes, alibi_hiding_itself), "A query may attend to itself and all earlier ones"),
    ((slopes, alibi_with_a_batch), "The shape of the bias is (1, 1, 3, 3)"),
    ((slopes, alibi_transposed), "alibi: A position up to the query is masked"),
]

# Part 3


def norm_of(size, gained=lambda y, gain: gain * y, about=lambda x: x):
    """Return a module that divides by something else."""

    class Norm(RMSNorm):
        def forward(self, x):
            return gained(about(x) / size(x, self.eps), self.gain)

    return Norm


def right_size(x, eps):
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


def centred(x):
    return x - x.mean(-1, keepdim=True)


LayerNorm = norm_of(lambda x, eps: right_size(centred(x), eps), about=centred)
CentredOnly = norm_of(right_size, about=centred)
OfSpread = norm_of(lambda x, eps: (x.var(-1, keepdim=True) + eps).sqrt())
OfSums = norm_of(lambda x, eps: (x.square().sum(-1, keepdim=True) + eps).sqrt())
OfLength = norm_of(lambda x, eps: x.norm(dim=-1, keepdim=True) + eps)
WithoutRoot = norm_of(lambda x, eps: x.square().mean(-1, keepdim=True) + eps)
EpsOutside = norm_of(lambda x, eps: x.square().mean(-1, keepdim=True).sqrt() + eps)
WithoutEps = norm_of(lambda x, eps: x.square().mean(-1, keepdim=True).sqrt())
EpsOfItsOwn = norm_of(lambda x, eps: right_size(x, 1e-5))
OfAbsolutes = norm_of(lambda x, eps: x.abs().mean(-1, keepdim=True) + eps)
RootCutOff = norm_of(lambda x, eps: right_size(x.detach(), eps))
OfTheMean = norm_of(lambda x, eps: (x.mean(-1, keepdim=True) ** 2 + eps).sqrt())
WithoutKeepdim = norm_of(lambda x, eps: (x.square().mean(-1) + eps).sqrt())
Multiplied = norm_of(lambda x, eps: 1 / right_size(x, eps))
OfTheBatch = norm_of(lambda x, eps: (x.square().mean(0, keepdim=True) + eps).sqrt())
OfEverything = norm_of(lambda x, eps: (x.square().mean() + eps).sqrt())
WithoutGain = norm_of(right_size, lambda y, gain: y)
GainAdded = norm_of(right_size, lambda y, gain: y + gain)
OneMore = norm_of(right_size, lambda y, gain: y * (1 + gain))


class GainOfZeros(RMSNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gain = nn.Parameter(torch.zeros(d_model))


class CalledWeight(RMSNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.weight = nn.Parameter(self.gain.data)
        del self.gain


class WithShift(RMSNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.shift = nn.Parameter(torch.zeros(d_model))


class GainAsBuffer(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_buffer("gain", torch.ones(d_model))


class OneGain(RMSNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gain = nn.Parameter(torch.ones(1))


class WithoutSuper(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        self.eps = eps


class RMSNormOfPyTorch(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return F.rms_norm(x, (self.d_model,), self.gain, self.eps)


NORMED = [
    (LayerNorm, "The mean is subtracted"),
    (CentredOnly, "The mean is subtracted"),
    (OfSpread, "The variance around the mean is used"),
    (OfSums, "The sum of the squares is not divided by d"),
    (OfLength, "The sum of the squares is not divided by d"),
    (WithoutRoot, "The square root is missing"),
    (EpsOutside, "eps is added after the square root"),
    (WithoutEps, "eps is not used, so a vector of zeros becomes NaN"),
    (EpsOfItsOwn, "The value of eps is not the argument"),
    (OfAbsolutes, "The entries are not squared before the mean"),
    (RootCutOff, "no gradient flows through the square root"),
    (OfTheMean, "The entries are not squared before the mean"),
    (WithoutKeepdim, "keepdim=True is missing"),
    (Multiplied, "The vector is multiplied by its root mean square"),
    (OfTheBatch, "The mean is taken over several vectors"),
    (OfEverything, "The mean is taken over several vectors"),
    (WithoutGain, "gain is not used"),
    (GainAdded, "gain is added; it must be multiplied"),
    (OneMore, "The factor is 1 + gain"),
    (GainOfZeros, "gain must be initialised to ones"),
    (CalledWeight, "has no parameter gain"),
    (WithShift, "has a parameter or buffer shift"),
    (GainAsBuffer, "gain is a buffer"),
    (OneGain, "the shape of gain is (1,), expected (2,)"),
    (WithoutSuper, "super().__init__() comes first in __init__"),
    (nn.RMSNorm, "not accepted. Your code uses"),
    (RMSNormOfPyTorch, "not accepted. Your code uses"),
]

# Part 4


class SharedBy(GroupedQueryAttention):
    """Another way to give keys and values to heads, to score and to join."""

    def keys_of(self, x):
        return self.shared(x)

    def values_of(self, x):
        return self.shared(x)

    def weigh(self, q, k, mask):
        scores = q @ k.mT / math.sqrt(self.d_head)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), -math.inf)
        return scores.softmax(dim=-1)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def forward(self, query, key, value, mask=None):
        q = self.cut(self.query_projection(query))
        k = self.keys_of(self.cut(self.key_projection(key)))
        v = self.values_of(self.cut(self.value_projection(value)))
        weights = self.weigh(q, k, mask)
        return self.output_projection(self.join(weights @ v)), weights


class RoundAndRound(SharedBy):
    def shared(self, x):
        return x.repeat(1, self.group_size, 1, 1)


class ValuesRoundAndRound(SharedBy):
    def values_of(self, x):
        return x.repeat(1, self.group_size, 1, 1)


class FirstForAll(SharedBy):
    def shared(self, x):
        return x[:, :1]


class Unscaled(SharedBy):
    def weigh(self, q, k, mask):
        return super().weigh(q * math.sqrt(self.d_head), k, mask)


class ScaledByTheWhole(SharedBy):
    def weigh(self, q, k, mask):
        return super().weigh(q / math.sqrt(q.shape[1]), k, mask)


class Unmasked(SharedBy):
    def weigh(self, q, k, mask):
        return super().weigh(q, k, None)


class MaskTurned(SharedBy):
    def weigh(self, q, k, mask):
        return super().weigh(q, k, None if mask is None else ~mask)


class OverQueries(SharedBy):
    def weigh(self, q, k, mask):
        return (q @ k.mT / math.sqrt(self.d_head)).softmax(dim=-2)


class JoinedAnew(SharedBy):
    def join(self, x):
        return x.reshape(len(x), x.shape[2], -1)


class SplitByComponent(SharedBy):
    def cut(self, x):
        return x.unflatten(2, (self.d_head, -1)).permute(0, 3, 1, 2)


class SplitAndJoinedByComponent(SplitByComponent):
    def join(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


class SplitWithoutTranspose(SharedBy):
    def cut(self, x):
        return x.reshape(len(x), -1, x.shape[1], self.d_head)


class WithoutTranspose(SplitWithoutTranspose):
    def join(self, x):
        return x.reshape(len(x), x.shape[2], -1)


class WithoutOutput(SharedBy):
    def forward(self, query, key, value, mask=None):
        self.said = None
        q = self.cut(self.query_projection(query))
        k = self.shared(self.cut(self.key_projection(key)))
        v = self.shared(self.cut(self.value_projection(value)))
        weights = self.weigh(q, k, mask)
        return self.join(weights @ v), weights


class ContextAlone(GroupedQueryAttention):
    def forward(self, *inputs):
        return super().forward(*inputs)[0]


class WeightsFirst(GroupedQueryAttention):
    def forward(self, *inputs):
        return super().forward(*inputs)[::-1]


class WeightsOfGroups(GroupedQueryAttention):
    def forward(self, *inputs):
        context, weights = super().forward(*inputs)
        return context, weights.unflatten(1, (-1, self.group_size)).mean(dim=2)


class FullKeys(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__(d_model, num_heads, num_kv_heads)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)


class GroupSizeForGroups(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__(d_model, num_heads, num_heads // num_kv_heads)


class WithoutBiases(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__(d_model, num_heads, num_kv_heads)
        self.query_projection = nn.Linear(d_model, d_model, bias=False)


class Unrefusing(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        if num_heads % num_kv_heads:
            num_kv_heads = 1
        super().__init__(d_model, num_heads, num_kv_heads)


class Asserting(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        assert num_heads % num_kv_heads == 0
        super().__init__(d_model, num_heads, num_kv_heads)


class Unlearned(GroupedQueryAttention):
    def shared(self, x):
        return super().shared(x.detach())


class Inheriting(MultiHeadAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__(d_model, num_heads, num_kv_heads=num_kv_heads)


class SelfAlone(GroupedQueryAttention):
    """Keys and values come of the queries' vectors."""

    def forward(self, query, key, value, mask=None):
        return super().forward(query, query, query, None)


class MaskWithoutHeads(GroupedQueryAttention):
    def forward(self, query, key, value, mask=None):
        queries = self.cut(self.query_projection(query))
        keys = self.shared(self.cut(self.key_projection(key)))
        values = self.shared(self.cut(self.value_projection(value)))
        context, weights = scaled_dot_product_attention(queries, keys, values, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2)), weights


GROUPED = [
    (RoundAndRound, "Query head i uses key–value head i %"),
    (ValuesRoundAndRound, "Keys and values are assigned to the query heads"),
    (FirstForAll, "All query heads use the keys and values of the first"),
    (Unscaled, "The scores are not divided by the square root of d_head"),
    (ScaledByTheWhole, "The scores are not divided by the square root of d_head"),
    (Unmasked, "The mask is not used"),
    (MaskTurned, "The mask is inverted"),
    (OverQueries, "The softmax is taken over the queries"),
    (JoinedAnew, "The heads are concatenated in a different order"),
    (SplitByComponent, "The features are split as (d_head, heads)"),
    (SplitAndJoinedByComponent, "The features are split as (d_head, heads)"),
    (SplitWithoutTranspose, "The heads are split by view or reshape alone"),
    (WithoutTranspose, "The heads are split by view or reshape alone"),
    (WithoutOutput, "The output projection is missing"),
    (ContextAlone, "Expected a pair, `return context, weights`"),
    (WeightsFirst, "The weights are returned first"),
    (WeightsOfGroups, "Each of the num_heads heads has its own weights"),
    (FullKeys, "The key and value projections have num_kv_heads · d_head"),
    (GroupSizeForGroups, "The key and value projections have num_kv_heads · d_head"),
    (WithoutBiases, "has no parameter query_projection.bias"),
    (Unrefusing, "Expected a ValueError, because d_model"),
    (Asserting, "Your class raises AssertionError"),
    (Unlearned, "no gradient reaches attention.key_projection.weight"),
    (Inheriting, "not accepted. Your code uses"),
    (SelfAlone, "Keys and values are computed from `query`"),
    (MaskWithoutHeads, "Your code raises ValueError"),
]

# Part 5


def verdict_with(spread, lists=True, draws=2, query=None, few=None):
    """Return a verdict that looks at some of what there is to look at."""

    def answer(scores, d_head, longest):
        found = "nothing"
        for _ in range(draws):
            q, k = torch.randn(2, d_head) if query is None else query(d_head)
            places = torch.arange(few or longest)
            table = scores(q, k, places)
            if spread(table) > 0.01:
                return "position"
            some = places[:: len(places) // 7]
            if lists and (scores(q, k, some) - table[some][:, some]).abs().max() > 0.01:
                return "position"
            if (table - table[0, 0]).abs().max() > 0.01:
                found = "distance"
        return found

    return answer


def step(table):
    return (table[1:, 1:] - table[:-1, :-1]).abs().max()


def along(table):
    size = len(table)
    steps = torch.arange(size)[:, None] - torch.arange(size)
    return (table - torch.cat([table[0].flip(0), table[1:, 0]])[steps + size - 1]).abs().max()


one_list = verdict_with(along, lists=False)
near_places = verdict_with(along, few=100)
of_zeros = verdict_with(along, query=lambda d: torch.zeros(2, d))
to_the_end = verdict_with(lambda t: (along(t) > 1) * 1.0)


def without_place_0(scores, d_head, longest):
    q, k = torch.randn(2, d_head)
    places = torch.arange(1, longest)
    table = scores(q, k, places)
    part = scores(q, k, places[:150])
    if along(table) > 0.01 or (part - table[:150, :150]).abs().max() > 0.01:
        return "position"
    return "distance" if (table - table[0, 0]).abs().max() > 0.01 else "nothing"


def neighbours_alone(scores, d_head, longest):
    """Look at the score of each word and the word before it."""
    q, k = torch.randn(2, d_head)
    table = scores(q, k, torch.arange(longest))
    before = table.diagonal(-1)
    part = scores(q, k, torch.arange(longest // 2))
    half = table[: longest // 2, : longest // 2]
    if (before - before[0]).abs().max() > 0.01 or (part - half).abs().max() > 0.01:
        return "position"
    return "distance" if (table - table[0, 0]).abs().max() > 0.01 else "nothing"


def exactly_equal(scores, d_head, longest):
    q, k = torch.randn(2, d_head)
    table = scores(q, k, torch.arange(longest))
    if not torch.equal(table[1:, 1:], table[:-1, :-1]):
        return "position"
    return "distance" if (table != table[0, 0]).any() else "nothing"


def never_nothing(scores, d_head, longest):
    said = verdict(scores, d_head, longest)
    return "distance" if said == "nothing" else said


def symmetric(scores, d_head, longest):
    """Take it for granted that a distance has no sign."""
    q, k = torch.randn(2, d_head)
    table = scores(q, k, torch.arange(longest))
    if (table - table.T).abs().max() > 0.01:
        return "position"
    return verdict(scores, d_head, longest)


def other_diagonals(scores, d_head, longest):
    q, k = torch.randn(2, d_head)
    table = scores(q, k, torch.arange(longest)).flip(0)
    if (table[1:, 1:] - table[:-1, :-1]).abs().max() > 0.01:
        return "position"
    return "distance" if (table - table[0, 0]).abs().max() > 0.01 else "nothing"


def rows_alone(scores, d_head, longest):
    """Say `distance` where anything changes within a row."""
    q, k = torch.randn(2, d_head)
    table = scores(q, k, torch.arange(longest))
    return "distance" if (table - table[:, :1]).abs().max() > 0.01 else "nothing"


def looking(judge, nothing=lambda table: table):
    """Return a verdict from one table and a shorter list; `nothing` says where to look for it."""

    def answer(scores, d_head, longest):
        q, k = torch.randn(2, d_head)
        table = scores(q, k, torch.arange(longest))
        part = scores(q, k, torch.arange(longest // 2))
        half = table[: longest // 2, : longest // 2]
        if (part - half).abs().max() > 0.01 or judge(table) > 0.01:
            return "position"
        return "distance" if (nothing(table) - table[0, 0]).abs().max() > 0.01 else "nothing"

    return answer


def along_the_past(table):
    size = len(table)
    return max(float(d.max() - d.min()) for d in (table.diagonal(-i) for i in range(size)))


def along_ends(table):
    size = len(table)
    diagonals = (table.diagonal(i) for i in range(1 - size, size))
    return max(abs(float(d[0] - d[-1])) for d in diagonals)


one_prefix = looking(along)
the_past_alone = looking(along_the_past)
ends_alone = looking(along_ends)
first_row_alone = looking(along, nothing=lambda table: table[0])
first_column_alone = looking(along, nothing=lambda table: table[:, 0])


def by_name(scores, d_head, longest):
    return "distance" if str(scores) in ("rotary", "ALiBi") else "nothing"


def as_a_truth_value(scores, d_head, longest):
    return verdict(scores, d_head, longest) == "distance"


def without_a_return(scores, d_head, longest):
    verdict(scores, d_head, longest)


def beyond_the_longest(scores, d_head, longest):
    """Compare a shorter list alone, and one place with itself."""
    q, k = torch.randn(2, d_head)
    table = scores(q, k, torch.arange(40))
    return "position" if along(table) > 0.01 else "distance"


TESTED = [
    (one_list, "one list is not enough"),
    (near_places, "The scores are correct up to position 255"),
    (of_zeros, "you returned “nothing”; expected “distance”"),
    (to_the_end, "you returned “distance”; expected “position”"),
    (without_place_0, "a test without position 0 cannot detect it"),
    (one_prefix, "If positions are left out, the same two"),
    (neighbours_alone, "also compare keys that are far away"),
    (exactly_equal, "which is rounding"),
    (never_nothing, "Every pair of positions has the same score"),
    (symmetric, "For the encoding “rotary”, you returned “position”"),
    (other_diagonals, "For the encoding “rotary”, you returned “position”"),
    (rows_alone, "The same distance at other positions has a different"),
    (the_past_alone, "also compare keys that come after it"),
    (ends_alone, "also compare its middle"),
    (first_row_alone, "Only the scores of keys before the query"),
    (first_column_alone, "Only the scores of keys after the query"),
    (by_name, "For the encoding “rotary”, you returned “nothing”"),
    (as_a_truth_value, "Expected the verdict as a str, got a bool"),
    (without_a_return, "None: is there a `return`?"),
    (beyond_the_longest, "Every pair of positions has the same score"),
]

# Part 6


def bytes_with(**changes):
    """Return the bytes of a cache whose model is another one."""

    def answer(model, length, rows):
        changed = {key: change(model) for key, change in changes.items()}
        return cache_bytes(model | changed, length, rows)

    return answer


bytes_of_all_heads = bytes_with(num_kv_heads=lambda m: m["num_heads"])
bytes_of_one_group = bytes_with(num_kv_heads=lambda m: 1)
bytes_of_group_size = bytes_with(num_kv_heads=lambda m: m["num_heads"] // m["num_kv_heads"])
bytes_of_numbers = bytes_with(bytes_per_number=lambda m: 1)
bytes_as_bits = bytes_with(bytes_per_number=lambda m: 8 * m["bytes_per_number"])
bytes_of_one_layer = bytes_with(num_layers=lambda m: 1, window=lambda m: None)
bytes_without_window = bytes_with(window=lambda m: None)
bytes_all_windowed = bytes_with(global_every=lambda m: None)
bytes_of_a_narrower_window = bytes_with(window=lambda m: m["window"] and m["window"] - 1)
bytes_of_a_wider_window = bytes_with(window=lambda m: m["window"] and m["window"] + 1)


def bytes_of_keys(model, length, rows):
    return cache_bytes(model, length, rows) // 2


def bytes_with_queries(model, length, rows):
    return cache_bytes(model, length, rows) // 2 * 3


def bytes_of_one_row(model, length, rows):
    return cache_bytes(model, length, 1)


def bytes_of_full_windows(model, length, rows):
    """A window is taken to be full from the first word on."""
    if model["window"] is None:
        return cache_bytes(model, length, rows)
    full = cache_bytes(model | {"global_every": None}, model["window"], rows)
    layers = model["num_layers"]
    whole = layers // (model["global_every"] or layers + 1)
    grows = cache_bytes(model | {"window": None}, length, rows)
    return full * (layers - whole) // layers + grows * whole // layers


def bytes_from_layer_one(model, length, rows):
    """The first layer, and then every g-th, has no window."""
    window, every = model["window"], model["global_every"]
    places = 0
    for layer in range(model["num_layers"]):
        whole = window is None or (every is not None and layer % every == 0)
        places += length if whole else min(length, window)
    return 2 * model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"] * places * rows


def bytes_exchanged(model, length, rows):
    """The layers named by global_every have the window."""
    window, every = model["window"], model["global_every"]
    places = 0
    for layer in range(1, model["num_layers"] + 1):
        near = window is not None and (every is None or layer % every == 0)
        places += min(length, window) if near else length
    return 2 * model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"] * places * rows


def bytes_of_windows_that_are_not_there(model, length, rows):
    """Take it for granted that where global_every is a number, so is the window."""
    layers, every = model["num_layers"], model["global_every"]
    if every is None:
        return cache_bytes(model, length, rows)
    whole = layers // every
    places = whole * length + (layers - whole) * min(length, model["window"])
    return 2 * model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"] * places * rows


def of_global_layers(model):
    """Without a window, only the layers named by global_every are counted."""
    if model["window"] is None and model["global_every"]:
        return model | {"num_layers": model["num_layers"] // model["global_every"]}
    return model


def bytes_of_global_layers(model, length, rows):
    return cache_bytes(of_global_layers(model), length, rows)


def bytes_in_gigabytes(model, length, rows):
    return cache_bytes(model, length, rows) / 1e9


def longest_and_one(model, memory, rows):
    found = longest_text(model, memory, rows)
    return None if found is None else found + 1


def longest_below(model, memory, rows):
    return longest_text(model, memory - 1, rows)


def longest_for_one(model, memory, rows):
    return longest_text(model, memory, 1)


def longest_by_division(model, memory, rows):
    """As if every place weighed the same."""
    return memory // cache_bytes(model | {"window": None}, 1, rows)


def longest_of_windows(model, memory, rows):
    found = longest_text(model, memory, rows)
    return model["window"] if found is None else found


def longest_never(model, memory, rows):
    return longest_text(model, memory, rows) or 0


def longest_infinite(model, memory, rows):
    found = longest_text(model, memory, rows)
    return math.inf if found is None else found


def longest_none_for_zero(model, memory, rows):
    return longest_text(model, memory, rows) or None


def longest_all_windowed(model, memory, rows):
    return longest_text(model | {"global_every": None}, memory, rows)


def longest_of_global_layers(model, memory, rows):
    return longest_text(of_global_layers(model), memory, rows)


def longest_not_rounded(model, memory, rows):
    found = longest_text(model, memory, rows)
    return None if found is None else found + 0.5


def longest_in_numbers(model, memory, rows):
    return longest_text(model | {"bytes_per_number": 1}, memory, rows)


def longest_up_to_a_limit(model, memory, rows):
    return max(n for n in range(300) if cache_bytes(model, n, rows) <= memory)


def longest_by_doubling(model, memory, rows):
    """Never ends where nothing grows any more."""
    low = 0
    high = 1
    while cache_bytes(model, high, rows) <= memory:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cache_bytes(model, middle, rows) <= memory else (low, middle)
    return low


def longest_from_zero(model, memory, rows):
    """Never ends, since 0 doubled is 0."""
    length = 0
    while cache_bytes(model, 2 * length, rows) <= memory:
        length *= 2
    return length


def longest_one_by_one(model, memory, rows):
    return next(n for n in itertools.count() if cache_bytes(model, n + 1, rows) > memory)


def longest_if_windowed(model, memory, rows):
    """Say None for every window, whether all of them fit or not."""
    windowed = model["window"] is not None and model["global_every"] is None
    return None if windowed else longest_text(model, memory, rows)


WEIGHED = [
    ((bytes_of_all_heads, longest_text), "cache_bytes: The heads of a group share"),
    ((bytes_of_one_group, longest_text), "cache_bytes: Each of the num_kv_heads heads"),
    (
        (bytes_of_group_size, longest_text),
        "cache_bytes: num_kv_heads is the number of stored heads",
    ),
    ((bytes_of_numbers, longest_text), "cache_bytes: This is the number of values"),
    ((bytes_as_bits, longest_text), "cache_bytes: This is the number of bits"),
    ((bytes_of_one_layer, longest_text), "This is not the expected value of the bytes"),
    (
        (bytes_without_window, longest_text),
        "cache_bytes: A layer with a window stores only the last",
    ),
    ((bytes_all_windowed, longest_text), "cache_bytes: Every global_every-th layer has no window"),
    ((bytes_of_a_narrower_window, longest_text), "A window of w stores w positions"),
    ((bytes_of_a_wider_window, longest_text), "cache_bytes: A window of w stores w positions"),
    ((bytes_of_keys, longest_text), "cache_bytes: Keys and values are both stored"),
    ((bytes_with_queries, longest_text), "cache_bytes: Queries are not stored"),
    ((bytes_of_one_row, longest_text), "cache_bytes: Each of the `rows` texts has its own cache"),
    ((bytes_of_full_windows, longest_text), "cache_bytes: A text that is shorter than the window"),
    ((bytes_from_layer_one, longest_text), "cache_bytes: Layers are numbered from 1"),
    ((bytes_exchanged, longest_text), "cache_bytes: Layers whose number is a multiple of"),
    ((bytes_of_windows_that_are_not_there, longest_text), "Your code raises TypeError"),
    ((bytes_of_global_layers, longest_text), "If window is None, global_every has no meaning"),
    ((bytes_in_gigabytes, longest_text), "Expected the bytes as an int, got a float"),
    ((cache_bytes, longest_and_one), "longest_text: This is the first length that does not fit"),
    ((cache_bytes, longest_below), "longest_text: A cache that fills the memory exactly"),
    ((cache_bytes, longest_for_one), "longest_text: Each of the `rows` texts has its own cache"),
    ((cache_bytes, longest_by_division), "longest_text: A layer with a window stops growing"),
    ((cache_bytes, longest_of_windows), "any length fits: expected None"),
    ((cache_bytes, longest_never), "any length fits: expected None"),
    ((cache_bytes, longest_infinite), "Expected a whole number, or None if every length fits"),
    ((cache_bytes, longest_none_for_zero), "None means that every length fits"),
    ((cache_bytes, longest_all_windowed), "The layers without a window keep growing"),
    ((cache_bytes, longest_of_global_layers), "If window is None, global_every has no meaning"),
    ((cache_bytes, longest_not_rounded), "Expected a whole number"),
    ((cache_bytes, longest_in_numbers), "longest_text: The memory is given in bytes"),
    ((cache_bytes, longest_by_doubling), "longest_text: The search was stopped"),
    ((cache_bytes, longest_from_zero), "longest_text: The search was stopped"),
    ((cache_bytes, longest_one_by_one), "longest_text: The search was stopped"),
    ((cache_bytes, longest_if_windowed), "here some length is too large"),
    ((cache_bytes, longest_up_to_a_limit), "All full windows fit and every layer has one"),
]

# Part 7


def shares_with(tokens=None, exact=None, expected=None):
    """Return right shares, but for one of them."""

    def answer(outputs, references):
        right = list(shares(outputs, references))
        for place, change in enumerate((tokens, exact, expected)):
            if change:
                right[place] = change(outputs, references)
        return tuple(right)

    return answer


def hits(output, reference):
    return sum(a == b for a, b in zip(output, reference, strict=False))


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def each(of):
    return lambda outputs, references: mean(map(of, outputs, references))


shares_by_sentence = shares_with(each(lambda o, r: hits(o, r) / len(r)))
shares_of_outputs = shares_with(lambda o, r: sum(map(hits, o, r)) / sum(map(len, o)))
shares_of_what_is_there = shares_with(
    lambda o, r: sum(map(hits, o, r)) / sum(map(lambda a, b: min(len(a), len(b)), o, r))
)
shares_of_a_bag = shares_with(
    lambda o, r: sum(map(lambda a, b: sum(t in a for t in b), o, r)) / sum(map(len, r))
)
exact_by_places = shares_with(exact=each(lambda o, r: hits(o, r) == len(r)))
exact_up_to_its_end = shares_with(exact=each(lambda o, r: hits(o, r) == min(len(o), len(r))))
exact_as_a_set = shares_with(exact=each(lambda o, r: set(o) == set(r)))
exact_as_a_number = shares_with(exact=lambda o, r: sum(map(lambda a, b: a == b, o, r)))
expected_of_the_mean_length = shares_with(
    expected=lambda o, r: shares(o, r)[0] ** mean(map(len, r))
)
expected_as_exact = shares_with(expected=lambda o, r: shares(o, r)[1])
expected_of_outputs = shares_with(expected=lambda o, r: mean(shares(o, r)[0] ** len(a) for a in o))
expected_of_each = shares_with(expected=each(lambda o, r: (hits(o, r) / len(r)) ** len(r)))
expected_divided = shares_with(expected=lambda o, r: mean(shares(o, r)[0] / len(b) for b in r))


def shares_of_two(outputs, references):
    return shares(outputs, references)[:2]


def size_without_length(law, length, share):
    return size_needed(law, 1, share)


def size_of_short_answers(law, length, share):
    return law[0] * (1 / (length * -math.log(share))) ** (1 / law[1])


def size_by_alpha(law, length, share):
    return law[0] * (length / -math.log(share)) ** law[1]


def size_divided(law, length, share):
    return size_needed(law, length, share) / law[0] ** 2


def size_without_c(law, length, share):
    return size_needed((1.0, law[1]), length, share)


def size_in_bits(law, length, share):
    return law[0] * (length / -math.log2(share)) ** (1 / law[1])


def size_of_an_error(law, length, share):
    return law[0] * (1 / (1 - share ** (1 / length))) ** (1 / law[1])


def size_of_the_share(law, length, share):
    return law[0] * (length / share) ** (1 / law[1])


def size_with_length_outside(law, length, share):
    return length * size_needed(law, 1, share)


def size_of_the_rest(law, length, share):
    return law[0] * (length / (1 - share)) ** (1 / law[1])


def size_turned(law, length, share):
    return law[0] * (-math.log(share) / length) ** (1 / law[1])


def times_smaller(law, low, high):
    return 1 / times_larger(law, low, high)


def times_of_shares(law, low, high):
    return high / low


def times_without_alpha(law, low, high):
    return math.log(low) / math.log(high)


def times_as_difference(law, low, high):
    return size_needed(law, 1, high) - size_needed(law, 1, low)


def times_as_text(law, low, high):
    return f"{times_larger(law, low, high):.1f}"


def both(law=size_needed, times=times_larger, of=shares):
    return of, law, times


SHARED = [
    (both(of=shares_by_sentence), "This is the mean over the sentences"),
    (both(of=shares_of_outputs), "The positions of the outputs are counted"),
    (both(of=shares_of_what_is_there), "The positions of the outputs are counted"),
    (both(of=shares_of_a_bag), "A token is correct only at the same position"),
    (both(of=exact_by_places), "An output that is longer or shorter than the reference"),
    (both(of=exact_up_to_its_end), "An output that is longer or shorter than the reference"),
    (both(of=exact_as_a_set), "The order of the tokens matters"),
    (both(of=exact_as_a_number), "Expected the share of the sentences"),
    (both(of=expected_of_the_mean_length), "The mean length is used as the exponent"),
    (both(of=expected_as_exact), "This is `exact`"),
    (both(of=expected_of_outputs), "The lengths of the outputs are used"),
    (both(of=expected_of_each), "The share of each sentence is used as its base"),
    (both(of=expected_divided), "p to the power n, not p · n or p / n"),
    (both(of=shares_of_two), "Expected three numbers, `return tokens, exact, expected`"),
    (both(size_without_length), "size_needed: The length is ignored"),
    (both(size_of_short_answers), "size_needed: The size decreases with the length"),
    (both(size_by_alpha), "size_needed: The exponent is alpha"),
    (both(size_divided), "size_needed: The result is divided by c"),
    (both(size_without_c), "size_needed: The factor c is missing"),
    (both(size_in_bits), "size_needed: The logarithm has base 2 or 10"),
    (both(size_of_an_error), "is the probability of an error at one position"),
    (both(size_of_the_share), "`share` itself is used as the loss"),
    (both(size_with_length_outside), "size_needed: The size is multiplied by the length"),
    (both(size_of_the_rest), "1 − share is used as the loss"),
    (both(size_turned), "The ratio of the length and −ln(share) is inverted"),
    (both(times=times_smaller), "times_larger: The ratio is inverted"),
    (both(times=times_of_shares), "times_larger: This is the ratio of the shares"),
    (both(times=times_without_alpha), "times_larger: The exponent must be 1 / alpha"),
    (both(times=times_as_difference), "times_larger: This is a difference of sizes"),
    (both(times=times_as_text), "Expected the ratio as a float, got a str"),
]

WRONG = {
    "rotation": TURNED,
    "alibi_bias": BIASED,
    "norm": NORMED,
    "grouped": GROUPED,
    "distance": TESTED,
    "cache": WEIGHED,
    "abrupt": SHARED,
}

IN_TURN = inspect.getsource(GroupedQueryAttention).replace(
    "x.repeat_interleave(self.group_size, dim=1)", "x.repeat(1, self.group_size, 1, 1)"
)

HANDED_IN = {
    "in_turn": ({"grouped": IN_TURN}, ["grouped-check"], "Query head i uses key–value head i %"),
    "one_list": (
        {"distance": source(verdict, lists=("longest // 2", "longest"), few=("longest // 7", "1"))},
        ["distance-check"],
        "one list is not enough",
    ),
}
