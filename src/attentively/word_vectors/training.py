"""Train word vectors by skip-gram on a whole text.

The model is in `attentively.word_vectors.skip_gram`, which finds the pairs of one sentence at a
time. This module finds the same pairs for all sentences at once, several times as fast.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from attentively import device
from attentively.tokens.vocabulary import PAD_ID
from attentively.word_vectors.skip_gram import (
    SkipGram,
    draw_negatives,
    keep_probabilities,
    noise_distribution,
)
from attentively.word_vectors.vector_config import VectorConfig
from attentively.word_vectors.vectors import WordVectors

RECORDED_EVERY = 100
"""Number of updates that one record summarises."""

Record = dict[str, int | float]


class TrainedVectors(NamedTuple):
    """Trained word vectors and the log of their training."""

    vectors: WordVectors
    """One vector per word of sufficient frequency, the most frequent word first."""
    records: list[Record]
    """Step, mean loss since the previous record, learning rate, seconds."""
    seconds: float


class Text(NamedTuple):
    """Sentences, concatenated."""

    words: Int[Tensor, " places"]
    """Id of the word at each position."""
    sentences: Int[Tensor, " places"]
    """Index of the sentence of each position."""


class Batch(NamedTuple):
    """The pairs of one update."""

    pairs: Int[Tensor, "pairs 2"]
    """Words with a neighbour each."""
    done: float
    """The fraction of the training before this batch."""


def train_vectors(
    sentences: Sequence[Sequence[str]],
    config: VectorConfig | None = None,
    progress: bool = True,
) -> TrainedVectors:
    """Learn a vector for every word that occurs at least `config.min_count` times.

    The result is reproducible for the same sentences, configuration and device. All that is random
    is sampled on the CPU, so every device trains on the same pairs and negative samples. With
    `progress`, a terminal shows a progress bar after two seconds. Raises `ValueError` if no word
    occurs often enough, and `FloatingPointError` if the loss is not finite.
    """
    config = config or VectorConfig()
    where = device.best()
    words = frequent_words(sentences, config.min_count)
    text = as_text(sentences, words)
    counts = torch.bincount(text.words, minlength=PAD_ID + 1 + len(words)).tolist()
    keep = torch.tensor(keep_probabilities(counts, config.threshold))
    noise = noise_distribution(counts)
    torch.manual_seed(config.seed)
    model = SkipGram(len(counts), config.embedding_dim).to(where)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    generator = torch.Generator().manual_seed(config.seed)
    records: list[Record] = []
    losses: list[Tensor] = []
    started = time.monotonic()
    with _bar(progress) as bar:
        for pairs, done in batches(text, keep, config, generator):
            optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - done)
            centre, context = pairs.to(where).unbind(dim=1)
            negatives = draw_negatives(noise, len(pairs), config.negatives, generator)
            loss = model(centre, context, negatives.to(where))
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

    Raises `ValueError` if there is none.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    words = [word for word, count in counts.items() if count >= min_count]
    if not words:
        raise ValueError(
            f"none of the {len(counts)} words of {len(sentences)} sentences occurs "
            f"min_count={min_count} times: use more text or a lower min_count"
        )
    return sorted(words, key=lambda word: (-counts[word], word))


def as_text(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> Text:
    """Concatenate the sentences as word ids (after the id of padding), without other words."""
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
    """Yield the batches of every epoch, each with its own subsampling of frequent words.

    Raises `ValueError` if no word has a neighbour.
    """
    for epoch in range(config.epochs):
        stays = torch.rand(len(text.words), generator=generator) < keep[text.words]
        left = Text(*(row[stays] for row in text))
        reach = 1 + (torch.rand(len(left.words), generator=generator) * config.window).long()
        pairs = window_pairs(left, reach)
        if not len(pairs):
            raise ValueError(
                "no word has a neighbour: every sentence has one word, or "
                f"threshold={config.threshold} discards too many words"
            )
        order = torch.randperm(len(pairs), generator=generator)
        for start in range(0, len(pairs), config.batch_size):
            chosen = order[start : start + config.batch_size]
            yield Batch(pairs[chosen], (epoch + start / len(pairs)) / config.epochs)


def window_pairs(text: Text, reach: Int[Tensor, " places"]) -> Int[Tensor, "pairs 2"]:
    """Return every word with each neighbour in its sentence, up to `reach` positions away.

    These are the pairs of `attentively.word_vectors.skip_gram.context_pairs`, in another order.
    """
    words, sentences = text
    found = [words.new_empty(0, 2)]
    for steps in range(1, int(reach.max()) + 1 if len(words) else 1):
        before, after = slice(None, -steps), slice(steps, None)  # pairs `steps` positions apart
        together = sentences[before] == sentences[after]
        for centre, context in ((before, after), (after, before)):
            seen = together & (reach[centre] >= steps)
            found.append(torch.stack([words[centre][seen], words[context][seen]], dim=1))
    return torch.cat(found)


def _record(
    losses: list[Tensor], optimizer: torch.optim.Optimizer, config: VectorConfig, started: float
) -> Record:
    """Return the mean loss since the last record."""
    recent = losses[(len(losses) - 1) // RECORDED_EVERY * RECORDED_EVERY :]
    mean = torch.stack(recent).mean().item()
    if not math.isfinite(mean):
        raise FloatingPointError(
            f"the loss is not finite (NaN or infinity) at step {len(losses)}: "
            f"use a learning rate below {config.learning_rate}"
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
