"""Checks of the assignment on attention pooling: special cases, kernels, a learned width.

What rebuilds the package is compared with it. The answers to parts 4, 5 and 6 stand nowhere here:
those of part 4 come from adding and multiplying closeness itself in 64 bits, those of part 5 from
a softmax that is taken anew, and part 6 is examined symptom by symptom.
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
    """Say that the package, its pooling and these checks work."""
    _parts.explain_undefined_names()
    key, value = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0]])
    context, _ = KernelPooling()(torch.tensor([[1.5]]), key, value)
    print(f"PyTorch {torch.__version__}. Between the keys 1 and 2, with the values 10 and 20,")
    print(f"the package's pooling answers {context.item():.0f}. Ready.")


def measurements(number: int = 60, seed: int = 0, noise: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return keys from 0 to 5 and noisy values of a curve at them, each (number, 1)."""
    generator = torch.Generator().manual_seed(seed)
    keys = (5 * torch.rand(number, 1, generator=generator)).sort(dim=0).values
    values = (2 * keys).sin() + keys / 2
    return keys, values + noise * torch.randn(number, 1, generator=generator)


SENTENCE = "the animal did not cross the street because it was too tired"
_KINDS = {"noun": ("animal", "street"), "verb": ("did", "cross", "was")}


def words_in_a_table() -> tuple[list[str], dict[str, Tensor]]:
    """Return the words of a sentence, and for each kind of word where it stands."""
    words = SENTENCE.split()
    kinds = {kind: torch.tensor([w in those for w in words]) for kind, those in _KINDS.items()}
    return words, kinds


def _rows(*numbers: float) -> Tensor:
    """Return single numbers as vectors of one component."""
    return torch.tensor([[number] for number in numbers])


# Part 1


class _Alpha:
    """A weight function that a message can show."""

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
        "The keys are summed instead of the values: a key says where to look, its value is what "
        "is handed over.",
        lambda q, k, v, alpha: alpha(q, k) @ k,
    ),
    Twin(
        "The weights are divided by their sum. Pooling takes them as they come; to make them sum "
        "to 1 is the business of alpha.",
        lambda q, k, v, alpha: alpha(q, k) / alpha(q, k).sum(-1, keepdim=True) @ v,
    ),
    Twin(
        "A softmax is taken of the weights. Pooling takes them as they come.",
        lambda q, k, v, alpha: alpha(q, k).softmax(dim=-1) @ v,
    ),
    Twin(
        "alpha is asked with queries and keys exchanged: alpha(query, keys).",
        lambda q, k, v, alpha: alpha(k, q).T @ v,
    ),
    Twin(
        "This is a mean over the pairs; the weighted values are summed.",
        lambda q, k, v, alpha: alpha(q, k) @ v / len(k),
    ),
    Twin(
        "Each query gets the value of one key alone, that with the largest weight. All weighted "
        "values are summed.",
        lambda q, k, v, alpha: v[alpha(q, k).argmax(dim=-1)],
    ),
    Twin(
        "alpha is asked for one key at a time, but it may need all keys to say what share of the "
        "weight each gets.",
        lambda q, k, v, alpha: sum(alpha(q, k[j : j + 1]) * v[j] for j in range(len(k))),
    ),
    Twin("These are the weights; sum the values with them.", lambda q, k, v, alpha: alpha(q, k)),
    Twin(
        "The weights are not used: this is the sum of all values.",
        lambda q, k, v, alpha: v.sum(0).expand(len(q), -1),
    ),
)


def _found(query: Tensor, keys: Tensor) -> Tensor:
    return (query.unsqueeze(1) == keys).all(dim=-1).float()


_LOOKUP_TWINS = (
    *known(
        "A key counts as found if a single component agrees. All of them must: .all(dim=-1).",
        lambda q, k: (q.unsqueeze(1) == k).any(dim=-1).float(),
        lambda q, k: (q[:, :1] == k[:, 0]).float(),
        lambda q, k: (q.unsqueeze(1) == k).float().mean(dim=-1),
        lambda q, k: (q.unsqueeze(1) == k).float().sum(dim=-1),
    ),
    Twin(
        "A query that is no key gets the nearest one. An exact lookup finds nothing there: zeros.",
        lambda q, k: torch.eye(len(k))[(q.unsqueeze(1) - k).norm(dim=-1).argmin(dim=-1)],
    ),
    Twin(
        "A query that is no key gets 0 / 0: NaN. An exact lookup finds nothing there: zeros.",
        lambda q, k: _found(q, k) / _found(q, k).sum(-1, keepdim=True),
    ),
    Twin(
        "A query that is no key gets every pair in equal shares. An exact lookup finds nothing "
        "there: zeros.",
        lambda q, k: torch.where(_found(q, k).sum(-1, keepdim=True) > 0, _found(q, k), 1 / len(k)),
    ),
    Twin(
        "The axes are exchanged: a row for each query, a column for each key.",
        lambda q, k: _found(k, q),
    ),
    Twin("It is the wrong way round: 0 where the key is found.", lambda q, k: 1 - _found(q, k)),
    *known(
        "Two different vectors may have the same sum, or the same dot product with a third. "
        "Compare component by component.",
        lambda q, k: (q.sum(-1, keepdim=True) == k.sum(-1)).float(),
        lambda q, k: (q @ k.T == k.square().sum(-1)).float(),
    ),
    Twin(
        "A softmax of 1 and 0 leaves every pair some weight. Here the weights are the ones and "
        "zeros themselves.",
        lambda q, k: _found(q, k).softmax(dim=-1),
    ),
)

_AVERAGE_TWINS = (
    Twin(
        "Every pair has the weight 1. Weights that sum to 1 are 1/n, and n is the number of pairs.",
        lambda q, k: torch.ones(len(q), len(k)),
    ),
    Twin(
        "The weights are divided by the number of queries; it is the pairs that share them.",
        lambda q, k: torch.full((len(q), len(k)), 1 / len(q)),
    ),
    Twin(
        "The axes are exchanged: a row for each query, a column for each key.",
        lambda q, k: torch.full((len(k), len(q)), 1 / len(k)),
    ),
)


@_parts.part("pooling", "pool", "lookup", "average")
def pooling(pool: object, lookup: object, average: object, thorough: bool = False) -> None:
    """Check the sum of weighted values, and two functions that give weights."""
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
            _expect(candidate, inputs, expected, "the weights", twins[name], name)


def _expect(
    candidate: object,
    inputs: Inputs,
    expected: Tensor,
    what: str,
    twins: Sequence[Twin],
    name: str = "",
) -> None:
    """Call a candidate and compare; `name` says which of a part's functions it is."""
    said = f"{name}: " if name else ""
    twins = [Twin(f"{said}{twin.diagnosis}", twin.answer) for twin in twins]
    expect_equal(in_32_bits(call_twice(candidate, inputs)), expected, what, inputs, twins)


def _expect_gradients(candidate: object, sources: Inputs, nan: str = "", **others: Any) -> None:
    """Let the gradient of the answer flow back to each of the sources."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in sources.items()}
    expect_gradients_through(candidate, {**leaves, **others}, leaves, nan=nan)


# Part 2


def _weights(query: Tensor, keys: Tensor, kernel: KernelName, width: float) -> Tensor:
    """Return the package's weights."""
    with torch.no_grad():
        return cast(Tensor, KernelPooling(kernel, width)(query, keys, torch.zeros(len(keys), 1))[1])


def _distances(query: Tensor, keys: Tensor, p: float = 2.0) -> Tensor:
    return (query.unsqueeze(1) - keys).norm(p=p, dim=-1)


def _closeness(query: Tensor, keys: Tensor, kernel: KernelName, width: float) -> Tensor:
    return KERNELS[kernel](_distances(query, keys) / width)


def _shared(closeness: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """Divide by the sum; 0 / 0 stays NaN."""
    return closeness / closeness.sum(dim=dim, keepdim=True)


def _zeros_where_none(closeness: Tensor) -> Tensor:
    return _shared(closeness).nan_to_num(nan=0.0)


def _twin_of(kernel: KernelName | None, said: str, closeness: Callable[[Tensor], Tensor]) -> Twin:
    """Return the mistake of another closeness of u, made with one kernel or with all."""

    def answer(q: Tensor, k: Tensor, name: KernelName, width: float) -> Tensor:
        if kernel not in (None, name):
            raise IndexError("not this kernel's mistake")
        return _zeros_where_none(closeness(_distances(q, k) / width))

    return Twin(said, answer)


def _or_the_nearest(closeness: Tensor, query: Tensor, keys: Tensor) -> Tensor:
    nearest = torch.eye(len(keys))[_distances(query, keys).argmin(dim=-1)]
    return torch.where(closeness.sum(-1, keepdim=True) > 0, _zeros_where_none(closeness), nearest)


_KERNEL_TWINS = (
    _twin_of(
        "gaussian", "The half is missing: the Gaussian is exp(-u²/2).", lambda u: (-(u**2)).exp()
    ),
    _twin_of("gaussian", "u is not squared: exp(-u²/2).", lambda u: (-u / 2).exp()),
    _twin_of("gaussian", "This is exp(-u); the Gaussian is exp(-u²/2).", lambda u: (-u).exp()),
    _twin_of(
        "gaussian",
        "The sign is turned: the farthest key gets the most weight.",
        lambda u: (u**2 / 2).exp(),
    ),
    _twin_of(
        "epanechnikov",
        "Beyond its reach 1 - u² is negative, and it stays so here: cut it off at 0.",
        lambda u: 1 - u**2,
    ),
    _twin_of(
        "epanechnikov",
        "This is the triangle 1 - |u|; Epanechnikov's kernel is 1 - u².",
        lambda u: (1 - u).clamp(min=0),
    ),
    _twin_of(
        "boxcar",
        "A key at the distance of the width itself is within reach: |u| ≤ 1.",
        lambda u: (u < 1).float(),
    ),
    _twin_of("boxcar", "The box ends at |u| = 1/2 here, not at 1.", lambda u: (u <= 0.5).float()),
    Twin(
        "The width is not used: u is the distance divided by the width.",
        lambda q, k, kernel, width: _weights(q, k, kernel, 1.0),
    ),
    Twin(
        "The distance is multiplied by the width; a wide kernel should make it small.",
        lambda q, k, kernel, width: _weights(q, k, kernel, 1 / width),
    ),
    Twin(
        "The width is not squared: u² is the squared distance divided by width².",
        lambda q, k, kernel, width: _zeros_where_none(
            KERNELS[kernel](_distances(q, k) / width**0.5)
        ),
    ),
    Twin(
        "The distance is squared before it is divided by the width: u is the distance itself, "
        "divided by the width.",
        lambda q, k, kernel, width: _zeros_where_none(
            KERNELS[kernel](_distances(q, k).square() / width)
        ),
    ),
    Twin(
        "The width divides twice: u² is the squared distance divided by width².",
        lambda q, k, kernel, width: _weights(q, k, kernel, width**2),
    ),
    Twin(
        "The kernel's name is not used: these are the Gaussian's weights.",
        lambda q, k, kernel, width: _weights(q, k, "gaussian", width),
    ),
    Twin(
        "This is closeness, and not yet weights: divide by its sum over the keys.",
        lambda q, k, kernel, width: _closeness(q, k, kernel, width),
    ),
    Twin(
        "A softmax is taken of the closeness, which is an exponential too many. Divide by the sum.",
        lambda q, k, kernel, width: _closeness(q, k, kernel, width).softmax(dim=-1),
    ),
    Twin(
        "Far from every key each e^(-u²/2) rounds to 0, and the weights are lost. A softmax of "
        "-u²/2 goes by the differences, and finds the nearest.",
        lambda q, k, kernel, width: _zeros_where_none(_closeness(q, k, kernel, width)),
    ),
    Twin(
        "The weights of each key sum to 1 over the queries. They must over the keys: dim=-1.",
        lambda q, k, kernel, width: _shared(_closeness(q, k, kernel, width), 0).nan_to_num(0.0),
    ),
    Twin(
        "The weights of all queries together sum to 1. Each query has a sum of its own: dim=-1.",
        lambda q, k, kernel, width: _shared(_closeness(q, k, kernel, width), (0, 1)),
    ),
    Twin(
        "The distance is the sum of the components' distances. It is Euclid's: the root of the "
        "sum of their squares.",
        lambda q, k, kernel, width: _zeros_where_none(
            KERNELS[kernel](_distances(q, k, 1.0) / width)
        ),
    ),
    Twin(
        "The axes are exchanged: a row for each query, a column for each key.",
        lambda q, k, kernel, width: _weights(q, k, kernel, width).T,
    ),
    Twin(
        "0 / 0 is NaN: where the closeness of all keys is 0, so is their sum. For boxcar and "
        "epanechnikov zeros are expected there; a Gaussian's e^(-u²/2) is never 0, only too small "
        "to be written down, and a softmax of -u²/2 goes by the differences.",
        lambda q, k, kernel, width: _shared(_closeness(q, k, kernel, width)),
    ),
    Twin(
        "Where all closeness is 0, one nearest key gets all the weight. For boxcar and "
        "epanechnikov zeros are expected; a Gaussian shares it out among all that are as near.",
        lambda q, k, kernel, width: _or_the_nearest(_closeness(q, k, kernel, width), q, k),
    ),
    Twin(
        "A query that reaches no key gets every key in equal shares: that would be an answer made "
        "of what is far. Zeros are expected.",
        lambda q, k, kernel, width: _shared(_closeness(q, k, kernel, width)).nan_to_num(1 / len(k)),
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


@_parts.part("kernels", "kernel_weights")
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
    for kernel in ("gaussian", "epanechnikov"):
        # The last query reaches no key with the second kernel.
        sources = {"query": _rows(0.5, 1.2, 50.0), "keys": _rows(0.0, 1.0, 2.0)}
        nan = (
            " The NaN of 0 / 0 is hidden, its gradient is not: change the sum before you divide "
            "by it, not the quotient after."
        )
        _expect_gradients(candidate, sources, nan, kernel=kernel, width=1.7)


# Part 3


def _left_out(keys: Tensor, values: Tensor, log_width: Tensor) -> Tensor:
    """Return the mean squared error of the answers to all keys, each without its own pair."""
    scores = -(_distances(keys, keys) / log_width.exp()).square() / 2
    others = ~torch.eye(len(keys), dtype=torch.bool)
    return (masked_softmax(scores, others) @ values - values).square().mean()


def _by_weights(
    weigh: Callable[[Tensor, Tensor], Tensor],
    error: Callable[[Tensor], Tensor] = lambda difference: difference.square().mean(),
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a loss with other weights, made of scores and of where the own pair stands."""

    def loss(keys: Tensor, values: Tensor, log_width: Tensor) -> Tensor:
        scores = -(_distances(keys, keys) / log_width.exp()).square() / 2
        weights = weigh(scores, torch.eye(len(keys), dtype=torch.bool))
        return error(weights @ values - values)

    return loss


def _softmax_of_others(scores: Tensor, own: Tensor) -> Tensor:
    return masked_softmax(scores, ~own)


_LOSS_TWINS = (
    Twin(
        "Each key is answered with its own pair among the others, so it sees the value that it is "
        "to predict. Leave that pair out.",
        _by_weights(lambda scores, own: scores.softmax(dim=-1)),
    ),
    Twin(
        "The own pair's weight is set to 0 after the softmax, and its share is lost: the weights "
        "of the others no longer sum to 1. Leave it out before.",
        _by_weights(lambda scores, own: scores.softmax(dim=-1).masked_fill(own, 0.0)),
    ),
    Twin(
        "Only the own pair is kept, and the others are left out: the mask is the wrong way round.",
        _by_weights(lambda scores, own: masked_softmax(scores, own)),
    ),
    Twin(
        "All pairs at the same place are left out. Only the own one must be: another measurement "
        "at that place is what one knows best.",
        _by_weights(lambda scores, own: masked_softmax(scores, scores < 0)),
    ),
    Twin(
        "The weights of each pair sum to 1 over the questions. They must over the pairs: dim=-1.",
        _by_weights(lambda scores, own: masked_softmax(scores, ~own).T),
    ),
    Twin(
        "The distance is multiplied by the width; a wide kernel should make it small.",
        lambda keys, values, log_width: _left_out(keys, values, -log_width),
    ),
    *known(
        "The distance is not squared: the score is -distance² / (2 · width²).",
        _by_weights(lambda scores, own: masked_softmax(-(-2 * scores).sqrt() / 2, ~own)),
        _by_weights(lambda scores, own: masked_softmax(-(-2 * scores).sqrt(), ~own)),
    ),
    Twin(
        "log_width is used as the width. The width is its exponential.",
        lambda keys, values, log_width: _left_out(keys, values, log_width.abs().log()),
    ),
    Twin(
        "The width is not squared: the score is -distance² / (2 · width²).",
        lambda keys, values, log_width: _left_out(keys, values, log_width / 2),
    ),
    Twin(
        "The half is missing: the score is -distance² / (2 · width²).",
        lambda keys, values, log_width: _left_out(keys, values, log_width - math.log(2) / 2),
    ),
    Twin(
        "This is the sum of the squared errors, which grows with the number of pairs; take the "
        "mean.",
        _by_weights(_softmax_of_others, lambda difference: difference.square().sum()),
    ),
    Twin(
        "The errors are not squared: this is the mean of their absolute values.",
        _by_weights(_softmax_of_others, lambda difference: difference.abs().mean()),
    ),
    Twin(
        "The errors are not squared, so those above and below the value cancel.",
        _by_weights(_softmax_of_others, lambda difference: difference.mean()),
    ),
    Twin(
        "The root is taken of the mean squared error; leave it as it is.",
        _by_weights(_softmax_of_others, lambda difference: difference.square().mean().sqrt()),
    ),
    Twin(
        "Far from every other key each e^(-u²/2) rounds to 0, and with it the answer. A softmax "
        "goes by the differences, and finds the nearest.",
        _by_weights(lambda s, own: _zeros_where_none(s.exp().masked_fill(own, 0.0))),
    ),
    Twin(
        "0 / 0 is NaN: far from every other key each e^(-u²/2) rounds to 0. A softmax goes by the "
        "differences, and finds the nearest.",
        _by_weights(lambda s, own: _shared(s.exp().masked_fill(own, 0.0))),
    ),
)

_TWICE_AT_ONE = (_rows(0.0, 1.0, 1.0, 3.0), _rows(2.0, 5.0, 6.0, 1.0))
_ONE_FAR = (_rows(0.0, 1.0, 50.0), _rows(2.0, 5.0, 4.0))


@_parts.part("learned width", "leave_one_out", "learn_width")
def learned_width(leave_one_out: object, learn_width: object, thorough: bool = False) -> None:
    """Check a loss that a width can be learned from, and the width that is learned."""
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
            "  leave_one_out: a plain number carries no gradient, and nothing is learned from it. "
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
            "  leave_one_out: the loss is right, and its slope is not. Is a part of it cut off, "
            f"by .item() or .detach()?\n{describe(asked)}\n  got         {show(slope)}\n"
            f"  expected    {show(wanted)}, the gradient of log_width"
        )


_GRID = torch.linspace(-5, 3, 161)
"""The logarithms of the widths among which the best is looked for."""

_ENOUGH = 1.02
"""How many times the least loss a learned width may have."""


def _expect_learned(candidate: object, keys: Tensor, values: Tensor, width: float) -> None:
    asked = {"keys": keys, "values": values, "width": width}
    answer = call(candidate, asked)
    if isinstance(answer, Tensor | np.ndarray) and math.prod(answer.shape) == 1:
        answer = answer.item()
    found = plain_number(answer)
    if found is None:
        raise CheckFailed(
            "  learn_width: expected the width that was learned, one number; got "
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
        diagnosis = "This is the logarithm of the width. Return its exponential."
    elif not found > 0 or not math.isfinite(found):
        diagnosis = "A width is a positive number. Move its logarithm, and it stays one."
    elif abs(found - width) < 1e-3 * width:
        diagnosis = "The width has not moved from where it started."
    elif found < best / 5:
        diagnosis = (
            "The width has shrunk to next to nothing, where each answer is one value alone. That "
            "is the best there is only for a loss in which each key sees its own pair. If yours "
            "does not: does each step begin with zero_grad()?"
        )
    elif found > 1.5 * max(width, best):
        diagnosis = (
            "The width is far too large, and every answer is nearly the mean of all values. Is "
            "the loss made larger instead of smaller?"
        )
    else:
        diagnosis = "The loss can still fall: more steps, or larger ones?"
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
        "e^score overflows or rounds to 0 on the way. What is the logarithm of e^a · e^b?",
        lambda a, b: (a.exp() * b.exp()).log(),
    ),
    Twin(
        "The scores are multiplied. It is closeness, e^score, that is multiplied.",
        lambda a, b: a * b,
    ),
    Twin("The smaller of both scores is taken; the larger one counts too.", torch.minimum),
    Twin("This is OR: the sum of both closenesses. For AND they are multiplied.", _either),
    Twin("This is the mean of both scores: half of what AND gives.", lambda a, b: (a + b) / 2),
    Twin("This is closeness; its logarithm is the score.", lambda a, b: a.exp() * b.exp()),
    Twin(
        "These are weights: a softmax is taken already. A score comes before it, so that further "
        "conditions can join.",
        lambda a, b: _both(a, b).softmax(dim=-1),
    ),
)

_EITHER_TWINS = (
    Twin(
        "e^score overflows, or rounds to 0, whose logarithm is -infinity. Take the larger score "
        "out first: ln(e^a + e^b) = a + ln(1 + e^(b - a)).",
        lambda a, b: (a.exp() + b.exp()).log(),
    ),
    *known(
        "e^(b - a) overflows where b is far above a. Take the larger of both out, whichever it is.",
        lambda a, b: a + (b - a).exp().log1p(),
        lambda a, b: b + (a - b).exp().log1p(),
    ),
    Twin(
        "The larger of both scores is taken. Nearly so, but a pair that meets both conditions is "
        "closer than one that meets one: the closenesses are added.",
        torch.maximum,
    ),
    Twin("This is AND: the closenesses are multiplied. For OR they are added.", _both),
    Twin(
        "This is the mean of both scores. For OR the closenesses are added.",
        lambda a, b: (a + b) / 2,
    ),
    Twin(
        "This is closeness; its logarithm is the score.",
        lambda a, b: a.exp() + b.exp(),
    ),
    Twin(
        "The mean of both closenesses is taken, the sum is asked for. In the weights the half "
        "cancels, but in a further OR it does not.",
        lambda a, b: _either(a, b) - math.log(2),
    ),
    Twin(
        "Each condition is made into weights before they are added, so one that hardly any pair "
        "meets counts as much as one that all meet.",
        lambda a, b: (a.softmax(dim=-1) + b.softmax(dim=-1)).log(),
    ),
    Twin(
        "These are weights: a softmax is taken already. A score comes before it, so that further "
        "conditions can join.",
        lambda a, b: _either(a, b).softmax(dim=-1),
    ),
)


def _share_out(scores: Tensor, excluded: Tensor) -> Tensor:
    return masked_softmax(scores, ~excluded)


_WEIGHT_TWINS = (
    Twin(
        "The excluded pairs answer, and the others do not. True means excluded here; a mask is "
        "the other way round.",
        lambda scores, excluded, values: masked_softmax(scores, excluded),
    ),
    Twin(
        "The weight of the excluded pairs is taken away after the softmax, and their share is "
        "lost: what is left does not sum to 1.",
        lambda scores, excluded, values: scores.softmax(dim=-1).masked_fill(excluded, 0.0),
    ),
    Twin(
        "The score of an excluded pair is set to 0, and e^0 = 1 is a weight like any other. A "
        "closeness of 0 is a score of -infinity.",
        lambda scores, excluded, values: scores.masked_fill(excluded, 0.0).softmax(dim=-1),
    ),
    Twin(
        "Nothing is excluded.",
        lambda scores, excluded, values: scores.softmax(dim=-1),
    ),
    Twin(
        "Where every pair is excluded there is NaN: a row of -infinity has no softmax. Zeros are "
        "expected.",
        lambda s, excluded, values: s.masked_fill(excluded, -math.inf).softmax(dim=-1),
    ),
    Twin(
        "Where every pair is excluded, all of them answer in equal shares. Zeros are expected.",
        lambda s, excluded, values: s.masked_fill(excluded, -1e30).softmax(dim=-1),
    ),
    *known(
        "Scores may be as large as ±300. There e^score alone is infinite or 0; and the score that "
        "stands for closeness 0 must be far below all of them.",
        lambda scores, excluded, values: torch.zeros_like(scores),
        lambda scores, excluded, values: torch.full_like(scores, math.nan),
    ),
    Twin(
        "The weights of each pair sum to 1 over the queries. They must over the pairs: dim=-1.",
        lambda s, excluded, values: masked_softmax(s.T, ~excluded.T).T,
    ),
)


@_parts.part("AND, OR, NOT", "both", "either", "answer")
def answers(both: object, either: object, answer: object, thorough: bool = False) -> None:
    """Check scores put together of two conditions, and the answer without some pairs."""
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
        expected = _share_out(scores, excluded)
        given = expect_pair(call_twice(candidate, asked), ("contexts", "weights"), asked)
        contexts, weights = map(in_32_bits, given)
        expect_equal(weights, expected, "the weights", asked, _said("answer", _WEIGHT_TWINS))
        right = "The weights are right, the contexts are not: weights @ values."
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
        " Every pair is excluded for one query here: a row of -infinity has no softmax, and hiding "
        "its NaN does not hide its gradient.",
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
    """Change scores and values, and take the softmax anew."""
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
    """Return, by key, what a mistake answers."""
    n, own, context = len(w), w[i], _context(w, values)
    no_sum = "these do not sum to 1. What is taken or added has to be shared out among all."
    others = [*w[:i], *w[i + 1 :]]
    factor = math.exp(c)
    same = "the softmax sees only the differences between scores, and they are as before."
    only_own = "only value i grows, so the context moves by weight i of it."
    return {
        "twice": [
            (f"{no_sum} The copy brings as much closeness as the pair had.", [*w, own]),
            (
                "pair and copy share what the pair had, and nobody else loses. But the copy "
                "brings closeness of its own: together they get more than the pair alone.",
                [*_halved(w, i), own / 2],
            ),
            ("there is one weight for each pair, and now there are n + 1.", list(w)),
            (
                "pair and copy are one here; there are n + 1 pairs, each with its own weight.",
                [x / (1 + own) for x in _moved(w, i, own)],
            ),
            ("the copy comes at the end, and is left out here.", [x / (1 + own) for x in w]),
            ("the copy belongs at the end.", _over_sum([*w[:i], own, *w[i:]])),
            ("this is the softmax of the weights. They are no scores.", _softmax([*w, own])),
        ],
        "without": [
            (f"{no_sum} Pair i's share is lost here.", others),
            (
                "pair i's share is dealt out in equal parts. Scores that stay keep their "
                "proportions: each weight grows by the same factor.",
                [x + own / (n - 1) for x in others],
            ),
            (
                "pair i is gone, and its place with it: n - 1 weights.",
                [x / (1 - own) if j != i else 0.0 for j, x in enumerate(w)],
            ),
            (
                "this is the softmax of the weights. They are no scores; share out what is left.",
                _softmax(others),
            ),
        ],
        "raised": [
            (f"{no_sum} A score is raised, not a weight.", _moved(w, i, c)),
            (
                f"{no_sum} Weight i is times e^c, and what all get has changed.",
                _moved(w, i, own * factor - own),
            ),
            (
                "closeness is e^score: a score that is raised by c makes it e^c times as large, "
                "not c times, and not larger by c.",
                _over_sum(_moved(w, i, own * c - own)),
            ),
            (
                "closeness is e^score: a score that is raised by c makes it e^c times as large, "
                "not c times, and not larger by c.",
                _over_sum(_moved(w, i, c)),
            ),
            (
                "this is the softmax of weights, of which one is raised. A softmax wants scores; "
                "up to a constant they are the logarithms of the weights.",
                _softmax(_moved(w, i, c)),
            ),
            ("the weights change when one score does.", list(w)),
        ],
        "all_raised": [
            (f"{same} Nothing changes.", [x + c for x in w]),
            (f"{same} Nothing changes.", [x * factor for x in w]),
            (f"{same} Nothing changes.", [x * c for x in w]),
            (f"{same} Nothing changes.", _softmax([x + c for x in w])),
        ],
        "doubled": [
            (f"{no_sum} Twice a score is not twice a weight.", [2 * x for x in w]),
            (
                "that would be so if all scores were raised alike. Doubled, their differences "
                "double.",
                list(w),
            ),
            (
                f"{no_sum} Twice the score squares the closeness, and then it is shared out.",
                [x * x for x in w],
            ),
            (
                "this is the softmax of doubled weights. A softmax wants scores; up to a constant "
                "they are the logarithms of the weights.",
                _softmax([2 * x for x in w]),
            ),
        ],
        "value_raised": [
            (only_own, context + c),
            (only_own, context + c / n),
            ("the values are weighed, and value i with them.", context),
            ("value i has grown by c, it is not times c.", context + own * values[i] * (c - 1)),
        ],
        "values_raised": [
            (
                "each value moves by c, but the weights share that c out: they sum to 1.",
                context + n * c,
            ),
            ("a softmax takes no notice of what is added to scores; these are values.", context),
            ("all values grow by c, not value i alone.", context + own * c),
        ],
        "values_scaled": [
            ("a factor on the values comes through to the context.", context),
            ("the values are times c, they do not grow by c.", context + c),
            ("all values are times c, not value i alone.", context + own * values[i] * (c - 1)),
        ],
    }


def _halved(w: Sequence[float], i: int) -> list[float]:
    return [x / 2 if j == i else x for j, x in enumerate(w)]


def _over_sum(numbers: Sequence[float]) -> list[float]:
    total = sum(numbers)
    return [number / total for number in numbers]


@_parts.part("predictions", "predict")
def predictions(predict: object, thorough: bool = False) -> None:
    """Compare what is foretold from weights alone with softmaxes that are taken anew."""
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
    """Let a tensor or an array of weights pass for a list of them."""
    return value.tolist() if isinstance(value, Tensor | np.ndarray) else value


# Part 6


@_parts.part("bug hunt", "mended_pooling")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Examine a pooling for a batch whose pairs have widths of their own."""
    # Batch, queries, keys, size of keys and of values.
    sizes = [(1, 2, 3, 1, 1), (2, 3, 5, 2, 2)]
    if thorough:
        sizes += [(3, 2, 7, 5, 1), (1, 1, 2, 1, 3), (5, 7, 1, 3, 2)]
    for size in sizes:
        in_turn(_SYMPTOMS, candidate, size)


_Size = tuple[int, int, int, int, int]

_TURNED = (
    "Nothing is masked here: is the mask the wrong way round? True means that a pair may be "
    "looked at."
)


def _asked(size: _Size, lengths: Sequence[int] | None = None, least: float = 0.5) -> Inputs:
    """Return a batch, widths from `least` to 1; `lengths` says how many pairs of each are real."""
    batch, q, n, d, m = size
    place = torch.arange(n).expand(batch, n)
    mask = place < torch.tensor(lengths).unsqueeze(1) if lengths else torch.ones_like(place).bool()
    return {
        "query": torch.randn(batch, q, d),
        "keys": torch.randn(batch, n, d),
        "values": torch.randn(batch, n, m),
        "mask": mask,
        "widths": least + (1 - least) * torch.rand(batch, n),
    }


def _expected(asked: Inputs) -> tuple[Tensor, Tensor]:
    """Share closeness out as the definition says it, in 64 bits."""
    scores = _gaussians(asked["query"], asked["keys"], asked["widths"])
    closeness = scores.double().exp() * asked["mask"].unsqueeze(1)
    weights = _zeros_where_none(closeness).float()
    return weights @ asked["values"], weights


def _contexts_and_weights(candidate: object, asked: Inputs) -> tuple[Tensor, Tensor]:
    given = expect_pair(call_twice(candidate, asked), ("contexts", "weights"), asked)
    contexts, weights = map(in_32_bits, given)
    if type(weights) is Tensor and weights.isnan().any():
        zeros = "Where nothing may be looked at, zeros are expected."
        raise CheckFailed(
            f"  There is NaN in the weights. {_TURNED if asked['mask'].all() else zeros}"
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
    over = " They do over the queries: look at the axis." if _ones(weights.sum(dim=1)) else ""
    over = over if weights.count_nonzero() else f" All are 0. {_TURNED}"
    raise CheckFailed(
        f"  The weights of a query do not sum to 1 over the keys, though nothing is masked.{over}"
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
        f"All keys get the same weight. {_TURNED}",
        _wrong_weights(lambda distance, width: 0 * distance),
    ),
    Twin(
        "The widths are not squared: u² is the squared distance divided by width².",
        _wrong_weights(lambda distance, width: -(distance**2) / (2 * width)),
    ),
    Twin("The widths are not used.", _wrong_weights(lambda distance, width: -(distance**2) / 2)),
    Twin(
        "The half is missing: the score is -u²/2.",
        _wrong_weights(lambda distance, width: -(distance**2) / width**2),
    ),
    Twin(
        "The distance is not squared: the score is -u²/2.",
        _wrong_weights(lambda distance, width: -distance / (2 * width**2)),
    ),
    Twin(
        "The sign is turned: the farthest key gets the most weight.",
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
        "Masked pairs get no weight, but it is taken from them after the softmax: what is left "
        "does not sum to 1. Mask the scores, before it.",
        lambda q, k, v, mask, widths: _gaussians(q, k, widths).softmax(-1) * mask.unsqueeze(1),
    ),
    Twin(
        "The scores of masked pairs are set to 0, and e^0 = 1 is a weight like any other, the "
        "highest there is.",
        lambda q, k, v, mask, widths: (_gaussians(q, k, widths) * mask.unsqueeze(1)).softmax(-1),
    ),
    Twin(
        "Masked pairs get weight as if they were real.",
        lambda q, k, v, mask, widths: _gaussians(q, k, widths).softmax(-1),
    ),
)
_FAR_TWINS = (
    Twin(
        "The weights are lost. Far from every real pair e^score alone rounds to 0; and a masked "
        "pair, however near, must have a score far below theirs before the softmax.",
        lambda q, k, v, mask, widths: torch.zeros(len(q), q.size(1), k.size(1)),
    ),
)


def _gaussians(query: Tensor, keys: Tensor, widths: Tensor) -> Tensor:
    distances = (query.unsqueeze(2) - keys.unsqueeze(1)).norm(dim=-1)
    return -(distances / widths.unsqueeze(1)).square() / 2


def _lengths(size: _Size, nothing: bool) -> list[int]:
    """Return how many pairs are real: all, one fewer, …; of the last of the batch none."""
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
            "  Where every pair is masked, they get weight all the same. Zeros are expected: "
            f"there is nothing to look at.\n{describe(asked)}"
        )
    expect_equal(weights, _expected(asked)[1], "the weights", asked)


_CONTEXT_TWINS = (
    Twin(
        "The keys are weighed instead of the values: a key says where to look, its value is what "
        "is handed over.",
        lambda q, k, v, mask, widths: (
            masked_softmax(_gaussians(q, k, widths), mask.unsqueeze(1)) @ k
        ),
    ),
    Twin(
        "This is a mean over the pairs; the weights already sum to 1.",
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
        " A query sits exactly on a key here. A distance of 0 is a root of 0, whose slope is "
        "infinite. The score needs the distance squared: no root is needed at all.": (
            lengths,
            True,
        ),
        " Nothing may be looked at here in one of the batch: a row of -infinity has no softmax, "
        "and hiding its NaN does not hide its gradient.": ([*lengths[:-1], 0], False),
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
    "each query's weights sum to 1": _examine_axis,
    "the widths": _examine_widths,
    "the mask": _examine_mask,
    "nothing to look at": _examine_nothing,
    "the values": _examine_values,
    "gradients": _examine_gradients,
}
