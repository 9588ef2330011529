"""The options of commands that sample a text from a model's probabilities."""

from typing import Annotated

import torch
import typer

from attentively.config import check_seed
from attentively.generation.search import Sampling
from attentively.models.checkpoints import Checkpoint

Temperature = Annotated[
    float,
    typer.Option(
        help="Sampling temperature: below 1, probable tokens become more probable; above 1, less."
    ),
]
TopK = Annotated[
    int | None, typer.Option(help="Top-k sampling: sample from the k most probable tokens only.")
]
TopP = Annotated[
    float | None,
    typer.Option(
        help="Nucleus sampling: sample from the smallest set of most probable tokens whose "
        "probabilities sum to at least this value."
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of the sampling.")]


def sampling(
    checkpoint: Checkpoint,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    samples: int = 1,
) -> Sampling:
    """Return the sampling settings, with a generator on the CPU, independent of the device."""
    check_seed(seed)
    return Sampling(temperature, top_k, top_p, samples, torch.Generator().manual_seed(seed))
