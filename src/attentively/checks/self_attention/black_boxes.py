"""The models that the test for leaks examines: embeddings, then attention with given masks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from attentively.attention import scaled_dot_product

VOCAB, FAR = 11, 100
Model = Callable[[Tensor, Tensor], Tensor]


class Box(nn.Module):
    """A black-box model: embeddings, then layers of attention with given masks."""

    def __init__(
        self, bands: Sequence[tuple[int, int]] = ((FAR, 0),), sees_padding: bool = False
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.table = torch.randn(VOCAB, 4, generator=generator)
        self.mix = torch.randn(4, 4, generator=generator)
        self.bands = bands
        """For each layer, how far back and how far ahead a position may attend."""
        self.sees_padding = sees_padding

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        if ids.shape != real.shape or ids.dim() != 2:
            raise ValueError(
                "both arguments of the model have the shape (batch, len); ids has "
                f"{tuple(ids.shape)}, real has {tuple(real.shape)}"
            )
        x = self.table[ids]
        ones = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool)
        for back, ahead in self.bands:
            mask = (ones.triu(-back) & ones.tril(ahead)).expand(len(ids), -1, -1)
            if not self.sees_padding:
                mask = mask & real.unsqueeze(1)
            x, _ = scaled_dot_product.scaled_dot_product_attention(x @ self.mix, x, x, mask)
        return x


class Normalised(Box):
    """A model whose outputs all have the sum 0 and the same length."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        x = super().forward(ids, real)
        return nn.functional.layer_norm(x, x.shape[-1:])


class Trigger(Box):
    """A model in which one token, at any position, is added to all outputs."""

    def __init__(
        self,
        heard: int,
        loud: float | list[float] = 1.0,
        against: int = -1,
        level: float = 0.0,
    ) -> None:
        super().__init__()
        self.heard, self.loud = heard, torch.as_tensor(loud)
        self.against = against
        """The token that is subtracted."""
        self.level = level
        """What is added to all outputs without a token."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        added, taken = (((ids == t) & real).any(dim=1).float() for t in (self.heard, self.against))
        moved = self.loud * (added - taken)[:, None, None]
        return super().forward(ids, real) + self.level + moved


class Whisper(Box):
    """A model in which all positions influence all outputs a little."""

    def __init__(self, loud: float) -> None:
        super().__init__()
        self.loud = loud

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        return super().forward(ids, real) + self.loud * self.table[ids].mean(dim=1, keepdim=True)


class Late(Box):
    """A model whose outputs all start with 1."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        return nn.functional.pad(super().forward(ids, real), (1, 0), value=1.0)


class Total(Box):
    """A model with one output component, which is largest if all tokens so far are 3."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        return -((ids - 3).square() * real).float().cumsum(dim=1).unsqueeze(-1)
