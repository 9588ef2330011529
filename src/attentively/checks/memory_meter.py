"""A meter that sees every tensor that PyTorch makes: which shapes, and how many live at once.

`torch.utils._python_dispatch.TorchDispatchMode` is called with every operation, those of the
backward pass among them.
"""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryMeter(TorchDispatchMode):
    """Notes the tensors made while it is entered: ``with MemoryMeter() as meter:``.

    `live` is the number of bytes that are held now, `peak` the most there ever were. What was
    there before does not count, and a view, which has no memory of its own, neither.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.made: set[tuple[tuple[int, ...], torch.dtype]] = set()
        self.operations: set[str] = set()
        self._held: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation, and note what it made."""
        answer = func(*args, **(kwargs or {}))
        self.operations.add(func._schema.name)
        given = {id_ for id_, _ in _storages((args, kwargs))}
        for (storage, tensor), made in zip(_storages(answer), _tensors(answer), strict=True):
            if storage in given or storage in self._held:
                continue
            size = tensor.nbytes()
            self.made.add((tuple(made.shape), made.dtype))
            self.live += size
            self.peak = max(self.peak, self.live)
            self._held.add(storage)
            weakref.finalize(tensor, self._forget, storage, size)
        return answer

    def _forget(self, storage: int, size: int) -> None:
        self._held.discard(storage)
        self.live -= size


def _tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


def _storages(values: Any) -> list[tuple[int, torch.UntypedStorage]]:
    """Return where each tensor's numbers lie, and the memory itself."""
    storages = [each.untyped_storage() for each in _tensors(values)]
    return [(storage._cdata, storage) for storage in storages]
