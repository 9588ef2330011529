"""Lists, dicts, sets, arrays and tensors of which each end has its own copy.

In one process, a list that a test gave to the student's code, or received from it, is one object. A
test that asks for copies depends on this: ``s.items().append(2)`` must not change ``s``. Therefore
both ends remember such objects under a common number, and send what has changed since the last
message. The examiner's end forgets an object when no test uses it any more.
"""

import itertools
import operator
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from attentively_grader.wire import pandas_data
from attentively_grader.wire.shared_objects import frozen_same

EACH = 2**21
"""Distance between the first numbers of two requests."""
_MOST = 50_000
"""Maximum number of elements in all objects that are remembered; the oldest are forgotten."""
_SMALLEST = 10
"""What an object counts even if it is empty."""


@dataclass
class _Copy:
    value: Any
    before: Any
    """Its content at the last message."""
    size: int
    has_version: bool = False
    """Whether it is a tensor whose version number tells of changes."""


class Copies:
    """The copies at one end, by number."""

    def __init__(self) -> None:
        self._copies: dict[int, _Copy] = {}
        self._requests = 0
        self._size = 0

    def first(self) -> int:
        """Return the first number for the objects of a new request and of its answer."""
        self._requests += 1
        return self._requests * EACH

    def add(self, first: int, values: Iterable[Any]) -> None:
        """Remember the objects of a request and of its answer, in the order of encoding."""
        for number, value in enumerate(values, start=first):
            size = _size(value) + _SMALLEST
            if number >= first + EACH or size > _MOST:
                continue
            has_version = isinstance(value, Tensor) and not value.is_inference()
            self._copies[number] = _Copy(value, _content(value), size, has_version)
            self._size += size
            while self._size > _MOST:
                self.forget([next(iter(self._copies))])

    def forget(self, numbers: Iterable[Any]) -> None:
        """Forget objects."""
        for number in numbers:
            copy = self._copies.pop(number, None)
            self._size -= 0 if copy is None else copy.size

    def unused(self) -> list[int]:
        """Forget the objects that nothing else at this end refers to; return their numbers."""
        numbers: list[int] = []
        while True:
            found = [
                number
                for number, copy in self._copies.items()
                if sys.getrefcount(copy.value) <= _ALONE
            ]
            if not found:
                return numbers
            self.forget(found)
            numbers += found

    def changed(self) -> Iterator[tuple[int, Any]]:
        """Yield the objects whose content has changed since the last message."""
        for number, copy in self._copies.items():
            if copy.has_version and copy.value._version == copy.before:
                continue  # most copies are tensors, so they are compared first
            if not _holds(copy.value, copy.before):
                copy.before = _content(copy.value)
                yield number, copy.value

    def values(self) -> dict[int, Any]:
        """Return the objects by number."""
        return {number: copy.value for number, copy in self._copies.items()}

    def is_known(self, number: Any) -> bool:
        """Return whether an object of this number is remembered."""
        return type(number) is int and number in self._copies

    def knows(self, number: int) -> None:
        """Note that the other end has the present content of an object."""
        copy = self._copies[number]
        copy.before = _content(copy.value)


def _references_of_a_copy() -> int:
    copies = {0: _Copy([], None, 0)}
    return next(sys.getrefcount(copy.value) for copy in copies.values())


_ALONE = _references_of_a_copy()


def _size(value: Any) -> int:
    if isinstance(value, Tensor):
        return 0  # its version number is compared, not its content
    if pandas_data.is_pandas(value):
        return int(value.size)
    return value.nbytes // 8 if isinstance(value, np.ndarray) else len(value)


def _content(value: Any) -> Any:
    if isinstance(value, Tensor):
        return 0 if value.is_inference() else value._version
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if pandas_data.is_pandas(value):
        return pandas_data.parts(value)
    return [*_elements(value)]


def _holds(value: Any, before: Any) -> bool:
    """Return whether a value still has the content `before`; a list is compared without a copy."""
    if isinstance(before, list):
        size = 2 * len(value) if isinstance(value, dict) else len(value)
        return size == len(before) and all(map(operator.is_, _elements(value), before))
    now = _content(value)
    return frozen_same(before, now) if isinstance(before, tuple) else bool(before == now)


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return list.__iter__(value)  # a student's subclass may iterate in another way
    return itertools.chain(value, value.values()) if isinstance(value, dict) else value
