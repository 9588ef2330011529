"""Small models and other objects that the checks pass to a student's code."""

import functools
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from attentively.checks.given_models import copy_of
from attentively.models import plain_transformer


class Words(nn.Module):
    """An encoder that embeds words without any context."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(vectors, freeze=False)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        vectors: Tensor = self.table(ids)
        return vectors


def small_encoder(
    vocab_size: int, d_model: int, num_layers: int, state: Mapping[str, Tensor]
) -> nn.Module:
    """Return an encoder of the package with two heads and these parameters."""
    made = copy_of(_encoder(vocab_size, d_model, num_layers))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(state[name])
    return cast(nn.Module, made)


@functools.lru_cache(maxsize=8)
def _encoder(vocab_size: int, d_model: int, num_layers: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # the random numbers of a case stay the same
        return plain_transformer.Encoder(vocab_size, d_model, 2, 5, num_layers).eval()


class TableModel(nn.Module):
    """A language model with a row of scores for each last token; `sums` adds those before it."""

    def __init__(self, table: Tensor, sums: bool = False) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.sums = sums

    def forward(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2:
            raise ValueError(f"expected ids of shape (batch, length), got {tuple(ids.shape)}")
        rows = self.table[ids]
        return rows.cumsum(dim=-2) if self.sums else rows


class Ranked:
    """Choose the token with the highest or second highest score, and store what it was given."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.seen: list[Tensor] = []

    def __call__(self, scores: Tensor) -> int:
        self.seen.append(scores.detach().clone())
        last = scores.reshape(-1, scores.size(-1))[-1]
        return int(last.argsort(descending=True)[self.rank])

    def __repr__(self) -> str:
        return f"a function that returns the token with the {'second ' * self.rank}highest score"
