"""``attentively models``, and the option ``--model`` that all commands share."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from tabulate import tabulate

from attentively import pretrained_files

Model = Annotated[
    str,
    typer.Option(
        help="A pretrained model (`attentively models` lists them), a checkpoint file, or the "
        "folder of a training run."
    ),
]

app = typer.Typer(add_completion=False)
MORE = "`attentively models NAME` also prints the attribution, the command and all scores."


@app.command(epilog="Examples:\n\nattentively models\n\nattentively models toy-transformer")
def models(
    name: Annotated[
        str | None, typer.Argument(help="Print everything that is recorded on this model.")
    ] = None,
) -> None:
    """List the pretrained models of the package with their data, licence and scores.

    Word vectors come last; `attentively vectors` uses and evaluates them.
    """
    if name is None:  # from a table, because the models themselves may have to be downloaded
        rows = json.loads(pretrained_files.TABLE.read_text(encoding="utf-8"))
        print(tabulate(rows, ("name", "kind", "data", "licence", "test score"), "simple"))
        print(f"\n{MORE}")
        return
    from attentively.models import checkpoints
    from attentively.word_vectors import vectors

    if name in vectors.pretrained_vector_names():
        _print(vectors.load_pretrained_vectors(name).provenance)
    else:
        _print(checkpoints.load_pretrained(name).provenance)


def _print(provenance: Mapping[str, Any]) -> None:
    for key, value in provenance.items():
        print(f"{key.replace('_', ' ')}: {value}")
