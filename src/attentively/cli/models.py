"""``attentively models``, and the option ``--model`` that all commands share."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from tabulate import tabulate

Model = Annotated[
    str,
    typer.Option(
        help="A pretrained model (`attentively models` lists them), a checkpoint file, or the "
        "folder of a training run."
    ),
]

app = typer.Typer(add_completion=False)
SCORES = {
    "bleu": "BLEU {:.1f}",
    "perplexity": "perplexity {:.2f}",
    "faithful": "correct captions {:.0%}",
}
"""Entries of an evaluation that the table shows, where a model has them."""
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
    from attentively.models import checkpoints
    from attentively.word_vectors import vectors

    if name is not None and name not in vectors.pretrained_vector_names():
        _print(checkpoints.load_pretrained(name).provenance)
        return
    if name is not None:
        _print(vectors.load_pretrained_vectors(name).provenance)
        return
    rows = []
    for known in checkpoints.pretrained_names():
        checkpoint = checkpoints.load_pretrained(known)
        rows.append(_row(known, type(checkpoint.model).__name__, checkpoint.provenance))
    for known in vectors.pretrained_vector_names():
        provenance = vectors.load_pretrained_vectors(known).provenance
        rows.append(_row(known, "word vectors", provenance))
    print(tabulate(rows, ("name", "kind", "data", "licence", "test score"), "simple"))
    print(f"\n{MORE}")


def _row(name: str, kind: str, provenance: Mapping[str, Any]) -> tuple[str, ...]:
    found = provenance.get("evaluation", {})
    scores = (form.format(found[score]) for score, form in SCORES.items() if score in found)
    return name, kind, provenance["data"], provenance["data_licence"], ", ".join(scores)


def _print(provenance: Mapping[str, Any]) -> None:
    for key, value in provenance.items():
        print(f"{key.replace('_', ' ')}: {value}")
