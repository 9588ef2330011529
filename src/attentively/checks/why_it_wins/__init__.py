"""Checks of the assignment on the costs of layers: counts, graphs, fitted curves, crossings.

Part 1 is the paper's table with its constants, part 3 a line in the logarithms. Parts 2 and 4 are
original problems: the graphs have any shape, and a cost with three terms is fitted to measurements
in order to find the length from which one layer is more expensive than another for good. All
answers are compared with the recordings in this folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from attentively.checks import CheckFailed, Parts, describe, once_solved
from attentively.checks.compare import Renewable
from attentively.checks.question import Recorded, Results
from attentively.checks.recordings import Topic
from attentively.checks.why_it_wins.computation_graphs import (
    attention,
    back_and_forth,
    backward,
    backward_over,
    bidirectional,
    convolution,
    from_the_first,
    leaping,
    recurrent,
    skipping,
    to_the_last,
    unread,
    with_a_hub,
)

__all__ = [
    "attention",
    "back_and_forth",
    "backward",
    "backward_over",
    "bidirectional",
    "convolution",
    "count",
    "crossing",
    "forecasts",
    "from_the_first",
    "leaping",
    "once_solved",
    "progress",
    "read_off",
    "ready",
    "recurrent",
    "skipping",
    "to_the_last",
    "unread",
    "with_a_hub",
]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Print a line that shows that the package and these checks work."""
    _parts.explain_undefined_names()
    graph = recurrent(3)
    arrows = sum(map(len, graph.values()))
    print(f"PyTorch {torch.__version__}. A graph of {len(graph)} nodes and {arrows} arrows.")
    print("The set-up is complete.")


@_parts.part("the table", "costs")
def count(costs: object, thorough: bool = False) -> None:
    """Check multiplications, sequential operations and path length of one layer."""
    layer = {"layer": lambda got, recorded: recorded.case.inputs["layer"]}
    _topic.examine("costs", costs, thorough, quotes=layer)


@_parts.part("the graph", "steps", "path")
def read_off(steps: object, path: object, thorough: bool = False) -> None:
    """Check the sequential operations and the path length of computation graphs."""
    _topic.examine("steps", steps, thorough)
    _topic.examine("path", path, thorough)


# Part 3


@dataclass
class Stopwatch(Renewable):
    """A simulated measurement of running times: the first run is slow, and others are disturbed."""

    times: dict[int, list[float]]
    asked: list[int] = field(default_factory=list, init=False, compare=False)
    last: "Stopwatch | None" = field(default=None, init=False, compare=False)
    """The stopwatch that the last call of an answer received."""

    def __call__(self, length: Any) -> float:
        self.asked.append(int(length))
        times = self.times.get(int(length), [1.0])
        return times[min(self.asked.count(int(length)), len(times)) - 1]

    def __repr__(self) -> str:
        return "a stopwatch"

    def renewed(self) -> "Stopwatch":
        """Return the stopwatch for the next call of an answer."""
        self.last = Stopwatch(self.times)
        return self.last


@_parts.part("a fitted curve", "fit", "forecast")
def forecasts(fit: object, forecast: object, thorough: bool = False) -> None:
    """Check the fitted exponent and factor, and the forecast from simulated measurements."""
    _topic.examine("fit", fit, thorough)
    _topic.examine(
        "forecast",
        forecast,
        thorough,
        properties={"": _expect_measured},
        explain=_describe_runs,
    )


def _asked(inputs: Mapping[str, Any]) -> list[int]:
    """Return the lengths that the last answer has measured."""
    watch = inputs["measure"].last
    return watch.asked if watch else []


def _expect_measured(results: Results, inputs: Mapping[str, Any]) -> None:
    asked, target = _asked(inputs), inputs["target"]
    if target in asked:
        raise CheckFailed(
            f"  forecast: `measure` was called with the target length {target}. Forecast the "
            f"time at this length instead.\n{describe(inputs)}"
        )
    if not asked:
        raise CheckFailed(f"  forecast: `measure` was never called.\n{describe(inputs)}")


def _describe_runs(got: object, recorded: Recorded) -> str:
    inputs = recorded.case.inputs
    lengths, repeats = inputs["lengths"], inputs.get("repeats", 5)
    times = ", ".join(f"{min(inputs['measure'].times[n][:repeats]):.4g}" for n in lengths)
    ran = max(map(_asked(inputs).count, lengths))
    return (
        f"This is not the expected value. `measure` ran {ran} times at a length; the "
        f"shortest times of the first {repeats} runs are {times}."
    )


# Part 4


@_parts.part("where curves cross", "three_terms", "overtakes")
def crossing(three_terms: object, overtakes: object, thorough: bool = False) -> None:
    """Check the fitted terms, and the length from which on one cost is higher than the other."""
    _topic.examine("three_terms", three_terms, thorough)
    _topic.examine("overtakes", overtakes, thorough, explain=_describe_costs)


def _describe_costs(got: object, recorded: Recorded) -> str:
    """Return both costs at the expected length, or at a large one if there is none."""
    length = recorded.expected["length"] or 1000
    costs = []
    for n in (length - 1, length):
        if n:
            one, other = (
                sum(term * n**power for power, term in enumerate(cost))
                for cost in recorded.case.inputs.values()
            )
            costs.append(f"{one:.10g} and {other:.10g} at length {n}")
    return f"This is not the expected value. They cost {', '.join(costs)}."
