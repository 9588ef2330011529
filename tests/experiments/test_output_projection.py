"""The experiment on the output projection: it is the only difference between the conditions."""

import pytest
import torch

from attentively.attention.multi_head import MultiHeadAttention
from attentively.experiments import output_projection
from attentively.experiments.toy_translation import new_transformer


def attentions(model):
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


@pytest.fixture
def model():
    return new_transformer(3).model


def test_a_fixed_output_projection_returns_the_concatenated_heads(model):
    output_projection.fix_output_projections(model)
    assert len(attentions(model)) == 6
    for attention in attentions(model):
        heads = torch.randn(2, 5, 64)
        torch.testing.assert_close(attention.output_projection(heads), heads)


def test_nothing_else_changes(model):
    output_projection.fix_output_projections(model)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == ("output_projection" not in name), name
    before = dict(new_transformer(3).model.named_parameters())
    for name, parameter in model.named_parameters():
        if "output_projection" not in name:
            assert torch.equal(parameter, before[name]), name


def test_a_run_without_the_projection_learns_fewer_parameters(tmp_path):
    rows = {
        kind: output_projection.measure(kind, seed=0, quick=True, directory=tmp_path / kind)
        for kind in ("learned", "identity")
    }
    learned, identity = (row["learned_parameters"] for row in rows.values())
    assert learned - identity == 6 * (64 * 64 + 64)
    assert [row["training_steps"] for row in rows.values()] == [4, 4]
