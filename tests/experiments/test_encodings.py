"""The experiment on encodings: what is asked, and what an untrained model can know."""

from pathlib import Path

import pytest
import torch

from attentively.experiments import encodings
from attentively.experiments.encodings import DELAY, LETTERS, delayed, measure, new_model, strings
from attentively.tokens.vocabulary import SPECIAL_TOKENS


def test_strings_have_every_letter_and_nothing_else():
    ids = strings(50, 20, torch.Generator().manual_seed(0))
    assert set(ids.flatten().tolist()) == {len(SPECIAL_TOKENS) + i for i in range(LETTERS)}


def test_what_is_asked_stands_so_many_steps_back():
    model = new_model("delay", "none", 0, True)
    ids = strings(3, 11, torch.Generator().manual_seed(0))
    logits = delayed(model, ids)
    assert logits.shape == (3, LETTERS + len(SPECIAL_TOKENS), 11 - DELAY)
    torch.testing.assert_close(logits[:, :, 0], model(ids)[:, DELAY])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary", "alibi"])
def test_every_encoding_but_none_tells_the_places_of_the_letters(positions):
    """Two letters before the last exchanged: without positions nothing changes in one layer."""
    ids = strings(1, 9, torch.Generator().manual_seed(0))
    other = ids[:, [1, 0, *range(2, 9)]]

    def change(kind):
        model = new_model("delay", kind, 0, True).eval()
        del model.decoder.layers[1:]
        return (model(ids) - model(other))[:, -1].abs().max().item()

    assert change("none") < 1e-5
    assert change(positions) > 1e-4


def test_accuracy_is_told_by_place(monkeypatch):
    """A model that is right up to the 32nd letter, and wrong after it."""

    def said(model, ids):
        right = torch.nn.functional.one_hot(ids[:, :-DELAY], 40).float()
        right[:, 32 - DELAY :] *= -1
        return right.transpose(1, 2)

    monkeypatch.setattr(encodings, "delayed", said)
    monkeypatch.setattr(encodings, "train", lambda *given: None)
    row = measure("delay", "none", 0, True, Path())
    assert row["by_place"] == [
        {"from": 1, "to": 16, "accuracy": 1.0},
        {"from": 17, "to": 32, "accuracy": 1.0},
        {"from": 33, "to": 64, "accuracy": 0.0},
    ]


@pytest.mark.slow
def test_relative_positions_learn_the_delay_for_any_length():
    model = new_model("delay", "relative", 0, False)
    encodings.train(model, "delay", 200, 0, False)
    ids = strings(20, 128, torch.Generator().manual_seed(1))
    with torch.no_grad():
        right = delayed(model, ids).argmax(dim=1) == ids[:, :-DELAY]
    assert right.float().mean() > 0.9
