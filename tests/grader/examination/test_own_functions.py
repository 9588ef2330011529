"""What a part rebuilds is turned down in grading too, where the student's code runs elsewhere."""

import pytest
from grader.examining import examined, merged
from nbformat.v4 import new_code_cell, new_notebook

from attentively.checks import self_attention

GIVEN = """
import torch
import torch.nn.functional as F
from attentively.attention import scaled_dot_product as package
from attentively.attention.scaled_dot_product import scaled_dot_product_attention as alias
from attentively.checks import self_attention as checks
"""
RIGHT = """
def attention(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights
"""
TURNED_DOWN = {
    "itself": "attention = package.scaled_dot_product_attention",
    "in a wrapper": """
def attention(query, key, value, mask=None):
    return alias(query, key, value, mask)
""",
    "PyTorch's": """
def attention(query, key, value, mask=None):
    context = F.scaled_dot_product_attention(query, key, value, mask)
    return context, torch.ones(*query.shape[:-1], key.size(-2))
""",
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)


def verdict(answer):
    """Return the message of a graded test against an answer, or None if it passes."""
    flags = {"grade_id": "a", "locked": False, "schema_version": 3, "points": 1, "task": False}
    answered = new_code_cell(
        RIGHT, id="a", metadata={"nbgrader": {**flags, "solution": True, "grade": False}}
    )
    check = new_code_cell(
        "checks.attention(attention)",
        id="t",
        metadata={"nbgrader": {**flags, "grade_id": "t", "solution": False, "grade": True}},
    )
    cells = [new_code_cell(GIVEN, id="given"), answered, check]
    outcome = examined(merged(new_notebook(cells=cells), {"a": answer}))
    (cell,) = (each for each in outcome.cells if each.id == "t")
    said = [str(each) for each in cell.outputs if each["output_type"] == "error"]
    return "".join(said) if cell.failed else None


def test_a_right_answer_passes():
    assert verdict(RIGHT) is None


@pytest.mark.parametrize("name", TURNED_DOWN)
def test_own_functions_are_turned_down(name):
    said = verdict(TURNED_DOWN[name])
    assert said is not None
    assert "own functions are not accepted" in " ".join(said.replace("\\n", " ").split())


def test_without_the_policy_they_pass(monkeypatch):
    """The broken variant: what turns them down is the list of the part."""
    monkeypatch.setattr(self_attention.attention, "rebuilds", ())
    monkeypatch.setattr(self_attention.attention, "refuses", ())
    assert verdict(TURNED_DOWN["in a wrapper"]) is None
