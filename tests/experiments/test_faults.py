"""The experiment on faults: each is what its name says, and what a model writes is judged right."""

import pytest
import torch
from torch.nn import functional as F

from attentively.data import toy
from attentively.data.batches import Example, collate, encode_pairs
from attentively.experiments import faults
from attentively.experiments.toy_translation import as_text
from attentively.generation.search import greedy_search
from attentively.models import checkpoints
from attentively.tokens.vocabulary import PAD_ID, START_ID
from attentively.training.trainer import validation_loss

PAIRS = toy.load("test", 5, clauses=(1,))


@pytest.fixture(scope="module")
def trained():
    return checkpoints.load_pretrained("toy-transformer")


@pytest.fixture(scope="module")
def examples(trained):
    return encode_pairs(as_text(PAIRS), *trained.translator()[1:])


@pytest.fixture(scope="module")
def batch(examples):
    return collate(examples)


def logits_of(fault, batch):
    model = faults.new_model(fault, seed=3).model.eval()
    return faults.predict(model, batch)[0]


@pytest.mark.parametrize(("fault", "sees"), [("none", False), ("no causal mask", True)])
def test_only_without_the_mask_a_later_word_changes_what_is_said(fault, sees, batch):
    changed = batch._replace(tgt=batch.tgt.clone())
    changed.tgt[:, 3] = 17
    before, after = (logits_of(fault, given)[:, :3] for given in (batch, changed))
    assert torch.allclose(before, after, atol=1e-5) is not sees


def test_without_the_mask_padding_stays_unseen(batch):
    wider = F.pad(batch.tgt, (0, 4), value=PAD_ID)
    real = (batch.tgt != PAD_ID)[:, :-1]
    before, after = (
        logits_of("no causal mask", batch._replace(tgt=tgt)) for tgt in (wider[:, :-3], wider)
    )
    torch.testing.assert_close(before[:, :-1][real], after[:, :-4][real])


def test_a_model_without_a_mask_begins_with_the_same_weights():
    masked, unmasked = (faults.new_model(name, 3).model for name in ("none", "no causal mask"))
    for name, weights in masked.state_dict().items():
        assert torch.equal(weights, unmasked.state_dict()[name])


def test_the_target_is_shifted_but_for_one_fault(trained, batch):
    _, wanted = faults.predict(trained.model, batch)
    assert torch.equal(wanted, batch.tgt[:, 1:])
    _, wanted = faults.predict(trained.model, batch, "no target shift")
    assert torch.equal(wanted, batch.tgt[:, :-1])


def test_padding_counts_for_one_fault_only(trained, batch):
    model = trained.model.eval()
    logits, wanted = faults.predict(model, batch)
    assert (wanted == PAD_ID).any()
    flat = logits.flatten(0, 1), wanted.flatten()
    torch.testing.assert_close(
        faults.loss_of(model, batch, "padding in the loss"), F.cross_entropy(*flat)
    )
    torch.testing.assert_close(
        faults.loss_of(model, batch), F.cross_entropy(*flat, ignore_index=PAD_ID)
    )


def test_foresight_is_that_of_the_trainer(trained, examples):
    seen = faults.foresight(trained.model, examples, batch_size=2)
    assert seen.loss == pytest.approx(validation_loss(trained.model, examples), rel=1e-4)
    assert seen.accuracy == 1
    assert 0.9 < seen.confidence <= 1


def test_dropout_left_on_is_seen_in_validation_only(trained, examples):
    torch.manual_seed(0)
    left_on = faults.foresight(trained.model, examples, "dropout in validation")
    assert left_on.loss > faults.foresight(trained.model, examples).loss


def first_steps(fault, examples, steps=3):
    checkpoint = faults.new_model(fault, 0)
    faults.train(checkpoint.model, examples, examples, steps, seed=0, fault=fault)
    return checkpoint.model.output.weight.detach()


@pytest.mark.parametrize("fault", ["gradients not zeroed", "learning rate too high"])
def test_a_faulty_step_goes_elsewhere(fault, examples):
    assert torch.equal(first_steps("none", examples), first_steps("none", examples))
    assert not torch.allclose(first_steps("none", examples), first_steps(fault, examples))


def test_gradients_are_added_up_from_the_second_step_on(examples):
    faulty = first_steps("gradients not zeroed", examples, steps=1)
    assert torch.equal(first_steps("none", examples, steps=1), faulty)


def test_reading_the_beginning_again_writes_what_greedy_search_does(trained, examples):
    sources = [example.src for example in examples]
    src = collate([Example(source, [START_ID]) for source in sources]).src
    found = greedy_search(trained.model, src, faults.MAX_LEN)
    assert faults.write(trained.model, sources) == [hypothesis.ids for hypothesis in found]


def test_right_translations_are_well_formed_and_faithful(trained):
    judged = faults.judge(trained, PAIRS)
    assert judged["exact_match"] == judged["well_formed"] == 1
    assert judged["unfaithful"] == judged["empty"] == 0
    assert judged["examples"] == [pair.tgt_text for pair in PAIRS]


def test_another_sentence_is_unfaithful_and_a_torn_one_is_not_well_formed(
    trained, examples, monkeypatch
):
    others = [example.tgt[1:-1] for example in examples]
    others = [others[-1], *others[:-2], []]  # each has its neighbour's words, the last has none
    monkeypatch.setattr(faults, "write", lambda model, sources: others)
    judged = faults.judge(trained, PAIRS)
    assert judged["exact_match"] == 0
    assert judged["well_formed"] == judged["unfaithful"] == 0.8
    assert judged["empty"] == 0.2
