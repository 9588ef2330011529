"""The plain form of a value that is almost plain data: a subclass, a view, an iterator.

The student process converts its own answers, so that an honest answer of such a type is not turned
down. The examiner relies on none of this: it rebuilds plain data from bytes.
"""

import array
import collections
import datetime
import enum
import itertools
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentively_grader.wire import pandas_data
from attentively_grader.wire.messages import WireError

MOST_ITEMS = 200_000
"""Maximum number of elements of an iterator."""


class Items(list[Any]):
    """The elements of an iterator, which arrive behind an iterator."""


_COPIES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (complex, lambda value: complex(complex.__complex__(value))),
    (str, str.__str__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (bytearray, lambda value: bytearray(memoryview(value))),
    (list, lambda value: list.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
    (collections.Counter, lambda value: _filled(collections.Counter(), value)),
    (collections.OrderedDict, lambda value: _filled(collections.OrderedDict(), value)),
    (dict, lambda value: _filled({}, value)),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (collections.deque, lambda value: collections.deque(value, value.maxlen)),
    (array.array, lambda value: array.array(value.typecode, value.tobytes())),
    (Fraction, lambda value: Fraction(value.numerator, value.denominator)),
    (Decimal, lambda value: Decimal(value)),
    (datetime.datetime, lambda value: with_fixed_offset(value)),
    (datetime.date, lambda value: datetime.date(value.year, value.month, value.day)),
    (datetime.time, lambda value: with_fixed_offset(value)),
    (
        datetime.timedelta,
        lambda value: datetime.timedelta(value.days, value.seconds, value.microseconds),
    ),
    (np.ndarray, lambda value: value.view(np.ndarray)),
    (collections.UserDict, lambda value: _filled(collections.UserDict(), value.data)),
    (collections.UserList, lambda value: collections.UserList(value.data)),
    (collections.UserString, lambda value: collections.UserString(value.data)),
    (types.MappingProxyType, lambda value: collections.UserDict(dict(value))),
    (collections.ChainMap, lambda value: collections.UserDict(dict(value))),
)

_MAPPINGS = (types.MappingProxyType, collections.ChainMap)


def plain_form(value: Any, live: bool) -> Any:
    """Return the plain form of a value, or the value itself if it has none.

    With `live`, an iterator and an object whose class adds methods stay as they are.
    """
    kind = type(value)
    if isinstance(value, Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Tensor)
    if isinstance(value, np.str_ | np.bytes_):
        return value.item()
    if live and not isinstance(value, enum.Enum) and _is_own(value):
        return value
    for base, copy in _COPIES:
        if isinstance(value, base) and (kind is not base or base in _MAPPINGS):
            return copy(value)
    if pandas_data.is_pandas(value):
        return pandas_data.without_subclass(value)
    if isinstance(value, Iterator) and not live:
        items = Items(itertools.islice(value, MOST_ITEMS + 1))
        if len(items) > MOST_ITEMS:
            raise WireError(f"an iterator of more than {MOST_ITEMS} elements is too large")
        return items
    return value


def _is_own(value: Any) -> bool:
    """Return whether an object has public attributes of its own, or of a class of the notebook."""
    classes = [each for each in type(value).__mro__ if each.__module__ == "__main__"]
    attributes = [name for each in classes for name in vars(each)]
    return any(not name.startswith("_") for name in (*attributes, *getattr(value, "__dict__", ())))


def _filled(empty: Any, value: Any) -> Any:
    for key, item in dict.items(value):
        empty[key] = item
    return empty


def with_fixed_offset(value: Any) -> Any:
    """Return an exact date and time, or time, whose time zone is a fixed offset."""
    offset = value.utcoffset()
    zone = None if offset is None else datetime.timezone(offset)
    parts = [value.hour, value.minute, value.second, value.microsecond]
    if isinstance(value, datetime.datetime):
        start = datetime.datetime(value.year, value.month, value.day)
        clock = datetime.time(*parts)
        return datetime.datetime.combine(start, clock).replace(tzinfo=zone)
    return datetime.time(*parts).replace(tzinfo=zone)
