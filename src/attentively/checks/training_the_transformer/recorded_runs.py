"""Trainings that were recorded, each but a few with a fault, and what shows the fault in a log."""

import json
from functools import cache
from pathlib import Path

Log = list[dict[str, int | float]]

_RECORDED = Path(__file__).with_name("recorded_runs.json")
"""Made by tools/record_runs.py: seven runs, each with its own fault or none, in each setting."""
SHOWN, CHECKED = 1, 2
"""Settings: those before the first are shown in the notebook, those from the second on, which are
the hardest to tell apart, are in the visible check. When graded, all that are not shown count."""
SIGNS = {
    "none": "all is well: both losses fall to the end, and the share of whole sentences rises. A "
    "training loss that stops high above the other is what smoothing does.",
    "no causal mask": "nearly every word is right as long as the true words are read, the words to "
    "come among them, and not one sentence is when the model reads its own.",
    "no target shift": "the training loss falls to its floor at once, while on new sentences, where "
    "the answer is not to be read, next to nothing is right.",
    "overfitting": "the training loss falls to its floor, while on new sentences the loss "
    "stays high, and more words than a few are right there all the same.",
    "learning rate too high": "both losses stop high, close to each other, and few words are right; the "
    "gradients are of ordinary length.",
    "gradients not zeroed": "the gradient grows longer and longer, far longer than in any other run: "
    "those of all steps are in it.",
    "padding in the loss": "while few words are right yet, the training loss is well below that on "
    "new sentences, and both fall: something easy is counted among the words.",
}
"""The faults, and what shows each in a log."""


@cache
def _recorded() -> list[tuple[str, Log]]:
    runs = json.loads(_RECORDED.read_text(encoding="utf-8"))
    return [(run["fault"], run["log"]) for run in runs]


def runs_of(first: int, last: int | None = None) -> list[tuple[str, Log]]:
    """Return the runs of some settings: what was wrong with each, and its log."""
    number = len(SIGNS)
    return _recorded()[first * number : None if last is None else last * number]


_LETTERS = {"A": 3, "B": 6, "C": 0, "D": 4, "E": 1, "F": 5, "G": 2}


def logs() -> dict[str, Log]:
    """Return the logs of seven runs, by a letter."""
    return {letter: runs_of(0, SHOWN)[place][1] for letter, place in _LETTERS.items()}


def fault_of(letter: str) -> str:
    """Return what was wrong with a run of `logs`."""
    return runs_of(0, SHOWN)[_LETTERS[letter]][0]


def show_log(log: Log) -> None:
    """Print a log, a line a row."""
    print("\n".join(table(log)))


def table(log: Log) -> list[str]:
    """Return a log as lines, the first of them a heading."""
    lines = ["    step  train_loss  validation_loss  accuracy  exact  gradient_norm"]
    for row in log:
        lines.append(
            f"    {row['step']:4.0f}  {row['train_loss']:10.3f}  {row['validation_loss']:15.3f}"
            f"  {row['accuracy']:8.1%}  {row['exact']:5.0%}  {row['gradient_norm']:13.2f}"
        )
    return lines
