"""Minimum-Bayes-risk decoding: samples of a translation model against beam search.

For each source, a number of translations is sampled from the pretrained model, and the sample with
the highest mean chrF against all samples is the output (Kumar & Byrne 2004; Eikema & Aziz 2020,
https://arxiv.org/abs/2005.10283). Greedy search, beam search and single samples translate the same
sentences. Models run on the CPU, where the samples are reproducible.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import torch

from attentively.data.batches import in_order, pad
from attentively.experiments.decoding import best_of_beam, sentences_of
from attentively.experiments.runner import Experiment, Row
from attentively.generation.minimum_bayes_risk import minimum_bayes_risk
from attentively.generation.search import power, sample
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.scoring.metrics import chrf, corpus_bleu

SAMPLES = (10, 30)
"""Numbers of samples; smaller ones are the first of the larger."""


def measure(temperature: float, seed: int, quick: bool, directory: Path) -> Row:
    """Translate with each method; each seed uses other test sentences and other samples."""
    del directory  # nothing is trained
    checkpoint = load_pretrained("tatoeba-en-fr-additive")
    numbers = (2, 3) if quick else SAMPLES
    items = sorted(sentences_of(None, seed, quick), key=lambda item: len(item.src))
    sources = [item.src for item in items]
    references = [item.references for item in items]
    samples = sampled(checkpoint, sources, temperature, max(numbers), seed)

    outputs = {("sample", 1): [texts[0] for texts in samples]}
    utility = functools.lru_cache(20_000)(lambda one, other: chrf([one], [other]))
    for number in numbers:
        chosen = [minimum_bayes_risk(texts[:number], utility) for texts in samples]
        outputs["minimum Bayes risk", number] = chosen
    for name, beam_size in (("greedy", 1), ("beam", 5)):
        model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
        best = best_of_beam(model, src_tokenizer, sources, beam_size, power(1.0))
        outputs[name, beam_size] = [tgt_tokenizer.decode(one.ids) for one in best]
    return {
        "sentences": len(items),
        "distinct": sum(len(set(texts)) for texts in samples) / len(samples),
        "outputs": [
            {"method": method, "number": number, **_scores(texts, references)}
            for (method, number), texts in outputs.items()
        ],
    }


def sampled(
    checkpoint: Checkpoint, sources: Sequence[str], temperature: float, number: int, seed: int
) -> list[list[str]]:
    """Return sampled translations of each source."""
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    generator = torch.Generator().manual_seed(seed)
    found: list[list[str]] = []
    for indices in in_order(len(sources), 10):
        src = pad([src_tokenizer.encode(sources[index]) for index in indices])
        max_len = 2 * src.shape[1] + 20
        hypotheses = sample(model, src, max_len, temperature, samples=number, generator=generator)
        found += [[tgt_tokenizer.decode(one.ids) for one in row] for row in hypotheses]
    return found


def _scores(texts: Sequence[str], references: Sequence[Sequence[str]]) -> Row:
    bleu = corpus_bleu(texts, references)
    return {
        "bleu": round(bleu.score, 2),
        "chrf": round(chrf(texts, references), 2),
        "length_ratio": round(bleu.hypothesis_length / bleu.reference_length, 4),
    }


EXPERIMENT = Experiment(
    name="minimum-bayes-risk",
    question="Is the sample that is most similar to all samples a better translation than the "
    "output of beam search?",
    conditions=[{"temperature": 1.0}, {"temperature": 0.5}],
    measure=measure,
)
