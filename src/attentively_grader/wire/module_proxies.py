"""Proxies for modules (`nn.Module`) whose class exists only at the other end.

A proxy is a small `nn.Module` whose parameters, buffers and children have the same names and values
as at the other end. Therefore `state_dict`, `load_state_dict`, `parameters`, `train`, `eval`,
`named_modules` and optimizers work on it, and it can be part of another model. The forward pass is
computed at the other end, and gradients flow back through the call. PyTorch's private attributes of
a module, such as the hooks of `state_dict`, are the proxy's own: they are not asked of the other
end, whose functions would run here.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attentively_grader.wire.conversation import Conversation
from attentively_grader.wire.messages import WireError
from attentively_grader.wire.proxies import (
    RemoteObject,
    RemoteType,
    asking,
    class_namespace,
    is_safe,
)

_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
)


class RemoteModule(nn.Module, metaclass=RemoteType):
    """A proxy for a module of the other end."""

    _endpoint: Conversation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self)._endpoint.ask("call", self, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward pass at the other end."""
        return type(self)._endpoint.ask("method", self, "forward", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        for store in ("_parameters", "_buffers", "_modules"):
            held = self.__dict__.get(store)
            if held is not None and name in held:
                child = held[name]
                if isinstance(type(child), RemoteType) and "_path" not in vars(child):
                    path = vars(self).get("_path", "object()")
                    object.__setattr__(child, "_path", f"{path}.{name}")
                return child
        if name.startswith("__") or name in ("_parameters", "_buffers", "_modules"):
            raise AttributeError(name)
        return type(self)._endpoint.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        held = any(
            name in self.__dict__.get(each, {}) for each in ("_parameters", "_buffers", "_modules")
        )
        if name == "training" or held or isinstance(value, nn.Parameter | nn.Module):
            super().__setattr__(name, value)
        else:
            type(self)._endpoint.ask("set", self, name, value)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<a module of the class {type(self).__name__}>"


def _hook(name: str) -> Callable[..., Any]:
    def register(self: Any, hook: Any, **options: Any) -> Any:
        return type(self)._endpoint.ask("method", self, name, (hook,), options)

    return register


for _name in _HOOKS:
    setattr(RemoteModule, _name, _hook(_name))


def _remote_method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return type(self)._endpoint.ask("method", self, name, args, kwargs)

    method.__name__ = name
    return method


def proxy_class(
    endpoint: Conversation,
    described: dict[str, Any],
    known: Callable[[Any], list[type]],
    bases: list[Any],
) -> type:
    """Return a proxy class for a class of the other end; `bases` are its remote base classes."""
    kinds = known(described["known"])
    parents = [each for each in kinds if _fits(each)]
    inherited_methods = asking([each for each in parents if not issubclass(each, nn.Module)])
    namespace = inherited_methods | class_namespace(endpoint, described)
    if "__eq__" in namespace:
        namespace["__hash__"] = object.__hash__
    is_module = nn.Module in kinds
    if is_module:
        for name in ("__call__", "__str__", "__repr__"):
            namespace.pop(name, None)
    namespace["_known"] = parents
    namespace["_bases"] = bases
    inherited = {name for each in namespace["_known"] for name in vars(each)}
    for name in described["methods"]:
        if name in inherited and not name.startswith("_") and not hasattr(nn.Module, name):
            namespace[name] = _remote_method(name)
    base = RemoteModule if is_module else RemoteObject
    name = str(described["name"])
    try:
        return RemoteType(name, (base,), namespace)
    except TypeError:
        namespace["_known"] = []
        return RemoteType(name, (base,), namespace)


def _fits(kind: type) -> bool:
    """Return whether a class can be a base class of a proxy: pure Python, and safe."""
    is_python = kind.__module__ != "builtins" and not issubclass(
        kind, Tensor | tuple | dict | list | str
    )
    return is_python and is_safe(kind)


_claimed: dict[tuple[int, type], type] = {}


def claimed_class(endpoint: Conversation, kind: type) -> type:
    """Return a proxy class for objects whose stated class is known at both ends."""
    key = id(endpoint), kind
    if key not in _claimed:
        is_module = issubclass(kind, nn.Module)
        from attentively_grader.wire.proxies import describe_class

        described = {**describe_class(kind)}
        namespace = class_namespace(endpoint, described)
        if is_module:
            for name in ("__call__", "__str__", "__repr__"):
                namespace.pop(name, None)
        if not issubclass(kind, Tensor):  # C code would rely on it
            namespace["__class__"] = property(lambda self: kind)
        base = RemoteModule if is_module else RemoteObject
        _claimed[key] = RemoteType(kind.__name__, (base,), namespace)
    return _claimed[key]


def proxy(endpoint: Conversation, class_: Any, is_module: bool) -> Any:
    """Return a proxy for an object of the other end, without its state."""
    if not isinstance(class_, type):
        raise WireError("a received object has no class")
    if not isinstance(class_, RemoteType):
        class_ = claimed_class(endpoint, class_)
    if is_module != issubclass(class_, RemoteModule):
        raise WireError("a received module does not have a module class, or the reverse")
    made = object.__new__(class_)
    if is_module:
        vars(made).update(vars(nn.Module()))
    return made
