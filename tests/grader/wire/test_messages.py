"""The wire and plain data: what passes, and that nothing else does."""

import math
import random
import socket
import time
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch

from attentively_grader.wire import fair_clock
from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.encoder import Encoder
from attentively_grader.wire.fair_clock import fair_time
from attentively_grader.wire.messages import Gone, TooLate, Wire, WireError


def pair(**options):
    ours, theirs = socket.socketpair()
    return Wire(ours, **options), Wire(theirs, **options), theirs


def passed(value, **options):
    """Return the value as it arrives."""
    one, other, _ = pair()
    encoder = Encoder(**options)
    one.send(encoder.encode(value), encoder.buffers)
    node, buffers = other.receive()
    return Decoder(buffers).decode(node)


VALUES = [
    None, True, 0, -7, 2**53, -(10**400), 1.5, -0.0, math.inf, 1 + 2j, "", "é\0\u202e", "\ud800",
    b"\0\xff", [], [1, [2]], (1, (2,)), {1: 2, (3, "x"): [None]}, {1, 2}, frozenset({3}),
    slice(1, None, 2), range(2, 11, 3), Counter("abca"), OrderedDict([(2, 1), (1, 2)]),
    torch.float64, torch.device("cpu"), torch.Size([2, 3]), ...,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_arrive_as_they_are(value):
    arrived = passed(value)
    assert type(arrived) is type(value)
    assert arrived == value


def test_what_is_no_number_arrives():
    assert math.isnan(passed(math.nan))
    assert math.copysign(1, passed(-0.0)) == -1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1), (2, 3, 5)])
def test_tensors_arrive(dtype, shape):
    value = (10 * torch.randn(shape)).to(dtype)
    arrived = passed(value)
    assert arrived.dtype == dtype
    assert arrived.shape == value.shape
    assert torch.equal(arrived, value)


def test_tensors_of_any_strides_arrive():
    value = torch.arange(30).reshape(5, 6)
    for each in (value.T, value[::2, 1::3], value[:1, 3:4], value[0].expand(4, 6)):
        assert torch.equal(passed(each), each)


def test_arrays_and_their_numbers_arrive():
    value = np.arange(6.0).reshape(2, 3).T
    assert np.array_equal(passed(value), value)
    number = passed(np.float32(1.5))
    assert type(number) is np.float32
    assert number == 1.5


def test_what_is_the_same_stays_the_same():
    shared = torch.zeros(2)
    one, two, (three,) = passed([shared, shared, [shared]])
    assert one is two
    assert one is three


def test_a_child_of_a_plain_type_is_not_plain():
    class Text(str):
        pass

    class Numbers(torch.Tensor):
        pass

    for value in (Text("x"), torch.zeros(2).as_subclass(Numbers), np.array([object()])):
        with pytest.raises(WireError, match="not plain data"):
            passed(value)


def test_what_is_too_deep_too_large_or_endless_is_refused():
    deep = []
    for _ in range(200):
        deep = [deep]
    endless = []
    endless.append(endless)
    for value in (deep, endless, torch.zeros(1).expand(10**12), [0] and [[]] * 3_000_000):
        with pytest.raises(WireError):
            passed(value)
    with pytest.raises(WireError, match="too large"):
        passed(bytes(1000), most_bytes=100)


HOSTILE = [
    b"", b"x", b"att1", b"att1" + b"\xff" * 8, b"GET / HTTP/1.0\r\n\r\n" * 3, b"\0" * 100,
    b"att1\0\0\0\2\0\0\0\0[]", b"att1\0\0\0\4\0\0\0\0nope", b"att1\0\0\0\2\0\0\0\1" + b"\xff" * 8,
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_bytes_end_the_wire_cleanly(content):
    wire, _, theirs = pair()
    theirs.sendall(content)
    theirs.shutdown(socket.SHUT_WR)
    if content.endswith(b"[]"):
        assert wire.receive() == ([], [])
    else:
        with pytest.raises(WireError):
            wire.receive()
        assert wire.dead


NODES = [
    {}, ["?"], [], [[]], ["="], ["=", 5], ["=", -1], ["<", 0], ["l"], ["l", 3], ["d", [[1]]],
    ["d", [[["l", []], 1]]], ["T", "float32", [2], 9], ["T", "float32", [-1], 0],
    ["T", "float32", [10**12], 0], ["T", "storage", [1], 0], ["a", "O", [1], 0],
    ["a", "float32", [3], -1], ["n", "O", "00"], ["n", "<f4", "zz"], ["G", 0], ["p", 0],
    ["g", "os", "system"], ["i", "zz"], ["i", 3], ["slice", 1], ["dtype", "torch.load"],
    ["T", "float32", [16], 1], ["b", "x"], ["range", "a"], ["pickled", 0], ["device", "??"],
    ["size", [["l", []]]],
]  # fmt: skip


@pytest.mark.parametrize("node", NODES, ids=repr)
def test_malformed_values_give_one_error(node):
    with pytest.raises(WireError):
        Decoder([b"\0" * 8, b""]).decode(node)


def test_random_changes_of_a_message_give_a_value_or_one_error():
    encoder = Encoder()
    node = encoder.encode([torch.zeros(3), {"a": (1, 2.5)}, {3}, np.zeros(2), slice(1, 2), 2**70])
    wheel = random.Random(0)

    def changed(value):
        if wheel.random() < 0.1:
            return wheel.choice([None, -1, "x", [], {}, 10**9, ["l", [1]], 0.5, "T", "="])
        return [changed(each) for each in value] if isinstance(value, list) else value

    for _ in range(500):
        try:
            Decoder(encoder.buffers).decode(changed(node))
        except WireError:
            continue


def test_waiting_ends_at_the_deadline():
    wire, _, _theirs = pair()
    wire.deadline = fair_time() + 0.05
    with pytest.raises(TooLate):
        wire.receive()
    with pytest.raises(TooLate):
        wire.send(1)


def busy_machine(monkeypatch):
    """From now on, a process always waits for a CPU; return the time."""
    started = time.monotonic()
    monkeypatch.setattr(fair_clock, "_waited", lambda: time.monotonic() - started)
    monkeypatch.setattr(fair_clock, "left", fair_clock._Clock().left)
    return started


def test_waiting_for_a_cpu_counts_a_quarter(monkeypatch):
    started = busy_machine(monkeypatch)
    wire, _, _theirs = pair()
    wire.deadline = fair_time() + 0.1
    with pytest.raises(TooLate):
        wire.receive()
    assert time.monotonic() - started > 0.35


def test_the_wall_time_has_a_limit_on_a_busy_machine(monkeypatch):
    started = busy_machine(monkeypatch)
    wire, _, _theirs = pair()
    wire.deadline, wire.end = fair_time() + 1000, started + 0.1
    with pytest.raises(TooLate):
        wire.receive()


def test_an_end_that_is_gone_is_seen():
    wire, other, _ = pair()
    other.close()
    with pytest.raises(Gone):
        wire.receive()
