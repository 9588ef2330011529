"""Checks of the assignment on positions: a table, its use, a rotation, an audit, a head, bugs.

Parts 1, 2 and 3 rebuild what the package or the page has, and the table and its use are put into
the package's trained Transformer. The answers to parts 4, 5 and 6 stand nowhere: the audit is
tried on layers that each hide their sense of order from some test, a head is judged by where it
looks, and three broken encodings are examined symptom by symptom.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import AttentionPosition, sinusoids, steps_to_keys
from attentively.attention.scaled_dot_product import scaled_dot_product_attention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    in_turn,
    known,
    once_solved,
)
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
from attentively.layers.feed_forward import FeedForward
from attentively.layers.transformer_layers import EncoderLayer
from attentively.models.transformer import Transformer

__all__ = [
    "added",
    "bug_hunt",
    "looking_back",
    "matrix",
    "once_solved",
    "order",
    "progress",
    "ready",
    "rotation",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package and these checks work."""
    _parts.explain_undefined_names()
    positions, size = sinusoids(50, 64).shape
    print(f"PyTorch {torch.__version__}. {positions} positions, {size} numbers each. Ready.")


SENTENCES = [
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
    "the dog runs",
]


# Part 1


def _codes(angles: Tensor, d_model: int, first: Callable[..., Tensor] = torch.sin) -> Tensor:
    """Return sines and cosines in turn of the angles (length, hands)."""
    second = torch.cos if first is torch.sin else torch.sin
    return torch.stack([first(angles), second(angles)], dim=-1).flatten(1)[:, :d_model]


def _angles(length: int, exponents: Tensor, base: float = 10000.0, first: int = 0) -> Tensor:
    return torch.arange(first, first + length).unsqueeze(1) / base**exponents


def _twice(d_model: int) -> Tensor:
    """Return 2i / d of every hand i."""
    return torch.arange(0, d_model, 2) / d_model


def _halves(length: int, d_model: int) -> Tensor:
    angles = _angles(length, _twice(d_model))
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :d_model]


def _by_component(length: int, d_model: int, factor: int) -> Tensor:
    """Return codes in which every component has an exponent of its own."""
    angles = _angles(length, factor * torch.arange(d_model) / d_model)
    even = torch.arange(d_model) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos())


def _to_the_last(length: int, d_model: int) -> Tensor:
    hands = (d_model + 1) // 2
    return _codes(_angles(length, torch.arange(hands) / max(hands - 1, 1)), d_model)


_MATRIX_TWINS = [
    *known(
        "Sine and cosine have changed places: the even components 0, 2, 4, … are sines.",
        lambda n, d: _codes(_angles(n, _twice(d)), d, torch.cos),
    ),
    *known(
        "Every component has an exponent of its own. Components 2i and 2i + 1 are the sine and the "
        "cosine of one and the same angle.",
        lambda n, d: _by_component(n, d, 1),
        lambda n, d: _by_component(n, d, 2),
    ),
    *known(
        "The exponent is i / d. It is 2i / d, where i counts the pairs, so that the slowest hand "
        "turns nearly 10000 times more slowly than the first, and not 100 times.",
        lambda n, d: _codes(_angles(n, _twice(d) / 2), d),
    ),
    *known(
        "The exponent is 4i / d. What counts in steps of two, 0, 2, 4, …, is 2i already.",
        lambda n, d: _codes(_angles(n, 2 * _twice(d)), d),
    ),
    *known(
        "The exponents go from 0 to 1, the last one included, as in some programs. In the paper "
        "they are 2i / d, and never reach 1.",
        _to_the_last,
    ),
    *known(
        "The d of the exponent 2i / d is rounded to an even number. It is d_model as it is.",
        lambda n, d: _codes(_angles(n, torch.arange(0, d, 2) / (d + d % 2)), d),
        lambda n, d: _codes(_angles(n, torch.arange(0, d, 2) / (d - d % 2)), d),
    ),
    *known(
        "The position is multiplied by 10000^(2i/d); it is divided by it.",
        lambda n, d: _codes(_angles(n, -_twice(d)), d),
    ),
    *known(
        "This is 10000 · 2i/d; 10000 to the power 2i/d is wanted.",
        lambda n, d: _codes(torch.arange(n).unsqueeze(1) / (10000 * _twice(d)), d),
        lambda n, d: _codes(torch.arange(n).unsqueeze(1) / (10000 * _twice(d)).clamp(min=1), d),
    ),
    *known(
        "A division cuts off what stands behind the point: // where / is meant.",
        lambda n, d: _codes(torch.arange(n).unsqueeze(1) // 10000 ** _twice(d), d),
        lambda n, d: _codes(_angles(n, _twice(d).floor()), d),
    ),
    *known(
        "The base is 1000. It is 10000, as some worked examples forget.",
        lambda n, d: _codes(_angles(n, _twice(d), 1000.0), d),
    ),
    *known(
        "The positions begin with 1. The first row is that of position 0: sines 0, cosines 1.",
        lambda n, d: _codes(_angles(n, _twice(d), first=1), d),
    ),
    *known(
        "All sines come first, then all cosines. Here they take turns: the sine of hand i is "
        "component 2i, its cosine component 2i + 1.",
        _halves,
    ),
    *known(
        "All components are sines; the odd ones are cosines.",
        lambda n, d: _angles(n, _twice(d)).sin().repeat_interleave(2, dim=1)[:, :d],
    ),
    *known(
        "The angles are taken for degrees; they are radians, as torch.sin has them.",
        lambda n, d: _codes(_angles(n, _twice(d)).deg2rad(), d),
    ),
    *known(
        "Rows and columns are exchanged: a row for each position.",
        lambda n, d: sinusoids(n, d).T,
    ),
    *known(
        "These are the angles themselves; sines and cosines are missing.",
        lambda n, d: _angles(n, _twice(d)).repeat_interleave(2, dim=1)[:, :d],
    ),
]


@_parts.part("the matrix", "sinusoids")
def matrix(candidate: object, thorough: bool = False) -> None:
    """Check the matrix of sines and cosines, and put it into the trained Transformer."""
    if candidate is sinusoids:
        raise CheckFailed("  This is the package's own function; write yours.")
    sizes = [(2, 2), (2, 6), (3, 4), (7, 64), (3, 5), (2, 1), (11, 7)]
    if thorough:
        sizes += [(61, 512), (13, 3), (1, 1), (97, 10), (1, 127)]
    for length, d_model in sizes:
        inputs = {"length": length, "d_model": d_model}
        answer = in_32_bits(call_twice(candidate, inputs))
        expected = sinusoids(length, d_model)
        odd = "Where d_model is odd, the last sine has no cosine." * (d_model % 2)
        expect_equal(answer, expected, "the matrix", inputs, _MATRIX_TWINS, odd)
    # Of so large angles the last digits differ from one right way to the next: the shape alone.
    inputs = {"length": 5003, "d_model": 2}
    answer = in_32_bits(call(candidate, inputs))
    expect_tensor(answer, (5003, 2), "the matrix", inputs, "A sentence may have any length.")

    def put_in(model: Transformer) -> None:
        for stack in (model.encoder, model.decoder):
            size = {"length": 64, "d_model": model.config.d_model}
            codes = cast(Tensor, in_32_bits(call(candidate, size)))
            stack.input.positions = _FromTable(_plainly_added, codes)

    expect_same_translations(put_in, SENTENCES[: 1 + 2 * thorough], "matrix", TRANSFORMER)


# Part 2


class _FromTable(nn.Module):
    """What a Transformer asks for codes: a table of them, and a function that adds its rows."""

    table: Tensor

    def __init__(self, add: Callable[[Tensor, Tensor, int], object], table: Tensor) -> None:
        super().__init__()
        self.add = add
        self.register_buffer("table", table)

    def forward(self, x: Tensor, first: int = 0) -> object:
        return in_32_bits(self.add(x, self.table, first))


def _plainly_added(x: Tensor, table: Tensor, first: int = 0) -> Tensor:
    return x + table[first : first + x.shape[1]]


def _rows_alone(x: Tensor, table: Tensor, first: int = 0) -> Tensor:
    return table[first : first + x.shape[1]].expand_as(x)


_ADDED_TWINS = [
    *known(
        "Each sentence of the batch gets one code for all its words: the table is cropped to the "
        "size of the batch. Its rows belong to the axis of the words, the second of x.",
        lambda x, table, first=0: x + table[first : first + len(x)].unsqueeze(1),
        lambda x, table, first=0: x + table[: len(x)].unsqueeze(1),
    ),
    *known(
        "`first` is left out: the first word gets row 0, wherever it stands.",
        lambda x, table, first=0: x + table[: x.shape[1]],
    ),
    *known(
        "All words get the code of one position.",
        lambda x, table, first=0: x + table[first],
        lambda x, table, first=0: x + table[first + x.shape[1] - 1],
    ),
    *known(
        "The codes are one position too far: the first word stands at `first`.",
        lambda x, table, first=0: x + table[first + 1 : first + 1 + x.shape[1]],
    ),
    *known(
        "The codes are put beside the words, so that each has twice as many numbers. They are "
        "added.",
        lambda x, table, first=0: torch.cat([x, _rows_alone(x, table, first)], dim=-1),
    ),
    *known("These are the codes alone. Where are the words?", _rows_alone),
    *known(
        "Words and codes are multiplied; they are added.",
        lambda x, table, first=0: x * _rows_alone(x, table, first),
    ),
    *known(
        "The codes are those of the end of the table.",
        lambda x, table, first=0: x + table[len(table) - x.shape[1] :],
    ),
    *known(
        "The words are multiplied by √d_model first. A model may do so (chapter 15), but not here.",
        lambda x, table, first=0: x * math.sqrt(x.shape[-1]) + _rows_alone(x, table, first),
    ),
]


@_parts.part("crop and broadcast", "add_positions")
def added(candidate: object, thorough: bool = False) -> None:
    """Check codes that are added to words, and add them so in the trained Transformer."""
    table = torch.tensor([[0.0, 10.0], [0.1, 20.0], [0.2, 30.0], [0.3, 40.0]])
    small = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    asked: list[tuple[Tensor, Tensor, int | None]] = [
        (small, table, None),
        (small, table, 1),
        (small[:1], table, 2),
        (torch.randn(2, 2, 3), torch.randn(7, 3), 3),
        (torch.randn(2, 3, 5), torch.randn(7, 5), None),
        (torch.randn(3, 2, 5), torch.randn(7, 5), 5),
    ]
    if thorough:
        asked += [(torch.randn(5, 1, 7), torch.randn(11, 7), 10)]
        asked += [(torch.randn(1, 11, 3), torch.randn(11, 3), 0)]
    for x, codes, first in asked:
        inputs = {"x": x, "table": codes} | ({} if first is None else {"first": first})
        answer = in_32_bits(call_twice(candidate, inputs))
        expected = _plainly_added(x, codes, first or 0)
        expect_equal(answer, expected, "the words with their codes", inputs, _ADDED_TWINS)
    for length, first in ((5, 0), (3, 2), (2, 3), (2, 4), (3, 7)):
        _expect_refused(candidate, {"x": torch.ones(1, length, 2), "table": table, "first": first})
    sources = {"x": torch.randn(2, 3, 5), "table": torch.randn(4, 5)}
    for source in sources.values():
        source.requires_grad_()
    expect_gradients_through(candidate, sources, sources)

    def put_in(model: Transformer) -> None:
        for stack in (model.encoder, model.decoder):
            codes = sinusoids(64, model.config.d_model)
            stack.input.positions = _FromTable(cast(Any, candidate), codes)

    expect_same_translations(put_in, SENTENCES[: 1 + 2 * thorough], "add_positions", TRANSFORMER)


def _expect_refused(candidate: object, inputs: Inputs) -> None:
    """Refuse a candidate that does not raise `ValueError` where the table is too short."""
    raised: list[Exception] = []

    def tried(*given: object) -> object:
        try:
            return cast(Callable[..., object], candidate)(*given)
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append(error)
            return None

    answer = call(tried, inputs)
    if raised and isinstance(raised[0], ValueError):
        return
    length, rows = inputs["x"].shape[1], len(inputs["table"])
    if raised:
        found = f"yours raises {type(raised[0]).__name__}"
    elif isinstance(answer, Tensor) and answer.shape == inputs["x"].shape:
        found = "yours returns numbers, as if nothing were amiss"
    else:
        found = "yours raises nothing"
    raise CheckFailed(
        f"  {length} words from position {inputs['first']} on need more than the {rows} rows of "
        f"the table. A ValueError is expected; {found}. A slice beyond the end is shorter than "
        "asked for, silently, and a single row that is left would be added to every word."
        f"\n{describe(inputs)}"
    )


# Part 3


_Block = Callable[[float, float], list[list[float]]]


def _shift(
    steps: float | int,
    d_model: int,
    exponents: Tensor | None = None,
    base: float = 10000.0,
    block: _Block = lambda cos, sin: [[cos, sin], [-sin, cos]],
) -> Tensor:
    """Return the matrix with a block for each pair (sine, cosine) on its diagonal."""
    angles = steps / base ** (_twice(d_model) if exponents is None else exponents)
    pairs = zip(angles.cos().tolist(), angles.sin().tolist(), strict=True)
    return torch.block_diag(*(torch.tensor(block(cos, sin)) for cos, sin in pairs))


def _shift_of_halves(steps: int, d_model: int) -> Tensor:
    """Return the matrix for codes that have all sines first."""
    sines_first = torch.arange(d_model).reshape(-1, 2).T.flatten()
    return _shift(steps, d_model)[sines_first][:, sines_first]


_ROTATION_TWINS = [
    *known(
        "This moves one way only: negative steps lead back.",
        lambda k, d: _shift(abs(k), d),
        lambda k, d: _shift(max(k, 0), d),
    ),
    *known(
        "This moves codes back instead of on: the minus stands at the other sine. Write down "
        "sin(a + b) and cos(a + b), one row each.",
        lambda k, d: _shift(-k, d),
    ),
    *known(
        "Sine and cosine have changed places in each block: cosines stand on the diagonal.",
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[sin, cos], [cos, -sin]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[sin, cos], [-cos, sin]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[sin, -cos], [cos, sin]]),
    ),
    *known(
        "A block of yours is no rotation: one of its two sines has a minus, and both cosines have "
        "none.",
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[cos, sin], [sin, cos]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[cos, sin], [sin, -cos]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[cos, -sin], [-sin, cos]]),
    ),
    *known(
        "All pairs are turned by the same angle. Each hand has its own speed.",
        lambda k, d: _shift(k, d, torch.zeros(d // 2)),
    ),
    *known(
        "The exponent is i / d; it is 2i / d.",
        lambda k, d: _shift(k, d, _twice(d) / 2),
    ),
    *known(
        "The exponent is 4i / d. What counts in steps of two, 0, 2, 4, …, is 2i already.",
        lambda k, d: _shift(k, d, 2 * _twice(d)),
    ),
    *known(
        "The steps are multiplied by 10000^(2i/d); they are divided by it.",
        lambda k, d: _shift(k, d, -_twice(d)),
    ),
    *known("The base is 1000; it is 10000.", lambda k, d: _shift(k, d, base=1e3)),
    *known(
        "The angles are taken for degrees; they are radians.",
        lambda k, d: _shift(math.radians(k), d),
    ),
    *known(
        "The numbers of the matrix for one step are multiplied, or raised to a power, one by one. "
        "It is the angles that are multiplied by the steps.",
        lambda k, d: k * _shift(1, d),
        lambda k, d: _shift(1, d) ** k,
    ),
    *known(
        "This is the matrix for codes with all sines first. Here sine and cosine take turns, so "
        "that the blocks lie along the diagonal.",
        _shift_of_halves,
        lambda k, d: _shift_of_halves(-k, d),
    ),
    *known(
        "This moves by one step, however many are asked for.",
        lambda k, d: _shift(1, d),
    ),
    *known("The codes stay where they are.", lambda k, d: torch.eye(d)),
]


@_parts.part("a rotation", "shift")
def rotation(candidate: object, thorough: bool = False) -> None:
    """Check the matrix that moves the code of every position on by some steps."""
    asked = [(1, 2), (1, 4), (3, 4), (0, 2), (-2, 6), (5, 10)]
    if thorough:
        asked += [(17, 14), (-11, 64), (0, 6), (40, 2)]
    for steps, d_model in asked:
        inputs = {"steps": steps, "d_model": d_model}
        answer = in_32_bits(call_twice(candidate, inputs))
        expect_equal(answer, _shift(steps, d_model), "the matrix", inputs, _ROTATION_TWINS)


# Part 4

KNOWS, MOVES, UNMOVED = "knows the order", "moves along", "unmoved"


class _Layer(nn.Module):
    """A layer of the package that reads one sentence, and says what it is."""

    def __init__(
        self,
        name: str,
        layer: nn.Module,
        codes: bool | float = False,
        causal: bool = False,
        marks: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.name, self.layer = name, layer
        self.codes, self.causal, self.marks = codes, causal, marks

    def __repr__(self) -> str:
        return self.name

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if self.codes:
            x = x + self.codes * sinusoids(*x.shape)
        if self.marks:
            x = x.clone()
            x[list(self.marks)] += 1
        mask = causal_mask(len(x)) if self.causal else None
        return cast(Tensor, self.layer(x.unsqueeze(0), mask)[0].squeeze(0))


class _Plain(nn.Module):
    """Any function of a sentence, and what it is called."""

    def __init__(self, name: str, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.name, self.function = name, function

    def __repr__(self) -> str:
        return self.name

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Distances(AttentionPosition):
    """Add to each score a number that depends on the steps from query to key."""

    def __init__(self, score: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.score = score

    def bias(self, query: Tensor, key_len: int) -> Tensor:
        steps = steps_to_keys(query.shape[2], key_len)
        return self.score(steps, key_len).float().expand(1, 1, -1, -1)


_SIZE = 6  # numbers of a word


def _attending(score: Callable[[Tensor, int], Tensor] | None = None) -> EncoderLayer:
    position = _Distances(score) if score else None
    attention = MultiHeadAttention(_SIZE, 2, position=position)
    layer = EncoderLayer(_SIZE, attention, FeedForward(_SIZE, 12)).eval()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(2.0)
    return layer


def _some_layers() -> list[tuple[nn.Module, str, str]]:
    """Return layers, what is right to say of each, and why, to those who said otherwise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        gru = nn.GRU(_SIZE, _SIZE)
        return [
            (
                _Plain("each word, doubled", lambda x: 2 * x),
                MOVES,
                "In another order, its words take their outputs along: layer(x[order]) is "
                "layer(x)[order].",
            ),
            (
                _Layer("self-attention", _attending()),
                MOVES,
                "In another order, its words take their outputs along. Only the last digits "
                "differ, which is rounding: the sums are made in another order.",
            ),
            (
                _Plain("the mean of the words", lambda x: x.mean(dim=0)),
                UNMOVED,
                "It returns one vector for all words, and that stays as it is.",
            ),
            (
                _Plain(
                    "the mean of the words, with 200 added before and taken off after it",
                    lambda x: (x + 200).mean(dim=0) - 200,
                ),
                UNMOVED,
                "Among numbers of about 200 the sums differ by some 0.00002, which is rounding.",
            ),
            (
                _Layer("self-attention with a causal mask", _attending(), causal=True),
                KNOWS,
                "A word sees those before it, so it matters which they are.",
            ),
            (
                _Layer("self-attention over words with sinusoids", _attending(), codes=True),
                KNOWS,
                "A word that stands elsewhere gets another code.",
            ),
            (
                _Plain(
                    "the mean of the words, once for every word",
                    lambda x: x.mean(dim=0, keepdim=True).expand_as(x),
                ),
                UNMOVED,
                "All its rows are equal, so they move along and stay as they are; then say "
                "“unmoved”.",
            ),
            (
                _Layer(
                    "self-attention that prefers near words, on either side",
                    _attending(lambda steps, _: -3.0 * steps.abs()),
                ),
                KNOWS,
                "Read backwards, the sentence gives the same outputs backwards, since all "
                "distances stay as they were. Other orders show that it knows: one order is not "
                "enough.",
            ),
            (
                _Layer(
                    "self-attention to the next word, the last one's next being the first",
                    _attending(lambda steps, length: 4.0 * ((steps - 1) % length == 0)),
                ),
                KNOWS,
                "Rolled round in a ring (torch.roll), its words take their outputs along. Other "
                "orders show that it knows: one order is not enough.",
            ),
            (
                _Layer(
                    "self-attention that prefers words two steps away, or none",
                    _attending(lambda steps, _: 4.0 * (steps % 2 == 0)),
                ),
                KNOWS,
                "Reading backwards shows nothing of four words, nor does rolling them round, nor "
                "both: every other word stays every other word. An exchange of neighbours shows "
                "it.",
            ),
            *_marking(),
            (
                _Layer("self-attention over words with faint sinusoids", _attending(), codes=5e-4),
                KNOWS,
                "Its outputs differ little, but by more than 0.0001.",
            ),
            (
                _Plain(
                    "10 is added to each word, and 0.0005 for every place",
                    lambda x: x + 10 + 5e-4 * torch.arange(len(x)).unsqueeze(1),
                ),
                KNOWS,
                "Its outputs differ by more than 0.0001. Is the difference measured against the "
                "outputs themselves, as a large rtol does?",
            ),
            (
                _Plain(
                    "0.0003 is added to one number of the first word",
                    lambda x: x + 3e-4 * F.one_hot(torch.tensor(0), x.numel()).view_as(x),
                ),
                KNOWS,
                "One number differs by more than 0.0001. A mean over all of them is less.",
            ),
            (
                _Plain("the running maximum of the words", lambda x: x.cummax(dim=0).values),
                KNOWS,
                "Here another order makes all numbers smaller, or leaves them: a difference may "
                "be negative. Is its absolute value taken?",
            ),
            (
                _Plain("the last state of a recurrent network", lambda x: gru(x)[0][-1]),
                KNOWS,
                "It returns one vector for all words, and that changes with their order.",
            ),
            (
                _Plain(
                    "to each word is added what the last has more than the first, as far as the "
                    "first has more than the second",
                    lambda x: x + torch.minimum(x[-1] - x[0], x[0] - x[1]).clamp(min=0),
                ),
                KNOWS,
                "Of these words, each smaller than the one before, no exchange of two shows it: "
                "that every order is made of exchanges helps only if they are made one after the "
                "other.",
            ),
            (
                _Plain("each word, handed to the next place", lambda x: x.roll(1, dims=0)),
                KNOWS,
                "The same vectors come out in every order, but they belong to places: "
                "layer(x[order]) is not layer(x)[order].",
            ),
        ]


def _marking() -> list[tuple[nn.Module, str, str]]:
    """Return layers to which only some places are different from the others."""
    marked: dict[str, tuple[int, ...]] = {
        "the last word": (-1,),
        "the first word": (0,),
        "the first two words": (0, 1),
        "the first and the last word": (0, -1),
    }
    return [
        (
            _Layer(f"self-attention that marks {name}", _attending(), marks=places),
            KNOWS,
            f"Only who stands there matters to it. An order that leaves {name} there shows "
            "nothing, so one exchange is not enough.",
        )
        for name, places in marked.items()
    ]


@_parts.part("does it know the order?", "audit")
def order(candidate: object, thorough: bool = False) -> None:
    """Check an audit on layers that know the order, and hide it, and on others that do not."""
    lengths = (4, 3) if thorough else (4,)
    for length in lengths:
        for layer, right, why in _some_layers():
            x = torch.randn(length, _SIZE).sort(dim=0, descending=True).values
            inputs = {"layer": layer, "x": x}
            said = call_twice(candidate, inputs)
            if said not in (KNOWS, MOVES, UNMOVED):
                expect_value(said, right, "the verdict", inputs)
            if said != right:
                raise CheckFailed(
                    f"  The layer is {layer}. Yours says “{said}”; right is “{right}”. {why}\n"
                    f"{describe(inputs)}"
                )


# Part 5

_ENOUGH = 0.9


@_parts.part("looking back", "head")
def looking_back(candidate: object, thorough: bool = False) -> None:
    """Check the two matrices of a head by where the head looks."""
    asked = [(1, 64, 7), (1, 64, 50), (2, 32, 50), (-1, 64, 50), (0, 64, 50), (5, 16, 50)]
    if thorough:
        asked += [(3, 128, 97), (-7, 64, 60), (11, 32, 30), (1, 20, 41)]
    for steps, d_model, length in asked:
        inputs = {"steps": steps, "d_model": d_model}
        names = ("w_query", "w_key")
        pair = expect_pair(call_twice(candidate, inputs), names, inputs)
        shape = (d_model, d_model)
        w_query, w_key = (
            expect_tensor(in_32_bits(each), shape, name, inputs)
            for each, name in zip(pair, names, strict=True)
        )
        codes = sinusoids(length, d_model)
        _, weights = scaled_dot_product_attention(codes @ w_query, codes @ w_key, codes)
        if not weights.isfinite().all():
            raise CheckFailed(
                "  The weights are not numbers: the scores are too large for 32 bits. A factor of "
                f"a thousand is more than enough.\n{describe(inputs)}"
            )
        _judge(weights, steps, inputs)


def _judge(weights: Tensor, steps: int, inputs: Inputs) -> None:
    """Refuse weights (length, length) that do not lie where a head should look."""
    length = len(weights)
    places = torch.arange(length)
    wanted = places - steps
    asks = (wanted >= 0) & (wanted < length)  # the others have nothing to look at
    words = places[asks]
    found = weights[words, wanted[asks]]
    if (found > _ENOUGH).all():
        return
    looks = weights.argmax(dim=-1)
    if (looks[words] == wanted[asks]).all():
        least = int(words[found.argmin()])
        row = weights[least].clone()
        share, row[least - steps] = float(row[least - steps]), 0.0
        why = (
            f"The head looks at the right word, but not sharply. The word at position {least} "
            f"gives it {share:.2f} of its weight, and position {int(row.argmax())} gets "
            f"{row.max():.2f}; more than {_ENOUGH} is wanted. Many codes are much alike. What "
            "makes a softmax sharper, and which hands tell those two apart?"
        )
    elif steps and _all_look(looks, -steps):
        why = f"The head looks {_way(-steps)}, the other way. It should look {_way(steps)}."
    elif steps and _all_look(looks, 0):
        why = "The head looks at the word itself: the codes are most like themselves."
    elif (looks == looks[0]).all():
        why = f"All words look at position {int(looks[0])}."
    else:
        bad = int(words[looks[words] != wanted[asks]][0])
        why = (
            f"The word at position {bad} looks most at position {int(looks[bad])}, and should "
            f"look {_way(steps)}, at position {bad - steps}."
        )
    raise CheckFailed(f"  {why}\n{describe(inputs)}\n  measured    over {length} positions")


def _all_look(looks: Tensor, steps: int) -> bool:
    wanted = torch.arange(len(looks)) - steps
    asks = (wanted >= 0) & (wanted < len(looks))
    return bool((looks[asks] == wanted[asks]).all())


def _way(steps: int) -> str:
    if not steps:
        return "at itself"
    words = "word" if abs(steps) == 1 else "words"
    return f"{abs(steps)} {words} {'back' if steps > 0 else 'ahead'}"


# Part 6


@_parts.part("bug hunt", "mended_sentence", "mended_ring", "mended_picture")
def bug_hunt(sentence: object, ring: object, picture: object, thorough: bool = False) -> None:
    """Examine codes of a sentence, of a ring and of a picture."""
    in_turn(_SYMPTOMS, sentence, ring, picture, thorough)


def _ring(size: int, d_model: int) -> Tensor:
    turns = torch.arange(size).unsqueeze(1) / size * torch.arange(1, d_model // 2 + 1)
    angles = 2 * math.pi * turns
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _turns(codes: Tensor) -> Tensor:
    """Return by what angle each hand turns in one step, between -π and π."""
    hands = codes.shape[1] // 2
    angles = torch.atan2(codes[:, :hands], codes[:, hands:])
    turned = angles[1] - angles[0]
    return (turned + math.pi) % (2 * math.pi) - math.pi


def _expect_sines_first(codes: Tensor, what: str, inputs: Inputs) -> None:
    """Refuse a first row that is not that of position 0."""
    hands = codes.shape[1] // 2
    start = torch.cat([torch.zeros(hands), torch.ones(hands)])
    if torch.allclose(codes[0], start, atol=1e-5):
        return
    if torch.allclose(codes[0], start.flip(0), atol=1e-5):
        why = "The cosines come first; here the sines do."
    elif torch.allclose(codes[0], start.reshape(2, -1).T.flatten(), atol=1e-5):
        why = "Sine and cosine take turns. Here all sines come first, then all cosines."
    else:
        why = "Every sine of position 0 is 0, and every cosine 1. Do the positions begin with 1?"
    raise CheckFailed(
        f"  {what}: the first row is not right. {why}\n{describe(inputs)}\n"
        f"  got         {_row(codes[0])}\n  expected    {_row(start)}"
    )


def _examine_start(sentence: object, *_: object) -> None:
    inputs = {"length": 3, "d_model": 4}
    answer = in_32_bits(call_twice(sentence, inputs))
    codes = expect_tensor(answer, (3, 4), "the codes of a sentence", inputs)
    _expect_sines_first(codes, "The sentence", inputs)


def _examine_speeds(sentence: object, *_: object) -> None:
    for length, d_model in ((2, 4), (5, 10)):
        inputs = {"length": length, "d_model": d_model}
        answer = in_32_bits(call_twice(sentence, inputs))
        codes = expect_tensor(answer, (length, d_model), "the codes of a sentence", inputs)
        got, right = _turns(codes), 10000 ** -_twice(d_model)
        if not torch.allclose(got, right, 1e-3, 1e-6):
            raise CheckFailed(
                "  The sentence: the hands do not turn at the wanted speeds, 1 / 10000^(2i/d) "
                f"for hand i.\n{describe(inputs)}\n"
                f"  got         {_row(got)} a step\n  expected    {_row(right)}"
            )


def _examine_sentence(sentence: object, _ring: object, _picture: object, more: bool) -> None:
    for length, d_model in [(7, 6), (13, 22)] + [(53, 64), (1, 2)] * more:
        inputs = {"length": length, "d_model": d_model}
        answer = in_32_bits(call_twice(sentence, inputs))
        right = _halves(length, d_model)
        expect_equal(answer, right, "the codes of a sentence", inputs)


def _asked_ring(ring: object, size: int, d_model: int) -> tuple[Inputs, Tensor]:
    inputs = {"size": size, "d_model": d_model}
    answer = in_32_bits(call_twice(ring, inputs))
    return inputs, expect_tensor(answer, (size, d_model), "the codes of a ring", inputs)


def _examine_closing(_sentence: object, ring: object, *_: object) -> None:
    inputs, codes = _asked_ring(ring, 4, 4)
    _expect_sines_first(codes, "The ring", inputs)
    if torch.allclose(codes[0], codes[-1], atol=1e-4):
        raise CheckFailed(
            "  The ring: its last place has the same code as its first. After 4 steps one is back "
            f"at the first place, and the last place is only 3 steps away.\n{describe(inputs)}\n"
            f"  got         {_row(codes[0])} first, {_row(codes[-1])} last"
        )
    inputs, codes = _asked_ring(ring, 7, 4)
    steps = (codes - codes.roll(1, dims=0)).norm(dim=1)
    if not torch.allclose(steps, steps.mean().expand_as(steps), 1e-3, 1e-4):
        raise CheckFailed(
            "  The ring: neighbours are not equally far from each other all the way round. From "
            f"the last place to the first it is a step like all others.\n{describe(inputs)}\n"
            f"  got         {steps[0]:.4g} from last to first, {steps[1]:.4g} from first to second"
        )


def _examine_hands(_sentence: object, ring: object, *_: object) -> None:
    for size, d_model in ((7, 2), (7, 6)):
        inputs, codes = _asked_ring(ring, size, d_model)
        got = _turns(codes) * size / (2 * math.pi)
        right = torch.arange(1.0, d_model // 2 + 1)
        if not torch.allclose(got, right, 1e-3, 1e-3):
            still = bool((got.abs() < 1e-3).any())
            why = " One stands still, and tells no two places apart." if still else ""
            raise CheckFailed(
                "  The ring: hand i, counted from 0, should make i + 1 full turns on its way "
                f"round.{why}\n{describe(inputs)}\n"
                f"  got         {_row(got)} turns\n  expected    {_row(right)}"
            )


def _examine_ring(_sentence: object, ring: object, _picture: object, more: bool) -> None:
    for size, d_model in [(7, 4), (12, 10)] + [(5, 14), (2, 2), (1, 2)] * more:
        inputs, codes = _asked_ring(ring, size, d_model)
        expect_equal(codes, _ring(size, d_model), "the codes of a ring", inputs)


class _Counting:
    """Codes that can be read: the number of the position, in every component."""

    def __repr__(self) -> str:
        return "position, that many times"

    def __call__(self, length: int, size: int) -> Tensor:
        return torch.arange(float(length)).unsqueeze(1).repeat(1, size)


class _Sinusoidal:
    def __repr__(self) -> str:
        return "sinusoids"

    def __call__(self, length: int, size: int) -> Tensor:
        return sinusoids(length, size)


def _picture(rows: int, columns: int, d_model: int, code: Callable[[int, int], Tensor]) -> Tensor:
    half = d_model // 2
    down = code(rows, half).repeat_interleave(columns, dim=0)
    across = code(columns, half).repeat(rows, 1)
    return torch.cat([down, across], dim=1)


def _asked_picture(
    picture: object, rows: int, columns: int, d_model: int, code: Callable[[int, int], Tensor]
) -> tuple[Inputs, Tensor]:
    inputs = {"rows": rows, "columns": columns, "d_model": d_model, "code": code}
    answer = in_32_bits(call_twice(picture, inputs))
    shape = (rows * columns, d_model)
    hint = "Half of the numbers tell the row, half the column."
    return inputs, expect_tensor(answer, shape, "the codes of a picture", inputs, hint)


def _examine_unique(_sentence: object, _ring: object, picture: object, *_: object) -> None:
    for rows, columns in ((2, 2), (2, 3)):
        inputs, codes = _asked_picture(picture, rows, columns, 4, _Sinusoidal())
        far = torch.cdist(codes, codes) + torch.eye(len(codes))
        if far.min() < 1e-4:
            one, other = divmod(int(far.argmin()), len(codes))
            if (one, other) == (1, 2):  # column 1 of row 0, column 0 of row 1
                why = "A sum of two codes does not say which is which: give the row"
            else:
                which = "column" if one // columns == other // columns else "row"
                why = f"Its {which} would tell them apart. Give the row"
            raise CheckFailed(
                f"  The picture: places {one} and {other} have the same code. {why} one half of "
                f"the numbers and the column the other half.\n{describe(inputs)}"
            )


def _examine_order(_sentence: object, _ring: object, picture: object, *_: object) -> None:
    inputs, codes = _asked_picture(picture, 2, 3, 4, _Counting())
    right = _picture(2, 3, 4, _Counting())
    if torch.allclose(codes, right, atol=1e-4):
        return
    place = int((codes - right).abs().sum(dim=1).argmax())
    if torch.allclose(codes, right.reshape(2, 3, 4).transpose(0, 1).reshape(6, 4)):
        why = "The places come column by column; they come row by row, as one reads."
    elif torch.allclose(codes, right.roll(2, dims=1)):
        why = "Row and column have changed places: the first half of the numbers is the row's."
    elif torch.allclose(codes, right.reshape(6, 2, 2).transpose(1, 2).flatten(1)):
        why = "Row and column take turns; the row has the first half, the column the second."
    else:
        why = "Row and column of the places are not the right ones."
        place = int(((codes - right).abs().sum(dim=1) > 1e-4).nonzero()[0])
    raise CheckFailed(
        f"  The picture: {why}\n{describe(inputs)}\n"
        f"  got         {_row(codes[place])} for place {place}\n  expected    {_row(right[place])}"
    )


_PICTURE_TWINS = known(
    "The picture: each half is cut out of a code of d_model numbers. It is a code of d_model / 2 "
    "numbers, whole.",
    lambda rows, columns, d, code: torch.cat(
        [
            code(rows, d)[:, : d // 2].repeat_interleave(columns, dim=0),
            code(columns, d)[:, : d // 2].repeat(rows, 1),
        ],
        dim=1,
    ),
)


def _examine_picture(_sentence: object, _ring: object, picture: object, more: bool) -> None:
    sizes = [(2, 3, 8), (5, 2, 12)] + [(3, 7, 20), (1, 3, 4), (6, 6, 64)] * more
    for rows, columns, d_model in sizes:
        code = _Sinusoidal()
        inputs, codes = _asked_picture(picture, rows, columns, d_model, code)
        right = _picture(rows, columns, d_model, code)
        expect_equal(codes, right, "the codes of a picture", inputs, _PICTURE_TWINS)


def _row(numbers: Tensor) -> str:
    return "[" + ", ".join(f"{each:.4g}" for each in numbers.tolist()) + "]"


_SYMPTOMS: dict[str, Callable[..., None]] = {
    "the start of a sentence": _examine_start,
    "the speeds in a sentence": _examine_speeds,
    "the sentence": _examine_sentence,
    "the ring's closing": _examine_closing,
    "the ring's hands": _examine_hands,
    "the ring": _examine_ring,
    "no two places of a picture alike": _examine_unique,
    "rows and columns of a picture": _examine_order,
    "the picture": _examine_picture,
}
