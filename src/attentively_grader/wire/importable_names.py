"""Classes and functions under the names by which both ends can import them."""

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
    name = name.rpartition(".")[2]  # PyTorch's built-in functions are found under the last word
    return (module, name) if found(module, name) is value else None


def found(module: str, name: str) -> Any:
    """Return what a module that is imported already has under this name, or None."""
    value: Any = sys.modules.get(module)
    for each in name.split("."):
        value = getattr(value, each, None) if value is not None else None
    return value


def may_be_named(kind: Any) -> bool:
    """Tell whether the student's side may give a class by its name, and not as a handle.

    A test calls what it is given, with what it is given: so modules and records, which only hold
    what they get, and no class or function that could read a file or run something.
    """
    if issubclass(kind, nn.Module):
        return not issubclass(kind, torch.jit.ScriptModule)
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
