"""The checks of 07_queries_keys_and_values, beyond what its bank of answers proves."""

import itertools
import math

import pytest
import torch
from assignments import Assignment

from attentively.attention.kernels import KernelPooling
from attentively.checks import CheckFailed
from attentively.checks import queries_keys_and_values as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions

ASSIGNMENT = Assignment("07_queries_keys_and_values")
right = load_questions(ASSIGNMENT.questions)


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in ASSIGNMENT.wrong.values()) >= 10


def test_ready_pools(capsys):
    checks.ready()
    assert "the package's pooling returns 15. Ready." in capsys.readouterr().out


def test_the_words_in_the_table_are_where_they_stand():
    words, kinds = checks.words_in_a_table()
    found = {kind: [w for w, there in zip(words, row, strict=True) if there] for kind, row in
             kinds.items()}  # fmt: skip
    assert found == {"noun": ["animal", "street"], "verb": ["did", "cross", "was"]}


# Part 3

PROBLEMS = [
    *(tuple(case.inputs.values()) for case in right.width_cases(thorough=True)),
    (*checks.measurements(), 2.0),
]


def losses(keys, values):
    return torch.stack([right.leave_one_out(keys, values, each) for each in checks.GRID])


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
    loss = right.leave_one_out(keys, values, width)
    assert loss.item() == pytest.approx(by_loops(log_width), rel=1e-9)
    (slope,) = torch.autograd.grad(loss, width)
    step = 1e-5
    measured = (by_loops(log_width + step) - by_loops(log_width - step)) / (2 * step)
    assert slope.item() == pytest.approx(measured, rel=1e-6)


@pytest.mark.parametrize(("keys", "values", "start"), PROBLEMS)
def test_the_loss_has_one_valley_away_from_the_start(keys, values, start):
    row = losses(keys, values).tolist()
    valleys = [
        math.exp(checks.GRID[j]) for j in range(1, len(row) - 1)
        if row[j] < min(row[j - 1], row[j + 1]) and row[j] < 0.98 * row[0]
    ]  # fmt: skip
    assert len(valleys) == 1
    assert not 0.8 < start / valleys[0] < 1.25


@pytest.mark.parametrize(("keys", "values", "start"), PROBLEMS)
def test_a_loss_that_sees_the_own_pair_falls_to_the_narrowest_width(keys, values, start):
    sees_its_own = edited(right.leave_one_out, ".masked_fill(own, -math.inf) -> ")
    seen = [sees_its_own(keys, values, each).item() for each in checks.GRID[::40]]
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


def test_unnormalised_weights_are_multiplied_and_added():
    two, three = torch.tensor([[2.0]]).log(), torch.tensor([[3.0]]).log()
    assert right.both(two, three).exp().item() == pytest.approx(6)
    assert right.either(two, three).exp().item() == pytest.approx(5)


# Part 5


def test_predictions_are_those_of_changed_scores():
    scores, values, i, c = [math.log(2), math.log(5), math.log(3)], [5.0, 20.0, 30.0], 0, 3.0
    weights = right.softmax(scores)
    found = right.predict(weights, values, i, c)
    assert found["twice"] == pytest.approx(right.softmax([*scores, scores[i]]))
    assert found["without"] == pytest.approx(right.softmax(scores[1:]))
    assert found["raised"] == pytest.approx(right.softmax(right.moved(scores, i, c)))
    assert found["all_raised"] == pytest.approx(right.softmax([each + c for each in scores]))
    assert found["doubled"] == pytest.approx(right.softmax([2 * each for each in scores]))
    for key, changed in (
        ("value_raised", right.moved(values, i, c)),
        ("values_raised", [value + c for value in values]),
        ("values_scaled", [value * c for value in values]),
    ):
        assert found[key] == pytest.approx(sum(map(math.prod, zip(weights, changed, strict=True))))


# Part 6


FAULTS = {
    "over the queries": "softmax(dim=2) -> softmax(dim=1)",
    "not squared": "widths.unsqueeze(1) ** 2 -> widths.unsqueeze(1)",
    "after the softmax": ("scores.masked_fill(~allowed, torch.finfo(scores.dtype).min) -> scores"),
    "instead of the values": "weights @ values -> weights @ keys",
    "square root": "sum(dim=-1) -> sum(dim=-1).sqrt().square()",
}


def test_the_five_faults_are_named_one_after_the_other():
    edits = list(FAULTS.values())
    for corrected, said in enumerate(FAULTS):
        with pytest.raises(CheckFailed) as caught:
            checks.bug_hunt(edited(right.corrected_pooling, tuple(edits[corrected:])))
        assert said in " ".join(str(caught.value).split())
    checks.bug_hunt(right.corrected_pooling)
