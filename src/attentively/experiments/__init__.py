"""Comparisons too long for a page: each runs by name, resumes, and writes one results file."""

from attentively.experiments import (
    background,
    bottleneck,
    captions,
    context_probe,
    costs,
    decoding,
    encodings,
    explanations,
    exposure,
    faults,
    heads,
    ladder,
    norms,
    positions,
    pretraining,
    recall,
    recipe,
    savings,
    scaling,
    scores,
    subwords,
    swaps,
    word_vectors,
)
from attentively.experiments.runner import Experiment, run

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in [
        background.EXPERIMENT,
        bottleneck.EXPERIMENT,
        captions.EXPERIMENT,
        context_probe.EXPERIMENT,
        costs.EXPERIMENT,
        decoding.EXPERIMENT,
        encodings.EXPERIMENT,
        explanations.EXPERIMENT,
        exposure.EXPERIMENT,
        faults.EXPERIMENT,
        heads.EXPERIMENT,
        ladder.EXPERIMENT,
        norms.EXPERIMENT,
        positions.EXPERIMENT,
        pretraining.EXPERIMENT,
        recall.EXPERIMENT,
        recipe.EXPERIMENT,
        savings.EXPERIMENT,
        scaling.EXPERIMENT,
        scores.EXPERIMENT,
        subwords.EXPERIMENT,
        swaps.EXPERIMENT,
        word_vectors.EXPERIMENT,
    ]
}


def find(name: str) -> Experiment:
    """Return the experiment called `name`; an unknown name lists those there are."""
    if name not in EXPERIMENTS:
        raise ValueError(
            f"no experiment is called {name!r}; there are {', '.join(sorted(EXPERIMENTS))}"
        )
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Experiment", "find", "run"]
