"""Mistakes that any answer can make, each with the words of its message.

A behaviour turns a right answer into a wrong one: it returns nothing, a list, or a tensor without a
gradient, it writes into its inputs, or it ends the process. The tests run every behaviour against
every question that it fits.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attentively.checks.edits import Answer
from attentively.checks.question import Case, Recording

Change = Callable[[Any], Any]
"""Maps one result of the right answer to a wrong one."""


class Behaviour(NamedTuple):
    """A wrong answer and the words of its message."""

    name: str
    answer: Answer
    words: str


class EqualToAnything:
    """An object that is equal to everything and has the attributes of a tensor."""

    shape = torch.Size([1, 3])
    dtype = torch.float32
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class AnsweringTensor(Tensor):
    """A tensor that answers every comparison with True."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        """Return True, whatever is asked."""
        return True


# A name, what becomes of each result, and the words, in which {what} is the name of the result
_OF_TENSORS: list[tuple[str, Change, str]] = [
    ("a list", lambda value: value.tolist(), "Expected {what} as a torch.Tensor, got a"),
    ("one more axis", lambda value: value.unsqueeze(-1), "The shape of {what} is"),
    ("float64", lambda value: value.double(), "The dtype of {what} is torch.float64"),
    ("sparse", lambda value: value.to_sparse(), "the layout is torch.sparse_coo, expected a dense"),
    ("a subclass", lambda value: value.as_subclass(AnsweringTensor), "got an AnsweringTensor"),
    ("random", lambda value: value + torch.rand(()), "two different answers"),
]
_OF_VALUES: list[tuple[str, Change, str]] = [
    ("random", lambda value: str(torch.rand(()).item()), "two different answers"),
]
_OF_INTEGERS: list[tuple[str, Change, str]] = [
    ("floats", lambda value: in_floats(value), "a float. A count or an index is exact"),
]
_OF_ALL: list[tuple[str, Change, str]] = [
    ("equal to anything", lambda value: EqualToAnything(), "EqualToAnything"),
]


def behaviours(answer: Answer, recording: Recording) -> Iterator[Behaviour]:
    """Yield the wrong answers that fit a question, made from its right answer."""
    first = recording.cases[0]
    what, expected = recording.look[0], first.expected[recording.look[0]]
    of_kind = _OF_TENSORS if isinstance(expected, Tensor) else _OF_VALUES
    exact = any(
        repr(in_floats(each.expected[what])) != repr(each.expected[what])
        for each in recording.cases
    )
    for name, change, words in of_kind + _OF_INTEGERS * exact + _OF_ALL:
        if name == "float64" and recording.either_precision:
            continue
        yield Behaviour(name, _changed(answer, recording, change), words.format(what=what))
    yield Behaviour("no return", _around(answer, after=lambda value: None), "is there a `return`?")
    yield Behaviour("exit", _around(answer, before=_exit), "raises SystemExit")
    written = next((n for n, v in first.case.inputs.items() if _is_writable(v)), None)
    if written:
        place = [*first.case.inputs].index(written)

        def write(inputs: tuple[Any, ...]) -> None:
            with torch.no_grad():
                inputs[place].mul_(1.0001).add_(0.0001)

        yield Behaviour("writes", _around(answer, before=write), f"changes its input {written}")
    if any(_learns(each.case) for each in recording.cases):
        detached = _changed(answer, recording, lambda value: value.detach())
        yield Behaviour("detached", detached, "no gradient flows")


def in_floats(value: Any) -> Any:
    """Return a value with its integers as floats."""
    if isinstance(value, dict):
        return {key: in_floats(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return type(value)(map(in_floats, value))
    if isinstance(value, Tensor):
        return value if value.dtype.is_floating_point else value.double()
    return float(value) if type(value) is int else value


def _exit(inputs: tuple[Any, ...]) -> None:
    raise SystemExit(0)


def _is_writable(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _learns(case: Case) -> bool:
    return any(isinstance(each, Tensor) and each.requires_grad for each in case.inputs.values())


def _changed(answer: Answer, recording: Recording, change: Change) -> Answer:
    """Return the answer with a change of the first result that is compared."""
    names = [*recording.results]
    place = names.index(recording.look[0])

    def after(value: Any) -> Any:
        if recording.keyed:
            return {**value, names[place]: change(value[names[place]])}
        if len(names) == 1:
            return change(value)
        if isinstance(value, dict):
            return dict(zip(value, after(tuple(value.values())), strict=True))
        return tuple(change(each) if i == place else each for i, each in enumerate(value))

    return _around(answer, after=after)


def _around(
    answer: Answer,
    before: Callable[[tuple[Any, ...]], None] = lambda inputs: None,
    after: Change = lambda value: value,
) -> Answer:
    """Return the answer with something done before each call and after it."""
    if isinstance(answer, type):

        class Changed(answer):  # type: ignore[misc, valid-type]
            def forward(self, *inputs: Any) -> Any:
                before(inputs)
                return after(super().forward(*inputs))

        Changed.__name__ = answer.__name__
        return Changed

    def changed(*inputs: Any) -> Any:
        before(inputs)
        return after(answer(*inputs))

    return changed
