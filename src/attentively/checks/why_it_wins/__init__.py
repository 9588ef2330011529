"""Checks of the assignment on the costs of layers: counts, graphs, fitted curves, crossings.

Part 1 is the paper's table with its constants, part 3 a line in the logarithms. Parts 2 and 4 are
original problems: the graphs have any shape, and a cost with three terms is fitted to measurements
in order to find the length from which one layer is more expensive than another for good.
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
"""The message for each mistake, and the ways to make it."""

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
    """Print a line that shows that the package and these checks work."""
    _parts.explain_undefined_names()
    graph = recurrent(3)
    arrows = sum(map(len, graph.values()))
    print(f"PyTorch {torch.__version__}. A graph of {len(graph)} nodes and {arrows} arrows.")
    print("The set-up is complete.")


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
        "An RNN has two products at each position: W with the input, U with the previous state.":
            [_if("rnn", lambda n, d, k: n * d * d)],
        "A GRU has three pairs of matrices: reset gate, update gate and candidate state.":
            [_if("gru", partial(_matrices, m)) for m in (1, 2, 3, 4, 8)],
        "A convolution has one d × d matrix for each of the k positions that it reads.":
            [_if("convolution dilated", lambda n, d, k: n * d * d),
             _if("convolution dilated", lambda n, d, k: k * n * d)],
        "Products with the zeros before the first position count too; here they are left out.":
            [_if("convolution dilated", _within),
             _if("convolution dilated", lambda n, d, k: max(0, n - k + 1) * k * d * d),
             _if("rnn", lambda n, d, k: (2 * n - 1) * d * d),
             _if("gru", lambda n, d, k: (6 * n - 3) * d * d)],
        "Biases, gates, softmax and the division by √d do not count.":
            [_if("rnn", lambda n, d, k: 2 * n * d * d + n * d),
             _if("gru", lambda n, d, k: 6 * n * d * d + 3 * n * d),
             _if("attention", lambda n, d, k: 4 * n * d * d + 2 * n * n * d + n * n)],
        "This attention has no mask: each position attends to all n, not only to earlier ones.":
            [_if("attention", lambda n, d, k: 4 * n * d * d + n * (n + 1) * d)],
        "This value is for all layers of the path. Return the multiplications of one layer.":
            [lambda *a: _multiplications(*a) * _path(*a)],
        "The four matrices of attention (queries, keys, values, output) are not counted. The "
        "paper's n²d leaves them out; here they count.":
            [_if("attention", lambda n, d, k: 2 * n * n * d),
             _if("attention", lambda n, d, k: n * n * d)],
        "Attention has four matrices: for queries, keys and values, and the output matrix W^O.":
            [_if("attention", lambda n, d, k: 3 * n * d * d + 2 * n * n * d)],
        "Each pair of positions needs 2d multiplications: d for the score, d for the value.":
            [_if("attention", lambda n, d, k: 4 * n * d * d + n * n * d),
             _if("attention", lambda n, d, k: 4 * n * d * d + n * n * d + n * n),
             _if("attention", lambda n, d, k: 4 * n * d * d)],
        "This value is n²d + nd². The O notation hides constant factors; here they count.":
            [_if("attention", lambda n, d, k: n * d * d + n * n * d)],
        "The matrices of attention are applied at each of the n positions, not once.":
            [_if("attention", lambda n, d, k: 4 * d * d + 2 * n * n * d)],
        "This value is for one position; the layer has n positions.":
            [lambda layer, n, d, k: _multiplications(layer, n, d, k) / n],
        "A d × d matrix times a vector takes d² multiplications: d for each of d results.":
            [lambda layer, n, d, k: _multiplications(layer, n, d, k) / d,
             _if("attention", lambda n, d, k: 4 * n * d + 2 * n * n * d)],
        "This value includes additions. Count multiplications only.":
            [lambda *a: 2 * _multiplications(*a)],
    },
    "steps": {
        "Each state depends on the previous one: n steps, even with unlimited hardware.":
            [_if("rnn gru", lambda n, d, k: 1)],
        "The first position is a step too: its state is computed from the zero state h_0.":
            [_if("rnn gru", lambda n, d, k: n - 1)],
        "All the work at one position, such as the gates, counts as one step.":
            [_if("rnn gru", lambda n, d, k: 2 * n), _if("gru", lambda n, d, k: 3 * n)],
        "No position of this layer depends on another output: all are computed in one step.":
            [_if("convolution dilated attention", lambda n, d, k: n)],
        "The k products do not depend on each other: they are computed in one step.":
            [_if("convolution dilated", lambda n, d, k: k)],
        "This value is for all layers of the path. Return the steps of one layer.":
            [_path],
        "Projections, scores, softmax and weighted sum together count as one step.":
            [_if("attention", lambda *_: 2), _if("attention", lambda *_: 4)],
    },
    "path": {
        "The path from the first input to the last output leads through every state.":
            [_if("rnn gru", lambda n, d, k: 1)],
        "Count the arrows: one from the first input to its state, n − 1 between states.":
            [_if("rnn gru", lambda n, d, k: n - 1), _if("rnn gru", lambda n, d, k: n + 1)],
        "One layer reads k positions. Return the number of layers that reach the first input.":
            [_if("convolution dilated", lambda n, d, k: 1),
             _if("convolution dilated", lambda n, d, k: k)],
        "The path has at least one layer, also if there is only one position (n = 1).":
            [_if("convolution", lambda n, d, k: math.ceil((n - 1) / (k - 1))),
             _if("dilated", lambda n, d, k: math.ceil(_log(n, k) - 1e-9))],
        "Each layer reaches k − 1 positions further back, not k: one input is its own position.":
            [_if("convolution", lambda n, d, k: math.ceil(n / k)),
             _if("convolution", lambda n, d, k: max(1, math.ceil((n - 1) / k))),
             _if("convolution", lambda n, d, k: n // k),
             _if("convolution", lambda n, d, k: n / k)],
        "The first position is n − 1 positions before the last, not n.":
            [_if("convolution", lambda n, d, k: math.ceil(n / (k - 1)))],
        "The number of layers must be rounded up: a layer that is partly needed counts.":
            [_if("convolution", lambda n, d, k: max(1, (n - 1) // (k - 1))),
             _if("convolution", lambda n, d, k: (n - 1) / (k - 1)),
             _if("dilated", lambda n, d, k: max(1, math.floor(_log(n, k) + 1e-9))),
             _if("dilated", lambda n, d, k: _log(n, k))],
        "This value is one too large where n is a power of k.":
            [_if("dilated", lambda n, d, k: math.floor(_log(n, k) + 1e-9) + 1)],
        "In floating point, log 125 / log 5 is 3.0000000000000004, which is rounded up to 4. "
        "Multiply by k until n is reached, or subtract a small number before rounding.":
            [_if("dilated", lambda n, d, k: max(1, math.ceil(_log(n, k))))],
        "The dilation grows: inputs are k times as far apart as in the layer below.":
            [_if("dilated", lambda n, d, k: max(1, math.ceil((n - 1) / (k - 1)))),
             _if("dilated", lambda n, d, k: max(1, math.ceil(math.log2(n))))],
        "This convolution reads its own and earlier positions, not k // 2 on each side.":
            [_if("convolution", lambda n, d, k: max(1, math.ceil((n - 1) / (k // 2))))],
        "Every output of attention reads every input directly: the path length is 1.":
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
    """Check multiplications, sequential operations and path length of one layer."""
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
                    "  Steps and path are swapped. Return multiplications, steps, path in this "
                    "order."
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
    "The number of levels is not the number of steps: within a level, one node may depend on "
    "another.":
        [top],
    "The nodes are counted one by one. All nodes that do not depend on each other are computed "
    "in one step.":
        [lambda graph: len(graph) - sum(layer == 0 for layer, _ in graph),
         len],
    "The inputs are available from the beginning and take no step.":
        [lambda graph: steps_of(graph) + 1],
    "A node must wait for the last of the nodes that it reads, not for the first.":
        [lambda graph: max(levels(graph, min).values())],
    "The order of the nodes in the dict has no meaning: a node may come before the nodes that "
    "it reads. One pass in this order is not enough.":
        [_one_pass, lambda graph: _one_pass(dict(sorted(graph.items())))],
    "A node that is computed in a step is available in the next step, not within the same one.":
        [in_sweeps],
    "A node waits only for the nodes that it reads, not until the level below is complete.":
        [layer_by_layer],
    "Only one output is looked at. Another node may be the last that is computed.":
        [lambda graph: levels(graph)[top(graph), last(graph)],
         lambda graph: levels(graph)[top(graph), 0]],
    "Steps and path length are swapped.":
        [way_of_pairs],
}  # fmt: skip


def _more(graph: Graph, more: int) -> int | None:
    way = way_of_pairs(graph)
    return None if way is None else way + more


_GRAPH_PATH_TWINS: _Mistakes = {
    "This value uses the longest path of a pair. Use its shortest; return the largest of all.":
        [lambda graph: way_of_pairs(graph, longest=True)],
    "This value is the smallest path length of all pairs. Return the largest.":
        [lambda graph: way_of_pairs(graph, choose=min)],
    "Pairs that are not connected are left out. If an output does not depend on an earlier "
    "input, return None.":
        [lambda graph: way_of_pairs(graph, none=0)],
    "If a pair is not connected, return None, not infinity or a number such as -1 or 0.":
        [lambda graph: way_of_pairs(graph) or math.inf,
         lambda graph: way_of_pairs(graph) or -1,
         lambda graph: way_of_pairs(graph) or 0],
    "Only the path from the first input to the last output is considered. The path of another "
    "pair may be longer.":
        [lambda graph: way_of_pairs(graph, lambda i, j: i == 0 and j == last(graph))],
    "Only paths from the first input are considered.":
        [lambda graph: way_of_pairs(graph, lambda i, j: i == 0)],
    "Only paths to the last output are considered.":
        [lambda graph: way_of_pairs(graph, lambda i, j: j == last(graph))],
    "The input at the position of the output counts too: i ≤ j, not i < j.":
        [lambda graph: way_of_pairs(graph, lambda i, j: i < j),
         lambda graph: way_of_pairs(graph, lambda i, j: i < j) or 0],
    "Pairs with i > j are included. Only inputs up to the position of the output count.":
        [lambda graph: way_of_pairs(graph, lambda i, j: True),
         lambda graph: way_of_pairs(graph, lambda i, j: i >= j),
         lambda graph: way_of_pairs(graph, lambda i, j: True, none=0),
         lambda graph: way_of_pairs(graph) and way_of_pairs(graph, lambda i, j: True, none=0)],
    "Count the arrows on the path, not its nodes.":
        [lambda graph: _more(graph, 1), lambda graph: _more(graph, -1)],
    "The number of levels is not the path length: a path may also lead along a level.":
        [top],
    "Steps and path length are swapped.":
        [steps_of],
}  # fmt: skip


@_parts.part("the graph", "steps", "path")
def read_off(steps: object, path: object, thorough: bool = False) -> None:
    """Check the sequential operations and the path length of computation graphs."""
    graphs: list[tuple[str, Callable[..., Graph], tuple[object, ...]]] = [
        ("a recurrent layer", recurrent, (2,)),
        ("a recurrent layer", recurrent, (4,)),
        ("attention", attention, (3,)),
        ("causal attention", attention, (3, True)),
        ("one convolution", convolution, (3, 2, [1])),
        ("two convolutions", convolution, (3, 2, [1, 1])),
        ("a backward recurrent layer", backward, (3,)),
        ("a recurrent layer that also reads the first input", from_the_first, (4,)),
        ("a recurrent layer whose last state reads every input", to_the_last, (4,)),
        ("convolutions that also read the inputs", skipping, (3, 3)),
        ("a bidirectional layer", bidirectional, (3,)),
        ("a backward recurrent layer with a forward one on top", back_and_forth, (3,)),
        ("attention to neighbours and the first position, one layer", with_a_hub, (5, 1)),
        ("attention to neighbours and the first position, two layers", with_a_hub, (5, 2)),
        ("a recurrent layer that also reads the state before the previous one", leaping, (7,)),
        ("a backward recurrent layer that also reads all earlier inputs", backward_over, (4,)),
        ("a single position", recurrent, (1,)),
        ("three dilated convolutions", convolution, (8, 2, [1, 2, 4])),
    ]
    if thorough:
        graphs += [
            ("a long recurrent layer", recurrent, (31,)),
            ("a long bidirectional layer", bidirectional, (13,)),
            ("dilated convolutions", convolution, (27, 3, [1, 3, 9])),
            ("dilated convolutions", convolution, (28, 3, [1, 3, 9])),
            ("convolutions that also read the inputs", skipping, (7, 4)),
            ("attention to neighbours and the first position, three layers", with_a_hub, (11, 3)),
            ("a recurrent layer that also reads the first input", from_the_first, (9,)),
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
    "exponent and factor are swapped. Return exponent, factor.":
        [lambda *a: _fit(*a)[1]],
    "no logarithms are taken: this is the slope of a line through the times themselves.":
        [lambda *a: _line(*a)[0]],
    "the logarithm is taken of lengths or times only. Take it of both.":
        [lambda lengths, times: _line(lengths, _logs(times))[0],
         lambda lengths, times: _line(_logs(lengths), times)[0]],
    "this line leads through the first and the last point only. Least squares uses all points.":
        [_by_the_ends],
    "this is the mean of the slopes between neighbouring points. With equal distances, it "
    "depends on the two ends only. Least squares uses all points.":
        [_of_neighbours],
    "the line leads through the origin, which assumes a factor of 1. Fit the intercept too, for "
    "example with a column of ones.":
        [_through_zero],
    "one of the two sums is divided by the number of points, the other by one less.":
        [lambda lengths, times: _fit(lengths, times)[0] * (1 - 1 / len(lengths)),
         lambda lengths, times: _fit(lengths, times)[0] / (1 - 1 / len(lengths))],
    "lengths and times are swapped. Fit log time as a function of log length.":
        [_other_way_round,
         lambda *a: 1 / _other_way_round(*a),
         lambda *a: 1 / _fit(*a)[0]],
}  # fmt: skip
_FACTOR_TWINS: _Mistakes = {
    "this is the logarithm of the factor. Return the factor itself.":
        [lambda *a: math.log(_fit(*a)[1]),
         lambda *a: math.log10(_fit(*a)[1]),
         lambda *a: math.log2(_fit(*a)[1])],
    "the logarithm and its inverse have different bases, such as e and 10.":
        [lambda *a: 10 ** math.log(_fit(*a)[1]),
         lambda *a: 2 ** math.log(_fit(*a)[1]),
         lambda *a: math.exp(math.log10(_fit(*a)[1])),
         lambda *a: math.exp(math.log2(_fit(*a)[1]))],
    "this curve leads exactly through the first or the last point. The factor follows from the "
    "intercept of the fitted line.":
        [lambda lengths, times: times[0] / lengths[0] ** _fit(lengths, times)[0],
         lambda lengths, times: times[-1] / lengths[-1] ** _fit(lengths, times)[0]],
}  # fmt: skip

Noise = dict[int, list[float]]


class Stopwatch:
    """A simulated measurement of running times: the first run is slow, and others are disturbed."""

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


def _swapped(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> float:
    exponent, factor = _fit(*_chosen(measure, lengths, repeats))
    return float(exponent * target**factor)


def _straight(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> float:
    slope, intercept = _line(*_chosen(measure, lengths, repeats))
    return slope * target + intercept


_FORECAST_TWINS: _Mistakes = {
    "the mean of the repeats is used, or the line is fitted to all of them. Use the shortest "
    "time at each length: disturbances can only make a run longer.":
        [_of(lambda times: sum(times) / len(times)),
         _of(lambda times: math.exp(sum(_logs(times)) / len(times)))],
    "the first run at each length is left out. It may be the shortest; use all repeats.":
        [_of(lambda times: min(times[1:] or times))],
    "each round of repeats gets its own fit. Fit one curve to the shortest times.":
        [lambda *a: min(_of(itemgetter(r))(*a) for r in range((*a, 5)[3]))],
    "the median of the repeats is used. Use the shortest time.":
        [_of(lambda times: sorted(times)[len(times) // 2])],
    "the longest of the repeats is used. Use the shortest time.":
        [_of(max)],
    "only the first run at each length is used, which is slow. Use the shortest of all.":
        [_of(lambda times: times[0])],
    "`repeats` is ignored. It is the number of runs at each length.":
        [_of(always=number) for number in (3, 5, 10)],
    "this curve leads exactly through the last measurement. Use the fitted factor: "
    "factor · target^exponent.":
        [_from_the_last],
    "the factor is missing: these values are target^exponent.":
        [_without_factor],
    "this extrapolates a straight line. Use the fitted power law.":
        [_straight],
    "exponent and factor are swapped after the call of `fit`, which returns exponent, factor.":
        [_swapped],
}  # fmt: skip


@_parts.part("a fitted curve", "fit", "forecast")
def forecasts(fit: object, forecast: object, thorough: bool = False) -> None:
    """Check the fitted exponent and factor, and the forecast from simulated measurements."""
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
                f"  forecast: `measure` was called with the target length {target}. Forecast the "
                "time at this length instead."
                f"\n{describe(inputs)}"
            )
        if not watch.asked:
            raise CheckFailed(f"  forecast: `measure` was never called.\n{describe(inputs)}")
    _expect_each(
        answers, cases, _forecast, ["what forecast returns"] * len(cases), _FORECAST_TWINS,
        "forecast: ", _least_times,
    )  # fmt: skip


def _least_times(measure: Stopwatch, lengths: list[int], target: int, repeats: int = 5) -> str:
    times = ", ".join(f"{each:.4g}" for each in _chosen(measure, lengths, repeats)[1])
    ran = max(map(measure.asked.count, lengths))
    return (
        f"`measure` ran {ran} times at a length; the shortest times of the first {repeats} runs "
        f"are {times}."
    )


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
    "the terms have another order. Return fixed, per_word, per_pair.":
        [_weighed(lambda time: 1 / time, -1)],
    "the terms have another order. Return fixed, per_word, per_pair. Besides, divide each error "
    "by its time; otherwise the longest sequence dominates.":
        [_weighed(lambda time: 1.0, -1), _weighed(lambda time: time**-0.5, -1)],
    "the errors are not divided by the times, so the longest sequence dominates. Divide each "
    "error by its time.":
        [_weighed(lambda time: 1.0)],
    "the errors are divided by the times twice, or after they were squared. Divide once, then "
    "square.":
        [_weighed(lambda time: time**-2), _weighed(lambda time: time**-0.5)],
    "the errors are multiplied by the times. Divide by the times.":
        [_weighed(lambda time: time)],
    "the fixed term is missing, or it is always 0.":
        [lambda lengths, times: [0.0, *_terms(lengths, times, (1, 2))]],
    "the term per_word is missing, or it is always 0.":
        [_without_the_middle],
    "the term per_pair is missing, or it is always 0.":
        [lambda lengths, times: [*_terms(lengths, times, (0, 1)), 0.0]],
    "negative terms are replaced. A term may be negative.":
        [lambda *a: [max(0.0, each) for each in _terms(*a)],
         lambda *a: [abs(each) for each in _terms(*a)]],
}  # fmt: skip


def _difference(one: _Cost, other: _Cost) -> _Cost:
    fixed, word, pair = (a - b for a, b in zip(one, other, strict=True))
    return fixed, word, pair


def _at(cost: _Cost, n: int) -> float:
    return cost[0] + cost[1] * n + cost[2] * n * n


def _turning(one: _Cost, other: _Cost) -> float | None:
    """Return the largest length at which both cost the same, if `one` costs more beyond it.

    Minus infinity is below every length; None means that it never costs more for good.
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
    """Return a wrong value if the curves meet at no length, or at none above the least."""
    root = _turning(one, other)
    return _overtakes(one, other) if root is None or root > least else wrong


def _untouched(
    one: _Cost, other: _Cost, way: Callable[[_Cost, _Cost], object] = _overtakes
) -> object:
    """Ignore the point where two curves touch and do not cross."""
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


def _searched(one: _Cost, other: _Cost, limit: int) -> int | None:
    length = _overtakes(one, other)
    return None if length is None or length >= limit else length


_OVERTAKES_TWINS: _Mistakes = {
    "this is the first length at which `one` is more expensive. It may become cheaper again: "
    "return the length from which on it stays more expensive.":
        [_first_dearer],
    "at this length both cost the same, so neither is more expensive. Return the next one.":
        [_rounded_up, partial(_rounded_up, same=1), _untouched,
         partial(_untouched, way=partial(_rounded_up, same=1))],
    "this is the point where the curves meet. Return the first integer length beyond it.":
        [_root],
    "the two costs are swapped. Return the length from which on `one` is more expensive.":
        [lambda one, other: _overtakes(other, one)],
    "this is one too large: `one` is already more expensive at the length before.":
        [_one_late],
    "the smaller of two roots is used. The curves meet for the last time at the larger root.":
        [_smaller_root, partial(_smaller_root, least=1)],
    "the fixed terms are ignored.":
        [lambda one, other: _overtakes((0.0, *one[1:]), (0.0, *other[1:]))],
    "if `one` never stays more expensive, return None.":
        [lambda one, other: _overtakes(one, other) or 0,
         lambda one, other: _overtakes(one, other) or -1,
         lambda one, other: _overtakes(one, other) or math.inf,
         lambda one, other: _overtakes(one, other) or 1],
    "this is None wherever the quadratic terms are equal. The difference is then a line, which "
    "may cross zero too, or a constant.":
        [lambda one, other: _overtakes(one, other) if one[2] != other[2] else None],
    "the crossing may lie beyond any fixed limit of a search. Compute it.":
        [partial(_searched, limit=limit) for limit in (10**3, 10**4, 10**5)],
    "if `one` is more expensive at every length, return 1.":
        [_not_everywhere, partial(_not_everywhere, least=0.5),
         partial(_not_everywhere, wrong=0, least=0.5), _before_the_first],
}  # fmt: skip


@_parts.part("where curves cross", "three_terms", "overtakes")
def crossing(three_terms: object, overtakes: object, thorough: bool = False) -> None:
    """Check the fitted terms, and the length from which on one cost is higher than the other."""
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
        lambda *_: "If the values are close, 32 bits were not precise enough: use torch.float64.",
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
    """Return both costs at the answer, or at a large length if there is none."""
    length = _overtakes(one, other) or 1000
    near = [n for n in (length - 1, length) if n]
    costs = [f"{_at(one, n):.10g} and {_at(other, n):.10g} at length {n}" for n in near]
    return f"They cost {', '.join(costs)}."
