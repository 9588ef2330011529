"""Properties of the pretend device; `test_pretend_device` runs them where it is registered."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from pretend_device import NAME, PretendTensor
from torch import nn
from torch.nn.utils import rnn

from attentively import device

DEVICE = torch.device(NAME, 0)
MIXED = "Expected all tensors to be on the same device"


def both(compute, *tensors):
    """Return what `compute` gives on the CPU and on the device."""
    there = compute(*(each.detach().to(NAME) for each in tensors))
    assert isinstance(there, PretendTensor)
    assert there.device == DEVICE
    return compute(*tensors), there.cpu()


@pytest.mark.parametrize(
    "make",
    [
        lambda **where: torch.tensor([[2.0, 3.0]], **where),
        lambda **where: torch.zeros(2, 3, **where),
        lambda **where: torch.full((2, 3), 5, **where),
        lambda **where: torch.arange(2, 11, 3, **where),
        lambda **where: torch.eye(3, **where),
        lambda **where: torch.linspace(0, 1, 5, **where),
        lambda **where: torch.ones(2, 3).new_zeros(5, **where),
        lambda **where: torch.zeros_like(torch.ones(2, 3), **where),
    ],
)
def test_tensors_are_made_on_the_device(make):
    there = make(device=NAME)
    assert there.device == DEVICE
    assert torch.equal(make(), there.cpu())


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y.T,
        lambda x, y: torch.cat([x, y]).flip(0)[1:, ::2],
        lambda x, y: torch.where(x > 0, x, y).softmax(dim=-1),
        lambda x, y: F.layer_norm(x, (5,)) * y.sum(dim=0).mul_(2),
        lambda x, y: F.scaled_dot_product_attention(x[None], y[None], x[None]),
        lambda x, y: torch.stack([x, y]).argmax(dim=0),
        lambda x, y: x.masked_fill(y > 0, torch.tensor(7.0)),
        lambda x, y: x[torch.tensor([2, 0])],
    ],
)
def test_operations_give_what_the_cpu_gives(compute):
    here, there = both(compute, torch.randn(3, 5), torch.randn(3, 5))
    torch.testing.assert_close(here, there)


def test_a_view_shares_its_values():
    x = torch.zeros(2, 3, device=NAME)
    x.T[1] = torch.tensor(5.0)
    x[0].add_(1)
    assert x.tolist() == [[1, 6, 1], [0, 5, 0]]


mixed = pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda here, there: here + there, MIXED),
        (lambda here, there: there + here, MIXED),
        (lambda here, there: here @ there, MIXED),
        (lambda here, there: torch.cat([here, there]), MIXED),
        (lambda here, there: torch.equal(here, there), MIXED),
        (lambda here, there: F.linear(here, there), MIXED),
        (lambda here, there: here.add_(there.sum()), MIXED),
        (lambda here, there: F.embedding(torch.tensor([1]), there), MIXED),
        (lambda here, there: nn.GRU(3, 5).to(NAME)(here), MIXED),
        (lambda here, there: nn.GRU(3, 5).to(NAME)(there, torch.zeros(1, 5)), MIXED),
        (lambda here, there: here[there.long()], "indices should be either on cpu"),
        (lambda here, there: there.numpy(), "can't convert pretend:0 device type tensor"),
        (lambda here, there: there.double(), "no 64-bit floats"),
        (lambda here, there: here.double().to(NAME), "no 64-bit floats"),
        (lambda here, there: there.__array__(), "can't convert pretend:0 device type tensor"),
        (
            lambda here, there: torch.rand(2, device=NAME, generator=torch.Generator()),
            "Expected a 'pretend' device type for generator but found 'cpu'",
        ),
    ],
)


@mixed
def test_what_a_gpu_refuses_is_refused(compute, message):
    with pytest.raises((RuntimeError, TypeError), match=message):
        compute(torch.zeros(3, 3), torch.zeros(3, 3, device=NAME))


@pytest.mark.parametrize(
    "compute",
    [
        lambda there: there + torch.tensor(2.0),
        lambda there: torch.tensor(2.0) * there,
        lambda there: there[torch.tensor([0])],
        lambda there: there.copy_(torch.ones(3, 3)),
        lambda there: there.cpu() + torch.ones(3, 3),
    ],
)
def test_what_a_gpu_allows_is_allowed(compute):
    compute(torch.zeros(3, 3, device=NAME))


@pytest.mark.parametrize("compute", [lambda x: x @ x.T, lambda x: x.log_softmax(dim=-1)])
def test_the_last_bit_differs(compute):
    here, there = both(compute, torch.randn(5, 7))
    assert (here != there).all()
    torch.testing.assert_close(here, there, atol=0, rtol=1e-6)


def test_a_masked_weight_is_exactly_zero():
    scores = torch.tensor([[1.0, -torch.inf, 2.0]], device=NAME)
    assert scores.softmax(dim=-1).tolist()[0][1] == 0


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_networks_and_their_gradients(kind):
    torch.manual_seed(0)
    here = kind(3, 5, batch_first=True, bidirectional=True)
    there = copy.deepcopy(here).to(NAME)
    x, lengths = torch.randn(2, 7, 3), torch.tensor([4, 7])
    for model, given in ((here, x), (there, x.to(NAME))):
        packed = rnn.pack_padded_sequence(given, lengths, True, enforce_sorted=False)
        whole, _ = model(given)
        short, _ = rnn.pad_packed_sequence(model(packed)[0], True)
        (whole + short).square().sum().backward()
    for one, other in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad.cpu(), atol=1e-4, rtol=1e-4)


def test_a_model_moves_and_keeps_what_it_shares():
    model = nn.ModuleList([nn.Embedding(7, 3), nn.Linear(3, 7, bias=False)])
    model[1].weight = model[0].weight
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model.to(NAME)
    assert model[1].weight is model[0].weight
    before = model[0].weight.cpu()
    model[1](model[0](torch.tensor([2, 5], device=NAME))).logsumexp(dim=-1).sum().backward()
    optimizer.step()
    assert not torch.equal(model.to("cpu")[0].weight, before)
    assert type(model[0].weight) is nn.Parameter


def test_random_numbers_are_the_devices_own():
    torch.manual_seed(3)
    here = torch.rand(5)
    torch.manual_seed(3)
    there = torch.rand(5, device=NAME)
    assert not torch.equal(here, there.cpu())
    assert torch.equal(here, torch.rand(5))  # it took none of the CPU's
    torch.manual_seed(3)
    assert torch.equal(there, torch.rand(5, device=NAME))
    one, two = (torch.Generator(NAME).manual_seed(2) for _ in range(2))
    drawn = torch.rand(5, device=NAME, generator=one)
    assert torch.equal(drawn, torch.rand(5, device=NAME, generator=two))
    assert not torch.equal(drawn.cpu(), torch.rand(5, generator=torch.Generator().manual_seed(2)))


def test_autocasting():
    with torch.autocast(NAME, torch.bfloat16):
        product = torch.ones(2, 2, device=NAME) @ torch.ones(2, 2, device=NAME)
        assert product.dtype == torch.bfloat16
        assert product.softmax(dim=-1).dtype == torch.float32


def test_values_come_back():
    x = torch.arange(3.0, device=NAME)
    assert x.tolist() == [0, 1, 2]
    assert x[2].item() == 2
    assert f"{x[2]:.1f}" == "2.0"
    assert "pretend:0" in repr(x)
    assert x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.equal(pickle.loads(pickle.dumps(x)), x)


def test_the_package_takes_it(monkeypatch):
    monkeypatch.setenv(device.VARIABLE, NAME)
    assert device.best() == torch.device(NAME)
    monkeypatch.setenv(device.VARIABLE, f"{NAME}:1")
    with pytest.raises(ValueError, match="has no such device"):
        device.best()
    assert device.seconds(DEVICE) <= device.seconds(DEVICE)
