"""Attention pooling: near keys count more."""

import math

import pytest
import torch

from attentively.attention.kernels import (
    KERNELS,
    KernelPooling,
    boxcar,
    epanechnikov,
    gaussian,
    kernel_weights,
)
from attentively.attention.masks import masked_softmax

BATCH, QUERIES, KEYS, KEY_DIM, VALUE_DIM = 2, 3, 5, 7, 11
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def pooling_and_input(kernel, width=3.3, kind=KernelPooling):
    generator = torch.Generator().manual_seed(1)
    pooling = kind(kernel, width)
    query = torch.randn(BATCH, QUERIES, KEY_DIM, generator=generator)
    key = torch.randn(BATCH, KEYS, KEY_DIM, generator=generator)
    value = torch.randn(BATCH, KEYS, VALUE_DIM, generator=generator)
    mask = torch.rand(BATCH, QUERIES, KEYS, generator=generator) < 0.7
    mask[..., 2] = True
    return pooling, query, key, value, mask


def by_the_equation(kernel, width, query, key, value, mask):
    """One query, one key at a time, with the sums written out."""
    closeness_of = {
        "gaussian": lambda u: math.exp(-(u**2) / 2),
        "boxcar": lambda u: 1.0 if u <= 1 else 0.0,
        "epanechnikov": lambda u: 1 - u**2 if u < 1 else 0.0,
    }[kernel]
    contexts = torch.zeros(*query.shape[:2], VALUE_DIM)
    weights = torch.zeros(*query.shape[:2], KEYS)
    for b in range(BATCH):
        for q in range(QUERIES):
            closeness = [
                closeness_of(math.dist(query[b, q].tolist(), key[b, k].tolist()) / width)
                * bool(mask[b, q, k])
                for k in range(KEYS)
            ]
            for k in range(KEYS):
                if sum(closeness) > 0:
                    weights[b, q, k] = closeness[k] / sum(closeness)
                    contexts[b, q] += weights[b, q, k] * value[b, k]
    return contexts, weights


def test_kernels_by_hand():
    u = torch.tensor([0.0, 0.5, 1.0, 2.0, -0.5, -2.0])
    expected = [1, 0.8825, 0.6065, 0.1353, 0.8825, 0.1353]  # e^0, e^(-1/8), e^(-1/2), e^(-2)
    torch.testing.assert_close(gaussian(u), torch.tensor(expected), atol=5e-5, rtol=0)
    assert boxcar(u).tolist() == [1, 1, 1, 0, 1, 0]
    assert epanechnikov(u).tolist() == [1, 0.75, 0, 0, 0.75, 0]


@pytest.mark.parametrize(
    ("kernel", "weights", "context"),
    [
        ("boxcar", [0.5, 0.5, 0], 15),  # two keys within reach of 2, one outside
        ("epanechnikov", [4 / 7, 3 / 7, 0], 100 / 7),  # 1 - 0 and 1 - 1/4
    ],
)
def test_pooling_by_hand(kernel, weights, context):
    """A query at 1, keys at 1, 2 and 4, values 10, 20 and 70, width 2."""
    pooling = KernelPooling(kernel, 2.0)
    key, value = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[10.0], [20.0], [70.0]])
    ours, our_weights = pooling(torch.tensor([[1.0]]), key, value)
    torch.testing.assert_close(our_weights, torch.tensor([weights]))
    torch.testing.assert_close(ours, torch.tensor([[float(context)]]))


def test_a_gaussian_by_hand():
    """Chosen so that the second key is half as close: exp(-u²/2) = 1/2."""
    far = math.sqrt(2 * math.log(2))
    context, weights = KernelPooling()(
        torch.tensor([[0.0]]), torch.tensor([[0.0], [far]]), torch.tensor([[3.0], [6.0]])
    )
    torch.testing.assert_close(weights, torch.tensor([[2 / 3, 1 / 3]]))
    torch.testing.assert_close(context, torch.tensor([[4.0]]))


@every_kernel
def test_pooling_equals_the_equation(kernel):
    pooling, query, key, value, mask = pooling_and_input(kernel)
    context, weights = pooling(query, key, value, mask)
    expected_context, expected_weights = by_the_equation(kernel, 3.3, query, key, value, mask)
    assert 0 < (expected_weights == 0).sum() < expected_weights.numel()
    torch.testing.assert_close(weights, expected_weights)
    torch.testing.assert_close(context, expected_context)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_the_slope_of_the_width_is_that_of_the_function(kernel):
    pooling, query, key, value, mask = pooling_and_input(kernel, width=4.0)
    pooling, query, key, value = (part.double() for part in (pooling, query, key, value))

    def loss():
        return pooling(query, key, value, mask)[0].square().sum()

    loss().backward()
    step, slope = 1e-6, pooling.log_width.grad.item()
    with torch.no_grad():
        pooling.log_width += step
        above = loss()
        pooling.log_width -= 2 * step
        below = loss()
    assert abs(slope) > 1e-3
    assert ((above - below) / (2 * step)).item() == pytest.approx(slope, rel=1e-5)


@every_kernel
def test_weights_sum_to_one_and_are_zero_under_the_mask(kernel):
    pooling, query, key, value, mask = pooling_and_input(kernel, width=10.0)
    _, weights = pooling(query, key, value, mask)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH, QUERIES))
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


def test_the_only_key_has_all_the_weight_however_near_the_edge_it_is():
    u = torch.tensor([[1 - 1e-7, 3.0]])
    assert 0 < epanechnikov(u)[0, 0] < 1e-6
    assert kernel_weights(u, "epanechnikov").tolist() == [[1.0, 0.0]]


class DividesByTheSum(KernelPooling):
    """A broken twin, the equation as it stands: 0 / 0 where no key is near."""

    def forward(self, query, key, value, mask=None):
        steps = query.unsqueeze(-2) - key.unsqueeze(-3)
        closeness = KERNELS[self.kernel](steps.norm(dim=-1) / self.width)
        weights = closeness / closeness.sum(dim=-1, keepdim=True)
        return weights @ value, weights


def finds_nothing_where_nothing_is_near(kind, kernel) -> bool:
    pooling, query, key, value, _ = pooling_and_input(kernel, kind=kind)
    query[0, 1] += 1000
    context, weights = pooling(query, key, value.requires_grad_())
    context.sum().backward()
    return bool(
        (weights[0, 1] == 0).all() and (context[0, 1] == 0).all() and value.grad.isfinite().all()
    )


@pytest.mark.parametrize("kernel", ["boxcar", "epanechnikov"])
def test_a_query_with_no_key_within_reach_gives_zeros(kernel):
    assert finds_nothing_where_nothing_is_near(KernelPooling, kernel)
    assert not finds_nothing_where_nothing_is_near(DividesByTheSum, kernel)


def finds_the_nearest_from_afar(kind) -> bool:
    pooling = kind("gaussian")
    key, value = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[3.0], [5.0], [7.0]])
    context, _ = pooling(torch.tensor([[100.0]]), key, value)
    return torch.allclose(context, torch.tensor([[7.0]]))


def test_a_gaussian_finds_the_nearest_from_afar():
    assert finds_the_nearest_from_afar(KernelPooling)
    assert not finds_the_nearest_from_afar(DividesByTheSum)


@every_kernel
def test_a_query_that_may_look_nowhere_gets_zeros(kernel):
    pooling, query, key, value, mask = pooling_and_input(kernel, width=10.0)
    mask[1, 2] = False
    context, weights = pooling(query, key, value, mask)
    assert (weights[1, 2] == 0).all()
    assert (context[1, 2] == 0).all()
    assert (weights[1, 1].sum() > 0).all()


def order_of_the_pairs_is_nothing(kind) -> bool:
    pooling, query, key, value, mask = pooling_and_input("gaussian", kind=kind)
    order = torch.tensor([3, 0, 4, 1, 2])
    context, weights = pooling(query, key, value, mask)
    moved, moved_weights = pooling(query, key[:, order], value[:, order], mask[..., order])
    return torch.allclose(moved, context, atol=1e-6) and torch.allclose(
        moved_weights, weights[..., order], atol=1e-6
    )


def is_a_softmax_of_dot_products(keys_of_one_length) -> bool:
    """The square multiplied out: what belongs to the query alone cancels among the keys."""
    pooling, query, key, value, mask = pooling_and_input("gaussian", width=1.7)
    if keys_of_one_length:
        key = 2 * torch.nn.functional.normalize(key, dim=-1)
    _, weights = pooling(query, key, value, mask)
    scores = torch.einsum("bqd,bkd->bqk", query, key) / 1.7**2
    return torch.allclose(weights, masked_softmax(scores, mask), atol=1e-6)


def test_a_gaussian_of_equally_long_keys_is_a_softmax_of_dot_products():
    assert is_a_softmax_of_dot_products(keys_of_one_length=True)
    assert not is_a_softmax_of_dot_products(keys_of_one_length=False)


class ByPlace(KernelPooling):
    """A broken twin: the values do not go with their keys."""

    def forward(self, query, key, value, mask=None):
        context, weights = super().forward(query, key, value.sort(dim=-2).values, mask)
        return context, weights


def test_the_order_of_the_pairs_is_nothing():
    assert order_of_the_pairs_is_nothing(KernelPooling)
    assert not order_of_the_pairs_is_nothing(ByPlace)


@every_kernel
@pytest.mark.parametrize("pairs", [0, 1, 1009])
def test_any_number_of_pairs(kernel, pairs):
    """One pair alone is a lookup; of a thousand the answer is still a mean of values."""
    pooling = KernelPooling(kernel, 2.0)
    key, value = torch.randn(pairs, 1), torch.rand(pairs, 1)
    context, weights = pooling(torch.zeros(QUERIES, 1), key, value)
    assert weights.shape == (QUERIES, pairs)
    if pairs == 0:
        assert (context == 0).all()
    elif pairs == 1:
        torch.testing.assert_close(context, value.expand(QUERIES, 1))
    else:
        assert ((context > 0.3) & (context < 0.7)).all()


def test_very_wide_is_the_mean_and_very_narrow_the_nearest():
    key, value = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([[3.0], [6.0], [9.0]])
    query = torch.tensor([[0.9]])
    for kernel in KERNELS:
        context, _ = KernelPooling(kernel, 1e4)(query, key, value)
        torch.testing.assert_close(context, torch.tensor([[6.0]]), atol=1e-3, rtol=0)
        context, _ = KernelPooling(kernel, 0.2)(query, key, value)
        torch.testing.assert_close(context, torch.tensor([[6.0]]), atol=1e-3, rtol=0)
    query = torch.tensor([[0.1]])
    context, _ = KernelPooling("gaussian", 0.01)(query, key, value)
    torch.testing.assert_close(context, torch.tensor([[3.0]]))


def test_a_width_is_learned():
    """Values of a curve, each asked of the others: too wide a kernel comes narrower."""
    key = torch.linspace(0, 6, 61).unsqueeze(1)
    value = key.sin()
    others = ~torch.eye(61, dtype=torch.bool)
    pooling = KernelPooling("gaussian", 3.0)
    optimizer = torch.optim.Adam(pooling.parameters(), lr=0.1)
    losses = []
    for _ in range(80):
        context, _ = pooling(key, key, value, others)
        loss = (context - value).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 50
    assert 0.01 < pooling.width.item() < 0.5


def test_a_boxcar_has_no_slope():
    pooling, query, key, value, _ = pooling_and_input("boxcar")
    assert not pooling(query, key, value)[0].requires_grad


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_a_query_on_its_key_has_a_finite_slope(kernel):
    pooling, query, key, value, _ = pooling_and_input(kernel)
    query[:, 0] = key[:, 3]
    query[:, 1] += 1000  # and one on no key's doorstep
    context, _ = pooling(query.requires_grad_(), key, value)
    context.sum().backward()
    assert query.grad.isfinite().all()


def test_the_width_stays_positive_and_has_a_name():
    pooling = KernelPooling("gaussian", 0.3)
    assert pooling.width.item() == pytest.approx(0.3)
    assert [name for name, _ in pooling.named_parameters()] == ["log_width"]
    with torch.no_grad():
        pooling.log_width -= 20
    assert pooling.width.item() > 0


@pytest.mark.usefixtures("unchecked")
def test_impossible_choices_are_refused():
    with pytest.raises(ValueError, match=r"kernel='round' is unknown: choose one of .*'boxcar'"):
        KernelPooling("round")
    with pytest.raises(ValueError, match=r"kernel='foo' is unknown: choose one of .*'boxcar'"):
        kernel_weights(torch.ones(1, 3), "foo")
    for width in (0.0, math.nan):
        with pytest.raises(ValueError, match=f"width={width} must be positive"):
            KernelPooling("boxcar", width)


@every_kernel
@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_another_shape_is_refused_with_both_shapes(kernel):
    with pytest.raises(ValueError, match=r"\(3, 5\).*\(2, 3, 5\)"):
        kernel_weights(torch.ones(2, 3, 5), kernel, torch.ones(3, 5, dtype=torch.bool))


@every_kernel
@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_numbers_is_refused(kernel):
    added = torch.tensor([[0.0, 0.0, -torch.inf]])
    with pytest.raises(TypeError, match=r"a mask must be Bool .*.* but this one is torch\.float32"):
        kernel_weights(torch.zeros(1, 3), kernel, added)


@every_kernel
@pytest.mark.usefixtures("unchecked")
def test_without_keys_there_are_no_weights(kernel):
    assert kernel_weights(torch.ones(3, 0), kernel).shape == (3, 0)
    assert kernel_weights(torch.ones(3, 0), kernel, torch.ones(3, 0).bool()).shape == (3, 0)


@pytest.mark.usefixtures("unchecked")
def test_the_slope_of_a_gaussian_is_that_of_its_equation():
    u = torch.tensor([[0.5, 1.5, 1.0], [2.0, 3.0, 0.25]], dtype=torch.double, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert torch.autograd.gradcheck(lambda u: kernel_weights(u, "gaussian"), u)
    assert torch.autograd.gradcheck(lambda u: kernel_weights(u, "gaussian", mask), u)
    grown = torch.autograd.grad(kernel_weights(u, "gaussian")[0, 0], u)[0]
    plain = torch.softmax(-u.square() / 2, dim=-1)[0, 0]
    torch.testing.assert_close(grown, torch.autograd.grad(plain, u)[0])
