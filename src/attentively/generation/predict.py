"""Predict with an encoder's head: the label of a text, or its masked tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from attentively.config import check_at_least_one
from attentively.data.batches import pad
from attentively.models.checkpoints import Checkpoint
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import ModelKindError, evaluating
from attentively.tokens.vocabulary import END_ID, GAP, note_unknown_words


class Judgement(NamedTuple):
    """The prediction of a classifier."""

    label: str
    """The most probable label."""
    probabilities: dict[str, float]
    note: str = ""
    """A remark such as "empty sentence" or "unknown words: …"."""


class Filled(NamedTuple):
    """A text with its gaps filled."""

    text: str
    """The text with the most probable token in every gap."""
    guesses: list[dict[str, float]]
    """For each gap, the most probable tokens with their probabilities."""
    note: str = ""


def classify(checkpoint: Checkpoint, texts: Sequence[str], batch_size: int = 64) -> list[Judgement]:
    """Return a classifier's prediction for each text.

    Raises `ModelKindError`, which is a `ValueError`, for a model that cannot classify.
    """
    model, tokenizer = checkpoint.model, checkpoint.src_tokenizer
    if not isinstance(model, Classifier) or tokenizer is None:
        raise ModelKindError(model, "classify text")
    where = next(model.parameters()).device
    judgements = []
    for first in range(0, len(texts), batch_size):
        some = texts[first : first + batch_size]
        ids = pad([tokenizer.encode(text) for text in some]).to(where)
        with evaluating(model):
            probabilities = model(ids).float().softmax(dim=-1)
        for text, row in zip(some, probabilities.tolist(), strict=True):
            by_label = dict(zip(model.config.labels, row, strict=True))
            judgements.append(
                Judgement(
                    max(by_label, key=lambda label: by_label[label]),
                    by_label,
                    note_unknown_words(tokenizer, text) if text.strip() else "empty sentence",
                )
            )
    return judgements


def fill(checkpoint: Checkpoint, text: str, guesses: int = 5) -> Filled:
    """Predict each gap of `text`, written ``___``, as one token of the vocabulary.

    Raises `ModelKindError`, which is a `ValueError`, for a model that cannot fill gaps, and
    `ValueError` for a text without a gap.
    """
    model, tokenizer = checkpoint.model, checkpoint.src_tokenizer
    if not isinstance(model, MaskedLanguageModel) or tokenizer is None:
        raise ModelKindError(model, "fill gaps")
    check_at_least_one(guesses=guesses)
    parts = text.split(GAP)
    if len(parts) == 1:
        raise ValueError(f"{text!r} has no gap: write {GAP} in place of the word to predict")
    ids = tokenizer.encode(parts[0])[:-1]
    gaps = []
    for part in parts[1:]:
        gaps.append(len(ids))
        ids += [model.mask_id, *tokenizer.encode(part)[:-1]]
    src = torch.tensor([[*ids, END_ID]], device=next(model.parameters()).device)
    with evaluating(model):
        logits = model(src).float()[0, gaps]
    logits[:, : END_ID + 1] = float("-inf")  # special tokens are not words
    best, tokens = logits.softmax(dim=-1).topk(min(guesses, logits.shape[1] - END_ID - 1))
    for gap, row in zip(gaps, tokens.tolist(), strict=True):
        ids[gap] = row[0]
    return Filled(
        tokenizer.decode(ids),
        [
            dict(zip(tokenizer.tokens(row), values, strict=True))
            for row, values in zip(tokens.tolist(), best.tolist(), strict=True)
        ],
        note_unknown_words(tokenizer, " ".join(parts)),
    )
