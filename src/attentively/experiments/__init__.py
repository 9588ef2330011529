"""Experiments: comparisons too long for a page; each has a name, resumes, and writes one file."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from attentively import exporter
from attentively.experiments.rungs import RUNGS

if TYPE_CHECKING:
    from attentively.experiments.runner import Experiment

NAMES = (
    "background",
    "bottleneck",
    "captions",
    "context-probe",
    "costs",
    "decoding",
    "degeneration",
    "encodings",
    "explanations",
    "exposure",
    "faults",
    "fine-tuning",
    "heads",
    "imitation",
    "ladder",
    "minimum-bayes-risk",
    "norms",
    "output-projection",
    "overfitting",
    "positions",
    "preference-tuning",
    "pretraining",
    "pronoun",
    "quantization",
    "recall",
    "recipe",
    "savings",
    "scaling",
    "scores",
    "subwords",
    "swaps",
    "word-vectors",
)
"""The names of the experiments; the module of each has the same name, with underscores."""


class _Experiments(Mapping[str, "Experiment"]):
    """The experiments by name. Each module is imported when its experiment is used."""

    def __getitem__(self, name: str) -> "Experiment":
        if name not in NAMES:
            raise KeyError(name)
        found: Experiment = import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


EXPERIMENTS = _Experiments()

__getattr__ = exporter(__name__, {"runner": ["Experiment", "run"]})


def find(
    name: str,
    data: str | None = None,
    rungs: Sequence[str] | None = None,
    shipped: bool = False,
    changes: str | None = None,
) -> "Experiment":
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
    from attentively.experiments import real_ladder

    return real_ladder.experiment(data, rungs or RUNGS, shipped, changes)
