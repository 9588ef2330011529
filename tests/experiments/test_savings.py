"""The experiment on savings: every way makes the same step, and memory is counted rightly."""

import mmap
from pathlib import Path

import pytest
import torch

from attentively.experiments import savings
from attentively.experiments.savings import Step, away, bytes_needed, new_model
from attentively.training.data_parallel import Processes
from attentively.training.memory_meter import MemoryMeter

TEXT = savings.QUICK["long"]
MIB = 2**20


@pytest.mark.parametrize("saving", [name for name in savings.SAVINGS if name != "bfloat16"])
def test_every_way_has_the_gradient_of_the_plain_one(saving):
    ids = savings.random_text(TEXT, 1)
    assert away(saving, ids, 1, Step(new_model(saving, 1), saving)) < 2e-6


def test_half_the_bits_are_a_little_away():
    ids = savings.random_text(TEXT, 1)
    assert 1e-4 < away("bfloat16", ids, 1, Step(new_model("bfloat16", 1), "bfloat16")) < 0.05


def test_another_gradient_is_told():
    """A broken twin: each part is divided by its own number of targets, so all is twice as long."""
    ids = savings.random_text(TEXT, 1)
    step = Step(new_model("accumulation", 1), "accumulation")
    step.loss = lambda model, part: savings.PARTS * savings.loss(model, part)
    assert away("accumulation", ids, 1, step) == pytest.approx(1, abs=1e-4)


def test_the_shares_of_two_processes_are_the_whole(monkeypatch):
    monkeypatch.setattr(Processes, "sum_gradients", lambda *_: None)  # done by hand below
    ids = savings.random_text(TEXT, 1)
    models = [new_model("two processes", 1) for _ in range(2)]
    for rank, model in enumerate(models):
        Step(model, "two processes", Processes(rank, 2)).gradients(ids)
    for first, second in zip(*(model.parameters() for model in models), strict=True):
        first.grad += second.grad
    whole = Step(models[0], "two processes")
    whole.gradients = lambda ids: None  # the sum stands there already
    assert away("two processes", ids, 1, whole) < 2e-6


def kept(saving, text):
    model, ids = new_model(saving, 0), savings.random_text(text, 0)
    with MemoryMeter() as meter:
        loss = savings.loss(model, ids)
        found = meter.live
    del loss
    return found


def test_what_is_kept():
    """Without the matrices of pairs, of which the plain way keeps several a head and layer."""
    text = savings.Text(1, 256)
    matrices = 4 * 4 * 256**2 * 4  # layers, heads, pairs, bytes
    plain, blockwise, fused = (kept(name, text) for name in ("none", "blockwise", "fused"))
    assert blockwise < plain - 1.8 * matrices
    assert fused < plain - 1.8 * matrices
    assert kept("checkpoints", text) < 0.2 * plain


def test_a_gpu_would_not_be_needed_to_count():
    model = new_model("none", 0).to("meta")
    with MemoryMeter() as meter:
        loss = savings.loss(model, torch.zeros(1, 257, dtype=torch.long, device="meta"))
        found = meter.live
    assert loss.device.type == "meta"
    assert found == pytest.approx(kept("none", savings.Text(1, 256)), rel=0.01)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone tells")
def test_what_a_process_needs_at_its_worst_moment():
    def step(ids):
        for _ in range(3):  # one after the other, so they do not add up
            # Pages of the system's own: a tensor may receive memory that was freed before.
            with mmap.mmap(-1, 20 * MIB) as block:
                for page in range(0, len(block), mmap.PAGESIZE):
                    block[page] = 1

    assert bytes_needed(step, torch.zeros(1)) == pytest.approx(20 * MIB, rel=0.2)


def test_the_weights_are_the_same_whatever_the_saving():
    plain = list(new_model("none", 3).parameters())
    for saving in savings.SAVINGS[1:]:
        others = new_model(saving, 3).parameters()
        assert all(torch.equal(one, other) for one, other in zip(plain, others, strict=True))


def test_what_cannot_be_had_is_written_down(monkeypatch, tmp_path):
    monkeypatch.setattr(savings, "_start", lambda count: ["sh", "-c", "echo no luck >&2; exit 3"])
    row = savings.measure("compiled", "short", 0, False, tmp_path / "run")
    assert row == {"missing": "no luck"}


@pytest.mark.slow
def test_two_processes_are_started(tmp_path):
    row = savings.measure("two processes", "short", 0, False, tmp_path / "run")
    assert row["missing"] is None
    assert row["gradient_away"] < 2e-6
