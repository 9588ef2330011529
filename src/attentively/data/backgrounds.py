"""Scenes with a planted background: a three or an eight, in snow or in grass.

.. code-block:: python

    from attentively.data import backgrounds

    scene = backgrounds.load("train", 1, agreement=0.95)[0]
    scene.squares.shape  # (6, 12, 12)
    other = backgrounds.move(scene, "grass")  # the same digit, elsewhere

A scene is cut into two rows of three squares. One of them, at random, holds one of the images of
:mod:`attentively.data.digits` on blank paper; the others are covered with snow (specks) or grass
(upright blades). What is asked is the digit. In a share `agreement` of the scenes an eight stands
in snow and a three in grass; in the others it is the other way round. So a model may learn the
digit, or the weather.
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
"""The background that agrees with each label, in their order."""


@dataclass(frozen=True, eq=False)
class BackgroundScene:
    """A digit somewhere in a landscape."""

    squares: Float[Tensor, "places size size"]
    """Row by row, from 0, the paper, to 1, the ink."""
    label: int
    """Which of `LABELS` the digit is."""
    place: int
    """The square in which it stands."""
    background: str
    """What covers the other squares."""

    @property
    def image(self) -> Float[Tensor, "height width"]:
        """The squares put together, to be looked at."""
        grid = self.squares.view(ROWS, COLUMNS, CELL_SIZE, CELL_SIZE)
        return grid.transpose(1, 2).reshape(ROWS * CELL_SIZE, COLUMNS * CELL_SIZE)


def load(split: str, num_scenes: int, *, agreement: float, seed: int = 0) -> list[BackgroundScene]:
    """Return that many scenes of a split; no two splits share an image of a digit.

    With `agreement` 0.5 the background says nothing of the digit, with 0 it says the contrary
    of what it says with 1. The same arguments give the same scenes everywhere; with another
    agreement the same digits stand in the same squares. Raises `ValueError` for an argument out
    of range.
    """
    check_split(split)
    if num_scenes < 0:
        raise ValueError(f"num_scenes={num_scenes} is negative")
    if not 0 <= agreement <= 1:
        raise ValueError(f"agreement={agreement} must be from 0 to 1")
    random = Random(f"{split} {seed}")
    return [_scene(random, images()[split], agreement) for _ in range(num_scenes)]


def move(scene: BackgroundScene, background: str, seed: int = 0) -> BackgroundScene:
    """Return the scene with its digit as it was, and everything else covered anew.

    Raises `ValueError` for a background that is not known.
    """
    if background not in BACKGROUNDS:
        raise ValueError(f"background={background!r} is none of {', '.join(BACKGROUNDS)}")
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
    """Return six squares of specks, or of blades three pixels apart and unevenly tall."""
    generator = torch.Generator().manual_seed(seed)
    ink = torch.rand(ROWS * COLUMNS, CELL_SIZE, CELL_SIZE, generator=generator)
    if background == "snow":
        chosen = torch.rand(ink.shape, generator=generator) < 0.2
    else:
        blade = torch.arange(CELL_SIZE) % 3
        offset = torch.randint(3, (len(ink), 1, 1), generator=generator)
        chosen = ((blade == offset) & (ink > 0.2)).expand_as(ink)
    return ink * chosen
