"""The checks of 07_queries_keys_and_values, beyond what its bank of answers proves."""

import itertools
import math

import pytest
import right_answers_07 as right
import torch
import wrong_answers_07 as wrong

from attentively.attention.kernels import KernelPooling
from attentively.checks import CheckFailed
from attentively.checks import queries_keys_and_values as checks


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_pools(capsys):
    checks.ready()
    assert "the package's pooling returns 15. Ready." in capsys.readouterr().out


def test_the_words_in_the_table_are_where_they_stand():
    words, kinds = checks.words_in_a_table()
    found = {kind: [w for w, there in zip(words, row, strict=True) if there] for kind, row in
             kinds.items()}  # fmt: skip
    assert found == {"noun": ["animal", "street"], "verb": ["did", "cross", "was"]}


# Part 3

PROBLEMS = [((24, 2), 2.0), ((20, 3, 0.2), 0.05), ((30, 1), 1.0), ((24, 7), 0.4), ((), 2.0)]


def losses(keys, values):
    return torch.stack([checks._left_out(keys, values, each) for each in checks._GRID])


@pytest.mark.parametrize("log_width", [-1.0, 0.3])
def test_the_loss_and_its_slope_are_those_of_the_definition(log_width):
    keys, values = (each.double() for each in checks.measurements(7))

    def by_loops(log_width):
        """Each key in turn, sums written out."""
        errors = []
        for i, j in itertools.product(range(7), repeat=2):
            if j == 0:
                top = bottom = 0.0
            if j != i:
                u = abs(keys[i] - keys[j]).item() / math.exp(log_width)
                top += math.exp(-u * u / 2) * values[j].item()
                bottom += math.exp(-u * u / 2)
            if j == 6:
                errors.append((top / bottom - values[i].item()) ** 2)
        return sum(errors) / 7

    width = torch.tensor(log_width, dtype=torch.float64, requires_grad=True)
    loss = checks._left_out(keys, values, width)
    assert loss.item() == pytest.approx(by_loops(log_width), rel=1e-9)
    (slope,) = torch.autograd.grad(loss, width)
    step = 1e-5
    measured = (by_loops(log_width + step) - by_loops(log_width - step)) / (2 * step)
    assert slope.item() == pytest.approx(measured, rel=1e-6)


@pytest.mark.parametrize(("which", "start"), PROBLEMS)
def test_the_loss_has_one_valley_away_from_the_start(which, start):
    row = losses(*checks.measurements(*which)).tolist()
    valleys = [
        math.exp(checks._GRID[j]) for j in range(1, len(row) - 1)
        if row[j] < min(row[j - 1], row[j + 1]) and row[j] < 0.98 * row[0]
    ]  # fmt: skip
    assert len(valleys) == 1
    assert not 0.8 < start / valleys[0] < 1.25


@pytest.mark.parametrize(("which", "start"), PROBLEMS)
def test_a_loss_that_sees_the_own_pair_falls_to_the_narrowest_width(which, start):
    keys, values = checks.measurements(*which)
    seen = [wrong.SEEN(keys, values, each).item() for each in checks._GRID[::20]]
    assert seen == sorted(seen)


def error_on_new_questions(width):
    """Through the package's pooling, as in the notebook."""
    keys, values = checks.measurements()
    fresh = torch.linspace(0, 5, 200).unsqueeze(1)
    with torch.no_grad():
        answers, _ = KernelPooling("gaussian", width)(fresh, keys, values)
    return (answers - (2 * fresh).sin() - fresh / 2).square().mean()


def test_the_learned_width_answers_new_questions_better_than_fixed_ones():
    learned = right.learn_width(*checks.measurements(), 2.0)
    for fixed in (0.02, 0.05, 0.1, 0.4, 0.8, 1.6):
        assert error_on_new_questions(learned) < error_on_new_questions(fixed)


# Part 4


def test_closeness_is_multiplied_and_added():
    two, three = torch.tensor([[2.0]]).log(), torch.tensor([[3.0]]).log()
    assert checks._both(two, three).exp().item() == pytest.approx(6)
    assert checks._either(two, three).exp().item() == pytest.approx(5)
    for first, second in checks._CONDITIONS:
        torch.testing.assert_close(checks._both(first, second), first + second)
        torch.testing.assert_close(checks._either(first, second), torch.logaddexp(first, second))


# Part 5


def test_no_prediction_that_is_known_as_wrong_is_right():
    scores, values, i, c = [math.log(2), math.log(5), math.log(3)], [5.0, 20.0, 30.0], 0, 3.0
    weights = checks._softmax(scores)
    expected = checks._run(scores, values, i, c)
    known = checks._known_answers(weights, values, i, c)
    assert [*known] == [*expected]
    for key, answers in known.items():
        assert expected[key] == pytest.approx(right.predict(weights, values, i, c)[key])
        for _, answer in answers:
            same = isinstance(answer, float) or len(answer) == len(expected[key])
            assert not same or answer != pytest.approx(expected[key], rel=1e-3)


# Part 6


def test_the_five_faults_are_named_one_after_the_other():
    faults = ["axis", "width", "late", "keys", "root"]
    words = [
        "over the queries",
        "not squared",
        "after the softmax",
        "instead of the values",
        "square root",
    ]
    for mended, said in enumerate(words):
        with pytest.raises(CheckFailed) as caught:
            checks.bug_hunt(wrong.pooling_with(*faults[mended:]))
        assert said in " ".join(str(caught.value).split())
    checks.bug_hunt(wrong.pooling_with())
