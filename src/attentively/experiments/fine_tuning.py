"""Fine-tuning: a pretrained language model adapted to another text, with all parameters or few.

The model is the pretrained `shakespeare-gpt`, which predicts the next character; the other text
consists of everyday English sentences (``attentively data get tatoeba-en-fr``). Every method has
the same batches and the same number of updates. Each is trained with several learning rates of its
own, and the one with the best validation loss on the new text is tested, on the new text and on
the old one.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attentively import device
from attentively.data import tatoeba, text
from attentively.experiments.character_models import LENGTH, fit, surprise, text_of, windows
from attentively.experiments.runner import Experiment, Row
from attentively.layers.low_rank import add_low_rank_updates
from attentively.models.checkpoints import load_pretrained
from attentively.models.interface import evaluating
from attentively.models.language_model import LanguageModel

PRETRAINED = "shakespeare-gpt"
STEPS = 120
BATCH_SIZE = 8
TEST_PIECES = 256
ALPHA = 16.0
TRAINED_CHARACTERS = 200_000
ATTENTION = ("query_projection", "value_projection")
EVERYWHERE = (*ATTENTION, "key_projection", "output_projection", "inner", "outer")


class Method(NamedTuple):
    """How a model is prepared for fine-tuning, and the learning rates to choose from."""

    prepare: Callable[[LanguageModel], object]
    learning_rates: tuple[float, ...]


def output_layer_alone(model: LanguageModel) -> None:
    """Freeze all but the output layer, which receives its own copy of the embedding matrix."""
    model.requires_grad_(False)
    model.output.weight = nn.Parameter(model.output.weight.detach().clone())


def low_rank(rank: int, where: tuple[str, ...] = ATTENTION) -> Callable[[LanguageModel], object]:
    """Return a function that adds updates of this rank to a model."""
    return lambda model: add_low_rank_updates(model, rank, ALPHA, where)


METHODS = {
    "none": Method(lambda model: model.requires_grad_(False), ()),
    "output layer": Method(output_layer_alone, (3e-3, 1e-2, 3e-2)),
    "LoRA, rank 1": Method(low_rank(1), (3e-3, 1e-2, 3e-2)),
    "LoRA, rank 4": Method(low_rank(4), (3e-3, 1e-2, 3e-2)),
    "LoRA, rank 16": Method(low_rank(16), (3e-3, 1e-2, 3e-2)),
    "LoRA, rank 4, every layer": Method(low_rank(4, EVERYWHERE), (1e-3, 3e-3, 1e-2)),
    "all parameters": Method(lambda model: model, (3e-4, 1e-3, 3e-3)),
}
"""Every method; "every layer" means all linear layers of the blocks, others queries and values."""


@cache
def characters(kind: str, split: str, quick: bool) -> Int[Tensor, " characters"]:
    """Return the ids of a split of the ``old`` or the ``new`` text, in the model's vocabulary."""
    tokenizer = cast(Any, load_pretrained(PRETRAINED).tgt_tokenizer)
    if kind == "old":
        said = text_of(split, quick).upper() if quick else text_of(split, quick)
    else:
        said = text_of(split, quick) if quick else everyday_lines(split)
    return torch.tensor(tokenizer.encode(said)[:-1])  # without <end>


def everyday_lines(split: str) -> str:
    """Return different everyday sentences in random order, one per line.

    Sentences with a character that Shakespeare's plays do not contain are left out.
    """
    known = set(text.shakespeare("train"))
    every = dict.fromkeys(pair.src for pair in tatoeba.load(split))
    lines = [line for line in every if known.issuperset(line)]
    random.Random(0).shuffle(lines)
    return "\n".join(lines)[:TRAINED_CHARACTERS]  # more than the held-out splits have


def evaluate(model: LanguageModel, kind: str, split: str, quick: bool) -> tuple[float, float]:
    """Return loss (nats per character) and accuracy on random pieces, the same in every call."""
    generator = torch.Generator().manual_seed(0)
    count = 8 if quick else TEST_PIECES
    pieces = windows(characters(kind, split, quick), count, LENGTH, generator).to(device.best())
    with evaluating(model):
        logits = model(pieces[:, :-1])
    right = (logits.argmax(dim=-1) == pieces[:, 1:]).float().mean().item()
    losses = nn.functional.cross_entropy(logits.transpose(1, 2), pieces[:, 1:])
    return losses.item(), right


def prepared(method: str) -> LanguageModel:
    """Return the pretrained model before fine-tuning."""
    model = cast(LanguageModel, load_pretrained(PRETRAINED).model)
    METHODS[method].prepare(model)
    return model.to(device.best())


def fine_tuned(method: str, learning_rate: float, seed: int, quick: bool) -> LanguageModel:
    """Return the pretrained model after fine-tuning."""
    torch.manual_seed(seed)  # of A, and of dropout
    model = prepared(method)
    generator = torch.Generator().manual_seed(seed)
    train = characters("new", "train", quick)

    def loss() -> Tensor:
        pieces = windows(train, BATCH_SIZE, LENGTH, generator)
        return surprise(model, pieces.to(device.best())).mean()

    fit(model, loss, 2 if quick else STEPS, learning_rate)
    return model


def measure(method: str, seed: int, quick: bool, directory: Path) -> Row:
    """Fine-tune once per learning rate; test the model with the best validation loss."""
    torch.set_num_threads(1)
    model = prepared(method)
    tried, models = [], []
    for rate in METHODS[method].learning_rates[: 2 if quick else None]:
        models.append(fine_tuned(method, rate, seed, quick))
        loss, _ = evaluate(models[-1], "new", "validation", quick)
        tried.append({"learning_rate": rate, "validation_loss": round(loss, 4)})
    if tried:
        best = min(range(len(tried)), key=lambda index: tried[index]["validation_loss"])
        model, chosen = models[best], tried[best]
    (new_loss, new_accuracy), (old_loss, old_accuracy) = (
        evaluate(model, kind, "test", quick) for kind in ("new", "old")
    )
    number = trained_parameters(model)
    return {
        "trained_parameters": number,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "optimizer_bytes": 2 * 4 * number,  # Adam: two averages of each gradient, in 32 bits
        "new_loss": round(new_loss, 4),
        "new_accuracy": round(new_accuracy, 4),
        "old_loss": round(old_loss, 4),
        "old_accuracy": round(old_accuracy, 4),
        "learning_rate": chosen["learning_rate"] if tried else None,
        "by_learning_rate": tried,
    }


def trained_parameters(model: nn.Module) -> int:
    """Return the number of parameters that are not frozen."""
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


EXPERIMENT = Experiment(
    name="fine-tuning",
    question="What do LoRA, the output layer alone and all parameters learn and forget?",
    conditions=[{"method": method} for method in METHODS],
    measure=measure,
)
