"""Scores of one query and one key at many positions: correct and faulty encodings.

Part 5 asks for a test of what such scores depend on, and its check runs the test on each of these
encodings. Some faults show only at large distances, some at a single position.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

DISTANCE, POSITION, NOTHING = "distance", "position", "nothing"
"""What scores may depend on."""

_Put = Callable[[Tensor, Tensor], Tensor]
"""Map a vector (d_head,) and positions (n,) to the encoded vectors (n, d_head)."""


class Scores(NamedTuple):
    """The scores of an encoding, called with query, key and positions; `name` describes it."""

    name: str
    of: Callable[[Tensor, Tensor, Tensor], Tensor]

    def __call__(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        with torch.no_grad():
            return self.of(q.float(), k.float(), positions.long())

    def __repr__(self) -> str:
        return self.name


def _still(x: Tensor, positions: Tensor) -> Tensor:
    return x.expand(len(positions), -1)


def _angles(size: int, positions: Tensor) -> Tensor:
    return positions.float().unsqueeze(1) / 10000 ** (torch.arange(0, size, 2).float() / size)


def _turned(x: Tensor, positions: Tensor, sign: float = 1.0) -> Tensor:
    """Return the vector rotated at every position; with a sign of -1 it is no rotation."""
    angles = _angles(len(x), positions)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([x[0::2] * cos - sign * x[1::2] * sin, x[0::2] * sin + x[1::2] * cos], dim=1)


def _at(change: Callable[[Tensor], Tensor]) -> _Put:
    """Rotate the vector by the angles of other positions."""
    return lambda x, positions: _turned(x, change(positions))


def _codes(x: Tensor, positions: Tensor) -> Tensor:
    angles = _angles(len(x), positions)
    return x + torch.cat([angles.sin(), angles.cos()], dim=1)


def _shrunk(rate: float) -> _Put:
    return lambda x, positions: (
        _turned(x, positions) * torch.exp(rate * positions.float()).unsqueeze(1)
    )


def _meeting(query: _Put, key: _Put) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return the scores of vectors that are encoded separately by their positions."""
    return lambda q, k, positions: query(q, positions) @ key(k, positions).T / math.sqrt(len(q))


def _both(put: _Put) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return _meeting(put, put)


def _biased(
    bias: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return scores with a bias that depends on the positions of query and key."""
    return lambda q, k, positions: (
        q @ k / math.sqrt(len(q)) + bias(positions.unsqueeze(1), positions.unsqueeze(0)).float()
    )


def _shaw(q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    steps = (positions.unsqueeze(0) - positions.unsqueeze(1)).clamp(-16, 16) + 16
    table = torch.cos(torch.arange(33 * len(q)).float() ** 2).reshape(33, -1)
    return (q @ k + (table @ q)[steps]) / math.sqrt(len(q))


def _tempered(q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    return _both(_turned)(q, k, positions) * torch.log(positions + 3.0).unsqueeze(1)


def encodings() -> list[tuple[Scores, str, str]]:
    """Return encodings, what the scores of each depend on, and why."""
    asked = {
        "no encoding": (_both(_still), NOTHING, "Every pair of positions has the same score."),
        "rotary": (
            _both(_turned), DISTANCE,
            "Differences along a diagonal are below 0.001, which is rounding. The scores of m − n "
            "and n − m may differ.",
        ),
        "sinusoids, added to query and key": (
            _both(_codes), POSITION, "The same distance at other positions has a different score.",
        ),
        "rotary with keys rotated in the opposite direction": (
            _meeting(_turned, _at(lambda p: -p)), POSITION,
            "The scores depend on m + n, so they are equal along the other diagonals.",
        ),
        "rotary with a wrong sign": (
            _both(lambda x, p: _turned(x, p, -1.0)), POSITION,
            "This is not a rotation: the length of a vector depends on its position.",
        ),
        "rotary with positions limited to 255": (
            _both(_at(lambda p: p.clamp(max=255))), POSITION,
            "The scores are correct up to position 255. All later positions are treated as 255.",
        ),
        "rotary with positions in bfloat16": (
            _both(_at(lambda p: p.bfloat16().float())), POSITION,
            "bfloat16 has 8 bits of precision: from 257 on, every other position is rounded to "
            "its neighbour. Up to 256 the scores are correct.",
        ),
        "ALiBi": (
            _biased(lambda m, n: -0.25 * (m - n).abs()), DISTANCE,
            "It is symmetric, but it still depends on the distance only.",
        ),
        "the same vector added to query and key at every position": (
            _both(lambda x, p: _still(x + 1.0, p)), NOTHING,
            "Every pair of positions has the same score; its value does not matter.",
        ),
        "relative vectors for distances up to 16, shared by all larger ones": (
            _shaw, DISTANCE, "Large distances share a score; small ones do not.",
        ),
        "rotary, with queries that grow with the position and keys that shrink": (
            _meeting(_shrunk(0.002), _shrunk(-0.002)), DISTANCE,
            "The product of the two factors depends on m − n.",
        ),
        "rotary, with queries and keys that shrink with the position": (
            _both(_shrunk(-0.002)), POSITION,
            "The product of the two factors depends on m + n: later scores are smaller.",
        ),
        "rotary with a small bonus for the first key": (
            lambda q, k, p: _both(_turned)(q, k, p) + 0.05 * (p == 0), POSITION,
            "Only the key at position 0 differs, by 0.05, which is more than rounding.",
        ),
        "only a penalty for keys at distances above 200": (
            _biased(lambda m, n: -1.0 * ((m - n).abs() > 200)), DISTANCE,
            "Only large distances show that the score depends on anything.",
        ),
        "rotary, with absolute positions for keys more than 100 positions back": (
            lambda q, k, p: torch.where(
                p.unsqueeze(1) - p > 100, 0.01 * p.float(), _both(_turned)(q, k, p)
            ), POSITION,
            "Near the query the scores are correct; also compare keys that are far away.",
        ),
        "rotary with positions divided by the largest one in the list": (
            _both(_at(lambda p: 40 * p.float() / p.max().clamp(min=1))), POSITION,
            "In one list of positions all diagonals are constant. In a shorter list, the same two "
            "positions have a different score: one list is not enough.",
        ),
        "rotary with positions modulo 64": (
            _both(_at(lambda p: p % 64)), POSITION,
            "Positions 63 and 64 are neighbours but are encoded at a distance of 63.",
        ),
        "rotary with keys shifted by one position": (
            _meeting(_turned, _at(lambda p: p + 1)), DISTANCE,
            "Every distance is shifted by one, at all positions alike.",
        ),
        "rotary with scores that grow with the position of the query": (
            _tempered, POSITION, "At the same distance, a later query has larger scores.",
        ),
        "a penalty for the distance to earlier keys only": (
            _biased(lambda m, n: -0.25 * (m - n).clamp(min=0)), DISTANCE,
            "Only the scores of keys before the query depend on the distance.",
        ),
        "a penalty for the distance to later keys only": (
            _biased(lambda m, n: -0.25 * (n - m).clamp(min=0)), DISTANCE,
            "Only the scores of keys after the query depend on the distance.",
        ),
        "rotary, with absolute positions for keys after the query": (
            lambda q, k, p: torch.where(
                p.unsqueeze(1) < p, 0.01 * p.float(), _both(_turned)(q, k, p)
            ), POSITION,
            "Up to the query the scores are correct; also compare keys that come after it.",
        ),
        "rotary with a bonus where both positions are between 100 and 200": (
            lambda q, k, p: _both(_turned)(q, k, p)
            + 2.0 * ((p - 150).abs() < 50).unsqueeze(1) * ((p - 150).abs() < 50), POSITION,
            "At both ends of each diagonal the scores are correct; also compare its middle.",
        ),
        "sinusoids, added to the key alone": (
            _meeting(_still, _codes), POSITION,
            "All rows are equal: the score depends on the position of the key.",
        ),
        "rotary with the rank in the list as position": (
            _both(lambda x, p: _turned(x, torch.arange(len(p)))), POSITION,
            "In a list 0, 1, 2, … the scores are correct. If positions are left out, the same two "
            "positions have a different score.",
        ),
        "no encoding, with the logarithm of the number of positions added": (
            lambda q, k, p: _both(_still)(q, k, p) + math.log(len(p)), POSITION,
            "Within one list all scores are equal, but a list of another length changes them.",
        ),
    }  # fmt: skip
    return [(Scores(name, of), right, why) for name, (of, right, why) in asked.items()]
