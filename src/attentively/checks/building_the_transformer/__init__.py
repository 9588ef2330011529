"""Checks of the assignment on the whole Transformer: its parts, their assembly, its weights.

Parts 1 to 4 rebuild what the package has, under the same names of parameters, so every check
loads weights of ours into a student's module and looks at what it then does; in the end the model
gets the weights of the trained Transformer that ships and must translate as that does. Parts 5
and 6 are worked out here beside them.
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
    no_way_around,
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
    refuse_ours,
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
from attentively.models import plain_transformer
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
    "transformer",
    "translator",
    "way_around",
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
    "The variance is divided by d_model - 1, as torch.var does unless it is told otherwise. Take "
    "the mean of the squares: correction=0.": [
        _normalised(correction=1),
        _normalised(correction=1, divide=lambda v, eps: v.sqrt() + eps),
    ],
    "eps is added to the root. It is added to the variance, under the root.": [
        _normalised(divide=lambda v, eps: v.sqrt() + eps)
    ],
    "eps is not used. It keeps a vector of equal numbers from being divided by 0.": [
        _normalised(divide=lambda v, eps: v.sqrt())
    ],
    "The eps that is given is not added to the variance. Is it always 1e-5, or a lower bound?": [
        _normalised(divide=lambda v, eps: (v + 1e-5).sqrt())
    ],
    "The variance is too large. It is the mean of (x - μ)², not their sum, nor the mean of x² less "
    "μ, without its square.": [_normalised(correction=3)],  # of 4 numbers
    "The root is missing: divide by the root of the variance.": [
        _normalised(divide=lambda v, eps: v + eps)
    ],
    "The mean is not taken away.": [_normalised(centre=False)],
    "Mean and variance are those of a whole sentence, or of the batch. Each vector has its own: "
    "they go over the last axis alone.": [
        _normalised(over=lambda x: tuple(range(x.dim()))),
        _normalised(over=lambda x: tuple(range(1, x.dim()))),
        _normalised(over=lambda x: tuple(range(x.dim() - 1))),
        _normalised(over=lambda x: (0,)),
        _normalised(over=lambda x: (max(x.dim() - 2, 0),)),
    ],
    "The gain is not used.": [_normalised(last=lambda x, gain, shift: x + shift)],
    "The shift is not used.": [_normalised(last=lambda x, gain, shift: gain * x)],
    "Neither gain nor shift is used.": [_normalised(last=lambda x, gain, shift: x)],
    "The shift is added before the gain multiplies: first the gain, then the shift.": [
        _normalised(last=lambda x, gain, shift: gain * (x + shift))
    ],
    "Gain and shift have changed places.": [
        _normalised(last=lambda x, gain, shift: shift * x + gain)
    ],
    "The gain multiplies 1 + gain times. It begins with ones; they are the 1.": [
        _normalised(last=lambda x, gain, shift: (1 + gain) * x + shift)
    ],
}


@_parts.part("layer normalisation", "LayerNorm")
def norm(candidate: object, thorough: bool = False) -> None:
    """Check layer normalisation: vectors by hand, other sizes, its parameters at birth."""
    refuse_ours(candidate, LayerNorm, nn.LayerNorm)
    by_hand = torch.tensor([[1.0, 3.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    asked = [(by_hand, 0.5), (torch.randn(5), 0.1), (3 + 2 * torch.randn(2, 3, 5), 1e-5)]
    asked += [(0.02 * torch.randn(3, 2, 7), 1e-5)]
    if thorough:
        asked += [(torch.randn(2, 5, 3, 11), 0.01), (100 * torch.randn(1, 1, 2), 1e-5)]
    for x, eps in asked:
        state = state_of(shaken(LayerNorm(x.size(-1))))
        made = built(candidate, {"d_model": x.size(-1), "eps": eps}, state)
        twins = [
            Twin(said, partial(way, state, eps))
            for said, ways in _NORM_WAYS.items()
            for way in ways
        ]
        inputs = {"x": x}
        expect_equal(
            run(made, inputs, "What LayerNorm returns"), _normalised()(state, eps, x),
            f"the result with eps = {eps:g}", inputs, twins,
        )  # fmt: skip
    # Of two numbers the norm hardly depends on how large they are: no gradient would reach them.
    made = built(candidate, {"d_model": 5}, state_of(shaken(LayerNorm(5))))
    expect_learned(made, {"x": torch.randn(2, 3, 5)}, ["x"])
    born = cast(nn.Module, call(candidate, {"d_model": 3})).state_dict()
    for name, begins in (("gain", torch.ones(3)), ("shift", torch.zeros(3))):
        expect_equal(born[name], begins, f"{name} at birth", {"d_model": 3})


# Part 2


class _Say:
    """A sub-layer that a message can show."""

    def __init__(self, d_model: int) -> None:
        self.matrix = torch.randn(d_model, d_model)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.matrix) + 0.5

    def __repr__(self) -> str:
        return "a sub-layer, called with a tensor like x"


_FEED_WAYS: dict[str, list[Callable[[State, Tensor], Tensor]]] = {
    "Nothing bends the signal between the two layers, so they are worth one: max(0, x) is missing.":
        [partial(feed, between=lambda x: x)],
    "A second max(0, x) comes after the outer layer. There is one, between the two.":
        [partial(feed, after=torch.relu)],
    "max(0, x) comes after the outer layer; it belongs between the two.":
        [partial(feed, between=lambda x: x, after=torch.relu)],
    "max(0, x) comes before the inner layer; it belongs between the two.":
        [partial(feed, before=torch.relu, between=lambda x: x), partial(feed, before=torch.relu)],
    "The activation is another than max(0, x), the paper's.":
        [partial(feed, between=each) for each in (F.gelu, torch.tanh, torch.sigmoid, F.silu)],
    "Here x is added to the result. That is the way around, which is not this module's affair.":
        [lambda state, x: x + feed(state, x)],
}  # fmt: skip

_STEP_WAYS: dict[str, Step] = {
    "There is no way around: what comes in is to be added to what the sub-layer says.":
        no_way_around,
    "The norm is on the wrong side. Pre-norm: x + f(LayerNorm(x)). Post-norm: LayerNorm(x + f(x)).":
        on_the_other_side,
    "The way around begins behind the norm. What is added is x itself, as it came in.":
        lambda normed, say, norm, x: normed(x) + say(normed(x)),
    "The norm is on what the sub-layer says. Post-norm normalises the sum, pre-norm the way in.":
        lambda normed, say, norm, x: x + normed(say(x)),
    "Both sides are normalised: before the sub-layer, or after the sum, not both.":
        lambda normed, say, norm, x: normed(x + say(normed(x))),
    "Only what goes around is normalised. Post-norm normalises the sum, pre-norm the way in.":
        lambda normed, say, norm, x: normed(x) + say(x),
    "The norm is not used.":
        lambda normed, say, norm, x: x + say(x),
}  # fmt: skip


@_parts.part("the way around", "FeedForward", "Residual")
def way_around(feed_forward: object, residual: object, thorough: bool = False) -> None:
    """Check the feed-forward network, and the way around a sub-layer with its norm and dropout."""
    refuse_ours(feed_forward, FeedForward)
    refuse_ours(residual, Residual, plain_transformer.Residual)
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
        answer = run(made, inputs, "What FeedForward returns")
        expected = feed(state, **inputs)
        expect_equal(answer, expected, "what FeedForward returns", inputs, feeds)
        what = "what FeedForward returns in training"
        expect_equal(run(made.train(), inputs, what.capitalize()), expected, what, inputs)
        # Of few vectors max(0, x) may let nothing through, and then no gradient either.
        expect_learned(made, {"x": torch.randn(50, d_model)})
    for norm in NORMS:
        for d_model, length in [(3, 2), (5, 4), *[(11, 3)] * thorough]:
            state = state_of(shaken(Residual(d_model)))
            asked = {"d_model": d_model, "dropout": 0.5, "norm": norm}
            made = built(residual, asked, state)
            inputs = {"x": torch.randn(2, length, d_model), "sublayer": _Say(d_model)}
            what = f'what Residual returns with norm="{norm}"'
            expect_equal(
                run(made, inputs, what.capitalize()),
                stepped(right_step, state, norm, **inputs), what, inputs,
                [Twin(f"Residual: {said}", partial(stepped, way, state, norm))
                 for said, way in _STEP_WAYS.items()],
            )  # fmt: skip
            expect_learned(made, inputs, ["x"])
            _expect_dropout(residual, asked, state, norm, inputs)
    _expect_the_rest_enlarged(residual)


def _expect_the_rest_enlarged(residual: object) -> None:
    """Drop a part, pre-norm: of what the sub-layer says the rest is divided by 1 - p."""
    for dropout, enlarged in ((0.5, 2.0), (0.2, 1.25)):
        asked: dict[str, Any] = {"d_model": 20, "dropout": dropout, "norm": "pre"}
        made = built(residual, asked, state_of(Residual(20))).train()
        inputs = {"x": torch.randn(5, 10, 20), "sublayer": torch.ones_like}
        said = plain_tensor(call(made, inputs), "what Residual returns in training", inputs)
        said = said - cast(Tensor, inputs["x"])
        dropped = said.abs() < 0.1
        share, rest = float(dropped.float().mean()), said[~dropped]
        if abs(share - dropout) > 0.1:
            raise CheckFailed(
                f"  Residual: in training with dropout={dropout:g} a share of {share:.2f} of what "
                f"the sub-layer says is missing.\n{describe(inputs)}"
            )
        if not torch.allclose(rest, torch.full_like(rest, enlarged), 1e-3, 1e-3):
            raise CheckFailed(
                f"  Residual: in training with dropout={dropout:g} what is not dropped of a 1 "
                f"should be 1 / (1 - {dropout:g}) = {enlarged:g}, so that the mean stays as it "
                f"was. nn.Dropout does that.\n{describe(inputs)}\n"
                f"  got         {show(rest[:4])} ..."
            )


def _expect_dropout(
    residual: object, asked: Inputs, state: State, norm: Norm, inputs: Inputs
) -> None:
    """Drop everything: of what the sub-layer says nothing is left, and of x all."""
    made = built(residual, {**asked, "dropout": 1.0}, state).train()
    read: list[Tensor] = []

    def nothing(x: Tensor) -> Tensor:
        read.append(x.detach())
        return torch.zeros_like(x)

    def way(step: Step, say: Callable[[Sublayer], Sublayer]) -> Callable[..., Tensor]:
        return lambda x, sublayer: stepped(step, state, norm, x, say(sublayer))

    everything = (
        known(
            "Residual: Dropout takes of the sum, so of the way around too. It acts on what the "
            "sub-layer says, before that is added.",
            lambda x, sublayer: torch.zeros_like(x),
            lambda x, sublayer: state["layer_norm.shift"].expand_as(x),
        )
        + known(
            "Residual: Dropout acts on what the sub-layer reads. It acts on what it says, before "
            "that is added.",
            way(right_step, lambda sublayer: lambda x: sublayer(torch.zeros_like(x))),
        )
        + known("Residual: There is no dropout in training.", way(right_step, lambda say: say))
    )
    what = f'what Residual returns in training with dropout=1 and norm="{norm}"'
    expected = stepped(right_step, state, norm, inputs["x"], nothing)
    expect_equal(run(made, inputs, what.capitalize()), expected, what, inputs, everything)
    run(made, {**inputs, "sublayer": nothing}, what.capitalize())
    twice = Twin("Residual: Dropout acts on what the sub-layer reads, too.", lambda x, _: 0 * x)
    expect_equal(read[-1], read[0], "what the sub-layer reads in training", inputs, [twice])


# Part 3


_ENCODER_WAYS: dict[str, dict[str, Any]] = {
    **{said: {"step": step} for said, step in _STEP_WAYS.items()},
    "The mask is not used.": {"masked": False},
    "The two ways around have changed places, and with them their norms.":
        {"names": ("around_feed_forward", "around_attention")},
    "One way around serves both sub-layers: around_attention. Each has a norm of its own.":
        {"names": ("around_attention", "around_attention")},
    "The feed-forward network comes first. First look around, then think.": {"order": "fa"},
    "The feed-forward network is missing.": {"order": "a"},
    "The attention is missing.": {"order": "f"},
    "The queries are normalised, keys and values are not. Self-attention reads one thing three "
    "times: what the way around hands to it.": {"keys": "plain"},
    "Self-attention reads x as it came in, and not what the way around hands to it: that is the h "
    "of `lambda h:`.": {"keys": "all plain"},
}  # fmt: skip


_DECODER_WAYS: dict[str, list[dict[str, Any]]] = {
    **{said: [{"step": step}] for said, step in _STEP_WAYS.items()},
    "tgt_mask is not used: a word of the target looks at words that are not written yet.":
        [{"masks": "source"}],
    "src_mask is not used: the target looks at the source's padding.": [{"masks": "target"}],
    "Neither mask is used.": [{"masks": "none"}],
    "The two masks have changed places. The keys of self-attention are the target's words, those "
    "of cross-attention the source's.": [{"masks": "exchanged"}],
    "Cross-attention gets tgt_mask. Its keys are the source's words, and all of them are there "
    "from the start: src_mask.": [{"masks": "target twice"}],
    "Memory and target have changed places in cross-attention: the target asks, the memory "
    "answers.": [{"look": "exchanged"}],
    "Cross-attention looks at the target once more. Its keys and values are the memory.":
        [{"look": "itself"}, {"look": "itself", "masks": "target twice"}],
    "The values of cross-attention are the target's. Keys and values both are the memory.":
        [{"look": "keys"}],
    "The keys of cross-attention are the target's. Keys and values both are the memory.":
        [{"look": "values"}],
    "The memory is normalised by the decoder layer. It comes as the encoder made it; the way "
    "around is that of the target.": [{"look": "normed"}],
    "An attention asks with y as it came in, and not with what the way around hands to it: that is "
    "the h of `lambda h:`.": [{"deaf": "s"}, {"deaf": "c"}, {"deaf": "sc"}],
    "Cross-attention comes before self-attention. First the target looks at itself.":
        [{"order": "csf"}],
    "The two attentions have changed places: self_attention looks at the memory.":
        [{"swapped": True}],
    "Cross-attention is missing: nothing of the source reaches the target.": [{"order": "sf"}],
    "Self-attention is missing: the target does not look at itself.": [{"order": "cf"}],
    "The feed-forward network is missing.": [{"order": "sc"}],
}  # fmt: skip


def _layer(kind: type[nn.Module], d_model: int, heads: int, d_ff: int, norm: Norm) -> State:
    attentions = [MultiHeadAttention(d_model, heads) for _ in range(1 + (kind is DecoderLayer))]
    return state_of(
        shaken(kind(d_model, *attentions, FeedForward(d_model, d_ff), dropout=0.0, norm=norm))
    )


@_parts.part("two layers", "EncoderLayer", "DecoderLayer")
def layers(encoder_layer: object, decoder_layer: object, thorough: bool = False) -> None:
    """Check an encoder and a decoder layer, pre- and post-norm, with and without masks."""
    refuse_ours(encoder_layer, EncoderLayer, plain_transformer.EncoderLayer)
    refuse_ours(decoder_layer, DecoderLayer, plain_transformer.DecoderLayer)
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
            inputs: dict[str, Any]
            for inputs in ({"x": memory}, {"x": memory, "mask": masks["src_mask"]}):
                twins = [Twin(f"EncoderLayer: {said}",
                              partial(encoded, state, num_heads, norm, **way))
                         for said, way in _ENCODER_WAYS.items()]  # fmt: skip
                what = f'what EncoderLayer returns with norm="{norm}"'
                right = encoded(state, num_heads, norm, *inputs.values())
                expect_equal(run(made, inputs, what.capitalize()), right, what, inputs, twins)
            expect_learned(made, inputs, ["x"])
            if norm == "pre":
                dropped = built(encoder_layer, asked | {"dropout": 1.0}, state)
                expect_all_dropped("EncoderLayer", dropped, inputs, memory)
            state = _layer(DecoderLayer, d_model, num_heads, d_ff, norm)
            made = built(decoder_layer, asked, state)
            for inputs in ({"y": y, "memory": memory}, {"y": y, "memory": memory, **masks}):
                twins = [Twin(f"DecoderLayer: {said}",
                              partial(decoded, state, num_heads, norm, **way))
                         for said, ways in _DECODER_WAYS.items() for way in ways]  # fmt: skip
                what = f'what DecoderLayer returns with norm="{norm}"'
                right = decoded(state, num_heads, norm, *inputs.values())
                expect_equal(run(made, inputs, what.capitalize()), right, what, inputs, twins)
            expect_learned(made, inputs, ["y", "memory"])
            if norm == "pre":
                dropped = built(decoder_layer, asked | {"dropout": 1.0}, state)
                expect_all_dropped("DecoderLayer", dropped, inputs, y)


# Part 4


def _embedded(state: State, ids: Tensor, factor: float | None = None) -> tuple[Tensor, Tensor]:
    """Return the words' vectors and the positions' codes, before they are added."""
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
    "The words are not multiplied by √d_model, so that the positions drown them.": _summed(1.0),
    "Words and positions are both multiplied by √d_model; the words alone are.":
        lambda state, ids: _root(state) * _summed(1.0)(state, ids),
    "The positions are multiplied by √d_model, and the words are not.":
        lambda state, ids: _summed(1.0, _root(state))(state, ids),
    "The words are multiplied by d_model; its root is wanted.":
        lambda state, ids: _summed(_root(state) ** 2)(state, ids),
    "The words are divided by √d_model; multiply them.":
        lambda state, ids: _summed(1 / _root(state))(state, ids),
    "The positions are missing.": _summed(None, 0.0),
    "The words are missing: these are the positions.": _summed(0.0),
    "Each sentence of the batch gets one code for all its words. The codes belong to the axis of "
    "the words, the second.":
        lambda state, ids: _embedded(state, ids)[0]
        + sinusoids(len(ids), state["embedding.table.weight"].size(1)).unsqueeze(1),
}  # fmt: skip

_Model = Callable[[Transformer, Tensor, Tensor, Tensor], Tensor]


def _logits(
    model: Transformer, src: Tensor, src_mask: Tensor, tgt: Tensor, *,
    tgt_mask: Tensor | None = None, seen: tuple[bool, bool] = (True, True), causal: bool = True,
) -> Tensor:  # fmt: skip
    """Return the scores of the next word at every place; the keywords make mistakes."""
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
    """Let each decoder layer look at the encoder layer of its own number."""
    x, y = model.encoder.input(src), model.decoder.input(tgt)
    for encoder_layer, decoder_layer in zip(
        model.encoder.layers, model.decoder.layers, strict=True
    ):
        x, _ = encoder_layer(x, src_mask)
        y, _, _ = decoder_layer(y, model.encoder.last_norm(x), causal_mask(tgt.size(1)), src_mask)
    return model.output(model.decoder.last_norm(y))


_BOTH = ("encoder", "decoder")

_MODEL_WAYS: dict[str, list[_Model]] = {
    "A word of the target sees those after it: the decoder's self-attention needs a causal mask.":
        [partial(_logits, causal=False)],
    "The encoder looks at padding: give src_mask to its layers.":
        [partial(_logits, seen=(False, True))],
    "The decoder looks at the source's padding: give src_mask to its layers.":
        [partial(_logits, seen=(True, False))],
    "src_mask is not used: the source's padding is looked at.":
        [partial(_logits, seen=(False, False))],
    "last_norm is not used. With pre-norm the last sum of each stack is still to be normalised.":
        [_edited(_without_last_norm(*stacks)) for stacks in (_BOTH, ("encoder",), ("decoder",))],
    "Only one layer of a stack is run.":
        [_with_layers(pick, *stacks)
         for pick in (lambda each: each[:1], lambda each: each[-1:])
         for stacks in (_BOTH, ("encoder",), ("decoder",))],
    "The layers of a stack are run backwards.":
        [_with_layers(lambda each: each[::-1], *stacks)
         for stacks in (_BOTH, ("encoder",), ("decoder",))],
    "Each decoder layer looks at the encoder layer of its own number. All of them look at what the "
    "last one has made.": [_layer_by_layer],
    "These are probabilities, or their logarithms. Return the scores as the output layer gives "
    "them; a loss or a search takes the softmax.":
        [lambda *given: _logits(*given).softmax(-1),
         lambda *given: _logits(*given).log_softmax(-1)],
}  # fmt: skip


SENTENCES = [
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
    "the dogs eat the bread",
]


@_parts.part("the whole", "InputEmbedding", "Transformer")
def transformer(input_embedding: object, candidate: object, thorough: bool = False) -> None:
    """Check what the first layer reads, the whole model, and its translations."""
    refuse_ours(candidate, Transformer, plain_transformer.Transformer)
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
        what = "what InputEmbedding returns"
        expected = _summed()(state, inputs["ids"])
        expect_equal(run(made, inputs, what.capitalize()), expected, what, inputs, twins)
    made = built(input_embedding, {**asked, "dropout": 1.0}, state).train()
    what = "what InputEmbedding returns in training with dropout=1"
    expect_equal(
        run(made, inputs, what.capitalize()), torch.zeros_like(expected), what, inputs,
        [Twin("InputEmbedding: There is no dropout in training.", lambda ids: expected),
         Twin("InputEmbedding: Dropout acts on the words alone; it acts on the sum.",
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
        inputs = {"src": src, "src_mask": padding_mask(src, PAD_ID), "tgt": tgt}
        with torch.no_grad():
            right = _logits(model, src, inputs["src_mask"], tgt)
            found = [Twin(said, partial(way, model))
                     for said, ways in _MODEL_WAYS.items() for way in ways]  # fmt: skip
            what = f'the scores of Transformer with norm="{norm}"'
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
        answer = run(cast(Assembled, own.model).made, given, "What Transformer returns")
    got = expect_tensor(answer, right.shape, "what Transformer returns", given).softmax(dim=-1)
    expect_equal(got, right, "the trained model's probabilities", given)

    def translates(sentences: list[str]) -> list[str]:
        with torch.no_grad():
            found = translate(own, sentences, beam_size=1, need_weights=False)
        return [each.text for each in found]

    said = call(translates, {"sentences": sentences})
    expect_value(said, [each.text for each in before], "the translations with the trained weights",
                 {"sentences": sentences},
                 hint="The model's encoder(src, src_mask) and decoder(tgt, memory, src_mask) are "
                      "called by themselves here, with one word more each time.")  # fmt: skip


# Part 5


def _sizes(state: State) -> dict[str, Any]:
    """Return what the weights of a Transformer tell of it."""
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
        "sizes: A shared table is counted each time that it has a name. It is one table: the same "
        "numbers serve source, target and output.",
        _sizes_but(parameters=_every),
    ),
    *known(
        "sizes: A shared table has three names. It counts once, so two are to be taken off.",
        _sizes_but(parameters=lambda r, state: _every(r, state) - r["shared"] * _table(r)),
    ),
    *known(
        "sizes: Tensors with equal numbers are counted once. Only the shared table is; gains that "
        "are all 1 are parameters of their own.",
        _sizes_but(parameters=_unlike),
    ),
    *known(
        "sizes: num_layers counts the layers of both stacks; it is the number in each.",
        _sizes_but(num_layers=lambda right, _: 2 * right["num_layers"]),
    ),
    *known(
        "sizes: num_layers is one too small: the layers are numbered from 0.",
        _sizes_but(num_layers=lambda right, _: right["num_layers"] - 1),
    ),
    *known(
        "sizes: The numbers of the layers are compared as text, and as text 9 comes after 10. Is "
        "only one digit of them read?",
        _sizes_but(num_layers=_last_by_letters),
        _sizes_but(num_layers=lambda right, _: min(right["num_layers"], 10)),
    ),
    *known(
        "sizes: d_ff and d_model have changed places. A linear layer keeps its matrix as (what "
        "comes out, what goes in).",
        _sizes_but(d_ff=lambda r, _: r["d_model"], d_model=lambda r, _: r["d_ff"]),
    ),
    *known(
        "sizes: d_ff is the size of what goes in; the first of the two numbers comes out.",
        _sizes_but(d_ff=lambda right, _: right["d_model"]),
    ),
    *known(
        "sizes: The vocabularies have changed places: the encoder reads the source.",
        _sizes_but(
            src_vocab_size=lambda r, _: r["tgt_vocab_size"],
            tgt_vocab_size=lambda r, _: r["src_vocab_size"],
        ),
    ),
    *known(
        "sizes: Each layer has its norms, before or after. What only a pre-norm model has is a "
        "norm after its last layer.",
        _sizes_but(norm=lambda *_: "pre"),
    ),
    *known(
        "sizes: It is the wrong way round: pre-norm models have a last norm.",
        _sizes_but(norm=lambda r, _: "post" if r["norm"] == "pre" else "pre"),
    ),
    *known(
        "sizes: Two tables of the same size need not be one: compare their numbers.",
        _sizes_but(
            shared=lambda r, _: r["src_vocab_size"] == r["tgt_vocab_size"],
            parameters=lambda r, state: (
                _every(r, state) - 2 * _table(r) * (r["src_vocab_size"] == r["tgt_vocab_size"])
            ),
        ),
        _sizes_but(shared=lambda r, _: r["src_vocab_size"] == r["tgt_vocab_size"]),
    ),
    *known(
        "sizes: A table is shared here: source, target and output have the same numbers.",
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
    "The table is shared: source, target and output have one between them.":
        [{"tables": 3}, {"tables": 2}],
    "The table of the words is not counted.": [{"tables": 0}],
    "A decoder layer has two attentions.": [{"crossed": 0}],
    "An attention has four matrices: of queries, keys, values, and W^O.": [{"matrices": 3}],
    "The biases of the attentions are not counted.": [{"attention_biases": False}],
    "The biases of the feed-forward networks are not counted.": [{"feed_biases": False}],
    "No bias is counted: linear layers have them, but for the output layer.":
        [{"attention_biases": False, "feed_biases": False}],
    "The norms are not counted: each has a gain and a shift of d_model numbers.":
        [{"norms": 0}, {"norms": 0, "last_norms": 0}],
    "A norm has a gain and a shift: two numbers for each component.": [{"in_a_norm": 1}],
    "A decoder layer has three norms, one for each sub-layer; an encoder layer has two.":
        [{"norms": 4}, {"norms": 6}],
    "Pre-norm needs a norm after the last layer of each stack.":
        [{"last_norms": 0}, {"last_norms": 1}],
    "With post-norm nothing comes after the last layer; only pre-norm needs a last norm.":
        [{"also_post": True}],
    "This counts the layers of both stacks together; asked is the number in each.":
        [{"layers": lambda n: 2 * math.floor(n)}],
    "A layer that fits only in part does not fit: round down.":
        [{"layers": math.ceil}, {"layers": round}],
    "This is one layer too many: the last one that still fits is asked for.":
        [{"layers": lambda n: math.floor(n) + 1}],
    "A budget that is spent to the last parameter is not too small.":
        [{"layers": lambda n: math.ceil(n) - 1}],
    "Where not even the table fits there are 0 layers, not less.": [{"least": -(10**9)}],
}  # fmt: skip


def _expect_three_compared(sizes: object) -> None:
    """Let source and target have one table, and the output another."""
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
            "  sizes: Source and target have one table here, and the output another. The table is "
            f"shared where all three are one.\n{describe(inputs)}"
        )


@_parts.part("off its weights", "sizes", "deepest")
def read_off(sizes: object, deepest: object, thorough: bool = False) -> None:
    """Check what is read off a model's weights, and how many layers a budget allows."""
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
        state = state_of(shaken(model) if place else model)  # the first one as it is born
        inputs: dict[str, Any] = {"state": state}
        answer = call_twice(sizes, inputs)
        if isinstance(answer, dict) and isinstance(answer.get("shared"), Tensor):
            answer = answer | {"shared": bool(answer["shared"].all())}  # (one == other).all()
        expect_value(answer, _sizes(state), "what sizes returns", inputs, _SIZES_TWINS)
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
                got, most, "what deepest returns", each, twins,
                hint=f"A model with {most} layers in each stack has {_count(most, *case):,} "
                f"parameters, one with {most + 1} has {_count(most + 1, *case):,}.",
            )  # fmt: skip


_BUDGET = ("budget", "vocab_size", "d_model", "d_ff", "norm")


# Part 6

_TGT_TWINS = [
    *known(
        "masks_for_pytorch: tgt_mask is True where a word may look. In PyTorch's modules True "
        "hides.",
        lambda _, size: causal_mask(size)[0].float(),
    ),
    *known(
        "masks_for_pytorch: tgt_mask hides what is already written, and shows what comes.",
        lambda _, size: (~causal_mask(size)[0]).T.float(),
    ),
    *known(
        "masks_for_pytorch: tgt_mask hides a word from itself. The first one has nothing to look "
        "at then, and becomes NaN.",
        lambda _, size: torch.ones(size, size).triu(),
    ),
    *known(
        "masks_for_pytorch: tgt_mask hides nothing.",
        lambda _, size: torch.zeros(size, size),
    ),
]
_PADDING_TWINS = known(
    "masks_for_pytorch: src_key_padding_mask is True at words. In PyTorch's modules True hides: it "
    "is True at padding.",
    lambda src_mask, _: src_mask.squeeze(1).float(),
)


@_parts.part("PyTorch's weights", "from_pytorch", "masks_for_pytorch")
def from_pytorch(converted: object, masks_for_pytorch: object, thorough: bool = False) -> None:
    """Check weights that come from PyTorch's Transformer, and masks that go there."""
    inputs: dict[str, Any]
    for sizes in [(6, 2, 4, 1), (4, 2, 7, 2), *[(6, 3, 6, 3)] * thorough]:
        state = state_of(pytorch_transformer(*sizes))
        right = expected_weights(state)
        inputs = {"state": state}
        answer = call_twice(converted, inputs)
        if not isinstance(answer, dict):
            raise CheckFailed(
                f"  Expected a dict of tensors, got {type(answer).__name__}\n{describe(inputs)}"
            )
        for name in answer:
            if name not in right:
                raise CheckFailed(
                    f"  from_pytorch: our stacks have no weights called {name!r}. The nearest of "
                    f"theirs is {nearest(str(name), right)!r}.\n{describe(inputs)}"
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
            expect_equal(hidden, expected.float(), f"{what}, 1 where it hides", inputs, twins)
