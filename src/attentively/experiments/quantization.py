"""Quantisation: what rounding the weights of two trained models to 8 or 4 bits costs.

Only the weights of linear layers are rounded, after training. `outliers` names a model whose
query and key projections were rescaled so that one row is much larger than the others; in floating
point it computes the same as before.
"""

import functools
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from attentively import device
from attentively.attention.multi_head import MultiHeadAttention
from attentively.data import tatoeba, text, toy
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text
from attentively.layers.quantized import quantize_linears
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.scoring.evaluation import evaluate, evaluate_language_model

Scales = Literal["none", "matrix", "row"]
FACTOR = 256.0
"""A power of two: floating-point products with it are exact."""
LANGUAGE_MODEL = "shakespeare-gpt"
TRANSLATOR = "tatoeba-en-fr-transformer"
QUICK = {LANGUAGE_MODEL: LANGUAGE_MODEL, TRANSLATOR: "toy-transformer"}


def measure(
    model: str,
    outliers: bool,
    scales: Scales,
    bits: int,
    seed: int,
    quick: bool,
    directory: Path,
) -> Row:
    """Quantise one pretrained model and evaluate it; the seed is the row with outliers."""
    del directory
    return _measured(model, seed if outliers else None, scales, bits, quick)


@functools.cache  # without outliers, the seeds are the same
def _measured(model: str, outliers: int | None, scales: Scales, bits: int, quick: bool) -> Row:
    checkpoint = load_pretrained(QUICK[model] if quick else model, device.best())
    if outliers is not None:
        with_outliers(checkpoint.model, outliers)
    if scales != "none":
        quantize_linears(checkpoint.model, scales == "row", bits)
    return {"stored_bytes": stored_bytes(checkpoint.model)} | _scores(checkpoint, model, quick)


def with_outliers(model: nn.Module, row: int = 0, factor: float = FACTOR) -> None:
    """Multiply one query feature of every attention by `factor`, and divide its key feature by it.

    `row` is the row of the projections that compute the feature. Every score is the same as before.
    """
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for layer, by in (
                (module.query_projection, factor),
                (module.key_projection, 1 / factor),
            ):
                with torch.no_grad():
                    for parameter in layer.parameters():
                        parameter[row] *= by


def stored_bytes(model: nn.Module) -> int:
    """Return the size of a model's state in bytes; shared tensors count once."""
    return sum({t.data_ptr(): t.nbytes for t in model.state_dict().values()}.values())


def _scores(checkpoint: Checkpoint, model: str, quick: bool) -> Row:
    if model == LANGUAGE_MODEL:
        plays = "But soft, what light\n" * 9 if quick else text.shakespeare("test")
        return {"loss": evaluate_language_model(checkpoint, plays).loss}
    pairs = as_text(toy.load("test", 3)) if quick else tatoeba.load("test")
    found = evaluate(checkpoint, pairs)
    return {"perplexity": found.perplexity, "bleu": found.bleu, "exact_match": found.exact_match}


_ROUNDED: list[tuple[bool, Scales, int]] = [
    (False, "none", 32),
    (False, "matrix", 8),
    (False, "row", 8),
    (False, "matrix", 4),
    (False, "row", 4),
    (True, "none", 32),
    (True, "matrix", 8),
    (True, "row", 8),
]
EXPERIMENT = Experiment(
    name="quantization",
    question="What does rounding the weights to 8 or 4 bits cost, with a scale per matrix or row?",
    conditions=[
        {"model": model, "outliers": outliers, "scales": scales, "bits": bits}
        for model in (LANGUAGE_MODEL, TRANSLATOR)
        for outliers, scales, bits in _ROUNDED
    ],
    measure=measure,
)
