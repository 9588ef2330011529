"""The checks of 18_why_it_wins: formulas, graphs and PyTorch's own count agree."""

import pytest
import torch
from notebook_tools import ROOT
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks import recordings
from attentively.checks import why_it_wins as checks
from attentively.checks.why_it_wins import computation_graphs

N, D, K = 7, 12, 3
QUESTIONS = recordings.load_questions(ROOT / "solutions" / "18_why_it_wins" / "questions.py")
costs, steps, path = QUESTIONS.costs, QUESTIONS.steps, QUESTIONS.path


def rnn(x):
    layer = nn.RNNCell(D, D)
    state = torch.zeros(1, D)
    for t in range(N):
        state = layer(x[:, t], state)


def gru(x):
    nn.GRU(D, D, batch_first=True)(x)


def convolution(x):
    nn.Conv1d(D, D, K)(nn.functional.pad(x.mT, (K - 1, 0)))


def attention(x):
    MultiHeadAttention(D, 4)(x, x, x)


@pytest.mark.parametrize("layer", [rnn, gru, convolution, attention])
def test_the_count_of_multiplications_is_pytorchs_own(layer):
    with FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, N, D))
    additions_and_multiplications = counter.get_total_flops()
    assert costs(layer.__name__, N, D, K)[0] == additions_and_multiplications / 2


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 9, 25, 26])
def test_steps_and_paths_in_closed_form_are_those_of_the_graphs(n, k):
    def stack(layer, apart):
        deep = costs(layer, n, D, k)[2]
        assert path(checks.convolution(n, k, apart[:deep])) == deep
        assert n == 1 or deep == 1 or path(checks.convolution(n, k, apart[: deep - 1])) is None

    assert (steps(checks.recurrent(n)), path(checks.recurrent(n))) == costs("rnn", n, D, k)[1:]
    assert (steps(checks.attention(n)), path(checks.attention(n))) == costs("attention", n, D, k)[
        1:
    ]
    stack("convolution", [1] * n)
    stack("dilated", [k**layer for layer in range(n)])


def test_the_order_of_a_graph_means_nothing():
    graph = checks.with_a_hub(5, 2)
    stirred = computation_graphs.stirred(graph, seed=1)
    assert list(stirred) != list(graph)
    assert {node: sorted(read) for node, read in stirred.items()} == graph


def test_the_forecast_needs_the_least_of_many_runs(capsys):
    """A stopwatch is never asked for the target, and as often as was said."""
    seen = []

    def forecast_noting(measure, lengths, target, repeats=5):
        found = QUESTIONS.forecast(measure, lengths, target, repeats)
        seen.append((sorted(measure.asked), sorted([*lengths] * repeats)))
        return found

    checks.forecasts(QUESTIONS.fit, forecast_noting)
    assert len(seen) == 6  # five inputs, the first one twice
    assert all(asked == expected for asked, expected in seen)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((24.0, 0.0, 1.0), (0.0, 11.0, 0.0)),
        ((0.15, 0.011, 6.1e-5), (0.058, 0.0344, 1.1e-5)),
        ((5.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
    ],
)
def test_where_curves_cross_is_where_the_last_cheaper_length_ends(one, other):
    def dearer(n):
        return sum((a - b) * n**i for i, (a, b) in enumerate(zip(one, other, strict=True))) > 0

    last_not_dearer = max((n for n in range(1, 2000) if not dearer(n)), default=0)
    assert QUESTIONS.overtakes(one, other) == last_not_dearer + 1
