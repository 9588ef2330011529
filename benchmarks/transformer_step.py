"""What clarity costs a Transformer: `attentively.models.transformer` beside `nn.Transformer`.

    python benchmarks/transformer_step.py            # writes benchmarks/results/training.json
    python benchmarks/transformer_step.py --quick    # small, and writes nothing

Both have the same weights, and must say the same before anything is timed. Three ratios:

training_step     forward, loss, backward and a step of Adam, over that of `nn.Transformer`
forward           the logits of a whole target, in inference, over that of `nn.Transformer`
readable_forward  the same with every attention's weights, over the package's own without

The two sides take turns, so that whatever else the machine does slows both; what counts is the
ratio of their medians. On the CPU, time is what the process itself computed, threads added up:
ask for one thread (OMP_NUM_THREADS=1) where the machine has other work. Memory is what is alive
at the worst moment, beyond what stood before.
"""

import argparse
import json
import math
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from attentively import device
from attentively.atomic_files import replacing
from attentively.attention.masks import causal_mask
from attentively.attention.positional import sinusoids
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import PAD_ID

RESULTS = Path(__file__).parent / "results" / "training.json"
GOALS = {"training_step": 1.0, "forward": 1.0, "readable_forward": 1.5}

# nn.Transformer tells which of its own short cuts a size does not take.
warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors is in prototype")


@dataclass(frozen=True)
class Size:
    """The size of a model and of its batches."""

    name: str
    norm: str
    vocab_size: int
    d_model: int
    num_heads: int
    d_ff: int
    num_layers: int
    batch_size: int
    src_len: int
    tgt_len: int


TINY = Size("tiny", "pre", 53, 12, 3, 13, 2, batch_size=7, src_len=5, tgt_len=6)
TOY = Size("toy", "pre", 211, 64, 4, 256, 2, batch_size=64, src_len=16, tgt_len=18)
REAL = Size("real", "pre", 5000, 256, 8, 1024, 3, batch_size=64, src_len=24, tgt_len=26)
POST = Size("post", "post", 5000, 256, 8, 1024, 3, batch_size=64, src_len=24, tgt_len=26)
BASE = Size("base", "post", 37000, 512, 8, 2048, 6, batch_size=128, src_len=40, tgt_len=42)
SIZES = {"cpu": [TOY, REAL, POST], "cuda": [REAL, POST, BASE], "mps": [TOY, REAL, POST]}


@dataclass(frozen=True)
class Batch:
    """Sentences of random words and lengths."""

    src: Tensor
    tgt: Tensor


class TorchTransformer(nn.Module):
    """What one writes around `nn.Transformer`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.src_embedding = nn.Embedding(size.vocab_size, size.d_model, padding_idx=PAD_ID)
        self.tgt_embedding = nn.Embedding(size.vocab_size, size.d_model, padding_idx=PAD_ID)
        self.scale = math.sqrt(size.d_model)
        positions = sinusoids(max(size.src_len, size.tgt_len), size.d_model)
        self.register_buffer("positions", positions)
        self.transformer = nn.Transformer(
            size.d_model,
            size.num_heads,
            size.num_layers,
            size.num_layers,
            size.d_ff,
            dropout=0.0,
            batch_first=True,
            norm_first=size.norm == "pre",
        )
        if size.norm == "post":  # the paper normalises no further after the last layer
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.output = nn.Linear(size.d_model, size.vocab_size, bias=False)

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits of the token after each one of the target but the last."""
        src, tgt = batch.src, batch.tgt[:, :-1]
        padding = src == PAD_ID
        outputs = self.transformer(
            self.src_embedding(src) * self.scale + self.positions[: src.shape[1]],
            self.tgt_embedding(tgt) * self.scale + self.positions[: tgt.shape[1]],
            tgt_mask=~causal_mask(tgt.shape[1], tgt.device)[0],  # True means "may not" there
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.output(outputs)


def of_the_package(size: Size) -> Transformer:
    """Return the package's model."""
    config = TransformerConfig(
        src_vocab_size=size.vocab_size,
        tgt_vocab_size=size.vocab_size,
        d_model=size.d_model,
        num_heads=size.num_heads,
        d_ff=size.d_ff,
        num_layers=size.num_layers,
        norm=size.norm,
        dropout=0.0,
    )
    return Transformer(config)


def logits_of_the_package(model: Transformer, batch: Batch, need_weights: bool = False) -> Tensor:
    """Return the same logits; with `need_weights`, by way of every attention's weights."""
    tgt = batch.tgt[:, :-1]
    if not need_weights:
        return model(batch.src, tgt)
    src_mask = model.source_mask(batch.src)
    memory, _ = model.encoder(batch.src, src_mask, need_weights=True)
    tgt_mask = causal_mask(tgt.shape[1], tgt.device)
    outputs, _, _ = model.decoder(tgt, memory, tgt_mask, src_mask, need_weights=True)
    return model.output(outputs)


PROJECTIONS = ("query_projection", "key_projection", "value_projection")
OURS_TO_TORCH = {
    "encoder.input.embedding.table": "src_embedding",
    "decoder.input.embedding.table": "tgt_embedding",
    "encoder.layers": "transformer.encoder.layers",
    "decoder.layers": "transformer.decoder.layers",
    "encoder.last_norm": "transformer.encoder.norm",
    "decoder.last_norm": "transformer.decoder.norm",
    "around_attention.layer_norm": "norm1",
    "around_self_attention.layer_norm": "norm1",
    "around_cross_attention.layer_norm": "norm2",
    "self_attention": "self_attn",
    "cross_attention": "multihead_attn",
    "output_projection": "out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "gain": "weight",
    "shift": "bias",
}


def in_torch(name: str) -> str:
    """Return what the plain model calls a tensor of the package's.

    Its three projections stand in one tensor, so they share a name.
    """
    last = "norm2" if name.startswith("encoder") else "norm3"
    name = name.replace("around_feed_forward.layer_norm", last)
    for projection in PROJECTIONS:
        name = name.replace(f"{projection}.", "in_proj_")
    for ours, theirs in OURS_TO_TORCH.items():
        name = name.replace(ours, theirs)
    return name


def gathered(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the package's tensors as the plain model has them."""
    found: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        found.setdefault(in_torch(name), []).append(tensor)
    return {name: torch.cat(parts) for name, parts in found.items()}


def with_weights_of(package: Transformer, size: Size) -> TorchTransformer:
    """Return the plain model with the package's weights."""
    model = TorchTransformer(size).to(next(package.parameters()).device)
    state = gathered(dict(package.named_parameters()))
    model.load_state_dict({**state, "positions": model.positions})
    return model


def loss(logits: Tensor, batch: Batch) -> Tensor:
    """Return the mean loss per target token."""
    return F.cross_entropy(logits.flatten(0, 1), batch.tgt[:, 1:].flatten(), ignore_index=PAD_ID)


def check_same(package: Transformer, plain: TorchTransformer, batch: Batch) -> None:
    """Raise `AssertionError` where the sides differ in logits or in a gradient."""
    real = batch.tgt[:, :-1] != PAD_ID
    ours, theirs = logits_of_the_package(package, batch), plain(batch)
    readable = logits_of_the_package(package, batch, need_weights=True)
    for other in (theirs, readable):
        if (ours - other)[real].norm() > 1e-3 * ours[real].norm():
            raise AssertionError("not the same network: the logits differ")
    gradients = gathered(
        dict(
            zip(
                dict(package.named_parameters()),
                torch.autograd.grad(loss(ours, batch), list(package.parameters())),
                strict=True,
            )
        )
    )
    names, parameters = zip(*plain.named_parameters(), strict=True)
    if set(names) != set(gradients):
        raise AssertionError(f"not the same network: {sorted(set(names) ^ set(gradients))}")
    others = torch.autograd.grad(loss(theirs, batch), parameters)
    for name, other in zip(names, others, strict=True):
        if (gradients[name] - other).norm() > 1e-2 * other.norm():
            raise AssertionError(f"not the same network: the gradients of {name} differ")


def random_batches(size: Size, count: int, where: torch.device) -> list[Batch]:
    """Return batches of random sentences, the shortest of half the length of the longest."""
    generator = torch.Generator().manual_seed(0)

    def sentences(longest: int) -> Tensor:
        shape = (size.batch_size, longest)
        ids = torch.randint(4, size.vocab_size, shape, generator=generator)
        lengths = torch.randint(longest // 2, longest + 1, shape[:1], generator=generator)
        lengths[0] = longest
        return ids.masked_fill(torch.arange(longest) >= lengths.unsqueeze(1), PAD_ID).to(where)

    return [Batch(sentences(size.src_len), sentences(size.tgt_len + 1)) for _ in range(count)]


def training(model: nn.Module, logits: Callable[[Batch], Tensor]) -> Callable[[Batch], Tensor]:
    """Return a training step: the same lines for both sides."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: Batch) -> Tensor:
        value = loss(logits(batch), batch)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def inference(logits: Callable[[Batch], Tensor]) -> Callable[[Batch], Tensor]:
    """Return a forward pass without gradients."""

    def forward(batch: Batch) -> Tensor:
        with torch.inference_mode():
            return logits(batch)[0, 0, 0]

    return forward


def seconds(run: Callable[[Batch], Tensor], batch: Batch) -> float:
    """Return how long `run` takes: on the CPU its own time there, without that of others."""
    clock = time.process_time if batch.src.device.type == "cpu" else time.perf_counter
    started = clock()
    run(batch).item()  # waits for a GPU
    return clock() - started


def peak_megabytes(run: Callable[[Batch], Tensor], batch: Batch) -> float | None:
    """Return the memory that `run` needs at its worst moment; None where nobody counts it."""
    where = batch.src.device.type
    if where == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run(batch)
        return round((torch.cuda.max_memory_allocated() - before) / 2**20, 2)
    if where != "cpu":
        return None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run(batch)
    events = sorted(profiler.events(), key=lambda event: event.time_range.end)
    return round(max(accumulate(event.self_cpu_memory_usage for event in events)) / 2**20, 2)


def compare(
    name: str, size: Size, runs: dict[str, Callable[[Batch], Tensor]], batches: list[Batch]
) -> dict:
    """Time two sides, turn by turn on the same batches; the ratio is the first over the second."""
    warm_up = 3
    times: dict[str, list[float]] = {side: [] for side in runs}
    for turn, batch in enumerate(batches):
        sides = list(runs.items())
        if turn % 2:
            sides.reverse()  # neither always goes first
        for side, run in sides:
            taken = seconds(run, batch)
            if turn >= warm_up:
                times[side].append(taken)
    medians = {side: statistics.median(taken) for side, taken in times.items()}
    first, second = medians.values()
    low, _, high = statistics.quantiles(
        (one / other for one, other in zip(*times.values(), strict=True)), n=4
    )
    return {
        "name": name,
        "size": asdict(size),
        "device": device.describe(batches[0].src.device),
        "repetitions": len(batches) - warm_up,
        "milliseconds": {side: round(1000 * median, 3) for side, median in medians.items()},
        "ratio": round(first / second, 3),
        "goal": GOALS[name],
        "ratio_of_a_turn_quartiles": [round(low, 3), round(high, 3)],
        "peak_megabytes": {side: peak_megabytes(run, batches[0]) for side, run in runs.items()},
    }


def measure(size: Size, repetitions: int, where: torch.device) -> list[dict]:
    """Return the three comparisons at one size."""
    torch.manual_seed(0)
    package = of_the_package(size).to(where)
    plain = with_weights_of(package, size)
    batches = random_batches(size, 3 + repetitions, where)
    check_same(package, plain, batches[0])
    fused = partial(logits_of_the_package, package)
    readable = partial(logits_of_the_package, package, need_weights=True)
    package.eval(), plain.eval()
    rows = [
        compare(
            "forward",
            size,
            {"package": inference(fused), "nn.Transformer": inference(plain)},
            batches,
        ),
        compare(
            "readable_forward",
            size,
            {"with weights": inference(readable), "without": inference(fused)},
            batches,
        ),
    ]
    package.train(), plain.train()
    steps = {"package": training(package, fused), "nn.Transformer": training(plain, plain)}
    return [compare("training_step", size, steps, batches), *rows]


def table(rows: list[dict]) -> str:
    """Return the results as text."""
    lines = [
        f"{'size':6}{'what':18}{'ms':>9}{'beside':>9}{'ratio':>8}{'goal':>6}   half of the turns"
        f"   {'MiB':>9}{'beside':>9}"
    ]
    for row in rows:
        one, other = row["milliseconds"].values()
        low, high = row["ratio_of_a_turn_quartiles"]
        memory = "".join(
            f"{'?' if peak is None else peak:>9}" for peak in row["peak_megabytes"].values()
        )
        lines.append(
            f"{row['size']['name']:6}{row['name']:18}{one:9.2f}{other:9.2f}{row['ratio']:8.3f}"
            f"{row['goal']:6.1f}   {low:.3f} to {high:.3f}     {memory}"
        )
    return "\n".join(lines)


def ratios(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Return the ratios by name, then by device and size."""
    found: dict[str, dict[str, float]] = {name: {} for name in GOALS}
    for row in rows:
        found[row["name"]][f"{row['device']}, {row['size']['name']}"] = row["ratio"]
    return found


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small model, and nothing written")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--output", type=Path, help=f"results file [{RESULTS.name}]")
    given = parser.parse_args(arguments)
    best = device.best()
    places = [torch.device("cpu")] + [best] * (best.type != "cpu")
    rows = []
    for where in places:
        for size in [TINY] if given.quick else SIZES[where.type]:
            rows += measure(size, 5 if given.quick else given.repetitions, where)
    print(table(rows))
    print(f"on {' and '.join(device.describe(where) for where in places)}")
    output = given.output or (None if given.quick else RESULTS)
    if output is not None:
        content = {
            "command": "python benchmarks/transformer_step.py",
            "device": [device.describe(where) for where in places],
            "machine": platform.machine(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "goals": GOALS,
            "ratios": ratios(rows),
            "rows": rows,
        }
        with replacing(output) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
