"""The Transformer as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. A mistake
in a stack of part 4 is an edit of the class `Encoder` or `Decoder`: see `stacked`. What the modules
do in training, and the parameters of part 6, are examined by code in
`attentively.checks.building_the_transformer`.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  for the edits
from torch import Tensor, nn

from attentively.attention.masks import causal_mask, padding_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import sinusoids
from attentively.checks import building_the_transformer as checks
from attentively.checks.compare import Fresh
from attentively.checks.edits import Edits, edited
from attentively.checks.question import Case, Question, cases_of
from attentively.checks.student_modules import shaken, state_of
from attentively.layers.embedding import TokenEmbedding
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer as OfThePackage


def case(module: type[nn.Module], made: dict[str, Any], inputs: dict[str, Any]) -> Case:
    """Return a case of a module with drawn parameters."""
    return Case(inputs, made, state_of(shaken(module(*made.values()))))


def exchanged(one: str, other: str) -> tuple[str, str, str]:
    """Return edits that exchange two passages."""
    return f"{one} -> §", f"{other} -> {one}", f"§ -> {other}"


# Part 1


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        axes = (-1,)
        mean = x.mean(dim=axes, keepdim=True)
        variance = (x - mean).square().mean(dim=axes, keepdim=True)
        deviation = torch.sqrt(variance + self.eps)
        normalised = (x - mean) / deviation
        return self.gain * normalised + self.shift


def norm_cases(thorough: bool) -> Iterator[Case]:
    by_hand = torch.tensor([[1.0, 3.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    asked = [(by_hand, 0.5), (torch.randn(5), 0.1), (3 + 2 * torch.randn(2, 3, 5), 1e-5)]
    asked += [(2e-3 * torch.randn(3, 2, 7), 1e-5), (torch.randn(2, 3, 5, requires_grad=True), 1e-5)]

    def normalising(x: Tensor, eps: float) -> Case:
        made = {"d_model": x.size(-1)} | ({} if eps == 1e-5 else {"eps": eps})  # the default
        return case(LayerNorm, made, {"x": x})

    for x, eps in asked:
        yield normalising(x, eps)
    far = {"x": 10000 + torch.tensor([[1.0, 3.0, 3.0, 5.0], [2.0, 2.0, 2.0, 6.0]])}
    yield replace(case(LayerNorm, {"d_model": 4, "eps": 1e-5}, far), general=ROUNDED_AWAY)
    if thorough:
        yield normalising(torch.randn(2, 5, 3, 11), 0.01)
        yield normalising(100 * torch.randn(1, 1, 2), 1e-5)


ROUNDED_AWAY = (
    "the variance is wrong for vectors whose mean is large compared with their deviation. Is it "
    "computed as the mean of x² minus μ²? These are almost equal, so their difference is rounded "
    "away. Compute the mean of (x - μ)²."
)
SQUARES = "(x - mean).square().mean(dim=axes, keepdim=True)"
BESSEL = f"{SQUARES} -> x.var(dim=-1, keepdim=True)"
ROOT, OUTSIDE = "torch.sqrt(variance + self.eps)", "variance.sqrt() + self.eps"
AFFINE = "self.gain * normalised + self.shift"
NORM = Question(
    LayerNorm,
    {"the output of LayerNorm": ""},
    norm_cases,
    {
        "eps is added to the standard deviation. Add it to the variance, before the root.":
            f"{ROOT} -> {OUTSIDE}",
        "the variance is divided by d_model - 1, as torch.var does by default. Divide by d_model: "
        "use the mean of the squares, or correction=0.": [BESSEL, (BESSEL, f"{ROOT} -> {OUTSIDE}")],
        "eps is not used. It prevents a division by 0 for a vector of equal entries.":
            " + self.eps -> ",
        "the argument eps is not added to the variance. Check whether your code always uses 1e-5, "
        "or uses eps as a lower bound of the variance.": [
            "+ self.eps -> + 1e-5",
            "variance + self.eps -> variance.clamp(min=self.eps)",
        ],
        "without the argument eps, another value than 1e-5 is used. Keep the given default.": [
            "eps=1e-5 -> eps=1e-6",
            "eps=1e-5 -> eps=1e-12",
        ],
        "the variance is too large. It is the mean of (x - μ)², not their sum, and not the mean of "
        "x² minus μ (without the square of μ).": [
            ".square().mean( -> .square().sum(",
            f"{SQUARES} -> x.square().mean(dim=axes, keepdim=True) - mean",
        ],
        ROUNDED_AWAY: [
            f"{SQUARES} -> x.square().mean(dim=axes, keepdim=True) - mean.square()",
            f"{SQUARES} -> (x.square().mean(axes, True) - mean.square()).clamp(min=0)",
        ],
        "the square root is missing: divide by the root of the variance.":
            f"{ROOT} -> variance + self.eps",
        "the mean is not subtracted.": [
            (f"{SQUARES} -> x.square().mean(dim=axes, keepdim=True)", "= (x - mean) / -> = x /"),
            "= (x - mean) / -> = x /",
        ],
        "mean and variance are computed over several vectors of a sentence or a batch. Each vector "
        "has its own mean and variance: compute them over the last axis only.": [
            f"axes = (-1,) -> axes = {axes}"
            for axes in (
                "tuple(range(x.dim()))",
                "tuple(range(1, x.dim())) or -1",
                "tuple(range(x.dim() - 1)) or -1",
                "0",
                "max(x.dim() - 2, 0)",
            )
        ],
        "the gain is not used.": "self.gain * -> ",
        "the shift is not used.": " + self.shift -> ",
        "neither the gain nor the shift is used.": f"{AFFINE} -> normalised",
        "the shift is added before the multiplication by the gain. First multiply by the gain, "
        "then add the shift.": f"{AFFINE} -> self.gain * (normalised + self.shift)",
        "gain and shift are exchanged.": f"{AFFINE} -> self.shift * normalised + self.gain",
        "the vector is multiplied by 1 + gain instead of the gain. The gain is initialised with "
        "ones.": "self.gain * normalised -> (1 + self.gain) * normalised",
    },
    named=True,
    either_precision=True,
)  # fmt: skip

# Part 2


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        hidden = torch.relu(self.inner(x))
        return self.outer(hidden)


class Residual(nn.Module):
    def __init__(self, d_model, dropout=0.0, norm="pre"):
        super().__init__()
        self.norm = norm
        self.layer_norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        pre = self.norm == "pre"
        read = self.layer_norm(x) if pre else x
        output = self.dropout(sublayer(read))
        total = x + output
        return total if pre else self.layer_norm(total)


def feed_cases(thorough: bool) -> Iterator[Case]:
    # Of few vectors max(0, x) may let nothing through, and then no gradient either.
    many = 10 * torch.randn(50, 5)  # large entries show an upper bound, as of ReLU6
    asked = [(3, torch.randn(1, 2, 2)), (11, many.requires_grad_()), (2, torch.randn(3, 7))]

    def fed(x: Tensor, d_ff: int) -> Case:
        return case(FeedForward, {"d_model": x.size(-1), "d_ff": d_ff}, {"x": x})

    for d_ff, x in asked:
        yield fed(x, d_ff)
    if thorough:
        yield fed(torch.randn(2, 1, 3, 6), 24)


def residual_cases(thorough: bool) -> Iterator[Case]:
    for norm, d_model, length in [("pre", 3, 2), ("post", 5, 3), *[("pre", 11, 3)] * thorough]:
        made: dict[str, Any] = {"d_model": d_model, "dropout": 0.5}
        if norm == "post":  # "pre" is the default
            made["norm"] = norm
        given = {"matrix": torch.randn(d_model, d_model)}
        what = "a sub-layer, a function of a tensor with the shape of x"
        x = torch.randn(2, length, d_model, requires_grad=True)
        yield case(Residual, made, {"x": x, "sublayer": Fresh(checks.Sublayer, given, what)})


RELU, RETURNED = "torch.relu(self.inner(x))", "self.outer(hidden)"
FEED = Question(
    FeedForward,
    {"the output of FeedForward": ""},
    feed_cases,
    {
        "the ReLU max(0, x) between the two layers is missing. Without it, the two linear layers "
        "compute one linear function.": f"{RELU} -> self.inner(x)",
        "a second ReLU is applied after the outer layer. There is only one, between the two "
        "layers.": f"{RETURNED} -> {RETURNED}.relu()",
        "the ReLU is applied after the outer layer. Apply it between the two layers.": (
            f"{RELU} -> self.inner(x)",
            f"{RETURNED} -> {RETURNED}.relu()",
        ),
        "the ReLU is applied before the inner layer. Apply it between the two layers.": [
            f"{RELU} -> self.inner(x.relu())",
            f"{RELU} -> self.inner(x.relu()).relu()",
        ],
        "the activation function is not the ReLU max(0, x) of the paper.": [
            f"torch.relu( -> {each}("
            for each in ("F.gelu", "torch.tanh", "torch.sigmoid", "F.silu", "F.relu6")
        ],
        "x is added to the output. The residual connection is not part of this module.":
            f"{RETURNED} -> x + {RETURNED}",
    },
    named=True,
    either_precision=True,
)  # fmt: skip


def for_each_norm(wrong: str) -> list[str]:
    """Return what is wrong for both positions of the normalisation, and for either of them."""
    right = "total if pre else self.layer_norm(total)"
    either = (wrong, f"({wrong}) if pre else self.layer_norm(total)", f"total if pre else {wrong}")
    return [f"return {right} -> return {each}" for each in either]


NORMED = "self.layer_norm"
RESIDUAL = Question(
    Residual,
    {"the output of Residual": ""},
    residual_cases,
    {
        "the residual connection is missing: add the input of the sub-layer to its output.":
            for_each_norm(f"output if pre else {NORMED}(output)"),
        "the normalisation is in the wrong position. Pre-norm: x + f(LayerNorm(x)). Post-norm: "
        "LayerNorm(x + f(x)).": [
            'self.norm == "pre" -> self.norm != "pre"',
            'self.norm == "pre" -> False',
            'self.norm == "pre" -> True',
        ],
        "the residual connection begins after the normalisation. Add x itself, without "
        "normalisation.": for_each_norm(f"{NORMED}(x) + sublayer({NORMED}(x))"),
        "the output of the sub-layer is normalised. Post-norm normalises the sum, pre-norm the "
        "input of the sub-layer.": for_each_norm(f"x + {NORMED}(sublayer(x))"),
        "both the input of the sub-layer and the sum are normalised. Pre-norm normalises only the "
        "input, post-norm only the sum.": for_each_norm(f"{NORMED}(x + sublayer({NORMED}(x)))"),
        "only the residual connection is normalised. Post-norm normalises the sum, pre-norm the "
        "input of the sub-layer.": for_each_norm(f"{NORMED}(x) + sublayer(x)"),
        "the layer normalisation is not used.": for_each_norm("x + sublayer(x)"),
    },
    named=True,
    either_precision=True,
)  # fmt: skip

RESIDUALS = RESIDUAL.wrong()
OF_RESIDUALS: dict[str, list[str]] = {}
"""The mistakes of a layer whose residual connections are wrong."""
for number, (said, _) in enumerate(RESIDUALS):
    OF_RESIDUALS.setdefault(said, []).append(f"Residual(d_ -> RESIDUALS[{number}][1](d_")


# Part 3


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__()
        around = [Residual(d_model, dropout, norm) for _ in range(2)]
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_attention, self.around_feed_forward = around

    def forward(self, x, mask=None):
        def attend(h):
            return self.self_attention(h, h, h, mask)[0]

        x = self.around_attention(x, attend)
        x = self.around_feed_forward(x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="pre"):
        super().__init__()
        around = [Residual(d_model, dropout, norm) for _ in range(3)]
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_self_attention, self.around_cross_attention, self.around_feed_forward = around

    def forward(self, y, memory, tgt_mask=None, src_mask=None):
        def attend(h):
            return self.self_attention(h, h, h, tgt_mask)[0]

        def across(h):
            return self.cross_attention(h, memory, memory, src_mask)[0]

        y = self.around_self_attention(y, attend)
        y = self.around_cross_attention(y, across)
        y = self.around_feed_forward(y, self.feed_forward)
        return y


def layer_cases(thorough: bool) -> Iterator[tuple[dict[str, Any], dict[str, Tensor], bool]]:
    """Yield the arguments of a constructor, inputs, and whether the masks are among them."""
    asked = [("pre", 4, 2, 3, 4, 4, False), ("pre", 4, 2, 3, 4, 4, True)]
    asked += [("post", 6, 3, 5, 3, 5, True), *[("pre", 10, 5, 7, 5, 2, True)] * thorough]
    for norm, d_model, num_heads, d_ff, src_len, tgt_len, masked in asked:
        # Another hidden position in each sentence, so a mask of one sentence for all is seen.
        src_mask = ~torch.eye(src_len, dtype=torch.bool)[[-1, 0]]
        inputs = {
            "y": torch.randn(2, tgt_len, d_model),
            "memory": torch.randn(2, src_len, d_model),
            "tgt_mask": causal_mask(tgt_len),
            "src_mask": src_mask.unsqueeze(1),
        }
        made = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}
        yield made | {"dropout": 0.1, "norm": norm}, inputs, masked


def encoder_cases(thorough: bool) -> Iterator[Case]:
    for made, given, masked in layer_cases(thorough):
        mask = {"mask": given["src_mask"]} if masked else {}
        yield case(EncoderLayer, made, {"x": given["memory"], **mask})


def decoder_cases(thorough: bool) -> Iterator[Case]:
    for made, given, masked in layer_cases(thorough):
        names = [*given] if masked else ["y", "memory"]
        yield case(DecoderLayer, made, {name: given[name] for name in names})


FED = "x = self.around_feed_forward(x, self.feed_forward)"
ENCODER = Question(
    EncoderLayer,
    {"the output of EncoderLayer": ""},
    encoder_cases,
    {
        **OF_RESIDUALS,
        "the mask is not used.": "h, h, h, mask -> h, h, h, None",
        "around_attention and around_feed_forward are exchanged, and with them their layer "
        "normalisations.": exchanged("around_attention(x", "around_feed_forward(x"),
        "around_attention is used for both sub-layers. Each sub-layer has its own residual "
        "connection with its own layer normalisation.":
            "around_feed_forward(x -> around_attention(x",
        "the feed-forward network is applied first. Self-attention comes first.": exchanged(
            "around_attention(x, attend)", "around_feed_forward(x, self.feed_forward)"
        ),
        "the feed-forward network is missing.": f"{FED} -> pass",
        "the attention is missing.": "x = self.around_attention(x, attend) -> pass",
        "the queries are normalised, but keys and values are not. In self-attention all three are "
        "the tensor that the residual connection passes to the sub-layer.":
            "(h, h, h, -> (h, x, x,",
        "self-attention reads the input x of the layer. It must read the tensor that the residual "
        "connection passes to the sub-layer: the h of `lambda h:`.": "(h, h, h, -> (x, x, x,",
    },
    named=True,
    either_precision=True,
)  # fmt: skip

LOOK, OWN = "(h, memory, memory, src_mask)", "(h, h, h, tgt_mask)"
OWN_INPUT, ACROSS_INPUT = (
    f"{OWN} -> (y, y, y, tgt_mask)",
    f"{LOOK} -> (y, memory, memory, src_mask)",
)
CROSSED = "y = self.around_cross_attention(y, across)"
DECODER = Question(
    DecoderLayer,
    {"the output of DecoderLayer": ""},
    decoder_cases,
    {
        **OF_RESIDUALS,
        "tgt_mask is not used: a target position attends to later positions.":
            f"{OWN} -> (h, h, h, None)",
        "src_mask is not used: the target attends to padding of the source.":
            f"{LOOK} -> (h, memory, memory, None)",
        "neither mask is used.": (
            f"{OWN} -> (h, h, h, None)",
            f"{LOOK} -> (h, memory, memory, None)",
        ),
        "the two masks are exchanged. The keys of self-attention are target positions, those of "
        "cross-attention are source positions.": (
            f"{OWN} -> (h, h, h, src_mask)",
            f"{LOOK} -> (h, memory, memory, tgt_mask)",
        ),
        "cross-attention uses tgt_mask. Its keys are the source positions, which are all known: "
        "use src_mask.": f"{LOOK} -> (h, memory, memory, tgt_mask)",
        "memory and target are exchanged in cross-attention. The queries come from the target, "
        "keys and values are the memory.": f"{LOOK} -> (memory, h, h, src_mask)",
        "cross-attention attends to the target again. Its keys and values are the memory.": [
            f"{LOOK} -> (h, h, h, {mask})" for mask in ("src_mask", "tgt_mask", "None")
        ],
        "the values of cross-attention come from the target. Keys and values are both the memory.":
            f"{LOOK} -> (h, memory, h, src_mask)",
        "the keys of cross-attention come from the target. Keys and values are both the memory.":
            f"{LOOK} -> (h, h, memory, src_mask)",
        "the memory is normalised in the decoder layer. Use it without any change; the residual "
        "connection and its normalisation apply to the target.":
            f"{LOOK} -> (h, *[self.around_cross_attention.layer_norm(memory)] * 2, src_mask)",
        "an attention uses the input y of the layer as its queries. It must use the tensor that "
        "the residual connection passes to the sub-layer: the h of `lambda h:`.": [
            OWN_INPUT,
            ACROSS_INPUT,
            (OWN_INPUT, ACROSS_INPUT),
        ],
        "cross-attention is applied before self-attention. Self-attention comes first.": exchanged(
            "self_attention(y, attend)", "cross_attention(y, across)"
        ),
        "the two attentions are exchanged: self_attention attends to the memory.": exchanged(
            "self.self_attention(h", "self.cross_attention(h"
        ),
        "cross-attention is missing: no information from the source reaches the target.":
            f"{CROSSED} -> pass",
        "self-attention is missing: the target positions do not attend to each other.":
            "y = self.around_self_attention(y, attend) -> pass",
        "the feed-forward network is missing.":
            "y = self.around_feed_forward(y, self.feed_forward) -> pass",
    },
    named=True,
    either_precision=True,
)  # fmt: skip


# Part 4


class InputEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, dropout=0.0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        vectors = self.embedding(ids)
        length, d_model = vectors.shape[1:]
        root = math.sqrt(d_model)
        codes = sinusoids(length, d_model)
        total = root * vectors + codes
        return self.dropout(total)


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm="pre"):
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
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm="pre"):
        super().__init__()
        self.input = InputEmbedding(vocab_size, d_model, dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm) for _ in range(num_layers)
        )
        self.last_norm = LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(self, tgt, memory, src_mask):
        x = self.input(tgt)
        tgt_mask = causal_mask(tgt.size(1))
        for layer in self.layers:
            x = layer(x, memory, tgt_mask, src_mask)
        return self.last_norm(x)


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
        outputs = self.decoder(tgt, memory, src_mask)
        return self.output(outputs)


def stacked(encoder: Edits = (), decoder: Edits = ()) -> type[nn.Module]:
    """Return a Transformer whose stacks are edited."""
    kinds = edited(Encoder, encoder), edited(Decoder, decoder)

    class Edited(Transformer):
        def __init__(self, src_vocab_size, tgt_vocab_size, *sizes):
            super().__init__(src_vocab_size, tgt_vocab_size, *sizes)
            self.encoder = kinds[0](src_vocab_size, *sizes)
            self.decoder = kinds[1](tgt_vocab_size, *sizes)

    Edited.__name__ = "Transformer"
    return Edited


def in_stacks(edit: str) -> list[type[nn.Module]]:
    """Return Transformers with an edit of both stacks, or of either."""
    return [stacked(edit, edit), stacked(encoder=edit), stacked(decoder=edit)]


def layer_by_layer(model: Any, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
    """Let each decoder layer attend to the encoder layer of the same index."""
    x, y = model.encoder.input(src), model.decoder.input(tgt)
    for encoder_layer, decoder_layer in zip(
        model.encoder.layers, model.decoder.layers, strict=True
    ):
        x = encoder_layer(x, src_mask)
        memory = model.encoder.last_norm(x)
        y = decoder_layer(y, memory, causal_mask(tgt.size(1)), src_mask)
    return model.decoder.last_norm(y)


def input_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(2, 3, 7, 4), (3, 5, 11, 6), (1, 150, 5, 2)]
    if thorough:
        sizes += [(2, 400, 3, 4)]
    for batch, length, vocab_size, d_model in sizes:
        made = {"vocab_size": vocab_size, "d_model": d_model, "dropout": 0.5}
        ids = torch.randint(1, vocab_size, (batch, length))
        weights = {"embedding.table.weight": torch.randn(vocab_size, d_model)}
        yield Case({"ids": ids}, made, weights)


def model_cases(thorough: bool) -> Iterator[Case]:
    src = torch.tensor([[3, 4, 5, 2, 0], [4, 6, 3, 5, 2]])
    tgt = torch.tensor([[1, 5, 4, 3], [1, 3, 6, 0]])
    many = torch.randint(1, 7, (1, 60)), torch.randint(1, 7, (1, 70))
    # With equal vocabularies, too, the embeddings are not tied.
    asked = [("pre", 2, 11, src, tgt), ("post", 1, 7, *many)]
    if thorough:
        asked += [("post", 3, 11, src, tgt)]
    for norm, num_layers, tgt_vocab_size, src, tgt in asked:
        # The mask hides padding and one token: a model must use it, and cannot compute it from src.
        src_mask = padding_mask(src, 0) & padding_mask(src, 6)
        inputs = {"src": src, "src_mask": src_mask, "tgt": tgt}
        made = {"src_vocab_size": 7, "tgt_vocab_size": tgt_vocab_size, "d_model": 6, "num_heads": 2}
        made |= {"d_ff": 5, "num_layers": num_layers, "dropout": 0.1, "norm": norm}
        yield case(Transformer, made, inputs)


SUM, CODES = "root * vectors + codes", "sinusoids(length, d_model)"
INPUT = Question(
    InputEmbedding,
    {"the output of InputEmbedding": ""},
    input_cases,
    {
        "the embeddings are not multiplied by √d_model.": f"{SUM} -> vectors + codes",
        "embeddings and positional encodings are both multiplied by √d_model. Multiply only the "
        "embeddings.": f"{SUM} -> root * (vectors + codes)",
        "the positional encodings are multiplied by √d_model instead of the embeddings.":
            f"{SUM} -> vectors + root * codes",
        "the embeddings are multiplied by d_model instead of its square root.":
            "math.sqrt(d_model) -> d_model",
        "the embeddings are divided by √d_model. Multiply them by it.":
            f"{SUM} -> vectors / root + codes",
        "the positional encodings are missing.": f"{SUM} -> root * vectors",
        "the embeddings are missing: the output contains only the positional encodings.":
            f"{SUM} -> codes.expand_as(vectors)",
        "all tokens of a sentence get the same positional encoding. The positions are along the "
        "second axis of the ids, not along the batch.":
            f"{CODES} -> sinusoids(len(ids), d_model).unsqueeze(1)",
        "the positions begin at 1. The first token has position 0, the first row of sinusoids.":
            f"{CODES} -> sinusoids(length + 1, d_model)[1:]",
    },
    named=True,
    either_precision=True,
)  # fmt: skip

UNSEEN = {
    "encoder": "x, src_mask) -> x, None)",
    "decoder": "tgt_mask, src_mask) -> tgt_mask, None)",
}
MODEL = Question(
    Transformer,
    {"the logits of Transformer": ""},
    model_cases,
    {
        "a target position depends on later tokens: the self-attention of the decoder needs a "
        "causal mask.": stacked(decoder="causal_mask(tgt.size(1)) -> None"),
        "the encoder attends to padding: pass src_mask to its layers.":
            stacked(encoder=UNSEEN["encoder"]),
        "the decoder attends to padding of the source: pass src_mask to its layers.":
            stacked(decoder=UNSEEN["decoder"]),
        "src_mask is not used: encoder and decoder attend to padding of the source.":
            stacked(**UNSEEN),
        "last_norm is not used. With pre-norm, the output of the last layer of each stack still "
        "has to be normalised.": in_stacks("self.last_norm(x) -> x"),
        "only one layer of a stack is applied.": [
            *in_stacks("in self.layers: -> in self.layers[:1]:"),
            *in_stacks("in self.layers: -> in self.layers[-1:]:"),
        ],
        "the layers of a stack are applied in reverse order.":
            in_stacks("in self.layers: -> in self.layers[::-1]:"),
        "each decoder layer attends to the output of the encoder layer with the same index. All "
        "decoder layers attend to the output of the last encoder layer.":
            "self.decoder(tgt, memory, src_mask) -> layer_by_layer(self, src, src_mask, tgt)",
        "the output contains probabilities or their logarithms. Return the logits of the output "
        "layer; the loss or the search applies the softmax.": [
            "self.output(outputs) -> self.output(outputs).softmax(dim=-1)",
            "self.output(outputs) -> self.output(outputs).log_softmax(dim=-1)",
        ],
    },
    named=True,
    either_precision=True,
)  # fmt: skip


# Part 5


def sizes(state):
    source = state["encoder.input.embedding.table.weight"]
    target = state["decoder.input.embedding.table.weight"]
    output = state["output.weight"]
    inner = state["encoder.layers.0.feed_forward.inner.weight"]
    shared = torch.equal(source, target) and torch.equal(source, output)
    layers = {name.split(".")[2] for name in state if name.startswith("encoder.layers.")}
    parameters = sum(tensor.numel() for tensor in state.values())
    copies = 2 if shared else 0
    return {
        "src_vocab_size": len(source),
        "tgt_vocab_size": len(target),
        "d_model": source.size(1),
        "d_ff": len(inner),
        "num_layers": len(layers),
        "norm": "pre" if "encoder.last_norm.gain" in state else "post",
        "shared": shared,
        "parameters": parameters - copies * source.numel(),
    }


def deepest(budget, vocab_size, d_model, d_ff, norm):
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm_size = 2 * d_model
    both_layers = 3 * attention + 2 * feed_forward + 5 * norm_size
    last_norms = 2 * norm_size if norm == "pre" else 0
    left = budget - vocab_size * d_model - last_norms
    layers = left // both_layers
    return max(0, layers)


def of_unlike(state: dict[str, Tensor]) -> int:
    """Return the number of parameters, with tensors of equal values counted once."""
    kinds = {(tensor.shape, tuple(tensor.flatten().tolist())) for tensor in state.values()}
    return sum(shape.numel() for shape, _ in kinds)


def count(num_layers: int, vocab_size: int, d_model: int, d_ff: int, norm: str) -> int:
    """Return the number of parameters of a Transformer with one shared embedding matrix."""
    linear = 12 * d_model * (d_model + 1) + 2 * (2 * d_model * d_ff + d_model + d_ff)
    norms = 5 * num_layers + 2 * (norm == "pre")
    return vocab_size * d_model + num_layers * linear + norms * 2 * d_model


def sizes_cases(thorough: bool) -> Iterator[Case]:
    models = [
        (5, 7, 4, 6, 1, "pre", False), (5, 7, 4, 3, 2, "post", False),
        (7, 7, 4, 6, 2, "pre", True), (7, 7, 2, 3, 2, "post", False),
        (5, 7, 2, 3, 12, "pre", False),
    ]  # fmt: skip
    if thorough:
        models += [(11, 11, 6, 5, 3, "post", True), (3, 13, 2, 7, 13, "post", False)]
    for place, (src, tgt, d_model, d_ff, num_layers, norm, shared) in enumerate(models):
        config = TransformerConfig(
            src_vocab_size=src, tgt_vocab_size=tgt, d_model=d_model, num_heads=2, d_ff=d_ff,
            num_layers=num_layers, norm=norm, share_embeddings=shared,
        )  # fmt: skip
        model = OfThePackage(config)
        yield Case({"state": state_of(shaken(model) if place else model)})  # first as initialised


def deepest_cases(thorough: bool) -> Iterator[Case]:
    asked = [(7, 4, 5, "pre"), (7, 4, 5, "post"), (37000, 512, 2048, "post")]
    if thorough:
        asked += [(101, 8, 3, "pre"), (3, 2, 31, "post")]
    for model in asked:
        counts = [count(layers, *model) for layers in range(9)]
        near = [counts[n] + step * model[1] for n in (1, 2) for step in range(-15, 15, 2)]
        for budget in sorted({1, *near, *counts, *(each - 1 for each in counts)}):
            most = max(0, sum(each <= budget for each in counts) - 1)
            yield deepest_case(budget, model, most)
    # Of so many parameters, one too few for layer 1000, the quotient in 64 bits is 1000.
    vast = (101, 10**6, 4 * 10**6, "pre")
    yield deepest_case(count(1000, *vast) - 1, vast, 999)


def deepest_case(budget: int, model: tuple[int, int, int, str], most: int) -> Case:
    names = ("budget", "vocab_size", "d_model", "d_ff", "norm")
    general = (
        f"this is not the expected number of layers. With {most} in each stack, a model has "
        f"{count(most, *model):,} parameters; with {most + 1}, it has {count(most + 1, *model):,}."
    )
    return Case(dict(zip(names, (budget, *model), strict=True)), general=general)


EQUAL = "torch.equal(source, target) and torch.equal(source, output)"
SAME_SHAPE = "source.shape == target.shape"
SIZES = Question(
    sizes,
    {"the output of sizes": ""},
    sizes_cases,
    {
        "a shared embedding matrix is counted once for each of its three names. Count it once: "
        "source, target and output use the same parameters.": "= 2 if shared -> = 0 if shared",
        "a shared embedding matrix has three names but counts once, so two copies must be "
        "subtracted, not one.": "= 2 if shared -> = 1 if shared",
        "tensors with equal values are counted once. This holds only for the shared embedding "
        "matrix; two gains that are all 1 are separate parameters.":
            "parameters - copies * source.numel() -> of_unlike(state)",
        "num_layers counts the layers of both stacks. It is the number in each stack.":
            "len(layers) -> 2 * len(layers)",
        "num_layers is too small by 1: the layers are numbered from 0.":
            "len(layers) -> len(layers) - 1",
        "num_layers is wrong for more than 10 layers. Check whether indices are compared as text, "
        "where '9' comes after '10', or whether only one digit is read.": [
            "len(layers) -> int(max(layers)) + 1",
            "len(layers) -> len({each[0] for each in layers})",
        ],
        "d_ff and d_model are exchanged. The weight of nn.Linear has the shape (number of outputs, "
        "number of inputs).": exchanged("source.size(1)", "len(inner)"),
        "d_ff is the number of inputs of the inner layer. It is the number of outputs, the first "
        "axis of the weight.": "len(inner) -> inner.size(1)",
        "the two vocabulary sizes are exchanged: the encoder reads the source.": exchanged(
            "len(source)", "len(target)"
        ),
        "norm is always 'pre'. Layers of both kinds contain normalisations; only a pre-norm model "
        "has one after its last layer.": 'else "post" -> else "pre"',
        "norm is 'post' for a pre-norm model. Only a pre-norm model has a last_norm, with the "
        "parameters encoder.last_norm.gain and encoder.last_norm.shift.": [
            exchanged('"pre"', '"post"'),
            '"pre" if -> "post" if',
        ],
        "embedding matrices of the same shape need not be shared. Compare their values.": [
            f"{EQUAL} -> {SAME_SHAPE}",
            f'"shared": shared -> "shared": {SAME_SHAPE}',
        ],
        "the embedding matrix is shared here: source, target and output have the same values, so "
        "`shared` is True.": [f"{EQUAL} -> False", '"shared": shared -> "shared": False'],
    },
    named=True,
)  # fmt: skip

ROUNDED, DEPTH = "left // both_layers", "return max(0, layers)"
NO_BIASES = "d_model * d_model + d_model -> d_model * d_model", " + d_ff + d_model -> "
DEEPEST = Question(
    deepest,
    {"the output of deepest": ""},
    deepest_cases,
    {
        "the embedding matrix is shared by source, target and output, so it counts once.": [
            "vocab_size * d_model -> 3 * vocab_size * d_model",
            "vocab_size * d_model -> 2 * vocab_size * d_model",
        ],
        "the embedding matrix is not counted.": "vocab_size * d_model -> 0",
        "a decoder layer has two attentions, an encoder layer one.": "= 3 * -> = 2 *",
        "an attention has four matrices: for queries, keys and values, and W^O.": "= 4 * -> = 3 *",
        "the biases of the attentions are not counted.": NO_BIASES[0],
        "the biases of the feed-forward networks are not counted.": NO_BIASES[1],
        "no bias is counted. All linear layers have biases except the output layer.": NO_BIASES,
        "the layer normalisations are not counted. Each has a gain and a shift with d_model "
        "entries.": ["5 * norm_size -> 0", "norm_size = 2 * d_model -> norm_size = 0"],
        "a layer normalisation has 2 · d_model parameters: a gain and a shift.":
            "norm_size = 2 * d_model -> norm_size = d_model",
        "a decoder layer has three layer normalisations, one per sub-layer; an encoder layer has "
        "two.": ["5 * norm_size -> 4 * norm_size", "5 * norm_size -> 6 * norm_size"],
        "a pre-norm model has one more layer normalisation after the last layer of each stack.": [
            "2 * norm_size if -> 0 if",
            "2 * norm_size if -> norm_size if",
        ],
        "a post-norm model has no layer normalisation after the last layer; only pre-norm does.":
            "else 0 -> else 2 * norm_size",
        "the answer counts the layers of both stacks together. Return the number in each stack.":
            f"{DEPTH} -> return max(0, 2 * layers)",
        "the number of layers is rounded up. A layer that fits only in part does not fit: round "
        "down.": [
            f"{ROUNDED} -> math.ceil(left / both_layers)",
            f"{ROUNDED} -> round(left / both_layers)",
        ],
        "the quotient is rounded as a floating-point number. Integers are divided exactly by //.":
            f"{ROUNDED} -> int(left / both_layers)",
        "the answer is one layer too many. Return the largest number that fits the budget.":
            f"{DEPTH} -> return max(0, layers + 1)",
        "a budget that is used completely, to the last parameter, is sufficient.":
            f"{ROUNDED} -> math.ceil(left / both_layers) - 1",
        "if the embedding matrix alone exceeds the budget, return 0, not a negative number.":
            f"{DEPTH} -> return layers",
    },
    named=True,
    in_all_cases=True,
)  # fmt: skip


# Part 6


def from_pytorch(state):
    renamed = {
        "self_attn": "self_attention",
        "multihead_attn": "cross_attention",
        "out_proj": "output_projection",
        "linear1": "feed_forward.inner",
        "linear2": "feed_forward.outer",
    }
    sublayers = {
        "encoder": ["attention", "feed_forward"],
        "decoder": ["self_attention", "cross_attention", "feed_forward"],
    }
    found = {}
    for name, tensor in state.items():
        stack = name.split(".")[0]
        for theirs, ours in renamed.items():
            name = name.replace(theirs, ours)
        if "norm" in name:
            for number, sublayer in enumerate(sublayers[stack], start=1):
                name = name.replace(f".norm{number}.", f".around_{sublayer}.layer_norm.")
            name = name.replace(".norm.", ".last_norm.")
            name = name.replace(".weight", ".gain").replace(".bias", ".shift")
        if "in_proj_" in name:
            place, kind = name.split("in_proj_")
            parts = ("query", "key", "value")
            for part, rows in zip(parts, tensor.chunk(3), strict=True):
                found[f"{place}{part}_projection.{kind}"] = rows
        else:
            found[name] = tensor
    return found


def masks_for_pytorch(src_mask, tgt_len):
    tgt_mask = ~causal_mask(tgt_len)[0]
    padding = ~src_mask.squeeze(1)
    return tgt_mask, padding


def state_cases(thorough: bool) -> Iterator[Case]:
    asked = [(6, 2, 4, 1), (4, 2, 7, 2), *[(6, 3, 6, 3)] * thorough]
    states = [state_of(checks.pytorch_transformer(*sizes)) for sizes in asked]
    return cases_of(["state"], zip(states))


def mask_cases(thorough: bool) -> Iterator[Case]:
    asked = [([3, 2], 3), ([2, 4, 1], 5), ([4], 1), *[([3, 3], 7)] * thorough]
    for lengths, tgt_len in asked:
        real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
        yield Case({"src_mask": real.unsqueeze(1), "tgt_len": tgt_len})


STATE = Question(from_pytorch, {"the parameters": ""}, state_cases)

CAUSAL, HIDDEN = "~causal_mask(tgt_len)[0]", "In PyTorch's modules, True means hidden"
MASKS = Question(
    masks_for_pytorch,
    {"tgt_mask": "", "src_key_padding_mask": ""},
    mask_cases,
    {
        f"tgt_mask is True where a position may attend. {HIDDEN}.":
            f"{CAUSAL} -> causal_mask(tgt_len)[0]",
        "tgt_mask hides earlier positions and shows later ones. Hide the later ones.":
            f"{CAUSAL} -> {CAUSAL}.T",
        "tgt_mask hides each position from itself. The first position then has nothing to attend "
        "to, and its output is NaN.": f"{CAUSAL} -> causal_mask(tgt_len)[0].T",
        "tgt_mask hides nothing.": f"{CAUSAL} -> {CAUSAL} & False",
        f"src_key_padding_mask is True at real tokens. {HIDDEN}, so it must be True at padding.":
            "~src_mask -> src_mask",
    },
    named=True,
    either_precision=True,
    tidy=lambda masks: tuple(each.float() for each in masks),
)  # fmt: skip


PARTS = {
    "norm": [NORM],
    "residual": [FEED, RESIDUAL],
    "layers": [ENCODER, DECODER],
    "transformer": [INPUT, MODEL],
    "read_off": [SIZES, DEEPEST],
    "from_pytorch": [STATE, MASKS],
}
"""The questions of each check, in the order of its arguments."""
