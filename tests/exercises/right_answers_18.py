"""Right answers to 18_why_it_wins, each written differently."""

import math
from functools import cache

import numpy as np
import torch

# Part 1


def costs(layer, n, d, k):
    if layer in ("rnn", "gru"):
        return (2 if layer == "rnn" else 6) * n * d**2, n, n
    if layer == "attention":
        return 4 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "convolution":
        return k * n * d**2, 1, max(1, math.ceil((n - 1) / (k - 1)))
    layers = 1
    while k**layers < n:
        layers += 1
    return k * n * d**2, 1, layers


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
    """Count products place by place; how far a stack sees grows layer by layer."""
    products, pairs = {"rnn": (2, 0), "gru": (6, 0), "attention": (4, 2 * n)}.get(layer, (k, 0))
    work = sum(products * d * d + pairs * d for _ in range(n))
    if layer in ("rnn", "gru"):
        return work, n, n
    layers, seen = 0, 1
    while layers == 0 or (seen < n and layer != "attention"):
        seen += (k - 1) * (k**layers if layer == "dilated" else 1)
        layers += 1
    return torch.tensor(work), torch.tensor(1), np.int64(layers)


# Part 2


def steps(graph):
    ready = {}

    def when_ready(node):
        if node not in ready:
            ready[node] = max((when_ready(each) + 1 for each in graph[node]), default=0)
        return ready[node]

    return max(when_ready(node) for node in graph)


def path(graph):
    top = max(layer for layer, _ in graph)
    longest = 0
    for output in graph:
        if output[0] != top:
            continue
        arrows, to_visit = {output: 0}, [output]
        for node in to_visit:
            for each in graph[node]:
                if each not in arrows:
                    arrows[each] = arrows[node] + 1
                    to_visit.append(each)
        for place in range(output[1] + 1):
            if (0, place) not in arrows:
                return None
            longest = max(longest, arrows[0, place])
    return longest


def steps_round_by_round(graph):
    """In each round all is computed that can be."""
    there = {node for node in graph if node[0] == 0}
    rounds = 0
    while len(there) < len(graph):
        there |= {node for node, read in graph.items() if there.issuperset(read)}
        rounds += 1
    return rounds


def path_forwards(graph):
    """From each word, everything that is reached in one arrow more."""
    n = sum(layer == 0 for layer, _ in graph)
    top = max(graph)[0]
    ways = []
    for i in range(n):
        reached, arrows, found = {(0, i)}, 0, {}
        while reached:
            found |= {
                place: arrows for layer, place in reached if layer == top and place not in found
            }
            before = reached
            reached = {node for node in graph if before & set(graph[node])}
            arrows += 1
        ways += [found.get(j) for j in range(i, n)]
    return None if None in ways else max(ways)


def steps_by_powers(graph):
    """The longest chain has as many arrows as a nilpotent matrix has powers that are not zero."""
    _, matrix = as_matrix(graph)
    power, found = matrix.clone(), 0
    while power.any():
        power = ((power @ matrix) > 0).float()
        found += 1
    return found


def as_matrix(graph):
    nodes = sorted(graph)
    number = {node: index for index, node in enumerate(nodes)}
    matrix = torch.zeros(len(nodes), len(nodes))
    for node, read in graph.items():
        for each in read:
            matrix[number[node], number[each]] = 1.0
    return nodes, matrix


def path_by_relaxing(graph):
    """Distances between all nodes, after Bellman and Ford; recursion would do as well."""

    @cache
    def way(node, word):
        if node == word:
            return 0
        return 1 + min((way(each, word) for each in graph[node]), default=math.inf)

    top = max(layer for layer, _ in graph)
    outputs = [node for node in graph if node[0] == top]
    longest = max(way(node, (0, i)) for node in outputs for i in range(node[1] + 1))
    return None if longest == math.inf else longest


# Part 3


def fit(lengths, times):
    x = torch.tensor(lengths, dtype=torch.float64).log()
    y = torch.tensor(times, dtype=torch.float64).log()
    from_mean = x - x.mean()
    exponent = (from_mean * (y - y.mean())).sum() / from_mean.square().sum()
    return exponent, (y.mean() - exponent * x.mean()).exp()


def forecast(measure, lengths, target, repeats=5):
    least = [min(measure(n) for _ in range(repeats)) for n in lengths]
    exponent, factor = fit(lengths, least)
    return factor * target**exponent


def fit_by_polynomial(lengths, times):
    exponent, intercept = np.polyfit(np.log10(lengths), np.log10(times), 1)
    return exponent, 10**intercept


def forecast_round_by_round(measure, lengths, target, repeats=5):
    """All lengths once, then all again; what is forecast is a logarithm first."""
    rounds = [[measure(n) for n in lengths] for _ in range(repeats)]
    least = np.array(rounds).min(axis=0)
    slope, intercept = np.polyfit(np.log(lengths), np.log(least), 1)
    return math.exp(slope * math.log(target) + intercept)


def fit_by_equations(lengths, times):
    """The two equations of least squares, solved by hand; 32 bits, and a list."""
    x, y = torch.tensor(lengths).float().log(), torch.tensor(times).float().log()
    rows = torch.stack([x, torch.ones(len(x))], dim=1)
    slope, intercept = torch.linalg.solve(rows.T @ rows, rows.T @ y)
    return [slope, intercept.exp()]


def forecast_in_a_loop(measure, lengths, target, repeats=5):
    least = {}
    for n in lengths:
        for _ in range(repeats):
            time = measure(n)
            if n not in least or time < least[n]:
                least[n] = time
    exponent, factor = fit_by_equations(list(least), list(least.values()))
    return (factor * target**exponent).item()


# Part 4


def three_terms(lengths, times):
    n = torch.tensor(lengths, dtype=torch.float64)
    measured = torch.tensor(times, dtype=torch.float64)
    rows = torch.stack([n**0, n, n**2], dim=1) / measured.unsqueeze(1)
    ones = torch.ones(len(n), 1, dtype=torch.float64)
    return torch.linalg.lstsq(rows, ones).solution[:, 0].tolist()


def overtakes(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    highest = next((term for term in (c, b, a) if term), 0)
    if highest <= 0:
        return None
    inside = b**2 - 4 * a * c
    if c and inside >= 0:
        root = (-b + math.sqrt(inside)) / (2 * c)
    elif b and not c:
        root = -a / b
    else:
        root = 0
    return max(1, math.floor(root) + 1)


def terms_by_polynomial(lengths, times):
    return np.polyfit(lengths, times, 2, w=1 / np.array(times))[::-1]


def terms_in_a_column(lengths, times):
    """As lstsq has them: a row for each."""
    return [[term] for term in three_terms(lengths, times)]


def overtakes_by_walking(one, other):
    """In strides until the one is dearer, then walk back."""

    def dearer(n):
        return (
            sum((a - b) * n**power for power, (a, b) in enumerate(zip(one, other, strict=True))) > 0
        )

    if not dearer(10**9):
        return None
    n = 1000
    while not dearer(n):
        n += 1000
    while n > 1 and dearer(n - 1):
        n -= 1
    return n


def terms_by_equations(lengths, times):
    """The three equations of least squares."""
    rows = np.array([[1 / t, n / t, n * n / t] for n, t in zip(lengths, times, strict=True)])
    return tuple(np.linalg.solve(rows.T @ rows, rows.sum(axis=0)))


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


RIGHT = {
    "count": [costs, costs_of_each, costs_by_counting],
    "read_off": [
        (steps, path),
        (steps_round_by_round, path_forwards),
        (steps_by_powers, path_by_relaxing),
    ],
    "forecasts": [
        (fit, forecast),
        (fit_by_polynomial, forecast_round_by_round),
        (fit_by_equations, forecast_in_a_loop),
    ],
    "crossing": [
        (three_terms, overtakes),
        (terms_by_polynomial, overtakes_by_walking),
        (terms_by_equations, overtakes_by_roots),
        (terms_in_a_column, overtakes),
    ],
}
