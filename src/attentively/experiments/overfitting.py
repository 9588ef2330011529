"""Overfitting: a Transformer trained on few sentences, with and without regularisation.

All runs have the same initialisation, schedule and number of updates. Both losses of a curve are
measured in the same way, without dropout and without label smoothing, so that they can be compared.
"""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from attentively import device
from attentively.data import toy
from attentively.data.batches import encode_pairs
from attentively.experiments.faults import batches, foresight, judge
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text, new_transformer
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import PAD_ID
from attentively.training.losses import cross_entropy
from attentively.training.schedules import inverse_square_root

TRAINED_CLAUSES = (1,)
TRAIN_PAIRS = 400
STEPS = 400
WARM_UP_STEPS = 40
LEARNING_RATE = 5e-3
CLIP_NORM = 1.0
POINTS = 20
"""Evaluations of a run."""
CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "label smoothing 0.1": {"label_smoothing": 0.1},
    "dropout 0.3": {"dropout": 0.3},
    "L2 penalty 0.0001": {"l2": 1e-4},
    "L2 penalty 0.001": {"l2": 1e-3},
    "weight decay 0.1": {"weight_decay": 0.1},
    "weight decay 1": {"weight_decay": 1.0},
    "more data": {"train_pairs": 8_000},
}
"""The change of each condition. All conditions but the last have the same training sentences."""


def new_optimizer(
    parameters: Iterable[nn.Parameter], weight_decay: float = 0.0, l2: float = 0.0
) -> torch.optim.Optimizer:
    """Return AdamW, or Adam if the gradient of an L2 penalty is to be added to the gradients.

    Only matrices decay: not the biases, nor the gains of layer normalisation.
    """
    parameters = list(parameters)
    groups: list[dict[str, Any]] = [
        {"params": [each for each in parameters if each.dim() > 1]},
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.Adam if l2 else torch.optim.AdamW
    return kind(groups, betas=(0.9, 0.98), eps=1e-9, weight_decay=l2 or weight_decay)


def measure(regularisation: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its learning curve, and its scores at the best and the last step."""
    changes = CHANGES[regularisation]
    steps, number = (4, 10) if quick else (STEPS, 200)
    train_pairs = 40 if quick else changes.get("train_pairs", TRAIN_PAIRS)
    checkpoint = new_transformer(seed, dropout=changes.get("dropout", 0.0))
    checkpoint.model.to(device.best())
    _, *tokenizers = checkpoint.translator()
    examples, validation = (
        encode_pairs(as_text(toy.load(split, count, clauses=TRAINED_CLAUSES)), *tokenizers)
        for split, count in (("train", train_pairs), ("validation", number))
    )
    test = toy.load("test", number, clauses=TRAINED_CLAUSES)
    model = cast(Transformer, checkpoint.model)
    optimizer = new_optimizer(
        model.parameters(), changes.get("weight_decay", 0.0), changes.get("l2", 0.0)
    )
    torch.manual_seed(seed)
    curve: list[Row] = []
    best = copy.deepcopy(model.state_dict())
    for step, batch in enumerate(batches(examples, seed, steps, device.best())):
        rate = LEARNING_RATE * inverse_square_root(step, steps, WARM_UP_STEPS)
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        src, tgt = batch
        logits = model(src, tgt[:, :-1])
        loss = cross_entropy(logits, tgt[:, 1:], PAD_ID, changes.get("label_smoothing", 0.0))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        if (step + 1) % max(1, steps // POINTS) == 0:
            seen, unseen = (foresight(model, each) for each in (examples[:number], validation))
            if not curve or unseen.loss < min(point["validation_loss"] for point in curve):
                best = copy.deepcopy(model.state_dict())
            curve.append(
                {
                    "step": step + 1,
                    "train_loss": round(seen.loss, 4),
                    "validation_loss": round(unseen.loss, 4),
                    "validation_accuracy": round(unseen.accuracy, 4),
                }
            )
    last_match = judge(checkpoint, test)["exact_match"]
    model.load_state_dict(best)
    return {
        "train_pairs": len(examples),
        "curve": curve,
        "exact_match_last": last_match,
        "exact_match_best": judge(checkpoint, test)["exact_match"],
    }


EXPERIMENT = Experiment(
    name="overfitting",
    question="How does a Transformer overfit, and what does each kind of regularisation change?",
    conditions=[{"regularisation": change} for change in CHANGES],
    measure=measure,
)
