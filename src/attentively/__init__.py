"""Attentively: from word embeddings to the Transformer, built by hand.

Modules are grouped in folders by kind: ``attentively.attention.additive``,
``attentively.models.transformer``. The book and the exercises import them by the short names of
`SHORT_NAMES`: ``attentively.additive`` is the same module. A folder that has the name of a module
exports names itself (`exporter`): ``from attentively.training import Trainer``.

The package itself exports `load`, the models and the attentions (`EXPORTS`). Nothing is imported
before it is used, so ``import attentively`` does not import PyTorch::

    attentively.load("tatoeba-en-fr-transformer").translate("I do not like milk.")

Type checkers know the full names of modules and the names of `EXPORTS`, but no short names.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

SHORT_NAMES = {
    "files": "atomic_files",
    "masks": "attention.masks",
    "kernels": "attention.kernels",
    "additive": "attention.additive",
    "multiplicative": "attention.multiplicative",
    "scaled_dot_product": "attention.scaled_dot_product",
    "blockwise": "attention.blockwise",
    "positional": "attention.positional",
    "multi_head": "attention.multi_head",
    "plain_multi_head": "attention.plain_multi_head",
    "byte_pair": "tokens.byte_pair",
    "unigram": "tokens.unigram",
    "vocabulary": "tokens.vocabulary",
    "embedding": "layers.embedding",
    "feed_forward": "layers.feed_forward",
    "layer_norm": "layers.layer_norm",
    "rms_norm": "layers.rms_norm",
    "quantized": "layers.quantized",
    "dropout": "layers.dropout",
    "low_rank": "layers.low_rank",
    "recurrent_cells": "layers.recurrent_cells",
    "recurrent": "layers.bidirectional",
    "protocol": "models.interface",
    "seq2seq": "models.seq2seq",
    "plain_transformer": "models.plain_transformer",
    "transformer": "models.transformer",
    "language_model": "models.language_model",
    "heads": "models.encoder_heads",
    "captioning": "models.captioning",
    "attentive_classifier": "models.attentive_classifier",
    "checkpoints": "models.checkpoints",
    "skip_gram": "word_vectors.skip_gram",
    "vector_training": "word_vectors.training",
    "losses": "training.losses",
    "schedules": "training.schedules",
    "tasks": "training.objectives",
    "parallel": "training.data_parallel",
    "memory_meter": "training.memory_meter",
    "decoding": "generation.search",
    "minimum_bayes_risk": "generation.minimum_bayes_risk",
    "writing": "generation.generate",
    "reading": "generation.predict",
    "metrics": "scoring.metrics",
    "bootstrap": "scoring.bootstrap",
    "evaluation": "scoring.evaluation",
    "explanations": "analysis.explanations",
    "pruning": "analysis.pruning",
    "interventions": "analysis.interventions",
    "plots": "analysis.plots",
    "figures": "analysis.figures",
    "tables": "analysis.tables",
    "attention_explorer": "analysis.attention_explorer",
    "earlier_parts": "coursework.earlier_parts",
}
"""Short names of modules, and where in this package each module is."""


EXPORTS = {
    "generation.pretrained_model": ["PretrainedModel", "load"],
    "models.configs": [
        "CaptionerConfig",
        "ClassifierConfig",
        "LanguageModelConfig",
        "MaskedLanguageModelConfig",
        "Seq2SeqConfig",
        "TransformerConfig",
    ],
    "models.transformer": ["Transformer"],
    "models.seq2seq": ["Seq2Seq"],
    "models.language_model": ["LanguageModel"],
    "models.encoder_heads": ["Classifier", "MaskedLanguageModel"],
    "models.captioning": ["Captioner"],
    "attention.additive": ["AdditiveAttention"],
    "attention.multiplicative": ["LocalAttention", "LuongAttention"],
    "attention.multi_head": ["MultiHeadAttention"],
    "attention.scaled_dot_product": ["scaled_dot_product_attention"],
}
"""Names of the package itself, by the module that defines them."""


class _ShortNames(MetaPathFinder, Loader):
    """Import a module by its short name; both names refer to the same module object."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for ``attentively.SHORT_NAME``, and None for every other name."""
        package, _, name = fullname.rpartition(".")
        known = package == __name__ and name in SHORT_NAMES
        return spec_from_loader(fullname, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module that the short name stands for."""
        module = import_module(f"{__name__}.{SHORT_NAMES[spec.name.rpartition('.')[2]]}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec of the module's own name, which the import system has replaced."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__, module.__loader__ = spec.loader_state, spec.loader_state.loader


if TYPE_CHECKING:  # `EXPORTS` for type checkers, which do not call `exporter`
    from attentively.attention.additive import AdditiveAttention as AdditiveAttention
    from attentively.attention.multi_head import MultiHeadAttention as MultiHeadAttention
    from attentively.attention.multiplicative import LocalAttention as LocalAttention
    from attentively.attention.multiplicative import LuongAttention as LuongAttention
    from attentively.attention.scaled_dot_product import (
        scaled_dot_product_attention as scaled_dot_product_attention,
    )
    from attentively.generation.pretrained_model import PretrainedModel as PretrainedModel
    from attentively.generation.pretrained_model import load as load
    from attentively.models.captioning import Captioner as Captioner
    from attentively.models.configs import CaptionerConfig as CaptionerConfig
    from attentively.models.configs import ClassifierConfig as ClassifierConfig
    from attentively.models.configs import LanguageModelConfig as LanguageModelConfig
    from attentively.models.configs import MaskedLanguageModelConfig as MaskedLanguageModelConfig
    from attentively.models.configs import Seq2SeqConfig as Seq2SeqConfig
    from attentively.models.configs import TransformerConfig as TransformerConfig
    from attentively.models.encoder_heads import Classifier as Classifier
    from attentively.models.encoder_heads import MaskedLanguageModel as MaskedLanguageModel
    from attentively.models.language_model import LanguageModel as LanguageModel
    from attentively.models.seq2seq import Seq2Seq as Seq2Seq
    from attentively.models.transformer import Transformer as Transformer


def exporter(folder: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a folder's ``__getattr__``, which imports a module when one of its names is used.

    `names` lists, for each module of the folder, the names that the folder exports.
    """
    module_of = {name: module for module, exported in names.items() for name in exported}

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in module_of:
            raise AttributeError(f"module {folder!r} has no attribute {name!r}")
        return getattr(import_module(f"{folder}.{module_of[name]}"), name)

    return __getattr__


if not TYPE_CHECKING:  # else every unknown name would be accepted
    __getattr__ = exporter(__name__, EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for names in EXPORTS.values() for name in names)})


if not any(isinstance(finder, _ShortNames) for finder in sys.meta_path):
    sys.meta_path.append(_ShortNames())
