"""What is no plain data on its way: parameters, modules, classes, functions, objects.

From the examiner's side an object whose class both ends can import is rebuilt in the student's
process, from its attributes; a class or function that can be imported is named; and a function or
object that only the examiner has becomes a handle, which the student's code can call. So a test may
hand a model of the course's package to a student's function, or a function of its own.

From the student's side come plain data, records (dataclasses and named tuples) of packages that
the instructor's notebook imports, and handles. That an object is of such a package's class is a
courtesy: its name is believed, and nothing of it runs here.
"""

import contextlib
import dataclasses
import io
import pickle
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attentively_grader import remote, remote_modules, sharing
from attentively_grader.plain import Decoder, Encoder, Node
from attentively_grader.sharing import Entry
from attentively_grader.wire import WireError

if TYPE_CHECKING:
    from attentively_grader.peer import Peer

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    type(torch.add),
)
_FRESH = nn.Module()
_NEVER_WHOLE = ("builtins", "IPython", "_io", "threading", "socket", "asyncio", "zmq", "ipykernel")


def by_name(value: Any) -> tuple[str, str] | None:
    """Return the module and name under which a class or function can be imported."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module == "__main__":
        return None
    if found(module, name) is value:
        return module, name
    name = name.rpartition(".")[2]  # PyTorch's built-in functions are found under the last word
    return (module, name) if found(module, name) is value else None


def found(module: str, name: str) -> Any:
    """Return what a module that is imported already has under this name, or None."""
    value: Any = sys.modules.get(module)
    for each in name.split("."):
        value = getattr(value, each, None) if value is not None else None
    return value


class Translation:
    """Both ways between objects and the table of one end."""

    def __init__(self, peer: "Peer", known_packages: frozenset[str]) -> None:
        self.peer = peer
        self.known_packages = known_packages
        self._in_state = False

    # Out

    def encode(self, encoder: Encoder, value: Any, depth: int) -> Node:
        """Return what stands for a value that is no plain data."""
        table = self.peer.table
        name = table.name_of(value)
        if name is not None:
            return ["p", name]
        if isinstance(value, Tensor):
            if type(value) in (Tensor, nn.Parameter):
                if value.layout == torch.strided and value.device.type == "cpu":
                    if value.is_leaf and (value.requires_grad or self._in_state):
                        return self._share(encoder, value)
                    return encoder.tensor(value, depth)
                if value.layout == torch.sparse_coo and not value.requires_grad:
                    return encoder.tensor(value, depth)
        elif self.peer.trusted:
            node = self._given(encoder, value, depth)
            if node is not None:
                return node
        else:
            node = self._answered(encoder, value, depth)
            if node is not None:
                return node
        return self._handle(encoder, value)

    def _given(self, encoder: Encoder, value: Any, depth: int) -> Node | None:
        if isinstance(value, types.ModuleType):
            return ["m", value.__name__] if sys.modules.get(value.__name__) is value else None
        if isinstance(value, (type, *_FUNCTIONS)):
            name = by_name(value)
            return None if name is None else ["g", *name]
        if isinstance(value, types.MethodType):
            if by_name(type(value.__self__)) or isinstance(value.__self__, type):
                return ["bound", encoder.encode(value.__self__, depth + 1), value.__name__]
            return None
        kind = type(value)
        if by_name(kind) is None:
            return None
        if isinstance(value, nn.Module) or _is_rebuilt(value):
            return self._whole(encoder, value)
        return self._pickled(encoder, value)

    def _answered(self, encoder: Encoder, value: Any, depth: int) -> Node | None:
        kind = type(value)
        if isinstance(value, _FUNCTIONS):
            return None
        if isinstance(value, type):
            name = by_name(value)
            if name is not None and name[0].split(".")[0] in self.known_packages:
                return ["g", *name] if _may_be_named(value) else None
            return None
        if isinstance(value, BaseException | nn.Module):
            return None
        name = by_name(kind)
        if name is None or name[0].split(".")[0] not in self.known_packages:
            if isinstance(value, tuple) and hasattr(kind, "_fields"):
                return ["t", encoder.items(tuple(value), depth)]
            return None
        if isinstance(value, tuple):
            return ["R", *name, encoder.items(tuple(value), depth)]
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, each.name) for each in dataclasses.fields(value)]
            return ["R", *name, encoder.items(fields, depth)]
        return None

    def _pickled(self, encoder: Encoder, value: Any) -> Node | None:
        """Return a value whose inside is the library's own affair: a pattern, a generator, a path.

        Only the examiner's side pickles, and only what holds nothing of the tests.
        """
        if type(value).__module__.split(".")[0] in ("attentively_grader", *_NEVER_WHOLE[1:]):
            return None
        if type(value).__module__ == "builtins":
            return None
        try:
            raw = pickle.dumps(value)
        except Exception:
            return None
        return ["pickled", encoder.buffer(raw)]

    def _share(self, encoder: Encoder, value: Tensor) -> Node:
        entry = self.peer.table.add(value, "tensor")
        entry.state = sharing.tensor_state(value)
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
        entry = self.peer.table.add(value, "whole")
        definition = ["whole", entry.name, ["g", *(by_name(type(value)) or ())], None]
        encoder.definitions.append(definition)
        definition[3] = self._state(encoder, entry, value)
        return ["p", entry.name]

    def _handle(self, encoder: Encoder, value: Any) -> Node:
        kind = "module" if isinstance(value, nn.Module) else "handle"
        entry = self.peer.table.add(value, kind)
        description: dict[str, Node]
        if isinstance(value, type):
            description = remote.describe_class(value)
            known = (
                by_name(each)
                for each in value.__mro__
                if self.peer.trusted
                or each.__module__.split(".")[0] in (*self.known_packages, "builtins")
            )
            description["known"] = [each for each in known if each]
            definition = ["class", entry.name, description]
        elif isinstance(value, (*_FUNCTIONS, types.MethodType)):
            definition = ["function", entry.name, remote.describe_function(value)]
        else:
            definition = [kind, entry.name, self._class(encoder, type(value)), None]
        encoder.definitions.append(definition)
        if kind == "module":
            definition[3] = self._state(encoder, entry, value)
        return ["p", entry.name]

    def _class(self, encoder: Encoder, kind: type) -> Node:
        """Return how to refer to the class of a handle: by its name, if both ends know it."""
        name = by_name(kind)
        if name is not None and name[0].split(".")[0] in self.known_packages:
            return ["g", *name]
        return encoder.scope().encode(kind)

    def _state(self, encoder: Encoder, entry: Entry, value: Any) -> list[Node]:
        """Return an instance's attributes that are new or changed since a message last passed."""
        now = sharing.attributes(value, entry.kind)
        before: dict[str, Any] = entry.state or {}
        frozen = {name: sharing.freeze_attribute(name, each) for name, each in now.items()}
        entry.state = frozen
        scope = encoder.scope()
        changed: list[Node] = []
        for name, each in now.items():
            if name in before and sharing.frozen_same(before[name], frozen[name]):
                continue
            self._in_state = name in ("_parameters", "_buffers")
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
        """Return what has changed in the objects that both ends know."""
        found: list[Node] = []
        for entry, value in self.peer.table.live():
            if entry.kind == "tensor":
                data, grad, _ = entry.state
                new_data = None
                if not sharing.same_numbers(data, value.detach()):
                    new_data = encoder.tensor_content(value)
                new_grad: Node = None
                if not sharing.same_numbers(grad, value.grad):
                    new_grad = "none" if value.grad is None else encoder.tensor_content(value.grad)
                if new_data or new_grad or entry.state[2] != value.requires_grad:
                    entry.state = sharing.tensor_state(value)
                    found.append([entry.name, new_data, new_grad, value.requires_grad])
            elif entry.state is not None:
                if hasattr(value, "__dict__") and not sharing.has_nested(entry.state):
                    signature = sharing.signature(value, entry.kind)
                    if signature == entry.signature:
                        continue
                    entry.signature = signature
                changed = self._state(encoder, entry, value)
                if changed:
                    found.append([entry.name, changed])
        return found

    # In

    def decode(self, decoder: Decoder, node: Node) -> Any:
        """Return what a node stands for that is no plain data."""
        tag = node[0]
        if tag == "p":
            try:
                return self.peer.table.value(node[1])
            except (KeyError, TypeError):
                raise WireError(f"what came refers to an unknown object {node[1]!r:.20}") from None
        if tag == "g":
            value = self._named(*node[1:])
            if self.peer.trusted and not _may_be_named(value):
                raise WireError("what came names what it may not")
            return value
        if tag == "R":
            return self._record(node[1], node[2], [decoder._decode(each) for each in node[3]])
        if not self.peer.trusted:
            if tag == "m":
                return __import__(node[1], fromlist=["_"])
            if tag == "bound":
                return getattr(decoder._decode(node[1]), node[2])
            if tag == "pickled":
                return pickle.Unpickler(io.BytesIO(decoder.buffers[node[1]])).load()
        raise WireError(f"what came has an unknown tag {tag!r:.20}")

    def _named(self, module: Any, name: Any) -> Any:
        if not isinstance(module, str) or not isinstance(name, str):
            raise WireError("a name that came is malformed")
        if not self.peer.trusted:
            __import__(module)
            return found(module, name)
        if module.split(".")[0] in (*self.known_packages, "builtins"):
            value = found(module, name)
            if isinstance(value, type):
                return value
        raise WireError(f"what came names something unknown, {module:.80}.{name:.80}")

    def _record(self, module: Any, name: Any, fields: list[Any]) -> Any:
        kind = self._named(module, name)
        if module.split(".")[0] not in self.known_packages or not isinstance(kind, type):
            raise WireError("a record that came is of no known class")
        if issubclass(kind, tuple):
            if hasattr(kind, "_fields") and len(fields) != len(kind._fields):
                raise WireError("a record that came is malformed")
            return kind(*fields) if hasattr(kind, "_fields") else kind(fields)
        if not dataclasses.is_dataclass(kind):
            raise WireError("a record that came is of no known class")
        made = object.__new__(kind)
        for each, value in zip(dataclasses.fields(kind), fields, strict=True):
            object.__setattr__(made, each.name, value)
        return made

    def define(self, definitions: list[Node], decoder: Decoder) -> list[tuple[Entry, Any, Node]]:
        """Make what stands for new objects; return those whose attributes are still to come."""
        waiting = []
        for what, name, *rest in definitions:
            if type(name) is not int or name in self.peer.table.entries:
                raise WireError("an object that came has no new name")
            if name % 2 == (0 if self.peer.trusted else 1):
                raise WireError("an object that came has a name of ours")
            value: Any
            kind = what
            if what == "tensor":
                value = decoder.tensor(*rest[2])
                if rest[0]:
                    value = nn.Parameter(value, requires_grad=False)
                value.requires_grad_(bool(rest[1]))
                if rest[3] is not None:
                    value.grad = decoder.tensor(*rest[3])
            elif what == "whole" and not self.peer.trusted:
                class_ = decoder.decode(rest[0])
                value = class_.__new__(class_)
                if isinstance(value, nn.Module):
                    nn.Module.__init__(value)
            elif what == "class":
                value, kind = remote_modules.proxy_class(self.peer, rest[0], self._known), "handle"
            elif what == "function":
                value, kind = remote.RemoteFunction(self.peer, rest[0]), "handle"
            elif what in ("module", "handle"):
                named = rest[0][0] == "g"
                class_ = self._named(*rest[0][1:]) if named else decoder.decode(rest[0])
                value = remote_modules.proxy(self.peer, class_, what == "module")
            else:
                raise WireError("an object that came is of an unknown kind")
            decoder.made.append(value)
            entry = self.peer.table.add(value, kind, name)
            if kind == "tensor":
                entry.state = sharing.tensor_state(value)
            elif kind in ("whole", "module"):
                entry.state = {}
                waiting.append((entry, value, rest[1]))
        return waiting

    def _known(self, names: list[Any]) -> list[type]:
        kinds = [self._named(*each) for each in names]
        return [each for each in kinds if isinstance(each, type)]

    def fill(self, waiting: list[tuple[Entry, Any, Node]], decoder: Decoder) -> None:
        """Give new objects their attributes."""
        for entry, value, state in waiting:
            self._take(entry, value, state, decoder)

    def apply(self, changes: list[Node], decoder: Decoder) -> None:
        """Take over what has changed at the other end."""
        for name, *rest in changes:
            entry = self.peer.table.entries.get(name)
            if entry is None:
                raise WireError("what came changes what is not known")
            value = entry.value
            if entry.kind == "tensor":
                self._take_tensor(entry, value, *rest)
            elif entry.kind in ("whole", "module"):
                self._take(entry, value, rest[0], decoder)
            else:
                raise WireError("what came changes what cannot be changed")

    def _take_tensor(
        self, entry: Entry, value: Tensor, data: Node, grad: Node, requires_grad: Node
    ) -> None:
        decoder = self.peer.decoder
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
        entry.state = sharing.tensor_state(value)

    def _take(self, entry: Entry, value: Any, state: list[Node], decoder: Decoder) -> None:
        scope = decoder.scope()
        for name, *node in state:
            if type(name) is not str or (
                entry.kind == "module" and name not in sharing.MODULE_STATE
            ):
                raise WireError("what came changes what cannot be changed")
            if not node and isinstance(value, nn.Module) and name in vars(_FRESH):
                object.__setattr__(value, name, type(vars(_FRESH)[name])())
                continue
            if not node:
                with contextlib.suppress(AttributeError, KeyError):
                    object.__delattr__(value, name)
                continue
            new = scope.decode(node[0])
            if entry.kind == "module" or name in sharing.MODULE_STATE:
                sharing.check_module_state(name, new)
            ours = self.peer.trusted and entry.kind == "whole" and name.startswith("_")
            if ours and name not in sharing.attributes(value, "whole"):
                raise WireError("what came changes what cannot be changed")
            old: Any = vars(value).get(name) if hasattr(value, "__dict__") else None
            if type(old) is type(new) and isinstance(old, list):
                old[:] = new
            elif type(old) is type(new) and isinstance(old, dict | set):
                old.clear()
                old.update(new)
            else:
                object.__setattr__(value, name, new)
        now = sharing.attributes(value, entry.kind)
        entry.signature = None
        entry.state = {name: sharing.freeze_attribute(name, each) for name, each in now.items()}


def _may_be_named(kind: Any) -> bool:
    """Tell whether the student's side may give a class by its name, and not as a handle.

    A test calls what it is given, with what it is given: so modules and records, which only hold
    what they get, and no class or function that could read a file or run something.
    """
    if issubclass(kind, nn.Module):
        return not issubclass(kind, torch.jit.ScriptModule)
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _is_rebuilt(value: Any) -> bool:
    """Tell whether an instance is made of its attributes alone."""
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
    return hasattr(value, "__dict__") or bool(sharing.attributes(value, "whole"))


def _defined(kind: type) -> set[str]:
    return {name for each in kind.__mro__ if each is not object for name in vars(each)}
