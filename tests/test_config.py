"""A configuration survives the trip to a file, and says what it does not understand."""

import dataclasses
import json

import pytest

from attentively.config import Config, check_seed


@dataclasses.dataclass(frozen=True)
class Recipe(Config):
    flour: int
    salt: float
    rising: str = "yeast"
    toppings: tuple[str, ...] = dataclasses.field(default_factory=tuple)


def test_round_trip_through_json():
    recipe = Recipe(flour=500, salt=0.1, rising="baking powder")
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    values = json.loads(json.dumps(Recipe(500, 0.1).to_dict()))
    assert values == {"flour": 500, "salt": 0.1, "rising": "yeast", "toppings": []}


def test_defaults_may_be_left_out():
    assert Recipe.from_dict({"flour": 3, "salt": 0.5}) == Recipe(3, 0.5)


def test_an_unknown_name_is_refused_with_those_known():
    with pytest.raises(
        ValueError, match=r"Recipe has no field \['sugar'\]; its fields are \['flour', 'rising'"
    ):
        Recipe.from_dict({"flour": 3, "salt": 0.5, "sugar": 7})


def test_missing_names_are_listed():
    with pytest.raises(
        ValueError, match=r"Recipe needs values for \['flour', 'salt'\], which are missing"
    ):
        Recipe.from_dict({"rising": "hope"})


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe(3, 0.5).flour = 4


def test_a_seed_has_sixty_four_bits():
    for seed in (-(2**63), -1, 0, 2**63 - 1):
        check_seed(seed)
    for seed in (-(2**63) - 1, 2**63, 10**23):
        with pytest.raises(ValueError, match=f"seed={seed} must be from"):
            check_seed(seed)
