"""Every model says the same on an accelerator as on the CPU, and learns the same there.

For a few models the CPU itself stands in for the accelerator, so that these tests are seen
to run everywhere.
Tolerances: in 32 bits, 1e-4 for what models say, 1e-3 of the longest gradient for gradients.
"""

import pytest
import torch
from tiny_examples import checkpoint_of, examples_for, one_of_each
from tiny_models import MODELS, examples

from attentively.data import toy
from attentively.data.batches import Batch
from attentively.device import best
from attentively.generation.search import beam_search, greedy_search, sample
from attentively.training.objectives import teacher_forced_loss
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig
from attentively.word_vectors.training import train_vectors
from attentively.word_vectors.vector_config import VectorConfig

CONTROLS = ("seq2seq-additive", "transformer-rotary", "LanguageModel", "Captioner")


def cases(names):
    """Return every name with an accelerator, and a few with the CPU in its place."""
    return [
        *(pytest.param(name, "cpu") for name in names if name in CONTROLS),
        *(pytest.param(name, "accelerator", marks=pytest.mark.gpu) for name in names),
    ]


@pytest.fixture
def other(where, monkeypatch):
    """The device to compare with the CPU."""
    if where == "accelerator":
        monkeypatch.delenv("ATTENTIVELY_DEVICE")
        if hasattr(torch, "pretend"):  # where test_pretend_device runs these tests
            monkeypatch.setenv("ATTENTIVELY_DEVICE", "pretend")
    return best()


def on_both(make, other, compute):
    """Return what `compute` makes of the same model on the CPU and on `other`."""
    return compute(make(), torch.device("cpu")), compute(make().to(other), other)


def close(one, two, tolerance=1e-4):
    torch.testing.assert_close(one, two.cpu(), atol=tolerance, rtol=tolerance)


every_model = pytest.mark.parametrize(("name", "where"), cases(MODELS))
every_kind = pytest.mark.parametrize(("name", "where"), cases(one_of_each()))


@pytest.mark.parametrize(("name", "where"), cases(["seq2seq-additive", "transformer-rotary"]))
def test_a_generator_on_the_cpu_samples_the_same_tokens(name, other):
    def run(model, device):
        src = examples(model).src.to(device)
        generator = torch.Generator().manual_seed(3)
        found = sample(model, src, 7, samples=5, generator=generator)
        return [[hypothesis.ids for hypothesis in each] for each in found]

    here, there = on_both(MODELS[name], other, run)
    assert here == there
    assert len({tuple(ids) for each in here for ids in each}) > 1


@every_model
def test_models_say_the_same(name, other):
    def run(model, device):
        given = examples(model)
        src, tgt = given.src.to(device), given.tgt.to(device)
        with torch.no_grad():
            memory = model.encode(src)
            return model.decode(tgt, memory, need_weights=True)

    here, there = on_both(MODELS[name], other, run)
    assert there.logits.device.type == other.type
    close(here.logits, there.logits)
    if here.weights is not None:
        close(here.weights, there.weights)


@every_model
def test_gradients_are_the_same(name, other):
    def gradients(model, device):
        given = examples(model)
        batch = Batch(given.src, given.tgt).to(device)
        loss = teacher_forced_loss(model, batch)
        found = torch.autograd.grad(loss, list(model.parameters()))
        return loss, torch.cat([gradient.flatten() for gradient in found])

    (loss, here), (other_loss, there) = on_both(MODELS[name], other, gradients)
    close(loss, other_loss)
    assert (here - there.cpu()).abs().max() < 1e-3 * here.norm()


@every_model
def test_searches_find_the_same(name, other):
    def search(model, device):
        given = examples(model)
        src = given.src.to(device)
        greedy = greedy_search(model, src, max_len=7)
        beams = beam_search(model, src, max_len=7, beam_size=3)
        return [each.ids for each in greedy], [[each.ids for each in beam] for beam in beams]

    here, there = on_both(MODELS[name], other, search)
    assert here == there


@pytest.mark.usefixtures("unchecked")
@every_kind
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_goes_the_same_way(name, precision, other, monkeypatch):
    examples = examples_for(name)
    config = TrainingConfig(
        steps=4, batch_size=3, validate_every=2, schedule="constant", precision=precision
    )

    def losses(model, device):
        monkeypatch.setenv("ATTENTIVELY_DEVICE", device.type)
        checkpoint = checkpoint_of(model)
        records = Trainer(checkpoint, examples, examples, config, progress=False).fit()
        assert next(model.parameters()).device.type == device.type
        return torch.tensor([record["train_loss"] for record in records])

    here, there = on_both(lambda: one_of_each()[name], other, losses)
    close(here, there, 1e-3 if precision == "float32" else 5e-2)


@pytest.mark.parametrize("where", ["cpu", pytest.param("accelerator", marks=pytest.mark.gpu)])
def test_word_vectors_are_the_same(other, monkeypatch):
    """Windows, negative samples and the order of the pairs do not depend on the device."""
    sentences = [pair.src for pair in toy.load("train", 300, clauses=(1,))]
    config = VectorConfig(embedding_dim=5, min_count=1, epochs=2, batch_size=256, threshold=1e-2)

    def vectors(device):
        monkeypatch.setenv("ATTENTIVELY_DEVICE", device)
        return train_vectors(sentences, config, progress=False).vectors.vectors

    here, there = vectors("cpu"), vectors(other.type)
    assert there.device.type == "cpu"
    close(here, there, 1e-3)
