"""A model that is ready to use: `attentively.load`, also used by the command line.

>>> model = attentively.load("tatoeba-en-fr-transformer")
>>> model.translate("I do not like milk.")
"Je n'aime pas le lait."
"""

import warnings
from os import PathLike
from pathlib import Path
from typing import Self, TypeVar, overload

import torch
from jaxtyping import Float
from torch import Tensor

from attentively import device as devices
from attentively.generation import generate, predict
from attentively.generation.predict import Filled, Judgement
from attentively.generation.search import Beam, Sampling
from attentively.models import checkpoints, pretrained_folder
from attentively.models.checkpoints import Checkpoint
from attentively.tokens.vocabulary import note_unknown_words
from attentively.word_vectors.vectors import pretrained_vector_names

Result = TypeVar("Result")
Texts = list[str] | tuple[str, ...]


class PretrainedModel(Checkpoint):
    """A trained model with its tokenizers, and one method for each task.

    A method accepts one text or a list of texts, and returns one result or a list. Remarks, such as
    unknown words, are warnings. A method for another kind of model raises `ModelKindError`, which
    is a `ValueError`. `attentively.generation.generate` returns scores and attention weights too.
    """

    @classmethod
    def from_pretrained(
        cls, folder: str | PathLike[str], device: torch.device | str | None = None
    ) -> Self:
        """Read a model from a folder that `save_pretrained` wrote.

        The device is by default `attentively.device.best()`. Raises `CheckpointError`, which is a
        `ValueError`, for a folder that is incomplete or damaged.
        """
        return cls._of(pretrained_folder.load_folder(Path(folder), devices.find(device)))

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write config.json, model.safetensors and tokenizer.json into `folder`.

        A model with two tokenizers also has a target_tokenizer.json. An error leaves an earlier
        model in the folder unchanged. Raises `OSError` if a file cannot be written.
        """
        pretrained_folder.save_folder(self, Path(folder))

    @overload
    def translate(
        self, text: str, beam_size: int = ..., length_penalty: float = ..., batch_size: int = ...
    ) -> str: ...
    @overload
    def translate(
        self,
        text: Texts,
        beam_size: int = ...,
        length_penalty: float = ...,
        batch_size: int = ...,
    ) -> list[str]: ...
    def translate(
        self,
        text: str | Texts,
        beam_size: int = 5,
        length_penalty: float = 1.0,
        batch_size: int = 64,
    ) -> str | list[str]:
        """Translate by beam search; a beam of size 1 is greedy search."""
        found = generate.translate(
            self,
            _several(text),
            beam_size,
            length_penalty,
            need_weights=False,
            batch_size=batch_size,
        )
        _warn([one.note for one in found])
        return _one_or_all(text, [one.text for one in found])

    @overload
    def generate(
        self,
        prompt: str = ...,
        max_len: int = ...,
        temperature: float = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        seed: int = ...,
        beam_size: int | None = ...,
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: Texts,
        max_len: int = ...,
        temperature: float = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        seed: int = ...,
        beam_size: int | None = ...,
    ) -> list[str]: ...
    def generate(
        self,
        prompt: str | Texts = "",
        max_len: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        beam_size: int | None = None,
    ) -> str | list[str]:
        """Continue a text with a language model, by sampling or, with `beam_size`, by beam search.

        The result contains the prompt. `max_len` is the maximum number of generated tokens.
        """
        if beam_size is not None and (temperature, top_k, top_p, seed) != (1.0, None, None, 0):
            raise ValueError(
                f"beam_size={beam_size} replaces sampling: it excludes temperature, top_k, top_p "
                "and seed"
            )
        how: Beam | Sampling = Sampling.seeded(seed, temperature, top_k, top_p)
        if beam_size is not None:
            how = Beam(beam_size)
        prompts = _several(prompt)
        found = [best.text for best, *_ in generate.continue_text(self, prompts, max_len, how)]
        if self.tgt_tokenizer is not None:  # a text that stops at `max_len` is no surprise
            _warn([note_unknown_words(self.tgt_tokenizer, one) for one in prompts])
        return _one_or_all(prompt, found)

    @overload
    def classify(self, text: str) -> Judgement: ...
    @overload
    def classify(self, text: Texts) -> list[Judgement]: ...
    def classify(self, text: str | Texts) -> Judgement | list[Judgement]:
        """Predict the label of a text, with the probability of every label."""
        return _one_or_all(text, predict.classify(self, _several(text)))

    @overload
    def fill(self, text: str, guesses: int = ...) -> Filled: ...
    @overload
    def fill(self, text: Texts, guesses: int = ...) -> list[Filled]: ...
    def fill(self, text: str | Texts, guesses: int = 5) -> Filled | list[Filled]:
        """Predict the masked words of a text, written ``___``, with a masked language model."""
        return _one_or_all(text, [predict.fill(self, one, guesses) for one in _several(text)])

    def caption(
        self, images: Float[Tensor, "batch 1 height width"], beam_size: int = 5
    ) -> list[str]:
        """Describe each image by beam search."""
        found = generate.caption(self, images, beam_size, need_weights=False)
        _warn([one.note for one in found])
        return [one.text for one in found]

    @classmethod
    def _of(cls, checkpoint: Checkpoint) -> Self:
        return cls(
            checkpoint.model,
            checkpoint.src_tokenizer,
            checkpoint.tgt_tokenizer,
            checkpoint.provenance,
        )


def load(model: str | PathLike[str], device: torch.device | str | None = None) -> PretrainedModel:
    """Load a pretrained model by its name, or a model of your own by its path.

    A path is a checkpoint file, the folder of a training run (its best checkpoint is loaded), or a
    folder that `PretrainedModel.save_pretrained` wrote. The device is by default
    `attentively.device.best()`. Raises `ValueError` for an unknown name and for a damaged file.
    """
    where, path = devices.find(device), Path(model)
    if str(model) in checkpoints.pretrained_names():
        return PretrainedModel._of(checkpoints.load_pretrained(str(model), where))
    if (path / pretrained_folder.CONFIG).is_file():
        return PretrainedModel.from_pretrained(path, where)
    path = file(path)
    if path.is_file() or path.suffix == ".safetensors":
        return PretrainedModel._of(checkpoints.load(path, where))
    if str(model) in pretrained_vector_names():
        raise ValueError(
            f"{model} are word vectors, not a model: load them with "
            f"attentively.word_vectors.load_pretrained_vectors({str(model)!r})"
        )
    checkpoints.refuse_unknown(str(model))


def file(path: Path) -> Path:
    """Return the checkpoint at `path`; in the folder of a run, that is the best one."""
    return path / "best.safetensors" if path.is_dir() else path


def _several(text: str | Texts) -> Texts:
    return [text] if isinstance(text, str) else text


def _one_or_all(text: str | Texts, results: list[Result]) -> Result | list[Result]:
    """Return one result for one text, and a list for a list."""
    return results[0] if isinstance(text, str) else results


def _warn(notes: list[str]) -> None:
    for note in dict.fromkeys(filter(None, notes)):
        warnings.warn(note, stacklevel=3)  # at the line of the user's own program
