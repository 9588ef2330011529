"""The hyperparameters of skip-gram training."""

from dataclasses import dataclass

from attentively.config import Config, check_at_least_one, check_seed


@dataclass(frozen=True)
class VectorConfig(Config):
    """The hyperparameters of skip-gram training."""

    embedding_dim: int = 100
    """Dimension of the vectors."""
    window: int = 5
    """Maximum window size: neighbours on each side; sampled from 1 to this value per word."""
    negatives: int = 5
    """Number of negative samples per pair of words."""
    threshold: float = 1e-4
    """Subsampling threshold: words of a higher relative frequency are randomly discarded."""
    min_count: int = 5
    """Minimum frequency of a word; rarer words are removed from the text and get no vector."""
    epochs: int = 20
    """Number of passes over the text."""
    batch_size: int = 4096
    """Pairs of words per update."""
    learning_rate: float = 5e-3
    """Initial learning rate of Adam; it decays linearly to zero."""
    seed: int = 0
    """Random seed for initialisation and sampling."""

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            if name in ("threshold", "learning_rate"):
                if not value > 0:
                    raise ValueError(f"{name}={value} must be positive")
            elif name == "seed":
                check_seed(value)
            else:
                check_at_least_one(**{name: value})
