"""Scenes of handwritten digits in a grid, with captions that state their spatial relations.

.. code-block:: python

    from attentively.data import digits

    scene = digits.load("train", 1)[0]
    scene.image.shape  # (1, 24, 36)
    " ".join(scene.caption)  # a zero left of an eight

A scene is a grid of two rows and three columns. One to three of its cells contain one of the
8 × 8 images that come with scikit-learn, shifted at random; the others are empty. A caption
states the spatial relations of the digits and mentions every digit:

.. code-block:: text

    caption   claim | claim "and" claim
    claim     digit | digit relation digit
    digit     "a" "zero" | … | "an" "eight" | "a" "nine"
    relation  "above" | "below" | "left" "of" | "right" "of"

"Above" means in a higher row, whatever the columns, and "left of" in a column further left. So
several captions are true of a scene: digits may come in any order, and two relations hold for two
digits in different rows and columns. The reference captions name the smaller digit first and choose
a relation at random; :func:`is_faithful` accepts every true caption.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attentively.data.splits import SPLITS, check_split

ROWS, COLUMNS = 2, 3
DIGIT_SIZE = 8  # pixels, as in scikit-learn
CELL_SIZE = 12  # pixels: room to shift a digit
HEIGHT, WIDTH = ROWS * CELL_SIZE, COLUMNS * CELL_SIZE

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RELATIONS = {
    ("above",): (1, 0),
    ("below",): (-1, 0),
    ("left", "of"): (0, 1),
    ("right", "of"): (0, -1),
}
"""The direction (down, right) from the first digit to the second, by the words of the relation."""

Cells = tuple[int | None, ...]
"""The digit in each cell of the grid, row by row; None for an empty cell."""
Focus = tuple[frozenset[int], ...]
"""For each word, the cells that it refers to; none for "a", "an", "of" and "and"."""


@dataclass(frozen=True, eq=False)
class DigitScene:
    """An image and a true caption."""

    image: Float[Tensor, "1 height width"]
    """Grey values from 0 (paper) to 1 (ink)."""
    cells: Cells
    caption: tuple[str, ...]
    focus: Focus
    """The cells that each word refers to, as returned by :func:`ground`."""


class Claim(NamedTuple):
    """A claim that a digit is present, or that a relation holds between two digits."""

    digits: tuple[int, ...]
    relation: tuple[str, ...]


def load(split: str, num_scenes: int, *, seed: int = 0) -> list[DigitScene]:
    """Return `num_scenes` scenes of the "train", "validation" or "test" split.

    No two splits share an image of a digit. The result is reproducible, and a smaller `num_scenes`
    returns a prefix of a larger one. Raises `ValueError` for an argument out of range.
    """
    check_split(split)
    if num_scenes < 0:
        raise ValueError(f"num_scenes={num_scenes} must not be negative")
    random = Random(f"{split} {seed}")
    return [_scene(random, images()[split]) for _ in range(num_scenes)]


def words() -> list[str]:
    """Return every word of the captions, in alphabetical order."""
    relations = [word for relation in RELATIONS for word in relation]
    return sorted({*DIGITS, *relations, "a", "an", "and"})


def is_well_formed(caption: Sequence[str]) -> bool:
    """Return whether the grammar generates this caption, for any scene."""
    return _claims(tuple(caption)) is not None


def is_faithful(scene: DigitScene, caption: Sequence[str]) -> bool:
    """Return whether the caption is well-formed and true; it need not mention every digit."""
    return ground(scene.cells, caption) is not None


def ground(cells: Cells, caption: Sequence[str]) -> Focus | None:
    """Return the cells that each word refers to, or None if the caption is not true.

    If a claim is true of several pairs of cells, its words refer to all of them. A relation refers
    to both of its cells.
    """
    claims = _claims(tuple(caption))
    if claims is None:
        return None
    nowhere: frozenset[int] = frozenset()
    focus: list[frozenset[int]] = []
    for digits, relation in claims:
        groups = [group for group in _groups(relation) if _digits_at(cells, group) == digits]
        if not groups:
            return None
        if focus:
            focus.append(nowhere)  # and
        places = [frozenset(each) for each in zip(*groups, strict=True)]
        focus += [nowhere, places[0]]
        if relation:
            focus += [places[0] | places[1]] + [nowhere] * (len(relation) - 1)
            focus += [nowhere, places[1]]
    return tuple(focus)


def _scene(random: Random, images: Sequence[Sequence[Tensor]]) -> DigitScene:
    places = random.sample(range(ROWS * COLUMNS), random.randint(1, 3))
    found = {place: random.randrange(len(DIGITS)) for place in places}
    cells = tuple(found.get(place) for place in range(ROWS * COLUMNS))
    image = torch.zeros(1, HEIGHT, WIDTH)
    for place, digit in found.items():
        row, column = divmod(place, COLUMNS)
        top = row * CELL_SIZE + random.randint(0, CELL_SIZE - DIGIT_SIZE)
        left = column * CELL_SIZE + random.randint(0, CELL_SIZE - DIGIT_SIZE)
        drawn = random.choice(images[digit])
        image[0, top : top + DIGIT_SIZE, left : left + DIGIT_SIZE] = drawn
    caption = _caption(random, cells)
    focus = ground(cells, caption)
    assert focus is not None  # the caption is true by construction
    return DigitScene(image, cells, caption, focus)


def _caption(random: Random, cells: Cells) -> tuple[str, ...]:
    """Name a single digit; or relate the smallest to the next, and that to a third."""
    digit_at = {place: digit for place, digit in enumerate(cells) if digit is not None}
    places = sorted(digit_at, key=lambda place: (digit_at[place], place))
    if len(places) == 1:
        return _say(_digits_at(cells, places), ())
    said: tuple[str, ...] = ()
    for pair in pairwise(places):
        true = [relation for relation in RELATIONS if pair in _groups(relation)]
        said += ("and",) if said else ()
        said += _say(_digits_at(cells, pair), random.choice(true))
    return said


def _say(digits: Sequence[int | None], relation: tuple[str, ...]) -> tuple[str, ...]:
    names = [DIGITS[digit] for digit in digits if digit is not None]
    first, *second = [("an" if name == "eight" else "a", name) for name in names]
    return first + relation + second[0] if second else first


def _claims(caption: tuple[str, ...]) -> list[Claim] | None:
    """Parse the caption, or return None if it is not well-formed."""
    claims: list[Claim] = []
    while True:
        cut = caption.index("and") if "and" in caption else len(caption)
        claim = _every_claim().get(caption[:cut])
        if claim is None or len(claims) == 2:
            return None
        claims.append(claim)
        if cut == len(caption):
            return claims
        caption = caption[cut + 1 :]


@cache
def _every_claim() -> dict[tuple[str, ...], Claim]:
    """Return every possible claim by its words."""
    every = range(len(DIGITS))
    claims = [Claim((digit,), ()) for digit in every]
    claims += [
        Claim((first, second), relation)
        for first in every
        for relation in RELATIONS
        for second in every
    ]
    return {_say(*claim): claim for claim in claims}


@cache
def _groups(relation: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Return every pair of cells in this relation; without a relation, every single cell."""
    every = range(ROWS * COLUMNS)
    if not relation:
        return [(place,) for place in every]
    down, right = RELATIONS[relation]
    return [
        (one, other)
        for one in every
        for other in every
        if down * (other // COLUMNS - one // COLUMNS) + right * (other % COLUMNS - one % COLUMNS)
        > 0
    ]


def _digits_at(cells: Cells, group: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(cells[place] for place in group)


@cache
def images() -> dict[str, list[list[Tensor]]]:
    """Return the 8 × 8 images by split and digit: of every 20, 14 for train, 3 and 3."""
    from sklearn.datasets import load_digits  # takes a second, so import it only when needed

    found = load_digits()
    images: dict[str, list[list[Tensor]]] = {split: [[] for _ in range(10)] for split in SPLITS}
    seen = [0] * 10
    for image, digit in zip(found.images, found.target.tolist(), strict=True):
        place = seen[digit] % 20
        split = SPLITS[0] if place < 14 else SPLITS[1] if place < 17 else SPLITS[2]
        images[split][digit].append(torch.tensor(image / 16, dtype=torch.float32))
        seen[digit] += 1
    return images
