"""The costs of layers as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from attentively.checks.question import Case, Question
from attentively.checks.why_it_wins import Stopwatch
from attentively.checks.why_it_wins import computation_graphs as graphs

# Part 1


def costs(layer, n, d, k):
    products = {"rnn": 2, "gru": 6, "convolution": k, "dilated": k, "attention": 4}[layer]
    multiplications = products * n * d * d
    steps, path = 1, 1
    if layer in ("rnn", "gru"):
        steps, path = n, n
    if layer == "convolution":
        path = max(1, math.ceil((n - 1) / (k - 1)))
    if layer == "dilated":
        while k**path < n:
            path += 1
    if layer == "attention":
        multiplications += 2 * n * n * d
    return multiplications, steps, path


def cost_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(4, 3, 3), (5, 3, 2), (9, 2, 3), (10, 7, 3), (8, 7, 3), (125, 2, 5), (126, 3, 5)]
    sizes += [(1, 5, 2), (243, 5, 3), (512, 2, 8)]  # two are hard for logarithms of base 2 or 10
    if thorough:
        sizes += [(1000, 11, 10), (17, 64, 7), (2, 1, 2), (512, 1024, 3), (64, 3, 4)]
    for layer in ("rnn", "gru", "convolution", "dilated", "attention"):
        for n, d, k in sizes:
            yield Case({"layer": layer, "n": n, "d": d, "k": k})


LOG = "math.log(n) / math.log(k)"
RECURRENT, CONVOLUTIONS = "rnn gru", "convolution dilated"
EVERY = f"{RECURRENT} {CONVOLUTIONS} attention"
# Column, what to say, and the mistaken formulas with the layers that they are used for
IN_COSTS: dict[str, dict[str, dict[str, str | list[str]]]] = {
    "multiplications": {
        "An RNN has two products at each position: W with the input, U with the previous state.": {
            "rnn": "n * d * d"
        },
        "A GRU has three pairs of matrices: reset gate, update gate and candidate state.": {
            "gru": [f"{matrices} * n * d * d" for matrices in (1, 2, 3, 4, 8)]
        },
        "A convolution has one d × d matrix for each of the k positions that it reads.": {
            CONVOLUTIONS: "n * d * d"
        },
        "Products with the zeros before the first position count too; here they are left out.": {
            CONVOLUTIONS: [
                "sum(min(t + 1, k) for t in range(n)) * d * d",
                "max(0, n - k + 1) * k * d * d",
            ],
            "rnn": "(2 * n - 1) * d * d",
            "gru": "(6 * n - 3) * d * d",
        },
        "Biases, gates, softmax and the division by √d do not count.": {
            "rnn": "2 * n * d * d + n * d",
            "gru": "6 * n * d * d + 3 * n * d",
            "attention": "4 * n * d * d + 2 * n * n * d + n * n",
        },
        "This attention has no mask: each position attends to all n, not only to earlier ones.": {
            "attention": "4 * n * d * d + n * (n + 1) * d"
        },
        "This value is for all layers of the path. Return the multiplications of one layer.": {
            f"{RECURRENT} {CONVOLUTIONS}": "multiplications * path"
        },
        "The four matrices of attention (queries, keys, values, output) are not counted. The "
        "paper's n²d leaves them out; here they count.": {
            "attention": ["2 * n * n * d", "n * n * d"]
        },
        "Attention has four matrices: for queries, keys and values, and the output matrix W^O.": {
            "attention": "3 * n * d * d + 2 * n * n * d"
        },
        "Each pair of positions needs 2d multiplications: d for the score, d for the value.": {
            "attention": [
                "4 * n * d * d + n * n * d",
                "4 * n * d * d + n * n * d + n * n",
                "4 * n * d * d",
            ]
        },
        "This value is n²d + nd². The O notation hides constant factors; here they count.": {
            "attention": "n * d * d + n * n * d"
        },
        "The matrices of attention are applied at each of the n positions, not once.": {
            "attention": "4 * d * d + 2 * n * n * d"
        },
        "This value is for one position; the layer has n positions.": {
            EVERY: "multiplications / n"
        },
        "A d × d matrix times a vector takes d² multiplications: d for each of d results.": {
            EVERY: "multiplications / d",
            "attention": "4 * n * d + 2 * n * n * d",
        },
        "This value includes additions. Count multiplications only.": {
            EVERY: "2 * multiplications"
        },
    },
    "steps": {
        "Each state depends on the previous one: n steps, even with unlimited hardware.": {
            RECURRENT: "1"
        },
        "The first position is a step too: its state is computed from the zero state h_0.": {
            RECURRENT: "n - 1"
        },
        "All the work at one position, such as the gates, counts as one step.": {
            RECURRENT: "2 * n",
            "gru": "3 * n",
        },
        "No position of this layer depends on another output: all are computed in one step.": {
            f"{CONVOLUTIONS} attention": "n"
        },
        "The k products do not depend on each other: they are computed in one step.": {
            CONVOLUTIONS: "k"
        },
        "This value is for all layers of the path. Return the steps of one layer.": {
            CONVOLUTIONS: "path"
        },
        "Projections, scores, softmax and weighted sum together count as one step.": {
            "attention": ["2", "4"]
        },
    },
    "path": {
        "The path from the first input to the last output leads through every state.": {
            RECURRENT: "1"
        },
        "Count the arrows: one from the first input to its state, n − 1 between states.": {
            RECURRENT: ["n - 1", "n + 1"]
        },
        "One layer reads k positions. Return the number of layers that reach the first input.": {
            CONVOLUTIONS: ["1", "k"]
        },
        "The path has at least one layer, also if there is only one position (n = 1).": {
            "convolution": "math.ceil((n - 1) / (k - 1))",
            "dilated": f"math.ceil({LOG} - 1e-9)",
        },
        "Each layer reaches k − 1 positions further back, not k: one input is its own position.": {
            "convolution": [
                "math.ceil(n / k)",
                "max(1, math.ceil((n - 1) / k))",
                "n // k",
                "n / k",
            ]
        },
        "The first position is n − 1 positions before the last, not n.": {
            "convolution": "math.ceil(n / (k - 1))"
        },
        "The number of layers must be rounded up: a layer that is partly needed counts.": {
            "convolution": ["max(1, (n - 1) // (k - 1))", "(n - 1) / (k - 1)"],
            "dilated": [f"max(1, math.floor({LOG} + 1e-9))", LOG],
        },
        "This value is one too large where n is a power of k.": {
            "dilated": f"math.floor({LOG} + 1e-9) + 1"
        },
        "In floating point, the quotient of two logarithms may be a little too large, and is then "
        "rounded up: log 125 / log 5 is 3.0000000000000004. Multiply by k until n is reached, or "
        "subtract a small number before rounding.": {
            "dilated": [
                f"max(1, math.ceil({LOG}))",
                "max(1, math.ceil(math.log2(n) / math.log2(k)))",
                "max(1, math.ceil(math.log10(n) / math.log10(k)))",
            ]
        },
        "The receptive field must cover all n positions, the first and the last included.": {
            "dilated": "next(p for p in range(1, n + 1) if k**p >= n - 1)"
        },
        "The dilation of layer l = 0, 1, 2, … is k^l, so it is 1 in the first layer, not k.": {
            "dilated": "next(p for p in range(1, n + 1) if 1 + k * (k**p - 1) >= n)"
        },
        "The dilation grows: inputs are k times as far apart as in the layer below.": {
            "dilated": [
                "max(1, math.ceil((n - 1) / (k - 1)))",
                "max(1, math.ceil(math.log2(n)))",
            ]
        },
        "This convolution reads its own and earlier positions, not k // 2 on each side.": {
            "convolution": "max(1, math.ceil((n - 1) / (k // 2)))"
        },
        "Every output of attention reads every input directly: the path length is 1.": {
            "attention": ["n", "2", "0"]
        },
    },
}
RETURNED = "return multiplications, steps, path"


def in_one_layer(column: str, formulas: dict[str, str | list[str]]) -> list[str]:
    """Return an edit for each formula and layer: the formula replaces the column of the layer."""
    return [
        f"{RETURNED} -> if layer == '{layer}':\n        {column} = {formula}\n    {RETURNED}"
        for layers, several in formulas.items()
        for formula in ([several] if isinstance(several, str) else several)
        for layer in layers.split()
    ]


COSTS = Question(
    costs,
    dict.fromkeys(IN_COSTS, ""),
    cost_cases,
    {
        f"{{layer}}, {column}: {said}": in_one_layer(column, formulas)
        for column, mistakes in IN_COSTS.items()
        for said, formulas in mistakes.items()
    }
    | {
        "Steps and path are swapped. Return multiplications, steps, path in this order.": (
            f"{RETURNED} -> return multiplications, path, steps"
        )
    },
)


# Part 2


def steps(graph):
    available = {node for node in graph if not graph[node]}
    taken = 0
    while len(available) < len(graph):
        available |= {node for node in graph if available.issuperset(graph[node])}
        taken += 1
    return taken


def path(graph):
    top, last = max(graph)
    order, lengths = in_order(graph), []
    for i in range(last + 1):
        arrows = {(0, i): 0}
        for node in order:
            found = [arrows[each] + 1 for each in graph[node] if each in arrows]
            if found:
                arrows[node] = min(found)
        lengths += [arrows.get((top, j)) for j in range(last + 1) if i <= j]
    return None if None in lengths else max(lengths)


def in_order(graph):
    """Return the nodes, each after those that it reads."""
    ordered = []
    while len(ordered) < len(graph):
        ordered += [n for n in graph if n not in ordered and {*ordered}.issuperset(graph[n])]
    return ordered


def steps_in_one_pass(graph):
    found = {}
    for node, read in graph.items():
        found[node] = max((found.get(each, 0) + 1 for each in read), default=0)
    return max(found.values())


def steps_in_a_sorted_pass(graph):
    return steps_in_one_pass(dict(sorted(graph.items())))


def steps_layer_by_layer(graph):
    """Sum the longest chains within the levels."""

    def chain(node):
        return 1 + max((chain(each) for each in graph[node] if each[0] == node[0]), default=0)

    levels = range(1, max(graph)[0] + 1)
    return sum(max(chain(node) for node in graph if node[0] == level) for level in levels)


def path_where_any_pair_counts(graph):
    """Return None where a pair i ≤ j is not connected, but measure the pairs i > j too."""
    connected = [path_between(graph, i, j) for i in range(max(graph)[1] + 1) for j in range(i + 1)]
    return path(graph) and max(path(graph), *(each for each in connected if each))


def path_between(graph, i, j):
    """Return the length of the shortest path from the input i to the output j, or None."""
    reached, arrows = {(0, i)}, 0
    while reached and (max(graph)[0], j) not in reached:
        reached = {node for node in graph if reached.intersection(graph[node])}
        arrows += 1
    return arrows if reached else None


def graph_cases(thorough: bool) -> Iterator[Case]:
    made: list[tuple[str, Callable[..., graphs.Graph], tuple[object, ...]]] = [
        ("a recurrent layer", graphs.recurrent, (2,)),
        ("a recurrent layer", graphs.recurrent, (4,)),
        ("attention", graphs.attention, (3,)),
        ("causal attention", graphs.attention, (3, True)),
        ("one convolution", graphs.convolution, (3, 2, [1])),
        ("two convolutions", graphs.convolution, (3, 2, [1, 1])),
        ("a backward recurrent layer", graphs.backward, (3,)),
        ("a recurrent layer that also reads the first input", graphs.from_the_first, (4,)),
        ("a recurrent layer whose last state reads every input", graphs.to_the_last, (4,)),
        ("convolutions that also read the inputs", graphs.skipping, (3, 3)),
        ("a bidirectional layer", graphs.bidirectional, (3,)),
        ("a backward recurrent layer with a forward one on top", graphs.back_and_forth, (3,)),
        ("attention to neighbours and the first position, one layer", graphs.with_a_hub, (5, 1)),
        ("attention to neighbours and the first position, two layers", graphs.with_a_hub, (5, 2)),
        (
            "a recurrent layer that also reads the state before the previous one",
            graphs.leaping,
            (7,),
        ),
        (
            "a backward recurrent layer that also reads all earlier inputs",
            graphs.backward_over,
            (4,),
        ),
        ("a single position", graphs.recurrent, (1,)),
        ("three dilated convolutions", graphs.convolution, (8, 2, [1, 2, 4])),
        ("attention next to a recurrent layer that no output reads", graphs.unread, (3,)),
    ]
    if thorough:
        made += [
            ("a long recurrent layer", graphs.recurrent, (31,)),
            ("a long bidirectional layer", graphs.bidirectional, (13,)),
            ("dilated convolutions", graphs.convolution, (27, 3, [1, 3, 9])),
            ("dilated convolutions", graphs.convolution, (28, 3, [1, 3, 9])),
            ("convolutions that also read the inputs", graphs.skipping, (7, 4)),
            (
                "attention to neighbours and the first position, three layers",
                graphs.with_a_hub,
                (11, 3),
            ),
            ("a recurrent layer that also reads the first input", graphs.from_the_first, (9,)),
        ]
    for seed, (name, layer, arguments) in enumerate(made):
        call = f"checks.{layer.__name__}({str([*arguments])[1:-1]})"
        yield Case(
            {"graph": graphs.stirred(layer(*arguments), seed)},
            general=f"This is not the expected value in the graph of {name}, {call}.",
        )


STEPS = Question(
    steps,
    {"steps": ""},
    graph_cases,
    {
        "The number of levels is not the number of steps: within a level, one node may depend on "
        "another.": "return taken -> return max(graph)[0]",
        "The nodes are counted one by one. All nodes that do not depend on each other are computed "
        "in one step.": [
            "return taken -> return sum(level > 0 for level, _ in graph)",
            "return taken -> return len(graph)",
        ],
        "The inputs are available from the beginning and take no step.": "taken = 0 -> taken = 1",
        "A node must wait for the last of the nodes that it reads, not for the first.": (
            "issuperset -> intersection"
        ),
        "The order of the nodes in the dict has no meaning: a node may come before the nodes that "
        "it reads. One pass in this order is not enough.": [
            steps_in_one_pass,
            steps_in_a_sorted_pass,
        ],
        "A node that is computed in a step is available in the next step, not within the same "
        "one.": (
            "available |= {node for node in graph if available.issuperset(graph[node])} -> "
            "for node in graph:\n"
            "            if available.issuperset(graph[node]):\n"
            "                available.add(node)"
        ),
        "A node waits only for the nodes that it reads, not until the level below is complete.": (
            steps_layer_by_layer
        ),
        "Only one output is looked at. Another node may be the last that is computed.": [
            "len(available) < len(graph) -> max(graph) not in available",
            "len(available) < len(graph) -> (max(graph)[0], 0) not in available",
        ],
        "The nodes that no output depends on are not waited for. They belong to the graph too.": (
            "len(available) < len(graph) -> "
            "not available.issuperset(node for node in graph if node[0] == max(graph)[0])"
        ),
        "Steps and path length are swapped.": "return taken -> return path(graph)",
    },
    named=True,
    in_all_cases=True,
)

PAIRS = "if i <= j"
LATER = "a distance that was found earlier with a longer one."
LONGEST = "None if None in lengths else max(lengths)"
CONNECTED = f"{LONGEST} -> max([each for each in lengths if each is not None])"
PATH = Question(
    path,
    {"path": ""},
    graph_cases,
    {
        "This value uses the longest path of a pair. Use its shortest; return the largest of all. "
        f"The search must not overwrite {LATER}": "min(found) -> max(found)",
        "This value is the smallest path length of all pairs. Return the largest.": (
            "max(lengths) -> min(lengths)"
        ),
        "Pairs that are not connected are left out. If an output does not depend on an earlier "
        "input, return None.": CONNECTED,
        "If a pair is not connected, return None, not infinity or a number such as -1 or 0.": [
            f"None if -> {wrong} if" for wrong in ("math.inf", "-1", "0")
        ],
        "Only the path from the first input to the last output is considered. The path of another "
        "pair may be longer.": f"{PAIRS} -> if i == 0 and j == last",
        "Only paths from the first input are considered.": f"{PAIRS} -> if i == 0",
        "Only paths to the last output are considered.": f"{PAIRS} -> if j == last",
        "The input at the position of the output counts too: i ≤ j, not i < j.": [
            (f"{PAIRS} -> if i < j", f"max(lengths) -> max(lengths, default={none})")
            for none in (None, 0)
        ],
        "Pairs with i > j are included. Only inputs up to the position of the output count.": [
            f" {PAIRS} -> ",
            f"{PAIRS} -> if i >= j",
            (f" {PAIRS} -> ", CONNECTED),
            path_where_any_pair_counts,
        ],
        "Count the arrows on the path, not its nodes.": [
            "max(lengths) -> max(lengths) + 1",
            "max(lengths) -> max(lengths) - 1",
        ],
        "The number of levels is not the path length: a path may also lead along a level.": [
            f"{LONGEST} -> top",
            f"{LONGEST} -> None if None in lengths else top",
        ],
        "This value is the number of steps, which is the longest path in the graph. Either steps "
        f"and path length are swapped, or the search overwrites {LATER}": [
            f"{LONGEST} -> steps(graph)",
            f"{LONGEST} -> None if None in lengths else steps(graph)",
        ],
    },
    named=True,
    in_all_cases=True,
)


# Part 3


def fit(lengths, times):
    x = np.log(lengths)
    y = np.log(times)
    exponent, intercept = np.polyfit(x, y, 1)
    factor = np.exp(intercept)
    return float(exponent), float(factor)


def forecast(measure, lengths, target, repeats=5):
    runs = [[measure(n) for _ in range(repeats)] for n in lengths]
    shortest = [min(times) for times in runs]
    exponent, factor = fit(lengths, shortest)
    return factor * target**exponent


def fit_cases(thorough: bool) -> Iterator[Case]:
    points = [
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
    for lengths, times in points:
        yield Case({"lengths": lengths, "times": times})


def disturbed(exponent: float, factor: float, lengths: list[int], wobble: float = 0.0) -> dict:
    """Return times of a layer of which the third is the least, and the sixth less than that."""
    disturbances = [1.9, 1.2, 1.0, 2.6, 1.1, 0.8]
    times = {}
    for index, length in enumerate(lengths):
        least = factor * length**exponent * (1 + wobble * (-1) ** index)
        times[length] = [least * (more + 0.03 * index * (more > 1)) for more in disturbances]
    return times


def forecast_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (disturbed(1.0, 0.5, [2, 4, 8]), 16, 3),
        (disturbed(1.5, 0.01, [2, 8, 16], 0.2), 64, None),
        (disturbed(2.0, 1e-4, [16, 32, 64, 128], 0.1), 1024, 6),
        (disturbed(1.2, 0.03, [3, 7, 20, 50], 0.15), 5, 2),
        ({2: [1.0, 1.5, 1.2], 4: [2.9, 2.1, 2.6], 8: [5.0, 4.8, 4.1]}, 16, 3),
    ]
    if thorough:
        asked += [
            (disturbed(1.0, 0.01, [64, 128, 256, 512, 1024], 0.3), 4096, 1),
            (disturbed(1.1, 3e6, [8, 16, 32], 0.1), 100, 3),  # in nanoseconds
            (disturbed(0.5, 7.0, [100, 30, 10], 0.05), 1000, 4),
        ]
    for times, target, repeats in asked:
        inputs = {"measure": Stopwatch(times), "lengths": [*times], "target": target}
        yield Case(inputs if repeats is None else inputs | {"repeats": repeats})


LINE = "np.polyfit(x, y, 1)"
FITTED = f"exponent, intercept = {LINE}"
FIT = Question(
    fit,
    {"exponent": "", "factor": ""},
    fit_cases,
    {
        "exponent and factor are swapped. Return exponent, factor.": (
            "return float(exponent), float(factor) -> return float(factor), float(exponent)"
        ),
        "no logarithms are taken: this is the slope of a line through the times themselves.": (
            "np.log(lengths) -> np.array(lengths)",
            "np.log(times) -> np.array(times)",
            "np.exp(intercept) -> intercept",
        ),
        "the logarithm is taken of lengths or times only. Take it of both.": [
            "np.log(lengths) -> np.array(lengths)",
            ("np.log(times) -> np.array(times)", "np.exp(intercept) -> intercept"),
        ],
        "this line leads through the first and the last point only. Least squares uses all "
        "points.": f"{LINE} -> np.polyfit(x[[0, -1]], y[[0, -1]], 1)",
        "this is the mean of the slopes between neighbouring points. With equal distances, it "
        "depends on the two ends only. Least squares uses all points.": (
            f"{FITTED} -> exponent = (np.diff(y) / np.diff(x)).mean()\n"
            "    intercept = y.mean() - exponent * x.mean()"
        ),
        "the line leads through the origin, which assumes a factor of 1. Fit the intercept too, "
        "for example with a column of ones.": f"{LINE} -> x @ y / (x @ x), 0.0",
        "one of the two sums is divided by the number of points, the other by one less.": [
            f"{FITTED} -> {FITTED}\n    exponent {change} 1 - 1 / len(x)\n"
            "    intercept = y.mean() - exponent * x.mean()"
            for change in ("*=", "/=")
        ],
        "lengths and times are swapped. Fit log time as a function of log length.": [
            f"{LINE} -> np.polyfit(y, x, 1)",
            (
                f"{LINE} -> np.polyfit(y, x, 1)",
                "np.exp(intercept) -> np.exp(-intercept / exponent)",
                "float(exponent) -> 1 / float(exponent)",
            ),
            "float(exponent) -> 1 / float(exponent)",
        ],
        "this is the logarithm of the factor. Return the factor itself.": [
            "np.exp(intercept) -> intercept",
            "np.exp(intercept) -> intercept / math.log(10)",
            "np.exp(intercept) -> intercept / math.log(2)",
        ],
        "the logarithm and its inverse have different bases, such as e and 10.": [
            "np.exp(intercept) -> 10**intercept",
            "np.exp(intercept) -> 2**intercept",
            "np.exp(intercept) -> np.exp(intercept / math.log(10))",
            "np.exp(intercept) -> np.exp(intercept / math.log(2))",
        ],
        "this curve leads exactly through the first or the last point. The factor follows from the "
        "intercept of the fitted line.": [
            f"np.exp(intercept) -> times[{end}] / lengths[{end}] ** exponent" for end in (0, -1)
        ],
    },
    named=True,
)

SHORTEST = "min(times)"
FIT_ONCE = "exponent, factor = fit(lengths, shortest)"
FORECAST = Question(
    forecast,
    {"forecast": ""},
    forecast_cases,
    {
        "the mean of the repeats is used, or the line is fitted to all of them. Use the shortest "
        "time at each length: disturbances can only make a run longer.": [
            f"{SHORTEST} -> sum(times) / len(times)",
            f"{SHORTEST} -> math.exp(sum(np.log(times)) / len(times))",
        ],
        "the first run at each length is left out. It may be the shortest; use all repeats.": (
            f"{SHORTEST} -> min(times[1:] or times)"
        ),
        "each round of repeats gets its own fit. Fit one curve to the shortest times.": (
            "return factor * target**exponent -> "
            "return min(b * target**a for a, b in (fit(lengths, each) for each in zip(*runs)))"
        ),
        "the median of the repeats is used. Use the shortest time.": (
            f"{SHORTEST} -> sorted(times)[len(times) // 2]"
        ),
        "the longest of the repeats is used. Use the shortest time.": f"{SHORTEST} -> max(times)",
        "only the first run at each length is used, which is slow. Use the shortest of all.": (
            f"{SHORTEST} -> times[0]"
        ),
        "`repeats` is ignored. It is the number of runs at each length.": [
            f"range(repeats) -> range({number})" for number in (3, 5, 10)
        ],
        "`measure` is called repeats - 1 times at each length. Call it `repeats` times.": (
            "range(repeats) -> range(repeats - 1)"
        ),
        "this curve leads exactly through the last measurement. Use the fitted factor: "
        "factor · target^exponent.": (
            "factor * target**exponent -> shortest[-1] * (target / lengths[-1]) ** exponent"
        ),
        "the factor is missing: these values are target^exponent.": "return factor * -> return ",
        "this extrapolates a straight line. Use the fitted power law.": (
            f"{FIT_ONCE} -> slope, intercept = np.polyfit(lengths, shortest, 1)",
            "factor * target**exponent -> float(slope * target + intercept)",
        ),
        "exponent and factor are swapped after the call of `fit`, which returns exponent, "
        "factor.": f"{FIT_ONCE} -> factor, exponent = fit(lengths, shortest)",
    },
    named=True,
)


# Part 4


def three_terms(lengths, times):
    n, measured = np.array(lengths), np.array(times)
    rows = np.stack([n**0, n, n**2], axis=1)
    weights = 1 / measured
    terms = np.linalg.lstsq(rows * weights[:, None], measured * weights, rcond=None)[0]
    return terms.tolist()


def overtakes(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    highest = next((term for term in (c, b, a) if term), 0.0)
    if highest <= 0:
        return None
    root = 0.0
    if c and b * b >= 4 * a * c:
        root = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * c)
    elif b and not c:
        root = -a / b
    length = max(1, math.floor(root) + 1)
    return length


def first_more_expensive(one, other):
    """Return the first length at which `one` costs more, not the one from which on it does."""
    differences = (
        a - d + (b - e) * n + (c - f) * n * n
        for n in range(1, 2000)
        for (a, b, c), (d, e, f) in [(one, other)]
    )
    return next((n for n, each in enumerate(differences, start=1) if each > 0), None)


def term_cases(thorough: bool) -> Iterator[Case]:
    points = [
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
    for lengths, times in points:
        yield Case({"lengths": lengths, "times": times})


def crossing_cases(thorough: bool) -> Iterator[Case]:
    costs = [
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
        ((10.0, 0.0, 1.0), (0.0, 6.0, 0.0)),
        ((0.0, 0.0, 1.0), (0.0, 700000.98, 0.0)),  # hard in 32 bits
        ((0.0, 0.0, 5e-10), (0.0, 1.5000025e-4, 0.0)),  # in seconds
    ]
    if thorough:
        costs += [
            ((-6.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
            ((0.1, 0.002, 2e-6), (0.5, 0.003, 0.0)),
            ((1.0, 1.0, 0.0), (0.0, 1.0, 0.5)),
            ((0.0, 0.0, 1.0), (0.0, 1.2e6, 0.0)),
            ((40.0, 0.0, 2.0), (0.0, 18.0, 0.0)),
            ((0.0, 5.0, 0.25), (7.0, 5.0, 0.125)),
        ]
    for one, other in costs:
        yield Case({"one": one, "other": other})


PRECISION = "If the values are close, 32 bits were not precise enough: use torch.float64."
WEIGHTS = "1 / measured"
TERMS = "return terms.tolist()"
TURNED = f"{TERMS} -> return terms[::-1].tolist()"
THREE_TERMS = Question(
    three_terms,
    {"fixed": PRECISION, "per_word": PRECISION, "per_pair": PRECISION},
    term_cases,
    {
        "the terms have another order. Return fixed, per_word, per_pair.": TURNED,
        "the terms have another order. Return fixed, per_word, per_pair. Besides, divide each "
        "error by its time; otherwise the longest sequence dominates.": [
            (f"{WEIGHTS} -> measured**0", TURNED),
            (f"{WEIGHTS} -> measured**-0.5", TURNED),
        ],
        "the errors are not divided by the times, so the longest sequence dominates. Divide each "
        "error by its time.": f"{WEIGHTS} -> measured**0",
        "the errors are divided by the times twice, or after they were squared. Divide once, then "
        "square.": [f"{WEIGHTS} -> measured**-2", f"{WEIGHTS} -> measured**-0.5"],
        "the errors are multiplied by the times. Divide by the times.": f"{WEIGHTS} -> measured",
        "the fixed term is missing, or it is always 0.": (
            "[n**0, n, n**2] -> [n, n**2]",
            f"{TERMS} -> return [0.0, *terms.tolist()]",
        ),
        "the term per_word is missing, or it is always 0.": (
            "[n**0, n, n**2] -> [n**0, n**2]",
            f"{TERMS} -> return [float(terms[0]), 0.0, float(terms[1])]",
        ),
        "the term per_pair is missing, or it is always 0.": (
            "[n**0, n, n**2] -> [n**0, n]",
            f"{TERMS} -> return [*terms.tolist(), 0.0]",
        ),
        "negative terms are replaced. A term may be negative.": [
            f"{TERMS} -> return np.maximum(terms, 0).tolist()",
            f"{TERMS} -> return np.abs(terms).tolist()",
        ],
    },
    named=True,
)

LENGTH = "max(1, math.floor(root) + 1)"
NO_ROOT = "if c and b * b >= 4 * a * c"
WITHOUT_A_MEETING = f"{NO_ROOT} -> if c and b * b < 4 * a * c:\n        return {{}}\n    {NO_ROOT}"
TOUCHING = f"{NO_ROOT} -> if c and b * b > 4 * a * c"
ROUNDED_UP = f"{LENGTH} -> max(1, math.ceil(root))"
SAME = "return None -> return 1 if one == other else None"
OVERTAKES = Question(
    overtakes,
    {"length": ""},
    crossing_cases,
    {
        "this is the first length at which `one` is more expensive. It may become cheaper again: "
        "return the length from which on it stays more expensive.": first_more_expensive,
        "at this length both cost the same, so neither is more expensive. Return the next one.": [
            ROUNDED_UP,
            (ROUNDED_UP, SAME),
            TOUCHING,
            (ROUNDED_UP, TOUCHING),
            (ROUNDED_UP, SAME, TOUCHING),
        ],
        "this is the point where the curves meet. Return the first integer length beyond it.": (
            f"{LENGTH} -> root if root > 0 else {LENGTH}"
        ),
        "the two costs are swapped. Return the length from which on `one` is more expensive.": (
            "zip(one, other, -> zip(other, one,"
        ),
        "this is one too large: `one` is already more expensive at the length before.": (
            "math.floor(root) + 1 -> math.floor(root) + 2"
        ),
        "the smaller of two roots is used. The curves meet for the last time at the larger root.": [
            "(-b + math -> (-b - math",
            ("(-b + math -> (-b - math", f"{LENGTH} -> math.floor(root) + 1"),
        ],
        "the fixed terms are ignored.": "highest = next -> a = 0.0\n    highest = next",
        "if `one` never stays more expensive, return None.": [
            f"return None -> return {wrong}"
            for wrong in ("0", "-1", "math.inf", "1", "None if b or c else 1")
        ],
        "this is None wherever the quadratic terms are equal. The difference is then a line, which "
        "may cross zero too, or a constant.": "highest <= 0 -> highest <= 0 or not c",
        "the crossing may lie beyond any fixed limit of a search. Compute it.": [
            f"return length -> return length if length < {limit} else None"
            for limit in (10**3, 10**4, 10**5)
        ],
        "32 bits are not precise enough for long sequences: use torch.float64 or Python's "
        "floats.": "(first - second -> (float(np.float32(first) - np.float32(second))",
        "a small coefficient is treated as 0, but its size depends on the unit of the costs. "
        "Compare it with 0 exactly.": (
            "highest = next -> "
            "a, b, c = (each if abs(each) > 1e-6 else 0.0 for each in (a, b, c))\n"
            "    highest = next"
        ),
        "if `one` is more expensive at every length, return 1.": [
            WITHOUT_A_MEETING.format(None),
            "highest <= 0 -> highest <= 0 or not (b or c)",
            "root = 0.0 -> root = -b / (2 * c) if c else 0.0",
            "return length -> return length if root > 0.5 else None",
            "return length -> return length if root > 0.5 else 0",
            f"{LENGTH} -> math.floor(root) + 1",
            "root = -a / b -> return math.floor(-a / b) + 1",
        ],
    },
    named=True,
)


PARTS = {
    "count": [COSTS],
    "read_off": [STEPS, PATH],
    "forecasts": [FIT, FORECAST],
    "crossing": [THREE_TERMS, OVERTAKES],
}
"""The questions of each check, in the order of its arguments."""
