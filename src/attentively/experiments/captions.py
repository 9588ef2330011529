"""Captions: the effect of the doubly stochastic penalty and of the receptive field on attention.

All conditions caption the same scenes of digits, with the same decoder and number of steps. They
differ in the doubly stochastic penalty, and in the receptive field of the feature map.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attentively import device
from attentively.data import digits
from attentively.data.batches import ImageExample, encode_scenes, in_order
from attentively.data.digits import CELL_SIZE, COLUMNS, DIGITS, DigitScene
from attentively.experiments.runner import Experiment, Row
from attentively.models.captioning import Captioner, doubly_stochastic_penalty
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import CaptionerConfig
from attentively.models.interface import evaluating
from attentively.scoring.evaluation import evaluate_captioner
from attentively.tokens.vocabulary import Vocabulary, WordTokenizer
from attentively.training.objectives import Captioning
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

STEPS = 700
LEARNING_RATE = 3e-3


class Naming(NamedTuple):
    """A word of a caption that names a digit."""

    scene: int
    step: int
    """The index of the word in the caption, from 0."""
    named: frozenset[int]
    """The cells that contain this digit."""


def count_digits(scene: DigitScene) -> int:
    """Return the number of cells of the scene with a digit."""
    return sum(cell is not None for cell in scene.cells)


def new_checkpoint(
    seed: int, provenance: dict[str, Any] | None = None, **settings: Any
) -> Checkpoint:
    """Return an untrained captioner whose vocabulary contains every word of the captions.

    `settings` are the fields of `CaptionerConfig` that differ from the defaults.
    """
    tokenizer = WordTokenizer(Vocabulary(digits.words()))
    torch.manual_seed(seed)
    model = Captioner(CaptionerConfig(len(tokenizer), **settings))
    return Checkpoint(model, None, tokenizer, provenance or {})


def train(
    checkpoint: Checkpoint,
    steps: int,
    seed: int,
    attention_penalty: float = 0.0,
    directory: Path | None = None,
    train_scenes: int = 10_000,
) -> Trainer:
    """Train on scenes of the training split; resume a run in `directory`."""
    assert checkpoint.tgt_tokenizer is not None  # a captioner writes
    config = TrainingConfig(
        steps=steps,
        learning_rate=LEARNING_RATE,
        schedule="constant",
        attention_penalty=attention_penalty,
        validate_every=max(10, steps // 4),
        seed=seed,
    )
    examples, validation = (
        encode_scenes(digits.load(split, number), checkpoint.tgt_tokenizer)
        for split, number in (("train", train_scenes), ("validation", max(20, train_scenes // 40)))
    )
    trainer = Trainer(checkpoint, examples, validation, config, directory, progress=False)
    resume = directory is not None and (directory / "last.safetensors").exists()
    trainer.fit(resume=resume)
    return trainer


def measure(attention_penalty: float, mixing: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one captioner; score the truth of its captions and the focus of its attention."""
    provenance = {
        "command": "attentively experiment captions",
        "data": "digit-scenes",
        "data_licence": "CC BY 4.0",
        "attribution": "digits by Alpaydin & Kaynak (1998), by way of scikit-learn",
        "seed": seed,
        "device": device.describe(device.best()),
    }
    checkpoint = new_checkpoint(seed, provenance, mixing=mixing)
    trainer = train(
        checkpoint,
        4 if quick else STEPS,
        seed,
        attention_penalty,
        directory,
        train_scenes=100 if quick else 10_000,
    )
    scenes = digits.load("test", 20 if quick else 500)
    model = checkpoint.model
    assert isinstance(model, Captioner)
    return {
        "receptive_field": model.config.receptive_field,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": trainer.step,
        "validation_loss": min(record["validation_loss"] for record in trainer.records),
        "true": {
            str(count): truth(checkpoint, [s for s in scenes if count_digits(s) == count])
            for count in (1, 2, 3)
        },
        **focus(checkpoint, [scene for scene in scenes if count_digits(scene) > 1]),
    }


def truth(checkpoint: Checkpoint, scenes: Sequence[DigitScene]) -> float:
    """Return the fraction of true captions, by greedy search."""
    return round(evaluate_captioner(checkpoint, scenes, beam_size=1).faithful, 4)


def focus(checkpoint: Checkpoint, scenes: Sequence[DigitScene]) -> Row:
    """Return the attention scores at the words that name a digit, with teacher forcing.

    ``names_right`` is the accuracy at these words. ``probability`` is the mean probability of the
    correct name, and ``probability_hidden`` the same after the cell with the largest weight is
    made blank. ``unevenness`` is the doubly stochastic penalty over whole captions. The others
    are those of `score_looks`.
    """
    assert checkpoint.tgt_tokenizer is not None  # a captioner writes
    assert isinstance(checkpoint.model, Captioner)
    examples = encode_scenes(scenes, checkpoint.tgt_tokenizer)
    probabilities, weights = read(checkpoint.model, examples)
    namings = list(find_namings(scenes))
    rows, steps = [naming.scene for naming in namings], [naming.step for naming in namings]
    names = [examples[row].tgt[step + 1] for row, step in zip(rows, steps, strict=True)]
    looks = weights[rows, steps]

    hidden = [
        ImageExample(hide(scenes[row].image, place), examples[row].tgt)
        for row, place in zip(rows, looks.argmax(dim=-1).tolist(), strict=True)
    ]
    without, _ = read(checkpoint.model, hidden)

    mask = torch.zeros(weights.shape[:2], dtype=torch.bool)
    for words, example in zip(mask, examples, strict=True):
        words[: len(example.tgt) - 1] = True
    right = probabilities[rows, steps].argmax(dim=-1) == torch.tensor(names)
    found = {
        "namings": len(namings),
        "names_right": right.float().mean().item(),
        "probability": probabilities[rows, steps, names].mean().item(),
        "probability_hidden": without[range(len(namings)), steps, names].mean().item(),
        "unevenness": doubly_stochastic_penalty(weights, mask).item(),
        **score_looks(scenes, namings, looks),
    }
    return {name: round(value, 4) for name, value in found.items()}


def score_looks(
    scenes: Sequence[DigitScene],
    namings: Sequence[Naming],
    looks: Float[Tensor, "namings places"],
) -> dict[str, float]:
    """Return how well the attention weights at each naming word match the named digit.

    ``pointing`` is the fraction of words whose largest weight is on a cell with the named digit,
    ``chance`` the expected value for a random cell, and ``chance_on_ink`` for a random cell with a
    digit. ``weight_on_named`` is the total weight on the named cells, ``weight_on_ink`` that on
    all digits, and ``entropy`` the entropy of the weights in nats.
    """
    named, ink = torch.zeros_like(looks), torch.zeros_like(looks)
    for row, naming in enumerate(namings):
        named[row, list(naming.named)] = 1
        for place, cell in enumerate(scenes[naming.scene].cells):
            ink[row, place] = cell is not None
    found = {
        "pointing": named.gather(1, looks.argmax(dim=-1, keepdim=True)),
        "chance": named.mean(dim=-1),
        "chance_on_ink": named.sum(dim=-1) / ink.sum(dim=-1),
        "weight_on_named": (looks * named).sum(dim=-1),
        "weight_on_ink": (looks * ink).sum(dim=-1),
        "entropy": torch.special.entr(looks).sum(dim=-1),
    }
    return {name: values.mean().item() for name, values in found.items()}


def find_namings(scenes: Sequence[DigitScene]) -> Iterator[Naming]:
    """Find the words of the captions that name a digit."""
    for index, scene in enumerate(scenes):
        for step, (word, named) in enumerate(zip(scene.caption, scene.focus, strict=True)):
            if word in DIGITS:
                yield Naming(index, step, named)


def hide(image: Float[Tensor, "1 height width"], place: int) -> Float[Tensor, "1 height width"]:
    """Return the image with that cell of the grid made blank."""
    row, column = divmod(place, COLUMNS)
    top, left = row * CELL_SIZE, column * CELL_SIZE
    blank = image.clone()
    blank[:, top : top + CELL_SIZE, left : left + CELL_SIZE] = 0
    return blank


def read(
    model: Captioner, examples: Sequence[ImageExample]
) -> tuple[Float[Tensor, "batch tgt_len vocab"], Float[Tensor, "batch tgt_len places"]]:
    """Return the predictions and the attention weights at each word, with teacher forcing."""
    images, tgt = Captioning().collate(examples)
    where = next(model.parameters()).device
    probabilities, weights = [], []
    with evaluating(model):
        for indices in in_order(len(examples), 256):
            batch, words = images[indices].to(where), tgt[indices, :-1].to(where)
            logits, looked = model.decode(words, model.encode(batch), need_weights=True)
            assert looked is not None  # a captioner attends
            probabilities.append(logits.softmax(dim=-1).cpu())
            weights.append(looked.cpu())
    return torch.cat(probabilities), torch.cat(weights)


EXPERIMENT = Experiment(
    name="captions",
    question="How do the doubly stochastic penalty and the receptive field affect attention?",
    conditions=[
        {"attention_penalty": 0.0, "mixing": 1},
        {"attention_penalty": 0.1, "mixing": 1},
        {"attention_penalty": 1.0, "mixing": 1},
        {"attention_penalty": 0.0, "mixing": 5},
    ],
    measure=measure,
)
