"""Limits that the examiner enforces, whatever the student process says."""

import json

import pytest
from grader.examination.test_examiner import failed, notebook, text
from grader.examining import examined

from attentively_grader.examination.output_limits import OutputLimits
from attentively_grader.jobs import Limits

STREAM = {"output_type": "stream", "name": "stdout", "text": "x"}
FLOODS = {
    "text of a patched limit": "get_ipython().collected._left = 10**12\nprint('x' * 2**24)",
    "many outputs": (
        "c = get_ipython().collected\n"
        "c.kept += [{'output_type': 'display_data', 'data': {}, 'metadata': {}}] * 100_000"
    ),
    "many streams": (
        "c = get_ipython().collected\n"
        "c.kept += [{'output_type': 'stream', 'name': n, 'text': 'x'} for n in"
        " ('stdout', 'stderr')] * 50_000"
    ),
    "many errors": (
        "c = get_ipython().collected\n"
        "c.kept += [{'output_type': 'error', 'ename': 'E', 'evalue': 'x' * 10_000,"
        " 'traceback': ['x' * 10_000] * 50}] * 20"
    ),
    "images": (
        "c = get_ipython().collected\n"
        "c.kept += [{'output_type': 'display_data', 'data': {'image/png': 'x' * 2**20},"
        " 'metadata': {}}] * 20"
    ),
    "metadata": (
        "c = get_ipython().collected\n"
        "c.kept += [{'output_type': 'display_data', 'data': {'text/plain': 'x'},"
        " 'metadata': {'a': 'x' * 10_000}}] * 400"
    ),
}


@pytest.mark.parametrize("what", FLOODS)
def test_output_is_cut_by_the_examiner(what):
    cells = notebook(("student", FLOODS[what]), ("test", "assert True"))
    first, second = examined(cells, Limits(output_kib=64)).cells
    assert len(json.dumps(first.outputs)) < 10 * 64 * 1024
    assert len(first.outputs) <= Limits.outputs + 1
    assert not second.failed


def test_what_a_call_prints_is_cut_too():
    flood = "def f():\n    import sys\n    for _ in range(40_000):\n        print('x')\n"
    flood += "        print('y', file=sys.stderr)"
    cells = notebook(("student", flood), ("test", "f()"))
    outcome = examined(cells, Limits(output_kib=64))
    assert len(json.dumps(outcome.cells[1].outputs)) < 2 * 64 * 1024
    assert len(outcome.cells[1].outputs) <= Limits.outputs + 1


def test_all_outputs_of_a_notebook_have_a_limit():
    limits = OutputLimits(Limits(output_kib=4, notebook_output_kib=8, notebook_outputs=5))
    page = {"output_type": "display_data", "data": {"text/html": "x" * 3000}, "metadata": {}}
    kept = [limits.allowed([page]) for _ in range(4)]
    assert [any("data" in each for each in cell) for cell in kept] == [True, True, False, False]
    limits = OutputLimits(Limits(notebook_outputs=5))
    assert sum(len(limits.allowed([page] * 3)) for _ in range(9)) <= 5 + 9


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


MALFORMED = [
    None,
    "text",
    {},
    {"output_type": ["stream"]},
    {**STREAM, "text": 3},
    {**STREAM, "name": "stdin"},
    {"output_type": "display_data", "data": {"application/json": nested(50)}, "metadata": {}},
    {"output_type": "display_data", "data": {"image/png": {"a": 1}}, "metadata": {}},
    {"output_type": "display_data", "data": {3: "x"}, "metadata": {}},
    {"output_type": "display_data", "data": [], "metadata": {}},
    {"output_type": "error", "ename": "E", "evalue": "e", "traceback": [1]},
]


@pytest.mark.parametrize("output", MALFORMED, ids=str)
def test_what_is_not_an_output_is_dropped(output):
    assert OutputLimits(Limits()).allowed([output, STREAM]) == [STREAM]
    assert OutputLimits(Limits()).allowed(output) == []


def test_outputs_have_known_keys_only():
    output = {**STREAM, "more": 1}
    shown = {
        "output_type": "execute_result",
        "data": {"text/plain": ["a\n", "b"], "application/json": {"a": [1, None]}},
        "metadata": {"deep": nested(50)},
        "execution_count": 10**400,
        "transient": {},
    }
    assert OutputLimits(Limits()).allowed([output, shown]) == [
        STREAM,
        {
            "output_type": "execute_result",
            "data": {"text/plain": "a\nb", "application/json": {"a": [1, None]}},
            "metadata": {},
            "execution_count": None,
        },
    ]


SLOW = "import time\ntime.sleep(2.5)"


def test_a_part_takes_no_time_of_later_parts():
    """Each cell wastes as much as it may."""
    outcome = examined(
        notebook(
            ("student", "def one():\n    return 1"),
            ("test", "assert one() == 1"),
            *[("student", "while True: pass")] * 4,
            ("test", "assert two() == 2"),
            ("student", "def three():\n    return one() + 2"),
            ("test", "assert three() == 3"),
        ),
        Limits(seconds=12, cell_seconds=4),
    )
    assert failed(outcome) == [f"student-{n}" for n in (2, 3, 4, 5)] + ["test-6"]
    assert outcome.end == "timeout"
    assert "the time of this part is used up" in text(outcome.cells[5])


def test_what_took_long_is_not_repeated_again_and_again():
    """The other cells are, so that their names are there."""
    die = "import os\nos._exit(3)"
    outcome = examined(
        notebook(
            ("student", "def one():\n    return 1"),
            ("student", SLOW),
            ("test", "assert one() == 1"),
            *[("student", die), ("test", "assert one() == 1")] * 3,
        ),
        Limits(seconds=12, cell_seconds=4),
    )
    assert failed(outcome) == ["student-3", "student-5", "student-7"]
    assert outcome.seconds < 8


def test_many_cells_that_end_the_process_take_the_time_of_their_part_alone():
    outcome = examined(
        notebook(
            *[("student", "import os\nos._exit(3)")] * 60,
            ("test", "assert True"),
            ("student", "def one():\n    return 1"),
            ("test", "assert one() == 1"),
        ),
        Limits(seconds=20),
    )
    assert not outcome.cells[-1].failed


COUNTING = "count = 0\ndef f(x):\n    global count\n    count += 1\n    return count"
SORTING = COUNTING + "\ncounted = f\ndef f(x):\n    x.sort()\n    return counted(x)"


def test_the_second_run_of_a_test_finds_the_students_state_as_the_first_did():
    """It is needed because the answer changes its argument, and the solution does not."""
    cells = notebook(
        ("student", SORTING),
        ("test", "assert f([2, 1]) == 1 and f([1]) == 2"),
        ("test", "x = [2, 1]\nassert f(x) > 0\nassert x == [2, 1]"),
    )
    outcome = examined(cells, returned={"f": ["function"], "f()": ["plain int"]})
    assert failed(outcome) == ["test-2"]
