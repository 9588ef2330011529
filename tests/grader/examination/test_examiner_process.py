"""A test that ends the process that runs the tests fails alone."""

import pytest
from grader.examination.test_examiner import failed, notebook, text
from grader.stub_pool import needs_sandbox

from attentively_grader.jobs import Job, Limits
from attentively_grader.workforce.worker_pool import WorkerPool

pytestmark = needs_sandbox


@pytest.fixture(scope="module")
def worker():
    with WorkerPool(1) as pool:
        yield pool


ENDINGS = {
    "sys.exit": "import sys\nsys.exit(0)",
    "exit": "exit()",
    "os._exit": "import os\nos._exit(0)",
    "a signal": "import os\nos.kill(os.getpid(), 9)",
    "a crash": "import ctypes\nctypes.string_at(0)",
    "no end": "sum(range(10**12))",
}


@pytest.mark.parametrize(
    "how",
    [each if each != "no end" else pytest.param(each, marks=pytest.mark.slow) for each in ENDINGS],
)
def test_a_test_that_ends_its_process_fails_alone(worker, how):
    cells = notebook(
        ("student", "def f():\n    return 1"),
        ("test", "assert f() == 1"),
        ("test", ENDINGS[how]),
        ("test", "assert f() == 1"),
        ("test", "assert f() == 2"),
    )
    limits = Limits(seconds=60, cell_seconds=1 if how == "no end" else 20)
    ((_, outcome),) = worker.run([Job("ends", cells, limits=limits, solution=True)])
    assert failed(outcome) == ["test-2", "test-4"]
    if how not in ("sys.exit", "exit"):  # these only raise an error in a notebook
        assert "this test ended the process" in text(outcome.cells[2])


def test_a_warning_in_a_test_does_not_show_its_line(worker):
    test = "import warnings\nassert f() == 1; warnings.warn('old'); secret = 41"
    cells = notebook(("student", "def f():\n    return 1"), ("test", test))
    ((_, outcome),) = worker.run([Job("warns", cells, solution=True)])
    assert text(outcome.cells[1]) == "UserWarning: old\n"
