"""The package's, PyTorch's and sacreBLEU's own functions are no answers of parts that rebuild them.

Every part that names such functions gets a right answer that calls one of them besides: whatever
the answer returns, it is turned down. Other calls are right answers.
"""

import contextlib
import functools
import inspect
import json
import pkgutil

import pytest
import torch
from assignments import ASSIGNMENTS, call, message
from torch import nn
from torch.nn import functional as F

from attentively.attention import scaled_dot_product
from attentively.checks import CheckFailed, Parts, own_functions, self_attention
from attentively.checks import call as call_candidate
from attentively.layers.layer_norm import LayerNorm

pytestmark = pytest.mark.usefixtures("unchecked")

BUILT_IN = {
    "torch:softmax": lambda: torch.softmax(torch.ones(2), 0),
    "torch:Tensor.softmax": lambda: torch.ones(2).softmax(0),
    "torch.special:softmax": lambda: torch.special.softmax(torch.ones(2), 0),
    "torch:embedding": lambda: torch.embedding(torch.ones(2, 3), torch.tensor([1])),
    "torch.nn.functional:one_hot": lambda: F.one_hot(torch.tensor([1]), 3),
    "torch:gru_cell": lambda: torch.gru_cell(
        torch.ones(1, 2), torch.ones(1, 2), torch.ones(6, 2), torch.ones(6, 2)
    ),
    "torch.nn.functional:scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
        *torch.ones(3, 2, 2)
    ),
    "torch:layer_norm": lambda: torch.layer_norm(torch.ones(2), (2,)),
    "torch:native_layer_norm": lambda: torch.native_layer_norm(torch.ones(2), (2,), None, None, 0),
    "torch:rms_norm": lambda: torch.rms_norm(torch.ones(2), (2,)),
}
"""A call of each function that is not written in Python."""

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)


def using(name, answer):
    """Return an answer that calls one of the package's functions first, whatever it is given."""
    own = pkgutil.resolve_name(name)

    def use():
        if name in BUILT_IN:
            BUILT_IN[name]()
        elif isinstance(own, type) and "forward" in vars(own):
            own.forward(None)
        else:
            own()

    if isinstance(answer, type):

        class Using(answer):
            def __init__(self, *args, **kwargs):
                use()
                super().__init__(*args, **kwargs)

        return Using

    @functools.wraps(answer)
    def wrapper(*args, **kwargs):
        with contextlib.suppress(Exception):  # also if the answer catches it
            use()
        return answer(*args, **kwargs)

    return wrapper


def faults_of_policy(part, right):
    """Return which of the functions pass, and how."""
    found = []
    right = right if isinstance(right, tuple) else (right,)
    for name in (*part.rebuilds, *part.refuses):
        own = pkgutil.resolve_name(name)
        offered = {f"{name} in a wrapper": using(name, right[0]), f"{name} itself": own}
        if isinstance(own, type):
            offered[f"a subclass of {name}"] = type("Mine", (own,), {})
        for what, answer in offered.items():
            try:
                call(part, (answer, *right[1:]))
            except CheckFailed as failed:
                if part.policy.replace("`", "") not in " ".join(str(failed).split()):
                    found.append(f"{what}: {failed}")
            else:
                found.append(f"{what} passes")
    return found


@every_assignment
def test_own_functions_are_turned_down(assignment):
    found = {
        name: faults_of_policy(part, assignment.right[name][0])
        for name, part in assignment.parts.items()
        if part.rebuilds
    }
    assert {name: faults for name, faults in found.items() if faults} == {}


def sections(path):
    """Return the text of each part of a notebook, by its number."""
    found, number = {}, 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("## "):
            number = int(text[8]) if text.startswith("## Part ") else 0
        found[number] = f"{found.get(number, '')}\n{text}"
    return found


def faults_of_marks(parts, texts):
    """Return the parts whose section does not say once what it rebuilds, or says what is not so."""
    return [
        part.label
        for part in parts
        if texts[part.number].count(part.policy or "not accepted") != bool(part.policy)
    ]


@every_assignment
def test_notebook_marks_the_parts_that_rebuild_a_function(assignment):
    assert faults_of_marks(assignment.parts.values(), sections(assignment.source)) == []


# What the mechanism does, and its broken variants


def halved(candidate, thorough=False):
    given = torch.arange(4.0)
    answer = call_candidate(candidate, {"x": given})
    if not torch.allclose(answer, F.layer_norm(given, (4,)) / 2):
        raise CheckFailed("  This is not half of the norm.")


LAYER_NORM = ("attentively.layers.layer_norm:LayerNorm",)
REFUSING = Parts().part("half", "half", rebuilds=LAYER_NORM)(halved)
ACCEPTING = Parts().part("half", "half")(halved)


def half(x):
    return LayerNorm(4)(x) / 2


def half_of_others(x):
    return (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() / 2


def test_only_a_part_that_names_the_function_turns_it_down(capsys):
    ACCEPTING(half)
    REFUSING(half_of_others)
    assert "LayerNorm; the package's own function is not accepted" in message(REFUSING, half)
    assert REFUSING.state(half).startswith("wrong: This part rebuilds LayerNorm")


def test_a_policy_without_effect_is_seen():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_functions, "refusing", lambda *_: contextlib.nullcontext())
        assert any("passes" in each for each in faults_of_policy(REFUSING, half))


def test_a_missing_and_a_wrong_mark_are_seen():
    assert faults_of_marks([REFUSING], {1: "This part rebuilds `LayerNorm`."}) == [REFUSING.label]
    assert faults_of_marks([ACCEPTING], {1: "It is not accepted."}) == [ACCEPTING.label]
    assert faults_of_marks([REFUSING], {1: REFUSING.policy}) == []


def test_functions_are_as_before_after_a_check():
    own = inspect.unwrap(scaled_dot_product.scaled_dot_product_attention)
    before = own.__code__
    message(self_attention.attention, own)
    assert own.__code__ is before
    assert nn.LayerNorm(2)(torch.ones(2)).shape == (2,)


def test_every_named_function_exists_and_every_built_in_one_is_called_here():
    named = {
        name
        for assignment in ASSIGNMENTS
        for part in assignment.parts.values()
        for name in (*part.rebuilds, *part.refuses)
    }
    built_in = {
        name
        for name in named
        if not hasattr(inspect.unwrap(pkgutil.resolve_name(name)), "__code__")
    }
    assert {each for each in built_in if not isinstance(pkgutil.resolve_name(each), type)} == {
        *BUILT_IN
    }
