"""How pages tell published results."""

import pytest

from attentively.experiments.published import spread


def test_mean_lowest_and_highest_in_the_wanted_form():
    assert spread([0.5, 0.75, 0.7]) == "0.65 (0.50–0.75)"
    assert spread((number for number in (3, 1, 8)), "{:.0f}") == "4 (1–8)"
    assert spread([0.8], "{:.0%}") == "80% (80%–80%)"


def test_no_numbers_are_refused():
    with pytest.raises(ValueError, match="no numbers"):
        spread([])
