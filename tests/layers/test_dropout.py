"""QuickDropout: does to numbers what PyTorch's dropout does, by chance of its own."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from attentively.layers import dropout
from attentively.layers.dropout import QuickDropout, make_quick


@pytest.mark.parametrize("p", [0.05, 0.3, 0.9])
def test_as_many_are_silenced_as_by_pytorch_and_the_others_made_as_large(p):
    ones = torch.ones(400_003)
    torch.manual_seed(0)
    ours, theirs = QuickDropout(p)(ones), nn.Dropout(p)(ones)
    assert (ours == 0).float().mean().item() == pytest.approx(p, abs=0.003)
    assert (theirs == 0).float().mean().item() == pytest.approx(p, abs=0.003)
    torch.testing.assert_close(ours.unique(), theirs.unique(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("place", range(4))
def test_each_of_the_four_draws_of_a_number_is_as_probable(place):
    torch.manual_seed(1)
    silenced = (QuickDropout(0.3)(torch.ones(400_000)) == 0).view(-1, 4)
    assert silenced[:, place].float().mean().item() == pytest.approx(0.3, abs=0.01)
    others = silenced[:, (place + 1) % 4]
    both = (silenced[:, place] & others).float().mean().item()
    assert both == pytest.approx(0.09, abs=0.01)  # they do not go together


def test_draws_whose_sign_is_always_plus_are_found_by_that_test(monkeypatch):
    """The broken twin: `random_` without a lower end."""

    def draws(count):
        whole = torch.empty((count + 3) // 4, dtype=torch.int64).random_()
        return whole.view(torch.int16)[:count]

    monkeypatch.setattr(dropout, "_random_int16", draws)
    with pytest.raises(AssertionError):
        test_each_of_the_four_draws_of_a_number_is_as_probable(3)


def test_what_is_silenced_learns_nothing_and_the_others_as_much_more():
    torch.manual_seed(2)
    x = torch.randn(50, 6, requires_grad=True)
    y = QuickDropout(0.5)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(y == 0, 0.0, 2.0))
    torch.testing.assert_close(y, x * x.grad)


def test_in_evaluation_and_without_dropout_all_stays_as_it_is():
    x = torch.randn(5, 7)
    assert QuickDropout(0.5).eval()(x) is x
    torch.testing.assert_close(QuickDropout(0.0)(x), x, rtol=0, atol=0)


def test_certain_dropout_silences_all():
    assert QuickDropout(1.0)(torch.randn(9)).count_nonzero() == 0


def test_the_same_seed_silences_the_same_and_the_next_call_others():
    layer, ones = QuickDropout(0.5), torch.ones(3, 100, dtype=torch.bfloat16)
    torch.manual_seed(3)
    first, second = layer(ones), layer(ones)
    torch.manual_seed(3)
    assert torch.equal(layer(ones), first)
    assert not torch.equal(first, second)
    assert first.dtype == torch.bfloat16


def test_every_dropout_of_a_model_is_exchanged_and_nothing_else():
    model = nn.ModuleDict(
        {"a": nn.Dropout(0.2), "b": nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.4)).eval()}
    )
    before = dict(model.state_dict())
    make_quick(model)
    found = [(type(module), getattr(module, "p", None)) for module in model.modules()][1:]
    assert found == [
        (QuickDropout, 0.2),
        (nn.Sequential, None),
        (nn.Linear, None),
        (QuickDropout, 0.4),
    ]
    assert (model["a"].training, model["b"][1].training) == (True, False)
    assert model.state_dict().keys() == before.keys()


COMPILES = """
import torch
from attentively.layers.dropout import QuickDropout

x = torch.ones(40, 30, requires_grad=True)
found = torch.compile(QuickDropout(0.25), backend="aot_eager", dynamic=True)(x)
found.sum().backward()
assert torch.equal(x.grad, found)
print(*sorted(found.unique().tolist()), (found == 0).float().mean().item())
"""


def test_it_can_be_compiled():
    """In a process without the tests' checks of shapes, which cannot be compiled."""
    told = subprocess.run(
        [sys.executable, "-c", COMPILES], capture_output=True, text=True, check=True
    )
    silenced, scaled, share = map(float, told.stdout.split())
    assert (silenced, scaled) == (0, pytest.approx(4 / 3))
    assert 0.2 < share < 0.3


@pytest.mark.gpu
def test_on_a_gpu_it_is_pytorchs_own():
    x = torch.ones(1000, device="cuda")
    torch.manual_seed(4)
    ours = QuickDropout(0.3)(x)
    torch.manual_seed(4)
    assert torch.equal(ours, nn.Dropout(0.3)(x))
