"""The checks of 14_multi_head_attention, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import Assignment

from attentively.analysis.pruning import Head, silenced
from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks import multi_head_attention as checks
from attentively.checks import replaceable_attention, show
from attentively.checks.recordings import load_questions
from attentively.checks.trained_translator import TRANSFORMER
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained

ASSIGNMENT = Assignment("14_multi_head_attention")
right = load_questions(ASSIGNMENT.questions)
SENTENCES = ["the cat drank the milk because it was sweet", "the dogs eat the bread"]


def weights(d_model=12, num_heads=4, seed=0):
    torch.manual_seed(seed)
    attention = MultiHeadAttention(d_model, num_heads)
    return attention, checks.weights_of(attention)


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith(
        "6 attention modules\nof 4 heads each. The set-up is complete.\n"
    )


# The attention as a function of its weights


@pytest.mark.parametrize("mask", [None, causal_mask(5)], ids=["no_mask", "causal"])
def test_the_reference_is_the_attention_of_the_package(mask):
    attention, state = weights()
    x = torch.randn(3, 5, 12)
    for got, expected in zip(
        checks.attend(state, 4, x, x, x, mask), attention(x, x, x, mask), strict=True
    ):
        torch.testing.assert_close(got, expected)


# Part 2


def test_the_attention_of_the_package_takes_every_seat():
    expected = translate(load_pretrained(TRANSFORMER), SENTENCES)
    found = translate(checks.with_heads_of(MultiHeadAttention), SENTENCES)
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        torch.testing.assert_close(one.weights, other.weights)


def test_a_model_without_a_key_bias_gradient_is_no_mistake():
    attention, _ = weights()
    x = torch.randn(3, 5, 12)
    context, _ = attention(x, x, x)
    (context * torch.randn_like(context)).sum().backward()
    assert attention.query_projection.bias.grad.abs().max() > 1e-3
    assert attention.key_projection.bias.grad.abs().max() < 1e-6


# Part 4


def test_one_head_can_only_mix_the_two_words():
    n = 4
    names = ("query", "key", "value", "output")
    state = {f"{name}_projection.bias": torch.zeros(2 * n) for name in names}
    matrices = right.look_ups(n, (-1, 1))
    state |= {
        f"{name}_projection.weight": matrix for name, matrix in zip(names, matrices, strict=True)
    }
    x = torch.cat([torch.eye(n), torch.eye(n)], dim=1).unsqueeze(0)
    two, one = (checks.attend(state, num_heads, x, x, x)[0][0, 1] for num_heads in (2, 1))
    assert two.round(decimals=4).tolist() == [1, 0, 0, 0, 0, 0, 1, 0]
    assert one.round(decimals=4).tolist() == [0.5, 0, 0.5, 0, 0.5, 0, 0.5, 0]


# Part 5


def test_a_shut_gate_is_a_silenced_head(monkeypatch):
    checkpoint = load_pretrained(TRANSFORMER)
    monkeypatch.setattr(replaceable_attention, "_trained", lambda: checkpoint)
    place, number = "decoder.layers.1.cross_attention", 2
    losses = checks.losses_of(place, 5)
    gates = torch.ones(4)
    gates[number] = 0
    shut, whole = losses(gates), losses(torch.ones(4))
    with silenced(checkpoint.model, [Head(place, number)]):
        torch.testing.assert_close(losses(torch.ones(4)), shut)
    assert not torch.allclose(shut, whole)


def test_pruned_weights_do_what_shut_gates_do():
    _, state = weights()
    x = torch.randn(3, 5, 12)
    small = right.pruned(state, 4, [3, 1])
    context, found = checks.attend(small, 2, x, x, x)
    gates = torch.tensor([0.0, 1.0, 0.0, 1.0])
    expected, all_weights = checks.attend(state, 4, x, x, x, gates=gates)
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(found, all_weights[:, [3, 1]])


def test_the_importance_by_hand_is_that_of_the_notebook():
    losses = checks.squares(torch.tensor([[3.0, -4.0], [1.0, 1.0]]))
    assert right.importance(losses, 2).tolist() == [5, 6]
    assert repr(losses) == "((3)·g0 + (-4)·g1)² and ((1)·g0 + (1)·g1)²"


# Part 6


def test_the_trained_transformer_translates_as_before_when_it_is_folded():
    checkpoint = load_pretrained(TRANSFORMER)
    expected = [each.text for each in translate(checkpoint, SENTENCES)]
    for attention in replaceable_attention.seats(checkpoint.model).values():
        state = right.folded(right.reordered(checks.weights_of(attention), 4, [2, 0, 3, 1]))
        attention.load_state_dict(state)
    assert [each.text for each in translate(checkpoint, SENTENCES)] == expected


def test_a_dict_of_tensors_is_shown_in_one_line():
    said = show({"weight": torch.zeros(4, 4), "bias": torch.ones(2)})
    assert said == "{'weight': a tensor of shape (4, 4), 'bias': [1.0, 1.0]}"
