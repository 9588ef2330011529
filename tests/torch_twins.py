"""PyTorch's own layers with our weights."""

import re

import torch
from torch import Tensor, nn

from attentively.models.configs import StackConfig
from attentively.models.transformer import TokenEncoder

# Our names for the parts of a layer, and PyTorch's.
NAMES = {
    "self_attention.output_projection": "self_attn.out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "around_attention.layer_norm": "norm1",
    "around_feed_forward.layer_norm": "norm2",
    "last_norm": "norm",
    "gain": "weight",
    "shift": "bias",
}


def torch_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a `TokenEncoder`, or their gradients, by PyTorch's names.

    PyTorch keeps the projections of queries, keys and values in one matrix; embeddings are not
    its affair.
    """
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if not name.startswith("input") and "_projection" not in name:
            renamed[name] = tensor
    for name in tensors:
        if match := re.fullmatch(r"(.*self_)attention\.query_projection\.(weight|bias)", name):
            parts = [tensors[name.replace("query", part)] for part in ("query", "key", "value")]
            renamed[f"{match[1]}attn.in_proj_{match[2]}"] = torch.cat(parts)
    return renamed


def torch_encoder(encoder: TokenEncoder, config: StackConfig) -> nn.TransformerEncoder:
    """Return PyTorch's encoder of the same sizes, with the same weights."""
    layer = nn.TransformerEncoderLayer(
        config.d_model,
        config.num_heads,
        config.d_ff,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    )
    norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else None
    twin = nn.TransformerEncoder(layer, config.num_layers, norm, enable_nested_tensor=False)
    twin.load_state_dict(torch_names({k: v.detach() for k, v in encoder.named_parameters()}))
    return twin


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Return the gradient of every parameter, by its name."""
    return {name: parameter.grad for name, parameter in module.named_parameters()}
