"""Swaps: the Transformer layer of 2017, with each part replaced by a later one.

Small character-level language models that differ in one part, trained on the same text for the same
number of updates. One more model has all replacements in common use, and two have more parameters:
a mixture of experts, and a wide feed-forward network.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attentively import device
from attentively.experiments.character_models import (
    LENGTH,
    characters,
    fit_to_text,
    held_out_loss,
    surprise,
    vocab_size,
    windows,
)
from attentively.experiments.runner import Experiment, Row
from attentively.layers.feed_forward import FeedForward, GatedFeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.rms_norm import RMSNorm
from attentively.models.configs import LanguageModelConfig
from attentively.models.interface import evaluating
from attentively.models.language_model import LanguageModel
from attentively.models.transformer import initialise

SHAPE: dict[str, Any] = {
    "d_model": 64,
    "num_heads": 8,
    "d_ff": 192,
    "num_layers": 2,
    "dropout": 0.0,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "2017": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "RMSNorm": {"norm": "post"},
    "gated": {"norm": "post"},
    "2 key-value heads": {"norm": "post", "num_kv_heads": 2},
    "1 key-value head": {"norm": "post", "num_kv_heads": 1},
    "rotary": {"norm": "post", "positions": "rotary"},
    "together": {"norm": "pre", "num_kv_heads": 2, "positions": "rotary"},
    "4 experts": {"norm": "post"},
    "4 times the units": {"norm": "post", "d_ff": 4 * 192},
}
"""Settings of each model; `new_model` replaces the parts that have no setting."""
STEPS = 300
BATCH_SIZE = 16
LEARNING_RATE = 3e-3
EXPERTS = 4
BALANCE = 0.01
"""Weight of the load-balancing loss: alpha of Fedus et al., section 2.2."""
CONTEXT_LENGTH = 512
"""Context length at which the time of one more character is measured."""


class Experts(nn.Module):
    r"""A mixture of experts: a router sends each position to one of several networks.

    .. math:: y = p_k(x) \operatorname{FFN}_k(x), \qquad k = \arg\max_i p_i(x), \qquad
              p(x) = \operatorname{softmax}(x W_r)

    Through the factor :math:`p_k(x)` a gradient reaches the router's :math:`W_r`. After a call,
    `imbalance` is :math:`n \sum_i f_i P_i`, with the fraction :math:`f_i` of positions sent to
    expert :math:`i` and the mean :math:`P_i` of its probabilities: 1 for an even load, up to
    :math:`n` if one expert gets every position. It is stored on the module, because a layer
    expects its network to return vectors only.

    Source: Fedus, Zoph & Shazeer (2022), https://arxiv.org/abs/2101.03961, sections 2.1 and 2.2.
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(d_model, num_experts, bias=False)  # W_r
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(num_experts))
        self.imbalance: Tensor = torch.zeros(())

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
    ) -> Float[Tensor, "batch len d_model"]:
        """Return the output of each position's expert."""
        probabilities = self.router(x).softmax(dim=-1)
        best, chosen = probabilities.max(dim=-1)
        y = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            sent = chosen == index
            y[sent] = best[sent].unsqueeze(-1) * expert(x[sent])
        shares = F.one_hot(chosen, len(self.experts)).float().mean(dim=(0, 1))
        self.imbalance = len(self.experts) * (shares * probabilities.mean(dim=(0, 1))).sum()
        return y


def new_model(swap: str, seed: int, quick: bool) -> LanguageModel:
    """Return the untrained model with that part replaced; the name is a key of `SETTINGS`."""
    torch.manual_seed(seed)
    config = LanguageModelConfig(vocab_size=vocab_size(quick), **{**SHAPE, **SETTINGS[swap]})
    model = LanguageModel(config)
    d_model, d_ff = config.d_model, config.d_ff
    if swap in ("RMSNorm", "together"):
        replace_norms(model)
    if swap in ("gated", "together"):  # two thirds of the units: as many weights
        replace_networks(model, lambda: GatedFeedForward(d_model, d_ff * 2 // 3))
    if swap == "4 experts":
        replace_networks(model, lambda: Experts(d_model, d_ff, EXPERTS))
    return model.to(device.best())


def replace_norms(model: nn.Module) -> None:
    """Replace every `LayerNorm` by an `RMSNorm`."""
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, LayerNorm):
                setattr(module, name, RMSNorm(len(part.gain), part.eps))


def replace_networks(model: LanguageModel, new_network: Callable[[], nn.Module]) -> None:
    """Replace the feed-forward network of every layer by a new network."""
    for layer in model.decoder.layers:
        layer.feed_forward = new_network()
        initialise(layer.feed_forward)


def imbalance(model: nn.Module) -> Tensor:
    """Return the mean imbalance of the model's experts; 0 without experts."""
    found = [module.imbalance for module in model.modules() if isinstance(module, Experts)]
    return torch.stack(found).mean() if found else torch.zeros(())


def measure(swap: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model; return its loss and size, and its times compared with the model of 2017."""
    del directory  # short enough to restart
    steps = 3 if quick else STEPS
    model = new_model(swap, seed, quick)
    plain = new_model("2017", seed, quick)
    repeats = 1 if quick else 7
    step_times = [
        min(_time_of_a_step(one, quick) for _ in range(repeats)) for one in (model, plain)
    ]
    length = 16 if quick else CONTEXT_LENGTH
    token_times = [_time_of_a_token(one, length, repeats) for one in (model, plain)]
    balance = (lambda: BALANCE * imbalance(model)) if swap == "4 experts" else None
    fit_to_text(model, steps, BATCH_SIZE, LEARNING_RATE, seed, quick, balance)
    loss = held_out_loss(model, LENGTH, quick).mean()
    counted = sum(parameter.numel() for parameter in model.parameters())
    experts = [module for module in model.modules() if isinstance(module, Experts)]
    idle = sum(p.numel() for found in experts for p in found.experts[1:].parameters())
    config = model.config
    kv_heads = config.num_kv_heads or config.num_heads
    return {
        "parameters": counted,
        "parameters_used": counted - idle,
        "training_steps": steps,
        "loss": round(float(loss), 4),
        "cached_per_token": 2 * config.num_layers * kv_heads * (config.d_model // config.num_heads),
        "time_of_a_step": round(step_times[0] / step_times[1], 3),
        "time_of_a_token": round(token_times[0] / token_times[1], 3),
        "imbalance": round(float(imbalance(model)), 4),
    }


def _time_of_a_step(model: LanguageModel, quick: bool) -> float:
    """Return the seconds of one forward and backward pass."""
    generator = torch.Generator().manual_seed(0)
    pieces = windows(characters("train", quick), BATCH_SIZE, LENGTH, generator)
    pieces = pieces.to(device.best())
    started = device.seconds(pieces.device)
    surprise(model, pieces).mean().backward()
    return device.seconds(pieces.device) - started


def _time_of_a_token(model: LanguageModel, length: int, repeats: int) -> float:
    """Return the minimum time in seconds for one more character after a long context."""
    ids = torch.full((BATCH_SIZE, length), 5, device=device.best())
    times = []
    with evaluating(model):
        state = model.start(ids)
        for _ in range(3 * repeats):
            started = device.seconds(ids.device)
            model.step(ids[:, 0], state)
            times.append(device.seconds(ids.device) - started)
    return min(times)


EXPERIMENT = Experiment(
    name="swaps",
    question="What does each later replacement of a part of 2017 change in a small model?",
    conditions=[{"swap": swap} for swap in SETTINGS],
    measure=measure,
)
