"""The recipe: ablations of the Transformer's training recipe.

The base is a small version of the paper's section 5: batches by tokens, Adam with the paper's
hyperparameters, a warm-up, label smoothing. Gradient clipping is added, which the paper does not
mention.
"""

import math
from pathlib import Path
from typing import Any, cast

from attentively.data import toy
from attentively.data.batches import encode_pairs
from attentively.experiments.faults import foresight
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import (
    as_text,
    new_transformer,
    origin,
    scores_by_clauses,
    train,
)
from attentively.models.transformer import Transformer
from attentively.training.run_folder import best_record
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1,)
STEPS = 400
BASE: dict[str, Any] = {
    "tokens_per_batch": 256,
    "learning_rate": 5e-3,
    "schedule": "inverse_square_root",
    "warm_up_steps": 80,
    "beta2": 0.98,
    "epsilon": 1e-9,
    "clip_norm": 1.0,
    "label_smoothing": 0.1,
}
CHANGES: dict[str, dict[str, Any]] = {
    "base": {},
    "no smoothing": {"label_smoothing": 0.0},
    "beta2 0.999": {"beta2": 0.999},
    "no clipping": {"clip_norm": 1e6},
    "averaging": {"average_last": 5},
    "one cycle": {"schedule": "one_cycle"},
    "one cycle, no warm-up": {"schedule": "one_cycle", "warm_up_steps": 1},
}
"""The changes of each condition. Without its warm-up, the paper's schedule would also be much lower
from the first step on, so the warm-up is removed from another schedule."""


def measure(change: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its predictive scores and the scores of its translations."""
    steps = 4 if quick else STEPS
    checkpoint = new_transformer(seed, origin("recipe", seed))
    settings = {**BASE, **CHANGES[change]}
    config = TrainingConfig(steps=steps, validate_every=max(1, steps // 16), seed=seed, **settings)
    trainer = train(checkpoint, config, directory, 80 if quick else 8_000, TRAINED_CLAUSES)
    _, *tokenizers = checkpoint.translator()
    number = 4 if quick else 200
    tests = {clauses: toy.load("test", number, clauses=(clauses,)) for clauses in TRAINED_CLAUSES}
    pairs = [pair for found in tests.values() for pair in found]
    seen = foresight(cast(Transformer, checkpoint.model), encode_pairs(as_text(pairs), *tokenizers))
    return {
        "losses": [
            {"step": record["step"], "loss": round(record["validation_loss"], 4)}
            for record in trainer.records
        ],
        "averaged": "averaged" in best_record(trainer.records),
        "loss": round(seen.loss, 4),
        "perplexity": round(math.exp(seen.loss), 4),
        "accuracy": round(seen.accuracy, 4),
        "confidence": round(seen.confidence, 4),
        "by_clauses": scores_by_clauses(checkpoint, tests, TRAINED_CLAUSES),
    }


EXPERIMENT = Experiment(
    name="recipe",
    question="What does each ingredient of the Transformer's training do?",
    conditions=[{"change": change} for change in CHANGES],
    measure=measure,
)
