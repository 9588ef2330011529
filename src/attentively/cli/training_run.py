"""Start or resume a training run, as ``attentively train`` is told to."""

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import typer

import attentively
from attentively import device
from attentively.cli import families, train_options
from attentively.cli.families import Content, Family, Tokenizers
from attentively.cli.settings import Given
from attentively.cli.train_options import MODEL_CHOICES, PIECE_LENGTH, TRAINING_CHOICES
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


def run(given: Mapping[str, Given], output: Path, start_from: Path | None, resume: bool) -> None:
    """Train in `output`, with the values that the user set; new or resumed."""
    with data_parallel.processes() as processes:
        if resume:
            if start_from is not None:
                raise ValueError("--resume and --start-from exclude each other")
            trainer = _resumed(output, given, processes)
        else:
            refuse_earlier_run(output)  # before the tokenizer is trained, which takes a while
            trainer = _new(output, given, start_from, processes)
        _fit(trainer, output, resume, processes)


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
    train_options.refuse_strange(given, family.name)
    piece_length = _value(given, "piece_length", PIECE_LENGTH)
    content = Content(corpus.load("train"), corpus.kind, piece_length)
    training = TrainingConfig(**train_options.values(given, TRAINING_CHOICES))
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
        model = family.model(family.config(**settled, **train_options.values(given, MODEL_CHOICES)))
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
    train_options.refuse_strange(given, family.name)
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
    length: int = checkpoint.provenance.get("piece_length", PIECE_LENGTH)
    return length


def _value(given: Mapping[str, Given], name: str, otherwise: Any) -> Any:
    return given[name].value if name in given else otherwise


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
