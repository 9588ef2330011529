"""Checkpoints: a model, its tokenizers and its provenance in one file; pretrained models by name.

The file is in the safetensors format: tensors, and JSON text as metadata. Reading it executes no
code. Pretrained models are part of the package; where they were left out, `load_pretrained`
downloads them.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attentively import pretrained_files
from attentively.atomic_files import replacing
from attentively.config import ModelConfig
from attentively.models.captioning import Captioner
from attentively.models.configs import CONFIGS
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import EncoderDecoder, Model, ModelKindError
from attentively.models.language_model import LanguageModel
from attentively.models.seq2seq import Seq2Seq
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import Tokenizer, load_tokenizer

MODELS: dict[str, tuple[type[Model], type[ModelConfig]]] = {
    model.__name__: (model, CONFIGS[model.__name__])
    for model in (Seq2Seq, Transformer, LanguageModel, Classifier, MaskedLanguageModel, Captioner)
}
"""Every kind of model that can be saved: its class and the class of its configuration."""
FORMAT = "attentively checkpoint 1"
FIELDS = ("format", "model", "config", "src_tokenizer", "tgt_tokenizer", "provenance")


class CheckpointError(ValueError):
    """The checkpoint is missing or damaged."""


class Translator(NamedTuple):
    """A text-to-text model and its tokenizers."""

    model: EncoderDecoder
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer


@dataclass
class Checkpoint:
    """A model with its tokenizers and its provenance."""

    model: Model
    src_tokenizer: Tokenizer | None
    """Tokenizer of the input; None where the input is not text."""
    tgt_tokenizer: Tokenizer | None
    """Tokenizer of the output; None where the output is not text."""
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    """Command, seed, data, device, time and scores."""

    def translator(self) -> Translator:
        """Return a text-to-text model with its tokenizers; others raise `ModelKindError`."""
        if (
            not isinstance(self.model, EncoderDecoder)
            or self.src_tokenizer is None
            or self.tgt_tokenizer is None
        ):
            raise ModelKindError(self.model, "translate text")
        return Translator(self.model, self.src_tokenizer, self.tgt_tokenizer)


def save(
    checkpoint: Checkpoint,
    path: Path | str,
    half_precision: bool = False,
    extra: dict[str, Tensor] | None = None,
) -> None:
    """Write `checkpoint` to `path`, completely or not at all.

    With `half_precision` the parameters are stored in 16 bits. `extra` tensors, such as those of
    an optimizer, are stored next to the model's under their own names. Raises `OSError` if the
    file cannot be written; an earlier file is then unchanged.
    """
    model = checkpoint.model
    dtype = torch.float16 if half_precision else torch.float32
    tensors = {
        f"model.{name}": value.to("cpu", dtype if value.is_floating_point() else None).contiguous()
        for name, value in stored_tensors(model).items()
    }
    tensors |= {name: value.detach().cpu().contiguous() for name, value in (extra or {}).items()}
    content = {
        "format": FORMAT,
        "model": type(model).__name__,
        "config": json.dumps(model.config.to_dict()),
        "src_tokenizer": _tokenizer_text(checkpoint.src_tokenizer),
        "tgt_tokenizer": _tokenizer_text(checkpoint.tgt_tokenizer),
        "provenance": json.dumps(checkpoint.provenance, ensure_ascii=False),
    }
    if content["src_tokenizer"] == content["tgt_tokenizer"]:
        content["tgt_tokenizer"] = ""  # one joint tokenizer is written once
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=content)
        except SafetensorError as error:
            raise OSError(f"cannot write {path}: {error}") from None


def load(path: Path | str, device: torch.device | str = "cpu") -> Checkpoint:
    """Read a checkpoint; the model is returned in evaluation mode, in 32 bits.

    Raises `CheckpointError`, which is a `ValueError`, for a file that is missing or damaged.
    """
    return load_with_extra(path, device)[0]


def load_with_extra(
    path: Path | str, device: torch.device | str = "cpu"
) -> tuple[Checkpoint, dict[str, Tensor]]:
    """Read a checkpoint and the `extra` tensors that `save` stored with it."""
    content, tensors = read(path)
    if content["model"] not in MODELS:
        raise CheckpointError(
            f"{path} contains a model of kind {content['model']!r}; known kinds are "
            f"{sorted(MODELS)}"
        )
    try:
        checkpoint = assemble(content, tensors)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    checkpoint.model.to(device)
    extra = {name: value for name, value in tensors.items() if not name.startswith("model.")}
    return checkpoint, extra


def mean_weights(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several checkpoints of one model, parameter by parameter.

    The mean of the last checkpoints of a run is often better than each of them: Vaswani
    et al. (2017), https://arxiv.org/abs/1706.03762, section 6.1, average 5 or 20.
    """
    if not weights:
        raise ValueError("cannot average checkpoints: none was given")
    names = {frozenset(state) for state in weights}
    if len(names) > 1:
        raise ValueError("cannot average checkpoints: their parameter names differ")
    return {
        name: torch.stack([state[name] for state in weights]).mean(dim=0)
        if value.is_floating_point()
        else value
        for name, value in weights[-1].items()
    }


def assemble(content: dict[str, str], tensors: dict[str, Tensor]) -> Checkpoint:
    """Build a checkpoint from the metadata and tensors of a file; raises `ValueError` if they are
    inconsistent."""
    model_class, config_class = MODELS[content["model"]]
    model = model_class(config_class.from_dict(json.loads(content["config"])))
    weights = {
        name.removeprefix("model."): value.float() if value.is_floating_point() else value
        for name, value in tensors.items()
        if name.startswith("model.")
    }
    expected = {name: value.shape for name, value in stored_tensors(model).items()}
    found = {name: value.shape for name, value in weights.items()}
    if expected != found:
        differing = sorted({name for name, _ in expected.items() ^ found.items()})
        raise ValueError(f"these tensors do not match the configuration: {differing[:5]}")
    model.load_state_dict(weights, strict=False)  # tied parameters are stored once
    src_tokenizer = _read_tokenizer(content["src_tokenizer"])
    joint = content["tgt_tokenizer"] == ""
    tgt_tokenizer = src_tokenizer if joint else _read_tokenizer(content["tgt_tokenizer"])
    sizes = tuple(None if given is None else len(given) for given in (src_tokenizer, tgt_tokenizer))
    if sizes != model.config.vocab_sizes:
        raise ValueError(
            f"the tokenizers have {sizes} tokens, but the model needs {model.config.vocab_sizes}"
        )
    provenance = json.loads(content["provenance"])
    return Checkpoint(model.eval(), src_tokenizer, tgt_tokenizer, provenance)


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors to store: parameters, and buffers that cannot be recomputed."""
    tensors = model.state_dict()  # contains exactly those buffers
    # Not the names of state_dict: it lists a tied parameter twice, which safetensors rejects.
    names = [name for name, _ in [*model.named_parameters(), *model.named_buffers()]]
    return {name: tensors[name] for name in names if name in tensors}


def _tokenizer_text(tokenizer: Tokenizer | None) -> str:
    return "null" if tokenizer is None else tokenizer.to_json()


def _read_tokenizer(text: str) -> Tokenizer | None:
    return None if text == "null" else load_tokenizer(text)


def read(path: Path | str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the metadata and the tensors of a checkpoint file."""
    if not Path(path).is_file():
        raise CheckpointError(f"no checkpoint found at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            content = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: {error}") from None
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {content.get('format')!r}, but expected {FORMAT!r}: "
            "was it written by another program or version?"
        )
    missing = [name for name in FIELDS if name not in content]
    if missing:
        raise CheckpointError(f"{path} is damaged: its metadata lacks {missing}")
    return content, tensors


def pretrained_names() -> list[str]:
    """Return the names that `load_pretrained` knows."""
    return pretrained_files.names("")


def load_pretrained(name: str, device: torch.device | str = "cpu") -> Checkpoint:
    """Load a pretrained model of the package; the error for an unknown name lists the names."""
    if name not in pretrained_names():
        refuse_unknown(name)
    return load(pretrained_files.find(f"{name}.safetensors"), device)


def refuse_unknown(name: str) -> NoReturn:
    """Raise the `CheckpointError` for the name of a model that does not exist."""
    known = pretrained_names()
    close = difflib.get_close_matches(name, known, 1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    raise CheckpointError(
        f"no pretrained model is called {name!r}{meant}: choose one of {', '.join(known)}"
    )
