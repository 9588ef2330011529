"""Checkpoints: a model, its tokenizers and where they come from, in one file.

The file is in the safetensors format: tensors, and JSON text beside them. Reading one
runs no code. The shipped ones stand in the package, so `load_pretrained` needs no network.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from attentively.files import replacing
from attentively.protocol import EncoderDecoder
from attentively.seq2seq import Seq2Seq, Seq2SeqConfig
from attentively.vocabulary import Tokenizer, load_tokenizer

MODELS = {"Seq2Seq": (Seq2Seq, Seq2SeqConfig)}
FORMAT = "attentively checkpoint 1"
FIELDS = ("format", "model", "config", "src_tokenizer", "tgt_tokenizer", "provenance")
_PRETRAINED = Path(__file__).parent / "pretrained"


@dataclass
class Checkpoint:
    """A model ready for use, with all that is needed to feed it text."""

    model: EncoderDecoder
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    provenance: dict[str, Any] = field(default_factory=dict)
    """Command, seed, data, device, time and scores."""


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, or of another kind."""


def save(
    checkpoint: Checkpoint,
    path: Path | str,
    half_precision: bool = False,
    extra: dict[str, Tensor] | None = None,
) -> None:
    """Write `checkpoint` to `path`, whole or not at all.

    With `half_precision` the numbers are stored in 16 bits. `extra` tensors, such as an
    optimizer's, stand beside the model's under their own names. Raises `OSError` where the
    file cannot be written; what stood there before then still does.
    """
    model = checkpoint.model
    dtype = torch.float16 if half_precision else torch.float32
    # named_parameters() lists a tied parameter once; safetensors refuses shared memory.
    tensors = {
        f"model.{name}": value.detach().to("cpu", dtype).contiguous()
        for name, value in model.named_parameters()
    }
    tensors |= {name: value.detach().cpu().contiguous() for name, value in (extra or {}).items()}
    content = {
        "format": FORMAT,
        "model": type(model).__name__,
        "config": json.dumps(model.config.to_dict()),
        "src_tokenizer": checkpoint.src_tokenizer.to_json(),
        "tgt_tokenizer": checkpoint.tgt_tokenizer.to_json(),
        "provenance": json.dumps(checkpoint.provenance, ensure_ascii=False),
    }
    if content["src_tokenizer"] == content["tgt_tokenizer"]:
        content["tgt_tokenizer"] = ""  # one joint tokenizer is written once
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=content)
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from None


def load(path: Path | str, device: torch.device | str = "cpu") -> Checkpoint:
    """Read a checkpoint; the model comes in evaluation mode, in 32 bits.

    Raises `CheckpointError`, which is a `ValueError`, for a file that is missing or damaged.
    """
    content, tensors = read(path)
    if content["model"] not in MODELS:
        raise CheckpointError(
            f"{path} holds a model of kind {content['model']!r}; known are {sorted(MODELS)}"
        )
    try:
        return _assemble(content, tensors, device)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def _assemble(
    content: dict[str, str], tensors: dict[str, Tensor], device: torch.device | str
) -> Checkpoint:
    model_class, config_class = MODELS[content["model"]]
    model = model_class(config_class.from_dict(json.loads(content["config"])))
    weights = {
        name.removeprefix("model."): value.float()
        for name, value in tensors.items()
        if name.startswith("model.")
    }
    expected = {name: value.shape for name, value in model.named_parameters()}
    found = {name: value.shape for name, value in weights.items()}
    if expected != found:
        differing = sorted({name for name, _ in expected.items() ^ found.items()})
        raise ValueError(f"its tensors do not fit its own configuration at {differing[:5]}")
    model.load_state_dict(weights, strict=False)  # tied parameters are stored once
    src_tokenizer = load_tokenizer(content["src_tokenizer"])
    joint = content["tgt_tokenizer"] == ""
    tgt_tokenizer = src_tokenizer if joint else load_tokenizer(content["tgt_tokenizer"])
    sizes = len(src_tokenizer), len(tgt_tokenizer)
    if sizes != (model.config.src_vocab_size, model.config.tgt_vocab_size):
        raise ValueError(f"its tokenizers of {sizes} tokens do not fit {model.config}")
    provenance = json.loads(content["provenance"])
    return Checkpoint(model.to(device).eval(), src_tokenizer, tgt_tokenizer, provenance)


def read(path: Path | str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the texts and the tensors of a checkpoint file, as they are."""
    if not Path(path).is_file():
        raise CheckpointError(f"there is no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            content = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint: {error}") from None
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is of format {content.get('format')!r}, not {FORMAT!r}: "
            "was it written by another program or version?"
        )
    missing = [name for name in FIELDS if name not in content]
    if missing:
        raise CheckpointError(f"{path} is damaged: {missing} is missing")
    return content, tensors


def pretrained_names() -> list[str]:
    """Return the names that `load_pretrained` knows."""
    return sorted(path.stem for path in _PRETRAINED.glob("*.safetensors"))


def load_pretrained(name: str, device: torch.device | str = "cpu") -> Checkpoint:
    """Read a checkpoint that ships with the package; an unknown name lists those there are."""
    if name not in pretrained_names():
        raise CheckpointError(
            f"no pretrained model is called {name!r}; there are {', '.join(pretrained_names())}"
        )
    return load(_PRETRAINED / f"{name}.safetensors", device)
