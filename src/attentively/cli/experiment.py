"""``attentively experiment``: run a comparison of the book again."""

from pathlib import Path
from typing import Annotated

import typer

from attentively import experiments

app = typer.Typer(add_completion=False)
NAMES = ", ".join(sorted(experiments.EXPERIMENTS))


@app.command(
    epilog="Examples:\n\nattentively experiment bottleneck --quick\n\n"
    "attentively experiment bottleneck --seeds 5"
)
def experiment(
    name: Annotated[str, typer.Argument(help=f"One of: {NAMES}.")],
    quick: Annotated[bool, typer.Option(help="A small form, to see that it runs.")] = False,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = 3,
    output: Annotated[
        Path | None,
        typer.Option(help="Results file [book/results/NAME.json; runs/NAME-quick.json if quick]."),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder for checkpoints.")] = Path("runs"),
) -> None:
    """Run an experiment and write its results; one that was stopped goes on."""
    chosen = experiments.find(name)
    label = f"{name}-quick" if quick else name
    if output is None:
        output = (runs if quick else Path("book/results")) / f"{label}.json"
    print(chosen.question)
    content = experiments.run(chosen, output, runs / label, seeds=seeds, quick=quick)
    print(f"{len(content['rows'])} rows in {output}")
