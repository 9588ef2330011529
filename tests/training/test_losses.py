"""Cross-entropy counts real tokens, and only those."""

import math

import pytest
import torch
import torch.nn.functional as F

from attentively.training.losses import cross_entropy

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


@pytest.mark.parametrize("pad_id", [-100, 11])
def test_padding_may_have_an_id_outside_the_vocabulary(pad_id):
    logits, targets = batch()
    elsewhere = targets.masked_fill(targets == PAD_ID, pad_id)
    assert torch.equal(cross_entropy(logits, elsewhere, pad_id), cross_entropy(*batch(), PAD_ID))


def test_label_smoothing_by_hand():
    # Three tokens with probabilities 1/2, 1/4, 1/4; the first was right; then padding. Smoothing
    # by 0.3 asks for 0.7 + 0.1, 0.1 and 0.1 of them, which cost 1, 2 and 2 bits.
    logits = torch.tensor([[[0.5, 0.25, 0.25], [0.98, 0.01, 0.01]]]).log()
    loss = cross_entropy(logits, torch.tensor([[0, 2]]), pad_id=2, label_smoothing=0.3)
    assert loss.item() == pytest.approx((0.8 * 1 + 0.1 * 2 + 0.1 * 2) * math.log(2))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.37, 0.99])
@pytest.mark.parametrize("pad_id", [0, 4])
def test_label_smoothing_equals_torch_in_value_and_gradient(label_smoothing, pad_id):
    logits, targets = batch()
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = cross_entropy(ours, targets, pad_id, label_smoothing)
    expected = F.cross_entropy(
        theirs.transpose(1, 2), targets, ignore_index=pad_id, label_smoothing=label_smoothing
    )
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def spread_over_the_others(logits, targets, pad_id, label_smoothing):
    """A broken twin: the right token gets no share of what is spread."""
    log_p = logits.log_softmax(-1)
    right = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    others = (log_p.sum(-1) - right) / (logits.shape[-1] - 1)
    losses = -(1 - label_smoothing) * right - label_smoothing * others
    return losses[targets != pad_id].mean()


def best_probability_of_the_right_token(loss, label_smoothing, vocab=5):
    """Return what a model without any other aim ends up saying."""
    logits = torch.zeros(1, 1, vocab, dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = loss(logits, torch.tensor([[3]]), PAD_ID, label_smoothing)
        value.backward()
        return value

    optimizer.step(closure)
    return logits.softmax(-1)[0, 0, 3].item()


def test_the_right_token_has_its_part_of_the_even_share():
    # Szegedy et al.: 1 - epsilon + epsilon / K, where K = 5.
    assert best_probability_of_the_right_token(cross_entropy, 0.2) == pytest.approx(
        0.8 + 0.2 / 5, abs=1e-3
    )
    assert best_probability_of_the_right_token(spread_over_the_others, 0.2) == pytest.approx(
        0.8, abs=1e-3
    )


@pytest.mark.parametrize("label_smoothing", [-0.1, 1.0, 1.5, math.nan])
def test_a_smoothing_that_is_no_share_is_refused(label_smoothing):
    with pytest.raises(ValueError, match=f"label_smoothing={label_smoothing} must be at least 0"):
        cross_entropy(*batch(), PAD_ID, label_smoothing)


def test_an_impossible_token_costs_nothing_without_smoothing():
    logits = torch.tensor([[[0.0, 0.0, -torch.inf]]])
    loss = cross_entropy(logits, torch.tensor([[1]]), PAD_ID)
    assert loss.item() == pytest.approx(math.log(2))


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


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_impossible_logits_at_padding_do_no_harm(label_smoothing):
    logits, targets = batch()
    logits[targets == PAD_ID] = -torch.inf
    logits[targets == PAD_ID, 3] = 0.0
    logits.requires_grad_()
    loss = cross_entropy(logits, targets, PAD_ID, label_smoothing)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_nothing_but_padding_is_refused():
    logits, targets = batch()
    with pytest.raises(ValueError, match=r"all 21 targets are padding \(pad_id=0\)"):
        cross_entropy(logits, torch.full_like(targets, PAD_ID), PAD_ID)
