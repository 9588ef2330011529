"""``attentively experiment``: run a comparison of the book again."""

import re
from pathlib import Path
from typing import Annotated

import typer

from attentively import experiments
from attentively.atomic_files import check_replaceable
from attentively.experiments.ladder import RUNGS
from attentively.experiments.real_ladder import table

app = typer.Typer(add_completion=False)
NAMES = ", ".join(sorted(experiments.EXPERIMENTS))


@app.command(
    epilog="Examples:\n\nattentively experiment bottleneck --quick\n\n"
    "attentively experiment bottleneck --seeds 5\n\n"
    "attentively experiment ladder --data multi30k-en-de --rungs additive,transformer --seeds 1"
)
def experiment(
    name: Annotated[str, typer.Argument(help=f"One of: {NAMES}.")],
    quick: Annotated[bool, typer.Option(help="A small form, to see that it runs.")] = False,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = 3,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Results file; by default book/results/NAME.json, runs/NAME-quick.json if quick."
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder for checkpoints.")] = Path("runs"),
    data: Annotated[
        str | None,
        typer.Option(
            help="Of the ladder: sentence pairs to train on instead of the toy language, such as "
            "multi30k-en-de, multi30k-de-en, tatoeba-en-fr, or files of yours."
        ),
    ] = None,
    rungs: Annotated[
        str | None,
        typer.Option(help=f"Of the ladder on such data: some of {','.join(RUNGS)}."),
    ] = None,
    change: Annotated[
        str | None,
        typer.Option(
            help="Of the ladder on such data: what to change in how all are trained, such as "
            "steps=24000,dropout=0.1."
        ),
    ] = None,
    shipped: Annotated[
        bool,
        typer.Option(
            "--shipped", help="Of the ladder on such data: score the shipped models, train none."
        ),
    ] = False,
) -> None:
    """Run an experiment and write its results; one that was stopped goes on."""
    chosen = experiments.find(name, data, rungs and rungs.split(","), shipped, change)
    label = name
    if data is not None:  # all of it, for two files of one name may lie in two folders
        label += "-" + re.sub(r"[^\w-]+", "-", data).strip("-")
    label += "-quick" * quick
    if output is None:
        output = (runs if quick else Path("book/results")) / f"{label}.json"
    check_replaceable(output)
    print(chosen.question)
    content = experiments.run(chosen, output, runs / label, seeds=seeds, quick=quick)
    print(f"{len(content['rows'])} rows in {output}")
    if data is not None:
        print(table(content["rows"]))
