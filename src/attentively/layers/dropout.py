"""Dropout with faster random numbers on a CPU.

`torch.nn.Dropout` draws a number of its own for every element that it may silence, and a CPU draws
them one after the other. Sixteen bits are enough to decide; each 64-bit number holds four draws.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

_LEVELS = 2**16
"""How many shares of silenced elements 16 bits can tell apart."""


class QuickDropout(nn.Dropout):
    r"""Silence each element with probability :math:`p`, and scale the others by :math:`1/(1-p)`.

    The same as `torch.nn.Dropout` but for the draws, which have 16 bits each: :math:`p` is
    rounded to a multiple of :math:`2^{-16}`. The draws come from PyTorch's random state. What
    lies on another device than the CPU goes to `torch.nn.Dropout`, which is quick there, and so
    does what `torch.compile` compiles, which has noise of its own.

    Srivastava et al. (2014), https://jmlr.org/papers/v15/srivastava14a.html
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return `x` as it is in evaluation, with silenced elements in training."""
        elsewhere = x.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or self.p == 0 or elsewhere:
            return super().forward(x)
        silenced = round(self.p * _LEVELS)
        if silenced == _LEVELS:
            return x * 0
        kept = _draws(x.numel()) >= silenced - _LEVELS // 2
        scale = _LEVELS / (_LEVELS - silenced)
        return x * (kept.view(x.shape).to(x) * scale)


def _draws(count: int) -> Tensor:
    """Return `count` whole numbers from -32,768 to 32,767, all alike probable."""
    # Without a lower end, random_ leaves the sign's bit alone: one draw in four would be positive.
    whole = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return whole.view(torch.int16)[:count]


def make_quick(model: nn.Module) -> None:
    """Put a `QuickDropout` in the place of each `torch.nn.Dropout` inside `model`."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, QuickDropout(child.p).train(child.training))
