"""Batches for a masked language model, with planted faults."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from attentively.checks import known
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
) -> list[Round]:
    """Return rounds of the same texts, with these faults.

    `special` are the ids that have targets if this is the fault. With `everything`, tokens that
    were not chosen have targets too. A share `stays` of the tokens with targets is unchanged. With
    `ends`, each END is masked if the inputs are corrupted.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = _texts(48, generator)
    asked = ids > END_ID
    if "special token" in faults:
        asked = asked | torch.isin(ids, torch.tensor(list(special)))
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
    return made


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


Places = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def _wanted(ids: Tensor, read: Tensor, wanted: Tensor, mask_id: int) -> Tensor:
    return wanted != PAD_ID


def _all_agree(places: list[Tensor]) -> bool:
    return all(torch.equal(places[0], each) for each in places[1:])


def found_in(
    rounds: Sequence[Round], mask_id: int, *,
    asked: Places = _wanted, compared: Places = _wanted, seen: Places = lambda i, r, w, m: r == i,
    limit: float = 0.2, whole: float = 1.0, of_all: bool = False,
    special: Callable[[Tensor], Tensor] = lambda ids: ids <= END_ID,
    against_read: bool = False, everywhere: bool = False,
    agree: Callable[[list[Tensor]], bool] = _all_agree,
) -> list[str]:  # fmt: skip
    """Return the names of the faults; each keyword is what a mistake may change."""
    found: set[str] = set()
    number = in_sight = hidden = tokens = 0
    for ids, read, wanted in rounds:
        places = asked(ids, read, wanted, mask_id)
        number += int(places.sum())
        tokens += int((ids != PAD_ID).sum())
        in_sight += int((places & seen(ids, read, wanted, mask_id)).sum())
        hidden += int((places & (read == mask_id)).sum())
        signs = {
            "special token": places & special(ids),
            "wrong target": places & (wanted != (read if against_read else ids)),
            "corrupted input": (read != ids) & (torch.ones_like(places) if everywhere else ~places),
        }
        found |= {name for name, sign in signs.items() if sign.any()}
    if in_sight > limit * (tokens if of_all else number):
        found.add("unchanged")
    if hidden >= whole * number:
        found.add("always masked")
    if agree([compared(*each, mask_id) for each in rounds]):
        found.add("same positions")
    return [name for name in FAULTS if name in found]


def _masked(ids: Tensor, read: Tensor, wanted: Tensor, mask_id: int) -> Tensor:
    return read == mask_id


def _changed(ids: Tensor, read: Tensor, wanted: Tensor, mask_id: int) -> Tensor:
    return read != ids


def _first_round(rounds: Sequence[Round], mask_id: int, both: bool = True) -> list[str]:
    """Look at the first round only, except for the fault that concerns several rounds."""
    found = set(found_in(rounds[:1], mask_id)) - {"same positions"}
    if both:
        found |= {"same positions"} & set(found_in(rounds, mask_id))
    return [name for name in FAULTS if name in found]


class Rounds:
    """Rounds with a short name in messages; the student receives copies."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.rounds = rounds

    def __repr__(self) -> str:
        said = " and ".join(map(repr, found_in(self.rounds, MASK_ID))) or "no fault"
        return f"{len(self.rounds)} rounds with {said}"


def why_wrong(got: list[str], rounds: Rounds, mask_id: int) -> str:
    """Return the sign of a fault that is missing, or that is reported without being there."""
    right = found_in(rounds.rounds, mask_id)
    for name, sign in FAULTS.items():
        if (name in right) and (name not in got):
            return f"{name!r} is missing. Its sign: {sign}"
        if (name in got) and (name not in right):
            return f"{name!r} is reported, but these rounds do not show its sign: {sign}"
    return ""


AUDIT_TWINS = [
    *known(
        "The share of unchanged tokens is computed over all tokens. Compute it over the tokens "
        "with a target.",
        partial(found_in, of_all=True),
    ),
    *known(
        "10 % of the tokens with a target are unchanged by design. Only a share above 20 % is "
        "a fault.",
        partial(found_in, limit=0.0),
        partial(found_in, limit=0.1),
    ),
    *known(
        "Tokens that were replaced by another one are counted as unchanged. An unchanged token "
        "is equal to the one in the text.",
        *(
            partial(found_in, limit=limit, seen=lambda *four: ~_masked(*four))
            for limit in (0.2, 0.1)
        ),
    ),
    *known(
        "80 % of the tokens with a target are masked by design. The fault is that all of them are.",
        *(partial(found_in, whole=whole) for whole in (0.7, 0.75, 0.5)),
    ),
    *known(
        "The positions with a target are searched by the mask. Some of them have another token "
        "or are unchanged; a position has a target where `targets` is not PAD_ID.",
        partial(found_in, asked=_masked),
        partial(found_in, asked=_masked, compared=_masked),
    ),
    *known(
        "The positions with a target are taken to be those that were changed. Some stay "
        "unchanged; a position has a target where `targets` is not PAD_ID.",
        partial(found_in, asked=_changed),
        partial(found_in, asked=_changed, compared=_changed),
    ),
    *known(
        "The inputs are compared with the text at all positions. They may differ at positions "
        "with a target; elsewhere they may not.",
        partial(found_in, everywhere=True),
    ),
    *known(
        "The targets are compared with the inputs. Compare them with the text.",
        partial(found_in, against_read=True),
    ),
    *known(
        "Some special tokens are missing: START, END and the unknown word are special, every "
        "id up to END_ID.",
        partial(found_in, special=lambda ids: ids == END_ID),
        partial(found_in, special=lambda ids: ids == START_ID),
        partial(found_in, special=lambda ids: (ids == START_ID) | (ids == END_ID)),
        partial(found_in, special=lambda ids: ids < END_ID),
    ),
    *known(
        "Only two rounds are compared. The fault is that *all* rounds have the same positions.",
        partial(found_in, agree=lambda places: torch.equal(places[0], places[1])),
        partial(found_in, agree=lambda places: torch.equal(places[0], places[-1])),
        partial(
            found_in, agree=lambda places: any(torch.equal(places[0], each) for each in places[1:])
        ),
    ),
    *known(
        "The masked positions are compared. They change at random even if the positions with a "
        "target stay the same.",
        partial(found_in, compared=_masked),
        partial(found_in, compared=_changed),
    ),
    *known(
        "The targets themselves are compared. Compare their positions: `targets != PAD_ID`.",
        partial(found_in, compared=lambda ids, read, wanted, mask_id: wanted),
    ),
    *known("Only the first round is examined.", _first_round, partial(_first_round, both=False)),
    *known(
        "Only the first fault is reported. There may be several.",
        lambda rounds, mask_id: found_in(rounds, mask_id)[:1],
    ),
]
