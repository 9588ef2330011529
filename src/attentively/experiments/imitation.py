"""Imitation: models that predict as another one and are rewarded for other attention weights.

The loss of the imitating model has two terms, whose balance is lambda (`forgery_loss`). With lambda
0 the model only imitates the predictions; with a larger lambda it is rewarded more for attention
weights that differ. The classifiers, their sentences and their training are those of the
experiment `explanations`; the sentences need the data set (``attentively data get sentiment``).

Wiegreffe & Pinter (2019), https://arxiv.org/abs/1908.04626, section 4.
"""

from functools import partial
from pathlib import Path

import torch

from attentively.analysis.explanations import jensen_shannon, total_variation
from attentively.experiments import explanations
from attentively.experiments.runner import Experiment, Row

DIVERGENCE_WEIGHTS = (0.0, 0.001, 0.01, 0.1)
"""Values of lambda."""


def measure(kind: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train a classifier, and for each lambda a model that imitates it; compare the two."""
    torch.set_num_threads(1)
    sentences, tests, vocab_size = explanations.load_sentences(quick)
    steps = 5 if quick else explanations.STEPS

    made = partial(explanations.new_classifier, vocab_size, reader=kind == "recurrent")
    original = made(seed)
    explanations.train(original, sentences, explanations.true_labels(sentences), steps, seed)
    with torch.no_grad():
        true_logits, true_weights = original(tests.ids, tests.mask)
    truth = true_logits.softmax(dim=-1)
    found = []
    for divergence_weight in DIVERGENCE_WEIGHTS:
        model = made(seed + 100)
        loss = explanations.forgery(original, sentences, divergence_weight)
        explanations.train(model, sentences, loss, steps, seed)
        with torch.no_grad():
            logits, weights = model(tests.ids, tests.mask)
        predicted = logits.softmax(dim=-1)
        same = predicted.argmax(dim=-1) == truth.argmax(dim=-1)
        right = predicted.argmax(dim=-1) == tests.labels
        numbers = {
            "accuracy": right.float(),
            "same_answer": same.float(),
            "total_variation": total_variation(predicted, truth),
            "distance": jensen_shannon(weights, true_weights),
        }
        found.append(
            {
                "divergence_weight": divergence_weight,
                **{name: round(values.mean().item(), 4) for name, values in numbers.items()},
            }
        )
    return {"test_sentences": len(tests.ids), "by_divergence_weight": found}


EXPERIMENT = Experiment(
    name="imitation",
    question="How different can attention weights be in a model that makes the same predictions?",
    conditions=[{"kind": kind} for kind in ("recurrent", "embedding")],
    measure=measure,
)
