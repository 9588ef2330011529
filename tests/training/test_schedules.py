"""How the learning rate changes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.training.schedules import (
    SCHEDULES,
    constant,
    inverse_square_root,
    one_cycle,
    paper_learning_rate,
)


def test_one_cycle_by_hand():
    # 20 steps: up over the first 2 in thirds, then half a cosine down over 18.
    assert one_cycle(0, 20, 2) == pytest.approx(1 / 3)
    assert one_cycle(1, 20, 2) == pytest.approx(2 / 3)
    assert one_cycle(2, 20, 2) == 1
    assert one_cycle(11, 20, 2) == pytest.approx(1 / 2)  # halfway down
    assert one_cycle(20, 20, 2) == 0
    assert one_cycle(5, 5, 5) == 1  # no step is left for the way down


def one_cycle_of_a_tenth(step, steps):
    """The schedule of the runs that ship, written another way."""
    rising = steps / 10
    if step < rising:
        return (step + 1) / (rising + 1)
    return math.cos(math.pi / 2 * (step - rising) / (steps - rising)) ** 2


@pytest.mark.parametrize("steps", [10, 20, 300, 1000, 7000])
def test_a_warm_up_of_a_tenth_is_that_of_the_runs_that_ship(steps):
    for step in range(steps + 1):
        expected = one_cycle_of_a_tenth(step, steps)
        assert one_cycle(step, steps, steps // 10) == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 2000), st.data())
def test_one_cycle_rises_then_falls_and_never_leaves_zero_to_one(steps, data):
    warm_up_steps = data.draw(st.integers(0, steps - 1))
    rates = [one_cycle(step, steps, warm_up_steps) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    assert rates[warm_up_steps] == 1
    assert rates[: warm_up_steps + 1] == sorted(rates[: warm_up_steps + 1])
    assert rates[warm_up_steps:] == sorted(rates[warm_up_steps:], reverse=True)
    assert one_cycle(steps, steps, warm_up_steps) == pytest.approx(0)


def test_inverse_square_root_by_hand():
    # 4 steps up in quarters; 4 times as many steps later the rate is half, 9 times: a third.
    rates = [inverse_square_root(step, 40, 4) for step in range(36)]
    assert rates[:4] == [1 / 4, 2 / 4, 3 / 4, 1]
    assert rates[15] == pytest.approx(1 / 2)
    assert rates[35] == pytest.approx(1 / 3)


def equation_3(step_num, d_model, warmup_steps):
    """Vaswani et al. (2017), section 5.3, letter by letter."""
    return d_model**-0.5 * min(step_num**-0.5, step_num * warmup_steps**-1.5)


@pytest.mark.parametrize("warm_up_steps", [1, 3, 400, 4000])
@pytest.mark.parametrize("d_model", [13, 512, 1024])
def test_it_is_equation_3_of_the_paper(d_model, warm_up_steps):
    peak = paper_learning_rate(d_model, warm_up_steps)
    assert peak == pytest.approx(
        max(equation_3(n, d_model, warm_up_steps) for n in range(1, 9000)), rel=1e-12
    )
    for step in [*range(50), *range(50, 100_000, 997)]:
        share = inverse_square_root(step, 100_000, warm_up_steps)
        expected = equation_3(step + 1, d_model, warm_up_steps)
        assert share * peak == pytest.approx(expected, rel=1e-12)


def counted_from_0(step, steps, warm_up_steps):
    """A broken twin: the paper counts steps from 1."""
    number = max(step, 1e-9)
    return min(number / warm_up_steps, math.sqrt(warm_up_steps / number))


def test_a_step_counted_wrong_would_be_seen():
    expected = equation_3(3, 512, 4000) / paper_learning_rate(512, 4000)
    assert inverse_square_root(2, 9, 4000) == pytest.approx(expected)
    assert counted_from_0(2, 9, 4000) != pytest.approx(expected)


def test_the_papers_base_model_reaches_seven_ten_thousandths():
    assert paper_learning_rate(512, 4000) == pytest.approx(0.000698771, rel=1e-5)


@pytest.mark.parametrize(("sizes", "name"), [((0, 4000), "d_model"), ((512, 0), "warm_up_steps")])
def test_a_highest_rate_of_nothing_is_refused(sizes, name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        paper_learning_rate(*sizes)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_without_a_warm_up_the_first_step_is_the_highest(name):
    rates = [SCHEDULES[name](step, 20, 0) for step in range(21)]
    assert rates[0] == 1
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@pytest.mark.parametrize("warm_up_steps", [0, 1, 7, 20, 50])
def test_every_share_lies_between_0_and_1(name, warm_up_steps):
    rates = [SCHEDULES[name](step, 20, warm_up_steps) for step in range(20)]
    assert all(0 < rate <= 1 for rate in rates)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@pytest.mark.parametrize("step", [-1, 21])
def test_a_step_outside_is_refused(name, step):
    with pytest.raises(ValueError, match=f"step={step} must be from 0 to steps=20"):
        SCHEDULES[name](step, 20, 2)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_a_negative_warm_up_is_refused(name):
    with pytest.raises(ValueError, match="warm_up_steps=-1 must not be negative"):
        SCHEDULES[name](3, 20, -1)


def test_constant():
    assert {constant(step, 20, 7) for step in range(21)} == {1}


def test_by_name():
    assert {
        "constant": constant,
        "one_cycle": one_cycle,
        "inverse_square_root": inverse_square_root,
    } == SCHEDULES
