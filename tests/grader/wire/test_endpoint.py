"""Calls between two processes: what a test sees of a student's functions, classes and modules."""

import contextlib
import os

import pytest
import torch
from grader.examining import student_process
from torch import nn
from torch.overrides import TorchFunctionMode

from attentively_grader.wire import proxies
from attentively_grader.wire.endpoint import Endpoint
from attentively_grader.wire.gradients import Graph
from attentively_grader.wire.messages import Wire, WireError
from attentively_grader.wire.shared_objects import check_module_state

STUDENT = """
import random
import numpy as np
import torch
from torch import nn

def double(x): return 2 * x
def same(x): return x
def noise(): return torch.randn(3), random.random(), np.random.rand()
def append(values):
    values.append(1)
    return values
def fill(x):
    x += 1
def unfinished(): raise NotImplementedError
def broken(x):
    return x @ torch.zeros(7, 7)
def apply(function, x): return function(x)
def look(function): return function.__globals__
def count():
    yield from range(3)
def train(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().sum()
    loss.backward()
    optimizer.step()
    return loss.item()
class Own(ValueError): pass
def own(): raise Own("mine")
class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.inner = nn.Linear(size, size)
    def forward(self, x): return torch.tanh(self.inner(x))
    def encode(self, x): return self.inner(x)
class Hooked(Layer):
    def __init__(self, size):
        super().__init__(size)
        self.register_buffer("kept", torch.ones(size))
        self.register_buffer("scratch", torch.ones(size), persistent=False)
        self.register_state_dict_post_hook(lambda module, state, *_: state.clear())
        self.inner.register_state_dict_pre_hook(lambda *_: 1 / 0)
    def forget(self):
        self.register_buffer("kept", self.kept, persistent=False)
class Account:
    def __init__(self): self.total = 0
    def add(self, n): self.total += n
    def __len__(self): return self.total
    def __eq__(self, other): return True
"""


class Seen(TorchFunctionMode):
    """Counts the functions of PyTorch that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def theirs():
    process, connection = student_process()
    endpoint = Endpoint(Wire(connection), True, frozenset({"torch", "numpy"}))
    endpoint.recording = True
    endpoint.operations = {
        "call": proxies.guarded(endpoint, proxies.call),
        "get": proxies.guarded(endpoint, proxies.get),
        "method": proxies.guarded(endpoint, proxies.method),
        "backward": Graph.backward,
    }
    endpoint.ask("begin", ["torch", "numpy"], 10_000)
    endpoint.ask("run", "cell", STUDENT, 1)
    names = [line.split()[1].partition("(")[0].strip(":") for line in STUDENT.splitlines()
             if line.startswith(("def ", "class "))]  # fmt: skip
    yield endpoint.ask("names", names)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 9)
    os.waitpid(process, 0)


def test_a_function_answers(theirs):
    assert theirs["double"](3) == 6
    assert torch.equal(theirs["double"](torch.ones(2)), torch.full((2,), 2.0))
    assert theirs["double"].__name__ == "double"


def test_what_aliases_an_argument_still_does(theirs):
    x, values = torch.zeros(2), [0]
    assert theirs["same"](x) is x
    assert theirs["append"](values) is values
    assert values == [0, 1]
    theirs["fill"](x)
    assert x.tolist() == [1, 1]


def test_seeds_mean_the_same(theirs):
    torch.manual_seed(3)
    expected = torch.randn(3)
    torch.manual_seed(3)
    assert torch.equal(theirs["noise"]()[0], expected)
    assert torch.equal(torch.randn(3), expected)  # the test samples from its own generator
    torch.manual_seed(3)
    assert torch.equal(theirs["noise"]()[0], expected)


def test_errors_arrive_as_what_they_are(theirs):
    with pytest.raises(NotImplementedError) as caught:
        theirs["unfinished"]()
    assert str(caught.value) == ""
    with pytest.raises(RuntimeError, match="mat1"):
        theirs["broken"](torch.zeros(2, 3))
    with pytest.raises(ValueError, match="mine") as caught:
        theirs["own"]()
    assert type(caught.value).__name__ == "Own"


def test_gradients_flow_through_functions_and_callbacks(theirs):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    w = torch.tensor(3.0, requires_grad=True)
    theirs["apply"](lambda y: w * y.square(), theirs["double"](x)).sum().backward()
    assert x.grad.tolist() == [24.0, 48.0]
    assert float(w.grad) == 20.0


def test_a_callback_is_only_called(theirs):
    secret = []
    with pytest.raises(AttributeError):
        theirs["look"](lambda: secret)


def test_a_callbacks_error_comes_back_as_itself(theirs):
    error = LookupError("here")

    def fail(_):
        raise error

    with pytest.raises(LookupError) as caught:
        theirs["apply"](fail, 1)
    assert str(caught.value) == "here"


def test_a_generator_is_iterated(theirs):
    assert list(theirs["count"]()) == [0, 1, 2]


def test_a_module_is_a_module(theirs):
    layer = theirs["Layer"](3)
    assert isinstance(layer, nn.Module)
    assert isinstance(layer.inner, nn.Linear)
    assert type(layer).__name__ == "Layer"
    assert layer.size == 3
    twin = nn.Linear(3, 3)
    layer.load_state_dict({f"inner.{name}": each for name, each in twin.state_dict().items()})
    x = torch.randn(2, 3, requires_grad=True)
    assert torch.allclose(layer(x), twin(x).tanh())
    assert torch.allclose(layer.encode(x), twin(x))
    expected = torch.autograd.grad(twin(x).tanh().square().sum(), [x, twin.weight])
    found = torch.autograd.grad(layer(x).square().sum(), [x, layer.inner.weight])
    assert all(map(torch.allclose, expected, found))
    whole = nn.Sequential(layer, nn.Linear(3, 1))
    assert len(list(whole.parameters())) == 4
    whole(x).sum().backward()
    assert layer.inner.weight.grad is not None
    with torch.no_grad():
        layer.inner.weight.data.zero_()
        layer.inner.bias.zero_()
    assert layer(x).tolist() == torch.zeros(2, 3).tolist()


def test_a_state_dict_is_that_of_the_proxy_and_needs_no_request(theirs, monkeypatch):
    """It leaves out the same buffers as at the other end, and runs no hook from there."""
    module = theirs["Hooked"](3)
    whole = nn.Sequential(module)
    with monkeypatch.context() as patch:
        patch.setattr(Endpoint, "_ask_now", lambda *_: pytest.fail("a request was sent"))
        state = whole.state_dict()
        assert [*state] == ["0.kept", "0.inner.weight", "0.inner.bias"]
        whole.load_state_dict({name: 2 * each for name, each in state.items()})
        whole.double().zero_grad()
    module.forget()
    assert [*whole.state_dict()] == ["0.inner.weight", "0.inner.bias"]


def test_a_module_of_ours_is_trained_over_there(theirs):
    model, x = nn.Linear(3, 1), torch.randn(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()
    expected = model(x).square().sum()
    (gradient,) = torch.autograd.grad(expected, [model.weight])
    assert theirs["train"](model, optimizer, x) == pytest.approx(expected.item())
    assert torch.allclose(model.weight, before - 0.1 * gradient)
    assert torch.allclose(model.weight.grad, gradient)


def test_a_function_mode_sees_what_is_called_and_not_what_is_sent(theirs):
    layer, x = theirs["Layer"](3), torch.ones(2, 3)
    with Seen() as seen:
        theirs["apply"](lambda y: y.exp(), layer(x))
    assert [each for each in seen.names if "grad_enabled" not in each] == ["linear", "tanh", "exp"]


def test_an_object_keeps_its_state_and_equals_nothing(theirs):
    account = theirs["Account"]()
    account.add(2)
    account.add(3)
    assert account.total == len(account) == 5
    assert account != 5
    assert isinstance(account, theirs["Account"])


@pytest.mark.parametrize("names", [["kept"], {1}, "kept", None])
def test_the_names_of_buffers_that_are_not_saved_must_be_a_set_of_strings(names):
    check_module_state("_non_persistent_buffers_set", {"kept"})
    with pytest.raises(WireError, match="malformed"):
        check_module_state("_non_persistent_buffers_set", names)
