"""Attention over some of the keys, the merge of two results, and the known mistakes in both."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attentively.checks import known

_HIDDEN = -math.inf
Pair = tuple[Tensor, Tensor]


def part_of(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor,
    scale: Callable[[Tensor], float] = lambda query: math.sqrt(query.size(-1)),
    hidden: float = _HIDDEN,
) -> Pair:  # fmt: skip
    scores = (query @ key.mT / scale(query)).masked_fill(~mask, hidden)
    context = scores.softmax(dim=-1).nan_to_num(0.0) @ value
    return context, scores.logsumexp(dim=-1)


def _as_given(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Pair:
    """Return the result of the faulty code in the notebook."""
    powers = (query @ key.mT / math.sqrt(query.size(-1))).exp() * mask
    total = powers.sum(dim=-1)
    return powers @ value / total.unsqueeze(-1), total.log()


def _one_of(place: int, pair: Callable[..., Pair]) -> Callable[..., Tensor]:
    return lambda *asked: pair(*asked)[place]


def _with_a_maximum(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Pair:
    """Subtract a maximum that includes masked scores, so that exponentials underflow."""
    scores = query @ key.mT / math.sqrt(query.size(-1))
    largest = scores.amax(dim=-1, keepdim=True)
    powers = (scores - largest).exp() * mask
    total = powers.sum(dim=-1)
    context = (powers @ value / total.unsqueeze(-1)).nan_to_num(0.0)
    return context, largest.squeeze(-1) + total.log()


def _part_with(
    context: Callable[[Tensor, Tensor], Tensor] = lambda c, v: c,
    log: Callable[[Tensor, Tensor], Tensor] = lambda log, scores: log,
) -> Callable[..., Pair]:
    def answer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Pair:
        right, logs = part_of(query, key, value, mask)
        scores = (query @ key.mT / math.sqrt(query.size(-1))).masked_fill(~mask, _HIDDEN)
        blind = logs.isinf().unsqueeze(-1)
        return torch.where(blind, context(right, value), right), log(logs, scores)

    return answer


_NOT_A_NUMBER = math.nan
PART_CONTEXT_TWINS = [
    *known(
        "mended_part: The context of a query that may attend to no key of this part is 0/0. It "
        "must be 0.",
        _one_of(0, _part_with(context=lambda c, v: torch.full_like(c, _NOT_A_NUMBER))),
    ),
    *known(
        "mended_part: The context is NaN or infinite: the exponential of a large score overflows, "
        "and infinity times a masked 0 is NaN. Subtract the largest allowed score.",
        _one_of(0, _as_given),
    ),
    *known(
        "mended_part: The maximum includes masked scores. If a masked score is far higher, all "
        "other exponentials become 0. Mask the scores before you take the maximum.",
        _one_of(0, _with_a_maximum),
    ),
    *known(
        "mended_part: A query that may attend to no key of this part gets the mean of all values. "
        "Its context must be 0.",
        _one_of(0, _part_with(context=lambda c, v: v.mean(-2, keepdim=True).expand_as(c))),
    ),
    *known(
        "mended_part: The scores are not divided by √d.",
        _one_of(0, partial(part_of, scale=lambda query: 1.0)),
    ),
    *known(
        "mended_part: Masked scores are set to 0, and exp(0) is 1, so the key still gets a weight.",
        _one_of(0, partial(part_of, hidden=0.0)),
    ),
    *known(
        "mended_part: Context and logs are swapped: return context, logs.",
        _one_of(1, part_of),
    ),
]
_LOWEST = torch.finfo(torch.float32).min
PART_LOG_TWINS = [
    *known(
        "mended_part: The sum overflows or becomes 0 before the log is taken. Use ln Σ e^s = m + "
        "ln Σ e^(s - m), where m is the largest allowed score.",
        _one_of(1, _as_given),
    ),
    *known(
        "mended_part: The largest score was subtracted, and is missing in the log: ln Σ e^s = m + "
        "ln Σ e^(s - m).",
        _one_of(1, _part_with(log=lambda log, s: log - s.amax(dim=-1))),
        _one_of(1, _part_with(log=lambda log, s: (log - s.amax(dim=-1)).nan_to_num(0.0))),
        _one_of(1, _part_with(log=lambda log, s: (log - s.amax(dim=-1)).nan_to_num(_HIDDEN))),
    ),
    *known(
        "mended_part: This is the sum, which can overflow. Return its logarithm.",
        _one_of(1, _part_with(log=lambda log, s: log.exp())),
    ),
    *known(
        "mended_part: The maximum includes masked scores. If a masked score is far higher, all "
        "other exponentials become 0. Mask the scores before you take the maximum.",
        _one_of(1, _with_a_maximum),
    ),
    *known(
        "mended_part: A query that may attend to no key has the sum 0, whose log is -inf. This "
        "tells the merge that the part has the weight 0.",
        *(
            _one_of(1, _part_with(log=lambda log, s, to=to: log.nan_to_num(neginf=to)))  # type: ignore[misc]
            for to in (0.0, _NOT_A_NUMBER, _LOWEST, -1e9)
        ),
        _one_of(1, _part_with(log=lambda log, s: (
            torch.where(log.isinf(), _LOWEST + math.log(s.size(-1)), log)
        ))),
        _one_of(1, _part_with(log=lambda log, s: (
            torch.where(log.isinf(), math.log(s.size(-1)), log)
        ))),
    ),
    *known(
        "mended_part: This is the largest score, not the log of the sum.",
        _one_of(1, _part_with(log=lambda log, s: s.amax(dim=-1))),
    ),
]  # fmt: skip


def merge(one: Pair, other: Pair) -> Pair:
    logs = torch.stack([one[1], other[1]])
    shares = logs.softmax(dim=0).nan_to_num(0.0).unsqueeze(-1)
    return shares[0] * one[0] + shares[1] * other[0], logs.logsumexp(dim=0)


def _merge_as_given(one: Pair, other: Pair) -> Pair:
    total = one[1].exp() + other[1].exp()
    share = (one[1].exp() / total).unsqueeze(-1)
    return share * one[0] + (1 - share) * other[0], total.log()


def _merge_with(share: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return the context of a merge with another share of the first pair."""

    def answer(one: Pair, other: Pair) -> Tensor:
        first = share(one[1], other[1]).unsqueeze(-1)
        return first * one[0] + (1 - first) * other[0]

    return answer


MERGE_CONTEXT_TWINS = [
    *known(
        "mended_merge: Where both logs are -inf, -inf is subtracted from -inf. The context must "
        "be 0 there.",
        _merge_with(lambda one, other: (one - other).sigmoid()),
        _merge_with(lambda one, other: (one - torch.logaddexp(one, other)).exp()),
        _merge_with(lambda one, other: (one - torch.maximum(one, other)).exp() / (
            (one - torch.maximum(one, other)).exp() + (other - torch.maximum(one, other)).exp()
        )),
    ),
    *known(
        "mended_merge: The context is NaN: the exponential of a large log overflows and that of a "
        "low log is 0, so a share is infinity/infinity or 0/0. The shares depend only on the "
        "difference of the two logs.",
        _one_of(0, _merge_as_given),
    ),
    *known(
        "mended_merge: The logs or their exponentials are limited, so the difference of two large "
        "logs is lost. The shares depend on this difference: subtract the maximum instead.",
        _merge_with(lambda one, other: (one.clamp(-80, 80) - other.clamp(-80, 80)).sigmoid()),
    ),
    *known(
        "mended_merge: The contexts are averaged. Weight each by its sum of exponentials.",
        _merge_with(lambda one, other: torch.full_like(one, 0.5)),
    ),
    *known(
        "mended_merge: Where only one of the logs is -inf, the result is the other pair.",
        lambda one, other: merge(one, other)[0]
        * (one[1] > _HIDDEN).unsqueeze(-1) * (other[1] > _HIDDEN).unsqueeze(-1),
    ),
    *known(
        "mended_merge: The contexts are added, but they are already divided by their totals. "
        "Multiply each by its share; the two shares sum to 1.",
        lambda one, other: one[0] + other[0],
    ),
    *known(
        "mended_merge: The two shares are swapped.",
        lambda one, other: merge((one[0], other[1]), (other[0], one[1]))[0],
    ),
    *known(
        "mended_merge: The logs are used in place of the sums.",
        _merge_with(lambda one, other: one / (one + other)),
    ),
]  # fmt: skip
MERGE_LOG_TWINS = [
    *known(
        "mended_merge: The log of the sum is infinite or NaN, because the exponential of a log "
        "overflows or becomes 0. Use torch.logaddexp, or subtract the maximum first.",
        _one_of(1, _merge_as_given),
    ),
    *known(
        "mended_merge: Add the sums, not their logs: ln(a + b) is not ln a + ln b.",
        lambda one, other: one[1] + other[1],
    ),
    *known(
        "mended_merge: The larger log was subtracted, and is missing in the log of the sum.",
        lambda one, other: torch.log1p((-(one[1] - other[1]).abs()).exp()),
        lambda one, other: torch.log1p((-(one[1] - other[1]).abs()).exp()).nan_to_num(_HIDDEN),
    ),
    *known(
        "mended_merge: This is the larger of the two logs, not the log of the sum.",
        lambda one, other: torch.maximum(one[1], other[1]),
    ),
    *known(
        "mended_merge: Where both logs are -inf, the log of the sum must be -inf again.",
        lambda one, other: merge(one, other)[1].nan_to_num(nan=math.nan, neginf=math.nan),
        lambda one, other: merge(one, other)[1].nan_to_num(neginf=0.0),
    ),
]
