"""Which changes of an object are seen before the next message."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from attentively_grader.wire.shared_objects import (
    Table,
    attributes,
    freeze_all,
    may_have_changed,
)


def shared(value, kind="whole"):
    entry = Table(trusted=True).add(value, kind)
    freeze_all(entry, attributes(value, kind))
    return entry


def something():
    return SimpleNamespace(
        number=1,
        pair=(1, [2]),
        names=["a"],
        table={"row": {"cell": [1]}},
        seen=set(),
        weight=torch.zeros(2),
        weights=[torch.zeros(2)],
        seldom=torch.inference_mode()(torch.zeros)(1),
    )


CHANGES = {
    "an attribute": lambda it: setattr(it, "number", 2),
    "a new attribute": lambda it: setattr(it, "other", 1),
    "an attribute is gone": lambda it: delattr(it, "number"),
    "a list in a tuple": lambda it: it.pair[1].append(3),
    "an element of a list": lambda it: it.names.__setitem__(0, "b"),
    "an equal element of another type": lambda it: it.table["row"]["cell"].__setitem__(0, True),
    "a list in a dict in a dict": lambda it: it.table["row"]["cell"].append(2),
    "a key of a dict": lambda it: it.table.__setitem__("column", it.table.pop("row")),
    "a set": lambda it: it.seen.add(1),
    "a tensor in place": lambda it: it.weight.add_(1),
    "a tensor in a list in place": lambda it: it.weights[0].add_(1),
    "moved from one container to the next": lambda it: it.seen.add(it.names.pop()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_once(change):
    value = something()
    value.itself = value.table["itself"] = value.table
    entry = shared(value)
    assert not may_have_changed(entry)
    change(value)
    assert may_have_changed(entry)
    freeze_all(entry, attributes(value, "whole"))
    assert not may_have_changed(entry)


def test_of_a_module_only_its_state_is_compared():
    module = nn.Linear(2, 2)
    entry = shared(module, "module")
    module.note = "only here"
    assert not may_have_changed(entry)
    module.eval()
    assert may_have_changed(entry)


def test_a_new_tuple_is_seen_even_if_the_old_one_is_gone():
    """An identity must not be reused by an object that takes the place of another."""
    for number in range(100):
        value = SimpleNamespace(pairs=[(number, 0)])
        entry = shared(value)
        value.pairs.clear()
        value.pairs.append((number, 1))
        assert may_have_changed(entry)
