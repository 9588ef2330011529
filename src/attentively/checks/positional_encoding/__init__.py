"""Checks of the assignment on positional encoding.

Parts 1 to 3 rebuild functions of the package or the page. The encoding and its addition are also
put into the package's trained Transformer. Parts 4 to 6 are original problems, and this module
contains no solution to them: the audit is tested on layers whose dependence on the order is known
and shows only for some orders, the head by its weights, and the three encodings by one symptom
after the other.
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
    print(f"PyTorch {torch.__version__}. {positions} encodings of dimension {size}. Ready.")


SENTENCES = [
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
    "the dog runs",
]


# Part 1


def _interleaved(angles: Tensor, d_model: int, first: Callable[..., Tensor] = torch.sin) -> Tensor:
    """Return sines and cosines, side by side, of the angles (length, pairs)."""
    second = torch.cos if first is torch.sin else torch.sin
    return torch.stack([first(angles), second(angles)], dim=-1).flatten(1)[:, :d_model]


def _angles(length: int, exponents: Tensor, base: float = 10000.0, first: int = 0) -> Tensor:
    return torch.arange(first, first + length).unsqueeze(1) / base**exponents


def _twice(d_model: int) -> Tensor:
    """Return 2i / d of every pair i."""
    return torch.arange(0, d_model, 2) / d_model


def _halves(length: int, d_model: int) -> Tensor:
    angles = _angles(length, _twice(d_model))
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :d_model]


def _by_component(length: int, d_model: int, factor: int) -> Tensor:
    """Return encodings in which every component has an exponent of its own."""
    angles = _angles(length, factor * torch.arange(d_model) / d_model)
    even = torch.arange(d_model) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos())


def _to_the_last(length: int, d_model: int) -> Tensor:
    pairs = (d_model + 1) // 2
    return _interleaved(_angles(length, torch.arange(pairs) / max(pairs - 1, 1)), d_model)


_MATRIX_TWINS = [
    *known(
        "Sine and cosine are exchanged: the even components 0, 2, 4, … must be the sines.",
        lambda n, d: _interleaved(_angles(n, _twice(d)), d, torch.cos),
    ),
    *known(
        "Every component has an exponent of its own. Components 2i and 2i + 1 must be the sine and "
        "the cosine of the same angle.",
        lambda n, d: _by_component(n, d, 1),
        lambda n, d: _by_component(n, d, 2),
    ),
    *known(
        "The exponent is i / d, where i is the index of the pair; it must be 2i / d. The lowest "
        "frequency must be nearly 1 / 10000, and here it is about 1 / 100.",
        lambda n, d: _interleaved(_angles(n, _twice(d) / 2), d),
    ),
    *known(
        "The exponent is 4i / d; it must be 2i / d. The numbers 0, 2, 4, … are already 2i.",
        lambda n, d: _interleaved(_angles(n, 2 * _twice(d)), d),
    ),
    *known(
        "The exponents run from 0 to 1, and the last one is 1. They must be 2i / d, which is "
        "always below 1.",
        _to_the_last,
    ),
    *known(
        "In the exponent 2i / d, an odd d is rounded to an even number. It must be d_model itself.",
        lambda n, d: _interleaved(_angles(n, torch.arange(0, d, 2) / (d + d % 2)), d),
        lambda n, d: _interleaved(_angles(n, torch.arange(0, d, 2) / (d - d % 2)), d),
    ),
    *known(
        "The position is multiplied by 10000^(2i/d); it must be divided by it.",
        lambda n, d: _interleaved(_angles(n, -_twice(d)), d),
    ),
    *known(
        "The position is divided by 10000 · 2i/d; it must be divided by 10000 to the power 2i/d.",
        lambda n, d: _interleaved(torch.arange(n).unsqueeze(1) / (10000 * _twice(d)), d),
        lambda n, d: _interleaved(
            torch.arange(n).unsqueeze(1) / (10000 * _twice(d)).clamp(min=1), d
        ),
    ),
    *known(
        "A division rounds down to an integer: write / instead of //.",
        lambda n, d: _interleaved(torch.arange(n).unsqueeze(1) // 10000 ** _twice(d), d),
        lambda n, d: _interleaved(_angles(n, _twice(d).floor()), d),
    ),
    *known(
        "The base is 1000; it must be 10000.",
        lambda n, d: _interleaved(_angles(n, _twice(d), 1000.0), d),
    ),
    *known(
        "The positions start at 1. The first row must be that of position 0: sines 0, cosines 1.",
        lambda n, d: _interleaved(_angles(n, _twice(d), first=1), d),
    ),
    *known(
        "All sines come first, then all cosines. They must alternate: the sine of pair i is "
        "component 2i, its cosine is component 2i + 1.",
        _halves,
    ),
    *known(
        "All components are sines; the odd components must be cosines.",
        lambda n, d: _angles(n, _twice(d)).sin().repeat_interleave(2, dim=1)[:, :d],
    ),
    *known(
        "The angles are converted from degrees. They are in radians already, as torch.sin expects.",
        lambda n, d: _interleaved(_angles(n, _twice(d)).deg2rad(), d),
    ),
    *known(
        "Rows and columns are exchanged: each position must have a row.",
        lambda n, d: sinusoids(n, d).T,
    ),
    *known(
        "These are the angles; their sines and cosines are missing.",
        lambda n, d: _angles(n, _twice(d)).repeat_interleave(2, dim=1)[:, :d],
    ),
]


@_parts.part(
    "sinusoidal encoding",
    "sinusoids",
    rebuilds=("attentively.attention.positional:sinusoids",),
    refuses=(
        "attentively.attention.positional:SinusoidalPositionalEncoding",
        "attentively.attention.positional:position_angles",
    ),
)
def matrix(candidate: object, thorough: bool = False) -> None:
    """Check the matrix of encodings, and put it into the trained Transformer."""
    sizes = [(2, 2), (2, 6), (3, 4), (7, 64), (3, 5), (2, 1), (11, 7)]
    if thorough:
        sizes += [(61, 512), (13, 3), (1, 1), (97, 10), (1, 127)]
    for length, d_model in sizes:
        inputs = {"length": length, "d_model": d_model}
        answer = in_32_bits(call_twice(candidate, inputs))
        expected = sinusoids(length, d_model)
        odd = "If d_model is odd, the last sine has no cosine." * (d_model % 2)
        expect_equal(answer, expected, "the encodings", inputs, _MATRIX_TWINS, odd)
    # For angles this large, correct methods differ in the last digits: check the shape alone.
    inputs = {"length": 5003, "d_model": 2}
    answer = in_32_bits(call(candidate, inputs))
    expect_tensor(answer, (5003, 2), "the encodings", inputs, "A sentence may have any length.")

    def put_in(model: Transformer) -> None:
        for stack in (model.encoder, model.decoder):
            size = {"length": 64, "d_model": model.config.d_model}
            encodings = cast(Tensor, in_32_bits(call(candidate, size)))
            stack.input.positions = _FromTable(_plainly_added, encodings)

    expect_same_translations(put_in, SENTENCES[: 1 + 2 * thorough], "encodings", TRANSFORMER)


# Part 2


class _FromTable(nn.Module):
    """A positional encoding for a Transformer: a table, and a function that adds its rows."""

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
        "All words of a sentence receive the same row, because the table is cropped to the size of "
        "the batch. The rows of the table belong to the second axis of x, that of the words.",
        lambda x, table, first=0: x + table[first : first + len(x)].unsqueeze(1),
        lambda x, table, first=0: x + table[: len(x)].unsqueeze(1),
    ),
    *known(
        "`first` is ignored: the first word receives row 0 instead of row `first`.",
        lambda x, table, first=0: x + table[: x.shape[1]],
    ),
    *known(
        "All words receive the encoding of the same position.",
        lambda x, table, first=0: x + table[first],
        lambda x, table, first=0: x + table[first + x.shape[1] - 1],
    ),
    *known(
        "The encodings are shifted by one position: the first word must receive row `first`.",
        lambda x, table, first=0: x + table[first + 1 : first + 1 + x.shape[1]],
    ),
    *known(
        "The encodings are concatenated with the words, which doubles the dimension. They must be "
        "added.",
        lambda x, table, first=0: torch.cat([x, _rows_alone(x, table, first)], dim=-1),
    ),
    *known("These are the encodings alone; the words are missing.", _rows_alone),
    *known(
        "Words and encodings are multiplied; they must be added.",
        lambda x, table, first=0: x * _rows_alone(x, table, first),
    ),
    *known(
        "The encodings are the last rows of the table; the first word must receive row `first`.",
        lambda x, table, first=0: x + table[len(table) - x.shape[1] :],
    ),
    *known(
        "The words are multiplied by √d_model. A Transformer does that elsewhere; here `x` must be "
        "added as it is.",
        lambda x, table, first=0: x * math.sqrt(x.shape[-1]) + _rows_alone(x, table, first),
    ),
]


@_parts.part(
    "crop and broadcast",
    "add_positions",
    rebuilds=("attentively.attention.positional:SinusoidalPositionalEncoding",),
    step=True,
)
def added(candidate: object, thorough: bool = False) -> None:
    """Check the sum of words and encodings, and use it in the trained Transformer."""
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
    for x, encodings, first in asked:
        inputs = {"x": x, "table": encodings} | ({} if first is None else {"first": first})
        answer = _accepted(candidate, inputs)
        expected = _plainly_added(x, encodings, first or 0)
        expect_equal(answer, expected, "words plus encodings", inputs, _ADDED_TWINS)
    for length, first in ((5, 0), (3, 2), (2, 3), (2, 4), (3, 7)):
        _expect_refused(candidate, {"x": torch.ones(1, length, 2), "table": table, "first": first})
    sources = {"x": torch.randn(2, 3, 5), "table": torch.randn(4, 5)}
    for source in sources.values():
        source.requires_grad_()
    expect_gradients_through(candidate, sources, sources)

    def put_in(model: Transformer) -> None:
        for stack in (model.encoder, model.decoder):
            encodings = sinusoids(64, model.config.d_model)
            stack.input.positions = _FromTable(cast(Any, candidate), encodings)

    expect_same_translations(put_in, SENTENCES[: 1 + 2 * thorough], "add_positions", TRANSFORMER)


def _tried(candidate: object, inputs: Inputs) -> tuple[object, Exception | None]:
    """Return the candidate's answer, or None and the exception that it raises."""
    raised: list[Exception] = []

    def trying(*given: object) -> object:
        try:
            return cast(Callable[..., object], candidate)(*given)
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append(error)
            return None

    return call(trying, inputs), next(iter(raised), None)


def _accepted(candidate: object, inputs: Inputs) -> object:
    """Return the candidate's answer; say so if it refuses a table that is long enough."""
    try:
        return in_32_bits(call_twice(candidate, inputs))
    except CheckFailed:
        _, error = _tried(candidate, inputs)
        if not isinstance(error, ValueError):
            raise
    length, rows, first = inputs["x"].shape[1], len(inputs["table"]), inputs.get("first", 0)
    last = first + length - 1
    exact = " They are the last rows of the table: is your comparison off by one?"
    raise CheckFailed(
        f"  Your code raises ValueError, but the table has enough rows: {length} words from "
        f"position {first} on need the rows {first} to {last}, and the table has the rows 0 to "
        f"{rows - 1}.{exact * (last == rows - 1)}\n  message     {str(error) or '(none)'}\n"
        f"{describe(inputs)}"
    )


def _expect_refused(candidate: object, inputs: Inputs) -> None:
    """Reject a candidate that does not raise `ValueError` for a table that is too short."""
    answer, error = _tried(candidate, inputs)
    if isinstance(error, ValueError):
        return
    length, rows, first = inputs["x"].shape[1], len(inputs["table"]), inputs["first"]
    if error is not None:
        found = f"your code raises {type(error).__name__}"
    elif isinstance(answer, Tensor) and answer.shape == inputs["x"].shape:
        found = "your code returns a tensor"
    else:
        found = "your code raises no exception"
    raise CheckFailed(
        f"  The table is too short: {length} words from position {first} on need "
        f"{first + length} rows, and the table has {rows}. Expected a ValueError; {found}. A slice "
        "beyond the end of a tensor is shorter than requested, without an error, and a single "
        f"remaining row would be added to every word.\n{describe(inputs)}"
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
    """Return the matrix for encodings that have all sines first."""
    sines_first = torch.arange(d_model).reshape(-1, 2).T.flatten()
    return _shift(steps, d_model)[sines_first][:, sines_first]


_ROTATION_TWINS = [
    *known(
        "Negative steps are not handled: they must shift the encodings back.",
        lambda k, d: _shift(abs(k), d),
        lambda k, d: _shift(max(k, 0), d),
    ),
    *known(
        "The matrix shifts the encodings back instead of forwards: the minus sign is at the wrong "
        "sine. The first row of a block follows from sin(a + b), the second from cos(a + b).",
        lambda k, d: _shift(-k, d),
    ),
    *known(
        "Sine and cosine are exchanged in each block: the cosines must be on the diagonal.",
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[sin, cos], [cos, -sin]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[sin, cos], [-cos, sin]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[sin, -cos], [cos, sin]]),
    ),
    *known(
        "The blocks are not rotations: exactly one of the two sines of a block must be negative, "
        "and neither of the cosines.",
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[cos, sin], [sin, cos]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[cos, sin], [sin, -cos]]),
        lambda k, d: _shift(k, d, block=lambda cos, sin: [[cos, -sin], [-sin, cos]]),
    ),
    *known(
        "All pairs turn by the same angle. Each pair must have its own frequency.",
        lambda k, d: _shift(k, d, torch.zeros(d // 2)),
    ),
    *known(
        "The exponent is i / d, where i is the index of the pair; it must be 2i / d.",
        lambda k, d: _shift(k, d, _twice(d) / 2),
    ),
    *known(
        "The exponent is 4i / d; it must be 2i / d. The numbers 0, 2, 4, … are already 2i.",
        lambda k, d: _shift(k, d, 2 * _twice(d)),
    ),
    *known(
        "The steps are multiplied by 10000^(2i/d); they must be divided by it.",
        lambda k, d: _shift(k, d, -_twice(d)),
    ),
    *known("The base is 1000; it must be 10000.", lambda k, d: _shift(k, d, base=1e3)),
    *known(
        "The angles are converted from degrees; they are in radians already.",
        lambda k, d: _shift(math.radians(k), d),
    ),
    *known(
        "The entries of the matrix for one step are multiplied by the steps, or raised to their "
        "power. The angles must be multiplied by the steps instead.",
        lambda k, d: k * _shift(1, d),
        lambda k, d: _shift(1, d) ** k,
    ),
    *known(
        "This is the matrix for encodings with all sines first. Here sine and cosine alternate, so "
        "the blocks of size 2 × 2 must be on the diagonal.",
        _shift_of_halves,
        lambda k, d: _shift_of_halves(-k, d),
    ),
    *known(
        "The matrix shifts by one position, whatever `steps` is.",
        lambda k, d: _shift(1, d),
    ),
    *known("This is the identity matrix, which shifts nothing.", lambda k, d: torch.eye(d)),
]


@_parts.part("rotation", "shift")
def rotation(candidate: object, thorough: bool = False) -> None:
    """Check the matrix that shifts the encoding of every position."""
    asked = [(1, 2), (1, 4), (3, 4), (0, 2), (-2, 6), (5, 10)]
    if thorough:
        asked += [(17, 14), (-11, 64), (0, 6), (40, 2)]
    for steps, d_model in asked:
        inputs = {"steps": steps, "d_model": d_model}
        answer = in_32_bits(call_twice(candidate, inputs))
        expect_equal(answer, _shift(steps, d_model), "the matrix", inputs, _ROTATION_TWINS)


# Part 4

SENSITIVE, EQUIVARIANT, INVARIANT = "order-sensitive", "equivariant", "invariant"


class _Recorded(nn.Module):
    """A function of one sentence that has a name and keeps the inputs of its calls."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.seen: list[Tensor] = []

    def __repr__(self) -> str:
        return self.name

    def output(self, x: Tensor) -> Tensor:
        """Return the output for a sentence (length, d_model)."""
        raise NotImplementedError

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        return self.output(x)


class _Layer(_Recorded):
    """A layer of the package that is applied to one sentence."""

    def __init__(
        self,
        name: str,
        layer: nn.Module,
        encodings: bool | float = False,
        causal: bool = False,
        marks: tuple[int, ...] = (),
    ) -> None:
        super().__init__(name)
        self.layer = layer
        self.encodings, self.causal, self.marks = encodings, causal, marks

    def output(self, x: Tensor) -> Tensor:
        if self.encodings:
            x = x + self.encodings * sinusoids(*x.shape)
        if self.marks:
            x = x.clone()
            x[list(self.marks)] += 1
        mask = causal_mask(len(x)) if self.causal else None
        return cast(Tensor, self.layer(x.unsqueeze(0), mask)[0].squeeze(0))


class _Plain(_Recorded):
    """Any function of a sentence."""

    def __init__(self, name: str, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(name)
        self.function = function

    def output(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Distances(AttentionPosition):
    """Add to each score a value that depends on the relative position of query and key."""

    def __init__(self, score: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.score = score

    def bias(self, query: Tensor, key_len: int) -> Tensor:
        steps = steps_to_keys(query.shape[2], key_len)
        return self.score(steps, key_len).float().expand(1, 1, -1, -1)


_SIZE = 6  # dimension of a word


def _attending(score: Callable[[Tensor, int], Tensor] | None = None) -> EncoderLayer:
    position = _Distances(score) if score else None
    attention = MultiHeadAttention(_SIZE, 2, position=position)
    layer = EncoderLayer(_SIZE, attention, FeedForward(_SIZE, 12)).eval()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(2.0)
    return layer


def _some_layers() -> list[tuple[_Recorded, str, str]]:
    """Return layers, each with the right answer and a reason for those who answered otherwise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        gru = nn.GRU(_SIZE, _SIZE)
        return [
            (
                _Plain("each word, multiplied by 2", lambda x: 2 * x),
                EQUIVARIANT,
                "In every order, the outputs are reordered in the same way as the words: "
                "layer(x[order]) equals layer(x)[order].",
            ),
            (
                _Layer("self-attention", _attending()),
                EQUIVARIANT,
                "In every order, the outputs are reordered in the same way as the words. Only the "
                "last digits differ: sums in another order are rounded differently.",
            ),
            (
                _Plain("the mean of the words", lambda x: x.mean(dim=0)),
                INVARIANT,
                "It returns one vector for all words, which is the same in every order.",
            ),
            (
                _Plain(
                    "the mean of the words, with 200 added before and subtracted after it",
                    lambda x: (x + 200).mean(dim=0) - 200,
                ),
                INVARIANT,
                "Values of about 200 make the outputs differ by about 0.00002, which is rounding.",
            ),
            (
                _Layer("self-attention with a causal mask", _attending(), causal=True),
                SENSITIVE,
                "A word attends to the words before it, so their order matters.",
            ),
            (
                _Layer("self-attention on words with sinusoids", _attending(), encodings=True),
                SENSITIVE,
                "A word at another position receives another encoding.",
            ),
            (
                _Plain(
                    "the mean of the words, once for every word",
                    lambda x: x.mean(dim=0, keepdim=True).expand_as(x),
                ),
                INVARIANT,
                "All rows of its output are equal, so it is both equivariant and invariant; then "
                "the answer is “invariant”.",
            ),
            (
                _Layer(
                    "self-attention that prefers near words on both sides",
                    _attending(lambda steps, _: -3.0 * steps.abs()),
                ),
                SENSITIVE,
                "If the sentence is reversed, the outputs are reversed too, because no distance "
                "changes. Other orders show the difference: one order is not enough.",
            ),
            (
                _Layer(
                    "self-attention to the next word; after the last word comes the first",
                    _attending(lambda steps, length: 4.0 * ((steps - 1) % length == 0)),
                ),
                SENSITIVE,
                "If the sentence is rotated (torch.roll), the outputs are rotated too. Other "
                "orders show the difference: one kind of order is not enough.",
            ),
            (
                _Layer(
                    "self-attention that prefers words at an even distance",
                    _attending(lambda steps, _: 4.0 * (steps % 2 == 0)),
                ),
                SENSITIVE,
                "With four words, neither a reversal nor a rotation shows the difference, because "
                "even distances stay even. An exchange of two neighbours shows it.",
            ),
            *_marking(),
            (
                _Layer(
                    "self-attention on words with small sinusoids", _attending(), encodings=5e-4
                ),
                SENSITIVE,
                "The outputs differ by little, but by more than 0.0001.",
            ),
            (
                _Plain(
                    "each word plus 10 plus 0.0005 times its position",
                    lambda x: x + 10 + 5e-4 * torch.arange(len(x)).unsqueeze(1),
                ),
                SENSITIVE,
                "The outputs differ by more than 0.0001. Does your comparison allow a difference "
                "relative to the size of the outputs, as rtol of torch.allclose does?",
            ),
            (
                _Plain(
                    "0.0003 is added to one component of the first word",
                    lambda x: x + 3e-4 * F.one_hot(torch.tensor(0), x.numel()).view_as(x),
                ),
                SENSITIVE,
                "One component differs by more than 0.0001. The mean over all of them is smaller.",
            ),
            (
                _Plain("the running maximum of the words", lambda x: x.cummax(dim=0).values),
                SENSITIVE,
                "Some differences are negative, and none is positive. Does your comparison take "
                "the absolute value?",
            ),
            (
                _Plain("the last state of a recurrent network", lambda x: gru(x)[0][-1]),
                SENSITIVE,
                "It returns one vector for all words, which changes with their order.",
            ),
            (
                _Plain(
                    "each word plus min(last word − first word, first word − second word), where "
                    "that is positive",
                    lambda x: x + torch.minimum(x[-1] - x[0], x[0] - x[1]).clamp(min=0),
                ),
                SENSITIVE,
                "No exchange of two words shows the difference, because each word of this sentence "
                "is smaller than the one before. Other orders show it.",
            ),
            (
                _Plain("the sentence, rotated by one position", lambda x: x.roll(1, dims=0)),
                SENSITIVE,
                "The outputs contain the same vectors in every order, but at other positions: "
                "layer(x[order]) does not equal layer(x)[order].",
            ),
        ]


def _marking() -> list[tuple[_Recorded, str, str]]:
    """Return layers that treat only some positions differently from the others."""
    marked: dict[str, tuple[int, ...]] = {
        "the last word": (-1,),
        "the first word": (0,),
        "the first two words": (0, 1),
        "the first and the last word": (0, -1),
    }
    return [
        (
            _Layer(f"self-attention that marks {name}", _attending(), marks=positions),
            SENSITIVE,
            f"It depends on {name} only. An order that leaves {name} in position shows nothing, so "
            "one exchange is not enough.",
        )
        for name, positions in marked.items()
    ]


def _orders_tried(layer: _Recorded, x: Tensor) -> list[list[int]]:
    """Return the different orders of the words of `x` on which the layer was called."""
    found: list[list[int]] = []
    for seen in layer.seen:
        if seen.shape == x.shape:
            same = (seen.unsqueeze(1) == x).all(dim=-1)  # (position, word)
            order = same.int().argmax(dim=1).tolist()
            if sorted(order) == list(range(len(x))) and order not in found:
                found.append(order)
    return found


def _answered_early(layer: _Recorded, x: Tensor, right: str) -> str:
    """Return a sentence for an audit that concluded from the original order, or from one other."""
    tried = _orders_tried(layer, x)
    original = list(range(len(x)))
    others = [order for order in tried if order != original]
    if tried == [original]:
        return (
            "Before it answered, your audit called the layer only on the original order, "
            f"{original}, which shows nothing about any layer. If your audit loops over the "
            "orders, it returns in the first round: answer after the loop, from all rounds."
        )
    if len(others) == 1 and right == SENSITIVE:
        return (
            f"Before it answered, your audit called the layer on one other order only, {others[0]}."
            " If it loops over more orders, it returns too early."
        )
    return ""


@_parts.part("word order", "audit")
def order(candidate: object, thorough: bool = False) -> None:
    """Check an audit on layers that depend on the order in different ways, or not at all."""
    lengths = (4, 3) if thorough else (4,)
    for length in lengths:
        for layer, right, why in _some_layers():
            x = torch.randn(length, _SIZE).sort(dim=0, descending=True).values
            inputs = {"layer": layer, "x": x}
            said = call_twice(candidate, inputs)
            if said not in (SENSITIVE, EQUIVARIANT, INVARIANT):
                expect_value(said, right, "the answer", inputs)
            if said != right:
                early = _answered_early(layer, x, right)
                raise CheckFailed(
                    f"  For the layer “{layer}”, your audit returns “{said}”; expected “{right}”. "
                    f"{why}{' ' * bool(early)}{early}\n{describe(inputs)}"
                )


# Part 5

_ENOUGH = 0.9


@_parts.part("relative position", "head")
def looking_back(candidate: object, thorough: bool = False) -> None:
    """Check the two matrices of a head by its attention weights."""
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
        encodings = sinusoids(length, d_model)
        _, weights = scaled_dot_product_attention(encodings @ w_query, encodings @ w_key, encodings)
        if not weights.isfinite().all():
            raise CheckFailed(
                "  The weights are NaN, because the scores are too large for 32-bit numbers. A "
                f"factor of 1000 is more than enough.\n{describe(inputs)}"
            )
        _judge(weights, steps, inputs)


def _judge(weights: Tensor, steps: int, inputs: Inputs) -> None:
    """Reject weights (length, length) that are not where they should be."""
    length = len(weights)
    positions = torch.arange(length)
    wanted = positions - steps
    asking = (wanted >= 0) & (wanted < length)  # the sentence has no such word for the others
    words = positions[asking]
    found = weights[words, wanted[asking]]
    if (found > _ENOUGH).all():
        return
    attended = weights.argmax(dim=-1)
    if (attended[words] == wanted[asking]).all():
        least = int(words[found.argmin()])
        row = weights[least].clone()
        share, row[least - steps] = float(row[least - steps]), 0.0
        second = int(row.argmax())
        question = "What makes a softmax more concentrated?"
        if abs(second - (least - steps)) > 1:  # not a neighbour: the fast pairs have turned fully
            question = "Which pairs distinguish these two positions?"
        why = (
            f"The largest weight is at the right word, but it is too small. The word at position "
            f"{least} assigns {share:.2f} to position {least - steps} and {row.max():.2f} to "
            f"position {second}; expected more than {_ENOUGH}. {question}"
        )
    elif steps and _all_attend(attended, -steps):
        why = f"The head attends {_way(-steps)}; it should attend {_way(steps)}."
    elif steps and _all_attend(attended, 0):
        why = f"Every word attends to itself; it should attend {_way(steps)}."
    elif (attended == attended[0]).all():
        why = f"All words attend to position {int(attended[0])}; they should attend {_way(steps)}."
    else:
        bad = int(words[attended[words] != wanted[asking]][0])
        why = (
            f"The word at position {bad} has its largest weight at position "
            f"{int(attended[bad])}; it should attend {_way(steps)}, to position {bad - steps}."
        )
    raise CheckFailed(f"  {why}\n{describe(inputs)}\n  measured    on {length} positions")


def _all_attend(attended: Tensor, steps: int) -> bool:
    wanted = torch.arange(len(attended)) - steps
    asking = (wanted >= 0) & (wanted < len(attended))
    return bool((attended[asking] == wanted[asking]).all())


def _way(steps: int) -> str:
    if not steps:
        return "to itself"
    words = "word" if abs(steps) == 1 else "words"
    return f"{abs(steps)} {words} {'back' if steps > 0 else 'ahead'}"


# Part 6


@_parts.part("debugging", "mended_sentence", "mended_ring", "mended_picture")
def bug_hunt(sentence: object, ring: object, picture: object, thorough: bool = False) -> None:
    """Examine the encodings of a sentence, of a ring and of an image."""
    in_turn(_SYMPTOMS, sentence, ring, picture, thorough)


def _ring(size: int, d_model: int) -> Tensor:
    turns = torch.arange(size).unsqueeze(1) / size * torch.arange(1, d_model // 2 + 1)
    angles = 2 * math.pi * turns
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _turns(encodings: Tensor) -> Tensor:
    """Return the angle by which each pair turns in one step, between -π and π."""
    pairs = encodings.shape[1] // 2
    angles = torch.atan2(encodings[:, :pairs], encodings[:, pairs:])
    turned = angles[1] - angles[0]
    return (turned + math.pi) % (2 * math.pi) - math.pi


def _expect_sines_first(encodings: Tensor, what: str, inputs: Inputs) -> None:
    """Reject a first row that is not that of position 0."""
    pairs = encodings.shape[1] // 2
    start = torch.cat([torch.zeros(pairs), torch.ones(pairs)])
    if torch.allclose(encodings[0], start, atol=1e-5):
        return
    if torch.allclose(encodings[0], start.flip(0), atol=1e-5):
        why = "The cosines come first; all sines must come first."
    elif torch.allclose(encodings[0], start.reshape(2, -1).T.flatten(), atol=1e-5):
        why = "Sine and cosine alternate; all sines must come first, then all cosines."
    else:
        why = "At position 0 every sine is 0 and every cosine 1. Do the positions start at 1?"
    raise CheckFailed(
        f"  {what}: the first row is wrong. {why}\n{describe(inputs)}\n"
        f"  got         {_row(encodings[0])}\n  expected    {_row(start)}"
    )


def _examine_start(sentence: object, *_: object) -> None:
    inputs = {"length": 3, "d_model": 4}
    answer = in_32_bits(call_twice(sentence, inputs))
    encodings = expect_tensor(answer, (3, 4), "the encodings of a sentence", inputs)
    _expect_sines_first(encodings, "mended_sentence", inputs)


def _examine_frequencies(sentence: object, *_: object) -> None:
    for length, d_model in ((2, 4), (5, 10)):
        inputs = {"length": length, "d_model": d_model}
        answer = in_32_bits(call_twice(sentence, inputs))
        encodings = expect_tensor(answer, (length, d_model), "the encodings of a sentence", inputs)
        got, right = _turns(encodings), 10000 ** -_twice(d_model)
        if not torch.allclose(got, right, 1e-3, 1e-6):
            raise CheckFailed(
                "  mended_sentence: the frequencies are wrong. Pair i must have the frequency "
                f"1 / 10000^(2i/d).\n{describe(inputs)}\n"
                f"  got         {_row(got)} radians per position\n  expected    {_row(right)}"
            )


def _examine_sentence(sentence: object, _ring: object, _picture: object, more: bool) -> None:
    for length, d_model in [(7, 6), (13, 22)] + [(53, 64), (1, 2)] * more:
        inputs = {"length": length, "d_model": d_model}
        answer = in_32_bits(call_twice(sentence, inputs))
        right = _halves(length, d_model)
        expect_equal(answer, right, "the encodings of a sentence", inputs)


def _asked_ring(ring: object, size: int, d_model: int) -> tuple[Inputs, Tensor]:
    inputs = {"size": size, "d_model": d_model}
    answer = in_32_bits(call_twice(ring, inputs))
    return inputs, expect_tensor(answer, (size, d_model), "the encodings of a ring", inputs)


def _examine_closing(_sentence: object, ring: object, *_: object) -> None:
    inputs, encodings = _asked_ring(ring, 4, 4)
    _expect_sines_first(encodings, "mended_ring", inputs)
    if torch.allclose(encodings[0], encodings[-1], atol=1e-4):
        raise CheckFailed(
            "  mended_ring: the last position has the same encoding as the first. From the first "
            "position it takes 4 steps to return to it, and the last position is reached after 3."
            f"\n{describe(inputs)}\n"
            f"  got         {_row(encodings[0])} first, {_row(encodings[-1])} last"
        )
    inputs, encodings = _asked_ring(ring, 7, 4)
    steps = (encodings - encodings.roll(1, dims=0)).norm(dim=1)
    if not torch.allclose(steps, steps.mean().expand_as(steps), 1e-3, 1e-4):
        raise CheckFailed(
            "  mended_ring: not all neighbours have the same distance. The step from the last "
            "position to the first must be as large as all other steps."
            f"\n{describe(inputs)}\n"
            f"  got         {steps[0]:.4g} from last to first, {steps[1]:.4g} from first to second"
        )


def _examine_turns(_sentence: object, ring: object, *_: object) -> None:
    for size, d_model in ((7, 2), (7, 6)):
        inputs, encodings = _asked_ring(ring, size, d_model)
        got = _turns(encodings) * size / (2 * math.pi)
        right = torch.arange(1.0, d_model // 2 + 1)
        if not torch.allclose(got, right, 1e-3, 1e-3):
            still = bool((got.abs() < 1e-3).any())
            why = " One pair does not turn, so it distinguishes no positions." if still else ""
            raise CheckFailed(
                "  mended_ring: pair i, counted from 0, must make i + 1 full turns in `size` steps."
                f"{why}\n{describe(inputs)}\n"
                f"  got         {_row(got)} turns\n  expected    {_row(right)}"
            )


def _examine_ring(_sentence: object, ring: object, _picture: object, more: bool) -> None:
    for size, d_model in [(7, 4), (12, 10)] + [(5, 14), (2, 2), (1, 2)] * more:
        inputs, encodings = _asked_ring(ring, size, d_model)
        expect_equal(encodings, _ring(size, d_model), "the encodings of a ring", inputs)


class _Counting:
    """Encodings that can be read: every component is the position."""

    def __repr__(self) -> str:
        return "the position, in every component"

    def __call__(self, length: int, size: int) -> Tensor:
        return torch.arange(float(length)).unsqueeze(1).repeat(1, size)


class _Sinusoidal:
    def __repr__(self) -> str:
        return "sinusoids"

    def __call__(self, length: int, size: int) -> Tensor:
        return sinusoids(length, size)


def _picture(rows: int, columns: int, d_model: int, encode: Callable[[int, int], Tensor]) -> Tensor:
    half = d_model // 2
    down = encode(rows, half).repeat_interleave(columns, dim=0)
    across = encode(columns, half).repeat(rows, 1)
    return torch.cat([down, across], dim=1)


def _asked_picture(
    picture: object, rows: int, columns: int, d_model: int, encode: Callable[[int, int], Tensor]
) -> tuple[Inputs, Tensor]:
    inputs = {"rows": rows, "columns": columns, "d_model": d_model, "encode": encode}
    answer = in_32_bits(call_twice(picture, inputs))
    shape = (rows * columns, d_model)
    hint = "Half of the components encode the row, the other half the column."
    return inputs, expect_tensor(answer, shape, "the encodings of an image", inputs, hint)


def _examine_unique(_sentence: object, _ring: object, picture: object, *_: object) -> None:
    for rows, columns in ((2, 2), (2, 3)):
        inputs, encodings = _asked_picture(picture, rows, columns, 4, _Sinusoidal())
        far = torch.cdist(encodings, encodings) + torch.eye(len(encodings))
        if far.min() < 1e-4:
            one, other = divmod(int(far.argmin()), len(encodings))
            if (one, other) == (1, 2):  # column 1 of row 0, column 0 of row 1
                why = "A sum does not show which summand is the row."
            else:
                which = "column" if one // columns == other // columns else "row"
                why = f"Their {which}s are different, but the encoding does not show it."
            raise CheckFailed(
                f"  mended_picture: positions {one} and {other} have the same encoding. {why} The "
                "first half of the components must encode the row, the second half the column."
                f"\n{describe(inputs)}"
            )


def _examine_order(_sentence: object, _ring: object, picture: object, *_: object) -> None:
    inputs, encodings = _asked_picture(picture, 2, 3, 4, _Counting())
    right = _picture(2, 3, 4, _Counting())
    if torch.allclose(encodings, right, atol=1e-4):
        return
    position = int((encodings - right).abs().sum(dim=1).argmax())
    if torch.allclose(encodings, right.reshape(2, 3, 4).transpose(0, 1).reshape(6, 4)):
        why = "the positions are in the order of the columns; they must be row by row."
    elif torch.allclose(encodings, right.roll(2, dims=1)):
        why = "row and column are exchanged: the first half of the components must encode the row."
    elif torch.allclose(encodings, right.reshape(6, 2, 2).transpose(1, 2).flatten(1)):
        why = "row and column alternate; the first half must encode the row, the second the column."
    else:
        why = "the row and the column of a position are wrong."
        position = int(((encodings - right).abs().sum(dim=1) > 1e-4).nonzero()[0])
    raise CheckFailed(
        f"  mended_picture: {why}\n{describe(inputs)}\n"
        f"  got         {_row(encodings[position])} at position {position}\n"
        f"  expected    {_row(right[position])}"
    )


_PICTURE_TWINS = known(
    "mended_picture: each half is cut from an encoding of dimension d_model. It must be a complete "
    "encoding of dimension d_model / 2.",
    lambda rows, columns, d, encode: torch.cat(
        [
            encode(rows, d)[:, : d // 2].repeat_interleave(columns, dim=0),
            encode(columns, d)[:, : d // 2].repeat(rows, 1),
        ],
        dim=1,
    ),
)


def _examine_picture(_sentence: object, _ring: object, picture: object, more: bool) -> None:
    sizes = [(2, 3, 8), (5, 2, 12)] + [(3, 7, 20), (1, 3, 4), (6, 6, 64)] * more
    for rows, columns, d_model in sizes:
        encode = _Sinusoidal()
        inputs, encodings = _asked_picture(picture, rows, columns, d_model, encode)
        right = _picture(rows, columns, d_model, encode)
        expect_equal(encodings, right, "the encodings of an image", inputs, _PICTURE_TWINS)


def _row(numbers: Tensor) -> str:
    return "[" + ", ".join(f"{each:.4g}" for each in numbers.tolist()) + "]"


_SYMPTOMS: dict[str, Callable[..., None]] = {
    "position 0 of the sentence": _examine_start,
    "frequencies of the sentence": _examine_frequencies,
    "encodings of the sentence": _examine_sentence,
    "distances on the ring": _examine_closing,
    "frequencies of the ring": _examine_turns,
    "encodings of the ring": _examine_ring,
    "different encodings in the image": _examine_unique,
    "rows and columns of the image": _examine_order,
    "encodings of the image": _examine_picture,
}
