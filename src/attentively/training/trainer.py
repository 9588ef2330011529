"""Training: updates, validation, early stop, and a run that can be resumed."""

import itertools
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from tqdm.auto import tqdm

from attentively import device
from attentively.atomic_files import check_replaceable, replacing
from attentively.config import Config, check_seed
from attentively.data.batches import Batch, Renewable, in_order, shuffled
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import Model, evaluating
from attentively.training import objectives
from attentively.training.data_parallel import Processes
from attentively.training.objectives import Task
from attentively.training.schedules import SCHEDULES

Record = dict[str, int | float]
"""One line of the log: step, losses in nats per target, learning rate, seconds."""

Precision = Literal["float32", "bfloat16"]
CHECKED_EVERY = 20
"""Steps between two looks at whether the loss is still a number."""


@dataclass(frozen=True)
class TrainingConfig(Config):
    """How long, how fast and from which seed to train."""

    steps: int
    """Updates of the weights."""
    batch_size: int = 64
    """Examples an update."""
    tokens_per_batch: int | None = None
    """Tokens an update, on the longer side, padding counted; takes the place of batch_size."""
    accumulate: int = 1
    """Parts of a batch computed one after the other: the same update in less memory."""
    learning_rate: float = 1e-3
    """The highest of the schedule."""
    schedule: str = "one_cycle"
    """constant, one_cycle or inverse_square_root (the Transformer paper's)."""
    warm_up_steps: int | None = None
    """Steps in which the learning rate rises; by default a tenth of all."""
    beta2: float = 0.999
    """How long Adam remembers squared gradients; 0.98 in the Transformer paper."""
    epsilon: float = 1e-8
    """What Adam adds to their root; 1e-9 in the Transformer paper."""
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it."""
    label_smoothing: float = 0.0
    """Share of the probability that is taught to all tokens alike."""
    attention_penalty: float = 0.0
    """For captions: how much it costs to look unevenly at the places of an image."""
    precision: Precision = "float32"
    """bfloat16 computes the large products in 16 bits and keeps the weights in 32."""
    compile: bool = False
    """Let torch.compile fuse the model's steps. The first ones take a minute or more; of a
    recurrent model, unrolled word by word, many minutes."""
    average_last: int = 1
    """In the end try the mean of so many last checkpoints; kept if it validates better."""
    validate_every: int = 200
    """Steps between two validations; each also writes a checkpoint and a line of the log."""
    patience: int | None = None
    """Stop after so many validations without a new best; None trains to the end."""
    seed: int = 0
    """Settles the order of the examples, and dropout."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "average_last", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("tokens_per_batch", "warm_up_steps", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1, or None")
        for name in ("learning_rate", "clip_norm", "epsilon"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        for name in ("beta2", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        check_seed(self.seed)
        if not self.attention_penalty >= 0:
            raise ValueError(f"attention_penalty={self.attention_penalty} must not be negative")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule={self.schedule!r} is unknown: choose of {list(SCHEDULES)}")
        if self.precision not in get_args(Precision):
            raise ValueError(
                f"precision={self.precision!r} is unknown: choose of {get_args(Precision)}"
            )


def validation_loss(
    model: Model,
    examples: Sequence[Any],
    batch_size: int = 256,
    task: Task[Any, Any] | None = None,
    processes: Processes | None = None,
) -> float:
    """Return the mean loss per target over `examples`, without dropout (nats).

    `task` is what the model is taught, by default what models of its kind are; where a task
    leaves something to chance, such as what to mask, it is the same each time. Each of several
    `processes` computes its share. Raises `ValueError` where there is no example.
    """
    if not examples:
        raise ValueError("there is no example to validate with")
    task = task or objectives.find(model)
    processes = processes or Processes()
    where = next(model.parameters()).device
    generator = torch.Generator().manual_seed(0)
    # Similar lengths side by side waste less on padding; the sum does not mind the order.
    examples = processes.share(sorted(examples, key=lambda example: task.size(example)[-1]))
    total = torch.zeros(2, dtype=torch.float64)  # loss and targets
    with evaluating(model):
        for indices in in_order(len(examples), batch_size) if examples else []:
            batch = task.collate([examples[index] for index in indices], generator)
            count = task.count(batch)
            total += torch.tensor([task.loss(model, batch.to(where)).item() * count, count])
    loss, targets = processes.sum(total).tolist()
    return loss / targets


def best_record(records: Sequence[Record]) -> Record:
    """Return the record of the lowest validation loss, the first if several are as low."""
    return min(records, key=lambda record: record["validation_loss"])


def refuse_earlier_run(directory: Path) -> None:
    """Raise `ValueError` where a run stands already, which a new one would overwrite."""
    if (directory / "last.safetensors").exists():
        raise ValueError(f"{directory} already holds a run: resume it, or choose another folder")
    for name in ("best.safetensors", "log.jsonl"):
        if (directory / name).exists():
            raise ValueError(
                f"{directory} already holds the {name} of a run, but no last.safetensors to "
                "resume from: move it away, or choose another folder"
            )


class Trainer:
    """Fit a model to examples of its task.

    With a `directory`, each validation leaves there ``last.safetensors`` (model, optimizer and
    random state: enough to resume), ``best.safetensors`` (the model that validated best) and a
    line of ``log.jsonl``. Files are replaced whole, so a run killed at any moment after its
    first validation can resume.
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
        """`train` and `validation` hold examples of the model's task.

        The tasks are in `attentively.training.objectives`.
        """
        if not train or not validation:
            raise ValueError(
                f"training needs examples, but there are {len(train)} to train on and "
                f"{len(validation)} to validate with"
            )
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.task: Task[Any, Any] = objectives.find(
            self.model, config.label_smoothing, config.attention_penalty
        )
        self.train = train
        self.validation = validation
        self.config = config
        self.directory = Path(directory) if directory is not None else None
        self.processes = processes or Processes()
        self.progress = progress and self.processes.first
        self.device = device.best()
        if config.precision == "bfloat16" and not device.has_bfloat16(self.device):
            raise ValueError(f"{device.describe(self.device)} does not compute in bfloat16")
        self.model.to(self.device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=config.learning_rate,
            betas=(0.9, config.beta2),
            eps=config.epsilon,
        )
        self.step = 0
        self.seconds = 0.0
        self.records: list[Record] = []
        self._best: dict[str, Tensor] = {}
        self._recent: dict[int, dict[str, Tensor]] = {}
        self._training_loss = self.task.training_loss
        if config.compile:
            self._training_loss = torch.compile(self.task.training_loss, dynamic=True)

    def fit(self, resume: bool = False) -> list[Record]:
        """Train, and return the log; the model is left with its best weights.

        With `resume`, go on from the directory's ``last.safetensors`` and end where an
        uninterrupted run would have ended. Raises `ValueError` if a run of other settings or of
        another model stands there, `OSError` if nothing can be written there,
        `FloatingPointError` where the loss is no longer a number, and `MemoryError` where a batch
        is too large.
        """
        torch.manual_seed(self.config.seed + self.processes.rank)
        if resume:
            self._restore()
        elif self.directory is not None:
            refuse_earlier_run(self.directory)
        self.processes.wait()  # all have looked before the first writes
        if self.directory is not None and self.processes.first:
            check_replaceable(self.directory / "last.safetensors")
        self.processes.share_out(self.model.state_dict().values())
        losses: list[Tensor] = []
        started = time.monotonic() - self.seconds
        with tqdm(
            total=self.config.steps, initial=self.step, unit="step", disable=not self.progress
        ) as bar:
            for indices in self._batches():
                if self._finished():
                    break
                losses.append(self._update(self._parts(indices)))
                self.step += 1
                bar.update()
                to_validate = (
                    self.step % self.config.validate_every == 0 or self.step == self.config.steps
                )
                if to_validate or len(losses) % CHECKED_EVERY == 0:
                    self._check_numbers(losses)
                if not to_validate:
                    continue
                self.seconds = time.monotonic() - started
                record = self._validate(losses)
                losses = []
                if record is best_record(self.records):
                    self._keep_best()
                self._remember()
                self._save("last")
                self._forget()
                bar.set_postfix(
                    train=f"{record['train_loss']:.3f}",
                    validation=f"{record['validation_loss']:.3f}",
                )
        if self.config.average_last > 1 and not self._averaged():
            self._average()
        self.processes.wait()
        self._load_best()
        return self.records

    def _batches(self) -> Iterator[list[int]]:
        """Yield batches of indices for ever, from where the run stands."""
        seen = self.step
        for epoch in itertools.count():
            if isinstance(self.train, Renewable):
                self.train.renew(f"{self.config.seed}/{epoch}")
            sizes = [self.task.size(example) for example in self.train]
            planned = shuffled(
                sizes,
                self.config.seed,
                epoch,
                self.config.batch_size,
                self.config.tokens_per_batch,
            )
            yield from planned[seen:]
            seen = max(0, seen - len(planned))

    def _parts(self, indices: Sequence[int]) -> list[Batch]:
        """Return this process's share of a batch, in as many parts as are accumulated."""
        share = self.processes.share(indices)
        size = math.ceil(len(share) / self.config.accumulate)
        return [
            self.task.collate([self.train[index] for index in share[first : first + size]])
            for first in range(0, len(share), max(1, size))
        ]

    def _finished(self) -> bool:
        if self.step >= self.config.steps or self._averaged():
            return True
        if self.config.patience is None or not self.records:
            return False
        since_best = len(self.records) - 1 - self.records.index(best_record(self.records))
        return since_best >= self.config.patience

    def _averaged(self) -> bool:
        return bool(self.records) and "averaged" in self.records[-1]

    def _update(self, parts: Sequence[Batch]) -> Tensor:
        """Make one step on the mean loss over all targets of all parts of all processes.

        Returns this process's part of that mean.
        """
        self.model.train()
        self._set_learning_rate()
        counts = [self.task.count(part) for part in parts]
        targets = int(self.processes.sum(torch.tensor(sum(counts))))
        self.optimizer.zero_grad(set_to_none=True)
        mean = torch.zeros((), device=self.device)
        try:
            for part, count in zip(parts, counts, strict=True):
                with self._precision():
                    loss = self._loss(part.to(self.device)) * (count / targets)
                loss.backward()
                mean += loss.detach()
        except RuntimeError as error:
            raise self._explained(error, parts) from error
        self.processes.sum_gradients(self.model.parameters())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        return mean

    def _set_learning_rate(self) -> None:
        warm_up_steps = self.config.warm_up_steps or max(1, round(0.1 * self.config.steps))
        share = SCHEDULES[self.config.schedule](self.step, self.config.steps, warm_up_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate * share

    def _precision(self) -> AbstractContextManager[None]:
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"
        )

    def _loss(self, batch: Batch) -> Tensor:
        try:
            return self._training_loss(self.model, batch)
        except Exception as error:
            if not self.config.compile or not type(error).__module__.startswith("torch._"):
                raise
            # torch.compile wants a compiler for the device, which not every machine has.
            tqdm.write(f"going on without torch.compile: {error}".split("\n")[0], sys.stderr)
            self._training_loss = self.task.training_loss
            return self._training_loss(self.model, batch)

    def _explained(self, error: RuntimeError, parts: Sequence[Batch]) -> Exception:
        """Turn a lack of memory into advice; any other error stays as it is."""
        if not device.is_out_of_memory(error):
            return error
        # Tokens stand in two axes: an image has more, and the label of a sentence one.
        rows, longest = max(
            (len(part.tgt), max(side.size(1) for side in part if side.dim() == 2)) for part in parts
        )
        size = "batch_size" if self.config.tokens_per_batch is None else "tokens_per_batch"
        return MemoryError(
            f"out of memory at step {self.step + 1}, with {rows} examples of up to {longest} "
            f"tokens at once: lower {size}={getattr(self.config, size)}, or raise "
            f"accumulate={self.config.accumulate} for the same update in smaller parts"
        )

    def _check_numbers(self, losses: Sequence[Tensor]) -> None:
        """Raise `FloatingPointError` if one of the latest losses is no number."""
        finite = self.processes.sum(torch.stack(list(losses))).isfinite().tolist()
        if not all(finite):
            self._stop_at(self.step - len(losses) + 1 + finite.index(False))

    def _stop_at(self, step: int) -> None:
        saved = ""
        if self.directory is not None and self.records:
            saved = f"; {self.directory} keeps the model of step {self.records[-1]['step']}"
        raise FloatingPointError(
            f"the loss is no longer a number at step {step}: "
            f"try a learning rate below {self.config.learning_rate}{saved}"
        )

    def _validate(self, losses: Sequence[Tensor]) -> Record:
        record: Record = {
            "step": self.step,
            "train_loss": self.processes.sum(torch.stack(list(losses)).mean()).item(),
            "validation_loss": self._validation_loss(),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(self.seconds, 2),
        }
        if not math.isfinite(record["validation_loss"]):
            self._stop_at(self.step)
        self._log(record)
        return record

    def _validation_loss(self) -> float:
        size = self.config.batch_size
        if self.config.tokens_per_batch is not None:
            longest = max(max(self.task.size(example)) for example in self.validation)
            size = max(1, self.config.tokens_per_batch // longest)
        # As many at a time as in training: what fits there fits here.
        return validation_loss(self.model, self.validation, size, self.task, self.processes)

    def _log(self, record: Record) -> None:
        self.records.append(record)
        if self.directory is not None and self.processes.first:
            lines = [json.dumps(line) + "\n" for line in self.records]
            with replacing(self.directory / "log.jsonl") as temporary:
                temporary.write_text("".join(lines), encoding="utf-8")

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def _keep_best(self) -> None:
        if self.directory is None:
            self._best = self._weights()
        else:
            self._save("best")

    def _load_best(self) -> None:
        if self.directory is not None:
            best = checkpoints.load(self.directory / "best.safetensors")
            self._best = best.model.state_dict()
        self.model.load_state_dict(self._best)
        self.model.eval()

    # Averaging the last checkpoints

    def _remember(self) -> None:
        """Keep the weights of this validation."""
        if self.config.average_last == 1:
            return
        self._recent[self.step] = self._weights()
        self._save(_recent_name(self.step))

    def _forget(self) -> None:
        """Forget the weights of too long ago, once no ``last.safetensors`` asks for them."""
        if self.config.average_last == 1:
            return
        steps = [int(record["step"]) for record in self.records]
        for step in steps[: -self.config.average_last]:
            self._recent.pop(step, None)
            if self.directory is not None and self.processes.first:
                (self.directory / f"{_recent_name(step)}.safetensors").unlink(missing_ok=True)

    def _average(self) -> None:
        """Validate the mean of the last checkpoints, and keep it if it is the best."""
        trained = self._weights()
        self.model.load_state_dict(checkpoints.mean_weights(list(self._recent.values())))
        record = {
            **self.records[-1],
            "validation_loss": self._validation_loss(),
            "averaged": len(self._recent),
        }
        self._log(record)
        if record is best_record(self.records):
            self._keep_best()
        self.model.load_state_dict(trained)
        self._save("last")

    # Saving and resuming

    def _save(self, name: str) -> None:
        if self.directory is None:
            return
        extra = self._random_states() if name == "last" else {}
        if not self.processes.first:
            return
        provenance: dict[str, Any] = {**self.checkpoint.provenance, "seconds": self.seconds}
        if name == "last":
            for index, values in self.optimizer.state_dict()["state"].items():
                extra |= {f"optimizer.{index}.{key}": value for key, value in values.items()}
            provenance["run"] = {
                "config": self.config.to_dict(),
                "records": self.records,
                "processes": self.processes.count,
            }
        checkpoint = Checkpoint(
            self.model, self.checkpoint.src_tokenizer, self.checkpoint.tgt_tokenizer, provenance
        )
        checkpoints.save(checkpoint, self.directory / f"{name}.safetensors", extra=extra)

    def _random_states(self) -> dict[str, Tensor]:
        """Return every process's random state, of the CPU and of the device."""
        states = {"cpu": torch.get_rng_state()} | device.random_state(self.device)
        return {
            f"random.{kind}.{rank}": value
            for kind, state in states.items()
            for rank, value in enumerate(self.processes.gather(state))
        }

    def _restore(self) -> None:
        if self.directory is None:
            raise ValueError("there is nothing to resume from without a directory")
        path = self.directory / "last.safetensors"
        restored, extra = checkpoints.load_with_extra(path)
        run = restored.provenance.get("run")
        if run is None or run["config"] != self.config.to_dict():
            raise ValueError(
                f"{path} was trained with {run and run['config']}, "
                f"so it cannot be resumed with {self.config.to_dict()}"
            )
        if run["processes"] != self.processes.count:
            raise ValueError(
                f"{path} was trained by {run['processes']} processes, so it cannot be resumed "
                f"by {self.processes.count}"
            )
        if _makings(restored) != _makings(self.checkpoint):
            raise ValueError(
                f"{path} holds a model of other sizes or other tokens, so it cannot be resumed here"
            )
        self.model.load_state_dict(restored.model.state_dict())
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in extra.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.records = run["records"]
        self.step = int(self.records[-1]["step"])
        self.seconds = restored.provenance["seconds"]
        if self.config.average_last > 1:
            self._restore_recent(self.directory)
        self._restore_random_states(extra)  # last: making a model draws random numbers

    def _restore_recent(self, directory: Path) -> None:
        steps = sorted({int(record["step"]) for record in self.records})
        for step in steps[-self.config.average_last :]:
            recent = checkpoints.load(directory / f"{_recent_name(step)}.safetensors")
            self._recent[step] = {
                name: value.to(self.device) for name, value in recent.model.state_dict().items()
            }

    def _restore_random_states(self, extra: dict[str, Tensor]) -> None:
        rank = self.processes.rank
        torch.set_rng_state(extra[f"random.cpu.{rank}"])
        kind = self.device.type
        if kind != "cpu" and f"random.{kind}.{rank}" in extra:
            device.set_random_state(self.device, extra[f"random.{kind}.{rank}"])


def _makings(checkpoint: Checkpoint) -> tuple[Any, ...]:
    """Return the sizes of a checkpoint's model, and the tokens that its numbers stand for."""
    tokenizers = (checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    return checkpoint.model.config, *(one and one.to_json() for one in tokenizers)


def _recent_name(step: int) -> str:
    return f"step-{step:07}"
