"""Costs: time and memory of one layer as functions of the sequence length.

A layer of each kind processes sequences of many lengths. In addition to the time, the experiment
counts what does not depend on the machine: multiplications, and values stored for the backward
pass. The same is measured for one more token in token-by-token generation.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attentively import device
from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.multi_head import MultiHeadAttention
from attentively.experiments.runner import Experiment, Row

Layer = Literal["GRU", "convolution", "attention", "fused attention"]
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
SIZES = (64, 256)
"""Model dimension d."""
WIDTH = 3
"""Kernel size k of the convolution."""
NUM_HEADS = 4
REPEATS, LONG, LONG_REPEATS = 7, 512, 2
"""Number of runs; longer sequences are run fewer times."""


def new_layer(layer: str, d_model: int) -> "Recurrent | Window | Attention":
    """Return a layer that maps (1, len, d_model) to the same shape."""
    match layer:
        case "GRU":
            return Recurrent(d_model)
        case "convolution":
            return Window(d_model)
        case "attention" | "fused attention":
            return Attention(d_model, fused=layer == "fused attention")
    raise ValueError(
        f"layer={layer!r} is unknown: choose GRU, convolution, attention or fused attention"
    )


class Recurrent(nn.Module):
    """A GRU; its memory for generation is one vector."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gru = nn.GRU(d_model, d_model, batch_first=True)

    def forward(self, x: Float[Tensor, "1 len d_model"]) -> Float[Tensor, "1 len d_model"]:
        """Process a whole sequence."""
        return self.gru(x)[0]

    def after(self, x: Float[Tensor, "1 len d_model"]) -> Tensor:
        """Return the memory after a sequence, for generation."""
        return self.gru(x)[1]

    def go_on(self, token: Float[Tensor, "1 1 d_model"], kept: Any) -> Tensor:
        """Process one more token."""
        return self.gru(token, kept)[0]


class Window(nn.Module):
    """A causal convolution; its memory for generation is the rest of its window."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, WIDTH)

    def forward(self, x: Float[Tensor, "1 len d_model"]) -> Float[Tensor, "1 len d_model"]:
        """Process a whole sequence; each window ends at its position."""
        return self.convolution(nn.functional.pad(x.transpose(1, 2), (WIDTH - 1, 0))).transpose(
            1, 2
        )

    def after(self, x: Float[Tensor, "1 len d_model"]) -> Tensor:
        """Return the memory after a sequence, for generation."""
        return x[:, -(WIDTH - 1) :].clone()

    def go_on(self, token: Float[Tensor, "1 1 d_model"], kept: Any) -> Tensor:
        """Process one more token."""
        return self.convolution(torch.cat([kept, token], dim=1).transpose(1, 2))


class Attention(nn.Module):
    """Multi-head self-attention; its memory for generation is every key and value so far."""

    def __init__(self, d_model: int, fused: bool) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, NUM_HEADS)
        self.need_weights = not fused

    def forward(self, x: Float[Tensor, "1 len d_model"]) -> Float[Tensor, "1 len d_model"]:
        """Process a whole sequence; each position attends to all, as in an encoder."""
        return self.attention(x, x, x, need_weights=self.need_weights)[0]

    def after(self, x: Float[Tensor, "1 len d_model"]) -> KeyValueCache:
        """Return the memory after a sequence, for generation."""
        return self.attention.remember(x, x)

    def go_on(self, token: Float[Tensor, "1 1 d_model"], kept: Any) -> Tensor:
        """Process one more token."""
        return self.attention(token, token, token, cache=kept, need_weights=self.need_weights)[0]


def multiplications(layer: Layer, length: int, d_model: int) -> int:
    r"""Return the number of multiplications of a layer for :math:`n` positions.

    A GRU has three pairs of matrices, :math:`6nd^2`; a convolution of kernel size
    :math:`k` has :math:`knd^2`; attention has four projections and two products for all
    pairs of positions, :math:`4nd^2 + 2n^2d`.
    """
    n, d = length, d_model
    if layer == "GRU":
        return 6 * n * d**2
    if layer == "convolution":
        return WIDTH * n * d**2
    return 4 * n * d**2 + 2 * n**2 * d


def numbers_kept(layer: nn.Module, x: Float[Tensor, "1 len d_model"]) -> int:
    """Return the number of values stored for the backward pass, without the parameters."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # a reference keeps its address unique
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        said = layer(x)
    del said
    return sum(
        tensor.untyped_storage().nbytes() // tensor.element_size()
        for place, tensor in kept.items()
        if place not in weights
    )


def numbers_remembered(kept: Tensor | KeyValueCache) -> int:
    """Return the number of values in a layer's memory for generation."""
    if isinstance(kept, Tensor):
        return kept.numel()
    return sum(tensor.numel() for tensor in (kept.keys, kept.values) if tensor is not None)


def shortest(work: Callable[[], Any], repeats: int) -> float:
    """Return the seconds of the fastest of several runs, after a warm-up run.

    `device.seconds` says which time is measured.
    """
    where = device.best()
    work()
    times = []
    for _ in range(repeats):
        started = device.seconds(where)
        work()
        times.append(device.seconds(where) - started)
    return min(times)


def measure(layer: Layer, d_model: int, seed: int, quick: bool, directory: Path) -> Row:
    """Return the costs of one layer by sequence length, for a batch of one."""
    del directory
    where = device.best()
    torch.manual_seed(seed)
    network = new_layer(layer, d_model).to(where)
    by_length = []
    for length in LENGTHS[:2] if quick else LENGTHS:
        x = torch.randn(1, length, d_model, device=where)
        token = torch.randn(1, 1, d_model, device=where)

        def forward(x: Tensor = x) -> None:
            with torch.no_grad():
                network(x)

        def both(x: Tensor = x) -> None:
            given = x.clone().requires_grad_()
            network(given).sum().backward()

        repeats = 1 if quick else REPEATS if length <= LONG else LONG_REPEATS
        with torch.no_grad():
            kept = network.after(x)

        def one_more(token: Tensor = token, kept: Any = kept) -> None:
            with torch.no_grad():
                network.go_on(token, kept)

        by_length.append(
            {
                "length": length,
                "multiplications": multiplications(layer, length, d_model),
                "forward": round(shortest(forward, repeats), 7),
                "forward_backward": round(shortest(both, repeats), 7),
                "numbers_kept": numbers_kept(network, x),
                "one_more": round(shortest(one_more, 5 * repeats), 7),
                "numbers_remembered": numbers_remembered(kept),
            }
        )
    return {"by_length": by_length}


EXPERIMENT = Experiment(
    name="costs",
    question="How do the time and the memory of a layer grow with the sequence length?",
    conditions=[
        {"layer": layer, "d_model": d_model}
        for d_model in SIZES
        for layer in ("GRU", "convolution", "attention", "fused attention")
    ],
    measure=measure,
)
