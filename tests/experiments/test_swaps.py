"""The experiment on swaps: every part is where it should be, and nothing else has changed."""

from pathlib import Path

import pytest
import torch

from attentively.experiments import swaps
from attentively.experiments.swaps import SETTINGS, SHAPE, Experts, imbalance, new_model
from attentively.layers.feed_forward import FeedForward, GatedFeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.rms_norm import RMSNorm


def kinds(model, *wanted):
    return {type(module) for module in model.modules() if isinstance(module, wanted)}


def size(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("swap", SETTINGS)
def test_each_part_is_exchanged_everywhere(swap):
    model = new_model(swap, 0, True)
    norms = kinds(model, LayerNorm, RMSNorm)
    networks = {type(layer.feed_forward) for layer in model.decoder.layers}
    assert norms == {RMSNorm if swap in ("RMSNorm", "together") else LayerNorm}
    expected = {"gated": GatedFeedForward, "together": GatedFeedForward, "4 experts": Experts}
    assert networks == {expected.get(swap, FeedForward)}
    assert model.config.norm == ("pre" if swap in ("pre-norm", "together") else "post")


def test_the_gate_costs_no_weights():
    plain, gated = (new_model(swap, 0, True) for swap in ("2017", "gated"))
    biases = SHAPE["num_layers"] * (SHAPE["d_ff"] + SHAPE["d_model"])
    assert size(plain) - size(gated) == biases


def test_four_experts_have_the_weights_of_four_times_the_units():
    experts, wide = (new_model(swap, 0, True) for swap in ("4 experts", "4 times the units"))
    routers = SHAPE["num_layers"] * 4 * SHAPE["d_model"]
    further_biases = SHAPE["num_layers"] * 3 * SHAPE["d_model"]
    assert size(experts) - size(wide) == routers + further_biases


def test_every_position_gets_its_own_expert():
    torch.manual_seed(0)
    experts = Experts(5, 7, 3)
    x = torch.randn(2, 11, 5)
    found = experts(x)
    for vector, result in zip(x.flatten(0, 1), found.flatten(0, 1), strict=True):
        chances = experts.router(vector).softmax(dim=-1)
        best = int(chances.argmax())
        torch.testing.assert_close(result, chances[best] * experts.experts[best](vector))


def test_imbalance_is_1_where_all_is_even_and_n_where_one_gets_all():
    experts = Experts(4, 7, 4)
    with torch.no_grad():
        experts.router.weight.copy_(100 * torch.eye(4))
    experts(torch.eye(4).unsqueeze(0))
    assert experts.imbalance.item() == pytest.approx(1.0)
    experts(torch.eye(4)[:1].expand(1, 9, 4))
    assert experts.imbalance.item() == pytest.approx(4.0)


def test_the_router_learns_from_the_factor():
    torch.manual_seed(0)
    experts = Experts(5, 7, 3)
    experts(torch.randn(1, 6, 5)).sum().backward()
    assert experts.router.weight.grad.abs().sum() > 0


def test_a_model_without_experts_has_no_imbalance():
    assert float(imbalance(new_model("2017", 0, True))) == 0


def test_the_cache_is_counted():
    for swap, heads in (("2017", 8), ("2 key-value heads", 2), ("1 key-value head", 1)):
        row = swaps.measure(swap, 0, True, Path())
        model = new_model(swap, 0, True)
        state = model.start(torch.full((1, 3), 5))
        held = sum(cache.keys.numel() + cache.values.numel() for cache in state.caches)
        assert row["cached_per_token"] * 3 == held == 2 * SHAPE["num_layers"] * heads * 8 * 3
