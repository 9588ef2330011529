"""Offer what a student can import from the package as the answer of a part.

A part is asked for one or more names. Each is answered by every function and class in turn, and the
other names by right answers of the bank; what passes is a leak. To examine every offer would take
an hour, so each is first called as the check calls the right answer first. An offer that cannot
take the call, raises, or returns something of another kind or shape is no answer.
"""

import contextlib
import functools
import importlib
import inspect
import io
import pkgutil
import random
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from remembered import Remembered
from torch import Tensor, nn

import attentively
from attentively.checks import Part, Verdict

FEW_SECONDS, MOST_SECONDS = 0.1, 20
"""After so many seconds of CPU time a call of an offer is no answer, and a check is ended."""
_PROGRAMS = ("attentively.__main__", "attentively.cli")
"""Modules that are not imported: what is in them is the command line."""


@dataclass(frozen=True)
class Offer:
    """A function or class, with the shortest name under which a student can import it."""

    name: str
    value: Callable[..., object]

    @functools.cached_property
    def signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.value)
        except (TypeError, ValueError):
            return None


@functools.cache
def offers() -> list[Offer]:
    """Return the functions and classes of the package: the private ones of `checks` too."""
    # PyTorch imports it when it needs it, which takes two seconds: a time limit would interrupt it.
    importlib.import_module("torch._dynamo")
    found: dict[int, Offer] = {}
    for name in _modules():
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if hasattr(value, "cache_clear"):  # a cache would keep what it returns
                value = value.__wrapped__
            if not isinstance(value, types.FunctionType | type) or value.__module__ != name:
                continue
            if key.startswith("_") and not name.startswith("attentively.checks"):
                continue
            if _returns_nothing(value):
                continue
            found.setdefault(id(value), Offer(f"{name.partition('.')[2]}.{key}", value))
    return list(found.values())


def _modules() -> Iterator[str]:
    for each in pkgutil.walk_packages(attentively.__path__, "attentively."):
        if not each.name.startswith(_PROGRAMS):
            yield each.name


def _returns_nothing(value: Callable[..., object]) -> bool:
    if isinstance(value, type):
        return issubclass(value, BaseException)
    return value.__annotations__.get("return", ...) in (None, "None")


# The first call of each name


@dataclass
class Call:
    """How a check calls an answer first, and what the right answer returns."""

    args: tuple
    kwargs: dict
    result: object = None
    seconds: float = 0


@dataclass
class _Recorded:
    calls: list[Call] = field(default_factory=list)

    def of(self, answer):
        """Return an answer that notes its first call."""
        if isinstance(answer, type):
            return self._class(answer)

        @functools.wraps(answer)
        def recorded(*args, **kwargs):
            if self.calls:
                return answer(*args, **kwargs)
            call = Call(_copied(args), _copied(kwargs))
            started = time.process_time()
            call.result = answer(*args, **kwargs)
            call.seconds = time.process_time() - started
            self.calls.append(call)
            return call.result

        return recorded

    def _class(self, answer):
        note = self.calls.append

        class Recorded(answer):
            def __init__(self, *args, **kwargs):
                note(Call(args, kwargs, answer))
                super().__init__(*args, **kwargs)

        return Recorded


def first_calls(part: Part, right: tuple) -> list[Call]:
    """Return the first call of each name in a run of the check with right answers."""
    recorded = [_Recorded() for _ in right]
    said = _verdict(
        part, tuple(each.of(answer) for each, answer in zip(recorded, right, strict=True))
    )
    assert said is None, f"{part.label}: a right answer is refused:\n{said}"
    return [each.calls[0] for each in recorded]


def _verdict(part: Part, answers: tuple) -> str | None:
    """Return what a check says against answers, or None if they pass."""
    random.seed(0)
    np.random.seed(0)
    try:
        with contextlib.redirect_stdout(io.StringIO()), within_the_time():
            part(*answers)
    except Verdict as verdict:
        return str(verdict)
    except (Exception, _TooLongError) as error:  # an offer that ends a check is no answer
        return f"{type(error).__name__}: {error}"
    return None


class _TooLongError(BaseException):
    """The time of one call is over."""


@contextlib.contextmanager
def within_the_time(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """End what uses more CPU time, so that the result does not depend on other programs.

    Python ignores an exception that is raised during a garbage collection, and tells only
    `sys.unraisablehook` of it. So the signal comes again each second, and the hook, through which
    pytest reports such exceptions, is not told of this one and is itself not interrupted. The
    signal can also come while `torch.no_grad` is entered or left, which would then last: the mode
    is restored.
    """
    with_gradients = torch.is_grad_enabled()
    report_unraisable = sys.unraisablehook

    def stop(*_):
        raise _TooLongError

    def report_others(unraisable):
        if not issubclass(unraisable.exc_type, _TooLongError):
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            report_unraisable(unraisable)
            signal.signal(signal.SIGPROF, stop)

    before = signal.signal(signal.SIGPROF, stop)
    sys.unraisablehook = report_others
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        sys.unraisablehook = report_unraisable
        torch.set_grad_enabled(with_gradients)


def _copied(value):
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    return set(value) if type(value) is set else value


def may_answer(offer: Offer, call: Call) -> bool:
    """Say whether an offer takes a call and returns something like the right answer's result."""
    if offer.signature is None:
        return False
    try:
        offer.signature.bind(*call.args, **call.kwargs)
    except TypeError:
        return False
    if isinstance(call.result, type) != isinstance(offer.value, type) and (
        isinstance(call.result, type) or not _is_plain_class(offer.value)
    ):
        return False
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            torch.random.fork_rng(devices=[]),
            warnings.catch_warnings(),
            within_the_time(FEW_SECONDS + 10 * call.seconds),
        ):
            warnings.simplefilter("ignore")
            result = offer.value(*_copied(call.args), **_copied(call.kwargs))
    except KeyboardInterrupt:
        raise
    except BaseException:  # _TooLongError too: the next call may be a short one
        return False
    if isinstance(call.result, type):
        return isinstance(result, nn.Module) or not issubclass(call.result, nn.Module)
    return alike(result, call.result)


def _is_plain_class(value: object) -> bool:
    """Say whether a value is a class whose instances can be compared with plain data."""
    return not isinstance(value, type) or issubclass(value, tuple | dict | list | str | int | float)


def alike(result: object, right: object) -> bool:
    """Say whether two results are of one kind and shape."""
    numbers = (bool, int, float, np.number)
    if isinstance(right, numbers):
        return isinstance(result, numbers) or (isinstance(result, Tensor) and result.numel() == 1)
    if isinstance(right, Tensor):
        if isinstance(result, numbers):
            return right.numel() == 1
        return isinstance(result, Tensor) and result.shape == right.shape
    if isinstance(right, list | tuple):
        return isinstance(result, list | tuple) and len(result) == len(right)
    if isinstance(right, dict):
        return isinstance(result, dict) and set(result) == set(right)
    for kind in (str, set | frozenset):
        if isinstance(right, kind):
            return isinstance(result, kind)
    return True


# The search


def leaks_of(part: Part, right: tuple, offered: list[Offer]) -> dict[str, list[str]]:
    """Return, for each name that a part asks for, the offers that pass in its place."""
    found: dict[str, list[str]] = {}
    calls = zip(part.names, first_calls(part, right), strict=True)
    with Remembered(right).left_out():
        for place, (name, call) in enumerate(calls):
            for offer in offered:
                answers = (*right[:place], offer.value, *right[place + 1 :])
                if may_answer(offer, call) and _verdict(part, answers) is None:
                    found.setdefault(name, []).append(offer.name)
    return found
