"""A model as a folder in the common layout: configuration, parameters and tokenizer.

- ``config.json``: class, hyperparameters, provenance, names and checksums of the other files
- ``model.safetensors``, which `safetensors` reads: parameters under their names in the model
- ``tokenizer.json``, which `tokenizers` reads: the tokenizer; that of the source if there are two
- ``target_tokenizer.json``: the tokenizer of the target if there are two
"""

import hashlib
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from attentively.atomic_files import replacing
from attentively.models.checkpoints import (
    MODELS,
    Checkpoint,
    CheckpointError,
    assemble,
    stored_tensors,
)
from attentively.tokens.library_tokenizers import from_library, to_library

CONFIG, WEIGHTS = "config.json", "model.safetensors"
TOKENIZERS = ("tokenizer.json", "target_tokenizer.json")


def save_folder(checkpoint: Checkpoint, folder: Path | str) -> None:
    """Write `checkpoint` into `folder`, whose other files are kept.

    Every file is complete before the first one replaces an earlier file. An error, such as a full
    disk, therefore leaves an earlier model unchanged. Raises `OSError` if a file cannot be written.
    """
    folder = Path(folder)
    sides = (checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    distinct = list({id(side): side for side in sides if side is not None}.values())
    names = {id(side): name for side, name in zip(distinct, TOKENIZERS, strict=False)}
    contents = {names[id(side)]: to_library(side).to_str(pretty=True).encode() for side in distinct}
    tensors = {
        name: value.detach().cpu().contiguous()
        for name, value in stored_tensors(checkpoint.model).items()
    }
    contents[WEIGHTS] = save(tensors, {"format": "pt"})
    config = {
        "architectures": [type(checkpoint.model).__name__],
        **checkpoint.model.config.to_dict(),
        "tokenizers": [names.get(id(side)) for side in sides],
        "sha256": {name: _sum(content) for name, content in contents.items()},
        "provenance": checkpoint.provenance,
    }
    contents[CONFIG] = json.dumps(config, ensure_ascii=False, indent=2).encode()
    with ExitStack() as stack:
        for name, content in contents.items():
            stack.enter_context(replacing(folder / name)).write_bytes(content)


def load_folder(folder: Path | str, device: torch.device | str = "cpu") -> Checkpoint:
    """Read the folder of a model; the model is returned in evaluation mode.

    Raises `CheckpointError`, which is a `ValueError`, for a file that is missing, damaged or from
    another save.
    """
    folder = Path(folder)
    text = _read(folder, CONFIG)
    try:
        config: dict[str, Any] = json.loads(text)
        [kind] = config.pop("architectures")
        tokenizers, sums = config.pop("tokenizers"), config.pop("sha256")
        provenance = config.pop("provenance")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / CONFIG} was not written by save_pretrained, or is damaged: {error!r}"
        ) from None
    if kind not in MODELS:
        raise CheckpointError(
            f"{folder} contains a model of kind {kind!r}; known kinds are {sorted(MODELS)}"
        )
    contents = {name: _read(folder, name) for name in sums}
    changed = [name for name, sum_ in sums.items() if _sum(contents[name]) != sum_]
    if changed:
        raise CheckpointError(
            f"{folder / changed[0]} is damaged, or belongs to another save than {CONFIG}: its "
            "checksum differs. Save the model again"
        )
    try:
        src, tgt = (
            "null" if name is None else from_library(contents[name].decode()).to_json()
            for name in tokenizers
        )
        content = {
            "model": kind,
            "config": json.dumps(config),
            "src_tokenizer": src,
            "tgt_tokenizer": "" if tokenizers[0] == tokenizers[1] else tgt,
            "provenance": json.dumps(provenance),
        }
        tensors = {f"model.{name}": value for name, value in load(contents[WEIGHTS]).items()}
        checkpoint = assemble(content, tensors)
    except (ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"{folder} is damaged: {error}") from None
    checkpoint.model.to(device)
    return checkpoint


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a complete model: it has no {name}. A model is a folder with "
            f"{CONFIG}, {WEIGHTS} and {TOKENIZERS[0]}, as save_pretrained writes it"
        )
    return path.read_bytes()


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
