"""The bottleneck: translation quality by sentence length, with and without attention.

Both models have the same encoder and the same decoder; only the context vector differs. They are
trained on sentences of one to three clauses and also evaluated on longer ones.
"""

from pathlib import Path

from attentively.data import toy
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import (
    TRAINED_CLAUSES,
    alignment_errors,
    new_checkpoint,
    origin,
    scores_by_clauses,
    train,
)
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import AttentionKind
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

CLAUSES = (1, 2, 3, 4, 5, 6)
BUDGETS = (600, 2000)
"""Training steps."""


def train_model(
    attention: AttentionKind, steps: int, seed: int, quick: bool, directory: Path
) -> tuple[Checkpoint, Trainer]:
    """Train one model of the comparison, or resume its run if the directory contains one."""
    steps = 4 if quick else steps
    checkpoint = new_checkpoint(attention, seed, origin("bottleneck", seed))
    config = TrainingConfig(
        steps=steps, learning_rate=6e-3, validate_every=max(10, steps // 12), seed=seed
    )
    trainer = train(checkpoint, config, directory, train_pairs=80 if quick else 20_000)
    return checkpoint, trainer


def measure(attention: AttentionKind, steps: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model, and evaluate it by the number of clauses."""
    checkpoint, trainer = train_model(attention, steps, seed, quick, directory)
    test_sentences = 4 if quick else 200
    tests = {n: toy.load("test", test_sentences, clauses=(n,)) for n in CLAUSES}
    row: Row = {
        "parameters": sum(parameter.numel() for parameter in checkpoint.model.parameters()),
        "training_steps": trainer.step,
        "training_seconds": round(trainer.seconds, 1),
        "validation_loss": min(record["validation_loss"] for record in trainer.records),
        "by_clauses": scores_by_clauses(checkpoint, tests, TRAINED_CLAUSES),
    }
    if attention != "fixed":
        seen = [pair for n in TRAINED_CLAUSES for pair in tests[n]]
        row["alignment_error_rate"] = round(alignment_errors(checkpoint, seen), 4)
    return row


EXPERIMENT = Experiment(
    name="bottleneck",
    question="How does translation quality fall with length, with and without attention?",
    conditions=[
        {"attention": attention, "steps": steps}
        for steps in BUDGETS
        for attention in ("fixed", "additive")
    ],
    measure=measure,
)
