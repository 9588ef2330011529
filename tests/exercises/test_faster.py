"""The checks of 20_faster: what is counted is what PyTorch does, and the meter sees it."""

import pytest
import torch
from assignments import Assignment
from torch import nn
from torch.utils.checkpoint import checkpoint

from attentively.checks import CheckFailed, faster
from attentively.checks.recordings import load_questions
from attentively.training.memory_meter import MemoryMeter

WIDTH, INNER, BATCH = 5, 11, 7
memory = load_questions(Assignment("20_faster").questions).memory


@pytest.mark.parametrize("every", [None, 1, 2, 3, 5])
def test_what_the_forward_pass_keeps_is_what_is_counted(every):
    layers = 5
    stack = [
        nn.Sequential(nn.Linear(WIDTH, INNER), nn.Tanh(), nn.Linear(INNER, WIDTH), nn.Tanh())
        for _ in range(layers)
    ]
    x = torch.randn(BATCH, WIDTH, requires_grad=True)
    with MemoryMeter() as meter:
        h = x.clone()
        for first in range(0, layers, every or layers):
            segment = nn.Sequential(*stack[first : first + (every or layers)])
            h = segment(h) if every is None else checkpoint(segment, h, use_reentrant=False)
    output = 4 * BATCH * WIDTH  # of the last layer, which nothing has read yet
    if every is None:
        expected = memory(0, layers, INNER, WIDTH, BATCH)["activations"]
    else:
        expected = 4 * BATCH * WIDTH * -(-layers // every)
    assert meter.live == expected + output


def test_a_chunk_is_gone_when_the_next_one_comes():
    scores = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    values = [torch.ones(2, 1), torch.zeros(1, 1)]
    stream = faster.stream(scores, values)
    first, _ = next(stream)
    assert first.tolist() == [1.0, 2.0]
    next(stream)
    assert first.tolist() != [1.0, 2.0]
    assert list(stream) == []


def test_a_mistake_is_named_only_where_it_explains_every_answer():
    def mistaken_once(parameters, layers, inside, edge, batch, every=None):
        sizes = memory(parameters, layers, inside, edge, batch, every)
        return {**sizes, "moments": sizes["moments"] // (2 if parameters == 77 else 1)}

    with pytest.raises(CheckFailed) as caught:
        faster.budget(mistaken_once, None)
    assert "Adam stores two values" not in str(caught.value)
    assert "This is not the expected value of moments" in str(caught.value)
