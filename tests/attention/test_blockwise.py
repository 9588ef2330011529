"""Blockwise attention is the plain one, in values and gradients, without its matrix of weights."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attentively.attention.blockwise import blockwise_attention
from attentively.attention.masks import causal_mask
from attentively.attention.scaled_dot_product import scaled_dot_product_attention

BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 3, 5, 7, 11, 13
BLOCK_SIZES = pytest.mark.parametrize("block_size", [1, 2, 3, 7, 100])


def given(queries=QUERIES, keys=KEYS, spread=1.0):
    """Sizes are distinct primes, so that no axis can be taken for another."""
    torch.manual_seed(0)
    return (
        spread * torch.randn(BATCH, HEADS, queries, D_HEAD, dtype=torch.float64),
        torch.randn(BATCH, HEADS, keys, D_HEAD, dtype=torch.float64),
        torch.randn(BATCH, HEADS, keys, D_VALUE, dtype=torch.float64),
    )


def some_mask():
    """The mask of one sentence, whose third query sees nothing, and of another with all to see."""
    mask = torch.rand(BATCH, 1, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[1] = True
    mask[0, :, 2] = False
    mask[0, :, 3] = torch.arange(KEYS) == KEYS - 1  # what it sees comes last
    return mask


def plain(query, key, value, mask=None):
    return scaled_dot_product_attention(query, key, value, mask)[0]


def test_by_hand():
    """Scores 0, ln 2 | ln 4, 0: weights 1, 2, 4, 1 of 8, and the maximum comes second."""
    query = torch.ones(1, 1)
    key = torch.tensor([1.0, 2.0, 4.0, 1.0]).log().unsqueeze(1)
    value = torch.tensor([[8.0], [4.0], [2.0], [16.0]])
    assert blockwise_attention(query, key, value, block_size=2).item() == pytest.approx(5)


def same(attention, *arguments, **keywords):
    """Whether `attention` is the plain one on large scores too, in value and gradients."""
    tensors = [tensor.requires_grad_() for tensor in arguments[:3]]
    expected = plain(*arguments)
    found = attention(*arguments, **keywords)
    probe = torch.randn_like(expected)
    pairs = [(found, expected)]
    pairs += zip(
        torch.autograd.grad((found * probe).sum(), tensors),
        torch.autograd.grad((expected * probe).sum(), tensors),
        strict=True,
    )
    return all(torch.allclose(one, other, rtol=0, atol=1e-11) for one, other in pairs)


@BLOCK_SIZES
def test_equals_the_plain_one_in_values_and_gradients(block_size):
    assert same(blockwise_attention, *given(), block_size=block_size)
    assert same(blockwise_attention, *given(), some_mask(), block_size=block_size)
    assert same(blockwise_attention, *given(spread=1000.0), block_size=block_size)


def block_by_block(query, key, value, block_size, shrinking=True, maximum=True):
    """The loop alone, for one kind of mistake at a time."""
    largest, total, context = torch.tensor(-1e300, dtype=query.dtype), 0.0, 0.0
    for keys, values in zip(key.split(block_size, -2), value.split(block_size, -2), strict=True):
        scores = query @ keys.mT / math.sqrt(D_HEAD)
        new = torch.maximum(largest, scores.amax(-1, keepdim=True)) if maximum else 0.0
        shrink = torch.exp(largest - new) if shrinking else 1.0
        weights = torch.exp(scores - new)
        total = shrink * total + weights.sum(-1, keepdim=True)
        context = shrink * context + weights @ values
        largest = new if maximum else torch.tensor(0.0)
    return context / total


def mean_of_the_blocks(query, key, value, block_size):
    """A broken twin: each block by itself, as if all of them weighed the same."""
    blocks = zip(key.split(block_size, -2), value.split(block_size, -2), strict=True)
    return torch.stack([plain(query, keys, values) for keys, values in blocks]).mean(0)


def test_broken_twins_are_caught():
    def never_shrinks(*arguments):
        return block_by_block(*arguments, shrinking=False)

    def no_maximum(*arguments):
        return block_by_block(*arguments, maximum=False)

    assert same(block_by_block, *given(), block_size=3)
    for twin in (lambda *a, block_size: never_shrinks(*a, block_size), mean_of_the_blocks):
        assert not same(twin, *given(), block_size=3)
    # Without the maximum all is well until the scores are large.
    assert same(lambda *a, block_size: no_maximum(*a, block_size), *given(), block_size=3)
    large = given(spread=1000.0)
    assert not same(lambda *a, block_size: no_maximum(*a, block_size), *large, block_size=3)


@BLOCK_SIZES
def test_the_gradient_is_the_slope(block_size):
    tensors = [tensor[:1, :1].requires_grad_() for tensor in given()]
    mask = some_mask()[:1]
    assert torch.autograd.gradcheck(
        lambda *three: blockwise_attention(*three, mask, block_size=block_size), tensors
    )


@BLOCK_SIZES
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (5, 7), (7, 5)])
def test_causal_is_the_mask_that_is_never_made(block_size, queries, keys):
    mask = causal_mask(7)[:, :queries, :keys].unsqueeze(1)
    found = blockwise_attention(*given(queries, keys), causal=True, block_size=block_size)
    torch.testing.assert_close(found, plain(*given(queries, keys), mask))


def test_causal_goes_with_a_mask():
    query, key, value = given(KEYS, KEYS)
    seen = torch.arange(KEYS).view(1, 1, 1, KEYS) < torch.tensor([4, KEYS]).view(BATCH, 1, 1, 1)
    found = blockwise_attention(query, key, value, seen, causal=True, block_size=3)
    both = seen & causal_mask(KEYS).unsqueeze(1)
    torch.testing.assert_close(found, plain(query, key, value, both))


def test_a_mask_of_queries_serves_every_block():
    mask = torch.tensor([True, False, True, True, False]).view(1, 1, QUERIES, 1)
    found = blockwise_attention(*given(), mask, block_size=3)
    torch.testing.assert_close(found, plain(*given(), mask))
    assert (found[:, :, 1] == 0).all()


@BLOCK_SIZES
def test_a_query_with_nothing_to_attend_to_gets_zeros_and_gives_none_back(block_size):
    query, key, value = (tensor.requires_grad_() for tensor in given())
    context = blockwise_attention(query, key, value, some_mask(), block_size=block_size)
    assert (context[0, :, 2] == 0).all()
    (slope,) = torch.autograd.grad(context.sum(), query)
    assert (slope[0, :, 2] == 0).all()
    assert slope.isfinite().all()


@pytest.mark.parametrize(("keys", "number"), [(4096, 20.0), (70_000, 1.0)])
def test_sums_of_many_numbers_of_16_bits_do_not_overflow(keys, number):
    """4,096 * 20 and 70,000 are more than float16 holds; the mean of equal values is that value."""
    query = torch.zeros(1, 3).half()
    key = torch.zeros(keys, 3).half()
    value = torch.full((keys, 1), number).half().requires_grad_()
    context = blockwise_attention(query, key, value)
    assert context.dtype == torch.float16
    assert context.item() == number
    (slope,) = torch.autograd.grad(context.sum(), value)
    torch.testing.assert_close(slope, torch.full_like(value, 1 / keys))


def numbers_kept(attention, length):
    """How many numbers stay for the backward pass."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no place is used twice
        return tensor

    tensors = [torch.randn(1, length, 4, requires_grad=True) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        context = attention(*tensors)
    del context
    return sum(tensor.untyped_storage().nbytes() // 4 for tensor in kept.values())


def test_what_is_kept_grows_with_the_length_alone():
    """Query, key, value and context, of 4 numbers each, and one number a query."""

    def by_blocks(*tensors):
        return blockwise_attention(*tensors, causal=True, block_size=8)

    assert [numbers_kept(by_blocks, length) for length in (16, 64)] == [16 * 17, 64 * 17]
    assert numbers_kept(plain, 64) > 64 * 64


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        made = operation(*arguments, **(keywords or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


def largest_made(attention, length):
    tensors = [torch.randn(1, length, 4, requires_grad=True) for _ in range(3)]
    with Largest() as largest:
        attention(*tensors).sum().backward()
    return largest.numbers


def test_no_matrix_of_all_pairs_is_ever_made():
    def by_blocks(*tensors):
        return blockwise_attention(*tensors, causal=True, block_size=8)

    assert [largest_made(by_blocks, length) for length in (16, 64)] == [16 * 8, 64 * 8]
    assert largest_made(plain, 64) == 64 * 64


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused():
    query, key, value = given()
    with pytest.raises(ValueError, match="block_size=0"):
        blockwise_attention(query, key, value, block_size=0)
    with pytest.raises(ValueError, match=r"keys and values must agree"):
        blockwise_attention(query, key, value[:, :, 1:])
    with pytest.raises(ValueError, match=r"\(2, 5, 7\).*\(2, 3, 5, 7\)"):
        blockwise_attention(query, key, value, torch.ones(2, 5, 7, dtype=torch.bool))


def test_a_second_derivative_is_refused_rather_than_wrong():
    query, key, value = (tensor.requires_grad_() for tensor in given())
    context = blockwise_attention(query, key, value)
    (slope,) = torch.autograd.grad((context**2).sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
