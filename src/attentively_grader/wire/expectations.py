"""Which kind of value the tests expect at each call, as the instructor's solution returned it.

The solution is graded first. Each value that arrives from its calls, attributes and names is
recorded by the remote path: the way in which the test reached it, such as ``"Stack().push()"``.
Values inside a container have the path of the container followed by ``"[]"``. When a student's
notebook is graded, an object, function or iterator is accepted only where the solution had one.
Elsewhere the value must be plain data.

The path of an object of the student is derived from the class that the solution had there, never
from what the student process says.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from attentively_grader.wire.conversation import Conversation
from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.messages import UnexpectedValue
from attentively_grader.wire.module_proxies import RemoteModule
from attentively_grader.wire.proxies import RemoteFunction, RemoteObject, RemoteType

_PATH = "_path"
_LIVE = ("function", "class", "object", "module", "iterator", "given")
_MOST_KINDS = 40
_SIZED = ("plain Tensor", "plain ndarray", "plain DataFrame", "plain Series")
_NOUNS = {
    "Tensor": "a tensor", "ndarray": "an array", "int": "a number", "float": "a number",
    "str": "a string", "NoneType": "None", "list": "a list", "tuple": "a tuple", "dict": "a dict",
    "bool": "a truth value", "DataFrame": "a DataFrame", "Series": "a Series",
}  # fmt: skip


def key_of(operation: str, arguments: tuple[Any, ...]) -> str | None:
    """Return the remote path of the result of an operation; None for the grader's own requests."""
    if operation not in ("call", "get", "method", "set", "delete"):
        return None
    path = vars(arguments[0]).get(_PATH, "object()")
    if operation == "call" or (operation == "method" and arguments[1] == "__call__"):
        return f"{path}()"
    return f"{path}.{arguments[1]}" + ("()" if operation == "method" else "")


def inside(key: str) -> str:
    """Return the path of the elements of a container."""
    return f"{key}[]"


def given_to_callbacks(key: str) -> str:
    """Return the path of the values that a call passes to the functions it was given."""
    return f"{key} passes"


def is_live(kind: str) -> bool:
    """Return whether a recorded kind is a live object instead of plain data."""
    return kind.partition(" ")[0] in _LIVE


def allowed(endpoint: Conversation, key: str) -> list[bool]:
    """Return whether live objects and records are allowed at a path, and inside containers."""
    found = []
    for place in (key, inside(key)):
        kinds = endpoint.expected.get(place, ())
        found.append(any(map(is_live, kinds)))
        found.append(any(kind.startswith("record ") for kind in kinds))
    found.append(any(map(is_live, endpoint.expected.get(given_to_callbacks(key), ()))))
    return found


def note(endpoint: Conversation, key: str, kind: str) -> None:
    """Record a kind at a path."""
    kinds = endpoint.returned.setdefault(key, [])
    if kind not in kinds and len(kinds) < _MOST_KINDS:
        kinds.append(kind)


def was_noted(endpoint: Conversation, key: str | None, kind: str) -> bool:
    """Return whether the solution did the same; when the solution itself runs, record it."""
    if key is None:
        return False
    if endpoint.recording:
        note(endpoint, key, kind)
        return True
    return kind in endpoint.expected.get(key, ())


def check(endpoint: Conversation, key: str, value: Any, decoder: Decoder) -> None:
    """Record an arrived value, or raise `UnexpectedValue` if the solution's was of another kind."""
    noted = (*decoder.arrays, *decoder.live)
    is_other = not isinstance(value, np.ndarray) and not any(each is value for each in noted)
    if endpoint.recording and is_other:
        note(endpoint, key, f"plain {type(value).__name__}")
    for each in decoder.live:
        _check_live(endpoint, key if each is value else inside(key), each)
    for each in decoder.arrays:
        _check_size(endpoint, key if each is value else inside(key), each)


def check_passed(endpoint: Conversation, key: str | None, target: Any, decoder: Decoder) -> None:
    """Check the arguments of a call of one of the test's functions."""
    place = "" if key is None else given_to_callbacks(key)
    for each in decoder.live:
        if each is not target:
            _check_live(endpoint, place, each)


def _check_live(endpoint: Conversation, place: str, value: Any) -> None:
    kind = _kind(endpoint, value)
    if endpoint.recording:
        note(endpoint, place, kind)
        kinds: Iterable[str] = (kind,)
    else:
        kinds = [each for each in endpoint.expected.get(place, ()) if is_live(each)]
        if kind.startswith("record "):
            if kind not in endpoint.expected.get(place, ()):
                raise UnexpectedValue(_difference(endpoint, place, _described(kind)))
            return
        if not kinds:
            raise UnexpectedValue(_difference(endpoint, place, _described(kind)))
    if kind != "given" and _PATH not in vars(value):
        path = _path(place, kind, kinds)
        set_path = type.__setattr__ if isinstance(value, type) else object.__setattr__
        set_path(value, _PATH, path)


def _path(place: str, kind: str, kinds: Iterable[str]) -> str:
    objects = [each for each in kinds if each.startswith(("object ", "module "))]
    if not objects:
        return place
    return (kind if kind in objects else objects[0]).partition(" ")[2] + "()"


def _kind(endpoint: Conversation, value: Any) -> str:
    if isinstance(value, RemoteType):
        return f"class {value.__name__}"
    if isinstance(value, RemoteFunction):
        return "function"
    if isinstance(type(value), RemoteType):
        if issubclass(type(value), RemoteModule):
            return f"module {type(value).__name__}"
        if issubclass(type(value), RemoteObject) and "__next__" in type(value)._methods:
            return "iterator"
        return f"object {type(value).__name__}"
    if endpoint.table.name_of(value) is not None or isinstance(value, type):
        return "given"
    return f"record {type(value).__name__}"


def _check_size(endpoint: Conversation, place: str, value: Any) -> None:
    what = "Tensor" if isinstance(value, Tensor) else type(value).__name__
    is_empty = 0 in value.shape
    if endpoint.recording:
        kinds = endpoint.returned.get(place, ())
        start = "empty" if is_empty else f"plain {what}"
        if not any(kind.startswith(start) for kind in kinds):
            note(endpoint, place, start if is_empty else f"{start} {tuple(value.shape)}")
    elif is_empty:
        kinds = endpoint.expected.get(place, ())
        full = [kind for kind in kinds if kind.startswith(_SIZED)]
        if full and "empty" not in kinds:
            shape = full[0].partition(" ")[2].partition(" ")[2]
            was, is_ = _verbs(place)
            raise UnexpectedValue(
                f"{place} {was} {_NOUNS[what]} of shape {tuple(value.shape)}; "
                f"the solution {is_} one of shape {shape}"
            )


def _verbs(place: str) -> tuple[str, str]:
    return ("returned", "returns") if place.endswith((")", ")[]")) else ("is", "has")


def _described(kind: str) -> str:
    what, _, name = kind.partition(" ")
    if what == "record":
        return f"a record of the class {name}"
    if what == "given":
        return "an object of the test"
    article = "an" if what in ("object", "iterator") else "a"
    return f"{article} {what} of the class {name}" if what in ("object", "module") else (
        f"{article} {what}" + (f" ({name})" if name else "")
    )  # fmt: skip


def _difference(endpoint: Conversation, place: str, got: str) -> str:
    was, is_ = _verbs(place)
    names = [kind.split(" ") for kind in endpoint.expected.get(place, ())]
    nouns = dict.fromkeys(
        _NOUNS.get(name[1], f"a value of the type {name[1]}") if name[0] == "plain"
        else _described(" ".join(name))
        for name in names if name[0] in ("plain", "record")
    )  # fmt: skip
    if not place:
        return f"{got} was passed to a function of the test"
    if not nouns:
        return f"{place} {was} {got}; plain data is expected, such as numbers, lists and tensors"
    return f"{place} {was} {got}; the solution {is_} {' or '.join(nouns)}"


class Unusable:
    """Stands for a value that was not accepted; any use of it raises `UnexpectedValue`."""

    def __init__(self, why: str) -> None:
        object.__setattr__(self, "_why", why)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Unusable
        raise UnexpectedValue(object.__getattribute__(self, "_why"))


def _use(self: Any, *_: Any, **__: Any) -> Any:
    raise UnexpectedValue(object.__getattribute__(self, "_why"))


_USES = """
add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv mod pow rpow neg pos abs invert
and or xor eq ne lt le gt ge len iter next getitem setitem delitem contains call bool int float
index complex round str repr format hash enter exit reversed setattr delattr
"""
for _name in _USES.split():
    setattr(Unusable, f"__{_name}__", _use)
