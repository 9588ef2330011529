"""Tokens to hide and to ask for, and the mistakes that are made with them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attentively.checks import known
from attentively.tokens.vocabulary import END_ID, PAD_ID


def chosen_tokens(
    ids: Tensor, lottery: Tensor, share: float, *,
    ordinary: Callable[[Tensor], Tensor] = lambda ids: ids > END_ID,
    of: Callable[[Tensor, Tensor], Tensor] = lambda ids, ordinary: ordinary.sum(dim=1),
    whole: Callable[[Tensor], Tensor] = torch.round, least: int = 1, highest: bool = False,
    more: int = 0,
) -> Tensor:  # fmt: skip
    """Return which tokens are chosen; each keyword is what a mistake may change."""
    may = ordinary(ids)
    number = whole(share * of(ids, may)).clamp(min=least).unsqueeze(1) + more
    drawn = (1 - lottery if highest else lottery).masked_fill(~may, 2.0)
    return (drawn.argsort(dim=1).argsort(dim=1) < number) & may


def _over_the_batch(ids: Tensor, lottery: Tensor, share: float) -> Tensor:
    flat = ids.flatten().unsqueeze(0)
    return chosen_tokens(flat, lottery.flatten().unsqueeze(0), share).reshape(ids.shape)


CHOSEN_TWINS = [
    *known(
        "choose: Padding and special tokens may be chosen. Only the ids above END_ID are words.",
        partial(chosen_tokens, ordinary=lambda ids: ids >= 0),
    ),
    *known(
        "choose: START, END or the unknown word may be chosen. Only the ids above END_ID are "
        "words.",
        partial(chosen_tokens, ordinary=lambda ids: ids != PAD_ID),
        partial(chosen_tokens, ordinary=lambda ids: (ids != PAD_ID) & (ids != END_ID)),
        partial(chosen_tokens, ordinary=lambda ids: (ids == 1) | (ids > END_ID)),
        partial(chosen_tokens, ordinary=lambda ids: ids >= END_ID),
    ),
    *known(
        "choose: In each text one too many is chosen. Ranks begin with 0, so those below the "
        "number win.",
        partial(chosen_tokens, more=1),
        lambda ids, lottery, share: (
            lottery.masked_fill(ids <= END_ID, 2.0).argsort(dim=1).argsort(dim=1)
            <= (share * (ids > END_ID).sum(dim=1)).round().clamp(min=1).unsqueeze(1)
        ),
    ),
    *known(
        "choose: In each text one too few is chosen. The last of the winners wins, too.",
        partial(chosen_tokens, more=-1),
    ),
    *known(
        "choose: Each word is chosen by itself, if its lottery number is below `share`, so that a "
        "text may have none. Asked is a fixed number: those with the lowest numbers.",
        lambda ids, lottery, share: (lottery < share) & (ids > END_ID),
        lambda ids, lottery, share: (lottery <= share) & (ids > END_ID),
    ),
    *known(
        "choose: The share is taken of the whole width, padding and special tokens too. It is a "
        "share of the words.",
        partial(chosen_tokens, of=lambda ids, _: torch.full((len(ids),), ids.size(1))),
        partial(chosen_tokens, of=lambda ids, _: (ids != PAD_ID).sum(dim=1)),
    ),
    *known(
        "choose: The number is rounded down. Round it to the nearest whole number.",
        partial(chosen_tokens, whole=torch.floor),
    ),
    *known(
        "choose: The number is rounded up. Round it to the nearest whole number.",
        partial(chosen_tokens, whole=torch.ceil),
    ),
    *known(
        "choose: A short text has no word chosen. One at least is.",
        partial(chosen_tokens, least=0),
    ),
    *known(
        "choose: The highest lottery numbers win. The lowest are asked for.",
        partial(chosen_tokens, highest=True),
    ),
    *known(
        "choose: All texts are drawn from as one. Each row has its own share.",
        _over_the_batch,
    ),
    *known(
        "choose: argsort alone says which place has the lowest number, the next one, and so on. "
        "Asked is which rank each place has: argsort of that.",
        lambda ids, lottery, share: (
            lottery.masked_fill(ids <= END_ID, 2.0).argsort(dim=1)
            < (share * (ids > END_ID).sum(dim=1)).round().clamp(min=1).unsqueeze(1)
        ),
    ),
]  # fmt: skip


def hidden_tokens(
    ids: Tensor, chosen: Tensor, fate: Tensor, others: Tensor, mask_id: int, *,
    low: float = 0.8, high: float = 0.9, exchanged: bool = False, everywhere: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what is read, and what is asked; each keyword is what a mistake may change."""
    mask = torch.tensor(mask_id)
    one, two = (others, mask) if exchanged else (mask, others)
    reached = torch.ones_like(chosen) if everywhere else chosen
    read = ids.where(~reached | (fate >= high), two).where(~reached | (fate >= low), one)
    return read, ids.where(chosen, PAD_ID)


def _read(*given: Any, **changed: Any) -> Tensor:
    return hidden_tokens(*given, **changed)[0]


READ_TWINS = [
    *known(
        "hide, read: Every chosen token becomes the mask. One in ten becomes another word, and one "
        "in ten stays.",
        partial(_read, low=2.0, high=2.0),
    ),
    *known(
        "hide, read: No chosen token is left as it is. From a fate of 0.9 on it stays.",
        partial(_read, high=2.0),
    ),
    *known(
        "hide, read: No chosen token becomes another word. Between 0.8 and 0.9 it does.",
        partial(_read, high=0.8),
    ),
    *known(
        "hide, read: 'another word' and 'stays' have changed places: from 0.8 to 0.9 another word, "
        "from 0.9 on it stays.",
        lambda ids, chosen, fate, others, mask_id: (
            ids.where(~chosen | (fate < 0.9), others).where(~chosen | (fate >= 0.8), mask_id)
        ),
    ),
    *known(
        "hide, read: What became the mask becomes another word after that. Below 0.8 it stays the "
        "mask.",
        partial(_read, low=0.0),
    ),
    *known(
        "hide, read: The mask and the other words have changed places: below 0.8 it is the mask.",
        partial(_read, exchanged=True),
    ),
    *known(
        "hide, read: One in ten becomes the mask and eight in ten stay. It is the other way round.",
        partial(_read, low=0.1, high=0.2), partial(_read, low=0.1, high=0.1),
    ),
    *known(
        "hide, read: Tokens that were not chosen are changed too. Nothing happens to those.",
        partial(_read, everywhere=True),
    ),
    *known(
        "hide, read: Nothing is hidden: the model reads the answers.",
        lambda ids, *_: ids,
    ),
    *known(
        "hide: the two have changed places; return read, wanted.",
        lambda *given: hidden_tokens(*given)[1],
    ),
]  # fmt: skip
WANTED_TWINS = [
    *known(
        "hide, wanted: Every token is asked for, also those that stand there to be read, so the "
        "model learns to copy. Asked are the chosen ones; elsewhere stands PAD_ID.",
        lambda ids, *_: ids,
    ),
    *known(
        "hide, wanted: Only what became the mask is asked for. Then a word that is read is always "
        "right, and the model need not look at its neighbours. All chosen tokens are asked for.",
        lambda ids, chosen, fate, others, mask_id: ids.where(chosen & (fate < 0.8), PAD_ID),
    ),
    *known(
        "hide, wanted: What was changed is asked for, what stayed is not. All chosen ones are.",
        lambda ids, chosen, fate, others, mask_id: ids.where(chosen & (fate < 0.9), PAD_ID),
    ),
    *known(
        "hide, wanted: This is what is read at these places. Asked is what stood there before.",
        lambda *given: _read(*given).where(given[1], PAD_ID),
    ),
    *known(
        "hide, wanted: What was not chosen is asked for, and what was chosen is not.",
        lambda ids, chosen, *_: ids.where(~chosen, PAD_ID),
    ),
    *known(
        "hide, wanted: Where nothing is asked stands -100, as PyTorch has it. Here it is PAD_ID.",
        lambda ids, chosen, *_: ids.where(chosen, -100),
    ),
    *known(
        "hide, wanted: This says where something is asked. Asked for is the token itself.",
        lambda ids, chosen, *_: chosen.long(),
    ),
]
