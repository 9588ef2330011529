"""The hyperparameters of training: updates, batch size, optimizer, schedule and checkpoints."""

from dataclasses import dataclass
from typing import Literal, get_args

from attentively.config import Config, check_seed
from attentively.training.schedules import SCHEDULES

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class TrainingConfig(Config):
    """The hyperparameters of a training run."""

    steps: int
    """Number of parameter updates."""
    batch_size: int = 64
    """Examples per batch."""
    tokens_per_batch: int | None = None
    """Maximum number of tokens per batch on its longer side, padding included; replaces
    batch_size."""
    accumulate: int = 1
    """Gradient accumulation: parts into which a batch is split for the same update in less
    memory."""
    learning_rate: float = 1e-3
    """Peak learning rate."""
    schedule: str = "one_cycle"
    """Learning-rate schedule: constant, one_cycle or inverse_square_root (the Transformer
    paper's)."""
    warm_up_steps: int | None = None
    """Steps in which the learning rate rises to its peak; by default a tenth of all steps."""
    beta2: float = 0.999
    """Decay rate of Adam's second-moment estimate; 0.98 in the Transformer paper."""
    epsilon: float = 1e-8
    """Constant in Adam's denominator; 1e-9 in the Transformer paper."""
    clip_norm: float = 1.0
    """Maximum norm of the gradient: a longer gradient is scaled down to it."""
    label_smoothing: float = 0.0
    """Label smoothing: probability mass that is spread evenly over all tokens."""
    attention_penalty: float = 0.0
    """Weight of the doubly stochastic attention penalty, for captions only."""
    precision: Precision = "float32"
    """Number format of the large matrix products; the parameters stay in float32."""
    compile: bool = False
    """Compile the model with torch.compile. The first steps take a minute or more; those of a
    recurrent model, which is unrolled token by token, take many minutes."""
    average_last: int = 1
    """Number of last checkpoints to average at the end; the average is kept if its validation
    loss is the lowest."""
    validate_every: int = 200
    """Steps between validations; each writes a checkpoint and a line of the log."""
    patience: int | None = None
    """Early stopping: validations without a new best before training stops; by default training
    runs to the end."""
    seed: int = 0
    """Random seed for data order and dropout."""

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
            raise ValueError(
                f"schedule={self.schedule!r} is unknown: choose one of {', '.join(SCHEDULES)}"
            )
        if self.precision not in get_args(Precision):
            raise ValueError(
                f"precision={self.precision!r} is unknown: choose one of "
                f"{', '.join(get_args(Precision))}"
            )

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        warm_up_steps = self.warm_up_steps or max(1, round(0.1 * self.steps))
        return self.learning_rate * SCHEDULES[self.schedule](step, self.steps, warm_up_steps)
