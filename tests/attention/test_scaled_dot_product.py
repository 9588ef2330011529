"""Scaled dot-product attention does what its equation says, readable and fused."""

import math

import pytest
import torch
import torch.nn.functional as F

from attentively.attention.masks import causal_mask
from attentively.attention.scaled_dot_product import fused_attention, scaled_dot_product_attention

BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 3, 5, 7, 11, 13


def given(seed=0):
    """Sizes are distinct primes, so that no axis can be taken for another."""
    torch.manual_seed(seed)
    query = torch.randn(BATCH, HEADS, QUERIES, D_HEAD)
    key = torch.randn(BATCH, HEADS, KEYS, D_HEAD)
    value = torch.randn(BATCH, HEADS, KEYS, D_VALUE)
    mask = torch.rand(BATCH, 1, QUERIES, KEYS) < 0.6
    mask[..., seed % KEYS] = True
    mask[1, 0, 2] = False  # a query with nothing to attend to
    bias = torch.randn(1, HEADS, QUERIES, KEYS)
    return query, key, value, mask, bias


MASKS_AND_BIASES = pytest.mark.parametrize(
    ("masked", "biased"), [(False, False), (True, False), (False, True), (True, True)]
)


def test_by_hand():
    # d = 4, so the scores are halved: 2 ln 3 / 2 = ln 3 against 0, which weigh 3 : 1.
    query = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    key = torch.tensor([[2 * math.log(3), 5.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0.0]])
    value = torch.tensor([[8.0, 0.0], [0.0, 4.0]])
    context, weights = scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(context, torch.tensor([[6.0, 1.0]]))


def test_equals_the_equation_one_number_at_a_time():
    query, key, value, mask, bias = given()
    context, weights = scaled_dot_product_attention(query, key, value, mask, bias)
    for b, h, i in torch.cartesian_prod(*map(torch.arange, (BATCH, HEADS, QUERIES))).tolist():
        seen = mask[b, 0, i].nonzero().flatten().tolist()
        scores = {
            j: sum(query[b, h, i, d] * key[b, h, j, d] for d in range(D_HEAD)) / D_HEAD**0.5
            + bias[0, h, i, j]
            for j in seen
        }
        total = sum(score.exp() for score in scores.values())
        expected = torch.zeros(D_VALUE)
        for j, score in scores.items():
            expected += score.exp() / total * value[b, h, j]
            torch.testing.assert_close(weights[b, h, i, j], score.exp() / total)
        torch.testing.assert_close(context[b, h, i], expected)


@MASKS_AND_BIASES
def test_equals_torch_in_values_and_gradients(masked, biased):
    query, key, value, mask, bias = given()
    tensors = [tensor.requires_grad_() for tensor in (query, key, value, bias)]
    mask = mask if masked else torch.ones_like(mask)
    bias = bias if biased else 0 * bias
    ours, _ = scaled_dot_product_attention(query, key, value, mask, bias if biased else None)
    theirs = F.scaled_dot_product_attention(
        query, key, value, attn_mask=bias.masked_fill(~mask, -torch.inf)
    )
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn_like(ours)
    for one, other in zip(
        torch.autograd.grad((ours * probe).sum(), tensors[: 3 + biased]),
        torch.autograd.grad((theirs * probe).sum(), tensors[: 3 + biased]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@MASKS_AND_BIASES
def test_the_fused_path_is_the_readable_one(masked, biased):
    query, key, value, mask, bias = given()
    tensors = [tensor.requires_grad_() for tensor in (query, key, value, bias)][: 3 + biased]
    extras = (mask if masked else None, bias if biased else None)
    readable, _ = scaled_dot_product_attention(query, key, value, *extras)
    fused = fused_attention(query, key, value, *extras)
    torch.testing.assert_close(fused, readable)
    with torch.no_grad():  # takes other kernels
        torch.testing.assert_close(fused_attention(query, key, value, *extras), readable)
    probe = torch.randn_like(fused)
    for one, other in zip(
        torch.autograd.grad((readable * probe).sum(), tensors),
        torch.autograd.grad((fused * probe).sum(), tensors),
        strict=True,
    ):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [(), (HEADS,), (BATCH, HEADS)])
def test_any_number_of_axes_before_the_last_two(shape):
    query, key, value, mask, bias = (
        tensor.expand(BATCH, HEADS, *tensor.shape[2:])[(0,) * (2 - len(shape))]
        for tensor in given()
    )
    mask = mask.clone()
    context, weights = scaled_dot_product_attention(query, key, value, mask, bias)
    assert context.shape == (*shape, QUERIES, D_VALUE)
    assert weights.shape == (*shape, QUERIES, KEYS)
    torch.testing.assert_close(fused_attention(query, key, value, mask, bias), context)


def readable(*arguments):
    return scaled_dot_product_attention(*arguments)[0]


@pytest.mark.parametrize("attention", [readable, fused_attention])
def test_a_query_with_nothing_to_attend_to_gets_zeros(attention):
    query, key, value, mask, bias = given()
    for extras in ((mask,), (mask, bias)):
        context = attention(query, key, value, *extras)
        assert (context[1, :, 2] == 0).all()
        assert context[1, :, 1].abs().max() > 0


def variance_of_scores(attention, d_head):
    """Of two keys, the first is 0; so the logarithm of the ratio of the weights is a score."""
    torch.manual_seed(0)
    query, key = torch.randn(5000, 1, d_head), torch.randn(5000, 2, d_head)
    key[:, 0] = 0
    _, weights = attention(query, key, torch.zeros(5000, 2, 1))
    return (weights[..., 1].double() / weights[..., 0].double()).log().var().item()


def unscaled(query, key, value):
    """A broken twin: the scores grow with the dimension."""
    return scaled_dot_product_attention(query * query.shape[-1] ** 0.5, key, value)


def test_the_spread_of_the_scores_does_not_grow_with_the_dimension():
    for d_head in (7, 61):
        assert variance_of_scores(scaled_dot_product_attention, d_head) == pytest.approx(1, abs=0.1)
        assert variance_of_scores(unscaled, d_head) > 5


def no_mask(query, key, value, mask):
    """A broken twin: the mask is forgotten."""
    return scaled_dot_product_attention(query, key, value)


def mask_after_the_softmax(query, key, value, mask):
    """A broken twin: masked keys still take their part of the sum."""
    _, weights = scaled_dot_product_attention(query, key, value)
    weights = weights * mask
    return weights @ value, weights


def ignores_masked_keys(attention):
    query, key, value, mask, _ = given()
    mask = mask[:, :, :1].expand(BATCH, 1, QUERIES, KEYS)  # the same keys for every query
    unseen = ~mask[:, :, 0, :, None]
    before = attention(query, key, value, mask)
    after = attention(query, key.masked_fill(unseen, 17.0), value.masked_fill(unseen, -31.0), mask)
    return all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_masked_keys_have_no_influence():
    assert ignores_masked_keys(scaled_dot_product_attention)
    assert not ignores_masked_keys(no_mask)
    assert not ignores_masked_keys(mask_after_the_softmax)


def test_weights_sum_to_one_and_are_zero_under_the_mask():
    query, key, value, mask, bias = given()
    _, weights = scaled_dot_product_attention(query, key, value, mask, bias, dropout=0.4)
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).float().expand(BATCH, HEADS, QUERIES))
    assert (weights.masked_select(~mask) == 0).all()


def test_permuting_the_keys_permutes_the_weights_and_keeps_the_context():
    query, key, value, mask, _ = given()
    order = torch.randperm(KEYS)
    context, weights = scaled_dot_product_attention(query, key, value, mask)
    moved, moved_weights = scaled_dot_product_attention(
        query, key[:, :, order], value[:, :, order], mask[..., order]
    )
    torch.testing.assert_close(moved, context)
    torch.testing.assert_close(moved_weights, weights[..., order])


def test_with_a_causal_mask_the_first_query_copies_the_first_value():
    query, key, value, _, _ = given()
    mask = causal_mask(QUERIES).unsqueeze(1)
    context, _ = scaled_dot_product_attention(
        query, key[:, :, :QUERIES], value[:, :, :QUERIES], mask
    )
    torch.testing.assert_close(context[:, :, 0], value[:, :, 0])


@pytest.mark.parametrize("attention", [readable, fused_attention])
def test_dropout_drops_weights_and_keeps_the_mean(attention):
    # Equal weights, and values that are unit vectors: the context is the weights themselves.
    count = 4000
    query, key = torch.zeros(count, 1, D_HEAD), torch.zeros(count, 5, D_HEAD)
    value = torch.eye(5).expand(count, 5, 5)
    context = attention(query, key, value, None, None, 0.6)
    dropped = context == 0
    torch.testing.assert_close(context[~dropped], torch.full_like(context[~dropped], 0.2 / 0.4))
    assert dropped.float().mean().item() == pytest.approx(0.6, abs=0.02)
    assert context.mean().item() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("attention", [readable, fused_attention])
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7), (2, 3, 5, 5), (3, 1, 5, 7), (1, 1, 1, 1, 7)])
def test_a_mask_of_another_shape_is_refused_with_both_shapes(attention, shape):
    query, key, value, *_ = given()
    with pytest.raises(ValueError) as refused:
        attention(query, key, value, torch.ones(shape, dtype=torch.bool))
    assert str(shape) in str(refused.value)
    assert "(2, 3, 5, 7)" in str(refused.value)


@pytest.mark.parametrize("attention", [readable, fused_attention])
@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_numbers_is_refused(attention):
    """PyTorch would add it to the scores, where 0 and 1 hide nothing."""
    query, key, value, mask, _ = given()
    with pytest.raises(TypeError, match=r"a mask must be Bool .*.* but this one is torch\.float32"):
        attention(query, key, value, mask.float())


@pytest.mark.parametrize("attention", [readable, fused_attention])
@pytest.mark.usefixtures("unchecked")
def test_keys_and_values_that_do_not_fit_are_refused(attention):
    query, key, value, *_ = given()
    with pytest.raises(
        ValueError, match=r"keys and values must agree.*\(2, 3, 7, 11\).*\(2, 3, 6,"
    ):
        attention(query, key, value[:, :, 1:])
    with pytest.raises(ValueError, match=r"every axis except their number.*\(1, 3, 7, 11\)"):
        attention(query, key[:1], value[:1])  # would be stretched in silence
    with pytest.raises(ValueError, match=r"every axis except their number.*\(2, 3, 7, 10\)"):
        attention(query, key[..., 1:], value)
