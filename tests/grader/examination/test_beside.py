"""Graded cells that run next to the student's code, in a process of their own."""

from grader.examination.test_examiner import failed, notebook, text
from grader.examining import examined

from attentively_grader.jobs import Limits

PLOT = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.set_title('Sums')"


def shown(outcome):
    """Return what each cell showed."""
    return [text(cell) for cell in outcome.cells]


def test_what_cannot_be_carried_across_is_seen_beside_the_student():
    cells = notebook(
        ("student", PLOT),
        ("test", "assert axes.get_title() == 'Sums'"),
        ("test", "assert figure.axes == [axes], 'no'\n2.5"),
        ("test", "assert axes.get_title() == 'Differences'"),
    )
    outcome = examined(cells, beside=("test-1", "test-2", "test-3"))
    assert failed(outcome) == ["test-3"]
    assert [cell.points for cell in outcome.cells] == [None, None, 2.5, None]
    assert [cell.weaker for cell in outcome.cells] == [False, True, True, True]


SPY = """
def f():
    import inspect
    return [name for name in ("secret", "needed", "given") if name in globals()]
"""


def test_only_the_tests_whose_names_are_needed_enter_that_process():
    outcome = examined(
        notebook(
            ("student", SPY),
            ("given", "given = 1"),
            ("test", "secret = 1\nassert f() == ['given']"),
            ("test", "needed = 3\nx = 1"),
            ("test", "x = 2\nprint(f())\nassert needed == 3 and x == 2"),
        ),
        beside=("test-4",),
    )
    assert failed(outcome) == []
    assert text(outcome.cells[4]) == "['needed', 'given']\n"


def test_the_main_run_does_not_see_what_a_cell_beside_the_student_binds():
    outcome = examined(
        notebook(
            ("student", "def f():\n    return 'secret' in globals()"),
            ("test", "secret = 1\nassert f()"),
            ("test", "assert not f()"),
            ("test", "secret"),
        ),
        beside=("test-1",),
    )
    assert failed(outcome) == ["test-3"]


def test_every_cell_runs_there_from_the_top_with_errors_and_warnings():
    outcome = examined(
        notebook(
            ("student", "import sys\nx = [1]\nraise ValueError"),
            ("student", "x.append(2)"),
            ("test", "print('old', file=sys.stderr)\nx.append(3)\nassert x == [1, 2, 3]"),
            ("test", "assert True"),
        ),
        beside=("test-2",),
    )
    assert failed(outcome) == ["student-0"]
    assert "old" in text(outcome.cells[2])


def test_a_cell_that_ended_the_process_is_not_run_again():
    """The other cells run in the second pass, with their state."""
    outcome = examined(
        notebook(
            ("student", "def f():\n    return 1"),
            ("student", "import os\nos._exit(3)"),
            ("test", "assert f() == 1"),
            ("test", "assert f() == 1"),
        ),
        beside=("test-3",),
    )
    assert failed(outcome) == ["student-1"]


def test_a_cell_beside_the_student_that_does_not_end_fails_alone():
    outcome = examined(
        notebook(
            ("student", "def f():\n    while True: pass"),
            ("test", "f()"),
            ("test", "assert callable(f)"),
            ("test", "assert True"),
        ),
        limits=Limits(seconds=120, cell_seconds=5),
        beside=("test-1", "test-2"),
    )
    assert failed(outcome) == ["test-1"]
    assert "your code stopped here" in text(outcome.cells[1])


def test_the_tag_means_the_same():
    cells = notebook(
        ("student", "calls = []\ndef f():\n    calls.append(1)"),
        ("test", "f()\nassert len(calls) == 1"),
        ("test", "calls.clear()\nassert calls == [] and 'f' in globals()", "beside-the-student"),
    )
    outcome = examined(cells)
    assert failed(outcome) == []
    assert [cell.weaker for cell in outcome.cells] == [False, False, True]
