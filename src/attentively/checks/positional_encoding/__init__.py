"""Checks of the assignment on positional encoding.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. The encoding and its addition are also put into the package's trained Transformer. The audit
of part 4 is tested on layers whose dependence on the order is known and shows only for some orders,
the head by its weights, and the three encodings by one symptom after the other.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.positional import sinusoids, steps_to_keys
from attentively.attention.scaled_dot_product import scaled_dot_product_attention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    in_turn,
    once_solved,
    open_call,
)
from attentively.checks.recordings import Topic
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
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
_topic = Topic(__file__)
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
    _topic.examine("sinusoids", candidate, thorough)
    # For angles this large, correct methods differ in the last digits: check the shape alone.
    inputs = {"length": 5003, "d_model": 2}
    answer = in_32_bits(call(candidate, inputs))
    expect_tensor(answer, (5003, 2), "the encodings", inputs, "A sentence may have any length.")

    def put_in(model: Transformer) -> None:
        for stack in (model.encoder, model.decoder):
            size = {"length": 64, "d_model": model.config.d_model}
            stack.input.positions = _Positions(cast(Tensor, in_32_bits(call(candidate, size))))

    expect_same_translations(put_in, SENTENCES, "encodings", TRANSFORMER)


# Part 2


class _Positions(nn.Module):
    """The encodings of a Transformer in a table; a student's function may add them."""

    table: Tensor

    def __init__(self, table: Tensor, add: Callable[..., object] | None = None) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.add = add

    def forward(self, x: Tensor, first: int = 0) -> object:
        if self.add is None:
            return x + self.table[first : first + x.shape[1]]
        return in_32_bits(self.add(x, self.table, first))


@_parts.part(
    "crop and broadcast",
    "add_positions",
    rebuilds=("attentively.attention.positional:SinusoidalPositionalEncoding",),
    step=True,
)
def added(candidate: object, thorough: bool = False) -> None:
    """Check the sum of words and encodings, and use it in the trained Transformer."""
    try:
        _topic.examine("add_positions", candidate, thorough)
    except CheckFailed as failed:
        if "raises ValueError" in str(failed):
            for each in _topic.recording("add_positions", thorough).cases:
                _expect_accepted(candidate, each.case.inputs)
        raise
    table = torch.arange(8.0).view(4, 2)
    for length, first in ((5, 0), (3, 2), (2, 3), (2, 4), (3, 7)):
        _expect_refused(candidate, {"x": torch.ones(1, length, 2), "table": table, "first": first})

    def put_in(model: Transformer) -> None:
        for stack in (model.encoder, model.decoder):
            encodings = sinusoids(64, model.config.d_model)
            stack.input.positions = _Positions(encodings, cast(Any, candidate))

    expect_same_translations(put_in, SENTENCES, "add_positions", TRANSFORMER)


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


def _expect_accepted(candidate: object, inputs: Inputs) -> None:
    """Reject a candidate that raises `ValueError` for a table that is long enough."""
    _, error = _tried(candidate, inputs)
    if not isinstance(error, ValueError):
        return
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


@_parts.part("rotation", "shift")
def rotation(candidate: object, thorough: bool = False) -> None:
    """Check the matrix that shifts the encoding of every position."""
    _topic.examine("shift", candidate, thorough)


# Part 4

SENSITIVE, EQUIVARIANT, INVARIANT = "order-sensitive", "equivariant", "invariant"


class _Recorded:
    """A function of one sentence that has a name and keeps the different inputs of its calls."""

    def __init__(self, name: str, words: int = 3, square: bool = False) -> None:
        self.name = name
        self.words = words
        """The length of the sentence: three words have six orders, and four words have 24."""
        self.square = square
        """Whether the dimension of its words is the length of the sentence."""
        self.seen: list[Tensor] = []

    def __repr__(self) -> str:
        return self.name

    def output(self, x: Tensor) -> Tensor:
        """Return the output for a sentence (length, d_model)."""
        raise NotImplementedError

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        seen = x.detach().clone()
        if not any(each.shape == seen.shape and each.equal(seen) for each in self.seen):
            self.seen.append(seen)
        return self.output(x)


class _Attention(_Recorded):
    """Self-attention of one head, with residual connection, on one sentence.

    Its ``scores`` depend on the relative positions: ``scores(steps, length)`` is added, where
    ``steps`` (length, length) is the position of each key minus that of the query.
    """

    def __init__(
        self,
        name: str,
        scores: Callable[[Tensor, int], Tensor] | None = None,
        encodings: float = 0.0,
        marks: tuple[int, ...] = (),
        words: int = 3,
    ) -> None:
        super().__init__(name, words)
        self.scores, self.encodings, self.marks = scores, encodings, list(marks)
        self.w_query, self.w_key, self.w_value = torch.randn(3, _SIZE, _SIZE) / _SIZE**0.5

    def output(self, x: Tensor) -> Tensor:
        if self.encodings:
            x = x + self.encodings * sinusoids(*x.shape)
        if self.marks:
            x = x.clone()
            x[self.marks] += 1
        scores = (x @ self.w_query) @ (x @ self.w_key).T / _SIZE**0.5
        if self.scores is not None:
            scores = scores + self.scores(steps_to_keys(len(x), len(x)), len(x))
        return x + scores.softmax(dim=-1) @ (x @ self.w_value)


class _Plain(_Recorded):
    """Any function of a sentence."""

    def __init__(
        self,
        name: str,
        function: Callable[[Tensor], Tensor],
        words: int = 3,
        square: bool = False,
    ) -> None:
        super().__init__(name, words, square)
        self.function = function

    def output(self, x: Tensor) -> Tensor:
        return self.function(x)


_SIZE = 6  # dimension of a word


def _some_layers() -> list[tuple[_Recorded, str, str]]:
    """Return layers, each with its kind and the reason for it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        gru = nn.GRU(_SIZE, _SIZE)
        return [
            (
                _Plain("each word, multiplied by 2", lambda x: 2 * x, words=4),
                EQUIVARIANT,
                "In every order, the outputs are reordered in the same way as the words: "
                "layer(x[order]) equals layer(x)[order].",
            ),
            (
                _Attention("self-attention"),
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
                    words=4,
                ),
                INVARIANT,
                "Values of about 200 make the outputs differ by about 0.00002, which is rounding.",
            ),
            (
                _Attention(
                    "self-attention with a causal mask",
                    lambda steps, _: torch.where(steps > 0, -math.inf, 0.0),
                ),
                SENSITIVE,
                "A word attends to the words before it, so their order matters.",
            ),
            (
                _Attention("self-attention on words with sinusoids", encodings=1.0),
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
                _Attention(
                    "self-attention that prefers near words on both sides",
                    lambda steps, _: -3.0 * steps.abs(),
                    words=4,
                ),
                SENSITIVE,
                "If the sentence is reversed, the outputs are reversed too, because no distance "
                "changes. Other orders show the difference: one order is not enough.",
            ),
            (
                _Attention(
                    "self-attention to the next word; after the last word comes the first",
                    lambda steps, length: 4.0 * ((steps - 1) % length == 0),
                ),
                SENSITIVE,
                "If the sentence is rotated (torch.roll), the outputs are rotated too. Other "
                "orders show the difference: one kind of order is not enough.",
            ),
            (
                _Attention(
                    "self-attention that prefers words at an even distance",
                    lambda steps, _: 4.0 * (steps % 2 == 0),
                    words=4,
                ),
                SENSITIVE,
                "With four words, neither a reversal nor a rotation shows the difference, because "
                "even distances stay even. An exchange of two neighbours shows it.",
            ),
            *_marking(),
            (
                _Attention("self-attention on words with small sinusoids", encodings=5e-4),
                SENSITIVE,
                "The outputs differ by little, but by more than 0.0001.",
            ),
            (
                _Plain(
                    "each word plus 1000 plus 0.003 times its position",
                    lambda x: x + 1000 + 3e-3 * torch.arange(len(x)).unsqueeze(1),
                ),
                SENSITIVE,
                "The outputs differ by more than 0.0001. Does your comparison allow a difference "
                "relative to the size of the outputs, as rtol of torch.allclose does?",
            ),
            (
                _Plain(
                    "the mean of the words; if the first word is smaller than the last, plus "
                    "0.00006 in every component",
                    lambda x: x.mean(dim=0) + 6e-5 * (x[0] < x[-1]),
                ),
                INVARIANT,
                "No component differs by 0.0001 or more. Does your comparison add the differences "
                "of several components, as a norm does?",
            ),
            (
                _Plain(
                    "0.00015 is added to one component of the first word",
                    lambda x: x + 1.5e-4 * F.one_hot(torch.tensor(0), x.numel()).view_as(x),
                ),
                SENSITIVE,
                "One component differs by 0.00015, which is more than 0.0001. Neither a mean over "
                "all components nor a larger tolerance shows it.",
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
            (
                _Plain(
                    "the words; sorted, if the first one is smaller than the last",
                    lambda x: x if x[0, 0] > x[-1, 0] else x.sort(dim=0, descending=True).values,
                ),
                SENSITIVE,
                "In some orders the outputs are reordered like the words, and in the others they "
                "do not change. Neither of the two holds for every order.",
            ),
            (
                _Plain("the first component of each word", lambda x: x[:, 0], square=True),
                SENSITIVE,
                "It returns one vector of shape (d_model,), which cannot be reordered, although "
                "d_model equals the number of words here.",
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
            _Attention(f"self-attention that marks {name}", marks=positions, words=4),
            SENSITIVE,
            f"It depends on {name} only. An order that leaves {name} in position shows nothing, so "
            "one exchange is not enough.",
        )
        for name, positions in marked.items()
    ]


class _Noticing(_Recorded):
    """A layer that notices only one order.

    The words of the sentence are sorted, so the ranks of the words that it reads are their order.
    """

    def __init__(self, order: list[int]) -> None:
        says = f"the words; in the order {order}, 1 is added to the last component"
        super().__init__(says, words=len(order))
        self.order = order

    def output(self, x: Tensor) -> Tensor:
        ranks = (x[:, 0] > x[:, :1]).sum(dim=1)
        last = F.one_hot(torch.tensor(x.numel() - 1), x.numel()).view_as(x)
        return x + last * (ranks.tolist() == self.order)


def _noticing(orders: list[list[int]], tried: list[list[int]]) -> list[tuple[_Recorded, str, str]]:
    """Return layers that notice one order each: the last one, and all that an audit did not try.

    `tried` are the orders of its calls before it said that a layer is equivariant. On a layer that
    differs in another order only, its calls and the outputs are the same.
    """
    _, *others = orders  # all layers may be called on the original order
    return [
        (
            _Noticing(order),
            SENSITIVE,
            "One single order of the words shows the difference, in one component of the last "
            "word. Test all orders, as itertools.permutations lists them, and whole outputs.",
        )
        for order in others
        if order == others[-1] or order not in tried
    ]


def _rows_read(layer: _Recorded, x: Tensor) -> list[list[int]]:
    """Return the different lists of words of `x` on which the layer was called, as indices."""
    found: list[list[int]] = []
    for seen in layer.seen:
        if seen.shape == x.shape:
            same = (seen.unsqueeze(1) == x).all(dim=-1)  # (position, word)
            rows = same.int().argmax(dim=1).tolist()
            if same.any(dim=1).all() and rows not in found:
                found.append(rows)
    return found


def _about_the_orders(layer: _Recorded, x: Tensor, right: str) -> str:
    """Return a sentence for an audit that repeats words, or that tries no order or one only."""
    tried = _rows_read(layer, x)
    original = list(range(len(x)))
    for rows in tried:
        if sorted(rows) != original:
            return (
                f"Your audit called the layer on the words {rows}, in which a word occurs twice. "
                "An order contains each word once: itertools.permutations lists them."
            )
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
    for most in (4, 3) if thorough else (4,):  # then the layers of four words, on three
        key = open_call.key("order", most)
        layers = [each for each in _some_layers() if most == 4 or each[0].words == 4]
        equivariant = layers[0][0]
        how: Callable[..., object] = call_twice
        while layers:
            layer, right, why = layers.pop(0)  # a layer holds everything that it was called with
            length = min(layer.words, most)
            size = length if layer.square else _SIZE
            x = torch.randn(length, size).sort(dim=0, descending=True).values
            if open_call.known(key):
                continue
            inputs = {"layer": layer, "x": x}
            said, how = how(candidate, inputs), call
            if said not in (SENSITIVE, EQUIVARIANT, INVARIANT):
                expect_value(said, right, "the answer", inputs)
            if said != right:
                orders = _about_the_orders(layer, x, right)
                raise CheckFailed(
                    f"  For the layer “{layer}”, your audit returns “{said}”; expected “{right}”. "
                    f"{why}{' ' * bool(orders)}{orders}\n{describe(inputs)}"
                )
            if layer is equivariant:
                permutations = [*map(list, itertools.permutations(range(length)))]
                layers += _noticing(permutations, _rows_read(layer, x))
        open_call.note(key)
    one = {"layer": _Plain("each word, multiplied by 2", lambda x: 2 * x), "x": torch.ones(1, 2)}
    hint = "A single word has one order only."
    expect_value(call_twice(candidate, one), INVARIANT, "the answer", one, hint=hint)


# Part 5

_ENOUGH = 0.9


@_parts.part("relative position", "head")
def looking_back(candidate: object, thorough: bool = False) -> None:
    """Check the two matrices of a head by its attention weights."""
    asked = [(1, 64, 7), (1, 64, 50), (2, 32, 50), (-1, 64, 50), (0, 64, 50), (5, 16, 50)]
    if thorough:
        asked += [(3, 128, 97), (-7, 64, 60), (11, 32, 30), (1, 20, 41)]
    for steps, d_model, length in open_call.new("head", asked):
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
        why = (
            f"All words attend to position {int(attended[0])}; each word should attend "
            f"{_way(steps)}."
        )
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
        got, right = _turns(encodings), 10000 ** -(torch.arange(0, d_model, 2) / d_model)
        if not torch.allclose(got, right, 1e-3, 1e-6):
            raise CheckFailed(
                "  mended_sentence: the frequencies are wrong. Pair i must have the frequency "
                f"1 / 10000^(2i/d).\n{describe(inputs)}\n"
                f"  got         {_row(got)} radians per position\n  expected    {_row(right)}"
            )


def _examine_sentence(sentence: object, _ring: object, _picture: object, more: bool) -> None:
    _topic.examine("mended_sentence", sentence, more)


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
    _topic.examine("mended_ring", ring, more)


class _Counting:
    """Encodings that can be read: every component is the position."""

    def __repr__(self) -> str:
        return "the position, in every component"

    def __call__(self, length: int, size: int) -> Tensor:
        return torch.arange(float(length)).unsqueeze(1).repeat(1, size)


class Shares:
    """An `encode` whose results depend on the number of positions."""

    def __repr__(self) -> str:
        return "the share of the positions that come before, times 1, 2, …"

    def __call__(self, length: int, size: int) -> Tensor:
        return torch.arange(length).unsqueeze(1) / length * torch.arange(1, size + 1)


class Sinusoidal:
    """An `encode` that returns sinusoids."""

    def __repr__(self) -> str:
        return "sinusoids"

    def __call__(self, length: int, size: int) -> Tensor:
        return sinusoids(length, size)


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
        inputs, encodings = _asked_picture(picture, rows, columns, 4, Sinusoidal())
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
    right = torch.tensor([[row, row, col, col] for row in range(2) for col in range(3)]).float()
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


def _examine_picture(_sentence: object, _ring: object, picture: object, more: bool) -> None:
    _topic.examine("mended_picture", picture, more)


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
