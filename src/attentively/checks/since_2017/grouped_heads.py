"""Grouped-query attention, and common mistakes."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from attentively.attention.masks import masked_softmax
from attentively.checks import Twin, known
from attentively.checks.student_modules import State

_Share = Callable[[Tensor, int], Tensor]
"""Give heads of keys or values (batch, kv_heads, k, d_head) to that many heads, or split heads."""


def _in_turn(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _round_and_round(x: Tensor, heads: int) -> Tensor:
    return x.repeat(1, heads // x.shape[1], 1, 1)


def _first_for_all(x: Tensor, heads: int) -> Tensor:
    return x[:, :1].expand(-1, heads, -1, -1)


def _features(x: Tensor, d_head: int) -> Tensor:
    return x.unflatten(2, (-1, d_head)).transpose(1, 2)


def _interleaved(x: Tensor, d_head: int) -> Tensor:
    return x.unflatten(2, (d_head, -1)).permute(0, 3, 1, 2)


def _not_transposed(x: Tensor, d_head: int) -> Tensor:
    return x.reshape(len(x), -1, x.shape[1], d_head)


def _join_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


def _join_not_transposed(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], -1)


def _weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(scores, None if mask is None else mask.unsqueeze(1))


def look(
    state: State, num_heads: int, num_kv_heads: int, query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None = None, *, split: _Share = _features, keys: _Share = _in_turn,
    values: _Share = _in_turn,
    size: Callable[[int, int], int] = lambda d_head, d_model: d_head,
    weigh: Callable[[Tensor, Tensor | None], Tensor] = _weigh, last: bool = True,
    join: Callable[[Tensor], Tensor] = lambda x: x.transpose(1, 2).flatten(2),
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return context and weights of grouped-query attention; the keywords make mistakes."""
    d_head = query.shape[-1] // num_heads

    def project(name: str, x: Tensor) -> Tensor:
        return F.linear(x, state[f"{name}_projection.weight"], state[f"{name}_projection.bias"])

    q, k, v = (
        split(project(name, x), d_head)
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    scores = q @ keys(k, num_heads).transpose(2, 3) / math.sqrt(size(d_head, query.shape[-1]))
    weights = weigh(scores, mask)
    context = join(weights @ values(v, num_heads))
    return project("output", context) if last else context, weights


_GROUP_WAYS: dict[str, list[dict[str, Any]]] = {
    "Query head i uses key–value head i % num_kv_heads. Neighbouring heads form a group: head i "
    "uses key–value head i // (num_heads // num_kv_heads), as with repeat_interleave.":
        [{"keys": _round_and_round, "values": _round_and_round}],
    "Keys and values are assigned to the query heads in different ways.":
        [{"keys": _round_and_round}, {"values": _round_and_round},
         {"keys": _first_for_all}, {"values": _first_for_all}],
    "All query heads use the keys and values of the first key–value head.":
        [{"keys": _first_for_all, "values": _first_for_all}],
    "The scores are not divided by the square root of d_head = d_model / num_heads.":
        [{"size": lambda d_head, d_model: d_model}, {"size": lambda *_: 1},
         {"size": lambda d_head, d_model: d_head**2}],
    "The mask is not used.": [{"weigh": lambda scores, _: scores.softmax(dim=-1)}],
    "The mask is inverted: True means that the query may attend to the key.":
        [{"weigh": lambda s, m: _weigh(s, None if m is None else ~m)}],
    "The softmax is taken over the queries; it must be taken over the keys, the last dimension.":
        [{"weigh": lambda scores, _: scores.softmax(dim=-2)}],
    "The output projection is missing.": [{"last": False}],
    "The heads are concatenated in a different order than they were split.":
        [{"join": _join_interleaved}, {"join": _join_not_transposed}],
    "The features are split as (d_head, heads). In a projection, the features of head 0 come "
    "first: split as (heads, d_head).":
        [{"split": _interleaved}, {"split": _interleaved, "join": _join_interleaved}],
    "The heads are split by view or reshape alone, which mixes positions and heads. Split the "
    "features as (heads, d_head), then exchange the positions and the heads with transpose(1, 2).":
        [{"split": _not_transposed}, {"split": _not_transposed, "join": _join_not_transposed}],
}  # fmt: skip


def group_twins(state: State, heads: int, kv_heads: int, which: int) -> list[Twin]:
    def answer(*given: Any, way: dict[str, Any]) -> Tensor:
        return look(state, heads, kv_heads, *given, **way)[which]

    def on(*chosen: int) -> Callable[..., Tensor]:
        return lambda *given: answer(*(given[i] for i in chosen), *given[3:], way={})

    def unmasked(*given: Tensor) -> Tensor:
        return answer(given[0], given[0], given[0], way={})

    return [
        *(
            Twin(f"GroupedQueryAttention: {said}", partial(answer, way=way))
            for said, ways in _GROUP_WAYS.items()
            for way in ways
        ),
        *known(
            "GroupedQueryAttention: Keys and values are computed from `query`. They must be "
            "computed from `key` and `value`.",
            on(0, 0, 0), unmasked,
        ),
        *known("GroupedQueryAttention: The values are computed from `key`, not from `value`.",
               on(0, 1, 1)),
        *known("GroupedQueryAttention: `key` and `value` are exchanged.", on(0, 2, 1)),
    ]  # fmt: skip
