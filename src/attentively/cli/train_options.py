"""The options of ``attentively train``, from the configurations of models and of training.

This module does not import PyTorch, so that ``--help`` starts quickly.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from attentively.cli import settings
from attentively.cli.settings import Choice, Given
from attentively.config import ModelConfig
from attentively.models import configs
from attentively.training.training_config import TrainingConfig

CONFIGS: dict[str, type[ModelConfig]] = {
    re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower(): config  # LanguageModel: language-model
    for name, config in configs.CONFIGS.items()
}
"""The values of ``--model``, and the configuration of each kind of model."""
TokenizerKind = Literal["word", "character", "bpe"]
DEFAULT_SIZE = 5000
"""Default vocabulary size of byte-pair encoding."""
PIECE_LENGTH = 128
"""Default length of a chunk of running text, in tokens."""
FROM_DATA = {"src_vocab_size", "tgt_vocab_size", "vocab_size", "labels", "height", "width"}
"""Fields of a configuration that follow from the data, so that they are no options."""
MODEL_CHOICES = {choice.name: choice for choice in settings.choices(CONFIGS, without=FROM_DATA)}
TRAINING_CHOICES = {
    choice.name: choice for choice in settings.choices({"training": TrainingConfig})
}
TOP = {
    "data": Choice("data", str, False, (), {}, {}),
    "model": Choice("model", str, False, tuple(CONFIGS), {}, {}),
    "tokenizer": Choice("tokenizer", str, False, get_args(TokenizerKind), {}, {}),
    "vocabulary_size": Choice("vocabulary_size", int, False, (), {}, {}),
    "piece_length": Choice("piece_length", int, False, (), {}, {}),
}
"""Keys of a TOML file before the first table."""
OF_CAPTIONS = ("attention_penalty",)
"""Training options that only captioners have."""
EVERY_CHOICE = TOP | MODEL_CHOICES | TRAINING_CHOICES


def values(given: Mapping[str, Given], choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return those of the given values that `choices` has."""
    return {name: one.value for name, one in given.items() if name in choices}


def refuse_strange(given: Mapping[str, Given], model: str) -> None:
    """Raise `ValueError` for an option that only other kinds of models have."""
    for name, one in given.items():
        choice = MODEL_CHOICES.get(name)
        if choice is not None and model not in choice.owners:
            raise ValueError(
                f"{one.where} is an option of --model {' or '.join(choice.owners)}, not of {model}"
            )
        if name in OF_CAPTIONS and model != "captioner":
            raise ValueError(f"{one.where} is an option of --model captioner, not of {model}")
