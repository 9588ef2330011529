"""Checks of the assignment on the whole Transformer: its parts, their assembly, its parameters.

Parts 1 to 4 rebuild code of the package with the same names of parameters. Their checks load
reference parameters into the student's module and compare its outputs. Finally the model gets the
parameters of the trained Transformer of the package, and must give the same translations. The
answers to parts 5 and 6 are computed here.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import causal_mask, padding_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import sinusoids
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    known,
    once_solved,
    plain_number,
    plain_tensor,
    show,
)
from attentively.checks.building_the_transformer.layer_functions import (
    Step,
    Sublayer,
    decoded,
    encoded,
    feed,
    no_residual,
    on_the_other_side,
    right_step,
    stepped,
)
from attentively.checks.building_the_transformer.pytorch_names import (
    expected_weights,
    hides,
    mistaken,
    nearest,
    pytorch_transformer,
)
from attentively.checks.student_modules import (
    Assembled,
    State,
    built,
    expect_all_dropped,
    expect_learned,
    run,
    shaken,
    sizes_of,
    state_of,
    translator,
)
from attentively.checks.trained_translator import TRANSFORMER
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.layers.feed_forward import FeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.layers.transformer_layers import DecoderLayer, EncoderLayer, Norm, Residual
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.transformer import Transformer, TransformerConfig
from attentively.tokens.vocabulary import PAD_ID, target_ids

__all__ = [
    "from_pytorch",
    "layers",
    "norm",
    "once_solved",
    "progress",
    "pytorch_transformer",
    "read_off",
    "ready",
    "residual",
    "transformer",
    "translator",
]

Inputs = Mapping[str, Any]
NORMS: tuple[Norm, Norm] = ("pre", "post")

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its trained Transformer and these checks work."""
    _parts.explain_undefined_names()
    count = sum(each.numel() for each in load_pretrained(TRANSFORMER).model.parameters())
    print(f"PyTorch {torch.__version__}. The trained Transformer has {count:,} parameters. Ready.")


def _expect_earlier_parts(made: nn.Module) -> None:
    """Name a mistake of part 1 or 2 in a module that is built from those parts."""
    for name, module in made.named_modules():
        state, kind = state_of(module), name.rpartition(".")[2]
        if kind in ("layer_norm", "last_norm") and "gain" in state:
            number, title, size = 1, "layer normalisation", len(state["gain"])
            expected = partial(_normalised(), state, 1e-5)
        elif kind == "feed_forward":
            number, title, size = 2, "feed-forward network", state["inner.weight"].size(1)
            expected = partial(feed, state)
        else:
            continue
        x = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(0))
        try:
            got = module(x)
        except Exception:
            continue  # the check that calls the whole module reports it
        if type(got) is not Tensor or not torch.allclose(got, expected(x), rtol=1e-3, atol=1e-4):
            raise CheckFailed(
                f"  {type(made).__name__}: `{name}`, the {title} of part {number}, gives a wrong "
                f"output. Correct part {number} and run its cell again, then this one."
            )


def _run(made: nn.Module, inputs: Inputs, what: str, words: str, cause: str) -> object:
    """Run a module; put the likely cause before an error whose message contains these words."""
    try:
        return run(made, inputs, what)
    except CheckFailed as error:
        first = str(error).strip().split("\n")[0]
        if first.startswith("Your code raises") and words in first:
            raise CheckFailed(f"  {type(made).__name__}: {cause}\n{error}") from None
        raise


# Part 1


def _normalised(
    *,
    over: Callable[[Tensor], tuple[int, ...]] = lambda x: (x.dim() - 1,),
    correction: int = 0,
    centre: bool = True,
    divide: Callable[[Tensor, float], Tensor] = lambda variance, eps: (variance + eps).sqrt(),
    last: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, gain, shift: gain * x + shift,
) -> Callable[[State, float, Tensor], Tensor]:
    """Return layer normalisation; each keyword is one step, which a mistake may have changed."""

    def answer(state: State, eps: float, x: Tensor) -> Tensor:
        axes = over(x)
        mean = x.mean(dim=axes, keepdim=True)
        variance = x.var(dim=axes, correction=correction, keepdim=True)
        if not centre:
            variance, mean = x.square().mean(dim=axes, keepdim=True), torch.zeros_like(mean)
        return last((x - mean) / divide(variance, eps), state["gain"], state["shift"])

    return answer


_NORM_WAYS: dict[str, list[Callable[[State, float, Tensor], Tensor]]] = {
    "the variance is divided by d_model - 1, as torch.var does by default. Divide by d_model: use "
    "the mean of the squares, or correction=0.": [
        _normalised(correction=1),
        _normalised(correction=1, divide=lambda v, eps: v.sqrt() + eps),
    ],
    "eps is added to the standard deviation. Add it to the variance, before the root.": [
        _normalised(divide=lambda v, eps: v.sqrt() + eps)
    ],
    "eps is not used. It prevents a division by 0 for a vector of equal entries.": [
        _normalised(divide=lambda v, eps: v.sqrt())
    ],
    "the argument eps is not added to the variance. Check whether your code always uses 1e-5, or "
    "uses eps as a lower bound of the variance.": [
        _normalised(divide=lambda v, eps: (v + 1e-5).sqrt())
    ],
    "the variance is too large. It is the mean of (x - μ)², not their sum, and not the mean of x² "
    "minus μ (without the square of μ).": [_normalised(correction=3)],  # of 4 entries
    "the square root is missing: divide by the root of the variance.": [
        _normalised(divide=lambda v, eps: v + eps)
    ],
    "the mean is not subtracted.": [_normalised(centre=False)],
    "mean and variance are computed over several vectors of a sentence or a batch. Each vector has "
    "its own mean and variance: compute them over the last axis only.": [
        _normalised(over=lambda x: tuple(range(x.dim()))),
        _normalised(over=lambda x: tuple(range(1, x.dim()))),
        _normalised(over=lambda x: tuple(range(x.dim() - 1))),
        _normalised(over=lambda x: (0,)),
        _normalised(over=lambda x: (max(x.dim() - 2, 0),)),
    ],
    "the gain is not used.": [_normalised(last=lambda x, gain, shift: x + shift)],
    "the shift is not used.": [_normalised(last=lambda x, gain, shift: gain * x)],
    "neither the gain nor the shift is used.": [_normalised(last=lambda x, gain, shift: x)],
    "the shift is added before the multiplication by the gain. First multiply by the gain, then "
    "add the shift.": [_normalised(last=lambda x, gain, shift: gain * (x + shift))],
    "gain and shift are exchanged.": [_normalised(last=lambda x, gain, shift: shift * x + gain)],
    "the vector is multiplied by 1 + gain instead of the gain. The gain is initialised with "
    "ones.": [_normalised(last=lambda x, gain, shift: (1 + gain) * x + shift)],
}


@_parts.part(
    "layer normalisation",
    "LayerNorm",
    rebuilds=("attentively.layers.layer_norm:LayerNorm",),
    refuses=(
        "attentively.layers.layer_norm:layer_norm",
        "torch.nn:LayerNorm",
        "torch.nn.functional:layer_norm",
        "torch:layer_norm",
    ),
)
def norm(candidate: object, thorough: bool = False) -> None:
    """Check layer normalisation: vectors by hand, other sizes, its initial parameters."""
    by_hand = torch.tensor([[1.0, 3.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    asked = [(by_hand, 0.5), (torch.randn(5), 0.1), (3 + 2 * torch.randn(2, 3, 5), 1e-5)]
    asked += [(0.02 * torch.randn(3, 2, 7), 1e-5)]
    if thorough:
        asked += [(torch.randn(2, 5, 3, 11), 0.01), (100 * torch.randn(1, 1, 2), 1e-5)]
    for x, eps in asked:
        state = state_of(shaken(LayerNorm(x.size(-1))))
        made = built(candidate, {"d_model": x.size(-1), "eps": eps}, state)
        twins = [
            Twin(f"LayerNorm: {said}", partial(way, state, eps))
            for said, ways in _NORM_WAYS.items()
            for way in ways
        ]
        inputs = {"x": x}
        expect_equal(
            _run(made, inputs, "The output of LayerNorm", "The size of tensor",
                 "mean and variance need the shape (..., 1). Compute them with keepdim=True."),
            _normalised()(state, eps, x),
            f"the output of LayerNorm with eps = {eps:g}", inputs, twins,
        )  # fmt: skip
    # With two entries, the output hardly depends on their sizes: no gradient would reach them.
    made = built(candidate, {"d_model": 5}, state_of(shaken(LayerNorm(5))))
    expect_learned(made, {"x": torch.randn(2, 3, 5)}, ["x"])
    initial = cast(nn.Module, call(candidate, {"d_model": 3})).state_dict()
    for name, expected in (("gain", torch.ones(3)), ("shift", torch.zeros(3))):
        expect_equal(initial[name], expected, f"the initial {name}", {"d_model": 3})


# Part 2


class _Sublayer:
    """A sub-layer that a message can show."""

    def __init__(self, d_model: int) -> None:
        self.matrix = torch.randn(d_model, d_model)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.matrix) + 0.5

    def __repr__(self) -> str:
        return "a sub-layer, a function of a tensor with the shape of x"


_FEED_WAYS: dict[str, list[Callable[[State, Tensor], Tensor]]] = {
    "the ReLU max(0, x) between the two layers is missing. Without it, the two linear layers "
    "compute one linear function.":
        [partial(feed, between=lambda x: x)],
    "a second ReLU is applied after the outer layer. There is only one, between the two layers.":
        [partial(feed, after=torch.relu)],
    "the ReLU is applied after the outer layer. Apply it between the two layers.":
        [partial(feed, between=lambda x: x, after=torch.relu)],
    "the ReLU is applied before the inner layer. Apply it between the two layers.":
        [partial(feed, before=torch.relu, between=lambda x: x), partial(feed, before=torch.relu)],
    "the activation function is not the ReLU max(0, x) of the paper.":
        [partial(feed, between=each) for each in (F.gelu, torch.tanh, torch.sigmoid, F.silu)],
    "x is added to the output. The residual connection is not part of this module.":
        [lambda state, x: x + feed(state, x)],
}  # fmt: skip

_STEP_WAYS: dict[str, Step] = {
    "the residual connection is missing: add the input of the sub-layer to its output.":
        no_residual,
    "the normalisation is in the wrong position. Pre-norm: x + f(LayerNorm(x)). Post-norm: "
    "LayerNorm(x + f(x)).":
        on_the_other_side,
    "the residual connection begins after the normalisation. Add x itself, without "
    "normalisation.":
        lambda normed, say, norm, x: normed(x) + say(normed(x)),
    "the output of the sub-layer is normalised. Post-norm normalises the sum, pre-norm the input "
    "of the sub-layer.":
        lambda normed, say, norm, x: x + normed(say(x)),
    "both the input of the sub-layer and the sum are normalised. Pre-norm normalises only the "
    "input, post-norm only the sum.":
        lambda normed, say, norm, x: normed(x + say(normed(x))),
    "only the residual connection is normalised. Post-norm normalises the sum, pre-norm the input "
    "of the sub-layer.":
        lambda normed, say, norm, x: normed(x) + say(x),
    "the layer normalisation is not used.":
        lambda normed, say, norm, x: x + say(x),
}  # fmt: skip


@_parts.part(
    "feed-forward and residual",
    "FeedForward",
    "Residual",
    rebuilds=(
        "attentively.layers.feed_forward:FeedForward",
        "attentively.layers.transformer_layers:Residual",
    ),
    refuses=("attentively.models.plain_transformer:Residual",),
)
def residual(feed_forward: object, connection: object, thorough: bool = False) -> None:
    """Check the feed-forward network, and the residual connection with its norm and dropout."""
    sizes = [(2, 3, (1, 2)), (5, 11, (2, 3)), (7, 2, (3,))]
    if thorough:
        sizes += [(13, 4, (2, 5)), (6, 24, (2, 1, 3))]
    inputs: dict[str, Any]
    for d_model, d_ff, lead in sizes:
        state = state_of(shaken(FeedForward(d_model, d_ff)))
        made = built(feed_forward, {"d_model": d_model, "d_ff": d_ff}, state)
        inputs = {"x": torch.randn(*lead, d_model)}
        feeds = [Twin(f"FeedForward: {said}", partial(way, state))
                 for said, ways in _FEED_WAYS.items() for way in ways]  # fmt: skip
        answer = run(made, inputs, "The output of FeedForward")
        expected = feed(state, **inputs)
        expect_equal(answer, expected, "the output of FeedForward", inputs, feeds)
        what = "the output of FeedForward in training"
        expect_equal(run(made.train(), inputs, what.capitalize()), expected, what, inputs)
        # Of few vectors max(0, x) may let nothing through, and then no gradient either.
        expect_learned(made, {"x": torch.randn(50, d_model)})
    for norm in NORMS:
        for d_model, length in [(3, 2), (5, 4), *[(11, 3)] * thorough]:
            state = state_of(shaken(Residual(d_model)))
            asked = {"d_model": d_model, "dropout": 0.5, "norm": norm}
            made = built(connection, asked, state)
            _expect_earlier_parts(made)
            inputs = {"x": torch.randn(2, length, d_model), "sublayer": _Sublayer(d_model)}
            what = f'the output of Residual with norm="{norm}"'
            expect_equal(
                run(made, inputs, what.capitalize()),
                stepped(right_step, state, norm, **inputs), what, inputs,
                [Twin(f"Residual: {said}", partial(stepped, way, state, norm))
                 for said, way in _STEP_WAYS.items()],
            )  # fmt: skip
            expect_learned(made, inputs, ["x"])
            _expect_dropout(connection, asked, state, norm, inputs)
    _expect_scaled_dropout(connection)


def _expect_scaled_dropout(connection: object) -> None:
    """Drop some entries of the sub-layer's output, pre-norm: the others are divided by 1 - p."""
    for dropout, enlarged in ((0.5, 2.0), (0.2, 1.25)):
        asked: dict[str, Any] = {"d_model": 20, "dropout": dropout, "norm": "pre"}
        made = built(connection, asked, state_of(Residual(20))).train()
        inputs = {"x": torch.randn(5, 10, 20), "sublayer": torch.ones_like}
        said = plain_tensor(call(made, inputs), "the output of Residual in training", inputs)
        said = said - cast(Tensor, inputs["x"])
        dropped = said.abs() < 0.1
        share, rest = float(dropped.float().mean()), said[~dropped]
        if abs(share - dropout) > 0.1:
            raise CheckFailed(
                f"  Residual: in training with dropout={dropout:g}, a share of {share:.2f} of the "
                f"sub-layer's output is 0; it should be about {dropout:g}.\n{describe(inputs)}"
            )
        if not torch.allclose(rest, torch.full_like(rest, enlarged), 1e-3, 1e-3):
            raise CheckFailed(
                f"  Residual: in training with dropout={dropout:g}, entries that are not dropped "
                f"are divided by 1 - {dropout:g}, so that the mean does not change: 1 becomes "
                f"{enlarged:g}. nn.Dropout does this.\n{describe(inputs)}\n"
                f"  got         {show(rest[:4])} ..."
            )


def _expect_dropout(
    connection: object, asked: Inputs, state: State, norm: Norm, inputs: Inputs
) -> None:
    """Drop everything: the sub-layer's output becomes 0, and x stays."""
    made = built(connection, {**asked, "dropout": 1.0}, state).train()
    read: list[Tensor] = []

    def nothing(x: Tensor) -> Tensor:
        read.append(x.detach())
        return torch.zeros_like(x)

    def way(step: Step, say: Callable[[Sublayer], Sublayer]) -> Callable[..., Tensor]:
        return lambda x, sublayer: stepped(step, state, norm, x, say(sublayer))

    everything = (
        known(
            "Residual: dropout is applied to the sum, and therefore to the residual connection "
            "too. Apply it to the output of the sub-layer, before the addition.",
            lambda x, sublayer: torch.zeros_like(x),
            lambda x, sublayer: state["layer_norm.shift"].expand_as(x),
        )
        + known(
            "Residual: dropout is applied to the input of the sub-layer. Apply it to its output, "
            "before the addition.",
            way(right_step, lambda sublayer: lambda x: sublayer(torch.zeros_like(x))),
        )
        + known("Residual: dropout is missing in training.", way(right_step, lambda say: say))
    )
    what = f'the output of Residual in training with dropout=1 and norm="{norm}"'
    expected = stepped(right_step, state, norm, inputs["x"], nothing)
    expect_equal(run(made, inputs, what.capitalize()), expected, what, inputs, everything)
    run(made, {**inputs, "sublayer": nothing}, what.capitalize())
    twice = Twin(
        "Residual: dropout is also applied to the input of the sub-layer.", lambda x, _: 0 * x
    )
    expect_equal(read[-1], read[0], "the input of the sub-layer in training", inputs, [twice])


# Part 3


_PAIR_RETURNED = (
    "tuple",
    "an attention returns a tuple, (context, weights), and the sub-layer must return only the "
    "context: take [0].",
)


_ENCODER_WAYS: dict[str, dict[str, Any]] = {
    **{said: {"step": step} for said, step in _STEP_WAYS.items()},
    "the mask is not used.": {"masked": False},
    "around_attention and around_feed_forward are exchanged, and with them their layer "
    "normalisations.":
        {"names": ("around_feed_forward", "around_attention")},
    "around_attention is used for both sub-layers. Each sub-layer has its own residual connection "
    "with its own layer normalisation.":
        {"names": ("around_attention", "around_attention")},
    "the feed-forward network is applied first. Self-attention comes first.": {"order": "fa"},
    "the feed-forward network is missing.": {"order": "a"},
    "the attention is missing.": {"order": "f"},
    "the queries are normalised, but keys and values are not. In self-attention all three are the "
    "tensor that the residual connection passes to the sub-layer.": {"keys": "plain"},
    "self-attention reads the input x of the layer. It must read the tensor that the residual "
    "connection passes to the sub-layer: the h of `lambda h:`.": {"keys": "all plain"},
}  # fmt: skip


_DECODER_WAYS: dict[str, list[dict[str, Any]]] = {
    **{said: [{"step": step}] for said, step in _STEP_WAYS.items()},
    "tgt_mask is not used: a target position attends to later positions.":
        [{"masks": "source"}],
    "src_mask is not used: the target attends to padding of the source.": [{"masks": "target"}],
    "neither mask is used.": [{"masks": "none"}],
    "the two masks are exchanged. The keys of self-attention are target positions, those of "
    "cross-attention are source positions.": [{"masks": "exchanged"}],
    "cross-attention uses tgt_mask. Its keys are the source positions, which are all known: use "
    "src_mask.": [{"masks": "target twice"}],
    "memory and target are exchanged in cross-attention. The queries come from the target, keys "
    "and values are the memory.": [{"look": "exchanged"}],
    "cross-attention attends to the target again. Its keys and values are the memory.":
        [{"look": "itself"}, {"look": "itself", "masks": "target twice"}],
    "the values of cross-attention come from the target. Keys and values are both the memory.":
        [{"look": "keys"}],
    "the keys of cross-attention come from the target. Keys and values are both the memory.":
        [{"look": "values"}],
    "the memory is normalised in the decoder layer. Use it without any change; the residual "
    "connection and its normalisation apply to the target.": [{"look": "normed"}],
    "an attention uses the input y of the layer as its queries. It must use the tensor that the "
    "residual connection passes to the sub-layer: the h of `lambda h:`.":
        [{"deaf": "s"}, {"deaf": "c"}, {"deaf": "sc"}],
    "cross-attention is applied before self-attention. Self-attention comes first.":
        [{"order": "csf"}],
    "the two attentions are exchanged: self_attention attends to the memory.":
        [{"swapped": True}],
    "cross-attention is missing: no information from the source reaches the target.":
        [{"order": "sf"}],
    "self-attention is missing: the target positions do not attend to each other.":
        [{"order": "cf"}],
    "the feed-forward network is missing.": [{"order": "sc"}],
}  # fmt: skip


def _layer(kind: type[nn.Module], d_model: int, heads: int, d_ff: int, norm: Norm) -> State:
    attentions = [MultiHeadAttention(d_model, heads) for _ in range(1 + (kind is DecoderLayer))]
    return state_of(
        shaken(kind(d_model, *attentions, FeedForward(d_model, d_ff), dropout=0.0, norm=norm))
    )


@_parts.part(
    "encoder and decoder layer",
    "EncoderLayer",
    "DecoderLayer",
    rebuilds=(
        "attentively.layers.transformer_layers:EncoderLayer",
        "attentively.layers.transformer_layers:DecoderLayer",
    ),
    refuses=(
        "attentively.models.plain_transformer:EncoderLayer",
        "attentively.models.plain_transformer:DecoderLayer",
        "torch.nn:TransformerEncoderLayer",
        "torch.nn:TransformerDecoderLayer",
    ),
)
def layers(encoder_layer: object, decoder_layer: object, thorough: bool = False) -> None:
    """Check an encoder and a decoder layer, pre- and post-norm, with and without masks."""
    sizes = [(4, 2, 3, 4, 4), (6, 3, 5, 5, 3), *[(10, 5, 7, 2, 5)] * thorough]
    for d_model, num_heads, d_ff, src_len, tgt_len in sizes:
        asked: dict[str, Any] = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}
        src_mask = torch.arange(src_len) < torch.tensor([[src_len], [src_len - 1]])
        masks = {"tgt_mask": causal_mask(tgt_len), "src_mask": src_mask.unsqueeze(1)}
        memory, y = torch.randn(2, src_len, d_model), torch.randn(2, tgt_len, d_model)
        for norm in NORMS:
            asked |= {"dropout": 0.1, "norm": norm}
            state = _layer(EncoderLayer, d_model, num_heads, d_ff, norm)
            made = built(encoder_layer, asked, state)
            _expect_earlier_parts(made)
            inputs: dict[str, Any]
            for inputs in ({"x": memory}, {"x": memory, "mask": masks["src_mask"]}):
                twins = [Twin(f"EncoderLayer: {said}",
                              partial(encoded, state, num_heads, norm, **way))
                         for said, way in _ENCODER_WAYS.items()]  # fmt: skip
                what = f'the output of EncoderLayer with norm="{norm}"'
                right = encoded(state, num_heads, norm, *inputs.values())
                got = _run(made, inputs, what.capitalize(), *_PAIR_RETURNED)
                expect_equal(got, right, what, inputs, twins)
            expect_learned(made, inputs, ["x"])
            if norm == "pre":
                dropped = built(encoder_layer, asked | {"dropout": 1.0}, state)
                expect_all_dropped("EncoderLayer", dropped, inputs, memory)
            state = _layer(DecoderLayer, d_model, num_heads, d_ff, norm)
            made = built(decoder_layer, asked, state)
            _expect_earlier_parts(made)
            for inputs in ({"y": y, "memory": memory}, {"y": y, "memory": memory, **masks}):
                twins = [Twin(f"DecoderLayer: {said}",
                              partial(decoded, state, num_heads, norm, **way))
                         for said, ways in _DECODER_WAYS.items() for way in ways]  # fmt: skip
                what = f'the output of DecoderLayer with norm="{norm}"'
                right = decoded(state, num_heads, norm, *inputs.values())
                got = _run(made, inputs, what.capitalize(), *_PAIR_RETURNED)
                expect_equal(got, right, what, inputs, twins)
            expect_learned(made, inputs, ["y", "memory"])
            if norm == "pre":
                dropped = built(decoder_layer, asked | {"dropout": 1.0}, state)
                expect_all_dropped("DecoderLayer", dropped, inputs, y)


# Part 4


def _embedded(state: State, ids: Tensor, factor: float | None = None) -> tuple[Tensor, Tensor]:
    """Return the scaled embeddings and the positional encodings, before they are added."""
    table = state["embedding.table.weight"]
    d_model = table.size(1)
    words = (math.sqrt(d_model) if factor is None else factor) * table[ids]
    return words, sinusoids(ids.size(1), d_model).expand_as(words)


def _summed(factor: float | None = None, coded: float = 1.0) -> Callable[[State, Tensor], Tensor]:
    def answer(state: State, ids: Tensor) -> Tensor:
        words, codes = _embedded(state, ids, factor)
        return words + coded * codes

    return answer


def _root(state: State) -> float:
    return math.sqrt(state["embedding.table.weight"].size(1))


_INPUT_WAYS: dict[str, Callable[[State, Tensor], Tensor]] = {
    "the embeddings are not multiplied by √d_model.": _summed(1.0),
    "embeddings and positional encodings are both multiplied by √d_model. Multiply only the "
    "embeddings.":
        lambda state, ids: _root(state) * _summed(1.0)(state, ids),
    "the positional encodings are multiplied by √d_model instead of the embeddings.":
        lambda state, ids: _summed(1.0, _root(state))(state, ids),
    "the embeddings are multiplied by d_model instead of its square root.":
        lambda state, ids: _summed(_root(state) ** 2)(state, ids),
    "the embeddings are divided by √d_model. Multiply them by it.":
        lambda state, ids: _summed(1 / _root(state))(state, ids),
    "the positional encodings are missing.": _summed(None, 0.0),
    "the embeddings are missing: the output contains only the positional encodings.":
        _summed(0.0),
    "all tokens of a sentence get the same positional encoding. The positions are along the "
    "second axis of the ids, not along the batch.":
        lambda state, ids: _embedded(state, ids)[0]
        + sinusoids(len(ids), state["embedding.table.weight"].size(1)).unsqueeze(1),
}  # fmt: skip

_Model = Callable[[Transformer, Tensor, Tensor, Tensor], Tensor]


def _logits(
    model: Transformer, src: Tensor, src_mask: Tensor, tgt: Tensor, *,
    tgt_mask: Tensor | None = None, seen: tuple[bool, bool] = (True, True), causal: bool = True,
) -> Tensor:  # fmt: skip
    """Return the logits of the next token at every position; the keywords make mistakes."""
    if causal and tgt_mask is None:
        tgt_mask = causal_mask(tgt.size(1))
    memory, _ = model.encoder(src, src_mask if seen[0] else None)
    outputs, _, _ = model.decoder(tgt, memory, tgt_mask, src_mask if seen[1] else None)
    return model.output(outputs)


def _edited(edit: Callable[[Transformer], None]) -> _Model:
    """Return the model with something in it changed."""

    def answer(model: Transformer, *given: Tensor) -> Tensor:
        changed = Transformer(model.config).eval()
        changed.load_state_dict(model.state_dict())
        edit(changed)
        return _logits(changed, *given)

    return answer


def _without_last_norm(*stacks: str) -> Callable[[Transformer], None]:
    def edit(model: Transformer) -> None:
        for stack in stacks:
            model.get_submodule(stack).last_norm = nn.Identity()

    return edit


def _with_layers(pick: Callable[[list[nn.Module]], list[nn.Module]], *stacks: str) -> _Model:
    def edit(model: Transformer) -> None:
        for name in stacks:
            stack = cast(Any, model.get_submodule(name))
            stack.layers = nn.ModuleList(pick(list(stack.layers)))

    return _edited(edit)


def _layer_by_layer(model: Transformer, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
    """Let each decoder layer attend to the encoder layer of the same index."""
    x, y = model.encoder.input(src), model.decoder.input(tgt)
    for encoder_layer, decoder_layer in zip(
        model.encoder.layers, model.decoder.layers, strict=True
    ):
        x, _ = encoder_layer(x, src_mask)
        y, _, _ = decoder_layer(y, model.encoder.last_norm(x), causal_mask(tgt.size(1)), src_mask)
    return model.output(model.decoder.last_norm(y))


_BOTH = ("encoder", "decoder")

_MODEL_WAYS: dict[str, list[_Model]] = {
    "a target position depends on later tokens: the self-attention of the decoder needs a causal "
    "mask.":
        [partial(_logits, causal=False)],
    "the encoder attends to padding: pass src_mask to its layers.":
        [partial(_logits, seen=(False, True))],
    "the decoder attends to padding of the source: pass src_mask to its layers.":
        [partial(_logits, seen=(True, False))],
    "src_mask is not used: encoder and decoder attend to padding of the source.":
        [partial(_logits, seen=(False, False))],
    "last_norm is not used. With pre-norm, the output of the last layer of each stack still has "
    "to be normalised.":
        [_edited(_without_last_norm(*stacks)) for stacks in (_BOTH, ("encoder",), ("decoder",))],
    "only one layer of a stack is applied.":
        [_with_layers(pick, *stacks)
         for pick in (lambda each: each[:1], lambda each: each[-1:])
         for stacks in (_BOTH, ("encoder",), ("decoder",))],
    "the layers of a stack are applied in reverse order.":
        [_with_layers(lambda each: each[::-1], *stacks)
         for stacks in (_BOTH, ("encoder",), ("decoder",))],
    "each decoder layer attends to the output of the encoder layer with the same index. All "
    "decoder layers attend to the output of the last encoder layer.": [_layer_by_layer],
    "the output contains probabilities or their logarithms. Return the logits of the output layer; "
    "the loss or the search applies the softmax.":
        [lambda *given: _logits(*given).softmax(-1),
         lambda *given: _logits(*given).log_softmax(-1)],
}  # fmt: skip


SENTENCES = [
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
    "the dogs eat the bread",
]


@_parts.part(
    "the whole Transformer",
    "InputEmbedding",
    "Transformer",
    rebuilds=(
        "attentively.models.plain_transformer:InputEmbedding",
        "attentively.models.plain_transformer:Encoder",
        "attentively.models.plain_transformer:Decoder",
        "attentively.models.plain_transformer:Transformer",
    ),
    refuses=(
        "attentively.models.transformer:InputEmbedding",
        "attentively.models.transformer:TokenEncoder",
        "attentively.models.transformer:TokenDecoder",
        "attentively.models.transformer:Transformer",
        "torch.nn:Transformer",
    ),
)
def transformer(input_embedding: object, candidate: object, thorough: bool = False) -> None:
    """Check the input embedding, the whole model, and its translations."""
    inputs: dict[str, Any]
    sizes = [(2, 3, 7, 4), (3, 5, 11, 6), *[(1, 9, 5, 2)] * thorough]
    for batch, length, vocab_size, d_model in sizes:
        table = torch.randn(vocab_size, d_model)
        state = {"embedding.table.weight": table}
        asked: dict[str, Any] = {"vocab_size": vocab_size, "d_model": d_model, "dropout": 0.5}
        made = built(input_embedding, asked, state)
        inputs = {"ids": torch.randint(1, vocab_size, (batch, length))}
        twins = [Twin(f"InputEmbedding: {said}", partial(way, state))
                 for said, way in _INPUT_WAYS.items()]  # fmt: skip
        what = "the output of InputEmbedding"
        expected = _summed()(state, inputs["ids"])
        expect_equal(run(made, inputs, what.capitalize()), expected, what, inputs, twins)
    made = built(input_embedding, {**asked, "dropout": 1.0}, state).train()
    what = "the output of InputEmbedding in training with dropout=1"
    expect_equal(
        run(made, inputs, what.capitalize()), torch.zeros_like(expected), what, inputs,
        [Twin("InputEmbedding: dropout is missing in training.", lambda ids: expected),
         Twin("InputEmbedding: dropout is applied to the embeddings only. Apply it to the sum.",
              lambda ids: _embedded(state, ids)[1])],
    )  # fmt: skip
    src = torch.tensor([[3, 4, 5, 2, 0], [4, 6, 3, 5, 2]])
    tgt = torch.tensor([[1, 5, 4, 3], [1, 3, 6, 0]])
    for norm, num_layers in [("pre", 2), ("post", 2), *[("pre", 3), ("post", 1)] * thorough]:
        config = TransformerConfig(
            src_vocab_size=7, tgt_vocab_size=11, d_model=6, num_heads=2, d_ff=5,
            num_layers=num_layers, dropout=0.1, norm=cast(Norm, norm),
        )  # fmt: skip
        model = cast(Transformer, shaken(Transformer(config)))
        made = built(candidate, sizes_of(config), state_of(model))
        _expect_earlier_parts(made)
        inputs = {"src": src, "src_mask": padding_mask(src, PAD_ID), "tgt": tgt}
        with torch.no_grad():
            right = _logits(model, src, inputs["src_mask"], tgt)
            found = [Twin(f"Transformer: {said}", partial(way, model))
                     for said, ways in _MODEL_WAYS.items() for way in ways]  # fmt: skip
            what = f'the logits of Transformer with norm="{norm}"'
            expect_equal(run(made, inputs, what.capitalize()), right, what, inputs, found)
        if norm == "pre":
            state, src_mask = state_of(model), inputs["src_mask"]
            dropped = built(candidate, sizes_of(config) | {"dropout": 1.0}, state)
            read = {"src": src, "src_mask": src_mask}
            written = {"tgt": tgt, "memory": torch.randn(2, 5, 6), "src_mask": src_mask}
            for stack, length, given in (("encoder", 5, read), ("decoder", 4, written)):
                left = state[f"{stack}.last_norm.shift"].expand(2, length, -1)
                expect_all_dropped(stack, dropped.get_submodule(stack), given, left)
    expect_learned(made, inputs)
    _expect_same_translations(candidate, SENTENCES)


def _expect_same_translations(candidate: object, sentences: list[str]) -> None:
    trained = load_pretrained(TRANSFORMER)
    before = translate(trained, sentences, beam_size=1)
    model, src_tokenizer, tgt_tokenizer = trained.translator()
    src = pad([src_tokenizer.encode(each) for each in sentences], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, each.text) for each in before], PAD_ID)
    given = {"src": src, "src_mask": padding_mask(src, PAD_ID), "tgt": tgt}
    own = cast(Checkpoint, call(translator, {"Transformer": candidate}))
    with torch.no_grad():
        right = _logits(cast(Transformer, model), *given.values()).softmax(dim=-1)
        answer = run(cast(Assembled, own.model).made, given, "The output of Transformer")
    got = expect_tensor(answer, right.shape, "the output of Transformer", given).softmax(dim=-1)
    expect_equal(got, right, "the probabilities with the trained parameters", given)

    def translates(sentences: list[str]) -> list[str]:
        with torch.no_grad():
            found = translate(own, sentences, beam_size=1, need_weights=False)
        return [each.text for each in found]

    said = call(translates, {"sentences": sentences})
    expect_value(
        said,
        [each.text for each in before],
        "the translations with the trained parameters",
        {"sentences": sentences},
        hint="Here encoder(src, src_mask) and decoder(tgt, memory, src_mask) of the model are "
        "called separately, the decoder with one more token at each step.",
    )


# Part 5


def _sizes(state: State) -> dict[str, Any]:
    """Return the hyperparameters of a Transformer, from its state dict."""
    table, target = (state[f"{stack}.input.embedding.table.weight"] for stack in _BOTH)
    shared = torch.equal(state["output.weight"], table) and torch.equal(table, target)
    numbers = {int(name.split(".")[2]) for name in state if name.startswith("encoder.layers.")}
    every = sum(tensor.numel() for tensor in state.values())
    return {
        "src_vocab_size": len(table),
        "tgt_vocab_size": len(target),
        "d_model": table.size(1),
        "d_ff": len(state["encoder.layers.0.feed_forward.inner.weight"]),
        "num_layers": len(numbers),
        "norm": "pre" if "encoder.last_norm.gain" in state else "post",
        "shared": shared,
        "parameters": every - 2 * table.numel() * shared,
    }


def _sizes_but(**changes: Callable[[dict[str, Any], State], object]) -> Callable[[State], object]:
    """Return `_sizes` with some of its values changed."""

    def answer(state: State) -> object:
        right = _sizes(state)
        return right | {name: change(right, state) for name, change in changes.items()}

    return answer


def _every(right: dict[str, Any], state: State) -> int:
    return sum(tensor.numel() for tensor in state.values())


def _unlike(right: dict[str, Any], state: State) -> int:
    kept: list[Tensor] = []
    for tensor in state.values():
        if not any(torch.equal(tensor, each) for each in kept):
            kept.append(tensor)
    return sum(tensor.numel() for tensor in kept)


def _table(right: dict[str, Any]) -> int:
    return int(right["src_vocab_size"] * right["d_model"])


def _last_by_letters(right: dict[str, Any], state: State) -> int:
    return int(max(str(number) for number in range(right["num_layers"]))) + 1


_SIZES_TWINS = [
    *known(
        "sizes: a shared embedding matrix is counted once for each of its three names. Count it "
        "once: source, target and output use the same parameters.",
        _sizes_but(parameters=_every),
    ),
    *known(
        "sizes: a shared embedding matrix has three names but counts once, so two copies must be "
        "subtracted, not one.",
        _sizes_but(parameters=lambda r, state: _every(r, state) - r["shared"] * _table(r)),
    ),
    *known(
        "sizes: tensors with equal values are counted once. This holds only for the shared "
        "embedding matrix; two gains that are all 1 are separate parameters.",
        _sizes_but(parameters=_unlike),
    ),
    *known(
        "sizes: num_layers counts the layers of both stacks. It is the number in each stack.",
        _sizes_but(num_layers=lambda right, _: 2 * right["num_layers"]),
    ),
    *known(
        "sizes: num_layers is too small by 1: the layers are numbered from 0.",
        _sizes_but(num_layers=lambda right, _: right["num_layers"] - 1),
    ),
    *known(
        "sizes: num_layers is wrong for more than 10 layers. Check whether indices are compared as "
        "text, where '9' comes after '10', or whether only one digit is read.",
        _sizes_but(num_layers=_last_by_letters),
        _sizes_but(num_layers=lambda right, _: min(right["num_layers"], 10)),
    ),
    *known(
        "sizes: d_ff and d_model are exchanged. The weight of nn.Linear has the shape (number of "
        "outputs, number of inputs).",
        _sizes_but(d_ff=lambda r, _: r["d_model"], d_model=lambda r, _: r["d_ff"]),
    ),
    *known(
        "sizes: d_ff is the number of inputs of the inner layer. It is the number of outputs, the "
        "first axis of the weight.",
        _sizes_but(d_ff=lambda right, _: right["d_model"]),
    ),
    *known(
        "sizes: the two vocabulary sizes are exchanged: the encoder reads the source.",
        _sizes_but(
            src_vocab_size=lambda r, _: r["tgt_vocab_size"],
            tgt_vocab_size=lambda r, _: r["src_vocab_size"],
        ),
    ),
    *known(
        "sizes: norm is always 'pre'. Layers of both kinds contain normalisations; only a pre-norm "
        "model has one after its last layer.",
        _sizes_but(norm=lambda *_: "pre"),
    ),
    *known(
        "sizes: 'pre' and 'post' are exchanged: pre-norm models have a last_norm.",
        _sizes_but(norm=lambda r, _: "post" if r["norm"] == "pre" else "pre"),
    ),
    *known(
        "sizes: embedding matrices of the same shape need not be shared. Compare their values.",
        _sizes_but(
            shared=lambda r, _: r["src_vocab_size"] == r["tgt_vocab_size"],
            parameters=lambda r, state: (
                _every(r, state) - 2 * _table(r) * (r["src_vocab_size"] == r["tgt_vocab_size"])
            ),
        ),
        _sizes_but(shared=lambda r, _: r["src_vocab_size"] == r["tgt_vocab_size"]),
    ),
    *known(
        "sizes: the embedding matrix is shared here: source, target and output have the same "
        "values, so `shared` is True.",
        _sizes_but(shared=lambda *_: False, parameters=_every),
        _sizes_but(shared=lambda *_: False),
    ),
]


def _count(
    num_layers: int, vocab_size: int, d_model: int, d_ff: int, norm: str, *,
    tables: int = 1, matrices: int = 4, attention_biases: bool = True, feed_biases: bool = True,
    norms: int = 5, in_a_norm: int = 2, crossed: int = 1, last_norms: int = 2,
    also_post: bool = False,
) -> int:  # fmt: skip
    """Return the parameters of a Transformer with one shared table; keywords make mistakes."""
    attention = matrices * d_model * (d_model + attention_biases)
    feed = 2 * d_model * d_ff + (d_ff + d_model) * feed_biases
    pair = (2 + crossed) * attention + 2 * feed + norms * in_a_norm * d_model
    last = last_norms * in_a_norm * d_model * (norm == "pre" or also_post)
    return tables * vocab_size * d_model + num_layers * pair + last


def _deepest(
    budgets: list[int], sizes: tuple[int, int, int, str], *,
    layers: Callable[[float], float] = math.floor, least: int = 0, **way: Any,
) -> list[int]:  # fmt: skip
    """Return the answer to each budget."""
    none, one = (_count(layers, *sizes, **way) for layers in (0, 1))
    return [max(least, int(layers((budget - none) / (one - none)))) for budget in budgets]


_DEEPEST_WAYS: dict[str, list[dict[str, Any]]] = {
    "the embedding matrix is shared by source, target and output, so it counts once.":
        [{"tables": 3}, {"tables": 2}],
    "the embedding matrix is not counted.": [{"tables": 0}],
    "a decoder layer has two attentions, an encoder layer one.": [{"crossed": 0}],
    "an attention has four matrices: for queries, keys and values, and W^O.": [{"matrices": 3}],
    "the biases of the attentions are not counted.": [{"attention_biases": False}],
    "the biases of the feed-forward networks are not counted.": [{"feed_biases": False}],
    "no bias is counted. All linear layers have biases except the output layer.":
        [{"attention_biases": False, "feed_biases": False}],
    "the layer normalisations are not counted. Each has a gain and a shift with d_model entries.":
        [{"norms": 0}, {"norms": 0, "last_norms": 0}],
    "a layer normalisation has 2 · d_model parameters: a gain and a shift.": [{"in_a_norm": 1}],
    "a decoder layer has three layer normalisations, one per sub-layer; an encoder layer has two.":
        [{"norms": 4}, {"norms": 6}],
    "a pre-norm model has one more layer normalisation after the last layer of each stack.":
        [{"last_norms": 0}, {"last_norms": 1}],
    "a post-norm model has no layer normalisation after the last layer; only pre-norm does.":
        [{"also_post": True}],
    "the answer counts the layers of both stacks together. Return the number in each stack.":
        [{"layers": lambda n: 2 * math.floor(n)}],
    "the number of layers is rounded up. A layer that fits only in part does not fit: round down.":
        [{"layers": math.ceil}, {"layers": round}],
    "the answer is one layer too many. Return the largest number that fits the budget.":
        [{"layers": lambda n: math.floor(n) + 1}],
    "a budget that is used completely, to the last parameter, is sufficient.":
        [{"layers": lambda n: math.ceil(n) - 1}],
    "if the embedding matrix alone exceeds the budget, return 0, not a negative number.":
        [{"least": -(10**9)}],
}  # fmt: skip


def _expect_three_compared(sizes: object) -> None:
    """Let source and target share a matrix, and the output layer have another."""
    config = TransformerConfig(
        src_vocab_size=7, tgt_vocab_size=7, d_model=4, num_heads=2, d_ff=6, num_layers=1,
        share_embeddings=True,
    )  # fmt: skip
    state = state_of(Transformer(config))
    inputs = {"state": state | {"output.weight": state["output.weight"] + 1}}
    said = call_twice(sizes, inputs)
    shared = said.get("shared") if isinstance(said, dict) else None
    if bool(shared.all() if isinstance(shared, Tensor) else shared):
        raise CheckFailed(
            "  sizes: here source and target have the same embedding matrix, and the output layer "
            f"another. `shared` is True only if all three are equal.\n{describe(inputs)}"
        )


@_parts.part("state dict and depth", "sizes", "deepest")
def read_off(sizes: object, deepest: object, thorough: bool = False) -> None:
    """Check the hyperparameters from a state dict, and the number of layers for a budget."""
    models: list[tuple[int, int, int, int, int, Norm, bool]] = [
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
        model = Transformer(config)
        state = state_of(shaken(model) if place else model)  # the first one as initialised
        inputs: dict[str, Any] = {"state": state}
        answer = call_twice(sizes, inputs)
        if isinstance(answer, dict) and isinstance(answer.get("shared"), Tensor):
            answer = answer | {"shared": bool(answer["shared"].all())}  # (one == other).all()
        expect_value(answer, _sizes(state), "the output of sizes", inputs, _SIZES_TWINS)
    _expect_three_compared(sizes)
    asked: list[tuple[int, int, int, str]] = [(7, 4, 5, "pre"), (7, 4, 5, "post")]
    asked += [(37000, 512, 2048, "post"), *[(101, 8, 3, "pre"), (3, 2, 31, "post")] * thorough]
    for case in asked:
        counts = [_count(layers, *case) for layers in range(9)]
        near = [count + step * case[1] for count in counts[1::4] for step in range(-15, 15)]
        budgets = sorted({1, *near, *counts, *(count - 1 for count in counts)})
        given: list[dict[str, Any]]
        given = [dict(zip(_BUDGET, (budget, *case), strict=True)) for budget in budgets]
        found = [plain_number(call(deepest, each)) for each in given]
        right = _deepest(budgets, case)
        if found == right:
            continue
        said = [
            f"deepest: {said}"
            for said, ways in _DEEPEST_WAYS.items()
            if any(found == _deepest(budgets, case, **way) for way in ways)
        ]
        for each, got, most in zip(given, found, right, strict=True):
            twins = known(said[0], lambda *_, got=got: got) if said else []
            expect_value(
                got, most, "the output of deepest", each, twins,
                hint=f"A model with {most} layers in each stack has {_count(most, *case):,} "
                f"parameters; a model with {most + 1} has {_count(most + 1, *case):,}.",
            )  # fmt: skip


_BUDGET = ("budget", "vocab_size", "d_model", "d_ff", "norm")


# Part 6

_TGT_TWINS = [
    *known(
        "masks_for_pytorch: tgt_mask is True where a position may attend. In PyTorch's modules, "
        "True means hidden.",
        lambda _, size: causal_mask(size)[0].float(),
    ),
    *known(
        "masks_for_pytorch: tgt_mask hides earlier positions and shows later ones. Hide the later "
        "ones.",
        lambda _, size: (~causal_mask(size)[0]).T.float(),
    ),
    *known(
        "masks_for_pytorch: tgt_mask hides each position from itself. The first position then has "
        "nothing to attend to, and its output is NaN.",
        lambda _, size: torch.ones(size, size).triu(),
    ),
    *known(
        "masks_for_pytorch: tgt_mask hides nothing.",
        lambda _, size: torch.zeros(size, size),
    ),
]
_PADDING_TWINS = known(
    "masks_for_pytorch: src_key_padding_mask is True at real tokens. In PyTorch's modules, True "
    "means hidden, so it must be True at padding.",
    lambda src_mask, _: src_mask.squeeze(1).float(),
)


@_parts.part("parameters of nn.Transformer", "from_pytorch", "masks_for_pytorch")
def from_pytorch(converted: object, masks_for_pytorch: object, thorough: bool = False) -> None:
    """Check parameters converted from PyTorch's Transformer, and masks for it."""
    inputs: dict[str, Any]
    for sizes in [(6, 2, 4, 1), (4, 2, 7, 2), *[(6, 3, 6, 3)] * thorough]:
        state = state_of(pytorch_transformer(*sizes))
        right = expected_weights(state)
        inputs = {"state": state}
        answer = call_twice(converted, inputs)
        if not isinstance(answer, dict):
            raise CheckFailed(
                f"  from_pytorch: expected a dict of tensors, got {type(answer).__name__}\n"
                f"{describe(inputs)}"
            )
        for name in answer:
            if name not in right:
                raise CheckFailed(
                    f"  from_pytorch: our stacks have no parameter {name!r}. The most similar name "
                    f"is {nearest(str(name), right)!r}.\n{describe(inputs)}"
                )
        for name, tensor in right.items():
            if name not in answer:
                raise CheckFailed(f"  from_pytorch: {name!r} is missing.\n{describe(inputs)}")
            got = in_32_bits(answer[name])
            if isinstance(got, Tensor) and not torch.equal(got, tensor):
                why = mistaken(name, got, right, state)
                if why:
                    raise CheckFailed(f"  from_pytorch: {why}\n{describe(inputs)}")
            expect_equal(got, tensor, name, inputs)
    for lengths, tgt_len in [([3, 2], 3), ([2, 4, 1], 5), ([4], 1), *[([3, 3], 7)] * thorough]:
        src_mask = (torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)).unsqueeze(1)
        inputs = {"src_mask": src_mask, "tgt_len": tgt_len}
        answer = call_twice(masks_for_pytorch, inputs)
        pair = expect_pair(answer, ("tgt_mask", "src_key_padding_mask"), inputs)
        for got, expected, what, twins in (
            (pair[0], ~causal_mask(tgt_len)[0], "tgt_mask", _TGT_TWINS),
            (pair[1], ~src_mask.squeeze(1), "src_key_padding_mask", _PADDING_TWINS),
        ):
            hidden = hides(got, tuple(expected.shape), what, inputs)
            expect_equal(hidden, expected.float(), f"{what}, 1 where it is hidden", inputs, twins)
