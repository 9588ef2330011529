"""Scaling: the effect of more parameters and more text on small character-level language models.

Every size is combined with every amount of text in a separate training run, so that the learning
rate decays to zero at the end of each (Hoffmann et al. 2022, https://arxiv.org/abs/2203.15556). The
predictions are scored in two ways: by character, and as whole strings (Schaeffer, Miranda & Koyejo
2023, https://arxiv.org/abs/2304.15004).
"""

from pathlib import Path

import torch
from torch import nn

from attentively import device
from attentively.experiments.character_models import (
    LENGTH,
    characters,
    fit_to_text,
    held_out_loss,
    vocab_size,
)
from attentively.experiments.runner import Experiment, Row
from attentively.models.configs import LanguageModelConfig
from attentively.models.interface import evaluating
from attentively.models.language_model import LanguageModel

SIZES = (8, 16, 32, 64, 128)
"""Model dimensions; the number of parameters of the layers grows with the square."""
STEPS = (50, 100, 200, 400)
BATCH_SIZE = 16
STRINGS = (1, 2, 4, 6, 8, 12, 16)
"""Lengths of strings, in characters, that must be completely correct."""
TRIED = 50_000
"""Number of characters of the validation text to predict."""


def new_model(d_model: int, seed: int, quick: bool) -> LanguageModel:
    """Return an untrained model of two layers."""
    torch.manual_seed(seed)
    config = LanguageModelConfig(
        vocab_size=vocab_size(quick),
        d_model=d_model,
        num_heads=max(1, d_model // 16),
        d_ff=4 * d_model,
        num_layers=2,
        positions="rotary",
        dropout=0.0,
    )
    return LanguageModel(config).to(device.best())


def learning_rate(d_model: int) -> float:
    """Return the peak learning rate: lower for wider models, not tuned for any."""
    return 0.02 / d_model**0.5


def in_a_row(model: nn.Module, quick: bool) -> list[Row]:
    """Return the accuracy on strings of several lengths, all from the same predictions.

    Each character is predicted from the true prefix. A string is correct if all its characters
    are; then free-running generation gives the same string, as all its inputs are the true ones.
    """
    ids = characters("validation", quick)[: 500 if quick else TRIED]
    count = len(ids) // (LENGTH + 1)
    pieces = ids[: count * (LENGTH + 1)].view(count, LENGTH + 1).to(device.best())
    with evaluating(model):
        said = [model(part[:, :-1]).argmax(dim=-1) for part in pieces.split(128)]
    right = (torch.cat(said) == pieces[:, 1:]).float()
    return [
        {"length": length, "right": float(f"{right.unfold(1, length, 1).prod(-1).mean():.4g}")}
        for length in STRINGS
    ]


def measure(d_model: int, steps: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its loss and its accuracy."""
    del directory  # short enough to restart
    steps = min(steps, 3) if quick else steps
    model = new_model(d_model, seed, quick)
    started = device.seconds(device.best())
    fit_to_text(model, steps, BATCH_SIZE, learning_rate(d_model), seed, quick)
    seconds = device.seconds(device.best()) - started
    weights = sum(parameter.numel() for parameter in model.decoder.layers.parameters())
    tokens = steps * BATCH_SIZE * LENGTH
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "weights_of_layers": weights,
        "tokens": tokens,
        "operations": 6 * weights * tokens,
        "device_seconds": round(seconds, 2),
        "loss": round(float(held_out_loss(model, LENGTH, quick).mean()), 4),
        "in_a_row": in_a_row(model, quick),
    }


EXPERIMENT = Experiment(
    name="scaling",
    question="How does the loss fall with the size of a model and the amount of text?",
    conditions=[{"d_model": d_model, "steps": steps} for d_model in SIZES for steps in STEPS],
    measure=measure,
)
