"""Recall: what kinds of layers still know, and still learn, of what stood far back.

Five small readers, and three tasks made by chance. Each reader sees at every position that
position and those before it; they differ in how one position hears of another. All have vectors
of one size and the same training.
"""

import time
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
"""Items before the questions."""
PARITY_LENGTH, PARITY_TESTED = 16, (8, 16, 24, 32, 64)
REACHES = (0, 1, 2, 4, 8, 9, 16, 32, 48)
"""Steps back, at which the gradients are kept."""
DISTANCES = (8, 16, 32, LENGTH + QUESTIONS)
"""Answers are counted by how many steps before the question their item stood, up to these."""


class Sequences(NamedTuple):
    """What a reader reads, and what it should say."""

    items: Int[Tensor, "batch len 2"]
    """At each position the id of a key and that of a value; either may be missing."""
    answers: Int[Tensor, "batch len"]
    """The value to say after each position, or ``NOT_ASKED``."""
    places: Int[Tensor, "batch len"]
    """Where the item stands that is asked for, or -1."""


def sequences(task: Task, length: int, size: int, generator: torch.Generator) -> Sequences:
    """Return sequences of a task.

    ``first``: `length` values, then a question; the answer is the first value. ``lookup``:
    `length` pairs of a key and a value, no key twice, then a few of the keys again; the answer to
    each is its value. ``parity``: `length` zeros and ones; the answer, at each of them, is
    whether there were an odd number of ones so far.
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
    """One head that looks at all positions so far; what it finds is added."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads=1)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Return every vector with what it found."""
        mask = causal_mask(x.shape[1]).to(x.device)
        return x + self.attention(x, x, x, mask=mask, need_weights=False)[0]


class Convolution(nn.Module):
    """A window of three positions, `dilation` apart, that ends at each position."""

    def __init__(self, d_model: int, dilation: int) -> None:
        super().__init__()
        self.back = 2 * dilation
        self.layer_norm = LayerNorm(d_model)
        self.window = nn.Conv1d(d_model, d_model, kernel_size=3, dilation=dilation)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Return every vector with what its window says added."""
        before = nn.functional.pad(self.layer_norm(x).transpose(1, 2), (self.back, 0))
        return x + torch.relu(self.window(before)).transpose(1, 2)


class TransformerLayers(nn.Module):
    """Positions, and two layers of the decoder's kind."""

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
        """Return what the last layer makes of each position."""
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
            raise ValueError(f"kind={kind!r} is unknown: choose of {', '.join(KINDS)}")
        self.key_table = nn.Embedding(KEYS + 1, d_model)
        self.value_table = nn.Embedding(VALUES + 1, d_model)
        self.layers = KINDS[kind](d_model)
        self.output = nn.Linear(d_model, VALUES)

    def embed(self, items: Int[Tensor, "batch len 2"]) -> Float[Tensor, "batch len d_model"]:
        """Return the sum of the rows of key and value."""
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
"""How a position hears of another. Four windows of three see 8 steps back; with dilations of 1, 3,
9 and 27 they see 80."""


def reach(
    reader: Reader, items: Int[Tensor, "batch len 2"], generator: torch.Generator
) -> Float[Tensor, " len"]:
    """Return how strongly the last output depends on each position, from the last.

    That is the length of the gradient, by the vector of the position, of the output in
    a random direction: its root mean square over the sequences.
    """
    vectors = reader.embed(items).detach().requires_grad_()
    last = reader.output(reader.layers(vectors))[:, -1]
    direction = torch.randn(last.shape, generator=generator).to(last.device)
    (gradient,) = torch.autograd.grad((last * direction).sum(), vectors)
    return gradient.pow(2).sum(dim=-1).mean(dim=0).sqrt().flip(0)


@torch.no_grad()
def right(reader: nn.Module, given: Sequences) -> Bool[Tensor, "batch len"]:
    """Return where the likeliest answer is the right one."""
    where = next(reader.parameters()).device
    return reader(given.items.to(where)).argmax(dim=-1).cpu() == given.answers


def by_distance(reader: nn.Module, given: Sequences) -> list[Row]:
    """Return the share of right answers by how far back the item stood."""
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


def train(reader: Reader, task: Task, length: int, steps: int, seed: int) -> None:
    """Make so many updates, each on new sequences."""
    where = device.best()
    reader.to(where)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=LEARNING_RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * one_cycle(step, steps, steps // 10)
        items, answers, _ = sequences(task, length, BATCH_SIZE, generator)
        logits = reader(items.to(where)).transpose(1, 2)
        loss = nn.functional.cross_entropy(logits, answers.to(where), ignore_index=NOT_ASKED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()


def measure(task: Task, reader: str, length: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one reader; return what it answers, and how far back its gradients reach."""
    del directory  # short enough to begin anew
    torch.manual_seed(seed)
    model = Reader(reader).to(device.best())
    steps = 5 if quick else STEPS
    size = 20 if quick else 500
    generator = torch.Generator().manual_seed(1000 + seed)
    held_out = sequences(task, length, size, generator)
    items = held_out.items[:20].to(device.best())
    before = _kept(reach(model, items, generator))
    started = time.process_time()
    train(model, task, length, steps, seed)
    row: Row = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_steps": steps,
        "processor_seconds": round(time.process_time() - started, 2),
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
    question="What do recurrence, convolution and attention still know of what stood far back?",
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
