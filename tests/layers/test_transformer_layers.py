"""Encoder and decoder layers equal PyTorch's, and do what the paper says."""

import pytest
import torch
from torch import nn

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.layers.feed_forward import FeedForward
from attentively.layers.transformer_layers import DecoderLayer, EncoderLayer, Residual

BATCH, TGT_LEN, SRC_LEN, D_MODEL, HEADS, D_FF = 3, 5, 7, 12, 4, 13

both_norms = pytest.mark.parametrize("norm", ["pre", "post"])
both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def attention():
    return MultiHeadAttention(D_MODEL, HEADS)


def encoder_layer(norm="pre", activation="relu", dropout=0.0):
    torch.manual_seed(0)
    feed_forward = FeedForward(D_MODEL, D_FF, activation=activation)
    return shaken(EncoderLayer(D_MODEL, attention(), feed_forward, dropout, norm))


def decoder_layer(norm="pre", activation="relu", dropout=0.0, kind=DecoderLayer):
    torch.manual_seed(0)
    feed_forward = FeedForward(D_MODEL, D_FF, activation=activation)
    return shaken(kind(D_MODEL, attention(), attention(), feed_forward, dropout, norm))


def shaken(module):
    """At birth gains are 1 and shifts 0: change everything, so that every part counts."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def given():
    torch.manual_seed(1)
    target = torch.randn(BATCH, TGT_LEN, D_MODEL, requires_grad=True)
    memory = torch.randn(BATCH, SRC_LEN, D_MODEL, requires_grad=True)
    src_real = torch.arange(SRC_LEN) < torch.tensor([[7], [4], [1]])
    tgt_real = torch.arange(TGT_LEN) < torch.tensor([[5], [3], [4]])
    return target, memory, tgt_real, src_real


# How PyTorch names what we name.


def in_torch(ours):
    """Return PyTorch's layer with the same weights, and a way to read its gradients."""
    decoder = isinstance(ours, DecoderLayer)
    theirs = (nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer)(
        D_MODEL,
        HEADS,
        D_FF,
        dropout=0.0,
        activation="relu" if ours.feed_forward.activation is torch.relu_ else "gelu",
        batch_first=True,
        norm_first=ours.around_feed_forward.norm == "pre",
    )
    load_into_torch(ours, theirs)
    return theirs


def pairs(ours, theirs):
    """Yield each of our parameters beside the rows of PyTorch's that say the same."""
    yield from zip(attention_parameters(ours.self_attention), rows(theirs.self_attn), strict=True)
    residuals = [ours.around_feed_forward]
    if isinstance(ours, DecoderLayer):
        cross = attention_parameters(ours.cross_attention), rows(theirs.multihead_attn)
        yield from zip(*cross, strict=True)
        residuals = [ours.around_self_attention, ours.around_cross_attention, *residuals]
        norms = [theirs.norm1, theirs.norm2, theirs.norm3]
    else:
        residuals = [ours.around_attention, *residuals]
        norms = [theirs.norm1, theirs.norm2]
    for residual, norm in zip(residuals, norms, strict=True):
        yield residual.layer_norm.gain, (norm.weight, slice(None))
        yield residual.layer_norm.shift, (norm.bias, slice(None))
    for one, other in (
        (ours.feed_forward.inner, theirs.linear1),
        (ours.feed_forward.outer, theirs.linear2),
    ):
        yield one.weight, (other.weight, slice(None))
        yield one.bias, (other.bias, slice(None))


def attention_parameters(ours):
    return [parameter for _, parameter in ours.named_parameters()]


def rows(theirs):
    for index in range(3):
        part = slice(index * D_MODEL, (index + 1) * D_MODEL)
        yield theirs.in_proj_weight, part
        yield theirs.in_proj_bias, part
    yield theirs.out_proj.weight, slice(None)
    yield theirs.out_proj.bias, slice(None)


def load_into_torch(ours, theirs):
    with torch.no_grad():
        for parameter, (other, part) in pairs(ours, theirs):
            other[part] = parameter


def check_same(ours, theirs, output, expected, inputs):
    """Compare values, and gradients by every parameter and input."""
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)
    probe = torch.randn_like(output)
    gradients = torch.autograd.grad((output * probe).sum(), inputs, retain_graph=True)
    others = torch.autograd.grad((expected * probe).sum(), inputs, retain_graph=True)
    torch.testing.assert_close(gradients, others, atol=1e-4, rtol=1e-4)
    (output * probe).sum().backward()
    (expected * probe).sum().backward()
    count = 0
    for parameter, (other, part) in pairs(ours, theirs):
        torch.testing.assert_close(parameter.grad, other.grad[part], atol=1e-4, rtol=1e-4)
        count += parameter.numel()
    assert count == sum(p.numel() for p in ours.parameters())
    assert count == sum(p.numel() for p in theirs.parameters())


@both_norms
@both_activations
@pytest.mark.parametrize("which", ["none", "padding", "causal", "both"])
def test_an_encoder_layer_equals_torch(norm, activation, which):
    x, _, real, _ = given()
    ours = encoder_layer(norm, activation)
    theirs = in_torch(ours)
    padding = real if which in ("padding", "both") else None
    causal = causal_mask(TGT_LEN) if which in ("causal", "both") else None
    mask = None
    for part in (None if padding is None else padding.unsqueeze(1), causal):
        mask = part if mask is None else mask if part is None else mask & part
    output, weights = ours(x, mask)
    assert weights is None
    expected = theirs(
        x,
        src_mask=None if causal is None else ~causal[0],  # True means "may not" there
        src_key_padding_mask=None if padding is None else ~padding,
    )
    check_same(ours, theirs, output, expected, [x])


@both_norms
@both_activations
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
def test_a_decoder_layer_equals_torch(norm, activation, masked):
    target, memory, tgt_real, src_real = given()
    ours = decoder_layer(norm, activation)
    theirs = in_torch(ours)
    if masked:
        tgt_mask = causal_mask(TGT_LEN) & tgt_real.unsqueeze(1)
        output, *_ = ours(target, memory, tgt_mask, src_real.unsqueeze(1))
        expected = theirs(
            target,
            memory,
            tgt_mask=~causal_mask(TGT_LEN)[0],
            tgt_key_padding_mask=~tgt_real,
            memory_key_padding_mask=~src_real,
        )
    else:
        output, *_ = ours(target, memory)
        expected = theirs(target, memory)
    check_same(ours, theirs, output, expected, [target, memory])


@both_norms
def test_asking_for_weights_changes_nothing_else(norm):
    target, memory, tgt_real, src_real = given()
    encoder, decoder = encoder_layer(norm), decoder_layer(norm)
    mask, memory_mask = tgt_real.unsqueeze(1) & causal_mask(TGT_LEN), src_real.unsqueeze(1)
    output, weights = encoder(target, mask, need_weights=True)
    torch.testing.assert_close(output, encoder(target, mask)[0])
    assert weights.shape == (BATCH, HEADS, TGT_LEN, TGT_LEN)
    assert (weights.masked_select(~mask.unsqueeze(1)) == 0).all()
    output, weights, cross = decoder(target, memory, mask, memory_mask, need_weights=True)
    without, *nothing = decoder(target, memory, mask, memory_mask)
    torch.testing.assert_close(output, without)
    assert nothing == [None, None]
    assert weights.shape == (BATCH, HEADS, TGT_LEN, TGT_LEN)
    assert cross.shape == (BATCH, HEADS, TGT_LEN, SRC_LEN)
    assert (cross.masked_select(~memory_mask.unsqueeze(1)) == 0).all()


class ForgetsTheTarget(DecoderLayer):
    """A broken twin: each token starts anew."""

    def forward(self, x, memory=None, tgt_mask=None, memory_mask=None, cache=None, **choices):
        if cache is not None:
            cache = cache._replace(target=type(cache.target)())
        return super().forward(x, memory, tgt_mask, memory_mask, cache, **choices)


def cached_equals_uncached(norm, kind=DecoderLayer):
    target, memory, _, src_real = given()
    layer, memory_mask = decoder_layer(norm, kind=kind), src_real.unsqueeze(1)
    expected, _, _ = layer(target, memory, causal_mask(TGT_LEN), memory_mask)
    cache, outputs = layer.start(memory), []
    for new in target.split(1, dim=1):
        output, _, _, cache = layer(new, memory_mask=memory_mask, cache=cache)
        outputs.append(output)
    return torch.allclose(torch.cat(outputs, dim=1), expected, atol=1e-5)


@both_norms
def test_token_by_token_with_a_cache_equals_all_at_once(norm):
    assert cached_equals_uncached(norm)
    assert not cached_equals_uncached(norm, ForgetsTheTarget)


def test_a_cache_does_not_change_and_selects_rows():
    target, memory, *_ = given()
    layer = decoder_layer()
    *_, cache = layer(target, cache=layer.start(memory))
    *_, other = layer(target, cache=cache)
    assert (cache.target.length, other.target.length) == (TGT_LEN, 2 * TGT_LEN)
    assert cache.memory.length == other.memory.length == SRC_LEN
    rows = torch.tensor([1, 1, 2, 0])
    expected, *_ = layer(target[rows, :1], cache=cache.select(rows, rows))
    torch.testing.assert_close(layer(target[:, :1], cache=cache)[0][rows], expected)


def test_an_encoder_layer_reads_piece_by_piece():
    x, *_ = given()
    layer, cache = encoder_layer(), attention().remember(*[torch.zeros(BATCH, 0, D_MODEL)] * 2)
    expected, _ = layer(x, causal_mask(TGT_LEN))
    first, _, cache = layer(x[:, :2], causal_mask(2), cache)
    rest, _, _ = layer(x[:, 2:], causal_mask(TGT_LEN)[:, 2:], cache)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), expected)


def test_where_each_norm_stands():
    """By hand: after post-norm every vector has mean 0, variance 1; pre-norm lets x through."""
    x, *_ = given()
    said = torch.randn_like(x)
    pre, post = Residual(D_MODEL, norm="pre"), Residual(D_MODEL, norm="post")
    assert torch.equal(pre.leave(x, said), x + said)
    torch.testing.assert_close(pre.enter(x), pre.layer_norm(x))
    assert post.enter(x) is x
    left = post.leave(x, said)
    torch.testing.assert_close(left.mean(-1), torch.zeros(BATCH, TGT_LEN), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        left.var(-1, correction=0), torch.ones(BATCH, TGT_LEN), atol=1e-4, rtol=0
    )
    torch.testing.assert_close(left, post.layer_norm(x + said))


def test_dropout_acts_on_what_a_sub_layer_says_before_it_is_added():
    x, memory, *_ = given()
    # With everything dropped, what is left is what goes around the sub-layers.
    encoder, decoder = encoder_layer(dropout=1.0).train(), decoder_layer(dropout=1.0).train()
    assert torch.equal(encoder(x)[0], x)
    assert torch.equal(decoder(x, memory)[0], x)
    post = encoder_layer("post", dropout=1.0).train()
    expected = post.around_feed_forward.layer_norm(post.around_attention.layer_norm(x))
    torch.testing.assert_close(post(x)[0], expected)
    assert not torch.equal(encoder.eval()(x)[0], x)


def test_dropout_keeps_the_mean():
    residual = Residual(D_MODEL, dropout=0.6)
    x, said = torch.zeros(2000, 1, D_MODEL), torch.ones(2000, 1, D_MODEL)
    left = residual.leave(x, said)
    assert set(left.unique().tolist()) == {0.0, 2.5}
    assert left.mean().item() == pytest.approx(1, abs=0.05)


class DropsEveryOther(nn.Module):
    """Dropout that always drops the same."""

    def forward(self, x):
        return 2 * x * (torch.arange(x.shape[-1]) % 2)


@both_norms
def test_dropout_stands_where_that_of_torch_stands(norm):
    """PyTorch has two places more, attention weights and the feed-forward network: left out."""
    target, memory, *_ = given()
    encoder, decoder = encoder_layer(norm), decoder_layer(norm)
    torch_encoder, torch_decoder = in_torch(encoder), in_torch(decoder)
    for residual in (encoder.around_attention, encoder.around_feed_forward):
        residual.dropout = DropsEveryOther()
    for residual in (
        decoder.around_self_attention,
        decoder.around_cross_attention,
        decoder.around_feed_forward,
    ):
        residual.dropout = DropsEveryOther()
    torch_encoder.dropout1 = torch_encoder.dropout2 = DropsEveryOther()
    torch_decoder.dropout1 = torch_decoder.dropout2 = torch_decoder.dropout3 = DropsEveryOther()
    torch.testing.assert_close(encoder(target)[0], torch_encoder(target))
    torch.testing.assert_close(decoder(target, memory)[0], torch_decoder(target, memory))


class AttendsEvenly(nn.Module):
    """Someone else's attention: a layer takes any that is called the same way."""

    def forward(self, query, key, value, mask=None, cache=None, need_weights=True):
        return value.mean(dim=1, keepdim=True).expand(query.shape), None


def test_another_attention_may_stand_in():
    x, *_ = given()
    layer = EncoderLayer(D_MODEL, AttendsEvenly(), nn.Identity(), norm="post")
    middle = layer.around_attention.layer_norm(x + x.mean(dim=1, keepdim=True))
    torch.testing.assert_close(layer(x)[0], layer.around_feed_forward.layer_norm(2 * middle))


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="norm='between' is unknown: choose pre or post"):
        EncoderLayer(D_MODEL, attention(), FeedForward(D_MODEL, D_FF), norm="between")


def test_memory_and_a_cache_of_it_exclude_each_other():
    x, memory, *_ = given()
    layer = decoder_layer()
    for choices in ({}, {"memory": memory, "cache": layer.start(memory)}):
        with pytest.raises(ValueError, match="either the memory or a cache made by start"):
            layer(x, **choices)


@pytest.mark.usefixtures("unchecked")
def test_masks_of_another_shape_are_refused():
    x, memory, *_ = given()
    with pytest.raises(ValueError, match=r"\(1, 7, 7\).*\(3, 5, 5\)"):
        encoder_layer()(x, causal_mask(SRC_LEN))
    with pytest.raises(ValueError, match=r"\(3, 1, 5\).*\(3, 5, 7\)"):
        decoder_layer()(x, memory, None, torch.ones(BATCH, 1, TGT_LEN).bool())
