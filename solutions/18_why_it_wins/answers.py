"""Other answers to the questions on the costs of layers, right ones and wrong ones.

Wrong answers are written as in questions.py: as edits of the right answer, or as whole functions.
"""

import math
from functools import cache

import numpy as np
import torch

# Part 1


def costs_of_each(layer, n, d, k):
    """Each layer has its own formulas; a list, and a logarithm from which a little is taken."""
    table = {
        "rnn": [2 * n * d * d, n, n],
        "gru": [3 * 2 * n * d * d, n, n],
        "convolution": [n * k * d * d, 1, -((1 - n) // (k - 1)) or 1],
        "dilated": [n * k * d * d, 1, max(1, math.ceil(math.log(n, k) - 1e-9))],
        "attention": [2 * n * d * (2 * d + n), 1, 1],
    }
    return table[layer]


def costs_by_counting(layer, n, d, k):
    """Count products position by position; how far a stack sees grows layer by layer."""
    products, pairs = {"rnn": (2, 0), "gru": (6, 0), "attention": (4, 2 * n)}.get(layer, (k, 0))
    work = sum(products * d * d + pairs * d for _ in range(n))
    if layer in ("rnn", "gru"):
        return work, n, n
    layers, seen = 0, 1
    while layers == 0 or (seen < n and layer != "attention"):
        seen += (k - 1) * (k**layers if layer == "dilated" else 1)
        layers += 1
    return torch.tensor(work), torch.tensor(1), np.int64(layers)


def costs_in_a_tensor(layer, n, d, k):
    return torch.tensor(costs_of_each(layer, n, d, k))


# Part 2


def steps_by_recursion(graph):
    @cache
    def when_ready(node):
        return max((when_ready(each) + 1 for each in graph[node]), default=0)

    return max(map(when_ready, graph))


def steps_by_powers(graph):
    """The longest chain has as many arrows as a nilpotent matrix has powers that are not zero."""
    number = {node: index for index, node in enumerate(graph)}
    matrix = torch.zeros(len(graph), len(graph))
    for node, read in graph.items():
        for each in read:
            matrix[number[node], number[each]] = 1.0
    power, found = matrix.clone(), 0
    while power.any():
        power = ((power @ matrix) > 0).float()
        found += 1
    return found


def path_by_search(graph):
    return _searched(graph, 0)


def path_depth_first(graph):
    """The path that is found first need not be the shortest."""
    return _searched(graph, -1)


def path_that_overwrites(graph):
    """The distance that is found last is that of the longest path."""
    return _searched(graph, 0, overwrite=True)


def farthest_that_overwrites(graph):
    """Search forwards from each input; every node that is found counts, not only the outputs."""
    longest = 0
    for start in (node for node in graph if node[0] == 0):
        arrows, to_visit = {start: 0}, [start]
        while to_visit:
            node = to_visit.pop(0)
            for each in (each for each in graph if node in graph[each]):
                arrows[each] = arrows[node] + 1
                to_visit.append(each)
        longest = max(longest, *arrows.values())
    return longest


def _searched(graph, next_place, overwrite=False):
    """Search backwards from each output: breadth first from place 0, depth first from place -1."""
    top = max(level for level, _ in graph)
    longest = 0
    for output in (node for node in graph if node[0] == top):
        arrows, to_visit = {output: 0}, [output]
        while to_visit:
            node = to_visit.pop(next_place)
            for each in graph[node]:
                if overwrite or each not in arrows:
                    arrows[each] = arrows[node] + 1
                    to_visit.append(each)
        for position in range(output[1] + 1):
            if (0, position) not in arrows:
                return None
            longest = max(longest, arrows[0, position])
    return longest


def path_by_recursion(graph):
    @cache
    def length(node, start):
        if node == start:
            return 0
        return 1 + min((length(each, start) for each in graph[node]), default=math.inf)

    top = max(level for level, _ in graph)
    outputs = [node for node in graph if node[0] == top]
    longest = max(length(node, (0, i)) for node in outputs for i in range(node[1] + 1))
    return None if longest == math.inf else longest


def path_of_every_level(graph):
    """Take every node above the inputs for an output."""
    levels = range(1, max(graph)[0] + 1)
    found = [path_by_search({n: graph[n] for n in graph if n[0] <= level}) for level in levels]
    return None if None in found else max(found)


def steps_that_trust_the_order(graph):
    ready = {}
    for node, read in graph.items():
        ready[node] = max((ready[each] + 1 for each in read), default=0)
    return max(ready.values())


def steps_that_change_the_graph(graph):
    for node, read in graph.items():
        if not read:
            graph[node] = None
    return 0


# Part 3


def fit_by_sums(lengths, times):
    x = torch.tensor(lengths, dtype=torch.float64).log()
    y = torch.tensor(times, dtype=torch.float64).log()
    from_mean = x - x.mean()
    exponent = (from_mean * (y - y.mean())).sum() / from_mean.square().sum()
    return exponent, (y.mean() - exponent * x.mean()).exp()


def fit_in_base_ten(lengths, times):
    exponent, intercept = np.polyfit(np.log10(lengths), np.log10(times), 1)
    return exponent, 10**intercept


def fit_by_equations(lengths, times):
    """The two equations of least squares, solved by hand; 32 bits, and a list."""
    x, y = torch.tensor(lengths).float().log(), torch.tensor(times).float().log()
    rows = torch.stack([x, torch.ones(len(x))], dim=1)
    slope, intercept = torch.linalg.solve(rows.T @ rows, rows.T @ y)
    return [slope, intercept.exp()]


def fit_in_a_column(lengths, times):
    exponent, factor = fit_by_sums(lengths, times)
    return torch.stack([exponent, factor]).unsqueeze(1)


def forecast_round_by_round(measure, lengths, target, repeats=5):
    """All lengths once, then all again; what is forecast is a logarithm first."""
    rounds = [[measure(n) for n in lengths] for _ in range(repeats)]
    shortest = np.array(rounds).min(axis=0)
    slope, intercept = np.polyfit(np.log(lengths), np.log(shortest), 1)
    return math.exp(slope * math.log(target) + intercept)


def forecast_in_a_loop(measure, lengths, target, repeats=5):
    shortest = {}
    for n in lengths:
        for _ in range(repeats):
            shortest[n] = min(measure(n), shortest.get(n, math.inf))
    exponent, factor = fit_by_sums(list(shortest), list(shortest.values()))
    return factor * target**exponent


# Part 4


def terms_by_polynomial(lengths, times):
    return np.polyfit(lengths, times, 2, w=1 / np.array(times))[::-1]


def terms_by_equations(lengths, times):
    """The three equations of least squares."""
    rows = np.array([[1 / t, n / t, n * n / t] for n, t in zip(lengths, times, strict=True)])
    return tuple(np.linalg.solve(rows.T @ rows, rows.sum(axis=0)))


def terms_in_a_column(lengths, times):
    """As lstsq returns them: a row for each."""
    return [[term] for term in terms_by_polynomial(lengths, times).tolist()]


def terms_in_32_bits(lengths, times):
    n, measured = torch.tensor(lengths), torch.tensor(times)
    rows = torch.stack([n**0, n, n**2], dim=1) / measured.unsqueeze(1)
    return torch.linalg.solve(rows.T @ rows, rows.sum(dim=0)).tolist()


def terms_by_three_points(lengths, times):
    rows = torch.tensor([[1.0, n, n * n] for n in lengths[:3]], dtype=torch.float64)
    return torch.linalg.solve(rows, torch.tensor(times[:3], dtype=torch.float64)).tolist()


def _costs_more(one, other, n):
    return sum((a - b) * n**power for power, (a, b) in enumerate(zip(one, other, strict=True))) > 0


def overtakes_by_walking(one, other):
    """In strides until `one` is more expensive, then walk back."""
    if not _costs_more(one, other, 10**9):
        return None
    n = 1000
    while not _costs_more(one, other, n):
        n += 1000
    while n > 1 and _costs_more(one, other, n - 1):
        n -= 1
    return n


def overtakes_by_roots(one, other):
    """NumPy's roots of the difference; complex ones are no crossing."""
    difference = [first - second for first, second in zip(one, other, strict=True)][::-1]
    if not any(difference) or next(term for term in difference if term) < 0:
        return None
    real = [root.real for root in np.roots(difference) if abs(root.imag) < 1e-6]
    n = max(1, round(max(real, default=0)))
    while np.polyval(difference, n) <= 0:
        n += 1
    return n


def overtakes_up_to_a_thousand(one, other):
    if not _costs_more(one, other, 1000):
        return None
    return next(n for n in range(1000, 0, -1) if n == 1 or not _costs_more(one, other, n - 1))


def overtakes_or_costs_the_same(one, other):
    """Walk back as long as `other` is not more expensive, first in strides."""
    if not _costs_more(one, other, 10**9):
        return None if _costs_more(other, one, 10**9) or one != other else 1
    n = 400_000
    for stride in (1000, 1):
        while n > stride and not _costs_more(other, one, n - stride):
            n -= stride
    return n


RIGHT = {
    "costs": [costs_of_each, costs_by_counting, costs_in_a_tensor],
    "steps": [steps_by_recursion, steps_by_powers],
    "path": [path_by_search, path_by_recursion],
    "fit": [fit_by_sums, fit_in_base_ten, fit_by_equations, fit_in_a_column],
    "forecast": [forecast_round_by_round, forecast_in_a_loop],
    "three_terms": [terms_by_polynomial, terms_by_equations, terms_in_a_column],
    "overtakes": [overtakes_by_walking, overtakes_by_roots],
}

RETURNED = "return multiplications, steps, path"
MEASURED = "runs = [[measure(n) for _ in range(repeats)] for n in lengths]"
FORECAST = "return factor * target**exponent"
NOT_LONGER = "    if highest <= 0:"
WRONG = {
    "costs": {
        "Expected 3 results, `return multiplications, steps, path`": (
            f"{RETURNED} -> return multiplications, steps"
        ),
        "Expected multiplications as an int, got a str": (
            f'{RETURNED} -> return "O(n d²)", steps, path'
        ),
        # In both layers, or where one quantity is right
        "rnn, steps: Each state depends on the previous one": (
            "steps, path = n, n -> steps, path = 1, n"
        ),
        "convolution, path: One layer reads k positions": [
            'if layer == "convolution" -> if layer == "conv"',
            (
                'if layer == "convolution" -> if layer == ""',
                'if layer == "dilated" -> if layer == ""',
            ),
        ],
    },
    "steps": {
        "Your code raises KeyError": steps_that_trust_the_order,
        "Your code changes its input graph": steps_that_change_the_graph,
    },
    "path": {
        "not the expected value in the graph of a recurrent layer that also": path_depth_first,
        "not the expected value in the graph of two convolutions": path_of_every_level,
        "the longest path of a pair. Use its shortest": path_that_overwrites,
        "path length are swapped, or the search overwrites": farthest_that_overwrites,
    },
    "fit": {
        "Expected a pair, `return exponent, factor`": (
            "return float(exponent), float(factor) -> return float(exponent)"
        ),
    },
    "forecast": {
        "or the line is fitted to all of them": (
            "fit(lengths, shortest) -> fit(np.repeat(lengths, repeats), np.ravel(runs))"
        ),
        "only the first run at each length is used": "range(repeats) -> range(1)",
        "the shortest times of the first 3 runs are 1, 2, 4": "min(times) -> sum(times)",
        "`measure` ran 6 times at a length": (
            f"{MEASURED} -> [measure(n) for n in lengths]\n    {MEASURED}"
        ),
        "was called with the target length 16. Forecast the time at this length instead": [
            f"{FORECAST} -> return min(measure(target) for _ in range(repeats))",
            f"{MEASURED} -> lengths = [*lengths, target]\n    {MEASURED}",
        ],
        "`measure` was never called": f"{MEASURED} -> return 3.0 * target",
    },
    "three_terms": {
        "32 bits were not precise enough": terms_in_32_bits,
        "Expected 3 results, `return fixed, per_word, per_pair`": (
            "terms.tolist() -> terms[:2].tolist()"
        ),
        "This is not the expected value of fixed": terms_by_three_points,
    },
    "overtakes": {
        "at this length both cost the same": overtakes_or_costs_the_same,
        "may lie beyond any fixed limit": overtakes_up_to_a_thousand,
        "They cost 998001 and 1996007 at length 999": (
            f"{NOT_LONGER} ->     if c and b * b < 4 * a * c:\n        return 1\n{NOT_LONGER}"
        ),
        "if `one` is more expensive at every length": (
            f"{NOT_LONGER} ->     if b * b < 4 * a * c:\n        return None\n{NOT_LONGER}"
        ),
        "Your code raises ZeroDivisionError": "if c and b * b -> if b * b",
    },
}

PLAIN_ERRORS = """def three_terms(lengths, times):
    n = torch.tensor(lengths, dtype=torch.float64)
    rows = torch.stack([n**0, n, n**2], dim=1)
    measured = torch.tensor(times, dtype=torch.float64).unsqueeze(1)
    return torch.linalg.lstsq(rows, measured).solution[:, 0].tolist()


def overtakes(one, other):
    return None
"""

HANDED_IN = {
    "plain_errors": (
        {"crossing": PLAIN_ERRORS},
        ["crossing-check"],
        "longest sequence dominates",
    ),
}
