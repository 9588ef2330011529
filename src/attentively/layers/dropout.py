"""Dropout with faster random numbers on a CPU.

`torch.nn.Dropout` generates one random number per element, and a CPU generates them sequentially.
Sixteen bits per element are enough, so one 64-bit number serves four elements.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

_LEVELS = 2**16
"""Number of dropout probabilities that 16 bits distinguish."""


class QuickDropout(nn.Dropout):
    r"""Set each element to zero with probability :math:`p`, and scale the others by
    :math:`1/(1-p)`.

    Equals `torch.nn.Dropout` except for the random numbers, which have 16 bits each: :math:`p` is
    rounded to a multiple of :math:`2^{-16}`. They are sampled from PyTorch's random state. On
    other devices than the CPU, and under `torch.compile`, `torch.nn.Dropout` itself is used, which
    is fast there.

    Srivastava et al. (2014), https://jmlr.org/papers/v15/srivastava14a.html
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return `x` unchanged in evaluation mode, with dropout in training mode."""
        elsewhere = x.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or self.p == 0 or elsewhere:
            return super().forward(x)
        silenced = round(self.p * _LEVELS)
        if silenced == _LEVELS:
            return x * 0
        kept = _random_int16(x.numel()) >= silenced - _LEVELS // 2
        scale = _LEVELS / (_LEVELS - silenced)
        return x * (kept.view(x.shape).to(x) * scale)


def _random_int16(count: int) -> Tensor:
    """Return `count` uniformly distributed integers from -32,768 to 32,767."""
    # Without a lower bound, random_ never sets the sign bit of the 64-bit number.
    whole = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return whole.view(torch.int16)[:count]


def make_quick(model: nn.Module) -> None:
    """Replace each `torch.nn.Dropout` inside `model` by a `QuickDropout`."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, QuickDropout(child.p).train(child.training))
