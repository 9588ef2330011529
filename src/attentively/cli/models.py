"""``attentively models``, and how every command finds the model that it is to use."""

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
        help="A shipped model's name (see `attentively models`), a file, or a run's folder."
    ),
]

app = typer.Typer(add_completion=False)


@app.command(epilog="Example:\n\nattentively models")
def models() -> None:
    """List the models that ship with the package, and what each was trained on.

    Word vectors come last; attentively vectors asks and scores them.
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
    """Read the checkpoint that ``--model`` names, onto the device that is best."""
    if model in checkpoints.pretrained_names():
        return checkpoints.load_pretrained(model, device.best())
    path = file(Path(model))
    if path.is_file() or path.suffix == ".safetensors":
        return checkpoints.load(path, device.best())
    return checkpoints.load_pretrained(model)  # which says what names there are


def file(path: Path) -> Path:
    """Return the checkpoint that a path means: of a run's folder, the best one."""
    return path / "best.safetensors" if path.is_dir() else path
