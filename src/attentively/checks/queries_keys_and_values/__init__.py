"""Checks of the assignment on attention pooling: special cases, kernels, a learned width.

The answers are compared with the recordings in this folder. A learned width is right if the
recorded loss is almost at its minimum there. No function here is the answer of a part.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentively.attention.kernels import KernelPooling
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_pair,
    expect_tensor,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.question import Recorded, Results
from attentively.checks.recordings import Topic

__all__ = [
    "answers",
    "bug_hunt",
    "kernels",
    "learned_width",
    "measurements",
    "once_solved",
    "pooling",
    "predictions",
    "progress",
    "ready",
    "words_in_a_table",
]

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Pool two pairs, to show that the package and the checks work."""
    _parts.explain_undefined_names()
    key, value = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0]])
    context, _ = KernelPooling()(torch.tensor([[1.5]]), key, value)
    print(
        f"PyTorch {torch.__version__}. Halfway between the keys 1 and 2, with the values 10 and 20,"
    )
    print(f"the package's pooling returns {context.item():.0f}. Ready.")


def measurements(number: int = 60, seed: int = 0, noise: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return keys from 0 to 5 and noisy values of a curve at them, each (number, 1)."""
    generator = torch.Generator().manual_seed(seed)
    keys = (5 * torch.rand(number, 1, generator=generator)).sort(dim=0).values
    values = (2 * keys).sin() + keys / 2
    return keys, values + noise * torch.randn(number, 1, generator=generator)


SENTENCE = "the animal did not cross the street because it was too tired"
_KINDS = {"noun": ("animal", "street"), "verb": ("did", "cross", "was")}


def words_in_a_table() -> tuple[list[str], dict[str, Tensor]]:
    """Return the words of a sentence, and for each word class a mask of its positions."""
    words = SENTENCE.split()
    kinds = {kind: torch.tensor([w in those for w in words]) for kind, those in _KINDS.items()}
    return words, kinds


# Part 1


@dataclass(frozen=True)
class Alpha:
    """A weight function that `pool` receives, with a text that a message can show."""

    text: str

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return a weight for each query and key."""
        if self.text == HALF:
            return torch.full((*query.shape[:-1], len(keys)), 0.5)
        products = query @ keys.T
        return products if self.text == DOT else products.softmax(dim=-1)

    def __repr__(self) -> str:
        return self.text


DOT = "the dot products of queries and keys"
HALF = "one half for every pair"
SHARES = "the softmax of the dot products"


@_parts.part(
    "pooling",
    "pool",
    "lookup",
    "average",
    rebuilds=("attentively.attention.kernels:KernelPooling",),
    step=True,
)
def pooling(pool: object, lookup: object, average: object, thorough: bool = False) -> None:
    """Check the weighted sum of values and two functions that return weights."""
    _topic.examine("pool", pool, thorough)
    _topic.examine("lookup", lookup, thorough)
    _topic.examine("average", average, thorough)


# Part 2


@_parts.part(
    "kernels",
    "kernel_weights",
    rebuilds=("attentively.attention.kernels:kernel_weights",),
    refuses=("attentively.attention.kernels:KernelPooling",),
)
def kernels(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(query, keys, kernel, width) -> weights``."""
    _topic.examine("kernel_weights", candidate, thorough)


# Part 3


@_parts.part("learned width", "leave_one_out", "learn_width")
def learned_width(leave_one_out: object, learn_width: object, thorough: bool = False) -> None:
    """Check the leave-one-out loss, and the width that is learned with it."""
    _topic.examine("leave_one_out", leave_one_out, thorough, tidy=_scalar)
    cases = _topic.recording("learn_width", thorough).cases
    for recorded in open_call.new_cases("learn_width", cases):
        _expect_learned(learn_width, recorded.case.inputs, recorded.expected["the losses"])


def _scalar(answer: Any, asked: Inputs) -> Any:
    if type(answer) is Tensor and answer.layout == torch.strided and answer.numel() == 1:
        return answer.reshape(())
    if not isinstance(answer, Tensor) and plain_number(answer) is not None:
        raise CheckFailed(
            f"  Expected leave_one_out as a torch.Tensor, got a {type(answer).__name__}. No "
            f"gradient flows through a plain number: return the tensor.\n{describe(asked)}"
        )
    return answer


GRID = torch.linspace(-5, 3, 321)
"""The logarithms of the widths for which the loss is recorded."""

_ENOUGH = 1.02
"""The largest accepted loss of a learned width, as a multiple of the smallest loss."""


def _expect_learned(candidate: object, asked: Inputs, losses: Tensor) -> None:
    width = asked["width"]
    answer = call(candidate, asked)
    if isinstance(answer, Tensor | np.ndarray) and math.prod(answer.shape) == 1:
        answer = answer.item()
    found = plain_number(answer)
    if found is None:
        raise CheckFailed(
            "  learn_width: expected the learned width, one number; got "
            f"{type(answer).__name__}.\n{describe(asked)}"
        )
    best = float(GRID[losses.argmin()].exp())
    least = float(losses.min())
    measured = f"\n{describe(asked)}\n  got         {show(float(found))}"
    if found > 0 and math.isfinite(found):
        # Outside of the grid, the loss is larger than the smallest one, too.
        loss = float(np.interp(math.log(found), GRID, losses))
        if loss <= _ENOUGH * least:
            return
        measured += f", where the loss is {loss:.4g}"
    measured += f"\n  expected    about {best:.2g}, where it is {least:.4g}"
    if abs(found - math.log(best)) < 0.05 * abs(math.log(best)):
        diagnosis = "The result is the logarithm of the width. Return its exponential."
    elif math.isclose(found, least, rel_tol=0.02):
        diagnosis = "The result is the smallest loss. Return the width that has this loss."
    elif not found > 0 or not math.isfinite(found):
        diagnosis = (
            "The width must be a positive number. Learn its logarithm, with a learning rate of "
            "about 0.1: the exponential is always positive."
        )
    elif abs(found - width) < 1e-3 * width:
        diagnosis = "The width is still the initial one."
    elif found < min(width, best) / 5:
        diagnosis = (
            "The width is far too small, so that each prediction is a single value. "
            "This happens if the loss includes the own pair of each key. If yours does "
            "not, check that the descent starts at `width` and each step with zero_grad()."
        )
    elif found > 1.5 * max(width, best):
        diagnosis = (
            "The width is far too large, so that every prediction is nearly the mean of "
            "all values. Is the loss maximised instead of minimised, is the initial width used as "
            "its logarithm, or does a step not start with zero_grad()?"
        )
    else:
        diagnosis = (
            "The loss can still decrease. Are there enough steps that are large enough, do they "
            "minimise the loss of all pairs and components, and is the final width returned?"
        )
    raise CheckFailed(f"  learn_width: {diagnosis}{measured}")


# Part 4


def _of_the_contexts(got: Any, recorded: Recorded) -> str:
    """Say what is wrong with contexts whose weights are right."""
    if getattr(got, "shape", None) == recorded.expected["contexts"].shape:
        return "The weights are correct, but the contexts are not: they are weights @ values."
    return ""


@_parts.part("combined scores", "both", "either", "answer")
def answers(both: object, either: object, answer: object, thorough: bool = False) -> None:
    """Check the combined scores of two conditions, and pooling without excluded pairs."""
    _topic.examine("both", both, thorough)
    _topic.examine("either", either, thorough)
    _topic.examine("answer", answer, thorough, explain=_of_the_contexts)


# Part 5


@_parts.part("changed weights", "predict")
def predictions(predict: object, thorough: bool = False) -> None:
    """Check predictions of changed weights and contexts, from the weights alone."""
    _topic.examine("predict", predict, thorough)


# Part 6


@_parts.part("batched pooling", "corrected_pooling")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Test a batched pooling in which each pair has its own width, one property at a time."""
    _topic.examine(
        "corrected_pooling", candidate, thorough, properties=_PROPERTIES, tidy=_without_nan
    )


TURNED = "Nothing is masked here: is the mask inverted? True means that a pair may be attended to."


def _without_nan(answer: Any, asked: Inputs) -> Any:
    contexts, weights = expect_pair(answer, ("contexts", "weights"), asked)
    if type(weights) is Tensor and weights.isnan().any():
        zeros = "In a fully masked database, the weights must be 0."
        raise CheckFailed(
            f"  Some weights are NaN. {TURNED if asked['mask'].all() else zeros}\n{describe(asked)}"
        )
    return contexts, weights


def _expect_sums(results: Results, asked: Inputs) -> None:
    """Require that the weights of each query sum to 1 over the keys."""
    batch, queries, _ = asked["query"].shape
    weights = expect_tensor(
        results["weights"], (batch, queries, asked["keys"].size(1)), "weights", asked
    )
    if _ones(weights.sum(dim=2)):
        return
    over = ""
    if _ones(weights.sum(dim=1)):
        over = " They sum to 1 over the queries: is the softmax applied over the wrong axis?"
    over = over if weights.count_nonzero() else f" All weights are 0. {TURNED}"
    raise CheckFailed(
        f"  The weights of a query do not sum to 1 over the keys, although nothing is masked.{over}"
        f"\n{describe(asked)}\n  got sums    {show(weights.sum(dim=2)[0])} (first of the batch)"
    )


def _ones(sums: Tensor) -> bool:
    return torch.allclose(sums, torch.ones_like(sums), atol=1e-4)


def _expect_some(results: Results, asked: Inputs) -> None:
    """Require a positive weight where masked pairs are nearer than all others."""
    if results["weights"].sum() < 0.01:
        raise CheckFailed(
            "  All weights are 0. The real pairs are far from the query here, so exp(score) alone "
            "is rounded to 0, and a masked pair is near: its score must be far below all others "
            f"before the softmax.\n{describe(asked)}"
        )


def _expect_none(results: Results, asked: Inputs) -> None:
    """Require that all weights are 0 in a fully masked database, the last one."""
    if results["weights"][-1].count_nonzero():
        raise CheckFailed(
            "  In a fully masked database, some pairs have positive weights. All weights must be 0."
            f"\n{describe(asked)}"
        )


SUMS, MASK, NOTHING = (
    "the weights of each query sum to 1",
    "the mask",
    "fully masked databases",
)
_PROPERTIES: dict[str, Callable[[Results, Inputs], None]] = {
    SUMS: _expect_sums,
    MASK: _expect_some,
    NOTHING: _expect_none,
}
