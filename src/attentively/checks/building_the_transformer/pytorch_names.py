"""PyTorch's Transformer and ours: the same weights by other names, masks that mean the opposite."""

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
    """Return PyTorch's pre-norm Transformer, with random weights and no dropout."""
    layer = nn.TransformerEncoderLayer(
        d_model, num_heads, d_ff, dropout=0.0, batch_first=True, norm_first=True
    )
    # Nested tensors do not go with pre-norm, and PyTorch warns unless they are declined.
    encoder = nn.TransformerEncoder(
        layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False
    )
    whole = nn.Transformer(
        d_model, num_heads, num_layers, num_layers, d_ff, dropout=0.0, batch_first=True,
        norm_first=True, custom_encoder=encoder,
    )  # fmt: skip
    return cast(nn.Transformer, shaken(whole))


def expected_weights(state: State) -> State:
    """Return the weights of PyTorch's pre-norm Transformer by our names."""
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
    """Say what a tensor is instead of what its name promises."""
    same = [key for key, each in right.items() if torch.equal(each, got)]
    if same:
        place, other = name.split("."), same[0].split(".")
        why = "PyTorch numbers the parts of a layer in the order in which they do their work."
        if place[2] != other[2]:
            why = "Each layer has weights of its own."
        elif "_projection" in name and place[3] != other[3]:
            why = "self_attn looks at the target, multihead_attn at the memory."
        elif "_projection" in name:
            why = "PyTorch keeps the rows of queries, keys and values in one matrix, in this order."
        elif place[-1] != other[-1]:
            why = "PyTorch calls the gain of a norm its weight, and the shift its bias."
        return f"{name} holds what belongs to {same[0]}. {why}"
    if got.dim() == 2 and got.T.shape == right[name].shape and torch.equal(got.T, right[name]):
        return f"{name} is transposed. nn.Linear keeps (out, in), there as here."
    if any(torch.equal(each, got) for each in state.values()):
        return f"{name} still holds three in one. Its rows are queries', keys' and values': cut it."
    if "_projection" in name and got.shape == right[name].shape:
        return (
            f"{name} is cut elsewhere: of 3 · d_model rows the first d_model are the queries', the "
            "next the keys', the last the values'."
        )
    return ""


def hides(answer: object, shape: tuple[int, ...], what: str, inputs: Inputs) -> Tensor:
    """Return where a mask of PyTorch's hides, as numbers; it may be True there, or -inf."""
    if type(answer) is not Tensor or not (answer.dtype == torch.bool or answer.is_floating_point()):
        raise CheckFailed(
            f"  Expected {what} as a tensor of True and False, got "
            f"{answer.dtype if isinstance(answer, Tensor) else type(answer).__name__}"
            f"\n{describe(inputs)}"
        )
    if answer.is_floating_point():
        if ((answer != 0) & (answer != -math.inf)).any():
            raise CheckFailed(
                f"  {what}: as numbers, a mask of PyTorch's holds 0 and -inf; True and False are "
                f"simpler.\n{describe(inputs)}"
            )
        answer = answer == -math.inf
    return expect_tensor(answer.float(), shape, what, inputs)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the one of `names` that shares most words with `name`."""
    return max(names, key=lambda other: len(set(other.split(".")) & set(name.split("."))))
