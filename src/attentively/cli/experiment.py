"""``attentively experiment``: reproduce an experiment of the book."""

import re
from pathlib import Path
from typing import Annotated

import typer

from attentively import experiments
from attentively.atomic_files import check_replaceable
from attentively.experiments.rungs import RUNGS

app = typer.Typer(add_completion=False)
NAMES = ", ".join(sorted(experiments.EXPERIMENTS))


@app.command(
    epilog="Examples:\n\nattentively experiment bottleneck --quick\n\n"
    "attentively experiment bottleneck --seeds 5\n\n"
    "attentively experiment ladder --data multi30k-en-de --rungs additive,transformer --seeds 1"
)
def experiment(
    name: Annotated[str, typer.Argument(help=f"Name of the experiment: {NAMES}.")],
    quick: Annotated[
        bool, typer.Option(help="Run a small version, to check that it works.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Number of random seeds, counted from 0.")] = 3,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Results file; by default book/results/NAME.json, or runs/NAME-quick.json with "
            "--quick."
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder for the checkpoints.")] = Path("runs"),
    data: Annotated[
        str | None,
        typer.Option(
            help="For ladder only: sentence pairs that replace the toy language, such as "
            "multi30k-en-de, multi30k-de-en, tatoeba-en-fr, or your own files."
        ),
    ] = None,
    rungs: Annotated[
        list[str] | None,
        typer.Option(
            help="For ladder with --data: models to compare, separated by commas or each with its "
            f"own --rungs; by default {','.join(RUNGS)}."
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="For ladder with --data: hyperparameters to change for all models, such as "
            "steps=24000,dropout=0.1; can be repeated."
        ),
    ] = None,
    shipped: Annotated[
        bool,
        typer.Option(
            "--shipped",
            help="For ladder with --data: evaluate the pretrained models instead of training.",
        ),
    ] = False,
) -> None:
    """Run an experiment and write its results; an interrupted experiment resumes."""
    models, changes = (",".join(given or ()) or None for given in (rungs, change))
    chosen = experiments.find(name, data, models and models.split(","), shipped, changes)
    label = name
    if data is not None:  # the whole path: files in two folders may have the same name
        label += "-" + re.sub(r"[^\w-]+", "-", data).strip("-")
    label += "-quick" * quick
    if output is None:
        output = (runs if quick else Path("book/results")) / f"{label}.json"
    check_replaceable(output)
    print(chosen.question)
    content = experiments.run(chosen, output, runs / label, seeds=seeds, quick=quick)
    print(f"{len(content['rows'])} rows written to {output}")
    if data is not None:
        from attentively.experiments.real_ladder import table

        print(table(content["rows"]))
