"""The experiment on scaling: how the models grow, and two scores of the same sayings."""

import torch
from torch import nn

from attentively.experiments import scaling
from attentively.experiments.scaling import SIZES, in_a_row, new_model


def test_the_weights_of_the_layers_grow_with_the_square():
    for d_model in SIZES:
        layers = new_model(d_model, 0, True).decoder.layers
        matrices = sum(p.numel() for p in layers.parameters() if p.dim() == 2)
        assert matrices == 2 * 12 * d_model**2


class EveryFourthWrong(nn.Module):
    """Right about the next character, but for every fourth one."""

    def __init__(self, text):
        super().__init__()
        self.text = text
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, ids):
        right = nn.functional.one_hot(self.text[:, 1:], 50).float()
        right[:, 3::4] *= -1
        return right + self.weight


def test_strings_are_right_where_every_character_is(monkeypatch):
    text = torch.arange(65).remainder(40).unsqueeze(0)
    monkeypatch.setattr(scaling, "characters", lambda split, quick: text[0])
    found = {row["length"]: row["right"] for row in in_a_row(EveryFourthWrong(text), True)}
    assert found[1] == 0.75
    assert found[2] == float(f"{32 / 63:.4g}")  # two of each four, and none after the last
    assert found[4] == found[16] == 0
