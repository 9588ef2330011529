"""Call a candidate, a student's function or class, and examine what the call does.

A call must not change its inputs, must give the same answer twice, and must let gradients through.
"""

import linecache
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TypeGuard

import torch
from torch import Tensor

from attentively.checks import given_models, own_functions
from attentively.checks.compare import (
    ATOL,
    RTOL,
    CheckFailed,
    NotImplementedYet,
    alike,
    contains_tensors,
    copied,
    describe,
    is_plain,
    kind_of,
    unchanged,
)


def call(candidate: object, inputs: Mapping[str, object], *, trains: bool = False) -> object:
    """Call the candidate with copies of the inputs and return its answer.

    An exception becomes a `CheckFailed` that names the line. A `NotImplementedError` without a
    message, as in a released notebook, becomes `NotImplementedYet`. A candidate that changes its
    inputs is rejected, and so is one that changes the weights of a model, unless it `trains` it.
    """
    if not callable(candidate):
        raise CheckFailed(f"  Expected a function or class, got {kind_of(candidate)}")
    given = {name: copied(value) for name, value in inputs.items()}
    weights = [] if trains else given_models.weights_of(candidate, given)
    try:
        answer = candidate(*given.values())
    except KeyboardInterrupt:
        raise
    except NotImplementedError as error:
        if str(error):
            raise _raised(error, inputs) from None
        name = _unwritten(error)
        hint = "" if name in ("", "<module>", _name(candidate)) else f": {name} is not written"
        raise NotImplementedYet(hint) from None
    except BaseException as error:  # sys.exit() in an answer must not end the check
        if own_functions.is_refusal(error):
            raise
        raise _raised(error, inputs) from None
    changed = given_models.changed(weights)
    if changed:
        raise CheckFailed(
            f"  Your code changes {changed}, a tensor of the model that it was given and that the "
            "caller still needs. Compute with the model, and leave its weights as they are."
            f"\n{describe(inputs)}"
        )
    for name, value in inputs.items():
        if not unchanged(given[name], value):
            advice = (
                "Create a new tensor instead of writing into this one: avoid += and methods whose "
                "name ends in _."
                if isinstance(value, Tensor)
                else "list(...) and dict(...) copy only the container: clone the tensors in it, or "
                "create new ones instead of using += and methods whose name ends in _."
                if contains_tensors(value)
                else "Change a copy instead: list(...) or dict(...)."
            )
            raise CheckFailed(
                f"  Your code changes its input {name}, which the caller still needs. {advice}"
                f"\n{describe(inputs)}"
            )
    return answer


def call_twice(candidate: object, inputs: Mapping[str, object]) -> object:
    """Call the candidate twice; both calls must return the same tensors and plain values."""
    first = call(candidate, inputs)
    expect_same(first, call(candidate, inputs), inputs)
    return first


def expect_same(first: object, second: object, inputs: Mapping[str, object]) -> None:
    """Require that two calls with the same inputs gave the same tensors and plain values."""
    if is_plain(first) and is_plain(second) and not alike(first, second):
        raise CheckFailed(
            "  Called twice with the same inputs, your code gives two different answers. Does it "
            "use random numbers, does a call change something that the next call uses, or does the "
            "result depend on the order of a set?"
            f"\n{describe(inputs)}"
        )
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        for one, other in zip(first, second, strict=False):
            expect_same(one, other, inputs)
    if not (_is_dense(first) and _is_dense(second)):
        return
    one, other = first.detach(), second.detach()
    if one.shape != other.shape or not torch.allclose(one, other, RTOL, ATOL, equal_nan=True):
        raise CheckFailed(
            "  Called twice with the same inputs, your code gives two different answers. Does "
            "it use dropout or other random numbers, or does a call change something that the "
            "next call uses?"
            f"\n{describe(inputs)}"
        )


def _is_dense(value: object) -> TypeGuard[Tensor]:
    return type(value) is Tensor and value.layout == torch.strided


def _raised(error: BaseException, inputs: Mapping[str, object]) -> CheckFailed:
    text = f"  Your code raises {type(error).__name__}: {str(error).strip() or '(no message)'}"
    where = _student_frame(error)
    if where is not None:
        frame, number = where
        linecache.checkcache()
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
        text += f"\n  in {frame.f_code.co_name}, line {number}: {line}"
    if "torch.return_types" in str(error):
        text += "\n  With dim, max and min return values and indices: use .values."
    return CheckFailed(f"{text}\n{describe(inputs)}")


def _unwritten(error: BaseException) -> str:
    """Return the name of the student's function that raised the error, with its class."""
    where = _student_frame(error)
    return where[0].f_code.co_qualname.rpartition("<locals>.")[2] if where else ""


def _student_frame(error: BaseException) -> tuple[FrameType, int] | None:
    """Return the innermost frame that is neither in this package nor in a library, and its line."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not frame.f_code.co_filename.startswith(own_functions.LIBRARIES):
            return frame, line
    return None


def expect_gradients(
    output: Tensor, sources: Mapping[str, Tensor], nan: str = ""
) -> dict[str, Tensor]:
    """Return the gradients of the output with respect to the sources, by name.

    Rejects the output unless a finite, nonzero gradient reaches each source.
    """
    for name, source in sources.items():
        if not source.requires_grad:
            raise CheckFailed(
                f"  The values are right, but {name}.requires_grad is False, so {name} receives no "
                "gradient. Does your code switch it off, for example with requires_grad_(False)?"
            )
    if not output.requires_grad:
        raise CheckFailed(
            "  The values are right, but no gradient flows through them, so nothing could be "
            "learned. Does your code use .item(), .detach(), .data, torch.tensor(...) or "
            "torch.no_grad()?"
        )
    try:
        gradients = torch.autograd.grad(_goal(output), list(sources.values()), allow_unused=True)
    except RuntimeError as error:
        raise CheckFailed(
            "  The values are right, but the backward pass through them fails. Does your code "
            "overwrite a tensor that the gradient needs, with +=, /= or a method whose name ends "
            f"in _? PyTorch says: {str(error).partition(':')[0]}."
        ) from None
    for name, gradient in zip(sources, gradients, strict=True):
        if gradient is None or not gradient.count_nonzero():
            raise CheckFailed(
                f"  The values are right, but no gradient reaches {name}, so nothing before it "
                "can be trained. Does .item(), .detach(), .data or torch.tensor(...) interrupt the "
                "computation graph?"
            )
        if not gradient.isfinite().all():
            raise CheckFailed(
                f"  The values are right, but the gradient of {name} contains NaN or infinity.{nan}"
            )
    return dict(zip(sources, gradients, strict=True))


def expect_gradients_through(
    candidate: object,
    inputs: Mapping[str, Tensor],
    sources: Mapping[str, Tensor],
    pick: Callable[..., Tensor] = lambda answer: answer,
    nan: str = "",
    slopes: bool = True,
) -> None:
    """Call the candidate on the inputs themselves and check the gradients of one output.

    The gradient of a source that is an input must also agree with finite differences. This is
    skipped if `nan`, a hint for difficult inputs, is given, because the output may have no slope
    there. ``slopes=False`` skips it for a check that compares the gradients itself.
    """

    def on_the_inputs_themselves(*_: Tensor) -> object:
        return candidate(*inputs.values())  # type: ignore[operator]

    answer = call(on_the_inputs_themselves, inputs)
    gradients = expect_gradients(pick(answer), sources, nan=nan)
    for name, source in sources.items():
        if slopes and not nan and any(value is source for value in inputs.values()):
            _expect_slope(candidate, inputs, name, source, gradients[name], pick)


def _goal(output: Tensor) -> Tensor:
    """Return a weighted sum of an output; a plain sum of attention weights is constant."""
    return (output * torch.linspace(-1, 1, output.numel()).reshape(output.shape)).sum()


def _expect_slope(
    candidate: object,
    inputs: Mapping[str, object],
    name: str,
    source: Tensor,
    gradient: Tensor,
    pick: Callable[..., Tensor],
) -> None:
    """Reject a gradient that disagrees with central differences in a random direction.

    A slope that seems to disagree is measured again with another step size. If the two slopes
    differ, as at a kink or a jump, or if rounding dominates, the gradient is accepted.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        direction = torch.randn(source.shape, generator=generator).to(source.dtype)

        def moved(by: float, along: Tensor = direction) -> float:
            there = source.detach() + by * along
            given = {n: there if value is source else value for n, value in inputs.items()}
            return float(_goal(pick(call(candidate, given)).detach().double()))

        def slope(step: float, at: Callable[[float], float] = moved) -> float:
            return (at(step) - at(-step)) / (2 * step)

        said = float((gradient * direction).sum())
        measured = slope(1e-2)
        if abs(said - measured) <= 0.1 * max(abs(said), abs(measured)):
            continue
        again = slope(2e-2)
        size = max(abs(said), abs(measured), abs(again))
        if abs(again - measured) > 0.02 * size or size < 1e-3 * (1 + abs(moved(0.0))):
            continue
        if abs(said - measured) > 0.1 * size:
            raise CheckFailed(
                f"  The values are right, but the gradient of {name} is not: a part of it is "
                f"missing. Is one of the paths from {name} to the answer interrupted by .detach(), "
                f".data, .item() or torch.no_grad()?\n  measured    slope by finite differences "
                f"{measured:.4g}, slope by the gradient {said:.4g}"
            )


def _name(candidate: object) -> str:
    return getattr(candidate, "__name__", "")
