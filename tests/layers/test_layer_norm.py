"""Layer normalisation does what its equation says."""

import pytest
import torch
from torch import nn

from attentively.layers.layer_norm import LayerNorm, layer_norm


def given(seed=0):
    torch.manual_seed(seed)
    return 3 * torch.randn(3, 5, 7) + 2, torch.randn(7), torch.randn(7)


def test_by_hand():
    # Mean 3, variance (4 + 0 + 0 + 4) / 4 = 2; eps is left out to keep the numbers round.
    x = torch.tensor([1.0, 3.0, 3.0, 5.0])
    root = 2**0.5
    result = layer_norm(x, torch.ones(4), torch.zeros(4), eps=0.0)
    torch.testing.assert_close(result, torch.tensor([-root, 0.0, 0.0, root]))
    result = layer_norm(x, torch.tensor([root, 1.0, 1.0, 0.0]), torch.full((4,), 10.0), eps=0.0)
    torch.testing.assert_close(result, torch.tensor([8.0, 10.0, 10.0, 10.0]))


def test_readable_fused_and_torch_agree_in_values_and_gradients():
    x, gain, shift = given()
    fused, theirs = LayerNorm(7, eps=1e-3), nn.LayerNorm(7, eps=1e-3)
    with torch.no_grad():
        fused.gain.copy_(gain)
        fused.shift.copy_(shift)
    theirs.load_state_dict({"weight": gain, "bias": shift})
    leaves = [tensor.requires_grad_() for tensor in (x, gain, shift)]
    outputs = {
        "readable": (layer_norm(x, gain, shift, 1e-3), leaves),
        "fused": (fused(x), [x, fused.gain, fused.shift]),
        "torch": (theirs(x), [x, theirs.weight, theirs.bias]),
    }
    probe = torch.randn(3, 5, 7)
    expected, parameters = outputs.pop("torch")
    gradients = torch.autograd.grad((expected * probe).sum(), parameters)
    for output, parameters in outputs.values():
        torch.testing.assert_close(output, expected)
        ours = torch.autograd.grad((output * probe).sum(), parameters)
        torch.testing.assert_close(ours, gradients, atol=1e-5, rtol=1e-4)


def over_the_sentence(x, gain, shift):
    """A broken twin: the mean of all positions at once."""
    mean, variance = x.mean(dim=(-2, -1), keepdim=True), x.var(dim=(-2, -1), keepdim=True)
    return gain * (x - mean) / torch.sqrt(variance + 1e-5) + shift


def over_the_batch(x, gain, shift):
    """A broken twin: batch normalisation."""
    return gain * (x - x.mean(dim=0)) / torch.sqrt(x.var(dim=0) + 1e-5) + shift


def sample_variance(x, gain, shift):
    """A broken twin: divided by d - 1."""
    mean, variance = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True)
    return gain * (x - mean) / torch.sqrt(variance + 1e-5) + shift


def normalises(norm):
    x, _, _ = given()
    result = norm(x, torch.ones(7), torch.zeros(7))
    return torch.allclose(result.mean(-1), torch.zeros(3, 5), atol=1e-5) and torch.allclose(
        result.var(-1, correction=0), torch.ones(3, 5), atol=1e-3
    )


def positions_do_not_meet(norm):
    x, gain, shift = given()
    changed = x.clone()
    changed[1, 2] += 17 * torch.randn(7)
    before, after = norm(x, gain, shift), norm(changed, gain, shift)
    before[1, 2] = after[1, 2]
    return torch.equal(before, after)


def test_every_vector_gets_mean_0_and_variance_1():
    assert normalises(layer_norm)
    for broken in (over_the_sentence, over_the_batch, sample_variance):
        assert not normalises(broken), broken.__name__


def test_every_vector_is_treated_by_itself():
    assert positions_do_not_meet(layer_norm)
    for broken in (over_the_sentence, over_the_batch):
        assert not positions_do_not_meet(broken), broken.__name__


def test_size_and_shift_of_the_vector_are_forgotten():
    x, gain, shift = given()
    torch.testing.assert_close(
        layer_norm(100 * x + 7, gain, shift), layer_norm(x, gain, shift), atol=1e-4, rtol=1e-4
    )


def test_equal_components_give_the_shift():
    _, gain, shift = given()
    torch.testing.assert_close(layer_norm(torch.full((2, 7), 5.0), gain, shift)[1], shift)


def test_parameters_keep_their_names_and_start_doing_nothing():
    norm = LayerNorm(7)
    assert {name: p.tolist() for name, p in norm.named_parameters()} == {
        "gain": [1.0] * 7,
        "shift": [0.0] * 7,
    }


def test_no_components_are_refused():
    with pytest.raises(ValueError, match="d_model=0 must be positive"):
        LayerNorm(0)
