"""Recall: what different layers remember, and learn, about distant positions.

Five small causal models and three synthetic tasks. At every position, each model has access to that
position and the preceding ones; the models differ in the layer that connects positions. All have
the same dimension and the same training.
"""

from pathlib import Path
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively import device
from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import SinusoidalPositionalEncoding
from attentively.config import check_at_least_one
from attentively.experiments.runner import Experiment, Row
from attentively.layers.feed_forward import FeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.transformer_layers import EncoderLayer
from attentively.training.schedules import one_cycle

Task = Literal["first", "lookup", "parity"]
KEYS, VALUES = 64, 8
NO_KEY, NO_VALUE, NOT_ASKED = KEYS, VALUES, VALUES
QUESTIONS = 8
D_MODEL = 64
STEPS, BATCH_SIZE, LEARNING_RATE = 250, 32, 3e-3
LENGTH = 48
"""Number of items before the questions."""
PARITY_LENGTH, PARITY_TESTED = 16, (8, 16, 24, 32, 64)
REACHES = (0, 1, 2, 4, 8, 9, 16, 32, 48)
"""Distances, in positions, at which gradients are recorded."""
DISTANCES = (8, 16, 32, LENGTH + QUESTIONS)
"""Upper bounds of groups of distances, in positions, between item and question."""


class Sequences(NamedTuple):
    """The inputs and the targets of a model."""

    items: Int[Tensor, "batch len 2"]
    """The ids of a key and of a value at each position; either may be missing."""
    answers: Int[Tensor, "batch len"]
    """The value to predict after each position, or ``NOT_ASKED``."""
    places: Int[Tensor, "batch len"]
    """The position of the requested item, or -1."""


def sequences(task: Task, length: int, size: int, generator: torch.Generator) -> Sequences:
    """Return sequences of a task.

    ``first``: `length` values, then a question; the answer is the first value. ``lookup``:
    `length` pairs of a key and a value, with distinct keys, then some of the keys again; the
    answer to each is its value. ``parity``: `length` zeros and ones; the answer at each position
    is the parity of the number of ones so far.
    """
    check_at_least_one(length=length, size=size)
    values = torch.randint(VALUES, (size, length), generator=generator)
    keys = torch.full((size, length), NO_KEY)
    nowhere = torch.full((size, length), -1)
    if task == "parity":
        values = values % 2
        return Sequences(torch.stack([keys, values], -1), values.cumsum(dim=1) % 2, nowhere)
    if task == "lookup":
        keys = torch.rand(size, KEYS, generator=generator).argsort(dim=1)[:, :length]
        chosen = torch.randint(length, (size, QUESTIONS), generator=generator)
    else:
        chosen = torch.zeros(size, 1, dtype=torch.long)
    asked = keys.gather(1, chosen)
    questions = torch.stack([asked, torch.full_like(asked, NO_VALUE)], dim=-1)
    items = torch.cat([torch.stack([keys, values], dim=-1), questions], dim=1)
    unasked = torch.full((size, length), NOT_ASKED)
    return Sequences(
        items,
        torch.cat([unasked, values.gather(1, chosen)], dim=1),
        torch.cat([nowhere, chosen], dim=1),
    )


class Recurrence(nn.Module):
    """A GRU."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gru = nn.GRU(d_model, d_model, batch_first=True)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Return the state after each position."""
        return self.gru(x)[0]


class SelfAttention(nn.Module):
    """One head of causal self-attention with a residual connection."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads=1)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Return every vector plus its context."""
        mask = causal_mask(x.shape[1]).to(x.device)
        return x + self.attention(x, x, x, mask=mask, need_weights=False)[0]


class Convolution(nn.Module):
    """A causal convolution with kernel size 3 and the given dilation."""

    def __init__(self, d_model: int, dilation: int) -> None:
        super().__init__()
        self.back = 2 * dilation
        self.layer_norm = LayerNorm(d_model)
        self.window = nn.Conv1d(d_model, d_model, kernel_size=3, dilation=dilation)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Return every vector plus the output of its window."""
        before = nn.functional.pad(self.layer_norm(x).transpose(1, 2), (self.back, 0))
        return x + torch.relu(self.window(before)).transpose(1, 2)


class TransformerLayers(nn.Module):
    """Sinusoidal positions and two causal Transformer layers."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.position = SinusoidalPositionalEncoding(d_model)
        self.layers = nn.ModuleList(
            EncoderLayer(
                d_model, MultiHeadAttention(d_model, num_heads=4), FeedForward(d_model, 2 * d_model)
            )
            for _ in range(2)
        )
        self.last_norm = LayerNorm(d_model)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Return the output of the last layer at each position."""
        x = self.position(x)
        mask = causal_mask(x.shape[1]).to(x.device)
        for layer in self.layers:
            x, _ = layer(x, mask=mask)
        return self.last_norm(x)


class Reader(nn.Module):
    """Embeddings, layers of one kind, and an output layer over the values."""

    def __init__(self, kind: str, d_model: int = D_MODEL) -> None:
        """`kind` is a key of `KINDS`; an unknown one raises `ValueError`."""
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is unknown: choose one of {', '.join(KINDS)}")
        self.key_table = nn.Embedding(KEYS + 1, d_model)
        self.value_table = nn.Embedding(VALUES + 1, d_model)
        self.layers = KINDS[kind](d_model)
        self.output = nn.Linear(d_model, VALUES)

    def embed(self, items: Int[Tensor, "batch len 2"]) -> Float[Tensor, "batch len d_model"]:
        """Return the sum of the embeddings of key and value."""
        return self.key_table(items[..., 0]) + self.value_table(items[..., 1])

    def forward(self, items: Int[Tensor, "batch len 2"]) -> Float[Tensor, "batch len values"]:
        """Return the logits of the answer after each position."""
        return self.output(self.layers(self.embed(items)))


KINDS = {
    "GRU": Recurrence,
    "GRU + attention": lambda d: nn.Sequential(Recurrence(d), SelfAttention(d)),
    "convolution": lambda d: nn.Sequential(*(Convolution(d, 1) for _ in range(4))),
    "dilated": lambda d: nn.Sequential(*(Convolution(d, 3**i) for i in range(4))),
    "Transformer": TransformerLayers,
}
"""The layers that connect positions. The receptive field of four windows of three reaches 8
positions back; with dilations of 1, 3, 9 and 27 it reaches 80."""


def reach(
    reader: Reader, items: Int[Tensor, "batch len 2"], generator: torch.Generator
) -> Float[Tensor, " len"]:
    """Return the gradient norm of the last output at each position, the last first.

    It is the norm of the gradient of the output, projected on a random direction, with
    respect to the vector of the position: its root mean square over the sequences.
    """
    vectors = reader.embed(items).detach().requires_grad_()
    last = reader.output(reader.layers(vectors))[:, -1]
    direction = torch.randn(last.shape, generator=generator).to(last.device)
    (gradient,) = torch.autograd.grad((last * direction).sum(), vectors)
    return gradient.pow(2).sum(dim=-1).mean(dim=0).sqrt().flip(0)


@torch.no_grad()
def right(reader: nn.Module, given: Sequences) -> Bool[Tensor, "batch len"]:
    """Return where the most probable answer is correct."""
    where = next(reader.parameters()).device
    return reader(given.items.to(where)).argmax(dim=-1).cpu() == given.answers


def by_distance(reader: nn.Module, given: Sequences) -> list[Row]:
    """Return the accuracy by the distance of the item."""
    correct = right(reader, given)
    back = torch.arange(given.items.shape[1]) - given.places
    rows, nearest = [], 1
    for farthest in DISTANCES:
        chosen = (given.places >= 0) & (back >= nearest) & (back <= farthest)
        if chosen.any():
            share = correct[chosen].float().mean().item()
            rows.append({"from": nearest, "to": farthest, "accuracy": round(share, 4)})
        nearest = farthest + 1
    return rows


def with_intermediate_answers(given: Sequences) -> Sequences:
    """Return the sequences with each correct answer as input of the next position.

    The answer takes the slot of the key, which is empty in ``parity``.
    """
    items = given.items.clone()
    items[:, 1:, 0] = given.answers[:, :-1]
    return given._replace(items=items)


@torch.no_grad()
def generate_answers(
    reader: nn.Module, items: Int[Tensor, "batch len 2"]
) -> Int[Tensor, "batch len"]:
    """Return the answers of a model that reads its own previous answer."""
    items = items.clone()
    answers = torch.zeros_like(items[..., 0])
    for t in range(items.shape[1]):
        if t > 0:
            items[:, t, 0] = answers[:, t - 1]
        answers[:, t] = reader(items[:, : t + 1])[:, -1].argmax(dim=-1)
    return answers


def train(
    reader: Reader, task: Task, length: int, steps: int, seed: int, intermediate: bool = False
) -> None:
    """Train for `steps` updates, each on new sequences.

    With `intermediate`, the model reads the correct answer to the preceding position.
    """
    where = device.best()
    reader.to(where)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=LEARNING_RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * one_cycle(step, steps, steps // 10)
        given = sequences(task, length, BATCH_SIZE, generator)
        items, answers, _ = with_intermediate_answers(given) if intermediate else given
        logits = reader(items.to(where)).transpose(1, 2)
        loss = nn.functional.cross_entropy(logits, answers.to(where), ignore_index=NOT_ASKED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()


def measure(task: Task, reader: str, length: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its accuracy, and the reach of its gradients."""
    del directory  # short enough to restart
    torch.manual_seed(seed)
    model = Reader(reader).to(device.best())
    steps = 3 if quick else STEPS
    size = 20 if quick else 500
    generator = torch.Generator().manual_seed(1000 + seed)
    held_out = sequences(task, length, size, generator)
    items = held_out.items[:20].to(device.best())
    before = _kept(reach(model, items, generator))
    started = device.seconds(device.best())
    train(model, task, length, steps, seed)
    row: Row = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": steps,
        "device_seconds": round(device.seconds(device.best()) - started, 2),
        "accuracy": _share(right(model, held_out)[:, length - (task == "parity") :]),
        "reach_before": before,
        "reach_after": _kept(reach(model, items, generator)),
    }
    if task == "lookup":
        row["by_distance"] = by_distance(model, held_out)
    if task == "parity":
        row["by_length"] = [
            {
                "length": tested,
                "accuracy": _share(right(model, sequences(task, tested, size, generator))[:, -1]),
            }
            for tested in PARITY_TESTED
        ]
    return row


def _share(correct: Bool[Tensor, "..."]) -> float:
    return round(correct.float().mean().item(), 4)


def _kept(found: Float[Tensor, " len"]) -> list[Row]:
    return [
        {"steps_back": back, "gradient": float(f"{found[back]:.3g}")}
        for back in REACHES
        if back < len(found)
    ]


EXPERIMENT = Experiment(
    name="recall",
    question="What do recurrence, convolution and attention remember about distant positions?",
    conditions=[
        {"task": task, "reader": kind, "length": length}
        for task, length in (
            ("lookup", LENGTH),
            ("parity", PARITY_LENGTH),
            ("first", LENGTH),
        )
        for kind in KINDS
    ],
    measure=measure,
)
