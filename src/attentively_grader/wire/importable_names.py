"""Refer to classes and functions by names that both ends can import."""

import dataclasses
import sys
from typing import Any

import torch
from torch import nn


def by_name(value: Any) -> tuple[str, str] | None:
    """Return the module and name under which a class or function can be imported."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module == "__main__":
        return None
    if found(module, name) is value:
        return module, name
    name = name.rpartition(".")[
        2
    ]  # PyTorch's built-in functions are found under the last component
    return (module, name) if found(module, name) is value else None


def found(module: str, name: str) -> Any:
    """Return the object of this name in an already imported module, or None."""
    value: Any = sys.modules.get(module)
    for each in name.split("."):
        value = getattr(value, each, None) if value is not None else None
    return value


def may_be_named(kind: Any) -> bool:
    """Return whether the student process may refer to a class by name instead of a handle.

    A test may call the class with data of the student. Therefore only modules and records are
    allowed, which just store their arguments; other classes could read a file or run a program.
    """
    if issubclass(kind, nn.Module):
        return not issubclass(kind, torch.jit.ScriptModule)
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
