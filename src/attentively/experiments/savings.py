"""Savings: the effect of techniques for faster or smaller training on one training step.

A small language model makes the same update with every technique: from the same parameters, on the
same data. Each technique is measured in its own process, so that measurements do not affect each
other. What a machine does not have (a compiler, a second GPU) is recorded as unavailable.
"""

import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attentively import device
from attentively.attention.blockwise import blockwise_attention
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.scaled_dot_product import fused_attention, scaled_dot_product_attention
from attentively.experiments.runner import Experiment, Row
from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel
from attentively.training import data_parallel
from attentively.training.data_parallel import Processes
from attentively.training.memory_meter import MemoryMeter

Saving = Literal[
    "none",
    "blockwise",
    "fused",
    "compiled",
    "bfloat16",
    "accumulation",
    "checkpoints",
    "two processes",
    "fused, checkpoints",
]
SAVINGS: tuple[Saving, ...] = get_args(Saving)
PARTS = 2
"""Parts of a batch in gradient accumulation, and processes in data parallelism."""
REPEATS = 3


class Text(NamedTuple):
    """Rows and tokens per row of a batch."""

    rows: int
    length: int


TEXTS = {"short": Text(16, 64), "long": Text(2, 512)}
"""Both have the same number of tokens."""
QUICK = {"short": Text(4, 8), "long": Text(2, 16)}
CONFIG = LanguageModelConfig(vocab_size=1000, num_layers=4, dropout=0.0, activation="gelu")
"""Smooth: a ReLU with an input near 0 would amplify rounding errors."""


class Attention(nn.Module):
    """Causal self-attention with the projections of another module and another kernel."""

    def __init__(self, whole: MultiHeadAttention, saving: str) -> None:
        super().__init__()
        self.whole = whole
        self.saving = saving

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **unused: Any
    ) -> tuple[Tensor, None]:
        """Return the context, without weights."""
        whole = self.whole
        queries, keys, values = (
            projection(x).unflatten(2, (-1, whole.d_head)).transpose(1, 2)
            for projection, x in (
                (whole.query_projection, query),
                (whole.key_projection, key),
                (whole.value_projection, value),
            )
        )
        mask = mask.unsqueeze(1)
        if self.saving.startswith("fused"):
            context = fused_attention(queries, keys, values, mask)
        elif self.saving == "blockwise":
            context = blockwise_attention(queries, keys, values, causal=True)
        else:
            context, _ = scaled_dot_product_attention(queries, keys, values, mask)
        return whole.output_projection(context.transpose(1, 2).flatten(start_dim=2)), None


class Checkpointed(nn.Module):
    """Activation checkpointing: store only the layer's input, recompute the rest."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *arguments: Any) -> Any:
        """Return the output of the layer."""
        return checkpoint(self.layer, *arguments, use_reentrant=False)


def new_model(saving: str, seed: int, config: LanguageModelConfig = CONFIG) -> LanguageModel:
    """Return the model with its technique; the parameters are the same for all of them."""
    torch.manual_seed(seed)
    model = LanguageModel(config)
    layers = model.decoder.layers
    for index, layer in enumerate(layers):
        whole = cast(MultiHeadAttention, layer.self_attention)
        layer.self_attention = Attention(whole, saving)
        if saving.endswith("checkpoints"):
            layers[index] = Checkpointed(layer)
    return model.to(device.best())


def loss(model: LanguageModel, ids: Int[Tensor, "rows len"]) -> Float[Tensor, ""]:
    """Return the summed loss over all tokens except the first of each row, in nats."""
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")


class Step:
    """One parameter update with one of the techniques."""

    def __init__(
        self, model: LanguageModel, saving: str, processes: Processes | None = None
    ) -> None:
        self.model = model
        self.saving = saving
        self.processes = processes or Processes()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.loss: Callable[..., Tensor] = loss

    def gradients(self, ids: Int[Tensor, "rows len"]) -> None:
        """Compute the gradient of the mean loss per token for every parameter."""
        targets = ids[:, 1:].numel()
        for part in self.parts(ids):
            with self.precision(ids):
                share = self.loss(self.model, part) / targets
            share.backward()
        self.processes.sum_gradients(self.model.parameters())

    def __call__(self, ids: Int[Tensor, "rows len"]) -> None:
        """Make a complete update, and reset the gradients."""
        self.gradients(ids)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        device.synchronize(ids.device)

    def parts(self, ids: Int[Tensor, "rows len"]) -> Sequence[Tensor]:
        """Return the rows of this process, split into the parts of gradient accumulation."""
        if self.saving == "accumulation":
            return ids.chunk(PARTS)
        return [ids[self.processes.rank :: self.processes.count]]

    def precision(self, ids: Tensor) -> torch.autocast:
        """Return the context manager for the forward pass."""
        return torch.autocast(ids.device.type, torch.bfloat16, enabled=self.saving == "bfloat16")


def random_text(text: Text, seed: int) -> Int[Tensor, "rows len"]:
    """Return rows of random tokens: their content does not affect the costs."""
    generator = torch.Generator().manual_seed(seed)
    shape = (text.rows, text.length + 1)
    return torch.randint(4, CONFIG.vocab_size, shape, generator=generator).to(device.best())


def away(saving: str, ids: Tensor, seed: int, found: Step) -> float:
    """Return the relative error of a technique's gradient, compared with the plain one."""
    plain = Step(new_model("none", seed), "none")
    plain.gradients(ids)
    found.gradients(ids)
    squares = torch.zeros(2, dtype=torch.float64)
    pairs = zip(plain.model.parameters(), found.model.parameters(), strict=True)
    for expected, other in pairs:
        assert expected.grad is not None
        assert other.grad is not None
        for n, each in enumerate([other.grad - expected.grad, expected.grad]):
            squares[n] += each.cpu().double().square().sum()
    found.optimizer.zero_grad(set_to_none=True)
    return math.sqrt(squares[0] / squares[1])


def take(saving: str, text: Text, seed: int, repeats: int, processes: Processes) -> Row:
    """Measure one technique in this process; several processes differ only in their rank."""
    torch.set_num_threads(1)
    ids = random_text(text, seed)
    step = Step(new_model(saving, seed), saving, processes)
    if saving == "compiled":
        step.loss = torch.compile(loss)
    started = time.perf_counter()
    difference = away(saving, ids, seed, step)  # the first pass: compiles, if anything does
    first = time.perf_counter() - started
    times = []
    for _ in range(1 + repeats):
        processes.wait()
        clocks = time.perf_counter(), device.seconds(ids.device)
        step(ids)
        times.append((time.perf_counter() - clocks[0], device.seconds(ids.device) - clocks[1]))
    waited, worked = map(min, zip(*times[1:], strict=True))
    weights = sum(parameter.nbytes for parameter in step.model.parameters())
    return {
        "rows": text.rows,
        "length": text.length,
        "gradient_away": difference,
        "seconds_of_a_step": round(waited, 4),
        "device_seconds": round(float(processes.sum(torch.tensor(worked))), 4),
        "seconds_of_the_first": round(first, 2),
        "weights_bytes": weights,
        "adam_bytes": sum(
            value.nbytes for state in step.optimizer.state.values() for value in state.values()
        ),
        "step_bytes": bytes_needed(step, ids),
    } | alive(saving, step, ids)


def alive(saving: str, step: Step, ids: Tensor) -> Row:
    """Return the bytes stored between the passes, and the peak, where they can be measured."""
    if saving == "compiled":  # what runs is no longer one operation after the other
        return {"kept_bytes": None, "alive_bytes": None}
    with MemoryMeter() as forward, step.precision(ids):
        value = step.loss(step.model, step.parts(ids)[0])
        kept = forward.live
    del value
    with MemoryMeter() as whole:
        step(ids)
    return {"kept_bytes": kept, "alive_bytes": whole.peak}


def bytes_needed(step: Callable[[Tensor], None], ids: Tensor) -> int | None:
    """Return the peak memory of a step minus the memory before it.

    It is measured on a GPU, or by Linux; elsewhere it is None. The value of Linux includes memory
    that the C library keeps from earlier work, to different degrees: for comparisons use `alive`.
    """
    if ids.is_cuda:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(ids)
        return torch.cuda.max_memory_allocated() - before
    status = Path("/proc/self/status")
    forget = Path("/proc/self/clear_refs")
    if not (status.exists() and forget.exists()):
        return None
    library = ctypes.CDLL(None)
    try:  # otherwise the C library keeps freed memory, which would not be counted again
        library.mallopt(-3, 1 << 16)  # memory of large tensors is released at once
        step(ids)
        library.malloc_trim(0)
    except AttributeError:
        return None  # another C library
    forget.write_text("5")  # reset the peak
    before = _kilobytes(status, "VmRSS")
    step(ids)
    return 1024 * (_kilobytes(status, "VmHWM") - before)


def _kilobytes(status: Path, name: str) -> int:
    (line,) = [line for line in status.read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1])


def measure(saving: Saving, text: str, seed: int, quick: bool, directory: Path) -> Row:
    """Return the costs of a step with one technique; the quick form stays in this process."""
    if quick:
        return {"missing": None} | take(
            saving if saving != "compiled" else "none", QUICK[text], seed, 1, Processes()
        )
    count = PARTS if saving == "two processes" else 1
    compiled = str(directory.parent.resolve() / "compiled")  # the first seed's serves the others
    wanted = json.dumps({"saving": saving, "text": text, "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [*_start(count), "-m", "attentively.experiments.savings", wanted, f"{folder}/row"],
            env={**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": compiled},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode == 0:
            return {"missing": None} | json.loads(Path(folder, "row").read_text())
    said = ended.stderr.strip() or f"it ended with {ended.returncode}"
    return {"missing": said.splitlines()[-1]}


def _start(count: int) -> list[str]:
    if count == 1:
        return [sys.executable]
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(count)),
    ]


def main(wanted: str, output: str) -> None:
    """Run the measurement of `measure` in a separate process."""
    given = json.loads(wanted)
    with data_parallel.processes() as processes:
        row = take(given["saving"], TEXTS[given["text"]], given["seed"], REPEATS, processes)
        if processes.first:
            Path(output).write_text(json.dumps(row))


EXPERIMENT = Experiment(
    name="savings",
    question="How does each technique affect the time and the memory of one training step?",
    conditions=[{"text": text, "saving": saving} for text in TEXTS for saving in SAVINGS],
    measure=measure,
)

if __name__ == "__main__":
    main(*sys.argv[1:])
