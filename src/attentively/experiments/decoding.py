"""Decoding: the outputs of wider and wider beams, and their quality.

More probable sentences need not be better: Koehn & Knowles (2017),
https://arxiv.org/abs/1706.03872, section 3.6, observed that quality falls with wide beams;
Stahlberg & Byrne (2019), https://arxiv.org/abs/1908.10090, found that the most probable output is
often empty. Here the pretrained models are decoded with beam sizes from 1 to 100, under four length
penalties.
"""

import math
import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from attentively import device
from attentively.data import tatoeba, toy
from attentively.data.batches import collate, encode_pairs, in_order, pad
from attentively.data.pairs import Pair, translations_by_source
from attentively.experiments.runner import Experiment, Row
from attentively.generation.search import Hypothesis, LengthPenalty, beam_search, gnmt, power
from attentively.models.checkpoints import load_pretrained
from attentively.models.interface import EncoderDecoder, evaluating
from attentively.scoring.metrics import corpus_bleu, tokenize_13a
from attentively.tokens.vocabulary import PAD_ID, Tokenizer

BEAM_SIZES = (1, 2, 3, 5, 10, 30, 100)
PENALTIES: dict[str, LengthPenalty] = {
    "none": power(0.0),
    "gnmt": gnmt(1.0),
    "length": power(1.0),
    "length squared": power(2.0),
}
ROOM = 1e-3
"""Tolerance for equal log-probabilities: batches differ in the last digits."""


class Item(NamedTuple):
    """A source with all its reference translations."""

    src: str
    references: list[str]


def measure(model: str, seed: int, quick: bool, directory: Path, clauses: int | None = None) -> Row:
    """Decode with every beam size and penalty; each seed uses other test sentences.

    With `clauses` the sentences are from the toy language, else from Tatoeba.
    """
    del directory  # a search writes no checkpoints
    checkpoint = load_pretrained(model, device.best())
    translator, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    tokenize = tokenize_13a if clauses is None else str.split
    items = sorted(sentences_of(clauses, seed, quick), key=lambda item: len(item.src))
    beam_sizes = (1, 3) if quick else BEAM_SIZES

    searches: list[Row] = []
    found: list[list[Hypothesis]] = []
    for penalty, divide_by in PENALTIES.items():
        for beam_size in beam_sizes:
            started = time.monotonic()
            best = best_of_beam(
                translator, src_tokenizer, [item.src for item in items], beam_size, divide_by
            )
            seconds = round(time.monotonic() - started, 2)
            texts = [tgt_tokenizer.decode(hypothesis.ids) for hypothesis in best]
            bleu = corpus_bleu(texts, [item.references for item in items], tokenize)
            found.append(best)
            searches.append(
                {
                    "penalty": penalty,
                    "beam_size": beam_size,
                    "search_seconds": seconds,
                    "bleu": round(bleu.score, 2),
                    "length_ratio": round(bleu.hypothesis_length / bleu.reference_length, 4),
                    "empty": _share(not hypothesis.ids for hypothesis in best),
                    "unfinished": _share(not hypothesis.finished for hypothesis in best),
                    "log_probability": _mean([h.log_probability for h in best]),
                }
            )
    likeliest = [max(log_probabilities(column)) for column in zip(*found, strict=True)]
    for search, best in zip(searches, found, strict=True):
        beaten = zip(log_probabilities(best), likeliest, strict=True)
        search["search_errors"] = _share(value < most - ROOM for value, most in beaten)
    return {
        "sentences": len(items),
        "searches": searches,
        **_beside(translator, src_tokenizer, tgt_tokenizer, items, likeliest, max(beam_sizes)),
    }


def sentences_of(clauses: int | None, seed: int, quick: bool) -> list[Item]:
    """Return the test sentences of a seed: of the toy language with `clauses`, else of Tatoeba."""
    if clauses is not None or quick:  # the quick form needs no real sentences
        number = 10 if quick else 100
        pairs = toy.load("test", number, clauses=(clauses or 1,), seed=seed)
        return [Item(pair.src_text, [pair.tgt_text]) for pair in pairs]
    translations = translations_by_source(tatoeba.load("test"))
    items = [Item(src, references) for src, references in translations.items()]
    random.Random(0).shuffle(items)
    return (items * 2)[200 * seed % len(items) :][:200]


def best_of_beam(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    sources: Sequence[str],
    beam_size: int,
    penalty: LengthPenalty,
    batch_size: int = 10,
) -> list[Hypothesis]:
    """Return the best hypothesis for each source; a beam of 100 makes batches of 1,000 rows."""
    where = next(model.parameters()).device
    best: list[Hypothesis] = []
    for indices in in_order(len(sources), batch_size):
        src = pad([tokenizer.encode(sources[index]) for index in indices]).to(where)
        max_len = 2 * src.shape[1] + 20
        best += [found[0] for found in beam_search(model, src, max_len, beam_size, penalty)]
    return best


def _beside(
    model: EncoderDecoder,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    items: Sequence[Item],
    likeliest: Sequence[float],
    widest: int,
) -> Row:
    """Compare the probabilities of the reference, of the empty output, and of the hypotheses.

    The most probable hypothesis found is *proven* to be the most probable sentence if its
    probability is at least one over the beam size: sentences and prefixes of one length are
    disjoint events, so at most that many can be as probable, and the beam contains them all.
    """
    pairs = [Pair(item.src, item.references[0]) for item in items]
    reference = target_log_probabilities(model, pairs, src_tokenizer, tgt_tokenizer)
    nothing = target_log_probabilities(
        model, [Pair(item.src, "") for item in items], src_tokenizer, tgt_tokenizer
    )
    compared = list(zip(likeliest, reference, nothing, strict=True))
    return {
        "log_probability_likeliest": _mean(likeliest),
        "log_probability_reference": _mean(reference),
        "log_probability_empty": _mean(nothing),
        "proven": _share(most >= -math.log(widest) for most in likeliest),
        "reference_is_likeliest": _share(gold >= most - ROOM for most, gold, _ in compared),
        "empty_beats_reference": _share(empty > gold for _, gold, empty in compared),
        "empty_is_likeliest": _share(empty >= most - ROOM for most, _, empty in compared),
    }


def target_log_probabilities(
    model: EncoderDecoder,
    pairs: Sequence[Pair],
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
) -> list[float]:
    """Return the log-probability of each complete target, its end token included."""
    where = next(model.parameters()).device
    totals: list[float] = []
    examples = encode_pairs(pairs, src_tokenizer, tgt_tokenizer)
    with evaluating(model):
        for indices in in_order(len(examples), 64):
            src, tgt = collate([examples[index] for index in indices]).to(where)
            logits = model(src, tgt[:, :-1])
            targets = tgt[:, 1:]
            each = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            totals += each.masked_fill(targets == PAD_ID, 0.0).sum(dim=1).tolist()
    return totals


def log_probabilities(hypotheses: Sequence[Hypothesis]) -> list[float]:
    """Return the log-probability of each."""
    return [hypothesis.log_probability for hypothesis in hypotheses]


def _share(events: Iterable[bool]) -> float:
    return _mean([float(event) for event in events])


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


EXPERIMENT = Experiment(
    name="decoding",
    question="Which outputs do wider beams find, and are they better?",
    conditions=[
        {"model": "toy-additive", "clauses": 3},
        *({"model": "toy-fixed", "clauses": clauses} for clauses in (1, 3, 5)),
        {"model": "tatoeba-en-fr-additive"},
    ],
    measure=measure,
)
