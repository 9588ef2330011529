"""The experiment on quantisation: its outliers change no output, and its sizes are right."""

import pytest
import torch

from attentively.experiments import quantization
from attentively.layers.quantized import quantize_linears
from attentively.models.checkpoints import load_pretrained


def logits(model):
    with torch.no_grad():
        return model(torch.arange(4, 34).view(2, 15))


def gpt():
    return load_pretrained("shakespeare-gpt").model.eval()


@pytest.mark.parametrize("row", [0, 5])
def test_outliers_change_nothing_before_rounding(row):
    plain, other = gpt(), gpt()
    quantization.with_outliers(other, row)
    assert torch.equal(logits(plain), logits(other))
    sizes = other.decoder.layers[0].self_attention.query_projection.weight.abs().amax(dim=1)
    assert sizes[row] > 10 * sizes[torch.arange(len(sizes)) != row].max()


def test_outliers_hurt_a_scale_per_matrix_alone():
    plain = logits(gpt())
    away = {}
    for outliers in (False, True):
        for per_row in (False, True):
            model = gpt()
            if outliers:
                quantization.with_outliers(model)
            quantize_linears(model, per_row)
            away[outliers, per_row] = (logits(model) - plain).abs().mean().item()
    assert away[True, True] == pytest.approx(away[False, True])
    assert away[True, False] > 5 * away[False, False]


def test_the_size_counts_shared_tensors_once():
    model = gpt()
    assert quantization.stored_bytes(model) == 4 * sum(p.numel() for p in model.parameters())
    quantize_linears(model)
    assert quantization.stored_bytes(model) < 0.3 * 4 * 802_176
