"""``attentively models``, and the lookup of a model that all commands share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attentively import device
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.word_vectors import vectors

Model = Annotated[
    str,
    typer.Option(
        help="A pretrained model (`attentively models` lists them), a checkpoint file, or the "
        "folder of a training run."
    ),
]

app = typer.Typer(add_completion=False)


@app.command(epilog="Example:\n\nattentively models")
def models() -> None:
    """List the pretrained models of the package with their data, licence and scores.

    Word vectors come last; `attentively vectors` uses and evaluates them.
    """
    said = ("command", "data", "attribution", "data_licence", "device")
    for name in checkpoints.pretrained_names():
        _print(name, checkpoints.load_pretrained(name).provenance, (*said, "evaluation"))
    for name in vectors.pretrained_vector_names():
        provenance = vectors.load_pretrained_vectors(name).provenance
        _print(f"{name} (word vectors)", provenance, said)


def _print(title: str, provenance: Mapping[str, Any], keys: Sequence[str]) -> None:
    print(title)
    for key in keys:
        if key in provenance:
            print(f"  {key.replace('_', ' ')}: {provenance[key]}")


def load(model: str) -> Checkpoint:
    """Load the checkpoint that ``--model`` names onto the best available device."""
    if model in checkpoints.pretrained_names():
        return checkpoints.load_pretrained(model, device.best())
    path = file(Path(model))
    if path.is_file() or path.suffix == ".safetensors":
        return checkpoints.load(path, device.best())
    return checkpoints.load_pretrained(model)  # its error lists the known names


def file(path: Path) -> Path:
    """Return the checkpoint at `path`; in the folder of a run, that is the best one."""
    return path / "best.safetensors" if path.is_dir() else path
