"""Queries and keys rotated by their positions, and common mistakes."""

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
    """Return queries or keys rotated by their positions; the keywords make mistakes.

    A pair is two neighbours or, with `halves`, component i and component i + d/2.
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
    "`first` is ignored: the first token of x is at position `first`, not at position 0.":
        [{"places": lambda n, first: torch.arange(n)}],
    "Positions must be counted from 0: the vector at position 0 is not rotated.":
        [{"places": lambda n, first: torch.arange(first + 1, first + n + 1)}],
    "All positions are rotated by the angles of the first position, or not at all. Position p has "
    "the angles p · θ_i.":
        [{"places": lambda n, first: torch.full((n,), first)},
         {"places": lambda n, first: torch.zeros(n)}],
    "The rotation has the opposite direction: the minus sign belongs to the first component, "
    "a cos − b sin.":
        [{"pair": lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin)}],
    "This is not a rotation: exactly one sine has a minus sign, in the first component, a cos − b "
    "sin.":
        [{"pair": lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)},
         {"pair": lambda a, b, cos, sin: (a * cos - b * sin, b * cos - a * sin)}],
    "Sine and cosine are exchanged.":
        [{"pair": lambda a, b, cos, sin: (a * sin - b * cos, a * cos + b * sin)},
         {"pair": lambda a, b, cos, sin: (a * sin + b * cos, b * sin - a * cos)}],
    "The second component is computed from the rotated first component. Both need the original a "
    "and b.":
        [{"pair": lambda a, b, cos, sin: (a * cos - b * sin, (a * cos - b * sin) * sin + b * cos)}],
    "The sine terms are missing: each component also receives its partner times the sine.":
        [{"pair": lambda a, b, cos, sin: (a * cos, b * cos)}],
    "The exponent is i/d; it must be 2i/d, where i counts the pairs from 0.":
        [{"exponents": lambda d: torch.arange(d // 2) / d}],
    "The exponent is 4i/d; it must be 2i/d. The values 0, 2, 4, … are already 2i.":
        [{"exponents": lambda d: 2 * torch.arange(0, d, 2) / d}],
    "All pairs have the same angle. Pair i has the angle position / 10000^(2i/d).":
        [{"exponents": lambda d: torch.zeros(d // 2)}],
    "The position is multiplied by 10000^(2i/d); it must be divided by it.":
        [{"exponents": lambda d: -torch.arange(0, d, 2) / d}],
    "The base is not 10000.":
        [{"base": 1000.0}, {"base": 100000.0}, {"base": 100.0}],
    "The angles are converted from degrees, but they are radians already.":
        [{"places": lambda n, first: torch.arange(first, first + n) * math.pi / 180}],
}  # fmt: skip


def _heads_for_words(x: Tensor, first: int = 0, *, halves: bool) -> Tensor:
    return turned(x.transpose(1, 2), first, halves=halves).transpose(1, 2)


def _coded(x: Tensor, first: int = 0) -> Tensor:
    """Return the vectors with the sinusoids of their positions added."""
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
        "The angles depend on the head. They must depend on the position, dimension 2 of x.",
        partial(_heads_for_words, halves=False),
        partial(_heads_for_words, halves=True),
    ),
    *known(
        "Two conventions are mixed: the components are paired in one way, and the angles are "
        "arranged for the other. Both components of a pair need the same angle.",
        partial(_crossed, halves=False),
        partial(_crossed, halves=True),
    ),
    *known(
        "The values are correct, but their order is not: each rotated component keeps its index.",
        partial(turned, halves=False, out=True),
        partial(turned, halves=True, out=False),
    ),
    *known("Sinusoids are added. RoPE rotates a vector, so its length does not change.", _coded),
    *known(
        "The result has the opposite sign in every component.",
        lambda x, first=0: -turned(x, first),
        lambda x, first=0: -turned(x, first, halves=True),
    ),
]
