"""The plain Transformer and its attention equal the full ones, and PyTorch's attention."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from tiny_models import sentences, transformer
from torch import nn

from attentively.attention import multi_head, plain_multi_head
from attentively.attention.masks import causal_mask
from attentively.checks.student_modules import sizes_of
from attentively.models import plain_transformer

# Distinct primes, but for d_model, which is the product of two more.
BATCH, QUERIES, KEYS, HEADS, D_HEAD = 3, 5, 7, 2, 11
D_MODEL = HEADS * D_HEAD

both_norms = pytest.mark.parametrize("norm", ["pre", "post"])


def edited(module, old, new):
    """Return what `module` defines once `old` is replaced by `new` in its source."""
    source = inspect.getsource(module)
    assert old in source
    namespace = {"__name__": module.__name__}
    exec(source.replace(old, new), namespace)
    return SimpleNamespace(**namespace)


def same(one, other):
    """Say whether the tensors in two sequences are equal up to rounding."""
    pairs = zip(one, other, strict=True)
    return all(torch.allclose(*pair, atol=1e-5, rtol=1e-4) for pair in pairs)


def with_gradients(module, outputs):
    """Return `outputs` and the gradient of every parameter, by a fixed probe of the first."""
    generator = torch.Generator().manual_seed(5)
    probe = torch.randn(outputs[0].shape, generator=generator)
    gradients = torch.autograd.grad((outputs[0] * probe).sum(), [*module.parameters()])
    return [*outputs, *gradients]


# Multi-head attention


def attention():
    torch.manual_seed(0)
    full = multi_head.MultiHeadAttention(D_MODEL, HEADS)
    with torch.no_grad():  # so that biases count and weights are far from equal
        for parameter in full.parameters():
            parameter.mul_(2).add_(0.1 * torch.randn_like(parameter))
    return full


def plain_attention(full, module=plain_multi_head):
    plain = module.MultiHeadAttention(D_MODEL, HEADS)
    plain.load_state_dict(full.state_dict())
    return plain


def inputs(query_len=QUERIES):
    generator = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(BATCH, length, D_MODEL, generator=generator)
        for length in (query_len, KEYS, KEYS)
    )


PADDING = (torch.arange(KEYS) < torch.tensor([[7], [4], [1]])).unsqueeze(1)
MASKS = {
    "none": (QUERIES, None),
    "padding": (QUERIES, PADDING),
    "causal": (KEYS, causal_mask(KEYS)),
    "both": (KEYS, PADDING & causal_mask(KEYS)),
    "nothing to attend to": (QUERIES, PADDING & torch.tensor([[True], [False], [True]])[:, None]),
}


@pytest.mark.parametrize(("query_len", "mask"), MASKS.values(), ids=MASKS.keys())
def test_the_attention_equals_the_full_one_in_values_and_gradients(query_len, mask):
    full = attention()
    plain = plain_attention(full)
    given = inputs(query_len)
    found = with_gradients(plain, plain(*given, mask))
    assert found[1].shape == (BATCH, HEADS, query_len, KEYS)
    assert same(found, with_gradients(full, full(*given, mask)))


def test_the_attention_equals_torch():
    full = attention()
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    projections = [full.query_projection, full.key_projection, full.value_projection]
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([each.weight for each in projections]),
            "in_proj_bias": torch.cat([each.bias for each in projections]),
            "out_proj.weight": full.output_projection.weight,
            "out_proj.bias": full.output_projection.bias,
        }
    )
    hidden = ~PADDING.squeeze(1)  # PyTorch's mask is True where a query may not attend
    expected = theirs(*inputs(), key_padding_mask=hidden, average_attn_weights=False)
    assert same(plain_attention(full)(*inputs(), PADDING), expected)


ATTENTION_MISTAKES = {
    "the scale is missing": (" / math.sqrt(self.d_head)", ""),
    "the scale is that of d_model": ("math.sqrt(self.d_head)", "math.sqrt(query.shape[2])"),
    "the mask is missing": ("masked_softmax(scores, mask)", "masked_softmax(scores)"),
    "keys take the projection of queries": ("key_projection(key)", "query_projection(key)"),
    "the values are the keys": ("self.value_projection(value)", "self.value_projection(key)"),
    "heads are interleaved": (
        "x.unflatten(2, (-1, self.d_head))",
        "x.unflatten(2, (self.d_head, -1)).transpose(2, 3)",
    ),
    "heads are joined without a transposition": (
        "heads.transpose(1, 2).flatten(start_dim=2)",
        "heads.reshape(query.shape)",
    ),
    "the output projection is missing": ("self.output_projection(joined)", "joined"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", ATTENTION_MISTAKES.values(), ids=ATTENTION_MISTAKES.keys())
def test_a_mistake_in_the_attention_is_caught(mistake):
    full = attention()
    broken = plain_attention(full, edited(plain_multi_head, *mistake))
    assert not same(broken(*inputs(), PADDING), full(*inputs(), PADDING))


@pytest.mark.parametrize("num_heads", [0, 3])
def test_heads_that_do_not_divide_evenly_are_refused(num_heads):
    message = f"d_model={D_MODEL} does not split into num_heads={num_heads} equal heads"
    with pytest.raises(ValueError, match=message):
        plain_multi_head.MultiHeadAttention(D_MODEL, num_heads)


# The Transformer


def plain(full, module=plain_transformer):
    """Return the plain Transformer of the same sizes and weights."""
    made = module.Transformer(*sizes_of(full.config).values())
    made.load_state_dict(full.state_dict())
    return made.train(full.training)


def full_logits(full, given):
    memory = full.encoder(given.src, given.src_mask)[0]
    tgt_mask = causal_mask(given.tgt.shape[1])
    return full.output(full.decoder(given.tgt, memory, tgt_mask, given.src_mask)[0])


def plain_logits(made, given):
    return made(given.src, given.src_mask, given.tgt)


@both_norms
def test_it_equals_the_full_transformer_in_values_and_gradients(norm):
    full, given = transformer(norm=norm), sentences()
    made = plain(full)
    assert [name for name, _ in made.named_parameters()] == [
        name for name, _ in full.named_parameters()
    ]
    found = with_gradients(made, [plain_logits(made, given)])
    assert same(found, with_gradients(full, [full_logits(full, given)]))


@both_norms
def test_each_layer_equals_the_full_one(norm):
    full = transformer(norm=norm)
    made = plain(full)
    x, y = torch.randn(BATCH, KEYS, 12), torch.randn(BATCH, QUERIES, 12)
    for one, other in zip(made.encoder.layers, full.encoder.layers, strict=True):
        for mask in (None, PADDING):
            assert same([one(x, mask)], other(x, mask)[:1])
    for one, other in zip(made.decoder.layers, full.decoder.layers, strict=True):
        for masks in ((None, None), (causal_mask(QUERIES), PADDING)):
            assert same([one(y, x, *masks)], other(y, x, *masks)[:1])


def trained_alike(full, made):
    """Say whether both drop the same values in training, given the same seed."""
    logits = []
    for model, forward in ((full, full_logits), (made, plain_logits)):
        torch.manual_seed(3)
        logits.append(forward(model.train(), sentences()))
    return same(logits[:1], logits[1:])


@both_norms
def test_dropout_acts_where_the_full_transformer_has_it(norm):
    full = transformer(norm=norm, dropout=0.3)
    assert trained_alike(full, plain(full))
    for mistake in (
        ("return self.dropout(x)", "return x"),
        ("x + self.dropout(sublayer(self.layer_norm(x)))", "x + sublayer(self.layer_norm(x))")
        if norm == "pre"
        else ("x + self.dropout(sublayer(x))", "x + sublayer(x)"),
    ):
        assert not trained_alike(full, plain(full, edited(plain_transformer, *mistake)))


MISTAKES = {
    "the embedding is not scaled": ("math.sqrt(d_model) * x", "x"),
    "the positional encoding is missing": ("* x + positions", "* x"),
    "a pre-norm residual connection is missing": (
        "x + self.dropout(sublayer(self", "(sublayer(self",
    ),
    "a post-norm residual connection is missing": ("x + self.dropout(sublayer(x", "(sublayer(x"),
    "pre- and post-norm are exchanged": ('if self.norm == "pre"', 'if self.norm == "post"'),
    "layer normalisation is missing": ("sublayer(self.layer_norm(x))", "sublayer(x)"),
    "the encoder ignores the source mask": ("layer(x, src_mask)", "layer(x)"),
    "the encoder's last normalisation is missing": ("self.last_norm(x)", "x"),
    "the encoder has no feed-forward network": (
        "return self.around_feed_forward(x, self.feed_forward)", "return x",
    ),
    "the causal mask is missing": ("layer(y, memory, tgt_mask", "layer(y, memory, None"),
    "cross-attention ignores the source mask": ("tgt_mask, src_mask)  #", "tgt_mask)  #"),
    "the values of cross-attention are the target's": (
        "self.cross_attention(h, memory, memory, src_mask)", "self.cross_attention(h, h, h)",
    ),
    "the decoder has no feed-forward network": (
        "return self.around_feed_forward(y, self.feed_forward)", "return y",
    ),
    "the decoder's last normalisation is missing": ("self.last_norm(y)", "y"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_caught(mistake):
    module, given = edited(plain_transformer, *mistake), sentences()
    models = [transformer(norm=norm) for norm in ("pre", "post")]
    found = [plain_logits(plain(full, module), given) for full in models]
    assert not same(found, [full_logits(full, given) for full in models])


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="norm='middle' is unknown: choose pre or post"):
        plain_transformer.Residual(3, norm="middle")
