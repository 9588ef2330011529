"""Decode objects that are not plain data: names, new objects, changes of known ones.

In the examiner process, the class name of a student's object is only used for display and
`isinstance`; none of its code runs here.
"""

import contextlib
import copy
import dataclasses
import enum
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attentively_grader.wire import module_proxies, proxies, shared_objects
from attentively_grader.wire.conversation import Conversation
from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.importable_names import found, may_be_named
from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import Node
from attentively_grader.wire.shared_objects import Entry

_FRESH = nn.Module()
_UNKNOWN = (torch.empty(0), torch.empty(0), None)
"""The state of a tensor that is sent with the next message."""


def _undo(entry: Entry, value: Any, name: str) -> Callable[[], None] | None:
    """Return how to undo a change of an attribute; None for modules."""
    if entry.kind != "whole" or isinstance(value, nn.Module):
        return None
    attributes = shared_objects.attributes(value, "whole")
    old = attributes.get(name)
    content = copy.copy(old) if isinstance(old, list | dict | set) else None

    def undo() -> None:
        if isinstance(old, list):
            old[:] = content or ()
        elif isinstance(old, dict | set):
            old.clear()
            old.update(content or ())
        if name in attributes:
            object.__setattr__(value, name, old)
        else:
            with contextlib.suppress(AttributeError):
                object.__delattr__(value, name)
        entry.state[name] = _FRESH  # ours is sent again
        entry.contents = None

    return undo


class Incoming:
    """Decodes the objects of messages at this end."""

    def __init__(self, endpoint: Conversation) -> None:
        self.endpoint = endpoint

    def decode(self, decoder: Decoder, node: Node) -> Any:
        """Return the object of a node that is not plain data."""
        tag = node[0]
        if tag == "p":
            try:
                value = self.endpoint.table.value(node[1])
            except (KeyError, TypeError):
                raise WireError(f"a message refers to the unknown object {node[1]!r:.20}") from None
            (decoder.arrays if isinstance(value, Tensor) else decoder.live).append(value)
            return value
        if tag == "g":
            value = self._named(*node[1:])
            if self.endpoint.trusted and (node[1] == "__main__" or not may_be_named(value)):
                raise WireError("a message names a class that is not allowed")
            decoder.live.append(value)
            return value
        if tag == "member":
            value = self._member(self._named(*node[1][1:]), node[2])
            decoder.live.append(value)
            return value
        if tag == "R":
            record = self._record(node[1], node[2], [decoder._decode(each) for each in node[3]])
            decoder.live.append(record)
            return record
        if not self.endpoint.trusted:
            if tag == "m":
                return __import__(node[1], fromlist=["_"])
            if tag == "bound":
                return getattr(decoder._decode(node[1]), node[2])
            if tag == "pickled":
                return pickle.Unpickler(io.BytesIO(decoder.buffers[node[1]])).load()
        raise WireError(f"a message has the unknown tag {tag!r:.20}")

    def _named(self, module: Any, name: Any) -> Any:
        if not isinstance(module, str) or not isinstance(name, str):
            raise WireError("a received name is malformed")
        if module == "__main__":
            if name not in self.endpoint.own_classes:
                raise WireError(f"a message names the unknown class {name:.80}")
            return self.endpoint.own_classes[name]
        if not self.endpoint.trusted:
            __import__(module)
            return found(module, name)
        if module.split(".")[0] in (*self.endpoint.known_packages, "builtins"):
            value = found(module, name)
            if isinstance(value, type):
                return value
        raise WireError(f"a message names the unknown class {module:.80}.{name:.80}")

    def _member(self, kind: Any, name: Any) -> Any:
        """Return a member of an enumeration of the instructor."""
        if not isinstance(kind, type) or not issubclass(kind, enum.Enum):
            raise WireError("a received enumeration is of an unknown class")
        return kind.__members__[name]

    def _record(self, module: Any, name: Any, fields: list[Any]) -> Any:
        kind = self._named(module, name)
        known = (*self.endpoint.known_packages, "__main__")
        if module.split(".")[0] not in known or not isinstance(kind, type):
            raise WireError("a received record is of an unknown class")
        if self.endpoint.trusted and not proxies.is_safe(kind):
            raise WireError("the class of a received record defines its own comparisons")
        if issubclass(kind, tuple):
            if hasattr(kind, "_fields") and len(fields) != len(kind._fields):
                raise WireError("a received record is malformed")
            return kind(*fields) if hasattr(kind, "_fields") else kind(fields)
        if not dataclasses.is_dataclass(kind):
            raise WireError("a received record is of an unknown class")
        made = object.__new__(kind)
        for each, value in zip(dataclasses.fields(kind), fields, strict=True):
            object.__setattr__(made, each.name, value)
        return made

    def define(self, definitions: list[Node], decoder: Decoder) -> list[tuple[Entry, Any, Node]]:
        """Create the local counterparts of new objects; return those that still need attributes."""
        waiting = []
        for what, name, *rest in definitions:
            if type(name) is not int or name in self.endpoint.table.entries:
                raise WireError("a received object has no new name")
            if name % 2 == (0 if self.endpoint.trusted else 1):
                raise WireError("a received object has a name of this end")
            value: Any
            kind = what
            if what == "tensor":
                value = decoder.tensor(*rest[2])
                if rest[0]:
                    value = nn.Parameter(value, requires_grad=False)
                value.requires_grad_(bool(rest[1]))
                if rest[3] is not None:
                    value.grad = decoder.tensor(*rest[3])
            elif what == "whole" and not self.endpoint.trusted:
                class_ = decoder.decode(rest[0])
                value = class_.__new__(class_)
                if isinstance(value, nn.Module):
                    nn.Module.__init__(value)
            elif what == "class":
                value, kind = (
                    module_proxies.proxy_class(
                        self.endpoint,
                        rest[0],
                        self._known,
                        [decoder.decode(each) for each in rest[0].get("bases", [])],
                    ),
                    "handle",
                )
            elif what == "function":
                value, kind = proxies.RemoteFunction(self.endpoint, rest[0]), "handle"
            elif what in ("module", "handle"):
                named = rest[0][0] == "g"
                class_ = self._named(*rest[0][1:]) if named else decoder.decode(rest[0])
                value = module_proxies.proxy(self.endpoint, class_, what == "module")
            else:
                raise WireError("a received object is of an unknown kind")
            decoder.made.append(value)
            entry = self.endpoint.table.add(value, kind, name)
            if kind == "tensor":
                entry.state = shared_objects.tensor_state(value)
            elif kind in ("whole", "module"):
                entry.state = {}
                waiting.append((entry, value, rest[1]))
        return waiting

    def _known(self, names: list[Any]) -> list[type]:
        kinds = [self._named(*each) for each in names]
        return [each for each in kinds if isinstance(each, type)]

    def fill(self, waiting: list[tuple[Entry, Any, Node]], decoder: Decoder) -> None:
        """Set the attributes of new objects."""
        for entry, value, state in waiting:
            self._take(entry, value, state, decoder)

    def apply(self, changes: list[Node], decoder: Decoder) -> None:
        """Apply the changes of known objects at the other end."""
        for name, *rest in changes:
            entry = self.endpoint.table.entries.get(name)
            if entry is None:
                raise WireError("a message changes an unknown object")
            value = entry.value
            if entry.kind == "tensor" and entry.mine and self.endpoint.trusted:
                self._take_allowed(entry, value, *rest)
            elif entry.kind == "tensor":
                self._take_tensor(entry, value, *rest)
            elif entry.kind in ("whole", "module"):
                self._take(entry, value, rest[0], decoder)
            else:
                raise WireError("a message changes an object or attribute that cannot be changed")

    def _take_allowed(
        self, entry: Entry, value: Tensor, data: Node, grad: Node, requires_grad: Node
    ) -> None:
        """Take over those changes of our tensor that the solution made in the same call too."""
        may_change = self.endpoint.may_change
        refused = False
        values = value.detach().clone()

        def undo() -> None:
            value.data = values
            entry.state = _UNKNOWN

        if data is not None and not may_change("values of a tensor", undo):
            self.endpoint.ignore("the values of a tensor that it was given")
            data, refused = None, True
        if grad is not None and not may_change("gradient of a tensor"):
            grad, refused = None, True
        if requires_grad != value.requires_grad and not may_change("requires_grad of a tensor"):
            requires_grad, refused = value.requires_grad, True
        self._take_tensor(entry, value, data, grad, requires_grad)
        if refused:
            entry.state = _UNKNOWN

    def _take_tensor(
        self, entry: Entry, value: Tensor, data: Node, grad: Node, requires_grad: Node
    ) -> None:
        decoder = self.endpoint.decoder
        if data is not None:
            new = decoder.tensor(*data)
            if new.shape == value.shape and new.dtype == value.dtype:
                with torch.no_grad():
                    value.copy_(new)
            else:
                value.data = new
        if grad == "none":
            value.grad = None
        elif grad is not None:
            new = decoder.tensor(*grad)
            if value.grad is not None and value.grad.shape == new.shape:
                with torch.no_grad():
                    value.grad.copy_(new)
            else:
                value.grad = new
        if value.is_leaf and value.is_floating_point():
            value.requires_grad_(bool(requires_grad))
        entry.state = shared_objects.tensor_state(value)

    def _take(self, entry: Entry, value: Any, state: list[Node], decoder: Decoder) -> None:
        scope = decoder.scope()
        refused: list[str] = []
        for name, *node in state:
            if type(name) is not str or (
                entry.kind == "module" and name not in shared_objects.MODULE_STATE
            ):
                raise WireError("a message changes an object or attribute that cannot be changed")
            if (
                self.endpoint.trusted
                and entry.mine
                and not self.endpoint.may_change(f"attribute {name}", _undo(entry, value, name))
            ):
                if name in entry.state:
                    self.endpoint.ignore(f"the attribute {name!r:.80} of an object")
                    refused.append(name)  # ours is sent again
                continue
            if not node and isinstance(value, nn.Module) and name in vars(_FRESH):
                object.__setattr__(value, name, type(vars(_FRESH)[name])())
                continue
            if not node:
                with contextlib.suppress(AttributeError, KeyError):
                    object.__delattr__(value, name)
                continue
            new = scope.decode(node[0])
            theirs = self.endpoint.trusted and entry.kind == "whole"
            if theirs and callable(getattr(type(value), name, None)):
                raise WireError("a message changes a method of an object that it was given")
            if entry.kind == "module" or name in shared_objects.MODULE_STATE:
                shared_objects.check_module_state(name, new)
            ours = self.endpoint.trusted and entry.kind == "whole" and name.startswith("_")
            if ours and name not in shared_objects.attributes(value, "whole"):
                if isinstance(value, nn.Module) and name in vars(_FRESH):
                    continue  # hooks stay at the other end
                raise WireError("a message changes an object or attribute that cannot be changed")
            old: Any = vars(value).get(name) if hasattr(value, "__dict__") else None
            if type(old) is type(new) and isinstance(old, list):
                old[:] = new
            elif type(old) is type(new) and isinstance(old, dict | set):
                old.clear()
                old.update(new)
            else:
                object.__setattr__(value, name, new)
        now = shared_objects.attributes(value, entry.kind)
        shared_objects.freeze_all(entry, now).update(dict.fromkeys(refused, _FRESH))
        if refused:
            entry.contents = None
