"""The checks of 12_self_attention, beyond what its bank of answers proves."""

import math

import pytest
import torch
from assignments import Assignment
from torch.nn import functional as F

from attentively.checks import CheckFailed
from attentively.checks import self_attention as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.checks.self_attention import black_boxes

ASSIGNMENT = Assignment("12_self_attention")
right = load_questions(ASSIGNMENT.questions)


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in ASSIGNMENT.wrong.values()) >= 10


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("Ready.\n")


# Part 3


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_the_right_answer_is_what_pytorch_computes(shape):
    query, key, value = (torch.randn(*shape, size, 7) for size in (3, 5, 5))
    mask = right.some(*shape, 3, 5)
    context, weights = right.scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(context, F.scaled_dot_product_attention(query, key, value, mask))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(*shape, 3))


def test_an_attention_that_fails_only_inside_the_transformer_is_caught():
    checks._expect_the_same_translator(right.scaled_dot_product_attention)
    flipped = "context = weights @ value -> context = (weights @ value).flip(-1)"
    with pytest.raises(CheckFailed, match="the trained model's"):
        checks._expect_the_same_translator(edited(right.scaled_dot_product_attention, flipped))


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


# Part 5


def test_no_change_in_a_box_is_near_what_counts_as_rounding():
    """So that no right answer depends on where the line is drawn, or on what is above it."""
    far = black_boxes.FAR
    boxes = [*checks.suspects().values(), black_boxes.Total(), black_boxes.Whisper(2e-5)]
    boxes += [black_boxes.Late(((far, 1),)), black_boxes.Normalised(((far, far),))]
    boxes += [black_boxes.Normalised(((1, 0), (1, 0)))]
    boxes += [black_boxes.Trigger(0), black_boxes.Trigger(10), black_boxes.Trigger(5, loud=5e-4)]
    ids, real = torch.tensor([0, 2, 3, 1, 4]), torch.tensor([False, True, True, True, True])
    for box in boxes:
        for position in range(len(ids)):
            changed = ids.repeat(7, 1)
            changed[:, position] = torch.arange(7)
            changes = box(changed, real.expand(7, -1)) - box(ids[None], real[None])
            largest = changes.abs().amax(dim=(0, 2))
            assert ((largest < 4e-5) | (largest > 4e-4)).all(), (box, largest)


def test_the_suspects_have_the_faults_that_they_were_built_with():
    ids, real = torch.tensor([0, 3, 1, 4]), torch.tensor([False, True, True, True])
    found = {
        name: right.faults(right.reached(box, ids, real, 7), real)
        for name, box in checks.suspects().items()
    }
    assert found["A"] == {"leaks": [], "missing": []}
    assert found["B"] == {"leaks": [[1, 2], [2, 3]], "missing": []}
    assert found["C"] == {"leaks": [], "missing": [[1, 1], [2, 2]]}
    assert found["D"] == {"leaks": [[1, 0], [2, 0], [3, 0]], "missing": []}
    assert found["E"] == {"leaks": [[1, 2], [1, 3], [2, 3]], "missing": []}


def test_the_trained_decoder_does_not_leak():
    ids, real = torch.tensor([2, 8, 15, 21]), torch.ones(4, dtype=torch.bool)
    reached = right.reached(checks.decoder(), ids, real, 20)
    assert right.faults(reached, real) == {"leaks": [], "missing": []}


# Part 6


def test_the_words_to_aim_can_be_told_apart():
    """A badly conditioned x would make right answers fail by rounding."""
    torch.manual_seed(0)  # as in a check
    for wanted in checks._aims(True):
        assert torch.linalg.cond(wanted.x) < (10 if wanted.x.dtype == torch.float32 else 600)
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
