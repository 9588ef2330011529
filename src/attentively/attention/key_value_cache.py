"""The cache of keys and values: each position is projected once while tokens are generated."""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class KeyValueCache:
    """The keys and values of earlier positions, so that none is projected twice.

    A cache is immutable: `extend` and `select` return a new one.
    """

    keys: Float[Tensor, "batch kv_heads len d_head"] | None = None
    values: Float[Tensor, "batch kv_heads len d_head"] | None = None

    @property
    def length(self) -> int:
        """Number of cached positions."""
        return 0 if self.keys is None else self.keys.shape[2]

    def extend(
        self,
        keys: Float[Tensor, "batch kv_heads new d_head"],
        values: Float[Tensor, "batch kv_heads new d_head"],
    ) -> Self:
        """Append positions to the cache; another batch size raises `ValueError`."""
        if self.keys is None or self.values is None:
            return type(self)(keys, values)
        if len(keys) != len(self.keys):
            raise ValueError(
                f"the cache has keys of shape {tuple(self.keys.shape)}, "
                f"the new keys have shape {tuple(keys.shape)}: "
                "their batch sizes (axis 0) must be equal"
            )
        return type(self)(
            torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        )

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the cache of the chosen rows, in that order; a row may repeat."""
        if self.keys is None or self.values is None:
            return self
        # Several times as fast as self.keys[rows].
        keys, values = (each.index_select(0, rows) for each in (self.keys, self.values))
        return type(self)(keys, values)
