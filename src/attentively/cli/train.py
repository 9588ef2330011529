"""``attentively train``: train a model on a corpus, and resume an interrupted run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attentively.cli import settings
from attentively.cli.settings import Choice, Given
from attentively.cli.train_options import (
    CONFIGS,
    DEFAULT_SIZE,
    EVERY_CHOICE,
    MODEL_CHOICES,
    PIECE_LENGTH,
    TOP,
    TRAINING_CHOICES,
)
from attentively.data import corpora
from attentively.data.corpora import KINDS

CORPORA = "; ".join(f"{words} ({', '.join(corpora.names(kind))})" for kind, words in KINDS.items())
EPILOG = """Examples:

attentively train toy --model transformer --d-model 64 --steps 1000 --output runs/toy

attentively train --config tatoeba-en-fr-additive --output runs/tatoeba

attentively train --resume --output runs/tatoeba

torchrun --nproc-per-node 2 -m attentively train toy --steps 1000 --output runs/toy-2"""


def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help=f"A corpus: {CORPORA}. Or your own files: FILE.tsv with a sentence, a tab, and "
            "its translation or label on each line; FILE.txt with running text; or SOURCE,TARGET, "
            "two files whose lines are translations of each other."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the checkpoints and the log; required.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"Kind of model: {', '.join(CONFIGS)}. By default the first that fits the data.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A TOML file with values for these options, or the name of a recipe: "
            f"{', '.join(settings.recipes())}. The command line overrides it.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Tokenizer: word, character, or bpe (byte-pair encoding, one vocabulary for both "
            "sides). By default word for the toy language, labelled sentences and captions, "
            "character for other running text, bpe for other sentence pairs."
        ),
    ] = None,
    vocabulary_size: Annotated[
        int | None,
        typer.Option(
            help="Maximum vocabulary size, special tokens included. By default "
            f"{DEFAULT_SIZE} for bpe, and every word of the training data for word."
        ),
    ] = None,
    piece_length: Annotated[
        int | None,
        typer.Option(
            help="Length in characters of a training example of running text with the character "
            f"tokenizer; by default {PIECE_LENGTH}. With word or bpe, each line is an "
            "example."
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            help="Initialise from this checkpoint (a file or the folder of a run): its parameters, "
            "dimensions and tokenizers."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume the interrupted run in the output folder, with its options."
        ),
    ] = False,
    **options: Any,
) -> None:
    """Train a model and keep the checkpoint with the lowest validation loss.

    Writes best.safetensors, last.safetensors (to resume from) and log.jsonl into the output
    folder.
    """
    options |= {
        "data": data,
        "model": model,
        "tokenizer": tokenizer,
        "vocabulary_size": vocabulary_size,
        "piece_length": piece_length,
    }
    given = _given(config, options)
    needed: dict[str, Path | Given | None] = {"--output": output}
    if not resume:
        needed |= {
            label: given.get(name) for name, label in (("data", "DATA"), ("steps", "--steps"))
        }
    missing = [label for label, value in needed.items() if value is None]
    if missing:
        others = " and ".join(label for label in missing if label != "--output")
        note = f" ({others} may also be in --config)" if others else ""
        context.fail(f"Missing: {', '.join(missing)}{note}")
    assert output is not None  # else it was missing
    from attentively.cli import training_run

    training_run.run(given, output, start_from, resume)


def _given(config: str | None, options: Mapping[str, Any]) -> dict[str, Given]:
    """Return the values that the user set, checked; the command line overrides the file."""
    given: dict[str, Given] = {}
    if config is not None:
        tables = {"": TOP, "training": TRAINING_CHOICES}
        tables |= {
            name: {key: one for key, one in MODEL_CHOICES.items() if name in one.owners}
            for name in CONFIGS
        }
        given = settings.read(config, tables)
    for name, value in options.items():
        if value is not None:
            given[name] = Given(value, EVERY_CHOICE[name].flag if name != "data" else "DATA")
    return {name: Given(EVERY_CHOICE[name].check(one), one.where) for name, one in given.items()}


def _panel(choice: Choice) -> str:
    every = set(choice.owners) == set(CONFIGS)
    return "Every model" if every else f"--model {', '.join(choice.owners)}"


app = typer.Typer(add_completion=False)
app.command("train", epilog=EPILOG)(
    settings.with_options(
        train,
        [
            *(
                settings.parameter(choice, _panel(choice))
                for choice in sorted(MODEL_CHOICES.values(), key=lambda one: -len(one.owners))
            ),
            *(settings.parameter(choice, "Training") for choice in TRAINING_CHOICES.values()),
        ],
    )
)
