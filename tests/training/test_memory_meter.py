"""The meter counts what is made once, until it goes."""

import torch

from attentively.training.memory_meter import MemoryMeter


def test_the_meter_counts_what_is_new_and_forgets_what_is_gone():
    a = torch.ones(100)
    with MemoryMeter() as meter:
        b = a.view(10, 10) + 1
        b.add_(1)
        assert meter.live == 400
        c = b.t()
        del b
        assert meter.live == 400
        del c
        assert (meter.live, meter.peak) == (0, 400)
    assert ((10, 10), torch.float32) in meter.made
    assert meter.history[0] == 0 < meter.history[1] == 400  # a view, then a sum


def test_what_is_held_is_counted_once_and_until_it_goes():
    before = torch.ones(1000)
    with MemoryMeter() as meter:
        first = torch.ones(10)  # 40 bytes
        views = [first[2:], first.view(2, 5).T, before.view(10, 100)]
        assert meter.live == 40
        first += 1
        assert meter.live == 40
        second = first * 2
        assert meter.live == 80
        del first, views
        assert meter.live == 40
        second = second.double()
        assert meter.live == 80
    del second
    assert meter.peak == 120  # the doubles, while the floats stood there still
