"""One process alone changes nothing; test_trainer.py shows how several processes agree."""

import pytest
import torch

from attentively.training import data_parallel
from attentively.training.data_parallel import Processes


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_shares_are_the_whole(count):
    items = list(range(5))
    shares = [Processes(rank, count).share(items) for rank in range(count)]
    assert sorted(item for share in shares for item in share) == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    parameter = torch.nn.Parameter(torch.ones(3))
    with data_parallel.processes() as alone:
        assert (alone.rank, alone.count, alone.first) == (0, 1, True)
        value = torch.tensor([2.0])
        assert alone.sum(value) is value
        assert alone.gather(value) == [value]
        alone.sum_gradients([parameter])
        alone.share_out([value])
        alone.wait()
    assert parameter.grad is None
    assert not Processes(rank=1, count=2).first
