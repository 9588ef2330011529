"""Train word vectors by skip-gram on a whole text.

The model is in `attentively.word_vectors.skip_gram`, which lists the pairs of one sentence at a
time. This module finds the pairs of all sentences at once: the same pairs, several times as fast.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from attentively import device
from attentively.config import Config, check_at_least_one, check_seed
from attentively.tokens.vocabulary import PAD_ID
from attentively.word_vectors.skip_gram import (
    SkipGram,
    draw_negatives,
    keep_probabilities,
    noise_distribution,
)
from attentively.word_vectors.vectors import WordVectors

RECORDED_EVERY = 100
"""Updates that a line of the log sums up."""

Record = dict[str, int | float]


@dataclass(frozen=True)
class VectorConfig(Config):
    """How word vectors are trained."""

    embedding_dim: int = 100
    """Numbers in a vector."""
    window: int = 5
    """Steps to the furthest neighbour; each word's reach is drawn from 1 to this."""
    negatives: int = 5
    """Words drawn at random for each neighbour seen."""
    threshold: float = 1e-4
    """Words that make up more of the text than this share are thinned out."""
    min_count: int = 5
    """Words that occur less often are left out of the text, and get no vector."""
    epochs: int = 20
    """Times that the text is read."""
    batch_size: int = 4096
    """Pairs of a word and a neighbour an update."""
    learning_rate: float = 5e-3
    """Adam's in the beginning; it falls in a line to nothing."""
    seed: int = 0
    """Settles the first vectors and all that is drawn."""

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            if name in ("threshold", "learning_rate"):
                if not value > 0:
                    raise ValueError(f"{name}={value} must be positive")
            elif name == "seed":
                check_seed(value)
            else:
                check_at_least_one(**{name: value})


class TrainedVectors(NamedTuple):
    """Word vectors, and how their training went."""

    vectors: WordVectors
    """One for each word that occurs often enough, the most frequent first."""
    records: list[Record]
    """Step, mean loss since the record before, learning rate, seconds."""
    seconds: float


class Text(NamedTuple):
    """Sentences one after the other."""

    words: Int[Tensor, " places"]
    """Which word stands at each place."""
    sentences: Int[Tensor, " places"]
    """In which sentence each place is."""


class Batch(NamedTuple):
    """What one update learns from."""

    pairs: Int[Tensor, "pairs 2"]
    """Words, each with a neighbour."""
    done: float
    """The share of the training that lies before it."""


def train_vectors(
    sentences: Sequence[Sequence[str]],
    config: VectorConfig | None = None,
    progress: bool = True,
) -> TrainedVectors:
    """Learn a vector for every word that occurs at least `config.min_count` times.

    The same sentences, settings and device give the same vectors. A terminal shows how far it is
    once it has taken two seconds, if `progress`. Raises `ValueError` where there is nothing to
    learn from, and `FloatingPointError` where the loss is no longer a number.
    """
    config = config or VectorConfig()
    where = device.best()
    words = frequent_words(sentences, config.min_count)
    text = as_text(sentences, words)
    counts = torch.bincount(text.words, minlength=PAD_ID + 1 + len(words)).tolist()
    keep = torch.tensor(keep_probabilities(counts, config.threshold), device=where)
    noise = noise_distribution(counts).to(where)
    torch.manual_seed(config.seed)
    model = SkipGram(len(counts), config.embedding_dim).to(where)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    generator = torch.Generator(where).manual_seed(config.seed)
    records: list[Record] = []
    losses: list[Tensor] = []
    started = time.monotonic()
    with _bar(progress) as bar:
        text = Text(*(row.to(where) for row in text))
        for pairs, done in batches(text, keep, config, generator):
            optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - done)
            centre, context = pairs.unbind(dim=1)
            negatives = draw_negatives(noise, len(pairs), config.negatives, generator)
            loss = model(centre, context, negatives)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            if len(losses) % RECORDED_EVERY == 0:
                records.append(_record(losses, optimizer, config, started))
                bar.update(done - bar.n)
        if len(losses) % RECORDED_EVERY:
            records.append(_record(losses, optimizer, config, started))
    seconds = time.monotonic() - started
    return TrainedVectors(WordVectors(words, model.vectors[PAD_ID + 1 :].cpu()), records, seconds)


def frequent_words(sentences: Sequence[Sequence[str]], min_count: int) -> list[str]:
    """Return the words that occur at least `min_count` times, the most frequent first.

    Raises `ValueError` where there is none.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    words = [word for word, count in counts.items() if count >= min_count]
    if not words:
        raise ValueError(
            f"none of the {len(counts)} words of {len(sentences)} sentences occurs "
            f"min_count={min_count} times: there is nothing to learn from"
        )
    return sorted(words, key=lambda word: (-counts[word], word))


def as_text(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> Text:
    """Number the words from the one after padding on; others are left out, and ranks close."""
    ids = {word: PAD_ID + 1 + index for index, word in enumerate(words)}
    found = [
        (ids[word], number)
        for number, sentence in enumerate(sentences)
        for word in sentence
        if word in ids
    ]
    return Text(*torch.tensor(found).unbind(dim=1))


def batches(
    text: Text, keep: Float[Tensor, " vocab"], config: VectorConfig, generator: torch.Generator
) -> Iterator[Batch]:
    """Yield the batches of every epoch: frequent words are thinned out anew for each.

    Raises `ValueError` where no word has a neighbour.
    """
    for epoch in range(config.epochs):
        stays = _uniform(text.words, generator) < keep[text.words]
        left = Text(*(row[stays] for row in text))
        reach = 1 + (_uniform(left.words, generator) * config.window).long()
        pairs = window_pairs(left, reach)
        if not len(pairs):
            raise ValueError(
                "no word has another beside it: the sentences are one word long, or "
                f"threshold={config.threshold} leaves too little of them"
            )
        order = torch.randperm(len(pairs), generator=generator, device=pairs.device)
        for start in range(0, len(pairs), config.batch_size):
            chosen = order[start : start + config.batch_size]
            yield Batch(pairs[chosen], (epoch + start / len(pairs)) / config.epochs)


def window_pairs(text: Text, reach: Int[Tensor, " places"]) -> Int[Tensor, "pairs 2"]:
    """Return every word with each of its neighbours in its sentence, up to `reach` steps away.

    These are the pairs of `attentively.word_vectors.skip_gram.context_pairs`, in another order.
    """
    words, sentences = text
    found = [words.new_empty(0, 2)]
    for steps in range(1, int(reach.max()) + 1 if len(words) else 1):
        before, after = slice(None, -steps), slice(steps, None)  # two places so many steps apart
        together = sentences[before] == sentences[after]
        for centre, context in ((before, after), (after, before)):
            seen = together & (reach[centre] >= steps)
            found.append(torch.stack([words[centre][seen], words[context][seen]], dim=1))
    return torch.cat(found)


def _uniform(like: Tensor, generator: torch.Generator) -> Float[Tensor, " places"]:
    return torch.rand(len(like), generator=generator, device=like.device)


def _record(
    losses: list[Tensor], optimizer: torch.optim.Optimizer, config: VectorConfig, started: float
) -> Record:
    """Sum up the losses since the last record."""
    recent = losses[(len(losses) - 1) // RECORDED_EVERY * RECORDED_EVERY :]
    mean = torch.stack(recent).mean().item()
    if not math.isfinite(mean):
        raise FloatingPointError(
            f"the loss is no longer a number by step {len(losses)}: "
            f"try a learning rate below {config.learning_rate}"
        )
    return {
        "step": len(losses),
        "train_loss": mean,
        "learning_rate": optimizer.param_groups[0]["lr"],
        "seconds": round(time.monotonic() - started, 2),
    }


def _bar(progress: bool) -> tqdm:
    return tqdm(
        desc="word vectors",
        total=1,
        bar_format="{l_bar}{bar}| {elapsed}<{remaining}",
        delay=2,
        leave=False,
        disable=None if progress else True,
    )
