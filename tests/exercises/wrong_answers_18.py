"""Plausible wrong answers to 18_why_it_wins, with words of the message of each."""

import math

import numpy as np
import torch
from right_answers_18 import (
    costs,
    fit,
    forecast,
    overtakes,
    path,
    steps,
    three_terms,
)

# Part 1


def costs_but(layers, **changes):
    """Return right costs, but for some numbers of some layers."""

    def answer(layer, n, d, k):
        right = dict(zip(("work", "steps", "path"), costs(layer, n, d, k), strict=True))
        if layer in layers.split():
            right |= {name: change(n, d, k) for name, change in changes.items()}
        return tuple(right.values())

    return answer


rnn_of_one_matrix = costs_but("rnn", work=lambda n, d, k: n * d * d)
gru_of_three_matrices = costs_but("gru", work=lambda n, d, k: 3 * n * d * d)
gru_as_rnn = costs_but("gru", work=lambda n, d, k: 2 * n * d * d)
gru_as_lstm = costs_but("gru", work=lambda n, d, k: 8 * n * d * d)
convolution_of_numbers = costs_but("convolution", work=lambda n, d, k: k * n * d)
convolution_without_zeros = costs_but(
    "convolution dilated", work=lambda n, d, k: sum(min(t, k) for t in range(1, n + 1)) * d * d
)
attention_as_in_the_paper = costs_but("attention", work=lambda n, d, k: n * n * d)
attention_without_matrices = costs_but("attention", work=lambda n, d, k: 2 * n * n * d)
attention_of_three_matrices = costs_but(
    "attention", work=lambda n, d, k: 3 * n * d * d + 2 * n * n * d
)
attention_of_scores_alone = costs_but("attention", work=lambda n, d, k: 4 * n * d * d + n * n * d)
attention_of_paper_sum = costs_but("attention", work=lambda n, d, k: n * d * d + n * n * d)
attention_projecting_once = costs_but("attention", work=lambda n, d, k: 4 * d * d + 2 * n * n * d)
all_at_once = costs_but("rnn gru", steps=lambda n, d, k: 1)
from_the_second = costs_but("rnn gru", steps=lambda n, d, k: n - 1)
gates_in_a_row = costs_but("gru", steps=lambda n, d, k: 3 * n)
one_window_after_another = costs_but("convolution dilated", steps=lambda n, d, k: n)
tap_by_tap = costs_but("convolution", steps=lambda n, d, k: k)
steps_of_the_stack = costs_but("dilated", steps=lambda n, d, k: costs("dilated", n, d, k)[2])
softmax_as_a_step = costs_but("attention", steps=lambda n, d, k: 2)
path_of_one = costs_but("rnn gru", path=lambda n, d, k: 1)
path_between_states = costs_but("rnn gru", path=lambda n, d, k: n - 1)
path_of_one_window = costs_but("convolution dilated", path=lambda n, d, k: 1)
path_by_k = costs_but("convolution", path=lambda n, d, k: math.ceil(n / k))
path_of_n = costs_but("convolution", path=lambda n, d, k: math.ceil(n / (k - 1)))
path_rounded_down = costs_but("convolution", path=lambda n, d, k: max(1, (n - 1) // (k - 1)))
path_of_none = costs_but("convolution", path=lambda n, d, k: math.ceil((n - 1) / (k - 1)))
path_both_sides = costs_but(
    "convolution", path=lambda n, d, k: max(1, math.ceil((n - 1) / (k // 2)))
)
path_of_a_logarithm = costs_but("dilated", path=lambda n, d, k: max(1, math.ceil(math.log(n, k))))
path_one_more = costs_but("dilated", path=lambda n, d, k: int(math.log(n, k) + 1e-9) + 1)
path_not_rounded = costs_but("dilated", path=lambda n, d, k: math.log(n) / math.log(k))
path_undilated = costs_but("dilated", path=lambda n, d, k: costs("convolution", n, d, k)[2])
path_of_attention = costs_but("attention", path=lambda n, d, k: n)


rnn_without_the_zero_state = costs_but("rnn", work=lambda n, d, k: (2 * n - 1) * d * d)
gru_with_gates = costs_but("gru", work=lambda n, d, k: 6 * n * d * d + 3 * n * d)
attention_with_scaling = costs_but(
    "attention", work=lambda n, d, k: 4 * n * d * d + 2 * n * n * d + n * n
)
attention_with_a_mask = costs_but("attention", work=lambda n, d, k: 4 * n * d * d + n * (n + 1) * d)
rnn_of_two_steps = costs_but("rnn", steps=lambda n, d, k: 2 * n)
path_of_no_layer = costs_but("attention", path=lambda n, d, k: 0)


def costs_in_another_order(layer, n, d, k):
    work, in_a_row, way = costs(layer, n, d, k)
    return work, way, in_a_row


def costs_in_floats_per_word(layer, n, d, k):
    work, in_a_row, way = costs(layer, n, d, k)
    return work // n, in_a_row, way


def costs_with_additions(layer, n, d, k):
    work, in_a_row, way = costs(layer, n, d, k)
    return 2 * work, in_a_row, way


def costs_of_the_stack(layer, n, d, k):
    work, in_a_row, way = costs(layer, n, d, k)
    return work * way, in_a_row, way


def costs_without_path(layer, n, d, k):
    return costs(layer, n, d, k)[:2]


def costs_as_text(layer, n, d, k):
    return "O(n d²)", *costs(layer, n, d, k)[1:]


COUNTED = [
    (rnn_of_one_matrix, "An RNN has two products at each position"),
    (gru_of_three_matrices, "A GRU has three pairs of matrices: reset gate"),
    (gru_as_rnn, "A GRU has three pairs of matrices: reset gate"),
    (gru_as_lstm, "A GRU has three pairs of matrices: reset gate"),
    (convolution_of_numbers, "A convolution has one d × d matrix for each"),
    (convolution_without_zeros, "Products with the zeros before the first position count too"),
    (attention_as_in_the_paper, "queries, keys, values, output) are not counted"),
    (attention_without_matrices, "queries, keys, values, output) are not counted"),
    (attention_of_three_matrices, "Attention has four matrices"),
    (attention_of_scores_alone, "needs 2d multiplications"),
    (attention_of_paper_sum, "The O notation hides constant factors"),
    (attention_projecting_once, "are applied at each of the n positions"),
    (all_at_once, "Each state depends on the previous one"),
    (from_the_second, "The first position is a step too"),
    (gates_in_a_row, "All the work at one position, such as the gates"),
    (one_window_after_another, "No position of this layer depends on another output"),
    (tap_by_tap, "The k products do not depend on each other"),
    (steps_of_the_stack, "Return the steps of one layer"),
    (softmax_as_a_step, "weighted sum together count as one step"),
    (path_of_one, "leads through every state"),
    (path_between_states, "one from the first input to its state"),
    (path_of_one_window, "the number of layers that reach the first input"),
    (path_by_k, "Each layer reaches k − 1 positions further back, not k"),
    (path_of_n, "The first position is n − 1 positions before the last"),
    (path_rounded_down, "The number of layers must be rounded up"),
    (path_of_none, "The path has at least one layer"),
    (path_both_sides, "not k // 2 on each side"),
    (path_of_a_logarithm, "log 125 / log 5 is 3.0000000000000004"),
    (path_one_more, "one too large where n is a power of k"),
    (path_not_rounded, "The number of layers must be rounded up"),
    (path_undilated, "k times as far apart as in the layer below"),
    (path_of_attention, "Every output of attention reads every input directly"),
    (rnn_without_the_zero_state, "Products with the zeros before the first position count too"),
    (gru_with_gates, "Biases, gates, softmax and the division by √d do not count"),
    (attention_with_scaling, "Biases, gates, softmax and the division by √d do not count"),
    (attention_with_a_mask, "This attention has no mask"),
    (rnn_of_two_steps, "All the work at one position, such as the gates"),
    (path_of_no_layer, "Every output of attention reads every input directly"),
    (costs_in_another_order, "Steps and path are swapped"),
    (costs_in_floats_per_word, "This value is for one position"),
    (costs_with_additions, "This value includes additions"),
    (costs_of_the_stack, "Return the multiplications of one layer"),
    (costs_without_path, "Expected three numbers"),
    (costs_as_text, "Expected multiplications of 'rnn' as an int, got a str"),
]

# Part 2


def steps_of_layers(graph):
    return max(layer for layer, _ in graph)


def steps_of_nodes(graph):
    return sum(layer > 0 for layer, _ in graph)


def steps_of_words_too(graph):
    return steps(graph) + 1


def steps_to_the_first_there(graph):
    ready = {}

    def when(node):
        if node not in ready:
            ready[node] = min((when(each) + 1 for each in graph[node]), default=0)
        return ready[node]

    return max(map(when, graph))


def steps_of_the_last_output(graph):
    def when(node):
        return max((when(each) + 1 for each in graph[node]), default=0)

    return when(max(graph))


def steps_in_the_order_given(graph):
    ready = {}
    for node, read in graph.items():
        ready[node] = max((ready.get(each, 0) + 1 for each in read), default=0)
    return max(ready.values())


def steps_that_trust_the_order(graph):
    ready = {}
    for node, read in graph.items():
        ready[node] = max((ready[each] + 1 for each in read), default=0)
    return max(ready.values())


def steps_in_the_order_of_names(graph):
    """Sorted by layer and place: a layer that reads backwards has another order."""
    ready = {}
    for node in sorted(graph):
        ready[node] = max((ready.get(each, 0) + 1 for each in graph[node]), default=0)
    return max(ready.values())


def steps_in_sweeps(graph):
    """What is computed is there at once, for the next node of the same sweep."""
    there, sweeps = {node for node in graph if node[0] == 0}, 0
    while len(there) < len(graph):
        for node, read in graph.items():
            if all(each in there for each in read):
                there.add(node)
        sweeps += 1
    return sweeps


def steps_layer_by_layer(graph):
    def chain(node):
        return 1 + max((chain(each) for each in graph[node] if each[0] == node[0]), default=0)

    return sum(
        max(chain(node) for node in graph if node[0] == layer)
        for layer in range(1, steps_of_layers(graph) + 1)
    )


def steps_that_mend_the_graph(graph):
    for node, read in graph.items():
        if not read:
            graph[node] = None
    return 0


def ways(graph, i, longest=False):
    """Return the arrows from the word i to each node that it reaches."""
    found = {}

    def way(node):
        if node == (0, i):
            return 0
        if node not in found:
            each = [w + 1 for w in map(way, graph[node]) if w is not None]
            found[node] = (max if longest else min)(each) if each else None
        return found[node]

    top = max(layer for layer, _ in graph)
    return {place: way((layer, place)) for layer, place in graph if layer == top}


def path_with(pairs=lambda i, j, n: i <= j, choose=max, longest=False, none=None, more=0):
    """A way of reading the path off, with one thing changed."""

    def answer(graph):
        n = sum(layer == 0 for layer, _ in graph)
        found = [
            way for i in range(n) for j, way in ways(graph, i, longest).items() if pairs(i, j, n)
        ]
        if None in found:
            if none != "left out":
                return none
            found = [way for way in found if way is not None]
        return choose(found) + more

    return answer


path_the_long_way = path_with(longest=True)
path_of_the_nearest = path_with(choose=min)
path_of_those_connected = path_with(none="left out")
path_infinite = path_with(none=math.inf)
path_of_minus_one = path_with(none=-1)
path_from_first_to_last = path_with(lambda i, j, n: i == 0 and j == n - 1)
path_from_the_first = path_with(lambda i, j, n: i == 0)
path_to_the_last = path_with(lambda i, j, n: j == n - 1)
path_of_all_pairs = path_with(lambda i, j, n: True)
path_of_all_connected = path_with(lambda i, j, n: True, none="left out")
path_of_nodes = path_with(more=1)
path_of_arrows_less_one = path_with(more=-1)


def path_where_any_word_counts(graph):
    """No way from i ≤ j gives None, but ways back from later words are measured too."""
    return path(graph) and path_of_all_connected(graph)


def path_depth_first(graph):
    """The way that is found first need not be the shortest."""
    top = max(layer for layer, _ in graph)
    longest = 0
    for output in graph:
        if output[0] != top:
            continue
        arrows, to_visit = {output: 0}, [output]
        while to_visit:
            node = to_visit.pop()
            for each in graph[node]:
                if each not in arrows:
                    arrows[each] = arrows[node] + 1
                    to_visit.append(each)
        for place in range(output[1] + 1):
            if (0, place) not in arrows:
                return None
            longest = max(longest, arrows[0, place])
    return longest


def path_of_all_layers(graph):
    """Every node above the words is taken for an output."""
    layers = range(1, max(graph)[0] + 1)
    lower = [{node: graph[node] for node in graph if node[0] <= layer} for layer in layers]
    found = [path(each) for each in lower]
    return None if None in found else max(found)


def path_of_layers(graph):
    return max(layer for layer, _ in graph)


def path_without_words(graph):
    """Pairs with i < j: a sentence of one word has none."""
    n = sum(layer == 0 for layer, _ in graph)
    found = [way for i in range(n) for j, way in ways(graph, i).items() if i < j]
    return None if None in found or not found else max(found)


GRAPHS = [
    ((steps_of_layers, path), "steps: The number of levels is not the number of steps"),
    ((steps_of_nodes, path), "steps: The nodes are counted one by one"),
    ((steps_of_words_too, path), "The inputs are available from the beginning"),
    ((steps_to_the_first_there, path), "A node must wait for the last of the nodes that it reads"),
    ((steps_of_the_last_output, path), "Another node may be the last that is computed"),
    ((steps_in_the_order_given, path), "The order of the nodes in the dict has no meaning"),
    ((steps_that_trust_the_order, path), "Your code raises KeyError"),
    ((steps_in_the_order_of_names, path), "The order of the nodes in the dict has no meaning"),
    ((steps_that_mend_the_graph, path), "Your code changes its input graph"),
    ((steps_in_sweeps, path), "is available in the next step, not within the same one"),
    ((steps_layer_by_layer, path), "A node waits only for the nodes that it reads"),
    ((path, steps), "steps: Steps and path length are swapped"),
    ((steps, steps), "path: "),
    ((steps, path_the_long_way), "path: This value uses the longest path of a pair"),
    ((steps, path_of_the_nearest), "path: This value is the smallest path length of all pairs"),
    ((steps, path_of_those_connected), "Pairs that are not connected are left out"),
    ((steps, path_infinite), "If a pair is not connected, return None, not infinity"),
    ((steps, path_of_minus_one), "If a pair is not connected, return None, not infinity"),
    ((steps, path_from_first_to_last), "Only the path from the first input to the last output"),
    ((steps, path_from_the_first), "Only paths from the first input are considered"),
    ((steps, path_to_the_last), "Only paths to the last output are considered"),
    ((steps, path_of_all_pairs), "Pairs with i > j are included"),
    ((steps, path_of_all_connected), "Pairs with i > j are included"),
    ((steps, path_where_any_word_counts), "Pairs with i > j are included"),
    (
        (steps, path_depth_first),
        "expected value of path in the graph of a recurrent layer that also",
    ),
    ((steps, path_of_all_layers), "expected value of path in the graph of two convolutions"),
    ((steps, path_of_nodes), "Count the arrows on the path, not its nodes"),
    ((steps, path_of_arrows_less_one), "Count the arrows on the path, not its nodes"),
    ((steps, path_of_layers), "The number of levels is not the path length"),
    ((steps, path_without_words), "i ≤ j, not i < j"),
]

# Part 3


def line(x, y):
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(intercept)


def fit_turned(lengths, times):
    exponent, factor = fit(lengths, times)
    return factor, exponent


def fit_straight(lengths, times):
    return line(lengths, times)


def fit_of_half_the_logarithms(lengths, times):
    slope, intercept = line(lengths, np.log(times))
    return slope, math.exp(intercept)


def fit_by_two_points(lengths, times):
    exponent = math.log(times[-1] / times[0]) / math.log(lengths[-1] / lengths[0])
    return exponent, times[0] / lengths[0] ** exponent


def fit_of_mean_slopes(lengths, times):
    x, y = np.log(lengths), np.log(times)
    exponent = float(np.mean(np.diff(y) / np.diff(x)))
    return exponent, math.exp(float(y.mean() - exponent * x.mean()))


def fit_through_zero(lengths, times):
    x, y = np.log(lengths), np.log(times)
    return float(x @ y / (x @ x)), 1.0


def fit_the_other_way(lengths, times):
    slope, intercept = line(np.log(times), np.log(lengths))
    return slope, math.exp(intercept)


def fit_solved_the_other_way(lengths, times):
    slope, intercept = line(np.log(times), np.log(lengths))
    return 1 / slope, math.exp(-intercept / slope)


def fit_of_two_variances(lengths, times):
    """torch.var divides by one less than there are, a mean does not."""
    x, y = torch.tensor(lengths).log(), torch.tensor(times).log()
    exponent = ((x - x.mean()) * (y - y.mean())).mean() / x.var()
    return exponent, (y.mean() - exponent * x.mean()).exp()


def fit_of_a_logarithm(lengths, times):
    return line(np.log(lengths), np.log(times))


def fit_in_two_bases(lengths, times):
    slope, intercept = line(np.log10(lengths), np.log10(times))
    return slope, math.exp(intercept)


def fit_undone_by_ten(lengths, times):
    slope, intercept = line(np.log(lengths), np.log(times))
    return slope, 10**intercept


def fit_through_the_first(lengths, times):
    exponent, _ = fit(lengths, times)
    return exponent, times[0] / lengths[0] ** exponent


def fit_alone(lengths, times):
    return fit(lengths, times)[0]


def measured(measure, lengths, repeats):
    return [[measure(n) for _ in range(repeats)] for n in lengths]


def forecast_from(choose):
    """A forecast from another choice among the repeats."""

    def answer(measure, lengths, target, repeats=5):
        exponent, factor = fit(
            lengths, [choose(each) for each in measured(measure, lengths, repeats)]
        )
        return factor * target**exponent

    return answer


forecast_of_means = forecast_from(lambda each: sum(each) / len(each))
forecast_of_medians = forecast_from(lambda each: sorted(each)[len(each) // 2])
forecast_of_slowest = forecast_from(max)
forecast_of_first = forecast_from(lambda each: each[0])
forecast_without_the_first = forecast_from(lambda each: min(each[1:] or each))
forecast_of_sums = forecast_from(sum)


def forecast_through_all_runs(measure, lengths, target, repeats=5):
    times = [time for each in measured(measure, lengths, repeats) for time in each]
    exponent, factor = fit([n for n in lengths for _ in range(repeats)], times)
    return factor * target**exponent


def forecast_of_the_best_round(measure, lengths, target, repeats=5):
    return min(forecast(measure, lengths, target, 1) for _ in range(repeats))


def forecast_warmed_up(measure, lengths, target, repeats=5):
    for n in lengths:
        measure(n)
    return forecast(measure, lengths, target, repeats)


def forecast_measuring_once(measure, lengths, target, repeats=5):
    exponent, factor = fit(lengths, [measure(n) for n in lengths])
    return factor * target**exponent


def forecast_of_five(measure, lengths, target, repeats=5):
    return forecast(measure, lengths, target)


def forecast_that_looks(measure, lengths, target, repeats=5):
    return min(measure(target) for _ in range(repeats))


def forecast_with_the_target(measure, lengths, target, repeats=5):
    return forecast(measure, [*lengths, target], target, repeats)


def forecast_from_the_last(measure, lengths, target, repeats=5):
    least = [min(each) for each in measured(measure, lengths, repeats)]
    exponent, _ = fit(lengths, least)
    return least[-1] * (target / lengths[-1]) ** exponent


def forecast_without_factor(measure, lengths, target, repeats=5):
    least = [min(each) for each in measured(measure, lengths, repeats)]
    return target ** fit(lengths, least)[0]


def forecast_swapped(measure, lengths, target, repeats=5):
    factor, exponent = fit(lengths, [min(each) for each in measured(measure, lengths, repeats)])
    return factor * target**exponent


def forecast_straight_on(measure, lengths, target, repeats=5):
    least = [min(each) for each in measured(measure, lengths, repeats)]
    slope, intercept = line(lengths, least)
    return slope * target + intercept


def forecast_from_memory(measure, lengths, target, repeats=5):
    return 3.0 * target


FITTED = [
    ((fit_turned, forecast), "fit: exponent and factor are swapped"),
    ((fit_straight, forecast), "fit: no logarithms are taken"),
    ((fit_of_half_the_logarithms, forecast), "the logarithm is taken of lengths or times only"),
    ((fit_by_two_points, forecast), "through the first and the last point only"),
    ((fit_of_mean_slopes, forecast), "this is the mean of the slopes between neighbouring points"),
    ((fit_through_zero, forecast), "the line leads through the origin"),
    ((fit_the_other_way, forecast), "lengths and times are swapped"),
    ((fit_solved_the_other_way, forecast), "lengths and times are swapped"),
    ((fit_of_two_variances, forecast), "one of the two sums is divided by the number of points"),
    ((fit_of_a_logarithm, forecast), "this is the logarithm of the factor"),
    ((fit_in_two_bases, forecast), "the logarithm and its inverse have different bases"),
    ((fit_undone_by_ten, forecast), "the logarithm and its inverse have different bases"),
    (
        (fit_through_the_first, forecast),
        "this curve leads exactly through the first or the last point",
    ),
    ((fit_alone, forecast), "Expected a pair, `return exponent, factor`"),
    ((fit, forecast_of_means), "forecast: the mean of the repeats is used"),
    ((fit, forecast_of_medians), "forecast: the median of the repeats is used"),
    ((fit, forecast_of_slowest), "forecast: the longest of the repeats is used"),
    ((fit, forecast_of_first), "only the first run at each length is used"),
    ((fit, forecast_measuring_once), "only the first run at each length is used"),
    ((fit, forecast_without_the_first), "the first run at each length is left out"),
    ((fit, forecast_through_all_runs), "or the line is fitted to all of them"),
    ((fit, forecast_of_the_best_round), "each round of repeats gets its own fit"),
    ((fit, forecast_of_sums), "the shortest times of the first 3 runs are 1, 2, 4"),
    ((fit, forecast_warmed_up), "`measure` ran 6 times at a length"),
    ((fit, forecast_of_five), "`repeats` is ignored"),
    ((fit, forecast_that_looks), "was called with the target length"),
    ((fit, forecast_with_the_target), "was called with the target length"),
    ((fit, forecast_from_the_last), "this curve leads exactly through the last measurement"),
    ((fit, forecast_without_factor), "the factor is missing"),
    ((fit, forecast_straight_on), "this extrapolates a straight line"),
    ((fit, forecast_swapped), "exponent and factor are swapped after the call"),
    ((fit, forecast_from_memory), "`measure` was never called"),
]

# Part 4


def terms_with(weigh=lambda time: 1 / time, powers=(0, 1, 2), turned=False):
    """A fit with other weights, or without some of the terms."""

    def answer(lengths, times):
        weights = np.array([weigh(time) for time in times])
        rows = np.array([[n**power for power in powers] for n in lengths]) * weights[:, None]
        found = np.linalg.lstsq(rows, np.array(times) * weights, rcond=None)[0].tolist()
        found = [found[powers.index(power)] if power in powers else 0.0 for power in (0, 1, 2)]
        return found[::-1] if turned else found

    return answer


terms_turned = terms_with(turned=True)
terms_of_plain_errors = terms_with(lambda time: 1.0)
terms_of_a_polynomial = terms_with(lambda time: 1.0, turned=True)
terms_weighed_once = terms_with(lambda time: time**-0.5)
terms_weighed_twice = terms_with(lambda time: time**-2)
terms_multiplied = terms_with(lambda time: time)
terms_without_a_call = terms_with(powers=(0 + 1, 2))
terms_without_words = terms_with(powers=(0, 2))
terms_without_pairs = terms_with(powers=(0, 1))


def terms_not_negative(lengths, times):
    return [max(0.0, each) for each in three_terms(lengths, times)]


def terms_in_32_bits(lengths, times):
    n, measured = torch.tensor(lengths), torch.tensor(times)
    rows = torch.stack([n**0, n, n**2], dim=1) / measured.unsqueeze(1)
    return torch.linalg.solve(rows.T @ rows, rows.sum(dim=0)).tolist()


def terms_of_two(lengths, times):
    return three_terms(lengths, times)[:2]


def terms_by_three_points(lengths, times):
    rows = torch.tensor([[1.0, n, n * n] for n in lengths[:3]], dtype=torch.float64)
    return torch.linalg.solve(rows, torch.tensor(times[:3], dtype=torch.float64)).tolist()


def price(cost, n):
    return cost[0] + cost[1] * n + cost[2] * n * n


def overtakes_first(one, other):
    return next((n for n in range(1, 5000) if price(one, n) > price(other, n)), None)


def overtakes_with_equals(one, other):
    if one[2] == 1 and other[1] == 3e5:  # too far to walk
        return 300_000
    return next(
        (
            n
            for n in range(1, 3000)
            if all(price(one, m) >= price(other, m) for m in (*range(n, 3000), 10**9))
        ),
        None,
    )


def overtakes_where_they_meet(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    if c == 0:
        return -a / b if b > 0 else overtakes(one, other)
    if b * b < 4 * a * c:
        return overtakes(one, other)
    return (-b + math.sqrt(b * b - 4 * a * c)) / (2 * c) if c > 0 else None


def overtakes_rounded_up(one, other):
    root = overtakes_where_they_meet(one, other)
    return None if root is None else max(1, math.ceil(root))


def overtakes_the_other_way(one, other):
    return overtakes(other, one)


def overtakes_one_late(one, other):
    found = overtakes(one, other)
    return None if found is None else found + 1


def overtakes_at_the_smaller_root(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    if c <= 0:
        return overtakes(one, other)
    return math.floor((-b - math.sqrt(max(0, b * b - 4 * a * c))) / (2 * c)) + 1


def overtakes_without_fixed(one, other):
    return overtakes((0, *one[1:]), (0, *other[1:]))


def overtakes_zero_for_never(one, other):
    return overtakes(one, other) or 0


def overtakes_infinite_for_never(one, other):
    return overtakes(one, other) or math.inf


def overtakes_unless_there_is_no_root(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    if b * b - 4 * a * c < 0:
        return None
    return overtakes(one, other)


def overtakes_up_to_a_thousand(one, other):
    if price(one, 1000) <= price(other, 1000):
        return None
    return next(n for n in range(1000, 0, -1) if n == 1 or price(one, n - 1) <= price(other, n - 1))


def overtakes_always_without_a_root(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    return 1 if c and b * b < 4 * a * c else overtakes(one, other)


def overtakes_below_one(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    if c <= 0 or b * b < 4 * a * c:
        return overtakes(one, other)
    return math.floor((-b + math.sqrt(b * b - 4 * a * c)) / (2 * c)) + 1


def overtakes_where_they_cross(one, other):
    """It passes over the place where the curves touch."""
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    return 1 if c > 0 and b * b <= 4 * a * c else overtakes(one, other)


def overtakes_below_one_by_lines(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    return math.floor(-a / b) + 1 if c == 0 and b > 0 else overtakes(one, other)


def overtakes_by_parabolas_alone(one, other):
    return overtakes(one, other) if one[2] > other[2] else None


def overtakes_by_a_formula_alone(one, other):
    a, b, c = (first - second for first, second in zip(one, other, strict=True))
    return math.floor((-b + math.sqrt(b * b - 4 * a * c)) / (2 * c)) + 1


CROSSED = [
    ((terms_turned, overtakes), "three_terms: the terms have another order"),
    ((terms_of_plain_errors, overtakes), "so the longest sequence dominates"),
    ((terms_of_a_polynomial, overtakes), "three_terms: the terms have another order"),
    ((terms_weighed_once, overtakes), "or after they were squared"),
    ((terms_weighed_twice, overtakes), "the errors are divided by the times twice"),
    ((terms_multiplied, overtakes), "the errors are multiplied by the times"),
    ((terms_without_a_call, overtakes), "the fixed term is missing"),
    ((terms_without_words, overtakes), "the term per_word is missing"),
    ((terms_without_pairs, overtakes), "the term per_pair is missing"),
    ((terms_not_negative, overtakes), "negative terms are replaced"),
    ((terms_in_32_bits, overtakes), "32 bits were not precise enough"),
    ((terms_of_two, overtakes), "This is not the expected value of what three_terms returns"),
    (
        (terms_by_three_points, overtakes),
        "This is not the expected value of what three_terms returns",
    ),
    ((three_terms, overtakes_first), "overtakes: this is the first length at which"),
    ((three_terms, overtakes_with_equals), "at this length both cost the same"),
    ((three_terms, overtakes_where_they_meet), "this is the point where the curves meet"),
    ((three_terms, overtakes_rounded_up), "at this length both cost the same"),
    ((three_terms, overtakes_the_other_way), "overtakes: the two costs are swapped"),
    ((three_terms, overtakes_one_late), "this is one too large"),
    ((three_terms, overtakes_at_the_smaller_root), "the smaller of two roots"),
    ((three_terms, overtakes_without_fixed), "the fixed terms are ignored"),
    ((three_terms, overtakes_zero_for_never), "if `one` never stays more expensive, return None"),
    (
        (three_terms, overtakes_infinite_for_never),
        "if `one` never stays more expensive, return None",
    ),
    (
        (three_terms, overtakes_unless_there_is_no_root),
        "if `one` is more expensive at every length",
    ),
    ((three_terms, overtakes_up_to_a_thousand), "may lie beyond any fixed limit"),
    (
        (three_terms, overtakes_always_without_a_root),
        "They cost 998001 and 1996007 at length 999",
    ),
    ((three_terms, overtakes_below_one), "They cost 12 and 0 at length 1"),
    ((three_terms, overtakes_where_they_cross), "at this length both cost the same"),
    ((three_terms, overtakes_below_one_by_lines), "is more expensive at every length, return 1"),
    ((three_terms, overtakes_by_parabolas_alone), "None wherever the quadratic terms are equal"),
    ((three_terms, overtakes_by_a_formula_alone), "Your code raises ZeroDivisionError"),
]

WRONG = {
    "count": COUNTED,
    "read_off": GRAPHS,
    "forecasts": FITTED,
    "crossing": CROSSED,
}

LONGEST_WAYS = """def steps(graph):
    return max(layer for layer, _ in graph)


def path(graph):
    return 1
"""

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
    "layers": ({"graph": LONGEST_WAYS}, ["graph-check"], "is not the number of steps"),
}
