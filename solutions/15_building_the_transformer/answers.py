"""Answers to the parts of building the Transformer, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from attentively.attention.masks import causal_mask
from attentively.attention.positional import sinusoids
from attentively.checks.edits import edited_source, source_of
from attentively.checks.recordings import load_questions
from attentively.layers import layer_norm as package_norm
from attentively.layers import transformer_layers
from attentively.layers.embedding import TokenEmbedding

questions = load_questions(Path(__file__).with_name("questions.py"))
LayerNorm, FeedForward, Residual = questions.LayerNorm, questions.FeedForward, questions.Residual
EncoderLayer, DecoderLayer = questions.EncoderLayer, questions.DecoderLayer
InputEmbedding, Transformer = questions.InputEmbedding, questions.Transformer

# Part 1


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


# Part 2


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


class ResidualByHand(Residual):
    """Dropout by the formula of the notebook, which divides by 1 - p."""

    def forward(self, x, sublayer):
        output = sublayer(self.layer_norm(x) if self.norm == "pre" else x)
        if self.training:
            kept = torch.rand(output.shape) >= self.dropout.p
            output = kept * output / (1 - self.dropout.p)
        return x + output if self.norm == "pre" else self.layer_norm(x + output)


# Part 3


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


# Part 4


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


# Part 5


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


def deepest_by_adding(budget, vocab_size, d_model, d_ff, norm):
    """Add a layer to both stacks as long as the money lasts."""
    layers = 0
    while questions.count(layers + 1, vocab_size, d_model, d_ff, norm) <= budget:
        layers += 1
    return torch.tensor(layers)


# Part 6


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


def masks_by_steps(src_mask, tgt_len):
    return torch.ones(tgt_len, tgt_len).triu(1) == 1, src_mask[:, 0].logical_not()


RIGHT = {
    "LayerNorm": [LayerNormByVar, LayerNormByNumbers, LayerNormByMoments, LayerNormByFactor],
    "FeedForward": [FeedForwardByClamp, FeedForwardAsConvolution, FeedForwardThatDraws],
    "Residual": [ResidualInOneLine, ResidualWithTheFunction, ResidualByHand],
    "EncoderLayer": [EncoderLayerStepByStep],
    "DecoderLayer": [DecoderLayerStepByStep],
    "InputEmbedding": [InputByRows, InputWithABuffer],
    "Transformer": [TransformerOfStacks],
    "sizes": [sizes_by_patterns],
    "deepest": [deepest_by_adding],
    "from_pytorch": [from_pytorch_by_layers],
    "masks_for_pytorch": [masks_by_steps],
}


# Wrong answers


class NoModule:
    def __init__(self, d_model, eps=1e-5):
        self.d_model = d_model


class Inherited(package_norm.LayerNorm):
    """The package's class under another name."""


class Sequential(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


def without_rescaling(output, rate):
    return output * (torch.rand_like(output) >= rate)


def of_whole_vectors(output, rate):
    kept = torch.rand(*output.shape[:-1], 1) >= rate
    return output * kept / (1 - rate)


def of_the_same_entries(output, rate):
    kept = torch.rand(output.size(-1)) >= rate
    return output * kept / (1 - rate)


def dropping(module, drop):
    """Return a class like `module`, with another dropout in training."""

    class Dropout(nn.Module):
        def __init__(self, rate):
            super().__init__()
            self.rate = rate

        def forward(self, x):
            return drop(x, self.rate) if self.training else x

    class Changed(module):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.dropout = Dropout(self.dropout.p)

    Changed.__name__ = module.__name__
    return Changed


def dropping_in(encoder, decoder):
    """Return a Transformer that hands `dropout` on to these parts of its stacks alone."""

    class Dropping(Transformer):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            for stack, parts in ((self.encoder, encoder), (self.decoder, decoder)):
                for name, module in stack.named_modules():
                    if isinstance(module, nn.Dropout) and not name.startswith(parts):
                        module.p = 0.0

    return Dropping


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


def layers_reversed(right, state):
    def turned(name):
        words = name.split(".")
        if len(words) > 3:
            words[2] = str(last - int(words[2]))
        return ".".join(words)

    last = max(int(name.split(".")[2]) for name in right if ".layers." in name)
    return {turned(name): tensor for name, tensor in right.items()}


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


def converted(change):
    """Return the conversion with a change of its right result."""
    return lambda state: change(questions.from_pytorch(state), state)


def decoder_norms_exchanged(right, state):
    found = dict(right)
    for name, tensor in right.items():
        if "around_cross_attention" in name:
            other = name.replace("cross_attention", "feed_forward")
            found[name], found[other] = right[other], tensor
    return found


FEED = "torch.relu(self.inner(x))"
READ, GIVEN, TOTAL = "sublayer(read)", "self.dropout(sublayer(read))", "x + output"
SUM = "root * vectors + codes"
TABLE = "self.embedding = TokenEmbedding(vocab_size, d_model)"
TO_ATTENTIONS = "around = [Residual(d_model, dropout, norm) -> around = [Residual(d_model, {})"
OUTPUT = "self.output = nn.Linear(d_model, tgt_vocab_size, bias=False)"
BOTH_LAST_NORMS = 'LayerNorm(d_model) if norm == "pre" else nn.Identity() -> LayerNorm(d_model)'

WRONG = {
    "LayerNorm": {
        "the gradient of x is not: a part of it is missing": (
            "mean = x.mean(dim=axes, keepdim=True) -> "
            "mean = x.mean(dim=axes, keepdim=True).detach()",
            "deviation = torch.sqrt(variance + self.eps) -> "
            "deviation = torch.sqrt(variance.detach() + self.eps)",
        ),
        "The values of the output of LayerNorm are not": "self.gain * normalised + self.shift -> x",
        "no gradient reaches gain": "return self.gain * -> return self.gain.data * ",
        "has no parameter gain. Those that it has: weight, shift": (
            "self.gain = -> self.weight = ",
            "return self.gain -> return self.weight",
        ),
        "gain is a tensor, not a parameter, so it is neither found nor learned":
            "nn.Parameter(torch.ones(d_model)) -> torch.ones(d_model)",
        "mean and variance need the shape (..., 1)":
            "mean = x.mean(dim=axes, keepdim=True) -> mean = x.mean(dim=axes)",
        "gain is a buffer, which no training changes": (
            "self.gain = nn.Parameter(torch.ones(d_model)) -> "
            "self.register_buffer('gain', torch.ones(d_model))"
        ),
        "the shape of gain is (1,), expected (4,)": "torch.ones(d_model) -> torch.ones(1)",
        "The values of the initial gain are not the expected ones":
            "torch.ones(d_model) -> torch.zeros(d_model)",
        "super().__init__() comes first": (
            "super().__init__() -> pass",
            "nn.Parameter(torch.ones(d_model)) -> 1.0",
            "nn.Parameter(torch.zeros(d_model)) -> 0.0",
        ),
        "should be a class whose parent is nn.Module": NoModule,
        "not accepted. Your code uses": [
            package_norm.LayerNorm,
            Inherited,
            "self.gain * normalised + self.shift -> torch.native_layer_norm("
            "x, self.gain.shape, self.gain, self.shift, self.eps)[0]",
        ],
    },
    "FeedForward": {
        "in training": f"{FEED} -> F.dropout({FEED}, 0.1, self.training)",
        "the shape of inner.weight is (2, 3), expected (3, 2)":
            "nn.Linear(d_model, d_ff) -> nn.Linear(d_ff, d_model)",
        "has no parameter inner.weight": Sequential,
        "has no parameter inner.bias":
            "nn.Linear(d_model, d_ff) -> nn.Linear(d_model, d_ff, bias=False)",
        "The values of the output of FeedForward are not":
            f"{FEED} -> self.inner(x).softmax(dim=-1)",
    },
    "Residual": {
        "the gradient of x is not: a part of it": [
            f"{TOTAL} -> x.detach() + output",
            f"{TOTAL} -> (x if pre else x.detach()) + output",
        ],
        "so that the mean does not change": dropping(Residual, without_rescaling),
        "whole vectors are dropped, or the same entries": [
            dropping(Residual, of_whole_vectors),
            dropping(Residual, of_the_same_entries),
        ],
        "dropout is applied to the sum": [
            (f"{GIVEN} -> {READ}", f"{TOTAL} -> self.dropout(x + output)"),
            f"{TOTAL} -> x + output if pre else self.dropout(x + output)",
        ],
        "dropout is applied to the input of the sub-layer":
            f"{GIVEN} -> sublayer(self.dropout(read))",
        "dropout is also applied to the input": f"{READ} -> sublayer(self.dropout(read))",
        "dropout is missing in training": f"{GIVEN} -> {READ}",
        "a share of 0.10 of the sub-layer's output is 0":
            "nn.Dropout(dropout) -> nn.Dropout(min(dropout, 0.1) if dropout < 0.9 else dropout)",
        "gives two different answers": f"{GIVEN} -> F.dropout({READ}, self.dropout.p)",
        "Residual: in training with dropout=0.9999999, some entries are not dropped":
            "nn.Dropout(dropout) -> nn.Dropout()",
        "has no parameter layer_norm.gain":
            "self.layer_norm = LayerNorm(d_model) -> self.layer_norm = nn.Identity()",
        "the normalisation is in the wrong position": 'norm="pre" -> norm="post"',
        "the sub-layer is called 2 times": f"{GIVEN} -> self.dropout(({READ} + {READ}) / 2)",
        "not accepted. Your code uses": transformer_layers.Residual,
    },
    "EncoderLayer": {
        "EncoderLayer: A dropout is missing": TO_ATTENTIONS.format("0.0, norm"),
        "what EncoderLayer returns in training":
            "return x\n -> return self.around_attention.dropout(x)\n",
        "EncoderLayer: dropout is applied too often":
            "(d_model, num_heads) -> (d_model, num_heads, dropout)",
        "the sub-layer must return only the context: take [0]": "h, mask)[0] -> h, mask)",
        "is a tensor, got a tuple": "return x\n -> return x, attend(x)\n",
        "are one and the same tensor": "for _ in range(2)] -> ] * 2",
        "EncoderLayer: the normalisation is in the wrong position":
            TO_ATTENTIONS.format('dropout, "pre"'),
        "has no parameter self_attention.query_projection.weight": (
            "self.self_attention = -> self.attention = ",
            "self.self_attention(h -> self.attention(h",
        ),
        "The values of the output of EncoderLayer": [
            "(d_model, num_heads) -> (d_model, 1)",
            "h, h, h, mask -> h, h, h, mask if mask is None else mask[:1]",
        ],
        "not accepted. Your code uses": transformer_layers.EncoderLayer,
    },
    "DecoderLayer": {
        "DecoderLayer: A dropout is missing": TO_ATTENTIONS.format("0.0, norm"),
        "The values of the output of DecoderLayer": questions.exchanged(
            "cross_attention(y, across)", "feed_forward(y, self.feed_forward)"
        ),
        "The shape of the output of DecoderLayer": "return y\n -> return y[:, : memory.size(1)]\n",
    },
    "InputEmbedding": {
        "The shape of the output of InputEmbedding":
            f"{SUM} -> torch.cat([root * vectors, codes.expand_as(vectors)], 2)",
        "InputEmbedding: dropout is missing in training": "nn.Dropout(dropout) -> nn.Dropout(0.0)",
        "InputEmbedding: in training with dropout=0.9999999, some entries are not dropped":
            "nn.Dropout(dropout) -> nn.Dropout()",
        "dropout is applied to the embeddings only": (
            "self.embedding(ids) -> self.dropout(self.embedding(ids))",
            "self.dropout(total) -> total",
        ),
        "whole vectors are dropped, or the same entries":
            dropping(InputEmbedding, of_whole_vectors),
        "so that the mean does not change": dropping(InputEmbedding, without_rescaling),
        "has no parameter embedding.table.weight":
            f"{TABLE} -> self.embedding = nn.Embedding(vocab_size, d_model)",
        "has a parameter or buffer codes":
            f"{TABLE} -> {TABLE}\n        self.register_buffer('codes', sinusoids(64, d_model))",
        # The encodings of the first 64 positions are stored.
        "must match the size of tensor b (64)":
            "sinusoids(length, d_model) -> sinusoids(64, d_model)[:length]",
    },
    "Transformer": {
        "is torch.int64, expected torch.float32":
            "self.output(outputs) -> self.output(outputs).argmax(dim=-1)",
        "holds one layer n times": questions.stacked(
            "EncoderLayer(d_model, num_heads, d_ff, dropout, norm) for _ in range(num_layers) -> "
            "[EncoderLayer(d_model, num_heads, d_ff, dropout, norm)] * num_layers"
        ),
        "encoder: A dropout is missing": [
            dropping_in((), ()),
            dropping_in("input", ("input", "layers")),
        ],
        "decoder: A dropout is missing": dropping_in(("input", "layers"), "layers"),
        "are one and the same tensor. Here each has its own parameters": [
            f"{OUTPUT} -> {OUTPUT}\n        "
            "self.output.weight = self.decoder.input.embedding.table.weight",
            f"{OUTPUT} -> {OUTPUT}\n        if src_vocab_size == tgt_vocab_size:\n            "
            "self.decoder.input.embedding = self.encoder.input.embedding",
        ],
        "has a parameter or buffer output.bias": ", bias=False -> ",
        "With post-norm, nothing follows the last layer":
            questions.stacked(BOTH_LAST_NORMS, BOTH_LAST_NORMS),
        "has no parameter encoder.layers.0": questions.stacked(
            "nn.ModuleList( -> list(", "nn.ModuleList( -> list("
        ),
        "the shape of encoder.input.embedding.table.weight is (11, 6), expected (7, 6)":
            questions.exchanged("src_vocab_size, *sizes", "tgt_vocab_size, *sizes"),
        "The shape of the logits of Transformer":
            "self.output(outputs) -> self.output(outputs)[:, -1]",
        # It is right up to the lengths that the recorded cases have.
        "the probabilities with the trained parameters":
            "self.output(outputs) -> self.output(outputs) * (-1) ** (src.size(0) > 2)",
        "are called separately": RunByItself,
        "The values of the logits of Transformer are not":
            "self.encoder(src, src_mask) -> self.encoder(src, src_mask := (src != 0).unsqueeze(1))",
        "Transformer: A dropout is missing":
            "memory = self.encoder(src, src_mask) -> memory = self.eval().encoder(src, src_mask)",
        "Transformer: dropout is applied too often": (
            f"{OUTPUT} -> {OUTPUT}\n        self.dropout = nn.Dropout(dropout)",
            "self.output(outputs) -> self.output(self.dropout(outputs))",
        ),
    },
    "sizes": {
        "here output.weight differs from the two other matrices": [
            " and torch.equal(source, output) -> ",
            f"{questions.EQUAL} -> {questions.SAME_SHAPE} and torch.equal(source[1], output[1])",
            f"{questions.EQUAL} -> {questions.SAME_SHAPE} and "
            "torch.allclose(source, target, atol=0.1) and torch.allclose(source, output, atol=0.1)",
        ],
        "here encoder.input.embedding.table.weight differs from the two other":
            "torch.equal(source, target) and torch.equal(source, output) -> "
            "torch.equal(target, output)",
        "here decoder.input.embedding.table.weight differs from the two other":
            "torch.equal(source, target) and -> ",
        "This is not the expected value of the output of sizes":
            "source.size(1), -> source.size(1) + 1.0,",
        "Expected the output of sizes as a dict": lambda state: [*questions.sizes(state).values()],
        "changes its input state": "len(source), -> len(state.popitem()) and len(source),",
    },
    "deepest": {
        "deepest: this is not the expected number of layers. With 1 in": "= 3 * -> = 4 *",
        "deepest: this is not the expected number of layers. With 0 in":
            "budget - vocab_size * d_model -> budget - (vocab_size - 1) * d_model",
        "deepest: this is not the expected number of layers. With 999 in":
            "return max(0, layers) -> return min(max(0, layers), 100)",
        "Expected the output of deepest as an int": "return max(0, layers) -> return str(layers)",
    },
    "from_pytorch": {
        "PyTorch stores the rows for queries, keys and values in one":
            '("query", "key", "value") -> ("value", "key", "query")',
        "contains the values of encoder.layers.0.self_attention.key_projection.weight":
            '("query", "key", "value") -> ("key", "query", "value")',
        "PyTorch numbers the norms of a layer in the order of the sub-layers":
            '"cross_attention", "feed_forward"] -> "feed_forward", "cross_attention"]',
        "our stacks have no parameter 'decoder.layers.0.around_attention":
            renamed(("around_attention", "around_feed_forward")),
        "our stacks have no parameter 'encoder.layers.0.cross_attention":
            '"self_attn": "self_attention" -> "self_attn": "cross_attention"',
        "self_attn attends to the target, multihead_attn to the memory": converted(
            lambda right, state: (
                right
                | {
                    name: right[name.replace("cross", "self")]
                    for name in right
                    if ".cross_attention" in name
                }
            )
        ),
        "the gain of a norm is called weight": questions.exchanged(".gain", ".shift"),
        "Each layer has its own parameters": converted(layers_reversed),
        "contains all three projections": converted(uncut),
        "is split at the wrong rows": "tensor.chunk(3) -> [tensor[index::3] for index in range(3)]",
        "is transposed": "= rows -> = rows.T if rows.dim() == 2 else rows",
        "'encoder.last_norm.gain' is missing": converted(
            lambda right, state: {n: t for n, t in right.items() if "last_norm" not in n}
        ),
        "our stacks have no parameter 'encoder.norm.weight'":
            'return found -> return found | {"encoder.norm.weight": state["encoder.norm.weight"]}',
        "are not the expected ones": [
            converted(
                lambda right, state, end=end: {
                    name: tensor * (1 + name.endswith(end)) for name, tensor in right.items()
                }
            )
            for end in ("outer.bias", "query_projection.weight")
        ],
        "from_pytorch: 'encoder.layers.10.self_attention.query_projection.weight' is missing":
            converted(  # reads one digit of an index
                lambda right, state: {n.replace(".10.", ".1."): t for n, t in right.items()}
            ),
        "our stacks have no parameter": "return found -> return dict(state)",
        "expected a dict of tensors, got a list": "return found -> return [*found.values()]",
    },
    "masks_for_pytorch": {
        "The shape of src_key_padding_mask is (2, 1, 3), expected (2, 3)": ".squeeze(1) -> ",
        "The shape of tgt_mask is (), expected (1, 1)": "[0] -> .squeeze()",
        "Expected a pair": "return tgt_mask, padding -> return tgt_mask",
        "src_key_padding_mask as a tensor of True and False, got torch.float32":
            "tgt_mask, padding -> tgt_mask, padding.float()",
        "tgt_mask as a tensor of True and False, got torch.float32": (
            "~causal_mask(tgt_len)[0] -> "
            "torch.nn.Transformer.generate_square_subsequent_mask(tgt_len)"
        ),
        "as a tensor of True and False, got torch.int64":
            "tgt_mask, padding -> tgt_mask, padding.long()",
    },
}  # fmt: skip

HANDED_IN = {
    "without_root": (
        {
            "transformer": "\n\n".join(
                [
                    edited_source(InputEmbedding, f"{SUM} -> vectors + codes"),
                    *map(source_of, (questions.Encoder, questions.Decoder, Transformer)),
                ]
            )
        },
        ["transformer-check"],
        "the embeddings are not multiplied by √d_model",
    ),
    "counted_three_times": (
        {
            "read-off": "\n\n".join(
                [
                    edited_source(questions.sizes, "= 2 if shared -> = 0 if shared"),
                    source_of(questions.deepest),
                ]
            )
        },
        ["read-off-check"],
        "is counted once for each of its three names",
    ),
    "post_norm_only": (
        {
            "way-around": "\n\n".join(
                [source_of(FeedForward), edited_source(Residual, 'self.norm == "pre" -> False')]
            )
        },
        ["way-around-check", "layers-check", "transformer-check"],
        "the normalisation is in the wrong position",
    ),
}
