"""Record the training runs that assignment 16 asks to diagnose; most have a planted fault.

python tools/record_runs.py                          record all runs (some minutes on one core)
python tools/record_runs.py --quick --target FILE    two updates, with the first setting only

The default target is `src/attentively/checks/training_the_transformer/recorded_runs.json`.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attentively.data import toy
from attentively.data.batches import Batch, Example, collate, encode_pairs
from attentively.experiments.toy_translation import as_text, new_transformer
from attentively.generation.search import greedy_search
from attentively.models import transformer
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import evaluating
from attentively.tokens.vocabulary import END_ID, PAD_ID
from attentively.training.losses import cross_entropy
from attentively.training.trainer import validation_loss

TARGET = (
    Path(__file__).resolve().parents[1]
    / "src/attentively/checks/training_the_transformer/recorded_runs.json"
)
FAULTS = ("none", "no causal mask", "no target shift", "overfitting", "learning rate too high",
          "gradients not zeroed", "padding in the loss")  # fmt: skip
ROWS = 10
SETTINGS: list[dict[str, Any]] = [
    {"seed": 0, "clauses": (1,), "smoothing": 0.1, "steps": 400, "d_model": 32},
    {"seed": 2, "clauses": (1,), "smoothing": 0.0, "steps": 300, "d_model": 48},
    {"seed": 4, "clauses": (1,), "smoothing": 0.0, "steps": 450, "d_model": 24},
]
"""The fault "padding in the loss" always runs without label smoothing, which would hide it."""


def everything_seen(length: int, *_: Any, **__: Any) -> Tensor:
    """Return a mask that hides nothing, in place of the causal mask."""
    return torch.ones(1, length, length, dtype=torch.bool)


@contextmanager
def spoiled(fault: str) -> Iterator[None]:
    """Remove the causal mask if that is the fault."""
    if fault == "no causal mask":
        with mock.patch.object(transformer, "causal_mask", everything_seen):
            yield
    else:
        yield


def training_loss(model: Any, batch: Batch, fault: str, smoothing: float) -> Tensor:
    """Return the loss of a step, with its fault."""
    src, tgt = batch
    labels = tgt[:, 1:]
    inputs = labels if fault == "no target shift" else tgt[:, :-1]
    logits = model(src, inputs)
    if fault == "padding in the loss":
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return cross_entropy(logits, labels, PAD_ID, smoothing)


def accuracy(model: Any, batch: Batch) -> float:
    """Return the token accuracy with teacher forcing."""
    with evaluating(model):
        logits = model(batch.src, batch.tgt[:, :-1])
    labels = batch.tgt[:, 1:]
    right = logits.argmax(dim=-1) == labels
    return float(right[labels != PAD_ID].float().mean())


def exact(model: Any, batch: Batch) -> float:
    """Return the exact-match rate of greedy translations."""
    with evaluating(model):
        found = greedy_search(model, batch.src, batch.tgt.size(1) + 5)
    true = [[i for i in row[1:] if i not in (PAD_ID, END_ID)] for row in batch.tgt.tolist()]
    right = [hypothesis.ids == ids for hypothesis, ids in zip(found, true, strict=True)]
    return sum(right) / len(right)


def examples(
    checkpoint: Checkpoint, split: str, number: int, clauses: Sequence[int]
) -> list[Example]:
    """Return sentences as ids."""
    _, *tokenizers = checkpoint.translator()
    return encode_pairs(as_text(toy.load(split, number, clauses=clauses)), *tokenizers)


def record(
    fault: str, seed: int, clauses: tuple[int, ...], smoothing: float, steps: int, d_model: int
) -> list[dict[str, int | float]]:
    """Train a small Transformer with a fault; return its log, one row per tenth of the run."""
    checkpoint = new_transformer(
        seed, d_model=d_model, num_heads=4, d_ff=2 * d_model, num_layers=1, dropout=0.0
    )
    model: Any = checkpoint.model
    train = examples(checkpoint, "train", 48 if fault == "overfitting" else 4000, clauses)
    held_out = examples(checkpoint, "validation", 200, clauses)
    peak = 0.3 if fault == "learning rate too high" else 1e-2
    optimizer = torch.optim.Adam(model.parameters(), lr=peak, betas=(0.9, 0.98))
    generator = random.Random(seed)
    rows: list[dict[str, int | float]] = []
    losses: list[float] = []
    norms: list[float] = []
    with spoiled(fault):
        for step in range(1, steps + 1):
            rate = peak * min(step / 30, (30 / step) ** 0.5)
            optimizer.param_groups[0]["lr"] = rate
            batch = collate(generator.choices(train, k=32))
            model.train()
            if fault != "gradients not zeroed":
                optimizer.zero_grad()
            loss = training_loss(model, batch, fault, smoothing)
            loss.backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), math.inf)))
            optimizer.step()
            losses.append(loss.item())
            if step % max(1, steps // ROWS) == 0:
                test = collate(held_out)
                rows.append(
                    {
                        "step": step,
                        "train_loss": round(sum(losses) / len(losses), 3),
                        "validation_loss": round(validation_loss(model, held_out), 3),
                        "accuracy": round(accuracy(model, test), 3),
                        "exact": round(exact(model, test), 3),
                        "gradient_norm": round(sum(norms) / len(norms), 3),
                    }
                )
                losses, norms = [], []
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the runs; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="two updates, with the first setting only"
    )
    parser.add_argument("--target", type=Path, default=TARGET, help="the file to write")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    runs = []
    for settings in SETTINGS[:1] if options.quick else SETTINGS:
        for fault in FAULTS:
            log = record(fault, **settings | ({"steps": 2} if options.quick else {}))
            runs.append({"fault": fault, "log": log})
            print(fault, settings, log[-1], flush=True)
    lines = ",\n".join(map(json.dumps, runs))
    options.target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
