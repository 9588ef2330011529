"""Batches for a masked language model, with planted faults."""

import functools
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

Round = tuple[Tensor, Tensor, Tensor]
"""The ids of the texts, the inputs of the model, and its targets."""

VOCAB_SIZE, MASK_ID = 61, 61

FAULTS = {
    "unchanged": "of the tokens with a target, more than 20 % are unchanged in the inputs.",
    "always masked": "every token with a target is masked in the inputs.",
    "special token": "a token with an id up to END_ID has a target.",
    "wrong target": "a target differs from the token of the text.",
    "corrupted input": "a token without a target differs from the text in the inputs.",
    "same positions": "all rounds have targets at the same positions.",
}
"""The faults, and the sign of each."""


def planted(
    faults: Collection[str],
    seed: int,
    rounds: int = 3,
    special: Collection[int] = (1, START_ID, END_ID),
    everything: bool = False,
    stays: float | None = None,
    ends: bool = False,
    first: Collection[str] | None = None,
    repeat: bool = False,
) -> list[Round]:
    """Return rounds of the same texts, with these faults.

    `special` are the ids that have targets if this is the fault. With `everything`, tokens that
    were not chosen have targets too. A share `stays` of the tokens with targets is unchanged. With
    `ends`, each END is masked if the inputs are corrupted. The first round has the faults `first`
    if they are given. With `repeat`, the first round is repeated after itself and at the end.
    """
    unknown = {*faults, *(first or ())} - {*FAULTS}
    if unknown:
        raise ValueError(f"faults={[*faults]!r} and first={first!r} must be among {[*FAULTS]}")
    begins = None if first is None else tuple(first)
    made = _planted(
        tuple(faults), seed, rounds, tuple(special), everything, stays, ends, begins, repeat
    )
    return [(ids.clone(), read.clone(), wanted.clone()) for ids, read, wanted in made]


@functools.lru_cache
def _planted(
    faults: tuple[str, ...],
    seed: int,
    rounds: int,
    special: tuple[int, ...],
    everything: bool,
    stays: float | None,
    ends: bool,
    first: tuple[str, ...] | None,
    repeat: bool,
) -> list[Round]:
    generator = torch.Generator().manual_seed(seed)
    ids = _texts(48, generator)
    asked = ids > END_ID
    if "special token" in faults:
        asked = asked | torch.isin(ids, torch.tensor(special))
    number = (0.2 * asked.sum(dim=1, keepdim=True)).round()
    if stays is None:
        stays = 0.32 if "unchanged" in faults else 0.1
    places: list[Tensor] = []
    made = []
    for _ in range(rounds):
        drawn = torch.rand(ids.shape, generator=generator).masked_fill(~asked, 2.0)
        chosen = drawn.argsort(dim=1).argsort(dim=1) < number  # as many in every round
        if places:  # the first text alone does not tell whether the places change
            chosen = (
                places[0] if "same positions" in faults else torch.cat([places[0][:1], chosen[1:]])
            )
        places.append(chosen)
        _, read, wanted = _round(ids, chosen, faults, stays, generator)
        if "corrupted input" in faults and ends:
            read = read.where((ids != END_ID) | chosen, MASK_ID)
        elif "corrupted input" in faults:
            hit = (torch.rand(ids.shape, generator=generator) < 0.05) & (ids > END_ID) & ~chosen
            read = read.where(~hit, (ids + 1).where(ids + 1 < VOCAB_SIZE, END_ID + 1))
        made.append((ids, read, ids.where(asked, PAD_ID) if everything else wanted))
    if first is not None:
        made[0] = planted(first, seed, rounds=1)[0]
    return [made[0], *made, made[0]] if repeat else made


def _texts(number: int, generator: torch.Generator) -> Tensor:
    width = 19
    ids = torch.randint(END_ID + 1, VOCAB_SIZE, (number, width), generator=generator)
    ids[:, 0], ids[::5, 2] = START_ID, 1
    lasts = torch.randint(8, width, (number,), generator=generator)
    for row, last in enumerate(lasts.tolist()):
        ids[row, last], ids[row, last + 1 :] = END_ID, PAD_ID
    return ids


def _round(
    ids: Tensor, chosen: Tensor, faults: Collection[str], stays: float, generator: torch.Generator
) -> Round:
    fate = torch.rand(ids.shape, generator=generator)
    others = torch.randint(END_ID + 1, VOCAB_SIZE, ids.shape, generator=generator)
    if "always masked" in faults:
        fate = torch.zeros_like(fate)
    else:
        fate = fate.clamp(max=0.89).where(fate < 1 - stays, 1.0)
    read = ids.where(~chosen | (fate >= 0.9), others).where(~chosen | (fate >= 0.8), MASK_ID)
    said = read if "wrong target" in faults else ids
    return ids, read, said.where(chosen, PAD_ID)


_LETTERS: Mapping[str, tuple[str, ...]] = {
    "A": ("always masked",),
    "B": (),
    "C": ("unchanged",),
    "D": ("wrong target",),
    "E": ("special token", "same positions"),
    "F": ("corrupted input",),
}


def batches() -> dict[str, list[Round]]:
    """Return the batches of six pipelines, by a letter."""
    return {
        letter: planted(faults, 100 + number)
        for number, (letter, faults) in enumerate(_LETTERS.items())
    }
