"""Each kind of model is taught the right thing."""

import pytest
import tiny_models
import torch
import torch.nn.functional as F

from attentively import tasks
from attentively.data.batches import Batch, Example, collate
from attentively.tasks import Translation, teacher_forced_loss
from attentively.vocabulary import END_ID, PAD_ID, START_ID


def padded(batch, src=3, tgt=2):
    return Batch(F.pad(batch.src, (0, src), value=PAD_ID), F.pad(batch.tgt, (0, tgt), value=PAD_ID))


PAIRS = [
    Example([*range(4, 4 + n), END_ID], [START_ID, *range(9, 9 + m), END_ID])
    for n, m in [(2, 5), (7, 1), (3, 3)]
]


def test_padding_changes_nothing_to_the_loss():
    model, batch = tiny_models.seq2seq(), collate(PAIRS)
    losses, gradients = [], []
    for same in (batch, padded(batch)):
        loss = teacher_forced_loss(model, same)
        losses.append(loss)
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    torch.testing.assert_close(*losses)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_a_loss_that_counts_padding_would_be_seen(monkeypatch):
    def counting_padding(logits, targets, pad_id, label_smoothing):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    monkeypatch.setattr(tasks, "cross_entropy", counting_padding)
    with pytest.raises(AssertionError):
        test_padding_changes_nothing_to_the_loss()


def test_the_loss_is_of_every_next_token_given_the_true_ones():
    model, example = tiny_models.seq2seq(), PAIRS[0]
    src = torch.tensor([example.src])
    src_mask = model.source_mask(src)
    with torch.no_grad():
        state = model.start(model.encode(src, src_mask), src_mask)
        surprises = []
        for token, next_token in zip(example.tgt[:-1], example.tgt[1:], strict=True):
            logits, state = model.step(torch.tensor([token]), state)
            surprises.append(-logits.log_softmax(-1)[0, next_token])
        expected = sum(surprises) / len(surprises)
        torch.testing.assert_close(teacher_forced_loss(model, collate([example])), expected)


def test_translation_counts_the_predicted_tokens_and_smooths_in_training_only():
    model, batch = tiny_models.seq2seq(), collate(PAIRS)
    task = Translation(label_smoothing=0.3)
    assert task.count(batch) == sum(len(pair.tgt) - 1 for pair in PAIRS)
    assert task.size(PAIRS[1]) == (8, 3)
    plain = teacher_forced_loss(model, batch)
    assert torch.equal(task.loss(model, batch), plain)
    smoothed = task.training_loss(model, batch)
    src_mask = model.source_mask(batch.src)
    logits = model.decode(batch.tgt[:, :-1], model.encode(batch.src, src_mask), src_mask).logits
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.tgt[:, 1:].flatten(), ignore_index=PAD_ID, label_smoothing=0.3
    )
    torch.testing.assert_close(smoothed, expected)
    assert not torch.allclose(smoothed, plain)
