"""The ladder: a comparison of models from a fixed context to the Transformer.

Every model (rung) is trained on the same pairs in the same batches for the same number of updates.
The models differ in their architecture and their learning rate: the Transformer has that of the
experiments of chapters 13 and 14, the others that of chapter 09.
"""

from collections.abc import Sequence
from pathlib import Path

from attentively import device
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.experiments.rungs import RUNGS
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.scores import seconds_per_step
from attentively.experiments.toy_translation import (
    alignment_errors,
    as_text,
    head_alignment_errors,
    new_checkpoint,
    new_transformer,
    origin,
    train,
)
from attentively.models.checkpoints import Checkpoint
from attentively.scoring.evaluation import Evaluation, evaluate
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1, 2)
CLAUSES = (1, 2, 3, 4)
STEPS = 500
BATCH_SIZE = 64
BEAM_SIZES = {"greedy": 1, "beam 5": 5}
LEARNING_RATES = {rung: 3e-3 if rung == "transformer" else 1e-2 for rung in RUNGS}
"""Peak learning rate of each model."""


def new_model(rung: str, seed: int) -> Checkpoint:
    """Return the untrained model of a rung; an unknown rung raises `ValueError`."""
    provenance = origin("ladder", seed)
    match rung:
        case "transformer":
            return new_transformer(seed, provenance, dropout=0.0)
        case "fixed" | "additive":
            return new_checkpoint(rung, seed, provenance)
        case "dot" | "general" | "concat":
            return new_checkpoint(rung, seed, provenance, decoder="luong")
    raise ValueError(f"rung={rung!r} is unknown: choose one of {', '.join(RUNGS)}")


def measure(rung: str, data: str, decoding: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model, or reuse it if the other decoding has trained it; evaluate it."""
    steps = 4 if quick else STEPS
    checkpoint = new_model(rung, seed)
    model, *tokenizers = checkpoint.translator()
    texts = as_text(toy.load("train", BATCH_SIZE, clauses=TRAINED_CLAUSES))
    seconds, of_dot = seconds_per_step(
        [model, new_model("dot", seed).translator().model],
        collate(encode_pairs(texts, *tokenizers)),
        repeats=1 if quick else 9,
    )
    config = TrainingConfig(
        steps=steps,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATES[rung],
        validate_every=max(10, steps // 5),
        seed=seed,
    )
    trained = directory.parent / f"{rung}-{data}-seed{seed}"
    trainer = train(checkpoint, config, trained, 80 if quick else 10_000, TRAINED_CLAUSES)
    held_out = {n: toy.load("test", 3 if quick else 100, clauses=(n,)) for n in CLAUSES}
    seen = [pair for n in TRAINED_CLAUSES for pair in held_out[n]]
    beam_size = BEAM_SIZES[decoding]
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": trainer.step,
        "batch_size": BATCH_SIZE,
        "learning_rate": LEARNING_RATES[rung],
        "training_seconds": round(trainer.seconds, 1),
        "seconds_per_step": round(seconds, 4),
        "seconds_per_step_of_dot": round(of_dot, 4),
        "device": device.describe(device.best()),
        **_scores(evaluate(checkpoint, as_text(seen), beam_size)),
        **_alignment(rung, checkpoint, seen, 5 if quick else 100),
        "by_clauses": [
            {
                "clauses": n,
                "seen_in_training": n in TRAINED_CLAUSES,
                **_scores(evaluate(checkpoint, as_text(pairs), beam_size)),
            }
            for n, pairs in held_out.items()
        ],
    }


def _scores(found: Evaluation) -> Row:
    words = sum(len(source.split()) for source in found.sources)
    return {
        "sentences": found.sentences,
        "mean_words": round(words / found.sentences, 1),
        "perplexity": round(found.perplexity, 3),
        "bleu": round(found.sacrebleu, 2),
        "signature": found.signature,
        "chrf": round(found.sacrebleu_chrf, 2),
        "exact_match": round(found.exact_match, 4),
    }


def _alignment(
    rung: str, checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair], validation_pairs: int
) -> Row:
    """Return the alignment error rates of the largest attention weights.

    A Transformer's weights are averaged over all heads; the head that is best on validation
    sentences is reported as well.
    """
    found: Row = {"alignment_error_rate": None, "best_head": None}
    if rung != "fixed":
        found["alignment_error_rate"] = round(alignment_errors(checkpoint, pairs), 4)
    if rung == "transformer":
        validation = toy.load("validation", validation_pairs, clauses=TRAINED_CLAUSES)
        on_validation = head_alignment_errors(checkpoint, validation)
        best = min(on_validation, key=lambda head: on_validation[head])
        found["best_head"] = {
            "layer": best[0] + 1,
            "head": best[1] + 1,
            "alignment_error_rate": round(head_alignment_errors(checkpoint, pairs)[best], 4),
        }
    return found


EXPERIMENT = Experiment(
    name="ladder",
    question="What does each step from a fixed context to the Transformer improve?",
    conditions=[
        {"rung": rung, "data": "toy", "decoding": decoding}
        for rung in RUNGS
        for decoding in BEAM_SIZES
    ],
    measure=measure,
)
