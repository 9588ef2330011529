"""A memory meter: the shapes of all tensors that PyTorch allocates, and the memory in use.

`torch.utils._python_dispatch.TorchDispatchMode` is called with every operation, those of the
backward pass among them.
"""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch._dynamo  # or the first operation of a meter would import it, for a second
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryMeter(TorchDispatchMode):
    """Record the tensors created in its context: ``with MemoryMeter() as meter:``.

    It counts the bytes of tensors, on any device: neither the memory of the process nor what an
    allocator reserves. It counts neither tensors that existed before nor views, which have no
    memory of their own. It records the results of operations, not their temporary memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        """Bytes allocated now."""
        self.history: list[int] = []
        """Bytes allocated after each operation."""
        self.made: set[tuple[tuple[int, ...], torch.dtype]] = set()
        """Shape and type of every tensor that was created."""
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    @property
    def peak(self) -> int:
        """The maximum number of bytes allocated at once."""
        return max(self.history, default=0)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation, and record the tensors it created."""
        for given in _tensors((args, kwargs)):
            self._is_new(given.untyped_storage())
        answer = func(*args, **(kwargs or {}))
        for made in _tensors(answer):
            storage = made.untyped_storage()  # shared by all views of one tensor
            if self._is_new(storage):
                self.made.add((tuple(made.shape), made.dtype))
                self.live += storage.nbytes()
                weakref.finalize(storage, self._forget, storage.nbytes())
        self.history.append(self.live)
        return answer

    def _is_new(self, storage: torch.UntypedStorage) -> bool:
        """Return whether `storage` is new, and remember it."""
        known = self._known.get(id(storage))
        if known is not None and known() is storage:
            return False
        self._known[id(storage)] = weakref.ref(storage)
        return True

    def _forget(self, size: int) -> None:
        self.live -= size


def _tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]
