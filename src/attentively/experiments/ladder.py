"""The ladder: from a fixed context to the Transformer, on the same sentences.

Every rung sees the same pairs in the same batches for the same number of updates. What differs
is the model, and its learning rate: the Transformer has that of the experiments of chapters 13
and 14, the others that of chapter 09's.
"""

from pathlib import Path

from attentively import device
from attentively.checkpoints import Checkpoint
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.evaluation import Evaluation, evaluate
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.scores import seconds_per_step
from attentively.experiments.toy_translation import (
    as_text,
    new_checkpoint,
    new_transformer,
    origin,
    train,
)
from attentively.training import TrainingConfig

TRAINED_CLAUSES = (1, 2)
CLAUSES = (1, 2, 3, 4)
STEPS = 500
BATCH_SIZE = 64
BEAM_SIZES = {"greedy": 1, "beam 5": 5}
RUNGS = ("fixed", "additive", "dot", "general", "concat", "transformer")
LEARNING_RATES = {rung: 3e-3 if rung == "transformer" else 1e-2 for rung in RUNGS}
"""The highest of each rung's schedule."""


def new_model(rung: str, seed: int) -> Checkpoint:
    """Return the untrained model of a rung."""
    provenance = origin("ladder", seed)
    match rung:
        case "transformer":
            return new_transformer(seed, provenance, dropout=0.0)
        case "fixed" | "additive":
            return new_checkpoint(rung, seed, provenance)
        case "dot" | "general" | "concat":
            return new_checkpoint(rung, seed, provenance, decoder="luong")
    raise ValueError(f"rung={rung!r} is unknown: choose of {', '.join(RUNGS)}")


def measure(rung: str, data: str, decoding: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model, or take it as it was trained for the other decoding; score it."""
    steps = 10 if quick else STEPS
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
    trainer = train(checkpoint, config, trained, 200 if quick else 10_000, TRAINED_CLAUSES)
    tests = {n: as_text(toy.load("test", 3 if quick else 100, clauses=(n,))) for n in CLAUSES}
    seen = [pair for n in TRAINED_CLAUSES for pair in tests[n]]
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
        **_scores(evaluate(checkpoint, seen, beam_size)),
        "by_clauses": [
            {
                "clauses": n,
                "seen_in_training": n in TRAINED_CLAUSES,
                **_scores(evaluate(checkpoint, pairs, beam_size)),
            }
            for n, pairs in tests.items()
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


EXPERIMENT = Experiment(
    name="ladder",
    question="What does each step from a fixed context to the Transformer bring?",
    conditions=[
        {"rung": rung, "data": "toy", "decoding": decoding}
        for rung in RUNGS
        for decoding in BEAM_SIZES
    ],
    measure=measure,
)
