"""Preference optimisation: the loss, its gradient, and the log-probability of an answer."""

import copy
import math

import pytest
import torch
from torch.nn.functional import logsigmoid

from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel
from attentively.training.preferences import (
    answer_log_probabilities,
    dpo_loss,
    preference_rewards,
)

BY_HAND = tuple(torch.tensor([x]) for x in (-10.0, -14.0, -11.0, -12.0))
"""Log-probabilities: policy of chosen and rejected, then reference of chosen and rejected."""


def swapped(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta):
    """A broken variant: the rejected answer is preferred."""
    return dpo_loss(policy_rejected, policy_chosen, reference_rejected, reference_chosen, beta)


def without_beta(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta):
    """A broken variant: beta is ignored."""
    return dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, 1.0)


def without_reference(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta):
    """A broken variant: the log-probabilities of the policy alone are compared."""
    return -logsigmoid(beta * (policy_chosen - policy_rejected)).mean()


def beta_of_the_policy_alone(
    policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta
):
    """A broken variant: beta does not multiply the log-probabilities of the reference."""
    return -logsigmoid(
        beta * (policy_chosen - policy_rejected) - (reference_chosen - reference_rejected)
    ).mean()


BROKEN = [swapped, without_beta, without_reference, beta_of_the_policy_alone]


def check_by_hand(loss):
    # Rewards 0.5 · (−10 + 11) = 0.5 and 0.5 · (−14 + 12) = −1; margin 1.5.
    assert loss(*BY_HAND, 0.5).item() == pytest.approx(math.log(1 + math.exp(-1.5)))


def test_by_hand():
    assert preference_rewards(BY_HAND[0], BY_HAND[2], 0.5).tolist() == [0.5]
    assert preference_rewards(BY_HAND[1], BY_HAND[3], 0.5).tolist() == [-1.0]
    check_by_hand(dpo_loss)


@pytest.mark.parametrize("broken", BROKEN)
def test_by_hand_catches(broken):
    with pytest.raises(AssertionError):
        check_by_hand(broken)


def random_log_probabilities(seed, pairs=7):
    generator = torch.Generator().manual_seed(seed)
    return [-20 * torch.rand(pairs, generator=generator, dtype=torch.double) for _ in range(4)]


def check_log_2_where_policy_and_reference_agree(loss):
    chosen, rejected, _, _ = random_log_probabilities(0)
    assert loss(chosen, rejected, chosen, rejected, 0.3).item() == pytest.approx(math.log(2))


def test_log_2_where_policy_and_reference_agree():
    check_log_2_where_policy_and_reference_agree(dpo_loss)


@pytest.mark.parametrize("broken", [without_reference, beta_of_the_policy_alone])
def test_agreement_catches(broken):
    with pytest.raises(AssertionError):
        check_log_2_where_policy_and_reference_agree(broken)


def check_gradient(loss, seed, beta):
    """The gradient in section 4 of the paper: weighted by sigma(reward_l - reward_w)."""
    chosen, rejected, reference_chosen, reference_rejected = random_log_probabilities(seed)
    chosen.requires_grad_()
    rejected.requires_grad_()
    loss(chosen, rejected, reference_chosen, reference_rejected, beta).backward()
    with torch.no_grad():
        wrong_by = beta * (rejected - reference_rejected) - beta * (chosen - reference_chosen)
        weight = torch.sigmoid(wrong_by)
    torch.testing.assert_close(chosen.grad, -beta * weight / len(weight))
    torch.testing.assert_close(rejected.grad, beta * weight / len(weight))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_gradient_raises_the_chosen_and_lowers_the_rejected_by_the_same_weight(seed, beta):
    check_gradient(dpo_loss, seed, beta)


@pytest.mark.parametrize("broken", BROKEN)
def test_gradient_catches(broken):
    with pytest.raises(AssertionError):
        check_gradient(broken, 0, 0.1)


def test_loss_does_not_change_when_both_answers_become_less_probable():
    chosen, rejected, *reference = random_log_probabilities(1)
    together = dpo_loss(chosen - 5, rejected - 5, *reference, beta=0.5)
    torch.testing.assert_close(together, dpo_loss(chosen, rejected, *reference, beta=0.5))


def test_large_margins_stay_finite():
    far = [torch.tensor([x], requires_grad=True) for x in (-4000.0, 0.0)]
    loss = dpo_loss(*far, torch.zeros(1), torch.zeros(1), 1.0)
    loss.backward()
    assert loss.item() == pytest.approx(4000)
    assert far[0].grad.item() == pytest.approx(-1)


@pytest.mark.parametrize("beta", [0.0, -0.1])
def test_beta_must_be_positive(beta):
    with pytest.raises(ValueError, match=r"beta=.* must be positive"):
        dpo_loss(*BY_HAND, beta)


# The log-probability of an answer


def tiny_model(seed=0):
    torch.manual_seed(seed)
    config = LanguageModelConfig(
        d_model=8, num_heads=2, d_ff=16, num_layers=1, dropout=0.0, vocab_size=11
    )
    return LanguageModel(config).eval()


IDS = torch.tensor([[1, 5, 7, 3, 9, 2, 0], [1, 4, 6, 8, 2, 0, 0]])
"""Two prompts with answers; the ends are padding."""
ANSWER = torch.tensor(
    [
        [False, False, False, True, True, True, False],
        [False, False, True, True, True, False, False],
    ]
)


def every_token(model, ids, is_answer):
    """A broken variant: the prompt counts too."""
    everything = torch.ones_like(is_answer)
    everything[:, 0] = False
    return answer_log_probabilities(model, ids, everything)


def unshifted_mask(model, ids, is_answer):
    """A broken variant: the mask marks the inputs instead of the labels."""
    moved = torch.roll(is_answer, 1, dims=1)
    return answer_log_probabilities(model, ids, moved)


def mean_over_tokens(model, ids, is_answer):
    """A broken variant: the mean instead of the sum, so that the answers lose their lengths."""
    return answer_log_probabilities(model, ids, is_answer) / is_answer.sum(dim=1)


def check_sum_over_the_answer(function):
    model = tiny_model()
    with torch.no_grad():
        found = function(model, IDS, ANSWER)
        for row, marked, total in zip(IDS, ANSWER, found, strict=True):
            expected = 0.0
            for position in marked.nonzero().flatten().tolist():
                logits = model(row[:position].unsqueeze(0))[0, -1]
                expected += logits.log_softmax(dim=-1)[row[position]].item()
            assert total.item() == pytest.approx(expected, rel=1e-4)


def test_sum_over_the_tokens_of_the_answer():
    check_sum_over_the_answer(answer_log_probabilities)


@pytest.mark.parametrize("broken", [every_token, unshifted_mask, mean_over_tokens])
def test_sum_catches(broken):
    with pytest.raises(AssertionError):
        check_sum_over_the_answer(broken)


def test_padding_changes_nothing():
    model = tiny_model()
    with torch.no_grad():
        short = answer_log_probabilities(model, IDS[:, :6], ANSWER[:, :6])
        torch.testing.assert_close(answer_log_probabilities(model, IDS, ANSWER), short)


def test_the_first_token_cannot_belong_to_the_answer():
    with pytest.raises(ValueError, match="first token"):
        answer_log_probabilities(tiny_model(), IDS, torch.ones_like(ANSWER))


def test_training_on_a_pair_increases_the_margin_and_leaves_the_reference_alone():
    reference, policy = tiny_model(), tiny_model()
    kept = copy.deepcopy(reference.state_dict())
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    with torch.no_grad():
        told = answer_log_probabilities(reference, IDS, ANSWER)
    losses = []
    for _ in range(5):
        found = answer_log_probabilities(policy, IDS, ANSWER)
        loss = dpo_loss(found[:1], found[1:], told[:1], told[1:], 0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(2), rel=1e-4)
    assert losses == sorted(losses, reverse=True)
    assert all(torch.equal(kept[name], value) for name, value in reference.state_dict().items())
