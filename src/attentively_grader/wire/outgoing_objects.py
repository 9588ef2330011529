"""Encode objects that are not plain data: parameters, modules, classes, functions.

From the examiner to the student process: an object whose class both ends can import, or have from
the same cell of the instructor, is rebuilt from its attributes; a class or function that can be
imported is sent by name; any other function or object becomes a handle, which the student's code
can call. Therefore a test may pass a model of the course's package, or its own function, to a
student's function.

From the student process to the examiner: plain data, records (dataclasses and named tuples) of
packages that the instructor's notebook imports, and handles. Where the request states that no live
object is allowed, almost plain values are converted to plain data (see `plain_form`).
"""

import collections
import contextlib
import dataclasses
import enum
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attentively_grader.wire import pandas_data, proxies, shared_objects
from attentively_grader.wire.conversation import Conversation
from attentively_grader.wire.encoder import Encoder
from attentively_grader.wire.importable_names import by_name, may_be_named
from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import Node
from attentively_grader.wire.plain_form import plain_form
from attentively_grader.wire.shared_objects import Entry

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    type(torch.add),
)
EVERYTHING = [True] * 5
_DEEP_RECORDS = 10
"""Records of the instructor's classes that are nested deeper, as in a linked list, are handles."""
_NAMED = (*vars(collections.namedtuple("_NAMED", "")), "__annotations__", "__orig_bases__")
"""Attributes of a class of named tuples that defines nothing but fields."""
_NEVER_GIVEN = (types.FrameType, types.CodeType, types.TracebackType)
"""Objects of these types would give access to the tests."""
_NEVER_WHOLE = ("builtins", "IPython", "_io", "threading", "socket", "asyncio", "zmq", "ipykernel")


class Outgoing:
    """Encodes the objects of this end for messages."""

    def __init__(self, endpoint: Conversation) -> None:
        self.endpoint = endpoint
        self._in_state = False
        self.allowed = EVERYTHING
        """What the other end allows in the answer; see `expectations.allowed`."""

    def encode(self, encoder: Encoder, value: Any, depth: int) -> Node:
        """Encode a value that is not plain data."""
        table = self.endpoint.table
        name = table.name_of(value)
        if name is not None:
            self.endpoint.lend(table.entries[name])
            return ["p", name]
        if isinstance(value, Tensor):
            if type(value) in (Tensor, nn.Parameter):
                if value.layout == torch.strided and value.device.type == "cpu":
                    if value.is_leaf and (value.requires_grad or self._in_state):
                        return self._share(encoder, value)
                    return encoder.tensor(value, depth)
                if value.layout == torch.sparse_coo and not value.requires_grad:
                    return encoder.tensor(value, depth)
            elif not self.endpoint.trusted:
                return encoder.encode(plain_form(value, False), depth + 1)
        elif pandas_data.is_plain(value) and self._both_have("pandas"):
            return encoder.pandas(value, depth)
        elif self.endpoint.trusted:
            node = self._given(encoder, value, depth)
            if node is not None:
                return node
        else:
            node = self._answered(encoder, value, depth)
            if node is not None:
                return node
        return self._handle(encoder, value)

    def _both_have(self, package: str) -> bool:
        return self.endpoint.trusted or package in self.endpoint.known_packages

    def _is_known(self, module: str) -> bool:
        """Return whether the other end knows the classes of a module by their names."""
        known = module.split(".")[0] in self.endpoint.known_packages
        return known and (self.endpoint.trusted or module in self.endpoint.known_modules)

    def _given(self, encoder: Encoder, value: Any, depth: int) -> Node | None:
        if isinstance(value, types.ModuleType):
            return ["m", value.__name__] if sys.modules.get(value.__name__) is value else None
        if isinstance(value, (type, *_FUNCTIONS)):
            name = self._own(value) or by_name(value)
            return None if name is None else ["g", *name]
        own = self._own(type(value))
        if own is not None:
            return self._given_own(encoder, value, own, depth)
        if isinstance(value, types.MethodType):
            if isinstance(value.__self__, type):  # another owner would be sent too
                return ["bound", encoder.encode(value.__self__, depth + 1), value.__name__]
            return None
        kind = type(value)
        if by_name(kind) is None:
            return None
        if isinstance(value, nn.Module) or _is_rebuilt(value):
            return self._whole(encoder, value)
        return self._pickled(encoder, value)

    def _own(self, kind: Any) -> tuple[str, str] | None:
        """Return the name of a class that the instructor's cells define in both processes."""
        for name, each in self.endpoint.own_classes.items():
            if each is kind:
                return "__main__", name
        return None

    def _given_own(
        self, encoder: Encoder, value: Any, own: tuple[str, str], depth: int
    ) -> Node | None:
        """Encode an instance of an instructor's class that the student process has too.

        The instance becomes a handle if it has private attributes, which are not shown.
        """
        if isinstance(value, enum.Enum) and value.name in type(value).__members__:
            return ["member", ["g", *own], value.name]
        if isinstance(value, tuple) and hasattr(type(value), "_fields"):
            return ["R", *own, encoder.items(tuple(value), depth)]
        private = any(name.startswith("_") for name in shared_objects.attributes(value, "whole"))
        if private or isinstance(value, nn.Module) or not _is_rebuilt(value):
            return None
        return self._whole(encoder, value)

    def _answered_own(self, encoder: Encoder, value: Any, depth: int) -> Node | None:
        """Encode a record or a member of an enumeration of an instructor's class."""
        own = self._own(type(value))
        if own is None or depth > _DEEP_RECORDS or not proxies.is_safe(type(value)):
            return None
        if isinstance(value, enum.Enum) and value.name in type(value).__members__:
            return ["member", ["g", *own], value.name]
        if isinstance(value, tuple) and hasattr(type(value), "_fields"):
            return ["R", *own, encoder.items(tuple(value), depth)]
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, each.name) for each in dataclasses.fields(value)]
            return ["R", *own, encoder.items(fields, depth)]
        return None

    def _answered(self, encoder: Encoder, value: Any, depth: int) -> Node | None:
        kind = type(value)
        if kind is collections.defaultdict:
            return encoder.container(value, depth)
        live, records = self.allowed[2 * (depth > 0) :][:2]
        if records:
            node = self._answered_own(encoder, value, depth)
            if node is not None:
                return node
        if type(value) is np.ndarray and value.dtype.hasobject and value.dtype.kind == "O":
            return ["objects", list(value.shape), encoder.items(value.reshape(-1), depth)]
        is_named = isinstance(value, tuple) and hasattr(kind, "_fields")
        is_structseq = isinstance(value, tuple) and hasattr(kind, "n_sequence_fields")
        if not (is_named or is_structseq):
            plain = plain_form(value, live)
            if plain is not value:
                return encoder.plain(plain, value, depth)
        elif (not records and not (is_named and live)) or self._is_only_named(kind):
            return encoder.named(value, kind._fields if is_named else kind.__match_args__, depth)
        if isinstance(value, _FUNCTIONS):
            return None
        if isinstance(value, type):
            name = by_name(value)
            if name is not None and self._is_known(name[0]):
                return ["g", *name] if may_be_named(value) else None
            return None
        if isinstance(value, BaseException | nn.Module):
            return None
        name = by_name(kind)
        if name is None or not self._is_known(name[0]):
            if is_named and not live:
                return encoder.named(value, kind._fields, depth)
            return None
        if isinstance(value, tuple):
            return ["R", *name, encoder.items(tuple(value), depth)]
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, each.name) for each in dataclasses.fields(value)]
            return ["R", *name, encoder.items(fields, depth)]
        return None

    def _is_only_named(self, kind: type) -> bool:
        """Return whether named tuples of a student's class have no methods of their own.

        If a test has the class, they are objects, so that `isinstance` works.
        """
        if kind.__module__ != "__main__" or kind.__mro__[1:] != (tuple, object):
            return False
        fields = getattr(kind, "_fields", ())
        return {*vars(kind)} <= {*_NAMED, *fields} and self.endpoint.table.name_of(kind) is None

    def _pickled(self, encoder: Encoder, value: Any) -> Node | None:
        """Pickle a value with internal state of a library, such as a pattern or a path.

        Only the examiner pickles, and only values that contain nothing of the tests.
        """
        if type(value).__module__.split(".")[0] in ("attentively_grader", *_NEVER_WHOLE[1:]):
            return None
        if type(value).__module__ == "builtins":
            return None
        try:
            raw = pickle.dumps(value)
        except Exception:
            return None
        if b"__main__" in raw:  # defined in the tests, so unknown at the other end
            return None
        return ["pickled", encoder.buffer(raw)]

    def _share(self, encoder: Encoder, value: Tensor) -> Node:
        entry = self.endpoint.table.add(value, "tensor")
        entry.state = shared_objects.tensor_state(value)
        encoder.definitions.append(
            [
                "tensor",
                entry.name,
                type(value) is nn.Parameter,
                value.requires_grad,
                encoder.tensor_content(value),
                None if value.grad is None else encoder.tensor_content(value.grad),
            ]
        )
        return ["p", entry.name]

    def _whole(self, encoder: Encoder, value: Any) -> Node:
        entry = self.endpoint.table.add(value, "whole")
        class_ = self._own(type(value)) or by_name(type(value)) or ()
        definition = ["whole", entry.name, ["g", *class_], None]
        encoder.definitions.append(definition)
        definition[3] = self._state(encoder, entry, value)
        return ["p", entry.name]

    def _handle(self, encoder: Encoder, value: Any) -> Node:
        grader = type(value).__module__.split(".")[0] in ("attentively_grader", "IPython")
        if self.endpoint.trusted and (grader or isinstance(value, _NEVER_GIVEN)):
            raise WireError(f"a {type(value).__name__} may not be passed to the student's code")
        kind = "module" if isinstance(value, nn.Module) else "handle"
        entry = self.endpoint.table.add(value, kind)
        self.endpoint.lend(entry)
        description: dict[str, Node]
        if isinstance(value, type):
            description = proxies.describe_class(value)
            known = (
                self._own(each) or by_name(each)
                for each in value.__mro__
                if self.endpoint.trusted
                or each.__module__ == "builtins"
                or self._is_known(each.__module__)
            )
            description["known"] = [each for each in known if each]
            description["bases"] = [
                encoder.scope().encode(each)
                for each in value.__mro__[1:]
                if not self.endpoint.trusted and each.__module__ == "__main__"
            ]
            definition = ["class", entry.name, description]
        elif isinstance(value, (*_FUNCTIONS, types.MethodType)):
            description = proxies.describe_function(value)
            description["parameters"] = proxies.parameters(value, not self.endpoint.trusted)
            definition = ["function", entry.name, description]
        else:
            definition = [kind, entry.name, self._class(encoder, type(value)), None]
        encoder.definitions.append(definition)
        if kind == "module":
            definition[3] = self._state(encoder, entry, value)
        return ["p", entry.name]

    def _class(self, encoder: Encoder, kind: type) -> Node:
        """Return a reference to the class of a handle: its name if both ends know it."""
        name = by_name(kind)
        if name is not None and self._is_known(name[0]):
            return ["g", *name]
        return encoder.scope().encode(kind)

    def _state(self, encoder: Encoder, entry: Entry, value: Any) -> list[Node]:
        """Return the attributes of an instance that have changed since the last message."""
        now = shared_objects.attributes(value, entry.kind)
        before: dict[str, Any] = entry.state or {}
        frozen = shared_objects.freeze_all(entry, now)
        scope = encoder.scope()
        changed: list[Node] = []
        for name, each in now.items():
            if name in before and shared_objects.frozen_same(before[name], frozen[name]):
                continue
            with self._sharing(name in ("_parameters", "_buffers")):
                changed.append([name, scope.encode(each)])
        changed += [[name] for name in before if name not in now]
        return changed

    @contextlib.contextmanager
    def _sharing(self, wanted: bool) -> Iterator[None]:
        before, self._in_state = self._in_state, wanted
        try:
            yield
        finally:
            self._in_state = before

    def changes(self, encoder: Encoder) -> list[Node]:
        """Return the changes of the objects that both ends know."""
        found: list[Node] = []
        for entry, value in self.endpoint.table.live():
            if entry.kind == "tensor":
                data, grad, _ = entry.state
                new_data = None
                if not shared_objects.same_numbers(data, value.detach()):
                    new_data = encoder.tensor_content(value)
                new_grad: Node = None
                if not shared_objects.same_numbers(grad, value.grad):
                    new_grad = "none" if value.grad is None else encoder.tensor_content(value.grad)
                if new_data or new_grad or entry.state[2] != value.requires_grad:
                    entry.state = shared_objects.tensor_state(value)
                    found.append([entry.name, new_data, new_grad, value.requires_grad])
            elif entry.state is not None and shared_objects.may_have_changed(entry):
                changed = self._state(encoder, entry, value)
                if changed:
                    found.append([entry.name, changed])
        return found


def _is_rebuilt(value: Any) -> bool:
    """Return whether an instance can be rebuilt from its attributes alone."""
    kind = type(value)
    if kind.__module__.split(".")[0] in (*_NEVER_WHOLE, "attentively_grader"):
        return False
    if any(
        each.__module__ in ("builtins", "_collections", "collections") and each is not object
        for each in kind.__mro__
    ):
        return False
    if "__reduce__" in _defined(kind) or "__reduce_ex__" in _defined(kind):
        return False
    if kind.__module__.split(".")[0] in ("torch", "numpy") and not isinstance(
        value, torch.optim.Optimizer | torch.utils._python_dispatch.TorchDispatchMode
    ):
        return False
    return hasattr(value, "__dict__") or bool(shared_objects.attributes(value, "whole"))


def _defined(kind: type) -> set[str]:
    return {name for each in kind.__mro__ if each is not object for name in vars(each)}
