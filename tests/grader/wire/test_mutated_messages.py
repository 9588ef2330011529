"""Mutations of recorded messages: the examiner gets a value or one of two errors, and soon."""

import contextlib
import copy
import os
import random
import time

import pytest
import torch
from grader.examining import student_process

from attentively_grader.wire import proxies
from attentively_grader.wire.endpoint import Endpoint
from attentively_grader.wire.gradients import Graph
from attentively_grader.wire.messages import Gone, UnexpectedValue, Wire, WireError

STUDENT = """
import datetime, collections, numpy as np, pandas as pd, torch
from decimal import Decimal
from fractions import Fraction
def values():
    return [1, 2.5, "x", {1: (2, None)}, {3}, b"b", range(3), slice(1), 2**70, np.zeros(2),
            np.float32(1), torch.ones(2), torch.eye(2).to_sparse(), Decimal(1), Fraction(1, 2),
            datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1),
            {1: 2}.keys(), collections.deque([1]), memoryview(b"x"), np.array([None]), 1j,
            collections.namedtuple("P", "x y")(1, 2), pd.Series([1, None], dtype="Int64"),
            pd.DataFrame({"a": [1.0], "b": pd.Categorical(["y"])}).set_index("b"),
            pd.DataFrame({"d": [[1]]}, index=pd.date_range("2020", periods=1)), pd.Index([1])]
def changed(x, y):
    x.append(1)
    y += 1
def called(f, x):
    return f(x) * 2
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
    def forward(self, x): return self.inner(x)
def error(): raise ValueError("no")
def count(): yield from range(3)
"""
WORDS = [None, -1, 0, 1, 7, 2**60, 1e300, "", "x", "T", "=", "p", "g", "torch", [], {}, [[]],
         ["p", 1], ["l", [1]], ["g", "os", "system"], ["range", 0, 10**15, 1], ["i", "f" * 50],
         ["T", "qint8", [1], 0], ["T", "float32", [10**9], 0], ["a", "O", [1], 0],
         ["a", "<U99999999", [1], 0], ["decimal", "1e99999"], "/dev/zero"]  # fmt: skip


class Recorder(Wire):
    """Keeps the received messages."""

    kept: list

    def receive(self):
        found = super().receive()
        self.kept.append(copy.deepcopy(found))
        return found


class Replay(Wire):
    """Receives the given messages, and sends nothing."""

    def __init__(self, messages):
        self.messages, self.dead = messages, None
        self.most_bytes = 2**28

    def send(self, message, buffers=()):
        pass

    def receive(self):
        if not self.messages:
            raise self._end(Gone("no more messages"))
        return self.messages.pop(0)

    def _end(self, why):
        self.dead = why
        return why


def endpoint_on(wire):
    endpoint = Endpoint(wire, True, frozenset({"torch", "numpy", "pandas"}))
    endpoint.recording = True
    endpoint.operations = {
        "call": proxies.guarded(endpoint, proxies.call),
        "get": proxies.guarded(endpoint, proxies.get),
        "method": proxies.guarded(endpoint, proxies.method),
        "backward": Graph.backward,
    }
    return endpoint


def conversation(endpoint):
    """Yield after each request whose answer may be mutated."""
    endpoint.ask("begin", ["torch", "numpy", "pandas"], 10_000)
    endpoint.ask("run", "cell", STUDENT, 1)
    yield
    names = ["values", "changed", "called", "Layer", "error", "count"]
    theirs = endpoint.ask("names", names)
    yield
    theirs["values"]()
    yield
    theirs["changed"]([0], torch.zeros(2))
    yield
    x = torch.ones(2, requires_grad=True)
    theirs["called"](lambda x: 3 * x, 2 * x).sum().backward()
    yield
    layer = theirs["Layer"]()
    layer(torch.ones(1, 2)).sum().backward()
    yield
    list(theirs["count"]())
    yield
    with contextlib.suppress(ValueError):
        theirs["error"]()


@pytest.fixture(scope="module")
def recorded():
    """Return the messages of a whole conversation."""
    process, connection = student_process()
    wire = Recorder(connection)
    wire.kept = []
    for _ in conversation(endpoint_on(wire)):
        pass
    os.kill(process, 9)
    os.waitpid(process, 0)
    return wire.kept


def mutated(wheel, value, rate):
    if wheel.random() < rate:
        return copy.deepcopy(wheel.choice(WORDS))
    if isinstance(value, list):
        found = [mutated(wheel, each, rate) for each in value]
        return found[: wheel.randrange(len(found) + 1)] if wheel.random() < rate / 4 else found
    if isinstance(value, dict):
        return {key: mutated(wheel, each, rate) for key, each in value.items()}
    return value


def is_error(message):
    """Return whether a message has an error, which is revived."""
    return isinstance(message, dict) and "error" in message


@pytest.mark.parametrize("seed", range(400))
def test_a_mutated_message_gives_a_value_or_an_error_of_the_wire(recorded, seed):
    wheel = random.Random(seed)
    messages = copy.deepcopy(recorded)
    place = wheel.randrange(len(messages))
    message, buffers = messages[place]
    changed = mutated(wheel, message, wheel.choice([0.01, 0.05, 0.2]))
    messages[place] = changed, [each[: wheel.randrange(len(each) + 1)] for each in buffers] if (
        wheel.random() < 0.2
    ) else buffers  # fmt: skip
    endpoint = endpoint_on(Replay(messages))
    endpoint.recording = seed % 2 == 0
    started = time.monotonic()
    error = error_of(endpoint)
    if not is_error(changed):  # else any error may be revived
        assert error is None or "attentively_grader/wire" not in innermost(error), error
    assert time.monotonic() - started < 20


def error_of(endpoint):
    """Return the error of a conversation that is neither of the wire's own two, or None."""
    try:
        for _ in conversation(endpoint):
            pass
    except (WireError, UnexpectedValue):
        return None
    except Exception as error:  # as of a test that gets another value than it expects
        return error
    return None


def innermost(error):
    """Return the file that raised an error."""
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_filename
