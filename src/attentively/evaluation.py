"""Translate a held-out split and score it in every way at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu
from tqdm.auto import tqdm

from attentively.checkpoints import Checkpoint
from attentively.data.batches import encode_pairs
from attentively.data.pairs import Pair
from attentively.decoding import LengthPenalty, translate
from attentively.files import replacing
from attentively.metrics import chrf, corpus_bleu, perplexity
from attentively.training import validation_loss


@dataclass(frozen=True)
class Evaluation:
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

    def summary(self) -> str:
        """Return the numbers, a line each."""
        return "\n".join(f"{name:14} {value}" for name, value in self.scores().items())

    def write(self, path: Path | str) -> None:
        """Write source, translation and references, tab-separated, a sentence a line."""
        rows = zip(self.sources, self.translations, self.references, strict=True)
        lines = ["\t".join([source, text, *references]) + "\n" for source, text, references in rows]
        with replacing(path) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")


def evaluate(
    checkpoint: Checkpoint,
    pairs: Sequence[Pair],
    beam_size: int = 5,
    length_penalty: float | LengthPenalty = 1.0,
    progress: bool = False,
) -> Evaluation:
    """Translate every distinct source of `pairs` and compare with all its references.

    Raises `CheckpointError`, which is a `ValueError`, for a model that does not translate text,
    and `ValueError` where there is no pair.
    """
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    if not pairs:
        raise ValueError("there is no sentence pair to evaluate with")
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.src, []).append(pair.tgt)
    sources = list(references)
    texts = []
    for first in tqdm(range(0, len(sources), 64), unit="batch", disable=not progress):
        found = translate(
            checkpoint, sources[first : first + 64], beam_size, length_penalty, need_weights=False
        )
        texts += [translation.text for translation in found]
    given = list(references.values())
    most = max(len(alternatives) for alternatives in given)
    # sacreBLEU wants a list for the first references, one for the second, …; None fills up.
    columns: list[Any] = [[row[i] if i < len(row) else None for row in given] for i in range(most)]
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
