"""Evaluate a model on a held-out split with every metric that fits its task."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from attentively.atomic_files import replacing
from attentively.data import digits
from attentively.data.batches import (
    Example,
    collate,
    encode_lines,
    encode_pairs,
    encode_running_text,
    encode_scenes,
    in_order,
    pad,
)
from attentively.data.digits import DigitScene
from attentively.data.pairs import Pair, translations_by_source
from attentively.data.sentiment import Labelled
from attentively.generation.generate import caption, translate
from attentively.generation.predict import classify
from attentively.generation.search import LengthPenalty
from attentively.models.checkpoints import Checkpoint
from attentively.models.encoder_heads import MaskedLanguageModel
from attentively.models.interface import EncoderDecoder, ModelKindError, evaluating
from attentively.models.language_model import LanguageModel
from attentively.scoring.metrics import chrf, corpus_bleu, exact_match, perplexity
from attentively.tokens.vocabulary import END_ID, PAD_ID, CharacterTokenizer
from attentively.training.objectives import take_out
from attentively.training.trainer import validation_loss


class Report(ABC):
    """The scores of a model and its outputs."""

    @abstractmethod
    def scores(self) -> dict[str, Any]:
        """Return the scores, without the outputs."""

    @abstractmethod
    def rows(self) -> Iterable[Sequence[str]]:
        """Return the outputs, one row per example."""

    def summary(self) -> str:
        """Return the scores, one per line."""
        scores = self.scores()
        width = max(map(len, scores))
        return "\n".join(f"{name:{width}} {value}" for name, value in scores.items())

    def write(self, path: Path | str) -> None:
        """Write the outputs as tab-separated lines; raises `ValueError` if there are none."""
        lines = ["\t".join(row) + "\n" for row in self.rows()]
        if not lines:
            raise ValueError(f"the model has no outputs to write to {path}")
        with replacing(path) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")


@dataclass(frozen=True)
class Evaluation(Report):
    """The scores of a model's translations, and the translations."""

    sentences: int
    """Number of distinct source sentences."""
    bleu: float
    """BLEU of this package, 0 to 100, with all references of a sentence."""
    sacrebleu: float
    """BLEU of sacreBLEU, with `signature`."""
    signature: str
    chrf: float
    """chrF of this package, 0 to 100, with the best-scoring reference of a sentence."""
    sacrebleu_chrf: float
    """chrF of sacreBLEU, with `chrf_signature`."""
    chrf_signature: str
    exact_match: float
    """Fraction of translations that equal a reference."""
    perplexity: float
    """Perplexity of the references per token of the model's vocabulary, with teacher forcing."""
    sources: list[str]
    translations: list[str]
    references: list[list[str]]

    def scores(self) -> dict[str, Any]:
        """Return the scores, without the sentences."""
        return {
            "sentences": self.sentences,
            "bleu": round(self.bleu, 2),
            "sacrebleu": round(self.sacrebleu, 2),
            "signature": self.signature,
            "chrf": round(self.chrf, 2),
            "sacrebleu_chrf": round(self.sacrebleu_chrf, 2),
            "chrf_signature": self.chrf_signature,
            "exact_match": round(self.exact_match, 4),
            "perplexity": round(self.perplexity, 3),
        }

    def rows(self) -> Iterable[Sequence[str]]:
        """Return source, translation and references of each sentence."""
        rows = zip(self.sources, self.translations, self.references, strict=True)
        return ([source, text, *references] for source, text, references in rows)


def in_columns(references: Sequence[Sequence[str]]) -> list[Any]:
    """Return the first reference of every sentence, the second, and so on, as sacreBLEU expects.

    A missing reference is None.
    """
    most = max(len(row) for row in references)
    return [[row[i] if i < len(row) else None for row in references] for i in range(most)]


def evaluate(
    checkpoint: Checkpoint,
    pairs: Sequence[Pair],
    beam_size: int = 5,
    length_penalty: float | LengthPenalty = 1.0,
    progress: bool = False,
) -> Evaluation:
    """Translate every distinct source of `pairs` and compare it with all its references.

    Raises `ModelKindError`, which is a `ValueError`, for a model that cannot translate text, and
    `ValueError` if `pairs` is empty.
    """
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    if not pairs:
        raise ValueError("there are no sentence pairs to evaluate on")
    references = translations_by_source(pairs)
    sources = list(references)
    texts = []
    for first in tqdm(range(0, len(sources), 64), unit="batch", disable=not progress):
        found = translate(
            checkpoint, sources[first : first + 64], beam_size, length_penalty, need_weights=False
        )
        texts += [translation.text for translation in found]
    given = list(references.values())
    columns = in_columns(given)
    bleu, characters = sacrebleu.BLEU(), sacrebleu.CHRF()
    examples = encode_pairs(pairs, src_tokenizer, tgt_tokenizer)
    return Evaluation(
        sentences=len(sources),
        bleu=corpus_bleu(texts, given).score,
        sacrebleu=bleu.corpus_score(texts, columns).score,
        signature=str(bleu.get_signature()),
        chrf=chrf(texts, given),
        sacrebleu_chrf=characters.corpus_score(texts, columns).score,
        chrf_signature=str(characters.get_signature()),
        exact_match=sum(text in row for text, row in zip(texts, given, strict=True)) / len(texts),
        perplexity=perplexity(validation_loss(model, examples)),
        sources=sources,
        translations=texts,
        references=given,
    )


def teacher_forced_weights(
    model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256
) -> list[Float[Tensor, "_tgt_len _src_len"]]:
    """Return the attention weights of each example with teacher forcing.

    There is one row per predicted token and one column per source token, end tokens included.
    Raises `ValueError` for a model without attention.
    """
    where = next(model.parameters()).device
    found: list[Tensor] = []
    with evaluating(model):
        for indices in in_order(len(examples), batch_size):
            src, tgt = collate([examples[index] for index in indices]).to(where)
            weights = model.decode(tgt[:, :-1], model.encode(src), need_weights=True).weights
            if weights is None:
                raise ValueError(
                    f"this {type(model).__name__} has no attention, so there are no weights"
                )
            found += weights.cpu().unbind()
    return [
        matrix[: len(example.tgt) - 1, : len(example.src)]
        for matrix, example in zip(found, examples, strict=True)
    ]


@dataclass(frozen=True)
class LanguageModelEvaluation(Report):
    """The scores of a language model on a text."""

    tokens: int
    """Number of predicted tokens; in line-by-line evaluation, line ends count as tokens."""
    characters: int
    loss: float
    """Cross-entropy, in nats per token."""

    def scores(self) -> dict[str, Any]:
        """Return the scores."""
        per_character = self.loss * self.tokens / self.characters
        return {
            "tokens": self.tokens,
            "characters": self.characters,
            "loss": round(self.loss, 4),
            "perplexity": round(perplexity(self.loss), 3),
            "perplexity_per_character": round(perplexity(per_character), 3),
            "bits_per_character": round(per_character / math.log(2), 4),
        }

    def rows(self) -> Iterable[Sequence[str]]:
        """Return nothing: there are no outputs."""
        return []


def evaluate_language_model(
    checkpoint: Checkpoint, text: str, piece_length: int = 128, progress: bool = False
) -> LanguageModelEvaluation:
    """Compute the cross-entropy of a language model on a text.

    With a character tokenizer, the text is read in chunks that overlap by half, so that each token
    except the first few is predicted once, from at least half a chunk of context; otherwise it is
    read line by line. Raises `ValueError` for an empty text.
    """
    model, tokenizer = checkpoint.model, checkpoint.tgt_tokenizer
    if not isinstance(model, LanguageModel) or tokenizer is None:
        raise ModelKindError(model, "predict the next token of a text")
    if isinstance(tokenizer, CharacterTokenizer):
        rows = encode_running_text(text, tokenizer, piece_length)
        new = [0] + [piece_length // 2] * (len(rows) - 1)
        characters = len(text)
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        rows = encode_lines(lines, tokenizer)
        new = [0] * len(rows)
        characters = sum(len(line) + 1 for line in lines)
    if not characters:
        raise ValueError("the text to evaluate on is empty")
    where = next(model.parameters()).device
    total, tokens = 0.0, 0
    for indices in tqdm(in_order(len(rows), 64), unit="batch", disable=not progress):
        ids = pad([rows[index] for index in indices]).to(where)
        targets = ids[:, 1:]
        with evaluating(model):
            found = model(ids[:, :-1]).float().log_softmax(dim=-1)
        losses = -found.gather(2, targets.unsqueeze(2)).squeeze(2)
        first = torch.tensor([new[index] for index in indices], device=where)
        positions = torch.arange(targets.shape[1], device=where)
        scored = (targets != PAD_ID) & (positions >= first.unsqueeze(1))
        total += losses[scored].cpu().double().sum().item()
        tokens += int(scored.sum())
    return LanguageModelEvaluation(tokens, characters, total / tokens)


@dataclass(frozen=True)
class ClassifierEvaluation(Report):
    """The predictions of a classifier and the true labels."""

    labels: Sequence[str]
    texts: list[str]
    true: list[str]
    said: list[str]

    @property
    def accuracy(self) -> float:
        """Fraction of texts with the correct label."""
        return sum(map(str.__eq__, self.true, self.said)) / len(self.true)

    @property
    def confusion(self) -> dict[str, dict[str, int]]:
        """Number of texts by true label, then by predicted label."""
        pairs = Counter(zip(self.true, self.said, strict=True))
        return {true: {said: pairs[true, said] for said in self.labels} for true in self.labels}

    def scores(self) -> dict[str, Any]:
        """Return the scores."""
        return {
            "texts": len(self.texts),
            "accuracy": round(self.accuracy, 4),
            "confusion": self.confusion,
        }

    def summary(self) -> str:
        """Return the scores, and the confusion matrix with one row per true label."""
        width = max(len("true"), *map(len, self.labels))
        lines = [
            f"texts    {len(self.texts)}",
            f"accuracy {self.accuracy:.4f}",
            "  ".join(
                [
                    f"{'true':{width}}",
                    *(f"{f'predicted {one}':>{width + 10}}" for one in self.labels),
                ]
            ),
        ]
        for true, row in self.confusion.items():
            lines.append(
                "  ".join([f"{true:{width}}", *(f"{n:{width + 10}}" for n in row.values())])
            )
        return "\n".join(lines)

    def rows(self) -> Iterable[Sequence[str]]:
        """Return text, predicted label and true label."""
        return zip(self.texts, self.said, self.true, strict=True)


def evaluate_classifier(
    checkpoint: Checkpoint, items: Sequence[Labelled], progress: bool = False
) -> ClassifierEvaluation:
    """Compare the predicted label of each sentence with the true one.

    Raises `ValueError` if there is no sentence, and for labels that the model does not have.
    """
    if not items:
        raise ValueError("there are no labelled sentences to evaluate on")
    texts, true = [item.text for item in items], [item.label for item in items]
    labels = getattr(checkpoint.model.config, "labels", true)  # `classify` rejects other models
    strange = sorted(set(true) - set(labels))
    if strange:
        raise ValueError(
            f"the data has labels that the model cannot predict: "
            f"{', '.join(map(repr, strange[:5]))}; the model's labels are "
            f"{', '.join(map(repr, labels))}"
        )
    said = []
    for indices in tqdm(in_order(len(items), 64), unit="batch", disable=not progress):
        judgements = classify(checkpoint, [items[index].text for index in indices])
        said += [judgement.label for judgement in judgements]
    return ClassifierEvaluation(tuple(labels), texts, true, said)


@dataclass(frozen=True)
class MaskedEvaluation(Report):
    """The scores of a masked language model."""

    texts: int
    masked: int
    """Number of chosen tokens: 15 % of the ordinary ones, the same in each evaluation."""
    accuracy: float
    """Fraction of them that were predicted correctly."""
    loss: float
    """Cross-entropy, in nats per chosen token."""

    def scores(self) -> dict[str, Any]:
        """Return the scores."""
        return {
            "texts": self.texts,
            "masked_tokens": self.masked,
            "masked_accuracy": round(self.accuracy, 4),
            "loss": round(self.loss, 4),
            "perplexity": round(perplexity(self.loss), 3),
        }

    def rows(self) -> Iterable[Sequence[str]]:
        """Return nothing: there are no outputs."""
        return []


def evaluate_masked_language_model(
    checkpoint: Checkpoint, texts: Sequence[str], progress: bool = False
) -> MaskedEvaluation:
    """Mask tokens of each text, as in training, and score the model's predictions of them."""
    model, tokenizer = checkpoint.model, checkpoint.src_tokenizer
    if not isinstance(model, MaskedLanguageModel) or tokenizer is None:
        raise ModelKindError(model, "fill gaps")
    rows = [ids for text in texts if max(ids := tokenizer.encode(text)) > END_ID]
    if not rows:
        raise ValueError("there is no text with a known token to evaluate on")
    where = next(model.parameters()).device
    generator = torch.Generator().manual_seed(0)
    total, right, masked = 0.0, 0, 0
    for indices in tqdm(in_order(len(rows), 64), unit="batch", disable=not progress):
        taken = take_out(pad([rows[index] for index in indices]), model.mask_id, generator)
        src, targets = (part.to(where) for part in taken)
        with evaluating(model):
            found = model(src).float().log_softmax(dim=-1)
        chosen = targets != PAD_ID
        truth = found.gather(2, targets.unsqueeze(2)).squeeze(2)[chosen]
        total -= truth.cpu().double().sum().item()
        right += int((found.argmax(dim=-1) == targets)[chosen].sum())
        masked += int(chosen.sum())
    return MaskedEvaluation(len(rows), masked, right / masked, total / masked)


@dataclass(frozen=True)
class CaptionEvaluation(Report):
    """The scores of a model's captions, and the captions."""

    scenes: int
    faithful: float
    """Fraction of captions that are well-formed and true of their scene."""
    exact_match: float
    """Fraction of captions that equal the reference, one of several true captions."""
    perplexity: float
    """Perplexity of the reference captions, per word."""
    captions: list[str]
    references: list[str]

    def scores(self) -> dict[str, Any]:
        """Return the scores."""
        return {
            "scenes": self.scenes,
            "faithful": round(self.faithful, 4),
            "exact_match": round(self.exact_match, 4),
            "perplexity": round(self.perplexity, 3),
        }

    def rows(self) -> Iterable[Sequence[str]]:
        """Return caption and reference of each scene."""
        return zip(self.captions, self.references, strict=True)


def evaluate_captioner(
    checkpoint: Checkpoint,
    scenes: Sequence[DigitScene],
    beam_size: int = 5,
    length_penalty: float | LengthPenalty = 1.0,
    progress: bool = False,
) -> CaptionEvaluation:
    """Caption every scene, and check whether the caption is true."""
    if not scenes:
        raise ValueError("there are no scenes to evaluate on")
    said = []
    for indices in tqdm(in_order(len(scenes), 64), unit="batch", disable=not progress):
        images = torch.stack([scenes[index].image for index in indices])
        found = caption(checkpoint, images, beam_size, length_penalty, need_weights=False)
        said += [one.text for one in found]
    tokenizer = checkpoint.tgt_tokenizer
    assert tokenizer is not None  # `caption` rejects a model without one
    references = [" ".join(scene.caption) for scene in scenes]
    true = [
        digits.is_faithful(scene, text.split()) for scene, text in zip(scenes, said, strict=True)
    ]
    return CaptionEvaluation(
        scenes=len(scenes),
        faithful=sum(true) / len(scenes),
        exact_match=exact_match(said, references),
        perplexity=perplexity(validation_loss(checkpoint.model, encode_scenes(scenes, tokenizer))),
        captions=said,
        references=references,
    )
