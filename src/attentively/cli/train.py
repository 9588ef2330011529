"""``attentively train``: train a model on a corpus, and resume an interrupted run."""

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import torch
import typer

import attentively
from attentively import device
from attentively.cli import families, settings
from attentively.cli.families import FAMILIES, FROM_DATA, Content, Family, TokenizerKind, Tokenizers
from attentively.cli.settings import Choice, Given
from attentively.data import corpora
from attentively.data.corpora import KINDS, Corpus
from attentively.generation.pretrained_model import file
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.tokens.vocabulary import load_tokenizer
from attentively.training import data_parallel
from attentively.training.data_parallel import Processes
from attentively.training.run_folder import best_record, refuse_earlier_run
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

MODEL_CHOICES = {
    choice.name: choice
    for choice in settings.choices(
        {family.name: family.config for family in FAMILIES.values()}, without=FROM_DATA
    )
}
TRAINING_CHOICES = {
    choice.name: choice for choice in settings.choices({"training": TrainingConfig})
}
CORPORA = "; ".join(f"{words} ({', '.join(corpora.names(kind))})" for kind, words in KINDS.items())
TOP = {
    "data": Choice("data", str, False, (), {}, {}),
    "model": Choice("model", str, False, tuple(FAMILIES), {}, {}),
    "tokenizer": Choice("tokenizer", str, False, get_args(TokenizerKind), {}, {}),
    "vocabulary_size": Choice("vocabulary_size", int, False, (), {}, {}),
    "piece_length": Choice("piece_length", int, False, (), {}, {}),
}
"""Keys of a TOML file before the first table."""
OF_CAPTIONS = ("attention_penalty",)
"""Training options that only captioners have."""
EVERY_CHOICE = TOP | MODEL_CHOICES | TRAINING_CHOICES

EPILOG = """Examples:

attentively train toy --model transformer --d-model 64 --steps 1000 --output runs/toy

attentively train --config tatoeba-en-fr-additive --output runs/tatoeba

attentively train --resume --output runs/tatoeba

torchrun --nproc-per-node 2 -m attentively train toy --steps 1000 --output runs/toy-2"""


def train(
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
            help=f"Kind of model: {', '.join(FAMILIES)}. By default the first that fits the data.",
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
            f"{families.DEFAULT_SIZE} for bpe, and every word of the training data for word."
        ),
    ] = None,
    piece_length: Annotated[
        int | None,
        typer.Option(
            help="Length in characters of a training example of running text with the character "
            f"tokenizer; by default {families.PIECE_LENGTH}. With word or bpe, each line is an "
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
    _refuse_missing([label for label, value in needed.items() if value is None])
    assert output is not None  # else it was missing
    with data_parallel.processes() as processes:
        if resume:
            if start_from is not None:
                raise ValueError("--resume and --start-from exclude each other")
            trainer = _resumed(output, given, processes)
        else:
            refuse_earlier_run(output)  # before the tokenizer is trained, which takes a while
            trainer = _new(output, given, start_from, processes)
        _fit(trainer, output, resume, processes)


def _given(config: str | None, options: Mapping[str, Any]) -> dict[str, Given]:
    """Return the values that the user set, checked; the command line overrides the file."""
    given: dict[str, Given] = {}
    if config is not None:
        tables = {"": TOP, "training": TRAINING_CHOICES}
        tables |= {
            name: {key: one for key, one in MODEL_CHOICES.items() if name in one.owners}
            for name in FAMILIES
        }
        given = settings.read(config, tables)
    for name, value in options.items():
        if value is not None:
            given[name] = Given(value, EVERY_CHOICE[name].flag if name != "data" else "DATA")
    return {name: Given(EVERY_CHOICE[name].check(one), one.where) for name, one in given.items()}


def _new(
    output: Path, given: Mapping[str, Given], start_from: Path | None, processes: Processes
) -> Trainer:
    """Prepare a new run."""
    start = None if start_from is None else checkpoints.load(file(start_from))
    named: Family | None = None
    if "model" in given:
        named = families.find(given["model"].value)
    elif start is not None:
        named = families.of(start.model)
    corpus = corpora.find(given["data"].value, None if named is None else named.kind)
    family = named or families.usual(corpus.kind)
    families.refuse_other_data(family, corpus)
    _refuse_strange(given, family)
    piece_length = _value(given, "piece_length", families.PIECE_LENGTH)
    content = Content(corpus.load("train"), corpus.kind, piece_length)
    training = TrainingConfig(**_values(given, TRAINING_CHOICES))
    torch.manual_seed(training.seed)
    provenance: dict[str, Any] = {}
    if start is None:
        kind = _value(given, "tokenizer", families.usual_tokenizer(corpus))
        size = _value(given, "vocabulary_size", None)
        tokenizers = _shared(lambda: families.learn(kind, family.texts(content), size), processes)
        if _value(given, "share_embeddings", False) and tokenizers.src is not tokenizers.tgt:
            raise ValueError(
                f"{given['share_embeddings'].where} needs one vocabulary for both sides: "
                "use --tokenizer bpe"
            )
        settled = family.from_data(content, tokenizers)
        model = family.model(family.config(**settled, **_values(given, MODEL_CHOICES)))
        provenance |= {"vocabulary_size": size}
    else:
        _refuse_contradiction(given, _of_model(start), f"the checkpoint {start_from}")
        model = start.model
        tokenizers = Tokenizers(start.src_tokenizer, start.tgt_tokenizer)
        provenance |= {"started_from": start.provenance}
    examples = family.examples(content, tokenizers, model.config)
    provenance |= {
        "command": shlex.join(["attentively", *sys.argv[1:]]),
        "data": corpus.name,
        "data_licence": corpus.licence,
        "attribution": corpus.attribution,
        "piece_length": piece_length,
        "training_examples": len(examples),
        "training_checksum": _checksum(examples),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training": training.to_dict(),
        "device": device.describe(device.best()),
        "versions": {"attentively": attentively.__version__, "torch": torch.__version__},
    }
    checkpoint = Checkpoint(model, *tokenizers, provenance)
    return _trainer(checkpoint, family, corpus, examples, training, output, processes)


def _resumed(output: Path, given: Mapping[str, Given], processes: Processes) -> Trainer:
    """Prepare to resume the run in `output`; options that were set must agree with it."""
    checkpoint = checkpoints.load(output / "last.safetensors")
    family = families.of(checkpoint.model)
    _refuse_strange(given, family)
    if "run" not in checkpoint.provenance:
        raise ValueError(
            f"{output / 'last.safetensors'} was not written by a training run: there is nothing "
            "to resume"
        )
    settled = checkpoint.provenance["run"]["config"]
    found = _of_model(checkpoint) | {"data": checkpoint.provenance["data"]} | settled
    _refuse_contradiction(given, found, "the run to resume")
    corpus = corpora.find(checkpoint.provenance["data"], family.kind)
    tokenizers = Tokenizers(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    piece_length = _piece_length(checkpoint)
    content = Content(corpus.load("train"), corpus.kind, piece_length)
    examples = family.examples(content, tokenizers, checkpoint.model.config)
    _refuse_other_examples(checkpoint.provenance, examples)
    training = TrainingConfig.from_dict(settled)
    return _trainer(checkpoint, family, corpus, examples, training, output, processes)


def _trainer(
    checkpoint: Checkpoint,
    family: Family,
    corpus: Corpus,
    examples: Any,
    training: TrainingConfig,
    output: Path,
    processes: Processes,
) -> Trainer:
    tokenizers = Tokenizers(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    piece_length = _piece_length(checkpoint)
    content = Content(corpus.load("validation"), corpus.kind, piece_length)
    validation = family.examples(content, tokenizers, checkpoint.model.config)
    if processes.first:
        print(
            f"{corpus.name}: {KINDS[corpus.kind]}, {len(examples):,} training and "
            f"{len(validation):,} validation examples; {_described(tokenizers)}"
        )
        print(
            f"{family.name}: {checkpoint.provenance['parameters']:,} parameters, on "
            f"{device.describe(device.best())}"
            + (f", {processes.count} processes" if processes.count > 1 else "")
        )
    return Trainer(
        checkpoint, examples, validation, training, output, sys.stderr.isatty(), processes
    )


def _fit(trainer: Trainer, output: Path, resume: bool, processes: Processes) -> None:
    try:
        records = trainer.fit(resume=resume)
    except KeyboardInterrupt:
        if processes.first:
            saved = "no checkpoint was written yet, so start again"
            if trainer.records:
                step = trainer.records[-1]["step"]
                saved = f"`attentively train --resume --output {output}` resumes at step {step}"
            print(f"interrupted at step {trainer.step}; {saved}")
        raise typer.Exit(130) from None
    if processes.first:
        best = best_record(records)
        print(
            f"best validation loss: {best['validation_loss']:.4f} nats per target token at step "
            f"{best['step']:.0f}, saved in {output / 'best.safetensors'}"
        )


def _piece_length(checkpoint: Checkpoint) -> int:
    length: int = checkpoint.provenance.get("piece_length", families.PIECE_LENGTH)
    return length


def _refuse_missing(labels: Sequence[str]) -> None:
    """Raise an error that names every missing option at once."""
    if labels:
        others = " and ".join(label for label in labels if label != "--output")
        message = f"required; {others} may also be in --config" if others else "required"
        raise typer.BadParameter(message, param_hint=labels)


def _value(given: Mapping[str, Given], name: str, otherwise: Any) -> Any:
    return given[name].value if name in given else otherwise


def _values(given: Mapping[str, Given], choices: Mapping[str, Choice]) -> dict[str, Any]:
    return {name: one.value for name, one in given.items() if name in choices}


def _refuse_strange(given: Mapping[str, Given], family: Family) -> None:
    """Raise `ValueError` for an option that only other families have."""
    for name, one in given.items():
        choice = MODEL_CHOICES.get(name)
        if choice is not None and family.name not in choice.owners:
            raise ValueError(
                f"{one.where} is an option of --model {' or '.join(choice.owners)}, not of "
                f"{family.name}"
            )
        if name in OF_CAPTIONS and family.name != "captioner":
            raise ValueError(f"{one.where} is an option of --model captioner, not of {family.name}")


def _of_model(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the options that a checkpoint fixes, by their names."""
    [tokenizer, *_] = filter(None, (checkpoint.src_tokenizer, checkpoint.tgt_tokenizer))
    made = {"tokenizer": families.kind_of(tokenizer), "vocabulary_size": len(tokenizer)}
    said = checkpoint.provenance
    made |= {name: said[name] for name in ("vocabulary_size", "piece_length") if name in said}
    return checkpoint.model.config.to_dict() | made | {"model": families.of(checkpoint.model).name}


def _refuse_contradiction(given: Mapping[str, Given], found: Mapping[str, Any], label: str) -> None:
    """Raise `ValueError` for an option that differs from the value of the earlier run."""
    for name, one in given.items():
        if name in found and one.value != found[name]:
            raise ValueError(f"{one.where} is {one.value!r}, but {label} has {found[name]!r}")


def _refuse_other_examples(said: Mapping[str, Any], examples: Sequence[Any]) -> None:
    """Raise `ValueError` if the examples differ from those of the run to resume."""
    if said["training_examples"] != len(examples):
        raise ValueError(
            f"{said['data']} has changed: the run to resume started with "
            f"{said['training_examples']:,} examples, but now there are {len(examples):,}"
        )
    now = _checksum(examples)
    if said.get("training_checksum", now) != now:  # older versions did not store it
        raise ValueError(
            f"{said['data']} has changed: there are still {len(examples):,} examples, but not "
            "those that the run to resume started with"
        )


def _checksum(examples: Sequence[Any]) -> str:
    """Return a SHA-256 checksum of the examples."""
    total = hashlib.sha256()
    for example in examples:
        total.update(json.dumps(example, default=_numbers).encode())
    return total.hexdigest()


def _numbers(image: torch.Tensor) -> str:
    return image.numpy().tobytes().hex()


def _shared(learn: Callable[[], Tokenizers], processes: Processes) -> Tokenizers:
    """Train the tokenizers in the first process, and broadcast them to the others."""
    if processes.count == 1:
        return learn()
    content = b""
    if processes.first:
        content = json.dumps([one and one.to_json() for one in learn()]).encode()
    length = torch.tensor(len(content))
    processes.share_out([length])
    letters = torch.tensor(list(content or bytes(int(length))), dtype=torch.uint8)
    processes.share_out([letters])
    src, tgt = json.loads(bytes(letters.tolist()))
    src_tokenizer = src and load_tokenizer(src)
    return Tokenizers(src_tokenizer, src_tokenizer if src == tgt else tgt and load_tokenizer(tgt))


def _described(tokenizers: Tokenizers) -> str:
    src, tgt = tokenizers
    if src is not None and tgt is not None and src is not tgt:
        return f"{families.kind_of(src)} tokenizers with {len(src):,} and {len(tgt):,} tokens"
    [tokenizer, *_] = filter(None, tokenizers)
    return f"{families.kind_of(tokenizer)} tokenizer with {len(tokenizer):,} tokens"


def _panel(choice: Choice) -> str:
    every = set(choice.owners) == set(FAMILIES)
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
