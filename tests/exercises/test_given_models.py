"""A function that changes the model that it was given earns nothing, whatever it returns."""

import functools

import pytest
import torch
from assignments import ASSIGNMENTS
from torch import nn

from attentively.checks import Verdict, call, given_models

LENDING = {"03", "04", "05", "09", "10", "11", "13", "14", "16", "17", "19", "20"}
"""The assignments in which a function receives a model with weights."""

pytestmark = pytest.mark.usefixtures("unchecked")


def with_parameters(values):
    """Return the modules in these values that have parameters."""
    found = given_models.weights_of(None, dict(enumerate(values)))
    return [module for module, _ in found if any(True for _ in module.parameters())]


def zeroing(answer, changed):
    """Return a function that sets all weights to zero at its first call, then answers rightly."""

    @functools.wraps(answer)
    def zero(*arguments, **options):
        models = with_parameters([*arguments, *options.values()])
        if models and not changed:
            changed.append(answer)
            for parameter in models[0].parameters():
                parameter.data.zero_()
        return answer(*arguments, **options)

    return zero


def tried(part, answers):
    """Return the names of the part whose answers zeroed a model, and those that passed then."""
    tried, passed = [], []
    for place, answer in enumerate(answers):
        if not callable(answer) or isinstance(answer, type):
            continue
        changed = []
        given = [*answers]
        given[place] = zeroing(answer, changed)
        try:
            part(*given)
        except Verdict:
            tried += [part.names[place]] * len(changed)
        else:
            tried += [part.names[place]] * len(changed)
            passed += [part.names[place]] * len(changed)
    return tried, passed


@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
def test_no_part_accepts_a_function_that_zeroes_its_model(assignment):
    found = []
    for name, part in assignment.parts.items():
        first = assignment.right[name][0]
        answers = first if isinstance(first, tuple) else (first,)
        names, passed = tried(part, answers)
        assert passed == [], name
        found += names
    assert bool(found) == (assignment.number in LENDING), found


def scaled(model, x):
    return model(x) * 2


def check(candidate):
    """Compare with the model's own output, which is computed after the call."""
    model, x = nn.Linear(3, 2), torch.ones(5, 3)
    answer = call(candidate, {"model": model, "x": x})
    if not torch.allclose(answer, scaled(model, x)):
        raise Verdict("wrong")


check.names = ("scaled",)


def test_a_check_without_the_comparison_accepts_it(monkeypatch):
    assert tried(check, [scaled]) == (["scaled"], [])
    monkeypatch.setattr(given_models, "changed", lambda weights: "")
    assert tried(check, [scaled]) == (["scaled"], ["scaled"])


def test_a_training_step_may_change_the_weights():
    def step(model):
        model.weight.data.add_(1.0)

    call(step, {"model": nn.Linear(3, 2)}, trains=True)
    with pytest.raises(Verdict, match="changes weight, a tensor of the model"):
        call(step, {"model": nn.Linear(3, 2)})


def test_a_copy_of_a_model_shares_nothing_that_a_student_could_change():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.Linear(3, 1)))
    model(torch.randn(7, 2)).sum().backward()
    model[1].bias.requires_grad_(False)
    model.eval()
    before, x = state(model), torch.randn(5, 2)
    output = model(x)
    made = given_models.copy_of(model)
    assert repr(made) == repr(model)
    assert state(made) == before
    assert torch.equal(made(x), output)
    for parameter in made.parameters():
        parameter.data.zero_()
        parameter.grad.zero_()
    made[0].register_forward_hook(lambda *_: torch.zeros(5, 3))
    made[2].append(nn.Linear(1, 1))
    made.train()
    made(x)
    assert state(model) == before
    assert torch.equal(model(x), output)
    assert len(model[2]) == 1


def state(model):
    """Return the values of a model, and what is known of each parameter, to compare."""
    tensors = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    learned = [(each.requires_grad, each.grad.tolist()) for each in model.parameters()]
    return model.training, tensors, learned
