"""Output projection: multi-head attention with a learned output projection, and without one.

In the second condition the output projection of each attention is fixed to the identity matrix, so
the concatenated heads are the output. Data, steps and the initialisation of all other parameters
are the same.
"""

from pathlib import Path
from typing import Literal

import torch
from torch import nn

from attentively.attention.multi_head import MultiHeadAttention
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.experiments.heads import CLAUSES, LEARNING_RATE, STEPS, TRAINED_CLAUSES, read
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import (
    as_text,
    new_transformer,
    origin,
    scores_by_clauses,
    train,
)
from attentively.training.training_config import TrainingConfig

OutputProjection = Literal["learned", "identity"]


def measure(output_projection: OutputProjection, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its loss with teacher forcing and the scores of its translations."""
    steps = 4 if quick else STEPS
    checkpoint = new_transformer(seed, origin("output-projection", seed), dropout=0.0)
    model, *tokenizers = checkpoint.translator()
    if output_projection == "identity":
        fix_output_projections(model)
    config = TrainingConfig(
        steps=steps, learning_rate=LEARNING_RATE, validate_every=max(10, steps // 4), seed=seed
    )
    train_pairs = 80 if quick else 10_000
    trainer = train(checkpoint, config, directory, train_pairs, clauses=TRAINED_CLAUSES)
    tests = {n: toy.load("test", 4 if quick else 100, clauses=(n,)) for n in CLAUSES}
    seen = [pair for n in TRAINED_CLAUSES for pair in tests[n]]
    found = read(model, collate(encode_pairs(as_text(seen), *tokenizers)))
    return {
        "learned_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "training_steps": trainer.step,
        "loss": round(found.loss, 5),
        "by_clauses": scores_by_clauses(checkpoint, tests, TRAINED_CLAUSES),
    }


def fix_output_projections(model: nn.Module) -> None:
    """Set every output projection to the identity, without a bias, and exclude it from training."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            with torch.no_grad():
                nn.init.eye_(module.output_projection.weight)
                nn.init.zeros_(module.output_projection.bias)
            module.output_projection.requires_grad_(False)


EXPERIMENT = Experiment(
    name="output-projection",
    question="What does the output projection of multi-head attention add?",
    conditions=[{"output_projection": kind} for kind in ("learned", "identity")],
    measure=measure,
)
