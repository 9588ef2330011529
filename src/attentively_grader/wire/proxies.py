"""Proxies for the functions, classes and objects of the other end.

A proxy can be called and iterated over, and its attributes and items can be read; the results are
plain data or further proxies. A proxy equals only itself, whatever its own `__eq__` returns, and it
cannot be converted to a number. Therefore an object that claims to equal everything equals nothing.
Arithmetic and ordering with plain data work only for an object that the test itself has created,
and for the results of its operators, because a test of such a class needs them.
"""

import builtins
import dis
import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any

from attentively_grader.wire.conversation import Conversation
from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import Node, plain_text

_SPECIAL = (
    "__call__", "__len__", "__iter__", "__next__", "__getitem__", "__setitem__", "__delitem__",
    "__contains__", "__str__", "__repr__", "__enter__", "__exit__", "__reversed__",
)  # fmt: skip
_OPERATORS = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__matmul__",
    "__truediv__", "__floordiv__", "__mod__", "__pow__", "__neg__", "__abs__", "__and__", "__or__",
    "__xor__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__",
)  # fmt: skip
_PROTOCOLS = frozenset(
    {
        "__torch_function__", "__torch_dispatch__", "__array__", "__array_function__",
        "__array_ufunc__", "__array_interface__", "__array_struct__", "__bool__", "__float__",
        "__int__", "__index__", "__complex__", "__round__", "__getattribute__",
    }
)  # fmt: skip
"""Methods by which an object could pose as a number or an array."""
_OF_GENERATORS = (*_SPECIAL, "send", "throw", "close")
_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_HOLDERS = (
    functools.partial, functools.partialmethod, functools.cached_property,
    functools.singledispatchmethod, property, classmethod, staticmethod, weakref.ref,
    types.MethodType, types.BuiltinFunctionType, types.CellType,
)  # fmt: skip
"""Objects whose public attributes lead to what they hold."""
_PLAIN_DEFAULTS = (type(None), bool, int, float, str)
_BUILT = "_built_by_the_test"


def describe_function(value: Any) -> dict[str, Node]:
    """Return the description of a function for its proxy."""
    return {
        "name": plain_text(getattr(value, "__name__", "function"), 200),
        "qualname": plain_text(getattr(value, "__qualname__", "function"), 200),
        "doc": plain_text(getattr(value, "__doc__", None) or "", 5000),
    }


def parameters(value: Any, with_defaults: bool) -> Node:
    """Return the parameters of a function: name, kind, whether it has a default, plain default.

    The examiner sends no defaults, because a test may keep a right answer in one.
    """
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        [
            each.name,
            int(each.kind),
            each.default is not each.empty,
            each.default if with_defaults and type(each.default) in _PLAIN_DEFAULTS else ["..."],
        ]
        for each in found
    ]


def _signature(described: Node) -> inspect.Signature:
    found = []
    for name, kind, has_default, default in described:
        default = default if type(default) in _PLAIN_DEFAULTS else ...
        default = default if has_default else inspect.Parameter.empty
        found.append(inspect.Parameter(name, inspect._ParameterKind(kind), default=default))
    return inspect.Signature(found)


def describe_class(value: type) -> dict[str, Node]:
    """Return the description of a class for its proxy."""
    methods: set[str] = set()
    for each in value.__mro__:
        if each is not object and each.__module__ not in ("torch.nn.modules.module",):
            methods |= {
                name
                for name, method in vars(each).items()
                if name in (*_SPECIAL, *_OPERATORS)
                or (not name.startswith("_") and callable(method))
            }
    return {**describe_function(value), "methods": sorted(methods)[:500]}


class RemoteFunction:
    """A proxy for a function or method."""

    def __init__(self, endpoint: Conversation, described: dict[str, Any]) -> None:
        self._endpoint = endpoint
        self.__name__ = str(described["name"])
        self.__qualname__ = str(described["qualname"])
        self.__doc__ = str(described["doc"]) or None
        if described.get("parameters") is not None:
            self.__signature__ = _signature(described["parameters"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._endpoint.ask("call", self, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._endpoint.ask("get", self, name)

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


class RemoteType(type):
    """The metaclass of proxy classes; calling one creates an object at the other end."""

    _endpoint: Conversation
    _known: list[type] = []  # noqa: RUF012

    def mro(cls) -> list[type]:
        """Inherit from the classes that both ends know, as stated by the other end."""
        found = super().mro()
        known = vars(cls).get("_known", [])
        return [*found[:-1], *(each for each in known if each not in found), object]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _built(cls._endpoint.ask("call", cls, args, kwargs))

    def __subclasscheck__(cls, other: type) -> bool:
        return super().__subclasscheck__(other) or any(
            base is cls for each in other.__mro__ for base in vars(each).get("_bases", ())
        )

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or "_endpoint" not in vars(cls):
            raise AttributeError(name)
        return cls._endpoint.ask("get", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_") or "_endpoint" not in vars(cls):
            super().__setattr__(name, value)
        else:
            cls._endpoint.ask("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        if name.startswith("_") or "_endpoint" not in vars(cls):
            super().__delattr__(name)
        else:
            cls._endpoint.ask("delete", cls, name)

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"


class RemoteObject(metaclass=RemoteType):
    """A proxy for an object whose class exists only at the other end."""

    _endpoint: Conversation

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__qualname__"):
            raise AttributeError(name)
        return type(self)._endpoint.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        type(self)._endpoint.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        type(self)._endpoint.ask("delete", self, name)

    def __repr__(self) -> str:
        return f"<an object of the class {type(self).__name__}>"


class _Doc:
    """The `__doc__` of a proxy class; an object may have another, as `update_wrapper` sets it."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None or not owner._endpoint.trusted:
            return self.text
        return owner._endpoint.ask("get", instance, "__doc__")


def _built(value: Any) -> Any:
    """Mark an object as created by the test and return it."""
    if isinstance(type(value), RemoteType):
        object.__setattr__(value, _BUILT, True)
    return value


def _is_built(value: Any) -> bool:
    return bool(vars(value).get(_BUILT))


def special(name: str) -> Callable[..., Any]:
    """Return a special method that calls the other end."""

    def text(self: Any, *args: Any, **_: Any) -> Any:
        found = type(self)._endpoint.ask("method", self, name, args, {})
        return found if type(found) is str else f"<an object of the class {type(self).__name__}>"

    def operator(self: Any, *args: Any, **_: Any) -> Any:
        others = [each for each in args if not isinstance(type(each), RemoteType)]
        if others and (name == "__eq__" or not _is_built(self)):
            return NotImplemented
        if not type(self)._endpoint.is_expected(self, name):
            return NotImplemented
        found = type(self)._endpoint.ask("method", self, name, args, {})
        return _built(found) if _is_built(self) else found

    def leave(self: Any, *args: Any) -> bool:
        without_place = (*args[:2], None)  # a traceback would give access to the tests
        found = type(self)._endpoint.ask("method", self, name, without_place, {})
        return bool(found) and _is_raised_by_test(*args)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return type(self)._endpoint.ask("method", self, name, args, kwargs)

    def contains(self: Any, *args: Any, **_: Any) -> Any:
        if _is_built(self):
            return method(self, *args)
        return any(each is args[0] or each == args[0] for each in self)

    if name == "__contains__":
        return contains
    if name == "__exit__":
        return leave
    if name in ("__repr__", "__str__"):
        method = text
    elif name in _OPERATORS:
        method = operator
    method.__name__ = name
    return method


def _is_raised_by_test(kind: Any = None, error: Any = None, place: Any = None) -> bool:
    """Return whether a test used `raise` to examine the student's context manager.

    Any other error ends the test, whatever the context manager returns, above all a failed
    assertion.
    """
    if place is None or place.tb_next is not None or kind not in vars(builtins).values():
        return False
    raises = place.tb_frame.f_code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raises and not issubclass(kind, AssertionError)


def is_safe(kind: type) -> bool:
    """Return whether a class that both ends know defines no comparison or conversion of its own.

    Methods that a proxy inherits from it would run here, on answers of the student's code.
    """
    pythons_own = {"builtins", "typing", "abc", "enum"}
    return all(
        _PROTOCOLS.isdisjoint(vars(each))
        for each in kind.__mro__
        if each.__module__ not in pythons_own
    )


def asking(kinds: list[type]) -> dict[str, Any]:
    """Return remote versions of the special methods that a proxy would inherit from `kinds`."""
    found = {name for each in kinds for name in vars(each) if name in (*_SPECIAL, *_OPERATORS)}
    unequal = {"__ne__": object.__ne__} if any("__ne__" in vars(each) for each in kinds) else {}
    return {name: special(name) for name in found} | unequal


def class_namespace(endpoint: Conversation, described: dict[str, Any]) -> dict[str, Any]:
    """Return the namespace of a proxy class."""
    names = described["methods"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError("a received class is malformed")
    namespace: dict[str, Any] = {
        "__module__": "notebook",
        "__qualname__": str(described["qualname"]),
        "__doc__": _Doc(str(described["doc"]) or None),
        "_endpoint": endpoint,
        "_methods": frozenset(names),
    }
    for name in names:
        if name in _SPECIAL or name in _OPERATORS:
            namespace[name] = special(name)
    if "__eq__" in namespace:
        namespace["__hash__"] = object.__hash__
    return namespace


# Operations at the end that has the real object


def refuse_change(target: Any, name: str, value: Any = None) -> None:
    """Refuse to set or delete an attribute of an object of the test."""
    raise AttributeError("the attributes of this object of the test cannot be changed")


def call(target: Any, args: Any, kwargs: Any) -> Any:
    """Call a function, a class or an object."""
    return target(*args, **kwargs)


def get(target: Any, name: str) -> Any:
    """Return an attribute."""
    return getattr(target, name)


def method(target: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Call a method."""
    if name in _OPERATORS:
        return getattr(type(target), name)(target, *args)
    return getattr(target, name)(*args, **kwargs)


def set_(target: Any, name: str, value: Any) -> None:
    """Set an attribute."""
    setattr(target, name, value)


def delete(target: Any, name: str) -> None:
    """Delete an attribute."""
    delattr(target, name)


def guarded(endpoint: Conversation, operation: Callable[..., Any]) -> Callable[..., Any]:
    """Restrict an operation to objects that the student's code was given."""

    def ask(target: Any, *arguments: Any) -> Any:
        name = endpoint.table.name_of(target)
        entry = None if name is None else endpoint.table.entries[name]
        if entry is None or not entry.mine or entry.kind not in ("handle", "module"):
            raise TypeError("this is not an object of the test, but for example a copy of one")
        if entry.ended and not endpoint.outlives(entry):
            raise RuntimeError(
                "this object of the test was given to an earlier call, which has ended"
            )
        if operation is not call:
            attribute = arguments[0]
            public = type(attribute) is str and not attribute.startswith("_")
            if not (public or (operation is method and attribute in _SPECIAL)):
                raise AttributeError(f"{attribute!r:.80}")
            inside = isinstance(target, _HOLDERS) and attribute != "__call__"
            if inside or (callable(target) and hasattr(target, "__code__")):
                raise AttributeError(f"{attribute!r:.80}")
            if isinstance(target, _GENERATORS) and attribute not in _OF_GENERATORS:
                raise AttributeError(f"{attribute!r:.80}")
        return operation(target, *arguments)

    return ask
