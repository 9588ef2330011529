"""The experiment on the recipe: one thing changes at a time, and the numbers agree."""

import pytest

from attentively.experiments import recipe
from attentively.training.schedules import SCHEDULES
from attentively.training.training_config import TrainingConfig


@pytest.mark.parametrize("change", recipe.CHANGES)
def test_every_change_is_one_of_settings_and_of_few(change):
    changed = TrainingConfig(steps=10, **{**recipe.BASE, **recipe.CHANGES[change]})
    base = TrainingConfig(steps=10, **recipe.BASE)
    different = {name for name, value in base.to_dict().items() if changed.to_dict()[name] != value}
    assert different == set(recipe.CHANGES[change])
    assert len(different) <= (2 if change == "one cycle, no warm-up" else 1)


def test_the_warm_up_is_all_that_differs_between_both_cycles():
    changes = recipe.CHANGES
    with_it, without = changes["one cycle"], changes["one cycle, no warm-up"]
    assert without == {**with_it, "warm_up_steps": 1}
    share = SCHEDULES["one_cycle"]
    assert share(1, recipe.STEPS, 1) == 1
    assert share(1, recipe.STEPS, recipe.BASE["warm_up_steps"]) < 0.05
