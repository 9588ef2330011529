r"""Linear layers with weights of 8 bits: symmetric quantisation by the largest absolute value.

Each weight is stored as an integer from -127 to 127. A scale, shared by the weights of one output
row or of the whole matrix, turns the integers back into floating-point values.

Dettmers et al. (2022), https://arxiv.org/abs/2208.07339, section 2 and section 3.1.
"""

from collections import Counter

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor, nn


def quantize(
    x: Float[Tensor, "d_out d_in"], per_row: bool = True, bits: int = 8
) -> tuple[Int8[Tensor, "d_out d_in"], Float[Tensor, "scales 1"]]:
    r"""Round a matrix to integers, and return them with their scales.

    .. math:: s = \frac{\max_j |x_j|}{2^{b - 1} - 1}, \qquad
        q_j = \operatorname{round}\left(\frac{x_j}{s}\right)

    The maximum is that of each row, which gives one scale per row, or that of the
    matrix. A row of zeros has the scale 1. Each integer takes one byte, also if it has
    fewer than 8 `bits`. Other values of `bits` than 2 to 8 raise `ValueError`.
    """
    if not 2 <= bits <= 8:
        raise ValueError(f"bits={bits} must be from 2 to 8")
    top = 2 ** (bits - 1) - 1  # 127: the range is symmetric, without -128
    largest = x.abs().amax(dim=1 if per_row else (0, 1), keepdim=True)
    scale = largest / top
    scale = torch.where(scale > 0, scale, 1.0)
    # In 16 bits, x / scale may be rounded to more than top.
    integers = torch.round(x / scale).clamp(-top, top)
    return integers.to(torch.int8), scale


def dequantize(
    integers: Int8[Tensor, "d_out d_in"], scale: Float[Tensor, "scales 1"]
) -> Float[Tensor, "d_out d_in"]:
    """Return the floating-point values that the integers stand for."""
    return integers * scale


class QuantizedLinear(nn.Module):
    """A linear layer for inference that stores its weights as integers of 8 bits.

    It is made from a trained `nn.Linear`. The bias remains in floating point.
    """

    integers: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, per_row: bool = True, bits: int = 8) -> None:
        super().__init__()
        integers, scale = quantize(linear.weight.detach(), per_row, bits)
        self.register_buffer("integers", integers)
        self.register_buffer("scale", scale)
        bias = None if linear.bias is None else linear.bias.detach()
        self.register_buffer("bias", bias)

    def forward(self, x: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """Restore the weights, then multiply in floating point."""
        return F.linear(x, dequantize(self.integers, self.scale), self.bias)


def quantize_linears(model: nn.Module, per_row: bool = True, bits: int = 8) -> None:
    """Replace the linear layers of a model by quantised ones.

    A layer that shares its weights with another module, such as an output layer that is tied to
    the embeddings, remains as it is.
    """
    users = Counter(id(p) for m in model.modules() for p in m.parameters(recurse=False))
    for module in list(model.modules()):
        for name, layer in module.named_children():
            if isinstance(layer, nn.Linear) and users[id(layer.weight)] == 1:
                setattr(module, name, QuantizedLinear(layer, per_row, bits))
