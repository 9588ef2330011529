"""Checks of the assignment on what layers cost: counts, a graph, a fitted curve, a crossing.

Part 1 is the paper's table with its constants, part 3 a line through logarithms. The answers to
parts 2 and 4 stand nowhere: the graphs are of any shape, and a cost of three terms is fitted to
what was measured, to find the length from which one layer is dearer than another for good.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, cast

import torch

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_pair,
    expect_value,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.checks.why_it_wins.computation_graphs import (
    Graph,
    Node,
    attention,
    back_and_forth,
    backward,
    backward_over,
    bidirectional,
    convolution,
    from_the_first,
    in_sweeps,
    last,
    layer_by_layer,
    leaping,
    levels,
    recurrent,
    skipping,
    steps_of,
    stirred,
    to_the_last,
    top,
    way_of_pairs,
    with_a_hub,
)

__all__ = [
    "attention",
    "bidirectional",
    "convolution",
    "count",
    "crossing",
    "forecasts",
    "once_solved",
    "progress",
    "read_off",
    "ready",
    "recurrent",
    "with_a_hub",
]

Inputs = Mapping[str, Any]
_Mistakes = dict[str, list[Callable[..., object]]]
"""What to say of each mistake, and the ways to make it."""

_parts = Parts()
progress = _parts.progress


def _expect_each(
    answers: Iterable[object],
    cases: Iterable[Inputs],
    right: Callable[..., object],
    names: Iterable[str],
    mistakes: _Mistakes,
    before: str,
    hint: Callable[..., str] = lambda *_: "",
) -> None:
    """Refuse the first answer that is not right; a mistake is named if it explains them all.

    `names` are what each answer is called in a message.
    """
    pairs = [
        (each if plain_number(each) is None else plain_number(each), inputs)
        for each, inputs in zip(answers, cases, strict=False)
    ]
    if all(_agrees(answer, right, inputs) for answer, inputs in pairs):
        return
    none_is_meant = any(answer is not None for answer, _ in pairs)  # else a `return` is missing
    twins = [
        twin
        for said, ways in mistakes.items()
        for twin in known(f"{before}{said}", *ways)
        if all(_agrees(answer, twin.answer, inputs) for answer, inputs in pairs)
    ]
    for (answer, inputs), name in zip(pairs, names, strict=False):
        given = inputs.values()
        if none_is_meant and None in (answer, right(*given)):
            said = f"This is not the expected value of {name}. {hint(*given)}".rstrip()
            also = known(said, lambda *_, answer=answer: answer)
            expect_value(answer, right(*given), name, inputs, [*twins, *also])
        expect_value(answer, right(*given), name, inputs, twins, hint(*given))


def _agrees(answer: object, of: Callable[..., object], inputs: Inputs) -> bool:
    """Tell whether an answer is that of a way to compute it; a way that fails says nothing."""
    try:
        expected = of(*inputs.values())
    except (ValueError, LookupError, ZeroDivisionError):
        return True
    try:
        expect_value(answer, expected, "", {})
    except CheckFailed:
        return False
    return True


class _Answers:
    """What a candidate answers to each case, as far as it does."""

    def __init__(self, candidate: object, cases: Iterable[Inputs]) -> None:
        self.all: list[object] = []
        self.failed: CheckFailed | None = None
        for inputs in cases:
            try:
                self.all.append(call_twice(candidate, inputs))
            except CheckFailed as failed:
                self.failed = failed
                break

    def see_failure(self) -> None:
        """Raise what the candidate failed with, if it did: after what it had wrong before."""
        if self.failed:
            raise self.failed


def _listed(answer: Any) -> Any:
    """Return several numbers as a list, also a tensor or a column; other things as they are."""
    if hasattr(answer, "flatten"):
        return answer.flatten().tolist()
    rows = answer if isinstance(answer, list | tuple) else []
    if rows and all(isinstance(row, list | tuple) and len(row) == 1 for row in rows):
        return [row[0] for row in rows]
    return answer


def ready() -> None:
    """Say that the package and these checks work."""
    _parts.explain_undefined_names()
    graph = recurrent(3)
    arrows = sum(map(len, graph.values()))
    print(f"PyTorch {torch.__version__}. A graph of {len(graph)} nodes and {arrows} arrows. Ready.")


# Part 1


_LAYERS = ("rnn", "gru", "convolution", "dilated", "attention")


def _multiplications(layer: str, n: int, d: int, k: int) -> int:
    per_position = {"rnn": 2, "gru": 6, "convolution": k, "dilated": k, "attention": 4}
    pairs = 2 * n * n * d if layer == "attention" else 0
    return per_position[layer] * n * d * d + pairs


def _steps(layer: str, n: int, d: int, k: int) -> int:
    return n if layer in ("rnn", "gru") else 1


def _path(layer: str, n: int, d: int, k: int) -> int:
    if layer == "convolution":
        return max(1, math.ceil((n - 1) / (k - 1)))
    if layer == "dilated":
        depth = 1
        while k**depth < n:
            depth += 1
        return depth
    return n if layer in ("rnn", "gru") else 1


_Formula = Callable[[int, int, int], object]


def _if(layers: str, formula: _Formula) -> Callable[..., object]:
    """Return a mistake that is made with some layers; with others there is none to be made."""

    def answer(layer: str, n: int, d: int, k: int) -> object:
        if layer not in layers.split():
            raise ValueError(layer)
        return formula(n, d, k)

    return answer


def _within(n: int, d: int, k: int) -> int:
    """Return the multiplications of a convolution that leaves out what lies before the words."""
    return sum(min(t + 1, k) for t in range(n)) * d * d


def _log(n: int, k: int) -> float:
    return math.log(n) / math.log(k)


def _matrices(number: int, n: int, d: int, k: int) -> int:
    return number * n * d * d


_TABLE_TWINS: dict[str, _Mistakes] = {
    "multiplications": {
        "An RNN multiplies two vectors at each position: W the word, U the state before it.":
            [_if("rnn", lambda n, d, k: n * d * d)],
        "A GRU has three pairs of matrices: for the reset gate, the update gate, the candidate.":
            [_if("gru", partial(_matrices, m)) for m in (1, 2, 3, 4, 8)],
        "A convolution has a matrix d × d for each of the k places that it reads.":
            [_if("convolution dilated", lambda n, d, k: n * d * d),
             _if("convolution dilated", lambda n, d, k: k * n * d)],
        "What stands before the first word counts too: zeros, which are multiplied all the same.":
            [_if("convolution dilated", _within),
             _if("convolution dilated", lambda n, d, k: max(0, n - k + 1) * k * d * d),
             _if("rnn", lambda n, d, k: (2 * n - 1) * d * d),
             _if("gru", lambda n, d, k: (6 * n - 3) * d * d)],
        "Biases, gates, softmax and the division by √d do not count.":
            [_if("rnn", lambda n, d, k: 2 * n * d * d + n * d),
             _if("gru", lambda n, d, k: 6 * n * d * d + 3 * n * d),
             _if("attention", lambda n, d, k: 4 * n * d * d + 2 * n * n * d + n * n)],
        "This attention has no mask: every word looks at all n, not only at those before it.":
            [_if("attention", lambda n, d, k: 4 * n * d * d + n * (n + 1) * d)],
        "This is the work of all layers that the path needs. Asked is that of one.":
            [lambda *a: _multiplications(*a) * _path(*a)],
        "The four matrices of attention are not counted: of queries, keys, values and output. The "
        "paper's n²d leaves them out.":
            [_if("attention", lambda n, d, k: 2 * n * n * d),
             _if("attention", lambda n, d, k: n * n * d)],
        "Attention has four matrices: of queries, keys, values, and W^O, which mixes the heads.":
            [_if("attention", lambda n, d, k: 3 * n * d * d + 2 * n * n * d)],
        "Each pair of positions costs d multiplications twice: for the score, and for the value.":
            [_if("attention", lambda n, d, k: 4 * n * d * d + n * n * d),
             _if("attention", lambda n, d, k: 4 * n * d * d + n * n * d + n * n),
             _if("attention", lambda n, d, k: 4 * n * d * d)],
        "This is the paper's n²d + nd². The O(…) hides constants; here each one counts.":
            [_if("attention", lambda n, d, k: n * d * d + n * n * d)],
        "The matrices of attention are applied at every position, so n times.":
            [_if("attention", lambda n, d, k: 4 * d * d + 2 * n * n * d)],
        "This is the work at one position; the layer reads n.":
            [lambda layer, n, d, k: _multiplications(layer, n, d, k) / n],
        "A matrix d × d times a vector takes d² multiplications: d for each of the d results.":
            [lambda layer, n, d, k: _multiplications(layer, n, d, k) / d,
             _if("attention", lambda n, d, k: 4 * n * d + 2 * n * n * d)],
        "Additions are counted too. Here only multiplications are.":
            [lambda *a: 2 * _multiplications(*a)],
    },
    "steps": {
        "Each state waits for the one before it: n steps, however many machines there are.":
            [_if("rnn gru", lambda n, d, k: 1)],
        "The first word is a step too: its state comes from a state before it, of zeros.":
            [_if("rnn gru", lambda n, d, k: n - 1)],
        "What is in a row within one position, as gates are, is a constant, and is one step.":
            [_if("rnn gru", lambda n, d, k: 2 * n), _if("gru", lambda n, d, k: 3 * n)],
        "No position of this layer waits for another: all are computed at once.":
            [_if("convolution dilated attention", lambda n, d, k: n)],
        "The k products are not in a row: nothing keeps them from being computed at once.":
            [_if("convolution dilated", lambda n, d, k: k)],
        "These are the steps of all layers that the path needs. Asked are those of one.":
            [_path],
        "Projections, scores, softmax and sum are a constant number, which is one step.":
            [_if("attention", lambda *_: 2), _if("attention", lambda *_: 4)],
    },
    "path": {
        "What the first word says goes through every state on its way to the last.":
            [_if("rnn gru", lambda n, d, k: 1)],
        "Count the arrows: one from the first word into its state, n − 1 from state to state.":
            [_if("rnn gru", lambda n, d, k: n - 1), _if("rnn gru", lambda n, d, k: n + 1)],
        "A single layer reads k places. How many until the last output knows of the first word?":
            [_if("convolution dilated", lambda n, d, k: 1),
             _if("convolution dilated", lambda n, d, k: k)],
        "There is at least one layer, even where it has one word only to read.":
            [_if("convolution", lambda n, d, k: math.ceil((n - 1) / (k - 1))),
             _if("dilated", lambda n, d, k: math.ceil(_log(n, k) - 1e-9))],
        "Each layer reaches k − 1 places further back, not k: it reads its own place too.":
            [_if("convolution", lambda n, d, k: math.ceil(n / k)),
             _if("convolution", lambda n, d, k: max(1, math.ceil((n - 1) / k))),
             _if("convolution", lambda n, d, k: n // k),
             _if("convolution", lambda n, d, k: n / k)],
        "From the first word to the last are n − 1 places, not n.":
            [_if("convolution", lambda n, d, k: math.ceil(n / (k - 1)))],
        "A layer that is needed in part is needed: round up.":
            [_if("convolution", lambda n, d, k: max(1, (n - 1) // (k - 1))),
             _if("convolution", lambda n, d, k: (n - 1) / (k - 1)),
             _if("dilated", lambda n, d, k: max(1, math.floor(_log(n, k) + 1e-9))),
             _if("dilated", lambda n, d, k: _log(n, k))],
        "This is one layer too many where n is a power of k.":
            [_if("dilated", lambda n, d, k: math.floor(_log(n, k) + 1e-9) + 1)],
        "For the computer log 125 / log 5 is 3.0000000000000004, which is 4 once rounded up. "
        "Multiply by k until n is reached, or take a little off before rounding.":
            [_if("dilated", lambda n, d, k: max(1, math.ceil(_log(n, k))))],
        "Here each layer reads places that are k times as far apart as in the layer below.":
            [_if("dilated", lambda n, d, k: max(1, math.ceil((n - 1) / (k - 1)))),
             _if("dilated", lambda n, d, k: max(1, math.ceil(math.log2(n))))],
        "This convolution reads its own place and those before, not k // 2 on both sides.":
            [_if("convolution", lambda n, d, k: max(1, math.ceil((n - 1) / (k // 2))))],
        "Every output of attention reads every word itself: one layer, one arrow.":
            [_if("attention", lambda n, d, k: n), _if("attention", lambda *_: 2),
             _if("attention", lambda *_: 0)],
    },
}  # fmt: skip
_COLUMNS: dict[str, Callable[..., int]] = {
    "multiplications": _multiplications,
    "steps": _steps,
    "path": _path,
}


@_parts.part("the table", "costs")
def count(candidate: object, thorough: bool = False) -> None:
    """Check what one layer multiplies, its steps in a row, and the longest way."""
    sizes = [(4, 3, 3), (5, 3, 2), (9, 2, 3), (10, 7, 3), (125, 2, 5), (126, 3, 5), (1, 5, 2)]
    if thorough:
        sizes += [(1000, 11, 10), (243, 5, 3), (17, 64, 7), (2, 1, 2), (512, 512, 3), (64, 3, 4)]
    for layer in _LAYERS:
        cases: list[Inputs] = [{"layer": layer, "n": n, "d": d, "k": k} for n, d, k in sizes]
        answers = _Answers(candidate, cases)
        answers.all = [_listed(answer) for answer in answers.all]
        for answer, inputs in zip(answers.all, cases, strict=False):
            if not isinstance(answer, tuple | list) or len(answer) != 3:
                raise CheckFailed(
                    "  Expected three numbers, `return multiplications, steps, path`; got "
                    f"{show(answer)}\n{describe(inputs)}"
                )
            work, *others = (of(*inputs.values()) for of in _COLUMNS.values())
            found = [plain_number(each) for each in answer]
            if found == [work, *others[::-1]] and others[0] != others[1]:
                raise CheckFailed(
                    "  Steps and path have changed places: return multiplications, steps, path."
                    f"\n{describe(inputs)}"
                )
        for place, (column, right) in enumerate(_COLUMNS.items()):
            _expect_each(
                [cast(Any, answer)[place] for answer in answers.all], cases, right,
                [f"{column} of {layer!r}"] * len(cases), _TABLE_TWINS[column],
                f"{layer}, {column}: ",
            )  # fmt: skip
        answers.see_failure()


# Part 2


def _one_pass(graph: Graph) -> int:
    found: dict[Node, int] = {}
    for node, read in graph.items():
        found[node] = max((found.get(each, 0) + 1 for each in read), default=0)
    return max(found.values())


_GRAPH_STEPS_TWINS: _Mistakes = {
    "The number of layers is not the number of steps: within a layer one node may wait for "
    "another.":
        [top],
    "Every node is computed on its own, one after the other. With machines enough, all that do"
    " not wait for each other are computed in one step.":
        [lambda graph: len(graph) - sum(layer == 0 for layer, _ in graph),
         len],
    "The words are there from the beginning, and take no step.":
        [lambda graph: steps_of(graph) + 1],
    "A node waits for the last of those that it reads, not for the first.":
        [lambda graph: max(levels(graph, min).values())],
    "What a node reads may stand further down in the dict than the node: the order of the "
    "nodes means nothing. One pass in that order does not do.":
        [_one_pass, lambda graph: _one_pass(dict(sorted(graph.items())))],
    "What is computed in a step is there for the next one, not yet for other nodes of the same.":
        [in_sweeps],
    "A node waits for those alone that it reads, not until the layer below is complete.":
        [layer_by_layer],
    "The last node of the top layer need not be the one that is ready last.":
        [lambda graph: levels(graph)[top(graph), last(graph)],
         lambda graph: levels(graph)[top(graph), 0]],
    "The steps and the longest way have changed places.":
        [way_of_pairs],
}  # fmt: skip


def _more(graph: Graph, more: int) -> int | None:
    way = way_of_pairs(graph)
    return None if way is None else way + more


_GRAPH_PATH_TWINS: _Mistakes = {
    "These are the longest ways. Of a pair the shortest way counts; of all pairs, the largest.":
        [lambda graph: way_of_pairs(graph, longest=True)],
    "This is the way of the nearest pair; asked for is the pair that is furthest apart.":
        [lambda graph: way_of_pairs(graph, choose=min)],
    "A pair without any way is left out. Where there is one, nothing is learned from that word"
    " there: return None.":
        [lambda graph: way_of_pairs(graph, none=0)],
    "A pair without any way makes this infinite, or a number that stands for it. Return None.":
        [lambda graph: way_of_pairs(graph) or math.inf,
         lambda graph: way_of_pairs(graph) or -1,
         lambda graph: way_of_pairs(graph) or 0],
    "Only the way from the first word to the last output is looked at. Another pair may be "
    "further apart.":
        [lambda graph: way_of_pairs(graph, lambda i, j: i == 0 and j == last(graph))],
    "Only the ways from the first word are looked at.":
        [lambda graph: way_of_pairs(graph, lambda i, j: i == 0)],
    "Only the ways to the last output are looked at.":
        [lambda graph: way_of_pairs(graph, lambda i, j: j == last(graph))],
    "A word at the place of the output counts too: i ≤ j, not i < j.":
        [lambda graph: way_of_pairs(graph, lambda i, j: i < j),
         lambda graph: way_of_pairs(graph, lambda i, j: i < j) or 0],
    "An output need not know words that come after it: pairs with j < i are not asked for.":
        [lambda graph: way_of_pairs(graph, lambda i, j: True),
         lambda graph: way_of_pairs(graph, lambda i, j: i >= j),
         lambda graph: way_of_pairs(graph, lambda i, j: True, none=0),
         lambda graph: way_of_pairs(graph) and way_of_pairs(graph, lambda i, j: True, none=0)],
    "Count the arrows on the way, not its nodes.":
        [lambda graph: _more(graph, 1), lambda graph: _more(graph, -1)],
    "The number of layers is not the longest way: it may lead along a layer.":
        [top],
    "The steps and the longest way have changed places.":
        [steps_of],
}  # fmt: skip


@_parts.part("the graph", "steps", "path")
def read_off(steps: object, path: object, thorough: bool = False) -> None:
    """Check what is read off a graph: the steps in a row, and the longest of the shortest ways."""
    graphs: list[tuple[str, Callable[..., Graph], tuple[object, ...]]] = [
        ("a recurrent layer", recurrent, (2,)),
        ("a recurrent layer", recurrent, (4,)),
        ("attention", attention, (3,)),
        ("causal attention", attention, (3, True)),
        ("one convolution", convolution, (3, 2, [1])),
        ("two convolutions", convolution, (3, 2, [1, 1])),
        ("a layer that reads backwards", backward, (3,)),
        ("a recurrent layer that also reads the first word", from_the_first, (4,)),
        ("a recurrent layer whose last state reads every word", to_the_last, (4,)),
        ("convolutions, and the words themselves", skipping, (3, 3)),
        ("a bidirectional layer", bidirectional, (3,)),
        ("a layer that reads backwards, and one on it that reads forwards", back_and_forth, (3,)),
        ("neighbours and a hub, one layer", with_a_hub, (5, 1)),
        ("neighbours and a hub, two layers", with_a_hub, (5, 2)),
        ("a recurrent layer that also reads the state two before", leaping, (7,)),
        ("a layer that reads backwards, and all words so far", backward_over, (4,)),
        ("a single word", recurrent, (1,)),
        ("three dilated convolutions", convolution, (8, 2, [1, 2, 4])),
    ]
    if thorough:
        graphs += [
            ("a long recurrent layer", recurrent, (31,)),
            ("a long bidirectional layer", bidirectional, (13,)),
            ("dilated convolutions", convolution, (27, 3, [1, 3, 9])),
            ("dilated convolutions", convolution, (28, 3, [1, 3, 9])),
            ("convolutions, and the words themselves", skipping, (7, 4)),
            ("neighbours and a hub, three layers", with_a_hub, (11, 3)),
            ("a recurrent layer that also reads the first word", from_the_first, (9,)),
        ]
    cases = [{"graph": stirred(made(*of), seed)} for seed, (_, made, of) in enumerate(graphs)]
    built = [f"{name}, checks.{made.__name__}({str([*of])[1:-1]})" for name, made, of in graphs]
    for column, candidate, right, mistakes in (
        ("steps", steps, steps_of, _GRAPH_STEPS_TWINS),
        ("path", path, way_of_pairs, _GRAPH_PATH_TWINS),
    ):
        answers = _Answers(candidate, cases)
        names = [f"{column} in the graph of {name}" for name in built]
        _expect_each(answers.all, cases, right, names, mistakes, f"{column}: ")
        answers.see_failure()


# Part 3


_Points = tuple[list[float], list[float]]


def _line(x: Iterable[float], y: Iterable[float]) -> tuple[float, float]:
    """Return slope and intercept of the line of least squares."""
    x, y = list(x), list(y)
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    slope = over / sum((a - mean_x) ** 2 for a in x)
    return slope, mean_y - slope * mean_x


def _logs(numbers: Iterable[float]) -> list[float]:
    return [math.log(number) for number in numbers]


def _fit(lengths: list[float], times: list[float]) -> tuple[float, float]:
    exponent, intercept = _line(_logs(lengths), _logs(times))
    return exponent, math.exp(intercept)


def _by_the_ends(lengths: list[float], times: list[float]) -> float:
    return math.log(times[-1] / times[0]) / math.log(lengths[-1] / lengths[0])


def _through_zero(lengths: list[float], times: list[float]) -> float:
    pairs = list(zip(_logs(lengths), _logs(times), strict=True))
    return sum(a * b for a, b in pairs) / sum(a * a for a, _ in pairs)


def _other_way_round(lengths: list[float], times: list[float]) -> float:
    return _line(_logs(times), _logs(lengths))[0]


def _of_neighbours(lengths: list[float], times: list[float]) -> float:
    points = list(pairwise(zip(_logs(lengths), _logs(times), strict=True)))
    return sum((d - b) / (c - a) for (a, b), (c, d) in points) / len(points)


_EXPONENT_TWINS: _Mistakes = {
    "exponent and factor have changed places.":
        [lambda *a: _fit(*a)[1]],
    "no logarithms are taken: this is the slope of a line through the measurements themselves.":
        [lambda *a: _line(*a)[0]],
    "only one side is taken in logarithms; both have to be.":
        [lambda lengths, times: _line(lengths, _logs(times))[0],
         lambda lengths, times: _line(_logs(lengths), times)[0]],
    "this is drawn through the first and the last measurement alone; least squares uses all.":
        [_by_the_ends],
    "this is the mean of the slopes between neighbours, in which all but the two ends cancel "
    "where the steps are even. Least squares uses all points.":
        [_of_neighbours],
    "the line is led through 0: a factor of 1 is presumed. Fit the intercept too, as a column "
    "of ones.":
        [_through_zero],
    "one of the two sums is divided by how many there are, the other by one less.":
        [lambda lengths, times: _fit(lengths, times)[0] * (1 - 1 / len(lengths)),
         lambda lengths, times: _fit(lengths, times)[0] / (1 - 1 / len(lengths))],
    "lengths and times have changed places: the line tells the time of a length.":
        [_other_way_round,
         lambda *a: 1 / _other_way_round(*a),
         lambda *a: 1 / _fit(*a)[0]],
}  # fmt: skip
_FACTOR_TWINS: _Mistakes = {
    "this is the logarithm of the factor; undo it.":
        [lambda *a: math.log(_fit(*a)[1]),
         lambda *a: math.log10(_fit(*a)[1]),
         lambda *a: math.log2(_fit(*a)[1])],
    "the logarithm is undone in another base than it was taken in.":
        [lambda *a: 10 ** math.log(_fit(*a)[1]),
         lambda *a: 2 ** math.log(_fit(*a)[1]),
         lambda *a: math.exp(math.log10(_fit(*a)[1])),
         lambda *a: math.exp(math.log2(_fit(*a)[1]))],
    "this leads through the first measurement, or the last, whatever its error; the line of "
    "least squares leads between all.":
        [lambda lengths, times: times[0] / lengths[0] ** _fit(lengths, times)[0],
         lambda lengths, times: times[-1] / lengths[-1] ** _fit(lengths, times)[0]],
}  # fmt: skip

Noise = dict[int, list[float]]


class Stopwatch:
    """Says how long a layer takes at a length; it is slow at first, and is disturbed at times."""

    def __init__(self, times: Noise) -> None:
        self.times = times
        self.asked: list[int] = []

    def __call__(self, length: Any) -> float:
        self.asked.append(int(length))
        times = self.times.get(int(length), [1.0])
        return times[min(self.asked.count(int(length)), len(times)) - 1]

    def __repr__(self) -> str:
        return "a stopwatch"


def _watched(exponent: float, factor: float, lengths: list[int], wobble: float = 0.0) -> Noise:
    """Return times of a layer of which the third is the least, and the sixth less than that."""
    disturbances = [1.9, 1.2, 1.0, 2.6, 1.1, 0.8]
    times = {}
    for index, length in enumerate(lengths):
        least = factor * length**exponent * (1 + wobble * (-1) ** index)
        times[length] = [least * (more + 0.03 * index * (more > 1)) for more in disturbances]
    return times


_Choice = Callable[[list[float]], float]


def _forecast(
    measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5,
    choose: _Choice = min,
) -> float:  # fmt: skip
    exponent, factor = _fit(*_chosen(measure, lengths, repeats, choose))
    return factor * target**exponent


def _chosen(
    measure: Stopwatch, lengths: list[int], repeats: int = 5, choose: _Choice = min
) -> _Points:
    return [float(n) for n in lengths], [choose(measure.times[n][:repeats]) for n in lengths]


def _of(choose: _Choice = min, always: int | None = None) -> Callable[..., float]:
    """Return a forecast from another choice among the repeats, or from a fixed number of them."""

    def answer(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> float:
        return _forecast(measure, lengths, target, always or repeats, choose)

    return answer


def _from_the_last(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> float:
    points = _chosen(measure, lengths, repeats)
    exponent, _ = _fit(*points)
    return float(points[1][-1] * (target / lengths[-1]) ** exponent)


def _without_factor(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> float:
    exponent, _ = _fit(*_chosen(measure, lengths, repeats))
    return float(target**exponent)


def _straight(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> float:
    slope, intercept = _line(*_chosen(measure, lengths, repeats))
    return slope * target + intercept


_FORECAST_TWINS: _Mistakes = {
    "the mean of the repeats is taken, or the line led through all. Other programs can only "
    "make a run longer, so that the least of them says most.":
        [_of(lambda times: sum(times) / len(times)),
         _of(lambda times: math.exp(sum(_logs(times)) / len(times)))],
    "the first run at each length is left out. It is seldom the least of them, but may be.":
        [_of(lambda times: min(times[1:] or times))],
    "each round of runs has a forecast of its own. Asked is one curve, through the least times.":
        [lambda *a: min(_of(itemgetter(r))(*a) for r in range((*a, 5)[3]))],
    "the median of the repeats is taken; asked for is the least of them.":
        [_of(lambda times: sorted(times)[len(times) // 2])],
    "the longest of the repeats is taken; asked for is the least of them.":
        [_of(max)],
    "only the first run at each length is used, which is the slowest: nothing is warm yet.":
        [_of(lambda times: times[0])],
    "`repeats` is left out: it says how many runs there are at each length.":
        [_of(always=number) for number in (3, 5, 10)],
    "this leads through the last measurement, whatever its error. The fitted line leads "
    "between all: factor · target^exponent.":
        [_from_the_last],
    "the factor is missing.":
        [_without_factor],
    "this goes on in a straight line; the fitted curve need not be one.":
        [_straight],
}  # fmt: skip


@_parts.part("a fitted curve", "fit", "forecast")
def forecasts(fit: object, forecast: object, thorough: bool = False) -> None:
    """Check an exponent and a factor, and what is forecast from a stopwatch's times."""
    points: list[_Points] = [
        ([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]),
        ([2.0, 4.0, 8.0], [10.0, 20.0, 40.0]),
        ([2.0, 3.0, 8.0, 10.0], [5.0, 4.0, 20.0, 18.0]),
        ([16.0, 32.0, 64.0, 128.0], [0.6279, 1.1979, 2.3521, 4.7432]),
        ([100.0, 250.0, 700.0], [0.2, 0.9, 10.0]),
    ]
    if thorough:
        points += [
            ([64.0, 16.0, 256.0, 128.0, 32.0], [0.9, 0.4, 7.0, 2.6, 0.5]),
            ([3.0, 5.0, 11.0, 31.0, 101.0, 499.0], [7.0, 7.5, 7.2, 8.0, 9.0, 9.5]),
            ([1.0, 1000.0], [5.0, 0.005]),
        ]
    cases: list[Inputs] = [dict(zip(("lengths", "times"), each, strict=True)) for each in points]
    fitted = _Answers(fit, cases)
    pairs = [
        expect_pair(_listed(answer), ("exponent", "factor"), inputs)
        for answer, inputs in zip(fitted.all, cases, strict=False)
    ]
    for place, (column, mistakes) in enumerate(
        (("exponent", _EXPONENT_TWINS), ("factor", _FACTOR_TWINS))
    ):
        _expect_each(
            [pair[place] for pair in pairs], cases,
            lambda lengths, times, place=place: _fit(lengths, times)[place],
            [f"the {column}"] * len(cases), mistakes, "fit: ",
        )  # fmt: skip
    fitted.see_failure()
    asked: list[tuple[Noise, int, int | None]] = [
        (_watched(1.0, 0.5, [2, 4, 8]), 16, 3),
        (_watched(1.5, 0.01, [2, 8, 16], 0.2), 64, None),
        (_watched(2.0, 1e-4, [16, 32, 64, 128], 0.1), 1024, 6),
        (_watched(1.2, 0.03, [3, 7, 20, 50], 0.15), 5, 2),
        ({2: [1.0, 1.5, 1.2], 4: [2.9, 2.1, 2.6], 8: [5.0, 4.8, 4.1]}, 16, 3),
    ]
    if thorough:
        asked += [
            (_watched(1.0, 0.01, [64, 128, 256, 512, 1024], 0.3), 4096, 1),
            (_watched(0.5, 7.0, [100, 30, 10], 0.05), 1000, 4),
        ]
    cases = [
        {"measure": Stopwatch(noise), "lengths": list(noise), "target": target}
        | ({} if repeats is None else {"repeats": repeats})
        for noise, target, repeats in asked
    ]
    answers = []
    for inputs in cases:
        answers.append(call(forecast, inputs))
        watch, target = inputs["measure"], inputs["target"]
        if target in watch.asked:
            raise CheckFailed(
                f"  forecast: length {target} is measured, but that is the one to be forecast."
                f"\n{describe(inputs)}"
            )
        if not watch.asked:
            raise CheckFailed(f"  forecast: `measure` is never called.\n{describe(inputs)}")
    _expect_each(
        answers, cases, _forecast, ["what forecast returns"] * len(cases), _FORECAST_TWINS,
        "forecast: ", _least_times,
    )  # fmt: skip


def _least_times(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> str:
    times = ", ".join(f"{each:.4g}" for each in _chosen(measure, lengths, repeats)[1])
    ran = max(map(measure.asked.count, lengths))
    return f"`measure` ran {ran} times at a length; the least of the first {repeats} are {times}."


# Part 4


_Cost = tuple[float, float, float]


def _terms(
    lengths: list[float], times: list[float], powers: tuple[int, ...] = (0, 1, 2),
    weigh: Callable[[float], float] = lambda time: 1 / time,
) -> list[float]:  # fmt: skip
    """Return the coefficients of the powers that make the weighted squares least."""
    n = torch.tensor(lengths, dtype=torch.float64)
    weights = torch.tensor([weigh(time) for time in times], dtype=torch.float64)
    rows = torch.stack([n**power for power in powers], dim=1) * weights.unsqueeze(1)
    goal = torch.tensor(times, dtype=torch.float64) * weights
    return _six_digits(torch.linalg.lstsq(rows, goal.unsqueeze(1)).solution[:, 0].tolist())


def _six_digits(answer: Any) -> Any:
    """Return several numbers without the digits that are left to chance."""
    answer = _listed(answer)
    found = [plain_number(each) for each in answer] if isinstance(answer, tuple | list) else [None]
    if None in found:
        return answer
    return [float(f"{each:.6g}") if abs(each) > 1e-9 else 0.0 for each in cast(Any, found)]


def _weighed(weigh: Callable[[float], float], order: int = 1) -> Callable[..., object]:
    return lambda lengths, times: _terms(lengths, times, weigh=weigh)[::order]


def _without_the_middle(lengths: list[float], times: list[float]) -> list[float]:
    fixed, per_pair = _terms(lengths, times, (0, 2))
    return [fixed, 0.0, per_pair]


_TERMS_TWINS: _Mistakes = {
    "the terms come in another order: fixed, per word, per pair.":
        [_weighed(lambda time: 1 / time, -1)],
    "the terms come in another order: fixed, per word, per pair. Besides, each error is to be "
    "divided by its measurement, so that the longest sentence does not decide alone.":
        [_weighed(lambda time: 1.0, -1), _weighed(lambda time: time**-0.5, -1)],
    "the squares of plain errors are made least, so that the longest sentence decides alone. "
    "Divide each error by its measurement.":
        [_weighed(lambda time: 1.0)],
    "the errors are divided twice by the measurements, or after they were squared. Divide once, "
    "then square.":
        [_weighed(lambda time: time**-2), _weighed(lambda time: time**-0.5)],
    "the errors are multiplied by the measurements; divide by them.":
        [_weighed(lambda time: time)],
    "the fixed term is missing, or is 0: what any call costs.":
        [lambda lengths, times: [0.0, *_terms(lengths, times, (1, 2))]],
    "the term per word is missing, or is 0.":
        [_without_the_middle],
    "the term per pair is missing, or is 0.":
        [lambda lengths, times: [*_terms(lengths, times, (0, 1)), 0.0]],
    "negative terms are cut off. Nothing here forbids them.":
        [lambda *a: [max(0.0, each) for each in _terms(*a)],
         lambda *a: [abs(each) for each in _terms(*a)]],
}  # fmt: skip


def _difference(one: _Cost, other: _Cost) -> _Cost:
    fixed, word, pair = (a - b for a, b in zip(one, other, strict=True))
    return fixed, word, pair


def _at(cost: _Cost, n: int) -> float:
    return cost[0] + cost[1] * n + cost[2] * n * n


def _turning(one: _Cost, other: _Cost) -> float | None:
    """Return the largest length at which both cost the same, if `one` is dearer beyond it.

    Below every length is minus infinity; None where it is never dearer for good.
    """
    fixed, word, pair = _difference(one, other)
    if pair:
        inside = word * word - 4 * pair * fixed
        if pair < 0:
            return None
        return (-word + math.sqrt(inside)) / (2 * pair) if inside >= 0 else -math.inf
    if word:
        return -fixed / word if word > 0 else None
    return 0.0 if fixed > 0 else None


def _overtakes(one: _Cost, other: _Cost) -> int | None:
    root = _turning(one, other)
    return None if root is None else max(1, math.floor(max(root, 0)) + 1)


def _first_dearer(one: _Cost, other: _Cost, least: int = 1) -> int | None:
    if (_overtakes(one, other) or 1) > 1000:
        raise ValueError("too far to walk")
    dearer = (n for n in range(least, 2000) if _at(one, n) > _at(other, n))
    return next(dearer, None)


def _root(one: _Cost, other: _Cost) -> float | None:
    root = _turning(one, other)
    if root is not None and root <= 0:
        raise ValueError("they do not meet")
    return root


def _rounded_up(one: _Cost, other: _Cost, same: int | None = None) -> int | None:
    root = _turning(one, other)
    if one == other or root is None:
        return same if one == other else None
    return max(1, math.ceil(max(root, 0)))


def _smaller_root(one: _Cost, other: _Cost, least: int = -(10**9)) -> int | None:
    fixed, word, pair = _difference(one, other)
    if pair <= 0:
        return _overtakes(one, other)
    inside = max(0, word * word - 4 * pair * fixed)
    return max(least, math.floor((-word - math.sqrt(inside)) / (2 * pair)) + 1)


def _not_everywhere(
    one: _Cost, other: _Cost, wrong: int | None = None, least: float = -math.inf
) -> int | None:
    """Return what is wrong where the curves meet at no length, or at none above the least."""
    root = _turning(one, other)
    return _overtakes(one, other) if root is None or root > least else wrong


def _untouched(
    one: _Cost, other: _Cost, way: Callable[[_Cost, _Cost], object] = _overtakes
) -> object:
    """Pass over the place where two curves touch and do not cross."""
    fixed, word, pair = _difference(one, other)
    return 1 if pair > 0 and word * word == 4 * pair * fixed else way(one, other)


def _before_the_first(one: _Cost, other: _Cost) -> int | None:
    """Return also lengths below 1 where two lines meet there."""
    root, pair = _turning(one, other), _difference(one, other)[2]
    if root is None or pair:
        return _overtakes(one, other)
    return math.floor(root) + 1


def _one_late(one: _Cost, other: _Cost) -> int | None:
    length = _overtakes(one, other)
    return None if length is None else length + 1


_OVERTAKES_TWINS: _Mistakes = {
    "this is the first length at which `one` is dearer. Later it may be cheaper again: asked "
    "is from where on it stays dearer.":
        [_first_dearer],
    "where both cost the same, neither is dearer yet.":
        [_rounded_up, partial(_rounded_up, same=1), _untouched,
         partial(_untouched, way=partial(_rounded_up, same=1))],
    "this is the place where the curves meet. Asked is the first whole length beyond it.":
        [_root],
    "the two have changed places: asked is from where on `one` is the dearer one.":
        [lambda one, other: _overtakes(other, one)],
    "this is one too many: at the length before, `one` is dearer already.":
        [_one_late],
    "the smaller of the two places where the curves meet is taken.":
        [_smaller_root, partial(_smaller_root, least=1)],
    "the fixed terms are left out.":
        [lambda one, other: _overtakes((0.0, *one[1:]), (0.0, *other[1:]))],
    "where it is never dearer for good, return None.":
        [lambda one, other: _overtakes(one, other) or 0,
         lambda one, other: _overtakes(one, other) or -1,
         lambda one, other: _overtakes(one, other) or math.inf,
         lambda one, other: _overtakes(one, other) or 1],
    "where it is dearer at every length, that is so from length 1 on.":
        [_not_everywhere, partial(_not_everywhere, least=0.5),
         partial(_not_everywhere, wrong=0, least=0.5), _before_the_first],
}  # fmt: skip


@_parts.part("where curves cross", "three_terms", "overtakes")
def crossing(three_terms: object, overtakes: object, thorough: bool = False) -> None:
    """Check a cost of three terms, and the length from which on one is dearer than the other."""
    points: list[_Points] = [
        ([1.0, 2.0, 3.0], [6.0, 11.0, 18.0]),
        ([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 8.0, 9.0]),
        ([16.0, 32.0, 64.0, 128.0, 256.0], [359.1, 538.4, 1196.4, 2498.9, 7210.0]),
        ([1.0, 2.0, 4.0, 8.0, 16.0], [9.0, 7.0, 8.0, 13.0, 61.0]),
        ([100.0, 101.0, 103.0, 107.0], [10.0, 10.4, 10.9, 13.0]),  # hard in 32 bits
    ]
    if thorough:
        points += [
            ([16.0, 32.0, 64.0, 128.0, 256.0], [627.9, 1197.9, 2352.1, 4743.2, 9515.9]),
            ([50.0, 10.0, 30.0, 20.0], [8.0, 1.0, 3.5, 2.0]),
            ([3.0, 5.0, 7.0, 11.0, 13.0], [1.0, 2.0, 4.0, 6.0, 9.0]),
        ]
    cases: list[Inputs] = [dict(zip(("lengths", "times"), each, strict=True)) for each in points]
    found = _Answers(three_terms, cases)
    _expect_each(
        map(_six_digits, found.all), cases, _terms, ["what three_terms returns"] * len(cases),
        _TERMS_TWINS, "three_terms: ",
        lambda *_: "Where they come close, 32 bits were too few: compute with torch.float64.",
    )  # fmt: skip
    found.see_failure()
    costs: list[tuple[_Cost, _Cost]] = [
        ((0.0, 0.0, 1.0), (0.0, 10.0, 0.0)),
        ((0.0, 3.0, 0.0), (10.0, 1.0, 0.0)),
        ((24.0, 0.0, 1.0), (0.0, 11.0, 0.0)),
        ((5.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
        ((0.0, 10.0, 0.0), (0.0, 0.0, 1.0)),
        ((0.0, 1.0, 2.0), (9.0, 1.0, 2.0)),
        ((9.0, 1.0, 2.0), (0.0, 1.0, 2.0)),
        ((9.0, 1.0, 2.0), (0.0, 2.0, 2.0)),
        ((3.0, 4.0, 5.0), (3.0, 4.0, 5.0)),
        ((0.15, 0.011, 6.1e-5), (0.058, 0.0344, 1.1e-5)),
        ((0.0, 0.0, 1.0), (1000.0, 0.0, 0.0)),
        ((5.0, 6.0, 1.0), (0.0, 0.0, 0.0)),
        ((0.0, 0.0, 1.0), (5.0, 0.0, 2.0)),
        ((0.0, 0.0, 1.0), (0.0, 3e5, 0.0)),
        ((9.0, 0.0, 1.0), (0.0, 6.0, 0.0)),
        ((5.0, 2.0, 0.0), (1.0, 1.0, 0.0)),
    ]
    if thorough:
        costs += [
            ((-6.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
            ((0.1, 0.002, 2e-6), (0.5, 0.003, 0.0)),
            ((1.0, 1.0, 0.0), (0.0, 1.0, 0.5)),
            ((40.0, 0.0, 2.0), (0.0, 18.0, 0.0)),
            ((0.0, 5.0, 0.25), (7.0, 5.0, 0.125)),
        ]
    cases = [dict(zip(("one", "other"), each, strict=True)) for each in costs]
    found = _Answers(overtakes, cases)
    _expect_each(
        found.all, cases, _overtakes, ["what overtakes returns"] * len(cases), _OVERTAKES_TWINS,
        "overtakes: ", _prices,
    )  # fmt: skip
    found.see_failure()


def _prices(one: _Cost, other: _Cost) -> str:
    """Return what both cost where the answer lies, or far out if there is none."""
    length = _overtakes(one, other) or 1000
    near = [n for n in (length - 1, length) if n]
    costs = [f"{_at(one, n):.10g} and {_at(other, n):.10g} at length {n}" for n in near]
    return f"They cost {', '.join(costs)}."
