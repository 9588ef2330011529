"""Small notebooks, examined."""

import re
from types import SimpleNamespace

import pytest
from grader.examining import examined, merged
from notebook_tools import small_notebook

from attentively_grader.examination.examiner import _Examination
from attentively_grader.jobs import Limits
from attentively_grader.wire.messages import Gone, TooLate, WireError


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


def notebook(*cells):
    """Return a merged notebook; each cell is (kind, source), named by its place."""
    made = []
    for place, (kind, source, *tags) in enumerate(cells):
        author = "student" if kind == "student" else "instructor"
        ours = {"author": author, "demonstration": kind == "demonstration"}
        metadata = {"attentively": ours, "tags": tags}
        if kind == "test":
            metadata["nbgrader"] = {"grade": True, "solution": False, "points": 10}
        made.append(
            {
                "cell_type": "code",
                "id": f"{kind}-{place}",
                "metadata": metadata,
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
        )
    return {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def text(cell):
    """Return what a cell printed, or the last line of its error."""
    return "".join(
        each["text"] if each["output_type"] == "stream" else each.get("evalue", "")
        for each in cell.outputs
    )


def test_a_tagged_test_runs_beside_the_students_code_and_is_said_to_be_weaker():
    """It sees what no call shows: the student's variables as they are."""
    outcome = examined(
        notebook(
            ("student", "import math\n_own = 3"),
            ("test", "assert math.pi and 'math' in globals() and _own == 3", "beside-the-student"),
            ("test", "assert _own == 4, 'not four'", "beside-the-student"),
            ("test", "assert True"),
        )
    )
    assert failed(outcome) == ["test-2"]
    assert [cell.weaker for cell in outcome.cells] == [False, True, True, False]


def test_beside_the_student_partial_credit_is_bounded():
    outcome = examined(
        notebook(
            ("test", "7.5", "beside-the-student"),
            ("test", "1000", "beside-the-student"),
            ("test", "-1", "beside-the-student"),
            ("test", "float('nan')", "beside-the-student"),
            ("test", "'10'", "beside-the-student"),
        )
    )
    assert [cell.points for cell in outcome.cells] == [7.5, 10.0, 0.0, 0.0, None]


def test_partial_credit_is_the_last_number_of_the_instructors_test():
    outcome = examined(
        notebook(
            ("student", "def count():\n    return 4"),
            ("test", "2.5 * count()"),
            ("test", "2.5 if count() == 5 else 0"),
            (
                "test",
                "count()",
            ),  # a number that the student chose, but the test let it be the score
            ("test", "assert count() == 4"),
            ("test", "1 / 0"),
        )
    )
    assert [cell.points for cell in outcome.cells[1:]] == [10.0, 0.0, 4.0, None, None]
    assert failed(outcome) == ["test-5"]


def test_what_the_student_shows_is_no_score():
    outcome = examined(
        notebook(
            ("student", "def f():\n    import sys\n    sys.displayhook(10)\n    print(10)\n    10"),
            ("test", "assert f() == 3"),
            ("test", "f()"),
        )
    )
    assert failed(outcome) == ["test-1"]
    assert [cell.points for cell in outcome.cells] == [None, None, None]


def test_figures_and_tables_are_kept():
    outcome = examined(
        notebook(
            ("student", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
            ("student", "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))\n41"),
        )
    )
    (picture,) = [
        each for each in outcome.cells[0].outputs if "data" in each and "image/png" in each["data"]
    ]
    assert picture["data"]["image/png"].startswith("iVBOR")  # as PNGs begin, in base64
    shown = [each["data"] for each in outcome.cells[1].outputs]
    assert shown[0]["text/html"] == "<b>x</b>"
    assert shown[1]["text/plain"] == "41"


@pytest.fixture
def _drawing_to_files():
    """Matplotlib is loaded and set up for files, as a warm import may leave it."""
    import matplotlib
    import matplotlib.pyplot as plt

    before = matplotlib.get_backend()
    plt.switch_backend("agg")
    yield
    plt.switch_backend(before)


@pytest.mark.usefixtures("_drawing_to_files")
def test_figures_are_kept_whatever_matplotlib_was_set_to():
    outcome = examined(
        notebook(
            ("student", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
            ("test", "import matplotlib.pyplot as plt\nplt.bar([0], [1])\nplt.show()"),
        )
    )
    for cell in outcome.cells:
        assert any("image/png" in each.get("data", {}) for each in cell.outputs)


def test_a_figure_that_a_test_draws_is_kept():
    outcome = examined(
        notebook(
            ("student", "def height():\n    return 2.0"),
            ("test", "import matplotlib.pyplot as plt\nplt.bar([0], [height()])\nplt.show()"),
        )
    )
    assert failed(outcome) == []
    assert any("image/png" in each.get("data", {}) for each in outcome.cells[1].outputs)


def test_an_instructors_cell_runs_on_both_sides_where_a_test_rests_on_it():
    outcome = examined(
        notebook(
            ("given", "scale = 3\nprint('here once')"),
            ("student", "def scaled(x):\n    return x * scale"),
            ("test", "assert scaled(2) == 2 * scale"),
        )
    )
    assert failed(outcome) == []
    assert text(outcome.cells[0]) == "here once\n"


def test_a_test_sees_the_instructors_value_and_not_the_students():
    """Who writes over a given name writes over it in one process only."""
    outcome = examined(
        notebook(
            ("given", "def expected(x):\n    return x + 1"),
            ("student", "def f(x):\n    return -1"),
            ("given", "from math import isclose"),
            ("student", "isclose = lambda a, b: True"),
            ("given", "from math import isclose"),
            ("test", "assert isclose(f(1), expected(1))"),
        )
    )
    assert failed(outcome) == ["test-5"]


RIGHT = """def double(x):
    return 2 * x"""
IMPORTS = {
    "import": f"import torch\n{RIGHT}",
    "import of another": f"import numpy as torch, torch as t\n{RIGHT}",
    "timed": f"%%time\n{RIGHT}",
    "global": "def make():\n    global double\n    def double(x):\n        return 2 * x\nmake()",
    "exec": f"exec({RIGHT!r})",
    "star": f"import sys, types\nm = types.ModuleType('mine')\nexec({RIGHT!r}, vars(m))\n"
    "sys.modules['mine'] = m\nfrom mine import *",
}


@pytest.mark.parametrize("way", IMPORTS)
def test_a_right_answer_passes_whatever_else_its_cell_binds_and_however(way):
    cells = notebook(
        ("given", "import torch"),
        ("student", IMPORTS[way]),
        ("test", "y = double(torch.ones(2))\nassert isinstance(y, torch.Tensor) and y.sum() == 4"),
    )
    cells["cells"][1]["metadata"]["attentively"]["binds"] = ["double"]
    assert failed(examined(cells)) == []
    del cells["cells"][1]["metadata"]["attentively"]["binds"]  # the source has no solution
    assert failed(examined(cells)) == []


@pytest.mark.parametrize("text", ["import numpy as np\nimport torch", "", "torch = None"])
def test_a_test_rests_on_what_the_instructor_wrote_even_where_it_was_changed(text):
    cells = notebook(
        ("student", text),
        ("student", f"import torch\n{RIGHT}"),
        ("test", "assert torch.equal(double(torch.ones(2)), torch.full((2,), 2.0))"),
    )
    cells["cells"][0]["metadata"]["attentively"]["original"] = "import torch"
    assert failed(examined(cells)) == []


def test_the_process_may_die_several_times():
    """What stood before is run again in a new one, but for the cell that died."""
    die = "import os\nos._exit(3)"
    outcome = examined(
        notebook(
            ("student", "def one():\n    return 1"),
            ("student", die),
            ("test", "assert one() == 1"),
            ("student", f"def two():\n    {die.replace(chr(10), chr(10) + '    ')}"),
            ("test", "assert two() == 2"),
            ("student", "def three():\n    return one() + 2"),
            ("student", die),
            ("test", "assert three() == 3"),
        )
    )
    assert failed(outcome) == ["student-1", "test-4", "student-6"]
    for place in (1, 4, 6):
        assert "your code stopped here" in text(outcome.cells[place])
        assert "3" in text(outcome.cells[place])


def test_an_error_in_a_students_cell_ends_that_cell_alone():
    outcome = examined(
        notebook(
            ("student", "def f():\n    return 1\n\nraise KeyError('mine')"),
            ("test", "assert f() == 1"),
            ("test", "assert g() == 1"),
        )
    )
    assert failed(outcome) == ["student-0", "test-2"]
    assert "mine" in text(outcome.cells[0])
    assert "g" in text(outcome.cells[2])


def test_tracebacks_call_a_cell_by_its_place_on_either_side():
    """One and the same, though neither process runs them all; after a new beginning too."""
    outcome = examined(
        notebook(
            ("teacher", "limit = 3"),
            ("student", "def f(x):\n    return 1 / x"),
            ("test", "assert limit"),
            ("student", "import os\nos._exit(3)"),
            ("student", "f(0)"),
            ("test", "limit\nf(0)"),
        )
    )
    for place in (4, 5):
        (error,) = outcome.cells[place].outputs
        shown = re.findall(r"Cell In\[(\d+)\], line (\d+)", "\n".join(error["traceback"]))
        assert shown == [(str(place + 1), str(place - 3)), ("2", "2")]


def test_magics_and_broken_python_do_not_stop_the_rest():
    outcome = examined(
        notebook(
            ("student", "%matplotlib inline\n%timeit -n1 -r1 sum([1])"),
            ("student", "def f(:\n    pass"),
            ("student", "def g():\n    return 5"),
            ("test", "assert g() == 5"),
        )
    )
    assert failed(outcome) == ["student-1"]


def test_what_a_call_prints_is_shown_at_the_test():
    outcome = examined(
        notebook(
            ("student", "def f():\n    print('from the call')\n    return 1"),
            ("test", "print('before')\nassert f() == 1\nprint('after')"),
        )
    )
    assert text(outcome.cells[1]) == "before\nfrom the call\nafter\n"


def test_seeds_are_shared():
    outcome = examined(
        notebook(
            ("given", "import random, torch, numpy as np"),
            (
                "student",
                "def draw():\n    return random.random(), torch.rand(2), np.random.rand()",
            ),
            (
                "test",
                "def seed():\n    random.seed(1); torch.manual_seed(1); np.random.seed(1)\n"
                "seed(); one = draw()\n"
                "seed(); two = (random.random(), torch.rand(2), np.random.rand())\n"
                "assert one[0] == two[0] and torch.equal(one[1], two[1]) and one[2] == two[2]",
            ),
        )
    )
    assert failed(outcome) == []


def test_what_follows_the_last_test_runs_once():
    """A progress cell, for example, whose names no test needs."""
    student = ("student", "calls = []\ndef f():\n    calls.append(1)")
    progress = ("given", "globals()\nf()")
    last = ("student", "print(len(calls))")
    outcome = examined(notebook(student, ("test", "assert callable(f)"), progress, last))
    assert text(outcome.cells[-1]) == "1\n"
    outcome = examined(notebook(student, progress, ("test", "assert callable(f)"), last))
    assert text(outcome.cells[-1]) == "2\n"  # here it may bind a name of the test


def test_demonstrations_are_left_out_unless_a_cell_uses_their_names():
    student = ("student", "calls = []\ndef f():\n    calls.append(1)\n    return 1")
    shown = ("demonstration", "def show():\n    global x\n    x = f()\nshow()")
    last = ("test", "assert len(calls) == 0")
    left_out = examined(notebook(student, shown, ("demonstration", "show()"), last))
    assert failed(left_out) == []
    assert "not run in grading" in text(left_out.cells[1])
    ran = examined(notebook(student, shown, last))
    assert failed(ran) == []
    for user in (("student", "y = x"), ("given", "y = x"), ("test", "assert x == 1")):
        ran = examined(notebook(student, shown, user, ("test", "assert calls")))
        assert failed(ran) == []
    own = ("student", "globals()\nf()")  # as the last cell of an assignment, written by a student
    assert failed(examined(notebook(student, own, last))) == ["test-2"]


@pytest.mark.parametrize(
    ("dead", "why"),
    [
        (TooLate("late"), "it ran longer than 3 seconds"),
        (WireError("an answer is malformed"), "an answer is malformed"),
        (Gone("the process has ended"), "it ended its own process (exit 0)"),
    ],
)
def test_a_process_that_ends_because_the_examiner_hangs_up_is_not_the_reason(dead, why):
    examination = object.__new__(_Examination)
    examination.deadly, examination.ran, examination.reason = set(), {}, ""
    examination.limits = Limits(cell_seconds=3)
    examination.time = SimpleNamespace(left=lambda: 1.0)
    examination.endpoint = SimpleNamespace(wire=SimpleNamespace(dead=dead))
    examination._next_process = lambda: "it ended its own process (exit 0)"
    examination._alive = lambda: True
    assert examination._why({"id": "part-1"}) == why
