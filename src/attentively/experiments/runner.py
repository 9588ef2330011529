"""Run an experiment: every condition with every seed, one row of results each."""

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
    """A question, the conditions to compare, and a function that measures one condition."""

    name: str
    question: str
    conditions: Sequence[Row]
    measure: Callable[..., Row]
    """Called as ``measure(**condition, seed=..., quick=..., directory=...)``; returns the
    results. The directory is for the checkpoints of a training run, so that it can be resumed."""
    options: str = ""
    """Further options of the command, such as ``--data multi30k-en-de``."""
    listed: bool = False
    """Whether the file is a plain list of rows, each with its own provenance."""
    said: Row = field(default_factory=dict)
    """Further values that every row of a plain list must have, such as the name of the data."""


def run(
    experiment: Experiment,
    output: Path | str,
    runs: Path | str,
    seeds: int = 3,
    quick: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Run what `output` does not contain yet, writing each row at once; return the content.

    Each run has its own folder in `runs` for checkpoints.

    The file contains the rows (condition, seed, seconds, results), the command that produces it,
    the versions and the device; if the experiment is `listed`, each row contains these. A row's
    ``device_seconds`` are a duration by `device.seconds`: CPU seconds of the process on the CPU,
    elapsed seconds of finished work on an accelerator. An
    interrupted experiment resumes. Raises `ValueError` if `output` belongs to another experiment,
    to the other of the quick and the full form, to other versions or to other data.
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
    """Return whether a row belongs to a condition; missing keys of the row count as None."""
    return all(row.get(key) == value for key, value in condition.items())


def _of_each_row(heading: Row) -> Row:
    """Return the provenance that each row of a plain list contains."""
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
        raise ValueError(f"{output} is not a results file of {experiment.name!r}")
    wanted = {key: heading[key] for key in ("experiment", "quick", "versions")} | experiment.said
    for part in parts:
        for key, value in wanted.items():
            if part.get(key) != value:
                raise ValueError(
                    f"{output} contains rows with {key}={part.get(key)!r}, but this run has "
                    f"{key}={value!r}: to start again, move the file and the folder {runs}/ away"
                )
    rows: list[Row] = content if listed else content["rows"]
    return rows
