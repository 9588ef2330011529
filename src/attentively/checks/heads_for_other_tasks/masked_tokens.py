"""Tokens to mask and to predict, and the mistakes that are made with them."""

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
        "choose: Padding or special tokens are chosen. Only the ids above END_ID are words.",
        partial(chosen_tokens, ordinary=lambda ids: ids >= 0),
    ),
    *known(
        "choose: START, END or the unknown word is chosen. Only the ids above END_ID are words.",
        partial(chosen_tokens, ordinary=lambda ids: ids != PAD_ID),
        partial(chosen_tokens, ordinary=lambda ids: (ids != PAD_ID) & (ids != END_ID)),
        partial(chosen_tokens, ordinary=lambda ids: (ids == 1) | (ids > END_ID)),
        partial(chosen_tokens, ordinary=lambda ids: ids >= END_ID),
    ),
    *known(
        "choose: One word too many is chosen in each text. Ranks begin with 0, so the chosen "
        "words are those with a rank below the number.",
        partial(chosen_tokens, more=1),
        lambda ids, lottery, share: (
            lottery.masked_fill(ids <= END_ID, 2.0).argsort(dim=1).argsort(dim=1)
            <= (share * (ids > END_ID).sum(dim=1)).round().clamp(min=1).unsqueeze(1)
        ),
    ),
    *known(
        "choose: One word too few is chosen in each text.",
        partial(chosen_tokens, more=-1),
    ),
    *known(
        "choose: Each word is chosen independently, if its lottery value is below `share`, so "
        "a text may have no chosen word. Choose a fixed number of words: those with the lowest "
        "values.",
        lambda ids, lottery, share: (lottery < share) & (ids > END_ID),
        lambda ids, lottery, share: (lottery <= share) & (ids > END_ID),
    ),
    *known(
        "choose: The share is taken of all positions, including padding or special tokens. It "
        "is a share of the words.",
        partial(chosen_tokens, of=lambda ids, _: torch.full((len(ids),), ids.size(1))),
        partial(chosen_tokens, of=lambda ids, _: (ids != PAD_ID).sum(dim=1)),
    ),
    *known(
        "choose: The number of chosen words is rounded down. Round it to the nearest integer.",
        partial(chosen_tokens, whole=torch.floor),
    ),
    *known(
        "choose: The number of chosen words is rounded up. Round it to the nearest integer.",
        partial(chosen_tokens, whole=torch.ceil),
    ),
    *known(
        "choose: No word of a short text is chosen. At least one word of each text is chosen.",
        partial(chosen_tokens, least=0),
    ),
    *known(
        "choose: The words with the highest lottery values are chosen. Choose those with the "
        "lowest.",
        partial(chosen_tokens, highest=True),
    ),
    *known(
        "choose: The words are chosen from all texts together. Each row has its own share.",
        _over_the_batch,
    ),
    *known(
        "choose: A single argsort gives the position of each rank. You need the rank of each "
        "position, which is the argsort of this result.",
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
        "hide, inputs: All chosen tokens are masked. From a fate of 0.8 to below 0.9 a token "
        "is replaced by the one in `others`, and from 0.9 on it stays unchanged.",
        partial(_read, low=2.0, high=2.0),
    ),
    *known(
        "hide, inputs: No chosen token stays unchanged. From a fate of 0.9 on it does.",
        partial(_read, high=2.0),
    ),
    *known(
        "hide, inputs: No chosen token is replaced by the one in `others`. From a fate of 0.8 "
        "to below 0.9 it is.",
        partial(_read, high=0.8),
    ),
    *known(
        "hide, inputs: The cases 'replaced' and 'unchanged' are exchanged. From a fate of 0.8 "
        "to below 0.9 the token is replaced by the one in `others`; from 0.9 on it stays "
        "unchanged.",
        lambda ids, chosen, fate, others, mask_id: (
            ids.where(~chosen | (fate < 0.9), others).where(~chosen | (fate >= 0.8), mask_id)
        ),
    ),
    *known(
        "hide, inputs: Masked tokens are overwritten by those of `others`. With a fate below "
        "0.8 a token stays masked.",
        partial(_read, low=0.0),
    ),
    *known(
        "hide, inputs: The mask and the tokens of `others` are exchanged. With a fate below "
        "0.8 a token is masked.",
        partial(_read, exchanged=True),
    ),
    *known(
        "hide, inputs: 10 % of the chosen tokens are masked and 80 % stay unchanged. It must "
        "be the other way round.",
        partial(_read, low=0.1, high=0.2), partial(_read, low=0.1, high=0.1),
    ),
    *known(
        "hide, inputs: Tokens that are not chosen are changed too. They must stay unchanged.",
        partial(_read, everywhere=True),
    ),
    *known(
        "hide, inputs: Nothing is masked, so the model can copy the targets from its inputs.",
        lambda ids, *_: ids,
    ),
    *known(
        "hide: The two results are exchanged. Return inputs, targets.",
        lambda *given: hidden_tokens(*given)[1],
    ),
]  # fmt: skip
WANTED_TWINS = [
    *known(
        "hide, targets: Every token is a target, including those that are visible in the "
        "inputs, so the model learns to copy. Only chosen tokens are targets; all other "
        "positions have PAD_ID.",
        lambda ids, *_: ids,
    ),
    *known(
        "hide, targets: Only masked tokens are targets. Then every word that is visible in the "
        "inputs is correct, and the model never has to check it against its context. All "
        "chosen tokens are targets.",
        lambda ids, chosen, fate, others, mask_id: ids.where(chosen & (fate < 0.8), PAD_ID),
    ),
    *known(
        "hide, targets: Chosen tokens that stay unchanged are not targets. All chosen tokens are.",
        lambda ids, chosen, fate, others, mask_id: ids.where(chosen & (fate < 0.9), PAD_ID),
    ),
    *known(
        "hide, targets: These are the tokens of the inputs. The target is the original token, "
        "from `ids`.",
        lambda *given: _read(*given).where(given[1], PAD_ID),
    ),
    *known(
        "hide, targets: The tokens that are not chosen are the targets. It must be the chosen "
        "ones.",
        lambda ids, chosen, *_: ids.where(~chosen, PAD_ID),
    ),
    *known(
        "hide, targets: Positions without a target have -100, PyTorch's default. Here they "
        "have PAD_ID.",
        lambda ids, chosen, *_: ids.where(chosen, -100),
    ),
    *known(
        "hide, targets: This says at which positions there is a target. Return the token itself.",
        lambda ids, chosen, *_: chosen.long(),
    ),
]
