"""Cross-entropy counts real tokens, and only those."""

import math

import pytest
import torch
import torch.nn.functional as F

from attentively.losses import cross_entropy

PAD_ID = 0


def batch(seed=0, batch=3, tgt_len=7, vocab=11):
    """Random logits and targets of distinct prime sizes; rows 1 and 2 end in padding."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, tgt_len, vocab, generator=generator) * 3
    targets = torch.randint(1, vocab, (batch, tgt_len), generator=generator)
    targets[1, 5:] = PAD_ID
    targets[2, 2:] = PAD_ID
    return logits, targets


def padding_counted(logits, targets, pad_id):
    """A broken twin: padding is a target like any other."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def padding_in_the_count(logits, targets, pad_id):
    """A broken twin: padding adds nothing to the sum, and one to the number of tokens."""
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return losses.mean()


def mean_of_sentence_means(logits, targets, pad_id):
    """A broken twin: a token of a short sentence weighs more."""
    rows = zip(logits, targets, strict=True)
    return torch.stack([F.cross_entropy(*row, ignore_index=pad_id) for row in rows]).mean()


def test_by_hand():
    # "de rien <end>" over four tokens, with probabilities 1/2, 1/4 and 1/8, then padding.
    probabilities = torch.tensor(
        [
            [
                [1 / 8, 1 / 2, 1 / 4, 1 / 8],
                [1 / 4, 1 / 4, 1 / 4, 1 / 4],
                [1 / 2, 1 / 8, 1 / 4, 1 / 8],
                [0.97, 0.01, 0.01, 0.01],
            ]
        ]
    )
    loss = cross_entropy(probabilities.log(), torch.tensor([[1, 2, 3, 0]]), PAD_ID)
    assert loss.item() == pytest.approx((1 + 2 + 3) * math.log(2) / 3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pad_id", [0, 4])
def test_equals_torch_in_value_and_gradient(seed, pad_id):
    logits, targets = batch(seed)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = cross_entropy(ours, targets, pad_id)
    expected = F.cross_entropy(theirs.transpose(1, 2), targets, ignore_index=pad_id)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def moves_with_the_logits_at_padding(loss):
    logits, targets = batch()
    moved = torch.where((targets == PAD_ID).unsqueeze(-1), 100 * logits, logits)
    return not torch.equal(loss(logits, targets, PAD_ID), loss(moved, targets, PAD_ID))


def moves_with_more_padding(loss):
    logits, targets = batch()
    longer = F.pad(logits, (0, 0, 0, 3), value=5.0), F.pad(targets, (0, 3), value=PAD_ID)
    return not torch.allclose(loss(logits, targets, PAD_ID), loss(*longer, PAD_ID))


def test_padding_changes_nothing():
    assert not moves_with_the_logits_at_padding(cross_entropy)
    assert not moves_with_more_padding(cross_entropy)


def test_a_loss_that_counts_padding_would_be_seen():
    assert moves_with_the_logits_at_padding(padding_counted)
    assert moves_with_more_padding(padding_counted)
    assert moves_with_more_padding(padding_in_the_count)


def weighs_every_token_alike(loss):
    logits, targets = batch()
    logits = logits.requires_grad_()
    loss(logits, targets, PAD_ID).backward()
    # d loss / d logit of the right token = (p - 1) / N: divide the p - 1 out.
    p = logits.softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    slope = logits.grad.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    weights = (slope / (p - 1))[targets != PAD_ID]
    return torch.allclose(weights, torch.full_like(weights, 1 / len(weights)))


def test_every_token_weighs_the_same():
    assert weighs_every_token_alike(cross_entropy)
    assert not weighs_every_token_alike(mean_of_sentence_means)


def test_impossible_logits_at_padding_do_no_harm():
    logits, targets = batch()
    logits[targets == PAD_ID] = -torch.inf
    logits[targets == PAD_ID, 3] = 0.0
    assert cross_entropy(logits, targets, PAD_ID).isfinite()


def test_nothing_but_padding_is_refused():
    logits, targets = batch()
    with pytest.raises(ValueError, match=r"all 21 targets are padding \(pad_id=0\)"):
        cross_entropy(logits, torch.full_like(targets, PAD_ID), PAD_ID)
