"""Find the models that a check lends to a student's function, and whether it changed them.

A check compares an answer with what its own model outputs. A function that changes the weights of
that model changes what is expected of it.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from attentively.checks.compare import SCALARS

_OURS = "attentively.checks"
_PACKAGES = ("attentively", "torch")
_DEPTH = 4
Weights = list[tuple[nn.Module, dict[str, Tensor]]]


def _modules(value: Any, depth: int = 0) -> Iterator[nn.Module]:
    """Yield the modules in a value: its items, or what a function or object of the checks holds.

    A module of a student's class, and what a student's own function closes over, are the student's.
    """
    inside: Iterable[Any] = ()
    if isinstance(value, nn.Module):
        if all(type(each).__module__.split(".")[0] in _PACKAGES for each in value.modules()):
            yield value
    elif isinstance(value, list | tuple):
        inside = value
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, functools.partial):
        inside = (value.func, value.args, value.keywords)
    elif isinstance(value, FunctionType) and (value.__module__ or "").startswith(_OURS):
        inside = [cell.cell_contents for cell in value.__closure__ or ()]
    elif str(type(value).__module__).startswith(_OURS) and hasattr(value, "__dict__"):
        inside = vars(value).values()
    for each in inside if depth < _DEPTH else ():
        if type(each) not in SCALARS:  # lists of thousands of words are common
            yield from _modules(each, depth + 1)


def copy_of(model: nn.Module) -> Any:
    """Return a copy whose tensors and hooks are its own, much sooner than `copy.deepcopy`.

    The model must have no recurrent layer of PyTorch, which has a second list of its parameters,
    and no parameter that occurs twice.
    """
    made = model.__new__(type(model))
    made.__dict__ = {n: v.copy() if isinstance(v, dict) else v for n, v in vars(model).items()}
    for name, each in model._parameters.items():
        if each is not None:
            parameter = nn.Parameter(each.detach().clone(), each.requires_grad)
            parameter.grad = None if each.grad is None else each.grad.clone()
            made._parameters[name] = parameter
    for name, buffer in model._buffers.items():
        made._buffers[name] = None if buffer is None else buffer.clone()
    for name, child in model._modules.items():
        made._modules[name] = None if child is None else copy_of(child)
    return made


def weights_of(candidate: object, inputs: Mapping[str, object]) -> Weights:
    """Return copies of the weights of all models that a call of the candidate receives."""
    found = {id(each): each for each in _modules((candidate, *inputs.values()))}
    return [
        (module, {name: tensor.detach().clone() for name, tensor in module.state_dict().items()})
        for module in found.values()
    ]


def changed(weights: Weights) -> str:
    """Return the name of the first tensor that has changed since `weights_of`, or ""."""
    for module, before in weights:
        now = module.state_dict()
        for name, tensor in before.items():
            if name not in now or not torch.equal(now[name], tensor):
                return name
    return ""
