"""Run an experiment: every condition with every seed, one row of numbers each."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

import attentively
from attentively import device
from attentively.atomic_files import replacing
from attentively.config import check_at_least_one

Row = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A question, the conditions compared to answer it, and how one of them is measured."""

    name: str
    question: str
    conditions: Sequence[Row]
    measure: Callable[..., Row]
    """Called as ``measure(**condition, seed=..., quick=..., directory=...)``; returns the
    numbers. In the directory a training may leave its checkpoints, to go on if it is stopped."""
    options: str = ""
    """What the command says besides the name, such as ``--data multi30k-en-de``."""
    listed: bool = False
    """Whether the file is a plain list of rows, each of which says how it was made."""
    said: Row = field(default_factory=dict)
    """What every row of a plain list must say besides, such as of which data it is."""


def run(
    experiment: Experiment,
    output: Path | str,
    runs: Path | str,
    seeds: int = 3,
    quick: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Run what `output` does not hold yet, writing each row as it is known; return the content.

    Each run has a folder of its own in `runs` for its checkpoints.

    The file holds the rows (condition, seed, seconds, numbers), the command that makes it, the
    versions and the device; where the experiment is `listed`, each row does. A run that was
    stopped goes on where it was. Raises `ValueError` if `output` is of another experiment, of the
    other of quick and full, of other versions or of other data.
    """
    check_at_least_one(seeds=seeds)
    output = Path(output)
    heading = {
        "experiment": experiment.name,
        "question": experiment.question,
        "command": " ".join(
            ["attentively experiment", experiment.name]
            + [experiment.options] * bool(experiment.options)
            + ["--quick"] * quick
            + [f"--seeds {seeds}"]
        ),
        "quick": quick,
        "versions": {"attentively": attentively.__version__, "torch": torch.__version__},
        "device": device.describe(device.best()),
    }
    rows = _finished_rows(output, Path(runs), heading, experiment)
    wanted = [(condition, seed) for seed in range(seeds) for condition in experiment.conditions]
    missing = [
        (condition, seed)
        for condition, seed in wanted
        if not any(_is_of(row, {**condition, "seed": seed}) for row in rows)
    ]
    with tqdm(total=len(wanted), initial=len(wanted) - len(missing), disable=not progress) as bar:
        for condition, seed in missing:
            said = [str(value) for value in condition.values() if value is not None]
            bar.set_description(", ".join(said))
            started = time.monotonic()
            label = "-".join([*said, f"seed{seed}"])
            directory = Path(runs) / label
            numbers = experiment.measure(**condition, seed=seed, quick=quick, directory=directory)
            seconds = round(time.monotonic() - started, 1)
            row = {**condition, "seed": seed, "seconds": seconds, **numbers}
            rows.append({**row, **_of_each_row(heading)} if experiment.listed else row)
            _write(output, rows if experiment.listed else {**heading, "rows": rows})
            bar.update()
    return {**heading, "rows": rows}


def _is_of(row: Row, condition: Row) -> bool:
    """Return whether a row is of a condition; what it does not name is None."""
    return all(row.get(key) == value for key, value in condition.items())


def _of_each_row(heading: Row) -> Row:
    """Return what a row of a plain list says of how it was made."""
    return {key: heading[key] for key in ("experiment", "command", "quick", "versions", "device")}


def _write(output: Path, content: Any) -> None:
    with replacing(output) as temporary:
        text = json.dumps(content, indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _finished_rows(output: Path, runs: Path, heading: Row, experiment: Experiment) -> list[Row]:
    if not output.exists():
        return []
    listed = experiment.listed
    try:
        content = json.loads(output.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{output} is not a results file: {error}") from None
    parts = content if isinstance(content, list) else [content]
    if isinstance(content, list) != listed or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{output} is no results file of {experiment.name!r}")
    wanted = {key: heading[key] for key in ("experiment", "quick", "versions")} | experiment.said
    for part in parts:
        for key, value in wanted.items():
            if part.get(key) != value:
                raise ValueError(
                    f"{output} holds rows of {key} {part.get(key)!r}, not {value!r}: "
                    f"move it away, and {runs}/ with its trainings too, to start anew"
                )
    rows: list[Row] = content if listed else content["rows"]
    return rows
