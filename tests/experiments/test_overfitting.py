"""The experiment on overfitting: what decays, and how, and what its conditions change."""

import pytest
import torch
from torch import nn

from attentively.experiments import overfitting


def after_one_step(**settings):
    """Return a matrix of ones and a bias of ones after a step of rate 0.1 with zero gradients."""
    layer = nn.Linear(3, 2)
    for parameter in layer.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    optimizer = overfitting.new_optimizer(layer.parameters(), **settings)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    return layer.weight[0, 0].item(), layer.bias[0].item()


@pytest.mark.parametrize(
    ("settings", "matrix"),
    [({}, 1.0), ({"weight_decay": 0.5}, 0.95), ({"l2": 0.001}, 0.9), ({"l2": 0.1}, 0.9)],
)
def test_decay_is_a_share_of_the_matrix_but_a_penalty_is_normalised_by_adam(settings, matrix):
    """The gradient of the penalty is divided by itself in the first step, whatever its size."""
    weight, bias = after_one_step(**settings)
    assert weight == pytest.approx(matrix, rel=1e-4)
    assert bias == 1  # never decays


def test_each_condition_changes_one_setting():
    assert overfitting.CHANGES["none"] == {}
    others = [changes for name, changes in overfitting.CHANGES.items() if name != "none"]
    assert all(len(changes) == 1 for changes in others)
    known = {"label_smoothing", "dropout", "l2", "weight_decay", "train_pairs"}
    assert {key for changes in others for key in changes} == known
