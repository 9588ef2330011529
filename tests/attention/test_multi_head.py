"""Multi-head attention does what its equation says, and what PyTorch's does."""

from dataclasses import FrozenInstanceError

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import (
    ALiBi,
    AttentionPosition,
    RelativePositionalEmbedding,
    RotaryPositionalEmbedding,
)

# Sizes that need not divide each other are distinct primes.
BATCH, QUERIES, KEYS, D_MODEL, HEADS, KV_HEADS = 3, 5, 7, 24, 6, 2
D_HEAD = D_MODEL // HEADS


def attention_and_input(seed=0, kind=MultiHeadAttention, **choices):
    torch.manual_seed(seed)
    attention = kind(D_MODEL, HEADS, **choices)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    query = torch.randn(BATCH, QUERIES, D_MODEL)
    memory = torch.randn(BATCH, KEYS, D_MODEL)
    mask = torch.rand(BATCH, QUERIES, KEYS) < 0.6
    mask[..., 3] = True
    return attention, query, memory, mask


def masks_of_self_attention():
    padding = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool().unsqueeze(1)
    return {
        "none": None,
        "padding": padding,
        "causal": causal_mask(QUERIES),
        "both": padding & causal_mask(QUERIES),
    }


def in_torch(attention):
    """Return PyTorch's module with the same weights; its three projections stand in one matrix."""
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    projections = (
        attention.query_projection,
        attention.key_projection,
        attention.value_projection,
    )
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([projection.weight for projection in projections]),
            "in_proj_bias": torch.cat([projection.bias for projection in projections]),
            "out_proj.weight": attention.output_projection.weight,
            "out_proj.bias": attention.output_projection.bias,
        }
    )
    return theirs


def gradients_of_torch(theirs):
    """Return its gradients in the order of our parameters."""
    weights = theirs.in_proj_weight.grad.chunk(3)
    biases = theirs.in_proj_bias.grad.chunk(3)
    pairs = [pair for weight, bias in zip(weights, biases, strict=True) for pair in (weight, bias)]
    return [*pairs, theirs.out_proj.weight.grad, theirs.out_proj.bias.grad]


@pytest.mark.parametrize("need_weights", [True, False], ids=["readable", "fused"])
@pytest.mark.parametrize("which", ["none", "padding", "causal", "both"])
def test_self_attention_equals_torch_in_values_weights_and_gradients(which, need_weights):
    attention, x, _, _ = attention_and_input()
    theirs, mask = in_torch(attention), masks_of_self_attention()[which]
    x.requires_grad_()
    # True means "may not" there, and a mask for every sentence is given once for every head.
    forbidden = None if mask is None else ~mask.expand(BATCH, QUERIES, QUERIES)
    context, weights = attention(x, x, x, mask, need_weights=need_weights)
    expected, expected_weights = theirs(
        x,
        x,
        x,
        attn_mask=None if forbidden is None else forbidden.repeat_interleave(HEADS, dim=0),
        average_attn_weights=False,
    )
    torch.testing.assert_close(context, expected)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights)
    else:
        assert weights is None
    check_gradients(attention, context, theirs, expected, [x])


def test_padding_equals_the_padding_mask_of_torch():
    attention, query, memory, _ = attention_and_input()
    real = torch.arange(KEYS) < torch.tensor([[7], [4], [1]])
    context, weights = attention(query, memory, memory, real.unsqueeze(1))
    expected, expected_weights = in_torch(attention)(
        query, memory, memory, key_padding_mask=~real, average_attn_weights=False
    )
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(weights, expected_weights)


@pytest.mark.parametrize("need_weights", [True, False], ids=["readable", "fused"])
def test_attention_to_another_sequence_equals_torch(need_weights):
    attention, query, key, mask = attention_and_input()
    theirs, value = in_torch(attention), torch.randn_like(key)
    inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
    context, weights = attention(*inputs, mask, need_weights=need_weights)
    expected, expected_weights = theirs(
        *inputs, attn_mask=(~mask).repeat_interleave(HEADS, dim=0), average_attn_weights=False
    )
    torch.testing.assert_close(context, expected)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights)
    check_gradients(attention, context, theirs, expected, inputs)


def check_gradients(attention, context, theirs, expected, inputs):
    probe = torch.randn_like(context)
    (context * probe).sum().backward()
    ours = [*(p.grad for p in attention.parameters()), *(tensor.grad for tensor in inputs)]
    for tensor in inputs:
        tensor.grad = None
    (expected * probe).sum().backward()
    torchs = [*gradients_of_torch(theirs), *(tensor.grad for tensor in inputs)]
    for one, other in zip(ours, torchs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def one_head_at_a_time(attention, query, memory, mask):
    """The equation: each head has its own rows of the projections; W^O joins them."""
    heads = []
    for head in range(HEADS):
        rows = slice(head * D_HEAD, (head + 1) * D_HEAD)
        q, k, v = (
            F.linear(x, projection.weight[rows], projection.bias[rows])
            for x, projection in (
                (query, attention.query_projection),
                (memory, attention.key_projection),
                (memory, attention.value_projection),
            )
        )
        scores = (q @ k.transpose(1, 2) / D_HEAD**0.5).masked_fill(~mask, -torch.inf)
        heads.append(scores.softmax(-1) @ v)
    return attention.output_projection(torch.cat(heads, dim=-1))


class NoOutputProjection(MultiHeadAttention):
    """A broken twin: W^O is forgotten."""

    def forward(self, *arguments, **choices):
        self.output_projection = nn.Identity()
        return super().forward(*arguments, **choices)


class SplitsThePositions(MultiHeadAttention):
    """A broken twin, seen often: heads made by a view without a transposition."""

    def _split_heads(self, x):
        return x.reshape(len(x), -1, x.shape[1], self.d_head)


class ScalesByTheModel(MultiHeadAttention):
    """A broken twin: divided by the root of d_model, not of d_head."""

    def _split_heads(self, x):
        return super()._split_heads(x) / HEADS**0.25


def follows_the_equation(kind):
    attention, query, memory, mask = attention_and_input(kind=kind)
    expected = one_head_at_a_time(attention, query, memory, mask)
    context, _ = attention(query, memory, memory, mask)
    return torch.allclose(context, expected, atol=1e-5)


def test_equals_the_equation_one_head_at_a_time():
    assert follows_the_equation(MultiHeadAttention)
    for broken in (NoOutputProjection, SplitsThePositions, ScalesByTheModel):
        assert not follows_the_equation(broken), broken.__name__


@pytest.mark.parametrize("need_weights", [True, False], ids=["readable", "fused"])
def test_heads_in_groups_equal_repeated_heads(need_weights):
    grouped, query, memory, mask = attention_and_input(num_kv_heads=KV_HEADS)
    full = MultiHeadAttention(D_MODEL, HEADS)
    state = grouped.state_dict()
    for name in ("key_projection", "value_projection"):
        for kind in ("weight", "bias"):
            heads = state[f"{name}.{kind}"].unflatten(0, (KV_HEADS, D_HEAD))
            state[f"{name}.{kind}"] = heads.repeat_interleave(HEADS // KV_HEADS, 0).flatten(0, 1)
    full.load_state_dict(state)
    outputs = [
        attention(query, memory, memory, mask, need_weights=need_weights)
        for attention in (grouped, full)
    ]
    torch.testing.assert_close(outputs[0], outputs[1])
    for context, _ in outputs:
        context.square().sum().backward()
    gradient = full.key_projection.weight.grad.unflatten(0, (KV_HEADS, -1, D_HEAD)).sum(1)
    torch.testing.assert_close(
        grouped.key_projection.weight.grad, gradient.flatten(0, 1), atol=1e-4, rtol=1e-4
    )
    assert grouped.key_projection.weight.numel() == full.key_projection.weight.numel() // 3


def test_heads_in_groups_equal_those_of_torch():
    attention, query, memory, mask = attention_and_input(num_kv_heads=KV_HEADS)

    def split(x):
        return x.unflatten(2, (-1, D_HEAD)).transpose(1, 2)

    heads = F.scaled_dot_product_attention(
        split(attention.query_projection(query)),
        split(attention.key_projection(memory)),
        split(attention.value_projection(memory)),
        attn_mask=mask.unsqueeze(1),
        enable_gqa=True,
    )
    expected = attention.output_projection(heads.transpose(1, 2).flatten(2))
    context, _ = attention(query, memory, memory, mask)
    torch.testing.assert_close(context, expected)


POSITIONS = {
    "none": lambda: None,
    "rotary": lambda: RotaryPositionalEmbedding(D_HEAD),
    "alibi": lambda: ALiBi(HEADS),
    "relative": lambda: RelativePositionalEmbedding(D_HEAD, 2),
}
every_position = pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS.keys())


@every_position
@pytest.mark.parametrize("num_kv_heads", [HEADS, KV_HEADS], ids=["heads", "groups"])
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
def test_the_fused_path_is_the_readable_one(position, num_kv_heads, masked):
    attention, x, _, mask = attention_and_input(num_kv_heads=num_kv_heads, position=position())
    mask = mask[:, :, :QUERIES] if masked else None
    if masked:
        mask[1, 2] = False  # nothing to attend to
    x.requires_grad_()
    parameters = [x, *attention.parameters()]
    readable, _ = attention(x, x, x, mask)
    fused, _ = attention(x, x, x, mask, need_weights=False)
    torch.testing.assert_close(fused, readable)
    if masked:
        torch.testing.assert_close(fused[1, 2], attention.output_projection.bias)
    probe = torch.randn_like(readable)
    for one, other in zip(
        torch.autograd.grad((readable * probe).sum(), parameters),
        torch.autograd.grad((fused * probe).sum(), parameters),
        strict=True,
    ):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


class ForgetsWhereItStands(MultiHeadAttention):
    """A broken twin: every new key is taken for the first."""

    def remember(self, key, value, cache=None):
        fresh = super().remember(key, value)
        return fresh if cache is None else cache.extend(fresh.keys, fresh.values)


def cached_equals_uncached(kind, position, pieces=(1, 2, 1, 1), num_kv_heads=KV_HEADS):
    attention, x, _, _ = attention_and_input(
        kind=kind, num_kv_heads=num_kv_heads, position=position()
    )
    expected, expected_weights = attention(x, x, x, causal_mask(QUERIES))
    cache, end = KeyValueCache(), 0
    for piece in pieces:
        new, end = x[:, end : end + piece], end + piece
        mask = causal_mask(end)[:, end - piece :]
        context, weights, cache = attention(new, new, new, mask, cache=cache)
        assert cache.length == end
        if not torch.allclose(context, expected[:, end - piece : end], atol=1e-5):
            return False
        torch.testing.assert_close(
            weights, expected_weights[:, :, end - piece : end, :end], atol=1e-5, rtol=1e-4
        )
    return True


@every_position
def test_piece_by_piece_with_a_cache_equals_all_at_once(position):
    assert cached_equals_uncached(MultiHeadAttention, position)


def test_a_cache_that_miscounts_would_be_seen():
    assert not cached_equals_uncached(ForgetsWhereItStands, POSITIONS["rotary"])


def test_a_memory_is_projected_once():
    attention, query, memory, mask = attention_and_input()
    expected, expected_weights = attention(query, memory, memory, mask)
    calls = []
    attention.key_projection.register_forward_hook(lambda *_: calls.append(1))
    cache = attention.remember(memory, memory)
    for index in range(QUERIES):
        context, weights, same = attention(
            query[:, index : index + 1], mask=mask[:, index : index + 1], cache=cache
        )
        assert same is cache
        torch.testing.assert_close(context, expected[:, index : index + 1])
        torch.testing.assert_close(weights, expected_weights[:, :, index : index + 1])
    assert len(calls) == 1
    assert cache.length == KEYS


def test_a_cache_does_not_change():
    attention, query, memory, _ = attention_and_input()
    cache = attention.remember(memory, memory)
    keys, values = cache.keys.clone(), cache.values.clone()
    longer = attention.remember(memory, memory, cache)
    _, _, after = attention(query, query, query, cache=cache)
    assert (cache.length, longer.length, after.length) == (KEYS, 2 * KEYS, KEYS + QUERIES)
    assert torch.equal(cache.keys, keys)
    assert torch.equal(cache.values, values)
    with pytest.raises(FrozenInstanceError):
        cache.keys = keys


def test_a_cache_selects_rows():
    attention, query, memory, mask = attention_and_input()
    rows = torch.tensor([2, 0, 2, 1])
    cache = attention.remember(memory, memory).select(rows)
    context, _, _ = attention(query[rows], mask=mask[rows], cache=cache)
    expected, _ = attention(query, memory, memory, mask)
    torch.testing.assert_close(context, expected[rows])
    assert KeyValueCache().select(rows).length == 0


def self_attention_permutes(mask=None, position=None):
    attention, x, _, _ = attention_and_input(position=position)
    order = torch.tensor([3, 0, 4, 1, 2])
    context, _ = attention(x, x, x, mask)
    moved, _ = attention(x[:, order], x[:, order], x[:, order], mask)
    return torch.allclose(moved, context[:, order], atol=1e-5)


def test_without_positions_order_does_not_matter():
    """Permuting the words permutes the answers; a causal mask or positions break this."""
    assert self_attention_permutes()
    assert not self_attention_permutes(mask=causal_mask(QUERIES))
    for position in ("rotary", "alibi", "relative"):
        assert not self_attention_permutes(position=POSITIONS[position]()), position


def test_a_position_that_says_nothing_changes_nothing():
    attention, x, _, _ = attention_and_input()
    expected = attention(x, x, x)
    attention.position = AttentionPosition()
    torch.testing.assert_close(attention(x, x, x), expected)


def test_weights_sum_to_one_and_are_zero_under_the_mask():
    attention, query, memory, mask = attention_and_input()
    _, weights = attention(query, memory, memory, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, QUERIES))
    assert (weights.masked_select(~mask.unsqueeze(1)) == 0).all()


def test_the_future_leaves_the_past_alone():
    attention, x, _, _ = attention_and_input()
    changed = torch.cat([x[:, :3], torch.randn(BATCH, 2, D_MODEL)], dim=1)
    for need_weights in (True, False):
        before, after = (
            attention(y, y, y, causal_mask(QUERIES), need_weights=need_weights)[0]
            for y in (x, changed)
        )
        assert torch.equal(before[:, :3], after[:, :3])
        assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_dropout_acts_on_the_weights_in_training_alone():
    attention, query, memory, _ = attention_and_input(dropout=1.0)
    silent = attention.output_projection.bias.expand(BATCH, QUERIES, D_MODEL)
    for need_weights in (True, False):
        context, weights = attention.train()(query, memory, memory, need_weights=need_weights)
        torch.testing.assert_close(context, silent)  # no value gets through
        if need_weights:
            torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, QUERIES))
        context, _ = attention.eval()(query, memory, memory, need_weights=need_weights)
        assert not torch.allclose(context, silent)


def test_parameters_keep_their_names():
    attention, *_ = attention_and_input(num_kv_heads=KV_HEADS)
    assert {name: tuple(p.shape) for name, p in attention.named_parameters()} == {
        "query_projection.weight": (24, 24),
        "query_projection.bias": (24,),
        "key_projection.weight": (8, 24),
        "key_projection.bias": (8,),
        "value_projection.weight": (8, 24),
        "value_projection.bias": (8,),
        "output_projection.weight": (24, 24),
        "output_projection.bias": (24,),
    }


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((24, 5), "d_model=24 does not split into num_heads=5 equal heads"),
        ((24, 0), "d_model=24 does not split into num_heads=0 equal heads"),
        ((24, 6, 0.0, 4), "num_heads=6 does not split into num_kv_heads=4 equal groups"),
        ((24, 6, 0.0, 0), "num_heads=6 does not split into num_kv_heads=0 equal groups"),
        ((24, 2, 0.0, 6), "num_heads=2 does not split into num_kv_heads=6 equal groups"),
    ],
)
def test_heads_that_do_not_divide_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(*sizes)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("need_weights", [True, False], ids=["readable", "fused"])
@pytest.mark.parametrize("shape", [(5, 7), (3, 7), (3, 5, 5), (2, 5, 7), (3, 1, 5, 7)])
def test_a_mask_of_another_shape_is_refused_with_both_shapes(shape, need_weights):
    attention, query, memory, _ = attention_and_input()
    with pytest.raises(ValueError) as refused:
        attention(query, memory, memory, torch.ones(shape).bool(), need_weights=need_weights)
    assert str(shape) in str(refused.value)
    assert "(3, 5, 7)" in str(refused.value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("need_weights", [True, False], ids=["readable", "fused"])
def test_a_mask_of_numbers_is_refused(need_weights):
    attention, query, memory, _ = attention_and_input()
    with pytest.raises(TypeError, match=r"a mask must be Bool .*.* but this one is torch\.float32"):
        attention(query, memory, memory, torch.ones(3, 5, 7), need_weights=need_weights)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_does_not_fit_the_cache_is_refused():
    attention, memory = MultiHeadAttention(6, 2), torch.randn(3, 5, 6)
    cache = attention.remember(memory, memory)
    for wrong in ((3, 2, 5), (2, 2, 7)):
        mask = torch.ones(wrong, dtype=torch.bool)
        with pytest.raises(ValueError, match=r"does not fit scores of shape \(3, 2, 7\)"):
            attention(memory[:, :2], memory[:, :2], memory[:, :2], mask, cache=cache)
    new, mask = memory[:, :2], torch.ones(3, 2, 7).bool()
    assert attention(new, new, new, mask, cache=cache)[2].length == 7


@pytest.mark.usefixtures("unchecked")
def test_keys_values_and_caches_that_do_not_fit_are_refused():
    attention, query, memory, _ = attention_and_input()
    with pytest.raises(ValueError, match=r"keys and values must agree.*\(3, 6, 7, 4\).*\(3, 6, 6,"):
        attention(query, memory, memory[:, 1:])
    with pytest.raises(ValueError, match=r"\(3, 6, 5, 4\).*\(2, 6, 7, 4\)"):
        attention(query, memory[:2], memory[:2])
    with pytest.raises(ValueError, match=r"\(3, 6, 5, 4\).*\(1, 6, 7, 4\)"):
        attention(query, cache=attention.remember(memory[:1], memory[:1]))
    cache = attention.remember(memory, memory)
    with pytest.raises(ValueError, match=r"has keys of shape \(3, 6, 7, 4\).*\(2, 6, 5, 4\)"):
        attention(query[:2], query[:2], query[:2], cache=cache)


@pytest.mark.parametrize("cache", [None, KeyValueCache()])
def test_nothing_to_attend_to_is_refused(cache):
    attention, query, _, _ = attention_and_input()
    with pytest.raises(ValueError, match="there are no keys: give key and value, or"):
        attention(query, cache=cache)


def test_a_key_without_a_value_is_refused():
    attention, query, memory, _ = attention_and_input()
    for cache in (None, attention.remember(memory, memory)):
        for key, value in ((memory, None), (None, memory)):
            with pytest.raises(ValueError, match="give both key and value, or neither"):
                attention(query, key, value, cache=cache)
