"""Plausible wrong answers to 15_building_the_transformer, with words of the message of each."""

import math

import torch
from answer_sources import source
from right_answers_15 import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    InputEmbedding,
    LayerNorm,
    Residual,
    Transformer,
    deepest,
    from_pytorch,
    layer_pair,
    masks_for_pytorch,
    sizes,
)
from torch import nn
from torch.nn import functional as F

from attentively import layer_norm as package_norm
from attentively import layers as package_layers
from attentively.masks import causal_mask
from attentively.multi_head import MultiHeadAttention
from attentively.positional import sinusoids

# Part 1


def norm_with(answer):
    """A layer norm whose forward is this function of itself and x."""

    class Norm(LayerNorm):
        def forward(self, x):
            return answer(self, x)

    return Norm


def centred(x, axes=-1):
    return x - x.mean(dim=axes, keepdim=True)


def over(*axes):
    def answer(self, x):
        chosen = axes or tuple(range(x.dim()))
        variance = x.var(dim=chosen, correction=0, keepdim=True)
        return self.gain * centred(x, chosen) / (variance + self.eps).sqrt() + self.shift

    return answer


def plain(self, x):
    return centred(x) / (x.var(dim=-1, correction=0, keepdim=True) + self.eps).sqrt()


def with_eps_outside(self, x):
    return self.gain * centred(x) / (x.std(-1, correction=0, keepdim=True) + self.eps) + self.shift


def without_eps(self, x):
    deviation = x.std(dim=-1, correction=0, keepdim=True)
    return self.gain * centred(x) / deviation + self.shift


def without_root(self, x):
    variance = x.var(dim=-1, correction=0, keepdim=True)
    return self.gain * centred(x) / (variance + self.eps) + self.shift


def with_own_eps(self, x):
    return (
        self.gain * centred(x) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() + self.shift
    )


def of_squares(self, x):
    return self.gain * x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() + self.shift


def less_one(self, x):
    return self.gain * centred(x) / (x.var(-1, keepdim=True) + self.eps).sqrt() + self.shift


def less_one_outside(self, x):
    """The norm of the Annotated Transformer, which differs from PyTorch's."""
    return self.gain * centred(x) / (x.std(-1, keepdim=True) + self.eps) + self.shift


def with_least_variance(self, x):
    variance = x.var(-1, correction=0, keepdim=True).clamp(min=self.eps)
    return self.gain * centred(x) / variance.sqrt() + self.shift


def by_sum(self, x):
    total = centred(x).square().sum(dim=-1, keepdim=True)
    return self.gain * centred(x) / (total + self.eps).sqrt() + self.shift


def less_mean(self, x):
    variance = x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True)
    return self.gain * centred(x) / (variance + self.eps).sqrt() + self.shift


def without_keepdim(self, x):
    variance = x.var(-1, correction=0)
    return self.gain * (x - x.mean(-1)) / (variance + self.eps).sqrt() + self.shift


class NormWithOtherNames(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))


class NormOfTensors(LayerNorm):
    """Its gain and shift are tensors, which nothing learns."""

    def __init__(self, d_model, eps=1e-5):
        nn.Module.__init__(self)
        self.gain, self.shift, self.eps = torch.ones(d_model), torch.zeros(d_model), eps


class NormOfBuffers(LayerNorm):
    """Its gain and shift are saved with the weights, but not learned."""

    def __init__(self, d_model, eps=1e-5):
        nn.Module.__init__(self)
        self.register_buffer("gain", torch.ones(d_model))
        self.register_buffer("shift", torch.zeros(d_model))
        self.eps = eps


class Inherited(package_norm.LayerNorm):
    """The package's class by another name."""


class NormOfOneNumber(LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gain = nn.Parameter(torch.ones(1))


class NormBornWithZeros(LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        nn.init.zeros_(self.gain)


class NormOfPlainNumbers(LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        self.gain, self.shift, self.eps = 1.0, 0.0, eps


class NoModule:
    def __init__(self, d_model, eps=1e-5):
        self.d_model = d_model


def in_place(self, x):
    x -= x.mean(dim=-1, keepdim=True)
    return self.gain * x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() + self.shift


def unlearned(self, x):
    return self.gain.data * plain(self, x) + self.shift


def norm_detached(self, x):
    mean = x.mean(-1, keepdim=True).detach()
    variance = x.var(-1, keepdim=True, correction=0).detach()
    return self.gain * (x - mean) / (variance + self.eps).sqrt() + self.shift


NORM = [
    (norm_with(norm_detached), "the gradient of x is not: a part of it is missing"),
    (norm_with(less_one), "LayerNorm: the variance is divided by d_model - 1"),
    (norm_with(less_one_outside), "LayerNorm: the variance is divided by d_model - 1"),
    (norm_with(with_eps_outside), "eps is added to the standard deviation"),
    (norm_with(without_eps), "eps is not used"),
    (norm_with(with_own_eps), "the argument eps is not added to the variance"),
    (norm_with(with_least_variance), "the argument eps is not added to the variance"),
    (norm_with(by_sum), "the variance is too large"),
    (norm_with(less_mean), "the variance is too large"),
    (norm_with(without_root), "the square root is missing"),
    (norm_with(of_squares), "the mean is not subtracted"),
    (norm_with(over()), "Each vector has its own mean and variance"),
    (norm_with(over(0)), "Each vector has its own mean and variance"),
    (norm_with(lambda self, x: self.gain * plain(self, x)), "LayerNorm: the shift is not used"),
    (norm_with(lambda self, x: plain(self, x) + self.shift), "LayerNorm: the gain is not used"),
    (norm_with(plain), "neither the gain nor the shift is used"),
    (norm_with(lambda self, x: self.gain * (plain(self, x) + self.shift)),
     "the shift is added before the multiplication by the gain"),
    (norm_with(lambda self, x: self.shift * plain(self, x) + self.gain),
     "gain and shift are exchanged"),
    (norm_with(lambda self, x: (1 + self.gain) * plain(self, x) + self.shift),
     "the vector is multiplied by 1 + gain"),
    (norm_with(lambda self, x: x), "The values of the output of LayerNorm with eps = 0.5 are not"),
    (norm_with(lambda self, x: None),
     "Expected the output of LayerNorm with eps = 0.5 as a torch.Tensor"),
    (norm_with(in_place), "Your code changes its input x"),
    (norm_with(unlearned), "no gradient reaches gain"),
    (NormWithOtherNames, "has no parameter gain. Those that it has: weight, bias"),
    (NormOfTensors, "gain is a tensor, not a parameter, so it is neither found nor learned"),
    (norm_with(without_keepdim), "mean and variance need the shape (..., 1)"),
    (NormOfBuffers, "gain is a buffer, which no training changes"),
    (NormOfOneNumber, "the shape of gain is (1,), expected (4,)"),
    (NormBornWithZeros, "The values of the initial gain are not the expected ones"),
    (NormOfPlainNumbers, "super().__init__() comes first"),
    (NoModule, "should be a class whose parent is nn.Module"),
    (package_norm.LayerNorm, "not accepted. Your code uses"),
    (Inherited, "not accepted. Your code uses"),
]  # fmt: skip

# Part 2


def feed_with(answer):
    class Feed(FeedForward):
        def forward(self, x):
            return answer(self, x)

    return Feed


def bent_by(bend):
    return feed_with(lambda self, x: self.outer(bend(self.inner(x))))


class Exchanged(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_ff, d_model)


class Sequential(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


class WithoutBiases(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.inner = nn.Linear(d_model, d_ff, bias=False)


def residual_with(answer):
    """A residual connection whose forward is this function of itself, x and the sub-layer."""

    class Way(Residual):
        def forward(self, x, sublayer):
            return answer(self, x, sublayer)

    return Way


def by_norm(pre, post):
    return lambda self, x, say: (pre if self.norm == "pre" else post)(self, x, say)


def without_residual(self, x, say):
    if self.norm == "pre":
        return self.dropout(say(self.layer_norm(x)))
    return self.layer_norm(self.dropout(say(x)))


def on_the_other_side(self, x, say):
    if self.norm == "post":
        return x + self.dropout(say(self.layer_norm(x)))
    return self.layer_norm(x + self.dropout(say(x)))


def behind_the_norm(self, x, say):
    h = self.layer_norm(x)
    return h + self.dropout(say(h))


def pre(self, x, say):
    return x + self.dropout(say(self.layer_norm(x)))


def post(self, x, say):
    return self.layer_norm(x + self.dropout(say(x)))


def on_what_is_said(self, x, say):
    return x + self.layer_norm(self.dropout(say(x)))


def on_both_sides(self, x, say):
    return self.layer_norm(x + self.dropout(say(self.layer_norm(x))))


def without_norm(self, x, say):
    return x + self.dropout(say(x))


def dropping_the_sum(self, x, say):
    if self.norm == "pre":
        return self.dropout(x + say(self.layer_norm(x)))
    return self.layer_norm(self.dropout(x + say(x)))


def dropping_what_is_read(self, x, say):
    if self.norm == "pre":
        return x + say(self.dropout(self.layer_norm(x)))
    return self.layer_norm(x + say(self.dropout(x)))


def dropping_twice(self, x, say):
    if self.norm == "pre":
        return x + self.dropout(say(self.dropout(self.layer_norm(x))))
    return self.layer_norm(x + self.dropout(say(self.dropout(x))))


def norming_what_goes_around(self, x, say):
    return self.layer_norm(x) + self.dropout(say(x))


def dropping_nothing(self, x, say):
    return x + say(self.layer_norm(x)) if self.norm == "pre" else self.layer_norm(x + say(x))


def dropping_always(self, x, say):
    said = F.dropout(say(self.layer_norm(x) if self.norm == "pre" else x), self.dropout.p)
    return x + said if self.norm == "pre" else self.layer_norm(x + said)


class WithOwnDropout(Residual):
    """Its dropout is 0.1 whatever is asked for."""

    def __init__(self, d_model, dropout=0.0, norm="pre"):
        super().__init__(d_model, 0.1, norm)


class WithoutANorm(Residual):
    def __init__(self, d_model, dropout=0.0, norm="pre"):
        super().__init__(d_model, dropout, norm)
        del self.layer_norm


def way_detached(self, x, say):
    if self.norm == "pre":
        return x.detach() + self.dropout(say(self.layer_norm(x)))
    return self.layer_norm(x.detach() + self.dropout(say(x)))


def not_enlarged(self, x, say):
    def dropped(said):
        return said * (torch.rand_like(said) >= self.dropout.p) if self.training else said

    if self.norm == "pre":
        return x + dropped(say(self.layer_norm(x)))
    return self.layer_norm(x + dropped(say(x)))


def feed_dropped(self, x):
    inner = F.dropout(self.inner(x).relu(), 0.1, self.training)
    return self.outer(inner)


RESIDUAL = [
    ((FeedForward, residual_with(way_detached)), "the gradient of x is not: a part of it"),
    ((FeedForward, residual_with(not_enlarged)), "so that the mean does not change"),
    ((feed_with(feed_dropped), Residual), "in training"),
    ((bent_by(lambda x: x), Residual), "the ReLU max(0, x) between the two layers is missing"),
    ((feed_with(lambda self, x: self.outer(self.inner(x).relu()).relu()), Residual),
     "a second ReLU is applied after the outer layer"),
    ((feed_with(lambda self, x: self.outer(self.inner(x)).relu()), Residual),
     "the ReLU is applied after the outer layer"),
    ((feed_with(lambda self, x: self.outer(self.inner(x.relu()))), Residual),
     "the ReLU is applied before the inner layer"),
    ((bent_by(F.gelu), Residual), "the activation function is not the ReLU"),
    ((bent_by(torch.tanh), Residual), "the activation function is not the ReLU"),
    ((feed_with(lambda self, x: x + self.outer(self.inner(x).relu())), Residual),
     "FeedForward: x is added to the output"),
    ((Exchanged, Residual), "the shape of inner.weight is (2, 3), expected (3, 2)"),
    ((Sequential, Residual), "has no parameter inner.weight"),
    ((WithoutBiases, Residual), "has no parameter inner.bias"),
    ((bent_by(lambda x: x.softmax(dim=-1)), Residual),
     "The values of the output of FeedForward are not"),
    ((FeedForward, residual_with(without_residual)),
     "Residual: the residual connection is missing"),
    ((FeedForward, residual_with(on_the_other_side)),
     "Residual: the normalisation is in the wrong position"),
    ((FeedForward, residual_with(pre)), "Residual: the normalisation is in the wrong position"),
    ((FeedForward, residual_with(post)), "Residual: the normalisation is in the wrong position"),
    ((FeedForward, residual_with(by_norm(behind_the_norm, post))),
     "the residual connection begins after the normalisation"),
    ((FeedForward, residual_with(by_norm(pre, on_what_is_said))),
     "the output of the sub-layer is normalised"),
    ((FeedForward, residual_with(on_both_sides)),
     "both the input of the sub-layer and the sum are normalised"),
    ((FeedForward, residual_with(without_norm)), "Residual: the layer normalisation is not used"),
    ((FeedForward, residual_with(dropping_the_sum)), "dropout is applied to the sum"),
    ((FeedForward, residual_with(by_norm(pre, dropping_the_sum))), "dropout is applied to the sum"),
    ((FeedForward, residual_with(dropping_what_is_read)),
     "dropout is applied to the input of the sub-layer"),
    ((FeedForward, residual_with(dropping_twice)), "dropout is also applied to the input"),
    ((FeedForward, residual_with(by_norm(pre, norming_what_goes_around))),
     "only the residual connection is normalised"),
    ((FeedForward, residual_with(dropping_nothing)), "dropout is missing in training"),
    ((FeedForward, residual_with(dropping_always)), "gives two different answers"),
    ((FeedForward, WithoutANorm), "has no parameter layer_norm.gain"),
    ((FeedForward, residual_with(lambda self, x, say: say)), "Expected the output of Residual"),
    ((FeedForward, package_layers.Residual), "not accepted. Your code uses"),
]  # fmt: skip

# Part 3


def of_wrong_ways(kind, answer):
    """A layer whose residual connections are wrong ones."""

    class Layer(kind):
        def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
            super().__init__(d_model, num_heads, d_ff, dropout, norm)
            for name in [*self._modules]:
                if name.startswith("around"):
                    setattr(self, name, residual_with(answer)(d_model, dropout, norm))

    return Layer


def encoder_with(answer):
    class Layer(EncoderLayer):
        def forward(self, x, mask=None):
            return answer(self, x, mask)

    return Layer


def look(self, x, mask, name="around_attention"):
    return getattr(self, name)(x, lambda h: self.self_attention(h, h, h, mask)[0])


def think(self, x, name="around_feed_forward"):
    return getattr(self, name)(x, self.feed_forward)


class PlainKeys(EncoderLayer):
    def forward(self, x, mask=None):
        x = self.around_attention(x, lambda h: self.self_attention(h, x, x, mask)[0])
        return think(self, x)


class PlainQueriesToo(EncoderLayer):
    """The function does not read what it is given."""

    def forward(self, x, mask=None):
        first = x
        x = self.around_attention(x, lambda h: self.self_attention(first, first, first, mask)[0])
        return think(self, x)


class DecoderOfPlainQueries(DecoderLayer):
    def forward(self, y, memory, tgt_mask=None, src_mask=None):
        y = self.around_self_attention(y, lambda h: self.self_attention(y, y, y, tgt_mask)[0])
        y = self.around_cross_attention(
            y, lambda h: self.cross_attention(y, memory, memory, src_mask)[0]
        )
        return think(self, y)


def without_dropout(kind):
    """The layer forgets to hand `dropout` on."""

    class Layer(kind):
        def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
            super().__init__(d_model, num_heads, d_ff, 0.0, norm)

    return Layer


class WithBothAnswers(EncoderLayer):
    def forward(self, x, mask=None):
        return self.around_attention(x, lambda h: self.self_attention(h, h, h, mask))


class WithWeights(EncoderLayer):
    def forward(self, x, mask=None):
        return super().forward(x, mask), self.self_attention(x, x, x, mask)[1]


class OneWay(EncoderLayer):
    """One residual serves both sub-layers, by two names."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__(d_model, num_heads, d_ff, dropout, norm)
        self.around_feed_forward = self.around_attention


class WithoutTheNorm(EncoderLayer):
    """It forgets to hand `norm` on."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__(d_model, num_heads, d_ff, dropout)


class OtherNames(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)


class OneHead(EncoderLayer):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__(d_model, 1, d_ff, dropout, norm)


def decoder_with(
    order="scf",
    masks=lambda tgt, src: (tgt, src),
    across=lambda attention, h, memory, mask: attention(h, memory, memory, mask),
    names=("self_attention", "cross_attention"),
):
    class Layer(DecoderLayer):
        def forward(self, y, memory, tgt_mask=None, src_mask=None):
            own, other = masks(tgt_mask, src_mask)
            itself, source = (getattr(self, name) for name in names)
            steps = {
                "s": (self.around_self_attention, lambda h: itself(h, h, h, own)[0]),
                "c": (self.around_cross_attention, lambda h: across(source, h, memory, other)[0]),
                "f": (self.around_feed_forward, self.feed_forward),
            }
            for letter in order:
                around, say = steps[letter]
                y = around(y, say)
            return y

    return Layer


class NormedMemory(DecoderLayer):
    def forward(self, y, memory, tgt_mask=None, src_mask=None):
        memory = self.around_cross_attention.layer_norm(memory)
        return super().forward(y, memory, tgt_mask, src_mask)


def across_the_wrong_way(attention, h, memory, mask):
    return attention(memory, h, h, mask)


def across_itself(attention, h, memory, mask):
    return attention(h, h, h, None)


STEPS = [
    (without_residual, "the residual connection is missing"),
    (on_the_other_side, "the normalisation is in the wrong position"),
    (behind_the_norm, "the residual connection begins after the normalisation"),
    (on_what_is_said, "the output of the sub-layer is normalised"),
    (on_both_sides, "both the input of the sub-layer and the sum are normalised"),
    (without_norm, "the layer normalisation is not used"),
]

LAYERS = [
    *(((of_wrong_ways(EncoderLayer, way), DecoderLayer), f"EncoderLayer: {said}")
      for way, said in STEPS),
    *(((EncoderLayer, of_wrong_ways(DecoderLayer, way)), f"DecoderLayer: {said}")
      for way, said in STEPS),
    ((encoder_with(lambda self, x, mask: think(self, look(self, x, None))), DecoderLayer),
     "EncoderLayer: the mask is not used"),
    ((encoder_with(lambda self, x, mask: think(
        self, look(self, x, mask, "around_feed_forward"), "around_attention")), DecoderLayer),
     "around_attention and around_feed_forward are exchanged"),
    ((encoder_with(lambda self, x, mask: think(self, look(self, x, mask), "around_attention")),
      DecoderLayer), "around_attention is used for both sub-layers"),
    ((encoder_with(lambda self, x, mask: look(self, think(self, x), mask)), DecoderLayer),
     "the feed-forward network is applied first"),
    ((encoder_with(look), DecoderLayer), "EncoderLayer: the feed-forward network is missing"),
    ((encoder_with(lambda self, x, mask: think(self, x)), DecoderLayer),
     "EncoderLayer: the attention is missing"),
    ((PlainKeys, DecoderLayer), "the queries are normalised, but keys and values are not"),
    ((PlainQueriesToo, DecoderLayer), "self-attention reads the input x of the layer"),
    ((EncoderLayer, DecoderOfPlainQueries), "an attention uses the input y of the layer"),
    ((without_dropout(EncoderLayer), DecoderLayer), "EncoderLayer: A dropout is missing"),
    ((EncoderLayer, without_dropout(DecoderLayer)), "DecoderLayer: A dropout is missing"),
    ((WithBothAnswers, DecoderLayer), "the sub-layer must return only the context: take [0]"),
    ((WithWeights, DecoderLayer), "is a tensor, got a tuple"),
    ((OneWay, DecoderLayer), "are one and the same tensor"),
    ((WithoutTheNorm, DecoderLayer), "EncoderLayer: the normalisation is in the wrong position"),
    ((OtherNames, DecoderLayer), "has no parameter self_attention.query_projection.weight"),
    ((OneHead, DecoderLayer), "The values of the output of EncoderLayer"),
    ((package_layers.EncoderLayer, DecoderLayer), "not accepted. Your code uses"),
    ((EncoderLayer, decoder_with(masks=lambda tgt, src: (None, src))), "tgt_mask is not used"),
    ((EncoderLayer, decoder_with(masks=lambda tgt, src: (tgt, None))), "src_mask is not used"),
    ((EncoderLayer, decoder_with(masks=lambda tgt, src: (None, None))), "neither mask is used"),
    ((EncoderLayer, decoder_with(masks=lambda tgt, src: (src, tgt))),
     "the two masks are exchanged"),
    ((EncoderLayer, decoder_with(masks=lambda tgt, src: (tgt, tgt))),
     "cross-attention uses tgt_mask"),
    ((EncoderLayer, decoder_with(across=across_the_wrong_way)),
     "memory and target are exchanged in cross-attention"),
    ((EncoderLayer, decoder_with(across=across_itself)),
     "cross-attention attends to the target again"),
    ((EncoderLayer, decoder_with(across=lambda a, h, memory, mask: a(h, memory, h, mask))),
     "the values of cross-attention come from the target"),
    ((EncoderLayer, decoder_with(across=lambda a, h, memory, mask: a(h, h, memory, mask))),
     "the keys of cross-attention come from the target"),
    ((EncoderLayer, NormedMemory), "the memory is normalised in the decoder layer"),
    ((EncoderLayer, decoder_with(order="csf")), "cross-attention is applied before self-attention"),
    ((EncoderLayer, decoder_with(names=("cross_attention", "self_attention"))),
     "the two attentions are exchanged"),
    ((EncoderLayer, decoder_with(order="sf")), "cross-attention is missing"),
    ((EncoderLayer, decoder_with(order="cf")), "self-attention is missing"),
    ((EncoderLayer, decoder_with(order="sc")), "DecoderLayer: the feed-forward network is missing"),
    ((EncoderLayer, decoder_with(order="sfc")), "The values of the output of DecoderLayer"),
]  # fmt: skip

# Part 4


def input_with(answer):
    """An input embedding that makes its sum with this function of words, codes and √d_model."""

    class Input(InputEmbedding):
        def forward(self, ids):
            words = self.embedding(ids)
            codes = sinusoids(*words.shape[1:])
            return self.dropout(answer(words, codes, math.sqrt(words.size(2))))

    return Input


class OneCodeASentence(InputEmbedding):
    def forward(self, ids):
        words = self.embedding(ids)
        codes = sinusoids(len(words), words.size(2)).unsqueeze(1)
        return self.dropout(words * math.sqrt(words.size(2)) + codes)


class DroppingNothing(InputEmbedding):
    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__(vocab_size, d_model)


class DroppingWords(InputEmbedding):
    def forward(self, ids):
        words = self.dropout(self.embedding(ids))
        return words * math.sqrt(words.size(2)) + sinusoids(*words.shape[1:])


class OwnTable(InputEmbedding):
    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__(vocab_size, d_model, dropout)
        self.embedding = nn.Embedding(vocab_size, d_model)


class TableOfPositions(InputEmbedding):
    """Its codes are a buffer, which stands among the weights."""

    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__(vocab_size, d_model, dropout)
        self.register_buffer("codes", sinusoids(64, d_model))


INPUTS = [
    (input_with(lambda words, codes, root: words + codes),
     "the embeddings are not multiplied by √d_model"),
    (input_with(lambda words, codes, root: root * (words + codes)),
     "embeddings and positional encodings are both multiplied"),
    (input_with(lambda words, codes, root: words + root * codes),
     "the positional encodings are multiplied by √d_model"),
    (input_with(lambda words, codes, root: root**2 * words + codes),
     "the embeddings are multiplied by d_model"),
    (input_with(lambda words, codes, root: words / root + codes),
     "the embeddings are divided by √d_model"),
    (input_with(lambda words, codes, root: root * words), "the positional encodings are missing"),
    (input_with(lambda words, codes, root: codes.expand_as(words)), "the embeddings are missing"),
    (input_with(lambda words, codes, root: torch.cat([root * words, codes.expand_as(words)], 2)),
     "The shape of the output of InputEmbedding"),
    (OneCodeASentence, "all tokens of a sentence get the same positional encoding"),
    (DroppingNothing, "InputEmbedding: dropout is missing in training"),
    (DroppingWords, "dropout is applied to the embeddings only"),
    (OwnTable, "has no parameter embedding.table.weight"),
    (TableOfPositions, "has a parameter or buffer codes"),
]  # fmt: skip


class WholeEncoder(Encoder):
    """An encoder with every step open."""

    def __init__(self, *sizes, run=lambda layers: layers, masked=True, last=True):
        super().__init__(*sizes)
        self.run, self.masked, self.last = run, masked, last

    def forward(self, src, src_mask):
        x = self.input(src)
        for layer in self.run(list(self.layers)):
            x = layer(x, src_mask if self.masked else None)
        return self.last_norm(x) if self.last else x


class WholeDecoder(Decoder):
    """A decoder with every step open."""

    def __init__(self, *sizes, run=lambda layers: layers, masks=(True, True), last=True):
        super().__init__(*sizes)
        self.run, self.masks, self.last = run, masks, last

    def forward(self, tgt, memory, src_mask):
        y = self.input(tgt)
        tgt_mask = causal_mask(tgt.size(1)) if self.masks[0] else None
        for layer in self.run(list(self.layers)):
            y = layer(y, memory, tgt_mask, src_mask if self.masks[1] else None)
        return self.last_norm(y) if self.last else y


def whole(encoder=None, decoder=None, last=lambda logits: logits):
    """A Transformer whose stacks are made with these options."""

    class Whole(Transformer):
        def __init__(
            self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers,
            dropout=0.0, norm="pre",
        ):  # fmt: skip
            nn.Module.__init__(self)
            asked = d_model, num_heads, d_ff, num_layers, dropout, norm
            self.encoder = WholeEncoder(src_vocab_size, *asked, **(encoder or {}))
            self.decoder = WholeDecoder(tgt_vocab_size, *asked, **(decoder or {}))
            self.output = nn.Linear(d_model, tgt_vocab_size, bias=False)

        def forward(self, src, src_mask, tgt):
            return last(super().forward(src, src_mask, tgt))

    return Whole


class LayerByLayer(Transformer):
    def forward(self, src, src_mask, tgt):
        x, y = self.encoder.input(src), self.decoder.input(tgt)
        tgt_mask = causal_mask(tgt.size(1))
        for one, other in zip(self.encoder.layers, self.decoder.layers, strict=True):
            x = one(x, src_mask)
            y = other(y, self.encoder.last_norm(x), tgt_mask, src_mask)
        return self.output(self.decoder.last_norm(y))


class OneLayerNTimes(Transformer):
    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        layers = self.encoder.layers
        self.encoder.layers = nn.ModuleList([layers[0]] * len(layers))


def dropping_in(encoder, decoder):
    """A Transformer that hands `dropout` on to these parts of its stacks alone."""

    class Dropping(Transformer):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            for stack, parts in ((self.encoder, encoder), (self.decoder, decoder)):
                for name, module in stack.named_modules():
                    if isinstance(module, nn.Dropout) and not name.startswith(parts):
                        module.p = 0.0

    return Dropping


class Tied(Transformer):
    """One table for the target and the output, as in the paper."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.output.weight = self.decoder.input.embedding.table.weight


class WithOutputBias(Transformer):
    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.output = nn.Linear(self.output.in_features, self.output.out_features)


class AlwaysALastNorm(Transformer):
    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.encoder.last_norm = LayerNorm(self.output.in_features)
        self.decoder.last_norm = LayerNorm(self.output.in_features)


class LayersInAList(Transformer):
    """A plain list hides its layers from PyTorch."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        for stack in (self.encoder, self.decoder):
            layers = [*stack.layers]
            del stack.layers
            stack.layers = layers


class VocabulariesExchanged(Transformer):
    def __init__(self, src_vocab_size, tgt_vocab_size, *sizes, **more):
        super().__init__(tgt_vocab_size, src_vocab_size, *sizes, **more)


class LastPlaceOnly(Transformer):
    def forward(self, src, src_mask, tgt):
        return super().forward(src, src_mask, tgt)[:, -1]


class RunByItself(Transformer):
    """Right as a whole, while its decoder alone is not."""

    def forward(self, src, src_mask, tgt):
        self.memory = self.encoder(src, src_mask)
        return self.output(self.decoder(tgt, self.memory, src_mask))

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        right, self.memory = self.decoder.forward, None

        def decode(tgt, memory, src_mask):
            return right(tgt, memory if memory is self.memory else 0 * memory, src_mask)

        self.decoder.forward = decode


def first(layers):
    return layers[:1]


def backwards(layers):
    return layers[::-1]


TRANSFORMER = [
    *(((wrong, Transformer), words) for wrong, words in INPUTS),
    ((InputEmbedding, whole(decoder={"masks": (False, True)})),
     "a target position depends on later tokens"),
    ((InputEmbedding, whole(encoder={"masked": False})), "the encoder attends to padding"),
    ((InputEmbedding, whole(decoder={"masks": (True, False)})),
     "the decoder attends to padding of the source"),
    ((InputEmbedding, whole({"masked": False}, {"masks": (True, False)})), "src_mask is not used"),
    ((InputEmbedding, whole({"last": False}, {"last": False})), "last_norm is not used"),
    ((InputEmbedding, whole(encoder={"last": False})), "last_norm is not used"),
    ((InputEmbedding, whole({"run": first}, {"run": first})),
     "only one layer of a stack is applied"),
    ((InputEmbedding, whole(decoder={"run": first})), "only one layer of a stack is applied"),
    ((InputEmbedding, whole({"run": backwards}, {"run": backwards})),
     "are applied in reverse order"),
    ((InputEmbedding, whole(last=lambda logits: logits.softmax(dim=-1))),
     "the output contains probabilities or their logarithms"),
    ((InputEmbedding, whole(last=lambda logits: logits.log_softmax(dim=-1))),
     "the output contains probabilities or their logarithms"),
    ((InputEmbedding, whole(last=lambda logits: logits.argmax(dim=-1))),
     "is torch.int64, expected torch.float32"),
    ((InputEmbedding, LayerByLayer),
     "each decoder layer attends to the output of the encoder layer"),
    ((InputEmbedding, OneLayerNTimes), "holds one layer n times"),
    ((InputEmbedding, dropping_in((), ())), "encoder: A dropout is missing"),
    ((InputEmbedding, dropping_in("input", ("input", "layers"))), "encoder: A dropout is missing"),
    ((InputEmbedding, dropping_in(("input", "layers"), "layers")), "decoder: A dropout is missing"),
    ((InputEmbedding, Tied), "are one and the same tensor. Here each has its own parameters"),
    ((InputEmbedding, WithOutputBias), "has a parameter or buffer output.bias"),
    ((InputEmbedding, AlwaysALastNorm), "With post-norm, nothing follows the last layer"),
    ((InputEmbedding, LayersInAList), "has no parameter encoder.layers.0"),
    ((InputEmbedding, VocabulariesExchanged),
     "the shape of encoder.input.embedding.table.weight is (11, 6), expected (7, 6)"),
    ((InputEmbedding, LastPlaceOnly), "The shape of the logits of Transformer"),
    ((InputEmbedding, RunByItself), "are called separately"),
]  # fmt: skip

# Part 5


def sizes_with(**changes):
    def answer(state):
        right = sizes(state)
        return right | {name: change(right, state) for name, change in changes.items()}

    return answer


def every_tensor(right, state):
    return sum(tensor.numel() for tensor in state.values())


def less_one_table(right, state):
    table = state["encoder.input.embedding.table.weight"]
    return every_tensor(right, state) - right["shared"] * table.numel()


def unlike_tensors(right, state):
    """It counts tensors with equal numbers once."""
    kinds = {(tensor.shape, tuple(tensor.flatten().tolist())) for tensor in state.values()}
    return sum(shape.numel() for shape, _ in kinds)


def layers_by_text(right, state):
    return 1 + int(max(name.split(".")[2] for name in state if name.startswith("encoder.layers")))


def layers_by_a_digit(right, state):
    return len(
        {name[len("encoder.layers.")] for name in state if name.startswith("encoder.layers")}
    )


def shared_by_shape(right, state):
    return state["output.weight"].shape == state["encoder.input.embedding.table.weight"].shape


def counted_by_shape(right, state):
    once = {tensor.shape: tensor for name, tensor in state.items() if name in (
        "output.weight", "encoder.input.embedding.table.weight")}  # fmt: skip
    table = state["output.weight"].numel()
    return every_tensor(right, state) - 2 * table * (len(once) == 1)


class LayerPair:
    """The parameters of an encoder and a decoder layer, with a mistake."""

    def __init__(self, attentions=3, matrices=4, biases=(1, 1), norms=5, in_a_norm=2):
        self.attentions, self.matrices, self.biases = attentions, matrices, biases
        self.norms, self.in_a_norm = norms, in_a_norm

    def __call__(self, d_model, d_ff):
        attention = self.matrices * d_model * (d_model + self.biases[0])
        feed_forward = 2 * d_model * d_ff + self.biases[1] * (d_ff + d_model)
        norms = self.norms * self.in_a_norm * d_model
        return self.attentions * attention + 2 * feed_forward + norms


def deepest_with(
    pair=layer_pair, tables=1, last=lambda norm, d_model: 4 * d_model if norm == "pre" else 0,
    whole=lambda number: max(0, math.floor(number)),
):  # fmt: skip
    def answer(budget, vocab_size, d_model, d_ff, norm):
        without_layers = tables * vocab_size * d_model + last(norm, d_model)
        return whole((budget - without_layers) / pair(d_model, d_ff))

    return answer


def half_the_last(norm, d_model):
    return 2 * d_model if norm == "pre" else 0


def two_of_three(_, state):
    tables = [state[f"{stack}.input.embedding.table.weight"] for stack in ("encoder", "decoder")]
    return tables[0].equal(tables[1])


READ_OFF = [
    ((sizes_with(shared=two_of_three), deepest),
     "here source and target have the same embedding matrix"),
    ((sizes_with(parameters=every_tensor), deepest), "is counted once for each of its three names"),
    ((sizes_with(parameters=less_one_table), deepest), "so two copies must be subtracted"),
    ((sizes_with(parameters=unlike_tensors), deepest),
     "tensors with equal values are counted once"),
    ((sizes_with(num_layers=lambda right, _: 2 * right["num_layers"]), deepest),
     "num_layers counts the layers of both stacks"),
    ((sizes_with(num_layers=lambda right, _: right["num_layers"] - 1), deepest),
     "num_layers is too small by 1"),
    ((sizes_with(num_layers=layers_by_text), deepest),
     "num_layers is wrong for more than 10 layers"),
    ((sizes_with(num_layers=layers_by_a_digit), deepest), "or whether only one digit is read"),
    ((sizes_with(d_ff=lambda r, _: r["d_model"], d_model=lambda r, _: r["d_ff"]), deepest),
     "d_ff and d_model are exchanged"),
    ((sizes_with(d_ff=lambda right, _: right["d_model"]), deepest),
     "d_ff is the number of inputs of the inner layer"),
    ((sizes_with(src_vocab_size=lambda r, _: r["tgt_vocab_size"],
                 tgt_vocab_size=lambda r, _: r["src_vocab_size"]), deepest),
     "the two vocabulary sizes are exchanged"),
    ((sizes_with(norm=lambda *_: "pre"), deepest), "norm is always 'pre'"),
    ((sizes_with(norm=lambda r, _: "post" if r["norm"] == "pre" else "pre"), deepest),
     "'pre' and 'post' are exchanged"),
    ((sizes_with(shared=shared_by_shape, parameters=counted_by_shape), deepest),
     "of the same shape need not be shared"),
    ((sizes_with(shared=shared_by_shape), deepest), "of the same shape need not be shared"),
    ((sizes_with(shared=lambda *_: False, parameters=every_tensor), deepest),
     "the embedding matrix is shared here"),
    ((sizes_with(d_model=lambda right, _: float(right["d_model"] + 1)), deepest),
     "This is not the expected value of the output of sizes"),
    ((lambda state: list(sizes(state).values()), deepest),
     "Expected the output of sizes as a dict"),
    ((sizes, deepest_with(tables=3)), "deepest: the embedding matrix is shared"),
    ((sizes, deepest_with(tables=2)), "deepest: the embedding matrix is shared"),
    ((sizes, deepest_with(tables=0)), "the embedding matrix is not counted"),
    ((sizes, deepest_with(LayerPair(attentions=2))), "a decoder layer has two attentions"),
    ((sizes, deepest_with(LayerPair(matrices=3))), "an attention has four matrices"),
    ((sizes, deepest_with(LayerPair(biases=(0, 1)))), "the biases of the attentions are not"),
    ((sizes, deepest_with(LayerPair(biases=(1, 0)))), "the biases of the feed-forward networks"),
    ((sizes, deepest_with(LayerPair(biases=(0, 0)))), "no bias is counted"),
    ((sizes, deepest_with(LayerPair(norms=0))), "the layer normalisations are not counted"),
    ((sizes, deepest_with(LayerPair(in_a_norm=1), last=half_the_last)),
     "a layer normalisation has 2 · d_model parameters"),
    ((sizes, deepest_with(LayerPair(norms=4))), "a decoder layer has three layer normalisations"),
    ((sizes, deepest_with(last=lambda *_: 0)), "a pre-norm model has one more layer normalisation"),
    ((sizes, deepest_with(last=half_the_last)),
     "a pre-norm model has one more layer normalisation"),
    ((sizes, deepest_with(last=lambda _, d_model: 4 * d_model)),
     "a post-norm model has no layer normalisation after the last"),
    ((sizes, deepest_with(whole=lambda n: max(0, 2 * math.floor(n)))),
     "the answer counts the layers of both stacks together"),
    ((sizes, deepest_with(whole=lambda n: max(0, math.ceil(n)))), "fits only in part"),
    ((sizes, deepest_with(whole=lambda n: max(0, round(n)))), "fits only in part"),
    ((sizes, deepest_with(whole=lambda n: max(0, math.floor(n) + 1))),
     "the answer is one layer too many"),
    ((sizes, deepest_with(whole=lambda n: max(0, math.ceil(n) - 1))),
     "a budget that is used completely"),
    ((sizes, deepest_with(whole=math.floor)), "if the embedding matrix alone exceeds the budget"),
    ((sizes, deepest_with(LayerPair(attentions=4))),
     "This is not the expected value of the output of deepest"),
    ((sizes, lambda *asked: "many"), "Expected the output of deepest as an int"),
]  # fmt: skip

# Part 6


def converted(change):
    """The right weights, renamed or otherwise changed."""
    return lambda state: change(from_pytorch(state), state)


def renamed(*pairs):
    """Weights in which the names of each pair have changed places."""

    def change(right, state):
        found = {}
        for name, tensor in right.items():
            for one, other in pairs:
                if one in name:
                    name = name.replace(one, other)
                elif other in name:
                    name = name.replace(other, one)
            found[name] = tensor
        return found

    return converted(change)


def decoder_norms_exchanged(right, state):
    found = dict(right)
    for name, tensor in right.items():
        if "around_cross_attention" in name:
            other = name.replace("cross_attention", "feed_forward")
            found[name], found[other] = right[other], tensor
    return found


def uncut(right, state):
    return right | {"encoder.layers.0.self_attention.query_projection.weight":
                    state["encoder.layers.0.self_attn.in_proj_weight"]}  # fmt: skip


def every_third_row(right, state):
    found = dict(right)
    for name, tensor in state.items():
        if "in_proj_" in name:
            own = name.replace("self_attn.in_proj_", "self_attention.{}_projection.")
            own = own.replace("multihead_attn.in_proj_", "cross_attention.{}_projection.")
            for index, part in enumerate(("query", "key", "value")):
                found[own.format(part)] = tensor[index::3]
    return found


def transposed(right, state):
    return {n: t.T if "_projection.weight" in n else t for n, t in right.items()}


def layers_reversed(right, state):
    def turned(name):
        words = name.split(".")
        if len(words) > 3:
            words[2] = str(last - int(words[2]))
        return ".".join(words)

    last = max(int(name.split(".")[2]) for name in right if ".layers." in name)
    return {turned(name): tensor for name, tensor in right.items()}


def without_last_norms(right, state):
    return {name: tensor for name, tensor in right.items() if "last_norm" not in name}


def with_old_names(right, state):
    return right | {"encoder.norm.weight": state["encoder.norm.weight"]}


def doubled(right, state):
    return {n: 2 * t if n.endswith("outer.bias") else t for n, t in right.items()}


def masks_with(tgt=lambda hides: hides, padding=lambda hides: hides):
    def answer(src_mask, tgt_len):
        first, second = masks_for_pytorch(src_mask, tgt_len)
        return tgt(first), padding(second)

    return answer


FROM_PYTORCH = [
    ((renamed(("query_projection", "value_projection")), masks_for_pytorch),
     "PyTorch stores the rows for queries, keys and values in one"),
    ((renamed(("query_projection", "key_projection")), masks_for_pytorch),
     "contains the values of encoder.layers.0.self_attention.key_projection.weight"),
    ((converted(decoder_norms_exchanged), masks_for_pytorch),
     "PyTorch numbers the norms of a layer in the order of the sub-layers"),
    ((renamed(("around_attention", "around_feed_forward")), masks_for_pytorch),
     "our stacks have no parameter 'decoder.layers.0.around_attention"),
    ((renamed((".self_attention", ".cross_attention")), masks_for_pytorch),
     "our stacks have no parameter 'encoder.layers.0.cross_attention"),
    ((converted(lambda right, state: right | {
        name: right[name.replace("cross", "self")] for name in right
        if ".cross_attention" in name}), masks_for_pytorch),
     "self_attn attends to the target, multihead_attn to the memory"),
    ((renamed(("gain", "shift")), masks_for_pytorch), "the gain of a norm is called weight"),
    ((converted(layers_reversed), masks_for_pytorch), "Each layer has its own parameters"),
    ((converted(uncut), masks_for_pytorch), "contains all three projections"),
    ((converted(every_third_row), masks_for_pytorch), "is split at the wrong rows"),
    ((converted(transposed), masks_for_pytorch), "is transposed"),
    ((converted(without_last_norms), masks_for_pytorch), "'encoder.last_norm.gain' is missing"),
    ((converted(with_old_names), masks_for_pytorch),
     "our stacks have no parameter 'encoder.norm.weight'"),
    ((converted(doubled), masks_for_pytorch), "are not the expected ones"),
    ((lambda state: dict(state), masks_for_pytorch), "our stacks have no parameter"),
    ((lambda state: [*from_pytorch(state).values()], masks_for_pytorch),
     "expected a dict of tensors, got list"),
    ((from_pytorch, lambda src_mask, tgt_len: (causal_mask(tgt_len)[0], ~src_mask.squeeze(1))),
     "tgt_mask is True where a position may attend"),
    ((from_pytorch, masks_with(tgt=lambda hides: hides.T)), "tgt_mask hides earlier positions"),
    ((from_pytorch, masks_with(tgt=lambda hides: hides | torch.eye(len(hides)).bool())),
     "tgt_mask hides each position from itself"),
    ((from_pytorch, masks_with(tgt=torch.zeros_like)), "tgt_mask hides nothing"),
    ((from_pytorch, masks_with(padding=lambda hides: ~hides)),
     "src_key_padding_mask is True at real tokens"),
    ((from_pytorch, masks_with(padding=lambda hides: hides.unsqueeze(1))),
     "The shape of src_key_padding_mask is (2, 1, 3), expected (2, 3)"),
    ((from_pytorch, masks_with(padding=lambda hides: hides.float())), "contains 0 and -inf"),
    ((from_pytorch, masks_with(padding=lambda hides: hides.long())),
     "as a tensor of True and False, got torch.int64"),
    ((from_pytorch, masks_with(tgt=torch.squeeze)), "The shape of tgt_mask is (), expected (1, 1)"),
    ((from_pytorch, lambda *given: masks_for_pytorch(*given)[0]), "Expected a pair"),
]  # fmt: skip

WRONG = {
    "norm": NORM,
    "residual": RESIDUAL,
    "layers": LAYERS,
    "transformer": TRANSFORMER,
    "read_off": READ_OFF,
    "from_pytorch": FROM_PYTORCH,
}


HANDED_IN = {
    "without_root": (
        {
            "transformer": source(
                InputEmbedding, Encoder, Decoder, Transformer,
                root=("words * math.sqrt(d_model) + ", "words + "),
            )
        },
        ["transformer-check"],
        "the embeddings are not multiplied by √d_model",
    ),
    "counted_three_times": (
        {
            "read-off": source(
                sizes, layer_pair, deepest, count=("parameters -= 2 * table.numel()", "pass")
            )
        },
        ["read-off-check"],
        "is counted once for each of its three names",
    ),
    "post_norm_only": (
        {"way-around": source(FeedForward, Residual, norm=('self.norm == "pre"', "False"))},
        ["way-around-check", "layers-check", "transformer-check"],
        "the normalisation is in the wrong position",
    ),
}  # fmt: skip
