"""The experiment on costs: what it counts, and how it takes the time."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attentively.experiments import costs

LAYERS = ("GRU", "convolution", "attention")
EVERY = (*LAYERS, "fused attention")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("length", "d_model"), [(1, 4), (5, 4), (7, 12), (13, 8)])
def test_pytorch_counts_the_same_multiplications(layer, length, d_model):
    network = costs.new_layer(layer, d_model)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, length, d_model))
    counted = counter.get_total_flops() // 2  # additions are counted too, as many
    assert counted == costs.multiplications(layer, length, d_model)


def test_attention_takes_as_many_as_a_gru_where_length_and_size_are_equal():
    for size in (4, 64, 512):
        at, before, after = (
            costs.multiplications("attention", n, size) - costs.multiplications("GRU", n, size)
            for n in (size, size - 1, size + 1)
        )
        assert (before < 0, at, after > 0) == (True, 0, True)


@pytest.mark.parametrize("layer", EVERY)
def test_going_on_says_what_reading_the_whole_says(layer):
    torch.manual_seed(1)
    network = costs.new_layer(layer, 12)
    x = torch.randn(1, 7, 12)
    with torch.no_grad():
        whole = network(x)
        last = network.go_on(x[:, -1:], network.after(x[:, :-1]))
    assert torch.allclose(last.flatten(), whole[0, -1], atol=1e-6)


@pytest.mark.parametrize("layer", EVERY)
def test_going_on_twice_from_the_same_place_gives_the_same(layer):
    """The cache of attention would grow; what is timed must be one word more each time."""
    network = costs.new_layer(layer, 12)
    x, token = torch.randn(1, 5, 12), torch.randn(1, 1, 12)
    kept = network.after(x)
    with torch.no_grad():
        assert torch.equal(network.go_on(token, kept), network.go_on(token, kept))


def test_what_is_remembered_grows_with_the_text_in_attention_alone():
    found = {
        layer: [
            costs.numbers_remembered(costs.new_layer(layer, 12).after(torch.randn(1, n, 12)))
            for n in (5, 11)
        ]
        for layer in EVERY
    }
    assert found["GRU"] == [12, 12]
    assert found["convolution"] == [2 * 12, 2 * 12]
    assert found["attention"] == found["fused attention"] == [2 * 5 * 12, 2 * 11 * 12]


def test_what_is_kept_for_the_backward_pass_is_counted_once_and_without_weights():
    """x W: its backward pass needs x, of 7 · 4 numbers, and W, which is no new memory."""
    layer = torch.nn.Linear(4, 3, bias=False)
    x = torch.randn(1, 7, 4)
    assert costs.numbers_kept(layer, x) == 7 * 4
    squared = torch.nn.Sequential(layer, torch.nn.Sigmoid())  # keeps its output, 7 · 3 numbers
    assert costs.numbers_kept(squared, x) == 7 * 4 + 7 * 3


def test_only_attention_keeps_every_pair():
    grows = {
        layer: [
            costs.numbers_kept(costs.new_layer(layer, 12), torch.randn(1, n, 12))
            for n in (50, 100, 200)
        ]
        for layer in EVERY
    }
    for layer, (first, second, third) in grows.items():
        quadratic = third - second > 2.5 * (second - first)
        assert quadratic == (layer == "attention")


def test_the_quickest_run_counts_and_the_first_does_not(monkeypatch):
    durations, clock, calls = iter([1, 7, 4, 6]), [0.0], []

    def work():
        clock[0] += next(durations)
        calls.append(None)

    monkeypatch.setattr(costs.device, "seconds", lambda where: clock[0])
    assert costs.shortest(work, repeats=3) == 4
    assert len(calls) == 4


def test_an_unknown_layer_is_refused():
    with pytest.raises(ValueError, match="'LSTM' is unknown"):
        costs.new_layer("LSTM", 12)
