"""Queries and keys turned by their places, and the mistakes made in turning them."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attentively.checks import Twin, known

_Pair = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def _right_pair(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, a * sin + b * cos


def turned(
    x: Tensor, first: int = 0, *, halves: bool = False, out: bool | None = None,
    base: float = 10000.0, exponents: Callable[[int], Tensor] = lambda d: torch.arange(0, d, 2) / d,
    places: Callable[[int, int], Tensor] = lambda n, first: torch.arange(first, first + n),
    pair: _Pair = _right_pair,
) -> Tensor:  # fmt: skip
    """Return queries or keys turned by their places; the keywords make mistakes.

    A pair is two neighbours, or with `halves` a component and that half the way further on.
    """
    size = x.shape[-1]
    angles = places(x.shape[2], first).unsqueeze(1) / base ** exponents(size)
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
    turned = pair(a, b, cos, sin)
    if halves if out is None else out:
        return torch.cat(turned, dim=-1)
    return torch.stack(turned, dim=-1).flatten(-2)


def _crossed(x: Tensor, first: int = 0, *, halves: bool) -> Tensor:
    """Pair components in one way, and give them the angles of the other."""
    size = x.shape[-1]
    angles = torch.arange(first, first + x.shape[2]).unsqueeze(1) / 10000 ** (
        torch.arange(0, size, 2) / size
    )
    angles = angles.repeat_interleave(2, dim=-1) if halves else torch.cat([angles, angles], dim=-1)
    a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
    other = torch.cat([-b, a], dim=-1) if halves else torch.stack([-b, a], dim=-1).flatten(-2)
    return x * angles.cos() + other * angles.sin()


_TURN_WAYS: dict[str, list[dict[str, Any]]] = {
    "`first` is left out: the first word stands at place `first`, not at 0.":
        [{"places": lambda n, first: torch.arange(n)}],
    "Places count from 0: the word at place 0 is not turned at all.":
        [{"places": lambda n, first: torch.arange(first + 1, first + n + 1)}],
    "All words are turned like the first one, or none is; at place 0 that is the same.":
        [{"places": lambda n, first: torch.full((n,), first)},
         {"places": lambda n, first: torch.zeros(n)}],
    "They are turned the other way: the minus stands at the other sine.":
        [{"pair": lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin)}],
    "This is no rotation: one of the two sines has a minus, the one in the first component.":
        [{"pair": lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)},
         {"pair": lambda a, b, cos, sin: (a * cos - b * sin, b * cos - a * sin)}],
    "Sine and cosine have changed places.":
        [{"pair": lambda a, b, cos, sin: (a * sin - b * cos, a * cos + b * sin)},
         {"pair": lambda a, b, cos, sin: (a * sin + b * cos, b * sin - a * cos)}],
    "The second component is made of the first as it is after the turn; both need the old two.":
        [{"pair": lambda a, b, cos, sin: (a * cos - b * sin, (a * cos - b * sin) * sin + b * cos)}],
    "Only cosines are there. Each component also gets a share of its partner, by the sine.":
        [{"pair": lambda a, b, cos, sin: (a * cos, b * cos)}],
    "The exponent is i / d. It is 2i / d, where i counts the pairs.":
        [{"exponents": lambda d: torch.arange(d // 2) / d}],
    "The exponent is 4i / d. What counts in steps of two, 0, 2, 4, …, is 2i already.":
        [{"exponents": lambda d: 2 * torch.arange(0, d, 2) / d}],
    "All pairs turn equally fast. Pair i has the angle place / 10000^(2i/d).":
        [{"exponents": lambda d: torch.zeros(d // 2)}],
    "The place is multiplied by 10000^(2i/d); it is divided by it.":
        [{"exponents": lambda d: -torch.arange(0, d, 2) / d}],
    "The base is not 10000.":
        [{"base": 1000.0}, {"base": 100000.0}, {"base": 100.0}],
    "Angles are taken for degrees; torch.sin has radians.":
        [{"places": lambda n, first: torch.arange(first, first + n) * math.pi / 180}],
}  # fmt: skip


def _heads_for_words(x: Tensor, first: int = 0, *, halves: bool) -> Tensor:
    return turned(x.transpose(1, 2), first, halves=halves).transpose(1, 2)


def _coded(x: Tensor, first: int = 0) -> Tensor:
    """Return the vectors with the sinusoids of their places added."""
    ones = torch.ones(1, 1, x.shape[2], x.shape[3] // 2)
    angle_parts: _Pair = lambda a, b, cos, sin: (sin * ones, cos * ones)  # noqa: E731
    return x + turned(x, first, pair=angle_parts)


TURN_TWINS = [
    *(
        Twin(said, partial(turned, halves=halves, **way))
        for said, ways in _TURN_WAYS.items()
        for way in ways
        for halves in (False, True)
    ),
    *known(
        "The angles grow along the heads. They grow along the words, the axis before the last.",
        partial(_heads_for_words, halves=False),
        partial(_heads_for_words, halves=True),
    ),
    *known(
        "Two ways are mixed: components are paired in one, and their angles are those of the "
        "other. Both partners of a pair have the angle of this pair.",
        partial(_crossed, halves=False),
        partial(_crossed, halves=True),
    ),
    *known(
        "The right numbers, in another order: every component stays where it is.",
        partial(turned, halves=False, out=True),
        partial(turned, halves=True, out=False),
    ),
    *known("Codes are added. Here a vector is turned, and keeps its length.", _coded),
    *known(
        "The sign of a sine is turned in the whole: minus the right answer.",
        lambda x, first=0: -turned(x, first),
        lambda x, first=0: -turned(x, first, halves=True),
    ),
]
