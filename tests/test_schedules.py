"""How the learning rate changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.schedules import SCHEDULES, constant, one_cycle


def test_by_hand():
    # 20 steps: up over the first 2 in thirds, then half a cosine down over 18.
    assert one_cycle(0, 20) == pytest.approx(1 / 3)
    assert one_cycle(1, 20) == pytest.approx(2 / 3)
    assert one_cycle(2, 20) == 1
    assert one_cycle(11, 20) == pytest.approx(1 / 2)  # halfway down
    assert one_cycle(20, 20) == 0


@given(st.integers(1, 2000))
def test_it_rises_then_falls_and_never_leaves_zero_to_one(steps):
    rates = [one_cycle(step, steps) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert top <= steps * 0.1 + 1


@given(st.integers(50, 2000), st.floats(0.05, 0.5))
def test_the_warm_up_is_where_asked(steps, warm_up):
    rates = [one_cycle(step, steps, warm_up) for step in range(steps)]
    assert rates.index(max(rates)) == pytest.approx(warm_up * steps, abs=1)
    assert max(rates) > 0.95
    assert rates[-1] < 0.05


@pytest.mark.parametrize("step", [-1, 21])
def test_a_step_outside_is_refused(step):
    with pytest.raises(ValueError, match=f"step={step} is not within the 20 steps"):
        one_cycle(step, 20)


def test_constant():
    assert {constant(step, 20) for step in range(21)} == {1}


def test_by_name():
    assert {"constant": constant, "one_cycle": one_cycle} == SCHEDULES
