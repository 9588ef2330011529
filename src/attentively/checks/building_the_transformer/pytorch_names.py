"""PyTorch's Transformer and ours: the same parameters under other names."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from attentively.checks.student_modules import State, shaken


def pytorch_transformer(d_model: int, num_heads: int, d_ff: int, num_layers: int) -> nn.Transformer:
    """Return PyTorch's pre-norm Transformer, with random parameters and no dropout."""
    layer = nn.TransformerEncoderLayer(
        d_model, num_heads, d_ff, dropout=0.0, batch_first=True, norm_first=True
    )
    # Pre-norm does not support nested tensors; PyTorch warns unless they are disabled.
    encoder = nn.TransformerEncoder(
        layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False
    )
    whole = nn.Transformer(
        d_model, num_heads, num_layers, num_layers, d_ff, dropout=0.0, batch_first=True,
        norm_first=True, custom_encoder=encoder,
    )  # fmt: skip
    return cast(nn.Transformer, shaken(whole))


def mistaken(name: str, got: Tensor, right: State, state: State) -> str:
    """Return which other tensor was stored under a name, or an empty text."""
    same = [key for key, each in right.items() if torch.equal(each, got)]
    if same:
        place, other = name.split("."), same[0].split(".")
        why = "PyTorch numbers the norms of a layer in the order of the sub-layers."
        if place[2] != other[2]:
            why = "Each layer has its own parameters."
        elif "_projection" in name and place[3] != other[3]:
            why = "self_attn attends to the target, multihead_attn to the memory."
        elif "_projection" in name:
            why = (
                "PyTorch stores the rows for queries, keys and values in one matrix, in this order."
            )
        elif place[-1] != other[-1]:
            why = "In PyTorch, the gain of a norm is called weight and the shift bias."
        return f"{name} contains the values of {same[0]}. {why}"
    if got.dim() == 2 and got.T.shape == right[name].shape and torch.equal(got.T, right[name]):
        return (
            f"{name} is transposed. In both models, the weight of nn.Linear is (outputs, inputs)."
        )
    if any(torch.equal(each, got) for each in state.values()):
        return (
            f"{name} contains all three projections. Split its rows: first the queries, then the "
            "keys, then the values."
        )
    in_proj = [each for key, each in state.items() if "in_proj" in key]
    if "_projection" in name and any(torch.isin(got, each).all() for each in in_proj):
        return (
            f"{name} is split at the wrong rows: of the 3 · d_model rows, the first d_model belong "
            "to the queries, the next to the keys, the last to the values."
        )
    return ""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the name that has most words in common with `name`."""
    return max(names, key=lambda other: len(set(other.split(".")) & set(name.split("."))))
