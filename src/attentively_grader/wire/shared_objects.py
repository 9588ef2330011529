"""Objects that both ends know: a table of names, and their changes since the last message.

One end has the real object, the other end has its counterpart. There are four kinds:

tensor   parameters, buffers and leaves that require a gradient: both ends have the same values and
         the same `grad`, and either end may change them
whole    an instance of a class that both ends can import: the examiner has the original, the
         student process a copy, and changes at either end are sent to the other
module   an `nn.Module` whose class only one end has: the other end has a module with the same
         parameters, buffers and children, which calls the original
handle   anything else: the other end can call it and read its attributes

The examiner removes objects that are no longer used there, and reports this with the next message.
"""

import operator
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentively_grader.wire.messages import WireError

_NOT_SAVED = "_non_persistent_buffers_set"
MODULE_STATE = ("training", "_parameters", "_buffers", "_modules", _NOT_SAVED)
_SCALARS = (type(None), bool, int, float, str, bytes, complex)
_FRESH = vars(nn.Module())
Frozen = Any


@dataclass
class Entry:
    """One object of the table."""

    name: int
    kind: str
    mine: bool
    """Whether this end has the real object."""
    value: Any
    lent: bool = False
    """Whether it is removed when this end no longer uses it; the other end is told."""
    state: Any = None
    """Its state at the last message."""
    contents: "Contents | None" = None
    """What its attributes held then; None if they must be compared with the state."""
    key: str | None = None
    """The call that the object was given to last."""
    ended: bool = False
    """Whether this call has ended."""


class Table:
    """The table of the objects that both ends know, at one end."""

    def __init__(self, trusted: bool) -> None:
        self.trusted = trusted
        self.entries: dict[int, Entry] = {}
        self.names: dict[int, int] = {}
        """Names by `id`."""
        self._next = 0 if trusted else 1

    def add(self, value: Any, kind: str, name: int | None = None) -> Entry:
        """Add an object to the table; without a name, it belongs to this end."""
        mine = name is None
        if name is None:
            name, self._next = self._next, self._next + 2
        shared = kind in ("tensor", "whole")
        entry = Entry(name, kind, mine, value, self.trusted if shared else not mine)
        self.entries[name] = entry
        self.names[id(value)] = name
        return entry

    def name_of(self, value: Any) -> int | None:
        """Return the name of an object in the table, or None."""
        return self.names.get(id(value))

    def value(self, name: Any) -> Any:
        """Return the object of a name; raise `KeyError` if there is none."""
        return self.entries[name].value

    def unused(self) -> list[int]:
        """Remove the lent objects that this end no longer uses; return their names.

        The ends take turns, so the other end cannot refer to them before it receives the next
        message.
        """
        names: list[int] = []
        more = True
        while more:
            found = [
                entry.name
                for entry in self.entries.values()
                if entry.lent and sys.getrefcount(entry.value) <= _ALONE
            ]
            self.drop(found)
            names += found
            more = bool(found)
        return names

    def drop(self, names: list[Any]) -> None:
        """Remove objects that the other end has removed."""
        for name in names:
            entry = self.entries.pop(name, None)
            if entry is not None and self.names.get(id(entry.value)) == name:
                del self.names[id(entry.value)]

    def live(self) -> Iterator[tuple[Entry, Any]]:
        """Yield the entries that have a state, with their objects."""
        for entry in [*self.entries.values()]:
            if entry.kind not in ("handle", "graph"):
                yield entry, entry.value


def _references_of_the_table() -> int:
    entries = {0: Entry(0, "handle", False, object(), True)}
    return next(sys.getrefcount(entry.value) for entry in entries.values())


_ALONE = _references_of_the_table()


def same_numbers(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether two tensors are exactly equal, with NaN equal to NaN."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    return bool(((one == other) | ((one != one) & (other != other))).all())


def tensor_state(value: Tensor) -> tuple[Tensor, Tensor | None, bool]:
    """Return a copy of a tensor's values and gradient, for later comparison."""
    grad = value.grad if value.is_leaf else None
    return (
        value.detach().clone(),
        None if grad is None else grad.detach().clone(),
        value.requires_grad,
    )


class Contents:
    """What the attributes of an instance, and the containers in them at any depth, hold.

    To compare them takes microseconds. They consist of identities and keep their objects alive, so
    that no identity is reused.
    """

    def __init__(self, held: dict[str, Any]) -> None:
        found = [*_inside(held.values())]
        tensors = [each for each in found if isinstance(each, Tensor)]
        self.tensors = [each for each in tensors if not each.is_inference()]
        """Those with a version number."""
        self.containers = [each for each in found if not isinstance(each, Tensor)]
        self.before = self._now(held)

    def is_now(self, held: dict[str, Any]) -> bool:
        """Return whether these attributes hold the same."""
        sizes, versions, objects = self._now(held)
        return (
            sizes == self.before[0]
            and versions == self.before[1]
            and len(objects) == len(self.before[2])
            and all(map(operator.is_, objects, self.before[2]))
        )

    def _now(self, held: dict[str, Any]) -> tuple[list[int], list[int], list[Any]]:
        objects = [*held, *held.values()]
        for each in filter(None, self.containers):  # most are empty
            objects += each
            if isinstance(each, dict):
                objects += each.values()
        return [*map(len, self.containers)], [each._version for each in self.tensors], objects


def _inside(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the containers whose content may change, and the tensors, at any depth."""
    seen: set[int] = set()
    waiting = [*values]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind in _SCALARS or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict) or kind in (list, set) or isinstance(each, Tensor):
            yield each
        if isinstance(each, dict):
            waiting += each.values()
        elif kind in (list, tuple, set):
            waiting += each


def may_have_changed(entry: Entry) -> bool:
    """Return whether the attributes of an instance may be others than in its state."""
    return entry.contents is None or not entry.contents.is_now(_held(entry))


def _held(entry: Entry) -> dict[str, Any]:
    held = vars(entry.value)
    if entry.kind == "module":
        held = {name: held[name] for name in MODULE_STATE if name in held}
    return held


def attributes(value: Any, kind: str) -> dict[str, Any]:
    """Return the attributes of an instance that are sent."""
    if kind == "module":
        return {name: vars(value)[name] for name in MODULE_STATE if name in vars(value)}
    found = dict(getattr(value, "__dict__", {}))
    for each in type(value).__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    if isinstance(value, nn.Module):
        found = {
            name: each
            for name, each in found.items()
            if not (
                name in _FRESH
                and (each is _FRESH[name] or (not each and type(each) in (OrderedDict, dict, set)))
                and name not in MODULE_STATE
            )
        }
    return found


def _version(value: Tensor) -> int:
    return 0 if value.is_inference() else value._version


def freeze(value: Any, depth: int = 0) -> Frozen:
    """Return a snapshot of a value, to detect changes with `frozen_same`."""
    kind = type(value)
    if kind in _SCALARS or depth > 8:
        return value
    if isinstance(value, dict):
        return kind, tuple((k, freeze(v, depth + 1)) for k, v in dict.items(value))
    if kind in (list, tuple, set):
        return kind, tuple(freeze(each, depth + 1) for each in value)
    return (value, _version(value)) if isinstance(value, Tensor) and value.is_leaf else value


def frozen_same(one: Frozen, other: Frozen) -> bool:
    """Return whether two snapshots are equal."""
    if one is other:
        return True
    if type(one) is tuple and type(other) is tuple:
        return len(one) == len(other) and all(map(frozen_same, one, other))
    if type(one) in _SCALARS and type(one) is type(other):
        return bool(one == other or (one != one and other != other))
    return False


def freeze_attribute(name: str, value: Any) -> Frozen:
    """Return a snapshot of an attribute; for parameters and children only their identities."""
    if name in MODULE_STATE and isinstance(value, dict):
        return type(value), tuple((k, v) for k, v in dict.items(value))
    return freeze(value)


def check_module_state(name: str, value: Any) -> None:
    """Raise `WireError` if a value is not a valid state of a module."""
    wanted: Any = {"_parameters": Tensor, "_buffers": Tensor, "_modules": nn.Module}.get(name)
    if name == _NOT_SAVED:
        right = type(value) is set and all(type(each) is str for each in value)
    elif wanted is None:
        right = type(value) is bool
    else:
        right = isinstance(value, dict) and all(
            type(key) is str and (each is None or isinstance(each, wanted))
            for key, each in value.items()
        )
    if not right:
        raise WireError("a received module is malformed")


def freeze_all(entry: Entry, now: dict[str, Any]) -> dict[str, Frozen]:
    """Set the state of an instance to a snapshot of these attributes, and return it."""
    entry.state = {name: freeze_attribute(name, each) for name, each in now.items()}
    entry.contents = Contents(_held(entry)) if hasattr(entry.value, "__dict__") else None
    return entry.state
