"""Checks of the assignment on attention pooling: special cases, kernels, a learned width.

Parts 1 to 3 rebuild the package and are compared with it. The solutions of parts 4 to 6 are not
given here: part 4 is compared with products and sums of exponentials in 64 bits, part 5 with
softmaxes of changed scores, and part 6 is tested property by property.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from attentively.attention.kernels import KERNELS, KernelName, KernelPooling
from attentively.attention.masks import masked_softmax
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    in_turn,
    known,
    once_solved,
    plain_number,
    show,
)

__all__ = [
    "answers",
    "bug_hunt",
    "kernels",
    "learned_width",
    "measurements",
    "once_solved",
    "pooling",
    "predictions",
    "progress",
    "ready",
    "words_in_a_table",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Pool two pairs, to show that the package and the checks work."""
    _parts.explain_undefined_names()
    key, value = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0]])
    context, _ = KernelPooling()(torch.tensor([[1.5]]), key, value)
    print(
        f"PyTorch {torch.__version__}. Halfway between the keys 1 and 2, with the values 10 and 20,"
    )
    print(f"the package's pooling returns {context.item():.0f}. Ready.")


def measurements(number: int = 60, seed: int = 0, noise: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return keys from 0 to 5 and noisy values of a curve at them, each (number, 1)."""
    generator = torch.Generator().manual_seed(seed)
    keys = (5 * torch.rand(number, 1, generator=generator)).sort(dim=0).values
    values = (2 * keys).sin() + keys / 2
    return keys, values + noise * torch.randn(number, 1, generator=generator)


SENTENCE = "the animal did not cross the street because it was too tired"
_KINDS = {"noun": ("animal", "street"), "verb": ("did", "cross", "was")}


def words_in_a_table() -> tuple[list[str], dict[str, Tensor]]:
    """Return the words of a sentence, and for each word class a mask of its positions."""
    words = SENTENCE.split()
    kinds = {kind: torch.tensor([w in those for w in words]) for kind, those in _KINDS.items()}
    return words, kinds


def _rows(*numbers: float) -> Tensor:
    """Return single numbers as vectors of one component."""
    return torch.tensor([[number] for number in numbers])


# Part 1


class _Alpha:
    """A weight function with a name that a message can show."""

    def __init__(self, text: str, weights: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.text = text
        self.weights = weights

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.weights(query, keys)

    def __repr__(self) -> str:
        return self.text


_DOT = _Alpha("the dot products of queries and keys", lambda query, keys: query @ keys.T)
_HALF = _Alpha(
    "one half for every pair",
    lambda query, keys: torch.full((*query.shape[:-1], len(keys)), 0.5),
)
_SHARES = _Alpha("the softmax of the dot products", lambda q, k: (q @ k.T).softmax(dim=-1))

_POOLING_TWINS = (
    Twin(
        "The keys are summed instead of the values. The keys determine the weights; "
        "the weighted sum is that of the values.",
        lambda q, k, v, alpha: alpha(q, k) @ k,
    ),
    Twin(
        "The weights are divided by their sum. `pool` must use the weights as `alpha` "
        "returns them, whatever their sum.",
        lambda q, k, v, alpha: alpha(q, k) / alpha(q, k).sum(-1, keepdim=True) @ v,
    ),
    Twin(
        "A softmax is applied to the weights. `pool` must use the weights as `alpha` returns them.",
        lambda q, k, v, alpha: alpha(q, k).softmax(dim=-1) @ v,
    ),
    Twin(
        "`alpha` is called with queries and keys exchanged. Call `alpha(query, keys)`.",
        lambda q, k, v, alpha: alpha(k, q).T @ v,
    ),
    Twin(
        "The weighted values are averaged over the pairs. Sum them instead.",
        lambda q, k, v, alpha: alpha(q, k) @ v / len(k),
    ),
    Twin(
        "Each context is the value of a single key, the one with the largest weight. "
        "Sum all weighted values.",
        lambda q, k, v, alpha: v[alpha(q, k).argmax(dim=-1)],
    ),
    Twin(
        "`alpha` is called with one key at a time. Call it once with all keys: a "
        "softmax, for example, needs the scores of all keys.",
        lambda q, k, v, alpha: sum(alpha(q, k[j : j + 1]) * v[j] for j in range(len(k))),
    ),
    Twin(
        "These values are the weights. Return the weighted sums of the values.",
        lambda q, k, v, alpha: alpha(q, k),
    ),
    Twin(
        "The weights are not used: these contexts are the plain sum of all values.",
        lambda q, k, v, alpha: v.sum(0).expand(len(q), -1),
    ),
)


def _found(query: Tensor, keys: Tensor) -> Tensor:
    return (query.unsqueeze(1) == keys).all(dim=-1).float()


_LOOKUP_TWINS = (
    *known(
        "A key counts as found if a single component equals that of the query. All "
        "components must be equal: .all(dim=-1).",
        lambda q, k: (q.unsqueeze(1) == k).any(dim=-1).float(),
        lambda q, k: (q[:, :1] == k[:, 0]).float(),
        lambda q, k: (q.unsqueeze(1) == k).float().mean(dim=-1),
        lambda q, k: (q.unsqueeze(1) == k).float().sum(dim=-1),
    ),
    Twin(
        "A query that equals no key receives the nearest key. An exact lookup finds "
        "nothing here; all weights must be 0.",
        lambda q, k: torch.eye(len(k))[(q.unsqueeze(1) - k).norm(dim=-1).argmin(dim=-1)],
    ),
    Twin(
        "A query that equals no key has the weights 0 / 0, which are NaN. An exact "
        "lookup finds nothing here; all weights must be 0.",
        lambda q, k: _found(q, k) / _found(q, k).sum(-1, keepdim=True),
    ),
    Twin(
        "A query that equals no key receives equal weights for all pairs. An exact "
        "lookup finds nothing here; all weights must be 0.",
        lambda q, k: torch.where(_found(q, k).sum(-1, keepdim=True) > 0, _found(q, k), 1 / len(k)),
    ),
    Twin(
        "The axes are exchanged. The result has a row for each query and a column for each key.",
        lambda q, k: _found(k, q),
    ),
    Twin(
        "The weights are inverted: they are 0 where the key equals the query, and must be 1 there.",
        lambda q, k: 1 - _found(q, k),
    ),
    *known(
        "Different vectors can have the same sum, or the same dot product with a "
        "third vector. Compare them component by component.",
        lambda q, k: (q.sum(-1, keepdim=True) == k.sum(-1)).float(),
        lambda q, k: (q @ k.T == k.square().sum(-1)).float(),
    ),
    Twin(
        "A softmax is applied to the ones and zeros, so every pair has a positive "
        "weight. Return the ones and zeros themselves.",
        lambda q, k: _found(q, k).softmax(dim=-1),
    ),
)

_AVERAGE_TWINS = (
    Twin(
        "Every pair has the weight 1. For the weights of a query to sum to 1, each "
        "must be 1/n, where n is the number of pairs.",
        lambda q, k: torch.ones(len(q), len(k)),
    ),
    Twin(
        "The weights are divided by the number of queries. Divide by the number of pairs.",
        lambda q, k: torch.full((len(q), len(k)), 1 / len(q)),
    ),
    Twin(
        "The axes are exchanged. The result has a row for each query and a column for each key.",
        lambda q, k: torch.full((len(k), len(q)), 1 / len(k)),
    ),
)


@_parts.part(
    "pooling",
    "pool",
    "lookup",
    "average",
    rebuilds=("attentively.attention.kernels:KernelPooling",),
    step=True,
)
def pooling(pool: object, lookup: object, average: object, thorough: bool = False) -> None:
    """Check the weighted sum of values and two functions that return weights."""
    small = (_rows(1.0, 0.5), _rows(2.0, 0.0, -1.0), _rows(10.0, 20.0, 30.0))
    square = (torch.randn(3, 2), torch.randn(3, 2), torch.randn(3, 2))
    stages = [(*small, _DOT), (*small, _HALF), (*square, _DOT), (*square, _SHARES)]
    if thorough:
        sizes = [(2, 5, 3, 7), (7, 1, 2, 1), (1, 11, 5, 3)]
        stages += [
            (torch.randn(q, d), torch.randn(n, d), torch.randn(n, m), alpha)
            for q, n, d, m in sizes
            for alpha in (_SHARES, _DOT)
        ]
    for query, keys, values, alpha in stages:
        inputs = {"query": query, "keys": keys, "values": values, "alpha": alpha}
        _expect(pool, inputs, alpha(query, keys) @ values, "the contexts", _POOLING_TWINS)
    _expect_gradients(pool, {"query": query, "keys": keys, "values": values}, alpha=_SHARES)
    query = torch.tensor([[3.0, 1.0], [3.0, 3.0], [0.0, 1.0]])
    keys = torch.tensor([[3.0, 1.0], [2.0, 2.0]])  # alike in their sums and dot products with both
    asked = [(_rows(3.0, 1.0), _rows(1.0, 2.0, 3.0)), (query, keys), (_rows(2.5), _rows(2.0, 3.0))]
    if thorough:
        keys = torch.arange(22.0).reshape(11, 2)
        asked += [(keys[[7, 0, 3, 7]], keys), (keys[:3] + 0.25, keys), (keys, keys[:1])]
    twins = {"lookup": _LOOKUP_TWINS, "average": _AVERAGE_TWINS}
    weights = {"lookup": _found, "average": lambda q, k: torch.ones(len(q), len(k)) / len(k)}
    for name, candidate in (("lookup", lookup), ("average", average)):
        for query, keys in asked:
            inputs = {"query": query, "keys": keys}
            expected = weights[name](query, keys)
            _expect(candidate, inputs, expected, f"the weights of {name}", twins[name], name)


def _expect(
    candidate: object,
    inputs: Inputs,
    expected: Tensor,
    what: str,
    twins: Sequence[Twin],
    name: str = "",
) -> None:
    """Call a candidate and compare its result; `name` is the function of a part with several."""
    said = f"{name}: " if name else ""
    twins = [Twin(f"{said}{twin.diagnosis}", twin.answer) for twin in twins]
    expect_equal(in_32_bits(call_twice(candidate, inputs)), expected, what, inputs, twins)


def _expect_gradients(candidate: object, sources: Inputs, nan: str = "", **others: Any) -> None:
    """Check that gradients flow from the result to each of the sources."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in sources.items()}
    expect_gradients_through(candidate, {**leaves, **others}, leaves, nan=nan)


# Part 2


def _weights(query: Tensor, keys: Tensor, kernel: KernelName, width: float) -> Tensor:
    """Return the package's weights."""
    with torch.no_grad():
        return cast(Tensor, KernelPooling(kernel, width)(query, keys, torch.zeros(len(keys), 1))[1])


def _distances(query: Tensor, keys: Tensor, p: float = 2.0) -> Tensor:
    return (query.unsqueeze(1) - keys).norm(p=p, dim=-1)


def _kernel_values(query: Tensor, keys: Tensor, kernel: KernelName, width: float) -> Tensor:
    return KERNELS[kernel](_distances(query, keys) / width)


def _shared(unnormalised: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """Divide by the sum; 0 / 0 stays NaN."""
    return unnormalised / unnormalised.sum(dim=dim, keepdim=True)


def _zeros_where_none(unnormalised: Tensor) -> Tensor:
    return _shared(unnormalised).nan_to_num(nan=0.0)


def _twin_of(
    kernel: KernelName | None, said: str, unnormalised: Callable[[Tensor], Tensor]
) -> Twin:
    """Return a mistake that uses another kernel, for one kernel name or for all."""

    def answer(q: Tensor, k: Tensor, name: KernelName, width: float) -> Tensor:
        if kernel not in (None, name):
            raise IndexError("not this kernel's mistake")
        return _zeros_where_none(unnormalised(_distances(q, k) / width))

    return Twin(said, answer)


def _or_the_nearest(unnormalised: Tensor, query: Tensor, keys: Tensor) -> Tensor:
    nearest = torch.eye(len(keys))[_distances(query, keys).argmin(dim=-1)]
    return torch.where(
        unnormalised.sum(-1, keepdim=True) > 0, _zeros_where_none(unnormalised), nearest
    )


_KERNEL_TWINS = (
    _twin_of(
        "gaussian",
        "The factor 1/2 is missing: the Gaussian kernel is exp(-u²/2).",
        lambda u: (-(u**2)).exp(),
    ),
    _twin_of(
        "gaussian", "u is not squared: the Gaussian kernel is exp(-u²/2).", lambda u: (-u / 2).exp()
    ),
    _twin_of(
        "gaussian",
        "The kernel is exp(-u). The Gaussian kernel is exp(-u²/2).",
        lambda u: (-u).exp(),
    ),
    _twin_of(
        "gaussian",
        "The sign of the exponent is wrong: the farthest key has the largest weight.",
        lambda u: (u**2 / 2).exp(),
    ),
    _twin_of(
        "epanechnikov",
        "The Epanechnikov kernel is negative for u > 1. It must be 0 there: clamp 1 - u² at 0.",
        lambda u: 1 - u**2,
    ),
    _twin_of(
        "epanechnikov",
        "The kernel is the triangular one, 1 - |u|. The Epanechnikov kernel is 1 - u².",
        lambda u: (1 - u).clamp(min=0),
    ),
    _twin_of(
        "boxcar",
        "A key at distance u = 1 has weight 0. The boxcar kernel includes the "
        "boundary: it is 1 where |u| ≤ 1.",
        lambda u: (u < 1).float(),
    ),
    _twin_of(
        "boxcar",
        "The boxcar kernel ends at |u| = 1/2. It must be 1 up to |u| = 1.",
        lambda u: (u <= 0.5).float(),
    ),
    Twin(
        "The width is not used: u is the distance divided by the width.",
        lambda q, k, kernel, width: _weights(q, k, kernel, 1.0),
    ),
    Twin(
        "The distance is multiplied by the width. Divide it: u is the distance "
        "divided by the width.",
        lambda q, k, kernel, width: _weights(q, k, kernel, 1 / width),
    ),
    Twin(
        "The width is not squared: u² is the squared distance divided by width².",
        lambda q, k, kernel, width: _zeros_where_none(
            KERNELS[kernel](_distances(q, k) / width**0.5)
        ),
    ),
    Twin(
        "The distance is squared before it is divided by the width. u is the distance "
        "itself, divided by the width.",
        lambda q, k, kernel, width: _zeros_where_none(
            KERNELS[kernel](_distances(q, k).square() / width)
        ),
    ),
    Twin(
        "The distance is divided by the width twice. u² is the squared distance divided by width².",
        lambda q, k, kernel, width: _weights(q, k, kernel, width**2),
    ),
    Twin(
        "The argument `kernel` is not used: these are the weights of the Gaussian kernel.",
        lambda q, k, kernel, width: _weights(q, k, "gaussian", width),
    ),
    Twin(
        "The weights are not normalised: these values are K(u). Divide them by their "
        "sum over the keys.",
        lambda q, k, kernel, width: _kernel_values(q, k, kernel, width),
    ),
    Twin(
        "A softmax is applied to K(u), which exponentiates once too often. Divide "
        "K(u) by its sum over the keys.",
        lambda q, k, kernel, width: _kernel_values(q, k, kernel, width).softmax(dim=-1),
    ),
    Twin(
        "Far from all keys, every exp(-u²/2) is rounded to 0 and the weights are "
        "lost. Use a softmax of -u²/2, which depends on differences only.",
        lambda q, k, kernel, width: _zeros_where_none(_kernel_values(q, k, kernel, width)),
    ),
    Twin(
        "The weights are normalised over the queries. Normalise over the keys: dim=-1.",
        lambda q, k, kernel, width: _shared(_kernel_values(q, k, kernel, width), 0).nan_to_num(0.0),
    ),
    Twin(
        "The weights of all queries together sum to 1. The weights of each query must "
        "sum to 1: dim=-1.",
        lambda q, k, kernel, width: _shared(_kernel_values(q, k, kernel, width), (0, 1)),
    ),
    Twin(
        "The distance is the sum of the absolute differences. It must be the "
        "Euclidean distance, the root of the sum of the squared differences.",
        lambda q, k, kernel, width: _zeros_where_none(
            KERNELS[kernel](_distances(q, k, 1.0) / width)
        ),
    ),
    Twin(
        "The axes are exchanged. The result has a row for each query and a column for each key.",
        lambda q, k, kernel, width: _weights(q, k, kernel, width).T,
    ),
    Twin(
        "The weights are NaN because K(u) is 0 for all keys, and 0 / 0 is NaN. For "
        "boxcar and epanechnikov, the weights must be 0 there. For the Gaussian "
        "kernel, exp(-u²/2) is only rounded to 0; a softmax of -u²/2 avoids this.",
        lambda q, k, kernel, width: _shared(_kernel_values(q, k, kernel, width)),
    ),
    Twin(
        "Where K(u) is 0 for all keys, a single nearest key receives the whole "
        "weight. For boxcar and epanechnikov, the weights must be 0 there; for the "
        "Gaussian kernel, equally near keys must have equal weights.",
        lambda q, k, kernel, width: _or_the_nearest(_kernel_values(q, k, kernel, width), q, k),
    ),
    Twin(
        "A query without any key within the width receives equal weights for all "
        "keys. Its weights must be 0.",
        lambda q, k, kernel, width: _shared(_kernel_values(q, k, kernel, width)).nan_to_num(
            1 / len(k)
        ),
    ),
)

_LINE = (_rows(0.0), _rows(0.0, -2.0, 4.0))
_PLANE = (torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 6.0], [1.0, 0.0]]))
_BY_HAND: list[tuple[Tensor, Tensor, KernelName, float]] = [
    (*_LINE, "gaussian", 3.0),
    (*_LINE, "epanechnikov", 3.0),
    (*_LINE, "boxcar", 3.0),
    (_rows(0.0), _rows(0.0, 2.0, -2.0, 3.0), "boxcar", 2.0),
    (*_PLANE, "gaussian", 4.0),
    (*_PLANE, "epanechnikov", 6.5),
    (_rows(0.0, 2.0), _rows(0.0, 1.0, 1.5), "gaussian", 1.0),
    (_rows(0.0, 9.0), _rows(0.0, 1.0, 3.0), "boxcar", 2.0),
    (_rows(0.0, 9.0), _rows(0.0, 1.0, 3.0), "epanechnikov", 2.0),
    (_rows(2.0, 200.0), _rows(0.0, 2.0, 4.0), "gaussian", 2.0),
    (_rows(40.0), _rows(0.0, 4.0, 4.0), "gaussian", 2.0),  # two are the nearest
]


@_parts.part(
    "kernels",
    "kernel_weights",
    rebuilds=("attentively.attention.kernels:kernel_weights",),
    refuses=("attentively.attention.kernels:KernelPooling",),
)
def kernels(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(query, keys, kernel, width) -> weights``."""
    stages = list(_BY_HAND)
    if thorough:
        for q, n, d, width in ((3, 5, 2, 1.5), (7, 3, 1, 0.3), (2, 13, 5, 3.0), (5, 1, 2, 1.0)):
            pairs = (torch.randn(q, d), torch.randn(n, d))
            stages += [(*pairs, kernel, width) for kernel in KERNELS]
        stages.append((torch.tensor([[-1000.0, 0.0]]), torch.randn(7, 2), "gaussian", 0.5))
    for stage in stages:
        inputs = dict(zip(("query", "keys", "kernel", "width"), stage, strict=True))
        _expect(candidate, inputs, _weights(*stage), "the weights", _KERNEL_TWINS)
    nan = (
        "The NaN of 0 / 0 is replaced after the division, but its gradient is still "
        "NaN. Replace the sum by 1 where it is 0, before the division."
    )
    root = (
        "Here a query equals a key. The derivative of a square root is infinite at 0; "
        "`.norm(dim=-1)` has the gradient 0 there."
    )
    boundary = "Here the nearest key of a query is exactly one width away, so its K(u) is 0. "
    for kernel in ("gaussian", "epanechnikov"):
        for query, width, hint in (
            (_rows(0.5, 1.2, 50.0), 1.7, nan),  # the last query is far from all keys
            (_rows(1.0, 0.5), 1.7, root),
            (_rows(0.5, 4.0), 2.0, boundary + nan),
        ):
            sources = {"query": query, "keys": _rows(0.0, 1.0, 2.0)}
            _expect_gradients(candidate, sources, f" {hint}", kernel=kernel, width=width)


# Part 3


def _left_out(keys: Tensor, values: Tensor, log_width: Tensor) -> Tensor:
    """Return the mean squared error of the predictions of all values, each from the other pairs."""
    scores = -(_distances(keys, keys) / log_width.exp()).square() / 2
    others = ~torch.eye(len(keys), dtype=torch.bool)
    return (masked_softmax(scores, others) @ values - values).square().mean()


def _by_weights(
    weigh: Callable[[Tensor, Tensor], Tensor],
    error: Callable[[Tensor], Tensor] = lambda difference: difference.square().mean(),
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a loss with other weights, computed from the scores and the mask of own pairs."""

    def loss(keys: Tensor, values: Tensor, log_width: Tensor) -> Tensor:
        scores = -(_distances(keys, keys) / log_width.exp()).square() / 2
        weights = weigh(scores, torch.eye(len(keys), dtype=torch.bool))
        return error(weights @ values - values)

    return loss


def _softmax_of_others(scores: Tensor, own: Tensor) -> Tensor:
    return masked_softmax(scores, ~own)


_LOSS_TWINS = (
    Twin(
        "Each value is predicted with its own pair included, so the prediction "
        "contains the value to be predicted. Exclude the own pair.",
        _by_weights(lambda scores, own: scores.softmax(dim=-1)),
    ),
    Twin(
        "The weight of the own pair is set to 0 after the softmax, so the other "
        "weights no longer sum to 1. Exclude the own pair before the softmax.",
        _by_weights(lambda scores, own: scores.softmax(dim=-1).masked_fill(own, 0.0)),
    ),
    Twin(
        "Only the own pair is used and all others are excluded: the mask is inverted.",
        _by_weights(lambda scores, own: masked_softmax(scores, own)),
    ),
    Twin(
        "All pairs with the same key are excluded. Exclude only the own pair; another "
        "pair with the same key must be used.",
        _by_weights(lambda scores, own: masked_softmax(scores, scores < 0)),
    ),
    Twin(
        "The softmax is applied over the predictions. It must be applied over the "
        "pairs that are averaged: dim=-1.",
        _by_weights(lambda scores, own: masked_softmax(scores, ~own).T),
    ),
    Twin(
        "The distance is multiplied by the width. Divide it: u is the distance "
        "divided by the width.",
        lambda keys, values, log_width: _left_out(keys, values, -log_width),
    ),
    *known(
        "The distance is not squared: the score is -distance² / (2 · width²).",
        _by_weights(lambda scores, own: masked_softmax(-(-2 * scores).sqrt() / 2, ~own)),
        _by_weights(lambda scores, own: masked_softmax(-(-2 * scores).sqrt(), ~own)),
    ),
    Twin(
        "`log_width` is used as the width. The width is its exponential.",
        lambda keys, values, log_width: _left_out(keys, values, log_width.abs().log()),
    ),
    Twin(
        "The width is not squared: the score is -distance² / (2 · width²).",
        lambda keys, values, log_width: _left_out(keys, values, log_width / 2),
    ),
    Twin(
        "The factor 1/2 is missing: the score is -distance² / (2 · width²).",
        lambda keys, values, log_width: _left_out(keys, values, log_width - math.log(2) / 2),
    ),
    Twin(
        "The squared errors are summed, so the loss grows with the number of pairs. "
        "Return their mean.",
        _by_weights(_softmax_of_others, lambda difference: difference.square().sum()),
    ),
    Twin(
        "The errors are not squared: this loss is the mean absolute error.",
        _by_weights(_softmax_of_others, lambda difference: difference.abs().mean()),
    ),
    Twin(
        "The errors are not squared, so positive and negative errors cancel.",
        _by_weights(_softmax_of_others, lambda difference: difference.mean()),
    ),
    Twin(
        "The square root of the mean squared error is returned. Return the mean "
        "squared error itself.",
        _by_weights(_softmax_of_others, lambda difference: difference.square().mean().sqrt()),
    ),
    Twin(
        "Far from all other keys, every exp(-u²/2) is rounded to 0, so the prediction "
        "is 0. Use a softmax of -u²/2, which depends on differences only.",
        _by_weights(lambda s, own: _zeros_where_none(s.exp().masked_fill(own, 0.0))),
    ),
    Twin(
        "The loss is NaN: far from all other keys, every exp(-u²/2) is rounded to 0, "
        "and 0 / 0 is NaN. Use a softmax of -u²/2, which depends on differences only.",
        _by_weights(lambda s, own: _shared(s.exp().masked_fill(own, 0.0))),
    ),
)

_TWICE_AT_ONE = (_rows(0.0, 1.0, 1.0, 3.0), _rows(2.0, 5.0, 6.0, 1.0))
_ONE_FAR = (_rows(0.0, 1.0, 50.0), _rows(2.0, 5.0, 4.0))


@_parts.part("learned width", "leave_one_out", "learn_width")
def learned_width(leave_one_out: object, learn_width: object, thorough: bool = False) -> None:
    """Check the leave-one-out loss, and the width that is learned with it."""
    stages = [
        (_rows(0.0, 1.0, 3.0), _rows(2.0, 5.0, 1.0), 0.5),
        (_rows(0.0, 1.0, 3.0), _rows(2.0, 5.0, 1.0), -0.4),
        (*_TWICE_AT_ONE, 0.3),
        (*_ONE_FAR, 0.2),
        (torch.randn(7, 2), torch.randn(7, 3), 0.1),
    ]
    if thorough:
        sizes = [(2, 1, 1, 0.7), (13, 5, 2, 1.1), (5, 2, 1, -1.3)]
        stages += [(torch.randn(n, d), torch.randn(n, m), w) for n, d, m, w in sizes]
    for keys, values, number in stages:
        log_width = torch.tensor(number, requires_grad=True)
        asked = {"keys": keys, "values": values, "log_width": log_width}
        expected = _left_out(keys, values, log_width)
        answer = _scalar(call_twice(leave_one_out, asked), asked)
        what = "leave_one_out"
        expect_equal(answer, expected.detach(), what, asked, _said(what, _LOSS_TWINS))
        _expect_slope(leave_one_out, asked, expected, log_width)
    problems = [(measurements(24, 2), 2.0), (measurements(20, 3, 0.2), 0.05)]
    if thorough:
        problems += [(measurements(30, 1), 1.0), (measurements(24, 7), 0.4)]
    for (keys, values), width in problems:
        _expect_learned(learn_width, keys, values, width)


def _said(name: str, twins: Sequence[Twin]) -> list[Twin]:
    return [Twin(f"{name}: {twin.diagnosis}", twin.answer) for twin in twins]


def _scalar(answer: object, asked: Inputs) -> object:
    if type(answer) is Tensor and answer.numel() == 1:
        return in_32_bits(answer.reshape(()))
    if plain_number(answer) is not None:
        raise CheckFailed(
            "  leave_one_out: the loss is a plain number, through which no gradient flows. "
            f"Return the tensor.\n{describe(asked)}"
        )
    return answer


def _expect_slope(candidate: object, asked: Inputs, expected: Tensor, log_width: Tensor) -> None:
    (wanted,) = torch.autograd.grad(expected, log_width)
    if not wanted.count_nonzero():  # the nearest pair has all the weight, at any such width
        return
    expect_gradients_through(candidate, asked, {"log_width": log_width}, slopes=False)
    again = candidate(*asked.values())  # type: ignore[operator]
    (slope,) = torch.autograd.grad(again.sum(), log_width)
    if not torch.allclose(slope, wanted, 1e-3, 1e-5):
        raise CheckFailed(
            "  leave_one_out: the loss is correct, but its gradient is not. Is a part cut off, "
            f"by .item() or .detach()?\n{describe(asked)}\n  got         {show(slope)}\n"
            f"  expected    {show(wanted)}, the gradient of log_width"
        )


_GRID = torch.linspace(-5, 3, 161)
"""The logarithms of the widths among which the best one is searched."""

_ENOUGH = 1.02
"""The largest accepted loss of a learned width, as a multiple of the smallest loss."""


def _expect_learned(candidate: object, keys: Tensor, values: Tensor, width: float) -> None:
    asked = {"keys": keys, "values": values, "width": width}
    answer = call(candidate, asked)
    if isinstance(answer, Tensor | np.ndarray) and math.prod(answer.shape) == 1:
        answer = answer.item()
    found = plain_number(answer)
    if found is None:
        raise CheckFailed(
            "  learn_width: expected the learned width, one number; got "
            f"{type(answer).__name__}.\n{describe(asked)}"
        )
    losses = torch.stack([_left_out(keys, values, log_width) for log_width in _GRID])
    best = float(_GRID[losses.argmin()].exp())
    least = float(losses.min())
    measured = f"\n{describe(asked)}\n  got         {show(float(found))}"
    if found > 0 and math.isfinite(found):
        loss = float(_left_out(keys, values, torch.tensor(float(found)).log()))
        if loss <= _ENOUGH * least:
            return
        measured += f", where the loss is {loss:.4g}"
    measured += f"\n  expected    about {best:.2g}, where it is {least:.4g}"
    if abs(found - math.log(best)) < 0.05 * abs(math.log(best)):
        diagnosis = "The result is the logarithm of the width. Return its exponential."
    elif not found > 0 or not math.isfinite(found):
        diagnosis = (
            "The width must be a positive number. Learn its logarithm: the exponential is "
            "always positive."
        )
    elif abs(found - width) < 1e-3 * width:
        diagnosis = "The width is still the initial one."
    elif found < best / 5:
        diagnosis = (
            "The width has shrunk to nearly 0, so that each prediction is a single value. "
            "This happens if the loss includes the own pair of each key. If yours does "
            "not, check that each step starts with zero_grad()."
        )
    elif found > 1.5 * max(width, best):
        diagnosis = (
            "The width is far too large, so that every prediction is nearly the mean of "
            "all values. Is the loss maximised instead of minimised?"
        )
    else:
        diagnosis = "The loss can still decrease. Use more steps or a larger learning rate."
    raise CheckFailed(f"  learn_width: {diagnosis}{measured}")


# Part 4


# Scores of two conditions; of the last ones e^score is infinity or 0 in 32 bits, not in 64.
_CONDITIONS = [
    (torch.tensor([[1.0, 0.0, -2.0]]), torch.tensor([[0.5, -1.0, -3.0]])),
    (torch.tensor([[0.0, -1.0], [2.0, 3.0]]), torch.tensor([[0.0, -1.0], [-4.0, 3.0]])),
    (torch.tensor([[300.0, 300.0]]), torch.tensor([[298.0, 300.0]])),
    (torch.tensor([[-300.0, -300.0]]), torch.tensor([[-298.0, -300.0]])),
    (torch.tensor([[300.0, -300.0]]), torch.tensor([[-300.0, 300.0]])),
]


def _both(first: Tensor, second: Tensor) -> Tensor:
    return (first.double().exp() * second.double().exp()).log().float()


def _either(first: Tensor, second: Tensor) -> Tensor:
    return (first.double().exp() + second.double().exp()).log().float()


_BOTH_TWINS = (
    Twin(
        "exp(score) overflows or is rounded to 0. What is the logarithm of exp(a) · exp(b)?",
        lambda a, b: (a.exp() * b.exp()).log(),
    ),
    Twin(
        "The scores are multiplied. Multiply the unnormalised weights exp(score), and "
        "return the logarithm of the product.",
        lambda a, b: a * b,
    ),
    Twin(
        "The result is the smaller of the two scores. The other score counts as well.",
        torch.minimum,
    ),
    Twin("This is OR: the unnormalised weights are added. For AND they are multiplied.", _either),
    Twin(
        "The result is the mean of the two scores, half the score of AND.", lambda a, b: (a + b) / 2
    ),
    Twin(
        "The result is the unnormalised weight. Return its logarithm, the score.",
        lambda a, b: a.exp() * b.exp(),
    ),
    Twin(
        "A softmax is already applied. Return scores, so that a further condition can "
        "be combined with them.",
        lambda a, b: _both(a, b).softmax(dim=-1),
    ),
)

_EITHER_TWINS = (
    Twin(
        "exp(score) overflows, or is rounded to 0 and its logarithm is -infinity. "
        "Factor the larger score out first: "
        "ln(exp(a) + exp(b)) = a + ln(1 + exp(b - a)).",
        lambda a, b: (a.exp() + b.exp()).log(),
    ),
    *known(
        "exp(b - a) overflows where b is much larger than a. Factor out the larger of "
        "the two scores at each position.",
        lambda a, b: a + (b - a).exp().log1p(),
        lambda a, b: b + (a - b).exp().log1p(),
    ),
    Twin(
        "The result is the larger of the two scores. Add the unnormalised weights: a "
        "pair that meets both conditions must have a higher score than a pair that "
        "meets only one.",
        torch.maximum,
    ),
    Twin("This is AND: the unnormalised weights are multiplied. For OR they are added.", _both),
    Twin(
        "The result is the mean of the two scores. For OR the unnormalised weights are added.",
        lambda a, b: (a + b) / 2,
    ),
    Twin(
        "The result is the unnormalised weight. Return its logarithm, the score.",
        lambda a, b: a.exp() + b.exp(),
    ),
    Twin(
        "The result is the logarithm of the mean of the two unnormalised weights. "
        "Return that of their sum: the factor 1/2 cancels in a softmax, but not in a "
        "further OR.",
        lambda a, b: _either(a, b) - math.log(2),
    ),
    Twin(
        "Each condition is normalised by a softmax before the sum. Add the "
        "unnormalised weights; otherwise a condition that hardly any pair meets "
        "counts as much as one that all pairs meet.",
        lambda a, b: (a.softmax(dim=-1) + b.softmax(dim=-1)).log(),
    ),
    Twin(
        "A softmax is already applied. Return scores, so that a further condition can "
        "be combined with them.",
        lambda a, b: _either(a, b).softmax(dim=-1),
    ),
)


def _normalise(scores: Tensor, excluded: Tensor) -> Tensor:
    return masked_softmax(scores, ~excluded)


_WEIGHT_TWINS = (
    Twin(
        "The excluded pairs have the weights and the others have none. In `excluded`, "
        "True means excluded, the opposite of a mask.",
        lambda scores, excluded, values: masked_softmax(scores, excluded),
    ),
    Twin(
        "The weights of excluded pairs are set to 0 after the softmax, so the other "
        "weights do not sum to 1. Exclude the pairs before the softmax.",
        lambda scores, excluded, values: scores.softmax(dim=-1).masked_fill(excluded, 0.0),
    ),
    Twin(
        "The scores of excluded pairs are set to 0, but exp(0) = 1, so these pairs "
        "keep a positive weight. Their scores must be far below all others.",
        lambda scores, excluded, values: scores.masked_fill(excluded, 0.0).softmax(dim=-1),
    ),
    Twin(
        "`excluded` is not used: excluded pairs have positive weights.",
        lambda scores, excluded, values: scores.softmax(dim=-1),
    ),
    Twin(
        "If all pairs of a query are excluded, the weights are NaN, because a softmax "
        "of only -infinity is not defined. They must be 0.",
        lambda s, excluded, values: s.masked_fill(excluded, -math.inf).softmax(dim=-1),
    ),
    Twin(
        "If all pairs of a query are excluded, they have equal weights. The weights must be 0.",
        lambda s, excluded, values: s.masked_fill(excluded, -1e30).softmax(dim=-1),
    ),
    *known(
        "The weights are wrong for scores as large as ±300. exp(score) itself is then "
        "infinite or 0, and the scores of excluded pairs must be far below all "
        "others.",
        lambda scores, excluded, values: torch.zeros_like(scores),
        lambda scores, excluded, values: torch.full_like(scores, math.nan),
    ),
    Twin(
        "The softmax is applied over the queries. It must be applied over the pairs: dim=-1.",
        lambda s, excluded, values: masked_softmax(s.T, ~excluded.T).T,
    ),
)


@_parts.part("combined scores", "both", "either", "answer")
def answers(both: object, either: object, answer: object, thorough: bool = False) -> None:
    """Check the combined scores of two conditions, and pooling without excluded pairs."""
    conditions = list(_CONDITIONS)
    if thorough:
        sizes = ((3, 5), (1, 11), (7, 2))
        conditions += [(5 * torch.randn(q, n), 5 * torch.randn(q, n)) for q, n in sizes]
    for first, second in conditions:
        asked = {"first": first, "second": second}
        _expect(both, asked, _both(first, second), "the scores", _BOTH_TWINS, "both")
        _expect(either, asked, _either(first, second), "the scores", _EITHER_TWINS, "either")
    for candidate in (both, either):
        _expect_gradients(candidate, dict(zip(("first", "second"), _CONDITIONS[1], strict=True)))
    _check_answer(answer, thorough)


def _check_answer(candidate: object, thorough: bool) -> None:
    scores = torch.tensor([[2.0, 1.0, 0.0], [-1.0, 0.0, 3.0]])
    none, all_ = [False] * 3, [True] * 3
    stages = [
        (scores[:1], torch.tensor([none]), _rows(10.0, 20.0, 40.0)),
        (scores, torch.tensor([none, none]), _rows(10.0, 20.0, 40.0)),
        (scores[:1], torch.tensor([[True, False, False]]), _rows(10.0, 20.0, 40.0)),
        (scores, torch.tensor([[False, False, True], all_]), _rows(10.0, 20.0, 40.0)),
        (
            _rows(-300.0, -299.0, -301.0).T,
            torch.tensor([[False, False, True]]),
            _rows(1.0, 2.0, 4.0),
        ),
        (_rows(300.0, 1.0, 0.0).T, torch.tensor([[True, False, False]]), _rows(1.0, 2.0, 4.0)),
    ]
    if thorough:
        for q, n, m in ((5, 7, 3), (2, 13, 1), (3, 1, 2)):
            excluded = torch.rand(q, n) < 0.4
            excluded[0] = True
            stages.append((10 * torch.randn(q, n), excluded, torch.randn(n, m)))
    for scores, excluded, values in stages:
        asked = {"scores": scores, "excluded": excluded, "values": values}
        expected = _normalise(scores, excluded)
        given = expect_pair(call_twice(candidate, asked), ("contexts", "weights"), asked)
        contexts, weights = map(in_32_bits, given)
        expect_equal(weights, expected, "the weights", asked, _said("answer", _WEIGHT_TWINS))
        right = "The weights are correct, but the contexts are not: they are weights @ values."
        twins = [Twin(right, lambda *_, contexts=contexts: contexts)]
        expect_equal(contexts, expected @ values, "the contexts", asked, twins)
    scores, values = torch.randn(3, 5), torch.randn(5, 2)
    excluded = torch.rand(3, 5) < 0.3
    excluded[1] = True
    sources = {"scores": scores.requires_grad_(), "values": values.requires_grad_()}
    asked = {"scores": scores, "excluded": excluded, "values": values}
    expect_gradients_through(
        candidate,
        asked,
        sources,
        lambda pair: pair[0],
        " Here all pairs of one query are excluded. The softmax of only -infinity is "
        "NaN, and replacing this NaN does not remove it from the gradient.",
    )


# Part 5

_Known = Mapping[str, Sequence[tuple[str, object]]]


def _softmax(scores: Sequence[float]) -> list[float]:
    return cast(list[float], torch.tensor(scores, dtype=torch.float64).softmax(-1).tolist())


def _context(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True))


def _moved(numbers: Sequence[float], i: int, by: float) -> list[float]:
    return [number + by * (j == i) for j, number in enumerate(numbers)]


def _run(scores: Sequence[float], values: Sequence[float], i: int, c: float) -> dict[str, object]:
    """Change scores and values, and compute the softmax again."""
    weights = _softmax(scores)
    return {
        "twice": _softmax([*scores, scores[i]]),
        "without": _softmax([*scores[:i], *scores[i + 1 :]]),
        "raised": _softmax(_moved(scores, i, c)),
        "all_raised": _softmax([score + c for score in scores]),
        "doubled": _softmax([2 * score for score in scores]),
        "value_raised": _context(weights, _moved(values, i, c)),
        "values_raised": _context(weights, [value + c for value in values]),
        "values_scaled": _context(weights, [value * c for value in values]),
    }


def _known_answers(w: Sequence[float], values: Sequence[float], i: int, c: float) -> _Known:
    """Return, for each key, the results of known mistakes with their diagnoses."""
    n, own, context = len(w), w[i], _context(w, values)
    no_sum = (
        "These weights do not sum to 1; after the change, all of them must be normalised again."
    )
    others = [*w[:i], *w[i + 1 :]]
    factor = math.exp(c)
    same = "The softmax depends only on differences between scores, and these do not change."
    only_own = "Only value i is increased, so the context increases by c times weight i."
    return {
        "twice": [
            (f"{no_sum} The copy adds the same unnormalised weight as the pair.", [*w, own]),
            (
                "The pair and its copy share the previous weight of the pair, and the others "
                "are unchanged. The copy adds an unnormalised weight of its own, so both "
                "together receive more than the pair did.",
                [*_halved(w, i), own / 2],
            ),
            ("The copy has no weight. There are now n + 1 pairs, each with a weight.", list(w)),
            (
                "The pair and its copy have one weight in common. There are n + 1 pairs, each "
                "with its own weight.",
                [x / (1 + own) for x in _moved(w, i, own)],
            ),
            (
                "The weight of the copy, at the end of the list, is missing.",
                [x / (1 + own) for x in w],
            ),
            (
                "The weight of the copy is at the wrong position. The copy is the last pair.",
                _over_sum([*w[:i], own, *w[i:]]),
            ),
            (
                "A softmax is applied to the weights, which are not scores. Normalise them by "
                "their sum.",
                _softmax([*w, own]),
            ),
        ],
        "without": [
            (f"{no_sum} The weight of pair i is lost.", others),
            (
                "The weight of pair i is distributed in equal parts. The remaining weights "
                "keep their ratios, so each grows by the same factor.",
                [x + own / (n - 1) for x in others],
            ),
            (
                "Pair i is removed, so the list has n - 1 weights, without an entry for pair i.",
                [x / (1 - own) if j != i else 0.0 for j, x in enumerate(w)],
            ),
            (
                "A softmax is applied to the remaining weights, which are not scores. "
                "Normalise them by their sum.",
                _softmax(others),
            ),
        ],
        "raised": [
            (f"{no_sum} A score is increased, not a weight.", _moved(w, i, c)),
            (
                f"{no_sum} Weight i is multiplied by exp(c), and the sum has changed.",
                _moved(w, i, own * factor - own),
            ),
            (
                "A score that increases by c multiplies the unnormalised weight exp(score) by "
                "exp(c). It neither multiplies it by c nor adds c to it.",
                _over_sum(_moved(w, i, own * c - own)),
            ),
            (
                "A score that increases by c multiplies the unnormalised weight exp(score) by "
                "exp(c). It neither multiplies it by c nor adds c to it.",
                _over_sum(_moved(w, i, c)),
            ),
            (
                "A softmax is applied to weights, one of them increased. A softmax needs "
                "scores; up to a constant, these are the logarithms of the weights.",
                _softmax(_moved(w, i, c)),
            ),
            ("The weights are unchanged. They change if one score changes.", list(w)),
        ],
        "all_raised": [
            (f"{same} No weight changes.", [x + c for x in w]),
            (f"{same} No weight changes.", [x * factor for x in w]),
            (f"{same} No weight changes.", [x * c for x in w]),
            (f"{same} No weight changes.", _softmax([x + c for x in w])),
        ],
        "doubled": [
            (f"{no_sum} Doubling a score does not double its weight.", [2 * x for x in w]),
            (
                "The weights are unchanged, as if a constant were added to all scores. "
                "Doubling the scores doubles their differences.",
                list(w),
            ),
            (
                f"{no_sum} Doubling the scores squares the unnormalised weights.",
                [x * x for x in w],
            ),
            (
                "A softmax is applied to doubled weights. A softmax needs scores; up to a "
                "constant, these are the logarithms of the weights.",
                _softmax([2 * x for x in w]),
            ),
        ],
        "value_raised": [
            (only_own, context + c),
            (only_own, context + c / n),
            ("The context is unchanged, but value i is part of the weighted sum.", context),
            (
                "Value i is multiplied by c. It must be increased by c.",
                context + own * values[i] * (c - 1),
            ),
        ],
        "values_raised": [
            (
                "The context increases by n · c. Each value increases by c, and the weights "
                "sum to 1, so the context increases by c.",
                context + n * c,
            ),
            (
                "The context is unchanged. A constant that is added to all scores cancels in "
                "the softmax, but here it is added to the values.",
                context,
            ),
            ("Only value i is increased. All values increase by c.", context + own * c),
        ],
        "values_scaled": [
            (
                "The context is unchanged. A factor of all values is a factor of the context.",
                context,
            ),
            ("c is added to the values. They must be multiplied by c.", context + c),
            (
                "Only value i is multiplied. All values are multiplied by c.",
                context + own * values[i] * (c - 1),
            ),
        ],
    }


def _halved(w: Sequence[float], i: int) -> list[float]:
    return [x / 2 if j == i else x for j, x in enumerate(w)]


def _over_sum(numbers: Sequence[float]) -> list[float]:
    total = sum(numbers)
    return [number / total for number in numbers]


@_parts.part("changed weights", "predict")
def predictions(predict: object, thorough: bool = False) -> None:
    """Compare predictions from the weights alone with softmaxes of the changed scores."""
    cases: list[tuple[list[float], list[float], int, float]] = [
        ([math.log(2), math.log(5), math.log(3)], [5.0, 20.0, 30.0], 0, 3.0),
        ([1.5, 0.0, -0.5, 0.7], [4.0, -1.0, 2.5, 0.5], 2, -1.5),
    ]
    if thorough:
        for n, i, c in ((7, 6, 0.5), (2, 1, 3.0), (11, 4, -0.7)):
            cases.append((torch.randn(n).tolist(), torch.randn(n).tolist(), i, c))
    for scores, values, i, c in cases:
        weights = [round(weight, 9) for weight in _softmax(scores)]
        asked = {"weights": weights, "values": values, "i": i, "c": c}
        given = call_twice(predict, asked)
        if not isinstance(given, dict):
            expect_value(given, {}, "the answer", asked)
        found = cast(dict[str, object], given)
        known = _known_answers(weights, values, i, c)
        for key, expected in _run(scores, values, i, c).items():
            if key not in found:
                raise CheckFailed(f"  The key {key!r} is missing.\n{describe(asked)}")
            twins = [
                Twin(f"{key}: {said}", lambda *_, wrong=wrong: wrong) for said, wrong in known[key]
            ]
            expect_value(_plain(found[key]), expected, key, asked, twins)


def _plain(value: object) -> object:
    """Accept a tensor or an array of weights as a list."""
    return value.tolist() if isinstance(value, Tensor | np.ndarray) else value


# Part 6


@_parts.part("batched pooling", "corrected_pooling")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Test the properties of a batched pooling in which each pair has its own width."""
    # Batch, queries, keys, size of keys and of values.
    sizes = [(1, 2, 3, 1, 1), (2, 3, 5, 2, 2)]
    if thorough:
        sizes += [(3, 2, 7, 5, 1), (1, 1, 2, 1, 3), (5, 7, 1, 3, 2)]
    for size in sizes:
        in_turn(_SYMPTOMS, candidate, size)


_Size = tuple[int, int, int, int, int]

_TURNED = "Nothing is masked here: is the mask inverted? True means that a pair may be attended to."


def _asked(size: _Size, lengths: Sequence[int] | None = None, least: float = 0.5) -> Inputs:
    """Return a batch, with widths from `least` to 1; `lengths` gives the numbers of real pairs."""
    batch, q, n, d, m = size
    position = torch.arange(n).expand(batch, n)
    real = torch.tensor(lengths or [n] * batch).unsqueeze(1)
    mask = position < real
    return {
        "query": torch.randn(batch, q, d),
        "keys": torch.randn(batch, n, d),
        "values": torch.randn(batch, n, m),
        "mask": mask,
        "widths": least + (1 - least) * torch.rand(batch, n),
    }


def _expected(asked: Inputs) -> tuple[Tensor, Tensor]:
    """Compute the weights and the contexts by the definition, in 64 bits."""
    scores = _gaussians(asked["query"], asked["keys"], asked["widths"])
    unnormalised = scores.double().exp() * asked["mask"].unsqueeze(1)
    weights = _zeros_where_none(unnormalised).float()
    return weights @ asked["values"], weights


def _contexts_and_weights(candidate: object, asked: Inputs) -> tuple[Tensor, Tensor]:
    given = expect_pair(call_twice(candidate, asked), ("contexts", "weights"), asked)
    contexts, weights = map(in_32_bits, given)
    if type(weights) is Tensor and weights.isnan().any():
        zeros = "In a fully masked database, the weights must be 0."
        raise CheckFailed(
            f"  Some weights are NaN. {_TURNED if asked['mask'].all() else zeros}"
            f"\n{describe(asked)}"
        )
    shapes = [part.shape for part in _expected(asked)]
    return (
        expect_tensor(contexts, shapes[0], "the contexts", asked),
        expect_tensor(weights, shapes[1], "the weights", asked),
    )


def _examine_axis(candidate: object, size: _Size) -> None:
    asked = _asked(size)
    _, weights = _contexts_and_weights(candidate, asked)
    if _ones(weights.sum(dim=2)):
        return
    over = ""
    if _ones(weights.sum(dim=1)):
        over = " They sum to 1 over the queries: is the softmax applied over the wrong axis?"
    over = over if weights.count_nonzero() else f" All weights are 0. {_TURNED}"
    raise CheckFailed(
        f"  The weights of a query do not sum to 1 over the keys, although nothing is masked.{over}"
        f"\n{describe(asked)}\n  got sums    {show(weights.sum(dim=2)[0])} (first of the batch)"
    )


def _ones(sums: Tensor) -> bool:
    return torch.allclose(sums, torch.ones_like(sums), atol=1e-4)


def _wrong_weights(
    exponent: Callable[[Tensor, Tensor], Tensor],
) -> Callable[..., Tensor]:
    def weights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, widths: Tensor) -> Tensor:
        distances = (q.unsqueeze(2) - k.unsqueeze(1)).norm(dim=-1)
        return masked_softmax(exponent(distances, widths.unsqueeze(1)), mask.unsqueeze(1))

    return weights


_WIDTH_TWINS = (
    Twin(
        f"All keys have the same weight. {_TURNED}",
        _wrong_weights(lambda distance, width: 0 * distance),
    ),
    Twin(
        "The widths are not squared: u² is the squared distance divided by width².",
        _wrong_weights(lambda distance, width: -(distance**2) / (2 * width)),
    ),
    Twin("The widths are not used.", _wrong_weights(lambda distance, width: -(distance**2) / 2)),
    Twin(
        "The factor 1/2 is missing: the score is -u²/2.",
        _wrong_weights(lambda distance, width: -(distance**2) / width**2),
    ),
    Twin(
        "The distance is not squared: the score is -u²/2.",
        _wrong_weights(lambda distance, width: -distance / (2 * width**2)),
    ),
    Twin(
        "The sign of the exponent is wrong: the farthest key has the largest weight.",
        _wrong_weights(lambda distance, width: (distance / width) ** 2 / 2),
    ),
)


def _examine_widths(candidate: object, size: _Size) -> None:
    for least in (1.0, 2.0, 0.5):
        asked = _asked(size, least=least)
        _, weights = _contexts_and_weights(candidate, asked)
        expect_equal(weights, _expected(asked)[1], "the weights", asked, _WIDTH_TWINS)


_MASK_TWINS = (
    Twin(
        "The weights of masked pairs are set to 0 after the softmax, so the other "
        "weights do not sum to 1. Mask the scores, before the softmax.",
        lambda q, k, v, mask, widths: _gaussians(q, k, widths).softmax(-1) * mask.unsqueeze(1),
    ),
    Twin(
        "The scores of masked pairs are set to 0, which is the highest possible score "
        "here: exp(0) = 1. They must be far below all others.",
        lambda q, k, v, mask, widths: (_gaussians(q, k, widths) * mask.unsqueeze(1)).softmax(-1),
    ),
    Twin(
        "The mask is not used: masked pairs have positive weights.",
        lambda q, k, v, mask, widths: _gaussians(q, k, widths).softmax(-1),
    ),
)
_FAR_TWINS = (
    Twin(
        "All weights are 0. The real pairs are far from the query here, so exp(score) "
        "alone is rounded to 0, and a masked pair is near: its score must be far "
        "below all others before the softmax.",
        lambda q, k, v, mask, widths: torch.zeros(len(q), q.size(1), k.size(1)),
    ),
)


def _gaussians(query: Tensor, keys: Tensor, widths: Tensor) -> Tensor:
    distances = (query.unsqueeze(2) - keys.unsqueeze(1)).norm(dim=-1)
    return -(distances / widths.unsqueeze(1)).square() / 2


def _lengths(size: _Size, nothing: bool) -> list[int]:
    """Return the numbers of real pairs: n - 1, n - 2, …; 0 in the last database if `nothing`."""
    batch, _, n, *_ = size
    found = [max(1, n - 1 - row) for row in range(batch)]
    return [*found[:-1], 0] if nothing else found


def _examine_mask(candidate: object, size: _Size) -> None:
    for far in (0.0, 20.0):
        asked = _asked(size, _lengths(size, nothing=False), least=1.5 if far else 0.5)
        asked["query"][..., 0] += far
        asked["keys"][..., 0] += far * ~asked["mask"]  # masked pairs are near
        _, weights = _contexts_and_weights(candidate, asked)
        twins = _FAR_TWINS if far else _MASK_TWINS
        expect_equal(weights, _expected(asked)[1], "the weights", asked, twins)


def _examine_nothing(candidate: object, size: _Size) -> None:
    asked = _asked(size, _lengths(size, nothing=True))
    _, weights = _contexts_and_weights(candidate, asked)
    if weights[-1].count_nonzero():
        raise CheckFailed(
            "  In a fully masked database, some pairs have positive weights. All weights must be 0."
            f"\n{describe(asked)}"
        )
    expect_equal(weights, _expected(asked)[1], "the weights", asked)


_CONTEXT_TWINS = (
    Twin(
        "The keys are averaged instead of the values. The keys determine the weights; "
        "the weighted sum is that of the values.",
        lambda q, k, v, mask, widths: (
            masked_softmax(_gaussians(q, k, widths), mask.unsqueeze(1)) @ k
        ),
    ),
    Twin(
        "The weighted values are averaged over the pairs. The weights already sum to "
        "1, so sum them instead.",
        lambda q, k, v, mask, widths: (
            masked_softmax(_gaussians(q, k, widths), mask.unsqueeze(1)) @ v / v.size(1)
        ),
    ),
)


def _examine_values(candidate: object, size: _Size) -> None:
    for nothing in (False, True):
        asked = _asked(size, _lengths(size, nothing))
        contexts, _ = _contexts_and_weights(candidate, asked)
        expect_equal(contexts, _expected(asked)[0], "the contexts", asked, _CONTEXT_TWINS)


def _examine_gradients(candidate: object, size: _Size) -> None:
    size = (size[0], size[1], max(size[2], 3), *size[3:])  # of one pair the weight has no slope
    lengths = [size[2]] * size[0]
    where = {
        "": (lengths, False),
        " Here a query equals a key. Their distance is the square root of 0, whose "
        "derivative is infinite. The score needs the squared distance only, so no "
        "square root is needed.": (
            lengths,
            True,
        ),
        " Here one database is fully masked. The softmax of only -infinity is NaN, and "
        "replacing this NaN does not remove it from the gradient.": ([*lengths[:-1], 0], False),
    }
    for advice, (real, on_a_key) in where.items():
        if not any(real):
            continue
        asked = dict(_asked(size, real))
        if on_a_key:
            asked["query"][0, 0] = asked["keys"][0, 1]
        sources = {
            name: asked[name].requires_grad_() for name in ("query", "keys", "values", "widths")
        }
        expect_gradients_through(candidate, asked, sources, lambda pair: pair[0], advice)
        weighed = {name: sources[name] for name in ("query", "keys", "widths")}
        expect_gradients_through(candidate, asked, weighed, lambda pair: pair[1], advice)


_SYMPTOMS: dict[str, Callable[[object, _Size], None]] = {
    "the weights of each query sum to 1": _examine_axis,
    "the widths": _examine_widths,
    "the mask": _examine_mask,
    "fully masked databases": _examine_nothing,
    "the values": _examine_values,
    "gradients": _examine_gradients,
}
