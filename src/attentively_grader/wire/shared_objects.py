"""Objects that both ends know: a table of names, and their changes since the last message.

Each object in the table has one end that holds the real one, and one that holds what stands for it.

tensor   parameters, buffers and leaves that ask for a gradient: the same numbers and the same
         `grad` at both ends; either may change them
whole    an instance of a class that both ends can import, held by the examiner: the student's
         process has a copy of it, and what either end does to it, the other sees
module   an `nn.Module` whose class only one end has: the other has a module of the same
         parameters, buffers and children, which calls it
handle   anything else: the other end can call it and ask for what it has

The examiner's end forgets what nobody there uses any more, and says so with the next message.
"""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentively_grader.wire.messages import WireError

MODULE_STATE = ("training", "_parameters", "_buffers", "_modules")
_SCALARS = (type(None), bool, int, float, str, bytes, complex)
_FRESH = vars(nn.Module())
Frozen = Any


@dataclass
class Entry:
    """One object of the table."""

    name: int
    kind: str
    mine: bool
    """Whether the real one is here."""
    value: Any
    lent: bool = False
    """Whether it is forgotten once nobody here uses it; the other end is told."""
    state: Any = None
    """How it was when a message last passed."""
    signature: Any = None


class Table:
    """The objects that both ends know, at one end."""

    def __init__(self, trusted: bool) -> None:
        self.trusted = trusted
        self.entries: dict[int, Entry] = {}
        self.names: dict[int, int] = {}
        """By `id`."""
        self._next = 0 if trusted else 1

    def add(self, value: Any, kind: str, name: int | None = None) -> Entry:
        """Take an object into the table; without a name it is ours."""
        mine = name is None
        if name is None:
            name, self._next = self._next, self._next + 2
        shared = kind in ("tensor", "whole")
        entry = Entry(name, kind, mine, value, self.trusted if shared else not mine)
        self.entries[name] = entry
        self.names[id(value)] = name
        return entry

    def name_of(self, value: Any) -> int | None:
        """Return the name of an object that is in the table."""
        return self.names.get(id(value))

    def value(self, name: Any) -> Any:
        """Return the object of a name; `KeyError` if there is none."""
        return self.entries[name].value

    def unused(self) -> list[int]:
        """Forget what is lent and no more used here; return the names.

        The ends take turns, so between this and the next message from the other end none of them
        can be mentioned.
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
        """Forget what the other end has forgotten."""
        for name in names:
            entry = self.entries.pop(name, None)
            if entry is not None and self.names.get(id(entry.value)) == name:
                del self.names[id(entry.value)]

    def live(self) -> Iterator[tuple[Entry, Any]]:
        """Yield what has a state, and the object."""
        for entry in [*self.entries.values()]:
            if entry.kind not in ("handle", "graph"):
                yield entry, entry.value


def _references_of_the_table() -> int:
    entries = {0: Entry(0, "handle", False, object(), True)}
    return next(sys.getrefcount(entry.value) for entry in entries.values())


_ALONE = _references_of_the_table()


def same_numbers(one: Tensor | None, other: Tensor | None) -> bool:
    """Tell whether two tensors are the same to the last bit, NaN included."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    return bool(((one == other) | ((one != one) & (other != other))).all())


def tensor_state(value: Tensor) -> tuple[Tensor, Tensor | None, bool]:
    """Return a copy of a tensor's numbers and gradient, to compare with later."""
    grad = value.grad if value.is_leaf else None
    return (
        value.detach().clone(),
        None if grad is None else grad.detach().clone(),
        value.requires_grad,
    )


def signature(value: Any, kind: str) -> tuple[Any, ...]:
    """Return what is quickly made, and differs if an instance's attributes have changed.

    It is of identities: what was there when the last message passed is held by `Entry.state`, so
    none of them is taken again.
    """
    held = vars(value)
    names = MODULE_STATE if kind == "module" else held
    found: list[Any] = []
    for name in names:
        each = held.get(name)
        found.append(id(each))
        if isinstance(each, dict):
            if each:
                found += map(id, each.values())
                found.append(len(each))
        elif isinstance(each, list | tuple | set):
            found.append(_inside(each))
        elif isinstance(each, Tensor):
            found.append(_version(each))
    return (*names, *found)


def _inside(values: Any) -> tuple[Any, ...]:
    return tuple(
        _inside(each)
        if type(each) in (list, tuple, set)
        else (id(each), _version(each))
        if isinstance(each, Tensor)
        else id(each)
        for each in values
    )


def attributes(value: Any, kind: str) -> dict[str, Any]:
    """Return the attributes of an instance that travel."""
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
    """Return what tells, compared by `thawed_same`, whether a value has changed."""
    kind = type(value)
    if kind in _SCALARS or depth > 8:
        return value
    if isinstance(value, dict):
        return kind, tuple((k, freeze(v, depth + 1)) for k, v in dict.items(value))
    if kind in (list, tuple, set):
        return kind, tuple(freeze(each, depth + 1) for each in value)
    return (value, _version(value)) if isinstance(value, Tensor) and value.is_leaf else value


def frozen_same(one: Frozen, other: Frozen) -> bool:
    """Tell whether two frozen values stand for the same."""
    if one is other:
        return True
    if type(one) is tuple and type(other) is tuple:
        return len(one) == len(other) and all(map(frozen_same, one, other))
    if type(one) in _SCALARS and type(one) is type(other):
        return bool(one == other or (one != one and other != other))
    return False


def freeze_attribute(name: str, value: Any) -> Frozen:
    """Freeze an attribute; of a module's parameters and children only which they are counts."""
    if name in MODULE_STATE and isinstance(value, dict):
        return type(value), tuple((k, v) for k, v in dict.items(value))
    return freeze(value)


def check_module_state(name: str, value: Any) -> None:
    """Refuse what is no module's state."""
    wanted: Any = {"_parameters": Tensor, "_buffers": Tensor, "_modules": nn.Module}.get(name)
    if wanted is None:
        right = type(value) is bool
    else:
        right = isinstance(value, dict) and all(
            type(key) is str and (each is None or isinstance(each, wanted))
            for key, each in value.items()
        )
    if not right:
        raise WireError("a module that came is malformed")


def has_nested(state: dict[str, Frozen]) -> bool:
    """Tell whether a frozen state has containers within dicts, which a signature does not see."""
    return any(
        type(each) is tuple
        and isinstance(each[0], type)
        and issubclass(each[0], dict)
        and any(type(pair[1]) is tuple for pair in each[1])
        for each in state.values()
        if each
    )
