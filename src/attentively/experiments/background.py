"""Background: a classifier that learned a spurious correlation, its diagnosis, and remedies.

All conditions have the same digits in the same squares. They differ in how often the background of
the training scenes agrees with the digit, and in whether an RNN contextualises the squares before
the attention.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attentively.data import backgrounds
from attentively.data.backgrounds import BackgroundScene
from attentively.experiments.runner import Experiment, Row
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models.attentive_classifier import AttentiveClassifier, SquareEncoder

STEPS = 300
BATCH_SIZE = 32
LEARNING_RATE = 1e-2
TRAIN_SCENES = 1_000
FEATURE_DIM = 32
PLANTED = 0.95
"""Fraction of scenes whose background agrees with the digit in the biased data."""


def new_classifier(seed: int, reader: bool = False) -> AttentiveClassifier:
    """Return an untrained scene classifier; with `reader`, an RNN contextualises the squares."""
    torch.manual_seed(seed)
    return AttentiveClassifier(
        SquareEncoder(FEATURE_DIM),
        key_dim=FEATURE_DIM,
        num_labels=len(backgrounds.LABELS),
        reader=BidirectionalEncoder(FEATURE_DIM, FEATURE_DIM // 2) if reader else None,
    )


def train(
    classifier: AttentiveClassifier,
    scenes: Sequence[BackgroundScene],
    seed: int,
    steps: int = STEPS,
) -> float:
    """Train on random batches of the scenes; return the mean loss of the last 10 % of the steps."""
    squares, labels = backgrounds.collate(scenes)
    optimiser = torch.optim.Adam(classifier.parameters(), LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        batch = torch.randint(len(scenes), (BATCH_SIZE,), generator=generator)
        logits, _ = classifier(squares[batch], everywhere(squares[batch]))
        loss = F.cross_entropy(logits, labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


def everywhere(squares: Tensor) -> Tensor:
    """Return a mask that hides no square."""
    return torch.ones(squares.shape[:2], dtype=torch.bool)


@torch.no_grad()
def look(
    classifier: AttentiveClassifier, scenes: Sequence[BackgroundScene]
) -> tuple[Float[Tensor, "scenes labels"], Float[Tensor, "scenes places"]]:
    """Return the predicted probabilities and the attention weights."""
    squares, _ = backgrounds.collate(scenes)
    logits, weights = classifier(squares, everywhere(squares))
    return logits.softmax(dim=-1), weights


def accuracy(classifier: AttentiveClassifier, scenes: Sequence[BackgroundScene]) -> float:
    """Return the fraction of scenes whose digit is predicted correctly."""
    _, labels = backgrounds.collate(scenes)
    probabilities, _ = look(classifier, scenes)
    return (probabilities.argmax(dim=-1) == labels).float().mean().item()


def weight_on_background(
    classifier: AttentiveClassifier, scenes: Sequence[BackgroundScene]
) -> float:
    """Return the mean total weight on squares without the digit."""
    _, weights = look(classifier, scenes)
    places = torch.tensor([scene.place for scene in scenes])
    return (1 - weights.gather(1, places.unsqueeze(1))).mean().item()


def elsewhere(scenes: Sequence[BackgroundScene]) -> list[BackgroundScene]:
    """Return the scenes with the same digits on the other background."""
    grass, snow = backgrounds.BACKGROUNDS
    return [
        backgrounds.move(scene, snow if scene.background == grass else grass, seed)
        for seed, scene in enumerate(scenes)
    ]


def flipped(
    classifier: AttentiveClassifier,
    scenes: Sequence[BackgroundScene],
    changed: Sequence[BackgroundScene],
) -> float:
    """Return the fraction of scenes whose prediction changes with the change of the scene."""
    before, after = (look(classifier, given)[0].argmax(dim=-1) for given in (scenes, changed))
    return (before != after).float().mean().item()


def measure(agreement: float, reader: bool, seed: int, quick: bool, directory: Path) -> Row:
    """Train one classifier; return its accuracy, its weights, and the effect of the background."""
    torch.set_num_threads(1)
    classifier = new_classifier(seed, reader)
    number = 50 if quick else TRAIN_SCENES
    scenes = backgrounds.load("train", number, agreement=agreement, seed=seed)
    loss = train(classifier, scenes, seed, steps=3 if quick else STEPS)
    tests = {
        "planted": PLANTED,
        "fair": 0.5,
        "reversed": 0.0,
    }
    number = 20 if quick else 500
    tested = {
        name: backgrounds.load("test", number, agreement=share) for name, share in tests.items()
    }
    fair = tested["fair"]
    found = {
        "training_loss": loss,
        **{f"accuracy_{name}": accuracy(classifier, given) for name, given in tested.items()},
        "weight_on_background": weight_on_background(classifier, fair),
        "flipped_by_background": flipped(classifier, fair, elsewhere(fair)),
    }
    return {name: round(value, 4) for name, value in found.items()}


EXPERIMENT = Experiment(
    name="background",
    question="Did the classifier learn the digit or the background, and which method shows it?",
    conditions=[
        {"agreement": agreement, "reader": reader}
        for reader in (False, True)
        for agreement in (1.0, PLANTED, 0.8, 0.5)
    ],
    measure=measure,
)
