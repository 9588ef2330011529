"""``attentively train``: fit a model to a corpus, and be able to go on later."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

import attentively
from attentively import checkpoints, device
from attentively.checkpoints import Checkpoint
from attentively.data import corpora
from attentively.data.batches import encode_pairs
from attentively.data.pairs import Pair
from attentively.seq2seq import AttentionKind, Seq2Seq, Seq2SeqConfig
from attentively.training import Trainer, TrainingConfig, best_record, refuse_earlier_run
from attentively.vocabulary import BPETokenizer, Tokenizer, WordTokenizer


def train(
    data: Annotated[str, typer.Argument(help=f"One of: {', '.join(sorted(corpora.CORPORA))}.")],
    output: Annotated[Path, typer.Option(help="Folder for checkpoints and the log.")],
    attention: Annotated[
        AttentionKind, typer.Option(help="fixed is none: one vector for the whole source.")
    ] = "additive",
    tokenizer: Annotated[str, typer.Option(help="bpe (one joint vocabulary) or word.")] = "bpe",
    vocabulary_size: Annotated[int, typer.Option(help="Tokens of the joint vocabulary.")] = 5000,
    embedding_dim: int = 128,
    encoder_dim: Annotated[int, typer.Option(help="Size of one reading direction.")] = 160,
    decoder_dim: int = 256,
    attention_dim: int = 160,
    dropout: float = 0.2,
    steps: int = 7000,
    batch_size: Annotated[int, typer.Option(help="Sentence pairs a step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="The highest of the one cycle.")] = 2e-3,
    validate_every: Annotated[int, typer.Option(help="Steps between validations.")] = 250,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many validations without a new best.")
    ] = None,
    seed: int = 0,
    start_from: Annotated[
        Path | None, typer.Option(help="Begin with this checkpoint's weights and tokenizers.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in the folder.")] = False,
) -> None:
    """Train a sequence-to-sequence model and keep the best by validation loss.

    The folder gets best.safetensors, last.safetensors (to resume from) and log.jsonl.
    """
    corpus = corpora.find(data)
    config = TrainingConfig(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        validate_every=validate_every,
        patience=patience,
        seed=seed,
    )
    if not resume:
        refuse_earlier_run(output)  # before the vocabulary is learnt, which takes a while
    pairs = corpus.load("train")
    earlier = output / "last.safetensors" if resume else start_from
    if earlier is not None:
        checkpoint = checkpoints.load(earlier)
        tokenizers = checkpoint.src_tokenizer, checkpoint.tgt_tokenizer
    else:
        print("learning the vocabulary")
        tokenizers = _tokenizers(tokenizer, pairs, vocabulary_size)
    model_config = Seq2SeqConfig(
        src_vocab_size=len(tokenizers[0]),
        tgt_vocab_size=len(tokenizers[1]),
        embedding_dim=embedding_dim,
        encoder_dim=encoder_dim,
        decoder_dim=decoder_dim,
        attention_dim=attention_dim,
        attention=attention,
        dropout=dropout,
        share_embeddings=tokenizers[0] is tokenizers[1],
    )
    if earlier is not None:
        label = "the run to resume" if resume else f"the run to start from, {start_from},"
        _refuse_other(label, checkpoint, model_config, corpus.name)
    if not resume:
        torch.manual_seed(seed)
        model = Seq2Seq(model_config)
        if start_from is not None:
            model.load_state_dict(checkpoint.model.state_dict())
        provenance = {
            "command": shlex.join(["attentively", *sys.argv[1:]]),
            "data": corpus.name,
            "data_licence": corpus.licence,
            "attribution": corpus.attribution,
            "training_pairs": len(pairs),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "training": config.to_dict(),
            "device": device.describe(device.best()),
            "versions": {"attentively": attentively.__version__, "torch": torch.__version__},
        }
        if start_from is not None:
            provenance["started_from"] = checkpoint.provenance
        checkpoint = Checkpoint(model, *tokenizers, provenance)
    print(
        f"{len(pairs):,} training pairs, {checkpoint.provenance['parameters']:,} parameters, "
        f"{device.describe(device.best())}"
    )
    examples, validation = (
        encode_pairs(split, *tokenizers) for split in (pairs, corpus.load("validation"))
    )
    trainer = Trainer(checkpoint, examples, validation, config, output)
    try:
        records = trainer.fit(resume=resume)
    except KeyboardInterrupt:
        if trainer.records:
            saved = f"--resume goes on from step {trainer.records[-1]['step']}"
        else:
            saved = "nothing was saved yet: start again"
        print(f"stopped at step {trainer.step}; {saved}")
        raise typer.Exit(130) from None
    best = best_record(records)
    print(
        f"best validation loss {best['validation_loss']:.4f} nats a token at step "
        f"{best['step']:.0f}; {output / 'best.safetensors'}"
    )


def _refuse_other(label: str, checkpoint: Checkpoint, config: Seq2SeqConfig, data: str) -> None:
    """Raise `ValueError` where the earlier run is of another model or other data."""
    asked = config.to_dict() | {"data": data}
    found = checkpoint.model.config.to_dict() | {"data": checkpoint.provenance.get("data")}
    differing = {name: found[name] for name in asked if asked[name] != found[name]}
    if differing:
        wanted = {name: asked[name] for name in differing}
        raise ValueError(f"{label} has {differing}, not {wanted}")


def _tokenizers(
    kind: str, pairs: Sequence[Pair], vocabulary_size: int
) -> tuple[Tokenizer, Tokenizer]:
    if kind == "bpe":
        joint = BPETokenizer.train((text for pair in pairs for text in pair), vocabulary_size)
        return joint, joint
    if kind == "word":
        return (
            WordTokenizer.train(pair.src for pair in pairs),
            WordTokenizer.train(pair.tgt for pair in pairs),
        )
    raise ValueError(f"tokenizer={kind!r} is unknown: choose bpe or word")
