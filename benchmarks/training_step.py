"""What the package's small parts cost: a training step of `Seq2Seq` beside the same network
written down in one function, with `nn.GRU`, `nn.GRUCell` and plain tensor code.

    python benchmarks/training_step.py            # writes benchmarks/results/training_step.json
    python benchmarks/training_step.py --quick    # small, and writes nothing

The two take turns, so that whatever else the machine does slows both; what counts is the ratio
of their medians, which is to stay below 1.2.
"""

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attentively import device
from attentively.atomic_files import replacing
from attentively.data.batches import Batch, Example, collate
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import Seq2SeqConfig
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary, WordTokenizer
from attentively.training.objectives import teacher_forced_loss
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

RESULTS = Path(__file__).parent / "results" / "training_step.json"
TARGET = 1.2
CLIP_NORM = 1.0


@dataclass(frozen=True)
class Size:
    """The size of a model and of its batches."""

    name: str
    vocab_size: int
    embedding_dim: int
    encoder_dim: int
    decoder_dim: int
    attention_dim: int
    batch_size: int
    shortest: int
    longest: int


TINY = Size("tiny", 53, 17, 13, 19, 11, batch_size=7, shortest=2, longest=7)
TOY = Size("toy", 211, 64, 64, 128, 64, batch_size=64, shortest=4, longest=20)
REAL = Size("real", 5000, 128, 160, 256, 160, batch_size=128, shortest=3, longest=14)


class PlainSeq2Seq(nn.Module):
    """The network of `attentively.models.seq2seq`, in one piece."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        vocab, key_dim = size.vocab_size, 2 * size.encoder_dim
        self.embedding = nn.Embedding(vocab, size.embedding_dim, padding_idx=PAD_ID)
        self.encoder = nn.GRU(
            size.embedding_dim, size.encoder_dim, batch_first=True, bidirectional=True
        )
        self.bridge = nn.Linear(size.encoder_dim, size.decoder_dim)
        self.W = nn.Linear(size.decoder_dim, size.attention_dim, bias=False)
        self.U = nn.Linear(key_dim, size.attention_dim, bias=False)
        self.v = nn.Linear(size.attention_dim, 1, bias=False)
        self.cell = nn.GRUCell(size.embedding_dim + key_dim, size.decoder_dim)
        self.readout = nn.Linear(size.decoder_dim + key_dim, size.embedding_dim)
        self.output = nn.Linear(size.embedding_dim, vocab)
        self.output.weight = self.embedding.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Return the mean loss per target token."""
        real = src != PAD_ID
        packed = pack_padded_sequence(
            self.embedding(src), real.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        packed, last = self.encoder(packed)
        keys, _ = pad_packed_sequence(packed, batch_first=True, total_length=src.shape[1])
        projected_keys = self.U(keys)
        hidden = torch.tanh(self.bridge(last[1]))
        states = []
        for embedded in self.embedding(tgt[:, :-1]).unbind(1):
            scores = self.v(torch.tanh(self.W(hidden).unsqueeze(1) + projected_keys)).squeeze(2)
            weights = torch.softmax(scores.masked_fill(~real, -torch.inf), dim=1)
            context = torch.bmm(weights.unsqueeze(1), keys).squeeze(1)
            hidden = self.cell(torch.cat([embedded, context], dim=1), hidden)
            states.append(torch.cat([hidden, context], dim=1))
        logits = self.output(torch.tanh(self.readout(torch.stack(states, dim=1))))
        return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD_ID)


OURS_TO_PLAIN = {
    "src_embedding.table.weight": "embedding.weight",
    "encoder.gru.": "encoder.",
    "decoder.bridge.": "bridge.",
    "decoder.attention.query_projection.": "W.",
    "decoder.attention.key_projection.": "U.",
    "decoder.attention.energy.": "v.",
    "decoder.cell.": "cell.",
    "decoder.readout.": "readout.",
    "decoder.output.": "output.",
}


def of_the_package(size: Size) -> tuple[nn.Module, Callable[[Batch], Tensor]]:
    """Return the package's model, and one step of the package's trainer."""
    torch.manual_seed(0)
    model = Seq2Seq(
        Seq2SeqConfig(
            size.vocab_size,
            size.vocab_size,
            size.embedding_dim,
            size.encoder_dim,
            size.decoder_dim,
            size.attention_dim,
            share_embeddings=True,
        )
    )
    words = WordTokenizer(Vocabulary([]))
    example = [Example([END_ID], [START_ID, END_ID])]
    config = TrainingConfig(steps=10**6, schedule="constant", clip_norm=CLIP_NORM)
    trainer = Trainer(Checkpoint(model, words, words), example, example, config)
    return model, lambda batch: trainer._update([batch])


def name_in_plain(name: str) -> str:
    """Return what a parameter of the package's model is called in the plain one."""
    ours = next(prefix for prefix in OURS_TO_PLAIN if name.startswith(prefix))
    return name.replace(ours, OURS_TO_PLAIN[ours])


def in_plain_code(size: Size, like: nn.Module) -> tuple[nn.Module, Callable[[Batch], Tensor]]:
    """Return the plain model with the weights of `like`, and one step of a plain loop."""
    model = PlainSeq2Seq(size).to(device.best())
    model.load_state_dict(
        {name_in_plain(name): value for name, value in like.named_parameters()}, strict=False
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> Tensor:
        loss = model(batch.src, batch.tgt)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return loss.detach()

    return model, step


def check_same(package: nn.Module, plain: nn.Module, batch: Batch) -> None:
    """Raise `AssertionError` where the two differ in loss or in a gradient."""
    losses = teacher_forced_loss(package, batch), plain(batch.src, batch.tgt)
    torch.testing.assert_close(*losses, msg=lambda text: f"not the same network: {text}")
    ours, theirs = (
        dict(zip(dict(model.named_parameters()), gradients, strict=True))
        for model, gradients in (
            (model, torch.autograd.grad(loss, list(model.parameters())))
            for model, loss in zip((package, plain), losses, strict=True)
        )
    )
    if {name_in_plain(name) for name in ours} != set(theirs):
        raise AssertionError(f"not the same network: {sorted(ours)} and {sorted(theirs)}")
    for name, gradient in ours.items():
        other = theirs[name_in_plain(name)]
        if (gradient - other).norm() > 1e-3 * other.norm():
            raise AssertionError(f"not the same network: the gradients of {name} differ")


def random_batches(size: Size, count: int) -> list[Batch]:
    """Return batches of random sentences of random lengths."""
    generator = random.Random(0)

    def sentence() -> list[int]:
        length = generator.randint(size.shortest, size.longest)
        return [generator.randrange(END_ID + 1, size.vocab_size) for _ in range(length)]

    def example() -> Example:
        return Example([*sentence(), END_ID], [START_ID, *sentence(), END_ID])

    return [
        collate([example() for _ in range(size.batch_size)]).to(device.best()) for _ in range(count)
    ]


def seconds(step: Callable[[Batch], Tensor], batch: Batch) -> float:
    """Return how long `step` takes."""
    started = time.perf_counter()
    step(batch).item()  # waits for a GPU
    return time.perf_counter() - started


def measure(size: Size, repetitions: int) -> dict:
    """Time both, turn by turn on the same batches."""
    package, package_step = of_the_package(size)
    plain, plain_step = in_plain_code(size, package)
    warm_up = 3
    batches = random_batches(size, warm_up + repetitions)
    check_same(package, plain, batches[0])
    times: dict[str, list[float]] = {"package": [], "plain": []}
    for turn, batch in enumerate(batches):
        steps = [("package", package_step), ("plain", plain_step)]
        if turn % 2:
            steps.reverse()  # neither always goes first
        for name, step in steps:
            taken = seconds(step, batch)
            if turn >= warm_up:
                times[name].append(taken)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    turns = zip(times["package"], times["plain"], strict=True)
    low, _, high = statistics.quantiles((one / other for one, other in turns), n=4)
    return {
        "size": asdict(size),
        "repetitions": repetitions,
        "milliseconds": {name: round(1000 * median, 3) for name, median in medians.items()},
        "ratio": round(medians["package"] / medians["plain"], 3),
        "ratio_of_a_turn_quartiles": [round(low, 3), round(high, 3)],
    }


def table(rows: list[dict]) -> str:
    """Return the results as text."""
    lines = [f"{'size':6}{'package ms':>12}{'plain ms':>12}{'ratio':>8}   half of the turns"]
    for row in rows:
        low, high = row["ratio_of_a_turn_quartiles"]
        package, plain = row["milliseconds"]["package"], row["milliseconds"]["plain"]
        lines.append(
            f"{row['size']['name']:6}{package:12.2f}{plain:12.2f}{row['ratio']:8.3f}"
            f"   {low:.3f} to {high:.3f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small model, and nothing written")
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--output", type=Path, help=f"results file [{RESULTS.name}]")
    given = parser.parse_args(arguments)
    sizes, repetitions = ([TINY], 5) if given.quick else ([TOY, REAL], given.repetitions)
    rows = [measure(size, repetitions) for size in sizes]
    print(table(rows))
    print(f"on {device.describe(device.best())}; the target is a ratio below {TARGET}")
    output = given.output or (None if given.quick else RESULTS)
    if output is not None:
        content = {
            "command": "python benchmarks/training_step.py",
            "device": device.describe(device.best()),
            "machine": platform.machine(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "target_ratio": TARGET,
            "rows": rows,
        }
        with replacing(output) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
