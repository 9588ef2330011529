"""The folder of a training run: save the run, resume it, and average its last checkpoints.

``last.safetensors`` holds the model, the optimizer, the random state and the log: all that a
resumed run needs. ``best.safetensors`` holds the model of the lowest validation loss, and
``log.jsonl`` one record per validation. Where the last checkpoints are averaged at the end, each
is kept as ``step-0000200.safetensors``.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from attentively import device
from attentively.atomic_files import check_replaceable, replacing
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.training.data_parallel import Processes
from attentively.training.training_config import TrainingConfig

Record = dict[str, int | float]
"""One line of the log: step, losses in nats per target, learning rate, seconds."""


class Progress(NamedTuple):
    """The progress of a training run."""

    records: list[Record]
    """One record per validation so far."""
    seconds: float
    """Training time in seconds."""


def best_record(records: Sequence[Record]) -> Record:
    """Return the record of the lowest validation loss, the first of several equal ones."""
    return min(records, key=lambda record: record["validation_loss"])


def is_averaged(records: Sequence[Record]) -> bool:
    """Return whether the last record is that of the averaged checkpoints, which ends a run."""
    return bool(records) and "averaged" in records[-1]


def refuse_earlier_run(directory: Path) -> None:
    """Raise `ValueError` if `directory` contains a run, which a new run would overwrite."""
    if (directory / "last.safetensors").exists():
        raise ValueError(f"{directory} already contains a run: resume it, or choose another folder")
    for name in ("best.safetensors", "log.jsonl"):
        if (directory / name).exists():
            raise ValueError(
                f"{directory} already contains the {name} of a run, but no last.safetensors to "
                "resume from: move the file away, or choose another folder"
            )


class RunFolder:
    """Save and resume the training of a `checkpoint`'s model.

    Without a `directory` nothing is written: the best and the last weights are kept in memory.
    With several `processes`, only the first one writes, but all of them call each method. Files are
    replaced atomically, so a run that is killed at any moment after its first validation can be
    resumed.
    """

    def __init__(
        self,
        directory: Path | str | None,
        checkpoint: Checkpoint,
        optimizer: Optimizer,
        config: TrainingConfig,
        processes: Processes,
    ) -> None:
        self.directory = Path(directory) if directory is not None else None
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.optimizer = optimizer
        self.config = config
        self.processes = processes
        self._best: dict[str, Tensor] = {}
        self._recent: dict[int, dict[str, Tensor]] = {}

    def start(self) -> Progress:
        """Return the initial progress of a new run.

        Raises `ValueError` if the folder already contains a run, and `OSError` if it is not
        writable.
        """
        if self.directory is not None:
            refuse_earlier_run(self.directory)
        self._check_writable()
        return Progress([], 0.0)

    def resume(self) -> Progress:
        """Restore model, optimizer and random state from ``last.safetensors``.

        Raises `ValueError` for a run with other hyperparameters, another model or another number
        of processes, and `OSError` if the folder is not writable.
        """
        if self.directory is None:
            raise ValueError("cannot resume without a directory")
        path = self.directory / "last.safetensors"
        restored, extra = checkpoints.load_with_extra(path)
        run: dict[str, Any] = restored.provenance.get("run", {})
        self._refuse_other_run(path, restored, run)
        self._check_writable()
        self.model.load_state_dict(restored.model.state_dict())
        self._restore_optimizer(extra)
        self._restore_recent(self.directory, run["records"])
        self._restore_random_states(extra)  # last: creating a model uses random numbers
        return Progress(run["records"], restored.provenance["seconds"])

    def save(self, progress: Progress) -> None:
        """Save the run after a validation, whose record is the last one.

        A checkpoint to be averaged is written before the ``last.safetensors`` that needs it, and
        deleted only after a ``last.safetensors`` that no longer needs it. So the checkpoints of
        every ``last.safetensors`` exist.
        """
        self._write_log(progress.records)
        if progress.records[-1] is best_record(progress.records):
            self._save_best(progress)
        if self.config.average_last > 1:
            step = int(progress.records[-1]["step"])
            self._recent[step] = self._weights()
            self._write(_recent_name(step), progress)
        self._save_last(progress)
        self._forget(progress.records)

    def average(self, progress: Progress, validate: Callable[[], float]) -> None:
        """Validate the mean of the last checkpoints, and keep it if it is the best."""
        trained = self._weights()
        self.model.load_state_dict(checkpoints.mean_weights(list(self._recent.values())))
        record = {
            **progress.records[-1],
            "validation_loss": validate(),
            "averaged": len(self._recent),
        }
        progress.records.append(record)
        self._write_log(progress.records)
        if record is best_record(progress.records):
            self._save_best(progress)
        self.model.load_state_dict(trained)
        self._save_last(progress)

    def load_best(self) -> None:
        """Load the best weights into the model, and switch it to evaluation mode."""
        self.processes.wait()  # until the first one has written them
        if self.directory is not None:
            best = checkpoints.load(self.directory / "best.safetensors")
            self._best = best.model.state_dict()
        self.model.load_state_dict(self._best)
        self.model.eval()

    # Saving

    def _check_writable(self) -> None:
        self.processes.wait()  # all have read the folder before the first one writes
        if self.directory is not None and self.processes.first:
            check_replaceable(self.directory / "last.safetensors")

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def _write_log(self, records: Sequence[Record]) -> None:
        if self.directory is not None and self.processes.first:
            lines = [json.dumps(record) + "\n" for record in records]
            with replacing(self.directory / "log.jsonl") as temporary:
                temporary.write_text("".join(lines), encoding="utf-8")

    def _save_best(self, progress: Progress) -> None:
        if self.directory is None:
            self._best = self._weights()
        else:
            self._write("best", progress)

    def _save_last(self, progress: Progress) -> None:
        if self.directory is None:
            return
        extra = self._random_states()  # of every process, so before the others return
        for index, values in self.optimizer.state_dict()["state"].items():
            extra |= {f"optimizer.{index}.{key}": value for key, value in values.items()}
        run = {
            "config": self.config.to_dict(),
            "records": progress.records,
            "processes": self.processes.count,
        }
        self._write("last", progress, {"run": run}, extra)

    def _write(
        self,
        name: str,
        progress: Progress,
        provenance: dict[str, Any] | None = None,
        extra: dict[str, Tensor] | None = None,
    ) -> None:
        if self.directory is None or not self.processes.first:
            return
        said = {**self.checkpoint.provenance, "seconds": progress.seconds, **(provenance or {})}
        checkpoint = replace(self.checkpoint, provenance=said)
        checkpoints.save(checkpoint, self.directory / f"{name}.safetensors", extra=extra)

    def _forget(self, records: Sequence[Record]) -> None:
        """Delete the checkpoints that are no longer needed for averaging."""
        if self.config.average_last == 1:
            return
        for record in records[: -self.config.average_last]:
            step = int(record["step"])
            self._recent.pop(step, None)
            if self.directory is not None and self.processes.first:
                (self.directory / f"{_recent_name(step)}.safetensors").unlink(missing_ok=True)

    def _random_states(self) -> dict[str, Tensor]:
        """Return the random states of every process, of the CPU and of the device."""
        states = {"cpu": torch.get_rng_state()} | device.random_state(self._device())
        return {
            f"random.{kind}.{rank}": value
            for kind, state in states.items()
            for rank, value in enumerate(self.processes.gather(state))
        }

    # Resuming

    def _refuse_other_run(self, path: Path, restored: Checkpoint, run: dict[str, Any]) -> None:
        if run.get("config") != self.config.to_dict():
            raise ValueError(
                f"{path} was trained with {run.get('config')}, "
                f"so it cannot be resumed with {self.config.to_dict()}"
            )
        if run["processes"] != self.processes.count:
            raise ValueError(
                f"{path} was trained by {run['processes']} processes, so it cannot be resumed "
                f"by {self.processes.count}"
            )
        if _sizes_and_tokens(restored) != _sizes_and_tokens(self.checkpoint):
            raise ValueError(
                f"{path} contains a model with another configuration or other tokenizers, so it "
                "cannot be resumed here"
            )

    def _restore_optimizer(self, extra: dict[str, Tensor]) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in extra.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})

    def _restore_recent(self, directory: Path, records: Sequence[Record]) -> None:
        if self.config.average_last == 1:
            return
        steps = sorted({int(record["step"]) for record in records})
        for step in steps[-self.config.average_last :]:
            recent = checkpoints.load(directory / f"{_recent_name(step)}.safetensors")
            self._recent[step] = {
                name: value.to(self._device()) for name, value in recent.model.state_dict().items()
            }

    def _restore_random_states(self, extra: dict[str, Tensor]) -> None:
        rank = self.processes.rank
        torch.set_rng_state(extra[f"random.cpu.{rank}"])
        kind = self._device().type
        if kind != "cpu" and f"random.{kind}.{rank}" in extra:
            device.set_random_state(self._device(), extra[f"random.{kind}.{rank}"])

    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def _sizes_and_tokens(checkpoint: Checkpoint) -> tuple[Any, ...]:
    """Return the configuration of a checkpoint's model, and its tokenizers as text."""
    tokenizers = (checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    return checkpoint.model.config, *(one and one.to_json() for one in tokenizers)


def _recent_name(step: int) -> str:
    return f"step-{step:07}"
