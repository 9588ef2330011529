"""The checks of 12_self_attention, beyond what its bank of answers proves."""

import math

import pytest
import right_answers_12 as right
import torch
import wrong_answers_12 as wrong
from torch.nn import functional as F

from attentively.checks import CheckFailed
from attentively.checks import self_attention as checks


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("Ready.\n")


# Part 3


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_the_reference_is_what_pytorch_computes(shape):
    query, key, value = (torch.randn(*shape, size, 7) for size in (3, 5, 5))
    mask = checks._some(*shape, 3, 5)
    context, weights = checks._attend(query, key, value, mask)
    torch.testing.assert_close(context, F.scaled_dot_product_attention(query, key, value, mask))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(*shape, 3))


def test_an_attention_that_fails_only_inside_the_transformer_is_caught():
    checks._expect_the_same_translator(right.scaled_dot_product_attention)
    with pytest.raises(CheckFailed, match="the trained model's"):
        checks._expect_the_same_translator(wrong.attention_for_long_sentences_only)


def test_put_in_replaces_every_attention_of_the_model():
    calls = []

    def counting(*asked):
        calls.append(asked)
        return right.scaled_dot_product_attention(*asked)

    model = checks.put_in(counting)
    model.attention_maps(torch.tensor([[4, 62, 3]]), torch.tensor([[2, 5]]))
    assert len(calls) == 3 * model.config.num_layers


# Part 4


@pytest.mark.parametrize("before", [False, True])
def test_what_is_enough_is_enough_in_the_worst_case_and_no_less_is(before):
    bound, d_k, share = 3.0, 5, 0.1
    scores = torch.tensor([-bound] * 4 + [bound] * 3)
    mask = scores < 0
    number = right.enough(bound, d_k, 4, 3, share, before)
    assert right.leaked(scores, mask, d_k, number, before).item() == pytest.approx(share, abs=1e-5)
    for _ in range(100):
        scores = bound * (2 * torch.rand(7) - 1)
        assert right.leaked(scores, mask, d_k, number, before) <= share
        assert checks._leak(scores, mask, d_k, number, before) <= share


# Part 5


def test_no_change_in_a_box_is_near_what_counts_as_rounding():
    """So that no right answer depends on where the line is drawn, or on what is above it."""
    boxes = [*checks.suspects().values()]
    boxes += [checks._Late((9, 1)), checks._Normalised((9, 9)), checks._Total()]
    boxes += [checks._Whisper((9, 0)), checks._Normalised((1, 0), (1, 0))]
    boxes += [checks._Trigger(0), checks._Trigger(6), checks._Trigger(5, loud=5e-4)]
    real = torch.tensor([False, True, True, True, True])
    for box in boxes:
        changes = checks._changes(box, torch.tensor([0, 2, 3, 1, 4]), real, 7).abs()
        largest = changes.amax(dim=(1, 3))
        assert ((largest < 4e-5) | (largest > 4e-4)).all(), (box, largest)


def test_the_suspects_have_the_faults_that_they_were_built_with():
    ids, real = torch.tensor([0, 3, 1, 4]), torch.tensor([False, True, True, True])
    found = {
        name: right.faults(right.reached(box, ids, real, 7), real)
        for name, box in checks.suspects().items()
    }
    assert found["A"] == {"leaks": [], "missing": []}
    assert found["B"] == {"leaks": [(1, 2), (2, 3)], "missing": []}
    assert found["C"] == {"leaks": [], "missing": [(1, 1), (2, 2)]}
    assert found["D"] == {"leaks": [(1, 0), (2, 0), (3, 0)], "missing": []}
    assert found["E"] == {"leaks": [(1, 2), (1, 3), (2, 3)], "missing": []}


def test_the_trained_decoder_does_not_leak():
    ids, real = torch.tensor([2, 8, 15, 21]), torch.ones(4, dtype=torch.bool)
    reached = right.reached(checks.decoder(), ids, real, 20)
    assert right.faults(reached, real) == {"leaks": [], "missing": []}


# Part 6


def test_the_words_to_aim_can_be_told_apart():
    """A badly conditioned x would make right answers fail by rounding."""
    torch.manual_seed(0)  # as in a check
    for wanted in checks._aims(True):
        assert torch.linalg.cond(wanted.x) < 10
        ones = torch.ones(len(wanted.target)).double()
        torch.testing.assert_close(wanted.weights.sum(dim=1), ones)


def test_one_number_a_query_will_do_where_all_look_at_the_same_word():
    """The check takes every d_k."""
    sizes = set()

    def narrow(x, target, share):
        w_q, w_k = right.aim(x, target, share)
        if len({*target}) == 1:
            inverse = torch.linalg.pinv(x)
            score = math.log((len(target) - 1) * share / (1 - share))
            w_q, w_k = score * inverse.sum(dim=1, keepdim=True), inverse[:, target[:1]]
        sizes.add(w_k.shape[1])
        return w_q, w_k

    checks.aim(narrow, thorough=True)
    assert min(sizes) == 1
