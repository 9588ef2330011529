"""What only 08_additive_attention's notebook must keep; the rest is in test_assignments.py."""

import pytest
from assignments import Assignment
from notebook_tools import execute, outputs, with_source, write

from attentively_grader.course import notebooks
from attentively_grader.course.release import secret_lines

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]

ASSIGNMENT = Assignment("08_additive_attention")
SOURCE, RELEASED = ASSIGNMENT.source, ASSIGNMENT.released


def test_its_parts_and_points_are_these():
    """12 without a tanh, and 20 for a cell that cannot be run."""
    points = {cell.id: cell.metadata.nbgrader.points for cell in ASSIGNMENT.graded_cells}
    assert [*points.values()] == [12, 24, 12, 20, 14, 18]
    lost = [sum(points[each] for each in lost) for _, lost, _ in ASSIGNMENT.handed_in.values()]
    assert lost == [12, 20]


def test_its_secrets_are_known():
    secrets = secret_lines(notebooks.read(SOURCE))
    assert len(secrets) > 25
    assert (
        "key_products = batch * src_len * hidden_dim * key_dim * times_projected  # U h" in secrets
    )


RATE_OUTSIDE = """
def rate(examples, threshold):
    predicted = [links(weights, threshold) for weights, _ in examples]
    return alignment_error_rate(predicted, [gold for _, gold in examples])


def links(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(dim=1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def experiment(validation, test, thresholds):
    best = min(thresholds, key=lambda threshold: rate(validation, threshold))
    return best, rate(test, best)


def least_looked_at(weights):
    return int(weights[:-1, :-1].sum(dim=0).argmin())
"""


def test_no_cell_takes_a_name_that_an_answer_uses(tmp_path):
    """Hint 3 of part 6 suggests the name `rate`; the progress cell calls it once more."""
    solved = with_source(notebooks.read(SOURCE), "alignment", RATE_OUTSIDE)
    ran = execute(write(solved, tmp_path / RELEASED.name))
    shown = "".join(outputs(ran, "alignment-use"))
    assert "chosen threshold" in shown
    assert "This runs once" not in shown
    table = "".join(outputs(ran, "progress-code"))
    assert "6 of 6 solved" in table
