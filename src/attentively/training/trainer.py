"""The trainer: the loop of updates and validations that trains a model of any kind."""

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from attentively import device
from attentively.data.batches import Batch, Renewable, in_order, shuffled
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import Model, evaluating
from attentively.training import objectives
from attentively.training.data_parallel import Processes
from attentively.training.objectives import Task
from attentively.training.run_folder import (
    Progress,
    Record,
    RunFolder,
    best_record,
    is_averaged,
)
from attentively.training.training_config import TrainingConfig

CHECKED_EVERY = 20
"""Steps between two checks that the loss is finite."""


class Trainer:
    """Train a model on examples of its task.

    With a `directory`, each validation saves the run there (see `RunFolder`), so that it can be
    resumed.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        train: Sequence[Any],
        validation: Sequence[Any],
        config: TrainingConfig,
        directory: Path | str | None = None,
        progress: bool = True,
        processes: Processes | None = None,
    ) -> None:
        """`train` and `validation` are examples of the model's task (`training.objectives`)."""
        if not train or not validation:
            raise ValueError(
                f"there are {len(train)} training and {len(validation)} validation examples, but "
                "both need at least 1"
            )
        self.train, self.validation, self.config = train, validation, config
        self.processes = processes or Processes()
        self.progress = progress and self.processes.first
        self.device = device.best()
        if config.precision == "bfloat16" and not device.has_bfloat16(self.device):
            raise ValueError(
                f"{device.describe(self.device)} does not support bfloat16: use precision='float32'"
            )
        self.model = checkpoint.model.to(self.device)
        self.task = objectives.find(self.model, config.label_smoothing, config.attention_penalty)
        loss = self.task.training_loss
        self._training_loss = _compiled(loss) if config.compile else loss
        betas = 0.9, config.beta2
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=config.learning_rate, betas=betas, eps=config.epsilon
        )
        self.folder = RunFolder(directory, checkpoint, self.optimizer, config, self.processes)
        self.records: list[Record] = []
        self.step, self.seconds = 0, 0.0

    def fit(self, resume: bool = False) -> list[Record]:
        """Train, and return the log; the model then has its best weights.

        With `resume`, continue from ``last.safetensors`` in the directory, with the same result
        as an uninterrupted run. Raises `ValueError` if the directory contains a run with other
        hyperparameters or another model, `OSError` if it is not writable, `FloatingPointError`
        if the loss is not finite, and `MemoryError` if a batch is too large.
        """
        torch.manual_seed(self.config.seed + self.processes.rank)
        self.records, self.seconds = self.folder.resume() if resume else self.folder.start()
        self.step = int(self.records[-1]["step"]) if self.records else 0
        self.processes.share_out(self.model.state_dict().values())
        started = time.monotonic() - self.seconds
        losses: list[Tensor] = []  # since the last validation
        steps, every = self.config.steps, self.config.validate_every
        with tqdm(total=steps, initial=self.step, unit="step", disable=not self.progress) as bar:
            for indices in _batches(self.train, self.task, self.config, self.step):
                if self.step >= steps or _ended_early(self.records, self.config.patience):
                    break
                losses.append(self._update(self._parts(indices)))
                self.step += 1
                bar.update()
                if self.step % every == 0 or self.step == steps:
                    self._validate(losses, started)
                    self.folder.save(Progress(self.records, self.seconds))
                    losses = []
                    bar.set_postfix(
                        train=f"{self.records[-1]['train_loss']:.3f}",
                        validation=f"{self.records[-1]['validation_loss']:.3f}",
                    )
                elif len(losses) % CHECKED_EVERY == 0:
                    self._check_finite(losses)
        if self.config.average_last > 1 and not is_averaged(self.records):
            self.folder.average(Progress(self.records, self.seconds), self._validation_loss)
        self.folder.load_best()
        return self.records

    def _parts(self, indices: Sequence[int]) -> list[Batch]:
        """Return this process's share of a batch, in parts for gradient accumulation."""
        share = self.processes.share(indices)
        size = math.ceil(len(share) / self.config.accumulate)
        return [
            self.task.collate([self.train[index] for index in share[first : first + size]])
            for first in range(0, len(share), max(1, size))
        ]

    def _update(self, parts: Sequence[Batch]) -> Tensor:
        """Update the parameters with the mean loss over all targets of all processes.

        Returns this process's contribution to that mean.
        """
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate_at(self.step)
        counts = [self.task.count(part) for part in parts]
        targets = int(self.processes.sum(torch.tensor(sum(counts))))
        self.optimizer.zero_grad(set_to_none=True)
        mean = torch.zeros((), device=self.device)
        in_bfloat16 = self.config.precision == "bfloat16"
        try:
            for part, count in zip(parts, counts, strict=True):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=in_bfloat16):
                    loss = self._loss(part.to(self.device)) * (count / targets)
                loss.backward()
                mean += loss.detach()
        except RuntimeError as error:
            if not device.is_out_of_memory(error):
                raise
            raise _out_of_memory(self.step + 1, parts, self.config) from error
        self.processes.sum_gradients(self.model.parameters())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        return mean

    def _loss(self, batch: Batch) -> Tensor:
        return self._training_loss(self.model, batch)

    def _validate(self, losses: Sequence[Tensor], started: float) -> None:
        """Add a record with the validation loss and the mean training loss since the last one."""
        self._check_finite(losses)
        self.seconds = time.monotonic() - started
        record: Record = {
            "step": self.step,
            "train_loss": self.processes.sum(torch.stack(list(losses)).mean()).item(),
            "validation_loss": self._validation_loss(),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(self.seconds, 2),
        }
        if not math.isfinite(record["validation_loss"]):
            raise _not_finite(self.step, self.config, self.folder.directory, self.records)
        self.records.append(record)

    def _check_finite(self, losses: Sequence[Tensor]) -> None:
        """Raise `FloatingPointError` if one of the latest losses is not finite."""
        finite = self.processes.sum(torch.stack(list(losses))).isfinite().tolist()
        if not all(finite):
            first = self.step - len(losses) + 1 + finite.index(False)
            raise _not_finite(first, self.config, self.folder.directory, self.records)

    def _validation_loss(self) -> float:
        size = self.config.batch_size
        if self.config.tokens_per_batch is not None:
            longest = max(max(self.task.size(example)) for example in self.validation)
            size = max(1, self.config.tokens_per_batch // longest)
        # The batch size of training, which is known to fit into memory.
        return validation_loss(self.model, self.validation, size, self.task, self.processes)


def _batches(
    examples: Sequence[Any], task: Task[Any, Any], config: TrainingConfig, step: int
) -> Iterator[list[int]]:
    """Yield the indices of batches, starting at `step`, epoch after epoch, without end."""
    for epoch in itertools.count():
        if isinstance(examples, Renewable):
            examples.renew(f"{config.seed}/{epoch}")
        sizes = [task.size(example) for example in examples]
        planned = shuffled(sizes, config.seed, epoch, config.batch_size, config.tokens_per_batch)
        yield from planned[step:]
        step = max(0, step - len(planned))


def _ended_early(records: Sequence[Record], patience: int | None) -> bool:
    """Return whether `patience` validations passed without a new best, or the run is averaged."""
    if is_averaged(records):
        return True
    if patience is None or not records:
        return False
    return len(records) - 1 - records.index(best_record(records)) >= patience


def _compiled(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `loss` compiled by `torch.compile`, or `loss` itself without a working compiler."""
    chosen = torch.compile(loss, dynamic=True)

    def compiled_loss(model: Model, batch: Batch) -> Tensor:
        nonlocal chosen
        try:
            return chosen(model, batch)
        except Exception as error:
            if not type(error).__module__.startswith("torch._"):
                raise
            # torch.compile needs a compiler for the device, which not every machine has.
            tqdm.write(f"continuing without torch.compile: {error}".split("\n")[0], sys.stderr)
            chosen = loss
            return loss(model, batch)

    return compiled_loss


def _not_finite(
    step: int, config: TrainingConfig, directory: Path | None, records: Sequence[Record]
) -> FloatingPointError:
    """Return the error for a loss that is not finite at `step`, with advice."""
    saved = ""
    if directory is not None and records:
        saved = f"; {directory} contains the model of step {records[-1]['step']}"
    return FloatingPointError(
        f"the loss is not finite (NaN or infinity) at step {step}: "
        f"use a learning rate below {config.learning_rate}{saved}"
    )


def _out_of_memory(step: int, parts: Sequence[Batch], config: TrainingConfig) -> MemoryError:
    """Return the error for a batch that is too large, with advice."""
    # Token ids have two axes: images have more, and the labels of sentences one.
    rows, longest = max(
        (len(part.tgt), max(side.size(1) for side in part if side.dim() == 2)) for part in parts
    )
    size = "batch_size" if config.tokens_per_batch is None else "tokens_per_batch"
    return MemoryError(
        f"out of memory at step {step}, with {rows} examples of up to {longest} tokens in a batch: "
        f"decrease {size}={getattr(config, size)}, or increase accumulate={config.accumulate} "
        "(gradient accumulation) for the same update with less memory"
    )


def validation_loss(
    model: Model,
    examples: Sequence[Any],
    batch_size: int = 256,
    task: Task[Any, Any] | None = None,
    processes: Processes | None = None,
) -> float:
    """Return the mean loss per target over `examples` in nats, without dropout.

    `task` is by default the task of the model's kind. Random choices of a task, such as the
    masked positions, are the same in every call. Each of several `processes` computes its share.
    Raises `ValueError` if there is no example.
    """
    if not examples:
        raise ValueError("there is no validation example")
    task = task or objectives.find(model)
    processes = processes or Processes()
    where = next(model.parameters()).device
    generator = torch.Generator().manual_seed(0)
    # Sorted by length for less padding; the sum does not depend on the order.
    examples = processes.share(sorted(examples, key=lambda example: task.size(example)[-1]))
    total = torch.zeros(2, dtype=torch.float64)  # loss and targets
    with evaluating(model):
        for indices in in_order(len(examples), batch_size) if examples else []:
            batch = task.collate([examples[index] for index in indices], generator)
            count = task.count(batch)
            total += torch.tensor([task.loss(model, batch.to(where)).item() * count, count])
    loss, targets = processes.sum(total).tolist()
    return loss / targets
