"""Small notebooks, examined."""

import pytest
from grader.examining import examined, merged
from notebook_tools import small_notebook


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)


def failed(outcome):
    return [cell.id for cell in outcome.cells if cell.failed]


def test_the_solution_of_a_small_notebook_passes():
    outcome = examined(merged(small_notebook()))
    assert outcome.end == "complete"
    assert failed(outcome) == []


def test_a_wrong_answer_fails_its_test_alone():
    wrong = {"part-1": "def part_1():\n    return 7"}
    assert failed(examined(merged(small_notebook(), wrong))) == ["check-1"]
