"""The best device at hand, unless the environment says otherwise."""

from types import SimpleNamespace

import pytest
import torch

from attentively import device


@pytest.fixture
def machine(monkeypatch):
    """Pretend to be a machine with the given devices."""
    monkeypatch.delenv(device.VARIABLE, raising=False)

    def having(cuda=0, mps=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return having


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(1, True, "cuda"), (1, False, "cuda"), (0, True, "mps"), (0, False, "cpu")],
)
def test_the_best_at_hand(machine, cuda, mps, expected):
    machine(cuda, mps)
    assert device.best() == torch.device(expected)


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:1", "mps", " cpu "])
def test_the_environment_overrides(machine, monkeypatch, name):
    machine(cuda=2, mps=True)
    monkeypatch.setenv(device.VARIABLE, name)
    assert device.best() == torch.device(name.strip())


def test_an_empty_variable_says_nothing(machine, monkeypatch):
    machine(cuda=1)
    monkeypatch.setenv(device.VARIABLE, "")
    assert device.best() == torch.device("cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "the best one"])
def test_an_unknown_device_is_refused(machine, monkeypatch, name):
    machine(cuda=1)
    monkeypatch.setenv(device.VARIABLE, name)
    with pytest.raises(ValueError, match=f"{name}.*is not a device: try cpu, cuda or mps"):
        device.best()


@pytest.mark.parametrize(
    ("name", "cuda"), [("cuda", 0), ("cuda:2", 2), ("mps", 1), ("xpu", 1), ("meta", 1)]
)
def test_a_device_that_is_not_there_is_refused(machine, monkeypatch, name, cuda):
    machine(cuda=cuda)
    monkeypatch.setenv(device.VARIABLE, name)
    with pytest.raises(ValueError, match=f"{name}.*this machine has no such device"):
        device.best()


def test_describe(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert device.describe(torch.device("cpu")) == "cpu (1 thread)"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert device.describe(torch.device("cpu")) == "cpu (3 threads)"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A Fine One")
    assert device.describe(torch.device("cuda")) == "cuda (A Fine One)"
    assert device.describe(torch.device("mps")) == "mps"


def test_a_lack_of_memory_is_known_by_its_type_or_its_words():
    assert device.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert device.is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"))
    assert not device.is_out_of_memory(RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)  # what the CPU's allocator itself says
    assert device.is_out_of_memory(caught.value)


def test_bfloat16_is_asked_of_a_gpu_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert device.has_bfloat16(torch.device("cpu"))
    assert not device.has_bfloat16(torch.device("cuda"))


def test_each_kind_of_device_keeps_its_own_random_state(monkeypatch):
    kept = {}
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda where: torch.tensor([where.index]))
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, where: kept.update({where: state})
    )
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: torch.tensor([9]))
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state: kept.update(mps=state))
    gpu = torch.device("cuda", 1)
    assert device.random_state(torch.device("cpu")) == {}
    assert device.random_state(gpu) == {"cuda": torch.tensor([1])}
    assert device.random_state(torch.device("mps")) == {"mps": torch.tensor([9])}
    one, two = torch.zeros(1), torch.ones(1)
    device.set_random_state(gpu, one)
    device.set_random_state(torch.device("mps"), two)
    assert kept[gpu] is one
    assert kept["mps"] is two


def test_a_clock_waits_for_an_accelerator_alone(monkeypatch):
    told = []
    monkeypatch.setattr(device.time, "process_time", lambda: told.append("cpu") or 3.0)
    monkeypatch.setattr(device.time, "perf_counter", lambda: told.append("clock") or 5.0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: told.append("waited"))
    assert device.seconds(torch.device("cpu")) == 3.0
    coarse = SimpleNamespace(resolution=0.015625)  # as on Windows: a short operation takes 0 s
    with monkeypatch.context() as patch:
        patch.setattr(device.time, "get_clock_info", {"process_time": coarse}.get)
        assert device.seconds(torch.device("cpu")) == 5.0
    assert device.seconds(torch.device("cuda")) == 5.0
    assert told == ["cpu", "clock", "waited", "clock"]
