"""Tests that share what takes long to make stay together."""

from collections import OrderedDict

import pytest
from side_by_side import ALONE, FIRST, Sharing, shared

FILE = "tests/notebooks/test_assignments.py"
BANK = "tests/exercises"


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/test_masks.py::test_by_hand", "tests/test_masks.py"),
        ("tests/test_masks.py::test_sizes[12-3]", "tests/test_masks.py"),
        (f"{FILE}::test_points[00_tools-solution]", f"{FILE} 00_tools"),
        (f"{FILE}::test_points[00_tools]", f"{FILE} 00_tools"),
        (f"{FILE}::test_points[08_additive_attention-solution]", f"{FILE} 08_additive_attention"),
        (
            f"{FILE}::test_right[True-13_positional_encoding-order-0]",
            f"{FILE} 13_positional_encoding",
        ),
        (f"{BANK}/test_answers.py::test_part[09_scores-local]", f"{BANK} 09_scores"),
        (f"{BANK}/test_questions.py::test_known[09_scores]", f"{BANK} 09_scores"),
        ("tests/notebooks/test_grading.py::test_points[00_tools-solution]", FIRST[1]),
        ("tests/notebooks/test_grading.py::test_points[01_embeddings-solution]", FIRST[1]),
        ("tests/site/test_site.py::test_links", "tests/site"),
        ("tests/site/test_transformer_map.py::test_links[dark]", "tests/site"),
        ("tests/site/test_widgets.py::test_x[gates]", "tests/site/test_widgets.py"),
        (f"{ALONE[0]}::test_all[pages-1]", f"{ALONE[0]}::test_all[pages-1]"),
        (f"{ALONE[1]}[0]", f"{ALONE[1]}[0]"),
    ],
)
def test_what_is_shared(nodeid, group):
    assert shared(nodeid) == group


class Node:
    """A process that runs tests, as the scheduler knows it."""

    def __init__(self):
        self.given = []

    def send_runtest_some(self, numbers):
        self.given += numbers


def test_what_takes_longest_starts_first():
    tests = ["tests/test_a.py::test", f"{FIRST[1]}::test", f"{ALONE[0]}::test[1]", "tests/site/x"]
    tests += ["tests/site/test_widgets.py::test", f"{ALONE[1]}[0]"]
    node, scheduling = Node(), object.__new__(Sharing)
    scheduling.workqueue = OrderedDict((shared(each), {each: False}) for each in tests)
    scheduling.assigned_work, scheduling.registered_collections = {node: {}}, {node: tests}
    while scheduling.workqueue:
        scheduling._assign_work_unit(node)
    assert node.given == [3, 1, 4, 2, 5, 0]
