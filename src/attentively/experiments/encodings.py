"""Encodings: six positional encodings of a small language model, on texts longer than in training.

`delay`: at every letter of a random string, predict the letter a fixed number of positions before.
`language`: predict the next character of a play. Both are trained on short texts and evaluated on
longer ones (length extrapolation), as by Press, Smith & Lewis (2022),
https://arxiv.org/abs/2108.12409.
"""

import itertools
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attentively import device
from attentively.experiments.character_models import (
    LENGTH,
    fit,
    fit_to_text,
    held_out_loss,
    vocab_size,
)
from attentively.experiments.runner import Experiment, Row
from attentively.models.configs import LanguageModelConfig, Positions
from attentively.models.interface import evaluating
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import SPECIAL_TOKENS

Task = Literal["delay", "language"]
SHAPE: dict[str, Any] = {
    "d_model": 32,
    "num_heads": 4,
    "d_ff": 128,
    "num_layers": 2,
    "dropout": 0.0,
}
STEPS = 300
LEARNING_RATE = 4e-3
LETTERS = 26
DELAY = 5
"""Distance, in positions, of the letter to predict."""
DELAY_LENGTH = 32
TRAINED = {"delay": DELAY_LENGTH, "language": LENGTH}
"""Length of the texts in training."""
TESTED = {"delay": 256, "language": 512}
PLACES = (1, 17, 33, 65, 129, 257, 513)
"""First positions of consecutive groups of positions."""


def strings(count: int, length: int, generator: torch.Generator) -> Int[Tensor, "count length"]:
    """Return random strings of letters."""
    first = len(SPECIAL_TOKENS)
    return torch.randint(first, first + LETTERS, (count, length), generator=generator)


def delayed(
    model: nn.Module, ids: Int[Tensor, "count length"]
) -> Float[Tensor, "count letters asked"]:
    """Return the logits at every position with a letter `DELAY` positions before."""
    return model(ids)[:, DELAY:].transpose(1, 2)


def new_model(task: Task, positions: Positions, seed: int, quick: bool) -> LanguageModel:
    """Return an untrained model; learned embeddings cover every evaluated position."""
    torch.manual_seed(seed)
    size = len(SPECIAL_TOKENS) + LETTERS if task == "delay" else vocab_size(quick)
    config = LanguageModelConfig(
        vocab_size=size, positions=positions, max_len=TESTED[task], **SHAPE
    )
    return LanguageModel(config).to(device.best())


def train(model: LanguageModel, task: Task, steps: int, seed: int, quick: bool) -> None:
    """Train on short texts for `steps` updates."""
    if task == "language":
        fit_to_text(model, steps, 16, LEARNING_RATE, seed, quick)
        return
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        ids = strings(32, DELAY_LENGTH, generator).to(device.best())
        return nn.functional.cross_entropy(delayed(model, ids), ids[:, :-DELAY])

    fit(model, loss, steps, LEARNING_RATE)


def measure(task: Task, positions: Positions, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its scores by groups of positions."""
    del directory  # short enough to restart
    steps = 3 if quick else STEPS
    model = new_model(task, positions, seed, quick)
    started = device.seconds(device.best())
    train(model, task, steps, seed, quick)
    row: Row = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": steps,
        "trained_length": TRAINED[task],
        "device_seconds": round(device.seconds(device.best()) - started, 2),
    }
    length = TRAINED[task] * 2 if quick else TESTED[task]
    if task == "language":
        found, name = held_out_loss(model, length, quick), "loss"
    else:
        generator = torch.Generator().manual_seed(1000 + seed)
        ids = strings(4 if quick else 100, length, generator).to(device.best())
        with evaluating(model):
            right = delayed(model, ids).argmax(dim=1) == ids[:, :-DELAY]
        found, name = right.float().mean(dim=0).cpu(), "accuracy"
        found = torch.cat([torch.full((DELAY,), torch.nan), found])
    row["by_place"] = [
        {
            "from": first,
            "to": last - 1,
            name: round(float(found[first - 1 : last - 1].nanmean()), 4),
        }
        for first, last in itertools.pairwise(PLACES)
        if last - 1 <= length
    ]
    return row


EXPERIMENT = Experiment(
    name="encodings",
    question="How well do six positional encodings extrapolate to texts longer than in training?",
    conditions=[
        {"task": task, "positions": positions}
        for task in get_args(Task)
        for positions in get_args(Positions)
    ],
    measure=measure,
)
