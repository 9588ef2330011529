"""Frozen configurations that reject unknown and invalid values."""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple, Self

Norm = Literal["pre", "post"]
"""Layer normalisation before or after each sub-layer."""
Activation = Literal["relu", "gelu"]
"""Activation function of the feed-forward network."""
LocalKind = Literal["local-m", "local-p"]
"""Centre of the window of local attention: the time step, or a predicted position."""


@dataclasses.dataclass(frozen=True)
class Config:
    """A set of hyperparameters, written to and read from a checkpoint."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from `values`; an unknown or missing name raises `ValueError`."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(
                f"{cls.__name__} has no field {unknown}; its fields are {sorted(known)}"
            )
        missing = sorted(
            field.name
            for field in dataclasses.fields(cls)
            if field.name not in values
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        )
        if missing:
            raise ValueError(f"{cls.__name__} needs values for {missing}, which are missing")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the value of every field by its name."""
        return dataclasses.asdict(self)


class VocabSizes(NamedTuple):
    """Sizes of a model's source and target vocabularies; None where it has no such side."""

    src: int | None
    tgt: int | None


@dataclasses.dataclass(frozen=True)
class ModelConfig(Config, ABC):
    """The hyperparameters of a model."""

    @property
    @abstractmethod
    def vocab_sizes(self) -> VocabSizes:
        """Vocabulary sizes of the source and the target tokenizer."""


def check_at_least_one(**numbers: int) -> None:
    """Raise `ValueError` for a value below 1, naming it."""
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name}={number} must be at least 1")


def check_seed(seed: int) -> None:
    """Raise `ValueError` for a seed of more than 64 bits, which PyTorch does not accept."""
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed={seed} must be from -2**63 to 2**63 - 1")
