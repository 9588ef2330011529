"""Comparisons too long for a page: each runs by name, resumes, and writes one results file."""

from collections.abc import Sequence

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
    real_ladder,
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


def find(
    name: str,
    data: str | None = None,
    rungs: Sequence[str] | None = None,
    shipped: bool = False,
    changes: str | None = None,
) -> Experiment:
    """Return the experiment called `name`; an unknown name lists those there are.

    The ladder also runs on the `data` of a corpus, with some of its `rungs`, with `changes` of
    its plan, or with the `shipped` models; another experiment with any of these raises
    `ValueError`.
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"no experiment is called {name!r}; there are {', '.join(sorted(EXPERIMENTS))}"
        )
    if data is None and not (rungs or shipped or changes):
        return EXPERIMENTS[name]
    if name != "ladder":
        raise ValueError(
            f"data, rungs, shipped and changes go with the experiment ladder, not {name}"
        )
    if data is None:
        raise ValueError(
            "rungs, shipped and changes go with --data: the toy language's ladder has none of them"
        )
    return real_ladder.experiment(data, rungs or ladder.RUNGS, shipped, changes)


__all__ = ["EXPERIMENTS", "Experiment", "find", "run"]
