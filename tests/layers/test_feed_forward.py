"""The feed-forward network does what its equation says, at each position alone."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attentively.layers.feed_forward import FeedForward, GatedFeedForward

BATCH, LENGTH, D_MODEL, D_FF = 3, 5, 7, 11


def network_and_input(activation="relu", kind=FeedForward):
    torch.manual_seed(0)
    return kind(D_MODEL, D_FF, activation=activation), torch.randn(BATCH, LENGTH, D_MODEL)


def test_by_hand():
    network = FeedForward(2, 3)
    with torch.no_grad():
        network.inner.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        network.inner.bias.copy_(torch.tensor([0.0, 0.0, -1.0]))
        network.outer.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
        network.outer.bias.copy_(torch.tensor([0.5, 0.0]))
    # x = (4, -2): inner (4, -2, 1), after the ReLU (4, 0, 1), out (4 + 3 + 0.5, 4 + 1).
    torch.testing.assert_close(network(torch.tensor([4.0, -2.0])), torch.tensor([7.5, 5.0]))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_two_convolutions_of_kernel_size_1(activation):
    network, x = network_and_input(activation)
    first, second = nn.Conv1d(D_MODEL, D_FF, 1), nn.Conv1d(D_FF, D_MODEL, 1)
    for convolution, linear in ((first, network.inner), (second, network.outer)):
        convolution.load_state_dict(
            {"weight": linear.weight.unsqueeze(-1), "bias": linear.bias}, strict=True
        )
    hidden = getattr(F, activation)(first(x.transpose(1, 2)))
    expected = second(hidden).transpose(1, 2)
    output = network(x)
    torch.testing.assert_close(output, expected)
    probe = torch.randn_like(output)
    ours = torch.autograd.grad((output * probe).sum(), list(network.parameters()))
    theirs = torch.autograd.grad(
        (expected * probe).sum(), [*first.parameters(), *second.parameters()]
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other.view_as(one))


def gated(d_model, d_ff, activation):
    """Return a gated network, which has no choice of activations."""
    return GatedFeedForward(d_model, d_ff)


def gated_by_hand(make):
    network = make(2, 1)
    with torch.no_grad():
        network.gate.weight.copy_(torch.tensor([[1.0, 0.0]]))
        network.inner.weight.copy_(torch.tensor([[0.0, 1.0]]))
        network.outer.weight.copy_(torch.tensor([[1.0], [10.0]]))
    # x = (ln 3, 2): the sigmoid of ln 3 is 3/4, so the gate is 0.75 ln 3, and twice that passes.
    passed = 1.5 * math.log(3)
    found = network(torch.tensor([math.log(3), 2.0]))
    return torch.allclose(found, torch.tensor([passed, 10 * passed]))


class GatedBySigmoid(GatedFeedForward):
    """A broken twin: the gated linear unit of Dauphin et al., of which SwiGLU is a variant."""

    def forward(self, x):
        return self.outer(self.gate(x).sigmoid() * self.inner(x))


class BothBent(GatedFeedForward):
    """A broken twin: what should pass is bent too."""

    def forward(self, x):
        return self.outer(F.silu(self.gate(x)) * F.silu(self.inner(x)))


class Added(GatedFeedForward):
    """A broken twin: a sum in the place of a product."""

    def forward(self, x):
        return self.outer(F.silu(self.gate(x)) + self.inner(x))


def test_the_gated_network_by_hand():
    assert gated_by_hand(GatedFeedForward)
    for broken in (GatedBySigmoid, BothBent, Added):
        assert not gated_by_hand(broken), broken.__name__


def test_gated_with_two_thirds_of_the_units_has_as_many_weights():
    plain, with_gate = FeedForward(6, 24), GatedFeedForward(6, 16)
    assert sum(p.numel() for p in with_gate.parameters()) == 3 * 6 * 16
    biases = 24 + 6
    assert sum(p.numel() for p in plain.parameters()) - biases == 3 * 6 * 16


class SeesItsNeighbour(FeedForward):
    """A broken twin: a convolution of kernel size 2."""

    def forward(self, x):
        return super().forward(x + x.roll(1, dims=1))


def positions_do_not_meet(kind):
    network, x = network_and_input(kind=kind)
    changed = x.clone()
    changed[1, 2] += 1
    before, after = network(x), network(changed)
    same = torch.isclose(before, after).all(dim=-1)
    return same.sum() == same.numel() - 1 and not same[1, 2]


def test_no_position_sees_another():
    assert positions_do_not_meet(FeedForward)
    assert positions_do_not_meet(gated)
    assert not positions_do_not_meet(SeesItsNeighbour)


def test_dropout_acts_between_the_layers():
    network, x = network_and_input()
    network.dropout.p = 1.0
    assert torch.equal(network.train()(x), network.outer.bias.expand_as(x))
    assert not torch.allclose(network.eval()(x), network.outer.bias.expand_as(x))
    network = GatedFeedForward(D_MODEL, D_FF, dropout=1.0)
    assert torch.equal(network.train()(x), torch.zeros_like(x))
    assert not torch.allclose(network.eval()(x), torch.zeros_like(x))


def test_parameters_keep_their_names():
    network, _ = network_and_input()
    assert {name: tuple(p.shape) for name, p in network.named_parameters()} == {
        "inner.weight": (D_FF, D_MODEL),
        "inner.bias": (D_FF,),
        "outer.weight": (D_MODEL, D_FF),
        "outer.bias": (D_MODEL,),
    }
    network, _ = network_and_input(kind=gated)
    assert {name: tuple(p.shape) for name, p in network.named_parameters()} == {
        "gate.weight": (D_FF, D_MODEL),
        "inner.weight": (D_FF, D_MODEL),
        "outer.weight": (D_MODEL, D_FF),
    }


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation='swish' is unknown: choose relu or gelu"):
        FeedForward(7, 11, activation="swish")
