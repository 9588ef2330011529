"""Add a trained model to the package, in half precision, with its scores on the test split.

    python tools/ship_checkpoint.py runs/NAME/best.safetensors NAME

Afterwards, `load_pretrained` loads the model by its name, and a page can read its scores.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from attentively.cli import families
from attentively.cli.families import Content
from attentively.cli.train_options import PIECE_LENGTH
from attentively.data import corpora
from attentively.generation.search import Beam
from attentively.models import checkpoints
from attentively.pretrained_files import FOLDER, TABLE
from attentively.word_vectors import vectors

SCORES = {
    "bleu": "BLEU {:.1f}",
    "perplexity": "perplexity {:.2f}",
    "faithful": "correct captions {:.0%}",
}
"""Entries of an evaluation that the table of `attentively models` shows, where a model has them."""


def ship(
    run: Annotated[Path, typer.Argument(help="Checkpoint of a training run: best.safetensors.")],
    name: Annotated[str, typer.Argument(help="Name for load_pretrained.")],
) -> None:
    """Round the weights to 16 bits, evaluate them, and write them with their provenance."""
    target = FOLDER / f"{name}.safetensors"
    checkpoints.save(checkpoints.load(run), target, half_precision=True)
    rounded = checkpoints.load(target)
    corpus = corpora.find(rounded.provenance["data"])
    piece_length = rounded.provenance.get("piece_length", PIECE_LENGTH)
    held_out = Content(corpus.load("test"), corpus.kind, piece_length)
    family = families.of(rounded.model)
    found = family.evaluate(rounded, held_out, Beam(5, 1.0), progress=True)
    rounded.provenance["evaluation"] = found.scores()
    checkpoints.save(rounded, target, half_precision=True)
    log = run.parent / "log.jsonl"
    if log.exists():  # the training log is shipped next to the model
        (FOLDER / f"{name}.log.jsonl").write_bytes(log.read_bytes())
    write_registry()
    write_table()
    print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")
    print(json.dumps(rounded.provenance, indent=1, ensure_ascii=False))


def write_registry() -> None:
    """List every file of the package with its checksum."""
    lines = [
        f"{path.relative_to(FOLDER).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in sorted(FOLDER.rglob("*.safetensors"))
    ]
    (FOLDER / "registry.txt").write_text("".join(lines))


def write_table() -> None:
    """Write the rows that `attentively models` prints."""
    TABLE.write_text(json.dumps([*rows()], indent=1) + "\n", encoding="utf-8")


def rows() -> Iterator[list[str]]:
    """Yield name, kind, data, licence and scores of each model, then of the word vectors."""
    for name in checkpoints.pretrained_names():
        checkpoint = checkpoints.load_pretrained(name)
        yield _row(name, type(checkpoint.model).__name__, checkpoint.provenance)
    for name in vectors.pretrained_vector_names():
        provenance = vectors.load_pretrained_vectors(name).provenance
        yield _row(name, "word vectors", provenance)


def _row(name: str, kind: str, provenance: dict[str, Any]) -> list[str]:
    found = provenance.get("evaluation", {})
    scores = (form.format(found[score]) for score, form in SCORES.items() if score in found)
    return [name, kind, provenance["data"], provenance["data_licence"], ", ".join(scores)]


if __name__ == "__main__":
    typer.run(ship)
