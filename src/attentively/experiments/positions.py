"""Positions: word order and extrapolation in Transformers with different positional encodings.

Three models differ only in their positional encoding: sinusoidal, learned, or none. They are
trained on sentences of one and two clauses, and evaluated in two ways: on longer sentences, and on
sentences of the training lengths whose positions are shifted, in the source only or in source and
target.
"""

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from attentively.data import toy
from attentively.data.batches import encode_pairs
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text, new_transformer, origin, train
from attentively.generation.generate import translate
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import Positions
from attentively.models.transformer import Transformer
from attentively.scoring.metrics import corpus_bleu, exact_match
from attentively.training.trainer import validation_loss
from attentively.training.training_config import TrainingConfig

TRAINED_CLAUSES = (1, 2)
CLAUSES = (1, 2, 3, 4)
STEPS = 800
MAX_LEN = 128
"""Number of learned positional embeddings: more than any test sentence needs."""
LENGTHS = ((3, 6), (7, 9), (10, 12), (13, 15), (16, 18), (19, 22), (23, 26), (27, 33))
"""Groups of source lengths in words, from and to, for the scores by length."""
SHIFTS = (0, 1, 2, 5, 10, 20)
"""Numbers of positions by which a sentence is shifted."""
SIDES: dict[str, tuple[str, ...]] = {"source": ("encoder",), "both": ("encoder", "decoder")}
"""The shifted sides, and the parts of the model whose positions are shifted."""


class Shifted(nn.Module):
    """A positional encoding whose positions start at `shift` instead of 0."""

    def __init__(self, positions: nn.Module, shift: int) -> None:
        super().__init__()
        self.positions = positions
        self.shift = shift

    def forward(
        self, x: Float[Tensor, "batch len d_model"], first: int = 0
    ) -> Float[Tensor, "batch len d_model"]:
        """Return `x` with the encoding of the shifted positions."""
        return self.positions(x, first + self.shift)


def measure(positions: Positions, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; evaluate it by clauses, by length and by the shift of positions."""
    steps = 4 if quick else STEPS
    checkpoint = new_transformer(
        seed, origin("positions", seed), positions=positions, max_len=MAX_LEN, dropout=0.0
    )
    config = TrainingConfig(
        steps=steps, learning_rate=3e-3, validate_every=max(10, steps // 4), seed=seed
    )
    trainer = train(checkpoint, config, directory, 80 if quick else 10_000, TRAINED_CLAUSES)

    tests = {n: toy.load("test", 4 if quick else 200, clauses=(n,)) for n in CLAUSES}
    pairs = [pair for group in tests.values() for pair in group]
    texts = dict(zip(pairs, written(checkpoint, pairs), strict=True))
    short = [pair for n in TRAINED_CLAUSES for pair in tests[n][:100]]
    return {
        "parameters": sum(parameter.numel() for parameter in checkpoint.model.parameters()),
        "training_steps": trainer.step,
        "training_seconds": round(trainer.seconds, 1),
        "longest_in_training": max(len(example.src) for example in trainer.train) - 1,  # <end>
        "validation_loss": min(record["validation_loss"] for record in trainer.records),
        "by_clauses": [
            {
                "clauses": n,
                "seen_in_training": n in TRAINED_CLAUSES,
                "loss": loss(checkpoint, group),
                **scores(group, [texts[pair] for pair in group]),
            }
            for n, group in tests.items()
        ],
        "by_length": [
            {"words": f"{low}-{high}", **scores(group, [texts[pair] for pair in group])}
            for low, high in LENGTHS
            if (group := [pair for pair in pairs if low <= len(pair.src) <= high])
        ],
        "by_shift": [
            {
                "side": side,
                "shift": shift,
                **scores(short, written(shifted(checkpoint, shift, parts), short)),
            }
            for side, parts in SIDES.items()
            for shift in (SHIFTS[:2] if quick else SHIFTS)
        ],
    }


def shifted(checkpoint: Checkpoint, shift: int, parts: Sequence[str]) -> Checkpoint:
    """Return a copy with shifted positions in the given parts (encoder, decoder)."""
    model = copy.deepcopy(checkpoint.model)
    assert isinstance(model, Transformer)
    for part in parts:
        entry = getattr(model, part).input
        if entry.positions is not None:
            entry.positions = Shifted(entry.positions, shift)
    return dataclasses.replace(checkpoint, model=model)


def written(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> list[str]:
    """Return the greedy translations of the pairs' sources."""
    found = translate(checkpoint, [pair.src_text for pair in pairs], beam_size=1)
    return [translation.text for translation in found]


def scores(pairs: Sequence[toy.ToyPair], texts: Sequence[str]) -> dict[str, Any]:
    """Return the number of pairs and the scores of `texts`, the translations of the pairs.

    `same_words` is the fraction of texts with the words of their reference, in any order.
    """
    references = [pair.tgt_text for pair in pairs]
    bags = [sorted(text.split()) for text in texts]
    same = [bag == sorted(pair.tgt) for bag, pair in zip(bags, pairs, strict=True)]
    return {
        "sentences": len(pairs),
        "exact_match": round(exact_match(texts, references), 4),
        "same_words": round(sum(same) / len(same), 4),
        "bleu": round(corpus_bleu(texts, references, str.split).score, 2),
    }


def loss(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> float:
    """Return the mean loss per target word, in nats, of the pairs."""
    model, *tokenizers = checkpoint.translator()
    return round(validation_loss(model, encode_pairs(as_text(pairs), *tokenizers)), 4)


EXPERIMENT = Experiment(
    name="positions",
    question="What does a Transformer lose without positional encodings?",
    conditions=[{"positions": "sinusoidal"}, {"positions": "learned"}, {"positions": "none"}],
    measure=measure,
)
