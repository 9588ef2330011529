"""The toy translation task of the experiments and of the pretrained toy models."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attentively import device
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.generation.generate import translate
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import AttentionKind, Seq2SeqConfig, TransformerConfig
from attentively.models.interface import evaluating
from attentively.models.seq2seq import Seq2Seq
from attentively.models.transformer import Transformer
from attentively.scoring.evaluation import teacher_forced_weights
from attentively.scoring.metrics import (
    Link,
    alignment_error_rate,
    corpus_bleu,
    exact_match,
    strongest_links,
)
from attentively.tokens.vocabulary import Vocabulary, WordTokenizer
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1, 2, 3)
TRANSFORMER_SHAPE = {"d_model": 64, "num_heads": 4, "d_ff": 256, "num_layers": 2}
"""Shape of the pretrained ``toy-transformer`` and of the models that are compared with it."""


def as_text(pairs: Sequence[toy.ToyPair]) -> list[Pair]:
    """Return the pairs as text, with words separated by spaces."""
    return [Pair(pair.src_text, pair.tgt_text) for pair in pairs]


def origin(experiment: str, seed: int) -> dict[str, Any]:
    """Return the provenance of a model that an experiment trained on the toy language."""
    return {
        "command": f"attentively experiment {experiment}",
        "data": "toy",
        "data_licence": "MIT",
        "attribution": "The Attentively authors",
        "seed": seed,
        "device": device.describe(device.best()),
    }


def new_checkpoint(
    attention: AttentionKind,
    seed: int,
    provenance: dict[str, Any] | None = None,
    **settings: Any,
) -> Checkpoint:
    """Return an untrained model whose vocabularies contain every word of the toy language.

    `settings` are the fields of `Seq2SeqConfig` that differ from the defaults.
    """
    src_tokenizer, tgt_tokenizer = _tokenizers()
    torch.manual_seed(seed)
    config = Seq2SeqConfig(len(src_tokenizer), len(tgt_tokenizer), attention=attention, **settings)
    model = Seq2Seq(config)
    return Checkpoint(model, src_tokenizer, tgt_tokenizer, provenance or {})


def new_transformer(
    seed: int, provenance: dict[str, Any] | None = None, **settings: Any
) -> Checkpoint:
    """Return an untrained Transformer whose vocabularies contain every word of the toy language.

    It has the shape of the pretrained ``toy-transformer``; `settings` are the fields of
    `TransformerConfig` that differ.
    """
    src_tokenizer, tgt_tokenizer = _tokenizers()
    torch.manual_seed(seed)
    config = TransformerConfig(
        src_vocab_size=len(src_tokenizer),
        tgt_vocab_size=len(tgt_tokenizer),
        **{**TRANSFORMER_SHAPE, **settings},
    )
    return Checkpoint(Transformer(config), src_tokenizer, tgt_tokenizer, provenance or {})


def _tokenizers() -> tuple[WordTokenizer, WordTokenizer]:
    src, tgt = (WordTokenizer(Vocabulary(toy.words(side))) for side in ("src", "tgt"))
    return src, tgt


def train(
    checkpoint: Checkpoint,
    config: TrainingConfig,
    directory: Path | None = None,
    train_pairs: int = 20_000,
    clauses: Sequence[int] = TRAINED_CLAUSES,
    progress: bool = False,
) -> Trainer:
    """Train on sentences of the given numbers of clauses; resume a run in `directory`."""
    _, *tokenizers = checkpoint.translator()
    examples, validation = (
        encode_pairs(as_text(toy.load(split, number, clauses=clauses)), *tokenizers)
        for split, number in (("train", train_pairs), ("validation", max(50, train_pairs // 40)))
    )
    trainer = Trainer(checkpoint, examples, validation, config, directory, progress)
    resume = directory is not None and (directory / "last.safetensors").exists()
    trainer.fit(resume=resume)
    return trainer


def scores(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> dict[str, float]:
    """Return exact match and BLEU of the greedy translations of `pairs`."""
    found = translate(checkpoint, [pair.src_text for pair in pairs], beam_size=1)
    texts = [translation.text for translation in found]
    references = [pair.tgt_text for pair in pairs]
    return {
        "exact_match": exact_match(texts, references),
        "bleu": round(corpus_bleu(texts, references, str.split).score, 2),
    }


def scores_by_clauses(
    checkpoint: Checkpoint,
    tests: Mapping[int, Sequence[toy.ToyPair]],
    trained_clauses: Sequence[int],
) -> list[dict[str, Any]]:
    """Return the scores and the mean length of each test set, by number of clauses."""
    return [
        {
            "clauses": clauses,
            "seen_in_training": clauses in trained_clauses,
            "mean_words": round(sum(len(pair.src) for pair in pairs) / len(pairs), 1),
            **scores(checkpoint, pairs),
        }
        for clauses, pairs in tests.items()
    ]


def word_weights(
    checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair], reading: bool = False
) -> list[Float[Tensor, "_tgt_len _src_len"]]:
    """Return the attention weights of each reference word, without end tokens.

    They are those of the step that predicts the word or, with `reading`, of the next step, which
    reads it.
    """
    model, *tokenizers = checkpoint.translator()
    weights = teacher_forced_weights(model, encode_pairs(as_text(pairs), *tokenizers))
    return [
        matrix[int(reading) :][: len(pair.tgt), : len(pair.src)]
        for pair, matrix in zip(pairs, weights, strict=True)
    ]


def alignment_errors(
    checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair], reading: bool = False
) -> float:
    """Return the alignment error rate of the largest weight of each reference word.

    `reading` uses the weights of the step that reads the word, as in `word_weights`.
    """
    predicted = [strongest_links(matrix) for matrix in word_weights(checkpoint, pairs, reading)]
    return alignment_error_rate(predicted, [set(pair.alignment) for pair in pairs])


def head_alignment_errors(
    checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]
) -> dict[tuple[int, int], float]:
    """Return the alignment error rate of each head of a Transformer's cross-attention.

    Heads are identified by layer and index, both from 0. Raises `ValueError` for a model of another
    kind.
    """
    model, *tokenizers = checkpoint.translator()
    if not isinstance(model, Transformer):
        raise ValueError(f"a {type(model).__name__} has no attention heads: use a Transformer")
    predicted: dict[tuple[int, int], list[set[Link]]] = defaultdict(list)
    with evaluating(model):
        for pair, example in zip(pairs, encode_pairs(as_text(pairs), *tokenizers), strict=True):
            src, tgt = collate([example]).to(next(model.parameters()).device)
            maps = model.attention_maps(src, tgt[:, :-1]).cross
            for layer, of_layer in enumerate(maps[:, 0]):
                for head, weights in enumerate(of_layer):
                    words = weights[: len(pair.tgt), : len(pair.src)]
                    predicted[layer, head].append(strongest_links(words))
    gold = [set(pair.alignment) for pair in pairs]
    return {head: alignment_error_rate(links, gold) for head, links in predicted.items()}
