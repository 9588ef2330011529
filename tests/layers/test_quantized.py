"""Quantised layers: integers by hand, as PyTorch rounds them, and never further off than half."""

import pytest
import torch
from torch import nn

from attentively.layers.quantized import (
    QuantizedLinear,
    dequantize,
    quantize,
    quantize_linears,
)
from attentively.models.checkpoints import load_pretrained
from attentively.models.language_model import LanguageModel


def matrix(seed=0, dtype=torch.float32):
    """Return rows of very different sizes, one of them zeros."""
    torch.manual_seed(seed)
    sizes = torch.tensor([[1.0], [30.0], [0.01], [0.0], [5.0]])
    return (sizes * torch.randn(5, 131)).to(dtype)


def test_by_hand():
    # The largest absolute value is 2.54, so the scale is 0.02.
    x = torch.tensor([[2.54, -1.0, 0.031, -0.029]])
    integers, scale = quantize(x)
    assert integers.tolist() == [[127, -50, 2, -1]]
    torch.testing.assert_close(scale, torch.tensor([[0.02]]))
    torch.testing.assert_close(dequantize(integers, scale), torch.tensor([[2.54, -1, 0.04, -0.02]]))


@pytest.mark.parametrize("per_row", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_as_pytorch_rounds(per_row, bits):
    x, top = matrix(), 2 ** (bits - 1) - 1
    integers, scale = quantize(x, per_row, bits)
    zeros = torch.zeros(5, dtype=torch.int32)
    expected = torch.fake_quantize_per_channel_affine(
        x, scale.expand(5, 1).flatten(), zeros, 0, -top, top
    )
    torch.testing.assert_close(dequantize(integers, scale), expected)
    assert integers.dtype == torch.int8
    assert scale.shape == (5 if per_row else 1, 1)


# Broken variants


def per_matrix(x):
    return quantize(x, per_row=False)


def without_clamp(x):
    """In 16 bits, x / scale may be 127.5, which is rounded to 128: that is -128 in 8 bits."""
    scale = x.abs().amax(dim=1, keepdim=True) / 127
    scale = torch.where(scale > 0, scale, 1.0)
    return torch.round(x / scale).to(torch.int32).to(torch.int8), scale


def truncating(x):
    _, scale = quantize(x)
    return (x / scale).to(torch.int8), scale


def with_another_zero(x):
    """The range of each row is shifted to begin at -127, and the shift is forgotten."""
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    scale = torch.where(high > low, (high - low) / 254, 1.0)
    return (torch.round((x - low) / scale) - 127).to(torch.int8), scale


def within_half_a_step(quantizer, x):
    """Return whether no value is further off than half of its row's scale, but for rounding."""
    step = x.float().abs().amax(dim=1, keepdim=True) / 127
    slack = 0.5 + 130 * torch.finfo(x.dtype).eps
    integers, scale = quantizer(x)
    away = (integers.float() * scale.float() - x.float()).abs()
    return bool((away <= slack * step).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_value_is_further_off_than_half_a_step(dtype):
    assert all(within_half_a_step(quantize, matrix(seed, dtype)) for seed in range(50))


@pytest.mark.parametrize("broken", [per_matrix, truncating, with_another_zero])
def test_broken_variants_are_further_off(broken):
    assert not within_half_a_step(broken, matrix())


def test_a_missing_clamp_is_seen_in_16_bits():
    wrong = [
        seed
        for seed in range(50)
        if not within_half_a_step(without_clamp, matrix(seed, torch.bfloat16))
    ]
    assert wrong
    assert all(within_half_a_step(without_clamp, matrix(seed)) for seed in range(50))


def test_a_row_of_zeros_and_a_tiny_one():
    x = torch.tensor([[0.0, 0.0], [1e-45, 0.0]])
    integers, scale = quantize(x)
    assert integers.tolist() == [[0, 0], [0, 0]]
    assert scale.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("bits", [1, 9])
def test_refuses_other_bits(bits):
    with pytest.raises(ValueError, match=f"bits={bits} must be from 2 to 8"):
        quantize(matrix(), bits=bits)


@pytest.mark.parametrize("bias", [True, False])
def test_the_layer_multiplies_by_the_restored_weights(bias):
    torch.manual_seed(0)
    linear, x = nn.Linear(7, 5, bias=bias), torch.randn(2, 3, 7)
    layer = QuantizedLinear(linear)
    restored = dequantize(*quantize(linear.weight.detach()))
    expected = x @ restored.T + (linear.bias if bias else 0)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(x), linear(x), atol=0.02, rtol=0.02)
    assert list(layer.parameters()) == []
    loaded = QuantizedLinear(nn.Linear(7, 5, bias=bias))
    loaded.load_state_dict(layer.state_dict())
    assert torch.equal(loaded(x), layer(x))


def test_a_model_is_quantised_but_for_what_the_embeddings_share():
    model, ids = load_pretrained("shakespeare-gpt").model.eval(), torch.arange(4, 34).view(2, 15)
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        before = model(ids)
        linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
        quantize_linears(model)
        after = model(ids)
    assert [m for m in model.modules() if isinstance(m, nn.Linear)] == [model.output]
    found = [m for m in model.modules() if isinstance(m, QuantizedLinear)]
    assert len(found) == len(linears) - 1
    assert 0 < (after - before).abs().max() < 0.05 * before.abs().max()
