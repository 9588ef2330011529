"""Scenes with a spurious correlation: a three or an eight, in snow or in grass.

.. code-block:: python

    from attentively.data import backgrounds

    scene = backgrounds.load("train", 1, agreement=0.95)[0]
    scene.squares.shape  # (6, 12, 12)
    other = backgrounds.move(scene, "grass")  # the same digit, another background

A scene consists of two rows of three squares. One of them, at random, shows an image of
:mod:`attentively.data.digits` on a blank background; the others are covered with snow (specks) or
grass (vertical blades). The label is the digit. In a fraction `agreement` of the scenes, eights are
in snow and threes in grass; in the others it is the other way round. So a model can learn the digit
or the background.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor

from attentively.data.digits import CELL_SIZE, COLUMNS, DIGIT_SIZE, ROWS, images
from attentively.data.splits import check_split

LABELS = ("three", "eight")
DIGITS = (3, 8)
BACKGROUNDS = ("grass", "snow")
"""The background that agrees with each label, in the order of the labels."""


@dataclass(frozen=True, eq=False)
class BackgroundScene:
    """A digit in one square, with a background in the others."""

    squares: Float[Tensor, "places size size"]
    """Grey values, row by row, from 0 (paper) to 1 (ink)."""
    label: int
    """Index of the digit in `LABELS`."""
    place: int
    """Index of the square with the digit."""
    background: str
    """Background of the other squares."""

    @property
    def image(self) -> Float[Tensor, "height width"]:
        """The squares as one image, for display."""
        grid = self.squares.view(ROWS, COLUMNS, CELL_SIZE, CELL_SIZE)
        return grid.transpose(1, 2).reshape(ROWS * CELL_SIZE, COLUMNS * CELL_SIZE)


def load(split: str, num_scenes: int, *, agreement: float, seed: int = 0) -> list[BackgroundScene]:
    """Return `num_scenes` scenes of a split; no two splits share an image of a digit.

    With `agreement` 0.5, background and digit are independent; with 0, the correlation is reversed
    compared with 1. The result is reproducible; another agreement changes the backgrounds, but not
    the digits or their squares. Raises `ValueError` for an argument out of range.
    """
    check_split(split)
    if num_scenes < 0:
        raise ValueError(f"num_scenes={num_scenes} must not be negative")
    if not 0 <= agreement <= 1:
        raise ValueError(f"agreement={agreement} must be from 0 to 1")
    random = Random(f"{split} {seed}")
    return [_scene(random, images()[split], agreement) for _ in range(num_scenes)]


def move(scene: BackgroundScene, background: str, seed: int = 0) -> BackgroundScene:
    """Return the scene with the same digit and a new background.

    Raises `ValueError` for an unknown background.
    """
    if background not in BACKGROUNDS:
        raise ValueError(
            f"background={background!r} is unknown: choose one of {', '.join(BACKGROUNDS)}"
        )
    squares = _landscape(background, seed)
    squares[scene.place] = scene.squares[scene.place]
    return replace(scene, squares=squares, background=background)


def collate(
    scenes: Sequence[BackgroundScene],
) -> tuple[Float[Tensor, "batch places size size"], Tensor]:
    """Return the squares of all scenes, and their labels."""
    squares = torch.stack([scene.squares for scene in scenes])
    return squares, torch.tensor([scene.label for scene in scenes])


def _scene(
    random: Random, images_of: Sequence[Sequence[Tensor]], agreement: float
) -> BackgroundScene:
    label = random.randrange(len(LABELS))
    agrees = random.random() < agreement
    background = BACKGROUNDS[label if agrees else 1 - label]
    squares = _landscape(background, random.getrandbits(32))
    place = random.randrange(ROWS * COLUMNS)
    top, left = (random.randint(0, CELL_SIZE - DIGIT_SIZE) for _ in range(2))
    squares[place] = 0
    squares[place, top : top + DIGIT_SIZE, left : left + DIGIT_SIZE] = random.choice(
        images_of[DIGITS[label]]
    )
    return BackgroundScene(squares, label, place, background)


def _landscape(background: str, seed: int) -> Float[Tensor, "places size size"]:
    """Return six squares of random specks, or of vertical blades three pixels apart."""
    generator = torch.Generator().manual_seed(seed)
    ink = torch.rand(ROWS * COLUMNS, CELL_SIZE, CELL_SIZE, generator=generator)
    if background == "snow":
        chosen = torch.rand(ink.shape, generator=generator) < 0.2
    else:
        blade = torch.arange(CELL_SIZE) % 3
        offset = torch.randint(3, (len(ink), 1, 1), generator=generator)
        chosen = ((blade == offset) & (ink > 0.2)).expand_as(ink)
    return ink * chosen
