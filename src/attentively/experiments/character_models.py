"""Small character-level language models, for the experiments of chapter 21."""

import functools
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attentively import device
from attentively.data import text, toy
from attentively.models.interface import evaluating
from attentively.tokens.vocabulary import CharacterTokenizer
from attentively.training.schedules import one_cycle

LENGTH = 64
"""Length of a training example in characters."""


@functools.cache
def characters(split: str, quick: bool) -> Int[Tensor, " characters"]:
    """Return the character ids of Shakespeare or, in the quick form, of toy English."""
    return torch.tensor(_tokenizer(quick).encode(text_of(split, quick))[:-1])  # without <end>


def vocab_size(quick: bool) -> int:
    """Return the vocabulary size, special tokens included."""
    return len(_tokenizer(quick))


@functools.cache
def _tokenizer(quick: bool) -> CharacterTokenizer:
    return CharacterTokenizer.train([text_of("train", quick)])


def text_of(split: str, quick: bool) -> str:
    """Return a split of Shakespeare or, in the quick form, of toy English."""
    if quick:
        return "\n".join(pair.src_text for pair in toy.load(split, 100, clauses=(1,)))
    return text.shakespeare(split)


def windows(
    ids: Int[Tensor, " characters"], count: int, length: int, generator: torch.Generator
) -> Int[Tensor, "count said"]:
    """Return random chunks of the text, each with one more character to predict."""
    starts = torch.randint(len(ids) - length, (count, 1), generator=generator)
    return ids[starts + torch.arange(length + 1)]


def surprise(model: nn.Module, pieces: Int[Tensor, "count length"]) -> Float[Tensor, "count said"]:
    """Return the negative log-likelihood of each character after the first, in nats."""
    logits = model(pieces[:, :-1])
    return nn.functional.cross_entropy(logits.transpose(1, 2), pieces[:, 1:], reduction="none")


def fit(
    model: nn.Module, loss: Callable[[], Float[Tensor, ""]], steps: int, learning_rate: float
) -> None:
    """Train for `steps` updates on `loss`, which samples a new batch in each call."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * one_cycle(step, steps, max(1, steps // 10))
        optimizer.zero_grad()
        found = loss()
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def fit_to_text(
    model: nn.Module,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    quick: bool,
    also: Callable[[], Tensor] | None = None,
) -> None:
    """Train for `steps` updates on random chunks of the text; `also` is added to the loss."""
    where = device.best()
    model.to(where)
    generator = torch.Generator().manual_seed(seed)
    train = characters("train", quick)

    def loss() -> Tensor:
        pieces = windows(train, batch_size, LENGTH, generator).to(where)
        found = surprise(model, pieces).mean()
        return found if also is None else found + also()

    fit(model, loss, steps, learning_rate)


def held_out_loss(model: nn.Module, length: int, quick: bool) -> Float[Tensor, " length"]:
    """Return the mean loss at each position of consecutive chunks of the validation text."""
    ids = characters("validation", quick)
    count = min(32_768 // length, len(ids) // (length + 1))
    pieces = ids[: count * (length + 1)].view(count, length + 1).to(next(model.parameters()).device)
    with evaluating(model):
        found = [surprise(model, part) for part in pieces.split(max(1, 8192 // length))]
    return torch.cat(found).mean(dim=0).cpu()
