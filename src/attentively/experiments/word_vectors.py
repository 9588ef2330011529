"""Word vectors: their quality as a function of the amount of training text."""

import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from attentively.data import toy, words
from attentively.experiments.runner import Experiment, Row
from attentively.word_vectors.training import frequent_words, train_vectors
from attentively.word_vectors.vector_config import VectorConfig
from attentively.word_vectors.vectors import Analogy, WordVectors

SHARES = (0.125, 0.25, 0.5, 1.0)
"""Fractions of the sentences; for one seed, each is a subset of the next."""
QUICK: dict[str, Any] = {"embedding_dim": 13, "epochs": 1, "min_count": 2, "threshold": 1e-2}


def measure(share: float, seed: int, quick: bool, directory: Path) -> Row:
    """Train on a fraction of the sentences, and evaluate the vectors."""
    sentences = toy_sentences() if quick else words.tatoeba_english()
    sections = TOY_ANALOGIES if quick else words.analogies()
    judged = TOY_SIMILARITIES if quick else words.similarities()
    config = VectorConfig(seed=seed, **(QUICK if quick else {}))
    order = random.Random(seed).sample(range(len(sentences)), len(sentences))
    chosen, fewest = (
        [sentences[place] for place in sorted(order[: round(part * len(order))])]
        for part in (share, SHARES[0])
    )
    trained = train_vectors(chosen, config, progress=False)
    known = set(frequent_words(fewest, config.min_count))
    common = [
        question
        for questions in sections.values()
        for question in questions
        if known.issuperset(question)
    ]
    return {
        "sentences": len(chosen),
        "words_of_text": sum(len(sentence) for sentence in chosen),
        "vocabulary": len(trained.vectors.words),
        "config": config.to_dict(),
        "training_steps": trained.records[-1]["step"],
        "training_seconds": round(trained.seconds, 1),
        "train_loss": round(trained.records[-1]["train_loss"], 4),
        **scores(trained.vectors, sections, judged),
        "analogies_common": analogy_numbers(trained.vectors, common),
    }


def scores(
    vectors: WordVectors,
    sections: Mapping[str, Sequence[Analogy]],
    judged: Sequence[tuple[str, str, float]],
) -> Row:
    """Return the scores that `attentively vectors score` prints and the experiment records."""
    every = [question for questions in sections.values() for question in questions]
    similarity = vectors.score_similarities(judged)
    return {
        "analogies": analogy_numbers(vectors, every),
        "analogies_by_section": {
            section: analogy_numbers(vectors, questions) for section, questions in sections.items()
        },
        "similarities": {
            "pairs": len(judged),
            "asked": similarity.asked,
            "coverage": round(similarity.coverage, 4),
            "spearman": similarity.correlation and round(similarity.correlation, 4),
        },
    }


def analogy_numbers(vectors: WordVectors, questions: Sequence[Analogy]) -> Row:
    """Return the accuracies with the question's words excluded, included, and for the word nearest
    to c.

    With these words included, also return how often the answer repeats one of them, and how often
    it repeats c. Without any question whose words all have vectors, the values are None.
    """
    excluding, including, only_c = (
        vectors.score_analogies(questions, **custom)
        for custom in ({}, {"exclude": False}, {"only_c": True})
    )
    counts = {
        "excluding": excluding.correct,
        "including": including.correct,
        "only_c": only_c.correct,
        "repeated": including.repeated,
        "repeated_c": including.repeated_c,
    }
    asked = excluding.asked
    return {
        "questions": len(questions),
        "asked": asked,
        "coverage": round(excluding.coverage, 4) if questions else None,
        **{name: round(count / asked, 4) if asked else None for name, count in counts.items()},
    }


# The quick form needs no download: it uses the toy language.


def toy_sentences() -> list[list[str]]:
    """Return a few hundred English sentences of the toy language."""
    return [list(pair.src) for pair in toy.load("train", 800)]


def _questions(pairs: Sequence[tuple[str, str]]) -> list[Analogy]:
    return [(a, b, c, d) for (a, b), (c, d) in permutations(pairs, 2)]


TOY_ANALOGIES = {
    "plural": _questions([("cat", "cats"), ("dog", "dogs"), ("king", "kings"), ("bee", "bees")]),
    "past": _questions([("sees", "saw"), ("drinks", "drank"), ("holds", "held")]),
    "capitals": _questions([("paris", "france"), ("rome", "italy")]),
}
TOY_SIMILARITIES = [
    ("cat", "dog", 8.0),
    ("king", "queen", 9.0),
    ("milk", "water", 7.0),
    ("street", "sings", 1.0),
    ("paris", "france", 5.0),
]

EXPERIMENT = Experiment(
    name="word-vectors",
    question="How does the quality of word vectors grow with the amount of training text?",
    conditions=[{"share": share} for share in SHARES],
    measure=measure,
)
