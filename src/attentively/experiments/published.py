"""The published results of the experiments: load them, and state them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "results", PACKAGE.parents[1] / "book" / "results")
"""Where the results files are: in an installed package, and in a checkout of the repository."""


def load(name: str) -> Any:
    """Return the published results of an experiment, such as ``load("bottleneck")``.

    These are a dictionary whose ``rows`` hold one dictionary for each condition and seed, and whose
    ``command`` and ``device`` state how they were made. The results on real data are only the
    list of such rows. Raises `ValueError` for a name without results.
    """
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    if folder is None:
        raise ValueError(f"no results are published: neither {FOLDERS[0]} nor {FOLDERS[1]} exists")
    file = folder / f"{name}.json"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.json")))
        raise ValueError(f"no published results are called {name!r}; there are {known}")
    return json.loads(file.read_text(encoding="utf-8"))


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    """Return the mean of the values and, in brackets, the lowest and the highest.

    With three seeds, the range is more informative than a standard deviation:
    ``spread([0.5, 0.75, 0.7])`` is ``0.65 (0.50–0.75)``. Each value is formatted with `form`. An
    empty list raises `ValueError`.
    """
    numbers = list(values)
    if not numbers:
        raise ValueError("expected at least one value, got none")
    told = (sum(numbers) / len(numbers), min(numbers), max(numbers))
    mean, lowest, highest = (form.format(number) for number in told)
    return f"{mean} ({lowest}–{highest})"
