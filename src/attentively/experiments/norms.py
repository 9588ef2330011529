"""Norms: pre-norm and post-norm in a deep Transformer, with and without a warm-up.

The four conditions differ in two factors: the position of layer normalisation, and the number of
warm-up steps. Everything else is the same, including the initialisation, except for the last
normalisation, which only pre-norm has.
"""

from pathlib import Path

from attentively.config import Norm
from attentively.data import toy
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import new_transformer, origin, scores, train
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1,)
SHAPE = {"num_layers": 6, "d_ff": 128}
"""Six layers on each side, as in the paper, but narrow: the question concerns depth."""
STEPS = 500
WARM_UP = (1, 100)
"""Warm-up steps; with one, the second step already has the peak learning rate."""
LEARNING_RATE = 1e-3


def measure(norm: Norm, warm_up_steps: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its loss curve and the scores of its translations."""
    steps = 4 if quick else STEPS
    checkpoint = new_transformer(seed, origin("norms", seed), norm=norm, dropout=0.0, **SHAPE)
    config = TrainingConfig(
        steps=steps,
        batch_size=32,
        learning_rate=LEARNING_RATE,
        warm_up_steps=warm_up_steps,
        validate_every=max(5, steps // 20),
        seed=seed,
    )
    trainer = train(checkpoint, config, directory, 80 if quick else 5_000, TRAINED_CLAUSES)
    model = checkpoint.model
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": trainer.step,
        "losses": [
            {"step": record["step"], "loss": round(record["validation_loss"], 4)}
            for record in trainer.records
        ],
        **scores(checkpoint, toy.load("test", 4 if quick else 200, clauses=TRAINED_CLAUSES)),
    }


EXPERIMENT = Experiment(
    name="norms",
    question="Does a deep Transformer need a warm-up, if it normalises before each sub-layer?",
    conditions=[
        {"norm": norm, "warm_up_steps": steps} for norm in ("pre", "post") for steps in WARM_UP
    ],
    measure=measure,
)
