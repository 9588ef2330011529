"""The options of commands that sample a text from a model's probabilities."""

from typing import Annotated

import typer

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
