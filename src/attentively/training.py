"""Training: teacher forcing, validation, early stop, and a run that can be resumed."""

import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from attentively import checkpoints, device
from attentively.checkpoints import Checkpoint
from attentively.config import Config
from attentively.data.batches import Batch, Example, in_order, shuffled
from attentively.decoding import evaluating
from attentively.files import replacing
from attentively.losses import cross_entropy
from attentively.masks import padding_mask
from attentively.protocol import EncoderDecoder
from attentively.schedules import SCHEDULES
from attentively.vocabulary import PAD_ID

Record = dict[str, int | float]
"""One line of the log: step, losses in nats per token, learning rate, seconds."""


@dataclass(frozen=True)
class TrainingConfig(Config):
    """How long, how fast and from which seed to train."""

    steps: int
    batch_size: int = 64
    learning_rate: float = 1e-3
    schedule: str = "one_cycle"
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it."""
    validate_every: int = 200
    """Steps between two validations; each also writes a checkpoint and a line of the log."""
    patience: int | None = None
    """Stop after so many validations without a new best; None trains to the end."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience={self.patience} must be at least 1, or None")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule={self.schedule!r} is unknown: choose of {list(SCHEDULES)}")


def teacher_forced_loss(model: EncoderDecoder, batch: Batch) -> Float[Tensor, ""]:
    """Return the mean loss per target token when every prefix is the true one (nats)."""
    src_mask = padding_mask(batch.src, PAD_ID)
    memory = model.encode(batch.src, src_mask)
    logits = model.decode(batch.tgt[:, :-1], memory, src_mask).logits
    return cross_entropy(logits, batch.tgt[:, 1:], PAD_ID)


def validation_loss(
    model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256
) -> float:
    """Return the mean loss per target token over `examples`, without dropout (nats)."""
    where = next(model.parameters()).device
    total, tokens = 0.0, 0
    # Similar lengths side by side waste less on padding; the sum does not mind the order.
    examples = sorted(examples, key=lambda example: len(example.tgt))
    with evaluating(model):
        for batch in in_order(examples, batch_size):
            batch = batch.to(where)
            count = int((batch.tgt[:, 1:] != PAD_ID).sum())
            total += teacher_forced_loss(model, batch).item() * count
            tokens += count
    return total / tokens


def teacher_forced_weights(
    model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256
) -> list[Float[Tensor, "_tgt_len _src_len"]]:
    """Return, for each example, where the model looks as it predicts each token after the first.

    The two end tokens have a row and a column too. Raises `ValueError` for a model that does
    not attend.
    """
    where = next(model.parameters()).device
    found: list[Tensor] = []
    with evaluating(model):
        for batch in in_order(examples, batch_size):
            src, tgt = batch.to(where)
            src_mask = padding_mask(src, PAD_ID)
            memory = model.encode(src, src_mask)
            weights = model.decode(tgt[:, :-1], memory, src_mask, need_weights=True).weights
            if weights is None:
                raise ValueError(f"this {type(model).__name__} does not attend: it has no weights")
            found += weights.cpu().unbind()
    return [
        matrix[: len(example.tgt) - 1, : len(example.src)]
        for matrix, example in zip(found, examples, strict=True)
    ]


def best_record(records: Sequence[Record]) -> Record:
    """Return the record of the lowest validation loss, the first if several are as low."""
    return min(records, key=lambda record: record["validation_loss"])


def refuse_earlier_run(directory: Path) -> None:
    """Raise `ValueError` where a run stands already, which a new one would overwrite."""
    if (directory / "last.safetensors").exists():
        raise ValueError(f"{directory} already holds a run: resume it, or choose another folder")


def _try_to_write(directory: Path) -> None:
    """Make the folder; raise `OSError` before any work is done if it cannot be written to."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise OSError(f"nothing can be written to {directory}: {error.strerror}") from error


class Trainer:
    """Fit a model to sentence pairs.

    With a `directory`, each validation leaves there ``last.safetensors`` (model, optimizer and
    random state: enough to resume), ``best.safetensors`` (the model that validated best) and a
    line of ``log.jsonl``. Files are replaced whole, so a run killed at any moment can resume.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        train: Sequence[Example],
        validation: Sequence[Example],
        config: TrainingConfig,
        directory: Path | str | None = None,
        progress: bool = True,
    ) -> None:
        if not train or not validation:
            raise ValueError(
                f"training needs examples, but there are {len(train)} to train on and "
                f"{len(validation)} to validate with"
            )
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.train = train
        self.validation = validation
        self.config = config
        self.directory = Path(directory) if directory is not None else None
        self.progress = progress
        self.device = device.best()
        self.model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        self.step = 0
        self.seconds = 0.0
        self.records: list[Record] = []

    def fit(self, resume: bool = False) -> list[Record]:
        """Train, and return the log; the model is left with its best weights.

        With `resume`, go on from the directory's ``last.safetensors`` and end where an
        uninterrupted run would have ended. Raises `ValueError` if a run of other settings
        stands there, `OSError` if nothing can be written there, and `FloatingPointError` where
        the loss is no longer a number.
        """
        torch.manual_seed(self.config.seed)
        if resume:
            self._restore()
        elif self.directory is not None:
            refuse_earlier_run(self.directory)
        if self.directory is not None:
            _try_to_write(self.directory)
        best_weights = self._weights()
        losses: list[Tensor] = []
        started = time.monotonic() - self.seconds
        with tqdm(
            total=self.config.steps, initial=self.step, unit="step", disable=not self.progress
        ) as bar:
            for batch in self._batches():
                if self._finished():
                    break
                losses.append(self._update(batch.to(self.device)))
                self.step += 1
                bar.update()
                if self.step % self.config.validate_every and self.step < self.config.steps:
                    continue
                self.seconds = time.monotonic() - started
                record = self._validate(losses)
                losses = []
                if record is best_record(self.records):
                    best_weights = self._weights()
                    self._save("best")
                self._save("last")
                bar.set_postfix(
                    train=f"{record['train_loss']:.3f}",
                    validation=f"{record['validation_loss']:.3f}",
                )
        self._load_best(best_weights)
        return self.records

    def _batches(self) -> Iterator[Batch]:
        """Yield batches for ever, from where the run stands."""
        per_epoch = math.ceil(len(self.train) / self.config.batch_size)
        epoch, skip = divmod(self.step, per_epoch)
        while True:
            yield from shuffled(self.train, self.config.batch_size, self.config.seed, epoch, skip)
            epoch, skip = epoch + 1, 0

    def _finished(self) -> bool:
        if self.step >= self.config.steps:
            return True
        if self.config.patience is None or not self.records:
            return False
        since_best = len(self.records) - 1 - self.records.index(best_record(self.records))
        return since_best >= self.config.patience

    def _update(self, batch: Batch) -> Tensor:
        self.model.train()
        rate = self.config.learning_rate * SCHEDULES[self.config.schedule](
            self.step, self.config.steps, max(1, self.config.steps // 10)
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = teacher_forced_loss(self.model, batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        return loss.detach()

    def _validate(self, losses: list[Tensor]) -> Record:
        record: Record = {
            "step": self.step,
            "train_loss": torch.stack(losses).mean().item(),
            "validation_loss": validation_loss(self.model, self.validation),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(self.seconds, 2),
        }
        if not math.isfinite(record["train_loss"] + record["validation_loss"]):
            raise FloatingPointError(
                f"the loss is no longer a number at step {self.step}: "
                f"try a learning rate below {self.config.learning_rate}"
            )
        self.records.append(record)
        if self.directory is not None:
            lines = [json.dumps(line) + "\n" for line in self.records]
            with replacing(self.directory / "log.jsonl") as temporary:
                temporary.write_text("".join(lines), encoding="utf-8")
        return record

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def _load_best(self, in_memory: dict[str, Tensor]) -> None:
        best = self.directory / "best.safetensors" if self.directory is not None else None
        if best is not None and best.exists():
            self.model.load_state_dict(checkpoints.load(best).model.state_dict())
        else:
            self.model.load_state_dict(in_memory)
        self.model.eval()

    def _save(self, name: str) -> None:
        if self.directory is None:
            return
        extra: dict[str, Tensor] = {}
        provenance: dict[str, Any] = {**self.checkpoint.provenance, "seconds": self.seconds}
        if name == "last":
            extra = {"random.cpu": torch.get_rng_state()}
            if self.device.type == "cuda":
                extra["random.cuda"] = torch.cuda.get_rng_state(self.device)
            for index, values in self.optimizer.state_dict()["state"].items():
                extra |= {f"optimizer.{index}.{key}": value for key, value in values.items()}
            provenance["run"] = {"config": self.config.to_dict(), "records": self.records}
        checkpoint = Checkpoint(
            self.model, self.checkpoint.src_tokenizer, self.checkpoint.tgt_tokenizer, provenance
        )
        checkpoints.save(checkpoint, self.directory / f"{name}.safetensors", extra=extra)

    def _restore(self) -> None:
        if self.directory is None:
            raise ValueError("there is nothing to resume from without a directory")
        path = self.directory / "last.safetensors"
        restored = checkpoints.load(path)
        run = restored.provenance.get("run")
        if run is None or run["config"] != self.config.to_dict():
            raise ValueError(
                f"{path} was trained with {run and run['config']}, "
                f"so it cannot be resumed with {self.config.to_dict()}"
            )
        self.model.load_state_dict(restored.model.state_dict())
        _, tensors = checkpoints.read(path)
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.records = run["records"]
        self.step = int(self.records[-1]["step"])
        self.seconds = restored.provenance["seconds"]
