"""The options of commands that draw a text from a model's probabilities."""

from typing import Annotated

import torch
import typer

from attentively.config import check_seed
from attentively.generation.search import Sampling
from attentively.models.checkpoints import Checkpoint

Temperature = Annotated[
    float, typer.Option(help="Below 1 the likely tokens get likelier; above 1, rarer.")
]
TopK = Annotated[int | None, typer.Option(help="Draw among so many likeliest tokens only.")]
TopP = Annotated[
    float | None, typer.Option(help="Draw among the likeliest tokens that make up this share.")
]
Seed = Annotated[int, typer.Option(help="Settles what is drawn.")]


def sampling(
    checkpoint: Checkpoint,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    samples: int = 1,
) -> Sampling:
    """Return how to draw, from a generator on the model's own device."""
    check_seed(seed)
    where = next(checkpoint.model.parameters()).device
    generator = torch.Generator(where).manual_seed(seed)
    return Sampling(temperature, top_k, top_p, samples, generator)
