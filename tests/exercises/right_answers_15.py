"""Right answers to 15_building_the_transformer, each written differently."""

import math
import re

import torch
from torch import nn
from torch.nn import functional as F

from attentively.embedding import TokenEmbedding
from attentively.masks import causal_mask
from attentively.multi_head import MultiHeadAttention
from attentively.positional import sinusoids

# Part 1


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = (x - mean).square().mean(dim=-1, keepdim=True)
        return self.gain * (x - mean) / torch.sqrt(variance + self.eps) + self.shift


class LayerNormByVar(LayerNorm):
    """In one expression, with the variance of PyTorch and the root as a power."""

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.shift, self.gain, (x - mean) * (variance + self.eps) ** -0.5)


class LayerNormByNumbers(LayerNorm):
    """Vector by vector and number by number, slowly."""

    def forward(self, x):
        rows = []
        for vector in x.reshape(-1, x.shape[-1]):
            mean = sum(vector) / len(vector)
            variance = sum((number - mean) ** 2 for number in vector) / len(vector)
            rows.append((vector - mean) / (variance + self.eps) ** 0.5 * self.gain + self.shift)
        return torch.stack(rows).reshape(x.shape)


class LayerNormByMoments(LayerNorm):
    """The variance as the mean of the squares less the square of the mean, in 64 bits."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.d_model = d_model

    def forward(self, x):
        x = x.double()
        mean = x.sum(dim=-1, keepdim=True) / self.d_model
        variance = (x * x).sum(dim=-1, keepdim=True) / self.d_model - mean * mean
        return (x - mean).div((variance + self.eps).sqrt()).mul(self.gain).add(self.shift)


class LayerNormByFactor(LayerNorm):
    """First what is left of the mean, then one factor for each vector."""

    def forward(self, x):
        d = x - x.mean(dim=-1, keepdim=True)
        factor = 1 / torch.sqrt((d**2).mean(-1, keepdim=True) + self.eps)
        return self.gain * (d * factor) + self.shift


NORM = [LayerNorm, LayerNormByVar, LayerNormByNumbers, LayerNormByMoments, LayerNormByFactor]

# Part 2


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


class FeedForwardByClamp(FeedForward):
    def forward(self, x):
        hidden = x @ self.inner.weight.T + self.inner.bias
        return torch.einsum("...f,df->...d", hidden.clamp(min=0), self.outer.weight) + (
            self.outer.bias
        )


class FeedForwardAsConvolution(FeedForward):
    """Two convolutions with kernel size 1 over the words."""

    def forward(self, x):
        rows = x.reshape(1, -1, x.size(-1)).transpose(1, 2)
        hidden = F.conv1d(rows, self.inner.weight.unsqueeze(2), self.inner.bias).relu()
        said = F.conv1d(hidden, self.outer.weight.unsqueeze(2), self.outer.bias)
        return said.transpose(1, 2).reshape(x.shape)


class FeedForwardThatDraws(FeedForward):
    """More random numbers are drawn as it is made, so a check that then draws gets others."""

    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        torch.rand(36)


class Residual(nn.Module):
    def __init__(self, d_model, dropout=0.0, norm="pre"):
        super().__init__()
        self.norm = norm
        self.layer_norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        if self.norm == "pre":
            return x + self.dropout(sublayer(self.layer_norm(x)))
        return self.layer_norm(x + self.dropout(sublayer(x)))


class ResidualInOneLine(Residual):
    def forward(self, x, sublayer):
        before, after = (self.layer_norm, nn.Identity())[:: 1 if self.norm == "pre" else -1]
        return after(self.dropout(sublayer(before(x))) + x)


class ResidualWithTheFunction(nn.Module):
    """With dropout as a function, and the layer norm of PyTorch under our names."""

    def __init__(self, d_model, dropout=0.0, norm="pre"):
        super().__init__()
        self.layer_norm = LayerNormByVar(d_model)
        self.rate = dropout
        self.first = norm == "pre"

    def forward(self, x, sublayer):
        said = sublayer(self.layer_norm(x) if self.first else x)
        total = x.clone()
        total += F.dropout(said, self.rate, self.training)
        return total if self.first else self.layer_norm(total)


RESIDUAL = [
    (FeedForward, Residual),
    (FeedForwardByClamp, ResidualInOneLine),
    (FeedForwardAsConvolution, ResidualWithTheFunction),
    (FeedForwardThatDraws, Residual),
]

# Part 3


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(self, x, mask=None):
        x = self.around_attention(x, lambda h: self.self_attention(h, h, h, mask)[0])
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_self_attention = Residual(d_model, dropout, norm)
        self.around_cross_attention = Residual(d_model, dropout, norm)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(self, y, memory, tgt_mask=None, src_mask=None):
        y = self.around_self_attention(y, lambda h: self.self_attention(h, h, h, tgt_mask)[0])
        y = self.around_cross_attention(
            y, lambda h: self.cross_attention(h, memory, memory, src_mask)[0]
        )
        return self.around_feed_forward(y, self.feed_forward)


class EncoderLayerStepByStep(EncoderLayer):
    """Without functions that are handed over, and with parts made in another order."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__(d_model, num_heads, d_ff, dropout, norm)
        self.feed_forward = FeedForwardByClamp(d_model, d_ff)
        self.pre = norm == "pre"

    def forward(self, x, mask=None):
        around = self.around_attention
        h = around.layer_norm(x) if self.pre else x
        attended, _ = self.self_attention(query=h, key=h, value=h, mask=mask)
        x = x + around.dropout(attended)
        x = x if self.pre else around.layer_norm(x)
        around = self.around_feed_forward
        h = around.layer_norm(x) if self.pre else x
        x = x + around.dropout(self.feed_forward(h))
        return x if self.pre else around.layer_norm(x)


class DecoderLayerStepByStep(DecoderLayer):
    """A list of residual connections, applied in a loop."""

    def forward(self, y, memory, tgt_mask=None, src_mask=None):
        def to_itself(h):
            context, _ = self.self_attention(h, h, h, mask=tgt_mask)
            return context

        def to_the_source(h):
            context, _ = self.cross_attention(h, memory, memory, mask=src_mask)
            return context

        steps = {
            "around_self_attention": to_itself,
            "around_cross_attention": to_the_source,
            "around_feed_forward": self.feed_forward,
        }
        for name, say in steps.items():
            y = getattr(self, name)(y, say)
        return y


LAYERS = [
    (EncoderLayer, DecoderLayer),
    (EncoderLayerStepByStep, DecoderLayerStepByStep),
]

# Part 4


class InputEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        words = self.embedding(ids)
        length, d_model = words.shape[1:]
        return self.dropout(words * math.sqrt(d_model) + sinusoids(length, d_model))


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, dropout, norm):
        super().__init__()
        self.input = InputEmbedding(vocab_size, d_model, dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm) for _ in range(num_layers)
        )
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(self, src, src_mask):
        x = self.input(src)
        for layer in self.layers:
            x = layer(x, src_mask)
        return self.last_norm(x)


class Decoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, dropout, norm):
        super().__init__()
        self.input = InputEmbedding(vocab_size, d_model, dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm) for _ in range(num_layers)
        )
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(self, tgt, memory, src_mask):
        y = self.input(tgt)
        tgt_mask = causal_mask(tgt.size(1))
        for layer in self.layers:
            y = layer(y, memory, tgt_mask, src_mask)
        return self.last_norm(y)


class Transformer(nn.Module):
    def __init__(
        self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers,
        dropout=0.0, norm="pre",
    ):  # fmt: skip
        super().__init__()
        sizes = d_model, num_heads, d_ff, num_layers, dropout, norm
        self.encoder = Encoder(src_vocab_size, *sizes)
        self.decoder = Decoder(tgt_vocab_size, *sizes)
        self.output = nn.Linear(d_model, tgt_vocab_size, bias=False)

    def forward(self, src, src_mask, tgt):
        memory = self.encoder(src, src_mask)
        return self.output(self.decoder(tgt, memory, src_mask))


class InputByRows(nn.Module):
    """Rows of the table, codes in a loop of positions, and dropout as a function."""

    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.rate = dropout

    def forward(self, ids):
        table = self.embedding.table.weight
        codes = sinusoids(ids.shape[1] + 3, table.shape[1])
        places = [table.shape[1] ** 0.5 * table[ids[:, p]] + codes[p] for p in range(ids.shape[1])]
        return F.dropout(torch.stack(places, dim=1), self.rate, self.training)


class Stack(nn.Module):
    """One class for both stacks: a decoder's layers are called with more."""

    def __init__(self, kind, vocab_size, d_model, num_heads, d_ff, num_layers, dropout, norm):
        super().__init__()
        self.input = InputByRows(vocab_size, d_model, dropout)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(kind(d_model, num_heads, d_ff, dropout=dropout, norm=norm))
        if norm == "pre":
            self.last_norm = LayerNormByVar(d_model)

    def forward(self, ids, *more):
        x = self.input(ids)
        if len(more) == 2:
            memory, src_mask = more
            more = memory, causal_mask(ids.shape[1]), src_mask
        for layer in self.layers:
            x = layer(x, *more)
        return self.last_norm(x) if hasattr(self, "last_norm") else x


class InputWithABuffer(InputEmbedding):
    """The codes of all positions beforehand, in a buffer that is not saved."""

    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__(vocab_size, d_model, dropout)
        self.register_buffer("codes", sinusoids(512, d_model), persistent=False)

    def forward(self, ids):
        words = self.embedding(ids) * self.codes.size(1) ** 0.5
        return self.dropout(words + self.codes[: ids.size(1)])


class TransformerOfStacks(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, *sizes, dropout=0.0, norm="pre"):
        super().__init__()
        d_model, num_heads, d_ff, num_layers, *more = sizes
        if more:
            dropout, norm = more
        sizes = (d_model, num_heads, d_ff, num_layers, dropout, norm)
        self.output = nn.Linear(d_model, tgt_vocab_size, bias=False)
        self.decoder = Stack(DecoderLayerStepByStep, tgt_vocab_size, *sizes)
        self.encoder = Stack(EncoderLayerStepByStep, src_vocab_size, *sizes)

    def forward(self, src, src_mask, tgt):
        return self.decoder(tgt, self.encoder(src, src_mask), src_mask) @ self.output.weight.T


TRANSFORMER = [
    (InputEmbedding, Transformer),
    (InputByRows, TransformerOfStacks),
    (InputWithABuffer, Transformer),
]

# Part 5


def sizes(state):
    table = state["encoder.input.embedding.table.weight"]
    target = state["decoder.input.embedding.table.weight"]
    shared = torch.equal(table, target) and torch.equal(table, state["output.weight"])
    layers = {name.split(".")[2] for name in state if name.startswith("encoder.layers.")}
    parameters = sum(tensor.numel() for tensor in state.values())
    if shared:
        parameters -= 2 * table.numel()
    return {
        "src_vocab_size": table.size(0),
        "tgt_vocab_size": target.size(0),
        "d_model": table.size(1),
        "d_ff": state["encoder.layers.0.feed_forward.inner.weight"].size(0),
        "num_layers": len(layers),
        "norm": "pre" if "encoder.last_norm.gain" in state else "post",
        "shared": shared,
        "parameters": parameters,
    }


def sizes_by_patterns(state):
    """By other tensors, with a pattern for the layers and a set of tables."""
    src, tgt, out = (
        state[name]
        for name in (
            "encoder.input.embedding.table.weight",
            "decoder.input.embedding.table.weight",
            "output.weight",
        )
    )
    numbers = [re.match(r"decoder\.layers\.(\d+)\.", name) for name in state]
    tables = {tuple(each.flatten().tolist()): each for each in (src, tgt, out)}
    rest = [each.numel() for name, each in state.items() if ".table." not in name and
            name != "output.weight"]  # fmt: skip
    return {
        "parameters": sum(rest) + sum(each.numel() for each in tables.values()),
        "shared": torch.tensor(len(tables) == 1),  # as (one == other).all() is
        "norm": ("post", "pre")[any("last_norm" in name for name in state)],
        "num_layers": 1 + max(int(found[1]) for found in numbers if found),
        "d_ff": state["decoder.layers.0.feed_forward.outer.weight"].shape[1],
        "d_model": len(state["decoder.layers.0.feed_forward.outer.bias"]),
        "src_vocab_size": src.shape[0],
        "tgt_vocab_size": len(out),
    }


def layer_pair(d_model, d_ff):
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    return 3 * attention + 2 * feed_forward + 5 * 2 * d_model


def deepest(budget, vocab_size, d_model, d_ff, norm):
    without_layers = vocab_size * d_model + (2 * 2 * d_model if norm == "pre" else 0)
    return max(0, (budget - without_layers) // layer_pair(d_model, d_ff))


def deepest_by_adding(budget, vocab_size, d_model, d_ff, norm):
    """Add a layer to both stacks as long as the money lasts."""
    left = budget - vocab_size * d_model
    if norm == "pre":
        left -= 4 * d_model
    layers = 0
    while left >= layer_pair(d_model, d_ff):
        left -= layer_pair(d_model, d_ff)
        layers += 1
    return torch.tensor(layers)


READ_OFF = [(sizes, deepest), (sizes_by_patterns, deepest_by_adding)]

# Part 6

NAMES = {
    "self_attn": "self_attention",
    "multihead_attn": "cross_attention",
    "out_proj": "output_projection",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
}


def from_pytorch(state):
    ours = {}
    for name, tensor in state.items():
        for theirs, own in NAMES.items():
            name = name.replace(theirs, own)
        if "in_proj_" in name:
            place, kind = name.split("in_proj_")
            for part, rows in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                ours[f"{place}{part}_projection.{kind}"] = rows
            continue
        if "norm" in name:
            sublayers = ["attention", "feed_forward"]
            if name.startswith("decoder"):
                sublayers = ["self_attention", "cross_attention", "feed_forward"]
            for number, sublayer in enumerate(sublayers, start=1):
                name = name.replace(f".norm{number}.", f".around_{sublayer}.layer_norm.")
            name = name.replace(".norm.", ".last_norm.")
            name = name.replace("weight", "gain").replace("bias", "shift")
        ours[name] = tensor
    return ours


def masks_for_pytorch(src_mask, tgt_len):
    return ~causal_mask(tgt_len).squeeze(0), ~src_mask.squeeze(1)


def from_pytorch_by_layers(state):
    """Layer by layer, each tensor by its full name."""
    ours = {}
    d_model = len(state["encoder.norm.weight"])
    numbers = sorted({int(name.split(".")[2]) for name in state if ".layers." in name})

    def attention(theirs, own):
        for index, part in enumerate(["query", "key", "value"]):
            rows = slice(index * d_model, (index + 1) * d_model)
            ours[f"{own}.{part}_projection.weight"] = state[f"{theirs}.in_proj_weight"][rows, :]
            ours[f"{own}.{part}_projection.bias"] = state[f"{theirs}.in_proj_bias"][rows]
        linear(f"{theirs}.out_proj", f"{own}.output_projection")

    def linear(theirs, own, names=("weight", "bias")):
        for kind, name in zip(("weight", "bias"), names, strict=True):
            ours[f"{own}.{name}"] = state[f"{theirs}.{kind}"].clone()

    for stack, arounds in {
        "encoder": ["attention", "feed_forward"],
        "decoder": ["self_attention", "cross_attention", "feed_forward"],
    }.items():
        for number in numbers:
            layer = f"{stack}.layers.{number}"
            attention(f"{layer}.self_attn", f"{layer}.self_attention")
            if stack == "decoder":
                attention(f"{layer}.multihead_attn", f"{layer}.cross_attention")
            linear(f"{layer}.linear1", f"{layer}.feed_forward.inner")
            linear(f"{layer}.linear2", f"{layer}.feed_forward.outer")
            for index, around in enumerate(arounds, 1):
                own = f"{layer}.around_{around}.layer_norm"
                linear(f"{layer}.norm{index}", own, ("gain", "shift"))
        linear(f"{stack}.norm", f"{stack}.last_norm", ("gain", "shift"))
    return ours


def masks_of_numbers(src_mask, tgt_len):
    """The causal mask with minus infinity, as PyTorch's own function makes it."""
    return nn.Transformer.generate_square_subsequent_mask(tgt_len), src_mask[:, 0].logical_not()


FROM_PYTORCH = [(from_pytorch, masks_for_pytorch), (from_pytorch_by_layers, masks_of_numbers)]

RIGHT = {
    "norm": NORM,
    "residual": RESIDUAL,
    "layers": LAYERS,
    "transformer": TRANSFORMER,
    "read_off": READ_OFF,
    "from_pytorch": FROM_PYTORCH,
}
