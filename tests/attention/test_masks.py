"""Masks say where attention may look, and masked_softmax looks nowhere else."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attentively.attention.masks import causal_mask, masked_softmax, padding_mask

PAD_ID = 0


def scores_and_mask(seed=0, shape=(3, 5, 7)):
    """Random scores and a random mask of distinct prime sizes; every row may look somewhere."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(shape, generator=generator) * 4
    mask = torch.rand(shape, generator=generator) < 0.6
    mask[..., seed % shape[-1]] = True
    return scores, mask


def fills_with_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """A broken twin: a score of 0 still weighs exp(0)."""
    return torch.softmax(scores.masked_fill(~mask, 0.0), dim=-1)


def multiplies_after(scores: Tensor, mask: Tensor) -> Tensor:
    """A broken twin: what the mask takes away is missing from the sum."""
    return torch.softmax(scores, dim=-1) * mask


def leaks_a_little(scores: Tensor, mask: Tensor) -> Tensor:
    """A broken twin: -5 is not low enough."""
    return torch.softmax(scores.masked_fill(~mask, -5.0), dim=-1)


def over_the_queries(scores: Tensor, mask: Tensor) -> Tensor:
    """A broken twin: the wrong axis."""
    return torch.softmax(scores.masked_fill(~mask, -1e9), dim=-2).masked_fill(~mask, 0.0)


def minus_infinity(scores: Tensor, mask: Tensor) -> Tensor:
    """A broken twin, the usual one: right until a row has nothing to attend to."""
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)


def divides_by_the_sum(scores: Tensor, mask: Tensor) -> Tensor:
    """A broken twin, the equation as it stands: 0 / 0 where all is masked."""
    exponentials = scores.exp() * mask
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def test_padding_mask_is_true_at_tokens():
    ids = torch.tensor([[5, 6, 3], [7, PAD_ID, PAD_ID]])
    expected = torch.tensor([[[True, True, True]], [[True, False, False]]])
    assert torch.equal(padding_mask(ids, PAD_ID), expected)
    assert padding_mask(ids, 7).tolist() == [[[True, True, True]], [[False, True, True]]]


def test_causal_mask_is_true_up_to_the_query():
    assert causal_mask(3).tolist() == [
        [[True, False, False], [True, True, False], [True, True, True]]
    ]


def test_masks_combine():
    ids = torch.tensor([[5, 6, 3, PAD_ID, PAD_ID], [7, 3, PAD_ID, PAD_ID, PAD_ID]])
    both = padding_mask(ids, PAD_ID) & causal_mask(5)
    assert both.shape == (2, 5, 5)
    assert both[0, 4].tolist() == [True, True, True, False, False]
    assert both[0, 1].tolist() == [True, True, False, False, False]
    assert both[1, 4].tolist() == [True, True, False, False, False]


def test_by_hand():
    # exp(ln 3) : exp(ln 1) = 3 : 1, and the key between them does not take part.
    scores = torch.tensor([math.log(3.0), 100.0, 0.0])
    weights = masked_softmax(scores, torch.tensor([True, False, True]))
    torch.testing.assert_close(weights, torch.tensor([0.75, 0.0, 0.25]))


def equals_a_softmax_of_the_visible(softmax) -> bool:
    """Row by row, with the masked scores taken out altogether."""
    for seed in range(5):
        scores, mask = scores_and_mask(seed)
        weights = softmax(scores, mask)
        expected = torch.zeros_like(scores)
        for index in torch.cartesian_prod(*(torch.arange(size) for size in scores.shape[:-1])):
            row = tuple(index.tolist())
            expected[row][mask[row]] = torch.softmax(scores[row][mask[row]], dim=-1)
        if not torch.allclose(weights, expected, atol=1e-6):
            return False
    return True


def test_equals_a_softmax_of_the_visible():
    assert equals_a_softmax_of_the_visible(masked_softmax)
    assert equals_a_softmax_of_the_visible(minus_infinity)
    for broken in (fills_with_zero, multiplies_after, leaks_a_little, over_the_queries):
        assert not equals_a_softmax_of_the_visible(broken), broken.__name__


def test_without_a_mask_it_is_the_softmax():
    scores, _ = scores_and_mask()
    torch.testing.assert_close(masked_softmax(scores), torch.softmax(scores, dim=-1))


@given(st.data())
def test_rows_sum_to_one_and_masked_is_exactly_zero(data):
    number = st.floats(-1e4, 1e4, width=32)
    keys = data.draw(st.integers(1, 11))
    scores = torch.tensor(
        data.draw(st.lists(st.lists(number, min_size=keys, max_size=keys), min_size=1, max_size=3))
    )
    mask = torch.tensor(
        [data.draw(st.lists(st.booleans(), min_size=keys, max_size=keys)) for _ in scores]
    )
    weights = masked_softmax(scores, mask)
    assert (weights[~mask] == 0).all()
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).float())  # zero where all is masked


def row_of_nothing_gives_zeros(softmax) -> bool:
    scores, mask = scores_and_mask()
    mask[1, 2] = False
    weights = softmax(scores, mask)
    return bool((weights[1, 2] == 0).all() and weights.isfinite().all())


def test_a_row_with_nothing_to_attend_to_gives_zeros():
    assert row_of_nothing_gives_zeros(masked_softmax)
    assert not row_of_nothing_gives_zeros(minus_infinity)
    assert not row_of_nothing_gives_zeros(divides_by_the_sum)
    assert not row_of_nothing_gives_zeros(fills_with_zero)


def gradients_are_finite(softmax) -> bool:
    scores, mask = scores_and_mask()
    mask[1, 2] = False
    scores.requires_grad_()
    (softmax(scores, mask) * torch.arange(7.0)).sum().backward()
    return bool(scores.grad.isfinite().all() and (scores.grad[~mask] == 0).all())


def test_gradients_are_finite_and_zero_under_the_mask():
    assert gradients_are_finite(masked_softmax)
    assert not gradients_are_finite(divides_by_the_sum)
    assert not gradients_are_finite(multiplies_after)


def test_what_stands_under_the_mask_does_not_matter():
    scores, mask = scores_and_mask()
    expected = masked_softmax(scores, mask)
    for intruder in (torch.inf, -torch.inf, torch.nan, 1e30):
        assert torch.equal(masked_softmax(scores.masked_fill(~mask, intruder), mask), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    scores, mask = scores_and_mask()
    mask[1, 2] = False
    weights = masked_softmax(scores.to(dtype), mask)
    assert weights.dtype == dtype
    assert (weights[~mask] == 0).all()
    expected = masked_softmax(scores.to(dtype).double(), mask)
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(weights.double(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("shape", [(3, 1, 7), (1, 5, 7), (1, 1, 7), (3, 5, 1), (1, 1, 1)])
def test_an_axis_of_one_serves_all(shape):
    scores, _ = scores_and_mask()
    _, mask = scores_and_mask(seed=1, shape=shape)
    torch.testing.assert_close(
        masked_softmax(scores, mask), masked_softmax(scores, mask.expand(3, 5, 7))
    )


@pytest.mark.parametrize("shape", [(7,), (5, 7), (3, 7), (1, 3, 5, 7), (3, 5, 2), (2, 1, 7)])
def test_a_mask_of_another_shape_is_refused(shape):
    # (5, 7) would broadcast in PyTorch, silently: here a mask has the axes of the scores.
    scores, _ = scores_and_mask()
    with pytest.raises(ValueError) as refused:
        masked_softmax(scores, torch.ones(shape, dtype=torch.bool))
    assert str(shape) in str(refused.value)
    assert "(3, 5, 7)" in str(refused.value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_mask_of_numbers_is_refused(dtype):
    scores, mask = scores_and_mask()
    with pytest.raises(TypeError, match=f"a mask must be Bool .*.* but this one is {dtype}"):
        masked_softmax(scores, mask.to(dtype))
