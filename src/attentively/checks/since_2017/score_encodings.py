"""Scores of one query and one key at many places: encodings that are sound, and broken ones.

A test that finds out what such scores depend on is tried on each. Some faults show among far
places alone, some at a single place, and some changes that look like faults are none.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

DISTANCE, PLACE, NOTHING = "distance", "place", "nothing"
"""What scores may depend on."""

_Put = Callable[[Tensor, Tensor], Tensor]
"""What becomes of a vector (d_head,) at each of the places (n,): (n, d_head)."""


class Scores(NamedTuple):
    """The scores of an encoding, called with query, key and places; it says what it is."""

    name: str
    of: Callable[[Tensor, Tensor, Tensor], Tensor]

    def __call__(self, q: Tensor, k: Tensor, places: Tensor) -> Tensor:
        with torch.no_grad():
            return self.of(q.float(), k.float(), places.long())

    def __repr__(self) -> str:
        return self.name


def _still(x: Tensor, places: Tensor) -> Tensor:
    return x.expand(len(places), -1)


def _angles(size: int, places: Tensor) -> Tensor:
    return places.float().unsqueeze(1) / 10000 ** (torch.arange(0, size, 2).float() / size)


def _turned(x: Tensor, places: Tensor, sign: float = 1.0) -> Tensor:
    """Return the vector turned at every place; a sign of -1 spoils the rotation."""
    angles = _angles(len(x), places)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([x[0::2] * cos - sign * x[1::2] * sin, x[0::2] * sin + x[1::2] * cos], dim=1)


def _at(change: Callable[[Tensor], Tensor]) -> _Put:
    """Turn the vector as if it stood at other places."""
    return lambda x, places: _turned(x, change(places))


def _codes(x: Tensor, places: Tensor) -> Tensor:
    angles = _angles(len(x), places)
    return x + torch.cat([angles.sin(), angles.cos()], dim=1)


def _half_turned(x: Tensor, places: Tensor) -> Tensor:
    half = len(x) // 4 * 2
    return torch.cat([_turned(x[:half], places), _still(x[half:], places)], dim=1)


def _shrunk(rate: float) -> _Put:
    return lambda x, places: _turned(x, places) * torch.exp(rate * places.float()).unsqueeze(1)


def _meeting(query: _Put, key: _Put) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return the scores of vectors that are changed by their places, each by itself."""
    return lambda q, k, places: query(q, places) @ key(k, places).T / math.sqrt(len(q))


def _both(put: _Put) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return _meeting(put, put)


def _biased(
    bias: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return scores to which a number is added, by the places of query and key."""
    return lambda q, k, places: (
        q @ k / math.sqrt(len(q)) + bias(places.unsqueeze(1), places.unsqueeze(0)).float()
    )


def _shaw(q: Tensor, k: Tensor, places: Tensor) -> Tensor:
    steps = (places.unsqueeze(0) - places.unsqueeze(1)).clamp(-16, 16) + 16
    table = torch.cos(torch.arange(33 * len(q)).float() ** 2).reshape(33, -1)
    return (q @ k + (table @ q)[steps]) / math.sqrt(len(q))


def _tempered(q: Tensor, k: Tensor, places: Tensor) -> Tensor:
    return _both(_turned)(q, k, places) * torch.log(places + 3.0).unsqueeze(1)


def encodings() -> list[tuple[Scores, str, str]]:
    """Return encodings, what the scores of each depend on, and why."""
    asked = {
        "no encoding": (_both(_still), NOTHING, "Every pair of places has the same score."),
        "rotary": (
            _both(_turned), DISTANCE,
            "What differs along a diagonal differs by less than 0.001, which is rounding.",
        ),
        "sinusoids, added to query and key": (
            _both(_codes), PLACE, "The same distance at other places has another score.",
        ),
        "rotary that turns keys the other way": (
            _meeting(_turned, _at(lambda p: -p)), PLACE,
            "Its scores depend on m + n, and stay the same along the other diagonals.",
        ),
        "rotary that turns half of the components": (
            _both(_half_turned), DISTANCE, "What is not turned does not depend on places at all.",
        ),
        "rotary with a sign too many": (
            _both(lambda x, p: _turned(x, p, -1.0)), PLACE,
            "This is no rotation: the length of a vector changes with its place.",
        ),
        "rotary whose places end at 255, where all later ones stand": (
            _both(_at(lambda p: p.clamp(max=255))), PLACE,
            "Up to place 255 all is well. Beyond it, words at different places get one code.",
        ),
        "rotary with places in bfloat16": (
            _both(_at(lambda p: p.bfloat16().float())), PLACE,
            "bfloat16 has 8 bits for a number's digits: from 257 on every other place is rounded "
            "to its neighbour. Up to 256 all is well.",
        ),
        "ALiBi": (
            _biased(lambda m, n: -0.25 * (m - n).abs()), DISTANCE,
            "It does not tell before from after; the distance alone counts all the same.",
        ),
        "one vector, the same at every place, added to query and key": (
            _both(lambda x, p: _still(x + 1.0, p)), NOTHING,
            "Every pair of places has the same score; which score is not asked.",
        ),
        "relative vectors for up to 16 steps, all further ones sharing the last": (
            _shaw, DISTANCE, "Far distances share a score; near ones do not.",
        ),
        "rotary in which queries grow with their place as keys shrink": (
            _meeting(_shrunk(0.002), _shrunk(-0.002)), DISTANCE,
            "The two factors make one, which depends on m − n.",
        ),
        "rotary in which queries and keys shrink with their place": (
            _both(_shrunk(-0.002)), PLACE,
            "The two factors make one, which depends on m + n: later scores are smaller.",
        ),
        "rotary with a bonus for the very first key": (
            lambda q, k, p: _both(_turned)(q, k, p) + 2.0 * (p == 0), PLACE,
            "Only the key at place 0 is different; no test without place 0 sees it.",
        ),
        "a penalty for keys more than 200 places away, and nothing else": (
            _biased(lambda m, n: -1.0 * ((m - n).abs() > 200)), DISTANCE,
            "Only far places show that it depends on anything.",
        ),
        "rotary, in which keys more than 100 places back are scored by their own place": (
            lambda q, k, p: torch.where(
                p.unsqueeze(1) - p > 100, 0.01 * p.float(), _both(_turned)(q, k, p)
            ), PLACE,
            "Near the query all is well; look at keys that are far from it.",
        ),
        "rotary by shares: the last place of the list is 1": (
            _both(_at(lambda p: 40 * p.float() / p.max().clamp(min=1))), PLACE,
            "In one list of places all diagonals are equal. Ask for fewer places, and the same two "
            "have another score: one list is not enough.",
        ),
        "rotary with places that begin anew after every 64": (
            _both(_at(lambda p: p % 64)), PLACE,
            "Places 63 and 64 are neighbours, and get codes that are 63 steps apart.",
        ),
        "rotary whose keys are one place late": (
            _meeting(_turned, _at(lambda p: p + 1)), DISTANCE,
            "Every distance is one more than it should be, everywhere alike.",
        ),
        "rotary with places divided by 4": (
            _both(_at(lambda p: p / 4)), DISTANCE, "All distances are a quarter, everywhere alike.",
        ),
        "rotary with scores that grow with the place of the query": (
            _tempered, PLACE, "A later query has larger scores at the same distance.",
        ),
        "a price for each step back, and none for keys after the query": (
            _biased(lambda m, n: -0.25 * (m - n).clamp(min=0)), DISTANCE,
            "Keys before the query show it, and keys after it do not.",
        ),
        "a price for each step ahead, and none for keys before the query": (
            _biased(lambda m, n: -0.25 * (n - m).clamp(min=0)), DISTANCE,
            "Keys after the query show it, and keys before it do not.",
        ),
        "rotary, in which keys after the query are scored by their own place": (
            lambda q, k, p: torch.where(
                p.unsqueeze(1) < p, 0.01 * p.float(), _both(_turned)(q, k, p)
            ), PLACE,
            "Up to the query all is well; look at keys that come after it, too.",
        ),
        "rotary with a bonus where both stand between 100 and 200": (
            lambda q, k, p: _both(_turned)(q, k, p)
            + 2.0 * ((p - 150).abs() < 50).unsqueeze(1) * ((p - 150).abs() < 50), PLACE,
            "At both ends of each diagonal all is well; look at what is between, too.",
        ),
        "sinusoids, added to the key alone": (
            _meeting(_still, _codes), PLACE,
            "A row is like the next one: the place of the key counts.",
        ),
        "rotary by the rank in the list": (
            _both(lambda x, p: _turned(x, torch.arange(len(p)))), PLACE,
            "In a list without gaps from 0 on all is well. Leave places out, and the same two have "
            "another score.",
        ),
    }  # fmt: skip
    return [(Scores(name, of), right, why) for name, (of, right, why) in asked.items()]
