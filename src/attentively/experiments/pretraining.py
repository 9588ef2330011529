"""Pre-training: does an encoder pre-trained as a masked language model need fewer labels?

Every classifier is the same encoder with the same head, trained on the same labelled sentences for
the same number of updates (one more is trained from scratch for as many updates as pre-training and
fine-tuning together). Only the initialisation of the encoder differs: random, or pre-trained as a
masked language model on unlabelled text. There are two tasks. One is the sentiment of real
sentences, reviews of films, telephones and restaurants; its text consists of the reviews and
everyday English. The other is to detect whether two neighbouring words of a toy sentence are
swapped; its text consists of correct toy sentences.
"""

import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attentively.data import sentiment, tatoeba, toy
from attentively.data.batches import encode_labelled
from attentively.data.sentiment import Labelled
from attentively.data.splits import SPLITS
from attentively.experiments.runner import Experiment, Row
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import ClassifierConfig, MaskedLanguageModelConfig
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.scoring.evaluation import evaluate_classifier, evaluate_masked_language_model
from attentively.tokens.vocabulary import BPETokenizer, Tokenizer, Vocabulary, WordTokenizer
from attentively.training.run_folder import best_record
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

DATA = ("opinions", "toy")
BEGINNINGS = ("scratch", "pre-trained")
LONGER = "scratch, longer"
"""From scratch, for as many updates as a pre-trained classifier has in total."""
LABELS = (50, 200, 800, 2386)
"""Numbers of labelled training sentences; the last is all reviews."""
VOCABULARY_SIZE = 2000
EVERYDAY = 60_000
OWN_TIMES = 5
"""Repetitions of the reviews in the pre-training text, which has far more everyday sentences."""
TOY_LINES = 8000
SHAPE: dict[str, Any] = {
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 256,
    "num_layers": 2,
    "positions": "rotary",
}
PRETRAINING_STEPS = 600
FINE_TUNING_STEPS = 100
LEARNING_RATES = (1e-3, 3e-3)
"""Each classifier is trained with both; the one with the better validation loss is tested."""


class Sentences(NamedTuple):
    """The data of a task."""

    train: list[Labelled]
    validation: list[Labelled]
    test: list[Labelled]
    texts: list[str]
    """Unlabelled text for pre-training."""
    tokenizer: Tokenizer
    labels: tuple[str, ...]


@cache
def sentences(data: str, quick: bool) -> Sentences:
    """Return the sentences of a task; the tokenizers are not trained on held-out ones."""
    if data == "toy":
        numbers = (60, 20, 20) if quick else (max(LABELS), 300, 500)
        train, validation, test = map(_in_and_out_of_order, SPLITS, numbers)
        pairs = toy.load("train", 100 if quick else TOY_LINES, clauses=(1, 2))
        texts = [pair.src_text for pair in pairs]
        words = WordTokenizer(Vocabulary(toy.words("src")))
        return Sentences(train, validation, test, texts, words, ("swapped", "right"))
    if quick:
        train, validation, test = (_toy_opinions(split) for split in SPLITS)
        everyday = [pair.src_text for pair in toy.load("train", 100)]
        size = 150
    else:
        train, validation, test = (_small(sentiment.load(split)) for split in SPLITS)
        lines = dict.fromkeys(pair.src.lower() for pair in tatoeba.load("train"))
        everyday = random.Random(0).sample(list(lines), EVERYDAY)
        size = VOCABULARY_SIZE
    own = [text for text, _ in train]
    tokenizer = BPETokenizer.train([*own, *everyday], size)
    labels = tuple(sentiment.LABELS.values())
    return Sentences(train, validation, test, own * OWN_TIMES + everyday, tokenizer, labels)


def _small(items: list[Labelled]) -> list[Labelled]:
    return [Labelled(text.lower(), label) for text, label in items]


def _toy_opinions(split: str) -> list[Labelled]:
    """Return sentences of the toy language; those with a negation are labelled negative."""
    texts = [pair.src_text for pair in toy.load(split, 40)]
    return [Labelled(text, "negative" if " not " in text else "positive") for text in texts]


def _in_and_out_of_order(split: str, number: int) -> list[Labelled]:
    """Return toy sentences; in every second one, two neighbouring words are swapped."""
    found = []
    draws = random.Random(split)
    for index, pair in enumerate(toy.load(split, number, seed=1, clauses=(1,))):
        words = list(pair.src)
        if index % 2:
            unlike = [i for i in range(len(words) - 1) if words[i] != words[i + 1]]
            first = draws.choice(unlike)
            words[first : first + 2] = words[first + 1], words[first]
        found.append(Labelled(" ".join(words), "swapped" if index % 2 else "right"))
    return found


def fewer(items: list[Labelled], number: int, seed: int) -> list[Labelled]:
    """Return a random subset of the sentences; for one seed, smaller subsets are nested."""
    return random.Random(seed).sample(items, len(items))[:number]


def pretrained(data: str, seed: int, quick: bool, directory: Path) -> Checkpoint:
    """Return the masked language model, which is trained once for all numbers of labels."""
    found = sentences(data, quick)
    held_out = [text for text, _ in found.validation]
    train, validation = (
        [found.tokenizer.encode(text) for text in some] for some in (found.texts, held_out)
    )
    steps = 4 if quick else PRETRAINING_STEPS
    torch.manual_seed(seed)
    config = MaskedLanguageModelConfig(vocab_size=len(found.tokenizer), **SHAPE)
    checkpoint = Checkpoint(MaskedLanguageModel(config), found.tokenizer, None)
    settings = TrainingConfig(
        steps=steps, learning_rate=3e-3, validate_every=max(4, steps // 8), seed=seed
    )
    trainer = Trainer(checkpoint, train, validation, settings, directory, progress=False)
    trainer.fit(resume=(directory / "last.safetensors").exists())
    return checkpoint


def classifier(
    seed: int, tokenizer: Tokenizer, labels: tuple[str, ...], beginning: Checkpoint | None
) -> Checkpoint:
    """Return an untrained classifier; with a `beginning`, its encoder is that of this model."""
    torch.manual_seed(seed)
    model = Classifier(ClassifierConfig(vocab_size=len(tokenizer), labels=labels, **SHAPE))
    if beginning is not None and isinstance(beginning.model, MaskedLanguageModel):
        model.encoder.load_state_dict(beginning.model.encoder.state_dict())
    return Checkpoint(model, tokenizer, None)


def measure(data: str, beginning: str, labels: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one classifier per learning rate; test the one with the better validation loss."""
    found = sentences(data, quick)
    updates = FINE_TUNING_STEPS + (PRETRAINING_STEPS if beginning == LONGER else 0)
    filler = None
    if beginning == "pre-trained":
        filler = pretrained(data, seed, quick, directory.parent / f"{data}-masked-seed{seed}")
    chosen = fewer(found.train, labels, seed)
    train, validation = (
        encode_labelled(items, found.tokenizer, found.labels)
        for items in (chosen, found.validation)
    )
    tried = []
    for rate in LEARNING_RATES:
        checkpoint = classifier(seed, found.tokenizer, found.labels, filler)
        steps = 4 if quick else updates
        settings = TrainingConfig(
            steps=steps,
            batch_size=32,
            learning_rate=rate,
            validate_every=max(4, steps // 5),
            seed=seed,
        )
        trainer = Trainer(checkpoint, train, validation, settings, progress=False)
        trainer.fit()
        tried.append(
            {
                "learning_rate": rate,
                "validation_loss": round(best_record(trainer.records)["validation_loss"], 4),
                "test_accuracy": round(evaluate_classifier(checkpoint, found.test).accuracy, 4),
            }
        )
    best = min(tried, key=lambda one: one["validation_loss"])
    positive = sum(item.label == found.labels[1] for item in found.test)
    return {
        "sentences": len(chosen),
        "parameters": sum(parameter.numel() for parameter in checkpoint.model.parameters()),
        "test_sentences": len(found.test),
        "test_positive": round(positive / len(found.test), 4),
        **best,
        "by_learning_rate": tried,
        "filling": None if filler is None else filling(filler, found.test),
    }


def filling(filler: Checkpoint, items: list[Labelled]) -> Row:
    """Return the scores of the masked language model on these sentences after pre-training."""
    found = evaluate_masked_language_model(filler, [text for text, _ in items])
    return {"loss": round(found.loss, 4), "accuracy": round(found.accuracy, 4)}


EXPERIMENT = Experiment(
    name="pretraining",
    question="Does a classifier with a pre-trained encoder need fewer labels?",
    conditions=[
        {"data": data, "beginning": beginning, "labels": labels}
        for data in DATA
        for labels in LABELS
        for beginning in BEGINNINGS
    ]
    + [{"data": "toy", "beginning": LONGER, "labels": max(LABELS)}],
    measure=measure,
)
