"""PyTorch's Transformer and ours: other names of parameters, masks with the opposite meaning."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from attentively.checks import CheckFailed, describe, expect_tensor
from attentively.checks.student_modules import State, shaken

Inputs = Mapping[str, Any]

_NAMES = {
    "self_attn.out_proj": "self_attention.output_projection",
    "multihead_attn.out_proj": "cross_attention.output_projection",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
}
_SUBLAYERS = {
    "encoder": ("attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}


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


def expected_weights(state: State) -> State:
    """Return the parameters of PyTorch's pre-norm Transformer under our names."""
    found: State = {}
    for name, tensor in state.items():
        stack = name.partition(".")[0]
        attention = "cross_attention" if "multihead" in name else "self_attention"
        if match := re.fullmatch(r"(.*)\.\w+\.in_proj_(weight|bias)", name):
            for part, rows in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                found[f"{match[1]}.{attention}.{part}_projection.{match[2]}"] = rows
            continue
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        if match := re.fullmatch(r"(.*)\bnorm(\d?)\.(weight|bias)", name):
            around = _SUBLAYERS[stack][int(match[2] or 1) - 1]
            place = f"around_{around}.layer_norm" if match[2] else "last_norm"
            name = f"{match[1]}{place}.{'gain' if match[3] == 'weight' else 'shift'}"
        found[name] = tensor
    return found


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
    if "_projection" in name and got.shape == right[name].shape:
        return (
            f"{name} is split at the wrong rows: of the 3 · d_model rows, the first d_model belong "
            "to the queries, the next to the keys, the last to the values."
        )
    return ""


def hides(answer: object, shape: tuple[int, ...], what: str, inputs: Inputs) -> Tensor:
    """Return 1 where a mask of PyTorch hides; there it may be True or -inf."""
    if type(answer) is not Tensor or not (answer.dtype == torch.bool or answer.is_floating_point()):
        raise CheckFailed(
            f"  Expected {what} as a tensor of True and False, got "
            f"{answer.dtype if isinstance(answer, Tensor) else type(answer).__name__}"
            f"\n{describe(inputs)}"
        )
    if answer.is_floating_point():
        if ((answer != 0) & (answer != -math.inf)).any():
            raise CheckFailed(
                f"  {what}: a floating-point mask of PyTorch contains 0 and -inf. Use True and "
                f"False instead.\n{describe(inputs)}"
            )
        answer = answer == -math.inf
    return expect_tensor(answer.float(), shape, what, inputs)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the name that has most words in common with `name`."""
    return max(names, key=lambda other: len(set(other.split(".")) & set(name.split("."))))
