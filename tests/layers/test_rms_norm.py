"""Root mean square normalisation does what its equation says."""

import pytest
import torch
from torch import nn

from attentively.layers.layer_norm import layer_norm
from attentively.layers.rms_norm import RMSNorm, rms_norm


def given(seed=0):
    torch.manual_seed(seed)
    return 3 * torch.randn(3, 5, 7) + 2, torch.randn(7)


def test_by_hand():
    # Squares 1, 1, 9, 25, mean 9: divided by 3. Without eps, to keep the numbers round.
    x = torch.tensor([1.0, -1.0, 3.0, 5.0])
    result = rms_norm(x, torch.tensor([3.0, 3.0, 1.0, 0.0]), eps=0.0)
    torch.testing.assert_close(result, torch.tensor([1.0, -1.0, 1.0, 0.0]))


def test_readable_fused_and_torch_agree_in_values_and_gradients():
    x, gain = given()
    fused, theirs = RMSNorm(7, eps=1e-3), nn.RMSNorm(7, eps=1e-3)
    with torch.no_grad():
        fused.gain.copy_(gain)
        theirs.weight.copy_(gain)
    leaves = [tensor.requires_grad_() for tensor in (x, gain)]
    outputs = {
        "readable": (rms_norm(x, gain, 1e-3), leaves),
        "fused": (fused(x), [x, fused.gain]),
        "torch": (theirs(x), [x, theirs.weight]),
    }
    probe = torch.randn(3, 5, 7)
    expected, parameters = outputs.pop("torch")
    gradients = torch.autograd.grad((expected * probe).sum(), parameters)
    for output, parameters in outputs.values():
        torch.testing.assert_close(output, expected)
        ours = torch.autograd.grad((output * probe).sum(), parameters)
        torch.testing.assert_close(ours, gradients, atol=1e-5, rtol=1e-4)


def with_the_mean_taken_off(x, gain):
    """A broken twin: layer normalisation."""
    return layer_norm(x, gain, torch.zeros_like(gain))


def by_the_length(x, gain):
    """A broken twin: the squares are summed, and not divided by d."""
    return gain * x / x.norm(dim=-1, keepdim=True)


def over_the_sentence(x, gain):
    """A broken twin: the squares of all positions at once."""
    return gain * x / x.square().mean(dim=(-2, -1), keepdim=True).sqrt()


def without_the_root(x, gain):
    """A broken twin."""
    return gain * x / x.square().mean(dim=-1, keepdim=True)


def has_mean_square_1(norm):
    x, _ = given()
    found = norm(x, torch.ones(7)).square().mean(dim=-1)
    return torch.allclose(found, torch.ones(3, 5), atol=1e-4)


def keeps_directions(norm):
    x, _ = given()
    cosine = torch.cosine_similarity(norm(x, torch.ones(7)), x, dim=-1)
    return torch.allclose(cosine, torch.ones(3, 5))


def positions_do_not_meet(norm):
    x, gain = given()
    changed = x.clone()
    changed[1, 2] += 17 * torch.randn(7)
    before, after = norm(x, gain), norm(changed, gain)
    before[1, 2] = after[1, 2]
    return torch.equal(before, after)


def test_every_vector_gets_mean_square_1():
    assert has_mean_square_1(rms_norm)
    for broken in (by_the_length, over_the_sentence, without_the_root):
        assert not has_mean_square_1(broken), broken.__name__


def test_a_vector_keeps_its_direction():
    assert keeps_directions(rms_norm)
    assert not keeps_directions(with_the_mean_taken_off)


def test_every_vector_is_treated_by_itself():
    assert positions_do_not_meet(rms_norm)
    assert not positions_do_not_meet(over_the_sentence)


def test_the_size_of_a_vector_is_forgotten_and_a_shift_is_not():
    x, gain = given()
    torch.testing.assert_close(rms_norm(100 * x, gain), rms_norm(x, gain), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(rms_norm(x + 7, gain), rms_norm(x, gain), atol=0.1)


def test_where_the_mean_is_zero_it_is_layer_normalisation():
    x, gain = given()
    x = x - x.mean(dim=-1, keepdim=True)
    torch.testing.assert_close(rms_norm(x, gain), layer_norm(x, gain, torch.zeros(7)))


def test_a_vector_of_zeros_stays_one():
    _, gain = given()
    assert torch.equal(rms_norm(torch.zeros(2, 7), gain), torch.zeros(2, 7))


def test_it_has_a_gain_and_nothing_else():
    assert {name: p.tolist() for name, p in RMSNorm(7).named_parameters()} == {"gain": [1.0] * 7}


def test_no_components_are_refused():
    with pytest.raises(ValueError, match="d_model=0 must be positive"):
        RMSNorm(0)
