"""Scores: a comparison of attention scores and decoders in translation.

All conditions have the same encoder, data and number of steps. They differ in the score, in the
query (the decoder's newest state or the previous one), in input feeding, and in the matrix with
which the general score starts.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from attentively import device
from attentively.data import toy
from attentively.data.batches import Batch, collate, encode_pairs
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import (
    alignment_errors,
    as_text,
    new_checkpoint,
    origin,
    scores_by_clauses,
    train,
    word_weights,
)
from attentively.models.configs import AttentionKind, DecoderKind
from attentively.models.interface import EncoderDecoder
from attentively.training.objectives import teacher_forced_loss
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1, 2)
CLAUSES = (1, 2, 3, 4)
STEPS = 1500
WINDOW = 2
MAX_LEN = 60
"""Maximum source length of the location score: more than any sentence here has."""
SENTENCE = "the animal did not cross the street because it was too tired"
"""The sentence whose attention weights are recorded: one line for each French word."""
YARDSTICK: AttentionKind = "dot"
"""The score relative to which time is measured."""

Start = Literal["random", "identity"]
"""The initial value of the general score's matrix: with the identity, general equals dot."""


def measure(
    attention: AttentionKind,
    decoder: DecoderKind,
    input_feeding: bool,
    start: Start,
    seed: int,
    quick: bool,
    directory: Path,
) -> Row:
    """Train one model; evaluate it by the number of clauses, and time it."""
    steps = 4 if quick else STEPS
    test_sentences = 4 if quick else 200
    settings = {
        "decoder": decoder,
        "input_feeding": input_feeding,
        "window": WINDOW,
        "max_len": MAX_LEN,
    }
    checkpoint = new_checkpoint(attention, seed, origin("scores", seed), **settings)
    if start == "identity":
        start_at_dot(checkpoint.model)
    yardstick = new_checkpoint(YARDSTICK, seed, decoder="luong")

    model, *tokenizers = checkpoint.translator()
    texts = as_text(toy.load("train", 64, clauses=TRAINED_CLAUSES))
    seconds, of_dot = seconds_per_step(
        [model, yardstick.translator().model],
        collate(encode_pairs(texts, *tokenizers)),
        repeats=1 if quick else 9,
    )

    config = TrainingConfig(
        steps=steps, learning_rate=1e-2, validate_every=max(10, steps // 5), seed=seed
    )
    train_pairs = 80 if quick else 10_000
    trainer = train(checkpoint, config, directory, train_pairs, clauses=TRAINED_CLAUSES)
    tests = {n: toy.load("test", test_sentences, clauses=(n,)) for n in CLAUSES}
    row: Row = {
        "parameters": sum(parameter.numel() for parameter in checkpoint.model.parameters()),
        "training_steps": trainer.step,
        "seconds_per_step": round(seconds, 4),
        "seconds_per_step_of_dot": round(of_dot, 4),
        "validation_loss": min(record["validation_loss"] for record in trainer.records),
        "by_clauses": scores_by_clauses(checkpoint, tests, TRAINED_CLAUSES),
    }
    if attention != "fixed":
        seen = [pair for n in TRAINED_CLAUSES for pair in tests[n]]
        row["alignment_error_rate"] = round(alignment_errors(checkpoint, seen), 4)
        row["alignment_error_rate_reading"] = round(
            alignment_errors(checkpoint, seen, reading=True), 4
        )
        [matrix] = word_weights(checkpoint, [toy.translate(SENTENCE)])
        row["weights"] = [" ".join(f"{w:.2f}" for w in line) for line in matrix.tolist()]
    return row


def start_at_dot(model: nn.Module) -> None:
    """Set the matrix of the general score to the identity, so that the score equals dot."""
    weight = model.get_parameter("decoder.attention.key_projection.weight")
    with torch.no_grad():
        weight.copy_(torch.eye(*weight.shape))


def seconds_per_step(models: Sequence[EncoderDecoder], batch: Batch, repeats: int) -> list[float]:
    """Return, for each model, the seconds for loss and gradients of one batch.

    The models take turns, so that other load of the machine affects all of them; the median is
    returned. The gradients are discarded.
    """
    where = device.best()
    times: list[list[float]] = [[] for _ in models]
    for _ in range(repeats):
        for model, taken in zip(models, times, strict=True):
            model.to(where).train()
            started = device.seconds(where)
            teacher_forced_loss(model, batch.to(where)).backward()
            taken.append(device.seconds(where) - started)
            model.zero_grad()
    return [statistics.median(taken) for taken in times]


def _condition(
    attention: AttentionKind,
    decoder: DecoderKind = "luong",
    input_feeding: bool = False,
    start: Start = "random",
) -> Row:
    return {
        "attention": attention,
        "decoder": decoder,
        "input_feeding": input_feeding,
        "start": start,
    }


EXPERIMENT = Experiment(
    name="scores",
    question="How do attention scores differ in translation quality, alignment and speed?",
    conditions=[
        _condition("fixed", "bahdanau"),
        _condition("additive", "bahdanau"),
        _condition("dot"),
        _condition("general"),
        _condition("concat"),
        _condition("location"),
        _condition("local-m"),
        _condition("local-p"),
        _condition("general", start="identity"),
        _condition("dot", input_feeding=True),
        _condition("general", input_feeding=True),
    ],
    measure=measure,
)
