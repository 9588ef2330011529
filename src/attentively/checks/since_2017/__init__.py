"""Checks of the assignment on changes since 2017: positions, normalisation, heads and scaling.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. Parts 1 to 4 are also run in the package's language model or in its trained translator. Part 5
runs the student's test on encodings.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import AttentionPosition
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_equal,
    expect_value,
    in_32_bits,
    once_solved,
    open_call,
    plain_number,
    plain_tensor,
)
from attentively.checks.question import Recorded, Results
from attentively.checks.recordings import Topic
from attentively.checks.replaceable_attention import Seat, seats, weights_of
from attentively.checks.since_2017.long_searches import expect_an_end, with_an_end
from attentively.checks.since_2017.score_encodings import DISTANCE, NOTHING, POSITION, encodings
from attentively.checks.student_modules import State, built, expect_learned, shaken
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
from attentively.layers.layer_norm import LayerNorm
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel

__all__ = [
    "abrupt",
    "alibi_bias",
    "cache",
    "distance",
    "grouped",
    "in_groups",
    "norm",
    "once_solved",
    "progress",
    "ready",
    "rotation",
    "some_encodings",
    "with_norm",
]

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress

_SENTENCES = ("the dogs eat the bread", "she sleeps")
"""The sentences that the checks translate."""


def ready() -> None:
    """Print that the package and these checks work."""
    _parts.explain_undefined_names()
    model = _small_model()
    parameters = sum(each.numel() for each in model.parameters())
    print(f"PyTorch {torch.__version__}, a language model with {parameters:,} parameters: ready.")


# In the package's language model


def _small_model(**choices: Any) -> LanguageModel:
    """Return a small language model with parameters that differ clearly."""
    config = LanguageModelConfig(
        vocab_size=11, d_model=16, num_heads=4, d_ff=24, num_layers=1, dropout=0.0, **choices
    )
    return cast(LanguageModel, shaken(LanguageModel(config)))


def _expect_same_model(
    model: LanguageModel, put_in: Callable[[LanguageModel], None], what: str
) -> None:
    """Replace a part of a model: the logits must stay the same, also token by token."""
    ids = torch.randint(0, 11, (2, 6))
    with torch.no_grad():
        expected = model(ids)
    put_in(model)

    def at_once(ids: Tensor) -> Tensor:
        with torch.no_grad():
            return model(ids)

    def word_by_word(ids: Tensor) -> Tensor:
        said = []
        with torch.no_grad():
            state = model.start(ids[:, :4])
            for token in ids[:, 4:].T:
                logits, state = model.step(token, state)
                said.append(logits)
        return torch.stack(said, dim=1)

    where = {"ids": ids}
    name = f"the logits of the package's language model with your {what}"
    expect_equal(call(at_once, where), expected, name, where)
    expect_equal(call(word_by_word, where), expected[:, 4:], f"{name}, token by token", where)


class _Own(AttentionPosition):
    """A student's positions, as an attention asks for them."""

    def __init__(
        self,
        turn: Callable[[Tensor, int], object] | None = None,
        bias: Callable[[int, int, int], object] | None = None,
    ) -> None:
        super().__init__()
        self.own_turn, self.own_bias = turn, bias

    def turn(self, x: Tensor, first: int) -> Tensor:
        return x if self.own_turn is None else cast(Tensor, in_32_bits(self.own_turn(x, first)))

    def bias(self, query: Tensor, key_len: int) -> Tensor | None:
        if self.own_bias is None:
            return None
        bias = self.own_bias(query.shape[1], query.shape[2], key_len)
        return cast(Tensor, in_32_bits(bias)).unsqueeze(0)


# Part 1


@_parts.part(
    "rotary",
    "rotate",
    rebuilds=("attentively.attention.positional:RotaryPositionalEmbedding.turn",),
    refuses=("attentively.attention.positional:RotaryPositionalEmbedding",),
)
def rotation(candidate: object, thorough: bool = False) -> None:
    """Check vectors that are rotated by their positions, with either way of pairing."""
    way = _topic.examine("rotate", candidate, thorough, tidy=_in_32_bits)

    def put_in(model: LanguageModel) -> None:
        for attention in seats(model).values():
            attention.position = _Own(turn=cast(Any, candidate))
            if way:
                _pair_halves(attention)

    open_call.once(_expect_same_model, _small_model(positions="rotary"), put_in, "rotate")


def _pair_halves(attention: MultiHeadAttention) -> None:
    """Reorder the components of each head, so that neighbours are d/2 apart."""
    size = attention.d_head
    order = torch.arange(size).reshape(-1, 2).T.flatten()
    with torch.no_grad():
        for layer in (attention.query_projection, attention.key_projection):
            for each in (layer.weight, layer.bias):
                each.copy_(each.unflatten(0, (-1, size))[:, order].flatten(0, 1))


# Part 2


@_parts.part(
    "ALiBi",
    "slopes",
    "alibi",
    rebuilds=(
        "attentively.attention.positional:alibi_slopes",
        "attentively.attention.positional:ALiBi.bias",
    ),
    refuses=("attentively.attention.positional:ALiBi",),
)
def alibi_bias(slopes: object, alibi: object, thorough: bool = False) -> None:
    """Check the slopes, and the bias of a causal attention."""
    _topic.examine("slopes", slopes, thorough, tidy=_as_tensor)
    properties = {"": _expect_causal}
    _topic.examine("alibi", alibi, thorough, properties=properties, tidy=_with_infinity)

    def put_in(model: LanguageModel) -> None:
        for attention in seats(model).values():
            attention.position = _Own(bias=cast(Any, alibi))

    open_call.once(_expect_same_model, _small_model(positions="alibi"), put_in, "alibi")


def _in_32_bits(answer: object, inputs: Inputs) -> object:
    return in_32_bits(answer)


def _as_tensor(answer: object, inputs: Inputs) -> object:
    if isinstance(answer, list | tuple) and all(plain_number(each) is not None for each in answer):
        return torch.tensor([plain_number(each) for each in answer])
    return in_32_bits(answer)


def _with_infinity(answer: object, inputs: Inputs) -> object:
    """Replace numbers that hide a position as well as −inf does."""
    answer = in_32_bits(answer)
    if type(answer) is Tensor and answer.layout == torch.strided:
        answer = answer.masked_fill(answer <= -1e4, -torch.inf)
    return answer


def _expect_causal(results: Results, inputs: Inputs) -> None:
    """Test which positions are masked."""
    num_heads, queries, keys = inputs.values()
    bias = plain_tensor(results["the bias"], "the bias", inputs)
    if bias.shape != (num_heads, queries, keys):
        return
    if bias.isnan().any():
        raise CheckFailed(
            "  alibi: The bias contains NaN, because 0 · (−inf) is NaN. Set −inf with torch.where "
            f"or masked_fill, without a product.\n{describe(inputs)}"
        )
    hidden, seen = bias == -torch.inf, causal_mask(keys)[0, keys - queries :]
    if (hidden & seen).any():
        why = (
            "A position up to the query is masked. A query may attend to itself and all earlier "
            "ones"
        )
        if (hidden == ~causal_mask(keys)[0, :queries]).all():
            why += "; the queries are the last positions, not the first"
        raise CheckFailed(f"  alibi: {why}.\n{describe(inputs)}")
    if not (hidden | seen).all():
        raise CheckFailed(
            "  alibi: A later position is not masked. The attention is causal: where the key comes "
            f"after the query, the bias must be −inf.\n{describe(inputs)}"
        )


# Part 3


@_parts.part(
    "RMSNorm",
    "RMSNorm",
    rebuilds=("attentively.layers.rms_norm:rms_norm",),
    refuses=(
        "attentively.layers.rms_norm:RMSNorm",
        "torch.nn:RMSNorm",
        "torch.nn.functional:rms_norm",
        "torch:rms_norm",
    ),
)
def norm(candidate: object, thorough: bool = False) -> None:
    """Check RMSNorm, by itself and in the trained translator."""
    asked: dict[str, Any] = {"d_model": 2}
    built(candidate, asked, {"gain": torch.ones(2)})
    fresh = cast(nn.Module, call(candidate, asked)).state_dict()["gain"]
    if not torch.equal(fresh, torch.ones(2)):
        raise CheckFailed(f"  RMSNorm: gain must be initialised to ones.\n{describe(asked)}")
    _topic.examine("RMSNorm", candidate, thorough, tidy=_in_32_bits)
    put_in = partial(_norm_put_in, candidate, which="last_norm")
    expect_same_translations(put_in, _SENTENCES[-1:], "RMSNorm", TRANSFORMER)


class _AsLayerNorm(nn.Module):
    """Layer normalisation from a student's RMSNorm: of the centred vector, then shifted."""

    def __init__(self, made: nn.Module, shift: Tensor | None, centre: bool) -> None:
        super().__init__()
        self.made, self.shift, self.centre = made, shift, centre

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(dim=-1, keepdim=True) if self.centre else x
        y = cast(Tensor, in_32_bits(self.made(x)))
        return y if self.shift is None else y + self.shift


def _norm_put_in(candidate: object, model: nn.Module, centre: bool = True, which: str = "") -> None:
    """Replace the layer normalisations whose name ends so by the student's RMSNorm."""
    found = {name: each for name, each in model.named_modules() if isinstance(each, LayerNorm)}
    for name, old in found.items():
        if not name.endswith(which):
            continue
        made = cast(Any, candidate)(len(old.gain))
        made.load_state_dict({"gain": old.gain.detach()})
        where, _, own = name.rpartition(".")
        new = _AsLayerNorm(made, old.shift.detach(), centre)
        setattr(model.get_submodule(where), own, new.eval())


def with_norm(candidate: object, centre: bool) -> Checkpoint:
    """Return the trained translator with the student's RMSNorm everywhere, centred or not."""
    checkpoint = load_pretrained(TRANSFORMER)
    _norm_put_in(candidate, checkpoint.model, centre)
    return checkpoint


# Part 4


@_parts.part(
    "grouped-query attention",
    "GroupedQueryAttention",
    rebuilds=("attentively.attention.multi_head:MultiHeadAttention",),
    refuses=(
        "attentively.attention.plain_multi_head:MultiHeadAttention",
        "torch.nn:MultiheadAttention",
    ),
    step=True,
)
def grouped(candidate: object, thorough: bool = False) -> None:
    """Check grouped-query attention, separately and in the package's models."""
    open_call.once(_expect_layers, candidate, 4, 2, 1)
    _topic.examine("GroupedQueryAttention", candidate, thorough)
    open_call.once(_expect_refusal, candidate, {"d_model": 8, "num_heads": 4, "num_kv_heads": 3})
    open_call.once(_expect_refusal, candidate, {"d_model": 6, "num_heads": 4, "num_kv_heads": 2})
    open_call.once(_expect_gradients, candidate)

    def put_in(model: nn.Module) -> None:
        for name, attention in seats(model).items():
            if "layers.0" in name:  # one attention of each kind
                _seat(candidate, model, name, attention, weights_of(attention))

    open_call.once(
        _expect_same_model, _small_model(num_kv_heads=2), put_in, "GroupedQueryAttention"
    )
    expect_same_translations(put_in, _SENTENCES, "GroupedQueryAttention", TRANSFORMER)


class _ContextOf(nn.Module):
    """An attention that returns the context only."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, *inputs: Tensor) -> object:
        return self.attention(*inputs)[0]


def _expect_gradients(candidate: object) -> None:
    made = call(candidate, {"d_model": 8, "num_heads": 4, "num_kv_heads": 2})
    x = torch.randn(2, 3, 8)
    expect_learned(
        _ContextOf(cast(nn.Module, made)), {"query": x, "key": x + 1, "value": x - 1}, ["query"]
    )


def _expect_layers(candidate: object, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """Require the layers of the attention; a wrong size is explained."""
    asked = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    state = MultiHeadAttention(d_model, num_heads, num_kv_heads=num_kv_heads).state_dict()
    try:
        built(candidate, asked, state)
    except CheckFailed as failed:
        if "the shape of key_projection" in str(failed) or "the shape of value_pro" in str(failed):
            first, _, rest = str(failed).partition("\n")
            raise CheckFailed(
                f"{first} The key and value projections have num_kv_heads · d_head output "
                f"features, where d_head = d_model / num_heads.\n{rest}"
            ) from None
        raise


def _expect_refusal(candidate: object, asked: Inputs) -> None:
    """Refuse a class that accepts sizes which do not divide."""
    raised = ""
    try:
        cast(Any, candidate)(*asked.values())
    except ValueError:
        return
    except Exception as error:
        raised = f" Your class raises {type(error).__name__}."
    raise CheckFailed(
        "  GroupedQueryAttention: Expected a ValueError, because d_model must be divisible by "
        f"num_heads, and num_heads by num_kv_heads.{raised}\n{describe(asked)}"
    )


def _seat(
    candidate: object, model: nn.Module, name: str, old: MultiHeadAttention, state: State
) -> None:
    """Replace an attention of the model by the student's, with these weights."""
    d_model = len(state["output_projection.bias"])
    kv_heads = len(state["key_projection.bias"]) // old.d_head
    made = cast(Any, candidate)(d_model, d_model // old.d_head, kv_heads)
    made.load_state_dict(state)
    where, _, own = name.rpartition(".")
    setattr(model.get_submodule(where), own, Seat(made).eval())


def in_groups(candidate: object, num_kv_heads: int) -> Checkpoint:
    """Return the trained translator, the key and value heads of each group averaged.

    Source: Ainslie et al. (2023), https://arxiv.org/abs/2305.13245, section 2.1; there training
    goes on after it, and here it does not.
    """
    checkpoint = load_pretrained(TRANSFORMER)
    for name, attention in seats(checkpoint.model).items():
        state = weights_of(attention)
        for each in ("key", "value"):
            for kind in ("weight", "bias"):
                whole = state[f"{each}_projection.{kind}"]
                heads = whole.unflatten(0, (num_kv_heads, -1, attention.d_head))
                state[f"{each}_projection.{kind}"] = heads.mean(dim=1).flatten(0, 1)
        _seat(candidate, checkpoint.model, name, attention, state)
    return checkpoint


# Part 5

_LONGEST = 300


def some_encodings() -> list[object]:
    """Return the encodings on which part 5 is checked; printing one shows its name."""
    return [scores for scores, _, _ in encodings()]


@_parts.part("relative positions", "verdict")
def distance(candidate: object, thorough: bool = False) -> None:
    """Check a test of encodings on correct and faulty ones."""
    for d_head in open_call.new("distance", (8, 12) if thorough else (8,)):
        for scores, right, why in encodings() if d_head == 8 else encodings()[1::6]:
            unnamed = scores._replace(name="an encoding")  # the name must not reveal the answer
            inputs = {"scores": unnamed, "d_head": d_head, "longest": _LONGEST}
            said = call(candidate, inputs)  # it may sample at random
            if said not in (DISTANCE, POSITION, NOTHING):
                expect_value(said, right, "the verdict", inputs)
            if said != right:
                raise CheckFailed(
                    f"  verdict: For the encoding “{scores}”, you returned “{said}”; expected "
                    f"“{right}”. {why}\n{describe({'d_head': d_head, 'longest': _LONGEST})}"
                )


# Part 6


@_parts.part("cache size", "cache_bytes", "longest_text")
def cache(cache_bytes: object, longest_text: object, thorough: bool = False) -> None:
    """Check the sizes of caches, and the longest text whose cache fits."""
    _topic.examine("cache_bytes", cache_bytes, thorough)
    _topic.examine(
        "longest_text",
        with_an_end(longest_text),
        thorough,
        properties={"": expect_an_end},
        explain=partial(_about_length, cache_bytes),
    )


def _about_length(cache_bytes: object, got: object, recorded: Recorded) -> str:
    """Return what is wrong with a length; the student's `cache_bytes` is right."""
    model, memory, rows = recorded.case.inputs.values()
    number = plain_number(got)
    if number is None or not 0 <= number < 10**6 or number != int(number):
        return "Expected a whole number, or None if every length fits." if got is not None else ""
    if [*recorded.expected.values()] == [None]:
        return "All full windows fit and every layer has one, so every length fits: expected None."
    taken = call(cache_bytes, {"model": model, "length": int(number), "rows": rows})
    return f"{int(number):,} positions take {taken:,} bytes, and {memory:,} are available."


# Part 7


@_parts.part("exact match", "shares", "size_needed", "times_larger")
def abrupt(
    shares: object, size_needed: object, times_larger: object, thorough: bool = False
) -> None:
    """Check two measures of the same outputs, and the sizes that follow from a scaling law."""
    _topic.examine("shares", shares, thorough)
    _topic.examine("size_needed", size_needed, thorough)
    _topic.examine("times_larger", times_larger, thorough)
