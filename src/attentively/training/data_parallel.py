"""Data-parallel training: several processes, each with its share of every batch.

``torchrun --nproc-per-node N -m attentively train …`` starts the processes and assigns the ranks.
They sum their gradients, so all make the same update as a single process with the whole batch.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

Item = TypeVar("Item")


class Processes:
    """The processes that train one model together; by default only this one."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        """The index of this process, from 0."""
        self.count = count

    @property
    def first(self) -> bool:
        """True in the one process that writes files and shows progress."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return this process's part of `items`; the parts of all processes are disjoint."""
        return items[self.rank :: self.count]

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of every process's `value`."""
        if self.count > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def sum_gradients(self, parameters: Iterable[Parameter]) -> None:
        """Replace the gradients of every process by their sum, in one all-reduce."""
        if self.count == 1:
            return
        parameters = list(parameters)
        for parameter in parameters:
            if parameter.grad is None:  # in a process whose share was empty
                parameter.grad = torch.zeros_like(parameter)
        found = (parameter.grad for parameter in parameters)
        gradients = [gradient for gradient in found if gradient is not None]
        total = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(total)
        pieces = total.split([gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))

    def gather(self, value: Tensor) -> list[Tensor]:
        """Return every process's `value`, in the order of their ranks."""
        if self.count == 1:
            return [value]
        gathered = [torch.empty_like(value) for _ in range(self.count)]
        dist.all_gather(gathered, value)
        return gathered

    def share_out(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor with that of the first process (broadcast)."""
        if self.count > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def wait(self) -> None:
        """Wait until every process has reached this call (barrier)."""
        if self.count > 1:
            dist.barrier()


@contextmanager
def processes() -> Iterator[Processes]:
    """Join the processes that ``torchrun`` started; without it, yield a single process.

    On a machine with GPUs each process uses its own GPU.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes()
        return
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)
    try:
        yield Processes(dist.get_rank(), count)
    finally:
        dist.destroy_process_group()
