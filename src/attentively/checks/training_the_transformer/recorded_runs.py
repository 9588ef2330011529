"""Recorded training runs, most of them with a fault, and the evidence of each fault in a log."""

import json
from functools import cache
from pathlib import Path

Log = list[dict[str, int | float]]

_RECORDED = Path(__file__).with_name("recorded_runs.json")
"""Written by tools/record_runs.py: for each setting, one run per fault and one without."""
SHOWN, CHECKED = 1, 2
"""Settings: those before the first are shown in the notebook. The visible check uses those from the
second on, which are the hardest to distinguish; grading uses all, the shown ones too."""
SIGNS = {
    "none": "both losses fall to the end, and the exact-match rate rises. At the end, the training "
    "loss can be above or below the validation loss: label smoothing raises it, and without "
    "smoothing it can be slightly lower in a healthy run too. Compare the two losses early, while "
    "few tokens are correct.",
    "no causal mask": "nearly all tokens are correct with teacher forcing, because the decoder can "
    "attend to its labels, but not one free-running translation is exact.",
    "no target shift": "the training loss falls to its minimum at once, but on new sentences, "
    "where the decoder does not read its labels, almost no token is correct.",
    "overfitting": "the training loss falls to its minimum, but on new sentences the loss stays "
    "high; more than a few tokens are correct there all the same.",
    "learning rate too high": "both losses stay high and close to each other, and few tokens are "
    "correct; the gradient norm is in the usual range.",
    "gradients not zeroed": "the gradient norm grows far above that of all other runs, because it "
    "contains the gradients of all steps.",
    "padding in the loss": "while few tokens are correct, the training loss is well below the "
    "validation loss, and both fall: the training loss includes positions that are easy to "
    "predict.",
}
"""The faults, and the evidence of each in a log."""


@cache
def _recorded() -> list[tuple[str, Log]]:
    runs = json.loads(_RECORDED.read_text(encoding="utf-8"))
    return [(run["fault"], run["log"]) for run in runs]


def runs_of(first: int, last: int | None = None) -> list[tuple[str, Log]]:
    """Return the runs of some settings: the fault of each, and its log."""
    number = len(SIGNS)
    return _recorded()[first * number : None if last is None else last * number]


_LETTERS = {"A": 3, "B": 6, "C": 0, "D": 4, "E": 1, "F": 5, "G": 2}


def logs() -> dict[str, Log]:
    """Return the logs of the seven runs that the notebook shows, by letter."""
    return {letter: runs_of(0, SHOWN)[place][1] for letter, place in _LETTERS.items()}


def fault_of(letter: str) -> str:
    """Return the fault of a run of `logs`."""
    return runs_of(0, SHOWN)[_LETTERS[letter]][0]


def show_log(log: Log) -> None:
    """Print a log, one line per record."""
    print("\n".join(table(log)))


def table(log: Log) -> list[str]:
    """Return the lines of a log, with a heading."""
    lines = ["    step  train_loss  validation_loss  accuracy  exact  gradient_norm"]
    for row in log:
        lines.append(
            f"    {row['step']:4.0f}  {row['train_loss']:10.3f}  {row['validation_loss']:15.3f}"
            f"  {row['accuracy']:8.1%}  {row['exact']:5.0%}  {row['gradient_norm']:13.2f}"
        )
    return lines
