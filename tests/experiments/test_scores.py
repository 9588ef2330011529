"""The experiment on scores: its conditions, and how it takes the time."""

import time

import pytest
import torch

from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.experiments import scores, toy_translation


@pytest.fixture(scope="module")
def checkpoint():
    return toy_translation.new_checkpoint("dot", seed=0, decoder="luong")


@pytest.fixture(scope="module")
def batch(checkpoint):
    _, *tokenizers = checkpoint.translator()
    return collate(encode_pairs(toy_translation.as_text(toy.load("train", 5)), *tokenizers))


def test_the_settings_reach_the_model():
    model = toy_translation.new_checkpoint("local-p", 0, decoder="luong", window=7).model
    assert model.decoder.attention.window == 7
    assert model.decoder.attention.kind == "local-p"


def test_every_score_is_asked_by_the_current_state_and_one_also_by_the_previous():
    """Additive and concat are one score, so that pair differs in who asks alone."""
    asked = {(row["attention"], row["decoder"]) for row in scores.EXPERIMENT.conditions}
    luong = {attention for attention, decoder in asked if decoder == "luong"}
    assert luong == {"dot", "general", "concat", "location", "local-m", "local-p"}
    previous = {attention for attention, decoder in asked if decoder == "bahdanau"}
    assert previous == {"fixed", "additive"}
    assert [row["attention"] for row in scores.EXPERIMENT.conditions if row["input_feeding"]]


def test_general_that_starts_at_the_identity_computes_dot(batch):
    models = {}
    for attention in ("dot", "general"):
        models[attention] = toy_translation.new_checkpoint(attention, 0, decoder="luong").model
    model = models["general"]
    model.load_state_dict(models["dot"].state_dict(), strict=False)
    wanted = models["dot"](batch.src, batch.tgt)
    assert not torch.allclose(model(batch.src, batch.tgt), wanted)
    scores.start_at_dot(model)
    torch.testing.assert_close(model(batch.src, batch.tgt), wanted)


def test_only_general_starts_at_the_identity():
    starts = {(row["attention"], row["start"]) for row in scores.EXPERIMENT.conditions}
    assert {name for name, start in starts if start == "identity"} == {"general"}


def test_a_sentence_fits_the_positions_that_location_can_score():
    for clauses in scores.CLAUSES:
        longest = max(len(pair.src) for pair in toy.load("test", 200, clauses=(clauses,)))
        assert longest + 1 <= scores.MAX_LEN  # and the end token
        assert longest > 2 * scores.WINDOW + 1  # a window is never the whole sentence


def test_a_slow_step_is_measured_as_slow(checkpoint, batch, monkeypatch):
    """The model whose encoder idles on the processor takes that much longer."""
    slow = toy_translation.new_checkpoint("dot", seed=0, decoder="luong").model
    encode = slow.encode

    def idle_and_encode(*given):
        until = time.process_time() + 0.5
        while time.process_time() < until:
            pass
        return encode(*given)

    monkeypatch.setattr(slow, "encode", idle_and_encode)
    quick_one, slow_one = scores.seconds_per_step([checkpoint.model, slow], batch, repeats=1)
    assert slow_one - quick_one > 0.3


def test_the_time_is_the_median_of_turns(checkpoint, batch, monkeypatch):
    """Two models, three turns: first 1, 9 and 2 seconds, second 5, 4 and 4."""
    clock, durations = [0.0], iter([1, 5, 9, 4, 2, 4])
    calls = []

    def seconds(device):
        if len(calls) % 2:
            clock[0] += next(durations)
        calls.append(None)
        return clock[0]

    other = toy_translation.new_checkpoint("general", seed=0, decoder="luong")
    monkeypatch.setattr(scores.device, "seconds", seconds)
    found = scores.seconds_per_step([checkpoint.model, other.model], batch, repeats=3)
    assert found == [2, 4]


def test_timing_leaves_the_model_as_it_was(checkpoint, batch):
    before = {name: value.clone() for name, value in checkpoint.model.state_dict().items()}
    scores.seconds_per_step([checkpoint.model], batch, repeats=1)
    after = checkpoint.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in checkpoint.model.parameters())
