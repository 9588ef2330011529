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
from attentively.attention.masks import padding_mask
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
    """Scores of a model, and what it wrote or said."""

    @abstractmethod
    def scores(self) -> dict[str, Any]:
        """Return the numbers, without the texts."""

    @abstractmethod
    def rows(self) -> Iterable[Sequence[str]]:
        """Return the texts, those that belong together in a row."""

    def summary(self) -> str:
        """Return the numbers, a line each."""
        scores = self.scores()
        width = max(map(len, scores))
        return "\n".join(f"{name:{width}} {value}" for name, value in scores.items())

    def write(self, path: Path | str) -> None:
        """Write the texts, tab-separated, a row a line; raises `ValueError` if there are none."""
        lines = ["\t".join(row) + "\n" for row in self.rows()]
        if not lines:
            raise ValueError(f"the model said nothing that {path} could hold")
        with replacing(path) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")


@dataclass(frozen=True)
class Evaluation(Report):
    """Scores of a model's translations, and the translations themselves."""

    sentences: int
    """Distinct source sentences."""
    bleu: float
    """Ours, 0 to 100, against all references of a sentence."""
    sacrebleu: float
    """The same by sacreBLEU, with `signature`."""
    signature: str
    chrf: float
    """Ours, 0 to 100; of a sentence's references the nearest counts."""
    sacrebleu_chrf: float
    """The same by sacreBLEU, with `chrf_signature`."""
    chrf_signature: str
    exact_match: float
    """Share of translations that equal a reference."""
    perplexity: float
    """Of the references, per token of this model's own vocabulary, with teacher forcing."""
    sources: list[str]
    translations: list[str]
    references: list[list[str]]

    def scores(self) -> dict[str, Any]:
        """Return the numbers, without the sentences."""
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
        """Return source, translation and references."""
        rows = zip(self.sources, self.translations, self.references, strict=True)
        return ([source, text, *references] for source, text, references in rows)


def in_columns(references: Sequence[Sequence[str]]) -> list[Any]:
    """Return the first reference of every sentence, the second, and so on, as sacreBLEU asks.

    None stands where a sentence has no more.
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
    """Translate every distinct source of `pairs` and compare with all its references.

    Raises `ModelKindError`, which is a `ValueError`, for a model that does not translate text,
    and `ValueError` where there is no pair.
    """
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    if not pairs:
        raise ValueError("there is no sentence pair to evaluate with")
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
    """Return, for each example, where the model looks as it predicts each token after the first.

    The two end tokens have a row and a column too. Raises `ValueError` for a model that does
    not attend.
    """
    where = next(model.parameters()).device
    found: list[Tensor] = []
    with evaluating(model):
        for indices in in_order(len(examples), batch_size):
            src, tgt = collate([examples[index] for index in indices]).to(where)
            weights = model.decode(tgt[:, :-1], model.encode(src), need_weights=True).weights
            if weights is None:
                raise ValueError(f"this {type(model).__name__} does not attend: it has no weights")
            found += weights.cpu().unbind()
    return [
        matrix[: len(example.tgt) - 1, : len(example.src)]
        for matrix, example in zip(found, examples, strict=True)
    ]


@dataclass(frozen=True)
class LanguageModelEvaluation(Report):
    """How well a language model foresees a text."""

    tokens: int
    """Predicted tokens: each of the text once and, where it is read line by line, line ends."""
    characters: int
    loss: float
    """Surprise at a token, in nats."""

    def scores(self) -> dict[str, Any]:
        """Return the numbers."""
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
        """It writes nothing."""
        return []


def evaluate_language_model(
    checkpoint: Checkpoint, text: str, piece_length: int = 128, progress: bool = False
) -> LanguageModelEvaluation:
    """Let a language model read a text, and see how likely it holds each token to be.

    By characters the text is read in pieces that half overlap, so that each token but the
    first few is judged once and after at least half a piece; otherwise line by line. Raises
    `ValueError` where there is no text.
    """
    model, tokenizer = checkpoint.model, checkpoint.tgt_tokenizer
    if not isinstance(model, LanguageModel) or tokenizer is None:
        raise ModelKindError(model, "foresee a text")
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
        raise ValueError("there is no text to evaluate with")
    where = next(model.parameters()).device
    total, tokens = 0.0, 0
    for indices in tqdm(in_order(len(rows), 64), unit="batch", disable=not progress):
        ids = pad([rows[index] for index in indices]).to(where)
        targets = ids[:, 1:]
        with evaluating(model):
            found = model(ids[:, :-1]).logits.float().log_softmax(dim=-1)
        surprise = -found.gather(2, targets.unsqueeze(2)).squeeze(2)
        first = torch.tensor([new[index] for index in indices], device=where)
        places = torch.arange(targets.shape[1], device=where)
        judged = (targets != PAD_ID) & (places >= first.unsqueeze(1))
        total += surprise[judged].double().sum().item()
        tokens += int(judged.sum())
    return LanguageModelEvaluation(tokens, characters, total / tokens)


@dataclass(frozen=True)
class ClassifierEvaluation(Report):
    """Which labels a classifier gives, and which are right."""

    labels: Sequence[str]
    texts: list[str]
    true: list[str]
    said: list[str]

    @property
    def accuracy(self) -> float:
        """Share of texts with the right label."""
        return sum(map(str.__eq__, self.true, self.said)) / len(self.true)

    @property
    def confusion(self) -> dict[str, dict[str, int]]:
        """How often which label, the first, was taken for which."""
        pairs = Counter(zip(self.true, self.said, strict=True))
        return {true: {said: pairs[true, said] for said in self.labels} for true in self.labels}

    def scores(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "texts": len(self.texts),
            "accuracy": round(self.accuracy, 4),
            "confusion": self.confusion,
        }

    def summary(self) -> str:
        """Return the numbers, and the confusion as a table: a row for each true label."""
        width = max(len("true"), *map(len, self.labels))
        lines = [
            f"texts    {len(self.texts)}",
            f"accuracy {self.accuracy:.4f}",
            "  ".join(
                [f"{'true':{width}}", *(f"{f'said {one}':>{width + 5}}" for one in self.labels)]
            ),
        ]
        for true, row in self.confusion.items():
            lines.append(
                "  ".join([f"{true:{width}}", *(f"{n:{width + 5}}" for n in row.values())])
            )
        return "\n".join(lines)

    def rows(self) -> Iterable[Sequence[str]]:
        """Return text, the label that was said, and the true one."""
        return zip(self.texts, self.said, self.true, strict=True)


def evaluate_classifier(
    checkpoint: Checkpoint, items: Sequence[Labelled], progress: bool = False
) -> ClassifierEvaluation:
    """Compare what a classifier says of each sentence with its label.

    Raises `ValueError` where there is no sentence, and for labels that the model cannot say.
    """
    if not items:
        raise ValueError("there is no labelled sentence to evaluate with")
    texts, true = [item.text for item in items], [item.label for item in items]
    labels = getattr(checkpoint.model.config, "labels", true)  # `classify` refuses other models
    strange = sorted(set(true) - set(labels))
    if strange:
        raise ValueError(
            f"the model cannot say the labels {', '.join(map(repr, strange[:5]))}: "
            f"it knows {', '.join(map(repr, labels))}"
        )
    said = []
    for indices in tqdm(in_order(len(items), 64), unit="batch", disable=not progress):
        judgements = classify(checkpoint, [items[index].text for index in indices])
        said += [judgement.label for judgement in judgements]
    return ClassifierEvaluation(tuple(labels), texts, true, said)


@dataclass(frozen=True)
class MaskedEvaluation(Report):
    """How well a masked language model tells what was taken out."""

    texts: int
    masked: int
    """Tokens that were chosen: 15 % of the ordinary ones, the same at each evaluation."""
    accuracy: float
    """Share of them that were said."""
    loss: float
    """Surprise at one, in nats."""

    def scores(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "texts": self.texts,
            "masked_tokens": self.masked,
            "masked_accuracy": round(self.accuracy, 4),
            "loss": round(self.loss, 4),
            "perplexity": round(perplexity(self.loss), 3),
        }

    def rows(self) -> Iterable[Sequence[str]]:
        """It writes nothing."""
        return []


def evaluate_masked_language_model(
    checkpoint: Checkpoint, texts: Sequence[str], progress: bool = False
) -> MaskedEvaluation:
    """Take tokens out of each text, as in training, and see whether the model knows them."""
    model, tokenizer = checkpoint.model, checkpoint.src_tokenizer
    if not isinstance(model, MaskedLanguageModel) or tokenizer is None:
        raise ModelKindError(model, "fill gaps")
    rows = [ids for text in texts if max(ids := tokenizer.encode(text)) > END_ID]
    if not rows:
        raise ValueError("there is no text with a known token to evaluate with")
    where = next(model.parameters()).device
    generator = torch.Generator().manual_seed(0)
    total, right, masked = 0.0, 0, 0
    for indices in tqdm(in_order(len(rows), 64), unit="batch", disable=not progress):
        taken = take_out(pad([rows[index] for index in indices]), model.mask_id, generator)
        src, targets = (part.to(where) for part in taken)
        with evaluating(model):
            found = model(src, padding_mask(src, PAD_ID)).float().log_softmax(dim=-1)
        chosen = targets != PAD_ID
        total -= found.gather(2, targets.unsqueeze(2)).squeeze(2)[chosen].double().sum().item()
        right += int((found.argmax(dim=-1) == targets)[chosen].sum())
        masked += int(chosen.sum())
    return MaskedEvaluation(len(rows), masked, right / masked, total / masked)


@dataclass(frozen=True)
class CaptionEvaluation(Report):
    """How true a model's captions are."""

    scenes: int
    faithful: float
    """Share of captions that are well-formed and true of their scene."""
    exact_match: float
    """Share that is the very caption of the scene, one true thing among several."""
    perplexity: float
    """Of the scenes' own captions, per word."""
    captions: list[str]
    references: list[str]

    def scores(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "scenes": self.scenes,
            "faithful": round(self.faithful, 4),
            "exact_match": round(self.exact_match, 4),
            "perplexity": round(self.perplexity, 3),
        }

    def rows(self) -> Iterable[Sequence[str]]:
        """Return caption and reference."""
        return zip(self.captions, self.references, strict=True)


def evaluate_captioner(
    checkpoint: Checkpoint,
    scenes: Sequence[DigitScene],
    beam_size: int = 5,
    length_penalty: float | LengthPenalty = 1.0,
    progress: bool = False,
) -> CaptionEvaluation:
    """Describe every scene, and see whether that is true."""
    if not scenes:
        raise ValueError("there is no scene to evaluate with")
    said = []
    for indices in tqdm(in_order(len(scenes), 64), unit="batch", disable=not progress):
        images = torch.stack([scenes[index].image for index in indices])
        found = caption(checkpoint, images, beam_size, length_penalty, need_weights=False)
        said += [one.text for one in found]
    tokenizer = checkpoint.tgt_tokenizer
    assert tokenizer is not None  # `caption` has refused a model that writes no text
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
