"""Heads: the same model dimension split into one, two, four or eight attention heads.

All conditions have the same number of parameters, data and steps. They differ in the number of
heads of each attention. Then the heads are pruned one by one, and the attention of each head is
compared with chance.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attentively.analysis.pruning import Head, find_heads, silenced
from attentively.data import toy
from attentively.data.batches import Batch, Example, collate, encode_pairs, pad
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.scores import seconds_per_step
from attentively.experiments.toy_translation import (
    as_text,
    new_transformer,
    origin,
    scores_by_clauses,
    train,
)
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import EncoderDecoder, evaluating
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import PAD_ID
from attentively.training.losses import cross_entropy
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1, 2)
CLAUSES = (1, 2, 3, 4)
NUM_HEADS = (1, 2, 4, 8)
YARDSTICK = 4
"""The number of heads relative to which time is measured."""
STEPS = 600
LEARNING_RATE = 3e-3


class Reading(NamedTuple):
    """Scores of next-word prediction with teacher forcing."""

    loss: float
    """Cross-entropy, in nats per word."""
    exact_match: float
    """Fraction of sentences in which every word is the most probable: greedy exact match."""


class Look(NamedTuple):
    """How often a head attends to positions of one kind."""

    pointing: float
    """Fraction of queries whose largest weight is on such a position."""
    weight: float
    """Mean total weight on such positions per query."""
    chance: float
    """Expected pointing of a random position among those that the query may attend to."""
    queries: int


def measure(num_heads: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its scores, and the importance and attention of each head."""
    steps = 4 if quick else STEPS
    test_sentences = 4 if quick else 100
    checkpoint = new_transformer(seed, origin("heads", seed), num_heads=num_heads, dropout=0.0)
    model, *tokenizers = checkpoint.translator()
    texts = as_text(toy.load("train", 64, clauses=TRAINED_CLAUSES))
    seconds, of_yardstick = seconds_per_step(
        [model, new_transformer(seed, num_heads=YARDSTICK, dropout=0.0).translator().model],
        collate(encode_pairs(texts, *tokenizers)),
        repeats=1 if quick else 9,
    )
    config = TrainingConfig(
        steps=steps, learning_rate=LEARNING_RATE, validate_every=max(10, steps // 4), seed=seed
    )
    train_pairs = 80 if quick else 10_000
    trainer = train(checkpoint, config, directory, train_pairs, clauses=TRAINED_CLAUSES)
    tests = {n: toy.load("test", test_sentences, clauses=(n,)) for n in CLAUSES}
    seen = [pair for n in TRAINED_CLAUSES for pair in tests[n]]
    batch = collate(encode_pairs(as_text(seen), *tokenizers))
    looks = find_looks(checkpoint, seen)
    whole = read(model, batch)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": trainer.step,
        "seconds_per_step": round(seconds, 4),
        "seconds_per_step_of_yardstick": round(of_yardstick, 4),
        "validation_loss": min(record["validation_loss"] for record in trainer.records),
        "by_clauses": scores_by_clauses(checkpoint, tests, TRAINED_CLAUSES),
        "loss": round(whole.loss, 5),
        "chance": {
            kind: {role: round(look.chance, 4) for role, look in looks[head].items()}
            for head in find_heads(model)[::num_heads]
            for kind in [kind_of(head.attention)]
        },
        "heads": [
            {
                **head._asdict(),
                **without(model, batch, [head]),
                "pointing": {role: round(look.pointing, 3) for role, look in looks[head].items()},
            }
            for head in find_heads(model)
        ],
        "attentions": [
            {"attention": name, **without(model, batch, heads)}
            for name, heads in by_attention(find_heads(model)).items()
        ],
    }


def by_attention(heads: Sequence[Head]) -> dict[str, list[Head]]:
    """Return the heads of each attention, by module name."""
    found = defaultdict(list)
    for head in heads:
        found[head.attention].append(head)
    return dict(found)


def read(model: EncoderDecoder, batch: Batch) -> Reading:
    """Evaluate next-word prediction on the true translations.

    Greedy search generates the reference exactly if each of its words is the most probable after
    the true prefix, so one forward pass also determines the exact match.
    """
    src, tgt = batch.to(next(model.parameters()).device)
    with evaluating(model):
        logits = model(src, tgt[:, :-1])
    targets = tgt[:, 1:]
    right = (logits.argmax(dim=-1) == targets) | (targets == PAD_ID)
    loss = cross_entropy(logits, targets, PAD_ID).item()
    return Reading(loss, right.all(dim=1).float().mean().item())


def without(model: EncoderDecoder, batch: Batch, heads: Sequence[Head]) -> dict[str, float]:
    """Return the scores of the model without those heads."""
    with silenced(model, heads):
        found = read(model, batch)
    return {
        "loss_without": round(found.loss, 5),
        "exact_match_without": round(found.exact_match, 4),
    }


def remove_one_by_one(
    model: EncoderDecoder, batch: Batch, limit: int | None = None
) -> Iterator[tuple[Head, Reading]]:
    """Yield heads in the order of greedy pruning, each with the scores after its removal.

    Each step evaluates the removal of every remaining head, so `n` heads take
    :math:`n (n + 1) / 2` evaluations. It ends after `limit` heads, or with the last one.
    """
    gone: list[Head] = []
    left = find_heads(model)
    while left and len(gone) != limit:
        readings = {}
        for head in left:
            with silenced(model, [*gone, head]):
                readings[head] = read(model, batch)
        best = min(left, key=lambda head: readings[head].loss)
        gone.append(best)
        left.remove(best)
        yield best, readings[best]


def kind_of(attention: str) -> str:
    """Return which of the three uses of a `Transformer` the attention of that name has."""
    if attention.endswith("cross_attention"):
        return "cross"
    return "encoder" if attention.startswith("encoder") else "decoder"


def wanted_places(pair: toy.ToyPair, kind: str) -> dict[str, Bool[Tensor, "queries keys"]]:
    """Return, for each kind of position that a head may attend to, a mask of these positions.

    A query whose row has no True is not counted. The source ends with the end token; the
    decoder's input starts with the start token, so that row `i` predicts word `i`.
    """
    src_len, tgt_len = len(pair.src) + 1, len(pair.tgt) + 1
    if kind == "cross":
        gold = torch.zeros(tgt_len, src_len, dtype=torch.bool)
        for src_index, tgt_index in pair.alignment:
            gold[tgt_index, src_index] = True
        end = torch.zeros_like(gold)
        end[:, -1] = True
        return {"word to say": gold, "word just said": gold.roll(1, dims=0), "end token": end}
    size = src_len if kind == "encoder" else tgt_len
    same = torch.eye(size, dtype=torch.bool)
    places = {"itself": same, "previous": torch.ones_like(same).tril(-1) & same.roll(-1, dims=1)}
    if kind == "encoder":
        places["next"] = places["previous"].T
    edge = torch.zeros_like(same)
    edge[:, -1 if kind == "encoder" else 0] = True
    places["end token" if kind == "encoder" else "start token"] = edge & ~same
    return places


def find_looks(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> dict[Head, dict[str, Look]]:
    """Return how often every head attends to each kind of position of `wanted_places`."""
    model, *tokenizers = checkpoint.translator()
    assert isinstance(model, Transformer)
    sums: dict[tuple[str, str], list[Tensor]] = defaultdict(list)
    for pair, example in zip(pairs, encode_pairs(as_text(pairs), *tokenizers), strict=True):
        for name, weights in maps_of(model, example).items():
            kind = kind_of(name)
            may_see = torch.ones_like(weights[0])
            if kind == "decoder":
                may_see = may_see.tril()
            for role, places in wanted_places(pair, kind).items():
                sums[name, role].append(count_looks(weights, places, may_see))
    looks: dict[Head, dict[str, Look]] = defaultdict(dict)
    for (name, role), found in sums.items():
        for number, (*shares, queries) in enumerate(torch.stack(found).sum(dim=0).tolist()):
            pointing, weight, chance = (share / max(queries, 1) for share in shares)
            looks[Head(name, number)][role] = Look(pointing, weight, chance, int(queries))
    return dict(looks)


def count_looks(
    weights: Float[Tensor, "heads queries keys"],
    places: Bool[Tensor, "queries keys"],
    may_see: Float[Tensor, "queries keys"],
) -> Float[Tensor, "heads numbers"]:
    """Return, for each head, the sums over the queries of the values that `Look` averages."""
    counted = places.any(dim=1)
    largest = weights.argmax(dim=-1, keepdim=True)
    pointed = places.expand_as(weights).gather(2, largest).squeeze(2)
    chance = places.sum(dim=1) / may_see.sum(dim=1)
    found = [pointed.float(), (weights * places).sum(dim=2), chance.expand_as(pointed)]
    sums = [numbers[:, counted].sum(dim=1) for numbers in found]
    return torch.stack([*sums, counted.sum().float().expand(len(weights))], dim=1)


def maps_of(model: Transformer, example: Example) -> dict[str, Float[Tensor, "heads _ _"]]:
    """Return the attention maps of every head for one sentence and its translation.

    They are indexed by the name of the attention; a map has one row per query, which is a source
    token, or a token of the target except the last.
    """
    where = next(model.parameters()).device
    src, tgt = (pad([ids]).to(where) for ids in (example.src, example.tgt[:-1]))
    with evaluating(model):
        maps = model.attention_maps(src, tgt)
    names = {
        "encoder.layers.{}.self_attention": maps.encoder,
        "decoder.layers.{}.self_attention": maps.decoder,
        "decoder.layers.{}.cross_attention": maps.cross,
    }
    return {
        name.format(layer): weights[0].cpu()
        for name, layers in names.items()
        for layer, weights in enumerate(layers)
    }


EXPERIMENT = Experiment(
    name="heads",
    question="What is the benefit of splitting the same model dimension into several heads?",
    conditions=[{"num_heads": num_heads} for num_heads in NUM_HEADS],
    measure=measure,
)
