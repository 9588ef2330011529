"""Checks of the assignment on changes since 2017: positions, normalisation, heads and scaling.

Parts 1 to 4 rebuild modules of the package and are run in its language model and in its trained
translator. Parts 5 to 7 are original problems: a test of what attention scores depend on, the size
of a key–value cache, and exact match compared with token accuracy.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import AttentionPosition
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
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
from attentively.checks.named_cases import expect_all, named_cases, near
from attentively.checks.replaceable_attention import Seat, seats, weights_of
from attentively.checks.since_2017.cache_sizes import (
    LONGEST_FAULTS,
    WEIGHT_FAULTS,
    cache_model,
    expect_an_end,
    longest,
    weighed,
    with_an_end,
)
from attentively.checks.since_2017.exact_match_rates import (
    NEEDED_TWINS,
    SHARES_TWINS,
    TIMES_TWINS,
    needed,
    shares_of,
    times,
)
from attentively.checks.since_2017.grouped_heads import group_twins, look
from attentively.checks.since_2017.rotary_vectors import TURN_TWINS, turned
from attentively.checks.since_2017.score_encodings import DISTANCE, NOTHING, POSITION, encodings
from attentively.checks.student_modules import (
    State,
    built,
    expect_learned,
    run,
    shaken,
    state_of,
)
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
from attentively.layers.layer_norm import LayerNorm
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.language_model import LanguageModel, LanguageModelConfig

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
progress = _parts.progress

SENTENCES = [
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
    "the dog runs",
]


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
        vocab_size=11, d_model=16, num_heads=4, d_ff=24, num_layers=2, dropout=0.0, **choices
    )
    return cast(LanguageModel, shaken(LanguageModel(config)))


def _expect_same_model(
    model: LanguageModel, put_in: Callable[[LanguageModel], None], what: str
) -> None:
    """Replace a part of a model: the logits must stay the same, also token by token."""
    ids = torch.randint(0, 11, (2, 9))
    with torch.no_grad():
        expected = model(ids).logits
    put_in(model)

    def at_once(ids: Tensor) -> Tensor:
        with torch.no_grad():
            return model(ids).logits

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
    cases: list[tuple[Tensor, int | None]] = [
        (torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]).reshape(1, 2, 2, 2), None),
        (torch.tensor([1.0, 2.0, 3.0, 4.0] * 2).reshape(1, 1, 2, 4), None),
        (torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4), 2),
        (torch.randn(2, 3, 5, 8), None),
        (torch.randn(3, 2, 4, 6), 7),
    ]
    if thorough:
        cases += [(torch.randn(1, 5, 7, 10), 1500), (torch.randn(2, 1, 11, 64), 0)]
    ways = {False, True}  # of pairing that fit every answer so far
    for x, first in cases:
        inputs = {"x": x} | ({} if first is None else {"first": first})
        answer = in_32_bits(call_twice(candidate, inputs))
        right = {halves: turned(x, first or 0, halves=halves) for halves in (False, True)}
        got = plain_tensor(answer, "the rotated vectors", inputs)
        fit = {h for h, each in right.items() if got.shape == each.shape and _close(got, each)}
        if fit and not fit & ways:
            raise CheckFailed(
                "  The pairing depends on the input: for some sizes neighbours are paired, for "
                "others "
                f"halves. Use one pairing for all inputs.\n{describe(inputs)}"
            )
        if not fit:
            expected = right[min(ways)]
            expect_equal(got, expected, "the rotated vectors", inputs, TURN_TWINS)
        ways &= fit
    source = {"x": torch.randn(1, 2, 3, 4, requires_grad=True)}
    expect_gradients_through(candidate, source, source)
    halves = min(ways)

    def put_in(model: LanguageModel) -> None:
        for attention in seats(model).values():
            attention.position = _Own(turn=cast(Any, candidate))
            if halves:
                _pair_halves(attention)

    _expect_same_model(_small_model(positions="rotary"), put_in, "rotate")


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, 1e-4, 1e-4)


def _pair_halves(attention: MultiHeadAttention) -> None:
    """Reorder the components of each head, so that neighbours are d/2 apart."""
    size = attention.d_head
    order = torch.arange(size).reshape(-1, 2).T.flatten()
    with torch.no_grad():
        for layer in (attention.query_projection, attention.key_projection):
            for each in (layer.weight, layer.bias):
                each.copy_(each.unflatten(0, (-1, size))[:, order].flatten(0, 1))


# Part 2


def _slopes(num_heads: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)


_SLOPES_TWINS = [
    *known(
        "slopes: The exponents start at 0. Head 1 of n has the slope 2^(−8/n), and the last "
        "2^(−8).",
        lambda n: 2.0 ** (-8 * torch.arange(n) / n),
    ),
    *known(
        "slopes: The factor 1/2 between heads is correct for 8 heads only. For n heads it is "
        "2^(−8/n), so that the last slope is always 2^(−8).",
        lambda n: 2.0 ** -torch.arange(1.0, n + 1),
    ),
    *known("slopes: The order is reversed: the first head has the largest slope.",
           lambda n: _slopes(n).flip(0)),
    *known("slopes: The slopes must be positive; the minus sign belongs to the bias.",
           lambda n: -_slopes(n)),
    *known("slopes: They decrease by equal differences. Each is the previous one times 2^(−8/n).",
           lambda n: torch.arange(n, 0, -1) / n, lambda n: torch.linspace(0.5, 2**-8, n)),
    *known("slopes: The exponent is wrong; for head h of n it is −8h/n.",
           lambda n: 2.0 ** (-8 / torch.arange(1, n + 1)),
           lambda n: 2.0 ** (-n * torch.arange(1, n + 1) / 8)),
    *known("slopes: The exponent lacks the minus sign, so the slopes are larger than 1.",
           lambda n: 1 / _slopes(n)),
]  # fmt: skip


def _bias(
    num_heads: int, queries: int, keys: int, *,
    distance: Callable[[Tensor, Tensor], Tensor] = lambda i, j: i - j,
    slopes: Callable[[int], Tensor] = _slopes, aligned: bool = True, sign: float = -1.0,
) -> Tensor:  # fmt: skip
    """Return the bias where a query may attend, and 0 elsewhere."""
    j = torch.arange(keys).unsqueeze(0)
    i = torch.arange(queries).unsqueeze(1) + (keys - queries if aligned else 0)
    values = sign * slopes(num_heads).reshape(-1, 1, 1) * distance(i, j)
    return values.masked_fill(_later(queries, keys), 0.0)


def _later(queries: int, keys: int) -> Tensor:
    """Return where a key comes after the query."""
    return ~causal_mask(keys)[0, keys - queries :]


_BIAS_TWINS = [
    *known("alibi: The bias has the wrong sign: distant keys receive higher scores than near ones.",
           partial(_bias, sign=1.0)),
    *known(
        "alibi: The queries are treated as the first positions. They are the last ones, as in "
        "generation with a cache.",
        partial(_bias, aligned=False),
        partial(_bias, aligned=False, distance=lambda i, j: (i - j).abs()),
        partial(_bias, aligned=False, distance=lambda i, j: (i - j).clamp(min=0)),
    ),
    *known(
        "alibi: All values of a row are shifted by the same amount. A softmax would not change, "
        "but "
        "here the bias of a position to itself must be 0.",
        partial(_bias, sign=1.0, distance=lambda i, j: j + 0 * i),
        partial(_bias, distance=lambda i, j: j.max() - j + 0 * i),
        partial(_bias, distance=lambda i, j: i - j - 1),
        partial(_bias, distance=lambda i, j: i - j + 1),
    ),
    *known("alibi: All heads have the same slope; each head must have its own.",
           partial(_bias, slopes=lambda n: torch.ones(n)),
           partial(_bias, slopes=lambda n: torch.full((n,), 0.5)),
           partial(_bias, slopes=lambda n: _slopes(n)[:1].expand(n))),
    *known("alibi: The distance is squared; the bias must be linear in the distance.",
           partial(_bias, distance=lambda i, j: (i - j) ** 2)),
    *known("alibi: The slopes are used in reverse order.",
           partial(_bias, slopes=lambda n: _slopes(n).flip(0))),
    *known("alibi: The bias is 0 everywhere; it must be −slope · distance.",
           partial(_bias, sign=0.0)),
    *known("alibi: All distances above 0 have the same bias; it must be −slope · distance.",
           partial(_bias, distance=lambda i, j: (i != j).float())),
]  # fmt: skip


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
    for num_heads in (8, 2, 1, 4, *((16, 32) if thorough else ())):
        inputs = {"num_heads": num_heads}
        answer = call_twice(slopes, inputs)
        if isinstance(answer, list | tuple) and all(plain_number(e) is not None for e in answer):
            answer = torch.tensor([plain_number(each) for each in answer])
        right = _slopes(num_heads)
        expect_equal(in_32_bits(answer), right, "the slopes", inputs, _SLOPES_TWINS)
    sizes = [(1, 3, 3), (2, 3, 3), (1, 1, 4), (8, 2, 5)]
    for num_heads, queries, keys in sizes + [(4, 7, 7), (16, 3, 11), (2, 1, 1)] * thorough:
        inputs = {"num_heads": num_heads, "queries": queries, "keys": keys}
        got = plain_tensor(in_32_bits(call_twice(alibi, inputs)), "the bias", inputs)
        _examine_bias(got, _later(queries, keys), inputs)

    def put_in(model: LanguageModel) -> None:
        for attention in seats(model).values():
            attention.position = _Own(bias=cast(Any, alibi))

    _expect_same_model(_small_model(positions="alibi"), put_in, "alibi")


def _examine_bias(got: Tensor, later: Tensor, inputs: Inputs) -> None:
    right = _bias(*inputs.values())
    if got.shape != right.shape:
        expect_tensor(torch.zeros(got.shape), right.shape, "the bias", inputs)
    if got.isnan().any():
        raise CheckFailed(
            "  alibi: The bias contains NaN, because 0 · (−inf) is NaN. Set −inf with torch.where "
            f"or masked_fill, without a product.\n{describe(inputs)}"
        )
    hidden = got <= -1e4
    seen = got.masked_fill(later, 0.0)
    if (hidden & ~later).any():
        why = (
            "a position up to the query is masked. A query may attend to itself and all earlier "
            "ones"
        )
        if bool(
            (hidden == (torch.arange(later.shape[1]) > torch.arange(len(later))[:, None])).all()
        ):
            why += "; the queries are the last positions, not the first"
        raise CheckFailed(f"  alibi: {why[0].upper()}{why[1:]}.\n{describe(inputs)}")
    expect_equal(seen, right, "the bias of the keys up to the query", inputs, _BIAS_TWINS)
    if (later & ~hidden).any():
        raise CheckFailed(
            "  alibi: A later position is not masked. The attention is causal: where the key comes "
            f"after the query, the bias must be −inf.\n{describe(inputs)}"
        )


# Part 3


def _scaled(
    x: Tensor, gain: Tensor, eps: float, *,
    about: Callable[[Tensor], Tensor] = lambda x: x,
    size: Callable[[Tensor, float], Tensor] = lambda x, eps: (
        x.square().mean(dim=-1, keepdim=True) + eps
    ).sqrt(),
    after: Callable[[Tensor, Tensor], Tensor] = lambda y, gain: gain * y,
) -> Tensor:  # fmt: skip
    """Return vectors divided by their root mean square; the keywords make mistakes."""
    return after(about(x) / size(x, eps), gain)


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


_NORM_WAYS: dict[str, list[dict[str, Any]]] = {
    "The mean is subtracted. That is layer normalisation; RMSNorm keeps the mean.":
        [{"about": _centred,
          "size": lambda x, eps: (_centred(x).square().mean(-1, keepdim=True) + eps).sqrt()},
         {"about": _centred}],
    "The variance around the mean is used. RMSNorm needs the mean of the squared entries.":
        [{"size": lambda x, eps: (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()},
         {"size": lambda x, eps: (x.var(-1, keepdim=True) + eps).sqrt()},
         {"size": lambda x, eps: x.std(-1, keepdim=True) + eps}],
    "The sum of the squares is not divided by d. RMSNorm needs their mean.":
        [{"size": lambda x, eps: (x.square().sum(-1, keepdim=True) + eps).sqrt()},
         {"size": lambda x, eps: x.norm(dim=-1, keepdim=True) + eps}],
    "The square root is missing: the vector is divided by its mean square.":
        [{"size": lambda x, eps: x.square().mean(-1, keepdim=True) + eps}],
    "eps is added after the square root; it must be added to the mean square.":
        [{"size": lambda x, eps: x.square().mean(-1, keepdim=True).sqrt() + eps}],
    "The value of eps is not the argument of __init__.":
        [{"size": lambda x, eps, other=other: (x.square().mean(-1, keepdim=True) + other).sqrt()}
         for other in (1e-5, 1e-6, 1e-8, torch.finfo(torch.float32).eps)],
    "eps is not used, so a vector of zeros becomes NaN.":
        [{"size": lambda x, eps: x.square().mean(-1, keepdim=True).sqrt()}],
    "The entries are not squared before the mean. Square each entry, take the mean, then the "
    "square root.":
        [{"size": lambda x, eps: x.abs().mean(-1, keepdim=True) + eps}],
    "The mean is taken over several vectors; it must be taken over the last dimension only.":
        [{"size": lambda x, eps: (x.square().mean() + eps).sqrt()},
         {"size": lambda x, eps: (x.square().mean(0, keepdim=True) + eps).sqrt()},
         {"size": lambda x, eps: (x.square().mean(-2, keepdim=True) + eps).sqrt()}],
    "keepdim=True is missing: vectors are divided by the root mean squares of others.":
        [{"size": lambda x, eps: (x.square().mean(-1) + eps).sqrt()}],
    "The vector is multiplied by its root mean square; it must be divided by it.":
        [{"size": lambda x, eps: 1 / (x.square().mean(-1, keepdim=True) + eps).sqrt()}],
    "gain is not used.": [{"after": lambda y, gain: y}],
    "gain is added; it must be multiplied.": [{"after": lambda y, gain: y + gain}],
    "The factor is 1 + gain, as in some models. Here the factor is gain, initialised to 1.":
        [{"after": lambda y, gain: y * (1 + gain)}],
}  # fmt: skip


def _norm_twins(gain: Tensor, eps: float) -> list[Twin]:
    def answer(x: Tensor, *, way: dict[str, Any]) -> Tensor:
        return _scaled(x, gain, eps, **way)

    return [
        Twin(f"RMSNorm: {said}", partial(answer, way=way))
        for said, ways in _NORM_WAYS.items()
        for way in ways
    ]


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
    """Check RMSNorm against PyTorch's, and in the trained translator."""
    asked: dict[str, Any] = {"d_model": 2}
    born = built(candidate, asked, {"gain": torch.ones(2)})
    fresh = cast(nn.Module, call(candidate, asked)).state_dict()["gain"]
    if not torch.equal(fresh, torch.ones(2)):
        raise CheckFailed(f"  RMSNorm: gain must be initialised to ones.\n{describe(asked)}")
    x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    _compare_norm(born, {"gain": torch.ones(2)}, 1e-5, x)
    _compare_norm(born, {"gain": torch.ones(2)}, 1e-5, torch.zeros(1, 2))
    settings = [(5, 1e-5, (2, 3, 5)), (3, 0.5, (2, 3)), (4, 1e-2, (1, 4))]
    settings += [(64, 1e-6, (2, 3, 7, 64)), (7, 1e-3, (11, 7))] if thorough else []
    for d_model, eps, shape in settings:
        state = {"gain": torch.randn(d_model)}
        made = built(candidate, {"d_model": d_model, "eps": eps}, state)
        for size in (1.0, 0.01):
            _compare_norm(made, state, eps, size * (torch.randn(shape) + 1))
    made = built(candidate, {"d_model": 5}, {"gain": torch.randn(5)})
    expect_learned(made, {"x": torch.randn(2, 3, 5)}, ["x"], slopes=False)
    _compare_gradients(made, torch.randn(2, 3, 5, requires_grad=True))
    expect_same_translations(
        partial(_norm_put_in, candidate), SENTENCES[: 1 + 2 * thorough], "RMSNorm", TRANSFORMER
    )


def _compare_norm(made: nn.Module, state: State, eps: float, x: Tensor) -> None:
    inputs = {"x": x}
    answer = run(made, inputs, "What RMSNorm returns")
    gain = state["gain"]
    right = F.rms_norm(x, gain.shape, gain, eps)
    twins = _norm_twins(gain, eps)
    expect_equal(answer, right, "the normalised vectors", {**inputs}, twins)


def _compare_gradients(made: nn.Module, x: Tensor) -> None:
    """Refuse a module without a gradient through the square root."""
    gain = cast(Tensor, made.gain)
    goal = torch.linspace(-1, 1, x.numel()).reshape(x.shape)
    got, right = (
        torch.autograd.grad((cast(Tensor, y) * goal).sum(), x)[0]
        for y in (made(x), F.rms_norm(x, gain.shape, gain, 1e-5))
    )
    twins = known(
        "The values are correct, but no gradient flows through the square root. Remove .detach(), "
        ".item() or torch.no_grad().",
        lambda x: _scaled(x, gain, 1e-5, about=lambda _: goal),
    )
    expect_equal(got, right, "the gradient that reaches x", {"x": x.detach()}, twins)


class _AsLayerNorm(nn.Module):
    """Layer normalisation from a student's RMSNorm: of the centred vector, then shifted."""

    def __init__(self, made: nn.Module, shift: Tensor | None, centre: bool) -> None:
        super().__init__()
        self.made, self.shift, self.centre = made, shift, centre

    def forward(self, x: Tensor) -> Tensor:
        y = cast(Tensor, in_32_bits(self.made(_centred(x) if self.centre else x)))
        return y if self.shift is None else y + self.shift


def _norm_put_in(candidate: object, model: nn.Module, centre: bool = True) -> None:
    """Replace every layer normalisation by the student's RMSNorm."""
    found = {name: each for name, each in model.named_modules() if isinstance(each, LayerNorm)}
    for name, old in found.items():
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


def _attention(d_model: int, num_heads: int, num_kv_heads: int) -> MultiHeadAttention:
    return cast(
        MultiHeadAttention,
        shaken(MultiHeadAttention(d_model, num_heads, num_kv_heads=num_kv_heads)),
    )


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
    # With one group, a wrong split can give the same context as a wrong order at the end.
    sizes = [(4, 2, 2), (4, 2, 1), (8, 4, 2), (12, 6, 2), (6, 3, 3)]
    sizes += [(20, 10, 5), (12, 4, 1), (24, 12, 3)] if thorough else []
    for d_model, num_heads, num_kv_heads in sizes:
        asked = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
        state = state_of(_attention(*asked.values()))
        made = _made(candidate, asked, state)
        x = torch.randn(1, 2, d_model) if d_model == 4 else torch.randn(2, 5, d_model)
        inputs: dict[str, Any] = {"query": x, "key": x, "value": x}
        _compare_groups(made, state, asked, inputs)
        inputs = {"query": torch.randn(2, 3, d_model), "key": torch.randn(2, 5, d_model)}
        inputs["value"] = torch.randn(2, 5, d_model)
        _compare_groups(made, state, asked, inputs)
        inputs["mask"] = torch.arange(5).reshape(1, 1, 5) < torch.tensor([3, 4]).reshape(2, 1, 1)
        _compare_groups(made, state, asked, inputs)
    _expect_refusal(candidate, {"d_model": 8, "num_heads": 4, "num_kv_heads": 3})
    _expect_refusal(candidate, {"d_model": 6, "num_heads": 4, "num_kv_heads": 2})
    asked = {"d_model": 8, "num_heads": 4, "num_kv_heads": 2}
    made = _made(candidate, asked, state_of(_attention(8, 4, 2)))
    x = torch.randn(2, 3, 8)
    expect_learned(_ContextOf(made), {"query": x, "key": x + 1, "value": x - 1}, ["query"])

    def put_in(model: nn.Module) -> None:
        for name, attention in seats(model).items():
            _seat(candidate, model, name, attention, weights_of(attention))

    _expect_same_model(_small_model(num_kv_heads=2), put_in, "GroupedQueryAttention")
    expect_same_translations(
        put_in, SENTENCES[: 1 + thorough], "GroupedQueryAttention", TRANSFORMER
    )


class _ContextOf(nn.Module):
    """An attention that returns the context only."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, *inputs: Tensor) -> object:
        return in_32_bits(self.attention(*inputs)[0])


def _made(candidate: object, asked: Inputs, state: State) -> nn.Module:
    """Return the student's attention; a wrong size of a layer is explained."""
    try:
        return built(candidate, asked, state)
    except CheckFailed as failed:
        if "the shape of key_projection" in str(failed) or "the shape of value_pro" in str(failed):
            first, _, rest = str(failed).partition("\n")
            raise CheckFailed(
                f"{first} The key and value projections have num_kv_heads · d_head output "
                f"features, "
                f"where d_head = d_model / num_heads.\n{rest}"
            ) from None
        raise


def _compare_groups(made: nn.Module, state: State, asked: Inputs, inputs: Inputs) -> None:
    heads, kv_heads = asked["num_heads"], asked["num_kv_heads"]
    answer = expect_pair(call_twice(made, inputs), ("context", "weights"), inputs)
    right = look(state, heads, kv_heads, *inputs.values())
    where = {"module": _Words(f"GroupedQueryAttention{tuple(asked.values())}")} | dict(inputs)
    for which, name in enumerate(("context", "weights")):
        twins = [
            Twin(twin.diagnosis, lambda _, *given, twin=twin: twin.answer(*given))
            for twin in group_twins(state, heads, kv_heads, which)
        ]
        twins += known(
            "The weights are returned first. Return the context, then the weights.",
            lambda *_, other=right[1 - which]: other,
        )
        hint = "Each of the num_heads heads has its own weights: (batch, num_heads, q, k)." * which
        expect_equal(in_32_bits(answer[which]), right[which], f"the {name}", where, twins, hint)


class _Words(str):
    """Text that a message shows without quotes."""

    __repr__ = str.__str__


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
    for d_head in (8, 12) if thorough else (8,):
        for scores, right, why in encodings():
            unnamed = scores._replace(name="an encoding")  # the name must not reveal the answer
            inputs = {"scores": unnamed, "d_head": d_head, "longest": _LONGEST}
            said = call(candidate, inputs)  # it may sample at random
            if said not in (DISTANCE, POSITION, NOTHING):
                expect_value(said, right, "the verdict", inputs)
            if said != right:
                raise CheckFailed(
                    f"  verdict: For the encoding “{scores}”, you returned “{said}”; expected "
                    f"“{right}”. "
                    f"{why}"
                    f"\n{describe({'d_head': d_head, 'longest': _LONGEST})}"
                )


# Part 6


def _exactly(got: object, right: object) -> bool:
    return (got is None) == (right is None) and plain_number(got) == right


@_parts.part("cache size", "cache_bytes", "longest_text")
def cache(cache_bytes: object, longest_text: object, thorough: bool = False) -> None:
    """Check the sizes of caches, and the longest text whose cache fits."""
    small = cache_model(2, 4, 2, 8)
    windowed = cache_model(3, 6, 2, 8, 4, window=5)
    mixed = cache_model(7, 8, 4, 16, 2, window=5, global_every=3)
    without = cache_model(6, 8, 4, 16, global_every=3)
    asked: list[tuple[Any, ...]] = [
        (small, 10, 1), (small, 10, 3), (windowed, 3, 1), (windowed, 5, 1), (windowed, 9, 2),
        (mixed, 4, 1), (mixed, 11, 3), (cache_model(5, 8, 1, 4, 1), 7, 1), (without, 11, 2),
    ]  # fmt: skip
    if thorough:
        asked += [
            (cache_model(80, 64, 8, 128), 4096, 1),
            (cache_model(32, 32, 8, 128, window=4096), 10000, 5),
            (cache_model(62, 32, 16, 128, window=1024, global_every=6), 131072, 1), (mixed, 1, 1),
        ]  # fmt: skip
    expect_all(
        cache_bytes, named_cases(("model", "length", "rows"), asked), weighed, "the bytes",
        [Twin(f"cache_bytes: {said}", partial(weighed, fault=f))
         for f, said in WEIGHT_FAULTS.items()],
        _exactly,
    )  # fmt: skip
    asked = [
        (small, 1280, 1), (small, 1279, 1), (small, 1281, 1), (small, 1279, 3), (small, 127, 1),
        (windowed, 700, 1), (windowed, 1919, 1), (windowed, 1920, 1), (windowed, 10**6, 2),
        (mixed, 9000, 1), (mixed, 100_000, 3), (mixed, 255, 1),
        (cache_model(4, 8, 2, 16, window=3, global_every=9), 4000, 1), (without, 20_000, 1),
    ]  # fmt: skip
    names = ("model", "memory", "rows")
    _expect_lengths(with_an_end(longest_text), named_cases(names, asked))
    if thorough:
        asked = [
            (cache_model(80, 64, 8, 128), 24 * 10**9, 1),
            (cache_model(80, 64, 64, 128), 24 * 10**9, 7),
            (cache_model(32, 32, 8, 128, window=4096), 2**29, 1),
            (cache_model(32, 32, 8, 128, window=4096), 2**29 - 1, 1),
            (cache_model(62, 32, 16, 128, window=1024, global_every=6), 10**10, 3),
        ]  # fmt: skip
        _expect_lengths(longest_text, named_cases(names, asked))


def _expect_lengths(candidate: object, cases: Sequence[Inputs]) -> None:
    """Refuse the first wrong length; a mistake is named if it explains all answers."""
    pairs = []
    for inputs in cases:
        pairs.append((call_twice(candidate, inputs), inputs))
        expect_an_end(pairs[-1][0], inputs)
    wrong = [pair for pair in pairs if not _exactly(pair[0], longest(*pair[1].values()))]
    if not wrong:
        return
    got, inputs = wrong[0]
    right = longest(*inputs.values())
    faults = [
        said
        for fault, said in LONGEST_FAULTS.items()
        if all(_exactly(each, longest(*of.values(), fault=fault)) for each, of in pairs)
    ]
    raise CheckFailed(
        f"  longest_text: {(faults or [_about(got, inputs)])[0]}\n{describe(inputs)}\n"
        f"  got         {show(got)}\n  expected    {show(right)}"
    )


def _about(got: object, inputs: Inputs) -> str:
    """Return what is wrong with a length."""
    model, memory, rows = inputs.values()
    number = plain_number(got)
    if got is not None and (number is None or number != number // 1 or number < 0):
        return "Expected a whole number, or None if every length fits."
    if number is None:
        return "None means that every length fits, but here some length is too large."
    if longest(model, memory, rows) is None:
        return "All full windows fit and every layer has one, so every length fits: expected None."
    taken = weighed(model, int(number), rows)
    return f"{int(number):,} positions take {taken:,} bytes, and {memory:,} are available."


# Part 7


@_parts.part("exact match", "shares", "size_needed", "times_larger")
def abrupt(
    shares: object, size_needed: object, times_larger: object, thorough: bool = False
) -> None:
    """Check two measures of the same outputs, and the sizes that follow from a scaling law."""
    texts = [
        (["a b", "a c"], ["a b", "a b"]),
        (["a b c d", "a"], ["a b c d", "b"]),
        (["a b c", "d e", "f g"], ["a b", "d e f", "f g"]),
        (["b a", "a b c x", "c"], ["a b", "a b c d", "c"]),
        (["le chat boit", "il est fatigué", "", "oui"],
         ["le chat boit le lait", "elle est fatiguée", "non", "oui"]),
    ]  # fmt: skip
    if thorough:
        texts += [(["x"] * 3 + ["x y z"] * 4, ["x"] * 2 + ["y"] + ["x y z"] * 3 + ["x y y"])]
    asked = named_cases(
        ("outputs", "references"),
        [tuple([sentence.split() for sentence in side] for side in pair) for pair in texts],
    )
    for place, name in enumerate(("tokens", "exact", "expected")):
        expect_all(
            shares, asked, lambda o, r, place=place: shares_of(o, r)[place],
            f"{name}, one of the three values of shares", SHARES_TWINS[place], near,
            pick=partial(_one_of_three, place),
        )  # fmt: skip
    laws = [((1.0, 1.0), 1, 0.5), ((1.0, 0.5), 5, 0.5), ((3e6, 0.25), 20, 0.9)]
    laws += [((8.8e13, 0.076), 4, 0.1), ((1e5, 0.3), 3, 0.99)] if thorough else []
    expect_all(
        size_needed, named_cases(("law", "length", "share"), laws), needed, "the size",
        NEEDED_TWINS, near,
    )  # fmt: skip
    spans = [((1.0, 1.0), 0.1, 0.9), ((7.0, 0.5), 0.1, 0.9), ((3e6, 0.25), 0.01, 0.5)]
    spans += [((8.8e13, 0.076), 0.25, 0.75), ((1e5, 0.3), 0.5, 0.5)] if thorough else []
    expect_all(
        times_larger, named_cases(("law", "low", "high"), spans), times, "the ratio",
        TIMES_TWINS, near,
    )  # fmt: skip


def _one_of_three(place: int, answer: object, inputs: Inputs) -> object:
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise CheckFailed(
            "  Expected three numbers, `return tokens, exact, expected`; got "
            f"{answer!r}\n{describe(inputs)}"
        )
    return answer[place]
