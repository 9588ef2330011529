"""Language models of characters: what they read, what is asked of them, and how they learn."""

import itertools
import math

import pytest
import torch
from torch import nn

from attentively.experiments import character_models
from attentively.experiments.character_models import (
    characters,
    fit,
    fit_to_text,
    held_out_loss,
    surprise,
    vocab_size,
    windows,
)
from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import SPECIAL_TOKENS


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def tiny(quick=True):
    torch.manual_seed(0)
    return LanguageModel(
        LanguageModelConfig(
            vocab_size=vocab_size(quick), d_model=8, num_heads=2, d_ff=16, num_layers=1, dropout=0.0
        )
    )


def test_the_quick_text_is_the_toy_in_characters():
    train, held_out = characters("train", True), characters("validation", True)
    for ids in (train, held_out):
        assert ids.min() >= len(SPECIAL_TOKENS)
        assert ids.max() < vocab_size(True)
    assert not torch.equal(train[:100], held_out[:100])


def test_windows_are_pieces_of_the_text(generator):
    ids = torch.arange(100, 131)
    pieces = windows(ids, 500, 7, generator)
    assert pieces.shape == (500, 8)
    assert (pieces.diff(dim=1) == 1).all()
    starts = set((pieces[:, 0] - 100).tolist())
    assert starts == set(range(31 - 7))  # the last one ends with the text


class SaysTheSame(nn.Module):
    """A model that gives the next character a chance of one in four, if it is the one read."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, ids):
        chances = torch.full((*ids.shape, 11), 0.075).log()
        chances.scatter_(-1, ids.unsqueeze(-1), math.log(0.25))
        return chances + self.weight


def test_surprise_is_at_the_character_after():
    pieces = torch.tensor([[3, 3, 5], [5, 4, 4]])
    expected = -torch.tensor([[0.25, 0.075], [0.075, 0.25]]).log()
    torch.testing.assert_close(surprise(SaysTheSame(), pieces), expected)


def test_held_out_loss_goes_by_place(monkeypatch):
    text = torch.tensor([3, 3, 5, 5, 4, 4])
    monkeypatch.setattr(character_models, "characters", lambda split, quick: text)
    found = held_out_loss(SaysTheSame(), 2, True)
    low, high = -torch.tensor([0.25, 0.075]).log()
    torch.testing.assert_close(found, torch.stack([(low + high) / 2, (low + high) / 2]))


def test_training_makes_the_loss_small():
    model = tiny()
    before = held_out_loss(model, 16, True).mean()
    fit_to_text(model, 25, 4, 1e-2, 0, True)
    assert held_out_loss(model, 16, True).mean() < before - 0.3


def test_what_is_added_to_the_loss_is_made_small_too():
    model = tiny()
    table = model.decoder.input.embedding.table.weight
    before = table.norm().item()
    fit_to_text(model, 5, 2, 1e-2, 0, True, also=lambda: 100 * table.norm())
    assert table.norm().item() < before


def test_the_rate_rises_and_falls():
    model = nn.Linear(1, 1, bias=False)
    seen = []

    def loss():
        seen.append(model.weight.item())
        return model.weight.sum()

    fit(model, loss, 20, 0.1)
    moved = [-after + before for before, after in itertools.pairwise(seen)]
    assert all(step > 0 for step in moved)
    assert max(moved) == pytest.approx(0.1, rel=0.05)
    assert moved[0] < max(moved) / 1.4
    assert moved[-1] < max(moved) / 10
