"""Experiments: comparisons too long for a page; each has a name, resumes, and writes one file."""

from collections.abc import Sequence

from attentively.experiments import (
    background,
    bottleneck,
    captions,
    context_probe,
    costs,
    decoding,
    degeneration,
    encodings,
    explanations,
    exposure,
    faults,
    fine_tuning,
    heads,
    imitation,
    ladder,
    minimum_bayes_risk,
    norms,
    output_projection,
    overfitting,
    positions,
    preference_tuning,
    pretraining,
    pronoun,
    quantization,
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
        degeneration.EXPERIMENT,
        encodings.EXPERIMENT,
        explanations.EXPERIMENT,
        exposure.EXPERIMENT,
        faults.EXPERIMENT,
        fine_tuning.EXPERIMENT,
        heads.EXPERIMENT,
        imitation.EXPERIMENT,
        ladder.EXPERIMENT,
        minimum_bayes_risk.EXPERIMENT,
        norms.EXPERIMENT,
        overfitting.EXPERIMENT,
        output_projection.EXPERIMENT,
        positions.EXPERIMENT,
        preference_tuning.EXPERIMENT,
        pretraining.EXPERIMENT,
        pronoun.EXPERIMENT,
        quantization.EXPERIMENT,
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
    """Return the experiment called `name`; the error for an unknown name lists the experiments.

    The ladder also runs on the sentence pairs of a corpus (`data`), with some of its models
    (`rungs`), with `changes` of the hyperparameters, or with the pretrained models (`shipped`).
    Other experiments with any of these raise `ValueError`.
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"no experiment is called {name!r}: choose one of {', '.join(sorted(EXPERIMENTS))}"
        )
    if data is None and not (rungs or shipped or changes):
        return EXPERIMENTS[name]
    if name != "ladder":
        raise ValueError(
            f"--data, --rungs, --shipped and --change are options of the experiment ladder, not of "
            f"{name}"
        )
    if data is None:
        raise ValueError(
            "--rungs, --shipped and --change need --data: they do not apply to the toy language"
        )
    return real_ladder.experiment(data, rungs or ladder.RUNGS, shipped, changes)


__all__ = ["EXPERIMENTS", "Experiment", "find", "run"]
